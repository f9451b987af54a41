//! `dyno export`: a run in the formats of others.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::export::{ExportError, Format, Source};
use crate::output;

/// What to write where.
#[derive(Debug, Args)]
pub struct Export {
    /// Directory of a run; or a result of LoadGen, vLLM, guidellm or aiperf
    #[arg(value_name = "RUN")]
    path: PathBuf,
    /// What to write [default: by the ending of --out, else csv]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Only this test, such as Server/performance, or these, such as Server
    #[arg(long, value_name = "TEST")]
    test: Option<String>,
    /// Where to; - is stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

impl Export {
    /// Writes it. A reader that closes the pipe has seen enough: that is no error.
    ///
    /// # Errors
    /// If there is no run, no such test, or no room.
    pub fn execute(self) -> Result<Exit, Failure> {
        let is_stdout = self.out == Path::new("-");
        let format = self.format.or_else(|| Format::of_file(&self.out)).unwrap_or(Format::Csv);
        #[cfg(not(feature = "parquet"))]
        if format == Format::Parquet {
            return Err(crate::export::no_parquet());
        }
        let source = Source::read(&self.path, self.test.as_deref())?;
        if !is_stdout {
            return to_file(&source, format, &self.out).map(|()| Exit::Valid);
        }
        if !format.is_text() && io::stdout().is_terminal() {
            let problem = "parquet is nothing to read on a terminal";
            return Err(Failure::usage(problem).hint("--out FILE, or redirect stdout"));
        }
        let mut out = BufWriter::new(io::stdout());
        let written = source.write(format, &mut out);
        match written.and_then(|()| Ok(out.flush()?)) {
            Ok(()) => Ok(Exit::Valid),
            Err(ExportError::Io(error)) => output::of_stdout(&error).map(|()| Exit::Valid),
            Err(ExportError::Failure(failure)) => Err(failure),
        }
    }
}

/// Renamed when all is there: who collects such files must not see half of one.
fn to_file(source: &Source<'_>, format: Format, path: &Path) -> Result<(), Failure> {
    let refused = |error: &io::Error| {
        Failure::set_up(format!("cannot write {}: {error}", path.display()))
            .hint("choose another file with --out, or free some space")
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("export");
    let partial = path.with_file_name(format!(".{name}.partial"));
    let file = fs::File::create(&partial).map_err(|error| refused(&error))?;
    let mut out = BufWriter::new(file);
    let written = source.write(format, &mut out).and_then(|()| {
        out.flush()?;
        drop(out);
        Ok(fs::rename(&partial, path)?)
    });
    written.map_err(|error| {
        // It is of no use to anybody.
        let _ = fs::remove_file(&partial);
        match error {
            ExportError::Io(error) => refused(&error),
            ExportError::Failure(failure) => failure,
        }
    })
}
