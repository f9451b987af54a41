//! `dyno launch -- tune run`: trials as jobs have the results of trials in one process.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::Folder;
use crate::tune::{self, NETWORK, changed, folder};
use crate::{tuned, tuned_graph};

/// The journal of a job without the durations of its trials.
fn journal(folder: &Folder, out: &str) -> Vec<Value> {
    let text = folder.read(&format!("{out}/journal.jsonl"));
    assert!(text.ends_with('\n'), "its last line is whole");
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(result) = line["result"].as_object_mut() {
            result.remove("seconds");
        }
        line
    };
    text.lines().map(line).collect()
}

/// Whether jobs and one process had equal results in the folder.
fn is_same(folder: &Folder, descriptor: &str, launch: &str, more: &str) -> bool {
    let alone = folder.dyno(&format!("tune run {descriptor} --out alone --json {more}"));
    let code = alone.code.unwrap();
    assert!(code < 2, "{}", alone.stderr);
    let jobs = folder
        .dyno(&format!("launch {launch} -- tune run {descriptor} --out jobs --json {more}"))
        .exits(code);
    println!("{}", jobs.stderr);
    let conf = ["alone", "jobs"].map(|out| folder.read(&format!("{out}/opt_conf.txt")));
    // One process goes on with what jobs left, and finds all of it.
    let rest = folder.dyno(&format!("tune run {descriptor} --out jobs --resume --json {more}"));
    let (mut alone, mut rest) = (alone.json(), rest.exits(code).json());
    assert!(rest["recalled"].as_u64().unwrap() > 10 && alone["recalled"] == 0, "{rest}");
    let mut jobs = jobs.json();
    for told in [&mut alone, &mut jobs, &mut rest] {
        told.as_object_mut().unwrap().remove("recalled");
    }
    alone == jobs
        && jobs == rest
        && conf[0] == conf[1]
        && journal(folder, "alone") == journal(folder, "jobs")
}

#[test]
fn trials_as_jobs_find_what_one_process_finds() {
    assert!(is_same(&folder(), "net/toy.toml", "--on local --workers 3", ""));
    // With the engine inside.
    let words = tuned_graph::folder();
    assert!(is_same(&words, "words.toml", "--on local --workers 2", ""));
}

/// Jobs know the sets, and which samples are in them.
#[test]
fn trials_of_closed_mode_as_jobs_see_the_same_samples() {
    let listed = tune::closed_folder();
    // At its end the program has read the list of its samples, of 10, 30 or 100 lines.
    listed.write("net/net.awk", &NETWORK.replace("0.98 - lost;", "0.98 - lost - FNR / 10000;"));
    let closed = "--closed v0.7 --target 99 --seed 3";
    assert!(is_same(&listed, "net/toy.toml", "--on local --workers 2", closed));
    let small = listed.read("jobs/journal.jsonl").contains("\"accuracy\":0.979,");
    assert!(small, "FLOAT 32 by the list of the small set");
    let arrays = tuned::closed_folder();
    let closed = "--closed current --small-share 0.4";
    assert!(is_same(&arrays, "net.toml", "--on local --workers 2", closed));
}

/// Replaces Ray's driver: reads trials, prints unrelated lines, and answers in any order.
const DRIVER: &str = r#"#!/bin/bash
read -r task
echo "2 nodes"
answer() {
    out=$("$DYNO" tune trial net/toy.toml <<< "$1" | sed 's/"/\\"/g')
    number=$(sed 's/.*"number":\([0-9]*\).*/\1/' <<< "$1")
    printf '{"number": %s, "code": 0, "stdout": "%s", "node": "a"}\n' "$number" "$out"
}
while read -r line; do answer "$line" & done
wait
"#;

#[cfg(unix)]
fn with_driver(folder: &Folder, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    folder.write("python", &text.replace("$DYNO", env!("CARGO_BIN_EXE_dyno")));
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.0.join("python"), mode).unwrap();
}

#[cfg(unix)]
#[test]
fn a_driver_hands_trials_to_whom_it_likes() {
    let folder = folder();
    with_driver(&folder, DRIVER);
    assert!(is_same(&folder, "net/toy.toml", "--on ray --python ./python --workers 3", ""));
}

#[cfg(unix)]
#[test]
fn a_driver_that_ends_ends_the_search() {
    let folder = folder();
    let launch = "launch --on ray --python ./python -- tune run net/toy.toml --out out";
    with_driver(&folder, "#!/bin/sh\necho 'No module named ray' >&2\nexit 1\n");
    let ran = folder.dyno(launch).exits(4);
    assert!(ran.stderr.contains("No module named ray"), "{}", ran.stderr);
    let why = "trial 1: the driver for Ray ended before this trial did";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    // A lost job is reported with its reason, and earlier evaluations are kept.
    let lost = "{ [ -e lost ] || ! grep -q EXP <<< \"$line\"; } || { touch lost; printf '{\"number\": \
                %s, \"died\": \"node lost\"}\\n' $(sed 's/.*\"number\":\\([0-9]*\\).*/\\1/' <<< \
                \"$line\"); continue; }; answer";
    with_driver(&folder, &DRIVER.replace("do answer", &format!("do {lost}")));
    let ran = folder.dyno(&format!("{launch} --resume")).exits(4);
    assert!(ran.stderr.contains("its job died (node lost)"), "{}", ran.stderr);
    assert!(journal(&folder, "out").len() > 5, "{}", ran.stderr);
    let rest = folder.dyno(&format!("{launch} --resume --json")).exits(0).json();
    let alone = folder.dyno("tune run net/toy.toml --out alone --json").exits(0).json();
    assert_eq!(rest["answer"], alone["answer"]);
    assert_eq!(rest["steps"], alone["steps"]);
}

