//! Tests on a small graph in the format of the data set; subgraphs are compared with a plain
//! search.

use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::subgraph::{HOPS, draw};

/// Nodes of each kind.
const COUNTS: [usize; 6] = [30, 12, 4, 6, 3, 3];
/// Features of a node.
const WIDTH: usize = 4;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn array(path: &Path, element: &str, shape: &str, body: &[u8]) {
    let head = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (head.len() as u16).to_le_bytes();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, [b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), body].concat()).unwrap();
}

/// Edges of a file: some twice, some from a node to itself.
fn edges(relation: &Relation) -> Vec<[i64; 2]> {
    let from = COUNTS[relation.from] as i64;
    let to = COUNTS[relation.to] as i64;
    let salt = relation.name.len() as i64;
    let edge = |n: i64| [(17 * n + salt) % from, (5 * n + n / 7) % to];
    (0..60).map(|n| edge(n % 50)).collect()
}

fn folder(name: &str) -> Folder {
    let root = std::env::temp_dir().join(format!("dyno-igbh-{name}-{}", std::process::id()));
    for (kind, count) in KINDS.iter().zip(COUNTS) {
        let body: Vec<u8> = (0..count * WIDTH).flat_map(|n| (n as f32).to_le_bytes()).collect();
        array(&root.join(kind).join("node_feat.npy"), "<f4", &format!("({count}, {WIDTH})"), &body);
    }
    for relation in &RELATIONS[..FILES] {
        let edges = edges(relation);
        let body: Vec<u8> = edges.iter().flatten().flat_map(|end| end.to_le_bytes()).collect();
        array(&path(&root, relation), "<i8", &format!("({}, 2)", edges.len()), &body);
    }
    Folder(root)
}

/// All edges of a relation, as the reference derives them from the files.
fn all(at: usize) -> Vec<[u32; 2]> {
    let plain = |relation: &Relation| -> Vec<[u32; 2]> {
        edges(relation).iter().map(|edge| edge.map(|end| end as u32)).collect()
    };
    match at {
        0 => {
            let there = plain(&RELATIONS[0]).into_iter().filter(|[a, b]| a != b);
            let both = there.flat_map(|[a, b]| [[a, b], [b, a]]);
            both.chain((0..COUNTS[0] as u32).map(|paper| [paper, paper])).collect()
        }
        1..FILES => plain(&RELATIONS[at]),
        _ => plain(&RELATIONS[at + 1 - FILES]).iter().map(|[a, b]| [*b, *a]).collect(),
    }
}

#[test]
fn a_subgraph_of_all_neighbors_equals_that_of_a_plain_search() {
    let folder = folder("search");
    let graph = Igbh::open(&folder.0).unwrap();
    let papers = [4, 17, 9];
    let drawn = draw(&graph.incoming, &papers, [1000; HOPS], 1);
    let mut known: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); KINDS.len()];
    known[PAPER].extend(papers);
    let mut asked = known.clone();
    for hop in 0..HOPS {
        let counts: Vec<usize> = known.iter().map(BTreeSet::len).collect();
        assert_eq!(drawn.reached.map(|hops| hops[hop])[..], counts[..], "hop {hop}");
        let mut next = known.clone();
        for (at, relation) in RELATIONS.iter().enumerate() {
            let leads = |[_, target]: &[u32; 2]| asked[relation.to].contains(target);
            let mut expected: Vec<[u32; 2]> = all(at).into_iter().filter(leads).collect();
            next[relation.from].extend(expected.iter().map(|[source, _]| *source));
            let edges = &drawn.edges[at][hop];
            let node = |kind: usize, place: i64| drawn.nodes[kind][place as usize];
            let ends = edges.sources.iter().zip(&edges.targets);
            let ends = ends.map(|(a, b)| [node(relation.from, *a), node(relation.to, *b)]);
            let mut found: Vec<[u32; 2]> = ends.collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{relation} in hop {hop}");
        }
        asked = next.iter().zip(&known).map(|(next, known)| next - known).collect();
        known = next;
    }
    assert_eq!(drawn.nodes[PAPER][..3], papers);
    for (found, expected) in drawn.nodes.iter().zip(&known) {
        assert_eq!((found.len(), &found.iter().copied().collect()), (expected.len(), expected));
    }
    // The test is meaningful: hops find new nodes, and institutes are among them.
    assert!(drawn.reached[PAPER].windows(2).any(|pair| pair[0] < pair[1]));
    assert!(!drawn.nodes[2].is_empty());
}

