//! Comparison of the engine with the oracle: batches of any size and lengths, states, and errors.

use dyno_rnn::engine::{Engine, EngineError, EngineOptions};
use dyno_rnn::model::Model;
use dyno_rnn::{Isa, Layer, Precision};
use proptest::prelude::*;

fn layers(texts: &[&str]) -> Model {
    let layer = |text: &&str| -> Layer {
        Model::open(text).expect("a layer by its shape").layers()[0].clone()
    };
    Model::from_layers("made", texts.iter().map(layer).collect()).expect("layers that follow")
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 37 % 256) as f32 / 128.0 - 1.0).collect()
}

/// Arranges sequences as steps x rows x inputs, padded with `filling`.
fn batch(sequences: &[Vec<f32>], inputs: usize, filling: f32) -> (Vec<f32>, Vec<usize>) {
    let lengths: Vec<usize> = sequences.iter().map(|one| one.len() / inputs).collect();
    let steps = lengths.iter().copied().max().unwrap_or(0);
    let mut input = vec![filling; steps * sequences.len() * inputs];
    for (row, sequence) in sequences.iter().enumerate() {
        for (step, from) in sequence.chunks_exact(inputs).enumerate() {
            input[(step * sequences.len() + row) * inputs..][..inputs].copy_from_slice(from);
        }
    }
    (input, lengths)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_batch_of_any_lengths_is_what_each_sequence_is_alone(
        lengths in prop::collection::vec(1_usize..12, 1..9),
        which in 0_usize..4,
        threads in 1_usize..3,
    ) {
        let stacks: [&[&str]; 4] =
            [&["lstm:3x20"], &["bigru:3x5", "lstm:10x17"], &["birnn:3x7"], &["bilstm:3x4", "gru:8x6"]];
        let model = layers(stacks[which]);
        let options = EngineOptions { threads, isa: Isa::best(), ..EngineOptions::default() };
        let mut engine = Engine::new(model.clone(), &options).unwrap();
        let (inputs, outputs) = (model.inputs(), model.outputs());
        let sequences: Vec<Vec<f32>> = lengths.iter().map(|n| numbers(n * inputs)).collect();
        // The padding of rows must not matter.
        let (input, lengths) = batch(&sequences, inputs, f32::NAN);
        let steps = *lengths.iter().max().unwrap();
        let mut output = vec![7.0; steps * lengths.len() * outputs];
        engine.run(&input, &lengths, None, &mut output).unwrap();
        for (row, sequence) in sequences.iter().enumerate() {
            let alone = model.oracle(sequence);
            for step in 0..steps {
                let found = &output[(step * lengths.len() + row) * outputs..][..outputs];
                for (unit, found) in found.iter().enumerate() {
                    let right = alone.get(step * outputs + unit).copied().unwrap_or(0.0);
                    prop_assert!((f64::from(*found) - right).abs() < 2e-6, "{row} {step} {unit}");
                }
            }
        }
    }
}

#[test]
fn states_go_on_where_they_were_left() {
    for rows in [1, 3] {
        let options = EngineOptions::default();
        let mut engine = Engine::new(layers(&["lstm:4x9", "gru:9x5"]), &options).unwrap();
        let input = numbers(10 * rows * 4);
        let mut whole = vec![0.0; 10 * rows * 5];
        engine.run(&input, &vec![10; rows], None, &mut whole).unwrap();
        let mut states = vec![0.0; engine.state_numbers(rows).unwrap()];
        assert_eq!(states.len(), rows * (9 + 9 + 5));
        let (first, second) = input.split_at(6 * rows * 4);
        let mut pieces = vec![0.0; whole.len()];
        let (to_first, to_second) = pieces.split_at_mut(6 * rows * 5);
        engine.run(first, &vec![6; rows], Some(&mut states), to_first).unwrap();
        engine.run(second, &vec![4; rows], Some(&mut states), to_second).unwrap();
        let last: Vec<f32> = engine.last(to_second, &vec![4; rows], rows - 1).collect();
        assert_eq!(states[states.len() - 5..], last);
        // Chunks have other boundaries, so that sums round differently.
        let far = |(piece, whole): (&f32, &f32)| (piece - whole).abs() > 2e-6;
        assert!(!pieces.iter().zip(&whole).any(far), "{rows} rows");
    }
}

