//! Batch normalizations that follow convolutions become part of their weights.

use std::collections::{BTreeSet, HashMap};

use dyno_onnx::{Attribute, Model, Node, Port, Tensor};

/// A convolution and the normalization that its new weights contain.
struct Fold {
    convolution: usize,
    normalization: usize,
    weights: Tensor,
    bias: Tensor,
}

/// Replaces each convolution with constant weights and the normalization of its only output by a
/// convolution.
pub(crate) fn fold_normalizations(model: &mut Model) {
    let folds = folds(model);
    for Fold { convolution, normalization, weights, bias } in &folds {
        let outputs = model.nodes[*normalization].outputs.clone();
        let node = &mut model.nodes[*convolution];
        node.inputs.truncate(1);
        node.inputs.extend([weights.name.clone(), bias.name.clone()]);
        node.outputs = outputs;
    }
    let removed: BTreeSet<usize> = folds.iter().map(|fold| fold.normalization).collect();
    let nodes = std::mem::take(&mut model.nodes).into_iter().enumerate();
    model.nodes = nodes.filter(|(at, _)| !removed.contains(at)).map(|(_, node)| node).collect();
    model.tensors.extend(folds.into_iter().flat_map(|fold| [fold.weights, fold.bias]));
}

fn folds(model: &Model) -> Vec<Fold> {
    let mut uses = HashMap::new();
    count_uses(&model.nodes, &model.outputs, &mut uses);
    // Values replace the tensors that have the names of inputs.
    let is_input = |name: &str| model.inputs.iter().any(|port| port.name == name);
    let tensors = model.tensors.iter().filter(|tensor| !is_input(&tensor.name));
    let tensors: HashMap<&str, &Tensor> = tensors.map(|one| (one.name.as_str(), one)).collect();
    let convolutions =
        model.nodes.iter().enumerate().filter(|(_, node)| has_operator(node, "Conv"));
    let convolutions: HashMap<&str, usize> =
        convolutions.filter_map(|(at, node)| Some((node.outputs.first()?.as_str(), at))).collect();
    let outputs: BTreeSet<&String> = model.nodes.iter().flat_map(|node| &node.outputs).collect();
    let fold = |(normalization, node): (usize, &Node)| {
        let own =
            node.inputs.first().filter(|_| has_operator(node, "BatchNormalization"))?.as_str();
        let convolution = *convolutions.get(own).filter(|_| uses.get(own) == Some(&1))?;
        let (weights, bias) = folded(&model.nodes[convolution], node, &tensors)?;
        let is_used = |Tensor { name, .. }: &Tensor| {
            tensors.contains_key(name.as_str()) || is_input(name) || outputs.contains(name)
        };
        let is_new = !is_used(&weights) && !is_used(&bias);
        is_new.then_some(Fold { convolution, normalization, weights, bias })
    };
    model.nodes.iter().enumerate().filter_map(fold).collect()
}

fn has_operator(node: &Node, op: &str) -> bool {
    node.domain.is_empty() && node.op == op
}

/// Counts how often each value is read, also in graphs inside nodes.
fn count_uses<'m>(nodes: &'m [Node], outputs: &'m [Port], uses: &mut HashMap<&'m str, usize>) {
    let outputs = outputs.iter().map(|port| port.name.as_str());
    for name in nodes.iter().flat_map(|node| &node.inputs).map(String::as_str).chain(outputs) {
        *uses.entry(name).or_default() += 1;
    }
    for (_, body) in nodes.iter().flat_map(Node::bodies) {
        count_uses(&body.nodes, &body.outputs, uses);
    }
}

