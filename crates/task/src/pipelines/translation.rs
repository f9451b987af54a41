//! GNMT: numbers of word pieces, an encoder, beam search with a decoder step per piece, and words
//! of the found numbers.
//!
//! Both models are ONNX files of the user. `docs/tasks/speech-and-translation.md` describes their
//! inputs and outputs.

mod search;
mod vocabulary;

use std::borrow::Cow;
use std::path::Path;

use dyno_sut::engine::Answers;
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, OutputValue};
use dyno_sut::tensors::{Element, Elements};

use super::recurrent::{self, CallInput, DimensionRule, RecurrentStates, StateRows};
use super::{LoadedSample, ModelOpener, Pipeline, PipelineLoader, has_rows};
use crate::files::{Files, OpenError};
use search::{BeamSearch, END, ScoreKind, SearchRules};
use vocabulary::Vocabulary;

/// Opens the pipeline of the files `encoder`, `decoder` and `vocabulary`.
pub(crate) fn open(
    files: &Files<'_>,
    width: usize,
    length_penalty: f32,
) -> Result<PipelineLoader, OpenError> {
    let [encoder, decoder, vocabulary] =
        ["encoder", "decoder", "vocabulary"].map(|name| files.path(name));
    let encoder = encoder?;
    let decoder = decoder?;
    let vocabulary = vocabulary?;
    let vocabulary = Vocabulary::read(&vocabulary).map_err(OpenError::content)?;
    let rules = SearchRules { width, length_penalty };
    Ok(Box::new(move |open| {
        Ok(Box::new(Translation::new(&encoder, &decoder, vocabulary, rules, open)?))
    }))
}

struct Translation {
    vocabulary: Vocabulary,
    rules: SearchRules,
    encoder: Encoder,
    decoder: Decoder,
    takes_one: bool,
}

struct Encoder {
    model: CallableModel,
    pieces: usize,
    /// Index of the input for the numbers of pieces.
    lengths: Option<usize>,
}

struct Decoder {
    model: CallableModel,
    piece: usize,
    /// Whether the input for the last piece is a column.
    is_column: bool,
    lengths: Option<usize>,
    /// Encoder outputs that all steps read: index of the output, index of the decoder's input.
    read: Vec<(usize, usize)>,
    states: RecurrentStates,
    /// Encoder outputs that initialize states: index of the output, name of the state.
    first: Vec<(usize, String)>,
    scores: usize,
    score_kind: ScoreKind,
}

/// The pieces of a sentence.
struct Sentence {
    /// Index in the batch.
    at: usize,
    numbers: Vec<i64>,
}

impl Translation {
    fn new(
        encoder: &Path,
        decoder: &Path,
        vocabulary: Vocabulary,
        rules: SearchRules,
        open: &ModelOpener<'_>,
    ) -> Result<Self, OnnxError> {
        let encoder = Encoder::new(open(encoder)?.into_callable())?;
        let decoder = Decoder::new(open(decoder)?.into_callable(), &encoder.model)?;
        let takes_one = has_rows(&encoder.model, 0..encoder.model.inputs().len(), 1)?;
        // Beams are rows of the decoder.
        let has_one = has_rows(&decoder.model, 0..decoder.model.inputs().len(), 1)?;
        if has_one && rules.width > 1 {
            return Err(decoder.model.unfit(format!(
                "it has a place for one row only; expected any number, of which {} are the beams \
                 of a sentence",
                rules.width
            )));
        }
        Ok(Self { vocabulary, rules, encoder, decoder, takes_one: takes_one || has_one })
    }

    /// Whether sentences of different lengths may share a call.
    fn is_padded(&self) -> bool {
        self.encoder.lengths.is_some() && self.decoder.lengths.is_some()
    }

    /// Runs the beam searches of sentences for at most `steps` steps.
    fn search(&self, sentences: &[Sentence], steps: usize) -> Result<Vec<BeamSearch>, String> {
        let outputs = self.encoder.call(sentences)?;
        let decoder = &self.decoder;
        let mut searches: Vec<BeamSearch> =
            sentences.iter().map(|one| BeamSearch::new(one.numbers.len(), self.rules)).collect();
        let mut states = decoder.first_states(&outputs, sentences.len())?;
        let mut context = EncoderContext::default();
        // Initially the rows are those of the encoder.
        let mut starts: Vec<usize> = (0..sentences.len()).collect();
        for _ in 0..steps {
            let live = searches.iter().enumerate();
            let live: Vec<(usize, (usize, u32))> =
                live.flat_map(|(at, search)| search.live().map(move |beam| (at, beam))).collect();
            if live.is_empty() {
                break;
            }
            let from: Vec<usize> = live.iter().map(|(at, (row, _))| starts[*at] + row).collect();
            let rows = decoder.states.gather(&states, &from);
            let rows_of: Vec<usize> = live.iter().map(|(at, _)| *at).collect();
            context.update(rows_of, &decoder.read, &outputs, sentences)?;
            let pieces = live.iter().map(|(_, (_, piece))| i64::from(*piece)).collect();
            let decoded = decoder.call(pieces, &rows, &context)?;
            let scores = decoder.scores(&decoded, live.len(), self.vocabulary.count())?;
            states = decoder.states.next(&decoder.model, &decoded, live.len())?;
            let mut row = 0;
            for (at, search) in searches.iter_mut().enumerate() {
                let count = live.iter().filter(|(sentence, _)| *sentence == at).count();
                starts[at] = row;
                if count > 0 {
                    let pieces = self.vocabulary.count();
                    let scores = &scores[row * pieces..(row + count) * pieces];
                    search
                        .step(scores, decoder.score_kind)
                        .ok_or_else(|| format!("{}: no score is a number", decoder.model.name()))?;
                }
                row += count;
            }
        }
        Ok(searches)
    }

