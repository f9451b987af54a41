//! Accuracy runs of a system as the evaluator: the load generator plays each trial.

use std::path::{Path, PathBuf};

use dyno_loadgen::clock::Clock;
use dyno_loadgen::log::reports;
use dyno_loadgen::plan::Plan;
use dyno_loadgen::run::RecordRetention;
use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};
use dyno_number::evaluate::Samples;
use dyno_number::tune::{Evaluation, Stop, Subset, Trial};
use dyno_results::records;
use dyno_results::summary::distributions::Percentiles;
use dyno_results::units::counted;
use dyno_results::write::replace;

use super::data::Data;
use crate::watch::quiet;

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::outcome::{Context, Outcome, TenantTest, Troubles};
use crate::system::System;
use crate::test::{PlannedTest, TestTenant};
use crate::watch::{Control, Interrupt};

/// A system that reads formats from a file.
#[derive(Debug)]
pub struct Runs {
    /// Specification with `{config}`.
    spec: String,
    config: PathBuf,
    /// Samples and labels of each set.
    files: [[PathBuf; 2]; 3],
    counts: [usize; 3],
}

impl Runs {
    /// Returns an evaluator with a system. `spec` contains `{model}` for the path of the model and
    /// `{config}` for that of the formats. The sets are written to `folder`, where the system reads
    /// them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(spec: &str, model: &Path, data: &Data, folder: &Path) -> Result<Self, String> {
        let set = |subset: Subset| -> Result<[PathBuf; 2], String> {
            let path = |what: &str| folder.join(format!("{subset}-{what}.npy"));
            let files = [path("samples"), path("labels")];
            let (Samples { values, labels }, dims) = data.subset(subset)?;
            if labels.is_empty() {
                return Ok(files);
            }
            let shape = [&[labels.len()][..], dims].concat();
            let values: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            write(&files[0], &npy("<f4", &shape, &values))?;
            let numbers = labels.iter().flat_map(|label| (*label as i64).to_le_bytes());
            let numbers: Vec<u8> = numbers.collect();
            write(&files[1], &npy("<i8", &[labels.len()], &numbers))?;
            Ok(files)
        };
        let [small, full, confirmation] = Subset::ALL;
        Ok(Self {
            spec: spec.replace("{model}", &model.display().to_string()),
            config: folder.join("formats.txt"),
            files: [set(small)?, set(full)?, set(confirmation)?],
            counts: data.sets.each_ref().map(Vec::len),
        })
    }

    /// Plays trials in sequence.
    pub fn evaluate(
        &self,
        trials: &[Trial],
        interrupt: &Interrupt,
    ) -> Vec<Result<Evaluation, Stop>> {
        trials.iter().map(|trial| self.play(trial, interrupt)).collect()
    }

    fn play(&self, trial: &Trial, interrupt: &Interrupt) -> Result<Evaluation, Stop> {
        if interrupt.is_asked() {
            return Err(Stop::Interrupted);
        }
        let clock = Clock::start();
        let set = trial.subset as usize;
        if self.counts[set] == 0 {
            return Err(Stop::Failed(format!("the {} set has no samples", trial.subset)));
        }
        write(&self.config, trial.assignment.dictionary().to_string().as_bytes())
            .map_err(Stop::Failed)?;
        let [samples, labels] = &self.files[set];
        let run = RunOptions {
            system: Some(self.spec.replace("{config}", &self.config.display().to_string())),
            data: vec![(None, samples.clone())],
            labels: Some(labels.clone()),
            ..RunOptions::default()
        };
        let failed = |failure: Failure| Stop::Failed(failure.problems().join("; "));
        let system = System::load(&run, &quiet()).map_err(failed)?;
        let (accuracy, why) = accuracy(&system, interrupt).map_err(failed)?;
        if interrupt.is_asked() {
            return Err(Stop::Interrupted);
        }
        let accuracy = accuracy.filter(|_| why.is_empty());
        let accuracy = accuracy.ok_or_else(|| {
            let why = if why.is_empty() { "it has no figure of quality".into() } else { why };
            Stop::Failed(format!("an accuracy run of {} failed: {why}", self.spec))
        })?;
        Ok(Evaluation {
            samples: Some(self.counts[set] as u64),
            seconds: clock.now() as f64 / 1e9,
            ..Evaluation::from_accuracy(accuracy)
        })
    }
}

/// Returns the accuracy of a system's answers to all samples, and problems of the run.
fn accuracy(system: &System, interrupt: &Interrupt) -> Result<(Option<f64>, String), Failure> {
    let settings = TestSettings {
        scenario: Scenario::Offline,
        mode: TestMode::AccuracyOnly,
        ..TestSettings::default()
    };
    let plan = Plan::resolve(&settings, system.library_size()).map_err(Failure::usage)?;
    let tenant = TestTenant { name: None, settings: settings.into(), plan, messages: Vec::new() };
    let test = PlannedTest {
        scenario: Scenario::Offline,
        mode: TestMode::AccuracyOnly,
        tenants: vec![tenant],
        keep: RecordRetention::Results,
        fails_fast: false,
        stops_saturated: false,
        reads_metrics: false,
    };
    let control = Control { watch: &quiet(), interrupt: Some(interrupt), most: None };
    let log = test.play(system, control, "trial")?.logs.swap_remove(0);
    let troubles = Troubles::new();
    let context = Context {
        troubles: &troubles,
        failure: None,
        has_round: false,
        percentiles: &Percentiles::default(),
        stages: None,
    };
    let tenant_test = TenantTest { log: &log, test: &test, tenant: None, system };
    let keep = records::Keep::default();
    let outcome = Outcome::from_test(tenant_test, &reports(&log), keep, context);
    let judged = outcome.summary.accuracy;
    let answered = judged.as_ref().map_or(0, |of| of.answered);
    // The accuracy target of the system does not apply to trials.
    let missing = system.library_size().total.saturating_sub(answered);
    let samples = counted(missing, "sample has", "samples have");
    let why = match (missing, system.trouble()) {
        (0, _) => String::new(),
        (_, None) => format!("{samples} no answer"),
        (_, Some(why)) => format!("{samples} no answer: {why}"),
    };
    Ok((judged.and_then(|of| of.value), why))
}

/// Returns an array in the NumPy format, version 1.0.
fn npy(element: &str, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    let mut head =
        format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // The length of the header is a multiple of 64.
    let whole = (10 + head.len() + 1).next_multiple_of(64);
    head.extend(std::iter::repeat_n(' ', whole - 11 - head.len()));
    head.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((head.len() as u16).to_le_bytes());
    file.extend(head.as_bytes());
    file.extend(bytes);
    file
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    replace(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use dyno_tensors::npy::Npy;

    use super::*;

    #[test]
    fn arrays_are_as_numpy_writes_them() {
        let numbers: Vec<u8> = [1.5_f32, -2.0, 0.25].iter().flat_map(|x| x.to_le_bytes()).collect();
        let file = npy("<f4", &[3, 1], &numbers);
        assert_eq!((file.len() - numbers.len()) % 64, 0);
        let read = Npy::parse(&file).unwrap();
        assert_eq!(read.shape, [3, 1]);
        assert_eq!(&*read.elements.to_f32(), [1.5, -2.0, 0.25]);
        let whole = Npy::parse(&npy("<i8", &[1], &7_i64.to_le_bytes())).unwrap();
        assert_eq!(whole.elements.to_i64().as_deref(), Some(&[7][..]));
    }
}
