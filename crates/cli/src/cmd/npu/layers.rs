//! `dyno npu layers`: prints the compute and fetch time of each layer.

use std::fmt::Write as _;

use clap::Args;
use dyno_experiment::Failure;
use dyno_npu::balance::{Bottleneck, LayerTimes, PassTotals, intensity, times};
use dyno_npu::deploy::first_remarks;
use dyno_npu::hardware::Npu;
use dyno_npu::lowering::{Lowering, LoweringError, LoweringOptions, lower};
use dyno_npu::mapping::Mapping;
use dyno_npu::workload::Network;
use dyno_results::units;
use serde_json::{Value, json};

use super::arguments::{Blocks, ChangesArgs, HardwareArgs};

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Layers {
    /// Code of a network (see below), phase of a decoder such as llama2-7b-decode, graph of dyno
    /// task layers, table, or ONNX model
    #[arg(value_name = "NETWORK|FILE")]
    network: String,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    changes: ChangesArgs,
    #[command(flatten)]
    blocks: Blocks,
    /// Print the layer table of the network, which simulators read
    #[arg(long, group = "form")]
    csv: bool,
    /// Print the times of the blocks as CSV
    #[arg(long, group = "form")]
    times: bool,
    /// Print JSON
    #[arg(long, group = "form")]
    json: bool,
}

const AFTER_HELP: &str = "\
Codes: IC (Inception v3), MN (MobileNet v2), RN (ResNet-50), RX (ResNeXt-50), BB and BL (BERT base and large),
XL (XLNet large), NCF, NCFW (an estimate of NCF). Transformers have 64 tokens unless --seq is given.
The compute time of a layer is that of its cycles; its fetch time is its bytes divided by the memory bandwidth.
Columns of a table: name, type, groups, m, cin_g, rs, cout_g, macs, weight_bytes, in_act_bytes, out_act_bytes,
weights_scale_with_batch; and optionally weight_bits, in_act_bits, out_act_bits, stream_bytes (further bytes
through the memory interface), seq_len and seq_sizes (the number of tokens, and the sizes that grow with it).
Examples:
  dyno npu layers RN
  dyno npu layers BB --npu compute-centric --batch 16 --seq 16 --mapping kcpx+1:128
  dyno npu layers llama2-7b-decode --seq 2048 --batch 8 --npu tpu-v4i";

impl Layers {
    /// Prints the table.
    ///
    /// # Errors
    /// An unknown network, NPU or mapping, or files that cannot be read.
    pub fn execute(self) -> Result<Exit, Failure> {
        let network = self.changes.changes().network(&self.network)?;
        if network.measured.is_some() && !self.times {
            let problem = format!("{} contains measured times, not layers", self.network);
            return Err(Failure::usage(problem).hint(
                "use --times to print them as blocks that fit the NPU, or dyno npu run to simulate \
                 them",
            ));
        }
        if self.csv {
            return output::show(network.to_string()).map(|()| Exit::Valid);
        }
        let (npu, mapping) = self.hardware.hardware().read()?;
        let options = self.blocks.options()?;
        let lowering = lower(&network, &npu, mapping, &options).map_err(Failure::usage)?;
        let mapped =
            MappedNetwork { network: &network, npu: &npu, mapping, options, lowering: &lowering };
        let text = match (self.times, self.json) {
            (true, _) => lowering.profile.to_string(),
            (_, true) => {
                let document = mapped.document().map_err(Failure::usage)?;
                serde_json::to_string_pretty(&document).expect("keys are texts") + "\n"
            }
            _ => mapped.table().map_err(Failure::usage)?,
        };
        output::print_or_show(text, self.json && !self.times).map(|()| Exit::Valid)
    }
}

/// A network on an NPU.
struct MappedNetwork<'a> {
    network: &'a Network,
    npu: &'a Npu,
    mapping: Mapping,
    options: LoweringOptions,
    lowering: &'a Lowering,
}

/// Columns of a layer's name.
const NAME: usize = 24;

