//! Servers and clients of inference protocols by other authors: `dyno serve` answers their clients,
//! and `dyno run` measures the accuracy and performance of their servers.
//!
//! Each has a virtual environment of its own, because their packages conflict.

mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{cargo, folder, shell};
use server::{Server, free_ports};

/// Name and packages of each environment.
const OPENAI: [&str; 2] = ["openai", "openai==3.57.0"];
const TRITON: [&str; 2] = ["tritonclient", "tritonclient[http,grpc]==2.73.0"];
const KSERVE: [&str; 2] = ["kserve", "kserve==0.21.0"];
const MLSERVER: [&str; 2] =
    ["mlserver", "mlserver==1.7.1 mlserver-sklearn==1.7.1 scikit-learn==1.9.1"];
const LLAMA: [&str; 2] = ["xllamacpp", "xllamacpp==2026.10.11549 gguf==0.19.0"];
const KUBERNETES: [&str; 2] = ["kubernetes", "kubernetes-validate==1.37.0"];
const RAY: [&str; 2] = ["ray", "ray[serve]==2.60.0"];

/// The function of a comparison.
type Compare = fn(&Net<'_>, &Venv) -> Result<()>;

/// Name, environment, whether `--quick` includes it (small download, seconds), and function.
const COMPARISONS: [(&str, [&str; 2], bool, Compare); 9] = [
    ("OpenAI's client asks dyno serve", OPENAI, true, openai_client),
    ("NVIDIA's clients of the protocol ask dyno serve", TRITON, true, triton_client),
    ("Kubernetes' schemas take what dyno launch writes", KUBERNETES, true, kubernetes),
    ("KServe's clients ask dyno serve", KSERVE, false, kserve_client),
    ("MLServer's codecs and stubs ask dyno serve", MLSERVER, false, mlserver_client),
    ("dyno run measures MLServer over HTTP and gRPC", MLSERVER, false, mlserver),
    ("dyno run measures KServe's server", KSERVE, false, kserve),
    ("dyno run measures the server of llama.cpp, streaming", LLAMA, false, llama),
    ("dyno run measures Ray Serve", RAY, false, ray),
];

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let wanted = COMPARISONS.iter().filter(|(_, _, is_quick, _)| *is_quick || !bench.quick);
    let mut net = None;
    let mut outcomes = Vec::new();
    for (name, [folder, packages], _, compare) in wanted {
        let folder = bench.folder.join(folder);
        folder::create(&folder)?;
        let outcome = Outcome::unless_missing(Venv::with_packages(&folder, packages), |venv| {
            let net = match &net {
                Some(net) => net,
                None => net.insert(Net::build(bench)?),
            };
            Ok(Outcome::from_result(compare(net, &venv)))
        });
        outcomes.push((*name, outcome?));
    }
    Ok(outcomes)
}

/// The program and the folders of all comparisons.
struct Net<'a> {
    root: &'a Path,
    /// Working folder; empty at the start.
    folder: PathBuf,
    dyno: PathBuf,
}

impl<'a> Net<'a> {
    fn build(bench: &Bench<'a>) -> Result<Self> {
        let folder = bench.folder.join("runs");
        folder::recreate(&folder)?;
        let dyno = cargo::debug_dyno(bench.root)?;
        Ok(Self { root: bench.root, folder, dyno })
    }

    fn script(&self, name: &str) -> PathBuf {
        self.root.join("crates/peers/scripts/net").join(name)
    }

    /// Runs the script of a client, which fails if an answer is wrong.
    fn run_client(&self, venv: &Venv, script: &str, arguments: &[&str]) -> Result<()> {
        let mut python = venv.python();
        shell::run(python.arg(self.script(script)).args(arguments))
    }

    /// Starts `dyno serve` and returns it with its addresses for HTTP and gRPC.
    fn serve(&self, system: &str) -> Result<(Server, [String; 2])> {
        let [http, grpc] = free_ports()?.map(|port| format!("127.0.0.1:{port}"));
        let mut serve = Command::new(&self.dyno);
        serve.args(["serve", "--system", system, "--http", &http, "--grpc", &grpc]);
        // It ends when its standard input is closed.
        serve.env("DYNO_END_WITH_STDIN", "1").current_dir(&self.folder);
        Ok((Server::start(&mut serve, &http, "/v2/health/ready")?, [http, grpc]))
    }

