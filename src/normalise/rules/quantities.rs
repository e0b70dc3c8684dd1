//! Resource quantities.

use crate::normalise::{Context, Effect, Rule, Scope, Subject};

pub(super) static RULE: Rule = Rule {
    id: "quantities",
    reason: "1000m and 1, 1Gi and 1024Mi are the same amount.",
    scope: Scope::Both,
    effect: Effect::Values(apply),
};

use serde_json::Value;

/// Maps whose values are quantities.
const HOLDERS: &[&str] =
    &["limits", "requests", "capacity", "allocatable", "allocatedResources", "hard", "used", "defaultRequest"];

fn apply(subject: &mut Subject<'_>, _: &Context<'_>) {
    rewrite(subject.object);
}

fn rewrite(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                match child {
                    Value::Object(amounts) if HOLDERS.contains(&key.as_str()) => amounts.values_mut().for_each(respell),
                    Value::String(_) if key == "sizeLimit" || key == "averageValue" => respell(child),
                    _ => rewrite(child),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(rewrite),
        _ => {}
    }
}

fn respell(value: &mut Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return rewrite(value),
    };
    if let Some(nano) = nano(&text) {
        *value = Value::String(spell(nano));
    }
}

const NANO: i128 = 1_000_000_000;

fn spell(nano: i128) -> String {
    match (nano / NANO, nano % NANO) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => format!("{whole}.{:09}", rest.abs()).trim_end_matches('0').to_owned(),
    }
}

/// The amount in billionths, or `None` if it is no quantity.
fn nano(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor: i128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => NANO,
        "k" => NANO * 1_000,
        "M" => NANO * 1_000_000,
        "G" => NANO * 1_000_000_000,
        "T" => NANO * 1_000_000_000_000,
        "P" => NANO * 1_000_000_000_000_000,
        "Ki" => NANO << 10,
        "Mi" => NANO << 20,
        "Gi" => NANO << 30,
        "Ti" => NANO << 40,
        "Pi" => NANO << 50,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = u32::try_from(fraction.len()).ok()?;
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some(mantissa.checked_mul(factor)? / 10_i128.checked_pow(digits)?)
}
