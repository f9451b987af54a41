//! Observations of the clients of a server in a test, by this process or by all workers together.

use dyno_loadgen::backlog::Growth;
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Record;
use dyno_loadgen::run::TestLog;
use dyno_net::client::{ClientStatistics, NO_DESCRIPTOR};
use dyno_net::ledger::Entry;
use dyno_results::series::Timeline;
use dyno_results::summary::backlog::{self, LateTurns};
use dyno_results::summary::distributions::MetricDistribution;
use dyno_results::summary::{self, Cause, Observer, Reason, ReasonKind, State};
use dyno_results::units::{count, counted, duration};

use crate::gather::accelerator;
use crate::gather::client::{self, ShownRun, Sight};
use crate::gather::distributions::inter_token;
use crate::gather::observer::{self, JudgedPercentiles, Part, Reach};
use crate::gather::server::{self, ObservedRun, ServerFindings};
use crate::observe::Observation;
use crate::observe::servers::ServerObservation;
use crate::outcome::{Context, Outcome, Troubles};
use crate::requirement::JudgedRun;
use crate::system::System;
use crate::workers::{RemoteWorkers, WorkerReports};

/// Returns the failures that the client of a server counted since `before`.
pub(super) fn troubles(system: &System, before: Option<&ClientStatistics>) -> Troubles {
    let seen = match reported(system) {
        Some(reported) => reported.seen(),
        None => system.remote().zip(before).map(|(remote, before)| remote.seen().since(before)),
    };
    seen.map(|seen| seen.troubles).unwrap_or_default()
}

/// Makes a test UNDECIDED if its backlog still grew when one of its runs ended: at one rate that of the
/// requests (`judges_growth`), with users at an interval that of their turns. A smaller growth at one rate
/// becomes a note.
pub(super) fn judge_backlog(test: &mut summary::Test, runs: &[JudgedRun<'_>], judges_growth: bool) {
    if test.state != State::Complete {
        return;
    }
    let growth = |record: &Record| {
        let found = Growth::of_record(record).filter(Growth::is_found)?;
        Some(backlog::growth_reason(&found))
    };
    let find = |run: &JudgedRun<'_>| {
        let found = if judges_growth { growth(run.record) } else { None };
        let mut reason = found.or_else(|| LateTurns::find(run.record).map(|late| late.reason()))?;
        if let Some(name) = &run.name {
            reason.text = format!("In {name}: {}", reason.text);
        }
        Some(reason)
    };
    if let Some(reason) = runs.iter().find_map(find) {
        test.add_reason_after_failures(reason);
        test.settle();
    } else if judges_growth && let Some(shown) = runs.first() {
        let note = growth_note(test, shown.record);
        test.notes.extend(note);
    }
}

/// Returns a note on the growth of the queue in the run that is shown, with the rates of its figures.
fn growth_note(test: &summary::Test, record: &Record) -> Option<String> {
    // Turns of sessions are due after answers.
    let record = Some(record).filter(|record| record.sessions.is_none())?;
    let found = Growth::of_record(record).filter(Growth::is_likely)?;
    let rates = &test.metrics.as_ref()?.rates;
    let shown = rates.scheduled_samples_per_s.zip(rates.completed_samples_per_s);
    // The offered rate includes cancelled requests, which do not make the queue grow.
    let shown = shown.filter(|(offered, completed)| completed < offered && record.cancelled() == 0);
    let (offered, completed) = shown.unwrap_or((found.arrivals_per_s, found.answers_per_s));
    let note = backlog::growth_note(offered, completed);
    Some(match &test.tenant {
        Some(name) => format!("Tenant {name}: {note}"),
        None => note,
    })
}

/// Adds a note to a test whose verdict is that of the rules if its backlog still grew when one of its runs
/// ended.
pub(super) fn note_backlog(test: &mut summary::Test, runs: &[JudgedRun<'_>]) {
    if test.state != State::Complete {
        return;
    }
    let note = |run: &JudgedRun<'_>| {
        let found = Growth::of_record(run.record).filter(Growth::is_found)?;
        let sentence = backlog::growth_sentence(&found);
        Some(match &run.name {
            Some(name) => format!("In {name}: {sentence}"),
            None => sentence,
        })
    };
    test.notes.extend(runs.iter().find_map(note));
}

