//! Compares the runs of a result with each other: they are of one system, one sample library and one
//! LoadGen, which is of the round or of the round before.

use std::iter;
use std::path::Path;

use crate::check::catalogue::{Check, LOG_RELEASE, LOG_RELEASE_OLD, LOG_SYSTEM};
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::facts::detail::DetailLog;
use crate::facts::{Facts, loadgen};
use crate::layout::DETAIL;
use dyno_rules::{Round, Version};

const RUN: &str = "performance/run_1";
const RELEASE: &str = "loadgen_version";
/// Names that the logs of a result and of its audits share.
const NAMES: [&str; 2] = ["sut_name", "qsl_name"];
/// Stands for the round of a log that may be of any.
const ANY_ROUND: Version = Version::new(u8::MAX, 0);

/// Checks the logs of a result and of its audits.
pub(super) fn check(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
    // Before v1.0, LoadGen wrote text.
    let Some(run) = facts.performance.as_ref().ok().filter(|log| !log.is_plain) else { return };
    let folder = place.entry.folder.path();
    check_release(place.round.version, run, &folder.join(RUN).join(DETAIL), issues);
    let accuracy = (folder.join("accuracy").join(DETAIL), &facts.accuracy);
    let audits = facts.audits.iter();
    let audits =
        audits.map(|audit| (audit.folder.path().join(RUN).join(DETAIL), &audit.performance));
    for (path, log) in iter::once(accuracy).chain(audits) {
        if let Ok(log) = log {
            compare(run, log, &path, issues);
        }
    }
}

fn compare(run: &DetailLog, log: &DetailLog, path: &Path, issues: &mut Issues) {
    let mut report = |check: &'static Check, key: &str| {
        let Some((wanted, found)) = run.text(key).zip(log.text(key)) else { return };
        if wanted != found {
            let at = Location::path(path).line(log.line_of(key));
            let message = format!("{key} is `{found}`, unlike that of the performance run");
            issues.add_expected(check, at, message, format!("`{wanted}`"));
        }
    };
    NAMES.into_iter().for_each(|key| report(&LOG_SYSTEM, key));
    // Submitters build LoadGen again from another commit of the same release.
    let release = |log| loadgen::version_of(log, ANY_ROUND);
    if release(run) != release(log) {
        report(&LOG_RELEASE, RELEASE);
    }
}

/// Checks that LoadGen is not older than that of the round before. No rule lists the releases of a
/// round, and many results of a round are from the last release of the round before.
fn check_release(round: Version, log: &DetailLog, path: &Path, issues: &mut Issues) {
    let release = loadgen::version_of(log, round);
    let rounds = Round::names().into_iter().filter_map(|name| name.parse::<Version>().ok());
    let Some(before) = rounds.filter(|one| *one < round).max() else { return };
    if release < before {
        let at = Location::path(path).line(log.line_of(RELEASE));
        let message = format!("the run is of LoadGen {}", log.text(RELEASE).unwrap_or_default());
        issues.add_expected(&LOG_RELEASE_OLD, at, message, format!("a release since {before}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Program;
    use crate::check::strict::tests::log;

    fn found(check: impl Fn(&mut Issues)) -> Vec<&'static str> {
        let mut issues = Issues::new(Program::Strict);
        check(&mut issues);
        issues.into_findings().into_iter().map(|finding| finding.check).collect()
    }

    /// Keys and values of a log, and the checks that it fails.
    type Other = (&'static [(&'static str, &'static str)], &'static [&'static str]);

    #[test]
    fn runs_of_a_result_have_one_system_one_library_and_one_loadgen() {
        let run = log(&[
            ("sut_name", "\"box\""),
            ("qsl_name", "\"images\""),
            ("loadgen_version", "\"5.1.0 @ abc\""),
        ]);
        let others: [Other; 6] = [
            (&[("sut_name", "\"box\""), ("qsl_name", "\"images\"")], &[]),
            (&[("sut_name", "\"another\"")], &["log.system"]),
            (&[("qsl_name", "\"texts\"")], &["log.system"]),
            (&[("loadgen_version", "\"5.0.25 @ def\"")], &["log.release"]),
            (&[("loadgen_version", "\"5.1.0 @ def\"")], &[]),
            // A log without the key is not compared.
            (&[("num_errors", "0")], &[]),
        ];
        for (pairs, expected) in others {
            let other = log(pairs);
            let checks = found(|issues| compare(&run, &other, Path::new("log"), issues));
            assert_eq!(checks, expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_release_is_of_the_round_or_of_the_round_before() {
        let cases: [(&str, Version, &[&str]); 5] = [
            ("\"2.0 @ abc\"", Version::new(3, 0), &["log.old_release"]),
            ("\"2.1 @ abc\"", Version::new(3, 0), &[]),
            ("\"3.0 @ abc\"", Version::new(3, 0), &[]),
            ("\"6.0.17 @ abc\"", Version::new(3, 0), &[]),
            ("\".5a1 @ abc\"", Version::new(1, 0), &[]),
        ];
        for (release, round, expected) in cases {
            let log = log(&[("loadgen_version", release)]);
            let checks = found(|issues| check_release(round, &log, Path::new("log"), issues));
            assert_eq!(checks, expected, "{release}");
        }
    }
}
