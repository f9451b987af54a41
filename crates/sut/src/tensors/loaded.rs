//! Samples of a source: prepared when they are loaded, freed when they are unloaded.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use dyno_loadgen::qsl::SampleIndex;

use super::{SampleTensor, Source};

/// The inputs of a prepared sample, or why it could not be prepared.
pub(crate) type Sample = Result<Arc<[SampleTensor]>, String>;

/// The samples of a source that are in memory, inputs only.
#[derive(Debug)]
pub(crate) struct Loaded {
    source: Arc<dyn Source>,
    /// Kept for as long as the library lives: a model is matched with it, tried and
    /// warmed up with it while nothing is loaded.
    first: Arc<[SampleTensor]>,
    samples: RwLock<HashMap<SampleIndex, Sample>>,
}

impl Loaded {
    /// Prepares the first sample.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn open(source: Arc<dyn Source>) -> Result<Self, String> {
        let first = checked(&*source, 0)?;
        Ok(Self { source, first, samples: RwLock::default() })
    }

    /// The names of the inputs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.source.inputs().iter().map(String::as_str)
    }

    /// Prepares those that are not there yet, on all cores. One that cannot be
    /// prepared stays in the table with the reason, for the queries that ask for it.
    pub(crate) fn load(&self, samples: &[SampleIndex]) {
        let missing: Vec<SampleIndex> = {
            let there = self.samples.read().unwrap_or_else(PoisonError::into_inner);
            let mut seen = HashSet::new();
            let is_new = |index: &SampleIndex| {
                !matches!(there.get(index), Some(Ok(_))) && seen.insert(*index)
            };
            samples.iter().copied().filter(is_new).collect()
        };
        let next = AtomicUsize::new(0);
        let work = || {
            // No two threads get the same position.
            while let Some(&index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sample = prepare(&*self.source, index);
                let mut samples = self.samples.write().unwrap_or_else(PoisonError::into_inner);
                samples.insert(index, sample);
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 1..cores.min(missing.len()) {
                scope.spawn(work);
            }
            work();
        });
    }

    /// Frees them, as soon as no call computes with them.
    pub(crate) fn unload(&self, samples: &[SampleIndex]) {
        let mut table = self.samples.write().unwrap_or_else(PoisonError::into_inner);
        for index in samples {
            table.remove(index);
        }
        // What a small set needs must not be what a large one needed.
        table.shrink_to_fit();
    }

    /// The sample that is loaded; nothing is prepared while the clock runs.
    pub(crate) fn loaded(&self, index: SampleIndex) -> Sample {
        let table = self.samples.read().unwrap_or_else(PoisonError::into_inner);
        match (table.get(&index), index) {
            (Some(sample), _) => sample.clone(),
            (None, 0) => Ok(Arc::clone(&self.first)),
            (None, _) => Err(format!("sample {index} of {} is not loaded", self.source.name())),
        }
    }

    /// Why those that are loaded could not be prepared, by their indices.
    pub(crate) fn broken(&self) -> Vec<String> {
        let table = self.samples.read().unwrap_or_else(PoisonError::into_inner);
        let why = |(index, sample): (&SampleIndex, &Sample)| Some((*index, sample.clone().err()?));
        let mut broken: Vec<(SampleIndex, String)> = table.iter().filter_map(why).collect();
        broken.sort_unstable();
        broken.into_iter().map(|(_, why)| why).collect()
    }

    /// The sample, prepared now if it is not loaded.
    pub(crate) fn sample(&self, index: SampleIndex) -> Sample {
        self.loaded(index).or_else(|_| prepare(&*self.source, index))
    }
}

/// Says of which sample the trouble is.
fn prepare(source: &dyn Source, index: SampleIndex) -> Sample {
    checked(source, index).map_err(|why| format!("sample {index} of {}: {why}", source.name()))
}

/// Checks what the source gives, so that it can be trusted from here on.
fn checked(source: &dyn Source, index: SampleIndex) -> Sample {
    let prepared = catch_unwind(AssertUnwindSafe(|| source.sample(index)));
    // The panic's message is on standard error; the other samples are loaded.
    let tensors = prepared.unwrap_or_else(|_| Err("its preparation panicked".into()))?;
    let names = source.inputs();
    if tensors.len() != names.len() {
        let (found, expected) = (tensors.len(), names.join(", "));
        return Err(format!("it has {found} inputs; expected {expected}"));
    }
    for (name, tensor) in names.iter().zip(&tensors) {
        let (shape, found) = (&tensor.shape, tensor.elements.len());
        if shape.iter().try_fold(1_usize, |all, &n| all.checked_mul(n)) != Some(found) {
            return Err(format!("input '{name}' has {found} elements and the shape {shape:?}"));
        }
    }
    Ok(tensors.into())
}
