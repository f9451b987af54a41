//! Disks that are full, and runs that were killed: no result is lost, and no name is blocked.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use crate::program::preloaded;
use crate::program::{Folder, ProgramResult};
use crate::schema::keeps_to_schemas;
#[cfg(unix)]
use crate::serve::ServerProcess;

const SHORT: &str = "run --system model:fixed=1ms --scenario single-stream --mode performance \
                     --duration 100ms --set min_query_count=64";

/// A run that only a signal ends.
const LONG: &str = "run -v --system null --scenario server --mode performance --qps 100 \
                    --duration 300s";

/// Starts a run and returns when its first test begins.
fn begun(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(" in total")), "the run begins");
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// Files and folders below a folder, the hidden ones included.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_killed_run_blocks_no_name_and_a_running_one_does() {
    for out in ["fresh", "there"] {
        let folder = Folder::new();
        fs::create_dir(folder.0.join("there")).unwrap();
        let mut child = begun(folder.command(&format!("{LONG} --out {out}")));
        let ran = folder.dyno(&format!("{SHORT} --out {out}")).exits(3);
        assert!(ran.stderr.contains("another run is writing to"), "{}", ran.stderr);
        child.kill().unwrap();
        child.wait().unwrap();
        let ran = folder.dyno(&format!("{SHORT} --out {out}")).exits(0);
        assert!(!ran.stderr.contains("warning"), "it left nothing: {}", ran.stderr);
        keeps_to_schemas(&folder, out);
        assert_eq!(names(&folder.0.join(out)).len(), 5, "nothing hidden: {out}");
        let hidden = names(&folder.0).into_iter().filter(|name| name.starts_with('.'));
        assert_eq!(hidden.count(), 0, "{:?}", names(&folder.0));
    }
}

/// Without a check, the run waits for a writer of the pipe, and writes where the link leads.
#[cfg(unix)]
#[test]
fn what_is_no_folder_does_not_become_a_partial_directory() {
    let folder = Folder::new();
    let made = Command::new("mkfifo").arg(folder.0.join(".pipe.partial")).status().unwrap();
    assert!(made.success());
    fs::create_dir(folder.0.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", folder.0.join(".link.partial")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.0.join(".broken.partial")).unwrap();
    for out in ["pipe", "link", "broken"] {
        let ran = folder.dyno(&format!("{SHORT} --out {out}")).exits(3);
        let problem = format!("cannot write to .{out}.partial: ");
        assert!(ran.stderr.contains(&problem), "{}", ran.stderr);
    }
    assert!(names(&folder.0.join("elsewhere")).is_empty());
}

#[test]
fn results_of_a_killed_run_are_moved_aside_and_named() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("there")).unwrap();
    for (out, partial) in [("fresh", ".fresh.partial"), ("there", "there/.there.partial")] {
        for number in [1, 2] {
            // As left by a run that was killed.
            folder.dyno(&format!("{SHORT} --out whole")).exits(0);
            fs::remove_file(folder.0.join("whole/summary.json")).unwrap();
            fs::write(folder.0.join("whole/.reserve"), [0; 9]).unwrap();
            fs::rename(folder.0.join("whole"), folder.0.join(partial)).unwrap();
            if number == 1 {
                folder.dyno(&format!("report {out}")).exits(0);
            }
            let ran = folder.dyno(&format!("{SHORT} --out {out}")).exits(0);
            let left = partial.replace(".partial", &format!(".killed-{number}.partial"));
            assert!(ran.stderr.contains(&format!("dyno report {left} shows")), "{}", ran.stderr);
            assert!(!folder.0.join(&left).join(".reserve").exists(), "it holds no space");
            folder.dyno(&format!("report {left}")).exits(0);
            assert!(folder.read(&format!("{left}/report.html")).contains("INCOMPLETE"));
            // Makes the name free again.
            for name in ["summary.json", "series.json", "report.html", "effective.toml"] {
                fs::remove_file(folder.0.join(out).join(name)).unwrap();
            }
            fs::remove_dir_all(folder.0.join(out).join("SingleStream")).unwrap();
            if out == "fresh" {
                fs::remove_dir(folder.0.join(out)).unwrap();
            }
        }
    }
}

