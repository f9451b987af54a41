//! `dyno npu explain`: shows the next decisions of a scheduler, and the idle time that each candidate
//! would cause.

use std::fmt::Write as _;

use clap::Args;
use dyno_experiment::Failure;
use dyno_npu::deploy::{Deployment, first_remarks};
use dyno_npu::profile::Picos;
use dyno_npu::schedule::{IdleTime, Scheduler, SchedulerSpec, SchedulerView, idle_time};
use dyno_npu::streams::simulate_observed;
use dyno_results::units::shortened;
use serde_json::{Value, json};

use super::arguments::Sharing;
use super::simulation::is_short;

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Explain {
    #[command(flatten)]
    sharing: Sharing,
    /// Scheduler, as in dyno npu run, with options after a colon
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = "layerweaver")]
    scheduler: String,
    /// First decision to explain
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    from: u64,
    /// Number of decisions to explain
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    decisions: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Upper limit of `--from` and `--decisions`.
const MOST: u64 = 1_000_000;

const AFTER_HELP: &str = "\
A decision selects the stream whose next block is fetched next. The columns of each candidate are the fetch and
compute times of its block, the time that the PEs would idle before they compute it, the time that the memory would
idle before it fetches it because the weight buffer is full, and the work queued for the PEs once it is fetched.
Examples:
  dyno npu explain RN BB --seq 16 --mapping kcpx+1:128
  dyno npu explain RN BB --scheduler balanced --from 200 --decisions 10";

/// A block that could be next.
#[derive(Clone, Debug)]
struct Candidate {
    stream: usize,
    block: usize,
    fetch: Picos,
    compute: Picos,
    idle: IdleTime,
}

/// A decision of the scheduler.
#[derive(Clone, Debug)]
struct Decision {
    number: u64,
    /// When the memory becomes free.
    at: Picos,
    /// Free bytes in the buffer.
    room: u64,
    /// Work left for the PEs.
    laid_up: Picos,
    candidates: Vec<Candidate>,
    taken: usize,
    why: &'static str,
}

/// A scheduler whose decisions are recorded.
struct ObservedScheduler {
    scheduler: Box<dyn Scheduler>,
    wanted: std::ops::Range<u64>,
    number: u64,
    decisions: Vec<Decision>,
}

impl Scheduler for ObservedScheduler {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let taken = self.scheduler.pick(view);
        self.number += 1;
        if self.wanted.contains(&self.number) {
            let candidate = |(at, job): (usize, &dyno_npu::schedule::PassJob)| Candidate {
                stream: job.stream,
                block: job.next,
                fetch: job.block.fetch,
                compute: job.block.compute,
                idle: idle_time(view, at),
            };
            let machine = view.machine;
            self.decisions.push(Decision {
                number: self.number,
                at: machine.memory_free(),
                room: machine.room(),
                laid_up: machine.compute_free().saturating_sub(machine.memory_free()),
                candidates: view.jobs.iter().enumerate().map(candidate).collect(),
                taken,
                why: self.scheduler.reason(),
            });
        }
        taken
    }

    fn reason(&self) -> &'static str {
        self.scheduler.reason()
    }
}

impl ObservedScheduler {
    /// Records the stream that each decision placed: an equal stream that waited longer takes the place of the pick.
    fn record_taken(&mut self, placed: &[usize]) {
        for (decision, stream) in self.decisions.iter_mut().zip(placed) {
            let is_placed = |candidate: &Candidate| candidate.stream == *stream;
            decision.taken =
                decision.candidates.iter().position(is_placed).expect("each stream is a candidate");
        }
    }
}

