//! Checks that cannot pass by mistake: options without effect, invalid data, undefined shapes, and
//! requirements that are judged by their intervals.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Weights};
use dyno_sut::digits;
use serde_json::Value;

use crate::probe::npy;
use crate::program::Folder;
use crate::tuned::{self, DATA, write};

/// A run and its dry run are rejected alike.
#[track_caller]
fn check_rejected(folder: &Folder, arguments: &str, code: i32, expected: &str) {
    for command in [format!("run {arguments}"), format!("run {arguments} --dry-run")] {
        let ran = folder.dyno(&command).exits(code);
        assert!(ran.stderr.contains(expected), "{command}: {expected:?} in\n{}", ran.stderr);
    }
    assert!(!folder.0.join("runs").exists(), "{arguments}: something was run");
}

const SHORT: &str = "--duration 50ms --set min_query_count=70";

#[test]
fn a_target_that_is_not_held_is_an_error() {
    let folder = tuned::folder();
    let tuned = "--system tuned:model=digits.onnx --data test.npy --scenario SingleStream";
    let no_labels = "--accuracy-target has no effect: no answer is scored, because no labels are \
                     given";
    check_rejected(&folder, &format!("{tuned} --accuracy-target 0.9"), 2, no_labels);
    let no_test = "--accuracy-target has no effect: this run has no accuracy test";
    let labels = "--labels test-labels.npy";
    let asked = "--mode performance --accuracy-target 0.9";
    check_rejected(&folder, &format!("{tuned} {labels} {asked}"), 2, no_test);
    check_rejected(&folder, "--mode peak --accuracy-target 0.9", 2, no_test);
    check_rejected(&folder, "--system null --accuracy-target 0.9", 2, "has no answers to score");
    // Also in a file, and a flag that makes the key useless does not excuse it.
    let head = "version = 1\n[run]\nsystem = \"tuned:model=digits.onnx\"\ndata = \"test.npy\"\n\
                scenario = [\"SingleStream\"]\nduration = \"50ms\"\naccuracy_target = 0.5\n";
    folder.write("gate3.toml", &format!("{head}mode = \"both\"\n"));
    let line = "gate3.toml:7: `accuracy_target` has no effect";
    check_rejected(&folder, "--config gate3.toml", 2, line);
    folder.write("gate.toml", &format!("{head}mode = \"both\"\nlabels = \"test-labels.npy\"\n"));
    let narrowed = "--config gate.toml --mode performance";
    check_rejected(&folder, narrowed, 2, "gate.toml:7: `accuracy_target` has no effect");
    let ran = folder.dyno(&format!("run --config gate.toml {SHORT} --json"));
    assert_eq!(ran.json()["tests"][0]["accuracy"]["target"], 0.5, "{}", ran.stderr);
}

/// A model whose first dimension is 1.
fn fixed_batch(folder: &Folder) {
    let mut net = Builder::new("fixed", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[1.into(), 4.into()]);
    let weight = net.weight("fc1.weight", &[4, 3], Fill::he(4)).unwrap();
    let y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
    net.output("y", &y).unwrap();
    net.finish().write(&folder.0.join("fixed.onnx")).unwrap();
}

/// Other commands reject what they would ignore, and numbers that nothing can have.
#[test]
fn settings_of_other_commands_without_effect_are_rejected() {
    let folder = tuned::folder();
    tuned::descriptor(&folder, "net.toml", "");
    let compare = "tune compare digits.onnx --inputs test.npy --labels test-labels.npy";
    let npu = "npu run RN BB --seq 16";
    let explain = "rnn explain lstm:64x256 --predict";
    for (arguments, expected) in [
        ("tune run net.toml --confirm none --held-out .2".to_owned(), "--held-out has no effect"),
        (format!("{compare} --calibration 0"), "expected a number of at least 1"),
        (format!("{npu} --block-time 100us"), "--block-time has no effect"),
        (format!("{npu} --block-bytes 10000"), "--block-bytes has no effect"),
        (format!("{npu} --blocks fused --block-time 100us"), "--block-time has no effect"),
        (format!("{explain} --chunk 0"), "--chunk: expected a number of at least 1"),
        (format!("{explain} --chunk 100000"), "more than the 100 steps"),
        (format!("{explain} --threads 99999"), "cores of the machine"),
    ] {
        let ran = folder.dyno(&arguments).exits(2);
        assert!(ran.stderr.contains(expected), "{arguments}: {expected:?} in\n{}", ran.stderr);
    }
}

