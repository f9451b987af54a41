//! Samples that are the lines of a file of text.

use std::num::NonZero;
use std::sync::Arc;

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
}

/// Returns the lines of `--data`, if it is a file of text. Lines of white space are no samples.
///
/// # Errors
/// A file that cannot be read, has no lines, or has several names.
pub(super) fn of_data(run: &RunOptions) -> Result<Option<Lines>, Failure> {
    let is_text = |path: &std::path::Path| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        matches!(ending, "txt" | "jsonl")
    };
    if !run.data.iter().any(|(_, path)| is_text(path)) {
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
    let is_json = path.extension().is_some_and(|ending| ending == "jsonl");
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
    Ok(Some(Lines { name: title, inputs: [input], lines, is_json }))
}

impl Lines {
    /// Returns the samples, with the labels of the options.
    ///
    /// # Errors
    /// Labels that do not fit.
    pub fn library(self, run: &RunOptions) -> Result<TensorLibrary, Failure> {
        let count = NonZero::new(self.lines.len()).expect("a file without lines was rejected");
        let labels = run.labels.as_deref();
        let labels = labels.map(|path| TensorLibrary::read_labels(path, count.get())).transpose();
        let labels = labels.map_err(Failure::set_up)?;
        TensorLibrary::from_source(Arc::new(self), count, labels).map_err(Failure::set_up)
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
