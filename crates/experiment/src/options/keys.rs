//! Options of a run besides the settings of the load generator.
//!
//! The table [`KEYS`] is the source of the flags of `dyno run`, of the keys of `[run]` in
//! `dyno.toml`, and of the output of `dyno init`.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::rng::GAMMA_SHAPES;
use dyno_loadgen::search::Quantity;
use dyno_loadgen::settings::{Scenario, intended, similar};
use dyno_results::records::Keep;
use dyno_results::summary::Limits;
use dyno_results::summary::distributions::{Percentiles, TIMES};
use dyno_results::units;
use dyno_rules::Round;
use dyno_sut::cores::{Cores, CoresError};

use super::batch::BatchSizes;
use super::profile::Profile;
use super::require::Requirement;
use super::shape::ShapeOption;
use super::stages::Stages;

dyno_loadgen::named_enum! {
    /// Which tests are run in each scenario.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mode {
        /// Every sample once, scored.
        Accuracy = "accuracy",
        /// Latency or throughput.
        Performance = "performance",
        /// Accuracy, then performance.
        Both = "both",
        /// The highest Server rate within the latency bound.
        Peak = "peak",
    }
}

/// Options of a run; `None` means not set.
#[expect(missing_docs, reason = "each field is the key of its name, and `KEYS` has its help")]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOptions {
    pub system: Option<String>,
    pub round: Option<String>,
    pub benchmark: Option<String>,
    pub scenarios: Vec<Scenario>,
    pub is_interactive: bool,
    pub mode: Option<Mode>,
    pub profile: Option<Profile>,
    pub duration: Option<Nanos>,
    pub qps: Option<f64>,
    pub num_prompts: Option<NonZero<usize>>,
    pub max_concurrency: Option<NonZero<u32>>,
    pub burstiness: Option<f64>,
    pub stages: Option<Stages>,
    pub ramp: Option<Nanos>,
    pub seed: Option<u64>,
    pub deadline: Option<Nanos>,
    pub fails_fast: Option<bool>,
    pub stops_on_saturation: Option<bool>,
    /// Systems of `[[tenants]]`, in their order; `None` for tenants that use the run's system.
    pub tenant_systems: Vec<Option<String>>,
    pub model: Option<PathBuf>,
    pub data: Vec<(Option<String>, PathBuf)>,
    /// Shapes of inputs with dynamic dimensions.
    pub shapes: Vec<ShapeOption>,
    pub labels: Option<PathBuf>,
    pub with: Vec<(String, PathBuf)>,
    pub ort_lib: Option<PathBuf>,
    pub samples: Option<NonZero<usize>>,
    /// Samples of the benchmark's data set, if the run follows a round.
    pub samples_of_round: Option<NonZero<usize>>,
    pub workers: Option<usize>,
    pub remote_workers: Option<NonZero<usize>>,
    pub listen: Option<String>,
    pub threads: Option<NonZero<usize>>,
    pub cores: Option<Cores>,
    pub warm_up: Option<usize>,
    pub ready_timeout: Option<Nanos>,
    pub batch: Option<BatchSizes>,
    pub batch_wait: Option<Nanos>,
    pub accuracy_target: Option<f64>,
    /// Bounds that performance tests must keep.
    pub requirements: Vec<Requirement>,
    pub goodput: Option<Limits>,
    pub percentile_metrics: Option<Vec<String>>,
    pub metric_percentiles: Option<Vec<f64>>,
    pub equivalence: Option<PathBuf>,
    /// Whether the time is virtual; `None` is the default of the system.
    pub is_virtual: Option<bool>,
    pub conf: Vec<PathBuf>,
    pub conf_model: Option<String>,
    pub audit: Option<PathBuf>,
    pub out: Option<PathBuf>,
    pub name: Option<String>,
    pub trace_log: bool,
    /// Whether the texts of requests and answers are written.
    pub keeps_texts: bool,
    /// Whether the run is only planned, so that no server is contacted.
    pub is_dry: bool,
    pub records: Keep,
}

impl RunOptions {
    /// Returns the percentiles of the metrics of text servers.
    pub fn percentiles(&self) -> Percentiles {
        let default = Percentiles::default();
        Percentiles {
            percents: self.metric_percentiles.clone().unwrap_or(default.percents),
            metrics: self.percentile_metrics.clone(),
        }
    }

