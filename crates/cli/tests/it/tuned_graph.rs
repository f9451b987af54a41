//! Networks that are no chain, tuned through the program; and their trials as jobs.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Name, Weights};
use serde_json::Value;

use crate::probe::npy;
use crate::program::{Folder, ProgramResult};
use crate::schema;
use crate::tuned::{self, write};
use crate::tuned_files;

/// Words of so many letters, each of so many numbers.
const LETTERS: usize = 5;
const WIDE: usize = 6;
const COUNT: usize = 160;

/// The last state of a GRU that is fed samples first.
fn heard(net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
    let steps = net.node("Transpose", &[x], &[("perm", [1, 0, 2].into())])?;
    let inputs = net.weight("gru.W", &[1, 24, WIDE], Fill::Uniform(0.9))?;
    let states = net.weight("gru.R", &[1, 24, 8], Fill::Uniform(0.6))?;
    let choices = [("hidden_size", 8_i64.into()), ("linear_before_reset", 1_i64.into())];
    let [_, last] = net.nodes("GRU", &[&steps, &inputs, &states], &choices)?;
    let first = net.integers(&[0]);
    net.node("Squeeze", &[&last, &first], &[])
}

/// Words through a GRU and, beside it, the means of their letters: both together are the answer.
fn network() -> Result<Vec<u8>, BuildError> {
    let mut net = Builder::new("words", Weights::seeded(11));
    let word = [Dim::symbol("N"), LETTERS.into(), WIDE.into()];
    let x = net.input("words", Element::F32, &word);
    let heard = heard(&mut net, &x)?;
    let means =
        net.node("ReduceMean", &[&x], &[("axes", [1].into()), ("keepdims", 0_i64.into())])?;
    let weight = net.weight("means.weight", &[WIDE, 8], Fill::lecun(WIDE))?;
    let means = net.node("MatMul", &[&means, &weight], &[])?;
    let both = net.node("Add", &[&heard, &means], &[])?;
    let weight = net.weight("scores.weight", &[8, 4], Fill::lecun(8))?;
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
fn trial(folder: &Folder, descriptor: &str, formats: &Value) -> ProgramResult {
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
    let ran = folder.dyno("tune run words.toml --out out --confirm none").exits(0);
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
    assert!(folder.read("out/report.html").contains("<h2>Formats by layer</h2>"));
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

/// No format of a layer that only a second output needs changes an accuracy, so that the search would
/// give it the fewest bits.
#[test]
fn layers_of_other_outputs_are_rejected() {
    let model = || -> Result<Vec<u8>, BuildError> {
        let mut net = Builder::new("heads", Weights::seeded(3));
        let shape = [Dim::symbol("N"), LETTERS.into(), WIDE.into()];
        let x = net.input("words", Element::F32, &shape);
        let weight = net.weight("first.weight", &[WIDE, 4], Fill::lecun(WIDE))?;
        let first = net.node("MatMul", &[&x, &weight], &[])?;
        // Labels need one list of scores.
        let first = net.node("Flatten", &[&first], &[])?;
        let weight = net.weight("second.weight", &[WIDE, 4], Fill::lecun(WIDE))?;
        let second = net.node("MatMul", &[&x, &weight], &[])?;
        // The engine does not support this operator, and does not need it.
        let second = net.node("Sin", &[&second], &[])?;
        net.output("first", &first)?;
        net.output("second", &second)?;
        Ok(net.finish().to_bytes().unwrap())
    };
    let folder = folder();
    write(&folder, "heads.onnx", &model().unwrap());
    let profile = folder.dyno("tune profile heads.onnx --samples words.npy").exits(0);
    assert!(profile.stdout.contains("layer_name = [\"first\"]"), "{}", profile.stdout);
    assert!(profile.stderr.contains("left out: second"), "{}", profile.stderr);
    let more = "err_margin = 0.1\nmodel = \"heads.onnx\"\nsamples = \"words.npy\"\n\
                agreement = \"top\"\n";
    folder.write("first.toml", &(profile.stdout.clone() + more));
    folder.dyno("tune run first.toml --out first --confirm none").exits(0);
    folder.write("second.toml", &(profile.stdout.replace("\"first\"", "\"second\"") + more));
    let refused = folder.dyno("tune run second.toml --out second").exits(2);
    let expected = "the first output of the model does not depend on `second.weight`";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    // The same engine evaluates, as a system.
    let zeros = vec![0_u8; COUNT];
    write(&folder, "labels.npy", &npy("|u1", &format!("({COUNT},)"), &zeros));
    let labels = "labels = \"labels.npy\"\nsystem = \"tuned:model={model},formats={config}\"\n";
    let second = folder.read("second.toml").replace("agreement = \"top\"\n", labels);
    folder.write("played.toml", &second);
    let refused = folder.dyno("tune run played.toml --out played").exits(2);
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(!folder.0.join("played").exists());
    let refused = trial(&folder, "first.toml", &serde_json::json!({"second.input": "FIXED 2 0"}));
    let refused = refused.exits(2);
    assert!(refused.stderr.contains("does not depend on `second.input`"), "{}", refused.stderr);
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

/// Letters by their numbers, padded: a table, a GRU, and the scores of its last state.
fn spoken() -> Result<Vec<u8>, BuildError> {
    let mut net = Builder::new("letters", Weights::seeded(7));
    let word = [Dim::symbol("N"), Dim::symbol("T")];
    let letters = net.input("letters", Element::I64, &word);
    let table = net.weight("table.weight", &[9, WIDE], Fill::Uniform(1.0))?;
    let x = net.node("Gather", &[&table, &letters], &[])?;
    let last = heard(&mut net, &x)?;
    let weight = net.weight("scores.weight", &[8, 4], Fill::lecun(8))?;
    let scores = net.node("MatMul", &[&last, &weight], &[])?;
    net.output("scores", &scores)?;
    Ok(net.finish().to_bytes().unwrap())
}

/// Whole numbers as an array of NumPy.
fn whole(folder: &Folder, name: &str, shape: &str, numbers: impl Iterator<Item = i64>) {
    write(
        folder,
        name,
        &npy("<i8", shape, &numbers.flat_map(i64::to_le_bytes).collect::<Vec<_>>()),
    );
}

/// Words of `T` letters at most and how long they are, beside the folder of words of numbers.
pub fn with_letters() -> Folder {
    let folder = folder();
    write(&folder, "letters.onnx", &spoken().unwrap());
    let numbers = (0..COUNT * LETTERS).map(|at| (at * at / 3 % 9) as i64);
    whole(&folder, "letters.npy", &format!("({COUNT}, {LETTERS})"), numbers);
    let lengths = (0..COUNT).map(|at| 1 + (at * 7 % LETTERS) as i64);
    whole(&folder, "lengths.npy", &format!("({COUNT},)"), lengths);
    let profile = "tune profile letters.onnx --samples letters.npy --lengths lengths.npy";
    let layers = folder.dyno(profile).exits(0).stdout;
    let more = "err_margin = 0.1\nmodel = \"letters.onnx\"\nsamples = \"letters.npy\"\n\
                lengths = \"lengths.npy\"\nagreement = \"top\"\nsmall_share = 0.25\n";
    folder.write("letters.toml", &(layers + more));
    folder
}

/// The answer to each sample, as an accuracy run leaves it.
pub fn answers(folder: &Folder, system: &str, data: &str) -> Vec<Vec<f32>> {
    let out = format!("played-{}", folder.0.read_dir().unwrap().count());
    let played = format!(
        "run --system {system} --data {data} --mode accuracy --scenario offline --out {out}"
    );
    folder.dyno(&played).exits(0);
    let path = tuned_files::walk(&folder.0.join(out), "mlperf_log_accuracy.json");
    let text = std::fs::read_to_string(path.expect("an accuracy run leaves answers")).unwrap();
    let told: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut found = vec![Vec::new(); COUNT];
    for line in told {
        let bytes: Vec<u8> = line["data"]
            .as_str()
            .unwrap()
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let numbers = bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word));
        found[line["qsl_idx"].as_u64().unwrap() as usize] = numbers.collect();
    }
    found
}

/// The first of the greatest.
fn top(scores: &[f32]) -> i64 {
    let greater = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (1..scores.len()).fold(0, greater) as i64
}

/// What the tuner evaluates is what is measured: the agreement with FLOAT 32 of a trial is the accuracy of a run
/// whose labels are the answers of FLOAT 32, as a model with formats and as a packed file, samples padded or not.
#[test]
fn tuned_graphs_are_measured_as_they_were_evaluated() {
    let folder = with_letters();
    let text = "gru.weight FIXED 3 0\ngru.input FIXED 3 0\ngru.R.weight EXP 3 3\nscores.weight FIXED 2 0\n";
    folder.write("words.txt", text);
    folder.write("letters.txt", &format!("{text}table.weight FIXED 2 0\n"));
    for (name, lengths) in [("words", ""), ("letters", ",lengths=lengths.npy")] {
        let data = format!("{name}.npy");
        let base = answers(&folder, &format!("tuned:model={name}.onnx{lengths}"), &data);
        assert!(base.iter().all(|scores| scores.len() == 4), "four scores each");
        let labels = base.iter().map(|scores| top(scores));
        whole(&folder, "labels.npy", &format!("({COUNT},)"), labels);
        let formats = format!("{name}.txt");
        let trial = trial(&folder, &format!("{name}.toml"), &formats_of(&folder, &formats));
        let expected = trial.exits(0).json()["result"]["accuracy"].as_f64().unwrap();
        assert!(expected < 1.0, "{name}: formats that change an answer");
        let pack = format!("tune pack {name}.onnx --formats {formats}");
        let told = folder.dyno(&pack).exits(0).stdout;
        assert!(told.contains("gru.R"), "{told}");
        let systems = [
            format!("tuned:model={name}.onnx,formats={formats}{lengths}"),
            format!("tuned:packed={name}.packed,model={name}.onnx{lengths}"),
        ];
        for system in &systems {
            let all = "--scenario single-stream,multi-stream,server,offline --mode both --profile quick \
                       --duration 50ms --qps 100";
            let command =
                format!("run --system {system} --data {data} --labels labels.npy {all} --json");
            let told = folder.dyno(&command).json();
            let tests = told["tests"].as_array().unwrap();
            let found: Vec<f64> =
                tests.iter().filter_map(|test| test["accuracy"]["value"].as_f64()).collect();
            assert_eq!((tests.len(), found), (8, vec![expected; 4]), "{system}");
            let remarks = told["remarks"].to_string();
            let why = "layers multiply whole numbers with exact sums";
            assert!(remarks.contains(why), "{remarks}");
        }
        let [plain, packed] = systems.map(|system| answers(&folder, &system, &data));
        assert!(plain == packed, "{name}: the same to the bit");
    }
    let refused =
        folder.dyno("run --system tuned:packed=letters.packed,model=words.onnx --data letters.npy");
    assert!(refused.exits(2).stderr.contains("was packed from a different model"));
    let refused = folder.dyno("run --system tuned:model=letters.onnx,lengths=lengths.npy").exits(2);
    assert!(refused.stderr.contains("lengths need samples"), "{}", refused.stderr);
    whole(&folder, "beyond.npy", &format!("({COUNT},)"), (0..COUNT as i64).map(|at| at + 1));
    let system = "run --system tuned:model=letters.onnx,lengths=beyond.npy --data letters.npy";
    let refused = folder.dyno(system).exits(2);
    let expected = "beyond.npy: expected lengths from 1 to 5, found 6";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    whole(&folder, "other.npy", "(1, 3)", [1, 9, 0].into_iter());
    let refused = folder.dyno("run --system tuned:model=letters.onnx --data other.npy").exits(3);
    let expected = "the model fails on sample 0: Gather (Gather_0) has no row 9 of 9";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    let table = folder.dyno("tune layers letters.onnx --formats letters.txt --bind T=5").exits(0);
    assert!(table.stdout.contains(",table,gather,"), "{}", table.stdout);
    assert!(table.stderr.contains("left out: GRU"), "{}", table.stderr);
}

fn formats_of(folder: &Folder, name: &str) -> Value {
    formats(&folder.read(name))
}

#[test]
fn a_graph_has_a_latency() {
    let folder = with_letters();
    let text = folder.read("letters.toml");
    folder.write("letters.toml", &format!("f_obj = \"latency\"\n{text}"));
    let told = folder.dyno("tune run letters.toml --out out --max-evaluations 6 --json").exits(1);
    let base = told.json()["base_objective"].as_f64().unwrap();
    assert!(base >= 1.0, "nanoseconds: {base}");
}
