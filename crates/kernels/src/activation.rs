//! Activations: rational approximations of tanh and the logistic function, and the other
//! activations of ONNX.
//!
//! tanh(x) is approximated by `x p(x^2) / q(x^2)` on an interval and clamped outside of it.
//! Numerator and denominator stay separate as long as possible, so that a cell divides twice
//! instead of once per activation.
//!
//! ```
//! use dyno_kernels::{Isa, Tanh};
//!
//! let mut numbers = [-1.0, 0.0, 0.5];
//! Tanh::Fitted98.tanh(Isa::best(), &mut numbers);
//! let error = (numbers[2] - 0.5_f32.tanh()).abs();
//! assert!(f64::from(error) < Tanh::Fitted98.bounds().absolute);
//! ```

#[cfg(test)]
mod tests;

use crate::isa::Isa;
use smallvec::smallvec;

use crate::lanes::{Kernel, LANES, Lanes};
use crate::taps::{load, store};

/// Approximation of tanh, which trades accuracy for speed. The logistic function is computed as `(1
/// + tanh(x / 2)) / 2`. [`Tanh::bounds`] returns the maximum errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Tanh {
    /// Fitted rational of degree 9 over 8, for `f32`.
    #[default]
    Fitted98,
    /// Fitted rational of degree 7 over 6, for bfloat16.
    Fitted76,
    /// Fitted rational of degree 5 over 6, for 8-bit integers.
    Fitted56,
    /// Lambert's continued fraction with 5 to 9 terms, as in DeepCPU (section 4).
    Fraction(u8),
}

/// Maximum errors of an approximation, over all `f32` numbers and instruction sets.
/// `examples/bounds.rs` found them by trying every number; they are rounded up to two digits.
/// Portable code (which rounds products) and AVX-512 (which does not) were measured; AVX2 computes
/// the same numbers as AVX-512.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Absolute error of tanh.
    pub absolute: f64,
    /// Relative error of tanh, for numbers that are not denormal.
    pub relative: f64,
    /// Absolute error of the logistic function.
    pub logistic: f64,
}

/// Coefficients of numerator and denominator in powers of x^2, the constant first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    p: [f32; 5],
    q: [f32; 5],
    clamp: f32,
}

impl Tanh {
    /// All approximations, the fitted ones first.
    pub const ALL: [Self; 8] = [
        Self::Fitted98,
        Self::Fitted76,
        Self::Fitted56,
        Self::Fraction(5),
        Self::Fraction(6),
        Self::Fraction(7),
        Self::Fraction(8),
        Self::Fraction(9),
    ];

    /// Terms of the longer polynomial.
    pub(crate) fn terms(self) -> usize {
        match self {
            Self::Fitted98 => 5,
            Self::Fitted76 | Self::Fitted56 => 4,
            Self::Fraction(terms) => usize::from(terms.clamp(5, 9)).div_ceil(2),
        }
    }

    /// Returns the maximum errors. Both functions stay within their ranges, tanh is exactly odd,
    /// and NaN stays NaN.
    pub fn bounds(self) -> Bounds {
        let bounds = |absolute, relative, logistic| Bounds { absolute, relative, logistic };
        match self {
            Self::Fitted98 => bounds(3.6e-7, 3.6e-7, 2.5e-7),
            Self::Fitted76 => bounds(1.4e-6, 1.4e-6, 7.2e-7),
            Self::Fitted56 => bounds(9.4e-6, 9.4e-6, 4.8e-6),
            Self::Fraction(..=5) => bounds(1.1e-3, 1.1e-3, 5.3e-4),
            Self::Fraction(6) => bounds(7.2e-4, 7.2e-4, 3.6e-4),
            Self::Fraction(7) => bounds(7.3e-5, 7.3e-5, 3.7e-5),
            Self::Fraction(8) => bounds(5.1e-5, 5.1e-5, 2.6e-5),
            Self::Fraction(9..) => bounds(5.3e-6, 5.3e-6, 2.7e-6),
        }
    }

    /// Replaces each number by its tanh, as cells compute it.
    pub fn tanh(self, isa: Isa, numbers: &mut [f32]) {
        isa.run(CurveKernel { curve: &self.curve(), is_logistic: false, numbers });
    }

    /// Replaces each number by its logistic function, as cells compute it.
    pub fn logistic(self, isa: Isa, numbers: &mut [f32]) {
        isa.run(CurveKernel { curve: &self.curve(), is_logistic: true, numbers });
    }

