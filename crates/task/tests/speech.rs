//! Speech tasks with the files of their packages. They run if `DYNO_CACHE` has the files; tests
//! that compute also need ONNX Runtime.

mod engines;
mod fetched;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dyno_onnx::{Weights, count};
use dyno_sut::onnx::Answer;
use dyno_sut::tensors::TensorLibrary;
use dyno_task::answers::phonemes;
use dyno_task::card::{self, Bound};
use dyno_task::data::words;
use dyno_task::graphs::g2p;
use dyno_task::open::{PreparedTask, TaskModel};

use crate::fetched::ready;

/// Returns a model's answers to samples, at most this many per call; `None`, with a message,
/// without ONNX Runtime.
fn answers(
    model: &Path,
    samples: &Arc<TensorLibrary>,
    answer: Answer,
    largest_batch: usize,
) -> Option<BTreeMap<u64, Vec<u8>>> {
    let model = TaskModel::Model { path: model.to_owned(), answer, largest_batch: None };
    let engine = engines::engine(model, samples, largest_batch)?;
    let engine = engine.expect("it is a model that fits its samples");
    let answers = engines::answers(&*engine, samples);
    assert_eq!(engine.failure_reason(), None);
    let answered = |(index, data): (u64, Result<Vec<u8>, _>)| (index, data.expect("an answer"));
    Some(answers.into_iter().map(answered).collect())
}

/// Returns the file of the model and the conversion of its outputs.
fn model(ready: &PreparedTask) -> (&Path, Answer) {
    let TaskModel::Model { path, answer, .. } = &ready.model else { panic!("a call answers") };
    (path, answer.clone())
}

/// Returns the metric of a task for these answers, and checks the card's bound.
fn judged(ready: &PreparedTask, answers: &BTreeMap<u64, Vec<u8>>) -> f64 {
    let judge = ready.judge.as_ref().expect("the task is judged");
    let mut scorer = judge.scorer().expect("its references read");
    for (index, answer) in answers {
        scorer.take(*index, answer).expect("it is an answer of the task");
    }
    let scores = scorer.scores();
    let figure = scores.figures.iter().find(|figure| figure.metric == judge.metric);
    let value = figure.expect("cards name metrics that there are").value;
    match judge.targets.first().map(|target| target.bound) {
        Some(Bound::AtMost(most)) => assert!(value <= most, "{value} > {most}"),
        Some(Bound::AtLeast(least)) => assert!(value >= least, "{value} < {least}"),
        None => panic!("the card asks for something"),
    }
    value
}

#[test]
fn words_of_different_length_share_a_call_and_are_said_as_alone() {
    let words = ["a", "abracadabra", "zoo", "onomatopoeia", "it"].map(str::to_owned);
    let samples = Arc::new(words::samples(&words, "letters").unwrap());
    let model = g2p::g2p(Weights::seeded(3)).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("g2p-seeded.onnx");
    model.write(&path).unwrap();
    let Some(alone) = answers(&path, &samples, Answer::Output, 1) else { return };
    assert_eq!(answers(&path, &samples, Answer::Output, 5).unwrap(), alone);
    // Seeded weights give different answers to different words, so that a mix-up would be found.
    let mut different: Vec<&Vec<u8>> = alone.values().collect();
    different.sort();
    different.dedup();
    assert!(different.len() > 3, "{different:?}");
    // More padding changes nothing.
    let short = Arc::new(words::samples(&words[2..3], "letters").unwrap());
    assert_eq!(answers(&path, &short, Answer::Output, 1).unwrap()[&0], alone[&2]);
}

#[test]
fn the_graph_costs_what_its_layers_multiply() {
    let cost = count(&g2p::g2p(Weights::seeded(1)).unwrap());
    let gru = 2 * 3 * 256 * 256;
    assert_eq!(cost.uncounted, []);
    assert_eq!(cost.parameters, (29 + 74) * 256 + 2 * (gru + 2 * 3 * 256) + 74 * 256 + 74);
    // One letter, and twenty steps of the decoder.
    assert_eq!(cost.macs(), gru + 20 * (gru + 256 * 74));
}

#[test]
fn thousand_words_are_said_as_their_card_has_it() {
    let Some(ready) = ready("g2p") else { return };
    let samples = Arc::new(ready.samples.clone());
    let (model, answer) = model(&ready);
    let Some(alone) = answers(model, &samples, phonemes::answer(), 1) else { return };
    let batched = answers(model, &samples, answer, 64).unwrap();
    assert_eq!(batched, alone);
    let rate = judged(&ready, &batched);
    let reference = card::named("g2p").unwrap().quality.as_ref().unwrap().reference.unwrap();
    assert!((rate - reference).abs() < 1e-9, "{rate}");
}

#[test]
fn speech_and_silence_are_distinguished_as_well_as_the_card_states() {
    let Some(ready) = ready("silero-vad") else { return };
    let samples = Arc::new(ready.samples.clone());
    let (model, answer) = model(&ready);
    let found = answers(model, &samples, answer, 64);
    let Some(found) = found else { return };
    let area = judged(&ready, &found);
    let reference = card::named("silero-vad").unwrap().quality.as_ref().unwrap().reference;
    // States with other rounding may swap two of 164,970 pairs of steps.
    assert!((area - reference.unwrap()).abs() < 0.002, "{area}");

    // A step outputs the state that the next sample has.
    let state = Answer::from_fn(|outputs, position, bytes| {
        let next = outputs.named("stateN")?.part(position)?;
        next.elements.to_f32().iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        Ok(0)
    });
    let left = answers(model, &samples, state, 1).unwrap();
    let mut worst = 0.0_f32;
    for (index, left) in left.iter().take(936) {
        let next = samples.sample(*index as u32 + 1).unwrap();
        let (_, brought) = next.iter().find(|(name, _)| *name == "state").unwrap();
        let left = left.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let pairs = left.zip(brought.elements.to_f32().into_owned());
        worst = pairs.fold(worst, |worst, (a, b)| worst.max((a - b).abs()));
    }
    // Tolerance for numbers up to about 10 in float32.
    assert!(worst < 1e-4, "{worst}");
}
