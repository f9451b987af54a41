//! Effects of the client on the figures of a test: samples that it delayed, and time in which it did
//! not run.
//!
//! For a sample that is sent over a network, the client's part of the latency is known: from the
//! scheduled time to the write of the request, and from the arrival of the answer in the kernel to
//! the read. For a system in this process, it is the time in which the process was stopped; late
//! issue has a budget of its own there. A test is not VALID if its figures change by too much without
//! these parts.

use std::collections::BTreeMap;

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use serde::{Deserialize, Serialize};

use super::{Cause, Reason, ReasonKind, Requirement, RequirementFinding, Test};
use crate::units;

/// Cause of lost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Not counted by the system: a signal (SIGSTOP), a debugger, or memory that is paged in
    Stopped,
    /// The quota of its control group was used up
    Quota,
    /// Other programs had the processors
    Processors,
    /// The hypervisor gave the processors to other machines
    Hypervisor,
}

impl Loss {
    /// Returns words to follow a duration, such as `stopped`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Quota => "out of its CPU quota",
            Self::Processors => "waiting for a processor",
            Self::Hypervisor => "waiting for the hypervisor",
        }
    }
}

/// A span in which no thread of the process was seen to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pause {
    /// start of the pause, after the start of the run; the real start may be up to 15 ms earlier
    pub at_ns: u64,
    /// its duration
    pub lasted_ns: u64,
    /// `stopped`, `quota`, `processors` (other programs had them) or `hypervisor`
    pub loss: Loss,
}

/// Delays of the client's process in the last run of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Observer {
    /// of the test
    pub scenario: String,
    /// of the test: `accuracy`, `performance` or `peak`
    pub mode: String,
    /// number of the worker, from 1; null if the load was not shared
    pub worker: Option<u32>,
    /// from the start of the run to its last answer
    pub lasted_ns: u64,
    /// time in which the process did not run, by cause: `stopped` (a signal, a debugger), `quota`
    /// (of its control group), `processors` (used by other programs), `hypervisor`
    pub lost_ns: BTreeMap<Loss, u64>,
    /// pauses of at least 10 ms
    pub pauses: u64,
    /// of the beats that come every 10 ms, those that fell into a stop of less than 10 ms;
    /// `lost_ns` holds an estimate of such stops if it is at least 2 % of the run
    pub brief_stops: u64,
    /// that estimate; 0 where it is less
    pub brief_stops_ns: u64,
    /// the longest pauses, in order of time
    pub longest: Vec<Pause>,
    /// time that ready threads waited for a processor, by thread name; with those of processes that
    /// Dyno started
    pub run_delay_ns: BTreeMap<String, u64>,
    /// time that the control group was throttled by its quota, over all processors; null if
    /// unknown
    pub throttled_ns: Option<u64>,
    /// time that the hypervisor took from all processors; null if unknown
    pub stolen_ns: Option<u64>,
    /// samples that the client delayed, or may have delayed, by more than 50 us
    pub delayed: u64,
    /// the longest such delay
    pub longest_delay_ns: u64,
    /// figures with and without the client's delays; empty if no sample was delayed by more than
    /// 50 us
    pub figures: Vec<Figure>,
}

/// A figure as it was measured, and without the client's delays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// of the tenant, from 0
    pub tenant: u32,
    /// such as `latency p99`
    pub name: String,
    /// with the client's delays
    pub measured_ns: u64,
    /// without them
    pub without_client_ns: u64,
    /// without them and without those that the client may have caused: where one read brought a
    /// token and later bytes, the time of the token is not known; null if that is the same
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_ns: Option<u64>,
}

/// Begin of the names of figures of the time per output token.
pub const PER_TOKEN: &str = "time per output token";

/// Effect of the client's part of a figure on the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientShare {
    /// The part is so close to the limit that the time between the clocks decides.
    Open,
    /// The part exceeds the limit.
    TooLarge,
}

