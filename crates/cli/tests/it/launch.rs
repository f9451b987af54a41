//! `dyno launch`: the processes that it starts, and the files that it writes for engines elsewhere.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Folder, ProgramResult};

const SERVER: &str = "run --system null --scenario server --mode performance --duration 300ms \
                      --qps 400 --set max_client_lag_ns=0 --set early_stopping=never \
                      --set server_target_latency_ns=60000000000 --no-progress";

/// Whether so many workers shared the load, and nothing is missing.
fn is_shared_by(folder: &Folder, workers: u32) -> bool {
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let remarks = summary["remarks"].to_string();
    println!("{remarks}");
    remarks.contains(&format!("{workers} workers shared the load"))
        && summary["tests"][0]["metrics"]["missing"] == 0
}

#[test]
fn workers_of_this_machine_share_a_run() {
    let folder = Folder::new();
    folder.dyno(&format!("launch --on local --workers 3 -- {SERVER} --out out")).exits(0);
    assert!(is_shared_by(&folder, 3));
}

#[test]
fn points_of_a_sweep_are_jobs_whose_results_are_those_of_a_sweep() {
    let folder = Folder::new();
    let sweep = "sweep --system model:exponential=2ms --scenario server --mode performance \
                 --qps 100 --duration 10s --over seed=1,2,3 --no-progress";
    let alone = folder.dyno(&format!("{sweep} --out alone"));
    folder
        .dyno(&format!("launch --on local --workers 2 -- {sweep} --out jobs"))
        .exits(alone.code.unwrap());
    let of = |out: &str| -> Value {
        serde_json::from_str(&folder.read(&format!("{out}/sweep.json"))).unwrap()
    };
    let (alone, jobs) = (of("alone"), of("jobs"));
    assert_eq!(jobs["state"], "complete");
    let results = |sweep: &Value| -> Vec<Value> {
        sweep["points"].as_array().unwrap().iter().map(|point| point["results"].clone()).collect()
    };
    assert_eq!(results(&jobs).len(), 3);
    assert_eq!(results(&jobs), results(&alone));
}

/// Then a worker failed before it joined, which `dyno launch` reports.
#[test]
fn a_command_that_launch_ends_while_it_waits_for_workers_prints_no_interruption() {
    let folder = Folder::new();
    let mut command = folder.command(
        "run --system null --scenario offline --remote-workers 1 --listen 127.0.0.1:0 --no-progress",
    );
    command.env("DYNO_END_WITH_STDIN", "1").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("waiting for 1 worker at ")));
    drop(child.stdin.take());
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Each run of a comparison waits for the workers anew.
#[test]
fn workers_join_each_run_of_a_comparison() {
    let folder = Folder::new();
    let config = "version = 1\n[run]\nsystem = \"null\"\nscenario = [\"server\"]\nprofile = \"llm\"\n\
                  mode = \"performance\"\nqps = 50\nduration = \"200ms\"\n";
    folder.write("a.toml", config);
    folder.write("b.toml", config);
    let compare = "compare --interleave 2 a.toml b.toml --slices 1";
    let ran = folder.dyno(&format!("launch --on local --workers 1 -- {compare} --out out"));
    // The load of the machine may make a side INVALID.
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    assert!(ran.stderr.contains("each run waits for 1 worker"), "{}", ran.stderr);
    assert!(ran.stderr.contains("run 4 of 4"), "{}", ran.stderr);

    let script = |command: &str| {
        folder.dyno(&format!("launch --on slurm --workers 2 -- {command}")).exits(0).stdout
    };
    assert!(script("sweep --over qps=1,2").contains("--allow all --stay\n"));
    assert!(script("run --qps 1").contains("--allow all\n"), "it has one run");
    let pods = "launch --on k8s --image dyno:1 -- sweep --over qps=1,2";
    assert!(folder.dyno(pods).exits(0).stdout.contains("--allow all --stay\\n"));
}

