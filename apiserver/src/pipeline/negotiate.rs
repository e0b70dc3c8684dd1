//! Which form of answer the client accepts.

use crate::status::ApiError;

/// The form of a successful answer for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    #[default]
    Object,
    /// `metadata` only.
    Partial,
    /// Rows for a terminal.
    Table,
}

/// One clause of an Accept header: media type and parameters.
fn clauses(accept: &str) -> Vec<(String, Vec<(String, String)>)> {
    let clause = |text: &str| {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let pairs = parts.filter_map(|p| p.split_once('=')).map(|(k, v)| (k.trim().into(), v.trim().into()));
        (kind, pairs.collect())
    };
    accept.split(',').map(clause).filter(|(kind, _)| !kind.is_empty()).collect()
}

/// The forms that the client accepts as JSON, in its order. JSON also answers a client that asks for protobuf only:
/// decoders follow the answer's Content-Type.
///
/// # Errors
/// 406 when neither would be understood.
pub fn forms(accept: &str) -> Result<Vec<Form>, ApiError> {
    let all = clauses(accept);
    if all.is_empty() {
        return Ok(vec![Form::Object]);
    }
    let mut out = Vec::new();
    for (kind, parameters) in &all {
        let json = matches!(kind.as_str(), "application/json" | "application/*" | "*/*");
        let protobuf = kind == "application/vnd.kubernetes.protobuf";
        if !json && !protobuf {
            continue;
        }
        let wanted = parameters.iter().find(|(k, _)| k == "as").map(|(_, v)| v.as_str());
        let form = match wanted {
            None => Form::Object,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Form::Partial,
            Some("Table") => Form::Table,
            Some(_) => continue,
        };
        if !out.contains(&form) {
            out.push(form);
        }
    }
    if out.is_empty() { Err(not_acceptable()) } else { Ok(out) }
}

/// The answer to a request whose every accepted form is unknown here.
pub fn not_acceptable() -> ApiError {
    ApiError::new(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf",
    )
}

/// The version of aggregated discovery that the client prefers to the plain form and that is served.
pub fn aggregated_discovery(accept: &str) -> Option<&'static str> {
    for (kind, parameters) in clauses(accept) {
        let has = |k: &str, v: &str| parameters.iter().any(|(key, value)| key == k && value == v);
        let json = matches!(kind.as_str(), "application/json" | "*/*" | "application/*");
        if has("as", "APIGroupDiscoveryList") {
            if json && has("g", "apidiscovery.k8s.io") && has("v", "v2") {
                return Some("v2");
            }
        } else if json {
            return None;
        }
    }
    None
}

/// Whether the client wants OpenAPI v2 as protobuf.
pub fn wants_openapi_protobuf(accept: &str) -> bool {
    clauses(accept).first().is_some_and(|(kind, _)| kind.contains("proto-openapi"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_form_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(forms(kubectl).unwrap(), [Form::Table, Form::Object]);
        assert_eq!(forms("application/vnd.kubernetes.protobuf,application/json").unwrap(), [Form::Object]);
        assert_eq!(forms("").unwrap(), [Form::Object]);
        assert_eq!(forms("application/cbor").unwrap_err().code, 406);
    }

    #[test]
    fn aggregated_discovery_needs_its_parameters() {
        let both = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(aggregated_discovery(both), Some("v2"));
        assert_eq!(aggregated_discovery("application/json"), None);
        assert_eq!(
            aggregated_discovery("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
            None
        );
    }
}
