//! Input that is rejected before anything runs, and its messages.

use crate::program::Folder;
use crate::schema::schema;

#[track_caller]
fn check(arguments: &str, code: i32, expected: &[&str]) {
    let ran = Folder::new().dyno(arguments).exits(code);
    for text in expected {
        assert!(ran.stderr.contains(text), "expected {text:?} in:\n{}", ran.stderr);
    }
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    check("run --system digit", 2, &["unknown system `digit`; the nearest is `digits`", "hint:"]);
    check("run --scenario servre", 2, &["flag --scenario", "the nearest is Server"]);
    check(
        "run --set server_target_qsp=5",
        2,
        &["flag --set", "nearest key is `server_target_qps`"],
    );
    let lists = "unknown key `foo`; dyno info settings lists the keys";
    check("run --system null --set foo=1", 2, &[lists]);
    let keys = "unknown key `zebra`; expected one of model, formats, packed, lengths";
    check("run --system tuned:zebra=1", 2, &[keys, "see dyno info systems tuned"]);
    check("run --settings.Server.min_query_cont 5", 2, &["the nearest key is `min_query_count`"]);
    // A name that is like no other is answered with all of them, and not with a far one.
    check("run --system model:mean=10ms", 2, &["unknown key `mean`; expected one of fixed, expon"]);
    check("run --system npu:networks=foo", 2, &["unknown network `foo`\n", "networks are IC"]);
    check("run --system cheat:foo", 2, &["found `foo`\n"]);
    check("run --set color=5", 2, &["unknown key `color`; dyno info settings lists the keys\n"]);
    check("run --set target_latency=5", 2, &["nearest key is `server_target_latency_ns`"]);
    check("sweep --over rate=1,2", 2, &["the nearest key is `request_rate`"]);
    check("sweep --over concurrency=1,2", 2, &["the nearest key is `max_concurrency`"]);
    check("sweep --over color=1,2", 2, &["keys are the flags of dyno run, and settings.NAME"]);
    check("task run digits --with model=x", 2, &["takes no files; remove --with model=FILE"]);
    check("launch --on local --image x -- run --system null", 2, &["hint: remove --image\n"]);
    check("npu run RN BB --bind N=4", 2, &["hint: remove bind N=4\n"]);
    check("run --scenario ss", 2, &["SingleStream, MultiStream, Server, Offline, found `ss`\n"]);
    check("run --num-prompts 1e3", 2, &["expected a whole number, found `1e3`\n"]);
    check("man run", 2, &["`run` is a command", "dyno run --help shows its flags"]);
    check("compare --interleave A.toml B.toml", 2, &["--interleave 5 A.toml B.toml"]);
    check("sweep digits --over qps=100-400", 2, &["a range is such as 100..400:100"]);
    check("run digits --metric-percentiles p99", 2, &["such as 99.9, found `p99`"]);
    check("run --set qps=5", 2, &["`qps` is not a setting; use --qps, or `qps` under [run]"]);
    check("run --set Server.max_concurrency=5", 2, &["use --max-concurrency, or"]);
    check("run --mode AccuracyOnly", 2, &["found `AccuracyOnly`; use accuracy"]);
    check("run --accuracy-target 95%", 2, &["from 0 to 1, found `95%`; write 0.95\n"]);
    check("run --accuracy-target 99.9", 2, &["from 0 to 1, found `99.9`; write 0.999\n"]);
    check("run --scenarios server", 2, &["unexpected argument '--scenarios'", "--scenario"]);
}

#[test]
fn what_is_no_system_is_answered_with_what_was_meant() {
    check("run --system conv.onnx", 2, &["use onnx:conv.onnx"]);
    check("run --system onx:conv.onnx", 2, &["use onnx:conv.onnx"]);
    check("run --system tokens:", 2, &["dyno serve --system tokens:"]);
    check("run conv.onnx", 3, &["file conv.onnx does not exist"]);
    check("run ./conv", 3, &["file ./conv does not exist"]);
    check("run llama.gguf", 2, &["llama-server"]);
    check("run dyno.toml", 2, &["--config dyno.toml"]);
    check("run model.py", 2, &["dyno run py:model.py:FUNCTION"]);
    check("run onnx:conv.onnx,outptu=y", 3, &["the only key behind the file is output=NAME"]);
    check("run digits --system null", 2, &["select a system"]);
    check("worker --join gpu", 2, &["expected HOST:PORT, such as 10.0.0.1:7700, found `gpu`"]);
}

