//! Evaluates trials of models that are not chains: branches, attention, recurrent layers, groups of
//! channels.
//!
//! Nodes are computed one after the other, as ONNX defines them, on blocks of samples. Products
//! with constant weights are computed as in chains: weights and inputs are quantized to their
//! formats, integer formats are multiplied exactly, and everything else is `f32` (SPEC A9). Objects
//! are the weights and inputs of `Conv`, `Gemm`, `MatMul` with weights, and of `W` and `R` of
//! `LSTM`, `GRU` and `RNN`. The biases `B` of the latter and the tables of `Gather` are objects
//! without an input. Products of two activations have no format.
//!
//! The input of each tuned layer is cached for the next trial with equal formats before it. A trial
//! stops when it has more errors than it may have. Neither changes the results.

mod agreement;
mod convolve;
mod elementwise;
mod packed;
mod qdq;
mod quantize;
mod read;
mod recurrent;
mod samples;
mod scaled;
mod step;
mod target;
mod tensor;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dyno_onnx::{Model, Port, in_floats};

pub use self::agreement::Agreement;
pub(super) use self::packed::{PackableTensor, PackedGraph};
pub use self::qdq::{QdqError, QdqModel, QdqObject, QdqOptions};
use self::read::{Step, Steps};
pub use self::samples::{CorrectnessRule, GraphInput, GraphSamples};
pub use self::scaled::{
    ScaledChoice, ScaledFormat, ScaledLayer, ScaledModel, ScaledRung, ScaledSearch,
};
use self::step::StepError;
use self::target::{Context, InputStats, PreparedGraph, WeightCache};
use self::tensor::Tensor;
use super::cache::{Blocks, Key, Prefixes};
use super::stage::Scratch;
use super::{CACHE_BYTES, EvaluateError, class, in_parentheses, is_top, share_out};
use crate::assignment::Assignment;
use crate::confirm::SampleOutcomes;
use crate::format::Format;
use crate::network::Layer;
use crate::tune::{Evaluation, Stop, Subset, Trial};

/// Samples that a thread computes together, if the model has a batch.
const BLOCK: usize = 32;

/// Difference between equal answers, relative to the largest number: sums may have another order.
const SAME_ANSWER: f32 = 1e-3;

/// Evaluates trials of a model that need not be a chain.
///
/// ```
/// use dyno_number::evaluate::graph::{
///     Agreement, CorrectnessRule, GraphEvaluator, GraphInput, GraphSamples,
/// };
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("small", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let weight = net.weight("fc1.weight", &[4, 4], Fill::he(4))?;
/// let y = net.node("MatMul", &[&x, &weight], &[])?;
/// let sum = net.node("Add", &[&x, &y], &[])?;
/// net.output("sum", &sum)?;
///
/// let inputs = vec![GraphInput { dims: vec![4], values: vec![0.5; 2 * 4] }];
/// let correctness = CorrectnessRule::Agreement(Agreement::Cosine(0.99));
/// let samples = GraphSamples { inputs, lengths: None, correctness };
/// let sets = [vec![0], vec![0, 1], Vec::new()];
/// let evaluator = GraphEvaluator::new(&net.finish(), samples, sets)?;
/// assert_eq!(evaluator.objects(), ["fc1.weight", "fc1.input"]);
/// assert_eq!(evaluator.profile()[0].activation_max, 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GraphEvaluator {
    steps: Steps,
    /// For each value, the targets on which it depends.
    ancestors: Vec<BTreeSet<usize>>,
    samples: GraphSamples,
    /// Answer to each sample in FLOAT(32).
    base: Vec<Vec<f32>>,
    /// For each value, its total number of elements over all samples.
    sizes: Vec<usize>,
    /// Statistics of each target's inputs on the full set, in FLOAT(32).
    stats: Vec<InputStats>,
    sets: [Vec<usize>; 3],
    packed: WeightCache,
    prefixes: Prefixes<Tensor>,
    threads: Vec<Scratch>,
    /// Most samples that a thread computes together.
    block: usize,
}

/// What all blocks of a trial share.
struct Plan<'a> {
    steps: &'a Steps,
    prepared: &'a [PreparedGraph],
    /// For each value, its cache, if there is one.
    caches: &'a [Option<Blocks<Tensor>>],
    blocks: &'a [Vec<usize>],
    samples: &'a GraphSamples,
}

/// Statistics that are collected during an execution.
struct Probe<'a> {
    /// One entry per target.
    stats: &'a mut [InputStats],
    /// One entry per value.
    sizes: &'a mut [usize],
}

