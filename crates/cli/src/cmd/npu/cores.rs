//! `dyno npu cores`: interleaves two networks on the cores of this machine, and compares the
//! measured gain with the predicted one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::system::npu::networks::Changes;
use dyno_loadgen::clock::Nanos;
use dyno_npu::bounds::throughput;
use dyno_npu::machine::{FetchStart, MachineLimits};
use dyno_npu::pass::Pass;
use dyno_npu::profile::{NetworkProfile, Picos};
use dyno_npu::schedule::SchedulerSpec;
use dyno_npu::streams::simulate_observed;
use dyno_npu::workload::{LayerType, Network};
use dyno_results::write::to_named;
use dyno_sut::interleaved::{DenseLayer, DenseNetwork, InterleavedNetworks, Isa};
use serde_json::json;

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Cores {
    /// Two networks as in dyno npu layers; only their fully connected layers run
    #[arg(value_name = "NETWORK|FILE", num_args = 2, default_values = ["BB", "BB"])]
    networks: Vec<String>,
    /// Rows of each product of the two networks (tokens times samples); more rows mean more
    /// multiplications per byte
    #[arg(long, value_name = "N,N", value_delimiter = ',', num_args = 1, default_value = "128,1")]
    rows: Vec<usize>,
    /// Number of threads, each with an equal part of every layer [default: the number of
    /// processors]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Scheduler that orders the blocks
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = "balanced")]
    scheduler: String,
    /// Maximum bytes of weights to prefetch; they must fit the caches
    #[arg(long, value_name = "N", default_value_t = 8_000_000)]
    buffer: u64,
    /// Number of passes of the slower network per measurement
    #[arg(long, value_name = "N", default_value_t = 10)]
    passes: u64,
    /// Number of measurements of each order, in turn; the median is reported
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Write the measured times of all blocks, one file per network, named NETWORK-FILE.csv
    #[arg(long, value_name = "FILE.csv")]
    profiles: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
STP is the sum of both networks' rates, each relative to its rate alone; it is 1 if they run one after
the other. Weights are arbitrary f32 numbers, because only times matter.
Examples:
  dyno npu cores
  dyno npu cores BB BL --rows 256,1 --workers 1 --buffer 4000000";

/// Passes of each network in an order of blocks; fractions count.
type Shares = [f64; 2];

/// Measured times of all orders.
struct GainMeasurement {
    workers: usize,
    isa: Isa,
    ps_per_byte: f64,
    profiles: Vec<NetworkProfile>,
    /// Time of a pass of each network, without and with hints, ns.
    alone: [[f64; 2]; 2],
    /// STP that the model predicts for the scheduler's order, and the upper bound of any order.
    predicted: f64,
    bound: f64,
    /// STP of each repetition: one after the other, interleaved, and interleaved with hints.
    stp: [Vec<f64>; 3],
}

