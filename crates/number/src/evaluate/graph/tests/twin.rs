//! Slow implementation of the test networks: one sample, one number at a time, in `f64`.

use dyno_onnx::{Constants, Model};

use super::{CLIP, Cells};
use crate::assignment::Assignment;
use crate::format::Format;

/// A model with the formats of an assignment.
struct Twin<'a> {
    constants: Constants<'a>,
    assignment: &'a Assignment,
}

impl Twin<'_> {
    fn floats(&self, name: &str) -> Vec<f64> {
        let tensor = self.constants.get(name).expect("a tensor of the model");
        tensor.floats().expect("of f32").into_iter().map(f64::from).collect()
    }

    /// Quantizes each number with the codec for single values.
    fn quantised(&self, object: &str, numbers: &[f64]) -> Vec<f64> {
        let format = self.assignment.format(object);
        let one = |x: &f64| match format {
            Format::F32 => *x,
            _ => format.decode(format.encode(f64::from(*x as f32)).expect("no NaN here")),
        };
        numbers.iter().map(one).collect()
    }

    /// Returns factor and addend of each channel.
    fn affine(&self, name: &str) -> Vec<[f64; 2]> {
        let part = |part: &str| self.floats(&format!("{name}.{part}"));
        let (scale, shift) = (part("scale"), part("shift"));
        let (mean, variance) = (part("mean"), part("variance"));
        let epsilon = f64::from(1e-5_f32);
        let of = |at: usize| {
            let factor = scale[at] / (variance[at] + epsilon).sqrt();
            [factor, shift[at] - mean[at] * factor]
        };
        (0..scale.len()).map(of).collect()
    }

    /// Convolution with kernels of 3 x 3 on images of 7 x 6 with zero padding, in groups. A
    /// normalization is folded into the weights.
    fn convolved(
        &self,
        name: &str,
        image: &[f64],
        groups: usize,
        normal: Option<&[[f64; 2]]>,
    ) -> Vec<f64> {
        let mut weights = self.floats(&format!("{name}.weight"));
        let outputs = 8;
        let part = weights.len() / outputs;
        if let Some(normal) = normal {
            for (at, weight) in weights.iter_mut().enumerate() {
                // Folded weights are rounded to `f32`, as all weights.
                *weight = f64::from(*weight as f32 * normal[at / part][0] as f32);
            }
        }
        let weights = self.quantised(&format!("{name}.weight"), &weights);
        let image = self.quantised(&format!("{name}.input"), image);
        let mut to = Vec::new();
        for output in 0..outputs {
            let first = output / (outputs / groups) * (part / 9);
            for pixel in 0..42 {
                let mut sum = normal.map_or(0.0, |normal| normal[output][1]);
                for tap in 0..part {
                    let (y, x) = (pixel / 6 + tap % 9 / 3, pixel % 6 + tap % 3);
                    if (1..8).contains(&y) && (1..7).contains(&x) {
                        let channel = first + tap / 9;
                        sum += weights[output * part + tap]
                            * image[channel * 42 + (y - 1) * 6 + x - 1];
                    }
                }
                to.push(sum);
            }
        }
        to
    }
}

pub fn residual(model: &Model, assignment: &Assignment, image: &[f32]) -> Vec<f64> {
    let twin = Twin { constants: Constants::new(model), assignment };
    let image: Vec<f64> = image.iter().map(|x| f64::from(*x)).collect();
    let x = twin.convolved("first", &image, 1, Some(&twin.affine("first")));
    let x: Vec<f64> = x.into_iter().map(|x| x.max(0.0)).collect();
    let y = twin.convolved("depthwise", &x, 8, Some(&twin.affine("depthwise")));
    let y: Vec<f64> = y.into_iter().map(|x| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0)).collect();
    let y = twin.convolved("grouped", &y, 2, None);
    let sum = x.iter().zip(&y).map(|(x, y)| x + y);
    let both: Vec<f64> = sum.chain(y.iter().copied()).collect();
    let normal = twin.affine("last");
    let means: Vec<f64> = both
        .chunks_exact(42)
        .zip(normal)
        .map(|(channel, [factor, addend])| {
            channel.iter().map(|x| 1.0 / (1.0 + (-x * factor - addend).exp())).sum::<f64>() / 42.0
        })
        .collect();
    let means = twin.quantised("fc.input", &means);
    let weights = twin.quantised("fc.weight", &twin.floats("fc.weight"));
    let sum = |output: usize| {
        means.iter().enumerate().map(|(at, x)| x * weights[at * 5 + output]).sum::<f64>()
    };
    twin.floats("fc.bias").iter().enumerate().map(|(at, bias)| sum(at) + bias).collect()
}

