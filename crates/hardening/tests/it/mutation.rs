//! Whether the oracle can fail: it must notice records and reports that are altered on purpose.

use dyno_hardening::oracle::{RunReport, Scenario};
use dyno_hardening::simulate::case::{Case, Simplification};
use dyno_hardening::simulate::findings_of;
use dyno_hardening::simulate::play::{Client, SimulatedRun, play, report};
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::record::Record;

/// Returns the report of the run after `alter`; `None` if there is nothing to alter.
fn after_record(
    played: &SimulatedRun,
    alter: impl Fn(&mut Record) -> Option<()>,
) -> Option<RunReport> {
    let mut run = played.run.clone();
    alter(&mut run.record)?;
    Some(report(&run))
}

fn after_report(
    played: &SimulatedRun,
    alter: impl Fn(&mut RunReport) -> Option<()>,
) -> Option<RunReport> {
    let mut reported = report(&played.run);
    alter(&mut reported)?;
    Some(reported)
}

/// Returns the first answered sample.
fn answered(record: &Record) -> Option<usize> {
    let failed = |at: usize| record.failed.iter().any(|(id, _)| *id == at as u64);
    (0..record.completed_at.len()).find(|&at| record.completed_at[at] != 0 && !failed(at))
}

/// Whether each condition of the verdict is decided by the rules alone.
fn is_plain(reported: &RunReport) -> bool {
    reported.unknown_completions + reported.failed_samples + reported.lost_samples == 0
        && reported.query_count > 0
}

type Mutation = (&'static str, fn(&SimulatedRun) -> Option<RunReport>);

const MUTATIONS: [Mutation; 14] = [
    ("one latency is longer", |played| {
        after_record(played, |record| {
            let at = answered(record)?;
            let query_samples = record.samples_per_query;
            // The mean of the scenario's latencies changes by 1 ns or more.
            let first = at / query_samples * query_samples;
            let slowest = (first..first + query_samples).max_by_key(|&s| record.completed_at[s])?;
            let is_whole = |s: usize| record.completed_at[s] != 0;
            if !(first..first + query_samples).all(is_whole) || !record.failed.is_empty() {
                return None;
            }
            record.completed_at[slowest] += record.completed_at.len() as u64;
            Some(())
        })
    }),
    ("a lost sample counts as answered", |played| {
        after_record(played, |record| {
            let lost = record.completed_at.iter().position(|&at| at == 0)?;
            record.completed_at[lost] = record.issued_at[lost / record.samples_per_query] + 1;
            Some(())
        })
    }),
    ("an answer is forgotten", |played| {
        after_record(played, |record| {
            let at = answered(record)?;
            record.completed_at[at] = 0;
            Some(())
        })
    }),
    ("a duplicate is not counted", |played| {
        after_record(played, |record| {
            record.misuse.duplicate = record.misuse.duplicate.checked_sub(1)?;
            Some(())
        })
    }),
    ("an unknown completion is not counted", |played| {
        after_record(played, |record| {
            record.misuse.unknown = record.misuse.unknown.checked_sub(1)?;
            Some(())
        })
    }),
    ("a failure counts as an answer", |played| {
        after_record(played, |record| record.failed.pop().map(|_| ()))
    }),
    ("latency counts from the issue", |played| {
        after_record(played, |record| {
            let late = record.issued_at.iter().zip(&record.scheduled_at).map(|(at, due)| at - due);
            let is_noticeable = late.sum::<u64>() > record.issued_at.len() as u64;
            if !is_noticeable || record.missing() > 0 || !record.failed.is_empty() {
                return None;
            }
            record.scheduled_at.clone_from(&record.issued_at);
            Some(())
        })
    }),
    ("a query is not recorded", |played| {
        after_record(played, |record| {
            record.issued_at.pop()?;
            record.completed_at.truncate(record.issued_at.len() * record.samples_per_query);
            Some(())
        })
    }),
    ("the verdict is reversed", |played| {
        after_report(played, |reported| {
            is_plain(reported).then(|| reported.is_valid = !reported.is_valid)
        })
    }),
    ("a run with lost samples is VALID", |played| {
        after_report(played, |reported| {
            (reported.lost_samples > 0).then(|| reported.is_valid = true)
        })
    }),
    ("the minimum duration is reversed", |played| {
        after_report(played, |reported| {
            let is_exact = played.observed.queries.iter().all(|q| q.scheduled_ns == q.issued_ns);
            (is_plain(reported) && is_exact)
                .then(|| reported.min_duration_met = !reported.min_duration_met)
        })
    }),
    ("early stopping is reversed", |played| {
        after_report(played, |reported| {
            let met = reported.early_stopping_met.filter(|_| is_plain(reported))?;
            reported.early_stopping_met = Some(!met);
            Some(())
        })
    }),
    ("a percentile is the next higher one", |played| {
        after_report(played, |reported| {
            let lower = reported.percentiles_ns.windows(2).position(|two| two[0].1 != two[1].1)?;
            reported.percentiles_ns[lower].1 = reported.percentiles_ns[lower + 1].1;
            Some(())
        })
    }),
    ("the rate counts failed samples", |played| {
        let is_offline = played.settings.scenario == Scenario::Offline;
        after_report(played, |reported| {
            let metrics = Metrics::from_record(&played.run.record, &played.run.plan);
            let failed = metrics.failed.total();
            if !is_offline || failed == 0 || reported.lost_samples > 0 || metrics.sample_count == 0
            {
                return None;
            }
            let all = (metrics.sample_count + failed) as f64 / metrics.sample_count as f64;
            reported.result = reported.result.map(|rate| rate * all);
            Some(())
        })
    }),
];

#[test]
fn every_altered_outcome_is_noticed() {
    const CASES: u64 = 4_000;
    let (mut applied, mut missed) = ([0; MUTATIONS.len()], Vec::new());
    for index in 0..CASES {
        let case = Case::draw(77, index, &Simplification::default());
        let client = if case.has_faulty_client() { Client::Late } else { Client::Prompt };
        let Some(played) = play(&case, client) else { continue };
        assert_eq!(findings_of(&played, &report(&played.run)), [], "run {index}");
        for (number, (name, mutation)) in MUTATIONS.iter().enumerate() {
            let Some(reported) = mutation(&played) else { continue };
            applied[number] += 1;
            if findings_of(&played, &reported).is_empty() {
                missed.push(format!("{index}: {name}"));
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
    for ((name, _), applied) in MUTATIONS.iter().zip(applied) {
        assert!(applied >= 20, "{name}: applied {applied} times");
    }
}
