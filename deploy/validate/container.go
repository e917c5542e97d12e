package validate

import (
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Container is a container, whatever runs it, as far as memoryd is concerned.
type Container struct {
	Name   string // for messages
	Image  string
	Args   []string
	Env    map[string]string
	Mounts []Mount
	// Grace is how long it has from SIGTERM to SIGKILL.
	Grace time.Duration
	// MemoryLimit is in bytes, 0 is none.
	MemoryLimit int64
	// Probes are how its health is asked, by "startup", "readiness" and "liveness".
	Probes map[string]Probe
	// Ports are the numbers of its ports by their names, where it has names.
	Ports map[string]int32
}

// Mount is a volume in a container.
type Mount struct {
	Path     string
	Volume   string
	ReadOnly bool
	// Durable tells that the volume outlives the container and its pod.
	Durable bool
	// Files are the names of the files that are known to be in it; nil where nothing is known.
	Files []string
}

// Probe is a command in the container, or a GET at one of its ports.
type Probe struct {
	Command      []string
	Scheme, Path string
	Port         string
}

// IsMemoryd tells whether the container runs memoryd.
func (c Container) IsMemoryd() bool {
	repository, _, _ := strings.Cut(c.Image, ":")
	return path.Base(repository) == "memoryd"
}

// Serves tells whether the container runs memoryd as a service, and not one of its offline commands.
func (c Container) Serves() bool { return c.IsMemoryd() && len(c.Args) == 0 }

// mountOf returns the mount that a path is in.
func (c Container) mountOf(name string) (Mount, bool) {
	var found Mount
	for _, m := range c.Mounts {
		if (name == m.Path || strings.HasPrefix(name, m.Path+"/")) && len(m.Path) > len(found.Path) {
			found = m
		}
	}
	return found, found.Path != ""
}

// fileSettings are the settings that name a file that memoryd reads.
var fileSettings = []string{
	"MEMORYD_TLS_CERT", "MEMORYD_TLS_KEY", "MEMORYD_TLS_CLIENT_CA", "MEMORYD_PRINCIPALS", "MEMORYD_ENCRYPTION_KEYSET",
	"MEMORYD_CONFIG",
}

// image is a name with a tag that says which version, or with a digest.
var image = regexp.MustCompile(`^[^:@]+(:v?\d+\.\d+\.\d+[^:@]*(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$`)

// check checks a container. defaults are the settings of memoryd by their environment variables, with their defaults.
func (c Container) check(defaults map[string]string, found *problems) {
	add := func(format string, args ...any) { found.add("%s: "+format, append([]any{c.Name}, args...)...) }
	if !image.MatchString(c.Image) {
		add("image %q has no tag with a version", c.Image)
	}
	seen := map[string]bool{}
	for _, m := range c.Mounts {
		if seen[m.Path] {
			add("two volumes are mounted at %s", m.Path)
		}
		seen[m.Path] = true
	}
	if !c.IsMemoryd() {
		return
	}
	for name := range maps.Keys(c.Env) {
		if _, ok := defaults[name]; !ok && strings.HasPrefix(name, "MEMORYD_") {
			add("%s belongs to no setting of memoryd", name)
		}
	}
	c.checkPaths(add)
	if c.Serves() {
		c.checkService(defaults, add)
	}
}

// checkPaths checks that what settings name is mounted: files to be read, directories to be written.
func (c Container) checkPaths(add func(format string, args ...any)) {
	for _, setting := range fileSettings {
		name := c.Env[setting]
		if name == "" {
			continue
		}
		switch m, ok := c.mountOf(name); {
		case !ok:
			add("%s is %s, where no volume is mounted", setting, name)
		case !m.ReadOnly:
			add("%s is %s, on a volume that is not mounted read-only", setting, name)
		case m.Files != nil && !slices.Contains(m.Files, path.Base(name)):
			add("%s is %s, but the volume has %v", setting, name, m.Files)
		}
	}
	writable := func(setting, dir string, durable bool) Mount {
		m, ok := c.mountOf(dir)
		switch {
		case !ok:
			add("%s is %q, where no volume is mounted", setting, dir)
		case m.ReadOnly:
			add("%s is %s, on a volume that is mounted read-only", setting, dir)
		case durable && !m.Durable:
			add("%s is %s, on a volume that does not outlive the pod", setting, dir)
		}
		return m
	}
	data := writable("MEMORYD_DATA", c.Env["MEMORYD_DATA"], true)
	if dir := c.Env["MEMORYD_BACKUP_DIR"]; dir != "" {
		if backups := writable("MEMORYD_BACKUP_DIR", dir, true); backups.Volume == data.Volume {
			add("MEMORYD_BACKUP_DIR is on the volume of the memories")
		}
	}
	for listen := range strings.SplitSeq(c.Env["MEMORYD_LISTEN"], ",") {
		if socket, ok := strings.CutPrefix(listen, "unix://"); ok {
			writable("MEMORYD_LISTEN", path.Dir(socket), false)
		}
	}
}

// checkService checks what only a memoryd has that serves.
func (c Container) checkService(defaults map[string]string, add func(format string, args ...any)) {
	timeout, err := time.ParseDuration(c.setting(defaults, "MEMORYD_SHUTDOWN_TIMEOUT"))
	if err != nil || c.Grace < timeout+5*time.Second {
		add("it is killed after %s, which leaves no 5 seconds beyond the shutdown timeout of %s", c.Grace, timeout)
	}
	heap, ok := parseMebibytes(c.Env["GOMEMLIMIT"])
	switch requests, err := strconv.ParseInt(c.setting(defaults, "MEMORYD_MAX_CONCURRENT_BYTES"), 10, 64); {
	case c.MemoryLimit == 0:
		add("it has no memory limit")
	case !ok || heap > c.MemoryLimit*95/100:
		add("GOMEMLIMIT is %q, with a memory limit of %d MiB", c.Env["GOMEMLIMIT"], c.MemoryLimit>>20)
	case err != nil || requests > c.MemoryLimit/8:
		add("MEMORYD_MAX_CONCURRENT_BYTES is %d, more than an eighth of the memory limit", requests)
	}
	c.checkProbes(defaults, add)
}

// checkProbes checks that health is asked where it is told. A restart heals no store: the liveness probe asks only
// whether the process answers.
func (c Container) checkProbes(defaults map[string]string, add func(format string, args ...any)) {
	for _, kind := range []string{"startup", "readiness"} {
		if _, ok := c.Probes[kind]; !ok {
			add("it has no %s probe", kind)
		}
	}
	_, sidePort, _ := net.SplitHostPort(c.setting(defaults, "MEMORYD_HTTP"))
	scheme := "HTTP"
	if c.Env["MEMORYD_TLS_CERT"] != "" {
		scheme = "HTTPS"
	}
	for kind, p := range c.Probes {
		switch {
		case len(p.Command) > 0 && kind == "liveness":
			add("the liveness probe asks for health, which is not there while the store is full: use GET /healthz")
		case len(p.Command) > 0 && !slices.Equal(p.Command, []string{"/memoryd", "health"}):
			add("the %s probe is %q, not /memoryd health", kind, p.Command)
		case len(p.Command) > 0:
		case kind != "readiness" && p.Path != "/healthz", kind == "readiness" && p.Path != "/readyz":
			add("the %s probe asks for %q", kind, p.Path)
		case p.Scheme != scheme:
			add("the %s probe speaks %s, and the side port %s", kind, p.Scheme, scheme)
		case strconv.Itoa(int(c.Ports[p.Port])) != sidePort:
			add("the %s probe asks at port %q, which is not that of MEMORYD_HTTP", kind, p.Port)
		}
	}
}

// setting is the value of a setting in the container.
func (c Container) setting(defaults map[string]string, name string) string {
	if value, ok := c.Env[name]; ok {
		return value
	}
	return defaults[name]
}

func parseMebibytes(text string) (int64, bool) {
	number, ok := strings.CutSuffix(text, "MiB")
	n, err := strconv.ParseInt(number, 10, 64)
	return n << 20, ok && err == nil
}
