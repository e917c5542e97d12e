package validate

import (
	"fmt"
	"regexp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// workload is an object that makes pods.
type workload struct {
	name     string // with its kind, for messages
	pod      corev1.PodTemplateSpec
	replicas *int32
	// claims are the templates of claims of a StatefulSet.
	claims []corev1.PersistentVolumeClaim
	// replaced tells that an old pod ends before a new one starts.
	replaced bool
}

// workloadOf returns what makes pods of an object.
func workloadOf(object runtime.Object) (workload, bool) {
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		return workload{
			name: "StatefulSet " + o.Name, pod: o.Spec.Template, replicas: o.Spec.Replicas,
			claims: o.Spec.VolumeClaimTemplates, replaced: true,
		}, true
	case *appsv1.Deployment:
		return workload{
			name: "Deployment " + o.Name, pod: o.Spec.Template, replicas: o.Spec.Replicas,
			replaced: o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType,
		}, true
	case *batchv1.Job:
		one := int32(1)
		return workload{name: "Job " + o.Name, pod: o.Spec.Template, replicas: &one, replaced: true}, true
	}
	return workload{}, false
}

// containers are the containers of the pods.
func (w workload) containers(c cluster, found *problems) []Container {
	var containers []Container
	for i := range w.pod.Spec.InitContainers {
		of := &w.pod.Spec.InitContainers[i]
		container := w.container(of, c, found)
		if container.Serves() && (of.RestartPolicy == nil || *of.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
			found.add("%s: it is no sidecar, so that the pod waits for its end: restartPolicy must be Always", container.Name)
		}
		containers = append(containers, container)
	}
	for i := range w.pod.Spec.Containers {
		containers = append(containers, w.container(&w.pod.Spec.Containers[i], c, found))
	}
	return containers
}

func (w workload) container(of *corev1.Container, c cluster, found *problems) Container {
	container := Container{
		Name: w.name + ", container " + of.Name, Image: of.Image, Env: map[string]string{},
		MemoryLimit: of.Resources.Limits.Memory().Value(), Probes: map[string]Probe{}, Ports: map[string]int32{},
	}
	if grace := w.pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		container.Grace = time.Duration(*grace) * time.Second
	}
	for _, from := range of.EnvFrom {
		if from.ConfigMapRef == nil {
			found.add("%s: envFrom is no ConfigMap", container.Name)
			continue
		}
		data, ok := c.configMaps[from.ConfigMapRef.Name]
		if !ok {
			found.add("%s: there is no ConfigMap %s", container.Name, from.ConfigMapRef.Name)
		}
		for name, value := range data {
			container.Env[name] = value
		}
	}
	for _, env := range of.Env {
		container.Env[env.Name] = env.Value
	}
	for _, arg := range of.Args {
		container.Args = append(container.Args, expand(arg, container.Env, func(name string) {
			found.add("%s: $(%s) is no variable of its environment", container.Name, name)
		}))
	}
	for kind, probe := range map[string]*corev1.Probe{
		"startup": of.StartupProbe, "readiness": of.ReadinessProbe, "liveness": of.LivenessProbe,
	} {
		switch {
		case probe == nil:
		case probe.Exec != nil:
			container.Probes[kind] = Probe{Command: probe.Exec.Command}
		case probe.HTTPGet != nil:
			container.Probes[kind] = Probe{
				Scheme: string(probe.HTTPGet.Scheme), Path: probe.HTTPGet.Path, Port: probe.HTTPGet.Port.String(),
			}
		default:
			found.add("%s: the %s probe is neither a command nor a GET", container.Name, kind)
		}
	}
	for _, port := range of.Ports {
		container.Ports[port.Name] = port.ContainerPort
	}
	for _, m := range of.VolumeMounts {
		mount := Mount{Path: m.MountPath, Volume: m.Name, ReadOnly: m.ReadOnly}
		if m.SubPath != "" {
			found.add("%s: %s is mounted by subPath, where changes of files are not seen", container.Name, m.MountPath)
		}
		if err := w.fill(&mount, c); err != nil {
			found.add("%s: %w", container.Name, err)
		}
		container.Mounts = append(container.Mounts, mount)
	}
	return container
}

// fill tells what the volume of a mount is.
func (w workload) fill(mount *Mount, c cluster) error {
	for _, claim := range w.claims {
		if claim.Name == mount.Volume {
			mount.Durable = true
			return nil
		}
	}
	for _, volume := range w.pod.Spec.Volumes {
		if volume.Name != mount.Volume {
			continue
		}
		switch {
		case volume.PersistentVolumeClaim != nil:
			mount.Durable = true
		case volume.Secret != nil:
			mount.Files = c.keys[Given{"Secret", volume.Secret.SecretName}]
		case volume.ConfigMap != nil:
			mount.Files = c.keys[Given{"ConfigMap", volume.ConfigMap.Name}]
		case volume.Projected != nil:
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil {
					mount.Files = append(mount.Files, c.keys[Given{"Secret", source.Secret.Name}]...)
				}
				if source.ConfigMap != nil {
					mount.Files = append(mount.Files, c.keys[Given{"ConfigMap", source.ConfigMap.Name}]...)
				}
			}
		}
		return nil
	}
	return fmt.Errorf("%s is mounted from the volume %q, which is not there", mount.Path, mount.Volume)
}

// variable is what Kubernetes replaces in arguments.
var variable = regexp.MustCompile(`\$\((\w+)\)`)

// expand replaces the variables in an argument. unknown gets the names of those that are not there.
func expand(arg string, env map[string]string, unknown func(name string)) string {
	return variable.ReplaceAllStringFunc(arg, func(text string) string {
		name := variable.FindStringSubmatch(text)[1]
		value, ok := env[name]
		if !ok {
			unknown(name)
		}
		return value
	})
}
