//! A decoder of text with keys and values of tokens before: one call of its model.
//!
//! Source of the names: what `optimum-cli export onnx --task text-generation-with-past` writes.

use std::borrow::Cow;

use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{Callable, Fed, Kept};
use dyno_sut::tensors::{ElementType, Elements, ModelInput};

/// A model whose inputs and outputs are known.
pub(super) struct Decoder {
    model: Callable,
    /// What each input of the model is.
    inputs: Vec<Takes>,
    /// Where the scores of the next token are among the outputs.
    scores: usize,
    caches: Vec<Cache>,
}

/// An input, with the type of its elements.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Tokens(ElementType),
    Mask(ElementType),
    Positions(ElementType),
    /// Whether there are tokens before, in a model with a branch for either.
    IsBehind,
    /// Keys or values, by place in [`Decoder::caches`].
    Cache(usize),
}

/// Keys or values of a layer: an input and the output that it becomes.
#[derive(Debug, Clone, Copy)]
struct Cache {
    element: ElementType,
    heads: usize,
    width: usize,
    output: usize,
}

/// Tokens that are read by a call, row by row.
#[derive(Debug, Clone, Default)]
pub(super) struct Reads {
    pub rows: usize,
    pub tokens: Vec<i64>,
    /// Which of all tokens so far count: 1, or 0.
    pub mask: Vec<i64>,
    pub positions: Vec<i64>,
}

/// What a call leaves for the next.
pub(super) struct Told {
    scores: Kept,
    caches: Vec<Held>,
}

/// Keys or values.
enum Held {
    /// As a call put them out.
    Kept(Kept),
    /// Some rows of them, in another order.
    Picked(Vec<usize>, Elements<'static>),
}

impl Decoder {
    /// Finds what it needs among the inputs and outputs.
    ///
    /// # Errors
    /// Something is missing, or there is an input that nothing is known of.
    pub fn of(model: Callable) -> Result<Self, OnnxError> {
        let mut caches = Vec::new();
        let mut inputs = Vec::new();
        let tokens = &model.inputs()[model.input("input_ids")?];
        if !matches!(tokens.shape[..], [_, None]) {
            return Err(model.unfit(
                "expected 'input_ids' of rows and any number of tokens, found another shape: take \
                 model.onnx or decoder_model_merged.onnx"
                    .into(),
            ));
        }
        for input in model.inputs() {
            let whole = || match input.element {
                ElementType::I64 | ElementType::I32 => Ok(input.element),
                other => Err(model.unfit(format!(
                    "expected int64 or int32 as the input '{}', found {other}",
                    input.name
                ))),
            };
            inputs.push(match input.name.as_str() {
                "input_ids" => Takes::Tokens(whole()?),
                "attention_mask" => Takes::Mask(whole()?),
                "position_ids" => Takes::Positions(whole()?),
                "use_cache_branch" if input.element == ElementType::Bool => Takes::IsBehind,
                name if name.starts_with("past") => {
                    caches.push(Cache::of(&model, input)?);
                    Takes::Cache(caches.len() - 1)
                }
                name => {
                    return Err(model.unfit(format!(
                        "expected no inputs but input_ids, attention_mask, position_ids, \
                         use_cache_branch and past_key_values.N.key and .value, found '{name}'; \
                         export it with optimum-cli export onnx --task text-generation-with-past"
                    )));
                }
            });
        }
        if caches.is_empty() {
            return Err(model.unfit(
                "expected inputs past_key_values.N.key and .value, found none: export it with \
                 optimum-cli export onnx --task text-generation-with-past"
                    .into(),
            ));
        }
        let scores = model.output("logits")?;
        Ok(Self { model, inputs, scores, caches })
    }

    pub fn model(&self) -> &Callable {
        &self.model
    }

    /// Whether rows of different lengths may share a call: which tokens count, and where
    /// they stand, can be said.
    pub fn takes_padding(&self) -> bool {
        let has = |is: fn(&Takes) -> bool| self.inputs.iter().any(is);
        has(|takes| matches!(takes, Takes::Mask(_)))
            && has(|takes| matches!(takes, Takes::Positions(_)))
    }

