//! Reads a chain of products, and the operators between them, from a model.

use std::collections::BTreeSet;

use dyno_onnx::{Constants, Dim, Model, Node, Tensor};

use super::EvaluateError;
use super::attributes::{bounds, dilations, float, is_scaled, name_of, pool, sliding, unsupported};
use super::stage::{PostOp, Product, Shape, Sliding, Stage};
use crate::network::LayerKind;

/// Operators that return their input, except in training.
const PASSING: [&str; 2] = ["Identity", "Dropout"];

/// Returns the stages of a model with one input and one output, and the dimensions of the answer to
/// one sample. Answers are in the order of the model.
pub(super) fn stages(model: &Model) -> Result<(Vec<Stage>, Vec<usize>), EvaluateError> {
    read(model, |_| ())
}

/// Returns whether a model is a chain of products. The weights of at most one layer are in memory.
pub(super) fn is_chain(model: &Model) -> bool {
    read(model, |product| product.weights = Vec::new()).is_ok()
}

/// Reads stages, and calls `shorten` for each product as soon as it was read.
fn read(
    model: &Model,
    shorten: impl Fn(&mut Product),
) -> Result<(Vec<Stage>, Vec<usize>), EvaluateError> {
    let constants = Constants::new(model);
    let input = input(model)?;
    let first = Stage { product: None, after: Vec::new(), input: input.1, output: input.1 };
    let mut reader = Reader {
        constants,
        value: input.0,
        shape: input.1,
        is_flat: input.2,
        stages: vec![first],
        names: BTreeSet::new(),
    };
    for node in &model.nodes {
        reader.node(model, node)?;
        if let Some(product) = reader.stages.last_mut().and_then(|stage| stage.product.as_mut()) {
            shorten(product);
        }
    }
    let output = model.outputs.first().map(|port| port.name.as_str());
    if output != Some(reader.value) || model.outputs.len() != 1 {
        return Err(EvaluateError::Model(
            "expected one output, the last value of a chain of nodes".into(),
        ));
    }
    let Shape { height, width, channels } = reader.shape;
    let answer =
        if reader.is_flat { vec![reader.shape.len()] } else { vec![channels, height, width] };
    reader.list()?;
    let mut stages = reader.stages;
    if stages[0].after.is_empty() && stages.len() > 1 {
        stages.remove(0);
    }
    stages.iter_mut().for_each(Stage::pool_first);
    Ok((stages, answer))
}

/// Returns the name and shape of the input, and whether it is a list of numbers.
fn input(model: &Model) -> Result<(&str, Shape, bool), EvaluateError> {
    let wrong = || {
        let expected = "expected one input of shape [N, channels, rows, columns] or [N, numbers]";
        EvaluateError::Model(expected.into())
    };
    let [port] = &model.inputs[..] else { return Err(wrong()) };
    let size = |dim: &Dim| dim.fixed().filter(|n| *n > 0).ok_or_else(wrong);
    let (shape, is_flat) = match port.shape.as_deref() {
        Some([_, channels, height, width]) => {
            let (height, width) = (size(height)?, size(width)?);
            (Shape { height, width, channels: size(channels)? }, false)
        }
        Some([_, numbers]) => (Shape { height: 1, width: 1, channels: size(numbers)? }, true),
        _ => return Err(wrong()),
    };
    Ok((&port.name, shape, is_flat))
}

