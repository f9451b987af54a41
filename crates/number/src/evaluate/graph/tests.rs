//! Compares graphs with slow implementations of their layers and with the engine of chains, and
//! checks that caches do not change results.

mod cells;
mod files;
mod packed;
mod qdq;
mod scaled;
mod twin;

use dyno_onnx::{
    Attribute, BuildError, Builder, Dim, Element, Fill, Name, Tensor as Constant, Values, Weights,
};
use proptest::prelude::*;

use super::*;
use crate::evaluate::tests::{format, images, network as chain};
use crate::evaluate::{ChainEvaluator, Samples};
use crate::network::{LayerwiseScope, Network};
use crate::objective::Objective;
use crate::platform::Platform;
use crate::tune::{self, Journal, Settings};

const COUNT: usize = 70;

fn base() -> Assignment {
    Assignment::new(Vec::new(), Vec::new())
}

fn fed(dims: &[usize], correctness: CorrectnessRule) -> GraphSamples {
    let size: usize = dims.iter().product();
    let values = images(COUNT * size).into_iter().map(|x| 2.0 * x - 1.0).collect();
    GraphSamples {
        inputs: vec![GraphInput { dims: dims.to_vec(), values }],
        lengths: None,
        correctness,
    }
}

fn sets() -> [Vec<usize>; 3] {
    [(0..COUNT).step_by(3).collect(), (0..COUNT).collect(), Vec::new()]
}

/// Assigns formats to all objects by number.
fn assigned(objects: &[String], choices: &[u32]) -> Assignment {
    let formats = choices.iter().cycle().take(objects.len()).map(|choice| format(*choice));
    let names = objects.iter().map(|name| vec![name.clone()]).collect();
    Assignment::new(names, formats.collect())
}

fn tuned(graph: &GraphEvaluator) -> Network {
    Network {
        name: "graph".into(),
        platform: Platform::named("paper").expect("built in"),
        layers: graph.profile(),
        layerwise: LayerwiseScope::WeightOnly,
        objective: Objective::Bits,
        metric: crate::network::Metric::default(),
        error_margin: 0.1,
        external: None,
        built_in: None,
    }
}

/// A residual block with a folded normalization, a depthwise convolution, and two branches that are
/// joined.
fn residual(seed: u64) -> Result<Model, BuildError> {
    let mut net = Builder::new("residual", Weights::seeded(seed));
    let shape = [Dim::symbol("N"), 3.into(), 7.into(), 6.into()];
    let image = net.input("image", Element::F32, &shape);
    let x = conv(&mut net, "first", &image, [8, 3, 3, 3], 1)?;
    let x = normal(&mut net, "first", &x, 8)?;
    let x = net.node("Relu", &[&x], &[])?;
    let y = conv(&mut net, "depthwise", &x, [8, 1, 3, 3], 8)?;
    let y = normal(&mut net, "depthwise", &y, 8)?;
    let y = net.node("HardSwish", &[&y], &[])?;
    let y = conv(&mut net, "grouped", &y, [8, 4, 3, 3], 2)?;
    let x = net.node("Add", &[&x, &y], &[])?;
    let x = net.node("Concat", &[&x, &y], &[("axis", 1_i64.into())])?;
    let x = normal(&mut net, "last", &x, 16)?;
    let x = net.node("Sigmoid", &[&x], &[])?;
    let x = net.node("GlobalAveragePool", &[&x], &[])?;
    let x = net.node("Flatten", &[&x], &[])?;
    let (weight, bias) = (
        net.weight("fc.weight", &[16, 5], Fill::lecun(4))?,
        net.weight("fc.bias", &[5], Fill::Uniform(0.1))?,
    );
    let x = net.node("Gemm", &[&x, &weight, &bias], &[])?;
    net.output("scores", &x)?;
    Ok(net.finish())
}

fn conv(
    net: &mut Builder,
    name: &str,
    from: &Name,
    shape: [usize; 4],
    groups: i64,
) -> Result<Name, BuildError> {
    let weight = net.weight(&format!("{name}.weight"), &shape, Fill::he(shape[1] * 9))?;
    let attributes: [(&str, Attribute); 2] =
        [("group", groups.into()), ("pads", [1, 1, 1, 1].into())];
    net.node("Conv", &[from, &weight], &attributes)
}

