//! `dyno rnn explain`: shows schedule, partition, predicted and measured time of a model's layers.

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dyno_experiment::options::RunOptions;
use dyno_experiment::system::by_value::{self, ServerModel};
use dyno_experiment::{Failure, environment};
use dyno_onnx::Tensor;
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::explain::explain;
use dyno_rnn::machine::Machine;
use dyno_rnn::model::Model;
use dyno_rnn::tuner::{Constraints, Effort, Goal, TuneError, rank, tune};
use dyno_rnn::{Isa, Layer, Team, import};

use super::ProductFormat;

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Explain {
    /// Model (.onnx or .safetensors), or a layer as CELL:INPUTSxUNITS or CELL:INPUTSxUNITSxROWSxSTEPS
    #[arg(value_name = "FILE|LAYER")]
    model: String,
    /// Rows per call [default: those of the layer, else 1]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Steps of a sequence [default: those of the layer, else 100]
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// Number format of the products
    #[arg(long, value_enum, default_value_t = ProductFormat::F32)]
    precision: ProductFormat,
    /// Maximum number of workers [default: the cores of the machine]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Steps whose products with the input are computed together [default: chosen by the plan]
    #[arg(long, value_name = "N")]
    chunk: Option<usize>,
    /// Workers for directions, 1 or 2 [default: chosen by the plan]
    #[arg(long, value_name = "N")]
    sides: Option<usize>,
    /// Workers that share the rows of the batch [default: chosen by the plan]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Workers that share the units [default: chosen by the plan]
    #[arg(long, value_name = "N")]
    units: Option<usize>,
    /// Machine to plan for; only plans for this machine are timed
    #[arg(long, value_enum, default_value_t = MachineModel::This)]
    machine: MachineModel,
    /// Instruction set [default: the fastest of this processor]
    #[arg(long, value_name = "NAME")]
    isa: Option<String>,
    /// Predict the time with the cost model instead of measuring it
    #[arg(long)]
    predict: bool,
}

const AFTER_HELP: &str = "\
CELL is lstm, gru or rnn; the prefix `bi` makes the layer bidirectional. The weights of such a layer are random.
Examples:
  dyno rnn explain lstm:64x256 --batch 10
  dyno rnn explain gru:1024x1024x10x100
  dyno rnn explain bigru:200x512 --precision bf16 --steps 20
  dyno rnn explain model.onnx --predict
  dyno rnn explain lstm:1024x1024 --machine paper";

/// Machines that are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MachineModel {
    /// This machine
    This,
    /// The 24 cores of the DeepCPU paper
    Paper,
    /// Two cores of a Sapphire Rapids
    SapphireRapids,
}

/// Layers with their names.
type NamedLayers = Vec<(String, Layer)>;

impl Explain {
    /// Prints an explanation of each layer.
    ///
    /// # Errors
    /// A file without supported layers, a missing file of weights, or an impossible plan.
    pub fn execute(self) -> Result<Exit, Failure> {
        for (flag, number) in [("--batch", self.batch), ("--steps", self.steps)] {
            if number == Some(0) {
                return Err(Failure::usage(format!("{flag}: expected at least 1, found 0")));
            }
        }
        let (mut text, failure) = self.whole_model();
        let (layers, shape) = match (self.layers(), failure) {
            // A model without recurrent layers that cannot run as a whole either.
            (Err(_), Some(failure)) => return Err(failure),
            // A model without recurrent layers is explained as a whole.
            (Err(_), None) if !text.is_empty() => {
                return output::show(text.trim_end().to_owned() + "\n").map(|()| Exit::Valid);
            }
            (layers, _) => layers?,
        };
        let [rows, steps] = shape.unwrap_or([1, 100]);
        let shape = [self.batch.unwrap_or(rows), self.steps.unwrap_or(steps)];
        let isa = self.isa.as_deref().map_or(Ok(Isa::best()), Isa::named);
        let isa = isa.map_err(Failure::usage)?;
        let is_timed = self.machine == MachineModel::This && !self.predict;
        let (machine, mut team) = self.machine(isa, is_timed)?;
        let threads = self.threads.unwrap_or(machine.cores).max(1);
        self.check_limits(&machine, shape[1])?;
        for (name, layer) in &layers {
            let goal = self.goal(layer, shape, threads);
            let ranking = match &mut team {
                Some(team) => {
                    let effort = Effort { choices: 8, time: Duration::from_millis(250) };
                    tune(&goal, &goal.pack(), &machine, isa, team, effort)
                        .map_err(Failure::usage)?
                }
                None => rank(&goal, &machine),
            };
            let Some(found) = explain(&goal, &ranking, &machine) else {
                return Err(Failure::usage(TuneError::Forced(goal.forced)));
            };
            text.push_str(&format!("{name}\n{found}\n"));
        }
        output::show(text.trim_end().to_owned() + "\n").map(|()| Exit::Valid)
    }