#[test]
fn options_without_effect_are_rejected_before_the_run() {
    let folder = tuned::folder();
    let check = |arguments: &str, expected: &str| check_rejected(&folder, arguments, 2, expected);
    let short = "--scenario Offline --mode performance";
    check(&format!("{short} --qps 5"), "--qps has no effect: it belongs to Server");
    check(&format!("{short} --request-rate 5"), "--request-rate has no effect: it belongs to");
    check("--mode accuracy --duration 5s", "--duration has no effect: this run has no perf");
    check("--mode accuracy --records all", "--records has no effect");
    check("--mode accuracy --goodput e2el:5", "--goodput has no effect");
    check("--goodput ttft:5", "--goodput has no effect: system `digits` reports no tokens");
    check("--batch 8 --scenario SingleStream", "--batch has no effect: without --workers");
    check("--batch-wait 1ms --scenario Server", "--batch-wait has no effect");
    let alone = "a batch of one sample does not wait for others";
    check("--system model:fixed=1ms --batch-wait 1ms", alone);
    check("--batch 1 --workers 1 --batch-wait 1ms --scenario Server", alone);
    check("--batch Server=8 --scenario Offline", "--batch has no effect: this run has Offline");
    fixed_batch(&folder);
    check("--system rnn:fixed.onnx --batch 8", "--batch has no effect: the model takes one sample");
    check("--system rnn:lstm:3x4,verify=off", "verify=off has no effect: only whole ONNX models");
    check("--system null --workers 2", "--workers has no effect on system `null`");
    check("--system null --batch 2", "--batch has no effect on system `null`");
    check("--samples 5", "--samples has no effect on system `digits`");
    check(
        "--system tuned:model=digits.onnx --data test.npy --samples 5",
        "--samples has no effect: all samples of --data are used",
    );
    check(
        "--system tuned:model=digits.onnx --model digits.onnx",
        "--model has no effect: the system names its model",
    );
    let performance = format!("--system tuned:model=digits.onnx {DATA} --mode performance");
    check(&performance, "--labels has no effect: this run has no accuracy test");
    check("--ort-lib x.so", "--ort-lib has no effect on system `digits`");
    check("--shape x=1x2", "--shape has no effect on system `digits`");
    check(
        "--system tuned:model=digits.onnx --data test.npy --shape 1x64",
        "--shape has no effect: --data gives the samples",
    );
    check("--scenario Offline --set server_target_latency_ns=5ms", "it belongs to Server");
    check("--system openai:http://127.0.0.1:1 --model m", "add model=NAME to the URL");
    check("--system raw:http://127.0.0.1:1/,streams=4", "streams= has no effect");
    check("--system openai:http://127.0.0.1:1,groups=4", "groups= has no effect");
    check("--system openai:http://127.0.0.1:1 --accuracy-target 0.5", "no reference answers");
}

#[test]
fn settings_that_depend_on_others_are_rejected_without_them() {
    let folder = Folder::new();
    let check = |arguments: &str, expected: &str| check_rejected(&folder, arguments, 2, expected);
    let server = "--system model:fixed=1ms --scenario Server --mode performance";
    let offline = "--system model:fixed=1ms --scenario Offline --mode performance";
    let other = "it belongs to Server, and this run has Offline only";
    check(&format!("{offline} --set Server.min_query_count=5"), other);
    check(&format!("{offline} --set server_target_qps=5"), other);
    check(
        &format!("{server} --set Offline.server_target_qps=5"),
        "server_target_qps has no effect in Offline",
    );
    for rate in ["--qps 5", "--set server_target_qps=5"] {
        let closed = format!("{server} --set server_arrivals=concurrency:4 {rate}");
        check(&closed, "a fixed concurrency and recorded times have no rate");
    }
    for (setting, why) in [
        ("performance_issue_same_index=1", "performance_issue_same is false"),
        ("test05_qsl_rng_seed=1", "test05 is false"),
        ("token_latency_scaling_factor=2", "infer_token_latencies is false"),
        ("accuracy_log_rng_seed=1", "logs no responses"),
        (
            "accuracy_log_probability=0.1 --set accuracy_log_sampling_target=5",
            "accuracy_log_sampling_target replaces the share",
        ),
        ("accuracy_sample_count_override=5", "no accuracy test"),
        ("server_find_peak_qps_decimals_of_precision=2", "search for the peak"),
        ("early_stopping_confidence=0.9 --set early_stopping=never", "early_stopping is never"),
    ] {
        check(&format!("{server} --set {setting}"), why);
    }
    check(&format!("{offline} --set schedule_rng_seed=5"), "no arrival time of this run is random");
    check("--mode accuracy --set min_query_count=5", "this run has no performance test");
    check(&format!("{server} --fail-fast on"), "a run in virtual time does not end early");
    check(&format!("{server} --conf-model resnet5"), "the nearest name is `resnet50`");
    check(&format!("{server} --deadline 0s"), "expected a time above 0");
}

