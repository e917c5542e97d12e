package validate

import (
	"fmt"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Build makes the objects of a kustomization, as "kubectl kustomize DIR" does. A field that Kubernetes does not know or
// that is there twice is an error, and so is an object of a kind that the decoder does not know.
func Build(files Files, dir string) ([]runtime.Object, error) {
	fsys := filesys.MakeFsInMemory()
	for name, content := range files {
		if err := fsys.WriteFile("/"+name, []byte(content)); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fsys, "/"+dir)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", dir, err)
	}
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	var objects []runtime.Object
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("print %s: %w", resource.CurId(), err)
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decode %s %s: %w", resource.GetKind(), resource.GetName(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// newDecoder returns a strict decoder of the kinds of objects that the manifests use.
func newDecoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make decoder: %w", err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), nil
}
