//! Settings from environment variables.

use dyno_loadgen::settings::{FIELDS, Origin, intended, nearest_field};

use super::assignment::Assignment;
use super::{ENVIRONMENT_PREFIX, KEYS};

/// Returns why a variable is not what its name suggests: a setting with a wrong prefix or none, or an option of
/// runs, which the environment does not set. Other variables may be secrets of users.
fn misnamed(name: &str) -> Option<String> {
    // Settings in other letter case are not read.
    let upper = name.to_ascii_uppercase();
    let rest = upper.strip_prefix("DYNO_")?;
    let origin = Origin::Environment(name.into());
    if VARIABLES.contains(&&*upper) {
        return None;
    }
    let after = |prefix: &str| rest.strip_prefix(prefix).map(str::to_ascii_lowercase);
    let setting = after("SETTINGS").or_else(|| after("SETTING")).or_else(|| after("SET_"));
    // A lower-case name, such as `dyno_out`, may be a variable of a script.
    let is_own = name.starts_with("DYNO_");
    if let Some(key) = setting {
        let key = key.trim_start_matches('_');
        let near = nearest_field(key).to_ascii_uppercase();
        return (is_own || FIELDS.iter().any(|field| field.name == key)).then(|| {
            format!(
                "{origin}: settings are {ENVIRONMENT_PREFIX}NAME; the nearest is {ENVIRONMENT_PREFIX}{near}"
            )
        });
    }
    if !is_own {
        return None;
    }
    // As in the table [run] of dyno.toml.
    let name = rest.strip_prefix("RUN_").unwrap_or(rest).to_ascii_lowercase();
    let key = name.replace('_', "-");
    if KEYS.iter().any(|known| known.name == key) {
        return Some(format!(
            "{origin}: the environment does not set options of runs; use --{key} or dyno.toml, or \
             rename the variable"
        ));
    }
    FIELDS.iter().any(|field| field.name == name).then(|| {
        let setting = name.to_ascii_uppercase();
        format!("{origin}: use {ENVIRONMENT_PREFIX}{setting} to set it, or rename the variable")
    })
}

/// Variables with other meanings.
const VARIABLES: [&str; 4] =
    ["DYNO_CACHE", "DYNO_END_WITH_STDIN", "DYNO_SERVE_TOKEN", "DYNO_WORKER_TOKEN"];

/// Reads the settings of the environment. Adds what is wrong with its variables to `problems`.
pub fn read_environment(
    variables: impl Iterator<Item = (String, String)>,
    problems: &mut Vec<String>,
) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for (name, value) in variables {
        let Some(upper) = name.strip_prefix(ENVIRONMENT_PREFIX) else {
            problems.extend(misnamed(&name));
            continue;
        };
        let key = upper.to_ascii_lowercase();
        let origin = Origin::Environment(name.clone());
        if FIELDS.iter().all(|field| field.name != key) {
            let near = match intended(&key, FIELDS.iter().map(|field| field.name)) {
                Some(near) => {
                    format!("the nearest is {ENVIRONMENT_PREFIX}{}", near.to_ascii_uppercase())
                }
                None => "dyno info settings lists the settings".into(),
            };
            problems.push(format!("{origin}: unknown setting; {near}"));
            continue;
        }
        match Assignment::new(None, &key, &value, &origin) {
            Ok(assignment) => assignments.push(assignment),
            Err(bad) => problems.push(bad.to_string()),
        }
    }
    // The environment has no order, and equal variables must give equal runs.
    assignments.sort_by(|a, b| a.key.cmp(b.key));
    assignments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_options_are_rejected_and_others_are_not() {
        let problem = |name: &str| {
            let mut problems = Vec::new();
            let variables = [(name.to_string(), "1".to_string())];
            assert!(read_environment(variables.into_iter(), &mut problems).is_empty(), "{name}");
            problems.pop()
        };
        for (name, expected) in [
            ("DYNO_SETTING_SERVER_TARGET_QPS", "the nearest is DYNO_SETTINGS_SERVER_TARGET_QPS"),
            ("DYNO_SETTINGS_SERVER_TARGET_QP", "the nearest is DYNO_SETTINGS_SERVER_TARGET_QPS"),
            ("DYNO_SET_MIN_QUERY_COUNT", "the nearest is DYNO_SETTINGS_MIN_QUERY_COUNT"),
            ("DYNO_settings_min_query_count", "the nearest is DYNO_SETTINGS_MIN_QUERY_COUNT"),
            ("dyno_settings_min_query_count", "the nearest is DYNO_SETTINGS_MIN_QUERY_COUNT"),
            ("DYNO_REQUIRE", "use --require or dyno.toml"),
            ("DYNO_require", "use --require or dyno.toml"),
            ("DYNO_ACCURACY_TARGET", "use --accuracy-target or dyno.toml"),
            ("DYNO_RUN_QPS", "use --qps or dyno.toml"),
            ("DYNO_MIN_QUERY_COUNT", "use DYNO_SETTINGS_MIN_QUERY_COUNT to set it"),
            ("DYNO_RUN_MIN_QUERY_COUNT", "use DYNO_SETTINGS_MIN_QUERY_COUNT to set it"),
        ] {
            let found = problem(name).unwrap_or_default();
            assert!(found.contains(expected), "{name}: {found}");
        }
        for name in [
            "DYNO_CACHE",
            "DYNO_WORKER_TOKEN",
            "DYNO_API_SECRET",
            "DYNO_RUN_ID",
            "dyno_out",
            "dyno_settings_file",
            "REQUIRE",
            "DYNO",
        ] {
            assert_eq!(problem(name), None, "{name}");
        }
    }
}
