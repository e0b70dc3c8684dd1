//! Reading: one object, and lists with selectors, pages and revisions.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    status::{ApiError, Cause},
    store::Objects,
};

use super::{
    answer::{Answer, partial},
    call::Call,
    cluster::{State, Tx},
    convert,
    negotiate::Form,
    selectors::Selector,
    table,
    target::Query,
};

/// GET of one object, in its storage form.
pub(crate) fn get(state: &State, call: &Call, query: &Query) -> Result<Arc<Value>, ApiError> {
    not_from_the_future(state, query.get("resourceVersion"))?;
    let found = state.store.get(&call.kind.table, &call.kind.key(&call.namespace, &call.name));
    found.ok_or_else(|| ApiError::not_found(call.gvr(), &call.name))
}

/// GET of a collection.
pub(crate) fn list(tx: &Tx<'_>, call: &Call, query: &Query, form: Form) -> Result<Answer, ApiError> {
    check_options(query)?;
    let selector = Selector::parse(query.get("labelSelector"), query.get("fieldSelector"), &call.kind)?;
    let page = Page::read(tx.state, call, query)?;
    let limit = usize::try_from(query.number("limit").unwrap_or(0)).unwrap_or(usize::MAX);
    let mut chosen: Vec<&Arc<Value>> = Vec::new();
    let mut last_key = "";
    let mut more = false;
    let mut left = 0_u64;
    for (key, object) in in_namespace(&page.objects, call) {
        let relative = relative_key(call, key);
        if page.start.as_deref().is_some_and(|start| relative < start) || !selector.matches(object) {
            continue;
        }
        if limit > 0 && chosen.len() == limit {
            more = true;
            left += 1;
            continue;
        }
        last_key = relative;
        chosen.push(object);
    }
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if more {
        // A zero byte after the key: the next page starts right behind it.
        let token = json!({"v": "meta.k8s.io/v1", "rv": page.revision, "start": format!("{last_key}\u{0}")});
        metadata["continue"] = BASE64.encode(token.to_string()).into();
        if selector.is_empty() {
            metadata["remainingItemCount"] = left.into();
        }
    }
    if form == Form::Object && convert::is_identity(&call.kind) {
        let body = Listed {
            kind: &call.kind.list_kind,
            api_version: call.kind.kind.api_version(),
            metadata,
            items: chosen.into_iter().map(|object| Item { object, typed: call.kind.custom.is_some() }).collect(),
        };
        return Ok(Answer::json(200, &body));
    }
    Ok(Answer::json(200, &collection(call, form, &chosen, metadata, tx)))
}

/// A list that is written straight from the store; copies of large lists are what costs most in a poll.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    kind: &'a str,
    api_version: String,
    metadata: Value,
    items: Vec<Item<'a>>,
}

struct Item<'a> {
    object: &'a Value,
    /// Items of built-in lists are typed by the list alone.
    typed: bool,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.object {
            Value::Object(map) if !self.typed => {
                serializer.collect_map(map.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind")))
            }
            other => other.serialize(serializer),
        }
    }
}

/// The list object in the asked form.
pub(crate) fn collection(call: &Call, form: Form, objects: &[&Arc<Value>], metadata: Value, tx: &Tx<'_>) -> Value {
    let kind = &call.kind;
    match form {
        Form::Object => {
            let item = |object: &&Arc<Value>| {
                let mut item = convert::from_storage(kind, object);
                if kind.custom.is_none()
                    && let Some(map) = item.as_object_mut()
                {
                    map.remove("apiVersion");
                    map.remove("kind");
                }
                item
            };
            let items: Vec<Value> = objects.iter().map(item).collect();
            json!({"kind": kind.list_kind, "apiVersion": kind.kind.api_version(), "metadata": metadata, "items": items})
        }
        Form::Partial => {
            let items: Vec<Value> = objects.iter().map(|o| partial(o)).collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
            })
        }
        Form::Table => {
            let objects: Vec<&Value> = objects.iter().map(|o| o.as_ref()).collect();
            table::of(kind, &objects, metadata, tx.now)
        }
    }
}

/// The entries of the call's namespace, or of all.
pub(crate) fn in_namespace<'a>(
    objects: &'a Objects,
    call: &Call,
) -> impl Iterator<Item = (&'a String, &'a Arc<Value>)> {
    let prefix =
        if call.kind.namespaced && !call.namespace.is_empty() { format!("{}/", call.namespace) } else { String::new() };
    objects.range(prefix.clone()..).take_while(move |(key, _)| key.starts_with(&prefix))
}

