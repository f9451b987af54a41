//! The verdict about a margin, the direction of metrics, and data that are checked before a search.

use dyno_number::network::SCORED_METHODS;
use dyno_onnx::{Element, Model, Tensor};
use dyno_sut::digits;
use serde_json::Value;

use crate::probe::npy;
use crate::program::Folder;
use crate::schema;
use crate::tuned::{self, descriptor, images, write};

fn told(folder: &Folder, out: &str) -> Value {
    serde_json::from_str(&folder.read(&format!("{out}/tune.json"))).unwrap()
}

/// Half of the 540 test images are held out: enough for 5 %, and too few for 1 %.
#[test]
fn the_margin_is_confirmed_or_undecided_with_the_number_that_is_needed() {
    let folder = tuned::folder();
    descriptor(&folder, "net.toml", "");
    let ran = folder.dyno("tune run net.toml --out out").exits(0);
    assert!(
        ran.stdout.contains("VALID: at most 5 % of the accuracy is lost, with 95 %"),
        "{}",
        ran.stdout
    );
    let found = schema::keeps_to(&folder, "out", "tune");
    let confirmation = &found["confirmation"];
    assert_eq!(
        (&confirmation["verdict"], &confirmation["held_out"]),
        (&"VALID".into(), &270.into())
    );
    assert_eq!(found["samples"]["full"], 270, "the search has the others");
    assert!(confirmation["proven_margin"].as_f64().unwrap() <= 0.05);
    let looks = confirmation["looks"].as_array().unwrap();
    let last = looks.iter().rfind(|look| look["confirmed"] == true).unwrap();
    assert_eq!(
        last["objective"], found["answer"]["objective"],
        "the answer is the last that passed"
    );
    assert!(folder.read("out/report.html").contains("VALID: at most 5 %"));
    let ends = found["restart_objectives"].as_array().unwrap();
    assert!(ends.len() > 2, "{ends:?}");

    let ran = folder.dyno("tune run net.toml --margin 0.01 --out few").exits(1);
    assert!(ran.stdout.contains("UNDECIDED: "), "{}", ran.stdout);
    let found = told(&folder, "few");
    assert_eq!(found["confirmation"]["verdict"], "UNDECIDED");
    // ln 0.025 / ln 0.99
    assert!((367..=375).contains(&found["confirmation"]["needed"].as_u64().unwrap()));
    assert_eq!(found["samples"]["full"], 540, "no sample is held out for nothing");
    let ran = folder.dyno("tune run net.toml --margin 0.01 --out none --confirm none").exits(0);
    assert!(ran.stdout.contains("the margin is not confirmed"), "{}", ran.stdout);
    assert_eq!(told(&folder, "none")["confirmation"], Value::Null);
}

/// A program that prints the result of each sample is confirmed; one that prints an accuracy alone is
/// never said to be.
#[test]
fn a_program_is_confirmed_by_results_of_samples() {
    let folder = Folder::new();
    let script = r#"/^#/ || $2 == "FLOAT" { next } $3 < least { least = $3 } BEGIN { least = 32 }
END { for (at = 0; at < 400; at++) { right = !(least < 4 && at % 5 == 0); sum += right
      if (ENVIRON["DYNO_NUMBER_SET"] == "confirmation") print "sample", right }
      printf "accuracy = %.5f\n", sum / 400 }"#;
    folder.write("net.awk", script);
    let base = "layer_name = [\"a\"]\nwgt_size = [500]\nact_size = [784]\nwgt_max_abs = [0.9]\n\
                act_max_abs = [0.9]\nerr_margin = 0.05\ncmd_fullset = \"awk -f net.awk {config}\"\n\
                get_result_regex = 'accuracy = ([0-9.]+)'\n";
    folder.write("alone.toml", base);
    let ran = folder.dyno("tune run alone.toml --out alone").exits(0);
    assert!(
        !ran.stdout.contains("VALID") && ran.stdout.contains("not confirmed"),
        "{}",
        ran.stdout
    );
    let ran = folder.dyno("tune run alone.toml --out other --confirm held-out").exits(2);
    assert!(ran.stderr.contains("get_sample_regex"), "{}", ran.stderr);
    // The command of the search, with the results of the search, confirms nothing.
    let more =
        "cmd_confirmation = \"awk -f net.awk {config}\"\nget_sample_regex = 'sample ([01])'\n";
    folder.write("net.toml", &format!("{base}{more}"));
    let ran = folder.dyno("tune run net.toml --out same").exits(1);
    assert!(!ran.stdout.contains(" VALID"), "{}", ran.stdout);
    let more = more.replace("\"awk", "\"awk -v of=test");
    folder.write("net.toml", &format!("{base}{more}"));
    let ran = folder.dyno("tune run net.toml --out out").exits(0);
    assert!(ran.stdout.contains("VALID: at most 5 %"), "{}", ran.stdout);
    assert!(folder.read("out/opt_conf.txt").contains("a.weight FIXED 4"));
    folder.write("net.toml", &format!("{base}get_sample_regex = 'sample ([01])'\n"));
    let ran = folder.dyno("tune run net.toml --out third").exits(2);
    assert!(ran.stderr.contains("`cmd_confirmation`"), "{}", ran.stderr);
}

