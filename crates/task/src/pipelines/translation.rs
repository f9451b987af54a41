//! GNMT: pieces of words to numbers, an encoder, a step of the decoder for each piece of ten
//! beams, and numbers to words.
//!
//! The two models are ONNX files of the user's. What each takes and puts out is said in
//! `docs/tasks/speech-and-translation.md`.

mod search;
mod vocabulary;

use std::borrow::Cow;
use std::path::PathBuf;

use dyno_sut::engine::Answers;
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{Callable, Kept};
use dyno_sut::tensors::{Element, Elements};

use super::carried::{self, Carried, Input, Rows, Size};
use super::{Asked, Load, Open, Pipeline, has_rows};
use crate::files::{Files, OpenError};
use search::{END, Rules, Scores, Search};
use vocabulary::Vocabulary;

/// The pipeline of the files `encoder`, `decoder` and `vocabulary`.
pub(crate) fn open(
    files: &Files<'_>,
    width: usize,
    length_penalty: f32,
) -> Result<Load, OpenError> {
    let [encoder, decoder, vocabulary] =
        ["encoder", "decoder", "vocabulary"].map(|name| files.path(name));
    let (encoder, decoder, vocabulary) = (encoder?, decoder?, vocabulary?);
    let vocabulary = Vocabulary::read(&vocabulary).map_err(OpenError::content)?;
    let rules = Rules { width, length_penalty };
    Ok(Box::new(move |open| {
        Ok(Box::new(Translation::of([encoder, decoder], vocabulary, rules, open)?))
    }))
}

struct Translation {
    vocabulary: Vocabulary,
    rules: Rules,
    encoder: Encoder,
    decoder: Decoder,
    takes_one: bool,
}

struct Encoder {
    model: Callable,
    pieces: usize,
    /// Where it takes how many there are.
    lengths: Option<usize>,
}

struct Decoder {
    model: Callable,
    piece: usize,
    /// Whether the last piece is a row of one.
    is_column: bool,
    lengths: Option<usize>,
    /// What all steps read of the encoder: its output, the input here.
    read: Vec<(usize, usize)>,
    states: Carried,
    /// What the encoder puts out for a state.
    first: Vec<(usize, String)>,
    scores: usize,
    are: Scores,
}

/// A sentence that is answered.
struct Sentence {
    /// Its place among those asked.
    at: usize,
    numbers: Vec<i64>,
}

impl Translation {
    fn of(
        [encoder, decoder]: [PathBuf; 2],
        vocabulary: Vocabulary,
        rules: Rules,
        open: &Open<'_>,
    ) -> Result<Self, OnnxError> {
        let encoder = Encoder::of(open(&encoder)?.callable())?;
        let decoder = Decoder::of(open(&decoder)?.callable(), &encoder.model)?;
        let takes_one = has_rows(&encoder.model, 0..encoder.model.inputs().len(), 1)?;
        // Beams are rows.
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

    /// Whether sentences of different lengths may be beside each other.
    fn is_padded(&self) -> bool {
        self.encoder.lengths.is_some() && self.decoder.lengths.is_some()
    }

    /// The searches of sentences, in so many steps at most.
    fn search(&self, sentences: &[Sentence], steps: usize) -> Result<Vec<Search>, String> {
        let outputs = self.encoder.call(sentences)?;
        let decoder = &self.decoder;
        let mut searches: Vec<Search> =
            sentences.iter().map(|one| Search::new(one.numbers.len(), self.rules)).collect();
        let mut states = decoder.first_states(&outputs, sentences.len())?;
        let mut fixed = Fixed::default();
        // In the beginning the rows are those of the encoder.
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
            let of: Vec<usize> = live.iter().map(|(at, _)| *at).collect();
            fixed.follow(of, &decoder.read, &outputs, sentences)?;
            let pieces = live.iter().map(|(_, (_, piece))| i64::from(*piece)).collect();
            let said = decoder.call(pieces, &rows, &fixed)?;
            let scores = decoder.scores(&said, live.len(), self.vocabulary.count())?;
            states = decoder.states.next(&decoder.model, &said, live.len())?;
            let mut row = 0;
            for (at, search) in searches.iter_mut().enumerate() {
                let count = live.iter().filter(|(of, _)| *of == at).count();
                starts[at] = row;
                if count > 0 {
                    let pieces = self.vocabulary.count();
                    let scores = &scores[row * pieces..(row + count) * pieces];
                    search
                        .step(scores, decoder.are)
                        .ok_or_else(|| format!("{}: no score is a number", decoder.model.name()))?;
                }
                row += count;
            }
        }
        Ok(searches)
    }