pub fn spoken(model: &Model, kind: Cells, assignment: &Assignment, word: &[f32]) -> Vec<f64> {
    let twin = Twin { constants: Constants::new(model), assignment };
    let table = twin.quantised("table.weight", &twin.floats("table.weight"));
    let x: Vec<Vec<f64>> =
        word.iter().map(|letter| table[*letter as usize * 6..][..6].to_vec()).collect();
    let cells = |x: &[Vec<f64>], first: Vec<f64>| twin.cells(kind, x, first);
    let all = cells(&x, vec![0.0; 6]);
    let first = all.last().expect("at least a letter").clone();
    cells(&all, first).pop().expect("at least a letter")
}

impl Twin<'_> {
    /// Returns the states after each step.
    fn cells(&self, kind: Cells, x: &[Vec<f64>], first: Vec<f64>) -> Vec<Vec<f64>> {
        let inputs = self.quantised("cells.weight", &self.floats("cells.W"));
        let states = self.quantised("cells.R.weight", &self.floats("cells.R"));
        let bias = self.quantised("cells.B.weight", &self.floats("cells.B"));
        let peepholes = match kind {
            Cells::Peeping => self.quantised("cells.P.weight", &self.floats("cells.P")),
            _ => Vec::new(),
        };
        let wide = bias.len() / 2;
        let sum = |weights: &[f64], gate: usize, of: &[f64]| -> f64 {
            of.iter().enumerate().map(|(at, x)| x * weights[gate * 6 + at]).sum()
        };
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (mut h, mut c) = (first, vec![0.0; 6]);
        let mut all = Vec::new();
        for x in x {
            let x = self.quantised("cells.input", x);
            let kept = self.quantised("cells.R.input", &h);
            let of_inputs = |gate: usize| sum(&inputs, gate, &x) + bias[gate];
            let gate =
                |gate: usize| of_inputs(gate) + sum(&states, gate, &kept) + bias[wide + gate];
            h = match kind {
                Cells::Peeping => {
                    let most = f64::from(CLIP);
                    let peeping = |at: usize, part: usize, c: &[f64]| {
                        gate(at) + peepholes[6 * part + at % 6] * c[at % 6]
                    };
                    let taken = |at: usize| logistic(peeping(at, 0, &c).clamp(-most, most));
                    let next: Vec<f64> = (0..6)
                        .map(|at| {
                            let new = gate(18 + at).clamp(-most, most).tanh();
                            (1.0 - taken(at)) * c[at] + taken(at) * new
                        })
                        .collect();
                    c = next;
                    let share = |at: usize| logistic(peeping(6 + at, 1, &c).clamp(-most, most));
                    (0..6).map(|at| share(at) * c[at].tanh()).collect()
                }
                Cells::Lstm => {
                    for (at, c) in c.iter_mut().enumerate() {
                        *c = logistic(gate(12 + at)) * *c
                            + logistic(gate(at)) * gate(18 + at).tanh();
                    }
                    (0..6).map(|at| logistic(gate(6 + at)) * c[at].tanh()).collect()
                }
                _ => {
                    let reset: Vec<f64> = (0..6).map(|at| logistic(gate(6 + at))).collect();
                    let product: Vec<f64> = h.iter().zip(&reset).map(|(h, r)| h * r).collect();
                    let product = self.quantised("cells.R.input", &product);
                    let new = |at: usize| {
                        if kind == Cells::ResetsFirst {
                            sum(&states, 12 + at, &product) + bias[wide + 12 + at]
                        } else {
                            reset[at] * (sum(&states, 12 + at, &kept) + bias[wide + 12 + at])
                        }
                    };
                    let of = |at: usize| {
                        let share = logistic(gate(at));
                        (1.0 - share) * (of_inputs(12 + at) + new(at)).tanh() + share * h[at]
                    };
                    (0..6).map(of).collect()
                }
            };
            all.push(h.clone());
        }
        all
    }
}
