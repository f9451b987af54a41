//! `dyno tune scale`: rounds weights to integers or narrow floats with scales.

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_number::evaluate::graph::{ScaledFormat, ScaledModel};
use dyno_onnx::Model;
use dyno_results::{summary, units};

use crate::exit::Exit;
use crate::output;
use crate::render::{Alignment, Frame};

/// Which weights, and their formats.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Scale {
    /// The model, an ONNX file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// An object and its format, such as fc1.weight=int4:32; may be repeated
    #[arg(long = "format", value_name = "OBJECT=FORMAT", required = true, value_parser = choice)]
    formats: Vec<(String, ScaledFormat)>,
    /// The file to write [default: MODEL with the ending .scaled.onnx]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Store weights of 4 bits as int4 and uint4 instead of bytes; ONNX Runtime reads them since 1.19
    #[arg(long)]
    int4: bool,
}

const AFTER_HELP: &str = "\
Formats are int8, int4, uint8 and uint4 with a scale for each :tensor, :channel or group of 16 to 256
inputs, such as int4:32 (uint8 and uint4 have zero points), and mxfp4, mxfp6-e3m2, mxfp6-e2m3, mxint8
and nvfp4. Bits include scales and zero points. Runtimes and dyno tune read the file; runtimes need
operators of version 21 for groups.
Example:
  dyno tune scale lenet.onnx --format fc1.weight=int4:32 --format fc2.weight=int8:channel
  dyno tune compare lenet.scaled.onnx --inputs x.npy --labels y.npy";

fn choice(text: &str) -> Result<(String, ScaledFormat), String> {
    let (object, format) = text.split_once('=').ok_or("expected OBJECT=FORMAT")?;
    Ok((object.to_owned(), format.parse()?))
}

impl Scale {
    /// Writes the file and prints the bits of its weights.
    ///
    /// # Errors
    /// Files that cannot be read or written, a model that the engine does not support, or formats
    /// that do not fit.
    pub fn execute(self) -> Result<Exit, Failure> {
        use Alignment::{Left, Right};
        let model = Model::read(&self.model).map_err(Failure::usage)?;
        let made = ScaledModel::new(&model, &self.formats, self.int4)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.model.display())))?;
        let path = self.out.clone().unwrap_or_else(|| self.model.with_extension("scaled.onnx"));
        made.model.write(&path).map_err(|error| {
            Failure::set_up(error.to_string())
                .hint("choose a file that you may write to with --out")
        })?;
        let title = format!("dyno {}, {}", dyno_results::VERSION, path.display());
        let mut frame = Frame::new(&title, summary::DISCLAIMER);
        let head = ["object", "format", "weights", "scales", "bits of each"].map(str::to_owned);
        let mut rows = vec![head.to_vec()];
        rows.extend(made.layers.iter().map(|layer| {
            vec![
                layer.object.clone(),
                layer.format.to_string(),
                units::count(layer.weights as u64),
                units::count(layer.scales as u64),
                format!("{:.3}", layer.bits as f64 / layer.weights.max(1) as f64),
            ]
        }));
        frame.table(&[Left, Left, Right, Right, Right], &rows);
        output::print(frame.finish()).map(|()| Exit::Valid)
    }
}
