//! Weights in the order in which kernels read them.
//!
//! A panel holds the weights of `vectors` times sixteen outputs, for all of K; one tile multiplies
//! by one panel. In recurrent cells the vectors are the gates of sixteen units, so that a product
//! with one panel computes all gates of these units (DeepCPU, section 4: fused products). A word of
//! a panel holds the weights of one, two or four successive k for one output.
//!
//! ```
//! use dyno_kernels::{LANES, Panels, Precision};
//!
//! // Four gates of 32 units over 3 inputs.
//! let row = [0.1, 0.2, 0.3];
//! let panels = Panels::pack(Precision::Bf16, 4, 32, 3, |_gate, _unit| &row);
//! assert_eq!((panels.panels(), panels.vectors(), panels.k()), (2, 4, 3));
//! // Two words of two weights for each output.
//! assert_eq!(panels.panel_bytes(), 2 * 4 * LANES * 4);
//! ```

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::lanes::LANES;
use crate::memory::Memory;

/// Precision of the numbers in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Both operands in `f32`.
    F32,
    /// Both operands in bfloat16, sums in `f32`.
    Bf16,
    /// Weights in `i8` with a scale per output, the other operand in `u8`: states with an offset of
    /// 128, other rows quantized from their least to their greatest number. Sums in `i32`.
    Int8,
}

impl Precision {
    /// Values of k in a 32-bit word.
    pub fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
            Self::Int8 => 4,
        }
    }

    /// Words in a row of `k` values.
    pub fn words(self, k: usize) -> usize {
        k.div_ceil(self.per_word())
    }
}

/// Packed weights: `panels` x `words` x `vectors` x 16 words of 32 bits. In [`Precision::Int8`],
/// words are padded with zeros to whole tiles of AMX.
#[derive(Debug)]
pub struct Panels {
    precision: Precision,
    vectors: usize,
    panels: usize,
    k: usize,
    memory: Memory,
    /// For integers, `panels` x `vectors` x 16 each: the scale of a sum, and the excess that the
    /// offset of 128 in each `u8` adds to the sum.
    scales: Vec<f32>,
    excess: Vec<i32>,
    /// Largest magnitude of the integer weights in [`Precision::Int8`].
    largest: u8,
}

/// Minimum words for which 16-bit sums pay off.
const LEAST_FEW: usize = 4;

/// Maximum weights per output in [`Precision::Int8`]: sums of more products with bytes could
/// overflow 32 bits.
pub const MAX_BYTES: usize = i32::MAX as usize / (255 * 127);

/// Words of an AMX tile.
const TILE: usize = 16;

/// Maximum vectors of a panel.
pub const MAX_VECTORS: usize = 4;

