//! `effective.toml`: the configuration of a run as it was, each value with its
//! origin. Running it again runs the same tests.

use std::fmt::Write as _;
use std::path::Path;

use dyno_loadgen::settings::{FIELDS, Scenario};

use crate::options::{FILE_VERSION, Options, RunOptions};
use crate::records::Keep;
use crate::summary::{Run, Test};

/// The name of the settings of a run.
pub const FILE: &str = "effective.toml";

/// A `dyno.toml` of the run.
pub fn effective_toml(run: &Run, options: &Options) -> String {
    let mut text = format!(
        "# Effective configuration of run {:?}. Comments tell where each value came from.\n\
         version = {FILE_VERSION}\n\n[run]\nname = {:?}\nsystem = {:?}\nprofile = {:?}\n",
        run.name, run.name, run.system, run.profile
    );
    let scenarios: Vec<String> =
        options.scenarios().iter().map(|scenario| format!("\"{scenario}\"")).collect();
    let _ = writeln!(text, "scenario = [{}]", scenarios.join(", "));
    text += &system_rows(&options.run);
    let mut seen = Vec::new();
    for test in run.tests.iter().filter(|test| test.tenant.is_none()) {
        if seen.contains(&&test.scenario) {
            continue;
        }
        seen.push(&test.scenario);
        let _ = writeln!(text, "\n[scenario.{}]", test.scenario);
        text += &rows(test);
    }
    let first = run.tests.first().map(|test| (&test.scenario, &test.mode));
    let is_first = |test: &&Test| Some((&test.scenario, &test.mode)) == first;
    for test in run.tests.iter().filter(|test| test.tenant.is_some()).filter(is_first) {
        let name = test.tenant.as_deref().unwrap_or_default();
        let _ = writeln!(text, "\n[[tenants]]\nname = {name:?}\n\n[tenants.settings]");
        text += &rows(test);
    }
    text
}

/// Whether a setting can matter to a scenario.
pub fn is_relevant(key: &str, scenario: Scenario) -> bool {
    let of_one = [
        ("single_stream_", Scenario::SingleStream),
        ("multi_stream_", Scenario::MultiStream),
        ("server_", Scenario::Server),
        ("offline_", Scenario::Offline),
    ];
    of_one.iter().all(|(prefix, owner)| *owner == scenario || !key.starts_with(prefix))
}

/// The same for a scenario by its name.
pub fn is_relevant_to(key: &str, scenario: &str) -> bool {
    Scenario::ALL.iter().all(|s| s.name() != scenario || is_relevant(key, *s))
}

/// What was said of the system. Paths are absolute, because this file stands
/// elsewhere than the one that they came from.
fn system_rows(run: &RunOptions) -> String {
    let path = |path: &Path| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        format!("{:?}", absolute.display().to_string())
    };
    let data: Vec<String> = run
        .data
        .iter()
        .map(|(input, file)| match input {
            Some(input) => format!("\"{input}={}", path(file).trim_start_matches('"')),
            None => path(file),
        })
        .collect();
    let rows = [
        ("mode", run.mode.map(|mode| format!("{:?}", mode.name()))),
        ("model", run.model.as_deref().map(path)),
        ("data", (!data.is_empty()).then(|| format!("[{}]", data.join(", ")))),
        ("labels", run.labels.as_deref().map(path)),
        ("ort_lib", run.ort_lib.as_deref().map(path)),
        ("samples", run.samples.map(|samples| samples.to_string())),
        ("workers", run.workers.map(|workers| workers.to_string())),
        ("batch", run.batch.map(|batch| batch.to_string())),
        ("batch_wait", run.batch_wait.map(|wait| format!("\"{wait}ns\""))),
        ("records", (run.records != Keep::default()).then(|| format!("{:?}", run.records.name()))),
        ("accuracy_target", run.accuracy_target.map(|target| target.to_string())),
    ];
    let rows = rows.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", value?)));
    rows.collect()
}

fn rows(test: &Test) -> String {
    let mut text = String::new();
    for field in FIELDS {
        let Some(setting) = test.settings.get(field.name) else { continue };
        let is_of_run = matches!(field.name, "scenario" | "mode");
        if is_of_run || !is_relevant_to(field.name, &test.scenario) {
            continue;
        }
        let unit =
            if setting.unit.is_empty() { String::new() } else { format!("{}, ", setting.unit) };
        let line = format!("{} = {}", field.name, toml_value(field.kind, &setting.value));
        let _ = writeln!(text, "{line:<48} # {unit}{}", setting.origin);
    }
    text
}

/// A value as TOML reads it: numbers and switches bare, the rest quoted. Whole
/// numbers beyond 64 bits signed are no TOML numbers, so they are quoted, too.
pub fn toml_value(kind: &str, value: &str) -> String {
    let is_bare = match kind {
        "true or false" => true,
        "a number" => value.parse::<f64>().is_ok_and(f64::is_finite),
        _ => value.parse::<i64>().is_ok(),
    };
    if is_bare && FIELDS.iter().any(|field| field.kind == kind) {
        return value.to_string();
    }
    format!("{value:?}")
}
