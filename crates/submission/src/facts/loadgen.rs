//! What the releases of LoadGen write, and their defects.
//!
//! Re-derived values use these facts, so that they find edited logs instead of defects that are
//! known.

use super::detail::DetailLog;
use dyno_rules::Version;

/// Returns the release of LoadGen that wrote a log, such as 4.1 for `4.1 @ 2ed9555be0`; that of the
/// round if the log does not state an earlier one.
pub fn version_of(log: &DetailLog, round: Version) -> Version {
    let stated = log.text("loadgen_version").and_then(parse);
    stated.map_or(round, |version| version.min(round))
}

/// Returns the third number of the release that [`version_of`] returns, if it is known.
pub(crate) fn patch_of(log: &DetailLog, round: Version) -> Option<u32> {
    let text = log.text("loadgen_version")?;
    // A later release wrote all that each release of the round wrote.
    if parse(text)? > round {
        return Some(u32::MAX);
    }
    text.split_whitespace().next()?.split('.').nth(2)?.parse().ok()
}

/// Whether a run was simulated: Dyno in virtual time begins in 1970. Both are values of the detail
/// log, the version of LoadGen and `power_begin`.
pub fn is_simulated(version: Option<&str>, begin: Option<&str>) -> bool {
    const YEAR: std::ops::Range<usize> = 6..10;
    version.is_some_and(|version| version.contains("dyno"))
        && begin.and_then(|begin| begin.get(YEAR)) == Some("1970")
}

fn parse(text: &str) -> Option<Version> {
    let number = text.split_whitespace().next()?;
    let mut parts = number.split('.');
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Version::new(major, minor))
}

/// Counts of an Offline run, as logged.
#[derive(Debug, Clone, Copy)]
pub struct OfflineCounts {
    queries: f64,
    each: f64,
    /// Number of samples in one permutation, if the run issues whole permutations or may do so.
    permutation: Option<f64>,
}

impl OfflineCounts {
    /// Reads the counts from a log, if it has them.
    pub fn read(log: &DetailLog) -> Option<Self> {
        let queries = log.number("generated_query_count")?;
        let each = log.number("generated_samples_per_query")?;
        // LoadGen 2.0 to 4.1 can issue whole permutations, but does not log whether it does.
        let unlogged = Version::new(2, 0)..=Version::new(4, 1);
        let may_concatenate = match log.flag("effective_sample_concatenate_permutation") {
            Some(is_on) => is_on,
            None => unlogged.contains(&version_of(log, Version::new(u8::MAX, 0))),
        };
        let loaded = log.number("effective_performance_sample_count").filter(|_| may_concatenate);
        Some(Self { queries, each, permutation: loaded.filter(|count| *count > 0.0) })
    }

    /// Returns the numbers of samples that the run may have issued.
    ///
    /// With equal issue LoadGen rounds the samples of a query up to whole permutations, which some
    /// releases do not log, and the logged number of queries may be that of samples.
    pub fn samples(self) -> impl Iterator<Item = f64> {
        let Self { queries, each, permutation } = self;
        let concatenated = permutation.map(|count| [each, (each / count).ceil() * count]);
        std::iter::once(queries * each).chain(concatenated.into_iter().flatten())
    }
}

/// Whether a mean is that of a sum of `count` latencies that overflowed 64 bits, and a value between
/// `least` and `most` without the overflow.
///
/// LoadGen sums latencies of all samples in ns, which overflows for large Offline runs.
pub fn is_wrapped(mean: f64, count: f64, least: f64, most: f64) -> bool {
    const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
    if count < 1.0 || mean > most {
        return false;
    }
    // The smallest number of overflows that lifts the mean to the minimum.
    let step = TWO_TO_64 / count;
    let times = ((least - mean) / step).ceil().max(1.0);
    mean + times * step <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_the_first_word() {
        assert_eq!(parse("4.1 @ 2ed9555be0"), Some(Version::new(4, 1)));
        assert_eq!(parse("5.0.25 @ 1bc3e998cb"), Some(Version::new(5, 0)));
        assert_eq!(parse("NA"), None);
    }

    #[test]
    fn dyno_simulates_from_1970_on() {
        let (dyno, begin) = (Some("6.0.17 (dyno 0.2.0)"), Some("01-01-1970 00:00:00.000"));
        assert!(is_simulated(dyno, begin));
        assert!(!is_simulated(dyno, Some("07-23-2025 02:30:20.039")));
        assert!(!is_simulated(Some("5.1.0 @ 2ed9555be0"), begin), "the clock was not set");
        assert!(!is_simulated(dyno, None) && !is_simulated(None, begin));
    }

    #[test]
    fn samples_of_equal_issue_are_whole_permutations_or_multiplied_already() {
        let samples = |queries, each, permutation| {
            OfflineCounts { queries, each, permutation }.samples().collect::<Vec<_>>()
        };
        assert_eq!(samples(1.0, 24576.0, None), [24576.0]);
        // Two real logs: 80.15 samples/s in 919.875 s, and 43.6474 samples/s in 650.21 s.
        assert_eq!(samples(1.0, 52800.0, Some(24576.0)), [52800.0, 52800.0, 73728.0]);
        assert!(samples(43.0, 28380.0, Some(43.0)).contains(&28380.0));
    }

    #[test]
    fn a_mean_below_the_minimum_is_explained_by_an_overflow_alone() {
        // 100 million samples of up to 660 s: their sum is 3.3e19 ns, beyond 2^64.
        let (count, true_mean) = (1e8, 3.3e11);
        let logged = true_mean - 18_446_744_073_709_551_616.0 / count;
        assert!(is_wrapped(logged, count, 2e11, 6.6e11));
        // One million samples cannot overflow: a step is beyond the maximum.
        assert!(!is_wrapped(logged, 1e6, 2e11, 6.6e11));
        assert!(!is_wrapped(7e11, count, 2e11, 6.6e11), "above the maximum");
        assert!(!is_wrapped(1e11, 0.0, 2e11, 6.6e11));
    }
}
