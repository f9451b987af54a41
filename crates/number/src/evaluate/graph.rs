//! Evaluates trials of networks that are no chain: branches, attention, recurrent layers, groups of channels.
//!
//! Nodes are done one after the other, as ONNX says, on blocks of samples. Products with constant weights are
//! those of the chains: weights and inputs in their formats, of whole numbers exactly, and the rest is `f32`
//! (SPEC A9). Objects are the weights and inputs of `Conv`, `Gemm`, `MatMul` with weights, of `W` and `R` of
//! `LSTM`, `GRU` and `RNN`; and, without an input, their bias `B` and the tables of `Gather`. Products of two
//! activations have no format.
//!
//! What tuned layers are fed is kept for the next trials that have the same formats before it. A trial that has
//! more errors than it may have ends there. Neither changes what comes out.

mod agreement;
mod convolve;
mod each;
mod fed;
mod held;
mod read;
mod recurrent;
mod step;
mod target;
mod tensor;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dyno_onnx::Model;

pub use self::agreement::Agreement;
pub use self::fed::{Fed, Input, Right};
pub(super) use self::held::{Held, Weights};
use self::read::{Step, Steps};
use self::step::Trouble;
use self::target::{Context, Packed, Prepared, Seen};
use self::tensor::Tensor;
use super::cache::{Blocks, Key, Prefixes};
use super::stage::Scratch;
use super::{CACHE_BYTES, EvaluateError, top};
use crate::assignment::Assignment;
use crate::format::Format;
use crate::network::Layer;
use crate::tune::{Evaluation, Stop, Subset, Trial};

/// Samples that a thread takes at once.
const BLOCK: usize = 32;

/// A network with its samples, ready to evaluate trials.
#[derive(Debug)]
pub struct Graph {
    steps: Steps,
    /// By value: whose weights it depends on.
    ancestors: Vec<BTreeSet<usize>>,
    fed: Fed,
    /// What each sample's answer is in FLOAT(32).
    base: Vec<Vec<f32>>,
    /// By value: numbers of all samples.
    sizes: Vec<usize>,
    /// What targets are fed by the full set, in FLOAT(32).
    seen: Vec<Seen>,
    sets: [Vec<usize>; 3],
    packed: Packed,
    prefixes: Prefixes<Tensor>,
    threads: Vec<Scratch>,
}

/// What is the same for all blocks of a trial.
struct Plan<'a> {
    steps: &'a Steps,
    prepared: &'a [Prepared],
    /// By value, where it is kept.
    kept: &'a [Option<Blocks<Tensor>>],
    blocks: &'a [Vec<usize>],
    fed: &'a Fed,
}

/// Asks what has been computed.
struct Ask<'a> {
    /// A place a target.
    seen: &'a mut [Seen],
    /// A place a value.
    sizes: &'a mut [usize],
}

impl Graph {
    /// Reads a model, whose first output is the answer, sample by sample along its first axis. It is run once
    /// in FLOAT(32). The sets hold indices of samples: small, full, confirmation.
    ///
    /// # Errors
    /// The engine cannot do a node, or the samples do not fit the model.
    ///
    /// # Panics
    /// If an index of a set is that of no sample.
    pub fn new(model: &Model, fed: Fed, sets: [Vec<usize>; 3]) -> Result<Self, EvaluateError> {
        let steps = read::steps(model)?;
        fed.check(model)?;
        assert!(sets.iter().flatten().all(|at| *at < fed.count()), "indices of samples");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut found = Self {
            ancestors: ancestors(&steps),
            base: vec![Vec::new(); fed.count()],
            sizes: vec![0; steps.values],
            seen: vec![Seen::default(); steps.targets.len()],
            steps,
            fed,
            sets,
            packed: Packed::default(),
            prefixes: Prefixes::new(CACHE_BYTES),
            threads: (0..threads).map(|_| Scratch::default()).collect(),
        };
        found.measure()?;
        Ok(found)
    }

