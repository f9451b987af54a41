//! Charts of a tuning job: the candidates by size and by order.

use dyno_number::Network;
use dyno_number::tune::{Candidate, Point, Subset, TuneOutcome};
use dyno_report::plot::{self, Axis, Chart, Format, Ink, RuleAxis, Shape};

/// Returns the points of the set that decides.
fn deciding(outcome: &TuneOutcome) -> (Subset, Vec<&Point>) {
    let points_of =
        |set| outcome.points.iter().filter(|point| point.subset == set).collect::<Vec<_>>();
    let full = points_of(Subset::Full);
    // FLOAT 32 and the answer of the first pass are too few points for a plot.
    if full.len() > 2 { (Subset::Full, full) } else { (Subset::Small, points_of(Subset::Small)) }
}

/// Appends size and cycles against accuracy, and the objective of each candidate in order.
pub fn section(html: &mut String, network: &Network, outcome: &TuneOutcome) {
    let (set, points) = deciding(outcome);
    if points.is_empty() {
        return;
    }
    let has_cycles = points.iter().all(|point| point.cycles.is_some());
    html.push_str("<section class=\"card\"><h2>Candidates</h2>");
    html.push_str(plot::HEADING);
    html.push_str("<div class=\"charts\">");
    let by_size =
        Axis::log("bits of weights and activations", Format::Count, points.iter().map(|p| p.bits));
    html.push_str(&pareto(outcome, set, &points, "Accuracy by size", by_size, |point| point.bits));
    if has_cycles {
        let cycles = |point: &Point| point.cycles.unwrap_or(0.0);
        let axis = Axis::log(
            "cycles of a bit-serial accelerator",
            Format::Count,
            points.iter().map(|p| cycles(p)),
        );
        html.push_str(&pareto(outcome, set, &points, "Accuracy by cycles", axis, cycles));
    }
    html.push_str(&way(network, outcome));
    html.push_str("</div></section>\n");
}

fn pareto(
    outcome: &TuneOutcome,
    set: Subset,
    points: &[&Point],
    title: &str,
    x: Axis,
    value: impl Fn(&Point) -> f64,
) -> String {
    let threshold = outcome.baselines[set as usize].map(|baseline| baseline.threshold);
    let accuracies = || points.iter().map(|point| point.accuracy);
    let most = accuracies().fold(f64::MIN, f64::max);
    // Points far below the limit would hide those near it; of errors, the limit is the largest.
    let is_error = outcome.baselines[set as usize]
        .is_some_and(|baseline| baseline.threshold > baseline.accuracy);
    let least = threshold.map_or(0.0, |threshold| threshold - 4.0 * (most - threshold).max(0.01));
    let limit = threshold.unwrap_or(most).min(most);
    let lowest = accuracies().fold(limit, f64::min);
    let least = if is_error { lowest } else { lowest.max(least) };
    let air = (most - least).max(0.001) * 0.06;
    let y = Axis::between("accuracy", Format::Share, least - air, (most + air).max(least));
    let shown = |is_wanted: &dyn Fn(&Point) -> bool| -> Vec<plot::Point> {
        let wanted = points.iter().filter(|point| point.accuracy >= least && is_wanted(point));
        let dot = |point: &&Point| {
            let note = point.note.as_ref().map(|note| format!("\n{note}")).unwrap_or_default();
            let tip = format!("{}\naccuracy {}{note}", point.assignment, point.accuracy);
            plot::Point { tip, ..plot::Point::new(value(point), point.accuracy) }
        };
        wanted.map(dot).collect()
    };
    let mut front = shown(&|point| point.is_on_front);
    front.sort_by(|a, b| a.x.total_cmp(&b.x));
    let is_answer = |point: &Point| {
        outcome.answer.as_ref().is_some_and(|answer| answer.assignment == point.assignment)
    };
    let chart = Chart::new(title, x, y)
        .note(format!(
            "Each dot is a configuration on the {set} set. Left is smaller, up is better; no other one beats \
             those of the front in size, accuracy and cycles together."
        ))
        .with("others", Ink::Quiet, Shape::Dots, shown(&|point| !point.is_on_front && !is_answer(point)))
        .with("front", Ink::B, Shape::Dots, front)
        .with("answer", Ink::Good, Shape::Dots, shown(&is_answer));
    let name =
        threshold.map(|threshold| format!("must be kept: {threshold:.5}")).unwrap_or_default();
    plot::figure(&chart.rule(RuleAxis::Y, threshold, &name, Ink::Bad))
}

/// Returns the chart of sizes in the order of evaluation.
fn way(network: &Network, outcome: &TuneOutcome) -> String {
    let candidates: Vec<&Candidate> =
        outcome.steps.iter().flat_map(|step| &step.candidates).take(MOST_DOTS).collect();
    let is_count = network.objective.text(outcome.base_objective).is_none();
    let scale = if is_count { 1.0 } else { outcome.base_objective };
    let size = |candidate: &Candidate| candidate.objective / scale;
    let sizes = || candidates.iter().map(|candidate| size(candidate));
    let x = Axis::linear(
        "candidates, in order",
        Format::Count,
        std::iter::once(candidates.len() as f64),
    );
    let y = if is_count {
        Axis::log("objective", Format::Count, sizes())
    } else {
        let name = format!("{}, relative to FLOAT 32", network.objective.unit());
        let least = sizes().fold(1.0, f64::min);
        let most = sizes().fold(1.0, f64::max);
        Axis::between(&name, Format::Share, 0.95 * least, 1.05 * most)
    };
    let dots = |is_accepted: bool| -> Vec<plot::Point> {
        let all = candidates.iter().enumerate();
        let wanted = all.filter(|(_, candidate)| candidate.is_accepted == is_accepted);
        let dot = |(at, candidate): (usize, &&Candidate)| {
            let tip = format!("{}\n{}", candidate.change, candidate.why);
            plot::Point { tip, ..plot::Point::new((at + 1) as f64, size(candidate)) }
        };
        wanted.map(dot).collect()
    };
    let chart = Chart::new("Objective by candidate", x, y)
        .note("Each dot is a candidate of a step below. Lower is smaller; what was accepted is where the next step begins.")
        .with("rejected", Ink::Quiet, Shape::Dots, dots(false))
        .with("accepted", Ink::Good, Shape::Dots, dots(true));
    plot::figure(&chart)
}

/// Most dots of the chart, which an exhaustive search exceeds.
const MOST_DOTS: usize = 2_000;
