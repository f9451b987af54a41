//! Nodes with weights, and pools.

use dyno_kernels::Activation;
use dyno_onnx::{Attribute, Node};

use super::super::super::attributes::{dilations, float, is_scaled, pool, sliding, unsupported};
use super::super::super::stage::{PostOp, Product, Shape, Sliding, Stage};
use super::super::convolve::GroupedConvolution;
use super::super::elementwise::BinaryOp;
use super::super::recurrent::{Cell, RecurrentLayer};
use super::super::step::Op;
use super::{EvaluateError, Fold, Reader, Step};
use crate::network::LayerKind;

/// Returns a product of rows with weights.
fn row_product(weights: Vec<f32>, k: usize) -> Stage {
    let one = |channels| Shape { height: 1, width: 1, channels };
    let output = one(weights.len() / k);
    let sliding = Sliding { kernel: [1, 1], strides: [1, 1], pads: [0; 4] };
    let product = Product {
        name: String::new(),
        tensor: String::new(),
        kind: LayerKind::FullyConnected,
        sliding,
        weights,
        output,
    };
    Stage { product: Some(product), after: Vec::new(), input: one(k), output }
}

/// Factor and addend of each channel.
type ChannelAffine = (Vec<f32>, Vec<f32>);

impl<'a> Reader<'a> {
    pub(super) fn fully_connected(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let is_gemm = node.op == "Gemm";
        let weights = node.inputs.get(1).filter(|name| !self.values.contains_key(name.as_str()));
        let weights = weights.and_then(|name| self.floats(name));
        let matrix = weights.and_then(|(shape, weights)| match shape[..] {
            [rows, columns] if rows > 0 && columns > 0 => Some((rows, columns, weights)),
            _ => None,
        });
        let Some((rows, columns, weights)) = matrix else {
            return if is_gemm {
                Err(unsupported(node, "has weights that are no constant matrix"))
            } else {
                self.plain(node, Op::MatMul)
            };
        };
        if is_gemm && is_scaled(node) {
            let what = "has transA, or an alpha or beta other than 1, which this engine lacks";
            return Err(unsupported(node, what));
        }
        let is_turned = is_gemm && node.int("transB", 0) != 0;
        let k = if is_turned { columns } else { rows };
        let kind = LayerKind::FullyConnected;
        let target = self.target(node, 1, "product", kind, &weights);
        let by_outputs = if is_turned {
            weights
        } else {
            let weight = |at: usize| weights[at % rows * columns + at / rows];
            (0..rows * columns).map(weight).collect()
        };
        let stage = self.found.targets[target].stage(row_product(by_outputs, k));
        let input = self.operand(node, 0)?;
        let bias = if is_gemm { self.operand(node, 2)? } else { None };
        self.push(node, Op::Rows { target, stage }, vec![input], vec![target]);
        if bias.is_some() {
            // The output of the node is the sum with the bias.
            let sums = self.unnamed();
            let last = self.found.steps.last_mut().expect("the product was pushed");
            let outputs = std::mem::replace(&mut last.outputs, vec![Some(sums)]);
            let op = Op::Binary(BinaryOp::Add);
            let node = last.node.clone();
            let inputs = vec![Some(sums), bias];
            self.found.steps.push(Step { op, node, inputs, outputs, targets: Vec::new() });
        }
        Ok(())
    }

    /// Reads rows of a table of weights by their indices; otherwise a gather of values.
    pub(super) fn gather(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let axis = node.int("axis", 0);
        let given =
            |at: usize| node.inputs.get(at).filter(|name| !self.values.contains_key(name.as_str()));
        let is_asked = given(1).is_none_or(|name| self.constants.get(name).is_none());
        let table = given(0).filter(|_| axis == 0 && is_asked).and_then(|name| self.floats(name));
        let Some(([_, width], weights)) = table.as_ref().map(|(shape, all)| (&shape[..], all))
        else {
            return self.plain(node, Op::Gather(axis));
        };
        let width = *width;
        if width == 0 {
            return Err(unsupported(node, "has rows of nothing"));
        }
        let target = self.target(node, 0, "table", LayerKind::FullyConnected, weights);
        let numbers = self.operand(node, 1)?;
        self.push(node, Op::Table { target, width }, vec![numbers], vec![target]);
        Ok(())
    }

