//! `dyno-studies rnn`: measures the gain of each technique of DeepCPU on this machine.

mod measuring;
mod misses;
mod page;
mod part;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dyno_experiment::{Failure, environment};
use dyno_results::write::replace;
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::load::LoadMeter;
use dyno_rnn::machine::Machine;
use dyno_rnn::study::{Counter, Study as Bench};
use dyno_rnn::{Choice, Isa, Precision, Team};

use measuring::{StudyRunner, document, tables};
use misses::Misses;

/// Number format of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NumberFormat {
    F32,
    Bf16,
    Int8,
}

impl NumberFormat {
    /// Returns a choice with this precision and activations of matching accuracy. The tuner sets the other fields.
    fn base(self) -> Choice {
        Choice::one_worker(match self {
            Self::F32 => Precision::F32,
            Self::Bf16 => Precision::Bf16,
            Self::Int8 => Precision::Int8,
        })
    }
}

/// How much, and where to.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Study {
    /// How numbers of products are held
    #[arg(long, value_enum, default_value_t = NumberFormat::F32)]
    precision: NumberFormat,
    /// Workers at most, instead of the cores of the machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// The instruction set, instead of the fastest of this processor
    #[arg(long, value_name = "NAME")]
    isa: Option<String>,
    /// Small layers for short times: whether it works, no figures
    #[arg(long)]
    quick: bool,
    /// Print a document for programs instead of tables
    #[arg(long)]
    json: bool,
    /// Also write a page with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Layers read forward, their weights are made up. Times are medians; nothing else should run.
Each technique has what the one before it has: products of single gates one after the other on all
workers; these side by side; gates fused; phases and partition as the tuner chooses; workers that are
bound to cores and called once.
Examples:
  dyno-studies rnn
  dyno-studies rnn --precision bf16 --report study.html
  dyno-studies rnn --quick --json";

impl Study {
    /// Measures, prints the result, and writes the page.
    ///
    /// # Errors
    /// Fails if this processor lacks the instruction set, or if the page cannot be written.
    pub fn execute(self) -> Result<(), Failure> {
        let isa = self.isa.as_deref().map_or(Ok(Isa::best()), Isa::named);
        let isa = isa.map_err(Failure::usage)?;
        let threads = self.threads.map_or(environment::cores(), usize::from);
        // A counter includes only threads that start after it.
        let misses = Misses::open();
        let machine = Machine::detect(isa);
        let load = LoadMeter::start();
        let machine = calibrate(&machine, isa, &mut Team::with_workers(threads.max(machine.cores)));
        let machine = machine.map_err(Failure::set_up)?;
        let remark = match &misses {
            Ok(_) => {
                String::from("L2 misses are data requests that the second cache had to pass on")
            }
            Err(why) => format!("L2 misses were not counted: {why}"),
        };
        let count: Counter<'_> = match misses {
            Ok(mut misses) => Box::new(move || misses.read()),
            Err(_) => Box::new(|| None),
        };
        let time = Duration::from_millis(if self.quick { 2 } else { 120 });
        let bench = Bench::new(machine.clone(), isa, threads, time, count);
        let base = self.precision.base();
        let mut runner = StudyRunner { bench, threads, quick: self.quick, base };
        let parts = runner.parts(&remark).map_err(Failure::set_up)?;
        let about =
            [machine.to_string(), format!("{isa}, {threads} workers, {:?}", base.precision)];
        if let Some(path) = &self.report {
            let page = page::html(&about, &parts);
            replace(path, &page).map_err(|error| Failure::unwritable(path, &error))?;
        }
        let text = if self.json { document(&about, &parts) } else { tables(&about, &parts) };
        load.warning().inspect(|warning| eprintln!("{warning}"));
        print!("{text}");
        Ok(())
    }
}
