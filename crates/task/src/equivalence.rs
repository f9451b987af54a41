//! Whether a model is that of the reference, as the rules of MLPerf Inference mean it:
//! its weights, number by number, and what its graph says of layers and beams.
//!
//! Nothing is executed. What the rules allow (other formats, fused layers, another
//! arrangement of the same numbers, rounding to fewer bits) is told from what they do not
//! (pruning, retraining, other weights) by the numbers alone. The sections that are named
//! are those of `inference_rules.adoc` and `inference_retraining_rules.adoc`.

mod difference;
mod fold;
mod grain;
mod layers;
mod pair;
mod verdict;
mod weights;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;

use dyno_onnx::{Model, ReadError};

use difference::{Difference, difference, is_reordered, scaled_along};
use pair::{Arrangement, Pair};
use weights::{Weight, Weights};

pub use verdict::{Reason, Verdict};

/// What is said besides the two graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// Beams of the model's search, where its graph does not say.
    pub beams: Option<i64>,
    /// Beams of the reference's search, where its graph does not say.
    pub reference_beams: Option<i64>,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Equivalence {
    /// The division that the model is for, as far as its weights tell.
    pub verdict: Verdict,
    /// Why it is no better one, most serious first; why it is closed, if it is.
    pub reasons: Vec<Reason>,
    /// What was not seen, and what has to be shown or described.
    pub conditions: Vec<String>,
    /// Weights of the reference with what became of them, worst first.
    pub tensors: Vec<Compared>,
    /// Weights of the model that are none of the reference.
    pub extra: Vec<Extra>,
    /// Weights that are not 0, in the model and in the reference.
    pub non_zero: (u64, u64),
    /// Elements of all weights of the model, by the type that holds them.
    pub numerics: BTreeMap<&'static str, u64>,
    /// Bytes of its weights, without scales and zero points.
    pub weight_bytes: u64,
    /// Bytes of scales and zero points.
    pub description_bytes: u64,
    /// Beams in the model and in the reference, where they are told.
    pub beams: (Option<i64>, Option<i64>),
}

/// How a weight was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// By its name.
    Name,
    /// By its shape and its numbers.
    Numbers,
    /// By its shape and its place in the graph.
    Place,
}

impl Pairing {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Numbers => "numbers",
            Self::Place => "place",
        }
    }
}

/// A weight of the reference, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Its name in the reference.
    pub name: String,
    /// Its counterpart's name in the model, and how it was found.
    pub own: Option<(String, Pairing)>,
    /// Its dimensions in the reference.
    pub shape: Vec<usize>,
    /// Type of its counterpart's elements.
    pub element: Option<&'static str>,
    /// What became of it.
    pub finding: Finding,
    /// How far the numbers are apart, if they could be compared.
    pub away: Option<Away>,
}

/// Counts and distances of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Away {
    /// Numbers that were compared.
    pub elements: u64,
    /// 0 in the model, not in the reference, and not by rounding.
    pub pruned: u64,
    /// Cut off at the end of the range.
    pub clipped: u64,
    /// Rounded to the farther neighbour.
    pub other_neighbour: u64,
    /// Farther away than any rounding.
    pub changed: u64,
    /// The largest distance, in half steps of the model's type.
    pub half_steps: f64,
    /// Root mean square of the distances, by that of the reference.
    pub relative: f64,
}

/// What became of a weight, from the harmless to the worst.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// The same numbers.
    Same,
    /// Rounded to the type of the model, each number to a neighbour.
    Rounded,
    /// The same numbers in another order.
    Reordered,
    /// Each slice along a dimension times a factor of its own.
    Scaled {
        /// The dimension.
        axis: usize,
    },
    /// In a form that is not understood.
    Unread,
    /// Nothing stands for it.
    Missing,
    /// Of another shape.
    Reshaped {
        /// The counterpart's.
        shape: Vec<usize>,
    },
    /// Numbers became 0.
    Pruned,
    /// Numbers are others, near those of the reference.
    Retrained,
    /// The numbers have nothing to do with those of the reference.
    Replaced,
}

impl Finding {
    /// In a word.
    #[must_use]
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

/// A weight of the model that is none of the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// Its name.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
}

impl Extra {
    /// Number of its elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&n| n as u64).product()
    }
}

/// Which model's weights could not be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The model that is compared, or the reference.
    pub of: &'static str,
    /// Why.
    pub why: ReadError,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the weights of {} cannot be compared: {}", self.of, self.why)
    }
}

impl std::error::Error for Unreadable {}

/// Below it, two weights are no more alike than chance has it.
const ALIKE: f64 = 0.5;

