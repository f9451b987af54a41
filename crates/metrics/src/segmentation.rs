//! Mean Dice: for each class, twice the voxels that prediction and reference share, divided by the
//! sum of the voxels of both.
//!
//! Source: `accuracy_kits.py` of the benchmark 3D-UNet on KiTS19, which prints five decimals of the
//! mean and four of each class.

pub mod brats;
pub mod labels;
mod truth;

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use super::data::read_text;
use super::payload::{self, Element};
use super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, RepeatPolicy, Scorer, Scores,
    reference_of,
};

use crate::parallel;

pub use truth::Truth;

const VOLUMES: Need = Need {
    name: "volumes",
    help: "the folder nifti of the preprocessed KiTS19: case_XXXXX/segmentation.nii.gz",
    is_required: true,
};

const CASES: Need = Need {
    name: "cases",
    help: "names of the cases, one line per sample: file_list of preprocessed_files.pkl; without \
           it, the folders in order",
    is_required: false,
};

/// Method of `3d-unet` on KiTS19.
pub(crate) const MEAN_DICE: Method = Method {
    name: "mean-dice",
    title: "mean Dice of kidney and tumor, from 0 to 1",
    answer: "one label per voxel, row-major: 0 background, 1 kidney, 2 tumor",
    element: Some(Element::U8),
    needs: &[VOLUMES, CASES],
    choices: &[],
    open: |inputs| {
        let volumes = read_volumes(inputs)?;
        Ok(Box::new(MeanDice::new(volumes, inputs.element.unwrap_or(Element::U8))))
    },
};

/// Number of classes: kidney and tumor.
const CLASSES: usize = 2;

/// Added to numerator and denominator, so that the Dice of an absent class is 1.
const SMOOTHING: f64 = 1e-6;

/// Possible names of the label file in the folder of a case.
const FILES: [&str; 2] = ["segmentation.nii.gz", "segmentation.nii"];

/// Reads the volume of each sample.
fn read_volumes(inputs: &Inputs) -> Result<Vec<Truth>, DataError> {
    let files = files(inputs)?;
    parallel::map(&files, |path| Truth::read(path, CLASSES as u8)).into_iter().collect()
}

/// Returns the label file of each sample.
fn files(inputs: &Inputs) -> Result<Vec<PathBuf>, DataError> {
    let folder = inputs.file(&VOLUMES)?;
    if !inputs.files.contains_key(CASES.name) {
        return folder_files(folder);
    }
    let path = inputs.file(&CASES)?;
    let text = read_text(path)?;
    let lines = text.lines().enumerate().map(|(at, line)| (at, line.trim()));
    let file = |(at, name): (usize, &str)| {
        label_file(&folder.join(name)).ok_or_else(|| {
            let expected = format!("a case with {}", folder.join(name).join(FILES[0]).display());
            DataError::malformed(path, at + 1, expected, "none")
        })
    };
    lines.filter(|(_, name)| !name.is_empty()).map(file).collect()
}

/// Returns the label file in the folder of a case; `None` if there is none.
///
/// ```
/// use dyno_metrics::segmentation::label_file;
///
/// let case = tempfile::tempdir().unwrap();
/// assert_eq!(label_file(case.path()), None);
/// let path = case.path().join("segmentation.nii.gz");
/// std::fs::write(&path, "").unwrap();
/// assert_eq!(label_file(case.path()), Some(path));
/// ```
pub fn label_file(case: &Path) -> Option<PathBuf> {
    FILES.iter().map(|name| case.join(name)).find(|path| path.is_file())
}

/// Returns the label files of all cases, in the order of the folders' names.
fn folder_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |error| DataError::unreadable(folder, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        files.extend(label_file(&entry.map_err(unreadable)?.path()));
    }
    files.sort_unstable();
    if files.is_empty() {
        let expected = format!("folders with {}", FILES[0]);
        return Err(DataError::malformed(folder, None, expected, "none"));
    }
    Ok(files)
}

