//! Kinds of nodes and relations of IGBH, the heterogeneous graph of the Illinois Graph
//! Benchmark, and subgraphs that are sampled around its papers.

mod sampling;

use std::fmt;

pub use sampling::{AdjacencyBuilder, EdgeCounter, IncomingEdges, Subgraph, SubgraphEdges, draw};

/// Hops of a sampled subgraph, starting at the requested papers.
pub const HOPS: usize = 3;

/// Kinds of nodes.
///
/// ```
/// use dyno_task::subgraph::{KINDS, PAPER, RELATIONS};
///
/// assert_eq!(KINDS[PAPER], "paper");
/// assert_eq!(RELATIONS[0].to_string(), "paper__cites__paper");
/// ```
pub const KINDS: [&str; 6] = ["paper", "author", "institute", "fos", "journal", "conference"];
/// Index of the kind of samples in [`KINDS`].
pub const PAPER: usize = 0;

/// A relation: edges of one meaning between two kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation {
    /// Name in the reference's model.
    pub name: &'static str,
    /// Index in [`KINDS`] of the kind that edges come from.
    pub from: usize,
    /// Index in [`KINDS`] of the kind that edges go to.
    pub to: usize,
}

const fn relation(from: usize, name: &'static str, to: usize) -> Relation {
    Relation { name, from, to }
}

/// All relations: those of the files, and the reverse of each except citations.
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
impl fmt::Display for Relation {
    /// Formats the relation as the data set names folders.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}__{}__{}", KINDS[self.from], self.name, KINDS[self.to])
    }
}
