//! `dyno export`: writes a run in the formats of other tools.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use dyno_experiment::Failure;
use dyno_results::export::{ExportError, Format, Source};
use dyno_results::summary;
use dyno_results::write::{create_new, is_result};

use super::compare::{folder_of, is_run};
use super::keys::one_of;
use crate::exit::Exit;
use crate::output;

/// Flags of the command.
#[derive(Debug, Args)]
pub struct Export {
    /// Run directory, or a result of LoadGen, vLLM, guidellm or aiperf
    #[arg(value_name = "RUN")]
    path: PathBuf,
    /// Output format [default: by the extension of --out; csv on stdout]
    #[arg(long, value_parser = one_of(&Format::ALL, Format::name, Format::description))]
    format: Option<Format>,
    /// Export only this test, such as Server/performance, or all tests of a scenario, such as Server
    #[arg(long, value_name = "TEST")]
    test: Option<String>,
    /// Output file; - is stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

impl Export {
    /// Writes the export. A reader that closes the pipe early is not an error.
    ///
    /// # Errors
    /// The run or the test does not exist, or the output cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let is_stdout = self.out == Path::new("-");
        let by_file = || if is_stdout { Some(Format::Csv) } else { Format::of_file(&self.out) };
        let format = self.format.or_else(by_file).ok_or_else(|| {
            let problem = format!("the extension of {} names no output format", self.out.display());
            Failure::usage(problem)
                .hint("use the extension .csv, .jsonl, .parquet, .prom or .xml, or add --format")
        })?;
        format.check()?;
        // An unset variable of a script, not all tests.
        if self.test.as_deref().is_some_and(|test| test.trim().is_empty()) {
            return Err(Failure::usage("--test: expected a test, found an empty text")
                .hint("write it as Server/performance, or remove --test"));
        }
        let source = Source::read(&self.path, self.test.as_deref())
            .map_err(|error| with_folder(error.into(), &self.path))?;
        if !is_stdout {
            return to_file(&source, format, &self.out).map(|()| Exit::Valid);
        }
        if !format.is_text() && io::stdout().is_terminal() {
            let problem = "Parquet is binary and cannot be shown on a terminal";
            return Err(Failure::usage(problem).hint("use --out FILE, or redirect stdout"));
        }
        let mut out = BufWriter::new(io::stdout());
        let written = source.write(format, &mut out, &mut |note| output::say(note));
        match written.and_then(|()| Ok(out.flush()?)) {
            Ok(()) => Ok(Exit::Valid),
            Err(ExportError::Io(error)) => output::of_stdout(&error).map(|()| Exit::Valid),
            Err(error) => Err(error.into()),
        }
    }
}

/// Adds which folder to pass, if the path is a file of a run or a folder of several runs.
fn with_folder(failure: Failure, path: &Path) -> Failure {
    if path.ends_with(summary::FILE) && is_run(path) {
        return failure.hint(format!("pass the folder of the run, {}", folder_of(path).display()));
    }
    failure.hint_one_run(path)
}

/// Writes a file under a temporary name and renames it, so that collectors never see a partial
/// file. Anything that is not a regular file, such as a named pipe, is written to directly.
fn to_file(source: &Source<'_>, format: Format, path: &Path) -> Result<(), Failure> {
    let refused =
        |error: &io::Error| Failure::unwritable(path, error).hint("choose another file with --out");
    if is_result(path) {
        let problem = format!("{} holds results, which would be lost", path.display());
        return Err(Failure::usage(problem).hint("choose another file with --out"));
    }
    let is_there = fs::symlink_metadata(path).is_ok();
    let partial = if is_there && !path.is_file() {
        None
    } else {
        // Replace the target of a link, not the link.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        Some((real.with_file_name(format!(".{name}.partial")), real))
    };
    let file = match &partial {
        Some((partial, _)) => create_new(partial),
        None => fs::File::create(path),
    };
    let mut out = BufWriter::new(file.map_err(|error| refused(&error))?);
    let written = source.write(format, &mut out, &mut |note| output::say(note)).and_then(|()| {
        out.flush()?;
        drop(out);
        match &partial {
            Some((partial, real)) => Ok(fs::rename(partial, real)?),
            None => Ok(()),
        }
    });
    written.map_err(|error| {
        if let Some((partial, _)) = &partial {
            // A partial file has no use.
            let _ = fs::remove_file(partial);
        }
        match error {
            ExportError::Io(error) => refused(&error),
            error => error.into(),
        }
    })
}
