//! Networks and NPUs by name, and mappings of networks to NPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dyno_npu::arithmetic::Arithmetic;
use dyno_npu::hardware::{Npu, NpuParameters};
use dyno_npu::mapping::Mapping;
use dyno_npu::profile::NetworkProfile;
use dyno_npu::workload::language::{DECODERS, Decoder, DecoderPhase};
use dyno_npu::workload::{Network, PRESETS};
use dyno_onnx::{Dim, Model, Weights};
use dyno_task::graphs::{COUNTED, GRAPHS};
use dyno_tensors::files;

use crate::Failure;
use crate::system::read_model;

/// Default NPU.
pub const NPU: &str = "memory-centric";
/// Default mapping.
pub const MAPPING: &str = "kcp+1";

/// An NPU with the mapping of layers to its PEs.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Name of a preset, or a description in TOML.
    pub npu: String,
    /// Mapping of products to PEs.
    pub mapping: String,
    /// Figures that replace those of the NPU, by keys of descriptions.
    pub figures: Vec<(&'static str, f64)>,
    /// Name of the arithmetic that replaces that of the NPU.
    pub arithmetic: Option<String>,
}

impl Default for Hardware {
    fn default() -> Self {
        Self { npu: NPU.into(), mapping: MAPPING.into(), figures: Vec::new(), arithmetic: None }
    }
}

impl Hardware {
    /// Returns the NPU and a mapping that fits it.
    ///
    /// # Errors
    /// An unknown or invalid NPU or mapping.
    pub fn read(&self) -> Result<(Npu, Mapping), Failure> {
        let path = Path::new(&self.npu);
        let npu = if path.extension().is_some_and(|end| end == "toml") {
            let told = |error: dyno_npu::hardware::DescriptionError| {
                let of = |problem| format!("{}: {problem}", self.npu);
                Failure::usages(error.to_string().lines().map(of).collect())
            };
            Npu::from_toml(&text_of(path)?).map_err(told)?
        } else {
            Npu::preset(&self.npu).map_err(|error| {
                Failure::usage(error).hint("or pass a description in a .toml file")
            })?
        };
        let arithmetic = self.arithmetic.as_deref().map(str::parse::<Arithmetic>).transpose();
        let arithmetic = arithmetic.map_err(Failure::usage)?;
        let change = |parts: &mut NpuParameters| {
            parts.arithmetic = arithmetic.unwrap_or(parts.arithmetic);
            for &(key, figure) in &self.figures {
                parts.set(key, figure);
            }
        };
        let npu = npu.with_parameters(change).map_err(Failure::usage)?;
        let mapping: Mapping = self.mapping.parse().map_err(Failure::usage)?;
        mapping.fits(npu.parameters().pes).map_err(Failure::usage)?;
        Ok((npu, mapping))
    }
}

/// Changes to networks before they are mapped to an NPU.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Tokens of a sample, for networks with sequences.
    pub seq: Option<u64>,
    /// Bits of all weights, instead of those of the table.
    pub weight_bits: Option<u32>,
    /// Bits of all activations, instead of 16 or those of the table.
    pub activation_bits: Option<u32>,
    /// Values of dynamic dimensions of an ONNX model; 1 unless given.
    pub bind: Vec<(String, usize)>,
}

/// Default number of tokens of a language model.
const TOKENS: u64 = 512;
/// Bits of a number in the thesis' tables.
const BITS: u32 = 16;

impl Changes {
    /// Returns the network of a name: a code of the thesis, a phase of a decoder, a table, an ONNX
    /// model, or a built-in graph.
    ///
    /// # Errors
    /// An unknown name, a file that cannot be read, or changes that do not apply to the network.
    pub fn network(&self, name: &str) -> Result<Network, Failure> {
        let network = self.changed(name)?;
        self.check_bind(&[name])?;
        Ok(network)
    }

