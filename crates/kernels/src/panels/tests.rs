//! Positions and values of packed weights.

use super::{MAX_BYTES, Panels, Precision, bf16};
use crate::lanes::LANES;

/// A weight for each position, some of them zeros.
fn weight(output: usize, k: usize) -> f32 {
    ((output * 37 + k * 11) % 41) as f32 * 0.05 - 1.0
}

fn matrix(outputs: usize, k: usize) -> Vec<f32> {
    (0..outputs * k).map(|at| weight(at / k, at % k)).collect()
}

/// The value of a packed weight, with its scale.
fn value(panels: &Panels, panel: usize, vector: usize, lane: usize, k: usize) -> f32 {
    let per_word = panels.precision().per_word();
    let at = ((k / per_word) * panels.vectors() + vector) * LANES + lane;
    let word = panels.panel(panel)[at];
    match panels.precision() {
        Precision::F32 => f32::from_bits(word),
        Precision::Bf16 => f32::from_bits(word >> (16 * (k % 2)) << 16),
        Precision::Int8 => {
            let (scales, _) = panels.whole(panel..panel + 1);
            f32::from(word.to_le_bytes()[k % 4].cast_signed()) * scales[vector * LANES + lane]
        }
    }
}

#[test]
fn every_weight_is_where_kernels_look_for_it() {
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        for (vectors, units, k) in [(1, 1, 1), (2, 16, 3), (3, 17, 7), (4, 40, 9), (4, 5, 0)] {
            let rows = matrix(vectors * units, k.max(1));
            let row = |vector: usize, unit: usize| &rows[(vector * units + unit) * k.max(1)..][..k];
            let panels = Panels::pack(precision, vectors, units, k, row);
            assert_eq!(panels.panels(), units.div_ceil(LANES));
            assert_eq!(panels.words(), k.div_ceil(precision.per_word()));
            assert_eq!(panels.bytes(), panels.panels() * panels.words() * vectors * LANES * 4);
            let padded = panels.words() * precision.per_word();
            for unit in 0..panels.panels() * LANES {
                for (vector, at) in (0..vectors).flat_map(|v| (0..padded).map(move |k| (v, k))) {
                    let found = value(&panels, unit / LANES, vector, unit % LANES, at);
                    let is_there = unit < units && at < k;
                    let exact = if is_there { row(vector, unit)[at] } else { 0.0 };
                    let bound = match precision {
                        _ if exact == 0.0 => 0.0,
                        Precision::F32 => 0.0,
                        // Half of the last of eight significant bits.
                        Precision::Bf16 => exact.abs() / 256.0,
                        // Half a step at the scale of the greatest weight.
                        Precision::Int8 => 1.001 / 127.0 / 2.0,
                    };
                    assert!((found - exact).abs() <= bound, "{precision:?} {unit} {vector} {at}");
                }
            }
        }
    }
}

#[test]
fn outputs_of_a_matrix_are_in_their_order() {
    for outputs in [1, 16, 63, 64, 65, 200] {
        let weights = matrix(outputs, 3);
        let panels = Panels::pack_matrix(Precision::F32, 3, &weights);
        assert_eq!((panels.panels(), panels.vectors()), (outputs.div_ceil(64), 4));
        for output in 0..panels.panels() * 64 {
            for k in 0..3 {
                let (panel, vector) = (output / 64, output / LANES % 4);
                let found = value(&panels, panel, vector, output % LANES, k);
                let exact = if output < outputs { weight(output, k) } else { 0.0 };
                assert_eq!(found, exact, "output {output} of {outputs}, weight {k}");
            }
        }
    }
}

#[test]
fn excess_is_what_128_more_in_each_byte_add() {
    let rows = matrix(32, 9);
    let panels =
        Panels::pack(Precision::Int8, 2, 16, 9, |v, unit| &rows[(v * 16 + unit) * 9..][..9]);
    let (scales, excess) = panels.whole(0..1);
    for output in 0..32 {
        let (vector, lane) = (output / LANES, output % LANES);
        let of = |k| value(&panels, 0, vector, lane, k) / scales[output];
        let sum: f32 = (0..9).map(of).sum();
        assert_eq!(excess[output], 128 * sum.round() as i32);
        let largest = (0..9).map(|k| of(k).abs()).fold(0.0, f32::max);
        assert_eq!(largest.round(), 127.0, "the greatest weight takes all bits");
    }
    // Weights of zero have a scale of one instead of zero.
    let zeros = [0.0; 4];
    let panels = Panels::pack(Precision::Int8, 1, 1, 4, |_, _| &zeros);
    assert_eq!((panels.whole(0..1).0[0], panels.panel(0)[0]), (1.0, 0));
}

#[test]
fn as_many_bytes_as_a_sum_holds_are_packed() {
    let most = i64::try_from(MAX_BYTES).expect("few");
    assert!(
        most * 255 * 127 <= i64::from(i32::MAX) && (most + 1) * 255 * 127 > i64::from(i32::MAX)
    );
    assert_eq!(bf16(1.0), 0x3f80);
    let row = vec![0.5; MAX_BYTES + 1];
    let pack = || Panels::pack(Precision::Int8, 1, 1, MAX_BYTES + 1, |_, _| &row);
    assert!(std::panic::catch_unwind(pack).is_err(), "a sum would wrap");
}
