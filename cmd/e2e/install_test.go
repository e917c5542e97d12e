package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// dist is a directory with what `make dist image deb` has made.
var dist = os.Getenv("MEMORYD_TEST_DIST")

// made returns the files of dist whose names match a pattern.
func made(t *testing.T, pattern string) []string {
	t.Helper()
	if dist == "" {
		t.Skip("MEMORYD_TEST_DIST is not set: WHAT A RELEASE CONSISTS OF IS NOT TESTED. make test-dist does.")
	}
	files, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no %s", dist, pattern)
	}
	return files
}

// here is the one of the files that is for this platform.
func here(t *testing.T, files []string, suffix string) string {
	t.Helper()
	i := slices.IndexFunc(files, func(file string) bool { return strings.HasSuffix(file, suffix) })
	if i < 0 {
		t.Skipf("THERE IS NOTHING FOR THIS PLATFORM: none of %q ends with %s.", files, suffix)
	}
	return files[i]
}

// version is what a binary says that it is.
func version(t *testing.T, binary string) string {
	t.Helper()
	out, err := exec.Command(binary, "version").CombinedOutput()
	if err != nil {
		t.Fatalf("%s version: %v\n%s", binary, err, out)
	}
	return string(out)
}

func TestDist_Sums(t *testing.T) {
	sums, err := os.ReadFile(made(t, "SHA256SUMS")[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range made(t, "memoryd_*") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if line := hex.EncodeToString(sum[:]) + "  " + filepath.Base(file) + "\n"; !strings.Contains(string(sums), line) {
			t.Errorf("SHA256SUMS lacks %s", line)
		}
	}
}

func TestDist_Archives(t *testing.T) {
	common := []string{
		"LICENSE", "README.md", "CHANGELOG.md", "THIRD_PARTY_LICENSES", "completions/memoryctl.bash", "completions/_memoryd",
		"completions/memory-agent.fish", "completions/memoryd.ps1", "docs/operations.md", "docs/performance.svg",
		"deploy/prometheus/memoryd.rules.yml", "deploy/grafana/memoryd.json",
	}
	for _, archive := range append(made(t, "memoryd_*.tar.gz"), zips(t)...) {
		wants := slices.Clone(common)
		if strings.HasSuffix(archive, ".zip") {
			wants = append(wants, "memoryd.exe", "memoryctl.exe", "memory-agent.exe")
		} else {
			wants = append(wants, "memoryd", "memoryctl", "memory-agent", "man/man8/memoryd.8.gz", "man/man1/memoryctl-create.1.gz")
		}
		root := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), ".zip")
		names := archiveNames(t, archive)
		for _, want := range wants {
			if !slices.Contains(names, path.Join(root, want)) {
				t.Errorf("%s lacks %s", filepath.Base(archive), want)
			}
		}
	}

	dir := t.TempDir()
	archive := here(t, made(t, "memoryd_*.tar.gz"), "_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	number := strings.Split(filepath.Base(archive), "_")[1]
	for _, program := range []string{"memoryd", "memoryctl", "memory-agent"} {
		if got, want := version(t, filepath.Join(dir, program)), program+" v"+number+" "; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// zips are the archives for Windows, if it is among the platforms.
func zips(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dist, "memoryd_*.zip"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func archiveNames(t *testing.T, archive string) []string {
	t.Helper()
	if strings.HasSuffix(archive, ".zip") {
		r, err := zip.OpenReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		var names []string
		for _, file := range r.File {
			names = append(names, file.Name)
		}
		return names
	}
	content, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	r, err := gzip.NewReader(content)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	readTar(t, r, func(header *tar.Header, _ io.Reader) { names = append(names, header.Name) })
	return names
}

func readTar(t *testing.T, r io.Reader, fn func(header *tar.Header, content io.Reader)) {
	t.Helper()
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		fn(header, archive)
	}
}

// imageConfig is what the tests look at of the configuration of an image.
type imageConfig struct {
	Architecture, OS string
	Config           struct {
		User         string
		Entrypoint   []string
		Env          []string
		Volumes      map[string]struct{}
		ExposedPorts map[string]struct{}
		Healthcheck  struct{ Test []string }
	}
}

// readImage reads an archive as `docker load` does, and unpacks its layers to a directory.
func readImage(t *testing.T, file, dir string) (config imageConfig, headers map[string]*tar.Header) {
	t.Helper()
	content, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	blobs := map[string][]byte{}
	readTar(t, content, func(header *tar.Header, r io.Reader) {
		blob, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		blobs[header.Name] = blob
	})
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(blobs["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("%s: got %d images, %v, want one", file, len(manifest), err)
	}
	if tags := manifest[0].RepoTags; len(tags) != 1 || !strings.HasPrefix(tags[0], "memoryd:v") {
		t.Errorf("got the tags %q, want memoryd:v...", tags)
	}
	if err := json.Unmarshal(blobs[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	headers = map[string]*tar.Header{}
	for _, layer := range manifest[0].Layers {
		r, err := gzip.NewReader(bytes.NewReader(blobs[layer]))
		if err != nil {
			t.Fatal(err)
		}
		readTar(t, r, func(header *tar.Header, r io.Reader) {
			headers[header.Name] = header
			path := filepath.Join(dir, filepath.FromSlash(header.Name))
			if header.Typeflag == tar.TypeDir {
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
				return
			}
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, header.FileInfo().Mode()); err != nil {
				t.Fatal(err)
			}
		})
	}
	return config, headers
}

func TestDist_Image(t *testing.T) {
	for _, file := range made(t, "memoryd_*_image_*.tar") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			root := t.TempDir()
			config, headers := readImage(t, file, root)
			if want := "_image_" + config.Architecture + ".tar"; config.OS != "linux" || !strings.HasSuffix(file, want) {
				t.Errorf("it is for %s/%s", config.OS, config.Architecture)
			}
			c := config.Config
			_, hasVolume := c.Volumes["/data"]
			if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/memoryd"}) || !hasVolume ||
				!slices.Equal(c.Env, []string{"MEMORYD_DATA=/data"}) ||
				!slices.Equal(c.Healthcheck.Test, []string{"CMD", "/memoryd", "health"}) {
				t.Errorf("got the configuration %+v", c)
			}
			if data := headers["data/"]; data == nil || data.Uid != 65532 || data.Gid != 65532 || data.Mode != 0o700 {
				t.Errorf("got /data %+v, want it to belong to 65532", data)
			}
			authorities, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
			if n := bytes.Count(authorities, []byte("BEGIN CERTIFICATE")); err != nil || n < 50 {
				t.Errorf("got %d authorities, %v", n, err)
			}
			if config.Architecture == runtime.GOARCH {
				runImage(t, root)
			}
		})
	}
}

// runImage runs the binary of an image as a container does: in its own root, which is read-only but for /data, as a user
// that is not root.
func runImage(t *testing.T, root string) {
	if os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("THIS NEEDS ROOT ON LINUX: the image is not run.")
	}
	for _, tool := range []string{"unshare", "mount", "chroot"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("THERE IS NO %s: the image is not run.", tool)
		}
	}
	const script = `set -e
mount --bind "$0" "$0"
mount -t tmpfs -o mode=0700,uid=65532,gid=65532 tmpfs "$0/data"
mount -o remount,bind,ro "$0"
! touch "$0/writable" 2>/dev/null
export MEMORYD_DATA=/data MEMORYD_LISTEN=unix:///data/memoryd.sock
chroot --userspec=65532:65532 "$0" /memoryd --http '' & pid=$!
tries=0
until chroot --userspec=65532:65532 "$0" /memoryd health; do
	tries=$((tries + 1)); [ $tries -lt 100 ]; kill -0 $pid
done
kill $pid
wait $pid
`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", script, root)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare") {
		t.Skipf("NAMESPACES CANNOT BE MADE HERE: the image is not run.\n%s", out)
	}
	if err != nil || !strings.Contains(string(out), "unix:///data/memoryd.sock is SERVING") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDist_Index checks that the archive for registries has all platforms, and every blob that is named.