/// Returns the Dice of each class. `labels` has a label per voxel, with the last axis the fastest.
///
/// # Errors
/// [`AnswerError::Content`] if a label is not a class.
///
/// # Panics
/// Panics if the number of labels is not the number of voxels.
pub fn dice(truth: &Truth, labels: &[u8]) -> Result<[f64; CLASSES], AnswerError> {
    assert_eq!(labels.len(), truth.voxels(), "a label a voxel");
    if let Some(other) = labels.iter().find(|label| **label > CLASSES as u8) {
        let expected = format!("labels from 0 to {CLASSES}");
        return Err(AnswerError::Content { expected, found: other.to_string() });
    }
    let [_, height, depth] = truth.shape;
    let (mut common, mut expected_voxels) = ([0_u64; CLASSES], [0_u64; CLASSES]);
    for (label, [x, y, z], length) in truth.rows() {
        let class = usize::from(label) - 1;
        let row = labels[(x * height + y) * depth + z..].iter().step_by(height * depth);
        common[class] += row.take(length).filter(|found| **found == label).count() as u64;
        expected_voxels[class] += length as u64;
    }
    Ok(std::array::from_fn(|class| {
        let found = labels.iter().filter(|label| usize::from(**label) == class + 1).count() as u64;
        (2.0 * common[class] as f64 + SMOOTHING)
            / ((expected_voxels[class] + found) as f64 + SMOOTHING)
    }))
}

/// Scores volumes of labels.
#[derive(Debug)]
pub struct MeanDice {
    volumes: Vec<Truth>,
    element: Element,
    sums: [f64; CLASSES],
    entries: u64,
}

impl MeanDice {
    /// Creates the scorer from volumes with the labels 0 to 2, in the order of the samples.
    ///
    /// ```
    /// use dyno_metrics::Scorer;
    /// use dyno_metrics::payload::Element;
    /// use dyno_metrics::segmentation::{MeanDice, Truth};
    ///
    /// // A NIfTI-1 file with one axis of four voxels, unsigned bytes, which begin at byte 352.
    /// let mut bytes = vec![0; 352];
    /// bytes[..4].copy_from_slice(&348_i32.to_le_bytes());
    /// bytes[40..44].copy_from_slice(&[1, 0, 4, 0]);
    /// bytes[70] = 2;
    /// bytes[108..112].copy_from_slice(&352_f32.to_le_bytes());
    /// bytes[344..348].copy_from_slice(b"n+1\0");
    /// bytes.extend([0, 1, 2, 2]);
    /// let file = tempfile::NamedTempFile::new().unwrap();
    /// std::fs::write(&file, bytes).unwrap();
    ///
    /// let volume = Truth::read(file.path(), 2).unwrap();
    /// let mut scorer = MeanDice::new(vec![volume], Element::U8);
    /// scorer.take(0, &[0, 1, 2, 2]).unwrap();
    /// assert_eq!(scorer.scores().figure("DICE"), Some(1.0));
    /// ```
    pub fn new(volumes: Vec<Truth>, element: Element) -> Self {
        Self { volumes, element, sums: [0.0; CLASSES], entries: 0 }
    }
}

/// Converts an answer to labels. A value outside 0 to 255 becomes 255.
fn labels(element: Element, answer: &[u8]) -> Result<Cow<'_, [u8]>, AnswerError> {
    if element.size() == 1 {
        return Ok(Cow::Borrowed(answer));
    }
    let wholes = payload::wholes(element, answer)?;
    Ok(wholes.map(|label| u8::try_from(label).unwrap_or(u8::MAX)).collect())
}

