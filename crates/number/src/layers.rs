//! The layers of a model as accelerators see them: products, and how many bits their operands have.
//!
//! The columns are those of the layer tables of NPU models (Layerweaver's units as MAESTRO describes them):
//! `groups` times a product of `m` x `cin_g rs` and `cin_g rs` x `cout_g` numbers, `m` positions of the
//! output and `rs` of the kernel. Behind them stand the bits, from which the bytes are.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use dyno_onnx::{Constants, Dim, Fact, Model, Node, infer};

use crate::config::Dictionary;
use crate::descriptor::nearest;
use crate::evaluate::name_of;
use crate::format::Format;

/// What a layer is, by the names of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerType {
    /// A convolution.
    Convolution,
    /// One of several groups of channels.
    Grouped,
    /// One of a group for each channel.
    Depthwise,
    /// A product with weights.
    FullyConnected,
    /// A product of two activations.
    Activations,
    /// Rows of a table.
    Gather,
}

impl LayerType {
    /// As tables have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Convolution => "conv",
            Self::Grouped => "gconv",
            Self::Depthwise => "dwconv",
            Self::FullyConnected => "fc",
            Self::Activations => "matmul_act",
            Self::Gather => "gather",
        }
    }
}

/// A layer of one sample. Counts are of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayer {
    /// Of the layer; its objects are `NAME.weight` and `NAME.input`.
    pub name: String,
    /// What it is.
    pub kind: LayerType,
    /// Products beside each other.
    pub groups: u64,
    /// Positions of the output.
    pub m: u64,
    /// Inputs of a group; 0 of a table.
    pub cin_g: u64,
    /// Positions of the kernel.
    pub rs: u64,
    /// Outputs of a group; 0 of a table.
    pub cout_g: u64,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Weights that are read.
    pub weights: u64,
    /// Numbers that come in.
    pub inputs: u64,
    /// Numbers that come out.
    pub outputs: u64,
    /// Bits of a weight, of a number that comes in, and of one that comes out: as the next layer takes it.
    pub bits: [u32; 3],
}

/// The head of a table.
pub const COLUMNS: &str = "idx,name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,\
                           out_act_bytes,weights_scale_with_batch,weight_bits,in_act_bits,out_act_bits";

impl TableLayer {
    /// Bytes of weights, of what comes in and of what comes out.
    #[must_use]
    pub fn bytes(&self) -> [u64; 3] {
        let counts = [self.weights, self.inputs, self.outputs];
        std::array::from_fn(|at| counts[at].saturating_mul(self.bits[at].into()).div_ceil(8))
    }

    /// A line of a table, without its end.
    #[must_use]
    pub fn line(&self, index: usize) -> String {
        let Self { name, kind, groups, m, cin_g, rs, cout_g, macs, .. } = self;
        let ([weights, inputs, outputs], [w, i, o]) = (self.bytes(), self.bits);
        let scales = u8::from(*kind == LayerType::Gather);
        // No name with a comma or a quote would read.
        let name = name.replace([',', '"', '\n'], "_");
        format!(
            "{index},{name},{},{groups},{m},{cin_g},{rs},{cout_g},{macs},{weights},{inputs},{outputs},\
             {scales},{w},{i},{o}",
            kind.name()
        )
    }
}

/// The layers of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerTable {
    /// In the order of execution.
    pub layers: Vec<TableLayer>,
    /// Nodes that have products and no line, each with its operator and why.
    pub left_out: Vec<String>,
}

impl fmt::Display for LayerTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{COLUMNS}")?;
        for (index, layer) in self.layers.iter().enumerate() {
            writeln!(f, "{}", layer.line(index))?;
        }
        Ok(())
    }
}

