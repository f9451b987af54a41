//! Writes the files of a submission in the layout of its round. They are written to a hidden
//! folder and moved to their places when all are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::plan::PlannedResult;
use super::runs::{TestRun, name_of};
use super::truncate::{LIMIT_BYTES, TruncatedLog, shorten};
use super::{
    MissingField, PackageError, PackageRequest, completeness, describe, existing, user_conf,
};
use crate::audit::metrics_in;
use crate::entry::DivisionFolder;
use crate::facts::loadgen;
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL, Layout, RESULTS, SUMMARY, SYSTEMS};
use dyno_rules::Benchmark;
use dyno_tensors::files;

/// Changes to a tree, apart from its results.
#[derive(Debug, Default)]
pub(super) struct WriteSummary {
    pub missing_fields: Vec<MissingField>,
    pub notes: Vec<String>,
    /// Existing files that were not changed.
    pub kept: Vec<PathBuf>,
    /// Existing files in which a marker was replaced.
    pub completed: Vec<PathBuf>,
}

/// A tree that is being written.
struct TreeWriter<'a> {
    request: &'a PackageRequest<'a>,
    layout: Layout,
    /// Final path of the tree.
    out: &'a Path,
    /// Folder in which the files are prepared.
    staging: Staging,
    /// Files and folders to move, in order. Results are last, so that a visible result always
    /// has its other files.
    pieces: Vec<PathBuf>,
    /// Accuracy logs that were read, by path. Several results may use one log.
    shortened: BTreeMap<PathBuf, TruncatedLog>,
    written: WriteSummary,
}

