//! Models in number formats of few bits, run by Dyno's own engine ([`dyno_number::evaluate::Packed`]).

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::sut::QuerySample;
use dyno_number::Dictionary;
use dyno_number::evaluate::{Packed, PackedFile, PackedLayer, Source, Workspace};

use super::answer::{Output, Outputs};
use super::feed::Feed;
use super::{EngineOptions, OnnxError};
use crate::engine::{About, Answers, Engine, Port};
use crate::infer::{Rows, Value};
use crate::tensors::{ElementType, Elements, ModelInput, TensorLibrary};

/// A model whose weights are packed, and whose input is known.
#[derive(Debug)]
pub struct TunedModel {
    path: PathBuf,
    packed: Packed,
    inputs: Vec<ModelInput>,
}

impl TunedModel {
    /// Reads a model, whose objects have these formats; FLOAT(32) where they have none.
    ///
    /// # Errors
    /// [`OnnxError`] if the engine cannot do the model, or it has not the objects of `formats`.
    pub fn open(path: &Path, formats: &Dictionary) -> Result<Self, OnnxError> {
        let packed = Packed::read(path, formats).map_err(|error| wrong(path, &error))?;
        Ok(Self::of(path, packed))
    }

    /// Reads a file of `dyno tune pack`; with a model, it has to be what that file was made of.
    ///
    /// # Errors
    /// [`OnnxError`] if the file does not read, or was made of another model.
    pub fn open_packed(path: &Path, model: Option<&Path>) -> Result<Self, OnnxError> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| wrong(path, &error));
        let file = PackedFile::from_bytes(&read(path)?).map_err(|error| wrong(path, &error))?;
        if let Some(model) = model {
            let (found, source) = (Source::of(model, &read(model)?), file.source());
            if found.sha256 != source.sha256 {
                let why = format!(
                    "was packed from another model: from {} with the SHA-256 {}, and {} has {}",
                    source.name,
                    source.sha256,
                    model.display(),
                    found.sha256
                );
                return Err(wrong(path, &why));
            }
        }
        let packed = file.network().map_err(|error| wrong(path, &error))?;
        Ok(Self::of(path, packed))
    }

    fn of(path: &Path, packed: Packed) -> Self {
        let (name, shape) = packed.input();
        let dimensions = std::iter::once(None).chain(shape.into_iter().map(Some));
        let input = ModelInput {
            name: name.to_owned(),
            element: ElementType::F32,
            shape: dimensions.collect(),
        };
        Self { path: path.to_path_buf(), packed, inputs: vec![input] }
    }

    /// The input that the model declares.
    #[must_use]
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// Layers with products: their formats, their bytes and how they are executed.
    #[must_use]
    pub fn layers(&self) -> &[PackedLayer] {
        self.packed.layers()
    }

    /// The same as a model that is asked by value, with at most so many rows of several
    /// requests in a call.
    #[must_use]
    pub fn by_value(self, largest_batch: usize) -> Rows {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let about = About { largest_batch, ..self.about() };
        let (name, packed) = (format!("tuned-{stem}"), self.packed);
        let call = move |values: &[Value]| {
            let numbers = values[0].elements.to_f32();
            WORKSPACE.with_borrow_mut(|workspace| {
                let scores = packed.run(&numbers, workspace).map_err(|error| error.to_string())?;
                let shape = vec![values[0].shape[0], packed.outputs()];
                Ok(vec![Value { shape, elements: Elements::F32(scores.to_vec().into()) }])
            })
        };
        Rows::new(name, self.inputs, about, Box::new(call))
    }

    fn about(&self) -> About {
        let output = Port {
            name: "scores".into(),
            element: ElementType::F32.to_string(),
            shape: vec![None, Some(self.packed.outputs())],
        };
        About {
            runtime: Some("dyno-number".into()),
            provider: Some(dyno_number::evaluate::instructions().to_owned()),
            inputs: self.inputs.iter().map(Port::from).collect(),
            outputs: vec![output],
            ..About::default()
        }
    }

    /// An engine that feeds the model from this library. It has answered sample 0 once.
    ///
    /// # Errors
    /// [`OnnxError`] if the samples do not fit the input, or a number of the first one is NaN where a format
    /// has none.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<TunedEngine, OnnxError> {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let feed = Feed::new(&self.inputs, library, options)?;
        let about = About { largest_batch: feed.largest_batch(), ..self.about() };
        let mut engine =
            TunedEngine { name: format!("tuned-{stem}"), packed: self.packed, feed, about };
        engine.about.first_call = Some(engine.feed.trial(&engine)?);
        Ok(engine)
    }
}

fn wrong(path: &Path, why: &dyn fmt::Display) -> OnnxError {
    OnnxError::Model { path: path.to_path_buf(), why: why.to_string() }
}

/// A model in its formats, and its samples. A call is computed by the thread that makes it.
pub struct TunedEngine {
    name: String,
    packed: Packed,
    feed: Feed,
    about: About,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

impl Engine for TunedEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        self.feed.answer(samples, answers, &mut |inputs, samples, take| {
            let numbers = inputs.first().map(|(_, elements)| elements.to_f32());
            let numbers = numbers.unwrap_or_default();
            WORKSPACE.with_borrow_mut(|workspace| {
                let scores = self.packed.run(&numbers, workspace);
                let scores = scores.map_err(|error| error.to_string())?;
                let output = Output {
                    name: "scores",
                    shape: vec![samples.len(), self.packed.outputs()],
                    elements: Ok(Elements::F32(scores.into())),
                    samples: samples.len(),
                };
                take(&Outputs::new([output]).of(samples))
            })
        });
    }

    fn trouble(&self) -> Option<&str> {
        self.feed.trouble()
    }

    fn about(&self) -> About {
        self.about.clone()
    }
}

impl fmt::Debug for TunedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunedEngine").field("name", &self.name).finish_non_exhaustive()
    }
}
