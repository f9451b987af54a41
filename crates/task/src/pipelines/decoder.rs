//! A text decoder with a key-value cache: one call of its model.
//!
//! Source of the names: models that `optimum-cli export onnx --task text-generation-with-past`
//! writes.

use std::borrow::Cow;

use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, InputValue, OutputValue};
use dyno_sut::tensors::{Element, Elements, ModelInput};

use super::{has_rows, recurrent};

/// A decoder model with the roles of its inputs.
pub(super) struct Decoder {
    model: CallableModel,
    /// Role of each input of the model.
    inputs: Vec<InputRole>,
    /// Index of the output with the scores of the next token.
    scores: usize,
    caches: Vec<CachePort>,
    has_one_row: bool,
}

/// Role of an input, with the type of its elements.
#[derive(Debug, Clone, Copy)]
enum InputRole {
    Tokens(Element),
    Mask(Element),
    Positions(Element),
    /// Whether there are previous tokens, in a model with a branch for either case.
    HasPast,
    /// Keys or values, by index in [`Decoder::caches`].
    Cache(usize),
}

/// Keys or values of a layer: an input and the output that becomes its next value.
#[derive(Debug, Clone, Copy)]
struct CachePort {
    element: Element,
    heads: usize,
    width: usize,
    output: usize,
}

impl CachePort {
    /// Returns the elements of the first call, which has none.
    fn no_elements(&self) -> Elements<'static> {
        Elements::read(self.element, &[]).expect("inputs are of types that a tensor has")
    }
}

/// The tokens of a call, row by row.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenBatch {
    pub rows: usize,
    pub tokens: Vec<i64>,
    /// 1 for each token so far that counts, 0 for padding.
    pub mask: Vec<i64>,
    pub positions: Vec<i64>,
}

/// Scores and cache that a call outputs.
pub(super) struct DecoderOutput {
    scores: OutputValue,
    caches: Vec<CacheTensor>,
}

