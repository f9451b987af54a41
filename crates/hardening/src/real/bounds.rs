//! What the observed times allow Dyno to record.

use std::collections::HashMap;

use super::{Call, RealRun, SentCompletion};
use crate::oracle::Finding;

/// Returns each part of the record that no order of the observed events explains.
#[must_use]
pub fn check(played: &RealRun) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |field, expected: String, reported: String, rule| {
        findings.push(Finding { field, expected, reported, rule });
    };
    let (run, record) = (&played.run, &played.run.record);
    let ended = run.finished_at.saturating_sub(run.started_at);
    let ids: Vec<u64> = played.calls.iter().flat_map(|c| c.samples.iter().map(|s| s.0)).collect();
    let indices = played.calls.iter().flat_map(|c| c.samples.iter().map(|s| s.1));
    if !indices.eq(record.indices.iter().map(|&index| u64::from(index))) {
        find(
            "indices",
            "those of the calls".into(),
            "others".into(),
            "a record holds what was issued",
        );
        return findings;
    }
    for issue in early_or_late_issues(played) {
        find(issue.field, issue.expected, issue.reported, issue.rule);
    }
    let mut sent: HashMap<u64, Vec<&SentCompletion>> = HashMap::new();
    played.sent.iter().for_each(|s| sent.entry(s.id).or_default().push(s));
    let (mut duplicates, mut most_duplicates) = (0, 0);
    for (sample, id) in ids.iter().enumerate() {
        let own = sent.remove(id).unwrap_or_default();
        let in_time = own.iter().filter(|s| s.after < ended).count() as u64;
        duplicates += in_time.saturating_sub(1);
        most_duplicates += (own.len() as u64).saturating_sub(1);
        let issued = record.issued_at[sample / record.samples_per_query.max(1)];
        let failed = record.failed.iter().any(|(sequence, _)| *sequence == sample as u64);
        let stamp = record.completed_at[sample];
        let explained = match stamp {
            0 => in_time == 0,
            at => own.iter().any(|s| explains(s, &own, at, failed, issued)),
        };
        if !explained {
            let reported =
                format!("sample {sample}: {stamp}, failed: {failed}, run ended at {ended}");
            find(
                "completed_at",
                format!("one of {own:?}"),
                reported,
                "the first completion counts",
            );
        }
    }
    let foreign = || sent.values().flatten();
    let known = foreign().filter(|s| s.after < ended).count() as u64;
    let misuse = record.misuse;
    let mut range = |field, low: u64, high: u64, got: u64| {
        if got < low || got > high {
            find(
                field,
                format!("{low}..={high}"),
                got.to_string(),
                "each wrong call is counted once",
            );
        }
    };
    range("duplicate", duplicates, most_duplicates, misuse.duplicate);
    range("unknown", known, foreign().count() as u64, misuse.unknown + misuse.stale);
    findings
}

/// Returns each query whose stamp of the issue does not lie between the calls before and after it.
fn early_or_late_issues(played: &RealRun) -> Vec<Finding> {
    let finding = |(call, query): (usize, usize)| {
        let (entered, issued) = (played.calls[call].at, played.run.record.issued_at[query]);
        let before = call.checked_sub(1).map_or(0, |before| played.calls[before].at);
        (issued > entered || issued < before).then(|| Finding {
            field: "issued_at",
            expected: format!("{before}..={entered}"),
            reported: issued.to_string(),
            rule: "stamped before the call",
        })
    };
    first_queries(played).filter_map(finding).collect()
}

/// Returns each call with the number of its first query.
fn first_queries(played: &RealRun) -> impl Iterator<Item = (usize, usize)> {
    let samples_per_query = played.run.record.samples_per_query.max(1);
    let mut next = 0;
    played.calls.iter().enumerate().map(move |(call, Call { samples, .. })| {
        let first = next;
        next += samples.len() / samples_per_query;
        (call, first)
    })
}

/// Returns whether a completion explains a stamp: the time fits, and no other one came before it.
fn explains(
    sent: &SentCompletion,
    all: &[&SentCompletion],
    stamp: u64,
    failed: bool,
    issued: u64,
) -> bool {
    let fits = match sent.stated {
        // The nearest possible time: not before the issue, and not after the call.
        Some(at) => {
            let [low, high] =
                [sent.before, sent.after].map(|now| at.clamp(1, now.max(1)).max(issued));
            (low..=high).contains(&stamp)
        }
        None => (sent.before.max(1)..=sent.after.max(1)).contains(&stamp),
    };
    let is_first = all.iter().all(|other| other.after >= sent.before);
    fits && is_first && sent.failed == failed
}
