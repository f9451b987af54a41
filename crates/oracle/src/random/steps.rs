//! Operators between recurrent nodes.

use super::writer::{Value, Writer, float, integer, integers};
use crate::element::Element;
use crate::tensor::Tensor;

/// Most elements of a value.
const LARGEST: usize = 600;

/// Adds an operator that reads the last value, and the value that it computes.
pub(super) fn add(writer: &mut Writer, values: &mut Vec<Value>) {
    let last = values[values.len() - 1].clone();
    let value = match writer.random.below(15) {
        0 | 1 => transpose(writer, &last),
        2 => {
            let shape = factors(writer, last.count());
            reshape(writer, &last, &shape)
        }
        3 => through_type(writer, &last),
        4 => residual(writer, &last, values),
        5 => unary(writer, &last),
        6 => with_constant(writer, &last),
        7 | 8 => project(writer, &last),
        9 => slice(writer, &last),
        10 => concatenate(writer, &last, values),
        11 => normalize(writer, &last),
        12 => reorder(writer, &last),
        13 => split(writer, &last),
        _ => reduce(writer, &last),
    };
    values.push(value);
}

/// Reshapes a value to three dimensions, unless it has them.
pub(super) fn three_dimensions(writer: &mut Writer, value: &Value) -> Value {
    if value.shape.len() == 3 {
        return value.clone();
    }
    let shape = factors(writer, value.count());
    reshape(writer, value, &shape)
}

/// Returns three sizes with this product, in random order.
fn factors(writer: &mut Writer, count: usize) -> Vec<usize> {
    let divisors = |count: usize| (1..=count).filter(move |size| count.is_multiple_of(*size));
    let first: Vec<usize> = divisors(count).filter(|size| *size <= 12).collect();
    let first = *writer.random.pick(&first);
    let second: Vec<usize> = divisors(count / first).filter(|size| *size <= 12).collect();
    let second = *writer.random.pick(&second);
    let sizes = [first, second, count / first / second];
    writer.random.order(3).iter().map(|place| sizes[*place]).collect()
}

/// Adds a Reshape whose constant states all sizes, or leaves some to 0 and -1.
pub(super) fn reshape(writer: &mut Writer, value: &Value, shape: &[usize]) -> Value {
    let mut wanted: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
    if writer.random.chance(0.5) {
        let place = writer.random.below(wanted.len());
        wanted[place] = -1;
    }
    for (axis, size) in wanted.iter_mut().enumerate() {
        let is_kept = value.shape.get(axis) == Some(&shape[axis]);
        if is_kept && *size > 0 && writer.random.chance(0.5) {
            *size = 0;
        }
    }
    let wanted = writer.indices(&wanted);
    let name = writer.node("Reshape", &[&value.name, &wanted], Vec::new());
    Value { name, shape: shape.to_vec() }
}

fn transpose(writer: &mut Writer, value: &Value) -> Value {
    let order = writer.random.order(value.shape.len());
    let shape = order.iter().map(|axis| value.shape[*axis]).collect();
    let order: Vec<i64> = order.iter().map(|axis| *axis as i64).collect();
    let name = writer.node("Transpose", &[&value.name], vec![integers("perm", &order)]);
    Value { name, shape }
}

/// Converts to another type and back, which changes the numbers unless the type is `double`.
fn through_type(writer: &mut Writer, value: &Value) -> Value {
    let codes = [Element::Float64, Element::Float64, Element::Int32, Element::Int64];
    let element = *writer.random.pick(&codes);
    let scaled = if element.is_float() {
        value.name.clone()
    } else {
        let factor = writer.constant(&scalar(5.0));
        writer.node("Mul", &[&value.name, &factor], Vec::new())
    };
    let to = |element: Element| vec![integer("to", element.code().into())];
    let there = writer.node("Cast", &[&scaled], to(element));
    let mut name = writer.node("Cast", &[&there], to(Element::Float32));
    if !element.is_float() {
        let factor = writer.constant(&scalar(0.125));
        name = writer.node("Mul", &[&name, &factor], Vec::new());
    }
    Value { name, shape: value.shape.clone() }
}

fn scalar(value: f64) -> Tensor {
    Tensor::of_floats(Element::Float32, &[], vec![value]).expect("one number")
}

/// Combines with an earlier value of the same shape, or with itself.
fn residual(writer: &mut Writer, value: &Value, values: &[Value]) -> Value {
    let same: Vec<&Value> = values.iter().filter(|other| other.shape == value.shape).collect();
    let other = writer.random.pick(&same).name.clone();
    let operator = *writer.random.pick(&["Add", "Sub", "Mul", "Max"]);
    let name = writer.node(operator, &[&value.name, &other], Vec::new());
    Value { name, shape: value.shape.clone() }
}

fn unary(writer: &mut Writer, value: &Value) -> Value {
    let operators = ["Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Softsign", "Identity", "Dropout"];
    let operator = *writer.random.pick(&operators);
    let name = writer.node(operator, &[&value.name], Vec::new());
    Value { name, shape: value.shape.clone() }
}

/// Adds or multiplies a constant that broadcasts on some axes.
fn with_constant(writer: &mut Writer, value: &Value) -> Value {
    let kept = writer.random.below(value.shape.len() + 1);
    let mut shape = value.shape[kept..].to_vec();
    for size in &mut shape {
        if writer.random.chance(0.3) {
            *size = 1;
        }
    }
    let constant = writer.weights(&shape, 1.0);
    let operator = *writer.random.pick(&["Add", "Mul", "Sub"]);
    let mut inputs = [value.name.as_str(), &constant];
    if writer.random.chance(0.3) {
        inputs.reverse();
    }
    let name = writer.node(operator, &inputs, Vec::new());
    Value { name, shape: value.shape.clone() }
}

