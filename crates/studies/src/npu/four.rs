//! Figure IV.16: four networks at once.

use dyno_experiment::Failure;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::NamedScheduler;
use dyno_npu::setting::StreamRun;

use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::streams::PASSES;
use super::{MAPPING, StudyContext, TILE, geomean, paper, setting};

const SCHEDULERS: [(&str, Granularity); 7] = [
    ("fair", Granularity::Layer),
    ("stitched", Granularity::Layer),
    ("ai-mt", Granularity::Layer),
    ("round-robin", Granularity::Layer),
    ("layerweaver", Granularity::Layer),
    ("balanced", Granularity::Layer),
    ("balanced", TILE),
];
const STITCHED: usize = 1;
const AI_MT: usize = 2;
/// Indices of Layerweaver, of the balanced scheduler with whole layers, and with tiles.
const OURS: [usize; 3] = [4, 5, 6];
/// The thesis runs single-batch streams on this NPU, where all networks are memory-bound at batch 1.
const NOTHING_TO_SHARE: &str = "compute-centric";
const CASES: [(&str, u64); 3] =
    [("compute-centric", 16), ("compute-centric", 1), ("memory-centric", 1)];

/// Returns combinations of two of three compute-bound networks with two of three memory-bound networks. Like the
/// thesis, it omits RX and BL.
pub fn fours() -> Vec<[&'static str; 4]> {
    let two = |[a, b, c]: [&'static str; 3]| [[a, b], [a, c], [b, c]];
    let memory = two(["BB", "NCFW", "XL"]);
    let compute = two(["IC", "MN", "RN"]).into_iter();
    compute.flat_map(|[a, b]| memory.map(|[c, d]| [a, b, c, d])).collect()
}

/// Builds the tables of STP and of the smallest share of each combination, and their summary.
pub fn four(context: &mut StudyContext) -> Result<Part, Failure> {
    let all = fours();
    let fours = if context.quick { &all[..1] } else { &all[..] };
    let title = |(name, granularity): &(&str, Granularity)| match granularity {
        Granularity::Layer => (*name).to_owned(),
        _ => format!("{name}, 100 us"),
    };
    let columns = ["", "thesis", "Layerweaver here", "balanced", "balanced, 100 us"];
    let mut means = Table::new("Four networks beside the thesis", columns);
    let mut tables = Vec::new();
    for (case, (npu, batch)) in CASES.into_iter().enumerate() {
        let name = format!("{npu}, batch {batch}");
        let all_runs = spread(&name, fours, |codes| {
            let one = |(scheduler, granularity): &(&str, Granularity)| {
                let scheduler = NamedScheduler::find(scheduler).map_err(Failure::usage)?;
                let setting = setting(npu, MAPPING, batch, *granularity)?;
                setting.simulate(codes, scheduler, PASSES).map_err(Failure::usage)
            };
            SCHEDULERS.iter().map(one).collect::<Result<Vec<StreamRun>, _>>()
        })?;
        let runs = |at: usize| all_runs.iter().map(move |runs| &runs[at]);
        let over = |at: usize, other: usize| {
            let both = runs(at).zip(runs(other));
            100.0 * (geomean(both.map(|(run, other)| run.stp() / other.stp())) - 1.0)
        };
        for (what, other) in [("over AI-MT, %", AI_MT), ("over stitched pairs, %", STITCHED)] {
            // The thesis has results for one NPU; the first two cases use it.
            let stated = if case == 0 { paper::value("IV.16", 1, what) } else { None };
            let ours = OURS.map(|at| Cell::Number(over(at, other), 1));
            let cells = std::iter::once(Cell::from(stated)).chain(ours);
            means.row(format!("{name}: {what}"), cells);
        }
        let least = |at| runs(at).map(StreamRun::least_share).fold(f64::INFINITY, f64::min);
        let ours = OURS.map(|at| Cell::Number(least(at), 3));
        means.row(format!("{name}: least share"), std::iter::once(Cell::Empty).chain(ours));
        if batch == 1 && npu == NOTHING_TO_SHARE {
            continue;
        }
        for (what, figure) in [
            ("STP", StreamRun::stp as fn(&StreamRun) -> f64),
            ("Least share of a stream", StreamRun::least_share),
        ] {
            let heads = std::iter::once("networks".to_owned()).chain(SCHEDULERS.iter().map(title));
            let mut table = Table::new(format!("{what}, {name}"), heads);
            for (codes, runs) in fours.iter().zip(&all_runs) {
                let cells = runs.iter().map(|run| Cell::Number(figure(run), 3));
                table.row(codes.join(" + "), cells);
            }
            tables.push(table);
        }
    }
    tables.insert(0, means);
    let part = Part { tables }.of_cases(fours.len(), all.len(), "combinations");
    part.with_readings(&["layerweaver", "stitched", "ai-mt"])
}
