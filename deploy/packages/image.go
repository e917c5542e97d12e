package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and the group of the service in a container. It has no name, and is not root.
const imageUser = 65532

// image makes container images from nothing: an archive for `docker load` and its like for every platform of Linux, and
// one in the layout of OCI with all platforms, for registries.
func image(ctx context.Context, r *release, platforms []platform) error {
	if err := removeOld(r.out, "memoryd_*_image*.tar"); err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var reference string
	for _, p := range linux(platforms) {
		img, err := r.imageFor(ctx, p)
		if err != nil {
			return err
		}
		reference = "memoryd:" + strings.ReplaceAll(r.version, "+", "-") // A tag has no plus.
		tag, err := name.NewTag(reference)
		if err != nil {
			return err
		}
		file := fmt.Sprintf("memoryd_%s_image_%s.tar", r.number(), p.arch)
		if err := tarball.WriteToFile(filepath.Join(r.out, file), tag, img); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	return r.writeLayout(index, reference)
}

// writeLayout writes an archive in the layout of OCI.
func (r *release) writeLayout(index v1.ImageIndex, reference string) error {
	dir := filepath.Join(r.stage, "oci")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(reference, ":")
	annotations := map[string]string{"org.opencontainers.image.ref.name": tag}
	if err := written.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		files = append(files, file{name: filepath.ToSlash(inside), source: path, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, fmt.Sprintf("memoryd_%s_image.tar", r.number())), func(w io.Writer) error {
		return writeTar(w, files, r.time)
	})
}

// imageFor makes the image for a platform: memoryd, the certificates of authorities that KMSs and issuers of JWTs have,
// and a directory for the data. It writes nowhere else.
func (r *release) imageFor(ctx context.Context, p platform) (v1.Image, error) {
	bin, err := r.build(ctx, p)
	if err != nil {
		return nil, err
	}
	share, err := r.share(ctx)
	if err != nil {
		return nil, err
	}
	files := []file{
		{name: "data/", mode: 0o700, owner: imageUser},
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", content: authorities(), mode: 0o644},
		{name: "licenses/", mode: 0o755},
		{name: "licenses/LICENSE", source: filepath.Join(r.root, "LICENSE"), mode: 0o644},
		{name: "licenses/THIRD_PARTY_LICENSES", source: filepath.Join(share, "THIRD_PARTY_LICENSES"), mode: 0o644},
		{name: "memoryd", source: filepath.Join(bin, "memoryd"), mode: 0o755},
	}
	var content bytes.Buffer
	if err := writeTar(&content, files, r.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.time}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: created, Comment: "memoryd"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Config = p.os, p.arch, created, r.imageConfig()
	return mutate.ConfigFile(img, config)
}

func (r *release) imageConfig() v1.Config {
	return v1.Config{
		User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
		Entrypoint:   []string{"/memoryd"},
		Env:          []string{"MEMORYD_DATA=/data"},
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"7711/tcp": {}, "7712/tcp": {}},
		WorkingDir:   "/",
		StopSignal:   "SIGTERM",
		// OCI knows no health checks, Docker does.
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/memoryd", "health"}, Interval: 30 * time.Second, Timeout: 10 * time.Second,
			StartPeriod: 10 * time.Second, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "memoryd",
			"org.opencontainers.image.description": "Memory service for Claude's memory tool",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.revision,
		},
	}
}

// authorities are the certificates of the authorities that Mozilla trusts, in PEM. Those that it trusts under
// conditions are left out, since PEM has no place for conditions. The bundle of the machine that builds would make
// another image on every machine.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}