#[test]
fn a_run_that_was_killed_while_it_was_published_is_complete_afterwards() {
    let folder = Folder::new();
    folder.dyno(&format!("{SHORT} --out out")).exits(0);
    // The summary is moved last.
    fs::create_dir(folder.0.join("out/.out.partial")).unwrap();
    for name in ["effective.toml", "summary.json"] {
        let to = folder.0.join("out/.out.partial").join(name);
        fs::rename(folder.0.join("out").join(name), to).unwrap();
    }
    let ran = folder.dyno(&format!("{SHORT} --out out")).exits(3);
    assert!(ran.stderr.contains("out exists and is not empty"), "{}", ran.stderr);
    keeps_to_schemas(&folder, "out");
    assert_eq!(names(&folder.0.join("out")).len(), 5);
}

/// Runs the program in a shell that limits the size of files to so many blocks.
#[cfg(unix)]
fn limited(folder: &Folder, blocks: u32, arguments: &str) -> ProgramResult {
    let dyno = folder.command(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh"]);
    shell.arg(dyno.get_program()).args(dyno.get_args()).current_dir(&folder.0);
    shell.env("TMPDIR", folder.0.join("rescue")).env("DYNO_CACHE", "cache");
    shell.stdin(Stdio::null()).output().unwrap().into()
}

#[cfg(unix)]
#[test]
fn a_result_that_can_be_stored_nowhere_is_printed_and_nothing_looks_whole() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("rescue")).unwrap();
    // The raw records alone have several MB; a block has 512 or 1,024 bytes.
    let run = "run --system model:fixed=1us --scenario offline --mode performance --records all \
               --set offline_expected_qps=1000000 --duration 1s";
    let ran = limited(&folder, 1_000, &format!("{run} --out out"));
    let ran = ran.exits(3);
    assert!(ran.stdout.contains("samples/s"), "{}", ran.stdout);
    assert!(ran.stderr.contains("is kept in memory"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error: the results can be written neither to out"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: free some space"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("report:"), "{}", ran.stderr);
    assert!(!folder.0.join("out").exists());
    assert!(!folder.0.join(".out.partial").exists(), "files that are cut off");
    assert!(names(&folder.0.join("rescue")).is_empty());

    let json = limited(&folder, 1_000, &format!("{run} --json --out out"));
    assert_eq!(json.code, Some(3));
    assert_eq!(json.json()["run_directory"], Value::Null);
    let value = json.json()["tests"][0]["result"]["value"].as_f64().unwrap();
    assert!((value - 1e6).abs() < 1e5, "{value}");
    // Without the limit the same name works.
    folder.dyno(&format!("{run} --out out")).exits(0);
}

/// Runs Dyno with at most 64 descriptors against a server of words.
#[cfg(unix)]
fn with_few_descriptors(folder: &Folder, load: &str) -> ProgramResult {
    let server = ServerProcess::start(folder, "--system tokens:first=100ms,tokens=4");
    let url = format!("http://{},threads=1", server.address());
    let run = format!("run {url}{load} --no-progress --out out");
    let dyno = folder.command(&run);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]);
    shell.arg(dyno.get_program()).args(dyno.get_args()).current_dir(&folder.0);
    shell.env("DYNO_CACHE", "cache").stdin(Stdio::null()).output().unwrap().into()
}

/// The connections take all descriptors that they get, and hold them at the end. A hundred requests are in
/// progress at the server if none waits for a connection.
#[cfg(unix)]
#[test]
fn connections_leave_descriptors_for_the_results_and_their_lack_is_a_queue_of_the_client() {
    let folder = Folder::new();
    let ran = with_few_descriptors(&folder, " --qps 1000 --duration 1s --fail-fast off");
    assert!(folder.0.join("out/summary.json").is_file(), "{}\n{}", ran.stdout, ran.stderr);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let client = &summary["clients"][0];
    let [all, own] = ["connection_waits", "queue_waits"].map(|key| client[key].as_u64().unwrap());
    assert!(own > all / 2, "{client}");
    assert_eq!(summary["verdict"], "INVALID");
}