/// Returns the client's part of the summary of a test, which may show that its figures do not
/// count.
pub(super) fn seen_by_client(
    system: &System,
    before: &ClientStatistics,
    took: Nanos,
    logs: &[TestLog],
    outcomes: &mut [Outcome],
    context: Context<'_>,
) -> Option<summary::Client> {
    let remote = system.remote()?;
    let tenants: Vec<ShownRun<'_>> = logs
        .iter()
        .zip(outcomes.iter())
        .filter_map(|(log, outcome)| {
            let last = log.runs().last()?;
            let shown = log.result().unwrap_or(last);
            let is_last = std::ptr::eq(shown, last);
            Some(ShownRun { record: &shown.record, is_last, test: &outcome.summary })
        })
        .collect();
    let target = tenants.first().map_or(0.5, |run| run.test.plan.percentile);
    let show = |sight: Sight<'_>| Some((client::client(&sight, &tenants)?, sight.seen));
    let (mut client, seen) = match reported(system) {
        Some(reported) => show(Sight {
            seen: reported.seen().unwrap_or_default(),
            capacity: reported.capacity(),
            lateness: &|tenant, _| reported.lateness(tenant),
            workers: reported.workers(target),
            streams: remote.streams(),
        }),
        None => show(Sight {
            seen: remote.seen().since(before),
            capacity: took.saturating_mul(remote.threads.max(1) as u64),
            lateness: &|tenant, record| remote.lateness(tenant, record),
            workers: Vec::new(),
            streams: remote.streams(),
        }),
    }?;
    outcomes.iter_mut().for_each(|outcome| client.judge(&mut outcome.summary));
    // The waits of several tenants are counted together.
    if let ([only], Some(limit)) = (&mut *outcomes, remote.limit_in_flight()) {
        client.judge_limit(&mut only.summary, limit as u64);
    }
    if let Some(reason) = lost_server(&seen, remote.servers) {
        for outcome in &mut *outcomes {
            outcome.summary.add_reason_after_failures(reason.clone());
            outcome.summary.settle();
        }
    }
    if let Some(first) = outcomes.first_mut() {
        first.summary.notes.extend(tools_note(&seen));
        judge_tools(&mut first.summary, &seen);
        first.summary.notes.extend(models_notes(&seen));
    }
    if remote.has_choices() {
        client.inter_token_ns = None;
    }
    // The client distinguishes neither tenants nor runs.
    if let ([only], [log]) = (outcomes, logs)
        && log.runs().count() == 1
        && !remote.has_choices()
        && let Some(metrics) = &mut only.summary.metrics
        && let Some(found) = inter_token(&seen.gaps, context.percentiles)
    {
        let of_tokens = |of: &MetricDistribution| matches!(&of.metric[..], "ttft" | "tpot");
        let at = metrics.distributions.iter().take_while(|of| of_tokens(of)).count();
        metrics.distributions.insert(at, found);
    }
    Some(client)
}

/// Returns the reason for one of several servers that could not be reached during the run: the others
/// took its requests. The client is the cause if it had no descriptor for a connection.
fn lost_server(seen: &ClientStatistics, servers: usize) -> Option<Reason> {
    let (connections, words) = seen.refused_connects.values().max_by_key(|(count, _)| *count)?;
    if servers < 2 {
        return None;
    }
    let text = format!(
        "Not all of the {servers} servers could be reached during the run: {} failed, the first: \
         {words}. The other servers took these requests, so the figures do not describe all servers.",
        counted(*connections, "connection", "connections")
    );
    let is_of_client = words.contains(NO_DESCRIPTOR);
    let cause = if is_of_client { Cause::Client } else { Cause::System };
    Some(Reason::new(ReasonKind::Other, text).because_of(cause))
}

