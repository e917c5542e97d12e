package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// programs are what is built.
var programs = []string{"memoryd", "memoryctl", "memory-agent"}

// release is what is known about what is made, and where it is.
type release struct {
	root  string // of the repository
	out   string
	stage string // what goes into packages, below out

	// What Go stamped into the binaries; known once one is built.
	version  string // v1.2.3, or of a commit without a tag v1.2.4-0.20261130120000-0123456789ab
	revision string
	time     time.Time // of the commit

	documented bool // share is there
}

func newRelease(root, out string) (*release, error) {
	r := &release{}
	var err error
	if r.root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	r.stage = filepath.Join(r.out, "stage")
	return r, makeDir(r.stage)
}

// build builds the programs for a platform, and returns the directory that they are in.
func (r *release) build(ctx context.Context, p platform) (dir string, err error) {
	dir = filepath.Join(r.stage, p.os+"_"+p.arch)
	args := []string{"build", "-buildvcs=true", "-trimpath", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, program := range programs {
		args = append(args, "./cmd/"+program)
	}
	if _, err := r.goCommand(ctx, []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0"}, args...); err != nil {
		return "", err
	}
	return dir, r.readVersion(filepath.Join(dir, "memoryd"+extension(p)))
}

func extension(p platform) string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

// readVersion reads what Go has stamped into a binary.
func (r *release) readVersion(binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	r.version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.revision = s.Value
		case "vcs.time":
			if r.time, err = time.Parse(time.RFC3339, s.Value); err != nil {
				return fmt.Errorf("%s: the time of the commit: %w", binary, err)
			}
		}
	}
	if r.time.IsZero() {
		return fmt.Errorf("%s does not say which commit it was built from: build in a clone of the repository", binary)
	}
	return nil
}

// number is the version without its v, as names of files have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// share makes, once, what is the same on every platform, and returns the directory that it is in: man with the manual
// pages, completions, and THIRD_PARTY_LICENSES.
func (r *release) share(ctx context.Context) (dir string, err error) {
	dir = filepath.Join(r.stage, "share")
	if r.documented {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	here, err := r.build(ctx, platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return "", err
	}
	if err := r.manPages(ctx, filepath.Join(dir, "man")); err != nil {
		return "", err
	}
	if err := completions(ctx, here, filepath.Join(dir, "completions")); err != nil {
		return "", err
	}
	if err := r.licenses(ctx, filepath.Join(dir, "THIRD_PARTY_LICENSES")); err != nil {
		return "", err
	}
	r.documented = true
	return dir, nil
}

// manPages writes the manual pages. The commands know what they do; a test of each program writes it down.
func (r *release) manPages(ctx context.Context, dir string) error {
	args := []string{"test", "-count=1", "-run=^TestManPages$"}
	for _, program := range programs {
		args = append(args, "./cmd/"+program)
	}
	env := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()), "TZ=UTC"}
	flat := filepath.Join(dir, "flat")
	if _, err := r.goCommand(ctx, env, append(args, "-man="+flat)...); err != nil {
		return err
	}
	pages, err := os.ReadDir(flat)
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(flat, page.Name()))
		if err != nil {
			return err
		}
		compressed, err := compress(text)
		if err != nil {
			return err
		}
		section := "man" + strings.TrimPrefix(filepath.Ext(page.Name()), ".")
		if err := writeContent(filepath.Join(dir, section, page.Name()+".gz"), compressed); err != nil {
			return err
		}
	}
	return os.RemoveAll(flat)
}

// completions writes the completions of the programs for every shell, under the names that the shells want.
func completions(ctx context.Context, bin, dir string) error {
	for _, program := range programs {
		for shell, name := range map[string]string{
			"bash": program + ".bash", "zsh": "_" + program, "fish": program + ".fish", "powershell": program + ".ps1",
		} {
			//nolint:gosec // It is a program that was just built.
			script, err := exec.CommandContext(ctx, filepath.Join(bin, program), "completion", shell).Output()
			if err != nil {
				return fmt.Errorf("%s completion %s: %w", program, shell, err)
			}
			if err := writeContent(filepath.Join(dir, name), script); err != nil {
				return err
			}
		}
	}
	return nil
}

// goCommand runs the go command in the repository, and returns what it prints.
func (r *release) goCommand(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // The arguments are those of this program.
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return out, nil
}

// compress compresses a file that is in a package as it is, without a name and a time.
func compress(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