/// Requests would wait for connections in the client, as latency of the server; or the connections that are
/// missing would take the descriptors of the results.
#[cfg(unix)]
#[test]
fn connections_above_the_limit_on_descriptors_are_rejected() {
    let folder = Folder::new();
    for load in [
        " --max-concurrency 200 --duration 1s",
        ",connections=200 --qps 10 --duration 1s",
        ",connections=200,http2=true --qps 10 --duration 1s",
    ] {
        let ran = with_few_descriptors(&folder, load).exits(3);
        let problem = "200 connections need 234 descriptors, and the process may have 64";
        assert!(ran.stderr.contains(problem), "{}", ran.stderr);
        assert!(!folder.0.join(".out.partial").exists());
        assert!(!ran.stderr.contains("dyno info systems"), "the list of systems is no remedy");
    }
}

#[test]
fn a_file_in_place_of_a_folder_is_no_directory() {
    let folder = Folder::new();
    folder.write("file", "");
    for out in ["file/out", "file/below/out"] {
        let ran = folder.dyno(&format!("{SHORT} --out {out}")).exits(3);
        let problem = format!("error: cannot write to {out}: ");
        assert!(ran.stderr.starts_with(&problem), "{}", ran.stderr);
        assert!(ran.stderr.to_lowercase().contains("not a directory"), "{}", ran.stderr);
    }
}

/// The raw records of the full run alone have several MB.
#[cfg(unix)]
#[test]
fn a_confirmation_that_can_be_stored_nowhere_is_printed_and_made_again() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("rescue")).unwrap();
    let search = "search --system model:exponential=2ms,servers=8 --limit p99<=20ms --duration 60s \
                  --tolerance 5% --records all --no-progress --out s";
    let ran = limited(&folder, 1_000, search).exits(3);
    assert!(ran.stdout.contains("Confirmed: "), "{}\n{}", ran.stdout, ran.stderr);
    let problem = "error: the results can be written neither to s/confirm";
    assert!(ran.stderr.contains(problem), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: then continue: dyno search --resume s"), "{}", ran.stderr);
    assert_eq!(names(&folder.0.join("s")), ["report.html", "search.json"]);
    let again = folder.dyno("search --resume s --no-progress").exits(0);
    assert!(again.stdout.contains("Confirmed: "), "{}", again.stdout);
    keeps_to_schemas(&folder, "s/confirm");
}

/// Makes each replacement of a file in a folder fail, also for the superuser.
fn block(child: &mut Child, folder: &Path, file: &str) {
    while !folder.join(file).exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before");
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    let partial = folder.join(format!(".{file}.partial"));
    while fs::create_dir(&partial).is_err() {}
}

#[test]
fn a_sweep_and_a_search_go_on_in_memory_and_print_their_results() {
    for (file, arguments, result) in [
        (
            "sweep.json",
            "sweep --over qps=100,200 --system null --scenario server --duration 1s \
             --mode performance",
            "2 points:",
        ),
        (
            "search.json",
            "search --system null --scenario server --limit p99<1s --short 200ms \
             --from 100 --to 200 --no-confirm",
            "queries/s",
        ),
    ] {
        let folder = Folder::new();
        let mut child = folder
            .command(&format!("{arguments} --no-progress --out out"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        block(&mut child, &folder.0.join("out"), file);
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3), "{stdout}\n{stderr}");
        assert!(stdout.contains(result), "{stdout}\n{stderr}");
        assert!(stderr.contains("error: cannot write to out"), "{stderr}");
        assert!(stderr.contains("--resume"), "{stderr}");
        let state: Value = serde_json::from_str(&folder.read(&format!("out/{file}"))).unwrap();
        assert_eq!(state["state"], "running", "the last state that could be written");
    }
}

