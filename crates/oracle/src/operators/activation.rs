//! Functions of one floating-point number, applied to each element.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::{Operator, operator};
use crate::call::Call;
use crate::fault::{Fault, fault};
use crate::tensor::Tensor;

pub(super) const OPERATORS: &[Operator] = &[
    operator("Acos", 7, 1, &[], |call| each(call, f64::acos)),
    operator("Acosh", 9, 1, &[], |call| each(call, f64::acosh)),
    operator("Asin", 7, 1, &[], |call| each(call, f64::asin)),
    operator("Asinh", 9, 1, &[], |call| each(call, f64::asinh)),
    operator("Atan", 7, 1, &[], |call| each(call, f64::atan)),
    operator("Atanh", 9, 1, &[], |call| each(call, f64::atanh)),
    operator("Ceil", 7, 1, &[], |call| jumping(call, f64::round, f64::ceil)),
    operator("Cos", 7, 1, &[], |call| each(call, f64::cos)),
    operator("Cosh", 9, 1, &[], |call| each(call, f64::cosh)),
    operator("Erf", 9, 1, &[], |call| each(call, erf)),
    operator("Exp", 7, 1, &[], |call| each(call, f64::exp)),
    operator("Floor", 7, 1, &[], |call| jumping(call, f64::round, f64::floor)),
    operator("HardSwish", 14, 1, &[], |call| each(call, |x| x * hard_sigmoid(x, 1.0 / 6.0, 0.5))),
    operator("Log", 7, 1, &[], |call| each(call, f64::ln)),
    operator("Mish", 18, 1, &[], |call| each(call, |x| x * softplus(x).tanh())),
    operator("Reciprocal", 7, 1, &[], |call| each(call, f64::recip)),
    operator("Round", 11, 1, &[], |call| jumping(call, |x| x.floor() + 0.5, f64::round_ties_even)),
    operator("Sigmoid", 7, 1, &[], |call| each(call, sigmoid)),
    operator("Sin", 7, 1, &[], |call| each(call, f64::sin)),
    operator("Sinh", 9, 1, &[], |call| each(call, f64::sinh)),
    operator("Softplus", 7, 1, &[], |call| each(call, softplus)),
    operator("Softsign", 7, 1, &[], |call| each(call, softsign)),
    operator("Sqrt", 7, 1, &[], |call| each(call, f64::sqrt)),
    operator("Tan", 7, 1, &[], |call| each(call, f64::tan)),
    operator("Tanh", 7, 1, &[], |call| each(call, f64::tanh)),
    operator("Celu", 12, 1, &["alpha"], |call| {
        let alpha = call.float("alpha", 1.0)?;
        each(call, |x| if x >= 0.0 { x } else { alpha * (x / alpha).exp_m1() })
    }),
    operator("Elu", 7, 1, &["alpha"], |call| {
        let alpha = call.float("alpha", 1.0)?;
        each(call, |x| elu(x, alpha))
    }),
    operator("Gelu", 20, 1, &["approximate"], gelu),
    operator("HardSigmoid", 7, 1, &["alpha", "beta"], |call| {
        let (alpha, beta) = (call.float("alpha", 0.2)?, call.float("beta", 0.5)?);
        each(call, |x| hard_sigmoid(x, alpha, beta))
    }),
    operator("LeakyRelu", 7, 1, &["alpha"], |call| {
        let alpha = call.float("alpha", 0.01)?;
        each(call, |x| leaky_relu(x, alpha))
    }),
    operator("Selu", 7, 1, &["alpha", "gamma"], |call| {
        let alpha = call.float("alpha", 1.673_263_2)?;
        let gamma = call.float("gamma", 1.050_701)?;
        each(call, |x| gamma * elu(x, alpha))
    }),
    operator("Shrink", 9, 1, &["bias", "lambd"], |call| {
        let (bias, limit) = (call.float("bias", 0.0)?, call.float("lambd", 0.5)?);
        jumping(
            call,
            |x| limit.copysign(x),
            |x| {
                if x < -limit {
                    x + bias
                } else if x > limit {
                    x - bias
                } else {
                    0.0
                }
            },
        )
    }),
    operator("Swish", 24, 1, &["alpha"], |call| {
        let alpha = call.float("alpha", 1.0)?;
        each(call, |x| x * sigmoid(alpha * x))
    }),
    operator("ThresholdedRelu", 10, 1, &["alpha"], |call| {
        let alpha = call.float("alpha", 1.0)?;
        jumping(call, |_| alpha, |x| thresholded_relu(x, alpha))
    }),
];

/// Applies a function to each element of a floating-point tensor.
pub(super) fn each(call: &Call<'_>, function: impl Fn(f64) -> f64) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let values = input.as_floats()?.iter().map(|value| function(*value)).collect();
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), values)?])
}

/// Applies a function that jumps. Engines round its argument, which `jump` takes to the next jump.
fn jumping(
    call: &Call<'_>,
    jump: impl Fn(f64) -> f64,
    function: impl Fn(f64) -> f64,
) -> Result<Vec<Tensor>, Fault> {
    let element = call.input(0)?.element();
    each(call, |term| {
        let x = element.round(term);
        call.note_jump(element, &[term], [x, jump(x)]);
        function(x)
    })
}

fn gelu(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    match call.text("approximate", "none")?.as_str() {
        "none" => each(call, |x| 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))),
        "tanh" => each(call, |x| {
            0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }),
        other => fault(format!("attribute \"approximate\": expected none or tanh, found {other}")),
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns ln(1 + eˣ) without overflow.
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

pub(super) fn softsign(x: f64) -> f64 {
    x / (1.0 + x.abs())
}

pub(super) fn elu(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * x.exp_m1() } else { x }
}

pub(super) fn hard_sigmoid(x: f64, alpha: f64, beta: f64) -> f64 {
    (alpha * x + beta).clamp(0.0, 1.0)
}

pub(super) fn leaky_relu(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * x } else { x }
}

pub(super) fn thresholded_relu(x: f64, alpha: f64) -> f64 {
    if x > alpha { x } else { 0.0 }
}

/// Returns the error function, by the series 2/√π · e^(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!, whose terms have
/// one sign, so that no digits are lost.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    // From here on the nearest f64 is 1.
    if x.abs() > 6.0 {
        return 1f64.copysign(x);
    }
    let (mut term, mut sum, mut divisor) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-18 {
        divisor += 2.0;
        term *= 2.0 * x * x / divisor;
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::erf;

    #[test]
    fn the_error_function_has_the_tabulated_values() {
        // Abramowitz and Stegun, table 7.1; Wolfram for 3.
        for (x, expected) in
            [(0.5, 0.520_499_877_8), (1.0, 0.842_700_792_9), (3.0, 0.999_977_909_5)]
        {
            assert!((erf(x) - expected).abs() < 1e-10, "{x}");
            assert!((erf(-x) + expected).abs() < 1e-10, "-{x}");
        }
        assert_eq!(erf(0.0), 0.0);
    }
}
