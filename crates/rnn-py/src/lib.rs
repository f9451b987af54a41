//! The Python module `dyno_rnn`, an interface to [`dyno_rnn::engine`] and to `dyno_graph`.
//!
//! Input arrays are buffers such as those of NumPy; output arrays are memoryviews, which NumPy uses
//! without a copy. The interpreter lock is released while a batch runs.
//! `python/dyno_rnn/__init__.pyi` documents the module for readers and type checkers.
#![forbid(unsafe_code)]

mod graph;

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use dyno_rnn::Precision;
use dyno_rnn::engine::{Engine, EngineError, EngineOptions};
use dyno_rnn::model::{Model as Layers, ModelError};
use pyo3::buffer::{Element as BufferElement, PyBuffer};
use pyo3::exceptions::{
    PyMemoryError, PyOSError, PyRuntimeError, PyTypeError, PyUserWarning, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyMemoryView};

/// Maximum threads, above the number of cores of any machine.
const MOST_THREADS: i64 = 1024;

/// A model with its threads. Concurrent calls wait for each other.
#[pyclass(frozen, module = "dyno_rnn")]
struct Model {
    engine: Mutex<Engine>,
    name: String,
    inputs: usize,
    outputs: usize,
    layers: usize,
    states: usize,
}

fn python_error(error: &EngineError) -> PyErr {
    match error {
        EngineError::Plan(_) => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

fn within(name: &str, found: i64, most: i64) -> PyResult<usize> {
    let fits = usize::try_from(found).ok().filter(|_| (1..=most).contains(&found));
    fits.ok_or_else(|| {
        PyValueError::new_err(format!("{name}: expected 1 to {most}, found {found}"))
    })
}

fn threads_within(found: i64) -> PyResult<usize> {
    within("threads", found, MOST_THREADS)
}

fn precision_named(name: &str) -> PyResult<Precision> {
    match name {
        "f32" => Ok(Precision::F32),
        "bf16" => Ok(Precision::Bf16),
        "int8" => Ok(Precision::Int8),
        other => {
            let text = format!("precision: expected 'f32', 'bf16' or 'int8', found '{other}'");
            Err(PyValueError::new_err(text))
        }
    }
}

/// Issues a `UserWarning` for the caller.
///
/// # Errors
/// The warning itself, if the program makes it an error.
fn warn(py: Python<'_>, text: String) -> PyResult<()> {
    let text = CString::new(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
}

#[pymethods]
impl Model {
    /// Loads `model`: a file .onnx or .safetensors, one of its layers as FILE#LAYER, or a layer with
    /// random weights by its shape, such as "lstm:256x256".
    #[new]
    #[pyo3(signature = (model, *, threads = 1, precision = "f32", steps = 100))]
    #[expect(clippy::needless_pass_by_value, reason = "Python converts paths to values")]
    fn open(
        py: Python<'_>,
        model: PathBuf,
        threads: i64,
        precision: &str,
        steps: i64,
    ) -> PyResult<Self> {
        let precision = precision_named(precision)?;
        let threads = threads_within(threads)?;
        let steps = within("steps", steps, i64::MAX)?;
        let model = model.to_str().ok_or_else(|| {
            PyValueError::new_err(format!("model: {} is no text", model.display()))
        })?;
        let layers = Layers::open(model);
        let layers = layers.and_then(|layers| layers.check_arrays().map(|()| layers));
        let layers = layers.map_err(|error| match error {
            ModelError::Unreadable { .. } => PyOSError::new_err(error.to_string()),
            _ => PyValueError::new_err(error.to_string()),
        })?;
        let options = EngineOptions { precision, threads, steps, ..EngineOptions::default() };
        if let Some(limit) = options.thread_limit() {
            warn(py, limit)?;
        }
        let engine = py.detach(|| Engine::new(layers, &options)).map_err(|e| python_error(&e))?;
        let model = engine.model();
        Ok(Self {
            name: model.name().to_owned(),
            inputs: model.inputs(),
            outputs: model.outputs(),
            layers: model.layers().len(),
            states: engine.state_numbers(1).map_err(|error| python_error(&error))?,
            engine: Mutex::new(engine),
        })
    }

    /// Loads the weights of a torch.nn.LSTM, GRU or RNN.
    #[staticmethod]
    #[pyo3(signature = (module, **options))]
    fn from_torch<'py>(
        module: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        module.py().import("dyno_rnn._torch")?.getattr("model")?.call((module,), options)
    }

    /// Name of the model, as given.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Numbers in the input of one step.
    #[getter]
    fn inputs(&self) -> usize {
        self.inputs
    }

    /// Numbers in the output of one step.
    #[getter]
    fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of layers.
    #[getter]
    fn layers(&self) -> usize {
        self.layers
    }

    /// Numbers in the states of one row, all layers together.
    #[getter]
    fn states(&self) -> usize {
        self.states
    }

    /// Runs `input`, float32 of steps x rows x inputs, from zero states or the constant ones of the
    /// file, and returns steps x rows x outputs. `lengths` are the steps of each row, by default all;
    /// outputs after them are zeros. `out` receives the outputs and is returned. With `batch_first`,
    /// arrays are rows x steps x numbers.
    #[pyo3(signature = (input, lengths = None, *, out = None, batch_first = false))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'py, PyAny>,
        lengths: Option<Vec<i64>>,
        out: Option<&Bound<'py, PyAny>>,
        batch_first: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (output, _) = self.call(py, input, Call { lengths, states: None, out, batch_first })?;
        Ok(output)
    }

    /// Runs like `run`, but from `states` (float32, returned by the last call; None means those of
    /// `run`).
    /// Returns the outputs and the states after each row's last step.
    #[pyo3(signature = (input, states = None, lengths = None, *, out = None, batch_first = false))]
    fn run_on<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'py, PyAny>,
        states: Option<&Bound<'py, PyAny>>,
        lengths: Option<Vec<i64>>,
        out: Option<&Bound<'py, PyAny>>,
        batch_first: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let states = match states {
            None => InitialStates::Model,
            Some(states) => InitialStates::Caller(copied(py, &buffer("states", states)?)?),
        };
        let states = Some(states);
        let (output, states) = self.call(py, input, Call { lengths, states, out, batch_first })?;
        Ok((output, floats(py, &states)?))
    }

    fn __repr__(&self) -> String {
        let Self { name, inputs, outputs, .. } = self;
        format!("dyno_rnn.Model('{name}', inputs={inputs}, outputs={outputs})")
    }
}