    fn prepared(&self, at: usize, asked: &Asked) -> Result<Sentence, String> {
        let bytes = asked.inputs[0].elements.as_slice::<u8>().ok_or("a sentence is bytes")?;
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        Ok(Sentence { at, numbers: self.vocabulary.numbers(text) })
    }
}

impl Encoder {
    fn of(model: Callable) -> Result<Self, OnnxError> {
        let (pieces, lengths) = (model.input("pieces")?, model.input("lengths").ok());
        carried::takes(&model, pieces, Element::I64, &[Size::Any, Size::Each])?;
        if let Some(lengths) = lengths {
            carried::takes(&model, lengths, Element::I64, &[Size::Any])?;
        }
        carried::all_fed(&model, &[Some(pieces), lengths], &Carried::none())?;
        Ok(Self { model, pieces, lengths })
    }

    /// All that it puts out for sentences, which are padded with ends.
    fn call(&self, sentences: &[Sentence]) -> Result<Vec<Kept>, String> {
        let (count, longest) = (sentences.len(), longest(sentences));
        let padded = sentences.iter().flat_map(|one| {
            let padding = std::iter::repeat_n(i64::from(END), longest - one.numbers.len());
            one.numbers.iter().copied().chain(padding)
        });
        let elements = Elements::I64(padded.collect());
        let mut inputs = vec![Input { at: self.pieces, shape: vec![count, longest], elements }];
        if let Some(at) = self.lengths {
            let lengths = sentences.iter().map(|one| one.numbers.len() as i64).collect();
            inputs.push(Input { at, shape: vec![count], elements: Elements::I64(lengths) });
        }
        carried::call(&self.model, inputs)
    }
}

fn longest(sentences: &[Sentence]) -> usize {
    sentences.iter().map(|one| one.numbers.len()).max().unwrap_or(0)
}

impl Decoder {
    fn of(model: Callable, encoder: &Callable) -> Result<Self, OnnxError> {
        let (piece, lengths) = (model.input("piece")?, model.input("lengths").ok());
        let is_column = model.inputs()[piece].shape.len() == 2;
        let sizes: &[Size] = if is_column { &[Size::Any, Size::Of(1)] } else { &[Size::Any] };
        carried::takes(&model, piece, Element::I64, sizes)?;
        if let Some(lengths) = lengths {
            carried::takes(&model, lengths, Element::I64, &[Size::Any])?;
        }
        let logarithms = model.output("log_probabilities").ok();
        let (scores, are) = match logarithms {
            Some(at) => (at, Scores::Logarithms),
            None => (model.output("scores")?, Scores::Logits),
        };
        let states = Carried::of(&model)?;
        let of_encoder = |name: &str| encoder.outputs().iter().position(|port| port.name == name);
        let mut read = Vec::new();
        for (at, port) in model.inputs().iter().enumerate() {
            let is_known = at == piece || Some(at) == lengths || states.has(&port.name);
            if let (false, Some(output)) = (is_known, of_encoder(&port.name)) {
                read.push((output, at));
            }
        }
        let fed = [Some(piece), lengths].into_iter();
        let fed: Vec<Option<usize>> = fed.chain(read.iter().map(|(_, at)| Some(*at))).collect();
        carried::all_fed(&model, &fed, &states)?;
        let first = states.names().filter_map(|name| Some((of_encoder(name)?, name.to_owned())));
        let first = first.collect();
        Ok(Self { model, piece, is_column, lengths, read, states, first, scores, are })
    }