#[test]
fn bounds_that_no_test_judges_are_rejected() {
    let folder = Folder::new();
    let check = |arguments: &str, expected: &str| check_rejected(&folder, arguments, 2, expected);
    let run = "--scenario Server --mode performance --qps 100";
    let ttft = "--set server_ttft_latency=1us";
    let missing = |system: &str| {
        format!("--set server_ttft_latency has no effect: system `{system}` reports no tokens")
    };
    check(&format!("--system model:fixed=1ms {run} {ttft}"), &missing("model"));
    let whole = "--system openai:http://127.0.0.1:1,model=m,stream=false";
    let planned = folder.dyno(&format!("run {whole} {run} {ttft} --dry-run")).exits(2);
    assert!(planned.stderr.contains(&missing("openai")), "{}", planned.stderr);
    let tokens = "--system model:fixed=1ms,tokens=5-20,per-token=50us";
    let off = "server_ttft_latency has no effect: use_token_latencies is false";
    check(&format!("{tokens} {run} {ttft}"), off);
    let replaced = "--set server_target_latency_ns=1us --require ttft.p50<=1s";
    let in_parts = "server_target_latency_ns has no effect: answers come in parts";
    check(&format!("{tokens} {run} {replaced}"), in_parts);
    // Also in files, and for a tenant.
    let head = "version = 1\n[run]\nsystem = \"model:fixed=1ms\"\nscenario = \"Server\"\n\
                mode = \"performance\"\nduration = \"1s\"\n";
    folder.write("run.toml", &format!("{head}[settings]\nserver_ttft_latency = \"1us\"\n"));
    check("--config run.toml", "run.toml:8: `server_ttft_latency` has no effect");
    let tenant = "[[tenants]]\nname = \"a\"\n[tenants.settings]\nserver_ttft_latency = \"1us\"\n";
    folder.write("tenant.toml", &format!("{head}{tenant}"));
    check("--config tenant.toml", "tenant.toml:10: `server_ttft_latency` has no effect");
    let points = "--scenario Server --mode performance --over qps=100,200 --dry-run";
    let swept = folder.dyno(&format!("sweep --system model:fixed=1ms {points} {ttft}")).exits(2);
    assert!(swept.stderr.contains(&missing("model")), "{}", swept.stderr);
    // Bounds that are judged.
    let judged = format!("{tokens} {run} {ttft} --set use_token_latencies=true --duration 1s");
    let ran = folder.dyno(&format!("run {judged} --json --out out")).exits(1).json();
    assert_eq!(ran["tests"][0]["plan"]["first_token_bound_ns"], 1000, "{ran}");
    // The file of a run has no other bound, such as that of its profile.
    folder.dyno("run --config out/effective.toml --out again").exits(1);
    let none = "[settings]\nserver_ttft_latency = 1152921504606846976\n";
    folder.write("none.toml", &format!("{head}{none}"));
    folder.dyno("run --config none.toml --dry-run").exits(0);
}

/// Server's accuracy test has arrivals, too. At LoadGen's default of 1/s, it takes a second per sample.
#[test]
fn accuracy_tests_of_server_have_a_rate_that_suits_the_system() {
    let folder = Folder::new();
    let run = "run --scenario Server --mode accuracy";
    let plan = folder.dyno(&format!("{run} --dry-run")).exits(0).stdout;
    assert!(plan.contains("server_target_qps is determined by a short probe"), "{plan}");
    let ran = folder.dyno(&format!("{run} --json")).json();
    let rate = ran["tests"][0]["plan"]["target_qps"].as_f64().unwrap();
    assert!(rate > 1.0, "{ran}");
}

