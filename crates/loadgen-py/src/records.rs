//! `QuerySample` and `QuerySampleResponse`: the two classes of which a test creates millions.
//!
//! They use the C interface of Python directly. Classes of pyo3 take part in cyclic garbage
//! collection, and collecting a million instances repeatedly while a list grows costs more than all
//! other work. Both classes only hold 64-bit words and cannot be part of a cycle.
#![expect(unsafe_code, reason = "classes whose instances the garbage collector leaves alone")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::convert::whole;

/// Instance of a record class of `N` words.
#[repr(C)]
struct Instance<const N: usize> {
    head: ffi::PyObject,
    words: [u64; N],
}

/// Record class with the names of its words, in order.
pub struct Record<const N: usize> {
    /// `mlperf_loadgen.Name`.
    name: &'static CStr,
    doc: &'static CStr,
    fields: [&'static CStr; N],
    /// Index of the signed word, if there is one.
    signed: usize,
    /// Number of words that the short constructor takes; the others are 0.
    short: usize,
    class: PyOnceLock<Py<PyType>>,
}

/// The class `QuerySample`: id, index.
pub static QUERY_SAMPLE: Record<2> = Record {
    name: c"mlperf_loadgen.QuerySample",
    doc: c"One sample of a query: an id, to be handed back with the response, and \
           the position of the sample in the data set.",
    fields: [c"id", c"index"],
    signed: usize::MAX,
    short: 2,
    class: PyOnceLock::new(),
};

/// The class `QuerySampleResponse`: id, data, size, n_tokens.
pub static QUERY_SAMPLE_RESPONSE: Record<4> = Record {
    name: c"mlperf_loadgen.QuerySampleResponse",
    doc: c"The answer to a sample: its id, the address and the size in bytes of the \
           answer (read before QuerySamplesComplete returns, and only if it is to be \
           logged), and the number of its tokens.",
    fields: [c"id", c"data", c"size", c"n_tokens"],
    signed: 3,
    short: 3,
    class: PyOnceLock::new(),
};

impl<const N: usize> Record<N> {
    /// Returns the class.
    pub fn class<'py>(&'static self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyType>> {
        self.class.get_or_try_init(py, || self.make(py)).map(|class| class.bind(py))
    }

    /// Returns a new instance with these words.
    #[inline]
    pub fn instance<'py>(
        &'static self,
        class: &Bound<'py, PyType>,
        words: [u64; N],
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the class is one of ours, whose instances are plain memory.
        let made = unsafe { ffi::PyType_GenericAlloc(class.as_type_ptr(), 0) };
        // SAFETY: a new reference, or null with an exception set.
        let made = unsafe { Bound::from_owned_ptr_or_err(class.py(), made) }?;
        // SAFETY: allocated with the size of `Instance<N>`, and not shared yet.
        unsafe { (*made.as_ptr().cast::<Instance<N>>()).words = words };
        Ok(made)
    }

    /// Returns the words of `object` if it is an instance of `class`, which must be this class.
    #[inline]
    pub fn words(
        &'static self,
        class: &Bound<'_, PyType>,
        object: &Bound<'_, PyAny>,
    ) -> Option<[u64; N]> {
        // SAFETY: an instance of the class begins with `Instance<N>`, and only
        // threads attached to the interpreter, like the caller, write its words.
        is_laid_out_as(class, object)
            .then(|| unsafe { (*object.as_ptr().cast::<Instance<N>>()).words })
    }

