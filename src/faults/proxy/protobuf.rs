//! The few fields of Kubernetes protobuf bodies that the proxy needs, read without a schema.
//!
//! # Guarantees
//! Never fails: what cannot be read counts as absent.

use super::body::Facts;

/// Every Kubernetes protobuf body begins with these bytes, followed by a `runtime.Unknown`.
const MAGIC: &[u8] = b"k8s\0";

/// Reads the envelope and the `ObjectMeta` in it.
pub fn facts(body: &[u8]) -> Option<Facts> {
    let unknown = body.strip_prefix(MAGIC)?;
    let kind = field(unknown, 1).and_then(|type_meta| field(type_meta, 2)).map(text).unwrap_or_default();
    let object = field(unknown, 2)?;
    let meta = field(object, 1).unwrap_or_default();
    let string = |message, number| field(message, number).map(text).unwrap_or_default();
    Some(match kind.as_str() {
        // Status: metadata 1, status 2, message 3, reason 4.
        "Status" => Facts { message: string(object, 3), reason: string(object, 4), kind, ..Facts::default() },
        // DeleteOptions: preconditions 2 { uid 1, resourceVersion 2 }, dryRun 5.
        "DeleteOptions" => Facts {
            resource_version: string(field(object, 2).unwrap_or_default(), 2),
            dry_run: field(object, 5).is_some(),
            kind,
            ..Facts::default()
        },
        // A list has a ListMeta, whose resourceVersion is field 2, and its items in field 2.
        list if list.ends_with("List") => Facts { items: Some(count(object, 2)), kind, ..Facts::default() },
        // ObjectMeta: name 1, generateName 2, resourceVersion 6.
        _ => Facts {
            name: string(meta, 1),
            generate_name: string(meta, 2),
            resource_version: string(meta, 6),
            kind,
            ..Facts::default()
        },
    })
}

/// The last length-delimited field of that number.
fn field(message: &[u8], number: u64) -> Option<&[u8]> {
    Fields(message).filter(|(found, _)| *found == number).last().map(|(_, value)| value)
}

fn count(message: &[u8], number: u64) -> usize {
    Fields(message).filter(|(found, _)| *found == number).count()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The length-delimited fields of a message; others are skipped.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let tag = self.varint()?;
            match tag & 7 {
                0 => {
                    self.varint()?;
                }
                1 => {
                    self.take(8)?;
                }
                2 => {
                    let length = usize::try_from(self.varint()?).ok()?;
                    return Some((tag >> 3, self.take(length)?));
                }
                5 => {
                    self.take(4)?;
                }
                _ => return None,
            }
        }
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, value) in fields {
            out.push(number << 3 | 2);
            out.push(u8::try_from(value.len()).unwrap());
            out.extend_from_slice(value);
        }
        out
    }

    pub fn envelope(kind: &str, object: &[u8]) -> Vec<u8> {
        let type_meta = message(&[(1, b"v1"), (2, kind.as_bytes())]);
        [MAGIC, &message(&[(1, &type_meta), (2, object)])].concat()
    }

    #[test]
    fn reads_names_versions_and_failures() {
        let meta = [message(&[(1, b"web"), (3, b"demo"), (6, b"42")]), vec![7 << 3, 1]].concat();
        let object = facts(&envelope("Pod", &message(&[(1, &meta)]))).unwrap();
        assert_eq!((object.name.as_str(), object.resource_version.as_str()), ("web", "42"));
        let status = facts(&envelope("Status", &message(&[(2, b"Failure"), (3, b"no"), (4, b"NotFound")]))).unwrap();
        assert_eq!((status.reason.as_str(), status.message.as_str()), ("NotFound", "no"));
        let options = facts(&envelope("DeleteOptions", &message(&[(2, &message(&[(2, b"9")]))]))).unwrap();
        assert_eq!(options.resource_version, "9");
        let list = facts(&envelope("PodList", &message(&[(1, &message(&[(2, b"9")])), (2, b""), (2, b"")]))).unwrap();
        assert_eq!(list.items, Some(2));
    }

    #[test]
    fn damaged_bodies_give_nothing() {
        let whole = envelope("Pod", &message(&[(1, &message(&[(1, b"web")]))]));
        for end in 0..whole.len() {
            let _ = facts(&whole[..end]);
        }
        assert_eq!(facts(b"{}"), None);
        assert_eq!(facts(&[MAGIC, &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]].concat()), None);
    }
}
