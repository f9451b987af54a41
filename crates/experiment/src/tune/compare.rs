//! Compares a tuned model with what other programs make of the same model.

use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_loadgen::compare::single_run::{DEVIATIONS, wilson};
use dyno_number::evaluate::graph::{CorrectnessRule, GraphSamples, QdqModel, QdqOptions};
use dyno_number::evaluate::{PackedFile, PackedSource};
use dyno_number::tune::{Chance, Stop, Subset, Trial};
use dyno_number::{Assignment, Dictionary};
use dyno_onnx::Model;
use dyno_tensors::npy;
use serde::{Deserialize, Serialize};

use super::built_in::Engine;
use super::data::held_out_parts;
use super::speed::Speed;
use crate::watch::Interrupt;

/// Quantizes with other programs.
const SCRIPT: &str = include_str!("compare.py");
/// What is compared.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// File of the model.
    pub model: &'a Path,
    /// All samples, of one input, with labels.
    pub samples: GraphSamples,
    /// Formats that Dyno found, if there are any.
    pub formats: Option<&'a Dictionary>,
    /// The program that runs Python.
    pub python: &'a Path,
    /// Share of the samples on which accuracies are measured; the others calibrate.
    pub held_out: f64,
    /// Most samples that calibrate.
    pub calibration: usize,
}

/// A row of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComparedModel {
    /// Program and method.
    pub name: String,
    /// Bytes on disk.
    pub bytes: Option<u64>,
    /// Share of the held-out samples with a correct answer, as Dyno computes the model.
    pub accuracy: Option<f64>,
    /// Interval that contains the accuracy with 95 % confidence (Wilson).
    pub interval: Option<[f64; 2]>,
    /// Shortest run of one sample on one thread in Dyno's engine.
    pub dyno_latency_ns: Option<f64>,
    /// Shortest run of one sample on one thread in ONNX Runtime.
    pub runtime_latency_ns: Option<f64>,
    /// Duration of the quantization.
    pub seconds: Option<f64>,
    /// Why something is missing or doubtful.
    pub problem: Option<String>,
}

/// A line of the script.
#[derive(Debug, Deserialize)]
struct ScriptRow {
    name: String,
    path: Option<PathBuf>,
    seconds: Option<f64>,
    latency_ns: Option<f64>,
    error: Option<String>,
}

