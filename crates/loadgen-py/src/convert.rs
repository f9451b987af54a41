//! Conversion of Python values, by the rules of the reference's binding.
//!
//! A float is never an integer, a negative number is never unsigned, and an enumeration is a
//! separate type. Rejected values raise a `TypeError`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyString};

/// Integer of Python: an `int`, or an object with `__index__` or `__int__`, except a `float`.
pub trait PythonInteger: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr> {
    /// Its range, for error messages.
    const RANGE: &'static str;
}

impl PythonInteger for u64 {
    const RANGE: &'static str = "a whole number from 0 to 2**64 - 1";
}
impl PythonInteger for i64 {
    const RANGE: &'static str = "a whole number from -2**63 to 2**63 - 1";
}
impl PythonInteger for i32 {
    const RANGE: &'static str = "a whole number from -2**31 to 2**31 - 1";
}

/// Converts `value` to an integer of type `T`.
pub fn whole<T: PythonInteger>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    let refused = || expected(T::RANGE, value);
    if value.is_instance_of::<PyFloat>() {
        return Err(refused());
    }
    if value.is_instance_of::<PyInt>() {
        return value.extract().map_err(|_| refused());
    }
    if let Ok(index) = value.call_method0("__index__") {
        return index.extract().map_err(|_| refused());
    }
    // Numbers such as numpy's float32, which are not `float` and can be truncated, and its arrays of
    // one float, which have an `__index__` that raises.
    if is_numpy_text(value) || !value.hasattr("__int__")? {
        return Err(refused());
    }
    let number = value.call_method0("__int__").and_then(|number| number.extract::<T>());
    number.map_err(|_| refused())
}

/// Returns whether a value is text or bytes of numpy, whose numbers lend them methods of numbers. They are
/// no numbers for the reference.
fn is_numpy_text(value: &Bound<'_, PyAny>) -> bool {
    let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    is_text && value.get_type().module().is_ok_and(|module| module == "numpy")
}

/// Returns the error for a value of an unaccepted type.
pub fn expected(what: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let shown =
        value.repr().map_or_else(|_| "?".into(), |text| text.to_string_lossy().into_owned());
    // Long values are truncated.
    let cut: String = shown.chars().take(60).collect();
    let more = if cut.len() < shown.len() { "..." } else { "" };
    let kind = value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    PyTypeError::new_err(format!("expected {what}, not {cut}{more} ({kind})"))
}

macro_rules! setting_type {
    ($(#[doc = $doc:literal])+ $name:ident($type:ty), $convert:expr) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, IntoPyObject, IntoPyObjectRef)]
        pub struct $name(pub $type);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;
            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let convert: fn(&Bound<'py, PyAny>) -> PyResult<$type> = $convert;
                convert(&value).map(Self)
            }
        }
    };
}

setting_type!(
    /// A `size_t` or `uint64_t` of the reference.
    Count(u64),
    whole
);
setting_type!(
    /// An `int` of the reference.
    Integer(i32),
    whole
);
setting_type!(
    /// A `double` of the reference: any value that `float()` accepts, except text.
    Real(f64),
    |value| value.extract().map_err(|_| expected("a number", value))
);
setting_type!(
    /// A `bool` of the reference: a value with `__bool__`, or `None`, which is false.
    Flag(bool),
    |value| {
        if let Ok(truth) = value.cast::<PyBool>() {
            return Ok(truth.is_true());
        }
        if value.is_none() {
            return Ok(false);
        }
        if is_numpy_text(value) || !value.get_type().hasattr("__bool__")? {
            return Err(expected("True or False", value));
        }
        value.is_truthy().map_err(|_| expected("True or False", value))
    }
);
setting_type!(
    /// A `std::string` of the reference: a `str`, or bytes that are UTF-8.
    Text(String),
    |value| {
        if let Ok(text) = value.cast::<PyString>() {
            return text.to_str().map(str::to_owned).map_err(|_| expected("a str", value));
        }
        let bytes = if let Ok(bytes) = value.cast::<PyBytes>() {
            bytes.as_bytes().to_vec()
        } else if let Ok(bytes) = value.cast::<PyByteArray>() {
            bytes.to_vec()
        } else {
            return Err(expected("a str", value));
        };
        Ok(String::from_utf8(bytes)?)
    }
);

/// Callback; `None` for an empty `std::function` of the reference.
#[derive(Debug)]
pub struct Callback(pub Option<Py<PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Callback {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self(None));
        }
        if !value.is_callable() {
            return Err(expected("a callable", &value));
        }
        Ok(Self(Some(value.to_owned().unbind())))
    }
}
