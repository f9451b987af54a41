//! What a client knows of the samples of a record: those of a ramp and cancelled ones are left out.

use std::num::NonZero;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::plan::{Load, Plan, SampleChoice, Server, Tokens};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::record::Record;
use dyno_loadgen::settings::{Arrivals, Scenario, TestMode};
use dyno_net::client::{ClientStatistics, RetryTimes};
use dyno_net::ledger::Entry;
use dyno_net::trouble::{Kind, Trouble};
use dyno_net::worker::plans::PlannedSessions;
use dyno_results::summary::{Limits, NO_BOUND};
use dyno_results::units::duration;

use super::{Answers, Remote};
use crate::options::{Requirement, RunOptions};

/// When the requests of a record were on the wire, by sample. Times are in ns since its start.
#[derive(Debug, Clone, Default)]
pub struct WireTimes {
    /// When each was first sent; 0 if it was not.
    pub sent: Vec<Nanos>,
    /// Times of those that were sent again.
    pub retries: Vec<RetryTimes>,
}

impl Remote {
    /// Returns a text of a server without secrets of the requests.
    pub fn without_secrets(&self, text: &str) -> String {
        self.client.without_secrets(text)
    }

    /// Checks that requests can be cancelled in a test, and that it has as many samples as `num-prompts`
    /// if each is sent once.
    ///
    /// # Errors
    /// What is wrong, and a remedy.
    pub fn check_requests(&self, run: &RunOptions, plan: &Plan) -> Result<(), String> {
        if self.client.cancels() && plan.samples_per_query != 1 {
            return Err(
                "cancel: a query must be one request; use --scenario Server, or remove cancel"
                    .into(),
            );
        }
        if self.client.cancels() && plan.mode == TestMode::AccuracyOnly {
            return Err(
                "cancel: a cancelled request has no answer to score; use --mode performance, or \
                        remove cancel"
                    .into(),
            );
        }
        self.check_choices(run, plan)?;
        self.check_length(run, plan)?;
        self.check_duration(plan)
    }

    /// Returns the sessions of a plan on a worker; `None` if samples are independent.
    pub fn planned_sessions(&self) -> Option<PlannedSessions> {
        let sessions = self.sessions.as_ref()?;
        let interval = sessions.interval.unwrap_or(0);
        let (chains, steps) = (sessions.chains.clone(), sessions.steps);
        Some(PlannedSessions { chains, interval, steps })
    }

    /// Checks that a recorded trace lasts as long as the run must.
    fn check_duration(&self, plan: &Plan) -> Result<(), String> {
        let Load::Server(Server { arrivals: Arrivals::Replay(times), .. }) = &plan.load else {
            return Ok(());
        };
        let lasts = times.last().copied().unwrap_or(0);
        let is_judged = self.schedule.is_some()
            && self.sessions.is_none()
            && plan.mode != TestMode::AccuracyOnly;
        if !is_judged || plan.min_duration <= lasts {
            return Ok(());
        }
        let [wanted, found] = [plan.min_duration, lasts].map(|ns| duration(ns.cast_signed()));
        Err(format!(
            "--duration {wanted}: expected a run of at least this length, found a recorded trace whose \
             last request is due after {found}; lower the duration, or play the trace several times \
             with repeat=N"
        ))
    }

    /// Returns whether it has the interface of a text server.
    pub fn has_texts(&self) -> bool {
        matches!(self.answers, Answers::Text { .. })
    }

    /// Returns whether requests ask for several choices. Their tokens come mixed, so that they have no time
    /// per output token and no inter-token latency.
    pub fn has_choices(&self) -> bool {
        matches!(self.answers, Answers::Text { has_choices: true, .. })
    }

    fn check_choices(&self, run: &RunOptions, plan: &Plan) -> Result<(), String> {
        let has_bound = matches!(plan.load, Load::Server(_))
            && matches!(plan.tokens, Some(Tokens::Measured { tpot, .. }) if tpot < NO_BOUND);
        let is_limited = has_bound
            || run.goodput.as_ref().is_some_and(Limits::limits_tpot)
            || run.requirements.iter().any(Requirement::is_on_tpot);
        if !self.has_choices() || plan.mode == TestMode::AccuracyOnly || !is_limited {
            return Ok(());
        }
        Err("n: answers with several choices have no TPOT, because their tokens come mixed; remove n, or \
             the limit on TPOT (--profile llm has none)"
            .into())
    }

    fn check_length(&self, run: &RunOptions, plan: &Plan) -> Result<(), String> {
        let is_once = plan.choice == SampleChoice::Unique && plan.scenario() == Scenario::Server;
        let wanted = run.num_prompts.map_or(0, NonZero::get) as u64;
        let (rows, found) = match (&self.sessions, &self.schedule) {
            (Some(sessions), _) => {
                let turns = sessions.chains.iter().map(|chain| chain.thinks.len() as u64);
                let found = match sessions.steps {
                    1 => "conversations of {} turns in all; lower the number, or use sessions=live",
                    _ => {
                        "conversations of at most {} requests in all; lower the number, or use \
                         sessions=live"
                    }
                };
                (turns.sum::<u64>(), found)
            }
            (None, Some(times)) => {
                let found = "a recorded trace of {} requests; lower the number, or play the trace \
                             several times with repeat=N";
                (times.len() as u64, found)
            }
            (None, None) => return Ok(()),
        };
        if !is_once || plan.mode == TestMode::AccuracyOnly || wanted <= rows {
            return Ok(());
        }
        let found = found.replace("{}", &rows.to_string());
        Err(format!("--num-prompts {wanted}: expected as many requests, found {found}"))
    }

