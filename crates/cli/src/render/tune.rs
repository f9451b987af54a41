//! Results of a tuning job, for terminals.

use dyno_experiment::tune::{Provenance, margin_verdict, remarks};
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
        None => frame.line("No configuration was evaluated: there is no answer.", 0),
    }
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
    let unit = network.objective.unit();
    let count = |value: f64| units::count(rounded(value));
    let ratio = outcome.base_objective / answer.objective;
    let (found, base) = (count(answer.objective), count(outcome.base_objective));
    frame
        .line(&format!("{found} {unit} instead of {base}: {}", times(ratio)).replace("  ", " "), 2);
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

fn accuracy(frame: &mut Frame, network: &Network, outcome: &TuneOutcome, answer: &TuneAnswer) {
    if let Some(baseline) = outcome.baselines[answer.subset as usize] {
        frame.line(
            &format!(
                "{} {} on the {} set; FLOAT 32 has {}, the limit is {:.5}",
                network.metric.name,
                answer.accuracy,
                answer.subset,
                baseline.accuracy,
                baseline.threshold
            ),
            2,
        );
    }
    if let Some(confirmation) = &outcome.confirmation {
        frame.line(&margin_verdict(network, confirmation), 2);
    } else if let (Some(accuracy), Some(baseline)) = (outcome.confirmed, outcome.baselines[2]) {
        let verdict = if accuracy >= baseline.threshold { "confirmed" } else { "NOT CONFIRMED" };
        frame.line(
            &format!(
                "{verdict}: accuracy {accuracy} on the confirmation set; FLOAT 32 has {}, the limit \
                 is {:.5}",
                baseline.accuracy, baseline.threshold
            ),
            2,
        );
    }
}

fn rounded(value: f64) -> u64 {
    value.max(0.0).round() as u64
}