/// A word error rate is a sum of errors over a sum of words. Its samples are the errors of sentences:
/// at most one in FLOAT 32, and two in narrow formats.
#[test]
fn a_word_error_rate_is_confirmed_by_errors_of_sentences() {
    let folder = Folder::new();
    folder.write(
        "net.awk",
        "/^#/ || $2 == \"FLOAT\" { next }\n$3 < 6 { lost += 6 - $3 }\n\
         END { for (at = 0; at < n; at++) { found = at % 2 + (at % 2 && at < 2 * lost); sum += found\n\
         print \"sentence\", found }\nprintf \"wer = %.6f\\n\", sum / (10 * n) }\n",
    );
    let base = "layer_name = [\"a\"]\nwgt_size = [500]\nact_size = [784]\nwgt_max_abs = [0.9]\n\
                act_max_abs = [0.9]\nerr_margin = 0.05\nget_result_regex = 'wer = ([0-9.]+)'\n\
                get_sample_regex = 'sentence ([0-9])'\n\
                cmd_fullset = \"awk -v n=1500 -f net.awk {config}\"\n\
                cmd_confirmation = \"awk -v n=2000 -f net.awk {config}\"\n";
    folder.write("net.toml", base);
    folder.dyno("tune run net.toml --out out").exits(0);
    let found = told(&folder, "out");
    let sentence = found["confirmation"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("VALID: the error rises by at most 5 %"), "{sentence}");
    assert!(
        sentence.ends_with("if no other sample is worse than the worst of these"),
        "{sentence}"
    );
    // A program that prints a part of its samples in FLOAT 32, and all in other formats.
    folder.write("some.awk", &folder.read("net.awk").replace("print", "if (at % 3 || lost) print"));
    folder.write("net.toml", &base.replace("n=2000 -f net.awk", "n=2000 -f some.awk"));
    let ran = folder.dyno("tune run net.toml --out some").exits(4);
    assert!(ran.stderr.contains("expected results of"), "{}", ran.stderr);
}

/// Results of samples of which the first ones are lost are no results of fewer samples.
#[test]
fn results_of_samples_are_read_as_a_whole() {
    let folder = Folder::new();
    folder.write(
        "net.awk",
        "END { for (at = 0; at < 400; at++) print \"sample\", 1\nprint \"accuracy = 1.0\" }\n",
    );
    folder.write(
        "long.sh",
        "head -c 34000000 /dev/zero | tr '\\0' '.'\necho\nawk -f net.awk \"$1\"\n",
    );
    let base = "layer_name = [\"a\"]\nwgt_size = [500]\nact_size = [784]\nwgt_max_abs = [0.9]\n\
                act_max_abs = [0.9]\nerr_margin = 0.05\ncmd_fullset = \"awk -f net.awk {config}\"\n\
                cmd_confirmation = \"sh long.sh {config}\"\n\
                get_result_regex = 'accuracy = ([0-9.]+)'\nget_sample_regex = 'sample ([01])'\n";
    folder.write("net.toml", base);
    let ran = folder.dyno("tune run net.toml --out out").exits(4);
    assert!(ran.stderr.contains("printed more than 16777216 bytes"), "{}", ran.stderr);
}