impl GraphEvaluator {
    /// Reads a model and runs it once in FLOAT(32). Its first output is the answer, with the
    /// samples along the first axis. `sets` holds indices of samples: small, full, confirmation.
    ///
    /// # Errors
    /// The engine does not support a node, or the samples do not fit the model.
    ///
    /// # Panics
    /// If a set contains the index of a sample that does not exist.
    pub fn new(
        model: &Model,
        samples: GraphSamples,
        sets: [Vec<usize>; 3],
    ) -> Result<Self, EvaluateError> {
        let model = &*in_floats(model);
        let steps = read::steps(model)?;
        samples.check(model)?;
        assert!(sets.iter().flatten().all(|at| *at < samples.count()), "indices of samples");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let block = if steps.shares_scales() { 1 } else { BLOCK };
        let mut found = Self {
            ancestors: ancestors(&steps),
            base: vec![Vec::new(); samples.count()],
            sizes: vec![0; steps.values],
            stats: vec![InputStats::default(); steps.targets.len()],
            steps,
            samples,
            sets,
            packed: WeightCache::default(),
            prefixes: Prefixes::new(CACHE_BYTES),
            threads: (0..threads).map(|_| Scratch::default()).collect(),
            block,
        };
        let first = |port: &Port| port.shape.as_ref()?.first()?.fixed();
        let is_single = model.inputs.iter().any(|port| first(port) == Some(1));
        match found.measure() {
            Ok(()) if found.is_independent() => return Ok(found),
            Err(why) if !is_single => return Err(why),
            // Samples of a call influence each other, or a model of one sample does not take several.
            _ => {}
        }
        found.block = 1;
        found.threads = (0..threads).map(|_| Scratch::default()).collect();
        found.stats.fill(InputStats::default());
        found.sizes.fill(0);
        found.measure()?;
        Ok(found)
    }

