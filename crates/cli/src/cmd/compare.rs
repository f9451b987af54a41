//! `dyno compare`: whether one run, or one configuration, is better or worse than
//! another.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare::{Metric, RISK};

use crate::compare::interleave::{self, Schedule};
use crate::compare::{
    Annotations, METRICS, Played, Question, Report, annotate, parse_metric, refuse_copies,
};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::measure::Watch;
use crate::options::GivenKeys;
use crate::progress::Progress;
use crate::run::pretty;
use crate::run_directory::free_folder;
use crate::{output, render};

/// Flags of `dyno compare`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Compare {
    /// Two runs, baseline first; one folder that --interleave left; with --interleave, two
    /// configurations
    #[arg(value_name = "RUN", num_args = 0..=2)]
    runs: Vec<PathBuf>,
    /// Several runs of the baseline
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "candidate", conflicts_with = "runs")]
    baseline: Vec<PathBuf>,
    /// Several runs of the candidate
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "baseline")]
    candidate: Vec<PathBuf>,
    /// Run i of the baseline was played beside run i of the candidate
    #[arg(long, requires = "baseline")]
    paired: bool,
    /// Play two configurations in turn, so many runs of each, and compare them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    interleave: Option<u16>,
    /// Begin no further pair that would not be over by then [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = render::parse_duration, requires = "interleave")]
    max_time: Option<Nanos>,
    /// Play only the runs that --out does not hold yet
    #[arg(long, requires = "interleave")]
    resume: bool,
    /// Print what --interleave would play and how long it takes, and stop
    #[arg(long, requires = "interleave")]
    dry_run: bool,
    /// Changes up to this share of the baseline do not matter, such as 2%; every change of
    /// failures does
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0%", allow_hyphen_values = true)]
    threshold: f64,
    /// What is compared, the headline first, instead of what the scenario asks for
    #[arg(long, value_name = "METRIC,..", value_delimiter = ',', value_parser = parse_metric, long_help = METRICS)]
    metric: Vec<Metric>,
    /// Exit with 1 also where nothing can be told
    #[arg(long)]
    strict: bool,
    /// Compare in spite of other bounds, percentiles or rates; never other scenarios or data
    #[arg(long)]
    force: bool,
    /// Print JSON on stdout instead of tables
    #[arg(long)]
    json: bool,
    /// Where to annotate; in a workflow of GitHub a table goes to the job's summary, too
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Annotations::Auto)]
    annotate: Annotations,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// No progress line on stderr
    #[arg(long)]
    no_progress: bool,
    /// For --interleave: any setting of both sides, key=value or Scenario.key=value
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    set: Vec<String>,
    #[command(flatten)]
    keys: GivenKeys,
}

const AFTER_HELP: &str = "\
Flags from --system on set both sides of --interleave, as in dyno run.
Exit codes: 0 better, no difference or cannot tell (with --strict 1), 1 worse, 2 usage, or runs
that cannot be compared, 3 set-up, 4 aborted, 130 interrupted.";

/// Runs of baseline and candidate.
type Sides = [Vec<Played>; 2];

impl Compare {
    /// Compares.
    ///
    /// # Errors
    /// Runs that are missing, damaged, or of different scenarios or data.
    pub fn execute(self) -> Result<Exit, Failure> {
        let [baseline, candidate] = match self.sides()? {
            Ok(sides) => sides,
            Err(exit) => return Ok(exit),
        };
        let report = Report::of(&baseline, &candidate, self.question())?;
        if self.json {
            output::print(pretty(&report.to_json()))?;
        } else if !self.quiet {
            output::print(report.to_text(render::is_colored()))?;
        }
        annotate(&report, self.annotate, !self.json)?;
        Ok(report.exit(self.strict))
    }

    fn question(&self) -> Question {
        // Alone, two folders or one of interleaved runs.
        let is_interleaved = self.interleave.is_some() || self.runs.len() == 1;
        Question {
            threshold: self.threshold,
            metrics: self.metric.clone(),
            risk: RISK,
            is_paired: self.paired || is_interleaved,
            is_forced: self.force,
        }
    }

