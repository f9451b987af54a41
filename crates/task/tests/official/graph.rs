//! R-GAT on IGBH: a folder in the format of the data set, and the benchmark's network with smaller
//! sizes, compared with a plain computation over the whole graph.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Write as _};
use std::path::Path;

use dyno_onnx::{Builder, Dim, Element, Model, Tensor, Weights};
use dyno_task::graphs::rgat::{Extent, Rgat};
use dyno_task::subgraph::{KINDS, RELATIONS};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::made::{self, Folder, answered};

const FILES: [(&str, &str); 4] = [
    ("model", "model.onnx"),
    ("graph", "images"),
    ("labels", "labels.npy"),
    ("nodes", "val_idx.pt"),
];
const SIZES: Rgat = Rgat { features: 6, hidden: 8, heads: 2, classes: 5 };
/// Nodes of each kind, none of which has more than five edges of a relation.
const COUNTS: [usize; 6] = [16, 12, 5, 8, 6, 6];
/// Papers that are samples; one occurs twice.
const SAMPLES: [usize; 6] = [3, 11, 0, 15, 3, 6];

/// Pseudorandom numbers between -1 and 1.
fn number(salt: usize, at: usize) -> f64 {
    let mixed = (salt * 1009 + at * 31 + 17).wrapping_mul(2_654_435_761) % 65_536;
    (mixed as f64 / 32_768.0 - 1.0) * 0.9
}

fn features(kind: usize) -> Vec<Vec<f64>> {
    // Rounded to float32.
    let one = |at: usize| f64::from(number(kind + 1, at) as f32);
    (0..COUNTS[kind]).map(|node| (0..6).map(|n| one(node * 6 + n)).collect()).collect()
}

/// The edges of a file. Citations have a loop, and a pair both ways.
fn edges(at: usize) -> Vec<[usize; 2]> {
    match at {
        0 => vec![[0, 3], [3, 11], [11, 3], [5, 5], [6, 15], [2, 6], [9, 2], [12, 9], [1, 0]],
        1 => vec![[3, 0], [3, 1], [11, 1], [0, 2], [6, 5], [9, 5], [15, 11], [1, 2], [4, 1]],
        2 => vec![[0, 0], [1, 2], [2, 2], [5, 4], [11, 1], [1, 3]],
        3 => vec![[3, 0], [11, 0], [2, 1], [9, 1], [15, 7], [7, 7], [12, 7]],
        4 => vec![[3, 5], [8, 5], [6, 1]],
        // No paper of a sample has a conference near.
        _ => vec![[13, 2]],
    }
}

/// All edges of a relation.
fn all(at: usize) -> Vec<[usize; 2]> {
    match at {
        0 => {
            let there = edges(0).into_iter().filter(|[a, b]| a != b);
            let both = there.flat_map(|[a, b]| [[a, b], [b, a]]);
            both.chain((0..COUNTS[0]).map(|paper| [paper, paper])).collect()
        }
        1..6 => edges(at),
        _ => edges(at - 5).iter().map(|[a, b]| [*b, *a]).collect(),
    }
}

/// Weights by the names of the reference.
fn weights() -> BTreeMap<String, Tensor> {
    let model = SIZES.build(Weights::seeded(1), Extent::Any).unwrap();
    let learned = model.tensors.iter().filter(|tensor| tensor.name.starts_with("model."));
    let of = |(salt, tensor): (usize, &Tensor)| {
        let count = tensor.elements() as usize;
        let values: Vec<f32> = (0..count).map(|at| number(salt + 50, at) as f32).collect();
        (tensor.name.clone(), Tensor::from_f32(&tensor.name, &tensor.shape, &values))
    };
    learned.enumerate().map(of).collect()
}

