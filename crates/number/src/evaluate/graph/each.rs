//! What is done to each number, and to two.

use dyno_kernels::{Activation, Isa, Tanh};

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
            Self::Erf => numbers.iter_mut().for_each(|x| *x = erf(*x)),
            Self::Gelu { tanh: false } => {
                let root = std::f32::consts::FRAC_1_SQRT_2;
                numbers.iter_mut().for_each(|x| *x = 0.5 * *x * (1.0 + erf(*x * root)));
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

/// The error function, by a quotient of polynomials of degrees 13 and 8 that is fitted to it for `f32`; beyond
/// 4 it is 1 to the last bit.
fn erf(x: f32) -> f32 {
    const ABOVE: [f32; 7] = [
        -2.726_142_3e-10,
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_4e-5,
        -7.349_906_3e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ];
    const BELOW: [f32; 5] =
        [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2];
    let x = x.clamp(-4.0, 4.0);
    let y = x * x;
    let sum = |terms: &[f32]| terms.iter().fold(0.0, |sum, term| sum * y + term);
    x * sum(&ABOVE) / sum(&BELOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its power series in `f64`.
    fn series(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn the_error_function_is_near_its_series() {
        for at in -480..=480 {
            let x = at as f32 / 100.0;
            let off = (f64::from(erf(x)) - series(f64::from(x))).abs();
            assert!(off < 4e-7, "{x}: {off}");
        }
    }
}
