//! Models that are called several times per sample: decoders with a cache, and chains of models.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ort::session::{Session, SessionInputValue};
use ort::value::DynValue;
use smallvec::SmallVec;

use super::{OrtModel, output, port, value};
use crate::engine::{EngineInfo, Port};
use crate::idle::idle;
use crate::infer::{RowModel, Value};
use crate::onnx::answer::Output;
use crate::onnx::{OnnxError, optional};
use crate::tensors::{Elements, ModelInput};

/// A model that can be called by as many threads at once as it has sessions.
///
/// It needs ONNX Runtime, so this example is compiled but runs only if the library is found:
///
/// ```
/// use dyno_sut::onnx::ort::{InputValue, OrtModel, OrtOptions};
/// use dyno_sut::onnx::runtime::Search;
/// use dyno_sut::tensors::Elements;
///
/// fn scores(model: OrtModel, ink: &[f32]) -> Result<Vec<f32>, String> {
///     let model = model.into_callable();
///     let inputs = [InputValue::Elements(&[1, 64], Elements::F32(ink.into()))];
///     let outputs = model.call(&inputs)?;
///     let (shape, elements) = outputs[0].read()?;
///     assert_eq!(shape, [1, 10]);
///     Ok(elements.to_f32().into_owned())
/// }
///
/// let search = Search { library: Some("missing.so".into()), ..Search::default() };
/// if let Ok(model) = OrtModel::open("digits.onnx".as_ref(), &search, OrtOptions::default()) {
///     assert_eq!(scores(model, &[0.0; 64]).map(|scores| scores.len()), Ok(10));
/// }
/// ```
pub struct CallableModel {
    name: String,
    path: PathBuf,
    inputs: Vec<ModelInput>,
    outputs: Vec<Port>,
    sessions: Vec<Mutex<Session>>,
    /// Number of the session that calls use if it is free.
    preferred: AtomicUsize,
}

/// Input of a call.
#[derive(Debug)]
pub enum InputValue<'a> {
    /// Shape and elements in row-major order.
    Elements(&'a [usize], Elements<'a>),
    /// Output of an earlier call of this or another model. It is not copied.
    Output(&'a OutputValue),
}

/// Output of a call, in the memory of ONNX Runtime.
pub struct OutputValue(DynValue);

impl CallableModel {
    pub(super) fn new(model: OrtModel) -> Self {
        let stem = model.path.file_stem().unwrap_or_default();
        // Exports of several models have one folder per model.
        let folder = model.path.parent().and_then(Path::file_name);
        let name = folder.filter(|_| stem == "model").unwrap_or(stem);
        let name = name.to_string_lossy().into_owned();
        let outputs = model.sessions[0].outputs().iter();
        let outputs = outputs.map(|output| port(output.name(), output.dtype())).collect();
        let sessions = model.sessions.into_iter().map(Mutex::new).collect();
        let preferred = AtomicUsize::new(0);
        Self { name, path: model.path, inputs: model.inputs, outputs, sessions, preferred }
    }

    /// Returns the stem of the file name; for `model.onnx`, the name of its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the inputs of a call, in their order.
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// Returns the outputs of a call, in their order.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Returns the maximum number of simultaneous calls.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sets the session that calls use if it is free. The first calls of each session are slow, so
    /// each has to be warmed up.
    ///
    /// # Panics
    /// If there is no session with this number.
    pub fn prefer(&self, session: usize) {
        assert!(session < self.sessions.len(), "there are {} sessions", self.sessions.len());
        self.preferred.store(session, Ordering::Relaxed);
    }

    /// Returns the model as an [`InferenceModel`](crate::infer::InferenceModel). A call has at most
    /// `largest_batch` rows of several requests.
    pub fn by_value(self, largest_batch: usize) -> RowModel {
        let (name, inputs) = (format!("onnxruntime-{}", self.name), self.inputs.clone());
        let info = EngineInfo {
            inputs: inputs.iter().map(Port::from).collect(),
            outputs: self.outputs.clone(),
            largest_batch,
            ..OrtModel::info()
        };
        let optional = optional::read(&self.path);
        let names = inputs.iter().chain(optional.iter().map(|(input, _)| input));
        let names: Vec<String> = names.map(|input| input.name.clone()).collect();
        let model = Arc::new(self);
        let read = |outputs: Vec<OutputValue>| {
            let read = |output: &OutputValue| {
                let (shape, elements) = output.read()?;
                Ok(Value { shape, elements: elements.into_owned() })
            };
            outputs.iter().map(read).collect::<Result<Vec<_>, String>>()
        };
        let overridden = {
            let model = Arc::clone(&model);
            move |values: &[Value]| read(model.call_by_name(&names, values)?)
        };
        let call = move |values: &[Value]| {
            let inputs = values.iter().map(|value| {
                let elements = value.elements.slice(0..value.elements.len());
                InputValue::Elements(&value.shape, elements)
            });
            read(model.call(&inputs.collect::<Vec<_>>())?)
        };
        RowModel::new(name, inputs, info, Box::new(call))
            .with_empty_dimensions()
            .with_optional(optional, Box::new(overridden))
    }

