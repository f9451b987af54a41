//! Tasks with models that Dyno trained, from a clean cache to the figure that decides. Tests that
//! compute need ONNX Runtime and are skipped without it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod engines;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::qsl::SampleLibrary;
use dyno_task::cache::Cache;
use dyno_task::card::{self, Bound};
use dyno_task::files::Files;
use dyno_task::judge::Target;
use dyno_task::open::{self, PreparedTask, TaskModel};

/// Returns an empty folder for a cache.
fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("dyno-trained-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the figure of a task that answers all of its samples, three per call; `None` without
/// ONNX Runtime.
fn figure(ready: PreparedTask) -> Option<f64> {
    let library = Arc::new(ready.samples);
    let engine = engines::engine(ready.model, &library, 3)?.unwrap();
    let judge = ready.judge.unwrap();
    let mut scorer = judge.scorer().unwrap();
    assert_eq!(scorer.references(), Some(library.total_sample_count() as u64));
    for (index, answer) in engines::answers(&*engine, &library) {
        scorer.take(index, &answer.unwrap()).unwrap();
    }
    let scores = scorer.scores();
    assert_eq!(scores.notes, [""; 0]);
    scores.figure(&judge.metric)
}

/// Returns the file of the model that answers.
fn model(ready: &PreparedTask) -> PathBuf {
    let TaskModel::Model { path, .. } = &ready.model else { panic!("one call answers") };
    path.clone()
}

/// Tasks that need no files reach what their cards say of them.
#[test]
fn trained_tasks_reach_the_figures_of_their_cards() {
    for name in ["karate", "digits-boxes", "shapes-3d"] {
        let folder = scratch(name);
        let (card, cache) = (card::named(name).unwrap(), Cache::at(folder.clone()));
        let files = Files::new(card, &cache, BTreeMap::new()).unwrap();
        let ready = open::open(&files).unwrap();
        let targets = ready.judge.as_ref().unwrap().targets.clone();
        let found = figure(ready);
        fs::remove_dir_all(&folder).unwrap();
        let Some(found) = found else { return };
        let quality = card.quality.as_ref().unwrap();
        let reference = quality.reference.unwrap();
        println!("{name}: {found}, the card has {reference}");
        // Kernels of an engine may round in another order.
        assert!((found / reference - 1.0).abs() < 2e-3, "{name}: {found}, not {reference}");
        let [Target { bound: Bound::AtLeast(bound), .. }] = targets[..] else {
            panic!("{targets:?}")
        };
        assert!((bound / reference - 0.99).abs() < 1e-3, "{name}: {bound} of {reference}");
    }
}

/// The user's own ratings in the package's format; the last digits decide who likes what.
#[test]
fn a_recommender_is_trained_on_the_ratings_that_there_are() {
    let folder = scratch("movielens");
    let mut text = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n".to_owned();
    for (user, item) in (0..80 * 80).map(|at| (at / 80, at % 80)) {
        let rating = if (user + item) % 2 == 0 { 5 } else { 2 };
        writeln!(text, "{user}\t{item}\t{rating}\t0").unwrap();
    }
    let ratings = folder.join("own.inter");
    fs::write(&ratings, &text).unwrap();
    let mut card = card::named("movielens").unwrap().clone();
    let cache = Cache::at(folder.join("cache"));
    let open = |card| {
        let given = BTreeMap::from([("ratings".to_owned(), ratings.clone())]);
        open::open(&Files::new(card, &cache, given).unwrap())
    };
    card.data.accuracy_samples = 640;
    let ready = open(&card).unwrap();
    let model = model(&ready);
    assert_eq!(ready.samples.total_sample_count(), 640);
    if let Some(found) = figure(ready) {
        assert!(found > 99.0, "{found}");
    }
    // Other ratings have a model of their own.
    fs::write(&ratings, text.replace("\t5\t", "\t1\t").replace("\t2\t0", "\t4\t0")).unwrap();
    assert_ne!(self::model(&open(&card).unwrap()), model);
    fs::write(&ratings, text.replacen("\t5\t", "\tfive\t", 1)).unwrap();
    let error = open(&card).map(drop).unwrap_err().to_string();
    assert!(error.contains("own.inter:2: expected user, item, rating"), "{error}");
    fs::remove_dir_all(&folder).unwrap();
}
