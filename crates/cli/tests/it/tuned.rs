//! Networks in number formats: as systems under test, tuned with the engine inside, as tables.

use dyno_sut::digits::{self, Perceptron};
use serde_json::Value;

use crate::probe::npy;
use crate::program::Folder;

pub fn write(folder: &Folder, name: &str, bytes: &[u8]) {
    std::fs::write(folder.0.join(name), bytes).unwrap();
}

/// Images of digits and their labels as files.
pub fn images(folder: &Folder, name: &str, digits: &[digits::Digit]) {
    let ink = digits.iter().flat_map(|digit| Perceptron::input(digit.pixels));
    let ink: Vec<u8> = ink.flat_map(f32::to_le_bytes).collect();
    write(folder, &format!("{name}.npy"), &npy("<f4", &format!("({}, 64)", digits.len()), &ink));
    let labels: Vec<u8> =
        digits.iter().flat_map(|digit| i64::from(digit.label).to_le_bytes()).collect();
    write(
        folder,
        &format!("{name}-labels.npy"),
        &npy("<i8", &format!("({},)", digits.len()), &labels),
    );
}

pub const FORMATS: &str = "Gemm.weight FIXED 5 0\nGemm.input FIXED 4 0\nGemm_1.weight FIXED 6 -1\n";

/// The built-in perceptron as a file, the test images, and formats.
pub fn folder() -> Folder {
    let folder = Folder::new();
    write(&folder, "digits.onnx", &Perceptron::trained().to_onnx());
    images(&folder, "test", &digits::test_digits().collect::<Vec<_>>());
    folder.write("formats.txt", FORMATS);
    folder
}

pub const DATA: &str = "--data test.npy --labels test-labels.npy";

/// The accuracy of a system on the test images, from a run.
pub fn accuracy(folder: &Folder, system: &str) -> f64 {
    let ran = folder
        .dyno(&format!("run --system {system} {DATA} --mode accuracy --scenario offline --json"));
    let told = ran.json();
    told["tests"][0]["accuracy"]["value"].as_f64().expect("labels are known")
}

