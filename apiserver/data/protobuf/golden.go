package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// full forms are made of these kinds, in this order; a type that an earlier kind filled is sparse in later ones.
var goldenKinds = []string{
	"v1 Pod", "v1 Service", "v1 Secret", "v1 ConfigMap", "v1 Event", "v1 Namespace", "v1 Node", "v1 PersistentVolume",
	"v1 PersistentVolumeClaim", "v1 ServiceAccount", "v1 Endpoints", "v1 LimitRange", "v1 ResourceQuota",
	"v1 ReplicationController", "v1 PodTemplate", "v1 Binding", "v1 PodList", "v1 DeleteOptions", "v1 CreateOptions",
	"v1 UpdateOptions", "v1 PatchOptions", "v1 ListOptions", "v1 Status", "v1 APIResourceList",
	"apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "apps/v1 ReplicaSet",
	"apps/v1 ControllerRevision", "apps/v1 DeploymentList", "autoscaling/v1 Scale",
	"autoscaling/v1 HorizontalPodAutoscaler", "autoscaling/v2 HorizontalPodAutoscaler", "batch/v1 Job",
	"batch/v1 CronJob", "coordination.k8s.io/v1 Lease", "discovery.k8s.io/v1 EndpointSlice",
	"events.k8s.io/v1 Event", "networking.k8s.io/v1 Ingress", "networking.k8s.io/v1 IngressClass",
	"networking.k8s.io/v1 NetworkPolicy", "policy/v1 PodDisruptionBudget", "policy/v1 Eviction",
	"rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 ClusterRole",
	"rbac.authorization.k8s.io/v1 RoleBinding", "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
	"authentication.k8s.io/v1 TokenRequest", "authentication.k8s.io/v1 TokenReview",
	"authentication.k8s.io/v1 SelfSubjectReview", "authorization.k8s.io/v1 SubjectAccessReview",
	"authorization.k8s.io/v1 SelfSubjectRulesReview", "authorization.k8s.io/v1 LocalSubjectAccessReview",
	"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
	"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", "storage.k8s.io/v1 StorageClass",
	"storage.k8s.io/v1 VolumeAttachment", "scheduling.k8s.io/v1 PriorityClass", "node.k8s.io/v1 RuntimeClass",
	"certificates.k8s.io/v1 CertificateSigningRequest", "flowcontrol.apiserver.k8s.io/v1 FlowSchema",
	"resource.k8s.io/v1 ResourceClaim", "apiextensions.k8s.io/v1 CustomResourceDefinition",
	"apiregistration.k8s.io/v1 APIService", "meta.k8s.io/v1 PartialObjectMetadata",
	"meta.k8s.io/v1 PartialObjectMetadataList",
}

// golden gives lines of `apiVersion kind shape base64 json`, separated by tabs. The JSON is what Go makes of the
// object after it went through protobuf, hence what a server sees.
func golden(scheme *runtime.Scheme, kinds []kind) string {
	types := map[string]reflect.Type{}
	for _, k := range kinds {
		types[k.gvk.GroupVersion().String()+" "+k.gvk.Kind] = reflect.TypeOf(k.object).Elem()
	}
	filler := &filler{filled: map[reflect.Type]bool{}}
	var out strings.Builder
	for _, name := range goldenKinds {
		t, ok := types[name]
		if !ok {
			panic("not registered: " + name)
		}
		apiVersion, kindName, _ := strings.Cut(name, " ")
		for _, shape := range []string{"full", "empty"} {
			value := reflect.New(t)
			if shape == "full" {
				filler.fill(value.Elem(), 0, false)
			}
			object := value.Interface().(runtime.Object)
			object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kindName))
			wire, text := encode(scheme, object)
			fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%s\n", apiVersion, kindName, shape, wire, text)
		}
	}
	return out.String()
}

// encode gives the enveloped protobuf bytes in base64, and the JSON of what they decode to.
func encode(scheme *runtime.Scheme, object runtime.Object) (string, string) {
	gvk := object.GetObjectKind().GroupVersionKind()
	var wire strings.Builder
	serializer := protobuf.NewSerializer(scheme, scheme)
	utilruntime.Must(serializer.Encode(object, &wire))
	back := reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
	_, _, err := serializer.Decode([]byte(wire.String()), &gvk, back)
	utilruntime.Must(err)
	back.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(back)
	utilruntime.Must(err)
	return base64.StdEncoding.EncodeToString([]byte(wire.String())), string(text)
}
