//! Shape tasks: the true graphs of the benchmarks with seeded weights, written
//! once into the cache. They show speed and never quality.

use std::fmt;
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use dyno_onnx::{BuildError, Weights, WriteError, count};
use sha2::{Digest as _, Sha256};

use crate::cache::{Cache, part_name};
use crate::card::SHAPE_SUFFIX;
use crate::graphs::{GRAPHS, Graph};

/// Of all weights: any will do, as long as it stays the same.
const SEED: u64 = 1;

/// Why a model is not in the cache.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShapeError {
    /// The graph contradicts itself: a defect of this program.
    Build(BuildError),
    /// The model cannot be written.
    Write(WriteError),
    /// A folder of the cache cannot be made or moved.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ShapeError {}

/// The graph behind the name of a shape task.
#[must_use]
pub fn graph(task: &str) -> Option<&'static Graph> {
    let name = task.strip_suffix(SHAPE_SUFFIX)?;
    GRAPHS.iter().find(|graph| graph.name == name)
}

/// Parameters, and operations per sample (two for each multiply-accumulate), of a
/// graph, counted from the graph itself.
///
/// # Errors
/// The graph contradicts itself: a defect of this program.
pub fn size(graph: &Graph) -> Result<(u64, u64), ShapeError> {
    let model = (graph.build)(Weights::seeded(SEED)).map_err(ShapeError::Build)?;
    let cost = count(&model);
    Ok((cost.parameters, cost.operations()))
}

/// What all layers of a call may write: an engine keeps some of it at once, and beside it what it
/// makes of an input for a convolution.
const LARGEST_CALL: u64 = 2 << 30;

/// Samples in a call at most, so that it fits into the memory of most machines; one of the
/// largest graphs may need more than these have.
///
/// # Errors
/// The graph contradicts itself: a defect of this program.
pub fn fitting_batch(graph: &Graph) -> Result<NonZero<usize>, ShapeError> {
    let model = (graph.build)(Weights::seeded(SEED)).map_err(ShapeError::Build)?;
    let cost = count(&model);
    let written = cost.layers.iter().map(|of| of.output_bytes.saturating_mul(of.times));
    let bytes = written.fold(0, u64::saturating_add);
    let fitting = usize::try_from(LARGEST_CALL / bytes.max(1)).unwrap_or(usize::MAX);
    Ok(NonZero::new(fitting).unwrap_or(NonZero::<usize>::MIN))
}

/// Where the model of a graph lies in a cache, or would.
#[must_use]
pub fn path(graph: &Graph, cache: &Cache) -> PathBuf {
    folder(graph, cache).join(format!("{}.onnx", graph.name))
}

fn folder(graph: &Graph, cache: &Cache) -> PathBuf {
    // What it is made of tells it from what another version of this program made: the
    // nodes, and how the weights are drawn, of which none is made here.
    let made_of = (graph.build)(Weights::seeded(SEED)).map(|model| format!("{model:?}"));
    let key = Sha256::digest(made_of.unwrap_or_default());
    let key: String = key[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    cache.root().join("shape").join(format!("{}-{key}", graph.name))
}

/// The model of a graph; written if it is not in the cache yet.
///
/// # Errors
/// Nothing is left of what cannot be written whole.
pub fn write(graph: &Graph, cache: &Cache) -> Result<PathBuf, ShapeError> {
    let (path, folder) = (path(graph, cache), folder(graph, cache));
    if path.is_file() {
        return Ok(path);
    }
    let model = (graph.build)(Weights::seeded(SEED)).map_err(ShapeError::Build)?;
    let part = cache.root().join("shape").join(part_name(graph.name));
    let io_at = |path: &Path| {
        let path = path.to_owned();
        |error| ShapeError::Io { path, error }
    };
    fs::create_dir_all(&part).map_err(io_at(&part))?;
    let written = model
        .write(&part.join(format!("{}.onnx", graph.name)))
        .map_err(ShapeError::Write)
        .and_then(|_| fs::rename(&part, &folder).map_err(io_at(&folder)));
    if written.is_err() {
        let _ = fs::remove_dir_all(&part);
        // Somebody else may have been faster.
        if path.is_file() {
            return Ok(path);
        }
    }
    written.map(|()| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_that_write_much_take_few_samples_a_call() {
        let fitting = |name| fitting_batch(graph(name).unwrap()).unwrap().get();
        assert_eq!(fitting("retinanet-shape"), 1);
        assert!((4..32).contains(&fitting("resnet50-shape")), "{}", fitting("resnet50-shape"));
        assert!(fitting("dlrm-shape") > 1000);
    }

    #[test]
    fn a_model_is_written_once_and_is_a_model() {
        let root = std::env::temp_dir().join(format!("dyno-shape-{}", std::process::id()));
        let cache = Cache::at(&root);
        let graph = graph("mobilenet-v1-shape").unwrap();
        let path = write(graph, &cache).unwrap();
        let model = dyno_onnx::Model::read(&path).unwrap();
        assert_eq!(count(&model).parameters, size(graph).unwrap().0);
        let first = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(write(graph, &cache).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), first);
        let left = fs::read_dir(root.join("shape")).unwrap().count();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(left, 1);
    }
}
