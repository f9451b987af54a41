//! RNN-T: features of a waveform, an encoder, and a greedy search that calls a prediction network
//! and a joint network for each character.
//!
//! The three models are ONNX files of the user. `docs/tasks/speech-and-translation.md` describes
//! their inputs and outputs.

mod features;
mod greedy;

use std::borrow::Cow;

use dyno_sut::engine::Answers;
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, OutputValue};
use dyno_sut::tensors::{Element, Elements};

use super::recurrent::{self, CallInput, DimensionRule, RecurrentStates};
use super::{LoadedSample, Pipeline, PipelineLoader, has_rows};
use crate::files::{Files, OpenError};
use features::{FEATURES, FilterBank};
use greedy::{GreedySearch, Symbol};

/// Frames that the encoder stacks.
const JOINED: usize = 2;
/// Input of the prediction network before the first character.
const NO_CHARACTER: i64 = -1;
/// Characters and the blank.
const SYMBOLS: usize = 29;

/// Opens the pipeline of the files `encoder`, `prediction` and `joint`.
pub(crate) fn open(files: &Files<'_>) -> Result<PipelineLoader, OpenError> {
    let [encoder, prediction, joint] =
        ["encoder", "prediction", "joint"].map(|name| files.path(name));
    let encoder = encoder?;
    let prediction = prediction?;
    let joint = joint?;
    Ok(Box::new(move |open| {
        let encoder = Encoder::new(open(&encoder)?.into_callable())?;
        let prediction = Prediction::new(open(&prediction)?.into_callable())?;
        let joint = Joint::new(open(&joint)?.into_callable())?;
        let mut takes_one = false;
        for model in [&encoder.model, &prediction.model, &joint.model] {
            takes_one |= has_rows(model, 0..model.inputs().len(), 1)?;
        }
        Ok(Box::new(Transducer {
            filters: FilterBank::new(),
            encoder,
            prediction,
            joint,
            takes_one,
        }))
    }))
}

struct Transducer {
    filters: FilterBank,
    encoder: Encoder,
    prediction: Prediction,
    joint: Joint,
    takes_one: bool,
}

struct Encoder {
    model: CallableModel,
    features: usize,
    /// Index of the input for the numbers of frames; without it all utterances of a call must have
    /// the same length.
    lengths: Option<usize>,
    heard: usize,
}

struct Prediction {
    model: CallableModel,
    character: usize,
    prediction: usize,
    states: RecurrentStates,
}

struct Joint {
    model: CallableModel,
    heard: usize,
    prediction: usize,
    scores: usize,
}

/// The frames of an utterance.
struct Utterance {
    /// Index in the batch.
    at: usize,
    frames: Vec<f32>,
}

impl Utterance {
    fn count(&self) -> usize {
        self.frames.len() / FEATURES
    }
}

impl Encoder {
    fn new(model: CallableModel) -> Result<Self, OnnxError> {
        let features = model.input("features")?;
        let heard = model.output("heard")?;
        let lengths = model.input("lengths").ok();
        recurrent::takes(
            &model,
            features,
            Element::F32,
            &[DimensionRule::Any, DimensionRule::Dynamic, DimensionRule::Fixed(FEATURES)],
        )?;
        if let Some(lengths) = lengths {
            recurrent::takes(&model, lengths, Element::I64, &[DimensionRule::Any])?;
        }
        recurrent::all_fed(&model, &[Some(features), lengths], &RecurrentStates::none())?;
        Ok(Self { model, features, lengths, heard })
    }

    /// Returns the encodings of utterances, which are padded to the longest.
    fn call(&self, utterances: &[&Utterance]) -> Result<OutputValue, String> {
        let longest = utterances.iter().map(|one| one.count()).max().unwrap_or(0);
        let mut padded = vec![0.0; utterances.len() * longest * FEATURES];
        for (to, one) in padded.chunks_mut(longest * FEATURES).zip(utterances) {
            to[..one.frames.len()].copy_from_slice(&one.frames);
        }
        let mut inputs = vec![CallInput {
            at: self.features,
            shape: vec![utterances.len(), longest, FEATURES],
            elements: Elements::F32(padded.into()),
        }];
        if let Some(at) = self.lengths {
            let counts: Vec<i64> = utterances.iter().map(|one| one.count() as i64).collect();
            let shape = vec![counts.len()];
            let elements = Elements::I64(counts.into());
            inputs.push(CallInput { at, shape, elements });
        }
        let mut outputs = recurrent::call(&self.model, inputs)?;
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
    fn new(model: CallableModel) -> Result<Self, OnnxError> {
        let character = model.input("character")?;
        let prediction = model.output("said")?;
        recurrent::takes(
            &model,
            character,
            Element::I64,
            &[DimensionRule::Any, DimensionRule::Fixed(1)],
        )?;
        let states = RecurrentStates::from_model(&model)?;
        recurrent::all_fed(&model, &[Some(character)], &states)?;
        Ok(Self { model, character, prediction, states })
    }

    /// Returns the predictions after these characters, and updates the states.
    fn call(
        &self,
        characters: Vec<i64>,
        states: &mut recurrent::StateRows,
    ) -> Result<Vec<f32>, String> {
        let count = characters.len();
        let mut inputs = self.states.inputs(states, count);
        let elements = Elements::I64(characters.into());
        inputs.push(CallInput { at: self.character, shape: vec![count, 1], elements });
        let outputs = recurrent::call(&self.model, inputs)?;
        let next = self.states.next(&self.model, &outputs, count)?;
        *states = next;
        recurrent::rows(&self.model, &outputs[self.prediction], count).map(Cow::into_owned)
    }
}

impl Joint {
    fn new(model: CallableModel) -> Result<Self, OnnxError> {
        let heard = model.input("heard")?;
        let prediction = model.input("said")?;
        let scores = model.output("scores")?;
        for input in [heard, prediction] {
            recurrent::takes(
                &model,
                input,
                Element::F32,
                &[DimensionRule::Any, DimensionRule::Any],
            )?;
        }
        recurrent::all_fed(&model, &[Some(heard), Some(prediction)], &RecurrentStates::none())?;
        Ok(Self { model, heard, prediction, scores })
    }

