//! Every reading of the papers: Figures IV.10 to IV.16, V.5 and V.6 with one option changed at a time, and the range over
//! all readings.
//!
//! Ablations (options that remove a rule) are in [`super::ablations`]: they are no readings.

use dyno_experiment::Failure;
use dyno_npu::lowering::Granularity;
use dyno_npu::schedule::{NamedScheduler, SchedulerSpec};
use dyno_npu::setting::{StreamRun, pairs};

use super::four::fours;
use super::part::{Cell, Part, Table};
use super::server::{self, Point};
use super::spread::spread;
use super::streams::{CASES, PASSES, names};
use super::{MAPPING, StudyContext, geomean, mean, paper, setting};

/// Options that remove a rule of the papers instead of reading it.
const ABLATIONS: [&str; 3] = ["memory-idle", "starvation", "potential"];

/// Returns the default reading of a scheduler and all that differ in one option.
fn readings(name: &str) -> Result<Vec<SchedulerSpec>, Failure> {
    let named = NamedScheduler::find(name).map_err(Failure::usage)?;
    let is_reading = |spec: &SchedulerSpec| {
        ABLATIONS.iter().all(|key| spec.reading(key).is_empty() || spec.reads(key, "on"))
    };
    let others = SchedulerSpec::alternatives(named).filter(is_reading);
    Ok(std::iter::once(SchedulerSpec::from(named)).chain(others).collect())
}

/// Returns all combinations of the readings of a scheduler.
fn combinations(name: &str) -> Result<Vec<SchedulerSpec>, Failure> {
    let named = NamedScheduler::find(name).map_err(Failure::usage)?;
    let mut all = vec![SchedulerSpec::from(named)];
    for option in named.options.iter().filter(|option| !ABLATIONS.contains(&option.key)) {
        let mut more = Vec::new();
        for spec in &all {
            for value in option.values {
                more.push(spec.with(option.key, value.name).map_err(Failure::usage)?);
            }
        }
        all = more;
    }
    Ok(all)
}

/// Columns of the tables of chapter IV.
const COLUMNS: [&str; 10] = [
    "reading",
    "IV.10: mean gain, %",
    "IV.10: largest gain, %",
    "IV.10: over AI-MT, %",
    "IV.11: PEs, %",
    "IV.11: memory, %",
    "IV.12: ANTT",
    "IV.5.C: maximum slowdown",
    "IV.16: STP of four",
    "IV.16: least share of four",
];
/// Decimal places of the columns behind the name.
const DIGITS: [usize; 9] = [1, 1, 1, 1, 1, 2, 2, 3, 3];

/// Values of all columns behind the name.
type Figures = [f64; 9];

/// Returns the figures of a reading in one case. `ai_mt` has the STP of AI-MT for each pair.
fn figures(
    spec: SchedulerSpec,
    case: usize,
    ai_mt: &[f64],
    context: &StudyContext,
) -> Result<Figures, Failure> {
    let case = &CASES[case];
    let setting = setting(case.npu, MAPPING, case.batch, Granularity::Layer)?;
    let passes = if context.quick { 20 } else { PASSES };
    let run = |codes: &[&str]| setting.simulate(codes, spec, passes).map_err(Failure::usage);
    let runs: Vec<StreamRun> =
        names(context.quick).iter().map(|pair| run(pair)).collect::<Result<_, _>>()?;
    let all = fours();
    let played = if context.quick { &all[..1] } else { &all[..] };
    let fours: Vec<StreamRun> = played.iter().map(|codes| run(codes)).collect::<Result<_, _>>()?;
    let mean_of = |figure: fn(&StreamRun) -> f64| mean(runs.iter().map(figure));
    let over = runs.iter().zip(ai_mt).map(|(run, other)| run.stp() / other);
    Ok([
        100.0 * (mean_of(StreamRun::stp) - 1.0),
        100.0 * (runs.iter().map(StreamRun::stp).fold(0.0, f64::max) - 1.0),
        100.0 * (geomean(over) - 1.0),
        mean_of(|run| 100.0 * run.busy()[0]),
        mean_of(|run| 100.0 * run.busy()[1]),
        mean_of(StreamRun::antt),
        geomean(runs.iter().map(StreamRun::slowdown)),
        geomean(fours.iter().map(StreamRun::stp)),
        fours.iter().map(StreamRun::least_share).fold(f64::INFINITY, f64::min),
    ])
}

/// Returns the row of the thesis.
fn thesis_row(case: usize, who: &str) -> Vec<Cell> {
    let stated = |figure: &str, what: &str| Cell::from(paper::value(figure, case, what));
    let ours = |figure: &str, what: &str| match who {
        "Layerweaver" => stated(figure, what),
        _ => Cell::Empty,
    };
    vec![
        ours("IV.10", "mean gain, %"),
        ours("IV.10", "largest gain, %"),
        ours("IV.10", "over AI-MT, %"),
        ours("IV.11", "PEs, %"),
        ours("IV.11", "memory, %"),
        stated("IV.12", who),
        stated("IV.5.C", who),
        Cell::Empty,
        Cell::Empty,
    ]
}

