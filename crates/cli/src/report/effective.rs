//! `effective.toml`: the configuration of a run as it was, each value with its
//! origin. Running it again runs the same tests.

use std::fmt::Write as _;
use std::path::Path;

use dyno_loadgen::settings::{FIELDS, Origin, Scenario, Settings};

use crate::options::{FILE_VERSION, Options, RunOptions};
use crate::summary::Run;

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
    for outcome in run.outcomes.iter().filter(|outcome| outcome.tenant.is_none()) {
        if seen.contains(&outcome.scenario) {
            continue;
        }
        seen.push(outcome.scenario);
        let _ = writeln!(text, "\n[scenario.{}]", outcome.scenario);
        text += &rows(&outcome.settings, outcome.scenario);
    }
    let first = run.outcomes.first().map(|outcome| (outcome.scenario, outcome.mode));
    let is_first = |o: &&crate::outcome::Outcome| Some((o.scenario, o.mode)) == first;
    for outcome in run.outcomes.iter().filter(|o| o.tenant.is_some()).filter(is_first) {
        let name = outcome.tenant.as_deref().unwrap_or_default();
        let _ = writeln!(text, "\n[[tenants]]\nname = {name:?}\n\n[tenants.settings]");
        text += &rows(&outcome.settings, outcome.scenario);
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
        ("accuracy_target", run.accuracy_target.map(|target| target.to_string())),
    ];
    let rows = rows.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", value?)));
    rows.collect()
}

fn rows(settings: &Settings, scenario: Scenario) -> String {
    let mut text = String::new();
    for (field, value, origin) in settings.rows() {
        let is_default = *origin == Origin::Default;
        let is_of_run = matches!(field.name, "scenario" | "mode");
        if is_default || is_of_run || !is_relevant(field.name, scenario) {
            continue;
        }
        let unit = if field.unit.is_empty() { String::new() } else { format!("{}, ", field.unit) };
        let line = format!("{} = {}", field.name, toml_value(field.kind, &value));
        let _ = writeln!(text, "{line:<48} # {unit}{origin}");
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
