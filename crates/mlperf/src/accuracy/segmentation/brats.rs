//! Mean Dice of the regions of a brain tumor: the whole, its core, and what enhances.
//!
//! Source: `accuracy-brats.py` of the benchmark 3D-UNet on BraTS 2019, which puts the
//! likeliest labels of the cropped and padded volume back into the whole one, with the
//! regions and the rounding of nnU-Net's `region_based_evaluation.py`.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::super::payload::Element;
use super::super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores, of_sample,
};
use super::Truth;

const LABELS: Need = Need {
    name: "labels",
    what: "the folder labelsTr of Task043_BraTS2019: NAME.nii.gz with the labels 0 to 3",
    is_required: true,
};

const CASES: Need = Need {
    name: "cases",
    what: "a list of objects as JSON, one a sample: name of preprocessed_files.pkl, and \
           size_after_cropping and crop_bbox of that NAME.pkl",
    is_required: true,
};

/// `3d-unet` on BraTS.
pub const BRATS_DICE: Method = Method {
    name: "brats-dice",
    title: "mean Dice of whole tumor, tumor core and enhancing tumor, from 0 to 1",
    answer: "how likely each label is of each voxel: 4 by 224 by 224 by 160",
    element: Some(Element::Float16),
    needs: &[LABELS, CASES],
    choices: &[],
    open: |inputs| {
        let element = inputs.element.unwrap_or(Element::Float16);
        Ok(Box::new(BratsDice::new(read_cases(inputs)?, PADDED, element)))
    },
};

/// Edges of what a system is given, the last one the fastest.
const PADDED: [usize; 3] = [224, 224, 160];

/// Background, edema, the core that does not enhance, and what enhances.
const LIKELY: usize = 4;

/// The labels from 1, from 2, and 3: each lies in the one before.
const REGIONS: usize = 3;

/// What is right for a sample.
#[derive(Debug)]
pub struct Case {
    truth: Truth,
    /// Edges of the part that is not background, the last one the fastest.
    size: [usize; 3],
    /// Where that part starts in the volume.
    start: [usize; 3],
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    size_after_cropping: [usize; 3],
    crop_bbox: [[usize; 2]; 3],
}

fn read_cases(inputs: &Inputs) -> Result<Vec<Case>, DataError> {
    let (path, folder) = (inputs.file(&CASES)?, inputs.file(&LABELS)?);
    let bytes = fs::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    let listed: Vec<Listed> = serde_json::from_slice(&bytes).map_err(|error| {
        let expected = "a list of name, size_after_cropping and crop_bbox";
        DataError::malformed(path, error.line(), expected, error.to_string())
    })?;
    listed.iter().map(|case| case.read(path, folder)).collect()
}

impl Listed {
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
    /// The likeliest label of each voxel, in the order of the file.
    fn labels(&self, element: Element, padded: [usize; 3], answer: &[u8]) -> Vec<u8> {
        let bytes = element.size();
        let voxels: usize = padded.iter().product();
        let before: [usize; 3] = std::array::from_fn(|axis| (padded[axis] - self.size[axis]) / 2);
        let [width, height, _] = self.truth.shape;
        let mut labels = vec![0; self.truth.voxels()];
        for z in 0..self.size[0] {
            for y in 0..self.size[1] {
                let row = ((z + before[0]) * padded[1] + y + before[1]) * padded[2] + before[2];
                let to = ((z + self.start[0]) * height + y + self.start[1]) * width + self.start[2];
                for x in 0..self.size[2] {
                    let likely = |label: usize| {
                        let at = (label * voxels + row + x) * bytes;
                        rounded(element, element.real(&answer[at..at + bytes]))
                    };
                    labels[to + x] = likeliest(std::array::from_fn(likely));
                }
            }
        }
        labels
    }

    /// Dice of each region; none of one that neither has.
    fn dice(&self, labels: &[u8]) -> [Option<f64>; REGIONS] {
        let (mut common, mut wanted, mut found) = ([0_u64; 3], [0_u64; 3], [0_u64; 3]);
        for label in labels.iter().filter(|label| **label > 0) {
            found[usize::from(*label) - 1] += 1;
        }
        for (label, start, length) in self.truth.runs() {
            wanted[usize::from(label) - 1] += length as u64;
            for of in &labels[start..start + length] {
                // In every region that both are in.
                if let Some(least) = label.min(*of).checked_sub(1) {
                    common[usize::from(least)] += 1;
                }
            }
        }
        std::array::from_fn(|region| {
            let sum = |of: [u64; 3]| of[region..].iter().sum::<u64>() as f64;
            let together = sum(wanted) + sum(found);
            (together > 0.0).then(|| 2.0 * sum(common) / together)
        })
    }
}

/// As NumPy converts it to 16 bits.
fn rounded(element: Element, value: f64) -> f64 {
    if element == Element::Float16 || value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-14);
    let unit = 2_f64.powi(exponent - 10);
    let rounded = (value / unit).round_ties_even() * unit;
    if rounded.abs() > 65_504.0 { f64::INFINITY.copysign(value) } else { rounded }
}

/// The first of the greatest, or the first that is no number.
fn likeliest(values: [f64; LIKELY]) -> u8 {
    let mut best = 0;
    for (at, value) in values.iter().enumerate().skip(1) {
        if values[best].is_nan() {
            break;
        }
        if value.is_nan() || *value > values[best] {
            best = at;
        }
    }
    best as u8
}

/// Scores how likely labels are.
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
        let case = of_sample(&self.cases, index)?;
        let [depth, height, width] = self.padded;
        let bytes = LIKELY * depth * height * width * self.element.size();
        if answer.len() != bytes {
            let name = self.element.name();
            let expected =
                format!("{bytes} ({LIKELY} by {depth} by {height} by {width} of {name})");
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
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
        // The script reads them where nnU-Net has written four decimals.
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

    /// Three by two by two voxels, of which all but the first of each row are cropped
    /// and padded to 4 by 2 by 3.
    fn scorer() -> BratsDice {
        let voxels = [0, 1, 2, 0, 3, 3, 0, 0, 0, 1, 0, 0];
        let path = written("brats.nii", &file(&[3, 2, 2], 2, [0.0; 2], &voxels, false));
        let truth = Truth::read(&path, 3).unwrap();
        let case = Case { truth, size: [2, 2, 2], start: [0, 0, 1] };
        BratsDice::new(vec![case], [4, 2, 3], Element::Float32)
    }

    /// The labels of the cropped part, as likelihoods.
    fn answer(labels: [usize; 8]) -> Vec<u8> {
        let mut likely = vec![0.0_f32; LIKELY * 24];
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
        // Of the truth 5, 3 and 2 voxels; found 4, 3 and 2; in common 3, 2 and 1.
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

    #[test]
    fn likelihoods_are_compared_in_16_bits() {
        assert_eq!(rounded(Element::Float32, 1.000_1), 1.0);
        assert_eq!(rounded(Element::Float32, 65_520.0), f64::INFINITY);
        assert_eq!(rounded(Element::Float32, 2_f64.powi(-25)), 0.0);
        assert_eq!(rounded(Element::Float32, 3.0 * 2_f64.powi(-25)), 2_f64.powi(-23));
        assert_eq!(likeliest([1.0, 3.0, 3.0, 2.0]), 1);
        assert_eq!(likeliest([1.0, 3.0, f64::NAN, f64::INFINITY]), 2);
    }
}