/// With another command for the small set.
fn asking(command: &str) -> Folder {
    let line = format!("cmd_smallset = \"{command}\"");
    changed(&[("cmd_smallset = \"awk -f net.awk {config}\"", &line)])
}

const LAUNCH: &str = "launch --on local --workers 2 -- tune run net/toy.toml --out out";

#[test]
fn a_job_that_fails_is_a_trial_that_failed() {
    let folder = asking(": {config}; echo no room >&2; exit 3");
    let ran = folder.dyno(LAUNCH).exits(4);
    assert!(ran.stderr.contains("error: trial 1: `: '"), "{}", ran.stderr);
    assert!(ran.stderr.contains("failed (exit status: 3)"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("\n  no room\nhint: fix the cause, then use --resume"),
        "{}",
        ran.stderr
    );
    let folder = asking("grep -q 'FIXED 2' {config} && exit 9; awk -f net.awk {config}");
    folder.dyno(LAUNCH).exits(4);
    folder.dyno(&format!("{LAUNCH} --resume --keep-going")).exits(0);
    assert!(folder.read("out/journal.jsonl").contains("exit status: 9"));
}

/// The parent of the program is the job.
#[cfg(unix)]
#[test]
fn a_job_that_dies_is_a_trial_that_failed() {
    let folder = asking("kill -KILL $PPID; echo {config}");
    let ran = folder.dyno(LAUNCH).exits(4);
    assert!(ran.stderr.contains("trial 1: its job died (signal: 9"), "{}", ran.stderr);
    let folder = asking("grep -q 'FIXED 2' {config} && kill -KILL $PPID; awk -f net.awk {config}");
    folder.dyno(LAUNCH).exits(4);
    assert!(folder.read("out/opt_conf.txt").contains("FIXED 4"), "the best so far");
    folder.dyno(&format!("{LAUNCH} --resume --keep-going")).exits(0);
    assert!(folder.read("out/journal.jsonl").contains("its job died (signal: 9"));
}

#[test]
fn a_job_that_cannot_begin_is_explained() {
    let words = tuned_graph::folder();
    let text = words.read("words.toml").replace("gru.R", "gru.V");
    words.write("other.toml", &text);
    let ran = words.dyno("launch --on local -- tune run other.toml").exits(4);
    assert!(ran.stderr.contains("trial 1: its job failed (exit code 2): "), "{}", ran.stderr);
    assert!(ran.stderr.contains("gru.V"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_jobs_and_leaves_the_journal_whole() {
    let script = "awk -f net.awk {config}; grep -q EXP {config} && { test -e go || { echo $$ > here; \
                  sleep 300; }; }; true";
    let folder = asking(script);
    tune::interrupt(&folder, LAUNCH);
    let program = folder.read("net/here");
    let left = Command::new("kill").args(["-0", program.trim()]).stderr(Stdio::null()).status();
    assert!(!left.unwrap().success(), "what a job ran is ended with it");
    assert!(journal(&folder, "out").len() > 5);
    folder.write("net/go", "");
    let rest = folder.dyno(&format!("{LAUNCH} --resume --json")).exits(0).json();
    let alone = folder.dyno("tune run net/toy.toml --out alone --json").exits(0).json();
    assert_eq!(rest["steps"], alone["steps"]);
}

#[test]
fn what_cannot_be_placed_is_refused() {
    let folder = folder();
    let fails = |arguments: &str, code: i32, words: &str| {
        let ran = folder.dyno(arguments).exits(code);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    };
    let says = |arguments: &str, words: &str| fails(arguments, 2, words);
    says("launch --on slurm -- tune run net/toy.toml", "hint: for one node, use sbatch");
    says("launch --on k8s --image i -- tune run net/toy.toml", "KubeRay");
    says("launch --on local -- tune run net/toy.toml --jobs 3", "use --workers");
    says("launch --on local -- tune plot net/toy.toml", "only `tune run` has trials");
    let latency = "--objective latency";
    let missing = "launch --on local -- tune run none.toml";
    fails(&format!("{missing} {latency}"), 3, "cannot read none.toml");
    let words = tuned_graph::folder();
    let ran = words.dyno(&format!("launch --on local -- tune run words.toml {latency}")).exits(2);
    assert!(ran.stderr.contains("in one process"), "{}", ran.stderr);
    fails(missing, 3, "cannot read none.toml");
    says("launch --on local -- tune run net/toy.toml --no-such", "--no-such");
    let printed = folder.dyno("launch --on local --dry-run -- tune run net/toy.toml").exits(0);
    let lines: Vec<&str> = printed.stdout.lines().collect();
    assert_eq!(lines[0], "dyno tune run net/toy.toml --jobs 2");
    assert!(lines[1].starts_with("dyno tune trial /") && lines[1].ends_with("net/toy.toml"));
}
