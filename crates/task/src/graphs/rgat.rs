//! Relational graph attention (Busbridge et al. 2019) with the layers of the benchmark on IGBH,
//! over a sampled subgraph. Names are those of the reference's model, `RGAT_DGL` of
//! `dgl_utilities/components.py`.
//!
//! A layer attends within each relation and sums over the relations to a kind of nodes. As in the
//! reference, the first layer is computed for the nodes that two hops reach, the second for those
//! that one hop reaches, and the last for the requested papers. Relations of the last layers that
//! cannot affect these papers are not in the graph.
//!
//! Inputs are the features of each kind of nodes under its name; the edges of each relation and
//! hop, such as `paper__cites__paper.1`, as two rows of indices (sources and targets), where a hop
//! can have edges; and `reached`, for each kind the number of nodes before the first hop and after
//! each hop.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};
use dyno_sut::tensors::Span;

use crate::subgraph::{HOPS, KINDS, PAPER, RELATIONS, Relation};

/// Version of the operator set, in which `ScatterElements` supports maxima.
const OPERATORS: i64 = 18;
/// Negative slopes of leaky ReLUs: in attention, and between layers (below).
const ATTENTION_SLOPE: f32 = 0.2;
const SLOPE: f32 = 0.01;
/// A number below every score.
const LEAST: f32 = -3e38;

/// Sizes of the network.
#[derive(Debug, Clone, Copy)]
pub struct Rgat {
    /// Features of a node.
    pub features: usize,
    /// Size of a node's state after each layer.
    pub hidden: usize,
    /// Attention heads.
    pub heads: usize,
    /// Scores of a paper.
    pub classes: usize,
}

/// Sizes of the benchmark's network.
pub const IGBH: Rgat = Rgat { features: 1024, hidden: 512, heads: 4, classes: 2983 };

/// Sizes of subgraphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Dynamic: each call has its own sizes.
    Any,
    /// Fixed to [`INPUTS`], without the input `reached`.
    Typical,
}

/// Nodes of each kind in a typical subgraph before the first hop and after each hop.
pub const REACHED: [[usize; HOPS + 1]; KINDS.len()] = [
    [1, 12, 162, 1122],
    [0, 3, 33, 473],
    [0, 0, 3, 18],
    [0, 4, 28, 328],
    [0, 1, 6, 56],
    [0, 1, 3, 18],
];

/// Inputs of a typical subgraph, and the ranges of random edges: sources among the nodes that a hop
/// has reached, targets among those that the previous hop discovered.
macro_rules! typical {
    ($($name:literal $from:literal $to:literal: $($hop:literal $count:literal),+;)+) => {
        /// Inputs with their sizes around one paper. The sizes were chosen, not measured: within
        /// the fan-outs 15, 10 and 5, and with few nodes that are found twice.
        pub const INPUTS: &[(&str, &[usize])] = &[
            ("paper", &[REACHED[0][HOPS], IGBH.features]),
            ("author", &[REACHED[1][HOPS], IGBH.features]),
            ("institute", &[REACHED[2][HOPS], IGBH.features]),
            ("fos", &[REACHED[3][HOPS], IGBH.features]),
            ("journal", &[REACHED[4][HOPS], IGBH.features]),
            ("conference", &[REACHED[5][HOPS], IGBH.features]),
            $($((concat!($name, ".", $hop), &[2, $count])),+),+
        ];
        /// Ranges of the edges of random samples.
        pub const INTEGERS: &[(&str, &[Span])] =
            &[$($((concat!($name, ".", $hop), &ends($count, $from, $to, $hop))),+),+];
    };
}

typical! {
    "paper__cites__paper" 0 0: 1 12, 2 99, 3 750;
    "paper__written_by__author" 0 1: 2 18, 3 120;
    "author__affiliated_to__institute" 1 2: 3 15;
    "paper__topic__fos" 0 3: 2 40, 3 120;
    "paper__published__journal" 0 4: 2 10, 3 25;
    "paper__venue__conference" 0 5: 2 10, 3 10;
    "author__rev_written_by__paper" 1 0: 1 3, 2 33, 3 450;
    "institute__rev_affiliated_to__author" 2 1: 2 3, 3 30;
    "fos__rev_topic__paper" 3 0: 1 4, 2 44, 3 600;
    "journal__rev_published__paper" 4 0: 1 1, 2 6, 3 80;
    "conference__rev_venue__paper" 5 0: 1 1, 2 2, 3 30;
}

