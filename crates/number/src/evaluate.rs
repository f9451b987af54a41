//! Evaluates ONNX models in number formats, in this process.
//!
//! [`ChainEvaluator`] runs chains of convolutional and fully connected layers,
//! [`graph::GraphEvaluator`] runs other models, and [`PackedNetwork`] runs a tuned model with
//! packed weights.
//!
//! Weights and inputs of products are quantized to their formats; everything else is `f32` (SPEC
//! A9). If both formats of a product consist of integers, it is computed exactly with integers of 8
//! or 16 bits. The input of each stage is cached for the next trial with equal formats before it. A
//! trial stops when it has more errors than it may have; samples on which the first complete trial
//! was least certain come first. Neither changes the results.

mod attributes;
mod cache;
pub mod graph;
mod layer_names;
mod packed;
mod pool;
mod read;
mod stage;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dyno_kernels::{Isa, WindowWeights};
use dyno_onnx::{Model, in_floats};
use thiserror::Error;

pub use self::layer_names::LayerNames;
pub use self::packed::{
    PackedError, PackedFile, PackedFileError, PackedLayer, PackedNetwork, PackedPort,
    PackedRunError, PackedSource, PackedTensor, TensorView, Workspace,
};
pub use self::stage::{FloatReason, ProductPath};

use self::cache::{Blocks, Key, Prefixes};
use self::stage::{IntegerWidth, Layout, PreparedProduct, Product, Scratch, Shape, Stage};
use crate::assignment::Assignment;
use crate::codec::NanError;
use crate::confirm::SampleOutcomes;
use crate::format::Format;
use crate::network::Layer;
use crate::tune::{Evaluation, Stop, Subset, Trial};

/// Returns the name of the instruction set that executes networks, such as `avx2`.
pub fn instructions() -> &'static str {
    Isa::best().name()
}

/// Images that a thread computes together.
const BLOCK: usize = 64;

/// Default size of the cache of values between stages, in bytes.
const CACHE_BYTES: usize = 512 << 20;

/// Why a model or its samples cannot be evaluated here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// The model is not a chain of nodes from one input to one output.
    #[error("{0}; a model of another shape needs `cmd_fullset`")]
    Model(String),
    /// A tensor cannot be loaded from another file.
    #[error("{0}")]
    Tensor(String),
    /// The engine does not support a node.
    #[error("{op}{} {what}; such a model needs a program, `cmd_fullset`", in_parentheses(name))]
    Node {
        /// Operator of the node.
        op: String,
        /// Name of the node; may be empty.
        name: String,
        /// What is not supported, as the predicate of a sentence.
        what: String,
    },
    /// The samples do not fit the model.
    #[error("expected {expected}, found {found}")]
    Samples {
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

/// Returns the name of a node as messages append it to the operator.
fn in_parentheses(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" ({name})") }
}

/// Images with their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// Images one after the other, in the layout of the model's input: `[channels, rows, columns]`
    /// or a list.
    pub values: Vec<f32>,
    /// For each image, the index of the output that should be the largest.
    pub labels: Vec<usize>,
}

/// Evaluates trials of a chain of layers on labeled samples.
///
/// ```
/// use dyno_number::evaluate::{ChainEvaluator, Samples};
/// use dyno_number::{Assignment, Format};
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("small", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let weight = net.weight("fc1.weight", &[4, 3], Fill::he(4))?;
/// let y = net.node("MatMul", &[&x, &weight], &[])?;
/// net.output("y", &y)?;
///
/// let samples = Samples { values: vec![0.5; 2 * 4], labels: vec![0, 1] };
/// let sets = [vec![0], vec![0, 1], Vec::new()];
/// let mut evaluator = ChainEvaluator::new(&net.finish(), samples, sets)?;
/// let objects = evaluator.objects();
/// assert_eq!(objects, ["fc1.weight", "fc1.input"]);
/// let formats = vec![Format::fixed(4, 0)?, Format::F16];
/// let objects = objects.into_iter().map(|object| vec![object]).collect();
/// let scores = evaluator.scores(&Assignment::new(objects, formats), &[1])?;
/// assert_eq!(scores.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ChainEvaluator {
    stages: Vec<Stage>,
    images: Vec<f32>,
    labels: Vec<usize>,
    sets: [Vec<usize>; 3],
    /// Whether the uncertain samples of a set come first.
    is_sorted: [bool; 3],
    /// Packed weights by stage, format and width of integers.
    packed: HashMap<(usize, Format, Option<IntegerWidth>), Arc<WindowWeights>>,
    prefixes: Prefixes,
    threads: Vec<Memory>,
}

