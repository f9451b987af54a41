//! Arguments of NPU commands: networks, an NPU, and the mapping between them.

use clap::{Args, ValueEnum};
use dyno_experiment::Failure;
use dyno_experiment::system::npu::networks::{Changes, Hardware, MAPPING, NPU};
use dyno_loadgen::clock::Nanos;
use dyno_npu::deploy::{DeploymentPlan, Tenant};
use dyno_npu::lowering::{Folding, Granularity, LoweringOptions, Traffic};
use dyno_npu::profile::Picos;
use dyno_npu::schedule::SchedulerSpec;

/// The NPU, and how layers are laid over its PEs.
#[derive(Clone, Debug, Args)]
pub struct HardwareArgs {
    /// NPU: compute-centric, memory-centric, chapter-v, tpu-v1, tpu-v2, tpu-v3, tpu-v4i, nnp-i, or
    /// a description in TOML
    #[arg(long, value_name = "NAME|FILE.toml", default_value = NPU)]
    pub npu: String,
    /// Mapping of products onto PEs: peak, sys, sys+fill, kcp, kcp+1, kcpx, kcpx+1; after a colon,
    /// the PEs of a row or a cluster
    #[arg(long, value_name = "NAME[:WIDTH]", default_value = MAPPING)]
    pub mapping: String,
    /// Effect of the number of bits on computation: fixed (none), packed (two 8-bit products
    /// replace one 16-bit product, and so on), bit-serial (cycles in proportion to the bits of
    /// inputs) [default: that of the NPU's description, else fixed]
    #[arg(long, value_name = "NAME")]
    arithmetic: Option<String>,
    #[command(flatten)]
    pub figures: Figures,
}

/// Figures that override those of the NPU.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Parts of the NPU")]
pub struct Figures {
    /// Number of PEs [default: that of the NPU]
    #[arg(long, value_name = "N", value_parser = figure)]
    pes: Option<f64>,
    /// Frequency in MHz [default: that of the NPU]
    #[arg(long, value_name = "N", value_parser = figure)]
    frequency_mhz: Option<f64>,
    /// Memory bandwidth in 10^9 bytes/s [default: that of the NPU]
    #[arg(long, value_name = "N", value_parser = figure)]
    memory_gb_per_s: Option<f64>,
    /// Weight buffer in 10^6 bytes [default: that of the NPU]
    #[arg(long, value_name = "N", value_parser = figure)]
    weight_buffer_mb: Option<f64>,
    /// Activation buffer in 10^6 bytes [default: that of the NPU]
    #[arg(long, value_name = "N", value_parser = figure)]
    activation_buffer_mb: Option<f64>,
    /// Cost of a switch between networks in us [default: that of the NPU]
    #[arg(long, value_name = "N", value_parser = figure)]
    switch_us: Option<f64>,
    /// Energy of a multiply-accumulate in pJ; presets define none
    #[arg(long, value_name = "N", value_parser = figure)]
    mac_pj: Option<f64>,
    /// Energy of a byte of memory traffic in pJ; presets define none
    #[arg(long, value_name = "N", value_parser = figure)]
    memory_byte_pj: Option<f64>,
    /// Static power in W; presets define none
    #[arg(long, value_name = "N", value_parser = figure)]
    static_w: Option<f64>,
}

/// Parses a figure in the range that descriptions may use.
fn figure(text: &str) -> Result<f64, String> {
    let figure = text.parse().ok().filter(|figure| (0.0..=1e12).contains(figure));
    figure.ok_or_else(|| "expected a number of 0 to 1e12".to_owned())
}

impl Figures {
    /// Rejects energy figures in a command that computes no energy.
    ///
    /// # Errors
    /// The first of these flags.
    pub fn without_energy(&self, command: &str) -> Result<(), Failure> {
        let figures = [
            ("--mac-pj", self.mac_pj),
            ("--memory-byte-pj", self.memory_byte_pj),
            ("--static-w", self.static_w),
        ];
        let Some((flag, _)) = figures.into_iter().find(|(_, figure)| figure.is_some()) else {
            return Ok(());
        };
        let problem = format!("{flag} has no effect: dyno npu {command} computes no energy");
        Err(Failure::usage(problem).hint("remove it, or use dyno npu run, layers or sweep"))
    }

    fn given(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("pes", self.pes),
            ("frequency_mhz", self.frequency_mhz),
            ("memory_gb_per_s", self.memory_gb_per_s),
            ("weight_buffer_mb", self.weight_buffer_mb),
            ("activation_buffer_mb", self.activation_buffer_mb),
            ("switch_us", self.switch_us),
            ("mac_pj", self.mac_pj),
            ("memory_byte_pj", self.memory_byte_pj),
            ("static_w", self.static_w),
        ];
        all.into_iter().filter_map(|(key, figure)| Some((key, figure?)))
    }
}

impl HardwareArgs {
    /// Returns the NPU that the flags describe.
    pub fn hardware(&self) -> Hardware {
        Hardware {
            npu: self.npu.clone(),
            mapping: self.mapping.clone(),
            figures: self.figures.given().collect(),
            arithmetic: self.arithmetic.clone(),
        }
    }
}

