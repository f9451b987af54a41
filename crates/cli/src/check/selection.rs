//! Terminal output of `dyno check --audit-candidates`.

use std::fmt::Write as _;

use dyno_submission::selection::{
    AUDITABLE, JudgedSubmission, SOURCE, STAGES, Selection, Standing,
};

use super::{WIDTH, safe};
use crate::render::wrap;

/// Returns the submissions by their standing, with the sentences of the rules, the draw, and the
/// number of results that do not count.
pub fn text(selection: &Selection, rejected: usize) -> String {
    let mut text = format!("Source of the quoted sentences: {SOURCE}\n");
    let all = &selection.submissions;
    section(&mut text, "Candidates", AUDITABLE, all, |one| match &one.standing {
        Standing::Candidate { reasons } => {
            let reasons = reasons.iter().map(|reason| quoted(&reason.why, reason.sentence));
            let exempting = one
                .exempting
                .iter()
                .map(|name| format!("would be exempt if {name} had been audited"));
            Some(reasons.chain(exempting).collect())
        }
        _ => None,
    });
    section(&mut text, "Exempt", "", all, |one| match &one.standing {
        Standing::Exempt(reason) => Some(vec![quoted(&reason.why, reason.sentence)]),
        _ => None,
    });
    section(&mut text, "Not auditable", AUDITABLE, all, |one| match &one.standing {
        Standing::NotAuditable { why } => Some(vec![why.clone()]),
        _ => None,
    });
    drawn(&mut text, selection);
    if rejected > 0 {
        let note = format!(
            "{rejected} result{} not valid, so a system without others is not listed; `dyno check` \
             without --audit-candidates shows why",
            if rejected == 1 { " is" } else { "s are" }
        );
        text.push('\n');
        lines(&mut text, &note, 0);
    }
    text
}

fn quoted(why: &str, sentence: &str) -> String {
    format!("{why}: \"{sentence}\"")
}

/// Appends the submissions for which `reasons` returns a list.
fn section(
    text: &mut String,
    title: &str,
    sentence: &str,
    all: &[JudgedSubmission],
    reasons: impl Fn(&JudgedSubmission) -> Option<Vec<String>>,
) {
    let chosen: Vec<(&JudgedSubmission, Vec<String>)> =
        all.iter().filter_map(|one| Some((one, reasons(one)?))).collect();
    if chosen.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}: {}", chosen.len());
    if !sentence.is_empty() {
        lines(text, &format!("\"{sentence}\""), 2);
    }
    for (one, reasons) in chosen {
        let _ = writeln!(text, "  {}", safe(&format!("{}/{}", one.submitter, one.system)));
        for reason in reasons {
            lines(text, &safe(&reason), 4);
        }
    }
}

fn lines(text: &mut String, content: &str, indent: usize) {
    for line in wrap(content, WIDTH - indent, 2) {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
}

fn drawn(text: &mut String, selection: &Selection) {
    let submitters = selection.submitters().len();
    let _ = writeln!(text, "\nDraw with seed {} (--audit-seed)", selection.seed);
    lines(text, &format!("\"{STAGES}\""), 2);
    match &selection.drawn {
        None => text.push_str("  no candidate\n"),
        Some((submitter, system)) => {
            let own = |one: &&JudgedSubmission| {
                one.submitter == *submitter && matches!(one.standing, Standing::Candidate { .. })
            };
            let systems = selection.submissions.iter().filter(own).count();
            let _ = writeln!(text, "  1 of {submitters} submitters: {}", safe(submitter));
            let _ = writeln!(text, "  1 of its {systems} candidates: {}", safe(system));
        }
    }
}
