//! The commands that are stopped: every kind that writes.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

/// A command that writes to the folder `out`.
#[derive(Debug)]
pub struct Job {
    /// Its name in outputs.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// Arguments that continue it; `None` if it begins anew.
    pub resume: Option<&'static [&'static str]>,
    /// The file below `out` that is its result; empty if `out` itself is that file.
    result: &'static str,
    /// Files that it reads, with their contents.
    files: &'static [(&'static str, &'static str)],
}

/// A queue in virtual time: the result is the same in each run.
const QUEUE: (&str, &str) = (
    "queue.toml",
    "version = 1\n[run]\nsystem = \"model:exponential=1ms\"\nscenario = [\"Server\"]\n\
     mode = \"performance\"\nqps = 300\nduration = \"60s\"\n",
);
const SLOWER: (&str, &str) = (
    "slower.toml",
    "version = 1\n[run]\nsystem = \"model:exponential=2ms\"\nscenario = [\"Server\"]\n\
     mode = \"performance\"\nqps = 300\nduration = \"60s\"\n",
);
/// A network of a few lines of awk, whose accuracy falls where an object has too few bits.
const NETWORK: (&str, &str) = (
    "net.awk",
    "BEGIN { need[\"a.weight\"] = 3; need[\"b.weight\"] = 5; need[\"a.input\"] = 4 }\n\
     /^#/ || $2 == \"FLOAT\" { next }\n\
     $3 < need[$1] { lost += 0.02 * (need[$1] - $3) }\n\
     END { printf \"accuracy = %.5f\\n\", 0.98 - lost }\n",
);
const DESCRIPTOR: (&str, &str) = (
    "toy.toml",
    "name = \"toy\"\nlayer_name = [\"a\", \"b\"]\nwgt_size = [500, 25_000]\n\
     act_size = [784, 2_880]\nwgt_max_abs = [0.9, 0.9]\nact_max_abs = [0.9, 3.9]\n\
     err_margin = 0.01\ncmd_smallset = \"awk -f net.awk {config}\"\n\
     cmd_fullset = \"awk -f net.awk {config}\"\nget_result_regex = 'accuracy = ([0-9.]+)'\n",
);

/// The jobs.
pub const JOBS: [Job; 6] = [
    Job {
        name: "run",
        arguments: &["run", "--config", "queue.toml", "--quiet", "--out", "out"],
        resume: None,
        result: "summary.json",
        files: &[QUEUE],
    },
    Job {
        name: "search",
        arguments: &[
            "search",
            "--config",
            "queue.toml",
            "--limit",
            "p99<=20ms",
            "--quiet",
            "--out",
            "out",
        ],
        resume: Some(&["search", "--resume", "out", "--quiet"]),
        result: "search.json",
        files: &[QUEUE],
    },
    Job {
        name: "sweep",
        arguments: &[
            "sweep",
            "--config",
            "queue.toml",
            "--over",
            "seed=1,2,3,4",
            "--quiet",
            "--out",
            "out",
        ],
        resume: Some(&["sweep", "--resume", "out", "--quiet"]),
        result: "sweep.json",
        files: &[QUEUE],
    },
    Job {
        name: "compare",
        arguments: &[
            "compare",
            "--interleave",
            "3",
            "queue.toml",
            "slower.toml",
            "--quiet",
            "--out",
            "out",
        ],
        resume: Some(&[
            "compare",
            "--interleave",
            "3",
            "queue.toml",
            "slower.toml",
            "--quiet",
            "--out",
            "out",
            "--resume",
        ]),
        result: "b-3/summary.json",
        files: &[QUEUE, SLOWER],
    },
    Job {
        name: "audit",
        arguments: &[
            "audit",
            "TEST04",
            "--quiet",
            "--",
            "--system",
            "cheat:honest",
            "--scenario",
            "single-stream",
            "--out",
            "out",
        ],
        resume: None,
        result: "audited/summary.json",
        files: &[],
    },
    Job {
        name: "tune run",
        arguments: &["tune", "run", "toy.toml", "--quiet", "--out", "out"],
        resume: Some(&["tune", "run", "toy.toml", "--quiet", "--out", "out", "--resume"]),
        result: "tune.json",
        files: &[NETWORK, DESCRIPTOR],
    },
];

/// Keys of times, of the machine, of the command and of what a resumed job recalled, which differ from run
/// to run.
const OF_THE_RUN: [&str; 10] = [
    "started_at",
    "finished_at",
    "duration_ns",
    "took_ns",
    "command",
    "environment",
    "seconds",
    "recalled",
    "remarks",
    "working_directory",
];

impl Job {
    /// Makes a folder with the files of the job.
    pub fn folder(&self) -> io::Result<TempDir> {
        let folder = tempfile::tempdir()?;
        for (name, text) in self.files {
            fs::write(folder.path().join(name), text)?;
        }
        Ok(folder)
    }

    /// Returns the result without what differs from run to run; `None` if there is none.
    pub fn result(&self, root: &Path) -> Option<Value> {
        let text = fs::read_to_string(root.join("out").join(self.result)).ok()?;
        let mut result = serde_json::from_str(&text).ok()?;
        strip(&mut result);
        Some(result)
    }

    /// Whether the job left any file with content.
    pub fn is_resumable(&self, root: &Path) -> bool {
        let entries = fs::read_dir(root.join("out")).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .any(|data| data.is_file() && data.len() > 0)
    }

    /// Whether a file was neither there before, nor is a result. What a killed run leaves is for `dyno report`.
    pub fn is_foreign(&self, name: &str) -> bool {
        let is_known = self.files.iter().any(|(known, _)| *known == name);
        !is_known && name != "out" && name != "kept" && !name.starts_with(".out.killed-")
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !OF_THE_RUN.contains(&name.as_str()));
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