/// Memory of a thread.
#[derive(Debug, Default)]
struct Memory {
    scratch: Scratch,
    from: Vec<f32>,
    to: Vec<f32>,
    /// Vectors that are free for reuse.
    spare: Vec<Vec<f32>>,
}

/// Whether answers are right, by block of samples.
type Rights = Vec<(usize, Vec<bool>)>;

/// What all images of a trial share.
struct Plan<'a> {
    stages: &'a [Stage],
    ready: Vec<Option<PreparedProduct>>,
    /// Cache of the input of each stage, if there is one.
    caches: Vec<Option<Blocks>>,
    blocks: Vec<&'a [usize]>,
    images: &'a [f32],
    labels: &'a [usize],
    /// Collects by how much the label of each sample leads, with the sample's index.
    leads: Option<&'a Mutex<Vec<(f32, usize)>>>,
    /// Collects the block and whether each of its answers is right.
    rights: Option<&'a Mutex<Rights>>,
}

impl ChainEvaluator {
    /// Reads a model whose input is images or lists of numbers and whose output is a score for each
    /// label. `sets` holds indices of samples: small, full, confirmation. A set may be empty if no
    /// trial uses it.
    ///
    /// # Errors
    /// The engine does not support a node, or the samples do not fit the model.
    ///
    /// # Panics
    /// If a set contains the index of a sample that does not exist.
    pub fn new(
        model: &Model,
        samples: Samples,
        sets: [Vec<usize>; 3],
    ) -> Result<Self, EvaluateError> {
        let (stages, _) = read::stages(&in_floats(model))?;
        let shape = stages[0].input;
        let Samples { values, labels } = samples;
        if values.len() != shape.len() * labels.len() || labels.is_empty() {
            return Err(EvaluateError::Samples {
                expected: format!("{} numbers for each of at least one label", shape.len()),
                found: format!("{} numbers and {} labels", values.len(), labels.len()),
            });
        }
        let outputs = stages[stages.len() - 1].output.len();
        if let Some((at, beyond)) = labels.iter().enumerate().find(|(_, label)| **label >= outputs)
        {
            return Err(EvaluateError::Samples {
                expected: format!("labels below {outputs}, the outputs of the model"),
                found: format!("{beyond} for sample {at}"),
            });
        }
        assert!(sets.iter().flatten().all(|at| *at < labels.len()), "indices of samples");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            images: by_pixels(&values, shape),
            stages,
            labels,
            sets,
            is_sorted: [false; 3],
            packed: HashMap::new(),
            prefixes: Prefixes::new(CACHE_BYTES),
            threads: (0..threads).map(|_| Memory::default()).collect(),
        })
    }

    /// Sets the number of threads, and the size of the cache of values between stages in bytes.
    ///
    /// # Panics
    /// If `threads` is 0.
    #[must_use]
    pub fn with_limits(mut self, threads: usize, cache_bytes: usize) -> Self {
        assert!(threads > 0, "at least one thread");
        self.threads = (0..threads).map(|_| Memory::default()).collect();
        self.prefixes = Prefixes::new(cache_bytes);
        self
    }

    /// Clears all caches, including weights in their formats, for example to measure a job from its
    /// beginning.
    pub fn forget(&mut self) {
        self.is_sorted = [false; 3];
        self.prefixes.clear();
        self.packed.clear();
    }

    /// Returns the names of all objects that an assignment may contain: `conv1.weight`,
    /// `conv1.input` and so on.
    pub fn objects(&self) -> Vec<String> {
        let products = self.stages.iter().filter_map(|stage| stage.product.as_ref());
        products.flat_map(names).collect()
    }

    /// Returns the weights of a layer in FLOAT(32); `None` if there is no layer with this name.
    pub fn weights(&self, layer: &str) -> Option<&[f32]> {
        let mut products = self.stages.iter().filter_map(|stage| stage.product.as_ref());
        products.find(|product| product.name == layer).map(|product| &product.weights[..])
    }

    /// Returns the layers with products: their sizes and the largest magnitudes of weights and
    /// inputs, the latter in FLOAT(32) on the full set.
    ///
    /// # Errors
    /// An image or a weight is NaN.
    pub fn profile(&mut self) -> Result<Vec<Layer>, NanError> {
        let Memory { mut scratch, mut from, mut to, spare } = std::mem::take(&mut self.threads[0]);
        let ready = self.ready_for(|_| [Format::F32; 2])?;
        // The least value, at most 0, and the largest magnitude.
        let mut ends = vec![[0.0_f32; 2]; self.stages.len()];
        for block in self.sets[Subset::Full as usize].chunks(BLOCK) {
            gather(&self.images, self.stages[0].input, block, &mut from);
            for ((stage, ready), ends) in self.stages.iter().zip(&ready).zip(&mut ends) {
                *ends = from.iter().fold(*ends, |[min, max], x| [min.min(*x), max.max(x.abs())]);
                stage.run(ready.as_ref(), &from, &mut to, &mut scratch)?;
                std::mem::swap(&mut from, &mut to);
            }
        }
        self.threads[0] = Memory { scratch, from, to, spare };
        let layer = |(stage, [min, max]): (&Stage, [f32; 2])| {
            let product = stage.product.as_ref()?;
            let weight_max = product.weights.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
            Some(Layer {
                name: product.name.clone(),
                parts: vec![product.name.clone()],
                weight_size: product.weights.len() as u64,
                activation_size: stage.input.len() as u64,
                weight_max: weight_max.into(),
                activation_max: max.into(),
                activation_min: Some(min.into()),
                macs: (product.weights.len() * product.output.pixels()) as u64,
                kind: product.kind,
            })
        };
        Ok(self.stages.iter().zip(ends).filter_map(layer).collect())
    }

    /// Returns the scores of some samples, one after the other.
    ///
    /// # Errors
    /// A value is NaN, and its format has none.
    ///
    /// # Panics
    /// If a sample does not exist.
    pub fn scores(
        &mut self,
        assignment: &Assignment,
        samples: &[usize],
    ) -> Result<Vec<f32>, NanError> {
        let ready = self.ready_for(|product| formats(product, assignment))?;
        let memory = &mut self.threads[0];
        let mut scores = Vec::new();
        for block in samples.chunks(BLOCK) {
            gather(&self.images, self.stages[0].input, block, &mut memory.from);
            for (stage, ready) in self.stages.iter().zip(&ready) {
                stage.run(ready.as_ref(), &memory.from, &mut memory.to, &mut memory.scratch)?;
                std::mem::swap(&mut memory.from, &mut memory.to);
            }
            scores.extend_from_slice(&memory.from);
        }
        Ok(scores)
    }

    /// Returns the index of the largest score of some samples, in FLOAT(32), or [`NO_CLASS`].
    ///
    /// # Errors
    /// A value is NaN.
    ///
    /// # Panics
    /// If a sample does not exist.
    pub fn predictions(&mut self, samples: &[usize]) -> Result<Vec<usize>, NanError> {
        let scores = self.scores(&Assignment::new(Vec::new(), Vec::new()), samples)?;
        let outputs = self.stages[self.stages.len() - 1].output.len();
        Ok(scores.chunks_exact(outputs).map(class).collect())
    }

    /// Returns the share of samples whose label has the largest score; among equal scores the first
    /// one counts. A trial that is certain to stay below [`Trial::decides`] gets a bound, which
    /// does not depend on the number of threads. `seconds` stays 0.
    ///
    /// # Errors
    /// The set has no samples, a value is NaN and its format has none, or `is_asked` returns true before
    /// the result is known: the evaluation is then [interrupted](Stop::Interrupted).
    pub fn evaluate(
        &mut self,
        trial: &Trial,
        is_asked: &(dyn Fn() -> bool + Sync),
    ) -> Result<Evaluation, Stop> {
        let count = self.sets[trial.subset as usize].len();
        if count == 0 {
            let why = format!("the {} set has no samples", trial.subset);
            return Err(Stop::Failed(why));
        }
        let failed = |error: NanError| Stop::Failed(error.to_string());
        let ready =
            self.ready_for(|product| formats(product, &trial.assignment)).map_err(failed)?;
        // The first complete trial, which is usually FLOAT(32).
        let is_confirmation = trial.subset == Subset::Confirmation;
        let is_sorted = self.is_sorted[trial.subset as usize];
        let sorts = trial.decides.is_none() && !is_sorted && !is_confirmation;
        let leads = Mutex::new(Vec::new());
        let rights = Mutex::new(Vec::new());
        let caches = if sorts { vec![None; self.stages.len()] } else { self.caches_for(trial) };
        let plan = Plan {
            stages: &self.stages,
            ready,
            caches,
            blocks: self.sets[trial.subset as usize].chunks(BLOCK).collect(),
            images: &self.images,
            labels: &self.labels,
            leads: sorts.then_some(&leads),
            rights: is_confirmation.then_some(&rights),
        };
        let share = |errors: usize| (count - errors) as f64 / count as f64;
        // Fewest errors with which the accuracy is below `decides`.
        let enough = trial.decides.and_then(|least| (0..=count).find(|n| share(*n) < least));
        let errors = plan.errors(&mut self.threads, enough, is_asked).map_err(failed)?;
        let errors = errors.ok_or(Stop::Interrupted)?;
        if sorts {
            self.sort(trial.subset, leads.into_inner().expect("no thread panics with the lock"));
        }
        let stopped = enough.filter(|enough| errors >= *enough);
        let mut rights = rights.into_inner().expect("no thread panics with the lock");
        rights.sort_by_key(|(block, _)| *block);
        let rights = rights.into_iter().flat_map(|(_, rights)| rights);
        Ok(Evaluation {
            outcomes: is_confirmation.then(|| SampleOutcomes::from_right(rights)),
            is_bound: stopped.is_some(),
            samples: Some(count as u64),
            ..Evaluation::from_accuracy(share(stopped.unwrap_or(errors)))
        })
    }

    /// Moves uncertain samples to the front: narrower formats fail mostly on these, so that a
    /// failing trial stops early. Clears the cache, which depends on the order.
    fn sort(&mut self, subset: Subset, mut leads: Vec<(f32, usize)>) {
        leads.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.sets[subset as usize] = leads.into_iter().map(|(_, sample)| sample).collect();
        self.is_sorted[subset as usize] = true;
        self.prefixes.clear();
    }

    /// Prepares all products in their formats.
    fn ready_for(
        &mut self,
        formats: impl Fn(&Product) -> [Format; 2],
    ) -> Result<Vec<Option<PreparedProduct>>, NanError> {
        let mut all = Vec::new();
        for (at, stage) in self.stages.iter().enumerate() {
            let Some(product) = &stage.product else {
                all.push(None);
                continue;
            };
            let formats = formats(product);
            let layout = Layout::new(product, stage.input, formats);
            let key = (at, formats[0], layout.integer_width());
            let weights = match self.packed.get(&key) {
                Some(known) => Arc::clone(known),
                None => {
                    let new = Arc::new(layout.pack(product)?);
                    self.packed.insert(key, Arc::clone(&new));
                    new
                }
            };
            all.push(Some(PreparedProduct { layout, weights, isa: Isa::best() }));
        }
        Ok(all)
    }

    /// Returns the caches that this trial reads and fills: one before each product whose formats
    /// are tuned.
    fn caches_for(&mut self, trial: &Trial) -> Vec<Option<Blocks>> {
        let images = self.sets[trial.subset as usize].len();
        let tuned: Vec<&str> = trial.assignment.iter().map(|(object, _)| object).collect();
        let mut before = Vec::new();
        let mut caches = Vec::new();
        for (at, stage) in self.stages.iter().enumerate() {
            let product = stage.product.as_ref().filter(|product| {
                at > 0 && names(product).iter().any(|name| tuned.contains(&name.as_str()))
            });
            let room = product.and_then(|_| {
                let key = Key { subset: trial.subset, stage: at, formats: before.clone() };
                let bytes = images * stage.input.len() * size_of::<f32>();
                let mut threads = (0..self.threads.len()).cycle();
                self.prefixes.room(key, images.div_ceil(BLOCK), bytes, |values| {
                    let thread = threads.next().expect("at least one thread");
                    self.threads[thread].spare.push(values);
                })
            });
            caches.push(room);
            before
                .extend(stage.product.as_ref().map(|product| formats(product, &trial.assignment)));
        }
        caches
    }
}