/// Returns a note on each model that answers name in place of the requested one.
fn models_notes(seen: &ClientStatistics) -> impl Iterator<Item = String> {
    let answers = seen.other_models.iter().flat_map(|(requested, names)| {
        names.iter().map(move |(answered, answers)| (requested, answered, *answers))
    });
    answers.map(|(requested, answered, answers)| {
        let answers = counted(answers, "answer names", "answers name");
        format!(
            "{answers} the model {answered:?}, but the requests name {requested:?}. Some servers \
             answer with a longer name of the same model; check that it is the same."
        )
    })
}

/// Returns a note on the tools that answered calls; `None` without any.
fn tools_note(seen: &ClientStatistics) -> Option<String> {
    let calls = seen.tool_calls;
    let mean = seen.tool_ns.checked_div(calls)?;
    let failed = match seen.failed_tool_calls {
        0 => String::new(),
        failed => {
            format!("; {} of them failed, and the reason was sent as the result", count(failed))
        }
    };
    Some(format!(
        "Tools of the client answered {} in {} on average{failed}. Their time is think time.",
        counted(calls, "call", "calls"),
        duration(mean.cast_signed())
    ))
}

/// Adds the calls that the client's tools got to the tasks of a test, and notes tasks without an answer. A
/// test whose tools all failed is not VALID.
fn judge_tools(test: &mut summary::Test, seen: &ClientStatistics) {
    let (calls, failed) = (seen.tool_calls, seen.failed_tool_calls);
    let sessions = test.metrics.as_mut().and_then(|metrics| metrics.sessions.as_mut());
    if let Some(tasks) = sessions.and_then(|sessions| sessions.tasks.as_mut()) {
        if calls > 0 {
            (tasks.calls_answered, tasks.calls_failed) = (Some(calls), Some(failed));
        }
        if tasks.at_limit > 0 {
            test.notes.push(format!(
                "{} of {} had no answer after {} requests (steps). The times and counts of tasks do not \
                 include them.",
                count(tasks.at_limit),
                counted(tasks.started, "task", "tasks"),
                count(tasks.max_steps)
            ));
        }
    }
    if calls > 0 && failed == calls {
        let answers = test.metrics.as_ref().map_or(0, |metrics| metrics.sample_count);
        let text = format!(
            "Every call of a tool failed in the client ({} among {}), so that the server got only \
             errors as results. Check the command of tools=, which reads a call as JSON from its \
             standard input.",
            counted(calls, "call", "calls"),
            counted(answers, "answer", "answers")
        );
        let reason = Reason::new(ReasonKind::Other, text).because_of(Cause::Client);
        test.add_reason_after_failures(reason);
        test.settle();
    }
}

/// Returns what delayed the client in the last run of a test, for this process or for each worker.
/// Judges the tests by it.
pub(super) fn observers(
    system: &System,
    observation: Option<Observation>,
    logs: &[TestLog],
    outcomes: &mut [Outcome],
) -> Vec<Observer> {
    if outcomes.iter().all(|outcome| outcome.summary.metrics.is_none()) {
        return Vec::new();
    }
    let mut observers = match (reported(system), observation) {
        (Some(reported), _) => reported.observers(),
        (None, Some(observation)) => {
            let runs = logs.iter().filter_map(|log| log.runs().last());
            let parts = runs.enumerate().map(|(at, run)| {
                let required = outcomes.get(at).map(|outcome| &outcome.summary.requirements[..]);
                let target = run.plan.load.percentile();
                let judged = JudgedPercentiles::from_test(target, required.unwrap_or_default());
                (&run.record, judged)
            });
            let parts: Vec<_> = parts.collect();
            vec![observer(system, observation, &parts)]
        }
        (None, None) => Vec::new(),
    };
    for observer in &mut observers {
        if let Some(first) = outcomes.first() {
            observer.scenario.clone_from(&first.summary.scenario);
            observer.mode.clone_from(&first.summary.mode);
        }
        let is_remote = system.remote().is_some();
        for (tenant, outcome) in outcomes.iter_mut().enumerate() {
            observer.judge(tenant, &mut outcome.summary, is_remote);
        }
    }
    observers
}

