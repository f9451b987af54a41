//! KiTS 2019 as the reference prepares it: a folder with a pickle of each case, and a pickle that
//! lists the cases in the order of the samples.
//!
//! Source: `preprocess.py` and `kits_QSL.py` of the reference's benchmark 3D-UNet: a case
//! is the first array of its pickle, of one channel and three axes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_metrics::arrays::nifti::Volume;
use dyno_metrics::segmentation::label_file;
use dyno_sut::tensors::{Elements, SampleTensor, Source};
use dyno_tensors::Element;
use dyno_tensors::files;
use dyno_tensors::pickle::{self, Array, Value};

use super::{FileError, SampleSet, library};
use crate::card::Card;
use crate::files::{CacheKey, Files, OpenError};

/// File name of the list.
const LIST: &str = "preprocessed_files.pkl";

/// The cases of a folder.
#[derive(Debug)]
pub struct Kits19 {
    folder: PathBuf,
    cases: Vec<String>,
    inputs: [String; 1],
}

/// Opens the cases of KiTS 2019 and derives the list of their names.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let card = files.card();
    let input = &card.data.inputs[0].name;
    let cases = Kits19::open(&files.path("images")?, input).map_err(OpenError::content)?;
    known_cases(card, &cases)?;
    cases.check(&files.path("volumes")?).map_err(OpenError::content)?;
    let list = format!("{}\n", cases.cases().join("\n"));
    let made = files.derive("cases", 1, CacheKey::Text(&list), |file| {
        file.write_all(list.as_bytes()).map_err(OpenError::content)
    })?;
    let references = BTreeMap::from([("cases".to_owned(), made)]);
    Ok(SampleSet { references, ..SampleSet::new(library(card, cases)?) })
}

/// Checks that all cases are known: the reference publishes a checksum of each.
fn known_cases(card: &Card, cases: &Kits19) -> Result<(), OpenError> {
    let known = card.data.files.iter().find(|file| file.name == "images");
    let known = known.map(|file| &file.md5_of).filter(|known| !known.is_empty());
    let is_other =
        |case: &&String| known.is_some_and(|known| !known.contains_key(&format!("{case}.pkl")));
    match cases.cases().iter().find(is_other) {
        Some(case) => Err(OpenError::content(format!(
            "{}: expected cases of {}, found {case}",
            cases.list().display(),
            card.data.name
        ))),
        None => Ok(()),
    }
}

impl Kits19 {
    /// Reads the list and checks that the file of every case exists.
    ///
    /// # Errors
    /// [`FileError`] if the list is malformed, empty, or names a case that has no file.
    pub fn open(folder: &Path, input: &str) -> Result<Self, FileError> {
        const NAMES: &str = "a dictionary with the names of the cases as file_list";
        let path = folder.join(LIST);
        let list = unpickled(&path, NAMES)?;
        let refused = |found: &str| FileError::new(&path, NAMES, found);
        let names = list.get("file_list").and_then(Value::values);
        let name = |value: &Value| match value {
            Value::Text(name) if !name.is_empty() => Some(name.to_string()),
            _ => None,
        };
        let names = names.ok_or_else(|| refused("no such list"))?;
        let cases: Option<Vec<String>> = names.iter().map(name).collect();
        let cases = cases.ok_or_else(|| refused("something else than a name"))?;
        if cases.is_empty() {
            return Err(refused("none"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = cases.iter().find(|case| !seen.insert(case.as_str())) {
            return Err(refused(&format!("{twice} twice")));
        }
        let set = Self { folder: folder.to_owned(), cases, inputs: [input.to_owned()] };
        match set.cases.iter().map(|case| set.path(case)).find(|path| !path.is_file()) {
            Some(path) => Err(FileError::new(&path, "the file of a case of the list", "none")),
            None => Ok(set),
        }
    }

    /// Returns the names of the cases in the order of the samples.
    pub fn cases(&self) -> &[String] {
        &self.cases
    }

    /// Returns the path of the list.
    pub(crate) fn list(&self) -> PathBuf {
        self.folder.join(LIST)
    }

    /// Compares the shape of every case with that of its labels, which are in a folder per case in
    /// `labels`. Files that cannot be read are skipped; the code that reads them in full reports
    /// them.
    ///
    /// # Errors
    /// [`FileError`] for the first case whose labels have another shape.
    pub fn check(&self, labels: &Path) -> Result<(), FileError> {
        for case in &self.cases {
            let path = self.path(case);
            let Some(labels) = label_file(&labels.join(case)) else { continue };
            let (Ok(truth), Some(shape)) = (Volume::open(&labels), shape(&path)) else { continue };
            if shape[..] != [&[1], &truth.shape[..]].concat() {
                let labels = labels.display();
                let [x, y, z] = truth.shape;
                let expected =
                    format!("a volume of [1, {x}, {y}, {z}] voxels, as {labels} has them");
                return Err(FileError::new(&path, expected, format!("{shape:?}")));
            }
        }
        Ok(())
    }

    fn path(&self, case: &str) -> PathBuf {
        self.folder.join(format!("{case}.pkl"))
    }
}

/// Returns the shape of a case's array, from the beginning of the file where possible.
fn shape(path: &Path) -> Option<Vec<usize>> {
    const BEGINNING: u64 = 1 << 12;
    let mut bytes = Vec::new();
    files::open(path).ok()?.take(BEGINNING).read_to_end(&mut bytes).ok()?;
    pickle::shape_at_end(&bytes).or_else(|| match pickle::read(&bytes).ok()?.values()?.first()? {
        Value::Array(volume) => Some(volume.shape.clone()),
        _ => None,
    })
}

fn unpickled(path: &Path, expected: &'static str) -> Result<Value, FileError> {
    let refused = |found: String| FileError::new(path, expected, found);
    let bytes = files::read(path).map_err(|error| refused(error.to_string()))?;
    pickle::read(&bytes).map_err(|error| refused(error.to_string()))
}

impl Source for Kits19 {
    fn name(&self) -> &str {
        "kits19"
    }

    fn count(&self) -> usize {
        self.cases.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        const VOLUME: &str = "a volume of float32 with one channel, and what belongs to it";
        let path = self.path(super::item(&self.cases, index)?);
        let value = unpickled(&path, VOLUME).map_err(|error| error.to_string())?;
        let refused = |found: String| FileError::new(&path, VOLUME, found);
        let Some(Value::Array(volume)) = value.values().and_then(<[Value]>::first) else {
            return Err(refused("no array at first".to_owned()).to_string());
        };
        let Array { shape, element, bytes } = &**volume;
        if *element != Element::F32 || !matches!(shape[..], [1, _, _, _]) {
            return Err(refused(format!("{} {shape:?}", element.name())).to_string());
        }
        let voxels: Vec<f32> =
            bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let elements = Elements::F32(Cow::Owned(voxels));
        Ok(vec![SampleTensor { shape: shape.clone(), elements }])
    }
}
