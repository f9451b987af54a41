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
use crate::records::{self, Records, RecordsError};
use crate::{series, summary};

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

/// A run directory, with the tests that were asked for.
pub struct Source<'a> {
    directory: &'a Path,
    run: summary::Run,
    /// Whether somebody named the tests.
    is_chosen: bool,
}

impl<'a> Source<'a> {
    /// Reads the summary; `test` names a test by its folder, or several by the
    /// beginning of it.
    ///
    /// # Errors
    /// If there is no summary, or no such test.
    pub fn read(directory: &'a Path, test: Option<&str>) -> Result<Self, Failure> {
        let mut run = summary::Run::read(directory).map_err(|error| {
            Failure::set_up(error).hint("name the directory of a run: the one with summary.json")
        })?;
        if let Some(test) = test {
            let wanted: Vec<String> = parts(test);
            let folders: Vec<String> = run.tests.iter().map(|t| t.folder.clone()).collect();
            run.tests.retain(|test| parts(&test.folder).starts_with(&wanted));
            if run.tests.is_empty() {
                let problem = format!("{} has no test {test}", directory.display());
                return Err(Failure::usage(problem).hint(format!("it has {}", folders.join(", "))));
            }
        }
        Ok(Self { directory, run, is_chosen: test.is_some() })
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
                let mut file = parquet::File::new(out, &self.run)?;
                self.each(|test| file.write(&test))?;
                file.finish()
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(ExportError::Failure(no_parquet())),
            Format::Prometheus => {
                let series = series::Run::read(self.directory).unwrap_or_else(|error| {
                    eprintln!("warning: {error}; there are no histograms without it");
                    series::Run::new(Vec::new())
                });
                Ok(out.write_all(prometheus::text(&self.run, &series).as_bytes())?)
            }
            Format::Junit => Ok(out.write_all(junit::xml(&self.run).as_bytes())?),
        }
    }

    /// Goes through the tests that have raw records, one at a time in memory.
    fn each(
        &self,
        mut write: impl FnMut(TestRecords<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let (mut found, mut missing) = (false, None::<RecordsError>);
        for test in self.run.tests.iter().filter(|test| test.metrics.is_some()) {
            let path = self.directory.join(&test.folder).join(records::FILE);
            let records = match Records::read(&path) {
                Ok(records) => records,
                Err(error) if self.is_chosen => {
                    return Err(ExportError::Failure(Failure::set_up(error)));
                }
                Err(error) => {
                    eprintln!("warning: {error}");
                    missing = Some(error);
                    continue;
                }
            };
            found = true;
            tell_thinning(test, &records);
            write(TestRecords { test, records })?;
        }
        match missing {
            _ if found => Ok(()),
            Some(_) => Err(ExportError::Failure(Failure::set_up("no test has raw records"))),
            None => Err(ExportError::Failure(
                Failure::set_up("no test has raw records: accuracy tests have none")
                    .hint("dyno run --mode performance measures"),
            )),
        }
    }
}

/// A test and its raw records.
struct TestRecords<'a> {
    test: &'a summary::Test,
    records: Records,
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
        eprintln!(
            "note: {}: one row in {} was kept, {} of {}; dyno run --records all keeps every row",
            test.folder,
            records.stride,
            records.len(),
            records.total
        );
    }
}
