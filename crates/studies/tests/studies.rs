//! `dyno-studies` as a program: documents and pages.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A folder that is removed at the end of a test.
struct Folder(tempfile::TempDir);

/// Output of the program.
struct ProgramOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.0.path()).join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the program with these arguments, separated by spaces, in this folder.
    fn study(&self, arguments: &str) -> ProgramOutput {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyno-studies"));
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        ProgramOutput {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl ProgramOutput {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

#[test]
fn the_study_is_a_document_and_writes_into_a_page() {
    let folder = Folder::new();
    let document = folder.study("npu iv10 iv12 --quick --json").exits(0).json();
    assert_eq!((&document["parts"][0]["part"], &document["quick"]), (&"iv10".into(), &true.into()));
    let table = &document["parts"][1]["tables"][0];
    assert_eq!(table["rows"][0][1], "1.27", "the thesis' ANTT: {table}");
    folder.write("page.md", "before\n<!-- dyno npu study ii7 -->\n<!-- end of ii7 -->\nafter\n");
    folder.study("npu ii7 --write page.md").exits(0);
    let page = folder.read("page.md");
    assert!(page.starts_with("before\n") && page.ends_with("\nafter\n"), "{page}");
    assert!(page.contains("| memory-centric | 22.9 | 225 |"), "{page}");
    for (command, expected) in [
        ("iv1", "there is no part `iv1`; the nearest is `iv"),
        ("ii8 --write page.md", "page.md has no place for `ii8`"),
        ("ii8 --write nowhere.md", "cannot read nowhere.md"),
    ] {
        let output = folder.study(&format!("npu {command}")).exits(2);
        assert!(output.stderr.contains(expected), "{command}: {}", output.stderr);
    }
}

#[test]
fn a_study_is_a_document_and_a_page() {
    let folder = Folder::new();
    let output = folder.study("rnn --quick --json --threads 2 --report study.html").exits(0);
    let document = output.json();
    assert_eq!(document["schema_version"], 1);
    let parts = document["parts"].as_array().unwrap();
    let techniques = &parts[0];
    assert_eq!(
        (&techniques["name"], &techniques["columns"][4]["unit"]),
        (&"techniques".into(), &"ms".into())
    );
    let row = techniques["rows"][0]["values"].as_array().unwrap();
    assert!(row.iter().all(|ms| ms.as_f64().is_some_and(|ms| ms > 0.0)), "{row:?}");
    let misses = parts.iter().find(|part| part["name"] == "l2_misses").unwrap();
    let note = misses["note"].as_str().unwrap();
    let counted = misses["rows"][0]["values"][0].is_number();
    assert_eq!(note.contains("were not counted: "), !counted, "{note}");
    let page = folder.read("study.html");
    assert!(page.contains("<h2>Speed against batch</h2>"), "{page}");
    assert_eq!(page.matches("<figure class=\"chart\">").count(), 6);
    for (name, rows) in [("bidaf", 7), ("text_similarity", 4)] {
        let part = parts.iter().find(|part| part["name"] == name).unwrap();
        assert_eq!(part["rows"].as_array().unwrap().len(), rows, "{part}");
    }
}