    /// The states before the first piece, a row a sentence: what the encoder puts out under
    /// their names, else zeros.
    fn first_states(&self, outputs: &[Kept], sentences: usize) -> Result<Rows, String> {
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

    /// All that it puts out for these last pieces and states.
    fn call(&self, pieces: Vec<i64>, states: &Rows, fixed: &Fixed) -> Result<Vec<Kept>, String> {
        let count = pieces.len();
        let shape = if self.is_column { vec![count, 1] } else { vec![count] };
        let mut inputs = self.states.fed(states, count);
        inputs.push(Input { at: self.piece, shape, elements: Elements::I64(pieces.into()) });
        if let Some(at) = self.lengths {
            let elements = Elements::I64(fixed.lengths.as_slice().into());
            inputs.push(Input { at, shape: vec![count], elements });
        }
        for ((_, at), (shape, rows)) in self.read.iter().zip(&fixed.read) {
            let elements = Elements::F32(rows.as_slice().into());
            inputs.push(Input { at: *at, shape: shape.clone(), elements });
        }
        carried::call(&self.model, inputs)
    }

    /// The scores of all pieces that a call of so many rows put out; they are megabytes.
    fn scores<'a>(
        &self,
        outputs: &'a [Kept],
        rows: usize,
        pieces: usize,
    ) -> Result<Cow<'a, [f32]>, String> {
        let scores = carried::rows(&self.model, &outputs[self.scores], rows)?;
        if scores.len() != rows * pieces {
            return Err(format!(
                "{}: expected {pieces} scores of a row, as there are pieces in the vocabulary, \
                 found {}",
                self.model.name(),
                scores.len() / rows
            ));
        }
        Ok(scores)
    }
}

/// What a call reads of the encoder, a row a beam. It is put together anew only where the
/// sentences of the rows are others.
#[derive(Default)]
struct Fixed {
    /// The sentence of each row.
    of: Vec<usize>,
    lengths: Vec<i64>,
    read: Vec<(Vec<usize>, Vec<f32>)>,
}

impl Fixed {
    fn follow(
        &mut self,
        of: Vec<usize>,
        read: &[(usize, usize)],
        outputs: &[Kept],
        sentences: &[Sentence],
    ) -> Result<(), String> {
        if self.of == of {
            return Ok(());
        }
        self.lengths = of.iter().map(|at| sentences[*at].numbers.len() as i64).collect();
        self.read.clear();
        for (output, _) in read {
            let (mut shape, elements) = outputs[*output].read()?;
            if shape.first() != Some(&sentences.len()) {
                let count = sentences.len();
                return Err(format!("expected outputs of {count} sentences, found {shape:?}"));
            }
            let (elements, wide) = (elements.to_f32(), elements.len() / sentences.len());
            let rows = of.iter().flat_map(|at| &elements[at * wide..][..wide]).copied();
            shape[0] = of.len();
            self.read.push((shape, rows.collect()));
        }
        self.of = of;
        Ok(())
    }
}

impl Pipeline for Translation {
    fn models(&self) -> Vec<&Callable> {
        vec![&self.encoder.model, &self.decoder.model]
    }

    fn answer(&self, asked: &[Asked], answers: &mut Answers) -> Result<(), String> {
        let sentences = asked.iter().enumerate().map(|(at, one)| self.prepared(at, one));
        let mut sentences = sentences.collect::<Result<Vec<Sentence>, String>>()?;
        sentences.sort_by_key(|one| one.numbers.len());
        let is_padded = self.is_padded();
        let is_beside =
            |one: &Sentence, next: &Sentence| is_padded || one.numbers.len() == next.numbers.len();
        let mut failed = Ok(());
        for group in sentences.chunk_by(is_beside) {
            // Those of another call may be answered all the same.
            let found = match self.search(group, usize::MAX) {
                Ok(found) => found,
                Err(why) => {
                    failed = failed.and(Err(why));
                    continue;
                }
            };
            for (one, search) in group.iter().zip(found) {
                let words = self.vocabulary.words(&search.best());
                answers.push(asked[one.at].sample.id, words.as_bytes());
            }
        }
        failed
    }

    fn try_out(&self, first: &Asked) -> Result<(), String> {
        self.search(&[self.prepared(0, first)?], 1).map(drop)
    }

    fn takes_one(&self) -> bool {
        self.takes_one
    }
}