    /// Returns whether first tokens and token counts are wanted: by the profile or by a limit.
    pub fn needs_tokens(&self) -> bool {
        let is_of_tokens = |requirement: &Requirement| {
            let quantity = requirement.limit(0.99).quantity;
            matches!(quantity, Quantity::FirstToken | Quantity::TimePerOutputToken)
        };
        self.profile == Some(Profile::Llm)
            || self.goodput.is_some_and(|limits| limits.needs_tokens())
            || self.requirements.iter().any(is_of_tokens)
    }

    /// Returns the number of samples of a generated data set: the given number, that of the round,
    /// or `default`.
    pub fn samples_or_of_round(&self, default: usize) -> usize {
        self.samples.or(self.samples_of_round).map_or(default, NonZero::get)
    }
}

/// A row of [`KEYS`].
pub struct Key {
    /// Heading in help texts.
    pub group: &'static str,
    /// Name of the flag. In `dyno.toml` underscores replace the hyphens.
    pub name: &'static str,
    /// Placeholder of the value in help texts; empty for a switch.
    pub value: &'static str,
    /// Help text, one sentence.
    pub help: &'static str,
    /// Description of the default.
    pub default: &'static str,
    /// Parses a value and sets it. Paths are relative to the third argument.
    pub set: fn(&mut RunOptions, &str, &Path) -> Result<(), String>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! keys {
    ($(@$group:literal; $($name:literal $value:literal $help:literal $default:literal $set:expr;)+)+) => {
        /// Every key, in the order of help texts.
        pub const KEYS: &[Key] = &[$($(Key {
            group: $group, name: $name, value: $value, help: $help, default: $default, set: $set,
        },)+)+];
    };
}

keys! {
    @"System";
    "system" "SYSTEM" "What to measure: digits, digits-lstm, null, onnx:FILE, tract:FILE, tuned:model=FILE,formats=FILE, rnn:MODEL, task:NAME, py:FILE.py:FUNCTION, plugin:FILE.so, openai:URL, oip:URL/MODEL, oip-grpc:HOST:PORT/MODEL, raw:URL, model:SERVICE, npu:networks=NAMES, cheat:TRICK (dyno info systems)" "digits"
        |o, v, _| { o.system = Some(v.into()); Ok(()) };
    "model" "FILE" "ONNX model of the systems onnx, tract and tuned" "named by the system"
        |o, v, base| { o.model = Some(base.join(v)); Ok(()) };
    "data" "[INPUT=]FILE" "Samples of a model (.npy, one per element of the first axis; repeat for each input), or prompts for a server (.jsonl, .json, .csv)" "random samples"
        |o, v, base| { o.data.push(input_file(v, base)); Ok(()) };
    "shape" "INPUT=DIMS,.." "Shape of an input with dynamic dimensions, such as input_ids=1x128, where 1 is the batch; repeat it or separate with commas" "none: without --data, dynamic dimensions other than the batch are rejected"
        |o, v, _| { o.shapes.extend(ShapeOption::parse_all(v)?); Ok(()) };
    "labels" "FILE.npy" "Class of each sample, for the accuracy" "none: accuracy is not scored"
        |o, v, base| { o.labels = Some(base.join(v)); Ok(()) };
    "with" "NAME=FILE" "File of a task, by its name in dyno task show, or reference=FILE.npy of the system rnn; repeat for each file" "files that dyno fetch downloaded"
        |o, v, base| { o.with.push(named_file(v, base)?); Ok(()) };
    "ort-lib" "FILE" "Shared library of ONNX Runtime" "found through Python's onnxruntime"
        |o, v, base| { o.ort_lib = Some(base.join(v)); Ok(()) };
    "samples" "N" "Number of samples to generate, or to use from a file of prompts" "1024; 256 for servers; with --round those of the benchmark"
        |o, v, _| { o.samples = Some(count_up_to(v, MOST_SAMPLES)?); Ok(()) };
    @"Load";
    "scenario" "SCENARIO,.." "SingleStream, MultiStream, Server or Offline, separated by commas; some rounds also have Interactive" "all four, or those of the benchmark; Server with --profile llm or --mode peak"
        |o, v, _| add_scenarios(o, v);
    "mode" "MODE" "accuracy, performance, both, or peak (the highest Server rate or the most MultiStream streams within the latency bound)" "both; performance with --profile llm, unless --accuracy-target is given"
        |o, v, _| { o.mode = Some(mode(v)?); Ok(()) };
    "profile" "PROFILE" "quick (5 s per test), rules (600 s per test, as official runs) or llm (30 s at concurrency 8, without MLPerf bounds)" "quick; llm for a URL and for the system openai; rules with --round"
        |o, v, _| { o.profile = Some(Profile::parse(v)?); Ok(()) };
    "duration" "TIME" "Minimum length of each performance test, such as 10s" "by profile"
        |o, v, _| { o.duration = Some(units::parse_duration(v)?); Ok(()) };
    "qps" "RATE" "Server: mean arrival rate in queries/s" "a tenth of what a short probe reaches, at most 1000"
        |o, v, _| { o.qps = Some(rate(v)?); Ok(()) };
    "num-prompts" "N" "Exact number of queries of each performance test, regardless of time" "as many as the duration needs"
        |o, v, _| { o.num_prompts = Some(at_least_one(v)?); Ok(()) };
    "max-concurrency" "N" "Server: maximum number of requests in flight, at all nodes of a server (node=) together; without a rate, exactly this number" "no limit; with --profile llm and no rate 8"
        |o, v, _| { o.max_concurrency = Some(positive(v)?); Ok(()) };
    "burstiness" "SHAPE" "Server: shape of the gamma-distributed gaps between arrivals; 1 is Poisson, lower is burstier" "1"
        |o, v, _| { o.burstiness = Some(shape(v)?); Ok(()) };
    "stages" "TIME@RATE,.." "Server: Poisson arrivals at changing rates, such as 30s@2,60s@8; 10s@0-8 rises from 0 to 8 requests/s" "one rate"
        |o, v, _| { o.stages = Some(v.parse()?); Ok(()) };
    "ramp" "TIME" "Server: time before the measured part in which the rate rises from 0, or the requests in flight from 1; requests of the ramp are sent and not measured" "0s"
        |o, v, _| { o.ramp = Some(above_zero(v)?); Ok(()) };
    "warm-up" "N" "Number of calls before the clock of each test starts; loading a model already calls it once" "0"
        |o, v, _| { o.warm_up = Some(number(v)?); Ok(()) };
    "ready-timeout" "TIME" "Servers: how long to wait before the run until the server is ready" "0s"
        |o, v, _| { o.ready_timeout = Some(units::parse_duration(v)?); Ok(()) };
    "seed" "N" "Seed of samples and arrivals" "the official seeds of --round, or of the current round"
        |o, v, _| { o.seed = Some(number(v)?); Ok(()) };
    @"Verdict";
    "require" "[SCENARIO:]LIMIT" "Limit that performance tests must keep, such as p99<=5ms or server:errors<=0.1%, judged by its confidence interval; a share needs its % sign; repeat for each limit" "none"
        |o, v, _| { add(&mut o.requirements, Requirement::parse(v)?); Ok(()) };
    "goodput" "LIMITS" "Also report the rate within these limits in ms: ttft:MS, tpot:MS and e2el:MS, separated by commas" "none; Server reports the rate within its bounds"
        |o, v, _| { o.goodput = Some(v.parse()?); Ok(()) };
    "accuracy-target" "SHARE" "Required accuracy from 0 to 1, or the maximum of an error rate" "that of the round or the task; 99 % of the reference for digits and digits-lstm; otherwise none"
        |o, v, _| { o.accuracy_target = Some(share(v)?); Ok(()) };
    "deadline" "TIME" "Give up when no answer arrives for this long" "60s more than the test is expected to last"
        |o, v, _| { o.deadline = Some(above_zero(v)?); Ok(()) };
    "fail-fast" "on|off" "End a run when its first 20 answers failed, or more than half of the last 200 (real time only)" "on; off with --profile rules or --round"
        |o, v, _| { o.fails_fast = Some(on_or_off(v)?); Ok(()) };
    "stop-on-saturation" "on|off" "Server at a rate: end a run whose queue grows without bound, and report the rate that the system completes (one rate, real time, no remote workers)" "off; on with --profile llm"
        |o, v, _| { o.stops_on_saturation = Some(on_or_off(v)?); Ok(()) };
    "percentile-metrics" "METRICS" "Text servers: times with percentiles in the table: ttft, tpot, itl and e2el, separated by commas" "all of them"
        |o, v, _| { o.percentile_metrics = Some(percentile_metrics(v)?); Ok(()) };
    "metric-percentiles" "P,.." "Text servers: percentiles in the table, such as 50,95,99.9" "50,90,99"
        |o, v, _| { o.metric_percentiles = Some(percentiles(v)?); Ok(()) };
    @"Execution";
    "workers" "N" "Threads that compute batches; 0 computes on the issuing thread" "0; in Offline 1, or one per core for digits, tract and tuned; 1 for layers of rnn and digits-lstm, except in SingleStream"
        |o, v, _| { o.workers = Some(number(v)?); Ok(()) };
    "threads" "N" "Threads per call of ONNX Runtime or of Dyno's engines" "the processors of the process, shared by the workers"
        |o, v, _| { o.threads = Some(at_least_one(v)?); Ok(()) };
    "cores" "LIST" "Processors for the threads of the system, such as 0-3,6; the issuing thread stays off them (Linux)" "all"
        |o, v, _| { o.cores = Some(v.parse().map_err(|error: CoresError| error.to_string())?); Ok(()) };
    "batch" "N|SCENARIO=N,.." "Maximum batch size of the workers, for all scenarios or each; 32,Server=8 is 8 in Server and 32 elsewhere" "32; 1 for simulated systems"
        |o, v, _| { o.batch = Some(BatchSizes::parse(v)?); Ok(()) };
    "batch-wait" "TIME" "How long the oldest sample of a batch waits for more samples" "0ns"
        |o, v, _| { o.batch_wait = Some(units::parse_duration(v)?); Ok(()) };
    "virtual" "" "Run in virtual time; simulated systems only" "on for model:, npu: and cheat:, otherwise off"
        |o, v, _| { o.is_virtual = Some(switch(v)?); Ok(()) };
    "remote-workers" "N" "Number of dyno worker processes that share the load, here or on other machines" "none: this process issues the whole load"
        |o, v, _| { o.remote_workers = Some(at_least_one(v)?); Ok(()) };
    "listen" "ADDRESS" "Address where remote workers join; port 0 selects a free port" "127.0.0.1:7700"
        |o, v, _| { o.listen = Some(v.into()); Ok(()) };
    @"MLPerf";
    "round" "ROUND" "Round of MLPerf Inference whose rules set the defaults, such as v5.1; needs --benchmark (dyno info rules)" "none"
        |o, v, _| { o.round = Some(v.into()); o.round = Some(round(v)?); Ok(()) };
    "benchmark" "NAME" "Benchmark of the round, by its official name or a name that submitters use" "none"
        |o, v, _| { o.benchmark = Some(v.into()); Ok(()) };
    "equivalence" "FILE" "Output of dyno task equivalence --json for the model; the division depends on it" "none"
        |o, v, base| { o.equivalence = Some(base.join(v)); Ok(()) };
    "conf" "FILE" "user.conf in LoadGen's format; repeat for several files" "none"
        |o, v, base| { o.conf.push(base.join(v)); Ok(()) };
    "conf-model" "NAME" "Model whose rows of the built-in table and of user.conf apply (dyno info models)" "* only; with --round that of the benchmark"
        |o, v, _| { o.conf_model = Some(v.into()); Ok(()) };
    "audit" "FILE" "audit.config, which overrides all other settings" "none"
        |o, v, base| { o.audit = Some(base.join(v)); Ok(()) };
    @"Output";
    "out" "DIR" "Directory of the results; must be new or empty" "runs/TIME-NAME"
        |o, v, base| { o.out = Some(base.join(filled(v, "a folder")?)); Ok(()) };
    "name" "NAME" "Name of the run, for its directory and report" "the system"
        |o, v, _| { o.name = Some(filled(v, "a name")?.into()); Ok(()) };
    "records" "WHICH" "Raw records of each test in records.bin: thinned (at most 262,144 rows), all or none" "thinned"
        |o, v, _| { o.records = keep(v)?; Ok(()) };
    "trace-log" "" "Write mlperf_log_trace.json, half a kilobyte per sample" "off"
        |o, v, _| { o.trace_log = switch(v)?; Ok(()) };
    "texts" "" "Write the text of each request and answer to texts.jsonl, one line each; they are kept in memory until the run ends" "off"
        |o, v, _| { o.keeps_texts = switch(v)?; Ok(()) };
}

/// Returns the key of this name, with hyphens or underscores.
///
/// # Errors
/// The name that is probably meant, in the spelling of `dyno.toml`; empty if there is none.
pub fn find(name: &str) -> Result<&'static Key, String> {
    let hyphenated = name.replace('_', "-");
    let found = KEYS.iter().find(|key| key.name == hyphenated);
    found.ok_or_else(|| match hyphenated.as_str() {
        // The flag has both names.
        "request-rate" => "qps".into(),
        name => {
            let near = intended(name, KEYS.iter().map(|key| key.name)).unwrap_or_default();
            near.replace('-', "_")
        }
    })
}

