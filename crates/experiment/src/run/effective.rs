//! Writer of `effective.toml`: the configuration of a run, each value with its origin. Running it
//! again runs the same tests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dyno_loadgen::settings::{FIELDS, Scenario};
use dyno_results::effective::{is_relevant_to, quoted, toml_value};
use dyno_results::records::Keep;
use dyno_results::summary::{Run, Test};

use crate::effect;
use crate::options::{FILE_VERSION, Options};
use crate::system::net::without_secrets;

/// Returns the configuration of the run as a `dyno.toml`.
pub fn effective_toml(run: &Run, options: &Options) -> String {
    let mut text = format!(
        "# Effective configuration of run {0}. Comments state the origin of each value.\nversion \
         = {FILE_VERSION}\n\n[run]\nname = {0}\nsystem = {1}\nprofile = {2}\n",
        quoted(&run.name),
        quoted(&run.system),
        quoted(&run.profile)
    );
    if let Some(rules) = &options.rules {
        let (round, benchmark) = (rules.round.version, &rules.benchmark.name);
        let _ = write!(text, "round = \"{round}\"\nbenchmark = {}\n", quoted(benchmark));
    }
    let is_interactive = options.rules.is_some_and(|rules| rules.is_interactive);
    let name = |scenario: &Scenario| match scenario {
        Scenario::Server if is_interactive => "Interactive",
        other => other.name(),
    };
    let scenarios: Vec<String> =
        options.scenarios().iter().map(|scenario| quoted(name(scenario))).collect();
    let _ = writeln!(text, "scenario = [{}]", scenarios.join(", "));
    text += &system_rows(options);
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
        let own = options.tenants.iter().find(|tenant| tenant.name == name);
        let system = own.and_then(|tenant| tenant.system.as_deref()).map(without_secrets);
        let system = system.map_or(String::new(), |spec| format!("system = {}\n", quoted(&spec)));
        let _ =
            writeln!(text, "\n[[tenants]]\nname = {}\n{system}\n[tenants.settings]", quoted(name));
        text += &rows(test);
    }
    text
}

/// Returns the rows about the system. Paths are absolute, because this file is in a different
/// folder than the original one.
fn system_rows(options: &Options) -> String {
    let run = &options.run;
    let path = |path: &Path| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        absolute.display().to_string()
    };
    let data: Vec<String> = run
        .data
        .iter()
        .map(|(input, file)| match input {
            Some(input) => quoted(&format!("{input}={}", path(file))),
            None => quoted(&path(file)),
        })
        .collect();
    // A target of a round follows from the round.
    let is_own = options.given().iter().any(|given| given.key == "accuracy-target");
    let target = run.accuracy_target.filter(|_| is_own);
    let required: Vec<String> =
        run.requirements.iter().map(|requirement| quoted(&requirement.written())).collect();
    let shapes: Vec<String> = run.shapes.iter().map(|shape| quoted(&shape.written())).collect();
    let with: Vec<String> =
        run.with.iter().map(|(name, file)| quoted(&format!("{name}={}", path(file)))).collect();
    let file = |of: &Option<PathBuf>| of.as_deref().map(|file| quoted(&path(file)));
    let rows = [
        ("mode", run.mode.map(|mode| quoted(mode.name()))),
        ("fail_fast", run.fails_fast.map(|is_on| quoted(if is_on { "on" } else { "off" }))),
        (
            "stop_on_saturation",
            run.stops_on_saturation.map(|is_on| quoted(if is_on { "on" } else { "off" })),
        ),
        ("model", file(&run.model)),
        ("data", (!data.is_empty()).then(|| format!("[{}]", data.join(", ")))),
        ("shape", (!shapes.is_empty()).then(|| format!("[{}]", shapes.join(", ")))),
        ("labels", file(&run.labels)),
        ("with", (!with.is_empty()).then(|| format!("[{}]", with.join(", ")))),
        ("ort_lib", file(&run.ort_lib)),
        ("samples", run.samples.map(|samples| samples.to_string())),
        ("workers", run.workers.map(|workers| workers.to_string())),
        ("threads", run.threads.map(|threads| threads.to_string())),
        ("cores", run.cores.as_ref().map(|cores| quoted(&cores.to_string()))),
        ("warm_up", run.warm_up.map(|calls| calls.to_string())),
        ("ready_timeout", run.ready_timeout.map(|limit| format!("\"{limit}ns\""))),
        ("batch", run.batch.as_ref().map(|batch| toml_value("a whole number", &batch.to_string()))),
        ("batch_wait", run.batch_wait.map(|wait| format!("\"{wait}ns\""))),
        ("records", (run.records != Keep::default()).then(|| quoted(run.records.name()))),
        ("trace_log", run.trace_log.then(|| "true".to_string())),
        ("texts", run.keeps_texts.then(|| "true".to_string())),
        ("virtual", (run.is_virtual == Some(true)).then(|| "true".to_string())),
        ("goodput", run.goodput.map(|limits| quoted(&limits.to_string()))),
        ("equivalence", file(&run.equivalence)),
        ("require", (!required.is_empty()).then(|| format!("[{}]", required.join(", ")))),
        ("accuracy_target", target.map(|target| target.to_string())),
    ];
    let rows = rows.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", value?)));
    rows.collect()
}

fn rows(test: &Test) -> String {
    let mut text = String::new();
    let has_tokens =
        test.settings.get("use_token_latencies").is_some_and(|setting| setting.value == "true");
    for field in FIELDS {
        let Some(setting) = test.settings.get(field.name) else { continue };
        let is_of_run = matches!(field.name, "scenario" | "mode");
        // A bound that no test judges is rejected in a file.
        let has_effect =
            is_relevant_to(field.name, &test.scenario) && effect::is_judged(field.name, has_tokens);
        if is_of_run || !has_effect {
            continue;
        }
        let unit =
            if setting.unit.is_empty() { String::new() } else { format!("{}, ", setting.unit) };
        let line = format!("{} = {}", field.name, toml_value(field.kind, &setting.value));
        // Names of files may contain control characters.
        let origin = setting.origin.replace(char::is_control, " ");
        let _ = writeln!(text, "{line:<48} # {unit}{origin}");
    }
    text
}
