//! `dyno npu run`: networks that never run dry share an NPU, under one scheduler or several.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dyno_npu::bounds::throughput;
use dyno_npu::deploy::{Deployment, Plan, Tenant};
use dyno_npu::pass::Pass;
use dyno_npu::profile::Picos;
use dyno_npu::schedule::{Named, SCHEDULERS};
use dyno_npu::streams::{Streams, play, play_watched};
use serde_json::{Value, json};

use super::given::{Blocks, Changes, Hardware};
use super::timeline::{Bar, Timeline};
use crate::exit::{Exit, Failure};
use crate::output;

/// Which networks, on which NPU, under which schedulers.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    /// Networks as in dyno npu layers; each is a stream whose passes follow one another
    #[arg(value_name = "NETWORK|FILE", required = true)]
    networks: Vec<String>,
    #[command(flatten)]
    hardware: Hardware,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    blocks: Blocks,
    /// Schedulers, or all of them: compute-only, memory-only, fair, fifo, double-buffer, round-robin,
    /// stitched, ai-mt, prema, earliest-due, least-laxity, layerweaver (and with +, +printed, +precise
    /// or +laxity behind it), balanced
    #[arg(
        long,
        value_name = "NAME,...",
        default_value = "fair,layerweaver,balanced",
        value_delimiter = ','
    )]
    scheduler: Vec<String>,
    /// Go on for as long as so many passes of the slowest network take alone
    #[arg(long, value_name = "N", default_value_t = 200)]
    passes: u64,
    /// Draw what the last scheduler did with both resources at first
    #[arg(long, value_name = "FILE.svg")]
    timeline: Option<PathBuf>,
    /// Write the same as a trace that Chrome and Perfetto show
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Print a document for programs
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
STP is the sum of all streams' rates, each in those it has alone; ANTT the mean of what they are slowed down by.
The bound is that of both resources: no scheduler can have more.
Examples:
  dyno npu run RN BB --seq 16 --mapping kcpx+1:128
  dyno npu run RN BB --seq 16 --mapping kcpx+1:128 --blocks tile --block-time 100us
  dyno npu run RN MN BB BL --npu compute-centric --batch 16 --seq 16 --scheduler all
  dyno npu run RN BB --scheduler balanced --timeline rn-bb.svg --trace rn-bb.json";

/// What a scheduler made of it.
struct Played {
    scheduler: &'static Named,
    deployment: Deployment,
    passes: Vec<Arc<Pass>>,
    streams: Streams,
}

impl Run {
    /// Plays the streams and prints what came of them.
    ///
    /// # Errors
    /// Networks, an NPU or schedulers that there are not; files that cannot be read or written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let schedulers = self.schedulers()?;
        let plan = self.plan(schedulers[0])?;
        let mut played = Vec::new();
        for &scheduler in &schedulers {
            let plan = Plan { scheduler, ..plan.clone() };
            let deployment = Deployment::new(&plan).map_err(Failure::usage)?;
            let passes = deployment.largest();
            let time = self.time(&passes)?;
            let streams = play(&passes, deployment.limits, deployment.scheduler().as_mut(), time);
            played.push(Played { scheduler, deployment, passes, streams });
        }
        for remark in &played[0].deployment.remarks {
            output::say(format_args!("{remark}"));
        }
        if let Some(last) = played.last() {
            self.draw(last)?;
        }
        let text = match self.json {
            true => {
                let document = document(&plan, &played);
                serde_json::to_string_pretty(&document).expect("keys are texts") + "\n"
            }
            false => table(&plan, &played),
        };
        output::print(text).map(|()| Exit::Valid)
    }

    fn schedulers(&self) -> Result<Vec<&'static Named>, Failure> {
        if self.scheduler.iter().any(|name| name == "all") {
            return Ok(SCHEDULERS.iter().collect());
        }
        self.scheduler.iter().map(|name| Named::find(name).map_err(Failure::usage)).collect()
    }

    fn plan(&self, scheduler: &'static Named) -> Result<Plan, Failure> {
        let (npu, mapping) = self.hardware.read()?;
        let tenant = |name: &String| {
            let network = self.changes.network_of_several(name)?;
            Ok(Tenant { network, limit: Picos::MAX })
        };
        let tenants = self.networks.iter().map(tenant).collect::<Result<_, Failure>>()?;
        Ok(Plan { npu, mapping, options: self.blocks.options(), tenants, scheduler })
    }

    /// How long to play.
    fn time(&self, passes: &[Arc<Pass>]) -> Result<Picos, Failure> {
        let longest = passes.iter().map(|pass| pass.alone).max().unwrap_or(1);
        longest.checked_mul(self.passes.max(1)).ok_or_else(|| {
            Failure::usage(format!("{} passes take longer than 213 days", self.passes))
                .hint("give fewer --passes")
        })
    }

    /// What the scheduler did until each stream had about two passes, as files.
    fn draw(&self, played: &Played) -> Result<(), Failure> {
        if self.timeline.is_none() && self.trace.is_none() {
            return Ok(());
        }
        let mut bars = Vec::new();
        let until = 2 * played.passes.iter().map(|pass| pass.alone).max().unwrap_or(1);
        let (deployment, passes) = (&played.deployment, &played.passes);
        let scheduler = &mut deployment.scheduler();
        play_watched(
            passes,
            deployment.limits,
            scheduler.as_mut(),
            until,
            |stream, block, placed| {
                bars.push(Bar { stream, block, placed: *placed });
            },
        );
        let timeline =
            Timeline { names: &deployment.names, profiles: &deployment.profiles, bars: &bars };
        for (path, text) in [(&self.timeline, timeline.svg()), (&self.trace, timeline.trace())] {
            if let Some(path) = path {
                std::fs::write(path, text).map_err(|error| {
                    Failure::set_up(format!("cannot write {}: {error}", path.display()))
                })?;
            }
        }
        Ok(())
    }
}