    /// Reads tokens behind those of the call before.
    ///
    /// # Errors
    /// ONNX Runtime's message, with the name of the model.
    pub fn call(&self, reads: &Reads, before: Option<&Told>) -> Result<Told, String> {
        let Reads { rows, tokens, mask, positions } = reads;
        let shape = |of: &[i64]| [*rows, of.len() / rows];
        let shapes = [shape(tokens), shape(mask), shape(positions)];
        let empty: Vec<[usize; 4]> =
            self.caches.iter().map(|cache| [*rows, cache.heads, 0, cache.width]).collect();
        let is_behind = [before.is_some()];
        let fed: Vec<Fed<'_>> = self
            .inputs
            .iter()
            .map(|takes| match *takes {
                Takes::Tokens(element) => Fed::Elements(&shapes[0], whole(tokens, element)),
                Takes::Mask(element) => Fed::Elements(&shapes[1], whole(mask, element)),
                Takes::Positions(element) => Fed::Elements(&shapes[2], whole(positions, element)),
                Takes::IsBehind => Fed::Elements(&[1], Elements::Bool(Cow::Borrowed(&is_behind))),
                Takes::Cache(at) => match before.map(|told| &told.caches[at]) {
                    None => Fed::Elements(&empty[at], self.caches[at].element.read(&[])),
                    Some(Held::Kept(kept)) => Fed::Kept(kept),
                    Some(Held::Picked(shape, all)) => Fed::Elements(shape, all.slice(0..all.len())),
                },
            })
            .collect();
        let mut outputs: Vec<Option<Kept>> = self.model.call(&fed)?.into_iter().map(Some).collect();
        let mut take = |at: usize| outputs[at].take().expect("each output is taken once");
        let scores = take(self.scores);
        let caches = self.caches.iter().map(|cache| Held::Kept(take(cache.output))).collect();
        Ok(Told { scores, caches })
    }
}

impl Cache {
    fn of(model: &Callable, input: &ModelInput) -> Result<Self, OnnxError> {
        let [_, Some(heads), _, Some(width)] = input.shape[..] else {
            let found: Vec<String> = input
                .shape
                .iter()
                .map(|n| n.map_or_else(|| "?".to_owned(), |n| n.to_string()))
                .collect();
            return Err(model.unfit(format!(
                "expected '{}' of rows, a known number of heads, tokens and a known number of \
                 elements, found [{}]",
                input.name,
                found.join(", ")
            )));
        };
        let name = &input.name;
        let rest = name.strip_prefix("past_key_values").or(name.strip_prefix("past"));
        let output = format!("present{}", rest.unwrap_or_default());
        Ok(Self { element: input.element, heads, width, output: model.output(&output)? })
    }
}

impl Told {
    /// Hands the scores of the token behind the last one of each row to `take`.
    ///
    /// # Errors
    /// That of `take`, or there are not as many rows.
    pub fn scores<T>(
        &self,
        rows: usize,
        take: impl FnOnce(&[&[f32]]) -> Result<T, String>,
    ) -> Result<T, String> {
        let (shape, elements) = self.scores.read()?;
        let [found, tokens, words] = shape[..] else {
            return Err(format!("expected logits of rows, tokens and words, found {shape:?}"));
        };
        if found != rows || tokens == 0 || words == 0 {
            return Err(format!("expected logits of {rows} rows, found {shape:?}"));
        }
        let last = |row: usize| {
            let end = (row + 1) * tokens * words;
            elements.slice(end - words..end)
        };
        let last: Vec<Elements<'_>> = (0..rows).map(last).collect();
        let last: Vec<Cow<'_, [f32]>> = last.iter().map(Elements::to_f32).collect();
        take(&last.iter().map(|row| &**row).collect::<Vec<_>>())
    }

    /// Keys and values of these rows, in this order; a copy, unless they are all of them.
    ///
    /// # Errors
    /// They are of a type that is not read.
    pub fn pick(&mut self, rows: &[usize], of: usize) -> Result<(), String> {
        if rows.len() == of && rows.iter().enumerate().all(|(at, row)| at == *row) {
            return Ok(());
        }
        for held in &mut self.caches {
            let picked = match &*held {
                Held::Kept(kept) => {
                    let (shape, all) = kept.read()?;
                    picked(&shape, &all, rows)
                }
                Held::Picked(shape, all) => picked(shape, all, rows),
            };
            *held = picked;
        }
        Ok(())
    }
}

fn picked(shape: &[usize], all: &Elements<'_>, rows: &[usize]) -> Held {
    let mut shape = shape.to_vec();
    shape[0] = rows.len();
    Held::Picked(shape.clone(), all.rows(shape[1..].iter().product(), rows))
}

/// Whole numbers as the model takes them.
fn whole(all: &[i64], element: ElementType) -> Elements<'_> {
    match element {
        ElementType::I32 => Elements::I32(all.iter().map(|n| *n as i32).collect()),
        _ => Elements::I64(Cow::Borrowed(all)),
    }
}
