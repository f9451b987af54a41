//! Evaluators of the trials of a descriptor: a program, the built-in engine, or a system.

use std::path::{Path, PathBuf};

use dyno_number::Network;
use dyno_number::tune::{Evaluation, Stop, Trial};

use super::built_in::check_files;
use super::closed::write_lists;
use super::data::{CalibrationSplit, Data, HeldOut};
use super::external::program;
use super::{Engine, Program, Runs, TrialPolicy};
use crate::failure::Failure;
use crate::watch::Interrupt;

/// An evaluator of a few trials, without a journal.
#[derive(Debug)]
pub struct Evaluator {
    by: EvaluatorKind,
    /// Folder for the files of trials.
    _scratch: Scratch,
}

#[derive(Debug)]
enum EvaluatorKind {
    Program(Box<Program>),
    Engine(Box<Engine>),
    System(Box<Runs>),
}

impl Evaluator {
    /// Opens the evaluator of a descriptor in the folder `home`. With `goes_on`, a trial at which a
    /// program fails counts as one without accuracy. With `closed`, the sets are those of closed
    /// mode, split in this way; with `held_out`, the sets are without the samples that are held out.
    ///
    /// # Errors
    /// A descriptor without an evaluator, files that cannot be read, or a folder that cannot be
    /// written.
    pub fn open(
        network: &Network,
        home: &Path,
        goes_on: bool,
        closed: Option<CalibrationSplit>,
        held_out: Option<HeldOut>,
    ) -> Result<Self, Failure> {
        let scratch = Scratch::new()?;
        let by = match &network.built_in {
            Some(built_in) => {
                check_files(built_in, home)?;
                let data = Data::read(built_in, home, closed, held_out).map_err(Failure::usage)?;
                match &built_in.system {
                    Some(system) => {
                        let model = home.join(&built_in.model);
                        let runs = Runs::new(system, &model, &data, &scratch.0);
                        EvaluatorKind::System(Box::new(runs.map_err(Failure::set_up)?))
                    }
                    None => {
                        let engine = Engine::open(network, built_in, home, data);
                        EvaluatorKind::Engine(Box::new(engine.map_err(Failure::usage)?))
                    }
                }
            }
            None => {
                let running = TrialPolicy { goes_on, jobs: 1 };
                let external = program(network)?;
                let program =
                    Program::new(external, network.metric.direction, home, &scratch.0, running);
                let mut program = program.map_err(Failure::usage)?;
                if let (Some(by), Some(calibration), Some(validation)) =
                    (closed, &external.calibration, &external.validation)
                {
                    let [calibration, validation] =
                        [calibration, validation].map(|of| home.join(of));
                    Failure::check_files([&calibration, &validation])?;
                    let lists = write_lists(&calibration, &validation, by, &scratch.0);
                    program = program.with_lists(lists.map_err(Failure::usage)?);
                }
                EvaluatorKind::Program(Box::new(program))
            }
        };
        Ok(Self { by, _scratch: scratch })
    }

    /// Returns the built-in engine, if it is the evaluator.
    pub fn engine(&self) -> Option<&Engine> {
        match &self.by {
            EvaluatorKind::Engine(engine) => Some(engine),
            EvaluatorKind::Program(_) | EvaluatorKind::System(_) => None,
        }
    }

    /// Evaluates a trial.
    ///
    /// # Errors
    /// The evaluation failed, or was interrupted.
    pub fn evaluate(&mut self, trial: &Trial, interrupt: &Interrupt) -> Result<Evaluation, Stop> {
        let trials = std::slice::from_ref(trial);
        let mut found = match &mut self.by {
            EvaluatorKind::Program(program) => program.evaluate(trials, interrupt),
            EvaluatorKind::Engine(engine) => engine.evaluate(trials, interrupt),
            EvaluatorKind::System(runs) => runs.evaluate(trials, interrupt),
        };
        found.pop().unwrap_or(Err(Stop::Interrupted))
    }
}

/// A folder for the files of trials, which is removed on drop.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("dyno-trials-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Failure::unwritable(&path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A remaining folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
