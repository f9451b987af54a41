//! Texts of a verdict: those of the reference, and Dyno's own.

use std::fmt;

use super::{BoundedTime, Finding, Judgement, Recommendations, Verdict, Violation};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::early_stopping::Estimate;
use crate::metrics::Estimates;
use crate::settings::Scenario;

impl Finding {
    /// Returns the text for the logs.
    pub fn text(&self) -> String {
        match self {
            Self::Bound { deficit: 0, .. } => " * Run successful.".into(),
            Self::Bound { queries, deficit, .. } => format!(
                " * Run unsuccessful.\n * Processed {queries} queries.\n * Would need to run at \
                 least {deficit} more queries,\n with the run being successful if every \
                 additional\n query were under latency."
            ),
            Self::Estimated(estimates) => estimates_text(estimates),
        }
    }
}

fn estimates_text(estimates: &Estimates) -> String {
    let Estimate { processed, needed, .. } = estimates.target;
    let Some(rank) = estimates.target.rank else {
        return format!(
            " * Only processed {processed} queries.\n * Need to process at least {needed} \
             queries for early stopping."
        );
    };
    let line = |estimate: &Estimate| {
        let percent = estimate.percentile * 100.0;
        format!("\n * Early stopping {percent:.1}th percentile estimate: {}", estimate.latency)
    };
    let mut text = format!(
        " * Processed at least {needed} queries ({processed}).\n * Would discard {} highest \
         latency queries.",
        rank - 1
    );
    text += &line(&estimates.target);
    match &estimates.tail {
        Some(tail) if tail.rank.is_some() => text += &line(tail),
        Some(tail) => {
            let percent = tail.percentile * 100.0;
            text += &format!(
                "\n * Not enough queries processed for {percent:.1}th percentile\n early stopping \
                 estimate (would need to process at\n least {} total queries).",
                tail.needed
            );
        }
        None => {}
    }
    text
}

const REDUCE_QPS: &str = "Reduce target QPS to improve latency.";

impl Violation {
    /// Returns the reference's advice, if it has any.
    pub fn recommendation(&self) -> Option<String> {
        Some(match self {
            Self::Bound { bounded: BoundedTime::Latency, .. } => REDUCE_QPS.into(),
            // The spelling is the reference's.
            Self::Bound { bounded: BoundedTime::FirstToken, .. } => {
                format!("TTFT constrain not met: {REDUCE_QPS}")
            }
            Self::Bound { bounded: BoundedTime::TimePerOutputToken, .. } => {
                format!("TPOT constrain not met: {REDUCE_QPS}")
            }
            Self::Intervals { .. } => "Reduce samples per query to improve latency.".into(),
            Self::Duration { scenario: None, .. } => {
                "The test exited early, before its minimum duration.".into()
            }
            Self::Duration { scenario: Some(scenario), .. } => match scenario {
                Scenario::SingleStream | Scenario::MultiStream => {
                    "Decrease the expected latency so the loadgen pre-generates more queries."
                }
                Scenario::Server => {
                    "Increase the target QPS so the loadgen pre-generates more queries."
                }
                Scenario::Offline => {
                    "Increase expected QPS so the loadgen pre-generates a larger (coalesced) query."
                }
            }
            .into(),
            Self::Count { .. } => "The test exited early, before enough queries were issued.\n   \
                 See the detailed log for why this may have occurred."
                .into(),
            Self::EarlyStopping { .. }
            | Self::ClientLag { .. }
            | Self::Missing { .. }
            | Self::Failed { .. }
            | Self::Aborted
            | Self::Lost { .. } => return None,
        })
    }
}

impl Judgement {
    /// Returns the reference's recommendations.
    pub fn recommendations(&self) -> Recommendations {
        let mut texts = Recommendations::default();
        let Verdict::Invalid(violations) = &self.verdict else {
            return texts;
        };
        for violation in violations {
            let text = violation.recommendation().unwrap_or_default();
            match violation {
                Violation::Bound { .. } if !texts.performance.is_empty() => {
                    texts.performance += "\n * ";
                    texts.performance += &text;
                }
                Violation::Bound { .. } | Violation::Intervals { .. } => texts.performance = text,
                Violation::Duration { .. } => texts.min_duration = text,
                Violation::Count { .. } => texts.min_queries = text,
                _ => {}
            }
        }
        texts
    }
}

impl fmt::Display for BoundedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Latency => "latency",
            Self::FirstToken => "time to first token",
            Self::TimePerOutputToken => "time per output token",
        })
    }
}

impl Violation {
    /// Writes what exceeds a bound, and by how much. Without answers there is no latency.
    fn write_bound(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Bound { bounded, percentile, bound, measured, over, samples } = self else {
            return Ok(());
        };
        let (percent, bound) = (percent_of(*percentile), Span(*bound));
        write!(
            f,
            "{over} of {samples} samples exceed the bound of {bound} on {bounded}, and {percent}% \
             must meet it"
        )?;
        if *measured == 0 {
            return f.write_str("; see why the system fails");
        }
        let measured = Span(measured.unsigned_abs());
        write!(
            f,
            " ({bounded} at that percentile: {measured}); lower server_target_qps or make the \
             system faster"
        )
    }

