//! Flags of `dyno run`, generated from the table of its keys.

use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use dyno_experiment::Failure;
use dyno_experiment::options::{CommandLine, GivenKeys, KEYS, SweepKey, read_axis};
use dyno_experiment::run::variables;
use dyno_experiment::system::Target;
use dyno_experiment::system::net::identify;

use crate::cmd::command_names;
use crate::output;

/// The keys that are given as flags.
#[derive(Debug, Clone, Default)]
pub struct KeyArgs {
    /// The keys and their values.
    pub given: GivenKeys,
}

impl KeyArgs {
    /// Adds the system that the argument of a command names. A server that is only a URL, here, in a
    /// flag or in the file, is asked what it is. `line` is the command with these keys.
    ///
    /// # Errors
    /// Two systems are named, or the system or server is not recognized.
    pub fn add_target(
        &mut self,
        target: Option<&str>,
        line: &CommandLine,
        is_talking: bool,
    ) -> Result<(), Failure> {
        if is_talking && line.config.is_none() && Path::new(INIT_FILE).is_file() {
            output::say(format_args!(
                "warning: {INIT_FILE} is not used; add --config {INIT_FILE} to use it"
            ));
        }
        check_lists(&self.given)?;
        let mut line = line.clone();
        if let Some(target) = target {
            if let Some(system) = line.given("system") {
                let problem = format!("both {target} and --system {system} select a system");
                return Err(Failure::usage(problem).hint("remove one of them"));
            }
            let (Target::System(spec) | Target::Server(spec)) =
                Target::read(target, &command_names())?;
            line.give("system", &spec);
        }
        identify(&mut line, variables(), is_talking.then(output::console).as_ref())?;
        self.given = line.keys;
        Ok(())
    }
}

/// Rejects a flag with several values where one is expected, and names the command that measures each.
fn check_lists(given: &GivenKeys) -> Result<(), Failure> {
    let is_list = |name: &str, value: &str| {
        let is_value = SweepKey::find(name).is_ok_and(|key| key.check(value).is_ok());
        // Each requirement has a flag of its own. A run may have several scenarios.
        !matches!(name, "require" | "scenario")
            && !is_value
            && (value.contains(',') || value.contains(".."))
            && read_axis(&format!("{name}={value}")).is_ok()
    };
    match given.0.iter().find(|(key, value)| is_list(key.name, value)) {
        None => Ok(()),
        Some((key, value)) => {
            let name = key.name;
            let problem = format!("flag --{name}: expected one value, found several, `{value}`");
            Err(Failure::usage(problem)
                .hint(format!("measure each of them: dyno sweep --over {name}={value}")))
        }
    }
}

/// File that `dyno init` writes. Commands read it only with `--config`.
const INIT_FILE: &str = "dyno.toml";

/// Other names of flags: those of `vllm bench serve`.
const ALIASES: [(&str, &str); 1] = [("qps", "request-rate")];

/// Rejects `--goodput` with two different values. Its limits add up, but the last value would count.
fn check_once<'a>(
    name: &str,
    mut values: impl Iterator<Item = &'a String>,
) -> Result<(), clap::Error> {
    let Some(first) = values.next().filter(|_| name == "goodput") else { return Ok(()) };
    values.find(|value| *value != first).map_or(Ok(()), |other| {
        let message = format!(
            "--goodput is given twice: {first} and {other}; use one with commas: {first},{other}\n"
        );
        Err(clap::Error::raw(ErrorKind::ArgumentConflict, message))
    })
}

impl Args for KeyArgs {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().fold(command, |command, key| {
            let help = format!("{} [default: {}]", key.help, key.default);
            let mut arg = Arg::new(key.name).long(key.name).help(help).help_heading(key.group);
            if let Some((_, alias)) = ALIASES.iter().find(|(name, _)| *name == key.name) {
                arg = arg.visible_alias(*alias);
            }
            command.arg(match key.value {
                // `--virtual=false` overrides a file that sets `virtual = true`.
                "" => arg
                    .value_name("true|false")
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true"),
                value => {
                    let arg = arg.value_name(value).action(ArgAction::Append);
                    arg.allow_negative_numbers(true)
                }
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for key in KEYS {
            if let Some(values) = matches.get_many::<String>(key.name) {
                check_once(key.name, values.clone())?;
                given.extend(values.map(|value| (key, value.clone())));
            }
        }
        Ok(Self { given: GivenKeys(given) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns a parser of one of several values by its name. Help lists the names and meanings.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(T) -> &'static str,
    meaning: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let listed = |value: &T| PossibleValue::new(name(*value)).help(meaning(*value));
    PossibleValuesParser::new(values.iter().map(listed)).map(move |given| {
        let found = values.iter().copied().find(|value| name(*value) == given);
        found.expect("the parser takes only these names")
    })
}
