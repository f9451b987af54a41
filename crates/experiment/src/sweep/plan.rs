//! Plans a sweep: turns its options into points, and rejects invalid ones before the first point
//! runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use dyno_loadgen::settings::{Arrivals, Scenario, TestMode};
use dyno_results::sweep::{Axis, Definition, LoadKind, Point, PointState};

use super::check::Check;
use super::combinations::{Combination, check_selection, combinations, is_selected};
use super::names::{NAME_CHARS, names};
use crate::failure::Failure;
use crate::options::{Annotation, CommandLine, ENVIRONMENT_PREFIX, Options, SweepKey, SweepTable};
use crate::run::{PreparedRun, variables};
use crate::system::net::literal_secret;
use crate::system::{System, SystemKind};
use crate::test::PlannedTest;
use crate::watch::quiet;

/// Options of a sweep. Flags override the file.
#[derive(Debug, Clone)]
pub struct Request {
    /// Command line that all points share.
    pub fixed: CommandLine,
    /// Axes of `--over`.
    pub over: Vec<Axis>,
    /// Flags that override `[sweep]`.
    pub flags: SweepTable,
    /// `--operations`: values of an axis with their operations per sample.
    pub operations: Vec<(String, f64)>,
}

/// A valid sweep.
#[derive(Debug)]
pub struct SweepPlan {
    /// Definition of the sweep.
    pub definition: Definition,
    /// Points, all pending.
    pub points: Vec<Point>,
    /// Name of the sweep.
    pub name: String,
    /// Directory of the sweep, if given.
    pub out: Option<PathBuf>,
    /// `[sweep]` overridden by flags.
    pub table: SweepTable,
}

impl SweepPlan {
    /// Plans a sweep.
    ///
    /// # Errors
    /// All problems of all points.
    pub fn new(mut request: Request) -> Result<Self, Failure> {
        let options = Options::common(&request.fixed, variables())?;
        let table = merged(options.sweep.clone().unwrap_or_default(), &request.flags);
        let axes = axes(&request, &table)?;
        request.fixed.keys.0.retain(|(key, _)| !matches!(key.name, "out" | "name"));
        check_table(options.sweep.as_ref(), &request.flags, &axes)?;
        check_systems(&axes)?;
        let given = request.fixed.keys.0.iter().filter(|(key, _)| key.name == "system");
        check_secrets(given.map(|(_, spec)| spec).chain(&options.run.system), &axes)?;
        let (is_zip, repeat) = (table.zip == Some(true), table.repeat.unwrap_or(1));
        let all = combinations(&axes, is_zip, &table.exclude, repeat as usize);
        let all = all.map_err(|problem| {
            let failure = Failure::usage(problem);
            if axes.is_empty() { failure.hint(NO_AXES) } else { failure }
        })?;
        for annotation in &table.points {
            check_selection(&annotation.selection, &axes).map_err(Failure::usage)?;
        }
        let mut check = Check::default();
        let mut points = Vec::new();
        for ((number, combination), name) in (1..).zip(&all).zip(names(&all, &axes, &table)) {
            let operations = check.point(&request.fixed, combination, &name, number);
            let operations = operations_of(combination, &request, &table.points).or(operations);
            points.push(pending(number, combination.clone(), name, operations));
        }
        check.finish()?;
        let short = options.run.system.as_deref().unwrap_or("digits").split(':').next();
        let name = options.run.name.clone();
        Ok(Self {
            name: name.unwrap_or_else(|| {
                if axes.iter().any(|axis| axis.key == "system") {
                    "sweep".into()
                } else {
                    format!("sweep-{}", short.unwrap_or_default())
                }
            }),
            out: options.run.out.clone(),
            definition: Definition {
                fixed: request.fixed.arguments(),
                axes,
                combine: if is_zip { "zip" } else { "product" }.into(),
                exclude: table.exclude.clone(),
                repeat,
                order: if table.random == Some(true) { "random" } else { "given" }.into(),
                order_seed: table.order_seed.unwrap_or(0),
                environment: environment(),
                files: check.files,
            },
            points: repeated(&points, repeat),
            table,
        })
    }
}