struct Reader<'a> {
    constants: Constants<'a>,
    /// Name of the current end of the chain.
    value: &'a str,
    shape: Shape,
    /// Whether a node flattened the value. Its layout is still pixel by pixel until
    /// [`Self::list`] is called.
    is_flat: bool,
    stages: Vec<Stage>,
    names: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn node(&mut self, model: &'a Model, node: &'a Node) -> Result<(), EvaluateError> {
        if !node.inputs.iter().any(|input| input == self.value) {
            let is_constant =
                |output: &String| output.is_empty() || self.constants.get(output).is_some();
            if node.outputs.iter().all(is_constant) {
                return Ok(());
            }
            return Err(unsupported(node, "is not a part of the chain of the other nodes"));
        }
        let users = model.nodes.iter().flat_map(|node| &node.inputs);
        if users.filter(|input| *input == self.value).count() > 1 {
            return Err(unsupported(node, "is not the only one that uses its input"));
        }
        self.step(node)?;
        self.value = node.outputs.first().map_or("", String::as_str);
        Ok(())
    }

    fn step(&mut self, node: &Node) -> Result<(), EvaluateError> {
        match node.op.as_str() {
            op if PASSING.contains(&op) => Ok(()),
            "Conv" => self.convolution(node),
            "Gemm" | "MatMul" => self.fully_connected(node),
            "Add" => self.bias(node),
            "Relu" => self.then(PostOp::Relu),
            "LeakyRelu" => self.then(PostOp::LeakyRelu(float(node, "alpha", 0.01))),
            "Clip" => self.clip(node),
            "MaxPool" | "AveragePool" | "GlobalAveragePool" | "GlobalMaxPool" => self.pool(node),
            "Flatten" if node.int("axis", 1) == 1 => self.flatten(),
            "Reshape" => {
                let shape = node.inputs.get(1).and_then(|name| self.constants.get(name));
                let shape = shape.and_then(|shape| shape.integers()).unwrap_or_default();
                let whole = i64::try_from(self.shape.len()).unwrap_or(i64::MAX);
                match shape[..] {
                    [_, count] if count == whole || count == -1 => self.flatten(),
                    _ => Err(unsupported(node, "makes no list of each image")),
                }
            }
            "Softmax" if self.is_flat && matches!(node.int("axis", -1), -1 | 1) => {
                self.list()?;
                self.then(PostOp::Softmax)
            }
            _ => Err(unsupported(node, "is not supported by the built-in engine")),
        }
    }

    fn floats(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let tensor: Tensor = self.constants.get(name)?;
        let values = tensor.floats()?;
        Some((tensor.shape, values))
    }

    fn flatten(&mut self) -> Result<(), EvaluateError> {
        self.is_flat = true;
        Ok(())
    }

    /// Orders the value as the model does: channel by channel. Products need no such order, because
    /// their weights are reordered.
    fn list(&mut self) -> Result<(), EvaluateError> {
        if self.shape.pixels() == 1 {
            return Ok(());
        }
        let image = self.shape;
        self.shape = Shape { height: 1, width: 1, channels: image.len() };
        self.then(PostOp::ByChannels(image))
    }

    fn then(&mut self, after: PostOp) -> Result<(), EvaluateError> {
        let stage = self.stages.last_mut().expect("there is a first stage");
        stage.after.push(after);
        stage.output = self.shape;
        Ok(())
    }

    fn clip(&mut self, node: &Node) -> Result<(), EvaluateError> {
        let bound = |at: usize, default: f32| match node.inputs.get(at).map(String::as_str) {
            None | Some("") => Ok(default),
            Some(name) => {
                let bound = self.floats(name).and_then(|(_, bound)| bound.first().copied());
                bound.ok_or_else(|| unsupported(node, "has bounds that are not constant"))
            }
        };
        let [least, most] = bounds(node);
        let (least, most) = (bound(1, least)?, bound(2, most)?);
        self.then(PostOp::Clip(least, most))
    }

    fn product(&mut self, node: &Node, mut product: Product) {
        let weight = node.inputs.get(1).map_or("", String::as_str);
        product.name = name_of(node, weight, &mut self.names);
        product.tensor = weight.to_owned();
        let input = self.shape;
        let output = product.output;
        self.shape = output;
        self.stages.push(Stage { product: Some(product), after: Vec::new(), input, output });
    }

    fn convolution(&mut self, node: &Node) -> Result<(), EvaluateError> {
        let not = |what: &str| Err(unsupported(node, what));
        if self.is_flat {
            return not("is fed a list");
        }
        if node.int("group", 1) != 1 || dilations(node) != [1, 1] {
            return not("has groups or dilations");
        }
        let weights = node.inputs.get(1).and_then(|name| self.floats(name));
        let Some((shape, weights)) = weights else {
            return not("has weights that are not constant");
        };
        let [outputs, channels, rows, columns] = shape[..] else {
            return not("is not of two dimensions");
        };
        let sliding = sliding(node, [rows, columns], self.shape)?;
        let size = sliding.over(self.shape).filter(|_| channels == self.shape.channels);
        let Some([height, width]) = size else {
            return not("has a kernel or padding that does not fit");
        };
        // Reorders from channel, row, column to row, column, channel.
        let pixels = rows * columns;
        let ours = (0..weights.len()).map(|at| {
            let (output, rest) = (at / (pixels * channels), at % (pixels * channels));
            let (pixel, channel) = (rest / channels, rest % channels);
            weights[(output * channels + channel) * pixels + pixel]
        });
        let product = Product {
            name: String::new(),
            tensor: String::new(),
            kind: LayerKind::Convolution,
            sliding,
            weights: ours.collect(),
            output: Shape { height, width, channels: outputs },
        };
        self.product(node, product);
        self.bias_of(node, 2)
    }

    fn fully_connected(&mut self, node: &Node) -> Result<(), EvaluateError> {
        let not = |what: &str| Err(unsupported(node, what));
        if !self.is_flat || is_scaled(node) {
            return not("is no product of a list of numbers with weights");
        }
        let weights = node.inputs.get(1).and_then(|name| self.floats(name));
        let Some((shape, weights)) = weights else {
            return not("has weights that are not constant");
        };
        let is_turned = node.op == "Gemm" && node.int("transB", 0) != 0;
        let (k, outputs) = match shape[..] {
            [outputs, k] if is_turned => (k, outputs),
            [k, outputs] => (k, outputs),
            _ => return not("has weights that are no matrix"),
        };
        if k != self.shape.len() || outputs == 0 {
            return not("has weights that do not fit its input");
        }
        // Lists are ordered by channel in ONNX, and by pixel here.
        let (pixels, channels) = (self.shape.pixels(), self.shape.channels);
        let ours = (0..weights.len()).map(|at| {
            let (output, rest) = (at / k, at % k);
            let theirs = rest % channels * pixels + rest / channels;
            weights[if is_turned { output * k + theirs } else { theirs * outputs + output }]
        });
        let product = Product {
            name: String::new(),
            tensor: String::new(),
            kind: LayerKind::FullyConnected,
            sliding: Sliding {
                kernel: [self.shape.height, self.shape.width],
                strides: [1, 1],
                pads: [0; 4],
            },
            weights: ours.collect(),
            output: Shape { height: 1, width: 1, channels: outputs },
        };
        self.product(node, product);
        if node.op == "Gemm" { self.bias_of(node, 2) } else { Ok(()) }
    }

    /// Adds the bias that is an input of a product.
    fn bias_of(&mut self, node: &Node, at: usize) -> Result<(), EvaluateError> {
        let Some(name) = node.inputs.get(at).filter(|name| !name.is_empty()) else { return Ok(()) };
        match self.floats(name) {
            Some((_, bias)) if bias.len() == self.shape.channels => self.then(PostOp::Bias(bias)),
            _ => Err(unsupported(node, "has a bias that is not one constant for each output")),
        }
    }

    fn bias(&mut self, node: &Node) -> Result<(), EvaluateError> {
        let other = node.inputs.iter().find(|input| *input != self.value);
        let found = other.and_then(|name| self.floats(name));
        let Some((shape, mut bias)) = found else {
            return Err(unsupported(node, "adds what is not constant"));
        };
        let channels = self.shape.channels;
        if bias.len() == 1 {
            bias = vec![bias[0]; channels];
        }
        let is_of_channels = if self.is_flat {
            self.shape.pixels() == 1 && matches!(shape[..], [_] | [1, _])
        } else {
            shape.len() >= 3 && shape[shape.len() - 3] == channels
        };
        if bias.len() != channels || !(is_of_channels || shape.iter().all(|n| *n == 1)) {
            return Err(unsupported(node, "adds what is not one number for each channel"));
        }
        self.then(PostOp::Bias(bias))
    }

    fn pool(&mut self, node: &Node) -> Result<(), EvaluateError> {
        if self.is_flat {
            return Err(unsupported(node, "is fed a list"));
        }
        let (after, output) = pool(node, self.shape)?;
        self.shape = output;
        self.then(after)
    }
}
