//! Load curve: what a system delivers at each load of a sweep, where it is saturated, and its knee.

use super::rows::{Row, rows};
use super::{Axis, Sweep};

/// What the load of a sweep is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadKind {
    /// Requests in flight.
    Concurrency,
    /// Requests per second.
    Rate,
}

impl LoadKind {
    /// Returns the kind of load that these axes raise; `None` unless the only axis is a load.
    pub fn of_axes(axes: &[Axis]) -> Option<Self> {
        let [axis] = axes else { return None };
        match axis.key.trim_start_matches("run.") {
            "max_concurrency" | "max-concurrency" => Some(Self::Concurrency),
            "qps" | "settings.server_target_qps" => Some(Self::Rate),
            _ => None,
        }
    }

    /// Returns the name that is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "requests/s",
        }
    }
}

/// Measured loads of a sweep, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCurve {
    /// What the load is.
    pub kind: LoadKind,
    /// Each load with its results.
    pub loads: Vec<(f64, Row)>,
}

/// Growth of throughput below which a load is not considered to deliver more.
const LEAST_GROWTH: f64 = 0.05;

/// Fall of power to both sides below which a maximum is not considered a knee.
const LEAST_FALL: f64 = 0.05;

impl LoadCurve {
    /// Returns the curve of a sweep; `None` unless its only axis is a load and its runs have one test
    /// each.
    pub fn from_sweep(sweep: &Sweep) -> Option<Self> {
        let kind = LoadKind::of_axes(&sweep.definition.axes)?;
        let key = &sweep.definition.axes[0].key;
        let load = |row: Row| Some((row.assignments.get(key)?.parse().ok()?, row));
        let mut loads: Vec<(f64, Row)> =
            rows(sweep).into_iter().map(load).collect::<Option<_>>()?;
        loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        let is_single = loads.windows(2).all(|pair| pair[0].0 < pair[1].0);
        is_single.then_some(Self { kind, loads })
    }

    /// Returns whether output tokens are measured, which are then the throughput.
    pub fn has_tokens(&self) -> bool {
        let mut measured = self.loads.iter().filter(|(_, row)| row.throughput.is_some()).peekable();
        measured.peek().is_some() && measured.all(|(_, row)| row.output_tokens_per_s.is_some())
    }

    /// Returns the throughput and the median latency of a load.
    fn figures(&self, row: &Row) -> Option<(f64, f64)> {
        let rate = if self.has_tokens() { row.output_tokens_per_s } else { row.throughput };
        Some((rate?, row.p50_ns.filter(|ns| *ns > 0.0)?))
    }

