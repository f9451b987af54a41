//! `dyno audit`: runs an audit of the rules and judges it, or judges the logs of one.

mod config;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args, Parser, Subcommand};
use dyno_experiment::audit::{self, Bounds, ScenarioAudit, Schedule};
use dyno_experiment::options::{CommandLine, KEYS, Options};
use dyno_experiment::run::variables;
use dyno_experiment::{Control, Failure, Watch, files};
use dyno_loadgen::settings::Scenario;
use dyno_results::run_directory::free_folder;
use dyno_results::write::{pretty, replace};
use dyno_rules::Round;
use dyno_submission::audit::{Accuracies, AuditTest, DTYPES, Element, Evidence};

use crate::cmd::keys::KeyArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::progress::Progress;
use crate::render::audit::AuditHeading;
use crate::{output, render};

/// Flags of `dyno audit`.
#[derive(Debug, Args)]
#[command(
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    subcommand_negates_reqs = true
)]
pub struct Audit {
    #[command(subcommand)]
    command: Option<Command>,
    /// Audit, such as TEST04
    #[arg(value_name = "TEST", required = true)]
    test: Option<String>,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    answers: Answers,
    /// TEST03: KEY=VALUE of the run's flags that differ with the custom data set
    #[arg(long, value_name = "FLAG=VALUE", action = ArgAction::Append)]
    custom: Vec<String>,
    #[command(flatten)]
    output_flags: OutputFlags,
    /// Do not show progress on stderr: the progress line, and a line for each run
    #[arg(long)]
    no_progress: bool,
    /// Flags of dyno run; --out is the directory of the whole audit
    #[arg(last = true, value_name = "RUN FLAGS")]
    run: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Judge an audit by existing logs of LoadGen or Dyno
    Verify(Box<verify::VerifyCommand>),
    /// Print the audit.config of an audit, for a LoadGen harness
    Config(config::ConfigCommand),
}

/// Flags that select the rules.
#[derive(Debug, Args)]
struct Rules {
    /// Round of the rules [default: the last one that has the audit]
    #[arg(long, value_name = "ROUND")]
    round: Option<String>,
    /// Benchmark of the round; its settings and bounds apply
    #[arg(long, value_name = "NAME")]
    benchmark: Option<String>,
}

/// Flags that describe the answers.
#[derive(Debug, Args)]
struct Answers {
    /// Element type of an answer: byte, int16, int32, int64 or float32 [default: byte; int64 for
    /// TEST06]
    #[arg(long, value_name = "TYPE", value_parser = element)]
    dtype: Option<Element>,
    /// TEST06: token that ends a text
    #[arg(long, value_name = "TOKEN", default_value_t = 2, allow_negative_numbers = true)]
    end_of_text: i64,
    /// TEST07 and TEST09: number of different samples that must be logged
    #[arg(long, value_name = "COUNT")]
    logged_samples: Option<u64>,
    /// TEST07: minimum quality [default: that of the round's benchmark]
    #[arg(long, value_name = "QUALITY")]
    least_quality: Option<f64>,
    /// TEST09: minimum and maximum of the mean number of tokens [default: those of the round's
    /// benchmark]
    #[arg(long, value_name = "FEWEST,MOST", value_delimiter = ',', num_args = 1)]
    mean_tokens: Vec<f64>,
    /// TEST01 and TEST07: output of the accuracy script for the audited run
    #[arg(long, value_name = "FILE")]
    audited_accuracy: Option<PathBuf>,
    /// TEST01: output of the accuracy script for the accuracy run of the same samples
    #[arg(long, value_name = "FILE", requires = "audited_accuracy")]
    baseline_accuracy: Option<PathBuf>,
}