#[test]
fn of_different_values_by_two_flags_neither_is_chosen() {
    let folder = Folder::new();
    let check = |arguments: &str, expected: &str| check_rejected(&folder, arguments, 2, expected);
    let server = "--system model:fixed=1ms --scenario Server --mode performance";
    check(
        &format!("{server} --qps 5 --set server_target_qps=6"),
        "server_target_qps is 6 here and 5 by flag --qps; keep one",
    );
    check(&format!("{server} --duration 1s --set min_duration_ms=2s"), "1000 by flag --duration");
    // Scripts append to commands: the last value of a flag counts.
    folder.dyno(&format!("run {server} --qps 5 --qps 6 --dry-run")).exits(0);
    let twice = "is given twice";
    check("--system model:fixed=1ms,servers=2,servers=3", twice);
    check("--system raw:http://127.0.0.1:1/,timeout=1s,timeout=2s", twice);
    check("--system oip:http://127.0.0.1:1/m,version=1,version=2", twice);
    check("--system model:fixed=1ms,exponential=1ms", "expected one service time");
    check("--system model:fixed=1ms,sigma=2", "it is the spread of lognormal=TIME");
    check("--system model:fixed=1ms,per-token=2us", "answers have no tokens");
    let openai = "--system openai:http://127.0.0.1:1";
    check(&format!("{openai},output=5,max-tokens=6"), "limits the tokens of an answer");
    check(&format!("{openai},stream:=true"), "use stream=true or stream=false");
    check(&format!("{openai},timeout=0s"), "timeout: expected a time above 0");
    folder.write("prompts.jsonl", "{\"prompt\": \"a\"}\n");
    check(
        &format!("{openai},ids=100 --data prompts.jsonl"),
        "every prompt of --data has its own text",
    );
    let one = format!("{openai},max-concurrency=2 --scenario SingleStream --mode performance");
    check(&one, "SingleStream has one request in flight");
}

#[test]
fn options_of_studies_without_effect_are_rejected() {
    let folder = Folder::new();
    let check = |arguments: &str, expected: &str| {
        let ran = folder.dyno(arguments).exits(2);
        assert!(ran.stderr.contains(expected), "{arguments}: {expected:?} in\n{}", ran.stderr);
    };
    let sweep =
        "sweep --system model:fixed=1ms --scenario Server --mode performance --over qps=5,6";
    check(&format!("{sweep} --zip"), "zip has no effect: only `qps` varies");
    check(&format!("{sweep} --order-seed 4"), "order-seed has no effect");
    check(&format!("{sweep} --p99-below 0s"), "expected p99-below above 0");
    let search = "search --system model:fixed=1ms --limit p99<=5ms --confirm";
    check(&format!("{search} --out x"), "--confirm has no effect without --resume");
}

#[test]
fn an_option_may_apply_to_one_of_several_scenarios() {
    let folder = Folder::new();
    let fine = |arguments: &str| {
        let ran = folder.dyno(&format!("run {arguments} --dry-run")).exits(0);
        assert_eq!(ran.stderr, "", "{arguments}");
    };
    fine("--qps 100");
    // The queries of an accuracy test of Server arrive at the rate, too.
    fine("--qps 100 --scenario Server --mode accuracy");
    fine("--batch 8,Server=2 --workers 1");
    fine("--scenario SingleStream,Offline --batch 8");
    fine("--accuracy-target 0.9 --records all --duration 1s");
    fine("--set server_target_latency_ns=5ms");
    fine("--scenario Server,Offline --set Server.min_query_count=5 --set min_query_count=9");
    fine("--seed 3 --set qsl_rng_seed=4");
    fine("--scenario Offline --seed 3");
    fine("--scenario Server --qps 5 --set server_target_qps=5");
    // Keys for other commands in a file are reported if a flag overrides them.
    folder.write("dyno.toml", "version = 1\n[run]\nscenario = \"Server\"\nqps = 50\n");
    let arguments = "run --config dyno.toml --scenario Offline --dry-run";
    let ran = folder.dyno(arguments).exits(0);
    assert!(ran.stderr.contains("warning: dyno.toml:4: `qps` has no effect"), "{}", ran.stderr);
    folder.write("dyno.toml", "version = 1\n[run]\nscenario = \"Offline\"\nqps = 50\n");
    folder.dyno("run --config dyno.toml --dry-run").exits(2);
}

