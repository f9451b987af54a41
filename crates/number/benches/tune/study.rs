//! Tables of `cargo xtask tune study`: rules and searches with one evaluator.

use std::collections::HashMap;
use std::path::Path;

use dyno_number::evaluate::ChainEvaluator;
use dyno_number::network::{LayerwiseScope, Network as Tuned};
use dyno_number::tune::{self, BiasRule, Passes, Settings, Subset, TuneOutcome};
use dyno_number::{Algorithm, Kind, Objective, Platform};

use crate::paper::{self, Row};
use crate::train::{BLOCKS, DIGITS, LENET, Layer, MLP_M};
use crate::{Images, tuned, weights};

/// Error margins of the thesis' tables.
const MARGINS: [f64; 2] = [0.07, 0.01];

/// A network to tune.
struct Case {
    name: &'static str,
    evaluator: ChainEvaluator,
    network: Tuned,
    /// Runs by their settings, because several tables use the same run.
    known: HashMap<String, TuneRun>,
}

/// Outcome and duration of a tuning job.
#[derive(Clone)]
struct TuneRun {
    outcome: TuneOutcome,
    seconds: f64,
}

/// Networks with the number of their tuned layers.
const NETWORKS: [(&str, &[Layer], usize); 4] =
    [("LeNet", LENET, 2), ("MLP-M", MLP_M, 3), ("digits", DIGITS, 3), ("blocks", BLOCKS, 5)];

/// Prints all tables.
pub fn print(folder: Option<&Path>, train: &Images, test: &Images) {
    let case = |(name, layers, count): (&'static str, &'static [Layer], usize)| {
        let file = name.to_lowercase();
        let network = weights(folder, &file, layers, train);
        let (evaluator, network) = crate::evaluator(&network, &file, test, count);
        Case { name, evaluator, network, known: HashMap::new() }
    };
    let mut cases: Vec<Case> = NETWORKS.into_iter().map(case).collect();
    networks(&cases, [train, test]);
    rules(&mut cases);
    passes(&mut cases);
    searches(&mut cases);
    stripes(&mut cases);
    blocks(&mut cases[3]);
    paper(&mut cases);
    smallest(&mut cases[0]);
}

impl Case {
    /// Tunes from scratch: the evaluator's caches are cleared.
    fn tune(&mut self, margin: f64, settings: &Settings) -> TuneRun {
        self.network.error_margin = margin;
        let key = tune::describe(&self.network, settings).to_string();
        if let Some(found) = self.known.get(&key) {
            return found.clone();
        }
        self.evaluator.forget();
        let (outcome, seconds) = tuned(&mut self.evaluator, &self.network, settings);
        let (name, algorithm) = (self.name, settings.algorithm);
        eprintln!("{name}, {margin}, {algorithm}, {:?}: {seconds:.2} s", settings.bias_rule);
        let found = TuneRun { outcome, seconds };
        self.known.insert(key, found.clone());
        found
    }
}

fn settings() -> Settings {
    Settings { measures_noise: false, ..Settings::default() }
}

impl TuneRun {
    fn evaluations(&self) -> String {
        let [small, full, _] = self.outcome.evaluations;
        format!("{} ({small} + {full})", small + full)
    }

    /// Returns the number of images of all evaluations, as if none had ended early.
    fn images(&self) -> f64 {
        let sets = self.outcome.evaluations.iter().zip(self.outcome.samples);
        sets.map(|(evaluations, samples)| *evaluations as f64 * samples.unwrap_or(0) as f64).sum()
    }

    fn answer(&self) -> &dyno_number::tune::TuneAnswer {
        self.outcome.answer.as_ref().expect("FLOAT(32) at least")
    }

    /// Returns the accuracy on the full set, with a star if the answer was not evaluated there or
    /// fails.
    fn accuracy(&self) -> String {
        let answer = self.answer();
        let of = self.outcome.baselines[answer.subset as usize].expect("it was begun");
        let sign =
            if answer.subset == Subset::Full && answer.accuracy >= of.threshold { "" } else { "*" };
        format!("{:.4}{sign}", answer.accuracy)
    }
}

fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