/// Keys given on the command line, with their values.
#[derive(Debug, Clone, Default)]
pub struct GivenKeys(pub Vec<(&'static Key, String)>);

/// Parses the name of a scenario: `Server`, `server`, `single-stream`.
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn scenario(text: &str) -> Result<Scenario, String> {
    let plain = text.to_ascii_lowercase().replace(['-', '_'], "");
    let named = |scenario: &Scenario| scenario.name().to_ascii_lowercase() == plain;
    Scenario::ALL.iter().copied().find(named).ok_or_else(|| {
        let names = Scenario::ALL.iter().map(|scenario| scenario.name());
        let near = similar(text, names.clone());
        let near = near.map(|near| format!("; the nearest is {near}")).unwrap_or_default();
        let names: Vec<&str> = names.collect();
        format!("expected one of {}, found `{text}`{near}", names.join(", "))
    })
}

/// Adds scenarios to the options. Interactive is played as Server with different bounds, so that a
/// run has only one of the two.
fn add_scenarios(options: &mut RunOptions, text: &str) -> Result<(), String> {
    if text == "all" {
        options.scenarios.extend(Scenario::ALL);
        return Ok(());
    }
    let (interactive, others): (Vec<&str>, Vec<&str>) =
        text.split(',').map(str::trim).partition(|name| name.eq_ignore_ascii_case("interactive"));
    let others: Vec<Scenario> = others.into_iter().map(scenario).collect::<Result<_, _>>()?;
    options.is_interactive |= !interactive.is_empty();
    let has_server = options.scenarios.contains(&Scenario::Server) && interactive.is_empty();
    if options.is_interactive && (has_server || others.contains(&Scenario::Server)) {
        return Err("Server and Interactive both run as Server with different bounds; run them \
             separately"
            .into());
    }
    options.scenarios.extend(others);
    if options.is_interactive {
        options.scenarios.push(Scenario::Server);
    }
    Ok(())
}

/// Adds a requirement unless it is there: a file and a flag may have the same one.
fn add(requirements: &mut Vec<Requirement>, requirement: Requirement) {
    if !requirements.contains(&requirement) {
        requirements.push(requirement);
    }
}

fn round(text: &str) -> Result<String, String> {
    let round = Round::named(text).map_err(|unknown| unknown.to_string())?;
    Ok(round.version.to_string())
}

fn mode(text: &str) -> Result<Mode, String> {
    let named = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    named.ok_or_else(|| {
        let near = match text {
            "AccuracyOnly" => "; use accuracy",
            "PerformanceOnly" => "; use performance",
            "SubmissionRun" => "; use both",
            "FindPeakPerformance" => "; use peak",
            _ => "",
        };
        format!("expected accuracy, performance, both or peak, found `{text}`{near}")
    })
}

fn keep(text: &str) -> Result<Keep, String> {
    let named = Keep::ALL.into_iter().find(|k| k.name() == text);
    named.ok_or_else(|| format!("expected thinned, all or none, found `{text}`"))
}

/// Parses `INPUT=FILE`, or only a file for a model with one input.
fn input_file(text: &str, base: &Path) -> (Option<String>, PathBuf) {
    match text.split_once('=') {
        Some((input, file)) => (Some(input.to_string()), base.join(file)),
        None => (None, base.join(text)),
    }
}

fn named_file(text: &str, base: &Path) -> Result<(String, PathBuf), String> {
    let (name, file) =
        text.split_once('=').ok_or_else(|| format!("expected NAME=FILE, found `{text}`"))?;
    Ok((name.to_string(), base.join(file)))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    let digits = text.replace('_', "");
    let expected = match digits.parse::<i128>() {
        Ok(..0) => "a whole number from 0",
        Ok(_) => "a smaller number",
        // Only whole numbers do not read `1e3`.
        Err(_) if digits.parse::<f64>().is_ok() => "a whole number",
        Err(_) => "a number",
    };
    digits.parse().map_err(|_| format!("expected {expected}, found `{text}`"))
}

/// Parses a number of at least 1.
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn at_least_one(text: &str) -> Result<NonZero<usize>, String> {
    NonZero::new(number(text)?).ok_or_else(|| "expected a number of at least 1, found `0`".into())
}

/// Maximum number of samples: each has at least an index in memory.
const MOST_SAMPLES: usize = 100_000_000;

/// Reads a count of things that are held in memory.
fn count_up_to(text: &str, most: usize) -> Result<NonZero<usize>, String> {
    match at_least_one(text)? {
        count if count.get() > most => Err(format!("expected at most {most}, found `{text}`")),
        count => Ok(count),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match number(text)? {
        rate if rate == f64::INFINITY => {
            Err("expected a finite rate; use --scenario Offline for all requests at once, or \
                 --max-concurrency N for a closed loop"
                .into())
        }
        rate => Ok(rate),
    }
}

fn positive(text: &str) -> Result<NonZero<u32>, String> {
    NonZero::new(number(text)?).ok_or_else(|| "expected a number of at least 1, found `0`".into())
}

fn shape(text: &str) -> Result<f64, String> {
    let shape: f64 = number(text)?;
    let shapes = GAMMA_SHAPES;
    if shapes.contains(&shape) {
        return Ok(shape);
    }
    let (least, most) = (shapes.start(), shapes.end());
    Err(format!("expected a number from {least} to {most}, found `{text}`"))
}

fn above_zero(text: &str) -> Result<Nanos, String> {
    match units::parse_duration(text)? {
        0 => Err(format!("expected a time above 0, found `{text}`")),
        time => Ok(time),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%');
    let value: f64 = number(percent.unwrap_or(text))?;
    if percent.is_none() && (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    let problem = format!("expected a share from 0 to 1, found `{text}`");
    if !(0.0..=100.0).contains(&value) {
        return Err(problem);
    }
    // Exact to eight decimals: 99.9 / 100 has a tail of rounding.
    Err(format!("{problem}; write {}", (value * 1e6).round() / 1e8))
}

/// Returns a text that is not empty. `what` is what was expected.
fn filled<'t>(text: &'t str, what: &str) -> Result<&'t str, String> {
    match text.trim() {
        "" => Err(format!("expected {what}, found an empty text")),
        _ => Ok(text),
    }
}

fn percentile_metrics(text: &str) -> Result<Vec<String>, String> {
    let named: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    match named.iter().find(|name| !TIMES.contains(&name.as_str())) {
        Some(other) => Err(format!("expected any of {}, found `{other}`", TIMES.join(", "))),
        None => Ok(named),
    }
}

/// Parses percentiles in percent, and sorts them.
fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let expected =
        |part| format!("expected a percentile above 0 and below 100, such as 99.9, found `{part}`");
    let each = text.split(',').map(|part| {
        let percent: Option<f64> = part.trim().parse().ok();
        let in_range = percent.filter(|percent| *percent > 0.0 && *percent < 100.0);
        let percent = in_range.ok_or_else(|| expected(part))?;
        match units::percent_of_fraction(percent) {
            Some(meant) => {
                Err(format!("expected a percentile of at least 1, found `{part}`; write {meant}"))
            }
            None => Ok(percent),
        }
    });
    let mut all: Vec<f64> = each.collect::<Result<_, _>>()?;
    all.sort_by(f64::total_cmp);
    all.dedup();
    Ok(all)
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("expected on or off, found `{text}`")),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("expected true or false, found `{text}`"))
}