/// FLOAT 32 is evaluated, and there is nothing of its accuracy to keep.
#[test]
fn a_job_without_an_answer_has_no_best_result() {
    let folder = Folder::new();
    let base = "layer_name = [\"a\"]\nwgt_size = [500]\nact_size = [784]\nwgt_max_abs = [0.9]\n\
                act_max_abs = [0.9]\ncmd_fullset = \"echo accuracy = 0 {config}\"\n\
                get_result_regex = 'accuracy = ([0-9.]+)'\n";
    folder.write("net.toml", base);
    let ran = folder.dyno("tune run net.toml --out out").exits(4);
    for line in
        ["There is no answer.", "1 configuration was evaluated", "ended by a failure; --resume"]
    {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("answer was chosen"), "{}", ran.stdout);
    assert!(folder.read("out/report.html").contains("There is no answer."));
}

/// A program that prints one accuracy whatever its formats are has not read them, so nothing is
/// confirmed.
#[test]
fn a_program_that_ignores_its_formats_confirms_nothing() {
    let folder = Folder::new();
    let base = "layer_name = [\"a\"]\nwgt_size = [500]\nact_size = [784]\nwgt_max_abs = [0.9]\n\
                act_max_abs = [0.9]\nerr_margin = 0.05\n\
                get_result_regex = 'accuracy = ([0-9.]+)'\n";
    let alone = format!("{base}cmd_fullset = \"echo accuracy = 98.0; : {{config}}\"\n");
    folder.write("alone.toml", &alone);
    let ran = folder.dyno("tune run alone.toml --out alone").exits(1);
    assert!(ran.stdout.contains("UNDECIDED"), "{}", ran.stdout);
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ").replace(" │ │ ", " ");
    assert!(text.contains("does not seem to read {config}"), "{}", ran.stdout);
    assert!(text.contains("is it a percentage?"), "{}", ran.stdout);
    let found = schema::keeps_to(&folder, "alone", "tune");
    assert_eq!(found["confirmation"]["verdict"], "UNDECIDED");
    // Results of samples do not help, because they are those of FLOAT 32.
    let script = "for at in $(seq 400); do echo sample 1; done; echo accuracy = 1.0\n";
    folder.write("net.sh", script);
    let more = "cmd_fullset = \"sh net.sh {config}\"\ncmd_confirmation = \"sh net.sh {config}\"\n\
                get_sample_regex = 'sample ([01])'\n";
    folder.write("net.toml", &format!("{base}{more}"));
    let ran = folder.dyno("tune run net.toml --out out").exits(1);
    assert!(ran.stdout.contains("UNDECIDED") && !ran.stdout.contains("VALID:"), "{}", ran.stdout);
}

