//! `dyno launch`: starts workers, points of a sweep or trials of a tuner, here or on a cluster.

mod points;
mod trials;

use std::io::Write as _;
use std::net::TcpListener;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use clap::{Args, ValueEnum};
use dyno_experiment::workers::{TOKEN, token};
use dyno_experiment::{Failure, Interrupt, LIFELINE};
use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use dyno_net::launch::{Placement, RAY_DRIVER, manifest, script, stay_flag};
use dyno_results::write::pretty;
use dyno_sut::process_group::{self, RunningGroup};
use dyno_sut::python::find_python;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::interrupt;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
local and ray start the workers and the command. They exit when the command ends, with its exit code.
For `-- sweep` and `-- tune run`, they start a job of one process for each point or trial instead.
slurm and k8s print the input of sbatch or kubectl and submit nothing. Their workers share the load
of each point.
  dyno launch --on local --workers 2 -- run --system null --scenario server
  dyno launch --on ray --workers 8 -- tune run lenet.toml
  dyno launch --on slurm --workers 4 -- run --system onnx:m.onnx > job.sh && sbatch job.sh")]
pub struct Launch {
    /// Where to start the processes
    #[arg(long, value_name = "ENGINE")]
    on: Engine,
    /// Number of workers, of concurrent trials, or of concurrent sweep points on this machine
    #[arg(long, value_name = "N", default_value = "2")]
    workers: NonZero<u16>,
    /// Port of the coordinator [default: a free port of this machine; 7700 for slurm and k8s]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// ray: name of this machine, as the nodes resolve it
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// ray: address of the cluster [default: RAY_ADDRESS, or the cluster of this machine]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// ray: Python interpreter that has Ray [default: that of VIRTUAL_ENV, of the environment of dyno,
    /// or python3]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// ray, slurm, k8s: command that starts dyno on other machines [default: the path of this program for
    /// ray, otherwise dyno]
    #[arg(long, value_name = "FILE")]
    program: Option<String>,
    /// k8s: image that contains dyno
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// slurm, k8s: name of the job [default: dyno]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print what would be started without starting it
    #[arg(long)]
    dry_run: bool,
    /// Command to run, such as run, search, sweep or tune run, with its flags
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Processes on this machine
    Local,
    /// Actors of a Ray cluster, one per node (pip install ray)
    Ray,
    /// A batch script for Slurm
    Slurm,
    /// An Indexed Job and a headless Service for Kubernetes
    K8s,
}

/// Default port of the coordinator in scripts for Slurm and Kubernetes.
const PORT: u16 = 7_700;

impl Launch {
    /// Starts the processes, or prints the script that does.
    ///
    /// # Errors
    /// Flags that contradict each other, or a missing program or file.
    pub fn execute(self) -> Result<Exit, Failure> {
        self.check()?;
        match self.on {
            Engine::Local | Engine::Ray if self.is("tune") => return trials::run(&self),
            Engine::Slurm => output::print(script(&self.placement()))?,
            Engine::K8s => output::print(pretty(&manifest(&self.placement())))?,
            Engine::Local | Engine::Ray if self.is("sweep") => return points::run(&self),
            Engine::Local | Engine::Ray => return self.share(),
        }
        Ok(Exit::Valid)
    }

    /// Whether the command to launch is `command`.
    fn is(&self, command: &str) -> bool {
        self.command.first().is_some_and(|word| word == command)
    }

    fn check(&self) -> Result<(), Failure> {
        let known = ["run", "search", "sweep", "compare", "task", "audit", "tune"];
        let first = self.command.first().map_or("", String::as_str);
        if !known.contains(&first) {
            return Err(Failure::usage(format!(
                "dyno launch does not support the command `{first}`"
            ))
            .hint("pass the command after --, such as -- run --system null"));
        }
        let is_ours = |word: &&String| {
            ["--remote-workers", "--listen"].iter().any(|flag| word.starts_with(flag))
        };
        if let Some(flag) = self.command.iter().find(is_ours) {
            return Err(Failure::usage(format!("dyno launch sets {flag} itself")).hint(
                "remove it; use --workers for the number of workers and --port for the port",
            ));
        }
        if self.is("tune") {
            self.check_tune()?;
        }
        if self.on == Engine::K8s && self.image.is_none() {
            return Err(
                Failure::usage("pods need an image that contains dyno").hint("add --image IMAGE")
            );
        }
        if let Some((flag, engines)) = self.flag_without_effect() {
            return Err(Failure::usage(format!("{flag} has no effect: it belongs to {engines}"))
                .hint(format!("remove {flag}")));
        }
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = self.name();
        if name.is_empty() || !name.chars().all(is_name) || name.len() > 50 {
            return Err(Failure::usage(format!(
                "`{name}` is not a valid job name; expected lower-case letters, digits and hyphens"
            )));
        }
        Ok(())
    }