impl Scorer for MeanDice {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        self.entries += 1;
        let truth = reference_of(&self.volumes, index)?;
        let bytes = truth.voxels() * self.element.size();
        if answer.len() != bytes {
            let expected = format!("{bytes} ({:?} of {})", truth.shape, self.element.name());
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        let found = dice(truth, &labels(self.element, answer)?)?;
        self.sums.iter_mut().zip(found).for_each(|(sum, dice)| *sum += dice);
        Ok(())
    }

    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::All
    }

    fn references(&self) -> Option<u64> {
        Some(self.volumes.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let [kidney, tumor] = self.sums.map(|sum| sum / self.entries.max(1) as f64);
        let value = (kidney + tumor) / 2.0;
        Scores {
            figures: vec![Figure { metric: "DICE", value }],
            text: format!(
                "Accuracy: mean = {value:.5}, kidney = {kidney:.4}, tumor = {tumor:.4}\n"
            ),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrays::nifti::tests::file;
    use super::super::arrays::npy::tests::written;
    use super::super::assert_checker_reads;
    use super::*;

    /// Two by three by four voxels. The first axis is the fastest of the file.
    fn truth() -> Truth {
        let mut voxels = [0_u8; 24];
        let at = |x: usize, y: usize, z: usize| x + 2 * (y + 3 * z);
        // A run that covers the ends of two rows, and a run within a row.
        for place in [at(1, 0, 1), at(0, 1, 1), at(1, 1, 1), at(0, 2, 1)] {
            voxels[place] = 1;
        }
        voxels[at(1, 2, 3)] = 2;
        let path = written("truth.nii", &file(&[2, 3, 4], 2, [0.0; 2], &voxels, false));
        Truth::read(&path, 2).unwrap()
    }

    /// Returns the labels in the order of an answer.
    fn answer(labelled: &[([usize; 3], u8)]) -> Vec<u8> {
        let mut labels = vec![0; 24];
        for ([x, y, z], label) in labelled {
            labels[(x * 3 + y) * 4 + z] = *label;
        }
        labels
    }

    #[test]
    fn axes_of_answers_are_in_the_other_order_than_those_of_files() {
        let all = [([1, 0, 1], 1), ([0, 1, 1], 1), ([1, 1, 1], 1), ([0, 2, 1], 1), ([1, 2, 3], 2)];
        assert_eq!(dice(&truth(), &answer(&all)), Ok([1.0, 1.0]));
        // Three of four kidney voxels, and one wrong one: 2 * 3 / (4 + 4).
        let some = [([1, 0, 1], 1), ([0, 1, 1], 1), ([1, 1, 1], 1), ([0, 0, 0], 1)];
        let [kidney, tumor] = dice(&truth(), &answer(&some)).unwrap();
        assert!((kidney - 0.75).abs() < 1e-6 && tumor < 1e-5, "{kidney} {tumor}");
    }

    #[test]
    fn what_is_no_volume_of_labels_has_a_score_of_zero() {
        let mut scorer = MeanDice::new(vec![truth(), truth()], Element::I8);
        let right = answer(&[
            ([1, 0, 1], 1),
            ([0, 1, 1], 1),
            ([1, 1, 1], 1),
            ([0, 2, 1], 1),
            ([1, 2, 3], 2),
        ]);
        assert_eq!(scorer.take(0, &right), Ok(()));
        let error = scorer.take(1, &[0; 23]).unwrap_err();
        assert_eq!(error.to_string(), "expected 24 ([2, 3, 4] of int8) bytes, found 23");
        let error = scorer.take(1, &answer(&[([0, 0, 0], 255)])).unwrap_err();
        assert_eq!(error.to_string(), "expected labels from 0 to 2, found 255");
        assert_eq!(scorer.take(2, &[]), Err(AnswerError::Sample { references: 2 }));
        let scores = scorer.scores();
        assert_eq!(scores.text, "Accuracy: mean = 0.25000, kidney = 0.2500, tumor = 0.2500\n");
        assert_checker_reads("v1.1", "3d-unet-99", &scores);
        assert_checker_reads("v5.1", "3d-unet-99.9", &scores);
    }

    #[test]
    fn labels_of_no_class_are_no_references() {
        let path = written("other.nii", &file(&[2], 2, [0.0; 2], &[0, 3], false));
        let error = Truth::read(&path, 2).unwrap_err().to_string();
        assert!(error.ends_with("expected labels from 0 to 2, found 3"), "{error}");
    }
}
