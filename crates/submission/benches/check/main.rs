//! Measures the time and the memory of checking a submission tree with the size of a full round,
//! and the speed of truncating and hashing an accuracy log. Prints one JSON line per figure. Run
//! it as `bench/check [--quick] [PART OF A NAME ...]`.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../../tests/made/mod.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod made;
mod tree;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Command;

use dyno_loadgen::clock::Clock;
use dyno_rules::{OneFileChecker, Round};
use dyno_submission::check::{Options, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::package::truncate;

use crate::tree::Size;

const LOG: &str = "check.accuracy_log_gb_per_s";

/// Size of the accuracy log.
const LOG_BYTES: u64 = 1 << 30;
const LOG_BYTES_QUICK: u64 = 16 << 20;

/// Each measurement is a separate process, so that start-up and memory are included.
const ROUNDS: usize = 5;

/// Error for a tree that differs from what is expected.
const FINDINGS_SHOWN: usize = 5;

/// Trees of a full round: start of the names of their figures, size, size with `--quick`, and the
/// programs that judge them.
const TREES: [(&str, Size, Size, &[&str]); 2] = [
    ("check.tree", tree::FULL, tree::QUICK, &["strict", "mono", "modular"]),
    ("check.largest_tree", tree::LARGEST, tree::LARGEST_QUICK, &["strict", "v3.0"]),
];

/// First argument of such a process.
const CHECK: &str = "of-tree";
const CUT: &str = "of-log";

fn main() {
    // `cargo bench` adds its own flag.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [CHECK, round, program, results, tree] => {
            return of_tree(round, program, results.parse().unwrap(), Path::new(tree));
        }
        [CUT, log] => return of_log(Path::new(log)),
        _ => {}
    }
    let is_quick = args.iter().any(|arg| arg == "--quick");
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    let wants = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(*part));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check");
    fs::create_dir_all(&folder).unwrap();
    let rounds = if is_quick { 1 } else { ROUNDS };
    for (figure, full, quick, programs) in TREES {
        measure_tree(&folder, figure, if is_quick { quick } else { full }, programs, rounds, wants);
    }
    if wants(LOG) {
        let bytes = if is_quick { LOG_BYTES_QUICK } else { LOG_BYTES };
        let log = accuracy_log(&folder, bytes);
        let measured: Vec<_> =
            (0..rounds).map(|_| (measure(&[CUT], &log), sha256sum(&log))).collect();
        let rate = |seconds: f64| bytes as f64 / 1e9 / seconds;
        let ours = rate(median(measured.iter().map(|(ours, _)| ours.seconds)));
        let peers: Option<Vec<f64>> = measured.iter().map(|(_, peer)| *peer).collect();
        let peer = peers.map(|seconds| rate(median(seconds.into_iter())));
        let megabytes = median(measured.iter().map(|(ours, _)| ours.megabytes));
        let unit = format!(
            "GB/s of a log of {} MB, cut and hashed in {megabytes:.0} MB; the peer is sha256sum",
            bytes >> 20
        );
        print(LOG, ours, peer, peer.map(|peer| ours / peer), &unit);
    }
}

/// Prints the wanted figures of a tree.
fn measure_tree(
    folder: &Path,
    figure: &str,
    size: Size,
    programs: &[&str],
    rounds: usize,
    wants: impl Fn(&str) -> bool,
) {
    let [seconds, cpu, megabytes] =
        ["seconds", "cpu_seconds", "megabytes"].map(|unit| format!("{figure}_{unit}"));
    if ![&seconds, &cpu, &megabytes].into_iter().any(|name| wants(name)) {
        return;
    }
    let tree = tree::tree(folder, size);
    for program in programs {
        let results = size.results.to_string();
        let what = [CHECK, size.round, program, &results];
        let measured: Vec<_> = (0..rounds).map(|_| measure(&what, &tree)).collect();
        let of = format!("{} results, {} files; {program}", size.results, size.files);
        let show = |name: &str, value: fn(&Usage) -> f64, unit: &str| {
            if wants(name) {
                print(name, median(measured.iter().map(value)), None, None, unit);
            }
        };
        show(&seconds, |usage| usage.seconds, &format!("s for {of}; a process"));
        show(&cpu, |usage| usage.cpu, &format!("s of all cores for {of}"));
        show(&megabytes, |usage| usage.megabytes, &format!("MB at most for {of}"));
    }
}

