//! Figure IV.16: four networks at once.

use dyno_experiment::Failure;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::NamedScheduler;
use dyno_npu::setting::StreamRun;

use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::streams::PASSES;
use super::{MAPPING, Studied, TILE, geomean, paper, setting};

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
/// Layerweaver, ours with whole layers, and ours with tiles.
const OURS: [usize; 3] = [4, 5, 6];
/// The thesis has single-batch streams on the compute-centric NPU, where all networks wait for the memory at batch 1.
const NOTHING_TO_SHARE: &str = "compute-centric";
const CASES: [(&str, u64); 3] =
    [("compute-centric", 16), ("compute-centric", 1), ("memory-centric", 1)];

/// Two of three that wait for the PEs with two of three that wait for the memory; like the thesis without RX and BL.
fn fours() -> Vec<[&'static str; 4]> {
    let two = |of: [&'static str; 3]| [[of[0], of[1]], [of[0], of[2]], [of[1], of[2]]];
    let memory = two(["BB", "NCFW", "XL"]);
    let compute = two(["IC", "MN", "RN"]).into_iter();
    compute.flat_map(|[a, b]| memory.map(|[c, d]| [a, b, c, d])).collect()
}

/// STP of each combination, the least share that a stream has, and what it comes to.
pub fn four(studied: &mut Studied) -> Result<Part, Failure> {
    let all = fours();
    let fours = if studied.quick { &all[..1] } else { &all[..] };
    let title = |(name, granularity): &(&str, Granularity)| match granularity {
        Granularity::Layer => (*name).to_owned(),
        _ => format!("{name}, 100 us"),
    };
    let columns = ["", "thesis", "Layerweaver here", "balanced", "balanced, 100 us"];
    let mut means = Table::new("Four networks beside the thesis", columns);
    let mut tables = Vec::new();
    for (case, (npu, batch)) in CASES.into_iter().enumerate() {
        let name = format!("{npu}, batch {batch}");
        let played = spread(&name, fours, |codes| {
            let one = |(scheduler, granularity): &(&str, Granularity)| {
                let scheduler = NamedScheduler::find(scheduler).map_err(Failure::usage)?;
                let setting = setting(npu, MAPPING, batch, *granularity)?;
                setting.simulate(codes, scheduler, PASSES).map_err(Failure::usage)
            };
            SCHEDULERS.iter().map(one).collect::<Result<Vec<StreamRun>, _>>()
        })?;
        let of = |at: usize| played.iter().map(move |ways| &ways[at]);
        let over = |at: usize, other: usize| {
            let both = of(at).zip(of(other));
            100.0 * (geomean(both.map(|(of, other)| of.stp() / other.stp())) - 1.0)
        };
        for (what, other) in [("over AI-MT, %", AI_MT), ("over stitched pairs, %", STITCHED)] {
            // The thesis has one NPU, the first two of ours.
            let stated = if case == 0 { paper::value("IV.16", 1, what) } else { None };
            let ours = OURS.map(|at| Cell::Number(over(at, other), 1));
            let cells = std::iter::once(Cell::from(stated)).chain(ours);
            means.row(format!("{name}: {what}"), cells);
        }
        let least = |at| of(at).map(StreamRun::least_share).fold(f64::INFINITY, f64::min);
        let ours = OURS.map(|at| Cell::Number(least(at), 3));
        means.row(format!("{name}: least share"), std::iter::once(Cell::Nothing).chain(ours));
        if batch == 1 && npu == NOTHING_TO_SHARE {
            continue;
        }
        for (what, figure) in [
            ("STP", StreamRun::stp as fn(&StreamRun) -> f64),
            ("Least share of a stream", StreamRun::least_share),
        ] {
            let heads = std::iter::once("networks".to_owned()).chain(SCHEDULERS.iter().map(title));
            let mut table = Table::new(format!("{what}, {name}"), heads);
            for (codes, ways) in fours.iter().zip(&played) {
                let cells = ways.iter().map(|of| Cell::Number(figure(of), 3));
                table.row(codes.join(" + "), cells);
            }
            tables.push(table);
        }
    }
    tables.insert(0, means);
    Ok(Part { tables })
}