    /// With as many threads, and so many bytes for values that are kept.
    ///
    /// # Panics
    /// If there is no thread.
    #[must_use]
    pub fn with_limits(mut self, threads: usize, cache_bytes: usize) -> Self {
        assert!(threads > 0, "at least one thread");
        self.threads = (0..threads).map(|_| Scratch::default()).collect();
        self.prefixes = Prefixes::new(cache_bytes);
        self
    }

    /// All objects that an assignment may give formats to.
    #[must_use]
    pub fn objects(&self) -> Vec<String> {
        self.steps.targets.iter().flat_map(target::Target::names).collect()
    }

    /// The layers with weights, their sizes, and the largest magnitudes: of weights, and of what they are fed
    /// in FLOAT(32) by the full set. Sizes of activations are those of a sample, on average.
    #[must_use]
    pub fn profile(&self) -> Vec<Layer> {
        let samples = self.sets[Subset::Full as usize].len().max(1) as u64;
        let layer = |(target, seen): (&target::Target, &Seen)| Layer {
            name: target.name.clone(),
            parts: vec![target.name.clone()],
            weight_size: target.weights.len() as u64,
            activation_size: seen.values.div_ceil(samples),
            weight_max: target.weights.iter().fold(0.0_f32, |max, x| max.max(x.abs())).into(),
            activation_max: seen.max.into(),
            activation_min: Some(seen.min.into()),
            macs: seen.macs.div_ceil(samples),
            kind: target.kind,
        };
        self.steps.targets.iter().zip(&self.seen).map(layer).collect()
    }

    /// Answers of some samples, in their order.
    ///
    /// # Errors
    /// A value is NaN, and its format has none.
    ///
    /// # Panics
    /// If an index is that of no sample.
    pub fn answers(
        &mut self,
        assignment: &Assignment,
        samples: &[usize],
    ) -> Result<Vec<Vec<f32>>, Stop> {
        let prepared = self.prepared(assignment)?;
        let kept = vec![None; self.steps.values];
        let blocks: Vec<Vec<usize>> = samples.iter().map(|at| vec![*at]).collect();
        let plan = self.plan(&prepared, &kept, &blocks);
        let mut scratch = Scratch::default();
        let one = |at| plan.answers(at, &mut scratch, None).map(|mut all| all.remove(0));
        (0..blocks.len()).map(one).collect::<Result<_, _>>().map_err(|(_, why)| failed(&why))
    }

    /// The share of samples that are right. A trial that is sure to stay below [`Trial::decides`] gets a
    /// bound, the same however many threads there are. Seconds are left to whoever has a clock.
    ///
    /// # Errors
    /// The set has no samples, or a value is NaN, and its format has none.
    pub fn evaluate(&mut self, trial: &Trial) -> Result<Evaluation, Stop> {
        let count = self.sets[trial.subset as usize].len();
        if count == 0 {
            return Err(Stop::Failed(format!("the {} set has no samples", trial.subset)));
        }
        let prepared = self.prepared(&trial.assignment)?;
        let blocks = self.fed.blocks(&self.sets[trial.subset as usize], BLOCK);
        let kept = self.kept_for(trial, blocks.len());
        let mut threads = std::mem::take(&mut self.threads);
        let plan = self.plan(&prepared, &kept, &blocks);
        let share = |errors: usize| (count - errors) as f64 / count as f64;
        // The fewest errors that decide.
        let enough = trial.decides.and_then(|least| (0..=count).find(|n| share(*n) < least));
        let errors = AtomicUsize::new(0);
        let is_over = || enough.is_some_and(|enough| errors.load(Ordering::Relaxed) >= enough);
        let work = |at: usize, scratch: &mut Scratch| {
            let answers = plan.answers(at, scratch, None).map_err(|(_, why)| why)?;
            let is_wrong =
                |(answer, sample): &(&Vec<f32>, &usize)| !self.is_right(**sample, answer);
            let wrong = answers.iter().zip(&blocks[at]).filter(is_wrong).count();
            errors.fetch_add(wrong, Ordering::Relaxed);
            Ok(())
        };
        let done = share_out(blocks.len(), &mut threads, &work, &is_over);
        self.threads = threads;
        done.map_err(|why| failed(&why))?;
        let errors = errors.into_inner();
        let stopped = enough.filter(|enough| errors >= *enough);
        Ok(Evaluation {
            is_bound: stopped.is_some(),
            samples: Some(count as u64),
            ..Evaluation::of(share(stopped.unwrap_or(errors)))
        })
    }

