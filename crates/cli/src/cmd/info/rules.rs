//! `dyno info rules`: prints all rounds, the benchmarks of one round, or one benchmark.

pub mod json;
pub mod words;

use std::fmt::Write as _;

use dyno_experiment::Failure;
use dyno_results::units::count;
use dyno_rules::{Benchmark, Division, Requirements, Round, RuleScenario, ScenarioRules};

use super::{WIDTH, definitions};

use crate::render::{self, wrap};

/// The part of the rules that is printed.
#[derive(Debug, Clone, Copy)]
pub enum RulesQuery {
    /// All rounds.
    Rounds,
    /// One round.
    Round(&'static Round),
    /// One benchmark of a round.
    Benchmark(&'static Round, &'static Benchmark),
}

impl RulesQuery {
    /// Looks up the round and the benchmark of the command line.
    ///
    /// # Errors
    /// An unknown name; the message suggests the nearest one.
    pub fn read(round: Option<&str>, benchmark: Option<&str>) -> Result<Self, Failure> {
        let Some(name) = round else {
            return match benchmark {
                None => Ok(Self::Rounds),
                Some(benchmark) => Err(Failure::usage("a benchmark needs a round")
                    .hint(format!("use dyno info rules --round v5.1 {benchmark}"))),
            };
        };
        let round = Round::named(name).map_err(Failure::usage)?;
        let Some(given) = benchmark else { return Ok(Self::Round(round)) };
        let found = round.benchmark(given).map(|found| Self::Benchmark(round, found));
        found.ok_or_else(|| {
            let version = round.version;
            let near = round.similar_benchmark(given);
            let problem = format!("round {version} has no benchmark `{given}`");
            let list = format!("dyno info rules --round {version} lists the benchmarks");
            Failure::usage(problem).hint_name(near, &list)
        })
    }

