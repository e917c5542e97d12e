package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Given is an object that is no part of a kustomization: whoever installs it makes it.
type Given struct{ Kind, Name string }

// Kubernetes is what manifests are checked against.
type Kubernetes struct {
	// Settings are those of memoryd by their environment variables, with their defaults.
	Settings map[string]string
	// Given are the Secrets and ConfigMaps that the documentation tells to make, with their files by their keys, and
	// the claims that other manifests make.
	Given map[Given]map[string]string
}

// cluster is what is there once the objects were applied.
type cluster struct {
	workloads  []workload
	services   []*corev1.Service
	policies   []*networkingv1.NetworkPolicy
	configMaps map[string]map[string]string
	keys       map[Given][]string // of Secrets and ConfigMaps; other objects have none
}

// Check checks the objects of a kustomization.
func (k Kubernetes) Check(objects []runtime.Object) error {
	_, err := k.Containers(objects)
	return err
}

// Containers checks the objects of a kustomization, and returns the containers in them.
func (k Kubernetes) Containers(objects []runtime.Object) ([]Container, error) {
	var found problems
	c := k.newCluster(objects)
	var containers []Container
	for _, w := range c.workloads {
		of := w.containers(c, &found)
		for _, container := range of {
			container.check(k.Settings, &found)
		}
		w.check(c, &found)
		containers = append(containers, of...)
	}
	for _, object := range objects {
		if err := admit(object); err != nil {
			found.add("%w", err)
		}
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			c.checkHeadless(o, &found)
		case *corev1.Service:
			c.checkService(o, &found)
		case *networkingv1.NetworkPolicy:
			c.checkPolicy(o, &found)
		case *monitoringv1.ServiceMonitor:
			c.checkMonitor(o, &found)
		}
	}
	return containers, found.err()
}

func (k Kubernetes) newCluster(objects []runtime.Object) cluster {
	c := cluster{configMaps: map[string]map[string]string{}, keys: map[Given][]string{}}
	for given, files := range k.Given {
		c.keys[given] = slices.Sorted(maps.Keys(files))
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Service:
			c.services = append(c.services, o)
		case *networkingv1.NetworkPolicy:
			c.policies = append(c.policies, o)
		case *corev1.PersistentVolumeClaim:
			c.keys[Given{"PersistentVolumeClaim", o.Name}] = nil
		case *corev1.ServiceAccount:
			c.keys[Given{"ServiceAccount", o.Name}] = nil
		case *corev1.ConfigMap:
			c.configMaps[o.Name] = o.Data
			c.keys[Given{"ConfigMap", o.Name}] = slices.Sorted(maps.Keys(o.Data))
		}
		if w, ok := workloadOf(object); ok {
			c.workloads = append(c.workloads, w)
		}
	}
	return c
}

// require checks that an object is there, with a key if it has keys.
func (c cluster) require(of string, needed Given, key string, found *problems) {
	keys, ok := c.keys[needed]
	switch {
	case !ok:
		found.add("%s: there is no %s %s, and docs/kubernetes.md does not tell to make it", of, needed.Kind, needed.Name)
	case key != "" && !slices.Contains(keys, key):
		found.add("%s: the %s %s has no key %q", of, needed.Kind, needed.Name, key)
	}
}

// check checks what pods have besides their containers.
func (w workload) check(c cluster, found *problems) {
	spec := w.pod.Spec
	if err := checkRestricted(w.pod); err != nil {
		found.add("%s: %w", w.name, err)
	}
	for what, off := range map[string]*bool{
		"automountServiceAccountToken": spec.AutomountServiceAccountToken, "enableServiceLinks": spec.EnableServiceLinks,
	} {
		if off == nil || *off {
			found.add("%s: %s is not false", w.name, what)
		}
	}
	if spec.ServiceAccountName != "" {
		c.require(w.name, Given{"ServiceAccount", spec.ServiceAccountName}, "", found)
	}
	w.checkVolumes(c, found)
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		security, requests := container.SecurityContext, container.Resources.Requests
		if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
			found.add("%s, container %s: its root is not read-only", w.name, container.Name)
		}
		if requests.Cpu().IsZero() || requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
			found.add("%s, container %s: it lacks requests of CPU and memory, or a limit of memory", w.name, container.Name)
		}
	}
}

// checkVolumes checks that what volumes are made of is there, that each is mounted, and that no two pods share a store.
func (w workload) checkVolumes(c cluster, found *problems) {
	mounted := map[string]bool{}
	for _, container := range slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers) {
		for _, m := range container.VolumeMounts {
			mounted[m.Name] = true
		}
	}
	claimed := len(w.claims) > 0
	for _, claim := range w.claims {
		if !mounted[claim.Name] {
			found.add("%s: nothing mounts the claim %s", w.name, claim.Name)
		}
	}
	for _, volume := range w.pod.Spec.Volumes {
		if !mounted[volume.Name] {
			found.add("%s: nothing mounts the volume %s", w.name, volume.Name)
		}
		switch {
		case volume.PersistentVolumeClaim != nil:
			claimed = true
			c.require(w.name, Given{"PersistentVolumeClaim", volume.PersistentVolumeClaim.ClaimName}, "", found)
		case volume.Secret != nil:
			c.require(w.name, Given{"Secret", volume.Secret.SecretName}, "", found)
			if mode := volume.Secret.DefaultMode; mode == nil || *mode&0o007 != 0 {
				found.add("%s: every user can read the Secret %s", w.name, volume.Secret.SecretName)
			}
		case volume.ConfigMap != nil:
			c.require(w.name, Given{"ConfigMap", volume.ConfigMap.Name}, "", found)
		}
	}
	if claimed && (w.replicas == nil || *w.replicas != 1 || !w.replaced) {
		found.add("%s: more than one pod at a time may open the memories", w.name)
	}
}

