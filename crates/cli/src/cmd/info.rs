//! `dyno info`: prints the tables that the program works with.

mod metrics;
pub mod rules;

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use dyno_experiment::Failure;
use dyno_experiment::system::{SYSTEMS, SystemKind};
use dyno_loadgen::config::{Conf, ConfType, built_in_models};
use dyno_loadgen::settings::{FIELDS, Origin, Scenario, Settings, TestSettings, similar};
use dyno_results::write::pretty;
use dyno_rules::Round;
use dyno_submission::audit::{self, AuditTest};
use dyno_sut::cheat::Trick;

use crate::exit::Exit;
use crate::schema::Document;
use crate::{output, render};

pub use metrics::METRICS;

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Info {
    /// Topic to list
    #[arg(value_enum)]
    topic: Option<Topic>,
    /// Show only entries whose names contain this text; schema: the file; rules: the benchmark
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
        if (self.round.is_some() || self.json) && !matches!(topic, Some(Topic::Rules)) {
            let problem = "--round and --json belong to the topic rules";
            return Err(Failure::usage(problem).hint("use dyno info rules --round v5.1 --json"));
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
        let text = match &self.name {
            Some(name) if !matches!(topic, Some(Topic::Schema | Topic::Rules)) => {
                entries(&text, name)?
            }
            _ => text,
        };
        output::print(text)?;
        Ok(Exit::Valid)
    }
}

/// Returns the entries of a topic whose names contain a text, whatever its case.
///
/// # Errors
/// No name contains it.
fn entries(topic: &str, text: &str) -> Result<String, Failure> {
    let wanted = text.to_lowercase();
    let mut is_wanted = false;
    let mut found = String::new();
    for line in topic.lines() {
        // The description of an entry is indented.
        if !line.starts_with("    ") {
            is_wanted = line.to_lowercase().contains(&wanted);
        }
        if is_wanted {
            let _ = writeln!(found, "{line}");
        }
    }
    if found.is_empty() {
        let problem = format!("no name of this topic contains `{text}`");
        let is_schema = Document::ALL.iter().any(|(_, name, _)| *name == text);
        let hint = if is_schema {
            format!("use dyno info schema {text}")
        } else {
            "remove the name to list all".to_owned()
        };
        return Err(Failure::usage(problem).hint(hint));
    }
    Ok(found)
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
        let known: Vec<&str> = names().collect();
        let problem = format!("unknown schema `{name}`; expected one of {}", known.join(", "));
        let near = similar(name, names());
        Failure::usage(problem).hint_name(near, "dyno info schema lists the schemas")
    })
}