/// Changes to networks before they are mapped onto an NPU.
#[derive(Clone, Debug, Default, Args)]
pub struct ChangesArgs {
    /// Tokens per sample, for networks with sequences
    #[arg(long, value_name = "N")]
    pub seq: Option<u64>,
    /// Bits of all weights [default: those of the table]
    #[arg(long, value_name = "N")]
    weight_bits: Option<u32>,
    /// Bits of all activations [default: those of the table, else 16]
    #[arg(long, value_name = "N")]
    activation_bits: Option<u32>,
    /// Size of a dynamic dimension of an ONNX model [default: 1]
    #[arg(long, value_name = "NAME=N", value_parser = dimension)]
    bind: Vec<(String, usize)>,
}

/// Reads a dimension and its size.
pub fn dimension(text: &str) -> Result<(String, usize), String> {
    let wrong = || "expected a name and a number of at least 1, such as S=64".to_owned();
    let (name, number) = text.split_once('=').ok_or_else(wrong)?;
    let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
    Ok((name.to_owned(), number))
}

impl ChangesArgs {
    /// Returns the changes that the flags ask for.
    pub fn changes(&self) -> Changes {
        Changes {
            seq: self.seq,
            weight_bits: self.weight_bits,
            activation_bits: self.activation_bits,
            bind: self.bind.clone(),
        }
    }
}

/// Default size of a fused group or of a tile, bytes.
const BLOCK_BYTES: u64 = 1_000_000;

/// Rules for dividing a network into blocks.
#[derive(Clone, Debug, Args)]
pub struct Blocks {
    /// Batch size
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: u64,
    /// Treat products of two activations as separate layers, not as part of the next layer
    #[arg(long)]
    apart: bool,
    /// Unit that is scheduled
    #[arg(long, value_enum, default_value_t = Grain::Layer)]
    blocks: Grain,
    /// Maximum weights of a fused group or a tile in bytes [default: 1000000]
    #[arg(long, value_name = "N")]
    block_bytes: Option<u64>,
    /// Maximum compute time of a tile; replaces the limit in bytes unless --block-bytes is given
    #[arg(long, value_name = "TIME", value_parser = dyno_results::units::parse_duration)]
    block_time: Option<Nanos>,
    /// Count activations that do not fit their buffer as written to memory and read again
    #[arg(long)]
    spill: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Grain {
    /// Group of layers with few weights
    Fused,
    /// Layer
    Layer,
    /// Part of a layer
    Tile,
}

impl Blocks {
    /// Returns the options of lowering.
    ///
    /// # Errors
    /// A limit of blocks that `--blocks` does not have.
    pub fn options(&self) -> Result<LoweringOptions, Failure> {
        let (is_bytes, is_time) = (self.block_bytes.is_some(), self.block_time.is_some());
        let unused = match self.blocks {
            Grain::Layer if is_bytes => Some(("--block-bytes", "fused groups and tiles", "tile")),
            Grain::Layer | Grain::Fused if is_time => Some(("--block-time", "tiles", "tile")),
            _ => None,
        };
        if let Some((flag, what, blocks)) = unused {
            let problem = format!("{flag} has no effect: it is a limit of {what}");
            return Err(Failure::usage(problem).hint(format!("add --blocks {blocks}")));
        }
        let bytes = self.block_bytes.unwrap_or(if self.block_time.is_some() {
            u64::MAX
        } else {
            BLOCK_BYTES
        });
        let time = self.block_time.map_or(Picos::MAX, |ns| ns.saturating_mul(1_000));
        Ok(LoweringOptions {
            batch: self.batch,
            folding: if self.apart { Folding::Apart } else { Folding::IntoNext },
            granularity: match self.blocks {
                Grain::Fused => Granularity::Fused { bytes },
                Grain::Layer => Granularity::Layer,
                Grain::Tile => Granularity::Tile { bytes, time },
            },
            traffic: if self.spill { Traffic::WithActivations } else { Traffic::Weights },
        })
    }
}

/// Networks that share an NPU: each is a stream whose passes follow one another.
#[derive(Clone, Debug, Args)]
pub struct Sharing {
    /// Networks as in dyno npu layers; each is a stream of consecutive passes
    #[arg(value_name = "NETWORK|FILE", required = true)]
    pub networks: Vec<String>,
    #[command(flatten)]
    pub hardware: HardwareArgs,
    #[command(flatten)]
    pub changes: ChangesArgs,
    #[command(flatten)]
    pub blocks: Blocks,
}

impl Sharing {
    /// Rejects changes that apply to none of the networks.
    ///
    /// # Errors
    /// The change; unknown networks, or files that cannot be read.
    pub fn check(&self) -> Result<(), Failure> {
        self.changes.changes().networks(&self.networks).map(drop)
    }

    /// Returns the deployment of the networks under this scheduler.
    ///
    /// # Errors
    /// Unknown networks or NPU, or files that cannot be read.
    pub fn plan(&self, scheduler: SchedulerSpec) -> Result<DeploymentPlan, Failure> {
        let (npu, mapping) = self.hardware.hardware().read()?;
        let tenant = |name: &String| {
            let network = self.changes.changes().network_of_several(name)?;
            Ok(Tenant { network, limit: Picos::MAX })
        };
        let tenants = self.networks.iter().map(tenant).collect::<Result<_, Failure>>()?;
        Ok(DeploymentPlan { npu, mapping, options: self.blocks.options()?, tenants, scheduler })
    }
}