/// Runs a script with file systems of its own; `None` where the system permits none.
#[cfg(target_os = "linux")]
fn with_mounts(folder: &Folder, script: &str) -> Option<ProgramResult> {
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c"]).arg(script).arg("sh").arg(env!("CARGO_BIN_EXE_dyno"));
    shell.current_dir(&folder.0).stdin(Stdio::null());
    let ran: ProgramResult = shell.output().ok()?.into();
    (ran.code != Some(77)).then_some(ran)
}

#[cfg(target_os = "linux")]
#[test]
fn space_that_was_reserved_holds_the_results_of_a_disk_that_fills_up() {
    let folder = Folder::new();
    // Fills both disks while the run is on.
    let script = format!(
        "mkdir a t; mount -t tmpfs -o size=20m tmpfs a || exit 77
         mount -t tmpfs -o size=1m tmpfs t || exit 77
         TMPDIR=$PWD/t \"$1\" {LONG} --no-progress --out a/out 2> said & p=$!
         until grep -q 'in total' said; do sleep 0.05; done
         for disk in a t; do dd if=/dev/zero of=$disk/filler bs=64k 2> dd.said; done
         kill -INT $p; wait $p; code=$?
         cp -r a/out kept; ls -A a t > left; exit $code"
    );
    let Some(ran) = with_mounts(&folder, &script) else {
        eprintln!("skipped: no mounts");
        return;
    };
    let said = folder.read("said");
    assert_eq!(ran.code, Some(130), "{}\n{said}", ran.stderr);
    assert!(folder.read("dd.said").contains("No space left"), "the disk was full");
    assert!(!said.contains("warning"), "{said}");
    assert!(said.contains("report: a/out/report.html"), "{said}");
    keeps_to_schemas(&folder, "kept");
    assert!(folder.read("kept/report.html").ends_with("</html>\n"));
    assert_eq!(folder.read("left"), "a:\nfiller\nout\n\nt:\nfiller\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_without_the_space_of_a_run_is_reported_before_it() {
    let folder = Folder::new();
    let script = format!(
        "mkdir a; mount -t tmpfs -o size=3m tmpfs a || exit 77
         \"$1\" {SHORT} --out a/out; code=$?; ls -A a > left; exit $code"
    );
    let Some(ran) = with_mounts(&folder, &script) else {
        eprintln!("skipped: no mounts");
        return;
    };
    let ran = ran.exits(3);
    assert!(ran.stderr.contains("3 MB free; free some space"), "{}", ran.stderr);
    assert_eq!(folder.read("left"), "");
}

/// The full run that confirms the peak has no room.
#[cfg(target_os = "linux")]
#[test]
fn a_search_that_a_full_disk_ends_prints_what_it_measured() {
    let folder = Folder::new();
    let script = "mkdir a; mount -t tmpfs -o size=1m tmpfs a || exit 77
         exec \"$1\" search --system model:exponential=2ms,servers=8 --limit 'p99<=20ms' \
             --no-progress --out a/s";
    let Some(ran) = with_mounts(&folder, script) else {
        eprintln!("skipped: no mounts");
        return;
    };
    let ran = ran.exits(3);
    assert!(ran.stdout.contains("Peak: "), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("dyno search --resume a/s"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_of_a_search_or_a_comparison_has_one_writer() {
    let folder = Folder::new();
    let config = "version = 1\n[run]\nsystem = \"model:exponential=1ms\"\nscenario = [\"server\"]\n\
                  mode = \"performance\"\nqps = 100\nduration = \"1s\"\n";
    folder.write("a.toml", config);
    folder.write("b.toml", config);
    let search = "search --system model:exponential=2ms,servers=8 --limit p99<=20ms --no-confirm";
    let compare = "compare --interleave 2 a.toml b.toml --max-time 1ns";
    let ran = folder.dyno(&format!("{compare} --out none")).exits(2);
    assert!(!folder.0.join("none").exists(), "{}", ran.stderr);
    folder.dyno(&format!("{search} --out old")).exits(0);
    fs::create_dir(folder.0.join("new")).unwrap();
    for (command, name) in [
        (format!("{search} --out new"), "a search is running in new"),
        ("search --resume old".into(), "a search is running in old"),
        // The lock comes before the probe of the rates, and before the time is checked.
        (format!("{compare} --out new"), "a comparison is running in new"),
    ] {
        let other = fs::File::open(folder.0.join(name.rsplit(' ').next().unwrap())).unwrap();
        other.lock().unwrap();
        let ran = folder.dyno(&command).exits(3);
        assert!(ran.stderr.contains(name), "{command}: {}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn data_without_an_end_is_refused() {
    let folder = Folder::new();
    for arguments in [
        "run --system onnx:/dev/zero",
        "run --system onnx:model.onnx --data /dev/zero",
        "run --system raw:http://127.0.0.1:9/,body=@/dev/zero",
        "run --config /dev/zero",
    ] {
        let ran = folder.dyno(&format!("{arguments} --out out"));
        assert!(matches!(ran.code, Some(2 | 3)), "{arguments}: {:?} {}", ran.code, ran.stderr);
        assert!(ran.stderr.contains("device"), "{arguments}: {}", ran.stderr);
    }
}

/// Lets the disk fail once: when a search, or the series of the first run of a command, is written.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FAILS_ONCE: &str = "\
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int file) {
    static int failed;
    char link[64], path[4096] = {0};
    snprintf(link, sizeof link, \"/proc/self/fd/%d\", file);
    if (readlink(link, path, sizeof path - 1) > 0 &&
        (strstr(path, \".partial/series.json\") || strstr(path, \"/.search.json.partial\")) &&
        !failed++) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_fsync, file);
}
";

/// Otherwise the audit fails because of the missing logs, and the comparison misses a run.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_disk_that_fails_once_ends_an_audit_a_comparison_and_a_search() {
    let folder = Folder::new();
    let audit = "audit TEST04 --quiet -- --system cheat:honest --scenario single-stream --out a";
    let Some(ran) = preloaded(&folder, FAILS_ONCE, audit) else { return };
    let ran = ran.exits(3);
    assert!(ran.stderr.contains("a/baseline could not be written; its"), "{}", ran.stderr);
    assert!(!folder.0.join("a/audit.json").exists(), "no verdict");
    let config = "version = 1\n[run]\nsystem = \"model:exponential=1ms\"\nscenario = [\"server\"]\n\
                  mode = \"performance\"\nqps = 100\nduration = \"1s\"\n";
    folder.write("a.toml", config);
    folder.write("b.toml", config);
    let compare = "compare --interleave 2 a.toml b.toml --quiet --out c";
    let ran = preloaded(&folder, FAILS_ONCE, compare).unwrap().exits(3);
    assert!(ran.stderr.contains("c/a-1 could not be written; its"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--resume with --out runs the rest"), "{}", ran.stderr);
    folder.dyno(&format!("{compare} --resume")).exits(0);
    let search = "search --system model:exponential=2ms --limit p99<=20ms --quiet --out s";
    let ran = preloaded(&folder, FAILS_ONCE, search).unwrap().exits(3);
    assert!(ran.stderr.contains("hint: free some space, then search again"), "{}", ran.stderr);

    // The full run that confirms the result.
    let source = FAILS_ONCE.replace("/.search.json.partial", "no such file");
    let search = "search --system model:exponential=2ms --limit p99<=20ms --quiet --out t";
    let ran = preloaded(&folder, &source, search).unwrap().exits(3);
    assert!(ran.stderr.contains("t/confirm could not be written; its"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: then continue: dyno search --resume t"), "{}", ran.stderr);
    folder.dyno("search --resume t --quiet").exits(0);
    assert!(folder.0.join("t/confirm/summary.json").is_file(), "it was made again");
}
