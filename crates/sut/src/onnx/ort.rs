//! Models on ONNX Runtime.

mod callable;

use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dyno_loadgen::sut::QuerySample;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, PrimitiveTensorElementType, TensorElementType, TensorRef, ValueType};
use smallvec::SmallVec;

use super::answer::{Output, Outputs};
use super::feed::Feed;
use super::runtime::{Search, environment, loaded};
use super::{EngineOptions, OnnxError, WITH_TENSORS};
use crate::engine::{Answers, Engine, EngineInfo, Port, repeat_first};
use crate::idle::idle;
use crate::tensors::{Element, Elements, ModelInput, Scalar, TensorLibrary, each_type};

pub use callable::{CallableModel, InputValue, OutputValue};

/// A loaded model with known inputs.
///
/// ```
/// use dyno_sut::onnx::OnnxError;
/// use dyno_sut::onnx::ort::{OrtModel, OrtOptions};
/// use dyno_sut::onnx::runtime::Search;
///
/// // ONNX Runtime is searched only at the path that the caller names.
/// let search = Search { library: Some("missing.so".into()), ..Search::default() };
/// let model = OrtModel::open("model.onnx".as_ref(), &search, OrtOptions::default());
/// assert!(matches!(model, Err(OnnxError::Runtime(_))));
/// ```
pub struct OrtModel {
    path: PathBuf,
    inputs: Vec<ModelInput>,
    sessions: Vec<Session>,
}

/// Options for loading a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrtOptions {
    /// Threads per call; 0 uses the default of ONNX Runtime.
    pub threads: usize,
    /// Maximum number of simultaneous calls. Each session has a copy of the weights.
    pub sessions: NonZero<usize>,
}

impl Default for OrtOptions {
    fn default() -> Self {
        Self { threads: 1, sessions: NonZero::<usize>::MIN }
    }
}

impl OrtModel {
    /// Finds ONNX Runtime and loads a model.
    ///
    /// # Errors
    /// [`OnnxError`] if ONNX Runtime is missing or does not load the model, or an input has a type
    /// that is not supported.
    pub fn open(path: &Path, search: &Search, options: OrtOptions) -> Result<Self, OnnxError> {
        let environment = environment(search)?;
        let load = || -> Result<Session, String> {
            let builder = Session::builder(&environment).map_err(|e| e.to_string())?;
            let mut builder = match options.threads {
                0 => builder,
                n => builder.with_intra_threads(n).map_err(|e| e.to_string())?,
            };
            builder.commit_from_file(path).map_err(|e| e.to_string())
        };
        let refused = |why| OnnxError::Model { path: path.to_path_buf(), why };
        let sessions = (0..options.sessions.get()).map(|_| load()).collect::<Result<Vec<_>, _>>();
        let sessions = sessions.map_err(refused)?;
        let declared = sessions[0].inputs().iter();
        let inputs = declared.map(|input| model_input(input.name(), input.dtype()));
        Ok(Self { path: path.to_path_buf(), inputs: inputs.collect::<Result<_, _>>()?, sessions })
    }

    /// Returns the inputs of the model.
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// Returns an engine that feeds the model from this library. It has answered sample 0 once.
    ///
    /// # Errors
    /// [`OnnxError`] if the samples do not fit the inputs or the model fails.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<OrtEngine, OnnxError> {
        let feed = Feed::new(&self.inputs, library, options)?;
        self.check_output(&feed)?;
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let outputs = self.sessions[0].outputs().iter();
        let outputs = outputs.map(|output| port(output.name(), output.dtype()));
        let info = EngineInfo {
            inputs: self.inputs.iter().map(Port::from).collect(),
            outputs: feed.answer_first(outputs.collect()),
            largest_batch: feed.largest_batch(),
            ..Self::info()
        };
        let mut engine = OrtEngine {
            name: format!("onnxruntime-{stem}"),
            sessions: self.sessions.into_iter().map(Mutex::new).collect(),
            feed,
            info,
        };
        (engine.info.first_call, engine.info.remarks) = engine.feed.trial(&engine)?;
        Ok(engine)
    }

    /// Checks that the output has numbers if the answers need only one.
    fn check_output(&self, feed: &Feed) -> Result<(), OnnxError> {
        let all = self.sessions[0].outputs();
        let needed: Vec<usize> = feed.outputs(all.len()).collect();
        let [own] = needed[..] else { return Ok(()) };
        if has_numbers(all[own].dtype()) {
            return Ok(());
        }
        let numeric = all.iter().filter(|output| has_numbers(output.dtype()));
        Err(OnnxError::OutputType {
            name: all[own].name().to_owned(),
            found: all[own].dtype().to_string(),
            numeric: numeric.map(|output| output.name().to_owned()).collect(),
        })
    }

    /// Returns the description that all engines on ONNX Runtime share.
    pub fn info() -> EngineInfo {
        let library = loaded();
        EngineInfo {
            runtime: library.as_ref().map(|(version, _)| format!("ONNX Runtime{version}")),
            library: library.map(|(_, path)| path),
            // No other provider is requested.
            provider: Some("CPUExecutionProvider".into()),
            ..EngineInfo::default()
        }
    }

    /// Returns a model that can be called with tensors.
    pub fn into_callable(self) -> CallableModel {
        CallableModel::new(self)
    }
}

