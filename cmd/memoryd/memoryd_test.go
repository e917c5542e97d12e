package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// asMemoryd, set in the environment, makes the binary of the tests memoryd itself.
const asMemoryd = "TEST_AS_MEMORYD"

func TestMain(m *testing.M) {
	if os.Getenv(asMemoryd) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// outcome is what a run of memoryd came to.
type outcome struct {
	Status         int
	Stdout, Stderr string
}

// environment is a lookupEnv.
func environment(vars map[string]string) lookupEnv {
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

// variables is the environ beside an environment, in the order of the names.
func variables(vars map[string]string) environ {
	return func() []string {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			all = append(all, name+"="+vars[name])
		}
		return all
	}
}

func memoryd(t *testing.T, vars map[string]string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), args, environment(vars), variables(vars), &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

func wantOutcome(t *testing.T, got, want outcome) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memoryd.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfig_Defaults(t *testing.T) {
	// Kubernetes sets the first for a service that is called memoryd.
	vars := map[string]string{"MEMORYD_PORT": "tcp://10.0.0.1:7711", "MEMORYD_SERVICE_HOST": "10.0.0.1", "LISTEN": ":1"}
	wantOutcome(t, memoryd(t, vars, "config"), outcome{Stdout: `listen                127.0.0.1:7711  default
data                  ./memoryd-data  default
http                  127.0.0.1:7712  default
insecure              false           default
socket-mode           0600            default
tls-cert              ""              default
tls-key               ""              default
tls-client-ca         ""              default
principals            ""              default
jwt-jwks              ""              default
jwt-issuer            ""              default
jwt-audience          ""              default
jwt-algorithms        ""              default
jwt-leeway            30s             default
audit-log             ""              default
channelz              false           default
pprof                 false           default
config                ""              default
log-level             info            default
log-format            text            default
shutdown-timeout      10s             default
call-timeout          30s             default
max-concurrent-calls  1024            default
max-concurrent-bytes  268435456       default
request-window        24h0m0s         default
create-on-existing    error           default
view-max-chars        16000           default
max-file-bytes        1048576         default
max-files             5000            default
max-total-bytes       1073741824      default
calls-per-second      0               default
expire-unread-after   0s              default
secrets               report          default
backup-dir            ""              default
backup-every          0s              default
backup-keep           7               default
encryption-keyset     ""              default
encryption-key-uri    ""              default
`})
}

func TestConfig_Layers(t *testing.T) {
	principals := writeFile(t, "principals: []\n")
	path := writeFile(t, `# every type
listen: [127.0.0.1:1, 'unix:/run/file.sock']
data: /from/file
insecure: true
socket-mode: '0660'
principals: `+principals+`
jwt-audience: memoryd
jwt-algorithms: [RS256, ES256]
jwt-leeway: 1m
audit-log: '-'
channelz: true
pprof: false
call-timeout: 1m
max-concurrent-calls: 7
view-max-chars: 1
max-file-bytes: 2
backup-dir: /from/file
backup-keep: 1
`)
	vars := map[string]string{
		"MEMORYD_CONFIG": path, "MEMORYD_DATA": "/from/env", "MEMORYD_VIEW_MAX_CHARS": "3", "MEMORYD_HTTP": "",
		"MEMORYD_MAX_FILE_BYTES": "4", "MEMORYD_BACKUP_EVERY": "12h", "MEMORYD_JWT_ISSUER": "issuer",
	}
	got := memoryd(t, vars, "config", "--max-file-bytes=5", "--backup-keep=2", "--log-level", "debug",
		"--jwt-jwks=https://127.0.0.1:1/keys")
	want := strings.NewReplacer("PATH", path, "PRINCIPALS", principals).Replace(`listen                127.0.0.1:1,unix:/run/file.sock  file PATH
data                  /from/env                        env MEMORYD_DATA
http                  ""                               env MEMORYD_HTTP
insecure              true                             file PATH
socket-mode           0660                             file PATH
tls-cert              ""                               default
tls-key               ""                               default
tls-client-ca         ""                               default
principals            PRINCIPALS                       file PATH
jwt-jwks              https://127.0.0.1:1/keys         flag
jwt-issuer            issuer                           env MEMORYD_JWT_ISSUER
jwt-audience          memoryd                          file PATH
jwt-algorithms        RS256,ES256                      file PATH
jwt-leeway            1m0s                             file PATH
audit-log             -                                file PATH
channelz              true                             file PATH
pprof                 false                            file PATH
config                PATH                             env MEMORYD_CONFIG
log-level             debug                            flag
log-format            text                             default
shutdown-timeout      10s                              default
call-timeout          1m0s                             file PATH
max-concurrent-calls  7                                file PATH
max-concurrent-bytes  268435456                        default
request-window        24h0m0s                          default
create-on-existing    error                            default
view-max-chars        3                                env MEMORYD_VIEW_MAX_CHARS
max-file-bytes        5                                flag
max-files             5000                             default
max-total-bytes       1073741824                       default
calls-per-second      0                                default
expire-unread-after   0s                               default
secrets               report                           default
backup-dir            /from/file                       file PATH
backup-every          12h0m0s                          env MEMORYD_BACKUP_EVERY
backup-keep           2                                flag
encryption-keyset     ""                               default
encryption-key-uri    ""                               default
`)
	// The columns are as wide as the path of this test happens to be.
	columns := regexp.MustCompile(`  +`)
	got.Stdout = columns.ReplaceAllString(got.Stdout, "  ")
	wantOutcome(t, got, outcome{Stdout: columns.ReplaceAllString(want, "  ")})
}

func TestConfig_ListenIsRepeatable(t *testing.T) {
	got := memoryd(t, nil, "config", "--listen", "127.0.0.1:1,127.0.0.1:2", "--listen=unix:/s")
	if want := "listen                127.0.0.1:1,127.0.0.1:2,unix:/s  flag\n"; !strings.HasPrefix(got.Stdout, want) {
		t.Errorf("got %q, want it to start with %q", got.Stdout, want)
	}
}

// The help says what people would otherwise find out by trying.
func TestHelp(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"--help", "a second one ends it at once"},
		{"--help", "Make the keyset that memories are encrypted with, rotate it, and show its status"},
		{"token new --help", "history, which nothing asks for yet"},
		{"restore --help", "rename that file to\nmemoryd.db while no service runs"},
	} {
		if got := memoryd(t, nil, strings.Fields(tt.line)...); got.Status != exitOK || !strings.Contains(got.Stdout, tt.want) {
			t.Errorf("%s: got %+v, want %q", tt.line, got, tt.want)
		}
	}
}

