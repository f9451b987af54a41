//! Models that whoever answers calls several times for a sample: decoders with a cache,
//! chains of models.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort::session::{Session, SessionInputValue};
use ort::value::DynValue;
use smallvec::SmallVec;

use super::{OrtModel, free, output, port, value};
use crate::engine::{About, Port};
use crate::infer::{Rows, Value};
use crate::onnx::OnnxError;
use crate::onnx::answer::Output;
use crate::tensors::{Elements, ModelInput};

/// A model to be called, by several threads at once where it has several sessions.
pub struct Callable {
    name: String,
    path: PathBuf,
    inputs: Vec<ModelInput>,
    outputs: Vec<Port>,
    sessions: Vec<Mutex<Session>>,
    /// The session that calls take if it is free.
    preferred: AtomicUsize,
}

/// An input of a call.
#[derive(Debug)]
pub enum Fed<'a> {
    /// Elements with their shape, row by row.
    Elements(&'a [usize], Elements<'a>),
    /// What an earlier call put out, of the same model or of another; it is not copied.
    Kept(&'a Kept),
}

/// What a call put out, in the memory of ONNX Runtime.
pub struct Kept(DynValue);

impl Callable {
    pub(super) fn new(model: OrtModel) -> Self {
        let stem = model.path.file_stem().unwrap_or_default();
        // Exports of several models have each in a folder of its own.
        let folder = model.path.parent().and_then(Path::file_name);
        let name = folder.filter(|_| stem == "model").unwrap_or(stem);
        let name = name.to_string_lossy().into_owned();
        let outputs = model.sessions[0].outputs().iter();
        let outputs = outputs.map(|output| port(output.name(), output.dtype())).collect();
        let sessions = model.sessions.into_iter().map(Mutex::new).collect();
        let preferred = AtomicUsize::new(0);
        Self { name, path: model.path, inputs: model.inputs, outputs, sessions, preferred }
    }

    /// The stem of its file's name; of a `model.onnx` that of its folder.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a call takes, in this order.
    #[must_use]
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// What a call puts out, in this order.
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Calls that may be in work at once.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Has calls take this session if it is free: what is slow at first is slow in each, and
    /// each is to be warmed up.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn prefer(&self, session: usize) {
        assert!(session < self.sessions.len(), "there are {} sessions", self.sessions.len());
        self.preferred.store(session, Ordering::Relaxed);
    }

    /// The same as a model that is asked by value, with at most so many rows of several
    /// requests in a call.
    #[must_use]
    pub fn by_value(self, largest_batch: usize) -> Rows {
        let (name, inputs) = (format!("onnxruntime-{}", self.name), self.inputs.clone());
        let about = About {
            inputs: inputs.iter().map(Port::from).collect(),
            outputs: self.outputs.clone(),
            largest_batch,
            ..OrtModel::about()
        };
        let call = move |values: &[Value]| {
            let fed = values.iter().map(|value| {
                let elements = value.elements.slice(0..value.elements.len());
                Fed::Elements(&value.shape, elements)
            });
            let kept = self.call(&fed.collect::<Vec<_>>())?;
            let read = |kept: &Kept| {
                let (shape, elements) = kept.read()?;
                Ok(Value { shape, elements: elements.into_owned() })
            };
            kept.iter().map(read).collect()
        };
        Rows::new(name, inputs, about, Box::new(call))
    }

    /// Where the input of this name stands.
    ///
    /// # Errors
    /// [`OnnxError::Model`] with those that there are.
    pub fn input(&self, name: &str) -> Result<usize, OnnxError> {
        let all: Vec<&str> = self.inputs.iter().map(|input| &input.name[..]).collect();
        self.place("input", name, &all)
    }

    /// Where the output of this name stands.
    ///
    /// # Errors
    /// [`OnnxError::Model`] with those that there are.
    pub fn output(&self, name: &str) -> Result<usize, OnnxError> {
        let all: Vec<&str> = self.outputs.iter().map(|output| &output.name[..]).collect();
        self.place("output", name, &all)
    }

    fn place(&self, kind: &str, name: &str, all: &[&str]) -> Result<usize, OnnxError> {
        all.iter().position(|known| *known == name).ok_or_else(|| {
            self.unfit(format!("it has no {kind} '{name}'; it has {}", all.join(", ")))
        })
    }

    /// The error that says why this model does not do.
    #[must_use]
    pub fn unfit(&self, why: String) -> OnnxError {
        OnnxError::Model { path: self.path.clone(), why }
    }

    /// Computes all outputs, in the order of [`Callable::outputs`], of all inputs, in the
    /// order of [`Callable::inputs`].
    ///
    /// # Errors
    /// ONNX Runtime's message, with the name of the model.
    pub fn call(&self, fed: &[Fed<'_>]) -> Result<Vec<Kept>, String> {
        let failed = |error: ort::Error| format!("{}: {error}", self.name);
        let fed = fed.iter().map(Fed::value).collect::<ort::Result<SmallVec<[_; 8]>>>();
        let fed = fed.map_err(failed)?;
        let mut session = free(&self.sessions, self.preferred.load(Ordering::Relaxed));
        let outputs = session.run(&fed[..]).map_err(failed)?;
        Ok(outputs.into_iter().map(|(_, value)| Kept(value)).collect())
    }
}

impl<'a> Fed<'a> {
    fn value(&'a self) -> ort::Result<SessionInputValue<'a>> {
        match self {
            Self::Elements(shape, elements) => value(shape, elements),
            Self::Kept(kept) => Ok((&kept.0).into()),
        }
    }
}

impl Kept {
    /// Its dimensions and its elements, row by row.
    ///
    /// # Errors
    /// If it is no tensor of a type that is read.
    pub fn read(&self) -> Result<(Vec<usize>, Elements<'_>), String> {
        let Output { shape, elements, .. } = output("", &self.0, 1);
        Ok((shape, elements?))
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.dtype()).finish()
    }
}

impl fmt::Debug for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callable").field("name", &self.name).finish_non_exhaustive()
    }
}
