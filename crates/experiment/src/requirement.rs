//! Judges the requirements of a run: a bound is met, missed or undecided by the share of queries over
//! it.

use dyno_loadgen::compare;
use dyno_loadgen::compare::bound::{self, FEWEST_QUERIES, Finding, Judgment};
use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::record::Record;
use dyno_loadgen::search::{Limit, Quantity};
use dyno_results::records::{Keep, Records};
use dyno_results::search::limits;
use dyno_results::summary::{self, Reason, ReasonKind, RequirementFinding, State, goodput};
use dyno_results::units;

use crate::options::Requirement;

/// Confidence of each limit, in (0, 1), and thus of each finding.
const CONFIDENCE: f64 = 0.95;

/// A run that decides the verdict of a test.
#[derive(Debug, Clone)]
pub struct JudgedRun<'r> {
    /// Its measurements.
    pub record: &'r Record,
    /// Its name, such as `run 2 of 3`; `None` for the run whose figures are shown.
    pub name: Option<String>,
}

/// Judges a performance test: adds the result of each requirement, and puts reasons for those that
/// are not met first. Requirements hold in each of `runs`; those of runs that are not shown are added
/// where they are not met.
pub fn judge(test: &mut summary::Test, requirements: &[&Requirement], runs: &[JudgedRun<'_>]) {
    if requirements.is_empty() {
        return;
    }
    let percentile = test.plan.percentile;
    let limits: Vec<Limit> =
        requirements.iter().map(|requirement| requirement.limit(percentile)).collect();
    let mut found: Vec<summary::Requirement> = Vec::new();
    for run in runs {
        // Of a selection, a system with a period or rare failures would be judged by chance.
        let rows = Records::from_record(run.record, Keep::All);
        let of_run = limits.iter().map(|limit| self::found(limit, run.record, rows.as_ref()));
        let Some(name) = &run.name else {
            found.extend(of_run);
            continue;
        };
        // A test that did not finish is not judged.
        let is_unmet = |of: &summary::Requirement| {
            test.state == State::Complete && of.finding != RequirementFinding::Met
        };
        found.extend(of_run.filter(is_unmet).map(|of| {
            let requirement = format!("{} in {name}", of.requirement);
            summary::Requirement { requirement, ..of }
        }));
    }
    if test.state == State::Complete {
        // They come after the reasons of an early end and of failures, and before all others.
        let is_worse = |reason: &&Reason| {
            matches!(
                reason.kind,
                ReasonKind::Ended
                    | ReasonKind::Saturated
                    | ReasonKind::Failures
                    | ReasonKind::Missing
            )
        };
        let at = test.causes.iter().take_while(is_worse).count();
        let reasons: Vec<Reason> = found.iter().filter_map(reason).collect();
        for (offset, reason) in reasons.into_iter().enumerate() {
            test.reasons.insert(at + offset, reason.text.clone());
            test.causes.insert(at + offset, reason);
        }
        test.settle();
    }
    test.requirements = found;
}

/// Measurement of a limited quantity.
struct Measurement {
    value: f64,
    judgment: Judgment,
}

fn found(limit: &Limit, record: &Record, rows: Option<&Records>) -> summary::Requirement {
    let is_share = limit.quantity == Quantity::Errors;
    let mut found = summary::Requirement {
        requirement: limits::show(limit),
        metric: metric(limit),
        bound: if is_share { limit.allowed } else { limit.bound as f64 },
        unit: if is_share { "share" } else { "ns" }.into(),
        confidence: CONFIDENCE,
        ..summary::Requirement::default()
    };
    let Some(rows) = rows else { return found };
    let tokens = TokenTimes::from_record(record);
    found.unmeasured = tokens.unmeasured(limit.quantity);
    let run = compare::Run {
        first_token: tokens.first,
        time_per_output_token: tokens.per_token,
        ..rows.observation()
    };
    let lag = || rows.client_lag_ns.iter().map(|&lag| u64::try_from(lag).unwrap_or(0)).collect();
    let Some(measurement) = measured(limit, run, lag) else { return found };
    add(&mut found, measurement);
    found.more_queries = found.more_queries.map(|more| more.saturating_mul(rows.stride));
    if found.unmeasured > 0 && found.finding == RequirementFinding::Met {
        found.finding = RequirementFinding::Undecided;
        found.assumes_independence = false;
    }
    found
}

/// Judges a requirement over all slices of the runs of a side; `None` for the lag of the client, which
/// slices do not have, and without queries that are measured.
pub(crate) fn over_slices(
    required: &summary::Requirement,
    slices: &[compare::Run],
) -> Option<summary::Requirement> {
    let of = |name: &str| Some(limits::allowed(required.percentile(name)?));
    let (quantity, allowed) = match required.metric.split('.').next()? {
        "errors" => (Quantity::Errors, required.bound),
        "latency" => (Quantity::Latency, of("latency")?),
        "ttft" => (Quantity::FirstToken, of("ttft")?),
        "tpot" => (Quantity::TimePerOutputToken, of("tpot")?),
        _ => return None,
    };
    let limit = Limit { quantity, allowed, bound: required.bound as u64 };
    let mut found = required.clone();
    add(&mut found, measured(&limit, compare::Run::pool(slices), Vec::new)?);
    Some(found)
}

/// Adds a measurement to the result of a requirement.
fn add(found: &mut summary::Requirement, Measurement { value, judgment }: Measurement) {
    found.value = Some(value);
    (found.low, found.high) = (judgment.low, judgment.high);
    found.finding = match judgment.finding {
        Finding::Met => RequirementFinding::Met,
        Finding::Missed => RequirementFinding::Missed,
        Finding::Undecided => RequirementFinding::Undecided,
    };
    found.more_queries = judgment.more;
    found.is_correlated = judgment.is_correlated;
    found.assumes_independence = judgment.assumes_independence;
}

/// Times of tokens of the answered samples of a run. Rows of several samples do not have them.
#[derive(Default)]
struct TokenTimes {
    first: Vec<u64>,
    per_token: Vec<u64>,
    /// Answers without a first token.
    without_first: u64,
    /// Answers with several tokens that came at once, or of which an unknown number came.
    at_once: u64,
}

impl TokenTimes {
    fn from_record(record: &Record) -> Self {
        let mut times = Self::default();
        for (sample, due, at) in goodput::answered(record) {
            let first = record.first_token_at.get(sample).copied().unwrap_or(0);
            if first == 0 {
                times.without_first += 1;
                continue;
            }
            times.first.push(first.saturating_sub(due));
            match Definitions::Native.time_per_token_of(record, sample, (first, at)) {
                Some(time) => times.per_token.push(u64::try_from(time).unwrap_or(0)),
                None => times.at_once += u64::from(record.lacks_time_per_token(sample)),
            }
        }
        times
    }

    /// Returns the number of answers without the time of tokens that a limit is on.
    fn unmeasured(&self, quantity: Quantity) -> u64 {
        match quantity {
            Quantity::FirstToken => self.without_first,
            Quantity::TimePerOutputToken => self.without_first + self.at_once,
            Quantity::Latency | Quantity::ClientLag | Quantity::Errors => 0,
        }
    }
}

fn metric(limit: &Limit) -> String {
    let name = match limit.quantity {
        Quantity::Latency => "latency",
        Quantity::FirstToken => "ttft",
        Quantity::TimePerOutputToken => "tpot",
        Quantity::ClientLag => "lag",
        Quantity::Errors => return "errors".into(),
    };
    format!("{name}.{}", units::percentile(1.0 - limit.allowed))
}

/// Returns the measurement; `None` if no query has the quantity.
fn measured(
    limit: &Limit,
    run: compare::Run,
    lag: impl FnOnce() -> Vec<u64>,
) -> Option<Measurement> {
    let compare::Run { latency, first_token, time_per_output_token, failed, .. } = run;
    let risk = 1.0 - CONFIDENCE;
    let times = match limit.quantity {
        Quantity::Errors if failed.is_empty() => return None,
        Quantity::Errors => {
            let failures = failed.iter().filter(|&&failed| failed).count();
            let value = failures as f64 / failed.len() as f64;
            let judgment = bound::judge_events(&failed, limit.allowed, risk);
            return Some(Measurement { value, judgment });
        }
        Quantity::Latency => latency,
        Quantity::FirstToken => first_token,
        Quantity::TimePerOutputToken => time_per_output_token,
        Quantity::ClientLag => lag(),
    };
    if times.is_empty() {
        return None;
    }
    let judgment = bound::judge_times(&times, limit.allowed, limit.bound, risk);
    Some(Measurement { value: at(times, 1.0 - limit.allowed), judgment })
}

/// Returns a percentile as logs do, without interpolation.
fn at(mut times: Vec<u64>, percentile: f64) -> f64 {
    times.sort_unstable();
    let rank = (percentile * times.len() as f64) as usize;
    times[rank.min(times.len() - 1)] as f64
}

/// Returns why a requirement is not met, with advice.
fn reason(found: &summary::Requirement) -> Option<Reason> {
    let summary::Requirement { requirement, .. } = found;
    match found.finding {
        RequirementFinding::Met => None,
        RequirementFinding::Missed => {
            let advice = match &found.unit[..] {
                "share" => "Find the cause of the failures.",
                _ => "Lower the load or make the system faster.",
            };
            let measured = found.measured_text();
            let text = format!("The requirement {requirement} is missed: {measured}. {advice}");
            Some(Reason::new(ReasonKind::Requirement, text))
        }
        RequirementFinding::Undecided => {
            let what = found.measured_text();
            let similar = match &found.unit[..] {
                "share" => "Failures come in rows of neighboring queries",
                _ => "Neighboring queries have similar times, as in a long queue",
            };
            let more = match found.more_queries {
                _ if found.unmeasured > 0 && found.value.is_some() => format!(
                    "{} no such time. An answer that was not streamed, whose tokens came at once, as \
                     from a proxy that buffers, or of which it is unknown how many tokens were \
                     streamed, as of summarized thoughts, has none. The bound cannot be met without \
                     these times. Find the cause, or bound the latency.",
                    units::counted(found.unmeasured, "answer has", "answers have")
                ),
                Some(more) if found.is_correlated => format!(
                    "{similar}, so the run has too few independent ones to meet the bound. About \
                     {} would decide it: raise --num-prompts or --duration.",
                    units::counted(more, "more query", "more queries")
                ),
                Some(more) if found.low.is_none() && found.unit != "share" => format!(
                    "Fewer than {FEWEST_QUERIES} queries do not show whether neighboring queries \
                     have similar times. About {} would decide it: raise --num-prompts or \
                     --duration.",
                    units::counted(more, "more query", "more queries")
                ),
                Some(more) => format!(
                    "About {} would decide it: raise --num-prompts or --duration.",
                    units::counted(more, "more query", "more queries")
                ),
                None if found.is_correlated => {
                    format!("{similar}, through the whole run. Find the cause.")
                }
                None if found.value.is_none() => {
                    "The run does not measure this, because no answer has such a time. Remove the \
                     requirement, or find out why: the answers were not streamed, their tokens came \
                     at once, as from a proxy that buffers, or it is unknown how many of their \
                     tokens were streamed."
                        .into()
                }
                None => "The share of queries over the bound is too close to the allowed one: a \
                         billion further queries would not decide it."
                    .into(),
            };
            let text = format!("The requirement {requirement} is undecided: {what}. {more}");
            Some(Reason::new(ReasonKind::Requirement, text).undecided())
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::rng::Mt19937;

    use super::*;

    /// Latencies of 1 to `count` ms in an order that has no drift; the first `failures` fail.
    fn record(count: u64, failures: u64) -> Record {
        let at = |n: u64| n * 1_000_000_000;
        let latency = |n: u64| (n * 7_919 % count + 1) * 1_000_000;
        Record {
            samples_per_query: 1,
            scheduled_at: (0..count).map(at).collect(),
            issued_at: (0..count).map(at).collect(),
            indices: vec![0; count as usize],
            completed_at: (0..count).map(|n| at(n) + latency(n)).collect(),
            failed: (0..failures)
                .map(|n| (n * (count / failures.max(1)), dyno_loadgen::record::Failure::Rejected))
                .collect(),
            ..Record::default()
        }
    }

    fn finding(text: &str, record: &Record) -> summary::Requirement {
        let limit = limits::parse(text, 0.99).unwrap();
        found(&limit, record, Records::from_record(record, Keep::All).as_ref())
    }

    /// 19 of 19 failures are more than 1 %, but too few queries to miss a bound: no limit contradicts that.
    #[test]
    fn failures_of_too_few_queries_have_no_interval() {
        let few = finding("errors<=1%", &record(19, 19));
        assert_eq!((few.finding, few.low), (RequirementFinding::Undecided, None));
        let text = reason(&few).unwrap().text;
        assert!(text.contains("too few answers for an interval"), "{text}");
        assert!(!text.contains("similar times"), "{text}");
    }

    /// No failure in 2,000 queries is not one in a billion, and 3 billion would be needed to exclude it.
    #[test]
    fn a_share_that_no_run_decides_is_not_called_equal_to_the_allowed_one() {
        let rare = finding("errors<=0.0000001%", &record(2_000, 0));
        assert_eq!((rare.finding, rare.more_queries), (RequirementFinding::Undecided, None));
        let text = reason(&rare).unwrap().text;
        assert!(text.contains("errors <= 0.0000001 %"), "{text}");
        assert!(text.contains("too close to the allowed one: a billion further"), "{text}");
    }

    #[test]
    fn a_bound_is_met_or_missed_where_the_interval_lies_on_one_side() {
        use RequirementFinding::{Met, Missed, Undecided};
        let of = record(2_000, 0);
        let median = finding("p50<=1000ms", &of);
        let (low, high) = (median.low.unwrap(), median.high.unwrap());
        assert!(low < 1e9 && 1e9 < high, "{low} to {high}");
        // The interval of a median of n uniform values is about 2 / sqrt(n) wide.
        assert!((high - low) / 2e9 < 0.08, "{low} to {high}");
        for (bound, expected) in
            [(high * 1.001, Met), (low * 0.999, Missed), (1e9, Undecided), (high * 0.99, Undecided)]
        {
            let found = finding(&format!("p50<={}ns", bound as u64), &of);
            assert_eq!(found.finding, expected, "{bound}");
            assert_eq!(reason(&found).is_none(), expected == Met);
        }
        // Four times as many queries halve the interval.
        let near = finding(&format!("p50<={}ns", (1e9 + (high - 1e9) / 2.0) as u64), &of);
        let more = near.more_queries.unwrap() as f64;
        assert!((4_000.0..9_000.0).contains(&more), "{more}");
    }

    #[test]
    fn what_was_not_measured_is_never_met() {
        let few = finding("p99<=10s", &record(90, 0));
        assert_eq!((few.finding, few.low), (RequirementFinding::Undecided, None));
        // 299 answers below the bound are enough for a p99.
        assert_eq!(few.more_queries, Some(209));
        // Independent times would meet this bound: 0.9^90 < 0.05.
        let short = finding("p90<=10s", &record(90, 0));
        assert_eq!((short.more_queries, short.is_correlated), (Some(10), false));
        let text = reason(&short).unwrap().text;
        assert!(text.contains("Fewer than 100 queries do not show"), "{text}");
        let none = finding("ttft.p90<=10s", &record(2_000, 0));
        assert_eq!((none.finding, none.more_queries), (RequirementFinding::Undecided, None));
        assert!(reason(&none).unwrap().text.contains("does not measure this"));
    }

    #[test]
    fn more_answers_below_the_bound_do_not_undo_the_finding() {
        for count in (299..3_000).step_by(97) {
            let found = finding("p99<=1000s", &record(count, 0));
            assert_eq!(found.finding, RequirementFinding::Met, "{count}: {found:?}");
            assert!(found.high.is_some_and(|high| high <= found.bound), "{count}: {found:?}");
        }
    }

    #[test]
    fn a_bound_on_the_streamed_part_of_the_answers_is_never_met() {
        let whole = Record {
            first_token_at: record(2_000, 0).completed_at,
            tokens: vec![1; 2_000],
            ..record(2_000, 0)
        };
        assert_eq!(finding("ttft.p90<=10s", &whole).finding, RequirementFinding::Met);
        let mut half = whole;
        half.first_token_at[..1_000].fill(0);
        let found = finding("ttft.p90<=10s", &half);
        assert_eq!(
            (found.finding, found.unmeasured),
            (RequirementFinding::Undecided, 1_000),
            "{found:?}"
        );
        assert!(reason(&found).unwrap().text.contains("1,000 answers have no such time"));
        assert_eq!(finding("ttft.p90<=1ms", &half).finding, RequirementFinding::Missed);
    }

    #[test]
    fn answers_with_an_unknown_number_of_streamed_tokens_meet_no_bound() {
        let whole = record(2_000, 0);
        // 200 of 202 tokens did not come: 500 us per token, and not 2.5 us.
        let first_token_at = whole.completed_at.iter().map(|at| at - 500_000).collect();
        let timed_tokens = (0..2_000).map(|sample| (sample, Some(2))).collect();
        let mut hidden = Record { first_token_at, tokens: vec![202; 2_000], timed_tokens, ..whole };
        assert_eq!(finding("tpot.p90<=10000ns", &hidden).finding, RequirementFinding::Missed);
        assert_eq!(finding("tpot.p90<=1ms", &hidden).finding, RequirementFinding::Met);
        hidden.timed_tokens[7].1 = None;
        let found = finding("tpot.p90<=1ms", &hidden);
        assert_eq!((found.finding, found.unmeasured), (RequirementFinding::Undecided, 1));
        assert!(reason(&found).unwrap().text.contains("1 answer has no such time."));
    }

    #[test]
    fn times_of_tokens_are_those_of_samples_and_not_of_queries() {
        // Of each query, one answer has 1 ms per token, and the other one 10 ms.
        let (ms, queries) = (1_000_000, 400_u64);
        let due = |query: u64| query * 1_000 * ms;
        let of_samples = |at: [u64; 2]| {
            (0..queries).flat_map(move |query| at.map(|at| due(query) + at)).collect::<Vec<u64>>()
        };
        let record = Record {
            samples_per_query: 2,
            scheduled_at: (0..queries).map(due).collect(),
            issued_at: (0..queries).map(due).collect(),
            indices: vec![0; 800],
            first_token_at: of_samples([10 * ms; 2]),
            completed_at: of_samples([20 * ms, 110 * ms]),
            tokens: vec![11; 800],
            ..Record::default()
        };
        // Of the sum of the tokens, it would be 100 / 21 ms.
        let slow = finding("tpot.p90<=5ms", &record);
        assert_eq!(slow.value, Some(10e6), "{slow:?}");
        assert_eq!(slow.finding, RequirementFinding::Missed, "{slow:?}");
        assert_eq!(finding("tpot.p25<=2ms", &record).value, Some(1e6));
        // A query is as slow as its slowest sample.
        assert_eq!(finding("p25<=2ms", &record).value, Some(110e6));
    }

    /// Returns a run of a queue with one server, exponential service with a mean of 1 ms, and this load,
    /// in the steady state. By Lindley's recursion, a request waits as long as the one before it, plus
    /// its service, minus the time between the two.
    fn queue(load: f64, count: usize, seed: u64) -> Record {
        let mut rng = Mt19937::new(seed);
        let mut exponential =
            |mean_ns: f64| -mean_ns * ((f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0).ln();
        let (service, gap) = (1e6, 1e6 / load);
        let mut record = Record { samples_per_query: 1, ..Record::default() };
        // The time in the system of the request before is exponential.
        let mut wait = (exponential(service / (1.0 - load)) - exponential(gap)).max(0.0);
        let mut now = 0.0;
        for _ in 0..count {
            let own = exponential(service);
            record.scheduled_at.push(now as u64);
            record.issued_at.push(now as u64);
            record.completed_at.push((now + wait + own) as u64);
            let next = exponential(gap);
            wait = (wait + own - next).max(0.0);
            now += next;
        }
        record.indices = vec![0; count];
        record
    }

    /// 99th percentile of the time in the system of such a queue, in ns.
    fn p99_of_queue(load: f64) -> f64 {
        1e6 * 100_f64.ln() / (1.0 - load)
    }

    /// A true p99 above the bound is called met in at most 5 % of the runs; more than 17 of 200 have a
    /// probability of 1 % then. By the correlation of the times over the bound alone they are about 24.
    #[test]
    fn a_short_run_of_a_long_queue_does_not_meet_a_bound() {
        const RUNS: u64 = 200;
        const MOST_WRONG: usize = 17;
        let bound = format!("p99<={}ns", (p99_of_queue(0.9) * 0.999) as u64);
        let findings: Vec<summary::Requirement> =
            (0..RUNS).map(|seed| finding(&bound, &queue(0.9, 20_000, seed))).collect();
        let met = |found: &&summary::Requirement| found.finding == RequirementFinding::Met;
        let wrong = findings.iter().filter(met).count();
        assert!(wrong <= MOST_WRONG, "{wrong} of {RUNS}");
        // The advice differs if the bound would be met by independent queries.
        let short = findings.iter().find(|found| found.is_correlated);
        let short = short.expect("a run with too few independent queries");
        assert!(short.more_queries.is_some_and(|more| more > 0), "{short:?}");
        assert!(reason(short).unwrap().text.contains("too few independent ones"), "{short:?}");
    }

    #[test]
    fn a_long_run_of_a_short_queue_meets_a_bound() {
        let bound = format!("p99<={}ns", (p99_of_queue(0.5) * 2.0) as u64);
        let is_met = |seed: &u64| {
            finding(&bound, &queue(0.5, 50_000, *seed)).finding == RequirementFinding::Met
        };
        let met = (0..20).filter(is_met).count();
        assert!(met >= 18, "{met} of 20");
    }

    #[test]
    fn errors_are_a_share_with_an_interval() {
        // No failure in n queries leaves 3 / n possible.
        let none = finding("errors<=0.1%", &record(2_000, 0));
        assert_eq!(none.finding, RequirementFinding::Undecided, "{none:?}");
        let more = none.more_queries.unwrap();
        assert!((900..1_100).contains(&more), "{more}");
        let met = finding("errors<=1%", &record(2_000, 0));
        assert_eq!((met.finding, met.assumes_independence), (RequirementFinding::Met, true));
        let some = finding("errors<=2%", &record(2_000, 3));
        assert_eq!((some.finding, some.assumes_independence), (RequirementFinding::Met, false));
        // Each 13th query fails: the upper limit of 7 of 91 is 13.96 %.
        let few = record(91, 7);
        assert_eq!(finding("errors<=30%", &few).finding, RequirementFinding::Met);
        let near = finding("errors<=10%", &few);
        assert_eq!(near.finding, RequirementFinding::Undecided, "{near:?}");
        let text = reason(&near).unwrap().text;
        assert!(!text.contains("in rows") && !text.contains("no upper limit"), "{text}");
        let many = finding("errors<=1%", &record(2_000, 100));
        assert_eq!(many.finding, RequirementFinding::Missed, "{many:?}");
        assert!(reason(&many).unwrap().text.contains("Find the cause of the failures"));
    }
}