fn normal(net: &mut Builder, name: &str, x: &Name, channels: usize) -> Result<Name, BuildError> {
    let mut part = |part: &str, from: f32, to: f32| {
        let values = (0..channels).map(|at| from + (to - from) * at as f32 / channels as f32);
        let values: Vec<f32> = values.collect();
        net.tensor(Constant::from_f32(format!("{name}.{part}"), &[channels], &values))
    };
    let parts =
        [("scale", 0.5, 1.5), ("shift", -0.3, 0.2), ("mean", -0.1, 0.3), ("variance", 0.5, 2.0)];
    let [scale, shift, mean, variance] = parts.map(|(name, from, to)| part(name, from, to));
    net.node("BatchNormalization", &[x, &scale?, &shift?, &mean?, &variance?], &[])
}

/// Kind of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cells {
    Lstm,
    /// An LSTM with peepholes, coupled gates and clipping.
    Peeping,
    Gru,
    /// A GRU that resets the state, and not its product.
    ResetsFirst,
}

/// Limit of the sums of gates.
const CLIP: f32 = 0.4;

/// A table of letters, a recurrent layer, and a second use of its cells.
fn spoken(kind: Cells, seed: u64) -> Result<Model, BuildError> {
    let mut net = Builder::new("spoken", Weights::seeded(seed));
    let letters = net.input("letters", Element::I64, &[Dim::symbol("N"), Dim::symbol("T")]);
    let table = net.weight("table.weight", &[9, 6], Fill::Uniform(1.0))?;
    let x = net.node("Gather", &[&table, &letters], &[])?;
    let x = net.node("Transpose", &[&x], &[("perm", [1, 0, 2].into())])?;
    let op = if matches!(kind, Cells::Lstm | Cells::Peeping) { "LSTM" } else { "GRU" };
    let gates = if op == "LSTM" { 4 } else { 3 };
    let inputs = net.weight("cells.W", &[1, gates * 6, 6], Fill::Uniform(0.6))?;
    let states = net.weight("cells.R", &[1, gates * 6, 6], Fill::Uniform(0.6))?;
    let bias = net.weight("cells.B", &[1, 2 * gates * 6], Fill::Uniform(0.3))?;
    let mut choices: Vec<(&str, Attribute)> = vec![("hidden_size", 6_i64.into())];
    let none = Name::NONE;
    let mut peepholes = none.clone();
    match kind {
        Cells::Lstm => {}
        Cells::Peeping => {
            choices.extend([("clip", CLIP.into()), ("input_forget", 1_i64.into())]);
            peepholes = net.weight("cells.P", &[1, 18], Fill::Uniform(0.5))?;
        }
        Cells::Gru => choices.push(("linear_before_reset", 1_i64.into())),
        Cells::ResetsFirst => choices.push(("linear_before_reset", 0_i64.into())),
    }
    let cells = |net: &mut Builder, x: &Name, first: &Name| {
        let mut inputs = vec![x, &inputs, &states, &bias, &none, first];
        if kind == Cells::Peeping {
            inputs.extend([&none, &peepholes]);
        }
        net.nodes(op, &inputs, &choices)
    };
    let [all, first] = cells(&mut net, &x, &none)?;
    let axes = net.integers(&[1]);
    let all = net.node("Squeeze", &[&all, &axes], &[])?;
    let [_, last] = cells(&mut net, &all, &first)?;
    let first_axis = net.integers(&[0]);
    let last = net.node("Squeeze", &[&last, &first_axis], &[])?;
    net.output("numbers", &last)?;
    Ok(net.finish())
}

fn letters(lengths: Option<Vec<usize>>, correctness: CorrectnessRule) -> GraphSamples {
    let values = images(COUNT * 8).into_iter().map(|x| (x * 9.0).floor()).collect();
    GraphSamples { inputs: vec![GraphInput { dims: vec![8], values }], lengths, correctness }
}

