//! Expectations as predicates over objects, in CEL.
//!
//! # Flow
//! An [`Expectation`] is compiled once; then, for the objects that are there, it holds or says why not.
//!
//! # Guarantees
//! A missing field, a missing object and a comparison of unlike things mean "does not hold", never an error: an
//! operator that has not got so far yet is not broken. Only the CEL standard functions and those of Kubernetes exist.
//!
//! # Not done
//! No lookup of objects: the caller finds those of the kind and namespace; name and selector are matched here.

use std::sync::{Arc, LazyLock};

use cel::{
    Context, ExecutionError, Program,
    objects::{Key, Map},
};
use kube_cel::KubeCelExt as _;
use regex::Regex;
use serde_json::Value;

use super::{
    format::{Expectation, ObjectRef},
    selector::LabelSelector,
};

/// The answer of a predicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Yes,
    /// Which object, which expression, and the values that it saw.
    No(String),
}

/// Why an expectation is not a predicate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PredicateError {
    #[error("`{expression}` is not a CEL expression: {reason}")]
    Syntax { expression: String, reason: String },
    #[error("`{expression}` uses `{used}`, but {reason}")]
    Variable { expression: String, used: &'static str, reason: &'static str },
    #[error("`{expression}` calls or names `{name}`, which does not exist")]
    Undeclared { expression: String, name: String },
    #[error("{0}")]
    Selector(#[from] super::selector::SelectorError),
    #[error("`absent: true` and `that` contradict each other")]
    AbsentAndThat,
}

/// A compiled expectation.
#[derive(Debug)]
pub struct Predicate {
    object: ObjectRef,
    selector: LabelSelector,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Exists,
    Absent,
    Cel { expression: String, program: Box<Program>, variable: &'static str },
}

impl Predicate {
    /// Compiles an expectation.
    ///
    /// # Errors
    /// When the expression is not CEL, names what does not exist, or contradicts the rest of the expectation.
    pub fn compile(expectation: &Expectation) -> Result<Self, PredicateError> {
        let selector = expectation.object.selector.as_deref().unwrap_or_default().parse()?;
        let test = match (&expectation.that, expectation.absent) {
            (Some(_), true) => return Err(PredicateError::AbsentAndThat),
            (None, true) => Test::Absent,
            (None, false) => Test::Exists,
            (Some(expression), false) => compile_cel(expression, expectation.object.name.is_some())?,
        };
        Ok(Self { object: expectation.object.clone(), selector, test })
    }

    /// The objects that this predicate is about.
    #[must_use]
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// Whether it holds for the objects of its kind and namespace, which `objects` finds.
    pub fn evaluate(&self, objects: impl Fn(&ObjectRef) -> Vec<Value>) -> Held {
        let found: Vec<Value> = objects(&self.object).into_iter().filter(|object| self.concerns(object)).collect();
        match &self.test {
            Test::Exists if found.is_empty() => Held::No(format!("{} does not exist", self.subject())),
            Test::Exists => Held::Yes,
            Test::Absent if found.is_empty() => Held::Yes,
            Test::Absent => Held::No(format!("{} still there: {}", self.subject(), names(&found))),
            Test::Cel { expression, program, variable } => {
                let value = if *variable == "object" {
                    match found.into_iter().next() {
                        Some(object) => object,
                        None => return Held::No(format!("{} does not exist", self.subject())),
                    }
                } else {
                    Value::Array(found)
                };
                self.judge(expression, program, variable, &value)
            }
        }
    }

    fn judge(&self, expression: &str, program: &Program, variable: &str, value: &Value) -> Held {
        let because = match run(program, variable, value) {
            Ok(cel::Value::Bool(true)) => return Held::Yes,
            Ok(cel::Value::Bool(false)) => String::new(),
            Ok(other) => format!(" (gives {}, not true or false)", other.type_of()),
            Err(ExecutionError::NoSuchKey(key)) => format!(" (no field `{key}`)"),
            Err(error) => format!(" ({})", shorten(&error.to_string())),
        };
        let seen = seen(expression, variable, value);
        let colon = if seen.is_empty() { "" } else { "; " };
        Held::No(format!("{}: `{expression}` does not hold{because}{colon}{}", self.subject(), seen.join(", ")))
    }