#[test]
fn a_sweep_rejects_what_has_no_effect_at_any_point() {
    let folder = Folder::new();
    let sweep = "sweep --system model:fixed=1ms --mode performance --duration 50ms --qps 100 -q";
    let over = "--over scenario=Server,Offline --set min_query_count=10";
    // Points that are too short to count are not errors.
    let some = folder.dyno(&format!("{sweep} {over} --out all"));
    assert!(matches!(some.code, Some(0 | 1)), "{}", some.stderr);
    let none = folder.dyno(&format!("{sweep} --over scenario=SingleStream,Offline")).exits(2);
    assert!(none.stderr.contains("--qps has no effect"), "{}", none.stderr);
}

#[test]
fn a_dry_run_rejects_a_folder_that_is_taken() {
    let folder = Folder::new();
    folder.write("out/x", "");
    check_rejected(&folder, "--out out", 3, "exists and is not empty");
    folder.write("file", "");
    check_rejected(&folder, "--out file/out", 3, "file/out");
    let config =
        "version = 1\n[run]\nsystem = \"model:fixed=1ms\"\nscenario = \"server\"\nqps = 5\n";
    folder.write("a.toml", config);
    for command in [
        "sweep --system model:fixed=1ms --scenario server --qps 5 --over seed=1,2",
        "search --system model:fixed=1ms --limit p99<=9ms --from 100",
        "compare --interleave 2 a.toml a.toml",
    ] {
        for dry_run in ["", "--dry-run"] {
            let ran = folder.dyno(&format!("{command} --out out {dry_run}")).exits(3);
            assert!(ran.stderr.contains("not empty"), "{command} {dry_run}: {}", ran.stderr);
        }
    }
}

/// Files of the test images, changed by `change`, and of their labels.
fn damaged(folder: &Folder, change: impl Fn(usize, f32) -> f32) {
    let images = digits::test_digits().collect::<Vec<_>>();
    let all = images.iter().flat_map(|digit| digits::Perceptron::input(digit.pixels));
    let all = all.enumerate().flat_map(|(at, ink)| change(at, ink).to_le_bytes());
    let shape = format!("({}, 64)", images.len());
    write(folder, "x.npy", &npy("<f4", &shape, &all.collect::<Vec<u8>>()));
}

#[test]
fn data_and_labels_that_are_none_are_rejected_with_their_place() {
    let folder = tuned::folder();
    let system = "--system tuned:model=digits.onnx --scenario offline";
    damaged(&folder, |at, ink| if at == 64 * 3 + 5 { f32::NAN } else { ink });
    check_rejected(&folder, &format!("{system} --data x.npy"), 3, "x.npy: NaN at [3, 5]");
    damaged(&folder, |at, ink| if at == 64 { f32::NEG_INFINITY } else { ink });
    check_rejected(&folder, &format!("{system} --data x.npy"), 3, "x.npy: -inf at [1, 0]");

    let labels: Vec<i64> = digits::test_digits().map(|digit| i64::from(digit.label)).collect();
    let count = labels.len();
    let check = |kind: &str, shape: &str, bytes: Vec<u8>, expected: &str| {
        write(&folder, "y.npy", &npy(kind, shape, &bytes));
        check_rejected(&folder, &format!("{system} --data test.npy --labels y.npy"), 3, expected);
    };
    let whole = |change: &dyn Fn(usize, i64) -> i64| -> Vec<u8> {
        let all = labels.iter().enumerate().map(|(at, &label)| change(at, label));
        all.flat_map(i64::to_le_bytes).collect()
    };
    let shape = format!("({count},)");
    let negative = whole(&|at, label| if at == 7 { label - 50 } else { label });
    check("<i8", &shape, negative, "y.npy: label -");
    let big = whole(&|at, label| if at < 2 { label } else { label + 100 });
    let expected = format!("y.npy: label {} at [2], expected a class from 0 to 9", labels[2] + 100);
    check("<i8", &shape, big, &expected);
    let few = whole(&|_, label| label)[..8 * (count - 100)].to_vec();
    let expected = format!("{} labels for {count} samples", count - 100);
    check("<i8", &format!("({},)", count - 100), few, &expected);
    let halves: Vec<u8> =
        labels.iter().flat_map(|&label| (label as f32 + 0.5).to_le_bytes()).collect();
    check("<f4", &shape, halves, "at [0], expected a whole number");
    let one_hot = vec![0; 4 * 10 * count];
    check("<f4", &format!("({count}, 10)"), one_hot, "save array.argmax(-1)");

    // Whole numbers in floating point and integers of any width are classes.
    let floats: Vec<u8> = labels.iter().flat_map(|&label| (label as f32).to_le_bytes()).collect();
    let wide = labels.iter().map(|&label| u64::try_from(label).unwrap());
    let short: Vec<u8> = wide.clone().flat_map(|label| [label.to_le_bytes()[0], 0]).collect();
    let wide: Vec<u8> = wide.flat_map(u64::to_le_bytes).collect();
    let run = format!("run {system} --data test.npy --labels y.npy --mode accuracy --json");
    for (code, bytes) in [("<f4", floats), ("<u2", short), ("<u8", wide)] {
        write(&folder, "y.npy", &npy(code, &shape, &bytes));
        let told = folder.dyno(&run);
        assert_eq!(told.json()["tests"][0]["accuracy"]["correct"], 519, "{code}: {}", told.stderr);
    }
}

