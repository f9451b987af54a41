//! Goodput: throughput within the bounds of a test.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::plan::{Load, Plan, Tokens};
use dyno_loadgen::record::Record;

use super::NO_BOUND;
use super::metrics::Goodput;

/// Returns the samples/s that were answered within every bound of the test. `counted_over` is the time
/// over which the answers of the run count, in ns. `None` outside Server, because other scenarios have no
/// bounds.
///
/// It agrees with the counts over the bounds: times that are not defined are within a bound, and a bound
/// that is lifted limits nothing.
pub fn goodput(record: &Record, plan: &Plan, counted_over: u64) -> Option<f64> {
    let Load::Server(server) = &plan.load else { return None };
    let judged = |bound: u64| Some(bound).filter(|bound| *bound < NO_BOUND);
    let limits = match plan.tokens {
        Some(Tokens::Measured { ttft, tpot }) => {
            Limits { ttft: judged(ttft), tpot: judged(tpot), e2el: None }
        }
        _ => Limits { e2el: judged(server.target_latency), ..Limits::default() },
    };
    limits.count(record, counted_over, TokensAtOnce::Within).samples_per_s
}

/// How an answer counts whose tokens all came at once, so that it has no time per output token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokensAtOnce {
    /// Within a limit, as in the verdict.
    Within,
    /// As not measured, and outside a limit.
    Unmeasured,
}

/// Limits of a request. A request counts as goodput if it keeps all of them.
///
/// ```
/// use dyno_results::summary::Limits;
///
/// let limits: Limits = "ttft:200,e2el:5000".parse()?;
/// assert!(limits.needs_tokens());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time to first token, ns.
    ttft: Option<u64>,
    /// Time per output token, ns.
    tpot: Option<u64>,
    /// End to end, ns.
    e2el: Option<u64>,
}

impl FromStr for Limits {
    type Err = String;

    /// Parses limits in ms, in the grammar of `vllm bench serve --goodput`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
            let odd = || format!("expected ttft:MS, tpot:MS or e2el:MS, found `{part}`");
            let (name, value) = part.split_once(':').ok_or_else(odd)?;
            let value: f64 = value.parse().map_err(|_| odd())?;
            if !(value.is_finite() && value > 0.0) {
                return Err(odd());
            }
            let place = match name {
                "ttft" => &mut limits.ttft,
                "tpot" => &mut limits.tpot,
                "e2el" => &mut limits.e2el,
                _ => return Err(odd()),
            };
            if place.replace((value * 1e6).round() as u64).is_some() {
                return Err(format!("expected one limit for {name}, found two in `{text}`"));
            }
        }
        if limits == Self::default() {
            return Err("expected limits such as ttft:200,tpot:50,e2el:5000".into());
        }
        Ok(limits)
    }
}

impl fmt::Display for Limits {
    /// Writes the limits in the grammar of [`FromStr`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [("ttft", self.ttft), ("tpot", self.tpot), ("e2el", self.e2el)];
        let given = named.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
        let given: Vec<String> =
            given.map(|(name, ns)| format!("{name}:{}", ns as f64 / 1e6)).collect();
        f.write_str(&given.join(","))
    }
}

impl Limits {
    /// Returns whether it limits times of tokens, which the system must report then.
    pub fn needs_tokens(&self) -> bool {
        self.ttft.is_some() || self.tpot.is_some()
    }

    /// Returns whether it limits the time per output token.
    pub fn limits_tpot(&self) -> bool {
        self.tpot.is_some()
    }

    /// Returns the goodput of a run whose answers count over `counted_over` ns.
    pub fn goodput(&self, record: &Record, counted_over: u64) -> Goodput {
        self.count(record, counted_over, TokensAtOnce::Unmeasured)
    }

