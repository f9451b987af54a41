//! `VectorQuerySample` and `VectorQuerySampleResponse`: lists of one class, like `std::vector` in
//! the reference. (In the reference all their methods fail; here they work.)

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PySlice, PyTuple, PyType};

use crate::convert::expected;
use crate::records::{QUERY_SAMPLE, QUERY_SAMPLE_RESPONSE, is_laid_out_as};

/// Returns `value` if it is an instance of `class`. Entries are references, not copies.
fn entry<'py>(
    class: &Bound<'py, PyType>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if is_laid_out_as(class, value) {
        return Ok(value.clone());
    }
    Err(expected(&format!("a {}", class.name()?), value))
}

/// Returns the entries of an iterable, which must all be instances of `class`.
fn entries<'py>(
    class: &Bound<'py, PyType>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(class.py());
    for value in values.try_iter()? {
        list.append(entry(class, &value?)?)?;
    }
    Ok(list)
}

macro_rules! vector {
    ($(#[doc = $doc:literal])+ $name:ident, $record:ident) => {
        $(#[doc = $doc])+
        #[pyclass(frozen, weakref, sequence, module = "mlperf_loadgen")]
        #[derive(Debug)]
        pub struct $name {
            /// The entries.
            pub list: Py<PyList>,
        }

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (*entries))]
            fn new(entries: &Bound<'_, PyTuple>) -> PyResult<Self> {
                let py = entries.py();
                let list = match entries.len() {
                    0 => PyList::empty(py),
                    1 => self::entries($record.class(py)?, &entries.get_item(0)?)?,
                    n => {
                        let text = format!("expected one iterable, not {n} arguments");
                        return Err(PyTypeError::new_err(text));
                    }
                };
                Ok(Self { list: list.unbind() })
            }

            /// Adds an entry at the end.
            fn append(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
                self.list.bind(py).append(entry($record.class(py)?, x)?)
            }

            /// Removes all entries.
            fn clear(&self, py: Python<'_>) -> PyResult<()> {
                let list = self.list.bind(py);
                list.del_slice(0, list.len())
            }

            /// Adds the entries of an iterable at the end, all of them or none.
            #[pyo3(name = "extend")]
            #[expect(non_snake_case, reason = "the argument's name in the reference")]
            fn extend(&self, py: Python<'_>, L: &Bound<'_, PyAny>) -> PyResult<()> {
                let more = entries($record.class(py)?, L)?;
                let list = self.list.bind(py);
                list.set_slice(list.len(), list.len(), &more)
            }

            /// Inserts an entry before position `i`.
            fn insert(&self, py: Python<'_>, i: isize, x: &Bound<'_, PyAny>) -> PyResult<()> {
                let value = entry($record.class(py)?, x)?;
                self.list.bind(py).call_method1("insert", (i, value)).map(|_| ())
            }

            /// Removes the entry at position `i`, the last if none is given, and returns it.
            #[pyo3(signature = (i = -1), text_signature = "($self, i=-1)")]
            fn pop<'py>(&self, py: Python<'py>, i: isize) -> PyResult<Bound<'py, PyAny>> {
                self.list.bind(py).call_method1("pop", (i,))
            }

            fn __len__(&self, py: Python<'_>) -> usize {
                self.list.bind(py).len()
            }

            fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
                self.list.bind(py).try_iter()
            }

            fn __getitem__<'py>(
                &self,
                at: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let py = at.py();
                let found = self.list.bind(py).as_any().get_item(at)?;
                if !at.is_instance_of::<PySlice>() {
                    return Ok(found);
                }
                let list = found.cast_into::<PyList>()?.unbind();
                Ok(Bound::new(py, Self { list })?.into_any())
            }

            fn __setitem__(&self, at: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
                let class = $record.class(at.py())?;
                let value = if at.is_instance_of::<PySlice>() {
                    entries(class, value)?.into_any()
                } else {
                    entry(class, value)?
                };
                self.list.bind(at.py()).as_any().set_item(at, value)
            }

            fn __delitem__(&self, at: &Bound<'_, PyAny>) -> PyResult<()> {
                self.list.bind(at.py()).as_any().del_item(at)
            }
        }
    };
}

vector!(
    /// A list of `QuerySample`.
    VectorQuerySample,
    QUERY_SAMPLE
);
vector!(
    /// A list of `QuerySampleResponse`.
    VectorQuerySampleResponse,
    QUERY_SAMPLE_RESPONSE
);
