package validate

import (
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// checkCaller checks that a pod has what it takes to call the shared service: a way through the NetworkPolicy, the
// address of a Service, and the files that it names.
func (c cluster) checkCaller(pod *corev1.Pod, found *problems) {
	let := slices.ContainsFunc(c.policies, func(p *networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
			return slices.ContainsFunc(rule.From, func(peer networkingv1.NetworkPolicyPeer) bool {
				selector, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
				return err == nil && selector.Matches(labels.Set(pod.Labels))
			})
		})
	})
	if !let {
		found.add("Pod %s: no NetworkPolicy lets it in", pod.Name)
	}
	w := workload{name: "Pod " + pod.Name, pod: corev1.PodTemplateSpec{Spec: pod.Spec}}
	for _, container := range w.containers(c, found) {
		host, port, err := net.SplitHostPort(container.Env["MEMORYCTL_ADDR"])
		name, _, _ := strings.Cut(host, ".")
		if err != nil || !slices.ContainsFunc(c.services, func(s *corev1.Service) bool {
			return s.Name == name && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
				return strconv.Itoa(int(p.Port)) == port
			})
		}) {
			found.add("%s: there is no Service at %s", container.Name, container.Env["MEMORYCTL_ADDR"])
		}
		for _, setting := range []string{"MEMORYCTL_TLS_CA", "MEMORYCTL_TOKEN_FILE"} {
			name := container.Env[setting]
			if m, ok := container.mountOf(name); !ok || !m.ReadOnly || !slices.Contains(m.Files, path.Base(name)) {
				found.add("%s: %s is %q, and there are %q", container.Name, setting, name, m.Files)
			}
		}
	}
}