    /// Computes all outputs from inputs and overridden initializers by their names.
    fn call_by_name(&self, names: &[String], values: &[Value]) -> Result<Vec<OutputValue>, String> {
        let failed = |error: ort::Error| format!("{}: {error}", self.name);
        let mut inputs = Vec::with_capacity(names.len());
        for (name, Value { shape, elements }) in names.iter().zip(values) {
            inputs.push((name.as_str(), value(shape, elements).map_err(failed)?));
        }
        let mut session = idle(&self.sessions, self.preferred.load(Ordering::Relaxed));
        let outputs = session.run(inputs).map_err(failed)?;
        Ok(outputs.into_iter().map(|(_, value)| OutputValue(value)).collect())
    }

    /// Returns the position of the input with this name.
    ///
    /// # Errors
    /// [`OnnxError::Model`] with the names of all inputs.
    pub fn input(&self, name: &str) -> Result<usize, OnnxError> {
        let all: Vec<&str> = self.inputs.iter().map(|input| &input.name[..]).collect();
        self.place("input", name, &all)
    }

    /// Returns the position of the output with this name.
    ///
    /// # Errors
    /// [`OnnxError::Model`] with the names of all outputs.
    pub fn output(&self, name: &str) -> Result<usize, OnnxError> {
        let all: Vec<&str> = self.outputs.iter().map(|output| &output.name[..]).collect();
        self.place("output", name, &all)
    }

    fn place(&self, kind: &str, name: &str, all: &[&str]) -> Result<usize, OnnxError> {
        all.iter().position(|other| *other == name).ok_or_else(|| {
            self.unfit(format!("it has no {kind} '{name}'; it has {}", all.join(", ")))
        })
    }

    /// Returns the error that this model does not fit, with a reason.
    pub fn unfit(&self, why: String) -> OnnxError {
        OnnxError::Model { path: self.path.clone(), why }
    }

    /// Computes all outputs, in the order of [`CallableModel::outputs`], from all inputs, in the
    /// order of [`CallableModel::inputs`].
    ///
    /// # Errors
    /// The message of ONNX Runtime, with the name of the model.
    pub fn call(&self, inputs: &[InputValue<'_>]) -> Result<Vec<OutputValue>, String> {
        let failed = |error: ort::Error| format!("{}: {error}", self.name);
        let inputs =
            inputs.iter().map(InputValue::value).collect::<ort::Result<SmallVec<[_; 8]>>>();
        let inputs = inputs.map_err(failed)?;
        let mut session = idle(&self.sessions, self.preferred.load(Ordering::Relaxed));
        let outputs = session.run(&inputs[..]).map_err(failed)?;
        Ok(outputs.into_iter().map(|(_, value)| OutputValue(value)).collect())
    }
}

impl<'a> InputValue<'a> {
    fn value(&'a self) -> ort::Result<SessionInputValue<'a>> {
        match self {
            Self::Elements(shape, elements) => value(shape, elements),
            Self::Output(output) => Ok((&output.0).into()),
        }
    }
}

impl OutputValue {
    /// Returns the shape and the elements in row-major order.
    ///
    /// # Errors
    /// If the output is not a tensor of a supported type.
    pub fn read(&self) -> Result<(Vec<usize>, Elements<'_>), String> {
        let Output { shape, elements, .. } = output("", &self.0, 1);
        Ok((shape, elements.map_err(|why| format!("an output {why}"))?))
    }
}

impl fmt::Debug for OutputValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputValue").field(&self.0.dtype()).finish()
    }
}

impl fmt::Debug for CallableModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallableModel").field("name", &self.name).finish_non_exhaustive()
    }
}