    fn concerns(&self, object: &Value) -> bool {
        let fits = |wanted: &Option<String>, field| {
            wanted.as_ref().is_none_or(|wanted| crate::object::metadata(object, field) == wanted)
        };
        fits(&self.object.name, "name") && self.selector.matches(object)
    }

    fn subject(&self) -> String {
        describe(&self.object)
    }
}

/// An object reference in words: `Widget default/demo`, `pods...` by selector.
#[must_use]
pub fn describe(object: &ObjectRef) -> String {
    let namespace = object.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    match (&object.name, &object.selector) {
        (Some(name), _) => format!("{} {namespace}{name}", object.kind),
        (None, Some(selector)) => format!("{} {namespace}* with {selector}", object.kind),
        (None, None) => format!("{} {namespace}*", object.kind),
    }
}

fn compile_cel(expression: &str, named: bool) -> Result<Test, PredicateError> {
    let wrong = |used, reason| PredicateError::Variable { expression: expression.to_owned(), used, reason };
    let program = Program::compile(expression)
        .map_err(|error| PredicateError::Syntax { expression: expression.to_owned(), reason: one_line(&error) })?;
    let references = program.references();
    let (object, objects) = (references.has_variable("object"), references.has_variable("objects"));
    let variable = match (named, object, objects) {
        (true, false, true) => return Err(wrong("objects", "with a `name` the variable is `object`")),
        (false, true, false) => return Err(wrong("object", "without a `name` the variable is the list `objects`")),
        (true, ..) => "object",
        (false, ..) => "objects",
    };
    // A trial on nothing finds names that no object could ever give a meaning.
    let nothing = if named { serde_json::json!({}) } else { serde_json::json!([]) };
    if let Err(ExecutionError::UndeclaredReference(name)) = run(&program, variable, &nothing) {
        return Err(PredicateError::Undeclared { expression: expression.to_owned(), name: name.to_string() });
    }
    Ok(Test::Cel { expression: expression.to_owned(), program: Box::new(program), variable })
}

fn run(program: &Program, variable: &str, value: &Value) -> Result<cel::Value, ExecutionError> {
    let mut context = Context::default().with_all();
    context.add_variable_from_value(variable, to_cel(value));
    program.execute(&context)
}

fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(b) => cel::Value::Bool(*b),
        // Whole numbers are CEL ints, so that `object.spec.replicas == 3` compares like with like.
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(int), _) => cel::Value::Int(int),
            (None, Some(unsigned)) => cel::Value::UInt(unsigned),
            (None, None) => cel::Value::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(s) => cel::Value::String(Arc::new(s.clone())),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let map = fields.iter().map(|(key, value)| (Key::from(key.as_str()), to_cel(value))).collect();
            cel::Value::Map(Map { map: Arc::new(map) })
        }
    }
}

/// Paths such as `object.status.conditions[0].type`, also where a call follows.
static PATH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"\bobject((?:\.[A-Za-z_][A-Za-z0-9_]*\b|\[(?:"[^"]*"|'[^']*'|[0-9]+)\])+)(\s*\()?"#).ok()
});
static STEP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\.([A-Za-z_][A-Za-z0-9_]*)|\["([^"]*)"\]|\['([^']*)'\]|\[([0-9]+)\]"#).ok());

