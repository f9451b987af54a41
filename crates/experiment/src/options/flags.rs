//! Flags of the command line: keys of a run and settings, which override those of a file.

use std::path::Path;

use dyno_loadgen::clock::{MILLISECOND, SECOND};
use dyno_loadgen::settings::{Origin, Scenario};
use dyno_results::effective::is_relevant;

use super::assignment::Assignment;
use super::{CommandLine, KeyOrigin, RandomStream, RunOptions};

/// Returns the keys set by a file and by flags. A flag replaces a key of the file.
pub fn all_given(file: &[KeyOrigin], command_line: &CommandLine) -> Vec<KeyOrigin> {
    let mut all = file.to_vec();
    for (key, _) in &command_line.keys.0 {
        all.retain(|given| given.key != key.name);
        all.push(KeyOrigin { key: key.name, origin: Origin::Flag(typed(key.name)) });
    }
    all
}

/// Flag that is another name of `--qps`.
const RATE: &str = "--request-rate";

/// Returns the flag of a key as the user typed it: messages name what stands in the command.
fn typed(key: &str) -> String {
    let is_rate = |argument: std::ffi::OsString| {
        argument.to_str().is_some_and(|text| text.split('=').next() == Some(RATE))
    };
    if key == "qps" && std::env::args_os().any(is_rate) { RATE.into() } else { format!("--{key}") }
}

/// Applies flags to the options of the file. Scenarios and files that flags give replace those of
/// the file, as single values do. Requirements are added to those of the file: a gate that a flag
/// could remove would pass unnoticed.
pub fn read_flags(
    command_line: &CommandLine,
    mut run: RunOptions,
    problems: &mut Vec<String>,
) -> (RunOptions, Vec<Assignment>) {
    let here = Path::new("");
    let is_given = |name| command_line.keys.0.iter().any(|(key, _)| key.name == name);
    if is_given("scenario") {
        run.scenarios.clear();
        run.is_interactive = false;
    }
    if is_given("conf") {
        run.conf.clear();
    }
    if is_given("data") {
        run.data.clear();
    }
    if is_given("shape") {
        run.shapes.clear();
    }
    if is_given("with") {
        run.with.clear();
    }
    let mut assignments = Vec::new();
    for (key, value) in &command_line.keys.0 {
        let flag = typed(key.name);
        let mut alone = RunOptions::default();
        match (key.set)(&mut run, value, here).and_then(|()| (key.set)(&mut alone, value, here)) {
            Ok(()) => assignments.extend(shortcuts(&alone, &Origin::Flag(flag))),
            Err(expected) => problems.push(format!("flag {flag}: {expected}")),
        }
    }
    for text in &command_line.set {
        match Assignment::parse(text, &Origin::Flag("--set".into())) {
            Ok(assignment) => assignments.push(assignment),
            Err(bad) => problems.push(bad.to_string()),
        }
    }
    problems.extend(contradictions(&assignments));
    (run, assignments)
}

/// Returns the settings to which different flags give different values. If one flag is repeated,
/// its last value counts, so that scripts can append to a command.
fn contradictions(assignments: &[Assignment]) -> Vec<String> {
    // `--seed` sets several seeds, and another flag may change one of them.
    let is_seed = |assignment: &Assignment| assignment.origin == Origin::Flag("--seed".into());
    let mut problems = Vec::new();
    for (at, later) in assignments.iter().enumerate() {
        let contradicts = |earlier: &&Assignment| contradict(earlier, later) && !is_seed(earlier);
        let earlier = assignments[..at].iter().find(contradicts);
        problems.extend(earlier.map(|earlier| contradiction(earlier, later)));
    }
    problems
}

/// Returns the settings of a file to which a key of `[run]` gives another value. `shortcuts` are those of
/// these keys.
pub fn contradictions_in_file(shortcuts: &[Assignment], settings: &[Assignment]) -> Vec<String> {
    let of_run = |assignment: &Assignment| shortcuts.contains(assignment);
    // `seed` sets several seeds, and `[settings]` may change one of them.
    let is_seed = |assignment: &Assignment| assignment.key.ends_with("_rng_seed");
    let mut problems = Vec::new();
    for (at, later) in settings.iter().enumerate().filter(|(_, later)| !is_seed(later)) {
        let contradicts = |earlier: &&Assignment| {
            contradict(earlier, later) && (of_run(earlier) || of_run(later))
        };
        let earlier = settings[..at].iter().find(contradicts);
        problems.extend(earlier.map(|earlier| contradiction(earlier, later)));
    }
    problems
}

/// Returns whether two origins give different values to one setting.
fn contradict(earlier: &Assignment, later: &Assignment) -> bool {
    // A setting that only one scenario uses belongs to that scenario, whether or not it is named.
    let scenario = |assignment: &Assignment| {
        let is_relevant = |one: &&Scenario| is_relevant(assignment.key, **one);
        let mut all = Scenario::ALL.iter().filter(is_relevant);
        match (assignment.scenario, all.next(), all.next()) {
            (None, Some(only), None) => Some(*only),
            (scenario, ..) => scenario,
        }
    };
    let number = |assignment: &Assignment| assignment.value.parse::<f64>().ok();
    // 100 and 100.0 are the same rate.
    let is_equal = earlier.value == later.value
        || number(earlier).zip(number(later)).is_some_and(|(a, b)| a == b);
    earlier.key == later.key
        && scenario(earlier) == scenario(later)
        && !is_equal
        && earlier.origin != later.origin
}

fn contradiction(earlier: &Assignment, later: &Assignment) -> String {
    format!(
        "{}: {} is {} here and {} by {}; keep one",
        later.origin, later.key, later.value, earlier.value, earlier.origin
    )
}

/// Returns the settings that options of a run are shortcuts for.
pub fn shortcuts(run: &RunOptions, origin: &Origin) -> Vec<Assignment> {
    let set =
        |scenario, key, value: String| Assignment { scenario, key, value, origin: origin.clone() };
    let mut assignments = Vec::new();
    if let Some(duration) = run.duration {
        assignments.push(set(None, "min_duration_ms", duration.div_ceil(MILLISECOND).to_string()));
    }
    if let Some(qps) = run.qps {
        assignments.push(set(Some(Scenario::Server), "server_target_qps", qps.to_string()));
    }
    if let Some(queries) = run.num_prompts {
        for key in ["min_query_count", "max_query_count"] {
            assignments.push(set(None, key, queries.to_string()));
        }
        assignments.push(set(None, "min_duration_ms", "0".into()));
    }
    if let Some(shape) = run.burstiness {
        assignments.push(set(Some(Scenario::Server), "server_arrivals", format!("gamma:{shape}")));
    }
    if let Some(seed) = run.seed {
        for (key, seed) in [
            ("qsl_rng_seed", RandomStream::SampleOrder.seed(seed)),
            ("sample_index_rng_seed", RandomStream::SampleChoice.seed(seed)),
            ("schedule_rng_seed", seed),
        ] {
            assignments.push(set(None, key, seed.to_string()));
        }
    }
    if let Some(deadline) = run.deadline {
        let ms = deadline.div_ceil(MILLISECOND).min(u64::MAX / SECOND);
        assignments.push(set(None, "response_deadline_ms", ms.to_string()));
    }
    assignments
}
