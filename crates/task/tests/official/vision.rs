//! Classifiers and detectors.

use std::sync::mpsc;

use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Failure;
use dyno_onnx::{Builder, Dim, Element, Model, Weights};
use dyno_task::card;

use crate::made::{self, Folder, answered, floats};

/// The files of a classifier.
const CLASSES: [(&str, &str); 3] =
    [("model", "model.onnx"), ("images", "images"), ("val_map", "val_map.txt")];
/// The files of a detector.
const BOXES: [(&str, &str); 3] =
    [("model", "model.onnx"), ("images", "images"), ("annotations", "annotations.json")];

/// A classifier of the brightest channel: red is position 1, green 2, blue 3 of `scores`, in the
/// layout of `shape`. Like the reference's ResNet-50 it also outputs the class.
fn classifier(shape: [usize; 3], scores: usize) -> Model {
    colour_net(shape, scores, &["softmax_tensor:0", "ArgMax:0"])
}

fn colour_net(shape: [usize; 3], scores: usize, outputs: &[&str]) -> Model {
    let mut net = Builder::new("colours", Weights::seeded(1));
    let [a, b, c] = shape.map(Dim::Fixed);
    let mut x = net.input("mine", Element::F32, &[Dim::symbol("n"), a, b, c]);
    if shape[2] == 3 {
        x = net.node("Transpose", &[&x], &[("perm", [0, 3, 1, 2].into())]).unwrap();
    }
    let x = net.node("GlobalAveragePool", &[&x], &[]).unwrap();
    let x = net.node("Flatten", &[&x], &[]).unwrap();
    let mut rows = vec![0.0; 3 * scores];
    for channel in 0..3 {
        rows[channel * scores + channel + 1] = 1.0;
    }
    let weights = net.numbers(&rows);
    let size = net.integers(&[3, scores as i64]);
    let weights = net.node("Reshape", &[&weights, &size], &[]).unwrap();
    let scores = net.node("MatMul", &[&x, &weights], &[]).unwrap();
    let class = net.node("ArgMax", &[&scores], &[("axis", 1.into()), ("keepdims", 0.into())]);
    for (name, value) in outputs.iter().zip([&scores, &class.unwrap()]) {
        net.output(name, value).unwrap();
    }
    net.finish()
}

fn colours(folder: &Folder) {
    folder.picture("red.png", [300, 260], [250, 110, 100]);
    folder.picture("green.png", [256, 400], [120, 255, 100]);
    folder.picture("blue.png", [230, 230], [120, 110, 255]);
}

#[test]
fn classifiers_answer_classes_as_the_labels_number_them() {
    // Three of four are right; the first of 1001 scores is the background's.
    let (first, last) = ([3, 224, 224], [224, 224, 3]);
    let cases = [
        ("resnet50", 1001, first, [0, 1, 2]),
        ("mobilenet", 1001, last, [0, 1, 2]),
        ("resnet50", 1000, last, [1, 2, 3]),
    ];
    for (task, scores, shape, [red, green, blue]) in cases {
        let folder = Folder::new();
        colours(&folder);
        folder.model(&match task {
            "resnet50" => classifier(shape, scores),
            _ => colour_net(shape, scores, &["its only output"]),
        });
        folder.picture("another.png", [240, 250], [250, 100, 110]);
        let list = format!("red.png {red}\ngreen.png {green}\nblue.png {blue}\nanother.png 7\n");
        folder.write("val_map.txt", list);
        let ready = folder.open(&made::card(task), &CLASSES).unwrap();
        let is_told = |start: &str| ready.remarks.iter().any(|remark| remark.starts_with(start));
        assert!(is_told("4 of the 50000 samples of ImageNet 2012"), "{:?}", ready.remarks);
        let fewer = is_told("the model has 1000 scores where the reference's has 1001");
        assert_eq!(fewer, scores == 1000, "{:?}", ready.remarks);
        let Some(told) = answered(ready) else { return };
        assert_eq!((told.failed.len(), told.figure), (0, 75.0), "{task} {shape:?} {scores}");
    }
}

