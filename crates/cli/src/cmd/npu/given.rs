//! What commands about NPUs are given: networks, an NPU, and how the one is laid over the other.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, ValueEnum};
use dyno_loadgen::clock::Nanos;
use dyno_npu::deploy::{Plan, Tenant};
use dyno_npu::hardware::{Npu, Parts};
use dyno_npu::mapping::Mapping;
use dyno_npu::profile::{Folding, Granularity, Options, Picos, Profile, Traffic};
use dyno_npu::schedule::Named;
use dyno_npu::workload::language::{DECODERS, Decoder, Phase};
use dyno_npu::workload::{Network, PRESETS};
use dyno_onnx::{Model, Weights};
use dyno_task::graphs::{COUNTED, GRAPHS};

use crate::exit::Failure;
use crate::output;

/// Where nobody says.
const NPU: &str = "memory-centric";
const MAPPING: &str = "kcp+1";

/// The NPU, and how layers are laid over its PEs.
#[derive(Clone, Debug, Args)]
pub struct Hardware {
    /// The NPU: compute-centric, memory-centric, chapter-v, tpu-v1, tpu-v2, tpu-v3, tpu-v4i, nnp-i,
    /// or a description in TOML
    #[arg(long, value_name = "NAME|FILE.toml", default_value = NPU)]
    pub npu: String,
    /// How products are laid over PEs: peak, sys, kcp, kcp+1, kcpx, kcpx+1; behind a colon, PEs of a
    /// row or a cluster
    #[arg(long, value_name = "NAME[:WIDTH]", default_value = MAPPING)]
    pub mapping: String,
    #[command(flatten)]
    pub figures: Figures,
}

impl Default for Hardware {
    fn default() -> Self {
        Self { npu: NPU.into(), mapping: MAPPING.into(), figures: Figures::default() }
    }
}

/// What the NPU has otherwise than its name or its description say, by the keys of descriptions.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Parts of the NPU")]
pub struct Figures {
    /// PEs, instead of as many as it has
    #[arg(long, value_name = "N", value_parser = figure)]
    pes: Option<f64>,
    /// Frequency instead of its own, MHz
    #[arg(long, value_name = "N", value_parser = figure)]
    frequency_mhz: Option<f64>,
    /// Bandwidth of the memory instead of its own, 10^9 bytes/s
    #[arg(long, value_name = "N", value_parser = figure)]
    memory_gb_per_s: Option<f64>,
    /// Buffer of weights instead of its own, 10^6 bytes
    #[arg(long, value_name = "N", value_parser = figure)]
    weight_buffer_mb: Option<f64>,
    /// Buffer of activations instead of its own, 10^6 bytes
    #[arg(long, value_name = "N", value_parser = figure)]
    activation_buffer_mb: Option<f64>,
    /// Turning from one network to another instead of its own cost, us
    #[arg(long, value_name = "N", value_parser = figure)]
    switch_us: Option<f64>,
    /// Energy of a multiply-accumulate, pJ; no preset has any
    #[arg(long, value_name = "N", value_parser = figure)]
    mac_pj: Option<f64>,
    /// Energy of a byte of the memory, pJ; no preset has any
    #[arg(long, value_name = "N", value_parser = figure)]
    memory_byte_pj: Option<f64>,
    /// Power that is taken all the time, W; no preset has any
    #[arg(long, value_name = "N", value_parser = figure)]
    static_w: Option<f64>,
}

/// As descriptions may have it.
fn figure(text: &str) -> Result<f64, String> {
    let figure = text.parse().ok().filter(|figure| (0.0..=1e12).contains(figure));
    figure.ok_or_else(|| "expected a number of 0 to 1e12".to_owned())
}

