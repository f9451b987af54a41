//! Files of a user, and the outcome of a task with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dyno_loadgen::record::Failure;
use dyno_onnx::Model;
use dyno_task::cache::Cache;
use dyno_task::card::{self, Card};
use dyno_task::files::{Files, OpenError};
use dyno_task::open::{self, PreparedTask};

use crate::engines::{answers, engine};

/// A folder that is deleted at the end of the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "dyno-official-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("images")).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Writes a picture of one color.
    pub fn picture(&self, name: &str, [width, height]: [u32; 2], colour: [u8; 3]) {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let pixels = colour.repeat((width * height) as usize);
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        self.write(&format!("images/{name}"), bytes);
    }

    pub fn model(&self, model: &Model) {
        model.write(&self.path("model.onnx")).unwrap();
    }

    /// Opens a task with these files of the folder: the name in the card, and the name in the
    /// folder.
    pub fn open(&self, card: &Card, given: &[(&str, &str)]) -> Result<PreparedTask, OpenError> {
        let cache = Cache::at(self.path("cache"));
        let given = given.iter().map(|(name, file)| ((*name).to_owned(), self.path(file)));
        let given: BTreeMap<String, PathBuf> = given.collect();
        open::open(&Files::new(card, &cache, given)?)
    }

    /// Returns the message with which a task is rejected, without the name of this folder.
    pub fn refusal(&self, card: &Card, given: &[(&str, &str)]) -> String {
        let Err(error) = self.open(card, given) else { panic!("{} opens", card.name) };
        let folder = format!("{}{}", self.0.display(), std::path::MAIN_SEPARATOR);
        error.to_string().replace(&folder, "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the model with a fixed first dimension of all inputs.
pub fn of_rows(rows: usize, mut model: Model) -> Model {
    let shapes = model.inputs.iter_mut().filter_map(|port| port.shape.as_mut());
    shapes.filter_map(|shape| shape.first_mut()).for_each(|first| *first = rows.into());
    model
}

/// Returns a card without MD5 sums, which generated files do not match.
pub fn card(name: &str) -> Card {
    let mut card = card::named(name).unwrap().clone();
    for wanted in card.weights.iter_mut().chain(&mut card.data.files) {
        wanted.md5.clear();
        wanted.md5_of.clear();
    }
    card
}

/// Answers and figure of a task.
pub struct TaskOutcome {
    /// Answer of each sample that did not fail.
    pub answers: BTreeMap<u64, Vec<u8>>,
    pub failed: Vec<(u64, Failure)>,
    /// Message of the first failure.
    pub trouble: Option<String>,
    /// The figure that decides.
    pub figure: f64,
}

/// Returns the message with which the models of a task are rejected; `None` without ONNX Runtime.
pub fn unfit(ready: PreparedTask) -> Option<String> {
    match engine(ready.model, &Arc::new(ready.samples), 4)? {
        Err(error) => Some(error.to_string()),
        Ok(engine) => panic!("{} fits", engine.name()),
    }
}

/// Answers all samples at once; `None` without ONNX Runtime.
pub fn answered(ready: PreparedTask) -> Option<TaskOutcome> {
    answered_in(ready, 4)
}

/// Answers all samples with at most `batch` per call; `None` without ONNX Runtime.
pub fn answered_in(ready: PreparedTask, batch: usize) -> Option<TaskOutcome> {
    let library = Arc::new(ready.samples);
    let engine = engine(ready.model, &library, batch)?.unwrap();
    let judge = ready.judge.unwrap();
    let mut scorer = judge.scorer().unwrap();
    let (mut told, mut failed) = (BTreeMap::new(), Vec::new());
    for (index, answer) in answers(&*engine, &library) {
        match answer {
            Ok(answer) => {
                scorer.take(index, &answer).unwrap();
                told.insert(index, answer);
            }
            Err(failure) => failed.push((index, failure)),
        }
    }
    let figure = scorer.scores().figure(&judge.metric).unwrap();
    Some(TaskOutcome {
        answers: told,
        failed,
        trouble: engine.failure_reason().map(str::to_owned),
        figure,
    })
}

/// Returns an answer as floats.
pub fn floats(answer: &[u8]) -> Vec<f32> {
    let (all, rest) = answer.as_chunks();
    assert!(rest.is_empty());
    all.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