    fn prepare(&self, at: usize, sample: &LoadedSample) -> Result<Sentence, String> {
        let bytes = sample.inputs[0].elements.as_slice::<u8>().ok_or("a sentence is bytes")?;
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        Ok(Sentence { at, numbers: self.vocabulary.numbers(text) })
    }
}

impl Encoder {
    fn new(model: CallableModel) -> Result<Self, OnnxError> {
        let pieces = model.input("pieces")?;
        let lengths = model.input("lengths").ok();
        recurrent::takes(
            &model,
            pieces,
            Element::I64,
            &[DimensionRule::Any, DimensionRule::Dynamic],
        )?;
        if let Some(lengths) = lengths {
            recurrent::takes(&model, lengths, Element::I64, &[DimensionRule::Any])?;
        }
        recurrent::all_fed(&model, &[Some(pieces), lengths], &RecurrentStates::none())?;
        Ok(Self { model, pieces, lengths })
    }

    /// Returns all outputs for sentences, which are padded with ends.
    fn call(&self, sentences: &[Sentence]) -> Result<Vec<OutputValue>, String> {
        let count = sentences.len();
        let longest = longest(sentences);
        let padded = sentences.iter().flat_map(|one| {
            let padding = std::iter::repeat_n(i64::from(END), longest - one.numbers.len());
            one.numbers.iter().copied().chain(padding)
        });
        let elements = Elements::I64(padded.collect());
        let mut inputs = vec![CallInput { at: self.pieces, shape: vec![count, longest], elements }];
        if let Some(at) = self.lengths {
            let lengths = sentences.iter().map(|one| one.numbers.len() as i64).collect();
            inputs.push(CallInput { at, shape: vec![count], elements: Elements::I64(lengths) });
        }
        recurrent::call(&self.model, inputs)
    }
}

fn longest(sentences: &[Sentence]) -> usize {
    sentences.iter().map(|one| one.numbers.len()).max().unwrap_or(0)
}

impl Decoder {
    fn new(model: CallableModel, encoder: &CallableModel) -> Result<Self, OnnxError> {
        let piece = model.input("piece")?;
        let lengths = model.input("lengths").ok();
        let is_column = model.inputs()[piece].shape.len() == 2;
        let sizes: &[DimensionRule] = if is_column {
            &[DimensionRule::Any, DimensionRule::Fixed(1)]
        } else {
            &[DimensionRule::Any]
        };
        recurrent::takes(&model, piece, Element::I64, sizes)?;
        if let Some(lengths) = lengths {
            recurrent::takes(&model, lengths, Element::I64, &[DimensionRule::Any])?;
        }
        let logarithms = model.output("log_probabilities").ok();
        let (scores, score_kind) = match logarithms {
            Some(at) => (at, ScoreKind::Logarithms),
            None => (model.output("scores")?, ScoreKind::Logits),
        };
        let states = RecurrentStates::from_model(&model)?;
        let encoder_output =
            |name: &str| encoder.outputs().iter().position(|port| port.name == name);
        let mut read = Vec::new();
        for (at, port) in model.inputs().iter().enumerate() {
            let is_known = at == piece || Some(at) == lengths || states.has(&port.name);
            if let (false, Some(output)) = (is_known, encoder_output(&port.name)) {
                read.push((output, at));
            }
        }
        let fed = [Some(piece), lengths].into_iter();
        let fed: Vec<Option<usize>> = fed.chain(read.iter().map(|(_, at)| Some(*at))).collect();
        recurrent::all_fed(&model, &fed, &states)?;
        let first =
            states.names().filter_map(|name| Some((encoder_output(name)?, name.to_owned())));
        let first = first.collect();
        Ok(Self { model, piece, is_column, lengths, read, states, first, scores, score_kind })
    }

