//! What is done to each number, and to two.

use dyno_kernels::{Activation, Isa, Tanh, erf};

use super::recurrent::apply;
use super::tensor::{Misfit, Tensor};

/// What is done to each number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Each {
    Of(Activation),
    Pass,
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
    /// Towards zero, as whole numbers are made.
    Whole,
    /// 1 of what is not 0.
    Truth,
    Not,
}

/// What is done to two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// Of whole numbers.
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
    /// `PRelu`: the second is the slope.
    Slope,
}

impl Each {
    pub fn run(self, numbers: &mut [f32]) {
        let mut each = |of: &dyn Fn(f32) -> f32| numbers.iter_mut().for_each(|x| *x = of(*x));
        match self {
            Self::Of(activation) => apply(activation, numbers),
            Self::Pass => {}
            Self::Clip(least, most) => {
                numbers.iter_mut().for_each(|x| *x = x.max(least).min(most));
            }
            Self::HardSwish => each(&|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
            Self::Erf => erf(Isa::best(), numbers),
            Self::Gelu { tanh: false } => {
                let root = std::f32::consts::FRAC_1_SQRT_2;
                let mut inner: Vec<f32> = numbers.iter().map(|x| x * root).collect();
                erf(Isa::best(), &mut inner);
                numbers.iter_mut().zip(inner).for_each(|(x, of)| *x = 0.5 * *x * (1.0 + of));
            }
            Self::Gelu { tanh: true } => {
                let mut inner: Vec<f32> =
                    numbers.iter().map(|x| 0.797_884_6 * (x + 0.044_715 * x * x * x)).collect();
                Tanh::default().tanh(Isa::best(), &mut inner);
                numbers.iter_mut().zip(inner).for_each(|(x, of)| *x = 0.5 * *x * (1.0 + of));
            }
            Self::Exp => each(&f32::exp),
            Self::Log => each(&f32::ln),
            Self::Sqrt => each(&f32::sqrt),
            Self::Negative => each(&|x| -x),
            Self::Absolute => each(&f32::abs),
            Self::Reciprocal => each(&f32::recip),
            Self::Floor => each(&f32::floor),
            Self::Whole => each(&f32::trunc),
            Self::Truth => each(&|x| f32::from(x != 0.0)),
            Self::Not => each(&|x| f32::from(x == 0.0)),
        }
    }
}

impl Pair {
    /// # Errors
    /// Dimensions that cannot be repeated to each other's.
    pub fn run(self, x: Tensor, y: &Tensor) -> Result<Tensor, Misfit> {
        let is = |truth: bool| f32::from(u8::from(truth));
        match self {
            Self::Add => x.paired(y, |x, y| x + y),
            Self::Subtract => x.paired(y, |x, y| x - y),
            Self::Multiply => x.paired(y, |x, y| x * y),
            Self::Divide => x.paired(y, |x, y| x / y),
            Self::DivideWhole => x.paired(y, |x, y| (x / y).trunc()),
            Self::Power => x.paired(y, |x, y| if y == 2.0 { x * x } else { x.powf(y) }),
            Self::Greatest => x.paired(y, f32::max),
            Self::Least => x.paired(y, f32::min),
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