/// Keys or values of a layer.
enum CacheTensor {
    /// The output of a call.
    Output(OutputValue),
    /// Some rows of the output, with their shape.
    Rows(Vec<usize>, Elements<'static>),
}

impl Decoder {
    /// Assigns roles to the inputs and outputs of a model.
    ///
    /// # Errors
    /// An input or output is missing, or an input is unknown.
    pub fn from_model(model: CallableModel) -> Result<Self, OnnxError> {
        let mut caches = Vec::new();
        let mut inputs = Vec::new();
        model.input("input_ids")?;
        for input in model.inputs() {
            let integers = || whole_numbers(&model, input);
            inputs.push(match input.name.as_str() {
                "input_ids" => InputRole::Tokens(integers()?),
                "attention_mask" => InputRole::Mask(integers()?),
                "position_ids" => InputRole::Positions(integers()?),
                "use_cache_branch" if input.element == Element::Bool => InputRole::HasPast,
                name if name.starts_with("past") => {
                    caches.push(CachePort::from_model(&model, input)?);
                    InputRole::Cache(caches.len() - 1)
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
        let of_rows = |at: &usize| !matches!(inputs[*at], InputRole::HasPast);
        let has_one_row = has_rows(&model, (0..inputs.len()).filter(of_rows), 1)?;
        Ok(Self { model, inputs, scores, caches, has_one_row })
    }

    pub fn model(&self) -> &CallableModel {
        &self.model
    }

    /// Whether rows of different lengths may share a call: the model takes a mask and positions.
    pub fn takes_padding(&self) -> bool {
        let has = |is: fn(&InputRole) -> bool| self.inputs.iter().any(is);
        has(|role| matches!(role, InputRole::Mask(_)))
            && has(|role| matches!(role, InputRole::Positions(_)))
    }

    /// Whether a call takes one row only.
    pub fn has_one_row(&self) -> bool {
        self.has_one_row
    }

    /// Processes tokens that follow those of the previous call.
    ///
    /// # Errors
    /// ONNX Runtime's message with the name of the model.
    pub fn call(
        &self,
        reads: &TokenBatch,
        before: Option<&DecoderOutput>,
    ) -> Result<DecoderOutput, String> {
        let TokenBatch { rows, tokens, mask, positions } = reads;
        let shape = |list: &[i64]| [*rows, list.len() / rows];
        let shapes = [shape(tokens), shape(mask), shape(positions)];
        let empty: Vec<[usize; 4]> =
            self.caches.iter().map(|cache| [*rows, cache.heads, 0, cache.width]).collect();
        let is_behind = [before.is_some()];
        let fed: Vec<InputValue<'_>> = self
            .inputs
            .iter()
            .map(|role| match *role {
                InputRole::Tokens(element) => {
                    InputValue::Elements(&shapes[0], integers(tokens, element))
                }
                InputRole::Mask(element) => {
                    InputValue::Elements(&shapes[1], integers(mask, element))
                }
                InputRole::Positions(element) => {
                    InputValue::Elements(&shapes[2], integers(positions, element))
                }
                InputRole::HasPast => {
                    InputValue::Elements(&[1], Elements::Bool(Cow::Borrowed(&is_behind)))
                }
                InputRole::Cache(at) => match before.map(|output| &output.caches[at]) {
                    None => InputValue::Elements(&empty[at], self.caches[at].no_elements()),
                    Some(CacheTensor::Output(output)) => InputValue::Output(output),
                    Some(CacheTensor::Rows(shape, all)) => {
                        InputValue::Elements(shape, all.slice(0..all.len()))
                    }
                },
            })
            .collect();
        let mut outputs: Vec<Option<OutputValue>> =
            self.model.call(&fed)?.into_iter().map(Some).collect();
        let mut take = |at: usize| outputs[at].take().expect("each output is taken once");
        let scores = take(self.scores);
        let caches =
            self.caches.iter().map(|cache| CacheTensor::Output(take(cache.output))).collect();
        Ok(DecoderOutput { scores, caches })
    }
}

impl CachePort {
    fn from_model(model: &CallableModel, input: &ModelInput) -> Result<Self, OnnxError> {
        let [_, Some(heads), None, Some(width)] = input.shape[..] else {
            return Err(model.unfit(format!(
                "expected '{}' of rows, a known number of heads, any number of tokens and a known \
                 number of elements, found {}",
                input.name,
                recurrent::shape(input)
            )));
        };
        let name = &input.name;
        let rest = name.strip_prefix("past_key_values").or(name.strip_prefix("past"));
        let output = format!("present{}", rest.unwrap_or_default());
        Ok(Self { element: input.element, heads, width, output: model.output(&output)? })
    }
}

impl DecoderOutput {
    /// Passes the scores of the next token of each row to `take`.
    ///
    /// # Errors
    /// `take` fails, or the output has another number of rows.
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

    /// Keeps the keys and values of these rows in this order; they are copied unless they are all
    /// rows in order.
    ///
    /// # Errors
    /// The type cannot be read, or the number of rows differs.
    pub fn pick(&mut self, rows: &[usize], total: usize) -> Result<(), String> {
        if rows.len() == total && rows.iter().enumerate().all(|(at, row)| at == *row) {
            return Ok(());
        }
        for cache in &mut self.caches {
            let CacheTensor::Output(output) = &*cache else {
                unreachable!("rows are picked once a call")
            };
            let picked = {
                let (mut shape, all) = output.read()?;
                if shape.first() != Some(&total) {
                    return Err(format!(
                        "expected keys and values of {total} rows, found {shape:?}"
                    ));
                }
                let picked = all.rows(shape[1..].iter().product(), rows);
                shape[0] = rows.len();
                CacheTensor::Rows(shape, picked)
            };
            *cache = picked;
        }
        Ok(())
    }
}

/// Returns the type of an integer input whose rows have any length.
///
/// # Errors
/// The input has another type or shape.
fn whole_numbers(model: &CallableModel, input: &ModelInput) -> Result<Element, OnnxError> {
    match (&input.shape[..], input.element) {
        ([_, None], Element::I64 | Element::I32) => Ok(input.element),
        (_, element) => Err(model.unfit(format!(
            "expected '{}' of rows and any number of tokens in int64 or int32, found {element} {}: \
             take model.onnx or decoder_model_merged.onnx",
            input.name,
            recurrent::shape(input)
        ))),
    }
}

/// Converts integers to the type of an input.
fn integers(all: &[i64], element: Element) -> Elements<'_> {
    match element {
        Element::I32 => Elements::I32(all.iter().map(|n| *n as i32).collect()),
        _ => Elements::I64(Cow::Borrowed(all)),
    }
}
