//! Where workers run: scripts and manifests for engines that place processes.
//!
//! An engine places workers and starts them; that is all. Coordination and traffic
//! are [`crate::worker`]'s, and no scheduler is written here.

mod kubernetes;
mod slurm;

pub use kubernetes::manifest;
pub use slurm::script;

/// A driver for Ray: places an actor or a task for each worker, point or trial. It reads a
/// description in a line of JSON on its standard input, and then trials, a line each.
pub const RAY_DRIVER: &str = include_str!("ray_driver.py");

/// What is to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Name of the job: letters, digits and hyphens.
    pub name: String,
    /// The program, as it is called where it runs.
    pub program: String,
    /// Workers that share the load (>= 1); one process more coordinates them.
    pub workers: u32,
    /// What the coordinator is to do, such as `run --system null`.
    pub command: Vec<String>,
    /// Where the coordinator listens.
    pub port: u16,
    /// The image of containers, where there are some.
    pub image: String,
}

impl Placement {
    /// The coordinator's command line, for a shell.
    fn coordinator(&self) -> String {
        let mut words = vec![self.program.clone()];
        words.extend(self.command.iter().cloned());
        words.push("--remote-workers".into());
        words.push(self.workers.to_string());
        words.push("--listen".into());
        words.push(format!("0.0.0.0:{}", self.port));
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as POSIX shells read it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A worker waits so long for its coordinator: places are not given at one moment.
const WITHIN: &str = "600s";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_program_as_they_were() {
        let words = ["plain", "", "two words", "it's", "$HOME", "a\"b", "model:exponential=2ms"];
        let line = words.map(quoted).join(" ");
        let printed = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {line}")])
            .output()
            .unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert_eq!(printed.lines().collect::<Vec<_>>(), words);
    }
}
