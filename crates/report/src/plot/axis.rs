//! Axes: positions of values, and ticks.

use dyno_results::units;

use crate::words;

dyno_loadgen::named_enum! {
    /// Mapping of values to positions on an axis.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Scale {
        /// Linear.
        Linear = "linear",
        /// Logarithmic.
        Log = "log",
        /// Logarithmic, with 0 at the beginning and a gap between 0 and the smallest value above 0.
        LogWithZero = "log0",
        /// Shares from 0 to 1 by the number of nines, with equal distances per nine; 1 is at the end.
        Nines = "nines",
    }
}

dyno_loadgen::named_enum! {
    /// Text format of values. The script of the page knows the formats by their names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Format {
        /// Duration in ns, shown with a fitting unit.
        Time = "time",
        /// Time since the start, in ns.
        Elapsed = "elapsed",
        /// A whole number.
        Count = "count",
        /// A number per second.
        Rate = "rate",
        /// 0.99 as `99 %`.
        Share = "share",
        /// 0.99 as `p99`.
        Percentile = "percentile",
    }
}

/// Axis of a chart.
///
/// ```
/// use dyno_report::plot::{Axis, Format};
///
/// let axis = Axis::between("share", Format::Share, 0.0, 1.0);
/// assert_eq!(axis.at(0.25), 0.25);
/// ```
#[derive(Debug, Clone)]
pub struct Axis {
    /// Name of the quantity, such as `latency`.
    pub name: String,
    /// Mapping of values to positions.
    pub scale: Scale,
    /// Value at the beginning.
    pub low: f64,
    /// Value at the end; for nines, the largest share below 1.
    pub high: f64,
    /// Text format of values.
    pub format: Format,
}

/// Tick of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Position in [0, 1].
    pub at: f64,
    /// Label.
    pub text: String,
    /// Whether a narrow chart omits it.
    pub is_minor: bool,
}

/// Length of an axis of nines beyond its last share, for the maximum.
const BEYOND_NINES: f64 = 0.12;

/// Share of a logarithmic axis that lies between 0 and the rest, where 0 is a value.
const ZERO_GAP: f64 = 0.08;

impl Axis {
    /// Returns a linear axis from 0 to 6 % above the largest value.
    pub fn linear(name: &str, format: Format, values: impl Iterator<Item = f64>) -> Self {
        let most = sane(values).fold(0.0, f64::max);
        let high = if most > 0.0 { most * 1.06 } else { 1.0 };
        Self { name: name.into(), scale: Scale::Linear, low: 0.0, high, format }
    }

    /// Returns a linear axis from `low` to `high`.
    pub fn between(name: &str, format: Format, low: f64, high: f64) -> Self {
        let (low, high) = (low.clamp(-LARGEST, LARGEST), high.clamp(-LARGEST, LARGEST));
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        Self { name: name.into(), scale: Scale::Linear, low, high, format }
    }

    /// Returns a logarithmic axis that covers the values and at least a third of a decade. If 0 is
    /// among the values, it has a place of its own at the beginning.
    ///
    /// `values` must contain every value that is drawn: a value beyond the axis is drawn at its
    /// end, where it reads as another value.
    pub fn log(name: &str, format: Format, values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high, mut has_zero) = (f64::INFINITY, 0.0_f64, false);
        for value in sane(values) {
            if value > 0.0 {
                low = low.min(value);
                high = high.max(value);
            } else {
                has_zero = true;
            }
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        // Margins on both sides.
        let air = (high / low).powf(0.04).max(1.08);
        (low, high) = (low / air, high * air);
        let missing = (2.1 / (high / low)).max(1.0).sqrt();
        let (low, high) = (low / missing, high * missing);
        let scale = if has_zero { Scale::LogWithZero } else { Scale::Log };
        Self { name: name.into(), scale, low, high, format }
    }

    /// Returns the value at the beginning of the axis.
    pub fn first(&self) -> f64 {
        if self.scale == Scale::LogWithZero { 0.0 } else { self.low }
    }

    /// Returns an axis of nines; `deepest` is the largest known share below 1.
    pub fn nines(deepest: f64) -> Self {
        let high = deepest.clamp(0.9, 0.999_999);
        let (name, format) = ("percentile".into(), Format::Percentile);
        Self { name, scale: Scale::Nines, low: 0.0, high, format }
    }

