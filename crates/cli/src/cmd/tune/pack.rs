//! `dyno tune pack`: writes a tuned model as one file.

use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::system::tuned;
use dyno_experiment::{Failure, files};
use dyno_number::Format;
use dyno_number::evaluate::{PackedFile, PackedLayer, PackedNetwork, PackedTensor};
use dyno_onnx::Model;
use dyno_results::write::to_named;
use dyno_results::{summary, units};

use crate::exit::Exit;
use crate::output;
use crate::render::{Alignment, Frame};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Pack {
    /// The model, an ONNX file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Formats of its objects: opt_conf.txt of dyno tune run
    #[arg(long, value_name = "FILE")]
    formats: PathBuf,
    /// File to write [default: MODEL with the ending .packed]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
The file contains the graph of the model, the formats, and the packed codes of all weights with a format.
No other file is needed. All models that dyno tune run evaluates without a program can be packed. Weights
that the graph computes, or that another node also reads, stay in FLOAT 32.
Examples:
  dyno tune pack lenet.onnx --formats tune-lenet/opt_conf.txt
  dyno run --system tuned:packed=lenet.packed --data x.npy --labels y.npy";

impl Pack {
    /// Writes the file and prints its size.
    ///
    /// # Errors
    /// Files that cannot be read or written, a model that the engine does not support, or formats of
    /// objects that the model lacks.
    pub fn execute(self) -> Result<Exit, Failure> {
        let formats = tuned::read(&self.formats)?;
        let bytes =
            files::read(&self.model).map_err(|error| Failure::unreadable(&self.model, &error))?;
        let problem = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("{}: {error}", self.model.display()))
        };
        let folder = self.model.parent().unwrap_or(Path::new(""));
        let model = Model::from_bytes(&bytes, folder).map_err(|error| problem(&error))?;
        let source = tuned::packed_source(&self.model).map_err(Failure::usage)?;
        let file = PackedFile::new(&model, &formats, source).map_err(|error| {
            problem(&error).hint(format!("formats are those of {}", self.formats.display()))
        })?;
        let network = file.network().map_err(|error| problem(&error))?;
        let packed = file.to_bytes().map_err(|error| problem(&error))?;
        let path = self.out.clone().unwrap_or_else(|| self.model.with_extension("packed"));
        to_named(&path, &packed).map_err(|error| {
            Failure::unwritable(&path, &error)
                .hint("choose a file that you may write to with --out")
        })?;
        let plain = bytes.len() + beside(&model);
        let sizes = [packed.len(), plain];
        let text = summary_box(&network, file.weights(), &path, &self.model, sizes);
        output::show(text).map(|()| Exit::Valid)
    }
}

/// What a layer without bytes means.
const NO_CODES: &str = "- : the file has no codes for these weights, because they are those of another \
    layer, or float32 in the graph: a node computes or reads them, or layers share them in several formats";

/// Returns the bytes of the weights in external files of the model.
fn beside(model: &Model) -> usize {
    let size = |path: &&Path| std::fs::metadata(path).map_or(0, |of| of.len() as usize);
    model.external_files().iter().map(size).sum()
}

/// Returns the summary: a line for each layer with the bytes that the file has for it, and the total
/// sizes.
fn summary_box(
    network: &PackedNetwork,
    stored: &[PackedTensor],
    path: &Path,
    model: &Path,
    [packed, plain]: [usize; 2],
) -> String {
    use Alignment::{Left, Right};
    let title = format!("dyno {}, {}", dyno_results::VERSION, path.display());
    let mut frame = Frame::new(&title, summary::DISCLAIMER);
    let count = |n: usize| units::count(n as u64);
    let head = ["layer", "weights", "values", "bytes", "FLOAT 32"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let bytes = |layer: &PackedLayer| {
        let object = format!("{}.weight", layer.name);
        let tensor = stored.iter().find(|tensor| tensor.object == object);
        match (layer.weight, tensor) {
            (Format::F32, _) => Some(4 * layer.weights),
            (_, tensor) => tensor.map(|tensor| tensor.codes.len()),
        }
    };
    rows.extend(network.layers().iter().map(|layer| {
        vec![
            layer.name.clone(),
            layer.weight.to_string(),
            count(layer.weights),
            bytes(layer).map_or_else(|| "-".into(), count),
            count(4 * layer.weights),
        ]
    }));
    frame.table(&[Left, Left, Right, Right, Right], &rows);
    frame.rule();
    frame.line(&super::on_disk(packed as u64, plain as u64, model), 2);
    if network.layers().iter().any(|layer| bytes(layer).is_none()) {
        frame.line(NO_CODES, 2);
    }
    frame.finish()
}
