//! Runs the blocks of a page in order in a scratch folder.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::block::{Block, Kind, Shell, Stream};
use super::output;
use crate::program::{Folder, ProgramResult};

/// Variable with the folder of the programs that `cargo xtask peers book` installs.
const PEERS: &str = "DYNO_BOOK_PEERS";
/// Variable that requests an update of pages.
const UPDATE: &str = "UPDATE_EXPECT";

/// Flags that make a test short whatever the page shows.
const QUICK: [(&str, &str); 2] =
    [("DYNO_SETTINGS_MIN_DURATION_MS", "200"), ("DYNO_SETTINGS_SERVER_TARGET_QPS", "500")];

/// Environment variables that would change the output of commands.
const FOREIGN: [&str; 6] =
    ["GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "CI", "NO_COLOR", "COLUMNS", "ORT_DYLIB_PATH"];

/// Ends the servers that a block started, also if it fails before it does so itself. Each block has a
/// process group of its own.
const END: &str = "trap 'trap \"\" TERM; kill 0' EXIT";

/// A page in progress.
pub struct Page<'a> {
    root: &'a Path,
    name: &'a str,
    text: String,
    folder: Folder,
    /// Output of the last block that ran; `None` if it was skipped.
    last: Option<ProgramResult>,
    findings: Vec<(usize, String)>,
    /// Outputs that differ, by block.
    replacements: Vec<(std::ops::Range<usize>, String)>,
}

impl<'a> Page<'a> {
    /// Returns the state before the first block.
    pub fn new(root: &'a Path, name: &'a str, text: String) -> Self {
        let (findings, replacements) = (Vec::new(), Vec::new());
        Self { root, name, text, folder: Folder::new(), last: None, findings, replacements }
    }

    /// Returns every line whose result differs from the page.
    pub fn play(mut self, blocks: &[Block]) -> Vec<(usize, String)> {
        for block in blocks {
            if let Err(finding) = self.block(block) {
                self.findings.push((block.line, finding));
            }
        }
        if !self.replacements.is_empty() {
            for (span, text) in self.replacements.drain(..).rev() {
                self.text.replace_range(span, &text);
            }
            std::fs::write(self.root.join(self.name), &self.text).unwrap();
            println!("{} was brought up to date", self.name);
        }
        self.findings
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        match &block.kind {
            Kind::Shell(shell) => self.shell(shell, &block.text),
            Kind::Output(stream) => self.output(*stream, block),
            Kind::Like => match &self.last {
                Some(ran) if !output::is_like(&block.text, &ran.stdout) => {
                    Err(format!("the page shows\n{}\nunlike\n{}", block.text, ran.stdout))
                }
                _ => Ok(()),
            },
            Kind::Config => {
                self.folder.write("block.toml", &block.text);
                self.accepts("block.toml")
            }
            Kind::File { name, is_config } => {
                self.folder.write(name, &block.text);
                if *is_config { self.accepts(name) } else { Ok(()) }
            }
            Kind::Quoted(path) => quoted(&self.root.join(path), &block.text),
            Kind::Tested(name) => tested(&self.root.join("crates"), name),
            Kind::Example => self.example(&block.text),
            Kind::Workflow => {
                let steps = block.text.lines().filter_map(|line| line.split_once("run: "));
                let script: Vec<&str> = steps.map(|(_, command)| command).collect();
                assert!(!script.is_empty(), "{}: a workflow has `run: ` lines", self.name);
                self.shell(&Shell::default(), &script.join("\n"))
            }
            Kind::Ignored(reason) => {
                println!("{}:{}: not run: {reason}", self.name, block.line);
                self.last = None;
                Ok(())
            }
        }
    }

    fn shell(&mut self, shell: &Shell, script: &str) -> Result<(), String> {
        self.last = None;
        let peers = std::env::var_os(PEERS).map(PathBuf::from);
        if shell.peers && peers.is_none() {
            println!("{}: left to `cargo xtask peers book`: {script}", self.name);
            return Ok(());
        }
        let programs = Path::new(env!("CARGO_BIN_EXE_dyno")).parent().unwrap();
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let own = [peers.unwrap_or_default(), programs.to_path_buf()];
        let path = own.into_iter().filter(|folder| !folder.as_os_str().is_empty());
        let path = std::env::join_paths(path.chain(std::env::split_paths(&inherited))).unwrap();
        let mut command = Command::new("sh");
        let folder = if shell.repository { self.root } else { &self.folder.0 };
        let guarded = format!("{END}\n{script}");
        command.args(["-eu", "-c", &guarded]).current_dir(folder).stdin(Stdio::null());
        command.process_group(0);
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.env("PATH", path).env("CARGO_INSTALL_ROOT", &self.folder.0);
        if shell.quick {
            command.envs(QUICK);
        }
        let ran = ProgramResult::from(command.output().unwrap());
        let is_expected = ran.code == Some(shell.exit) || shell.quick && ran.code == Some(1);
        if !is_expected {
            let ProgramResult { code, stdout, stderr } = ran;
            return Err(format!(
                "exit code {code:?}, expected {}\n{script}\nstdout:\n{stdout}\nstderr:\n{stderr}",
                shell.exit
            ));
        }
        self.last = Some(ran);
        Ok(())
    }

    fn output(&mut self, stream: Stream, block: &Block) -> Result<(), String> {
        // Skipped and failed blocks have no output.
        let Some(ran) = &self.last else { return Ok(()) };
        let found = match stream {
            Stream::Stdout => &ran.stdout,
            Stream::Stderr => &ran.stderr,
        };
        if output::agrees(&block.text, found) {
            return Ok(());
        }
        if std::env::var_os(UPDATE).is_some() {
            let found = format!("{}\n", found.trim_end());
            self.replacements.push((block.span.clone(), found));
            return Ok(());
        }
        Err(format!("the page shows\n{}\nthe command prints\n{found}", block.text))
    }

    fn accepts(&self, config: &str) -> Result<(), String> {
        let ran = self.folder.dyno(&format!("run --dry-run --config {config}"));
        if ran.code == Some(0) { Ok(()) } else { Err(ran.stderr) }
    }

    fn example(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.iter().skip_while(|word| **word != "--example").nth(1);
        let known = super::EXAMPLES.iter().find(|(known, _)| Some(known) == name);
        let (_, print) = known.ok_or_else(|| format!("no example of this crate: {line}"))?;
        self.last = Some(ProgramResult { code: Some(0), stdout: print(), stderr: String::new() });
        Ok(())
    }
}

/// Whether the lines of a block stand in a file, in order. Comments behind a
/// command are the page's own.
fn quoted(path: &Path, text: &str) -> Result<(), String> {
    let file = std::fs::read_to_string(path).map_err(|error| format!("{path:?}: {error}"))?;
    let mut lines = file.lines();
    for line in text.lines() {
        let wanted = line.split("  # ").next().unwrap_or(line).trim();
        if !wanted.is_empty() && !lines.any(|line| line.contains(wanted)) {
            return Err(format!("`{wanted}` does not stand in {}", path.display()));
        }
    }
    Ok(())
}

/// Whether there is a test of this name below `folder`.
fn tested(folder: &Path, name: &str) -> Result<(), String> {
    let mut folders = vec![folder.to_path_buf()];
    let wanted = format!("fn {name}()");
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && std::fs::read_to_string(&path).unwrap().contains(&wanted)
            {
                return Ok(());
            }
        }
    }
    Err(format!("there is no test {name}"))
}
