package main

import (
	"fmt"
	"path"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// special types have a JSON form of their own; the decoder knows them by these names.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "@time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "@microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "@duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "@raw",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "@quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "@intorstring",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "@raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "@json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "@orbool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "@orarray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "@orstrings",
}

// builder collects the messages that are reachable from the kinds.
type builder struct {
	messages map[string][]string
}

// table renders kinds and messages, one line each field:
//
//	K apps v1 Deployment apps/v1.Deployment
//	M apps/v1.Deployment
//	1 metadata meta/v1.ObjectMeta o
//
// Flags: o omitempty, z omitzero, p pointer, r repeated, m map (of string to the type), i inlined in the parent,
// l a list type of its own that protobuf wraps in a message with one repeated field.
func table(kinds []kind) string {
	b := &builder{messages: map[string][]string{}}
	var out strings.Builder
	for _, k := range kinds {
		t := reflect.TypeOf(k.object).Elem()
		group := k.gvk.Group
		if group == "" {
			group = "-"
		}
		fmt.Fprintf(&out, "K %s %s %s %s\n", group, k.gvk.Version, k.gvk.Kind, b.message(t))
	}
	names := make([]string, 0, len(b.messages))
	for name := range b.messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&out, "M %s\n", name)
		for _, line := range b.messages[name] {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

func full(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// short is a unique, readable name: k8s.io/api/apps/v1 -> apps/v1, …/apis/meta/v1 -> meta/v1.
func short(t reflect.Type) string {
	dir, version := path.Split(t.PkgPath())
	return path.Base(dir) + "/" + version + "." + t.Name()
}

// message adds the struct type and everything below it, and returns its name.
func (b *builder) message(t reflect.Type) string {
	name := short(t)
	if _, done := b.messages[name]; done {
		return name
	}
	b.messages[name] = nil
	type numbered struct {
		number int
		line   string
	}
	var fields []numbered
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag := f.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			continue
		}
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		if err != nil {
			panic(full(t) + "." + f.Name + ": " + tag)
		}
		if line := b.field(t, f, number); line != "" {
			fields = append(fields, numbered{number, line})
		}
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i].number < fields[j].number })
	lines := make([]string, 0, len(fields))
	for _, f := range fields {
		lines = append(lines, f.line)
	}
	b.messages[name] = lines
	return name
}

func (b *builder) field(owner reflect.Type, f reflect.StructField, number int) string {
	where := full(owner) + "." + f.Name
	parts := strings.Split(f.Tag.Get("json"), ",")
	name, flags := parts[0], ""
	for _, option := range parts[1:] {
		switch option {
		case "omitempty":
			flags += "o"
		case "omitzero":
			flags += "z"
		case "inline":
		default:
			panic(where + ": json option " + option)
		}
	}
	if name == "-" {
		return ""
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		flags += "p"
		t = t.Elem()
	}
	switch {
	case isList(t):
		flags += "l"
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		flags += "r"
		t = t.Elem()
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(where + ": map key " + t.Key().String())
		}
		flags += "m"
		t = t.Elem()
		if isList(t) {
			flags += "l"
		}
	}
	typeName := b.typeName(t, where)
	if strings.Contains(flags, "z") && typeName != "@time" {
		panic(where + ": omitzero is known for times only")
	}
	if name == "" {
		if !f.Anonymous || strings.Contains(flags, "p") || t.Kind() != reflect.Struct || typeName[0] == '@' {
			panic(where + ": neither named nor inlined")
		}
		name, flags = "-", "i"
	}
	if flags == "" {
		flags = "-"
	}
	return fmt.Sprintf("%d %s %s %s", number, name, typeName, flags)
}

// isList tells the named list types that have a message of their own (ExtraValue, Verbs).
func isList(t reflect.Type) bool {
	if t.Kind() != reflect.Slice || t.Name() == "" {
		return false
	}
	_, ok := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) })
	return ok
}

func (b *builder) typeName(t reflect.Type, where string) string {
	if isList(t) && t.Elem().Kind() == reflect.String {
		return "string"
	}
	if name, ok := special[full(t)]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int64:
		return "int64"
	case reflect.Float64:
		return "double"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
	case reflect.Struct:
		if _, ok := reflect.New(t).Interface().(interface{ MarshalJSON() ([]byte, error) }); ok {
			panic(where + ": a JSON form of its own: " + full(t))
		}
		return b.message(t)
	}
	panic(where + ": type " + t.String())
}
