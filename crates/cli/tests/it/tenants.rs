//! Several tenants on one simulated system, byte for byte the same every time.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::program::Folder;

const CONFIG: &str = r#"
version = 1

[run]
system = "model:exponential=2ms,servers=2,seed=3"
scenario = "Server"
mode = "performance"
duration = "2s"

[settings]
server_target_latency_ns = "40ms"
server_target_latency_percentile = 0.9
min_query_count = 100

[[tenants]]
name = "interactive"
[tenants.settings]
server_target_qps = 300

[[tenants]]
name = "batch jobs"
[tenants.settings]
server_target_qps = 200
schedule_rng_seed = 12
server_arrivals = "burst:8"
"#;

/// Every file below a folder, with its bytes.
fn files(folder: &Path, root: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, root, found);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn tenants_have_logs_and_verdicts_of_their_own_and_repeat() {
    let folder = Folder::new();
    folder.write("dyno.toml", CONFIG);
    let [first, second] = ["first", "second"].map(|out| {
        folder.dyno(&format!("run --config dyno.toml --name twice --out {out}")).exits(0);
        let mut found = BTreeMap::new();
        let root = folder.0.join(out);
        files(&root, &root, &mut found);
        found
    });
    let names: Vec<&String> = first.keys().collect();
    assert_eq!(names, second.keys().collect::<Vec<_>>());
    for name in [
        "Server/performance/interactive/mlperf_log_summary.txt",
        "Server/performance/batch-jobs/mlperf_log_detail.txt",
    ] {
        assert!(first.contains_key(name), "{name} in {names:?}");
    }
    for (name, bytes) in &first {
        assert!(bytes == &second[name], "{name} differs from run to run");
    }
    let summary: Value = serde_json::from_slice(&first["summary.json"]).unwrap();
    let tests = summary["tests"].as_array().unwrap();
    let tenants: Vec<_> = tests.iter().map(|test| test["tenant"].as_str().unwrap()).collect();
    assert_eq!(tenants, ["interactive", "batch jobs"]);
    // About rate times duration; the schedules are the tenants' own.
    let queries = |test: &Value| test["metrics"]["query_count"].as_u64().unwrap();
    assert!((500..700).contains(&queries(&tests[0])), "{}", queries(&tests[0]));
    assert!((300..500).contains(&queries(&tests[1])), "{}", queries(&tests[1]));
}

#[test]
fn tenants_whose_names_are_alike_keep_their_results_apart() {
    let folder = Folder::new();
    let config = CONFIG.replace("interactive", "a b").replace("batch jobs", "a-b");
    folder.write("dyno.toml", &config);
    folder.dyno("run --config dyno.toml --out out").exits(0);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let folders = [0, 1].map(|at| summary["tests"][at]["folder"].as_str().unwrap().to_string());
    assert_eq!(folders, ["Server/performance/a-b-1", "Server/performance/a-b"]);
    for (folder_of, qps) in folders.iter().zip(["300", "200"]) {
        let log = folder.read(&format!("out/{folder_of}/mlperf_log_detail.txt"));
        let key = "\"key\": \"requested_server_target_qps\", \"value\": ";
        assert!(log.contains(&format!("{key}{qps}")), "{folder_of} is of {qps} queries/s");
    }
}

#[test]
fn only_the_first_tenant_is_told_to_begin_lower() {
    let folder = Folder::new();
    let config = CONFIG
        .replace("min_query_count = 100", "min_query_count = 100\nrepetition = \"confirm:3\"")
        .replace("burst:8", "constant")
        .replace("_qps = 300", "_qps = 300\nserver_target_latency_ns = \"1us\"");
    folder.write("dyno.toml", &config);
    let ran = folder.dyno("run --config dyno.toml --json").exits(1).json();
    let last = |tenant: usize| {
        let reasons = ran["tests"][tenant]["reasons"].as_array().unwrap();
        reasons.last().unwrap().as_str().unwrap()
    };
    assert!(last(0).contains("from 300.0 down to 270.0. Begin with a lower one"), "{}", last(0));
    assert_eq!(
        last(1),
        "Only the load of tenant interactive was lowered, 10 times, and not every run passed."
    );
}