    /// Returns a given flag that the engine or the command does not use, and what uses it.
    fn flag_without_effect(&self) -> Option<(&'static str, &'static str)> {
        let is_ray = self.on == Engine::Ray;
        let is_script = matches!(self.on, Engine::Slurm | Engine::K8s);
        let has_coordinator = is_script || !(self.is("sweep") || self.is("tune"));
        let coordinated = "commands whose workers share a load";
        let coordinated_by_ray = "--on ray and commands whose workers share a load";
        let flags = [
            (self.port != 0, has_coordinator, "--port", coordinated),
            (self.host.is_some(), is_ray && has_coordinator, "--host", coordinated_by_ray),
            (self.address.is_some(), is_ray, "--address", "--on ray"),
            (self.python.is_some(), is_ray, "--python", "--on ray"),
            (self.program.is_some(), is_ray || is_script, "--program", "--on ray, slurm and k8s"),
            (self.image.is_some(), self.on == Engine::K8s, "--image", "--on k8s"),
            (self.name.is_some(), is_script, "--name", "--on slurm and k8s"),
        ];
        let idle = flags.into_iter().find(|(is_given, is_used, ..)| *is_given && !is_used);
        idle.map(|(_, _, flag, engines)| (flag, engines))
    }

    /// Returns the name of the job.
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("dyno")
    }

    fn check_tune(&self) -> Result<(), Failure> {
        if let Some(flag) = self.command.iter().find(|word| word.starts_with("--jobs")) {
            return Err(Failure::usage(format!("dyno launch sets {flag} itself"))
                .hint("remove it; use --workers for the number of concurrent trials"));
        }
        // A search chooses its trials while it runs, so a script cannot list them in advance.
        match self.on {
            Engine::Slurm => Err(Failure::usage("--on slurm does not support tune run").hint(
                "for one node, use sbatch --cpus-per-task=8 --wrap 'dyno tune run DESCRIPTOR \
                 --jobs 8'; for several, start Ray in the allocation and use --on ray",
            )),
            Engine::K8s => Err(Failure::usage("--on k8s does not support tune run").hint(
                "for one pod, run `dyno tune run DESCRIPTOR --jobs N` in it; for several, start \
                 Ray on the cluster (KubeRay) and use --on ray",
            )),
            Engine::Local | Engine::Ray => Ok(()),
        }
    }

    fn placement(&self) -> Placement {
        Placement {
            name: self.name().to_owned(),
            program: self.program.clone().unwrap_or_else(|| "dyno".into()),
            workers: self.workers.get().into(),
            command: self.command.clone(),
            port: if self.port == 0 { PORT } else { self.port },
            image: self.image.clone().unwrap_or_default(),
        }
    }

    /// Runs the command with workers that share its load.
    fn share(&self) -> Result<Exit, Failure> {
        let port = match self.port {
            0 if self.dry_run => PORT,
            0 => free_port()?,
            port => port,
        };
        let host = if self.on == Engine::Local { "127.0.0.1" } else { "0.0.0.0" };
        let listen = format!("{host}:{port}");
        let mut coordinator = self.command.clone();
        coordinator.extend(["--remote-workers".into(), self.workers.to_string()]);
        coordinator.extend(["--listen".into(), listen]);
        let secret = match token() {
            empty if empty.is_empty() => new_token()?,
            given => given,
        };
        // The next run may load its system for long before it listens. This process ends the workers.
        let stay = stay_flag(&self.command).map(|flag| [flag, "--within=24h"]);
        let joining = |seat: u16| {
            let (join, seat) = (format!("127.0.0.1:{port}"), seat.to_string());
            // The coordinator is the launched command itself.
            let words = ["worker", "--quiet", "--join", &join, "--seat", &seat, "--allow", "all"];
            let words = words.into_iter().chain(stay.into_iter().flatten());
            words.map(String::from).collect::<Vec<_>>()
        };
        if self.dry_run {
            let mut text = format!("dyno {}\n", coordinator.join(" "));
            match self.on {
                Engine::Local => (1..=self.workers.get())
                    .for_each(|seat| text += &format!("dyno {}\n", joining(seat).join(" "))),
                _ => text += RAY_DRIVER,
            }
            output::print(text)?;
            return Ok(Exit::Valid);
        }
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        let own = this_program()?;
        let mut helpers = Vec::new();
        if self.command.iter().any(|word| word == "--dry-run") {
            // The command only prints its plan, and no worker would find it.
        } else if self.on == Engine::Local {
            for seat in 1..=self.workers.get() {
                let mut command = Command::new(&own);
                command.args(joining(seat)).env(TOKEN, &secret);
                process_group::separate(&mut command);
                helpers.push(ManagedProcess::start(command, "a worker")?);
            }
        } else {
            // Ray does not place all processes at once.
            let flags = stay.map_or(vec!["--within=600s"], Vec::from);
            let task = json!({ "port": port, "token": secret, "flags": flags });
            helpers.push(self.ray(task, Stdio::inherit())?);
        }
        let mut command = Command::new(&own);
        command.args(&coordinator).env(TOKEN, &secret);
        let main = ManagedProcess::start(command, "the command")?;
        let ended = main.wait_for(&interrupt, &mut helpers, LAST_WORDS);
        let limit = match self.on {
            // They wait for a further run, or for one that did not begin.
            _ if stay.is_some() || matches!(ended, Err(_) | Ok(Exit::Usage | Exit::SetUp)) => 0,
            Engine::Local => LOCAL_LAST_WORDS,
            _ => LAST_WORDS,
        };
        let clock = Clock::start();
        for helper in helpers {
            helper.end(&interrupt, limit.saturating_sub(clock.now()))?;
        }
        ended
    }

    /// Starts the driver for Ray with `task` and the keys that all tasks share.
    fn ray(&self, mut task: Value, stdout: Stdio) -> Result<ManagedProcess, Failure> {
        let own = match &self.program {
            Some(program) => program.clone(),
            None => this_program()?.display().to_string(),
        };
        task["program"] = own.into();
        task["workers"] = self.workers.get().into();
        task["host"] = self.host.clone().into();
        task["address"] = self.address.clone().into();
        let python = self.python.clone().unwrap_or_else(find_python);
        let mut command = Command::new(&python);
        command.args(["-c", RAY_DRIVER]).stdin(Stdio::piped()).stdout(stdout);
        process_group::separate(&mut command);
        let mut child = command.spawn().map_err(|error| {
            Failure::set_up(format!("cannot start {}: {error}", python.display()))
                .hint("name the Python that has Ray with --python")
        })?;
        let stdin = child.stdin.as_mut().expect("it is piped");
        // If the driver ended early, its own output explains why.
        let _ = writeln!(stdin, "{task}");
        let group = Some(RunningGroup::register(&child));
        Ok(ManagedProcess { child, what: "the driver for Ray", group })
    }
}

