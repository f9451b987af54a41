//! Shape tasks: the true graphs of the benchmarks with seeded weights, written once into the cache.
//! They show speed and never quality.

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use dyno_onnx::{BuildError, Weights, WriteError, count};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::cache::{Cache, part_name};
use crate::card::SHAPE_SUFFIX;
use crate::graphs::{GRAPHS, Graph};

/// Seed of all weights; any fixed value will do.
const SEED: u64 = 1;

/// Reason why a model cannot be built or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The graph contradicts itself, which is a defect of this program.
    #[error("{0}")]
    Build(BuildError),
    /// The model cannot be written.
    #[error("{0}")]
    Write(WriteError),
    /// A folder of the cache cannot be created or moved.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// Returns the graph of a shape task.
pub fn graph(task: &str) -> Option<&'static Graph> {
    let name = task.strip_suffix(SHAPE_SUFFIX)?;
    GRAPHS.iter().find(|graph| graph.name == name)
}

/// Returns the number of parameters of a graph and its operations per sample (two for each
/// multiply-accumulate), counted from the graph itself.
///
/// ```
/// use dyno_task::shape;
///
/// let graph = shape::graph("mobilenet-v1-shape").unwrap();
/// let (parameters, operations) = shape::size(graph).unwrap();
/// assert!((4_000_000..5_000_000).contains(&parameters));
/// assert!(operations > 1_000_000_000);
/// ```
///
/// # Errors
/// The graph contradicts itself, which is a defect of this program.
pub fn size(graph: &Graph) -> Result<(u64, u64), ShapeError> {
    let model = (graph.build)(Weights::seeded(SEED)).map_err(ShapeError::Build)?;
    let cost = count(&model);
    Ok((cost.parameters, cost.operations()))
}

/// Limit of the bytes that all layers of a call write: an engine keeps some of them at once, and
/// also the temporary copies of inputs that convolutions need.
const LARGEST_CALL: u64 = 2 << 30;

/// Returns the maximum batch size that fits into the memory of most machines. One sample of the
/// largest graphs may need more than these have.
///
/// # Errors
/// The graph contradicts itself, which is a defect of this program.
pub fn fitting_batch(graph: &Graph) -> Result<NonZero<usize>, ShapeError> {
    let model = (graph.build)(Weights::seeded(SEED)).map_err(ShapeError::Build)?;
    let cost = count(&model);
    let written = cost.layers.iter().map(|layer| layer.output_bytes.saturating_mul(layer.runs));
    let bytes = written.fold(0, u64::saturating_add);
    let fitting = usize::try_from(LARGEST_CALL / bytes.max(1)).unwrap_or(usize::MAX);
    Ok(NonZero::new(fitting).unwrap_or(NonZero::<usize>::MIN))
}

/// Returns the path that the model of a graph has in a cache, whether it is there or not.
pub fn path(graph: &Graph, cache: &Cache) -> PathBuf {
    folder(graph, cache).join(format!("{}.onnx", graph.name))
}

fn folder(graph: &Graph, cache: &Cache) -> PathBuf {
    // The folder name has a hash of the nodes and of the rules by which weights are drawn. This
    // separates models of different versions of this program without drawing any weights.
    let made_of = (graph.build)(Weights::seeded(SEED)).map(|model| format!("{model:?}"));
    let key = Sha256::digest(made_of.unwrap_or_default());
    let key: String = key[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    cache.root().join("shape").join(format!("{}-{key}", graph.name))
}

/// Returns the path of a graph's model and writes it if it is not in the cache yet.
///
/// # Errors
/// The model cannot be built or written. No partial model remains.
pub fn write(graph: &Graph, cache: &Cache) -> Result<PathBuf, ShapeError> {
    let path = path(graph, cache);
    let folder = folder(graph, cache);
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
        // Another process may have been faster.
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