/// Few numbers may differ by one step of a format, because sums in `f32` and `f64` may round
/// differently.
fn near(found: &[f32], expected: &[f64], is_f32: bool) -> bool {
    let scale = expected.iter().fold(1e-3_f64, |max, x| max.max(x.abs()));
    let limit = if is_f32 { 1e-5 } else { 0.05 };
    let off = found.iter().zip(expected).map(|(x, y)| (f64::from(*x) - y).abs());
    found.len() == expected.len() && off.fold(0.0, f64::max) < limit * scale
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_graph_does_what_a_chain_does(seed: u64, choices in prop::collection::vec(0_u32..224, 8)) {
        let model = chain(3, seed).unwrap();
        let values = images(COUNT * 216);
        let samples = Samples { values: values.clone(), labels: vec![0; COUNT] };
        let mut chained = ChainEvaluator::new(&model, samples, sets()).unwrap();
        let inputs = vec![GraphInput { dims: vec![3, 9, 8], values }];
        let fed = GraphSamples { inputs, lengths: None, correctness: CorrectnessRule::Labels(vec![0; COUNT]) };
        let mut graph = GraphEvaluator::new(&model, fed, sets()).unwrap();
        prop_assert_eq!(graph.objects(), chained.objects());
        for (found, expected) in graph.profile().iter().zip(chained.profile().unwrap()) {
            // Sums are computed in another order.
            let off = (found.activation_max / expected.activation_max - 1.0).abs();
            prop_assert!(off < 1e-6, "{found:?} {expected:?}");
            prop_assert_eq!(&Layer { activation_max: expected.activation_max, ..found.clone() }, &expected);
        }
        let quantised = assigned(&graph.objects(), &choices);
        for assignment in [base(), quantised] {
            let expected = chained.scores(&assignment, &[0, 7, COUNT - 1]).unwrap();
            let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
            let found = graph.answers(&assignment, &[0, 7, COUNT - 1]).unwrap().concat();
            prop_assert!(near(&found, &expected, assignment == base()), "{found:?} {expected:?}");
        }
    }

    #[test]
    fn branches_are_those_of_a_slow_twin(seed: u64, choices in prop::collection::vec(0_u32..224, 8)) {
        let model = residual(seed).unwrap();
        let fed = fed(&[3, 7, 6], CorrectnessRule::Agreement(Agreement::Top));
        let image = fed.inputs[0].values[126..252].to_vec();
        let mut graph = GraphEvaluator::new(&model, fed, sets()).unwrap();
        let expected = ["first", "depthwise", "grouped", "fc"];
        let objects: Vec<String> = expected.iter().flat_map(|name| [format!("{name}.weight"), format!("{name}.input")]).collect();
        prop_assert_eq!(graph.objects(), objects);
        let quantised = assigned(&graph.objects(), &choices);
        for assignment in [base(), quantised] {
            let expected = twin::residual(&model, &assignment, &image);
            let found = graph.answers(&assignment, &[1]).unwrap().remove(0);
            prop_assert!(near(&found, &expected, assignment == base()), "{found:?} {expected:?} {assignment}");
        }
    }

    #[test]
    fn cells_are_those_of_a_slow_twin(
        seed: u64, kind in 0_usize..4, length in 1_usize..9, choices in prop::collection::vec(0_u32..224, 8),
    ) {
        let kind = [Cells::Lstm, Cells::Peeping, Cells::Gru, Cells::ResetsFirst][kind];
        let model = spoken(kind, seed).unwrap();
        let lengths = Some((0..COUNT).map(|at| if at == 4 { length } else { 1 + at % 8 }).collect());
        let fed = letters(lengths, CorrectnessRule::Agreement(Agreement::Cosine(0.9)));
        let word = fed.inputs[0].values[32..32 + length].to_vec();
        let mut graph = GraphEvaluator::new(&model, fed, sets()).unwrap();
        let quantised = assigned(&graph.objects(), &choices);
        for assignment in [base(), quantised] {
            let expected = twin::spoken(&model, kind, &assignment, &word);
            let found = graph.answers(&assignment, &[4]).unwrap().remove(0);
            prop_assert!(near(&found, &expected, assignment == base()), "{found:?} {expected:?} {assignment}");
        }
    }

    /// Caches, the number of threads and early ends of trials change no result.
    #[test]
    fn shortcuts_change_no_result(
        choices in prop::collection::vec(prop::collection::vec(0_u32..224, 8), 3),
        mixed in prop::collection::vec((0_usize..3, 0_usize..3, any::<bool>(), 0.0_f64..1.1), 6),
        is_image: bool,
    ) {
        let agreement = CorrectnessRule::Agreement(if is_image { Agreement::Top } else { Agreement::Cosine(0.97) });
        let (model, fed) = if is_image {
            (residual(5).unwrap(), fed(&[3, 7, 6], agreement))
        } else {
            let lengths = (0..COUNT).map(|at| 1 + at % 8).collect();
            (spoken(Cells::Gru, 5).unwrap(), letters(Some(lengths), agreement))
        };
        let mut fast = GraphEvaluator::new(&model, fed.clone(), sets()).unwrap().with_limits(3, 100_000);
        let mut slow = GraphEvaluator::new(&model, fed, sets()).unwrap().with_limits(1, 0);
        for (front, back, is_small, decides) in mixed {
            // Trials with equal formats at the beginning.
            let mut formats = choices[front].clone();
            formats[3] = choices[back][3];
            formats[7] = choices[back][7];
            let subset = if is_small { Subset::Small } else { Subset::Full };
            let assignment = assigned(&slow.objects(), &formats);
            let mut trial = Trial { number: 1, subset, assignment, decides: None };
            let expected = slow.evaluate(&trial, &|| false).unwrap();
            prop_assert!(!expected.is_bound);
            prop_assert_eq!(&fast.evaluate(&trial, &|| false).unwrap(), &expected);
            trial.decides = Some(decides);
            let found = fast.evaluate(&trial, &|| false).unwrap();
            if expected.accuracy < decides {
                prop_assert!(found.is_bound && found.accuracy < decides && found.accuracy >= expected.accuracy);
                prop_assert_eq!(&slow.evaluate(&trial, &|| false).unwrap(), &found);
            } else {
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}

/// Models of one sample: one cannot be computed for several, and one would add up samples.
#[test]
fn a_model_of_one_sample_gets_one_at_a_time() {
    let model = |op: &str| {
        let mut net = Builder::new("single", Weights::seeded(5));
        let x = net.input("x", Element::F32, &[1.into(), 4.into()]);
        let other = match op {
            "Reshape" => net.integers(&[1, -1]),
            _ => net.integers(&[0]),
        };
        let y = net.node(op, &[&x, &other], &[]).unwrap();
        let weight = net.weight("fc.weight", &[4, 3], Fill::he(4)).unwrap();
        let y = net.node("MatMul", &[&y, &weight], &[]).unwrap();
        let z = net.node("Sigmoid", &[&y], &[]).unwrap();
        let y = net.node("Add", &[&y, &z], &[]).unwrap();
        net.output("y", &y).unwrap();
        net.finish()
    };
    let samples = || fed(&[4], CorrectnessRule::Agreement(Agreement::Top));
    for op in ["Reshape", "CumSum"] {
        let model = model(op);
        let graph = GraphEvaluator::new(&model, samples(), sets()).unwrap();
        let one = |at: usize| {
            let mut fed = samples();
            fed.inputs[0].values = fed.inputs[0].values[4 * at..][..4].to_vec();
            let sets = [Vec::new(), vec![0], Vec::new()];
            GraphEvaluator::new(&model, fed, sets).unwrap().base[0].clone()
        };
        for at in [0, 1, 40, COUNT - 1] {
            assert_eq!(graph.base[at], one(at), "{op}, sample {at}");
        }
        let layer = &graph.profile()[0];
        assert_eq!((layer.activation_size, layer.macs), (4, 12), "{op}");
    }
}

/// An interrupted evaluation has no result, and leaves nothing behind that changes later ones.
#[test]
fn an_evaluation_is_interrupted() {
    let model = residual(3).unwrap();
    let fed = fed(&[3, 7, 6], CorrectnessRule::Agreement(Agreement::Top));
    let [mut graph, mut other] =
        [fed.clone(), fed].map(|fed| GraphEvaluator::new(&model, fed, sets()).unwrap());
    let assignment = assigned(&graph.objects(), &[8]);
    let trial = Trial { number: 1, subset: Subset::Full, assignment, decides: None };
    for blocks in [0, 1] {
        let looks = AtomicUsize::new(0);
        let is_asked = || looks.fetch_add(1, Ordering::Relaxed) >= blocks;
        assert_eq!(graph.evaluate(&trial, &is_asked), Err(Stop::Interrupted));
    }
    // One look for each block: the last block is evaluated, so that the result is kept.
    let blocks = graph.samples.blocks(&graph.sets[1], graph.block).len();
    let looks = AtomicUsize::new(0);
    let is_asked = || looks.fetch_add(1, Ordering::Relaxed) >= blocks;
    assert_eq!(graph.evaluate(&trial, &is_asked), other.evaluate(&trial, &|| false));
    assert_eq!(graph.evaluate(&trial, &|| false), other.evaluate(&trial, &|| false));
}

#[test]
fn what_is_kept_is_used() {
    let model = residual(3).unwrap();
    let mut graph = GraphEvaluator::new(
        &model,
        fed(&[3, 7, 6], CorrectnessRule::Agreement(Agreement::Top)),
        sets(),
    )
    .unwrap();
    let assignment = assigned(&graph.objects(), &[8]);
    let trial = Trial { number: 1, subset: Subset::Full, assignment, decides: None };
    graph.evaluate(&trial, &|| false).unwrap();
    let blocks = graph.samples.blocks(&graph.sets[1], BLOCK);
    let caches = graph.caches_for(&trial, blocks.len());
    let prepared = graph.prepared(&trial.assignment).unwrap();
    let plan = graph.plan(&prepared, &caches, &blocks);
    let needed = plan.steps.needed(&plan.begin(0, &blocks[0]));
    let needed = plan.steps.steps.iter().zip(needed).filter(|(_, is_needed)| *is_needed);
    let needed: Vec<&str> = needed.map(|(step, _)| step.node.0.as_str()).collect();
    // The builder names outputs with an Identity.
    assert_eq!(needed, ["Gemm", "Gemm", "Identity"], "the last product, and its bias");
}

#[test]
fn weights_that_are_used_twice_are_one_object() {
    let model = spoken(Cells::Gru, 1).unwrap();
    let graph = GraphEvaluator::new(
        &model,
        letters(None, CorrectnessRule::Agreement(Agreement::Top)),
        sets(),
    )
    .unwrap();
    let found: Vec<_> = graph
        .profile()
        .iter()
        .map(|layer| (layer.name.clone(), layer.weight_size, layer.activation_size, layer.macs))
        .collect();
    let layer =
        |name: &str, weights, activations, macs| (name.to_owned(), weights, activations, macs);
    // Eight steps each, for two samples.
    let expected = [
        layer("table", 54, 0, 0),
        layer("cells", 108, 96, 16 * 108),
        layer("cells.R", 108, 16 * 6, 16 * 108),
        layer("cells.B", 36, 0, 0),
    ];
    assert_eq!(found, expected);
}

/// Returns whether a target, or one of its products, has weights in memory.
fn has_weights(target: &target::Target) -> bool {
    let products = target.stages.iter().filter_map(|stage| stage.product.as_ref());
    let mut all = products.map(|product| &product.weights).chain([&target.weights]);
    all.any(|weights| !weights.is_empty())
}

/// Names need no weights, which may be larger than the memory. Recurrent layers keep theirs.
#[test]
fn an_outline_has_the_targets_without_their_weights() {
    for (model, with_weights) in
        [(residual(1), vec![]), (spoken(Cells::Gru, 1), vec!["cells", "cells.R", "cells.B"])]
    {
        let model = model.unwrap();
        let (all, outline) = (read::steps(&model).unwrap(), read::outline(&model).unwrap());
        let names = |steps: &read::Steps| -> Vec<String> {
            steps.targets.iter().map(|target| target.name.clone()).collect()
        };
        assert_eq!(names(&outline), names(&all));
        let kept = outline.targets.iter().filter(|target| has_weights(target));
        let kept: Vec<&str> = kept.map(|target| target.name.as_str()).collect();
        assert_eq!(kept, with_weights);
    }
}

/// Embedding models divide their vectors by their lengths.
#[test]
fn vectors_are_divided_by_their_lengths() {
    let mut net = Builder::new("embedding", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 2.into()]);
    let length = net.node("ReduceL2", &[&x], &[("axes", [1].into())]).unwrap();
    let y = net.node("Div", &[&x, &length], &[]).unwrap();
    net.output("y", &y).unwrap();
    let samples = GraphSamples {
        inputs: vec![GraphInput { dims: vec![2], values: vec![3.0, -4.0, 5.0, 12.0] }],
        lengths: None,
        correctness: CorrectnessRule::Agreement(Agreement::Cosine(0.99)),
    };
    let graph = GraphEvaluator::new(&net.finish(), samples, Default::default()).unwrap();
    assert_eq!(graph.base, [[0.6, -0.8], [5.0 / 13.0, 12.0 / 13.0]]);
}

/// Any format of a layer that only a second output needs would keep the first one.
#[test]
fn layers_of_other_outputs_are_left_alone() {
    let mut net = Builder::new("two", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 8.into()]);
    let mut head = |name: &str| {
        let weight = net.weight(name, &[8, 4], Fill::lecun(8)).unwrap();
        let y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
        net.node("Sigmoid", &[&y], &[]).unwrap()
    };
    let (first, second) = (head("first.weight"), head("second.weight"));
    // An operator that the engine does not support.
    let second = net.node("Sin", &[&second], &[]).unwrap();
    net.output("a", &first).unwrap();
    net.output("b", &second).unwrap();
    let model = net.finish();
    let fed = fed(&[8], CorrectnessRule::Agreement(Agreement::Top));
    let graph = GraphEvaluator::new(&model, fed, sets()).unwrap();
    let names: Vec<String> = graph.profile().into_iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["first"]);
    assert_eq!(graph.objects(), ["first.weight", "first.input"]);
    assert_eq!(graph.unused_layers(), ["second"]);
    let search = ScaledSearch::new(&model, &["int8".parse().unwrap()]).unwrap();
    assert_eq!(search.objects(), ["first.weight"]);
}