    /// Returns networks that share an NPU. A sequence length and sizes of dimensions apply to those
    /// that have them.
    ///
    /// # Errors
    /// As for one alone. A change that applies to none of the networks.
    pub fn networks<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<Network>, Failure> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let networks = names
            .iter()
            .map(|name| self.network_of_several(name))
            .collect::<Result<Vec<_>, _>>()?;
        let mut has_sequences = false;
        for (name, network) in names.iter().zip(&networks) {
            has_sequences |= network.seq_len.is_some() || self.phase(name)?.is_some();
        }
        if let (Some(seq), false) = (self.seq, has_sequences) {
            let problem = format!("seq {seq} has no effect: {} has no sequences", names.join(", "));
            return Err(Failure::usage(problem)
                .hint("remove it; transformers, such as BB, and language models have sequences"));
        }
        self.check_bind(&names)?;
        Ok(networks)
    }

    /// Rejects sizes of dimensions that none of these networks has.
    fn check_bind(&self, names: &[&str]) -> Result<(), Failure> {
        if self.bind.is_empty() {
            return Ok(());
        }
        let mut open = BTreeSet::new();
        for name in names {
            let Some(model) = self.model(name)? else { continue };
            let dims = model.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
            open.extend(dims.filter_map(|dim| match dim {
                Dim::Symbol(name) => Some(name.clone()),
                Dim::Fixed(_) => None,
            }));
        }
        let Some((unknown, size)) = self.bind.iter().find(|(name, _)| !open.contains(name)) else {
            return Ok(());
        };
        let problem = format!("bind {unknown}={size} has no effect: ");
        if open.is_empty() {
            let problem =
                format!("{problem}{} has no dynamic dimension of an ONNX model", names.join(", "));
            return Err(Failure::usage(problem).hint("remove it"));
        }
        let known: Vec<&str> = open.iter().map(String::as_str).collect();
        let problem = format!("{problem}the dynamic dimensions are {}", known.join(", "));
        Err(Failure::usage(problem).hint("use one of these, or remove it"))
    }

    fn changed(&self, name: &str) -> Result<Network, Failure> {
        let network = self.named(name)?;
        let network = match self.seq {
            Some(seq) if network.seq_len != Some(seq) => network.at_sequence(seq),
            _ => Ok(network),
        };
        let network = network.map_err(Failure::usage)?;
        network.in_bits(self.weight_bits, self.activation_bits).map_err(Failure::usage)
    }

    /// Returns one of several networks. A sequence length does not apply to those without sequences.
    ///
    /// # Errors
    /// As for one alone.
    pub fn network_of_several(&self, name: &str) -> Result<Network, Failure> {
        let plain = Self { seq: None, bind: self.bind.clone(), ..*self };
        let network = plain.changed(name)?;
        let is_fixed = network.seq_len.is_none() && plain.phase(name)?.is_none();
        if is_fixed { Ok(network) } else { self.changed(name) }
    }

    fn named(&self, name: &str) -> Result<Network, Failure> {
        if let Ok(network) = Network::preset(name) {
            return Ok(network);
        }
        if let Some(network) = self.phase(name)? {
            return Ok(network);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|end| end == "csv") {
            let text = text_of(path)?;
            let told = |error: dyno_npu::workload::TableError| {
                Failure::usages(error.to_string().lines().map(str::to_owned).collect())
            };
            return if NetworkProfile::is_table(&text) {
                NetworkProfile::from_csv(name, &text).map(Network::from_profile)
            } else {
                Network::from_csv(name, &text)
            }
            .map_err(told);
        }
        match self.model(name)? {
            Some(model) => self.derived(name, &model),
            None => Err(unknown(name)),
        }
    }

    /// Returns the ONNX model of a name: a file, or a built-in graph; `None` for other networks.
    fn model(&self, name: &str) -> Result<Option<Model>, Failure> {
        if Network::preset(name).is_ok() || self.phase(name)?.is_some() {
            return Ok(None);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|end| end == "onnx") {
            return read_model(path).map(Some);
        }
        let graph = name.strip_suffix("-shape").unwrap_or(name);
        let graphs = GRAPHS.iter().map(|graph| (graph.name, graph.build));
        let mut graphs = graphs.chain(COUNTED.iter().map(|graph| (graph.name, graph.build)));
        let Some((_, build)) = graphs.find(|(known, _)| *known == graph) else { return Ok(None) };
        build(Weights::seeded(1)).map(Some).map_err(Failure::set_up)
    }

    /// Returns the network of a decoder's name with `-prefill` or `-decode` appended.
    fn phase(&self, name: &str) -> Result<Option<Network>, Failure> {
        let tokens = self.seq.unwrap_or(TOKENS);
        let prefill =
            name.strip_suffix("-prefill").map(|name| (name, DecoderPhase::Prefill(tokens)));
        let decode = name.strip_suffix("-decode").map(|name| (name, DecoderPhase::Decode(tokens)));
        let Some((decoder, phase)) = prefill.or(decode) else { return Ok(None) };
        let decoder = Decoder::preset(decoder).map_err(Failure::usage)?;
        decoder.network(phase).map(Some).map_err(Failure::usage)
    }

    fn derived(&self, name: &str, model: &Model) -> Result<Network, Failure> {
        let bind: BTreeMap<String, usize> = self.bind.iter().cloned().collect();
        let derived =
            Network::from_model(name, model, [BITS, BITS], &bind).map_err(Failure::usage)?;
        if derived.left_out.is_empty() {
            return Ok(derived.network);
        }
        // Without them the times would be those of another network.
        let problem = |node: &String| format!("network `{name}`: node {node}");
        Err(Failure::usages(derived.left_out.iter().map(problem).collect()).hint(format!(
            "pass a table of all layers (`dyno tune layers {name}` prints those of the other \
             nodes), or measured times with the columns name, compute_us, fetch_us, bytes"
        )))
    }
}

