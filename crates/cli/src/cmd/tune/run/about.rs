//! Description of a job for its journal: everything that its decisions depend on.

use std::path::Path;

use dyno_experiment::Failure;
use dyno_experiment::tune::{CalibrationSplit, Provenance, hashes, program_hashes};
use dyno_number::network::{BuiltInModel, CorrectnessSource, ExternalProgram};
use dyno_number::tune::{self, ConfirmationRule, Settings};
use dyno_number::{Network, Radix};
use serde_json::Value;

use super::Run;

impl Run {
    /// Describes a job with a model for its journal.
    pub(super) fn about_model(
        &self,
        network: &Network,
        built_in: &BuiltInModel,
        home: &Path,
        settings: &Settings,
        provenance: Option<&Provenance>,
    ) -> Result<Value, Failure> {
        let mut about = tune::describe(network, settings);
        about["model"] = built_in.model.clone().into();
        about["system"] = built_in.system.clone().into();
        about["data"] = built_in.files()[1..].into();
        if let CorrectnessSource::Agreement(agreement) = &built_in.correctness {
            about["agreement"] = agreement.to_string().into();
        }
        about["validation"] = built_in.validation.as_ref().map(|files| files.to_vec()).into();
        about["small_set"] = match self.split() {
            Some(CalibrationSplit { small_share, seed }) => serde_json::json!([small_share, seed]),
            None => serde_json::json!([built_in.small_share, built_in.seed]),
        };
        // Jobs without held-out samples are as those of earlier versions.
        if settings.confirmation == ConfirmationRule::Margin {
            about["held_out"] = self.part_to_hold_out(network).map(|part| part.share).into();
        }
        about["files"] = hashes(built_in, home).map_err(Failure::usage)?;
        about["samples"] = sets_of(provenance);
        Ok(about)
    }
}

/// Describes a job with a program for its journal.
pub(super) fn about(
    network: &Network,
    settings: &Settings,
    external: &ExternalProgram,
    home: &Path,
    provenance: Option<&Provenance>,
) -> Result<Value, Failure> {
    let mut about = tune::describe(network, settings);
    about["cmd_smallset"] = external.small_command.clone().into();
    about["cmd_fullset"] = external.full_command.clone().into();
    about["cmd_confirmation"] = external.confirmation_command.clone().into();
    about["get_result_regex"] = external.result.clone().into();
    about["get_latency_regex"] = external.latency.clone().into();
    about["get_sample_regex"] = external.sample.clone().into();
    // Jobs with the default are as those of earlier versions.
    if external.radix != Radix::default() {
        about["radix"] = format!("{:?}", external.radix).to_lowercase().into();
    }
    about["config_file"] = external.config_file.clone().into();
    about["files"] = program_hashes(external, home).map_err(Failure::usage)?;
    about["samples"] = sets_of(provenance);
    Ok(about)
}

/// Returns the hashes of the sets of closed mode.
fn sets_of(provenance: Option<&Provenance>) -> Value {
    let hashes = |provenance: &Provenance| {
        provenance.sets.iter().map(|set| set.sha256.clone()).collect::<Vec<_>>()
    };
    provenance.map(hashes).into()
}
