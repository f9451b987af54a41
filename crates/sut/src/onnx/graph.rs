//! Models on `dyno-graph`, Dyno's own executor of graphs.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dyno_graph::{Graph, Oracle, Session, SessionOptions, Verification};
use dyno_loadgen::sut::QuerySample;

use super::answer::{Output, Outputs};
use super::feed::Feed;
use super::{EngineOptions, OnnxError, optional};
use crate::engine::{Answers, Engine, EngineInfo, Port, repeat_first};
use crate::idle::idle;
use crate::infer::{RowModel, Value};
use crate::tensors::{Elements, ModelInput, TensorLibrary};

/// Maximum multiplications of the evaluator that verifies a model when it is loaded: seconds.
const VERIFIED_WORK: u64 = 500_000_000;

/// A loaded model with known inputs.
///
/// ```
/// use dyno_graph::SessionOptions;
/// use dyno_sut::digits::Perceptron;
/// use dyno_sut::onnx::graph::GraphModel;
///
/// let path = std::env::temp_dir().join(format!("dyno-graph-{}.onnx", std::process::id()));
/// std::fs::write(&path, Perceptron::trained().to_onnx())?;
/// let model = GraphModel::open(&path, &SessionOptions::default(), 1.try_into()?)?;
/// assert_eq!(model.inputs()[0].name, "ink");
/// std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphModel {
    path: PathBuf,
    inputs: Vec<ModelInput>,
    outputs: Vec<Port>,
    sessions: Vec<Mutex<Session>>,
    options: SessionOptions,
}

impl GraphModel {
    /// Reads a model. At most `sessions` calls run at once, each with its own threads; they share the
    /// weights.
    ///
    /// # Errors
    /// [`OnnxError`] if the file cannot be read, a node is not supported, or an input has a type that
    /// is not supported.
    pub fn open(
        path: &Path,
        options: &SessionOptions,
        sessions: NonZero<usize>,
    ) -> Result<Self, OnnxError> {
        let refused = |why: String| OnnxError::Model { path: path.to_path_buf(), why };
        let model = dyno_onnx::Model::read(path).map_err(|error| refused(error.to_string()))?;
        let graph = Graph::new(&model).map_err(|error| refused(error.to_string()))?;
        if options.precision != SessionOptions::default().precision && !graph.is_recurrent() {
            let why = "has no recurrent node, to which precision= applies";
            return Err(refused(why.to_owned()));
        }
        let inputs = graph.inputs().iter().map(|port| {
            let of = Port::from(port);
            let Some(element) = port.element.filter(|of| Elements::TYPES.contains(of)) else {
                return Err(OnnxError::InputType { name: of.name, found: of.element });
            };
            if port.shape.is_none() {
                return Err(refused(format!("input '{}' has no declared dimensions", of.name)));
            }
            Ok(ModelInput { name: of.name, element, shape: of.shape })
        });
        let inputs = inputs.collect::<Result<_, _>>()?;
        let outputs = graph.outputs().iter().map(Port::from).collect();
        let graph = Arc::new(graph);
        let session = |_| Mutex::new(Session::new(Arc::clone(&graph), options));
        let sessions = (0..sessions.get()).map(session).collect();
        let (path, options) = (path.to_path_buf(), options.clone());
        Ok(Self { path, inputs, outputs, sessions, options })
    }

    /// Returns the inputs of the model.
    pub fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    /// Compares the outputs for these inputs with an evaluator that shares no code with this engine.
    #[must_use]
    pub fn verify(&self, inputs: &[Value]) -> Verification {
        let oracle = match Oracle::read(&self.path, VERIFIED_WORK) {
            Ok(oracle) => oracle,
            Err(reason) => return Verification::Unjudged(reason),
        };
        match inputs.iter().map(|value| of_elements(&value.shape, &value.elements)).collect() {
            Ok::<Vec<_>, _>(inputs) => oracle.verify(&mut idle(&self.sessions, 0), &inputs),
            Err(reason) => Verification::Unjudged(reason),
        }
    }

