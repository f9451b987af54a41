//! How `dyno tune run` confirms the margin.

use std::path::Path;

use clap::ValueEnum;
use dyno_experiment::Failure;
use dyno_experiment::tune::{Data, HeldOut, SharedEvaluations, model_hash};
use dyno_number::network::{BuiltInModel, ExternalProgram};
use dyno_number::tune::{self, Confirmation, ConfirmationRule, Stop, Trial, TuneEnd, TuneOutcome};
use dyno_number::{Algorithm, Network, Objective};

use super::scenario::Evaluate;
use super::{Run, Sets};

/// Default part of the samples that is held out.
const HELD_OUT: f64 = 0.5;

/// Default number of restarts of a model in this process.
const RESTARTS: u32 = 10;

/// Values of `--confirm`.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Confirm {
    Auto,
    HeldOut,
    None,
}

/// Returns the confirmation of a job whose samples are too few to hold out a part of them.
pub(super) fn too_few(network: &Network, part: Option<HeldOut>, data: &Data) -> Confirmation {
    let (all, different) = (data.fed.count(), data.different);
    let count = part.map_or(0, |part| part.count(different));
    let mut found = tune::too_few(network.error_margin, count as u64);
    if different < all {
        found.problem = format!("only {different} of the {all} samples differ");
    }
    found
}

/// Adds what makes the verdict of a search UNDECIDED: too few samples, or a program or a system that
/// ignored the formats.
pub(super) fn doubt(network: &Network, too_few: Option<&Confirmation>, outcome: &mut TuneOutcome) {
    outcome.confirmation = outcome.confirmation.take().or_else(|| too_few.cloned());
    doubt_reader(network, outcome);
}

/// Makes the verdict UNDECIDED if the program or system of a network ignored its formats. The engine
/// inside cannot.
fn doubt_reader(network: &Network, outcome: &mut TuneOutcome) {
    let system = network.built_in.as_ref().and_then(|built_in| built_in.system.as_ref());
    let reader = match (&network.external, system) {
        (Some(_), _) => "the program",
        (None, Some(_)) => "the system",
        (None, None) => return,
    };
    outcome.doubt_reader(reader, network.error_margin);
}

/// Rejects an objective that is not positive for FLOAT 32, so that nothing can be a part of it.
pub(super) fn check_objective(network: &Network) -> Result<(), Failure> {
    if !network.objective.is_computed() {
        return Ok(());
    }
    let base = network.objective.value(network, &network.base(), None);
    if base > 0.0 && base.is_finite() {
        return Ok(());
    }
    let problem = format!(
        "the objective `{}` is {base} for FLOAT 32; expected a positive number",
        network.objective
    );
    Err(Failure::usage(problem).hint("use an expression such as \"w_bits * w_size\""))
}

/// Rounds of the comparison of latencies: few for programs, each of whose runs takes long.
const ROUNDS: usize = 11;
const PROGRAM_ROUNDS: usize = 6;

/// Measures the latencies of the answer and of FLOAT 32 again, if the objective is a latency and the
/// search is complete.
pub(super) fn compare_latency(
    network: &Network,
    outcome: &mut TuneOutcome,
    answers: &mut Evaluate<'_>,
) {
    if network.objective != Objective::Latency || outcome.end != TuneEnd::Complete {
        return;
    }
    let rounds = if network.built_in.is_some() { ROUNDS } else { PROGRAM_ROUNDS };
    let mut evaluate = |trial: &Trial| {
        let found = answers(std::slice::from_ref(trial)).into_iter().next();
        found.unwrap_or(Err(Stop::Interrupted))
    };
    if let Err(stop) = outcome.compare_latency(&network.base(), rounds, &mut evaluate) {
        outcome.end = TuneEnd::Stopped(stop);
    }
}

impl Run {
    /// Returns the part of a model's samples that the search does not see.
    pub(super) fn part_to_hold_out(&self, network: &Network) -> Option<HeldOut> {
        let built_in = network.built_in.as_ref()?;
        let is_wanted = self.confirm != Confirm::None && self.closed.is_none();
        // A system is played as a whole, and a validation set is held out already.
        let can = built_in.system.is_none() && built_in.validation.is_none();
        let margin = network.error_margin;
        let share = self.held_out.unwrap_or(HELD_OUT);
        (is_wanted && can).then_some(HeldOut { share, margin })
    }

