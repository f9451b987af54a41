//! The pipeline of R-GAT: samples a subgraph around the papers of a batch, gathers the features of
//! its nodes, and calls the model once.

use std::collections::HashMap;

use dyno_sut::engine::Answers;
use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, InputValue};
use dyno_sut::tensors::{Element, Elements, ModelInput, Scalar};
use half::f16;

use super::{LoadedSample, Pipeline, PipelineLoader};
use crate::data::igbh::{FeatureRows, Igbh};
use crate::files::{Files, OpenError};
use crate::fit::ModelInterface;
use crate::graphs::rgat::{edges_of, starts_from};
use crate::networks;
use crate::subgraph::{HOPS, KINDS, PAPER, RELATIONS, Subgraph, SubgraphEdges, draw};

/// Description of the inputs of the task's models.
const INPUTS: &str = "inputs called after the kinds of nodes, such as `paper`, the relations and \
                      hops, such as `paper__cites__paper.1`, and `reached`";

/// Seed of the sampled neighbors; it never changes.
const SEED: u64 = 20_240_712;

/// Role of an input of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputRole {
    /// Features of the nodes of a kind (index in [`KINDS`]).
    Features(usize, Element),
    /// Edges of a relation in a hop, as indices of nodes.
    Edges(usize, usize),
    /// Number of nodes of each kind that each hop has reached.
    Reached,
}

/// The pipeline with its graph and model.
struct RgatPipeline {
    graph: Igbh,
    model: CallableModel,
    /// Roles in the order of the model's inputs.
    roles: Vec<InputRole>,
    fan_outs: [usize; HOPS],
}

