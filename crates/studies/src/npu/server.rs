//! Figures V.5 to V.7: pairs of networks in the scenario Server, where each query has a deadline.

use dyno_experiment::Failure;
use dyno_npu::bounds::load;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::SchedulerSpec;
use dyno_npu::serve::BatchingPolicy;
use dyno_sut::npu::service::{NpuService, PeakSearch};

use super::part::{Cell, Part, Table};
use super::spread::spread;
use super::{MILLI, StudyContext, geomean, mean, paper, setting};

/// Deadlines of chapter V, ps: vision and language.
const LIMITS: [u64; 2] = [15 * MILLI, 130 * MILLI];
const COMPUTE: [&str; 3] = ["IC", "MN", "RN"];
const MEMORY: [&str; 3] = ["BB", "BL", "XL"];
/// Queries of the second network per query of the first.
const RATIOS: [f64; 7] = [64.0, 16.0, 4.0, 1.0, 0.25, 0.0625, 0.015625];
const SCHEDULERS: [&str; 4] = ["double-buffer", "layerweaver", "layerweaver+", "balanced"];
/// Schedulers with different rules of urgency, and one that uses only the deadline.
const VARIANTS: [&str; 6] = [
    "layerweaver+",
    "layerweaver+printed",
    "layerweaver+precise",
    "layerweaver+laxity",
    "earliest-due",
    "balanced",
];
/// Mapping under which [`peaks`] are searched.
const GRID: &str = "kcp+1";

/// Deploys two networks on the NPU of chapter V, with a batch of four and a window of 1 ms.
fn served(
    names: [&str; 2],
    scheduler: &str,
    mapping: &str,
    active: usize,
) -> Result<NpuService, Failure> {
    served_within(LIMITS, names, scheduler, mapping, active)
}

/// Deploys two networks with other deadlines, ps.
fn served_within(
    limits: [u64; 2],
    names: [&str; 2],
    scheduler: &str,
    mapping: &str,
    active: usize,
) -> Result<NpuService, Failure> {
    let setting = setting("chapter-v", mapping, 4, Granularity::Layer)?;
    let networks = [(names[0], limits[0]), (names[1], limits[1])];
    let scheduler: SchedulerSpec = scheduler.parse().map_err(Failure::usage)?;
    let deployment = setting.deploy(&networks, scheduler).map_err(Failure::usage)?;
    let batching = BatchingPolicy { window: MILLI, active, wake: MILLI / 2 };
    Ok(NpuService { deployment, batching })
}

/// Two networks, and the ratio of their query rates.
#[derive(Clone, Copy)]
pub struct Point {
    names: [&'static str; 2],
    ratio: f64,
}

impl Point {
    /// Returns all points of a grid, or only the first if `quick`.
    pub fn all(ratios: &[f64], quick: bool) -> Vec<Self> {
        let pairs = COMPUTE.iter().flat_map(|a| MEMORY.map(|b| [*a, b]));
        let points = pairs.flat_map(|names| ratios.iter().map(move |&ratio| Self { names, ratio }));
        points.take(if quick { 1 } else { usize::MAX }).collect()
    }

