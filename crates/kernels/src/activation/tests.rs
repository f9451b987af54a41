//! Comparison of the approximations with the mathematics library, on all instruction sets.

use super::{Activation, LANES, Tanh, erf};
use crate::isa::Isa;
use crate::lanes::{Kernel, Lanes};

/// Numbers from 0 on: dense where the functions bend, and with every exponent.
fn numbers() -> Vec<f32> {
    let dense = (0..60_000).map(|at| at as f32 * 2e-4);
    let mantissas = [0, 1, 0x12_3456, 0x3f_ffff, 0x40_0000, 0x55_5555, 0x7f_fffe, 0x7f_ffff];
    let all = (0..255_u32).flat_map(|e| mantissas.map(|m| f32::from_bits(e << 23 | m)));
    dense.chain(all).chain([f32::INFINITY]).collect()
}

#[test]
fn curves_stay_within_their_bounds_and_ranges() {
    let numbers = numbers();
    let negative: Vec<f32> = numbers.iter().map(|x| -x).collect();
    for (isa, dial) in Isa::all().into_iter().flat_map(|isa| Tanh::ALL.map(|dial| (isa, dial))) {
        let apply = |function: fn(Tanh, Isa, &mut [f32]), numbers: &[f32]| {
            let mut results = numbers.to_vec();
            function(dial, isa, &mut results);
            results
        };
        let [tanh, back] = [&numbers, &negative].map(|x| apply(Tanh::tanh, x));
        let [above, below] = [&numbers, &negative].map(|x| apply(Tanh::logistic, x));
        let bounds = dial.bounds();
        for (at, x) in numbers.iter().enumerate() {
            let exact = f64::from(*x).tanh();
            let error = (f64::from(tanh[at]) - exact).abs();
            assert!(error <= bounds.absolute, "tanh({x}) = {} {dial:?} {isa}", tanh[at]);
            if x.is_normal() {
                assert!(
                    error / exact <= bounds.relative,
                    "tanh({x}) = {} {dial:?} {isa}",
                    tanh[at]
                );
            }
            assert_eq!(back[at].to_bits(), (-tanh[at]).to_bits(), "tanh(-{x}) {dial:?} {isa}");
            let once = (-f64::from(*x)).exp();
            for (found, exact) in
                [(above[at], 1.0 / (1.0 + once)), (below[at], once / (1.0 + once))]
            {
                let error = (f64::from(found) - exact).abs();
                assert!(error <= bounds.logistic, "logistic({x}) = {found} {dial:?} {isa}");
            }
            let are_in = [tanh[at], above[at], below[at]].iter().all(|x| (0.0..=1.0).contains(x));
            assert!(are_in, "{} {} {} of {x} {dial:?} {isa}", tanh[at], above[at], below[at]);
        }
    }
}

#[test]
fn what_is_no_number_stays_so() {
    for (isa, dial) in Isa::all().into_iter().flat_map(|isa| Tanh::ALL.map(|dial| (isa, dial))) {
        let mut numbers = [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), 1.0];
        dial.tanh(isa, &mut numbers);
        let mut logistic = numbers;
        dial.logistic(isa, &mut logistic);
        assert_eq!(numbers.map(f32::is_nan), [true, true, true, false], "{dial:?} {isa}");
        assert_eq!(logistic.map(f32::is_nan), [true, true, true, false], "{dial:?} {isa}");
    }
}

/// The bounds must be tight, because users choose an approximation by them.
#[test]
fn each_dial_comes_near_its_bound() {
    let numbers = numbers();
    for dial in Tanh::ALL {
        let mut tanh = numbers.clone();
        dial.tanh(Isa::best(), &mut tanh);
        let error = |(x, found): (&f32, &f32)| (f64::from(*found) - f64::from(*x).tanh()).abs();
        let worst = numbers.iter().zip(&tanh).map(error).fold(0.0, f64::max);
        assert!(worst > 0.7 * dial.bounds().absolute, "{worst:e} of {dial:?}");
    }
}

struct ApplyKernel<'a> {
    activation: Activation,
    numbers: &'a mut [f32; LANES],
}

impl Kernel for ApplyKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        // SAFETY: the slice has 16 numbers.
        unsafe {
            let x = s.load(self.numbers.as_ptr());
            let x = self.activation.apply(s, &Tanh::Fitted98.curve(), x);
            s.store(self.numbers.as_mut_ptr(), x);
        }
    }
}

#[test]
fn activations_are_those_of_the_mathematics_library() {
    let (alpha, beta) = (0.7, -0.3);
    let all = [
        Activation::Identity,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Relu,
        Activation::Affine { alpha, beta },
        Activation::LeakyRelu { alpha },
        Activation::ThresholdedRelu { alpha },
        Activation::ScaledTanh { alpha, beta },
        Activation::HardSigmoid { alpha, beta },
        Activation::Elu { alpha },
        Activation::Softsign,
        Activation::Softplus,
    ];
    let numbers = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.71,
        3.0,
        -3.0,
        20.0,
        -20.0,
        100.0,
        -100.0,
        1e30,
        -1e30,
        1e-30,
        -1e-30,
        f32::NAN,
    ];
    for (isa, activation) in
        Isa::all().into_iter().flat_map(|isa| all.map(|activation| (isa, activation)))
    {
        let mut found = numbers;
        isa.run(ApplyKernel { activation, numbers: &mut found });
        for (x, found) in numbers.iter().zip(found) {
            let expected = activation.apply_scalar(*x);
            let near = (found - expected).abs() <= 5e-7 * expected.abs().max(1.0);
            assert!(
                near || found.is_nan() && expected.is_nan(),
                "{activation:?} {x} {found} {isa}"
            );
        }
        assert_eq!(activation.apply_scalar(f32::NAN).is_nan(), found[15].is_nan());
    }
    // Where exponentials overflow, the functions approach these lines.
    assert_eq!(Activation::Softplus.apply_scalar(100.0), 100.0);
    assert!((Activation::Softplus.apply_scalar(0.0) - std::f32::consts::LN_2).abs() < 1e-7);
    assert_eq!(Activation::Elu { alpha }.apply_scalar(-200.0), -alpha);
}

/// The power series of the error function in `f64`.
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
    // Beyond 4.8 the series loses precision, and the function is 1.
    let numbers: Vec<f32> = (-480..=480).map(|at| at as f32 / 100.0).collect();
    for isa in Isa::all() {
        let mut found = numbers.clone();
        erf(isa, &mut found);
        for (x, found) in numbers.iter().zip(found) {
            let off = (f64::from(found) - series(f64::from(*x))).abs();
            assert!(off < 4e-7, "{x}: {off} {isa}");
        }
        let mut special = [f32::INFINITY, -f32::INFINITY, f32::NAN, 0.0, -0.0];
        erf(isa, &mut special);
        let [above, below, nan, zeros @ ..] = special;
        assert!(above == 1.0 && below == -1.0 && nan.is_nan(), "{isa}");
        let mut ends = [4.0, -4.0, 1e30, -1e30];
        erf(isa, &mut ends);
        assert_eq!(ends, [1.0, -1.0, 1.0, -1.0], "{isa}");
        assert_eq!(zeros.map(f32::to_bits), [0.0_f32, -0.0].map(f32::to_bits), "{isa}");
    }
}