func TestErrors(t *testing.T) {
	fileKeys := "listen, data, http, insecure, socket-mode, tls-cert, tls-key, tls-client-ca, principals, jwt-jwks, " +
		"jwt-issuer, jwt-audience, jwt-algorithms, jwt-leeway, audit-log, channelz, pprof, log-level, log-format, " +
		"shutdown-timeout, call-timeout, max-concurrent-calls, max-concurrent-bytes, request-window, create-on-existing, " +
		"view-max-chars, max-file-bytes, max-files, max-total-bytes, calls-per-second, expire-unread-after, secrets, " +
		"backup-dir, backup-every, backup-keep, encryption-keyset, encryption-key-uri"
	const hint = `Run "memoryd --help" for usage.` + "\n"
	tests := []struct {
		name   string
		file   string
		vars   map[string]string
		args   []string
		status int
		want   string // after "memoryd: "; FILE is the config file
	}{
		{name: "unknown flag", args: []string{"--lisen=x"}, status: 2, want: "unknown flag: --lisen\n" + hint},
		{
			name: "unknown command", args: []string{"serve"}, status: 2,
			want: `unknown command "serve" for "memoryd"` + "\n" + hint,
		},
		{
			name: "argument", args: []string{"check", "dir"}, status: 2,
			want: `unknown command "dir" for "memoryd check"` + "\n" + `Run "memoryd check --help" for usage.` + "\n",
		},
		{
			name: "type of a flag", args: []string{"--call-timeout=soon"}, status: 2,
			want: `invalid argument "soon" for "--call-timeout" flag: time: invalid duration "soon"` + "\n" + hint,
		},
		{
			name: "type in the environment", vars: map[string]string{"MEMORYD_VIEW_MAX_CHARS": "many"}, status: 2,
			want: `MEMORYD_VIEW_MAX_CHARS is "many": it must be a whole number` + "\n",
		},
		{
			name: "bool in the environment", vars: map[string]string{"MEMORYD_INSECURE": "maybe"}, status: 2,
			want: `MEMORYD_INSECURE is "maybe": it must be true or false` + "\n",
		},
		{
			name: "no file", args: []string{"--config=none.yaml"}, status: 2,
			want: "read config file none.yaml: open none.yaml: no such file or directory\n",
		},
		{
			name: "unknown key", file: "lisen: x\n", status: 2,
			want: `read config file FILE: unknown key "lisen"; the keys are ` + fileKeys + "\n",
		},
		{
			name: "nested key", file: "log: {level: debug}\n", status: 2,
			want: `read config file FILE: unknown key "log.level"; the keys are ` + fileKeys + "\n",
		},
		{
			name: "config in the config", file: "config: other.yaml\n", status: 2,
			want: `read config file FILE: unknown key "config"; the keys are ` + fileKeys + "\n",
		},
		{
			name: "number for text", file: "data: 5\n", status: 2,
			want: `read config file FILE: key "data" is 5: it must be a text` + "\n",
		},
		{
			name: "text for number", file: "view-max-chars: '5'\n", status: 2,
			want: `read config file FILE: key "view-max-chars" is 5: it must be a whole number` + "\n",
		},
		{
			name: "fraction", file: "view-max-chars: 5.5\n", status: 2,
			want: `read config file FILE: key "view-max-chars" is 5.5: it must be a whole number` + "\n",
		},
		{
			name: "text for bool", file: "insecure: 'yes'\n", status: 2,
			want: `read config file FILE: key "insecure" is yes: it must be true or false` + "\n",
		},
		{
			name: "number for duration", file: "call-timeout: 10\n", status: 2,
			want: `read config file FILE: key "call-timeout" is 10: it must be a duration, such as 10s or 1m30s` + "\n",
		},
		{
			name: "list of numbers", file: "listen: [1]\n", status: 2,
			want: `read config file FILE: key "listen" is [1]: it must be a text, or a list of texts` + "\n",
		},
		{
			name: "nothing", file: "data:\n", status: 2,
			want: `read config file FILE: key "data" is <nil>: it must be a text` + "\n",
		},
		{
			name: "no mapping", file: "- a\n", status: 2,
			want: "read config file FILE: yaml: unmarshal errors:; line 1: " +
				"cannot unmarshal !!seq into map[string]interface {}\n",
		},
		{
			name: "address", vars: map[string]string{"MEMORYD_LISTEN": "localhost"}, status: 2,
			want: "--listen is localhost (env MEMORYD_LISTEN): " +
				"it must be host:port, unix:///absolute/path or unix:relative/path\n",
		},
		{
			name: "remote address", args: []string{"--listen=0.0.0.0:0"}, status: 2,
			want: "--listen is 0.0.0.0:0 (flag): other machines can reach it, and calls are neither encrypted nor " +
				"authenticated; give --tls-cert, --tls-key and --principals, use 127.0.0.1 or a unix socket, or allow it with --insecure\n",
		},
		{
			name: "no permissions", args: []string{"--socket-mode=rw"}, status: 2,
			want: "--socket-mode is rw (flag): it must be permissions in octal, such as 0600 or 0660\n",
		},
		{
			name: "permissions of everyone", args: []string{"--socket-mode=0666"}, status: 2,
			want: "--socket-mode is 0666 (flag): every user of this machine could connect and nobody is authenticated; " +
				"use 0600 or 0660, give --principals, or allow it with --insecure\n",
		},
		{
			name: "number for permissions", file: "socket-mode: 0660\n", status: 2,
			want: `read config file FILE: key "socket-mode" is 432: it must be a text` + "\n",
		},
		{
			name: "no key", args: []string{"--tls-cert=c.pem"}, status: 2,
			want: `--tls-key is "" (default): it must be the file with the key, since there is a certificate` + "\n",
		},
		{
			name: "no principals", args: []string{"--principals=none.yaml"}, status: 2,
			want: "--principals is none.yaml (flag): it cannot be used: open none.yaml: no such file or directory\n",
		},
		{
			name: "no audience", args: []string{"--jwt-jwks=j", "--jwt-issuer=i"}, status: 2,
			want: `--jwt-audience is "" (default): it must be whom tokens are for, since there are other settings of JWTs` + "\n",
		},
		{
			name: "no leeway", args: []string{"--jwt-leeway=0s"}, status: 2,
			want: "--jwt-leeway is 0s (flag): it must be longer than 0s\n",
		},
		{
			name: "algorithm", vars: map[string]string{"MEMORYD_JWT_ALGORITHMS": "none"}, status: 2,
			want: "--jwt-algorithms is none (env MEMORYD_JWT_ALGORITHMS): it must be of RS256, RS384, RS512, PS256, PS384, " +
				"PS512, ES256, ES384, ES512, EdDSA\n",
		},
		{
			name: "no address", args: []string{"--listen="}, status: 2,
			want: `--listen is "" (flag): it must be at least one address` + "\n",
		},
		{name: "no data", args: []string{"--data="}, status: 2, want: `--data is "" (flag): it must be a directory` + "\n"},
		{
			name: "no time", file: "call-timeout: 0s\n", status: 2,
			want: "--call-timeout is 0s (file FILE): it must be longer than 0s\n",
		},
		{
			name: "negative time", args: []string{"--shutdown-timeout=-1s"}, status: 2,
			want: "--shutdown-timeout is -1s (flag): it must be longer than 0s\n",
		},
		{
			name: "days", args: []string{"--expire-unread-after=soon"}, status: 2,
			want: `invalid argument "soon" for "--expire-unread-after" flag: want a duration such as 30d, 12h or 30d12h` + "\n" + hint,
		},
		{
			name: "days in the environment", vars: map[string]string{"MEMORYD_EXPIRE_UNREAD_AFTER": "30"}, status: 2,
			want: `MEMORYD_EXPIRE_UNREAD_AFTER is "30": it must be a duration, such as 30d, 12h or 30d12h` + "\n",
		},
		{
			name: "days in the file", file: "expire-unread-after: 30\n", status: 2,
			want: `read config file FILE: key "expire-unread-after" is 30: it must be a duration, such as 30d, 12h or 30d12h` + "\n",
		},
		{
			name: "too short a life", args: []string{"--expire-unread-after=1s"}, status: 2,
			want: "--expire-unread-after is 1s (flag): it must be 0s (never), or 1h0m0s or more\n",
		},
		{
			name: "no calls", args: []string{"--max-concurrent-calls=0"}, status: 2,
			want: "--max-concurrent-calls is 0 (flag): it must be 1 or more\n",
		},
		{
			name: "create", args: []string{"--create-on-existing=append"}, status: 2,
			want: "--create-on-existing is append (flag): it must be error or overwrite\n",
		},
		{
			name: "view", args: []string{"--view-max-chars=-1"}, status: 2,
			want: "--view-max-chars is -1 (flag): it must be 0 (no limit) or more\n",
		},
		{
			name: "no bytes", args: []string{"--max-concurrent-bytes=0"}, status: 2,
			want: "--max-concurrent-bytes is 0 (flag): it must be 16777216 (one request) or more\n",
		},
		{
			name: "too few bytes", args: []string{"--max-concurrent-bytes=1"}, status: 2,
			want: "--max-concurrent-bytes is 1 (flag): it must be 16777216 (one request) or more\n",
		},
		{
			name: "file size", args: []string{"--max-file-bytes=8388609"}, status: 2,
			want: "--max-file-bytes is 8388609 (flag): it must be 1 to 8388608\n",
		},
		{
			name: "profiles on no port", args: []string{"--pprof", "--http="}, status: 2,
			want: "--pprof is true (flag): it must be false, since there is no side port to serve profiles on\n",
		},
		{
			name: "no backup directory", args: []string{"--backup-every=1h"}, status: 2,
			want: `--backup-dir is "" (default): it must be a directory, since backups are to be made` + "\n",
		},
		{
			name: "backups too often", args: []string{"--backup-every=1ms", "--backup-dir=b"}, status: 2,
			want: "--backup-every is 1ms (flag): it must be 0s (off), or 1s or more\n",
		},
		{
			name: "no backups kept", args: []string{"--backup-keep=0"}, status: 2,
			want: "--backup-keep is 0 (flag): it must be 1 or more\n",
		},
		{
			name: "no file to verify", args: []string{"verify"}, status: 2,
			want: "0 arguments given, but it is: memoryd verify FILE [flags]\n" + `Run "memoryd verify --help" for usage.` + "\n",
		},
		{
			name: "two files to restore", args: []string{"restore", "a", "b"}, status: 2,
			want: "2 arguments given, but it is: memoryd restore FILE [flags]\n" + `Run "memoryd restore --help" for usage.` + "\n",
		},
		{
			name: "nothing to compact", args: []string{"compact", "--data=none"}, status: 1,
			want: "compact store: open store: stat none/memoryd.db: no such file or directory\n",
		},
		{
			name: "log level", args: []string{"--log-level=loud"}, status: 2,
			want: "--log-level is loud (flag): it must be debug, info, warn or error\n",
		},
		{
			name: "log format", args: []string{"--log-format=xml"}, status: 2,
			want: "--log-format is xml (flag): it must be text or json\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // Where the default data directory would be made.
			args, path := tt.args, ""
			if tt.file != "" {
				path = writeFile(t, tt.file)
				args = append(args, "--config="+path)
			}
			text := tt.want
			if path != "" {
				text = strings.ReplaceAll(text, "FILE", path)
			}
			wantOutcome(t, memoryd(t, tt.vars, args...), outcome{Status: tt.status, Stderr: "memoryd: " + text})
			if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
				t.Errorf("something was made: %v, %v", entries, err)
			}
		})
	}
}

