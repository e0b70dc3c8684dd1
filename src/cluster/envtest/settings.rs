//! What the environment says about control planes, in the variables that envtest has.

use std::time::Duration;

use super::EnvtestError;

/// Starting takes seconds, but twenty times that on a two-core machine that runs tests in parallel.
const START: Duration = Duration::from_secs(180);

/// How control planes are started and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// `KUBEBUILDER_CONTROLPLANE_START_TIMEOUT`.
    pub start: Duration,
    /// `KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT`: how long programs may take to end after SIGTERM. Unset: they are killed
    /// at once, for nothing of a control plane is kept.
    pub stop: Option<Duration>,
    /// `KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT=true`: their output goes to this program's standard error.
    pub attach: bool,
}

impl Settings {
    pub(super) fn of_environment() -> Result<Self, EnvtestError> {
        Self::read(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn read(variable: impl Fn(&'static str) -> Option<String>) -> Result<Self, EnvtestError> {
        let duration = |name| match variable(name) {
            None => Ok(None),
            Some(value) => match go_duration(&value) {
                Some(duration) => Ok(Some(duration)),
                None => Err(EnvtestError::BadDuration { name, value }),
            },
        };
        Ok(Self {
            start: duration("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT")?.unwrap_or(START),
            stop: duration("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT")?,
            attach: variable("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT").is_some_and(|value| value == "true"),
        })
    }
}

/// `90s`, `1m30s`, `1.5m`, `500ms`: the units that make sense for a time-out.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        rest = &rest[end..];
        total += Duration::try_from_secs_f64(number * unit).ok()?;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        assert_eq!(go_duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(go_duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(go_duration("500ms"), Some(Duration::from_millis(500)));
        for wrong in ["", "20", "s", "5 s", "5d"] {
            assert_eq!(go_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_time_out_that_cannot_be_read_is_refused() {
        let set = |name: &str| (name == "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT").then(|| "soon".to_owned());
        assert!(Settings::read(set).is_err());
        let none = Settings::read(|_| None).unwrap();
        assert_eq!((none.start, none.stop, none.attach), (START, None, false));
    }
}