impl Figures {
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

impl Hardware {
    /// Both, as they fit each other.
    ///
    /// # Errors
    /// An NPU or a mapping that there is not, or that does not make sense.
    pub fn read(&self) -> Result<(Npu, Mapping), Failure> {
        let path = Path::new(&self.npu);
        let npu = if path.extension().is_some_and(|end| end == "toml") {
            let told = |error: dyno_npu::hardware::DescribeError| {
                let of = |problem| format!("{}: {problem}", self.npu);
                Failure::usages(error.to_string().lines().map(of).collect())
            };
            Npu::from_toml(&text_of(path)?).map_err(told)?
        } else {
            Npu::preset(&self.npu).map_err(|error| {
                Failure::usage(error).hint("or give a description in a file that ends in .toml")
            })?
        };
        let change = |parts: &mut Parts| {
            for (key, figure) in self.figures.given() {
                parts.set(key, figure);
            }
        };
        let npu = npu.with(change).map_err(Failure::usage)?;
        let mapping: Mapping = self.mapping.parse().map_err(Failure::usage)?;
        mapping.fits(npu.parts().pes).map_err(Failure::usage)?;
        Ok((npu, mapping))
    }
}

/// How networks are changed before they are laid over an NPU.
#[derive(Clone, Debug, Default, Args)]
pub struct Changes {
    /// Tokens of a sample, of networks with sequences
    #[arg(long, value_name = "N")]
    pub seq: Option<u64>,
    /// Bits of all weights, instead of the table's
    #[arg(long, value_name = "N")]
    weight_bits: Option<u32>,
    /// Bits of all activations, instead of 16 or the table's
    #[arg(long, value_name = "N")]
    activation_bits: Option<u32>,
    /// A number for an open dimension of an ONNX model; 1 unless it is given
    #[arg(long, value_name = "NAME=N", value_parser = dimension)]
    bind: Vec<(String, usize)>,
}

fn dimension(text: &str) -> Result<(String, usize), String> {
    let wrong = || "expected a name and a number of at least 1, such as S=64".to_owned();
    let (name, number) = text.split_once('=').ok_or_else(wrong)?;
    let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
    Ok((name.to_owned(), number))
}

/// Tokens of a language model where nobody says.
const TOKENS: u64 = 512;
/// Of a number, as the thesis' tables have it.
const BITS: u32 = 16;

impl Changes {
    /// The network of a name: a code of the thesis, a phase of a decoder, a table, an ONNX model, or a graph of
    /// ours.
    ///
    /// # Errors
    /// A name of nothing; a file that cannot be read; changes that the network cannot have.
    pub fn network(&self, name: &str) -> Result<Network, Failure> {
        let network = self.named(name)?;
        let network = match self.seq {
            Some(seq) if network.seq_len != Some(seq) => network.at_sequence(seq),
            _ => Ok(network),
        };
        let network = network.map_err(Failure::usage)?;
        network.in_bits(self.weight_bits, self.activation_bits).map_err(Failure::usage)
    }

    /// The same, one of several: a length that one without sequences cannot have is meant for the others.
    ///
    /// # Errors
    /// As for one alone.
    pub fn network_of_several(&self, name: &str) -> Result<Network, Failure> {
        let plain = Self { seq: None, bind: self.bind.clone(), ..*self };
        let network = plain.network(name)?;
        let is_fixed = network.seq_len.is_none() && plain.phase(name)?.is_none();
        if is_fixed { Ok(network) } else { self.network(name) }
    }

    fn named(&self, name: &str) -> Result<Network, Failure> {
        if let Ok(network) = Network::preset(name) {
            return Ok(network);
        }
        if let Some(network) = self.phase(name)? {
            return Ok(network);
        }
        let path = Path::new(name);
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => {
                let text = text_of(path)?;
                let told = |error: dyno_npu::workload::TableError| {
                    Failure::usages(error.to_string().lines().map(str::to_owned).collect())
                };
                return match Profile::is_table(&text) {
                    true => Profile::from_csv(name, &text).map(Network::of_times),
                    false => Network::from_csv(name, &text),
                }
                .map_err(told);
            }
            Some("onnx") => {
                let model = Model::read(path)
                    .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
                return self.derived(name, &model);
            }
            _ => {}
        }
        let graph = name.strip_suffix("-shape").unwrap_or(name);
        let graphs = GRAPHS.iter().map(|graph| (graph.name, graph.build));
        let mut graphs = graphs.chain(COUNTED.iter().map(|graph| (graph.name, graph.build)));
        match graphs.find(|(known, _)| *known == graph) {
            Some((_, build)) => {
                self.derived(name, &build(Weights::seeded(1)).map_err(Failure::set_up)?)
            }
            None => Err(unknown(name)),
        }
    }

