//! Figures IV.10 to IV.12 and section IV.5.C: the 16 pairs of networks as streams that never run dry.

use dyno_experiment::Failure;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::NamedScheduler;
use dyno_npu::setting::{StreamRun, pairs};

use super::paper;
use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::{MAPPING, SEQ, Studied, TILE, geomean, mean, setting};

/// One of the two settings with streams.
pub struct Case {
    /// As titles have it.
    pub title: &'static str,
    /// The NPU.
    pub npu: &'static str,
    /// Samples of a pass.
    pub batch: u64,
}

/// Passes of the slowest stream.
pub const PASSES: u64 = 300;

/// Single-batch and multi-batch streams.
pub const CASES: [Case; 2] = [
    Case { title: "memory-centric, batch 1", npu: "memory-centric", batch: 1 },
    Case { title: "compute-centric, batch 16", npu: "compute-centric", batch: 16 },
];

/// A scheduler, and what it schedules.
struct Way {
    title: &'static str,
    scheduler: &'static str,
    granularity: Granularity,
}

const fn way(scheduler: &'static str) -> Way {
    Way { title: scheduler, scheduler, granularity: Granularity::Layer }
}

/// Those that make sense of streams: without deadlines Layerweaver+ is Layerweaver, of two streams one pair is
/// stitched, and who serves first what came first serves one stream for ever.
const WAYS: [Way; 7] = [
    way("fair"),
    way("round-robin"),
    way("ai-mt"),
    way("layerweaver"),
    way("balanced"),
    Way { title: "layerweaver, 100 us", scheduler: "layerweaver", granularity: TILE },
    Way { title: "balanced, 100 us", scheduler: "balanced", granularity: TILE },
];
const FAIR: usize = 0;
const AI_MT: usize = 2;
const LAYERWEAVER: usize = 3;
const BALANCED: usize = 4;
const LAYERWEAVER_TILED: usize = 5;
const TILED: usize = 6;
/// Those that pairs are shown under.
const SHOWN: [usize; 6] = [FAIR, AI_MT, LAYERWEAVER, BALANCED, LAYERWEAVER_TILED, TILED];

/// All pairs in both settings under all of these schedulers.
pub struct Pairs {
    names: Vec<[&'static str; 2]>,
    /// By setting, pair and scheduler.
    played: [Vec<Vec<StreamRun>>; 2],
}

impl Pairs {
    fn play(quick: bool) -> Result<Self, Failure> {
        let names = names(quick);
        let of = |case: &Case| {
            spread(case.title, &names, |pair| {
                let one = |way: &Way| {
                    let scheduler = NamedScheduler::find(way.scheduler).map_err(Failure::usage)?;
                    let setting = setting(case.npu, MAPPING, case.batch, way.granularity)?;
                    setting.simulate(pair, scheduler, PASSES).map_err(Failure::usage)
                };
                WAYS.iter().map(one).collect()
            })
        };
        let played = [of(&CASES[0])?, of(&CASES[1])?];
        Ok(Self { names, played })
    }

    /// Of all pairs of a setting under one scheduler.
    fn of(&self, case: usize, way: usize) -> impl Iterator<Item = &StreamRun> + Clone {
        self.played[case].iter().map(move |ways| &ways[way])
    }

