//! `QuerySamplesComplete` and `FirstTokenComplete`: lists of responses.

use dyno_loadgen::sut::{AsResponse, ResponseId};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::LOADGEN;
use crate::convert::{Callback, expected};
use crate::memory::{self, Payload};
use crate::process::refuse_if_forked;
use crate::records::QUERY_SAMPLE_RESPONSE;
use crate::vector::VectorQuerySampleResponse;

/// Answer to one sample.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    pub id: u64,
    pub payload: Payload,
    pub tokens: i64,
}

impl Answer {
    fn new([id, data, size, tokens]: [u64; 4]) -> Self {
        Self { id, payload: Payload::at(data, size), tokens: tokens.cast_signed() }
    }
}

impl AsResponse for Answer {
    #[inline]
    fn id(&self) -> ResponseId {
        ResponseId(self.id)
    }

    #[inline]
    fn data(&self) -> &[u8] {
        self.payload.bytes()
    }

    #[inline]
    fn tokens(&self) -> i64 {
        self.tokens
    }
}

/// Destination of responses.
pub trait Sink: Sync {
    fn take<R: AsResponse>(&self, responses: &[R]);

    /// Takes responses and releases the interpreter meanwhile, unless there are so few that this
    /// would take longer.
    fn take_detached(&self, py: Python<'_>, answers: &[Answer]) {
        const BRIEF: usize = 1024;
        if answers.len() < BRIEF {
            self.take(answers);
        } else {
            py.detach(|| self.take(answers));
        }
    }
}

/// Completes samples.
pub struct CompletionSink;

impl Sink for CompletionSink {
    #[inline]
    fn take<R: AsResponse>(&self, responses: &[R]) {
        // Completions outside of a test are reported on stderr and in the log of the next test.
        // They must not raise an exception in a late thread.
        let _ = LOADGEN.complete(responses);
    }
}

/// Reports first tokens of samples.
pub struct FirstTokenSink;

impl Sink for FirstTokenSink {
    #[inline]
    fn take<R: AsResponse>(&self, responses: &[R]) {
        // Errors are ignored as in `CompletionSink`.
        let _ = LOADGEN.first_token(responses);
    }
}

/// Completes samples. The clock is read once, on entry.
///
/// For each response that is logged, `response_cb(response)` is called with a copy
/// before its data is read. It may set `data` and `size`.
#[pyfunction]
#[pyo3(name = "QuerySamplesComplete", signature = (responses, response_cb = None))]
pub fn query_samples_complete(
    responses: &Bound<'_, PyAny>,
    response_cb: Option<Callback>,
) -> PyResult<()> {
    let callback = response_cb.and_then(|callback| callback.0);
    with_answers(responses, |py, class, answers| match callback {
        Some(callback) => complete_fetching(class, answers, callback.bind(py)),
        None => {
            CompletionSink.take_detached(py, answers);
            Ok(())
        }
    })
}

/// Reports the first tokens of samples. `response_cb` is accepted and never
/// called, as in the reference.
#[pyfunction]
#[pyo3(name = "FirstTokenComplete", signature = (responses, response_cb = None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments are converted")]
pub fn first_token_complete(
    responses: &Bound<'_, PyAny>,
    response_cb: Option<Callback>,
) -> PyResult<()> {
    let _ = response_cb;
    with_answers(responses, |py, _, answers| {
        FirstTokenSink.take_detached(py, answers);
        Ok(())
    })
}

/// Converts all responses and passes them to `f`; no response counts if one of them is invalid. A
/// single response, as in SingleStream, needs no allocation.
fn with_answers<'py>(
    responses: &Bound<'py, PyAny>,
    f: impl FnOnce(Python<'py>, &Bound<'py, PyType>, &mut [Answer]) -> PyResult<()>,
) -> PyResult<()> {
    refuse_if_forked()?;
    let py = responses.py();
    let class = QUERY_SAMPLE_RESPONSE.class(py)?;
    let answer = |response: &Bound<'py, PyAny>| {
        let words = QUERY_SAMPLE_RESPONSE.words(class, response).map(Answer::new);
        words.ok_or_else(|| expected("a QuerySampleResponse", response))
    };
    let list = list_of(responses)?;
    match list.len() {
        0 => Ok(()),
        1 => f(py, class, &mut [answer(&list.get_item(0)?)?]),
        n => {
            let mut answers = Vec::with_capacity(n);
            for response in list.iter() {
                answers.push(answer(&response)?);
            }
            drop(list);
            f(py, class, &mut answers)
        }
    }
}

/// Returns the responses as a list; accepts the sequences that the reference accepts.
fn list_of<'py>(responses: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    if let Ok(list) = responses.cast::<PyList>() {
        return Ok(list.clone());
    }
    if let Ok(vector) = responses.cast::<VectorQuerySampleResponse>() {
        return Ok(vector.get().list.bind(responses.py()).clone());
    }
    if !memory::is_sequence(responses) {
        return Err(expected("a list of QuerySampleResponse", responses));
    }
    let list = PyList::empty(responses.py());
    for response in responses.try_iter()? {
        list.append(response?)?;
    }
    Ok(list)
}

fn complete_fetching<'py>(
    class: &Bound<'py, PyType>,
    answers: &mut [Answer],
    callback: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let mut failed = None;
    let fetch = |answer: &mut Answer| -> PyResult<()> {
        let (data, size) = answer.payload.address();
        let words = [answer.id, data, size, answer.tokens.cast_unsigned()];
        let copy = QUERY_SAMPLE_RESPONSE.instance(class, words)?;
        callback.call1((&copy,))?;
        let words = QUERY_SAMPLE_RESPONSE.words(class, &copy).expect("an instance of the class");
        *answer = Answer { id: answer.id, ..Answer::new(words) };
        Ok(())
    };
    // Attached throughout, because the callback needs the interpreter. The load generator holds no
    // lock during the callback.
    let _ = LOADGEN.complete_fetching(answers, &mut |answer| {
        if failed.is_none() {
            failed = fetch(answer).err();
        }
    });
    failed.map_or(Ok(()), Err)
}