#[test]
fn a_tuned_model_is_measured_in_all_scenarios() {
    let folder = folder();
    let system = "tuned:model=digits.onnx,formats=formats.txt";
    let command = format!(
        "run --system {system} {DATA} --scenario single-stream,multi-stream,server,offline --mode both --profile quick --duration 50ms --qps 200 --json"
    );
    let told = folder.dyno(&command).json();
    let tests = told["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 8, "four scenarios, accuracy and performance");
    let accuracies: Vec<_> =
        tests.iter().filter_map(|test| test["accuracy"]["value"].as_f64()).collect();
    assert_eq!(accuracies.len(), 4);
    assert!(accuracies.iter().all(|one| *one == accuracies[0] && *one > 0.9), "{accuracies:?}");
    let remarks = told["remarks"].to_string();
    // 3,072 weights of 5 bits and 480 of 6.
    assert!(remarks.contains("packed into 2280 bytes of 14208 in FLOAT 32"), "{remarks}");
    let why = "1 of 2 layers multiply whole numbers with exact sums (1 of 8 bits, 0 of 16): \
               Gemm_1 in f32: F32 of activations";
    assert!(remarks.contains(why), "{remarks}");
}

#[test]
fn without_formats_it_has_the_answers_of_the_model() {
    let folder = folder();
    let found = accuracy(&folder, "tuned:model=digits.onnx");
    assert_eq!(found, 519.0 / 540.0, "as the built-in perceptron");
}

#[test]
fn what_is_missing_or_misspelt_is_told() {
    let folder = folder();
    let check = |system: &str, code: i32, expected: &str| {
        let ran = folder.dyno(&format!("run --system {system} {DATA}")).exits(code);
        assert!(ran.stderr.contains(expected), "expected {expected:?} in\n{}", ran.stderr);
    };
    check("tuned:formats=formats.txt", 2, "needs a model");
    check("tuned:model=lenet.onnx", 3, "model lenet.onnx does not exist");
    check("tuned:model=digits.onnx,formats=conf.txt", 3, "formats file conf.txt does not exist");
    check("tuned:model=digits.onnx,lengths=none.npy", 3, "lengths file none.npy does not exist");
    check("tuned:model=digits.onnx,format=x", 2, "the nearest key is `formats`");
    folder.write("wrong.txt", "Gemm.wieght FIXED 5 0\n");
    let near = "there is no object `Gemm.wieght`; the nearest is `Gemm.weight`";
    check("tuned:model=digits.onnx,formats=wrong.txt", 2, near);
    folder.write("wrong.txt", "Gemm.weight FIXED 55\n");
    let line = "wrong.txt: line 1: Gemm.weight: expected 1 to 32 bits of FIXED, found 55";
    check("tuned:model=digits.onnx,formats=wrong.txt", 2, line);
}

/// Writes the descriptor of the perceptron with more lines.
pub fn descriptor(folder: &Folder, name: &str, lines: &str) {
    let text = format!(
        "layer_name = [\"Gemm\", \"Gemm_1\"]\nlayer_kind = [\"fc\", \"fc\"]\nwgt_size = [3072, 480]\n\
         act_size = [64, 48]\nwgt_max_abs = [1.0, 2.0]\nact_max_abs = [1.0, 8.0]\nerr_margin = 0.05\n\
         model = \"digits.onnx\"\nsamples = \"test.npy\"\nlabels = \"test-labels.npy\"\n\
         small_share = 0.2\n{lines}"
    );
    folder.write(name, &text);
}

fn told(folder: &Folder, out: &str) -> Value {
    serde_json::from_str(&folder.read(&format!("{out}/tune.json"))).unwrap()
}

/// Equal accuracies lead to equal decisions, wherever they come from; the tuned network is then measured.
#[test]
fn accuracy_runs_of_a_system_tune_as_the_engine_inside_does() {
    let folder = folder();
    descriptor(&folder, "inside.toml", "");
    let system = "system = \"tuned:model={model},formats={config}\"\n";
    descriptor(&folder, "played.toml", system);
    folder.dyno("tune run inside.toml --out inside -q --passes small --confirm none").exits(0);
    folder.dyno("tune run played.toml --out played -q --passes small").exits(0);
    let (inside, played) = (told(&folder, "inside"), told(&folder, "played"));
    assert_eq!(played["baselines"], inside["baselines"]);
    assert_eq!(played["answer"], inside["answer"]);
    assert_eq!(played["evaluations"], inside["evaluations"]);
    assert_ne!(inside["answer"]["formats"], Value::Null);
    let found = folder.read("played/opt_conf.txt");
    let of_weight = found.lines().find(|line| line.starts_with("Gemm.weight "));
    // FIXED or EXP of the same width is decided by a tenth of a percent of 108 images: what counts is how few bits.
    let words: Vec<&str> = of_weight.expect("a line of its own").split_whitespace().collect();
    assert!(words[1] != "FLOAT" && words[2].parse::<u32>().is_ok_and(|bits| bits <= 4), "{found}");
    // The answer is of the small set.
    let whole = accuracy(&folder, "tuned:model=digits.onnx,formats=played/opt_conf.txt");
    assert!(whole > 0.8, "{whole}");
}

#[test]
fn a_system_that_fails_ends_the_job_with_its_reason() {
    let folder = folder();
    descriptor(&folder, "played.toml", "system = \"tuned:model={model},format={config}\"\n");
    let ran = folder.dyno("tune run played.toml --out out").exits(4);
    assert!(ran.stderr.contains("unknown key `format`"), "{}", ran.stderr);
    descriptor(&folder, "played.toml", "system = \"tuned:model={model}\"\n");
    let ran = folder.dyno("tune run played.toml --out out2").exits(2);
    assert!(ran.stderr.contains("`system`: expected {config}"), "{}", ran.stderr);
}

/// Each file that a descriptor names is a prerequisite, as the descriptor itself.
#[test]
fn a_missing_file_of_a_descriptor_exits_with_3() {
    let folder = folder();
    descriptor(&folder, "net.toml", "");
    let whole = folder.read("net.toml");
    let check = |name: &str| {
        assert!(whole.contains(name), "{name}");
        let gone = format!("gone-{name}");
        folder.write("net.toml", &whole.replace(&format!("\"{name}\""), &format!("{gone:?}")));
        for command in ["tune run net.toml --out out", "tune plot net.toml"] {
            let ran = folder.dyno(command).exits(3);
            let expected = format!("/{gone}: No such file");
            assert!(ran.stderr.starts_with("error: cannot read "), "{command}: {}", ran.stderr);
            assert!(ran.stderr.contains(&expected), "{command}: {}", ran.stderr);
        }
    };
    ["digits.onnx", "test.npy", "test-labels.npy"].into_iter().for_each(check);
    assert!(!folder.0.join("out").exists());
}

/// A network of which closed mode has both sets.
pub fn closed_folder() -> Folder {
    let folder = folder();
    let train: Vec<digits::Digit> = digits::training_digits().collect();
    images(&folder, "calibration", &train[..200]);
    let text = "validation_samples = \"test.npy\"\nvalidation_labels = \"test-labels.npy\"\n";
    descriptor(&folder, "net.toml", text);
    let net = folder.read("net.toml");
    let net = net.replace("\nsamples = \"test", "\nsamples = \"calibration");
    folder.write("net.toml", &net.replace("\nlabels = \"test", "\nlabels = \"calibration"));
    folder
}

#[test]
fn closed_mode_has_arrays_as_its_calibration_and_validation_sets() {
    let folder = closed_folder();
    let ran = folder.dyno("tune run net.toml --closed current --small-share 0.4 --out out --json");
    let found = ran.json();
    let sets = found["provenance"]["sets"].as_array().unwrap();
    let counts: Vec<usize> =
        sets.iter().map(|set| set["samples"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [80, 120, 540]);
    assert_eq!(sets[2]["samples"][7]["name"], "test.npy[7]");
    let hashes = sets.iter().flat_map(|set| set["samples"].as_array().unwrap());
    assert!(hashes.map(|of| of["sha256"].as_str().unwrap().len()).all(|length| length == 64));
    assert_eq!(found["evaluations"]["confirmation"], 2, "FLOAT 32, and the answer");
    assert_eq!(found["baselines"]["confirmation"]["accuracy"], 519.0 / 540.0);
    let confirmed = found["confirmed_accuracy"].as_f64().unwrap();
    folder.write("answer.txt", &folder.read("out/opt_conf.txt"));
    let measured = accuracy(&folder, "tuned:model=digits.onnx,formats=answer.txt");
    assert_eq!(confirmed, measured, "the accuracy run of the answer");
    assert_eq!(found["job"]["err_margin"], 0.01);
    // By an image of the validation set nothing may be chosen.
    images(&folder, "calibration", &digits::test_digits().take(50).collect::<Vec<_>>());
    let ran = folder.dyno("tune run net.toml --closed current --out other").exits(2);
    assert!(ran.stderr.contains("formats may not be chosen by it"), "{}", ran.stderr);
    descriptor(&folder, "open.toml", "");
    let ran = folder.dyno("tune run open.toml --closed current --out open").exits(2);
    assert!(ran.stderr.contains("--closed needs `validation_samples`"), "{}", ran.stderr);
}

/// A latency is another number each time; what was measured of a configuration once stays it.
#[test]
fn measured_latencies_are_taken_from_the_journal() {
    let folder = folder();
    descriptor(&folder, "net.toml", "f_obj = \"latency\"\n");
    let begun = folder.dyno("tune run net.toml --out out --max-evaluations 6 --json").exits(1);
    let begun = begun.json();
    let base = begun["base_objective"].as_f64().unwrap();
    assert!(base >= 1.0, "nanoseconds: {base}");
    let again = folder.dyno("tune run net.toml --out out --resume --max-evaluations 9 --json");
    let again = again.json();
    assert_eq!(again["recalled"], 6);
    assert_eq!(again["base_objective"], begun["base_objective"]);
    let (first, second) = (&begun["points"], &again["points"]);
    for (one, other) in first.as_array().unwrap().iter().zip(second.as_array().unwrap()) {
        assert_eq!(one["objective"], other["objective"]);
        assert!(one["objective"].as_f64().unwrap() > 0.0);
    }
    // On all sets, each configuration has one latency.
    let journal = folder.read("out/journal.jsonl");
    let lines: Vec<Value> =
        journal.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    for one in &lines {
        for other in lines.iter().filter(|other| other["slots"] == one["slots"]) {
            assert_eq!(one["result"]["latency_ns"], other["result"]["latency_ns"]);
        }
    }
}

#[test]
fn layers_are_a_table_for_simulators() {
    let folder = folder();
    let ran = folder.dyno("tune layers digits.onnx --formats formats.txt").exits(0);
    let expected = "\
idx,name,type,groups,m,cin_g,rs,cout_g,macs,weight_bytes,in_act_bytes,out_act_bytes,weights_scale_with_batch,weight_bits,in_act_bits,out_act_bits
0,Gemm,fc,1,1,64,1,48,3072,1920,32,96,0,5,4,16
1,Gemm_1,fc,1,1,48,1,10,480,360,96,20,0,6,16,16
";
    assert_eq!(ran.stdout, expected);
    folder.write("wrong.txt", "Gemm2.weight FIXED 5 0\n");
    let ran = folder.dyno("tune layers digits.onnx --formats wrong.txt").exits(2);
    assert!(ran.stderr.contains("the nearest is `Gemm.weight`"), "{}", ran.stderr);
}

/// A page with the formats of another network would show them beside the curves of this one.
#[test]
fn a_plot_rejects_formats_and_jobs_of_other_networks() {
    let folder = folder();
    descriptor(&folder, "net.toml", "name = \"digits\"\n");
    folder.write("other.txt", "conv9.weight FIXED 5 0\n");
    let refused = folder.dyno("tune plot net.toml --formats other.txt").exits(2).stderr;
    assert!(refused.contains("other.txt: there is no object `conv9.weight`"), "{refused}");
    std::fs::create_dir(folder.0.join("job")).unwrap();
    folder.write("job/opt_conf.txt", FORMATS);
    let write_job = |layers: &str| {
        let points = r#"[{"set": "small", "formats": "I4(0)", "bits": 8.0, "accuracy": 0.9}]"#;
        let job = format!("{{\"network\": \"lenet\", \"layers\": {layers}}}");
        let document = format!(
            "{{\"schema\": \"dyno.tune\", \"job\": {job}, \"points\": {points}, \"samples\": {{}}}}"
        );
        folder.write("job/tune.json", &document);
    };
    write_job(r#"[{"name": "conv9"}]"#);
    let refused = folder.dyno("tune plot net.toml --tuned job").exits(2).stderr;
    let expected =
        "expected a job with the layers of `digits`, found a job of `lenet` with other layers";
    assert!(refused.contains(expected), "{refused}");
    write_job(r#"[{"name": "Gemm"}, {"name": "Gemm_1"}]"#);
    folder.dyno("tune plot net.toml --tuned job --out page.html").exits(0);
}