/// Flags of the output.
#[derive(Debug, Args)]
struct OutputFlags {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

const AFTER_HELP: &str = "\
dyno audit TEST04 -- --system cheat:caching runs the submission and the audit, and reports the verdict.
The verdict by the rules decides; the verdict of the official script is shown beside it.
Exit codes: 0 passed, 1 failed, 2 usage, 3 set-up, 4 aborted, 130 interrupted.
Results are not official MLPerf results.";

/// The flags behind `--`.
#[derive(Debug, Parser)]
#[command(name = "dyno audit TEST --", no_binary_name = true, disable_help_flag = true)]
struct RunFlags {
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    set: Vec<String>,
}

impl Audit {
    /// Runs the audit and prints the verdict.
    ///
    /// # Errors
    /// An unknown audit, invalid flags, or a run that cannot start.
    pub fn execute(self) -> Result<Exit, Failure> {
        match &self.command {
            Some(Command::Verify(verify)) => verify.execute(),
            Some(Command::Config(config)) => config.execute(),
            None => self.play(),
        }
    }

    /// Returns the command line of the runs, with its server identified if that is only a URL.
    fn line(&self) -> Result<CommandLine, Failure> {
        let flags = RunFlags::try_parse_from(&self.run).map_err(|error| {
            let text = error.to_string();
            let problem = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Failure::usage(format!("after --: {problem}")).hint("dyno run --help lists the flags")
        })?;
        let mut keys = flags.keys;
        let mut line = CommandLine {
            config: flags.config,
            set: flags.set,
            keys: keys.given.clone(),
            is_dry: false,
        };
        if line.given("mode").is_some() {
            return Err(Failure::usage("after --: the audit sets --mode itself")
                .hint("remove it; the audit runs the modes that it compares"));
        }
        keys.add_target(None, &line, !self.output_flags.quiet)?;
        line.keys = keys.given;
        Ok(line)
    }

    fn play(&self) -> Result<Exit, Failure> {
        let test = audit::test(self.test.as_deref().unwrap_or_default())?;
        let line = self.line()?;
        // A run by the rules of a round is audited by the same round.
        let options = Options::read(&line, variables())?.run;
        if options.ramp.is_some_and(|ramp| ramp > 0) {
            return Err(Failure::usage("after --: an audit has no ramp")
                .hint("remove --ramp; an audit checks that all answers of its run are logged"));
        }
        let round = self.rules.round.clone().or(options.round);
        let round = audit::round(round.as_deref(), test)?;
        let benchmark = self.rules.benchmark.clone().or(options.benchmark);
        if test == AuditTest::Test03 && self.custom.is_empty() {
            return Err(Failure::usage("TEST03 needs a custom data set").hint(
                "name it with --custom data=other.npy, or --custom \
                 system=cheat:memorising,data=specked",
            ));
        }
        if test != AuditTest::Test03 && !self.custom.is_empty() {
            return Err(Failure::usage(format!("{test} does not accept --custom"))
                .hint("remove it; only TEST03 uses a custom data set"));
        }
        let custom = self.custom.iter().map(|text| custom(text)).collect::<Result<_, _>>()?;
        let schedule = Schedule {
            test,
            round,
            evidence: self.answers.evidence(test, round, benchmark.as_deref())?,
            bounds: self.answers.bounds()?,
            benchmark,
            custom,
            line,
            is_quiet: self.output_flags.quiet,
        };
        // Fails before anything is run or written.
        audit::plan(test, round, schedule.benchmark.as_deref(), Scenario::Offline)?;
        let directory =
            free_folder(schedule.line.given("out").map(PathBuf::from).as_deref(), "audit")?;
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        let progress = Progress::new(!self.no_progress && !self.output_flags.quiet);
        let watched: Arc<dyn Watch> = Arc::new(progress);
        let control = Control { watch: &watched, interrupt: Some(&interrupt), most: None };
        // Remove the folder if nothing was written to it.
        let played = schedule.play(&directory, control).inspect_err(|_| {
            let _ = std::fs::remove_dir(&directory);
        });
        let audited = match played? {
            Ok(audited) => audited,
            Err(end) => return Ok(end.into()),
        };
        let system = options.system.unwrap_or_else(|| "digits".to_owned());
        let heading = AuditHeading { test, round: round.version, system: &system };
        let written = pretty(&render::audit::json(&heading, &audited));
        self.output_flags.print_results(&heading, &audited)?;
        replace(&directory.join("audit.json"), &written).map_err(|error| {
            Failure::set_up(format!("cannot write to {}: {error}", directory.display()))
        })?;
        if !self.output_flags.quiet {
            output::say(format_args!("audit: {}", directory.display()));
        }
        Ok(exit(&audited))
    }
}

impl OutputFlags {
    fn print_results(
        &self,
        heading: &AuditHeading<'_>,
        audited: &[ScenarioAudit],
    ) -> Result<(), Failure> {
        match (self.json, self.quiet) {
            (true, _) => output::print(pretty(&render::audit::json(heading, audited))),
            (_, true) => Ok(()),
            _ => output::show(render::audit::text(heading, audited, render::is_colored())),
        }
    }
}

fn exit(audited: &[ScenarioAudit]) -> Exit {
    let is_passed = audited.iter().all(|one| one.result.corrected().is_passed());
    if is_passed { Exit::Valid } else { Exit::Invalid }
}

impl Answers {
    /// Returns the bounds of the flags, which override those of the round.
    fn bounds(&self) -> Result<Bounds, Failure> {
        if self.least_quality.is_some_and(|least| !least.is_finite()) {
            return Err(Failure::usage("--least-quality expects a finite number"));
        }
        let mean_tokens = match self.mean_tokens[..] {
            [] => None,
            [fewest, most] if fewest <= most && fewest.is_finite() && most.is_finite() => {
                Some([fewest, most])
            }
            _ => {
                return Err(Failure::usage("--mean-tokens expects two numbers, the smaller first")
                    .hint("use, for example, --mean-tokens 100,120"));
            }
        };
        Ok(Bounds { least_quality: self.least_quality, mean_tokens })
    }

