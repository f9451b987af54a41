//! `dyno info`: prints the tables that the program works with.

mod metrics;
pub mod rules;

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use dyno_experiment::Failure;
use dyno_experiment::system::{SYSTEMS, SystemKind};
use dyno_loadgen::config::{Conf, ConfType, built_in_models};
use dyno_loadgen::settings::{FIELDS, Origin, Scenario, Settings, TestSettings, nearest};
use dyno_results::write::pretty;
use dyno_rules::Round;
use dyno_submission::audit::{self, AuditTest};
use dyno_sut::cheat::Trick;

use crate::exit::Exit;
use crate::schema::Document;
use crate::{output, render};

pub use metrics::METRICS;

/// What about.
#[derive(Debug, Args)]
pub struct Info {
    /// Topic to list
    #[arg(value_enum)]
    topic: Option<Topic>,
    /// Of schema: which file; of rules: which benchmark
    name: Option<String>,
    /// rules: round, such as v5.1
    #[arg(long)]
    round: Option<String>,
    /// rules: print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Topic {
    Settings,
    Scenarios,
    Systems,
    Models,
    Metrics,
    ExitCodes,
    Environment,
    Schema,
    Rules,
    Audits,
}

impl Info {
    /// Prints the topic.
    ///
    /// # Errors
    /// An unknown name, or a flag of another topic.
    pub fn execute(self) -> Result<Exit, Failure> {
        let topic = self.topic;
        if self.name.is_some() && !matches!(topic, Some(Topic::Schema | Topic::Rules)) {
            let problem = "only the topics schema and rules have names below them";
            let failure = Failure::usage(problem).hint("dyno info schema summary");
            return Err(failure.hint("dyno info rules --round v5.1 resnet"));
        }
        if (self.round.is_some() || self.json) && !matches!(topic, Some(Topic::Rules)) {
            let problem = "--round and --json are of the topic rules";
            return Err(Failure::usage(problem).hint("dyno info rules --round v5.1 --json"));
        }
        let text = match topic {
            None => overview(),
            Some(Topic::Settings) => settings(),
            Some(Topic::Scenarios) => scenarios(),
            Some(Topic::Systems) => {
                let grammars = SYSTEMS.map(SystemKind::grammar);
                let rows = grammars.iter().zip(SYSTEMS).map(|(name, kind)| (&**name, kind.help));
                definitions(&rows.collect::<Vec<_>>())
            }
            Some(Topic::Models) => models(),
            Some(Topic::Metrics) => {
                let descriptions = METRICS.map(|metric| (metric.name, metric.description()));
                definitions(&descriptions.each_ref().map(|(name, what)| (*name, what.as_str())))
            }
            Some(Topic::Audits) => audits(),
            Some(Topic::ExitCodes) => exit_codes(),
            Some(Topic::Environment) => definitions(VARIABLES),
            Some(Topic::Schema) => schema(self.name.as_deref())?,
            Some(Topic::Rules) => {
                let query = rules::RulesQuery::read(self.round.as_deref(), self.name.as_deref())?;
                if self.json {
                    pretty(&rules::json::Rules::from_query(query))
                } else {
                    query.text()
                }
            }
        };
        output::print(text)?;
        Ok(Exit::Valid)
    }
}

/// Returns the schema of one file, or the list of files that have one.
fn schema(name: Option<&str>) -> Result<String, Failure> {
    let Some(name) = name else {
        return Ok(definitions(&Document::ALL.map(|(_, name, what)| (name, what))));
    };
    let named = Document::ALL.into_iter().find(|(_, known, _)| *known == name);
    let found = named.map(|(document, _, _)| document.schema().to_owned());
    found.ok_or_else(|| {
        let names = || Document::ALL.iter().map(|(_, name, _)| *name);
        let near = nearest(name, names()).unwrap_or("summary");
        let known: Vec<&str> = names().collect();
        let problem = format!("there is no schema `{name}`; there are {}", known.join(", "));
        Failure::usage(problem).hint(format!("dyno info schema {near}"))
    })
}