const fn ends(count: usize, from: usize, to: usize, hop: usize) -> [Span; 2] {
    let begin = if hop == 1 { 0 } else { REACHED[to][hop - 2] };
    let sources = Span { elements: count, from: 0, to: REACHED[from][hop] as i64 };
    let begin = begin as i64;
    let end = REACHED[to][hop - 1] as i64;
    [sources, Span { elements: count, from: begin, to: end }]
}

/// Whether a hop may start from nodes of a kind; hops count from 1.
pub fn starts_from(kind: usize, hop: usize) -> bool {
    match hop {
        0 | 1 => kind == PAPER,
        _ => {
            starts_from(kind, hop - 1)
                || RELATIONS.iter().any(|one| one.from == kind && starts_from(one.to, hop - 1))
        }
    }
}

/// The name of the input with the edges of a relation in a hop, counted from 1.
pub fn edges_of(relation: &Relation, hop: usize) -> String {
    format!("{relation}.{hop}")
}

/// Values that all layers use.
struct SharedNames {
    /// Edges of each relation and hop.
    edges: Vec<[Option<Name>; HOPS]>,
    /// Number of nodes of each kind and hop, as a vector of one number.
    reached: [[Name; HOPS + 1]; KINDS.len()],
    /// Constants as vectors.
    zero: Name,
    one: Name,
    /// -1.
    last: Name,
}

/// States of the nodes of one kind and their attention scores.
struct NodeStates<'a> {
    /// `[nodes, hidden]`.
    flat: &'a Name,
    /// `[nodes, heads]`.
    scores: Name,
}

impl Rgat {
    /// Builds the graph: scores `[papers, classes]` of the requested papers.
    ///
    /// # Errors
    /// Given weights do not fit the graph.
    pub fn build(&self, weights: Weights, extent: Extent) -> Result<Model, BuildError> {
        let mut net = Builder::new("rgat", weights);
        let (mut nodes, shared) = self.inputs(&mut net, extent)?;
        for layer in 0..HOPS {
            let mut next: Vec<Option<Name>> = vec![None; KINDS.len()];
            for (kind, next) in next.iter_mut().enumerate() {
                // Later layers read the kinds that as many hops reach.
                if starts_from(kind, HOPS - layer) {
                    *next = Some(self.kind_states(&mut net, &nodes, &shared, layer, kind)?);
                }
            }
            nodes = next;
        }
        let papers = nodes[PAPER].as_ref().expect("papers are asked");
        let weights = net.weight(
            "model.linear.weight",
            &[self.classes, self.hidden],
            Fill::lecun(self.hidden),
        )?;
        let bias = net.weight("model.linear.bias", &[self.classes], Fill::Constant(0.0))?;
        let scores = net.node("Gemm", &[papers, &weights, &bias], &[("transB", 1.into())])?;
        net.output("scores", &scores)?;
        let mut model = net.finish();
        model.operator_sets = vec![(String::new(), OPERATORS)];
        Ok(model)
    }

    fn inputs(
        &self,
        net: &mut Builder,
        extent: Extent,
    ) -> Result<(Vec<Option<Name>>, SharedNames), BuildError> {
        let sized = |name: &str, axis: usize| match extent {
            Extent::Any => Dim::symbol(name),
            Extent::Typical => {
                let found = INPUTS.iter().find(|(input, _)| *input == name);
                found.expect("a typical subgraph has all inputs").1[axis].into()
            }
        };
        let features = KINDS.iter().map(|kind| {
            let shape = [sized(kind, 0), self.features.into()];
            Some(net.input(kind, Element::F32, &shape))
        });
        let nodes = features.collect();
        let mut edges = Vec::new();
        for relation in &RELATIONS {
            edges.push(std::array::from_fn(|before| {
                let name = edges_of(relation, before + 1);
                starts_from(relation.to, before + 1)
                    .then(|| net.input(&name, Element::I64, &[2.into(), sized(&name, 1)]))
            }));
        }
        let [zero, one, last] = [0, 1, -1].map(|number| net.integers(&[number]));
        let reached = match extent {
            Extent::Typical => REACHED.map(|hops| hops.map(|count| net.integers(&[count as i64]))),
            Extent::Any => {
                let shape = [KINDS.len(), HOPS + 1].map(Dim::Fixed);
                let all = net.input("reached", Element::I64, &shape);
                let all = net.node("Reshape", &[&all, &last], &[])?;
                let mut found = [const { [const { Name::NONE }; HOPS + 1] }; KINDS.len()];
                for (at, place) in found.iter_mut().flatten().enumerate() {
                    let at = net.integers(&[at as i64]);
                    *place = net.node("Gather", &[&all, &at], &[])?;
                }
                found
            }
        };
        Ok((nodes, SharedNames { edges, reached, zero, one, last }))
    }

