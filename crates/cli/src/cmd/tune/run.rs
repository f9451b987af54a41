//! `dyno tune run`: tunes a network that an external program, the built-in engine or a system evaluates.

mod about;
mod confirm;
mod results;
mod scenario;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args, ValueEnum};
use dyno_experiment::tune::{
    CalibrationSplit, ClosedRules, Data, Engine, HeldOut, Program, Provenance, Runs, Scenario,
    ScenarioReport, Target, TrialPolicy, check_files, program,
};
use dyno_experiment::{Failure, Interrupt};
use dyno_number::network::{BuiltInModel, ExternalProgram};
use dyno_number::tune::{
    self, BiasRule, Confirmation, ConfirmationRule, Evaluation, Journal, JournalError, Passes,
    Progress, Settings, Stop, Subset, Trial,
};
use dyno_number::{Algorithm, Network, Objective};
use dyno_results::write::create_folder;
use serde_json::Value;

use self::confirm::Confirm;
use self::results::{ConfigurationWriter, TuneReport};
use self::scenario::WantedObjective;
use super::NetworkArgs;
use crate::cmd::keys::one_of;
use crate::interrupt;
use crate::tune_line::Line;

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, group(ArgGroup::new("limit").args(["margin", "target"])))]
pub struct Run {
    #[command(flatten)]
    described: NetworkArgs,
    /// Folder for the answer, the journal and the report [default: tune-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue the job in this folder
    #[arg(long)]
    resume: bool,
    /// Search: libnumber, ristretto, ristretto-all, stripes, knapsack, exhaustive, or
    /// exhaustive:BIASES, which also tries this many biases above those of the largest magnitudes
    #[arg(long, value_name = "NAME", default_value_t = Algorithm::Libnumber)]
    algorithm: Algorithm,
    /// Objective to minimize, instead of the descriptor's f_obj. With --scenario, also stp (maximize
    /// the throughput of all networks on the NPU) or qos (minimize the p99 latency of the network
    /// that is closest to its limit)
    #[arg(long, value_name = "NAME|EXPRESSION")]
    objective: Option<WantedObjective>,
    /// Networks that share an NPU with the tuned one: a TOML file with the flags of dyno npu run
    #[arg(long, value_name = "FILE", conflicts_with = "closed")]
    scenario: Option<PathBuf>,
    /// Share of the accuracy that may be lost, such as 0.01 for 1 %, instead of the descriptor's
    /// err_margin
    #[arg(long, value_name = "SHARE", value_parser = share)]
    margin: Option<f64>,
    /// Share of the accuracy that must remain, in percent
    #[arg(long, value_parser = one_of(&Target::ALL, Target::name, Target::meaning))]
    target: Option<Target>,
    /// When a bias may rise: when no width can be reduced without it and no accuracy is lost; before
    /// any width, if no accuracy is lost; or before any width, as long as the limit is kept (the
    /// literal reading of the thesis)
    #[arg(long, value_name = "RULE", default_value = "when-needed")]
    bias_rule: Rule,
    /// Sets of samples: first the small one and then the full one, or only one of them [default: two,
    /// or full without a cmd_smallset]
    #[arg(long, value_name = "SETS")]
    passes: Option<Sets>,
    /// Follow the closed division: choose from the formats of this round with calibration data only,
    /// and confirm once on the validation set; the default target is 99 %
    #[arg(long, value_name = "ROUND", value_parser = one_of(&ClosedRules::ALL, ClosedRules::name, ClosedRules::meaning))]
    closed: Option<ClosedRules>,
    /// Seed of the split of the calibration set
    #[arg(long, value_name = "N", default_value_t = 1, requires = "closed")]
    seed: u64,
    /// Share of the calibration set that the first pass uses
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = part, requires = "closed")]
    small_share: f64,
    /// Minimum number of bits of FIXED
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=32))]
    least_bits: u32,
    /// How to confirm the margin: with samples that the search does not use, at 95 % confidence
    /// (held-out); not at all, as in the thesis (none); or held-out where possible (auto): results of
    /// a program that prints only an accuracy cannot be compared sample by sample
    #[arg(long, value_name = "HOW", default_value = "auto", conflicts_with = "closed")]
    confirm: Confirm,
    /// Share of the samples that the search does not use [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = part)]
    held_out: Option<f64>,
    /// Number of restarts of the search with all samples, which share its evaluations [default: 10
    /// for the built-in engine, otherwise 0; 0 with --confirm none]
    #[arg(long, value_name = "N")]
    restarts: Option<u32>,
    /// File of evaluations that jobs share, identified by the contents of model, samples and formats;
    /// created if missing (built-in engine only)
    #[arg(long, value_name = "FILE")]
    evaluations: Option<PathBuf>,
    /// Number of trials that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Maximum number of evaluations [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_evaluations: Option<u64>,
    /// Give a trial whose program fails the accuracy 0 instead of ending the job
    #[arg(long)]
    keep_going: bool,
    /// Print tune.json instead of the summary
    #[arg(long)]
    json: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
    /// Do not show the progress line on stderr
    #[arg(long)]
    no_progress: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rule {
    WhenNeeded,
    NoWorse,
    Literal,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sets {
    Two,
    Full,
    Small,
}

const AFTER_HELP: &str = "\
DIR always contains opt_conf.txt, the best configuration so far, and journal.jsonl, with one line per
evaluation. At the end it also contains tune.json and report.html. Ctrl-C ends the search and writes all
of them; --resume continues it and reaches the same result.
The verdict is VALID if held-out samples prove that no more than the margin is lost, INVALID if they
prove that more is lost, and UNDECIDED if they are too few.
Exit codes: 0 done, 1 nothing smaller was found, a limit came first or the verdict is not VALID,
2 usage, 3 set-up, 4 the program failed, 130 interrupted.
Examples:
  dyno tune run lenet.toml
  dyno tune run lenet.toml --objective stp --scenario shared.toml
  dyno tune run lenet.toml --closed v0.7 --target 99.9 --out closed";

/// Names of files in the folder.
const OPT_CONF: &str = "opt_conf.txt";
const JOURNAL: &str = "journal.jsonl";

pub fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a share below 1, such as 0.01".into())
}

