//! `dyno npu run`: simulates networks that never run dry and share an NPU, under one scheduler or several.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_npu::bounds::throughput;
use dyno_npu::deploy::{DeploymentPlan, first_remarks};
use dyno_npu::schedule::{SCHEDULERS, SchedulerSpec};
use dyno_npu::spatial::Partitions;
use dyno_npu::streams::{StreamsResult, simulate_observed};
use dyno_report::timeline::{Bar, Timeline};
use dyno_results::write::to_named;
use serde_json::{Value, json};

use super::arguments::Sharing;
use super::simulation::{Simulation, time};

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    #[command(flatten)]
    sharing: Sharing,
    /// Schedulers, or all: compute-only, memory-only, fair, fifo, double-buffer, round-robin,
    /// stitched, ai-mt, prema, earliest-due, least-laxity, layerweaver (also with the suffix +,
    /// +printed, +precise or +laxity), balanced. Options after a colon select a reading of a paper,
    /// such as layerweaver:ties=oldest,fetch=partial; the page "NPUs, layers and mappings" lists
    /// them
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE,...],...",
        default_value = "fair,layerweaver,balanced",
        value_delimiter = ','
    )]
    scheduler: Vec<String>,
    /// Also split the PEs between two networks, in the eighths with the highest STP
    #[arg(long)]
    spatial: bool,
    /// Length of the simulation: the time of this many passes of the slowest network alone
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    passes: u64,
    /// Draw the first part of the last scheduler's timeline of both resources
    #[arg(long, value_name = "FILE.svg")]
    timeline: Option<PathBuf>,
    /// Write the same timeline as a trace for Chrome and Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
STP is the sum of all streams' rates, each relative to its rate alone. ANTT is the mean slowdown of the streams.
The bound follows from both resources: no scheduler can exceed it.
Examples:
  dyno npu run RN BB --seq 16 --mapping kcpx+1:128
  dyno npu run RN BB --seq 16 --mapping kcpx+1:128 --blocks tile --block-time 100us
  dyno npu run RN MN BB BL --npu compute-centric --batch 16 --seq 16 --scheduler all
  dyno npu run RN BB --seq 16 --mapping kcpx+1:128 --spatial
  dyno npu run RN BB --scheduler balanced --timeline rn-bb.svg --trace rn-bb.json";

impl Run {
    /// Simulates the streams and prints the results.
    ///
    /// # Errors
    /// Unknown networks, NPU or schedulers, or files that cannot be read or written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let schedulers = self.schedulers()?;
        self.sharing.check()?;
        let plan = self.sharing.plan(schedulers[0])?;
        let mut simulations = Vec::new();
        for &scheduler in &schedulers {
            let plan = DeploymentPlan { scheduler, ..plan.clone() };
            simulations.push(Simulation::new(&plan, self.passes)?);
        }
        for remark in first_remarks(simulations[0].deployment.remarks.clone()) {
            output::say(format_args!("{remark}"));
        }
        if let Some(last) = simulations.last() {
            self.draw(last)?;
        }
        if self.spatial {
            let split = self.split(&plan, &simulations[0])?;
            simulations.push(split);
        }
        let text = if self.json {
            let document = document(&plan, &simulations);
            serde_json::to_string_pretty(&document).expect("keys are texts") + "\n"
        } else {
            table(&plan, &simulations)
        };
        output::print_or_show(text, self.json).map(|()| Exit::Valid)
    }

    /// Returns the best of all splits of the PEs into eighths.
    fn split(&self, plan: &DeploymentPlan, whole: &Simulation) -> Result<Simulation, Failure> {
        const PARTS: u64 = 8;
        if plan.tenants.len() != 2 {
            return Err(Failure::usage("--spatial needs two networks")
                .hint(format!("found {}", plan.tenants.len())));
        }
        let (passes, time) = (&whole.passes, time(&whole.passes, self.passes)?);
        let mut best: Option<(f64, u64, StreamsResult)> = None;
        let mut refused = None;
        for part in 1..PARTS {
            match Partitions::new(plan, &[part, PARTS - part]) {
                Ok(parts) => {
                    let streams = parts.simulate(time);
                    let stp = streams.stp(passes);
                    if best.as_ref().is_none_or(|(most, ..)| stp > *most) {
                        best = Some((stp, part, streams));
                    }
                }
                Err(error) => refused = Some(error),
            }
        }
        let Some((_, part, streams)) = best else {
            let why = refused.map_or_else(String::new, |error| error.to_string());
            return Err(Failure::usage(format!("the PEs cannot be split: {why}")));
        };
        let name = format!("spatial {part}:{}", PARTS - part);
        Ok(Simulation {
            name,
            deployment: whole.deployment.clone(),
            passes: passes.clone(),
            streams,
        })
    }

    fn schedulers(&self) -> Result<Vec<SchedulerSpec>, Failure> {
        if self.scheduler.iter().any(|name| name == "all") {
            return Ok(SCHEDULERS.iter().map(SchedulerSpec::from).collect());
        }
        // Options are separated by commas, as schedulers are.
        let specs = SchedulerSpec::split(&self.scheduler.join(","));
        specs.iter().map(|spec| spec.parse().map_err(Failure::usage)).collect()
    }

    /// Writes what the scheduler did until each stream had about two passes, as drawing and trace.
    fn draw(&self, simulation: &Simulation) -> Result<(), Failure> {
        if self.timeline.is_none() && self.trace.is_none() {
            return Ok(());
        }
        let mut bars = Vec::new();
        let until = 2 * simulation.passes.iter().map(|pass| pass.alone).max().unwrap_or(1);
        let (deployment, passes) = (&simulation.deployment, &simulation.passes);
        let scheduler = &mut deployment.scheduler();
        simulate_observed(
            passes,
            deployment.limits,
            scheduler.as_mut(),
            until,
            |stream, block, placed| {
                let label = deployment.profiles[stream].labels.get(block).cloned();
                let label = label.unwrap_or_default();
                let fetch = [placed.fetch_start, placed.fetch_end];
                let compute = [placed.compute_start, placed.compute_end];
                bars.push(Bar { stream, label, part: None, fetch, compute });
            },
        );
        let timeline = Timeline { names: &deployment.names, bars: &bars };
        for (path, text) in [(&self.timeline, timeline.svg()), (&self.trace, timeline.trace())] {
            if let Some(path) = path {
                to_named(path, text).map_err(|error| Failure::unwritable(path, &error))?;
            }
        }
        Ok(())
    }
}