func TestDist_Index(t *testing.T) {
	content, err := os.Open(made(t, "memoryd_*_image.tar")[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	blobs := map[string][]byte{}
	readTar(t, content, func(header *tar.Header, r io.Reader) {
		if blobs[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	})
	type descriptor struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	type manifest struct {
		Manifests []descriptor
		Config    descriptor
		Layers    []descriptor
	}
	read := func(name string) (m manifest) {
		t.Helper()
		if err := json.Unmarshal(blobs[name], &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return m
	}
	blob := func(d descriptor) string {
		t.Helper()
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		if sum := sha256.Sum256(blobs[name]); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
			t.Errorf("%s is not there, or something else", d.Digest)
		}
		return name
	}
	var platforms []string
	for _, d := range read(blob(read("index.json").Manifests[0])).Manifests {
		platforms = append(platforms, d.Platform.OS+"/"+d.Platform.Architecture)
		m := read(blob(d))
		blob(m.Config)
		for _, layer := range m.Layers {
			blob(layer)
		}
	}
	if want := len(made(t, "memoryd_*_image_*.tar")); len(platforms) != want {
		t.Errorf("got %q, want %d platforms", platforms, want)
	}
}

func TestDist_Deb(t *testing.T) {
	packages := made(t, "memoryd_*.deb")
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("THERE IS NO dpkg-deb: the Debian packages are not tested.")
	}
	for _, file := range packages {
		dir := t.TempDir()
		for _, args := range [][]string{{"-x", file, dir}, {"-e", file, filepath.Join(dir, "DEBIAN")}} {
			if out, err := exec.Command("dpkg-deb", args...).CombinedOutput(); err != nil {
				t.Fatalf("dpkg-deb %q: %v\n%s", args, err, out)
			}
		}
		for _, want := range []string{
			"usr/bin/memoryd", "usr/bin/memoryctl", "usr/bin/memory-agent", "etc/memoryd/memoryd.yaml", "etc/logrotate.d/memoryd",
			"usr/lib/systemd/system/memoryd.service", "usr/lib/systemd/system/memoryd.socket", "usr/lib/sysusers.d/memoryd.conf",
			"usr/share/man/man8/memoryd.8.gz", "usr/share/man/man1/memoryctl.1.gz", "usr/share/doc/memoryd/copyright",
			"usr/share/doc/memoryd/docs/operations.md", "usr/share/doc/memoryd/deploy/prometheus/memoryd.rules.yml",
			"usr/share/doc/memoryd/deploy/grafana/memoryd.json",
			"usr/share/bash-completion/completions/memoryctl", "usr/share/zsh/vendor-completions/_memoryctl",
			"usr/share/fish/vendor_completions.d/memoryctl.fish", "DEBIAN/postinst", "DEBIAN/prerm", "DEBIAN/postrm",
		} {
			if _, err := os.Stat(filepath.Join(dir, want)); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
		conffiles, err := os.ReadFile(filepath.Join(dir, "DEBIAN/conffiles"))
		if want := "/etc/logrotate.d/memoryd\n/etc/memoryd/memoryd.yaml\n"; err != nil || sortedLines(conffiles) != want {
			t.Errorf("conffiles: %v, got %q, want %q", err, conffiles, want)
		}
		if !strings.HasSuffix(file, "_"+runtime.GOARCH+".deb") {
			continue
		}
		version(t, filepath.Join(dir, "usr/bin/memoryctl"))
		config := exec.Command(filepath.Join(dir, "usr/bin/memoryd"), "config", "--config", filepath.Join(dir, "etc/memoryd/memoryd.yaml"))
		if out, err := config.CombinedOutput(); err != nil || !strings.Contains(string(out), "/var/lib/memoryd") {
			t.Errorf("memoryd config: %v\n%s", err, out)
		}
	}
}

func sortedLines(content []byte) string {
	lines := strings.SplitAfter(strings.TrimRight(string(content), "\n")+"\n", "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestDist_DebInstall installs, upgrades and purges the package on a copy of this machine's system that it throws away.
func TestDist_DebInstall(t *testing.T) {
	file := here(t, made(t, "memoryd_*.deb"), "_"+runtime.GOARCH+".deb")
	if os.Getuid() != 0 {
		t.Skip("THIS NEEDS ROOT: the package is not installed.")
	}
	for _, tool := range []string{"unshare", "dpkg", "deb-systemd-helper", "systemd-sysusers"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("THERE IS NO %s: the package is not installed.", tool)
		}
	}
	const script = `set -e
mount -t tmpfs tmpfs "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root" || { echo NO OVERLAY; exit 1; }
cp "$1" "$0/root/tmp/memoryd.deb"
mount -t proc proc "$0/root/proc"
mount -t tmpfs tmpfs "$0/root/run"
mount --bind /dev "$0/root/dev"
exec chroot "$0/root" sh -e -c '
dpkg --install /tmp/memoryd.deb
getent passwd memoryd
test -h /etc/systemd/system/multi-user.target.wants/memoryd.service
test ! -e /etc/systemd/system/sockets.target.wants/memoryd.socket
memoryd config --config /etc/memoryd/memoryd.yaml >/dev/null
install -d -o memoryd /var/lib/memoryd
echo "# changed" >>/etc/memoryd/memoryd.yaml
dpkg --install /tmp/memoryd.deb
grep -q changed /etc/memoryd/memoryd.yaml
dpkg --purge memoryd
test ! -e /etc/memoryd
test ! -h /etc/systemd/system/multi-user.target.wants/memoryd.service
test -d /var/lib/memoryd
echo DONE
'
`
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", script, t.TempDir(), file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "NO OVERLAY"), strings.HasPrefix(text, "unshare"):
		t.Skipf("A COPY OF THE SYSTEM CANNOT BE MADE HERE: the package is not installed.\n%s", out)
	case err != nil || !strings.HasSuffix(text, "DONE\n"):
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(text, "/var/lib/memoryd is left as it is"):
		t.Errorf("purge does not say that the data stay:\n%s", out)
	}
}

// TestDist_ManPages has man show every page.
func TestDist_ManPages(t *testing.T) {
	archive := here(t, made(t, "memoryd_*.tar.gz"), "_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("THERE IS NO man: the manual pages are not shown.")
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man", "man*", "*.gz"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("got %d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		cmd := exec.Command("man", "--warnings", "--local-file", page)
		cmd.Env = append(os.Environ(), "MANWIDTH=100", "MANPAGER=cat", "LC_ALL=C.UTF-8")
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stderr.Len() > 0 || !strings.Contains(stdout.String(), "DESCRIPTION") {
			t.Errorf("%s: %v\n%s%s", filepath.Base(page), err, &stderr, &stdout)
		}
	}
}