#[test]
fn errors_in_a_classifier_are_reported_with_its_file() {
    let folder = Folder::new();
    colours(&folder);
    let card = made::card("resnet50");
    folder.write("val_map.txt", "red.png 0\n");
    folder.model(&classifier([3, 192, 192], 1001));
    let found = folder.refusal(&card, &CLASSES);
    let expected = "model.onnx: expected the input input_tensor:0 float32 [3, 224, 224], found mine \
                    float32 [?, 3, 192, 192];";
    assert!(found.starts_with(expected), "{found}");
    folder.model(&classifier([3, 224, 224], 10));
    let found = folder.refusal(&card, &CLASSES);
    let expected = "model.onnx: expected 1001 scores, found softmax_tensor:0 float32 [?, 10];";
    assert!(found.starts_with(expected), "{found}");
    folder.write("model.onnx", "no model");
    assert!(folder.refusal(&card, &CLASSES).starts_with("model.onnx: "));
    folder.model(&classifier([3, 224, 224], 1001));
    for (list, expected) in [
        ("red.png 0\ngone.png 1\n", "images: 1 of 2 files are missing, first gone.png;"),
        (
            "red.png 1000\n",
            "val_map.txt:1: expected one name and one class from 0 to 999 per line,",
        ),
        ("red.png 0\nblue.png\n", "val_map.txt:2: expected one name and one class from 0 to 999"),
        ("", "val_map.txt: expected one name and one class from 0 to 999 per line, found none"),
    ] {
        folder.write("val_map.txt", list);
        let found = folder.refusal(&card, &CLASSES);
        assert!(found.starts_with(expected), "{found}");
    }
    folder.write("val_map.txt", "red.png 0\nred.png 1\n");
    let twice = folder.refusal(&card, &CLASSES);
    assert!(twice.ends_with("val_map.txt:2: expected one name and one class from 0 to 999 per line, found 'red.png for the second time'"), "{twice}");
    // More samples than the data set has.
    let mut few = made::card("resnet50");
    few.data.accuracy_samples = 1;
    folder.write("val_map.txt", "red.png 0\nblue.png 1\n");
    let found = folder.refusal(&few, &CLASSES);
    assert_eq!(found, "resnet50: expected the 1 samples of ImageNet 2012, validation, found 2");
}

#[test]
fn files_that_are_not_the_references_are_errors_as_data_and_remarks_as_weights() {
    let folder = Folder::new();
    colours(&folder);
    folder.write("val_map.txt", "red.png 0\n");
    folder.model(&classifier([3, 224, 224], 1001));
    let card = card::named("resnet50").unwrap();
    let remarks = folder.open(card, &CLASSES).unwrap().remarks;
    assert!(remarks[0].contains("model.onnx has the MD5 "), "{remarks:?}");
    assert!(remarks[0].contains("a638cf028b5870da29e09ccc2f7182e7 or f6a4da60"), "{remarks:?}");
    assert_eq!(folder.open(card, &CLASSES).unwrap().other_data, [""; 0]);
    let mut replaced = made::card("resnet50");
    replaced.data.files[1].md5 = vec!["0".repeat(32)];
    replaced.data.files[1].is_replaceable = true;
    let other = folder.open(&replaced, &CLASSES).unwrap().other_data;
    assert!(other.len() == 1 && other[0].contains("val_map.txt has the MD5 "), "{other:?}");
    let mut strict = made::card("resnet50");
    let md5_of_red = "b8e2a85e4ee6f8e4b6ae2a6c4bd1cf6d".to_owned();
    strict.data.files[1].md5 = vec![md5_of_red];
    let found = folder.refusal(&strict, &CLASSES);
    let expected = "val_map.txt: expected the MD5 b8e2a85e4ee6f8e4b6ae2a6c4bd1cf6d, found ";
    assert!(found.starts_with(expected), "{found}");
}

/// A truncated picture is found when it is loaded, which is untimed; its sample fails, and the
/// others are answered.
#[test]
fn a_picture_that_is_cut_off_fails_its_own_queries_and_is_named() {
    let folder = Folder::new();
    colours(&folder);
    let whole = std::fs::read(folder.path("images/green.png")).unwrap();
    folder.write("images/green.png", &whole[..whole.len() / 2]);
    folder.write("val_map.txt", "red.png 0\ngreen.png 1\nblue.png 2\n");
    folder.model(&classifier([3, 224, 224], 1001));
    let mut ready = folder.open(&made::card("resnet50"), &CLASSES).unwrap();
    let (send, told) = mpsc::channel();
    ready.samples =
        ready.samples.on_broken_samples(move |broken| send.send(broken.to_vec()).unwrap());
    ready.samples.load(&[0, 1, 2]);
    let [broken] = &told.recv().unwrap()[..] else { panic!("one is broken") };
    for part in ["sample 1 of imagenet", "green.png: expected a whole JPEG or PNG file"] {
        assert!(broken.contains(part), "{broken}");
    }
    if let Some(told) = answered(ready) {
        assert_eq!(told.failed, [(1, Failure::Rejected)]);
        assert_eq!(told.trouble.as_ref(), Some(broken));
        assert_eq!(told.figure, 100.0, "of those that were answered");
    }
    // The first sample is prepared at once.
    folder.write("val_map.txt", "green.png 1\nred.png 0\n");
    let found = folder.refusal(&made::card("resnet50"), &CLASSES);
    assert!(found.contains("images/green.png: expected a whole JPEG or PNG file"), "{found}");
}

