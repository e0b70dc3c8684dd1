//! Which texts look as if they were drawn at random, counted or stamped, rather than chosen.
//!
//! # Guarantees
//! Conservative: a word, a version, an enumerated value and a small number never look random.

use serde_json::Value;

/// Letters and digits that Kubernetes uses in generated suffixes: no vowels, none that look alike.
const SUFFIX_ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";

/// What stands in the place of a random part of a name, or `None` if the part was chosen.
#[must_use]
pub fn placeholder(token: &str) -> Option<&'static str> {
    let digits = token.chars().filter(char::is_ascii_digit).count();
    let letters = token.chars().filter(char::is_ascii_alphabetic).count();
    if token.is_empty() || digits + letters != token.chars().count() {
        return None;
    }
    let mixed = digits > 0 && letters > 0;
    let hex = token.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    let suffix = token.chars().all(|c| SUFFIX_ALPHABET.contains(c));
    if letters == 0 {
        // Shorter numbers are ordinals, ports and versions; from eight on they are times or draws. One in a hundred
        // draws of ten hexadecimal digits has no letter, so that it must look like the others.
        return (digits >= 8).then_some("<random>");
    }
    let random = (hex && mixed && token.len() >= 8)
        || (suffix && mixed && (token.len() == 5 || (8..=10).contains(&token.len())))
        || scrambled(token);
    random.then_some("<random>")
}

/// Long, with digits scattered among letters, as base64, base32 or base62 give it.
fn scrambled(token: &str) -> bool {
    if token.len() < 16 {
        return false;
    }
    let class = |c: char| (c.is_ascii_digit(), c.is_ascii_uppercase());
    let turns = token.chars().zip(token.chars().skip(1)).filter(|(a, b)| class(*a) != class(*b)).count();
    turns * 4 >= token.len()
}

/// `8-4-4-4-12` hexadecimal digits.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    let mut lengths = text.split('-').map(str::len);
    text.len() == 36
        && [8, 4, 4, 4, 12].into_iter().all(|length| lengths.next() == Some(length))
        && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// An RFC 3339 date and time.
#[must_use]
pub fn is_time(text: &str) -> bool {
    // The shortest is `2026-01-02T03:04:05Z`; the parser alone would also take a bare date.
    text.len() >= 20 && text.as_bytes()[4] == b'-' && text.parse::<jiff::Timestamp>().is_ok()
}

/// An IPv4 or IPv6 address.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

/// A name with its random parts replaced; the first part was always chosen.
#[must_use]
pub fn mask_name(name: &str) -> String {
    let mut masked = String::with_capacity(name.len());
    let mut rest = name;
    while !rest.is_empty() {
        let at_start = masked.is_empty();
        if rest.is_char_boundary(36) && rest.len() >= 36 && is_uuid(&rest[..36]) {
            masked.push_str("<uid>");
            rest = &rest[36..];
        } else {
            let end = rest.find(['-', '.']).unwrap_or(rest.len());
            let token = &rest[..end];
            match placeholder(token) {
                Some(text) if !at_start => masked.push_str(text),
                _ => masked.push_str(token),
            }
            rest = &rest[end..];
        }
        if let Some(separator) = rest.chars().next() {
            masked.push(separator);
            rest = &rest[separator.len_utf8()..];
        }
    }
    masked
}

/// What a field says: in a desired state, numbers are chosen; in an observed one, they may be counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    Desired,
    Observed,
}

/// Whether values that were found in one place in several fault-free runs differ only by chance: times, hashes,
/// addresses, draws and (where observed) counters. Words that differ are a choice.
#[must_use]
pub fn vary_by_chance(nature: Nature, values: &[&Value]) -> bool {
    let Some((first, others)) = values.split_first() else { return false };
    if values.iter().all(|value| value.is_number()) {
        return nature == Nature::Observed;
    }
    let Some(first) = first.as_str() else { return false };
    others.iter().all(|other| other.as_str().is_some_and(|other| texts_vary_by_chance(nature, first, other)))
}