impl Comparison<'_> {
    /// Quantizes the model with all programs and evaluates each result. Files are written to
    /// `folder`.
    ///
    /// # Errors
    /// The model or the samples cannot be used, or a file cannot be written.
    pub fn run(&self, folder: &Path) -> Result<Vec<ComparedModel>, String> {
        let ([input], CorrectnessRule::Labels(_)) =
            (&self.samples.inputs[..], &self.samples.correctness)
        else {
            return Err("expected samples of one input, and their labels".into());
        };
        let [held_out, others] = held_out_parts(&self.samples, self.held_out);
        if held_out.is_empty() || others.is_empty() {
            let count = self.samples.count();
            return Err(format!("expected samples for two parts, found {count}"));
        }
        let size: usize = input.dims.iter().product();
        let part = evenly(&others, self.calibration);
        let values: Vec<f32> =
            part.iter().flat_map(|at| &input.values[at * size..][..size]).copied().collect();
        let path = folder.join("calibration.npy");
        let shape = [&[part.len()], &input.dims[..]].concat();
        let written = std::fs::File::create(&path)
            .and_then(|mut file| npy::write(&mut file, &shape, &values));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let first = vec![([&[1], &input.dims[..]].concat(), values[..size].to_vec())];
        let mut rows = vec![self.float(&held_out, &first)?];
        let mut exported = None;
        if let Some(formats) = self.formats {
            let (row, file) = self.tuned(formats, &held_out, &first, folder)?;
            rows.push(row);
            exported = file;
        }
        self.others(&held_out, &path, folder, exported, &mut rows);
        Ok(rows)
    }

    fn float(
        &self,
        held_out: &[usize],
        first: &[(Vec<usize>, Vec<f32>)],
    ) -> Result<ComparedModel, String> {
        let model = Model::read(self.model).map_err(|error| error.to_string())?;
        let none = Assignment::new(Vec::new(), Vec::new());
        let latency = latency_ns(model, first, &none)?;
        let row = ComparedModel {
            name: "FLOAT 32".into(),
            bytes: Some(bytes_of(self.model)),
            dyno_latency_ns: Some(latency),
            ..ComparedModel::default()
        };
        let chance = self.chance(held_out)?;
        let problem = (!chance.is_exceeded()).then(|| {
            format!(
                "right no more often than chance ({:.4}): compare the order of the labels with that of \
                 the inputs",
                chance.expected
            )
        });
        let row = row.with_accuracy(chance.accuracy, held_out.len());
        Ok(ComparedModel { problem, ..row })
    }

    /// Returns the accuracy of FLOAT 32 on the held-out samples beside that of chance.
    fn chance(&self, held_out: &[usize]) -> Result<Chance, String> {
        let CorrectnessRule::Labels(labels) = &self.samples.correctness else {
            return Err("expected labels of the samples".into());
        };
        let sets = [Vec::new(), held_out.to_vec(), Vec::new()];
        let mut engine = Engine::new(self.model, self.samples.clone(), sets)?;
        let predictions = engine.predictions(held_out)?;
        let labels: Vec<usize> = held_out.iter().map(|at| labels[*at]).collect();
        Chance::new(&predictions, &labels).ok_or_else(|| "expected held-out samples".into())
    }

    /// Returns the row of Dyno's formats, and the exported file if ONNX can express them.
    fn tuned(
        &self,
        formats: &Dictionary,
        held_out: &[usize],
        first: &[(Vec<usize>, Vec<f32>)],
        folder: &Path,
    ) -> Result<(ComparedModel, Option<PathBuf>), String> {
        let model = Model::read(self.model).map_err(|error| error.to_string())?;
        let source = PackedSource::new(self.model, &[]);
        let packed = PackedFile::new(&model, formats, source).map_err(|error| error.to_string())?;
        let bytes = packed.to_bytes().map_err(|error| error.to_string())?.len() as u64;
        let (objects, all) =
            formats.iter().map(|(name, format)| (vec![name.to_owned()], format)).unzip();
        let assignment = Assignment::new(objects, all);
        let made = QdqModel::new(&model, formats, QdqOptions::default());
        let path = folder.join("dyno.qdq.onnx");
        let (file, problem) = match made {
            Ok(made) => {
                made.model.write(&path).map_err(|error| error.to_string())?;
                (Some(path), None)
            }
            Err(error) => (None, Some(format!("not measured in ONNX Runtime: {error}"))),
        };
        let latency = latency_ns(model, first, &assignment)?;
        let row = ComparedModel {
            name: "Dyno".into(),
            bytes: Some(bytes),
            dyno_latency_ns: Some(latency),
            problem,
            ..ComparedModel::default()
        };
        let accuracy = self.accuracy(self.model, assignment, held_out)?;
        Ok((row.with_accuracy(accuracy, held_out.len()), file))
    }

    /// Adds the rows of other programs, and latencies in ONNX Runtime to the first rows.
    fn others(
        &self,
        held_out: &[usize],
        calibration: &Path,
        folder: &Path,
        exported: Option<PathBuf>,
        rows: &mut Vec<ComparedModel>,
    ) {
        let mut command = Command::new(self.python);
        command.args(["-c", SCRIPT]).arg(self.model).arg(calibration).arg(folder).args(exported);
        let missing = |problem: String| ComparedModel {
            name: "ONNX Runtime".into(),
            problem: Some(problem),
            ..ComparedModel::default()
        };
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => {
                rows.push(missing(format!("cannot start {}: {error}", self.python.display())));
                return;
            }
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Vec<ScriptRow> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if found.is_empty() || !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let status = output.status.to_string();
            let last = errors.lines().last().unwrap_or(&status);
            rows.push(missing(format!("{} failed: {last}", self.python.display())));
        }
        for found in found {
            if let Some(known) = rows.iter_mut().find(|row| row.name == found.name) {
                known.runtime_latency_ns = found.latency_ns;
                known.problem = known.problem.take().or(found.error);
                continue;
            }
            rows.push(self.other(found, held_out));
        }
    }

    fn other(&self, found: ScriptRow, held_out: &[usize]) -> ComparedModel {
        let row = ComparedModel {
            name: found.name,
            seconds: found.seconds,
            runtime_latency_ns: found.latency_ns,
            problem: found.error,
            ..ComparedModel::default()
        };
        let Some(path) = found.path else { return row };
        let row = ComparedModel { bytes: Some(bytes_of(&path)), ..row };
        let none = Assignment::new(Vec::new(), Vec::new());
        match self.accuracy(&path, none, held_out) {
            Ok(accuracy) => row.with_accuracy(accuracy, held_out.len()),
            Err(problem) => ComparedModel { problem: Some(problem), ..row },
        }
    }

    /// Returns the share of the held-out samples with a correct answer.
    fn accuracy(
        &self,
        path: &Path,
        assignment: Assignment,
        held_out: &[usize],
    ) -> Result<f64, String> {
        let sets = [Vec::new(), held_out.to_vec(), Vec::new()];
        let mut engine = Engine::new(path, self.samples.clone(), sets)?;
        let objects: Vec<String> = assignment.iter().map(|(object, _)| object.to_owned()).collect();
        engine.accept(path, &objects).map_err(|why| format!("{}: {why}", path.display()))?;
        let trial = Trial { number: 1, subset: Subset::Full, assignment, decides: None };
        let found = engine.evaluate(&[trial], &Interrupt::default());
        match found.into_iter().next() {
            Some(Ok(found)) => Ok(found.accuracy),
            Some(Err(why)) => Err(format!("{}: {why:?}", path.display())),
            None => Err("expected an evaluation".into()),
        }
    }
}

