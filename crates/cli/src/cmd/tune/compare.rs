//! `dyno tune compare`: one table of a tuned model and what other programs make of it.

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::system::tuned;
use dyno_experiment::tune::{ComparedModel, Comparison, fed};
use dyno_number::evaluate::graph::CorrectnessRule;
use dyno_results::write::create_folder;
use dyno_results::{summary, units};
use dyno_sut::python::find_python;
use serde_json::json;

use super::run::part;
use crate::exit::Exit;
use crate::output;
use crate::render::{Alignment, Frame};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Compare {
    /// The model, an ONNX file with one input
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Samples, as a .npy file with samples along the first axis
    #[arg(long, value_name = "NPY")]
    inputs: PathBuf,
    /// Classes of the samples, as a .npy file
    #[arg(long, value_name = "NPY")]
    labels: PathBuf,
    /// Formats of its objects: opt_conf.txt of dyno tune run [default: no row of Dyno]
    #[arg(long, value_name = "FILE")]
    formats: Option<PathBuf>,
    /// Python with onnx and onnxruntime [default: that of VIRTUAL_ENV, of the environment of dyno, or
    /// python3]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Share of the samples that measure the accuracy; the others calibrate
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = part)]
    held_out: f64,
    /// Maximum number of samples that calibrate
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = at_least_one)]
    calibration: usize,
    /// Folder for the quantized models [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Quantizes the model with ONNX Runtime (ORT: static, static with a scale per channel, dynamic), and
with Intel Neural Compressor if Python has it. Dyno computes the accuracy of all models on the
samples that dyno tune run holds out. Latencies are the shortest of 100 runs of one sample on one
thread.
Example:
  dyno tune compare lenet.onnx --inputs x.npy --labels y.npy --formats tune-lenet/opt_conf.txt";

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of at least 1".into())
}

impl Compare {
    /// Compares the models and prints the table.
    ///
    /// # Errors
    /// Files that cannot be read, or a model that the engine does not support.
    pub fn execute(self) -> Result<Exit, Failure> {
        Failure::check_files([&self.model, &self.inputs, &self.labels])?;
        let formats = self.formats.as_deref().map(tuned::read).transpose()?;
        let labels = tuned::whole_numbers(&self.labels).map_err(Failure::usage)?;
        let inputs = std::slice::from_ref(&self.inputs);
        let count = labels.len();
        let samples = fed(inputs, None, CorrectnessRule::Labels(labels)).map_err(Failure::usage)?;
        if samples.count() != count {
            let found = format!("found {count} for {} samples", samples.count());
            return Err(Failure::usage(format!("expected a label for each sample, {found}")));
        }
        let temporary = std::env::temp_dir().join(format!("dyno-compare-{}", std::process::id()));
        let folder = self.out.clone().unwrap_or_else(|| temporary.clone());
        create_folder(&folder).map_err(|error| {
            Failure::set_up(format!("cannot create {}: {error}", folder.display()))
        })?;
        let python = self.python.clone().unwrap_or_else(find_python);
        let comparison = Comparison {
            model: &self.model,
            samples,
            formats: formats.as_ref(),
            python: &python,
            held_out: self.held_out,
            calibration: self.calibration,
        };
        let rows = comparison.run(&folder);
        if self.out.is_none() {
            // Files of a temporary folder that stay do no harm.
            let _ = std::fs::remove_dir_all(&temporary);
        }
        let rows = rows.map_err(Failure::usage)?;
        if self.json {
            let document = json!({
                "schema": "dyno.tune.compare",
                "schema_version": 1,
                "model": self.model,
                "rows": rows,
            });
            return output::print(format!("{document:#}\n")).map(|()| Exit::Valid);
        }
        output::show(table(&self.model.display().to_string(), &rows)).map(|()| Exit::Valid)
    }
}

/// Returns the table, and what is missing below it.
fn table(model: &str, rows: &[ComparedModel]) -> String {
    use Alignment::{Left, Right};
    let title = format!("dyno {}, compare {model}", dyno_results::VERSION);
    let mut frame = Frame::new(&title, summary::DISCLAIMER);
    let head = ["model", "bytes", "accuracy", "95 % interval", "Dyno", "ONNX Runtime", "made in"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let micros = |ns: Option<f64>| or_none(ns.map(|ns| format!("{:.1} us", ns / 1e3)));
    lines.extend(rows.iter().map(|row| {
        let interval = row.interval.map(|[low, high]| format!("{low:.4} to {high:.4}"));
        vec![
            row.name.clone(),
            or_none(row.bytes.map(units::count)),
            or_none(row.accuracy.map(|accuracy| format!("{accuracy:.4}"))),
            or_none(interval),
            micros(row.dyno_latency_ns),
            micros(row.runtime_latency_ns),
            or_none(row.seconds.map(|seconds| format!("{seconds:.2} s"))),
        ]
    }));
    frame.table(&[Left, Right, Right, Right, Right, Right, Right], &lines);
    let problems = rows.iter().filter_map(|row| Some((row, row.problem.as_ref()?)));
    let problems: Vec<String> =
        problems.map(|(row, problem)| format!("{}: {problem}", row.name)).collect();
    if !problems.is_empty() {
        frame.rule();
        problems.iter().for_each(|problem| frame.line(problem, 2));
    }
    frame.finish()
}
