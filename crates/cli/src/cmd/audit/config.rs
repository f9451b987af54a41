//! `dyno audit config`: prints the settings of an audit in LoadGen's format.

use clap::Args;
use dyno_experiment::{Failure, audit, options};
use dyno_loadgen::settings::Scenario;

use super::Rules;

use crate::exit::Exit;
use crate::output;

/// Flags of `dyno audit config`.
#[derive(Debug, Args)]
pub struct ConfigCommand {
    /// The audit, such as TEST01
    #[arg(value_name = "TEST")]
    test: String,
    #[command(flatten)]
    rules: Rules,
    /// Scenario of the run; some settings depend on it
    #[arg(long, value_name = "SCENARIO", value_parser = options::scenario, default_value = "Offline")]
    scenario: Scenario,
}

impl ConfigCommand {
    /// Prints the settings of each run.
    ///
    /// # Errors
    /// An unknown audit or round.
    pub fn execute(&self) -> Result<Exit, Failure> {
        let test = audit::test(&self.test)?;
        let round = audit::round(self.rules.round.as_deref(), test)?;
        let plan = audit::plan(test, round, self.rules.benchmark.as_deref(), self.scenario)?;
        let mut text = format!("# {test} of round {}: {}\n", round.version, test.title());
        for run in &plan.runs {
            if plan.runs.len() > 1 {
                text += &format!("\n# Run `{}`: save it in a separate file\n", run.name);
            }
            for line in run.config.lines() {
                if line.contains("_rng_seed = ") && !line.contains("accuracy_log") {
                    text += "# LoadGen of later rounds ignores seeds in audit.config:\n";
                }
                text += &format!("{line}\n");
            }
        }
        output::print(text)?;
        Ok(Exit::Valid)
    }
}
