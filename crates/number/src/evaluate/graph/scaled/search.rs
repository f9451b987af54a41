//! Chooses formats with scales: moves of single objects to their next smaller format, as long as the
//! accuracy stays.
//!
//! The formats of an object are ordered by bits. One is left out if another is no larger and rounds
//! with a smaller squared error, so that each move saves bits and adds an error. The search starts
//! with the smallest place in these orders that all objects can share, and then moves objects one by
//! one, those first that save most for what they cost.

use dyno_onnx::{Constants, Model, in_floats};

use super::super::qdq::QdqError;
use super::super::read;
use super::{Axes, PackedError, ScaledFormat, ScaledWeights, version_of};

/// Formats of all objects, in the order of [`ScaledSearch::objects`]; `None` is FLOAT(32).
pub type ScaledChoice = Vec<Option<ScaledFormat>>;

/// Function that returns the accuracy with a format for each object; `None` means FLOAT(32).
pub type EvaluateFn<'a, E> = dyn FnMut(&[Option<ScaledFormat>]) -> Result<f64, E> + 'a;

/// The objects of a model with the formats that they can have.
///
/// ```
/// use dyno_number::evaluate::graph::{ScaledFormat, ScaledSearch};
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("net", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 32.into()]);
/// let weight = net.weight("fc.weight", &[32, 4], Fill::he(32))?;
/// let y = net.node("MatMul", &[&x, &weight], &[])?;
/// net.output("y", &y)?;
/// let formats = ["int8:channel".parse()?, "mxfp4".parse()?];
/// let search = ScaledSearch::new(&net.finish(), &formats)?;
/// // Anything but MXFP4 passes.
/// let mxfp4 = Some(formats[1]);
/// let mut accuracy = |choice: &[Option<ScaledFormat>]| Ok::<f64, String>(if choice[0] == mxfp4 { 0.5 } else { 0.9 });
/// let found = search.run(0.85, &mut accuracy)?;
/// assert_eq!(found.last().expect("FLOAT(32) passes").choice, [Some(formats[0])]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScaledSearch {
    objects: Vec<ScaledObject>,
}

/// An object with the formats that it can have.
#[derive(Clone, Debug)]
struct ScaledObject {
    name: String,
    /// FLOAT(32) first, then ever smaller ones.
    options: Vec<ScaledOption>,
}

/// A format of an object.
#[derive(Clone, Copy, Debug)]
struct ScaledOption {
    format: Option<ScaledFormat>,
    bits: u64,
    /// Sum of the squared differences from the weights.
    error: f64,
}

/// A configuration that passes.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledRung {
    /// Formats of the objects.
    pub choice: ScaledChoice,
    /// Bits of all weights with their scales.
    pub bits: u64,
    /// Its accuracy.
    pub accuracy: f64,
}

impl ScaledSearch {
    /// Finds which of these formats fit each object.
    ///
    /// # Errors
    /// The engine does not support the model.
    pub fn new(model: &Model, formats: &[ScaledFormat]) -> Result<Self, QdqError> {
        let model = &*in_floats(model);
        let steps =
            read::steps(model).map_err(|error| QdqError::Model(PackedError::Network(error)))?;
        let constants = Constants::new(model);
        let version = version_of(model);
        let mut objects: Vec<ScaledObject> = Vec::new();
        for target in steps.used_targets() {
            let name = format!("{}.weight", steps.targets[target].name);
            // Each use of the weights has its own scales.
            let uses = steps.uses.iter().filter(|weight_use| weight_use.target == target);
            let mut base = ScaledOption { format: None, bits: 0, error: 0.0 };
            let mut all =
                formats.iter().map(|format| (*format, Some((0, 0.0)))).collect::<Vec<_>>();
            for weight_use in uses {
                let node = &model.nodes[weight_use.node];
                let found = constants
                    .get(&node.inputs[weight_use.input])
                    .and_then(|constant| Some((constant.floats()?, constant.shape)));
                let Some((numbers, shape)) = found else { continue };
                base.bits += 32 * numbers.len() as u64;
                let axes = Axes::new(node, weight_use.input, shape.len());
                for (format, sums) in &mut all {
                    let scaled = ScaledWeights::new(&numbers, &shape, axes, *format);
                    let scaled = scaled.and_then(|scaled| scaled.if_expressible(version));
                    *sums = sums.zip(scaled.ok()).map(|((bits, error), scaled)| {
                        let own = format.bits_of(numbers.len(), scaled.scales.len());
                        (bits + own, error + scaled.error)
                    });
                }
            }
            if base.bits == 0 {
                continue;
            }
            let smaller = all.into_iter().filter_map(|(format, sums)| {
                let (bits, error) = sums.filter(|(bits, _)| *bits < base.bits)?;
                Some(ScaledOption { format: Some(format), bits, error })
            });
            // FLOAT(32) stays even if a smaller format has the weights exactly.
            let options = [vec![base], undominated(smaller.collect())].concat();
            objects.push(ScaledObject { name, options });
        }
        Ok(Self { objects })
    }