/// Shape and elements of an input.
type ShapedElements = (Vec<usize>, Elements<'static>);

/// Reads the graph, which takes minutes and much memory, and finds the model.
pub(crate) fn open(
    files: &Files<'_>,
    fan_outs: [usize; HOPS],
) -> Result<PipelineLoader, OpenError> {
    let path = networks::rgat(files)?;
    // Checked before edges are read, which takes minutes.
    let declared = ModelInterface::read(&path)?;
    let fit = declared.reject_unknown_inputs(|name| role_of(name).is_some(), INPUTS);
    fit.map_err(OpenError::content)?;
    let folder = files.path("graph")?;
    files.report_progress("turning the edges of IGBH to the neighbours of each node, in memory");
    let graph = Igbh::open(&folder).map_err(OpenError::content)?;
    Ok(Box::new(move |open| {
        let model = open(&path)?.into_callable();
        let roles = roles(&model, graph.features[PAPER].width)?;
        check_output(&model)?;
        Ok(Box::new(RgatPipeline { graph, model, roles, fan_outs }))
    }))
}

/// Returns the role of each input of the model.
fn roles(model: &CallableModel, width: usize) -> Result<Vec<InputRole>, OnnxError> {
    let role_of = |input: &ModelInput| {
        let known = role_of(&input.name);
        let known = known.ok_or_else(|| model.unfit(format!("'{}': {INPUTS}", input.name)))?;
        let (role_of, element, shape) = match known {
            InputRole::Features(kind, _) => {
                let element = match input.element {
                    Element::F16 => Element::F16,
                    _ => Element::F32,
                };
                (InputRole::Features(kind, element), element, [None, Some(width)])
            }
            InputRole::Edges(..) => (known, Element::I64, [Some(2), None]),
            InputRole::Reached => (known, Element::I64, [Some(KINDS.len()), Some(HOPS + 1)]),
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
        Ok(role_of)
    };
    model.inputs().iter().map(role_of).collect()
}

fn role_of(name: &str) -> Option<InputRole> {
    if name == "reached" {
        return Some(InputRole::Reached);
    }
    if let Some(kind) = KINDS.iter().position(|kind| *kind == name) {
        return Some(InputRole::Features(kind, Element::F32));
    }
    let all = (0..RELATIONS.len()).flat_map(|at| (1..=HOPS).map(move |hop| (at, hop)));
    all.into_iter()
        .find(|(at, hop)| {
            starts_from(RELATIONS[*at].to, *hop) && edges_of(&RELATIONS[*at], *hop) == name
        })
        .map(|(at, hop)| InputRole::Edges(at, hop - 1))
}

/// Checks that the first output has the scores or the class of each paper.
fn check_output(model: &CallableModel) -> Result<(), OnnxError> {
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

impl RgatPipeline {
    fn input(&self, role_of: InputRole, drawn: &Subgraph) -> Result<ShapedElements, String> {
        Ok(match role_of {
            InputRole::Features(kind, element) => {
                let rows = &self.graph.features[kind];
                let nodes = &drawn.nodes[kind];
                let elements = match element {
                    Element::F16 => gather(rows, nodes, |numbers: Vec<f32>| {
                        numbers.into_iter().map(f16::from_f32).collect()
                    }),
                    _ => gather(rows, nodes, |numbers: Vec<f16>| {
                        numbers.into_iter().map(f16::to_f32).collect()
                    }),
                }?;
                (vec![nodes.len(), rows.width], elements)
            }
            InputRole::Edges(relation, hop) => {
                let SubgraphEdges { sources, targets } = &drawn.edges[relation][hop];
                let both = [&sources[..], targets].concat();
                (vec![2, sources.len()], Elements::I64(both.into()))
            }
            InputRole::Reached => {
                let counts = drawn.reached.as_flattened().iter().map(|count| *count as i64);
                (vec![KINDS.len(), HOPS + 1], Elements::I64(counts.collect()))
            }
        })
    }
}

/// Returns features of nodes as elements of `T`; those of a file of the other type are converted by
/// `turn`.
fn gather<T: Scalar, U: Scalar>(
    rows: &FeatureRows,
    nodes: &[u32],
    turn: impl FnOnce(Vec<U>) -> Vec<T>,
) -> Result<Elements<'static>, String> {
    let row = rows.row_bytes();
    let mut bytes = vec![0; nodes.len() * row];
    for (node, into) in nodes.iter().zip(bytes.chunks_exact_mut(row)) {
        rows.read(*node, into)?;
    }
    let all = if rows.element == T::TYPE { T::read(&bytes) } else { turn(U::read(&bytes)) };
    Ok(T::wrap(all.into()))
}

impl Pipeline for RgatPipeline {
    fn models(&self) -> Vec<&CallableModel> {
        vec![&self.model]
    }

    fn answer(&self, batch: &[LoadedSample], answers: &mut Answers) -> Result<(), String> {
        // A paper may occur twice in a batch.
        let mut papers = Vec::new();
        let mut places = HashMap::new();
        let mut rows = Vec::new();
        for LoadedSample { inputs, .. } in batch {
            let paper = inputs[0].elements.to_i64().and_then(|all| all.first().copied());
            let paper = paper.and_then(|paper| u32::try_from(paper).ok());
            let paper = paper.ok_or("expected the number of a paper")?;
            rows.push(*places.entry(paper).or_insert_with(|| {
                papers.push(paper);
                papers.len() - 1
            }));
        }
        let drawn = draw(&self.graph.incoming, &papers, self.fan_outs, SEED);
        let inputs = self.roles.iter().map(|role_of| self.input(*role_of, &drawn));
        let inputs: Vec<ShapedElements> = inputs.collect::<Result<_, _>>()?;
        let fed: Vec<InputValue<'_>> = inputs
            .iter()
            .map(|(shape, elements)| InputValue::Elements(shape, elements.clone()))
            .collect();
        let outputs = self.model.call(&fed)?;
        let (shape, elements) = outputs.first().ok_or("the model has no output")?.read()?;
        if let Some(at) = elements.to_f32().iter().position(|score| score.is_nan()) {
            let paper = at * papers.len() / elements.len();
            let sample = rows.iter().position(|row| *row == paper).map(|at| &batch[at].sample);
            let index = sample.map_or(0, |sample| sample.index);
            return Err(format!("sample {index}: a score of its paper is NaN"));
        }
        let classes = classes(&shape, &elements).filter(|classes| classes.len() == papers.len());
        let classes = classes.ok_or_else(|| {
            format!("expected scores or classes of {} papers, found {shape:?}", papers.len())
        })?;
        for (LoadedSample { sample, .. }, row) in batch.iter().zip(rows) {
            answers.push(sample.id, &classes[row].to_le_bytes());
        }
        Ok(())
    }

    fn try_out(&self, first: &LoadedSample) -> Result<(), String> {
        self.answer(std::slice::from_ref(first), &mut Answers::new())
    }
}

/// Returns the class of each paper: the model's output, or the first index of the greatest score.
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
        assert_eq!(role_of("reached"), Some(InputRole::Reached));
        assert_eq!(role_of("fos"), Some(InputRole::Features(3, Element::F32)));
        assert_eq!(role_of("paper__cites__paper.1"), Some(InputRole::Edges(0, 0)));
        assert_eq!(role_of("institute__rev_affiliated_to__author.3"), Some(InputRole::Edges(7, 2)));
        // No hop before the third starts from institutes.
        assert_eq!(role_of("author__affiliated_to__institute.2"), None);
        assert_eq!(role_of("author__affiliated_to__institute.3"), Some(InputRole::Edges(2, 2)));
        assert_eq!(role_of("paper__cites__paper.4"), None);
    }

    #[test]
    fn the_first_of_the_greatest_scores_is_the_class() {
        let scores = Elements::F32(vec![0.5, 2.0, 2.0, -3.0, -4.0, -5.0].into());
        assert_eq!(classes(&[2, 3], &scores), Some(vec![1, 0]));
        assert_eq!(classes(&[2], &Elements::I64(vec![7, 2982].into())), Some(vec![7, 2982]));
        assert_eq!(classes(&[1, 2, 3], &scores), None);
    }
}