    /// Returns an engine that feeds the model from this library. It has answered sample 0 once.
    ///
    /// # Errors
    /// [`OnnxError`] if the samples do not fit the inputs or the model fails.
    pub fn engine(
        self,
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<GraphEngine, OnnxError> {
        let feed = Feed::new(&self.inputs, library, options)?;
        let info = EngineInfo {
            outputs: feed.answer_first(self.outputs.clone()),
            largest_batch: feed.largest_batch(),
            ..self.info()
        };
        let mut engine = GraphEngine { name: self.name(), sessions: self.sessions, feed, info };
        (engine.info.first_call, engine.info.remarks) = engine.feed.trial(&engine)?;
        Ok(engine)
    }

    /// Returns the model without samples. A call has at most `largest_batch` rows of several requests.
    pub fn by_value(self, largest_batch: usize) -> RowModel {
        let info = EngineInfo { largest_batch, ..self.info() };
        let (name, inputs, sessions) = (self.name(), self.inputs, self.sessions);
        let call = move |values: &[Value]| run(&mut idle(&sessions, 0), values);
        let model = RowModel::new(name, inputs, info, Box::new(call)).with_empty_dimensions();
        let optional = optional::read(&self.path);
        let names: Vec<String> = optional.iter().map(|(input, _)| input.name.clone()).collect();
        let (path, options) = (self.path, self.options);
        let overridden = move |values: &[Value]| {
            let (inputs, own) = values.split_at(values.len().saturating_sub(names.len()));
            let mut session = overridden(&path, names.iter().zip(own), &options)?;
            run(&mut session, inputs)
        };
        model.with_optional(optional, Box::new(overridden))
    }

    fn name(&self) -> String {
        format!("dyno-graph-{}", self.path.file_stem().unwrap_or_default().to_string_lossy())
    }

    fn info(&self) -> EngineInfo {
        EngineInfo {
            runtime: Some(format!("dyno-graph {}", env!("CARGO_PKG_VERSION"))),
            inputs: self.inputs.iter().map(Port::from).collect(),
            outputs: self.outputs.clone(),
            ..EngineInfo::default()
        }
    }
}

impl From<&dyno_onnx::Port> for Port {
    fn from(port: &dyno_onnx::Port) -> Self {
        let element = port.element.map_or("unknown".into(), |of| of.to_string());
        let shape = port.shape.iter().flatten().map(dyno_onnx::Dim::fixed).collect();
        Self { name: port.name.clone(), element, shape }
    }
}

fn of_elements(shape: &[usize], elements: &Elements<'_>) -> Result<dyno_graph::Value, String> {
    dyno_graph::Value::from_elements(shape, elements.slice(0..elements.len()))
}

/// Computes all outputs from all inputs.
fn run(session: &mut Session, values: &[Value]) -> Result<Vec<Value>, String> {
    let inputs = values.iter().map(|value| of_elements(&value.shape, &value.elements));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
    let read = |(output, port): (&dyno_graph::Value, &dyno_onnx::Port)| {
        let elements = output.elements(port.element.unwrap_or(output.element()));
        let elements = elements.ok_or("an output does not have the declared type")?;
        Ok(Value { shape: output.dims().to_vec(), elements: elements.into_owned() })
    };
    outputs.iter().zip(session.graph().outputs()).map(read).collect()
}

/// Returns a session of a file whose initializers have these values. It is built for one call, because
/// initializers are folded and packed.
fn overridden<'a>(
    path: &Path,
    values: impl Iterator<Item = (&'a String, &'a Value)>,
    options: &SessionOptions,
) -> Result<Session, String> {
    let mut model = dyno_onnx::Model::read(path).map_err(|error| error.to_string())?;
    for (name, Value { shape, elements }) in values {
        let tensor = model.tensors.iter_mut().find(|tensor| tensor.name == *name);
        let tensor = tensor.ok_or_else(|| format!("the file has no initializer '{name}'"))?;
        let mut bytes = Vec::new();
        elements.write(&mut bytes);
        tensor.shape.clone_from(shape);
        tensor.values = dyno_onnx::Values::Bytes(bytes);
    }
    let graph = Graph::new(&model).map_err(|error| error.to_string())?;
    Ok(Session::new(Arc::new(graph), options))
}

/// Engine of a model and its samples.
pub struct GraphEngine {
    name: String,
    sessions: Vec<Mutex<Session>>,
    feed: Feed,
    info: EngineInfo,
}

impl GraphEngine {
    fn compute(&self, session: &mut Session, samples: &[QuerySample], answers: &mut Answers) {
        self.feed.answer(samples, answers, &mut |inputs, samples, take| {
            let values = inputs.iter().map(|(shape, elements)| of_elements(shape, elements));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            let outputs = session.run(&values).map_err(|error| error.to_string())?;
            let ports = session.graph().outputs();
            let all = self.feed.outputs(ports.len()).map(|index| {
                let (port, value) = (&ports[index], &outputs[index]);
                let elements = value.elements(port.element.unwrap_or(value.element()));
                let elements = elements.ok_or_else(|| {
                    format!("has elements of type {}, not the declared one", value.element())
                });
                let (name, samples) = (&port.name[..], samples.len());
                Output { name, shape: value.dims().to_vec(), elements, samples }
            });
            take(&Outputs::new(all).for_samples(samples))
        });
    }
}

impl Engine for GraphEngine {
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