pub fn part(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| {
        if share > 0.0 {
            Ok(share)
        } else {
            Err("expected a share between 0 and 1, such as 0.25".into())
        }
    })
}

impl Run {
    /// Returns the command with this many trials at once.
    pub fn with_jobs(self, jobs: u16) -> Self {
        Self { jobs, ..self }
    }

    /// Returns the arguments of a job of this program that evaluates a trial on any machine.
    ///
    /// # Errors
    /// Settings under which jobs would give other results than one process.
    pub fn trial_arguments(&self) -> Result<Vec<String>, Failure> {
        let (network, _) = self.network()?;
        if network.built_in.is_some() && network.objective == Objective::Latency {
            return Err(Failure::usage(
                "the built-in engine measures latencies one after the other, in one process",
            )
            .hint("remove dyno launch, or use another --objective"));
        }
        let mut arguments = ["tune", "trial"].map(String::from).to_vec();
        arguments.extend(self.described.arguments()?);
        if let Some(CalibrationSplit { small_share, seed }) = self.split() {
            arguments.push(format!("--small-share={small_share}"));
            arguments.push(format!("--seed={seed}"));
        }
        if let Some(HeldOut { share, margin }) = self.part_to_hold_out(&network) {
            arguments.push(format!("--held-out={share}"));
            arguments.push(format!("--margin={margin}"));
        }
        if self.keep_going {
            arguments.push("--keep-going".into());
        }
        Ok(arguments)
    }

    /// Whether a failed trial has the accuracy 0 instead of ending the job.
    pub fn goes_on(&self) -> bool {
        self.keep_going
    }

    /// Returns how closed mode splits the calibration set.
    fn split(&self) -> Option<CalibrationSplit> {
        self.closed.map(|_| CalibrationSplit { small_share: self.small_share, seed: self.seed })
    }

