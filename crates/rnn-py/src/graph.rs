//! Whole models: named arrays in, named arrays out.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dyno_graph::{Number, Oracle, Session, SessionOptions, Value};
use dyno_onnx::{Element, Model, Port};
use dyno_tensors::Elements;
use pyo3::buffer::{Element as BufferElement, PyBuffer};
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyMapping, PyMemoryView, PySlice, PyTuple};

use super::{precision_named, threads_within, warn};

/// Maximum multiplications of the evaluator behind [`Graph::verify`]: minutes.
const VERIFIED_WORK: u64 = 20_000_000_000;

/// A whole model with its threads. Concurrent calls wait for each other.
#[pyclass(frozen, module = "dyno_rnn")]
pub struct Graph {
    session: Mutex<Session>,
    path: PathBuf,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// The evaluator of `verify`, once it was asked for.
    oracle: OnceLock<Result<Oracle, String>>,
}

#[pymethods]
impl Graph {
    /// Loads a file .onnx.
    #[new]
    #[pyo3(signature = (path, *, threads = 1, precision = "f32"))]
    fn open(py: Python<'_>, path: PathBuf, threads: i64, precision: &str) -> PyResult<Self> {
        let threads = threads_within(threads)?;
        let precision = precision_named(precision)?;
        let options = SessionOptions { threads, precision, ..SessionOptions::default() };
        let opened = py.detach(|| {
            let model = Model::read(&path).map_err(|error| match error {
                dyno_onnx::ReadError::File { .. } => PyOSError::new_err(error.to_string()),
                _ => PyValueError::new_err(format!("{}: {error}", path.display())),
            })?;
            let graph = dyno_graph::Graph::new(&model);
            graph.map_err(|error| PyValueError::new_err(format!("{}: {error}", path.display())))
        });
        let graph = Arc::new(opened?);
        let (inputs, outputs) = (graph.inputs().to_vec(), graph.outputs().to_vec());
        let session = Mutex::new(Session::new(graph, &options));
        Ok(Self { session, path, inputs, outputs, oracle: OnceLock::new() })
    }

    /// Exports a module of PyTorch and loads it.
    #[staticmethod]
    #[pyo3(signature = (module, examples, **options))]
    fn from_torch<'py>(
        module: &Bound<'py, PyAny>,
        examples: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        module.py().import("dyno_rnn._torch")?.getattr("graph")?.call((module, examples), options)
    }

    /// Inputs: name, type and dimensions of each; a dimension without a size is its name or None.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.inputs.iter().map(|port| described(py, port)).collect()
    }

    /// Outputs, as the inputs.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.outputs.iter().map(|port| described(py, port)).collect()
    }

    /// Computes all outputs from all inputs, each by its name.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyMapping>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = self.values(py, inputs)?;
        let outputs = py.detach(|| {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.run(&values)
        });
        let outputs = outputs.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let named = PyDict::new(py);
        for (port, value) in self.outputs.iter().zip(&outputs) {
            named.set_item(&port.name, array(py, port, value)?)?;
        }
        Ok(named)
    }

    /// Compares the outputs with those of an independent evaluator in double precision. Returns the
    /// largest difference relative to the largest magnitude of its output, and warns of numbers that
    /// are not compared.
    fn verify(&self, py: Python<'_>, inputs: &Bound<'_, PyMapping>) -> PyResult<f64> {
        let values = self.values(py, inputs)?;
        let verification = py.detach(|| {
            let oracle = self.oracle().as_ref().map_err(Clone::clone)?;
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            Ok::<_, String>(oracle.verify(&mut session, &values))
        });
        match verification.map_err(PyValueError::new_err)? {
            dyno_graph::Verification::Compared { difference, beyond, .. } => {
                if beyond > 0 {
                    warn(
                        py,
                        format!("{beyond} numbers outside the range of float32 are not compared"),
                    )?;
                }
                Ok(difference)
            }
            other => Err(PyValueError::new_err(other.to_string())),
        }
    }

    /// Reads what `verify` needs from the file, which may be removed then.
    fn _read_oracle(&self, py: Python<'_>) {
        py.detach(|| {
            let _ = self.oracle();
        });
    }

    fn __repr__(&self) -> String {
        let names = |ports: &[Port]| {
            ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (inputs, outputs) = (names(&self.inputs), names(&self.outputs));
        format!("dyno_rnn.Graph('{}': {inputs} -> {outputs})", self.path.display())
    }
}