/// States that a call begins with and returns.
enum InitialStates {
    /// Zeros, or the constant states of the file.
    Model,
    /// The states that the caller passes.
    Caller(Vec<f32>),
}

/// Arguments of a call besides its input.
struct Call<'a, 'py> {
    lengths: Option<Vec<i64>>,
    /// `None` for a call without states.
    states: Option<InitialStates>,
    /// Array that receives the outputs.
    out: Option<&'a Bound<'py, PyAny>>,
    /// Whether the first dimension of arrays is that of rows instead of steps.
    batch_first: bool,
}

impl Model {
    /// Returns the outputs, and the states if the call has states.
    fn call<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'py, PyAny>,
        call: Call<'_, 'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Vec<f32>)> {
        let Call { lengths, states, out, batch_first } = call;
        let input = buffer("input", input)?;
        let (outer, inner) = match *input.shape() {
            [outer, inner, inputs] if inputs == self.inputs => (outer, inner),
            ref found => {
                let dims = if batch_first { "rows, steps" } else { "steps, rows" };
                let text = format!("input: expected ({dims}, {}), found {found:?}", self.inputs);
                return Err(PyValueError::new_err(text));
            }
        };
        let (steps, rows) = if batch_first { (inner, outer) } else { (outer, inner) };
        let shape = (outer, inner, self.outputs);
        let target = out.map(|out| target(out, shape)).transpose()?;
        let mut input = copied(py, &input)?;
        if batch_first {
            input = swapped(&input, rows, steps);
        }
        let lengths: Result<Vec<usize>, _> = match lengths {
            None => Ok(vec![steps; rows]),
            Some(lengths) => lengths.into_iter().map(usize::try_from).collect(),
        };
        let lengths =
            lengths.map_err(|_| PyValueError::new_err("lengths: expected numbers from 0 on"))?;
        if lengths.len() != rows {
            let text = format!("lengths: expected {rows}, found {}", lengths.len());
            return Err(PyValueError::new_err(text));
        }
        let count = steps * rows * self.outputs;
        check_memory::<f32>(count)?;
        let ran = py.detach(|| {
            let mut output = vec![0.0; count];
            let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            let mut states = match states {
                None => None,
                Some(InitialStates::Model) => Some(engine.initial_states(rows)?),
                Some(InitialStates::Caller(states)) => Some(states),
            };
            engine.run(&input, &lengths, states.as_deref_mut(), &mut output)?;
            Ok((output, states.unwrap_or_default()))
        });
        let (mut output, states) = ran.map_err(|error: EngineError| python_error(&error))?;
        if batch_first {
            output = swapped(&output, steps, rows);
        }
        if let (Some(target), Some(out)) = (target, out) {
            target.copy_from_slice(py, &output)?;
            return Ok((out.clone(), states));
        }
        let bytes = floats(py, &output)?.call_method1("cast", ("B",))?;
        Ok((bytes.call_method1("cast", ("f", shape))?, states))
    }
}