/// An error rate is made no larger, and is never taken for an accuracy.
#[test]
fn an_error_rate_is_not_maximized() {
    let folder = Folder::new();
    folder.write(
        "wer.awk",
        "/^#/ || $2 == \"FLOAT\" && $3 == 32 { next }\n$3 < 6 { bad += 6 - $3 }\n\
         END { printf \"result = %.5f\\n\", 7.4 + 2 * bad }\n",
    );
    let base = "layer_name = [\"a\", \"b\"]\nwgt_size = [500, 25_000]\nact_size = [784, 2_880]\n\
                wgt_max_abs = [0.9, 0.9]\nact_max_abs = [0.9, 3.9]\nerr_margin = 0.01\n\
                cmd_fullset = \"awk -f wer.awk {config}\"\n";
    let regex = |name: &str| format!("{base}get_result_regex = '{name} = ([0-9.]+)'\n");
    folder.write("net.toml", &regex("result"));
    let ran = folder.dyno("tune run net.toml --out out").exits(2);
    assert!(ran.stderr.contains("write `direction = \"higher\"`"), "{}", ran.stderr);
    folder.write("net.toml", &format!("{}metric = \"wer\"\n", regex("result")));
    let ran = folder.dyno("tune run net.toml --out out").exits(0);
    assert!(
        ran.stdout.contains("wer 7.4 on the full set; FLOAT 32 has 7.4, the limit is 7.47400"),
        "{}",
        ran.stdout
    );
    let found = told(&folder, "out");
    assert_eq!((&found["direction"], &found["answer"]["accuracy"]), (&"lower".into(), &7.4.into()));
    let layers = found["answer"]["layers"].as_array().unwrap();
    assert!(layers.iter().all(|layer| layer["weight_bits"] == 6), "{layers:?}");
    let whys = found["steps"].to_string();
    assert!(whys.contains("is above 7.474") && !whys.contains("-7.4"), "{whys}");
    // The words of the pattern name an error rate as well.
    let script = folder.read("wer.awk").replace("result", "error rate");
    folder.write("wer.awk", &script);
    folder.write("net.toml", &regex("error rate"));
    folder.dyno("tune run net.toml --out words").exits(0);
    assert_eq!(told(&folder, "words")["answer"]["accuracy"], 7.4);
    let script = folder.read("wer.awk").replace("error rate", "result");
    folder.write("wer.awk", &script);
    // Called an accuracy, it rises far above that of FLOAT 32, also if the descriptor names it so.
    folder.write("net.toml", &format!("{}metric = \"accuracy\"\n", regex("result")));
    let ran = folder.dyno("tune run net.toml --out metric").exits(4);
    assert!(ran.stderr.contains("as an error rate would be"), "{}", ran.stderr);
    let script = folder.read("wer.awk").replace("result", "accuracy");
    folder.write("wer.awk", &script);
    folder.write("net.toml", &regex("accuracy"));
    let ran = folder.dyno("tune run net.toml --out rises").exits(4);
    assert!(ran.stderr.contains("as an error rate would be"), "{}", ran.stderr);
    folder.write("net.toml", &format!("name = \"wer\"\n{}", regex("accuracy")));
    let ran = folder.dyno("tune run net.toml --out named").exits(2);
    assert!(ran.stderr.contains("of an accuracy and of an error rate"), "{}", ran.stderr);
}

/// The tuner knows each method of `dyno task score` and its figures.
#[test]
fn methods_of_task_score_are_known_to_the_tuner() {
    let names: Vec<&str> = dyno_metrics::METHODS.iter().map(|method| method.name).collect();
    let known: Vec<&str> = SCORED_METHODS.iter().map(|(name, _)| *name).collect();
    assert_eq!(known, names);
}

/// Data that cannot be right are rejected before anything is evaluated.
#[test]
fn data_are_checked_before_the_search() {
    let folder = tuned::folder();
    descriptor(&folder, "net.toml", "");
    let all: Vec<digits::Digit> = digits::test_digits().collect();
    let labels: Vec<i64> = all.iter().map(|digit| i64::from(digit.label)).collect();
    let with_labels = |labels: &[i64]| {
        let bytes: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
        write(&folder, "test-labels.npy", &npy("<i8", &format!("({},)", labels.len()), &bytes));
        folder.dyno("tune run net.toml --out out").exits(2).stderr
    };
    // Each label is that of another sample.
    let shuffled: Vec<i64> =
        (0..labels.len()).map(|at| labels[(at * 7 + 3) % labels.len()]).collect();
    let told = with_labels(&shuffled);
    assert!(told.contains("and chance has 0.") && told.contains("nothing was searched"), "{told}");
    let told = with_labels(&vec![3; labels.len()]);
    assert!(told.contains("All labels are of one class"), "{told}");
    let mut beyond = labels.clone();
    beyond[17] = 10;
    let told = with_labels(&beyond);
    assert!(told.contains("labels below 10") && told.contains("10 for sample 17"), "{told}");
    let ran = folder.dyno("tune run net.toml --objective w_bits*0 --out zero").exits(2);
    assert!(ran.stderr.contains("is 0 for FLOAT 32; expected a positive"), "{}", ran.stderr);
    let told = with_labels(&labels[..539]);
    assert!(told.contains("a label for each of the 540 samples"), "{told}");
    images(&folder, "test", &all);
    descriptor(
        &folder,
        "seen.toml",
        "validation_samples = \"test.npy\"\nvalidation_labels = \"test-labels.npy\"\n",
    );
    let told = folder.dyno("tune run seen.toml --out out").exits(2).stderr;
    assert!(told.contains("test.npy: sample 0 is also among the samples of the search"), "{told}");
    let mut bytes = std::fs::read(folder.0.join("test.npy")).unwrap();
    let first = bytes.len() - 540 * 64 * 4;
    for sample in [41, 300] {
        let at = first + (sample * 64 + 5) * 4;
        bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    }
    write(&folder, "test.npy", &bytes);
    let told = folder.dyno("tune run net.toml --out out").exits(2).stderr;
    assert!(told.contains("sample 41 has NaN at its position 5; so has 1 other: 300"), "{told}");
}

