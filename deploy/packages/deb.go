package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

// debs makes a Debian package for every platform of Linux. nfpm.yaml says what is in it.
func debs(ctx context.Context, r *release, platforms []platform) error {
	if err := removeOld(r.out, "memoryd_*.deb"); err != nil {
		return err
	}
	share, err := r.share(ctx)
	if err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	compressed, err := compress(changes)
	if err != nil {
		return err
	}
	if err := writeContent(filepath.Join(share, "changelog.gz"), compressed); err != nil {
		return err
	}
	for _, p := range linux(platforms) {
		bin, err := r.build(ctx, p)
		if err != nil {
			return err
		}
		values := map[string]string{"ARCH": p.arch, "VERSION": r.version, "BIN": bin, "SHARE": share, "ROOT": r.root}
		if err := r.deb(values); err != nil {
			return err
		}
	}
	return nil
}

// deb makes the package that nfpm.yaml describes with values for its variables.
func (r *release) deb(values map[string]string) error {
	dir := filepath.Join(r.root, "deploy", "packages")
	value := func(key string) string { return values[key] }
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join(dir, "nfpm.yaml"), value)
	if err != nil {
		return err
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	info.MTime = r.time
	for _, script := range []*string{&info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		*script = filepath.Join(dir, *script)
	}
	path := filepath.Join(r.out, deb.Default.ConventionalFileName(info))
	return writeFile(path, func(w io.Writer) error { return deb.Default.Package(info, w) })
}
