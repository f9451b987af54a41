//! The products of a model: what accelerators and tuners see of its layers.
//!
//! Each is `groups` times a product of `m` x `cin_g rs` and `cin_g rs` x `cout_g` numbers, with `m` positions of
//! the output and `rs` of the kernel, as MAESTRO describes layers.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{Constants, Dim, Fact, Model, Node, infer};

/// What a layer is, by the names of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Convolution,
        Self::Grouped,
        Self::Depthwise,
        Self::FullyConnected,
        Self::Activations,
        Self::Gather,
    ];

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

/// A layer of one sample. Counts are of numbers, whose bits nobody knows here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// As [`name_of`] has it; no other of the model has it too.
    pub name: String,
    /// The place of its node in the model.
    pub node: usize,
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
    /// Numbers that come in; of a table, places in it.
    pub inputs: u64,
    /// Numbers that come out.
    pub outputs: u64,
    /// Of what comes in, which products it comes from, whatever was done to it since.
    pub origins: Vec<usize>,
}

/// The products of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Products {
    /// In the order of execution.
    pub rows: Vec<Product>,
    /// Nodes that have products and no row, each with its operator and why.
    pub left_out: Vec<String>,
}

/// The products of a model for one sample, where names of open dimensions in `bind` are these numbers and all
/// others are 1.
#[must_use]
pub fn products(model: &Model, bind: &BTreeMap<String, usize>) -> Products {
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
        names: BTreeSet::new(),
        origins: HashMap::new(),
        found: Products::default(),
    };
    model.nodes.iter().enumerate().for_each(|(at, node)| reader.node(at, node));
    reader.found
}

/// Endings of weights that are no part of their layer's name.
const ENDINGS: [&str; 6] = [".weight", "_weight", ".W", "_W", "_w", ".kernel"];

/// What a layer is called: as its weight without its ending, or as its node or operator; with a number where
/// others, which `names` holds, have that name.
#[must_use]
pub fn name_of(node: &Node, weight: &str, names: &mut BTreeSet<String>) -> String {
    let own = Some(node.name.as_str()).filter(|name| !name.is_empty());
    unique(stem(weight).or(own).unwrap_or(&node.op), names)
}

/// A weight's name without its ending, if it has one.
#[must_use]
pub fn stem(weight: &str) -> Option<&str> {
    ENDINGS.iter().find_map(|end| weight.strip_suffix(*end))
}

/// One word that no other layer is called; `names` holds theirs, and then this one.
#[must_use]
pub fn unique(name: &str, names: &mut BTreeSet<String>) -> String {
    let name = name.replace(char::is_whitespace, "_");
    let count = names.len();
    let name = if names.contains(&name) { format!("{name}_{count}") } else { name };
    names.insert(name.clone());
    name
}

const DEPENDS: &str = "has sizes that depend on data";
const TOO_LARGE: &str = "has sizes beyond what 64 bits count";

struct Reader<'a> {
    facts: HashMap<String, Fact>,
    constants: Constants<'a>,
    names: BTreeSet<String>,
    /// Which product a value comes from.
    origins: HashMap<&'a str, usize>,
    found: Products,
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

/// Sizes, how many weights, and which input they are; or why there are none.
type Known = Result<(Sizes, u64, usize), String>;

/// A product that 64 bits hold.
fn all_of<'s>(sizes: impl IntoIterator<Item = &'s u64>) -> Option<u64> {
    sizes.into_iter().try_fold(1_u64, |all, size| all.checked_mul(*size))
}

