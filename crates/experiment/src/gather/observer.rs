//! Effects of the client on the figures of a test: samples that it delayed, and time in which it
//! did not run.
//!
//! Over a network, the client's part of a sample's latency is known: the time from when the sample
//! was due until its request was written, and the time from when the kernel had the answer until it
//! was read. In process it is the time in which the process was stopped; how late queries were
//! issued there has a separate budget. If the figures without these parts differ, the figures are
//! not those of the system, and the test does not count: see [`Observer::judge`].

mod delays;

use std::collections::{BTreeMap, HashMap};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Record;
use dyno_loadgen::search::{Limit, Quantity};
use dyno_net::client::LateRead;
use dyno_results::summary::observer::{Loss, PER_TOKEN, Pause};
use dyno_results::summary::{Observer, Requirement};

use crate::observe::{BEAT, LEAST_STOP, Observation};

use delays::{Delays, figures};

/// One tenant's part of a run.
pub struct Part<'a> {
    /// Record of the run.
    pub record: &'a Record,
    /// Delay from when each sample was due until its request was written, over a network. Empty if
    /// the client does not cause such delays, and in process, where the lag of the client has a
    /// separate budget.
    pub sent_late: Vec<Nanos>,
    /// For each sample, whether the kernel's times of its first and its last output are those of
    /// later bytes, which the same read returned. Empty if no read was joined.
    pub joined: Vec<(bool, bool)>,
    /// Percentiles at which the test is judged besides p50, p90 and p99.
    pub judged: JudgedPercentiles,
}

/// Percentiles in (0, 1) at which a test is judged besides p50, p90 and p99: its target, and those of
/// its requirements.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedPercentiles {
    /// Percentiles of the latency.
    pub latency: Vec<f64>,
    /// Percentiles of the time to first token.
    pub first_token: Vec<f64>,
    /// Percentiles of the time per output token.
    pub time_per_output_token: Vec<f64>,
}

impl JudgedPercentiles {
    /// Returns the target of a test.
    pub fn from_target(target: f64) -> Self {
        let [latency, first_token, time_per_output_token] = [(); 3].map(|()| vec![target]);
        Self { latency, first_token, time_per_output_token }
    }

    /// Returns the target of a test, and the percentiles of its limits.
    pub fn from_limits(target: f64, limits: impl Iterator<Item = Limit>) -> Self {
        let mut found = Self::from_target(target);
        for limit in limits {
            let percentiles = match limit.quantity {
                Quantity::Latency => &mut found.latency,
                Quantity::FirstToken => &mut found.first_token,
                Quantity::TimePerOutputToken => &mut found.time_per_output_token,
                Quantity::Errors | Quantity::ClientLag => continue,
            };
            // 1 - 0.001 is not exactly 0.999.
            percentiles.push(((1.0 - limit.allowed) * 1e9).round() / 1e9);
        }
        found
    }

    /// Returns the target of a test, and the percentiles of its requirements.
    pub fn from_test(target: f64, requirements: &[Requirement]) -> Self {
        let mut found = Self::from_target(target);
        let of = |quantity: &'static str| {
            requirements.iter().filter_map(move |required| required.percentile(quantity))
        };
        found.latency.extend(of("latency"));
        found.first_token.extend(of("ttft"));
        found.time_per_output_token.extend(of("tpot"));
        found
    }
}

/// How a client reaches its system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Client and system share this process: a stop affects both.
    InProcess,
    /// Over a network, with timestamps of the operating system for received answers.
    Network,
    /// Over a network, without such timestamps.
    NetworkUnstamped,
}

/// Brief stops count as lost time if they exceed 1 / `BRIEF_SHARE` of a run, because a timer may be
/// late at times.
const BRIEF_SHARE: u64 = 50;
/// Smallest delay of a sample that is counted, ns.
const LEAST_DELAY: Nanos = 50_000;
/// Maximum number of listed pauses.
const LISTED: usize = 20;

