//! Random recurrent models and graphs: how many are imported and compute what an evaluator of the ONNX
//! standard computes that shares nothing with the importer.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::Lines;
use crate::bench::Bench;
use crate::{cargo, shell};

const CASES: &str = "rnn.import.cases";
const DIFFERENCES: &str = "rnn.import.differences";
/// Models of each of both kinds: whole graphs, and chains of layers.
const MODELS: &str = "10000";
const QUICK_MODELS: &str = "300";

/// Prints the figures if one of them is wanted.
///
/// # Errors
/// The tests do not build, or a model differs.
pub(super) fn run(bench: &Bench<'_>, lines: &Lines) -> Result<()> {
    if ![CASES, DIFFERENCES].iter().any(|name| bench.wants(name)) {
        return Ok(());
    }
    let mut tests = cargo::command(bench.root);
    tests.args(["test", "--release", "--package", "dyno-graph", "--test", "oracle"]);
    tests.args(["--", "--nocapture"]);
    tests.env("DYNO_RANDOM_MODELS", if bench.quick { QUICK_MODELS } else { MODELS });
    let mut found = Counts::default();
    shell::each_line(&mut tests, |line| {
        eprintln!("{line}");
        found.read(line);
        Ok(())
    })?;
    // A difference ends the tests with the seed of its model.
    if found.kinds != 2 {
        bail!("the tests of dyno-graph printed {} of 2 counts of models", found.kinds);
    }
    found.figures().into_iter().for_each(|line| lines.print(line));
    Ok(())
}

/// Counts that the tests print.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    kinds: usize,
    equal: u64,
    /// Models in which a number next to a whole one is cast to another integer in `f32` than in `f64`.
    rounded: u64,
}

impl Counts {
    /// Reads a line such as `290 models, of which 1 round otherwise; refused: []` or
    /// `700 chains are equal, 300 models refused`.
    fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let (equal, rounded) = match words[..] {
            [_, "models,", "of", "which", _, ..] => (number(0), number(4)),
            [_, "chains", "are", "equal,", ..] => (number(0), Some(0)),
            _ => return,
        };
        if let (Some(equal), Some(rounded)) = (equal, rounded) {
            self.kinds += 1;
            self.equal += equal;
            self.rounded += rounded;
        }
    }

    fn figures(&self) -> [Value; 2] {
        let line = |name: &str, ours: u64, unit: &str| json!({"name": name, "ours": ours, "peer": null, "ratio": null, "unit": unit});
        let unit =
            "models that differ by more than 1e-5 from the oracle because of a cast to integers";
        [line(CASES, self.equal, "random models"), line(DIFFERENCES, self.rounded, unit)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_both_kinds_are_added() {
        let mut counts = Counts::default();
        for line in [
            "running 2 tests",
            "290 models, of which 1 round otherwise; refused: []",
            "700 chains are equal, 300 models refused",
        ] {
            counts.read(line);
        }
        assert_eq!(counts, Counts { kinds: 2, equal: 990, rounded: 1 });
        let [cases, differences] = counts.figures();
        assert_eq!((&cases["ours"], &differences["ours"]), (&json!(990), &json!(1)));
    }
}
