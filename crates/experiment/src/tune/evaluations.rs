//! Evaluations that jobs share: a file with a line for each, found again by the content of the
//! model, of the samples and of the formats. Jobs with another margin, search or seed of the small
//! set evaluate no configuration twice.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use dyno_number::evaluate::graph::{CorrectnessRule, GraphSamples};
use dyno_number::evaluate::instructions;
use dyno_number::tune::{Evaluation, Trial};
use dyno_results::VERSION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Evaluations by content.
#[derive(Debug)]
pub struct SharedEvaluations {
    path: PathBuf,
    file: File,
    known: HashMap<String, Evaluation>,
    /// Hash of the content of each set.
    sets: [String; 3],
}

impl SharedEvaluations {
    /// Opens or creates a file of evaluations, for the sets of these samples. `model` is the hash of
    /// the model, with all its weights.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(
        path: &Path,
        model: &str,
        fed: &GraphSamples,
        sets: &[Vec<usize>; 3],
    ) -> Result<Self, String> {
        let of = |error: std::io::Error| format!("cannot use {}: {error}", path.display());
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(of)?;
        if !file.metadata().map_err(of)?.is_file() {
            return Err(format!("cannot use {}: expected a regular file", path.display()));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(of)?;
        // A torn last line would swallow the next one.
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").map_err(of)?;
        }
        let set = |indices: &Vec<usize>| set_hash(model, fed, indices);
        let known = text.lines().filter_map(entry).collect();
        Ok(Self { path: path.to_path_buf(), file, known, sets: sets.each_ref().map(set) })
    }

    fn key(&self, trial: &Trial) -> String {
        let formats = trial.assignment.dictionary().to_string();
        let set = &self.sets[trial.subset as usize];
        super::closed::sha256(format!("{set}\n{formats}").as_bytes())
    }

    /// Returns the evaluation of a trial, if its configuration was evaluated on samples of the same
    /// content. A bound is returned only if it decides the trial.
    pub fn find(&self, trial: &Trial) -> Option<Evaluation> {
        let found = self.known.get(&self.key(trial))?;
        let decides = trial.decides.is_some_and(|decides| found.accuracy < decides);
        (!found.is_bound || decides).then(|| found.clone())
    }

    /// Adds an evaluation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, trial: &Trial, evaluation: &Evaluation) -> Result<(), String> {
        let key = self.key(trial);
        let line = json!({"key": key, "result": evaluation}).to_string() + "\n";
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", self.path.display()))?;
        self.known.insert(key, evaluation.clone());
        Ok(())
    }
}

fn entry(line: &str) -> Option<(String, Evaluation)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let evaluation = serde_json::from_value(line["result"].clone()).ok()?;
    Some((line["key"].as_str()?.to_owned(), evaluation))
}

/// Returns the hash of what the accuracy on a set depends on. Sums of numbers depend on the
/// instruction set.
fn set_hash(model: &str, fed: &GraphSamples, indices: &[usize]) -> String {
    let mut hash = Sha256::new();
    hash.update(model);
    hash.update(format!("{VERSION} {} {}", instructions(), indices.len()));
    for input in &fed.inputs {
        let size: usize = input.dims.iter().product();
        hash.update(format!("{:?}", input.dims));
        for at in indices {
            input.values[at * size..][..size].iter().for_each(|x| hash.update(x.to_le_bytes()));
        }
    }
    for at in indices {
        if let Some(lengths) = &fed.lengths {
            hash.update(lengths[*at].to_le_bytes());
        }
        if let CorrectnessRule::Labels(labels) = &fed.correctness {
            hash.update(labels[*at].to_le_bytes());
        }
    }
    if let CorrectnessRule::Agreement(agreement) = &fed.correctness {
        hash.update(agreement.to_string());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use dyno_number::evaluate::graph::GraphInput;
    use dyno_number::tune::Subset;
    use dyno_number::{Assignment, Format};

    use super::*;

    /// What is equal is found again, in whatever set and place it is, and nothing else is.
    #[test]
    fn evaluations_are_found_by_their_content() {
        let path = std::env::temp_dir().join(format!("dyno-evaluations-{}", std::process::id()));
        let fed = |values: [f32; 4]| GraphSamples {
            inputs: vec![GraphInput { dims: vec![1], values: values.to_vec() }],
            lengths: None,
            correctness: CorrectnessRule::Labels(vec![0, 1, 0, 1]),
        };
        let trial = |subset, bits, decides| Trial {
            number: 1,
            subset,
            assignment: Assignment::new(
                vec![vec!["a.weight".to_owned()]],
                vec![Format::fixed(bits, 0).unwrap()],
            ),
            decides,
        };
        let open = |model: &str, values, sets: [Vec<usize>; 3]| {
            SharedEvaluations::open(&path, model, &fed(values), &sets).unwrap()
        };
        let sets = [vec![0, 1], vec![0, 1, 2, 3], vec![]];
        let mut first = open("model", [1.0, 2.0, 1.0, 2.0], sets.clone());
        let full = trial(Subset::Full, 3, None);
        first.add(&full, &Evaluation::from_accuracy(0.75)).unwrap();
        let bound = Evaluation { is_bound: true, ..Evaluation::from_accuracy(0.5) };
        first.add(&trial(Subset::Small, 2, Some(0.6)), &bound).unwrap();
        drop(first);
        let again = open("model", [1.0, 2.0, 1.0, 2.0], sets.clone());
        assert_eq!(again.find(&full).unwrap().accuracy, 0.75);
        assert!(again.find(&trial(Subset::Full, 4, None)).is_none());
        assert!(again.find(&trial(Subset::Small, 3, None)).is_none());
        assert!(again.find(&trial(Subset::Small, 2, Some(0.55))).is_some());
        assert!(again.find(&trial(Subset::Small, 2, Some(0.4))).is_none(), "0.5 is an upper bound");
        // Samples 2 and 3 have the content of 0 and 1.
        let moved = open("model", [1.0, 2.0, 1.0, 2.0], [vec![2, 3], vec![0], vec![]]);
        assert!(moved.find(&trial(Subset::Small, 2, Some(0.55))).is_some());
        assert!(open("other", [1.0, 2.0, 1.0, 2.0], sets.clone()).find(&full).is_none());
        assert!(open("model", [1.0, 2.0, 1.0, 3.0], sets).find(&full).is_none());
        std::fs::remove_file(&path).unwrap();
        if cfg!(unix) {
            let device = Path::new("/dev/null");
            let sets = [vec![0], vec![0], vec![]];
            let opened = SharedEvaluations::open(device, "model", &fed([1.0; 4]), &sets);
            assert!(opened.err().unwrap().ends_with("expected a regular file"));
        }
    }
}
