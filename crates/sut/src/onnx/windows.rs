//! Volumes that are larger than the input of the model. They are cut into overlapping windows,
//! whose scores are summed with weights that decrease from the center.
//!
//! Source: `inference_utils.py` and `base_SUT.py` of the reference's benchmark 3D-UNet on KiTS19.
//! All arithmetic is float32, with windows in the order of the axes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use dyno_loadgen::sut::QuerySample;
use smallvec::smallvec;

use super::answer::Outputs;
use super::feed::Call;
use crate::tensors::{Elements, Scalar, each_type};

/// Size and distance of windows, and the weight of each voxel.
///
/// ```
/// use dyno_sut::onnx::Answer;
/// use dyno_sut::onnx::windows::Windows;
///
/// // Cubes with a side of 8 voxels that overlap by half.
/// let answer = Answer::Windows(Windows::gaussian(8, 4, 1.0));
/// assert!(matches!(answer, Answer::Windows(_)));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    side: usize,
    step: usize,
    /// Weight of each voxel of a window, the last axis fastest; the greatest is 1.
    weights: Arc<[f32]>,
}

/// Shape and elements of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Volume<'a> {
    /// Channels and three axes.
    pub shape: &'a [usize],
    /// Elements in row-major order.
    pub elements: &'a Elements<'a>,
}

/// Windows of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowBatch<'a> {
    /// Shape of a call with one window.
    pub shape: &'a [usize],
    /// Maximum number of windows per call.
    pub count: usize,
}

/// First voxel of a window.
type Corner = [usize; 3];

impl Windows {
    /// Returns cubes with this side that begin `step` voxels apart, with Gaussian weights of
    /// standard deviation `spread`.
    ///
    /// # Panics
    /// If the side or the step is 0, or the spread is not positive.
    pub fn gaussian(side: usize, step: usize, spread: f64) -> Self {
        assert!(side > 0 && step > 0 && spread > 0.0, "windows have an extent");
        let middle = (side as f64 - 1.0) / 2.0;
        let bell = |at: usize| (-0.5 * ((at as f64 - middle) / spread).powi(2)).exp();
        let bell: Vec<f64> = (0..side).map(bell).collect();
        let planes = bell.iter().flat_map(|a| bell.iter().map(move |b| a * b));
        let cube: Vec<f64> =
            planes.flat_map(|plane| bell.iter().map(move |c| (plane * c).cbrt())).collect();
        let greatest = cube.iter().copied().fold(0.0, f64::max);
        let weights = cube.iter().map(|weight| (weight / greatest) as f32).collect();
        Self { side, step, weights }
    }

    /// Returns the shape of a window for samples of this shape. Returns `None` if the sample is not
    /// a volume with channels, or is smaller than a window.
    pub(super) fn shape(&self, sample: &[usize]) -> Option<Vec<usize>> {
        match sample {
            [channels, axes @ ..] if axes.len() == 3 && axes.iter().all(|n| *n >= self.side) => {
                Some(vec![*channels, self.side, self.side, self.side])
            }
            _ => None,
        }
    }

    /// Returns the shape that a sample must have, for messages.
    pub(super) fn expected(&self) -> Vec<Option<usize>> {
        vec![None, Some(self.side), Some(self.side), Some(self.side)]
    }

    /// Appends the label of each voxel as a byte: the class with the greatest sum of weighted
    /// scores over all windows that contain the voxel.
    ///
    /// `call` receives at most `batch.count` windows, which the first dimension counts. Its first
    /// output has the scores of each window. After `most_calls` calls, the rest of the volume is
    /// skipped.
    ///
    /// # Errors
    /// The error of a call, or an output without a score for each voxel, or with NaN.
    pub(super) fn label(
        &self,
        volume: Volume<'_>,
        batch: WindowBatch<'_>,
        sample: QuerySample,
        most_calls: usize,
        call: &mut Call<'_>,
        labels: &mut Vec<u8>,
    ) -> Result<(), String> {
        let Volume { shape, elements } = volume;
        let axes: [usize; 3] =
            shape[shape.len() - 3..].try_into().expect("three axes were checked");
        let mut sums = Sums::new(axes);
        let corners = self.corners(axes);
        for corners in corners.chunks(batch.count.max(1)).take(most_calls) {
            let cut = self.cut(shape, elements, corners);
            let mut call_shape = batch.shape.to_vec();
            if batch.count > 1 {
                call_shape[0] = corners.len();
            }
            let samples = vec![sample; corners.len()];
            let inputs = smallvec![(Cow::Owned(call_shape), cut)];
            call(inputs, &samples, &mut |outputs| self.add(outputs, corners, &mut sums))?;
        }
        sums.labels(labels).map_err(|why| format!("sample {}: {why}", sample.index))
    }

