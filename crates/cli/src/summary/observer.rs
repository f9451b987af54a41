//! What the client did to the figures of a test: samples that it delayed, and time in which it did
//! not run.
//!
//! Of a sample that goes over a network the client's part of the latency is known: from when it
//! was due to the write of its request, and from when the kernel had the answer to the read. In
//! process it is the time in which the process was stopped; how late queries were issued there has
//! a budget of its own. If the figures without these parts are others, they are not the system's,
//! and the test does not count.

mod delays;

use std::collections::{BTreeMap, HashMap};

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use dyno_loadgen::record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use dyno_net::client::LateRead;

use super::{Cause, Reason, ReasonKind, Test};
use crate::observe::{BEAT, LEAST_STOP, Loss, Observation, Pause};
use crate::render;

use delays::{Delays, figures};

/// What was seen of the client's process in a test, of its last run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Observer {
    /// of the test
    pub scenario: String,
    /// of the test: `accuracy`, `performance` or `peak`
    pub mode: String,
    /// which worker, from 1; null where the load was not shared
    pub worker: Option<u32>,
    /// from the start of the run to its last answer
    pub lasted_ns: u64,
    /// time in which the process did not run, by what took it: `stopped` (a signal, a debugger),
    /// `quota` (of its control group), `processors` (other programs had them), `hypervisor`
    pub lost_ns: BTreeMap<Loss, u64>,
    /// pauses of at least 10 ms
    pub pauses: u64,
    /// of the beats that come every 10 ms, those that fell into a stop of less than 10 ms;
    /// `lost_ns` holds an estimate of such stops if it is at least 2 % of the run
    pub brief_stops: u64,
    /// that estimate; 0 where it is less
    pub brief_stops_ns: u64,
    /// the longest of them, in order of time
    pub longest: Vec<Pause>,
    /// how long threads of the process were ready and waited for a processor, by name of thread
    pub run_delay_ns: BTreeMap<String, u64>,
    /// how long the control group was out of its quota, over all processors; null where unknown
    pub throttled_ns: Option<u64>,
    /// time of all processors that the hypervisor took; null where unknown
    pub stolen_ns: Option<u64>,
    /// samples that the client delayed by more than 50 us
    pub delayed: u64,
    /// the longest such delay
    pub longest_delay_ns: u64,
    /// figures with and without the client's delays; empty where no sample was delayed by more
    /// than 50 us
    pub figures: Vec<Figure>,
}

/// A figure as it was measured, and without the client's delays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// of the tenant, from 0
    pub tenant: u32,
    /// such as `latency p99`
    pub name: String,
    /// with the client's delays
    pub measured_ns: u64,
    /// without them
    pub without_client_ns: u64,
}

/// One tenant's part of a run, as the client knows it.
pub struct Part<'a> {
    /// What happened.
    pub record: &'a Record,
    /// By sample: how much later than due its request was written, over a network. Empty where
    /// that is no delay of the client's, and in process: there the lag of the client has a budget
    /// of its own.
    pub sent_late: Vec<Nanos>,
    /// Where on the distribution the test is judged.
    pub target: f64,
}

/// What the client's part of a figure means for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientShare {
    /// So close to the limit that what lies between the clocks decides.
    Open,
    /// The figure is not the system's.
    TooLarge,
}

/// How a client reaches its system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Both are this process: what keeps it from running keeps the system, too.
    InProcess,
    /// Over a network, with the operating system's word for when answers came.
    Network,
    /// Over a network, without it.
    NetworkUnstamped,
}

/// A figure that is off by more than this part, and by more than so many ns, is not the system's.
const SHARE: u64 = 20;
const LEAST: Nanos = 200_000;
/// At least and at most this lies between the clocks of client and server besides, such as the
/// sending itself: 60 to 200 us on a quiet virtual machine, by `peers witness`.
const BETWEEN: (Nanos, Nanos) = (20_000, 120_000);
/// Lost time is over budget beyond this part of a run, and beyond so many ns.
const LOST_SHARE: u64 = 20;
const LEAST_LOST: Nanos = 50 * MILLISECOND;
/// Brief stops of less than this part of a run are no lost time: a timer may be late at times.
const BRIEF_SHARE: u64 = 50;
/// Samples that were delayed by less are not counted.
const LEAST_DELAY: Nanos = 50_000;
/// So many pauses are listed.
const LISTED: usize = 20;

