//! Tasks from the command line: list, cards, requirements, runs.

use dyno_sut::digits::Perceptron;
use serde_json::Value;

use crate::program::Folder;

#[test]
fn every_task_is_listed_with_its_tier_and_its_state() {
    let folder = Folder::new();
    let listed = folder.dyno("task list --cache cache").exits(0).stdout;
    for told in [
        "real: ",
        "shape: ",
        "official: ",
        "  digits: ",
        "      built in",
        "dyno fetch mnist: 17.1 MB",
    ] {
        assert!(listed.contains(told), "{told} is not in\n{listed}");
    }
    let json = folder.dyno("task list --cache cache --json").exits(0).stdout;
    let tasks: Vec<Value> = serde_json::from_str(&json).unwrap();
    for task in &tasks {
        let is_shape = task["tier"] == "shape";
        assert_eq!(task["metric"].is_null(), is_shape, "{}", task["name"]);
        assert_eq!(task["parameters"].is_null(), !is_shape, "{}", task["name"]);
    }
}

#[test]
fn a_card_has_targets_and_bounds_of_the_newest_round() {
    let shown = Folder::new().dyno("task show resnet50 --cache cache").exits(0).stdout;
    for told in ["at least 75.6954 in round v6.1", "Server within 15.0 ms", "val_map"] {
        assert!(shown.contains(told), "{told} is not in\n{shown}");
    }
}

#[test]
fn a_task_runs_as_a_system_and_meets_the_target_of_its_card() {
    let folder = Folder::new();
    let run = "task run digits --scenario SingleStream --mode accuracy --json --no-progress";
    let summary: Value = serde_json::from_str(&folder.dyno(run).exits(0).stdout).unwrap();
    assert_eq!(summary["system"], "task:digits");
    assert_eq!(summary["tests"][0]["accuracy"]["target"], 0.9515);
    let refused = folder.dyno("task run digits --system null").exits(2).stderr;
    assert!(
        refused.contains("the task is the system; --system cannot be combined with it"),
        "{refused}"
    );
}

#[test]
fn what_is_missing_is_named_before_anything_is_measured() {
    let folder = Folder::new();
    let missing = folder.dyno("task run mnist").exits(3).stderr;
    assert!(missing.contains("mnist.pkl.gz (training, validation and test images"), "{missing}");
    assert!(missing.contains("hint: dyno fetch mnist"), "{missing}");
    let other = folder.dyno("task run mnist --with modle=x").exits(2).stderr;
    assert!(other.contains("no file `modle`; its files are model, images"), "{other}");
    let search = folder.dyno("task run gnmt").exits(3).stderr;
    assert!(search.contains("`decoder`: ONNX file: decoder step: the last piece"), "{search}");
    let own = folder.dyno("task run bert").exits(3).stderr;
    for file in ["`model`: model.onnx", "`dataset`: dev-v1.1.json", "`vocabulary`: vocab.txt"] {
        assert!(own.contains(file), "{own}");
    }
    let refused = folder.dyno("run --system null --with model=x").exits(2).stderr;
    assert!(refused.contains("--with has no effect on system `null`"), "{refused}");
    let unknown = folder.dyno("task run mnis").exits(2).stderr;
    assert!(unknown.contains("did you mean mnist?"), "{unknown}");
    for far in ["task run nope", "task show nope", "fetch nope --cache cache"] {
        let unknown = folder.dyno(far).exits(2).stderr;
        assert!(unknown.contains("hint: dyno task list shows all tasks"), "{far}: {unknown}");
    }
}

#[test]
fn fetch_says_what_it_cannot_get() {
    let folder = Folder::new();
    let missing = folder.dyno("fetch qonnx --from . --cache cache").exits(3).stderr;
    assert!(missing.contains("no wheel of qonnx 1.0.0 in ."), "{missing}");
    let own = folder.dyno("fetch resnet50 --cache cache").exits(3).stderr;
    assert!(own.contains("no package contains model of task resnet50"), "{own}");
    let built_in = folder.dyno("fetch digits --cache cache").exits(0).stderr;
    assert!(built_in.contains("needs no download"), "{built_in}");
    let unknown = folder.dyno("fetch mnit --cache cache").exits(2).stderr;
    assert!(unknown.contains("did you mean mnist?"), "{unknown}");
}

