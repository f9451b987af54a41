//! `dyno task run`: runs `dyno run` with a task as its system.

use clap::Args;
use dyno_experiment::Failure;

use crate::cmd::run::Run;
use crate::exit::Exit;

/// A task, and how it is run.
#[derive(Debug, Args)]
pub struct RunTask {
    /// Name of the task
    #[arg(value_name = "NAME")]
    task: String,
    #[command(flatten)]
    run: Run,
}

impl RunTask {
    /// Runs it as `dyno run --system task:NAME` does.
    ///
    /// # Errors
    /// Those of `dyno run`, or a system is named, too.
    pub fn execute(self) -> Result<Exit, Failure> {
        self.run.of_system(&format!("task:{}", self.task))?.execute()
    }
}
