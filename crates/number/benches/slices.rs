//! Speed of slice conversions: vector instructions compared with single values and with copying.
//!
//! `cargo bench -p dyno-number` prints, for some formats and each instruction set, nanoseconds per
//! number and their ratio to a copy in the same run. As a test it runs once and checks that all
//! conversions agree.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use dyno_number::{Conversion, Format};

/// Fits a private cache together with the codes.
const COUNT: usize = 1 << 14;

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 301 } else { 1 };
    let numbers: Vec<f32> = (0..COUNT as u32)
        .map(|at| {
            (at.wrapping_mul(0x9e37_79b9) as f32 / 1e9 - 2.0) * if at % 7 == 0 { 1e-3 } else { 1.0 }
        })
        .collect();
    let how = Conversion::default();
    let mut to = numbers.clone();
    let copy = median(rounds, || black_box(&mut to).copy_from_slice(black_box(&numbers)));
    println!("ns a number, times a copy ({copy:.3}); one by one, slices: quantise, encode, decode");
    for name in
        ["I3(0)", "I8(0)", "E4(3)", "F8(7)", "fp8-e4m3fn", "fp4-e2m1", "F16", "bf16", "int8"]
    {
        let format: Format = name.parse().expect("a format");
        let one = |x: f32| format.quantise(x).expect("no NaN");
        let expected: Vec<f32> = numbers.iter().map(|x| one(*x)).collect();
        let single = median(rounds.min(31), || {
            for (to, x) in to.iter_mut().zip(&numbers) {
                *to = one(*x);
            }
        });
        let quantise = median(rounds, || {
            to.copy_from_slice(&numbers);
            format.quantise_slice(black_box(&mut to), how).expect("no NaN");
        });
        assert_eq!(to, expected, "{name}");
        let mut codes = Vec::new();
        let encode = median(rounds, || {
            codes = format.encode_slice(black_box(&numbers), how).expect("no NaN");
        });
        let mut decoded = Vec::new();
        let decode = median(rounds, || decoded = format.decode_slice(black_box(&codes)));
        assert_eq!(decoded, expected, "{name}");
        let times =
            [single, quantise, encode, decode].map(|ns| format!("{ns:7.3} ({:5.1})", ns / copy));
        println!("{name:12} {}", times.join("  "));
    }
}

/// Returns the median nanoseconds per number.
fn median(rounds: usize, mut call: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_nanos() as f64 / COUNT as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}