/// Returns the scores of all papers, by the formulas of the layers over all nodes and edges.
fn scores() -> Vec<Vec<f64>> {
    let weights = weights();
    let of = |name: &str| -> Vec<f64> {
        weights[name].floats().unwrap().into_iter().map(f64::from).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let project =
        |x: &[f64], w: &[f64]| -> Vec<f64> { w.chunks(x.len()).map(|row| dot(row, x)).collect() };
    let leaky = |x: f64, slope: f64| if x < 0.0 { slope * x } else { x };
    let mut nodes: Vec<Vec<Vec<f64>>> = (0..6).map(features).collect();
    for layer in 0..3 {
        let mut next: Vec<Vec<Vec<f64>>> =
            COUNTS.iter().map(|count| vec![vec![0.0; 8]; *count]).collect();
        for (at, relation) in RELATIONS.iter().enumerate() {
            let name = |part: &str| format!("model.layers.{layer}.mods.{}.{part}", relation.name);
            // Parts that affect no answer have no weights.
            if !weights.contains_key(&name("bias")) {
                continue;
            }
            let (fc, left, right) =
                (of(&name("fc.weight")), of(&name("attn_l")), of(&name("attn_r")));
            let bias = of(&name("bias"));
            for (target, sum) in next[relation.to].iter_mut().enumerate() {
                let asking = project(&nodes[relation.to][target], &fc);
                let to_it = all(at).into_iter().filter(|[_, to]| *to == target);
                let said: Vec<Vec<f64>> =
                    to_it.map(|[from, _]| project(&nodes[relation.from][from], &fc)).collect();
                for head in 0..2 {
                    let part = head * 4..head * 4 + 4;
                    let score = |said: &Vec<f64>| {
                        let of_source = dot(&said[part.clone()], &left[part.clone()]);
                        leaky(of_source + dot(&asking[part.clone()], &right[part.clone()]), 0.2)
                    };
                    let powers: Vec<f64> = said.iter().map(|said| score(said).exp()).collect();
                    let whole: f64 = powers.iter().sum();
                    for n in part.clone() {
                        let mean = said.iter().zip(&powers).map(|(said, power)| said[n] * power);
                        sum[n] += bias[n] + mean.sum::<f64>() / whole.max(f64::MIN_POSITIVE);
                    }
                }
            }
        }
        if layer < 2 {
            let numbers = next.iter_mut().flatten().flatten();
            numbers.for_each(|number| *number = leaky(*number, 0.01));
        }
        nodes = next;
    }
    let (weights, bias) = (of("model.linear.weight"), of("model.linear.bias"));
    let of_paper = |x: &Vec<f64>| -> Vec<f64> {
        project(x, &weights).iter().zip(&bias).map(|(score, bias)| score + bias).collect()
    };
    nodes[0].iter().map(of_paper).collect()
}

fn greatest(scores: &[f64]) -> usize {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
}

fn array(path: &Path, element: &str, shape: &str, body: &[u8]) {
    let head = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (head.len() as u16).to_le_bytes();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, [b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), body].concat()).unwrap();
}

