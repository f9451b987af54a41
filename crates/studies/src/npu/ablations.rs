//! Ablations: Layerweaver without some of its rules, coarser and finer blocks, and thresholds of AI-MT.

use dyno_experiment::Failure;
use dyno_npu::lowering::{Folding, Granularity, LoweringOptions};
use dyno_npu::profile::Picos;
use dyno_npu::schedule::{AiMt, Layerweaver, LayerweaverRules, NamedScheduler, Scheduler};
use dyno_npu::setting::{Setting, StreamRun, pairs as all_pairs};

use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::streams::{CASES, names};
use super::{MAPPING, StudyContext, TILE, geomean, setting};

/// Function that creates a scheduler.
type SchedulerBuilder = dyn Fn() -> Box<dyn Scheduler> + Sync;

/// Returns the geometric mean of STP and the smallest share of a stream, over all pairs of a setting.
fn pairs(setting: &Setting, quick: bool, build: &SchedulerBuilder) -> Result<[f64; 2], Failure> {
    // The named scheduler only sets the machine's limits; Layerweaver does not restrict the depth.
    let named = NamedScheduler::find("layerweaver").map_err(Failure::usage)?;
    let passes = if quick { 3 } else { 100 };
    let names = names(quick);
    let runs = spread("ablations", &names, |pair| {
        let networks = pair.map(|code| (code, Picos::MAX));
        let deployment = setting.deploy(&networks, named).map_err(Failure::usage)?;
        Ok(StreamRun::new(&deployment, build().as_mut(), passes))
    })?;
    let least = runs.iter().map(StreamRun::least_share).fold(f64::INFINITY, f64::min);
    Ok([geomean(runs.iter().map(StreamRun::stp)), least])
}

fn columns(first: &'static str) -> impl Iterator<Item = String> {
    let both = |case: &super::streams::Case| {
        [format!("STP, {}", case.title), format!("least share, {}", case.title)]
    };
    std::iter::once(first.to_owned()).chain(CASES.iter().flat_map(both))
}

/// Returns the cells of both cases.
fn cells(context: &StudyContext, build: &SchedulerBuilder) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for case in &CASES {
        let setting = setting(case.npu, MAPPING, case.batch, Granularity::Layer)?;
        cells.extend(pairs(&setting, context.quick, build)?.map(|value| Cell::Number(value, 3)));
    }
    Ok(cells)
}

/// Builds the tables of rules, blocks and thresholds.
pub fn ablations(context: &mut StudyContext) -> Result<Part, Failure> {
    let part = Part { tables: vec![rules(context)?, blocks(context)?, thresholds(context)?] };
    let part = part.of_cases(names(context.quick).len(), all_pairs().len(), "pairs");
    part.with_readings(&["layerweaver", "ai-mt"])
}

fn rules(context: &StudyContext) -> Result<Table, Failure> {
    let all = LayerweaverRules::default();
    let variants = [
        ("all rules", all),
        ("idle memory does not count", LayerweaverRules { memory_idle: false, ..all }),
        ("no rule against starvation", LayerweaverRules { starvation: false, ..all }),
        ("no potential idle time", LayerweaverRules { potential: false, ..all }),
        (
            "neither of the last two",
            LayerweaverRules { starvation: false, potential: false, ..all },
        ),
        (
            "none of the three",
            LayerweaverRules { memory_idle: false, starvation: false, potential: false, ..all },
        ),
    ];
    let title = "Layerweaver's rules, geometric mean of pairs";
    let mut table = Table::new(title, columns("rules"));
    for (name, rules) in variants {
        table.row(name, cells(context, &move || Box::new(Layerweaver::new(rules)))?);
    }
    Ok(table)
}

fn blocks(context: &StudyContext) -> Result<Table, Failure> {
    let tile = |micros: u64| Granularity::Tile { bytes: u64::MAX, time: micros * 1_000_000 };
    let fused = Granularity::Fused { bytes: 1_000_000 };
    let layer = Granularity::Layer;
    let variants = [
        ("layers fused to 1 MB of weights", fused, Folding::IntoNext),
        ("layers", layer, Folding::IntoNext),
        ("layers, products of activations apart", layer, Folding::Apart),
        ("tiles of 1 ms", tile(1_000), Folding::IntoNext),
        ("tiles of 100 us", TILE, Folding::IntoNext),
        ("tiles of 20 us", tile(20), Folding::IntoNext),
    ];
    let schedulers = ["layerweaver", "balanced"];
    let heads = CASES
        .iter()
        .flat_map(|case| schedulers.map(|scheduler| format!("{scheduler}, {}", case.title)));
    let heads = std::iter::once("blocks".to_owned()).chain(heads);
    let mut table = Table::new("STP by what a block is, geometric mean of pairs", heads);
    let passes = if context.quick { 3 } else { 100 };
    let names = names(context.quick);
    for (name, granularity, folding) in variants {
        let mut cells = Vec::new();
        for case in &CASES {
            let base = setting(case.npu, MAPPING, case.batch, granularity)?;
            let setting = Setting { options: LoweringOptions { folding, ..base.options }, ..base };
            for scheduler in schedulers {
                let scheduler = NamedScheduler::find(scheduler).map_err(Failure::usage)?;
                let stp = spread("ablations", &names, |pair| {
                    let runs = setting.simulate(pair, scheduler, passes);
                    Ok(runs.map_err(Failure::usage)?.stp())
                })?;
                cells.push(Cell::Number(geomean(stp), 3));
            }
        }
        table.row(name, cells);
    }
    Ok(table)
}

/// Builds the table of AI-MT's thresholds: the default, and the best and the worst of a sweep by the geometric mean of
/// both cases.
fn thresholds(context: &StudyContext) -> Result<Table, Failure> {
    let (rooms, works): (&[f64], &[f64]) = if context.quick {
        (&[0.1], &[0.2])
    } else {
        (&[0.02, 0.05, 0.1, 0.2, 0.4], &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8])
    };
    let title = "Our reading of AI-MT by its thresholds, geometric mean of pairs";
    let mut table = Table::new(title, columns("room, work"));
    let mut swept = Vec::new();
    for &room in rooms {
        for &work in works {
            let cells = cells(context, &move || Box::new(AiMt::new(room, work)))?;
            let stp = |at: usize| match cells[at] {
                Cell::Number(value, _) => value,
                _ => 0.0,
            };
            swept.push((stp(0) * stp(2), format!("{room}, {work}"), cells));
        }
    }
    swept.sort_by(|a, b| b.0.total_cmp(&a.0));
    table.row("by default", cells(context, &|| Box::new(AiMt::default()))?);
    for (which, found) in [("best", swept.first()), ("worst", swept.last())] {
        if let Some((_, name, cells)) = found {
            table.row(format!("{which}: {name}"), cells.iter().cloned());
        }
    }
    Ok(table)
}