    fn make(&'static self, py: Python<'_>) -> PyResult<Py<PyType>> {
        let closure = |at: usize| {
            let sign = if at == self.signed { SIGNED } else { 0 };
            ptr::without_provenance_mut::<c_void>(at | sign)
        };
        let mut members: Vec<ffi::PyGetSetDef> = (0..N)
            .map(|at| ffi::PyGetSetDef {
                name: self.fields[at].as_ptr(),
                get: Some(get::<N>),
                set: Some(set::<N>),
                doc: ptr::null(),
                closure: closure(at),
            })
            .collect();
        members.push(ffi::PyGetSetDef::default());
        let methods = vec![
            method(c"__getstate__", get_state::<N>, ffi::METH_NOARGS),
            method(c"__setstate__", set_state::<N>, ffi::METH_O),
            ffi::PyMethodDef::zeroed(),
        ];
        // Both belong to the class, which is never freed.
        let (members, methods) = (members.leak(), methods.leak());
        let slot = |slot, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
        let mut slots = [
            slot(ffi::Py_tp_doc, self.doc.as_ptr().cast_mut().cast()),
            slot(ffi::Py_tp_new, new as *mut c_void),
            slot(ffi::Py_tp_init, init::<N> as *mut c_void),
            slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
            slot(ffi::Py_tp_getset, members.as_mut_ptr().cast()),
            slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
            slot(0, ptr::null_mut()),
        ];
        let mut spec = ffi::PyType_Spec {
            name: self.name.as_ptr(),
            basicsize: size_of::<Instance<N>>() as c_int,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as u32,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the spec is whole, and what the class keeps of it lives for ever.
        let made = unsafe { ffi::PyType_FromSpec(&raw mut spec) };
        // SAFETY: a new reference, or null with an exception set.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
        Ok(made.cast_into::<PyType>()?.unbind())
    }
}

/// Returns whether the memory of `object` has the layout of `class`. `isinstance` is not enough: it
/// also accepts objects that claim to be instances, such as mocks.
#[inline]
pub fn is_laid_out_as(class: &Bound<'_, PyType>, object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object and a class, and the thread is attached.
    unsafe { ffi::PyObject_TypeCheck(object.as_ptr(), class.as_type_ptr()) != 0 }
}

/// Flag in the closure of a field: its word is signed. The other bits are the index of the word.
const SIGNED: usize = 1 << 8;

fn method(name: &'static CStr, f: ffi::PyCFunction, flags: c_int) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: f },
        ml_flags: flags,
        ml_doc: ptr::null(),
    }
}

/// Returns `object` as an instance.
///
/// # Safety
/// `object` is an instance of a record class of `N` words, and the thread is attached.
#[inline]
unsafe fn words_of<'a, const N: usize>(object: *mut ffi::PyObject) -> &'a mut [u64; N] {
    // SAFETY: promised by the caller; attached threads take turns.
    unsafe { &mut (*object.cast::<Instance<N>>()).words }
}

/// Returns the record class of `N` words.
fn record<const N: usize>() -> (&'static [&'static CStr], usize, usize) {
    match N {
        2 => (&QUERY_SAMPLE.fields, QUERY_SAMPLE.signed, QUERY_SAMPLE.short),
        _ => (
            &QUERY_SAMPLE_RESPONSE.fields,
            QUERY_SAMPLE_RESPONSE.signed,
            QUERY_SAMPLE_RESPONSE.short,
        ),
    }
}

unsafe extern "C" fn new(
    class: *mut ffi::PyTypeObject,
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python passes the class or one that is derived from it; the memory is zero.
    unsafe { ffi::PyType_GenericAlloc(class, 0) }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: Python passes an instance without references.
    let class = unsafe { ffi::Py_TYPE(object) };
    // SAFETY: `class` is a class.
    let free = unsafe { ffi::PyType_GetSlot(class, ffi::Py_tp_free) };
    // SAFETY: this slot has this type.
    let free = unsafe { std::mem::transmute::<*mut c_void, ffi::freefunc>(free) };
    // SAFETY: of the class that allocated the instance.
    unsafe { free(object.cast()) };
    // SAFETY: an instance of a class made at run time owns a reference to it.
    unsafe { ffi::Py_DECREF(class.cast()) };
}

unsafe extern "C" fn init<const N: usize>(
    object: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: Python passes a tuple.
    let given = unsafe { ffi::PyTuple_Size(args) } as usize;
    // SAFETY: Python passes a dict or nothing.
    let by_name = !kwargs.is_null() && unsafe { ffi::PyDict_Size(kwargs) } > 0;
    let (fields, signed, short) = record::<N>();
    if by_name || !(given == 0 || given == short || given == N) {
        let names: Vec<_> = fields.iter().map(|name| name.to_string_lossy()).collect();
        let optional = if short < N { " (the last may be left out)" } else { "" };
        return refuse(PyTypeError::new_err(format!(
            "expected no arguments, or by position: {}{optional}",
            names.join(", ")
        )));
    }
    let mut words = [0; N];
    for (at, word) in words.iter_mut().enumerate().take(given) {
        // SAFETY: within the tuple, which owns what it lends.
        let value = unsafe { ffi::PyTuple_GetItem(args, at as ffi::Py_ssize_t) };
        // SAFETY: an object of the tuple.
        match unsafe { word_from(value, at == signed) } {
            Ok(converted) => *word = converted,
            Err(error) => return refuse(error),
        }
    }
    // SAFETY: Python passes an instance.
    *unsafe { words_of::<N>(object) } = words;
    0
}

