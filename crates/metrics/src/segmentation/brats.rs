//! Mean Dice of the regions of a brain tumor: whole tumor, tumor core and enhancing tumor.
//!
//! Source: `accuracy-brats.py` of the benchmark 3D-UNet on BraTS 2019, which places the likeliest
//! labels of the cropped and padded volume in the whole one, with the regions and the rounding of
//! nnU-Net's `region_based_evaluation.py`.

use std::path::Path;

use dyno_tensors::files;
use serde::Deserialize;

use super::super::payload::{self, Element};
use super::super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores, reference_of,
};
use super::Truth;
use crate::parallel;

const LABELS: Need = Need {
    name: "labels",
    help: "the folder labelsTr of Task043_BraTS2019: NAME.nii.gz with the labels 0 to 3",
    is_required: true,
};

const CASES: Need = Need {
    name: "cases",
    help: "a list of JSON objects, one per sample, with name (of preprocessed_files.pkl), and \
           size_after_cropping and crop_bbox (of NAME.pkl)",
    is_required: true,
};

/// Method of `3d-unet` on BraTS.
pub(crate) const BRATS_DICE: Method = Method {
    name: "brats-dice",
    title: "mean Dice of whole tumor, tumor core and enhancing tumor, from 0 to 1",
    answer: "score of each label for each voxel: 4 by 224 by 224 by 160",
    element: Some(Element::F16),
    needs: &[LABELS, CASES],
    choices: &[],
    open: |inputs| {
        let element = inputs.element.unwrap_or(Element::F16);
        Ok(Box::new(BratsDice::new(read_cases(inputs)?, PADDED, element)))
    },
};

/// Size of the padded volume that a system receives; the last axis is the fastest.
const PADDED: [usize; 3] = [224, 224, 160];

/// Number of labels: background, edema, non-enhancing core and enhancing tumor.
const LABEL_COUNT: usize = 4;

/// Number of regions. They hold the labels from 1, from 2, and 3: each contains the next one.
const REGIONS: usize = 3;

/// Reference of a sample.
#[derive(Debug)]
pub struct Case {
    truth: Truth,
    /// Size of the cropped part, which is not background; the last axis is the fastest.
    size: [usize; 3],
    /// Start of the cropped part in the volume.
    start: [usize; 3],
}

// The name `Listed` is part of error messages.
#[derive(Deserialize)]
#[serde(expecting = "struct Listed")]
struct CaseRecord {
    name: String,
    size_after_cropping: [usize; 3],
    crop_bbox: [[usize; 2]; 3],
}

fn read_cases(inputs: &Inputs) -> Result<Vec<Case>, DataError> {
    let (path, folder) = (inputs.file(&CASES)?, inputs.file(&LABELS)?);
    let bytes = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    let records: Vec<CaseRecord> = serde_json::from_slice(&bytes).map_err(|error| {
        let expected = "a list of name, size_after_cropping and crop_bbox";
        DataError::malformed(path, error.line(), expected, error.to_string())
    })?;
    parallel::map(&records, |case| case.read(path, folder)).into_iter().collect()
}

impl CaseRecord {
    fn read(&self, path: &Path, folder: &Path) -> Result<Case, DataError> {
        let truth = Truth::read(&folder.join(format!("{}.nii.gz", self.name)), REGIONS as u8)?;
        let (size, start) = (self.size_after_cropping, self.crop_bbox.map(|[start, _]| start));
        let mut whole = truth.shape;
        whole.reverse();
        for axis in 0..3 {
            let fits = start[axis].checked_add(size[axis]).is_some_and(|end| end <= whole[axis]);
            if !fits || size[axis] > PADDED[axis] {
                let expected = format!("a part of {whole:?}, and of {PADDED:?}, for {}", self.name);
                let found = format!("{size:?} from {start:?}");
                return Err(DataError::malformed(path, None, expected, found));
            }
        }
        Ok(Case { truth, size, start })
    }
}

impl Case {
    /// Returns the likeliest label of each voxel, in the order of the file.
    fn labels(&self, element: Element, padded: [usize; 3], answer: &[u8]) -> Vec<u8> {
        let bytes = element.size();
        let voxels: usize = padded.iter().product();
        let before: [usize; 3] = std::array::from_fn(|axis| (padded[axis] - self.size[axis]) / 2);
        let [width, height, _] = self.truth.shape;
        let mut labels = vec![0; self.truth.voxels()];
        let mut ranks: [Vec<i16>; LABEL_COUNT] = std::array::from_fn(|_| vec![0; self.size[2]]);
        for z in 0..self.size[0] {
            for y in 0..self.size[1] {
                let row = ((z + before[0]) * padded[1] + y + before[1]) * padded[2] + before[2];
                let to = ((z + self.start[0]) * height + y + self.start[1]) * width + self.start[2];
                for (label, ranks) in ranks.iter_mut().enumerate() {
                    let at = (label * voxels + row) * bytes;
                    rank(element, &answer[at..at + self.size[2] * bytes], ranks);
                }
                likeliest(&ranks, &mut labels[to..to + self.size[2]]);
            }
        }
        labels
    }

