//! The latency of a configuration: the network with packed weights, measured in this process.

use std::collections::HashMap;

use dyno_loadgen::clock::Clock;
use dyno_number::evaluate::{PackedNetwork, TensorView, Workspace};
use dyno_number::tune::Journal;
use dyno_number::{Assignment, Format};
use dyno_onnx::Model;

/// Runs that warm up, and runs of which the shortest counts: others slow a run down, nothing speeds it up.
const WARM_UP: usize = 8;
const RUNS: usize = 100;

/// Measures each configuration once: what was measured of it stays its latency, in the journal as well.
#[derive(Debug)]
pub struct Speed {
    model: Model,
    /// Dimensions and numbers of each input.
    sample: Vec<(Vec<usize>, Vec<f32>)>,
    known: HashMap<Vec<Format>, f64>,
}

impl Speed {
    /// Of a model that is fed one sample at a time.
    pub fn new(model: Model, sample: Vec<(Vec<usize>, Vec<f32>)>) -> Self {
        Self { model, sample, known: HashMap::new() }
    }

    /// Takes over what an earlier part of the job measured.
    pub fn recall(&mut self, journal: &Journal) {
        self.known.extend(journal.latencies());
    }

    /// The shortest of many runs of one sample on one thread, in ns.
    ///
    /// # Errors
    /// A number that a format has not.
    pub fn latency_ns(&mut self, assignment: &Assignment) -> Result<f64, String> {
        if let Some(known) = self.known.get(assignment.formats()) {
            return Ok(*known);
        }
        let packed = PackedNetwork::new(&self.model, &assignment.dictionary())
            .map_err(|error| error.to_string())?;
        let fed: Vec<TensorView<'_>> =
            self.sample.iter().map(|(dims, values)| TensorView { dims, values }).collect();
        let (mut workspace, mut shortest) = (Workspace::default(), u64::MAX);
        for run in 0..WARM_UP + RUNS {
            let clock = Clock::start();
            packed.run(&fed, &mut workspace).map_err(|error| error.to_string())?;
            if run >= WARM_UP {
                shortest = shortest.min(clock.now());
            }
        }
        // A clock that stood still has seen something at least.
        let latency = shortest.max(1) as f64;
        self.known.insert(assignment.formats().to_vec(), latency);
        Ok(latency)
    }
}