/// Distributes blocks to all threads until `is_over` returns true. The first error ends it.
fn share_out<M: Send, E: Send>(
    blocks: usize,
    threads: &mut [M],
    work: &(dyn Fn(usize, &mut M) -> Result<(), E> + Sync),
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let one = &|memory: &mut M| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= blocks || is_over() {
                return;
            }
            if let Err(error) = work(at, memory) {
                next.store(blocks, Ordering::Relaxed);
                *failure.lock().expect("no thread panics with the lock") = Some(error);
            }
        }
    };
    std::thread::scope(|scope| {
        let (first, others) = threads.split_first_mut().expect("at least one thread");
        for memory in others {
            // Without a further thread, the others do its part.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || one(memory));
        }
        one(first);
    });
    failure.into_inner().expect("no thread panics with the lock").map_or(Ok(()), Err)
}

impl Plan<'_> {
    /// Counts the images of a set with wrong answers. Stops when there are at least `enough`. Returns
    /// `None` if `is_asked` returned true before.
    fn errors(
        &self,
        threads: &mut [Memory],
        enough: Option<usize>,
        is_asked: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<usize>, NanError> {
        let errors = AtomicUsize::new(0);
        let is_cut = AtomicBool::new(false);
        let is_decided = || enough.is_some_and(|enough| errors.load(Ordering::Relaxed) >= enough);
        // Called only while blocks are left.
        let is_over = || {
            let is_asked = !is_decided() && is_asked();
            is_cut.fetch_or(is_asked, Ordering::Relaxed);
            is_asked || is_decided()
        };
        let work = |at: usize, memory: &mut Memory| -> Result<(), NanError> {
            errors.fetch_add(self.errors_of(at, memory)?, Ordering::Relaxed);
            Ok(())
        };
        share_out(self.blocks.len(), threads, &work, &is_over)?;
        let is_complete = is_decided() || !is_cut.into_inner();
        Ok(is_complete.then_some(errors.into_inner()))
    }

    fn errors_of(&self, block: usize, memory: &mut Memory) -> Result<usize, NanError> {
        let Memory { scratch, from, to, spare } = memory;
        let mut caches = self.caches.iter().enumerate().rev();
        let last = caches.find_map(|(at, cache)| Some((at, cache.as_ref()?[block].get()?)));
        let mut at = 0;
        match last {
            Some((first, values)) => {
                self.stages[first].run(self.ready[first].as_ref(), values, from, scratch)?;
                at = first + 1;
            }
            None => gather(self.images, self.stages[0].input, self.blocks[block], from),
        }
        while at < self.stages.len() {
            self.stages[at].run(self.ready[at].as_ref(), from, to, scratch)?;
            std::mem::swap(from, to);
            if let Some(cache) = &self.caches[at] {
                let values = std::mem::replace(to, spare.pop().unwrap_or_default());
                // No other thread computes this block.
                let _ = cache[block].set(values);
            }
            at += 1;
        }
        let outputs = from.len() / self.blocks[block].len();
        if let Some(leads) = self.leads {
            let scored =
                |(scores, sample): (&[f32], &usize)| (lead(scores, self.labels[*sample]), *sample);
            let found = from.chunks_exact(outputs).zip(self.blocks[block]).map(scored);
            leads.lock().expect("no thread panics with the lock").extend(found);
        }
        let is_right = |(scores, sample): (&[f32], &usize)| is_top(scores, self.labels[*sample]);
        let samples = from.chunks_exact(outputs).zip(self.blocks[block]);
        let Some(rights) = self.rights else {
            return Ok(samples.filter(|sample| !is_right(*sample)).count());
        };
        let found: Vec<bool> = samples.map(is_right).collect();
        let wrong = found.iter().filter(|right| !**right).count();
        rights.lock().expect("no thread panics with the lock").push((block, found));
        Ok(wrong)
    }
}