    /// Returns the evidence that the flags name.
    fn evidence(
        &self,
        test: AuditTest,
        round: &Round,
        benchmark: Option<&str>,
    ) -> Result<Evidence, Failure> {
        let usual = if test == AuditTest::Test06 { Element::I64 } else { Element::I8 };
        let mut evidence = Evidence::new(Vec::new(), self.dtype.unwrap_or(usual));
        evidence.end_of_text = self.end_of_text;
        evidence.samples = self.logged_samples;
        let read = |path: &PathBuf| {
            files::read_to_string(path)
                .map_err(|error| Failure::set_up(format!("{}: {error}", path.display())))
        };
        let known = benchmark.and_then(|name| round.benchmark(name));
        if let Some(audited) = &self.audited_accuracy {
            let text = read(audited)?;
            if test == AuditTest::Test07 {
                let found = dyno_submission::audit::metrics_in(&text, round, &["exact_match"]);
                evidence.quality = found[0];
            }
            if let Some(baseline) = &self.baseline_accuracy {
                let texts = [read(baseline)?, text];
                evidence.qualities = Some(Accuracies::from_texts(round, known, texts));
            }
        }
        Ok(evidence)
    }
}

/// Parses a flag of the run and its alternative value.
fn custom(text: &str) -> Result<(String, String), Failure> {
    // The audit sets these flags for each of its runs.
    let is_own = |name: &str| ["out", "mode", "scenario"].contains(&name);
    let known = |name: &str| !is_own(name) && KEYS.iter().any(|key| key.name == name);
    match text.split_once('=') {
        Some((name, value)) if known(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::usage(format!(
            "--custom {text}: expected a flag of dyno run, as in --custom data=FILE"
        ))),
    }
}

fn element(text: &str) -> Result<Element, String> {
    let found = DTYPES.into_iter().find(|(name, _)| *name == text).map(|(_, element)| element);
    found.ok_or_else(|| format!("expected one of {}", DTYPES.map(|(name, _)| name).join(", ")))
}