/// `torch.save` of papers 2 to 7 of a tensor of eight, sliced as in `split_seeds.py`.
fn torch(papers: &[usize]) -> Vec<u8> {
    let pickle = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nLongStorage\n\
        X\x01\0\0\x000X\x03\0\0\0cpuK\x08tQK\x02K\x06\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR.";
    let numbers: Vec<u8> =
        [99, 98].iter().chain(papers).flat_map(|n| (*n as i64).to_le_bytes()).collect();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in [("data.pkl", &pickle[..]), ("byteorder", b"little"), ("data/0", &numbers)]
    {
        zip.start_file(format!("val_idx/{name}"), stored).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Labels that are right for all samples except paper 15.
fn made_folder() -> Folder {
    let folder = Folder::new();
    for (kind, name) in KINDS.iter().enumerate() {
        let path = folder.path(&format!("images/{name}/node_feat.npy"));
        let all = features(kind).into_iter().flatten();
        let body: Vec<u8> = all.flat_map(|number| (number as f32).to_le_bytes()).collect();
        array(&path, "<f4", &format!("({}, 6)", COUNTS[kind]), &body);
    }
    for (at, relation) in RELATIONS[..6].iter().enumerate() {
        let ends = edges(at);
        let body: Vec<u8> =
            ends.as_flattened().iter().flat_map(|end| (*end as i64).to_le_bytes()).collect();
        let path = folder.path(&format!("images/{relation}/edge_index.npy"));
        array(&path, "<i8", &format!("({}, 2)", ends.len()), &body);
    }
    let label = |(paper, scores): (usize, Vec<f64>)| {
        let label = greatest(&scores) + usize::from(paper == 15);
        label as f32
    };
    let labels = scores().into_iter().enumerate().map(label).flat_map(f32::to_le_bytes);
    // Without a header, as in the full graph.
    folder.write("labels.npy", labels.collect::<Vec<u8>>());
    folder.write("val_idx.pt", torch(&SAMPLES));
    folder.model(&SIZES.build(Weights::from_tensors(weights()), Extent::Any).unwrap());
    folder
}

#[test]
fn papers_are_classified_as_by_a_plain_computation_over_the_whole_graph() {
    let folder = made_folder();
    let ready = folder.open(&made::card("rgat"), &FILES).unwrap();
    assert!(ready.remarks[0].starts_with("6 of the 788379 samples of IGBH"), "{:?}", ready.remarks);
    let scores = scores();
    // Scores differ enough that float32 cannot change their order.
    for scores in &scores {
        let mut sorted = scores.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        assert!(sorted[4] - sorted[3] > 1e-4, "{scores:?}");
    }
    let expected: BTreeMap<u64, Vec<u8>> = SAMPLES
        .iter()
        .enumerate()
        .map(|(n, paper)| (n as u64, (greatest(&scores[*paper]) as i32).to_le_bytes().to_vec()))
        .collect();
    let distinct: std::collections::BTreeSet<_> = expected.values().collect();
    assert!(distinct.len() > 1, "all papers are of one class: {expected:?}");
    let Some(told) = answered(ready) else { return };
    assert_eq!((told.failed.len(), told.trouble), (0, None));
    assert_eq!(told.answers, expected);
    assert!((told.figure - 5.0 / 6.0).abs() < 1e-12, "{}", told.figure);
}

/// A model that outputs the sum of some inputs' elements as the class of each paper.
fn sums(inputs: &[(&str, Element, &[Dim])]) -> Model {
    let mut net = Builder::new("sums", Weights::seeded(1));
    let mut sum = None;
    for (name, element, shape) in inputs {
        let x = net.input(name, *element, shape);
        let x = net.node("Cast", &[&x], &[("to", Element::I64.into())]).unwrap();
        let x = net.node("ReduceSum", &[&x], &[("keepdims", 0.into())]).unwrap();
        sum = Some(match sum {
            None => x,
            Some(sum) => net.node("Add", &[&sum, &x], &[]).unwrap(),
        });
    }
    let one = net.integers(&[1]);
    let sum = net.node("Reshape", &[&sum.unwrap(), &one], &[]).unwrap();
    net.output("class", &sum).unwrap();
    net.finish()
}

#[test]
fn a_model_takes_those_inputs_that_it_needs_with_features_of_either_type() {
    let folder = made_folder();
    let open = || Dim::symbol("n");
    folder.model(&sums(&[
        ("fos", Element::F16, &[open(), 6.into()]),
        ("paper__cites__paper.1", Element::I64, &[2.into(), open()]),
    ]));
    // One sample per call, so that the sum is that of its paper.
    folder.write("val_idx.pt", torch(&[13; 6]));
    let ready = folder.open(&made::card("rgat"), &FILES).unwrap();
    let Some(told) = answered(ready) else { return };
    // Only paper 13 cites itself, and it has no field: an edge from place 0 to place 0.
    assert_eq!(told.answers[&0], 0_i32.to_le_bytes());
}

#[test]
fn errors_in_the_model_or_the_papers_are_reported_before_the_run() {
    let folder = made_folder();
    let card = made::card("rgat");
    folder.write("val_idx.pt", torch(&[0, 1, 2, 16, 3, 4]));
    assert_eq!(folder.refusal(&card, &FILES), "val_idx.pt: expected papers from 0 to 15, found 16");
    folder.write("val_idx.pt", b"PK");
    assert!(
        folder.refusal(&card, &FILES).starts_with("val_idx.pt: expected papers as one dimension")
    );
    folder.write("val_idx.pt", torch(&SAMPLES));
    fs::remove_dir_all(folder.path("images/paper__venue__conference")).unwrap();
    let found = folder.refusal(&card, &FILES).replace('\\', "/");
    let path = "images/paper__venue__conference/edge_index.npy: expected a file";
    assert!(found.starts_with(path), "{found}");
    let open = || Dim::symbol("n");
    folder.model(&sums(&[("papers", Element::F32, &[open(), 6.into()])]));
    let found = folder.refusal(&card, &FILES);
    assert!(found.starts_with("model.onnx: expected inputs called after the kinds"), "{found}");
    assert!(found.contains("found papers float32 [?, 6]"), "{found}");
    let cases: [(&str, Element, &[Dim], &str); 2] = [
        (
            "paper",
            Element::F32,
            &[open(), 7.into()],
            "input 'paper': expected float32 [?, 6], found float32 [?, 7]",
        ),
        (
            "paper__cites__paper.1",
            Element::I64,
            &[open(), 2.into()],
            "input 'paper__cites__paper.1': expected int64 [2, ?], found int64 [?, 2]",
        ),
    ];
    for (name, element, shape, expected) in cases {
        let folder = made_folder();
        folder.model(&sums(&[(name, element, shape)]));
        let Some(found) = made::unfit(folder.open(&card, &FILES).unwrap()) else { return };
        assert!(found.contains(expected), "{found}");
    }
}
