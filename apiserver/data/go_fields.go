// Command go_fields lists, for every built-in API type, how Go writes each of its JSON fields.
//
// Run it as `go run go_fields.go > go_fields.json` in a module that requires k8s.io/api, k8s.io/apiextensions-apiserver
// and k8s.io/kube-aggregator of the Kubernetes minor that the captured OpenAPI was taken from.
//
// Each field becomes `kind[!][z][=type]`: p pointer, o struct, l slice, m map, s string, n number, b bool, y bytes,
// q Quantity, i IntOrString, t time, r raw JSON; `!` is a field without omitempty, `z` one with omitzero. After `=` stands
// the Go type, where it has a name and is no struct, since decoding errors print it.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme,
		autoscalingv1.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme, certificates.AddToScheme,
		coordination.AddToScheme, core.AddToScheme, discovery.AddToScheme, events.AddToScheme, flowcontrol.AddToScheme,
		networking.AddToScheme, node.AddToScheme, policy.AddToScheme, rbac.AddToScheme, resource.AddToScheme,
		scheduling.AddToScheme, storage.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	types := map[string]map[string]string{}
	for _, t := range scheme.AllKnownTypes() {
		if !strings.HasSuffix(t.PkgPath(), "meta/v1") {
			visit(t, types)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(types)
}

func name(t reflect.Type) string {
	path := strings.Replace(t.PkgPath(), "k8s.io/", "io.k8s.", 1)
	return strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

func visit(t reflect.Type, types map[string]map[string]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		visit(t.Elem(), types)
	case reflect.Struct:
		if leaf(t) != "" {
			return
		}
		if _, seen := types[name(t)]; seen {
			return
		}
		fields := map[string]string{}
		types[name(t)] = fields
		collect(t, fields, types)
	}
}

func collect(t reflect.Type, fields map[string]string, types map[string]map[string]string) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		parts := strings.Split(f.Tag.Get("json"), ",")
		options := strings.Join(parts[1:], ",")
		if parts[0] == "-" {
			continue
		}
		if parts[0] == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				collect(inner, fields, types)
			}
			continue
		}
		code := kind(f.Type)
		if !strings.Contains(options, "omitempty") {
			code += "!"
		}
		if strings.Contains(options, "omitzero") {
			code += "z"
		}
		fields[parts[0]] = code + named(f.Type)
		visit(f.Type, types)
	}
}

func named(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	plain := t.PkgPath() == "" && (t.Kind() != reflect.Slice || t.Elem().PkgPath() == "" || t.Elem().Kind() == reflect.Struct)
	if plain || t.Kind() == reflect.Struct {
		return ""
	}
	return "=" + t.String()
}

// leaf is the code of a struct that writes itself.
func leaf(t reflect.Type) string {
	switch t.Name() {
	case "Quantity":
		return "q"
	case "IntOrString":
		return "i"
	case "Time", "MicroTime", "Duration":
		return "t"
	case "RawExtension", "FieldsV1", "JSON", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray":
		return "r"
	}
	return ""
}

func kind(t reflect.Type) string {
	if code := leaf(t); code != "" {
		return code
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		return "p"
	case reflect.Struct:
		return "o"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return "l"
	case reflect.Map:
		return "m"
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	default:
		return "n"
	}
}
