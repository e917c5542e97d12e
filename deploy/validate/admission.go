package validate

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // registers the kinds with their defaults, as the others do
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
)

// admit checks an object as the API server of Kubernetes does when it is created: with its code. Kinds that are not
// built into Kubernetes are not checked.
func admit(object runtime.Object) error {
	kind := object.GetObjectKind().GroupVersionKind()
	if !legacyscheme.Scheme.Recognizes(kind) {
		return nil
	}
	object = object.DeepCopyObject()
	legacyscheme.Scheme.Default(object)
	internal := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	object, err := legacyscheme.Scheme.ConvertToVersion(object, internal)
	if err != nil {
		return fmt.Errorf("convert %s: %w", kind, err)
	}
	if errs := validate(object); len(errs) > 0 {
		return fmt.Errorf("the API server refuses a %s: %w", kind.Kind, errs.ToAggregate())
	}
	return nil
}

// validate is the validation of the API server, after what it fills in itself.
func validate(object runtime.Object) field.ErrorList {
	const namespace = "default"
	switch o := object.(type) {
	case *apps.StatefulSet:
		o.Namespace = namespace
		return appsvalidation.ValidateStatefulSet(o, appsvalidation.StatefulSetValidationOptions{},
			podutil.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil))
	case *apps.Deployment:
		o.Namespace = namespace
		return appsvalidation.ValidateDeployment(o, podutil.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil))
	case *batch.Job:
		o.Namespace = namespace
		manual := true // The API server would give the pods a label with the id of the Job.
		o.Spec.Selector, o.Spec.ManualSelector = &metav1.LabelSelector{MatchLabels: o.Spec.Template.Labels}, &manual
		return batchvalidation.ValidateJobSpec(&o.Spec, nil, field.NewPath("spec"),
			podutil.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil))
	case *core.Pod:
		o.Namespace = namespace
		return corevalidation.ValidatePodCreate(o, podutil.GetValidationOptionsFromPodSpecAndMeta(&o.Spec, nil, nil, nil))
	case *core.Service:
		o.Namespace = namespace
		if o.Spec.ClusterIP != "" {
			o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
		}
		return corevalidation.ValidateServiceCreate(o)
	case *core.PersistentVolumeClaim:
		o.Namespace = namespace
		return corevalidation.ValidatePersistentVolumeClaim(o, corevalidation.PersistentVolumeClaimSpecValidationOptions{})
	case *core.ConfigMap:
		o.Namespace = namespace
		return corevalidation.ValidateConfigMap(o)
	case *core.ServiceAccount:
		o.Namespace = namespace
		return corevalidation.ValidateServiceAccount(o)
	case *networking.NetworkPolicy:
		o.Namespace = namespace
		return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{})
	}
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("nothing validates %T", object))}
}