    /// Returns the first voxels of all windows that are completely inside the volume.
    fn corners(&self, axes: [usize; 3]) -> Vec<Corner> {
        let [x, y, z] = axes.map(|n| (0..=n - self.side).step_by(self.step));
        let planes = x.flat_map(|a| y.clone().map(move |b| [a, b]));
        planes.flat_map(|[a, b]| z.clone().map(move |c| [a, b, c])).collect()
    }

    /// Concatenates the windows with these first voxels.
    fn cut(
        &self,
        shape: &[usize],
        elements: &Elements<'_>,
        corners: &[Corner],
    ) -> Elements<'static> {
        let [.., height, depth] = shape else { unreachable!("volumes have three axes") };
        let channels = elements.len() / shape[shape.len() - 3..].iter().product::<usize>();
        let plane = elements.len() / channels;
        fn rows<T: Scalar>(all: &[T], rows: impl Iterator<Item = Range<usize>>) -> Vec<T> {
            rows.flat_map(|row| &all[row]).copied().collect()
        }
        let starts = corners.iter().flat_map(|corner| {
            (0..channels).flat_map(move |channel| {
                self.rows(*corner, [*height, *depth]).map(move |at| channel * plane + at)
            })
        });
        let ranges = starts.map(|at| at..at + self.side);
        each_type!(elements, all => Scalar::wrap(rows(all, ranges).into()))
    }

    /// Returns the positions at which the rows of a window begin in a volume of one channel.
    fn rows(&self, [x, y, z]: Corner, [height, depth]: [usize; 2]) -> impl Iterator<Item = usize> {
        let side = self.side;
        (x..x + side).flat_map(move |a| (y..y + side).map(move |b| (a * height + b) * depth + z))
    }

    fn add(
        &self,
        outputs: &Outputs<'_>,
        corners: &[Corner],
        sums: &mut Sums,
    ) -> Result<(), String> {
        let [_, height, depth] = sums.axes;
        for (position, corner) in corners.iter().enumerate() {
            let part = outputs.first()?.part(position)?;
            let scores = part.elements.to_f32();
            let voxels = self.weights.len();
            if scores.is_empty() || !scores.len().is_multiple_of(voxels) {
                let (side, shape) = (self.side, part.shape);
                return Err(format!(
                    "expected scores for each of {side} x {side} x {side} voxels, found {shape:?}"
                ));
            }
            sums.allocate(scores.len() / voxels)?;
            let rows = self.rows(*corner, [height, depth]);
            for (row, at) in rows.enumerate() {
                let weights = &self.weights[row * self.side..][..self.side];
                for (class, sums) in sums.scores.iter_mut().enumerate() {
                    let scores = &scores[class * voxels + row * self.side..][..self.side];
                    let into = sums[at..at + self.side].iter_mut();
                    into.zip(scores.iter().zip(weights)).for_each(|(sum, (s, w))| *sum += s * w);
                }
                let into = sums.weights[at..at + self.side].iter_mut();
                into.zip(weights).for_each(|(sum, weight)| *sum += weight);
            }
        }
        Ok(())
    }
}

/// Sums of weighted scores of a volume.
struct Sums {
    axes: [usize; 3],
    /// Sum per voxel, for each class.
    scores: Vec<Vec<f32>>,
    weights: Vec<f32>,
}

impl Sums {
    fn new(axes: [usize; 3]) -> Self {
        Self { axes, scores: Vec::new(), weights: vec![0.0; axes.iter().product()] }
    }