/// A sample that occurs twice with different labels is named before the search.
#[test]
fn copies_with_other_labels_are_named() {
    let folder = tuned::folder();
    let mut all: Vec<digits::Digit> = digits::test_digits().collect();
    let seventh = all[7];
    all.push(digits::Digit { label: (seventh.label + 1) % 10, ..seventh });
    images(&folder, "test", &all);
    descriptor(&folder, "net.toml", "");
    let ran = folder.dyno("tune run net.toml --passes small --out out");
    let expected = "test.npy: sample 540 has the values of sample 7 and another label";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    let remarks = told(&folder, "out")["remarks"].clone();
    assert!(remarks[0].as_str().is_some_and(|first| first.contains(expected)), "{remarks}");
    let ran = folder.dyno("tune run net.toml --passes small --out quiet -q");
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
}

/// A model that answers with NaN is named, and its labels are not.
#[test]
fn a_model_that_answers_with_nan_is_rejected() {
    let folder = tuned::folder();
    descriptor(&folder, "net.toml", "");
    set_biases(&folder, f32::NAN);
    let told = folder.dyno("tune run net.toml --out out").exits(2).stderr;
    assert!(told.contains("of `samples` has NaN") && !told.contains("the order of"), "{told}");
}

/// Gives all biases of the model the same value.
fn set_biases(folder: &Folder, value: f32) {
    let path = folder.0.join("digits.onnx");
    let mut model = Model::read(&path).unwrap();
    let is_bias = |tensor: &&mut Tensor| tensor.element == Element::F32 && tensor.shape.len() == 1;
    for tensor in model.tensors.iter_mut().filter(is_bias) {
        let biases = vec![value; tensor.shape[0]];
        *tensor = Tensor::from_f32(tensor.name.clone(), &[biases.len()], &biases);
    }
    model.write(&path).unwrap();
}

/// A descriptor with infinite magnitudes would be rejected, so none is printed.
#[test]
fn infinite_magnitudes_are_not_profiled() {
    let folder = tuned::folder();
    folder.dyno("tune profile digits.onnx --samples test.npy").exits(0);
    set_biases(&folder, f32::INFINITY);
    let ran = folder.dyno("tune profile digits.onnx --samples test.npy").exits(2);
    assert!(ran.stderr.contains("reach infinity") && ran.stdout.is_empty(), "{}", ran.stderr);
}

/// Options that would be ignored are rejected.
#[test]
fn options_without_an_effect_are_rejected() {
    let folder = tuned::folder();
    descriptor(&folder, "net.toml", "");
    descriptor(&folder, "played.toml", "system = \"tuned:model={model},formats={config}\"\n");
    for (options, expected) in [
        ("net.toml --restarts 3 --passes small", "--restarts has no effect: restarts use all"),
        ("net.toml --restarts 3 --algorithm stripes", "only the algorithm libnumber restarts"),
        (
            "played.toml --evaluations all.jsonl",
            "--evaluations has no effect: only the built-in engine",
        ),
    ] {
        let ran = folder.dyno(&format!("tune run {options} --out out")).exits(2);
        assert!(ran.stderr.contains(expected), "{options}: {}", ran.stderr);
    }
    assert!(!folder.0.join("out").exists());
}

