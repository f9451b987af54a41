//! Equivalence of a model and its reference under the rules of MLPerf Inference: compares the
//! weights number by number, and the layers and beams of the graphs.
//!
//! Nothing is executed. Numbers alone distinguish what the rules allow (other formats, fused
//! layers, another arrangement of the same numbers, rounding to fewer bits) from what they do not
//! allow (pruning, retraining, other weights). Section numbers refer to `inference_rules.adoc` and
//! `inference_retraining_rules.adoc`.
//!
//! ```
//! use dyno_equivalence::{BeamCounts, Verdict, compare};
//! use dyno_onnx::{BuildError, Builder, Element, Model, Tensor, Weights};
//!
//! // A product with a matrix whose numbers follow a wave of some frequency.
//! let model = |frequency: f32| -> Result<Model, BuildError> {
//!     let mut builder = Builder::new("model", Weights::seeded(0));
//!     let numbers: Vec<f32> = (0..640).map(|index| (index as f32 * frequency).sin()).collect();
//!     let x = builder.input("x", Element::F32, &[1.into(), 64.into()]);
//!     let w = builder.tensor(Tensor::from_f32("w", &[64, 10], &numbers))?;
//!     let y = builder.node("MatMul", &[&x, &w], &[])?;
//!     builder.output("y", &y)?;
//!     Ok(builder.finish())
//! };
//! let reference = model(0.7)?;
//! let beams = BeamCounts::default();
//! assert_eq!(compare(&model(0.7)?, &reference, beams)?.verdict, Verdict::Closed);
//! assert_eq!(compare(&model(1.9)?, &reference, beams)?.verdict, Verdict::Open);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alignment;
mod course;
mod courses;
mod difference;
mod flow;
mod fold;
mod forms;
mod grain;
mod layers;
mod numbers;
mod operators;
mod pair;
mod reach;
mod small;
mod verdict;
mod weights;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;

use dyno_onnx::{Model, ReadError};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use alignment::{Alignment, Arrangement, Sides};
use difference::{Difference, difference, is_reordered, scaled_along};
use pair::Pair;
use weights::{Weight, Weights};

pub use verdict::{Reason, Verdict};

/// Numbers of beams that the graphs do not specify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BeamCounts {
    /// Beams of the model's search, if its graph does not specify them.
    pub beams: Option<i64>,
    /// Beams of the reference's search, if its graph does not specify them.
    pub reference_beams: Option<i64>,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Equivalence {
    /// Division for which the model qualifies, judged by its weights.
    pub verdict: Verdict,
    /// Reasons against a better verdict, the most serious first; for a closed verdict, the reason
    /// for it.
    pub reasons: Vec<Reason>,
    /// Parts that were not checked, and what the submitter has to show or describe.
    pub conditions: Vec<String>,
    /// Weights of the reference with their findings, the worst first.
    pub tensors: Vec<TensorComparison>,
    /// Weights of the model without counterpart in the reference.
    pub extra: Vec<ExtraWeight>,
    /// Nonzero weights in the model and in the reference.
    pub non_zero: (u64, u64),
    /// Elements of all weights of the model, by type.
    pub numerics: BTreeMap<&'static str, u64>,
    /// Bytes of the model's weights, without scales and zero points.
    pub weight_bytes: u64,
    /// Bytes of scales and zero points.
    pub description_bytes: u64,
    /// Beams in the model and in the reference, if known.
    pub beams: (Option<i64>, Option<i64>),
}

/// How the counterpart of a weight was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// By name.
    Name,
    /// By shape and numbers.
    Numbers,
    /// By shape and position in the graph.
    Place,
}

impl Pairing {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Numbers => "numbers",
            Self::Place => "place",
        }
    }
}

/// Comparison of one weight of the reference with its counterpart.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorComparison {
    /// Name in the reference.
    pub name: String,
    /// Name of the counterpart in the model, and how it was found.
    pub own: Option<(String, Pairing)>,
    /// Dimensions in the reference.
    pub shape: Vec<usize>,
    /// Element type of the counterpart.
    pub element: Option<&'static str>,
    /// Finding.
    pub finding: Finding,
    /// Deviation of the numbers, if they could be compared.
    pub deviation: Option<Deviation>,
}

