//! Functions of one number, and of two.

use dyno_kernels::{Activation, Isa, Tanh, erf};

use super::super::stage::{greater, lesser, limited};
use super::recurrent::apply;
use super::tensor::{Mismatch, Tensor};
use crate::codec::Conversion;
use crate::format::Format;

/// A function of each number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum UnaryOp {
    Activation(Activation),
    Identity,
    Clip(f32, f32),
    HardSwish,
    Erf,
    Gelu {
        tanh: bool,
    },
    Exp,
    Log,
    Sqrt,
    Negative,
    Absolute,
    Reciprocal,
    Floor,
    /// Rounds toward zero, as a cast to integers does.
    Truncate,
    /// 1 for numbers other than 0.
    Truth,
    Not,
    /// Rounds to a format that has NaN, as a cast to it and back does.
    Round(Format),
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// Quotient of integers.
    DivideWhole,
    Power,
    Greatest,
    Least,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    And,
    Or,
    /// `PRelu`; the second number is the slope.
    Slope,
}

impl UnaryOp {
    pub fn run(self, numbers: &mut [f32]) {
        let mut each =
            |function: &dyn Fn(f32) -> f32| numbers.iter_mut().for_each(|x| *x = function(*x));
        match self {
            Self::Activation(activation) => apply(activation, numbers),
            Self::Identity => {}
            Self::Clip(least, most) => {
                numbers.iter_mut().for_each(|x| *x = limited(*x, least, most));
            }
            Self::HardSwish => each(&|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
            Self::Erf => erf(Isa::best(), numbers),
            Self::Gelu { tanh: false } => {
                let root = std::f32::consts::FRAC_1_SQRT_2;
                let mut inner: Vec<f32> = numbers.iter().map(|x| x * root).collect();
                erf(Isa::best(), &mut inner);
                numbers.iter_mut().zip(inner).for_each(|(x, inner)| *x = 0.5 * *x * (1.0 + inner));
            }
            Self::Gelu { tanh: true } => {
                let mut inner: Vec<f32> =
                    numbers.iter().map(|x| 0.797_884_6 * (x + 0.044_715 * x * x * x)).collect();
                Tanh::default().tanh(Isa::best(), &mut inner);
                numbers.iter_mut().zip(inner).for_each(|(x, inner)| *x = 0.5 * *x * (1.0 + inner));
            }
            Self::Exp => each(&f32::exp),
            Self::Log => each(&f32::ln),
            Self::Sqrt => each(&f32::sqrt),
            Self::Negative => each(&|x| -x),
            Self::Absolute => each(&f32::abs),
            Self::Reciprocal => each(&f32::recip),
            Self::Floor => each(&f32::floor),
            Self::Truncate => each(&f32::trunc),
            Self::Truth => each(&|x| f32::from(x != 0.0)),
            Self::Not => each(&|x| f32::from(x == 0.0)),
            Self::Round(format) => {
                format
                    .quantise_slice(numbers, Conversion::default())
                    .expect("types of ONNX with a format of their own have NaN");
            }
        }
    }
}

impl BinaryOp {
    /// Applies the function to two tensors with broadcasting.
    ///
    /// # Errors
    /// The dimensions cannot be broadcast.
    pub fn run(self, x: Tensor, y: &Tensor) -> Result<Tensor, Mismatch> {
        let is = |truth: bool| f32::from(u8::from(truth));
        match self {
            Self::Add => x.paired(y, |x, y| x + y),
            Self::Subtract => x.paired(y, |x, y| x - y),
            Self::Multiply => x.paired(y, |x, y| x * y),
            Self::Divide => x.paired(y, |x, y| x / y),
            Self::DivideWhole => x.paired(y, |x, y| (x / y).trunc()),
            Self::Power => x.paired(y, |x, y| if y == 2.0 { x * x } else { x.powf(y) }),
            Self::Greatest => x.paired(y, greater),
            Self::Least => x.paired(y, lesser),
            Self::Equal => x.paired(y, |x, y| is(x == y)),
            Self::Greater => x.paired(y, |x, y| is(x > y)),
            Self::GreaterOrEqual => x.paired(y, |x, y| is(x >= y)),
            Self::Less => x.paired(y, |x, y| is(x < y)),
            Self::LessOrEqual => x.paired(y, |x, y| is(x <= y)),
            Self::And => x.paired(y, |x, y| is(x != 0.0 && y != 0.0)),
            Self::Or => x.paired(y, |x, y| is(x != 0.0 || y != 0.0)),
            Self::Slope => x.paired(y, |x, slope| if x < 0.0 { slope * x } else { x }),
        }
    }
}