/// Returns the observer's part of the summary, from an observation and the late reads of sockets by
/// the observation's clock.
pub fn observer(
    observation: Observation,
    reach: Reach,
    parts: &[Part<'_>],
    late_reads: &[LateRead],
) -> Observer {
    let last = |part: &Part<'_>| part.record.completed_at.iter().copied().max().unwrap_or(0);
    let lasted_ns = parts.iter().map(last).max().unwrap_or(0);
    let Observation { pauses, brief_stops, run_delay, throttled, stolen, .. } = observation;
    let within = |pause: &Pause| pause.at_ns < lasted_ns;
    let pauses: Vec<Pause> = pauses.into_iter().filter(within).collect();
    let mut lost_ns = BTreeMap::new();
    for pause in &pauses {
        let lasted = pause.lasted_ns.min(lasted_ns - pause.at_ns);
        *lost_ns.entry(pause.loss).or_default() += lasted;
    }
    let late: Vec<Nanos> =
        brief_stops.iter().filter(|(at, _)| *at < lasted_ns).map(|(_, late)| *late).collect();
    let estimate = Some(stopped_by(&late)).filter(|&ns| ns >= lasted_ns / BRIEF_SHARE);
    let brief_stops_ns = estimate.unwrap_or(0);
    if brief_stops_ns > 0 {
        *lost_ns.entry(Loss::Stopped).or_default() += brief_stops_ns;
    }
    let mut observer = Observer {
        lasted_ns,
        brief_stops: late.len() as u64,
        brief_stops_ns,
        lost_ns,
        pauses: pauses.len() as u64,
        longest: longest(&pauses),
        run_delay_ns: run_delay,
        throttled_ns: throttled,
        stolen_ns: stolen,
        ..Observer::default()
    };
    let late_reads: HashMap<Nanos, &LateRead> =
        late_reads.iter().map(|read| (read.at, read)).collect();
    for (tenant, part) in (0..).zip(parts) {
        let delays = Delays { reach, part, late: &late_reads, pauses: &pauses };
        add(&mut observer, tenant, &delays);
    }
    observer
}

/// Adds the figures of a tenant if the client delayed any of its samples.
fn add(observer: &mut Observer, tenant: u32, delays: &Delays<'_>) {
    if !delays.are_possible() {
        return;
    }
    let found = delays.of_answers();
    observer.delayed += found.delayed;
    observer.longest_delay_ns = observer.longest_delay_ns.max(found.longest);
    let judged = &delays.part.judged;
    for (name, times, further) in [
        ("latency", &found.latencies, &judged.latency),
        ("time to first token", &found.first_tokens, &judged.first_token),
        (PER_TOKEN, &found.per_token, &judged.time_per_output_token),
    ] {
        observer.figures.extend(figures(tenant, name, times, further));
    }
}

/// Estimates the total duration of stops from the lateness of the beats that fell into them.
///
/// Beats are spread evenly over time, so that each stands for [`BEAT`]. Beats in the last
/// [`LEAST_STOP`] of a stop are not among them. Their number follows from the length of the stops,
/// which is twice the mean lateness of a beat.
fn stopped_by(late: &[Nanos]) -> Nanos {
    let Some(beats) = Some(late.len() as u64).filter(|&beats| beats > 0) else { return 0 };
    let mean = late.iter().sum::<Nanos>() / beats;
    let seen = 2 * mean.saturating_sub(LEAST_STOP);
    // If stops are hardly longer than their unseen part, the estimate is a guess.
    let unseen = LEAST_STOP.min(seen);
    beats * BEAT * (seen + unseen) / seen.max(1)
}

fn longest(pauses: &[Pause]) -> Vec<Pause> {
    let mut longest = pauses.to_vec();
    longest.sort_by_key(|pause| std::cmp::Reverse(pause.lasted_ns));
    longest.truncate(LISTED);
    longest.sort_by_key(|pause| pause.at_ns);
    longest
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::MILLISECOND;
    use dyno_results::search::limits;

    use super::*;

    const MS: Nanos = MILLISECOND;

    /// A record of queries that are due each 10 ms and take so long.
    fn record(latencies: &[Nanos]) -> Record {
        let issued_at: Vec<Nanos> =
            (0..latencies.len() as u64).map(|query| query * 10 * MS).collect();
        let completed_at = issued_at.iter().zip(latencies).map(|(at, latency)| at + latency);
        Record {
            samples_per_query: 1,
            completed_at: completed_at.collect(),
            issued_at,
            ..Record::default()
        }
    }

    fn observation(pauses: &[Pause]) -> Observation {
        Observation {
            clock: dyno_loadgen::clock::Clock::start(),
            began: 0,
            pauses: pauses.to_vec(),
            brief_stops: Vec::new(),
            run_delay: BTreeMap::new(),
            throttled: None,
            stolen: None,
        }
    }

    fn late(at: Nanos, waited: Nanos) -> LateRead {
        LateRead { at, waited, thread_waited: 0 }
    }

    fn part(record: &Record, sent_late: Vec<Nanos>) -> Part<'_> {
        Part { record, sent_late, joined: Vec::new(), judged: JudgedPercentiles::from_target(0.9) }
    }

    #[test]
    fn late_writes_and_late_reads_are_the_clients() {
        let record = record(&[5 * MS; 10]);
        let sent_late: Vec<Nanos> = (0..10).map(|query| if query < 6 { MS } else { 0 }).collect();
        // The answers to the first six queries were read 2 ms late.
        let late: Vec<_> = record.completed_at[..6].iter().map(|&at| late(at, 2 * MS)).collect();
        let parts = [part(&record, sent_late)];
        let seen = observer(observation(&[]), Reach::Network, &parts, &late);
        let figure = |name: &str| seen.figures.iter().find(|figure| figure.name == name).unwrap();
        assert_eq!((seen.delayed, seen.longest_delay_ns), (6, 3 * MS));
        assert_eq!(figure("latency p50").without_client_ns, 2 * MS);
        assert_eq!(figure("latency p90").without_client_ns, 5 * MS);
    }

    #[test]
    fn in_process_only_a_stop_of_the_process_is_the_clients() {
        let record = record(&[5 * MS, 5 * MS, 45 * MS, 5 * MS]);
        for (loss, expected) in [(Loss::Stopped, 40 * MS), (Loss::Quota, 0), (Loss::Processors, 0)]
        {
            let pause = Pause { at_ns: 22 * MS, lasted_ns: 40 * MS, loss };
            let parts = [part(&record, Vec::new())];
            let seen = observer(observation(&[pause]), Reach::InProcess, &parts, &[]);
            assert_eq!(seen.longest_delay_ns, expected, "{loss:?}");
            assert_eq!(seen.lost_ns[&loss], 40 * MS);
        }
    }

    #[test]
    fn percentiles_of_requirements_are_judged_with_the_others() {
        // One answer in 500 was read 3 ms late: p99.9 shows it, and p99 does not.
        let latencies: Vec<Nanos> =
            (0..2_000).map(|at| if at % 500 == 0 { 8 * MS } else { 5 * MS }).collect();
        let record = record(&latencies);
        let late: Vec<_> =
            record.completed_at.iter().step_by(500).map(|&at| late(at, 3 * MS)).collect();
        let required = ["latency.p99.9", "tpot.p95"]
            .map(|metric| Requirement { metric: metric.into(), ..Requirement::default() });
        let judged = JudgedPercentiles::from_test(0.9, &required);
        assert_eq!(judged.time_per_output_token, [0.9, 0.95]);
        assert_eq!((&judged.latency[..], &judged.first_token[..]), (&[0.9, 0.999][..], &[0.9][..]));
        // A worker gets the limits themselves.
        let limits = ["p99.9<=9ms", "tpot.p95<=9ms", "errors<=1%", "lag.p99.5<=1ms"];
        let limits = limits.map(|limit| limits::parse(limit, 0.9).unwrap());
        assert_eq!(JudgedPercentiles::from_limits(0.9, limits.into_iter()), judged);
        let parts = [Part { judged, ..part(&record, vec![0; 2_000]) }];
        let seen = observer(observation(&[]), Reach::Network, &parts, &late);
        let named = |name: &str| seen.figures.iter().find(|figure| figure.name == name).unwrap();
        let tail = named("latency p99.9");
        assert_eq!((tail.measured_ns, tail.without_client_ns), (8 * MS, 5 * MS));
        assert_eq!(named("latency p99").measured_ns, 5 * MS);
    }

    #[test]
    fn a_late_read_changes_the_time_per_output_token_by_its_part_of_the_gaps() {
        // Two queries with a first token after 1 ms and 4 more in the 4 ms after it: 1 ms each.
        let mut record = record(&[5 * MS; 2]);
        record.first_token_at = record.issued_at.iter().map(|at| at + MS).collect();
        record.tokens = vec![5; 2];
        // The last token of the first query was read 2 ms late, and the first of the second 800 us:
        // without that they are (4 - 2) / 4 and (4 + 0.8) / 4 ms. Sending late shifts both ends.
        let reads = [late(record.completed_at[0], 2 * MS), late(record.first_token_at[1], 800_000)];
        let by_time = reads.iter().map(|read| (read.at, read)).collect();
        let part = part(&record, vec![MS / 4; 2]);
        let delays = Delays { reach: Reach::Network, part: &part, late: &by_time, pauses: &[] };
        let found = delays.of_answers().per_token;
        let without: Vec<Nanos> = found.iter().map(|time| time.without).collect();
        assert_eq!(without, [500_000, 1_200_000]);
        assert!(found.iter().all(|time| time.measured == MS && time.at_least == time.without));
        // In process, only the pause between the tokens counts: 1 of 4 ms.
        let pause = |at_ns| Pause { at_ns, lasted_ns: MS, loss: Loss::Stopped };
        let pauses = [pause(0), pause(12 * MS)];
        let none = HashMap::new();
        let delays = Delays { reach: Reach::InProcess, part: &part, late: &none, pauses: &pauses };
        let without: Vec<Nanos> =
            delays.of_answers().per_token.iter().map(|time| time.without).collect();
        assert_eq!(without, [MS, 750_000]);
    }

    #[test]
    fn output_that_one_read_brought_with_later_bytes_may_be_as_old_as_the_threads_wait() {
        let mut record = record(&[5 * MS; 4]);
        record.first_token_at = record.completed_at.iter().map(|at| at - MS).collect();
        let reads = record.completed_at.iter().chain(&record.first_token_at);
        let late: Vec<_> =
            reads.map(|&at| LateRead { at, waited: MS / 2, thread_waited: 2 * MS }).collect();
        let joined = vec![(false, false), (true, false), (false, true), (true, true)];
        let part = Part { joined, ..part(&record, vec![MS / 4; 4]) };
        let by_time = late.iter().map(|read| (read.at, read)).collect();
        let delays =
            Delays { reach: Reach::Network, part: &part, late: &by_time, pauses: &[] }.of_answers();
        let known = MS / 2 + MS / 4;
        let possible = |is_joined: bool| if is_joined { 2 * MS + MS / 4 } else { known };
        for (times, measured, is_joined) in [
            (&delays.latencies, 5 * MS, [false, false, true, true]),
            (&delays.first_tokens, 4 * MS, [false, true, false, true]),
        ] {
            assert!(times.iter().all(|time| time.without == measured - known));
            let found: Vec<_> = times.iter().map(|time| time.at_least).collect();
            assert_eq!(found, is_joined.map(|is_joined| measured - possible(is_joined)));
        }
    }

    #[test]
    fn without_an_account_a_first_token_that_came_with_the_last_is_joined() {
        let mut record = record(&[5 * MS; 3]);
        record.tokens = vec![2, 1, 2];
        record.first_token_at = record.completed_at.clone();
        record.first_token_at[2] -= MS;
        let late: Vec<_> = record
            .completed_at
            .iter()
            .map(|&at| LateRead { at, waited: MS, thread_waited: 3 * MS })
            .collect();
        let part = part(&record, vec![0; 3]);
        let by_time = late.iter().map(|read| (read.at, read)).collect();
        let delays =
            Delays { reach: Reach::Network, part: &part, late: &by_time, pauses: &[] }.of_answers();
        let found: Vec<_> = delays.first_tokens.iter().map(|time| time.at_least).collect();
        assert_eq!(found, [2 * MS, 4 * MS, 4 * MS]);
    }

    #[test]
    fn brief_stops_count_by_the_beats_that_fell_into_them() {
        let record = record(&[5 * MS; 200]);
        for (beats, lost) in [(0, None), (2, None), (20, Some(300 * MS))] {
            // Stops of 6 ms: a beat that falls into one is 4 ms late on average, if at least 2 ms.
            let late = |beat: u64| if beat.is_multiple_of(2) { 3 * MS } else { 5 * MS };
            let brief_stops = (0..beats).map(|beat| (beat * 50 * MS, late(beat))).collect();
            let observation = Observation { brief_stops, ..observation(&[]) };
            let parts = [part(&record, Vec::new())];
            let seen = observer(observation, Reach::Network, &parts, &[]);
            assert_eq!(seen.lost_ns.get(&Loss::Stopped).copied(), lost, "{beats} beats");
            assert_eq!((seen.pauses, seen.brief_stops), (0, beats));
            assert_eq!(seen.brief_stops_ns, lost.unwrap_or(0));
        }
        assert_eq!(stopped_by(&[LEAST_STOP]), 0, "of noise nothing is concluded");
        assert_eq!(stopped_by(&[LEAST_STOP + MS / 4]), 2 * BEAT, "at most twice what is seen");
    }

    #[test]
    fn pauses_after_the_last_answer_do_not_count() {
        let record = record(&[5 * MS; 2]);
        let pause = |at_ns| Pause { at_ns, lasted_ns: 100 * MS, loss: Loss::Stopped };
        let pauses = [pause(10 * MS), pause(200 * MS)];
        let parts = [part(&record, Vec::new())];
        let seen = observer(observation(&pauses), Reach::InProcess, &parts, &[]);
        assert_eq!((seen.pauses, seen.lost_ns[&Loss::Stopped]), (1, 5 * MS));
    }
}
