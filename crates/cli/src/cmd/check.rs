//! `dyno check`: validates a submission tree and explains rejected results.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::Failure;
use dyno_loadgen::settings::similar;
use dyno_results::summary;
use dyno_results::write::to_named;
use dyno_rules::{OneFileChecker, Round, RuleScenario, Version};
use dyno_submission::check::{CheckReport, Options, Program, Skip, check, published};
use dyno_submission::selection::{Selection, SystemResults};
use dyno_submission::table::write_csv;
use dyno_submission::tree::TreeError;
use dyno_submission::{json, sarif};

use crate::check::{CheckSummary, Extent, explain, selection};
use crate::exit::Exit;
use crate::{output, render};

/// Flags of `dyno check`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Check {
    /// Submission tree: the directory that contains closed, open or network
    #[arg(value_name = "TREE", required_unless_present = "explain")]
    tree: Option<PathBuf>,
    /// Round, such as v5.1 [default: that of --compat]
    #[arg(long, value_name = "ROUND", required_unless_present_any = ["explain", "compat"])]
    round: Option<String>,
    /// Judge as an official checker does, including its mistakes: mono (v5.1.1), modular (v6.1), or
    /// the checker of a round, such as v4.1
    #[arg(long, value_name = "CHECKER", value_parser = Compat::parse)]
    compat: Option<Compat>,
    /// Let Dyno's own checks reject results, too; no rule and no official program requires them
    #[arg(long, conflicts_with = "compat")]
    forensic: bool,
    /// List results that Dyno rejects and the official checker of the round accepts, with the rule
    #[arg(long, conflicts_with = "compat")]
    why_not_official: bool,
    /// Show the source of a check and its rounds, such as performance.seeds
    #[arg(long, value_name = "CHECK", conflicts_with_all = ["tree", "round"])]
    explain: Option<String>,
    /// List the candidates for the audit by a third party, and draw one; PREVIOUS is the published
    /// tree of the round before
    #[arg(long, value_name = "PREVIOUS", conflicts_with_all = ["explain", "why_not_official"])]
    audit_candidates: Option<PathBuf>,
    /// Systems of PREVIOUS that were audited
    #[arg(
        long,
        value_name = "SUBMITTER/SYSTEM,..",
        value_delimiter = ',',
        requires = "audit_candidates"
    )]
    audited: Vec<String>,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = 0, requires = "audit_candidates")]
    audit_seed: u32,
    /// Round of PREVIOUS [default: the round before]
    #[arg(long, value_name = "ROUND", requires = "audit_candidates")]
    previous_round: Option<String>,
    /// Write a table of the valid results, with the columns of the official checker
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write results and findings as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the findings as SARIF 2.1.0, for code hosts and editors
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Check this submitter only
    #[arg(long, value_name = "NAME")]
    submitter: Option<String>,
    /// Show all findings
    #[arg(long)]
    all: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
    /// Accept LoadGen's errors about uncommitted changes
    #[arg(long, help_heading = SKIP)]
    submission_exceptions: bool,
    /// Skip scenarios, by the names of their directories
    #[arg(
        long,
        value_name = "SCENARIO,..",
        value_delimiter = ',',
        value_parser = scenario_folder,
        help_heading = SKIP
    )]
    scenarios_to_skip: Vec<String>,
    #[command(flatten)]
    skips: Skips,
}

const SKIP: &str = "Flags of the official checkers";

/// The flags of the official checkers that leave checks out.
#[derive(Debug, Args)]
#[command(next_help_heading = SKIP)]
struct Skips {
    /// Skip the audits
    #[arg(long, alias = "skip_compliance")]
    skip_compliance: bool,
    /// Skip the checks of the power working group
    #[arg(long)]
    skip_power_check: bool,
    /// Accept empty fields
    #[arg(long)]
    skip_meaningful_fields_emptiness_check: bool,
    /// Accept power runs without analyzer_table.* and power_settings.*
    #[arg(long)]
    skip_check_power_measure_files: bool,
    /// Accept empty files
    #[arg(long)]
    skip_empty_files_check: bool,
    /// Accept files in the root
    #[arg(long)]
    skip_extra_files_in_root_check: bool,
    /// Skip the check for images and videos in accuracy directories
    #[arg(long)]
    skip_extra_accuracy_files_check: bool,
    /// Accept systems without results
    #[arg(long)]
    skip_all_systems_have_results_check: bool,
    /// Accept a missing calibration.md
    #[arg(long)]
    skip_calibration_check: bool,
    /// Accept accuracy runs of any length
    #[arg(long)]
    skip_dataset_size_check: bool,
}