#[test]
fn the_last_states_of_both_directions_are_at_either_end() {
    let mut engine = Engine::new(layers(&["bilstm:2x3"]), &EngineOptions::default()).unwrap();
    let mut output = vec![0.0; 4 * 2 * 6];
    let lengths = [2, 4];
    let mut states = vec![0.0; engine.state_numbers(2).unwrap()];
    engine.run(&numbers(4 * 2 * 2), &lengths, Some(&mut states), &mut output).unwrap();
    for row in 0..2 {
        let last: Vec<f32> = engine.last(&output, &lengths, row).collect();
        // Hidden states are directions x rows x units.
        let states = [&states[row * 3..][..3], &states[(2 + row) * 3..][..3]].concat();
        assert_eq!(last, states, "row {row}");
    }
}

#[test]
fn replicas_and_fewer_bits_answer_alike() {
    let model = layers(&["lstm:16x32"]);
    let input = numbers(20 * 16);
    let right = model.oracle(&input);
    for (precision, most) in
        [(Precision::F32, 2e-6), (Precision::Bf16, 2e-2), (Precision::Int8, 3e-2)]
    {
        let options = EngineOptions { precision, ..EngineOptions::default() };
        let mut engine = Engine::new(model.clone(), &options).unwrap();
        let mut other = engine.beside(vec![0]);
        let mut outputs = [vec![0.0; 20 * 32], vec![0.0; 20 * 32]];
        engine.run(&input, &[20], None, &mut outputs[0]).unwrap();
        other.run(&input, &[20], None, &mut outputs[1]).unwrap();
        assert_eq!(outputs[0], outputs[1]);
        let pairs = outputs[0].iter().zip(&right);
        let worst =
            pairs.map(|(found, right)| (f64::from(*found) - right).abs()).fold(0.0, f64::max);
        assert!(worst < most, "{precision:?}: {worst}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_the_engine_goes_on() {
    let mut engine = Engine::new(layers(&["gru:4x3"]), &EngineOptions::default()).unwrap();
    let (input, mut output) = (numbers(2 * 2 * 4), vec![0.0; 2 * 2 * 3]);
    let mut run = |input: &[f32], lengths: &[usize], output: &mut [f32]| {
        engine.run(input, lengths, None, output).unwrap_err()
    };
    assert_eq!(run(&input, &[], &mut output), EngineError::Empty);
    assert_eq!(run(&[], &[2, 2], &mut output), EngineError::Empty);
    let short = run(&input[1..], &[1, 1], &mut output[..6]);
    assert_eq!(short.to_string(), "expected 8 numbers of input, found 15");
    let narrow = run(&input, &[2, 2], &mut output[1..]);
    assert_eq!(narrow.to_string(), "expected 12 numbers of output, found 11");
    let long = run(&input, &[3, 2], &mut output).to_string();
    assert!(long.contains("none above the input's steps"), "{long}");
    let mut states = vec![0.0; 5];
    let states = engine.run(&input, &[2, 2], Some(&mut states), &mut output).unwrap_err();
    assert_eq!(states.to_string(), "expected 6 numbers of states, found 5");
    assert_eq!(engine.state_numbers(usize::MAX), Err(EngineError::TooLarge));
    assert_eq!(engine.run(&input, &[2, 2], None, &mut output), Ok(()));
}

#[test]
fn threads_are_limited_to_the_cores_of_the_process() {
    let Some(cores) = dyno_kernels::Team::usable_cores() else { return };
    let options = |threads| EngineOptions { threads, ..EngineOptions::default() };
    assert_eq!(options(cores).thread_limit(), None);
    let sentence = options(cores + 1).thread_limit().unwrap();
    assert!(sentence.starts_with(&format!("{} threads exceed the {cores} core", cores + 1)));
    let engine = Engine::new(layers(&["lstm:4x9"]), &options(1 << 40)).unwrap();
    assert_eq!(engine.options().threads, cores);
    // Cores that the caller chooses are not limited.
    let chosen = EngineOptions { cores: vec![0; cores], ..options(cores + 1) };
    let mut engine = Engine::new(layers(&["lstm:4x9"]), &chosen).unwrap();
    assert_eq!(engine.options().threads, cores + 1);
    let mut output = [0.0; 9];
    engine.run(&[0.5; 4], &[1], None, &mut output).unwrap();
    assert!(output.iter().all(|number| *number != 0.0));
}

#[test]
fn an_engine_keeps_the_sizes_of_a_model_and_no_weights_but_packed_ones() {
    let model = std::sync::Arc::new(layers(&["bigru:3x5", "lstm:10x17"]));
    let engine = Engine::new(std::sync::Arc::clone(&model), &EngineOptions::default()).unwrap();
    assert_eq!(std::sync::Arc::strong_count(&model), 1);
    assert!(engine.model().layers().iter().all(|layer| layer.weights().is_empty()));
    assert_eq!((engine.model().inputs(), engine.model().outputs()), (3, 17));
}
