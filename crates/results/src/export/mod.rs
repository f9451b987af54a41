//! Exports of runs to formats of other programs.

mod junit;
mod metrics;
#[cfg(feature = "parquet")]
mod parquet;
mod prometheus;
mod rows;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use crate::foreign::{self, ForeignError, ForeignResult};
use crate::records::{self, Records, RecordsError};
use crate::{series, summary};

use text::OptionalColumns;
pub use text::quoted;

dyno_loadgen::named_enum! {
    /// Export format of a run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Format {
        /// Raw records, comma-separated (RFC 4180)
        Csv = "csv",
        /// Raw records, one JSON object per line
        Jsonl = "jsonl",
        /// Raw records, columnar; needs a build with --features parquet
        Parquet = "parquet",
        /// The metrics of each test as CSV, one line per metric
        Metrics = "metrics",
        /// The results as Prometheus text, for a textfile collector or a push gateway
        Prometheus = "prometheus",
        /// The verdicts as JUnit XML, for CI
        Junit = "junit",
    }
}

impl Format {
    /// Returns a description for a list of formats.
    pub fn description(self) -> &'static str {
        match self {
            Self::Csv => "Raw records, comma-separated (RFC 4180)",
            Self::Jsonl => "Raw records, one JSON object per line",
            Self::Parquet => "Raw records, columnar; needs a build with --features parquet",
            Self::Metrics => "The metrics of each test as CSV, one line per metric",
            Self::Prometheus => {
                "The results as Prometheus text, for a textfile collector or a push gateway"
            }
            Self::Junit => "The verdicts as JUnit XML, for CI",
        }
    }

    /// Checks that this build can write the format.
    ///
    /// # Errors
    /// [`ExportError::NoParquet`] for Parquet in a build without it.
    pub fn check(self) -> Result<(), ExportError> {
        if self == Self::Parquet && !cfg!(feature = "parquet") {
            Err(ExportError::NoParquet)
        } else {
            Ok(())
        }
    }

    /// Returns the format of a file, by its extension.
    pub fn of_file(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()? {
            "csv" => Self::Csv,
            "jsonl" | "ndjson" => Self::Jsonl,
            "parquet" => Self::Parquet,
            "prom" => Self::Prometheus,
            "xml" => Self::Junit,
            _ => return None,
        })
    }

    /// Returns whether the format is text.
    pub fn is_text(self) -> bool {
        self != Self::Parquet
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected one of {names}, found `{text}`")
        })
    }
}

/// Source of an export: a run, or a result of another tool.
pub struct Source<'a> {
    path: &'a Path,
    contents: Contents,
}

enum Contents {
    Run(Box<summary::Run>),
    Foreign(ForeignResult),
}

impl<'a> Source<'a> {
    /// Reads the summary of a run, or a result of another tool. `test` selects a test by its folder,
    /// or several tests by the first parts of their folder.
    ///
    /// # Errors
    /// If the path holds neither, or no test matches.
    pub fn read(path: &'a Path, test: Option<&str>) -> Result<Self, ExportError> {
        let mut contents = if path.join(summary::FILE).is_file() {
            Contents::Run(Box::new(summary::Run::read(path)?))
        } else {
            Contents::Foreign(foreign::read(path)?)
        };
        if let Some(test) = test {
            let wanted = parts(test);
            let is_wanted = |name: &str| parts(name).starts_with(&wanted);
            let (names, left) = match &mut contents {
                Contents::Run(run) => {
                    let names: Vec<_> = run.tests.iter().map(|test| test.folder.clone()).collect();
                    run.tests.retain(|test| is_wanted(&test.folder));
                    (names, run.tests.len())
                }
                Contents::Foreign(foreign) => {
                    let names: Vec<_> = foreign.tests.iter().map(|t| t.title.clone()).collect();
                    foreign.tests.retain(|test| is_wanted(&test.title));
                    (names, foreign.tests.len())
                }
            };
            if left == 0 {
                let (path, test) = (path.to_path_buf(), test.to_owned());
                return Err(ExportError::NoSuchTest { path, test, names });
            }
        }
        Ok(Self { path, contents })
    }

