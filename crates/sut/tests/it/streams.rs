//! Sequences that go on from request to request: the same bits as in one request, beside any others.

use std::num::NonZero;

use dyno_rnn::engine::{Engine as Recurrent, EngineOptions};
use dyno_rnn::model::Model;
use dyno_rnn::{Layer, Precision};
use dyno_sut::batch::LengthClasses;
use dyno_sut::infer::{InferenceModel, SequenceState, Value};
use dyno_sut::rnn::{Batching, RecurrentModel, Stack};
use dyno_sut::tensors::Elements;

/// Largest batch; calls of sequences have up to twelve rows.
const LARGEST: usize = 14;

fn layers(texts: &[&str]) -> Model {
    let layer = |text: &&str| -> Layer {
        Model::open(text).expect("a layer by its shape").layers()[0].clone()
    };
    Model::from_layers("made", texts.iter().map(layer).collect()).expect("layers that follow")
}

fn served(model: &Model, precision: Precision, threads: usize, outputs: &[&str]) -> RecurrentModel {
    let options = EngineOptions { precision, threads, ..EngineOptions::default() };
    let stack = Stack::new(Recurrent::new(model.clone(), &options).unwrap());
    let largest = NonZero::new(LARGEST).unwrap();
    let batching = Batching { largest, length_classes: LengthClasses::default() };
    let served = RecurrentModel::new("made", vec![Box::new(stack)], batching).unwrap();
    let outputs: Vec<String> = outputs.iter().map(|name| (*name).to_owned()).collect();
    served.with_outputs(&outputs).unwrap()
}

/// Steps of a stream as a request.
fn request(stream: usize, steps: std::ops::Range<usize>, width: usize) -> Vec<Value> {
    let number =
        |step: usize, at: usize| ((stream * 91 + step * 53 + at * 37) % 251) as f32 / 125.0 - 1.0;
    let shape = vec![1, steps.len(), width];
    let numbers: Vec<f32> =
        steps.flat_map(|step| (0..width).map(move |at| number(step, at))).collect();
    vec![Value { shape, elements: Elements::F32(numbers.into()) }]
}

/// Streams with what they have answered.
struct Streams<'a> {
    model: &'a RecurrentModel,
    width: usize,
    states: Vec<Option<SequenceState>>,
    played: Vec<usize>,
    /// Bits of `Y`.
    steps: Vec<Vec<u32>>,
    /// The other outputs of the last request.
    last: Vec<Vec<Value>>,
}

impl<'a> Streams<'a> {
    fn new(model: &'a RecurrentModel, streams: usize) -> Self {
        let width = model.inputs()[0].shape[2].unwrap();
        let (states, played) = (vec![None; streams], vec![0; streams]);
        let (steps, last) = (vec![Vec::new(); streams], vec![Vec::new(); streams]);
        Self { model, width, states, played, steps, last }
    }

    /// Runs steps of several streams in one call, as (stream, steps).
    fn call(&mut self, of: &[(usize, usize)]) {
        let requests: Vec<Vec<Value>> = of
            .iter()
            .map(|(stream, steps)| {
                let first = self.played[*stream];
                request(*stream, first..first + steps, self.width)
            })
            .collect();
        let requests: Vec<&[Value]> = requests.iter().map(|request| &request[..]).collect();
        let mut states: Vec<_> = of.iter().map(|(at, _)| self.states[*at].clone()).collect();
        let answers = self.model.infer_sequences(&requests, &mut states);
        for (((stream, steps), answer), after) in of.iter().zip(answers).zip(states) {
            let mut answer = answer.unwrap();
            assert_eq!(answer[0].shape[..2], [1, *steps]);
            let numbers = answer.remove(0).elements.to_f32().into_owned();
            self.steps[*stream].extend(numbers.iter().map(|x| x.to_bits()));
            self.last[*stream] = answer;
            self.states[*stream] = after;
            self.played[*stream] += steps;
        }
    }
}

/// All cells, and two layers.
const STACKS: [&[&str]; 4] =
    [&["lstm:5x24"], &["gru:16x33", "lstm:33x40"], &["rnn:7x65"], &["lstm:64x256"]];

