package main

import (
	"fmt"
	"reflect"
	"time"
)

// filler sets every field of an object to a value that depends on nothing but the order of visits.
type filler struct {
	filled map[reflect.Type]bool
	count  int64
}

// depth bounds recursive types, of which JSONSchemaProps is the only wide one.
const depth = 24

// fill sets v. A sparse visit sets only scalars that are held by value: a type's second and later visits are
// sparse, which keeps the file small and shows how unset fields look.
func (f *filler) fill(v reflect.Value, level int, sparse bool) {
	if level > depth {
		return
	}
	if f.fillSpecial(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if sparse {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), level+1, sparse)
	case reflect.Struct:
		f.fillStruct(v, level, sparse)
	case reflect.Slice:
		f.fillSlice(v, level, sparse)
	case reflect.Map:
		if sparse {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, level+1, false)
			f.fill(value, level+1, false)
			v.SetMapIndex(key, value)
		}
	case reflect.Interface:
	default:
		f.fillScalar(v)
	}
}

func (f *filler) fillStruct(v reflect.Value, level int, sparse bool) {
	if f.filled[v.Type()] {
		sparse = true
	}
	if !sparse {
		f.filled[v.Type()] = true
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("protobuf") != "" {
			f.fill(v.Field(i), level+1, sparse)
		}
	}
}

func (f *filler) fillSlice(v reflect.Value, level int, sparse bool) {
	if sparse {
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(fmt.Sprintf("\x00\xff%d", f.next())))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 2, 2))
	for i := range 2 {
		f.fill(v.Index(i), level+1, false)
	}
}

func (f *filler) fillScalar(v reflect.Value) {
	n := f.next()
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		if n%5 == 0 {
			n = -n
		}
		v.SetInt(n)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Float64:
		v.SetFloat(float64(n) / 4)
	default:
		panic("cannot fill " + v.Type().String())
	}
}

func (f *filler) next() int64 {
	f.count++
	return f.count
}

// fillSpecial handles the types whose fields may not hold arbitrary values.
func (f *filler) fillSpecial(v reflect.Value) bool {
	name, ok := special[full(v.Type())]
	if !ok {
		return false
	}
	n := f.next()
	at := time.Date(2025, 1, 2, 3, 4, 5, 678912345, time.UTC).Add(time.Duration(n) * time.Minute)
	switch name {
	case "@time", "@microtime":
		v.Field(0).Set(reflect.ValueOf(at))
	case "@duration":
		v.Field(0).SetInt(int64(time.Duration(n)*time.Hour + 1500*time.Millisecond))
	case "@raw", "@json":
		v.FieldByName("Raw").SetBytes([]byte(fmt.Sprintf(`{"n":%d,"list":[1,2.5,null,"é"]}`, n)))
	case "@quantity":
		parse := v.Addr().MethodByName("UnmarshalJSON")
		parse.Call([]reflect.Value{reflect.ValueOf([]byte(fmt.Sprintf(`"%dMi"`, n)))})
	case "@intorstring":
		text := fmt.Sprint(n)
		if n%2 == 0 {
			text = fmt.Sprintf(`"%d%%"`, n)
		}
		parse := v.Addr().MethodByName("UnmarshalJSON")
		parse.Call([]reflect.Value{reflect.ValueOf([]byte(text))})
	default:
		return f.fillSchema(v, name, n)
	}
	return true
}

// fillSchema fills the unions of apiextensions, alternating between their branches.
func (f *filler) fillSchema(v reflect.Value, name string, n int64) bool {
	schema := reflect.New(v.FieldByName("Schema").Type().Elem())
	f.fill(schema.Elem(), 0, true)
	if n%2 == 0 {
		v.FieldByName("Schema").Set(schema)
		return true
	}
	switch name {
	case "@orbool":
		v.FieldByName("Allows").SetBool(true)
	case "@orarray":
		v.FieldByName("JSONSchemas").Set(reflect.Append(v.FieldByName("JSONSchemas"), schema.Elem()))
	case "@orstrings":
		v.FieldByName("Property").Set(reflect.ValueOf([]string{"a", "b"}))
	}
	return true
}
