//! Functions of single numbers, compiled for each instruction set.
//!
//! ```
//! use dyno_kernels::{Isa, change_each};
//!
//! let mut numbers = [-2.0, 3.0];
//! change_each(Isa::best(), &mut numbers, |x| x.max(0.0));
//! assert_eq!(numbers, [0.0, 3.0]);
//! ```

use crate::isa::Isa;
use crate::lanes::{Kernel, Lanes};

/// Replaces each number by a function of it. Compilers make vectors of the loop unless the function
/// calls the mathematics library.
pub fn change_each(isa: Isa, numbers: &mut [f32], change: impl Fn(f32) -> f32) {
    isa.run(EachKernel { numbers, change });
}

struct EachKernel<'a, F> {
    numbers: &'a mut [f32],
    change: F,
}

impl<F: Fn(f32) -> f32> Kernel for EachKernel<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        s.plain().call(PlainKernel(self));
    }
}

/// Loop that is compiled once for each family of instruction sets.
struct PlainKernel<'a, F>(EachKernel<'a, F>);

impl<F: Fn(f32) -> f32> Kernel for PlainKernel<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, _: S) {
        let EachKernel { numbers, change } = self.0;
        numbers.iter_mut().for_each(|x| *x = change(*x));
    }
}

#[cfg(test)]
mod tests {
    use super::change_each;
    use crate::isa::Isa;

    /// The bits of results do not depend on the instruction set: nothing is rounded together.
    #[test]
    fn functions_have_the_same_bits_on_all_instruction_sets() {
        check(|x| if x < 0.0 { 0.1 * x } else { x });
        check(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0));
        check(|x| 0.3 * x + 0.7);
        check(f32::round_ties_even);
    }

    /// Compares a function that is compiled for each instruction set with its calls for one number.
    fn check(function: impl Fn(f32) -> f32 + Copy) {
        let mut numbers: Vec<f32> = (-150..150).map(|at| at as f32 * 0.171).collect();
        numbers.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-45]);
        for isa in Isa::all() {
            let mut found = numbers.clone();
            change_each(isa, &mut found, function);
            for (x, found) in numbers.iter().zip(found) {
                let expected = function(std::hint::black_box(*x));
                assert!(found.to_bits() == expected.to_bits() || x.is_nan(), "{x} {found} {isa}");
                assert_eq!(found.is_nan(), expected.is_nan(), "{x} {isa}");
            }
        }
    }
}