/// Returns the index of the largest score, the first of equal ones.
fn top(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (1..scores.len()).fold(0, better)
}

/// Class of an answer with NaN, which no label is.
pub const NO_CLASS: usize = usize::MAX;

/// Returns the class that an answer gives.
fn class(scores: &[f32]) -> usize {
    if scores.iter().any(|score| score.is_nan()) { NO_CLASS } else { top(scores) }
}

/// Returns whether a class has the largest score, the first of equal ones. No class of scores with
/// NaN does.
fn is_top(scores: &[f32], class: usize) -> bool {
    self::class(scores) == class
}

/// Returns by how much the score of the label exceeds all others; negative if it does not.
fn lead(scores: &[f32], label: usize) -> f32 {
    let others = scores.iter().enumerate().filter(|(at, _)| *at != label).map(|(_, score)| *score);
    scores[label] - others.fold(f32::NEG_INFINITY, f32::max)
}

/// Returns whether a model is a chain of layers.
pub(crate) fn is_chain(model: &Model) -> bool {
    read::is_chain(&in_floats(model))
}

/// Returns the names of the weights and the input of a product.
fn names(product: &Product) -> [String; 2] {
    [format!("{}.weight", product.name), format!("{}.input", product.name)]
}

fn formats(product: &Product, assignment: &Assignment) -> [Format; 2] {
    names(product).map(|name| assignment.format(&name))
}

/// Collects the images of a block one after the other.
fn gather(images: &[f32], shape: Shape, block: &[usize], to: &mut Vec<f32>) {
    to.clear();
    block.iter().for_each(|at| to.extend_from_slice(&images[at * shape.len()..][..shape.len()]));
}

/// Reorders values from channel, row, column to row, column, channel.
fn by_pixels(values: &[f32], shape: Shape) -> Vec<f32> {
    let (pixels, channels) = (shape.pixels(), shape.channels);
    let value = |at: usize| {
        let (image, rest) = (at / shape.len(), at % shape.len());
        values[image * shape.len() + rest % channels * pixels + rest / channels]
    };
    (0..values.len()).map(value).collect()
}
