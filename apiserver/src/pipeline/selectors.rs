//! Label and field selectors of lists, watches and collection deletes.

use serde_json::Value;

use crate::{discovery::ResourceType, status::ApiError};

use super::meta;

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

/// One requirement on a field: path, expected text, and whether it must be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

/// Both selectors of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

impl Selector {
    /// Reads both selectors for a resource.
    ///
    /// # Errors
    /// 400 for bad syntax and for fields that the resource cannot be selected by.
    pub fn parse(labels: &str, fields: &str, kind: &ResourceType) -> Result<Self, ApiError> {
        let mut parsed = Self {
            labels: parse_labels(labels).map_err(|why| unable(kind, labels, fields, &why))?,
            fields: parse_fields(fields).map_err(|why| unable(kind, labels, fields, &why))?,
        };
        for term in &mut parsed.fields {
            term.path = stored_path(kind, &term.path);
            if !selectable(kind, &term.path) {
                let why = format!("field label not supported: {}", term.path);
                return Err(unable(kind, labels, fields, &why));
            }
        }
        Ok(parsed)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|r| label_holds(r, object))
            && self.fields.iter().all(|t| (field_value(object, &t.path) == t.value) == t.equal)
    }
}

fn unable(kind: &ResourceType, labels: &str, fields: &str, why: &str) -> ApiError {
    let gvr = &kind.gvr;
    let group_version = if gvr.group.is_empty() { format!("/{}", gvr.version) } else { gvr.api_version() };
    ApiError::bad_request(format!(
        "Unable to find {:?} that match label selector {labels:?}, field selector {fields:?}: {why}",
        format!("{group_version}, Resource={}", gvr.resource),
    ))
}

/// The text of a field; booleans and numbers in their JSON spelling, empty when absent.
fn field_value(object: &Value, path: &str) -> String {
    if path.contains('.') {
        let found = path.split('.').try_fold(object, |at, step| at.get(step));
        return scalar(found);
    }
    // Core events and secrets are selected by top-level fields.
    match path {
        "reportingComponent" => {
            let direct = scalar(object.get("reportingComponent"));
            if direct.is_empty() { scalar(object.pointer("/source/component")) } else { direct }
        }
        "source" => {
            let direct = scalar(object.pointer("/source/component"));
            if direct.is_empty() { scalar(object.get("reportingComponent")) } else { direct }
        }
        _ => scalar(object.get(path)),
    }
}

fn scalar(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(s)) => s.clone(),
        Some(v @ (Value::Bool(_) | Value::Number(_))) => v.to_string(),
        _ => String::new(),
    }
}

fn selectable(kind: &ResourceType, path: &str) -> bool {
    if path == "metadata.name" || (path == "metadata.namespace" && kind.namespaced) {
        return true;
    }
    if let Some(custom) = &kind.custom {
        return custom.selectable.iter().any(|p| p.trim_start_matches('.') == path);
    }
    let known: &[&str] = match kind.table.as_str() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "secrets" => &["type"],
        "namespaces" => &["status.phase"],
        "nodes" => &["spec.unschedulable"],
        "services" => &["spec.clusterIP", "spec.type"],
        "replicationcontrollers" | "replicasets.apps" => &["status.replicas"],
        "jobs.batch" => &["status.successful"],
        "certificatesigningrequests.certificates.k8s.io" => &["spec.signerName"],
        _ => &[],
    };
    known.contains(&path)
}

/// Selectors look at stored objects; events of `events.k8s.io` are stored under the core group's field names.
fn stored_path(kind: &ResourceType, path: &str) -> String {
    if kind.table != "events" {
        return path.to_owned();
    }
    match path.strip_prefix("regarding.") {
        Some(rest) => format!("involvedObject.{rest}"),
        None if path == "reportingController" => "reportingComponent".into(),
        None => path.to_owned(),
    }
}

fn label_holds(requirement: &Requirement, object: &Value) -> bool {
    let get = |key: &str| meta::field(object, "labels").and_then(|l| l.get(key)).and_then(Value::as_str);
    let number = |key: &str| get(key).and_then(|v| v.parse::<i64>().ok());
    match requirement {
        Requirement::In(key, values) => get(key).is_some_and(|v| values.iter().any(|x| x == v)),
        Requirement::NotIn(key, values) => get(key).is_none_or(|v| values.iter().all(|x| x != v)),
        Requirement::Exists(key) => get(key).is_some(),
        Requirement::Absent(key) => get(key).is_none(),
        Requirement::Greater(key, bound) => number(key).is_some_and(|n| n > *bound),
        Requirement::Less(key, bound) => number(key).is_some_and(|n| n < *bound),
    }
}