    pub(super) fn convolution(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let not = |what: &str| Err(unsupported(node, what));
        let weights = node.inputs.get(1).and_then(|name| self.floats(name));
        let Some((shape, mut weights)) = weights else {
            return not("has weights that are not constant");
        };
        let (outputs, each, kernel) = match shape[..] {
            [outputs, each, rows, columns] => (outputs, each, [rows, columns]),
            [outputs, each, columns] => (outputs, each, [1, columns]),
            _ => return not("is not of one or two dimensions"),
        };
        let input = self.image(node)?;
        let groups = usize::try_from(node.int("group", 1)).unwrap_or(0);
        let fits = groups > 0 && each * groups == input.channels && outputs % groups == 0;
        if !fits || weights.is_empty() {
            return not("has groups that do not fit its input");
        }
        let dilations = dilations(node);
        if dilations.contains(&0) {
            return not("has dilations that make no sense");
        }
        let reach = [0, 1].map(|axis| (kernel[axis] - 1) * dilations[axis] + 1);
        let mut sliding = sliding(node, reach, input)?;
        let Some([height, width]) = sliding.over(input) else {
            return not("has a kernel that does not fit");
        };
        sliding.kernel = kernel;
        let output = Shape { height, width, channels: outputs };
        let problem = "has a bias that is not one constant for each output";
        let mut bias = self.numbers(node, 2, outputs, problem)?;
        let (last, affine) = self.normalization_after(node, outputs);
        if let Some(affine) = affine {
            let folded = folded_bias(&affine, &mut weights, bias);
            let (convolution, normal) = (self.place(node), self.place(last));
            self.found.folds.push(Fold { convolution, normal, bias: folded.clone() });
            bias = Some(folded);
        }
        let target = self.target(node, 1, "convolution", LayerKind::Convolution, &weights);
        let op = if groups == 1 && dilations == [1, 1] {
            let weights = by_pixels(&weights, each, kernel[0] * kernel[1]);
            let product = Product {
                name: String::new(),
                tensor: String::new(),
                kind: LayerKind::Convolution,
                sliding,
                weights,
                output,
            };
            let after = bias.map(PostOp::Bias).into_iter().collect();
            let stage = Stage { product: Some(product), after, input, output };
            let stage = self.found.targets[target].stage(stage);
            Op::Convolution { target, stage }
        } else {
            Op::Grouped {
                target,
                convolution: GroupedConvolution { groups, sliding, dilations, input, output, bias },
            }
        };
        let image = self.operand(node, 0)?;
        self.push(last, op, vec![image], vec![target]);
        // Messages name the convolution, although its output is that of the folded node.
        let step = self.found.steps.last_mut().expect("it was pushed");
        step.node = (node.op.clone(), node.name.clone());
        step.outputs.truncate(1);
        Ok(())
    }

    /// Returns the batch normalization that alone follows a convolution, with its factors and
    /// addends. Returns the convolution itself if there is none.
    fn normalization_after(
        &mut self,
        node: &'a Node,
        channels: usize,
    ) -> (&'a Node, Option<ChannelAffine>) {
        let name = node.outputs.first().map_or("", String::as_str);
        let is_only = self.uses.get(name) == Some(&1);
        let next = self.model.nodes.iter().find(|next| {
            next.op == "BatchNormalization"
                && next.inputs.first().is_some_and(|input| input == name)
        });
        let affine = next.filter(|_| is_only).and_then(|next| self.affine(next));
        match (next, affine) {
            (Some(next), Some(affine)) if affine.0.len() == channels => {
                self.done.extend(next.outputs.iter().map(String::as_str));
                (next, Some(affine))
            }
            _ => (node, None),
        }
    }

    /// Returns the factors and addends of a batch normalization.
    fn affine(&self, node: &Node) -> Option<ChannelAffine> {
        let part = |at: usize| Some(self.floats(node.inputs.get(at)?)?.1);
        let (scale, shift, mean, variance) = (part(1)?, part(2)?, part(3)?, part(4)?);
        let epsilon = f64::from(float(node, "epsilon", 1e-5));
        let alike = [&shift, &mean, &variance].iter().all(|values| values.len() == scale.len());
        if !alike || node.int("training_mode", 0) != 0 {
            return None;
        }
        let factors = scale.iter().zip(&variance);
        let factors: Vec<f64> = factors
            .map(|(scale, variance)| f64::from(*scale) / (f64::from(*variance) + epsilon).sqrt())
            .collect();
        let addends = shift.iter().zip(mean.iter().zip(&factors));
        let addends = addends
            .map(|(shift, (mean, factor))| (f64::from(*shift) - f64::from(*mean) * factor) as f32);
        let addends = addends.collect();
        Some((factors.into_iter().map(|factor| factor as f32).collect(), addends))
    }

