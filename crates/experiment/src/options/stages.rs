//! Stages of a load: rates that change during a test.

use std::fmt;
use std::str::FromStr;

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::rng::Mt19937;
use dyno_results::units;

use super::RunOptions;

/// Maximum number of arrivals of all stages.
const MOST_ARRIVALS: f64 = 10e6;

/// Rates of Poisson arrivals, one stage after the other.
///
/// ```
/// use dyno_experiment::options::Stages;
///
/// let stages: Stages = "10s@0-8,30s@8".parse()?;
/// assert_eq!(stages.expected_arrivals(), 40.0 + 240.0);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Stages(Vec<Stage>);

/// A span of time whose rate is constant, or changes linearly.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stage {
    length: Nanos,
    /// Rate at its beginning, requests/s.
    from: f64,
    /// Rate at its end, requests/s.
    to: f64,
}

impl FromStr for Stages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let stages = text.split(',').map(|part| {
            let expected = || {
                format!(
                    "expected TIME@RATE or TIME@RATE-RATE, such as 30s@2 or 10s@0-8, found `{part}`"
                )
            };
            let (length, rates) = part.trim().split_once('@').ok_or_else(expected)?;
            let length = units::parse_duration(length).map_err(|_| expected())?;
            let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
            let rate = |text: &str| {
                let rate = text.parse::<f64>().ok().filter(|r| r.is_finite() && *r >= 0.0);
                rate.ok_or_else(expected)
            };
            let stage = Stage { length, from: rate(from)?, to: rate(to)? };
            if length > 0 { Ok(stage) } else { Err(expected()) }
        });
        let stages = Self(stages.collect::<Result<_, _>>()?);
        if stages.0.last().is_some_and(|last| last.from + last.to == 0.0) {
            return Err("expected a rate above 0 in the last stage; a run ends with its last \
                        request"
                .into());
        }
        match stages.expected_arrivals() {
            0.0 => Err("expected a rate above 0 in one of the stages".into()),
            MOST_ARRIVALS.. => Err(format!(
                "expected at most {} arrivals in all stages; lower the rates or the times",
                units::count(MOST_ARRIVALS as u64)
            )),
            _ => Ok(stages),
        }
    }
}

impl fmt::Display for Stages {
    /// Writes the stages in the grammar of [`FromStr`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(Stage::name).collect();
        f.write_str(&names.join(","))
    }
}

impl Stage {
    fn name(&self) -> String {
        let seconds = self.length as f64 / SECOND as f64;
        if self.from == self.to {
            format!("{seconds}s@{}", self.to)
        } else {
            format!("{seconds}s@{}-{}", self.from, self.to)
        }
    }

    fn seconds(&self) -> f64 {
        self.length as f64 / SECOND as f64
    }

    /// Returns the expected number of arrivals in the first `seconds`.
    fn arrivals(&self, seconds: f64) -> f64 {
        self.from * seconds + self.slope() * seconds * seconds / 2.0
    }

    fn slope(&self) -> f64 {
        (self.to - self.from) / self.seconds()
    }

    /// Returns after how many seconds so many arrivals are expected, which are at most those of the
    /// stage.
    fn time_of(&self, arrivals: f64) -> f64 {
        let slope = self.slope();
        if slope == 0.0 {
            return arrivals / self.from;
        }
        let root = (self.from * self.from + 2.0 * slope * arrivals).max(0.0).sqrt();
        ((root - self.from) / slope).clamp(0.0, self.seconds())
    }
}

/// Beginning of [`Stages::arrivals_name`].
const NAME: &str = "stages ";

/// Returns whether arrivals are those of stages, from their name in the plan of a run.
pub fn are_stages(arrivals: Option<&str>) -> bool {
    arrivals.is_some_and(|name| name.starts_with(NAME))
}

/// Shortens a long list of recorded times to its length.
pub fn in_short(value: String) -> String {
    match value.strip_prefix("replay:") {
        Some(times) if times.len() > TIMES_SHOWN => {
            format!("replay of {} times", times.split(',').count())
        }
        _ => value,
    }
}

/// Maximum number of characters of recorded times that are shown.
const TIMES_SHOWN: usize = 60;