    /// A decoder's name with `-prefill` or `-decode` behind it.
    fn phase(&self, name: &str) -> Result<Option<Network>, Failure> {
        let tokens = self.seq.unwrap_or(TOKENS);
        let prefill = name.strip_suffix("-prefill").map(|name| (name, Phase::Prefill(tokens)));
        let decode = name.strip_suffix("-decode").map(|name| (name, Phase::Decode(tokens)));
        let Some((decoder, phase)) = prefill.or(decode) else { return Ok(None) };
        let decoder = Decoder::preset(decoder).map_err(Failure::usage)?;
        decoder.network(phase).map(Some).map_err(Failure::usage)
    }

    fn derived(&self, name: &str, model: &Model) -> Result<Network, Failure> {
        let bind: BTreeMap<String, usize> = self.bind.iter().cloned().collect();
        let derived =
            Network::from_model(name, model, [BITS, BITS], &bind).map_err(Failure::usage)?;
        for node in &derived.left_out {
            output::say(format_args!("warning: left out: {node}"));
        }
        Ok(derived.network)
    }
}

fn unknown(name: &str) -> Failure {
    let codes: Vec<&str> = PRESETS.iter().map(|preset| preset.code).collect();
    let decoders: Vec<&str> = DECODERS.iter().map(|decoder| decoder.name).collect();
    let graphs = GRAPHS.iter().map(|graph| graph.name);
    let graphs = graphs.chain(COUNTED.iter().map(|graph| graph.name));
    let all = codes.iter().copied().chain(graphs);
    let near = dyno_loadgen::settings::nearest(name, all).unwrap_or("RN");
    Failure::usage(format!("there is no network `{name}`; the nearest is `{near}`")).hint(format!(
        "networks are {}; {} with -prefill or -decode behind; graphs of dyno task layers; FILE.csv and \
         FILE.onnx",
        codes.join(", "),
        decoders.join(", ")
    ))
}

fn text_of(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}

/// Of a group or a tile where nobody says.
const BLOCK_BYTES: u64 = 1_000_000;

/// How a network is made into blocks.
#[derive(Clone, Debug, Args)]
pub struct Blocks {
    /// Samples that are computed together
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: u64,
    /// Products of two activations are units of their own, not part of the next layer
    #[arg(long)]
    apart: bool,
    /// What a block is
    #[arg(long, value_enum, default_value_t = Grain::Layer)]
    blocks: Grain,
    /// Weights of a fused group or of a tile at most, bytes; 1000000 if nothing is said
    #[arg(long, value_name = "N")]
    block_bytes: Option<u64>,
    /// Computation of a tile at most; without it only bytes count, and with it only this unless bytes are given
    #[arg(long, value_name = "TIME", value_parser = dyno_results::units::parse_duration)]
    block_time: Option<Nanos>,
    /// Count what of activations has no room in their buffer: written, and read again
    #[arg(long)]
    spill: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Grain {
    /// Layers whose weights are few together
    Fused,
    /// A layer
    Layer,
    /// A part of a layer
    Tile,
}

impl Blocks {
    /// As they are made.
    pub fn options(&self) -> Options {
        let bytes = self.block_bytes.unwrap_or(if self.block_time.is_some() {
            u64::MAX
        } else {
            BLOCK_BYTES
        });
        let time = self.block_time.map_or(Picos::MAX, |ns| ns.saturating_mul(1_000));
        Options {
            batch: self.batch,
            folding: if self.apart { Folding::Apart } else { Folding::IntoNext },
            granularity: match self.blocks {
                Grain::Fused => Granularity::Fused { bytes },
                Grain::Layer => Granularity::Layer,
                Grain::Tile => Granularity::Tile { bytes, time },
            },
            traffic: if self.spill { Traffic::WithActivations } else { Traffic::Weights },
        }
    }
}

/// Networks that share an NPU: each is a stream whose passes follow one another.
#[derive(Clone, Debug, Args)]
pub struct Sharing {
    /// Networks as in dyno npu layers; each is a stream whose passes follow one another
    #[arg(value_name = "NETWORK|FILE", required = true)]
    pub networks: Vec<String>,
    #[command(flatten)]
    pub hardware: Hardware,
    #[command(flatten)]
    pub changes: Changes,
    #[command(flatten)]
    pub blocks: Blocks,
}

impl Sharing {
    /// What is put on the NPU, under this scheduler.
    ///
    /// # Errors
    /// Networks or an NPU that there are not; files that cannot be read.
    pub fn plan(&self, scheduler: &'static Named) -> Result<Plan, Failure> {
        let (npu, mapping) = self.hardware.read()?;
        let tenant = |name: &String| {
            let network = self.changes.network_of_several(name)?;
            Ok(Tenant { network, limit: Picos::MAX })
        };
        let tenants = self.networks.iter().map(tenant).collect::<Result<_, Failure>>()?;
        Ok(Plan { npu, mapping, options: self.blocks.options(), tenants, scheduler })
    }
}

#[cfg(test)]
mod tests {
    use dyno_npu::workload::{Layer, LayerType};

