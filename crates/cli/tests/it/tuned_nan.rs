//! Models whose scores have NaN: operators pass it on, so that no class is found.

use dyno_onnx::{Builder, Dim, Element, Name, Weights};

use crate::probe::npy;
use crate::program::Folder;
use crate::tuned::write;

/// Returns a model whose first score is the logarithm of -4, which is NaN, before `operator`. The
/// others are 0 there.
fn model(operator: impl Fn(&mut Builder, &Name, &Name) -> Name) -> Vec<u8> {
    let mut net = Builder::new("scores", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 3.into()]);
    let shift = net.numbers(&[5.0, 0.0, 0.0]);
    let y = net.node("Sub", &[&x, &shift], &[]).unwrap();
    let y = net.node("Log", &[&y], &[]).unwrap();
    let y = operator(&mut net, &y, &x);
    net.output("y", &y).unwrap();
    net.finish().to_bytes().unwrap()
}

/// Without NaN, class 0 would have the largest score, the first of equal ones.
#[test]
fn scores_with_nan_are_no_class_whatever_operator_follows() {
    let folder = Folder::new();
    let samples = [1.0_f32; 12].map(f32::to_le_bytes).concat();
    write(&folder, "x.npy", &npy("<f4", "(4, 3)", &samples));
    write(&folder, "y.npy", &npy("<i8", "(4,)", &[0; 32]));
    let clip = model(|net, y, _| {
        let (least, most) = (net.number(1.0), net.number(6.0));
        net.node("Clip", &[y, &least, &most], &[]).unwrap()
    });
    let greatest = model(|net, y, x| net.node("Max", &[y, x], &[]).unwrap());
    let greatest_last = model(|net, y, x| net.node("Max", &[x, y], &[]).unwrap());
    let least = model(|net, y, x| net.node("Min", &[y, x], &[]).unwrap());
    let all = [("clip", clip), ("max", greatest), ("last", greatest_last), ("min", least)];
    for (name, model) in all {
        write(&folder, "net.onnx", &model);
        for system in ["tuned:model=net.onnx", "rnn:net.onnx,verify=off"] {
            let out = format!("{name}-{}", &system[..3]);
            let run = format!(
                "run --system {system} --data x.npy --labels y.npy --scenario offline \
                 --mode accuracy --json --out {out}"
            );
            let accuracy = &folder.dyno(&run).json()["tests"][0]["accuracy"];
            assert_eq!(accuracy["correct"], 0, "{name} {system}: {accuracy}");
        }
    }
}