    fn name(&self) -> String {
        let [first, second] = self.names;
        if self.ratio >= 1.0 {
            format!("{first} + {second}, 1:{}", self.ratio)
        } else {
            format!("{first} + {second}, {}:1", 1.0 / self.ratio)
        }
    }
}

/// Returns the peaks of all points under all schedulers, queries/s, and their bounds.
pub fn search(
    name: &str,
    points: &[Point],
    schedulers: &[&str],
) -> Result<Vec<(Vec<f64>, f64)>, Failure> {
    let search = PeakSearch { queries: 1_000.0, steps: 9 };
    let items: Vec<(Point, &str)> = points
        .iter()
        .flat_map(|point| schedulers.iter().map(move |scheduler| (*point, *scheduler)))
        .collect();
    let found = spread(name, &items, |(point, scheduler)| {
        let served = served(point.names, scheduler, GRID, 4)?;
        let mix = [1.0, point.ratio];
        Ok((served.peak_rate(&mix, search).map_err(Failure::usage)?, served.bound(&mix)))
    })?;
    let row = |found: &[(f64, f64)]| (found.iter().map(|point| point.0).collect(), found[0].1);
    Ok(found.chunks(schedulers.len()).map(row).collect())
}

/// Builds a table of peaks.
fn table(title: String, schedulers: &[&str], points: &[Point], peaks: &[(Vec<f64>, f64)]) -> Table {
    let columns = ["point"].into_iter().chain(schedulers.iter().copied()).chain(["bound"]);
    let mut table = Table::new(title, columns);
    for (point, (rates, bound)) in points.iter().zip(peaks) {
        let cells = rates.iter().chain([bound]).map(|rate| Cell::Number(*rate, 0));
        table.row(point.name(), cells);
    }
    table
}

/// Builds a table of the gain of each scheduler over the one at index `base`, for points at which both serve queries:
/// geometric mean, smallest and largest gain. The last column counts the points at which no scheduler is better by a
/// step of the search.
fn summary(title: String, schedulers: &[&str], base: usize, peaks: &[(Vec<f64>, f64)]) -> Table {
    let over = format!("over {}, geometric mean", schedulers[base]);
    let columns = ["scheduler", &over, "least", "largest", "serves nothing in", "best in"];
    let mut table = Table::new(title, columns);
    for (at, name) in schedulers.iter().enumerate() {
        let both = peaks.iter().filter(|(rates, _)| rates[at] > 0.0 && rates[base] > 0.0);
        let ratios: Vec<f64> = both.map(|(rates, _)| rates[at] / rates[base]).collect();
        let best = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
        let none = peaks.iter().filter(|(rates, _)| rates[at] == 0.0).count();
        let won = peaks.iter().filter(|(rates, _)| rates[at] >= 0.99 * best(rates)).count();
        table.row(
            *name,
            [
                Cell::Number(geomean(ratios.iter().copied()), 2),
                Cell::Number(ratios.iter().copied().fold(f64::INFINITY, f64::min), 2),
                Cell::Number(ratios.iter().copied().fold(0.0, f64::max), 2),
                Cell::Number(none as f64, 0),
                Cell::Number(won as f64, 0),
            ],
        );
    }
    table
}

/// Builds the tables of Figure V.5: the highest rate that is served, by ratio of the networks' rates.
pub fn peaks(context: &mut StudyContext) -> Result<Part, Failure> {
    let quick = context.quick;
    let points = Point::all(if quick { &RATIOS[3..4] } else { &RATIOS }, quick);
    let peaks = search("v5", &points, &SCHEDULERS)?;
    let mut summary = summary(format!("Peaks over the baseline, {GRID}"), &SCHEDULERS, 0, &peaks);
    let stated = paper::value("V.5", 0, "largest gain, %").map(|gain| 1.0 + gain / 100.0);
    let largest = stated.map_or(Cell::Empty, |most| Cell::Number(most, 2));
    let nothing = Cell::Empty;
    summary.row(
        "layerweaver+, thesis",
        [nothing.clone(), nothing.clone(), largest, nothing.clone(), nothing],
    );
    let title = format!("Peaks of both networks together, queries/s, {GRID}");
    let all = Point::all(&RATIOS, false).len();
    let part = Part { tables: vec![summary, table(title, &SCHEDULERS, &points, &peaks)] };
    part.of_cases(points.len(), all, "points").with_readings(&["layerweaver", "layerweaver+"])
}

/// Builds the tables that complement Figure V.7: rules of urgency at equal rates.
pub fn variants(context: &mut StudyContext) -> Result<Part, Failure> {
    let points = Point::all(&[1.0], context.quick);
    let peaks = search("v7", &points, &VARIANTS)?;
    let title = format!("Peaks by rule of urgency over that of the text, {GRID}");
    let summary = summary(title, &VARIANTS, 0, &peaks);
    let title = format!("Peaks by rule of urgency, queries/s of both together, {GRID}");
    let part = Part { tables: vec![summary, table(title, &VARIANTS, &points, &peaks)] };
    let all = Point::all(&[1.0], false).len();
    part.of_cases(points.len(), all, "points").with_readings(&["layerweaver+"])
}

/// Multiples of the deadlines of chapter V.
const SCALES: [f64; 6] = [0.5, 0.75, 1.0, 1.5, 2.0, 4.0];
/// Schedulers of the sweep over deadlines.
const DEADLINE_SCHEDULERS: [&str; 6] = [
    "double-buffer",
    "layerweaver",
    "layerweaver:ties=oldest",
    "layerweaver+",
    "earliest-due",
    "balanced",
];

/// Builds the tables of Figure V.7's sweep: peaks at equal rates by the length of the deadlines.
pub fn deadlines(context: &mut StudyContext) -> Result<Part, Failure> {
    let points = Point::all(&[1.0], context.quick);
    let scales = if context.quick { &SCALES[2..3] } else { &SCALES[..] };
    let search = PeakSearch { queries: 1_000.0, steps: 9 };
    let mut items = Vec::new();
    for scheduler in DEADLINE_SCHEDULERS {
        for &scale in scales {
            items.extend(points.iter().map(|point| (scheduler, scale, *point)));
        }
    }
    let found = spread("deadlines", &items, |(scheduler, scale, point)| {
        let limits = LIMITS.map(|limit| (limit as f64 * scale) as u64);
        let served = served_within(limits, point.names, scheduler, GRID, 4)?;
        let mix = [1.0, point.ratio];
        Ok(served.peak_rate(&mix, search).map_err(Failure::usage)? / served.bound(&mix))
    })?;
    let heads = |first: &str| -> Vec<String> {
        let scale = |scale: &f64| {
            let [vision, language] = LIMITS.map(|limit| limit as f64 * scale / MILLI as f64);
            format!("{vision} and {language} ms")
        };
        std::iter::once(first.to_owned()).chain(SCALES.iter().map(scale)).collect()
    };
    let at_scale = |index: usize| scales.iter().position(|scale| *scale == SCALES[index]);
    let build = |what: &str, figure: &dyn Fn(&[f64]) -> Cell| {
        let title = format!("{what}, by deadlines of vision and language, {GRID}");
        let mut table = Table::new(title, heads("scheduler"));
        for (scheduler, rates) in
            DEADLINE_SCHEDULERS.iter().zip(found.chunks(scales.len() * points.len()))
        {
            let groups: Vec<&[f64]> = rates.chunks(points.len()).collect();
            let cell = |index| at_scale(index).map_or(Cell::Empty, |at| figure(groups[at]));
            table.row(*scheduler, (0..SCALES.len()).map(cell));
        }
        table
    };
    let shares = build("Peak as a share of its bound, %, mean of points", &|rates| {
        Cell::percent(mean(rates.iter().copied()), 1)
    });
    let none = build("Points at which nothing is served", &|rates| {
        Cell::Number(rates.iter().filter(|rate| **rate == 0.0).count() as f64, 0)
    });
    let part = Part { tables: vec![shares, none] };
    let all = Point::all(&[1.0], false).len();
    part.of_cases(points.len(), all, "points").with_readings(&["layerweaver", "layerweaver+"])
}

/// A load of the thesis.
struct Load {
    title: &'static str,
    names: [&'static str; 2],
    /// Rates of both networks, queries/s.
    rates: [f64; 2],
    /// Virtual time, s, long enough for some ten thousand queries of the rarer network.
    seconds: f64,
}

/// Returns the shares of late queries at a load of Figure V.6, by its index.
pub fn late_shares(load: usize, mapping: &str, scheduler: &str) -> Result<Vec<f64>, Failure> {
    let Load { names, rates, seconds, .. } = LOADS[load];
    served(names, scheduler, mapping, 16)?.late_shares(&rates, seconds).map_err(Failure::usage)
}

const LOADS: [Load; 2] = [
    Load {
        title: "RN at 800 and BB at 200 queries/s",
        names: ["RN", "BB"],
        rates: [800.0, 200.0],
        seconds: 60.0,
    },
    Load {
        title: "MN at 7530 and BL at 470 queries/s",
        names: ["MN", "BL"],
        rates: [7530.0, 470.0],
        seconds: 20.0,
    },
];
const MAPPINGS: [&str; 3] = ["kcp+1:128", "kcp+1", "kcpx+1"];
const LOAD_SCHEDULERS: [&str; 8] = [
    "double-buffer",
    "fifo",
    "earliest-due",
    "layerweaver",
    "layerweaver+",
    "layerweaver+printed",
    "layerweaver+laxity",
    "balanced",
];

/// Builds the tables of Figure V.6: the share of late queries at the loads of the thesis.
pub fn late(context: &mut StudyContext) -> Result<Part, Failure> {
    let mappings = if context.quick { 1 } else { MAPPINGS.len() };
    let mut tables = Vec::new();
    for (index, case) in LOADS.iter().enumerate() {
        // Lower bound on the load of both resources, with full batches. An overload needs no comparison of schedulers.
        let mut items = Vec::new();
        for mapping in MAPPINGS.into_iter().take(mappings) {
            let served = served(case.names, "balanced", mapping, 16)?;
            let batches = case.rates.map(|rate| rate / 4.0);
            let busy = load(&served.deployment.largest(), &batches);
            let is_overload = busy.iter().any(|share| *share > 1.0);
            let schedulers = if is_overload {
                &LOAD_SCHEDULERS[LOAD_SCHEDULERS.len() - 1..]
            } else {
                &LOAD_SCHEDULERS
            };
            items.extend(schedulers.iter().map(|scheduler| (mapping, busy, *scheduler)));
        }
        let found =
            spread("v6", &items, |(mapping, _, scheduler)| late_shares(index, mapping, scheduler))?;
        let [first, second] = case.names.map(|name| format!("{name} late, %"));
        let columns = ["mapping", "PEs, memory at least busy, %", "scheduler", &first, &second];
        let mut table = Table::new(case.title, columns);
        for scheduler in LOAD_SCHEDULERS {
            let stated = ["first", "second"]
                .map(|which| paper::value("V.6", index, &format!("{scheduler}, {which}")));
            if stated.iter().any(Option::is_some) {
                let name = [Cell::Empty, Cell::text(scheduler)];
                table.row("thesis", name.into_iter().chain(stated.map(Cell::from)));
            }
        }
        for ((mapping, busy, scheduler), late) in items.iter().zip(&found) {
            let busy = busy.map(|share| format!("{:.0}", 100.0 * share)).join(", ");
            let late = late.iter().map(|share| Cell::percent(*share, 2));
            let name = [Cell::text(busy), Cell::text(*scheduler)];
            table.row(*mapping, name.into_iter().chain(late));
        }
        tables.push(table);
    }
    let part = Part { tables }.of_cases(mappings, MAPPINGS.len(), "mappings");
    part.with_readings(&["layerweaver", "layerweaver+"])
}