    /// Measures a server and fails unless every sample is answered, in an accuracy run correctly.
    /// INVALID performance is no failure, because other load on the machine can cause it.
    fn measure(&self, name: &str, system: &str, arguments: &[&str]) -> Result<Value> {
        let out = self.folder.join(name);
        let mut run = Command::new(&self.dyno);
        run.args(["run", "--system", system, "--json", "--no-progress", "--duration", "2s"]);
        run.arg("--out").arg(&out).args(arguments).current_dir(&self.folder);
        let output = run.stderr(Stdio::inherit()).output().context("cannot start dyno")?;
        let summary: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{name}: dyno run printed no JSON: {}", output.status))?;
        println!("{name}: {}", checked_tests(&summary).with_context(|| name.to_owned())?);
        Ok(summary)
    }
}

/// Returns a description of all tests of a run.
///
/// # Errors
/// Samples of a test failed or are missing, or its accuracy is below the target.
fn checked_tests(summary: &Value) -> Result<String> {
    let tests = summary["tests"].as_array().context("a summary without tests")?;
    let mut descriptions = Vec::new();
    for test in tests {
        let [scenario, mode, state, verdict] =
            ["scenario", "mode", "state", "verdict"].map(|key| test[key].as_str().unwrap_or("?"));
        let reasons = &test["reasons"];
        ensure!(state == "complete", "{scenario} {mode} is {state}: {reasons}");
        if mode == "accuracy" {
            // An accuracy test needs every sample, and has no performance metrics.
            ensure!(verdict == "VALID", "{scenario} accuracy: {reasons}");
            descriptions.push(format!("{scenario} accuracy"));
            continue;
        }
        let metrics = &test["metrics"];
        let failed = metrics["failed"].as_object().context("a test without failures")?;
        let failed: u64 = failed.values().filter_map(Value::as_u64).sum();
        let (count, missing) = (metrics["sample_count"].as_u64(), metrics["missing"].as_u64());
        ensure!(count > Some(0), "{scenario} {mode} has no samples");
        ensure!(
            (failed, missing) == (0, Some(0)),
            "{scenario} {mode}: {failed} samples failed, {missing:?} are missing: {reasons}"
        );
        descriptions.push(format!("{scenario} {mode} of {} samples", count.unwrap_or(0)));
    }
    Ok(descriptions.join(", "))
}

/// Most requests in work of the server of llama.cpp, which are its slots.
const SLOTS: f64 = 4.0;

/// Returns a description of the metrics of llama.cpp in a run with 8 requests in flight.
///
/// # Errors
/// Its counter of tokens differs from the answers, or its queue from the load.
fn checked_metrics(summary: &Value) -> Result<String> {
    let (server, test) = (&summary["servers"][0], &summary["tests"][0]);
    ensure!(server["servers"][0] == "llama.cpp", "no metrics of llama.cpp: {server}");
    let number = |value: &Value| value.as_f64().with_context(|| format!("no number in {server}"));
    let (gauges, counters) = (&server["gauges"], &server["counters"]);
    let generated = number(&counters["generated_tokens"])?;
    let ours = number(&test["metrics"]["token_count"])?;
    ensure!(generated == ours, "it generated {generated} tokens, and its answers hold {ours}");
    let (running, waiting) =
        (number(&gauges["running"]["max"])?, number(&gauges["waiting"]["max"])?);
    ensure!(running == SLOTS, "{running} requests were in work, where {SLOTS} can be");
    ensure!((1.0..=8.0 - SLOTS).contains(&waiting), "{waiting} requests waited");
    Ok(format!("{generated} tokens as in the answers, {running} running, {waiting} waiting"))
}

fn openai_client(net: &Net<'_>, venv: &Venv) -> Result<()> {
    let (_server, [http, _]) = net.serve("tokens:first=5ms,each=1ms,tokens=16,text=echo")?;
    net.run_client(venv, "openai_client.py", &[&http])
}

fn triton_client(net: &Net<'_>, venv: &Venv) -> Result<()> {
    digits_client(net, venv, "triton_client.py")
}