    /// Tunes the network and writes the results. With `elsewhere`, no trial is evaluated in this process.
    ///
    /// # Errors
    /// Invalid settings, files that cannot be written, or a failed program.
    pub fn execute(self, elsewhere: Option<&mut Answers<'_>>) -> Result<Exit, Failure> {
        let (network, scenario) = self.network()?;
        let scenario = scenario.as_deref();
        let has_engine = network.built_in.as_ref().is_some_and(|of| of.system.is_none());
        self.check_unused(has_engine && elsewhere.is_none())?;
        let home = self.described.folder()?;
        if let Some(built_in) = &network.built_in {
            check_files(built_in, &home)?;
            return self.in_process(&network, built_in, &home, scenario, elsewhere);
        }
        let external = program(&network)?;
        let mut settings = self.settings(external.small_command.is_some())?;
        settings.confirmation = self.rule_of_program(external)?;
        let folder = self.folder(&network)?;
        let provenance = self.provenance(external, &home)?;
        let running = TrialPolicy { goes_on: self.keep_going, jobs: self.jobs.into() };
        let trials = folder.join("trials");
        create_folder(&trials).map_err(|error| cannot_write(&trials, &error))?;
        let direction = network.metric.direction;
        let program =
            Program::new(external, direction, &home, &trials, running).map_err(Failure::usage)?;
        let about = about::about(&network, &settings, external, &home, provenance.as_ref())?;
        let about = scenario::about(about, scenario);
        let journal = open_journal(&folder.join(JOURNAL), &about)?;
        // The journal is this job's alone, so that no other job reads these lists.
        let program = match &provenance {
            Some(provenance) => {
                program.with_lists(provenance.write_lists(&folder).map_err(Failure::set_up)?)
            }
            None => program,
        };
        let job = Job {
            network: &network,
            settings,
            folder,
            about,
            provenance,
            journal,
            too_few: None,
            scenario,
        };
        match elsewhere {
            Some(answers) => self.tune(job, &[], answers),
            None => {
                self.tune(job, &[], &mut |trials, interrupt| program.evaluate(trials, interrupt))
            }
        }
    }

