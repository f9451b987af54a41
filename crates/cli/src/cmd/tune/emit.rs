//! `dyno tune emit`: writes tuned formats as C++ types.

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::tune::cpp_types;
use dyno_number::Dictionary;
use dyno_results::write::to_named;

use super::read;

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Emit {
    /// Configuration file, such as opt_conf.txt of dyno tune run
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Further objects, separated by commas; those without a line in the file are FLOAT 32
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    objects: Vec<String>,
    /// Namespace of the types
    #[arg(long, value_name = "NAME", default_value = "tuned")]
    namespace: String,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Prints a header for C++14 that needs no library. It has a type for each object, such as conv1_weight for
conv1.weight. Values are stored as integers of 8, 16 or 32 bits, and compute like Numbers of that format.
Example:
  dyno tune emit tune-lenet/opt_conf.txt --objects ip1.weight,ip2.weight --out lenet_types.hpp";

impl Emit {
    /// Writes the header.
    ///
    /// # Errors
    /// An unreadable configuration, names that are not valid in C++, or an output that cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let dictionary: Dictionary = read(&self.config)?
            .parse()
            .map_err(|error| Failure::usage(format!("{}: {error}", self.config.display())))?;
        let header = cpp_types(&dictionary, &self.objects, &self.namespace)
            .map_err(|problem| Failure::usage(format!("{}: {problem}", self.config.display())))?;
        let Some(path) = &self.out else { return output::print(header).map(|()| Exit::Valid) };
        let failed = |error| {
            Failure::unwritable(path, &error).hint("choose a file that you may write to with --out")
        };
        to_named(path, &header).map_err(failed).map(|()| Exit::Valid)
    }
}