    /// Returns whether some samples have the same answers alone as in their blocks.
    fn is_independent(&mut self) -> bool {
        let count = self.samples.count();
        if self.block == 1 || count == 1 {
            return true;
        }
        let some = [0, count / 2, count - 1];
        let together = some.map(|at| self.base[at].clone());
        let finite = together.iter().flatten().filter(|x| x.is_finite());
        let largest = finite.fold(0.0_f32, |most, x| most.max(x.abs()));
        let is_near = |(a, b): (&f32, &f32)| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= SAME_ANSWER * largest
        };
        let none = Assignment::new(Vec::new(), Vec::new());
        self.answers(&none, &some).is_ok_and(|alone| {
            together.iter().zip(&alone).all(|(together, alone)| {
                together.len() == alone.len() && together.iter().zip(alone).all(is_near)
            })
        })
    }

    /// Sets the number of threads, and the size of the cache in bytes.
    ///
    /// # Panics
    /// If `threads` is 0.
    #[must_use]
    pub fn with_limits(mut self, threads: usize, cache_bytes: usize) -> Self {
        assert!(threads > 0, "at least one thread");
        self.threads = (0..threads).map(|_| Scratch::default()).collect();
        self.prefixes = Prefixes::new(cache_bytes);
        self
    }

    /// Returns the names of all objects that an assignment may contain. The answer depends on each.
    pub fn objects(&self) -> Vec<String> {
        let used = self.steps.used_targets();
        used.into_iter().flat_map(|at| self.steps.targets[at].names()).collect()
    }

    /// Returns the names of the layers on which the answer does not depend. Another output may.
    pub fn unused_layers(&self) -> Vec<String> {
        let used = self.steps.used_targets();
        let targets = self.steps.targets.iter().enumerate();
        let unused = targets.filter(|(at, _)| !used.contains(at));
        unused.map(|(_, target)| target.name.clone()).collect()
    }

    /// Returns the layers with weights on which the answer depends: their sizes and the largest
    /// magnitudes of weights and inputs, the latter in FLOAT(32) on the full set. Sizes of activations
    /// are averages per sample.
    pub fn profile(&self) -> Vec<Layer> {
        let samples = self.sets[Subset::Full as usize].len().max(1) as u64;
        let layer = |(target, stats): (&target::Target, &InputStats)| Layer {
            name: target.name.clone(),
            parts: vec![target.name.clone()],
            weight_size: target.weights.len() as u64,
            activation_size: stats.values.div_ceil(samples),
            weight_max: target.weights.iter().fold(0.0_f32, |max, x| max.max(x.abs())).into(),
            activation_max: stats.max.into(),
            activation_min: Some(stats.min.into()),
            macs: stats.macs.div_ceil(samples),
            kind: target.kind,
        };
        let used = self.steps.used_targets();
        let all = self.steps.targets.iter().zip(&self.stats).enumerate();
        all.filter(|(at, _)| used.contains(at)).map(|(_, found)| layer(found)).collect()
    }

    /// Returns the weights of a layer in FLOAT(32); `None` if there is no layer with this name.
    pub fn weights(&self, layer: &str) -> Option<&[f32]> {
        let mut targets = self.steps.targets.iter();
        targets.find(|target| target.name == layer).map(|target| &target.weights[..])
    }

    /// Returns the answers to some samples in their order.
    ///
    /// # Errors
    /// A value is NaN, and its format has none.
    ///
    /// # Panics
    /// If a sample does not exist.
    pub fn answers(
        &mut self,
        assignment: &Assignment,
        samples: &[usize],
    ) -> Result<Vec<Vec<f32>>, Stop> {
        let prepared = self.prepared(assignment)?;
        let caches = vec![None; self.steps.values];
        let blocks: Vec<Vec<usize>> = samples.iter().map(|at| vec![*at]).collect();
        let plan = self.plan(&prepared, &caches, &blocks);
        let mut scratch = Scratch::default();
        let one = |at| plan.answers(at, &mut scratch, None).map(|mut all| all.remove(0));
        (0..blocks.len()).map(one).collect::<Result<_, _>>().map_err(|(_, why)| failed(&why))
    }

    /// Returns the share of samples with a correct answer. A trial that is certain to stay below
    /// [`Trial::decides`] gets a bound, which does not depend on the number of threads. `seconds`
    /// stays 0.
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
            return Err(Stop::Failed(format!("the {} set has no samples", trial.subset)));
        }
        let prepared = self.prepared(&trial.assignment)?;
        let blocks = self.samples.blocks(&self.sets[trial.subset as usize], self.block);
        let caches = self.caches_for(trial, blocks.len());
        let mut threads = std::mem::take(&mut self.threads);
        let plan = self.plan(&prepared, &caches, &blocks);
        let share = |errors: usize| (count - errors) as f64 / count as f64;
        // Fewest errors with which the accuracy is below `decides`.
        let enough = trial.decides.and_then(|least| (0..=count).find(|n| share(*n) < least));
        let errors = AtomicUsize::new(0);
        let is_decided = || enough.is_some_and(|enough| errors.load(Ordering::Relaxed) >= enough);
        let is_cut = AtomicBool::new(false);
        // Called only while blocks are left.
        let is_over = || {
            let is_asked = !is_decided() && is_asked();
            is_cut.fetch_or(is_asked, Ordering::Relaxed);
            is_asked || is_decided()
        };
        let is_confirmation = trial.subset == Subset::Confirmation;
        let rights = Mutex::new(BTreeMap::new());
        let work = |at: usize, scratch: &mut Scratch| -> Result<(), StepError> {
            let answers = plan.answers(at, scratch, None).map_err(|(_, why)| why)?;
            let is_right = |(answer, sample): (&Vec<f32>, &usize)| self.is_right(*sample, answer);
            let found: Vec<bool> = answers.iter().zip(&blocks[at]).map(is_right).collect();
            errors.fetch_add(found.iter().filter(|right| !**right).count(), Ordering::Relaxed);
            if is_confirmation {
                let found = blocks[at].iter().copied().zip(found);
                rights.lock().expect("no thread panics with the lock").extend(found);
            }
            Ok(())
        };
        let done = share_out(blocks.len(), &mut threads, &work, &is_over);
        self.threads = threads;
        done.map_err(|why| failed(&why))?;
        if is_cut.into_inner() && !is_decided() {
            return Err(Stop::Interrupted);
        }
        let errors = errors.into_inner();
        let stopped = enough.filter(|enough| errors >= *enough);
        let rights = rights.into_inner().expect("no thread panics with the lock");
        let in_order = self.sets[trial.subset as usize].iter();
        let in_order = in_order.map(|sample| rights.get(sample).copied().unwrap_or(false));
        Ok(Evaluation {
            outcomes: is_confirmation.then(|| SampleOutcomes::from_right(in_order)),
            is_bound: stopped.is_some(),
            samples: Some(count as u64),
            ..Evaluation::from_accuracy(share(stopped.unwrap_or(errors)))
        })
    }

    /// Returns the index of the largest number of the answers to some samples, in FLOAT(32), or
    /// [`NO_CLASS`](super::NO_CLASS).
    ///
    /// # Panics
    /// If a sample does not exist.
    pub fn predictions(&self, samples: &[usize]) -> Vec<usize> {
        samples.iter().map(|at| class(&self.base[*at])).collect()
    }

    /// Returns the share of all samples whose answers in FLOAT(32) agree with one answer that is the same
    /// for all of them. `None` with labels.
    pub fn constant_share(&self) -> Option<f64> {
        match &self.samples.correctness {
            CorrectnessRule::Labels(_) => None,
            CorrectnessRule::Agreement(agreement) => agreement.constant_share(&self.base),
        }
    }

    fn is_right(&self, sample: usize, answer: &[f32]) -> bool {
        match &self.samples.correctness {
            CorrectnessRule::Labels(labels) => is_top(answer, labels[sample]),
            CorrectnessRule::Agreement(agreement) => agreement.holds(answer, &self.base[sample]),
        }
    }

    fn prepared(&mut self, assignment: &Assignment) -> Result<Vec<PreparedGraph>, Stop> {
        let prepared =
            self.packed.prepared(&self.steps.targets, |target| target.formats(assignment));
        prepared.map_err(|error| Stop::Failed(error.to_string()))
    }

    fn plan<'a>(
        &'a self,
        prepared: &'a [PreparedGraph],
        caches: &'a [Option<Blocks<Tensor>>],
        blocks: &'a [Vec<usize>],
    ) -> Plan<'a> {
        Plan { steps: &self.steps, prepared, caches, blocks, samples: &self.samples }
    }

    /// Runs all samples in FLOAT(32) and stores the answers, the statistics of inputs, and the
    /// sizes of values.
    fn measure(&mut self) -> Result<(), EvaluateError> {
        let full: BTreeSet<usize> = self.sets[Subset::Full as usize].iter().copied().collect();
        let others: Vec<usize> =
            (0..self.samples.count()).filter(|at| !full.contains(at)).collect();
        let full: Vec<usize> = full.into_iter().collect();
        let mut blocks = self.samples.blocks(&full, self.block);
        let full_blocks = blocks.len();
        blocks.extend(self.samples.blocks(&others, self.block));
        let float = |_: &target::Target| [Format::F32; 2];
        let prepared = self.packed.prepared(&self.steps.targets, float);
        let prepared = prepared.map_err(|error| EvaluateError::Model(error.to_string()))?;
        let caches = vec![None; self.steps.values];
        let mut threads = std::mem::take(&mut self.threads);
        let plan = self.plan(&prepared, &caches, &blocks);
        let all = Mutex::new((self.base.clone(), self.stats.clone(), self.sizes.clone()));
        let wrong = Mutex::new(None);
        let work = |at: usize, scratch: &mut Scratch| -> Result<(), StepError> {
            let mut stats = vec![InputStats::default(); plan.steps.targets.len()];
            let mut sizes = vec![0; plan.steps.values];
            let probe = Probe { stats: &mut stats, sizes: &mut sizes };
            let answers = plan.answers(at, scratch, Some(probe)).map_err(|(step, why)| {
                *wrong.lock().expect("no thread panics with the lock") = Some(step);
                why
            })?;
            let mut all = all.lock().expect("no thread panics with the lock");
            let (base, all_stats, all_sizes) = &mut *all;
            blocks[at].iter().zip(answers).for_each(|(sample, answer)| base[*sample] = answer);
            all_sizes.iter_mut().zip(sizes).for_each(|(all, size)| *all += size);
            if at < full_blocks {
                all_stats.iter_mut().zip(stats).for_each(|(all, stats)| all.join(stats));
            }
            Ok(())
        };
        let done = share_out(blocks.len(), &mut threads, &work, &|| false);
        let all = all.into_inner().expect("no thread panics with the lock");
        let step = wrong.into_inner().expect("no thread panics with the lock");
        done.map_err(|why| node_error(step.flatten().map(|at| &self.steps.steps[at]), &why))?;
        self.threads = threads;
        (self.base, self.stats, self.sizes) = all;
        self.samples.check_answers(&self.base)
    }

    /// Returns the caches that this trial reads and fills: one for the input of each target whose
    /// formats are tuned.
    fn caches_for(&mut self, trial: &Trial, blocks: usize) -> Vec<Option<Blocks<Tensor>>> {
        let tuned: BTreeSet<&str> = trial.assignment.iter().map(|(object, _)| object).collect();
        let steps = &self.steps;
        let is_tuned = |target: &usize| {
            steps.targets[*target].names().iter().any(|name| tuned.contains(name.as_str()))
        };
        let constant: BTreeSet<usize> = steps.constants.iter().map(|(value, _)| *value).collect();
        let of_steps = steps.steps.iter().filter(|step| step.targets.iter().any(is_tuned));
        let worth: BTreeSet<usize> = of_steps.filter_map(|step| *step.inputs.first()?).collect();
        let is_made = |value: &usize| !constant.contains(value) && !steps.inputs.contains(value);
        let part = self.sets[trial.subset as usize].len();
        let mut caches = vec![None; steps.values];
        for value in worth.into_iter().filter(is_made) {
            let before = self.ancestors[value].iter();
            let formats = before.map(|at| steps.targets[*at].formats(&trial.assignment)).collect();
            let key = Key { subset: trial.subset, stage: value, formats };
            let numbers = self.sizes[value].saturating_mul(part) / self.samples.count();
            caches[value] = self.prefixes.room(key, blocks, numbers * size_of::<f32>(), drop);
        }
        caches
    }
}