fn parse_fields(text: &str) -> Result<Vec<FieldTerm>, String> {
    let mut out = Vec::new();
    for term in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
        let split = term.split_once("!=").map(|(p, v)| (p, v, false));
        let split = split.or_else(|| term.split_once("==").map(|(p, v)| (p, v, true)));
        let split = split.or_else(|| term.split_once('=').map(|(p, v)| (p, v, true)));
        let Some((path, value, equal)) = split else {
            return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
        };
        out.push(FieldTerm { path: path.trim().into(), value: value.trim().into(), equal });
    }
    Ok(out)
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    terms(text).into_iter().filter(|t| !t.is_empty()).map(parse_label).collect()
}

/// Splits at commas outside of parentheses.
fn terms(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(text.get(start..).unwrap_or_default().trim());
    out
}

fn parse_label(term: &str) -> Result<Requirement, String> {
    let bad = || format!("unable to parse requirement: {term:?}");
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Requirement::Absent(label_key(key.trim(), term)?));
    }
    if let Some((head, set)) = term.split_once('(') {
        let set = set.strip_suffix(')').ok_or_else(bad)?;
        let values = set.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        let (key, operator) = (words.next().ok_or_else(bad)?, words.next());
        let key = label_key(key, term)?;
        return match operator {
            Some("in") => Ok(Requirement::In(key, values)),
            Some("notin") => Ok(Requirement::NotIn(key, values)),
            _ => Err(bad()),
        };
    }
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((key, value)) = term.split_once(operator) {
            let (key, values) = (label_key(key.trim(), term)?, vec![value.trim().to_owned()]);
            return Ok(if equal { Requirement::In(key, values) } else { Requirement::NotIn(key, values) });
        }
    }
    for operator in ['>', '<'] {
        if let Some((key, value)) = term.split_once(operator) {
            let (key, bound) = (label_key(key.trim(), term)?, value.trim().parse().map_err(|_| bad())?);
            let greater = operator == '>';
            return Ok(if greater { Requirement::Greater(key, bound) } else { Requirement::Less(key, bound) });
        }
    }
    Ok(Requirement::Exists(label_key(term, term)?))
}

fn label_key(key: &str, term: &str) -> Result<String, String> {
    let fine = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if fine { Ok(key.to_owned()) } else { Err(format!("unable to parse requirement: {term:?}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{discovery::builtin, resource::Gvr};

    fn selects(labels: &str, fields: &str) -> bool {
        let pods = builtin(&Gvr::new("", "v1", "pods")).unwrap();
        let pod = json!({
            "metadata": {"name": "p", "namespace": "x", "labels": {"app": "web", "n": "5"}},
            "status": {"phase": "Running"}, "spec": {"hostNetwork": true},
        });
        Selector::parse(labels, fields, &pods).unwrap().matches(&pod)
    }

    #[test]
    fn labels_select() {
        for yes in
            ["", "app", "app=web", "app==web", "app!=db", "app in (db, web)", "app notin (db)", "!gone", "n>4,n<6"]
        {
            assert!(selects(yes, ""), "{yes}");
        }
        for no in ["gone", "app=db", "app!=web", "app in (db)", "app notin (web),app", "!app", "n>5", "gone!=x,gone"] {
            assert!(!selects(no, ""), "{no}");
        }
    }

    #[test]
    fn fields_select() {
        assert!(selects("", "metadata.name=p,status.phase!=Failed,spec.hostNetwork=true"));
        assert!(!selects("", "metadata.namespace=y"));
        let pods = builtin(&Gvr::new("", "v1", "pods")).unwrap();
        let error = Selector::parse("", "spec.foo=1", &pods).unwrap_err();
        assert_eq!(error.code, 400);
        assert!(error.message.ends_with("field label not supported: spec.foo"), "{}", error.message);
        assert_eq!(Selector::parse("a in b", "", &pods).unwrap_err().code, 400);
    }
}