/// Two images of 200 by 100 with one object each: that of class 7 where the detectors below find it
/// in the bright picture, that of class 9 in the dark one, where they find none.
const ANNOTATIONS: &str = r#"{
    "images": [{"id": 5, "file_name": "bright.png", "width": 200, "height": 100},
        {"id": 2, "file_name": "dark.png", "width": 200, "height": 100}],
    "annotations": [
        {"id": 1, "image_id": 5, "category_id": CLASS, "bbox": [20, 20, 100, 40], "area": 4000, "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": CLASS, "bbox": [20, 20, 100, 40], "area": 4000, "iscrowd": 0}],
    "categories": [{"id": 7, "name": "a"}, {"id": 9, "name": "b"}]}"#;

/// Left 0.1, top 0.2, right 0.6, bottom 0.6 as fractions of the picture.
const SEEN: [f32; 4] = [0.1, 0.2, 0.6, 0.6];

/// A detector that finds a box of the second category in bright pictures and an empty box in
/// others, and another box with a score that is too low.
fn detector(side: usize, names: [&str; 4], class: i64) -> Model {
    let mut net = Builder::new("bright", Weights::seeded(1));
    let side = Dim::Fixed(side);
    let image = net.input(names[0], Element::F32, &[1.into(), 3.into(), side.clone(), side]);
    let scale = if names[1] == "boxes" { 800.0 } else { 1.0 };
    let axes = [("axes", [0, 1, 2, 3].into()), ("keepdims", 0.into())];
    let bright = net.node("ReduceMax", &[&image], &axes);
    let zero = net.number(0.0);
    let bright = net.node("Greater", &[&bright.unwrap(), &zero], &[]).unwrap();
    let bright = net.node("Cast", &[&bright], &[("to", 1.into())]).unwrap();
    let edges: Vec<f32> = [SEEN, SEEN].concat().iter().map(|edge| edge * scale).collect();
    let boxes = net.numbers(&edges);
    let boxes = net.node("Mul", &[&boxes, &bright], &[]).unwrap();
    let shape: &[i64] = if scale > 1.0 { &[2, 4] } else { &[1, 2, 4] };
    let rows = &shape[..shape.len() - 1];
    let (shape, rows) = (net.integers(shape), net.integers(rows));
    let boxes = net.node("Reshape", &[&boxes, &shape], &[]).unwrap();
    net.output(names[1], &boxes).unwrap();
    let classes = net.integers(&[class, class]);
    let classes = net.node("Reshape", &[&classes, &rows], &[]).unwrap();
    net.output(names[2], &classes).unwrap();
    let scores = net.numbers(&[0.9, 0.04]);
    let scores = net.node("Reshape", &[&scores, &rows], &[]).unwrap();
    net.output(names[3], &scores).unwrap();
    net.finish()
}

/// The first of two objects of one class is found: the precision is 1 at the recalls up to 0.5,
/// which are 51 of 101.
const HALF: f64 = 100.0 * 51.0 / 101.0;
/// Tolerance for sums of 101 shares of 101.
const ROUNDING: f64 = 1e-9;

#[test]
fn detectors_answer_boxes_with_the_place_of_their_sample() {
    // Classes of SSD-ResNet34 are positions in the list, from 1.
    for (task, side, names, class) in [
        ("retinanet", 800, ["images", "boxes", "labels", "scores"], 9),
        ("ssd-resnet34", 1200, ["image", "bboxes", "labels", "scores"], 2),
    ] {
        let folder = Folder::new();
        folder.picture("bright.png", [200, 100], [255, 200, 220]);
        folder.picture("dark.png", [200, 100], [0, 0, 0]);
        folder.write("annotations.json", ANNOTATIONS.replace("CLASS", "9"));
        folder.model(&detector(side, names, class));
        let ready = folder.open(&made::card(task), &BOXES).unwrap();
        let Some(told) = answered(ready) else { return };
        assert_eq!(told.failed, []);
        let [left, top, right, bottom] = SEEN;
        for (index, scale) in [(0_u64, 1.0), (1, 0.0)] {
            // Dark is negative where means are subtracted.
            let found = floats(&told.answers[&index]);
            let edges = [top, left, bottom, right].map(|edge| edge * scale);
            let expected = [&[index as f32][..], &edges, &[0.9, class as f32]].concat();
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
            assert!(found.len() == 7 && found.iter().zip(&expected).all(near), "{found:?}");
        }
        // The empty box of the dark picture, whose id is lower, comes before it: the precision
        // is a half.
        assert!((told.figure - HALF / 2.0).abs() < ROUNDING, "{task}: {}", told.figure);
    }
}

