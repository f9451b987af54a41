//! `dyno compare`: compares a candidate with a baseline, each one run or several.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgAction, ArgGroup, Args};
use dyno_experiment::compare::interleave::{self, Schedule};
use dyno_experiment::compare::peer::{self, Peer, PeerSchedule};
use dyno_experiment::compare::{
    ComparedRun, ComparisonReport, METRICS, Question, SLICES_MOST, Sides, is_slice_count,
    parse_metric, read_folder, refuse_copies,
};
use dyno_experiment::options::{CommandLine, GivenKeys};
use dyno_experiment::{Control, End, Failure, Watch};
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare::{LookPolicy, MARGIN, Metric, RISK};
use dyno_results::run_directory::free_folder;
use dyno_results::write::pretty;
use dyno_results::{summary, units};

use crate::cmd::keys::KeyArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::progress::Progress;
use crate::render::github::Annotations;
use crate::render::github::annotate;
use crate::{output, render};

/// Flags of `dyno compare`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[command(mut_arg("with", |with| with.help(WITH)))]
#[command(group(ArgGroup::new("played").args(["interleave", "until_decided"]).multiple(true)))]
pub struct Compare {
    /// Two runs, baseline first; or a directory of --interleave; with --interleave, two
    /// configurations; with --with, a configuration or the URL of a server
    #[arg(value_name = "RUN", num_args = 0..=2)]
    runs: Vec<PathBuf>,
    /// Runs of the baseline
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "candidate", conflicts_with = "runs")]
    baseline: Vec<PathBuf>,
    /// Runs of the candidate
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "baseline")]
    candidate: Vec<PathBuf>,
    /// Run i of the baseline was measured next to run i of the candidate
    #[arg(long, requires = "baseline")]
    paired: bool,
    /// Measure two configurations in turn, N runs each, and compare them; with --until-decided at
    /// least N
    #[arg(long, value_name = "N", value_parser = pairs)]
    interleave: Option<u16>,
    /// Measure pairs of runs until the main metric of each test is worse, better or equivalent, for
    /// at most this time
    #[arg(long, value_name = "MAX_TIME", value_parser = units::parse_duration, conflicts_with = "max_time")]
    until_decided: Option<Nanos>,
    /// Measure each run in N slices that alternate with those of the other side; 1 or an even number
    /// [default: 8, 4 or 2 of at least 250 ms; 1 in virtual time]
    #[arg(long, value_name = "N", value_parser = slices, requires = "played")]
    slices: Option<usize>,
    /// Start no pair that would end after this time [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    max_time: Option<Nanos>,
    /// Measure only the runs that --out does not contain yet
    #[arg(long, requires = "played")]
    resume: bool,
    /// Print the plan and its duration without running it
    #[arg(long)]
    dry_run: bool,
    /// A change is equivalent if its whole interval lies within this share of the baseline [default:
    /// 5%, or --threshold]
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    margin: Option<f64>,
    /// A change is worse or better only beyond this share of the baseline; for failures every change
    /// counts
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0%", allow_hyphen_values = true)]
    threshold: f64,
    /// Standard deviation between runs of one system; assumed if each side has a single run in real
    /// time
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5%", allow_hyphen_values = true)]
    between_runs: f64,
    /// Compare these metrics, the main one first, instead of those of the scenario
    #[arg(long, value_name = "METRIC,..", value_delimiter = ',', value_parser = parse_metric, long_help = METRICS)]
    metric: Vec<Metric>,
    /// Exit with 1 also if the comparison is inconclusive
    #[arg(long)]
    strict: bool,
    /// Also compare runs that differ in tests, loads, bounds or lengths of answers, or are incomplete,
    /// and use the figures of INVALID runs; never other scenarios or data
    #[arg(long)]
    force: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Where to annotate; in a GitHub workflow a table is added to the job summary
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Annotations::Auto)]
    annotate: Annotations,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
    /// Do not show progress on stderr: the progress line, and a line for each run
    #[arg(long)]
    no_progress: bool,
    /// Load generator of the candidate's runs, if it is not Dyno.
    #[arg(skip)]
    peer: Option<Peer>,
    /// With --interleave: set any setting of both sides, key=value or Scenario.key=value; repeatable
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    set: Vec<String>,
    #[command(flatten)]
    keys: KeyArgs,
}

