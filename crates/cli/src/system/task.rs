//! The systems `task:NAME`: a task's model with its samples, its labels and its target.

use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::nearest;
use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};
use dyno_sut::engine::Engine;
use dyno_sut::onnx::Answer;
use dyno_sut::tensors::TensorLibrary;
use dyno_task::cache::{Cache, Held};
use dyno_task::card::{self, Card, Tier};
use dyno_task::data::mnist;
use dyno_task::{package, shape};

use super::onnx;
use crate::exit::Failure;
use crate::options::RunOptions;
use crate::{cache, environment};

/// For help texts.
pub const GRAMMAR: &str = "a task with its model, its samples and its target: task:mnist, or task:resnet50-shape with random \
     samples (dyno task list)";

/// The real tasks whose systems this version has; of others there is the card.
const REAL: [&str; 2] = ["digits", "mnist"];

/// Whether this version has a system for a task.
pub fn runs(card: &Card) -> bool {
    card.tier == Tier::Shape || REAL.contains(&card.name.as_str())
}

/// A task that is ready to answer.
pub struct Loaded {
    pub engine: Arc<dyn Engine>,
    pub library: Arc<dyn SampleLibrary>,
    /// The samples, if they are tensors.
    pub tensors: Option<Arc<TensorLibrary>>,
    /// Class of each sample; a shape task has none.
    pub labels: Option<Vec<i64>>,
    /// Accuracy that the card asks for, in [0, 1].
    pub target: Option<f64>,
    /// Threads that compute in Offline, where nobody says.
    pub offline_workers: usize,
}

/// Loads a task from what is in the cache.
///
/// # Errors
/// A name that there is none of, and files that are missing, each named.
pub fn load(name: &str, run: &RunOptions) -> Result<Loaded, Failure> {
    let card = card::named(name).filter(|card| runs(card));
    let card = card.ok_or_else(|| unknown(name))?;
    let of_percent = |quality: &card::Quality| Some(quality.at_least? / 100.0);
    let target = card.quality.as_ref().and_then(of_percent);
    if card.name == "digits" {
        return Ok(Loaded {
            engine: Arc::new(DigitsPerceptron::new()),
            library: Arc::new(DigitsLibrary),
            tensors: None,
            labels: Some(digits::labels()),
            target,
            offline_workers: environment::cores(),
        });
    }
    let cache = cache::folder(None)?;
    if let Some(graph) = shape::graph(name) {
        let path = shape::write(graph, &cache).map_err(Failure::set_up)?;
        let samples = NonZero::new(shape::samples(graph) as usize).or(run.samples);
        let run = RunOptions { samples: run.samples.or(samples), ..run.clone() };
        let loaded = onnx::load("onnx", &path.to_string_lossy(), &run)?;
        return Ok(Loaded {
            engine: loaded.engine,
            library: loaded.library.clone(),
            tensors: Some(loaded.library),
            labels: None,
            target: None,
            offline_workers: loaded.offline_workers,
        });
    }
    held(card, &cache)?;
    let file = |wanted: &str| place(card, &cache, wanted);
    let input = &card.data.inputs[0].name;
    let library = mnist::test_part(&file("images"), input).map_err(Failure::set_up)?;
    let labels = library.labels().map(<[i64]>::to_vec);
    let loaded = onnx::load_prepared(&file("model"), library, Answer::Argmax, run)?;
    Ok(Loaded {
        engine: loaded.engine,
        library: loaded.library.clone(),
        tensors: Some(loaded.library),
        labels,
        target,
        offline_workers: loaded.offline_workers,
    })
}

fn unknown(name: &str) -> Failure {
    if card::named(name).is_some() {
        let problem = format!("this version has the card of task `{name}`, and no system for it");
        return Failure::set_up(problem)
            .hint(format!("the real tasks that run: {}; and all of tier shape", REAL.join(", ")))
            .hint("a model of your own runs with --system onnx:FILE --data FILE.npy");
    }
    let near = nearest(name, card::cards().iter().map(|card| card.name.as_str()));
    Failure::usage(format!("there is no task `{name}`"))
        .hint(format!("did you mean {}? dyno task list has all", near.unwrap_or("digits")))
}

/// Every file is held against its hash before anything is timed.
fn held(card: &Card, cache: &Cache) -> Result<(), Failure> {
    let mut wrong = String::new();
    for wanted in card.wanted() {
        let Some((package, path)) = wanted.package.as_deref().and_then(|at| at.split_once(':'))
        else {
            continue;
        };
        let package = package::named(package).expect("cards name packages that there are");
        let file = package.files.iter().find(|file| file.path == path).expect("and their files");
        let shown = cache.path(package, file);
        let state = match cache.held(package, file).map_err(Failure::set_up)? {
            Held::Whole => continue,
            Held::Missing => "is not there",
            Held::Altered => "is not the file that was fetched: its SHA-256 is another",
        };
        let and = if wrong.is_empty() { "" } else { "; " };
        let _ = write!(wrong, "{and}{} ({}) {state}", shown.display(), wanted.what);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let name = &card.name;
    Err(Failure::set_up(format!("task {name}: {wrong}")).hint(format!("dyno fetch {name}")))
}

fn place(card: &Card, cache: &Cache, name: &str) -> std::path::PathBuf {
    let wanted = card.wanted().find(|wanted| wanted.name == name);
    let at = wanted.and_then(|wanted| wanted.package.as_deref()?.split_once(':'));
    let (package, path) = at.expect("the card has the file, and a package has it");
    let package = package::named(package).expect("cards name packages that there are");
    let file = package.files.iter().find(|file| file.path == path).expect("and their files");
    cache.path(package, file)
}
