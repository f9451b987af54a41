//! Files of rows: a single one, or a folder as data sets of Hugging Face have it.

use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use dyno_net::workload::recordings;
use dyno_net::workload::{Format, ReadError, Row, Rows, images};
use dyno_tensors::files;
use serde_json::Value;

use crate::failure::Failure;

/// Returns the rows of a file. An error of a row is that of its item.
///
/// # Errors
/// The file cannot be read, or has an unknown format.
pub fn rows(path: &Path) -> Result<Rows, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::set_up(format!("cannot read {}: {why}", path.display()))
    };
    if format_of(path).is_none() && !is_parquet(path) {
        std::fs::metadata(path).map_err(|error| wrong(&error))?;
        return Err(Failure::usage(format!("{} has an unknown format", path.display())).hint(
            "use .jsonl (lines such as {\"prompt\": \"...\"}), .json or .csv, a folder of such \
             files, or Parquet in a build that supports it",
        ));
    }
    parsed(path).map_err(|error| wrong(&error))
}

/// Returns all rows of a file, or as many of them.
///
/// # Errors
/// The errors of [`rows`], or of a row.
pub fn rows_at_most(path: &Path, most: Option<usize>) -> Result<Vec<Row>, Failure> {
    let rows: Result<_, ReadError> = rows(path)?.take(most.unwrap_or(usize::MAX)).collect();
    rows.map_err(|error| Failure::set_up(format!("cannot read {}: {error}", path.display())))
}

/// Returns the rows of prompts of a file, or of the files of a split of a folder, with their images.
///
/// # Errors
/// The errors of [`rows`], or a folder without such files.
pub fn prompts(path: &Path, split: Option<&str>) -> Result<Rows, Failure> {
    if path.is_dir() {
        let files = files_of_split(path, split)?;
        // A file is read when its turn comes.
        let rows = files.into_iter().flat_map(|file| {
            let name = file.display().to_string();
            let in_file =
                move |error: ReadError| ReadError { row: 0, why: format!("{name}: {error}") };
            let rows = parsed(&file).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))));
            with_images(rows, &file).map(move |row| row.map_err(&in_file))
        });
        return Ok(Box::new(rows));
    }
    if split.is_some() {
        let problem = format!("split= selects files of a folder, but {} is a file", path.display());
        return Err(Failure::usage(problem).hint("remove it, or pass the folder"));
    }
    Ok(with_images(rows(path)?, path))
}

fn format_of(path: &Path) -> Option<Format> {
    Format::of_name(&path.to_string_lossy())
}

/// Returns whether a file is one of Parquet, by its name or its first bytes.
fn is_parquet(path: &Path) -> bool {
    use std::io::Read as _;

    let begin = || {
        let mut begin = [0; 4];
        files::open(path).ok()?.read_exact(&mut begin).ok()?;
        Some(begin)
    };
    path.extension().is_some_and(|extension| extension == "parquet") || begin() == Some(*b"PAR1")
}

fn parsed(path: &Path) -> Result<Rows, ReadError> {
    match format_of(path) {
        Some(format) if !is_parquet(path) => {
            let bytes = files::read(path);
            format.rows(bytes.map_err(|error| ReadError { row: 0, why: error.to_string() })?)
        }
        _ => parquet_rows(path),
    }
}

/// Returns the rows of a file with the images that they name.
fn with_images(rows: Rows, path: &Path) -> Rows {
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    Box::new(rows.enumerate().map(move |(at, row)| {
        let mut row = row?;
        read_images(&mut row, &folder).map_err(|why| ReadError { row: at + 1, why })?;
        Ok(row)
    }))
}

/// Replaces paths of images by the images. They are relative to the file.
fn read_images(row: &mut Row, folder: &Path) -> Result<(), String> {
    let read = |value: &mut Value| -> Result<(), String> {
        match value {
            Value::String(path) if !path.is_empty() && !images::is_url(path) => {
                let file = folder.join(path.strip_prefix("file://").unwrap_or(path));
                let bytes = files::read(&file).map_err(|error| {
                    format!("cannot read the image {}: {error}", file.display())
                })?;
                *path =
                    images::data_uri(&bytes).map_err(|why| format!("{}: {why}", file.display()))?;
                Ok(())
            }
            _ => Ok(()),
        }
    };
    for column in images::COLUMNS {
        match row.get_mut(column) {
            Some(Value::Array(all)) => all.iter_mut().try_for_each(read)?,
            Some(one) => read(one)?,
            None => {}
        }
    }
    Ok(())
}

/// Depth of folders that are searched: `DATASET/CONFIG/SPLIT/FILE`.
const DEPTH: usize = 3;

