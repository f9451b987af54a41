//! Nodes without weights.

use dyno_kernels::Activation;
use dyno_onnx::{Element, Node, element_of};

use super::super::super::attributes::{bounds, float, unsupported};
use super::super::elementwise::{BinaryOp, UnaryOp};
use super::super::qdq::format_of;
use super::super::step::{Axes, Op};
use super::super::tensor::Reduction;
use super::{EvaluateError, Reader};

impl<'a> Reader<'a> {
    pub(super) fn step(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        if let Some(op) = each(node) {
            return self.plain(node, Op::Unary(op));
        }
        if let Some(op) = self.pair(node) {
            return self.plain(node, Op::Binary(op));
        }
        let axis = |default| node.int("axis", default);
        let axes = || Axes(node.ints("axes").map(<[i64]>::to_vec));
        match node.op.as_str() {
            "Conv" => self.convolution(node),
            "Gemm" | "MatMul" => self.fully_connected(node),
            "BatchNormalization" => self.normalisation(node),
            "LSTM" | "GRU" | "RNN" => self.recurrent(node),
            "Gather" => self.gather(node),
            "MaxPool" | "AveragePool" | "GlobalAveragePool" | "GlobalMaxPool" => self.pool(node),
            "Clip" => match (node.attribute("min"), node.attribute("max")) {
                (None, None) => self.plain(node, Op::Clip),
                // In old files, bounds are attributes.
                _ => {
                    let [least, most] = bounds(node);
                    self.plain(node, Op::Unary(UnaryOp::Clip(least, most)))
                }
            },
            "Softmax" if self.has_old_softmax() && !self.is_last(node, axis(1)) => {
                Err(unsupported(node, "is that of before version 13, over several axes"))
            }
            "Softmax" => {
                self.plain(node, Op::Softmax(axis(if self.has_old_softmax() { 1 } else { -1 })))
            }
            "LayerNormalization" if node.outputs.iter().skip(1).any(|name| !name.is_empty()) => {
                Err(unsupported(node, "gives its mean or deviation as well"))
            }
            "LayerNormalization" => {
                let epsilon = float(node, "epsilon", 1e-5);
                self.plain(node, Op::Normalise { axis: axis(-1), epsilon })
            }
            "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceL2" => {
                let how = match node.op.as_str() {
                    "ReduceMean" => Reduction::Mean,
                    "ReduceSum" => Reduction::Sum,
                    "ReduceMax" => Reduction::Max,
                    _ => Reduction::Length,
                };
                let keeps = node.int("keepdims", 1) != 0;
                let spares_empty = node.int("noop_with_empty_axes", 0) != 0;
                self.plain(node, Op::Reduce { how, axes: axes(), keeps, spares_empty })
            }
            "ArgMax" if node.int("select_last_index", 0) == 0 => {
                self.plain(node, Op::ArgMax { axis: axis(0), keeps: node.int("keepdims", 1) != 0 })
            }
            _ => self.moved(node),
        }
    }

    /// Reads a node that only moves numbers.
    fn moved(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let axis = |default| node.int("axis", default);
        let axes = || Axes(node.ints("axes").map(<[i64]>::to_vec));
        match node.op.as_str() {
            "Reshape" => {
                self.plain(node, Op::Reshape { zero_is_zero: node.int("allowzero", 0) != 0 })
            }
            "Flatten" => self.plain(node, Op::Flatten(axis(1))),
            "Transpose" => {
                let whole = |order: &[i64]| {
                    order.iter().map(|axis| usize::try_from(*axis).unwrap_or(usize::MAX)).collect()
                };
                self.plain(node, Op::Transpose(node.ints("perm").map(whole)))
            }
            "Concat" => self.plain(node, Op::Concat(axis(0))),
            "Slice" => {
                let given = node.ints("starts").zip(node.ints("ends")).map(|(starts, ends)| {
                    let axes = node.ints("axes").unwrap_or_default();
                    [starts.to_vec(), ends.to_vec(), axes.to_vec()]
                });
                self.plain(node, Op::Slice(given))
            }
            "Split" => {
                let sizes = node.ints("split").map(<[i64]>::to_vec);
                self.plain(node, Op::Split { axis: axis(0), sizes, parts: node.outputs.len() })
            }
            "Unsqueeze" => self.plain(node, Op::Unsqueeze(axes())),
            "Squeeze" => self.plain(node, Op::Squeeze(axes())),
            "Expand" => self.plain(node, Op::Expand),
            "Shape" if node.attribute("start").is_none() && node.attribute("end").is_none() => {
                self.plain(node, Op::Shape)
            }
            "Where" => self.plain(node, Op::Where),
            "QuantizeLinear" if node.int("block_size", 0) == 0 => self.quantize(node),
            "DequantizeLinear" if node.int("block_size", 0) == 0 => {
                self.plain(node, Op::Dequantize { axis: axis(1) })
            }
            "DynamicQuantizeLinear" => self.plain(node, Op::DynamicQuantize),
            "CumSum" if node.int("reverse", 0) == 0 => {
                self.plain(node, Op::CumSum { exclusive: node.int("exclusive", 0) != 0 })
            }
            _ => Err(unsupported(node, "is not supported by the built-in engine")),
        }
    }

