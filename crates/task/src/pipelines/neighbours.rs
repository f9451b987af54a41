//! R-GAT: a call is answered by a subgraph that is drawn around its papers, the features of
//! its nodes, and one call of the model.

use std::collections::HashMap;

use dyno_sut::engine::Answers;
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{Callable, Fed};
use dyno_sut::tensors::{Element, Elements, ModelInput, Scalar};
use half::f16;

use super::sampling::{Edges, HOPS, Subgraph, draw};
use super::{Asked, Load, Pipeline};
use crate::data::igbh::{Igbh, KINDS, PAPER, RELATIONS, Rows};
use crate::files::{Files, OpenError};
use crate::fit::Declared;
use crate::graphs::rgat::{edges_of, starts_from};
use crate::networks;

/// What a model of the task takes.
const INPUTS: &str = "inputs called after the kinds of nodes, such as `paper`, the relations and \
                      hops, such as `paper__cites__paper.1`, and `reached`";

/// Of the neighbours that are drawn; it never changes.
const SEED: u64 = 20_240_712;

/// An input of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// Features of the nodes of a kind.
    Features(usize, Element),
    /// Places of the edges of a relation in a hop.
    Edges(usize, usize),
    /// How many nodes of each kind each hop has reached.
    Reached,
}

/// The graph and the model.
struct Neighbours {
    graph: Igbh,
    model: Callable,
    /// In the order of the model's inputs.
    ports: Vec<Port>,
    fan_outs: [usize; HOPS],
}

/// Elements of an input with their shape.
type Input = (Vec<usize>, Elements<'static>);

/// Reads the graph, which takes a while and much memory, and looks for the model.
pub(crate) fn open(files: &Files<'_>, fan_outs: [usize; HOPS]) -> Result<Load, OpenError> {
    let path = networks::rgat(files)?;
    // Told before edges are read for minutes.
    let declared = Declared::read(&path)?;
    let fit = declared.takes_only(|name| port(name).is_some(), INPUTS);
    fit.map_err(OpenError::content)?;
    let folder = files.path("graph")?;
    files.say("turning the edges of IGBH to the neighbours of each node, in memory");
    let graph = Igbh::open(&folder).map_err(OpenError::content)?;
    Ok(Box::new(move |open| {
        let model = open(&path)?.callable();
        let ports = ports(&model, graph.features[PAPER].width)?;
        check_output(&model)?;
        Ok(Box::new(Neighbours { graph, model, ports, fan_outs }))
    }))
}

/// What each input of the model is.
fn ports(model: &Callable, width: usize) -> Result<Vec<Port>, OnnxError> {
    let port = |input: &ModelInput| {
        let known = port(&input.name);
        let known = known.ok_or_else(|| model.unfit(format!("'{}': {INPUTS}", input.name)))?;
        let (port, element, shape) = match known {
            Port::Features(kind, _) => {
                let element = match input.element {
                    Element::F16 => Element::F16,
                    _ => Element::F32,
                };
                (Port::Features(kind, element), element, [None, Some(width)])
            }
            Port::Edges(..) => (known, Element::I64, [Some(2), None]),
            Port::Reached => (known, Element::I64, [Some(KINDS.len()), Some(HOPS + 1)]),
        };
        let found = &input.shape;
        let fits = |(found, fed): (&Option<usize>, &Option<usize>)| match (found, fed) {
            (Some(found), Some(fed)) => found == fed,
            (Some(_), None) => false,
            (None, _) => true,
        };
        if input.element != element || found.len() != 2 || !found.iter().zip(&shape).all(fits) {
            let shown = |shape: &[Option<usize>]| -> String {
                let dims = shape.iter().map(|dim| dim.map_or("?".to_owned(), |n| n.to_string()));
                dims.collect::<Vec<_>>().join(", ")
            };
            return Err(model.unfit(format!(
                "input '{}': expected {element} [{}], found {} [{}]",
                input.name,
                shown(&shape),
                input.element,
                shown(found)
            )));
        }
        Ok(port)
    };
    model.inputs().iter().map(port).collect()
}

fn port(name: &str) -> Option<Port> {
    if name == "reached" {
        return Some(Port::Reached);
    }
    if let Some(kind) = KINDS.iter().position(|kind| *kind == name) {
        return Some(Port::Features(kind, Element::F32));
    }
    let all = (0..RELATIONS.len()).flat_map(|at| (1..=HOPS).map(move |hop| (at, hop)));
    all.into_iter()
        .find(|(at, hop)| {
            starts_from(RELATIONS[*at].to, *hop) && edges_of(&RELATIONS[*at], *hop) == name
        })
        .map(|(at, hop)| Port::Edges(at, hop - 1))
}

/// The first output has scores of each paper, or its class.
fn check_output(model: &Callable) -> Result<(), OnnxError> {
    let Some(output) = model.outputs().first() else {
        return Err(model.unfit("it has no output".to_owned()));
    };
    let is_read = match (&output.element[..], output.shape.len()) {
        ("float32" | "float16", dims) => dims == 2,
        ("int64" | "int32", dims) => dims == 1,
        _ => false,
    };
    if is_read {
        return Ok(());
    }
    Err(model.unfit(format!(
        "output '{}': expected float32 or float16 [papers, classes], or int64 or int32 [papers], \
         found {} of {} dimensions",
        output.name,
        output.element,
        output.shape.len()
    )))
}

impl Neighbours {
    fn input(&self, port: Port, drawn: &Subgraph) -> Result<Input, String> {
        Ok(match port {
            Port::Features(kind, element) => {
                let rows = &self.graph.features[kind];
                let nodes = &drawn.nodes[kind];
                let elements = match element {
                    Element::F16 => gathered(rows, nodes, |numbers: Vec<f32>| {
                        numbers.into_iter().map(f16::from_f32).collect()
                    }),
                    _ => gathered(rows, nodes, |numbers: Vec<f16>| {
                        numbers.into_iter().map(f16::to_f32).collect()
                    }),
                }?;
                (vec![nodes.len(), rows.width], elements)
            }
            Port::Edges(relation, hop) => {
                let Edges { sources, targets } = &drawn.edges[relation][hop];
                let both = [&sources[..], targets].concat();
                (vec![2, sources.len()], Elements::I64(both.into()))
            }
            Port::Reached => {
                let counts = drawn.reached.as_flattened().iter().map(|count| *count as i64);
                (vec![KINDS.len(), HOPS + 1], Elements::I64(counts.collect()))
            }
        })
    }
}

/// Features of nodes as elements of `T`; a file of the other type is turned to it.
fn gathered<T: Scalar, U: Scalar>(
    rows: &Rows,
    nodes: &[u32],
    turn: impl FnOnce(Vec<U>) -> Vec<T>,
) -> Result<Elements<'static>, String> {
    let row = rows.bytes();
    let mut bytes = vec![0; nodes.len() * row];
    for (node, into) in nodes.iter().zip(bytes.chunks_exact_mut(row)) {
        rows.read(*node, into)?;
    }
    let all = if rows.element == T::TYPE { T::read(&bytes) } else { turn(U::read(&bytes)) };
    Ok(T::wrap(all.into()))
}

