//! Calls allocate no memory on any thread.

use std::alloc::System;

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::machine::Machine;
use dyno_rnn::network::{Feed, NetworkEngine, Setup};
use dyno_rnn::served::{ServedModel, Sizes};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const INPUTS: usize = 24;
const UNITS: usize = 40;
const BATCH: usize = 3;
const STEPS: usize = 9;

fn layer(cell: Cell, directions: Directions) -> Layer {
    let outputs = cell.gates() * UNITS;
    let weights = Weights {
        input: vec![0.1; outputs * INPUTS],
        state: vec![-0.1; outputs * UNITS],
        input_bias: vec![0.1; outputs],
        state_bias: vec![0.2; outputs],
    };
    let weights = vec![weights; directions.count()];
    Layer::new(cell, INPUTS, UNITS, directions, weights).expect("weights of this size")
}

/// Returns the minimum number of allocations over three repetitions of some calls: the test harness
/// may allocate during one of them, but allocations by the calls occur in all.
fn least(mut calls: impl FnMut()) -> usize {
    calls();
    let counted = (0..3).map(|_| {
        let region = Region::new(ALLOCATED);
        calls();
        let change = region.change();
        change.allocations + change.reallocations
    });
    counted.min().expect("three times")
}

/// The only test of its program, because allocations of other tests would be counted.
#[test]
fn calls_allocate_nothing() {
    let counted = least(|| drop(Box::new([0_u8; 100])));
    assert!(counted > 0, "what is allocated is counted");
    let mut team = Team::with_workers(2);
    check_sequences(&mut team);
    check_networks(&mut team);
}

fn check_sequences(team: &mut Team) {
    let (input, mut output) =
        (vec![0.5; STEPS * BATCH * INPUTS], vec![0.0; STEPS * BATCH * 2 * UNITS]);
    for cell in [Cell::Lstm, Cell::Gru] {
        for directions in [Directions::Forward, Directions::Both] {
            let layer = layer(cell, directions);
            let output = &mut output[..STEPS * BATCH * layer.outputs()];
            for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
                for (chunk, rows, units) in [(1, 1, 1), (4, 1, 2), (4, 2, 1)] {
                    let tanh = Tanh::Fitted98;
                    let choice = Choice { precision, tanh, chunk, sides: 1, rows, units };
                    let mut sequence = Sequence::new(&layer, BATCH, &choice, Isa::best())
                        .expect("a plan that holds");
                    let found = least(|| {
                        for _ in 0..10 {
                            sequence.run(team, &input, output).expect("sizes that fit");
                            sequence.run_on(team, &input, output).expect("sizes that fit");
                            let ragged = sequence.run_lengths(team, &input, output, &[9, 2, 5]);
                            ragged.expect("lengths that fit");
                        }
                    });
                    assert_eq!(found, 0, "{cell:?} {directions:?} {choice:?}");
                }
            }
        }
    }
}

/// Includes rows that end before others.
fn check_networks(team: &mut Team) {
    let sizes =
        Sizes { vocabulary: 30, embedding: 18, units: 20, query: 5, steps: 9, documents: 3 };
    for model in ServedModel::ALL {
        let (network, _) = model.network(&sizes).expect("no size is 0");
        let words = model.words(&sizes, 1);
        let full = model.feeds(&words);
        let lengths: [&[usize]; 2] = match model {
            ServedModel::TextSimilarity => [&[3, 9, 1, 6], &[]],
            ServedModel::Reader => [&[4], &[9, 2, 7]],
            ServedModel::Bidaf => [&[9, 5, 8], &[5, 1, 3]],
        };
        let ragged: Vec<_> =
            words.iter().zip(lengths).map(|(ids, lengths)| Feed::Ids { ids, lengths }).collect();
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            let isa = Isa::best();
            let setup = Setup::new(precision, isa, Machine::detect(isa));
            let mut engine = NetworkEngine::new(&network, &setup, team).expect("plans that hold");
            for feeds in [&ragged, &full, &ragged] {
                let found = least(|| engine.run(team, feeds).expect("words of the vocabulary"));
                assert_eq!(found, 0, "{model:?} {precision:?}");
            }
        }
    }
}