impl Cores {
    /// Measures, predicts, runs and prints.
    ///
    /// # Errors
    /// Unknown networks or scheduler, or a file that cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let scheduler: SchedulerSpec = self.scheduler.parse().map_err(Failure::usage)?;
        let stacks = self.stacks()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.unwrap_or(processors).clamp(1, processors);
        if self.repeat == 0 || self.passes == 0 || self.buffer == 0 {
            return Err(Failure::usage("--repeat, --passes and --buffer: expected at least 1"));
        }
        output::say(format_args!("packing weights for {workers} workers"));
        let cores = InterleavedNetworks::new(Isa::best(), workers, &stacks);
        let measurement = self.measure(cores, workers, &scheduler);
        if let Some(path) = &self.profiles {
            for profile in &measurement.profiles {
                let end = path.file_name().and_then(|name| name.to_str()).unwrap_or("profile.csv");
                let file = path.with_file_name(format!("{}-{end}", profile.name));
                to_named(&file, profile.to_string())
                    .map_err(|error| Failure::unwritable(&file, &error))?;
            }
        }
        let text =
            if self.json { self.document(&measurement) + "\n" } else { self.table(&measurement) };
        output::print_or_show(text, self.json).map(|()| Exit::Valid)
    }

    fn stacks(&self) -> Result<Vec<DenseNetwork>, Failure> {
        let [first, second] = self.rows[..] else {
            return Err(Failure::usage("--rows: expected two numbers, such as 128,1"));
        };
        if first == 0 || second == 0 {
            return Err(Failure::usage("--rows: expected two numbers of at least 1"));
        }
        let stack = |(name, rows): (&String, usize)| {
            let network = Changes::default().network(name)?;
            stack(&network, rows).ok_or_else(|| {
                Failure::usage(format!("network `{name}` has no fully connected layers"))
                    .hint("use a transformer, such as BB, BL or XL")
            })
        };
        let mut stacks: Vec<DenseNetwork> =
            self.networks.iter().zip([first, second]).map(stack).collect::<Result<_, _>>()?;
        for (stack, rows) in stacks.iter_mut().zip([first, second]) {
            stack.name = format!("{}-{rows}", stack.name);
        }
        Ok(stacks)
    }

    fn measure(
        &self,
        mut cores: InterleavedNetworks,
        workers: usize,
        scheduler: &SchedulerSpec,
    ) -> GainMeasurement {
        output::say(format_args!("timing blocks"));
        let ps_per_byte = cores.ps_per_byte();
        let profiles: Vec<NetworkProfile> =
            (0..2).map(|stream| cores.profile(stream, ps_per_byte)).collect();
        let limits = scheduler.limits(MachineLimits {
            capacity: self.buffer,
            depth: usize::MAX,
            switch: 0,
            ps_per_byte,
            fetch: FetchStart::Whole,
        });
        let pass = |profile| Pass::new(profile, limits).map(Arc::new);
        let passes: Vec<Arc<Pass>> = profiles.iter().filter_map(pass).collect();
        let longest = passes.iter().map(|pass| pass.alone).max().unwrap_or(1);
        let time = longest.saturating_mul(self.passes);
        let mut order = Vec::new();
        let mut pick = scheduler.make(&passes);
        let streams =
            simulate_observed(&passes, limits, pick.as_mut(), time, |stream, block, _| {
                order.push((stream, block));
            });
        let shares = shares(&order, &passes);
        let serial = serial(&cores, shares);
        let mut run = |order: &[(usize, usize)], hints: bool| -> Nanos {
            if hints {
                cores.run_with_prefetch(order, &profiles, ps_per_byte, self.buffer)
            } else {
                cores.run(order)
            }
        };
        let each: [Vec<(usize, usize)>; 2] = std::array::from_fn(|stream| {
            serial.iter().copied().filter(|(of, _)| *of == stream).collect()
        });
        let counts = each.clone().map(|order| self::shares(&order, &passes));
        let mut alone = [[f64::INFINITY; 2]; 2];
        let mut took = [const { Vec::new() }; 3];
        for at in 0..self.repeat {
            output::say(format_args!("measuring {} of {}", at + 1, self.repeat));
            for stream in 0..2 {
                for (hints, alone) in alone[stream].iter_mut().enumerate() {
                    let ns = run(&each[stream], hints == 1) as f64 / counts[stream][stream];
                    *alone = alone.min(ns);
                }
            }
            for (took, (order, hints)) in
                took.iter_mut().zip([(&serial, false), (&order, false), (&order, true)])
            {
                took.push(run(order, hints) as f64);
            }
        }
        let best = alone.map(|[without, with]| without.min(with));
        let stp = |shares: Shares, took: f64| {
            shares.iter().zip(best).map(|(share, alone)| share * alone).sum::<f64>() / took
        };
        let of_serial = self::shares(&serial, &passes);
        let [one, two, three] = took;
        let stp = [(of_serial, one), (shares, two), (shares, three)]
            .map(|(shares, took)| took.into_iter().map(|took| stp(shares, took)).collect());
        let (bound, _) = throughput(&passes, true);
        let predicted = streams.stp(&passes);
        GainMeasurement {
            workers,
            isa: Isa::best(),
            ps_per_byte,
            profiles,
            alone,
            predicted,
            bound,
            stp,
        }
    }

    fn table(&self, measurement: &GainMeasurement) -> String {
        let GainMeasurement { workers, isa, profiles, alone, predicted, bound, stp, .. } =
            measurement;
        let mut text = String::new();
        let rate = 1e3 / measurement.ps_per_byte;
        let _ = writeln!(
            text,
            "{workers} workers with {isa}, f32 weights at {rate:.1} GB/s, at most {:.1} MB \
             prefetched\n",
            self.buffer as f64 / 1e6
        );
        let head = ["blocks", "compute ms", "fetch ms", "alone ms", "with hints"];
        let _ = writeln!(
            text,
            "{:<22}{:>7}{:>12}{:>10}{:>10}{:>12}",
            "network", head[0], head[1], head[2], head[3], head[4]
        );
        let millis = |picos: Picos| picos as f64 / 1e9;
        for (profile, alone) in profiles.iter().zip(alone) {
            let _ = writeln!(
                text,
                "{:<22}{:>7}{:>12.2}{:>10.2}{:>10.2}{:>12.2}",
                profile.name,
                profile.blocks.len(),
                millis(profile.compute()),
                millis(profile.fetch()),
                alone[0] / 1e6,
                alone[1] / 1e6
            );
        }
        let _ =
            writeln!(text, "\n{:<30}{:>11}{:>10}{:>18}", "STP", "predicted", "measured", "range");
        let hinted = format!("{}, with hints", self.scheduler);
        let lines = [
            ("one after the other", Some(1.0)),
            (self.scheduler.as_str(), None),
            (hinted.as_str(), Some(*predicted)),
        ];
        for ((name, predicted), stp) in lines.into_iter().zip(stp) {
            let [least, middle, most] = spread(stp);
            let predicted = predicted.map_or_else(|| "-".into(), |stp| format!("{stp:.3}"));
            let range = format!("{least:.3} to {most:.3}");
            let _ = writeln!(text, "{name:<30}{predicted:>11}{middle:>10.3}{range:>18}");
        }
        let _ = writeln!(
            text,
            "\nupper bound of any order: {bound:.3}, from the two resources of the model"
        );
        text
    }

    fn document(&self, measurement: &GainMeasurement) -> String {
        let network = |(profile, alone): (&NetworkProfile, &[f64; 2])| {
            json!({
                "name": profile.name,
                "blocks": profile.blocks.len(),
                "compute_ms": profile.compute() as f64 / 1e9,
                "fetch_ms": profile.fetch() as f64 / 1e9,
                "alone_ms": alone[0] / 1e6,
                "alone_with_hints_ms": alone[1] / 1e6,
            })
        };
        let networks: Vec<_> =
            measurement.profiles.iter().zip(&measurement.alone).map(network).collect();
        let [serial, interleaved, hinted] = &measurement.stp;
        let document = json!({
            "workers": measurement.workers,
            "instructions": measurement.isa.name(),
            "bytes_per_second": 1e12 / measurement.ps_per_byte,
            "buffer_bytes": self.buffer,
            "scheduler": self.scheduler,
            "networks": networks,
            "predicted_stp": measurement.predicted,
            "bound": measurement.bound,
            "stp": { "serial": serial, "interleaved": interleaved, "with_hints": hinted },
        });
        serde_json::to_string_pretty(&document).expect("keys are texts")
    }
}

