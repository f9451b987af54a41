//! Collection runs for one page: those that were named, the points of a sweep, or
//! the full runs of a search.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::series;
use crate::summary::metrics::Distribution;
use crate::summary::{Metrics, Test};

use crate::contents::{self, Contents};

use crate::search;
use crate::sweep::{FILE as SWEEP, PointState, Sweep};

/// Collection runs.
#[derive(Debug, Default)]
pub struct Collection {
    /// Each run that has anything to show.
    pub members: Vec<Member>,
    /// What could not be read, in sentences.
    pub problems: Vec<String>,
    /// The names of the sweeps that they are points of.
    pub sweeps: Vec<String>,
    /// The searches among what was named.
    pub searches: Vec<SearchDirectory>,
}

/// One of several runs.
#[derive(Debug)]
pub struct Member {
    /// What tells it from the others.
    pub label: String,
    /// Values of a sweep's axes.
    pub assignments: BTreeMap<String, String>,
    /// Operations of the model for a sample, where they are known.
    pub operations: Option<f64>,
    /// What its directory holds.
    pub contents: Contents,
}

impl Collection {
    /// Reads run directories, folders of them, and sweeps. Never fails: what does
    /// not read is a problem.
    pub fn read(paths: &[PathBuf]) -> Self {
        let mut several = Self::default();
        for path in paths {
            if path.join(SWEEP).exists() {
                several.add_sweep(path);
            } else if path.join(search::FILE).exists() {
                several.add_search(path);
            } else {
                several.add_all(path);
            }
        }
        several.tell_apart();
        several
    }

    fn add(
        &mut self,
        directory: &Path,
        assignments: BTreeMap<String, String>,
        operations: Option<f64>,
        label: Option<String>,
    ) {
        match Contents::read(directory) {
            Ok(contents) => {
                let label = label.unwrap_or_else(|| contents.label());
                self.members.push(Member { label, assignments, operations, contents });
            }
            Err(problems) => self.problems.extend(problems),
        }
    }

    /// Every run directory at and below a path.
    fn add_all(&mut self, path: &Path) {
        for directory in contents::directories(path) {
            self.add(&directory, BTreeMap::new(), None, None);
        }
    }

    fn add_search(&mut self, path: &Path) {
        match search::State::read(path) {
            Ok(state) => {
                let search = SearchDirectory { path: path.to_path_buf(), state };
                for (directory, label) in search.full_runs() {
                    self.add(&directory, BTreeMap::new(), None, Some(label));
                }
                self.searches.push(search);
            }
            Err(error) => {
                self.problems.push(format!("{error}."));
                self.add_all(path);
            }
        }
    }

    fn add_sweep(&mut self, path: &Path) {
        let sweep = match Sweep::read(path) {
            Ok(sweep) => sweep,
            Err(error) => {
                self.problems.push(format!("{error}."));
                self.add_all(path);
                return;
            }
        };
        let mut pending = 0;
        for point in &sweep.points {
            match point.state {
                PointState::Pending => pending += 1,
                PointState::Failed => {
                    let why = point.message.as_deref().unwrap_or("its process says nothing");
                    self.problems.push(format!("Point {} failed: {why}", point.name));
                }
                PointState::Done | PointState::Undecided | PointState::Invalid => {
                    // A damaged file must not lead out of the sweep.
                    let folder = Path::new(&point.folder);
                    if !is_inside(folder) {
                        let name = &point.name;
                        self.problems.push(format!("Point {name}: {} is elsewhere", point.folder));
                        continue;
                    }
                    let repeat = if sweep.definition.repeat > 1 {
                        format!(", repeat {}", point.repeat)
                    } else {
                        String::new()
                    };
                    self.add(
                        &path.join(folder),
                        point.assignments.clone(),
                        point.operations.filter(|operations| *operations > 0.0),
                        Some(format!("{}{repeat}", point.name)),
                    );
                }
            }
        }
        if pending > 0 {
            let all = sweep.points.len();
            self.problems.push(format!("{pending} of {all} points have not been run yet."));
        }
        self.sweeps.push(sweep.name);
    }