/// Scores of the mean of as many vectors as there are.
fn open_network() -> Result<Vec<u8>, BuildError> {
    let mut net = Builder::new("mean", Weights::seeded(3));
    let x = net.input("words", Element::F32, &[Dim::symbol("batch"), Dim::symbol("seq"), 8.into()]);
    let means =
        net.node("ReduceMean", &[&x], &[("axes", [1].into()), ("keepdims", 0_i64.into())])?;
    let weight = net.weight("scores.weight", &[8, 4], Fill::lecun(8))?;
    let scores = net.node("MatMul", &[&means, &weight], &[])?;
    net.output("scores", &scores)?;
    Ok(net.finish().to_bytes().unwrap())
}

#[test]
fn open_dimensions_are_given_or_the_run_is_rejected() {
    let folder = Folder::new();
    write(&folder, "mean.onnx", &open_network().unwrap());
    let system = "--system tuned:model=mean.onnx --scenario offline --mode performance";
    check_rejected(&folder, system, 2, "words [batch, seq, 8]");
    check_rejected(&folder, system, 2, "--shape words=1x128x8");
    check_rejected(&folder, &format!("{system} --shape words=1x9"), 2, "3 dimensions, found 2");
    check_rejected(&folder, &format!("{system} --shape words=1x9x7"), 2, "fixes dimension 2 at 8");

    let run = format!("run {system} --shape words=1x9x8 --duration 50ms");
    let plan = folder.dyno(&format!("{run} --dry-run --json")).exits(0).json();
    let ran = folder.dyno(&format!("{run} --json --out one"));
    let shapes = &ran.json()["tests"][0]["data"]["shapes"];
    let expected =
        serde_json::json!([{"input": "words", "element": "float32", "shape": [1, 9, 8]}]);
    assert_eq!(*shapes, expected, "{}", ran.stderr);
    assert_eq!(plan["shapes"], expected);
    assert!(folder.read("one/report.html").contains("words 1x9x8"));
    assert!(folder.read("one/effective.toml").contains("shape = [\"words=1x9x8\"]"));
    let again = folder.dyno("run --config one/effective.toml --out again --duration 50ms");
    assert!(again.stdout.contains("sample: words 1x9x8"), "{}{}", again.stdout, again.stderr);

    folder.dyno(&format!("run {system} --shape words=1x90x8 --duration 50ms --out long"));
    let compared = folder.dyno("compare one long").exits(2).stderr;
    let expected = "shapes of random samples: 1x8x9 against 1x8x90";
    assert!(compared.contains(expected), "{compared}");

    let sweep = format!("sweep {system} --duration 50ms -q --out sweep");
    folder.dyno(&format!("{sweep} --over shape=words=1x3x8,words=1x30x8"));
    let rows: Value = serde_json::from_str(&folder.read("sweep/sweep.json")).unwrap();
    let axis = rows.to_string();
    assert!(axis.contains("words=1x3x8") && axis.contains("words=1x30x8"), "{axis}");
}

const VIRTUAL: &str = "run --system model:exponential=1ms --scenario single-stream \
                       --mode performance --duration 10s --out out";

/// Returns the finding for one requirement, and the verdict.
fn required(requirement: &str, more: &str, code: i32) -> (Value, Value) {
    let folder = Folder::new();
    let ran = folder.dyno(&format!("{VIRTUAL} --json --require {requirement} {more}")).exits(code);
    let told = ran.json();
    assert_eq!(told["tests"][0]["requirements"].as_array().unwrap().len(), 1);
    (told["tests"][0]["requirements"][0].clone(), told["tests"][0].clone())
}

