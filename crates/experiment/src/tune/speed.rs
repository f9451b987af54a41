//! Latency of a configuration: the network with packed weights, measured in this process.

use std::collections::HashMap;

use dyno_loadgen::clock::Clock;
use dyno_number::evaluate::{PackedNetwork, TensorView, Workspace};
use dyno_number::tune::{Journal, Stop};
use dyno_number::{Assignment, Format};
use dyno_onnx::Model;

use crate::watch::Interrupt;

/// Warm-up runs. Of the following runs the shortest counts: other processes slow a run down, and
/// nothing speeds it up.
const WARM_UP: usize = 8;
const RUNS: usize = 100;
/// Runs of a repeated measurement, of which there are several.
const RUNS_AGAIN: usize = 30;

/// Measures each configuration once. The result stays its latency, also in the journal.
#[derive(Debug)]
pub struct Speed {
    model: Model,
    /// Dimensions and values of each input.
    sample: Vec<(Vec<usize>, Vec<f32>)>,
    known: HashMap<Vec<Format>, f64>,
}

impl Speed {
    /// Returns the measurement of a model with one sample per call.
    pub fn new(model: Model, sample: Vec<(Vec<usize>, Vec<f32>)>) -> Self {
        Self { model, sample, known: HashMap::new() }
    }

    /// Imports measurements of an earlier part of the job.
    pub fn recall(&mut self, journal: &Journal) {
        self.known.extend(journal.latencies());
    }

    /// Returns the shortest of many runs of one sample on one thread, ns.
    ///
    /// # Errors
    /// A value cannot be represented in a format, or the user interrupted.
    pub fn latency_ns(
        &mut self,
        assignment: &Assignment,
        interrupt: &Interrupt,
    ) -> Result<f64, Stop> {
        if let Some(known) = self.known.get(assignment.formats()) {
            return Ok(*known);
        }
        let latency = self.measure(assignment, RUNS, interrupt)?;
        self.known.insert(assignment.formats().to_vec(), latency);
        Ok(latency)
    }

    /// Measures a configuration again. The result is not kept.
    ///
    /// # Errors
    /// A value cannot be represented in a format, or the user interrupted.
    pub fn again_ns(&self, assignment: &Assignment, interrupt: &Interrupt) -> Result<f64, Stop> {
        self.measure(assignment, RUNS_AGAIN, interrupt)
    }

    fn measure(
        &self,
        assignment: &Assignment,
        runs: usize,
        interrupt: &Interrupt,
    ) -> Result<f64, Stop> {
        let packed = PackedNetwork::new(&self.model, &assignment.dictionary())
            .map_err(|error| Stop::Failed(error.to_string()))?;
        let fed: Vec<TensorView<'_>> =
            self.sample.iter().map(|(dims, values)| TensorView { dims, values }).collect();
        let (mut workspace, mut shortest) = (Workspace::default(), u64::MAX);
        for run in 0..WARM_UP + runs {
            if interrupt.is_asked() {
                return Err(Stop::Interrupted);
            }
            let clock = Clock::start();
            packed.run(&fed, &mut workspace).map_err(|error| Stop::Failed(error.to_string()))?;
            if run >= WARM_UP {
                shortest = shortest.min(clock.now());
            }
        }
        // A coarse clock may measure 0.
        Ok(shortest.max(1) as f64)
    }
}