fn kubernetes(net: &Net<'_>, venv: &Venv) -> Result<()> {
    let mut launch = Command::new(&net.dyno);
    launch.args(["launch", "--on", "k8s", "--workers", "4", "--image", "registry.example/dyno:1"]);
    launch.args(["--", "run", "--system", "null", "--scenario", "server"]);
    let written = launch.stderr(Stdio::inherit()).output().context("cannot start dyno")?;
    ensure!(written.status.success(), "dyno launch: {}", written.status);
    let manifest = net.folder.join("job.json");
    fs::write(&manifest, written.stdout).context("cannot write a manifest")?;
    let manifest = manifest.to_str().context("the target folder's path is no UTF-8")?;
    net.run_client(venv, "k8s_manifest.py", &[manifest])
}

fn kserve_client(net: &Net<'_>, venv: &Venv) -> Result<()> {
    digits_client(net, venv, "kserve_client.py")
}

fn mlserver_client(net: &Net<'_>, venv: &Venv) -> Result<()> {
    digits_client(net, venv, "mlserver_client.py")
}

fn digits_client(net: &Net<'_>, venv: &Venv, script: &str) -> Result<()> {
    let (_server, [http, grpc]) = net.serve("digits")?;
    let root = net.root.to_str().context("the repository's path is no UTF-8")?;
    net.run_client(venv, script, &[root, &http, &grpc])
}

fn mlserver(net: &Net<'_>, venv: &Venv) -> Result<()> {
    let [http, grpc, metrics] = free_ports()?.map(|port| port.to_string());
    let folder = net.folder.join("iris");
    let place = folder.to_str().context("the target folder's path is no UTF-8")?;
    net.run_client(venv, "mlserver_iris.py", &[place, &http, &grpc, &metrics])?;
    let mut command = Command::new(venv.interpreter().with_file_name("mlserver"));
    command.args(["start", place]);
    let address = format!("127.0.0.1:{http}");
    let _server = Server::start(&mut command, &address, "/v2/models/iris/ready")?;
    let samples = format!("x={place}/x.npy");
    let labels = format!("{place}/labels.npy");
    let data = ["--data", &samples, "--labels", &labels, "--accuracy-target", "1"];
    let scenarios = ["--scenario", "SingleStream", "--scenario", "Server", "--qps", "20"];
    let data = [&data[..], &scenarios[..]].concat();
    net.measure("mlserver-http", &format!("oip:http://127.0.0.1:{http}/iris"), &data)?;
    for form in ["raw", "typed"] {
        let system = format!("oip-grpc:127.0.0.1:{grpc}/iris,form={form}");
        net.measure(&format!("mlserver-grpc-{form}"), &system, &data)?;
    }
    Ok(())
}

fn kserve(net: &Net<'_>, venv: &Venv) -> Result<()> {
    let [http, grpc] = free_ports()?.map(|port| port.to_string());
    let folder = net.folder.join("kserve");
    let mut command = venv.python();
    command.arg(net.script("kserve_server.py")).arg(net.root).arg(&folder).args([&http, &grpc]);
    let address = format!("127.0.0.1:{http}");
    let _server = Server::start(&mut command, &address, "/v2/models/digits/ready")?;
    let place = folder.to_str().context("the target folder's path is no UTF-8")?;
    let (samples, labels) = (format!("{place}/x.npy"), format!("{place}/labels.npy"));
    let data = ["--data", &samples, "--labels", &labels, "--accuracy-target", "0.96"];
    let data = [&data[..], &["--scenario", "SingleStream"]].concat();
    for (name, system) in [
        ("kserve-bytes", format!("oip:http://127.0.0.1:{http}/digits,binary=true")),
        ("kserve-json", format!("oip:http://127.0.0.1:{http}/digits")),
        ("kserve-grpc", format!("oip-grpc:127.0.0.1:{grpc}/digits")),
    ] {
        net.measure(name, &system, &data)?;
    }
    Ok(())
}

/// Returns the mean number of input tokens of a request, by the server's count.
fn mean_input(summary: &Value) -> Result<f64> {
    let metrics = &summary["tests"][0]["metrics"];
    let count = |value: &Value| value.as_f64().with_context(|| format!("no count in {metrics}"));
    Ok(count(&metrics["tokens"]["input"])? / count(&metrics["sample_count"])?)
}

/// Largest difference between mean lengths of requests that are drawn from equal samples.
const INPUT_DIFFERENCE: f64 = 0.1;