    /// Allocates the sums for this many classes. All windows must have the same number.
    fn allocate(&mut self, classes: usize) -> Result<(), String> {
        match self.scores.len() {
            0 if classes <= 1 << u8::BITS => {
                self.scores = vec![vec![0.0; self.weights.len()]; classes];
            }
            0 => return Err(format!("expected at most 256 classes, found {classes}")),
            held if held == classes => {}
            held => {
                return Err(format!(
                    "expected {held} classes as in the previous windows, found {classes}"
                ));
            }
        }
        Ok(())
    }

    /// Appends the class with the greatest sum for each voxel, the first of equal ones. It is 0 for
    /// voxels outside all windows.
    ///
    /// # Errors
    /// A score is NaN, so that its voxel has no class.
    fn labels(&self, labels: &mut Vec<u8>) -> Result<(), String> {
        for (class, sums) in self.scores.iter().enumerate() {
            if let Some(voxel) = sums.iter().position(|sum| sum.is_nan()) {
                return Err(format!("the score of class {class} at voxel {voxel} is NaN"));
            }
        }
        labels.reserve(self.weights.len());
        labels.extend(self.weights.iter().enumerate().map(|(voxel, weight)| {
            let scores = self.scores.iter().map(|sums| sums[voxel] / weight).enumerate();
            let greatest = scores.reduce(|best, next| if next.1 > best.1 { next } else { best });
            greatest.map_or(0, |(class, _)| class as u8)
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::sut::ResponseId;

    use super::super::answer::Output;
    use super::*;

    const SAMPLE: QuerySample = QuerySample { id: ResponseId(1), index: 0 };

    /// Labels voxels with two classes, whose scores are 0.5 and the voxel itself. Returns the labels
    /// and the sizes of the calls.
    fn labelled(
        windows: &Windows,
        axes: [usize; 3],
        voxels: &[f32],
        batch: usize,
    ) -> Result<(Vec<u8>, Vec<usize>), String> {
        let shape = [1, axes[0], axes[1], axes[2]];
        let window = [1, 1, windows.side, windows.side, windows.side];
        let (mut labels, mut calls) = (vec![9], Vec::new());
        let done = windows.label(
            Volume { shape: &shape, elements: &Elements::F32(voxels.into()) },
            WindowBatch { shape: &window, count: batch },
            SAMPLE,
            usize::MAX,
            &mut |inputs, samples, take| {
                let (shape, elements) = &inputs[0];
                calls.push(shape[0]);
                assert_eq!((shape[0], shape[1..] == window[1..]), (samples.len(), true));
                let cut = elements.to_f32();
                let scores = |window: &[f32]| [vec![0.5; window.len()], window.to_vec()].concat();
                let scores: Vec<f32> = cut.chunks(windows.side.pow(3)).flat_map(scores).collect();
                let shape = [&[samples.len(), 2], &shape[2..]].concat();
                let elements = Ok(Elements::F32(scores.into()));
                take(&Outputs::new(vec![Output {
                    name: "y",
                    shape,
                    elements,
                    samples: samples.len(),
                }]))
            },
            &mut labels,
        );
        done.map(|()| (labels, calls))
    }

    #[test]
    fn a_voxel_with_nan_is_an_error_that_names_the_sample() {
        let windows = Windows::gaussian(4, 2, 0.5);
        let mut voxels = vec![0.0; 64];
        voxels[9] = f32::NAN;
        let error = labelled(&windows, [4; 3], &voxels, 1).unwrap_err();
        assert_eq!(error, "sample 0: the score of class 1 at voxel 9 is NaN");
    }

    #[test]
    fn each_voxel_has_the_label_of_its_own_scores_whatever_windows_hold_it() {
        let windows = Windows::gaussian(4, 2, 0.5);
        let axes = [6, 4, 8];
        let voxels: Vec<f32> = (0..6 * 4 * 8).map(|at| ((at * 37) % 100) as f32 / 100.0).collect();
        let expected: Vec<u8> = voxels.iter().map(|voxel| u8::from(*voxel > 0.5)).collect();
        // 2 x 1 x 3 windows.
        for (batch, calls) in [(1, vec![1; 6]), (4, vec![4, 2]), (64, vec![6])] {
            let (labels, found) = labelled(&windows, axes, &voxels, batch).unwrap();
            assert_eq!((labels[0], &labels[1..], found), (9, &expected[..], calls));
        }
    }

    /// scipy.signal.windows.gaussian(4, 0.5) is 0.011109 0.606531 0.606531 0.011109. Weights are
    /// the cube root of the product of three of them, scaled so that the greatest is 1.
    #[test]
    fn weights_fall_from_the_middle_as_the_references_do() {
        let windows = Windows::gaussian(4, 2, 0.5);
        let [rim, middle] = [0.011_108_997_f64, 0.606_530_66];
        let at = |a: usize, b: usize, c: usize| f64::from(windows.weights[(a * 4 + b) * 4 + c]);
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-6;
        assert!(near(at(1, 2, 1), 1.0));
        assert!(near(at(0, 1, 2), (rim * middle * middle).cbrt() / middle));
        assert!(near(at(0, 3, 0), rim / middle));
    }

    /// If two windows disagree, the one whose center is nearer to the voxel decides.
    #[test]
    fn scores_of_windows_are_weighted() {
        let windows = Windows::gaussian(4, 2, 0.5);
        let shape = [1, 4, 4, 6];
        let mut labels = Vec::new();
        let mut window = 0;
        let call: &mut Call<'_> = &mut |_, samples, take| {
            // The first window has class 0 everywhere, the second has class 1.
            let scores = [vec![f32::from(1 - window); 64], vec![f32::from(window); 64]].concat();
            window += 1_u8;
            let elements = Ok(Elements::F32(scores.into()));
            let output =
                Output { name: "y", shape: vec![1, 2, 4, 4, 4], elements, samples: samples.len() };
            take(&Outputs::new(vec![output]))
        };
        let volume = Elements::F32(vec![0.0; 96].into());
        windows
            .label(
                Volume { shape: &shape, elements: &volume },
                WindowBatch { shape: &[1, 1, 4, 4, 4], count: 1 },
                SAMPLE,
                usize::MAX,
                call,
                &mut labels,
            )
            .unwrap();
        // Along the last axis, both windows contain the third and the fourth voxel. These are in
        // the middle of the end of the first window and of the beginning of the second.
        assert_eq!(labels[..6], [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_trial_needs_no_more_than_its_calls() {
        let windows = Windows::gaussian(4, 2, 0.5);
        let mut count = 0;
        let call: &mut Call<'_> = &mut |_, samples, take| {
            count += 1;
            let elements = Ok(Elements::F32(vec![1.0; 128].into()));
            let shape = vec![1, 2, 4, 4, 4];
            take(&Outputs::new(vec![Output { name: "y", shape, elements, samples: samples.len() }]))
        };
        let (shape, volume) = ([1, 8, 8, 8], Elements::F32(vec![0.0; 512].into()));
        let (window, mut labels) = ([1, 1, 4, 4, 4], Vec::new());
        let volume = Volume { shape: &shape, elements: &volume };
        let batch = WindowBatch { shape: &window, count: 1 };
        windows.label(volume, batch, SAMPLE, 1, call, &mut labels).unwrap();
        assert_eq!((count, labels.len()), (1, 512));
    }

    #[test]
    fn outputs_that_score_no_voxels_are_told() {
        let windows = Windows::gaussian(2, 1, 1.0);
        let call: &mut Call<'_> = &mut |_, samples, take| {
            let elements = Ok(Elements::F32(vec![0.0; 7].into()));
            let output = Output { name: "y", shape: vec![1, 7], elements, samples: samples.len() };
            take(&Outputs::new(vec![output]))
        };
        let volume = Elements::F32(vec![0.0; 8].into());
        let done = windows.label(
            Volume { shape: &[1, 2, 2, 2], elements: &volume },
            WindowBatch { shape: &[1, 1, 2, 2, 2], count: 1 },
            SAMPLE,
            usize::MAX,
            call,
            &mut Vec::new(),
        );
        let why = done.unwrap_err();
        assert_eq!(why, "expected scores for each of 2 x 2 x 2 voxels, found [7]");
        assert_eq!(windows.shape(&[1, 2, 2, 1]), None);
        assert_eq!(windows.shape(&[3, 2, 5, 9]), Some(vec![3, 2, 2, 2]));
    }
}
