//! References for answers of recurrent layers: a file of the user, or the layers in double
//! precision.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dyno_metrics::embedding::{COMPUTED_AGREEMENT, EMBEDDING_AGREEMENT};
use dyno_metrics::{Inputs, Method, parallel};
use dyno_rnn::Precision;
use dyno_sut::rnn::{SequenceLibrary, Sequences};
use dyno_task::cache::Cache;
use dyno_task::card::{Bound, Unit};
use dyno_task::judge::{Judge, Target};
use dyno_tensors::files;
use dyno_tensors::npy::{self, Npy};

use super::source::Source;
use crate::cache;
use crate::failure::Failure;

/// Returns the judge of answers, with reference vectors in a file of the user, one row per sample.
///
/// # Errors
/// The file cannot be read, or a row has no direction.
pub fn judge(vectors: PathBuf, precision: Precision) -> Result<Judge, Failure> {
    let judge = judge_by(&EMBEDDING_AGREEMENT, vectors, precision);
    // An unreadable file is reported before the run.
    judge.scorer().map_err(Failure::set_up)?;
    Ok(judge)
}

/// Returns the judge of answers, with computed vectors in a file, and adds a remark on the comparison
/// with them. Rows without a direction are not compared; `None` if no row has one.
pub fn computed_judge(
    vectors: PathBuf,
    precision: Precision,
    by: &str,
    remarks: &mut Vec<String>,
) -> Option<Judge> {
    const WHY: &str = "all 0, or infinite or NaN in float32";
    let rows = rows_without_direction(&vectors);
    let judge = judge_by(&COMPUTED_AGREEMENT, vectors, precision);
    let (remark, is_judged) = match (rows, judge.scorer()) {
        (Ok([without, total]), _) if without == total => {
            (format!("Answers are not compared: {by} are {WHY}."), false)
        }
        (Ok([0, _]), Ok(_)) => (format!("Answers are compared with {by}."), true),
        (Ok([without, total]), Ok(_)) => {
            let others = format!("{without} of {total} are not comparable, because they are {WHY}");
            (format!("Answers are compared with {by}; {others}."), true)
        }
        (Err(why), _) => (format!("Answers are not compared: {why}."), false),
        (_, Err(error)) => (format!("Answers are not compared: {error}."), false),
    };
    remarks.push(remark);
    is_judged.then_some(judge)
}

/// Returns how many rows of a file have no direction, and how many rows there are.
fn rows_without_direction(path: &Path) -> Result<[usize; 2], String> {
    let told = |error: String| format!("{}: {error}", path.display());
    let bytes = files::read(path).map_err(|error| told(error.to_string()))?;
    let array = Npy::parse(&bytes).map_err(|error| told(error.to_string()))?;
    let total = array.shape.first().copied().unwrap_or(0);
    let numbers = array.elements.to_f32();
    let has_direction =
        |row: &&[f32]| row.iter().all(|x| x.is_finite()) && row.iter().any(|x| *x != 0.0);
    let width = numbers.len().checked_div(total).unwrap_or(0).max(1);
    Ok([total - numbers.chunks_exact(width).filter(has_direction).count(), total])
}

fn judge_by(method: &'static Method, vectors: PathBuf, precision: Precision) -> Judge {
    let metric = "cosine".to_owned();
    // Bounds follow from the rounding of each step: 2^-24 with the error of fitted activations,
    // 2^-9, 2^-8, and coarse scales.
    let least = match precision {
        Precision::F32 => 99.999,
        Precision::Bf16 => 99.9,
        Precision::Int8 => 99.0,
    };
    let target = Target { metric: metric.clone(), bound: Bound::AtLeast(least), scenario: None };
    let files = BTreeMap::from([("vectors".to_owned(), vectors)]);
    let inputs = Inputs { files, ..Inputs::default() };
    Judge { method, inputs, metric, unit: Unit::Percent, targets: vec![target], networks: None }
}

