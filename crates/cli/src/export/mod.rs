//! A run directory in the formats of others.

mod junit;
#[cfg(feature = "parquet")]
mod parquet;
mod prometheus;
mod rows;
mod text;

use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;

use crate::exit::Failure;
use crate::foreign::{self, Foreign};
use crate::records::{self, Records, RecordsError};
use crate::{output, series, summary};

pub use text::quoted;

/// What a run can be turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Raw records, comma-separated (RFC 4180)
    Csv,
    /// Raw records, a JSON object a line
    Jsonl,
    /// Raw records, columnar; needs a build with --features parquet
    Parquet,
    /// The results as Prometheus text, for a textfile collector or a push gateway
    Prometheus,
    /// The verdicts as JUnit XML, for CI
    Junit,
}

impl Format {
    /// The format that files with this ending have.
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

    /// Whether people can read it.
    pub fn is_text(self) -> bool {
        self != Self::Parquet
    }
}

/// What is exported: a run, or a result of another tool.
pub struct Source<'a> {
    path: &'a Path,
    contents: Contents,
    /// Whether somebody named the tests.
    is_chosen: bool,
}

enum Contents {
    Run(Box<summary::Run>),
    Foreign(Foreign),
}

impl<'a> Source<'a> {
    /// Reads the summary of a run, or all of another tool's result. `test` names a
    /// test, or several by the beginning of the name of their folder.
    ///
    /// # Errors
    /// If there is neither, or no such test.
    pub fn read(path: &'a Path, test: Option<&str>) -> Result<Self, Failure> {
        let mut contents = match path.join(summary::FILE).is_file() {
            true => Contents::Run(Box::new(summary::Run::read(path).map_err(Failure::set_up)?)),
            false => Contents::Foreign(foreign::read(path).map_err(Failure::set_up)?),
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
                let problem = format!("{} has no test {test}", path.display());
                return Err(Failure::usage(problem).hint(format!("it has {}", names.join(", "))));
            }
        }
        Ok(Self { path, contents, is_chosen: test.is_some() })
    }

    /// Writes it.
    ///
    /// # Errors
    /// Whatever the writer fails with, and what keeps the run from being read.
    pub fn write(&self, format: Format, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        match format {
            Format::Csv => {
                text::csv_head(out)?;
                self.each(|test| Ok(text::csv(out, &test)?))
            }
            Format::Jsonl => self.each(|test| Ok(text::jsonl(out, &test)?)),
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let mut file = parquet::File::new(out, &self.about())?;
                self.each(|test| file.write(&test))?;
                file.finish()
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(ExportError::Failure(no_parquet())),
            Format::Prometheus => {
                let run = self.run()?;
                let series = series::Run::read(self.path).unwrap_or_else(|error| {
                    output::say(format_args!(
                        "warning: {error}; there are no histograms without it"
                    ));
                    series::Run::new(Vec::new())
                });
                Ok(out.write_all(prometheus::text(run, &series).as_bytes())?)
            }
            Format::Junit => Ok(out.write_all(junit::xml(self.run()?).as_bytes())?),
        }
    }

    fn run(&self) -> Result<&summary::Run, ExportError> {
        match &self.contents {
            Contents::Run(run) => Ok(run),
            Contents::Foreign(foreign) => Err(ExportError::Failure(
                Failure::usage(format!(
                    "{} is a result of {}, which has no verdicts of ours",
                    self.path.display(),
                    foreign.tool.name()
                ))
                .hint("its raw records can be exported as csv, jsonl and parquet"),
            )),
        }
    }

    /// The run as a whole, by key.
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

    /// Goes through the tests that have raw records.
    fn each(
        &self,
        write: impl FnMut(TestRecords<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        match &self.contents {
            Contents::Run(run) => self.each_of_run(run, write),
            Contents::Foreign(foreign) => self.each_of_foreign(foreign, write),
        }
    }

    /// One at a time in memory.
    fn each_of_run(
        &self,
        run: &summary::Run,
        mut write: impl FnMut(TestRecords<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let (mut found, mut missing) = (false, None::<RecordsError>);
        for test in run.tests.iter().filter(|test| test.metrics.is_some()) {
            let path = self.path.join(&test.folder).join(records::FILE);
            let records = match Records::read(&path) {
                Ok(records) => records,
                Err(error) if self.is_chosen => {
                    return Err(ExportError::Failure(Failure::set_up(error)));
                }
                Err(error) => {
                    output::say(format_args!("warning: {error}"));
                    missing = Some(error);
                    continue;
                }
            };
            found = true;
            tell_thinning(test, &records);
            write(TestRecords {
                name: &test.folder,
                scenario: &test.scenario,
                mode: &test.mode,
                tenant: test.tenant.as_deref(),
                records: &records,
            })?;
        }
        let none = |hint: &str| Failure::set_up("no test has raw records").hint(hint);
        match missing {
            _ if found => Ok(()),
            Some(_) => Err(ExportError::Failure(none("dyno run --records all keeps every row"))),
            None => Err(ExportError::Failure(none("dyno run --mode performance measures"))),
        }
    }

    fn each_of_foreign(
        &self,
        foreign: &Foreign,
        mut write: impl FnMut(TestRecords<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut found = false;
        for test in &foreign.tests {
            let Some(records) = &test.records else { continue };
            found = true;
            for remark in &test.remarks {
                output::say(format_args!("note: {}: {remark}", test.title));
            }
            let (name, scenario) = (&test.title[..], &test.scenario[..]);
            write(TestRecords { name, scenario, mode: "performance", tenant: None, records })?;
        }
        match found {
            true => Ok(()),
            false => Err(ExportError::Failure(
                Failure::set_up(format!("{} has no raw records", self.path.display()))
                    .hint(foreign.tool.how_to_keep_records()),
            )),
        }
    }
}

/// A test and its raw records.
struct TestRecords<'a> {
    /// Its folder, or what another tool calls it.
    name: &'a str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "text has no place for it"))]
    scenario: &'a str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "text has no place for it"))]
    mode: &'a str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "text has no place for it"))]
    tenant: Option<&'a str>,
    records: &'a Records,
}

/// Why an export ends early.
pub enum ExportError {
    /// The writer fails: a full disk, or a reader that has seen enough.
    Io(io::Error),
    /// Something else.
    Failure(Failure),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What to do without the feature.
#[cfg(not(feature = "parquet"))]
pub fn no_parquet() -> Failure {
    Failure::usage("this build writes no parquet: it takes a minute more to compile").hint(
        "released binaries have it; from source: cargo install --path crates/cli --features \
         parquet; or use --format csv",
    )
}

fn parts(folder: &str) -> Vec<String> {
    folder.split('/').filter(|part| !part.is_empty()).map(str::to_ascii_lowercase).collect()
}

fn tell_thinning(test: &summary::Test, records: &Records) {
    if records.stride > 1 {
        output::say(format_args!(
            "note: {}: one row in {} was kept, {} of {}; dyno run --records all keeps every row",
            test.folder,
            records.stride,
            records.len(),
            records.total
        ));
    }
}
