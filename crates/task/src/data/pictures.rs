//! Picture files of a folder as samples.

use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{SampleTensor, Source};
use thiserror::Error;

use super::item;
use crate::image::decode;
use crate::image::steps::{Layout, Step, prepare};

/// Missing files that an error names, at most.
const NAMED: usize = 5;

/// Preparation of pictures as samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Preparation {
    /// Name of the model's input.
    pub input: String,
    /// Steps from the decoded picture to the sample.
    pub steps: Vec<Step>,
    /// Channel layout of the sample.
    pub layout: Layout,
}

/// The pictures of a data set; each is in memory only while its sample is loaded.
#[derive(Debug)]
pub struct Pictures {
    name: &'static str,
    folder: PathBuf,
    files: Vec<String>,
    inputs: [String; 1],
    steps: Vec<Step>,
    layout: Layout,
}

/// Error: files of a list are not in its folder.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{}: {missing} of {total} files are missing, first {}; get {get}",
    folder.display(), files.join(", ")
)]
pub struct MissingFiles {
    /// The folder.
    pub folder: PathBuf,
    /// Number of missing files.
    pub missing: usize,
    /// Number of files in the list.
    pub total: usize,
    /// Names of the first missing files.
    pub files: Vec<String>,
    /// Where the user gets the files.
    pub get: &'static str,
}

impl Pictures {
    /// Checks that these files exist; they are the samples in this order.
    ///
    /// # Errors
    /// [`MissingFiles`] if some are not in the folder; `get` states where the user gets them.
    pub fn new(
        name: &'static str,
        folder: &Path,
        files: Vec<String>,
        get: &'static str,
        preparation: Preparation,
    ) -> Result<Self, MissingFiles> {
        let gone: Vec<&String> = files.iter().filter(|file| !folder.join(file).is_file()).collect();
        if !gone.is_empty() {
            let first = gone.iter().take(NAMED).map(|file| (*file).clone()).collect();
            let folder = folder.to_owned();
            let missing = gone.len();
            let total = files.len();
            return Err(MissingFiles { folder, missing, total, files: first, get });
        }
        let Preparation { input, steps, layout } = preparation;
        Ok(Self { name, folder: folder.to_owned(), files, inputs: [input], steps, layout })
    }
}

impl Source for Pictures {
    fn name(&self) -> &str {
        self.name
    }

    fn count(&self) -> usize {
        self.files.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let path = self.folder.join(item(&self.files, index)?);
        let picture = decode::open(&path).map_err(|error| error.to_string())?;
        let sample = prepare(picture, &self.steps, self.layout)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(vec![sample])
    }
}

/// A gray PNG of one pixel, for tests.
#[cfg(test)]
pub(super) fn write_gray(path: &Path, grey: u8) {
    let mut encoder = png::Encoder::new(std::fs::File::create(path).unwrap(), 1, 1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[grey]).unwrap();
}
