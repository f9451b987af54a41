//! Tuned models as files that are handed over: packed, measured, damaged.

use dyno_onnx::{Builder, Dim, Element, Fill, Model, Weights};
use dyno_sut::digits::Perceptron;

use crate::program::Folder;
use crate::tuned::{DATA, accuracy, descriptor, folder, write};

/// The built-in perceptron, packed.
fn packed() -> Folder {
    let folder = folder();
    let ran = folder.dyno("tune pack digits.onnx --formats formats.txt").exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let has =
        |words: &[&str]| lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    // 3,072 weights of 5 bits and 480 of 6.
    assert!(has(&["Gemm ", "I5(0)", "3,072", "1,920", "12,288"]), "{}", ran.stdout);
    assert!(has(&["Gemm_1", "I6(-1)", "480", "360", "1,920"]), "{}", ran.stdout);
    let [small, large] = ["digits.packed", "digits.onnx"]
        .map(|name| std::fs::metadata(folder.0.join(name)).unwrap().len() as usize);
    // All but the weights stays, and the head comes.
    assert!(small < large - (14_208 - 2_280) + 1_000, "{small} bytes of {large}");
    let count = |n: usize| format!("{},{:03}", n / 1000, n % 1000);
    assert!(has(&[&count(small), &count(large), "times less"]), "{}", ran.stdout);
    folder
}

/// Two layers of a chain share their weights. Without a common format, the file has them as float32.
#[test]
fn a_packed_file_states_the_codes_that_it_has() {
    let folder = Folder::new();
    let mut net = Builder::new("shared", Weights::seeded(4));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 8.into()]);
    let both = net.weight("both.weight", &[8, 8], Fill::lecun(8)).unwrap();
    let y = net.node("MatMul", &[&x, &both], &[]).unwrap();
    let y = net.node("Relu", &[&y], &[]).unwrap();
    let y = net.node("MatMul", &[&y, &both], &[]).unwrap();
    net.output("y", &y).unwrap();
    net.finish().write(&folder.0.join("net.onnx")).unwrap();
    let bytes = |bits: [u32; 2]| {
        let [first, second] = bits;
        let text = format!("both.weight FIXED {first} 0\nboth_1.weight FIXED {second} 0\n");
        folder.write("formats.txt", &text);
        let ran = folder.dyno("tune pack net.onnx --formats formats.txt").exits(0);
        let cell = |layer: &str| {
            let line = ran.stdout.lines().find(|line| line.split_whitespace().any(|w| w == layer));
            line.unwrap().split_whitespace().rev().nth(2).unwrap().to_owned()
        };
        assert!(ran.stdout.contains("the file has no codes"), "{}", ran.stdout);
        [cell("both"), cell("both_1")]
    };
    assert_eq!(bytes([4, 6]), ["-", "-"]);
    // 64 codes of 4 bits, once.
    assert_eq!(bytes([4, 4]), ["32", "-"]);
    // The engine of graphs, which writes files for other runtimes, has one object for both.
    bytes([4, 6]);
    let told = folder.dyno("tune export net.onnx --formats formats.txt").exits(0).stdout;
    assert!(told.contains("both.weight") && told.contains("both_1.weight"), "{told}");
}

#[test]
fn a_packed_model_answers_as_the_model_in_its_formats() {
    let folder = packed();
    let expected = accuracy(&folder, "tuned:model=digits.onnx,formats=formats.txt");
    let alone = Folder::new();
    for name in ["digits.packed", "test.npy", "test-labels.npy"] {
        std::fs::copy(folder.0.join(name), alone.0.join(name)).unwrap();
    }
    assert_eq!(accuracy(&alone, "tuned:packed=digits.packed"), expected, "and needs no other file");
    let named = accuracy(&folder, "tuned:packed=digits.packed,model=digits.onnx");
    assert_eq!(named, expected, "it was made of that model");
    let played = "run --system tuned:packed=digits.packed --data test.npy --mode accuracy --scenario \
                  offline --out ";
    folder.dyno(&format!("{played} packed")).exits(0);
    let other = played.replace("packed=digits.packed", "model=digits.onnx,formats=formats.txt");
    folder.dyno(&format!("{other} plain")).exits(0);
    // Calls end in any order.
    let answers = |out: &str| {
        let path = walk(&folder.0.join(out), "mlperf_log_accuracy.json");
        let text = std::fs::read_to_string(path.expect("an accuracy run leaves answers")).unwrap();
        let lines = text.lines().map(|line| line.trim_end_matches(',').to_owned());
        lines.collect::<std::collections::BTreeSet<String>>()
    };
    assert!(answers("packed").len() > 540, "a line a sample");
    assert!(answers("packed") == answers("plain"), "all scores to the bit");
}

/// The file of that name below a folder.
pub fn walk(folder: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = None;
    for path in entries {
        if path.is_dir() {
            found = found.or_else(|| walk(&path, name));
        } else if path.file_name().is_some_and(|found| found == name) {
            found = Some(path);
        }
    }
    found
}