    /// Returns the rules as text.
    pub fn text(self) -> String {
        match self {
            Self::Rounds => rounds(),
            Self::Round(round) => of_round(round),
            Self::Benchmark(round, benchmark) => of_benchmark(round, benchmark),
        }
    }
}

fn rounds() -> String {
    let rows = Round::names().map(|name| {
        let round = Round::named(name).expect("its own name");
        let names: Vec<&str> = round.benchmarks.iter().map(|b| b.name.as_str()).collect();
        (format!("{name}, {}", round.published), names.join(", "))
    });
    let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    definitions(&rows) + "\ndyno info rules --round v5.1 prints the rules of a round.\n"
}

fn of_round(round: &'static Round) -> String {
    let version = round.version;
    let mut text = format!("Round {version}, results of {}\n\n", round.published);
    for benchmark in &round.benchmarks {
        let _ = writeln!(text, "{}", benchmark.name);
        let suites = words::suites(benchmark);
        let quality: Vec<String> = benchmark.accuracy.iter().map(words::quality).collect();
        let data = &benchmark.dataset.name;
        for line in [format!("{} on {data}", benchmark.task), quality.join(", "), suites] {
            push(&mut text, &line, 4);
        }
    }
    text += "\nScenarios\n";
    for (scenario, rules) in &round.scenarios {
        push(
            &mut text,
            &format!("{}: {}", scenario.name(), words::procedure(rules, rules.percentile)),
            4,
        );
    }
    text += "\nSeeds\n";
    text += &seeds(round);
    for (division, asks) in &round.divisions {
        of_asks(&mut text, asks);
        if let Some(network) = round.network.as_ref().filter(|_| *division == Division::Network) {
            push(&mut text, &format!("permitted: {}", network.permitted.join(", ")), 4);
            push(&mut text, &format!("forbidden: {}", network.forbidden.join(", ")), 4);
            push(&mut text, &format!("name of the system contains: {}", network.name_of_system), 4);
        }
    }
    round.availabilities.values().for_each(|asks| of_asks(&mut text, asks));
    if !round.datacenter.is_empty() {
        text += "\nDatacenter systems\n";
        round.datacenter.iter().for_each(|ask| push(&mut text, ask, 4));
    }
    let _ = write!(
        text,
        "\ndyno info rules --round {version} resnet prints the rules of a benchmark.\n"
    );
    text
}

fn of_asks(text: &mut String, asks: &Requirements) {
    let _ = writeln!(text, "\n{}", asks.title);
    asks.items.iter().for_each(|ask| push(text, ask, 4));
}

fn of_benchmark(round: &Round, benchmark: &Benchmark) -> String {
    let mut text = format!("{} in round {}, {}\n", benchmark.name, round.version, round.published);
    let names = round.names.iter().filter(|(_, official)| **official == benchmark.name);
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    let data = &benchmark.dataset;
    let quality: Vec<String> = benchmark.accuracy.iter().map(words::quality).collect();
    let rows = [
        ("also named", names.join(", ")),
        ("name in user.conf", benchmark.loadgen.model.clone().unwrap_or_default()),
        ("task", format!("{} ({})", benchmark.task, benchmark.area)),
        ("model", benchmark.model.clone()),
        ("data set", format!("{}, {} samples", data.name, count(data.samples))),
        ("a sample", data.sample.clone()),
        ("performance set", words::performance_set(benchmark)),
        ("quality", quality.join(", ")),
        ("issue", if benchmark.equal_issue { "each sample equally often" } else { "" }.into()),
        ("inference", words::inference(&benchmark.inference)),
        ("audits", benchmark.audits.join(", ")),
        ("suites", words::suites(benchmark)),
        ("bandwidth", words::bandwidth(round, benchmark)),
    ];
    for (name, what) in rows.iter().filter(|(_, what)| !what.is_empty()) {
        let indent = 22;
        let lines = wrap(&format!("  {name:<20}{what}"), WIDTH, indent);
        lines.iter().for_each(|line| text.extend([line, "\n"]));
    }
    for scenario in benchmark.scenarios() {
        let _ = writeln!(text, "\n{}", scenario.name());
        of_scenario(&mut text, round, benchmark, scenario);
    }
    text += "\nSeeds\n";
    text += &seeds(round);
    text
}

fn of_scenario(text: &mut String, round: &Round, benchmark: &Benchmark, scenario: RuleScenario) {
    let usual = round.scenarios.get(&scenario);
    if let Some((rules, min_duration_ms)) = usual.zip(round.min_duration_ms(benchmark, scenario)) {
        let rules = ScenarioRules { min_duration_ms, ..rules.clone() };
        push(text, &words::procedure(&rules, round.percentile(benchmark, scenario)), 4);
    }
    let bound = words::bound(round, benchmark, scenario);
    if !bound.is_empty() {
        push(text, &format!("bound: {bound}"), 4);
    }
    // Seeds are equal for all scenarios and printed below.
    for fixed in round.settings(benchmark, scenario) {
        if !fixed.key.ends_with("_rng_seed") {
            let _ = writeln!(
                text,
                "    {} = {}{}",
                fixed.key,
                fixed.value,
                words::leeway(fixed.leeway)
            );
        }
    }
}

fn seeds(round: &Round) -> String {
    let mut text = String::new();
    for (what, seeds) in [("", Some(round.seeds)), ("test05_", round.test05_seeds)] {
        if let Some(seeds) = seeds {
            let _ = writeln!(text, "    {what}qsl_rng_seed = {}", seeds.qsl);
            let _ = writeln!(text, "    {what}sample_index_rng_seed = {}", seeds.sample_index);
            let _ = writeln!(text, "    {what}schedule_rng_seed = {}", seeds.schedule);
        }
    }
    text
}

/// Appends a line, wrapped and indented below its heading.
fn push(text: &mut String, line: &str, indent: usize) {
    for line in render::wrap(&format!("{}{line}", " ".repeat(indent)), WIDTH, indent + 2) {
        let _ = writeln!(text, "{line}");
    }
}