impl Skips {
    fn list(&self) -> Vec<Skip> {
        let given = [
            (self.skip_compliance, Skip::Compliance),
            (self.skip_power_check, Skip::Power),
            (self.skip_meaningful_fields_emptiness_check, Skip::EmptyFields),
            (self.skip_check_power_measure_files, Skip::PowerDescription),
            (self.skip_empty_files_check, Skip::EmptyFiles),
            (self.skip_extra_files_in_root_check, Skip::RootFiles),
            (self.skip_extra_accuracy_files_check, Skip::AccuracyOutputs),
            (self.skip_all_systems_have_results_check, Skip::SystemsWithoutResults),
            (self.skip_calibration_check, Skip::Calibration),
            (self.skip_dataset_size_check, Skip::DatasetSize),
        ];
        given.into_iter().filter_map(|(is_given, skip)| is_given.then_some(skip)).collect()
    }
}

/// An official checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compat {
    /// The checker in one file, v5.1.1, for rounds up to v5.1.
    Mono,
    /// The checker in modules, for v5.1 to v6.1.
    Modular,
    /// The checker of a round.
    Round(Version),
}

impl Compat {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "mono" => Ok(Self::Mono),
            "modular" => Ok(Self::Modular),
            round => {
                let round = Round::named(round).map_err(|_| {
                    format!(
                        "there is no checker `{text}`; use mono, modular or a round such as v4.1"
                    )
                })?;
                Ok(Self::Round(round.version))
            }
        }
    }
}

const AFTER_HELP: &str = "\
Where an official checker crashes, --compat reports that and continues.
Exit codes: 0 all results are valid, 1 a result is invalid or the tree has none, 2 no such round, or a
run instead of a tree, 3 no such tree, or a file cannot be written. With --audit-candidates: 0 a
submission was drawn, 1 there is no candidate.";