    fn count(&self, record: &Record, counted_over: u64, at_once: TokensAtOnce) -> Goodput {
        let needs_tokens = self.needs_tokens();
        let first = |sample: usize| record.first_token_at.get(sample).copied().unwrap_or(0);
        let tokens = |sample: usize| record.tokens.get(sample).copied().unwrap_or(0);
        let per_token = |sample: usize, at: u64| {
            Definitions::Native.time_per_token_of(record, sample, (first(sample), at))
        };
        // Several tokens that came at once have no time between them.
        let is_unmeasured = |&(sample, _, _): &(usize, u64, u64)| {
            let came_at_once = || record.lacks_time_per_token(sample);
            let judges_them = self.tpot.is_some() && at_once == TokensAtOnce::Unmeasured;
            needs_tokens && (first(sample) == 0 || (judges_them && came_at_once()))
        };
        let keeps = |answer: &(usize, u64, u64)| {
            let &(sample, due, at) = answer;
            !is_unmeasured(answer)
                && self.ttft.is_none_or(|most| first(sample).saturating_sub(due) <= most)
                && self.tpot.is_none_or(|most| {
                    let time = per_token(sample, at);
                    time.is_none_or(|time| u64::try_from(time).is_ok_and(|t| t <= most))
                })
                && self.e2el.is_none_or(|most| at.saturating_sub(due) <= most)
        };
        let unmeasured = answered(record).filter(is_unmeasured).count();
        let is_measured = unmeasured == 0 || unmeasured < answered(record).count();
        let (mut samples, mut output) = (0, 0);
        for (sample, ..) in answered(record).filter(keeps) {
            samples += 1;
            output += tokens(sample).max(0);
        }
        let per_second = |count: f64| {
            (counted_over > 0 && is_measured).then(|| count / (counted_over as f64 / 1e9))
        };
        let ms = |limit: Option<u64>| limit.map(|ns| ns as f64 / 1e6);
        Goodput {
            ttft_ms: ms(self.ttft),
            tpot_ms: ms(self.tpot),
            e2el_ms: ms(self.e2el),
            samples,
            share: is_measured.then(|| samples as f64 / record.completed_at.len().max(1) as f64),
            unmeasured: unmeasured as u64,
            samples_per_s: per_second(samples as f64),
            tokens_per_s: per_second(output as f64).filter(|_| !record.tokens.is_empty()),
        }
    }
}