/// Returns the weights and the bias of a convolution that also normalizes. `None` if a number is not
/// known or not finite, or the normalization has a form that is not supported.
fn folded(
    convolution: &Node,
    normalization: &Node,
    tensors: &HashMap<&str, &Tensor>,
) -> Option<(Tensor, Tensor)> {
    let tensor = |name: &str| tensors.get(name).copied()?.clone().in_memory().ok();
    let numbers = |node: &Node, input: usize| tensor(node.inputs.get(input)?)?.floats();
    let (mut epsilon, mut is_inference) = (1e-5_f32, normalization.outputs.len() == 1);
    for (name, value) in &normalization.attributes {
        match (name.as_str(), value) {
            ("epsilon", Attribute::Float(value)) => epsilon = *value,
            ("spatial", Attribute::Int(1))
            | ("training_mode", Attribute::Int(0))
            | ("momentum", _) => {}
            _ => is_inference = false,
        }
    }
    let weights = tensor(convolution.inputs.get(1)?).filter(|_| is_inference)?;
    let (all, filters) = (weights.floats()?, *weights.shape.first().filter(|n| **n > 0)?);
    let bias = match convolution.inputs.get(2).map(String::as_str) {
        None | Some("") => vec![0.0; filters],
        Some(_) => numbers(convolution, 2)?,
    };
    let mut parameters = Vec::new();
    for input in 1..5 {
        parameters.push(numbers(normalization, input)?);
    }
    let [scale, shift, mean, variance] = &parameters[..] else { return None };
    if [&bias, scale, shift, mean, variance].iter().any(|all| all.len() != filters) {
        return None;
    }
    let wide = |all: &[f32], at: usize| f64::from(all[at]);
    let factor = |at: usize| wide(scale, at) / (wide(variance, at) + f64::from(epsilon)).sqrt();
    let window = all.len() / filters;
    let place = |at: usize| at / window.max(1);
    let weight = |(at, w): (usize, &f32)| (f64::from(*w) * factor(place(at))) as f32;
    let all: Vec<f32> = all.iter().enumerate().map(weight).collect();
    let sum =
        |at: usize| ((wide(&bias, at) - wide(mean, at)) * factor(at) + wide(shift, at)) as f32;
    let sums: Vec<f32> = (0..filters).map(sum).collect();
    let is_finite = all.iter().chain(&sums).all(|x| x.is_finite());
    let name = |part: &str| Some(format!("{}/folded {part}", normalization.outputs.first()?));
    let weights = Tensor::from_f32(name("weights")?, &weights.shape, &all);
    is_finite.then_some((weights, Tensor::from_f32(name("bias")?, &[filters], &sums)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dyno_onnx::{Attribute, Builder, Element, Model, Weights};

    use super::fold_normalizations;
    use crate::{Graph, Session, SessionOptions, Value};

    /// Returns a convolution with two filters, a normalization and an activation.
    fn model(variance: f32, has_bias: bool, is_read_twice: bool) -> Model {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[1.into(), 1.into(), 3.into()]);
        let mut tensor = |name: &str, shape: &[usize], numbers: &[f32]| {
            net.tensor(super::Tensor::from_f32(name, shape, numbers)).expect("a tensor")
        };
        let w = tensor("w", &[2, 1, 2], &[1.0, 2.0, 3.0, -1.0]);
        let b = tensor("b", &[2], &[1.0, 0.5]);
        let parts = [[3.0, -2.0], [0.25, 8.0], [1.0, -1.5], [variance, 4.0 - 1e-5]];
        let [scale, shift, mean, variance] = ["scale", "shift", "mean", "variance"];
        let names = [scale, shift, mean, variance].into_iter().zip(&parts);
        let names: Vec<_> = names.map(|(name, part)| tensor(name, &[2], part)).collect();
        let inputs = if has_bias { vec![&x, &w, &b] } else { vec![&x, &w] };
        let sums = net.node("Conv", &inputs, &[]).expect("a convolution");
        let mut inputs = vec![&sums];
        inputs.extend(&names);
        let y = net.node("BatchNormalization", &inputs, &[]).expect("a normalization");
        let y = net.node("Relu", &[&y], &[]).expect("an activation");
        net.output("y", &y).expect("an output");
        if is_read_twice {
            net.output("sums", &sums).expect("an output");
        }
        net.finish()
    }

    /// Returns the number of normalizations in the graph, and its first output.
    fn run(variance: f32, has_bias: bool, is_read_twice: bool) -> (usize, Vec<f32>) {
        let model = model(variance, has_bias, is_read_twice);
        let graph = Arc::new(Graph::new(&model).expect("a graph"));
        let x = Value::new(vec![1, 1, 3], vec![1.0_f32, 2.0, -4.0]).expect("three numbers");
        let outputs =
            Session::new(Arc::clone(&graph), &SessionOptions::default()).run(&[x]).expect("a run");
        let steps = graph.main.steps.iter();
        let count = steps.filter(|step| step.operator == "BatchNormalization").count();
        (count, outputs[0].all::<f32>().expect("numbers").to_vec())
    }

    /// The sums are 5, -6 and 1, 10.
    #[test]
    fn a_normalization_becomes_part_of_its_convolution() {
        for (has_bias, is_read_twice) in [(true, false), (false, false), (true, true)] {
            let (count, found) = run(1.0 - 1e-5, has_bias, is_read_twice);
            assert_eq!(count, usize::from(is_read_twice));
            let [first, second] = if has_bias { [1.0, 0.5] } else { [0.0; 2] };
            let normal =
                |sum: f32, [mean, scale, shift]: [f32; 3]| ((sum - mean) * scale + shift).max(0.0);
            let expected = [
                normal(5.0 + first, [1.0, 3.0, 0.25]),
                normal(-6.0 + first, [1.0, 3.0, 0.25]),
                normal(1.0 + second, [-1.5, -1.0, 8.0]),
                normal(10.0 + second, [-1.5, -1.0, 8.0]),
            ];
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
    }

    /// Returns the number of normalizations after a change of the model.
    fn count_after(change: impl Fn(&mut Model)) -> usize {
        let mut model = model(1.0, true, false);
        change(&mut model);
        fold_normalizations(&mut model);
        model.nodes.iter().filter(|node| node.op == "BatchNormalization").count()
    }

    #[test]
    fn a_normalization_stays_unless_its_numbers_are_known_and_its_names_are_new() {
        let with_training = |model: &mut Model| {
            model.nodes[1].attributes.push(("training_mode".into(), Attribute::Int(1)));
        };
        // Values replace a tensor that has the name of an input.
        let with_default = |model: &mut Model| {
            let mut port = model.inputs[0].clone();
            port.name.clone_from(&model.nodes[1].inputs[2]);
            model.inputs.push(port);
        };
        let with_name = |model: &mut Model| {
            model.nodes[2].outputs[0] = format!("{}/folded bias", model.nodes[1].outputs[0]);
        };
        assert_eq!(count_after(with_training), 1);
        assert_eq!(count_after(with_default), 1);
        assert_eq!(count_after(with_name), 1);
        assert_eq!(count_after(|model| model.nodes[1].outputs.push("mean".into())), 1);
        assert_eq!(count_after(|model| model.nodes[0].op = "ConvTranspose".into()), 1);
        assert_eq!(count_after(|model| model.nodes[0].domain = "other".into()), 1);
        // Both convolutions read the weights.
        let with_other = |model: &mut Model| {
            let mut other = model.nodes[0].clone();
            other.outputs[0] = "other".into();
            model.nodes.push(other);
        };
        assert_eq!(count_after(with_other), 0);
    }

    /// Weights that are infinite would make NaN of zeros.
    #[test]
    fn a_normalization_without_finite_weights_stays() {
        assert_eq!(run(-1e-5, true, false).0, 1);
        assert_eq!(run(-1.0, true, false).0, 1);
    }
}
