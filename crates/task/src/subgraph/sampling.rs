//! Sampling of neighbors around papers of IGBH, hop by hop, to a subgraph.
//!
//! Source: `PyGSampler` of the reference's `dgl_utilities/pyg_sampler.py`. A hop starts from the
//! nodes that the previous hop discovered. At each of them, up to a fan-out of edges of each
//! incoming relation is drawn without replacement. Each node is expanded once, in the hop after the
//! one that discovered it.
//!
//! The reference draws from one stream of random numbers, so that a draw depends on all previous
//! ones. Here the edges that are drawn at a node depend only on a seed, the relation, the node and
//! the fan-out: they are the same in every run, on every thread, and in every batch.

use std::collections::HashMap;

use dyno_loadgen::rng::{mix, split_mix};

use super::{HOPS, KINDS, PAPER, RELATIONS};

/// Adjacency of a relation: the sources of the edges that lead to each node.
#[derive(Debug, PartialEq, Eq)]
pub struct IncomingEdges {
    /// Start of each node's sources, and the end of the last.
    starts: Vec<u64>,
    sources: Vec<u32>,
}

/// First pass over edges: counts the edges that lead to each node.
#[derive(Debug)]
pub struct EdgeCounter(Vec<u64>);

/// Second pass over edges: stores the source of each edge that was counted.
#[derive(Debug)]
pub struct AdjacencyBuilder(IncomingEdges);

impl EdgeCounter {
    /// Creates counters for `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self(vec![0; nodes])
    }

    /// Counts an edge to `target`.
    pub fn count(&mut self, target: u32) {
        self.0[target as usize] += 1;
    }

    /// Returns the builder of the second pass, with room for each counted edge.
    pub fn builder(self) -> AdjacencyBuilder {
        let mut starts = self.0;
        let mut end = 0;
        for start in &mut starts {
            end += std::mem::replace(start, end);
        }
        let sources = vec![0; usize::try_from(end).expect("edges fit in memory")];
        AdjacencyBuilder(IncomingEdges { starts, sources })
    }
}

impl AdjacencyBuilder {
    /// Adds an edge. The start of its target's sources advances, finally to their end.
    pub fn add(&mut self, source: u32, target: u32) {
        let IncomingEdges { starts, sources } = &mut self.0;
        let start = &mut starts[target as usize];
        sources[*start as usize] = source;
        *start += 1;
    }

    /// Returns the adjacency; the sources of a node are in the order in which they were added.
    pub fn build(self) -> IncomingEdges {
        let IncomingEdges { mut starts, sources } = self.0;
        // The sources of a node begin where those of the node before end.
        starts.insert(0, 0);
        IncomingEdges { starts, sources }
    }
}

impl IncomingEdges {
    /// Returns the sources of the edges that lead to a node.
    pub fn sources_of(&self, node: u32) -> &[u32] {
        let [start, end] = [0, 1].map(|more| self.starts[node as usize + more] as usize);
        &self.sources[start..end]
    }
}

/// A subgraph that was sampled around some papers.
#[derive(Debug, PartialEq, Eq)]
pub struct Subgraph {
    /// Nodes of each kind, in the order of their discovery; the requested papers come first.
    pub nodes: [Vec<u32>; KINDS.len()],
    /// Number of nodes of each kind before the first hop and after each hop.
    pub reached: [[usize; HOPS + 1]; KINDS.len()],
    /// Edges of each relation and hop.
    pub edges: [[SubgraphEdges; HOPS]; RELATIONS.len()],
}

/// SubgraphEdges as places in [`Subgraph::nodes`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SubgraphEdges {
    /// Source of each edge.
    pub sources: Vec<i64>,
    /// Target of each edge.
    pub targets: Vec<i64>,
}

/// Samples a subgraph around distinct papers; `incoming` has the adjacency of each relation.
pub fn draw(
    incoming: &[IncomingEdges],
    papers: &[u32],
    fan_outs: [usize; HOPS],
    seed: u64,
) -> Subgraph {
    let mut nodes: [Vec<u32>; KINDS.len()] = Default::default();
    nodes[PAPER] = papers.to_vec();
    let mut places: [HashMap<u32, usize>; KINDS.len()] = Default::default();
    places[PAPER] = papers.iter().copied().zip(0..).collect();
    let mut reached = [[0; HOPS + 1]; KINDS.len()];
    let mut edges: [[SubgraphEdges; HOPS]; RELATIONS.len()] = Default::default();
    let mut before = [0; KINDS.len()];
    let mut drawn = Vec::new();
    for (hop, fan_out) in fan_outs.into_iter().enumerate() {
        let now = nodes.each_ref().map(Vec::len);
        (0..KINDS.len()).for_each(|kind| reached[kind][hop] = now[kind]);
        for (at, relation) in RELATIONS.iter().enumerate() {
            let SubgraphEdges { sources, targets } = &mut edges[at][hop];
            for target in before[relation.to]..now[relation.to] {
                let node = nodes[relation.to][target];
                let neighbours = incoming[at].sources_of(node);
                pick(neighbours.len(), fan_out, random_of(seed, at, node), &mut drawn);
                for &one in &drawn {
                    let source = neighbours[one];
                    let place = places[relation.from].entry(source).or_insert_with(|| {
                        nodes[relation.from].push(source);
                        nodes[relation.from].len() - 1
                    });
                    sources.push(*place as i64);
                    targets.push(target as i64);
                }
            }
        }
        before = now;
    }
    (0..KINDS.len()).for_each(|kind| reached[kind][HOPS] = nodes[kind].len());
    Subgraph { nodes, reached, edges }
}

