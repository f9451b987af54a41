//! Results of a tuning job, for terminals.

use dyno_experiment::tune::{
    Provenance, ScenarioReport, evaluated, margin_verdict, metric_text, objective_text, remarks,
};
use dyno_number::network::Network;
use dyno_number::tune::{TuneAnswer, TuneOutcome};
use dyno_results::summary::DISCLAIMER;
use dyno_results::{VERSION, units};

use super::{Alignment, Frame};

/// Most layers on a terminal.
const MOST_LAYERS: usize = 12;

/// Returns a box that fits a screen.
pub fn summary(
    network: &Network,
    outcome: &TuneOutcome,
    provenance: Option<&Provenance>,
    scenario: Option<&ScenarioReport>,
    folder: &str,
) -> String {
    let name = if network.name.is_empty() { "network" } else { &network.name };
    let mut frame = Frame::new(&format!("dyno {VERSION}, tune {name}"), DISCLAIMER);
    match &outcome.answer {
        Some(answer) => {
            layers(&mut frame, network, answer);
            frame.rule();
            size(&mut frame, network, outcome, answer);
            accuracy(&mut frame, network, outcome, answer);
        }
        None => frame.line("There is no answer.", 0),
    }
    if let Some(report) = scenario {
        frame.rule();
        mix(&mut frame, report);
        frame.rule();
    }
    frame.line(&evaluated(outcome), 2);
    for line in remarks(network, outcome, provenance) {
        frame.line(&line, 2);
    }
    let answer = if outcome.answer.is_some() { "opt_conf.txt, " } else { "" };
    frame.line(&format!("{folder}: {answer}tune.json, report.html, journal.jsonl"), 2);
    frame.finish()
}

fn layers(frame: &mut Frame, network: &Network, answer: &TuneAnswer) {
    let formats = answer.assignment.formats();
    let head = ["layer", "weights", "values", "activations", "values"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    for (at, layer) in network.layers.iter().enumerate().take(MOST_LAYERS) {
        let format = |at: usize, size: u64| match size {
            0 => "-".to_owned(),
            _ => formats[at].to_string(),
        };
        rows.push(vec![
            layer.name.clone(),
            format(at, layer.weight_size),
            units::count(layer.weight_size),
            format(network.layers.len() + at, layer.activation_size),
            units::count(layer.activation_size),
        ]);
    }
    use Alignment::{Left, Right};
    frame.table(&[Left, Left, Right, Left, Right], &rows);
    if network.layers.len() > MOST_LAYERS {
        let more = network.layers.len() - MOST_LAYERS;
        frame.line(&format!("and {more} further layers in opt_conf.txt"), 0);
    }
}

fn size(frame: &mut Frame, network: &Network, outcome: &TuneOutcome, answer: &TuneAnswer) {
    let ratio = outcome.base_objective / answer.objective;
    let found = objective_text(network, answer.objective);
    let line = if let Some(speedup) = outcome.speedup {
        // The answer is the fastest of many, so that its latency in the search was partly luck.
        let base = units::count(rounded(outcome.base_objective));
        let ratio = times(speedup.median);
        format!("{ratio} than FLOAT 32, measured in turn; {found} instead of {base} in the search")
    } else if network.objective.text(answer.objective).is_some() {
        let base = objective_text(network, outcome.base_objective);
        format!("{found} instead of {base} in FLOAT 32: {ratio:.2} times as good")
    } else {
        let base = units::count(rounded(outcome.base_objective));
        format!("{found} instead of {base}: {}", times(ratio)).replace("  ", " ")
    };
    frame.line(&line, 2);
}

/// Returns how much less an objective is, in words.
fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio.is_finite() && ratio > 1.0 => format!("{ratio:.2} times less"),
        // An expression may be 0 or less for few bits.
        ratio if ratio.is_infinite() || ratio < 0.0 => "less".to_owned(),
        _ => "no less".to_owned(),
    }
}

/// Appends the configurations in a scenario.
fn mix(frame: &mut Frame, report: &ScenarioReport) {
    let has_requests = report.rows.iter().any(|row| !row.late.is_empty());
    let mut rows: Vec<Vec<String>> = vec![vec![
        "configuration".into(),
        "bits".into(),
        "STP".into(),
        "tuned".into(),
        "others".into(),
    ]];
    let more = if has_requests {
        ["late", "others", "accuracy"].as_slice()
    } else {
        &["accuracy", "95 %"]
    };
    rows[0].extend(more.iter().map(|head| (*head).to_owned()));
    for row in &report.rows {
        let accuracy = row.accuracy.map_or("-".to_owned(), |accuracy| format!("{accuracy:.4}"));
        let others: f64 = row.rates.iter().skip(1).sum();
        let mut cells = vec![
            row.configuration.clone(),
            row.bits.map_or("-".to_owned(), |bits| units::count(rounded(bits))),
            format!("{:.3}", row.stp),
            format!("{:.3}", row.rates[0]),
            format!("{others:.3}"),
        ];
        if has_requests {
            let most = row.late.iter().skip(1).fold(0.0_f64, |most, late| most.max(*late));
            cells.extend([row.late[0], most].map(|late| format!("{:.1} %", 100.0 * late)));
            cells.push(accuracy);
        } else {
            let range = |[low, high]: [f64; 2]| format!("{low:.3} to {high:.3}");
            cells.extend([accuracy, row.interval.map_or("-".to_owned(), range)]);
        }
        rows.push(cells);
    }
    let mut alignments = vec![Alignment::Right; rows[0].len()];
    alignments[0] = Alignment::Left;
    frame.table(&alignments, &rows);
    let ScenarioReport { networks, npu, mapping, scheduler, sentence, .. } = report;
    frame.line(
        &format!("{} on {npu} ({mapping}), {scheduler}: {sentence}", networks.join(" + ")),
        2,
    );
}

fn accuracy(frame: &mut Frame, network: &Network, outcome: &TuneOutcome, answer: &TuneAnswer) {
    if let Some(baseline) = outcome.baselines[answer.subset as usize] {
        frame.line(
            &format!(
                "{} {} on the {} set; FLOAT 32 has {}, the limit is {:.5}",
                network.metric.name,
                metric_text(answer.accuracy),
                answer.subset,
                metric_text(baseline.accuracy),
                baseline.threshold
            ),
            2,
        );
    }
    if let Some(confirmation) = &outcome.confirmation {
        frame.line(&margin_verdict(network, confirmation), 2);
    } else if let (Some(accuracy), Some(baseline)) = (outcome.confirmed, outcome.baselines[2]) {
        let is_kept = network.metric.keeps(accuracy, baseline.threshold);
        let verdict = if is_kept { "confirmed" } else { "NOT CONFIRMED" };
        frame.line(
            &format!(
                "{verdict}: {} {} on the confirmation set; FLOAT 32 has {}, the limit is {:.5}",
                network.metric.name,
                metric_text(accuracy),
                metric_text(baseline.accuracy),
                baseline.threshold
            ),
            2,
        );
    }
}

fn rounded(value: f64) -> u64 {
    value.max(0.0).round() as u64
}
