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

fn parse(text: &str) -> Option<Version> {
    let number = text.split_whitespace().next()?;
    let mut parts = number.split('.');
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Version::new(major, minor))
}

/// Returns the number of samples of an Offline run by its counts of queries and of samples per query.
///
/// A run has one query. LoadGen 4.1 and later with equal issue log the number of samples as that of
/// queries, too.
pub fn offline_samples(queries: f64, each: f64) -> f64 {
    if queries.total_cmp(&each).is_eq() { each } else { queries * each }
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
    fn samples_that_are_multiplied_already_are_not_multiplied_again() {
        assert!((offline_samples(1.0, 24576.0) - 24576.0).abs() < 0.5);
        assert!((offline_samples(24576.0, 24576.0) - 24576.0).abs() < 0.5);
        assert!((offline_samples(2.0, 24576.0) - 49152.0).abs() < 0.5);
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
