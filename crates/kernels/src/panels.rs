//! Weights in the order in which kernels read them.
//!
//! A panel is what one tile multiplies by: `vectors` times sixteen outputs, for all of K. Of a
//! recurrent cell the vectors are the gates of sixteen units, so that whoever has multiplied by a
//! panel has all of the gates of these units (DeepCPU, section 4: fused products). A word of a
//! panel is the weights of one, two or four successive k for one output.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::lanes::LANES;
use crate::memory::Memory;

/// How numbers of a product are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Both sides in `f32`.
    F32,
    /// Both sides in bfloat16, sums in `f32`.
    Bf16,
    /// Weights in `i8` with a scale for each output, the other side in `u8`: states about 128, other rows
    /// from their least number to their greatest, each row by itself. Sums in `i32`.
    Int8,
}

impl Precision {
    /// Values of k in a word of 32 bits.
    #[must_use]
    pub fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
            Self::Int8 => 4,
        }
    }

    /// Words of a row of `k` values.
    #[must_use]
    pub fn words(self, k: usize) -> usize {
        k.div_ceil(self.per_word())
    }
}

/// Packed weights: `panels` x `words` x `vectors` x 16 words of 32 bits. Words of [`Precision::Int8`] are filled up
/// with zeros to whole tiles of AMX.
#[derive(Debug)]
pub struct Panels {
    precision: Precision,
    vectors: usize,
    panels: usize,
    k: usize,
    memory: Memory,
    /// Where whole numbers are held, `panels` x `vectors` x 16 each: what one of a sum is worth, and what
    /// the 128 added to each `u8` has added to the sum.
    scales: Vec<f32>,
    excess: Vec<i32>,
    /// The largest magnitude of a weight of [`Precision::Int8`], as a whole number.
    largest: u8,
}

/// Fewer words than this are not worth settling sums of 16 bits for.
const LEAST_FEW: usize = 4;

/// The most weights of an output of [`Precision::Int8`]: their products with bytes fill the 32
/// bits of a sum.
pub const MAX_BYTES: usize = i32::MAX as usize / (255 * 127);

/// Words of a tile of AMX.
const TILE: usize = 16;

/// The most vectors of a panel.
pub const MAX_VECTORS: usize = 4;

impl Panels {
    /// Packs `outputs` rows of `k` weights. `row(vector, unit)` is the row of a unit in a vector
    /// (a gate); units go from 0 to `units`, and those that fill the last panel are zeros.
    ///
    /// # Panics
    /// `vectors` is not 1 to 4, a row is not of `k` weights, or of [`Precision::Int8`] `k` is more
    /// than [`MAX_BYTES`].
    pub fn pack<'a>(
        precision: Precision,
        vectors: usize,
        units: usize,
        k: usize,
        row: impl Fn(usize, usize) -> &'a [f32],
    ) -> Self {
        Self::packed(precision, vectors, units, k, None, row)
    }

    /// As [`Panels::pack`] of [`Precision::Int8`], but of weights that are whole numbers of `unit`, at
    /// most 127 of them: they are held exactly.
    ///
    /// # Panics
    /// As [`Panels::pack`].
    pub fn pack_whole<'a>(
        vectors: usize,
        units: usize,
        k: usize,
        unit: f32,
        row: impl Fn(usize, usize) -> &'a [f32],
    ) -> Self {
        Self::packed(Precision::Int8, vectors, units, k, Some(unit), row)
    }

    /// `whole` is what weights are whole numbers of, if they are. Such weights lie in the places of bfloat16 as
    /// `i16`: then they are none of a program, and whoever asks for them keeps them.
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

    /// Packs a matrix whose outputs are all alike: a panel is 64 of them, in their order.
    ///
    /// # Panics
    /// `weights` is not a whole number of rows of `k`.
    #[must_use]
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
                // To the nearest, ties to even: a sum with 1.5 * 2^23 has room for whole numbers alone. Without an
                // instruction for it, rounding is a call, and takes most of the time of packing.
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

    /// How its numbers are held.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Vectors of sixteen outputs in a panel.
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// How many panels there are.
    #[must_use]
    pub fn panels(&self) -> usize {
        self.panels
    }

    /// Weights of an output.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// Words of 32 bits in a row of the other side.
    #[must_use]
    pub fn words(&self) -> usize {
        self.precision.words(self.k)
    }

    /// Words of bytes, whatever they are, whose products with these weights two sums of 16 bits hold; none if
    /// they are too few.
    pub(crate) fn few(&self) -> Option<usize> {
        let of_word = 2 * usize::from(u8::MAX) * usize::from(self.largest.max(1));
        let words = i16::MAX as usize / of_word;
        (self.precision == Precision::Int8 && words >= LEAST_FEW).then_some(words)
    }

    /// What a product with all panels reads.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.panels * self.panel_bytes()
    }

    /// What a product with one panel reads.
    #[must_use]
    pub fn panel_bytes(&self) -> usize {
        self.words() * self.vectors * LANES * 4
    }

    /// Words of the panels from `panel` on.
    pub(crate) fn panel(&self, panel: usize) -> &[u32] {
        &self.memory.words()[panel * held(self.precision, self.k) * self.vectors * LANES..]
    }

    /// Scales and excesses of the outputs of panels of whole numbers.
    pub(crate) fn whole(&self, panels: Range<usize>) -> (&[f32], &[i32]) {
        let width = self.vectors * LANES;
        let at = panels.start * width..panels.end * width;
        (&self.scales[at.clone()], &self.excess[at])
    }
}

/// Words of a panel that are held, for each of its outputs.
fn held(precision: Precision, k: usize) -> usize {
    let words = precision.words(k);
    if precision == Precision::Int8 { words.next_multiple_of(TILE) } else { words }
}

/// The nearest bfloat16, ties to even.
fn bf16(weight: f32) -> u16 {
    crate::arch::narrowed(weight)
}