/// The scale of a dynamically quantized activation follows from all samples of a call, and so does a
/// softmax over the first axis.
#[test]
fn samples_that_influence_each_other_are_computed_alone() {
    for is_dynamic in [true, false] {
        let mut net = Builder::new("joint", Weights::seeded(1));
        let mut x = net.input("x", Element::F32, &[Dim::symbol("N"), 8.into()]);
        if is_dynamic {
            let [codes, scale, zero] = net.nodes("DynamicQuantizeLinear", &[&x], &[]).unwrap();
            x = net.node("DequantizeLinear", &[&codes, &scale, &zero], &[]).unwrap();
        }
        let weight = net.weight("fc.weight", &[8, 4], Fill::lecun(8)).unwrap();
        let mut y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
        if !is_dynamic {
            y = net.node("Softmax", &[&y], &[("axis", 0_i64.into())]).unwrap();
        }
        net.output("y", &y).unwrap();
        let fed = fed(&[8], CorrectnessRule::Agreement(Agreement::Top));
        let mut graph = GraphEvaluator::new(&net.finish(), fed, sets()).unwrap();
        let all: Vec<usize> = (0..COUNT).collect();
        let together = graph.base.clone();
        assert_eq!(together, graph.answers(&base(), &all).unwrap());
        // The softmax of a sample alone is 1 everywhere.
        assert!(is_dynamic || together.iter().flatten().all(|share| *share == 1.0));
    }
}

