package validate

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeFile is where the compose file is in deploy/.
const composeFile = "compose/compose.yaml"

// Compose loads the compose file with all profiles on, as "docker compose config" does, checks it, and returns the
// containers in it by the names of their services. What is against the Compose specification is an error.
func Compose(ctx context.Context, files Files, settings map[string]string) (map[string]Container, error) {
	root := "/" + path.Dir(composeFile) // There is no such directory: paths are looked up in files.
	project, err := loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  root,
		ConfigFiles: []types.ConfigFile{{Filename: "/" + composeFile, Content: []byte(files[composeFile])}},
		Environment: types.Mapping{},
	}, loader.WithProfiles([]string{"*"}), func(o *loader.Options) { o.ResolvePaths = true })
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", composeFile, err)
	}
	var found problems
	containers := map[string]Container{}
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		service := project.Services[name]
		c := composeContainer(service)
		c.check(settings, &found)
		checkHardened(service, &found)
		for _, v := range service.Volumes {
			used[v.Source] = true
			if v.Type == types.VolumeTypeBind && !isThere(files, v.Source) {
				found.add("service %s: there is no %s", name, v.Source)
			}
			if v.Type == types.VolumeTypeBind && (!v.ReadOnly || v.Bind == nil || bool(v.Bind.CreateHostPath)) {
				found.add("service %s: %s is not mounted read-only, or made where it is not there", name, v.Source)
			}
		}
		containers[name] = c
	}
	for name := range project.Volumes {
		if !used[name] {
			found.add("nothing uses the volume %s", name)
		}
	}
	return containers, found.err()
}

func composeContainer(service types.ServiceConfig) Container {
	c := Container{
		Name: "service " + service.Name, Image: service.Image, Args: service.Command, Env: map[string]string{},
		MemoryLimit: int64(service.MemLimit), Probes: map[string]Probe{},
	}
	if service.StopGracePeriod != nil {
		c.Grace = time.Duration(*service.StopGracePeriod)
	}
	for name, value := range service.Environment {
		if value != nil {
			c.Env[name] = *value
		}
	}
	if check := service.HealthCheck; check != nil && len(check.Test) > 1 && check.Test[0] == "CMD" {
		probe := Probe{Command: check.Test[1:]}
		c.Probes["startup"], c.Probes["readiness"] = probe, probe // It is both.
	}
	for _, v := range service.Volumes {
		c.Mounts = append(c.Mounts, Mount{
			Path: v.Target, Volume: v.Source, ReadOnly: v.ReadOnly, Durable: v.Type == types.VolumeTypeVolume,
		})
	}
	return c
}

// checkHardened checks what a container may do.
func checkHardened(service types.ServiceConfig, found *problems) {
	if user, _, _ := strings.Cut(service.User, ":"); user == "" || user == "0" || user == "root" {
		found.add("service %s: it may run as root", service.Name)
	}
	if !service.ReadOnly {
		found.add("service %s: its root is not read-only", service.Name)
	}
	if !slices.Equal(service.CapDrop, []string{"ALL"}) || len(service.CapAdd) > 0 || service.Privileged {
		found.add("service %s: it has capabilities", service.Name)
	}
	if !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
		found.add("service %s: it may get new privileges", service.Name)
	}
}

// isThere tells whether a path is in deploy/, or among the secrets that whoever installs it makes.
func isThere(files Files, name string) bool {
	name = strings.TrimPrefix(name, "/")
	if strings.HasPrefix(name, path.Dir(composeFile)+"/secrets/") {
		return true
	}
	for file := range files {
		if file == name || strings.HasPrefix(file, name+"/") {
			return true
		}
	}
	return false
}
