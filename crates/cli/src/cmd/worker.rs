//! `dyno worker`: runs a share of a coordinator's runs on this machine.

use std::time::Duration;

use clap::Args;
use dyno_experiment::member::{Consent, GRAMMAR, Grant, WorkerRig};
use dyno_experiment::workers::{TOKEN, token};
use dyno_experiment::{Failure, Interrupt, environment};
use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos};
use dyno_net::worker::member::{JoinSettings, Member, MemberError};
use dyno_results::units;

use crate::exit::Exit;
use crate::interrupt;
use crate::output;
use crate::output::console;

const AFTER_HELP: &str = "\
The coordinator is `dyno run --remote-workers N --listen ADDRESS`, or search, compare or sweep with
these flags. It names the system to measure; its files must also be on this machine.
Both sides need the same secret in the environment variable DYNO_WORKER_TOKEN, unless both belong to
one user of this machine and connect over loopback. From other coordinators a worker accepts files,
environment variables, libraries and servers only with a grant, such as --allow hosts:gpu. Environment
variables always need one:
";

#[derive(Debug, Args)]
#[command(after_help = format!("{AFTER_HELP}{GRAMMAR}"))]
pub struct Worker {
    /// Address of the coordinator
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    join: String,
    /// Let the coordinator use these files, variables, libraries or servers; repeatable
    #[arg(long, value_name = "WHAT")]
    allow: Vec<Grant>,
    /// Place among the workers, from 1; 0 takes any. The coordinator refuses a place that does not
    /// exist or is taken
    #[arg(long, value_name = "N", default_value_t = 0)]
    seat: u32,
    /// How long to keep retrying the connection
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::parse_duration)]
    within: Nanos,
    /// Join the next run when a run is over, until no coordinator listens for --within
    #[arg(long)]
    stay: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// Reads the address of a coordinator.
fn address(text: &str) -> Result<String, String> {
    let is_address = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if is_address {
        Ok(text.to_owned())
    } else {
        Err(format!("expected HOST:PORT, such as 10.0.0.1:7700, found `{text}`"))
    }
}

/// Pause between two attempts.
const PAUSE: Nanos = 200 * MILLISECOND;
/// A worker ends within this time after an interrupt.
const GRACE: Nanos = 1_500 * MILLISECOND;
/// Interval between two checks for an interrupt.
const GLANCE: Duration = Duration::from_millis(50);

/// Ends this process after an interrupt if it does not end by itself: name lookup, model loading
/// and calls of a blocked system cannot be interrupted.
fn end_in_time(interrupt: &Interrupt) -> std::io::Result<()> {
    let interrupt = interrupt.clone();
    let watch = move || {
        while !interrupt.is_asked() {
            std::thread::park_timeout(GLANCE);
        }
        let clock = Clock::start();
        while clock.now() < GRACE {
            std::thread::park_timeout(GLANCE);
        }
        crate::interrupt::ask();
    };
    std::thread::Builder::new().name("end in time".into()).spawn(watch).map(drop)
}

impl Worker {
    /// Joins the coordinator and works until its runs are over.
    ///
    /// # Errors
    /// No coordinator can be joined, or the connection to it is lost.
    pub fn execute(self) -> Result<Exit, Failure> {
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        end_in_time(&interrupt).map_err(Failure::set_up)?;
        let mut runs = 0_u64;
        loop {
            let Some(member) = self.join(&interrupt, runs)? else {
                return Ok(if runs > 0 { Exit::Valid } else { Exit::Interrupted });
            };
            let share = member.share();
            self.say(format_args!(
                "joined {} as worker {} of {}",
                self.join,
                share.index + 1,
                share.clients
            ));
            let consent = Consent { grants: self.allow.clone(), is_local: member.is_local() };
            let mut rig = WorkerRig::new(consent, share, console());
            let served = member.serve(&mut rig, &|| !interrupt.is_asked());
            match served {
                Ok(()) => {}
                Err(MemberError::Interrupted) => return Ok(Exit::Interrupted),
                Err(error @ MemberError::Gone(_)) if self.stay => {
                    output::say(format_args!("warning: {error}"));
                }
                Err(error @ MemberError::Gone(_)) => return Err(Failure::aborted(error)),
                Err(error) => return Err(Failure::set_up(error)),
            }
            runs += 1;
            if !self.stay {
                return Ok(Exit::Valid);
            }
        }
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        if !self.quiet {
            output::say(what);
        }
    }

    /// Retries until a coordinator answers. Returns `None` if interrupted, or if no further run comes
    /// after `runs` runs.
    fn join(&self, interrupt: &Interrupt, runs: u64) -> Result<Option<Member>, Failure> {
        let host = environment::host_name().unwrap_or_else(|| "unnamed machine".into());
        let join = JoinSettings {
            address: self.join.clone(),
            token: token(),
            machine: environment::boot_id(),
            release: env!("CARGO_PKG_VERSION").into(),
            name: format!("{host}, process {}", std::process::id()),
            seat: self.seat,
        };
        let clock = Clock::start();
        let mut is_waiting = false;
        loop {
            let error = match Member::join(&join) {
                Ok(member) => return Ok(Some(member)),
                Err(error) => error,
            };
            if interrupt.is_asked() {
                return Ok(None);
            }
            let is_over = clock.now() >= self.within;
            // With `--stay`, coordinators may be about to end or may have all workers they need.
            let may_pass = match error {
                MemberError::Unreachable { .. } => true,
                MemberError::Gone(_) | MemberError::Refused(_) => runs > 0,
                _ => false,
            };
            if may_pass && is_over && runs > 0 {
                return Ok(None);
            }
            if !may_pass || is_over {
                let failure = Failure::set_up(&error);
                return Err(match error {
                    MemberError::NotTheCoordinator | MemberError::NoToken => {
                        failure.hint(format!("set {TOKEN} to the same secret on both sides"))
                    }
                    MemberError::Unreachable { .. } => failure.hint(
                        "start dyno run --remote-workers N --listen ADDRESS on that machine, or \
                         raise --within",
                    ),
                    MemberError::Refused(_) if self.seat > 0 => {
                        failure.hint("without --seat, a worker takes any free seat")
                    }
                    _ => failure,
                });
            }
            if !is_waiting {
                self.say(format_args!("waiting for a coordinator at {}", self.join));
                is_waiting = true;
            }
            dyno_experiment::sweep::pause(PAUSE, &mut |_| interrupt.is_asked());
            if interrupt.is_asked() {
                return Ok(None);
            }
        }
    }
}