#[test]
fn a_graph_is_tuned() {
    let model = residual(2).unwrap();
    let fed = fed(&[3, 7, 6], CorrectnessRule::Agreement(Agreement::Top));
    let mut graph = GraphEvaluator::new(&model, fed, sets()).unwrap();
    let network = tuned(&graph);
    let mut evaluate = |trials: &[Trial]| {
        trials.iter().map(|trial| graph.evaluate(trial, &|| false)).collect::<Vec<_>>()
    };
    let outcome =
        tune::tune(&network, &Settings::default(), Journal::disabled(), &mut evaluate, &mut |_| ());
    assert_eq!(outcome.noise, Some([1.0, 1.0]), "FLOAT(32) agrees with itself");
    let answer = outcome.answer.expect("FLOAT(32) at least");
    assert!(answer.accuracy >= 0.9 && answer.objective < outcome.base_objective / 2.0);
}

/// Exports in half precision are frequent. What is wrong with them is their type.
#[test]
fn weights_of_other_types_are_named() {
    let refused = |op: &str| {
        let element = Element::F16;
        let mut net = Builder::new("half", Weights::seeded(1));
        let x = net.input("x", element, &[Dim::symbol("N"), 4.into()]);
        let values = Values::Bytes(vec![0; 4 * 4 * element.size()]);
        let weight = Constant { name: "fc.weight".into(), element, shape: vec![4, 4], values };
        let weight = net.tensor(weight).unwrap();
        let y = net.node(op, &[&x, &weight], &[]).unwrap();
        net.output("y", &y).unwrap();
        let fed = fed(&[4], CorrectnessRule::Agreement(Agreement::Equal));
        GraphEvaluator::new(&net.finish(), fed, Default::default()).unwrap_err().to_string()
    };
    for op in ["MatMul", "Gemm"] {
        let expected = format!(
            "{op} ({op}_0) reads fc.weight as float16, and the built-in engine computes in float32; such \
             a model needs a program, `cmd_fullset`"
        );
        assert_eq!(refused(op), expected);
    }
}