    /// Returns the Dice of each region; `None` for a region that both volumes lack.
    fn dice(&self, labels: &[u8]) -> [Option<f64>; REGIONS] {
        let found = [1, 2, 3].map(|label| count(labels, label));
        let (mut common, mut expected) = ([0; REGIONS], [0; REGIONS]);
        for (label, start, length) in self.truth.runs() {
            expected[usize::from(label) - 1] += length as u64;
            let found = &labels[start..start + length];
            // A voxel is common to every region that contains both labels.
            for class in 1..=3 {
                common[usize::from(label.min(class)) - 1] += count(found, class);
            }
        }
        std::array::from_fn(|region| {
            let sum = |counts: [u64; 3]| counts[region..].iter().sum::<u64>() as f64;
            let together = sum(expected) + sum(found);
            (together > 0.0).then(|| 2.0 * sum(common) / together)
        })
    }
}

/// Returns how often a label occurs.
fn count(labels: &[u8], label: u8) -> u64 {
    // Maximum count in a byte.
    const MAX_COUNT: usize = 255;
    let count_chunk =
        |labels: &[u8]| labels.iter().map(|found| u8::from(*found == label)).sum::<u8>();
    labels.chunks(MAX_COUNT).map(|labels| u64::from(count_chunk(labels))).sum()
}

/// Ranks likelihoods among all 16-bit values. NumPy compares them after conversion to 16 bits. NaN
/// has the highest rank.
fn rank(element: Element, likely: &[u8], ranks: &mut [i16]) {
    match element {
        Element::F16 => {
            for (rank, likely) in ranks.iter_mut().zip(likely.as_chunks().0) {
                *rank = rank_of(u16::from_le_bytes(*likely));
            }
        }
        Element::F32 => {
            for (rank, likely) in ranks.iter_mut().zip(likely.as_chunks().0) {
                *rank = rank_of(round_to_half(f32::from_le_bytes(*likely)));
            }
        }
        _ => {
            for (rank, likely) in ranks.iter_mut().zip(likely.chunks_exact(element.size())) {
                *rank = rank_of(round_to_half(round_to_odd(element.real(likely))));
            }
        }
    }
}

/// Returns the rank of an IEEE 754 binary16 number. Both zeros have one rank.
#[inline]
fn rank_of(bits: u16) -> i16 {
    const INFINITE: i16 = 0x7c00;
    let magnitude = (bits & 0x7fff).cast_signed();
    let sign = bits.cast_signed() >> 15;
    if magnitude > INFINITE { i16::MAX } else { (magnitude ^ sign) - sign }
}

/// Rounds to IEEE 754 binary16, to the nearest number and ties to even.
#[inline]
fn round_to_half(value: f32) -> u16 {
    // Exponents of 1, of the least normal number, and of infinity; 13 bits are lost.
    const BIAS: u32 = (127 - 15) << 23;
    const LEAST: f32 = 1.0 / 16_384.0;
    let magnitude = value.abs();
    let bits = magnitude.to_bits();
    let normal = bits.wrapping_sub(BIAS).wrapping_add(0xfff + (bits >> 13 & 1)) >> 13;
    // Below one half the unit in the last place is that of the least numbers.
    let subnormal = (magnitude + 0.5).to_bits() - 0.5_f32.to_bits();
    let number = if magnitude < LEAST { subnormal } else { normal.min(0x7c00) };
    let rounded = if magnitude.is_nan() { 0x7e00 } else { number };
    (value.to_bits() >> 16 & 0x8000) as u16 | rounded as u16
}

/// Rounds to 32 bits so that a second rounding gives the result of a single one: sets the last bit
/// if bits are lost.
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    if back == value || value.is_nan() || near.to_bits() & 1 == 1 {
        return near;
    }
    let is_above = back.abs() > value.abs();
    f32::from_bits(if is_above { near.to_bits() - 1 } else { near.to_bits() + 1 })
}