impl Observer {
    /// What an observation and the late reads of sockets, by the observation's clock, say of a
    /// run.
    pub fn of(
        observation: Observation,
        reach: Reach,
        parts: &[Part<'_>],
        late_reads: &[LateRead],
    ) -> Self {
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
        let mut observer = Self {
            lasted_ns,
            brief_stops: late.len() as u64,
            brief_stops_ns,
            lost_ns,
            pauses: pauses.len() as u64,
            longest: longest(&pauses),
            run_delay_ns: run_delay,
            throttled_ns: throttled,
            stolen_ns: stolen,
            ..Self::default()
        };
        let late_reads: HashMap<Nanos, &LateRead> =
            late_reads.iter().map(|read| (read.at, read)).collect();
        for (tenant, part) in (0..).zip(parts) {
            let delays = Delays { reach, part, late: &late_reads, pauses: &pauses };
            observer.add(tenant, &delays);
        }
        observer
    }

    /// Adds the figures of a tenant, where the client delayed any of its samples.
    fn add(&mut self, tenant: u32, delays: &Delays<'_>) {
        if !delays.are_possible() {
            return;
        }
        let found = delays.of_answers();
        self.delayed += found.delayed;
        self.longest_delay_ns = self.longest_delay_ns.max(found.longest);
        let target = delays.part.target;
        self.figures.extend(figures(tenant, "latency", &found.latencies, target));
        self.figures.extend(figures(tenant, "time to first token", &found.first_tokens, target));
    }

    /// Time that was lost, with what took it and when, such as `2.00 s stopped, from 1.20 s on`.
    fn lost(&self) -> String {
        let of = |(loss, ns): (&Loss, &u64)| format!("{} {}", shown(*ns), loss.words());
        let mut parts: Vec<String> = self.lost_ns.iter().map(of).collect();
        let which = if self.pauses == 1 { "from" } else { "the longest from" };
        let longest = self.longest.iter().max_by_key(|pause| pause.lasted_ns);
        parts.extend(longest.map(|pause| format!("{which} {} on", shown(pause.at_ns))));
        parts.join(", ")
    }

    fn is_over_budget(&self, lost: u64) -> bool {
        lost > LEAST_LOST && lost > self.lasted_ns / LOST_SHARE
    }

    /// Adds to a tenant's test why its figures are the client's and not the system's, and what the
    /// machine did.
    pub fn judge(&self, tenant: usize, test: &mut Test, is_remote: bool) {
        if test.metrics.is_none() {
            return;
        }
        let who = match self.worker {
            Some(worker) => format!("The client of worker {worker}"),
            None => "The client".into(),
        };
        let all: u64 = self.lost_ns.values().sum();
        let stopped = self.lost_ns.get(&Loss::Stopped).copied().unwrap_or(0);
        // In Offline a client that does not run has nothing in flight for it.
        let charged = if is_remote && test.scenario == "Offline" { all } else { stopped };
        let reason = if self.is_over_budget(charged) {
            let share = match self.is_over_budget(charged.saturating_sub(self.brief_error())) {
                true => ClientShare::TooLarge,
                false => ClientShare::Open,
            };
            let text = format!(
                "{who} did not run for {} of {} ({}). {} Run it again without what kept it from \
                 running.",
                shown(charged),
                shown(self.lasted_ns),
                self.lost(),
                share.words(),
            );
            Some(share.reason(text))
        } else {
            self.worst(tenant).map(|(figure, share)| self.reason(&who, figure, share))
        };
        if let Some(reason) = reason.as_ref().filter(|_| is_unjudged(test)) {
            let text = &reason.text;
            test.notes.push(format!("max_client_lag_ns=0 does not judge the client. {text}"));
        } else if let Some(reason) = reason {
            test.add_reason_after_failures(reason.because_of(Cause::Client));
            test.withdraw_advice();
            test.settle();
        } else if self.is_over_budget(all) {
            test.notes.push(format!(
                "The machine kept this process from running for {} of {}: {}. Its latencies hold \
                 that time.",
                shown(all),
                shown(self.lasted_ns),
                self.lost()
            ));
        }
    }

    /// Why a figure that the client changed does not count, or may not count.
    fn reason(&self, who: &str, figure: &Figure, share: ClientShare) -> Reason {
        let lost = match self.lost_ns.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.lost()),
        };
        let text = format!(
            "{who} delayed {} samples, by up to {}{lost}: {} is {}, and {} without that. {} Give \
             Dyno processors of its own, or more of its quota, and run it again.",
            render::count(self.delayed),
            shown(self.longest_delay_ns),
            figure.name,
            shown(figure.measured_ns),
            shown(figure.without_client_ns),
            share.words(),
        );
        share.reason(text)
    }

    /// Returns two standard deviations of the estimate of brief stops, which rests on few beats.
    fn brief_error(&self) -> Nanos {
        (2.0 * self.brief_stops_ns as f64 / (self.brief_stops.max(1) as f64).sqrt()) as Nanos
    }

    /// Returns the figure of a tenant that the client changed most, if by too much or nearly so.
    fn worst(&self, tenant: usize) -> Option<(&Figure, ClientShare)> {
        let own = self.figures.iter().filter(|figure| figure.tenant as usize == tenant);
        let changed = own.filter_map(|figure| Some((figure, figure.share_of_client()?)));
        changed.max_by_key(|(figure, share)| {
            (*share, figure.change() * 1_000 / figure.without().max(1))
        })
    }

    /// The client in a sentence, where it lost time.
    pub fn remark(&self) -> Option<String> {
        if self.lost_ns.is_empty() {
            return None;
        }
        let who = match self.worker {
            Some(worker) => format!("worker {worker}"),
            None => "the client".into(),
        };
        let times = match self.pauses {
            0 => "briefly and often".into(),
            1 => "once".into(),
            many => format!("{many} times"),
        };
        Some(format!(
            "{} {}: {who} paused {times} in {}: {}.",
            self.scenario,
            self.mode,
            shown(self.lasted_ns),
            self.lost()
        ))
    }
}

