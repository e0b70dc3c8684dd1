// Command builtin_cases decodes, defaults, validates and re-encodes built-in objects with kube-apiserver's own code.
//
// It reads one object a line and writes one answer a line: `object` or `error`, and `causes`. Run it in a module that
// requires k8s.io/kubernetes and replaces its staging modules; the answers stand beside their questions in
// builtin_cases.jsonl.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		fmt.Println(one(in.Bytes()))
	}
}

func one(line []byte) string {
	var head struct{ ApiVersion, Kind string }
	_ = json.Unmarshal(line, &head)
	gv, _ := schema.ParseGroupVersion(head.ApiVersion)
	out := map[string]any{}
	codec := legacyscheme.Codecs.UniversalDecoder()
	obj, _, err := codec.Decode(line, nil, nil)
	if err != nil {
		out["error"] = err.Error()
	} else {
		enc := legacyscheme.Codecs.LegacyCodec(gv)
		b, err := runtime.Encode(enc, obj)
		if err != nil {
			out["error"] = err.Error()
		} else {
			out["object"] = json.RawMessage(b)
		}
		var errs field.ErrorList
		switch o := obj.(type) {
		case *core.Pod:
			errs = corevalidation.ValidatePodCreate(o, corevalidation.PodValidationOptions{})
		case *core.Service:
			errs = corevalidation.ValidateServiceCreate(o)
		case *core.Secret:
			errs = corevalidation.ValidateSecret(o)
		case *core.ConfigMap:
			errs = corevalidation.ValidateConfigMap(o)
		case *core.PersistentVolumeClaim:
			errs = corevalidation.ValidatePersistentVolumeClaim(o, corevalidation.PersistentVolumeClaimSpecValidationOptions{})
		case *apps.Deployment:
			errs = appsvalidation.ValidateDeployment(o, corevalidation.PodValidationOptions{})
		case *apps.StatefulSet:
			errs = appsvalidation.ValidateStatefulSet(o, corevalidation.PodValidationOptions{})
		case *apps.DaemonSet:
			errs = appsvalidation.ValidateDaemonSet(o, corevalidation.PodValidationOptions{})
		case *batch.Job:
			errs = batchvalidation.ValidateJob(o, batchvalidation.JobValidationOptions{RequirePrefixedLabels: true})
		case *batch.CronJob:
			errs = batchvalidation.ValidateCronJobCreate(o, corevalidation.PodValidationOptions{})
		}
		list := []any{}
		for _, e := range errs {
			list = append(list, map[string]any{"field": e.Field, "reason": string(e.Type), "message": e.ErrorBody()})
		}
		out["causes"] = list
	}
	b, _ := json.Marshal(out)
	return string(b)
}