#[test]
fn a_stream_has_the_same_bits_beside_any_others_and_however_it_is_cut() {
    const STREAMS: usize = 17;
    const STEPS: usize = 12;
    for texts in STACKS {
        let model = layers(texts);
        let state = if texts.len() > 1 { "Y_c.1" } else { "Y_h" };
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            for threads in [1, 2] {
                let served = served(&model, precision, threads, &["Y", "last", state]);
                let mut alone = Streams::new(&served, STREAMS);
                (0..STREAMS).for_each(|stream| alone.call(&[(stream, STEPS)]));
                let mut cut = Streams::new(&served, STREAMS);
                for steps in [1, 5, 2, 1, 3] {
                    cut.call(&std::array::from_fn::<_, STREAMS, _>(|stream| (stream, steps)));
                }
                let mut mixed = Streams::new(&served, STREAMS);
                for round in 0..60 {
                    let wanted = |stream: &usize| !(stream * 5 + round * 3).is_multiple_of(4);
                    let of = (0..STREAMS).map(|at| (at + round) % STREAMS).filter(wanted);
                    let steps = |at: usize| (1 + (at + round) % 3).min(STEPS - mixed.played[at]);
                    let of: Vec<_> = of.map(|at| (at, steps(at))).filter(|(_, n)| *n > 0).collect();
                    mixed.call(&of);
                }
                assert_eq!(mixed.played, [STEPS; STREAMS]);
                let name = format!("{texts:?} {precision:?} {threads}");
                // Several threads, and bf16 without instructions of its own, share calls only where
                // that keeps the bits.
                let shared = served.sequences_per_call();
                let may_be_alone = threads == 2 || precision == Precision::Bf16;
                assert!(shared == 12 || (shared == 1 && may_be_alone), "{name}: {shared}");
                for other in [&cut, &mixed] {
                    assert!(alone.steps == other.steps, "{name}");
                    assert!(alone.last == other.last, "{name}");
                    assert!(alone.states == other.states, "{name}");
                }
            }
        }
    }
}

#[test]
fn a_stream_is_the_layers_in_double_precision_and_a_request_without_a_sequence() {
    for texts in STACKS {
        let model = layers(texts);
        let served = served(&model, Precision::F32, 1, &["Y", "last"]);
        let mut streams = Streams::new(&served, 2);
        for steps in [3, 1, 1, 4] {
            streams.call(&[(0, steps), (1, steps)]);
        }
        let whole = request(1, 0..9, streams.width);
        let numbers = whole[0].elements.to_f32();
        let found: Vec<f32> = streams.steps[1].iter().map(|bits| f32::from_bits(*bits)).collect();
        for (found, right) in found.iter().zip(model.oracle(&numbers)) {
            assert!((f64::from(*found) - right).abs() < 2e-6, "{texts:?}: {found} {right}");
        }
        let once = served.infer(&[&whole]).remove(0).unwrap();
        let once = [once[0].elements.to_f32(), once[1].elements.to_f32()];
        let last = streams.last[1][0].elements.to_f32();
        for (a, b) in found.iter().chain(&*last).zip(once.iter().flat_map(|own| own.iter())) {
            assert!((a - b).abs() < 2e-6, "{texts:?}: {a} {b}");
        }
    }
}

#[test]
fn outputs_have_names_and_shapes_and_states_are_those_of_the_last_step() {
    let served = served(&layers(&["bilstm:3x4"]), Precision::F32, 1, &["Y_c", "Y", "Y_h", "last"]);
    let about = served.info().outputs;
    let ports: Vec<_> = about.iter().map(|port| (&port.name[..], port.shape.clone())).collect();
    assert_eq!(ports[0], ("Y_c", vec![None, Some(2), Some(4)]));
    assert_eq!(ports[1], ("Y", vec![None, None, Some(8)]));
    let two = Value { shape: vec![2, 5, 3], ..request(0, 0..10, 3).remove(0) };
    let answer = served.infer(&[&[two]]).remove(0).unwrap();
    let shapes: Vec<&[usize]> = answer.iter().map(|value| &value.shape[..]).collect();
    assert_eq!(shapes, [&[2, 2, 4][..], &[2, 5, 8], &[2, 2, 4], &[2, 8]]);
    assert_eq!(answer[2].elements, answer[3].elements, "hidden states of both directions");
    let steps = answer[1].elements.to_f32();
    let hidden = answer[2].elements.to_f32();
    assert_eq!((&steps[4 * 8..][..4], &steps[4..8]), (&hidden[..4], &hidden[4..8]));
}

#[test]
fn requests_that_cannot_go_on_are_refused_with_the_reason() {
    let backward = served(&layers(&["lstm:3x4", "bigru:4x5"]), Precision::F32, 1, &["last"]);
    let why = backward.check_sequences().unwrap_err();
    assert!(why.contains("layer 1 runs backward from the last step"), "{why}");
    let ask = |model: &RecurrentModel, values: &[Value], states: &mut [Option<SequenceState>]| {
        model.infer_sequences(&[values], states).remove(0)
    };
    assert!(ask(&backward, &request(0, 0..2, 3), &mut [None]).is_err());

    let model = served(&layers(&["lstm:3x4"]), Precision::F32, 1, &["last"]);
    let mut states = [None];
    ask(&model, &request(0, 0..2, 3), &mut states).unwrap();
    let before = states.clone();
    let odd = Value { elements: Elements::F32(vec![f32::NAN; 3].into()), shape: vec![1, 1, 3] };
    let (_, why) = ask(&model, &[odd], &mut states).unwrap_err();
    assert!(why.contains("every number must be finite"), "{why}");
    let two = Value { shape: vec![2, 1, 3], ..request(0, 0..2, 3).remove(0) };
    let (_, why) = ask(&model, &[two], &mut states).unwrap_err();
    assert!(why.contains("2 rows; expected 1 in a request of a sequence"), "{why}");
    assert_eq!(states, before);
    let refused = model.with_outputs(&["Y".into(), "Z".into()]).unwrap_err();
    assert_eq!(refused, "there is no output `Z`; expected some of last, Y, Y_h, Y_c");
}