impl<'a> Reader<'a> {
    fn node(&mut self, at: usize, node: &'a Node) {
        let known = match node.op.as_str() {
            "Conv" => Some(self.convolution(node)),
            "Gemm" | "MatMul" => Some(self.product(node)),
            "Gather" if self.is_constant(node, 0) && !self.is_constant(node, 1) => {
                self.gather(node).map(Ok)
            }
            "LSTM" | "GRU" | "RNN" | "ConvTranspose" | "Einsum" | "Attention" | "ConvInteger"
            | "MatMulInteger" | "QLinearConv" | "QLinearMatMul" | "Loop" | "Scan" | "If" => {
                Some(Err("has no line in such a table".to_owned()))
            }
            _ => None,
        };
        let known = known.map(|known| known.and_then(|known| self.row(at, node, known)));
        let origin = match known {
            Some(Ok(row)) => {
                self.found.rows.push(row);
                Some(self.found.rows.len() - 1)
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
        node.inputs.get(at).is_some_and(|name| self.constants.has(name))
    }

    /// Sizes of a value, if all are known.
    fn shape(&self, name: Option<&String>) -> Option<Vec<u64>> {
        let fact = self.facts.get(name?)?;
        fact.shape.iter().map(|dim| dim.fixed().map(|n| n as u64)).collect()
    }

    fn count(&self, name: Option<&String>) -> u64 {
        self.shape(name).and_then(|shape| all_of(&shape)).unwrap_or(0)
    }

    fn convolution(&self, node: &Node) -> Known {
        let (Some(weights), Some(output)) =
            (self.shape(node.inputs.get(1)), self.shape(node.outputs.first()))
        else {
            return Err(DEPENDS.into());
        };
        let groups = u64::try_from(node.int("group", 1)).unwrap_or(1).max(1);
        let [cout, cin_g, ref kernel @ ..] = weights[..] else {
            return Err("has weights of less than two dimensions".into());
        };
        let kind = match (groups, cin_g) {
            (1, _) => LayerType::Convolution,
            (_, 1) => LayerType::Depthwise,
            _ => LayerType::Grouped,
        };
        // All but the channels.
        let places = output.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, n)| n);
        let (m, rs, count) = (all_of(places), all_of(kernel), all_of(&weights));
        let (Some(m), Some(rs), Some(count)) = (m, rs, count) else {
            return Err(TOO_LARGE.into());
        };
        let sizes = Sizes { kind, groups, m, cin_g, rs, cout_g: cout / groups };
        Ok((sizes, count, 1))
    }

    /// Of two matrices, or of batches of them.
    fn product(&self, node: &Node) -> Known {
        let (Some(a), Some(b), Some(output)) = (
            self.shape(node.inputs.first()),
            self.shape(node.inputs.get(1)),
            self.shape(node.outputs.first()),
        ) else {
            return Err(DEPENDS.into());
        };
        let constant = [1, 0].into_iter().find(|at| self.is_constant(node, *at));
        let turned = node.op == "Gemm" && node.int("transA", 0) != 0;
        let inner = if turned { a.first() } else { a.last() };
        let (Some(inner), [rest @ .., cout]) = (inner.copied(), &output[..]) else {
            return Err("is no product of matrices".into());
        };
        let weights = match constant {
            Some(1) => all_of(&b),
            Some(_) => all_of(&a),
            None => Some(0),
        };
        let (Some(rows), Some(weights)) = (all_of(rest), weights) else {
            return Err(TOO_LARGE.into());
        };
        let (groups, m, kind) = match constant {
            Some(_) => (1, rows, LayerType::FullyConnected),
            None => {
                let own = rest.last().copied().unwrap_or(1);
                (rows / own.max(1), own, LayerType::Activations)
            }
        };
        let sizes = Sizes { kind, groups, m, cin_g: inner, rs: 1, cout_g: *cout };
        Ok((sizes, weights, constant.unwrap_or(1)))
    }

    fn gather(&self, node: &Node) -> Option<(Sizes, u64, usize)> {
        let m = self.count(node.inputs.get(1));
        // A table of whole numbers, such as sizes of a shape, is none of weights.
        let is_of_numbers = self.shape(node.inputs.first()).is_some_and(|shape| shape.len() > 1);
        let sizes = Sizes { kind: LayerType::Gather, groups: 1, m, cin_g: 0, rs: 1, cout_g: 0 };
        is_of_numbers.then(|| (sizes, self.count(node.outputs.first()), 0))
    }

    fn row(
        &mut self,
        at: usize,
        node: &Node,
        (sizes, weights, weight_at): (Sizes, u64, usize),
    ) -> Result<Product, String> {
        let Sizes { kind, groups, m, cin_g, rs, cout_g } = sizes;
        let macs = all_of(&[groups, m, cin_g, rs, cout_g]).ok_or(TOO_LARGE)?;
        let weight = node.inputs.get(weight_at).map_or("", String::as_str);
        let name = name_of(node, weight, &mut self.names);
        let fed = node.inputs.iter().enumerate().filter(|(at, _)| match kind {
            LayerType::Gather => *at == 1,
            LayerType::Activations => *at < 2,
            _ => *at < 2 && *at != weight_at,
        });
        let fed: Vec<&String> = fed.map(|(_, name)| name).collect();
        let origins = fed.iter().filter_map(|value| self.origins.get(value.as_str()).copied());
        let origins = origins.collect();
        let inputs = fed.iter().map(|name| self.count(Some(name))).fold(0, u64::saturating_add);
        let outputs = self.count(node.outputs.first());
        Ok(Product {
            name,
            node: at,
            kind,
            groups,
            m,
            cin_g,
            rs,
            cout_g,
            macs,
            weights,
            inputs,
            outputs,
            origins,
        })
    }
}
