//! Where checks come from: `dyno check --explain` and `--why-not-official`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use dyno_experiment::Failure;
use dyno_loadgen::settings::similar;
use dyno_results::units::counted;
use dyno_rules::OneFileChecker;
use dyno_submission::check::causes::Errors;
use dyno_submission::check::{CheckReport, Outcome, Program, Provenance, catalogue};
use dyno_submission::power;

use super::safe;

/// Returns where a check comes from, and what each program makes of it.
///
/// # Errors
/// There is no such check.
pub fn text(id: &str) -> Result<String, Failure> {
    let check = catalogue::ALL.iter().find(|check| check.id == id);
    let title = check.map(|check| check.title);
    let title = title.or_else(|| power::CHECKS.iter().find(|(known, _)| *known == id).map(|c| c.1));
    let (Some(title), Some(provenance)) = (title, Provenance::of_check(id)) else {
        let ids = catalogue::ALL.iter().map(|check| check.id);
        let near = similar(id, ids.chain(power::CHECKS.iter().map(|(id, _)| *id)));
        let failure = Failure::usage(format!("unknown check `{id}`"));
        return Err(match near {
            Some(near) => failure.hint(format!("use --explain {near}")),
            None => failure.hint("docs/reference/checks.md lists all checks"),
        });
    };
    let mut text = format!("{id}: {title}\n");
    match provenance {
        Provenance::Cited { source, since, warns_before, until } => {
            let before = if warns_before { "; a warning before" } else { "" };
            let until = until.map(|until| format!(" to {until}; a warning after"));
            let until = until.unwrap_or_default();
            let _ = writeln!(text, "source: {source}");
            let _ = writeln!(text, "applies from round {since}{before}{until}");
        }
        Provenance::Own => {
            text += "source: Dyno; no rule and no official program requires it\n";
            text += "severity with --forensic: error, otherwise warning\n";
        }
    }
    if let Some((line, since)) = OneFileChecker::source(id) {
        let _ = writeln!(text, "official single-file checker: from {since} (line {line})");
    }
    if let Some(check) = check {
        let grave = |program| check.severity(program).map_or("-", |severity| severity.name());
        let _ = writeln!(
            text,
            "severity: rules {}, mono {}, modular {}",
            grave(Program::Strict),
            grave(Program::Mono),
            grave(Program::Modular)
        );
        let _ = writeln!(text, "fix: {}", check.mend);
    }
    Ok(text)
}

/// Returns the results that the rules reject and the official checker of the round accepts, by check
/// and with the source of each.
pub fn beyond(checked: &CheckReport, official: &CheckReport) -> String {
    let errors = Errors::new(checked);
    let is_rejected = |outcome: &Outcome| *outcome == Outcome::Invalid;
    let is_accepted = |path| matches!(official.results.get(path), Some(Outcome::Valid { .. }));
    // An error about a system concerns each of its results, and is listed once.
    let mut by_check: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut count = 0;
    for (path, _) in checked.results.iter().filter(|(path, o)| is_rejected(o) && is_accepted(*path))
    {
        count += 1;
        for finding in errors.about(path) {
            let found = safe(&format!("{}: {}", finding.path.display(), finding.message));
            by_check.entry(finding.check).or_default().insert(found);
        }
    }
    let rejected = counted(count, "result is", "results are");
    let mut text = format!("{rejected} rejected that the official checker accepts\n");
    for (check, found) in by_check {
        let source = Provenance::of_check(check).and_then(Provenance::source);
        let _ = writeln!(text, "{check}: {}", source.unwrap_or("Dyno"));
        for one in found {
            let _ = writeln!(text, "  {one}");
        }
    }
    text.push('\n');
    text
}