/// Computes the answers to all samples by the oracle, and stores them in a file for further runs.
/// `None` if models have answers of different lengths.
///
/// # Errors
/// The file cannot be written, or a sample does not fit its model.
pub fn computed(models: &[Source], library: &SequenceLibrary) -> Result<Option<PathBuf>, Failure> {
    let width = models[0].outputs();
    if models.iter().any(|model| model.outputs() != width) {
        return Ok(None);
    }
    let counts: Vec<usize> = library.sets().iter().map(Sequences::count).collect();
    let answer = |index: usize| {
        let (model, sequence) =
            library.sample(index as u64).ok_or("a sample is missing".to_owned())?;
        models[model].oracle(sequence)
    };
    let path = stored(key(models, library), || {
        each(counts.iter().sum(), &answer)
            .map_err(|why| Failure::set_up(format!("system rnn: {why}")))
    })?;
    Ok(Some(path))
}

/// Returns the file of answers with this key; computes the answers unless the file exists as it was
/// written. All answers have the same length.
///
/// # Errors
/// The answers cannot be computed, or the file cannot be written.
pub fn stored(
    key: u64,
    compute: impl FnOnce() -> Result<Vec<Vec<f64>>, Failure>,
) -> Result<PathBuf, Failure> {
    stored_in(&cache::folder(None)?, key, compute)
}

fn stored_in(
    cache: &Cache,
    key: u64,
    compute: impl FnOnce() -> Result<Vec<Vec<f64>>, Failure>,
) -> Result<PathBuf, Failure> {
    let path = cache.root().join("rnn").join(format!("oracle-{key:016x}.npy"));
    if dyno_task::files::is_intact(&path) {
        return Ok(path);
    }
    let rows = compute()?;
    let width = rows.first().map_or(0, Vec::len);
    let numbers: Vec<f32> = rows.iter().flatten().map(|x| *x as f32).collect();
    let failed = |path: &Path, error: io::Error| {
        Failure::unwritable(path, &error)
            .hint("set DYNO_CACHE to another folder, or use --mode performance, which needs none")
    };
    let write = |file: &mut BufWriter<File>| {
        npy::write(file, &[rows.len(), width], &numbers).map_err(|error| failed(&path, error))
    };
    dyno_task::files::store(&path, write, failed)?;
    Ok(path)
}

/// Returns a hash of weights, samples and the version of the oracle.
fn key(models: &[Source], library: &SequenceLibrary) -> u64 {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for (model, set) in models.iter().zip(library.sets()) {
        model.hash(&mut hasher);
        for at in 0..set.count() {
            let sequence = set.sequence(at).unwrap_or_default();
            sequence.len().hash(&mut hasher);
            sequence.iter().for_each(|x| x.to_bits().hash(&mut hasher));
        }
    }
    hasher.finish()
}

/// Computes the answers to `total` samples on all cores, because loops in double precision are slow.
///
/// # Errors
/// The error of the first sample that has one.
pub fn each(
    total: usize,
    answer: &(dyn Fn(usize) -> Result<Vec<f64>, String> + Sync),
) -> Result<Vec<Vec<f64>>, String> {
    let is_failed = AtomicBool::new(false);
    let rows = parallel::map(&(0..total).collect::<Vec<_>>(), |index| {
        if is_failed.load(Ordering::Relaxed) {
            // This sample would fail as well.
            return Ok(Vec::new());
        }
        answer(*index).inspect_err(|_| is_failed.store(true, Ordering::Relaxed))
    });
    rows.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn answers_are_computed_once_and_again_if_their_file_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let stored = |number: f64| stored_in(&cache, 7, || Ok(vec![vec![number, 1.0]])).unwrap();
        let first =
            |path: &Path| Npy::parse(&fs::read(path).unwrap()).unwrap().elements.to_f64()[0];
        let path = stored(2.0);
        assert_eq!([first(&path), first(&stored(3.0))], [2.0, 2.0]);
        // What a crash of the machine leaves, and a changed digit.
        fs::write(&path, "").unwrap();
        assert_eq!([first(&stored(4.0))], [4.0]);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!([first(&stored(5.0)), first(&stored(6.0))], [5.0, 5.0]);
    }
}
