//! A run whose options all take effect.

use super::{Prepared, variables};
use crate::effect::{self, Facts, Strictness};
use crate::exit::Failure;
use crate::options::{CommandLine, Options};
use crate::output;

impl Prepared {
    /// The system of a run that is to be played as it is described: an option without effect
    /// is an error. Warnings are printed unless `is_quiet`.
    ///
    /// # Errors
    /// As [`Prepared::new`], and every option that takes no effect.
    pub fn checked(
        command_line: &CommandLine,
        strictness: Strictness,
        is_quiet: bool,
    ) -> Result<Self, Failure> {
        let options = Options::read(command_line, variables())?;
        // Before the system is loaded, which may take minutes.
        effect::check(&Facts::new(&options, None), strictness)?;
        let prepared = Self::load(options)?;
        let facts = Facts::new(&prepared.options, Some(&prepared.system));
        let ignored = effect::check(&facts, strictness)?;
        if !is_quiet {
            ignored.iter().for_each(|what| output::say(format_args!("warning: {what}")));
            prepared.warn();
        }
        Ok(prepared)
    }
}
