//! `dyno tune scale`: rounds weights to integers or narrow floats with scales, as stated or as a search
//! by labelled samples chooses.

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_experiment::system::{read_model, tuned};
use dyno_experiment::tune::{
    ScaleChoice, ScaleSearch, ScaleVerdict, bound_percent, fed, margin_percent,
};
use dyno_number::evaluate::graph::{CorrectnessRule, ScaledFormat, ScaledModel};
use dyno_onnx::Model;
use dyno_results::{summary, units};

use super::run::part;
use crate::exit::Exit;
use crate::interrupt;
use crate::output;
use crate::render::{Alignment, Frame};

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Scale {
    /// The model, an ONNX file
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Object and its format, such as fc1.weight=int4:32; repeatable
    #[arg(
        long = "format",
        value_name = "OBJECT=FORMAT",
        required_unless_present = "inputs",
        conflicts_with = "inputs",
        value_parser = choice
    )]
    formats: Vec<(String, ScaledFormat)>,
    /// Choose the formats with these samples, a .npy file with samples along the first axis
    #[arg(long, value_name = "NPY", requires = "labels")]
    inputs: Option<PathBuf>,
    /// Classes of the samples, as a .npy file
    #[arg(long, value_name = "NPY", requires = "inputs")]
    labels: Option<PathBuf>,
    /// Formats to choose from [default: all]
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', requires = "inputs")]
    from: Vec<ScaledFormat>,
    /// Share of the accuracy that may be lost
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.01",
        value_parser = part,
        requires = "inputs"
    )]
    margin: f64,
    /// Share of the samples that the search does not use
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.5",
        value_parser = part,
        requires = "inputs"
    )]
    held_out: f64,
    /// File to write [default: MODEL with the ending .scaled.onnx]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Store weights of 4 bits as int4 and uint4 instead of bytes; ONNX Runtime reads them since 1.19
    #[arg(long)]
    int4: bool,
}

const AFTER_HELP: &str = "\
Formats are int8, int4, uint8 and uint4 with a scale for each :tensor, :channel or group of 16 to 256
inputs, such as int4:32 (uint8 and uint4 have zero points), and mxfp8-e4m3, mxfp8-e5m2, mxfp6-e3m2,
mxfp6-e2m3, mxfp4, mxint8 and nvfp4. Bits include scales and zero points. Runtimes and dyno tune read
the file. Groups, MX formats and nvfp4 need a model with operators of version 21.
With --inputs and --labels, a search moves each object to smaller formats while the accuracy stays,
and confirms the choice on held-out samples. Exit code 1 if it is not confirmed, or nothing smaller was
found.
Examples:
  dyno tune scale lenet.onnx --inputs x.npy --labels y.npy --margin 0.01
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
        let model = read_model(&self.model)?;
        let chosen = self.chosen(&model)?;
        let formats = chosen.as_ref().map_or(&self.formats, |found| &found.formats);
        let made = ScaledModel::new(&model, formats, self.int4)
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
        let mut exit = Exit::Valid;
        if let Some(found) = &chosen {
            frame.rule();
            self.remarks(found).iter().for_each(|remark| frame.line(remark, 2));
            let is_smaller = found.bits[0] < found.bits[1];
            if !is_smaller || !matches!(found.verdict, ScaleVerdict::Confirmed { .. }) {
                exit = Exit::Invalid;
            }
        }
        output::show(frame.finish()).map(|()| exit)
    }

    /// Searches formats, if there are samples.
    fn chosen(&self, model: &Model) -> Result<Option<ScaleChoice>, Failure> {
        let (Some(inputs), Some(labels)) = (&self.inputs, &self.labels) else { return Ok(None) };
        Failure::check_files([inputs, labels])?;
        let classes = tuned::whole_numbers(labels).map_err(Failure::usage)?;
        let count = classes.len();
        let correct = CorrectnessRule::Labels(classes);
        let samples = fed(std::slice::from_ref(inputs), None, correct).map_err(Failure::usage)?;
        if samples.count() != count {
            let found = format!("found {count} for {} samples", samples.count());
            return Err(Failure::usage(format!("expected a label for each sample, {found}")));
        }
        let all = ScaledFormat::all();
        let formats = if self.from.is_empty() { &all } else { &self.from };
        let interrupt = interrupt::listen()
            .map_err(|error| Failure::set_up(format!("cannot listen to Ctrl-C: {error}")))?;
        let (margin, held_out) = (self.margin, self.held_out);
        let search = ScaleSearch { model, samples: &samples, formats, margin, held_out };
        let failure = |problem: String| {
            if interrupt.is_asked() {
                Failure::interrupted(problem)
            } else {
                Failure::usage(problem)
            }
        };
        search.run(&interrupt).map(Some).map_err(failure)
    }

    /// Returns sentences about the choice.
    fn remarks(&self, found: &ScaleChoice) -> Vec<String> {
        let [bits, base] = found.bits;
        let [accuracy, before] = found.accuracies;
        let margin = format!("{} %", margin_percent(self.margin));
        let verdict = match found.verdict {
            ScaleVerdict::Confirmed { samples, proven } => format!(
                "VALID: at most {margin} of the accuracy is lost, with 95 % confidence: {} samples that \
                 the search has not seen prove at most {} %",
                units::count(samples),
                bound_percent(proven, self.margin)
            ),
            ScaleVerdict::Undecided { samples, needed } => format!(
                "UNDECIDED: {} not prove that at most {margin} of the accuracy is lost{}",
                units::counted(samples, "held-out sample does", "held-out samples do"),
                match needed {
                    Some(needed) => format!("; about {} are needed", units::count(needed)),
                    None => String::new(),
                }
            ),
            ScaleVerdict::OneClass { samples } => format!(
                "UNDECIDED: on {}, the formats are right no more often than the most frequent class",
                units::counted(samples, "held-out sample", "held-out samples")
            ),
            ScaleVerdict::Exceeded { samples } => format!(
                "INVALID: more than {margin} of the accuracy is lost on {} samples that the search has not \
                 seen",
                units::count(samples)
            ),
        };
        vec![
            format!(
                "{} bits of weights and scales instead of {}: {:.2} times less; {} evaluated",
                units::count(bits),
                units::count(base),
                base as f64 / bits.max(1) as f64,
                match found.evaluations {
                    1 => "1 choice was".to_owned(),
                    count => format!("{} choices were", units::count(count)),
                }
            ),
            format!(
                "accuracy {accuracy:.5} on the samples of the search; FLOAT 32 has {before:.5}"
            ),
            verdict,
        ]
    }
}
