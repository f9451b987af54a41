//! What is to be seen in a volume, in little memory.

use std::path::Path;

use super::super::DataError;
use super::super::arrays::nifti::Volume;

/// A volume of labels of which all but the background is kept, as runs: hundreds of
/// volumes fit in the memory of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// Voxels along each axis, the fastest one of the file first.
    pub shape: [usize; 3],
    runs: Vec<Run>,
}

/// Voxels of a label, one after the other in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Volumes have 2^30 voxels at most.
    start: u32,
    length: u32,
    label: u8,
}

impl Truth {
    /// Reads a volume of the labels from 0, the background, to `greatest`.
    ///
    /// # Errors
    /// The file does not read, is no volume, or has other labels.
    pub fn read(path: &Path, greatest: u8) -> Result<Self, DataError> {
        let volume = Volume::open(path)?;
        let (shape, mut runs, mut at) = (volume.shape, Vec::<Run>::new(), 0_u32);
        let mut other = None;
        volume.labels(|labels| {
            for of in labels.chunk_by(|one, next| one == next) {
                let (label, length) = (of[0], of.len() as u32);
                if label > greatest {
                    other.get_or_insert(label);
                }
                match runs.last_mut() {
                    Some(run) if run.label == label && run.start + run.length == at => {
                        run.length += length;
                    }
                    _ if label == 0 => {}
                    _ => runs.push(Run { start: at, length, label }),
                }
                at += length;
            }
        })?;
        match other {
            None => Ok(Self { shape, runs }),
            Some(label) => {
                let expected = format!("labels from 0 to {greatest}");
                Err(DataError::malformed(path, None, expected, label.to_string()))
            }
        }
    }

    /// Number of voxels.
    #[must_use]
    pub fn voxels(&self) -> usize {
        self.shape.iter().product()
    }

    /// Each run of voxels of one label: the label, where it starts in the order of the
    /// file, and how many it has.
    pub fn runs(&self) -> impl Iterator<Item = (u8, usize, usize)> {
        self.runs.iter().map(|run| (run.label, run.start as usize, run.length as usize))
    }

    /// Each row of voxels of one label: the label, where it starts on each axis, and
    /// how many it has along the first.
    pub fn rows(&self) -> impl Iterator<Item = (u8, [usize; 3], usize)> {
        let [width, height, _] = self.shape;
        self.runs.iter().flat_map(move |run| {
            let (mut at, end) = (run.start as usize, (run.start + run.length) as usize);
            std::iter::from_fn(move || {
                let start = at;
                let length = (width - start % width).min(end - start);
                at += length;
                let place = [start % width, start / width % height, start / width / height];
                (length > 0).then_some((run.label, place, length))
            })
        })
    }
}
