//! `dyno compare` of folders with interleaved runs: copies, missing pairs, changed code, and records of
//! other runs.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::Folder;

/// Writes a configuration of a Server run in virtual time.
fn config(folder: &Folder, name: &str, system: &str, further: &str) {
    let text = format!(
        "version = 1\n[run]\nsystem = \"model:{system}\"\nscenario = \"server\"\nqps = 500\n\
         duration = \"8s\"\n{further}"
    );
    folder.write(name, &text);
}

/// Plays five pairs whose sides differ by 1 %.
fn pairs(folder: &Folder) {
    config(folder, "a.toml", "lognormal=2ms,servers=4", "");
    config(folder, "b.toml", "lognormal=2.02ms,servers=4", "");
    let played = "compare --interleave 5 a.toml b.toml --out pairs --strict --quiet";
    folder.dyno(played).exits(0);
}

/// Replaces a folder by a copy of another one.
fn copy(folder: &Folder, from: &str, to: &str) {
    let [from, to] = [from, to].map(|name| folder.0.join(name));
    let _ = std::fs::remove_dir_all(&to);
    copy_all(&from, &to);
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn copies_in_a_folder_are_rejected() {
    for (from, to) in [("a-2", "b-2"), ("b-1", "b-2"), ("a-1", "a-4")] {
        let folder = Folder::new();
        pairs(&folder);
        copy(&folder, &format!("pairs/{from}"), &format!("pairs/{to}"));
        let ran = folder.dyno("compare pairs --strict").exits(2);
        let expected = format!("pairs/{from} and pairs/{to} are the same run");
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
    }
}

#[test]
fn missing_pairs_are_named_and_prevent_success() {
    let folder = Folder::new();
    pairs(&folder);
    let layout: Value = serde_json::from_str(&folder.read("pairs/interleave.json")).unwrap();
    assert_eq!(layout["pairs"], 5);
    let runs = |report: &Value| report["tests"][0]["runs"].clone();
    // A gap in the middle and the last pair.
    for missing in ["b-3", "a-5"] {
        let whole = folder.0.join("pairs").join(missing);
        let aside = folder.0.join("aside");
        std::fs::rename(&whole, &aside).unwrap();
        let report = folder.dyno("compare pairs --json").exits(0).json();
        assert_eq!(runs(&report), serde_json::json!([4, 4]), "{report}");
        assert_eq!(report["verdict"], "inconclusive", "{report}");
        let remarks = report["remarks"].to_string();
        assert!(remarks.contains(&format!("pairs/{missing}; --resume")), "{remarks}");
        folder.dyno("compare pairs --strict").exits(1);
        std::fs::rename(&aside, &whole).unwrap();
    }
    let summary = folder.read("pairs/b-2/summary.json");
    folder.write("pairs/b-2/summary.json", &summary.replace("\"complete\"", "\"interrupted\""));
    let report = folder.dyno("compare pairs --strict --json").exits(1).json();
    assert!(report["remarks"].to_string().contains("pairs/b-2; --resume"), "{report}");
    // What is worse stays worse.
    let worse = folder.dyno("compare pairs --margin 0.1% --json").exits(1).json();
    assert_eq!(worse["verdict"], "worse", "{worse}");
    let resumed = "compare --interleave 5 a.toml b.toml --out pairs --resume --strict --json";
    let report = folder.dyno(resumed).exits(0).json();
    assert_eq!(
        (runs(&report), &report["verdict"]),
        (serde_json::json!([5, 5]), &"equivalent".into())
    );
}

#[test]
fn plans_in_virtual_time_say_which_time_is_limited() {
    let folder = Folder::new();
    config(&folder, "a.toml", "lognormal=2ms,servers=4", "");
    let plan = folder.dyno("compare --until-decided 10s a.toml a.toml --dry-run").exits(0).stdout;
    assert!(plan.contains("in virtual time;"), "{plan}");
    assert!(plan.contains("no pair starts that would end after 10.0 s of real time"), "{plan}");
}

const RECORDS: &str = "Server/performance/records.bin";

#[test]
fn records_of_another_run_are_rejected() {
    let folder = Folder::new();
    for (out, system, seed) in [
        ("a", "lognormal=2ms", 1),
        ("slow", "lognormal=4ms", 2),
        ("fails", "lognormal=2ms,failed=0.1", 1),
    ] {
        config(&folder, "run.toml", &format!("{system},servers=4"), "");
        let run =
            format!("run --config run.toml --mode performance --seed {seed} --out {out} --quiet");
        let ran = folder.dyno(&run);
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    }
    folder.dyno("compare a slow").exits(1);
    for to in ["slow", "fails"] {
        let records = [format!("a/{RECORDS}"), format!("{to}/{RECORDS}")];
        let [from, to_file] = records.map(|name| folder.0.join(name));
        std::fs::copy(from, to_file).unwrap();
        let ran = folder.dyno(&format!("compare a {to} --strict")).exits(2);
        let expected = format!("{to}/{RECORDS} is of another run: it");
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
        assert!(ran.stderr.contains("but summary.json states"), "{}", ran.stderr);
    }
}

#[test]
fn changed_code_of_python_is_noticed_when_runs_are_resumed() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: python3 is missing");
        return;
    }
    let folder = Folder::new();
    folder.write(
        "m.py",
        "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\n\
         import helper\n\ndef f(samples):\n    return [helper.X for _ in samples]\n",
    );
    folder.write("helper.py", "X = 0\n");
    let text = "version = 1\n[run]\nsystem = \"py:m.py:f\"\nscenario = \"single-stream\"\n\
                duration = \"50ms\"\n";
    folder.write("a.toml", text);
    let played = "compare --interleave 2 a.toml a.toml --slices 1 --out pairs --quiet";
    let ran = folder.dyno(played);
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    std::fs::remove_dir_all(folder.0.join("pairs/b-2")).unwrap();
    let sweep = "sweep --system py:m.py:f --scenario server --qps 50 --mode performance --duration 100ms \
                 --set min_query_count=1 --over seed=1,2 --quiet --out sweep";
    let ran = folder.dyno(sweep);
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    for name in ["helper.py", "m.py"] {
        let before = folder.read(name);
        folder.write(name, &format!("{before}\n# changed\n"));
        for resumed in [&*format!("{played} --resume"), "sweep --resume sweep"] {
            let ran = folder.dyno(resumed).exits(2);
            let expected = format!("{name} has changed since");
            assert!(ran.stderr.contains(&expected), "{resumed}: {}", ran.stderr);
        }
        folder.write(name, &before);
    }
    let ran = folder.dyno(&format!("{played} --resume"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
}

#[test]
fn more_failures_in_every_pair_are_worse() {
    let folder = Folder::new();
    let llm = "profile = \"llm\"\nrequire = [\"errors<=50%\"]\n";
    config(&folder, "a.toml", "lognormal=2ms,servers=4", llm);
    config(&folder, "b.toml", "lognormal=2ms,servers=4,failed=0.3", llm);
    let played = "compare --interleave 2 a.toml b.toml --out pairs --json";
    let report = folder.dyno(played).exits(1).json();
    assert_eq!(report["verdict"], "worse", "{report}");
    let metrics = report["tests"][0]["metrics"].as_array().unwrap();
    let row = metrics.iter().find(|row| row["metric"] == "failures").unwrap();
    assert_eq!(row["finding"], "worse", "{row}");
    let [low, high] = ["low", "high"].map(|limit| row[limit].as_f64().unwrap());
    assert!(0.25 < low && low < 0.3 && 0.3 < high && high < 0.35, "{row}");
}