impl Graph {
    fn oracle(&self) -> &Result<Oracle, String> {
        self.oracle.get_or_init(|| Oracle::read(&self.path, VERIFIED_WORK))
    }

    fn values(&self, py: Python<'_>, inputs: &Bound<'_, PyMapping>) -> PyResult<Vec<Value>> {
        for name in inputs.keys()? {
            let name: String = name.extract()?;
            if self.inputs.iter().all(|port| port.name != name) {
                let names: Vec<&str> = self.inputs.iter().map(|port| port.name.as_str()).collect();
                let text = format!("the model has no input '{name}'; it has {}", names.join(", "));
                return Err(PyValueError::new_err(text));
            }
        }
        let value = |port: &Port| {
            if !inputs.contains(&port.name)? {
                return Err(PyValueError::new_err(format!("input '{}' is missing", port.name)));
            }
            value(py, port, &inputs.get_item(&port.name)?)
        };
        self.inputs.iter().map(value).collect()
    }
}

fn described<'py>(py: Python<'py>, port: &Port) -> PyResult<Bound<'py, PyTuple>> {
    let dims = port.shape.as_ref().map(|dims| {
        let one = |dim: &dyno_onnx::Dim| match dim {
            dyno_onnx::Dim::Fixed(size) => size.into_pyobject(py).map(Bound::into_any),
            dyno_onnx::Dim::Symbol(name) if name.is_empty() => Ok(py.None().into_bound(py)),
            dyno_onnx::Dim::Symbol(name) => Ok(name.into_pyobject(py)?.into_any()),
        };
        dims.iter().map(one).collect::<Result<Vec<_>, _>>()
    });
    let dims = dims.transpose()?.map(|dims| PyTuple::new(py, dims)).transpose()?;
    let element = port.element.map(|element| element.to_string());
    (port.name.as_str(), element, dims).into_pyobject(py)
}

/// Copies an array. Inputs of 16 bits take float32, which the model rounds.
fn value(py: Python<'_>, port: &Port, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    fn copied<T: Number + BufferElement>(
        py: Python<'_>,
        port: &Port,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Value> {
        // An array without dimensions is no buffer.
        let is_scalar =
            given.getattr("ndim").and_then(|n| n.extract()).is_ok_and(|n: usize| n == 0);
        let row = if is_scalar { Some(given.call_method1("reshape", (1,))?) } else { None };
        let buffer = PyBuffer::<T>::get(row.as_ref().unwrap_or(given));
        let buffer = buffer.ok().filter(is_native).ok_or_else(|| unfit(port, T::TYPE, given))?;
        let dims = if is_scalar { &[] } else { buffer.shape() };
        Value::new(dims, super::copied(py, &buffer)?).map_err(PyValueError::new_err)
    }
    // Values of 16 bits are held as float32.
    let wide = || given.call_method1("astype", ("float32",));
    match port.element.unwrap_or(Element::F32) {
        Element::F16 if given.getattr("dtype").is_ok_and(|of| of.to_string() == "float16") => {
            copied::<f32>(py, port, &wide()?)
        }
        Element::F32 | Element::F16 | Element::BF16 => copied::<f32>(py, port, given),
        Element::F64 => copied::<f64>(py, port, given),
        Element::I64 => copied::<i64>(py, port, given),
        Element::I32 => copied::<i32>(py, port, given),
        Element::I8 => copied::<i8>(py, port, given),
        Element::U8 => copied::<u8>(py, port, given),
        // Python has no buffers of Rust's type for booleans.
        Element::Bool => {
            // The view of an array of wider numbers would have other dimensions.
            let name = given.getattr("dtype").map(|dtype| dtype.to_string());
            if name.is_ok_and(|name| !["bool", "uint8"].contains(&name.as_str())) {
                return Err(unfit(port, Element::Bool, given));
            }
            let bytes = given.call_method1("view", ("uint8",)).unwrap_or_else(|_| given.clone());
            let bytes =
                copied::<u8>(py, port, &bytes).map_err(|_| unfit(port, Element::Bool, given))?;
            let all = bytes.as_slice::<u8>().unwrap_or_default();
            let all: Vec<bool> = all.iter().map(|byte| *byte != 0).collect();
            Value::new(bytes.dims(), all).map_err(PyValueError::new_err)
        }
        other => Err(PyTypeError::new_err(format!("input '{}' is of type {other}", port.name))),
    }
}