/// Seeds of each tenant in a run of two: of the choice of samples, and of the arrivals.
struct TenantSeeds {
    samples: Vec<u64>,
    arrivals: Vec<u64>,
    /// Notes of the first tenant.
    notes: String,
}

fn both_seeds(folder: &Folder, of: [&str; 2], flags: &str) -> TenantSeeds {
    let tenant = |name: &str, seed: &str| {
        format!(
            "[[tenants]]\nname = \"{name}\"\n[tenants.settings]\nserver_target_qps = 200\n{seed}\n"
        )
    };
    let run = "version = 1\n[run]\nsystem = \"model:fixed=2ms\"\nscenario = \"Server\"\n\
               mode = \"performance\"\nduration = \"2s\"\n";
    folder.write("two.toml", &format!("{run}{}{}", tenant("a", of[0]), tenant("b", of[1])));
    let ran = folder.dyno(&format!("run --config two.toml --json {flags}")).json();
    let tests = ran["tests"].as_array().unwrap();
    let seeds =
        |at: usize| tests.iter().map(|test| test["plan"]["seeds"][at].as_u64().unwrap()).collect();
    TenantSeeds { samples: seeds(1), arrivals: seeds(2), notes: tests[0]["notes"].to_string() }
}

/// The seeds of the arrivals, and the notes of the first tenant.
fn seeds(folder: &Folder, of: [&str; 2], flags: &str) -> (Vec<u64>, String) {
    let TenantSeeds { arrivals, notes, .. } = both_seeds(folder, of, flags);
    (arrivals, notes)
}

#[test]
fn tenants_do_not_draw_the_same_samples() {
    let folder = Folder::new();
    let samples = |of, flags| both_seeds(&folder, of, flags).samples;
    let alone = "run --system model:fixed=2ms --scenario Server --mode performance --duration 2s \
                 --qps 200 --json";
    for flags in ["", "--seed 7"] {
        let found = samples([""; 2], flags);
        assert_ne!(found[0], found[1], "{flags}");
        let alone = folder.dyno(&format!("{alone} {flags}")).json();
        assert_eq!(alone["tests"][0]["plan"]["seeds"][1], found[0], "the first one is as before");
    }
    let given = samples(["sample_index_rng_seed = 5"; 2], "");
    assert_eq!(given, [5, 5], "a seed that is given applies as it is");
}

#[test]
fn tenants_do_not_arrive_together() {
    let folder = Folder::new();
    let [own, none] = [["schedule_rng_seed = 11", "schedule_rng_seed = 22"], [""; 2]];
    let (kept, notes) = seeds(&folder, own, "");
    assert_eq!((kept, notes.contains("schedule_rng_seed")), (vec![11, 22], false), "{notes}");
    let mut seconds = std::collections::BTreeSet::new();
    for (of, flags) in [(none, ""), (none, "--seed 7"), (own, "--seed 7"), (own, "--seed 8")] {
        let (found, notes) = seeds(&folder, of, flags);
        assert_ne!(found[0], found[1], "{flags}");
        assert!(!notes.contains("the same schedule_rng_seed"), "{notes}");
        seconds.insert(found[1]);
    }
    assert_eq!(seconds.len(), 4, "both seeds count: {seconds:?}");
    // The first tenant has the arrivals of a run without tenants.
    assert_eq!(seeds(&folder, own, "--seed 7").0[0], 7);
    for (of, flags) in [(["schedule_rng_seed = 5"; 2], ""), (own, "--set schedule_rng_seed=5")] {
        let (found, notes) = seeds(&folder, of, flags);
        assert_eq!(found, [5, 5]);
        assert!(notes.contains("Tenants a and b have the same schedule_rng_seed"), "{notes}");
    }
}
