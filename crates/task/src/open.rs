//! Opens a task: prepares the model, the samples and the judge that its card names.

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

/// A task that is ready to be measured.
#[derive(Debug)]
pub struct PreparedTask {
    /// The model that answers.
    pub model: TaskModel,
    /// The samples that the model is fed.
    pub samples: TensorLibrary,
    /// The judge of the answers; `None` if they are not judged.
    pub judge: Option<Judge>,
    /// Remarks on the files for the reader of the result, one sentence each.
    pub remarks: Vec<String>,
    /// The remarks that state that data differ from the reference's.
    pub other_data: Vec<String>,
}

/// The model of a task, or the pipeline of models.
pub enum TaskModel {
    /// Each batch is answered by one call of a model.
    Model {
        /// Path of the ONNX file.
        path: PathBuf,
        /// Conversion of the outputs to answers.
        answer: Answer,
        /// Maximum batch size of a model whose outputs have no batch dimension.
        largest_batch: Option<NonZero<usize>>,
    },
    /// Answers take several calls of one or more models.
    Pipeline(UnloadedPipeline),
}

impl TaskModel {
    /// Returns an engine for the samples of `library` with at most `largest_batch` samples per
    /// call. The engine has answered the first sample as a trial.
    ///
    /// # Errors
    /// ONNX Runtime is missing, the model does not load, or the samples do not fit it.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        largest_batch: NonZero<usize>,
        open: &ModelOpener<'_>,
    ) -> Result<Arc<dyn Engine>, OnnxError> {
        match self {
            Self::Model { path, answer, largest_batch: model_limit } => {
                let largest = model_limit.map_or(largest_batch, |most| most.min(largest_batch));
                let largest_batch = largest.get();
                let options = EngineOptions { answer, largest_batch, ..EngineOptions::default() };
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

/// Prepares a task: checks every file against its hash and a model of the user against the card,
/// opens the samples and references, and sets up the judge.
///
/// # Errors
/// A file is missing or wrong; the error names it.
///
/// # Panics
/// Panics if the card has no system.
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

/// Returns the remark that answers are not judged, with the options that supply the missing files;
/// `None` if no file is missing.
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

/// Returns the remark on a partial data set, or an error if there are more samples than the data
/// set has.
fn subset(
    card: &Card,
    system: &System,
    samples: &TensorLibrary,
) -> Result<Option<String>, OpenError> {
    let expected = card.data.accuracy_samples;
    let found = samples.total_sample_count() as u64;
    if found == expected {
        return Ok(None);
    }
    let (name, set) = (&card.name, &card.data.name);
    let is_aggregated = matches!(system.samples, Samples::Criteo | Samples::CriteoMultihot);
    if found > expected && is_aggregated {
        // A trace of smaller samples yields more of them; another remark reports the trace.
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