impl ClientShare {
    fn words(self) -> &'static str {
        match self {
            Self::TooLarge => "The figures are not the system's.",
            Self::Open => {
                "That is close to the limit of 5 %, so that the run cannot decide whether the \
                 figures are the system's."
            }
        }
    }

    fn reason(self, text: String) -> Reason {
        let reason = Reason::new(ReasonKind::ClientLag, text);
        match self {
            Self::TooLarge => reason,
            Self::Open => reason.undecided(),
        }
    }
}

impl Figure {
    fn change(&self) -> Nanos {
        self.measured_ns.abs_diff(self.without_client_ns)
    }

    fn without(&self) -> Nanos {
        self.without_client_ns
    }

    /// Judges the client's part; `None` where it is small.
    fn share_of_client(&self) -> Option<ClientShare> {
        let limit = LEAST.max(self.without() / SHARE);
        let may_be_over = |between| self.change() + between > limit;
        match (may_be_over(BETWEEN.0), may_be_over(BETWEEN.1)) {
            (true, _) => Some(ClientShare::TooLarge),
            (false, true) => Some(ClientShare::Open),
            (false, false) => None,
        }
    }
}

/// Whether whoever runs the test does not want the client to be judged.
fn is_unjudged(test: &Test) -> bool {
    test.settings.get("max_client_lag_ns").is_some_and(|setting| setting.value == "0")
}

fn shown(ns: u64) -> String {
    render::duration(ns.cast_signed())
}