/// Counts and distances of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// Numbers that were compared.
    pub elements: u64,
    /// Numbers that are 0 in the model but not in the reference, and not by rounding.
    pub pruned: u64,
    /// Numbers clipped at the end of the range.
    pub clipped: u64,
    /// Numbers rounded to the farther neighbor.
    pub other_neighbour: u64,
    /// Numbers farther away than any rounding.
    pub changed: u64,
    /// Largest distance, in half steps of the model's type.
    pub half_steps: f64,
    /// Root mean square of the distances, divided by that of the reference.
    pub relative: f64,
}

/// Finding about a weight, from harmless to worst.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Equal numbers.
    Same,
    /// Rounded to the type of the model, each number to a neighbor.
    Rounded,
    /// Equal numbers in another order.
    Reordered,
    /// Each slice along a dimension is multiplied by a factor.
    Scaled {
        /// The dimension.
        axis: usize,
    },
    /// Stored in a form that is not understood.
    Unread,
    /// No counterpart was found.
    Missing,
    /// The shape differs.
    Reshaped {
        /// Shape of the counterpart.
        shape: Vec<usize>,
    },
    /// Numbers became 0.
    Pruned,
    /// Numbers changed but are near those of the reference.
    Retrained,
    /// The numbers are unrelated to those of the reference.
    Replaced,
}

impl Finding {
    /// Name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Rounded => "rounded",
            Self::Reordered => "reordered",
            Self::Scaled { .. } => "scaled",
            Self::Unread => "unread",
            Self::Missing => "missing",
            Self::Reshaped { .. } => "reshaped",
            Self::Pruned => "pruned",
            Self::Retrained => "retrained",
            Self::Replaced => "replaced",
        }
    }
}

/// A weight of the model without counterpart in the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraWeight {
    /// Name.
    pub name: String,
    /// Dimensions.
    pub shape: Vec<usize>,
}

impl ExtraWeight {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&n| n as u64).product()
    }
}

/// Error of reading the weights of a model.
#[derive(Debug, Error)]
#[error("the weights of {model} cannot be compared: {why}")]
pub struct EquivalenceError {
    /// Name of the model: the compared one, or the reference.
    pub model: &'static str,
    /// Cause.
    pub why: ReadError,
}

/// Cosine below which two weights are unrelated.
const ALIKE: f64 = 0.5;

/// Compares a model with the reference.
///
/// # Errors
/// A weight file beside a model is missing, or a tensor is truncated.
pub fn compare(
    model: &Model,
    reference: &Model,
    beams: BeamCounts,
) -> Result<Equivalence, EquivalenceError> {
    let either = |why| EquivalenceError { model: "the model or the reference", why };
    let mut own = Weights::from_model(model);
    let mut theirs = Weights::from_model(reference);
    let of_reference = |why| EquivalenceError { model: "the reference", why };
    own.forget_same_unread(&mut theirs).map_err(either)?;
    let folded = fold::fold(&mut theirs, &own).map_err(of_reference)?;
    let unread = (own.not_read(), theirs.not_read());
    let mut pairs = pair::pairs(&theirs, &own).map_err(either)?;
    let mut tensors = Vec::new();
    let mut non_zero = (0, 0);
    let mut padded = 0;
    let mut changed = Vec::new();
    for pair in &pairs {
        changed.extend(changed_in_graph(pair, &theirs, &own));
        padded += usize::from(is_padded(pair, &theirs, &own));
        let (compared, counts) = compared(pair, &theirs, &own).map_err(either)?;
        non_zero = (non_zero.0 + counts.0, non_zero.1 + counts.1);
        tensors.push(compared);
    }
    let paired: HashSet<usize> = pairs.iter().map(|pair| pair.reference).collect();
    for (at, weight) in theirs.all.iter().enumerate().filter(|(at, _)| !paired.contains(at)) {
        non_zero.1 += theirs.numbers(&theirs.all[at]).map_err(of_reference)?.non_zero();
        tensors.push(absent(weight, unread.0.1));
    }
    let extra = extra(&theirs, &own, &mut pairs).map_err(either)?;
    tensors.sort_by(worst_first);
    let mut equivalence = Equivalence {
        verdict: Verdict::Closed,
        reasons: Vec::new(),
        conditions: Vec::new(),
        tensors,
        extra,
        non_zero,
        numerics: numerics(&own),
        weight_bytes: own.all.iter().map(|weight| own.size(weight)).sum(),
        description_bytes: own.all.iter().map(|weight| own.description(weight)).sum(),
        beams: (
            layers::beams(&own.flow).or(beams.beams),
            layers::beams(&theirs.flow).or(beams.reference_beams),
        ),
    };
    let is_there = |one: &TensorComparison| {
        one.finding <= Finding::Scaled { axis: usize::MAX } && one.own.is_some()
    };
    let is_compared = unread.0.0.is_empty() && unread.1.0.is_empty();
    let otherwise = if is_compared && equivalence.tensors.iter().all(is_there) {
        courses::differences(model, &own, reference, &theirs, &pairs, &folded).map_err(either)?
    } else {
        Vec::new()
    };
    let mut layers = layers::layers(model, &own.flow);
    layers.linear += fused(&pairs, &theirs);
    let graphs = verdict::GraphFindings {
        unlike: layers.unlike(&layers::layers(reference, &theirs.flow)),
        folded: folded.len(),
        padded,
        changed,
        otherwise,
        singles: own.singles.saturating_sub(theirs.singles),
        unread: (unread.0.0, unread.1.0),
    };
    verdict::judge(&mut equivalence, &graphs);
    Ok(equivalence)
}