    /// Returns the scores of the next character, [`SYMBOLS`] for each of `count` rows.
    fn call(
        &self,
        count: usize,
        heard: Vec<f32>,
        prediction: Vec<f32>,
    ) -> Result<Vec<f32>, String> {
        let input = |at, values: Vec<f32>| {
            let shape = vec![count, values.len() / count];
            CallInput { at, shape, elements: Elements::F32(values.into()) }
        };
        let inputs = vec![input(self.heard, heard), input(self.prediction, prediction)];
        let outputs = recurrent::call(&self.model, inputs)?;
        let scores = recurrent::rows(&self.model, &outputs[self.scores], count)?;
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
    /// Searches the characters of utterances in at most `rounds` rounds: each yields a character or
    /// a blank.
    fn search(
        &self,
        utterances: &[&Utterance],
        rounds: usize,
    ) -> Result<Vec<GreedySearch>, String> {
        let heard = self.encoder.call(utterances)?;
        let (shape, values) = heard.read()?;
        let pairs = shape[1];
        let values = values.to_f32();
        let wide = values.len() / (utterances.len() * pairs).max(1);
        let search = |one: &&Utterance| GreedySearch::new(one.count().div_ceil(JOINED));
        let mut searches: Vec<GreedySearch> = utterances.iter().map(search).collect();
        let states = &self.prediction.states;
        let mut all_states = states.zeros(searches.len());
        let mut prediction = Vec::new();
        // Utterances that need a new prediction: initially all.
        let mut asking: Vec<usize> = (0..searches.len()).collect();
        for _ in 0..rounds {
            asking.retain(|at| searches[*at].frame().is_some());
            if !asking.is_empty() {
                let last = |at: &usize| searches[*at].last().unwrap_or(NO_CHARACTER);
                let mut rows = states.gather(&all_states, &asking);
                let new = self.prediction.call(asking.iter().map(last).collect(), &mut rows)?;
                states.scatter(&rows, &asking, &mut all_states);
                let width = new.len() / asking.len();
                prediction.resize(searches.len() * width, 0.0);
                for (at, new) in asking.iter().zip(new.chunks_exact(width)) {
                    prediction[at * width..][..width].copy_from_slice(new);
                }
            }
            let frames = searches.iter().enumerate();
            let going: Vec<(usize, usize)> =
                frames.filter_map(|(at, search)| Some((at, search.frame()?))).collect();
            if going.is_empty() {
                break;
            }
            let width = prediction.len() / searches.len();
            let frames = going.iter().flat_map(|(at, frame)| {
                values[(at * pairs + frame) * wide..][..wide].iter().copied()
            });
            let foretold =
                going.iter().flat_map(|(at, _)| &prediction[at * width..][..width]).copied();
            let scores = self.joint.call(going.len(), frames.collect(), foretold.collect())?;
            asking.clear();
            for ((at, frame), scores) in going.iter().zip(scores.chunks_exact(SYMBOLS)) {
                let heard = searches[*at].accept(scores).ok_or_else(|| {
                    format!("{}: no score of frame {frame} is a number", self.joint.model.name())
                })?;
                if heard == Symbol::Character {
                    asking.push(*at);
                }
            }
        }
        Ok(searches)
    }

    fn prepare(&self, at: usize, sample: &LoadedSample) -> Result<Utterance, String> {
        let waveform =
            sample.inputs[0].elements.as_slice::<f32>().ok_or("a waveform is float32")?;
        let frames = self.filters.frames(waveform).map_err(|error| error.to_string())?;
        Ok(Utterance { at, frames })
    }
}

impl Pipeline for Transducer {
    fn models(&self) -> Vec<&CallableModel> {
        vec![&self.encoder.model, &self.prediction.model, &self.joint.model]
    }

    fn answer(&self, batch: &[LoadedSample], answers: &mut Answers) -> Result<(), String> {
        let mut failed = Ok(());
        let mut utterances = Vec::with_capacity(batch.len());
        for (at, one) in batch.iter().enumerate() {
            match self.prepare(at, one) {
                Ok(utterance) => utterances.push(utterance),
                Err(why) => failed = failed.and(Err(why)),
            }
        }
        // Groups that may share a call become adjacent.
        utterances.sort_by_key(Utterance::count);
        let is_padded = self.encoder.lengths.is_some();
        let groups = utterances.chunk_by(|one, next| is_padded || one.count() == next.count());
        for group in groups {
            let group: Vec<&Utterance> = group.iter().collect();
            // Utterances of another call may still be answered.
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
                answers.push_with(batch[one.at].sample.id, write)?;
            }
        }
        failed
    }

    fn try_out(&self, first: &LoadedSample) -> Result<(), String> {
        let utterance = self.prepare(0, first)?;
        self.search(&[&utterance], 1).map(drop)
    }

    fn takes_one(&self) -> bool {
        self.takes_one
    }
}
