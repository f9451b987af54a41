//! RNN-T: features of a waveform, an encoder, and a greedy search that asks a prediction and a
//! joint network for each character.
//!
//! The three are ONNX files of the user's. What each takes and puts out is said in
//! `docs/tasks/speech-and-translation.md`.

mod features;
mod greedy;

use std::borrow::Cow;

use dyno_sut::engine::Answers;
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{Callable, Kept};
use dyno_sut::tensors::{Element, Elements};

use super::carried::{self, Carried, Input, Size};
use super::{Asked, Load, Pipeline, has_rows};
use crate::files::{Files, OpenError};
use features::{FEATURES, Filters};
use greedy::{Heard, Search};

/// Frames that the encoder joins.
const JOINED: usize = 2;
/// What the prediction network is told before anything was said.
const NOTHING: i64 = -1;
/// Characters and the blank.
const SYMBOLS: usize = 29;

/// The pipeline of the files `encoder`, `prediction` and `joint`.
pub(crate) fn open(files: &Files<'_>) -> Result<Load, OpenError> {
    let [encoder, prediction, joint] =
        ["encoder", "prediction", "joint"].map(|name| files.path(name));
    let (encoder, prediction, joint) = (encoder?, prediction?, joint?);
    Ok(Box::new(move |open| {
        let encoder = Encoder::of(open(&encoder)?.callable())?;
        let prediction = Prediction::of(open(&prediction)?.callable())?;
        let joint = Joint::of(open(&joint)?.callable())?;
        let mut takes_one = false;
        for model in [&encoder.model, &prediction.model, &joint.model] {
            takes_one |= has_rows(model, 0..model.inputs().len(), 1)?;
        }
        Ok(Box::new(Transducer { filters: Filters::new(), encoder, prediction, joint, takes_one }))
    }))
}

struct Transducer {
    filters: Filters,
    encoder: Encoder,
    prediction: Prediction,
    joint: Joint,
    takes_one: bool,
}

struct Encoder {
    model: Callable,
    features: usize,
    /// Where it takes the number of frames; without it all utterances of a call have as many.
    lengths: Option<usize>,
    heard: usize,
}

struct Prediction {
    model: Callable,
    character: usize,
    said: usize,
    states: Carried,
}

struct Joint {
    model: Callable,
    heard: usize,
    said: usize,
    scores: usize,
}

/// An utterance that is answered.
struct Utterance {
    /// Its place among those asked.
    at: usize,
    frames: Vec<f32>,
}

impl Utterance {
    fn count(&self) -> usize {
        self.frames.len() / FEATURES
    }
}

impl Encoder {
    fn of(model: Callable) -> Result<Self, OnnxError> {
        let (features, heard) = (model.input("features")?, model.output("heard")?);
        let lengths = model.input("lengths").ok();
        carried::takes(
            &model,
            features,
            Element::F32,
            &[Size::Any, Size::Each, Size::Of(FEATURES)],
        )?;
        if let Some(lengths) = lengths {
            carried::takes(&model, lengths, Element::I64, &[Size::Any])?;
        }
        carried::all_fed(&model, &[Some(features), lengths], &Carried::none())?;
        Ok(Self { model, features, lengths, heard })
    }

    /// What is heard in utterances, which are padded to the longest.
    fn call(&self, utterances: &[&Utterance]) -> Result<Kept, String> {
        let longest = utterances.iter().map(|one| one.count()).max().unwrap_or(0);
        let mut padded = vec![0.0; utterances.len() * longest * FEATURES];
        for (to, one) in padded.chunks_mut(longest * FEATURES).zip(utterances) {
            to[..one.frames.len()].copy_from_slice(&one.frames);
        }
        let mut inputs = vec![Input {
            at: self.features,
            shape: vec![utterances.len(), longest, FEATURES],
            elements: Elements::F32(padded.into()),
        }];
        if let Some(at) = self.lengths {
            let counts: Vec<i64> = utterances.iter().map(|one| one.count() as i64).collect();
            let (shape, elements) = (vec![counts.len()], Elements::I64(counts.into()));
            inputs.push(Input { at, shape, elements });
        }
        let mut outputs = carried::call(&self.model, inputs)?;
        let heard = outputs.swap_remove(self.heard);
        let (shape, _) = heard.read()?;
        let expected = [utterances.len(), longest.div_ceil(JOINED)];
        if shape.len() != 3 || shape[..2] != expected {
            let [count, pairs] = expected;
            return Err(format!(
                "{}: expected heard of [{count}, {pairs}, ?] for {longest} frames, two joined, \
                 found {shape:?}",
                self.model.name()
            ));
        }
        Ok(heard)
    }
}

impl Prediction {
    fn of(model: Callable) -> Result<Self, OnnxError> {
        let (character, said) = (model.input("character")?, model.output("said")?);
        carried::takes(&model, character, Element::I64, &[Size::Any, Size::Of(1)])?;
        let states = Carried::of(&model)?;
        carried::all_fed(&model, &[Some(character)], &states)?;
        Ok(Self { model, character, said, states })
    }

    /// What is foretold behind these characters and states, which go on.
    fn call(&self, characters: Vec<i64>, states: &mut carried::Rows) -> Result<Vec<f32>, String> {
        let count = characters.len();
        let mut inputs = self.states.fed(states, count);
        let elements = Elements::I64(characters.into());
        inputs.push(Input { at: self.character, shape: vec![count, 1], elements });
        let outputs = carried::call(&self.model, inputs)?;
        let next = self.states.next(&self.model, &outputs, count)?;
        *states = next;
        carried::rows(&self.model, &outputs[self.said], count).map(Cow::into_owned)
    }
}