/// Estimates how long stops lasted together, by how late beats were that fell into them.
///
/// Beats are spread evenly over time, so that each stands for [`BEAT`]. Those that fell into the
/// last [`LEAST_STOP`] of a stop are not among them: their number follows from the length of the
/// stops, which are twice as long as a beat is late on average.
fn stopped_by(late: &[Nanos]) -> Nanos {
    let Some(beats) = Some(late.len() as u64).filter(|&beats| beats > 0) else { return 0 };
    let mean = late.iter().sum::<Nanos>() / beats;
    let seen = 2 * mean.saturating_sub(LEAST_STOP);
    // Where the stops are hardly longer than what is not seen of them, the estimate is a guess.
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
        Part { record, sent_late, target: 0.9 }
    }

    #[test]
    fn late_writes_and_late_reads_are_the_clients() {
        let record = record(&[5 * MS; 10]);
        let sent_late: Vec<Nanos> = (0..10).map(|query| if query < 6 { MS } else { 0 }).collect();
        // The answers to the first six queries were read 2 ms late.
        let late: Vec<_> = record.completed_at[..6].iter().map(|&at| late(at, 2 * MS)).collect();
        let parts = [part(&record, sent_late)];
        let seen = Observer::of(observation(&[]), Reach::Network, &parts, &late);
        let figure = |name: &str| seen.figures.iter().find(|figure| figure.name == name).unwrap();
        assert_eq!((seen.delayed, seen.longest_delay_ns), (6, 3 * MS));
        assert_eq!(figure("latency p50").without_client_ns, 2 * MS);
        assert_eq!(figure("latency p90").without_client_ns, 5 * MS);
        assert_eq!(seen.worst(0).map(|(figure, _)| &figure.name[..]), Some("latency p50"));
        assert_eq!(seen.worst(1), None, "there is one tenant");
    }

    #[test]
    fn in_process_only_a_stop_of_the_process_is_the_clients() {
        let record = record(&[5 * MS, 5 * MS, 45 * MS, 5 * MS]);
        for (loss, expected) in [(Loss::Stopped, 40 * MS), (Loss::Quota, 0), (Loss::Processors, 0)]
        {
            let pause = Pause { at_ns: 22 * MS, lasted_ns: 40 * MS, loss };
            let parts = [part(&record, Vec::new())];
            let seen = Observer::of(observation(&[pause]), Reach::InProcess, &parts, &[]);
            assert_eq!(seen.longest_delay_ns, expected, "{loss:?}");
            assert_eq!(seen.lost_ns[&loss], 40 * MS);
        }
    }

    #[test]
    fn a_first_token_that_came_with_the_last_may_be_as_old_as_the_threads_wait() {
        let mut record = record(&[5 * MS; 4]);
        record.tokens = vec![2, 1, 2, 2];
        record.first_token_at = record.completed_at.clone();
        // The last answer came in two reads, of which only the second was late.
        record.first_token_at[3] -= MS;
        let late: Vec<_> = record.completed_at.iter().map(|&at| late(at, MS)).collect();
        let late: Vec<_> = late.iter().map(|l| LateRead { thread_waited: 3 * MS, ..*l }).collect();
        let part = part(&record, vec![MS / 2; 4]);
        let by_time = late.iter().map(|read| (read.at, read)).collect();
        let delays =
            Delays { reach: Reach::Network, part: &part, late: &by_time, pauses: &[] }.of_answers();
        let without: Vec<_> = delays.first_tokens.iter().map(|time| time.1).collect();
        assert_eq!(without, [MS + MS / 2, 3 * MS + MS / 2, MS + MS / 2, 3 * MS + MS / 2]);
        assert!(delays.latencies.iter().all(|time| time.1 == 3 * MS + MS / 2));
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
            let seen = Observer::of(observation, Reach::Network, &parts, &[]);
            assert_eq!(seen.lost_ns.get(&Loss::Stopped).copied(), lost, "{beats} beats");
            assert_eq!((seen.pauses, seen.brief_stops), (0, beats));
            assert_eq!(seen.brief_stops_ns, lost.unwrap_or(0));
            // 2 / sqrt(20) of it.
            assert_eq!(seen.brief_error() / MS, if beats == 20 { 134 } else { 0 });
            assert_eq!(seen.is_over_budget(lost.unwrap_or(0)), lost.is_some());
        }
        assert_eq!(stopped_by(&[LEAST_STOP]), 0, "of noise nothing is concluded");
        assert_eq!(stopped_by(&[LEAST_STOP + MS / 4]), 2 * BEAT, "at most twice what is seen");
    }

    #[test]
    fn delays_below_what_a_figure_may_differ_by_are_no_reason() {
        // Of 5 ms, 5 % are more than 200 us; of 1 ms they are not.
        for (latency, delay, expected) in [
            (5 * MS, 110_000, None),
            (5 * MS, 150_000, Some(ClientShare::Open)),
            (5 * MS, 240_000, Some(ClientShare::TooLarge)),
            (MS, 75_000, None),
            (MS, 85_000, Some(ClientShare::Open)),
            (MS, 175_000, Some(ClientShare::Open)),
            (MS, 185_000, Some(ClientShare::TooLarge)),
        ] {
            let record = record(&[latency; 4]);
            let late: Vec<_> = record.completed_at.iter().map(|&at| late(at, delay)).collect();
            let parts = [part(&record, vec![0; 4])];
            let seen = Observer::of(observation(&[]), Reach::Network, &parts, &late);
            let found = seen.worst(0).map(|(_, share)| share);
            assert_eq!(found, expected, "{delay} of {latency}");
        }
    }

    #[test]
    fn pauses_after_the_last_answer_do_not_count() {
        let record = record(&[5 * MS; 2]);
        let pause = |at_ns| Pause { at_ns, lasted_ns: 100 * MS, loss: Loss::Stopped };
        let pauses = [pause(10 * MS), pause(200 * MS)];
        let parts = [part(&record, Vec::new())];
        let seen = Observer::of(observation(&pauses), Reach::InProcess, &parts, &[]);
        assert_eq!((seen.pauses, seen.lost_ns[&Loss::Stopped]), (1, 5 * MS));
    }
}