    fn is_right(&self, sample: usize, answer: &[f32]) -> bool {
        match &self.fed.right {
            Right::Labels(labels) => top(answer) == labels[sample],
            Right::Agreement(agreement) => agreement.holds(answer, &self.base[sample]),
        }
    }

    fn prepared(&mut self, assignment: &Assignment) -> Result<Vec<Prepared>, Stop> {
        let prepared = self.packed.prepared(&self.steps.targets, |of| of.formats(assignment));
        prepared.map_err(|error| Stop::Failed(error.to_string()))
    }

    fn plan<'a>(
        &'a self,
        prepared: &'a [Prepared],
        kept: &'a [Option<Blocks<Tensor>>],
        blocks: &'a [Vec<usize>],
    ) -> Plan<'a> {
        Plan { steps: &self.steps, prepared, kept, blocks, fed: &self.fed }
    }

    /// Runs all samples in FLOAT(32): what answers are, what targets are fed, how large values are.
    fn measure(&mut self) -> Result<(), EvaluateError> {
        let full: BTreeSet<usize> = self.sets[Subset::Full as usize].iter().copied().collect();
        let others: Vec<usize> = (0..self.fed.count()).filter(|at| !full.contains(at)).collect();
        let full: Vec<usize> = full.into_iter().collect();
        let mut blocks = self.fed.blocks(&full, BLOCK);
        let seen_blocks = blocks.len();
        blocks.extend(self.fed.blocks(&others, BLOCK));
        let float = |_: &target::Target| [Format::F32; 2];
        let prepared = self.packed.prepared(&self.steps.targets, float);
        let prepared = prepared.map_err(|error| EvaluateError::Model(error.to_string()))?;
        let kept = vec![None; self.steps.values];
        let mut threads = std::mem::take(&mut self.threads);
        let plan = self.plan(&prepared, &kept, &blocks);
        let all = Mutex::new((self.base.clone(), self.seen.clone(), self.sizes.clone()));
        let wrong = Mutex::new(None);
        let work = |at: usize, scratch: &mut Scratch| {
            let mut seen = vec![Seen::default(); plan.steps.targets.len()];
            let mut sizes = vec![0; plan.steps.values];
            let ask = Ask { seen: &mut seen, sizes: &mut sizes };
            let answers = plan.answers(at, scratch, Some(ask)).map_err(|(step, why)| {
                *wrong.lock().expect("nobody panics with the lock") = Some(step);
                why
            })?;
            let mut all = all.lock().expect("nobody panics with the lock");
            let (base, of_targets, of_values) = &mut *all;
            blocks[at].iter().zip(answers).for_each(|(sample, answer)| base[*sample] = answer);
            of_values.iter_mut().zip(sizes).for_each(|(all, size)| *all += size);
            if at < seen_blocks {
                of_targets.iter_mut().zip(seen).for_each(|(all, seen)| all.join(seen));
            }
            Ok(())
        };
        let done = share_out(blocks.len(), &mut threads, &work, &|| false);
        let all = all.into_inner().expect("nobody panics with the lock");
        let step = wrong.into_inner().expect("nobody panics with the lock");
        done.map_err(|why| node_error(step.flatten().map(|at| &self.steps.steps[at]), &why))?;
        self.threads = threads;
        (self.base, self.seen, self.sizes) = all;
        self.fed.check_answers(&self.base)
    }

    /// Where this trial finds what others left, and leaves what the next ones find: before each target whose
    /// formats are tuned.
    fn kept_for(&mut self, trial: &Trial, blocks: usize) -> Vec<Option<Blocks<Tensor>>> {
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
        let mut kept = vec![None; steps.values];
        for value in worth.into_iter().filter(is_made) {
            let before = self.ancestors[value].iter();
            let formats = before.map(|at| steps.targets[*at].formats(&trial.assignment)).collect();
            let key = Key { subset: trial.subset, stage: value, formats };
            let numbers = self.sizes[value].saturating_mul(part) / self.fed.count();
            kept[value] = self.prefixes.room(key, blocks, numbers * size_of::<f32>(), drop);
        }
        kept
    }
}

