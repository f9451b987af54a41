//! Whether a model is that of the reference, as the rules of MLPerf Inference mean it:
//! its weights, number by number, and what its graph says of layers and beams.
//!
//! Nothing is executed. What the rules allow (other formats, fused layers, another
//! arrangement of the same numbers, rounding to fewer bits) is told from what they do not
//! (pruning, retraining, other weights) by the numbers alone. The sections that are named
//! are those of `inference_rules.adoc` and `inference_retraining_rules.adoc`.
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

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use dyno_onnx::{Model, ReadError};
use sha2::{Digest as _, Sha256};

use alignment::{Alignment, Arrangement, Sides};
use difference::{Difference, difference, is_reordered, scaled_along};
use pair::Pair;
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
    let mut own = Weights::of(model);
    let mut theirs = Weights::of(reference);
    let of_reference = |why| Unreadable { of: "the reference", why };
    own.forget_same_unread(&mut theirs).map_err(either)?;
    let folded = fold::fold(&mut theirs, &own).map_err(of_reference)?;
    let unread = (own.not_read(), theirs.not_read());
    let mut pairs = pair::pairs(&theirs, &own).map_err(either)?;
    let (mut tensors, mut non_zero, mut padded) = (Vec::new(), (0, 0), 0);
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
    tensors.sort_by(|a, b| {
        let relative = |one: &Compared| one.away.map_or(0.0, |away| away.relative);
        let by_distance = || relative(b).total_cmp(&relative(a));
        b.finding.cmp(&a.finding).then_with(by_distance).then_with(|| a.name.cmp(&b.name))
    });
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
            layers::beams(&own.flow).or(told.beams),
            layers::beams(&theirs.flow).or(told.reference_beams),
        ),
    };
    let is_there =
        |one: &Compared| one.finding <= Finding::Scaled { axis: usize::MAX } && one.own.is_some();
    let is_compared = unread.0.0.is_empty() && unread.1.0.is_empty();
    let otherwise = match is_compared && equivalence.tensors.iter().all(is_there) {
        true => {
            let (own, theirs) = ((model, &own), (reference, &theirs));
            courses::unlike(own, theirs, &pairs, &folded).map_err(either)?
        }
        false => Vec::new(),
    };
    let mut layers = layers::layers(model, &own.flow);
    layers.linear += fused(&pairs, &theirs);
    let graphs = verdict::Graphs {
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

/// The SHA-256 of a file, lower-case hexadecimal.
fn digest_of(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Tells a model from any other: the SHA-256 of its file; where weights lie in files beside
/// it, that of the list of their SHA-256s, as `sha256sum` prints it, the model's first.
///
/// # Errors
/// A file that cannot be read, or is no ONNX model.
pub fn fingerprint(model: &Path) -> Result<String, ReadError> {
    let read = Model::read(model)?;
    let digest =
        |path: &Path| digest_of(path).map_err(|why| ReadError::File { path: path.to_owned(), why });
    let whole = digest(model)?;
    let files = read.files();
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

/// A pair, and how many numbers are not 0 in the model and in the reference.
fn compared(
    pair: &Pair,
    theirs: &Weights<'_>,
    own: &Weights<'_>,
) -> Result<(Compared, (u64, u64)), ReadError> {
    let (weight, counterpart) = (&theirs.all[pair.reference], &own.all[pair.own]);
    let (reference, numbers) = (theirs.numbers(weight)?, own.numbers(counterpart)?);
    let mut compared = Compared {
        name: weight.name.clone(),
        own: Some((counterpart.held_as.clone(), pair.by)),
        shape: weight.shape.clone(),
        element: Some(counterpart.element.name()),
        finding: Finding::Reshaped { shape: counterpart.shape.clone() },
        away: None,
    };
    let alignment = Alignment::of(&pair.arrangement, &reference.shape, &numbers.shape);
    let Some(alignment) = alignment else {
        return Ok((compared, (numbers.non_zero(), reference.non_zero())));
    };
    let sides = Sides { theirs: &reference, own: &numbers, alignment: &alignment };
    let found = difference(&sides);
    compared.finding = finding(&found, &sides);
    compared.away = Some(Away {
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

/// Weights of the model that are none of the reference. Those that hold again what another
/// one holds are paired.
fn extra(
    theirs: &Weights<'_>,
    own: &Weights<'_>,
    pairs: &mut Vec<Pair>,
) -> Result<Vec<Extra>, ReadError> {
    for pair in pair::again(theirs, own, pairs)? {
        if compared(&pair, theirs, own)?.0.finding <= Finding::Rounded {
            pairs.push(pair);
        }
    }
    let used: HashSet<usize> = pairs.iter().map(|pair| pair.own).collect();
    let extra = own.all.iter().enumerate().filter(|(at, _)| !used.contains(at));
    let extra = extra.map(|(_, weight)| (weight.held_as.clone(), weight.shape.clone()));
    Ok(extra.map(|(name, shape)| Extra { name, shape }).collect())
}

/// How many layers of the reference share one with another.
fn fused(pairs: &[Pair], theirs: &Weights<'_>) -> usize {
    let is_part = |pair: &&Pair| {
        let is_matrix = theirs.all[pair.reference].shape.len() > 1;
        is_matrix && matches!(pair.arrangement, Arrangement::Part { .. })
    };
    let parts = pairs.iter().filter(is_part).count();
    parts - pairs.iter().filter(is_part).map(|pair| pair.own).collect::<HashSet<_>>().len()
}

/// A weight with the operators that change it in the model's graph, and not in the
/// reference's.
fn changed_in_graph(pair: &Pair, theirs: &Weights<'_>, own: &Weights<'_>) -> Option<String> {
    let (theirs, own) = (&theirs.all[pair.reference], &own.all[pair.own]);
    let more: Vec<&str> = own.through.difference(&theirs.through).map(String::as_str).collect();
    (!more.is_empty()).then(|| format!("'{}' by {}", own.held_as, more.join(", ")))
}

fn is_padded(pair: &Pair, theirs: &Weights<'_>, own: &Weights<'_>) -> bool {
    let (theirs, own) = (&theirs.all[pair.reference].shape, &own.all[pair.own].shape);
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
    // Retraining moves what it does not prune.
    let is_pruned = found.pruned > 0 && found.changed == 0;
    if is_pruned { Finding::Pruned } else { Finding::Retrained }
}

/// A weight for which nothing was found, but `bits` that are not understood may hold it.
fn absent(weight: &Weight, bits: u64) -> Compared {
    let elements: u64 = weight.shape.iter().map(|&n| n as u64).product();
    Compared {
        name: weight.name.clone(),
        own: None,
        shape: weight.shape.clone(),
        element: None,
        finding: if bits >= elements { Finding::Unread } else { Finding::Missing },
        away: None,
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
