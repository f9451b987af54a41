//! DLRM and DLRMv2.

use std::io::{Cursor, Write};

use dyno_onnx::{Builder, Dim, Element, Model, Weights};
use dyno_sut::tensors::Elements;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::made::{self, Folder, answered, floats};

/// The files of DLRM.
const BINARY: [(&str, &str); 4] =
    [("model", "model.onnx"), ("pairs", "pairs.bin"), ("day_23", "day_23"), ("trace", "trace.txt")];
/// The files of DLRMv2.
const ARRAYS: [(&str, &str); 5] = [
    ("model", "model.onnx"),
    ("dense", "dense.npy"),
    ("sparse", "sparse.npz"),
    ("day_23", "day_23"),
    ("trace", "trace.txt"),
];
/// Numerical feature of each pair, and whether it was clicked. Of the four combinations of a click
/// and a skipped pair, three are ordered correctly: the area is 0.75.
const PAIRS: [(i32, u8); 4] = [(1, 0), (4, 0), (3, 1), (8, 1)];
const AREA: f64 = 75.0;

/// A model that predicts the mean of the numerical features.
fn model(dense: &str, sparse: &[(&str, Element, &[Dim])]) -> Model {
    let mut net = Builder::new("mean", Weights::seeded(1));
    let x = net.input(dense, Element::F32, &[Dim::symbol("n"), 13.into()]);
    for (name, element, shape) in sparse {
        net.input(name, *element, shape);
    }
    let axes = [("axes", [1].into()), ("keepdims", 1.into())];
    let mean = net.node("ReduceMean", &[&x], &axes).unwrap();
    net.output("prediction", &mean).unwrap();
    net.finish()
}

fn dlrm() -> Model {
    let shape: &[Dim] = &[26.into(), Dim::symbol("n")];
    let sparse = [("offsets", Element::I64, shape), ("indices", Element::I64, shape)];
    model("dense_x", &sparse)
}

/// Lines of the click logs: the label, then 13 numbers; the categories are not read.
fn day() -> String {
    let line =
        |(number, label): &(i32, u8)| format!("{label}{}\tab\n", format!("\t{number}").repeat(13));
    PAIRS.iter().map(line).collect()
}

/// For each pair its label, 13 times its number, and categories from the number on.
fn binary(pairs: &[(i32, u8)]) -> Vec<u8> {
    let pair = |&(number, label): &(i32, u8)| {
        let categories = (0..26).map(move |feature| number * 100 + feature);
        [label.into(), number, number, number, number, number, number, number]
            .into_iter()
            .chain([number; 6])
            .chain(categories)
            .collect::<Vec<i32>>()
    };
    pairs.iter().flat_map(pair).flat_map(i32::to_le_bytes).collect()
}

#[test]
fn pairs_are_aggregated_by_the_trace() {
    let folder = Folder::new();
    folder.model(&dlrm());
    folder.write("pairs.bin", binary(&PAIRS));
    folder.write("day_23", day());
    folder.write("trace.txt", "0, 1, 1\n1, 4, 3\n");
    let ready = folder.open(&made::card("dlrm"), &BINARY).unwrap();
    assert!(
        ready.remarks[0].starts_with("2 of the 330067 samples of Criteo"),
        "{:?}",
        ready.remarks
    );
    let sample = ready.samples.sample(1).unwrap();
    let [(_, dense), (_, offsets), (_, indices)] = &sample[..] else { panic!("three inputs") };
    let log = |number: f32| [(number + 1.0).ln(); 13];
    let expected = [log(4.0), log(3.0), log(8.0)].concat();
    assert_eq!((&dense.shape[..], dense.elements.as_slice()), (&[3, 13][..], Some(&expected[..])));
    assert_eq!(
        (&offsets.shape[..], offsets.elements.slice(3..6)),
        (&[26, 3][..], Elements::I64(vec![0, 1, 2].into()))
    );
    let row = |feature: usize| indices.elements.slice(feature * 3..feature * 3 + 3);
    assert_eq!(row(0), Elements::I64(vec![400, 300, 800].into()));
    assert_eq!(row(25), Elements::I64(vec![425, 325, 825].into()));
    let Some(told) = answered(ready) else { return };
    let found = floats(&told.answers[&1]);
    let near = |(found, number): (&f32, f32)| (found - (number + 1.0).ln()).abs() < 1e-6;
    assert!(found.len() == 3 && found.iter().zip([4.0, 3.0, 8.0]).all(near), "{found:?}");
    assert_eq!((told.answers[&0].len(), told.figure), (4, AREA));
}

