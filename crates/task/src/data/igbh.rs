//! IGBH, the heterogeneous graph of the Illinois Graph Benchmark, in any of its sizes: the
//! folder `processed` with a file of features for each kind of node and a file of edges for
//! each relation.
//!
//! Source: `igbh.py`, `dgl_utilities/feature_fetching.py` and `components.py` of the
//! reference's benchmark R-GAT. Each relation is walked both ways, citations as one relation
//! with a loop at each paper. Features of the full graph are 2.2 TB: rows of them are read
//! where they lie. Its 5.8 billion edges are turned, when it is opened, to the neighbours of
//! each node: 4 bytes an edge and way, and 8 a node and relation, which are 63 GB.

mod edges;
mod rows;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
use dyno_tensors::Element;
use dyno_tensors::npy::{self, Npy};
use dyno_tensors::pickle::{self, Value};

use crate::files::{Files, Of, OpenError};
use crate::open::Read;
use crate::pipelines::sampling::Incoming;

pub(crate) use rows::Rows;

/// Kinds of nodes.
pub const KINDS: [&str; 6] = ["paper", "author", "institute", "fos", "journal", "conference"];
/// Those that samples are.
pub const PAPER: usize = 0;

/// Edges of one meaning, from nodes of one kind to those of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation {
    /// As the reference's model calls it.
    pub name: &'static str,
    /// Place of the kind in [`KINDS`] that edges come from.
    pub from: usize,
    /// And of the one that they go to.
    pub to: usize,
}

const fn relation(from: usize, name: &'static str, to: usize) -> Relation {
    Relation { name, from, to }
}

/// All relations: those of the files, and each but citations backwards.
pub const RELATIONS: [Relation; 11] = [
    relation(0, "cites", 0),
    relation(0, "written_by", 1),
    relation(1, "affiliated_to", 2),
    relation(0, "topic", 3),
    relation(0, "published", 4),
    relation(0, "venue", 5),
    relation(1, "rev_written_by", 0),
    relation(2, "rev_affiliated_to", 1),
    relation(3, "rev_topic", 0),
    relation(4, "rev_published", 0),
    relation(5, "rev_venue", 0),
];
/// Those that have files. The first is citations; those backwards stand in the order of the
/// others.
const FILES: usize = 6;

impl fmt::Display for Relation {
    /// As folders are called.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}__{}__{}", KINDS[self.from], self.name, KINDS[self.to])
    }
}

/// The graph.
#[derive(Debug)]
pub(crate) struct Igbh {
    /// In the order of [`RELATIONS`].
    pub incoming: Vec<Incoming>,
    /// In the order of [`KINDS`].
    pub features: Vec<Rows>,
}

/// Why a file is not one of the data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgbhError {
    /// The file.
    pub path: PathBuf,
    /// What there should be.
    pub expected: String,
    /// What there is.
    pub found: String,
}

impl fmt::Display for IgbhError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, found } = self;
        write!(f, "{}: expected {expected}, found {found}", path.display())
    }
}

impl std::error::Error for IgbhError {}

impl IgbhError {
    fn new(path: &Path, expected: impl Into<String>, found: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), expected: expected.into(), found: found.to_string() }
    }

    fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::new(path, "a file that can be read", error)
    }
}

impl Igbh {
    /// Opens the files of features, and turns the edges of all relations.
    ///
    /// # Errors
    /// The first file that is missing, malformed, or names a node that has no features.
    pub(crate) fn open(folder: &Path) -> Result<Self, IgbhError> {
        let open = |kind: &&str| features(folder, kind);
        let features: Vec<Rows> = KINDS.iter().map(open).collect::<Result<_, _>>()?;
        if let Some(other) = features.iter().find(|rows| rows.width != features[0].width) {
            let expected = format!("{} features a node, as papers have", features[0].width);
            return Err(IgbhError::new(&other.path, expected, other.width));
        }
        let counts: Vec<usize> = features.iter().map(|rows| rows.count).collect();
        let turned = std::thread::scope(|scope| {
            let turn = |relation: &'static Relation| {
                let (path, counts) = (path(folder, relation), &counts);
                scope.spawn(move || edges::turned(&path, relation, counts))
            };
            let threads: Vec<_> = RELATIONS[..FILES].iter().map(turn).collect();
            let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().expect("whoever reads edges does not panic")
            };
            threads.into_iter().map(joined).collect::<Result<Vec<_>, _>>()
        })?;
        let (there, back): (Vec<_>, Vec<_>) = turned.into_iter().unzip();
        let incoming = there.into_iter().chain(back.into_iter().flatten()).collect();
        Ok(Self { incoming, features })
    }
}

fn path(folder: &Path, relation: &Relation) -> PathBuf {
    folder.join(relation.to_string()).join("edge_index.npy")
}

fn features(folder: &Path, kind: &str) -> Result<Rows, IgbhError> {
    Rows::open(&folder.join(kind).join("node_feat.npy"))
}

/// A sample a paper of the file `nodes`, which judges as well: where PyTorch wrote it, as an
/// array.
pub(crate) fn open(files: &Files<'_>) -> Result<Read, OpenError> {
    let path = files.path("nodes")?;
    let papers = papers(&path).map_err(OpenError::content)?;
    let count = features(&files.path("graph")?, KINDS[PAPER]).map_err(OpenError::content)?.count;
    let is_there = |paper: &i64| usize::try_from(*paper).is_ok_and(|paper| paper < count);
    if let Some(other) = papers.iter().find(|paper| !is_there(paper)) {
        let expected = format!("papers from 0 to {}", count.saturating_sub(1));
        return Err(OpenError::content(IgbhError::new(&path, expected, other)));
    }
    let made = files.made("nodes.npy", 1, Of::Files(&["nodes"]), |file| {
        npy::write(file, &[papers.len()], &papers).map_err(OpenError::content)
    })?;
    let name = files.card().data.inputs[0].name.clone();
    let elements = Elements::I64(Cow::Owned(papers));
    let tensor = Tensor { name, sample_shape: vec![1], elements };
    let samples = TensorLibrary::new("igbh", vec![tensor], None).map_err(OpenError::content)?;
    let references = BTreeMap::from([("nodes".to_owned(), made)]);
    Ok(Read { references, ..Read::of(samples) })
}

/// Numbers of papers, of `numpy.save` or `torch.save`.
fn papers(path: &Path) -> Result<Vec<i64>, IgbhError> {
    let refused = |found: String| {
        let expected = "papers as one dimension of int64, of numpy.save or torch.save";
        IgbhError::new(path, expected, found)
    };
    let bytes = std::fs::read(path).map_err(IgbhError::unreadable(path))?;
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
