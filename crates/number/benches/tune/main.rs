//! Tunes LeNet and MLP-M on MNIST with the built-in evaluator, and measures evaluations per second.
//! Each figure is one line of JSON.
//!
//! usage: tune --bench FOLDER [--quick] [--study | --serve] [--only PART]...
//!
//! `--only` skips the work for figures whose names contain none of the parts. `--study` prints
//! tables in Markdown instead, which compare other rules and searches with the tuner's. `--serve`
//! measures latencies on request, in turns with other programs.
//!
//! FOLDER has MNIST as `crates/peers/scripts/tune.py` stores it; weights are trained there once.
//! Without it, as in `cargo test --benches`, networks are small and images are noise.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod confirmed;
mod latency;
mod paper;
mod study;
mod train;

use std::path::Path;
use std::time::Instant;

use dyno_number::evaluate::{ChainEvaluator, Samples};
use dyno_number::network::{Layer as TunedLayer, LayerwiseScope, Metric, Network as Tuned};
use dyno_number::tune::{self, Journal, Passes, Settings, Subset, Trial, TuneOutcome};
use dyno_number::{Algorithm, Dictionary, Format, Objective, Platform};
use serde_json::json;
use train::{LENET, Layer, MLP_M, Network, SIDE};

/// Share of the small set: 1,000 of 10,000 images (SPEC A22).
const SMALL: f64 = 0.1;
const SEED: u64 = 1;

/// Images as numbers from 0 to 1, with their labels.
struct Images {
    values: Vec<f32>,
    labels: Vec<u8>,
}

impl Images {
    /// Reads a part of MNIST, `train` or `test`.
    fn read(folder: &Path, part: &str) -> std::io::Result<Self> {
        let bytes = std::fs::read(folder.join(format!("mnist-{part}-images")))?;
        let labels = std::fs::read(folder.join(format!("mnist-{part}-labels")))?;
        // The MNIST package has 256 levels from 0 to 255/256.
        let values = bytes.iter().map(|byte| f32::from(*byte) / 256.0).collect();
        Ok(Self { values, labels })
    }

    /// Generates images of noise, with dots at a place that depends on the label.
    fn made(count: usize) -> Self {
        let mut state = 1_u32;
        let mut values = Vec::with_capacity(count * SIDE * SIDE);
        let labels: Vec<u8> = (0..count).map(|at| (at * 7 % 10) as u8).collect();
        for label in &labels {
            for pixel in 0..SIDE * SIDE {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let noise = (state >> 24) as f32 / 512.0;
                let is_lit = pixel / (SIDE * 2) == usize::from(*label);
                values.push(if is_lit { 0.9 } else { noise });
            }
        }
        Self { values, labels }
    }

    fn first(&self, count: usize) -> Self {
        let count = count.min(self.labels.len());
        let values = self.values[..count * SIDE * SIDE].to_vec();
        Self { values, labels: self.labels[..count].to_vec() }
    }
}

/// Trains a network, or reads the weights of an earlier training.
fn weights(
    folder: Option<&Path>,
    name: &str,
    layers: &'static [Layer],
    images: &Images,
) -> Network {
    let path = folder.map(|folder| folder.join(format!("{name}-{}.f32", images.labels.len())));
    let known = path.as_ref().and_then(|path| std::fs::read(path).ok());
    let known = known.and_then(|bytes| {
        let numbers: Vec<f32> =
            bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        Network::from_numbers(layers, &numbers)
    });
    let start = Instant::now();
    let is_known = known.is_some();
    let network = known.unwrap_or_else(|| Network::trained(layers, &images.values, &images.labels));
    let bytes: Vec<u8> = network.numbers().iter().flat_map(|x| x.to_le_bytes()).collect();
    if let (false, Some(path)) = (is_known, &path) {
        std::fs::write(path, &bytes).expect("a folder that may be written to");
    }
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{name}: weights with the FNV-1a hash {hash:016x}, {seconds:.1} s");
    network
}

/// Returns an evaluator of the test images, and the network to tune: its first `tuned` layers.
fn evaluator(
    network: &Network,
    name: &str,
    test: &Images,
    tuned: usize,
) -> (ChainEvaluator, Tuned) {
    let model = network.model(name).expect("layers that fit");
    let count = test.labels.len();
    let labels = test.labels.iter().map(|label| usize::from(*label)).collect();
    let samples = Samples { values: test.values.clone(), labels };
    let small = tune::samples::draw(count, SMALL, SEED);
    let sets = [small, (0..count).collect(), Vec::new()];
    let mut evaluator = ChainEvaluator::new(&model, samples, sets).expect("a chain of layers");
    let mut layers = evaluator.profile().expect("no NaN");
    layers.truncate(tuned);
    let tuned = network_of(name, layers, 0.07);
    (evaluator, tuned)
}

/// Returns a network whose layers are tuned for the bits of their weights.
fn network_of(name: &str, layers: Vec<TunedLayer>, error_margin: f64) -> Tuned {
    Tuned {
        name: name.into(),
        platform: Platform::named("paper").expect("built in"),
        layers,
        layerwise: LayerwiseScope::WeightOnly,
        objective: Objective::Bits,
        metric: Metric::default(),
        error_margin,
        external: None,
        built_in: None,
    }
}