/// Returns the latency of a model in these formats, ns.
fn latency_ns(
    model: Model,
    first: &[(Vec<usize>, Vec<f32>)],
    formats: &Assignment,
) -> Result<f64, String> {
    let found = Speed::new(model, first.to_vec()).latency_ns(formats, &Interrupt::default());
    found.map_err(|stop| match stop {
        Stop::Failed(why) => why,
        other => format!("{other:?}"),
    })
}

impl ComparedModel {
    fn with_accuracy(self, accuracy: f64, samples: usize) -> Self {
        let interval = Some(interval(accuracy, samples));
        Self { accuracy: Some(accuracy), interval, ..self }
    }
}

/// Returns the interval of Wilson (1927) for a share of `samples`.
pub(super) fn interval(share: f64, samples: usize) -> [f64; 2] {
    let (low, high) = wilson(share, samples.max(1) as f64, DEVIATIONS);
    [low, high]
}

/// Returns at most `count` samples in even steps: the first ones of sorted samples are of few classes.
fn evenly(samples: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(samples.len());
    (0..count).map(|at| samples[at * samples.len() / count]).collect()
}

fn bytes_of(path: &Path) -> u64 {
    let plain = std::fs::metadata(path).map_or(0, |of| of.len());
    let external = Model::read(path).map_or(0, |model| {
        let files = model.external_files().into_iter();
        files.map(|path| std::fs::metadata(path).map_or(0, |of| of.len())).sum()
    });
    plain + external
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibration_samples_are_of_all_parts() {
        let all: Vec<usize> = (100..110).collect();
        assert_eq!(evenly(&all, 4), [100, 102, 105, 107]);
        assert_eq!(evenly(&all, 20), all);
        assert!(evenly(&[], 3).is_empty());
    }

    /// From R: `prop.test(81, 263, correct = FALSE)$conf.int`.
    #[test]
    fn intervals_are_those_of_wilson() {
        let [low, high] = interval(81.0 / 263.0, 263);
        assert!((low - 0.255_289).abs() < 1e-5, "{low}");
        assert!((high - 0.366_208).abs() < 1e-5, "{high}");
        assert!(interval(1.0, 100)[0] < 0.97);
    }
}