const NO_AXES: &str = "select what varies with --over, such as --over batch=1,2,4 or --over \
     settings.server_target_qps=100..400:x2, or in [sweep.over] of a file";

/// Checks that options of a sweep have an effect.
fn check_table(
    file: Option<&SweepTable>,
    flags: &SweepTable,
    axes: &[Axis],
) -> Result<(), Failure> {
    let file = file.cloned().unwrap_or_default();
    let mut problems = Vec::new();
    if flags.zip.or(file.zip) == Some(true) && axes.len() == 1 {
        problems.push(format!("zip has no effect: only `{}` varies", axes[0].key));
    }
    let is_random = flags.random.or(file.random) == Some(true);
    // A flag may disable the random order of a file, whose seed then has no effect on purpose.
    let has_useless_seed = match flags.order_seed {
        Some(_) => !is_random,
        None => file.order_seed.is_some() && !is_random && file.random != Some(true),
    };
    if has_useless_seed {
        problems.push("order-seed has no effect: the points run in their given order".into());
    }
    if flags.until_saturated.or(file.until_saturated) == Some(true) {
        check_ladder(axes, is_random)?;
    }
    if flags.p99_below.or(file.p99_below) == Some(0) {
        return Err(Failure::usage("expected p99-below above 0").hint("use --p99-below 20ms"));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::usages(problems)
        .hint("use zip with a second --over, and order-seed with --order random, or remove them"))
}

/// Checks that a sweep which ends at saturation raises a load.
fn check_ladder(axes: &[Axis], is_random: bool) -> Result<(), Failure> {
    let problem = if LoadKind::of_axes(axes).is_none() {
        "until-saturated needs a load as the only axis"
    } else if is_random {
        "until-saturated has no effect in random order"
    } else if !axes[0].values.is_sorted_by_key(|value| value.parse::<f64>().ok()) {
        "until-saturated needs ascending loads"
    } else {
        return Ok(());
    };
    Err(Failure::usage(problem).hint("for example --over max-concurrency=1..64:x2"))
}

/// Rejects what may be secrets in the command, which a sweep writes down so that it can be resumed.
fn check_secrets<'a>(
    systems: impl Iterator<Item = &'a String>,
    axes: &'a [Axis],
) -> Result<(), Failure> {
    let swept = axes.iter().filter(|axis| axis.key == "system").flat_map(|axis| &axis.values);
    match systems.chain(swept).find_map(|spec| literal_secret(spec)) {
        None => Ok(()),
        Some(name) => {
            let problem = format!(
                "{name}: a sweep records its command to be resumable, so it \
                 accepts no value here that may be a secret"
            );
            Err(Failure::usage(problem).hint(match name.split_once('.') {
                Some((place, name)) => {
                    format!("{place}-env.{name}=VARIABLE reads the value from the environment")
                }
                None => format!("{name}=@FILE reads it from a file"),
            }))
        }
    }
}

/// Checks that the values of the axis `system` exist.
fn check_systems(axes: &[Axis]) -> Result<(), Failure> {
    let systems = axes.iter().filter(|axis| axis.key == "system").flat_map(|axis| &axis.values);
    let problems: Vec<String> =
        systems.filter_map(|spec| SystemKind::of_spec(spec).err()).collect();
    if problems.is_empty() {
        return Ok(());
    }
    let failure = Failure::usages(problems);
    let holds_commas = axes.iter().any(|axis| axis.values.iter().any(|value| value.contains('=')));
    Err(if holds_commas {
        failure.hint("separate values that contain commas by semicolons")
    } else {
        failure
    })
}