    pub(super) fn normalisation(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let Some((scale, shift)) = self.affine(node) else {
            return Err(unsupported(node, "has a mean or a variance that is not constant"));
        };
        let input = self.operand(node, 0)?;
        self.push(node, Op::Channels { scale, shift }, vec![input], Vec::new());
        Ok(())
    }

    pub(super) fn pool(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let input = self.image(node)?;
        let (after, output) = pool(node, input)?;
        let stage = Stage { product: None, after: vec![after], input, output };
        self.plain(node, Op::Pool(Box::new(stage)))
    }

    /// Returns the shape of the images that a node reads.
    fn image(&self, node: &Node) -> Result<Shape, EvaluateError> {
        let sizes = node.inputs.first().and_then(|name| self.sizes(name));
        match sizes.as_deref() {
            Some(&[channels, height, width]) => Ok(Shape { height, width, channels }),
            Some(&[channels, width]) => Ok(Shape { height: 1, width, channels }),
            _ => Err(unsupported(node, "is not fed images of a known size")),
        }
    }

    pub(super) fn recurrent(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let not = |what: &str| Err(unsupported(node, what));
        let cell = match node.op.as_str() {
            "LSTM" => Cell::Lstm,
            "GRU" => Cell::Gru { linear_before_reset: node.int("linear_before_reset", 0) != 0 },
            _ => Cell::Rnn,
        };
        let clip = node.attribute("clip").map(|_| float(node, "clip", 0.0));
        if clip.is_some_and(|most| most.is_nan() || most <= 0.0) {
            return not("clips at what is no number above 0");
        }
        let floats = |at: usize| node.inputs.get(at).and_then(|name| self.floats(name));
        let (Some(inputs), Some(states)) = (floats(1), floats(2)) else {
            return not("has weights that are not constant");
        };
        let backward = match node.text("direction") {
            "" | "forward" => vec![false],
            "reverse" => vec![true],
            _ => vec![false, true],
        };
        let directions = backward.len();
        let gates = cell.gates();
        let hidden = states.0.last().copied().unwrap_or(0);
        let k = inputs.0.last().copied().unwrap_or(0);
        let wide = gates * hidden;
        let is_whole = inputs.0 == [directions, wide, k] && states.0 == [directions, wide, hidden];
        if !is_whole || wide * k == 0 || node.int("hidden_size", hidden as i64) != hidden as i64 {
            return not("has weights of other sizes");
        }
        let bias =
            self.numbers(node, 3, directions * 2 * wide, "has a bias that is not constant")?;
        let problem = "has peepholes that are not constant, or of other sizes";
        let count = if cell == Cell::Lstm { directions * 3 * hidden } else { 0 };
        let peepholes = self.numbers(node, 7, count, problem)?;
        let Some(activations) = activations(node, cell, directions) else {
            return not("has activations that the built-in engine has not");
        };
        let kind = LayerKind::FullyConnected;
        let input_target = self.target(node, 1, "recurrent", kind, &inputs.1);
        let state_target = self.target(node, 2, "recurrent", kind, &states.1);
        self.products(cell, hidden, k, input_target, state_target);
        let parts = directions * cell.products().len();
        if self.found.targets[state_target].stages.len() != parts {
            return not("shares its weights with a node that resets its state elsewhere");
        }
        let mut targets = vec![input_target, state_target];
        let bias_target = bias.map(|bias| self.target(node, 3, "bias", kind, &bias));
        let cell_target =
            peepholes.map(|weights| self.target(node, 7, "peepholes", kind, &weights));
        targets.extend(bias_target.into_iter().chain(cell_target));
        let operands = [0, 4, 5, 6].map(|at| self.operand(node, at));
        let [x, lengths, first, cells] = operands;
        let values = vec![x?, None, None, None, lengths?, first?, cells?];
        let layer = RecurrentLayer {
            cell,
            hidden,
            backward,
            activations,
            inputs: input_target,
            states: state_target,
            bias: bias_target,
            peepholes: cell_target,
            clip,
            coupled: cell == Cell::Lstm && node.int("input_forget", 0) != 0,
            samples_first: node.int("layout", 0) == 1,
        };
        self.push(node, Op::Recurrent(Box::new(layer)), values, targets);
        Ok(())
    }