#[test]
fn sizes_of_samples_may_be_fixed_or_drawn_and_are_judged_alike() {
    let card = made::card("dlrm");
    for (sizes, count) in [("fixed 3\n", Some(2)), ("uniform 1 2\n", None), ("1, 1, 2, 2\n", None)]
    {
        let folder = Folder::new();
        folder.model(&dlrm());
        folder.write("pairs.bin", binary(&PAIRS));
        folder.write("day_23", day());
        folder.write("trace.txt", sizes);
        let ready = folder.open(&card, &BINARY).unwrap();
        let Some(told) = answered(ready) else { return };
        assert!(count.is_none_or(|count| told.answers.len() == count), "{sizes}");
        let pairs: usize = told.answers.values().map(|answer| floats(answer).len()).sum();
        assert_eq!((pairs, told.failed.len(), told.figure), (4, 0, AREA), "{sizes}");
        // Other sizes in the same cache do not reuse the first derived files.
        folder.write("trace.txt", "fixed 1\n");
        let told = answered(folder.open(&card, &BINARY).unwrap()).unwrap();
        assert_eq!((told.answers.len(), told.figure), (4, AREA));
    }
}

/// Bytes of an array as `numpy.save` writes it.
fn npy(descr: &str, shape: &[usize], body: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), body].concat()
}

/// Features of widths 1 to 100, in total 214; a value encodes feature, pair and place.
fn sparse(widths: &[usize], pairs: usize, method: CompressionMethod) -> Vec<u8> {
    let mut file = ZipWriter::new(Cursor::new(Vec::new()));
    for (feature, &width) in widths.iter().enumerate() {
        let options = SimpleFileOptions::default().compression_method(method);
        file.start_file(format!("{feature}.npy"), options).unwrap();
        let value = |at: usize| (feature * 10_000 + at / width * 1000 + at % width) as i32;
        let body: Vec<u8> = (0..pairs * width).flat_map(|at| value(at).to_le_bytes()).collect();
        file.write_all(&npy("<i4", &[pairs, width], &body)).unwrap();
    }
    file.finish().unwrap().into_inner()
}

fn widths() -> Vec<usize> {
    let mut widths = vec![1; 24];
    widths.extend([100, 90]);
    widths
}

/// A numerical feature in DLRMv2's form.
fn log(number: i32) -> f32 {
    (number as f32 + 3.0).ln()
}

fn dense() -> Vec<u8> {
    // The second half of the day is for calibration.
    let all = PAIRS.iter().map(|(number, _)| log(*number)).chain([0.0; 3]);
    let body: Vec<u8> = all.flat_map(|number| [number; 13]).flat_map(f32::to_le_bytes).collect();
    npy("<f4", &[7, 13], &body)
}

fn arrays() -> Folder {
    let folder = Folder::new();
    let shape: &[Dim] = &[Dim::symbol("n"), 214.into()];
    folder.model(&model("dense_features", &[("sparse_features", Element::I32, shape)]));
    folder.write("dense.npy", dense());
    folder.write("sparse.npz", sparse(&widths(), 7, CompressionMethod::Stored));
    folder.write("day_23", day());
    folder.write("trace.txt", "0, 1, 1\n1, 4, 3\n");
    folder
}

#[test]
fn features_with_many_rows_of_tables_stand_side_by_side() {
    let folder = arrays();
    let ready = folder.open(&made::card("dlrm-v2"), &ARRAYS).unwrap();
    let sample = ready.samples.sample(1).unwrap();
    let [(_, dense), (_, tables)] = &sample[..] else { panic!("two inputs") };
    let expected = [4, 3, 8].map(|number| [log(number); 13]).concat();
    assert_eq!((&dense.shape[..], dense.elements.as_slice()), (&[3, 13][..], Some(&expected[..])));
    assert_eq!(tables.shape, [3, 214]);
    let rows = tables.elements.as_slice::<i32>().unwrap();
    // The second pair of the sample is the third of the day.
    let second = &rows[214..428];
    assert_eq!(second[..3], [2000, 12_000, 22_000]);
    assert_eq!(
        [second[23], second[24], second[123], second[124]],
        [232_000, 242_000, 242_099, 252_000]
    );
    let Some(told) = answered(ready) else { return };
    let found = floats(&told.answers[&1]);
    let near = |(found, number): (&f32, i32)| (found - log(number)).abs() < 1e-6;
    assert!(found.len() == 3 && found.iter().zip([4, 3, 8]).all(near), "{found:?}");
    assert_eq!(told.figure, AREA);
}

