//! Types whose JSON form is not that of their fields: times, durations, quantities, unions.

use jiff::{SignedDuration, civil::date};
use serde_json::{Value, json};

use super::reader::{Occurrence, Wire, WireError, fields, of};
use super::table::Type;

/// Go's zero time, 0001-01-01T00:00:00Z, in seconds of Unix time.
const ZERO_TIME: i64 = -62_135_596_800;
/// The last second of the year 9999, the last one that RFC 3339 can spell.
const LAST_SECOND: i64 = 253_402_300_799;

/// The JSON of a special type from the bytes of its message; `name` is the field, for errors.
pub(super) fn value(of_type: Type, bytes: &[u8], name: &'static str) -> Result<Value, WireError> {
    let all = fields(bytes)?;
    match of_type {
        Type::Time | Type::MicroTime => time(of_type, bytes.is_empty(), &all, name),
        Type::Duration => Ok(duration(integer(&all, 1, name)?).into()),
        Type::Quantity => quantity(&all, name),
        Type::IntOrString => int_or_string(&all, name),
        Type::Json => raw(&all, name, |bytes| bytes.is_empty()),
        _ => raw(&all, name, |_| false),
    }
}

fn integer(all: &[Occurrence<'_>], number: u32, name: &'static str) -> Result<i64, WireError> {
    match of(all, number).last().map(|o| o.wire) {
        None => Ok(0),
        Some(Wire::Varint(n)) => Ok(n.cast_signed()),
        Some(_) => Err(WireError::Mismatch { field: name }),
    }
}

fn bytes<'a>(all: &[Occurrence<'a>], number: u32, name: &'static str) -> Result<Option<&'a [u8]>, WireError> {
    match of(all, number).last().map(|o| o.wire) {
        None => Ok(None),
        Some(Wire::Bytes(b)) => Ok(Some(b)),
        Some(_) => Err(WireError::Mismatch { field: name }),
    }
}

/// The text of a field, empty when it is absent.
pub(super) fn text<'a>(all: &[Occurrence<'a>], number: u32, name: &'static str) -> Result<&'a str, WireError> {
    let bytes = bytes(all, number, name)?.unwrap_or_default();
    std::str::from_utf8(bytes).map_err(|_| WireError::Text { field: name })
}

/// No bytes at all are the zero time, hence null; the epoch itself is a time, though its fields may be absent.
fn time(of_type: Type, absent: bool, all: &[Occurrence<'_>], name: &'static str) -> Result<Value, WireError> {
    let bad = || WireError::Value { field: name, what: "time" };
    let (seconds, nanos) = (integer(all, 1, name)?, integer(all, 2, name)?);
    // Go drops the fraction of a Time, and below microseconds that of a MicroTime.
    let nanos = if of_type == Type::Time { 0 } else { i32::try_from(nanos / 1000 * 1000).map_err(|_| bad())? };
    if absent || (seconds == ZERO_TIME && nanos == 0) {
        return Ok(Value::Null);
    }
    if !(ZERO_TIME..=LAST_SECOND).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return Err(bad());
    }
    // Not a `Timestamp`: that ends a day before the year 9999 does, whose last second is a usual "never".
    let since = SignedDuration::new(seconds, nanos);
    let at = date(1970, 1, 1).at(0, 0, 0, 0).checked_add(since).map_err(|_| bad())?;
    let format = if of_type == Type::Time { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S.%6fZ" };
    Ok(at.strftime(format).to_string().into())
}

fn quantity(all: &[Occurrence<'_>], name: &'static str) -> Result<Value, WireError> {
    match bytes(all, 1, name)? {
        None => Ok(json!("0")),
        Some(b"") => Err(WireError::Value { field: name, what: "quantity" }),
        Some(_) => Ok(text(all, 1, name)?.into()),
    }
}

fn int_or_string(all: &[Occurrence<'_>], name: &'static str) -> Result<Value, WireError> {
    match integer(all, 1, name)? {
        0 => Ok(truncated(integer(all, 2, name)?.cast_unsigned()).into()),
        1 => Ok(text(all, 3, name)?.into()),
        _ => Err(WireError::Value { field: name, what: "integer or string" }),
    }
}

/// A 32-bit field keeps the low bits of its varint.
#[expect(clippy::cast_possible_truncation, reason = "protobuf readers cut a varint down to the field's width")]
pub(super) fn truncated(varint: u64) -> i32 {
    varint as i32
}

/// JSON that is carried as bytes; absent is null, and so is what `is_null` says.
fn raw(all: &[Occurrence<'_>], name: &'static str, is_null: fn(&[u8]) -> bool) -> Result<Value, WireError> {
    match bytes(all, 1, name)? {
        None => Ok(Value::Null),
        Some(b) if is_null(b) => Ok(Value::Null),
        Some(b) => serde_json::from_slice(b).map_err(|_| WireError::Value { field: name, what: "JSON" }),
    }
}

/// A duration in nanoseconds as Go prints it: `1h0m1.5s`, `250ms`, `0s`.
fn duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let n = nanoseconds.unsigned_abs();
    let text = match n {
        0 => "0s".to_owned(),
        1..1_000 => format!("{n}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(n, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(n, 1_000_000)),
        _ => {
            let (minutes, rest) = (n / 60_000_000_000, n % 60_000_000_000);
            let seconds = fraction(rest, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, m) => format!("{m}m{seconds}s"),
                (h, m) => format!("{h}h{m}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// `n / unit` in decimal, without trailing zeros. `unit` is a power of ten.
fn fraction(n: u64, unit: u64) -> String {
    let (whole, rest) = (n / unit, n % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{:0width$}", rest, width = unit.ilog10() as usize);
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spelled_as_go_does() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (60_000_000_000, "1m0s"),
            (300_001_000_000_000, "83h20m1s"),
            (3_600_000_000_001, "1h0m0.000000001s"),
            (-1_500_000_000, "-1.5s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(duration(nanoseconds), text);
        }
    }

    #[test]
    fn times_know_zero_from_the_epoch() {
        assert_eq!(value(Type::Time, &[], "t").unwrap(), Value::Null);
        assert_eq!(value(Type::Time, &[0x08, 0x00, 0x10, 0x00], "t").unwrap(), json!("1970-01-01T00:00:00Z"));
        // 1 s and 1 234 ns: a MicroTime keeps the microsecond only, a Time nothing of it.
        let bytes = [0x08, 0x01, 0x10, 0xd2, 0x09];
        assert_eq!(value(Type::MicroTime, &bytes, "t").unwrap(), json!("1970-01-01T00:00:01.000001Z"));
        assert_eq!(value(Type::Time, &bytes, "t").unwrap(), json!("1970-01-01T00:00:01Z"));
        let never = [0x08, 0xff, 0x82, 0xd1, 0xff, 0xaf, 0x07];
        assert_eq!(value(Type::Time, &never, "t").unwrap(), json!("9999-12-31T23:59:59Z"));
        let later = [0x08, 0x80, 0x83, 0xd1, 0xff, 0xaf, 0x07];
        assert!(value(Type::Time, &later, "t").is_err());
    }

    #[test]
    fn raw_bytes_must_be_json() {
        assert_eq!(value(Type::Raw, &[], "data").unwrap(), Value::Null);
        assert_eq!(value(Type::Json, &[0x0a, 0], "data").unwrap(), Value::Null);
        let error = value(Type::Raw, &[0x0a, 1, b'{'], "data").unwrap_err();
        assert_eq!(error, WireError::Value { field: "data", what: "JSON" });
    }
}