impl Pipeline for Neighbours {
    fn models(&self) -> Vec<&Callable> {
        vec![&self.model]
    }

    fn answer(&self, asked: &[Asked], answers: &mut Answers) -> Result<(), String> {
        // A paper may be asked for twice at once.
        let (mut papers, mut places) = (Vec::new(), HashMap::new());
        let mut rows = Vec::new();
        for Asked { inputs, .. } in asked {
            let paper = inputs[0].elements.to_i64().and_then(|all| all.first().copied());
            let paper = paper.and_then(|paper| u32::try_from(paper).ok());
            let paper = paper.ok_or("expected the number of a paper")?;
            rows.push(*places.entry(paper).or_insert_with(|| {
                papers.push(paper);
                papers.len() - 1
            }));
        }
        let drawn = draw(&self.graph.incoming, &papers, self.fan_outs, SEED);
        let inputs = self.ports.iter().map(|port| self.input(*port, &drawn));
        let inputs: Vec<Input> = inputs.collect::<Result<_, _>>()?;
        let fed: Vec<Fed<'_>> =
            inputs.iter().map(|(shape, elements)| Fed::Elements(shape, elements.clone())).collect();
        let outputs = self.model.call(&fed)?;
        let (shape, elements) = outputs.first().ok_or("the model put out nothing")?.read()?;
        let classes = classes(&shape, &elements).filter(|classes| classes.len() == papers.len());
        let classes = classes.ok_or_else(|| {
            format!("expected scores or classes of {} papers, found {shape:?}", papers.len())
        })?;
        for (Asked { sample, .. }, row) in asked.iter().zip(rows) {
            answers.push(sample.id, &classes[row].to_le_bytes());
        }
        Ok(())
    }

    fn try_out(&self, first: &Asked) -> Result<(), String> {
        self.answer(std::slice::from_ref(first), &mut Answers::new())
    }
}

/// The class of each paper: what the model says, or the first of the greatest scores.
fn classes(shape: &[usize], elements: &Elements<'_>) -> Option<Vec<i32>> {
    let greatest = |row: &[f32]| {
        let mut best = 0;
        for (class, score) in row.iter().enumerate() {
            if *score > row[best] {
                best = class;
            }
        }
        best as i32
    };
    match *shape {
        [papers, width] if width > 0 => {
            let scores = elements.to_f32();
            (scores.len() == papers * width)
                .then(|| scores.chunks_exact(width).map(greatest).collect())
        }
        [_] => elements.to_i64()?.iter().map(|class| i32::try_from(*class).ok()).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_known_by_kind_relation_and_hop() {
        assert_eq!(port("reached"), Some(Port::Reached));
        assert_eq!(port("fos"), Some(Port::Features(3, Element::F32)));
        assert_eq!(port("paper__cites__paper.1"), Some(Port::Edges(0, 0)));
        assert_eq!(port("institute__rev_affiliated_to__author.3"), Some(Port::Edges(7, 2)));
        // No hop before the third one starts from institutes.
        assert_eq!(port("author__affiliated_to__institute.2"), None);
        assert_eq!(port("author__affiliated_to__institute.3"), Some(Port::Edges(2, 2)));
        assert_eq!(port("paper__cites__paper.4"), None);
    }

    #[test]
    fn the_first_of_the_greatest_scores_is_the_class() {
        let scores = Elements::F32(vec![0.5, 2.0, 2.0, -3.0, -4.0, -5.0].into());
        assert_eq!(classes(&[2, 3], &scores), Some(vec![1, 0]));
        assert_eq!(classes(&[2], &Elements::I64(vec![7, 2982].into())), Some(vec![7, 2982]));
        assert_eq!(classes(&[1, 2, 3], &scores), None);
    }
}