    /// The runs of both sides, played first if that is asked for; or how it ended
    /// before there was anything to compare.
    fn sides(&self) -> Result<Result<Sides, Exit>, Failure> {
        if let Some(pairs) = self.interleave {
            return self.play(pairs.into());
        }
        if !self.keys.0.is_empty() || !self.set.is_empty() {
            let given = self.keys.0.iter().map(|(key, _)| format!("--{}", key.name));
            let given: Vec<String> = given.chain(self.set.iter().cloned()).collect();
            return Err(Failure::usage(format!("{} sets what is played", given.join(" ")))
                .hint("runs that are over have their settings; --interleave N plays new ones"));
        }
        let read = |paths: &[PathBuf]| -> Result<Vec<Played>, Failure> {
            paths.iter().map(|path| Played::read(path)).collect()
        };
        let mut sides: Sides = match (&self.runs[..], self.baseline.is_empty()) {
            ([directory], _) => return interleave::read(directory, None).map(Ok),
            ([a, b], _) => [vec![Played::read(a)?], vec![Played::read(b)?]],
            (_, false) => {
                let sides = [read(&self.baseline)?, read(&self.candidate)?];
                sides.iter().try_for_each(|side| refuse_copies(side))?;
                sides
            }
            (_, true) => {
                return Err(Failure::usage("expected two runs, found none")
                    .hint("dyno compare runs/A runs/B, or --interleave 5 A.toml B.toml"));
            }
        };
        interleave::place(&mut sides);
        Ok(Ok(sides))
    }

    fn play(&self, pairs: usize) -> Result<Result<Sides, Exit>, Failure> {
        let [a, b] = &self.runs[..] else {
            let problem =
                format!("--interleave takes two configurations, found {}", self.runs.len());
            return Err(Failure::usage(problem).hint("dyno compare --interleave 5 A.toml B.toml"));
        };
        let schedule = Schedule {
            configs: [a.clone(), b.clone()],
            set: self.set.clone(),
            keys: self.keys.clone(),
            pairs,
            most: self.max_time.unwrap_or(interleave::MOST),
            is_forced: self.force,
        };
        let plan = schedule.plan()?;
        if self.dry_run {
            output::print(plan)?;
            return Ok(Err(Exit::Valid));
        }
        if !self.quiet {
            output::say(plan);
        }
        let directory = self.directory()?;
        let interrupt = Interrupt::listen().map_err(Failure::set_up)?;
        let progress = Progress::new(!self.no_progress && !self.quiet);
        let watch = Watch { progress: &progress, interrupt: Some(&interrupt), most: None };
        let exit = schedule.play(&directory, watch)?;
        if exit != Exit::Valid {
            output::say(format_args!(
                "not all was played: --resume --out {} plays the rest",
                directory.display()
            ));
            return Ok(Err(exit));
        }
        output::say(format_args!("runs: {}", directory.display()));
        interleave::read(&directory, Some(pairs)).map(Ok)
    }

    /// Where the runs go: new, or empty, unless they are resumed.
    fn directory(&self) -> Result<PathBuf, Failure> {
        let given = self.keys.0.iter().rev().find(|(key, _)| key.name == "out");
        let Some((_, out)) = given else {
            if self.resume {
                return Err(Failure::usage("--resume needs --out, the folder to go on with"));
            }
            return free_folder(None, "compare");
        };
        let out = PathBuf::from(out);
        let is_taken = std::fs::read_dir(&out).is_ok_and(|mut files| files.next().is_some());
        if is_taken && !self.resume {
            return Err(Failure::set_up(format!("{} is not empty", out.display()))
                .hint("--resume plays only the runs that it does not hold yet"));
        }
        Ok(out)
    }
}

/// A share such as `2%` or `0.02`.
fn share(text: &str) -> Result<f64, String> {
    let expected = || format!("expected a share such as 2%, found `{text}`");
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map_err(|_| expected())? / scale;
    if (0.0..1.0).contains(&share) { Ok(share) } else { Err(expected()) }
}
