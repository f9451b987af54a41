//! Figures IV.10 to IV.12 and section IV.5.C: the 16 pairs of networks as streams that always have work.

use dyno_experiment::Failure;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::NamedScheduler;
use dyno_npu::setting::{StreamRun, pairs};

use super::paper;
use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::{MAPPING, SEQ, StudyContext, TILE, geomean, mean, setting};

/// NPU and batch of one series of the thesis.
pub struct Case {
    /// Title in tables.
    pub title: &'static str,
    /// Name of the NPU preset.
    pub npu: &'static str,
    /// Samples per pass.
    pub batch: u64,
}

/// Passes of the slowest stream per run.
pub const PASSES: u64 = 300;

/// Cases with single-batch and with multi-batch streams.
pub const CASES: [Case; 2] = [
    Case { title: "memory-centric, batch 1", npu: "memory-centric", batch: 1 },
    Case { title: "compute-centric, batch 16", npu: "compute-centric", batch: 16 },
];

/// A scheduler with the granularity of its blocks.
struct Variant {
    title: &'static str,
    scheduler: &'static str,
    granularity: Granularity,
}

const fn variant(scheduler: &'static str) -> Variant {
    Variant { title: scheduler, scheduler, granularity: Granularity::Layer }
}

/// Variants that are meaningful for pairs of streams. Without deadlines, Layerweaver+ equals Layerweaver; with two
/// streams, stitching has a single pair; and first come, first served would serve one stream forever.
const VARIANTS: [Variant; 7] = [
    variant("fair"),
    variant("round-robin"),
    variant("ai-mt"),
    variant("layerweaver"),
    variant("balanced"),
    Variant { title: "layerweaver, 100 us", scheduler: "layerweaver", granularity: TILE },
    Variant { title: "balanced, 100 us", scheduler: "balanced", granularity: TILE },
];
const FAIR: usize = 0;
const AI_MT: usize = 2;
const LAYERWEAVER: usize = 3;
const BALANCED: usize = 4;
const LAYERWEAVER_TILED: usize = 5;
const TILED: usize = 6;
/// Variants in tables of pairs.
const SHOWN: [usize; 6] = [FAIR, AI_MT, LAYERWEAVER, BALANCED, LAYERWEAVER_TILED, TILED];

/// Runs of all pairs in both cases under all variants.
pub struct PairRuns {
    names: Vec<[&'static str; 2]>,
    /// By case, pair and variant.
    runs: [Vec<Vec<StreamRun>>; 2],
}

impl PairRuns {
    fn simulate(quick: bool) -> Result<Self, Failure> {
        let names = names(quick);
        let runs = |case: &Case| {
            spread(case.title, &names, |pair| {
                let one = |variant: &Variant| {
                    let scheduler =
                        NamedScheduler::find(variant.scheduler).map_err(Failure::usage)?;
                    let setting = setting(case.npu, MAPPING, case.batch, variant.granularity)?;
                    setting.simulate(pair, scheduler, PASSES).map_err(Failure::usage)
                };
                VARIANTS.iter().map(one).collect()
            })
        };
        let runs = [runs(&CASES[0])?, runs(&CASES[1])?];
        Ok(Self { names, runs })
    }

    /// Returns a part with these tables, and names the readings behind them.
    fn part(&self, tables: Vec<Table>) -> Result<Part, Failure> {
        let part = Part { tables }.of_cases(self.names.len(), pairs().len(), "pairs");
        part.with_readings(&["layerweaver", "ai-mt"])
    }

    /// Returns the runs of all pairs of a case under one variant.
    fn runs(&self, case: usize, variant: usize) -> impl Iterator<Item = &StreamRun> + Clone {
        self.runs[case].iter().map(move |runs| &runs[variant])
    }

