//! `dyno tune`: finds the smallest number format of each layer that keeps the accuracy.

mod compare;
mod emit;
mod export;
mod layers;
mod pack;
mod plot;
mod profile;
mod run;
mod scale;
mod trial;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dyno_experiment::{Failure, files};
use dyno_number::{BUILT_IN_PLATFORMS, Network, Platform};
use dyno_results::units;

pub use self::run::Run;
pub use self::trial::read_result;

use crate::exit::Exit;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Tune {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find the smallest formats of a network, which a program or the built-in engine evaluates
    Run(Box<Run>),
    /// Print the descriptor of a model, with its measured sizes and largest magnitudes
    Profile(profile::Profile),
    /// Plot accuracy against width for each layer, and histograms of the weights
    Plot(plot::Plot),
    /// Print the layers of a model with the bits of their formats, for simulators
    Layers(layers::Layers),
    /// Evaluate one trial from stdin and print its result
    Trial(trial::Trial),
    /// Print the formats as C++ types, for a program without a library
    Emit(emit::Emit),
    /// Write a tuned model as one file, with its weights packed in their formats
    Pack(pack::Pack),
    /// Write a tuned model as ONNX with QuantizeLinear and DequantizeLinear, for other runtimes
    Export(export::Export),
    /// Compare a tuned model with int8 models of ONNX Runtime on the same held-out samples
    Compare(compare::Compare),
    /// Round weights to formats with a scale for each tensor, channel or group
    Scale(scale::Scale),
}

impl Tune {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// The failure of the subcommand.
    pub fn execute(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Run(run) => run.execute(None),
            Command::Profile(profile) => profile.execute(),
            Command::Plot(plot) => plot.execute(),
            Command::Layers(layers) => layers.execute(),
            Command::Trial(trial) => trial.execute(),
            Command::Emit(emit) => emit.execute(),
            Command::Pack(pack) => pack.execute(),
            Command::Export(export) => export.execute(),
            Command::Compare(compare) => compare.execute(),
            Command::Scale(scale) => scale.execute(),
        }
    }

    /// Returns the `run` command with this many trials at once, to place its trials elsewhere.
    ///
    /// # Errors
    /// Another subcommand, which has no trials.
    pub fn into_run(self, at_once: u16) -> Result<Run, Failure> {
        match self.command {
            Command::Run(run) => Ok(run.with_jobs(at_once)),
            _ => Err(Failure::usage("only `tune run` has trials that can be placed")
                .hint("use dyno launch ... -- tune run DESCRIPTOR")),
        }
    }
}

/// Returns the sizes of a file that was written and of its model, in words.
fn on_disk(written: u64, plain: u64, model: &Path) -> String {
    let [small, large] = [written.min(plain).max(1), written.max(plain)];
    let word = if written > plain { "more" } else { "less" };
    format!(
        "{} bytes on disk instead of the {} of {}: {:.2} times {word}",
        units::count(written),
        units::count(plain),
        model.display(),
        large as f64 / small as f64
    )
}

/// The network, and the formats of its platform.
#[derive(Debug, Args)]
struct NetworkArgs {
    /// The network's descriptor, a TOML file
    #[arg(value_name = "DESCRIPTOR")]
    descriptor: PathBuf,
    /// A platform by its name, instead of the descriptor's: paper, paper-unsigned, onnx,
    /// mlperf-v0.5, mlperf-v0.7, or one of --platforms
    #[arg(long, value_name = "NAME")]
    platform: Option<String>,
    /// A file with the formats of platforms: TOML, or the thesis' Python literal
    #[arg(long, value_name = "FILE", requires = "platform")]
    platforms: Option<PathBuf>,
}

impl NetworkArgs {
    fn network(&self, closed: Option<&'static str>) -> Result<Network, Failure> {
        let platform = match closed {
            Some(name) => Platform::named(name),
            None => self.platform()?,
        };
        let text = read(&self.descriptor)?;
        Network::from_descriptor(&text, platform.as_ref())
            .map_err(|error| wrong(&self.descriptor, &error))
    }

    fn platform(&self) -> Result<Option<Platform>, Failure> {
        let Some(name) = &self.platform else { return Ok(None) };
        if let Some(path) = &self.platforms {
            let text = read(path)?;
            let platform = Platform::from_descriptor(&text, name);
            return platform.map(Some).map_err(|error| wrong(path, &error));
        }
        let platform = Platform::named(name).ok_or_else(|| {
            let names: Vec<&str> = BUILT_IN_PLATFORMS.iter().map(|(name, _)| *name).collect();
            Failure::usage(format!(
                "there is no platform {name}; built in are {}",
                names.join(", ")
            ))
            .hint("--platforms FILE names a file with others")
        })?;
        Ok(Some(platform))
    }

    /// Returns the arguments for another process of this program, in any working directory.
    fn arguments(&self) -> Result<Vec<String>, Failure> {
        let mut arguments = vec![absolute(&self.descriptor)?.display().to_string()];
        if let Some(name) = &self.platform {
            arguments.push(format!("--platform={name}"));
        }
        if let Some(path) = &self.platforms {
            arguments.push(format!("--platforms={}", absolute(path)?.display()));
        }
        Ok(arguments)
    }

    /// Returns the folder in which the descriptor's commands run.
    fn folder(&self) -> Result<PathBuf, Failure> {
        let path = absolute(&self.descriptor)?;
        Ok(path.parent().map(Path::to_path_buf).unwrap_or_default())
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::set_up(format!("the current folder is gone: {error}")))
}

fn read(path: &Path) -> Result<String, Failure> {
    if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx")) {
        let path = path.display();
        return Err(Failure::usage(format!(
            "{path} is a model; expected a descriptor, a TOML file"
        ))
        .hint(format!(
            "dyno tune profile {path} --samples FILE.npy prints the part of a descriptor that is \
                 about layers"
        )));
    }
    files::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))
}

/// Returns errors in the form of compilers: `FILE:LINE: key: message`.
fn wrong(path: &Path, error: &dyno_number::DescriptorError) -> Failure {
    let line = |problem: &dyno_number::Problem| {
        let key =
            if problem.key.is_empty() { String::new() } else { format!("`{}`: ", problem.key) };
        format!("{}:{}: {key}{}", path.display(), problem.line, problem.problem)
    };
    Failure::usages(error.problems.iter().map(line).collect())
}