// TestConfig_Days has days wherever the setting may stand.
func TestConfig_Days(t *testing.T) {
	path := writeFile(t, "expire-unread-after: 30d12h\n")
	for _, test := range []struct {
		name string
		vars map[string]string
		args []string
		want string
	}{
		{"flag", map[string]string{"MEMORYD_EXPIRE_UNREAD_AFTER": "2d"}, []string{"--expire-unread-after=1d"}, "24h0m0s"},
		{"environment", map[string]string{"MEMORYD_EXPIRE_UNREAD_AFTER": "2d"}, []string{"--config", path}, "48h0m0s"},
		{"file", nil, []string{"--config", path}, "732h0m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := memoryd(t, test.vars, append(test.args, "config")...)
			if !regexp.MustCompile(`(?m)^expire-unread-after +`+test.want+` `).MatchString(got.Stdout) || got.Status != 0 {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
	flags := allSettings()
	if err := flags.Parse([]string{"--expire-unread-after=30d"}); err != nil {
		t.Fatal(err)
	}
	s, err := loadSettings(flags, environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.serverConfig()
	if got, want := cfg.Defaults.ExpireUnreadAfter, 720*time.Hour; err != nil || *got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestConfig_PrintsAndComplains(t *testing.T) {
	got := memoryd(t, nil, "config", "--log-format=xml")
	if !strings.Contains(got.Stdout, "log-format            xml             flag\n") {
		t.Errorf("the settings are not printed: %q", got.Stdout)
	}
	got.Stdout = ""
	wantOutcome(t, got, outcome{Status: 2, Stderr: "memoryd: --log-format is xml (flag): it must be text or json\n"})
}

// TestConfig_ChecksFiles has config find what a start would refuse.
func TestConfig_ChecksFiles(t *testing.T) {
	path := writeFile(t, "principals:\n- name: a\n  tokens: [secret]\n")
	got := memoryd(t, nil, "config", "--principals", path)
	if !strings.Contains(got.Stdout, "principals            "+path) {
		t.Errorf("the settings are not printed: %q", got.Stdout)
	}
	if want := "memoryd: --principals is " + path + " (flag): it cannot be used: line 3: "; got.Status != 2 ||
		!strings.HasPrefix(got.Stderr, want) || strings.Contains(got.Stderr, "secret") {
		t.Errorf("got status %d and %q, want 2 and %q", got.Status, got.Stderr, want)
	}
}

func TestVersion(t *testing.T) {
	got := memoryd(t, nil, "version")
	if !regexp.MustCompile(`^memoryd \S+( \(\w+\))? go\S+ \w+/\w+\n$`).MatchString(got.Stdout) || got.Status != 0 {
		t.Errorf("got %+v, want the version", got)
	}
}

// logWatcher is a log that tells when a text was written to it.
type logWatcher struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want string
	from int  // where in buf it may be
	told bool // that it is there
	seen chan struct{}
}

func (w *logWatcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if !w.told && strings.Contains(w.buf.String()[w.from:], w.want) {
		close(w.seen)
		w.told = true
	}
	return len(p), nil
}

// await returns what is closed when a text is written from now on.
func (w *logWatcher) await(want string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want, w.from, w.told, w.seen = want, w.buf.Len(), false, make(chan struct{})
	return w.seen
}

func (w *logWatcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// startDaemon runs memoryd and waits until it serves. stop ends it as a signal does, and returns the exit status.
func startDaemon(t *testing.T, args ...string) (log *logWatcher, stop func() int) {
	t.Helper()
	return startDaemonUntil(t, "msg=serving", args...)
}

// startDaemonUntil is startDaemon that waits until the log has a text.
func startDaemonUntil(t *testing.T, text string, args ...string) (log *logWatcher, stop func() int) {
	t.Helper()
	return startDaemonWith(t, nil, text, args...)
}

// startDaemonWith is startDaemonUntil with variables of the environment.
func startDaemonWith(
	t *testing.T, vars map[string]string, text string, args ...string,
) (log *logWatcher, stop func() int) {
	t.Helper()
	log = &logWatcher{want: text, seen: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, environment(vars), variables(nil), log, log) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	select {
	case <-log.seen:
	case status := <-done:
		done <- status
		t.Fatalf("memoryd ended with status %d:\n%s", status, log)
	}
	return log, stop
}

func create(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = memoryv1.NewMemoryServiceClient(conn).Create(ctx, &memoryv1.CreateRequest{
		Namespace: "n", Path: "/memories/f", FileText: "12345",
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
}

func TestServe(t *testing.T) {
	t.Chdir(t.TempDir()) // The name of a socket must be short.
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"--listen=unix:m.sock", "--http=", "--data=" + data}
	log, stop := startDaemon(t, args...)
	create(t, "unix:m.sock")

	before := time.Now()
	got := memoryd(t, nil, args...)
	wantOutcome(t, got, outcome{Status: 1, Stderr: fmt.Sprintf(
		"memoryd: open store: data directory %s is in use by process %d, which serves unix:m.sock\n", data, os.Getpid())})
	if took := time.Since(before); took > 2*time.Second {
		t.Errorf("the second process took %s to end, want at most 2s", took)
	}
	got = memoryd(t, nil, "check", "--data="+data)
	wantOutcome(t, got, outcome{Status: 1, Stderr: fmt.Sprintf(
		"memoryd: check %s: open store: data directory %s is in use by process %d, which serves unix:m.sock\n",
		data, data, os.Getpid())})

	if status := stop(); status != 0 {
		t.Errorf("got status %d, want 0:\n%s", status, log)
	}
	for _, want := range []string{"msg=serving", "addresses=[unix:m.sock]", "data=" + data, "msg=stopping", "msg=stopped"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	wantOutcome(t, memoryd(t, nil, "check", "--data="+data),
		outcome{Stdout: data + " is well-formed. Namespaces: 1. Files: 1. Bytes: 5.\n"})
}

// TestServe_Hangup sends this process the signal that asks for a reload.
func TestServe_Hangup(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("principals.yaml", []byte("principals: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, stop := startDaemon(t, "--listen=unix:m.sock", "--http=", "--data=data", "--principals=principals.yaml",
		"--audit-log=audit.log")
	// hangUp waits for what comes last of a reload, and that the log has a line.
	hangUp := func(want string) {
		t.Helper()
		const until = "msg=reloaded what=audit_log"
		seen := log.await(until)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case <-seen:
		case <-time.After(10 * time.Second):
			t.Fatalf("the log lacks %s:\n%s", until, log)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	hangUp("msg=reloaded what=principals files=[principals.yaml]")
	if err := os.WriteFile("principals.yaml", []byte("principal: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("audit.log", "audit.log.1"); err != nil {
		t.Fatal(err)
	}
	hangUp(`level=ERROR msg="cannot reload; what was in force stays in force" what=principals files=[principals.yaml] ` +
		`error="line 1: `)
	if _, err := os.Stat("audit.log"); err != nil {
		t.Errorf("the audit trail was not opened anew: %v", err)
	}
	if status := stop(); status != 0 {
		t.Errorf("got status %d, want 0:\n%s", status, log)
	}
}

func TestCheck_Corrupt(t *testing.T) {
	t.Chdir(t.TempDir())
	_, stop := startDaemon(t, "--listen=unix:m.sock", "--http=", "--data=data")
	create(t, "unix:m.sock")
	if status := stop(); status != 0 {
		t.Fatalf("got status %d, want 0", status)
	}
	path := filepath.Join("data", "memoryd.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 2 * 8 << 10; i < len(content); i++ { // Everything behind the two meta pages.
		content[i] ^= 0xff
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	got := memoryd(t, nil, "check", "--data=data")
	if got.Status != 1 || got.Stdout != "" || !strings.HasPrefix(got.Stderr, "memoryd: check data: ") ||
		!strings.Contains(got.Stderr, "store is corrupt") || strings.Count(got.Stderr, "\n") != 1 {
		t.Errorf("got %+v, want status 1 and a line about what is wrong", got)
	}
}

func TestLogger(t *testing.T) {
	flags := allSettings()
	if err := flags.Parse([]string{"--log-format=json", "--log-level=warn"}); err != nil {
		t.Fatal(err)
	}
	s, err := loadSettings(flags, environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	logger, err := s.logger(&out)
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("not said")
	logger.Warn("said")
	if got := out.String(); !strings.Contains(got, `"level":"WARN","msg":"said"}`) || strings.Contains(got, "not said") {
		t.Errorf("got %q, want the warning in JSON and nothing else", got)
	}
}