#[test]
fn points_elsewhere_have_the_order_and_the_output_of_the_command() {
    let folder = Folder::new();
    let sweep = "sweep --system model:exponential=2ms --scenario server --mode performance \
                 --qps 100 --duration 10s --over seed=1,2,3,4,5,6";
    let launch = "launch --on local --workers 1 --";
    let random = format!("{sweep} --order random --quiet");
    let handed = folder.dyno(&format!("{random} --hand-out --out handed")).exits(0).json();
    let jobs = folder.dyno(&format!("{launch} {random} --json --out jobs"));
    assert_eq!(jobs.stderr, "", "--quiet");
    assert_eq!(jobs.json()["state"], "complete", "--json");
    folder.dyno(&format!("{random} --limit 2 --out alone"));
    let alone: Value = serde_json::from_str(&folder.read("alone/sweep.json")).unwrap();
    let played = |name: &Value| {
        let points = alone["points"].as_array().unwrap();
        points.iter().any(|point| &point["name"] == name && point["state"] != "pending")
    };
    let names: Vec<bool> = (0..6).map(|at| played(&handed["points"][at]["name"])).collect();
    assert_eq!(names, [true, true, false, false, false, false]);

    let plan = folder.dyno(&format!("{launch} {sweep} --dry-run --out none")).exits(0);
    assert!(plan.stdout.contains("6 points to run"), "{}", plan.stdout);
    for flag in ["--limit 1", "--max-time 1s", "--pause 1s", "--until-saturated"] {
        let load = "sweep --system model:exponential=2ms --scenario server --over qps=1,2";
        let ran = folder.dyno(&format!("{launch} {load} {flag} --out none")).exits(2);
        assert!(
            ran.stderr.contains("has no effect on points that run elsewhere"),
            "{}",
            ran.stderr
        );
    }
    let ran = folder.dyno(&format!("{launch} sweep --resume jobs")).exits(2);
    assert!(ran.stderr.contains("does not support --resume"), "{}", ran.stderr);
    assert!(!folder.0.join("none").exists());
}

/// `srun` and `scontrol`, as far as the script needs them: tasks are processes here.
const SRUN: &str = r#"#!/bin/bash
shift
for ((task = 0; task < SLURM_NTASKS; task++)); do SLURM_PROCID=$task "$@" & pids+=($!); done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
"#;
const SCONTROL: &str = "#!/bin/sh\necho localhost\necho other\n";

#[cfg(unix)]
#[test]
fn the_script_for_slurm_runs_under_bash() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = env!("CARGO_BIN_EXE_dyno");
    let script = folder
        .dyno(&format!(
            "launch --on slurm --workers 2 --port {port} --program {program} --name it -- \
             {SERVER} --out out"
        ))
        .exits(0)
        .stdout;
    let lines: Vec<&str> = script.lines().collect();
    assert_eq!(lines[0], "#!/bin/bash");
    assert!(lines.contains(&"#SBATCH --ntasks=3"), "{script}");
    for (name, text) in [("job.sh", &script[..]), ("bin/srun", SRUN), ("bin/scontrol", SCONTROL)] {
        folder.write(name, text);
        let path = folder.0.join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let ran = Command::new("bash")
        .arg("job.sh")
        .current_dir(&folder.0)
        .env("PATH", format!("{}:{path}", folder.0.join("bin").display()))
        .env("SLURM_NTASKS", "3")
        .env("SLURM_JOB_NODELIST", "some[1-3]")
        .env_remove("DYNO_WORKER_TOKEN")
        .output()
        .unwrap();
    ProgramResult::from(ran).exits(0);
    assert!(is_shared_by(&folder, 2));
}

