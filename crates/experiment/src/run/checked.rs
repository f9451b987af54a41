//! Preparation of runs whose options all have an effect.

use std::sync::Arc;

use dyno_loadgen::settings::TestMode;

use super::{PreparedRun, variables};
use crate::effect::{self, Facts, Strictness};
use crate::failure::Failure;
use crate::options::{CommandLine, Options};
use crate::watch::Watch;
use crate::watch::quiet;

impl PreparedRun {
    /// Loads the system of a run whose options must all have an effect. Warnings go to `watch`.
    ///
    /// # Errors
    /// As [`PreparedRun::new`], and each option without effect.
    pub fn checked(
        command_line: &CommandLine,
        strictness: Strictness,
        watch: Option<&Arc<dyn Watch>>,
    ) -> Result<Self, Failure> {
        let options = Options::read(command_line, variables())?;
        // Checked before the system is loaded, which may take minutes.
        effect::check(&Facts::new(&options, None), strictness)?;
        let prepared = Self::load(options, strictness, watch.unwrap_or(&quiet()))?;
        let facts = Facts::new(&prepared.options, Some(&prepared.system));
        let ignored = effect::check(&facts, strictness)?;
        if let Some(watch) = watch {
            ignored.iter().for_each(|what| watch.say(&format!("warning: {what}")));
            prepared.warn(watch);
        }
        Ok(prepared)
    }
}

/// Checks that only performance tests of a single process have a server per tenant.
pub(super) fn servers_of_tenants(options: &Options) -> Result<(), Failure> {
    let Some(at) = options.run.tenant_systems.iter().position(Option::is_some) else {
        return Ok(());
    };
    let name = &options.tenants[at].name;
    if options.modes().iter().any(|mode| *mode != TestMode::PerformanceOnly) {
        let problem = format!("tenant {name} has its own system, whose answers are not scored");
        return Err(Failure::usage(problem).hint("add --mode performance"));
    }
    if options.run.remote_workers.is_some() {
        let problem = format!("tenant {name} has its own system, but workers share one system");
        return Err(Failure::usage(problem).hint("remove --remote-workers"));
    }
    Ok(())
}
