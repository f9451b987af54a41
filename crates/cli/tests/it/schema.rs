//! Files of runs conform to the published schemas.

use serde_json::Value;

use crate::program::{Folder, ProgramResult};

pub fn schema(name: &str) -> jsonschema::Validator {
    let path = format!("{}/../../docs/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::draft202012::meta::validate(&schema).expect("it is a schema");
    jsonschema::draft202012::new(&schema).unwrap()
}

/// Asserts that both files of a run are as published, and returns the summary.
#[track_caller]
pub fn keeps_to_schemas(folder: &Folder, out: &str) -> Value {
    keeps_to(folder, out, "series");
    keeps_to(folder, out, "summary")
}

#[track_caller]
pub fn keeps_to(folder: &Folder, out: &str, name: &str) -> Value {
    let text = folder.read(&format!("{out}/{name}.json"));
    let value: Value = serde_json::from_str(&text).unwrap();
    let errors: Vec<String> = schema(name)
        .iter_errors(&value)
        .map(|error| format!("{} {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{out}/{name}.json: {errors:#?}");
    value
}

/// Whether a figure is valid depends on the machine.
#[track_caller]
fn run(folder: &Folder, arguments: &str) -> ProgramResult {
    let ran = folder.dyno(&format!("run --quiet --no-progress --out out {arguments}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{:?}\n{}", ran.code, ran.stderr);
    ran
}

const SHORT: &str =
    "--duration 20ms --set min_query_count=5 --settings.MultiStream.min_query_count 5";

#[test]
fn every_scenario_and_mode_keeps_to_the_schemas() {
    let folder = Folder::new();
    run(&folder, &format!("{SHORT} --mode both --qps 400"));
    let summary = keeps_to_schemas(&folder, "out");
    let tests = summary["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 8, "four scenarios, two modes");
    assert_eq!(summary["started_at"].as_str().unwrap().len(), "2026-11-21T04:14:21Z".len());
    assert!(summary["duration_ns"].as_u64().unwrap() > 0);
    let mut other = summary.clone();
    other["a key of tomorrow"] = 1.into();
    other["tests"][0]["another"] = 2.into();
    assert!(schema("summary").is_valid(&other), "keys may be added");
    other["tests"][0].as_object_mut().unwrap().shift_remove("verdict");
    assert!(!schema("summary").is_valid(&other), "keys never go away");
}

#[test]
fn runs_in_virtual_time_and_of_tenants_keep_to_the_schemas() {
    let folder = Folder::new();
    folder.write(
        "dyno.toml",
        "version = 1\n[run]\nsystem = \"model:exponential=2ms,servers=2,seed=3\"\n\
         scenario = \"Server\"\nmode = \"performance\"\nduration = \"2s\"\n\
         [settings]\nserver_target_latency_ns = \"4ms\"\nmin_query_count = 100\n\
         [[tenants]]\nname = \"a\"\n[tenants.settings]\nserver_target_qps = 300\n\
         [[tenants]]\nname = \"b\"\n[tenants.settings]\nserver_target_qps = 200\n",
    );
    run(&folder, "--config dyno.toml");
    let summary = keeps_to_schemas(&folder, "out");
    assert_eq!((&summary["started_at"], &summary["duration_ns"]), (&"".into(), &0.into()));
    // Many exponential times are over twice their mean, which goodput shows.
    for test in summary["tests"].as_array().unwrap() {
        let metrics = &test["metrics"];
        let of = |key: &str| metrics["rates"][key].as_f64().unwrap();
        let answered = metrics["sample_count"].as_f64().unwrap();
        let over = metrics["over_bound"]["latency"].as_f64().unwrap();
        assert!(over > 0.0, "{metrics}");
        let completed = of("completed_samples_per_s");
        let expected = completed * (answered - over) / answered;
        let goodput = of("goodput_samples_per_s");
        assert!((goodput - expected).abs() < 1e-6 * expected, "{goodput}, {expected}");
        assert_eq!(metrics["error_rate"], 0.0);
    }
}

#[test]
fn runs_with_tokens_and_failures_keep_to_the_schemas() {
    let folder = Folder::new();
    let run = "run --quiet --system model:exponential=2ms,tokens=4-9,per-token=100us,failed=0.05 \
               --mode performance --qps 200 --duration 1s --set use_token_latencies=true \
               --set min_query_count=50 --set offline_expected_qps=300 --out out";
    folder.dyno(run).exits(1);
    let summary = keeps_to_schemas(&folder, "out");
    let tests = summary["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 4, "{summary}");
    for test in tests {
        let metrics = &test["metrics"];
        assert!(metrics["first_token_ns"]["p99"].as_i64() > Some(0), "{metrics}");
        assert!(metrics["error_rate"].as_f64() > Some(0.0), "{metrics}");
    }
}

#[test]
fn runs_that_were_ended_keep_to_the_schemas() {
    let folder = Folder::new();
    let aborted = "run --quiet --system model:exponential=100h --scenario server --deadline 1s \
                   --mode performance --qps 50 --duration 100ms --set min_query_count=5";
    folder.dyno(&format!("{aborted} --out aborted")).exits(4);
    let summary = keeps_to_schemas(&folder, "aborted");
    assert_eq!(summary["verdict"], "ABORTED");
    // Without answers the counts are 0.
    let metrics = &summary["tests"][0]["metrics"];
    assert_eq!((&metrics["sample_count"], &metrics["error_rate"]), (&0.into(), &1.0.into()));
}

#[test]
fn a_sweep_keeps_to_its_schema() {
    let folder = Folder::new();
    let sweep = "sweep --system model:fixed=1ms,servers=4 --scenario server --mode performance \
                 --duration 100ms --set min_query_count=5 --over qps=50,100 --out swept";
    let ran = folder.dyno(sweep);
    assert!(matches!(ran.code, Some(0 | 1)), "{:?}\n{}", ran.code, ran.stderr);
    let sweep = keeps_to(&folder, "swept", "sweep");
    assert_eq!(sweep["points"].as_array().unwrap().len(), 2, "{sweep}");
}

#[test]
fn a_search_keeps_to_its_schema() {
    let folder = Folder::new();
    let search = "search --system model:exponential=2ms --limit p99<=50ms --limit errors<=1% \
                  --from 100 --tolerance 5% --out found";
    folder.dyno(search).exits(0);
    let found = keeps_to(&folder, "found", "search");
    assert_eq!(found["state"], "confirmed", "{found}");
}

#[test]
fn a_comparison_keeps_to_its_schema() {
    let folder = Folder::new();
    for (out, failed, seed) in [("a", "", 1), ("b", ",failed=0.1", 1), ("c", "", 3)] {
        let run = format!(
            "run --quiet --system model:exponential=2ms,servers=4{failed} --scenario server \
             --mode performance --qps 200 --duration 10s --seed {seed} --out {out}"
        );
        assert!(matches!(folder.dyno(&run).code, Some(0 | 1)));
    }
    for arguments in ["a b", "--baseline a b --candidate c", "a c --metric p99.99,p50"] {
        let ran = folder.dyno(&format!("compare {arguments} --json"));
        let compared = ran.json();
        let errors: Vec<String> =
            schema("compare").iter_errors(&compared).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{arguments}: {errors:#?}");
        let test = &compared["tests"][0];
        let rows = |key: &str| test[key].as_array().unwrap().len();
        assert!(rows("metrics") + rows("omitted") >= 2, "{arguments}: {compared}");
    }
}

#[test]
fn info_prints_the_published_schemas() {
    let folder = Folder::new();
    for name in ["summary", "series", "search", "sweep", "compare"] {
        let printed = folder.dyno(&format!("info schema {name}")).exits(0).json();
        assert_eq!(printed["$id"], format!("urn:dyno:{name}:1"));
    }
    let listed = folder.dyno("info schema").exits(0).stdout;
    assert!(listed.contains("series.json: data of the plots of a run"), "{listed}");
    let ran = folder.dyno("info metrics summary").exits(2);
    assert!(ran.stderr.contains("hint: use dyno info schema summary"), "{}", ran.stderr);
}