/// The parts of Kubernetes' API that a manifest uses, with nothing besides them: a
/// misspelt field is an error there, too.
fn schema() -> Value {
    let object = |properties: Value| {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        json!({ "type": "object", "additionalProperties": false, "required": required,
                "properties": properties })
    };
    let name = json!({ "type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" });
    let port = json!({ "type": "integer", "minimum": 1, "maximum": 65535 });
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let metadata = object(json!({ "name": name, "labels": texts }));
    let service = object(json!({
        "apiVersion": { "const": "v1" },
        "kind": { "const": "Service" },
        "metadata": metadata,
        "spec": object(json!({
            "clusterIP": { "const": "None" },
            "publishNotReadyAddresses": { "type": "boolean" },
            "selector": texts,
            "ports": { "type": "array", "items": object(json!({ "name": name, "port": port })) },
        })),
    }));
    let reference = object(json!({ "name": name, "key": { "type": "string" } }));
    let from = object(json!({ "secretKeyRef": reference }));
    let container = object(json!({
        "name": name,
        "image": { "type": "string", "minLength": 1 },
        "command": { "type": "array", "items": { "type": "string" } },
        "env": { "type": "array",
                 "items": object(json!({ "name": { "type": "string" }, "valueFrom": from })) },
        "ports": { "type": "array", "items": object(json!({ "containerPort": port })) },
    }));
    let pod = object(json!({
        "metadata": object(json!({ "labels": texts })),
        "spec": object(json!({
            "subdomain": name,
            "restartPolicy": { "enum": ["Never", "OnFailure"] },
            "containers": { "type": "array", "minItems": 1, "items": container },
        })),
    }));
    let job = object(json!({
        "apiVersion": { "const": "batch/v1" },
        "kind": { "const": "Job" },
        "metadata": metadata,
        "spec": object(json!({
            "completionMode": { "enum": ["Indexed", "NonIndexed"] },
            "completions": { "type": "integer", "minimum": 1 },
            "parallelism": { "type": "integer", "minimum": 1 },
            "backoffLimit": { "type": "integer", "minimum": 0 },
            "template": pod,
        })),
    }));
    object(json!({
        "apiVersion": { "const": "v1" },
        "kind": { "const": "List" },
        "items": { "type": "array", "prefixItems": [service, job], "items": false },
    }))
}

#[test]
fn the_manifest_for_kubernetes_keeps_to_its_schema() {
    let folder = Folder::new();
    let mut command = folder.command("launch --on k8s --workers 4 --image dyno:1 --name it --");
    command.args(["run", "--system", "null", "--name", "it's a name"]);
    let manifest = ProgramResult::from(command.output().unwrap()).exits(0).json();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&manifest).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let job = &manifest["items"][1]["spec"];
    assert_eq!((&job["completions"], &job["parallelism"]), (&json!(5), &json!(5)));
    let script = job["template"]["spec"]["containers"][0]["command"][2].as_str().unwrap();
    assert!(
        script.contains(r"'it'\''s a name' --remote-workers 4 --listen 0.0.0.0:7700"),
        "{script}"
    );
    assert!(script.contains("--join it-0.it:7700 --seat \"$JOB_COMPLETION_INDEX\""), "{script}");
    // Pods find each other by the Service that selects them.
    let labels = &job["template"]["metadata"]["labels"];
    assert_eq!(&manifest["items"][0]["spec"]["selector"], labels);
    let mut damaged = manifest.clone();
    damaged["items"][1]["spec"]["completionmode"] = "Indexed".into();
    assert!(!validator.is_valid(&damaged), "the schema refuses what it does not know");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new();
    let says = |arguments: &str, words: &str| {
        let ran = folder.dyno(arguments).exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    };
    says("launch --on k8s -- run --system null", "--image");
    says("launch --on local -- info metrics", "does not support the command");
    says("launch --on local -- run --listen 0.0.0.0:1", "--listen");
    says("launch --on slurm --name A_B -- run", "lower-case");
    for (flags, engines) in [
        ("local --image i", "--image has no effect: it belongs to --on k8s"),
        ("local --program p", "--program has no effect: it belongs to --on ray, slurm and k8s"),
        ("ray --name n", "--name has no effect: it belongs to --on slurm and k8s"),
        ("slurm --host h", "--host has no effect: it belongs to --on ray"),
        ("local --address a", "--address has no effect"),
        ("local --python p", "--python has no effect"),
    ] {
        says(&format!("launch --on {flags} --dry-run -- run"), engines);
    }
    says("launch --on local --port 9 --dry-run -- sweep --over qps=1", "--port has no effect");
    says("launch --on ray --host h --dry-run -- sweep --over qps=1", "--host has no effect");
    let printed = folder.dyno("launch --on local --dry-run --workers 2 -- run").exits(0).stdout;
    assert_eq!(printed.lines().count(), 3, "{printed}");
    let plan =
        folder.dyno("launch --on local -- run --system null --scenario offline --dry-run").exits(0);
    assert!(!plan.stderr.contains("interrupted"), "no worker was started: {}", plan.stderr);
    let missing = folder.dyno("launch --on local -- run --config none.toml").exits(3).stderr;
    assert!(missing.contains("cannot read none.toml"), "{missing}");
    assert!(!missing.contains("interrupted"), "the user interrupted nothing: {missing}");
}