#[test]
fn a_missing_file_exits_with_3_in_every_command() {
    for (arguments, problem) in [
        ("run --config none.toml", "cannot read none.toml"),
        ("run --system null --conf none.conf", "cannot read none.conf"),
        ("run --system null --audit none.config", "cannot read none.config"),
        ("run --system npu:networks=none.csv", "cannot read none.csv"),
        ("search --config none.toml", "cannot read none.toml"),
        ("sweep --config none.toml", "cannot read none.toml"),
        ("compare none-a none-b", "none-a does not exist"),
        ("compare none", "none does not exist"),
        ("compare --interleave 2 none-a.toml none-b.toml", "cannot read none-a.toml"),
        ("report none", "no results found"),
        ("export none", "cannot read none"),
        ("check none --round v5.1", "cannot list the folder none"),
        ("rnn explain none.onnx --predict", "`none.onnx` is not a file"),
        ("npu run RN none.csv", "cannot read none.csv"),
        ("npu run RN none.onnx", "cannot read none.onnx: No such file"),
        ("npu run RN BB --npu none.toml", "cannot read none.toml"),
        ("task layers none.onnx", "cannot read none.onnx"),
        ("tune run none.toml", "cannot read none.toml"),
        ("tune emit none.toml", "cannot read none.toml"),
        ("tune layers none.onnx", "cannot read none.onnx: No such file"),
        ("tune profile none.onnx --samples none.npy", "cannot read none.onnx"),
        ("tune compare none.onnx --inputs x.npy --labels y.npy", "cannot read none.onnx"),
        ("serve --system onnx:none.onnx", "none.onnx does not exist"),
    ] {
        check(arguments, 3, &[problem]);
    }
    check("rnn explain lstm:none --predict", 2, &["`lstm:none` is not a file"]);
}

#[test]
fn a_word_is_no_host_in_runs_and_in_plans() {
    for plan in ["", " --dry-run"] {
        for (word, expected) in [
            ("digitz", "hint: use the system digits"),
            ("g2p", "hint: use the task: dyno run task:g2p"),
            ("help", "hint: use dyno help"),
            ("bert-base-uncased", "vllm serve bert-base-uncased"),
            ("meta-llama/Llama-3.1-8B", "vllm serve meta-llama/Llama-3.1-8B"),
        ] {
            let problem = format!("`{word}` is not a system, a model file or a server");
            check(&format!("run {word}{plan}"), 2, &[&problem, expected]);
        }
        check(&format!("run Digits{plan}"), 2, &["hint: use the system digits"]);
        check(&format!("run http://{plan}"), 2, &["expected a host", "hint: for example"]);
        check(&format!("run grpc://h:1{plan}"), 2, &["use oip-grpc:HOST:PORT/MODEL"]);
        check(&format!("run http:/localhost:1{plan}"), 2, &["use http://localhost:1"]);
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("models")).unwrap();
    folder.write("models/lenet.onnx", "");
    let ran = folder.dyno("run models").exits(2);
    assert!(ran.stderr.contains("models is a folder"), "{}", ran.stderr);
    assert!(ran.stderr.contains("dyno run models/lenet.onnx"), "{}", ran.stderr);
}

#[test]
fn flags_and_values_of_other_tools_are_answered_with_what_to_write() {
    check("run --model model.onnx", 2, &["pass the model without a flag: dyno run model.onnx"]);
    check("run --model org/name", 2, &["dyno run http://HOST:PORT,model=NAME"]);
    check("run --data x.npy", 2, &["add the model: dyno run MODEL.onnx"]);
    check("run --data x.jsonl", 2, &["dyno run http://HOST:PORT"]);
    let openai = "run --system openai:http://127.0.0.1:1,model=m";
    check(
        &format!("{openai} --data prompt_tokens=256,output_tokens=128 --dry-run"),
        2,
        &["dyno run http://HOST:PORT,input=256,output=128"],
    );
    check(&format!("{openai},temperature=0 --dry-run"), 2, &["use temperature:=0;"]);
    check(
        "sweep --system null --batch 1,2,4",
        2,
        &["flag --batch: expected one value", "dyno sweep --over batch=1,2,4"],
    );
    check("run digits --qps 1,2", 2, &["dyno sweep --over qps=1,2"]);
    check("run digits --qps 1..8:x2", 2, &["dyno sweep --over qps=1..8:x2"]);
    check(
        "compare A.toml B.toml",
        2,
        &["A.toml is a configuration", "dyno compare --interleave 5 A.toml B.toml"],
    );
    check("compare A.toml", 2, &["dyno compare --interleave 5 A.toml OTHER.toml"]);
    check("tune run model.onnx", 2, &["model.onnx is a model", "dyno tune profile model.onnx"]);
    check("run a.onnx b.onnx", 2, &["dyno sweep --over system=onnx:A.onnx,onnx:B.onnx"]);
    check("serve model.onnx", 2, &["dyno serve --system onnx:model.onnx"]);
    check("model.onnx", 2, &["use dyno run model.onnx"]);
    check("http://localhost:1", 2, &["use dyno run http://localhost:1"]);
}