/// Returns the word for a Python integer.
///
/// # Safety
/// `value` is an object, and the thread is attached.
#[inline]
unsafe fn word_from(value: *mut ffi::PyObject, is_signed: bool) -> PyResult<u64> {
    let word = if is_signed {
        // SAFETY: promised by the caller.
        unsafe { ffi::PyLong_AsLongLong(value) }.cast_unsigned()
    } else {
        // SAFETY: promised by the caller.
        unsafe { ffi::PyLong_AsUnsignedLongLong(value) }
    };
    // All bits set is what both return for an error.
    // SAFETY: the thread is attached.
    if word != u64::MAX || unsafe { ffi::PyErr_Occurred() }.is_null() {
        return Ok(word);
    }
    // SAFETY: the thread is attached.
    unsafe { ffi::PyErr_Clear() };
    // SAFETY: promised by the caller.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: an object, which the caller keeps alive.
    let value = unsafe { Bound::from_borrowed_ptr(py, value) };
    if is_signed { whole::<i64>(&value).map(i64::cast_unsigned) } else { whole::<u64>(&value) }
}

/// Raises `error` and returns -1.
#[cold]
fn refuse(error: PyErr) -> c_int {
    // SAFETY: only called by functions that Python calls.
    error.restore(unsafe { Python::assume_attached() });
    -1
}

unsafe extern "C" fn get<const N: usize>(
    object: *mut ffi::PyObject,
    closure: *mut c_void,
) -> *mut ffi::PyObject {
    // SAFETY: the descriptor has checked the instance.
    let word = unsafe { words_of::<N>(object) }[closure.addr() & !SIGNED];
    if closure.addr() & SIGNED == 0 {
        // SAFETY: the thread is attached.
        unsafe { ffi::PyLong_FromUnsignedLongLong(word) }
    } else {
        // SAFETY: the thread is attached.
        unsafe { ffi::PyLong_FromLongLong(word.cast_signed()) }
    }
}

unsafe extern "C" fn set<const N: usize>(
    object: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    closure: *mut c_void,
) -> c_int {
    if value.is_null() {
        return refuse(PyAttributeError::new_err("the field cannot be deleted"));
    }
    // SAFETY: not null, so it is an object.
    match unsafe { word_from(value, closure.addr() & SIGNED != 0) } {
        Ok(word) => {
            // SAFETY: the descriptor has checked the instance.
            let words = unsafe { words_of::<N>(object) };
            words[closure.addr() & !SIGNED] = word;
            0
        }
        Err(error) => refuse(error),
    }
}

unsafe extern "C" fn get_state<const N: usize>(
    object: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls it, on an instance.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: as above.
    let words = *unsafe { words_of::<N>(object) };
    let (_, signed, short) = record::<N>();
    // As the reference does, where nothing is lost by it.
    let kept = if words[short..].iter().all(|&word| word == 0) { short } else { N };
    let values = words[..kept].iter().enumerate().map(|(at, &word)| {
        if at == signed { i128::from(word.cast_signed()) } else { i128::from(word) }
    });
    match PyTuple::new(py, values.collect::<Vec<_>>()) {
        Ok(state) => state.into_ptr(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn set_state<const N: usize>(
    object: *mut ffi::PyObject,
    state: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls it.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: Python passes an object.
    let is_tuple = unsafe { ffi::PyTuple_Check(state) } != 0;
    // SAFETY: only asked of a tuple.
    let is_empty = !is_tuple || unsafe { ffi::PyTuple_Size(state) } == 0;
    // SAFETY: a tuple, and an instance on which Python calls this.
    if is_empty || unsafe { init::<N>(object, state, ptr::null_mut()) } != 0 {
        PyRuntimeError::new_err("not the state of such an object").restore(py);
        return ptr::null_mut();
    }
    py.None().into_ptr()
}