const WITH: &str = "aiperf: measure a server with Dyno and with this load generator in turn, N runs \
                    each (--interleave N, 3 by default), with the same requests. NAME=FILE: as in \
                    dyno run";

const AFTER_HELP: &str = "\
The flags from --system on apply to both sides of --interleave and --with, as in dyno run.
The last line is WORSE, BETTER, EQUIVALENT or INCONCLUSIVE. A CI gate needs --strict; without it an
inconclusive comparison passes. With --with it is EQUIVALENT, DIFFERENT or INCONCLUSIVE, and the
exit code is 0 without --strict.
Exit codes: 0 better or equivalent, and inconclusive without --strict, 1 worse, or a side is INVALID
(without --force), and inconclusive with --strict, 2 usage, or runs that cannot be compared, 3 set-up,
4 aborted, 130 interrupted.";

/// The runs of both sides, and how often they are looked at.
type ComparisonInput = (Sides, LookPolicy);

impl Compare {
    /// Compares the runs and prints the verdict.
    ///
    /// # Errors
    /// Missing or damaged runs, or runs of different scenarios or data.
    pub fn execute(mut self) -> Result<Exit, Failure> {
        self.peer = self.take_peer()?;
        self.check()?;
        let (sides, looks) = match self.sides()? {
            Ok(compared) => compared,
            Err(exit) => return Ok(exit),
        };
        let question = self.question(looks);
        let report = ComparisonReport::from_sides(&sides, question)?;
        if self.json {
            output::print(pretty(&report.to_json()))?;
        } else if !self.quiet {
            output::show(render::compare::text(&report, render::is_colored()))?;
        }
        // A difference between load generators is no regression of a system.
        if report.peer.is_none() {
            annotate(&report, self.annotate, !self.json)?;
        }
        Ok(report.end(self.strict).into())
    }

    /// Takes the load generator out of the values of `--with`, of which the others name files.
    fn take_peer(&mut self) -> Result<Option<Peer>, Failure> {
        let given = &mut self.keys.given.0;
        let at = given.iter().position(|(key, value)| key.name == "with" && !value.contains('='));
        let Some(at) = at else { return Ok(None) };
        let (_, name) = given.remove(at);
        let unknown = || {
            let names = Peer::ALL.map(Peer::name).join(", ");
            Failure::usage(format!("--with {name}: unknown load generator"))
                .hint(format!("use one of {names}, or --with NAME=FILE"))
        };
        Peer::named(&name).map(Some).ok_or_else(unknown)
    }

    fn check(&self) -> Result<(), Failure> {
        self.check_played()?;
        let mut given = self.runs.iter().chain(&self.baseline).chain(&self.candidate);
        if self.peer.is_none()
            && let Some(failure) = given.find_map(|path| target(path))
        {
            return Err(failure);
        }
        self.check_finished()?;
        let Some(margin) = self.margin.filter(|margin| *margin < self.threshold) else {
            return Ok(());
        };
        let [margin, threshold] = [margin, self.threshold].map(|share| 100.0 * share);
        let problem = format!("--margin {margin}% is less than --threshold {threshold}%");
        Err(Failure::usage(problem).hint(
            "use a --margin of at least the --threshold: changes within the threshold are neither \
             better nor worse",
        ))
    }

    /// Rejects configurations and single files of runs where finished runs are expected.
    fn check_finished(&self) -> Result<(), Failure> {
        if self.is_played() {
            return Ok(());
        }
        let given = || self.runs.iter().chain(&self.baseline).chain(&self.candidate);
        if let Some(file) = given().find(|path| is_configuration(path)) {
            let mut files: Vec<String> = given().map(|path| path.display().to_string()).collect();
            if let [_] = &files[..] {
                files.push("OTHER.toml".into());
            }
            let problem = format!("{} is a configuration, not a run", file.display());
            return Err(Failure::usage(problem).hint(format!(
                "measure both in turn: dyno compare --interleave 5 {}",
                files.join(" ")
            )));
        }
        // Other tools write files of this name, too; theirs are not beside records of Dyno.
        let of_dyno = |path: &&PathBuf| path.ends_with(summary::FILE) && is_run(path);
        match given().find(of_dyno) {
            None => Ok(()),
            Some(file) => {
                let problem = format!("{} is a file of a run", file.display());
                Err(Failure::usage(problem)
                    .hint(format!("pass its folder, {}", folder_of(file).display())))
            }
        }
    }

