//! Slow implementation of the test networks: node by node as ONNX defines, one value at a time, in
//! `f64`.

use std::collections::HashMap;

use dyno_onnx::{Constants, Model, Node};

use crate::assignment::Assignment;
use crate::format::Format;

/// A value of one image: its dimensions without the first, and its numbers.
pub type Value = (Vec<usize>, Vec<f64>);

/// Returns the scores of one image.
pub fn scores(model: &Model, assignment: &Assignment, image: &[f32]) -> Vec<f64> {
    answer(model, assignment, image).1
}

/// Returns the answer to one image: its dimensions without the first, and its numbers.
pub fn answer(model: &Model, assignment: &Assignment, image: &[f32]) -> Value {
    let constants = Constants::new(model);
    let shape = model.inputs[0].shape.as_ref().expect("inputs have a shape");
    let shape = shape[1..].iter().map(|n| n.fixed().expect("only the batch is free")).collect();
    let mut values: HashMap<&str, Value> = HashMap::new();
    let numbers = image.iter().map(|x| f64::from(*x)).collect();
    values.insert(&model.inputs[0].name, (shape, numbers));
    for node in &model.nodes {
        let Some(from) = node.inputs.iter().find_map(|name| values.get(name.as_str())) else {
            continue;
        };
        let to = step(node, &constants, assignment, from);
        values.insert(&node.outputs[0], to);
    }
    values.remove(model.outputs[0].name.as_str()).expect("all nodes were done")
}

fn tensor(constants: &Constants<'_>, name: &str) -> Option<Value> {
    let tensor = constants.get(name)?;
    Some((tensor.shape.clone(), tensor.floats()?.into_iter().map(f64::from).collect()))
}

/// Quantizes each number with the codec for single values.
fn quantised(numbers: &[f64], format: Format) -> Vec<f64> {
    let one = |x: &f64| match format {
        Format::F32 => *x,
        _ => format.decode(format.encode(f64::from(*x as f32)).expect("no NaN here")),
    };
    numbers.iter().map(one).collect()
}

fn step(node: &Node, constants: &Constants<'_>, assignment: &Assignment, from: &Value) -> Value {
    let (shape, numbers) = from;
    let each = |f: &dyn Fn(f64) -> f64| (shape.clone(), numbers.iter().map(|x| f(*x)).collect());
    match node.op.as_str() {
        "Relu" => each(&|x| x.max(0.0)),
        "LeakyRelu" => each(&|x| if x < 0.0 { x * f64::from(0.01_f32) } else { x }),
        "Identity" => from.clone(),
        "Flatten" | "Reshape" => (vec![numbers.len()], numbers.clone()),
        "Softmax" => {
            let (_, exps) = each(&f64::exp);
            let sum: f64 = exps.iter().sum();
            (shape.clone(), exps.into_iter().map(|x| x / sum).collect())
        }
        "MaxPool" | "AveragePool" => pooled(node, from),
        "Add" => {
            let (_, bias) = tensor(constants, &node.inputs[1]).expect("constant");
            let pixels = numbers.len() / bias.len();
            let sum = numbers.iter().enumerate().map(|(at, x)| x + bias[at / pixels]);
            (shape.clone(), sum.collect())
        }
        _ => product(node, constants, assignment, from),
    }
}

fn product(node: &Node, constants: &Constants<'_>, assignment: &Assignment, from: &Value) -> Value {
    let (sizes, weights) = tensor(constants, &node.inputs[1]).expect("constant");
    let bias = node.inputs.get(2).and_then(|name| tensor(constants, name));
    let name = node.inputs[1].strip_suffix(".weight").expect("named so");
    let weights = quantised(&weights, assignment.format(&format!("{name}.weight")));
    let numbers = quantised(&from.1, assignment.format(&format!("{name}.input")));
    let biased = |output: usize| bias.as_ref().map_or(0.0, |(_, bias)| bias[output]);
    if node.op != "Conv" {
        let is_turned = node.int("transB", 0) != 0;
        let (k, outputs) = if is_turned { (sizes[1], sizes[0]) } else { (sizes[0], sizes[1]) };
        let weight = |output: usize, at: usize| {
            weights[if is_turned { output * k + at } else { at * outputs + output }]
        };
        let sum = |output: usize| {
            let products = numbers.iter().enumerate().map(|(at, x)| x * weight(output, at));
            products.sum::<f64>() + biased(output)
        };
        return (vec![outputs], (0..outputs).map(sum).collect());
    }
    let [outputs, channels, rows, columns] = sizes[..] else { panic!("four dimensions") };
    let (height, width) = (from.0[1], from.0[2]);
    let out = size(node, [rows, columns], [height, width]);
    let mut to = Vec::new();
    for output in 0..outputs {
        for at in 0..out[0] * out[1] {
            let mut sum = biased(output);
            for tap in 0..channels * rows * columns {
                let (channel, place) = (tap / (rows * columns), tap % (rows * columns));
                let place = [place / columns, place % columns];
                if let Some([y, x]) =
                    touched(node, [at / out[1], at % out[1]], place, [height, width])
                {
                    let weight = weights[output * channels * rows * columns + tap];
                    sum += weight * numbers[(channel * height + y) * width + x];
                }
            }
            to.push(sum);
        }
    }
    (vec![outputs, out[0], out[1]], to)
}

fn ints(node: &Node, name: &str, default: i64) -> Vec<i64> {
    node.ints(name).map_or(vec![default; 4], <[i64]>::to_vec)
}

fn size(node: &Node, kernel: [usize; 2], image: [usize; 2]) -> [usize; 2] {
    let (strides, pads) = (ints(node, "strides", 1), ints(node, "pads", 0));
    [0, 1].map(|axis| {
        let room = image[axis] as i64 + pads[axis] + pads[axis + 2] - kernel[axis] as i64;
        (room / strides[axis] + 1) as usize
    })
}

/// Returns the pixel at a position of the kernel; `None` if it is in the padding.
fn touched(
    node: &Node,
    at: [usize; 2],
    place: [usize; 2],
    image: [usize; 2],
) -> Option<[usize; 2]> {
    let (strides, pads) = (ints(node, "strides", 1), ints(node, "pads", 0));
    let mut found = [0; 2];
    for axis in 0..2 {
        let pixel = at[axis] as i64 * strides[axis] + place[axis] as i64 - pads[axis];
        found[axis] = usize::try_from(pixel).ok().filter(|pixel| *pixel < image[axis])?;
    }
    Some(found)
}

fn pooled(node: &Node, (shape, numbers): &Value) -> Value {
    let kernel = ints(node, "kernel_shape", 1);
    let kernel = [kernel[0] as usize, kernel[1] as usize];
    let image = [shape[1], shape[2]];
    let out = size(node, kernel, image);
    let mut to = Vec::new();
    for channel in 0..shape[0] {
        for at in 0..out[0] * out[1] {
            let taps = (0..kernel[0] * kernel[1]).filter_map(|tap| {
                let place = [tap / kernel[1], tap % kernel[1]];
                let [y, x] = touched(node, [at / out[1], at % out[1]], place, image)?;
                Some(numbers[(channel * image[0] + y) * image[1] + x])
            });
            let taps: Vec<f64> = taps.collect();
            to.push(match node.op.as_str() {
                "MaxPool" => taps.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                _ => taps.iter().sum::<f64>() / taps.len() as f64,
            });
        }
    }
    (vec![shape[0], out[0], out[1]], to)
}