/// Runs whose requests have equal samples and a count of input tokens. A stream of messages has none
/// if llama.cpp leaves out `message_start`, as it does where its first token is half a character.
const COUNTED: [&str; 2] = ["llama-chat", "llama-messages-whole"];

/// Checks that messages have as many input tokens as chats, which have the same template. llama.cpp
/// counts tokens of its cache beside the others in messages, and among them in chats.
fn checked_inputs(means: &[f64]) -> Result<()> {
    let [chat, messages] = means else { bail!("expected runs {COUNTED:?}, found {means:?}") };
    let is_equal = (messages / chat - 1.0).abs() <= INPUT_DIFFERENCE;
    ensure!(is_equal, "{messages:.1} input tokens a request in messages, {chat:.1} in chats");
    Ok(())
}

fn llama(net: &Net<'_>, venv: &Venv) -> Result<()> {
    let [port] = free_ports()?;
    let mut command = venv.python();
    command.arg(net.script("llama_server.py")).arg(&net.folder).arg(port.to_string());
    let address = format!("127.0.0.1:{port}");
    let _server = Server::start(&mut command, &address, "/health")?;
    let scenario = ["--mode", "performance", "--scenario", "SingleStream", "--samples", "16"];
    // The server closes a connection after a streamed answer without announcing it, and each open
    // connection occupies one of its threads.
    // The model is random, and an answer of few bytes may hold no character.
    let once = "keep-alive=false,connections=2,accept-answers=empty";
    let mut inputs = Vec::new();
    for (name, keys) in [
        ("llama-chat", "chat=true"),
        ("llama-completions", "chat=false"),
        ("llama-whole", "stream=false"),
        ("llama-responses", "api=responses"),
        ("llama-messages", "api=messages"),
        ("llama-messages-whole", "api=messages,stream=false"),
    ] {
        let system = format!("openai:http://{address},{keys},max-tokens=16,input=16,{once}");
        let summary = net.measure(name, &system, &scenario)?;
        if COUNTED.contains(&name) {
            inputs.push(mean_input(&summary)?);
        }
    }
    checked_inputs(&inputs)?;
    // Its tokens are bytes, so that only fitted words have the requested length.
    let exact = "input=120,exact-input=tokenize,output=8,force-output=true,unique-prefix=true";
    let exact = format!("openai:http://{address},{exact},{once}");
    let summary = net.measure("llama-exact", &exact, &scenario)?;
    let tokens = &summary["tests"][0]["metrics"]["tokens"];
    let samples = summary["tests"][0]["metrics"]["sample_count"].as_u64().unwrap_or(0);
    let input = tokens["input"].as_u64().unwrap_or(0);
    // A prompt stays a byte off because few lengths of words remain for the last one.
    let is_exact = input.abs_diff(120 * samples) <= samples;
    ensure!(is_exact, "{samples} prompts of 120 tokens had {input}: {tokens}");
    for api in ["embeddings", "rerank"] {
        llama_vectors(net, venv, api)?;
    }
    let system = format!("openai:http://{address},max-tokens=64,input=16,metrics-interval=100ms");
    let load = ["--mode", "performance", "--scenario", "Server", "--max-concurrency", "8"];
    let summary = net.measure(
        "llama-metrics",
        &format!("{system},keep-alive=false,accept-answers=empty"),
        &load,
    )?;
    println!("llama-metrics: {}", checked_metrics(&summary)?);
    for api in ["completions", "chat"] {
        let right = net.folder.join(format!("right-{api}.jsonl"));
        let right = right.to_str().context("the target folder's path is no UTF-8")?;
        net.run_client(venv, "llama_references.py", &[&port.to_string(), right, api])?;
        let data = ["--data", right, "--accuracy-target", "1", "--scenario", "SingleStream"];
        for streams in [true, false] {
            let keys = format!("chat={},stream={streams}", api == "chat");
            let fixed = "max-tokens=8,temperature:=0,grammar:=\"root ::= [a-z]+\"";
            let system = format!("openai:http://{address},{keys},{fixed},{once}");
            net.measure(&format!("llama-right-{api}-{streams}"), &system, &data)?;
        }
    }
    llama_sessions(net, venv, port)
}

