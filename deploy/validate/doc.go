// Package validate checks what deploy/ has for Kubernetes and for Docker Compose, without a cluster and without Docker.
//
// It builds every kustomization, decodes every object strictly, and validates it with the code of the API server. It
// loads the compose file. Then it checks what neither can know: that a setting is one of memoryd's and a file that it
// names is mounted, that a probe asks where health is told, that no second pod opens the memories. Its tests run
// memoryd as the manifests would: with their environment, arguments and volumes, asked by their probes.
//
// It is a module of its own, since nothing of memoryd needs the libraries of Kubernetes.
package validate

import (
	"errors"
	"fmt"
	"io/fs"
)

// Files are the texts of the files of a directory, by their paths below it.
type Files map[string]string

// ReadFiles reads all files of a directory.
func ReadFiles(fsys fs.FS) (Files, error) {
	files := Files{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(fsys, name)
		files[name] = string(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read files: %w", err)
	}
	return files, nil
}

// problems collects what is wrong, all of it.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// err is everything that is wrong, nil where nothing is.
func (p problems) err() error { return errors.Join(p...) }
