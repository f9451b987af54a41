//! Results of a tuner for a terminal.

use dyno_number::Radix;
use dyno_number::network::Network;
use dyno_number::tune::{Stop, Subset, TuneAnswer, TuneEnd, TuneOutcome};
use dyno_results::units;

use super::Provenance;

/// Returns `opt_conf.txt`: the answer, with a description in comments.
pub fn best_file(network: &Network, answer: &TuneAnswer) -> String {
    let (unit, size) = (network.objective.unit(), units::count(rounded(answer.objective)));
    let mut text = format!(
        "# dyno tune{}: {size} {unit}, accuracy {} on the {} set\n",
        if network.name.is_empty() { String::new() } else { format!(" {}", network.name) },
        answer.accuracy,
        answer.subset
    );
    if answer.subset == Subset::Small {
        text += "# a part of the samples alone has been asked\n";
    }
    let radix = network.external.as_ref().map_or_else(Radix::default, |external| external.radix);
    let formats = answer.assignment.dictionary().to_text(radix);
    text + &formats.expect("a program was given it")
}

/// Returns remarks on the result.
pub fn remarks(
    network: &Network,
    outcome: &TuneOutcome,
    provenance: Option<&Provenance>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let [small, full, _] = outcome.evaluations;
    let recalled = match outcome.recalled {
        0 => String::new(),
        some => format!("; {some} of them were in the journal"),
    };
    lines.push(format!(
        "{} configurations were evaluated: {small} on the small set, {full} on the full one{recalled}",
        small + full
    ));
    if let Some([first, again]) = outcome.noise.filter(|[first, again]| first != again) {
        let difference = (first - again).abs();
        let allowed = first * network.error_margin;
        let weight =
            if difference > allowed / 2.0 { "; hardly any decision can be trusted" } else { "" };
        lines.push(format!(
            "not reproducible: FLOAT 32 had accuracy {first}, and then {again}; decisions by less than \
             {difference:.5} are chance{weight}"
        ));
    }
    if let Some(provenance) = provenance {
        let of = |at: usize| provenance.sets[at].samples.len();
        lines.push(format!(
            "chosen by calibration data alone: {} samples, then {} others; confirmed once, on {}",
            of(0),
            of(1),
            of(2)
        ));
    }
    if outcome.skipped > 0 {
        lines.push(format!(
            "{} lines of the journal do not read; their evaluations were made again",
            outcome.skipped
        ));
    }
    match &outcome.end {
        TuneEnd::Complete => {}
        TuneEnd::Stopped(Stop::Interrupted) => {
            lines.push("interrupted: this is the best so far; --resume goes on".into());
        }
        TuneEnd::Stopped(Stop::Limit) => {
            lines.push(
                "ended by --max-evaluations: this is the best so far; --resume goes on".into(),
            );
        }
        TuneEnd::Stopped(Stop::Failed(_)) => {
            lines.push("ended by a failure: this is the best so far; --resume goes on".into());
        }
    }
    lines
}

fn rounded(value: f64) -> u64 {
    value.max(0.0).round() as u64
}
