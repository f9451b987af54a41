//! Files of a folder as samples.

use std::fmt;
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{SampleTensor, Source};

use super::item;
use crate::image::decode;
use crate::image::steps::{Layout, Step, prepare};

/// Missing files that an error names.
const NAMED: usize = 5;

/// What is made of every picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Preparation {
    /// Of the model.
    pub input: String,
    /// From the file's picture on.
    pub steps: Vec<Step>,
    /// Of the sample.
    pub layout: Layout,
}

/// The pictures of a data set; one is in memory only while its sample is loaded.
#[derive(Debug)]
pub struct Pictures {
    name: &'static str,
    folder: PathBuf,
    files: Vec<String>,
    inputs: [String; 1],
    steps: Vec<Step>,
    layout: Layout,
}

/// Files of a list are not in its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFiles {
    /// The folder.
    pub folder: PathBuf,
    /// How many.
    pub missing: usize,
    /// In the list.
    pub total: usize,
    /// The first few.
    pub files: Vec<String>,
    /// Where they can be had.
    pub get: &'static str,
}

impl fmt::Display for MissingFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, missing, total, files, get } = self;
        let (folder, first) = (folder.display(), files.join(", "));
        write!(f, "{folder}: {missing} of {total} files are missing, first {first}; get {get}")
    }
}

impl std::error::Error for MissingFiles {}

impl Pictures {
    /// Looks for these files, which are the samples in this order.
    ///
    /// # Errors
    /// [`MissingFiles`] if some are not in the folder; `get` says where they can be had.
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
            let (folder, missing, total) = (folder.to_owned(), gone.len(), files.len());
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

/// A grey PNG of one pixel, for tests.
#[cfg(test)]
pub(super) fn write_grey(path: &Path, grey: u8) {
    let mut encoder = png::Encoder::new(std::fs::File::create(path).unwrap(), 1, 1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[grey]).unwrap();
}
