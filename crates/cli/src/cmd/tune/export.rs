//! `dyno tune export`: writes a tuned model as an ONNX file that other runtimes execute.

use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::system::{read_model, tuned};
use dyno_number::evaluate::graph::{QdqError, QdqModel, QdqOptions};
use dyno_onnx::{Model, ModelFiles};
use dyno_results::{summary, units};

use crate::exit::Exit;
use crate::output;
use crate::render::{Alignment, Frame};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Export {
    /// The model, an ONNX file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Formats of its objects: opt_conf.txt of dyno tune run
    #[arg(long, value_name = "FILE")]
    formats: PathBuf,
    /// File to write [default: MODEL with the ending .qdq.onnx]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Store weights in formats that ONNX lacks as rounded float32, instead of rejecting them
    #[arg(long)]
    fake_weights: bool,
    /// Store weights of up to 4 bits as int4 instead of int8; ONNX Runtime reads them since 1.19
    #[arg(long)]
    int4: bool,
    /// Write nodes that the optimizations of ONNX Runtime do not change
    #[arg(long)]
    exact: bool,
}

const AFTER_HELP: &str = "\
Writes QuantizeLinear and DequantizeLinear nodes, whose scales are powers of two. A runtime that
executes the file as written rounds exactly what Dyno rounds. ONNX Runtime's optimizations also
round biases, and inputs of layers that have a format only for their weights. With --exact they do
not, and products are of float32. Formats that ONNX cannot express are rejected by name; the
platform onnx of dyno tune run has none, if the states of recurrent layers have `act_size` 0.
Examples:
  dyno tune export lenet.onnx --formats tune-lenet/opt_conf.txt
  dyno run --system onnx:lenet.qdq.onnx --data x.npy --labels y.npy";

impl Export {
    /// Writes the file and prints its formats and size.
    ///
    /// # Errors
    /// Files that cannot be read or written, a model that the engine does not support, or formats
    /// that ONNX cannot express.
    pub fn execute(self) -> Result<Exit, Failure> {
        let formats = tuned::read(&self.formats)?;
        let problem = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("{}: {error}", self.model.display()))
        };
        let model = read_model(&self.model)?;
        let options =
            QdqOptions { fake_weights: self.fake_weights, int4: self.int4, exact: self.exact };
        let made = QdqModel::new(&model, &formats, options).map_err(|error| match error {
            QdqError::Inexpressible(problems) => {
                let named = |problem| format!("{}: {problem}", self.formats.display());
                Failure::usages(problems.into_iter().map(named).collect()).hint(HINT)
            }
            other => {
                problem(&other).hint(format!("formats are those of {}", self.formats.display()))
            }
        })?;
        let path = self.out.clone().unwrap_or_else(|| self.model.with_extension("qdq.onnx"));
        let files = made.model.write(&path).map_err(|error| {
            Failure::set_up(error.to_string())
                .hint("choose a file that you may write to with --out")
        })?;
        let sizes = [written(&files), plain(&self.model, &model)];
        output::show(summary_box(&made, &path, &self.model, sizes)).map(|()| Exit::Valid)
    }
}

/// What to do about formats that ONNX lacks.
const HINT: &str = "tune with --platform onnx, and with `act_size` 0 for the states of recurrent \
    layers; or set these objects to FLOAT 32 in the file, and check the accuracy with dyno tune trial; --fake-weights stores weights as rounded float32";

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |of| of.len())
}

fn written(files: &ModelFiles) -> u64 {
    bytes_of(&files.model) + files.weights.as_deref().map_or(0, bytes_of)
}

fn plain(path: &Path, model: &Model) -> u64 {
    bytes_of(path) + model.external_files().into_iter().map(bytes_of).sum::<u64>()
}

/// Returns the summary: a line for each object, and the total sizes.
fn summary_box(made: &QdqModel, path: &Path, model: &Path, sizes: [u64; 2]) -> String {
    use Alignment::{Left, Right};
    let title = format!("dyno {}, {}", dyno_results::VERSION, path.display());
    let mut frame = Frame::new(&title, summary::DISCLAIMER);
    let head = ["object", "format", "stored as", "scale", "values"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    rows.extend(made.objects.iter().map(|object| {
        let scale = object.scale.map_or_else(|| "-".into(), |scale| format!("2^{}", scale.log2()));
        let values = match object.values {
            0 => "-".into(),
            values => units::count(values as u64),
        };
        let element = object.element.name().to_owned();
        vec![object.name.clone(), object.format.to_string(), element, scale, values]
    }));
    frame.table(&[Left, Left, Left, Right, Right], &rows);
    frame.rule();
    let [written, plain] = sizes;
    frame.line(&super::on_disk(written, plain, model), 2);
    frame.finish()
}
