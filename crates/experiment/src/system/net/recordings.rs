//! Recordings to transcribe: a file, a folder of files, or rows that name them.

use std::path::{Path, PathBuf};

use dyno_net::workload::{ReadError, Row, Rows, recordings};
use dyno_tensors::files;
use serde_json::Value;

use super::dataset;
use crate::failure::Failure;

/// Extensions of audio files.
const EXTENSIONS: [&str; 4] = ["wav", "flac", "ogg", "mp3"];

/// Returns the rows of recordings: one for each audio file of a folder, in the order of their names,
/// with the text beside it (`NAME.txt`), or the rows of a file that name their audio files.
///
/// # Errors
/// The errors of [`dataset::prompts`].
pub fn rows(path: &Path, split: Option<&str>) -> Result<Rows, Failure> {
    let files = if is_audio(path) { vec![path.to_owned()] } else { audio_files(path) };
    if files.is_empty() {
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let rows = dataset::prompts(path, split)?;
        let rows = rows.enumerate().map(move |(at, row)| {
            let mut row = row?;
            read_recording(&mut row, &folder).map_err(|why| ReadError { row: at + 1, why })?;
            Ok(row)
        });
        return Ok(Box::new(rows));
    }
    let row = |(at, file): (usize, PathBuf)| {
        let mut row = Row::new();
        let wrong = |why: String| ReadError { row: at + 1, why };
        let name = file.to_str().ok_or_else(|| {
            wrong(format!("expected a name in UTF-8, found {}; rename the file", file.display()))
        })?;
        row.insert(recordings::COLUMNS[0].into(), name.into());
        let beside = file.with_extension("txt");
        if beside.exists() {
            let text = files::read_to_string(&beside)
                .map_err(|error| wrong(format!("cannot read {}: {error}", beside.display())))?;
            row.insert("reference".into(), text.trim().into());
        }
        read_recording(&mut row, Path::new("")).map_err(wrong)?;
        Ok(row)
    };
    Ok(Box::new(files.into_iter().enumerate().map(row)))
}

fn is_audio(path: &Path) -> bool {
    let extension = path.extension().map(|one| one.to_string_lossy().to_lowercase());
    path.is_file() && extension.is_some_and(|one| EXTENSIONS.contains(&&*one))
}

/// Returns the audio files of a folder by name; none of a file.
fn audio_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_audio(path)).collect();
    files.sort();
    files
}

/// Replaces the path of a recording by the recording. It is relative to the file of the rows.
fn read_recording(row: &mut Row, folder: &Path) -> Result<(), String> {
    let column = recordings::COLUMNS.into_iter().find(|column| row.contains_key(*column));
    let Some(Value::String(path)) = column.and_then(|column| row.get_mut(column)) else {
        return Ok(());
    };
    if path.starts_with("data:") {
        return Ok(());
    }
    let file = folder.join(path.strip_prefix("file://").unwrap_or(path));
    let bytes = files::read(&file)
        .map_err(|error| format!("cannot read the recording {}: {error}", file.display()))?;
    *path = recordings::data_uri(&bytes).map_err(|why| format!("{}: {why}", file.display()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    row.insert(recordings::NAME.into(), name.into());
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn texts_that_are_no_files_and_names_that_are_no_texts_are_rejected() {
        let error = |name: &OsStr, has_text: bool| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(name);
            std::fs::write(&file, "").unwrap();
            if has_text {
                std::os::unix::fs::symlink("/dev/null", file.with_extension("txt")).unwrap();
            }
            rows(folder.path(), None).unwrap().next().unwrap().unwrap_err().to_string()
        };
        let text = error(OsStr::new("a.wav"), true);
        assert!(text.contains("a.txt: it is a device"), "{text}");
        let name = error(OsStr::from_bytes(b"\xff.wav"), false);
        assert!(name.contains("expected a name in UTF-8"), "{name}");
    }
}