/// Limit of the client's part: a figure must not change by more than one part in `SHARE` and by more
/// than `LEAST` ns.
const SHARE: u64 = 20;
const LEAST: Nanos = 200_000;
/// Allowance for time between the clocks of client and server, such as the sending itself, in ns: 60
/// to 200 us on a quiet virtual machine, as measured by `peers witness`.
const BETWEEN: Nanos = 120_000;
/// Budget of lost time: one part in `LOST_SHARE` of a run, and at least `LEAST_LOST` ns.
const LOST_SHARE: u64 = 20;
const LEAST_LOST: Nanos = 50 * MILLISECOND;
impl Observer {
    /// Returns the lost time with its causes, such as `2.00 s stopped, from 1.20 s on`.
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

    /// Adds a reason to a tenant's test if the client changed its figures by too much, or a note if the
    /// machine kept the client from running. `is_remote` states that the system is on a network.
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
        // In Offline over a network, any time in which the client does not run delays requests.
        let charged = if is_remote && test.scenario == "Offline" { all } else { stopped };
        let reason = if self.is_over_budget(charged) {
            let share = if self.is_over_budget(charged.saturating_sub(self.brief_error())) {
                ClientShare::TooLarge
            } else {
                ClientShare::Open
            };
            let text = format!(
                "{who} did not run for {} of {} ({}). {} Remove the cause and repeat the run.",
                shown(charged),
                shown(self.lasted_ns),
                self.lost(),
                share.words(),
            );
            Some(share.reason(text))
        } else {
            let waited = test.reason_of_connections().is_some();
            let worst = self.worst(tenant);
            worst.map(|(figure, share)| self.reason(&who, figure, share, waited))
        };
        if let Some(reason) = reason.as_ref().filter(|_| is_unjudged(test)) {
            test.notes.push(unjudged_note(&reason.text));
        } else if let Some(reason) = reason {
            self.excuse(tenant, test);
            test.add_reason_after_failures(reason.because_of(Cause::Client));
            test.begin_with_connections();
            test.withdraw_advice();
            test.settle();
        } else if self.is_over_budget(all) {
            test.notes.push(self.note(all));
        }
    }

    /// Returns the note on time that the machine took from this process. The remark of the run has the
    /// causes.
    fn note(&self, lost: u64) -> String {
        format!(
            "{} {}: the machine kept this process from running for {} of {}. The latencies include \
             that time.",
            self.scenario,
            self.mode,
            shown(lost),
            shown(self.lasted_ns)
        )
    }

    /// Makes requirements undecided that are missed only with the client's delays.
    fn excuse(&self, tenant: usize, test: &mut Test) {
        let is_missed = |of: &&mut Requirement| of.finding == RequirementFinding::Missed;
        for required in test.requirements.iter_mut().filter(is_missed) {
            let is_met = |figure: &Figure| {
                figure.tenant as usize == tenant
                    && figure.is_of(&required.metric)
                    && figure.at_least_ns.unwrap_or(figure.without_client_ns) as f64
                        <= required.bound
            };
            if self.figures.iter().any(is_met) {
                required.finding = RequirementFinding::Undecided;
                required.more_queries = None;
            }
        }
    }

    /// Returns the reason for a figure that the client changed. `waited` states that another reason names
    /// waits for connections, which no processor shortens.
    fn reason(&self, who: &str, figure: &Figure, share: ClientShare, waited: bool) -> Reason {
        let lost =
            if self.lost_ns.is_empty() { String::new() } else { format!(" ({})", self.lost()) };
        let possible = figure.at_least_ns.filter(|_| share == ClientShare::Open);
        let (delayed, without) = match possible {
            None => ("delayed", shown(figure.without_client_ns)),
            Some(least) => {
                let most = shown(figure.without_client_ns);
                ("may have delayed", format!("between {} and {most}", shown(least)))
            }
        };
        let remedy = if waited {
            "The waits for connections are part of that."
        } else {
            "Reserve processors for Dyno, or raise its CPU quota, and repeat the run."
        };
        let text = format!(
            "{who} {delayed} {}, by up to {}{lost}: {} is {}, and {without} without that. \
             {} {remedy}",
            units::counted(self.delayed, "sample", "samples"),
            shown(self.longest_delay_ns),
            figure.name,
            shown(figure.measured_ns),
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

    /// Returns a sentence about the time that the client lost; `None` if it lost none.
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

    /// Returns a sentence about the threads that were ready but waited longest for a processor; `None`
    /// if they waited for no more than the budget of lost time.
    ///
    /// It describes a system in this process, or in one that Dyno started. Over a network, the effect
    /// of each delay is known.
    pub fn wait_remark(&self) -> Option<String> {
        let (threads, waited) = self.run_delay_ns.iter().max_by_key(|(_, waited)| **waited)?;
        let of = self.worker.map(|worker| format!(" of worker {worker}")).unwrap_or_default();
        self.is_over_budget(*waited).then(|| {
            format!(
                "{} {}: threads named {threads}{of} waited {} in all for a processor; the run took \
                 {}. Its figures include that time.",
                self.scenario,
                self.mode,
                shown(*waited),
                shown(self.lasted_ns)
            )
        })
    }
}

impl ClientShare {
    fn words(self) -> &'static str {
        match self {
            Self::TooLarge => "The figures do not describe the system.",
            Self::Open => {
                "That is too close to the limit of 5 % to decide whether the figures describe the \
                 system."
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
    /// Returns whether it is the figure of the metric of a requirement, such as `latency.p99.9`.
    fn is_of(&self, metric: &str) -> bool {
        let of = match metric.split_once('.') {
            Some(("latency", percentile)) => format!("latency {percentile}"),
            Some(("ttft", percentile)) => format!("time to first token {percentile}"),
            Some(("tpot", percentile)) => format!("{PER_TOKEN} {percentile}"),
            _ => return false,
        };
        self.name == of
    }

    fn change(&self) -> Nanos {
        self.measured_ns.abs_diff(self.without_client_ns)
    }

    fn without(&self) -> Nanos {
        self.without_client_ns
    }

    /// Judges the client's part; `None` where it is small enough.
    fn share_of_client(&self) -> Option<ClientShare> {
        let limit = LEAST.max(self.without() / SHARE);
        let most = self.at_least_ns.map_or(0, |least| self.measured_ns.abs_diff(least));
        let is_over = self.change() > limit;
        // The sending delays the first token and the last equally.
        let between = if self.name.starts_with(PER_TOKEN) { 0 } else { BETWEEN };
        match (is_over, self.change().max(most) + between > limit) {
            (true, _) => Some(ClientShare::TooLarge),
            (false, true) => Some(ClientShare::Open),
            (false, false) => None,
        }
    }
}

/// Returns whether the settings disable the judgment of the client.
pub fn is_unjudged(test: &Test) -> bool {
    test.settings.get("max_client_lag_ns").is_some_and(|setting| setting.value == "0")
}

/// Returns the note in place of a reason by a client that is not judged.
pub fn unjudged_note(text: &str) -> String {
    format!("The client is not judged (max_client_lag_ns=0). {text}")
}

fn shown(ns: u64) -> String {
    units::duration(ns.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = MILLISECOND;

    fn figure(name: &str, (measured, without): (Nanos, Nanos)) -> Figure {
        let name = name.into();
        Figure {
            tenant: 0,
            name,
            measured_ns: measured,
            without_client_ns: without,
            at_least_ns: None,
        }
    }

    #[test]
    fn delays_below_what_a_figure_may_differ_by_are_no_reason() {
        // Of 5 ms, 5 % are more than 200 us; of 1 ms they are not.
        for (latency, delay, expected) in [
            (5 * MS, 110_000, None),
            (5 * MS, 150_000, Some(ClientShare::Open)),
            (5 * MS, 235_000, Some(ClientShare::Open)),
            (5 * MS, 240_000, Some(ClientShare::TooLarge)),
            (MS, 75_000, None),
            (MS, 85_000, Some(ClientShare::Open)),
            (MS, 200_000, Some(ClientShare::Open)),
            (MS, 201_000, Some(ClientShare::TooLarge)),
        ] {
            let found = figure("latency p50", (latency, latency - delay)).share_of_client();
            assert_eq!(found, expected, "{delay} of {latency}");
        }
    }

    #[test]
    fn a_time_per_output_token_has_no_allowance_for_the_sending() {
        for (delay, expected) in [(190_000, None), (201_000, Some(ClientShare::TooLarge))] {
            let found = figure("time per output token p99", (3 * MS, 3 * MS - delay));
            assert_eq!(found.share_of_client(), expected, "{delay}");
        }
    }

    #[test]
    fn a_figure_is_found_by_the_metric_of_a_requirement() {
        for (name, metric) in [
            ("latency p99.9", "latency.p99.9"),
            ("time to first token p50", "ttft.p50"),
            ("time per output token p99", "tpot.p99"),
        ] {
            let of = figure(name, (MS, MS));
            let metrics = ["latency.p99.9", "ttft.p50", "tpot.p99", "errors", "lag.p99"];
            let found: Vec<&str> = metrics.into_iter().filter(|metric| of.is_of(metric)).collect();
            assert_eq!(found, [metric]);
        }
    }

    #[test]
    fn delays_that_are_only_possible_leave_it_open() {
        for (at_least, expected) in
            [(None, None), (Some(4_900_000), None), (Some(3 * MS), Some(ClientShare::Open))]
        {
            let certain = figure("latency p50", (5 * MS, 5 * MS));
            let found = Figure { at_least_ns: at_least, ..certain }.share_of_client();
            assert_eq!(found, expected, "{at_least:?}");
        }
    }

    #[test]
    fn the_figure_that_the_client_changed_most_is_named() {
        let figures = [("latency p50", 2 * MS), ("latency p90", 5 * MS)]
            .map(|(name, without)| figure(name, (5 * MS, without)));
        let observer = Observer { figures: figures.into(), ..Observer::default() };
        let worst = observer.worst(0).map(|(figure, share)| (&figure.name[..], share));
        assert_eq!(worst, Some(("latency p50", ClientShare::TooLarge)));
        assert_eq!(observer.worst(1), None, "there is one tenant");
    }

    #[test]
    fn threads_that_waited_for_more_than_the_budget_are_named() {
        let remark = |waited: Nanos| {
            let waits = [("dyno", 2 * MS), ("sut-worker-0", waited), ("sut-worker-1", MS)];
            let observer = Observer {
                scenario: "Offline".into(),
                mode: "performance".into(),
                lasted_ns: 2_000 * MS,
                run_delay_ns: waits.map(|(thread, ns)| (thread.to_owned(), ns)).into(),
                ..Observer::default()
            };
            observer.wait_remark()
        };
        assert_eq!(remark(100 * MS), None);
        let expected = "Offline performance: threads named sut-worker-0 waited 1.50 s in all for a \
                        processor; the run took 2.00 s. Its figures include that time.";
        assert_eq!(remark(1_500 * MS).as_deref(), Some(expected));
        assert_eq!(Observer::default().wait_remark(), None);
    }

    #[test]
    fn a_note_on_lost_time_names_its_test() {
        let observer = Observer {
            scenario: "Server".into(),
            mode: "performance".into(),
            lasted_ns: 2_000 * MS,
            ..Observer::default()
        };
        let expected = "Server performance: the machine kept this process from running for 500 ms of \
                        2.00 s. The latencies include that time.";
        assert_eq!(observer.note(500 * MS), expected);
    }

    #[test]
    fn an_estimate_that_rests_on_few_beats_has_a_large_error() {
        let observer = |(brief_stops, lost): (u64, Nanos)| Observer {
            lasted_ns: 2_000 * MS,
            brief_stops,
            brief_stops_ns: lost,
            ..Observer::default()
        };
        // 2 / sqrt(20) of it.
        let many = observer((20, 300 * MS));
        assert_eq!(many.brief_error() / MS, 134);
        assert!(many.is_over_budget(300 * MS) && !many.is_over_budget(100 * MS));
        assert_eq!(observer((2, 0)).brief_error(), 0);
    }
}