    /// Reads an optional input that consists of `count` constant numbers.
    fn numbers(
        &self,
        node: &Node,
        at: usize,
        count: usize,
        problem: &str,
    ) -> Result<Option<Vec<f32>>, EvaluateError> {
        let Some(name) = node.inputs.get(at).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        match self.floats(name) {
            Some((_, numbers)) if numbers.len() == count => Ok(Some(numbers)),
            _ => Err(unsupported(node, problem)),
        }
    }

    /// Creates the products of a recurrent layer for each direction. Nodes with shared weights use
    /// those of the first node.
    fn products(&mut self, cell: Cell, hidden: usize, k: usize, inputs: usize, states: usize) {
        let wide = cell.gates() * hidden;
        let targets = &mut self.found.targets;
        if !targets[inputs].stages.is_empty() {
            return;
        }
        let input_target = targets[inputs].weights.chunks_exact(wide * k);
        targets[inputs].stages =
            input_target.map(|weights| row_product(weights.to_vec(), k)).collect();
        let mut stages = Vec::new();
        for mut weights in targets[states].weights.chunks_exact(wide * hidden) {
            for gates in cell.products() {
                let (product, rest) = weights.split_at(gates * hidden * hidden);
                stages.push(row_product(product.to_vec(), hidden));
                weights = rest;
            }
        }
        targets[states].stages = stages;
    }
}

/// Returns the activations of each direction; `None` if one is not supported.
fn activations(node: &Node, cell: Cell, directions: usize) -> Option<Vec<Vec<Activation>>> {
    let default = cell.activations();
    let Some(given) = node.attribute("activations") else {
        return Some(vec![default.to_vec(); directions]);
    };
    let Attribute::Texts(given) = given else { return None };
    // The default of the standard for an RNN has two, for any number of directions.
    let has_default = default.len() == 1 && *given == ["Tanh"; 2];
    let given = if has_default { &given[..directions] } else { &given[..] };
    let has_numbers = ["activation_alpha", "activation_beta"];
    if given.len() != directions * default.len()
        || has_numbers.iter().any(|name| node.attribute(name).is_some())
    {
        return None;
    }
    let activation = |name: &String| match name.to_ascii_lowercase().as_str() {
        "sigmoid" => Some(Activation::Sigmoid),
        "tanh" => Some(Activation::Tanh),
        "relu" => Some(Activation::Relu),
        "hardsigmoid" => Some(Activation::HardSigmoid { alpha: 0.2, beta: 0.5 }),
        "softsign" => Some(Activation::Softsign),
        "softplus" => Some(Activation::Softplus),
        _ => None,
    };
    given.chunks(default.len()).map(|names| names.iter().map(activation).collect()).collect()
}

/// Scales the weights of a convolution by a batch normalization, and returns the bias of both.
fn folded_bias(affine: &ChannelAffine, weights: &mut [f32], bias: Option<Vec<f32>>) -> Vec<f32> {
    let (scale, shift) = affine;
    let part = weights.len() / scale.len();
    for (weights, scale) in weights.chunks_exact_mut(part).zip(scale) {
        weights.iter_mut().for_each(|weight| *weight *= scale);
    }
    let bias = bias.unwrap_or_else(|| vec![0.0; scale.len()]);
    let sums = bias.iter().zip(scale.iter().zip(shift));
    sums.map(|(bias, (scale, shift))| bias * scale + shift).collect()
}

/// Reorders from output, channel, tap to output, tap, channel.
fn by_pixels(weights: &[f32], channels: usize, taps: usize) -> Vec<f32> {
    let weight = |at: usize| {
        let (output, rest) = (at / (taps * channels), at % (taps * channels));
        let (tap, channel) = (rest / channels, rest % channels);
        weights[(output * channels + channel) * taps + tap]
    };
    (0..weights.len()).map(weight).collect()
}