impl Plan<'_> {
    /// Computes the answers to the samples of a block.
    ///
    /// # Errors
    /// The index of the failed step, if there is one, and the reason.
    fn answers(
        &self,
        block: usize,
        scratch: &mut Scratch,
        probe: Option<Probe<'_>>,
    ) -> Result<Vec<Vec<f32>>, (Option<usize>, StepError)> {
        let samples = &self.blocks[block];
        let (stats, mut sizes) = probe.map(|probe| (probe.stats, probe.sizes)).unzip();
        let targets = &self.steps.targets;
        let mut context = Context { targets, prepared: self.prepared, scratch, stats };
        let mut made = |value: usize, tensor: &Tensor| {
            if let Some(sizes) = &mut sizes {
                sizes[value] += tensor.values.len();
            }
            if let Some(cache) = &self.caches[value] {
                // Another thread may have stored equal values already.
                let _ = cache[block].set(tensor.clone());
            }
        };
        let values = self.begin(block, samples);
        let answer = self.steps.answer(values, &mut context, &mut made);
        let answer = answer.map_err(|(at, why)| (Some(at), why))?;
        if answer.dims.first() != Some(&samples.len()) {
            let why = format!("gives {:?} for {} samples", answer.dims, samples.len());
            return Err((self.steps.steps.len().checked_sub(1), why.into()));
        }
        let each = answer.values.len() / samples.len();
        Ok((0..samples.len()).map(|at| answer.values[at * each..][..each].to_vec()).collect())
    }

    /// Returns the values that exist before any step: inputs, constants and cached values.
    fn begin(&self, block: usize, samples: &[usize]) -> Vec<Option<Tensor>> {
        let inputs = (0..self.steps.inputs.len()).map(|at| self.samples.gathered(at, samples));
        let mut values = self.steps.begin(inputs);
        for (value, cache) in self.caches.iter().enumerate() {
            if let Some(found) = cache.as_ref().and_then(|cache| cache[block].get()) {
                values[value] = Some(found.clone());
            }
        }
        values
    }
}