/// A child process that is stopped when its handle is dropped.
struct ManagedProcess {
    child: Child,
    what: &'static str,
    /// The process group to kill, if closing stdin does not end the child.
    group: Option<RunningGroup>,
}

impl ManagedProcess {
    fn start(mut command: Command, what: &'static str) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).env(LIFELINE, "1");
        let child = command
            .spawn()
            .map_err(|error| Failure::set_up(format!("cannot start {what}: {error}")))?;
        Ok(Self { child, what, group: None })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let tried = self.child.try_wait();
        tried.map_err(|error| Failure::set_up(format!("cannot wait for {}: {error}", self.what)))
    }

    /// Asks the process to end, as Ctrl-C does.
    fn cut(&mut self) {
        drop(self.child.stdin.take());
        if self.group.is_some() {
            // The process may have ended already.
            let _ = self.child.kill();
        }
    }

    /// Waits until the process ends, and returns its exit code. Stops it when this process is interrupted, or
    /// `last_words` after a helper failed: a run notices a failed helper and ends, but one that has not begun
    /// would wait for ever.
    ///
    /// # Errors
    /// The helper for which the process was stopped.
    fn wait_for(
        mut self,
        interrupt: &Interrupt,
        helpers: &mut [Self],
        last_words: Nanos,
    ) -> Result<Exit, Failure> {
        let clock = Clock::start();
        let mut failed: Option<(Nanos, String)> = None;
        let mut is_stopped_for_it = false;
        loop {
            if let Some(status) = self.status()? {
                return match (exit_of(status), failed) {
                    (Exit::Interrupted, Some((_, problem))) if is_stopped_for_it => {
                        Err(Failure::set_up(problem).hint(
                            "the command was stopped for this reason; see the messages above",
                        ))
                    }
                    (exit, _) => Ok(exit),
                };
            }
            for helper in helpers.iter_mut() {
                if let Some(status) = helper.status()?.filter(|status| !status.success()) {
                    let problem = format!("{} failed: {status}", helper.what);
                    failed.get_or_insert((clock.now(), problem));
                }
            }
            if interrupt.is_asked() {
                self.cut();
            } else if failed.as_ref().is_some_and(|(at, _)| clock.now() > at + last_words) {
                is_stopped_for_it = true;
                self.cut();
            }
            dyno_experiment::sweep::pause(PAUSE, &mut |_| false);
        }
    }

