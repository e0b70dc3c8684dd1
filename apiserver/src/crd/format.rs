//! String formats that the real server enforces.
//!
//! Unknown formats pass, as they do there. See the module's doc for the known formats that pass unchecked.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::OnceLock,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::Regex;

/// Whether `text` has the format; dashes in the name do not count (`date-time` is `datetime`).
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => date_time(text),
        "date" => date(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "duration" => duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "mac" => mac(text),
        "uri" => uri(text),
        "hostname" => hostname(text),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some('3')),
        "uuid4" => uuid(text, Some('4')),
        "uuid5" => uuid(text, Some('5')),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
        }
        "k8sshortname" => dns_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(dns_label_any_length),
        _ => true,
    }
}

fn date_time(text: &str) -> bool {
    // RFC 3339 wants a zone and seconds; jiff alone would take less.
    static SHAPE: OnceLock<Option<Regex>> = OnceLock::new();
    let shape =
        SHAPE.get_or_init(|| Regex::new(r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:?\d\d)$").ok());
    shape.as_ref().is_some_and(|s| s.is_match(text)) && text.get(..10).is_some_and(date)
}

fn date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Go's `time.ParseDuration`, or a number with a unit in words.
fn duration(text: &str) -> bool {
    static GO: OnceLock<Option<Regex>> = OnceLock::new();
    static WORDS: OnceLock<Option<Regex>> = OnceLock::new();
    let go = GO.get_or_init(|| Regex::new(r"^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$").ok());
    let words = WORDS.get_or_init(|| {
        let units = "ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|s|secs?|seconds?|\
                     m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?";
        Regex::new(&format!(r"^\s*\d+\s*({units})\s*$")).ok()
    });
    [go, words].iter().any(|shape| shape.as_ref().is_some_and(|s| s.is_match(text)))
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|b| b <= most)
}

fn mac(text: &str) -> bool {
    let separator = if text.contains(':') { ':' } else { '-' };
    let parts: Vec<&str> = text.split(separator).collect();
    matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// An absolute URI or an absolute path, as Go's `url.ParseRequestURI` takes.
fn uri(text: &str) -> bool {
    if text.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn hostname(text: &str) -> bool {
    text.len() <= 255
        && !text.is_empty()
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
        })
}

fn uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let variant = digits.chars().nth(16).unwrap_or_default();
    digits.len() == 32
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && version.is_none_or(|v| digits.chars().nth(12) == Some(v))
        && (matches!(version, None | Some('3')) || "89abAB".contains(variant))
}

fn dns_label(text: &str) -> bool {
    text.len() <= 63 && dns_label_any_length(text)
}

fn dns_label_any_length(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_and_rejects() {
        for (format, good, bad) in [
            ("date-time", "2024-02-29T10:00:00Z", "2024-02-30T10:00:00Z"),
            ("date-time", "2024-01-01T10:00:00.5+02:00", "2024-01-01"),
            ("date", "2024-02-29", "2023-02-29"),
            ("byte", "aGk=", "a"),
            ("duration", "1h30m", "1x"),
            ("duration", "3 days", "days"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:11:22:33:44:55", "00:11"),
            ("uri", "https://a/b", "not a uri"),
            ("hostname", "a.example", "-a"),
            ("uuid4", "7f3b1a52-6f0e-4c58-9a55-0f2a6f8f4a77", "7f3b1a52-6f0e-1c58-9a55-0f2a6f8f4a77"),
            ("hexcolor", "#fff", "#ff"),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("made-up", "anything"));
    }
}