    /// Returns the position of a value, from 0 at the beginning to 1 at the end.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => self.log_share(value),
            Scale::LogWithZero if value > 0.0 => {
                ZERO_GAP + (1.0 - ZERO_GAP) * self.log_share(value).max(0.0)
            }
            Scale::LogWithZero => 0.0,
            Scale::Nines if value >= 1.0 => 1.0,
            Scale::Nines => nines(value) / nines(self.high) / (1.0 + BEYOND_NINES),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    fn log_share(&self, value: f64) -> f64 {
        (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
    }

    /// Returns a value as text.
    pub fn text(&self, value: f64) -> String {
        self.format.text(value)
    }

    /// Returns as many ticks as fit in `wide` units, where a label at a position takes the units
    /// `reach(position, label)` before and after its tick. Ticks that do not fit in `narrow` units are
    /// minor.
    pub fn ticks(
        &self,
        wide: f64,
        narrow: f64,
        reach: impl Fn(f64, &str) -> (f64, f64),
    ) -> Vec<Tick> {
        let candidates = self.candidates(wide);
        let mut kept: Vec<Tick> = Vec::new();
        for width in [narrow, wide] {
            for &(value, _) in &candidates {
                let (at, text) = (self.at(value), self.tick_text(value));
                let own = reach(at, &text);
                let has_room = kept.iter().all(|other| {
                    let apart = (other.at - at).abs() * width;
                    let theirs = reach(other.at, &other.text);
                    let needed = if other.at < at { theirs.1 + own.0 } else { own.1 + theirs.0 };
                    apart >= needed
                });
                if has_room && !text.is_empty() {
                    kept.push(Tick { at, text, is_minor: width == wide });
                }
            }
        }
        kept.sort_by(|a, b| a.at.total_cmp(&b.at));
        kept
    }

    /// Returns round values within the axis, the most important first.
    fn candidates(&self, wide: f64) -> Vec<(f64, u32)> {
        match self.scale {
            Scale::Linear => linear_candidates(self.low, self.high, self.format, wide),
            Scale::Log => log_candidates(self.low, self.high),
            Scale::LogWithZero => {
                let mut all = vec![(0.0, 0)];
                all.extend(log_candidates(self.low, self.high));
                all
            }
            Scale::Nines => {
                let shares = [0.99, 0.5, 1.0, 0.9, 0.999, 0.0, 0.9999, 0.99999];
                let known = shares.into_iter().filter(|&q| q <= self.high || q == 1.0);
                known.map(|q| (q, 0)).collect()
            }
        }
    }

    fn tick_text(&self, value: f64) -> String {
        match (self.scale, self.format) {
            (Scale::Nines, _) if value == 0.0 => "min".into(),
            (Scale::Nines, _) if value == 1.0 => "max".into(),
            (_, Format::Time | Format::Elapsed) => words::round_time(value),
            (_, Format::Rate) => words::round_number(value),
            _ => self.text(value),
        }
    }
}

/// Largest magnitude of a value on an axis. Larger values come from damaged files.
const LARGEST: f64 = 1e24;

fn sane(values: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.filter(|value| value.is_finite()).map(|value| match value {
        0.0 => 0.0,
        _ => value.clamp(1.0 / LARGEST, LARGEST),
    })
}

fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// Returns multiples of a round step, about one for each 45 units.
fn linear_candidates(low: f64, high: f64, format: Format, wide: f64) -> Vec<(f64, u32)> {
    let wanted = (wide / 45.0).clamp(2.0, 8.0);
    let step = round_step((high - low) / wanted, format);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    let all = (first..=last.min(first + 40)).map(|n| n as f64 * step);
    let mut all: Vec<(f64, u32)> = all.map(|value| (value, 0)).collect();
    // Every other value first, so that the ticks of a narrow chart are evenly spaced.
    all.sort_by_key(|&(value, _)| ((value / step).round() as i64).rem_euclid(2));
    all
}

fn round_step(least: f64, format: Format) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * decade);
    let step = step.into_iter().find(|step| *step >= least * 0.999).unwrap_or(decade * 10.0);
    // Counts are whole numbers; minutes and hours are not decimal.
    match format {
        Format::Count => step.max(1.0),
        Format::Elapsed if least > 10e9 => {
            let rounds = [15e9, 30e9, 60e9, 120e9, 300e9, 600e9, 1_800e9, 3_600e9];
            rounds.into_iter().find(|step| *step >= least).unwrap_or(step)
        }
        _ => step,
    }
}

/// Returns powers of ten, then 2 and 5 times these, then the other multiples.
fn log_candidates(low: f64, high: f64) -> Vec<(f64, u32)> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let values = decades.flat_map(|decade| {
        (1..10).map(move |digit| (f64::from(digit) * 10_f64.powi(decade), digit))
    });
    let mut values: Vec<(f64, u32)> = values
        .filter(|&(value, _)| value >= low * 0.999 && value <= high * 1.001)
        .map(|(value, digit)| {
            let rank = match digit {
                1 => 0,
                2 | 5 => 1,
                _ => 2,
            };
            (value, rank)
        })
        .collect();
    // Other multiples are needed only where there are few round values.
    if values.iter().filter(|(_, rank)| *rank < 2).count() >= 3 {
        values.retain(|(_, rank)| *rank < 2);
    }
    if values.iter().filter(|(_, rank)| *rank < 1).count() >= 3 {
        values.retain(|(_, rank)| *rank < 1);
    }
    values.sort_by_key(|&(_, rank)| rank);
    values
}

