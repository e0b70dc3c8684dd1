//! `x-kubernetes-validations`: CEL rules over one node, with the old value where there is one.
//!
//! Rules are compiled once per process and text. A rule that uses `oldSelf` runs only where an old value corresponds, unless `optionalOldSelf`
//! makes it an optional. A rule without `oldSelf` that fails on an unchanged value passes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube_cel::{
    KubeCelExt as _,
    cel::{
        Context, ExecutionError, Value as Cel,
        objects::{Key, Map, OptionalValue},
        parser::{Expression, Parser},
    },
};
use serde_json::Value;

use super::{
    cause::{UNSUPPORTED, child, forbidden, index, invalid, key},
    correlate,
};
use crate::{
    schema::{Schema, TypeRef},
    status::Cause,
};

/// Compiles one expression, or says why it does not parse.
pub(super) fn compile(text: &str) -> Result<Arc<Expression>, String> {
    type Compiled = Result<Arc<Expression>, String>;
    static CACHE: Mutex<BTreeMap<String, Compiled>> = Mutex::new(BTreeMap::new());
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let parse = || Parser::default().enable_optional_syntax(true).parse(text).map(Arc::new).map_err(|e| e.to_string());
    cache.entry(text.to_owned()).or_insert_with(parse).clone()
}

/// Runs every rule of the object and of what it holds.
pub(super) fn check(new: &Value, old: Option<&Value>, ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    let rules = ty.schema.raw.get("x-kubernetes-validations").and_then(Value::as_array);
    if let Some(rules) = rules.filter(|r| !r.is_empty() && !new.is_null()) {
        run_all(rules, new, old, ty, path, out);
    }
    match new {
        Value::Object(map) => {
            for (name, value) in map {
                let Some(field) = ty.field(name) else { continue };
                let declared = ty.schema.properties.contains_key(name);
                let at = if declared { child(path, name) } else { key(path, name) };
                check(value, correlate::field(old, name), field, &at, out);
            }
        }
        Value::Array(items) => {
            let Some(inner) = ty.items() else { return };
            for (at, item) in items.iter().enumerate() {
                check(item, correlate::item(old, item, ty), inner, &index(path, at), out);
            }
        }
        _ => {}
    }
}

fn run_all(rules: &[Value], new: &Value, old: Option<&Value>, ty: TypeRef, path: &str, out: &mut Vec<Cause>) {
    BASE.with(|base| run_each(rules, new, old, ty, path, base, out));
}

thread_local! {
    /// Registering the functions costs more than most rules; a context cannot cross threads.
    static BASE: Context<'static> = Context::default().with_all();
}

fn run_each(
    rules: &[Value],
    new: &Value,
    old: Option<&Value>,
    ty: TypeRef,
    path: &str,
    base: &Context,
    out: &mut Vec<Cause>,
) {
    let this = typed(new, Some(ty), base);
    let before = old.map(|o| typed(o, Some(ty), base));
    let unchanged = old.is_some_and(|o| correlate::same(new, o, ty));
    for rule in rules {
        let optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let expression = match compile(text) {
            Ok(expression) => expression,
            Err(why) => {
                out.push(invalid(path, &Value::from(shown_type(ty.schema)), &format!("rule compile error: {why}")));
                continue;
            }
        };
        let transition = expression.references().has_variable("oldSelf");
        if transition && before.is_none() && !optional {
            continue;
        }
        let mut scope = base.new_inner_scope();
        scope.add_variable_from_value("self", this.clone());
        if optional {
            let wrapped = before.clone().map_or_else(OptionalValue::none, OptionalValue::of);
            scope.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(wrapped)));
        } else if let Some(before) = &before {
            scope.add_variable_from_value("oldSelf", before.clone());
        }
        let ratchets = unchanged && !transition;
        if let Some(cause) =
            judge(rule, &expression, &scope, ty.schema, path).filter(|c| !ratchets || c.reason == UNSUPPORTED)
        {
            out.push(cause);
        }
    }
}

