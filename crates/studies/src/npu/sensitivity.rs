//! Sensitivity of the figures of chapter IV to the sequence length, the mapping, the batch and the buffer size.

use dyno_experiment::Failure;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::NamedScheduler;
use dyno_npu::setting::{Setting, pairs};

use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::streams::{CASES, names};
use super::{MAPPING, StudyContext, mean, setting};

const MAPPINGS: [&str; 8] =
    ["kcpx+1:128", "kcpx+1", "kcpx:128", "kcp+1:128", "kcp+1", "kcp", "sys", "peak"];
const LENGTHS: [u64; 6] = [8, 12, 16, 24, 32, 64];
const BATCHES: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Weight buffers, MB.
const BUFFERS: [u64; 6] = [12, 16, 24, 48, 96, 192];
const SCHEDULERS: [&str; 2] = ["layerweaver", "balanced"];

/// Setting of one table cell.
struct CellSetting {
    setting: Setting,
    passes: u64,
    quick: bool,
}

impl CellSetting {
    /// Returns the mean STP over all pairs, under both schedulers.
    fn stp(&self) -> Result<Cell, Failure> {
        let mut means = Vec::new();
        for name in SCHEDULERS {
            let scheduler = NamedScheduler::find(name).map_err(Failure::usage)?;
            let mut all = Vec::new();
            for pair in names(self.quick) {
                let run = self.setting.simulate(&pair, scheduler, self.passes);
                all.push(run.map_err(Failure::usage)?.stp());
            }
            means.push(format!("{:.2}", mean(all)));
        }
        Ok(Cell::text(means.join(" / ")))
    }
}

/// Builds the tables of lengths and mappings, of batches, and of buffers.
pub fn sensitivity(context: &mut StudyContext) -> Result<Part, Failure> {
    let quick = context.quick;
    let passes = if quick { 3 } else { 60 };
    let most = if quick { 1 } else { usize::MAX };
    let both = SCHEDULERS.join(" / ");
    let mut tables = Vec::new();
    let mut fill = |title: String, columns: Vec<String>, rows: Vec<(String, Vec<Setting>)>| {
        let columns_shown = columns.len();
        let mut table = Table::new(title, columns);
        let settings = rows.iter().flat_map(|(_, settings)| settings.iter().take(most));
        let cell_settings: Vec<CellSetting> = settings
            .map(|setting| CellSetting { setting: setting.clone(), passes, quick })
            .collect();
        let mut cells = spread("sensitivity", &cell_settings, CellSetting::stp)?.into_iter();
        for (name, settings) in &rows {
            let mut row: Vec<Cell> = cells.by_ref().take(settings.len().min(most)).collect();
            row.resize(columns_shown - 1, Cell::Empty);
            table.row(name.clone(), row);
        }
        tables.push(table);
        Ok::<_, Failure>(())
    };
    let heads = |first: &str, values: &[u64], unit: &str| -> Vec<String> {
        let values = values.iter().map(|value| unit.replace('#', &value.to_string()));
        std::iter::once(first.to_owned()).chain(values).collect()
    };
    for case in &CASES {
        let row = |mapping: &&str| {
            let base = setting(case.npu, mapping, case.batch, Granularity::Layer)?;
            let settings = LENGTHS.map(|seq| Setting { seq, ..base.clone() });
            Ok(((*mapping).to_owned(), settings.to_vec()))
        };
        let rows = MAPPINGS.iter().take(most).map(row).collect::<Result<_, Failure>>()?;
        let title = format!("Mean STP by mapping and length, {}: {both}", case.title);
        fill(title, heads("mapping", &LENGTHS, "# tokens"), rows)?;
    }
    let row = |npu: &'static str| {
        let settings = BATCHES.map(|batch| setting(npu, MAPPING, batch, Granularity::Layer));
        Ok((npu.to_owned(), settings.into_iter().collect::<Result<_, Failure>>()?))
    };
    let rows = CASES.iter().map(|case| row(case.npu)).collect::<Result<_, Failure>>()?;
    let title = format!("Mean STP by batch of both networks: {both}");
    fill(title, heads("NPU", &BATCHES, "batch #"), rows)?;
    let row = |case: &super::streams::Case| {
        let base = setting(case.npu, MAPPING, case.batch, Granularity::Layer)?;
        let with_buffer = |megabytes: u64| {
            let npu = base.npu.with_parameters(|parts| parts.weight_buffer = megabytes * 1_000_000);
            npu.map(|npu| Setting { npu, ..base.clone() }).map_err(Failure::usage)
        };
        let settings = BUFFERS.into_iter().map(with_buffer).collect::<Result<_, Failure>>()?;
        Ok((case.title.to_owned(), settings))
    };
    let rows = CASES.iter().map(row).collect::<Result<_, Failure>>()?;
    let title = format!("Mean STP by weight buffer: {both}");
    fill(title, heads("setting", &BUFFERS, "# MB"), rows)?;
    let part = Part { tables }.of_cases(names(quick).len(), pairs().len(), "pairs");
    part.with_readings(&["layerweaver"])
}
