//! Readers may stop reading: neither a result nor a measurement is lost by that.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::program::{Folder, ProgramResult};

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A very short, valid run.
const SHORT: &str = "run --system model:fixed=1ms --scenario single-stream --mode performance \
                     --duration 100ms --set min_query_count=64";

const COMMANDS: [&str; 12] = [
    "run --dry-run",
    "info schema summary",
    "probe --system model:fixed=1ms --json",
    "sweep --over batch=1,2 --dry-run",
    "sweep --over batch=1,2 --system model:fixed=1ms --scenario offline --duration 100ms --out s",
    "search --limit p99<=9ms --system model:fixed=1ms --from 100 --no-confirm --tolerance 20% --out f",
    "export out",
    "compare out out --json",
    "compare out out",
    "man",
    "completions bash",
    "report out",
];

#[test]
fn a_closed_pipe_changes_no_exit_code() {
    let folder = Folder::new();
    folder.dyno(&format!("{SHORT} --out out")).exits(0);
    let run = [format!("{SHORT} --json"), format!("{SHORT} --verbose")];
    for command in COMMANDS.iter().copied().chain(run.iter().map(String::as_str)) {
        let again = |folder: &Folder, stdout: Stdio, stderr: Stdio| -> ProgramResult {
            for made in ["s", "f"] {
                let _ = std::fs::remove_dir_all(folder.0.join(made));
            }
            folder.command(command).stdout(stdout).stderr(stderr).output().unwrap().into()
        };
        let code = again(&folder, Stdio::piped(), Stdio::piped()).code;
        assert!(matches!(code, Some(0 | 1)), "{command}: {code:?}");
        for (stdout, stderr) in [(closed(), Stdio::piped()), (closed(), closed())] {
            let ran = again(&folder, stdout, stderr);
            assert_eq!(ran.code, code, "{command}: {}", ran.stderr);
            assert!(!ran.stderr.contains("panicked"), "{command}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_full_disk_below_stdout_is_told_and_the_run_is_kept() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    let folder = Folder::new();
    let command = format!("{SHORT} --out out");
    let ran: ProgramResult = folder.command(&command).stdout(full).output().unwrap().into();
    let ran = ran.exits(3);
    assert!(ran.stderr.contains("error: cannot write to stdout"), "{}", ran.stderr);
    assert!(ran.stderr.contains("report: out/report.html"), "{}", ran.stderr);
    assert!(folder.0.join("out/summary.json").is_file());
}