    use super::*;

    fn network(name: &str, seq: Option<u64>) -> Network {
        let changes = Changes { seq, weight_bits: None, activation_bits: None, bind: Vec::new() };
        changes.network(name).map_err(|failure| failure.problems().join("\n")).unwrap()
    }

    /// All of a layer but its name.
    fn nameless(layers: &[Layer]) -> Vec<Layer> {
        layers.iter().map(|layer| Layer { name: String::new(), ..layer.clone() }).collect()
    }

    #[test]
    fn the_table_of_resnet_is_that_of_its_graph() {
        let (table, graph) = (network("RN", None), network("resnet50-shape", None));
        assert_eq!(nameless(&table.layers), nameless(&graph.layers));
    }

    #[test]
    fn the_table_of_bert_is_that_of_its_graph_at_its_length() {
        let (table, graph) = (network("BL", Some(384)), network("bert-large", None));
        // The graph looks words, positions and segments up one by one, and has no pooler: answers to questions
        // need none. Of attentions it multiplies the keys before the values are made, as do most.
        let kept = |layer: &&Layer| layer.kind != LayerType::Gather && layer.name != "pooler";
        let of = |network: &Network| -> Vec<[u64; 9]> {
            let sizes = |layer: &Layer| {
                let Layer { groups, m, cin_g, rs, cout_g, .. } = *layer;
                let bytes = [layer.weight_bytes, layer.input_bytes, layer.output_bytes];
                [groups, m, cin_g, rs, cout_g, layer.macs(), bytes[0], bytes[1], bytes[2]]
            };
            network.layers.iter().filter(kept).map(sizes).collect()
        };
        assert_eq!(of(&table), of(&graph));
    }

    #[test]
    fn a_decoder_has_the_products_of_its_graph() {
        // The graph's token follows 1024 others.
        for (table, seq, graph) in
            [("gptj-6b-decode", 1025, "gptj-token"), ("gptj-6b-prefill", 1024, "gptj-prompt")]
        {
            let (table, graph) = (network(table, Some(seq)), network(graph, None));
            assert_eq!(table.macs(), graph.macs());
            let weights = |network: &Network| -> u64 {
                let own = |layer: &&Layer| layer.kind == LayerType::FullyConnected;
                network.layers.iter().filter(own).map(|layer| layer.weight_bytes).sum()
            };
            assert_eq!(weights(&table), weights(&graph));
        }
    }

    #[test]
    fn what_is_no_network_is_told() {
        let changes =
            Changes { seq: None, weight_bits: None, activation_bits: None, bind: Vec::new() };
        let told = |name: &str| changes.network(name).unwrap_err().problems().join("\n");
        assert_eq!(told("RM"), "there is no network `RM`; the nearest is `RN`");
        assert!(told("llama-decode").starts_with("there is no decoder `llama`"));
        assert!(told("there.csv").starts_with("cannot read there.csv: "));
    }
}