/// Returns the table of a file, overridden by flags.
pub fn merged(file: SweepTable, flags: &SweepTable) -> SweepTable {
    SweepTable {
        over: file.over,
        exclude: file.exclude,
        points: file.points,
        zip: flags.zip.or(file.zip),
        random: flags.random.or(file.random),
        order_seed: flags.order_seed.or(file.order_seed),
        repeat: flags.repeat.or(file.repeat),
        pause: flags.pause.or(file.pause),
        max_time: flags.max_time.or(file.max_time),
        limit: flags.limit.or(file.limit),
        p99_below: flags.p99_below.or(file.p99_below),
        until_saturated: flags.until_saturated.or(file.until_saturated),
    }
}

/// Returns the axes of the file. Axes of flags replace those with equal keys, or follow them.
fn axes(request: &Request, table: &SweepTable) -> Result<Vec<Axis>, Failure> {
    let (mut axes, mut problems) = (table.over.clone(), Vec::new());
    let mut given = Vec::new();
    for axis in &request.over {
        if given.contains(&&axis.key) {
            problems.push(format!("flag --over: `{}` varies twice", axis.key));
        }
        given.push(&axis.key);
        match axes.iter_mut().find(|other| other.key == axis.key) {
            Some(other) => other.values.clone_from(&axis.values),
            None => axes.push(axis.clone()),
        }
    }
    for axis in &axes {
        let swept = SweepKey::find(&axis.key).map_err(Failure::usage)?;
        if let Some(flag) = swept.fixed_by(&request.fixed) {
            problems.push(format!("`{}` varies, and {flag} fixes it", axis.key));
        }
    }
    for (value, _) in &request.operations {
        if !axes.iter().any(|axis| axis.values.contains(value)) {
            problems.push(format!("flag --operations: no axis has the value `{value}`"));
        }
    }
    if problems.is_empty() { Ok(axes) } else { Err(Failure::usages(problems)) }
}

/// Returns the command line of a point.
pub fn command_line(fixed: &CommandLine, combination: &Combination) -> Result<CommandLine, String> {
    let mut command_line = fixed.clone();
    for (key, value) in combination {
        SweepKey::find(key)?.add(value, &mut command_line);
    }
    Ok(command_line)
}

/// Returns the settings of the environment.
pub fn environment() -> BTreeMap<String, String> {
    variables().filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX)).collect()
}

/// Returns the minimum duration of a point, ns, with all runs of a repetition; `None` in virtual time,
/// where it is that of computing.
///
/// # Errors
/// The planned command line is not valid any more.
pub fn expected(fixed: &CommandLine, combination: &Combination) -> Result<Option<Nanos>, Failure> {
    let mut line = command_line(fixed, combination).map_err(Failure::usage)?;
    // Servers are not contacted.
    line.is_dry = true;
    let options = Options::read(&line, variables())?;
    if is_virtual(&options) {
        return Ok(None);
    }
    if may_be_recorded(&options)
        && let Some(length) = length_of_tests(Options::read(&line, variables())?)
    {
        return Ok(Some(length));
    }
    let mut total: Nanos = 0;
    for scenario in options.scenarios() {
        for &mode in options.modes().iter().filter(|&&mode| mode != TestMode::AccuracyOnly) {
            let mut settings = options.settings(scenario, mode, None);
            options.complete_load(&mut settings);
            let ns = settings.values.min_duration_ms.saturating_mul(MILLISECOND);
            let (last, ramp) = match (scenario, &settings.values.server_arrivals) {
                (Scenario::Server, Arrivals::Replay(times)) if options.run.stages.is_some() => {
                    (times.last().copied().unwrap_or(0), 0)
                }
                (Scenario::Server, _) => (0, options.run.ramp.unwrap_or(0)),
                _ => (0, 0),
            };
            let runs = match mode {
                TestMode::FindPeakPerformance => 1,
                _ => u64::from(settings.values.repetition.runs()),
            };
            let one = ns.max(last).saturating_add(ramp);
            total = total.saturating_add(one.saturating_mul(runs));
        }
    }
    Ok(Some(total))
}

