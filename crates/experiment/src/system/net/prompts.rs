//! Prompts and rows from files.

use std::path::Path;

use dyno_net::openai::Input;
use dyno_net::workload::{Format, Lengths, Prompt, Row, Shape, SyntheticPrompts, Workload};

use super::SpecKeys;
use crate::failure::Failure;
use crate::options::RunOptions;

/// Default number of generated prompts.
const MADE_UP: usize = 256;
/// Default number of tokens of a generated prompt and of its answer.
const INPUT: Lengths = Lengths::Fixed(128);

/// Returns the workload from the keys of a specification and `--data`.
pub fn workload(given: &mut SpecKeys, run: &RunOptions) -> Result<Workload, Failure> {
    let input: Option<Lengths> = given.read_as("input")?;
    let output: Option<Lengths> = given.read_as("output")?;
    let prefix: Option<u64> = given.read_as("prefix")?;
    let groups: Option<std::num::NonZero<usize>> = given.read_as("groups")?;
    let ids: Option<std::num::NonZero<u64>> = given.read_as("ids")?;
    let shape = ids.map_or(Shape::Words, |ids| Shape::Numbers(ids.get()));
    let seed = run.seed.unwrap_or(0);
    let is_made_up = input.is_some() || prefix.is_some() || groups.is_some();
    match run.data.as_slice() {
        [] => {
            let made = SyntheticPrompts {
                count: run.samples_or_of_round(MADE_UP),
                input: input.unwrap_or(INPUT),
                output,
                prefix: prefix.unwrap_or(0),
                groups: groups.map_or(1, std::num::NonZero::get),
                shape,
                seed,
            };
            Ok(made.workload())
        }
        [(None, path)] if !is_made_up => {
            let rows = limited(rows(path)?, run);
            let mut workload = Workload::of_rows(&rows, shape, seed)
                .map_err(|error| Failure::set_up(format!("{}: {error}", path.display())))?;
            if let Some(Lengths::Fixed(most)) = output {
                workload.prompts.iter_mut().for_each(|prompt| prompt.max_tokens = Some(most));
            } else if output.is_some() {
                return Err(given.wrong("output", "of prompts from a file it is one number"));
            }
            let is_token_list = |prompt: &Prompt| matches!(prompt.input, Input::Tokens(_));
            if ids.is_some() && !workload.prompts.iter().any(is_token_list) {
                let why = "has no effect: every prompt of --data has its text; leave it out";
                return Err(given.wrong("ids", why));
            }
            Ok(workload)
        }
        [(None, _)] => Err(Failure::usage(
            "input, prefix and groups make prompts up, and --data names a file of them",
        )
        .hint("leave out one of the two")),
        [(Some(name), _)] => {
            Err(Failure::usage(format!("--data {name}=FILE names an input, and prompts have none"))
                .hint("write --data FILE"))
        }
        _ => Err(Failure::usage("--data names several files, and prompts come of one")),
    }
}

/// Limits rows to the requested number of samples.
fn limited(mut rows: Vec<Row>, run: &RunOptions) -> Vec<Row> {
    rows.truncate(run.samples.map_or(usize::MAX, std::num::NonZero::get));
    rows
}

/// Returns the rows of `--data FILE`.
pub fn rows_of(run: &RunOptions) -> Result<Option<Vec<Row>>, Failure> {
    match run.data.as_slice() {
        [] => Ok(None),
        [(None, path)] => Ok(Some(limited(rows(path)?, run))),
        _ => Err(Failure::usage("samples of raw: come of one file, with --data FILE")),
    }
}

/// Returns the rows of a file.
pub fn rows(path: &Path) -> Result<Vec<Row>, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::set_up(format!("cannot read {}: {why}", path.display()))
    };
    let bytes = std::fs::read(path).map_err(|error| wrong(&error))?;
    if bytes.starts_with(b"PAR1") {
        return parquet_rows(path);
    }
    let Some(format) = Format::of_name(&path.to_string_lossy()) else {
        return Err(Failure::usage(format!("{} is of no known format", path.display())).hint(
            "prompts are read from .jsonl (a line is {\"prompt\": \"...\"}), .json and .csv, and from Parquet by \
             a build with it",
        ));
    };
    format.rows(&bytes).map_err(|error| wrong(&error))
}

#[cfg(feature = "parquet")]
fn parquet_rows(path: &Path) -> Result<Vec<Row>, Failure> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    let wrong = |why: &dyn std::fmt::Display| {
        Failure::set_up(format!("cannot read {}: {why}", path.display()))
    };
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    let reader = SerializedFileReader::new(file).map_err(|error| wrong(&error))?;
    let rows = reader.get_row_iter(None).map_err(|error| wrong(&error))?;
    let row = |row: parquet::errors::Result<parquet::record::Row>| {
        let row = row.map_err(|error| wrong(&error))?;
        Ok(row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect())
    };
    rows.map(row).collect()
}

/// Converts a value of a table to JSON; types that prompts do not use become null.
#[cfg(feature = "parquet")]
fn value(field: &parquet::record::Field) -> serde_json::Value {
    use parquet::record::Field;

    match field {
        Field::Str(text) => text.clone().into(),
        Field::Int(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Float(number) => (*number).into(),
        Field::Group(row) => {
            row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
        }
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        _ => serde_json::Value::Null,
    }
}

#[cfg(not(feature = "parquet"))]
fn parquet_rows(path: &Path) -> Result<Vec<Row>, Failure> {
    Err(Failure::set_up(format!("{} is Parquet, which this build does not read", path.display()))
        .hint("build with --features parquet, or write it as JSON lines"))
}
