//! A function of Python as an engine, in processes of its own.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use dyno_sut::python::{PythonEngine, PythonFunction, Place};
//! use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
//!
//! let elements = Elements::F32(vec![0.5; 4].into());
//! let tensor = Tensor { name: "x".into(), sample_shape: vec![2], elements };
//! let library = Arc::new(TensorLibrary::new("pairs", vec![tensor], None)?);
//! let function = PythonFunction::new("python3", Place::File("model.py".into()), "predict");
//! let engine = PythonEngine::start(function, &library)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod frame;
mod interpreter;
mod process;

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};
use thiserror::Error;

use self::frame::{Kind, Output};
use self::process::{CallError, Process};
use crate::engine::{Answers, Engine, EngineInfo, Port};
use crate::idle::idle;
use crate::tensors::TensorLibrary;

pub use frame::SampleForm;
pub use interpreter::find_python;

/// Where a function is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file, whose folder is searched for further modules first.
    File(PathBuf),
    /// A module that the interpreter finds.
    Module(String),
}

/// A function of Python, and how it is called.
#[derive(Debug, Clone)]
pub struct PythonFunction {
    /// Interpreter.
    pub python: PathBuf,
    /// Where the function is defined.
    pub place: Place,
    /// Its name; attributes of attributes are separated by dots. A class is instantiated.
    pub name: String,
    /// Number of processes, each with its own import.
    pub processes: NonZero<usize>,
    /// Maximum duration of a call, ns.
    pub timeout: Nanos,
    /// Maximum number of samples per call.
    pub largest_batch: NonZero<usize>,
    /// Form in which the function receives samples.
    pub form: SampleForm,
    /// Whether answers are classes: the position of the greatest output, or the output itself.
    pub is_classifier: bool,
}

impl PythonFunction {
    /// Returns a function with one process, calls of at most 32 samples and 60 s.
    pub fn new(python: impl Into<PathBuf>, place: Place, name: impl Into<String>) -> Self {
        Self {
            python: python.into(),
            place,
            name: name.into(),
            processes: NonZero::<usize>::MIN,
            timeout: TIMEOUT,
            largest_batch: NonZero::new(32).expect("32 is not 0"),
            form: SampleForm::default(),
            is_classifier: false,
        }
    }

    /// Returns the function as specifications name it, such as `model.py:predict`.
    fn title(&self) -> String {
        match &self.place {
            Place::File(path) => format!("{}:{}", path.display(), self.name),
            Place::Module(module) => format!("{module}:{}", self.name),
        }
    }
}

/// Default limit of a call.
pub const TIMEOUT: Nanos = 60_000_000_000;

/// Limit of an import and of the first call, which may load a model.
const START: Nanos = 600_000_000_000;

/// Error: a function of Python cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PythonError {
    /// The interpreter does not start.
    #[error("Python ({}) does not start: {why}; python=PATH names another interpreter", .python.display())]
    Interpreter {
        /// The interpreter.
        python: PathBuf,
        /// Error of the operating system.
        why: String,
    },
    /// The module cannot be imported, or has no such function.
    #[error("{title} cannot be imported by {}: {why}", .python.display())]
    Import {
        /// The function.
        title: String,
        /// The interpreter.
        python: PathBuf,
        /// Words of the exception.
        why: String,
    },
    /// The first call fails.
    #[error("{title} fails on sample 0: {why}")]
    Trial {
        /// The function.
        title: String,
        /// Words of the exception.
        why: String,
    },
}

/// An engine that calls a function of Python. See the [module](self).
#[derive(Debug)]
pub struct PythonEngine {
    name: String,
    title: String,
    function: PythonFunction,
    library: Arc<TensorLibrary>,
    processes: Vec<Mutex<Process>>,
    info: EngineInfo,
    failure_reason: OnceLock<String>,
}

impl PythonEngine {
    /// Starts the processes, imports the function in each, and calls it once with sample 0.
    ///
    /// # Errors
    /// [`PythonError`] if the interpreter does not start, the import fails, or the call fails.
    pub fn start(
        function: PythonFunction,
        library: &Arc<TensorLibrary>,
    ) -> Result<Self, PythonError> {
        let title = function.title();
        let inputs: Vec<String> =
            library.first_sample().iter().map(|(name, _)| (*name).to_owned()).collect();
        let hello = hello(&function, &inputs);
        let mut started = Vec::new();
        for _ in 0..function.processes.get() {
            let process = Process::start(&function.python, function.timeout);
            let mut process = process.map_err(|error| PythonError::Interpreter {
                python: function.python.clone(),
                why: error.to_string(),
            })?;
            process.payload.extend_from_slice(hello.as_bytes());
            started.push(process);
        }
        let mut versions = String::new();
        for process in &mut started {
            let ready = process.ask(Kind::Hello, Kind::Ready, Some(START));
            let ready = ready.map_err(|error| PythonError::Import {
                title: title.clone(),
                python: function.python.clone(),
                why: words(error),
            })?;
            versions = runtime(ready);
        }
        let mut engine = Self {
            name: format!("python-{}", function.name),
            title,
            library: Arc::clone(library),
            processes: started.into_iter().map(Mutex::new).collect(),
            info: EngineInfo {
                runtime: Some(versions),
                library: Some(function.python.clone()),
                largest_batch: function.largest_batch.get(),
                inputs: inputs_of(library),
                ..EngineInfo::default()
            },
            function,
            failure_reason: OnceLock::new(),
        };
        engine.info.first_call = Some(engine.try_first()?);
        Ok(engine)
    }

