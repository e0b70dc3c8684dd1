//! `x-kubernetes-validations` as a definition writes them.

use serde_json::Value;

use crate::{
    crd::{
        cause::{child, invalid, not_supported},
        rules,
    },
    status::Cause,
};

/// Judges the text of every rule of one node.
pub(super) fn validations(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let list = schema.get("x-kubernetes-validations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, rule) in list.iter().enumerate() {
        let base = format!("{}[{at}]", child(path, "x-kubernetes-validations"));
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let message = rule.get("message").and_then(Value::as_str);
        if text.trim().is_empty() {
            out.push(Cause::required(child(&base, "rule"), "rule is not specified"));
            continue;
        }
        if let Some(blank) = message.filter(|m| m.trim().is_empty()) {
            out.push(invalid(child(&base, "message"), &Value::from(blank), "must be non-empty if specified"));
        } else if let Some(long) = message.filter(|m| m.trim().contains('\n')) {
            out.push(invalid(child(&base, "message"), &Value::from(long), "must not contain line breaks"));
        } else if text.trim().contains('\n') && message.is_none() {
            let why = "message must be specified if rule contains line breaks";
            out.push(Cause::required(child(&base, "message"), why));
        }
        match rules::compile(text) {
            Err(why) => out.push(invalid(child(&base, "rule"), rule, &format!("compilation failed: {why}"))),
            Ok(program) => {
                if rule.get("optionalOldSelf").is_some() && !program.references().has_variable("oldSelf") {
                    let why = "may not be set if oldSelf is not used in rule";
                    out.push(invalid(child(&base, "optionalOldSelf"), &rule["optionalOldSelf"], why));
                }
            }
        }
        let source = rule.get("messageExpression").and_then(Value::as_str);
        if let Some(Err(why)) = source.map(rules::compile) {
            let detail = format!("messageExpression compilation failed: {why}");
            out.push(invalid(child(&base, "messageExpression"), rule, &detail));
        }
        let reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if let Some(other) = rule.get("reason").filter(|r| !r.as_str().is_some_and(|r| reasons.contains(&r))) {
            out.push(not_supported(child(&base, "reason"), other, &reasons.map(str::to_owned)));
        }
    }
}