/// Returns the random numbers of a node in a relation.
fn random_of(seed: u64, relation: usize, node: u32) -> SplitMix64 {
    SplitMix64(mix(mix(seed ^ relation as u64) ^ u64::from(node)))
}

/// `SplitMix64` (Steele, Lea and Flood 2014), which has a state of only eight bytes: there is one
/// generator per relation and expanded node.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, n: u64) -> u64 {
        // The upper half of the product; its bias is below n in 2^64.
        ((u128::from(split_mix(&mut self.0)) * u128::from(n)) >> 64) as u64
    }
}

/// Picks `most` of `count` without replacement, in rising order and uniformly (Floyd's algorithm);
/// picks all if there are no more.
fn pick(count: usize, most: usize, mut random: SplitMix64, picked: &mut Vec<usize>) {
    picked.clear();
    if count <= most {
        picked.extend(0..count);
        return;
    }
    for last in count - most..count {
        let one = random.below(last as u64 + 1) as usize;
        picked.push(if picked.contains(&one) { last } else { one });
    }
    picked.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjacency(nodes: usize, edges: &[[u32; 2]]) -> IncomingEdges {
        let mut counter = EdgeCounter::new(nodes);
        edges.iter().for_each(|[_, target]| counter.count(*target));
        let mut builder = counter.builder();
        edges.iter().for_each(|[source, target]| builder.add(*source, *target));
        builder.build()
    }

    #[test]
    fn edges_become_the_sources_of_each_node() {
        let found = adjacency(4, &[[5, 1], [2, 3], [9, 1], [5, 1]]);
        let all = [0, 1, 2, 3].map(|node| found.sources_of(node));
        assert_eq!(all, [&[][..], &[5, 9, 5], &[], &[2]]);
    }

    #[test]
    fn each_set_of_neighbors_is_picked_equally_often() {
        // 60,000 draws of 2 of 6: each of the 15 pairs is expected 4,000 times, with a deviation of
        // 61.
        let mut found: HashMap<Vec<usize>, u32> = HashMap::new();
        let mut picked = Vec::new();
        for node in 0..60_000 {
            pick(6, 2, random_of(7, 3, node), &mut picked);
            *found.entry(picked.clone()).or_default() += 1;
        }
        assert_eq!(found.len(), 15);
        assert!(found.keys().all(|pair| pair[0] < pair[1] && pair[1] < 6), "{found:?}");
        assert!(found.values().all(|count| count.abs_diff(4000) < 300), "{found:?}");
    }

    /// Papers in a row, each cited by its neighbors and by itself, and by 40 of one author.
    fn row() -> Vec<IncomingEdges> {
        let count = 40;
        let mut cites: Vec<[u32; 2]> = (0..count).map(|paper| [paper, paper]).collect();
        cites.extend((1..count).flat_map(|paper| [[paper - 1, paper], [paper, paper - 1]]));
        let all: Vec<[u32; 2]> = (0..count).map(|paper| [paper, 0]).collect();
        let back: Vec<[u32; 2]> = all.iter().map(|[paper, author]| [*author, *paper]).collect();
        let adjacency_of = |(at, relation): (usize, &crate::subgraph::Relation)| match at {
            0 => adjacency(count as usize, &cites),
            1 => adjacency(1, &all),
            6 => adjacency(count as usize, &back),
            _ => adjacency([count as usize, 1, 0, 0, 0, 0][relation.to], &[]),
        };
        RELATIONS.iter().enumerate().map(adjacency_of).collect()
    }

    #[test]
    fn hops_expand_the_nodes_that_the_previous_hop_discovered() {
        let found = draw(&row(), &[20], [15, 10, 5], 1);
        assert_eq!(found.nodes[PAPER][..3], [20, 19, 21]);
        // The loop at paper 20 finds nothing new; the author finds ten of 40 in the second hop.
        assert_eq!(found.reached[PAPER][..2], [1, 3]);
        assert_eq!(found.reached[1], [0, 1, 1, 1]);
        let [first, second, third] = &found.edges[0];
        assert_eq!((&first.sources[..], &first.targets[..]), (&[0, 1, 2][..], &[0; 3][..]));
        assert_eq!(second.targets, [1, 1, 1, 2, 2, 2]);
        assert_eq!(found.edges[1].each_ref().map(|edges| edges.targets.len()), [0, 10, 0]);
        // Papers of the third hop are not expanded; each of the second hop is expanded once.
        let [_, from, to, all] = found.reached[PAPER];
        assert!(third.targets.iter().all(|target| (from..to).contains(&(*target as usize))));
        assert!(all <= 40 && found.nodes[PAPER].len() == all);
        let mut distinct = found.nodes[PAPER].clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all);
    }

    #[test]
    fn equal_seeds_draw_equal_subgraphs_and_others_do_not() {
        let sample = |seed| draw(&row(), &[3, 30], [15, 10, 5], seed);
        assert_eq!(sample(1), sample(1));
        assert_ne!(sample(1), sample(2));
    }

    #[test]
    fn sampled_edges_of_a_node_are_the_same_in_every_batch() {
        let graph = row();
        // Papers of the author, who is expanded in the second hop of both.
        let sources_of = |papers: &[u32]| -> Vec<u32> {
            let found = draw(&graph, papers, [15, 10, 5], 5);
            let sources = &found.edges[1][1].sources;
            sources.iter().map(|source| found.nodes[PAPER][*source as usize]).collect()
        };
        assert_eq!(sources_of(&[3]), sources_of(&[30, 7]));
    }
}