impl fmt::Debug for OrtModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrtModel").field("path", &self.path).finish_non_exhaustive()
    }
}

fn model_input(name: &str, value: &ValueType) -> Result<ModelInput, OnnxError> {
    let unfit = || OnnxError::InputType { name: name.to_owned(), found: value.to_string() };
    let ValueType::Tensor { ty, shape, .. } = value else { return Err(unfit()) };
    let element = element_type(*ty).ok_or_else(unfit)?;
    // A dynamic dimension is -1.
    let shape = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    Ok(ModelInput { name: name.to_owned(), element, shape })
}

fn element_type(element: TensorElementType) -> Option<Element> {
    Some(match element {
        TensorElementType::Float32 => Element::F32,
        TensorElementType::Float64 => Element::F64,
        TensorElementType::Float16 => Element::F16,
        TensorElementType::Bfloat16 => Element::BF16,
        TensorElementType::Int64 => Element::I64,
        TensorElementType::Int32 => Element::I32,
        TensorElementType::Int8 => Element::I8,
        TensorElementType::Uint8 => Element::U8,
        TensorElementType::Bool => Element::Bool,
        _ => return None,
    })
}

fn has_numbers(value: &ValueType) -> bool {
    matches!(value, ValueType::Tensor { ty, .. } if element_type(*ty).is_some())
}

fn port(name: &str, value: &ValueType) -> Port {
    let ValueType::Tensor { ty, shape, .. } = value else {
        return Port { name: name.to_owned(), element: value.to_string(), shape: Vec::new() };
    };
    let element = element_type(*ty).map_or_else(|| ty.to_string(), |element| element.to_string());
    let shape = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    Port { name: name.to_owned(), element, shape }
}

/// Engine of a model and its samples.
pub struct OrtEngine {
    name: String,
    /// A session runs one call at a time.
    sessions: Vec<Mutex<Session>>,
    feed: Feed,
    info: EngineInfo,
}

impl OrtEngine {
    fn compute(&self, session: &mut Session, samples: &[QuerySample], answers: &mut Answers) {
        self.feed.answer(samples, answers, &mut |inputs, samples, take| {
            // Inputs are in the order of the model, which avoids a lookup by name.
            let values = inputs.iter().map(|(shape, elements)| value(shape, elements));
            let values = values.collect::<ort::Result<SmallVec<[_; 4]>>>();
            let values = values.map_err(|error| error.to_string())?;
            let outputs = session.run(&values[..]).map_err(|error| error.to_string())?;
            // Reading an output costs time, so only those that the answers need are read.
            let ports = &self.info.outputs;
            let ports = self.feed.outputs(ports.len()).zip(ports);
            let all = ports.map(|(index, port)| output(&port.name, &outputs[index], samples.len()));
            take(&Outputs::new(all).for_samples(samples))
        });
    }
}

fn value<'a>(shape: &'a [usize], elements: &'a Elements<'_>) -> ort::Result<SessionInputValue<'a>> {
    each_type!(elements, all => Ok(TensorRef::from_array_view((shape, &**all))?.into()))
}

fn output<'a>(name: &'a str, value: &'a DynValue, samples: usize) -> Output<'a> {
    fn read<T: Scalar + PrimitiveTensorElementType>(
        value: &DynValue,
    ) -> Result<(Vec<usize>, Elements<'_>), String> {
        let (shape, all) = value.try_extract_tensor::<T>().map_err(|error| error.to_string())?;
        // Dimensions of a computed tensor are never negative.
        let shape = shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
        Ok((shape, T::wrap(all.into())))
    }
    let element = match value.dtype() {
        ValueType::Tensor { ty, .. } => element_type(*ty),
        _ => None,
    };
    let read = match element {
        Some(Element::F32) => read::<f32>(value),
        Some(Element::F64) => read::<f64>(value),
        Some(Element::F16) => read::<half::f16>(value),
        Some(Element::BF16) => read::<half::bf16>(value),
        Some(Element::I64) => read::<i64>(value),
        Some(Element::I32) => read::<i32>(value),
        Some(Element::I8) => read::<i8>(value),
        Some(Element::U8) => read::<u8>(value),
        Some(Element::Bool) => read::<bool>(value),
        _ => Err(format!("is {}, not a tensor of numbers; {WITH_TENSORS}", value.dtype())),
    };
    let (shape, elements) = match read {
        Ok((shape, elements)) => (shape, Ok(elements)),
        Err(why) => (Vec::new(), Err(why)),
    };
    Output { name, shape, elements, samples }
}

impl Engine for OrtEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        self.compute(&mut idle(&self.sessions, 0), samples, answers);
    }

    /// Warms up each session, because the first calls of each are slow.
    fn warm_up(&self, calls: usize, samples: NonZero<usize>) {
        for session in &self.sessions {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            repeat_first(calls, samples, |samples, answers| {
                self.compute(&mut session, samples, answers);
            });
        }
    }

    fn failure_reason(&self) -> Option<&str> {
        self.feed.failure_reason()
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }
}

impl fmt::Debug for OrtEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrtEngine").field("name", &self.name).finish_non_exhaustive()
    }
}
