//! Samples of a model that is evaluated in this process: which of them each set has.

use std::path::Path;

use dyno_number::evaluate::Samples;
use dyno_number::network::BuiltIn;
use dyno_number::tune::Subset;
use dyno_number::tune::samples::{drawn, split};
use dyno_sut::tensors::Npy;

use super::closed::{NamedHash, Provenance, sha256};

/// All samples, and the sets.
#[derive(Debug)]
pub struct Data {
    /// Those of the validation set last.
    pub samples: Samples,
    /// Of one sample.
    pub shape: Vec<usize>,
    /// Small, full, confirmation; the last is empty if there is no validation set.
    pub sets: [Vec<usize>; 3],
    /// What formats are chosen by, in closed mode.
    pub provenance: Option<Provenance>,
}

/// How closed mode splits the calibration set.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The part that the first pass sees.
    pub small_share: f64,
    /// Of the draw.
    pub seed: u64,
}

impl Data {
    /// Reads the arrays of a descriptor, which lie where it lies.
    ///
    /// # Errors
    /// A file that cannot be read, or in closed mode a sample that is in both sets.
    pub fn read(built_in: &BuiltIn, folder: &Path, closed: Option<Split>) -> Result<Self, String> {
        let (values, labels) = (folder.join(&built_in.samples), folder.join(&built_in.labels));
        let (mut samples, shape) = samples(&values, &labels)?;
        let count = samples.labels.len();
        let own = match &built_in.validation {
            Some([values, labels]) => {
                let (values, labels) = (folder.join(values), folder.join(labels));
                Some((self::samples(&values, &labels)?.0, values))
            }
            None => None,
        };
        let provenance = match (closed, &own) {
            (Some(of), Some((validation, path))) => {
                let all = hashed(&samples, &values)?;
                let confirmation = hashed(validation, path)?;
                let names = [values.display().to_string(), path.display().to_string()];
                Some(Provenance::of(&all, confirmation, &names, (of.small_share, of.seed))?)
            }
            _ => None,
        };
        let [small, full] = match (closed, count) {
            (_, 0) => [Vec::new(), Vec::new()],
            (Some(of), _) if count > 1 => split(count, of.small_share, of.seed),
            _ => [drawn(count, built_in.small_share, built_in.seed), (0..count).collect()],
        };
        let mut confirmation = Vec::new();
        if let Some((validation, _)) = own {
            confirmation = (count..count + validation.labels.len()).collect();
            samples.values.extend(validation.values);
            samples.labels.extend(validation.labels);
        }
        Ok(Self { samples, shape, sets: [small, full, confirmation], provenance })
    }

    /// Samples of a set, and their labels.
    pub fn of(&self, subset: Subset) -> Samples {
        let size = self.samples.values.len() / self.samples.labels.len().max(1);
        let set = &self.sets[subset as usize];
        let values = set.iter().flat_map(|at| &self.samples.values[at * size..][..size]);
        Samples {
            values: values.copied().collect(),
            labels: set.iter().map(|at| self.samples.labels[*at]).collect(),
        }
    }
}

/// The hash of each sample's values; the label is no part of it.
fn hashed(samples: &Samples, path: &Path) -> Result<Vec<NamedHash>, String> {
    let count = samples.labels.len();
    if count == 0 || !samples.values.len().is_multiple_of(count) {
        return Err(format!("{}: expected samples of one size for {count} labels", path.display()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let size = samples.values.len() / count;
    let of = |(at, values): (usize, &[f32])| {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        NamedHash { name: format!("{name}[{at}]"), sha256: sha256(&bytes) }
    };
    Ok(samples.values.chunks_exact(size.max(1)).enumerate().map(of).collect())
}

/// Arrays of NumPy: samples as a model is fed, with their labels, and the shape of one.
fn samples(values: &Path, labels: &Path) -> Result<(Samples, Vec<usize>), String> {
    let Npy { shape, elements } = array(values)?;
    let shape = shape.get(1..).unwrap_or_default().to_vec();
    let values = elements.to_f32().into_owned();
    let wrong = || format!("{}: expected whole numbers of at least 0", labels.display());
    let found = array(labels)?;
    let found = found.elements.to_i64().ok_or_else(wrong)?;
    let label = |label: &i64| usize::try_from(*label).map_err(|_| wrong());
    let labels = found.iter().map(label).collect::<Result<_, _>>()?;
    Ok((Samples { values, labels }, shape))
}

fn array(path: &Path) -> Result<Npy, String> {
    let bytes =
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Npy::parse(&bytes).map_err(|problem| format!("{}: {problem}", path.display()))
}
