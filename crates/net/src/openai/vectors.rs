//! Answers of the interfaces for embeddings and rankings.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{AnswerSink as _, in_band, no_answer, states_error};
use super::builder::AnswerBuilder;
use super::usage::Claim;
use crate::base64::decoded_length;
use crate::ledger::Flags;
use crate::trouble::{Kind, Trouble};

/// An answer that is a list of vectors, ranks or images.
#[derive(Deserialize)]
pub(super) struct Items<'a> {
    #[serde(borrow)]
    pub data: Option<Vec<&'a RawValue>>,
    results: Option<Vec<&'a RawValue>>,
    model: Option<&'a RawValue>,
    pub usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Embedding {
    /// Position of its text in the request. Servers for single texts leave it out.
    index: Option<u64>,
    embedding: Vector,
}

/// A vector, as numbers or as the Base64 of 32-bit floating-point numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f64>),
    Base64(String),
}

impl Vector {
    /// Returns the number of its numbers; `None` if a text is not Base64.
    fn dimension(&self) -> Option<usize> {
        match self {
            Self::Numbers(all) => Some(all.len()),
            Self::Base64(text) => Some(decoded_length(text)? / size_of::<f32>()),
        }
    }
}

#[derive(Deserialize)]
struct Rank {
    index: Option<u64>,
    relevance_score: Option<f64>,
    score: Option<f64>,
}

/// What a request expects of vectors, ranks or images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Expectation {
    /// Vectors, ranks or images.
    pub items: usize,
    /// Texts or documents of the request.
    pub inputs: usize,
    /// Numbers in each vector, if known.
    pub dimension: Option<usize>,
}

/// Reads vectors.
///
/// # Errors
/// Not an answer of the interface, a vector of another dimension, or the server's message if it
/// reports an error.
pub(super) fn embeddings(
    json: &[u8],
    expected: Expectation,
    take: &mut AnswerBuilder,
) -> Result<bool, Trouble> {
    let wire = items(json, take)?;
    let Some(data) = &wire.data else { return Ok(false) };
    let mut expected_dimension = expected.dimension;
    let mut seen = Vec::with_capacity(data.len());
    for item in data {
        let read: Embedding = serde_json::from_str(item.get())
            .map_err(|_| item_error(item, take).unwrap_or_else(|| no_answer(json)))?;
        seen.extend(read.index);
        let dimension = read.embedding.dimension().ok_or_else(|| {
            let words = "expected a vector as numbers or as Base64, found another text";
            Trouble::new(Kind::Malformed, words)
        })?;
        let is_first = expected_dimension.is_none();
        let wanted = *expected_dimension.get_or_insert(dimension);
        if dimension == 0 {
            // No output, which makes the answer an empty one.
            take.choice(0);
            return Ok(true);
        }
        if !is_first && dimension != wanted {
            let words = format!("a vector of {dimension} numbers, but others have {wanted}");
            return Err(Trouble::new(Kind::Malformed, words));
        }
    }
    check_positions(seen, expected, ["text", "vectors"])?;
    settle(data, expected.items, wire.usage, take);
    Ok(true)
}

/// Returns the dimension of the first vector of an answer.
pub(super) fn dimension(json: &[u8]) -> Option<usize> {
    let wire: Items<'_> = serde_json::from_slice(json).ok()?;
    let first: Embedding = serde_json::from_str(wire.data?.first()?.get()).ok()?;
    first.embedding.dimension()
}

/// Reads ranks: `results`, or a list of them.
///
/// # Errors
/// Not an answer of the interface, a document without a score, or the server's message if it
/// reports an error.
pub(super) fn ranks(
    json: &[u8],
    expected: Expectation,
    take: &mut AnswerBuilder,
) -> Result<bool, Trouble> {
    let (results, usage) = if json.trim_ascii_start().starts_with(b"[") {
        (serde_json::from_slice(json).map_err(|_| no_answer(json))?, None)
    } else {
        let wire = items(json, take)?;
        let Some(results) = wire.results.or(wire.data) else { return Ok(false) };
        (results, wire.usage)
    };
    let mut seen = Vec::with_capacity(results.len());
    for item in &results {
        let item: &RawValue = item;
        let rank: Rank = serde_json::from_str(item.get()).map_err(|_| no_answer(json))?;
        let (Some(index), Some(_)) = (rank.index, rank.relevance_score.or(rank.score)) else {
            return Err(item_error(item, take).unwrap_or_else(|| {
                Trouble::new(Kind::Malformed, "a result without its index or its score")
            }));
        };
        seen.push(index);
    }
    check_positions(seen, expected, ["document", "scores"])?;
    settle(&results, expected.items, usage, take);
    Ok(true)
}

/// Checks that each result belongs to another input of the request. `names` are those of an input and of
/// results.
fn check_positions(
    mut seen: Vec<u64>,
    expected: Expectation,
    names: [&str; 2],
) -> Result<(), Trouble> {
    let [input, results] = names;
    seen.sort_unstable();
    let twice = seen.windows(2).find(|pair| pair[0] == pair[1]);
    let words = match (twice, seen.last()) {
        (Some(twice), _) => format!("{input} {} has several {results}", twice[0]),
        (None, Some(&last)) if last >= expected.inputs as u64 => format!(
            "a result for {input} {last}, but the request has {} (counted from 0)",
            expected.inputs
        ),
        _ => return Ok(()),
    };
    Err(Trouble::new(Kind::Malformed, words))
}

/// Reads an answer that is a list, and takes its model.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn items<'a>(json: &'a [u8], take: &mut AnswerBuilder) -> Result<Items<'a>, Trouble> {
    let wire: Items<'a> = serde_json::from_slice(json).map_err(|_| no_answer(json))?;
    let is_answer = wire.data.is_some() || wire.results.is_some();
    if states_error(wire.error, is_answer, take) {
        Err(in_band(json))
    } else if is_answer || wire.usage.is_some() {
        wire.model.iter().for_each(|model| take.model(model.get()));
        Ok(wire)
    } else {
        Err(no_answer(json))
    }
}

/// Returns the trouble of an item of a list that states an error instead of its content.
pub(super) fn item_error(item: &RawValue, take: &mut AnswerBuilder) -> Option<Trouble> {
    #[derive(Deserialize)]
    struct FailedItem<'a> {
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let failed: FailedItem<'_> = serde_json::from_str(item.get()).ok()?;
    states_error(failed.error, true, take).then(|| in_band(item.get().as_bytes()))
}

/// Takes the count of input tokens. Vectors, ranks and images are no text: a count of output tokens is
/// neither one nor missing.
pub(super) fn count_input(usage: Option<&RawValue>, take: &mut AnswerBuilder) {
    if let Some(claim) = usage.and_then(|usage| Claim::read(usage.get())) {
        take.usage(Claim { output: None, oddities: Flags::default(), ..claim });
    }
}

/// Takes the items as output, and the count of input tokens.
fn settle(
    items: &[&RawValue],
    expected: usize,
    usage: Option<&RawValue>,
    take: &mut AnswerBuilder,
) {
    take.choice(0);
    for item in items {
        take.output(item.get(), false);
    }
    count_input(usage, take);
    if items.len() == expected {
        take.finish("stop");
    } else {
        take.items = Some((items.len(), expected));
    }
}