/// Returns the array that receives outputs of this shape.
fn target(out: &Bound<'_, PyAny>, shape: (usize, usize, usize)) -> PyResult<PyBuffer<f32>> {
    let found = buffer("out", out)?;
    if *found.shape() != [shape.0, shape.1, shape.2] {
        let text = format!("out: expected {shape:?}, found {:?}", found.shape());
        return Err(PyValueError::new_err(text));
    }
    if found.readonly() {
        return Err(PyValueError::new_err("out: expected an array that can be written to"));
    }
    Ok(found)
}

/// Copies the numbers of a buffer.
///
/// # Errors
/// `MemoryError`: a view of few numbers may have any size.
fn copied<T: BufferElement>(py: Python<'_>, buffer: &PyBuffer<T>) -> PyResult<Vec<T>> {
    check_memory::<T>(buffer.item_count())?;
    buffer.to_vec(py)
}

/// Checks that so many numbers fit in memory. Without memory, Rust would end the process.
fn check_memory<T>(count: usize) -> PyResult<()> {
    let mut room = Vec::<T>::new();
    let reserved = room.try_reserve_exact(count);
    // Keeps the compiler from removing the reservation.
    std::hint::black_box(&room);
    reserved.map_err(|_| {
        PyMemoryError::new_err(format!("an array of {count} numbers does not fit in memory"))
    })
}

/// Returns an array with its first two dimensions exchanged, of which these are the sizes.
fn swapped(numbers: &[f32], outer: usize, inner: usize) -> Vec<f32> {
    let width = numbers.len().checked_div(outer * inner).unwrap_or(0);
    let mut swapped = Vec::with_capacity(numbers.len());
    for at in 0..inner {
        for row in 0..outer {
            swapped.extend_from_slice(&numbers[(row * inner + at) * width..][..width]);
        }
    }
    swapped
}

fn buffer(name: &str, object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<f32>> {
    let found = PyBuffer::get(object).ok().filter(graph::is_native);
    found.ok_or_else(|| {
        let found = object
            .getattr("dtype")
            .map_or_else(|_| object.get_type().to_string(), |dtype| format!("an array of {dtype}"));
        PyTypeError::new_err(format!(
            "{name}: expected a buffer of float32, such as a numpy array, found {found}"
        ))
    })
}

/// Copies numbers into a memoryview of float32.
fn floats<'py>(py: Python<'py>, numbers: &[f32]) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyByteArray::new_with(py, size_of_val(numbers), |bytes| {
        for (to, number) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *to = number.to_ne_bytes();
        }
        Ok(())
    })?;
    PyMemoryView::from(&bytes)?.call_method1("cast", ("f",))
}

/// The extension module inside of the package `dyno_rnn`.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::Model;
    #[pymodule_export]
    use super::graph::Graph;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