/// Names that mark the files of a split.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// Returns the files of the split of this name, or of the only split, in the order of their names.
fn files_of_split(folder: &Path, split: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let shown = folder.display();
    let mut files = Vec::new();
    collect(folder, DEPTH, &mut files)
        .map_err(|error| Failure::set_up(format!("cannot read {shown}: {error}")))?;
    files.sort();
    if files.is_empty() {
        let problem = format!("{shown} has no .jsonl, .json, .csv or .parquet file");
        let hint = if folder.join("dataset_info.json").exists()
            || folder.join("dataset_dict.json").exists()
        {
            "the folder has Arrow files of save_to_disk; convert them with to_json or to_parquet"
        } else {
            "pass the folder with the files of the data set"
        };
        return Err(Failure::set_up(problem).hint(hint));
    }
    let mut splits: Vec<(String, Vec<PathBuf>)> = Vec::new();
    for file in files {
        let name = split_of(file.strip_prefix(folder).unwrap_or(&file));
        match splits.iter_mut().find(|(known, _)| *known == name) {
            Some((_, files)) => files.push(file),
            None => splits.push((name, vec![file])),
        }
    }
    let names = splits.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let chosen = match split {
        Some(wanted) => splits.iter().position(|(name, _)| name == wanted),
        None if splits.len() == 1 => Some(0),
        None => {
            let problem = format!("{shown} has the splits {names}");
            return Err(Failure::usage(problem).hint(format!("choose one: split={}", splits[0].0)));
        }
    };
    let Some(chosen) = chosen else {
        let problem = format!("{shown} has no split `{}`", split.unwrap_or_default());
        return Err(Failure::usage(problem).hint(format!("it has {names}")));
    };
    Ok(splits.swap_remove(chosen).1)
}

/// Collects files of rows, without those that describe the data set.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    const DESCRIPTIONS: [&str; 4] =
        ["config.json", "dataset_dict.json", "dataset_infos.json", "state.json"];
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_description = DESCRIPTIONS.contains(&&*name) || name == "dataset_info.json";
        if name.starts_with('.') || is_description {
            continue;
        }
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, files)?;
            }
        } else if format_of(&path).is_some() || name.ends_with(".parquet") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the split of a file, by its path within the data set: a configuration in a folder of its
/// own is part of the name.
fn split_of(path: &Path) -> String {
    let parts: Vec<String> = path
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().to_lowercase())
        .collect();
    let is_word = |part: &str, word: &str| {
        part.split(|letter: char| !letter.is_ascii_alphabetic()).any(|piece| piece == word)
    };
    let named = |part: &str| {
        let found = SPLITS.iter().find(|(_, words)| words.iter().any(|word| is_word(part, word)));
        found.map(|(name, _)| *name)
    };
    // The name of the file is the most specific.
    let split = parts.iter().rev().find_map(|part| named(part)).unwrap_or("train");
    let folders = &parts[..parts.len() - 1];
    let config = folders.iter().find(|part| *part != "data" && named(part).is_none());
    match config {
        Some(config) => format!("{config}/{split}"),
        None => split.to_owned(),
    }
}

#[cfg(feature = "parquet")]
fn parquet_rows(path: &Path) -> Result<Rows, ReadError> {
    use parquet::file::reader::SerializedFileReader;

    let wrong = |why: &dyn std::fmt::Display| ReadError { row: 0, why: why.to_string() };
    let file = files::open(path).map_err(|error| wrong(&error))?;
    let reader = SerializedFileReader::new(file).map_err(|error| wrong(&error))?;
    let row = |(at, row): (usize, parquet::errors::Result<parquet::record::Row>)| {
        let row = row.map_err(|error| ReadError { row: at + 1, why: error.to_string() })?;
        Ok(row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect())
    };
    Ok(Box::new(reader.into_iter().enumerate().map(row)))
}

/// Converts a value of a table to JSON; types that prompts do not use become null. Bytes of images
/// become data URIs.
#[cfg(feature = "parquet")]
fn value(field: &parquet::record::Field) -> Value {
    use parquet::record::Field;

    match field {
        Field::Bool(truth) => (*truth).into(),
        Field::Str(text) => text.clone().into(),
        Field::Int(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Float(number) => (*number).into(),
        Field::Bytes(bytes) => images::data_uri(bytes.data())
            .or_else(|_| recordings::data_uri(bytes.data()))
            .map_or(Value::Null, Value::String),
        // A column of images holds the bytes, and the name that their file had.
        Field::Group(row) if row.get_column_iter().any(|(name, _)| name == "bytes") => {
            let bytes = row.get_column_iter().find(|(name, _)| *name == "bytes");
            bytes.map_or(Value::Null, |(_, bytes)| value(bytes))
        }
        Field::Group(row) => {
            row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
        }
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        _ => Value::Null,
    }
}

#[cfg(not(feature = "parquet"))]
fn parquet_rows(_: &Path) -> Result<Rows, ReadError> {
    let why = "this build does not read Parquet; build with --features parquet, or convert it to \
         JSON lines";
    Err(ReadError { row: 0, why: why.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_data_set_have_their_splits() {
        for (path, split) in [
            ("data/train-00000-of-00002.parquet", "train"),
            ("train.jsonl", "train"),
            ("my_dataset-test.csv", "test"),
            ("validation/part1.json", "validation"),
            ("data.jsonl", "train"),
            ("easy/test-00000-of-00001.parquet", "easy/test"),
            ("latest.jsonl", "train"),
        ] {
            assert_eq!(split_of(Path::new(path)), split, "{path}");
        }
    }
}
