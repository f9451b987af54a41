//! Failed samples: counts by kind, messages of the server, and advice.

use std::collections::BTreeMap;

use dyno_loadgen::record::Failure;
use dyno_net::trouble::Kind;
use dyno_results::summary::Cause;
use dyno_results::units::{count, plural_ending};

use crate::advice::{explained, kind_name};

/// Failures that a client counted during a test: for each kind the number of samples, and the
/// message of the first.
pub type Troubles = BTreeMap<Kind, (u64, String)>;

/// The failed samples of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// Number of all failed samples.
    pub samples: u64,
    /// One entry per kind, the most frequent first.
    kinds: Vec<FailureGroup>,
}

/// Failed samples of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FailureGroup {
    samples: u64,
    name: String,
    /// Message of the server for the first one.
    words: Option<String>,
    /// Whether a lower load may prevent it.
    is_overload: bool,
    /// Whether the client caused it.
    is_by_client: bool,
    /// Advice.
    advice: &'static str,
}

impl Failures {
    /// Returns the failed samples of a record. If the client's counts do not match the record, only
    /// the reasons of the record are known.
    pub fn from_samples(failed: &[(u64, Failure)], troubles: &Troubles) -> Self {
        let mut by_reason: BTreeMap<Failure, u64> = BTreeMap::new();
        for (_, failure) in failed {
            *by_reason.entry(*failure).or_default() += 1;
        }
        let samples = failed.len() as u64;
        let told: u64 = troubles.values().map(|(samples, _)| *samples).sum();
        let mut kinds: Vec<FailureGroup> = if told == samples {
            troubles
                .iter()
                .map(|(kind, (samples, words))| by_kind(*kind, *samples, words))
                .collect()
        } else {
            // The client counts failures of all tenants together.
            by_reason.iter().map(|(why, n)| by_failure(*why, *n, troubles)).collect()
        };
        kinds.retain(|kind| kind.samples > 0);
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.samples));
        Self { samples, kinds }
    }

    /// Adds the message of a system in this process for the first failed sample. It is left out if
    /// samples failed in several ways, because it may belong to any of them.
    pub fn with_reason(mut self, reason: Option<&str>) -> Self {
        if let (Some(reason), [only]) = (reason, &mut self.kinds[..])
            && only.words.is_none()
        {
            only.words = Some(reason.to_owned());
            (only.is_overload, only.advice) = (false, "Correct the sample or the model.");
        }
        self
    }

    /// Returns whether a lower load may prevent all failures.
    pub fn are_overload(&self) -> bool {
        self.kinds.iter().all(|kind| kind.is_overload)
    }

    /// Returns whether a lower load may prevent the most frequent failures.
    pub fn are_mostly_overload(&self) -> bool {
        self.kinds.first().is_some_and(|kind| kind.is_overload)
    }

    /// Returns what caused most failures.
    pub fn cause(&self) -> Cause {
        let by_client = self.kinds.iter().filter(|kind| kind.is_by_client);
        let by_client: u64 = by_client.map(|kind| kind.samples).sum();
        if by_client * 2 > self.samples { Cause::Client } else { Cause::System }
    }

    /// Returns each kind with its count and the server's message, such as `4 not authorized, the
    /// first: HTTP status 401`.
    pub fn by_kind(&self) -> String {
        let show = |kind: &FailureGroup| {
            let words = kind.words.as_ref().map(|words| format!(", the first: {words}"));
            format!("{} {}{}", count(kind.samples), kind.name, words.unwrap_or_default())
        };
        self.kinds.iter().map(show).collect::<Vec<_>>().join("; ")
    }

    /// Returns the advice without repetitions, for the most frequent kinds first.
    pub fn advice(&self) -> String {
        let mut said: Vec<&str> = Vec::new();
        for kind in &self.kinds {
            if !said.contains(&kind.advice) {
                said.push(kind.advice);
            }
        }
        said.join(" ")
    }
}

fn by_kind(kind: Kind, samples: u64, words: &str) -> FailureGroup {
    let (name, advice) = explained(kind, words);
    let is_countable =
        matches!(kind, Kind::Request | Kind::Server | Kind::Malformed | Kind::Mismatch)
            && name == kind_name(kind);
    let ending = if is_countable { plural_ending(samples) } else { "" };
    FailureGroup {
        samples,
        name: format!("{name}{ending}"),
        words: (!words.is_empty()).then(|| words.to_owned()),
        is_overload: matches!(kind, Kind::Refused | Kind::TimedOut | Kind::Memory),
        is_by_client: kind == Kind::Memory,
        advice,
    }
}

/// Advice for incomplete answers.
const NOT_WHOLE: &str = "Check the server's log for the reason of incomplete answers; \
     accept-answers=CLASS counts a class of them as success.";

