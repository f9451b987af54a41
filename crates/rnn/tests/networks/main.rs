//! Comparison of networks with their oracle.

use dyno_rnn::machine::Machine;
use dyno_rnn::network::{
    DenseLayer, Feed, HighwayLayer, Network, NetworkEngine, Setup, TensorId, oracle,
};
use dyno_rnn::{Activation, Cell, Directions, Isa, Layer, Precision, Team, Weights};

mod nodes;
mod refused;
mod served;
mod stacked;

/// A small deterministic random number generator.
struct Numbers(u64);

impl Numbers {
    fn take(&mut self, count: usize, scale: f32) -> Vec<f32> {
        let next = |_| {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (((self.0 >> 40) as f32) / (1 << 23) as f32 - 1.0) * scale
        };
        (0..count).map(next).collect()
    }

    fn layer(&mut self, cell: Cell, inputs: usize, units: usize, directions: Directions) -> Layer {
        let (outputs, scale) = (cell.gates() * units, (units as f32).sqrt().recip());
        let weights = (0..directions.count()).map(|_| Weights {
            input: self.take(outputs * inputs, scale),
            state: self.take(outputs * units, scale),
            input_bias: self.take(outputs, scale),
            state_bias: self.take(outputs, scale),
        });
        let weights = weights.collect();
        Layer::new(cell, inputs, units, directions, weights).expect("weights of this size")
    }

    fn dense(&mut self, inputs: usize, outputs: usize, activation: Activation) -> DenseLayer {
        let weights = self.take(inputs * outputs, (inputs as f32).sqrt().recip());
        DenseLayer { inputs, weights, bias: self.take(outputs, 0.5), activation }
    }

    fn highway(&mut self, width: usize) -> HighwayLayer {
        let gate = self.dense(width, width, Activation::Sigmoid);
        HighwayLayer { gate, candidate: self.dense(width, width, Activation::Relu) }
    }
}

fn setup(precision: Precision, isa: Isa) -> Setup {
    Setup::new(precision, isa, Machine::detect(isa))
}

/// Builds an engine on `workers` and compares all that its nodes make with the oracle. The second
/// of two calls counts: what the first has left must not matter.
fn check(network: &Network, feeds: [&[Feed<'_>]; 2], setup: &Setup, workers: usize, within: f64) {
    let mut team = Team::with_workers(workers);
    let mut engine = NetworkEngine::new(network, setup, &mut team).expect("plans that hold");
    for feeds in feeds {
        engine.run(&mut team, feeds).expect("feeds that fit");
    }
    let expected = oracle::run(network, feeds[1]);
    for (name, _) in network.nodes() {
        let tensor = network.named(name).expect("each name once");
        let worst = apart(&engine, &expected, tensor);
        assert!(worst <= within, "{name}: {worst:e} in {:?} on {}", setup.precision, setup.isa);
    }
}

/// Returns the greatest error, relative to numbers above one.
fn apart(engine: &NetworkEngine, expected: &oracle::NetworkOracle, tensor: TensorId) -> f64 {
    let (found, expected) = (engine.tensor(tensor), expected.tensor(tensor));
    assert_eq!(found.len(), expected.len());
    let both = found.iter().zip(expected).filter(|(_, expected)| !expected.is_nan());
    let error = |(found, expected): (&f32, &f64)| {
        let error = (f64::from(*found) - expected).abs() / expected.abs().max(1.0);
        if error.is_nan() { f64::INFINITY } else { error }
    };
    both.map(error).fold(0.0, f64::max)
}