/// Returns the names of all layers of a model, and the name of each node's layer.
pub(crate) fn names(
    model: &Model,
) -> Result<(Vec<String>, BTreeMap<usize, String>), EvaluateError> {
    let steps = read::outline(&in_floats(model))?;
    // The first target of a node multiplies its input, so it overrides the others.
    let uses = steps.uses.iter().rev();
    let of_nodes =
        uses.map(|first| (first.node, steps.targets[first.target].name.clone())).collect();
    Ok((steps.targets.into_iter().map(|target| target.name).collect(), of_nodes))
}

/// Returns the targets on which each value depends.
fn ancestors(steps: &Steps) -> Vec<BTreeSet<usize>> {
    let mut found = vec![BTreeSet::new(); steps.values];
    for step in &steps.steps {
        let inputs = step.inputs.iter().flatten().flat_map(|value| found[*value].clone());
        let all: BTreeSet<usize> = inputs.chain(step.targets.iter().copied()).collect();
        step.outputs.iter().flatten().for_each(|value| found[*value] = all.clone());
    }
    found
}

fn message(why: &StepError) -> String {
    match why {
        StepError::Nan(error) => error.to_string(),
        StepError::Mismatch(why) => why.clone(),
        StepError::Row { number, count } => format!("has no row {number} of {count}"),
    }
}

fn failed(why: &StepError) -> Stop {
    Stop::Failed(message(why))
}

fn node_error(step: Option<&Step>, why: &StepError) -> EvaluateError {
    let Some(Step { node: (op, name), .. }) = step else {
        return EvaluateError::Model(message(why));
    };
    match why {
        // The samples are wrong, and not the model.
        StepError::Row { number, count } => EvaluateError::Samples {
            expected: format!(
                "row numbers of {op}{} from -{count} to {}",
                in_parentheses(name),
                count.saturating_sub(1)
            ),
            found: number.to_string(),
        },
        _ => EvaluateError::Node { op: op.clone(), name: name.clone(), what: message(why) },
    }
}