/// Held-out samples whose labels belong to other samples confirm nothing.
#[test]
fn labels_of_held_out_samples_are_checked_as_well() {
    let folder = tuned::closed_folder();
    let all: Vec<i64> = digits::test_digits().map(|digit| i64::from(digit.label)).collect();
    let with_moved = |most: usize| {
        let label = |at: usize| all[if at < most { (at * 7 + 3) % all.len() } else { at }];
        let bytes: Vec<u8> = (0..all.len()).flat_map(|at| label(at).to_le_bytes()).collect();
        write(&folder, "test-labels.npy", &npy("<i8", &format!("({},)", all.len()), &bytes));
    };
    with_moved(all.len());
    for closed in ["", " --closed current"] {
        let ran = folder.dyno(&format!("tune run net.toml{closed} --out chance")).exits(2);
        let expected = "540 held-out samples, and chance has 0.";
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(ran.stderr.contains("the order of `validation_labels`"), "{}", ran.stderr);
    }
    // Above chance, but provably far below the samples of the search.
    with_moved(all.len() / 2);
    for (closed, out) in [("", "half"), (" --closed current", "half-closed")] {
        folder.dyno(&format!("tune run net.toml{closed} --restarts 0 --out {out}")).exits(1);
        let found = told(&folder, out);
        assert_eq!(found["confirmation"]["verdict"], "UNDECIDED");
        let sentence = found["confirmation"]["sentence"].as_str().unwrap();
        assert!(sentence.contains("on 540 held-out samples, far below the"), "{sentence}");
        let accuracy = found["baselines"]["confirmation"]["accuracy"].as_f64().unwrap();
        assert!(accuracy < 0.6, "{accuracy}");
    }
    with_moved(0);
    let ran = folder.dyno("tune run net.toml --restarts 0 --out right");
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ").replace(" │ │ ", " ");
    assert!(text.contains("on the 540 held-out samples, and"), "{}", ran.stdout);
}

/// An accuracy that is taken for an error seems to fall far below that of FLOAT 32.
#[test]
fn an_accuracy_is_not_minimized() {
    let folder = Folder::new();
    folder.write(
        "net.awk",
        "/^#/ || $2 == \"FLOAT\" { next }\n$3 < 6 { bad += 6 - $3 }\n\
         END { printf \"result = %.5f\\n\", 0.95 / (1 + 2 * bad) }\n",
    );
    let base = "layer_name = [\"a\", \"b\"]\nwgt_size = [500, 25_000]\nact_size = [784, 2_880]\n\
                wgt_max_abs = [0.9, 0.9]\nact_max_abs = [0.9, 3.9]\nerr_margin = 0.01\n\
                cmd_fullset = \"awk -f net.awk {config}\"\nmetric = \"loss\"\n\
                get_result_regex = 'result = ([0-9.]+)'\n";
    folder.write("net.toml", base);
    let ran = folder.dyno("tune run net.toml --out out").exits(4);
    assert!(ran.stderr.contains("as an accuracy would be"), "{}", ran.stderr);
    folder.write("net.toml", &format!("{base}direction = \"lower\"\n"));
    folder.dyno("tune run net.toml --out stated").exits(0);
}

/// Labels that are whole numbers count as such, whatever their type is.
#[test]
fn whole_labels_may_be_floats() {
    let folder = tuned::folder();
    descriptor(&folder, "net.toml", "");
    let with_offset = |offset: f64| {
        let labels = digits::test_digits().map(|digit| f64::from(digit.label) + offset);
        let bytes: Vec<u8> = labels.flat_map(f64::to_le_bytes).collect();
        write(&folder, "test-labels.npy", &npy("<f8", "(540,)", &bytes));
    };
    with_offset(0.0);
    folder.dyno("tune run net.toml --passes small --confirm none -q --out whole").exits(0);
    with_offset(0.5);
    let ran = folder.dyno("tune run net.toml --out half").exits(2);
    assert!(ran.stderr.contains("expected whole numbers of at least 0; found"), "{}", ran.stderr);
    // Whether each sample is of one class is no class.
    let flags: Vec<u8> = digits::test_digits().map(|digit| u8::from(digit.label == 1)).collect();
    write(&folder, "test-labels.npy", &npy("|b1", "(540,)", &flags));
    let ran = folder.dyno("tune run net.toml --out bool").exits(2);
    assert!(ran.stderr.contains("found bool; save array.astype('int64')"), "{}", ran.stderr);
}