/// Returns the group of samples with a failure of the record, with the message of the first
/// matching trouble.
fn by_failure(failure: Failure, samples: u64, troubles: &Troubles) -> FailureGroup {
    let words = troubles.iter().find(|(kind, _)| kind.failure() == failure);
    if let Some((kind, (_, words))) = words {
        return by_kind(*kind, samples, words);
    }
    let (name, is_overload, advice) = match failure {
        Failure::Rejected => ("refused", true, "Lower the load, or raise the limit of the system."),
        Failure::TimedOut => ("timed out", true, "Lower the load, or raise the time limit."),
        Failure::Disconnected => ("lost their connection", false, "Check the log of the system."),
        Failure::Empty => ("empty answers", false, NOT_WHOLE),
        Failure::Cut => ("cut answers", false, NOT_WHOLE),
        Failure::Aborted => ("aborted answers", false, NOT_WHOLE),
        Failure::Filtered => ("filtered answers", false, NOT_WHOLE),
        Failure::Short => ("short answers", false, NOT_WHOLE),
        _ => ("answered with an error", false, "Check the log of the system."),
    };
    FailureGroup {
        samples,
        name: name.into(),
        words: None,
        is_overload,
        is_by_client: false,
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(why: &[Failure]) -> Vec<(u64, Failure)> {
        why.iter().enumerate().map(|(at, why)| (at as u64, *why)).collect()
    }

    fn check(kind: Kind, words: &str, name: &str, advice: &str, is_overload: bool) {
        let troubles = Troubles::from([(kind, (2, words.to_owned()))]);
        let found = Failures::from_samples(&failed(&[kind.failure(); 2]), &troubles);
        let told = format!("2 {name}, the first: {words}");
        assert_eq!((found.by_kind(), found.are_overload()), (told, is_overload));
        assert!(found.advice().contains(advice), "{}", found.advice());
    }

    #[test]
    fn advice_follows_the_kind_of_failure() {
        let denied = "HTTP status 401: Incorrect API key";
        check(Kind::Request, denied, "not authorized", "token-env=NAME", false);
        check(Kind::Request, "HTTP status 404", "not found", "model=NAME", false);
        check(Kind::Request, "HTTP status 400: bad", "wrong requests", "server's message", false);
        let long = "HTTP status 400: This model's maximum context length is 64 tokens";
        check(Kind::Request, long, "wrong requests", "Shorten prompts", false);
        check(Kind::Refused, "HTTP status 429", "refused", "Lower the load", true);
        let recycled = "the server ended the connection without processing the request";
        check(Kind::Refused, recycled, "refused", "retries=N", true);
        check(Kind::TimedOut, "no answer", "timed out", "timeout=TIME", true);
        check(Kind::Connect, "nobody listens", "no connection", "Start the server", false);
        check(Kind::Empty, "no output", "empty", "accept-answers=empty", false);
        check(Kind::Server, "HTTP status 500: boom", "server errors", "server's log", false);
        check(Kind::Memory, "too long", "beyond the client's memory", "shorter answers", true);
    }

    #[test]
    fn a_client_without_memory_caused_the_failures_and_others_did_not() {
        let found = |beyond: u64, errors: u64| {
            let count = |n| (n, String::new());
            let troubles =
                Troubles::from([(Kind::Memory, count(beyond)), (Kind::Server, count(errors))]);
            let all: Vec<_> = (0..beyond + errors).map(|at| (at, Failure::Internal)).collect();
            Failures::from_samples(&all, &troubles).cause()
        };
        assert_eq!([found(2, 1), found(9, 0)], [Cause::Client; 2]);
        assert_eq!([found(1, 1), found(0, 3)], [Cause::System; 2]);
    }

    #[test]
    fn the_most_frequent_kind_comes_first() {
        let troubles = Troubles::from([
            (Kind::Closed, (1, "broke off".to_owned())),
            (Kind::Refused, (2, "full".to_owned())),
        ]);
        let why = [Failure::Rejected, Failure::Rejected, Failure::Disconnected];
        let found = Failures::from_samples(&failed(&why), &troubles);
        assert_eq!(found.by_kind(), "2 refused, the first: full; 1 closed, the first: broke off");
        assert!(!found.are_overload() && found.are_mostly_overload());
    }

    #[test]
    fn counts_of_another_tenant_are_left_out_and_words_are_kept() {
        let troubles = Troubles::from([(Kind::Refused, (9, "full".to_owned()))]);
        let found = Failures::from_samples(&failed(&[Failure::Rejected]), &troubles);
        assert_eq!(found.by_kind(), "1 refused, the first: full");
        let alone = Failures::from_samples(&failed(&[Failure::Internal]), &Troubles::new());
        assert_eq!(alone.by_kind(), "1 answered with an error");
    }

    #[test]
    fn a_system_in_this_process_gives_the_reason_of_its_first_failure() {
        let none = Troubles::new();
        let of = |why: &[Failure]| {
            Failures::from_samples(&failed(why), &none)
                .with_reason(Some("index 99 is out of range"))
        };
        let found = of(&[Failure::Internal; 2]);
        let told = "2 answered with an error, the first: index 99 is out of range";
        assert_eq!(
            (found.by_kind(), found.advice()),
            (told.into(), "Correct the sample or the model.".into())
        );
        assert!(!of(&[Failure::Rejected]).are_overload());
        let two = of(&[Failure::Internal, Failure::Rejected]).by_kind();
        assert!(!two.contains("index 99"), "{two}");
    }
}