    /// Checks that options of measurements have some.
    fn check_played(&self) -> Result<(), Failure> {
        let of_runs = [("--dry-run", self.dry_run), ("--max-time", self.max_time.is_some())];
        if let Some((flag, _)) = of_runs.iter().find(|(_, is_given)| *is_given)
            && !self.is_played()
        {
            let problem = format!("{flag} has no effect: no run starts without --interleave");
            return Err(Failure::usage(problem)
                .hint("remove it, or add --interleave N or --with aiperf to measure new runs"));
        }
        if self.dry_run && self.json {
            let problem = "--json has no effect with --dry-run: the plan of a comparison is text";
            return Err(Failure::usage(problem).hint("remove --json"));
        }
        let Some(peer) = self.peer else { return Ok(()) };
        let others = [
            ("--until-decided", self.until_decided.is_some()),
            ("--slices", self.slices.is_some()),
            ("--resume", self.resume),
            ("--baseline", !self.baseline.is_empty()),
        ];
        match others.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                let problem = format!("{flag} cannot be combined with --with {}", peer.name());
                Err(Failure::usage(problem).hint("use --interleave N for the number of pairs"))
            }
            None => Ok(()),
        }
    }

    fn question(&self, looks: LookPolicy) -> Question {
        // Two folders, or one folder of interleaved runs.
        let is_interleaved = self.is_played() || self.runs.len() == 1;
        let default_margin = if self.threshold > 0.0 { self.threshold } else { MARGIN };
        Question {
            threshold: self.threshold,
            margin: self.margin.unwrap_or(default_margin),
            looks,
            between_runs: self.between_runs,
            metrics: self.metric.clone(),
            risk: RISK,
            is_paired: self.paired || is_interleaved,
            is_forced: self.force,
        }
    }

    /// Whether the command runs the two sides itself.
    fn is_played(&self) -> bool {
        self.interleave.is_some() || self.until_decided.is_some() || self.peer.is_some()
    }

    /// Returns the runs of both sides, after running them if requested; or the exit code if that
    /// ended before there was anything to compare.
    fn sides(&self) -> Result<Result<ComparisonInput, Exit>, Failure> {
        if let Some(peer) = self.peer {
            return self.play_with(peer);
        }
        if self.is_played() {
            return self.play();
        }
        if !self.keys.given.0.is_empty() || !self.set.is_empty() {
            let given = self.keys.given.0.iter().map(|(key, _)| format!("--{}", key.name));
            let given: Vec<String> = given.chain(self.set.iter().cloned()).collect();
            return Err(Failure::usage(format!(
                "{} has no effect: it configures runs, and no run starts without --interleave",
                given.join(" ")
            ))
            .hint("remove it, or add --interleave N to measure new runs"));
        }
        let read = |paths: &[PathBuf]| -> Result<Vec<ComparedRun>, Failure> {
            paths.iter().map(|path| ComparedRun::read(path)).collect()
        };
        let runs = match (&self.runs[..], self.baseline.is_empty()) {
            ([directory], _) => {
                let (sides, layout) = read_folder(directory, None)?;
                return Ok(Ok((sides, looks(layout.until_decided))));
            }
            ([a, b], _) => [vec![ComparedRun::read(a)?], vec![ComparedRun::read(b)?]],
            (_, false) => [read(&self.baseline)?, read(&self.candidate)?],
            (_, true) => {
                return Err(Failure::usage("expected two runs, found none").hint(
                    "use dyno compare runs/A runs/B, or dyno compare --interleave 5 A.toml B.toml",
                ));
            }
        };
        refuse_copies(&runs)?;
        let mut sides = Sides { runs, configs: None, peer: None, missing: Vec::new() };
        interleave::place(&mut sides);
        Ok(Ok((sides, LookPolicy::One)))
    }

    /// Returns the flags of the side with this configuration, with its server identified if that is
    /// only a URL.
    fn keys_of(&self, config: &Path) -> Result<GivenKeys, Failure> {
        let line = CommandLine {
            config: Some(config.to_owned()),
            set: self.set.clone(),
            keys: self.keys.given.clone(),
            is_dry: self.dry_run,
        };
        let mut keys = self.keys.clone();
        keys.add_target(None, &line, !self.quiet)?;
        Ok(keys.given)
    }

    fn play(&self) -> Result<Result<ComparisonInput, Exit>, Failure> {
        let flag = if self.interleave.is_some() { "--interleave" } else { "--until-decided" };
        if let Some(run) = self.runs.iter().find(|path| path.is_dir()) {
            let problem = format!(
                "{flag}: {} is a folder, and a finished run cannot be measured again",
                run.display()
            );
            return Err(Failure::usage(problem).hint(format!(
                "pass the two configuration files (dyno run --config FILE) instead, or compare the \
                 runs without {flag}"
            )));
        }
        let [a, b] = &self.runs[..] else {
            let problem = format!("{flag} needs two configurations, found {}", self.runs.len());
            return Err(Failure::usage(problem)
                .hint("use, for example, dyno compare --interleave 5 A.toml B.toml"));
        };
        let progress = Progress::new(!self.no_progress && !self.quiet);
        let watched: Arc<dyn Watch> = Arc::new(progress);
        let schedule = Schedule {
            configs: [a.clone(), b.clone()],
            set: self.set.clone(),
            keys: [self.keys_of(a)?, self.keys_of(b)?],
            pairs: self.interleave.unwrap_or(PAIRS_FEWEST).into(),
            slices: self.slices,
            until_decided: self.until_decided.is_some(),
            most: self.until_decided.or(self.max_time).unwrap_or(interleave::MOST),
            is_forced: self.force,
            is_dry: self.dry_run,
            watch: &watched,
        };
        let resumed = self.out().filter(|_| self.resume);
        let layout = schedule.layout(resumed.as_deref())?;
        let plan = schedule.plan(&layout)?;
        if self.dry_run {
            schedule.check_planned()?;
        }
        if !self.announce(plan)? {
            return Ok(Err(Exit::Valid));
        }
        let directory = self.directory()?;
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        let control = Control { watch: &watched, interrupt: Some(&interrupt), most: None };
        let looks = looks(layout.until_decided);
        let mut decide = |sides: &Sides| -> Result<bool, Failure> {
            Ok(ComparisonReport::from_sides(sides, self.question(looks))?.is_decided())
        };
        let (end, pairs) = schedule.play(&directory, &layout, control, &mut decide)?;
        if end != End::Valid {
            output::say(format_args!(
                "some runs are missing; continue with --resume --out {}",
                directory.display()
            ));
            return Ok(Err(end.into()));
        }
        self.print_folder(&directory);
        let (sides, _) = read_folder(&directory, Some(pairs))?;
        Ok(Ok((sides, looks)))
    }

    fn print_folder(&self, directory: &Path) {
        if !self.quiet {
            output::say(format_args!("runs: {}", directory.display()));
        }
    }

    /// Prints the plan of the runs. Returns whether they follow.
    fn announce(&self, plan: String) -> Result<bool, Failure> {
        if self.dry_run {
            if self.out().is_some() {
                self.directory()?;
            }
            output::show(plan)?;
        } else if !self.quiet {
            output::say(plan);
        }
        Ok(!self.dry_run)
    }

    /// Measures a server with Dyno and with another load generator in turn.
    fn play_with(&self, peer: Peer) -> Result<Result<ComparisonInput, Exit>, Failure> {
        let progress = Progress::new(!self.no_progress && !self.quiet);
        let watched: Arc<dyn Watch> = Arc::new(progress);
        let schedule = PeerSchedule {
            peer,
            line: self.peer_line(peer)?,
            pairs: self.interleave.map_or(peer::PAIRS, usize::from),
            most: self.max_time.unwrap_or(interleave::MOST),
            watch: &watched,
        };
        let plan = schedule.plan()?;
        if !self.announce(plan)? {
            return Ok(Err(Exit::Valid));
        }
        let directory = self.directory()?;
        let interrupt = interrupt::listen().map_err(Failure::set_up)?;
        let control = Control { watch: &watched, interrupt: Some(&interrupt), most: None };
        let (end, pairs) = schedule.play(&directory, control)?;
        if end != End::Valid {
            return Ok(Err(end.into()));
        }
        self.print_folder(&directory);
        Ok(Ok((read_folder(&directory, Some(pairs))?.0, LookPolicy::One)))
    }

    /// Returns the options of Dyno's runs beside another load generator.
    fn peer_line(&self, peer: Peer) -> Result<CommandLine, Failure> {
        let mut keys = self.keys.clone();
        let mut line = CommandLine {
            config: None,
            set: self.set.clone(),
            keys: keys.given.clone(),
            is_dry: self.dry_run,
        };
        let target = match &self.runs[..] {
            [] => None,
            [one] if one.extension().is_some_and(|extension| extension == "toml") => {
                line.config = Some(one.clone());
                None
            }
            [one] => Some(one.to_string_lossy()),
            more => {
                let name = peer.name();
                let problem =
                    format!("--with {name} needs one server, found {} arguments", more.len());
                return Err(Failure::usage(problem)
                    .hint(format!("use dyno compare --with {name} http://HOST:PORT")));
            }
        };
        keys.add_target(target.as_deref(), &line, !self.quiet)?;
        line.keys = keys.given;
        // The folder of the comparison contains the runs.
        line.keys.0.retain(|(key, _)| key.name != "out");
        Ok(line)
    }

    fn out(&self) -> Option<PathBuf> {
        let given = self.keys.given.0.iter().rev().find(|(key, _)| key.name == "out");
        given.map(|(_, out)| PathBuf::from(out))
    }

    /// Returns the output folder: new or empty, unless the runs are resumed.
    fn directory(&self) -> Result<PathBuf, Failure> {
        let Some(out) = self.out() else {
            if self.resume {
                return Err(Failure::usage("--resume needs --out, the folder to continue"));
            }
            return Ok(free_folder(None, "compare")?);
        };
        let is_taken = std::fs::read_dir(&out).is_ok_and(|mut files| files.next().is_some());
        if is_taken && !self.resume {
            return Err(Failure::set_up(format!("{} is not empty", out.display())).hint(
                "choose another folder with --out, or continue the comparison in this folder with \
                 --resume",
            ));
        }
        Ok(out)
    }
}