/// The key without the namespace that the whole list is about.
fn relative_key<'a>(call: &Call, key: &'a str) -> &'a str {
    if call.kind.namespaced && !call.namespace.is_empty() {
        key.split_once('/').map_or(key, |(_, name)| name)
    } else {
        key
    }
}

/// Which objects a list is made from.
struct Page {
    objects: Objects,
    revision: u64,
    /// The first key of this page.
    start: Option<String>,
}

impl Page {
    fn read(state: &State, call: &Call, query: &Query) -> Result<Self, ApiError> {
        let table = &call.kind.table;
        let now = state.store.revision();
        if query.has("continue") && !query.get("continue").is_empty() {
            let (revision, start) = read_token(query.get("continue"))?;
            let objects = state.store.objects_at(table, revision).map_err(|_| {
                ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a \
                     new list without the continue parameter.",
                )
            })?;
            return Ok(Self { objects, revision, start: Some(start) });
        }
        let given = not_from_the_future(state, query.get("resourceVersion"))?;
        let exact = match query.get("resourceVersionMatch") {
            "Exact" => true,
            "" => given > 0 && query.number("limit").unwrap_or(0) > 0,
            _ => false,
        };
        if !exact {
            return Ok(Self { objects: state.store.objects(table), revision: now, start: None });
        }
        let objects = state
            .store
            .objects_at(table, given)
            .map_err(|e| ApiError::expired(format!("too old resource version: {given} ({})", e.oldest)))?;
        Ok(Self { objects, revision: given, start: None })
    }
}

fn read_token(token: &str) -> Result<(u64, String), ApiError> {
    let bad = |why: &str| ApiError::bad_request(format!("continue key is not valid: {why}"));
    let bytes = BASE64.decode(token.trim_end_matches('=')).map_err(|e| bad(&e.to_string()))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| bad(&e.to_string()))?;
    if value["v"] != "meta.k8s.io/v1" {
        return Err(bad("server does not recognize this encoded version"));
    }
    let start = value["start"].as_str().filter(|s| !s.is_empty()).ok_or_else(|| bad("encoded start key empty"))?;
    Ok((value["rv"].as_u64().unwrap_or(0), start.to_owned()))
}

/// Reads a resourceVersion (0 when empty); one that is not reached yet is refused as a server does that waited for it.
pub(crate) fn not_from_the_future(state: &State, text: &str) -> Result<u64, ApiError> {
    let given = parse_revision(text)?;
    let now = state.store.revision();
    if given <= now {
        return Ok(given);
    }
    let mut error = ApiError::new(504, "Timeout", format!("Too large resource version: {given}, current: {now}"));
    error.details.retry_after_seconds = Some(1);
    error.details.causes.push(Cause::new("ResourceVersionTooLarge", "", "Too large resource version"));
    Err(error)
}

pub(crate) fn parse_revision(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let cause = Cause::invalid("resourceVersion", &text.into(), "strconv.ParseUint: parsing invalid syntax");
        ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![cause])
    })
}

/// The combinations of `resourceVersion`, `resourceVersionMatch`, `continue` and `sendInitialEvents` that are allowed.
pub(crate) fn check_options(query: &Query) -> Result<(), ApiError> {
    let forbidden = |field: &str, why: &str| {
        let cause = Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"));
        Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![cause]))
    };
    let (version, matching) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
    let watch = query.flag("watch");
    if query.has("sendInitialEvents") {
        if !watch {
            return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return forbidden("resourceVersionMatch", why);
        }
        return Ok(());
    }
    if matching.is_empty() {
        return Ok(());
    }
    if watch {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        return forbidden("resourceVersionMatch", why);
    }
    if version.is_empty() {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        return forbidden("resourceVersionMatch", why);
    }
    if !query.get("continue").is_empty() {
        return forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
    }
    match matching {
        "Exact" if version == "0" => {
            forbidden("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" | "NotOlderThan" => Ok(()),
        other => {
            let message =
                format!("Unsupported value: \"{other}\": supported values: \"Exact\", \"NotOlderThan\", \"\"");
            let cause = Cause::new("FieldValueNotSupported", "resourceVersionMatch", message);
            Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![cause]))
        }
    }
}
