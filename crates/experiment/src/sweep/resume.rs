//! Resumes a sweep that was ended or killed, if its definition is unchanged.

use std::path::{Component, Path, PathBuf};

use dyno_results::summary::{self, Run};
use dyno_results::sweep::{Definition, Point, PointResult, PointState, Sweep, results};

use super::plan::{SweepPlan, environment};
use crate::failure::Failure;
use crate::inputs;

/// Reads a sweep to resume.
///
/// # Errors
/// There is no sweep, or it is damaged.
pub fn read(directory: &Path) -> Result<Sweep, Failure> {
    let sweep = Sweep::read(directory).map_err(|error| {
        Failure::set_up(error).hint("--resume needs the directory of a sweep, with its sweep.json")
    })?;
    // The remains of a point are removed before it is run again, so that a damaged file must not
    // name other folders.
    if let Some(point) = sweep.points.iter().find(|point| !is_inside(Path::new(&point.folder))) {
        let problem = format!(
            "{}: the folder of point {} is `{}`, which is not below points",
            directory.join(dyno_results::sweep::FILE).display(),
            point.number,
            point.folder
        );
        return Err(Failure::set_up(problem).hint("start a new sweep in another directory"));
    }
    if let Some(point) = sweep.points.iter().find(|point| is_edited(point, directory)) {
        let problem = format!(
            "{}: the results of point {} are not those of {}/{}",
            directory.join(dyno_results::sweep::FILE).display(),
            point.number,
            point.folder,
            summary::FILE
        );
        let remedy = "undo the change, or report the runs: dyno report";
        return Err(Failure::set_up(problem).hint(format!("{remedy} {}", directory.display())));
    }
    Ok(sweep)
}

/// Returns whether the summary of a point has other figures than the sweep. A summary that is gone has none, and
/// that of a failed point may be of a later try.
fn is_edited(point: &Point, directory: &Path) -> bool {
    if point.state == PointState::Failed || point.results.is_empty() {
        return false;
    }
    let Ok(run) = Run::read(&directory.join(&point.folder)) else { return false };
    // Figures that later versions added are missing in older files.
    let figures = |result: &PointResult| {
        let PointResult { scenario, tenant, verdict, throughput, p50_ns, p99_ns, .. } = result;
        let tested = (scenario.clone(), tenant.clone(), verdict.clone());
        (tested, *throughput, *p50_ns, *p99_ns)
    };
    results(&run).iter().map(figures).ne(point.results.iter().map(figures))
}

/// Changes to the folder in which a sweep was started, so that its relative paths are valid.
/// Returns the path of its directory from there.
///
/// # Errors
/// That folder does not exist any more.
pub fn return_to(base: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    if std::env::current_dir().is_ok_and(|here| here == base) {
        return Ok(directory.to_path_buf());
    }
    let gone = |error: std::io::Error| {
        let problem =
            format!("cannot change to {}, where the sweep was started: {error}", base.display());
        Failure::set_up(problem).hint("start a new sweep in another directory")
    };
    let directory = directory.canonicalize().map_err(gone)?;
    std::env::set_current_dir(base).map_err(gone)?;
    Ok(directory)
}

/// Compares a sweep to resume with the requested plan and the current files.
///
/// # Errors
/// All differences.
pub fn check(sweep: &Sweep, asked: Option<&SweepPlan>) -> Result<(), Failure> {
    let old = &sweep.definition;
    let mut changes = asked.map(|plan| differences(sweep, plan)).unwrap_or_default();
    changes.extend(inputs::changes(&old.files, &sweep.working_directory));
    let now = environment();
    for (name, value) in &old.environment {
        match now.get(name) {
            Some(other) if other == value => {}
            Some(other) => changes.push(format!("{name} was {value}, but is {other}")),
            None => changes.push(format!("{name} was {value}, but is not set")),
        }
    }
    let added = now.keys().filter(|name| !old.environment.contains_key(*name));
    changes.extend(added.map(|name| format!("{name} was not set")));
    if changes.is_empty() {
        return Ok(());
    }
    changes.dedup();
    let problem = |change: String| {
        format!(
            "the sweep differs from the one that was started: \
         {change}"
        )
    };
    Err(Failure::usages(changes.into_iter().map(problem).collect())
        .hint("start a new sweep in another directory, or undo the change"))
}

fn is_inside(folder: &Path) -> bool {
    let mut parts = folder.components();
    let is_normal = |part| matches!(part, Component::Normal(_));
    parts.next() == Some(Component::Normal("points".as_ref()))
        && parts.next().is_some_and(is_normal)
        && parts.next().is_none()
}

/// Returns the differences between two definitions, without files and environment.
fn differences(sweep: &Sweep, plan: &SweepPlan) -> Vec<String> {
    let (old, new) = (&sweep.definition, &plan.definition);
    let mut found = Vec::new();
    let mut differ = |what: &str, old: String, new: String| {
        if old != new {
            found.push(format!("{what} was {old}, but is {new}"));
        }
    };
    let list = |values: &[String]| match values {
        [] => "nothing".to_string(),
        values => values.join(","),
    };
    differ("the common argument list", list(&old.fixed), list(&new.fixed));
    for axis in &old.axes {
        let other = new.axes.iter().find(|other| other.key == axis.key);
        let other = other.map_or("fixed".into(), |other| list(&other.values));
        differ(&format!("axis `{}`", axis.key), list(&axis.values), other);
    }
    for axis in &new.axes {
        if old.axes.iter().all(|other| other.key != axis.key) {
            differ(&format!("axis `{}`", axis.key), "fixed".into(), list(&axis.values));
        }
    }
    let keys = |definition: &Definition| {
        let keys: Vec<String> = definition.axes.iter().map(|axis| axis.key.clone()).collect();
        list(&keys)
    };
    if old.axes.len() == new.axes.len() {
        differ("the order of the axes", keys(old), keys(new));
    }
    differ("the combination", old.combine.clone(), new.combine.clone());
    differ("exclusions", format!("{:?}", old.exclude), format!("{:?}", new.exclude));
    differ("the number of repeats", old.repeat.to_string(), new.repeat.to_string());
    differ("the order", old.order.clone(), new.order.clone());
    differ("the seed of the order", old.order_seed.to_string(), new.order_seed.to_string());
    for (old, new) in sweep.points.iter().zip(&plan.points) {
        let shown =
            |operations: Option<f64>| operations.map_or("unknown".into(), |n| n.to_string());
        if old.assignments == new.assignments && old.repeat == 1 {
            let what = format!("operations of {}", old.name);
            differ(&what, shown(old.operations), shown(new.operations));
        }
    }
    found
}