/// Returns the failure of a model or a URL in place of a run or a configuration; `None` for other paths.
fn target(path: &Path) -> Option<Failure> {
    let text = path.to_string_lossy();
    let is_model = path.extension().is_some_and(|end| end == "onnx") && !path.is_dir();
    let (what, file) = match (text.contains("://"), is_model) {
        (true, _) => ("a URL", "dyno init --llm A.toml".to_owned()),
        (_, true) => ("a model", format!("dyno init A.toml, with system = \"onnx:{text}\"")),
        _ => return None,
    };
    let problem = format!("{text} is {what}; expected a run or a configuration");
    Some(Failure::usage(problem).hint(format!(
        "write a file for each side ({file}), then measure them in turn: dyno compare --interleave 5 \
         A.toml B.toml"
    )))
}

/// Returns whether a path names a configuration by its extension.
fn is_configuration(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml") && !path.is_dir()
}

/// Returns whether a file is in the folder of a run of Dyno.
pub(super) fn is_run(file: &Path) -> bool {
    summary::Run::read(folder_of(file)).is_ok()
}

/// Returns the folder of a file.
pub(super) fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Least number of pairs that `--until-decided` runs.
const PAIRS_FEWEST: u16 = 2;

fn looks(until_decided: bool) -> LookPolicy {
    if until_decided { LookPolicy::Any } else { LookPolicy::One }
}

/// Parses the number of runs of each side.
fn pairs(text: &str) -> Result<u16, String> {
    let pairs = text.parse::<u16>().ok().filter(|pairs| *pairs >= 2);
    pairs
        .ok_or_else(|| "expected a number of at least 2, as in --interleave 5 A.toml B.toml".into())
}

/// Parses a number of slices.
fn slices(text: &str) -> Result<usize, String> {
    let slices = text.parse().ok().filter(|&slices| is_slice_count(slices));
    slices
        .ok_or_else(|| format!("expected 1 or an even number up to {SLICES_MOST}, found `{text}`"))
}

/// Parses a share such as `2%`, from 0 to below 100 %.
fn share(text: &str) -> Result<f64, String> {
    let share = units::parse_share(text)?;
    let wrong = || format!("expected a share such as 2%, below 100%, found `{text}`");
    (0.0..1.0).contains(&share).then_some(share).ok_or_else(wrong)
}
