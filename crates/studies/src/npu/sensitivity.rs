//! What the figures of chapter IV hang on: the length of sequences, the mapping, the batch and the buffer.

use dyno_experiment::Failure;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::NamedScheduler;
use dyno_npu::setting::Setting;

use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::streams::{CASES, names};
use super::{MAPPING, Studied, mean, setting};

const MAPPINGS: [&str; 8] =
    ["kcpx+1:128", "kcpx+1", "kcpx:128", "kcp+1:128", "kcp+1", "kcp", "sys", "peak"];
const LENGTHS: [u64; 6] = [8, 12, 16, 24, 32, 64];
const BATCHES: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// MB.
const BUFFERS: [u64; 6] = [12, 16, 24, 48, 96, 192];
const SCHEDULERS: [&str; 2] = ["layerweaver", "balanced"];

/// What is asked of a place in a table.
struct Place {
    setting: Setting,
    passes: u64,
    quick: bool,
}

impl Place {
    /// Mean STP over all pairs, under both schedulers.
    fn stp(&self) -> Result<Cell, Failure> {
        let mut means = Vec::new();
        for name in SCHEDULERS {
            let scheduler = NamedScheduler::find(name).map_err(Failure::usage)?;
            let mut all = Vec::new();
            for pair in names(self.quick) {
                let played = self.setting.simulate(&pair, scheduler, self.passes);
                all.push(played.map_err(Failure::usage)?.stp());
            }
            means.push(format!("{:.2}", mean(all)));
        }
        Ok(Cell::text(means.join(" / ")))
    }
}

/// Lengths and mappings, batches, and buffers.
pub fn sensitivity(studied: &mut Studied) -> Result<Part, Failure> {
    let quick = studied.quick;
    let passes = if quick { 3 } else { 60 };
    let most = if quick { 1 } else { usize::MAX };
    let both = SCHEDULERS.join(" / ");
    let mut tables = Vec::new();
    let mut fill = |title: String, columns: Vec<String>, rows: Vec<(String, Vec<Setting>)>| {
        let columns_shown = columns.len();
        let mut table = Table::new(title, columns);
        let places = rows.iter().flat_map(|(_, settings)| settings.iter().take(most));
        let places: Vec<Place> =
            places.map(|setting| Place { setting: setting.clone(), passes, quick }).collect();
        let mut cells = spread("sensitivity", &places, Place::stp)?.into_iter();
        for (name, settings) in &rows {
            let mut row: Vec<Cell> = cells.by_ref().take(settings.len().min(most)).collect();
            row.resize(columns_shown - 1, Cell::Nothing);
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
        let of = |mapping: &&str| {
            let base = setting(case.npu, mapping, case.batch, Granularity::Layer)?;
            let settings = LENGTHS.map(|seq| Setting { seq, ..base.clone() });
            Ok(((*mapping).to_owned(), settings.to_vec()))
        };
        let rows = MAPPINGS.iter().take(most).map(of).collect::<Result<_, Failure>>()?;
        let title = format!("Mean STP by mapping and length, {}: {both}", case.title);
        fill(title, heads("mapping", &LENGTHS, "# tokens"), rows)?;
    }
    let of = |npu: &'static str| {
        let settings = BATCHES.map(|batch| setting(npu, MAPPING, batch, Granularity::Layer));
        Ok((npu.to_owned(), settings.into_iter().collect::<Result<_, Failure>>()?))
    };
    let rows = CASES.iter().map(|case| of(case.npu)).collect::<Result<_, Failure>>()?;
    let title = format!("Mean STP by batch of both networks: {both}");
    fill(title, heads("NPU", &BATCHES, "batch #"), rows)?;
    let of = |case: &super::streams::Case| {
        let base = setting(case.npu, MAPPING, case.batch, Granularity::Layer)?;
        let with = |megabytes: u64| {
            let npu = base.npu.with_parameters(|parts| parts.weight_buffer = megabytes * 1_000_000);
            npu.map(|npu| Setting { npu, ..base.clone() }).map_err(Failure::usage)
        };
        let settings = BUFFERS.into_iter().map(with).collect::<Result<_, Failure>>()?;
        Ok((case.title.to_owned(), settings))
    };
    let rows = CASES.iter().map(of).collect::<Result<_, Failure>>()?;
    let title = format!("Mean STP by weight buffer: {both}");
    fill(title, heads("setting", &BUFFERS, "# MB"), rows)?;
    Ok(Part { tables })
}