    /// Returns what `rnn:FILE.onnx` does with a file: its inputs and outputs and how it was verified, or
    /// why it does not run as a whole, also as a failure. Returns no text for other models.
    fn whole_model(&self) -> (String, Option<Failure>) {
        if !is_onnx(Path::new(&self.model)) {
            return (String::new(), None);
        }
        let spec = format!("rnn:{}", self.model);
        match by_value::load(&spec, 1, &RunOptions::default()) {
            Ok(ServerModel::Tensors(model, _, remark)) => {
                let signature = crate::cmd::serve::signature(&*model);
                let remark = remark.unwrap_or_default();
                let text =
                    format!("{}\nmodel      {signature}\nverified   {remark}\n\n", self.model);
                (text, None)
            }
            Ok(ServerModel::Text(_)) => (String::new(), None),
            Err(failure) => {
                let problems = failure.problems().join("; ");
                let text =
                    format!("{}\nmodel      cannot run as a whole: {problems}\n\n", self.model);
                (text, Some(failure))
            }
        }
    }

    /// Rejects numbers that no plan on this machine can have.
    fn check_limits(&self, machine: &Machine, steps: usize) -> Result<(), Failure> {
        let parts = [
            ("--threads", self.threads),
            ("--chunk", self.chunk),
            ("--sides", self.sides),
            ("--rows", self.rows),
            ("--units", self.units),
        ];
        if let Some((flag, _)) = parts.into_iter().find(|(_, number)| *number == Some(0)) {
            return Err(Failure::usage(format!(
                "{flag}: expected a number of at least 1, found 0"
            )));
        }
        if let Some(chunk) = self.chunk.filter(|chunk| *chunk > steps) {
            let problem = format!("--chunk {chunk} is more than the {steps} steps of a sequence");
            return Err(Failure::usage(problem).hint("set the steps of a sequence with --steps"));
        }
        let cores = match self.machine {
            MachineModel::This => machine.cores.max(environment::cores()),
            MachineModel::Paper | MachineModel::SapphireRapids => machine.cores,
        };
        match self.threads.filter(|threads| *threads > cores) {
            Some(threads) => {
                let problem =
                    format!("--threads {threads} is more than the {cores} cores of the machine");
                Err(Failure::usage(problem).hint("plan for another machine with --machine"))
            }
            None => Ok(()),
        }
    }

    fn goal<'a>(&self, layer: &'a Layer, [batch, steps]: [usize; 2], threads: usize) -> Goal<'a> {
        let base = self.precision.base();
        let Self { chunk, sides, rows, units, .. } = *self;
        Goal {
            layer,
            batch,
            steps,
            base,
            forced: Constraints { chunk, sides, rows, units },
            threads,
        }
    }

    /// Returns the machine; if layers are timed, calibrated, and with a team of workers on it.
    fn machine(&self, isa: Isa, is_timed: bool) -> Result<(Machine, Option<Team>), Failure> {
        let machine = match self.machine {
            MachineModel::This => Machine::detect(isa),
            MachineModel::Paper => Machine::paper(),
            MachineModel::SapphireRapids => Machine::sapphire_rapids(),
        };
        if !is_timed {
            return Ok((machine, None));
        }
        let threads = self.threads.unwrap_or_else(environment::cores);
        let mut team = Team::with_workers(threads.max(machine.cores));
        let measured = calibrate(&machine, isa, &mut team).map_err(Failure::set_up)?;
        Ok((measured, Some(team)))
    }

    /// Returns the layers with their names, and rows and steps if the text has them. An ONNX file
    /// contributes all layers, whether or not they follow one another.
    fn layers(&self) -> Result<(NamedLayers, Option<[usize; 2]>), Failure> {
        let path = Path::new(&self.model);
        if is_onnx(path) {
            let model = dyno_onnx::Model::read(path).map_err(Failure::set_up)?;
            check_data(&model)?;
            let (model, _) = import::reroll(&model);
            let layers = import::layers(&model).map_err(Failure::set_up)?;
            if layers.is_empty() {
                let problem = format!("{} has no recurrent layers", path.display());
                return Err(
                    Failure::set_up(problem).hint("`dyno task layers` lists the cost of each node")
                );
            }
            let layers = layers.into_iter().map(|found| (found.name, found.layer));
            return Ok((layers.collect(), None));
        }
        let model = Model::open(&self.model).map_err(|error| {
            // Names of layers by shape contain neither character.
            let is_missing = !path.exists() && self.model.contains(['/', '.']);
            if is_missing { Failure::set_up(error) } else { Failure::usage(error) }
        })?;
        let name = |at: usize| match model.layers() {
            [_] => model.name().to_owned(),
            _ => format!("{}, layer {at}", model.name()),
        };
        let layers = model.layers().iter().enumerate();
        Ok((layers.map(|(at, layer)| (name(at), layer.clone())).collect(), model.shape()))
    }
}

/// Checks that the files with a model's weights can be read, also of weights that no layer has.
fn check_data(model: &dyno_onnx::Model) -> Result<(), Failure> {
    let is_external =
        |tensor: &&Tensor| matches!(tensor.values, dyno_onnx::Values::External { .. });
    let mut external = model.tensors.iter().filter(is_external);
    external.try_for_each(|tensor| tensor.clone().load().map_err(Failure::set_up))
}

fn is_onnx(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|ending| ending == "onnx")
}
