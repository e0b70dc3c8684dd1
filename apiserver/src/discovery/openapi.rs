//! OpenAPI v2 and v3: the recorded documents, with the schemas of custom resources beside them.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use serde_json::{Map, Value, json};
use sha2::Digest as _;

use crate::captured;

use super::{Discovery, ResourceType};

type Customs<'a> = &'a [Arc<ResourceType>];

/// Answers `openapi/v2`, `openapi/v3` or `openapi/v3/PATH`. `protobuf` is whether the client wants that form of v2.
#[must_use]
pub fn openapi(path: &str, protobuf: bool, customs: Customs<'_>) -> Option<Discovery> {
    let json = |body| Discovery { content_type: "application/json".into(), body };
    match path {
        "openapi/v2" if protobuf => Some(Discovery {
            content_type: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf".into(),
            body: captured::file("openapi/v2.pb")?,
        }),
        "openapi/v2" => second(customs).map(json),
        "openapi/v3" => index(customs).map(json),
        _ => third(path.strip_prefix("openapi/v3/")?, customs).map(json),
    }
}

fn second(customs: Customs<'_>) -> Option<Vec<u8>> {
    if customs.is_empty() {
        return captured::file("openapi/v2.json");
    }
    let mut document: Value = serde_json::from_slice(&captured::file("openapi/v2.json")?).ok()?;
    let definitions = document.get_mut("definitions")?.as_object_mut()?;
    for t in customs {
        definitions.insert(definition_name(t), typed_schema(t, "#/definitions/"));
    }
    serde_json::to_vec(&document).ok()
}

fn index(customs: Customs<'_>) -> Option<Vec<u8>> {
    if customs.is_empty() {
        return captured::file("openapi/v3.json");
    }
    let mut document = (*captured::json("openapi/v3.json")?).clone();
    let paths = document.get_mut("paths")?.as_object_mut()?;
    for (path, members) in by_path(customs) {
        let body = serde_json::to_vec(&group_document(&members)).ok()?;
        let mut hash = String::new();
        for byte in sha2::Sha512::digest(&body) {
            // Writing to a String cannot fail.
            let _ = write!(hash, "{byte:02X}");
        }
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    serde_json::to_vec(&document).ok()
}

fn third(path: &str, customs: Customs<'_>) -> Option<Vec<u8>> {
    let own = by_path(customs).remove(path);
    if own.is_none() || path == "api/v1" {
        return captured::file(&format!("openapi/v3/{}.json", path.replace('/', "__")));
    }
    serde_json::to_vec(&group_document(&own.unwrap_or_default())).ok()
}

fn by_path<'a>(customs: Customs<'a>) -> BTreeMap<String, Vec<&'a ResourceType>> {
    let mut out: BTreeMap<String, Vec<&ResourceType>> = BTreeMap::new();
    for t in customs {
        out.entry(format!("apis/{}", t.gvr.api_version())).or_default().push(t);
    }
    out
}

fn group_document(members: &[&ResourceType]) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for t in members {
        schemas.insert(definition_name(t), typed_schema(t, "#/components/schemas/"));
        paths.extend(operations(t));
    }
    if let Some(meta) = captured::json("openapi/v3/apis__apps__v1.json") {
        let all = &meta["components"]["schemas"];
        for name in ["ObjectMeta", "ListMeta", "ManagedFieldsEntry", "OwnerReference", "FieldsV1", "Time"] {
            let full = format!("{META}{name}");
            if let Some(schema) = all.get(&full) {
                schemas.insert(full, schema.clone());
            }
        }
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths, "components": {"schemas": schemas},
    })
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Enough of each operation for clients that look for a kind's parameters, as `kubectl` does before it validates.
fn operations(t: &ResourceType) -> Vec<(String, Value)> {
    let root = if t.namespaced { "/namespaces/{namespace}" } else { "" };
    let base = format!("/apis/{}{root}/{}", t.gvr.api_version(), t.gvr.resource);
    let kind = json!({"group": t.kind.group, "kind": t.kind.kind, "version": t.kind.version});
    let schema = json!({"$ref": format!("#/components/schemas/{}", definition_name(t))});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let writes = json!([parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")]);
    let operation = |action: &str, parameters: &Value| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind, "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        })
    };
    let none = json!([]);
    vec![
        (base.clone(), json!({"get": operation("list", &none), "post": operation("post", &writes)})),
        (
            format!("{base}/{{name}}"),
            json!({
                "get": operation("get", &none), "put": operation("put", &writes),
                "patch": operation("patch", &writes), "delete": operation("delete", &none),
            }),
        ),
    ]
}

/// `com.example.v1.Widget` for group `example.com`: the group's labels reversed.
fn definition_name(t: &ResourceType) -> String {
    let labels: Vec<&str> = t.gvr.group.rsplit('.').collect();
    format!("{}.{}.{}", labels.join("."), t.gvr.version, t.kind.kind)
}

fn typed_schema(t: &ResourceType, prefix: &str) -> Value {
    let raw = t.custom.as_ref().map_or(Value::Null, |c| c.raw.clone());
    let mut schema = if raw.is_object() { raw } else { json!({"type": "object"}) };
    let kind = json!([{"group": t.kind.group, "kind": t.kind.kind, "version": t.kind.version}]);
    schema["x-kubernetes-group-version-kind"] = kind;
    let properties = schema.as_object_mut().map(|s| s.entry("properties").or_insert_with(|| json!({})));
    if let Some(properties) = properties {
        properties["apiVersion"] = json!({"type": "string"});
        properties["kind"] = json!({"type": "string"});
        properties["metadata"] = json!({"$ref": format!("{prefix}{META}ObjectMeta")});
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_documents_are_served_as_they_are() {
        assert_eq!(openapi("openapi/v3/apis/apps/v1", false, &[]).unwrap().body, {
            captured::file("openapi/v3/apis__apps__v1.json").unwrap()
        });
        assert!(openapi("openapi/v3/apis/none/v1", false, &[]).is_none());
        assert!(openapi("openapi/v2", true, &[]).unwrap().content_type.ends_with("protobuf"));
    }
}