fn table(plan: &DeploymentPlan, simulations: &[Simulation]) -> String {
    let names = &simulations[0].deployment.names;
    let mut text = format!(
        "{:20} {:>7} {:>9} {:>7} {:>9} {:>7} {:>8}",
        "scheduler", "STP", "of bound", "ANTT", "slowest", "PEs", "memory"
    );
    let widths: Vec<usize> = names.iter().map(|name| name.chars().count().clamp(8, 20)).collect();
    for (name, &width) in names.iter().zip(&widths) {
        let _ = write!(text, " {:>width$}", dyno_results::units::shortened(name, width));
    }
    text.push('\n');
    for one in simulations {
        let Simulation { name, passes, streams, .. } = one;
        let (stp, [bound, _], [pes, memory]) = (streams.stp(passes), one.bounds(), one.busy());
        let _ = write!(
            text,
            "{:20} {stp:>7.3} {:>7.1} % {:>7.2} {:>8.1}x {:>5.1} % {:>6.1} %",
            name,
            100.0 * stp / bound,
            streams.antt(passes),
            streams.max_slowdown(passes),
            100.0 * pes,
            100.0 * memory,
        );
        for (stream, &width) in widths.iter().enumerate() {
            let _ = write!(text, " {:>width$.3}", streams.share(stream, passes));
        }
        text.push('\n');
    }
    let passes = &simulations[0].passes;
    let (bound, shares) = throughput(passes, false);
    let whole = throughput(passes, true).0;
    let shares: Vec<String> = shares.iter().map(|share| format!("{share:.3}")).collect();
    let _ = write!(
        text,
        "\n{} on {} ({}), batch {}: STP is at most {bound:.3} (shares {})",
        names.join(" + "),
        plan.npu.name(),
        plan.mapping,
        plan.options.batch,
        shares.join(", ")
    );
    if whole < bound {
        let _ = write!(
            text,
            ", {whole:.3} without splitting blocks, because some compute longer than the buffer \
             takes to fill"
        );
    }
    text + &notes(plan, simulations, bound)
}

/// Returns the lines below the table. `bound` is the one that was stated.
fn notes(plan: &DeploymentPlan, simulations: &[Simulation], bound: f64) -> String {
    let mut text = String::new();
    for one in simulations.iter().filter(|one| (one.bounds()[0] - bound).abs() >= 5e-4) {
        let [bound, _] = one.bounds();
        let _ = write!(
            text,
            "\n{}: its rates are relative to those alone under it, and its STP is at most {bound:.3}",
            one.name
        );
    }
    for one in simulations {
        if let Some([watts, of_a_pass]) = one.energy(plan) {
            let name = &one.name;
            let _ = write!(text, "\nenergy, {name}: {watts:.3} W, {of_a_pass:.3} mJ per pass");
        }
    }
    if simulations.iter().any(|simulation| simulation.name.starts_with("spatial")) {
        text.push_str(
            "\nspatial: each network has its part of the PEs and of the buffer; both share the \
             memory; the bound is that of the undivided array",
        );
    }
    text.push_str(
        "\nslowest: the longest wait of a stream for a pass, relative to its time alone; then each \
         stream's rate, relative to its rate alone\n",
    );
    text
}

fn document(plan: &DeploymentPlan, simulations: &[Simulation]) -> Value {
    json!({
        "npu": plan.npu.name(),
        "mapping": plan.mapping.to_string(),
        "batch": plan.options.batch,
        "schedulers":
            simulations.iter().map(|simulation| simulation.document(plan)).collect::<Vec<_>>(),
    })
}
