//! `dyno task equivalence`: checks whether a model has the weights of the reference.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use dyno_equivalence::{
    BeamCounts, Deviation, Equivalence, Finding, TensorComparison, Verdict, compare_files,
    fingerprint,
};
use dyno_experiment::Failure;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output;
use crate::render::wrap;

/// Columns of a line.
const WIDTH: usize = 80;

/// Most tensors that are listed without `--all`.
const SHOWN: usize = 12;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompareWeights {
    /// Model to submit, as ONNX
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Reference model of the benchmark, as ONNX
    #[arg(long, value_name = "REF.onnx")]
    reference: PathBuf,
    /// Number of beams of the search around the model, if its graph does not contain it
    #[arg(long, value_name = "N")]
    beams: Option<i64>,
    /// Number of beams of the reference's search, if its graph does not contain it
    #[arg(long, value_name = "N")]
    reference_beams: Option<i64>,
    /// Show all tensors, not only the worst twelve
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Exit codes: 0 the weights are equivalent as the Closed division requires, 1 they are not, or some could
not be compared.

Examples:
  dyno task equivalence int8.onnx --reference resnet50_v1.onnx
  dyno task equivalence decoder.onnx --reference gnmt.onnx --beams 10 --reference-beams 10";

impl CompareWeights {
    /// Compares the models and prints the verdict of the rules.
    ///
    /// # Errors
    /// A missing file, or one that is not an ONNX model.
    pub fn execute(self) -> Result<Exit, Failure> {
        for path in [&self.model, &self.reference] {
            if !path.is_file() {
                return Err(Failure::set_up(format!("model {} does not exist", path.display())));
            }
        }
        let beams = BeamCounts { beams: self.beams, reference_beams: self.reference_beams };
        let found = compare_files(&self.model, &self.reference, beams).map_err(|error| {
            Failure::set_up(error).hint(
                "keep external weights (.onnx.data) beside the model; strings, complex numbers and \
                 6-bit elements are not supported",
            )
        })?;
        let text = if self.json {
            let mut document = document(&found, &self.model, &self.reference);
            document["model_sha256"] = fingerprint(&self.model).map_err(Failure::set_up)?.into();
            format!("{document:#}\n")
        } else {
            let text = text(&found, if self.all { usize::MAX } else { SHOWN });
            let lines = text.lines().flat_map(|line| wrap(line, WIDTH, 14));
            lines.map(|line| line + "\n").collect()
        };
        output::print_or_show(text, self.json)?;
        Ok(if found.verdict == Verdict::Closed { Exit::Valid } else { Exit::Invalid })
    }
}

fn text(found: &Equivalence, most: usize) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<13} {value}");
    };
    row("verdict", found.verdict.name());
    for reason in &found.reasons {
        row("because", &format!("{} ({})", reason.what, reason.rule));
    }
    for condition in &found.conditions {
        row("note", condition);
    }
    let (own, theirs) = found.non_zero;
    row("weights", &format!("{own} nonzero numbers, {theirs} in the reference"));
    let types: Vec<String> =
        found.numerics.iter().map(|(name, elements)| format!("{elements} {name}")).collect();
    if !types.is_empty() {
        row("numerics", &types.join(", "));
    }
    if found.description_bytes > 0 {
        let (scales, all) = (found.description_bytes, found.weight_bytes);
        row(
            "quantization",
            &format!("{scales} bytes of scales and zero points for {all} of codes"),
        );
    }
    let beams = |beams: Option<i64>| beams.map_or("not stated".into(), |beams| beams.to_string());
    if let (Some(_), _) | (_, Some(_)) = found.beams {
        let (own, theirs) = (beams(found.beams.0), beams(found.beams.1));
        row("beams", &format!("{own}, {theirs} in the reference"));
    }
    let other: Vec<_> = found.tensors.iter().filter(|one| one.finding != Finding::Same).collect();
    for tensor in other.iter().take(most) {
        row(tensor.finding.name(), &line(tensor));
    }
    if let Some(more @ 1..) = other.len().checked_sub(most) {
        row("", &format!("and {more} more; --all shows them"));
    }
    for extra in found.extra.iter().take(most) {
        row("extra", &format!("{} {:?}", extra.name, extra.shape));
    }
    match found.tensors.len() - other.len() {
        0 => {}
        1 => row("same", "1 tensor"),
        same => row("same", &format!("{same} tensors")),
    }
    text
}

fn line(tensor: &TensorComparison) -> String {
    let mut text = format!("{} {:?}", tensor.name, tensor.shape);
    if let Some((own, by)) = &tensor.own {
        let element = tensor.element.unwrap_or_default();
        let called = if *own == tensor.name { String::new() } else { format!(" {own},") };
        let _ = write!(text, " ->{called} {element}, found by {}", by.name());
    }
    match &tensor.finding {
        Finding::Reshaped { shape } => {
            let _ = write!(text, "; of shape {shape:?}");
        }
        Finding::Scaled { axis } => {
            let _ = write!(text, "; a factor for each slice of dimension {axis}");
        }
        _ => {}
    }
    let Some(away) = &tensor.deviation else { return text };
    let elements = away.elements;
    let counts = [
        (away.pruned, "are 0"),
        (away.changed, "moved"),
        (away.clipped, "clipped"),
        (away.other_neighbour, "rounded to the farther neighbor"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, "; {count} of {elements} {what}");
    }
    let (steps, relative) = (away.half_steps, 100.0 * away.relative);
    let _ = write!(text, "; {steps:.2} half steps at most, {relative:.3} % in the mean");
    text
}

/// Returns the comparison for programs.
fn document(found: &Equivalence, model: &Path, reference: &Path) -> Value {
    let away = |away: &Deviation| {
        json!({
            "elements": away.elements,
            "pruned": away.pruned,
            "changed": away.changed,
            "clipped": away.clipped,
            "other_neighbour": away.other_neighbour,
            // JSON has no infinity, which is the distance from a reference of 0.
            "half_steps": Some(away.half_steps).filter(|steps| steps.is_finite()),
            "relative": Some(away.relative).filter(|relative| relative.is_finite()),
        })
    };
    let tensor = |tensor: &TensorComparison| {
        let own = tensor.own.as_ref();
        json!({
            "name": tensor.name,
            "finding": tensor.finding.name(),
            "own": own.map(|(name, _)| name),
            "found_by": own.map(|(_, by)| by.name()),
            "shape": tensor.shape,
            "element": tensor.element,
            "away": tensor.deviation.as_ref().map(away),
        })
    };
    let reasons = found.reasons.iter().map(|reason| {
        json!({ "leaves": reason.leaves.name(), "rule": reason.rule, "what": reason.what })
    });
    let extra = found.extra.iter().map(|extra| json!({ "name": extra.name, "shape": extra.shape }));
    json!({
        "schema": "dyno.equivalence",
        "schema_version": 1,
        "model": model,
        "reference": reference,
        "verdict": found.verdict.name(),
        "reasons": reasons.collect::<Vec<_>>(),
        "conditions": found.conditions,
        "non_zero": found.non_zero.0,
        "reference_non_zero": found.non_zero.1,
        "numerics": found.numerics,
        "weight_bytes": found.weight_bytes,
        "description_bytes": found.description_bytes,
        "beams": found.beams.0,
        "reference_beams": found.beams.1,
        "tensors": found.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "extra": extra.collect::<Vec<_>>(),
    })
}
