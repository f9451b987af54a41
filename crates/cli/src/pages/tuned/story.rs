//! The steps of a search: its parts, the changes that each accepted, and every step with its reasons.

use std::fmt::Write as _;

use dyno_number::Network;
use dyno_number::tune::{Phase, Step, TuneOutcome};

use dyno_report::page::{Tone, badge};
use dyno_report::words::{self, escaped};
use dyno_results::units;

/// Consecutive steps of one part of the search.
struct Part<'a> {
    title: &'static str,
    what: &'static str,
    /// The steps with their numbers.
    steps: Vec<(usize, &'a Step)>,
}

/// Returns title and description of the part that a phase belongs to.
fn part_of(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Coarse => (
            "Coarse search",
            "All objects have one width. It is halved until the accuracy misses the limit, and then bisected. \
             EXP with one bit less is tried once.",
        ),
        Phase::Bias | Phase::Width | Phase::Type => (
            "Fine-tuning",
            "The weights of a layer, or activations, lose one bit: the change that saves most \
             relative to the accuracy that it loses. Biases (a smaller range with finer steps) \
             and types (FIXED or EXP) regain accuracy, so that more widths can be reduced.",
        ),
        Phase::Recovery => (
            "Recovery",
            "The formats that pass on the small set must also pass on the full one. If they fail, bits and \
             ranges are restored until they pass.",
        ),
        Phase::Search => {
            ("Search", "A search other than the tuner's own, with the same evaluator.")
        }
        Phase::Confirmation => (
            "Confirmation",
            "Configurations on samples that the search has not seen, compared with FLOAT 32 sample by sample.",
        ),
    }
}

fn parts(steps: &[Step]) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let (title, what) = part_of(step.phase);
        let goes_on = parts.last().is_some_and(|part| {
            part.title == title && part.steps.iter().all(|(_, other)| other.subset == step.subset)
        });
        if !goes_on {
            parts.push(Part { title, what, steps: Vec::new() });
        }
        parts.last_mut().expect("one was pushed").steps.push((at + 1, step));
    }
    parts
}

/// Most candidates on a page; tune.json has all.
const MOST_ROWS: usize = 3_000;

/// Appends the steps.
pub fn section(html: &mut String, network: &Network, outcome: &TuneOutcome) {
    if outcome.steps.is_empty() {
        return;
    }
    html.push_str("<section class=\"card\"><h2>Steps of the search</h2>");
    let mut rows = 0;
    for (number, part) in parts(&outcome.steps).iter().enumerate() {
        let set = part.steps[0].1.subset;
        let _ = write!(
            html,
            "<h3>{}. {}, {set} set</h3><p class=\"note\">{}</p>",
            number + 1,
            part.title,
            part.what
        );
        accepted(html, network, part);
        all(html, network, part, &mut rows);
    }
    html.push_str("</section>\n");
}

/// Appends the changes that a part accepted.
fn accepted(html: &mut String, network: &Network, part: &Part<'_>) {
    let candidates = || part.steps.iter().flat_map(|(_, step)| &step.candidates);
    let taken: Vec<_> = candidates().filter(|candidate| candidate.is_accepted).collect();
    let tried = words::counted(candidates().count() as u64, "candidate", "candidates");
    if taken.is_empty() {
        let _ = write!(html, "<p>{tried}, none accepted.</p>");
        return;
    }
    let _ = write!(html, "<p>{tried}, {} accepted:</p>", taken.len());
    table(html, "accepted", "why", taken.len());
    for candidate in taken {
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"n\" data-label=\"objective\">{}</td>\
             <td class=\"n\" data-label=\"accuracy\">{}</td><td class=\"say\" data-label=\"why\">{}</td></tr>",
            escaped(&candidate.change),
            escaped(&size(network, candidate.objective)),
            candidate.accuracy,
            escaped(&candidate.why)
        );
    }
    html.push_str("</tbody></table></div>");
}

fn table(html: &mut String, first: &str, last: &str, rows: usize) {
    let _ = writeln!(
        html,
        "<div class=\"{}\" tabindex=\"0\"><table class=\"stack told\"><thead><tr><th scope=\"col\">{first}</th>\
         <th scope=\"col\" class=\"n\">objective</th><th scope=\"col\" class=\"n\">accuracy</th>\
         <th scope=\"col\">{last}</th></tr></thead><tbody>",
        dyno_report::page::scroll(rows)
    );
}

fn size(network: &Network, objective: f64) -> String {
    let count = || units::count(objective.max(0.0).round() as u64);
    network.objective.text(objective).unwrap_or_else(count)
}

/// Appends every step with every candidate.
fn all(html: &mut String, network: &Network, part: &Part<'_>, rows: &mut usize) {
    let steps = words::counted(part.steps.len() as u64, "step", "steps");
    let _ = write!(html, "<details><summary>{steps} with all candidates</summary>");
    for (at, (number, step)) in part.steps.iter().enumerate() {
        *rows += 1 + step.candidates.len();
        if *rows > MOST_ROWS {
            let left = (part.steps.len() - at) as u64;
            let left = words::counted(left, "further step is", "further steps are");
            let _ = write!(html, "<p class=\"note\">{left} in tune.json.</p>");
            break;
        }
        one(html, network, *number, step);
    }
    html.push_str("</details>");
}

fn one(html: &mut String, network: &Network, number: usize, step: &Step) {
    let phase = match step.phase {
        Phase::Coarse => "one width for all",
        Phase::Bias => "biases",
        Phase::Width => "widths",
        Phase::Type => "types",
        Phase::Recovery => "recovery",
        Phase::Search => "search",
        Phase::Confirmation => "confirmation",
    };
    let is_taken = step.candidates.iter().any(|candidate| candidate.is_accepted);
    let sign = if is_taken { badge("taken", Tone::Good) } else { String::new() };
    let _ = write!(
        html,
        "<p class=\"step\"><b>Step {number}, {phase}.</b> {} {sign}</p>",
        escaped(&capital(&step.question))
    );
    if step.candidates.is_empty() {
        return;
    }
    table(html, "change", "accepted, reason", step.candidates.len());
    for candidate in &step.candidates {
        let most = if candidate.is_bound { "≤ " } else { "" };
        let yes = if candidate.is_accepted { "<b class=\"good\">yes</b>, " } else { "no, " };
        let note = candidate.note.as_deref().map(|note| format!("; {note}")).unwrap_or_default();
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"n\" data-label=\"objective\">{}</td>\
             <td class=\"n\" data-label=\"accuracy\">{most}{}</td>\
             <td class=\"say\" data-label=\"accepted\">{yes}{}{}</td></tr>",
            escaped(&candidate.change),
            escaped(&size(network, candidate.objective)),
            candidate.accuracy,
            escaped(&candidate.why),
            escaped(&note)
        );
    }
    html.push_str("</tbody></table></div>");
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    first + letters.as_str()
}