/// Stores the label of each voxel with the highest rank, the first of equals.
fn likeliest(ranks: &[Vec<i16>; LABEL_COUNT], labels: &mut [u8]) {
    let [first, second, third, fourth] = ranks;
    let all = first.iter().zip(second).zip(third.iter().zip(fourth));
    for (label, ((first, second), (third, fourth))) in labels.iter_mut().zip(all) {
        let (mut best, mut at) = (*first, 0);
        for (rank, candidate) in [(*second, 1), (*third, 2), (*fourth, 3)] {
            at = if rank > best { candidate } else { at };
            best = best.max(rank);
        }
        *label = at;
    }
}

/// Scores likelihoods of labels.
#[derive(Debug)]
pub struct BratsDice {
    cases: Vec<Case>,
    padded: [usize; 3],
    element: Element,
    sums: [f64; REGIONS],
    counts: [u64; REGIONS],
}

impl BratsDice {
    fn new(cases: Vec<Case>, padded: [usize; 3], element: Element) -> Self {
        Self { cases, padded, element, sums: [0.0; REGIONS], counts: [0; REGIONS] }
    }

    fn found(&self, index: u64, answer: &[u8]) -> Result<[Option<f64>; REGIONS], AnswerError> {
        let case = reference_of(&self.cases, index)?;
        let [depth, height, width] = self.padded;
        let bytes = LABEL_COUNT * depth * height * width * self.element.size();
        if answer.len() != bytes {
            let name = self.element.name();
            let expected =
                format!("{bytes} ({LABEL_COUNT} by {depth} by {height} by {width} of {name})");
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        payload::require_logits(self.element, answer)?;
        Ok(case.dice(&case.labels(self.element, self.padded, answer)))
    }
}

impl Scorer for BratsDice {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let found = self.found(index, answer);
        let regions = found.as_ref().copied().unwrap_or([Some(0.0); REGIONS]);
        for (region, dice) in regions.iter().enumerate() {
            self.sums[region] += dice.unwrap_or_default();
            self.counts[region] += u64::from(dice.is_some());
        }
        found.map(drop)
    }