fn judge(rule: &Value, expression: &Expression, scope: &Context, schema: &Schema, path: &str) -> Option<Cause> {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty());
    let named = text("message").or_else(|| text("rule")).unwrap_or_default();
    let at = text("fieldPath").map_or_else(|| path.to_owned(), |sub| child(path, sub.trim_start_matches('.')));
    match Cel::resolve(expression, scope) {
        Ok(Cel::Bool(true)) => None,
        Err(ExecutionError::UndeclaredReference(name)) => {
            Some(Cause::new(UNSUPPORTED, path, format!("the CEL function or macro {name} is not supported: {named}")))
        }
        Err(why) => {
            let detail = format!("{why} evaluating rule: {named}");
            Some(invalid(path, &Value::from(shown_type(schema)), &detail))
        }
        Ok(_) => {
            let message = text("messageExpression")
                .and_then(|source| compile(source).ok())
                .and_then(|program| match Cel::resolve(&program, scope) {
                    // Blank and many-line messages are ignored, as documented.
                    Ok(Cel::String(s)) if !s.trim().is_empty() && !s.contains('\n') => Some(s.trim().to_owned()),
                    _ => None,
                })
                .or_else(|| text("message").map(str::to_owned))
                .unwrap_or_else(|| format!("failed rule: {named}"));
            Some(by_reason(text("reason"), at, shown_type(schema), &message))
        }
    }
}

fn by_reason(reason: Option<&str>, at: String, kind: &str, message: &str) -> Cause {
    match reason {
        Some("FieldValueForbidden") => forbidden(at, message),
        Some("FieldValueRequired") => Cause::required(at, message),
        Some("FieldValueDuplicate") => Cause::new("FieldValueDuplicate", at, format!("Duplicate value: \"{kind}\"")),
        _ => invalid(at, &Value::from(kind), message),
    }
}

/// Rules print the type of the node in place of its value.
fn shown_type(schema: &Schema) -> &str {
    &schema.kind
}

fn typed(value: &Value, ty: Option<TypeRef>, base: &Context) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(b) => Cel::Bool(*b),
        Value::Number(n) => {
            let float = ty.is_some_and(|t| t.schema.kind == "number");
            match (n.as_i64(), n.as_u64()) {
                (Some(i), _) if !float => Cel::Int(i),
                (None, Some(u)) if !float => Cel::UInt(u),
                _ => Cel::Float(n.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => string(text, ty, base),
        Value::Array(items) => {
            let inner = ty.and_then(TypeRef::items);
            Cel::List(Arc::new(items.iter().map(|item| typed(item, inner, base)).collect()))
        }
        Value::Object(map) => {
            let is_map = ty.is_some_and(|t| t.schema.additional.is_some());
            let pairs = map.iter().map(|(name, inner)| {
                let shown = if is_map { name.clone() } else { escape(name) };
                (Key::String(Arc::new(shown)), typed(inner, ty.and_then(|t| t.field(name)), base))
            });
            Cel::Map(Map { map: Arc::new(pairs.collect()) })
        }
    }
}

fn string(text: &str, ty: Option<TypeRef>, base: &Context) -> Cel {
    let plain = Cel::String(Arc::new(text.to_owned()));
    let schema = ty.map(|t| t.schema).filter(|s| !s.int_or_string);
    let convert = match schema.map(|s| s.format.as_str()) {
        Some("date-time") => "timestamp(text)",
        Some("date") => "timestamp(text + 'T00:00:00Z')",
        Some("duration") => "duration(text)",
        Some("byte") => "base64.decode(text)",
        _ => return plain,
    };
    let mut scope = base.new_inner_scope();
    scope.add_variable_from_value("text", plain.clone());
    compile(convert).ok().and_then(|program| Cel::resolve(&program, &scope).ok()).unwrap_or(plain)
}

/// A field's name as a rule writes it.
fn escape(name: &str) -> String {
    const RESERVED: [&str; 20] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
    ];
    if RESERVED.contains(&name) || name == "while" {
        return format!("__{name}__");
    }
    // Double underscores go first, since the other replacements introduce them.
    let mut escaped = name.replace("__", "__underscores__");
    for (from, to) in [(".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")] {
        escaped = escaped.replace(from, to);
    }
    escaped
}
