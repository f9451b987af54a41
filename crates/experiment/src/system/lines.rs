//! Samples that are the lines of a file of text.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use dyno_results::units;
use dyno_sut::tensors::{Elements, SampleTensor, Source, TensorLibrary};
use dyno_tensors::files;

use crate::failure::Failure;
use crate::options::RunOptions;

/// The lines of a file, each a sample.
#[derive(Debug)]
pub(super) struct Lines {
    name: String,
    inputs: [String; 1],
    lines: Vec<String>,
    /// Whether each is a document of JSON.
    pub is_json: bool,
    /// Sentence without a full stop that states how many empty lines the file has, if any.
    empty: Option<String>,
}

/// Extensions of files that hold tables or texts in formats that are not read as lines or arrays.
const OTHER_FORMATS: &[&str] = &["json", "ndjson", "csv", "tsv", "npz", "parquet"];

/// Returns the lines of `--data`, if it is a file of text. Lines of white space are no samples.
///
/// # Errors
/// A file that cannot be read, has no lines, several names, or another format of tables or texts.
pub(super) fn of_data(run: &RunOptions) -> Result<Option<Lines>, Failure> {
    let ending =
        |path: &Path| path.extension().and_then(|ending| ending.to_str()).map(str::to_lowercase);
    let has = |path: &Path, endings: &[&str]| {
        ending(path).is_some_and(|ending| endings.contains(&ending.as_str()))
    };
    if let Some((_, path)) = run.data.iter().find(|(_, path)| has(path, OTHER_FORMATS)) {
        return Err(Failure::usage(format!("{} has an unknown format", path.display())).hint(
            "use .npy (samples along the first axis), .txt (a text on each line) or .jsonl (a JSON \
             value on each line)",
        ));
    }
    if !run.data.iter().any(|(_, path)| has(path, &["txt", "jsonl"])) {
        return Ok(None);
    }
    let [(name, path)] = &run.data[..] else {
        return Err(Failure::usage("--data has a file of text and other files")
            .hint("one file of text contains all samples; a line of JSON may have many members"));
    };
    let failure = |why: String| Failure::set_up(format!("{}: {why}", path.display()));
    let text = files::read(path).map_err(|error| failure(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| {
        failure(format!("not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines: Vec<String> =
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    let empty = text.lines().count() - lines.len();
    let is_json = has(path, &["jsonl"]);
    if is_json {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            serde_json::from_str::<serde::de::IgnoredAny>(line)
                .map_err(|error| failure(format!("line {}: {error}", number + 1)))?;
        }
    }
    if lines.is_empty() {
        return Err(failure("it has no lines".into()));
    }
    let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let input = name.clone().unwrap_or_else(|| "text".into());
    let empty = (empty > 0).then(|| {
        let number = units::counted(empty as u64, "empty line", "empty lines");
        format!("{} has {number}; empty lines are no samples", path.display())
    });
    Ok(Some(Lines { name: title, inputs: [input], lines, is_json, empty }))
}

impl Lines {
    /// Returns the samples, with the labels of the options. The remark states how many lines are empty.
    ///
    /// # Errors
    /// Labels that do not fit.
    pub fn library(mut self, run: &RunOptions) -> Result<(TensorLibrary, Option<String>), Failure> {
        let count = NonZero::new(self.lines.len()).expect("a file without lines was rejected");
        let empty = self.empty.take();
        let labels = run.labels.as_deref();
        let labels = labels.map(|path| TensorLibrary::read_labels(path, count.get())).transpose();
        let labels =
            labels.map_err(|error| empty.iter().fold(Failure::set_up(error), Failure::hint))?;
        let library = TensorLibrary::from_source(Arc::new(self), count, labels);
        Ok((library.map_err(Failure::set_up)?, empty.map(|sentence| sentence + ".")))
    }
}

impl Source for Lines {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self) -> usize {
        self.lines.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: u32) -> Result<Vec<SampleTensor>, String> {
        let line = self.lines.get(index as usize).ok_or("it does not exist")?;
        let elements = Elements::U8(line.as_bytes().to_vec().into());
        Ok(vec![SampleTensor { shape: vec![line.len()], elements }])
    }
}

#[cfg(test)]
mod tests {
    use dyno_tensors::npy;

    use super::*;

    #[test]
    fn empty_lines_are_counted_and_a_byte_order_mark_belongs_to_no_sample() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("a.txt");
            std::fs::write(&path, text).unwrap();
            let run = RunOptions { data: vec![(None, path)], ..RunOptions::default() };
            let lines = of_data(&run).unwrap().unwrap();
            let texts = lines.lines.clone();
            let (library, remark) = lines.library(&run).unwrap();
            assert!(library.labels().is_none());
            (texts, remark)
        };
        let (texts, remark) = read("\u{feff}one\n \ntwo\n\n");
        assert_eq!(texts, ["one", "two"]);
        let remark = remark.unwrap();
        assert!(
            remark.ends_with("a.txt has 2 empty lines; empty lines are no samples."),
            "{remark}"
        );
        assert_eq!(read("one\ntwo\n").1, None);
    }

    #[test]
    fn tables_and_lists_are_not_taken_for_arrays() {
        for name in ["prompts.json", "x.CSV", "x.npz"] {
            let run = RunOptions { data: vec![(None, name.into())], ..RunOptions::default() };
            let failure = of_data(&run).unwrap_err();
            assert_eq!(failure.problems(), [format!("{name} has an unknown format")]);
            assert!(failure.hints()[0].contains(".jsonl (a JSON value on each line)"), "{name}");
        }
        let run = RunOptions { data: vec![(None, "x.npy".into())], ..RunOptions::default() };
        assert!(of_data(&run).unwrap().is_none());
    }

    #[test]
    fn labels_of_empty_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (path, labels) = (folder.path().join("a.txt"), folder.path().join("labels.npy"));
        std::fs::write(&path, "one\n\ntwo\n").unwrap();
        let mut file = Vec::new();
        npy::write(&mut file, &[3], &[0_i64, 1, 1]).unwrap();
        std::fs::write(&labels, file).unwrap();
        let run =
            RunOptions { data: vec![(None, path)], labels: Some(labels), ..RunOptions::default() };
        let failure = of_data(&run).unwrap().unwrap().library(&run).unwrap_err();
        assert!(failure.problems()[0].contains("3 labels for 2 samples"), "{failure:?}");
        let hints = failure.hints();
        assert!(hints[0].ends_with("has 1 empty line; empty lines are no samples"), "{hints:?}");
    }
}
