//! Functions of one floating-point number.

use dyno_kernels::{Isa, Tanh, erf, exp};
use dyno_tensors::Element;

use super::elementwise::{changed, mapped, real, signed};
use super::{expect_single_precision, name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::Value;

macro_rules! real {
    ($x:ident => $body:expr) => {
        one(move |frame| real(frame, move |$x: f32| $body, move |$x: f64| $body))
    };
}
/// With parameters of attributes, which are `f32`.
macro_rules! with {
    ($x:ident, $($parameter:ident),+ => $body:expr) => {
        one(move |frame| {
            real(frame, move |$x: f32| $body, {
                $(let $parameter = f64::from($parameter);)+
                move |$x: f64| $body
            })
        })
    };
}

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    Ok(match plain(reader)? {
        Some(operation) => Some(operation),
        None => with_parameters(reader)?,
    })
}

fn plain(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    match name(reader) {
        ("", "Relu") => one(|frame| {
            signed(
                frame,
                |x| if x < 0.0 { 0.0 } else { x },
                |x| if x < 0.0 { 0.0 } else { x },
                |x| x.max(0),
            )
        }),
        // The kernels' logistic function has an absolute error, which is large beside small results.
        ("", "Sigmoid") => {
            let logistic = |isa, all: &mut [f32]| {
                all.iter_mut().for_each(|x| *x = -*x);
                exp(isa, all);
                all.iter_mut().for_each(|x| *x = 1.0 / (1.0 + *x));
            };
            one(move |frame| fast(frame, logistic, |x| 1.0 / (1.0 + (-x).exp())))
        }
        ("", "Tanh") => {
            one(|frame| fast(frame, |isa, all| Tanh::default().tanh(isa, all), f64::tanh))
        }
        ("", "Exp") => one(|frame| fast(frame, exp, f64::exp)),
        ("", "Log") => real!(x => x.ln()),
        ("", "Sqrt") => real!(x => x.sqrt()),
        ("", "Reciprocal") => real!(x => 1.0 / x),
        ("", "Floor") => real!(x => x.floor()),
        ("", "Ceil") => real!(x => x.ceil()),
        ("", "Round") => real!(x => x.round_ties_even()),
        ("", "Sin") => real!(x => x.sin()),
        ("", "Cos") => real!(x => x.cos()),
        ("", "Tan") => real!(x => x.tan()),
        ("", "Asin") => real!(x => x.asin()),
        ("", "Acos") => real!(x => x.acos()),
        ("", "Atan") => real!(x => x.atan()),
        ("", "Sinh") => real!(x => x.sinh()),
        ("", "Cosh") => real!(x => x.cosh()),
        // In `f32` they would overflow for the greatest numbers.
        ("", "Asinh") => one(|frame| real(frame, |x| f64::from(x).asinh() as f32, f64::asinh)),
        ("", "Acosh") => one(|frame| real(frame, |x| f64::from(x).acosh() as f32, f64::acosh)),
        ("", "Atanh") => real!(x => x.atanh()),
        ("", "Softplus") => real!(x => x.max(0.0) + (-x.abs()).exp().ln_1p()),
        ("", "Softsign") => real!(x => x / (1.0 + x.abs())),
        ("", "HardSwish") => real!(x => x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        ("", "Mish") => real!(x => x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh()),
        ("", "Erf") => one(|frame| changed(frame, erf)),
        _ => Ok(None),
    }
}

fn with_parameters(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let alpha = |default| reader.float("alpha", default);
    match name(reader) {
        ("", "Swish") => {
            let alpha = alpha(1.0)?;
            one(move |frame| swish(frame, alpha))
        }
        ("", "LeakyRelu") => {
            let alpha = alpha(0.01)?;
            with!(x, alpha => if x < 0.0 { alpha * x } else { x })
        }
        ("", "ThresholdedRelu") => {
            let alpha = alpha(1.0)?;
            with!(x, alpha => if x > alpha { x } else { 0.0 })
        }
        ("", "Elu") => {
            let alpha = alpha(1.0)?;
            with!(x, alpha => if x < 0.0 { alpha * x.exp_m1() } else { x })
        }
        ("", "Celu") => {
            let alpha = alpha(1.0)?;
            with!(x, alpha => if x >= 0.0 { x } else { alpha * (x / alpha).exp_m1() })
        }
        ("", "Selu") => {
            let (alpha, gamma) = (alpha(1.673_263_2)?, reader.float("gamma", 1.050_701)?);
            with!(x, alpha, gamma => gamma * if x > 0.0 { x } else { alpha * x.exp_m1() })
        }
        ("", "HardSigmoid") => {
            let (alpha, beta) = (alpha(0.2)?, reader.float("beta", 0.5)?);
            with!(x, alpha, beta => (alpha * x + beta).clamp(0.0, 1.0))
        }
        ("", "Shrink") => {
            let (bias, lambd) = (reader.float("bias", 0.0)?, reader.float("lambd", 0.5)?);
            with!(x, bias, lambd => if x < -lambd { x + bias } else if x > lambd { x - bias } else { 0.0 })
        }
        ("" | "com.microsoft", "Gelu") => match reader.text("approximate", "none")? {
            "none" => {
                expect_single_precision(reader)?;
                one(gelu)
            }
            "tanh" => real!(x => {
                0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh())
            }),
            other => Err(format!("approximation '{other}' is not supported")),
        },
        ("com.microsoft", "QuickGelu") => {
            let alpha = alpha(1.702)?;
            one(move |frame| swish(frame, alpha))
        }
        _ => Ok(None),
    }
}

/// Changes each number: `f32` by a function of the kernels.
fn fast(
    frame: &mut Frame<'_>,
    short: impl Fn(Isa, &mut [f32]),
    long: impl Fn(f64) -> f64,
) -> Result<Value, String> {
    match frame.input(0)?.element() {
        Element::F64 => mapped(frame, long),
        _ => changed(frame, short),
    }
}

/// Multiplies each number by the logistic function of `alpha` times it.
fn swish(frame: &mut Frame<'_>, alpha: f32) -> Result<Value, String> {
    if frame.input(0)?.element() == Element::F64 {
        return mapped(frame, |x: f64| x / (1.0 + (-f64::from(alpha) * x).exp()));
    }
    let isa = frame.workspace.isa;
    let value = frame.take(0)?;
    let dims = value.dims().to_vec();
    let mut x = value.into_vec::<f32>()?;
    let mut power: Vec<f32> = x.iter().map(|x| -alpha * x).collect();
    exp(isa, &mut power);
    x.iter_mut().zip(&power).for_each(|(x, power)| *x /= 1.0 + power);
    Value::new(dims, x)
}

fn gelu(frame: &mut Frame<'_>) -> Result<Value, String> {
    let isa = frame.workspace.isa;
    let value = frame.take(0)?;
    let dims = value.dims().to_vec();
    let x = value.into_vec::<f32>()?;
    let mut y: Vec<f32> = x.iter().map(|x| x * std::f32::consts::FRAC_1_SQRT_2).collect();
    erf(isa, &mut y);
    y.iter_mut().zip(&x).for_each(|(y, x)| *y = 0.5 * x * (1.0 + *y));
    Value::new(dims, y)
}