/// The layers of a model for one sample, where names of open dimensions in `bind` are these numbers and all
/// others are 1. Objects that `formats` has not have `other` bits.
///
/// # Errors
/// The objects of `formats` that the model has not, a sentence each with the nearest that it has.
pub fn table(
    model: &Model,
    formats: &Dictionary,
    other: u32,
    bind: &BTreeMap<String, usize>,
) -> Result<LayerTable, Vec<String>> {
    let symbols = model.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
    let one = |dim: &Dim| match dim {
        Dim::Symbol(name) => Some((name.clone(), 1)),
        Dim::Fixed(_) => None,
    };
    let mut all: BTreeMap<String, usize> = symbols.filter_map(one).collect();
    all.extend(bind.iter().map(|(name, n)| (name.clone(), *n)));
    let mut reader = Reader {
        facts: infer(model, &all).facts,
        constants: Constants::new(model),
        formats,
        other,
        names: BTreeSet::new(),
        origins: HashMap::new(),
        found: LayerTable::default(),
    };
    model.nodes.iter().for_each(|node| reader.node(node));
    // What no layer takes is the model's answer.
    let last = reader.found.layers.iter_mut().filter(|layer| layer.bits[2] == 0);
    last.for_each(|layer| layer.bits[2] = other);
    let objects: Vec<String> = reader
        .names
        .iter()
        .flat_map(|name| [format!("{name}.weight"), format!("{name}.input")])
        .collect();
    let unknown = formats.iter().map(|(object, _)| object);
    let unknown: Vec<String> = unknown
        .filter(|object| objects.iter().all(|known| known != object))
        .map(|object| {
            let near = nearest(object, objects.iter().map(String::as_str));
            format!("there is no object `{object}`{near}")
        })
        .collect();
    if unknown.is_empty() { Ok(reader.found) } else { Err(unknown) }
}

struct Reader<'a> {
    facts: HashMap<String, Fact>,
    constants: Constants<'a>,
    formats: &'a Dictionary,
    other: u32,
    names: BTreeSet<String>,
    /// Which layer a value comes from, whatever was done to it since.
    origins: HashMap<&'a str, usize>,
    found: LayerTable,
}

/// Sizes of a product.
#[derive(Clone, Copy)]
struct Sizes {
    kind: LayerType,
    groups: u64,
    m: u64,
    cin_g: u64,
    rs: u64,
    cout_g: u64,
}

impl<'a> Reader<'a> {
    fn node(&mut self, node: &'a Node) {
        let data = usize::from(node.op == "Gather");
        let known = match node.op.as_str() {
            "Conv" => self.convolution(node),
            "Gemm" | "MatMul" => self.product(node),
            "Gather" if self.is_constant(node, 0) && !self.is_constant(node, 1) => {
                self.gather(node)
            }
            "LSTM" | "GRU" | "RNN" | "ConvTranspose" | "Einsum" | "Attention" | "ConvInteger"
            | "MatMulInteger" | "QLinearConv" | "QLinearMatMul" | "Loop" | "Scan" | "If" => {
                Some(Err("has no line in such a table".to_owned()))
            }
            _ => None,
        };
        let origin = match known {
            Some(Ok((sizes, weights, object_at))) => {
                Some(self.add(node, sizes, weights, data, object_at))
            }
            Some(Err(why)) => {
                let name =
                    [&node.name].into_iter().chain(&node.outputs).find(|name| !name.is_empty());
                let name = name.map_or("", String::as_str);
                self.found.left_out.push(format!("{} {name} {why}", node.op));
                None
            }
            None => node.inputs.iter().find_map(|name| self.origins.get(name.as_str()).copied()),
        };
        if let Some(origin) = origin {
            let outputs = node.outputs.iter().filter(|name| !name.is_empty());
            self.origins.extend(outputs.map(|name| (name.as_str(), origin)));
        }
    }

    fn is_constant(&self, node: &Node, at: usize) -> bool {
        node.inputs.get(at).is_some_and(|name| self.constants.get(name).is_some())
    }

    /// Sizes of a value, if all are known.
    fn shape(&self, name: Option<&String>) -> Option<Vec<u64>> {
        let fact = self.facts.get(name?)?;
        fact.shape.iter().map(|dim| dim.fixed().map(|n| n as u64)).collect()
    }

    fn count(&self, name: Option<&String>) -> u64 {
        self.shape(name).map_or(0, |shape| shape.iter().product())
    }