/// A temporary folder with its lock, removed on drop unless it was renamed.
struct Staging(PathBuf, #[expect(dead_code, reason = "held, not read")] Option<fs::File>);

impl Drop for Staging {
    fn drop(&mut self) {
        // Fails if the folder was renamed, which is expected.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes the results to the tree.
pub(super) fn write(
    request: &PackageRequest<'_>,
    benchmark: &Benchmark,
    results: &[PlannedResult<'_>],
    out: &Path,
) -> Result<WriteSummary, PackageError> {
    let layout = Layout::for_round(request.round.version);
    let is_new = !out.exists();
    check_layout(request, layout, out)?;
    let staging = stage(out, is_new)?;
    let (pieces, shortened, written) = (Vec::new(), BTreeMap::new(), WriteSummary::default());
    let mut tree = TreeWriter { request, layout, out, staging, pieces, shortened, written };
    tree.check_free(results)?;
    tree.system()?;
    tree.pages(results)?;
    tree.mapping()?;
    for result in results {
        tree.audits(result)?;
    }
    for result in results {
        tree.measurement(result)?;
    }
    for result in results {
        tree.result(benchmark, result)?;
    }
    tree.place(is_new)
}

/// Checks that the tree has the layout of the round.
fn check_layout(
    request: &PackageRequest<'_>,
    layout: Layout,
    out: &Path,
) -> Result<(), PackageError> {
    let own = [layout.measurements(), layout.compliance(), layout.code()];
    let all = [Layout::First, Layout::Apart, Layout::Together];
    let other_folders =
        all.iter().flat_map(|other| [other.measurements(), other.compliance(), other.code()]);
    let foreign: Vec<&str> =
        other_folders.filter(|name| *name != RESULTS && !own.contains(name)).collect();
    for division in ["closed", "open", "network"] {
        let Ok(submitters) = fs::read_dir(out.join(division)) else { continue };
        for submitter in submitters.filter_map(Result::ok) {
            if let Some(name) = foreign.iter().find(|name| submitter.path().join(name).is_dir()) {
                let path = submitter.path().join(name);
                return Err(PackageError::OtherLayout { path, round: request.round.version });
            }
        }
    }
    Ok(())
}

/// Returns the submitter's folder.
fn submitter(request: &PackageRequest<'_>) -> PathBuf {
    Path::new(request.division.name()).join(&request.submitter)
}

/// Returns the folder of a result below a folder of the submitter.
fn below(request: &PackageRequest<'_>, folder: &str, result: &PlannedResult<'_>) -> PathBuf {
    let system = submitter(request).join(folder).join(&request.system);
    system.join(&result.model).join(result.scenario.name())
}

/// Returns the folder of a result, relative to the root.
pub(super) fn result(request: &PackageRequest<'_>, result: &PlannedResult<'_>) -> PathBuf {
    below(request, RESULTS, result)
}

/// Creates a temporary folder: next to a new tree, or inside an existing one.
fn stage(out: &Path, is_new: bool) -> Result<Staging, PackageError> {
    let path = if is_new {
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|error| PackageError::file(parent, &error))?;
        out.with_file_name(format!(".{}.partial", name_of(out)))
    } else {
        out.join(".package.partial")
    };
    let is_fresh = match fs::create_dir(&path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(PackageError::file(&path, &error)),
    };
    // The lock ends with its process, so that a killed package is no obstacle.
    let lock = fs::File::open(&path).and_then(|folder| Ok(folder.try_lock().map(|()| folder)?));
    let lock = match lock {
        Ok(lock) => Some(lock),
        // The system may have no locks of folders.
        Err(error) if is_fresh && error.kind() != io::ErrorKind::WouldBlock => None,
        Err(_) => {
            let problem = "belongs to a package that is still being written; wait until it is \
                 complete"
                .to_owned();
            return Err(PackageError::File { path, problem });
        }
    };
    // What a killed package left are copies.
    let emptied = fs::read_dir(&path).and_then(|entries| {
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
        Ok(())
    });
    emptied.map_err(|error| PackageError::file(&path, &error))?;
    Ok(Staging(path, lock))
}

impl TreeWriter<'_> {
    fn submitter(&self) -> PathBuf {
        submitter(self.request)
    }

    fn below(&self, folder: &str, result: &PlannedResult<'_>) -> PathBuf {
        below(self.request, folder, result)
    }

    fn check_free(&self, results: &[PlannedResult<'_>]) -> Result<(), PackageError> {
        let folders = [self.layout.compliance(), self.layout.measurements(), RESULTS];
        for result in results {
            for folder in folders {
                let path = self.out.join(self.below(folder, result));
                if path.exists() {
                    return Err(PackageError::Exists { path });
                }
            }
        }
        Ok(())
    }

    /// Writes one file and creates its folders.
    fn put(&self, path: &Path, content: &[u8]) -> Result<(), PackageError> {
        let path = self.make_room(path)?;
        fs::write(&path, content).map_err(|error| PackageError::file(&path, &error))
    }

    fn copy(&self, source: &Path, target: &Path) -> Result<(), PackageError> {
        let target = self.make_room(target)?;
        // Not `fs::copy`, which would copy the permissions: a submission is edited later.
        let copied = files::open(source).and_then(|mut source| {
            let mut target = fs::File::create(&target)?;
            io::copy(&mut source, &mut target)
        });
        copied.map(|_| ()).map_err(|error| PackageError::file(source, &error))
    }

    /// Copies a folder without links and without the file `but`.
    fn copy_folder(&self, source: &Path, target: &Path, but: &Path) -> Result<(), PackageError> {
        let entries = fs::read_dir(source).map_err(|error| PackageError::file(source, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| PackageError::file(source, &error))?;
            let kind = entry.file_type().map_err(|error| PackageError::file(source, &error))?;
            let target = target.join(entry.file_name());
            if kind.is_dir() {
                self.copy_folder(&entry.path(), &target, but)?;
            } else if kind.is_file() && entry.path() != but {
                self.copy(&entry.path(), &target)?;
            }
        }
        Ok(())
    }

    fn make_room(&self, path: &Path) -> Result<PathBuf, PackageError> {
        let path = self.staging.0.join(path);
        let parent = path.parent().unwrap_or(&self.staging.0);
        fs::create_dir_all(parent).map_err(|error| PackageError::file(parent, &error))?;
        Ok(path)
    }

    /// Writes a JSON file and records its markers.
    fn json(&mut self, path: &Path, fields: &Map<String, Value>) -> Result<(), PackageError> {
        self.note_marks(path, fields);
        let mut text = serde_json::to_string_pretty(fields).expect("texts and numbers serialise");
        text.push('\n');
        self.put(path, text.as_bytes())
    }

    fn note_marks(&mut self, path: &Path, fields: &Map<String, Value>) {
        for (field, with) in describe::marks(fields) {
            self.must_fill(path, field, with);
        }
    }

    fn must_fill(&mut self, path: &Path, field: &str, with: &str) {
        let (path, field, with) = (path.to_owned(), field.to_owned(), with.to_owned());
        self.written.missing_fields.push(MissingField { path, field, with });
    }

    fn system(&mut self) -> Result<(), PackageError> {
        let path = self.submitter().join(SYSTEMS).join(format!("{}.json", self.request.system));
        let Some(existing) = existing::object(&self.out.join(&path))? else {
            let fields = describe::system(self.request, &self.request.captured);
            self.pieces.push(path.clone());
            return self.json(&path, &fields);
        };
        let description = existing::system(self.request, &path, existing)?;
        self.written.notes.extend(description.notes);
        if description.is_completed {
            self.pieces.push(path.clone());
            self.written.completed.push(path.clone());
            self.json(&path, &description.fields)
        } else {
            self.note_marks(&path, &description.fields);
            self.written.kept.push(path);
            Ok(())
        }
    }

    /// Writes the pages on calibration and code.
    fn pages(&mut self, results: &[PlannedResult<'_>]) -> Result<(), PackageError> {
        let models: BTreeSet<&str> = results.iter().map(|result| result.model.as_str()).collect();
        for model in models {
            let folder = self.submitter().join(self.layout.code()).join(model);
            let page = folder.join("README.md");
            self.page("code", &page, folder, &format!("# Code of {model}"))?;
        }
        // Both paths are valid.
        let places = ["documentation/calibration.md", "calibration.md"];
        let places = places.map(|place| self.submitter().join(place));
        let existing = places.iter().find(|place| self.out.join(place).exists());
        let page = existing.unwrap_or(&places[0]).clone();
        let subject = format!("{} on {}", self.request.benchmark, self.request.system);
        self.page("calibration", &page, page.clone(), &format!("# Calibration: {subject}"))
    }

    /// Writes a page that is moved as part of `piece`, unless the piece exists. The submitter
    /// may have edited an existing page, so only its marker is replaced.
    fn page(
        &mut self,
        name: &str,
        path: &Path,
        piece: PathBuf,
        title: &str,
    ) -> Result<(), PackageError> {
        let page_text = describe::page(self.request, name);
        if !self.out.join(&piece).exists() {
            let mark = describe::marker(describe::page_hint(name));
            let text = page_text.or(mark.as_str()).unwrap_or_default();
            if page_text.is_none() {
                self.must_fill(path, "text", describe::page_hint(name));
            }
            self.pieces.push(piece);
            return self.put(path, format!("{title}\n\n{text}\n").as_bytes());
        }
        let existing = files::read_to_string(self.out.join(path)).unwrap_or_default();
        match (existing::marked_line(&existing), page_text) {
            (Some(line), Some(page_text)) => {
                self.pieces.push(path.to_owned());
                self.written.completed.push(path.to_owned());
                return self.put(path, existing.replacen(line, page_text, 1).as_bytes());
            }
            (Some(line), None) => {
                self.must_fill(path, "text", describe::hint_in(line).unwrap_or_default());
            }
            (None, _) => {}
        }
        self.written.kept.push(piece);
        Ok(())
    }

    /// Writes `model_mapping.json` of the open division and keeps existing entries.
    fn mapping(&mut self) -> Result<(), PackageError> {
        let Some(official) = &self.request.stands_for else { return Ok(()) };
        let path = self.submitter().join("model_mapping.json");
        let mut mapping = existing::object(&self.out.join(&path))?.unwrap_or_default();
        let model = self.request.benchmark.clone();
        match mapping.insert(model.clone(), official.as_str().into()) {
            Some(known) if known == *official.as_str() => Ok(()),
            Some(known) => Err(PackageError::MappedAlready { model, official: known.to_string() }),
            None => {
                self.pieces.push(path.clone());
                self.json(&path, &mapping)
            }
        }
    }

    fn audits(&mut self, result: &PlannedResult<'_>) -> Result<(), PackageError> {
        let folder = self.below(self.layout.compliance(), result);
        for audit in &result.audits {
            let target = folder.join(&audit.name);
            // The log of TEST01 is truncated and hashed like the log of the accuracy run. Logs
            // of other audits are copied completely for reviewers.
            let source = audit.folder.join("accuracy");
            let log = source.join(ACCURACY_LOG);
            let is_cut = audit.name == "TEST01" && log.is_file();
            self.copy_folder(&audit.folder, &target, if is_cut { &log } else { Path::new("") })?;
            if is_cut {
                let text = files::read(source.join(ACCURACY_TEXT)).unwrap_or_default();
                self.accuracy_log(&log, &text, &target.join("accuracy"), |_| Ok(()))?;
            }
        }
        if !result.audits.is_empty() && self.layout != Layout::Together {
            self.pieces.push(folder);
        }
        Ok(())
    }

    /// Writes the truncated accuracy log and the text next to it. Each log is read once, even if
    /// several results use it: `look`, truncation and hash share one pass.
    fn accuracy_log(
        &mut self,
        log: &Path,
        text: &[u8],
        target: &Path,
        look: impl FnOnce(&mut dyn Read) -> Result<(), PackageError>,
    ) -> Result<(), PackageError> {
        let short = match self.shortened.remove(log) {
            Some(short) => short,
            None => shorten(log, text.to_owned(), look)?,
        };
        match &short.log {
            Some(content) => self.put(&target.join(ACCURACY_LOG), content)?,
            None => self.copy(log, &target.join(ACCURACY_LOG))?,
        }
        self.put(&target.join(ACCURACY_TEXT), short.text.as_deref().unwrap_or(text))?;
        self.shortened.insert(log.to_owned(), short);
        Ok(())
    }

    fn measurement(&mut self, result: &PlannedResult<'_>) -> Result<(), PackageError> {
        let request = self.request;
        let folder = self.below(self.layout.measurements(), result);
        let name = match self.layout {
            Layout::First | Layout::Apart => {
                format!("{}_{}.json", request.system, result.scenario.name())
            }
            Layout::Together => "measurements.json".to_owned(),
        };
        self.json(&folder.join(name), &describe::measurement(request))?;
        let test = result.performance[0];
        let user_conf_path = test.folder.join("user.conf");
        let text = match files::read(&user_conf_path) {
            Ok(text) if !text.is_empty() => text,
            _ => user_conf::user_conf(&test.detail, result.scenario).into_bytes(),
        };
        self.put(&folder.join("user.conf"), &text)?;
        if request.round.measurement_files.iter().any(|file| file == "mlperf.conf") {
            let text = user_conf::mlperf_conf(request.round);
            self.put(&folder.join("mlperf.conf"), text.as_bytes())?;
        }
        self.put(&folder.join("README.md"), readme(request, result).as_bytes())?;
        self.power_notes(test, &folder)?;
        if self.layout != Layout::Together {
            self.pieces.push(folder);
        }
        Ok(())
    }

    /// Copies the pages on the set-up of a power measurement, which are next to the logs.
    fn power_notes(&self, test: &TestRun, target: &Path) -> Result<(), PackageError> {
        for folder in [Some(test.folder.as_path()), test.folder.parent()].into_iter().flatten() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = name_of(&path);
                let is_note = ["power_settings.", "analyzer_table."].iter();
                if is_note.clone().any(|start| name.starts_with(start)) && path.is_file() {
                    self.copy(&path, &target.join(name))?;
                }
            }
        }
        Ok(())
    }

    fn result(
        &mut self,
        benchmark: &Benchmark,
        result: &PlannedResult<'_>,
    ) -> Result<(), PackageError> {
        let folder = self.below(RESULTS, result);
        self.accuracy(benchmark, result, &folder.join("accuracy"))?;
        for (number, test) in (1..).zip(&result.performance) {
            let target = folder.join(format!("performance/run_{number}"));
            for name in [SUMMARY, DETAIL] {
                self.copy(&test.folder.join(name), &target.join(name))?;
            }
            for name in [ACCURACY_LOG, "spl.txt"] {
                let source = test.folder.join(name);
                // The accuracy log of an audited run may be long and is not required.
                if fs::metadata(&source)
                    .is_ok_and(|file| file.len() <= LIMIT_BYTES || name == "spl.txt")
                {
                    self.copy(&source, &target.join(name))?;
                }
            }
        }
        let first = result.performance[0].folder.as_path();
        for beside in [Some(first), first.parent()].into_iter().flatten() {
            for name in ["power", "ranging"] {
                let source = beside.join(name);
                if beside.join("power").is_dir() && source.is_dir() {
                    self.copy_folder(
                        &source,
                        &folder.join("performance").join(name),
                        Path::new(""),
                    )?;
                }
            }
        }
        self.pieces.push(folder);
        Ok(())
    }

    fn accuracy(
        &mut self,
        benchmark: &Benchmark,
        result: &PlannedResult<'_>,
        target: &Path,
    ) -> Result<(), PackageError> {
        let test = result.accuracy;
        for name in [SUMMARY, DETAIL] {
            self.copy(&test.folder.join(name), &target.join(name))?;
        }
        let text = match (files::read(test.folder.join(ACCURACY_TEXT)), test.quality) {
            (Ok(text), _) => text,
            (Err(_), Some(quality)) => quality.text().into_bytes(),
            (Err(_), None) => {
                return Err(PackageError::NotScored { folder: test.folder.clone() });
            }
        };
        if let Some(metric) = missing_metric(self.request, benchmark, result, &text) {
            let (folder, benchmark) = (test.folder.clone(), benchmark.name.clone());
            return Err(PackageError::MetricMissing { folder, benchmark, metric });
        }
        let log = test.folder.join(ACCURACY_LOG);
        let look = |read: &mut dyn Read| completeness::check(read, &log, &test.detail);
        self.accuracy_log(&log, &text, target, look)?;
        for folder in benchmark.accuracy_outputs.keys() {
            let source = test.folder.join(folder);
            if source.is_dir() {
                self.copy_folder(&source, &target.join(folder), Path::new(""))?;
            }
        }
        Ok(())
    }

    /// Moves the prepared files to their places.
    fn place(self, is_new: bool) -> Result<WriteSummary, PackageError> {
        let Self { out, staging, pieces, written, .. } = self;
        if is_new {
            fs::rename(&staging.0, out).map_err(|error| PackageError::file(out, &error))?;
            return Ok(written);
        }
        for piece in pieces {
            let target = out.join(&piece);
            let parent = target.parent().unwrap_or(out);
            let moved = fs::create_dir_all(parent)
                .and_then(|()| fs::rename(staging.0.join(&piece), &target));
            moved.map_err(|error| PackageError::file(&target, &error))?;
        }
        Ok(written)
    }
}

/// Returns the first metric with a target that the output of an accuracy script lacks.
fn missing_metric(
    request: &PackageRequest<'_>,
    benchmark: &Benchmark,
    result: &PlannedResult<'_>,
    text: &[u8],
) -> Option<String> {
    let targets = benchmark.accuracy.iter().filter(|target| {
        let is_here = target.scenario.is_none_or(|scenario| scenario == result.scenario);
        is_here && target.at_least.is_some()
    });
    let names: Vec<&str> = targets.map(|target| target.metric.as_str()).collect();
    let values = metrics_in(&String::from_utf8_lossy(text), request.round, &names);
    let mut missing = names.iter().zip(values).filter(|(_, value)| value.is_none());
    missing.next().map(|(name, _)| (*name).to_owned())
}

/// Returns a page that describes how the result was produced and how to reproduce it.
fn readme(request: &PackageRequest<'_>, result: &PlannedResult<'_>) -> String {
    let (scenario, benchmark) = (result.scenario.name(), &result.model);
    let mut text = format!("# {benchmark}, {scenario}, on {}\n\n", request.system);
    if let Some(official) = &request.stands_for {
        let _ = writeln!(text, "`{benchmark}` is a custom model, submitted as `{official}`.\n");
    }
    if result.run != result.scenario {
        let run = result.run.name();
        let _ = writeln!(text, "Inferred, as the rules allow, from the {run} run.\n");
    }
    if *benchmark != request.benchmark {
        let high = &request.benchmark;
        let _ = writeln!(text, "Copied, as the rules allow, from the result of `{high}`.\n");
    }
    let tests = [result.accuracy].into_iter().chain(result.performance.iter().copied());
    let mut commands: Vec<&str> = tests.filter_map(|test| test.command.as_deref()).collect();
    commands.dedup();
    let detail = &result.performance[0].detail;
    let value = |key: &str| detail.text(key).unwrap_or("unknown");
    let _ = writeln!(
        text,
        "Load generator: {}. System under test: `{}`. Samples: `{}`.",
        value("loadgen_version"),
        value("sut_name"),
        value("qsl_name")
    );
    if loadgen::is_simulated(detail.text("loadgen_version"), detail.text("power_begin")) {
        text += "\nSimulated in virtual time: the run measured no system.\n\n";
    }
    if request.division == DivisionFolder::Open {
        text += "Open division: the measurement file lists the differences from the reference.\n";
    }
    if !commands.is_empty() {
        text += "\nCommand:\n\n```sh\n";
        for command in commands {
            let _ = writeln!(text, "{command}");
        }
        text += "```\n";
    }
    text += "\nThe settings of the run are in `user.conf`.\n";
    text
}