    /// Sums the messages of all relations to a kind, for the nodes of a layer.
    fn kind_states(
        &self,
        net: &mut Builder,
        nodes: &[Option<Name>],
        shared: &SharedNames,
        layer: usize,
        kind: usize,
    ) -> Result<Name, BuildError> {
        let mut sum: Option<Name> = None;
        for (at, relation) in RELATIONS.iter().enumerate() {
            if relation.to != kind {
                continue;
            }
            let messages = self.relation_messages(net, nodes, shared, layer, at)?;
            sum = Some(match sum {
                Some(sum) => net.node("Add", &[&sum, &messages], &[])?,
                None => messages,
            });
        }
        let sum = sum.expect("relations lead to each kind");
        if layer + 1 == HOPS {
            return Ok(sum);
        }
        net.node("LeakyRelu", &[&sum], &[("alpha", SLOPE.into())])
    }

    fn relation_messages(
        &self,
        net: &mut Builder,
        nodes: &[Option<Name>],
        shared: &SharedNames,
        layer: usize,
        at: usize,
    ) -> Result<Name, BuildError> {
        let Relation { name, from, to } = RELATIONS[at];
        let before = if layer == 0 { self.features } else { self.hidden };
        let mut part = |part: &str, shape: &[usize], fill: Fill| {
            net.weight(&format!("model.layers.{layer}.mods.{name}.{part}"), shape, fill)
        };
        let width = self.hidden / self.heads;
        let weights = part("fc.weight", &[self.hidden, before], Fill::lecun(before))?;
        let attention = [1, self.heads, width];
        let left = part("attn_l", &attention, Fill::lecun(width))?;
        let right = part("attn_r", &attention, Fill::lecun(width))?;
        let bias = part("bias", &[self.hidden], Fill::Constant(0.0))?;
        let there = |kind: usize| nodes[kind].as_ref().expect("layers before made what is read");
        let end = &shared.reached[to][HOPS - 1 - layer];
        let cut = |net: &mut Builder, x: &Name| {
            net.node("Slice", &[x, &shared.zero, end, &shared.zero], &[])
        };
        let project =
            |net: &mut Builder, x: &Name| net.node("Gemm", &[x, &weights], &[("transB", 1.into())]);
        let flat = project(net, there(from))?;
        // Reuses the product where source and target kinds are equal.
        let asking = if from == to {
            cut(net, &flat)?
        } else {
            let x = cut(net, there(to))?;
            project(net, &x)?
        };
        let [sources, targets] = ends_of(net, shared, layer, at)?;
        let source_states = self.node_states(net, &flat, &left)?;
        let target_states = self.node_states(net, &asking, &right)?;
        let shares =
            self.shares(net, [&source_states, &target_states], [&sources, &targets], shared)?;
        // Messages of the sources, weighted by attention, are summed per target.
        let messages = net.node("Gather", &[source_states.flat, &sources], &[])?;
        let messages = self.split_heads(net, &messages)?;
        let shares = net.node("Unsqueeze", &[&shares, &shared.last], &[])?;
        let messages = net.node("Mul", &[&messages, &shares], &[])?;
        let joined = net.integers(&[0, self.hidden as i64]);
        let messages = net.node("Reshape", &[&messages, &joined], &[])?;
        let nothing = net.number(0.0);
        let none = net.node("Mul", &[target_states.flat, &nothing], &[])?;
        let places = self.places(net, &targets, self.hidden, shared)?;
        let sum = scatter(net, &none, &places, &messages, "add")?;
        net.node("Add", &[&sum, &bias], &[])
    }