impl Plan<'_> {
    /// Answers of a block's samples.
    ///
    /// # Errors
    /// Which step failed, and why.
    fn answers(
        &self,
        block: usize,
        scratch: &mut Scratch,
        ask: Option<Ask<'_>>,
    ) -> Result<Vec<Vec<f32>>, (Option<usize>, Trouble)> {
        let samples = &self.blocks[block];
        let (seen, mut sizes) = ask.map(|ask| (ask.seen, ask.sizes)).unzip();
        let targets = &self.steps.targets;
        let mut context = Context { targets, prepared: self.prepared, scratch, seen };
        let mut made = |value: usize, tensor: &Tensor| {
            if let Some(sizes) = &mut sizes {
                sizes[value] += tensor.values.len();
            }
            if let Some(kept) = &self.kept[value] {
                // Whoever was faster left the same.
                let _ = kept[block].set(tensor.clone());
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

    /// What is there before any step, with what was kept.
    fn begin(&self, block: usize, samples: &[usize]) -> Vec<Option<Tensor>> {
        let inputs = (0..self.steps.inputs.len()).map(|at| self.fed.gathered(at, samples));
        let mut values = self.steps.begin(inputs);
        for (value, kept) in self.kept.iter().enumerate() {
            if let Some(found) = kept.as_ref().and_then(|kept| kept[block].get()) {
                values[value] = Some(found.clone());
            }
        }
        values
    }
}

/// What the layers of a model are called: all of them, and that of each node's weights.
pub(crate) fn names(
    model: &Model,
) -> Result<(Vec<String>, BTreeMap<usize, String>), EvaluateError> {
    let steps = read::steps(model)?;
    // The first of a node with several is what it is fed with.
    let taken = steps.taken.iter().rev();
    let of_nodes = taken.map(|of| (of.node, steps.targets[of.target].name.clone())).collect();
    Ok((steps.targets.into_iter().map(|target| target.name).collect(), of_nodes))
}

/// Blocks for all threads, until somebody says that it is over. The first trouble ends it.
fn share_out(
    blocks: usize,
    threads: &mut [Scratch],
    work: &(dyn Fn(usize, &mut Scratch) -> Result<(), Trouble> + Sync),
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<(), Trouble> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let one = |scratch: &mut Scratch| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= blocks || is_over() {
                return;
            }
            if let Err(error) = work(at, scratch) {
                next.store(blocks, Ordering::Relaxed);
                *failure.lock().expect("nobody panics with the lock") = Some(error);
            }
        }
    };
    let one = &one;
    std::thread::scope(|scope| {
        let (first, others) = threads.split_first_mut().expect("at least one thread");
        for scratch in others {
            scope.spawn(move || one(scratch));
        }
        one(first);
    });
    failure.into_inner().expect("nobody panics with the lock").map_or(Ok(()), Err)
}

/// By value: all targets that it depends on.
fn ancestors(steps: &Steps) -> Vec<BTreeSet<usize>> {
    let mut found = vec![BTreeSet::new(); steps.values];
    for step in &steps.steps {
        let inputs = step.inputs.iter().flatten().flat_map(|value| found[*value].clone());
        let all: BTreeSet<usize> = inputs.chain(step.targets.iter().copied()).collect();
        step.outputs.iter().flatten().for_each(|value| found[*value] = all.clone());
    }
    found
}

fn told(why: &Trouble) -> String {
    match why {
        Trouble::Nan(error) => error.to_string(),
        Trouble::Misfit(why) => why.clone(),
    }
}

fn failed(why: &Trouble) -> Stop {
    Stop::Failed(told(why))
}

fn node_error(step: Option<&Step>, why: &Trouble) -> EvaluateError {
    match step {
        Some(Step { node: (op, name), .. }) => {
            EvaluateError::Node { op: op.clone(), name: name.clone(), what: told(why) }
        }
        None => EvaluateError::Model(told(why)),
    }
}