    fn quantize(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let zero = node.inputs.get(2).filter(|name| !name.is_empty());
        let element = |name: &String| {
            let constant = self.constants.get(name).map(|tensor| tensor.element);
            constant.or(self.inferred.facts.get(name).map(|fact| fact.element))
        };
        let Some((least, most)) = node.code_limits(zero.and_then(element)) else {
            return Err(unsupported(node, "has codes that are no integers of up to 16 bits"));
        };
        let limits = [least as f32, most as f32];
        self.plain(node, Op::Quantize { axis: node.int("axis", 1), limits })
    }

    fn has_old_softmax(&self) -> bool {
        let version = self.model.operator_sets.iter().find(|(domain, _)| domain.is_empty());
        version.is_some_and(|(_, version)| *version < 13)
    }

    fn is_last(&self, node: &Node, axis: i64) -> bool {
        let fact = node.inputs.first().and_then(|name| self.inferred.facts.get(name));
        axis == -1 || fact.is_some_and(|fact| axis + 1 == fact.shape.len() as i64)
    }

    fn pair(&self, node: &Node) -> Option<BinaryOp> {
        Some(match node.op.as_str() {
            "Add" | "Sum" => BinaryOp::Add,
            "Sub" => BinaryOp::Subtract,
            "Mul" => BinaryOp::Multiply,
            "Div" if node.inputs.iter().all(|name| self.is_whole(name)) => BinaryOp::DivideWhole,
            "Div" => BinaryOp::Divide,
            "Pow" => BinaryOp::Power,
            "Max" => BinaryOp::Greatest,
            "Min" => BinaryOp::Least,
            "Equal" => BinaryOp::Equal,
            "Greater" => BinaryOp::Greater,
            "GreaterOrEqual" => BinaryOp::GreaterOrEqual,
            "Less" => BinaryOp::Less,
            "LessOrEqual" => BinaryOp::LessOrEqual,
            "And" => BinaryOp::And,
            "Or" => BinaryOp::Or,
            "PRelu" => BinaryOp::Slope,
            _ => return None,
        })
    }
}

fn each(node: &Node) -> Option<UnaryOp> {
    let alpha = |default| float(node, "alpha", default);
    Some(match node.op.as_str() {
        "Identity" | "Dropout" => UnaryOp::Identity,
        "Relu" => UnaryOp::Activation(Activation::Relu),
        "LeakyRelu" => UnaryOp::Activation(Activation::LeakyRelu { alpha: alpha(0.01) }),
        "Sigmoid" => UnaryOp::Activation(Activation::Sigmoid),
        "Tanh" => UnaryOp::Activation(Activation::Tanh),
        "HardSigmoid" => UnaryOp::Activation(Activation::HardSigmoid {
            alpha: alpha(0.2),
            beta: float(node, "beta", 0.5),
        }),
        "Elu" => UnaryOp::Activation(Activation::Elu { alpha: alpha(1.0) }),
        "Softplus" => UnaryOp::Activation(Activation::Softplus),
        "Softsign" => UnaryOp::Activation(Activation::Softsign),
        "HardSwish" => UnaryOp::HardSwish,
        "Erf" => UnaryOp::Erf,
        "Gelu" => UnaryOp::Gelu { tanh: node.text("approximate") == "tanh" },
        "Exp" => UnaryOp::Exp,
        "Log" => UnaryOp::Log,
        "Sqrt" => UnaryOp::Sqrt,
        "Neg" => UnaryOp::Negative,
        "Abs" => UnaryOp::Absolute,
        "Reciprocal" => UnaryOp::Reciprocal,
        "Floor" => UnaryOp::Floor,
        "Not" => UnaryOp::Not,
        "Cast" => {
            match element_of(i32::try_from(node.int("to", 1)).ok()?)? {
                Element::F32 | Element::F64 => UnaryOp::Identity,
                Element::Bool => UnaryOp::Truth,
                Element::I64 | Element::I32 => UnaryOp::Truncate,
                // Integers of fewer bits would wrap around.
                other => UnaryOp::Round(format_of(other)?),
            }
        }
        _ => return None,
    })
}