impl RunOptions {
    /// Returns the value of a setting for readers: times that were drawn from stages by these
    /// stages, and a long list of recorded times by its length.
    pub fn shown_value(&self, key: &str, value: String) -> String {
        match &self.stages {
            Some(stages) if key == "server_arrivals" && value.starts_with("replay:") => {
                stages.arrivals_name()
            }
            _ => in_short(value),
        }
    }
}

impl Stages {
    /// Returns the name of the arrivals in the plan of a run, such as `stages 30s@2,60s@8`.
    pub fn arrivals_name(&self) -> String {
        format!("{NAME}{self}")
    }

    /// Returns the mean rate, requests/s.
    pub fn mean_rate(&self) -> f64 {
        self.expected_arrivals() / self.0.iter().map(Stage::seconds).sum::<f64>()
    }

    /// Returns the expected number of arrivals.
    pub fn expected_arrivals(&self) -> f64 {
        self.0.iter().map(|stage| stage.arrivals(stage.seconds())).sum()
    }

    /// Returns the name of each stage with its beginning and end, ns.
    pub fn spans(&self) -> Vec<(String, Nanos, Nanos)> {
        let mut begin: Nanos = 0;
        let span = |stage: &Stage| {
            let from = begin;
            begin = begin.saturating_add(stage.length);
            (stage.name(), from, begin)
        };
        self.0.iter().map(span).collect()
    }

    /// Returns the arrival times of a Poisson process with these rates, ns. The integral of the rate
    /// between two arrivals is exponential with mean 1.
    pub fn arrivals(&self, seed: u64) -> Vec<Nanos> {
        let mut rng = Mt19937::new(seed);
        let (mut times, mut begin) = (Vec::new(), 0.0);
        let mut left = rng.exponential(1.0);
        for stage in &self.0 {
            let whole = stage.arrivals(stage.seconds());
            let mut passed = 0.0;
            while passed + left <= whole {
                passed += left;
                times.push(((begin + stage.time_of(passed)) * SECOND as f64) as Nanos);
                left = rng.exponential(1.0);
            }
            left -= whole - passed;
            begin += stage.seconds();
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_written_as_they_are_read() {
        for text in ["30s@2,60s@8", "10s@0-8,30s@8", "0.5s@3-1.5"] {
            assert_eq!(text.parse::<Stages>().unwrap().to_string(), text);
        }
        for odd in [
            "",
            "30s",
            "30@2",
            "0s@2",
            "30s@x",
            "30s@-1",
            "30s@inf",
            "30s@0",
            "9s@8,9s@0",
            "1h@1000000",
        ] {
            assert!(odd.parse::<Stages>().unwrap_err().starts_with("expected"), "{odd}");
        }
    }

    #[test]
    fn arrivals_are_those_of_the_integral_of_the_rate() {
        // A rise over 100 s to 50/s, 100 s at 50/s, and a fall: 2,500, 5,000 and 2,500 arrivals; the
        // first half of the rise has a quarter of its arrivals.
        let stages: Stages = "100s@0-50,100s@50,100s@50-0".parse().unwrap();
        assert_eq!(stages.expected_arrivals(), 10_000.0);
        let times = stages.arrivals(7);
        assert!(times.is_sorted());
        let within = |from: u64, to: u64| {
            times.iter().filter(|at| (from * SECOND..to * SECOND).contains(*at)).count() as f64
        };
        for (from, to, expected) in [
            (0, 50, 625.0),
            (50, 100, 1_875.0),
            (100, 200, 5_000.0),
            (200, 250, 1_875.0),
            (250, 300, 625.0),
        ] {
            // Counts of a Poisson process: within 4 standard deviations.
            let found: f64 = within(from, to);
            assert!((found - expected).abs() < 4.0 * f64::sqrt(expected), "{from}: {found}");
        }
        assert_eq!(times, stages.arrivals(7), "equal seeds, equal times");
        assert_ne!(times, stages.arrivals(8));
    }

    #[test]
    fn a_stage_without_arrivals_is_a_pause() {
        let stages: Stages = "10s@100,10s@0,10s@100".parse().unwrap();
        let times = stages.arrivals(1);
        assert!(times.iter().all(|at| !(10 * SECOND..20 * SECOND).contains(at)));
        assert!(times.iter().any(|at| *at > 20 * SECOND));
    }
}