fn unfit(port: &Port, expected: Element, given: &Bound<'_, PyAny>) -> PyErr {
    let found = given.getattr("dtype").or_else(|_| given.get_type().getattr("__name__"));
    let found = found.map_or_else(|_| "another type".to_owned(), |found| found.to_string());
    PyTypeError::new_err(format!(
        "input '{}': expected an array of {expected}, found {found}",
        port.name
    ))
}

/// Returns whether the numbers of a buffer have the byte order of this machine.
pub(crate) fn is_native<T: BufferElement>(buffer: &PyBuffer<T>) -> bool {
    let foreign = if cfg!(target_endian = "big") { &b"<"[..] } else { &b">!"[..] };
    let format = buffer.format().to_bytes();
    size_of::<T>() == 1 || format.first().is_none_or(|first| !foreign.contains(first))
}

/// Copies a value into a memoryview of its type and dimensions; numbers of 16 bits are rounded and held
/// as float32.
fn array<'py>(py: Python<'py>, port: &Port, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let (format, kind) = match value.element() {
        Element::F32 => ("f", "c_float"),
        Element::F64 => ("d", "c_double"),
        Element::I64 => ("q", "c_int64"),
        Element::I32 => ("i", "c_int32"),
        Element::I8 => ("b", "c_int8"),
        Element::U8 => ("B", "c_uint8"),
        Element::Bool => ("?", "c_bool"),
        other => return Err(PyTypeError::new_err(format!("an output is of type {other}"))),
    };
    let declared = port.element.and_then(|declared| value.elements(declared));
    let elements = match declared {
        Some(halves @ (Elements::F16(_) | Elements::BF16(_))) => {
            Elements::F32(halves.to_f32().into_owned().into())
        }
        _ => value.elements(value.element()).expect("it is its own type"),
    };
    let mut bytes = Vec::new();
    elements.write(&mut bytes);
    if cfg!(target_endian = "big") && elements.element().size() > 1 {
        return Err(PyTypeError::new_err("outputs need a little-endian machine"));
    }
    let view = PyMemoryView::from(&PyByteArray::new(py, &bytes))?;
    match value.dims() {
        [0] => view.call_method1("cast", (format,)),
        [0, row @ ..] if is_small(row) => {
            // Python casts views only to dimensions without a 0, and cuts their first one.
            let length = row.iter().product::<usize>() * elements.element().size();
            let dims = PyTuple::new(py, [&[1][..], row].concat())?;
            let one = PyMemoryView::from(&PyByteArray::new(py, &vec![0; length]))?;
            one.call_method1("cast", (format, dims))?.get_item(PySlice::new(py, 0, 0, 1))
        }
        dims if value.is_empty() => empty(py, kind, dims),
        dims => view.call_method1("cast", (format, PyTuple::new(py, dims)?)),
    }
}

/// Returns whether a row has elements, and few enough to be made.
fn is_small(row: &[usize]) -> bool {
    let count = row.iter().try_fold(1_usize, |count, size| count.checked_mul(*size));
    count.is_some_and(|count| (1..=1 << 24).contains(&count))
}

/// Returns a view without elements, of which a row is empty or large. Only libraries such as NumPy read its
/// type.
fn empty<'py>(py: Python<'py>, kind: &str, dims: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let mut kind = py.import("ctypes")?.getattr(kind)?;
    for size in dims.iter().rev() {
        kind = kind.mul(*size)?;
    }
    Ok(PyMemoryView::from(&kind.call0()?)?.into_any())
}
