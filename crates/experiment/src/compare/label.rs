//! Labels of the two sides: the shortest text that distinguishes them.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_results::summary;
use dyno_tensors::files;

use super::ComparedRun;

/// Options and settings that differ in every run, or do not describe the system.
const NOT_LABELS: [&str; 8] = [
    "seed",
    "out",
    "name",
    "system",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
];

/// Returns the options and settings that a run was given, by name.
pub fn given(path: &Path, run: &summary::Run) -> BTreeMap<String, String> {
    let text = files::read_to_string(path.join(dyno_results::effective::FILE)).unwrap_or_default();
    let rows = text.lines().skip_while(|line| *line != "[run]").skip(1);
    let rows = rows.take_while(|line| !line.starts_with('['));
    let rows = rows.filter_map(|row| row.split_once(" = "));
    let mut given: BTreeMap<String, String> =
        rows.map(|(key, value)| (key.to_string(), value.trim_matches('"').to_string())).collect();
    for test in &run.tests {
        for (key, setting) in &test.settings {
            given.insert(key.clone(), setting.value.clone());
        }
    }
    given.retain(|key, _| !NOT_LABELS.contains(&key.as_str()));
    given
}

/// Returns a label of each side. `configs` are the configuration files of interleaved runs.
pub fn of_sides(a: &ComparedRun, b: &ComparedRun, configs: Option<&[String; 2]>) -> [String; 2] {
    let systems = [&a.system, &b.system].map(String::as_str);
    if systems[0] != systems[1] {
        return of_systems(systems);
    }
    let different = |key: &&String| a.given.get(*key) != b.given.get(*key);
    if let Some(key) = a.given.keys().chain(b.given.keys()).find(different) {
        if let (Some(of_a), Some(of_b)) = (a.given.get(key), b.given.get(key))
            && of_a.contains('/')
            && of_b.contains('/')
        {
            return of_paths([of_a, of_b]);
        }
        let text = |side: &ComparedRun| match side.given.get(key) {
            Some(value) => format!("{key}={value}"),
            None => format!("default {key}"),
        };
        return [text(a), text(b)];
    }
    for [of_a, of_b] in [[&a.build, &b.build], [&a.machine, &b.machine]] {
        if of_a != of_b && !of_a.is_empty() && !of_b.is_empty() {
            return [of_a.clone(), of_b.clone()];
        }
    }
    let paths = configs.map_or([&a.label, &b.label], |[a, b]| [a, b]);
    of_paths(paths.map(String::as_str))
}

/// Returns the parts of two system specifications that differ: values between colons and commas.
fn of_systems(systems: [&str; 2]) -> [String; 2] {
    let [a, b] = systems.map(|system| system.split([':', ',']).collect::<Vec<_>>());
    let begin = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let most = a.len().min(b.len()) - begin;
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count().min(most);
    let rest = [&a[begin..a.len() - end], &b[begin..b.len() - end]];
    match rest {
        [[a], [b]] if !a.contains('=') && !b.contains('=') => of_paths([a, b]),
        [[], b] => [format!("without {}", b.join(",")), b.join(",")],
        [a, []] => [a.join(","), format!("without {}", a.join(","))],
        [a, b] => [a.join(","), b.join(",")],
    }
}

/// Returns the parts of two paths that differ.
fn of_paths(paths: [&str; 2]) -> [String; 2] {
    let [a, b] = paths.map(|path| path.split('/').collect::<Vec<_>>());
    let begin = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let most = a.len().min(b.len()) - begin;
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count().min(most);
    let label = |parts: &[&str], whole: &str| match parts {
        [] => whole.to_string(),
        parts => parts.join("/"),
    };
    [label(&a[begin..a.len() - end], paths[0]), label(&b[begin..b.len() - end], paths[1])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_labelled_by_the_part_that_differs() {
        let table = [
            (["onnx:conv.onnx", "onnx:conv_wide.onnx"], ["conv.onnx", "conv_wide.onnx"]),
            (["onnx:a/m.onnx", "onnx:b/m.onnx"], ["a", "b"]),
            (["onnx:m.onnx", "tract:m.onnx"], ["onnx", "tract"]),
            (
                ["model:lognormal=2ms,servers=4", "model:lognormal=3ms,servers=4"],
                ["lognormal=2ms", "lognormal=3ms"],
            ),
            (
                ["model:exponential=2ms", "model:exponential=2ms,failed=1"],
                ["without failed=1", "failed=1"],
            ),
            (["null", "model:exponential=2ms"], ["null", "model,exponential=2ms"]),
            (
                ["openai:http://h:8000/v1,model=a", "openai:http://h:8001/v1,model=a"],
                ["8000", "8001"],
            ),
            (
                ["openai:http://h:8000/v1,model=a", "openai:http://h:8000/v1,model=b"],
                ["model=a", "model=b"],
            ),
        ];
        for (systems, expected) in table {
            assert_eq!(of_systems(systems), expected, "{systems:?}");
        }
    }

    #[test]
    fn paths_are_labelled_by_the_part_that_differs() {
        assert_eq!(of_paths(["runs/x/before", "runs/x/after"]), ["before", "after"]);
        assert_eq!(of_paths(["before/dyno.toml", "after/dyno.toml"]), ["before", "after"]);
        assert_eq!(of_paths(["dyno.toml", "old/dyno.toml"]), ["dyno.toml", "old"]);
        assert_eq!(of_paths(["same", "same"]), ["same", "same"]);
    }
}