    /// Returns the coefficients; `fit_tanh.py` in this crate's folder computes the fitted ones.
    pub(crate) fn curve(self) -> Curve {
        match self {
            Self::Fitted98 => Curve {
                p: [1.0, 0.134_132_5, 3.534_031_3e-3, 2.125_111_7e-5, 1.426_932_9e-8],
                q: [1.0, 0.467_465_73, 2.602_276_8e-2, 3.348_872_3e-4, 8.145_164_5e-7],
                clamp: 8.0,
            },
            Self::Fitted76 => Curve {
                p: [0.999_999, 0.123_220_63, 2.293_095_2e-3, 3.995_895_4e-6, 0.0],
                q: [1.0, 0.456_546_22, 2.115_164_5e-2, 1.439_850_9e-4, 0.0],
                clamp: 7.0,
            },
            Self::Fitted56 => Curve {
                p: [0.999_990_94, 0.114_450_64, 1.490_077e-3, 0.0, 0.0],
                q: [1.0, 0.447_723_4, 1.746_717_7e-2, 5.471_919_6e-5, 0.0],
                clamp: 5.9,
            },
            Self::Fraction(terms) => fraction(usize::from(terms.clamp(5, 9))),
        }
    }
}

/// Coefficients of the powers of y; on the stack, because calls must not allocate.
type Powers = smallvec::SmallVec<[f64; 8]>;

/// x / (1 + y / (3 + y / (5 + ...))) with y = x^2, as a quotient of polynomials in y.
fn fraction(terms: usize) -> Curve {
    // From the innermost denominator outward: n / d becomes d0 + y / (n / d) = (d0 n + y d) / n.
    let (mut above, mut below): (Powers, Powers) =
        (smallvec![(2 * terms - 1) as f64], smallvec![1.0]);
    for term in (0..terms - 1).rev() {
        let odd = (2 * term + 1) as f64;
        let mut next: Powers = above.iter().map(|c| odd * c).collect();
        next.resize(next.len().max(below.len() + 1), 0.0);
        for (power, c) in below.iter().enumerate() {
            next[power + 1] += c;
        }
        below = std::mem::replace(&mut above, next);
    }
    // tanh(x) = x below(y) / above(y), scaled so that both constants are 1.
    let scale = above[0];
    let five = |powers: &[f64]| {
        std::array::from_fn(|at| powers.get(at).map_or(0.0, |c| (c / scale) as f32))
    };
    let clamp = [3.45, 4.35, 4.8, 5.7, 6.1][terms - 5];
    Curve { p: five(&below), q: five(&above), clamp }
}

impl Curve {
    /// Returns numerator and denominator of tanh(x).
    #[inline(always)]
    pub(crate) fn parts<S: Lanes, const N: usize>(&self, s: S, x: S::F) -> (S::F, S::F) {
        // NaN stays NaN: it is the second operand of both.
        let x = s.min(s.splat(self.clamp), s.max(s.splat(-self.clamp), x));
        let y = s.mul(x, x);
        (s.mul(x, polynomial::<S, N>(s, &self.p, y)), polynomial::<S, N>(s, &self.q, y))
    }

    #[inline(always)]
    fn tanh<S: Lanes>(&self, s: S, x: S::F) -> S::F {
        let (p, q) = self.parts::<S, 5>(s, x);
        s.div(p, q)
    }

    /// Returns numerator and denominator of the logistic function of x.
    #[inline(always)]
    pub(crate) fn logistic<S: Lanes, const N: usize>(&self, s: S, x: S::F) -> (S::F, S::F) {
        let (p, q) = self.parts::<S, N>(s, s.mul(x, s.splat(0.5)));
        (s.add(q, p), s.add(q, q))
    }
}

/// `c[0] + c[1] y + ...` with N terms.
#[inline(always)]
pub(crate) fn polynomial<S: Lanes, const N: usize>(s: S, c: &[f32], y: S::F) -> S::F {
    let mut sum = s.splat(c[N - 1]);
    for power in (0..N - 1).rev() {
        sum = s.fma(sum, y, s.splat(c[power]));
    }
    sum
}

/// Applies tanh or the logistic function to every number of a slice.
struct CurveKernel<'a> {
    curve: &'a Curve,
    is_logistic: bool,
    numbers: &'a mut [f32],
}

impl Kernel for CurveKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for some in self.numbers.chunks_mut(LANES) {
            let x = load(s, some);
            // Missing terms of a curve are zeros and change nothing.
            let (p, q) = if self.is_logistic {
                self.curve.logistic::<S, 5>(s, x)
            } else {
                self.curve.parts::<S, 5>(s, x)
            };
            store(s, some, s.div(p, q));
        }
    }
}

/// Replaces each number by its error function. The approximation is a fitted quotient of
/// polynomials of degrees 13 and 8 with errors below 4e-7; from 4 on it is 1.
pub fn erf(isa: Isa, numbers: &mut [f32]) {
    isa.run(Erf(numbers));
}

