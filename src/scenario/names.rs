//! Words that have a grammar of their own: Kubernetes names, and paths of leaves.

/// What is said where [`is_leaf_path`] does not hold.
pub const LEAF_PATH: &str = "not a path: write names with dots, `*` for any, `[0]`, `[key=value]`, or `[\"a.b/c\"]`";

/// `status.lastSyncTime`, `spec.ports[*].nodePort`, `status.conditions[type=Ready].message`, `metadata.annotations["a.b/c"]`.
pub fn is_leaf_path(path: &str) -> bool {
    let mut rest = path;
    let mut first = true;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = match inner.strip_prefix('"') {
                Some(quoted) => quoted.find("\"]").filter(|end| *end > 0).map(|end| end + 2),
                None => inner.find(']').filter(|end| is_element(&inner[..*end])),
            };
            let Some(end) = end else { return false };
            rest = &inner[end + 1..];
        } else {
            let name = if first { rest } else { rest.strip_prefix('.').unwrap_or_default() };
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let word = &name[..end];
            let fits = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_/$".contains(c));
            if word.is_empty() || (word != "*" && !fits) {
                return false;
            }
            rest = &name[end..];
        }
        first = false;
    }
    !first
}

/// What stands in brackets: `*`, an index, or keys with their values.
fn is_element(text: &str) -> bool {
    let is_pair = |pair: &str| pair.split_once('=').is_some_and(|(key, _)| !key.is_empty());
    text == "*" || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())) || text.split(',').all(is_pair)
}

/// The name of a namespace, and of most objects.
pub fn is_dns_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// Labels with dots between them.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_paths() {
        for path in [
            "status",
            "status.a-b",
            "a.*.b",
            "ports[0].x",
            "ports[*]",
            "c[type=Ready].x",
            "p[a=1,b=2]",
            r#"m["a.b/c"]"#,
            r#"m["a"].b"#,
        ] {
            assert!(is_leaf_path(path), "{path}");
        }
        for path in
            ["", ".", "a.", "a..b", "a[", "a[x]", "a[=x]", "a[x=1,y]", r#"a[""]"#, "a b", "a[0", r#"a["x]"#, ".a", "a*"]
        {
            assert!(!is_leaf_path(path), "{path}");
        }
    }

    #[test]
    fn names() {
        assert!(is_dns_label("a-1") && is_dns_subdomain("a.b"));
        for wrong in ["", "A", "-a", "a-", "a_b", "a.b"] {
            assert!(!is_dns_label(wrong), "{wrong}");
        }
    }
}
