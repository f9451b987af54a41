//! Collections of runs for one page: named runs, the points of a sweep, or the full runs of a
//! search.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::series;
use crate::summary::metrics::Distribution;
use crate::summary::{Metrics, Test};

use crate::contents::{self, Contents};

use crate::search;
use crate::sweep::{FILE as SWEEP, PointState, Sweep};

/// Several runs.
///
/// ```no_run
/// use std::path::PathBuf;
///
/// use dyno_results::collection::Collection;
///
/// let collection = Collection::read(&[PathBuf::from("runs")]);
/// for row in collection.rows() {
///     println!("{}: {:?} samples/s", row.label(), row.throughput());
/// }
/// ```
#[derive(Debug, Default)]
pub struct Collection {
    /// Runs that could be read at least in part.
    pub members: Vec<Member>,
    /// Problems of reading, as sentences.
    pub problems: Vec<String>,
    /// Sweeps, whose runs are members.
    pub sweeps: Vec<Sweep>,
    /// Searches.
    pub searches: Vec<SearchDirectory>,
    /// Folders of the members, sweeps and searches, as absolute paths without links.
    folders: BTreeSet<PathBuf>,
}

/// Run of a collection.
#[derive(Debug)]
pub struct Member {
    /// Label that identifies the run among the others.
    pub label: String,
    /// Values of the axes of a sweep; empty outside sweeps.
    pub assignments: BTreeMap<String, String>,
    /// Operations of the model per sample, if known.
    pub operations: Option<f64>,
    /// Content of its run directory.
    pub contents: Contents,
}

impl Collection {
    /// Reads run directories, folders of run directories, sweeps and searches. What is named several
    /// times counts once. What cannot be read is added to [`Collection::problems`].
    pub fn read(paths: &[PathBuf]) -> Self {
        let mut several = Self::default();
        // Sweeps and searches come first, because they have the labels and axes of their runs.
        let (jobs, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
            paths.iter().partition(|path| is_sweep(path) || is_search(path));
        for path in jobs {
            if !several.is_first(path) {
                continue;
            }
            if is_sweep(path) {
                several.add_sweep(path);
            } else {
                several.add_search(path);
            }
        }
        for path in others {
            several.add_all(path);
        }
        several.tell_apart();
        several
    }

    /// Remembers a folder, and returns whether it is new.
    fn is_first(&mut self, folder: &Path) -> bool {
        self.folders.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf()))
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
                if !self.is_first(&contents.path) {
                    return;
                }
                let label = label.unwrap_or_else(|| contents.label());
                self.members.push(Member { label, assignments, operations, contents });
            }
            Err(problems) => self.problems.extend(problems),
        }
    }

    /// Adds every run directory at and below a path.
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
                PointState::Skipped => {}
                PointState::Failed => {
                    let why = point.message.as_deref().unwrap_or("its process reported no reason");
                    self.problems.push(format!("Point {} failed: {why}", point.name));
                }
                PointState::Done | PointState::Undecided | PointState::Invalid => {
                    // A damaged file must not lead out of the sweep.
                    let folder = Path::new(&point.folder);
                    if !is_inside(folder) {
                        let name = &point.name;
                        self.problems.push(format!(
                            "Point {name}: {} is outside this directory",
                            point.folder
                        ));
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
            self.problems.push(format!("{pending} of {all} points are not run yet."));
        }
        self.sweeps.push(sweep);
    }

    /// Adds the name of the parent folder to labels that are not unique.
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

    /// Returns the performance tests of all runs, with the accuracy of the accuracy test of the same
    /// scenario and tenant. A scenario and tenant without performance result has a row for each of
    /// its tests.
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

fn is_sweep(path: &Path) -> bool {
    path.join(SWEEP).exists()
}

fn is_search(path: &Path) -> bool {
    path.join(search::FILE).exists()
}

/// Search directory with its state.
#[derive(Debug)]
pub struct SearchDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// State of the search.
    pub state: search::State,
}

impl SearchDirectory {
    /// Returns the title of the search, such as `Search of mock`.
    pub fn name(&self) -> String {
        format!("Search of {}", self.state.definition.system)
    }

    /// Returns the run directories of the full runs, with their labels.
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

/// Returns whether a relative path stays below the folder that it is relative to.
pub fn is_inside(folder: &Path) -> bool {
    folder.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Test of a run of a collection.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Run of the test.
    pub member: &'a Member,
    /// The test.
    pub test: &'a Test,
    /// Metrics, if the test has a performance result.
    pub metrics: Option<&'a Metrics>,
    /// Accuracy in [0, 1] of the same scenario and tenant.
    pub accuracy: Option<f64>,
    /// Plots of the test.
    pub series: Option<&'a series::Test>,
}

impl<'a> Row<'a> {
    /// Returns the label of the run, with the tenant if there is one.
    pub fn label(&self) -> String {
        match &self.test.tenant {
            Some(tenant) => format!("{} ({tenant})", self.member.label),
            None => self.member.label.clone(),
        }
    }

    /// Returns the latency of queries, or of samples where queries are not timed; `None` if no query
    /// was answered.
    pub fn timed(&self) -> Option<&'a Distribution> {
        self.metrics?.answered()
    }

    /// Returns the samples answered per second; for SingleStream the queries per second.
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