/// Compares the files of two models.
///
/// # Errors
/// A file is not an ONNX model, or [`compare`] fails.
pub fn compare_files(
    model: &Path,
    reference: &Path,
    beams: BeamCounts,
) -> Result<Equivalence, EquivalenceError> {
    let own = Model::read(model).map_err(|why| EquivalenceError { model: "the model", why })?;
    let of_reference = |why| EquivalenceError { model: "the reference", why };
    compare(&own, &Model::read(reference).map_err(of_reference)?, beams)
}

/// Returns the SHA-256 of a file in lower-case hexadecimal.
fn digest_of(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the fingerprint of a model: the SHA-256 of its file. If weights are in files beside it,
/// the SHA-256 of the list of all SHA-256s as `sha256sum` prints it, that of the model first.
///
/// # Errors
/// A file cannot be read, or is not an ONNX model.
pub fn fingerprint(model: &Path) -> Result<String, ReadError> {
    let read = Model::read(model)?;
    let digest = |path: &Path| {
        digest_of(path).map_err(|reason| ReadError::File { path: path.to_owned(), reason })
    };
    let whole = digest(model)?;
    let files = read.external_files();
    if files.is_empty() {
        return Ok(whole);
    }
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut list = format!("{whole}  {}\n", name(model));
    for path in files {
        list += &format!("{}  {}\n", digest(path)?, name(path));
    }
    Ok(Sha256::digest(list).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Orders tensors by finding and deviation, the largest first, and then by name.
fn worst_first(a: &TensorComparison, b: &TensorComparison) -> Ordering {
    let relative =
        |one: &TensorComparison| one.deviation.map_or(0.0, |deviation| deviation.relative);
    let by_distance = || relative(b).total_cmp(&relative(a));
    b.finding.cmp(&a.finding).then_with(by_distance).then_with(|| a.name.cmp(&b.name))
}

/// Compares a pair; also returns the nonzero numbers of the model and of the reference.
fn compared(
    pair: &Pair,
    theirs: &Weights<'_>,
    own: &Weights<'_>,
) -> Result<(TensorComparison, (u64, u64)), ReadError> {
    let weight = &theirs.all[pair.reference];
    let counterpart = &own.all[pair.own];
    let reference = theirs.numbers(weight)?;
    let numbers = own.numbers(counterpart)?;
    let mut compared = TensorComparison {
        name: weight.name.clone(),
        own: Some((counterpart.held_as.clone(), pair.by)),
        shape: weight.shape.clone(),
        element: Some(counterpart.element.name()),
        finding: Finding::Reshaped { shape: counterpart.shape.clone() },
        deviation: None,
    };
    let alignment = Alignment::from_shapes(&pair.arrangement, &reference.shape, &numbers.shape);
    let Some(alignment) = alignment else {
        return Ok((compared, (numbers.non_zero(), reference.non_zero())));
    };
    let sides = Sides { theirs: &reference, own: &numbers, alignment: &alignment };
    let found = difference(&sides);
    compared.finding = finding(&found, &sides);
    compared.deviation = Some(Deviation {
        elements: found.elements,
        pruned: found.pruned,
        clipped: found.clipped,
        other_neighbour: found.other_neighbour,
        changed: found.changed,
        half_steps: found.half_steps,
        relative: found.relative,
    });
    Ok((compared, found.non_zero))
}

/// Returns the weights of the model without counterpart. Duplicates of other weights are paired.
fn extra(
    theirs: &Weights<'_>,
    own: &Weights<'_>,
    pairs: &mut Vec<Pair>,
) -> Result<Vec<ExtraWeight>, ReadError> {
    for pair in pair::duplicates(theirs, own, pairs)? {
        if compared(&pair, theirs, own)?.0.finding <= Finding::Rounded {
            pairs.push(pair);
        }
    }
    let used: HashSet<usize> = pairs.iter().map(|pair| pair.own).collect();
    let extra = own.all.iter().enumerate().filter(|(at, _)| !used.contains(at));
    let extra = extra.map(|(_, weight)| (weight.held_as.clone(), weight.shape.clone()));
    Ok(extra.map(|(name, shape)| ExtraWeight { name, shape }).collect())
}

/// Number of reference layers that are fused into a layer with another one.
fn fused(pairs: &[Pair], theirs: &Weights<'_>) -> usize {
    let is_part = |pair: &&Pair| {
        let is_matrix = theirs.all[pair.reference].shape.len() > 1;
        is_matrix && matches!(pair.arrangement, Arrangement::Part { .. })
    };
    let parts = pairs.iter().filter(is_part).count();
    parts - pairs.iter().filter(is_part).map(|pair| pair.own).collect::<HashSet<_>>().len()
}

/// Describes a weight that operators change in the model's graph but not in the reference's.
fn changed_in_graph(pair: &Pair, theirs: &Weights<'_>, own: &Weights<'_>) -> Option<String> {
    let theirs = &theirs.all[pair.reference];
    let own = &own.all[pair.own];
    let more: Vec<&str> = own.through.difference(&theirs.through).map(String::as_str).collect();
    (!more.is_empty()).then(|| format!("'{}' by {}", own.held_as, more.join(", ")))
}

fn is_padded(pair: &Pair, theirs: &Weights<'_>, own: &Weights<'_>) -> bool {
    let theirs = &theirs.all[pair.reference].shape;
    let own = &own.all[pair.own].shape;
    let is_turned = matches!(pair.arrangement, Arrangement::Axes(_));
    is_turned && theirs.iter().product::<usize>() < own.iter().product()
}

fn finding(found: &Difference, sides: &Sides<'_>) -> Finding {
    if found.is_exact {
        return Finding::Same;
    }
    if found.is_rounding() {
        return Finding::Rounded;
    }
    if is_reordered(sides) {
        return Finding::Reordered;
    }
    if let Some(axis) = scaled_along(sides) {
        return Finding::Scaled { axis };
    }
    if found.cosine < ALIKE && found.pruned < found.changed {
        return Finding::Replaced;
    }
    // Retraining changes the numbers that it does not prune.
    let is_pruned = found.pruned > 0 && found.changed == 0;
    if is_pruned { Finding::Pruned } else { Finding::Retrained }
}

/// Comparison of a weight without counterpart; `bits` of tensors that are not understood may
/// contain it.
fn absent(weight: &Weight, bits: u64) -> TensorComparison {
    let elements: u64 = weight.shape.iter().map(|&n| n as u64).product();
    TensorComparison {
        name: weight.name.clone(),
        own: None,
        shape: weight.shape.clone(),
        element: None,
        finding: if bits >= elements { Finding::Unread } else { Finding::Missing },
        deviation: None,
    }
}

fn numerics(own: &Weights<'_>) -> BTreeMap<&'static str, u64> {
    let mut numerics = BTreeMap::new();
    for weight in &own.all {
        let elements: u64 = weight.shape.iter().map(|&n| n as u64).product();
        *numerics.entry(weight.element.name()).or_default() += elements;
    }
    numerics
}
