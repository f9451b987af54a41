//! Data of `dyno tune plot`: accuracy by width, and distributions of weights with the codes of a
//! format.

use dyno_number::network::Direction;
use dyno_number::tune::{Evaluation, WidthTrial};
use dyno_number::{Dictionary, Format, Kind, Network};
use dyno_results::VERSION;
use serde::Serialize;

use super::document::Baseline;
use super::frontier::Frontier;

/// Version of the schema of `dyno tune plot --json`.
pub const PLOT_SCHEMA_VERSION: u32 = 1;

/// Curves of accuracy by width, and histograms of weights.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plot {
    /// Always `dyno.tune.plot`.
    pub schema: &'static str,
    /// Version of the schema of this document.
    pub schema_version: u32,
    /// Version of Dyno that wrote it.
    pub dyno_version: &'static str,
    /// The network's name.
    pub network: String,
    /// Set on which the accuracies were measured.
    pub set: String,
    /// FLOAT 32, and the minimum accuracy by the margin of the descriptor.
    pub baseline: Baseline,
    /// One for each object and type; those of all objects together first.
    pub curves: Vec<Curve>,
    /// One for each layer; none if a program evaluates, whose weights are unknown.
    pub histograms: Vec<Histogram>,
    /// Size against accuracy in a tuning job; null without one.
    pub frontier: Option<Frontier>,
}

/// Accuracies of one object, or of all, in one type.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// Object with this format, while all others are FLOAT 32; null for all objects together.
    pub object: Option<String>,
    /// `FIXED`, `EXP` or `FLOAT`.
    pub kind: &'static str,
    /// By width, narrowest first.
    pub points: Vec<Accuracy>,
}

/// An accuracy at a width.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accuracy {
    /// From 1 to 16.
    pub bits: u32,
    /// Accuracy on the set.
    pub accuracy: f64,
}

/// Histogram of the weights of a layer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// The layer's name.
    pub layer: String,
    /// The largest magnitude.
    pub max_abs: f64,
    /// Edges of the bins, one more than there are bins.
    pub edges: Vec<f64>,
    /// Weights in each bin.
    pub counts: Vec<u64>,
    /// The chosen format, if `--formats` has one.
    pub format: Option<String>,
    /// Its values within the bins, ascending; empty where it has more than 64.
    pub codes: Vec<f64>,
}

/// Bins of a histogram.
const BINS: usize = 61;
/// Maximum width of formats whose codes are drawn, bits: more cannot be distinguished.
const MOST_CODES: u32 = 6;

/// Returns the document from evaluations, one per width. A width that could not be evaluated has the
/// accuracy 0; it has no error, because an error of 0 would be the best one.
pub fn plot(
    network: &Network,
    set: &str,
    base: f64,
    evaluated: &[(WidthTrial, Evaluation)],
    histograms: Vec<Histogram>,
) -> Plot {
    let mut curves: Vec<Curve> = Vec::new();
    let is_error = network.metric.direction == Direction::Lower;
    for (width, evaluation) in evaluated {
        if is_error && evaluation.is_failed {
            continue;
        }
        let object = width.slot.map(|slot| network.object(slot));
        let kind = name(width.kind);
        let goes_on = curves.last().is_some_and(|last| last.object == object && last.kind == kind);
        if !goes_on {
            curves.push(Curve { object, kind, points: Vec::new() });
        }
        let point = Accuracy { bits: width.bits, accuracy: evaluation.accuracy };
        curves.last_mut().expect("one was pushed").points.push(point);
    }
    let threshold = network.metric.limit(base, network.error_margin);
    Plot {
        schema: "dyno.tune.plot",
        schema_version: PLOT_SCHEMA_VERSION,
        dyno_version: VERSION,
        network: network.name.clone(),
        set: set.to_owned(),
        baseline: Baseline { accuracy: base, threshold },
        curves,
        histograms,
        frontier: None,
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Fixed => "FIXED",
        Kind::Exp => "EXP",
        Kind::Float => "FLOAT",
        Kind::Binary => "BIN",
    }
}

/// Returns the histogram of a layer's weights, with the format of `chosen`, if any.
pub fn histogram(layer: &str, weights: &[f32], chosen: &Dictionary) -> Histogram {
    let max_abs = weights.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let most = if max_abs > 0.0 { f64::from(max_abs) } else { 1.0 };
    let edges: Vec<f64> =
        (0..=BINS).map(|at| most * (2.0 * at as f64 / BINS as f64 - 1.0)).collect();
    let mut counts = vec![0; BINS];
    for weight in weights {
        let share = (f64::from(*weight) / most + 1.0) / 2.0;
        counts[((share * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    let format = chosen.find(&format!("{layer}.weight"));
    Histogram {
        layer: layer.to_owned(),
        max_abs: max_abs.into(),
        edges,
        counts,
        format: format.map(|format| format.to_string()),
        codes: format.map(|format| codes(format, most)).unwrap_or_default(),
    }
}

/// Returns the distinct values of a format in the range of the weights.
fn codes(format: Format, most: f64) -> Vec<f64> {
    if format.bits() > MOST_CODES {
        return Vec::new();
    }
    let all = (0..1_u32 << format.bits()).map(|code| format.decode(code));
    let mut values: Vec<f64> = all.filter(|x| x.is_finite() && x.abs() <= most).collect();
    values.sort_by(f64::total_cmp);
    // Plus and minus zero are equal.
    values.dedup_by(|a, b| a == b);
    values
}

#[cfg(test)]
mod tests {
    use dyno_number::tune::width_trials;

    use super::*;

    /// A program that fails has no error of 0.
    #[test]
    fn failed_widths_are_no_best_ones() {
        let descriptor = "layer_name = [\"a\"]\nwgt_size = [5]\nact_size = [7]\nwgt_max_abs = [1.0]\n\
                          act_max_abs = [1.0]\n";
        let mut network = Network::from_descriptor(descriptor, None).unwrap();
        let lowest = |network: &Network| {
            let failed = Evaluation::failed("it crashed".into());
            let evaluations = [failed, Evaluation::from_accuracy(0.4)];
            let evaluated: Vec<_> = width_trials(network).into_iter().zip(evaluations).collect();
            let plot = plot(network, "full", 0.3, &evaluated, Vec::new());
            let points = plot.curves.into_iter().flat_map(|curve| curve.points);
            points.map(|point| point.accuracy).collect::<Vec<f64>>()
        };
        assert_eq!(lowest(&network), [0.0, 0.4]);
        network.metric.direction = Direction::Lower;
        assert_eq!(lowest(&network), [0.4]);
    }

    #[test]
    fn a_histogram_counts_each_weight_and_marks_codes() {
        let mut chosen = Dictionary::new();
        chosen.set("conv1.weight", Format::fixed(3, 1).unwrap()).unwrap();
        let weights = [-0.5, -0.26, 0.0, 0.1, 0.5];
        let found = histogram("conv1", &weights, &chosen);
        assert_eq!(found.counts.iter().sum::<u64>(), 5);
        assert_eq!((found.counts[0], found.counts[BINS / 2], found.counts[BINS - 1]), (1, 1, 1));
        assert_eq!(found.codes, [-0.375, -0.25, -0.125, 0.0, 0.125, 0.25, 0.375]);
        assert_eq!(found.format.as_deref(), Some("I3(1)"));
        let other = histogram("conv2", &weights, &chosen);
        assert!(other.format.is_none() && other.codes.is_empty());
        assert_eq!(histogram("conv2", &[0.0], &chosen).counts.iter().sum::<u64>(), 1);
    }
}