fn overview() -> String {
    let topics = [
        ("settings", "every setting with its default and unit"),
        ("scenarios", "how queries are issued, and what the result is"),
        ("systems", "systems that --system accepts"),
        ("models", "the built-in table of models for --conf-model"),
        ("metrics", "formula and window of each metric"),
        ("exit-codes", "exit codes of the commands"),
        ("environment", "environment variables of Dyno"),
        (
            "rules",
            "rounds of MLPerf Inference and their benchmarks, such as `rules --round v5.1 resnet`",
        ),
        ("audits", "audits of dyno audit, their rounds, and what each detects"),
        ("schema", "JSON Schema of a result file, such as `schema summary`"),
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
        "Each is a key under [settings] in dyno.toml, a flag --settings.KEY VALUE, and a \
         variable\nDYNO_SETTINGS_KEY. Defaults are those of the reference; the profile and the \
         built-in table override them.\n\n",
    );
    for field in FIELDS {
        let value = render::with_unit(field, &(field.get)(&defaults));
        let _ = writeln!(text, "{} = {value}", field.name);
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
            "One query of one sample at a time; the next is issued when the previous one is \
             complete. Result: p90 of latency.",
        ),
        (
            Scenario::MultiStream.name(),
            "One query of 8 contiguous samples at a time; the next is issued when all samples of \
             the previous one are complete. Result: p99 of query latency.",
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
    ("AWS_ACCESS_KEY_ID", "id of the key with which `sigv4=` signs requests."),
    ("AWS_SECRET_ACCESS_KEY", "key with which `sigv4=` signs requests."),
    ("AWS_SESSION_TOKEN", "token of temporary credentials of `sigv4=`."),
    ("CLICOLOR", "0 disables colors."),
    (
        "CLICOLOR_FORCE",
        "if neither empty nor 0, results are colored even if stdout is not a terminal.",
    ),
    ("COLUMNS", "width of help texts without a terminal."),
    (
        "CONDA_PREFIX",
        "environment of conda that `dyno compare --with` searches for the other tool, after \
         VIRTUAL_ENV.",
    ),
    ("DYNO_CACHE", "cache folder of `dyno fetch` for models and data; --cache overrides it."),
    (
        "DYNO_END_WITH_STDIN",
        "if set, the end of standard input ends a run like Ctrl-C; dyno sweep sets it for its \
         points.",
    ),
    (
        "DYNO_SERVE_TOKEN",
        "token that clients of `dyno serve` must send as `authorization: Bearer TOKEN`.",
    ),
    (
        "DYNO_SETTINGS_NAME",
        "sets the setting NAME, as DYNO_SETTINGS_SERVER_TARGET_QPS=100; stronger than files, \
         weaker than flags. An unknown setting is an error, and so are DYNO_SETTING_NAME and options of \
         runs, such as DYNO_REQUIRE.",
    ),
    (
        "DYNO_WORKER_TOKEN",
        "shared secret of a run with --remote-workers and its workers; a worker without it cannot \
         join.",
    ),
    (
        "GITHUB_ACTIONS",
        "if true, `dyno compare` prints annotations for GitHub; --annotate overrides it.",
    ),
    ("GITHUB_STEP_SUMMARY", "file to which `dyno compare` then appends a table."),
    ("HOME", "the cache folder is HOME/.cache/dyno without DYNO_CACHE and XDG_CACHE_HOME."),
    (
        "LC_ALL",
        "C or POSIX draws boxes and bars on terminals with ASCII characters; then LC_CTYPE, then LANG.",
    ),
    (
        "NO_COLOR",
        "if not empty, disables colors, whatever else is set. Without a terminal, colors are off \
         by default.",
    ),
    ("ORT_DYLIB_PATH", "shared library of ONNX Runtime; --ort-lib overrides it."),
    (
        "PATH",
        "folders that are searched for programs: python3, which locates ONNX Runtime, the other tool \
         of `dyno compare --with`, and those that options and descriptors name.",
    ),
    ("TERM", "dumb disables colors and --tui, and turns the status line into one line every 10 s."),
    ("TMPDIR", "folder for results that cannot be written to their own folder."),
    (
        "VIRTUAL_ENV",
        "Python environment that is searched first for ONNX Runtime and for the interpreter, before \
         the environment of dyno and python3.",
    ),
    ("XDG_CACHE_HOME", "the cache folder is XDG_CACHE_HOME/dyno without DYNO_CACHE."),
];

fn models() -> String {
    let mut text = String::from(
        "Settings of --conf-model NAME, in addition to the rows for every model (the official \
         seeds,\npercentiles and durations, which always apply).\n\n",
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
                    let value = render::with_unit(field, &value);
                    Some(format!("    {scope}: {} = {value}", field.name))
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
                "    Server: server_target_latency_ns = 15000000",
                "    Offline: min_query_count = 24576 queries",
            ]
        );
    }

    #[test]
    fn a_name_selects_entries_of_a_topic() {
        let topic = definitions(&[("raw:URL", "any server"), ("oip:URL", "a raw tensor server")]);
        assert_eq!(entries(&topic, "RAW").unwrap(), "raw:URL\n    any server\n");
        assert_eq!(entries(&topic, "url").unwrap(), topic);
        assert_eq!(entries(&exit_codes(), "aborted").unwrap().lines().count(), 1);
        let failure = entries(&topic, "tensor").unwrap_err();
        assert_eq!(failure.problems(), ["no name of this topic contains `tensor`"]);
    }

    #[test]
    fn exit_codes_are_those_of_the_design() {
        let codes = Exit::ALL.map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4, 130]);
    }
}