/// Builds the tables of chapter IV by reading.
pub fn streams(context: &mut StudyContext) -> Result<Part, Failure> {
    let context = &*context;
    let mut tables = Vec::new();
    for (name, who) in [("layerweaver", "Layerweaver"), ("ai-mt", "AI-MT")] {
        let rows = readings(name)?;
        let all = if context.quick { rows.clone() } else { combinations(name)? };
        for (case, series) in CASES.iter().enumerate() {
            let ai_mt = ai_mt_stps(case, context)?;
            let played = |specs: &[SchedulerSpec]| {
                spread("readings", specs, |spec| figures(*spec, case, &ai_mt, context))
            };
            let title = format!("Readings of {who}, {}, {MAPPING}", series.title);
            let mut table = Table::new(title, COLUMNS);
            table.row("thesis", thesis_row(case, who));
            let cells = |figures: Figures| {
                figures.into_iter().zip(DIGITS).map(|(value, digits)| Cell::Number(value, digits))
            };
            for (spec, figures) in rows.iter().zip(played(&rows)?) {
                table.row(spec.to_string(), cells(figures));
            }
            let swept = played(&all)?;
            for (what, pick) in [("least", f64::min as fn(f64, f64) -> f64), ("most", f64::max)] {
                let extreme = std::array::from_fn(|at| {
                    swept.iter().map(|figures| figures[at]).reduce(pick).unwrap_or(f64::NAN)
                });
                table.row(format!("{what} of all combinations"), cells(extreme));
            }
            tables.push(table);
        }
    }
    let part = Part { tables }.of_cases(names(context.quick).len(), pairs().len(), "pairs");
    part.with_readings(&["layerweaver", "ai-mt"])
}

/// Returns the STP of each pair under AI-MT's default reading.
fn ai_mt_stps(case: usize, context: &StudyContext) -> Result<Vec<f64>, Failure> {
    let case = &CASES[case];
    let setting = setting(case.npu, MAPPING, case.batch, Granularity::Layer)?;
    let named = NamedScheduler::find("ai-mt").map_err(Failure::usage)?;
    let passes = if context.quick { 20 } else { PASSES };
    spread("readings", &names(context.quick), |pair| {
        Ok(setting.simulate(pair, named, passes).map_err(Failure::usage)?.stp())
    })
}

/// Loads of Figure V.6 that are neither nothing nor too much: the index of the load, and the mapping.
const LOADS: [(usize, &str); 3] = [(0, "kcp+1:128"), (0, "kcp+1"), (1, "kcpx+1")];

/// Builds the tables of Figures V.5 and V.6 by reading.
pub fn served(context: &mut StudyContext) -> Result<Part, Failure> {
    let quick = context.quick;
    let points = Point::all(&[1.0], quick);
    let mut tables = Vec::new();
    for name in ["layerweaver", "layerweaver+"] {
        // The failsafe is for networks of one kind, and there are none here.
        let mut specs = readings(name)?;
        specs.retain(|spec| !spec.reads("failsafe", "off"));
        if name == "layerweaver+" {
            // The claim about slack, under each rule among equals.
            for ties in ["memory-first", "oldest", "printed", "memory-idle"] {
                let precise = format!("layerweaver+:urgent=precise,ties={ties}");
                specs.push(precise.parse().map_err(Failure::usage)?);
            }
        }
        let texts: Vec<String> = specs.iter().map(SchedulerSpec::to_string).collect();
        let mut schedulers: Vec<&str> = vec!["double-buffer"];
        schedulers.extend(texts.iter().map(String::as_str));
        let peaks = server::search("served", &points, &schedulers)?;
        // Exact timing plays the rest of each pass at each decision, which takes hours at these loads.
        let is_fast = |text: &&String| !text.contains("precise");
        let loads = if quick { &LOADS[..1] } else { &LOADS[..] };
        let fast = texts.iter().filter(is_fast);
        let items: Vec<_> =
            fast.flat_map(|text| loads.iter().map(move |load| (text, *load))).collect();
        let late = spread("served", &items, |(text, (load, mapping))| {
            server::late_shares(*load, mapping, text)
        })?;
        let mut table = Table::new(format!("Readings of {name} under traffic"), TRAFFIC_COLUMNS);
        for (at, text) in texts.iter().enumerate() {
            let over: Vec<f64> = peaks.iter().map(|(rates, _)| rates[at + 1] / rates[0]).collect();
            let extreme = |pick: fn(f64, f64) -> f64| over.iter().copied().reduce(pick);
            let mut cells = vec![
                Cell::Number(geomean(over.iter().copied()), 2),
                Cell::Number(extreme(f64::min).unwrap_or(f64::NAN), 2),
                Cell::Number(extreme(f64::max).unwrap_or(f64::NAN), 2),
            ];
            let own = items.iter().zip(&late).filter(|((other, _), _)| *other == text);
            cells.extend(own.flat_map(|(_, shares)| shares).map(|share| Cell::percent(*share, 2)));
            cells.resize(TRAFFIC_COLUMNS.len() - 1, Cell::Empty);
            table.row(text.clone(), cells);
        }
        tables.push(table);
    }
    let all = Point::all(&[1.0], false).len();
    let part = Part { tables }.of_cases(points.len(), all, "points");
    part.with_readings(&["layerweaver", "layerweaver+"])
}

/// Columns of the tables of chapter V.
const TRAFFIC_COLUMNS: [&str; 10] = [
    "reading",
    "V.5: over double-buffer at equal rates, geometric mean",
    "least",
    "largest",
    "V.6a, kcp+1:128: RN late, %",
    "BB late (kcp+1:128), %",
    "V.6a, kcp+1: RN late, %",
    "BB late (kcp+1), %",
    "V.6b, kcpx+1: MN late, %",
    "BL late, %",
];