fn overview() -> String {
    let topics = [
        ("settings", "every setting with its default and unit"),
        ("scenarios", "how queries are issued, and what the result is"),
        ("systems", "what --system can name"),
        ("models", "the built-in table of models for --conf-model"),
        ("metrics", "what each figure is: formula and window"),
        ("exit-codes", "how a command ends"),
        ("environment", "variables that are read"),
        (
            "rules",
            "rounds of MLPerf Inference and their benchmarks, such as `rules --round v5.1 resnet`",
        ),
        ("audits", "what dyno audit can play, in which rounds, and what each catches"),
        ("schema", "the JSON Schema of a file that a run leaves, such as `schema summary`"),
    ];
    definitions(&topics.map(|(name, what)| (name, what)))
}

/// Returns each audit with its rounds and the built-in systems that it applies to.
fn audits() -> String {
    let mut text = String::new();
    for test in AuditTest::ALL {
        let has = |name: &&str| {
            let round = Round::named(name).ok();
            round.is_some_and(|round| audit::plan(test, round, None, Scenario::Offline).is_ok())
        };
        let rounds: Vec<&str> = Round::names().into_iter().filter(has).collect();
        let ends = [rounds.first(), rounds.last()].map(|name| name.copied().unwrap_or_default());
        let rounds = match ends {
            [first, last] if first == last => first.to_owned(),
            [first, last] => format!("{first} to {last}"),
        };
        let _ = writeln!(text, "{test}\n    {}; rounds {rounds}", test.title());
        for trick in Trick::ALL {
            if let Some((_, scenario)) = trick.caught_by().filter(|(by, _)| *by == test.name()) {
                let name = trick.name();
                let line = format!("cheat:{name} {}; try it in {scenario}", trick.title());
                let _ = writeln!(text, "    {line}");
            }
        }
    }
    text
}

/// Columns of the text beside a name.
const WIDTH: usize = 78;