    /// Returns the names of the objects.
    pub fn objects(&self) -> Vec<&str> {
        self.objects.iter().map(|object| object.name.as_str()).collect()
    }

    /// Returns whether any object can have another format than FLOAT(32).
    pub fn has_choice(&self) -> bool {
        self.objects.iter().any(|object| object.options.len() > 1)
    }

    /// Returns the formats of a choice by the names of their objects, without FLOAT(32).
    pub fn named(&self, choice: &[Option<ScaledFormat>]) -> Vec<(String, ScaledFormat)> {
        let all = self.objects.iter().zip(choice);
        all.filter_map(|(object, format)| Some((object.name.clone(), (*format)?))).collect()
    }

    /// Returns the bits of all weights in FLOAT(32).
    pub fn base_bits(&self) -> u64 {
        self.objects.iter().map(|object| object.options[0].bits).sum()
    }

    /// Searches for the smallest choice with at least the accuracy `threshold`. Returns all choices
    /// that pass on its way, ever smaller ones, from the widest that all objects can share; none if
    /// not even FLOAT(32) passes.
    ///
    /// # Errors
    /// Those of `evaluate`.
    pub fn run<E>(
        &self,
        threshold: f64,
        evaluate: &mut EvaluateFn<'_, E>,
    ) -> Result<Vec<ScaledRung>, E> {
        let mut accepted = Vec::new();
        let last = self.objects.iter().map(|object| object.options.len() - 1).max().unwrap_or(0);
        let mut places = Vec::new();
        for place in (0..=last).rev() {
            places = self.objects.iter().map(|of| place.min(of.options.len() - 1)).collect();
            let rung = self.rung(&places, evaluate)?;
            if rung.accuracy >= threshold {
                accepted.push(rung);
                break;
            }
        }
        let Some(start) = accepted.pop() else { return Ok(accepted) };
        let mut accuracy = start.accuracy;
        // Wider ones may be confirmed where the smallest fails on other samples.
        for place in 1..places.iter().copied().max().unwrap_or(0) {
            let wider: Vec<usize> =
                self.objects.iter().map(|of| place.min(of.options.len() - 1)).collect();
            let rung = self.rung(&wider, evaluate)?;
            if rung.accuracy >= threshold && rung.bits > start.bits {
                accepted.push(rung);
            }
        }
        accepted.push(start);
        loop {
            let mut moves = Vec::new();
            for at in 0..places.len() {
                let Some(next) = self.narrower(&places, at) else { continue };
                let rung = self.rung(&next, evaluate)?;
                if rung.accuracy >= threshold {
                    let saved = self.bits(&places) - rung.bits;
                    let lost = (accuracy - rung.accuracy).max(LEAST_LOSS);
                    moves.push((saved as f64 / lost, at, rung));
                }
            }
            moves.sort_by(|a, b| b.0.total_cmp(&a.0));
            let before = accepted.len();
            for (at_move, (_, at, alone)) in moves.into_iter().enumerate() {
                let Some(next) = self.narrower(&places, at) else { continue };
                // The first move was evaluated with the very formats of the others.
                let rung = if at_move == 0 { alone } else { self.rung(&next, evaluate)? };
                if rung.accuracy >= threshold {
                    (places, accuracy) = (next, rung.accuracy);
                    accepted.push(rung);
                }
            }
            if accepted.len() == before {
                return Ok(accepted);
            }
        }
    }

    fn narrower(&self, places: &[usize], at: usize) -> Option<Vec<usize>> {
        let mut next = places.to_vec();
        next[at] += 1;
        (next[at] < self.objects[at].options.len()).then_some(next)
    }

    fn bits(&self, places: &[usize]) -> u64 {
        self.objects.iter().zip(places).map(|(object, at)| object.options[*at].bits).sum()
    }

    fn rung<E>(&self, places: &[usize], evaluate: &mut EvaluateFn<'_, E>) -> Result<ScaledRung, E> {
        let all = self.objects.iter().zip(places);
        let choice: ScaledChoice = all.map(|(object, at)| object.options[*at].format).collect();
        let accuracy = evaluate(&choice)?;
        Ok(ScaledRung { choice, bits: self.bits(places), accuracy })
    }
}

/// Smallest loss of accuracy that ratios distinguish from none.
const LEAST_LOSS: f64 = 1e-5;

/// Returns the options of which no other one is as small with a smaller error, the largest first.
fn undominated(mut options: Vec<ScaledOption>) -> Vec<ScaledOption> {
    options.sort_by(|a, b| b.bits.cmp(&a.bits).then(b.error.total_cmp(&a.error)));
    let mut found: Vec<ScaledOption> = Vec::new();
    // From the smallest one: each larger one must have a smaller error.
    while let Some(option) = options.pop() {
        if found.last().is_none_or(|last| option.error < last.error) {
            found.push(option);
        }
    }
    found.reverse();
    found
}
