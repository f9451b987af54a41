//! Processes of a measurement and their cores.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Lists of cores in the syntax of `taskset`; empty means all.
pub struct Cores {
    pub client: String,
    pub sink: String,
}

impl Cores {
    /// Gives the last core of the machine to the sink and the others to the client, if there are
    /// several cores and `taskset` is installed.
    pub fn shared_out() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let can_bind = Command::new("taskset").args(["-c", "0", "true"]).status();
        if cores < 2 || !can_bind.is_ok_and(|status| status.success()) {
            eprintln!("client and sink share the cores");
            return Self::all();
        }
        Self { client: format!("0-{}", cores - 2), sink: (cores - 1).to_string() }
    }

    pub fn all() -> Self {
        Self { client: String::new(), sink: String::new() }
    }
}

/// Returns a command that runs a program on these cores.
pub fn on(cores: &str, program: &str, arguments: &[&str]) -> Command {
    if cores.is_empty() {
        let mut command = Command::new(program);
        command.args(arguments);
        return command;
    }
    let mut command = Command::new("taskset");
    command.args(["-c", cores, program]).args(arguments);
    command
}

/// Returns the output of this program, run on these cores with these arguments.
pub fn this(cores: &str, arguments: &[&str]) -> Option<String> {
    let program = std::env::current_exe().expect("the path of this program");
    output(on(cores, &program.to_string_lossy(), arguments))
}

/// Returns the output of a program; `None` if it fails, with its messages on stderr.
pub fn output(mut command: Command) -> Option<String> {
    let output = match command.stderr(Stdio::inherit()).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("{command:?} cannot be run: {error}");
            return None;
        }
    };
    if !output.status.success() {
        eprintln!("{command:?} failed: {}", output.status);
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the number that an output consists of.
pub fn number_of(output: &Option<String>) -> Option<f64> {
    output.as_ref()?.trim().parse().ok()
}

/// A sink in a process of its own, stopped on drop.
pub struct Child {
    process: std::process::Child,
    address: String,
}

impl Child {
    pub fn sink(arguments: &[&str], cores: &str) -> Option<Self> {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = on(cores, &program.to_string_lossy(), arguments);
        // The child ends when its input ends, so it never outlives this process.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().ok()?;
        let mut address = String::new();
        let output = process.stdout.take()?;
        BufReader::new(output).read_line(&mut address).ok()?;
        Some(Self { process, address: address.trim().to_owned() })
    }

    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
