//! Recurrent networks and the perceptron asked by value: the answers are those of the data set.

use std::num::NonZero;

use dyno_loadgen::record::Failure;
use dyno_rnn::engine::{Engine as Recurrent, EngineOptions};
use dyno_rnn::model::Model;
use dyno_sut::batch::LengthClasses;
use dyno_sut::digits::{
    self, DigitsLstm, DigitsPerceptron, LSTM_CORRECT, LstmWeights, Perceptron, ROW, ROWS,
};
use dyno_sut::infer::{InferenceModel, Value, zeros};
use dyno_sut::rnn::{Batching, RecurrentModel, Runner, Stack};
use dyno_sut::tensors::Elements;

fn batching(largest: usize) -> Batching {
    Batching {
        largest: NonZero::new(largest).unwrap(),
        length_classes: LengthClasses::new(1.5).unwrap(),
    }
}

fn value(shape: &[usize], numbers: Vec<f32>) -> Value {
    Value { shape: shape.to_vec(), elements: Elements::F32(numbers.into()) }
}

fn asked(model: &dyn InferenceModel, requests: &[Value]) -> Vec<Value> {
    let requests: Vec<&[Value]> = requests.iter().map(std::slice::from_ref).collect();
    let answers = model.infer(&requests).into_iter();
    answers.map(|answer| answer.unwrap().remove(0)).collect()
}

#[test]
fn the_digits_are_told_as_well_as_in_a_run() {
    let lstm =
        DigitsLstm::runner(&EngineOptions { steps: ROWS, ..EngineOptions::default() }).unwrap();
    let lstm = RecurrentModel::new("digits-lstm", vec![lstm], batching(32)).unwrap();
    let perceptron = DigitsPerceptron::new().by_value(32);
    let images: Vec<_> = digits::test_digits().collect();
    let right = |model: &dyn InferenceModel, requests: Vec<Value>| {
        let answers = asked(model, &requests).into_iter();
        let labels = digits::labels().into_iter();
        answers
            .zip(labels)
            .filter(|(answer, label)| answer.elements.class() == Some(*label))
            .count()
    };
    let sequence = |pixels: &_| value(&[1, ROWS, ROW], LstmWeights::input(pixels).to_vec());
    let sequences = images.iter().map(|image| sequence(image.pixels)).collect();
    assert_eq!(right(&lstm, sequences), LSTM_CORRECT);
    let ink = |pixels: &_| value(&[1, digits::PIXELS], Perceptron::input(pixels).to_vec());
    let inks = images.iter().map(|image| ink(image.pixels)).collect();
    assert_eq!(right(&perceptron, inks), 519);
}

#[test]
fn sequences_of_any_length_share_calls_and_keep_their_answers() {
    let model = Model::open("bigru:3x5").unwrap();
    let runner = || -> Box<dyn Runner> {
        Box::new(Stack::new(Recurrent::new(model.clone(), &EngineOptions::default()).unwrap()))
    };
    let together = RecurrentModel::new("gru", vec![runner()], batching(4)).unwrap();
    let number = |at: usize| ((at * 37 % 101) as f32 - 50.0) / 60.0;
    let request = |(at, rows, steps): (usize, usize, usize)| {
        value(&[rows, steps, 3], (0..rows * steps * 3).map(|n| number(n + at)).collect())
    };
    let shapes = [(0, 1, 7), (1, 2, 9), (2, 1, 1), (3, 3, 8), (4, 1, 40)];
    let requests: Vec<Value> = shapes.into_iter().map(request).collect();
    let answers = asked(&together, &requests);
    for (request, answer) in requests.iter().zip(&answers) {
        let (rows, steps) = (request.shape[0], request.shape[1]);
        assert_eq!(answer.shape, [rows, 10]);
        let numbers = request.elements.to_f32();
        for (row, sequence) in numbers.chunks(steps * 3).enumerate() {
            let oracle = model.oracle(sequence);
            // The first direction ends with the last step, the other one with the first.
            let expected = [&oracle[(steps - 1) * 10..][..5], &oracle[5..10]].concat();
            let found = answer.elements.slice(row * 10..(row + 1) * 10).to_f64();
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
            }
        }
    }
    assert_eq!(together.class(&requests[..1]), together.class(&requests[1..2]));
    assert_ne!(together.class(&requests[..1]), together.class(&requests[4..]));
}

#[test]
fn numbers_that_are_none_are_the_clients_fault_alone() {
    let model = Model::open("lstm:2x3").unwrap();
    let runner = Stack::new(Recurrent::new(model, &EngineOptions::default()).unwrap());
    let model = RecurrentModel::new("lstm", vec![Box::new(runner)], batching(4)).unwrap();
    let [good] = &zeros(model.inputs())[..] else { panic!("one input") };
    let bad = value(&[1, 1, 2], vec![0.0, f32::NAN]);
    let answers = model.infer(&[std::slice::from_ref(good), &[bad]]);
    assert_eq!(answers[0].as_ref().unwrap()[0].shape, [1, 3]);
    let (failure, why) = answers[1].clone().unwrap_err();
    assert_eq!(failure, Failure::Rejected);
    assert_eq!(why, "input 'sequence' has NaN; every number must be finite");
}
