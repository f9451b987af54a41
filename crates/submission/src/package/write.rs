//! The files of a submission, in the layout of its round. They are written to a
//! hidden folder, and take their places by renames when all of them are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::plan::Planned;
use super::runs::{Test, name_of};
use super::truncate::{LIMIT_BYTES, Shortened, shorten};
use super::{Asked, PackageError, ToFill, describe, kept, user_conf, whole};
use crate::entry::DivisionFolder;
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL, Layout, RESULTS, SUMMARY, SYSTEMS};
use dyno_rules::Benchmark;

/// What became of a tree, beside its results.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub to_fill: Vec<ToFill>,
    pub notes: Vec<String>,
    /// What was there, and stayed as it was.
    pub kept: Vec<PathBuf>,
    /// What was there, and had a mark that is replaced.
    pub completed: Vec<PathBuf>,
}

/// A tree on its way.
struct Tree<'a> {
    asked: &'a Asked<'a>,
    layout: Layout,
    /// Where it will be, or is.
    out: &'a Path,
    /// Where it is filled.
    staging: Staging,
    /// What is moved as one, in the order in which it is: results last, so that who
    /// finds a result finds what belongs to it.
    pieces: Vec<PathBuf>,
    /// Accuracy logs that were read, by their paths: several results may have one.
    shortened: BTreeMap<PathBuf, Shortened>,
    written: Written,
}

/// A folder that is removed unless it was given its name.
struct Staging(PathBuf);

