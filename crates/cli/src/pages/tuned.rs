//! The page of a tuning job: the answer, the candidates, the steps of the search, the samples, and
//! next steps.

mod charts;
mod samples;
mod scenario;
mod story;

use std::fmt::Write as _;

use dyno_number::Network;
use dyno_number::tune::{MarginVerdict, Stop, Subset, TuneAnswer, TuneEnd, TuneOutcome};
use serde_json::Value;

use dyno_experiment::tune::{
    Provenance, ScenarioReport, margin_verdict, metric_text, objective_text,
};
use dyno_report::page::{self, Masthead, Tone};
use dyno_report::words::{self, escaped};
use dyno_results::units;

/// The contents of the page.
pub struct Tuning<'a> {
    /// The tuned network.
    pub network: &'a Network,
    /// Outcome of the search.
    pub outcome: &'a TuneOutcome,
    /// Description of the job from its journal.
    pub about: &'a Value,
    /// Samples of closed mode.
    pub provenance: Option<&'a Provenance>,
    /// Sentences below the answer.
    pub remarks: &'a [String],
    /// The descriptor, as typed on the command line.
    pub descriptor: &'a str,
    /// The folder, as typed on the command line.
    pub folder: &'a str,
    /// Configurations in the scenario of the objective.
    pub scenario: Option<&'a ScenarioReport>,
}