#[test]
fn a_requirement_is_met_missed_or_undecided() {
    // p90 of an exponential with a mean of 1 ms is ln 10 = 2.303 ms.
    let (met, test) = required("p90<=2.6ms", "", 0);
    assert_eq!((&met["finding"], &test["verdict"]), (&"met".into(), &"VALID".into()));
    let truth = 1e6 * 10_f64.ln();
    let [low, high] = ["low", "high"].map(|key| met[key].as_f64().unwrap());
    assert!(low < truth && truth < high && high <= met["bound"].as_f64().unwrap(), "{met}");
    assert_eq!((&met["metric"], &met["unit"]), (&"latency.p90".into(), &"ns".into()));

    let (missed, test) = required("p90<=2ms", "", 1);
    assert_eq!(missed["finding"], "missed");
    let first = test["reasons"][0].as_str().unwrap();
    assert!(first.starts_with("The requirement latency p90 <= 2.00 ms is missed:"), "{first}");

    let (undecided, test) = required("p90<=2.303ms", "", 1);
    assert_eq!(undecided["finding"], "undecided");
    assert!(undecided["more_queries"].as_u64().unwrap() > 1_000, "{undecided}");
    let first = test["reasons"][0].as_str().unwrap();
    assert!(first.contains("is undecided") && first.contains("more queries"), "{first}");
    assert_eq!(test["verdict"], "UNDECIDED");

    let few = "--duration 90ms --set min_query_count=64";
    let (few, _) = required("p99<=10s", few, 1);
    assert_eq!((&few["finding"], &few["low"]), (&"undecided".into(), &Value::Null));
    // Half of the answers over a bound on a high percentile need no interval.
    let few = "--duration 90ms --set min_query_count=64";
    assert_eq!(required("p99<=100us", few, 1).0["finding"], "missed");
}

#[test]
fn requirements_are_of_scenarios_and_of_what_is_measured() {
    let folder = Folder::new();
    let check = |arguments: &str, expected: &str| check_rejected(&folder, arguments, 2, expected);
    check("--require server:ttft.p90<=5ms", "is not measured: the system reports no tokens");
    check("--require p99<=5ms --mode accuracy", "this run has no performance test");
    check("--require p99<=5ms --mode peak", "mode peak varies the load by the bounds of its");
    check("--require p99<=5ms --mode peak", "use dyno search --limit for the peak");
    check("--require server:p99<=5ms --scenario Offline", "this run has Offline only");
    check("--require lag.p99<=5ms --scenario Offline", "a client lags in Server");
    let in_flight = "--scenario Server --mode performance --set server_arrivals=concurrency:2";
    check(&format!("--require lag.p99<=5ms {in_flight}"), "a client lags in Server at a rate");
    let grows = "cannot be decided in Offline: all samples are due at the start";
    check("--require p99<=20s --scenario Offline", grows);
    check("--require p50<=20s --scenario SingleStream,Offline", grows);
    check("--require offline:p90<=20s", grows);
    check("--require p99>=5ms", "flag --require: limit `p99>=5ms`");
    check("--require lat.p99<=5ms", "the nearest is");

    let text = "version = 1\n[run]\nsystem = \"model:fixed=1ms\"\nmode = \"performance\"\n\
                scenario = [\"SingleStream\", \"Offline\"]\nduration = \"3s\"\n\
                require = [\"single-stream:p99<=1.1ms\", \"errors<=1%\"]\n";
    folder.write("dyno.toml", text);
    let told = folder.dyno("run --config dyno.toml --json --out out").exits(0).json();
    let found = |test: usize| -> Vec<String> {
        let all = told["tests"][test]["requirements"].as_array().unwrap();
        all.iter().map(|of| format!("{} {}", of["metric"], of["finding"])).collect()
    };
    assert_eq!(found(0), ["\"latency.p99\" \"met\"", "\"errors\" \"met\""]);
    assert_eq!(found(1), ["\"errors\" \"met\""]);
    let report = folder.read("out/report.html");
    assert!(report.contains("latency p99 &lt;= 1.10 ms: met") || report.contains("1.10"), "shown");
    let shown = folder.dyno("run --config dyno.toml --out again").exits(0).stdout;
    assert!(
        shown.contains("SingleStream requires latency p99 <= 1.10 ms: met, 1.00 ms"),
        "{shown}"
    );
    let exported = folder.dyno("export out --format prometheus").exits(0).stdout;
    assert!(exported.contains("dyno_requirement_met{"), "{exported}");
}