impl Explain {
    /// Simulates the streams up to the last decision, and prints the decisions requested.
    ///
    /// # Errors
    /// Unknown networks, NPU or scheduler, or files that cannot be read.
    pub fn execute(self) -> Result<Exit, Failure> {
        let scheduler: SchedulerSpec = self.scheduler.parse().map_err(Failure::usage)?;
        self.sharing.check()?;
        self.sharing.hardware.figures.without_energy("explain")?;
        let plan = self.sharing.plan(scheduler)?;
        let deployment = Deployment::for_streams(&plan).map_err(Failure::usage)?;
        for remark in first_remarks(deployment.remarks.clone()) {
            output::say(format_args!("{remark}"));
        }
        let passes = deployment.largest();
        let end = self.from + self.decisions;
        let mut observed = ObservedScheduler {
            scheduler: deployment.scheduler(),
            wanted: self.from..end,
            number: 0,
            decisions: Vec::new(),
        };
        // Upper bound: each block takes its fetch time plus its compute time.
        let blocks = passes.iter().flat_map(|pass| &pass.blocks);
        let longest = blocks.map(|block| block.fetch + block.compute).max().unwrap_or(1);
        let switch = plan.npu.parameters().switch;
        let time = end.saturating_mul(longest.saturating_add(switch)).max(1);
        if !is_short(&passes, time) {
            return Err(Failure::usage("the decisions are too many for such short blocks")
                .hint("lower --from, or check that times are in us"));
        }
        let (wanted, mut number, mut placed) = (observed.wanted.clone(), 0, Vec::new());
        simulate_observed(&passes, deployment.limits, &mut observed, time, |stream, _, _| {
            number += 1;
            if wanted.contains(&number) {
                placed.push(stream);
            }
        });
        observed.record_taken(&placed);
        let text = if self.json {
            let document = document(&scheduler, &deployment, &observed.decisions);
            serde_json::to_string_pretty(&document).expect("keys are texts") + "\n"
        } else {
            tables(&deployment, &observed.decisions)
        };
        output::print_or_show(text, self.json).map(|()| Exit::Valid)
    }
}

fn us(time: Picos) -> f64 {
    time as f64 / 1e6
}

impl Candidate {
    fn layer<'a>(&self, deployment: &'a Deployment) -> &'a str {
        deployment.profiles[self.stream].labels.get(self.block).map_or("", String::as_str)
    }

    /// Returns the work for the PEs that its fetch makes available.
    fn laid_up(&self) -> Picos {
        self.idle.placement.compute_end.saturating_sub(self.idle.placement.fetch_end)
    }
}

fn tables(deployment: &Deployment, decisions: &[Decision]) -> String {
    let mut text = String::new();
    for decision in decisions {
        let _ = writeln!(
            text,
            "decision {} at {:.1} us: the buffer has room for {:.1} MB, the PEs have work for {:.1} us",
            decision.number,
            us(decision.at),
            decision.room as f64 / 1e6,
            us(decision.laid_up),
        );
        let _ = writeln!(
            text,
            "  {:8} {:24} {:>9} {:>11} {:>10} {:>12} {:>12}",
            "network", "layer", "fetch us", "compute us", "PEs idle", "memory idle", "queued us"
        );
        for (at, candidate) in decision.candidates.iter().enumerate() {
            let _ = writeln!(
                text,
                "{} {:8} {:24} {:>9.2} {:>11.2} {:>10.2} {:>12.2} {:>12.2}",
                if at == decision.taken { '>' } else { ' ' },
                shortened(&deployment.names[candidate.stream], 8),
                shortened(candidate.layer(deployment), 24),
                us(candidate.fetch),
                us(candidate.compute),
                us(candidate.idle.compute),
                us(candidate.idle.memory),
                us(candidate.laid_up()),
            );
        }
        let taken = &decision.candidates[decision.taken];
        let _ = writeln!(text, "  {}: {}\n", deployment.names[taken.stream], decision.why);
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn document(scheduler: &SchedulerSpec, deployment: &Deployment, decisions: &[Decision]) -> Value {
    let of_candidate = |candidate: &Candidate| {
        json!({
            "network": deployment.names[candidate.stream],
            "layer": candidate.layer(deployment),
            "fetch_us": us(candidate.fetch),
            "compute_us": us(candidate.compute),
            "pe_idle_us": us(candidate.idle.compute),
            "memory_idle_us": us(candidate.idle.memory),
            "laid_up_us": us(candidate.laid_up()),
        })
    };
    let decision_json = |decision: &Decision| {
        json!({
            "number": decision.number,
            "at_us": us(decision.at),
            "room_bytes": decision.room,
            "laid_up_us": us(decision.laid_up),
            "candidates": decision.candidates.iter().map(of_candidate).collect::<Vec<_>>(),
            "taken": decision.taken,
            "why": decision.why,
        })
    };
    json!({
        "scheduler": scheduler.to_string(),
        "decisions": decisions.iter().map(decision_json).collect::<Vec<_>>(),
    })
}