/// Returns whether the samples of a point may have recorded times, which determine its length.
fn may_be_recorded(options: &Options) -> bool {
    let is_of_texts = options.run.system.as_deref().is_some_and(|spec| spec.starts_with("openai:"));
    is_of_texts && !options.run.data.is_empty() && options.run.stages.is_none()
}

/// Returns the length of the tests of a point, ns, whose samples are read; `None` if they are invalid,
/// which the run reports.
fn length_of_tests(options: Options) -> Option<Nanos> {
    let system = System::load(&options.run, &quiet()).ok()?;
    let tests = PreparedRun::from_system(options, system).tests().ok()?;
    Some(tests.iter().map(PlannedTest::expected).fold(0, Nanos::saturating_add))
}

/// Returns whether the runs of a point are in virtual time, whatever system is loaded.
fn is_virtual(options: &Options) -> bool {
    const SIMULATED: [&str; 3] = ["model:", "npu:", "cheat:"];
    let spec = options.run.system.as_deref().unwrap_or_default();
    options.run.is_virtual == Some(true) || SIMULATED.iter().any(|kind| spec.starts_with(kind))
}

/// Distance of the seeds of two repeats in virtual time.
const REPEAT_SEEDS: u64 = 1_000_000;

/// Returns the command line of a point. In virtual time, a further repeat has a seed of its own:
/// with the same seed it would have the same results.
///
/// # Errors
/// The planned command line is not valid any more.
pub(crate) fn command_line_of_point(
    fixed: &CommandLine,
    point: &Point,
) -> Result<CommandLine, Failure> {
    let mut line = command_line(fixed, &point.assignments).map_err(Failure::set_up)?;
    if point.repeat > 1 {
        let options = Options::read(&line, variables())?;
        if is_virtual(&options) {
            let further = u64::from(point.repeat - 1) * REPEAT_SEEDS;
            let seed = options.run.seed.unwrap_or(0).wrapping_add(further);
            line.give("seed", &seed.to_string());
        }
    }
    Ok(line)
}

fn operations_of(
    combination: &Combination,
    request: &Request,
    annotations: &[Annotation],
) -> Option<f64> {
    let by_value =
        request.operations.iter().find(|(value, _)| combination.values().any(|v| v == value));
    let said = annotations.iter().rev().filter(|a| is_selected(combination, &a.selection));
    by_value.map(|(_, operations)| *operations).or_else(|| said.filter_map(|a| a.operations).next())
}

fn pending(number: u64, combination: Combination, name: String, operations: Option<f64>) -> Point {
    Point {
        number,
        repeat: 1,
        name,
        assignments: combination,
        operations,
        state: PointState::Pending,
        folder: String::new(),
        message: None,
        exit_code: None,
        took_ns: None,
        results: Vec::new(),
    }
}

/// Repeats the whole list of points, so that drift affects every combination.
fn repeated(points: &[Point], repeat: u32) -> Vec<Point> {
    let count = points.len() as u64;
    let mut all = Vec::new();
    for round in 1..=repeat {
        for point in points {
            let number = point.number + count * u64::from(round - 1);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let name: String = point.name.chars().take(NAME_CHARS).collect();
            let name = name.replace(|c| !is_plain(c), "-");
            let again = if round > 1 { format!("-repeat-{round}") } else { String::new() };
            let folder = format!("points/{number:04}-{name}{again}");
            all.push(Point { number, repeat: round, folder, ..point.clone() });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::SECOND;

    use super::*;

    #[test]
    fn a_point_takes_as_long_as_all_runs_of_its_repetition() {
        let mut line = CommandLine::default();
        for (key, value) in [
            ("system", "null"),
            ("scenario", "server"),
            ("mode", "performance"),
            ("duration", "2s"),
        ] {
            line.give(key, value);
        }
        assert_eq!(expected(&line, &Combination::new()).unwrap(), Some(2 * SECOND));
        line.set.push("repetition=minimum:3".into());
        assert_eq!(expected(&line, &Combination::new()).unwrap(), Some(6 * SECOND));
    }
}
