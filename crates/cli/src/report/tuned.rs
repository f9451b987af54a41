//! The page of a tuner: the answer, what there was to choose from, and every step with its reasons.

use std::fmt::Write as _;

use dyno_number::Network;
use dyno_number::tune::{Answer, End, Outcome, Phase, Point, Step, Subset};

use super::page::{self, Masthead, Tone, badge};
use super::plot::{self, Across, Axis, Chart, Format, Ink, Shape};
use super::words::{self, escaped};
use crate::render;

/// The page. `remarks` are sentences for below the answer.
pub fn html(network: &Network, outcome: &Outcome, remarks: &[String]) -> String {
    let mut body = String::new();
    answer(&mut body, network, outcome, remarks);
    charts(&mut body, outcome);
    steps(&mut body, outcome);
    let name = if network.name.is_empty() { "network" } else { &network.name };
    let title = format!("Number formats of {name}");
    let verdict = verdict(outcome);
    let [small, full, _] = outcome.evaluations;
    let facts = vec![
        format!("objective <b>{}</b>", escaped(&network.objective.to_string())),
        format!("platform <b>{}</b>", escaped(&network.platform.name)),
        format!("may lose <b>{}</b> of the accuracy", words::share(network.error_margin)),
        words::counted(small + full, "evaluation", "evaluations"),
    ];
    let masthead = Masthead { name: &title, verdict: Some((verdict.0, verdict.1)), facts };
    page::document(&title, &masthead, &body)
}

fn verdict(outcome: &Outcome) -> (&'static str, Tone) {
    let confirmed = outcome.confirmed.zip(outcome.baselines[2]);
    match (&outcome.end, confirmed) {
        (End::Stopped(_), _) => ("NOT DONE", Tone::Bad),
        (End::Complete, Some((accuracy, of))) if accuracy < of.threshold => {
            ("NOT CONFIRMED", Tone::Bad)
        }
        (End::Complete, Some(_)) => ("CONFIRMED", Tone::Good),
        (End::Complete, None) => ("DONE", Tone::Good),
    }
}

fn answer(html: &mut String, network: &Network, outcome: &Outcome, remarks: &[String]) {
    html.push_str("<section class=\"card\"><h2>The answer</h2>");
    if let Some(answer) = &outcome.answer {
        let unit = network.objective.unit();
        let count = |value: f64| render::count(value.max(0.0).round() as u64);
        let _ = write!(
            html,
            "<p class=\"headline\"><span class=\"number\">{}</span> <span class=\"unit\">{unit}</span></p>\
             <p class=\"meaning\">{:.2} times less than the {} of FLOAT 32, with accuracy {} on the {} \
             set.</p>",
            count(answer.objective),
            outcome.base_objective / answer.objective,
            count(outcome.base_objective),
            answer.accuracy,
            answer.subset,
        );
        formats(html, network, answer);
    }
    for remark in remarks {
        let mut letters = remark.chars();
        let first: String = letters.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
        let _ =
            write!(html, "<p class=\"note\">{}{}.</p>", escaped(&first), escaped(letters.as_str()));
    }
    html.push_str("</section>\n");
}

fn formats(html: &mut String, network: &Network, answer: &Answer) {
    let _ = write!(
        html,
        "<div class=\"{}\" tabindex=\"0\"><table class=\"counts\"><thead><tr><th scope=\"col\">layer</th>",
        page::scroll(network.layers.len())
    );
    for head in ["weights", "activations"] {
        let _ = write!(
            html,
            "<th scope=\"col\">{head}</th><th scope=\"col\" class=\"n\">bits</th>\
             <th scope=\"col\" class=\"n\">values</th>"
        );
    }
    html.push_str("</tr></thead><tbody>\n");
    let all = answer.assignment.formats();
    for (at, layer) in network.layers.iter().enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(&layer.name));
        let sides = [(at, layer.weight_size), (network.layers.len() + at, layer.activation_size)];
        for (at, size) in sides {
            let format = all[at];
            // The bar behind the bits is what is left of 32.
            let _ = write!(
                html,
                "<td>{}</td><td class=\"n\" style=\"--share:{:.0}%\"><span>{}</span></td>\
                 <td class=\"n\">{}</td>",
                escaped(&format.to_string()),
                100.0 * f64::from(format.bits()) / 32.0,
                format.bits(),
                render::count(size)
            );
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>");
}

/// Points of the set that decides.
fn deciding(outcome: &Outcome) -> (Subset, Vec<&Point>) {
    let of = |set| outcome.points.iter().filter(|point| point.subset == set).collect::<Vec<_>>();
    let full = of(Subset::Full);
    // FLOAT 32 and the answer of the first pass are no plot.
    if full.len() > 2 { (Subset::Full, full) } else { (Subset::Small, of(Subset::Small)) }
}