/// Resources that a process used.
struct Usage {
    seconds: f64,
    /// CPU time of all threads, user and system.
    cpu: f64,
    megabytes: f64,
}

fn measure(what: &[&str], path: &Path) -> Usage {
    let clock = Clock::start();
    let output = Command::new(std::env::current_exe().unwrap()).args(what).arg(path).output();
    let seconds = clock.now() as f64 / 1e9;
    let output = output.unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what:?}: {}", output.status);
    let told = String::from_utf8_lossy(&output.stdout);
    let mut told = told.split_whitespace().map(|number| number.parse().unwrap());
    let (cpu, megabytes) = (told.next().unwrap(), told.next().unwrap());
    Usage { seconds, cpu, megabytes }
}

/// Runs the complete check like `dyno check`. A tree with errors takes a different time, so it
/// is not measured.
fn of_tree(round: &str, program: &str, results: usize, tree: &Path) {
    let round = Round::named(round).unwrap();
    let judge = match program {
        "strict" => Program::Strict,
        "mono" => Program::Mono,
        "modular" => Program::Modular,
        tag => Program::Tag(OneFileChecker::new(Round::named(tag).unwrap().version)),
    };
    let checked = check(tree, round, &Options::new(judge)).unwrap();
    println!("{} {}", cpu_seconds(), peak_megabytes());
    if checked.is_valid() && checked.valid() == results {
        return;
    }
    let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
    for finding in errors.take(FINDINGS_SHOWN) {
        eprintln!("{finding}");
    }
    panic!(
        "{program}: {} of {} results in {} are valid, with {} findings; expected all of {results}",
        checked.valid(),
        checked.results.len(),
        tree.display(),
        checked.findings.len()
    );
}

fn of_log(log: &Path) {
    let hash = truncate(File::open(log).unwrap(), io::sink()).unwrap();
    eprintln!("{hash}");
    println!("{} {}", cpu_seconds(), peak_megabytes());
}

/// Returns the CPU time of this process.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the peak memory of this process, or NaN if unknown.
fn peak_megabytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1_024.0 / 1e6)
}

/// Creates a log of this size, as an accuracy run writes it.
fn accuracy_log(folder: &Path, bytes: u64) -> std::path::PathBuf {
    let path = folder.join(format!("accuracy-{bytes}.json"));
    if fs::metadata(&path).is_ok_and(|file| file.len() == bytes) {
        return path;
    }
    let mut out = BufWriter::new(File::create(&path).unwrap());
    let data = "0123456789ABCDEF".repeat(16);
    let mut left = bytes;
    for at in 0_u64.. {
        let line = format!(
            "{{ \"seq_id\" : {at}, \"qsl_idx\" : {}, \"data\" : \"{data}\" }},\n",
            at % 1_024
        );
        let line = &line.as_bytes()[..line.len().min(usize::try_from(left).unwrap())];
        if line.is_empty() {
            break;
        }
        out.write_all(line).unwrap();
        left -= line.len() as u64;
    }
    out.flush().unwrap();
    path
}

/// Returns the seconds of another program for hashing, or `None` if it is not installed.
fn sha256sum(log: &Path) -> Option<f64> {
    let clock = Clock::start();
    let output = Command::new("sha256sum").arg(log).output().ok()?;
    output.status.success().then(|| clock.now() as f64 / 1e9)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(name: &str, ours: f64, peer: Option<f64>, ratio: Option<f64>, unit: &str) {
    let number = |value: Option<f64>| value.map_or("null".to_owned(), |v| format!("{v:.4}"));
    println!(
        "{{\"name\": \"{name}\", \"ours\": {}, \"peer\": {}, \"ratio\": {}, \"unit\": \"{unit}\"}}",
        number(Some(ours).filter(|ours| ours.is_finite())),
        number(peer),
        number(ratio)
    );
}