impl Panels {
    /// Packs weights. `row(vector, unit)` returns the `k` weights of a unit in a vector (a gate).
    /// Units go from 0 to `units`; the last panel is padded with zeros.
    ///
    /// # Panics
    /// `vectors` is not 1 to 4, a row does not have `k` weights, or `k` exceeds [`MAX_BYTES`] in
    /// [`Precision::Int8`].
    pub fn pack<'a>(
        precision: Precision,
        vectors: usize,
        units: usize,
        k: usize,
        row: impl Fn(usize, usize) -> &'a [f32],
    ) -> Self {
        Self::packed(precision, vectors, units, k, None, row)
    }

    /// Packs weights in [`Precision::Int8`] that are integer multiples of `unit` from -128 to 127;
    /// they are stored exactly.
    ///
    /// # Panics
    /// Under the conditions of [`Panels::pack`].
    pub fn pack_whole<'a>(
        vectors: usize,
        units: usize,
        k: usize,
        unit: f32,
        row: impl Fn(usize, usize) -> &'a [f32],
    ) -> Self {
        Self::packed(Precision::Int8, vectors, units, k, Some(unit), row)
    }

    /// Packs weights; `whole` is the unit of integer weights. Integer weights in
    /// [`Precision::Bf16`] are stored as `i16`; programs cannot use these, so they stay inside of
    /// this crate.
    pub(crate) fn packed<'a>(
        precision: Precision,
        vectors: usize,
        units: usize,
        k: usize,
        whole: Option<f32>,
        row: impl Fn(usize, usize) -> &'a [f32],
    ) -> Self {
        assert!((1..=MAX_VECTORS).contains(&vectors), "1 to 4 vectors, not {vectors}");
        assert!(
            precision != Precision::Int8 || k <= MAX_BYTES,
            "at most {MAX_BYTES} weights of 8 bits, not {k}"
        );
        let panels = units.div_ceil(LANES);
        let all = [panels, held(precision, k), vectors, LANES]
            .into_iter()
            .try_fold(1, usize::checked_mul);
        let mut packed = Self {
            precision,
            vectors,
            panels,
            k,
            memory: Memory::zeroed(all.expect("weights are counted by usize")),
            scales: Vec::new(),
            excess: Vec::new(),
            largest: 0,
        };
        if precision == Precision::Int8 || whole.is_some() {
            packed.scales = vec![0.0; panels * vectors * LANES];
            packed.excess = vec![0; panels * vectors * LANES];
        }
        for unit in 0..units {
            for vector in 0..vectors {
                let weights = row(vector, unit);
                assert_eq!(weights.len(), k, "weights of unit {unit}, vector {vector}");
                packed.put(vector, unit, weights, whole);
            }
        }
        packed
    }

    /// Packs a matrix of equivalent outputs: a panel has 64 of them, in order.
    ///
    /// # Panics
    /// `weights` is not a whole number of rows of `k` numbers.
    pub fn pack_matrix(precision: Precision, k: usize, weights: &[f32]) -> Self {
        let outputs = weights.len() / k.max(1);
        assert_eq!(weights.len(), outputs * k, "rows of {k} weights");
        let zeros = vec![0.0; k];
        let units = outputs.div_ceil(MAX_VECTORS * LANES) * LANES;
        Self::pack(precision, MAX_VECTORS, units, k, |vector, unit| {
            let output = (unit / LANES * MAX_VECTORS + vector) * LANES + unit % LANES;
            if output < outputs { &weights[output * k..][..k] } else { &zeros }
        })
    }

    fn put(&mut self, vector: usize, unit: usize, weights: &[f32], whole: Option<f32>) {
        let (panel, lane) = (unit / LANES, unit % LANES);
        let (words, vectors) = (held(self.precision, self.k), self.vectors);
        let place = |word| ((panel * words + word) * vectors + vector) * LANES + lane;
        let at = (panel * vectors + vector) * LANES + lane;
        let memory = self.memory.words_mut();
        match (self.precision, whole) {
            (Precision::F32, _) => {
                for (word, weight) in weights.iter().enumerate() {
                    memory[place(word)] = weight.to_bits();
                }
            }
            (Precision::Bf16, None) => {
                for (word, pair) in weights.chunks(2).enumerate() {
                    let bits = |at| pair.get(at).map_or(0, |weight| u32::from(bf16(*weight)));
                    memory[place(word)] = bits(0) | bits(1) << 16;
                }
            }
            (Precision::Bf16, Some(scale)) => {
                let half = |weight: &f32| u32::from(((weight / scale) as i16).cast_unsigned());
                for (word, pair) in weights.chunks(2).enumerate() {
                    memory[place(word)] = half(&pair[0]) | pair.get(1).map_or(0, half) << 16;
                }
                self.scales[at] = scale;
            }
            (Precision::Int8, whole) => {
                let largest = weights.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
                let fitting = if largest > 0.0 { largest / 127.0 } else { 1.0 };
                let scale = whole.unwrap_or(fitting);
                // Rounds to nearest, ties to even: a sum with 1.5 * 2^23 has no fraction bits.
                // Without a rounding instruction, `round` is a function call that dominates the
                // time of packing.
                const WHOLE: f32 = 12_582_912.0;
                let whole = |weight: f32| (weight / scale + WHOLE - WHOLE) as i8;
                let mut sum = 0_i32;
                self.largest = self.largest.max(whole(largest).unsigned_abs());
                for (word, four) in weights.chunks(4).enumerate() {
                    let mut bytes = [0_u8; 4];
                    for (byte, weight) in bytes.iter_mut().zip(four) {
                        let whole = whole(*weight);
                        sum += i32::from(whole);
                        *byte = whole.cast_unsigned();
                    }
                    memory[place(word)] = u32::from_le_bytes(bytes);
                }
                self.scales[at] = scale;
                self.excess[at] = 128 * sum;
            }
        }
    }

    /// Precision of the weights.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Vectors of sixteen outputs per panel.
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.panels
    }

    /// Weights per output.
    pub fn k(&self) -> usize {
        self.k
    }

    /// 32-bit words in a row of the other operand.
    pub fn words(&self) -> usize {
        self.precision.words(self.k)
    }

    /// Maximum words of bytes whose products with these weights fit in two 16-bit sums; `None` if
    /// too few to pay off.
    pub(crate) fn few(&self) -> Option<usize> {
        let of_word = 2 * usize::from(u8::MAX) * usize::from(self.largest.max(1));
        let words = i16::MAX as usize / of_word;
        (self.precision == Precision::Int8 && words >= LEAST_FEW).then_some(words)
    }

    /// Bytes that a product with all panels reads.
    pub fn bytes(&self) -> usize {
        self.panels * self.panel_bytes()
    }

    /// Bytes that a product with one panel reads.
    pub fn panel_bytes(&self) -> usize {
        self.words() * self.vectors * LANES * 4
    }

    /// Words of the panels from `panel` on.
    pub(crate) fn panel(&self, panel: usize) -> &[u32] {
        &self.memory.words()[panel * held(self.precision, self.k) * self.vectors * LANES..]
    }

    /// Scales and excesses of the outputs in panels of integers.
    pub(crate) fn whole(&self, panels: Range<usize>) -> (&[f32], &[i32]) {
        let width = self.vectors * LANES;
        let at = panels.start * width..panels.end * width;
        (&self.scales[at.clone()], &self.excess[at])
    }
}

/// Words per output of a panel, including padding.
fn held(precision: Precision, k: usize) -> usize {
    let words = precision.words(k);
    if precision == Precision::Int8 { words.next_multiple_of(TILE) } else { words }
}

/// Rounds to the nearest bfloat16, ties to even.
fn bf16(weight: f32) -> u16 {
    crate::arch::narrowed(weight)
}