    /// Waits for a helper whose work is done, and stops it if it does not end within `limit`.
    fn end(mut self, interrupt: &Interrupt, limit: Nanos) -> Result<(), Failure> {
        let mut is_over = false;
        dyno_experiment::sweep::pause(limit, &mut |_| {
            is_over = self.status().is_ok_and(|status| status.is_some());
            is_over || interrupt.is_asked()
        });
        if !is_over {
            self.cut();
        }
        let waited = self.child.wait();
        waited
            .map_err(|error| Failure::set_up(format!("cannot wait for {}: {error}", self.what)))?;
        Ok(())
    }
}

const PAUSE: Nanos = 50 * MILLISECOND;
/// How long helpers may take to end after the command, all together.
const LAST_WORDS: Nanos = 20 * SECOND;
/// How long workers of this machine may take to end. A worker that had not joined when the command ended
/// would try to join for longer.
const LOCAL_LAST_WORDS: Nanos = 5 * SECOND;

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::set_up(format!("cannot find the executable file of dyno: {error}"))
    })
}

/// Returns a port that is free at the moment.
fn free_port() -> Result<u16, Failure> {
    let port = || Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
    port().map_err(|error: std::io::Error| Failure::set_up(format!("no free port: {error}")))
}

/// Returns a random token that authenticates workers.
fn new_token() -> Result<String, Failure> {
    dyno_net::worker::new_token().ok_or_else(|| {
        Failure::set_up("this machine has no source of random numbers").hint(format!("set {TOKEN}"))
    })
}

fn exit_of(status: ExitStatus) -> Exit {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let named = Exit::ALL.into_iter().find(|exit| Some(exit.code()) == code);
    named.unwrap_or(Exit::Aborted)
}

#[cfg(all(test, unix))]
mod tests {
    use dyno_experiment::FailureKind;

    use super::*;

    fn shell(script: &str, what: &'static str) -> ManagedProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ManagedProcess::start(command, what).expect("a shell starts")
    }

    #[test]
    fn a_command_that_waits_for_a_failed_worker_is_stopped_and_the_worker_named() {
        // As an interrupted run, it ends when its standard input does.
        let command = || shell("read line; exit 130", "the command");
        let killed = || shell("kill -9 $$", "a worker");
        let interrupt = Interrupt::default();
        let failure = command().wait_for(&interrupt, &mut [killed()], 0).unwrap_err();
        assert_eq!(failure.kind(), FailureKind::SetUp);
        assert!(failure.to_string().contains("a worker failed: signal: 9"), "{failure}");
        // One that ends by itself has its own exit code.
        let ended = shell("exit 2", "the command").wait_for(&interrupt, &mut [killed()], 0);
        assert_eq!(ended.unwrap(), Exit::Usage);
        interrupt.ask();
        let ended = command().wait_for(&interrupt, &mut [killed()], 0);
        assert_eq!(ended.unwrap(), Exit::Interrupted);
    }
}
