//! Opens a task: what its card names becomes what can be measured.

use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_sut::engine::Engine;
use dyno_sut::onnx::{Answer, EngineOptions, OnnxError};
use dyno_sut::tensors::TensorLibrary;

use crate::card::{Card, Tier};
use crate::data::SampleSet;
use crate::files::{Files, OpenError, Replacements};
use crate::judge::{Judge, judge};
use crate::pipelines::{self, ModelOpener, PipelineLoader};
use crate::system::{Samples, System};

mod model;
mod samples;

/// A task whose files are there.
#[derive(Debug)]
pub struct PreparedTask {
    /// What answers.
    pub model: TaskModel,
    /// What it is fed.
    pub samples: TensorLibrary,
    /// How its answers are judged.
    pub judge: Option<Judge>,
    /// What whoever reads the result must know of the files, a sentence each.
    pub remarks: Vec<String>,
    /// Those of them that say that data are others than the reference's.
    pub other_data: Vec<String>,
}

/// What answers the samples of a task.
pub enum TaskModel {
    /// A call of a model.
    Model {
        /// An ONNX file.
        path: PathBuf,
        /// What is made of the outputs.
        answer: Answer,
        /// Samples in a call at most, where outputs have no dimension for them.
        largest_batch: Option<NonZero<usize>>,
    },
    /// Several calls of models.
    Pipeline(UnloadedPipeline),
}

impl TaskModel {
    /// The engine that answers samples of this library, at most so many in a call. It has
    /// been tried on the first one.
    ///
    /// # Errors
    /// A missing ONNX Runtime, a model that does not load, or samples that do not fit it.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        largest_batch: NonZero<usize>,
        open: &ModelOpener<'_>,
    ) -> Result<Arc<dyn Engine>, OnnxError> {
        match self {
            Self::Model { path, answer, largest_batch: model_limit } => {
                let largest = model_limit.map_or(largest_batch, |most| most.min(largest_batch));
                let options = EngineOptions { answer, largest_batch: largest.get() };
                Ok(Arc::new(open(&path)?.engine(library, options)?))
            }
            Self::Pipeline(UnloadedPipeline(load)) => {
                pipelines::engine(load, library, largest_batch.get(), open)
            }
        }
    }
}

impl fmt::Debug for TaskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { path, answer, largest_batch } => f
                .debug_struct("Model")
                .field("path", path)
                .field("answer", answer)
                .field("largest_batch", largest_batch)
                .finish(),
            Self::Pipeline(_) => f.write_str("Pipeline"),
        }
    }
}

/// A pipeline whose models are not loaded yet.
pub struct UnloadedPipeline(pub(crate) PipelineLoader);

/// Makes a task ready to be measured: every file is held against its hash, a model of the
/// user's against what the card feeds and reads, the first sample is prepared, references
/// are read.
///
/// # Errors
/// What is missing or wrong, and where.
///
/// # Panics
/// If the card has no system.
pub fn open(files: &Files<'_>) -> Result<PreparedTask, OpenError> {
    let card = files.card();
    let system = card.system.as_ref().expect("asked of cards with a system");
    files.check()?;
    let Replacements { weights, data: other_data } = files.replacements()?;
    let mut remarks = [weights, other_data.clone()].concat();
    let (model, binding) = model::task_model(system, files, &mut remarks)?;
    let read = samples::read(system, files, binding)?;
    let SampleSet { samples, references, networks, remarks: sample_remarks } = read;
    remarks.extend(sample_remarks);
    remarks.extend(subset(card, system, &samples)?);
    let judge = match (&card.quality, unjudged(files)) {
        (Some(quality), None) => {
            let judge = Judge { networks, ..judge(quality, files, references)? };
            judge.references().map_err(OpenError::content)?;
            Some(judge)
        }
        (_, why) => {
            remarks.extend(why);
            None
        }
    };
    Ok(PreparedTask { model, samples, judge, remarks, other_data })
}

/// Why answers are not judged, and how they are later.
fn unjudged(files: &Files<'_>) -> Option<String> {
    let missing: Vec<String> =
        files.unjudged().into_iter().map(|name| format!("--with {name}=FILE")).collect();
    let name = &files.card().name;
    (!missing.is_empty()).then(|| {
        format!(
            "answers are not judged without {}; dyno task score {name} with all files judges the \
             accuracy log of a run later",
            missing.join(" ")
        )
    })
}

/// What is told of a part of the data set of a benchmark.
fn subset(
    card: &Card,
    system: &System,
    samples: &TensorLibrary,
) -> Result<Option<String>, OpenError> {
    let (expected, found) = (card.data.accuracy_samples, samples.total_sample_count() as u64);
    if found == expected {
        return Ok(None);
    }
    let (name, set) = (&card.name, &card.data.name);
    let is_aggregated = matches!(system.samples, Samples::Criteo | Samples::CriteoMultihot);
    if found > expected && is_aggregated {
        // Of smaller samples there are more; that the trace is another is told.
        return Ok(None);
    }
    if card.tier != Tier::Official {
        return Ok(Some(format!(
            "{found} samples; the target of the task is of the {expected} of {set}"
        )));
    }
    if found > expected {
        let error = format!("{name}: expected the {expected} samples of {set}, found {found}");
        return Err(OpenError::content(error));
    }
    Ok(Some(format!(
        "{found} of the {expected} samples of {set}: a part of the data set, whose results cannot \
         be submitted"
    )))
}