    /// Gives folders of the same name the name of what they lie in, too.
    fn tell_apart(&mut self) {
        let labels: Vec<String> = self.members.iter().map(|member| member.label.clone()).collect();
        for member in &mut self.members {
            let is_unique = labels.iter().filter(|label| **label == member.label).count() == 1;
            let parent = member.contents.path.parent().and_then(Path::file_name);
            if let (false, Some(parent)) = (is_unique, parent) {
                member.label = format!("{}/{}", parent.to_string_lossy(), member.label);
            }
        }
    }

    /// Every performance test of every run, with what its accuracy test found. Where
    /// there is none with a result, the tests that there are.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for member in &self.members {
            let tests = &member.contents.run.tests;
            for test in tests {
                let same = || {
                    let of = |test: &'_ Test| (test.scenario.clone(), test.tenant.clone());
                    tests.iter().filter(move |other| of(other) == of(test))
                };
                if test.metrics.is_none() && same().any(|other| other.metrics.is_some()) {
                    continue;
                }
                let metrics = test.metrics.as_ref();
                let accuracy = same().find_map(|other| other.accuracy.as_ref()?.share());
                let series = member.contents.series.tests.iter().find(|s| s.folder == test.folder);
                rows.push(Row { member, test, metrics, accuracy, series });
            }
        }
        rows
    }
}

/// A search whose state was read.
#[derive(Debug)]
pub struct SearchDirectory {
    /// Its directory.
    pub path: PathBuf,
    /// What is known of it.
    pub state: search::State,
}

impl SearchDirectory {
    /// What the page is called.
    pub fn name(&self) -> String {
        format!("Search of {}", self.state.definition.system)
    }

    /// The full runs of a search, which have directories of their own, with their labels.
    pub fn full_runs(&self) -> Vec<(PathBuf, String)> {
        let Self { path, state } = self;
        let folders = state.points.iter().filter_map(|point| Some((point, point.folder.as_ref()?)));
        // A damaged file must not lead out of the search.
        let inside = folders.filter(|(_, folder)| is_inside(Path::new(folder)));
        let named = |(point, folder): (&search::Point, &String)| {
            (path.join(folder), format!("{folder}, {}", state.definition.load.show(point.load)))
        };
        inside.map(named).collect()
    }
}

/// Whether a folder that a file names lies below that file's own.
pub fn is_inside(folder: &Path) -> bool {
    folder.components().all(|part| matches!(part, Component::Normal(_)))
}

/// A test of one of several runs.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Its run.
    pub member: &'a Member,
    /// The test.
    pub test: &'a Test,
    /// Its numbers, if it has a result.
    pub metrics: Option<&'a Metrics>,
    /// Of the same scenario and tenant.
    pub accuracy: Option<f64>,
    /// Its plots.
    pub series: Option<&'a series::Test>,
}

impl<'a> Row<'a> {
    /// The run, and the tenant if there is one.
    pub fn label(&self) -> String {
        match &self.test.tenant {
            Some(tenant) => format!("{} ({tenant})", self.member.label),
            None => self.member.label.clone(),
        }
    }

    /// Of queries, where they are timed, or else of samples; none if none was answered.
    pub fn timed(&self) -> Option<&'a Distribution> {
        self.metrics?.answered()
    }

    /// Samples answered a second.
    pub fn throughput(&self) -> Option<f64> {
        let metrics = self.metrics?;
        let rates = &metrics.rates;
        let rate = rates.completed_samples_per_s.or(rates.samples_per_s);
        let rate = rate.or(rates.queries_per_s_with_overhead).or_else(|| {
            let seconds = metrics.lasted_ns as f64 / 1e9;
            (seconds > 0.0).then(|| metrics.sample_count as f64 / seconds)
        });
        rate.filter(|rate| rate.is_finite())
    }
}
