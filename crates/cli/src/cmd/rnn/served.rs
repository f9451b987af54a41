//! `dyno rnn served`: times each node of the models that DeepCPU serves (its Tables 2 to 4).

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use dyno_experiment::{Failure, environment};
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::machine::Machine;
use dyno_rnn::network::{Network, NetworkEngine, NodeTimes, Setup};
use dyno_rnn::served::ServedModel;
use dyno_rnn::tuner::Effort;
use dyno_rnn::{Choice, Isa, Precision, Team};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TimeServed {
    /// Model to time [default: all]
    #[arg(value_enum)]
    model: Option<ModelChoice>,
    /// Number format of the products with weights
    #[arg(long, value_enum, default_value_t = WeightFormat::Bf16)]
    precision: WeightFormat,
    /// Documents that a query is compared with: 33 for text similarity, 10 for the reader
    #[arg(long, value_name = "N")]
    documents: Option<usize>,
    /// Number of workers [default: the number of cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Number of calls; the median is reported
    #[arg(long, value_name = "N", default_value_t = 101)]
    calls: usize,
    /// Instruction set [default: the fastest of this processor]
    #[arg(long, value_name = "NAME")]
    isa: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Weights and words are random with a fixed seed; sizes are those of Table 2 of the paper.
Examples:
  dyno rnn served
  dyno rnn served text-similarity --documents 10
  dyno rnn served bidaf --precision int8 --json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModelChoice {
    TextSimilarity,
    Reader,
    Bidaf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WeightFormat {
    F32,
    Bf16,
    Int8,
}

/// Measured times of a model.
struct ModelTiming {
    model: ServedModel,
    documents: usize,
    times: NodeTimes,
    /// Plan of each recurrent node, by its name.
    plans: Vec<(String, String)>,
}

impl TimeServed {
    /// Times the models and prints the results.
    ///
    /// # Errors
    /// The processor does not support the instruction set, or there is nothing to run.
    pub fn execute(self) -> Result<Exit, Failure> {
        if self.documents == Some(0) {
            return Err(Failure::usage("--documents: expected at least 1, found 0".to_owned()));
        }
        let isa = self.isa.as_deref().map_or(Ok(Isa::best()), Isa::named);
        let isa = isa.map_err(Failure::usage)?;
        let threads = self.threads.unwrap_or_else(environment::cores).max(1);
        let mut team = Team::with_workers(threads);
        let machine = calibrate(&Machine::detect(isa), isa, &mut team);
        let precision = match self.precision {
            WeightFormat::F32 => Precision::F32,
            WeightFormat::Bf16 => Precision::Bf16,
            WeightFormat::Int8 => Precision::Int8,
        };
        let mut setup = Setup::new(precision, isa, machine.map_err(Failure::set_up)?);
        setup.effort = Effort::default();
        let models = match self.model {
            None => ServedModel::ALL.to_vec(),
            Some(ModelChoice::TextSimilarity) => vec![ServedModel::TextSimilarity],
            Some(ModelChoice::Reader) => vec![ServedModel::Reader],
            Some(ModelChoice::Bidaf) => vec![ServedModel::Bidaf],
        };
        let found: Result<Vec<ModelTiming>, Failure> =
            models.into_iter().map(|model| self.find(model, &setup, &mut team)).collect();
        let found = found?;
        let text = if self.json { document(&found, &setup) } else { table(&found, &setup) };
        output::print_or_show(text, self.json).map(|()| Exit::Valid)
    }

    fn find(
        &self,
        model: ServedModel,
        setup: &Setup,
        team: &mut Team,
    ) -> Result<ModelTiming, Failure> {
        let mut sizes = model.paper();
        sizes.documents = self.documents.unwrap_or(sizes.documents);
        let (network, _) = model.network(&sizes).map_err(Failure::usage)?;
        let mut engine = NetworkEngine::new(&network, setup, team).map_err(Failure::set_up)?;
        let words = model.words(&sizes, 1);
        let times = engine.times(team, &model.feeds(&words), self.calls);
        let times = times.map_err(Failure::set_up)?;
        Ok(ModelTiming {
            model,
            documents: sizes.documents,
            times,
            plans: plans(&engine, &network),
        })
    }
}

fn plans(engine: &NetworkEngine, network: &Network) -> Vec<(String, String)> {
    let plan = |(name, _): (&str, _)| {
        let (choices, stacked) = engine.schedule(network.named(name)?)?;
        let plan = |choice: &Choice| {
            let Choice { chunk, sides, rows, units, .. } = choice;
            format!("chunks of {chunk}, {sides} x {rows} x {units}")
        };
        let layers: Vec<String> = choices.iter().map(plan).collect();
        let stacked = if choices.len() > 1 { format!("; {stacked:?}") } else { String::new() };
        Some((name.to_owned(), layers.join("; ") + &stacked))
    };
    network.nodes().filter_map(plan).collect()
}

fn document(found: &[ModelTiming], setup: &Setup) -> String {
    let model = |found: &ModelTiming| {
        let nodes = found.times.nodes.iter().map(|(name, time)| {
            let plan = found.plans.iter().find(|(model, _)| model == name).map(|(_, plan)| plan);
            json!({"name": name, "ms": time.as_secs_f64() * 1e3, "plan": plan})
        });
        json!({
            "model": found.model.name(), "documents": found.documents, "isa": setup.isa.name(),
            "precision": format!("{:?}", setup.precision).to_lowercase(),
            "ms": found.times.all.as_secs_f64() * 1e3, "nodes": nodes.collect::<Vec<Value>>(),
        })
    };
    let all: Vec<Value> = found.iter().map(model).collect();
    serde_json::to_string_pretty(&all).expect("keys are texts") + "\n"
}

fn table(found: &[ModelTiming], setup: &Setup) -> String {
    let mut text = String::new();
    let precision = format!("{:?}", setup.precision).to_lowercase();
    for ModelTiming { model, documents, times, plans } in found {
        let many = if *documents == 1 { "document" } else { "documents" };
        let name = model.name();
        let _ = writeln!(text, "{name}: {documents} {many}, {precision}, {}", setup.isa);
        for (name, time) in &times.nodes {
            let plan = plans.iter().find(|(of, _)| of == name).map_or("", |(_, plan)| plan);
            let line = format!("  {:>9.4} ms  {name:<20} {plan}", time.as_secs_f64() * 1e3);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let _ = writeln!(text, "  {:>9.4} ms  in total\n", times.all.as_secs_f64() * 1e3);
    }
    text.trim_end().to_owned() + "\n"
}
