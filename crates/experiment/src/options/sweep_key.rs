//! Keys and settings that a sweep can vary, by their names in `dyno.toml`.

use std::path::Path;

use dyno_loadgen::settings::{FIELDS, Origin, intended};

use super::CommandLine;
use super::assignment::Assignment;
use super::keys::{self, KEYS, Key, RunOptions};

/// A key or setting that can vary.
#[derive(Debug, Clone)]
pub enum SweepKey {
    /// A key of `[run]`.
    Key(&'static Key),
    /// A setting, or `Scenario.setting`.
    Setting(String),
}

/// Keys that the sweep sets.
const OF_THE_SWEEP: [&str; 2] = ["out", "name"];

/// Keys whose values are files.
const FILES: [&str; 6] = ["model", "labels", "ort-lib", "conf", "audit", "equivalence"];

impl SweepKey {
    /// Finds the key of a name: `batch`, `run.batch` or `settings.min_query_count`.
    ///
    /// # Errors
    /// The problem and the nearest name.
    pub fn find(name: &str) -> Result<Self, String> {
        if let Some(setting) = name.strip_prefix("settings.") {
            return Ok(Self::Setting(setting.to_string()));
        }
        let plain = name.strip_prefix("run.").unwrap_or(name).replace('_', "-");
        // The flag has both names.
        let plain = if plain == "request-rate" { "qps".into() } else { plain };
        if OF_THE_SWEEP.contains(&plain.as_str()) {
            return Err(format!("`{plain}` names the sweep as a whole and cannot vary"));
        }
        if let Some(key) = KEYS.iter().find(|key| key.name == plain) {
            return Ok(Self::Key(key));
        }
        let setting = name.rsplit('.').next().unwrap_or(name);
        if FIELDS.iter().any(|field| field.name == setting) {
            return Err(format!("`{name}` is a setting; write `settings.{name}`"));
        }
        let names = KEYS.iter().map(|key| key.name).filter(|name| !OF_THE_SWEEP.contains(name));
        let known = match intended(&plain, names.chain(["request-rate"])) {
            Some(near) => format!("the nearest key is `{}`", near.replace('-', "_")),
            None => "keys are the flags of dyno run, and settings.NAME (dyno info settings)".into(),
        };
        Err(format!("unknown key `{name}`; {known}"))
    }

    /// Returns the name in a file.
    pub fn name(&self) -> String {
        match self {
            Self::Key(key) => key.name.replace('-', "_"),
            Self::Setting(setting) => format!("settings.{setting}"),
        }
    }

    /// Checks that a value parses.
    ///
    /// # Errors
    /// The expected value.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self {
            Self::Key(key) => (key.set)(&mut RunOptions::default(), value, Path::new("")),
            Self::Setting(setting) => {
                let assignment = format!("{setting}={value}");
                let parsed = Assignment::parse(&assignment, &Origin::Default);
                parsed.map(|_| ()).map_err(|bad| bad.problem)
            }
        }
    }

    /// Resolves a value of a file in the folder `base`: relative paths become relative to `base`.
    pub fn based(&self, value: &str, base: &Path) -> String {
        let join = |file: &str| base.join(file).to_string_lossy().into_owned();
        match self {
            Self::Key(key) if FILES.contains(&key.name) => join(value),
            Self::Key(key) if key.name == "data" => match value.split_once('=') {
                Some((input, file)) => format!("{input}={}", join(file)),
                None => join(value),
            },
            _ => value.to_string(),
        }
    }

    /// Adds a value to the command line.
    pub fn add(&self, value: &str, command_line: &mut CommandLine) {
        match self {
            Self::Key(key) => command_line.keys.0.push((key, value.to_string())),
            Self::Setting(setting) => command_line.set.push(format!("{setting}={value}")),
        }
    }

    /// Returns the flag that already fixes the key, if any.
    pub fn fixed_by(&self, command_line: &CommandLine) -> Option<String> {
        let is_set = |setting: &str| {
            let begins = |text: &&String| text.split('=').next() == Some(setting);
            command_line.set.iter().find(begins).map(|text| format!("--set {text}"))
        };
        match self {
            Self::Key(key) => {
                let given = command_line.keys.0.iter().find(|(given, _)| given.name == key.name);
                given.map(|(key, value)| format!("--{} {value}", key.name))
            }
            Self::Setting(setting) => is_set(setting),
        }
    }
}

impl CommandLine {
    /// Returns equivalent arguments of `dyno run`.
    pub fn arguments(&self) -> Vec<String> {
        let config = self.config.iter().map(|path| format!("--config={}", path.display()));
        let keys = self.keys.0.iter().map(|(key, value)| match key.value {
            "" if value == "true" => format!("--{}", key.name),
            _ => format!("--{}={value}", key.name),
        });
        let set = self.set.iter().map(|text| format!("--set={text}"));
        config.chain(keys).chain(set).collect()
    }

    /// Parses arguments in the form that [`CommandLine::arguments`] returns.
    ///
    /// # Errors
    /// The first argument in a different form.
    pub fn of_arguments(arguments: &[String]) -> Result<Self, String> {
        let mut command_line = Self::default();
        for argument in arguments {
            let unknown = || format!("`{argument}` cannot be a common argument of all points");
            let flag = argument.strip_prefix("--").ok_or_else(unknown)?;
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            match name {
                "config" => command_line.config = Some(value.into()),
                "set" => command_line.set.push(value.to_string()),
                _ => {
                    let key = keys::find(name).map_err(|_| unknown())?;
                    command_line.keys.0.push((key, value.to_string()));
                }
            }
        }
        Ok(command_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_command_line_say_the_same() {
        let given = [
            "--config=a.toml",
            "--scenario=Server",
            "--virtual",
            "--trace-log=false",
            "--set=Server.x=1",
        ];
        let given = given.map(str::to_string);
        let command_line = CommandLine::of_arguments(&given).unwrap();
        assert_eq!(command_line.arguments(), given);
        assert_eq!(
            CommandLine::of_arguments(&["--quiet".into()]).unwrap_err(),
            "`--quiet` cannot be a common argument of all points"
        );
    }

    #[test]
    fn files_that_a_file_names_are_beside_it() {
        let based = |key: &str, value| SweepKey::find(key).unwrap().based(value, Path::new("conf"));
        assert_eq!(based("data", "x=a.npy"), "x=conf/a.npy");
        assert_eq!(based("labels", "a.npy"), "conf/a.npy");
        // As `dyno run` reads it.
        assert_eq!(based("system", "onnx:a.onnx"), "onnx:a.onnx");
    }
}