    fn convolution(&self, node: &Node) -> Option<Result<(Sizes, u64, usize), String>> {
        let (Some(weights), Some(output)) =
            (self.shape(node.inputs.get(1)), self.shape(node.outputs.first()))
        else {
            return Some(Err("has sizes that depend on data".into()));
        };
        let groups = u64::try_from(node.int("group", 1)).unwrap_or(1).max(1);
        let [cout, cin_g, ref kernel @ ..] = weights[..] else {
            return Some(Err("has weights of less than two dimensions".into()));
        };
        let m = output.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, n)| n).product();
        let kind = match (groups, cin_g) {
            (1, _) => LayerType::Convolution,
            (_, 1) => LayerType::Depthwise,
            _ => LayerType::Grouped,
        };
        let rs = kernel.iter().product();
        let sizes = Sizes { kind, groups, m, cin_g, rs, cout_g: cout / groups };
        Some(Ok((sizes, weights.iter().product(), 1)))
    }

    /// Of two matrices, or of batches of them.
    fn product(&self, node: &Node) -> Option<Result<(Sizes, u64, usize), String>> {
        let (Some(a), Some(b), Some(output)) = (
            self.shape(node.inputs.first()),
            self.shape(node.inputs.get(1)),
            self.shape(node.outputs.first()),
        ) else {
            return Some(Err("has sizes that depend on data".into()));
        };
        let constant = [1, 0].into_iter().find(|at| self.is_constant(node, *at));
        let turned = node.op == "Gemm" && node.int("transA", 0) != 0;
        let inner = if turned { a.first() } else { a.last() };
        let (Some(inner), [rest @ .., cout]) = (inner.copied(), &output[..]) else {
            return Some(Err("is no product of matrices".into()));
        };
        let rows: u64 = rest.iter().product();
        let (groups, m, kind) = match constant {
            Some(_) => (1, rows, LayerType::FullyConnected),
            None => {
                let own = rest.last().copied().unwrap_or(1);
                (rows / own.max(1), own, LayerType::Activations)
            }
        };
        let weights = match constant {
            Some(1) => b.iter().product(),
            Some(_) => a.iter().product(),
            None => 0,
        };
        let sizes = Sizes { kind, groups, m, cin_g: inner, rs: 1, cout_g: *cout };
        Some(Ok((sizes, weights, constant.unwrap_or(1))))
    }

    fn gather(&self, node: &Node) -> Option<Result<(Sizes, u64, usize), String>> {
        let m = self.count(node.inputs.get(1));
        // A table of whole numbers, such as sizes of a shape, is none of weights.
        let is_of_numbers = self.shape(node.inputs.first()).is_some_and(|shape| shape.len() > 1);
        let sizes = Sizes { kind: LayerType::Gather, groups: 1, m, cin_g: 0, rs: 1, cout_g: 0 };
        is_of_numbers.then(|| Ok((sizes, self.count(node.outputs.first()), 0)))
    }

    /// A layer of the table; returns which.
    fn add(
        &mut self,
        node: &'a Node,
        sizes: Sizes,
        weights: u64,
        data: usize,
        object: usize,
    ) -> usize {
        let Sizes { kind, groups, m, cin_g, rs, cout_g } = sizes;
        let weight = node.inputs.get(object).map_or("", String::as_str);
        let name = name_of(node, weight, &mut self.names);
        let bits = |role: &str| {
            let format = self.formats.find(&format!("{name}.{role}"));
            format.map_or(self.other, Format::bits)
        };
        let (weight_bits, input_bits) = (bits("weight"), bits("input"));
        let index = self.found.layers.len();
        let fed = node.inputs.iter().enumerate().filter(|(at, _)| match kind {
            LayerType::Gather => *at == 1,
            LayerType::Activations => *at < 2,
            _ => *at < 2 && *at != object,
        });
        let fed: Vec<&'a String> = fed.map(|(_, name)| name).collect();
        for value in &fed {
            if let Some(origin) = self.origins.get(value.as_str()) {
                // What several layers take has the bits of the first of them.
                let before = &mut self.found.layers[*origin];
                if before.bits[2] == 0 {
                    before.bits[2] = input_bits;
                }
            }
        }
        let inputs = fed.iter().map(|name| self.count(Some(name))).sum();
        // Places in a table are numbers of 64 bits.
        let input_bits = if data == 1 { 64 } else { input_bits };
        self.found.layers.push(TableLayer {
            name,
            kind,
            groups,
            m,
            cin_g,
            rs,
            cout_g,
            macs: groups * m * cin_g * rs * cout_g,
            weights,
            inputs,
            outputs: self.count(node.outputs.first()),
            bits: [weight_bits, input_bits, 0],
        });
        index
    }
}