fn charts(html: &mut String, outcome: &Outcome) {
    let (set, points) = deciding(outcome);
    if points.is_empty() {
        return;
    }
    let has_cycles = points.iter().all(|point| point.cycles.is_some());
    html.push_str(
        "<section class=\"card\"><h2>What there was to choose from</h2><div class=\"charts\">",
    );
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
    html.push_str("</div></section>\n");
}

fn pareto(
    outcome: &Outcome,
    set: Subset,
    points: &[&Point],
    title: &str,
    x: Axis,
    of: impl Fn(&Point) -> f64,
) -> String {
    let threshold = outcome.baselines[set as usize].map(|baseline| baseline.threshold);
    let accuracies = || points.iter().map(|point| point.accuracy);
    let most = accuracies().fold(f64::MIN, f64::max);
    // What fails by far tells nothing of what is near the limit.
    let least = threshold.map_or(0.0, |threshold| threshold - 4.0 * (most - threshold).max(0.01));
    let least = accuracies().fold(most, f64::min).max(least);
    let air = (most - least).max(0.001) * 0.06;
    let y = Axis::between("accuracy", Format::Share, least - air, (most + air).max(least));
    let shown = |is_wanted: &dyn Fn(&Point) -> bool| -> Vec<plot::Point> {
        let wanted = points.iter().filter(|point| point.accuracy >= least && is_wanted(point));
        let dot = |point: &&Point| {
            let tip = format!("{}\naccuracy {}", point.assignment, point.accuracy);
            plot::Point { tip, ..plot::Point::new(of(point), point.accuracy) }
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
        .with("front", Ink::B, Shape::Dots, front)
        .with("others", Ink::Quiet, Shape::Dots, shown(&|point| !point.is_on_front && !is_answer(point)))
        .with("answer", Ink::Good, Shape::Dots, shown(&is_answer));
    let name =
        threshold.map(|threshold| format!("must be kept: {threshold:.5}")).unwrap_or_default();
    plot::figure(&chart.rule(Across::Y, threshold, &name, Ink::Bad))
}

/// Steps and their candidates that a page has; who wants more has tune.json.
const MOST_ROWS: usize = 3_000;

fn steps(html: &mut String, outcome: &Outcome) {
    html.push_str("<section class=\"card\"><h2>What was done, and why</h2>");
    let mut shown = 0;
    for (number, step) in outcome.steps.iter().enumerate() {
        shown += 1 + step.candidates.len();
        if shown > MOST_ROWS {
            let left = (outcome.steps.len() - number) as u64;
            let left = words::counted(left, "further step is", "further steps are");
            let _ = write!(html, "<p class=\"note\">{left} in tune.json.</p>");
            break;
        }
        one(html, number + 1, step);
    }
    html.push_str("</section>\n");
}

fn one(html: &mut String, number: usize, step: &Step) {
    let phase = match step.phase {
        Phase::Coarse => "Coarse",
        Phase::Bias => "Biases",
        Phase::Width => "Widths",
        Phase::Type => "Types",
        Phase::Recovery => "Recovery",
        Phase::Search => "Search",
        Phase::Confirmation => "Confirmation",
    };
    let is_taken = step.candidates.iter().any(|candidate| candidate.is_accepted);
    let sign = if is_taken { badge("taken", Tone::Good) } else { String::new() };
    let _ = write!(
        html,
        "<h3>{number}. {phase}, {} set {sign}</h3><p class=\"note\">{} {}.</p>",
        step.subset,
        escaped(&step.question),
        escaped(&step.decision)
    );
    if step.candidates.is_empty() {
        return;
    }
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"counts\"><thead><tr>\
         <th scope=\"col\">change</th><th scope=\"col\" class=\"n\">objective</th>\
         <th scope=\"col\" class=\"n\">accuracy</th><th scope=\"col\">accepted, and why or why not</th>\
         </tr></thead><tbody>\n",
    );
    for candidate in &step.candidates {
        let most = if candidate.is_bound { "≤ " } else { "" };
        let yes = if candidate.is_accepted { "<b class=\"good\">yes</b>, " } else { "no, " };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{most}{}</td>\
             <td>{yes}{}</td></tr>",
            escaped(&candidate.change),
            render::count(candidate.objective.max(0.0).round() as u64),
            candidate.accuracy,
            escaped(&candidate.why)
        );
    }
    html.push_str("</tbody></table></div>");
}