#[test]
fn samples_that_a_request_cannot_use_are_answered_with_a_template() {
    let folder = Folder::new();
    folder.write("rows.jsonl", "{\"text\": \"a\"}\n");
    folder.write("body.json", "{\"text\": {text}}");
    for (keys, expected) in [
        ("", "add body=@FILE, a template in which {NAME} is a field; the samples have: text"),
        ("", "remove --data if all requests are equal"),
        (",body=body.json", "`body.json` is a file; use body=@body.json"),
    ] {
        let system = format!("raw:http://127.0.0.1:1/predict{keys}");
        let ran = folder.dyno(&format!("run --system {system} --data rows.jsonl")).exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn the_file_of_a_run_is_answered_with_its_folder() {
    let folder = Folder::new();
    let run =
        "run -q --system null --scenario single-stream --mode performance --duration 50ms --out";
    folder.dyno(&format!("{run} a"));
    folder.dyno(&format!("{run} b"));
    let ran = folder.dyno("compare a/summary.json b/summary.json").exits(2);
    assert!(ran.stderr.contains("a/summary.json is a file of a run"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: pass its folder, a"), "{}", ran.stderr);
}

#[test]
fn the_files_of_init_can_be_run() {
    let folder = Folder::new();
    folder.dyno("init").exits(0);
    folder.dyno("run --config dyno.toml --dry-run").exits(0);
    folder.dyno("init --all all.toml").exits(0);
    folder.dyno("run --config all.toml --dry-run").exits(0);
    folder.dyno("init --llm llm.toml").exits(0);
    let plan = folder.dyno("run --config llm.toml --dry-run").exits(0).stdout;
    assert!(
        plan.contains("openai:http://localhost:8000") && plan.contains("profile llm"),
        "{plan}"
    );
    folder.dyno("init --all --llm both.toml").exits(2);
    assert!(folder.read("dyno.toml").lines().count() <= 12);
    folder.dyno("init").exits(3);
}

#[test]
fn a_file_that_is_not_used_is_reported() {
    let folder = Folder::new();
    let warning = "warning: dyno.toml is not used; add --config dyno.toml to use it";
    let warned = |arguments: &str| folder.dyno(arguments).exits(0).stderr.contains(warning);
    assert!(!warned("run --dry-run"));
    folder.dyno("init").exits(0);
    assert!(warned("run --dry-run"));
    let sweep = "sweep model:fixed=1ms --scenario server --qps 100 --over seed=1,2 --dry-run";
    assert!(warned(sweep));
    for silent in ["run --dry-run --config dyno.toml", "run --dry-run --quiet", "info systems"] {
        assert!(!warned(silent), "{silent}");
    }
}

#[test]
fn one_argument_names_a_system() {
    let folder = Folder::new();
    let plan = folder.dyno("run digits --dry-run").exits(0).stdout;
    assert!(plan.contains("digits"), "{plan}");
    let plan = folder.dyno("run model:exponential=2ms --scenario server --dry-run").exits(0).stdout;
    assert!(plan.contains("model:exponential=2ms"), "{plan}");
}

#[test]
fn all_problems_of_a_file_are_told_with_their_lines() {
    let folder = Folder::new();
    folder.write(
        "dyno.toml",
        "version = 1\n\n[run]\nsytem = \"null\"\n\n[settings]\nmin_duration_ms = \"soon\"\n\
         qsl_rng_sed = 1\n",
    );
    let ran = folder.dyno("run --config dyno.toml").exits(2);
    for text in [
        "error: dyno.toml:4: unknown key `sytem` in [run]; the nearest key is `system`",
        "error: dyno.toml:7: `min_duration_ms`: cannot read `soon`, expected a whole number",
        "error: dyno.toml:8: unknown key `qsl_rng_sed`; the nearest key is `qsl_rng_seed`",
    ] {
        assert!(ran.stderr.contains(text), "expected {text:?} in:\n{}", ran.stderr);
    }
    assert!(!folder.0.join("runs").exists(), "nothing ran");
}

#[test]
fn a_user_conf_is_read_strictly() {
    let folder = Folder::new();
    folder.write("user.conf", "*.Server.target_qps = 300\n*.Server.target_qpz = 1\n");
    let ran = folder.dyno("run --conf user.conf").exits(2);
    assert!(
        ran.stderr.contains("user.conf:2: unknown key `*.Server.target_qpz`"),
        "{}",
        ran.stderr
    );
    folder.write("user.conf", "*.Server.target_qps = 300\n");
    let ran = folder.dyno("run --conf user.conf --scenario server --dry-run").exits(0);
    assert!(
        ran.stdout.contains("server_target_qps = 300 queries/s  (user.conf:1)"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_user_conf_without_a_row_for_the_model_is_refused() {
    let folder = Folder::new();
    let refused = |text: &str, more: &str, words: &str| {
        folder.write("user.conf", text);
        let ran = folder.dyno(&format!("run --conf user.conf {more} --dry-run")).exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    };
    let resnet = "resnet50.Server.target_qps = 300\n";
    refused(
        resnet,
        "",
        "no row of user.conf applies without a model: it has rows of resnet50; add",
    );
    refused(resnet, "--conf-model bert", "applies to the model bert: it has rows of resnet50");
    refused("# nothing\n", "", "user.conf has no setting");
    folder.dyno("run --conf user.conf --dry-run").exits(2);
    folder.write("user.conf", resnet);
    let run = "run --conf user.conf --conf-model resnet50 --scenario server --dry-run \
               --set performance_sample_count_override=0";
    assert!(folder.dyno(run).exits(0).stdout.contains("server_target_qps = 300"));
}

#[test]
fn impossible_settings_are_refused_before_anything_starts() {
    let impossible = "run --scenario server,offline --set server_target_latency_percentile=0 \
                      --qps -1 --set performance_sample_count_override=541";
    check(
        impossible,
        2,
        &[
            "Server: `server_target_latency_percentile` is 0 (flag --set)",
            "Server: `server_target_qps` is -1 (flag --qps)",
            "Offline: `performance_sample_count_override` is 541 (flag --set)",
        ],
    );
    check("run --seed -1", 2, &["flag --seed: expected a whole number from 0, found `-1`"]);
    check("run --system null --virtual", 2, &["cannot run in virtual time"]);
    let real = "run --system model:fixed=1ms --virtual=false";
    check(real, 2, &["`model:fixed=1ms` is simulated and cannot run in real time"]);
    check(&format!("{real} --dry-run"), 2, &["remove --virtual=false"]);
    check("run --mode peak --scenario offline --dry-run", 2, &["only Server has a rate"]);
    let endless = "run --system null --scenario server --qps 1e9 --duration 100h --dry-run";
    check(endless, 2, &["of memory", "lower the rate"]);
}

#[test]
fn a_dry_run_prints_the_plan_and_runs_nothing() {
    let folder = Folder::new();
    let mut command = folder.command("run --dry-run --scenario Server --duration 10s");
    command.env("DYNO_SETTINGS_SERVER_TARGET_LATENCY_NS", "20ms");
    let ran = crate::program::ProgramResult::from(command.output().unwrap()).exits(0);
    for text in [
        "Server: accuracy (540 samples), performance (at least 10.0 s)",
        "server_target_latency_ns = 20000000  (environment variable DYNO_SETTINGS_SERVER_TARGET_LATENCY_NS)",
        "min_duration_ms = 10000  (flag --duration)",
        "max_client_lag_ns = 2000000  (a tenth of the latency bound, at least 1 ms)",
        "server_target_qps is determined by a short probe before the run",
        "2 tests, at least 10.0 s in total",
    ] {
        assert!(ran.stdout.contains(text), "expected {text:?} in:\n{}", ran.stdout);
    }
    assert!(!folder.0.join("runs").exists(), "nothing ran");
}

#[test]
fn another_percentile_raises_the_query_count_that_nobody_chose() {
    let run = "run --dry-run --scenario server --set server_target_latency_percentile=0.97";
    let stdout = |arguments: &str| Folder::new().dyno(arguments).exits(0).stdout;
    assert!(stdout(run).contains("min_query_count = 90112 queries"), "{}", stdout(run));
    let chosen = format!("{run} --set min_query_count=7");
    assert!(stdout(&chosen).contains("min_query_count = 7 queries"), "{}", stdout(&chosen));
}

#[test]
fn layers_override_each_other_in_order() {
    let folder = Folder::new();
    folder.write("user.conf", "*.*.min_query_count = 1\n*.*.min_duration = 1\n");
    folder.write(
        "dyno.toml",
        "version = 1\n[run]\nconf = \"user.conf\"\nscenario = \"Server\"\nqps = 7\n\
         [settings]\nmin_duration_ms = 2\nmax_query_count = 1000\n\
         [scenario.Server]\nmax_query_count = 2000\n",
    );
    let run = "run --dry-run --config dyno.toml --settings.max_duration_ms 9000";
    let mut command = folder.command(run);
    command.env("DYNO_SETTINGS_MAX_QUERY_COUNT", "3000");
    command.env("DYNO_SETTINGS_MAX_DURATION_MS", "8000");
    let ran = crate::program::ProgramResult::from(command.output().unwrap()).exits(0);
    for text in [
        "min_query_count = 1 queries  (user.conf:1)",
        "min_duration_ms = 2  (dyno.toml:7)",
        "max_query_count = 3000 queries  (environment variable DYNO_SETTINGS_MAX_QUERY_COUNT)",
        "max_duration_ms = 9000  (flag --set)",
        "server_target_qps = 7 queries/s  (dyno.toml:5)",
    ] {
        assert!(ran.stdout.contains(text), "expected {text:?} in:\n{}", ran.stdout);
    }
}

#[test]
fn init_writes_a_file_that_runs_and_does_not_overwrite_it() {
    let folder = Folder::new();
    folder.dyno("init").exits(0);
    folder.dyno("run --config dyno.toml --dry-run").exits(0);
    let ran = folder.dyno("init").exits(3);
    assert!(ran.stderr.contains("use --force to overwrite it"), "{}", ran.stderr);
    folder.dyno("init --force").exits(0);

    // Every commented-out line is valid.
    let text = folder.read("dyno.toml");
    let is_key = |line: &str| {
        let key = line.split(" = ").next().unwrap_or_default();
        line.contains(" = ")
            && key.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '0'..='9'))
    };
    let section = text.split("[settings]").nth(1).unwrap().split("# [scenario").next().unwrap();
    let keys: String = section
        .lines()
        .filter_map(|l| l.strip_prefix("# "))
        .filter(|l| is_key(l))
        .collect::<Vec<_>>()
        .join("\n");
    folder.write("all.toml", &format!("version = 1\n[settings]\n{keys}\nmin_query_count_ = 1\n"));
    let ran = folder.dyno("run --config all.toml --dry-run").exits(2);
    assert_eq!(ran.stderr.lines().count(), 1, "only the one wrong key:\n{}", ran.stderr);
}

#[test]
fn info_tells_what_the_tables_hold() {
    let folder = Folder::new();
    let ran = folder.dyno("info exit-codes").exits(0);
    assert!(ran.stdout.contains(" 130  interrupted"), "{}", ran.stdout);
    let ran = folder.dyno("info settings").exits(0);
    assert!(ran.stdout.contains("server_target_latency_ns = 100000000\n"), "{}", ran.stdout);
    let ran = folder.dyno("selftest --json").exits(0);
    assert_eq!(ran.json()["sound"], true, "{}", ran.stdout);
    assert!(schema("selftest").is_valid(&ran.json()), "{}", ran.stdout);
}

#[test]
fn batches_that_change_nothing_are_rejected() {
    let folder = Folder::new();
    let is_rejected = |arguments: &str| -> bool {
        let ran = folder.dyno(&format!("run --dry-run --qps 100 {arguments}"));
        let is_rejected = ran.stderr.contains("--batch has no effect: without --workers");
        assert_eq!(ran.code, Some(if is_rejected { 2 } else { 0 }), "{}", ran.stderr);
        is_rejected
    };
    let server = "--system model:fixed=1ms --scenario server";
    assert!(is_rejected(&format!("{server} --batch 4")));
    for fine in ["--batch 1", "--batch 4 --workers 2", "--batch 4 --scenario offline", ""] {
        assert!(!is_rejected(&format!("{server} {fine}")), "{fine}");
    }
    assert!(!is_rejected("--system digits --batch 4"), "Offline has workers");
}
