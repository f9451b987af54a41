//! Samples of a source, which are prepared when they are loaded and freed when they are unloaded.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use dyno_loadgen::qsl::SampleIndex;

use super::{SampleTensor, Source};

/// Inputs of a prepared sample, or the reason why it could not be prepared.
pub(crate) type Sample = Result<Arc<[SampleTensor]>, String>;

/// Samples of a source that are in memory. Only inputs are held.
#[derive(Debug)]
pub(crate) struct LoadedSamples {
    source: Arc<dyn Source>,
    /// First sample, kept as long as the library exists. It is used to match, try and warm up a
    /// model while no samples are loaded.
    first: Arc<[SampleTensor]>,
    samples: RwLock<HashMap<SampleIndex, Sample>>,
}

impl LoadedSamples {
    /// Prepares the first sample.
    ///
    /// # Errors
    /// The reason why it cannot be prepared.
    pub(crate) fn open(source: Arc<dyn Source>) -> Result<Self, String> {
        let first = checked(&*source, 0)?;
        Ok(Self { source, first, samples: RwLock::default() })
    }

    /// Returns the names of the inputs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.source.inputs().iter().map(String::as_str)
    }

    /// Prepares samples that are not in memory, on all cores. For a sample that cannot be prepared,
    /// the reason is stored for the queries that request it.
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
            // Each thread gets a different position.
            while let Some(&index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sample = prepare(&*self.source, index);
                let mut samples = self.samples.write().unwrap_or_else(PoisonError::into_inner);
                samples.insert(index, sample);
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 1..cores.min(missing.len()) {
                // Without a further thread, this one prepares all samples.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// Frees samples. Memory that a call still uses is freed after the call.
    pub(crate) fn unload(&self, samples: &[SampleIndex]) {
        let mut table = self.samples.write().unwrap_or_else(PoisonError::into_inner);
        for index in samples {
            table.remove(index);
        }
        // A small set must not keep the memory of a large one.
        table.shrink_to_fit();
    }

    /// Returns a loaded sample. Nothing is prepared, because the clock may be running.
    pub(crate) fn loaded(&self, index: SampleIndex) -> Sample {
        let table = self.samples.read().unwrap_or_else(PoisonError::into_inner);
        match (table.get(&index), index) {
            (Some(sample), _) => sample.clone(),
            (None, 0) => Ok(Arc::clone(&self.first)),
            (None, _) => Err(format!("sample {index} of {} is not loaded", self.source.name())),
        }
    }

    /// Returns the reasons why loaded samples could not be prepared, by their index.
    pub(crate) fn broken(&self) -> Vec<String> {
        let table = self.samples.read().unwrap_or_else(PoisonError::into_inner);
        let why = |(index, sample): (&SampleIndex, &Sample)| Some((*index, sample.clone().err()?));
        let mut broken: Vec<(SampleIndex, String)> = table.iter().filter_map(why).collect();
        broken.sort_unstable();
        broken.into_iter().map(|(_, why)| why).collect()
    }

    /// Returns a sample. It is prepared now if it is not loaded.
    pub(crate) fn sample(&self, index: SampleIndex) -> Sample {
        self.loaded(index).or_else(|_| prepare(&*self.source, index))
    }
}

/// Prepares a sample. Errors name the sample.
fn prepare(source: &dyn Source, index: SampleIndex) -> Sample {
    checked(source, index).map_err(|why| format!("sample {index} of {}: {why}", source.name()))
}

/// Prepares a sample and checks that it has the inputs that the source declares.
fn checked(source: &dyn Source, index: SampleIndex) -> Sample {
    let prepared = catch_unwind(AssertUnwindSafe(|| source.sample(index)));
    // The panic's message is on standard error. Other samples are still loaded.
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
