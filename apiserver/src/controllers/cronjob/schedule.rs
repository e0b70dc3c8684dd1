//! Cron expressions of five fields, and `@hourly` and its like, in UTC.

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan as _, civil::DateTime, tz::TimeZone};

/// How many days ahead a start is looked for; a 29 February is at most eight years off.
const HORIZON_DAYS: u32 = 9 * 366;
/// So many missed starts are looked through; more means the clock jumped, and only the latest part matters.
const MISSED_MAX: usize = 100_000;

/// When to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schedule {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: BTreeSet<i8>,
    months: BTreeSet<i8>,
    weekdays: BTreeSet<i8>,
    /// A day has to fit both day fields only when one of them is `*`.
    any_day: bool,
    any_weekday: bool,
}

impl Schedule {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else { return None };
        const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
        const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
        let starred = |field: &str| field.starts_with('*') || field.starts_with('?');
        Some(Self {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            weekdays: field(weekdays, 0, 6, &WEEKDAYS)?,
            any_day: starred(days),
            any_weekday: starred(weekdays),
        })
    }

    /// The first start after `at`.
    pub(super) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        let from = TimeZone::UTC.to_datetime(at);
        let mut date = from.date();
        for _ in 0..HORIZON_DAYS {
            if self.fits(date) {
                for hour in &self.hours {
                    for minute in &self.minutes {
                        let start = DateTime::from_parts(date, jiff::civil::Time::new(*hour, *minute, 0, 0).ok()?);
                        if start > from {
                            return TimeZone::UTC.to_timestamp(start).ok();
                        }
                    }
                }
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    /// The last start in `(since, now]`.
    pub(super) fn latest(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let mut last = None;
        let mut at = since;
        for _ in 0..MISSED_MAX {
            match self.after(at) {
                Some(next) if next <= now => {
                    last = Some(next);
                    at = next;
                }
                _ => break,
            }
        }
        last
    }

    fn fits(&self, date: jiff::civil::Date) -> bool {
        let day = self.days.contains(&date.day());
        let weekday = self.weekdays.contains(&date.weekday().to_sunday_zero_offset());
        let day_fits = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        self.months.contains(&date.month()) && day_fits
    }
}

fn field(text: &str, low: i8, high: i8, names: &[&str]) -> Option<BTreeSet<i8>> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<i8>().ok().filter(|s| *s > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range {
            "*" | "?" => (low, high),
            _ => match range.split_once('-') {
                Some((from, to)) => (value(from, low, names)?, value(to, low, names)?),
                None if part.contains('/') => (value(range, low, names)?, high),
                None => (value(range, low, names)?, value(range, low, names)?),
            },
        };
        if from < low || to > high || from > to {
            return None;
        }
        all.extend((from..=to).step_by(usize::try_from(step).ok()?));
    }
    Some(all)
}

fn value(text: &str, low: i8, names: &[&str]) -> Option<i8> {
    let lower = text.to_ascii_lowercase();
    match names.iter().position(|n| *n == lower) {
        Some(at) => Some(low + i8::try_from(at).ok()?),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::Schedule;

    #[test]
    fn next_starts() {
        let cases = [
            ("*/5 * * * *", "2026-01-01T00:02:10Z", "2026-01-01T00:05:00Z"),
            ("0 3 * * *", "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("@hourly", "2026-01-01T00:59:59Z", "2026-01-01T01:00:00Z"),
            ("15-20/5,45 9 * jan mon-tue", "2026-01-01T00:00:00Z", "2026-01-05T09:15:00Z"),
        ];
        for (text, at, expected) in cases {
            let at: Timestamp = at.parse().unwrap();
            assert_eq!(Schedule::parse(text).unwrap().after(at), Some(expected.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "* * * *", "60 * * * *", "5-1 * * * *", "*/0 * * * *", "x * * * *", "@reboot"] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