impl Drop for Staging {
    fn drop(&mut self) {
        // It may have been renamed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes the tree.
pub(super) fn write(
    asked: &Asked<'_>,
    benchmark: &Benchmark,
    results: &[Planned<'_>],
    out: &Path,
) -> Result<Written, PackageError> {
    let layout = Layout::for_round(asked.round.version);
    let is_new = !out.exists();
    check_layout(asked, layout, out)?;
    let staging = stage(out, is_new)?;
    let (pieces, shortened, written) = (Vec::new(), BTreeMap::new(), Written::default());
    let mut tree = Tree { asked, layout, out, staging, pieces, shortened, written };
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

/// A tree is of one round: its files lie as those of the round do.
fn check_layout(asked: &Asked<'_>, layout: Layout, out: &Path) -> Result<(), PackageError> {
    let own = [layout.measurements(), layout.compliance(), layout.code()];
    let all = [Layout::First, Layout::Apart, Layout::Together];
    let of_others = all.iter().flat_map(|of| [of.measurements(), of.compliance(), of.code()]);
    let foreign: Vec<&str> =
        of_others.filter(|name| *name != RESULTS && !own.contains(name)).collect();
    for division in ["closed", "open", "network"] {
        let Ok(submitters) = fs::read_dir(out.join(division)) else { continue };
        for submitter in submitters.filter_map(Result::ok) {
            if let Some(name) = foreign.iter().find(|name| submitter.path().join(name).is_dir()) {
                let path = submitter.path().join(name);
                return Err(PackageError::OtherLayout { path, round: asked.round.version });
            }
        }
    }
    Ok(())
}

/// Folder of the submitter.
fn submitter(asked: &Asked<'_>) -> PathBuf {
    Path::new(asked.division.name()).join(&asked.submitter)
}

/// Folder of a result below one of the submitter's.
fn below(asked: &Asked<'_>, folder: &str, result: &Planned<'_>) -> PathBuf {
    let system = submitter(asked).join(folder).join(&asked.system);
    system.join(&result.model).join(result.scenario.name())
}

/// Where a result lies, relative to the root.
pub(super) fn result(asked: &Asked<'_>, result: &Planned<'_>) -> PathBuf {
    below(asked, RESULTS, result)
}

/// A new folder: beside the tree, which it becomes, or in a tree that is there.
fn stage(out: &Path, is_new: bool) -> Result<Staging, PackageError> {
    let path = if is_new {
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|error| PackageError::file(parent, &error))?;
        out.with_file_name(format!(".{}.partial", name_of(out)))
    } else {
        out.join(".package.partial")
    };
    match fs::create_dir(&path) {
        Ok(()) => Ok(Staging(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(PackageError::File {
            path,
            problem: "is of a package that is being made, or was killed; remove it".to_owned(),
        }),
        Err(error) => Err(PackageError::file(&path, &error)),
    }
}

impl Tree<'_> {
    fn submitter(&self) -> PathBuf {
        submitter(self.asked)
    }

    fn below(&self, folder: &str, result: &Planned<'_>) -> PathBuf {
        below(self.asked, folder, result)
    }

    fn check_free(&self, results: &[Planned<'_>]) -> Result<(), PackageError> {
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

    /// Writes one file, its folders included.
    fn put(&self, path: &Path, content: &[u8]) -> Result<(), PackageError> {
        let path = self.make_room(path)?;
        fs::write(&path, content).map_err(|error| PackageError::file(&path, &error))
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<(), PackageError> {
        let to = self.make_room(to)?;
        // Not `fs::copy`, which takes the permissions along: a submission is edited.
        let copied = fs::File::open(from).and_then(|mut source| {
            let mut target = fs::File::create(&to)?;
            io::copy(&mut source, &mut target)
        });
        copied.map(|_| ()).map_err(|error| PackageError::file(from, &error))
    }

    /// Everything in a folder but links, and but one file.
    fn copy_folder(&self, from: &Path, to: &Path, but: &Path) -> Result<(), PackageError> {
        let entries = fs::read_dir(from).map_err(|error| PackageError::file(from, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| PackageError::file(from, &error))?;
            let kind = entry.file_type().map_err(|error| PackageError::file(from, &error))?;
            let to = to.join(entry.file_name());
            if kind.is_dir() {
                self.copy_folder(&entry.path(), &to, but)?;
            } else if kind.is_file() && entry.path() != but {
                self.copy(&entry.path(), &to)?;
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

    /// Writes a JSON file, and notes its marks.
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
        self.written.to_fill.push(ToFill { path, field, with });
    }

    fn system(&mut self) -> Result<(), PackageError> {
        let path = self.submitter().join(SYSTEMS).join(format!("{}.json", self.asked.system));
        let Some(there) = kept::object(&self.out.join(&path))? else {
            let fields = describe::system(self.asked, &self.asked.captured);
            self.pieces.push(path.clone());
            return self.json(&path, &fields);
        };
        let kept = kept::system(self.asked, &path, there)?;
        self.written.notes.extend(kept.notes);
        if kept.is_completed {
            self.pieces.push(path.clone());
            self.written.completed.push(path.clone());
            self.json(&path, &kept.fields)
        } else {
            self.note_marks(&path, &kept.fields);
            self.written.kept.push(path);
            Ok(())
        }
    }

    /// Calibration, and what stands where the code is looked for.
    fn pages(&mut self, results: &[Planned<'_>]) -> Result<(), PackageError> {
        let models: BTreeSet<&str> = results.iter().map(|result| result.model.as_str()).collect();
        for model in models {
            let folder = self.submitter().join(self.layout.code()).join(model);
            let page = folder.join("README.md");
            self.page("code", &page, folder, &format!("# Code of {model}"))?;
        }
        // Either place will do.
        let places = ["documentation/calibration.md", "calibration.md"];
        let places = places.map(|place| self.submitter().join(place));
        let there = places.iter().find(|place| self.out.join(place).exists());
        let page = there.unwrap_or(&places[0]).clone();
        let of = format!("{} on {}", self.asked.benchmark, self.asked.system);
        self.page("calibration", &page, page.clone(), &format!("# Calibration: {of}"))
    }

    /// A page that is moved to its place as part of a piece, unless that is there. A
    /// human may have put anything there, and completed the page.
    fn page(
        &mut self,
        name: &str,
        path: &Path,
        piece: PathBuf,
        title: &str,
    ) -> Result<(), PackageError> {
        let said = describe::page(self.asked, name);
        if !self.out.join(&piece).exists() {
            let mark = describe::marker(describe::page_tells(name));
            let text = said.or(mark.as_str()).unwrap_or_default();
            if said.is_none() {
                self.must_fill(path, "text", describe::page_tells(name));
            }
            self.pieces.push(piece);
            return self.put(path, format!("{title}\n\n{text}\n").as_bytes());
        }
        let there = fs::read_to_string(self.out.join(path)).unwrap_or_default();
        match (kept::marked_line(&there), said) {
            (Some(line), Some(said)) => {
                self.pieces.push(path.to_owned());
                self.written.completed.push(path.to_owned());
                return self.put(path, there.replacen(line, said, 1).as_bytes());
            }
            (Some(line), None) => {
                self.must_fill(path, "text", describe::wanted(line).unwrap_or_default());
            }
            (None, _) => {}
        }
        self.written.kept.push(piece);
        Ok(())
    }

    /// `model_mapping.json` of the open division, with what it had.
    fn mapping(&mut self) -> Result<(), PackageError> {
        let Some(official) = &self.asked.stands_for else { return Ok(()) };
        let path = self.submitter().join("model_mapping.json");
        let mut mapping = kept::object(&self.out.join(&path))?.unwrap_or_default();
        let model = self.asked.benchmark.clone();
        match mapping.insert(model.clone(), official.as_str().into()) {
            Some(known) if known == *official.as_str() => Ok(()),
            Some(known) => Err(PackageError::MappedAlready { model, official: known.to_string() }),
            None => {
                self.pieces.push(path.clone());
                self.json(&path, &mapping)
            }
        }
    }

    fn audits(&mut self, result: &Planned<'_>) -> Result<(), PackageError> {
        let folder = self.below(self.layout.compliance(), result);
        for audit in &result.audits {
            let to = folder.join(&audit.name);
            // TEST01 logs a part of the data set, and its log is cut and hashed as that of
            // the accuracy run is. Others are read by those who check the audit.
            let from = audit.folder.join("accuracy");
            let log = from.join(ACCURACY_LOG);
            let is_cut = audit.name == "TEST01" && log.is_file();
            self.copy_folder(&audit.folder, &to, if is_cut { &log } else { Path::new("") })?;
            if is_cut {
                let text = fs::read(from.join(ACCURACY_TEXT)).unwrap_or_default();
                self.accuracy_log(&log, &text, &to.join("accuracy"), |_| Ok(()))?;
            }
        }
        if !result.audits.is_empty() && self.layout != Layout::Together {
            self.pieces.push(folder);
        }
        Ok(())
    }

    /// Writes what a submission has of an accuracy log, and the text beside it. A log is
    /// read once, however many results have it: what `look` asks of it, what is kept of it
    /// and its hash come of one pass.
    fn accuracy_log(
        &mut self,
        log: &Path,
        text: &[u8],
        to: &Path,
        look: impl FnOnce(&mut dyn Read) -> Result<(), PackageError>,
    ) -> Result<(), PackageError> {
        let short = match self.shortened.remove(log) {
            Some(short) => short,
            None => shorten(log, text.to_owned(), look)?,
        };
        match &short.kept {
            Some(kept) => self.put(&to.join(ACCURACY_LOG), kept)?,
            None => self.copy(log, &to.join(ACCURACY_LOG))?,
        }
        self.put(&to.join(ACCURACY_TEXT), short.text.as_deref().unwrap_or(text))?;
        self.shortened.insert(log.to_owned(), short);
        Ok(())
    }

    fn measurement(&mut self, result: &Planned<'_>) -> Result<(), PackageError> {
        let asked = self.asked;
        let folder = self.below(self.layout.measurements(), result);
        let name = match self.layout {
            Layout::First | Layout::Apart => {
                format!("{}_{}.json", asked.system, result.scenario.name())
            }
            Layout::Together => "measurements.json".to_owned(),
        };
        self.json(&folder.join(name), &describe::measurement(asked))?;
        let test = result.performance[0];
        let given = test.folder.join("user.conf");
        let text = match fs::read(&given) {
            Ok(text) if !text.is_empty() => text,
            _ => user_conf::user_conf(&test.detail, result.scenario).into_bytes(),
        };
        self.put(&folder.join("user.conf"), &text)?;
        if asked.round.measurement_files.iter().any(|file| file == "mlperf.conf") {
            let text = user_conf::mlperf_conf(asked.round);
            self.put(&folder.join("mlperf.conf"), text.as_bytes())?;
        }
        self.put(&folder.join("README.md"), readme(asked, result).as_bytes())?;
        self.power_notes(test, &folder)?;
        if self.layout != Layout::Together {
            self.pieces.push(folder);
        }
        Ok(())
    }

    /// Where power was measured, the pages of the set-up that lie beside the logs.
    fn power_notes(&self, test: &Test, to: &Path) -> Result<(), PackageError> {
        for folder in [Some(test.folder.as_path()), test.folder.parent()].into_iter().flatten() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = name_of(&path);
                let is_note = ["power_settings.", "analyzer_table."].iter();
                if is_note.clone().any(|start| name.starts_with(start)) && path.is_file() {
                    self.copy(&path, &to.join(name))?;
                }
            }
        }
        Ok(())
    }

    fn result(&mut self, benchmark: &Benchmark, result: &Planned<'_>) -> Result<(), PackageError> {
        let folder = self.below(RESULTS, result);
        self.accuracy(benchmark, result.accuracy, &folder.join("accuracy"))?;
        for (number, test) in (1..).zip(&result.performance) {
            let to = folder.join(format!("performance/run_{number}"));
            for name in [SUMMARY, DETAIL] {
                self.copy(&test.folder.join(name), &to.join(name))?;
            }
            for name in [ACCURACY_LOG, "spl.txt"] {
                let from = test.folder.join(name);
                // The one of an audited run may be long, and is not asked for.
                if fs::metadata(&from)
                    .is_ok_and(|file| file.len() <= LIMIT_BYTES || name == "spl.txt")
                {
                    self.copy(&from, &to.join(name))?;
                }
            }
        }
        let first = result.performance[0].folder.as_path();
        for beside in [Some(first), first.parent()].into_iter().flatten() {
            for name in ["power", "ranging"] {
                let from = beside.join(name);
                if beside.join("power").is_dir() && from.is_dir() {
                    self.copy_folder(&from, &folder.join("performance").join(name), Path::new(""))?;
                }
            }
        }
        self.pieces.push(folder);
        Ok(())
    }

    fn accuracy(
        &mut self,
        benchmark: &Benchmark,
        test: &Test,
        to: &Path,
    ) -> Result<(), PackageError> {
        for name in [SUMMARY, DETAIL] {
            self.copy(&test.folder.join(name), &to.join(name))?;
        }
        let text = match (fs::read(test.folder.join(ACCURACY_TEXT)), test.quality) {
            (Ok(text), _) => text,
            (Err(_), Some(quality)) => quality.text().into_bytes(),
            (Err(_), None) => {
                return Err(PackageError::NotScored { folder: test.folder.clone() });
            }
        };
        let log = test.folder.join(ACCURACY_LOG);
        let look = |read: &mut dyn Read| whole::check(read, &log, &test.detail);
        self.accuracy_log(&log, &text, to, look)?;
        for folder in benchmark.accuracy_outputs.keys() {
            let from = test.folder.join(folder);
            if from.is_dir() {
                self.copy_folder(&from, &to.join(folder), Path::new(""))?;
            }
        }
        Ok(())
    }

    /// Moves the pieces to their places.
    fn place(self, is_new: bool) -> Result<Written, PackageError> {
        let Self { out, staging, pieces, written, .. } = self;
        if is_new {
            fs::rename(&staging.0, out).map_err(|error| PackageError::file(out, &error))?;
            return Ok(written);
        }
        for piece in pieces {
            let to = out.join(&piece);
            let parent = to.parent().unwrap_or(out);
            let moved =
                fs::create_dir_all(parent).and_then(|()| fs::rename(staging.0.join(&piece), &to));
            moved.map_err(|error| PackageError::file(&to, &error))?;
        }
        Ok(written)
    }
}

/// How the result came about, and how to get it again.
fn readme(asked: &Asked<'_>, result: &Planned<'_>) -> String {
    let (scenario, benchmark) = (result.scenario.name(), &result.model);
    let mut text = format!("# {benchmark}, {scenario}, on {}\n\n", asked.system);
    if let Some(official) = &asked.stands_for {
        let _ = writeln!(text, "`{benchmark}` is an own model; it stands for `{official}`.\n");
    }
    if result.run != result.scenario {
        let run = result.run.name();
        let _ = writeln!(text, "Inferred, as the rules allow, from the {run} run.\n");
    }
    if *benchmark != asked.benchmark {
        let high = &asked.benchmark;
        let _ = writeln!(text, "Copied, as the rules allow, from the result of `{high}`.\n");
    }
    let tests = [result.accuracy].into_iter().chain(result.performance.iter().copied());
    let mut commands: Vec<&str> = tests.filter_map(|test| test.command.as_deref()).collect();
    commands.dedup();
    let detail = &result.performance[0].detail;
    let of = |key: &str| detail.text(key).unwrap_or("unknown");
    let _ = writeln!(
        text,
        "Load generator: {}. System under test: `{}`. Samples: `{}`.",
        of("loadgen_version"),
        of("sut_name"),
        of("qsl_name")
    );
    if asked.division == DivisionFolder::Open {
        text += "Open division: see the measurement file for what differs from the reference.\n";
    }
    if !commands.is_empty() {
        text += "\nIt was run with:\n\n```sh\n";
        for command in commands {
            let _ = writeln!(text, "{command}");
        }
        text += "```\n";
    }
    text += "\nThe settings of the run are in `user.conf`.\n";
    text
}