    /// Calls the function with sample 0 in each process, and notes the shape of its output. Returns
    /// how long the first call took.
    fn try_first(&mut self) -> Result<Nanos, PythonError> {
        let clock = Clock::start();
        let sample = QuerySample { id: ResponseId(1), index: 0 };
        let (mut first, mut port) = (None, None);
        for process in &self.processes {
            let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
            let read = |outputs: &[Output<'_>]| match outputs.first() {
                Some(Output::Failure(why)) => Err((*why).to_owned()),
                Some(output) if self.function.is_classifier => {
                    output.class().map(|_| port_of(output))
                }
                first => Ok(first.and_then(port_of)),
            };
            let output = self.outputs(&mut process, &[sample], Some(START), read);
            let output = output.and_then(|port| port.map_err(CallError::Raised));
            port = output.map_err(|error| {
                let (title, why) = (self.title.clone(), words(error));
                PythonError::Trial { title, why }
            })?;
            first.get_or_insert_with(|| clock.now());
        }
        self.info.outputs.extend(port);
        Ok(first.unwrap_or_default())
    }

    /// Calls the function with samples and passes its outputs, as many as samples, to `read`.
    fn outputs<T>(
        &self,
        process: &mut Process,
        samples: &[QuerySample],
        limit: Option<Nanos>,
        read: impl FnOnce(&[Output<'_>]) -> T,
    ) -> Result<T, CallError> {
        let payload = &mut process.payload;
        frame::begin_call(payload, samples.len());
        for sample in samples {
            let view = self.library.view(sample.index).map_err(CallError::Raised)?;
            for input in (0..).map_while(|at| view.input(at)) {
                frame::push(payload, input, self.function.form);
            }
        }
        let reply = process.ask(Kind::Call, Kind::Answers, limit)?;
        let outputs = frame::outputs(reply).filter(|outputs| outputs.len() == samples.len());
        let outputs = outputs
            .ok_or_else(|| CallError::Broken("its reply has not one output per sample".into()))?;
        Ok(read(&outputs))
    }

    /// Adds the answers of a call.
    fn write(&self, samples: &[QuerySample], outputs: &[Output<'_>], answers: &mut Answers) {
        for (sample, output) in samples.iter().zip(outputs) {
            let class = self.function.is_classifier.then(|| output.class());
            match (class, output) {
                (Some(Ok(class)), _) => answers.push(sample.id, &class.to_le_bytes()),
                (Some(Err(why)), _) => self.fail(&[*sample], &why, answers),
                (None, Output::Failure(why)) => self.fail(&[*sample], why, answers),
                (None, Output::Array { bytes, .. } | Output::Bytes(bytes)) => {
                    answers.push(sample.id, bytes);
                }
            }
        }
    }

    fn fail(&self, samples: &[QuerySample], why: &str, answers: &mut Answers) {
        self.failure_reason.get_or_init(|| format!("{}: {why}", self.title));
        samples.iter().for_each(|sample| answers.fail(sample.id, Failure::Internal));
    }
}

impl Engine for PythonEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        let mut process = idle(&self.processes, 0);
        for samples in samples.chunks(self.function.largest_batch.get()) {
            let called = self.outputs(&mut process, samples, None, |outputs| {
                self.write(samples, outputs, answers);
            });
            if let Err(error) = called {
                self.fail(samples, &words(error), answers);
            }
        }
    }

    fn failure_reason(&self) -> Option<&str> {
        self.failure_reason.get().map(String::as_str)
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }
}

impl Drop for PythonEngine {
    fn drop(&mut self) {
        // All end at the same time; each is awaited when it is dropped.
        for process in &self.processes {
            process.lock().unwrap_or_else(PoisonError::into_inner).close();
        }
    }
}

fn words(error: CallError) -> String {
    match error {
        CallError::Raised(why) | CallError::Broken(why) => why,
    }
}

/// Returns what the driver imports, as JSON.
fn hello(function: &PythonFunction, inputs: &[String]) -> String {
    let (file, module) = match &function.place {
        Place::File(path) => (path.to_string_lossy(), ""),
        Place::Module(module) => ("".into(), module.as_str()),
    };
    let inputs: Vec<String> = inputs.iter().map(|name| quoted(name)).collect();
    format!(
        "{{\"file\":{},\"module\":{},\"function\":{},\"scores\":{},\"inputs\":[{}]}}",
        quoted(&file),
        quoted(module),
        quoted(&function.name),
        function.is_classifier,
        inputs.join(",")
    )
}

/// Returns a text as a string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\0'..='\u{1f}' => {
                let _ = write!(quoted, "\\u{:04x}", char as u32);
            }
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the versions in the driver's reply `{"python": "3.12.1", "numpy": null}`.
fn runtime(ready: &[u8]) -> String {
    let text = String::from_utf8_lossy(ready);
    let version = |key: &str| {
        let (_, rest) = text.split_once(&format!("\"{key}\": \""))?;
        rest.split_once('"').map(|(version, _)| version.to_owned())
    };
    let python = version("python").map_or("Python".into(), |version| format!("Python {version}"));
    match version("numpy") {
        Some(numpy) => format!("{python}, NumPy {numpy}"),
        None => format!("{python} without NumPy"),
    }
}

fn inputs_of(library: &TensorLibrary) -> Vec<Port> {
    let port = |(name, tensor): (&str, crate::tensors::SampleTensor)| Port {
        name: name.to_owned(),
        element: tensor.elements.element().to_string(),
        shape: std::iter::once(None).chain(tensor.shape.into_iter().map(Some)).collect(),
    };
    library.first_sample().into_iter().map(port).collect()
}

/// Returns the port of an output; `None` for bytes and text.
fn port_of(output: &Output<'_>) -> Option<Port> {
    let Output::Array { element, shape, .. } = output else { return None };
    let shape = std::iter::once(None).chain(shape.iter().copied().map(Some)).collect();
    Some(Port { name: "output".into(), element: element.to_string(), shape })
}