    /// Writes which intervals were skipped, and advice.
    fn write_intervals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Intervals { interval, streams, over, skipped, by_client, .. } = self else {
            return Ok(());
        };
        let interval = Span(*interval);
        let (skipped, samples) = (counted(*skipped, "interval"), counted(*streams, "sample"));
        write!(f, " ({skipped} of {interval} at {samples} a query); ")?;
        match (by_client * 2 > *over, streams) {
            (true, _) => write!(
                f,
                "{by_client} of them were answered in time and noticed late: free a core for \
                 the client"
            ),
            (false, 1) => f.write_str("make the system faster or the interval longer"),
            (false, _) => {
                f.write_str("lower multi_stream_samples_per_query or make the system faster")
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound { .. } => self.write_bound(f),
            Self::Intervals { over, queries, percentile, .. } => {
                let percent = percent_of(*percentile);
                write!(
                    f,
                    "{over} of {queries} queries made the next one skip an interval, and \
                     {percent}% must skip none"
                )?;
                self.write_intervals(f)
            }
            Self::Duration { scenario, lasted, minimum } => {
                let (lasted, minimum) = (Span(*lasted), Span(*minimum));
                write!(f, "the run lasted {lasted} and must last {minimum}; ")?;
                f.write_str(longer(*scenario))
            }
            Self::Count { queries, minimum_queries, samples, minimum_samples } => write!(
                f,
                "{queries} of at least {minimum_queries} queries were issued and {samples} of at \
                 least {minimum_samples} samples came back; the run ended early, see why in the \
                 detail log"
            ),
            Self::EarlyStopping { further: u64::MAX } => f.write_str(
                "no number of queries can make this percentile certain; lower the percentile or \
                 early_stopping_confidence",
            ),
            Self::EarlyStopping { further } => write!(
                f,
                "too few queries to be certain of the percentile: {further} more are needed, if \
                 all of them are fast; raise min_query_count or min_duration_ms"
            ),
            Self::ClientLag { percentile, measured, budget } => {
                let (percent, budget) = (percent_of(*percentile), Span(*budget));
                let measured = Span(measured.unsigned_abs());
                write!(
                    f,
                    "the client itself issued {measured} late at the {percent}th percentile, over \
                     its budget of {budget}; free a core for it, lower the rate, or raise \
                     max_client_lag_ns"
                )
            }
            Self::Missing { samples } => write!(
                f,
                "{} never came back; look for requests that the system dropped, or raise \
                 response_deadline_ms",
                counted(*samples, "sample")
            ),
            Self::Failed { samples } => write!(
                f,
                "the system failed {} and this scenario allows none; check the reasons and the log \
                 of the system",
                counted(*samples, "sample")
            ),
            Self::Aborted => f.write_str("the run was aborted; run it again to the end"),
            Self::Lost { worker, workers } => write!(
                f,
                "worker {} of {workers} was lost while the run was on, and what it measured with it; \
                 see what became of it, and run again",
                worker + 1
            ),
        }
    }
}

/// Returns a count with its noun, such as `1 sample`.
fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Returns advice for a longer run.
fn longer(scenario: Option<Scenario>) -> &'static str {
    match scenario {
        None => "it ended early, see why in the detail log",
        Some(Scenario::SingleStream) => {
            "lower single_stream_expected_latency_ns so that more is generated, or lower \
             min_duration_ms"
        }
        Some(Scenario::MultiStream) => {
            "lower multi_stream_expected_latency_ns so that more is generated, or lower \
             min_duration_ms"
        }
        Some(Scenario::Server) => {
            "raise server_target_qps so that more is generated, or lower min_duration_ms"
        }
        Some(Scenario::Offline) => {
            "raise offline_expected_qps so that more is generated, or lower min_duration_ms"
        }
    }
}

/// Returns a share in percent, without the tail of rounding of 100 * 0.57.
fn percent_of(share: f64) -> f64 {
    (share * 1e10).round() / 1e8
}

/// Time span that displays all decimals of its largest unit that is not 0, at least three: any of them may
/// decide whether a bound is met.
struct Span(Nanos);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, digits, name) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..MILLISECOND => (1_000, 3, "us"),
            MILLISECOND..SECOND => (MILLISECOND, 6, "ms"),
            SECOND.. => (SECOND, 9, "s"),
        };
        let decimals = format!("{:0digits$}", self.0 % unit);
        let shown = decimals.trim_end_matches('0').len().max(3);
        write!(f, "{}.{} {name}", self.0 / unit, &decimals[..shown])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact_and_shares_have_no_tail() {
        let spans = [0, 999, 1_500, 10_040_000, 10_000_001, SECOND, 61 * SECOND + 1];
        let shown = spans.map(|ns| Span(ns).to_string());
        let expected = [
            "0 ns",
            "999 ns",
            "1.500 us",
            "10.040 ms",
            "10.000001 ms",
            "1.000 s",
            "61.000000001 s",
        ];
        assert_eq!(shown, expected);
        assert_eq!([0.57, 0.99, 0.999].map(percent_of), [57.0, 99.0, 99.9]);
    }
}