fn unknown(name: &str) -> Failure {
    let codes: Vec<&str> = PRESETS.iter().map(|preset| preset.code).collect();
    let decoders: Vec<&str> = DECODERS.iter().map(|decoder| decoder.name).collect();
    let graphs = GRAPHS.iter().map(|graph| graph.name);
    let graphs = graphs.chain(COUNTED.iter().map(|graph| graph.name));
    let all = codes.iter().copied().chain(graphs);
    let near = dyno_loadgen::settings::similar(name, all)
        .map(|near| format!("; the nearest is `{near}`"))
        .unwrap_or_default();
    Failure::usage(format!("unknown network `{name}`{near}")).hint(format!(
        "networks are {}; {} with the suffix -prefill or -decode; graphs of dyno task layers; \
         FILE.csv and FILE.onnx",
        codes.join(", "),
        decoders.join(", ")
    ))
}

fn text_of(path: &Path) -> Result<String, Failure> {
    files::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))
}

#[cfg(test)]
mod tests {
    use dyno_npu::workload::{LayerType, NetworkLayer};

    use super::*;

    fn network(name: &str, seq: Option<u64>) -> Network {
        let changes = Changes { seq, weight_bits: None, activation_bits: None, bind: Vec::new() };
        changes.network(name).map_err(|failure| failure.problems().join("\n")).unwrap()
    }

    /// All of a layer but its name.
    fn nameless(layers: &[NetworkLayer]) -> Vec<NetworkLayer> {
        layers.iter().map(|layer| NetworkLayer { name: String::new(), ..layer.clone() }).collect()
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
        let kept =
            |layer: &&NetworkLayer| layer.kind != LayerType::Gather && layer.name != "pooler";
        let of = |network: &Network| -> Vec<[u64; 9]> {
            let sizes = |layer: &NetworkLayer| {
                let NetworkLayer { groups, m, cin_g, rs, cout_g, .. } = *layer;
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
                let own = |layer: &&NetworkLayer| layer.kind == LayerType::FullyConnected;
                network.layers.iter().filter(own).map(|layer| layer.weight_bytes).sum()
            };
            assert_eq!(weights(&table), weights(&graph));
        }
    }

    #[test]
    fn a_model_with_layers_that_cannot_be_counted_is_refused() {
        use dyno_onnx::{Builder, Element, Fill};

        let model = |op: &str| {
            let mut net = Builder::new("recurrent", Weights::seeded(1));
            let x = net.input("x", Element::F32, &[5.into(), 1.into(), 8.into()]);
            let w = net.weight("cell.W", &[1, 12, 8], Fill::lecun(8))?;
            let r = net.weight("cell.R", &[1, 12, 4], Fill::lecun(4))?;
            let x = net.node(op, &[&x, &w, &r], &[("hidden_size", 4_i64.into())])?;
            let x = net.node("Flatten", &[&x], &[])?;
            let w = net.weight("fc.weight", &[4, 3], Fill::lecun(4))?;
            let x = net.node("MatMul", &[&x, &w], &[])?;
            net.output("scores", &x)?;
            Ok::<_, dyno_onnx::BuildError>(net.finish())
        };
        let refused = Changes::default().derived("gru.onnx", &model("GRU").unwrap()).unwrap_err();
        let problems = refused.problems().join("\n");
        assert!(problems.starts_with("network `gru.onnx`: node GRU "), "{problems}");
        assert!(problems.ends_with(" is not supported in layer tables"), "{problems}");
    }

    #[test]
    fn what_is_no_network_is_told() {
        let changes =
            Changes { seq: None, weight_bits: None, activation_bits: None, bind: Vec::new() };
        let told = |name: &str| changes.network(name).unwrap_err().problems().join("\n");
        assert_eq!(told("RM"), "unknown network `RM`; the nearest is `RN`");
        assert!(told("llama-decode").starts_with("unknown decoder `llama`"));
        assert!(told("there.csv").starts_with("cannot read there.csv: "));
    }
}