    /// Builds a table with a figure of each pair, and a last row with the summary `last`.
    fn table(
        &self,
        case: usize,
        what: &str,
        digits: usize,
        figure: fn(&StreamRun) -> f64,
        last: (&str, fn(Vec<f64>) -> f64),
    ) -> Table {
        let titles = SHOWN.map(|variant| VARIANTS[variant].title);
        let title = format!("{what}, {}", CASES[case].title);
        let mut table = Table::new(title, ["pair"].into_iter().chain(titles));
        for (names, runs) in self.names.iter().zip(&self.runs[case]) {
            let cells = SHOWN.map(|variant| Cell::Number(figure(&runs[variant]), digits));
            table.row(names.join(" + "), cells);
        }
        let all = |variant: usize| last.1(self.runs(case, variant).map(figure).collect());
        table.row(last.0, SHOWN.map(|variant| Cell::Number(all(variant), digits)));
        table
    }
}

/// Returns the pairs, or two of them if `quick`; the layers of one of these are few and short.
pub fn names(quick: bool) -> Vec<[&'static str; 2]> {
    pairs().into_iter().step_by(if quick { 10 } else { 1 }).collect()
}

fn pair_runs(context: &mut StudyContext) -> Result<&PairRuns, Failure> {
    if context.pairs.is_none() {
        context.pairs = Some(PairRuns::simulate(context.quick)?);
    }
    context.pairs.as_ref().ok_or_else(|| Failure::set_up("no pair was played"))
}

/// Returns a table whose columns compare the thesis with Dyno.
fn beside(title: &str, what: &'static str) -> Table {
    let columns = [what, "thesis", "Layerweaver here", "balanced", "balanced, 100 us"];
    Table::new(format!("{title}, {MAPPING}, {SEQ} tokens"), columns)
}

const OURS: [usize; 3] = [LAYERWEAVER, BALANCED, TILED];

/// Builds the tables of Figure IV.10.
pub fn throughput(context: &mut StudyContext) -> Result<Part, Failure> {
    let pairs = pair_runs(context)?;
    let mut means = beside("STP beside the thesis", "");
    let mut tables = Vec::new();
    for (case, Case { title, .. }) in CASES.iter().enumerate() {
        let gains = |variant: usize| pairs.runs(case, variant).map(|run| 100.0 * (run.stp() - 1.0));
        let over = |variant: usize, other: usize| {
            let both = pairs.runs(case, variant).zip(pairs.runs(case, other));
            100.0 * (geomean(both.map(|(run, other)| run.stp() / other.stp())) - 1.0)
        };
        let mut row = |what: &str, figure: &dyn Fn(usize) -> f64| {
            let ours = OURS.map(|variant| Cell::Number(figure(variant), 1));
            let thesis = Cell::from(paper::value("IV.10", case, what));
            means.row(format!("{title}: {what}"), std::iter::once(thesis).chain(ours));
        };
        row("mean gain, %", &|variant| mean(gains(variant)));
        row("largest gain, %", &|variant| gains(variant).fold(f64::MIN, f64::max));
        row("over AI-MT, %", &|variant| over(variant, AI_MT));
        row("over Layerweaver, %", &|variant| over(variant, LAYERWEAVER));
        tables.push(pairs.table(case, "STP", 3, StreamRun::stp, ("mean", mean)));
    }
    tables.insert(0, means);
    pairs.part(tables)
}

/// Builds the tables of Figure IV.11.
pub fn busy(context: &mut StudyContext) -> Result<Part, Failure> {
    let pairs = pair_runs(context)?;
    let mut means = beside("Busy time, %", "mean of pairs");
    let columns = ["pair", "PEs", "memory", "PEs, balanced", "memory, balanced"];
    let mut tables = Vec::new();
    for (case, Case { title, .. }) in CASES.iter().enumerate() {
        for (resource, what) in ["PEs, %", "memory, %"].into_iter().enumerate() {
            let busy = |variant| mean(pairs.runs(case, variant).map(|run| run.busy()[resource]));
            let thesis = Cell::from(paper::value("IV.11", case, what));
            let ours = OURS.map(|variant| Cell::percent(busy(variant), 1));
            means.row(format!("{title}: {what}"), std::iter::once(thesis).chain(ours));
        }
        let title = format!("Busy time under Layerweaver and ours with whole layers, %, {title}");
        let mut table = Table::new(title, columns);
        for (names, runs) in pairs.names.iter().zip(&pairs.runs[case]) {
            let both = [LAYERWEAVER, BALANCED].map(|variant| runs[variant].busy());
            let cells = both.into_iter().flatten().map(|busy| Cell::percent(busy, 1));
            table.row(names.join(" + "), cells);
        }
        tables.push(table);
    }
    tables.insert(0, means);
    pairs.part(tables)
}

/// Builds a table that compares the thesis' values of Layerweaver and AI-MT with Dyno's, and one with the metric of
/// each pair.
fn both(
    context: &mut StudyContext,
    figure: &str,
    what: &str,
    metric: fn(&StreamRun) -> f64,
    last: (&'static str, fn(Vec<f64>) -> f64),
) -> Result<Part, Failure> {
    let pairs = pair_runs(context)?;
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
        let all = |variant: usize| {
            Cell::Number(last.1(pairs.runs(case, variant).map(metric).collect()), 2)
        };
        let thesis = |who| Cell::from(paper::value(figure, case, who));
        let wide = pairs.names.iter().map(|pair| pair[1] == "NCFW");
        let others = pairs.runs(case, LAYERWEAVER).zip(wide).filter(|(_, is_wide)| !is_wide);
        let without = last.1(others.map(|(run, _)| metric(run)).collect());
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
        tables.push(pairs.table(case, what, 2, metric, last));
    }
    tables.insert(0, means);
    pairs.part(tables)
}

/// Builds the tables of Figure IV.12.
pub fn turnaround(context: &mut StudyContext) -> Result<Part, Failure> {
    both(context, "IV.12", "ANTT", StreamRun::antt, ("mean", mean))
}

/// Builds the tables of section IV.5.C.
pub fn slowdown(context: &mut StudyContext) -> Result<Part, Failure> {
    let last = ("geometric mean", geomean as fn(Vec<f64>) -> f64);
    both(context, "IV.5.C", "Maximum slowdown", StreamRun::slowdown, last)
}

/// Builds the tables of the distance between runs and their upper bounds.
pub fn bounds(context: &mut StudyContext) -> Result<Part, Failure> {
    let pairs = pair_runs(context)?;
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
            let gaps: Vec<f64> = pairs.runs(case, at).map(StreamRun::gap).collect();
            let widest = gaps.iter().copied().fold(0.0, f64::max);
            let name =
                gaps.iter().position(|gap| *gap == widest && *gap > 5e-5).map(|at| pairs.names[at]);
            let share = |waits| mean(pairs.runs(case, at).map(|run| run.stp() / run.bound(waits)));
            table.row(
                VARIANTS[at].title,
                [
                    Cell::percent(mean(gaps), 2),
                    Cell::percent(widest, 2),
                    name.map_or(Cell::Empty, |name| Cell::text(name.join(" + "))),
                    Cell::percent(share(false), 1),
                    Cell::percent(share(true), 1),
                ],
            );
        }
        tables.push(table);
    }
    pairs.part(tables)
}

/// Builds the tables that compare all variants.
pub fn ours(context: &mut StudyContext) -> Result<Part, Failure> {
    let pairs = pair_runs(context)?;
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
        for (at, variant) in VARIANTS.iter().enumerate() {
            let mean_of = |figure: fn(&StreamRun) -> f64| mean(pairs.runs(case, at).map(figure));
            let least =
                pairs.runs(case, at).map(StreamRun::least_share).fold(f64::INFINITY, f64::min);
            table.row(
                variant.title,
                [
                    Cell::Number(mean_of(StreamRun::stp), 3),
                    Cell::percent(mean_of(|run| run.stp() / run.bound(false)), 1),
                    Cell::Number(mean_of(StreamRun::antt), 2),
                    Cell::Number(geomean(pairs.runs(case, at).map(StreamRun::slowdown)), 2),
                    Cell::Number(least, 3),
                    Cell::percent(mean_of(|run| run.busy()[0]), 1),
                    Cell::percent(mean_of(|run| run.busy()[1]), 1),
                ],
            );
        }
        tables.push(table);
    }
    pairs.part(tables)
}
