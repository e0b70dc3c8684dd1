//! Quantities such as `500m` and `1Gi`, and the one spelling that the real server stores.

use std::{cmp::Ordering, fmt};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// An amount in billionths, with the family of suffixes it was written in.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Reads a quantity; fractions of a billionth round up.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, rest) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (format, factor, power) = scale(suffix)?;
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        // value = digits * 10^(power - len(fraction)) * factor, in billionths.
        let exponent = power - i32::try_from(fraction.len()).ok()? + 9;
        let scaled = digits.checked_mul(factor)?;
        let nano = if exponent >= 0 {
            scaled.checked_mul(10_i128.checked_pow(exponent.unsigned_abs())?)?
        } else {
            let divisor = 10_i128.checked_pow(exponent.unsigned_abs())?;
            scaled / divisor + i128::from(scaled % divisor != 0)
        };
        Some(Self { nano: sign * nano, format })
    }

    /// Rounds up to thousandths, as resource lists do.
    #[must_use]
    pub fn to_milli(self) -> Self {
        let step = NANO / 1000;
        let down = self.nano.div_euclid(step);
        Self { nano: (down + i128::from(self.nano.rem_euclid(step) != 0)) * step, ..self }
    }

    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// The family, the factor and the power of ten of a suffix.
fn scale(suffix: &str) -> Option<(Format, i128, i32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, 1, *power));
    }
    if let Some(at) = BINARY.iter().position(|name| *name == suffix) {
        let bits = 10 * u32::try_from(at + 1).ok()?;
        return Some((Format::Binary, 1_i128 << bits, 0));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    (-9..=18).contains(&power).then_some((Format::Exponent, 1, power))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        // Below one kibi a binary suffix would only round.
        if self.format == Format::Binary && self.nano.abs() >= 1024 * NANO {
            let mut value = self.nano.div_euclid(NANO) + i128::from(self.nano.rem_euclid(NANO) != 0);
            let mut at = 0;
            while value % 1024 == 0 && at < BINARY.len() {
                value /= 1024;
                at += 1;
            }
            return write!(f, "{value}{}", if at == 0 { "" } else { BINARY[at - 1] });
        }
        let (mut value, mut power) = (self.nano, -9);
        while value % 10 == 0 {
            value /= 10;
            power += 1;
        }
        while power % 3 != 0 || power > 18 {
            value *= 10;
            power -= 1;
        }
        match self.format {
            Format::Exponent if power == 0 => write!(f, "{value}"),
            Format::Exponent => write!(f, "{value}e{power}"),
            _ => {
                let suffix = DECIMAL.iter().find(|(_, p)| *p == power).map_or("", |(name, _)| name);
                write!(f, "{value}{suffix}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_amount_has_one_spelling() {
        for (written, stored) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("100000", "100k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Mi", "1000Mi"),
            ("0", "0"),
            ("0.1Gi", "107374183"),
            ("512", "512"),
            ("1e3", "1e3"),
            ("-0.5", "-500m"),
            ("1500M", "1500M"),
            ("0.5Mi", "512Ki"),
            ("100Mi", "100Mi"),
            ("1E", "1E"),
            ("5e-1", "500e-3"),
        ] {
            assert_eq!(Quantity::parse(written).unwrap().to_string(), stored, "{written}");
        }
        for bad in ["", "x", "1x", ".", "1.2.3", "Mi"] {
            assert!(Quantity::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn resource_lists_round_up_to_thousandths() {
        assert_eq!(Quantity::parse("0.0001").unwrap().to_milli().to_string(), "1m");
    }
}