/// Returns the fully connected layers of a network, or `None` if it has none.
fn stack(network: &Network, rows: usize) -> Option<DenseNetwork> {
    let of_rows = |layer: &&dyno_npu::workload::NetworkLayer| {
        layer.kind == LayerType::FullyConnected && layer.groups == 1
    };
    let size = |size: u64| usize::try_from(size).ok().filter(|size| *size > 0);
    let layers: Vec<DenseLayer> = network
        .layers
        .iter()
        .filter(of_rows)
        .filter_map(|layer| {
            let (inputs, outputs) = (size(layer.cin_g * layer.rs)?, size(layer.cout_g)?);
            Some(DenseLayer { name: layer.name.clone(), inputs, outputs })
        })
        .collect();
    (!layers.is_empty()).then(|| DenseNetwork { name: network.name.clone(), rows, layers })
}

/// Returns the passes of each network that the blocks amount to, by their times.
fn shares(order: &[(usize, usize)], passes: &[Arc<Pass>]) -> Shares {
    let mut shares = [0.0; 2];
    for &(stream, block) in order {
        let (pass, block) = (&passes[stream], passes[stream].blocks[block]);
        let whole = (pass.compute + pass.fetch).max(1);
        shares[stream] += (block.compute + block.fetch) as f64 / whole as f64;
    }
    shares
}

/// Returns an order of whole passes with about the same shares, the networks in turn.
fn serial(cores: &InterleavedNetworks, shares: Shares) -> Vec<(usize, usize)> {
    let counts = shares.map(|share| (share.round() as usize).max(1));
    let (mut order, mut had) = (Vec::new(), [0; 2]);
    while had != counts {
        // The network that is further behind.
        let behind = |at: usize| had[at] as f64 / counts[at] as f64;
        let at = usize::from(behind(1) < behind(0));
        order.extend(cores.pass(at));
        had[at] += 1;
    }
    order
}

/// Returns the minimum, the median and the maximum.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    [0, last / 2, last].map(|at| sorted.get(at).copied().unwrap_or(f64::NAN))
}
