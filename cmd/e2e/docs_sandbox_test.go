package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The addresses in the documentation, and what the service does not have in a test.
const (
	docsAddress = "127.0.0.1:7711"
	docsHTTP    = "127.0.0.1:7712"
	docsShared  = "memory.acme.internal"
)

// grpcurl is the path of the binary; make e2e sets it.
var grpcurl = os.Getenv("MEMORYD_TEST_GRPCURL")

// notRun are the programs whose commands are not run, with the reason.
var notRun = map[string]string{
	"systemctl":  "it takes systemd",
	"journalctl": "it takes systemd",
	"kubectl":    "it takes a cluster",
	"docker":     "it takes a Docker daemon",
	"sudo":       "it changes the machine",
	"apt-get":    "it changes the machine",
	"dpkg":       "it changes the machine",
	"make":       "other tests do what it does",
	"git":        "it changes the repository",
	"go":         "it takes the network, or other tests do what it does",
	"scp":        "it takes another machine",
	"ssh":        "it takes another machine",
	"sha256sum":  "it takes the files of a release",
	"tar":        "it takes the files of a release",
	"python3":    "the blocks of Python are run by themselves",
}

// sandbox is where the commands of a page are run, one after the other, as in one terminal.
type sandbox struct {
	dir      string
	env      []string
	real     *strings.Replacer // makes of what the page names what the test has
	shown    *strings.Replacer // and the other way round
	serving  *strings.Replacer // real, for a service
	services map[string]*daemon
}

// newSandbox makes a directory with what a machine has where the commands of the documentation are run: the directories
// that they name, certificates, and nobody who listens.
func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	s := &sandbox{dir: socketDir(t), services: map[string]*daemon{}}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	for _, dir := range []string{"run/memoryd", "var/lib", "var/log/memoryd", "var/backups", "etc/memoryd", "home"} {
		if err := os.MkdirAll(file(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeCertificates(t, file("home"))
	tools := map[string]string{"home/bin": bin}
	if grpcurl != "" {
		tools["home/grpcurl"] = grpcurl
	}
	for name, target := range tools {
		if err := os.Symlink(target, file(name)); err != nil {
			t.Fatal(err)
		}
	}
	address, side, shared := freeAddress(t), freeAddress(t), freeAddress(t)
	s.env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MEMORYD_") || strings.HasPrefix(variable, "MEMORYCTL_")
	}), "MEMORYCTL_ADDR="+address, "ANTHROPIC_API_KEY=", "HOME="+file("home"), "LC_ALL=C",
		"PATH="+bin+":"+file("home")+":"+os.Getenv("PATH"))

	pairs := []string{docsHTTP, side, docsAddress, address, docsShared + ":7711", shared}
	var back []string
	for i := 0; i < len(pairs); i += 2 {
		back = append(back, pairs[i+1], pairs[i])
	}
	for _, dir := range []string{"/run/memoryd", "/var/lib/memoryd", "/var/log/memoryd", "/var/backups", "/etc/memoryd"} {
		pairs = append(pairs, dir, s.dir+dir)
		back = append(back, s.dir+dir, dir)
	}
	back = append(back, s.dir+"/home", "/home/me")
	pairs = append(pairs, "uids: [1000]", fmt.Sprintf("uids: [%d]", os.Getuid()))
	s.real, s.shown = strings.NewReplacer(pairs...), strings.NewReplacer(back...)
	s.serving = strings.NewReplacer(append(pairs, "0.0.0.0:7711", shared, "0.0.0.0:7712", side)...)
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop ends the services that run.
func (s *sandbox) stop(t *testing.T) {
	t.Helper()
	for data, d := range s.services {
		d.stop(t)
		delete(s.services, data)
	}
}

// write writes a file that the page shows; name is what the page calls it.
func (s *sandbox) write(t *testing.T, name, content string) {
	t.Helper()
	if name = s.real.Replace(name); !filepath.IsAbs(name) {
		name = filepath.Join(s.dir, "home", name)
	}
	if err := os.WriteFile(name, []byte(s.serving.Replace(content)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serviceArgs returns the arguments of a command that does nothing but start memoryd as a service.
func serviceArgs(text string) (args []string, ok bool) {
	rest, ok := strings.CutPrefix(text, "memoryd")
	if !ok {
		rest, ok = strings.CutPrefix(text, "bin/memoryd") // of make run
	}
	args = strings.Fields(rest)
	if !ok || strings.ContainsAny(rest, "|<>;&()$") || len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		return nil, false
	}
	for i, arg := range args {
		switch arg {
		case "--help", "--version":
			return nil, false
		case `""`:
			args[i] = ""
		}
	}
	return args, true
}

// run runs a command as the terminal of a reader would, and returns what it prints.
func (s *sandbox) run(t *testing.T, c command) (output string, ok bool) {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimSpace(c.text), " ")
	args, starts := serviceArgs(s.serving.Replace(c.text))
	switch {
	case c.text == "make build\n":
		return "", true // TestMain has built what it builds.
	case c.text == "make run\n":
		s.serve(t, makeRun(t))
		return "", true
	case starts && c.output == "":
		s.serve(t, args)
		return "", true
	case notRun[name] != "":
		return c.output, true
	case strings.Contains(c.text, "grpcurl ") && grpcurl == "":
		t.Logf("MEMORYD_TEST_GRPCURL IS NOT SET, SO THAT THIS IS NOT RUN (make e2e does): %s", c.text)
		return c.output, true
	case name == "openssl" || name == "curl":
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("THERE IS NO %s, SO THAT THIS IS NOT RUN: %s", name, c.text)
			return c.output, true // Where it is openssl, the certificates of the sandbox do.
		}
	}
	return s.bash(t, s.real.Replace(c.text))
}

// bash runs a command. The directory and the variables that it leaves are those of the next one.
func (s *sandbox) bash(t *testing.T, text string) (output string, ok bool) {
	t.Helper()
	const script = `[ -e "$STATE" ] && . "$STATE"
eval "$COMMAND"
status=$?
{ export -p | grep -v -e ' COMMAND=' -e ' STATE='; printf 'cd %q\n' "$PWD"; } >"$STATE"
exit $status
`
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = filepath.Join(s.dir, "home"), append(s.env, "COMMAND="+text, "STATE="+filepath.Join(s.dir, "state"))
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", text, err)
	}
	return s.shown.Replace(string(out)), err == nil
}

// serve starts a service, in the place of one on the same data, and returns once it serves. It runs until the page ends
// or says that it is stopped.
func (s *sandbox) serve(t *testing.T, args []string) {
	t.Helper()
	data, configured, listens, side := "memoryd-data", false, false, false
	for i, arg := range args {
		switch arg {
		case "--data":
			data = args[i+1]
		case "--config":
			configured, data = true, ""
		case "--listen":
			listens = true
		case "--http":
			side = true
		}
	}
	if !configured && !listens {
		args = append(args, "--listen", s.real.Replace(docsAddress))
	}
	if !configured && !side {
		args = append(args, "--http", s.real.Replace(docsHTTP))
	}
	args = append(args, "--log-format", "text") // which daemon reads
	if before := s.services[data]; before != nil {
		before.stop(t)
	}
	d := &daemon{dir: filepath.Join(s.dir, "home")}
	d.serveArgs(t, args)
	s.services[data] = d
}

// makeRun returns the arguments of the service that `make run` runs.
func makeRun(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("make", "--dry-run", "-C", repository, "run").Output()
	for line := range strings.Lines(string(out)) {
		if args, ok := serviceArgs(line); ok {
			return args
		}
	}
	t.Fatalf("make run would run %q: %v", out, err)
	return nil
}
