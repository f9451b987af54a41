//! Latency of LeNet in FLOAT(32), in the tuner's formats and in integers everywhere. On request it
//! measures in turns with another program.

use std::io::BufRead as _;
use std::time::{Duration, Instant};

use dyno_number::evaluate::{PackedNetwork, ProductPath, TensorView, Workspace};
use dyno_number::{Dictionary, Format};
use dyno_onnx::Model;

use super::{Images, line_beside};
use crate::train::SIDE;

/// Prefix and suffix of the names of its figures.
pub const NAME: &str = "tune.lenet.tuned_latency_us";
pub const ENDS: [&str; 12] = [
    ".f32.batch1",
    ".lenet_7.batch1",
    ".lenet_1.batch1",
    ".i10.batch1",
    ".i8.batch1",
    ".i4.batch1",
    ".f32.batch64",
    ".lenet_7.batch64",
    ".lenet_1.batch64",
    ".i10.batch64",
    ".i8.batch64",
    ".i4.batch64",
];

/// A network in formats, with its shortest time.
struct Configuration {
    name: String,
    packed: PackedNetwork,
    shortest_us: f64,
}

/// Assigns one width of FIXED to the weights and inputs of all layers, with the ranges from which
/// the tuner starts.
fn whole(model: &Model, bits: u32, reach: &dyn Fn(&str) -> i32) -> Dictionary {
    let plain = PackedNetwork::new(model, &Dictionary::new()).expect("a chain of layers");
    let mut formats = Dictionary::new();
    for layer in plain.layers() {
        for object in [format!("{}.weight", layer.name), format!("{}.input", layer.name)] {
            let format = Format::fixed(bits, -reach(&object)).expect("bits of FIXED");
            formats.set(&object, format).expect("a word");
        }
    }
    formats
}

/// Returns FLOAT(32), the tuner's formats, and integers. Prints the layers of each to stderr.
fn configurations(
    model: &Model,
    found: &[(&str, Dictionary)],
    reach: &dyn Fn(&str) -> i32,
) -> Vec<Configuration> {
    let mut all = vec![("f32".to_owned(), Dictionary::new())];
    all.extend(found.iter().map(|(name, formats)| ((*name).to_owned(), formats.clone())));
    all.extend([10, 8, 4].map(|bits| (format!("i{bits}"), whole(model, bits, reach))));
    let timed = all.into_iter().map(|(name, formats)| {
        let packed = PackedNetwork::new(model, &formats).expect("its own objects");
        for layer in packed.layers() {
            let (name_of, bytes, path) = (&layer.name, layer.codes.len(), layer.path);
            eprintln!("{name} {name_of}: {bytes} bytes packed, {path}");
        }
        Configuration { name, packed, shortest_us: f64::INFINITY }
    });
    timed.collect()
}

/// Answers lines on stdin: `NAME IMAGES SECONDS` runs a configuration on the first images
/// repeatedly for that time, on one thread. It prints the shortest run in microseconds and the
/// label of each image. The first line on stdout has the names of the configurations.
pub fn serve(
    model: &Model,
    found: &[(&str, Dictionary)],
    test: &Images,
    reach: &dyn Fn(&str) -> i32,
) {
    let timed = configurations(model, found, reach);
    let names: Vec<&str> = timed.iter().map(|one| one.name.as_str()).collect();
    println!("{}", serde_json::json!({"names": names}));
    let mut workspace = Workspace::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("lines of text");
        let words: Vec<&str> = line.split(' ').collect();
        let [name, images, seconds] = words[..] else { panic!("NAME IMAGES SECONDS, not {line}") };
        let one = timed.iter().find(|one| one.name == name).expect("a name of the first line");
        let images: usize = images.parse().expect("how many images");
        let values = &test.values[..images * SIDE * SIDE];
        let fed = [TensorView { dims: &[images, 1, SIDE, SIDE], values }];
        let end = Duration::from_secs_f64(seconds.parse().expect("seconds"));
        let (begin, mut shortest) = (Instant::now(), Duration::MAX);
        let mut labels = Vec::new();
        while labels.is_empty() || begin.elapsed() < end {
            let start = Instant::now();
            let scores = one.packed.run(&fed, &mut workspace).expect("no NaN");
            shortest = shortest.min(start.elapsed());
            let top = |scores: &[f32]| {
                let greater =
                    |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
                (1..scores.len()).fold(0, greater)
            };
            labels = scores.values.chunks_exact(scores.dims[1]).map(top).collect();
        }
        println!("{}", serde_json::json!({"us": shortest.as_secs_f64() * 1e6, "labels": labels}));
    }
}

/// Prints a line for each configuration and number of images: microseconds on one thread, with
/// those of FLOAT(32) measured at the same time. `reach` returns a power of two that an object's
/// values do not exceed.
pub fn print(
    model: &Model,
    found: &[(&str, Dictionary)],
    test: &Images,
    is_quick: bool,
    reach: &dyn Fn(&str) -> i32,
) {
    let mut timed = configurations(model, found, reach);
    let mut workspace = Workspace::default();
    for images in [1, 64] {
        let values = &test.values[..images * SIDE * SIDE];
        let fed = [TensorView { dims: &[images, 1, SIDE, SIDE], values }];
        let rounds = if is_quick { 20 } else { 4000 / (images + 7) };
        timed.iter_mut().for_each(|one| one.shortest_us = f64::INFINITY);
        // Configurations take turns, so that disturbances of the machine affect all of them.
        for _ in 0..rounds {
            for one in &mut timed {
                let start = Instant::now();
                one.packed.run(&fed, &mut workspace).expect("no NaN");
                one.shortest_us = one.shortest_us.min(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        let plain = timed[0].shortest_us;
        for Configuration { name, packed, shortest_us } in &timed {
            let name = format!("{NAME}.{name}.batch{images}");
            line_beside(&name, *shortest_us, plain, "us");
            let layers = packed.layers();
            let exact =
                layers.iter().filter(|layer| !matches!(layer.path, ProductPath::F32(_))).count();
            let (bytes, count) = (packed.packed_bytes(), layers.len());
            eprintln!(
                "{name}: {bytes} bytes of weights, {exact} of {count} layers in whole numbers"
            );
        }
    }
}