#[test]
fn what_is_no_packed_model_is_told() {
    let folder = packed();
    let bytes = std::fs::read(folder.0.join("digits.packed")).unwrap();
    let check = |system: &str, code: i32, expected: &str| {
        let ran = folder.dyno(&format!("run --system {system} {DATA}")).exits(code);
        assert!(ran.stderr.contains(expected), "expected {expected:?} in\n{}", ran.stderr);
    };
    write(&folder, "cut.packed", &bytes[..bytes.len() / 2]);
    let told = format!("cut.packed: is cut off: {} of {} bytes", bytes.len() / 2, bytes.len());
    check("tuned:packed=cut.packed", 2, &told);
    let mut other = bytes.clone();
    other[8] = 2;
    write(&folder, "later.packed", &other);
    check("tuned:packed=later.packed", 2, "version 2, and this Dyno reads version 1");
    let mut damaged = bytes.clone();
    let last = damaged.len() - 40;
    damaged[last] ^= 1;
    write(&folder, "damaged.packed", &damaged);
    check("tuned:packed=damaged.packed", 2, "is damaged: its SHA-256 is not the one");
    check("tuned:packed=digits.onnx", 2, "expected a packed model as `dyno tune pack` writes it");
    check("tuned:packed=none.packed", 3, "model none.packed does not exist");
    let both = "tuned:packed=digits.packed,formats=formats.txt";
    check(both, 2, "a packed model has its own formats");
    let mut model = Perceptron::trained().to_onnx();
    model.extend(*b"\x12\x00");
    write(&folder, "other.onnx", &model);
    let told = "was packed from a different model: digits.onnx has the SHA-256";
    check("tuned:packed=digits.packed,model=other.onnx", 2, told);
    folder.write("wrong.txt", "Gemm.wieght FIXED 5 0\n");
    let ran = folder.dyno("tune pack digits.onnx --formats wrong.txt").exits(2);
    assert!(ran.stderr.contains("the nearest is `Gemm.weight`"), "{}", ran.stderr);
    let ran = folder.dyno("tune pack digits.onnx --formats formats.txt --out no/such/x").exits(3);
    assert!(ran.stderr.contains("cannot write no/such/x"), "{}", ran.stderr);
}

/// Weights beside a model belong to its content: a job, shared evaluations and a packed file are
/// those of other weights after a change.
#[test]
fn changed_external_weights_are_noticed() {
    let folder = folder();
    let model = Model::read(&folder.0.join("digits.onnx")).unwrap();
    let files = model.write_external_above(&folder.0.join("ext.onnx"), 0).unwrap();
    let weights = files.weights.expect("weights beside the model");
    descriptor(&folder, "ext.toml", "");
    folder.write("ext.toml", &folder.read("ext.toml").replace("digits.onnx", "ext.onnx"));
    let tune = "tune run ext.toml --max-evaluations 3 --out";
    folder.dyno(&format!("{tune} first --evaluations shared.jsonl")).exits(1);
    let before = folder.read("shared.jsonl").lines().count();
    assert!(before > 0);
    folder.dyno("tune pack ext.onnx --formats formats.txt").exits(0);
    assert!(accuracy(&folder, "tuned:packed=ext.packed,model=ext.onnx") > 0.9);
    let mut bytes = std::fs::read(&weights).unwrap();
    bytes[3] ^= 0x80;
    std::fs::write(&weights, &bytes).unwrap();
    let ran = folder.dyno("tune run ext.toml --resume --out first").exits(2);
    assert!(ran.stderr.contains("the journal of another job: files was"), "{}", ran.stderr);
    folder.dyno(&format!("{tune} second --evaluations shared.jsonl")).exits(1);
    assert_eq!(folder.read("shared.jsonl").lines().count(), 2 * before, "nothing is shared");
    let ran = folder.dyno(&format!("run --system tuned:packed=ext.packed,model=ext.onnx {DATA}"));
    let ran = ran.exits(2);
    assert!(ran.stderr.contains("was packed from a different model"), "{}", ran.stderr);
}

/// The content of the validation set belongs to a job as well.
#[test]
fn changed_validation_labels_are_noticed() {
    let folder = crate::tuned::closed_folder();
    folder.dyno("tune run net.toml --max-evaluations 3 --out out").exits(1);
    let mut bytes = std::fs::read(folder.0.join("test-labels.npy")).unwrap();
    let last = bytes.len() - 8;
    bytes[last] = (bytes[last] + 1) % 10;
    write(&folder, "test-labels.npy", &bytes);
    let ran = folder.dyno("tune run net.toml --resume --out out").exits(2);
    assert!(ran.stderr.contains("the journal of another job: files was"), "{}", ran.stderr);
}

/// A device such as `/dev/zero` has no end.
#[cfg(target_os = "linux")]
#[test]
fn devices_are_refused_in_place_of_files() {
    let folder = folder();
    for command in [
        "tune run /dev/zero",
        "tune plot /dev/zero --out page.html",
        "tune emit /dev/zero",
        "tune layers /dev/zero",
        "tune profile /dev/zero --samples test.npy",
        "tune export /dev/zero --formats formats.txt",
        "tune pack /dev/zero --formats formats.txt",
        "tune compare /dev/zero --inputs test.npy --labels test-labels.npy",
        "run --system null --conf /dev/zero",
        "compare /dev/zero /dev/zero",
    ] {
        let ran = folder.dyno(command);
        assert!(ran.stderr.contains("is a device"), "{command}: {}", ran.stderr);
    }
}