    /// Tunes with the built-in engine.
    fn in_process(
        &self,
        network: &Network,
        built_in: &BuiltInModel,
        home: &Path,
        scenario: Option<&Scenario>,
        elsewhere: Option<&mut Answers<'_>>,
    ) -> Result<Exit, Failure> {
        let split = self.split();
        if split.is_some() && built_in.validation.is_none() {
            let problem = "--closed needs `validation_samples` and `validation_labels`";
            return Err(
                Failure::usage(problem).hint("`samples` and `labels` are the calibration set then")
            );
        }
        if built_in.system.is_some() && network.objective == Objective::Latency {
            return Err(Failure::usage("an accuracy run of `system` measures no latency")
                .hint("remove `system`: the built-in engine measures its own latency"));
        }
        let mut settings = self.settings(true)?;
        settings.confirmation = self.rule_of_model(built_in)?;
        settings.restarts = self.restarts_of_model(network, built_in);
        let part = self.part_to_hold_out(network);
        let mut data = Data::read(built_in, home, split, part).map_err(Failure::usage)?;
        let share = data.constant_share(&home.join(&built_in.model));
        settings.constant_share = share.map_err(Failure::usage)?;
        let warnings = std::mem::take(&mut data.remarks);
        for remark in warnings.iter().filter(|_| !self.quiet) {
            output::say(format_args!("warning: {remark}"));
        }
        let mut too_few = None;
        if settings.confirmation == ConfirmationRule::Margin && data.held_out() == 0 {
            settings.confirmation = ConfirmationRule::None;
            too_few = Some(confirm::too_few(network, part, &data));
        }
        let provenance = data.provenance.take();
        let about = self.about_model(network, built_in, home, &settings, provenance.as_ref())?;
        let about = scenario::about(about, scenario);
        let job = |folder: PathBuf| -> Result<Job<'_>, Failure> {
            let journal = open_journal(&folder.join(JOURNAL), &about)?;
            Ok(Job { network, settings, folder, about, provenance, journal, too_few, scenario })
        };
        if let Some(answers) = elsewhere {
            return self.tune(job(self.folder(network)?)?, &warnings, answers);
        }
        if let Some(system) = &built_in.system {
            Engine::check_system(network, built_in, home, &data).map_err(Failure::usage)?;
            let folder = self.folder(network)?;
            let trials = folder.join("trials");
            create_folder(&trials).map_err(|error| cannot_write(&trials, &error))?;
            // Samples that no system can be played with leave no journal.
            data.subset(Subset::Small).map_err(Failure::set_up)?;
            let job = job(folder)?;
            let runs = Runs::new(system, &home.join(&built_in.model), &data, &trials);
            let runs = runs.map_err(Failure::set_up)?;
            drop(data);
            return self
                .tune(job, &warnings, &mut |trials, interrupt| runs.evaluate(trials, interrupt));
        }
        let shared = self.shared(built_in, home, &data)?;
        let engine = Engine::open(network, built_in, home, data).map_err(Failure::usage)?;
        let mut engine = engine.with_shared(shared);
        let job = job(self.folder(network)?)?;
        engine.recall(&job.journal);
        self.tune(job, &warnings, &mut |trials, interrupt| engine.evaluate(trials, interrupt))
    }

    /// Tunes a network, and writes the results with warnings about its samples.
    fn tune(
        &self,
        job: Job<'_>,
        warnings: &[String],
        answers: &mut Answers<'_>,
    ) -> Result<Exit, Failure> {
        let Job { network, settings, folder, about, provenance, journal, too_few, scenario } = job;
        let interrupt = interrupt::listen()
            .map_err(|error| Failure::set_up(format!("cannot listen to Ctrl-C: {error}")))?;
        let line = Line::new(!self.no_progress && !self.quiet);
        let mut writer = ConfigurationWriter::new(network, &folder);
        let mut evaluate = |trials: &[Trial]| answers(trials, &interrupt);
        let mut watch = |progress: &Progress<'_>| {
            writer.update(progress);
            line.show(progress, network);
        };
        let mut outcome = tune::tune(network, &settings, journal, &mut evaluate, &mut watch);
        confirm::doubt(network, too_few.as_ref(), &mut outcome);
        confirm::compare_latency(network, &mut outcome, &mut evaluate);
        let scenario = match scenario {
            Some(scenario) => {
                let watch =
                    |progress: &Progress<'_>, network: &Network| line.show(progress, network);
                let of_bits = scenario::BitsSearch {
                    network,
                    settings: &settings,
                    folder: &folder,
                    about: &about,
                    too_few: too_few.as_ref(),
                };
                let of_bits = of_bits.run(&mut outcome, &mut evaluate, &watch)?;
                Some(ScenarioReport::new(network, scenario, &outcome, of_bits.as_ref()))
            }
            None => None,
        };
        line.clear();
        let report = TuneReport {
            network,
            about: &about,
            warnings,
            outcome: &outcome,
            provenance: provenance.as_ref(),
            scenario: scenario.as_ref(),
        };
        self.write_results(&folder, &report)
    }

    /// Returns the network with its objective, and the scenario on which the objective depends.
    fn network(&self) -> Result<(Network, Option<Arc<Scenario>>), Failure> {
        let platform = self.closed.and_then(ClosedRules::platform);
        if let (Some(list), Some(other)) = (platform, &self.described.platform) {
            let problem = format!("--closed uses the formats of {list}, but --platform is {other}");
            return Err(Failure::usage(problem).hint("remove one of them, or use --closed current"));
        }
        let mut network = self.described.network(platform)?;
        let scenario = self.scenario(&network)?;
        if let Some(scenario) = &scenario {
            network.objective = scenario.objective();
        }
        if let Some(WantedObjective::Formats(objective)) = &self.objective {
            if let (true, Some(layer)) = (objective.needs_macs(), network.without_products()) {
                let problem = format!("--objective needs the products of {}", layer.name);
                return Err(Failure::usage(problem)
                    .hint("add `macs` to the descriptor, with one number per layer"));
            }
            network.objective = objective.clone();
        }
        let target = self.target.or(self.closed.map(|_| Target::Low)).map(Target::margin);
        network.error_margin = self.margin.or(target).unwrap_or(network.error_margin);
        let most = Target::Low.margin();
        if self.closed.is_some() && network.error_margin > most {
            let problem = format!(
                "--closed may lose {most} of the accuracy, and --margin is {}",
                network.error_margin
            );
            return Err(Failure::usage(problem).hint("use --target 99 or --target 99.9"));
        }
        confirm::check_objective(&network)?;
        Ok((network, scenario))
    }

    fn settings(&self, has_small: bool) -> Result<Settings, Failure> {
        let has_small = has_small || self.closed.is_some();
        let passes = match (self.passes, has_small) {
            (Some(Sets::Two), true) | (None, true) => Passes::Two,
            (Some(Sets::Small), true) => Passes::SmallOnly,
            (Some(Sets::Full), _) | (None, false) => Passes::FullOnly,
            (Some(Sets::Two | Sets::Small), false) => {
                return Err(Failure::usage("the descriptor has no `cmd_smallset`")
                    .hint("use --passes full, or add `cmd_smallset` to the descriptor"));
            }
        };
        Ok(Settings {
            algorithm: self.algorithm,
            bias_rule: match self.bias_rule {
                Rule::WhenNeeded => BiasRule::WhenNeeded,
                Rule::NoWorse => BiasRule::NoWorse,
                Rule::Literal => BiasRule::Literal,
            },
            passes,
            least_fixed_bits: self.least_bits,
            batch: self.jobs.into(),
            measures_noise: true,
            max_evaluations: self.max_evaluations,
            restarts: self.restarts.unwrap_or(0),
            confirmation: ConfirmationRule::None,
            constant_share: None,
        })
    }

    fn folder(&self, network: &Network) -> Result<PathBuf, Failure> {
        let stem =
            self.described.descriptor.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let is_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let name = match network.name.as_str() {
            name if !name.is_empty() && name.chars().all(is_word) => name.to_owned(),
            _ => stem.unwrap_or_default(),
        };
        let folder = self.out.clone().unwrap_or_else(|| format!("tune-{name}").into());
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        // The report of a job would replace that of a run.
        let names =
            [dyno_results::summary::FILE, dyno_results::search::FILE, dyno_results::sweep::FILE];
        if let Some(name) = names.into_iter().find(|name| folder.join(name).exists()) {
            let problem =
                format!("{} holds the results of another command, {name}", folder.display());
            return Err(Failure::set_up(problem).hint("choose another folder with --out DIR"));
        }
        let has_journal = folder.join(JOURNAL).exists();
        match (self.resume, has_journal) {
            (true, false) => {
                Err(Failure::usage(format!("there is no job to resume in {}", folder.display())))
            }
            (false, true) => {
                Err(Failure::usage(format!("{} contains the journal of a job", folder.display()))
                    .hint("continue it with --resume, or start another one with --out DIR"))
            }
            _ => {
                create_folder(&folder).map_err(|error| cannot_write(&folder, &error))?;
                Ok(folder)
            }
        }
    }

    fn provenance(
        &self,
        external: &ExternalProgram,
        home: &Path,
    ) -> Result<Option<Provenance>, Failure> {
        let Some(split) = self.split() else { return Ok(None) };
        let (Some(calibration), Some(validation)) = (&external.calibration, &external.validation)
        else {
            return Err(Failure::usage(
                "--closed needs `calibration` and `validation` in the descriptor",
            )
            .hint("each is a file with one sample per line"));
        };
        let commands = [&external.small_command, &external.confirmation_command];
        let commands = commands.into_iter().flatten().chain([&external.full_command]);
        for command in commands {
            if !command.contains("{samples}") {
                return Err(Failure::usage(format!(
                    "--closed needs {{samples}} in each command, but `{command}` has none"
                ))
                .hint(
                    "put {samples} where the program expects the file with the names of the samples",
                ));
            }
        }
        let (calibration, validation) = (home.join(calibration), home.join(validation));
        Failure::check_files([&calibration, &validation])?;
        Provenance::new(&calibration, &validation, split).map(Some).map_err(Failure::usage)
    }
}

/// A network with the folder and journal of its job.
struct Job<'a> {
    network: &'a Network,
    settings: Settings,
    folder: PathBuf,
    about: Value,
    provenance: Option<Provenance>,
    journal: Journal,
    /// The verdict about samples that are too few to hold out a part of them.
    too_few: Option<Confirmation>,
    /// Networks that share an NPU with this one, if the objective depends on them.
    scenario: Option<&'a Scenario>,
}

/// Evaluates trials and returns a result for each.
pub type Answers<'a> = dyn FnMut(&[Trial], &Interrupt) -> Vec<Result<Evaluation, Stop>> + 'a;

fn open_journal(path: &Path, about: &Value) -> Result<Journal, Failure> {
    let problem = |error: &JournalError| format!("cannot use {}: {error}", path.display());
    Journal::open(path, about).map_err(|error| match error {
        JournalError::Io(_) => Failure::set_up(problem(&error)),
        JournalError::InUse => Failure::set_up(problem(&error))
            .hint("wait until the other job ends, or use another folder with --out DIR"),
        _ => Failure::usage(problem(&error)).hint("begin another job with --out DIR"),
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::unwritable(path, error).hint("choose a folder that you may write to with --out")
}