/// A fixed number of requests in flight has no rate.
#[test]
fn options_of_a_rate_need_one() {
    let folder = Folder::new();
    let plan = "run --system openai:http://127.0.0.1:9,model=m --max-concurrency 2 --dry-run";
    for (option, expected) in [
        ("--burstiness 0.5", "has no effect: without a rate"),
        ("--stop-on-saturation on", "a fixed number of requests in flight"),
    ] {
        let ran = folder.dyno(&format!("{plan} {option}")).exits(2);
        assert!(ran.stderr.contains(expected), "{option}: {}", ran.stderr);
        folder.dyno(&format!("{plan} {option} --request-rate 4")).exits(0);
    }
    // With such shapes, nearly all gaps are 0, or all are equal.
    for shape in ["0", "1e-300", "1e300"] {
        let ran = folder.dyno(&format!("{plan} --request-rate 4 --burstiness {shape}")).exits(2);
        assert!(ran.stderr.contains("from 0.001 to 1000000"), "{}", ran.stderr);
    }
}

/// Four requests at once on one server of 1 ms take 1, 2, 3 and 4 ms. Every fourth row would be one of
/// 1 ms.
#[test]
fn a_long_run_with_a_period_is_judged_by_all_its_queries() {
    let folder = Folder::new();
    let ran = folder.dyno(
        "run --system model:fixed=1ms --scenario server --mode performance --qps 100 \
         --set server_arrivals=burst:4 --num-prompts 800000 --require p50<=1500us --json --out out",
    );
    let told = ran.exits(1).json();
    let found = &told["tests"][0]["requirements"][0];
    assert_eq!(found["finding"], "missed", "{found}");
    assert!((2e6..=3e6).contains(&found["value"].as_f64().unwrap()), "{found}");
    // The records have a random row of each four.
    let rows = folder.dyno("export out").exits(0).stdout;
    let fast = rows.lines().filter(|row| row.split(',').nth(6) == Some("1000000")).count();
    assert!((30_000..60_000).contains(&fast), "{fast} of 200,000");
}

/// A flag that removed the requirements of a file would let a gate pass.
#[test]
fn requirements_of_a_flag_add_to_those_of_a_file() {
    let folder = Folder::new();
    let file = |line: &str| {
        let run = "version = 1\n[run]\nsystem = \"model:exponential=2ms\"\nscenario = \"SingleStream\"\n\
                   mode = \"performance\"\nduration = \"5s\"\n";
        folder.write("g.toml", &format!("{run}{line}\n"));
    };
    let names = |told: &Value| -> Vec<String> {
        let all = told["tests"][0]["requirements"].as_array().unwrap().iter();
        all.map(|of| format!("{} {}", of["requirement"], of["finding"]).replace('"', "")).collect()
    };
    file("require = [\"p99<=1ms\"]");
    let told = folder.dyno("run --config g.toml --require errors<=1% --json").exits(1).json();
    assert_eq!(names(&told), ["latency p99 <= 1.00 ms missed", "errors <= 1 % met"]);
    // Two limits on one metric are both judged, and the same one once.
    let both = "run --config g.toml --require p99<=1s --require p99<=1ms --json";
    let told = folder.dyno(both).exits(1).json();
    assert_eq!(names(&told), ["latency p99 <= 1.00 ms missed", "latency p99 <= 1.00 s met"]);
    // Those of the file need an effect, too.
    file("require = [\"server:p99<=1ms\"]");
    let ran = folder.dyno("run --config g.toml --require errors<=1%").exits(2);
    assert!(ran.stderr.contains("Server:p99<=1ms has no effect"), "{}", ran.stderr);
}

#[test]
fn few_queries_do_not_decide_a_bound_of_a_sweep() {
    let folder = Folder::new();
    let sweep = "sweep --system model:exponential=1ms --scenario server --mode performance \
                 --set min_query_count=20 --set server_target_latency_percentile=0.5 --p99-below 1s \
                 --over seed=1,2";
    let short =
        folder.dyno(&format!("{sweep} --qps 100 --duration 300ms --out short")).exits(1).stdout;
    let words: Vec<&str> = short.split_whitespace().filter(|word| *word != "│").collect();
    let short = words.join(" ");
    assert!(short.contains("with p99 below 1.00 s: undecided: about "), "{short}");
    assert!(short.contains("more queries decide seed-2"), "{short}");
    let long = folder.dyno(&format!("{sweep} --qps 100 --duration 20s --out long")).exits(0).stdout;
    assert!(long.contains("with p99 below 1.00 s: seed-"), "{long}");
}