impl Joint {
    fn of(model: Callable) -> Result<Self, OnnxError> {
        let (heard, said) = (model.input("heard")?, model.input("said")?);
        let scores = model.output("scores")?;
        for input in [heard, said] {
            carried::takes(&model, input, Element::F32, &[Size::Any, Size::Any])?;
        }
        carried::all_fed(&model, &[Some(heard), Some(said)], &Carried::none())?;
        Ok(Self { model, heard, said, scores })
    }

    /// Scores of the next character, [`SYMBOLS`] for each of so many rows.
    fn call(&self, count: usize, heard: Vec<f32>, said: Vec<f32>) -> Result<Vec<f32>, String> {
        let input = |at, values: Vec<f32>| {
            let shape = vec![count, values.len() / count];
            Input { at, shape, elements: Elements::F32(values.into()) }
        };
        let inputs = vec![input(self.heard, heard), input(self.said, said)];
        let outputs = carried::call(&self.model, inputs)?;
        let scores = carried::rows(&self.model, &outputs[self.scores], count)?;
        if scores.len() != count * SYMBOLS {
            return Err(format!(
                "{}: expected {SYMBOLS} scores, of 28 characters and the blank, found {}",
                self.model.name(),
                scores.len() / count
            ));
        }
        Ok(scores.into_owned())
    }
}

impl Transducer {
    /// What is said in utterances, in so many rounds at most: a character or a blank each.
    fn search(&self, utterances: &[&Utterance], rounds: usize) -> Result<Vec<Search>, String> {
        let heard = self.encoder.call(utterances)?;
        let (shape, values) = heard.read()?;
        let (pairs, values) = (shape[1], values.to_f32());
        let wide = values.len() / (utterances.len() * pairs).max(1);
        let search = |one: &&Utterance| Search::new(one.count().div_ceil(JOINED));
        let mut searches: Vec<Search> = utterances.iter().map(search).collect();
        let states = &self.prediction.states;
        let (mut of_all, mut said) = (states.zeros(searches.len()), Vec::new());
        // Those of whom something new is foretold: in the beginning all.
        let mut asking: Vec<usize> = (0..searches.len()).collect();
        for _ in 0..rounds {
            asking.retain(|at| searches[*at].frame().is_some());
            if !asking.is_empty() {
                let last = |at: &usize| searches[*at].last().unwrap_or(NOTHING);
                let mut rows = states.gather(&of_all, &asking);
                let new = self.prediction.call(asking.iter().map(last).collect(), &mut rows)?;
                states.scatter(&rows, &asking, &mut of_all);
                let width = new.len() / asking.len();
                said.resize(searches.len() * width, 0.0);
                for (at, new) in asking.iter().zip(new.chunks_exact(width)) {
                    said[at * width..][..width].copy_from_slice(new);
                }
            }
            let frames = searches.iter().enumerate();
            let going: Vec<(usize, usize)> =
                frames.filter_map(|(at, search)| Some((at, search.frame()?))).collect();
            if going.is_empty() {
                break;
            }
            let width = said.len() / searches.len();
            let frames = going.iter().flat_map(|(at, frame)| {
                values[(at * pairs + frame) * wide..][..wide].iter().copied()
            });
            let foretold = going.iter().flat_map(|(at, _)| &said[at * width..][..width]).copied();
            let scores = self.joint.call(going.len(), frames.collect(), foretold.collect())?;
            asking.clear();
            for ((at, frame), scores) in going.iter().zip(scores.chunks_exact(SYMBOLS)) {
                let heard = searches[*at].hear(scores).ok_or_else(|| {
                    format!("{}: no score of frame {frame} is a number", self.joint.model.name())
                })?;
                if heard == Heard::Character {
                    asking.push(*at);
                }
            }
        }
        Ok(searches)
    }

    fn prepared(&self, at: usize, asked: &Asked) -> Result<Utterance, String> {
        let waveform = asked.inputs[0].elements.as_slice::<f32>().ok_or("a waveform is float32")?;
        let frames = self.filters.frames(waveform).map_err(|error| error.to_string())?;
        Ok(Utterance { at, frames })
    }
}

impl Pipeline for Transducer {
    fn models(&self) -> Vec<&Callable> {
        vec![&self.encoder.model, &self.prediction.model, &self.joint.model]
    }

    fn answer(&self, asked: &[Asked], answers: &mut Answers) -> Result<(), String> {
        let mut failed = Ok(());
        let mut utterances = Vec::with_capacity(asked.len());
        for (at, one) in asked.iter().enumerate() {
            match self.prepared(at, one) {
                Ok(utterance) => utterances.push(utterance),
                Err(why) => failed = failed.and(Err(why)),
            }
        }
        // Those that may stand in one call beside each other.
        utterances.sort_by_key(Utterance::count);
        let is_padded = self.encoder.lengths.is_some();
        let groups = utterances.chunk_by(|one, next| is_padded || one.count() == next.count());
        for group in groups {
            let group: Vec<&Utterance> = group.iter().collect();
            // Those of another call may be answered all the same.
            let found = match self.search(&group, usize::MAX) {
                Ok(found) => found,
                Err(why) => {
                    failed = failed.and(Err(why));
                    continue;
                }
            };
            for (one, search) in group.iter().zip(found) {
                let write = |bytes: &mut Vec<u8>| -> Result<i64, String> {
                    bytes.extend(search.characters().iter().flat_map(|one| one.to_le_bytes()));
                    Ok(0)
                };
                answers.push_with(asked[one.at].sample.id, write)?;
            }
        }
        failed
    }

    fn try_out(&self, first: &Asked) -> Result<(), String> {
        let utterance = self.prepared(0, first)?;
        self.search(&[&utterance], 1).map(drop)
    }

    fn takes_one(&self) -> bool {
        self.takes_one
    }
}