fn definitions(rows: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, what) in rows {
        let _ = writeln!(text, "{name}");
        for line in render::wrap(what, WIDTH - 4, 0) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

fn settings() -> String {
    let defaults = TestSettings::default();
    let mut text = String::from(
        "Each is a key under [settings] in dyno.toml, a flag --settings.KEY VALUE, and a variable\n\
         DYNO_SETTINGS_KEY. Defaults are the reference's; profile and built-in table come between.\n\n",
    );
    for field in FIELDS {
        let unit = if field.unit.is_empty() { String::new() } else { format!(" {}", field.unit) };
        let _ = writeln!(text, "{} = {}{unit}", field.name, (field.get)(&defaults));
        for line in render::wrap(&format!("{} ({})", field.help, field.kind.trim()), WIDTH - 4, 0) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

fn scenarios() -> String {
    definitions(&[
        (
            Scenario::SingleStream.name(),
            "One query of one sample at a time; the next is issued when the last is complete. \
             Result: p90 of latency.",
        ),
        (
            Scenario::MultiStream.name(),
            "One query of 8 contiguous samples at a time; the next is issued when all samples of \
             the last are complete. Result: p99 of query latency.",
        ),
        (
            Scenario::Server.name(),
            "Queries of one sample arrive at random (Poisson) whether or not earlier ones are \
             complete. Latency counts from the scheduled arrival. Result: completed queries/s, \
             valid while p99 of latency stays within a bound. server_arrivals chooses other \
             processes: constant, gamma, burst, concurrency, replay.",
        ),
        (
            Scenario::Offline.name(),
            "One query with all samples, issued at the start. Result: samples/s.",
        ),
    ])
}

/// Environment variables and their effects.
pub const VARIABLES: &[(&str, &str)] = &[
    ("CLICOLOR", "0: nothing is coloured."),
    (
        "CLICOLOR_FORCE",
        "if it is neither empty nor 0, results are coloured even where they go to no terminal.",
    ),
    (
        "DYNO_CACHE",
        "where models and data lie that `dyno fetch` gets, unless --cache names a folder.",
    ),
    (
        "DYNO_END_WITH_STDIN",
        "if it is set, the end of standard input ends a run, as Ctrl-C does; dyno sweep holds its \
         points so.",
    ),
    (
        "DYNO_SERVE_TOKEN",
        "the token that clients of `dyno serve` must send as `authorization: Bearer TOKEN`.",
    ),
    (
        "DYNO_SETTINGS_NAME",
        "sets the setting NAME, as DYNO_SETTINGS_SERVER_TARGET_QPS=100; stronger than files, weaker \
         than flags. A name that is no setting is an error.",
    ),
    (
        "DYNO_WORKER_TOKEN",
        "the secret that a run with --remote-workers and its workers have in common; whoever does \
         not know it cannot join.",
    ),
    (
        "GITHUB_ACTIONS",
        "if it is true, `dyno compare` prints annotations for GitHub, unless --annotate says otherwise.",
    ),
    ("GITHUB_STEP_SUMMARY", "a file to which `dyno compare` then appends a table."),
    (
        "NO_COLOR",
        "if it is not empty, nothing is coloured, whatever else is set; nor is what goes to no \
         terminal.",
    ),
    ("ORT_DYLIB_PATH", "ONNX Runtime's shared library, unless --ort-lib names one."),
    ("PATH", "where python3 is looked for, which is asked where ONNX Runtime is."),
    (
        "TERM",
        "dumb: a terminal that is not drawn over and has no colours; no progress line, no --tui.",
    ),
    ("TMPDIR", "where results go that their own folder no longer takes."),
    (
        "VIRTUAL_ENV",
        "the Python environment in which ONNX Runtime is looked for, before the one that dyno is \
         installed in and before python3 is asked.",
    ),
];

fn models() -> String {
    let mut text = String::from(
        "What --conf-model NAME sets, besides the rows for every model (the official seeds,\n\
         percentiles and durations, which always apply).\n\n",
    );
    for model in built_in_models() {
        let _ = writeln!(text, "{model}");
        for scenario in Scenario::ALL {
            let mut settings = Settings::default();
            Conf::built_in().apply(&mut settings, model, scenario.name(), ConfType::BuiltIn);
            let of_model = settings.rows().filter_map(|(field, value, origin)| match origin {
                // Rows of one scenario set only that scenario's fields, whichever scenario is run.
                Origin::BuiltIn { key }
                    if key.starts_with(&format!("{model}.{scenario}."))
                        || (*scenario == Scenario::SingleStream
                            && key.starts_with(&format!("{model}.*."))) =>
                {
                    let scope =
                        if key.contains(".*.") { "every scenario" } else { scenario.name() };
                    Some(format!("    {scope}: {} = {value} {}", field.name, field.unit))
                }
                _ => None,
            });
            for row in of_model {
                let _ = writeln!(text, "{}", row.trim_end());
            }
        }
    }
    text
}

fn exit_codes() -> String {
    Exit::ALL.map(|exit| format!("{:>4}  {}\n", exit.code(), exit.meaning())).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_the_table_shows_its_rows_once() {
        let text = models();
        let resnet = text.split("\nresnet50\n").nth(1).expect("resnet50 is in the table");
        let resnet: Vec<&str> = resnet.lines().take_while(|line| line.starts_with(' ')).collect();
        assert_eq!(
            resnet,
            [
                "    every scenario: performance_sample_count_override = 1024 samples",
                "    Server: server_target_latency_ns = 15000000 ns",
                "    Offline: min_query_count = 24576 queries",
            ]
        );
    }

    #[test]
    fn exit_codes_are_those_of_the_design() {
        let codes = Exit::ALL.map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4, 130]);
    }
}