/// Returns the answered samples: index, scheduled time and completion time.
pub fn answered(record: &Record) -> impl Iterator<Item = (usize, u64, u64)> {
    let failed: HashSet<u64> = record.failed.iter().map(|(sequence, _)| *sequence).collect();
    let samples = record.samples_per_query.max(1);
    let stamps = record.completed_at.iter().copied().enumerate();
    let answered = stamps.filter(move |(sample, at)| {
        *at != 0 && (failed.is_empty() || !failed.contains(&(*sample as u64)))
    });
    answered.map(move |(sample, at)| (sample, record.scheduled(sample / samples), at))
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::metrics::Metrics;
    use dyno_loadgen::plan::Library;
    use dyno_loadgen::record::Failure;
    use dyno_loadgen::settings::{Scenario, TestSettings};

    use super::*;

    #[test]
    fn limits_are_written_as_they_are_read() {
        assert!("ttft:5,ttft:9".parse::<Limits>().unwrap_err().contains("one limit for ttft"));
        for text in ["ttft:200", "tpot:0.5,e2el:5000", "ttft:200,tpot:50,e2el:12.345678"] {
            assert_eq!(text.parse::<Limits>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn failed_missing_and_late_samples_are_no_goodput() {
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 100, 200, 300],
            issued_at: vec![0, 100, 200, 300],
            completed_at: vec![50, 151, 250, 0],
            failed: vec![(2, Failure::Rejected)],
            ..Record::default()
        };
        let within = |bound| {
            let limits = Limits { e2el: Some(bound), ..Limits::default() };
            limits.goodput(&record, 1).samples
        };
        assert_eq!((within(50), within(51)), (1, 2));
    }

    #[test]
    fn a_sample_must_meet_both_bounds_of_tokens() {
        let record = Record {
            samples_per_query: 1,
            issued_at: vec![0; 5],
            // Good; a late first token; slow tokens; no first token; one token.
            first_token_at: vec![10, 30, 10, 0, 10],
            completed_at: vec![50, 50, 90, 50, 500],
            tokens: vec![5, 5, 5, 5, 1],
            ..Record::default()
        };
        let limits = Limits { ttft: Some(20), tpot: Some(10), e2el: None };
        let found = limits.goodput(&record, 1_000_000_000);
        assert_eq!((found.samples, found.samples_per_s), (2, Some(2.0)));
    }

    #[test]
    fn tokens_that_came_at_once_have_no_time_per_token() {
        let record = |first: Vec<u64>, tokens: i64| Record {
            samples_per_query: 1,
            issued_at: vec![0; 2],
            first_token_at: first,
            completed_at: vec![50, 50],
            tokens: vec![tokens; 2],
            ..Record::default()
        };
        let limits = Limits { tpot: Some(20), ..Limits::default() };
        let found = |first, tokens| limits.goodput(&record(first, tokens), 1_000_000_000);
        let none = found(vec![50, 50], 5);
        assert_eq!((none.share, none.samples_per_s, none.unmeasured), (None, None, 2));
        let half = found(vec![10, 50], 5);
        assert_eq!((half.share, half.samples, half.unmeasured), (Some(0.5), 1, 1));
        // Two of many tokens came in the time, and an unknown number.
        let timed_tokens = vec![(0, Some(2)), (1, None)];
        let hidden = Record { timed_tokens, ..record(vec![40, 40], 90) };
        let hidden = limits.goodput(&hidden, 1_000_000_000);
        assert_eq!((hidden.samples, hidden.unmeasured), (1, 1));
        // One token has no time between tokens, whenever it came.
        let single = found(vec![10, 50], 1);
        assert_eq!((single.share, single.unmeasured), (Some(1.0), 0));
    }

    #[test]
    fn goodput_agrees_with_the_counts_over_the_bounds() {
        // Tokens at once; measured; slow tokens; one token; no first token.
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0; 5],
            issued_at: vec![0; 5],
            first_token_at: vec![50, 10, 10, 50, 0],
            completed_at: vec![50, 50, 500, 50, 50],
            tokens: vec![5, 5, 5, 1, 5],
            ..Record::default()
        };
        let with_bounds = |ttft, tpot| {
            let settings = TestSettings {
                scenario: Scenario::Server,
                use_token_latencies: true,
                server_ttft_latency: ttft,
                server_tpot_latency: tpot,
                ..TestSettings::default()
            };
            let plan = Plan::resolve(&settings, Library { total: 5, performance: 5 }).unwrap();
            let over = Metrics::with_definitions(Definitions::Native, &record, &plan).over;
            (goodput(&record, &plan, 1_000_000_000), over)
        };
        let (rate, _) = with_bounds(NO_BOUND, NO_BOUND);
        assert_eq!(rate, Some(5.0));
        let (rate, over) = with_bounds(100, 20);
        assert_eq!((over.first_token, over.time_per_output_token), (1, 2));
        assert_eq!(rate, Some(3.0));
    }

    #[test]
    fn limits_on_tokens_are_not_measured_without_a_stream() {
        let record = |first: Vec<u64>| Record {
            samples_per_query: 1,
            issued_at: vec![0; 2],
            first_token_at: first,
            completed_at: vec![50, 50],
            ..Record::default()
        };
        let limits = Limits { ttft: Some(20), ..Limits::default() };
        for first in [vec![], vec![0, 0]] {
            let none = limits.goodput(&record(first), 1_000_000_000);
            assert_eq!((none.share, none.samples_per_s, none.unmeasured), (None, None, 2));
        }
        let half = limits.goodput(&record(vec![10, 0]), 1_000_000_000);
        assert_eq!((half.share, half.samples_per_s, half.unmeasured), (Some(0.5), Some(1.0), 1));
    }

    #[test]
    fn a_sample_must_keep_every_limit_that_is_named() {
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0; 5],
            issued_at: vec![0; 5],
            // Good; a late first token; slow tokens; failed; missing.
            first_token_at: [10, 30, 10, 10, 0].iter().map(|ms| ms * 1_000_000).collect(),
            completed_at: [50, 50, 90, 50, 0].iter().map(|ms| ms * 1_000_000).collect(),
            tokens: vec![5, 5, 5, 5, 0],
            failed: vec![(3, Failure::Rejected)],
            ..Record::default()
        };
        let good = |limits: &str| limits.parse::<Limits>().unwrap().goodput(&record, 1_000_000_000);
        let all = good("ttft:20,tpot:10,e2el:100");
        assert_eq!((all.samples, all.share, all.samples_per_s), (1, Some(0.2), Some(1.0)));
        assert_eq!((all.tokens_per_s, all.tpot_ms), (Some(5.0), Some(10.0)));
        assert_eq!(good("ttft:20").samples, 2);
        assert_eq!(good("e2el:50").samples, 2);
        assert_eq!(good("tpot:10 e2el:90").samples, 2);
        for odd in ["", "ttft", "ttft:0", "ttft:x", "itl:5", "e2el:inf"] {
            assert!(odd.parse::<Limits>().unwrap_err().starts_with("expected"), "{odd}");
        }
    }
}