/// Plays conversations of three turns with live answers. Without temperature the server answers a
/// history always the same way, so that its count of input tokens in each turn is that of another
/// client only if the history is the same.
fn llama_sessions(net: &Net<'_>, venv: &Venv, port: u16) -> Result<()> {
    let chats = net.folder.join("chats.jsonl");
    let lines: String = (0..8)
        .map(|n| format!("{{\"turns\": [\"begin {n}\", \"go on\", \"and end {n}{n}\"]}}\n"))
        .collect();
    fs::write(&chats, lines).context("cannot write conversations")?;
    let chats = chats.to_str().context("the target folder's path is no UTF-8")?;
    let expected = net.folder.join("chats-expected.json");
    let path = expected.to_str().context("the target folder's path is no UTF-8")?;
    net.run_client(venv, "llama_sessions.py", &[&port.to_string(), chats, path])?;
    let read = |path: &Path| -> Result<Value> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    };
    let expected = read(&expected)?;
    for streams in [true, false] {
        let name = format!("llama-sessions-{streams}");
        let system = format!(
            "openai:http://127.0.0.1:{port},sessions=once,think=5ms,stream={streams},max-tokens=8,\
             temperature:=0,grammar:=\"root ::= [a-z]+\",keep-alive=false,connections=2"
        );
        let data = ["--data", chats, "--mode", "performance", "--scenario", "Server"];
        net.measure(&name, &system, &[&data[..], &["--max-concurrency", "2"]].concat())?;
        let summary = read(&net.folder.join(&name).join("summary.json"))?;
        let sessions = &summary["tests"][0]["metrics"]["sessions"];
        ensure!(sessions["completed"] == 8, "{name}: 8 conversations, found {sessions}");
        let by_turn = sessions["by_turn"].as_array().context("figures by turn")?;
        let found: Value = by_turn.iter().map(|turn| turn["input_tokens"].clone()).collect();
        ensure!(found == expected, "{name}: input tokens by turn {found}, expected {expected}");
    }
    Ok(())
}

/// Measures embeddings or rankings of llama.cpp, which a server offers alone.
fn llama_vectors(net: &Net<'_>, venv: &Venv, api: &str) -> Result<()> {
    let [port] = free_ports()?;
    let mut command = venv.python();
    command.arg(net.script("llama_server.py")).arg(&net.folder).arg(port.to_string());
    command.arg(api);
    let address = format!("127.0.0.1:{port}");
    let _server = Server::start(&mut command, &address, "/health")?;
    let system = format!("openai:http://{address},api={api},input=16");
    let scenario = ["--mode", "performance", "--scenario", "SingleStream", "--samples", "16"];
    net.measure(&format!("llama-{api}"), &system, &scenario)?;
    Ok(())
}

fn ray(net: &Net<'_>, venv: &Venv) -> Result<()> {
    let [port] = free_ports()?;
    let body = net.folder.join("double.json");
    fs::write(&body, r#"{"number": {number}}"#).context("cannot write a template")?;
    let rows: String = (0..32).map(|number| format!("{{\"number\": {number}}}\n")).collect();
    let numbers = net.folder.join("numbers.jsonl");
    fs::write(&numbers, rows).context("cannot write samples")?;
    let mut command = venv.python();
    command.arg(net.script("ray_server.py")).arg(port.to_string());
    let address = format!("127.0.0.1:{port}");
    let _server = Server::start(&mut command, &address, "/double")?;
    let system = format!("raw:http://{address}/double,body=@{},pointer=/twice", body.display());
    let data = numbers.to_str().context("the target folder's path is no UTF-8")?;
    let data = ["--data", data, "--mode", "performance", "--scenario", "SingleStream"];
    net.measure("ray", &system, &data)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_test_passes_if_every_sample_is_answered() {
        let test = |failed: u64, mode: &str, verdict: &str| {
            let metrics = json!({"sample_count": 9, "missing": 0, "failed": {"rejected": failed}});
            let (scenario, state) = ("Server", "complete");
            json!({"tests": [{"scenario": scenario, "mode": mode, "state": state,
                "verdict": verdict, "reasons": ["late"], "metrics": metrics}]})
        };
        let description = checked_tests(&test(0, "performance", "INVALID")).unwrap();
        assert_eq!(description, "Server performance of 9 samples");
        assert!(checked_tests(&test(1, "performance", "VALID")).is_err());
        assert!(checked_tests(&test(0, "accuracy", "INVALID")).is_err());
        assert!(checked_tests(&json!({})).is_err());
    }
}