/// Compares a model with the reference.
///
/// # Errors
/// Weights in a file beside a model that is not there, or tensors that are cut short.
pub fn compare(model: &Model, reference: &Model, told: Told) -> Result<Equivalence, Unreadable> {
    let either = |why| Unreadable { of: "the model or the reference", why };
    let own = Weights::of(model);
    let mut theirs = Weights::of(reference);
    let of_reference = |why| Unreadable { of: "the reference", why };
    let folded = fold::fold(reference, &mut theirs, model, &own).map_err(of_reference)?;
    let pairs = pair::pairs(&theirs, &own).map_err(either)?;
    let mut tensors = Vec::new();
    let mut non_zero = (0, 0);
    for pair in &pairs {
        let (compared, counts) = compared(pair, &theirs, &own).map_err(either)?;
        non_zero = (non_zero.0 + counts.0, non_zero.1 + counts.1);
        tensors.push(compared);
    }
    let paired: HashSet<usize> = pairs.iter().map(|pair| pair.reference).collect();
    for (at, weight) in theirs.all.iter().enumerate().filter(|(at, _)| !paired.contains(at)) {
        non_zero.1 += theirs.decode(&theirs.all[at]).map_err(of_reference)?.non_zero();
        tensors.push(absent(weight, !own.unread.is_empty()));
    }
    let used: HashSet<usize> = pairs.iter().map(|pair| pair.own).collect();
    let extra = own.all.iter().enumerate().filter(|(at, _)| !used.contains(at));
    let extra: Vec<Extra> = extra
        .map(|(_, weight)| Extra { name: weight.held_as.clone(), shape: weight.shape.clone() })
        .collect();
    tensors.sort_by(|a, b| {
        let relative = |one: &Compared| one.away.map_or(0.0, |away| away.relative);
        let by_distance = || relative(b).total_cmp(&relative(a));
        b.finding.cmp(&a.finding).then_with(by_distance).then_with(|| a.name.cmp(&b.name))
    });
    let beams = |model: &Model| layers::beams(model).first().map(|(_, beams)| *beams);
    let mut equivalence = Equivalence {
        verdict: Verdict::Closed,
        reasons: Vec::new(),
        conditions: Vec::new(),
        tensors,
        extra,
        non_zero,
        numerics: numerics(&own),
        weight_bytes: own.all.iter().map(|weight| own.bytes(weight)).sum(),
        description_bytes: own.all.iter().map(|weight| own.description(weight)).sum(),
        beams: (beams(model).or(told.beams), beams(reference).or(told.reference_beams)),
    };
    let graphs = verdict::Graphs {
        unlike: layers::layers(model).unlike(&layers::layers(reference)),
        folded: folded.len(),
        bodies: (layers::bodies(model), layers::bodies(reference)),
        unread: &own.unread,
    };
    verdict::judge(&mut equivalence, &graphs);
    Ok(equivalence)
}

/// Compares the files of two models.
///
/// # Errors
/// A file that is no ONNX model, and what [`compare`] fails of.
pub fn compare_files(
    model: &Path,
    reference: &Path,
    told: Told,
) -> Result<Equivalence, Unreadable> {
    let own = Model::read(model).map_err(|why| Unreadable { of: "the model", why })?;
    let of_reference = |why| Unreadable { of: "the reference", why };
    compare(&own, &Model::read(reference).map_err(of_reference)?, told)
}

/// A pair, and how many numbers are not 0 in the model and in the reference.
fn compared(
    pair: &Pair,
    theirs: &Weights<'_>,
    own: &Weights<'_>,
) -> Result<(Compared, (u64, u64)), ReadError> {
    let (weight, counterpart) = (&theirs.all[pair.reference], &own.all[pair.own]);
    let (reference, numbers) = (theirs.decode(weight)?, own.decode(counterpart)?);
    let counts = (numbers.non_zero(), reference.non_zero());
    let mut compared = Compared {
        name: weight.name.clone(),
        own: Some((counterpart.held_as.clone(), pair.by)),
        shape: weight.shape.clone(),
        element: Some(counterpart.element.name()),
        finding: Finding::Reshaped { shape: counterpart.shape.clone() },
        away: None,
    };
    let aligned = match &pair.arrangement {
        Arrangement::Axes(axes) => reference.arranged(axes),
        Arrangement::Flat => reference.values.clone(),
        Arrangement::WithoutFirst(axis) => without_first(&reference.values, &weight.shape, *axis),
        Arrangement::Other => return Ok((compared, counts)),
    };
    if aligned.len() != numbers.values.len() {
        return Ok((compared, counts));
    }
    let found = difference(&aligned, &reference.grain, &numbers);
    compared.finding = finding(&found, &aligned, &numbers);
    compared.away = Some(Away {
        elements: aligned.len() as u64,
        pruned: found.pruned,
        clipped: found.clipped,
        other_neighbour: found.other_neighbour,
        changed: found.changed,
        half_steps: found.half_steps,
        relative: found.relative,
    });
    Ok((compared, counts))
}

fn finding(found: &Difference, reference: &[f32], own: &grain::Decoded) -> Finding {
    if found.is_exact {
        return Finding::Same;
    }
    if found.is_rounding() {
        return Finding::Rounded;
    }
    if is_reordered(reference, own) {
        return Finding::Reordered;
    }
    if let Some(axis) = scaled_along(reference, own) {
        return Finding::Scaled { axis };
    }
    if found.cosine < ALIKE && found.pruned < found.changed {
        return Finding::Replaced;
    }
    // Retraining moves what it does not prune.
    if found.changed > 0 { Finding::Retrained } else { Finding::Pruned }
}

fn absent(weight: &Weight, is_packed: bool) -> Compared {
    Compared {
        name: weight.name.clone(),
        own: None,
        shape: weight.shape.clone(),
        element: None,
        finding: if is_packed { Finding::Unread } else { Finding::Missing },
        away: None,
    }
}

/// Without the first slice along a dimension.
fn without_first(values: &[f32], shape: &[usize], axis: usize) -> Vec<f32> {
    let inner: usize = shape[axis + 1..].iter().product();
    let slices = values.chunks(shape[axis] * inner);
    slices.flat_map(|slice| &slice[inner.min(slice.len())..]).copied().collect()
}

fn numerics(own: &Weights<'_>) -> BTreeMap<&'static str, u64> {
    let mut numerics = BTreeMap::new();
    for weight in &own.all {
        let elements: u64 = weight.shape.iter().map(|&n| n as u64).product();
        *numerics.entry(weight.element.name()).or_default() += elements;
    }
    numerics
}