    /// Rejects `--evaluations` and `--restarts` if they have no effect. `has_engine` is whether the
    /// engine of this process evaluates.
    pub(super) fn check_unused(&self, has_engine: bool) -> Result<(), Failure> {
        let has_restarts = self.restarts.is_some_and(|restarts| restarts > 0);
        let (flag, why) = match self.passes {
            _ if self.evaluations.is_some() && !has_engine => {
                ("--evaluations", "only the built-in engine shares its evaluations")
            }
            _ if has_restarts && self.algorithm != Algorithm::Libnumber => {
                ("--restarts", "only the algorithm libnumber restarts")
            }
            Some(Sets::Small) if has_restarts => {
                ("--restarts", "restarts use all samples, and --passes small does not")
            }
            _ => return Ok(()),
        };
        let problem = format!("{flag} has no effect: {why}");
        Err(Failure::usage(problem).hint(format!("remove {flag}")))
    }

    /// Rejects `--held-out` if it has no effect.
    fn check_held_out(&self, why: Option<&str>) -> Result<(), Failure> {
        let why = match (self.closed, self.confirm) {
            (Some(_), _) => Some("--closed confirms with the validation set"),
            (None, Confirm::None) => Some("--confirm none holds out no sample"),
            _ => why,
        };
        match (self.held_out, why) {
            (Some(_), Some(why)) => {
                let problem = format!("--held-out has no effect: {why}");
                Err(Failure::usage(problem).hint("remove --held-out"))
            }
            _ => Ok(()),
        }
    }

    /// Opens the file of `--evaluations`.
    pub(super) fn shared(
        &self,
        built_in: &BuiltInModel,
        home: &Path,
        data: &Data,
    ) -> Result<Option<SharedEvaluations>, Failure> {
        let Some(path) = &self.evaluations else { return Ok(None) };
        let model = model_hash(&home.join(&built_in.model)).map_err(Failure::usage)?;
        SharedEvaluations::open(path, &model, &data.fed, &data.sets)
            .map(Some)
            .map_err(Failure::set_up)
    }

    /// Returns the number of restarts of a model in this process.
    pub(super) fn restarts_of_model(&self, network: &Network, built_in: &BuiltInModel) -> u32 {
        let is_thesis = self.confirm == Confirm::None || self.closed.is_some();
        let is_slow = built_in.system.is_some() || network.objective == Objective::Latency;
        let is_own = self.algorithm == Algorithm::Libnumber;
        let default = if is_thesis || is_slow || !is_own { 0 } else { RESTARTS };
        self.restarts.unwrap_or(default)
    }

    /// Returns how the answer of a program is confirmed.
    pub(super) fn rule_of_program(
        &self,
        external: &ExternalProgram,
    ) -> Result<ConfirmationRule, Failure> {
        self.check_held_out(Some("the samples of a program are those of its commands"))?;
        let has_samples = external.sample.is_some();
        match (self.closed, self.confirm) {
            (Some(_), _) => Ok(ConfirmationRule::Threshold),
            (None, Confirm::None) => Ok(ConfirmationRule::None),
            (None, _) if has_samples => Ok(ConfirmationRule::Margin),
            (None, Confirm::Auto) => Ok(ConfirmationRule::None),
            (None, Confirm::HeldOut) => {
                let problem = "the program prints only an accuracy: it cannot be compared with FLOAT 32 \
                               sample by sample, and the margin cannot be confirmed";
                Err(Failure::usage(problem).hint(
                    "cmd_confirmation = \"...\" for samples that the search does not see, and \
                     get_sample_regex = '...' for the score of each, make that possible",
                ))
            }
        }
    }

    /// Returns how the answer of a model in this process is confirmed.
    pub(super) fn rule_of_model(
        &self,
        built_in: &BuiltInModel,
    ) -> Result<ConfirmationRule, Failure> {
        self.check_held_out(match (&built_in.system, &built_in.validation) {
            (Some(_), _) => Some("an accuracy run of `system` has one figure for all samples"),
            (None, Some(_)) => Some("`validation_samples` take the place of the held-out part"),
            (None, None) => None,
        })?;
        match (self.closed, self.confirm) {
            (Some(_), _) => Ok(ConfirmationRule::Threshold),
            (None, Confirm::None) => Ok(ConfirmationRule::None),
            (None, Confirm::HeldOut) if built_in.system.is_some() => {
                let problem = "an accuracy run of `system` has one figure for all samples: the margin cannot \
                               be confirmed";
                Err(Failure::usage(problem)
                    .hint("remove `system` from the descriptor, or remove --confirm held-out"))
            }
            (None, Confirm::Auto) if built_in.system.is_some() => Ok(ConfirmationRule::None),
            (None, _) => Ok(ConfirmationRule::Margin),
        }
    }
}