struct Erf<'a>(&'a mut [f32]);

impl Kernel for Erf<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        const ABOVE: [f32; 7] = [
            -1.609_603_3e-2,
            -2.954_6e-3,
            -7.349_906_3e-4,
            -5.692_506_4e-5,
            -2.101_024e-6,
            2.770_681_4e-8,
            -2.726_142_3e-10,
        ];
        const BELOW: [f32; 5] =
            [-1.426_473_9e-2, -7.373_329e-3, -1.682_827e-3, -2.133_740_6e-4, -1.456_607_2e-5];
        const END: f32 = 4.0_f32.next_down();
        for some in self.0.chunks_mut(LANES) {
            let all = load(s, some);
            // NaN stays NaN: it is the second operand of both.
            let x = s.min(s.splat(4.0), s.max(s.splat(-4.0), all));
            let y = s.mul(x, x);
            let above = s.mul(x, polynomial::<S, 7>(s, &ABOVE, y));
            let erf = s.div(above, polynomial::<S, 5>(s, &BELOW, y));
            // An error at the ends would be multiplied by large numbers in `Gelu`.
            let erf = s.select_less(s.splat(END), all, s.splat(1.0), erf);
            store(s, some, s.select_less(all, s.splat(-END), s.splat(-1.0), erf));
        }
    }
}

/// An activation, with the name and parameters of ONNX.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "ONNX documents its activations")]
pub enum Activation {
    Identity,
    Sigmoid,
    Tanh,
    Relu,
    Affine { alpha: f32, beta: f32 },
    LeakyRelu { alpha: f32 },
    ThresholdedRelu { alpha: f32 },
    ScaledTanh { alpha: f32, beta: f32 },
    HardSigmoid { alpha: f32, beta: f32 },
    Elu { alpha: f32 },
    Softsign,
    Softplus,
}

impl Activation {
    #[inline(always)]
    pub(crate) fn apply<S: Lanes>(self, s: S, curve: &Curve, x: S::F) -> S::F {
        match self {
            Self::Identity => x,
            Self::Sigmoid => {
                let (p, q) = curve.logistic::<S, 5>(s, x);
                s.div(p, q)
            }
            Self::Tanh => curve.tanh(s, x),
            Self::Relu => s.max(s.splat(0.0), x),
            Self::Affine { alpha, beta } => s.fma(s.splat(alpha), x, s.splat(beta)),
            Self::HardSigmoid { alpha, beta } => {
                let line = s.fma(s.splat(alpha), x, s.splat(beta));
                s.min(s.splat(1.0), s.max(s.splat(0.0), line))
            }
            Self::ScaledTanh { alpha, beta } => {
                s.mul(s.splat(alpha), curve.tanh(s, s.mul(s.splat(beta), x)))
            }
            _ => self.apply_by_lane(s, x),
        }
    }

    /// Applies a less common activation, lane by lane.
    #[inline(always)]
    fn apply_by_lane<S: Lanes>(self, s: S, x: S::F) -> S::F {
        let mut lanes = [0.0; LANES];
        // SAFETY: `lanes` has room for 16 numbers.
        unsafe { s.store(lanes.as_mut_ptr(), x) };
        self.apply_each(&mut lanes);
        // SAFETY: `lanes` holds 16 numbers.
        unsafe { s.load(lanes.as_ptr()) }
    }

    /// A separate function, so that it is compiled once instead of in every cell for every
    /// instruction set.
    #[inline(never)]
    fn apply_each(self, lanes: &mut [f32; LANES]) {
        lanes.iter_mut().for_each(|x| *x = self.apply_scalar(*x));
    }

    /// Applies the activation to one number with the functions of the mathematics library.
    pub fn apply_scalar(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::Affine { alpha, beta } => alpha * x + beta,
            Self::LeakyRelu { alpha } => {
                if x < 0.0 {
                    alpha * x
                } else {
                    x
                }
            }
            Self::ThresholdedRelu { alpha } => {
                if x > alpha || x.is_nan() {
                    x
                } else {
                    0.0
                }
            }
            Self::ScaledTanh { alpha, beta } => alpha * (beta * x).tanh(),
            Self::HardSigmoid { alpha, beta } => (alpha * x + beta).clamp(0.0, 1.0),
            Self::Elu { alpha } => {
                if x < 0.0 {
                    alpha * x.exp_m1()
                } else {
                    x
                }
            }
            Self::Softsign => x / (1.0 + x.abs()),
            // The exponential of a large x would be infinite.
            Self::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        }
    }
}
