//! The protobuf wire format: fields of a message, without knowing what they mean.

use thiserror::Error;

/// Why a body is not what it claims to be.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum WireError {
    #[error("the body does not start with the protobuf prefix of Kubernetes")]
    Prefix,
    #[error("a value is cut off")]
    Truncated,
    #[error("a varint is longer than ten bytes")]
    Varint,
    #[error("wire type {wire} of field {number} is not in use")]
    WireType { number: u32, wire: u64 },
    #[error("field number {0} is out of range")]
    FieldNumber(u64),
    #[error("field {field} has the wrong wire type")]
    Mismatch { field: &'static str },
    #[error("field {field} is not UTF-8")]
    Text { field: &'static str },
    #[error("field {field} holds no valid {what}")]
    Value { field: &'static str, what: &'static str },
    #[error("messages are nested too deeply")]
    Depth,
}

/// A value as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// One field of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occurrence<'a> {
    pub number: u32,
    pub wire: Wire<'a>,
}

/// The largest field number of protobuf.
const MAX_NUMBER: u64 = (1 << 29) - 1;

/// All fields of a message, ordered by number; equal numbers keep their order.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<Occurrence<'_>>, WireError> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = u32::try_from(key >> 3)
            .ok()
            .filter(|n| (1..=MAX_NUMBER).contains(&u64::from(*n)))
            .ok_or(WireError::FieldNumber(key >> 3))?;
        let wire = match key & 7 {
            0 => Wire::Varint(varint(&mut bytes)?),
            1 => Wire::Fixed64(u64::from_le_bytes(array(&mut bytes)?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| WireError::Truncated)?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(array(&mut bytes)?)),
            wire => return Err(WireError::WireType { number, wire }),
        };
        found.push(Occurrence { number, wire });
    }
    found.sort_by_key(|o| o.number);
    Ok(found)
}

/// The occurrences of one field within the result of [`fields`].
pub(super) fn of<'s, 'a>(all: &'s [Occurrence<'a>], number: u32) -> &'s [Occurrence<'a>] {
    let start = all.partition_point(|o| o.number < number);
    let end = start + all[start..].partition_point(|o| o.number == number);
    &all[start..end]
}

/// One varint from the front of `bytes`.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0_u64;
    for (i, byte) in bytes.iter().enumerate() {
        // The tenth byte holds the last bit of 64.
        if i == 9 && *byte > 1 {
            return Err(WireError::Varint);
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            *bytes = &bytes[i + 1..];
            return Ok(value);
        }
    }
    Err(WireError::Truncated)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], WireError> {
    let (head, tail) = bytes.split_at_checked(length).ok_or(WireError::Truncated)?;
    *bytes = tail;
    Ok(head)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], WireError> {
    take(bytes, N)?.try_into().map_err(|_| WireError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_end_where_they_should() {
        let mut bytes: &[u8] = &[0xac, 0x02, 0x07];
        assert_eq!(varint(&mut bytes), Ok(300));
        assert_eq!(bytes, &[7]);
        let mut minus_one: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(varint(&mut minus_one), Ok(u64::MAX));
        let mut long: &[u8] = &[0xff; 11];
        assert_eq!(varint(&mut long), Err(WireError::Varint));
        let mut cut: &[u8] = &[0x80];
        assert_eq!(varint(&mut cut), Err(WireError::Truncated));
    }

    #[test]
    fn fields_are_grouped_by_number_in_their_order() {
        let found = fields(&[0x10, 5, 0x08, 1, 0x10, 6, 0x1a, 2, b'o', b'k']).unwrap();
        let second: Vec<_> = of(&found, 2).iter().map(|o| o.wire).collect();
        assert_eq!(second, [Wire::Varint(5), Wire::Varint(6)]);
        assert_eq!(of(&found, 3)[0].wire, Wire::Bytes(b"ok"));
        assert!(of(&found, 4).is_empty());
    }

    #[test]
    fn what_is_not_protobuf_is_refused() {
        assert_eq!(fields(&[0x1a, 9, 1]).unwrap_err(), WireError::Truncated);
        assert_eq!(fields(&[0x0b]).unwrap_err(), WireError::WireType { number: 1, wire: 3 });
        assert_eq!(fields(&[0x00, 1]).unwrap_err(), WireError::FieldNumber(0));
        assert_eq!(fields(&[0x09, 1, 2]).unwrap_err(), WireError::Truncated);
    }
}