    /// Returns the states before the first piece, one row per sentence: the encoder outputs of
    /// their names, otherwise zeros.
    fn first_states(&self, outputs: &[OutputValue], sentences: usize) -> Result<StateRows, String> {
        let mut states = self.states.zeros(sentences);
        for (output, name) in &self.first {
            let (shape, elements) = outputs[*output].read()?;
            if !self.states.replace(name, &mut states, elements.to_f32().into_owned()) {
                let expected = self.states.width(name).unwrap_or(0);
                return Err(format!(
                    "expected {name} of the encoder to have {expected} numbers for each of \
                     {sentences} sentences, as the decoder takes them, found {shape:?}"
                ));
            }
        }
        Ok(states)
    }

    /// Returns all outputs for these last pieces and states.
    fn call(
        &self,
        pieces: Vec<i64>,
        states: &StateRows,
        context: &EncoderContext,
    ) -> Result<Vec<OutputValue>, String> {
        let count = pieces.len();
        let shape = if self.is_column { vec![count, 1] } else { vec![count] };
        let mut inputs = self.states.inputs(states, count);
        inputs.push(CallInput { at: self.piece, shape, elements: Elements::I64(pieces.into()) });
        if let Some(at) = self.lengths {
            let elements = Elements::I64(context.lengths.as_slice().into());
            inputs.push(CallInput { at, shape: vec![count], elements });
        }
        for ((_, at), (shape, rows)) in self.read.iter().zip(&context.read) {
            let elements = Elements::F32(rows.as_slice().into());
            inputs.push(CallInput { at: *at, shape: shape.clone(), elements });
        }
        recurrent::call(&self.model, inputs)
    }

    /// Returns the scores of all pieces that a call of `rows` rows output; they are megabytes.
    fn scores<'a>(
        &self,
        outputs: &'a [OutputValue],
        rows: usize,
        pieces: usize,
    ) -> Result<Cow<'a, [f32]>, String> {
        let scores = recurrent::rows(&self.model, &outputs[self.scores], rows)?;
        if scores.len() != rows * pieces {
            return Err(format!(
                "{}: expected {pieces} scores per row, the size of the vocabulary, found {}",
                self.model.name(),
                scores.len() / rows
            ));
        }
        Ok(scores)
    }
}

/// Encoder outputs as inputs of the decoder, one row per beam. They are gathered again only if the
/// sentences of the rows change.
#[derive(Default)]
struct EncoderContext {
    /// Index of each row's sentence.
    rows_of: Vec<usize>,
    lengths: Vec<i64>,
    read: Vec<(Vec<usize>, Vec<f32>)>,
}

impl EncoderContext {
    fn update(
        &mut self,
        rows_of: Vec<usize>,
        read: &[(usize, usize)],
        outputs: &[OutputValue],
        sentences: &[Sentence],
    ) -> Result<(), String> {
        if self.rows_of == rows_of {
            return Ok(());
        }
        self.lengths = rows_of.iter().map(|at| sentences[*at].numbers.len() as i64).collect();
        self.read.clear();
        for (output, _) in read {
            let (mut shape, elements) = outputs[*output].read()?;
            if shape.first() != Some(&sentences.len()) {
                let count = sentences.len();
                return Err(format!("expected outputs of {count} sentences, found {shape:?}"));
            }
            let (elements, wide) = (elements.to_f32(), elements.len() / sentences.len());
            let rows = rows_of.iter().flat_map(|at| &elements[at * wide..][..wide]).copied();
            shape[0] = rows_of.len();
            self.read.push((shape, rows.collect()));
        }
        self.rows_of = rows_of;
        Ok(())
    }
}

impl Pipeline for Translation {
    fn models(&self) -> Vec<&CallableModel> {
        vec![&self.encoder.model, &self.decoder.model]
    }

    fn answer(&self, batch: &[LoadedSample], answers: &mut Answers) -> Result<(), String> {
        let sentences = batch.iter().enumerate().map(|(at, one)| self.prepare(at, one));
        let mut sentences = sentences.collect::<Result<Vec<Sentence>, String>>()?;
        sentences.sort_by_key(|one| one.numbers.len());
        let is_padded = self.is_padded();
        let is_beside =
            |one: &Sentence, next: &Sentence| is_padded || one.numbers.len() == next.numbers.len();
        let mut failed = Ok(());
        for group in sentences.chunk_by(is_beside) {
            // Sentences of another call may still be answered.
            let found = match self.search(group, usize::MAX) {
                Ok(found) => found,
                Err(why) => {
                    failed = failed.and(Err(why));
                    continue;
                }
            };
            for (one, search) in group.iter().zip(found) {
                let words = self.vocabulary.words(&search.best());
                answers.push(batch[one.at].sample.id, words.as_bytes());
            }
        }
        failed
    }

    fn try_out(&self, first: &LoadedSample) -> Result<(), String> {
        self.search(&[self.prepare(0, first)?], 1).map(drop)
    }

    fn takes_one(&self) -> bool {
        self.takes_one
    }
}