    /// Returns whether the last two loads brought less than 5 % more throughput than a lower load, and
    /// a higher latency. Loads at which the client was the limit do not count.
    pub fn is_saturated(&self) -> bool {
        let usable = self.loads.iter().filter(|(_, row)| !row.is_limited_by_client);
        let figures: Vec<(f64, f64)> = usable.filter_map(|(_, row)| self.figures(row)).collect();
        let Some((before, last)) = figures.split_last_chunk::<2>() else { return false };
        let Some(best) = before.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return false;
        };
        last.iter()
            .all(|(rate, latency)| *rate < best.0 * (1.0 + LEAST_GROWTH) && *latency > best.1)
    }

    /// Returns the position of the knee: the load with the highest power, which is throughput divided by
    /// median latency. It is a property of the curve: loads count that are VALID, or only miss bounds or
    /// requirements. Those with failures, and those that the client limited, do not.
    ///
    /// Source: Kleinrock, Power and deterministic rules of thumb for probabilistic problems in computer
    /// communications, 1979.
    ///
    /// # Errors
    /// The data shows no knee; the text is the reason.
    pub fn knee(&self) -> Result<usize, &'static str> {
        let power = |(at, (_, row)): (usize, &(f64, Row))| {
            let (rate, latency) = self.figures(row).filter(|_| row.is_of_curve())?;
            Some((at, rate / latency))
        };
        let powers: Vec<(usize, f64)> = self.loads.iter().enumerate().filter_map(power).collect();
        if powers.len() < 3 {
            return Err(
                "fewer than three loads were measured without failures and delays of the client",
            );
        }
        let (first, last) = (powers[0], powers[powers.len() - 1]);
        let best = powers.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(first);
        let falls_to = |end: (usize, f64)| end.1 < best.1 * (1.0 - LEAST_FALL);
        // One request at a time is the lowest load there is.
        let is_lowest = self.kind == LoadKind::Concurrency && self.loads[best.0].0 == 1.0;
        if !falls_to(last) {
            Err("throughput divided by latency does not fall up to the highest load")
        } else if !(falls_to(first) || is_lowest && best.0 == first.0) {
            Err("throughput divided by latency does not rise from the lowest load")
        } else {
            Ok(best.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curve of a closed loop with `slots` servers of 1 s each, by theory.
    fn closed_loop(slots: f64, loads: &[f64]) -> LoadCurve {
        let row = |&load: &f64| {
            let seconds = (load / slots).max(1.0);
            let (throughput, p50_ns) = (Some(load / seconds), Some(seconds * 1e9));
            (load, Row { verdict: "VALID".into(), throughput, p50_ns, ..Row::default() })
        };
        LoadCurve { kind: LoadKind::Concurrency, loads: loads.iter().map(row).collect() }
    }

    #[test]
    fn the_knee_of_a_closed_loop_is_its_number_of_slots() {
        let loads = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (slots, knee) in [(1.0, 0), (2.0, 1), (4.0, 2), (8.0, 3)] {
            assert_eq!(closed_loop(slots, &loads).knee(), Ok(knee), "{slots}");
        }
    }

    #[test]
    fn a_curve_that_does_not_bend_has_no_knee() {
        let rising = closed_loop(64.0, &[1.0, 2.0, 4.0, 8.0]).knee();
        assert!(rising.unwrap_err().contains("up to the highest load"));
        // The first load of this ladder is already beyond the knee.
        let falling = closed_loop(2.0, &[4.0, 8.0, 16.0]).knee();
        assert!(falling.unwrap_err().contains("from the lowest load"));
        assert!(closed_loop(2.0, &[1.0, 2.0]).knee().is_err());
    }

    #[test]
    fn the_knee_of_a_queue_is_at_half_its_capacity() {
        // M/M/1 with 1/s: the response time is 1 / (1 - rate), and rate * (1 - rate) is highest at 0.5.
        let row = |tenths: u32| {
            let rate = f64::from(tenths) / 10.0;
            let (throughput, p50_ns) = (Some(rate), Some(1e9 / (1.0 - rate)));
            (rate, Row { verdict: "VALID".into(), throughput, p50_ns, ..Row::default() })
        };
        let curve = LoadCurve { kind: LoadKind::Rate, loads: (1..10).map(row).collect() };
        assert_eq!(curve.knee(), Ok(4));
    }

    #[test]
    fn loads_that_miss_a_requirement_are_points_of_the_curve() {
        let mut curve = closed_loop(4.0, &[1.0, 2.0, 4.0, 8.0, 16.0]);
        for (_, row) in &mut curve.loads[3..] {
            (row.verdict, row.is_undisturbed) = ("INVALID".into(), true);
        }
        assert_eq!(curve.knee(), Ok(2));
        // Failures make a load faster than it is.
        curve.loads.iter_mut().for_each(|(_, row)| row.is_undisturbed = false);
        assert!(curve.knee().unwrap_err().contains("up to the highest load"));
    }

    #[test]
    fn loads_that_the_client_limited_are_no_knee_and_no_saturation() {
        let mut curve = closed_loop(4.0, &[1.0, 2.0, 4.0, 8.0, 16.0]);
        assert!(curve.is_saturated());
        for (_, row) in &mut curve.loads[2..] {
            row.verdict = "INVALID".into();
            row.is_limited_by_client = true;
        }
        assert!(curve.knee().is_err());
        assert!(!curve.is_saturated());
    }

    #[test]
    fn two_loads_without_more_throughput_are_saturation() {
        assert!(!closed_loop(4.0, &[1.0, 2.0, 4.0, 8.0]).is_saturated());
        assert!(closed_loop(4.0, &[1.0, 2.0, 4.0, 8.0, 16.0]).is_saturated());
        assert!(!closed_loop(8.0, &[1.0, 2.0, 4.0, 8.0]).is_saturated());
    }
}