    /// Writes the export, and passes warnings and notes about the data to `note`.
    ///
    /// # Errors
    /// If the writer fails or the run cannot be read.
    pub fn write(
        &self,
        format: Format,
        out: &mut (dyn Write + Send),
        note: &mut dyn FnMut(String),
    ) -> Result<(), ExportError> {
        match format {
            Format::Csv => {
                let has = self.optional_columns();
                text::csv_head(out, has)?;
                self.each(note, |test| Ok(text::csv(out, &test, has)?))
            }
            Format::Jsonl => self.each(note, |test| Ok(text::jsonl(out, &test)?)),
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let has = self.optional_columns();
                if has.sessions || has.retries {
                    let missing = "note: Parquet has no columns of sessions and retries; csv and \
                                   jsonl have them";
                    note(missing.into());
                }
                let mut file = parquet::File::new(out, &self.about())?;
                self.each(note, |test| file.write(&test))?;
                file.finish()
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => format.check(),
            Format::Prometheus => {
                let run = self.run()?;
                let series = series::Run::read(self.path).unwrap_or_else(|error| {
                    note(format!("warning: {error}; histograms are left out"));
                    series::Run::new(Vec::new())
                });
                Ok(out.write_all(prometheus::text(run, &series).as_bytes())?)
            }
            Format::Metrics => Ok(out.write_all(metrics::csv(self.run()?).as_bytes())?),
            Format::Junit => Ok(out.write_all(junit::xml(self.run()?).as_bytes())?),
        }
    }

    /// Returns whether queries are turns of sessions in a test, and whether requests were sent again.
    fn optional_columns(&self) -> OptionalColumns {
        let Contents::Run(run) = &self.contents else {
            return OptionalColumns { sessions: false, retries: false };
        };
        let is_of_sessions = |test: &summary::Test| {
            test.metrics.as_ref().is_some_and(|metrics| metrics.sessions.is_some())
        };
        OptionalColumns {
            sessions: run.tests.iter().any(is_of_sessions),
            retries: run.clients.iter().any(|client| !client.retries.is_empty()),
        }
    }

    fn run(&self) -> Result<&summary::Run, ExportError> {
        match &self.contents {
            Contents::Run(run) => Ok(run),
            Contents::Foreign(foreign) => Err(ExportError::NoVerdicts {
                path: self.path.to_path_buf(),
                tool: foreign.tool.name(),
                has_records: foreign.tests.iter().any(|test| test.records.is_some()),
            }),
        }
    }

