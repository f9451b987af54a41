//! Reference volumes in compact form.

use std::path::Path;

use super::super::DataError;
use super::super::arrays::nifti::Volume;

/// A volume of labels as runs without background. Hundreds of volumes fit in the memory of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// Voxels along each axis; the first axis is the fastest in the file.
    pub shape: [usize; 3],
    runs: Vec<Run>,
}

/// Consecutive voxels of one label, in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Fits, as volumes have at most 2^30 voxels.
    start: u32,
    length: u32,
    label: u8,
}

impl Truth {
    /// Reads a volume with labels from 0, the background, to `greatest`.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, is not a volume, or has other labels.
    pub fn read(path: &Path, greatest: u8) -> Result<Self, DataError> {
        let volume = Volume::open(path)?;
        let (shape, mut runs, mut at) = (volume.shape, Vec::<Run>::new(), 0_u32);
        let mut other = None;
        volume.labels(|labels| {
            for part in labels.chunk_by(|one, next| one == next) {
                let (label, length) = (part[0], part.len() as u32);
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

    /// Returns the number of voxels.
    pub fn voxels(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the runs: label, start in the order of the file, and length of each.
    pub fn runs(&self) -> impl Iterator<Item = (u8, usize, usize)> {
        self.runs.iter().map(|run| (run.label, run.start as usize, run.length as usize))
    }

    /// Returns the rows, which are runs along the first axis: label, start on each axis, and length
    /// of each.
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