impl Format {
    /// Returns a value as text.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Time => words::time(value),
            Self::Elapsed => words::elapsed(value),
            Self::Count => units::count(value.max(0.0).round() as u64),
            Self::Rate => units::rate(value),
            Self::Share => words::share(value),
            Self::Percentile => units::percentile_or_extreme(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn centered(_: f64, text: &str) -> (f64, f64) {
        let half = 3.5 * text.chars().count() as f64;
        (half, half)
    }

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks(400.0, 200.0, centered)
            .into_iter()
            .map(|tick| tick.text.replace('\u{202f}', " "))
            .collect()
    }

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let times = Axis::log("latency", Format::Time, [1_200.0, 90_000.0].into_iter());
        assert_eq!(texts(&times), ["2 µs", "5 µs", "10 µs", "20 µs", "50 µs", "100 µs"]);
        let rates = Axis::linear("rate", Format::Rate, [0.0, 940.0].into_iter());
        assert_eq!(texts(&rates), ["0", "200", "400", "600", "800"]);
        let counts = Axis::linear("queries", Format::Count, [1.0].into_iter());
        assert_eq!(texts(&counts), ["0", "1"]);
        assert_eq!(texts(&Axis::nines(0.9995)), ["min", "p50", "p90", "p99", "p99.9", "max"]);
        let elapsed = Axis::between("time", Format::Elapsed, 0.0, 600e9);
        assert_eq!(texts(&elapsed), ["0", "2 min", "4 min", "6 min", "8 min", "10 min"]);
    }

    #[test]
    fn ticks_never_overlap_and_stay_in_the_chart() {
        for (low, high) in [(1.0, 3.0), (27_000.0, 27_100.0), (1.0, 1e12), (5.0, 6e4)] {
            let axis = Axis::log("latency", Format::Time, [low, high].into_iter());
            for width in [(400.0, 200.0), (200.0, 100.0)] {
                let ticks = axis.ticks(width.0, width.1, centered);
                assert!(!ticks.is_empty(), "{low} to {high}");
                for pair in ticks.windows(2) {
                    let apart = (pair[1].at - pair[0].at) * width.0;
                    assert!(apart >= 7.0 * pair[0].text.chars().count() as f64 * 0.5, "{pair:?}");
                }
                assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)));
            }
        }
    }

    #[test]
    fn zero_has_a_place_on_a_logarithmic_axis_and_takes_none_from_others() {
        // The lag of a client: half of it nothing, p50 8 ns, the largest 4.7 ms.
        let lag = [0.0, 0.0, 8.0, 8.0, 31.0, 4.7e6];
        let axis = Axis::log("lag", Format::Time, lag.into_iter());
        let places = [0.0, 8.0, 31.0, 4.7e6].map(|value| axis.at(value));
        assert_eq!(places[0], 0.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > 0.05), "{places:?}");
        // Decades are as long as each other, 0 aside.
        let decade = |from: f64| axis.at(10.0 * from) - axis.at(from);
        assert!((decade(10.0) - decade(1e5)).abs() < 1e-12);
        assert_eq!(texts(&axis)[0], "0");
        assert_eq!((axis.first(), axis.scale), (0.0, Scale::LogWithZero));
        // Nothing but zeros is an axis, too.
        let zeros = Axis::log("lag", Format::Time, [0.0, 0.0].into_iter());
        assert_eq!((zeros.at(0.0), texts(&zeros)[0].as_str()), (0.0, "0"));
        let none = Axis::log("lag", Format::Time, [8.0, 9.0].into_iter());
        assert_eq!((none.scale, none.first() < 8.0), (Scale::Log, true));
    }

    #[test]
    fn odd_values_have_a_place_too() {
        for axis in [
            Axis::log("", Format::Time, [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300].into_iter()),
            Axis::linear("", Format::Count, [f64::NAN].into_iter()),
            Axis::nines(f64::NAN),
            Axis::between("", Format::Rate, 3.0, 3.0),
        ] {
            assert!(axis.ticks(400.0, 200.0, |_, _| (15.0, 15.0)).len() < 20, "{axis:?}");
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -3.0, 1e300] {
                assert!((0.0..=1.0).contains(&axis.at(value)), "{axis:?} at {value}");
            }
        }
    }
}
