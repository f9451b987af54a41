//! Scripts and manifests for engines that place worker processes.
//!
//! An engine only places and starts workers. Coordination and traffic are the task of
//! [`crate::worker`].

mod kubernetes;
mod slurm;

pub use kubernetes::manifest;
pub use slurm::script;

/// Driver for Ray: places an actor or a task for each worker, point or trial. It reads a
/// description as one line of JSON on its standard input, then one line per trial.
pub const RAY_DRIVER: &str = include_str!("ray_driver.py");

/// Processes to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Name of the job: letters, digits and hyphens.
    pub name: String,
    /// Command of the program on the placed machine.
    pub program: String,
    /// Workers that share the load (>= 1); one more process coordinates them.
    pub workers: u32,
    /// Arguments of the coordinator, such as `run --system null`.
    pub command: Vec<String>,
    /// Port of the coordinator.
    pub port: u16,
    /// Container image, for engines that use containers.
    pub image: String,
}

impl Placement {
    /// Returns the flags of all workers.
    fn worker_flags(&self) -> String {
        let stay = stay_flag(&self.command).map(|flag| format!(" {flag}")).unwrap_or_default();
        format!("--within {WITHIN} --allow all{stay}")
    }

    /// Returns the coordinator's command line for a shell.
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

/// Commands with several runs, which may each wait for the workers.
const SEVERAL_RUNS: [&str; 3] = ["audit", "compare", "sweep"];

/// Returns the flag of `dyno worker` that a command needs: workers of a command with several runs join each
/// of them.
pub fn stay_flag(command: &[String]) -> Option<&'static str> {
    let first = command.first()?;
    SEVERAL_RUNS.contains(&&first[..]).then_some("--stay")
}

/// Quotes a word for POSIX shells.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Time that a worker waits for its coordinator: engines do not place all processes at once.
const WITHIN: &str = "600s";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_several_runs_stay() {
        let flag =
            |command: &str| stay_flag(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!([flag("run --name sweep"), flag("search")], [None; 2]);
        let several = ["sweep --over qps=1,2", "compare --interleave 2 a b", "audit TEST04"];
        assert_eq!(several.map(flag), [Some("--stay"); 3]);
    }

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