/// Tunes a network; returns the outcome and the duration in seconds.
fn tuned(
    evaluator: &mut ChainEvaluator,
    network: &Tuned,
    settings: &Settings,
) -> (TuneOutcome, f64) {
    let start = Instant::now();
    let mut evaluate = |trials: &[Trial]| {
        trials.iter().map(|trial| evaluator.evaluate(trial, &|| false)).collect::<Vec<_>>()
    };
    let outcome = tune::tune(network, settings, Journal::disabled(), &mut evaluate, &mut |_| ());
    (outcome, start.elapsed().as_secs_f64())
}

/// Prints a figure of a tuned network with that of the same engine in FLOAT(32).
fn line_beside(name: &str, ours: f64, plain: f64, unit: &str) {
    let ratio = plain / ours;
    let line = json!({"name": name, "ours": ours, "peer": plain, "ratio": ratio, "unit": unit, "goal": null});
    println!("{line}");
}

fn line(name: &str, ours: f64, unit: &str, goal: Option<f64>) {
    let line = json!({"name": name, "ours": ours, "peer": null, "ratio": null, "unit": unit, "goal": goal});
    println!("{line}");
}

/// Prints the figures of a tuning job, with names that start with `prefix`.
fn tell(prefix: &str, outcome: &TuneOutcome, seconds: f64, goals: [Option<f64>; 3]) {
    let answer = outcome.answer.as_ref().expect("FLOAT(32) at least");
    eprintln!(
        "{prefix}: {} in {seconds:.2} s, {:?} evaluations, accuracy {} of at least {:?}",
        answer.assignment, outcome.evaluations, answer.accuracy, outcome.baselines
    );
    let evaluations: u64 = outcome.evaluations.iter().sum();
    line(&format!("{prefix}.seconds"), seconds, "s", goals[0]);
    line(&format!("{prefix}.evaluations"), evaluations as f64, "evaluations", goals[1]);
    line(&format!("{prefix}.bits"), answer.objective, "bits", goals[2]);
}

/// Returns the formats that a tuner found.
fn formats_of(outcome: &TuneOutcome) -> Dictionary {
    outcome.answer.as_ref().expect("FLOAT(32) at least").assignment.dictionary()
}

/// Returns a function from an object to a power of two that its values do not exceed.
fn reach(evaluator: &mut ChainEvaluator) -> impl Fn(&str) -> i32 + use<> {
    let layers = evaluator.profile().expect("no NaN");
    move |object: &str| {
        let of = |end: &str, max: fn(&TunedLayer) -> f64| {
            let name = object.strip_suffix(end)?;
            layers.iter().find(|layer| layer.name == name).map(max)
        };
        let weight = of(".weight", |layer| layer.weight_max);
        let max = weight.or_else(|| of(".input", |layer| layer.activation_max));
        max.expect("an object of the model").log2().ceil() as i32
    }
}

/// Measures complete evaluations per second of neighboring configurations: each differs from the
/// last one in one slot, as in the tuner.
fn speed(evaluator: &mut ChainEvaluator, network: &Tuned, subset: Subset, count: u32) -> f64 {
    let slots = network.slots();
    let profiled = |bits: u32| {
        let format = Format::fixed(bits, 0).expect("bits of FIXED");
        slots.iter().map(|slot| network.profiled(*slot, format)).collect::<Vec<_>>()
    };
    let mut formats = profiled(4);
    let mut evaluate = |formats: &[Format]| {
        let assignment = network.base().with_formats(formats.to_vec());
        let trial = Trial { number: 1, subset, assignment, decides: None };
        evaluator.evaluate(&trial, &|| false).expect("no NaN");
    };
    evaluate(&formats);
    let start = Instant::now();
    for at in 0..count as usize {
        let slot = at % slots.len();
        let bits = 3 + (at / slots.len()) as u32 % 6;
        formats[slot] = profiled(bits)[slot].with_bias(at as i32 % 5 - 1).expect("a small bias");
        evaluate(&formats);
    }
    f64::from(count) / start.elapsed().as_secs_f64()
}

/// Suffixes of the figures of a tuning job.
const OF_TUNE: [&str; 3] = [".seconds", ".evaluations", ".bits"];

/// Parts of names that `--only` lists; empty if all figures are wanted.
struct FigureFilter(Vec<String>);

impl FigureFilter {
    /// Takes the `--only` options out of the arguments.
    fn from_arguments(arguments: &mut Vec<String>) -> Self {
        let mut parts = Vec::new();
        while let Some(at) = arguments.iter().position(|argument| argument == "--only") {
            parts.extend(arguments.drain(at..(at + 2).min(arguments.len())).nth(1));
        }
        Self(parts)
    }

