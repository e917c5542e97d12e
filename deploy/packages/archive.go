package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// archives makes an archive of the programs for every platform.
func archives(ctx context.Context, r *release, platforms []platform) error {
	if err := removeOld(r.out, "memoryd_*.tar.gz", "memoryd_*.zip"); err != nil {
		return err
	}
	share, err := r.share(ctx)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		bin, err := r.build(ctx, p)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("memoryd_%s_%s_%s", r.number(), p.os, p.arch)
		files := r.files(p, bin, share)
		for i := range files {
			files[i].name = path.Join(name, files[i].name)
		}
		file, write := name+".tar.gz", writeTarGzip
		if p.os == "windows" {
			file, write = name+".zip", writeZip
		}
		err = writeFile(filepath.Join(r.out, file), func(w io.Writer) error { return write(w, files, r.time) })
		if err != nil {
			return err
		}
	}
	return nil
}

// file is one file of an archive.
type file struct {
	name   string // in the archive; a directory ends with a slash
	source string // "": content
	// content is what a file without a source has.
	content []byte
	mode    fs.FileMode
	owner   int // user and group
}

// documentation are the directories of the repository with what operators read and load into their own services. They
// keep their places beside README.md, so that links lead to them. nfpm.yaml has them too.
var documentation = []string{"docs", "deploy/prometheus", "deploy/grafana"}

// files are those of the archive for a platform.
func (r *release) files(p platform, bin, share string) []file {
	var files []file
	for _, program := range programs {
		name := program + extension(p)
		files = append(files, file{name: name, source: filepath.Join(bin, name), mode: 0o755})
	}
	add := func(name, source string) { files = append(files, file{name: name, source: source, mode: 0o644}) }
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		add(name, filepath.Join(r.root, name))
	}
	add("THIRD_PARTY_LICENSES", filepath.Join(share, "THIRD_PARTY_LICENSES"))
	addAll := func(name, dir string) {
		sources, err := filepath.Glob(dir)
		if err != nil {
			panic(err) // Only a mistake in a pattern makes it fail.
		}
		for _, source := range sources {
			add(path.Join(name, filepath.Base(source)), source)
		}
	}
	for _, dir := range documentation {
		addAll(dir, filepath.Join(r.root, dir, "*.*"))
	}
	addAll("completions", filepath.Join(share, "completions", "*"))
	if p.os != "windows" {
		addAll("man/man1", filepath.Join(share, "man", "man1", "*"))
		addAll("man/man8", filepath.Join(share, "man", "man8", "*"))
	}
	if p.os == "linux" {
		addAll("systemd", filepath.Join(r.root, "deploy", "systemd", "*"))
	}
	return files
}

func writeTarGzip(w io.Writer, files []file, modified time.Time) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(compressed, files, modified), compressed.Close())
}

func writeTar(w io.Writer, files []file, modified time.Time) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		content, err := f.read()
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(content)), ModTime: modified,
			Uid: f.owner, Gid: f.owner, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeZip(w io.Writer, files []file, modified time.Time) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range files {
		content, err := f.read()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified.UTC()}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (f file) read() ([]byte, error) {
	if f.source == "" {
		return f.content, nil
	}
	return os.ReadFile(f.source)
}

// makeDir makes a directory that everybody can read, with those above it.
func makeDir(path string) error { return os.MkdirAll(path, 0o755) } //nolint:gosec // A release is for everybody.

// writeContent makes a file, and the directory that it is in.
func writeContent(path string, content []byte) error {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// writeFile makes a file of what is written.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
