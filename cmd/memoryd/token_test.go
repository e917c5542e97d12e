package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/server"
)

// newToken is what "memoryd token new" does with random bytes that are known.
func newToken(random string, args ...string) (stdout, stderr string, err error) {
	var out, errOut bytes.Buffer
	cmd := newTokenNewCommand(strings.NewReader(random))
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return out.String(), errOut.String(), err
}

const (
	tokenOfZeros = "memoryd_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	hashOfZeros  = "sha256:820549422196e70eb4b850d8a566abfd0acfb95becffe4250eb305b12c1b2aa1"
)

func TestTokenNew(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"complete", []string{"support", "--namespaces", "acme/support/**", "--rights", "read,write"}, `  - name: "support"
    tokens: ["` + hashOfZeros + `"]
    grants:
      - namespaces: ["acme/support/**"]
        rights: ["read", "write"]
`},
		{"repeated", []string{"a", "--namespaces", "a", "--namespaces", "b", "--rights", "read", "--rights=history"}, `  - name: "a"
    tokens: ["` + hashOfZeros + `"]
    grants:
      - namespaces: ["a", "b"]
        rights: ["read", "history"]
`},
		{"no grants", []string{`a: "b" # \ é`}, `  - name: "a: \"b\" # \\ é"
    tokens: ["` + hashOfZeros + `"]
    grants: [] # such as [{namespaces: ["acme/support/**"], rights: [read, write]}]
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, err := newToken(strings.Repeat("\x00", 32), test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if want := tokenOfZeros + "\n"; stdout != want {
				t.Errorf("stdout: got %q, want %q", stdout, want)
			}
			if stderr != test.want {
				t.Errorf("stderr: got\n%s\nwant\n%s", stderr, test.want)
			}
			if err := server.ValidatePrincipals([]byte("principals:\n" + stderr)); err != nil {
				t.Errorf("the entry cannot be used: %v", err)
			}
		})
	}
}

func TestTokenNew_Errors(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no name", nil, "0 arguments given, but it is: new NAME [flags]"},
		{"two names", []string{"a", "b"}, "2 arguments given, but it is: new NAME [flags]"},
		{"empty name", []string{""}, "name is empty"},
		{"name with a line", []string{"a\nb"}, "name has a character that cannot be printed"},
		{"long name", []string{strings.Repeat("a", 129)}, "name has more than 128 bytes"},
		{"namespaces alone", []string{"a", "--namespaces", "a"}, "--namespaces and --rights go together: what may be done, and where"},
		{"rights alone", []string{"a", "--rights", "read"}, "--namespaces and --rights go together: what may be done, and where"},
		{"pattern", []string{"a", "--namespaces", "a/**/b", "--rights", "read"}, `--namespaces: pattern "a/**/b": "**" stands only at the end, as in acme/**`},
		{"right", []string{"a", "--namespaces", "a", "--rights", "root"}, `--rights: "root" is no right; the rights are read, write, history and admin`},
		{"second right", []string{"a", "--namespaces", "a,b", "--rights", "read,reed"}, `--rights: "reed" is no right; the rights are read, write, history and admin`},
		{"second pattern", []string{"a", "--namespaces", "a,**/b", "--rights", "write"}, `--namespaces: pattern "**/b": "**" stands only at the end, as in acme/**`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, err := newToken(strings.Repeat("\x00", 32), test.args...)
			var usage *usageError
			if !errors.As(err, &usage) || err.Error() != test.want {
				t.Errorf("got %v, want a usage error %s", err, test.want)
			}
			if stdout != "" || stderr != "" {
				t.Errorf("got stdout %q and stderr %q, want nothing", stdout, stderr)
			}
		})
	}
}

func TestTokenNew_WithoutRandomness(t *testing.T) {
	stdout, stderr, err := newToken("short", "a")
	if err == nil || stdout != "" || stderr != "" {
		t.Errorf("got %q, %q, %v, want an error alone", stdout, stderr, err)
	}
}

// TestTokenNew_Example runs the example of the help in a shell: what it makes can be used, and a mistake in it makes no
// file of principals.
func TestTokenNew_Example(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(dir, "memoryd")); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	example := newTokenNewCommand(nil).Example
	sh := func(script string) error {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), asMemoryd+"=1", "PATH="+dir+":"+os.Getenv("PATH"))
		return cmd.Run()
	}
	if err := sh(strings.Replace(example, "read,write", "reed", 1)); err == nil {
		t.Error("a right that is none: got no error")
	}
	if _, err := os.Stat(filepath.Join(dir, "principals.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a right that is none: the file of principals was made, %v", err)
	}
	if err := sh(example); err != nil {
		t.Fatal(err)
	}
	if err := sh("memoryd token new other 2>entry.yaml && cat entry.yaml >>principals.yaml"); err != nil { // as the help has it
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "principals.yaml"))
	if err == nil {
		err = server.ValidatePrincipals(content)
	}
	if err != nil || strings.Count(string(content), "- name:") != 2 {
		t.Errorf("got %v and the principals\n%s", err, content)
	}
	info, err := os.Stat(filepath.Join(dir, "support.token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a token with the mode 0600", info, err)
	}
}

// Two tokens of the command itself are not the same.
func TestTokenNew_Command(t *testing.T) {
	format := regexp.MustCompile(`^memoryd_[A-Za-z0-9_-]{43}\n$`)
	first, second := memoryd(t, nil, "token", "new", "a"), memoryd(t, nil, "token", "new", "a")
	if !format.MatchString(first.Stdout) || first.Stdout == second.Stdout || first.Status != exitOK {
		t.Errorf("got %+v and %+v", first, second)
	}
	if strings.Contains(first.Stderr, strings.TrimSpace(first.Stdout)) {
		t.Error("the token is on stderr")
	}
}
