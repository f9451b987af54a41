//! Techniques differ only in speed.

use std::time::Duration;

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_rnn::machine::Machine;
use dyno_rnn::plan::{PackedWeights, Phasing};
use dyno_rnn::study::{Study, Subject, Technique};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights};

const BASE: Choice = Choice {
    precision: Precision::F32,
    tanh: Tanh::Fitted98,
    chunk: 1,
    sides: 1,
    rows: 1,
    units: 1,
};

fn layer(cell: Cell, directions: Directions) -> Layer {
    let (inputs, units) = (13, 70);
    let outputs = cell.gates() * units;
    let numbers = |count: usize, by: usize| -> Vec<f32> {
        (0..count).map(|at| (at * by % 101) as f32 / 500.0 - 0.1).collect()
    };
    let weights = |by| Weights {
        input: numbers(outputs * inputs, by),
        state: numbers(outputs * units, by + 6),
        input_bias: numbers(outputs, by + 10),
        state_bias: numbers(outputs, by + 12),
    };
    let weights = (0..directions.count()).map(|direction| weights(37 + 24 * direction)).collect();
    Layer::new(cell, inputs, units, directions, weights).expect("weights of this size")
}

#[test]
fn phases_change_no_output() {
    let (batch, steps) = (3, 6);
    let mut team = Team::with_workers(5);
    for cell in [Cell::Lstm, Cell::Gru] {
        for directions in [Directions::Forward, Directions::Both] {
            let layer = layer(cell, directions);
            let packed: Vec<PackedWeights> = (0..directions.count())
                .map(|direction| PackedWeights::new(&layer, direction, Precision::F32))
                .collect();
            let input: Vec<f32> =
                (0..steps * batch * 13).map(|at| (at * 29 % 97) as f32 / 48.0 - 1.0).collect();
            let mut expected = vec![0.0; steps * batch * layer.outputs()];
            let mut planned =
                Sequence::from_packed(&layer, &packed, batch, &BASE, Isa::best()).expect("a plan");
            planned.run(&mut team, &input, &mut expected).expect("sizes that fit");
            assert!(expected.iter().any(|h| h.abs() > 0.01));
            for phasing in [Phasing::InSequence, Phasing::InParallel, Phasing::Fused] {
                for units in [1, 2, 5] {
                    let choice = Choice { units, ..BASE };
                    let isa = Isa::best();
                    let phased = Sequence::phased(&layer, &packed, batch, &choice, phasing, isa);
                    let mut found = vec![0.0; expected.len()];
                    let ran = phased.expect("a plan").run(&mut team, &input, &mut found);
                    ran.expect("sizes that fit");
                    let far = expected.iter().zip(&found).map(|(a, b)| (a - b).abs());
                    let worst = far.fold(0.0, f32::max);
                    assert!(worst <= 2e-6, "{cell:?} {directions:?} {phasing:?} {units}: {worst}");
                }
            }
        }
    }
}

#[test]
fn all_techniques_are_timed_and_counted() {
    let mut reads = 0;
    let count = Box::new(move || {
        reads += 1;
        Some(1000 * reads)
    });
    let machine = Machine { cores: 2, ..Machine::sapphire_rapids() };
    let time = Duration::from_millis(2);
    let mut study = Study::new(machine, Isa::best(), 2, time, count);
    let mut subject = Subject::new(Cell::Gru, [16, 32, 2, 5], BASE);
    assert_eq!(subject.flops(), 6.0 * 32.0 * 48.0 * 2.0 * 5.0);
    for technique in Technique::ALL {
        let found = study.technique(&mut subject, technique).expect("a plan that runs");
        assert!(found.ns > 0.0 && (found.gflops * found.ns / subject.flops() - 1.0).abs() < 1e-9);
        assert!(found.counted.is_some_and(|per_call| per_call > 0.0 && per_call <= 1000.0 / 3.0));
    }
    let degree = study.degree(&mut subject, 2).expect("a plan that runs").expect("two workers");
    assert_eq!(degree.choice.workers(), 2);
    assert!(subject.predicted(24, &Machine::paper()).is_none(), "two rows and panels: 4 at most");
    assert!(subject.predicted(4, &Machine::paper()).is_some_and(|ns| ns > 0.0));
}
