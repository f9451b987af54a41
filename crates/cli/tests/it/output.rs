//! Readers may stop reading: neither a result nor a measurement is lost by that. Texts of others do not
//! control the terminal.

use std::fs::OpenOptions;
use std::process::Stdio;

use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
use serde_json::{Value, json};

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

/// Returns the same run with more queries, because a run is not compared with itself.
fn longer() -> String {
    format!("{} --out longer", SHORT.replace("100ms", "120ms"))
}

const COMMANDS: [&str; 12] = [
    "run --dry-run",
    "info schema summary",
    "probe --system model:fixed=1ms --json",
    "sweep --over batch=1,2 --dry-run",
    "sweep --over batch=1,2 --system model:fixed=1ms --scenario offline --duration 100ms --out s",
    "search --limit p99<=9ms --system model:fixed=1ms --from 100 --no-confirm --tolerance 20% --out f",
    "export out",
    "compare out longer --json",
    "compare out longer",
    "man",
    "completions bash",
    "report out",
];

#[test]
fn a_closed_pipe_changes_no_exit_code() {
    let folder = Folder::new();
    folder.dyno(&format!("{SHORT} --out out")).exits(0);
    folder.dyno(&longer()).exits(0);
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
    for help in ["--help", "run --help", "--version", "help"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran: ProgramResult = folder.command(help).stdout(full).output().unwrap().into();
        let ran = ran.exits(3);
        assert!(ran.stderr.contains("error: cannot write to stdout"), "{}", ran.stderr);
    }
}

/// Control characters, which the test appends to each text in the summary of another program.
const ODD: &str = "\u{1b}[31m\r\u{7}\u{202e}";

/// Adds [`ODD`] to each text.
fn disguise(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(ODD),
        Value::Array(items) => items.iter_mut().for_each(disguise),
        Value::Object(fields) => fields.values_mut().for_each(disguise),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn no_text_of_a_foreign_summary_controls_the_terminal_or_a_page() {
    let folder = Folder::new();
    folder.dyno(&format!("{SHORT} --out out")).exits(0);
    folder.dyno(&longer()).exits(0);
    let mut summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    summary["remarks"] = json!(["a remark"]);
    summary["tests"][0]["notes"] = json!(["a note"]);
    summary["tests"][0]["reasons"] = json!(["a reason"]);
    for key in ["name", "system", "command", "remarks", "environment"] {
        disguise(&mut summary[key]);
    }
    for key in ["notes", "reasons"] {
        disguise(&mut summary["tests"][0][key]);
    }
    folder.write("out/summary.json", &summary.to_string());
    let is_obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    for command in ["compare out longer --force --annotate github", "report out"] {
        let mut command = folder.command(command);
        command.env("GITHUB_STEP_SUMMARY", "summary.md");
        let ran: ProgramResult = command.output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains(is_obeyed), "{}", text.escape_debug());
        }
    }
    let page = folder.read("out/report.html");
    assert!(page.contains("a remark\u{fffd}[31m"), "{page}");
    for text in [page, folder.read("summary.md")] {
        assert!(!text.contains(is_obeyed), "{}", text.escape_debug());
    }
}

#[test]
fn no_name_of_a_model_controls_the_terminal_or_a_workflow() {
    let folder = Folder::new();
    let name = |name: &str| format!("{name}{ODD}##[error]\n::error::{name}\n::{name}");
    let mut net = Builder::new("named", Weights::seeded(1));
    let x = net.input(&name("x"), Element::F32, &[Dim::symbol(&name("n")), 4.into()]);
    let weight = net.weight(&name("w"), &[4, 3], Fill::he(4)).unwrap();
    let y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
    net.output(&name("y"), &y).unwrap();
    net.finish().write(&folder.0.join("m.onnx")).unwrap();
    let is_obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    for command in [
        "task layers m.onnx",
        "task layers m.onnx --bind m=2",
        "npu layers m.onnx",
        "npu layers m.onnx --csv",
        "npu layers m.onnx --times",
        "npu run m.onnx",
        "rnn explain m.onnx",
    ] {
        let ran = folder.dyno(command);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains(is_obeyed), "{command}: {}", text.escape_debug());
            let is_command =
                |line: &str| line.trim_start().starts_with("::") || line.contains("##[");
            assert!(!text.lines().any(is_command), "{command}: {}", text.escape_debug());
        }
    }
}
