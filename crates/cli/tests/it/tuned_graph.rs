//! Networks that are no chain, tuned through the program; and their trials as jobs.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Weights};
use serde_json::Value;

use crate::probe::npy;
use crate::program::{Folder, Ran};
use crate::schema;
use crate::tuned::{self, write};

/// Words of so many letters, each of so many numbers.
const LETTERS: usize = 5;
const WIDE: usize = 6;
const COUNT: usize = 160;

/// Words through a GRU and, beside it, the means of their letters: both together are the answer.
fn network() -> Result<Vec<u8>, BuildError> {
    let mut net = Builder::new("words", Weights::seeded(11));
    let word = [Dim::symbol("N"), LETTERS.into(), WIDE.into()];
    let x = net.input("words", Element::F32, &word);
    let steps = net.node("Transpose", &[&x], &[("perm", [1, 0, 2].into())])?;
    let inputs = net.weight("gru.W", &[1, 24, WIDE], Fill::Uniform(0.9))?;
    let states = net.weight("gru.R", &[1, 24, 8], Fill::Uniform(0.6))?;
    let choices = [("hidden_size", 8_i64.into()), ("linear_before_reset", 1_i64.into())];
    let [_, last] = net.nodes("GRU", &[&steps, &inputs, &states], &choices)?;
    let first = net.integers(&[0]);
    let heard = net.node("Squeeze", &[&last, &first], &[])?;
    let means =
        net.node("ReduceMean", &[&x], &[("axes", [1].into()), ("keepdims", 0_i64.into())])?;
    let weight = net.weight("means.weight", &[WIDE, 8], Fill::even(WIDE))?;
    let means = net.node("MatMul", &[&means, &weight], &[])?;
    let both = net.node("Add", &[&heard, &means], &[])?;
    let weight = net.weight("scores.weight", &[8, 4], Fill::even(8))?;
    let scores = net.node("MatMul", &[&both, &weight], &[])?;
    net.output("scores", &scores)?;
    Ok(net.finish().to_bytes().unwrap())
}

pub fn folder() -> Folder {
    let folder = Folder::new();
    write(&folder, "words.onnx", &network().unwrap());
    let mut state = 5_u32;
    let numbers = (0..COUNT * LETTERS * WIDE).flat_map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0).to_le_bytes()
    });
    let numbers: Vec<u8> = numbers.collect();
    write(&folder, "words.npy", &npy("<f4", &format!("({COUNT}, {LETTERS}, {WIDE})"), &numbers));
    let layers = folder.dyno("tune profile words.onnx --samples words.npy").exits(0).stdout;
    let more = "err_margin = 0.1\nmodel = \"words.onnx\"\nsamples = \"words.npy\"\n\
                agreement = \"top\"\nsmall_share = 0.25\n";
    folder.write("words.toml", &(layers + more));
    folder
}

/// What `dyno tune trial` makes of these formats.
fn trial(folder: &Folder, descriptor: &str, formats: &Value) -> Ran {
    let document = serde_json::json!({
        "schema": "dyno.trial", "schema_version": 1, "number": 3, "set": "full", "formats": formats,
    });
    folder.write("trial.json", &document.to_string());
    let mut command = folder.command(&format!("tune trial {descriptor}"));
    command.stdin(std::fs::File::open(folder.0.join("trial.json")).unwrap());
    command.output().unwrap().into()
}

/// Formats of a configuration file as a trial has them.
fn formats(text: &str) -> Value {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let of = |line: &str| {
        let (object, format) = line.split_once(' ').unwrap();
        (object.to_owned(), Value::from(format))
    };
    Value::Object(lines.map(of).collect())
}

#[test]
fn a_recurrent_graph_with_branches_is_tuned() {
    let folder = folder();
    let ran = folder.dyno("tune run words.toml --out out").exits(0);
    assert!(ran.stdout.contains("FLOAT 32 has 1, the limit is 0.90000"), "{}", ran.stdout);
    let told = schema::keeps_to(&folder, "out", "tune");
    assert_eq!(told["state"], "complete");
    assert_eq!(told["job"]["agreement"], "top");
    let layers = told["answer"]["layers"].as_array().unwrap();
    let names: Vec<&str> = layers.iter().map(|layer| layer["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gru", "gru.R", "means", "scores"]);
    // The state of eight numbers comes to its weights once a step.
    let text = folder.read("words.toml");
    assert!(text.contains("act_size = [30, 40, 6, 8]"), "{text}");
    let found = folder.read("out/opt_conf.txt");
    for object in ["gru.weight", "gru.R.weight", "gru.R.input", "means.weight", "scores.input"] {
        let line = found.lines().find(|line| line.starts_with(&format!("{object} ")));
        let line = line.unwrap_or_else(|| panic!("{object} in {found}"));
        assert!(line.contains("FIXED") || line.contains("EXP"), "{line}");
    }
    let accuracy = told["answer"]["accuracy"].as_f64().unwrap();
    assert!((0.9..=1.0).contains(&accuracy), "{accuracy}");
    let sizes = [&told["answer"]["objective"], &told["base_objective"]];
    let [answer, base] = sizes.map(|bits| bits.as_f64().unwrap());
    assert!(answer < base / 4.0, "{answer} bits of {base}");
    assert!(folder.read("out/report.html").contains("<h2>A format for each layer</h2>"));
    let again = trial(&folder, "words.toml", &formats(&found)).exits(0).json();
    assert_eq!(
        again["result"]["accuracy"], told["answer"]["accuracy"],
        "the agreement is measured"
    );
    assert_eq!(again["result"]["samples"], COUNT);
}

#[test]
fn trials_of_models_are_evaluated_in_the_process() {
    let folder = folder();
    let found = trial(&folder, "words.toml", &serde_json::json!({})).exits(0).json();
    assert_eq!(found["result"]["accuracy"], 1.0, "FLOAT 32 agrees with itself");
    let coarse = serde_json::json!({"gru.weight": "FIXED 2 0", "scores.weight": "FIXED 2 0"});
    let found = trial(&folder, "words.toml", &coarse).exits(0).json();
    assert!(found["result"]["accuracy"].as_f64().unwrap() < 1.0, "{found}");
    assert_eq!((&found["number"], &found["set"]), (&3.into(), &"full".into()));
    let unknown = serde_json::json!({"gru.wieght": "FIXED 2 0"});
    let refused = trial(&folder, "words.toml", &unknown).exits(2);
    let near = "there is no object `gru.wieght`; the nearest is `gru.weight`";
    assert!(refused.stderr.contains(near), "{}", refused.stderr);
}

#[test]
fn trials_of_systems_are_played() {
    let folder = tuned::folder();
    tuned::descriptor(&folder, "inside.toml", "");
    let system = "system = \"tuned:model={model},formats={config}\"\n";
    tuned::descriptor(&folder, "played.toml", system);
    let formats = formats(tuned::FORMATS);
    let accuracy = |descriptor: &str| {
        trial(&folder, descriptor, &formats).exits(0).json()["result"]["accuracy"].clone()
    };
    let played = accuracy("played.toml");
    assert_eq!(played, accuracy("inside.toml"));
    let run = tuned::accuracy(&folder, "tuned:model=digits.onnx,formats=formats.txt");
    assert_eq!(played, run, "that of an accuracy run");
    let refused = trial(&folder, "played.toml", &serde_json::json!({"x.weight": "FIXED 2 0"}));
    let refused = refused.exits(4);
    assert!(refused.stderr.contains("there is no object `x.weight`"), "{}", refused.stderr);
}
