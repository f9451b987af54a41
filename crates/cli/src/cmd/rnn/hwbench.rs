//! `dyno rnn hwbench`: measures the speed of the kernels on this machine, by precision and rows.

use std::fmt::Write as _;

use clap::Args;
use dyno_experiment::{Failure, environment};
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::machine::Machine;
use dyno_rnn::{Isa, Team};
use serde_json::json;

use crate::exit::Exit;
use crate::output;

/// With what.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Hwbench {
    /// Instruction set [default: all of this processor]
    #[arg(long, value_name = "NAME")]
    isa: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The products are those of the engine's tiles: a few rows times weights in the L1 cache, on one core.
Examples:
  dyno rnn hwbench
  dyno rnn hwbench --isa avx2 --json";

impl Hwbench {
    /// Measures and prints.
    ///
    /// # Errors
    /// The processor does not support the instruction set.
    pub fn execute(self) -> Result<Exit, Failure> {
        let all = match &self.isa {
            Some(name) => vec![Isa::named(name).map_err(Failure::usage)?],
            None => Isa::all(),
        };
        let mut team = Team::with_workers(environment::cores());
        let mut found = Vec::new();
        for isa in all {
            let machine = calibrate(&Machine::detect(isa), isa, &mut team);
            found.push((isa, machine.map_err(Failure::set_up)?));
        }
        let text = if self.json { document(&found) } else { table(&found) };
        output::print(text).map(|()| Exit::Valid)
    }
}

fn document(found: &[(Isa, Machine)]) -> String {
    let rows = |(isa, machine): &(Isa, Machine)| {
        let peaks = machine.peaks.iter().map(|peak| {
            let precision = format!("{:?}", peak.precision).to_lowercase();
            json!({"precision": precision, "rows": peak.rows, "gflops": peak.gflops})
        });
        let (read, meet, cells) = (machine.bandwidths, machine.barriers, machine.cells);
        json!({
            "isa": isa.name(),
            "processor": machine.name,
            "cores": machine.cores,
            "peaks": peaks.collect::<Vec<_>>(),
            "together": machine.together,
            "gb_per_s": {
                "l1": read.l1, "l2": read.l2, "l3": read.l3, "l3_all": read.l3_all,
                "memory": read.memory,
            },
            "ns": {
                "meeting": meet.two, "first_line": meet.first_line, "line": meet.line,
                "call": meet.call, "lstm_16": cells.lstm, "gru_16": cells.gru,
                "rnn_16": cells.rnn, "tile_row": cells.tile, "tile": cells.panel,
            },
        })
    };
    let all: Vec<_> = found.iter().map(rows).collect();
    serde_json::to_string_pretty(&all).expect("keys are texts") + "\n"
}

fn table(found: &[(Isa, Machine)]) -> String {
    let mut text = String::new();
    for (isa, machine) in found {
        let _ = writeln!(text, "{isa}: {}", machine.name);
        let mut rows: Vec<usize> = machine.peaks.iter().map(|peak| peak.rows).collect();
        rows.sort_unstable();
        rows.dedup();
        let _ = write!(text, "  {:<10}", "rows");
        for rows in &rows {
            let _ = write!(text, "{rows:>9}");
        }
        let _ = writeln!(text, "   10^9 operations/s, one core");
        let mut precisions: Vec<_> = machine.peaks.iter().map(|peak| peak.precision).collect();
        precisions.dedup();
        for precision in precisions {
            let _ = write!(text, "  {:<10}", format!("{precision:?}").to_lowercase());
            for peak in machine.peaks.iter().filter(|peak| peak.precision == precision) {
                let _ = write!(text, "{:>9.1}", peak.gflops);
            }
            text.push('\n');
        }
        let (read, meet, cells) = (machine.bandwidths, machine.barriers, machine.cells);
        let _ = writeln!(
            text,
            "  weights of one row are read at {:.0} GB/s (L1), {:.0} (L2), {:.0} (L3), {:.0} (memory)",
            read.l1, read.l2, read.l3, read.memory
        );
        let _ = writeln!(
            text,
            "  all cores together read {:.0} GB/s from L3, and each keeps {:.0} % of its \
             arithmetic rate",
            read.l3_all,
            100.0 * machine.together
        );
        let _ = writeln!(
            text,
            "  data of another worker arrives in {:.0} ns, each further line in {:.1}; a tile \
             takes {:.1} ns, each of its rows {:.1}",
            meet.first_line, meet.line, cells.panel, cells.tile
        );
        let _ = writeln!(
            text,
            "  two workers synchronize in {:.0} ns; sixteen units of an LSTM take {:.1} ns, of a \
             GRU {:.1}, of a plain network {:.1}\n",
            meet.two, cells.lstm, cells.gru, cells.rnn
        );
    }
    text.trim_end().to_owned() + "\n"
}