impl MappedNetwork<'_> {
    /// Returns the times of each layer alone.
    fn times(&self) -> Result<Vec<LayerTimes>, LoweringError> {
        let layer_times = |layer: &dyno_npu::workload::NetworkLayer| {
            let found = times(layer, self.npu, self.mapping, self.options.batch);
            found.ok_or_else(|| LoweringError::TooLong { layer: layer.name.clone() })
        };
        self.network.layers.iter().map(layer_times).collect()
    }

    fn pass(&self) -> PassTotals {
        PassTotals::new(self.network, self.npu, &self.options, self.lowering)
    }

    fn table(&self) -> Result<String, LoweringError> {
        let Self { network, npu, mapping, options, lowering } = self;
        let batch = options.batch;
        let mut text = format!(
            "{:NAME$} {:10} {:>15} {:>10} {:>12} {:>12}  limited by\n",
            "layer", "type", "macs", "bytes", "compute us", "fetch us"
        );
        for (layer, time) in network.layers.iter().zip(self.times()?) {
            let _ = writeln!(
                text,
                "{:NAME$} {:10} {:>15} {:>10} {:>12.3} {:>12.3}  {}",
                layer.name,
                layer.kind.name(),
                units::count(layer.macs().saturating_mul(batch)),
                units::bytes(layer.fetched(batch)),
                micros(time.compute),
                micros(time.fetch),
                Bottleneck::from_times(time.compute, time.fetch).name(),
            );
        }
        let pass = self.pass();
        let seq = network.seq_len.map_or(String::new(), |seq| format!(", {seq} tokens"));
        let _ = writeln!(
            text,
            "\n{} on {} ({mapping}), batch {batch}{seq}: compute {:.3} us, fetch {:.3} us, limited \
             by {}",
            network.name,
            npu.name(),
            micros(pass.compute),
            micros(pass.fetch),
            match pass.bottleneck() {
                Bottleneck::Compute => "the PEs",
                Bottleneck::Memory => "the memory",
            },
        );
        let _ = writeln!(
            text,
            "{:.1} operations per byte; {} balances at {:.1}; PEs reach {:.1} % of their peak \
             while they compute",
            intensity(network, batch),
            npu.name(),
            npu.balance(),
            100.0 * pass.utilization(npu),
        );
        let _ = writeln!(
            text,
            "{} blocks; computing takes at least as long as fetching in {} of them",
            pass.blocks, pass.compute_bound
        );
        let splits = lowering.splits.iter().map(|split| format!("split: {split}")).collect();
        for remark in first_remarks(splits) {
            let _ = writeln!(text, "{remark}");
        }
        if lowering.spilled > 0 {
            let spilled = units::bytes(lowering.spilled);
            let _ = writeln!(text, "{spilled} of activations are written to memory and read again");
        }
        if let Some(joules) = pass.joules {
            let _ = writeln!(text, "{:.3} mJ per pass", joules * 1e3);
        }
        Ok(text)
    }

    fn document(&self) -> Result<Value, LoweringError> {
        let Self { network, npu, mapping, options, lowering } = self;
        let pass = self.pass();
        let rows = network.layers.iter().zip(self.times()?).map(|(layer, time)| {
            json!({
                "name": layer.name,
                "type": layer.kind.name(),
                "macs": layer.macs().saturating_mul(options.batch),
                "bytes": layer.fetched(options.batch),
                "compute_us": micros(time.compute),
                "fetch_us": micros(time.fetch),
                "waits_for": Bottleneck::from_times(time.compute, time.fetch).name(),
            })
        });
        let split = lowering
            .splits
            .iter()
            .map(|split| json!({"layer": split.layer, "bytes": split.bytes, "parts": split.parts}));
        Ok(json!({
            "network": network.name,
            "npu": npu.name(),
            "mapping": mapping.to_string(),
            "batch": options.batch,
            "seq_len": network.seq_len,
            "compute_us": micros(pass.compute),
            "fetch_us": micros(pass.fetch),
            "waits_for": pass.bottleneck().name(),
            "operations_per_byte": intensity(network, options.batch),
            "balance_operations_per_byte": npu.balance(),
            "utilisation": pass.utilization(npu),
            "blocks": pass.blocks,
            "compute_bound_blocks": pass.compute_bound,
            "spilled_bytes": lowering.spilled,
            "joules": pass.joules,
            "split": split.collect::<Vec<_>>(),
            "layers": rows.collect::<Vec<_>>(),
        }))
    }
}

fn micros(picos: u64) -> f64 {
    picos as f64 / 1e6
}
