//! Files of a user, and what becomes of them.

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

/// A folder that is gone when the test is over.
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

    /// A picture of one colour.
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

    /// Opens a task with these files of the folder: the name in the card, the name here.
    pub fn open(&self, card: &Card, given: &[(&str, &str)]) -> Result<PreparedTask, OpenError> {
        let cache = Cache::at(self.path("cache"));
        let given = given.iter().map(|(name, file)| ((*name).to_owned(), self.path(file)));
        let given: BTreeMap<String, PathBuf> = given.collect();
        open::open(&Files::new(card, &cache, given)?)
    }

    /// The message with which it does not open, without the name of this folder.
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

/// The model with a place for so many rows only, the first dimension of all that it takes.
pub fn of_rows(rows: usize, mut model: Model) -> Model {
    let shapes = model.inputs.iter_mut().filter_map(|port| port.shape.as_mut());
    shapes.filter_map(|shape| shape.first_mut()).for_each(|first| *first = rows.into());
    model
}

/// The card as it is, but for MD5s, which made files do not have.
pub fn card(name: &str) -> Card {
    let mut card = card::named(name).unwrap().clone();
    for wanted in card.weights.iter_mut().chain(&mut card.data.files) {
        wanted.md5.clear();
        wanted.md5_of.clear();
    }
    card
}

/// What a task answered.
pub struct Told {
    /// Of each sample that did not fail.
    pub answers: BTreeMap<u64, Vec<u8>>,
    pub failed: Vec<(u64, Failure)>,
    /// What the first that failed did of.
    pub trouble: Option<String>,
    /// The figure that decides.
    pub figure: f64,
}

/// The message with which its models are refused; nothing without ONNX Runtime.
pub fn unfit(ready: PreparedTask) -> Option<String> {
    match engine(ready.model, &Arc::new(ready.samples), 4)? {
        Err(error) => Some(error.to_string()),
        Ok(engine) => panic!("{} fits", engine.name()),
    }
}

/// Answers all samples at once; nothing without ONNX Runtime.
pub fn answered(ready: PreparedTask) -> Option<Told> {
    answered_in(ready, 4)
}

/// The same, so many in a call at most.
pub fn answered_in(ready: PreparedTask, batch: usize) -> Option<Told> {
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
    Some(Told { answers: told, failed, trouble: engine.trouble().map(str::to_owned), figure })
}

/// An answer as floats.
pub fn floats(answer: &[u8]) -> Vec<f32> {
    let (all, rest) = answer.as_chunks();
    assert!(rest.is_empty());
    all.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