    fn references(&self) -> Option<u64> {
        Some(self.cases.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        // The script reads the means that nnU-Net writes with four decimals.
        let mean = |region: usize| {
            let mean = self.sums[region] / self.counts[region] as f64;
            format!("{mean:.4}").parse().unwrap_or(f64::NAN)
        };
        let [whole, core, enhancing]: [f64; REGIONS] = std::array::from_fn(mean);
        let value = (whole + core + enhancing) / 3.0;
        Scores {
            figures: vec![Figure { metric: "DICE", value }],
            text: format!(
                "Accuracy: mean = {value:.5}, whole tumor = {whole:.4}, tumor core = {core:.4}, \
                 enhancing tumor = {enhancing:.4}\n"
            ),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::arrays::nifti::tests::file;
    use super::super::super::arrays::npy::tests::written;
    use super::super::super::assert_checker_reads;
    use super::*;

    /// Three by two by two voxels. All but the first of each row are cropped and padded to 4 by 2
    /// by 3.
    fn scorer() -> BratsDice {
        let voxels = [0, 1, 2, 0, 3, 3, 0, 0, 0, 1, 0, 0];
        let path = written("brats.nii", &file(&[3, 2, 2], 2, [0.0; 2], &voxels, false));
        let truth = Truth::read(&path, 3).unwrap();
        let case = Case { truth, size: [2, 2, 2], start: [0, 0, 1] };
        BratsDice::new(vec![case], [4, 2, 3], Element::F32)
    }

    /// Returns the labels of the cropped part as likelihoods.
    fn answer(labels: [usize; 8]) -> Vec<u8> {
        let mut likely = vec![0.0_f32; LABEL_COUNT * 24];
        for (at, label) in labels.into_iter().enumerate() {
            let (z, y, x) = (at / 4, at / 2 % 2, at % 2);
            likely[label * 24 + ((z + 1) * 2 + y) * 3 + x] = 1.0;
        }
        likely.into_iter().flat_map(f32::to_le_bytes).collect()
    }

    #[test]
    fn the_cropped_part_is_put_back_and_regions_lie_in_each_other() {
        let mut scorer = scorer();
        assert_eq!(scorer.take(0, &answer([1, 3, 3, 0, 0, 2, 0, 0])), Ok(()));
        // The reference has 5, 3 and 2 voxels; the answer 4, 3 and 2; common are 3, 2 and 1.
        let scores = scorer.scores();
        assert_eq!(
            scores.text,
            "Accuracy: mean = 0.61113, whole tumor = 0.6667, tumor core = 0.6667, \
             enhancing tumor = 0.5000\n"
        );
        assert_checker_reads("v1.1", "3d-unet-99", &scores);
        assert!(matches!(scorer.take(0, &[0; 4]), Err(AnswerError::Length { .. })));
        assert!(scorer.scores().text.contains("enhancing tumor = 0.2500"));
    }

    /// Returns the value of an IEEE 754 binary16 number, by its definition.
    fn value(bits: u16) -> f64 {
        Element::F16.real(&bits.to_le_bytes())
    }

    #[test]
    fn ranks_are_in_the_order_of_values() {
        let numbers = (0..=u16::MAX).filter(|bits| !value(*bits).is_nan());
        let mut ranked: Vec<(i16, f64)> =
            numbers.map(|bits| (rank_of(bits), value(bits))).collect();
        ranked.sort_unstable_by_key(|(rank, _)| *rank);
        for pair in ranked.windows(2) {
            let ((rank, value), (next_rank, next)) = (pair[0], pair[1]);
            assert_eq!(rank.cmp(&next_rank), value.partial_cmp(&next).unwrap(), "{value} {next}");
        }
        assert_eq!(rank_of(0x7c01).max(rank_of(0xfe00)), i16::MAX);
    }

    #[test]
    fn likelihoods_are_rounded_to_the_nearest_of_16_bits() {
        // Each number rounds to itself, and a value between two numbers to the nearer one.
        for bits in 0..0x7c00_u16 {
            let (this, next) =
                (value(bits), if bits == 0x7bff { 65_536.0 } else { value(bits + 1) });
            let half = 0.5 * (this + next);
            let even = bits + (bits & 1);
            for (number, expected) in [
                (this, bits),
                (half, even),
                (half * (1.0 - 2_f64.powi(-40)), bits),
                (half * (1.0 + 2_f64.powi(-40)), bits + 1),
            ] {
                assert_eq!(round_to_half(round_to_odd(number)), expected, "{number:e}");
                assert_eq!(round_to_half(round_to_odd(-number)), 0x8000 | expected, "-{number:e}");
            }
            for number in [this as f32, half as f32] {
                assert_eq!(
                    round_to_half(number),
                    round_to_half(round_to_odd(number.into())),
                    "{number:e}"
                );
            }
        }
        for (number, expected) in [(f64::INFINITY, 0x7c00), (1e300, 0x7c00), (1e-300, 0)] {
            assert_eq!(round_to_half(round_to_odd(number)), expected, "{number:e}");
        }
        assert_eq!(rank_of(round_to_half(round_to_odd(f64::NAN))), i16::MAX);
    }

    #[test]
    fn the_first_of_the_greatest_is_the_likeliest_rounded_type() {
        let likely = [
            [1.0, 3.0, 3.0, 2.0],
            // Equal in 16 bits.
            [1.0, 1.000_1, 0.5, 0.25],
            [1.0, 3.0, f64::NAN, f64::INFINITY],
            [-0.0, 0.0, -1.0, -65_536.0],
            [f64::NEG_INFINITY, -70_000.0, -1.0, -0.5],
        ];
        let found = |bytes: [Vec<u8>; LABEL_COUNT], element| {
            let ranks = bytes.map(|bytes| {
                let mut ranks = vec![0; likely.len()];
                rank(element, &bytes, &mut ranks);
                ranks
            });
            let mut labels = vec![9; likely.len()];
            likeliest(&ranks, &mut labels);
            labels
        };
        let of = |label: usize| likely.iter().map(move |likely| likely[label]);
        let doubles = std::array::from_fn(|label| of(label).flat_map(f64::to_le_bytes).collect());
        let singles = std::array::from_fn(|label| {
            of(label).flat_map(|value| (value as f32).to_le_bytes()).collect()
        });
        let halves = std::array::from_fn(|label| {
            of(label).flat_map(|value| round_to_half(round_to_odd(value)).to_le_bytes()).collect()
        });
        assert_eq!(found(doubles, Element::F64), [1, 0, 2, 0, 3]);
        assert_eq!(found(singles, Element::F32), [1, 0, 2, 0, 3]);
        assert_eq!(found(halves, Element::F16), [1, 0, 2, 0, 3]);
    }

    #[test]
    fn errors_keep_the_names_of_records() {
        let error =
            serde_json::from_str::<CaseRecord>("1").err().expect("1 is no object").to_string();
        assert!(error.contains("expected struct Listed "), "{error}");
    }
}