/// Returns the page.
pub fn html(tuning: &Tuning<'_>) -> String {
    let Tuning { network, outcome, .. } = *tuning;
    let mut body = String::new();
    answer(&mut body, tuning);
    if let Some(report) = tuning.scenario {
        scenario::section(&mut body, report);
    }
    charts::section(&mut body, network, outcome);
    story::section(&mut body, network, outcome);
    samples::section(&mut body, tuning);
    let name = if network.name.is_empty() { "network" } else { &network.name };
    let title = format!("Number formats of {name}");
    let verdict = verdict(network, outcome);
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

/// Returns whether the answer keeps its limit on the confirmation set; `None` if it was not evaluated
/// there.
fn is_kept(network: &Network, outcome: &TuneOutcome) -> Option<bool> {
    let (found, baseline) = outcome.confirmed.zip(outcome.baselines[2])?;
    Some(network.metric.keeps(found, baseline.threshold))
}

fn verdict(network: &Network, outcome: &TuneOutcome) -> (&'static str, Tone) {
    if let (TuneEnd::Complete, Some(confirmation)) = (&outcome.end, &outcome.confirmation) {
        let tone = match confirmation.verdict {
            MarginVerdict::Valid => Tone::Good,
            MarginVerdict::Invalid | MarginVerdict::Undecided => Tone::Bad,
        };
        return (confirmation.verdict.word(), tone);
    }
    match (&outcome.end, is_kept(network, outcome)) {
        (TuneEnd::Stopped(_), _) => ("NOT DONE", Tone::Bad),
        (TuneEnd::Complete, Some(false)) => ("NOT CONFIRMED", Tone::Bad),
        (TuneEnd::Complete, Some(true)) => ("CONFIRMED", Tone::Good),
        (TuneEnd::Complete, None) => ("DONE", Tone::Good),
    }
}

fn answer(html: &mut String, tuning: &Tuning<'_>) {
    let Tuning { network, outcome, remarks, .. } = *tuning;
    let tone = verdict(network, outcome).1.class();
    let _ = write!(html, "<section class=\"card verdict {tone}\"><div><h2>Result</h2>");
    match &outcome.answer {
        Some(answer) => headline(html, network, outcome, answer),
        None => html.push_str("<p class=\"lead\">There is no answer.</p>"),
    }
    html.push_str("</div><div><h3>Next steps</h3><ul>");
    for advice in next(tuning) {
        let _ = write!(html, "<li>{advice}</li>");
    }
    html.push_str("</ul></div></section>\n");
    html.push_str("<section class=\"card\"><h2>Formats by layer</h2>");
    if let Some(answer) = &outcome.answer {
        formats(html, network, answer);
    }
    for remark in remarks {
        let _ = write!(html, "<p class=\"note\">{}</p>", escaped(&sentence(remark)));
    }
    html.push_str("</section>\n");
}

fn headline(html: &mut String, network: &Network, outcome: &TuneOutcome, answer: &TuneAnswer) {
    let measured = outcome.speedup.map(|speedup| speedup.median);
    let ratio = measured.unwrap_or(outcome.base_objective / answer.objective);
    let (number, word) = match network.objective.text(answer.objective) {
        Some(_) => (format!("{ratio:.2}"), "better"),
        None => (format!("{ratio:.1}"), "less"),
    };
    let base = outcome.base_objective;
    let count = || units::count(base.max(0.0).round() as u64);
    let _ = write!(
        html,
        "<p class=\"headline\"><span class=\"number\">{number}×</span> <span class=\"unit\">{word}</span> \
         <span class=\"name\">than FLOAT 32</span></p><p class=\"meaning\">{} instead of {}{}.</p>",
        escaped(&objective_text(network, answer.objective)),
        escaped(&network.objective.text(base).unwrap_or_else(count)),
        if measured.is_some() { " in the search" } else { "" },
    );
    if let Some(confirmation) = &outcome.confirmation {
        let sentence = escaped(&margin_verdict(network, confirmation));
        let _ = write!(html, "<p class=\"meaning\">{sentence}.</p>");
    }
    let judged = [
        (outcome.baselines[answer.subset as usize], answer.accuracy, answer.subset),
        (outcome.baselines[2], outcome.confirmed.unwrap_or(f64::NAN), Subset::Confirmation),
    ];
    html.push_str("<ul class=\"conditions\">");
    for (baseline, accuracy, set) in judged {
        let Some(baseline) = baseline.filter(|_| accuracy.is_finite()) else { continue };
        let keeps = network.metric.keeps(accuracy, baseline.threshold);
        let (class, sign) = if keeps { ("good", "✓") } else { ("bad", "✕") };
        let _ = write!(
            html,
            "<li class=\"{class}\"><span>{sign}</span> {} <b>{}</b> on the {set} set: the limit is \
             {:.5}, and FLOAT 32 has {}</li>",
            escaped(&network.metric.name),
            metric_text(accuracy),
            baseline.threshold,
            metric_text(baseline.accuracy)
        );
        if set == answer.subset {
            meter(html, accuracy, baseline.threshold, baseline.accuracy);
        }
    }
    html.push_str("</ul>");
}

/// Appends a meter of the accuracy margin: 0 at the left, all of it at the right.
fn meter(html: &mut String, accuracy: f64, threshold: f64, base: f64) {
    let room = base - threshold;
    if room == 0.0 {
        return;
    }
    let left = ((accuracy - threshold) / room).clamp(0.0, 1.0);
    let _ = write!(
        html,
        "<li>{} of the margin is left <span class=\"meter\"><b style=\"width:{:.0}%\"></b></span></li>",
        words::share((left * 100.0).round() / 100.0),
        100.0 * left
    );
}

/// Returns the next steps as sentences in HTML.
fn next(tuning: &Tuning<'_>) -> Vec<String> {
    let Tuning { network, outcome, descriptor, folder, .. } = *tuning;
    let (descriptor, folder) = (escaped(descriptor), escaped(folder));
    let run = format!("dyno tune run {descriptor}");
    let mut advice = Vec::new();
    match &outcome.end {
        TuneEnd::Complete => advice.push(
            "Take <code>opt_conf.txt</code>, beside this page: a Number configuration file with the formats \
             below."
                .into(),
        ),
        TuneEnd::Stopped(Stop::Failed(why)) => advice.push(format!(
            "It failed: {}. Fix the cause, and continue with <code>{run} --out {folder} \
             --resume</code>, which keeps all evaluations.",
            escaped(why)
        )),
        TuneEnd::Stopped(_) => advice.push(format!(
            "Continue with <code>{run} --out {folder} --resume</code>, which keeps all evaluations."
        )),
    }
    let is_failed = outcome.confirmation.is_none() && is_kept(network, outcome) == Some(false);
    if let Some(confirmation) = &outcome.confirmation
        && confirmation.verdict != MarginVerdict::Valid
    {
        advice.push(
            "The margin is not proven. More samples, or a larger <code>--margin</code>, can prove it; \
             <code>--confirm none</code> leaves the proof out."
                .into(),
        );
    }
    if is_failed {
        advice.push(
            "Do not submit it: it fails on samples that it was not chosen by. A calibration set of more \
             samples, or a smaller <code>--margin</code>, leaves more room."
                .into(),
        );
    }
    let answer = outcome.answer.as_ref();
    if answer.is_some_and(|answer| answer.subset == Subset::Small) {
        advice.push("Ask all samples before you trust it: this accuracy is that of a part.".into());
    }
    if network.error_margin > 0.01 && !is_failed {
        advice.push(format!(
            "See what 99 % would cost: <code>{run} --target 99 --out {folder}-99</code>."
        ));
    }
    advice.push(format!(
        "See where bits matter: <code>dyno tune plot {descriptor} --formats {folder}/opt_conf.txt</code> \
         draws accuracy against width for each layer."
    ));
    if outcome.end == TuneEnd::Complete && network.groups().len() <= 4 {
        advice.push(format!(
            "See whether anything is smaller still: <code>{run} --algorithm exhaustive --out \
             {folder}-all</code> tries everything in the order of its size."
        ));
    }
    advice
}

/// Adds a capital and a full stop.
fn sentence(remark: &str) -> String {
    let mut letters = remark.chars();
    let first: String = letters.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn formats(html: &mut String, network: &Network, answer: &TuneAnswer) {
    let _ = write!(
        html,
        "<div class=\"{}\" tabindex=\"0\"><table class=\"counts stack\"><thead><tr><th scope=\"col\">layer</th>",
        page::scroll(network.layers.len())
    );
    for head in ["weights", "activations"] {
        let _ = write!(
            html,
            "<th scope=\"col\">{head}</th><th scope=\"col\" class=\"n\">bits</th>\
             <th scope=\"col\" class=\"n\">values</th>"
        );
    }
    html.push_str("<th scope=\"col\" class=\"n\">of FLOAT 32</th></tr></thead><tbody>\n");
    let all = answer.assignment.formats();
    for (at, layer) in network.layers.iter().enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(&layer.name));
        let sides = [
            ("weights", at, layer.weight_size),
            ("activations", network.layers.len() + at, layer.activation_size),
        ];
        let (mut bits, mut base_bits) = (0.0, 0.0);
        for (side, at, size) in sides {
            let format = all[at];
            bits += f64::from(format.bits()) * size as f64;
            base_bits += 32.0 * size as f64;
            // The bar behind the bits is the rest of 32.
            let _ = write!(
                html,
                "<td data-label=\"{side}\">{}</td>\
                 <td class=\"n\" data-label=\"bits\" style=\"--share:{:.0}%\"><span>{}</span></td>\
                 <td class=\"n\" data-label=\"values\">{}</td>",
                escaped(&format.to_string()),
                100.0 * f64::from(format.bits()) / 32.0,
                format.bits(),
                units::count(size)
            );
        }
        let share = if base_bits > 0.0 { 100.0 * bits / base_bits } else { 100.0 };
        let _ = writeln!(html, "<td class=\"n\" data-label=\"of FLOAT 32\">{share:.1} %</td></tr>");
    }
    html.push_str("</tbody></table></div>");
    html.push_str(
        "<p class=\"note\">I3(1) is FIXED of 3 bits with bias 1, E3(1) EXP, F16 FLOAT. Layers that are not here \
         stay FLOAT 32.</p>",
    );
}