#[test]
fn sampled_neighbors_are_a_subset_of_all() {
    let folder = folder("fewer");
    let graph = Igbh::open(&folder.0).unwrap();
    let drawn = draw(&graph.incoming, &[4, 17, 9], [3, 2, 1], 1);
    for (at, relation) in RELATIONS.iter().enumerate() {
        let mut left = all(at);
        for (hop, fan_out) in [3, 2, 1].into_iter().enumerate() {
            let edges = &drawn.edges[at][hop];
            let mut of_target = vec![0; drawn.nodes[relation.to].len()];
            for (source, target) in edges.sources.iter().zip(&edges.targets) {
                of_target[*target as usize] += 1;
                let node = |kind: usize, place: i64| drawn.nodes[kind][place as usize];
                let edge = [node(relation.from, *source), node(relation.to, *target)];
                // Without replacement: an edge that is there twice may be drawn twice.
                let place = left.iter().position(|one| *one == edge);
                left.swap_remove(place.unwrap_or_else(|| panic!("{relation} {edge:?}")));
            }
            assert!(of_target.iter().all(|count| *count <= fan_out), "{relation}");
        }
    }
}

#[test]
fn rows_of_features_are_read_where_they_lie_with_and_without_a_header() {
    let folder = folder("rows");
    let graph = Igbh::open(&folder.0).unwrap();
    let row = |rows: &FeatureRows, at: u32| -> Vec<f32> {
        let mut bytes = vec![0; rows.row_bytes()];
        rows.read(at, &mut bytes).unwrap();
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    assert_eq!(row(&graph.features[3], 5), [20.0, 21.0, 22.0, 23.0]);
    // Raw float32, as papers and authors in the two largest sizes.
    let raw = folder.0.join("raw/node_feat.npy");
    fs::create_dir_all(raw.parent().unwrap()).unwrap();
    let body: Vec<u8> = (0..3 * 1024).flat_map(|n| (n as f32).to_le_bytes()).collect();
    fs::write(&raw, body).unwrap();
    let rows = FeatureRows::open(&raw).unwrap();
    assert_eq!((rows.count, rows.width), (3, 1024));
    assert_eq!(row(&rows, 2)[..2], [2048.0, 2049.0]);
}

#[test]
fn malformed_graphs_are_rejected_with_their_file() {
    let told = |path: &str, expected: &str, found: &str| {
        (path.to_owned(), expected.to_owned(), found.to_owned())
    };
    let refusal = |folder: &Folder| {
        let error = Igbh::open(&folder.0).map(drop).unwrap_err().to_string();
        let within = &error.strip_prefix(&folder.0.display().to_string()).unwrap()[1..];
        let (path, problem) = within.split_once(": expected ").unwrap();
        let (expected, found) = problem.split_once(", found ").unwrap();
        told(&path.replace('\\', "/"), expected, found)
    };
    let folder = folder("wrong");
    let topic = path(&folder.0, &RELATIONS[3]);
    let edge = [3_i64, 6].map(i64::to_le_bytes);
    array(&topic, "<i8", "(1, 2)", edge.as_flattened());
    let name = "paper__topic__fos/edge_index.npy";
    let expected = "6 nodes of the kind fos";
    assert_eq!(refusal(&folder), told(name, expected, "node 6 in row 0"));
    array(&topic, "<f4", "(1, 2)", &[0; 8]);
    let expected = "rows of int64 or int32 with the two ends of an edge";
    assert_eq!(refusal(&folder), told(name, expected, "float32 [1, 2]"));
    array(&topic, "<i8", "(2, 2)", &[0; 16]);
    assert_eq!((refusal(&folder).0, refusal(&folder).1.ends_with(" bytes")), (name.into(), true));
    array(&folder.0.join("fos/node_feat.npy"), "<f4", "(6, 3)", &[0; 72]);
    let expected = "4 features a node, as papers have";
    assert_eq!(refusal(&folder), told("fos/node_feat.npy", expected, "3"));
    fs::remove_file(folder.0.join("journal/node_feat.npy")).unwrap();
    assert_eq!(refusal(&folder).0, "journal/node_feat.npy");
}