    /// Returns why no server can be reached after a run most of whose failures are connections that ended or
    /// could not be established; `None` if a server can be reached, or most requests failed otherwise. `seen`
    /// are the counters of the run.
    pub fn lost_after(&self, seen: &ClientStatistics) -> Option<Trouble> {
        let (kind, _) = seen.troubles.iter().max_by_key(|(_, (samples, _))| *samples)?;
        let has_ended = matches!(kind, Kind::Closed | Kind::Cut);
        if !has_ended && !matches!(kind, Kind::Connect | Kind::Resolve) {
            return None;
        }
        let before = self.client.statistics();
        let lost = self.client.reach().err()?;
        // Without requests, no new connection may be needed: only one that was refused since the run began
        // shows that no server is left.
        let since = self.client.statistics().since(&before);
        let is_refused = [seen, &since].iter().any(|counts| !counts.refused_connects.is_empty());
        (!has_ended || is_refused).then_some(lost)
    }

    /// Returns the model that a sample names; `None` if it is that of the system.
    pub fn model_of(&self, sample: SampleIndex) -> Option<String> {
        let Answers::Text { workload, .. } = &self.answers else { return None };
        let model = workload.prompts.get(sample as usize)?.members.get("model")?;
        model.as_str().map(str::to_owned)
    }

    /// Returns the accounts of the answers to the samples of a tenant's record of the last run; empty
    /// if answers are not text.
    pub fn ledger(&self, tenant: u8, record: &Record) -> Vec<Option<Entry>> {
        measured_entries(record, self.client.ledger(tenant, record.played()))
    }

    /// Returns how late each request of a tenant was written to a socket, ns, in ascending order,
    /// without requests that were never written. A request that waited for `max-concurrency=N` was
    /// due when it could be sent.
    pub fn lateness(&self, tenant: u8, record: &Record) -> Vec<Nanos> {
        let mut late: Vec<Nanos> = self.sent_late(tenant, record).into_iter().flatten().collect();
        late.sort_unstable();
        late
    }

    /// Returns when each request of a tenant's record was written to a socket, ns since the start of
    /// the record; 0 if it was not.
    pub fn sent(&self, tenant: u8, record: &Record) -> Vec<Nanos> {
        measured_stamps(record, self.client.accepted(tenant, record.played()))
    }

    /// Returns when the requests of a tenant's record were on the wire.
    pub fn wire_times(&self, tenant: u8, record: &Record) -> WireTimes {
        let retries = self.client.retry_times(tenant, record.played());
        let retries = measured_retries(record, retries);
        WireTimes { sent: self.sent(tenant, record), retries }
    }

    /// Returns how often the request of each sample of a tenant's record was sent again.
    pub fn retries(&self, tenant: u8, record: &Record) -> Vec<u64> {
        measured(record, self.client.retries(tenant, record.played()))
    }

    /// Returns how long each sample of a tenant's record waited for its retries, ns.
    pub fn retry_waits(&self, tenant: u8, record: &Record) -> Vec<Nanos> {
        measured(record, self.client.retry_waits(tenant, record.played()))
    }

    /// Returns the lateness of [`Remote::lateness`] by sample; `None` if the request was never
    /// written.
    pub fn sent_late(&self, tenant: u8, record: &Record) -> Vec<Option<Nanos>> {
        let each = record.samples_per_query.max(1);
        let accepted = self.sent(tenant, record).into_iter();
        let held = measured_stamps(record, self.client.held(tenant, record.played()));
        // The turn of a session may have to wait for the answer before it.
        let turns = record.sessions.as_ref().map_or(&[][..], |played| &played.ready_at[..]);
        let late = accepted.enumerate().map(|(sample, at)| {
            let ready = turns.get(sample).copied().unwrap_or(0);
            let due = || record.scheduled(sample / each).max(held[sample]).max(ready);
            (at != 0).then(|| at.saturating_sub(due()))
        });
        late.collect()
    }
}

/// Returns the values of the samples of a record, from those of all samples that were played.
pub fn measured<T: Copy>(record: &Record, all: Vec<T>) -> Vec<T> {
    if record.excluded.is_none() {
        return all;
    }
    let samples = 0..record.completed_at.len();
    samples.filter_map(|sample| all.get(record.number_in_run(sample) as usize).copied()).collect()
}

/// Returns times of the samples of a record, since its start, from those of all samples that were
/// played; 0 stays 0.
pub fn measured_stamps(record: &Record, all: Vec<Nanos>) -> Vec<Nanos> {
    let since = since_start(record);
    measured(record, all).into_iter().map(since).collect()
}

/// Returns times of the retries of the samples of a record, since its start, from those of all samples
/// that were played.
pub fn measured_retries(record: &Record, all: Vec<RetryTimes>) -> Vec<RetryTimes> {
    let since = since_start(record);
    let shifted = |times: RetryTimes| RetryTimes {
        first_failed: since(times.first_failed),
        last_failed: since(times.last_failed),
        last_sent: since(times.last_sent),
    };
    measured(record, all).into_iter().map(shifted).collect()
}

/// Returns the conversion of times of a run to times since the start of a record; 0 stays 0.
fn since_start(record: &Record) -> impl Fn(Nanos) -> Nanos + use<> {
    let ramp = record.ramp();
    move |at| if at == 0 { 0 } else { at.saturating_sub(ramp).max(1) }
}

/// Returns the accounts of the samples of a record, from those of all samples that were played.
pub fn measured_entries(record: &Record, all: Vec<Option<Entry>>) -> Vec<Option<Entry>> {
    let ramp = record.ramp();
    let since = |entry: Entry| Entry { ended_at: entry.ended_at.saturating_sub(ramp), ..entry };
    measured(record, all).into_iter().map(|entry| entry.map(since)).collect()
}