/// Shares of a run, of `whole`.
fn percent(part: Picos, whole: Picos) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn table(plan: &Plan, played: &[Played]) -> String {
    let names = &played[0].deployment.names;
    let mut text = format!(
        "{:20} {:>7} {:>9} {:>7} {:>9} {:>7} {:>8}",
        "scheduler", "STP", "of bound", "ANTT", "slowest", "PEs", "memory"
    );
    for name in names {
        let _ = write!(text, " {:>8}", crate::render::shortened(name, 8));
    }
    text.push('\n');
    for Played { scheduler, passes, streams, .. } in played {
        let (stp, bound) = (streams.stp(passes), throughput(passes, false).0);
        let _ = write!(
            text,
            "{:20} {stp:>7.3} {:>7.1} % {:>7.2} {:>8.1}x {:>5.1} % {:>6.1} %",
            scheduler.name,
            100.0 * stp / bound,
            streams.antt(passes),
            streams.max_slowdown(passes),
            percent(streams.compute_busy, streams.lasted),
            percent(streams.memory_busy, streams.lasted),
        );
        for stream in 0..names.len() {
            let _ = write!(text, " {:>8.3}", streams.share(stream, passes));
        }
        text.push('\n');
    }
    let passes = &played[0].passes;
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
            ", {whole:.3} with blocks as they are: some compute longer than the buffer takes to fill"
        );
    }
    text.push_str("\nslowest: the longest that a stream waited for a pass, in its time alone; then each stream's share of its rate alone\n");
    text
}

fn document(plan: &Plan, played: &[Played]) -> Value {
    let of = |Played { scheduler, deployment, passes, streams }: &Played| {
        let stream = |at: usize| {
            json!({
                "network": deployment.names[at],
                "share": streams.share(at, passes),
                "passes": streams.streams[at].passes,
                "alone_us": passes[at].alone as f64 / 1e6,
                "compute_us": passes[at].compute as f64 / 1e6,
                "fetch_us": passes[at].fetch as f64 / 1e6,
            })
        };
        json!({
            "scheduler": scheduler.name,
            "stp": streams.stp(passes),
            "stp_bound": throughput(passes, false).0,
            "stp_bound_of_blocks": throughput(passes, true).0,
            "antt": finite(streams.antt(passes)),
            "max_slowdown": streams.max_slowdown(passes),
            "pe_busy": percent(streams.compute_busy, streams.lasted) / 100.0,
            "memory_busy": percent(streams.memory_busy, streams.lasted) / 100.0,
            "blocks": streams.blocks,
            "lasted_us": streams.lasted as f64 / 1e6,
            "streams": (0..passes.len()).map(stream).collect::<Vec<_>>(),
        })
    };
    json!({
        "npu": plan.npu.name(),
        "mapping": plan.mapping.to_string(),
        "batch": plan.options.batch,
        "schedulers": played.iter().map(of).collect::<Vec<_>>(),
    })
}

/// None for a stream that had no pass.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