    /// A table of a figure of each pair, and a last row of what it comes to.
    fn table(
        &self,
        case: usize,
        what: &str,
        digits: usize,
        figure: fn(&StreamRun) -> f64,
        last: (&str, fn(Vec<f64>) -> f64),
    ) -> Table {
        let ways = SHOWN.map(|way| WAYS[way].title);
        let title = format!("{what}, {}", CASES[case].title);
        let mut table = Table::new(title, ["pair"].into_iter().chain(ways));
        for (names, played) in self.names.iter().zip(&self.played[case]) {
            let cells = SHOWN.map(|way| Cell::Number(figure(&played[way]), digits));
            table.row(names.join(" + "), cells);
        }
        let all = |way: usize| last.1(self.of(case, way).map(figure).collect());
        table.row(last.0, SHOWN.map(|way| Cell::Number(all(way), digits)));
        table
    }
}

/// Of `--quick` two, in one of which the layers are few and short.
pub fn names(quick: bool) -> Vec<[&'static str; 2]> {
    pairs().into_iter().step_by(if quick { 10 } else { 1 }).collect()
}

fn played(studied: &mut Studied) -> Result<&Pairs, Failure> {
    if studied.pairs.is_none() {
        studied.pairs = Some(Pairs::play(studied.quick)?);
    }
    studied.pairs.as_ref().ok_or_else(|| Failure::set_up("no pair was played"))
}

/// The columns of tables that have the thesis beside ours.
fn beside(title: &str, what: &'static str) -> Table {
    let columns = [what, "thesis", "Layerweaver here", "balanced", "balanced, 100 us"];
    Table::new(format!("{title}, {MAPPING}, {SEQ} tokens"), columns)
}

const OURS: [usize; 3] = [LAYERWEAVER, BALANCED, TILED];

/// Figure IV.10.
pub fn throughput(studied: &mut Studied) -> Result<Part, Failure> {
    let pairs = played(studied)?;
    let mut means = beside("STP beside the thesis", "");
    let mut tables = Vec::new();
    for (case, Case { title, .. }) in CASES.iter().enumerate() {
        let gains = |way: usize| pairs.of(case, way).map(|of| 100.0 * (of.stp() - 1.0));
        let over = |way: usize, other: usize| {
            let both = pairs.of(case, way).zip(pairs.of(case, other));
            100.0 * (geomean(both.map(|(of, other)| of.stp() / other.stp())) - 1.0)
        };
        let mut row = |what: &str, figure: &dyn Fn(usize) -> f64| {
            let ours = OURS.map(|way| Cell::Number(figure(way), 1));
            let thesis = Cell::from(paper::value("IV.10", case, what));
            means.row(format!("{title}: {what}"), std::iter::once(thesis).chain(ours));
        };
        row("mean gain, %", &|way| mean(gains(way)));
        row("largest gain, %", &|way| gains(way).fold(f64::MIN, f64::max));
        row("over AI-MT, %", &|way| over(way, AI_MT));
        row("over Layerweaver, %", &|way| over(way, LAYERWEAVER));
        tables.push(pairs.table(case, "STP", 3, StreamRun::stp, ("mean", mean)));
    }
    tables.insert(0, means);
    Ok(Part { tables })
}

/// Figure IV.11.
pub fn busy(studied: &mut Studied) -> Result<Part, Failure> {
    let pairs = played(studied)?;
    let mut means = beside("Busy time, %", "mean of pairs");
    let columns = ["pair", "PEs", "memory", "PEs, balanced", "memory, balanced"];
    let mut tables = Vec::new();
    for (case, Case { title, .. }) in CASES.iter().enumerate() {
        for (resource, what) in ["PEs, %", "memory, %"].into_iter().enumerate() {
            let busy = |way| mean(pairs.of(case, way).map(|of| of.busy()[resource]));
            let thesis = Cell::from(paper::value("IV.11", case, what));
            let ours = OURS.map(|way| Cell::percent(busy(way), 1));
            means.row(format!("{title}: {what}"), std::iter::once(thesis).chain(ours));
        }
        let title = format!("Busy time under Layerweaver and ours with whole layers, %, {title}");
        let mut table = Table::new(title, columns);
        for (names, ways) in pairs.names.iter().zip(&pairs.played[case]) {
            let both = [LAYERWEAVER, BALANCED].map(|way| ways[way].busy());
            let cells = both.into_iter().flatten().map(|busy| Cell::percent(busy, 1));
            table.row(names.join(" + "), cells);
        }
        tables.push(table);
    }
    tables.insert(0, means);
    Ok(Part { tables })
}

/// A table of figures that the thesis states of Layerweaver and of AI-MT, and one of each pair.
fn both(
    studied: &mut Studied,
    [figure, what]: [&str; 2],
    of: fn(&StreamRun) -> f64,
    last: (&'static str, fn(Vec<f64>) -> f64),
) -> Result<Part, Failure> {
    let pairs = played(studied)?;
    let columns = [
        "setting",
        "Layerweaver, thesis",
        "Layerweaver here",
        "without NCFW",
        "AI-MT, thesis",
        "AI-MT here",
        "balanced",
        "balanced, 100 us",
    ];
    let mut means = Table::new(format!("{what}, {}", last.0), columns);
    let mut tables = Vec::new();
    for (case, Case { title, .. }) in CASES.iter().enumerate() {
        let all = |way: usize| Cell::Number(last.1(pairs.of(case, way).map(of).collect()), 2);
        let thesis = |who| Cell::from(paper::value(figure, case, who));
        let wide = pairs.names.iter().map(|pair| pair[1] == "NCFW");
        let others = pairs.of(case, LAYERWEAVER).zip(wide).filter(|(_, is_wide)| !is_wide);
        let without = last.1(others.map(|(played, _)| of(played)).collect());
        let cells = [
            thesis("Layerweaver"),
            all(LAYERWEAVER),
            Cell::Number(without, 2),
            thesis("AI-MT"),
            all(AI_MT),
            all(BALANCED),
            all(TILED),
        ];
        means.row(*title, cells);
        tables.push(pairs.table(case, what, 2, of, last));
    }
    tables.insert(0, means);
    Ok(Part { tables })
}

/// Figure IV.12.
pub fn turnaround(studied: &mut Studied) -> Result<Part, Failure> {
    both(studied, ["IV.12", "ANTT"], StreamRun::antt, ("mean", mean))
}

/// Section IV.5.C.
pub fn slowdown(studied: &mut Studied) -> Result<Part, Failure> {
    let last = ("geometric mean", geomean as fn(Vec<f64>) -> f64);
    both(studied, ["IV.5.C", "Maximum slowdown"], StreamRun::slowdown, last)
}

/// How far runs are from what nobody can pass.
pub fn bounds(studied: &mut Studied) -> Result<Part, Failure> {
    let pairs = played(studied)?;
    let mut tables = Vec::new();
    for (case, Case { title, .. }) in CASES.iter().enumerate() {
        let columns = [
            "scheduler",
            "busier resource idle, mean, %",
            "most, %",
            "most with",
            "STP, of the linear program's, %",
            "of that with whole layers, %",
        ];
        let mut table = Table::new(format!("Distance to bounds, {title}"), columns);
        for at in [AI_MT, LAYERWEAVER, BALANCED, LAYERWEAVER_TILED, TILED] {
            let gaps: Vec<f64> = pairs.of(case, at).map(StreamRun::gap).collect();
            let widest = gaps.iter().copied().fold(0.0, f64::max);
            let name =
                gaps.iter().position(|gap| *gap == widest && *gap > 5e-5).map(|at| pairs.names[at]);
            let share = |waits| mean(pairs.of(case, at).map(|of| of.stp() / of.bound(waits)));
            table.row(
                WAYS[at].title,
                [
                    Cell::percent(mean(gaps), 2),
                    Cell::percent(widest, 2),
                    name.map_or(Cell::Nothing, |name| Cell::text(name.join(" + "))),
                    Cell::percent(share(false), 1),
                    Cell::percent(share(true), 1),
                ],
            );
        }
        tables.push(table);
    }
    Ok(Part { tables })
}

/// All that schedule streams, side by side.
pub fn ours(studied: &mut Studied) -> Result<Part, Failure> {
    let pairs = played(studied)?;
    let mut tables = Vec::new();
    for (case, Case { title, .. }) in CASES.iter().enumerate() {
        let columns = [
            "scheduler",
            "STP",
            "of its bound, %",
            "ANTT",
            "maximum slowdown",
            "least share",
            "PEs, %",
            "memory, %",
        ];
        let mut table = Table::new(format!("Schedulers, {title}"), columns);
        for (at, way) in WAYS.iter().enumerate() {
            let of = |figure: fn(&StreamRun) -> f64| mean(pairs.of(case, at).map(figure));
            let least =
                pairs.of(case, at).map(StreamRun::least_share).fold(f64::INFINITY, f64::min);
            table.row(
                way.title,
                [
                    Cell::Number(of(StreamRun::stp), 3),
                    Cell::percent(of(|of| of.stp() / of.bound(false)), 1),
                    Cell::Number(of(StreamRun::antt), 2),
                    Cell::Number(geomean(pairs.of(case, at).map(StreamRun::slowdown)), 2),
                    Cell::Number(least, 3),
                    Cell::percent(of(|of| of.busy()[0]), 1),
                    Cell::percent(of(|of| of.busy()[1]), 1),
                ],
            );
        }
        tables.push(table);
    }
    Ok(Part { tables })
}