#[test]
fn errors_in_click_logs_are_reported_with_the_file() {
    let folder = Folder::new();
    let card = made::card("dlrm");
    folder.model(&dlrm());
    folder.write("day_23", day());
    folder.write("pairs.bin", binary(&PAIRS));
    folder.write("trace.txt", "0, 1, 1\n1, 5, 4\n");
    let refusal = || folder.refusal(&card, &BINARY);
    assert_eq!(refusal(), "trace.txt: expected samples of 4 pairs, found 5 pairs");
    folder.write("trace.txt", "0, 1, 1\n2, 4, 2\n");
    assert!(refusal().starts_with("trace.txt:2: expected `1, END, PAIRS`"), "{}", refusal());
    folder.write("trace.txt", "fixed 2\n");
    folder.write("day_23", "0\t1\n0\t2\n");
    assert!(refusal().starts_with("day_23: expected 4 lines, found 2"), "{}", refusal());
    folder.write("day_23", "0\t1\n0\t2\n5\t1\n1\t1\n");
    assert!(refusal().starts_with("day_23:3: expected 0 or 1 and a tab"), "{}", refusal());
    folder.write("day_23", "0\t1\n1\t2\n1\t1\n1\t1\n");
    let found = refusal();
    assert!(found.starts_with("day_23: expected the label 0 of pair 1 of "), "{found}");
    assert!(found.ends_with("pairs.bin, found 1"), "{found}");
    folder.write("pairs.bin", &binary(&PAIRS)[..159]);
    assert_eq!(refusal(), "pairs.bin: expected 160 bytes for each pair, found 159 bytes");
    folder.write("pairs.bin", binary(&[(-2, 0)]));
    let found = refusal();
    assert!(
        found.contains(
            "pairs.bin: expected labels of 0 or 1 and features from 0, found -2 in pair 0"
        ),
        "{found}"
    );
    folder.model(&model("dense_x", &[]));
    let found = refusal();
    assert!(
        found.starts_with("model.onnx: expected the input offsets int64 [26, ?], found dense_x"),
        "{found}"
    );
}

#[test]
fn errors_in_arrays_are_reported_with_the_file() {
    let folder = arrays();
    let card = made::card("dlrm-v2");
    let refusal = || folder.refusal(&card, &ARRAYS);
    folder.write("sparse.npz", sparse(&[8; 26], 7, CompressionMethod::Stored));
    assert_eq!(refusal(), "sparse.npz: expected 214 rows of tables a pair, found 208");
    folder.write("sparse.npz", sparse(&widths(), 6, CompressionMethod::Stored));
    assert_eq!(refusal(), "sparse.npz: expected 7 rows, as dense has, found 6 in 0.npy");
    folder.write("sparse.npz", sparse(&widths()[..20], 7, CompressionMethod::Stored));
    assert!(refusal().starts_with("sparse.npz: expected 20.npy, found"), "{}", refusal());
    folder.write("sparse.npz", sparse(&widths(), 7, CompressionMethod::Deflated));
    let found = refusal();
    assert_eq!(
        found,
        "sparse.npz: expected arrays as numpy.savez writes them, found 0.npy compressed"
    );
    folder.write("sparse.npz", "no archive");
    assert!(refusal().starts_with("sparse.npz: expected an npz of 26 arrays"), "{}", refusal());
    folder.write("sparse.npz", sparse(&widths(), 7, CompressionMethod::Stored));
    // Another day has the same labels here, and other numbers.
    folder.write("day_23", day().replacen("\t3\t", "\t5\t", 1));
    let found = refusal();
    let start = "dense.npy: expected 2.0794415 as feature 1 of pair 2, the logarithm of 5 + 3 of line 3 of ";
    assert!(found.starts_with(start), "{found}");
    assert!(found.ends_with("day_23, found 1.7917595"), "{found}");
    folder.write("day_23", day());
    folder.write("dense.npy", npy("<f4", &[0, 13], &[]));
    assert_eq!(refusal(), "dense.npy: expected rows of float32, found float32 [0, 13]");
    folder.write("dense.npy", &dense()[..200]);
    assert!(refusal().starts_with("dense.npy: expected 4"), "{}", refusal());
    folder.write("dense.npy", npy("<f8", &[1, 13], &[0; 104]));
    assert_eq!(refusal(), "dense.npy: expected rows of float32, found float64 [1, 13]");
}
