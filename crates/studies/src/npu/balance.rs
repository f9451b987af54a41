//! Figures II.7 and II.8: operations per byte of networks, and their bottlenecks on NPUs.

use dyno_experiment::Failure;
use dyno_npu::balance::{intensity, sweep, turning_batch};
use dyno_npu::hardware::{Npu, PRESETS};
use dyno_npu::lowering::Granularity;

use super::part::{Cell, Part, Table};
use super::streams::CASES;
use super::{MAPPING, SEQ, StudyContext, setting};

const NETWORKS: [&str; 8] = ["IC", "MN", "RN", "RX", "BB", "BL", "XL", "NCF"];
const BATCHES: [u64; 5] = [1, 4, 16, 64, 256];
/// Tokens per sample, for networks with sequences.
const LENGTHS: [u64; 3] = [16, 64, 384];

/// Builds the tables of the NPUs' balance points and of the batches at which networks exceed them.
pub fn points(_: &mut StudyContext) -> Result<Part, Failure> {
    let mut npus =
        Table::new("NPUs", ["NPU", "TOP/s", "GB/s", "operations a byte", "weight buffer, MB"]);
    for preset in PRESETS {
        let npu = Npu::preset(preset.name).map_err(Failure::usage)?;
        let parts = npu.parameters();
        npus.row(
            preset.name,
            [
                Cell::Number(npu.peak() / 1e12, 1),
                Cell::Number(parts.bytes_per_second as f64 / 1e9, 0),
                Cell::Number(npu.balance(), 0),
                Cell::Number(parts.weight_buffer as f64 / 1e6, 1),
            ],
        );
    }
    let columns = ["network", "operations a byte"].into_iter();
    let title = format!(
        "The batch from which on a network waits for the PEs at their peak, {SEQ} tokens; - is never"
    );
    let mut turning = Table::new(title, columns.chain(PRESETS.iter().map(|preset| preset.name)));
    let setting = setting(CASES[0].npu, MAPPING, 1, Granularity::Layer)?;
    for code in NETWORKS {
        let network = setting.network(code).map_err(Failure::usage)?;
        let mut cells = vec![Cell::Number(intensity(&network, 1), 1)];
        for preset in PRESETS {
            let npu = Npu::preset(preset.name).map_err(Failure::usage)?;
            let batch = turning_batch(&network, &npu);
            cells.push(batch.map_or(Cell::Empty, |batch| Cell::Number(batch as f64, 0)));
        }
        turning.row(code, cells);
    }
    Ok(Part { tables: vec![npus, turning] })
}

/// Builds the tables of compute time over fetch time under the documented mapping.
pub fn bars(_: &mut StudyContext) -> Result<Part, Failure> {
    let mut tables = Vec::new();
    for case in &CASES {
        let setting = setting(case.npu, MAPPING, 1, Granularity::Layer)?;
        let batches = BATCHES.map(|batch| format!("batch {batch}"));
        let columns = ["network".to_owned(), "tokens".to_owned()].into_iter().chain(batches);
        let title = format!("Computation over fetches of a pass, {}, {MAPPING}", case.npu);
        let mut table = Table::new(title, columns);
        for code in NETWORKS {
            let network = setting.network(code).map_err(Failure::usage)?;
            let options = &setting.options;
            let bars = sweep(&network, &setting.npu, setting.mapping, options, &BATCHES, &LENGTHS)
                .map_err(Failure::usage)?;
            for bars in bars.chunks(BATCHES.len()) {
                let tokens = bars[0].seq_len.map(|tokens| Cell::Number(tokens as f64, 0));
                let ratio = |bar: &dyno_npu::balance::SweepPoint| {
                    let ratio = bar.pass.compute as f64 / bar.pass.fetch as f64;
                    Cell::Number(ratio, if ratio < 10.0 { 2 } else { 0 })
                };
                let tokens = std::iter::once(tokens.unwrap_or(Cell::Empty));
                table.row(code, tokens.chain(bars.iter().map(ratio)));
            }
        }
        tables.push(table);
    }
    Ok(Part { tables })
}
