//! Closed-division mode: calibration data alone, split in two, decides the formats. The validation
//! set is evaluated once, for the answer. Every used sample is listed with its hash.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dyno_number::tune::{Subset, samples};
use dyno_results::write::replace;
use dyno_tensors::files;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::data::CalibrationSplit;

dyno_loadgen::named_enum! {
    /// Required share of the accuracy in FLOAT 32.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Target {
        /// 99 %
        Low = "99",
        /// 99.9 %
        High = "99.9",
    }
}

impl Target {
    /// Returns the description for help texts.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Low => "99 %",
            Self::High => "99.9 %",
        }
    }

    /// Returns the accuracy that may be lost, relative.
    pub fn margin(self) -> f64 {
        match self {
            Self::Low => 0.01,
            Self::High => 0.001,
        }
    }
}

dyno_loadgen::named_enum! {
    /// Rules of the Closed division on formats.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClosedRules {
        /// The numeric list of round v0.5
        V05 = "v0.5",
        /// The numeric list of round v0.7
        V07 = "v0.7",
        /// Any format, as later rounds have it
        Current = "current",
    }
}

impl ClosedRules {
    /// Returns the description for help texts.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::V05 => "The numeric list of round v0.5",
            Self::V07 => "The numeric list of round v0.7",
            Self::Current => "Any format, as later rounds have it",
        }
    }

    /// Returns the platform with its list of formats.
    pub fn platform(self) -> Option<&'static str> {
        match self {
            Self::V05 => Some("mlperf-v0.5"),
            Self::V07 => Some("mlperf-v0.7"),
            Self::Current => None,
        }
    }
}

/// Samples by which an answer was chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// Seed of the inner split.
    pub seed: u64,
    /// Share of the calibration set that the first pass uses.
    pub small_share: f64,
    /// Small, full (the rest of the calibration set), confirmation (the validation set).
    pub sets: Vec<SampleSet>,
}

/// The samples of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleSet {
    /// Name of the set.
    pub name: &'static str,
    /// Purpose of the samples.
    pub purpose: &'static str,
    /// SHA-256 over the hashes of its samples, one per line.
    pub sha256: String,
    /// Samples, in order.
    pub samples: Vec<NamedHash>,
}

/// A sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedHash {
    /// Name in the list.
    pub name: String,
    /// SHA-256 of the file of that name, or of the name if there is no such file.
    pub sha256: String,
}

impl Provenance {
    /// Reads the lists of the calibration and the validation set, and splits the calibration set.
    ///
    /// # Errors
    /// A list cannot be read or has too few samples, or a sample is in both lists.
    pub fn new(
        calibration: &Path,
        validation: &Path,
        by: CalibrationSplit,
    ) -> Result<Self, String> {
        let (all, confirmation) = (hashed(calibration)?, hashed(validation)?);
        let names = [calibration, validation].map(|path| path.display().to_string());
        Self::from_samples(&all, confirmation, &names, by)
    }

    /// Splits the samples of the calibration set. `names` are the names of the calibration and the
    /// validation set.
    ///
    /// # Errors
    /// There are too few samples, or one is also in the validation set.
    pub fn from_samples(
        all: &[NamedHash],
        confirmation: Vec<NamedHash>,
        [calibration, validation]: &[String; 2],
        by: CalibrationSplit,
    ) -> Result<Self, String> {
        let [small, rest] = split(all, calibration, by)?;
        let chosen: HashMap<&str, &str> =
            all.iter().map(|sample| (sample.sha256.as_str(), sample.name.as_str())).collect();
        for sample in &confirmation {
            if let Some(other) = chosen.get(sample.sha256.as_str()) {
                return Err(format!(
                    "{} of {validation} is the sample {other} of {calibration}: formats may not be \
                     chosen by it",
                    sample.name
                ));
            }
        }
        let set = |subset: Subset, purpose, samples: Vec<NamedHash>| {
            let lines: String = samples.iter().map(|sample| sample.sha256.clone() + "\n").collect();
            SampleSet { name: subset.name(), purpose, sha256: sha256(lines.as_bytes()), samples }
        };
        let sets = vec![
            set(Subset::Small, "calibration, first pass", small),
            set(Subset::Full, "calibration, second pass", rest),
            set(Subset::Confirmation, "validation, one confirmation", confirmation),
        ];
        Ok(Self { seed: by.seed, small_share: by.small_share, sets })
    }

    /// Writes a list of each set, for the program.
    ///
    /// # Errors
    /// A list cannot be written.
    pub fn write_lists(&self, folder: &Path) -> Result<[PathBuf; 3], String> {
        let names = |set: &SampleSet| set.samples.iter().map(|of| of.name.clone()).collect();
        let sets: Vec<Vec<String>> = self.sets.iter().map(names).collect();
        write(folder, &sets.try_into().expect("there are three sets"))
    }
}

/// Writes the lists of a [`Provenance`] without reading the samples.
///
/// # Errors
/// A list cannot be read, has too few samples, or cannot be written.
pub fn write_lists(
    calibration: &Path,
    validation: &Path,
    by: CalibrationSplit,
    folder: &Path,
) -> Result<[PathBuf; 3], String> {
    let [small, rest] = split(&names(calibration)?, &calibration.display().to_string(), by)?;
    write(folder, &[small, rest, names(validation)?])
}

fn write(folder: &Path, sets: &[Vec<String>; 3]) -> Result<[PathBuf; 3], String> {
    let paths = Subset::ALL.map(|set| folder.join(format!("samples-{set}.txt")));
    for (path, names) in paths.iter().zip(sets) {
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        replace(path, lines)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(paths)
}

/// Splits a calibration set into the samples of the first pass and those of the second.
fn split<T: Clone>(
    all: &[T],
    calibration: &str,
    by: CalibrationSplit,
) -> Result<[Vec<T>; 2], String> {
    if all.len() < 2 {
        return Err(format!("{calibration} has {} samples, and is to be split", all.len()));
    }
    let parts = samples::split(all.len(), by.small_share, by.seed);
    Ok(parts.map(|part| part.iter().map(|at| all[*at].clone()).collect()))
}

/// Returns the samples of a list, one per line.
fn names(list: &Path) -> Result<Vec<String>, String> {
    let text = files::read_to_string(list)
        .map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// Returns the samples of a list with their hashes. Names are relative to the folder of the list.
fn hashed(list: &Path) -> Result<Vec<NamedHash>, String> {
    let folder = list.parent().unwrap_or(Path::new(""));
    let mut samples: Vec<NamedHash> = Vec::new();
    for name in names(list)? {
        let path = folder.join(&name);
        let bytes = if path.is_file() {
            files::read(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?
        } else {
            // The name may be the index of a sample in an archive.
            name.as_bytes().to_vec()
        };
        samples.push(NamedHash { name, sha256: sha256(&bytes) });
    }
    Ok(samples)
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