// checkRestricted checks a pod as Kubernetes does in a namespace that enforces the Pod Security Standard "restricted".
func checkRestricted(pod corev1.PodTemplateSpec) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return fmt.Errorf("make checks of pod security: %w", err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
	if !result.Allowed {
		return fmt.Errorf("pod security: %s", result.ForbiddenDetail())
	}
	return nil
}

// selected are the workloads whose pods a selector matches.
func (c cluster) selected(selector labels.Selector) []workload {
	var selected []workload
	for _, w := range c.workloads {
		if selector.Matches(labels.Set(w.pod.Labels)) {
			selected = append(selected, w)
		}
	}
	return selected
}

func (w workload) hasPort(port intstr.IntOrString) bool {
	return slices.ContainsFunc(w.pod.Spec.Containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
		})
	})
}

// checkHeadless checks that a StatefulSet has the Service that it names.
func (c cluster) checkHeadless(set *appsv1.StatefulSet, found *problems) {
	if !slices.ContainsFunc(c.services, func(s *corev1.Service) bool {
		return s.Name == set.Spec.ServiceName && s.Spec.ClusterIP == corev1.ClusterIPNone &&
			labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(set.Spec.Template.Labels))
	}) {
		found.add("StatefulSet %s: there is no headless Service %q for its pods", set.Name, set.Spec.ServiceName)
	}
}

func (c cluster) checkService(service *corev1.Service, found *problems) {
	selected := c.selected(labels.SelectorFromSet(service.Spec.Selector))
	if len(selected) != 1 {
		found.add("Service %s: it selects the pods of %d workloads, not of one", service.Name, len(selected))
		return
	}
	if !service.Spec.PublishNotReadyAddresses {
		found.add("Service %s: nobody could read, or make room, while the store is full", service.Name)
	}
	for _, port := range service.Spec.Ports {
		if !selected[0].hasPort(port.TargetPort) {
			found.add("Service %s: its port %s is none of its pods", service.Name, port.Name)
		}
	}
}

func (c cluster) checkPolicy(policy *networkingv1.NetworkPolicy, found *problems) {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil || len(c.selected(selector)) != 1 {
		found.add("NetworkPolicy %s: it is not for the pods of one workload", policy.Name)
		return
	}
	if len(policy.Spec.PolicyTypes) != 2 || len(policy.Spec.Egress) > 0 {
		found.add("NetworkPolicy %s: it lets pods connect to others", policy.Name)
	}
	for _, rule := range policy.Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) == 0 {
			found.add("NetworkPolicy %s: a rule lets in everybody, or to every port", policy.Name)
		}
		for _, port := range rule.Ports {
			if port.Port == nil || !c.selected(selector)[0].hasPort(*port.Port) {
				found.add("NetworkPolicy %s: port %s is none of its pods", policy.Name, port.Port)
			}
		}
	}
}

// checkMonitor checks that a ServiceMonitor asks every pod once, and knows how.
func (c cluster) checkMonitor(monitor *monitoringv1.ServiceMonitor, found *problems) {
	of := "ServiceMonitor " + monitor.Name
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		found.add("%s: %w", of, err)
		return
	}
	for _, endpoint := range monitor.Spec.Endpoints {
		asked := 0
		for _, service := range c.services {
			if selector.Matches(labels.Set(service.Labels)) && slices.ContainsFunc(service.Spec.Ports,
				func(p corev1.ServicePort) bool { return p.Name == endpoint.Port }) {
				asked++
				if job := service.Labels[monitor.Spec.JobLabel]; job != "memoryd" {
					found.add("%s: the job is called %q, and memoryd in the alert rules", of, job)
				}
			}
		}
		if asked != 1 {
			found.add("%s: %d Services have its port %q, not one", of, asked, endpoint.Port)
		}
		if endpoint.Scheme == nil || !strings.EqualFold(string(*endpoint.Scheme), "https") {
			found.add("%s: it does not speak https", of)
		}
		if endpoint.Authorization == nil || endpoint.Authorization.Credentials == nil || endpoint.TLSConfig == nil ||
			endpoint.TLSConfig.CA.ConfigMap == nil || endpoint.TLSConfig.ServerName == nil {
			found.add("%s: it has no credential, no authority or no name of the server", of)
			continue
		}
		token, ca := endpoint.Authorization.Credentials, endpoint.TLSConfig.CA.ConfigMap
		c.require(of, Given{"Secret", token.Name}, token.Key, found)
		c.require(of, Given{"ConfigMap", ca.Name}, ca.Key, found)
	}
}