#[test]
fn what_cannot_be_done_is_told() {
    let refused = |op: &str, dims: &[usize], fed: GraphSamples| {
        let mut net = Builder::new("other", Weights::seeded(1));
        let shape = std::iter::once(Dim::symbol("N")).chain(dims.iter().map(|n| (*n).into()));
        let x = net.input("x", Element::F32, &shape.collect::<Vec<Dim>>());
        let y = net.node(op, &[&x], &[]).unwrap();
        net.output("y", &y).unwrap();
        GraphEvaluator::new(&net.finish(), fed, Default::default()).unwrap_err().to_string()
    };
    let labels = |count: usize| CorrectnessRule::Labels(vec![0; count]);
    let one = |correctness| GraphSamples {
        inputs: vec![GraphInput { dims: vec![4], values: vec![0.0; 8] }],
        lengths: None,
        correctness,
    };
    let expected = "Sin (Sin_0) is not supported by the built-in engine; such a model needs a program, \
                    `cmd_fullset`";
    assert_eq!(refused("Sin", &[4], one(labels(2))), expected);
    assert_eq!(
        refused("Relu", &[5], one(labels(2))),
        "expected x of shape [N, 5], found samples of [4]"
    );
    assert_eq!(
        refused("Relu", &[4], one(labels(3))),
        "expected a label for each of 2 samples, found 3"
    );
    assert_eq!(
        refused("Relu", &[4], one(CorrectnessRule::Labels(vec![0, 4]))),
        "expected labels below 4, the outputs of the model, found 4 for sample 1"
    );
    let single = GraphSamples {
        inputs: vec![GraphInput { dims: vec![1], values: vec![1.0, 2.0] }],
        ..one(CorrectnessRule::Labels(vec![0, 1]))
    };
    let told = refused("Relu", &[1], single);
    assert!(told.contains("found 1 for sample 1; a single score determines no class"), "{told}");
    // The largest of one number is always the first, and its cosine knows only the sign.
    for agreement in [Agreement::Top, Agreement::Cosine(0.99)] {
        let single = GraphSamples {
            inputs: vec![GraphInput { dims: vec![1], values: vec![1.0, 2.0] }],
            lengths: None,
            correctness: CorrectnessRule::Agreement(agreement),
        };
        let told = refused("Relu", &[1], single);
        assert!(told.starts_with("expected answers of 2 numbers or more"), "{told}");
        assert!(told.contains("found 1 for sample 0; use `agreement = \"within 0.1\"`"), "{told}");
    }
    let lengths = GraphSamples { lengths: Some(vec![1, 9]), ..one(labels(2)) };
    assert_eq!(refused("Relu", &[4], lengths), "expected lengths from 1 to 4, found 9");
    let none = GraphSamples { inputs: Vec::new(), lengths: None, correctness: labels(0) };
    assert_eq!(
        refused("Relu", &[4], none),
        "expected samples of each input: x, found samples of 0"
    );
}