    /// Returns whether a figure is wanted whose name starts with `prefix` and has one of these
    /// suffixes.
    fn wants(&self, prefix: &str, ends: &[&str]) -> bool {
        let asks = |end: &&str| self.0.iter().any(|part| format!("{prefix}{end}").contains(part));
        self.0.is_empty() || ends.iter().any(asks)
    }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = FigureFilter::from_arguments(&mut arguments);
    let folder = arguments.iter().find(|argument| !argument.starts_with("--")).map(Path::new);
    let is_quick = folder.is_none() || arguments.iter().any(|argument| argument == "--quick");
    let read = |part| {
        let missing = "FOLDER has MNIST as crates/peers/scripts/tune.py leaves it";
        folder
            .map_or_else(|| Images::made(400), |folder| Images::read(folder, part).expect(missing))
    };
    let train = read("train").first(if is_quick { 8_000 } else { usize::MAX });
    let test = read("test").first(if is_quick { 2_000 } else { usize::MAX });
    if arguments.iter().any(|argument| argument == "--study") {
        return study::print(folder, &train, &test);
    }
    let lenet = weights(folder, "lenet", LENET, &train);
    let mlp = weights(folder, "mlp-m", MLP_M, &train);
    if let Some(folder) = folder {
        leave(folder, "lenet", &lenet);
        leave(folder, "mlp-m", &mlp);
    }
    let (mut evaluator, mut network) = self::evaluator(&lenet, "lenet", &test, 2);
    let settings = Settings { measures_noise: false, ..Settings::default() };
    if arguments.iter().any(|argument| argument == "--serve") {
        let (outcome, _) = tuned(&mut evaluator, &network, &settings);
        let found = [("lenet_7", formats_of(&outcome))];
        let model = lenet.model("lenet").expect("layers that fit");
        return latency::serve(&model, &found, &test, &reach(&mut evaluator));
    }
    let speeds = [(Subset::Full, 30, "full", 10.0), (Subset::Small, 300, "small", 100.0)];
    for (subset, count, set, goal) in speeds {
        if !only.wants(&format!("tune.{set}_evaluations_per_s"), &[""]) {
            continue;
        }
        let count = if is_quick { count / 3 } else { count };
        let speed = speed(&mut evaluator, &network, subset, count);
        line(&format!("tune.{set}_evaluations_per_s"), speed, "evaluations/s", Some(goal));
    }
    let latencies = only.wants(latency::NAME, &latency::ENDS);
    let mut found = Vec::new();
    let goals = [[Some(1.0), Some(41.0), Some(58_328.0)], [None, None, Some(61_992.0)]];
    let margins = [("lenet_7", 0.07), ("lenet_1", 0.01)];
    for ((name, margin), goals) in margins.into_iter().zip(goals) {
        let prefix = format!("tune.{name}");
        if latencies || only.wants(&prefix, &OF_TUNE) {
            network.error_margin = margin;
            let (outcome, seconds) = tuned(&mut evaluator, &network, &settings);
            tell(&prefix, &outcome, seconds, goals);
            found.push((name, formats_of(&outcome)));
        }
    }
    if latencies {
        let model = lenet.model("lenet").expect("layers that fit");
        latency::print(&model, &found, &test, is_quick, &reach(&mut evaluator));
    }
    if only.wants("tune.mlp_m", &OF_TUNE) {
        let (mut evaluator, network) = self::evaluator(&mlp, "mlp-m", &test, 3);
        let (outcome, seconds) = tuned(&mut evaluator, &network, &settings);
        tell("tune.mlp_m", &outcome, seconds, [None, Some(190.0), None]);
    }
    confirmed::print(folder, [&lenet, &mlp], [&train, &test], is_quick, &only);
    for (name, margin) in margins {
        let prefix = format!("tune.{name}.exhaustive");
        if !is_quick && only.wants(&prefix, &OF_TUNE) {
            exhaustive(&lenet, &test, &settings, &prefix, margin);
        }
    }
}

/// Writes the model to a file, for other programs.
fn leave(folder: &Path, name: &str, network: &Network) {
    let bytes = network.model(name).expect("layers that fit").to_bytes();
    let path = folder.join(format!("{name}.onnx"));
    std::fs::write(path, bytes.expect("weights")).expect("a folder that may be written to");
}

/// Maximum number of evaluations of an exhaustive search. Most end early; all take some ten
/// minutes.
const MOST: u64 = 60_000;

/// Prints the least possible number of bits, if an exhaustive search finds it within [`MOST`]
/// evaluations.
fn exhaustive(lenet: &Network, test: &Images, settings: &Settings, name: &str, margin: f64) {
    let (mut evaluator, mut network) = self::evaluator(lenet, "lenet", test, 2);
    network.error_margin = margin;
    let algorithm = Algorithm::Exhaustive { below: 1, above: 3 };
    // Uses all images, because a pass on a part of them proves nothing.
    let (passes, max_evaluations) = (Passes::FullOnly, Some(MOST));
    let settings = Settings { algorithm, passes, max_evaluations, ..settings.clone() };
    let (outcome, seconds) = tuned(&mut evaluator, &network, &settings);
    if outcome.evaluations.iter().sum::<u64>() < MOST {
        tell(name, &outcome, seconds, [Some(600.0), None, None]);
    } else {
        eprintln!("{name}: nothing was found in {MOST} evaluations, {seconds:.1} s");
    }
}
