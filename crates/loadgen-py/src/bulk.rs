//! Completions with ids, answers and token counts in buffers, which need no Python work per sample.

use dyno_loadgen::sut::ResponseId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::completion::{Answer, CompletionSink, FirstTokenSink, Sink};
use crate::memory::{ContiguousBuffer, Payload, Words};
use crate::process::refuse_if_forked;

/// Completes the samples whose ids are in a buffer. The clock is read once, on entry.
///
/// `ids` is any contiguous buffer of 64-bit integers. `data` holds the answers. If
/// its first dimension has one row per id, row i is the answer to id i; otherwise
/// it is split into equal parts. With `offsets` (n + 1 positions in bytes), answer
/// i is `data[offsets[i]:offsets[i + 1]]`. `n_tokens` holds one token count per id.
#[pyfunction]
#[pyo3(
    name = "QuerySamplesCompleteBuffer",
    signature = (ids, data = None, n_tokens = None, offsets = None)
)]
pub fn query_samples_complete_buffer(
    py: Python<'_>,
    ids: &Bound<'_, PyAny>,
    data: Option<&Bound<'_, PyAny>>,
    n_tokens: Option<&Bound<'_, PyAny>>,
    offsets: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    with_buffers(py, ids, [data, n_tokens, offsets], &CompletionSink)
}

/// Reports the first tokens of the samples whose ids are in a buffer. `data` and
/// `offsets` hold the tokens in the form of `QuerySamplesCompleteBuffer`.
#[pyfunction]
#[pyo3(name = "FirstTokenCompleteBuffer", signature = (ids, data = None, offsets = None))]
pub fn first_token_complete_buffer(
    py: Python<'_>,
    ids: &Bound<'_, PyAny>,
    data: Option<&Bound<'_, PyAny>>,
    offsets: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    with_buffers(py, ids, [data, None, offsets], &FirstTokenSink)
}

fn with_buffers(
    py: Python<'_>,
    ids: &Bound<'_, PyAny>,
    [data, n_tokens, offsets]: [Option<&Bound<'_, PyAny>>; 3],
    sink: &impl Sink,
) -> PyResult<()> {
    refuse_if_forked()?;
    let ids = Words::from_object("ids", ids)?;
    let ids = ids.ids();
    if ids.is_empty() {
        return Ok(());
    }
    if data.is_none() && n_tokens.is_none() && offsets.is_none() {
        // Attached throughout, so that no Python code writes to the ids meanwhile. A million ids
        // take a few milliseconds.
        sink.take(ids);
        return Ok(());
    }
    let data = data.map(|data| ContiguousBuffer::from_object("data", data)).transpose()?;
    let tokens = n_tokens.map(|tokens| Words::from_object("n_tokens", tokens)).transpose()?;
    let offsets = offsets.map(|offsets| Words::from_object("offsets", offsets)).transpose()?;
    let answers = answers(ids, data.as_ref(), tokens.as_ref(), offsets.as_ref())?;
    sink.take_detached(py, &answers);
    Ok(())
}

fn answers(
    ids: &[ResponseId],
    data: Option<&ContiguousBuffer>,
    tokens: Option<&Words>,
    offsets: Option<&Words>,
) -> PyResult<Vec<Answer>> {
    let n = ids.len();
    let tokens = tokens.map(Words::get);
    if let Some(tokens) = tokens
        && tokens.len() != n
    {
        let found = tokens.len();
        let text = format!("n_tokens: expected a count for each of {n} ids, not {found} counts");
        return Err(PyValueError::new_err(text));
    }
    let part = parts(n, data, offsets)?;
    Ok((0..n)
        .map(|i| Answer {
            id: ids[i].0,
            payload: part(i),
            tokens: tokens.map_or(0, |tokens| tokens[i].cast_signed()),
        })
        .collect())
}

/// Returns a function from the number of an id, below `n`, to its part of `data`.
fn parts<'a>(
    n: usize,
    data: Option<&'a ContiguousBuffer>,
    offsets: Option<&'a Words>,
) -> PyResult<Box<dyn Fn(usize) -> Payload + 'a>> {
    let refused = |text: String| Err(PyValueError::new_err(text));
    let Some(data) = data else {
        return match offsets {
            Some(_) => refused("offsets: they say nothing without data".into()),
            None => Ok(Box::new(|_| Payload::at(0, 0))),
        };
    };
    let bytes = data.bytes();
    let Some(offsets) = offsets else {
        if data.rows() != n && bytes % n != 0 {
            return refused(format!(
                "data: expected {n} rows or equal parts for {n} ids, not {} rows of {bytes} bytes \
                 in all",
                data.rows()
            ));
        }
        let size = bytes / n;
        return Ok(Box::new(move |i| data.payload(i * size, size)));
    };
    let offsets = offsets.get();
    let ascend = offsets.is_sorted() && offsets.last().is_none_or(|&end| end <= bytes as u64);
    if offsets.len() != n + 1 || !ascend {
        return refused(format!(
            "offsets: expected {} ascending positions within the {bytes} bytes of data for {n} ids",
            n + 1
        ));
    }
    Ok(Box::new(move |i| {
        let begin = offsets[i] as usize;
        data.payload(begin, offsets[i + 1] as usize - begin)
    }))
}