fn texts_vary_by_chance(nature: Nature, a: &str, b: &str) -> bool {
    let whole = |text: &str| is_uuid(text) || is_time(text) || is_address(text) || text.starts_with("<redacted ");
    if a == b || (whole(a) && whole(b)) {
        return true;
    }
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '/' | '=');
    let (left, right): (Vec<&str>, Vec<&str>) = (a.split(is_separator).collect(), b.split(is_separator).collect());
    let separators = |text: &str| text.chars().filter(|c| is_separator(*c)).collect::<String>();
    left.len() == right.len()
        && separators(a) == separators(b)
        && left.iter().zip(&right).all(|(l, r)| l == r || (drawn(nature, l) && drawn(nature, r)))
}

/// Looser than [`placeholder`] where it was observed, because the values are known to differ between equal runs.
fn drawn(nature: Nature, token: &str) -> bool {
    if placeholder(token).is_some() {
        return true;
    }
    let digits = token.chars().filter(char::is_ascii_digit).count();
    let length = token.chars().count();
    nature == Nature::Observed
        // Numbers of any length, and numbers with a unit (`12ms`): counters and durations.
        && ((digits > 0 && (length >= 5 || digits + 2 >= length))
            || (length >= 5 && token.chars().all(|c| SUFFIX_ALPHABET.contains(c))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_keep_what_was_chosen() {
        for (name, masked) in [
            ("web-5d4f8c7b9d-x2k4z", "web-<random>-<random>"),
            ("simple-default-worker-3fa9c01b2d", "simple-default-worker-<random>"),
            ("backup-28394850", "backup-<random>"),
            ("simple-default-worker-3091601427", "simple-default-worker-<random>"),
            ("pvc-6f1d2c3b-0000-4000-8000-0123456789ab", "pvc-<uid>"),
            ("web-0", "web-0"),
            ("kube-root-ca.crt", "kube-root-ca.crt"),
            ("memcached-sample", "memcached-sample"),
            ("deadbeef-2", "deadbeef-2"),
            ("app-v1beta1", "app-v1beta1"),
            ("node-10-0-0-1", "node-10-0-0-1"),
            ("stores.example.com", "stores.example.com"),
        ] {
            assert_eq!(mask_name(name), masked);
        }
    }

    #[test]
    fn chance_and_choice_are_told_apart() {
        for (a, b, chance) in [
            (json!("2026-01-02T03:04:05Z"), json!("2026-01-02T03:04:06Z"), true),
            (json!("10.0.0.1"), json!("10.0.0.22"), true),
            (json!(3), json!(4), true),
            (json!("sha256:0f3a9bc2d1"), json!("sha256:9c3a0bc2e1"), true),
            (json!("took 12ms for 3 pods"), json!("took 9ms for 3 pods"), true),
            (json!("<redacted length=12>"), json!("<redacted length=14>"), true),
            (json!("tcp://simple-abc12.ns:8786"), json!("tcp://simple-xyz45.ns:8786"), true),
            (json!("Running"), json!("Pending"), false),
            (json!("True"), json!("False"), false),
            (json!(true), json!(false), false),
            (json!("nginx:latest"), json!("nginx:stable"), false),
            (json!("ready"), json!(null), false),
            (json!("MinimumReplicasAvailable"), json!("NewReplicaSetAvailable"), false),
        ] {
            assert_eq!(vary_by_chance(Nature::Observed, &[&a, &b]), chance, "{a} and {b}");
        }
    }

    #[test]
    fn numbers_in_a_desired_state_are_chosen() {
        for (a, b, chance) in [
            (json!(3), json!(4), false),
            (json!("nginx:1.26"), json!("nginx:1.27"), false),
            (json!("token-x2k4z"), json!("token-b5v7n"), true),
            (json!("example.com/v1beta1"), json!("example.com/v1beta2"), false),
        ] {
            assert_eq!(vary_by_chance(Nature::Desired, &[&a, &b]), chance, "{a} and {b}");
        }
    }
}