impl Check {
    /// Checks the tree, prints the findings, and writes the files that flags name.
    ///
    /// # Errors
    /// The tree or the round does not exist, or a file cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        if let Some(check) = &self.explain {
            output::print(explain::text(check)?)?;
            return Ok(Exit::Valid);
        }
        // Required by the parser unless a check is explained.
        let tree = self.tree.clone().unwrap_or_default();
        reject_run(&tree)?;
        let round = self.round()?;
        let program = self.program(round.version)?;
        let options = Options {
            program,
            submitter: self.submitter.clone(),
            skip: self.skips.list(),
            scenarios_to_skip: self.scenarios_to_skip.clone(),
            submission_exceptions: self.submission_exceptions,
            forensic: self.forensic,
        };
        let check = |options: &Options| check(&tree, round, options).map_err(no_tree);
        let checked = check(&options)?;
        let official = if self.why_not_official {
            let program = official_of(round.version);
            Some(check(&Options { program, ..options.clone() })?)
        } else {
            None
        };
        if let Some(file) = &self.csv {
            write_file(file, "--csv", |out| write_csv(&checked.rows, program, out))?;
        }
        if let Some(file) = &self.json {
            let document = json::Document::from_check(&checked, round, program);
            write_file(file, "--json", |out| document.write(out))?;
        }
        if let Some(file) = &self.sarif {
            write_file(file, "--sarif", |out| sarif::write(&checked, &tree, round, program, out))?;
        }
        if let Some(previous) = &self.audit_candidates {
            return self.select(&tree, round, &checked, previous);
        }
        if !self.quiet {
            let extent = if self.all { Extent::All } else { Extent::Screen };
            if let Some(official) = &official {
                output::show(explain::beyond(&checked, official))?;
            }
            let report = CheckSummary {
                tree: &tree,
                round: round.version,
                program,
                checked: &checked,
                extent,
                is_colored: render::is_colored(),
            };
            output::show(report.text())?;
        }
        Ok(if checked.is_valid() { Exit::Valid } else { Exit::Invalid })
    }

    /// Returns the round of the submission.
    fn round(&self) -> Result<&'static Round, Failure> {
        const HINT: &str = "name the round of the submission, such as --round v5.1";
        let name = match (&self.round, self.compat) {
            (Some(round), _) => round.clone(),
            (None, Some(Compat::Round(round))) => round.to_string(),
            (None, _) => {
                let problem = "this checker judges several rounds, and --round names none of them";
                return Err(Failure::usage(problem).hint(HINT));
            }
        };
        Round::named(&name).map_err(|error| Failure::usage(error).hint(HINT))
    }

    /// Lists the candidates for an audit and draws one.
    fn select(
        &self,
        tree: &Path,
        round: &'static Round,
        checked: &CheckReport,
        previous: &Path,
    ) -> Result<Exit, Failure> {
        let earlier = match &self.previous_round {
            Some(name) => Round::named(name).map_err(Failure::usage)?,
            None => Round::before(round.version).ok_or_else(|| {
                Failure::usage(format!("there is no round before {}", round.version))
                    .hint("name the round of PREVIOUS with --previous-round")
            })?,
        };
        let systems = SystemResults::collect(tree, &checked.rows).map_err(no_tree)?;
        let rows = published(previous, earlier).map_err(no_tree)?.rows;
        let before = SystemResults::collect(previous, &rows).map_err(no_tree)?;
        let names: Vec<String> = before.iter().map(SystemResults::name).collect();
        if let Some(unknown) = self.audited.iter().find(|name| !names.contains(name)) {
            let failure =
                Failure::usage(format!("{} has no results of `{unknown}`", previous.display()));
            let near = similar(unknown, names.iter().map(String::as_str));
            return Err(failure.hint(near.map_or_else(
                || "--audited takes names such as acme/box".to_owned(),
                |near| format!("--audited {near}"),
            )));
        }
        let selection = Selection::draw(&systems, &before, &self.audited, self.audit_seed);
        let rejected = checked.results.len() - checked.valid();
        output::show(selection::text(&selection, rejected))?;
        Ok(if selection.drawn.is_some() { Exit::Valid } else { Exit::Invalid })
    }

    fn program(&self, round: Version) -> Result<Program, Failure> {
        let v5_1 = Version::new(5, 1);
        match self.compat {
            None => Ok(Program::Strict),
            Some(Compat::Round(tag)) if tag != round => Err(Failure::usage(format!(
                "the checker of {tag} judges {tag}, not {round}"
            ))
            .hint(format!("use --compat {round}"))),
            Some(Compat::Round(tag)) if tag > v5_1 => Ok(Program::Modular),
            Some(Compat::Round(tag)) if tag >= OneFileChecker::FIRST => {
                Ok(Program::Tag(OneFileChecker::new(tag)))
            }
            Some(Compat::Round(tag)) => Err(Failure::usage(format!(
                "what the checker of {tag} did otherwise than v5.1.1 is not known; the first that is \
                 known is {}",
                OneFileChecker::FIRST
            ))
            .hint("use --compat mono")),
            Some(Compat::Mono) if round <= v5_1 => Ok(Program::Mono),
            Some(Compat::Modular) if round >= v5_1 => Ok(Program::Modular),
            Some(Compat::Mono) => Err(Failure::usage(format!(
                "the checker in one file has no round {round}; its last one is v5.1"
            ))
            .hint("use --compat modular")),
            Some(Compat::Modular) => Err(Failure::usage(format!(
                "the checker in modules is for v5.1 and later, not for {round}"
            ))
            .hint("use --compat mono")),
        }
    }
}

/// Returns the failure of a tree that cannot be listed.
fn no_tree(error: TreeError) -> Failure {
    Failure::set_up(error).hint("name the folder that holds closed, open or network")
}

/// Rejects the folder of a run in the place of a tree.
fn reject_run(tree: &Path) -> Result<(), Failure> {
    let is_tree = ["closed", "open", "network"].iter().any(|name| tree.join(name).is_dir());
    if is_tree || !tree.join(summary::FILE).is_file() {
        return Ok(());
    }
    let run = tree.display();
    Err(Failure::usage(format!("{run} is a run, not a submission tree"))
        .hint(format!("dyno package TREE {run} builds a tree from runs")))
}

/// Parses the name of the folder of a scenario, in any case.
fn scenario_folder(name: &str) -> Result<String, String> {
    match RuleScenario::named(name) {
        Some(_) => Ok(name.to_owned()),
        None => {
            let names = RuleScenario::ALL.map(RuleScenario::name).join(", ");
            Err(format!("there is no scenario `{name}`; there are {names}"))
        }
    }
}

/// Returns the official checker of a round, or the nearest one.
fn official_of(round: Version) -> Program {
    if round > Version::new(5, 1) {
        Program::Modular
    } else {
        Program::Tag(OneFileChecker::new(round.max(OneFileChecker::FIRST)))
    }
}

/// Writes a file that a flag names.
fn write_file(
    file: &Path,
    flag: &str,
    write: impl Fn(&mut Vec<u8>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut text = Vec::new();
    write(&mut text).and_then(|()| to_named(file, &text)).map_err(|error| {
        Failure::unwritable(file, &error).hint(format!("choose another file with {flag}"))
    })
}