fn head(title: &str, note: &str, cells: &[&str]) {
    println!("## {title}\n\n{note}\n");
    row(&cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    row(&vec!["---".to_owned(); cells.len()]);
}

/// Formats a count with thousands separators: `1,042,068`.
fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn networks(cases: &[Case], images: [&Images; 2]) {
    let [train, test] = images.map(|images| count(images.labels.len() as f64));
    let note = format!(
        "Trained one epoch on {train} images of MNIST's training part. The full set is {test} of its test \
         images, the small set a tenth of these."
    );
    head(
        "Networks",
        &note,
        &["network", "tuned layers", "weights", "activations", "bits in FLOAT(32)"],
    );
    for case in cases {
        let layers = &case.network.layers;
        let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        let sum = |of: fn(&dyno_number::network::Layer) -> u64| {
            count(layers.iter().map(of).sum::<u64>() as f64)
        };
        let base = Objective::Bits.value(&case.network, &case.network.base(), None);
        row(&[
            case.name.into(),
            names.join(", "),
            sum(|layer| layer.weight_size),
            sum(|layer| layer.activation_size),
            count(base),
        ]);
    }
    println!();
}

/// Prints the bias rules and their cost.
fn rules(cases: &mut [Case]) {
    head(
        "When a bias may rise",
        "`when-needed` asks for biases where no width gives way without them, and no group again before it may \
         be the best choice; `no-worse` asks for biases before any width (SPEC A20), `literal` as long as the \
         limit is kept (the thesis to the letter), and both for all groups after each bit.",
        &[
            "network",
            "margin",
            "rule",
            "evaluations (small + full)",
            "bits",
            "accuracy",
            "s",
            "formats",
        ],
    );
    for case in cases {
        for margin in MARGINS {
            for (name, bias_rule) in RULES {
                let found = case.tune(margin, &Settings { bias_rule, ..settings() });
                row(&[
                    case.name.into(),
                    percent(margin),
                    format!("`{name}`"),
                    found.evaluations(),
                    count(found.answer().objective),
                    found.accuracy(),
                    format!("{:.2}", found.seconds),
                    found.answer().assignment.to_string(),
                ]);
            }
        }
    }
    println!();
}

const RULES: [(&str, BiasRule); 3] = [
    ("when-needed", BiasRule::WhenNeeded),
    ("no-worse", BiasRule::NoWorse),
    ("literal", BiasRule::Literal),
];

/// Prints the savings of a first pass over a part of the samples.
fn passes(cases: &mut [Case]) {
    head(
        "Two passes against the full set alone",
        "The same search, first on the small set and then on all samples, or on all samples from the start. The \
         speed-up is that of images, of which an evaluation of the full set has ten times as many: it counts \
         evaluations that ended early as whole ones, and no machine changes it.",
        &[
            "network",
            "margin",
            "two passes",
            "images",
            "s",
            "full alone",
            "images",
            "s",
            "speed-up",
            "bits",
            "bits, full alone",
        ],
    );
    for case in cases {
        for margin in MARGINS {
            let two = case.tune(margin, &settings());
            let full = case.tune(margin, &Settings { passes: Passes::FullOnly, ..settings() });
            let of = |found: &TuneRun| {
                [found.evaluations(), count(found.images()), format!("{:.2}", found.seconds)]
            };
            let mut cells = vec![case.name.into(), percent(margin)];
            cells.extend(of(&two).into_iter().chain(of(&full)));
            cells.push(format!("{:.2}", full.images() / two.images()));
            cells.extend([&two, &full].map(|found| count(found.answer().objective)));
            row(&cells);
        }
    }
    println!();
}

const SEARCHES: [(&str, Algorithm); 5] = [
    ("Dyno", Algorithm::Libnumber),
    ("Ristretto, powers of two", Algorithm::Ristretto),
    ("Ristretto, all integers", Algorithm::RistrettoAll),
    ("Stripes", Algorithm::Stripes),
    ("sensitivity + knapsack", Algorithm::Knapsack),
];

/// Prints the sizes that other searches find.
fn searches(cases: &mut [Case]) {
    head(
        "Parameter size against other searches",
        "Bits of the weights, as a part of FLOAT(32)'s and of FLOAT(16)'s, and of weights and activations \
         together. Ristretto trains networks on after it rounded them, and nothing is trained here.",
        &[
            "network",
            "margin",
            "search",
            "weights / FLOAT(32)",
            "weights / FLOAT(16)",
            "all / FLOAT(32)",
            "accuracy",
            "evaluations (small + full)",
            "formats",
        ],
    );
    for case in cases {
        for margin in MARGINS {
            for (name, algorithm) in SEARCHES {
                let found = case.tune(margin, &Settings { algorithm, ..settings() });
                let share = |objective: Objective| {
                    let of = |assignment| objective.value(&case.network, assignment, None);
                    of(&found.answer().assignment) / of(&case.network.base())
                };
                let weights = share(Objective::Parameters);
                row(&[
                    case.name.into(),
                    percent(margin),
                    name.into(),
                    format!("{:.1} %", 100.0 * weights),
                    format!("{:.1} %", 200.0 * weights),
                    format!("{:.1} %", 100.0 * share(Objective::Bits)),
                    found.accuracy(),
                    found.evaluations(),
                    found.answer().assignment.to_string(),
                ]);
            }
        }
    }
    println!();
}

/// Prints results with weights in FIXED(16) and a width for the activations of each layer.
fn stripes(cases: &mut [Case]) {
    head(
        "Ideal speed-up of a bit-serial accelerator",
        "Under Stripes' constraints: weights in FIXED(16), a width p for the activations of each layer, 16/p \
         weighted by the layers' products. Ideal: nothing but products takes time.",
        &[
            "network",
            "margin",
            "search",
            "widths p",
            "speed-up",
            "accuracy",
            "evaluations (small + full)",
        ],
    );
    let platform = "[supported_formats]\n\"16\" = [\"FLOAT 32\", \"FLOAT 16\", \"FIXED 1..16\", \"EXP 2..9\"]\n\
                    \"16.weight\" = [\"FLOAT 32\", \"FIXED 16\"]\n";
    for case in cases {
        let of_case = case.network.clone();
        case.network.platform = Platform::from_descriptor(platform, "16").expect("its own text");
        case.network.layerwise = LayerwiseScope::Both;
        case.network.objective = Objective::BitSerial;
        for margin in MARGINS {
            for (name, algorithm) in
                [("Dyno", Algorithm::Libnumber), ("Stripes", Algorithm::Stripes)]
            {
                let found = case.tune(margin, &Settings { algorithm, ..settings() });
                let formats = found.answer().assignment.formats();
                let widths = formats[case.network.layers.len()..].iter();
                let widths: Vec<String> = widths.map(|format| format.bits().to_string()).collect();
                let macs: u64 = case.network.layers.iter().map(|layer| layer.macs).sum();
                row(&[
                    case.name.into(),
                    percent(margin),
                    name.into(),
                    widths.join("-"),
                    format!("{:.2}", macs as f64 / found.answer().objective),
                    found.accuracy(),
                    found.evaluations(),
                ]);
            }
        }
        case.network = of_case;
    }
    println!();
}

/// Compares repeated blocks whose layers share their formats with blocks whose layers do not.
fn blocks(case: &mut Case) {
    head(
        "Shared formats for repeated blocks",
        "The perceptron 784-200-200-200-200-10: its three layers of 200-200 have formats of their own, or \
         share one for weights and one bias for activations (`sub_layer_name`).",
        &["margin", "blocks", "evaluations (small + full)", "bits", "accuracy", "s", "formats"],
    );
    let own = case.network.clone();
    let mut shared = own.clone();
    let block: Vec<_> = shared.layers.splice(1..4, []).collect();
    let mut one = block[0].clone();
    one.name = "block".into();
    one.parts = block.iter().map(|layer| layer.name.clone()).collect();
    let sum = |of: fn(&dyno_number::network::Layer) -> u64| block.iter().map(of).sum::<u64>();
    one.weight_size = sum(|layer| layer.weight_size);
    one.activation_size = sum(|layer| layer.activation_size);
    one.macs = sum(|layer| layer.macs);
    one.weight_max = block.iter().map(|layer| layer.weight_max).fold(0.0, f64::max);
    one.activation_max = block.iter().map(|layer| layer.activation_max).fold(0.0, f64::max);
    // The minimum is unknown if that of one layer is unknown.
    let least = block.iter().map(|layer| layer.activation_min);
    one.activation_min = least.reduce(|a, b| Some(a?.min(b?))).flatten();
    shared.layers.insert(1, one);
    for margin in MARGINS {
        for (name, network) in [("own formats", &own), ("shared formats", &shared)] {
            case.network = network.clone();
            let found = case.tune(margin, &settings());
            row(&[
                percent(margin),
                name.into(),
                found.evaluations(),
                count(found.answer().objective),
                found.accuracy(),
                format!("{:.2}", found.seconds),
                found.answer().assignment.to_string(),
            ]);
        }
    }
    case.network = own;
    println!();
}

/// Prints the thesis' tables with our figures.
fn paper(cases: &mut [Case]) {
    head(
        "The thesis' Tables III.4 and III.5 beside ours",
        "Theirs: chapter III of the thesis, its networks with its weights; one width for all activations, one \
         format for the weights of each layer, at 7 %. Ours: networks of the same shape as far as the thesis \
         says it, with the weights above. Configurations are those of an exhaustive search, 42^(layers + 1).",
        &[
            "network",
            "data",
            "layers",
            "configurations",
            "their iterations",
            "our evaluations",
            "their formats",
            "Ristretto there",
            "our formats",
            "Ristretto here",
        ],
    );
    for Row { network, data, layers, iterations, formats, ristretto, why_not } in paper::TABLE {
        let ours = cases.iter_mut().find(|case| case.name == *network);
        let [evaluations, ours, others] = match ours {
            None => [format!("not run: {why_not}"), String::new(), String::new()],
            Some(case) => {
                let found = case.tune(0.07, &settings());
                let algorithm = Algorithm::Ristretto;
                let other = case.tune(0.07, &Settings { algorithm, ..settings() });
                [found.evaluations(), shapes(&found), shapes(&other)]
            }
        };
        row(&[
            (*network).into(),
            (*data).into(),
            layers.to_string(),
            format!("{:.2e}", 42_f64.powi(*layers as i32 + 1)),
            count(f64::from(*iterations)),
            evaluations,
            (*formats).into(),
            (*ristretto).into(),
            ours,
            others,
        ]);
    }
    println!();
}

/// Formats an answer like the thesis: the width of the activations, and types and widths of the
/// weights.
fn shapes(found: &TuneRun) -> String {
    let formats = found.answer().assignment.formats();
    let (weights, activations) = formats.split_at(formats.len() / 2);
    let shape = |format: &dyno_number::Format| {
        let letter = match format.kind() {
            Kind::Float => "F",
            Kind::Fixed => "I",
            Kind::Exp => "E",
            Kind::Binary => "B",
        };
        format!("{letter}{}", format.bits())
    };
    let weights: Vec<String> = weights.iter().map(shape).collect();
    format!("{} / {}", shape(&activations[0]), weights.join("-"))
}

/// Prints the smallest configuration: everything smaller was evaluated and failed.
fn smallest(case: &mut Case) {
    head(
        "The smallest there is",
        "LeNet on the full set, exhaustively in the order of the bits: every type and every width, with biases \
         from one below that of the largest magnitudes to three above, each slot on its own. What comes first \
         and passes is the smallest of this space.",
        &["margin", "search", "evaluations (small + full)", "bits", "accuracy", "s", "formats"],
    );
    let exhaustive = Algorithm::Exhaustive { below: 1, above: 3 };
    for margin in MARGINS {
        for (name, algorithm, passes) in [
            ("Dyno", Algorithm::Libnumber, Passes::Two),
            ("exhaustive", exhaustive, Passes::FullOnly),
        ] {
            let found = case.tune(margin, &Settings { algorithm, passes, ..settings() });
            row(&[
                percent(margin),
                name.into(),
                found.evaluations(),
                count(found.answer().objective),
                found.accuracy(),
                format!("{:.2}", found.seconds),
                found.answer().assignment.to_string(),
            ]);
        }
    }
    println!();
}
