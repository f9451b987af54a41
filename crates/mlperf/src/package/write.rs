//! The files of a submission, in the layout of its round. They are written to a
//! hidden folder, and take their places by renames when all of them are there.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::plan::Planned;
use super::runs::{Test, name_of};
use super::truncate::{LIMIT_BYTES, shorten};
use super::{Asked, PackageError, ToFill, describe, user_conf};
use crate::round::{Benchmark, Scenario};
use crate::submission::entry::Division;
use crate::submission::layout::{
    ACCURACY_LOG, ACCURACY_TEXT, DETAIL, Layout, RESULTS, SUMMARY, SYSTEMS,
};

/// What a folder of a tree becomes where the tree has one already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// That stays as it is: a human may have completed it.
    Kept,
    /// That is in the way.
    New,
}

/// A tree on its way.
struct Tree<'a> {
    asked: &'a Asked<'a>,
    layout: Layout,
    /// Where it is filled.
    staging: Staging,
    /// What is moved as one, in the order in which it is: results last, so that who
    /// finds a result finds what belongs to it.
    pieces: Vec<(PathBuf, Place)>,
    to_fill: Vec<ToFill>,
}

/// A folder that is removed unless it was given its name.
struct Staging(PathBuf);

impl Drop for Staging {
    fn drop(&mut self) {
        // It may have been renamed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes the tree; returns what is to be filled in, and which files stayed.
pub(super) fn write(
    asked: &Asked<'_>,
    benchmark: &Benchmark,
    results: &[Planned<'_>],
    out: &Path,
) -> Result<(Vec<ToFill>, Vec<PathBuf>), PackageError> {
    let layout = Layout::of(asked.round.version);
    let is_new = !out.exists();
    let staging = stage(out, is_new)?;
    let mut tree = Tree { asked, layout, staging, pieces: Vec::new(), to_fill: Vec::new() };
    tree.check_free(results, out)?;
    tree.system()?;
    tree.pages(out)?;
    if asked.stands_for.is_some() {
        tree.mapping(out)?;
    }
    for result in results {
        tree.audits(result)?;
    }
    for result in results {
        tree.measurement(result)?;
    }
    for result in results {
        tree.result(benchmark, result)?;
    }
    tree.place(out, is_new)
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
    /// Folder of the submitter.
    fn submitter(&self) -> PathBuf {
        Path::new(self.asked.division.name()).join(&self.asked.submitter)
    }

    /// Folder of a scenario below one of the submitter's.
    fn below(&self, folder: &str, scenario: Scenario) -> PathBuf {
        let asked = self.asked;
        self.submitter()
            .join(folder)
            .join(&asked.system)
            .join(&asked.benchmark)
            .join(scenario.name())
    }

    fn check_free(&self, results: &[Planned<'_>], out: &Path) -> Result<(), PackageError> {
        let folders = [self.layout.compliance(), self.layout.measurements(), RESULTS];
        for result in results {
            for folder in folders {
                let path = out.join(self.below(folder, result.scenario));
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

    /// Everything in a folder but links.
    fn copy_folder(&self, from: &Path, to: &Path) -> Result<(), PackageError> {
        let entries = fs::read_dir(from).map_err(|error| PackageError::file(from, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| PackageError::file(from, &error))?;
            let kind = entry.file_type().map_err(|error| PackageError::file(from, &error))?;
            let to = to.join(entry.file_name());
            if kind.is_dir() {
                self.copy_folder(&entry.path(), &to)?;
            } else if kind.is_file() {
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
        for (field, with) in describe::marks(fields) {
            let (field, with) = (field.to_owned(), with.to_owned());
            self.to_fill.push(ToFill { path: path.to_owned(), field, with });
        }
        let mut text = serde_json::to_string_pretty(fields).expect("texts and numbers serialise");
        text.push('\n');
        self.put(path, text.as_bytes())
    }

    fn system(&mut self) -> Result<(), PackageError> {
        let fields = describe::system(self.asked, &self.asked.captured);
        let path = self.submitter().join(SYSTEMS).join(format!("{}.json", self.asked.system));
        self.json(&path, &fields)?;
        self.pieces.push((path, Place::Kept));
        Ok(())
    }

    /// Calibration, and what stands where the code is looked for.
    fn pages(&mut self, out: &Path) -> Result<(), PackageError> {
        let asked = self.asked;
        let code = self.submitter().join(self.layout.code()).join(&asked.benchmark);
        let calibration = self.submitter().join("documentation/calibration.md");
        let of = format!("{} on {}", asked.benchmark, asked.system);
        let pages = [
            ("code", code.join("README.md"), format!("# Code of {}", asked.benchmark), code),
            ("calibration", calibration.clone(), format!("# Calibration: {of}"), calibration),
        ];
        // Either place will do.
        let has_other = out.join(self.submitter()).join("calibration.md").exists();
        for (name, path, title, piece) in pages {
            if name == "calibration" && has_other {
                continue;
            }
            let text = describe::page(asked, name);
            if let Some(with) = text.strip_prefix(describe::MARKER) {
                let with = with.trim_start_matches([':', ' ']).to_owned();
                self.to_fill.push(ToFill { path: path.clone(), field: "text".to_owned(), with });
            }
            self.put(&path, format!("{title}\n\n{text}\n").as_bytes())?;
            self.pieces.push((piece, Place::Kept));
        }
        Ok(())
    }

    /// `model_mapping.json` of the open division, with what it had.
    fn mapping(&mut self, out: &Path) -> Result<(), PackageError> {
        let path = self.submitter().join("model_mapping.json");
        let there = out.join(&path);
        let mut mapping: Map<String, Value> = match fs::read(&there) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| PackageError::File {
                path: there.clone(),
                problem: format!("is no JSON object: {error}"),
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
            Err(error) => return Err(PackageError::file(&there, &error)),
        };
        let official = self.asked.stands_for.as_deref().unwrap_or_default();
        let known = mapping.get(&self.asked.benchmark).filter(|known| *known != official);
        if let Some(known) = known {
            let (model, official) = (self.asked.benchmark.clone(), known.to_string());
            return Err(PackageError::MappedAlready { model, official });
        }
        mapping.insert(self.asked.benchmark.clone(), official.into());
        self.json(&path, &mapping)?;
        if there.exists() {
            // A rename over the file that was there.
            self.pieces.push((path, Place::New));
        } else {
            self.pieces.push((path, Place::Kept));
        }
        Ok(())
    }

    fn audits(&mut self, result: &Planned<'_>) -> Result<(), PackageError> {
        let folder = self.below(self.layout.compliance(), result.scenario);
        for audit in &result.audits {
            let to = folder.join(&audit.name);
            self.copy_folder(&audit.folder, &to)?;
            self.shorten_audit(&to.join("accuracy"), &audit.name)?;
        }
        if !result.audits.is_empty() && self.layout != Layout::Together {
            self.pieces.push((folder, Place::New));
        }
        Ok(())
    }

    /// TEST01 logs a part of the data set, and its log is cut and hashed as that of the
    /// accuracy run is. Others are read by those who check the audit.
    fn shorten_audit(&self, folder: &Path, name: &str) -> Result<(), PackageError> {
        let log = self.staging.0.join(folder).join(ACCURACY_LOG);
        if name != "TEST01" || !log.is_file() {
            return Ok(());
        }
        let text_path = self.staging.0.join(folder).join(ACCURACY_TEXT);
        let short = shorten(&log, fs::read(text_path).unwrap_or_default())?;
        if let Some(kept) = &short.kept {
            self.put(&folder.join(ACCURACY_LOG), kept)?;
        }
        match &short.text {
            Some(text) => self.put(&folder.join(ACCURACY_TEXT), text),
            None => Ok(()),
        }
    }

    fn measurement(&mut self, result: &Planned<'_>) -> Result<(), PackageError> {
        let asked = self.asked;
        let folder = self.below(self.layout.measurements(), result.scenario);
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
            self.pieces.push((folder, Place::New));
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
        let folder = self.below(RESULTS, result.scenario);
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
                    self.copy_folder(&from, &folder.join("performance").join(name))?;
                }
            }
        }
        self.pieces.push((folder, Place::New));
        Ok(())
    }

    /// The log is read once: what is kept of it and its hash come of one pass.
    fn accuracy(&self, benchmark: &Benchmark, test: &Test, to: &Path) -> Result<(), PackageError> {
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
        super::whole::check(&log, &test.detail)?;
        let short = shorten(&log, text.clone())?;
        match &short.kept {
            Some(kept) => self.put(&to.join(ACCURACY_LOG), kept)?,
            None => self.copy(&log, &to.join(ACCURACY_LOG))?,
        }
        self.put(&to.join(ACCURACY_TEXT), short.text.as_ref().unwrap_or(&text))?;
        for folder in benchmark.accuracy_outputs.keys() {
            let from = test.folder.join(folder);
            if from.is_dir() {
                self.copy_folder(&from, &to.join(folder))?;
            }
        }
        Ok(())
    }

    /// Moves the pieces to their places.
    fn place(self, out: &Path, is_new: bool) -> Result<(Vec<ToFill>, Vec<PathBuf>), PackageError> {
        let mut to_fill = self.to_fill;
        if is_new {
            fs::rename(&self.staging.0, out).map_err(|error| PackageError::file(out, &error))?;
            return Ok((to_fill, Vec::new()));
        }
        let mut kept = Vec::new();
        for (piece, place) in self.pieces {
            let to = out.join(&piece);
            if place == Place::Kept && to.exists() {
                to_fill.retain(|fill| !fill.path.starts_with(&piece));
                kept.push(piece);
                continue;
            }
            let parent = to.parent().unwrap_or(out);
            let moved = fs::create_dir_all(parent)
                .and_then(|()| fs::rename(self.staging.0.join(&piece), &to));
            moved.map_err(|error| PackageError::file(&to, &error))?;
        }
        Ok((to_fill, kept))
    }
}

/// How the result came about, and how to get it again.
fn readme(asked: &Asked<'_>, result: &Planned<'_>) -> String {
    let (scenario, benchmark) = (result.scenario.name(), &asked.benchmark);
    let mut text = format!("# {benchmark}, {scenario}, on {}\n\n", asked.system);
    if let Some(official) = &asked.stands_for {
        let _ = writeln!(text, "`{benchmark}` is an own model; it stands for `{official}`.\n");
    }
    if result.run != result.scenario {
        let run = result.run.name();
        let _ = writeln!(text, "Inferred, as the rules allow, from the {run} run.\n");
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
    if asked.division == Division::Open {
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