/// Multiplies the last dimension with weights.
fn project(writer: &mut Writer, value: &Value) -> Value {
    let mut shape = value.shape.clone();
    let Some(width) = shape.last_mut() else { return value.clone() };
    let (old, new) = (*width, 1 + writer.random.below(6));
    *width = new;
    let weights = writer.weights(&[old, new], 1.5 / (old as f64).sqrt());
    let mut name = writer.node("MatMul", &[&value.name, &weights], Vec::new());
    if writer.random.chance(0.6) {
        let bias = writer.weights(&[new], 0.5);
        name = writer.node("Add", &[&name, &bias], Vec::new());
    }
    Value { name, shape }
}

/// Takes some elements of an axis, forward or from the end.
fn slice(writer: &mut Writer, value: &Value) -> Value {
    let axis = writer.random.below(value.shape.len());
    let size = value.shape[axis] as i64;
    let (start, end, step) = if writer.opset >= 10 && writer.random.chance(0.4) {
        (-1, i64::MIN + 1, -1)
    } else {
        (writer.random.below(value.shape[axis]) as i64, i64::MAX, 1)
    };
    let mut shape = value.shape.clone();
    if step == 1 {
        shape[axis] = (size - start) as usize;
    }
    let name = if writer.opset < 10 {
        let attributes = vec![
            integers("starts", &[start]),
            integers("ends", &[end]),
            integers("axes", &[axis as i64]),
        ];
        writer.node("Slice", &[&value.name], attributes)
    } else {
        let [start, end, axis, step] =
            [start, end, axis as i64, step].map(|number| writer.indices(&[number]));
        writer.node("Slice", &[&value.name, &start, &end, &axis, &step], Vec::new())
    };
    Value { name, shape }
}

/// Puts an earlier value, or the same one, beside the value.
fn concatenate(writer: &mut Writer, value: &Value, values: &[Value]) -> Value {
    if 2 * value.count() > LARGEST {
        return value.clone();
    }
    let same: Vec<&Value> = values.iter().filter(|other| other.shape == value.shape).collect();
    let other = writer.random.pick(&same).name.clone();
    let axis = writer.random.below(value.shape.len());
    let mut shape = value.shape.clone();
    shape[axis] *= 2;
    let attributes = vec![integer("axis", axis as i64)];
    let name = writer.node("Concat", &[&value.name, &other], attributes);
    Value { name, shape }
}

/// Adds a softmax, or since opset 17 sometimes a normalization of the last dimension.
fn normalize(writer: &mut Writer, value: &Value) -> Value {
    let width = value.shape[value.shape.len() - 1];
    let name = if writer.opset >= 17 && width > 1 && writer.random.chance(0.5) {
        let scale = writer.weights(&[width], 1.0);
        let attributes = vec![integer("axis", -1), float("epsilon", 0.01)];
        writer.node("LayerNormalization", &[&value.name, &scale], attributes)
    } else {
        // Before opset 13 the axis starts a block of dimensions, so that any of them is tried.
        let axis = writer.random.below(value.shape.len()) as i64;
        writer.node("Softmax", &[&value.name], vec![integer("axis", axis)])
    };
    Value { name, shape: value.shape.clone() }
}

/// Takes the elements of an axis in another order.
fn reorder(writer: &mut Writer, value: &Value) -> Value {
    let axis = writer.random.below(value.shape.len());
    let order = writer.random.order(value.shape[axis]);
    let indices = writer.indices(&order.iter().map(|index| *index as i64).collect::<Vec<_>>());
    let attributes = vec![integer("axis", axis as i64)];
    let name = writer.node("Gather", &[&value.name, &indices], attributes);
    Value { name, shape: value.shape.clone() }
}

/// Splits an axis of even size, and multiplies the sigmoid of one half with the other.
fn split(writer: &mut Writer, value: &Value) -> Value {
    let even = value.shape.iter().rposition(|size| size.is_multiple_of(2));
    let Some(axis) = even else { return unary(writer, value) };
    let mut shape = value.shape.clone();
    shape[axis] /= 2;
    let mut attributes = vec![integer("axis", axis as i64)];
    if writer.opset >= 18 {
        attributes.push(integer("num_outputs", 2));
    }
    let halves = writer.node_of("Split", &[&value.name], 2, attributes);
    let gate = writer.node("Sigmoid", &[&halves[1]], Vec::new());
    let name = writer.node("Mul", &[&halves[0], &gate], Vec::new());
    Value { name, shape }
}

/// Averages an axis, or takes its largest elements.
fn reduce(writer: &mut Writer, value: &Value) -> Value {
    if value.shape.len() < 3 {
        return unary(writer, value);
    }
    let axis = writer.random.below(value.shape.len());
    let keeps = writer.random.chance(0.5);
    let operator = *writer.random.pick(&["ReduceMean", "ReduceMax"]);
    let attributes = vec![integer("keepdims", keeps.into())];
    let name = writer.node_with_axes(operator, &value.name, &[axis as i64], 18, attributes);
    let mut shape = value.shape.clone();
    if keeps {
        shape[axis] = 1;
    } else {
        shape.remove(axis);
    }
    Value { name, shape }
}
