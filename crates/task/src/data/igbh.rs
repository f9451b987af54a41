//! IGBH, the heterogeneous graph of the Illinois Graph Benchmark, in any of its sizes: the folder
//! `processed` with a file of features for each kind of node and a file of edges for each relation.
//!
//! Source: `igbh.py`, `dgl_utilities/feature_fetching.py` and `components.py` of the reference's
//! benchmark R-GAT. Each relation is traversed both ways; citations are one relation with a loop at
//! each paper. The features of the full graph have 2.2 TB, so their rows are read from disk. Its
//! 5.8 billion edges are converted to adjacency lists in memory: 4 bytes per edge and direction and
//! 8 bytes per node and relation, in total 63 GB.

mod edges;
mod rows;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyno_metrics::parallel;
use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
use dyno_tensors::Element;
use dyno_tensors::files;
use dyno_tensors::npy::{self, Npy};
use dyno_tensors::pickle::{self, Value};

use super::{FileError, SampleSet};
use crate::files::{CacheKey, Files, OpenError};
use crate::subgraph::{IncomingEdges, KINDS, PAPER, RELATIONS, Relation};

pub(crate) use rows::FeatureRows;

/// Number of relations that have files. The first is citations; the reversed relations follow in
/// the order of the others.
const FILES: usize = 6;

/// The graph: adjacency in memory, features on disk.
#[derive(Debug)]
pub(crate) struct Igbh {
    /// Incoming edges, in the order of [`RELATIONS`].
    pub incoming: Vec<IncomingEdges>,
    /// Features of nodes, in the order of [`KINDS`].
    pub features: Vec<FeatureRows>,
}

impl Igbh {
    /// Opens the files of features and builds the adjacency of all relations.
    ///
    /// # Errors
    /// The first file that is missing, malformed, or names a node without features.
    pub(crate) fn open(folder: &Path) -> Result<Self, FileError> {
        let open = |kind: &&str| features(folder, kind);
        let features: Vec<FeatureRows> = KINDS.iter().map(open).collect::<Result<_, _>>()?;
        if let Some(other) = features.iter().find(|rows| rows.width != features[0].width) {
            let expected = format!("{} features a node, as papers have", features[0].width);
            return Err(FileError::new(&other.path, expected, other.width));
        }
        let counts: Vec<usize> = features.iter().map(|rows| rows.count).collect();
        let relations = parallel::map(&RELATIONS[..FILES], |relation| {
            edges::adjacency(&path(folder, relation), relation, &counts)
        });
        let relations = relations.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (there, back): (Vec<_>, Vec<_>) = relations.into_iter().unzip();
        let incoming = there.into_iter().chain(back.into_iter().flatten()).collect();
        Ok(Self { incoming, features })
    }
}

fn path(folder: &Path, relation: &Relation) -> PathBuf {
    folder.join(relation.to_string()).join("edge_index.npy")
}

fn features(folder: &Path, kind: &str) -> Result<FeatureRows, FileError> {
    FeatureRows::open(&folder.join(kind).join("node_feat.npy"))
}

/// Opens the papers of the file `nodes` as samples. The file is also the reference; a file that
/// PyTorch wrote is converted to an array.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let path = files.path("nodes")?;
    let papers = papers(&path).map_err(OpenError::content)?;
    let count = features(&files.path("graph")?, KINDS[PAPER]).map_err(OpenError::content)?.count;
    let is_there = |paper: &i64| usize::try_from(*paper).is_ok_and(|paper| paper < count);
    if let Some(other) = papers.iter().find(|paper| !is_there(paper)) {
        let expected = format!("papers from 0 to {}", count.saturating_sub(1));
        return Err(OpenError::content(FileError::new(&path, expected, other)));
    }
    let made = files.derive("nodes.npy", 1, CacheKey::Files(&["nodes"]), |file| {
        npy::write(file, &[papers.len()], &papers).map_err(OpenError::content)
    })?;
    let name = files.card().data.inputs[0].name.clone();
    let elements = Elements::I64(Cow::Owned(papers));
    let tensor = Tensor { name, sample_shape: vec![1], elements };
    let samples = TensorLibrary::new("igbh", vec![tensor], None).map_err(OpenError::content)?;
    let references = BTreeMap::from([("nodes".to_owned(), made)]);
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

/// Reads numbers of papers that `numpy.save` or `torch.save` wrote.
fn papers(path: &Path) -> Result<Vec<i64>, FileError> {
    let refused = |found: String| {
        let expected = "papers as one dimension of int64, of numpy.save or torch.save";
        FileError::new(path, expected, found)
    };
    let bytes = files::read(path).map_err(FileError::unreadable(path))?;
    if bytes.starts_with(b"\x93NUMPY") {
        let Npy { shape, elements } = Npy::parse(&bytes).map_err(|why| refused(why.to_string()))?;
        return match (&shape[..], elements.to_i64()) {
            ([_], Some(papers)) => Ok(papers.into_owned()),
            (_, _) => Err(refused(format!("{} {shape:?}", elements.element()))),
        };
    }
    match pickle::weights(&bytes).map_err(|why| refused(why.to_string()))? {
        Value::Array(array) if array.element == Element::I64 && array.shape.len() == 1 => {
            let papers = array.bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
            Ok(papers.collect())
        }
        Value::Array(array) => Err(refused(format!("{} {:?}", array.element.name(), array.shape))),
        _ => Err(refused("no tensor".to_owned())),
    }
}

#[cfg(test)]
mod tests;