    /// Returns metadata of the run, by key.
    #[cfg(feature = "parquet")]
    fn about(&self) -> [(&'static str, String); 3] {
        let (name, system, time) = match &self.contents {
            Contents::Run(run) => (run.name.clone(), run.system.clone(), run.time.clone()),
            Contents::Foreign(foreign) => {
                let system = foreign.tests.first().map(|test| test.system.clone());
                let name = format!("{} {}", foreign.tool.name(), foreign.version);
                (name.trim_end().into(), system.unwrap_or_default(), "real".into())
            }
        };
        [("dyno.run", name), ("dyno.system", system), ("dyno.time", time)]
    }

    /// Calls `write` for each test with raw records.
    fn each(
        &self,
        note: &mut dyn FnMut(String),
        write: impl FnMut(TestRecords<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        match &self.contents {
            Contents::Run(run) => self.each_of_run(run, note, write),
            Contents::Foreign(foreign) => self.each_of_foreign(foreign, note, write),
        }
    }

    /// Calls `write` for each test of a run; holds the records of one test in memory at a time. A test whose
    /// records are missing or damaged is an error, because an export without its rows looks complete.
    fn each_of_run(
        &self,
        run: &summary::Run,
        note: &mut dyn FnMut(String),
        mut write: impl FnMut(TestRecords<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let measured = || run.tests.iter().filter(|test| test.metrics.is_some());
        let file_of = |test: &summary::Test| self.path.join(&test.folder).join(records::FILE);
        if measured().next().is_none() {
            return Err(ExportError::NoRecords("dyno run --mode performance measures"));
        }
        if measured().all(|test| !file_of(test).exists()) {
            let advice = "the run had --records none, or is of an earlier version of Dyno; dyno \
                          run --records all keeps every row";
            return Err(ExportError::NoRecords(advice));
        }
        for test in measured() {
            let records = Records::read(&file_of(test))?;
            note_thinning(test, &records, note);
            write(TestRecords {
                name: &test.folder,
                scenario: &test.scenario,
                mode: &test.mode,
                tenant: test.tenant.as_deref(),
                records: &records,
            })?;
        }
        Ok(())
    }

    fn each_of_foreign(
        &self,
        foreign: &ForeignResult,
        note: &mut dyn FnMut(String),
        mut write: impl FnMut(TestRecords<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut found = false;
        for test in &foreign.tests {
            let Some(records) = &test.records else { continue };
            found = true;
            for remark in &test.remarks {
                note(format!("note: {}: {remark}", test.title));
            }
            let (name, scenario) = (&test.title[..], &test.scenario[..]);
            write(TestRecords { name, scenario, mode: "performance", tenant: None, records })?;
        }
        if found {
            Ok(())
        } else {
            Err(ExportError::NoForeignRecords {
                path: self.path.to_path_buf(),
                advice: foreign.tool.how_to_keep_records(),
            })
        }
    }
}

/// Raw records of a test.
struct TestRecords<'a> {
    /// Folder of the test, or its title in another tool.
    name: &'a str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "text has no place for it"))]
    scenario: &'a str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "text has no place for it"))]
    mode: &'a str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "text has no place for it"))]
    tenant: Option<&'a str>,
    records: &'a Records,
}

/// Error of an export.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The writer fails, such as on a full disk or a closed pipe.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The summary of a run cannot be read.
    #[error(transparent)]
    Summary(#[from] summary::ReadError),
    /// A result of another tool cannot be read.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// The raw records of a test cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// No test matches the selection.
    #[error("{} has no test {test}", path.display())]
    NoSuchTest {
        /// Path of the run.
        path: PathBuf,
        /// Selection.
        test: String,
        /// Names of the tests of the run.
        names: Vec<String>,
    },
    /// The format has verdicts, which a result of another tool lacks.
    #[error("{} is a result of {tool}, which has no Dyno verdicts", path.display())]
    NoVerdicts {
        /// Path of the result.
        path: PathBuf,
        /// Name of the tool.
        tool: &'static str,
        /// Whether it has raw records, which other formats hold.
        has_records: bool,
    },
    /// This build does not include Parquet.
    #[error("this build does not write Parquet")]
    NoParquet,
    /// No test of a run has raw records. Holds advice.
    #[error("no test has raw records")]
    NoRecords(&'static str),
    /// A result of another tool has no raw records.
    #[error("{} has no raw records", path.display())]
    NoForeignRecords {
        /// Path of the result.
        path: PathBuf,
        /// How to make the tool write raw records.
        advice: &'static str,
    },
    /// The Parquet writer fails.
    #[error("parquet: {0}")]
    Parquet(String),
}

impl ExportError {
    /// Returns advice on how to fix the error.
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NoSuchTest { names, .. } => format!("it has {}", names.join(", ")),
            Self::NoVerdicts { has_records: true, .. } => {
                "its raw records can be exported as csv, jsonl and parquet".into()
            }
            Self::NoVerdicts { path, .. } if path.is_dir() => {
                format!("it has no raw records; dyno report {} shows its figures", path.display())
            }
            Self::NoVerdicts { path, .. } => format!(
                "it has no raw records; dyno compare RUN {} shows its figures beside those of a run",
                path.display()
            ),
            Self::NoParquet => {
                "use a released binary, or build with cargo install --path crates/cli --features \
                 parquet, or use --format csv"
                    .into()
            }
            Self::Records(_) => {
                "restore the file, or select other tests with --test, such as --test Server".into()
            }
            Self::NoRecords(advice) | Self::NoForeignRecords { advice, .. } => (*advice).into(),
            _ => return None,
        })
    }

    /// Returns whether other arguments would fix the error.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoSuchTest { .. } | Self::NoVerdicts { .. } | Self::NoParquet)
    }
}

fn parts(folder: &str) -> Vec<String> {
    folder.split('/').filter(|part| !part.is_empty()).map(str::to_ascii_lowercase).collect()
}

fn note_thinning(test: &summary::Test, records: &Records, note: &mut dyn FnMut(String)) {
    if records.stride > 1 {
        note(format!(
            "note: {}: the records keep one random row in {}, {} of {}; dyno run --records all keeps \
             every row",
            test.folder,
            records.stride,
            records.row_count(),
            records.total
        ));
    }
}
