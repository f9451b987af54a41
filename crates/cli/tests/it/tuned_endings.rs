//! Models that end in a convolution: the answers are in the order of the model.

use std::collections::BTreeMap;

use dyno_onnx::{Builder, Dim, Element, Fill, Tensor, Weights};

use crate::probe::npy;
use crate::program::Folder;
use crate::tuned::write;

/// Size of a sample of shape [2, 2, 2].
const SIZE: usize = 8;

/// Returns a convolution that copies its input, and a list of its numbers if `is_list`.
fn copies(is_list: bool) -> Vec<u8> {
    let weights = Tensor::from_f32("c.weight", &[2, 2, 1, 1], &[1.0, 0.0, 0.0, 1.0]);
    let weights = BTreeMap::from([("c.weight".to_owned(), weights)]);
    let mut net = Builder::new("copies", Weights::from_tensors(weights));
    let shape = [Dim::symbol("N"), 2.into(), 2.into(), 2.into()];
    let x = net.input("x", Element::F32, &shape);
    let weight = net.weight("c.weight", &[2, 2, 1, 1], Fill::Constant(0.0)).unwrap();
    let mut y = net.node("Conv", &[&x, &weight], &[]).unwrap();
    if is_list {
        y = net.node("Flatten", &[&y], &[]).unwrap();
    }
    net.output("y", &y).unwrap();
    net.finish().to_bytes().unwrap()
}

/// Sample i has its only 1 at place i, so that its class is i.
fn folder() -> Folder {
    let folder = Folder::new();
    let samples = (0..2 * SIZE).flat_map(|at| {
        let number = move |place: usize| f32::from(u8::from(place == at % SIZE));
        (0..SIZE).flat_map(move |place| number(place).to_le_bytes())
    });
    write(&folder, "x.npy", &npy("<f4", "(16, 2, 2, 2)", &samples.collect::<Vec<u8>>()));
    let labels = (0..2 * SIZE).flat_map(|at| ((at % SIZE) as i64).to_le_bytes());
    write(&folder, "y.npy", &npy("<i8", "(16,)", &labels.collect::<Vec<u8>>()));
    write(&folder, "list.onnx", &copies(true));
    write(&folder, "image.onnx", &copies(false));
    folder
}

const DATA: &str = "--data x.npy --scenario offline --mode accuracy";

#[test]
fn a_list_of_a_convolution_is_in_the_order_of_the_model() {
    let folder = folder();
    let run = format!("run --system tuned:model=list.onnx {DATA} --labels y.npy --json --out out");
    let accuracy = &folder.dyno(&run).json()["tests"][0]["accuracy"];
    assert_eq!((&accuracy["correct"], &accuracy["value"]), (&16.into(), &1.0.into()));
    let compare = "tune compare list.onnx --inputs x.npy --labels y.npy --python ./none --json";
    assert_eq!(folder.dyno(compare).exits(0).json()["rows"][0]["accuracy"], 1.0);
}

#[test]
fn an_image_as_the_answer_has_its_dimensions_and_no_class() {
    let folder = folder();
    let run = format!("run --system tuned:model=image.onnx {DATA}");
    let ran = folder.dyno(&format!("{run} --labels y.npy --out wrong")).exits(2);
    assert!(ran.stderr.contains("[?, 2, 2, 2]"), "{}", ran.stderr);
    assert!(ran.stderr.contains("has scores in several dimensions"), "{}", ran.stderr);
    // Nor does the tuner count the largest of all numbers as a class.
    let descriptor = "layer_name = [\"c\"]\nwgt_size = [4]\nact_size = [8]\nwgt_max_abs = [1.0]\n\
                      act_max_abs = [1.0]\nmodel = \"image.onnx\"\nsamples = \"x.npy\"\n\
                      labels = \"y.npy\"\n";
    folder.write("image.toml", descriptor);
    let inputs = "image.onnx --inputs x.npy --labels y.npy";
    for command in [
        "run image.toml --out tuned".to_owned(),
        format!("scale {inputs}"),
        format!("compare {inputs} --python ./none"),
    ] {
        let ran = folder.dyno(&format!("tune {command}")).exits(2);
        let expected = "2, 2, 2] has scores in several dimensions";
        assert!(ran.stderr.contains(expected), "{command}: {}", ran.stderr);
    }
    folder.dyno(&format!("{run} --out out --quiet"));
    let log = folder.read("out/Offline/accuracy/mlperf_log_accuracy.json");
    let log: serde_json::Value = serde_json::from_str(&log).unwrap();
    let entries = log.as_array().unwrap();
    assert_eq!(entries.len(), 16);
    for entry in entries {
        let at = entry["qsl_idx"].as_u64().unwrap() as usize % SIZE;
        // 1.0 in little-endian digits.
        let expected: String =
            (0..SIZE).map(|n| if n == at { "0000803F" } else { "00000000" }).collect();
        assert_eq!(entry["data"], expected.as_str());
    }
}