#[test]
fn a_model_is_the_reference_or_is_told_why_not() {
    let folder = Folder::new();
    let reference = Perceptron::trained().to_onnx();
    let mut pruned = reference.clone();
    // In the midst of the first layer's weights.
    let middle = pruned.len() / 2;
    pruned[middle..middle + 400].fill(0);
    for (name, bytes) in [("reference.onnx", &reference), ("pruned.onnx", &pruned)] {
        std::fs::write(folder.0.join(name), bytes).unwrap();
    }
    let compare = |arguments: &str| {
        folder.dyno(&format!("task equivalence {arguments} --reference reference.onnx"))
    };
    let same = compare("reference.onnx").exits(0).stdout;
    assert!(
        same.starts_with("verdict       closed\nbecause       the model contains all 4 weights"),
        "{same}"
    );
    let found: Value =
        serde_json::from_str(&compare("pruned.onnx --json").exits(1).stdout).unwrap();
    assert_eq!(found["verdict"], "restricted-retraining");
    assert!(found["tensors"][0]["away"]["pruned"].as_u64().unwrap() > 90, "{found}");
    folder.write("found.json", &found.to_string());
    let run = "run --system onnx:reference.onnx --equivalence found.json";
    let other = folder.dyno(run).exits(3).stderr;
    assert!(other.contains("it describes the model pruned.onnx, SHA-256"), "{other}");
    let none = folder.dyno("run --equivalence found.json").exits(3).stderr;
    assert!(none.contains("the system is not a single ONNX model"), "{none}");
    let text = compare("pruned.onnx --beams 4 --reference-beams 10").exits(1).stdout;
    assert!(text.contains("4 beams in the search, 10 in the reference"), "{text}");
    assert!(text.contains("including pruning"), "{text}");
    std::fs::write(folder.0.join("cut.onnx"), &reference[..100]).unwrap();
    let cut = compare("cut.onnx").exits(3).stderr;
    assert!(cut.contains("the weights of the model cannot be compared"), "{cut}");
    let absent = compare("nowhere.onnx").exits(3).stderr;
    assert!(absent.contains("model nowhere.onnx does not exist"), "{absent}");
}

#[test]
fn a_run_states_the_division_it_could_be_submitted_to() {
    let folder = Folder::new();
    let stated = |arguments: &str, exit: i32| -> Value {
        let run = format!("run {arguments} --json --no-progress --mode accuracy");
        let summary = folder.dyno(&run).exits(exit).json();
        summary["division"].clone()
    };
    let digits = stated("--system task:digits --scenario SingleStream", 0);
    assert_eq!(digits["could_be"], "none");
    let why = digits["reasons"].to_string();
    assert!(why.contains("task digits is of tier real"), "{why}");
    assert!(why.contains("no round is selected"), "{why}");
    let simulated = "--system model:fixed=1us --round v5.1 --benchmark resnet --scenario Offline";
    // Answers without labels cannot be judged by the round's accuracy.
    let simulated = stated(simulated, 1);
    assert_eq!(simulated["reasons"], serde_json::json!(["the system is simulated"]));
    folder.write("other.json", "{}");
    let refused = folder.dyno("run --equivalence other.json").exits(3).stderr;
    assert!(refused.contains("expected the output of dyno task equivalence --json"), "{refused}");
}

#[test]
fn a_model_with_other_data_is_for_no_division() {
    let Some(folder) = crate::probe::with_model() else { return };
    let run = "run --system onnx:digits.onnx --data ink.npy --labels labels.npy --round v5.1 \
               --benchmark resnet --scenario SingleStream --mode accuracy --json --no-progress \
               --set performance_sample_count_override=0";
    let summary: Value = serde_json::from_str(&folder.dyno(run).stdout).unwrap();
    let division = &summary["division"];
    assert_eq!(division["could_be"], "none", "{division}");
    let reasons = division["reasons"].to_string();
    assert!(reasons.contains("ink has 4 samples"), "{reasons}");
}

#[test]
fn layers_are_told_with_their_operations_and_bytes() {
    let folder = Folder::new();
    let json = folder.dyno("task layers resnet50-shape --json").exits(0).json();
    assert_eq!(json["parameters"], 25_557_032);
    let layers = json["layers"].as_array().unwrap();
    let sum: u64 = layers
        .iter()
        .map(|of| of["operations"].as_u64().unwrap() * of["times"].as_u64().unwrap())
        .sum();
    assert_eq!(json["operations"], sum);
    assert_eq!(json["uncounted"].as_array().unwrap().len(), 0);
    let top = folder.dyno("task layers resnet50-shape --top 3").exits(0).stdout;
    assert_eq!(top.lines().take_while(|line| !line.is_empty()).count(), 4, "{top}");
    assert!(top.contains("25.56 M parameters, 8.18 G operations for one input"), "{top}");
    folder.write("bad.onnx", "hello");
    let bad = folder.dyno("task layers bad.onnx").exits(2).stderr;
    assert!(bad.contains("bad.onnx: expected an ONNX model"), "{bad}");
    let unknown = folder.dyno("task layers resnet5").exits(2).stderr;
    assert!(unknown.contains("did you mean resnet50?"), "{unknown}");
}
