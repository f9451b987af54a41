//! A C program is issued the queries that the reference issues.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Language, Link, build, folder, run};

/// `key=value` for each setting of a case. They have the names of the Python
/// module, of which two differ from those of C++.
fn settings(case: &Value) -> Vec<String> {
    let settings = case["settings"].as_object().unwrap().iter();
    let text = settings.map(|(name, value)| {
        let name = match name.as_str() {
            "ttft_latency" | "tpot_latency" => format!("server_{name}"),
            name => name.to_owned(),
        };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{name}={value}")
    });
    text.collect()
}

/// What `scenario.c --issued` writes for a case: each phase loads (its set may be
/// stated in part), issues and flushes.
fn check_issued(case: &Value, written: &str) {
    let name = &case["name"];
    let numbers = |line: &str, word: &str| -> Vec<u64> {
        let rest = line.strip_prefix(word).unwrap_or_else(|| panic!("{name}: {line}"));
        rest.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let list = |value: &Value| -> Vec<u64> { serde_json::from_value(value.clone()).unwrap() };
    let mut lines = written.lines();
    for phase in case["phases"].as_array().unwrap() {
        let loaded = numbers(lines.next().unwrap(), "load");
        let first = list(&phase["loaded_set_first"]);
        assert_eq!(loaded.len() as u64, phase["loaded_set_len"], "{name}: set length");
        assert_eq!(loaded[..first.len()], first, "{name}: load order");
        for query in phase["issued"].as_array().unwrap() {
            assert_eq!(numbers(lines.next().unwrap(), "issue"), list(query), "{name}");
        }
        assert_eq!(lines.next(), Some("flush"), "{name}");
    }
    assert_eq!(lines.next(), None, "{name}");
}

#[test]
fn golden_traces_are_issued_to_c() {
    let folder = folder("traces");
    let Some(program) = build("tests/c/scenario.c", Language::C, Link::Static) else { return };
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadgen/testdata/traces");
    let paths = fs::read_dir(goldens).unwrap().map(|entry| entry.unwrap().path());
    let mut cases = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|e| e == "json")) {
        let case: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let mut arguments = vec![
            format!("--total={}", case["qsl_total"]),
            format!("--performance={}", case["qsl_performance"]),
            "--issued=issued.txt".to_owned(),
        ];
        arguments.extend(settings(&case));
        if let Some(conf) = case.get("from_config") {
            let text = |key: &str| conf[key].as_str().unwrap();
            fs::write(folder.join("user.conf"), text("text")).unwrap();
            let (model, scenario) = (text("model"), text("scenario"));
            arguments.push(format!("--config=user.conf,{model},{scenario}"));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&program, &folder, &arguments);
        check_issued(&case, &fs::read_to_string(folder.join("issued.txt")).unwrap());
        cases += 1;
    }
    assert_eq!(cases, 21, "golden cases");
}
