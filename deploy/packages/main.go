// Command packages makes what a release of memoryd consists of: archives with binaries for every platform, a container
// image, and Debian packages. `make dist`, `make image` and `make deb` run it.
//
//	go run . [-out DIR] [-platforms LIST] archives|image|deb ...
//
// The same commit, built by the same version of Go, gives the same bytes: everything is dated the commit. The version
// is the one that Go stamps into the binaries, so that what a file is called is what `memoryd version` says.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// allPlatforms are those that releases are for.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "packages: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	root := flags.String("root", "../..", "`directory` of the repository")
	out := flags.String("out", "../../dist", "`directory` for what is made")
	list := flags.String("platforms", allPlatforms, "GOOS/GOARCH of the archives, with commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	kinds := map[string]func(context.Context, *release, []platform) error{
		"archives": archives, "image": image, "deb": debs,
	}
	for _, kind := range flags.Args() {
		if kinds[kind] == nil {
			return fmt.Errorf("%q is not archives, image or deb", kind)
		}
	}
	if flags.NArg() == 0 {
		return errors.New("nothing to make: give archives, image or deb")
	}
	platforms, err := parsePlatforms(*list)
	if err != nil {
		return err
	}
	r, err := newRelease(*root, *out)
	if err != nil {
		return err
	}
	for _, kind := range flags.Args() {
		if err := kinds[kind](ctx, r, platforms); err != nil {
			return fmt.Errorf("make %s: %w", kind, err)
		}
	}
	return writeSums(r.out)
}

// platform is what a binary runs on, in the words of Go.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func parsePlatforms(list string) ([]platform, error) {
	var platforms []platform
	for name := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("platform %q: want GOOS/GOARCH, such as linux/amd64", name)
		}
		platforms = append(platforms, platform{system, arch})
	}
	return platforms, nil
}

// linux are those of the platforms that images and Debian packages are for.
func linux(platforms []platform) []platform {
	return slices.DeleteFunc(slices.Clone(platforms), func(p platform) bool { return p.os != "linux" })
}

// removeOld removes what an earlier run has made.
func removeOld(out string, patterns ...string) error {
	for _, pattern := range patterns {
		old, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			return err
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

const sumsName = "SHA256SUMS"

// writeSums writes the checksums of all files in out, as sha256sum --check reads them.
func writeSums(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		if !entry.Type().IsRegular() || entry.Name() == sumsName {
			continue
		}
		sum, err := sumOf(filepath.Join(out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, entry.Name())
	}
	return writeContent(filepath.Join(out, sumsName), []byte(sums.String()))
}

func sumOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return nil, err
	}
	return hash.Sum(nil), nil
}
