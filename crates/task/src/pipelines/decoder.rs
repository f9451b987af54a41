//! A decoder of text with keys and values of tokens before: one call of its model.
//!
//! Source of the names: what `optimum-cli export onnx --task text-generation-with-past` writes.

use std::borrow::Cow;

use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{Callable, Fed, Kept};
use dyno_sut::tensors::{Element, Elements, ModelInput};

use super::{carried, has_rows};

/// A model whose inputs and outputs are known.
pub(super) struct Decoder {
    model: Callable,
    /// What each input of the model is.
    inputs: Vec<Takes>,
    /// Where the scores of the next token are among the outputs.
    scores: usize,
    caches: Vec<Cache>,
    has_one_row: bool,
}

/// An input, with the type of its elements.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Tokens(Element),
    Mask(Element),
    Positions(Element),
    /// Whether there are tokens before, in a model with a branch for either.
    IsBehind,
    /// Keys or values, by place in [`Decoder::caches`].
    Cache(usize),
}

/// Keys or values of a layer: an input and the output that it becomes.
#[derive(Debug, Clone, Copy)]
struct Cache {
    element: Element,
    heads: usize,
    width: usize,
    output: usize,
}

impl Cache {
    /// Returns what the first call is fed with.
    fn no_elements(self) -> Elements<'static> {
        Elements::read(self.element, &[]).expect("inputs are of types that are held")
    }
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
        model.input("input_ids")?;
        for input in model.inputs() {
            let whole = || whole_numbers(&model, input);
            inputs.push(match input.name.as_str() {
                "input_ids" => Takes::Tokens(whole()?),
                "attention_mask" => Takes::Mask(whole()?),
                "position_ids" => Takes::Positions(whole()?),
                "use_cache_branch" if input.element == Element::Bool => Takes::IsBehind,
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
        let of_rows = |at: &usize| !matches!(inputs[*at], Takes::IsBehind);
        let has_one_row = has_rows(&model, (0..inputs.len()).filter(of_rows), 1)?;
        Ok(Self { model, inputs, scores, caches, has_one_row })
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

    /// Whether a call has a place for one row only.
    pub fn has_one_row(&self) -> bool {
        self.has_one_row
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
                    None => Fed::Elements(&empty[at], self.caches[at].no_elements()),
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
        let [_, Some(heads), None, Some(width)] = input.shape[..] else {
            return Err(model.unfit(format!(
                "expected '{}' of rows, a known number of heads, any number of tokens and a known \
                 number of elements, found {}",
                input.name,
                carried::shape(input)
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
    /// They are of a type that is not read, or not as many.
    pub fn pick(&mut self, rows: &[usize], of: usize) -> Result<(), String> {
        if rows.len() == of && rows.iter().enumerate().all(|(at, row)| at == *row) {
            return Ok(());
        }
        for held in &mut self.caches {
            let Held::Kept(kept) = &*held else { unreachable!("rows are picked once a call") };
            let picked = {
                let (mut shape, all) = kept.read()?;
                if shape.first() != Some(&of) {
                    return Err(format!("expected keys and values of {of} rows, found {shape:?}"));
                }
                let picked = all.rows(shape[1..].iter().product(), rows);
                shape[0] = rows.len();
                Held::Picked(shape, picked)
            };
            *held = picked;
        }
        Ok(())
    }
}

/// The type of an input of whole numbers, a row of any length each.
///
/// # Errors
/// It is another input.
fn whole_numbers(model: &Callable, input: &ModelInput) -> Result<Element, OnnxError> {
    match (&input.shape[..], input.element) {
        ([_, None], Element::I64 | Element::I32) => Ok(input.element),
        (_, element) => Err(model.unfit(format!(
            "expected '{}' of rows and any number of tokens in int64 or int32, found {element} {}: \
             take model.onnx or decoder_model_merged.onnx",
            input.name,
            carried::shape(input)
        ))),
    }
}

/// Whole numbers as the model takes them.
fn whole(all: &[i64], element: Element) -> Elements<'_> {
    match element {
        Element::I32 => Elements::I32(all.iter().map(|n| *n as i32).collect()),
        _ => Elements::I64(Cow::Borrowed(all)),
    }
}