/// Returns the observer's part of the summary for a run. `records` are the tenants' records, each
/// with the percentiles that it is judged at.
pub fn observer<'r>(
    system: &System,
    observation: Observation,
    tenants: &[(&'r Record, JudgedPercentiles)],
) -> Observer {
    let remote = system.remote();
    let late_reads = remote.map(|remote| remote.late_reads(&observation.clock));
    let reach = match remote {
        None => Reach::InProcess,
        Some(_) if cfg!(target_os = "linux") => Reach::Network,
        Some(_) => Reach::NetworkUnstamped,
    };
    let part = |(tenant, (record, judged)): (u8, &(&'r Record, JudgedPercentiles))| {
        let record = *record;
        // All samples of an Offline query are due at once and wait for each other.
        let sent_late = remote.filter(|_| record.issued_at.len() > 1).map(|remote| {
            remote.sent_late(tenant, record).into_iter().map(Option::unwrap_or_default).collect()
        });
        let sent_late = sent_late.unwrap_or_default();
        let ledger = remote.map(|remote| remote.ledger(tenant, record));
        let joined = |entry: Option<Entry>| {
            entry.map(|entry| (entry.is_first_joined, entry.is_last_joined)).unwrap_or_default()
        };
        let joined = ledger.into_iter().flatten().map(joined).collect();
        Part { record, sent_late, joined, judged: judged.clone() }
    };
    let parts: Vec<Part<'_>> = (0..).zip(tenants).map(part).collect();
    observer::observer(observation, reach, &parts, &late_reads.unwrap_or_default())
}

/// Returns what the servers of a test showed of themselves; `None` without servers. Adds a note to the
/// first test if they counted other tokens.
pub(super) fn servers(
    system: &System,
    observation: Option<&ServerObservation>,
    began: Nanos,
    outcomes: &mut [Outcome],
) -> Option<ServerFindings> {
    let remote = system.remote()?;
    let tests: Vec<&summary::Test> = outcomes.iter().map(|outcome| &outcome.summary).collect();
    let run = ObservedRun { began, tests: &tests };
    let found = match observation {
        Some(observation) => server::findings(observation, run),
        None => server::unread(&remote.metrics, run),
    };
    if let Some(first) = outcomes.first_mut() {
        first.summary.notes.extend(found.notes.iter().cloned());
    }
    Some(found)
}

/// Returns the reports of the workers on the test; `None` without workers.
pub(super) fn reported(system: &System) -> Option<WorkerReports> {
    system.remote_workers.as_ref().and_then(RemoteWorkers::reported)
}

/// Returns the summary of simulated NPUs in a performance test. `tests` are the parts of the
/// tenants.
pub(super) fn accelerator(
    system: &System,
    tests: &[summary::Test],
) -> Option<(summary::Accelerator, Timeline)> {
    let npu = system.npu()?;
    let observed = npu.seen()?;
    tests.first()?.metrics.as_ref()?;
    let accelerator = accelerator::accelerator(&observed, npu.deployment(), tests)?;
    Some((accelerator, accelerator::timeline(&observed, npu.deployment())))
}

#[cfg(test)]
mod tests {
    use dyno_net::trouble::Kind;

    use super::*;

    #[test]
    fn a_server_is_no_cause_of_connections_for_which_the_client_has_no_descriptor() {
        let cause = |why: &str, servers: usize| {
            let words = format!("http://a cannot be reached: {why}");
            let refused_connects = [(Kind::Connect, (3, words))].into();
            let seen = ClientStatistics { refused_connects, ..ClientStatistics::default() };
            lost_server(&seen, servers).map(|reason| reason.cause)
        };
        assert_eq!(cause(NO_DESCRIPTOR, 2), Some(Some(Cause::Client)));
        assert_eq!(cause("refused", 2), Some(Some(Cause::System)));
        assert_eq!(cause("refused", 1), None);
    }
}
