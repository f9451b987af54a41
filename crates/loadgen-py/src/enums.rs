//! The three enumerations. As in the reference they are not subclasses of `int`: members are only
//! equal to themselves and convertible by `int()`.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::convert::Integer;

/// Name of a value without a name.
const NAMELESS: &str = "???";

macro_rules! enumeration {
    ($(#[doc = $doc:literal])+ $name:ident { $($member:ident = $value:literal),+ $(,)? }) => {
        $(#[doc = $doc])+
        #[pyclass(frozen, from_py_object, weakref, module = "mlperf_loadgen")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub i32);

        impl $name {
            const NAMES: &[(&str, i32)] = &[$((stringify!($member), $value)),+];

            fn member(self) -> &'static str {
                let named = Self::NAMES.iter().find(|(_, value)| *value == self.0);
                named.map_or(NAMELESS, |(name, _)| name)
            }

            /// Returns the corresponding value of the load generator.
            ///
            /// # Errors
            /// `ValueError` for a number without a name.
            pub fn core_value<T: Copy>(self, all: &[T]) -> PyResult<T> {
                let at = usize::try_from(self.0).ok();
                at.and_then(|at| all.get(at)).copied().ok_or_else(|| {
                    let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
                    PyValueError::new_err(format!(
                        "{}({}) has no meaning; use one of: {}",
                        stringify!($name), self.0, names.join(", ")
                    ))
                })
            }
        }

        #[pymethods]
        impl $name {
            #[new]
            fn new(value: Integer) -> Self {
                Self(value.0)
            }

            $(#[classattr]
            #[expect(non_snake_case, reason = "the member's name")]
            fn $member() -> Self {
                Self($value)
            })+

            #[classattr]
            fn __members__(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
                let members = PyDict::new(py);
                for &(name, value) in Self::NAMES {
                    members.set_item(name, Self(value).into_py_any(py)?)?;
                }
                Ok(members)
            }

            /// The member's name.
            #[getter]
            fn name(&self) -> &'static str {
                self.member()
            }

            /// The member's number.
            #[getter]
            fn value(&self) -> i32 {
                self.0
            }

            fn __str__(&self) -> String {
                format!("{}.{}", stringify!($name), self.member())
            }

            fn __repr__(&self) -> String {
                format!("<{}.{}: {}>", stringify!($name), self.member(), self.0)
            }

            fn __int__(&self) -> i32 {
                self.0
            }

            fn __index__(&self) -> i32 {
                self.0
            }

            fn __hash__(&self) -> isize {
                self.0 as isize
            }

            fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
                other.cast::<Self>().is_ok_and(|other| other.get() == self)
            }

            fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
                !self.__eq__(other)
            }

            fn __getstate__(&self) -> i32 {
                self.0
            }

            fn __reduce__(&self, py: Python<'_>) -> (Py<PyType>, (i32,)) {
                (py.get_type::<Self>().unbind(), (self.0,))
            }
        }
    };
}

enumeration! {
    /// Scenario: how queries reach the system under test.
    TestScenario { SingleStream = 0, MultiStream = 1, Server = 2, Offline = 3 }
}
enumeration! {
    /// Mode of a test.
    TestMode { SubmissionRun = 0, AccuracyOnly = 1, PerformanceOnly = 2, FindPeakPerformance = 3 }
}
enumeration! {
    /// Time at which logs are written. Accepted without effect, as in the reference:
    /// logs are written when the test is over.
    LoggingMode { AsyncPoll = 0, EndOfTestOnly = 1, Synchronous = 2 }
}
