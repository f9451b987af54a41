//! Stacked recurrent layers with each way of sharing a team.

use std::sync::Arc;

use dyno_rnn::network::{Feed, Network, NetworkEngine, Node, StackSchedule, TensorId};
use dyno_rnn::{Activation, Cell, Directions, Isa, Layer, Precision, Team};

use super::{Numbers, check, setup};

fn stack(
    cells: &[Cell],
    directions: Directions,
    steps: usize,
    batch: usize,
) -> (Network, TensorId) {
    let (mut numbers, mut width) = (Numbers(3), 11);
    let layer = |(index, cell): (usize, &Cell)| {
        let layer: Layer = numbers.layer(*cell, width, 14 + 5 * index, directions);
        width = layer.outputs();
        Arc::new(layer)
    };
    let layers: Vec<Arc<Layer>> = cells.iter().enumerate().map(layer).collect();
    let mut network = Network::default();
    let input = network.add("input", Node::Numbers { steps, batch, width: 11 });
    let input = input.expect("sizes above 0");
    let states = network.add("stack", Node::Recurrent { input, layers });
    let states = states.expect("layers that fit one another");
    network.add("last", Node::Last { input: states }).expect("states of layers");
    (network, states)
}

const CELLS: [Cell; 4] = [Cell::Lstm, Cell::Gru, Cell::Rnn(Activation::Tanh), Cell::Lstm];

#[test]
fn stacks_agree_with_the_oracle_however_they_share_a_team() {
    let (steps, batch) = (13, 3);
    for count in [1, 2, 4] {
        for directions in [Directions::Forward, Directions::Both] {
            let (network, _) = stack(&CELLS[..count], directions, steps, batch);
            let input = Numbers(7).take(steps * batch * 11, 1.0);
            let full = Feed::Numbers { numbers: &input, lengths: &[] };
            let ragged = Feed::Numbers { numbers: &input, lengths: &[4, 13, 9] };
            let fewer = Feed::Numbers { numbers: &input[..5 * batch * 11], lengths: &[] };
            for workers in 1..4 {
                for stacked in [StackSchedule::InTurn]
                    .into_iter()
                    .chain([1, 4, 40].map(|steps| StackSchedule::Wavefront { steps }))
                {
                    let mut setup = setup(Precision::F32, Isa::best());
                    setup.stacked = Some(stacked);
                    check(&network, [&[ragged], &[full]], &setup, workers, 1e-5);
                    check(&network, [&[full], &[fewer]], &setup, workers, 1e-5);
                    check(&network, [&[full], &[ragged]], &setup, workers, 1e-5);
                }
            }
        }
    }
}

#[test]
fn a_wavefront_is_chosen_only_where_layers_can_follow_one_another() {
    let schedule = |cells: &[Cell], directions, workers| {
        let (network, states) = stack(cells, directions, 200, 1);
        let mut setup = setup(Precision::F32, Isa::best());
        setup.stacked = Some(StackSchedule::Wavefront { steps: 8 });
        let mut team = Team::with_workers(workers);
        let engine = NetworkEngine::new(&network, &setup, &mut team).expect("plans that hold");
        let (choices, stacked) = engine.schedule(states).expect("a recurrent node");
        assert_eq!(choices.len(), cells.len());
        stacked
    };
    let wave = StackSchedule::Wavefront { steps: 8 };
    assert_eq!(schedule(&CELLS[..2], Directions::Forward, 2), wave);
    assert_eq!(schedule(&CELLS[..1], Directions::Forward, 2), StackSchedule::InTurn);
    assert_eq!(schedule(&CELLS[..2], Directions::Both, 2), StackSchedule::InTurn);
    assert_eq!(schedule(&CELLS[..2], Directions::Backward, 2), StackSchedule::InTurn);
}