/// A model as TensorFlow's object detection exports it: a batch of pictures, and up to a hundred
/// boxes with their count.
#[test]
fn detectors_that_count_their_boxes_are_believed() {
    let mut net = Builder::new("counted", Weights::seeded(1));
    let [n, h, w] = ["n", "h", "w"].map(Dim::symbol);
    let image = net.input("image_tensor:0", Element::U8, &[n, h, w, 3.into()]);
    let bright = net.node("Cast", &[&image], &[("to", 1.into())]).unwrap();
    let axes = [("axes", [1, 2, 3].into()), ("keepdims", 0.into())];
    let count = net.node("ReduceMax", &[&bright], &axes).unwrap();
    // One box where it is bright, none where it is dark.
    let count = net.node("Sign", &[&count], &[]).unwrap();
    net.output("num_detections:0", &count).unwrap();
    let (ones, column, cube) =
        (net.numbers(&[1.0, 1.0]), net.integers(&[-1, 1]), net.integers(&[-1, 1, 1]));
    let rows = net.node("Abs", &[&count], &[]).unwrap();
    let zero = net.number(0.0);
    let rows = net.node("Mul", &[&rows, &zero], &[]).unwrap();
    let flat = net.node("Reshape", &[&rows, &column], &[]).unwrap();
    let deep = net.node("Reshape", &[&rows, &cube], &[]).unwrap();
    let scores = net.numbers(&[0.9, 0.8]);
    let scores = net.node("Add", &[&flat, &scores], &[]).unwrap();
    let nine = net.number(9.0);
    let classes = net.node("Mul", &[&ones, &nine], &[]).unwrap();
    let classes = net.node("Add", &[&flat, &classes], &[]).unwrap();
    let [left, top, right, bottom] = SEEN;
    let boxes = net.numbers(&[top, left, bottom, right].repeat(2));
    let pairs = net.integers(&[1, 2, 4]);
    let boxes = net.node("Reshape", &[&boxes, &pairs], &[]).unwrap();
    let boxes = net.node("Add", &[&deep, &boxes], &[]).unwrap();
    net.output("detection_boxes:0", &boxes).unwrap();
    net.output("detection_scores:0", &scores).unwrap();
    net.output("detection_classes:0", &classes).unwrap();
    let folder = Folder::new();
    folder.picture("bright.png", [200, 100], [255, 200, 220]);
    folder.picture("dark.png", [200, 100], [0, 0, 0]);
    folder.write("annotations.json", ANNOTATIONS.replace("CLASS", "9"));
    folder.model(&net.finish());
    let ready = folder.open(&made::card("ssd-mobilenet"), &BOXES).unwrap();
    assert!(ready.remarks[0].starts_with("2 of the 5000 samples of COCO"), "{:?}", ready.remarks);
    let Some(told) = answered(ready) else { return };
    assert_eq!((told.failed.len(), floats(&told.answers[&0]).len()), (0, 7));
    assert_eq!(told.answers[&1], [0_u8; 0]);
    assert!((told.figure - HALF).abs() < ROUNDING, "{}", told.figure);
}

#[test]
fn errors_in_a_detector_are_reported_with_its_file() {
    let folder = Folder::new();
    folder.picture("bright.png", [200, 100], [255; 3]);
    folder.write("annotations.json", ANNOTATIONS.replace("CLASS", "9"));
    let card = made::card("retinanet");
    folder.model(&detector(800, ["images", "boxes", "classes", "scores"], 9));
    let found = folder.refusal(&card, &BOXES);
    let expected =
        "model.onnx: expected the output labels, found boxes float32 [2, 4], classes int64";
    assert!(found.starts_with(expected), "{found}");
    folder.model(&detector(800, ["images", "boxes", "labels", "scores"], 9));
    let found = folder.refusal(&card, &BOXES);
    assert!(found.starts_with("images: 1 of 2 files are missing, first dark.png; get"), "{found}");
    folder.write("annotations.json", "{}");
    let found = folder.refusal(&card, &BOXES);
    assert!(found.starts_with("annotations.json:1: expected images and annotations"), "{found}");
}