/// The values of the paths that an expression reads, such as `object.status.phase is "Pending"`.
fn seen(expression: &str, variable: &str, value: &Value) -> Vec<String> {
    if variable == "objects" {
        let objects = value.as_array().map(Vec::as_slice).unwrap_or_default();
        return vec![match objects.len() {
            0 => "there are none".to_owned(),
            n => format!("there are {n}: {}", names(objects)),
        }];
    }
    let (Some(path), Some(step)) = (PATH.as_ref(), STEP.as_ref()) else { return Vec::new() };
    let mut lines = Vec::new();
    for found in path.captures_iter(expression) {
        let mut steps: Vec<&str> = step
            .captures_iter(&found[1])
            .filter_map(|step| step.iter().skip(1).flatten().next().map(|group| group.as_str()))
            .collect();
        if found.get(2).is_some() {
            // The last word before a parenthesis is a function, not a field.
            steps.pop();
        }
        let line = follow(value, &steps);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Follows a path as far as it goes, and says what is there.
fn follow(value: &Value, steps: &[&str]) -> String {
    let mut here = value;
    let mut path = "object".to_owned();
    for step in steps {
        path = format!("{path}.{step}");
        let next = match here {
            Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(*step),
        };
        match next {
            Some(next) => here = next,
            None => return format!("{path} is missing"),
        }
    }
    format!("{path} is {}", shorten(&here.to_string()))
}

/// Long values are of no use in one line of a report.
fn shorten(text: &str) -> String {
    const LIMIT: usize = 120;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn one_line(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    shorten(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("cannot be read"))
}

fn names(objects: &[Value]) -> String {
    // A handful identifies the case; hundreds would drown it.
    let shown: Vec<&str> = objects.iter().take(5).map(|object| crate::object::metadata(object, "name")).collect();
    let more = if objects.len() > shown.len() { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expectation(name: Option<&str>, that: Option<&str>) -> Expectation {
        Expectation {
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "Pod".into(),
                name: name.map(str::to_owned),
                namespace: None,
                selector: None,
            },
            that: that.map(str::to_owned),
            absent: false,
        }
    }

    fn evaluate(name: Option<&str>, that: Option<&str>, objects: Value) -> Held {
        Predicate::compile(&expectation(name, that)).unwrap().evaluate(|_| objects.as_array().unwrap().clone())
    }

    fn pod(name: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"replicas": 3}, "status": {"phase": "Up"}})
    }

    #[test]
    fn holds() {
        for that in [
            "object.spec.replicas == 3",
            "object.status.phase == 'Up' && object.metadata.labels['app'].startsWith('a')",
            "!has(object.status.gone)",
            "quantity('1000m').compareTo(quantity('1')) == 0",
        ] {
            assert_eq!(evaluate(Some("a"), Some(that), json!([pod("b"), pod("a")])), Held::Yes, "{that}");
        }
        assert_eq!(evaluate(None, Some("objects.size() == 2"), json!([pod("a"), pod("b")])), Held::Yes);
        assert_eq!(evaluate(None, Some("objects.all(o, o.spec.replicas == 3)"), json!([pod("a")])), Held::Yes);
        assert_eq!(evaluate(Some("a"), None, json!([pod("a")])), Held::Yes);
    }

    #[test]
    fn says_why_not() {
        let table = [
            (Some("a"), Some("object.spec.replicas == 4"), "object.spec.replicas is 3"),
            (Some("a"), Some("object.status.ready == 4"), "object.status.ready is missing"),
            (Some("a"), Some("object.status.deep.er == 4"), "object.status.deep is missing"),
            (Some("a"), Some("object.metadata.name.startsWith('x')"), r#"object.metadata.name is "a""#),
            (Some("a"), Some("object.spec.replicas"), "not true or false"),
            (Some("z"), Some("object.spec.replicas == 3"), "Pod z does not exist"),
            (Some("z"), None, "Pod z does not exist"),
            (None, Some("objects.size() == 3"), "there are 1: a"),
        ];
        for (name, that, expected) in table {
            match evaluate(name, that, json!([pod("a")])) {
                Held::No(why) => assert!(why.contains(expected), "{why}"),
                Held::Yes => panic!("{that:?} holds"),
            }
        }
    }

    #[test]
    fn absent_and_selector() {
        let mut gone = expectation(None, None);
        gone.absent = true;
        gone.object.selector = Some("app=a".into());
        let predicate = Predicate::compile(&gone).unwrap();
        assert_eq!(predicate.evaluate(|_| vec![pod("b")]), Held::Yes);
        assert_eq!(predicate.evaluate(|_| vec![pod("a")]), Held::No("Pod * with app=a still there: a".into()));
    }

    #[test]
    fn refuses_what_can_never_hold() {
        for (name, that) in [
            (Some("a"), "object.spec.replicas =="),
            (Some("a"), "objects.size() == 1"),
            (None, "object.spec.x == 1"),
            (Some("a"), "thing.spec == 1"),
            (Some("a"), "frobnicate(object)"),
        ] {
            assert!(Predicate::compile(&expectation(name, Some(that))).is_err(), "{that}");
        }
    }
}
