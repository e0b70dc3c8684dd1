// Program protobuf writes the data of the API server's protobuf decoder: the field table of every built-in
// kind, and golden pairs of protobuf bytes and the JSON that Go makes of them.
//
//	go run . ..
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protobuf DIRECTORY")
		os.Exit(64)
	}
	kinds, scheme := registered()
	write(os.Args[1], "protobuf.txt", table(kinds))
	write(os.Args[1], "protobuf.golden.txt", golden(scheme, kinds))
}

func write(dir, name, text string) {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d bytes\n", path, len(text))
}

// kind is one registered kind with a zero object of its Go type.
type kind struct {
	gvk    schema.GroupVersionKind
	object runtime.Object
}

// registered lists the kinds that may be a protobuf body, in order.
//
// The option kinds are registered once per group version; the table holds them once, under v1, since
// a decoder finds them by kind alone.
func registered() ([]kind, *runtime.Scheme) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(apiregistrationv1.AddToScheme(scheme))
	utilruntime.Must(metav1.AddMetaToScheme(scheme))

	shared := map[string]bool{}
	for _, name := range []string{
		"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "DeleteOptions", "GetOptions",
		"ListOptions", "PatchOptions", "Status", "UpdateOptions",
	} {
		shared[name] = true
	}
	var kinds []kind
	for gvk := range scheme.AllKnownTypes() {
		// A watch event is written bare, and only by servers.
		if gvk.Version == runtime.APIVersionInternal || gvk.Kind == "WatchEvent" {
			continue
		}
		if shared[gvk.Kind] && (gvk.Group != "" || gvk.Version != "v1") {
			continue
		}
		object, err := scheme.New(gvk)
		utilruntime.Must(err)
		if _, ok := object.(interface{ Marshal() ([]byte, error) }); !ok {
			fmt.Fprintf(os.Stderr, "no protobuf form: %v\n", gvk)
			continue
		}
		kinds = append(kinds, kind{gvk, object})
	}
	sort.Slice(kinds, func(i, j int) bool {
		a, b := kinds[i].gvk, kinds[j].gvk
		if a.Group != b.Group {
			return a.Group < b.Group
		}
		if a.Version != b.Version {
			return a.Version < b.Version
		}
		return a.Kind < b.Kind
	})
	return kinds, scheme
}