    /// Splits rows into heads.
    fn split_heads(&self, net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
        let heads = net.integers(&[0, self.heads as i64, (self.hidden / self.heads) as i64]);
        net.node("Reshape", &[x, &heads], &[])
    }

    /// Projects states and computes their part of the attention scores.
    fn node_states<'a>(
        &self,
        net: &mut Builder,
        flat: &'a Name,
        attention: &Name,
    ) -> Result<NodeStates<'a>, BuildError> {
        let heads = self.split_heads(net, flat)?;
        let product = net.node("Mul", &[&heads, attention], &[])?;
        // Not -1: for kinds without nodes ONNX Runtime 1.31 would return three dimensions.
        let width = net.integers(&[2]);
        let scores = net.node("ReduceSum", &[&product, &width], &[("keepdims", 0.into())])?;
        Ok(NodeStates { flat, scores })
    }

    /// Returns the softmax of each edge among those to the same target: `[edges, heads]`.
    fn shares(
        &self,
        net: &mut Builder,
        [left, right]: [&NodeStates<'_>; 2],
        [sources, targets]: [&Name; 2],
        shared: &SharedNames,
    ) -> Result<Name, BuildError> {
        let of_source = net.node("Gather", &[&left.scores, sources], &[])?;
        let of_target = net.node("Gather", &[&right.scores, targets], &[])?;
        let scores = net.node("Add", &[&of_source, &of_target], &[])?;
        let slope = [("alpha", ATTENTION_SLOPE.into())];
        let scores = net.node("LeakyRelu", &[&scores], &slope)?;
        let nothing = net.number(0.0);
        let least = net.number(LEAST);
        let none = net.node("Mul", &[&right.scores, &nothing], &[])?;
        let lowest = net.node("Add", &[&none, &least], &[])?;
        let places = self.places(net, targets, self.heads, shared)?;
        let most = scatter(net, &lowest, &places, &scores, "max")?;
        let most = net.node("Gather", &[&most, targets], &[])?;
        let scores = net.node("Sub", &[&scores, &most], &[])?;
        let powers = net.node("Exp", &[&scores], &[])?;
        let sums = scatter(net, &none, &places, &powers, "add")?;
        let sums = net.node("Gather", &[&sums, targets], &[])?;
        net.node("Div", &[&powers, &sums], &[])
    }

    /// Repeats targets for each column.
    fn places(
        &self,
        net: &mut Builder,
        targets: &Name,
        columns: usize,
        shared: &SharedNames,
    ) -> Result<Name, BuildError> {
        let rows = net.node("Unsqueeze", &[targets, &shared.one], &[])?;
        let wide = net.integers(&[1, columns as i64]);
        net.node("Expand", &[&rows, &wide], &[])
    }
}

/// Returns sources and targets of the edges of a relation in a layer: those of all hops that lead
/// to nodes of the layer.
fn ends_of(
    net: &mut Builder,
    shared: &SharedNames,
    layer: usize,
    at: usize,
) -> Result<[Name; 2], BuildError> {
    let hops: Vec<&Name> = shared.edges[at][..HOPS - layer].iter().flatten().collect();
    let edges = match hops[..] {
        [only] => only.clone(),
        _ => net.node("Concat", &hops, &[("axis", 1.into())])?,
    };
    let each = net.integers(&[1, 1]);
    let [sources, targets] = net.nodes("Split", &[&edges, &each], &[("axis", 0.into())])?;
    let flat = |net: &mut Builder, x: &Name| net.node("Squeeze", &[x, &shared.zero], &[]);
    Ok([flat(net, &sources)?, flat(net, &targets)?])
}

fn scatter(
    net: &mut Builder,
    onto: &Name,
    places: &Name,
    values: &Name,
    reduction: &str,
) -> Result<Name, BuildError> {
    let choices = [("axis", 0.into()), ("reduction", reduction.into())];
    net.node("ScatterElements", &[onto, places, values], &choices)
}

/// Builds the benchmark's network over a typical subgraph around one paper.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn rgat(weights: Weights) -> Result<Model, BuildError> {
    IGBH.build(weights, Extent::Typical)
}
