//! Engines in C, compiled here, that keep the interface or break it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::record::Record;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};
use dyno_plugin::{Plugin, PluginError, PluginSystem};
use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
use tempfile::TempDir;

/// A compiled plug-in, in a folder that goes at the end.
struct Compiled {
    _folder: TempDir,
    path: PathBuf,
}

/// Compiles a source; `None`, with a remark, where there is no compiler.
fn compile(source: &str, flags: &[&str]) -> Option<Compiled> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    compiler.arg(&path).arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(source));
    compiler.arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include")).arg("-lpthread");
    let Ok(compiled) = compiler.args(flags).status() else {
        eprintln!("SKIPPED: there is no C compiler");
        return None;
    };
    assert!(compiled.success());
    Some(Compiled { _folder: folder, path })
}

fn numbers() -> Arc<TensorLibrary> {
    Arc::new(TensorLibrary::numbers(4.try_into().unwrap()))
}

fn pairs(elements: Elements<'static>) -> Arc<TensorLibrary> {
    let tensor = Tensor { name: "x".into(), sample_shape: vec![2], elements };
    Arc::new(TensorLibrary::new("pairs", vec![tensor], None).unwrap())
}

fn system(path: &std::path::Path, options: &str, library: &Arc<TensorLibrary>) -> PluginSystem {
    let plugin = Plugin::open(path, options).unwrap();
    PluginSystem::new(plugin, library, Some(200_000_000)).unwrap()
}

/// Plays an accuracy test, whose answers are recorded.
fn play(system: PluginSystem, library: &TensorLibrary) -> (Record, Arc<PluginSystem>) {
    let settings = TestSettings {
        scenario: Scenario::Offline,
        mode: TestMode::AccuracyOnly,
        ..TestSettings::default()
    };
    let plan = Plan::resolve(&settings, Library { total: 4, performance: 4 }).unwrap();
    let tenant = Tenant { settings: settings.into(), plan, library, messages: Vec::new() };
    let system = Arc::new(system);
    let mut driver = RealTime::new(system.clone());
    let mut logs = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| ());
    let log = logs.remove(0);
    (log.runs().next().unwrap().record.clone(), system)
}

/// Returns the answers by sample.
fn answers(record: &Record) -> Vec<(u32, String)> {
    let answer = |response: dyno_loadgen::record::LoggedResponse<'_>| {
        let index = record.indices[response.sequence as usize];
        (index, String::from_utf8(response.data.to_vec()).unwrap())
    };
    let mut answers: Vec<_> = record.responses.iter().map(answer).collect();
    answers.sort();
    answers
}

#[test]
fn answers_come_at_once_or_from_a_thread_after_the_flush() {
    let Some(compiled) = compile("tests/c/engine.c", &[]) else { return };
    for (options, expected) in [("", "here"), ("hold", "late")] {
        let (record, system) = play(system(&compiled.path, options, &numbers()), &numbers());
        let expected: Vec<_> = (0..4).map(|index| (index, expected.to_owned())).collect();
        assert_eq!(answers(&record), expected);
        assert_eq!((system.breach(), system.failure_reason()), (None, None), "{options}");
    }
}

#[test]
fn the_engine_gets_the_elements_and_the_shape_of_its_input() {
    let Some(compiled) = compile("tests/c/engine.c", &[]) else { return };
    let library = pairs(Elements::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].into()));
    let (record, _) = play(system(&compiled.path, "pair", &library), &library);
    let expected = [(0, "221"), (1, "243"), (2, "265"), (3, "287")];
    assert_eq!(answers(&record), expected.map(|(index, text)| (index, text.to_owned())));
    let plugin = Plugin::open(&compiled.path, "pair").unwrap();
    let wrong = pairs(Elements::I32(vec![1; 8].into()));
    let error = PluginSystem::new(plugin, &wrong, None).err().unwrap();
    assert_eq!(error, "input `x` expects float32, the samples have int32");
    let plugin = Plugin::open(&compiled.path, "pair").unwrap();
    let tensor = Tensor {
        name: "x".into(),
        sample_shape: vec![3],
        elements: Elements::F32(vec![0.0; 6].into()),
    };
    let wide = Arc::new(TensorLibrary::new("wide", vec![tensor], None).unwrap());
    let error = PluginSystem::new(plugin, &wide, None).err().unwrap();
    assert_eq!(error, "input `x` expects samples [2], found [3]");
}

#[test]
fn failed_samples_fail_with_the_words_of_the_engine() {
    let Some(compiled) = compile("tests/c/engine.c", &[]) else { return };
    let (record, failing) = play(system(&compiled.path, "fail", &numbers()), &numbers());
    assert_eq!((record.failed.len(), failing.breach()), (2, None));
    let why = failing.failure_reason().unwrap();
    assert!(why.ends_with("engine.so: odd number"), "{why}");
    let (_, silent) = play(system(&compiled.path, "fail silently", &numbers()), &numbers());
    let why = silent.failure_reason().unwrap();
    assert!(why.ends_with("engine.so: it failed a sample without a message"), "{why}");
    let (record, refusing) = play(system(&compiled.path, "error", &numbers()), &numbers());
    assert_eq!(record.failed.len(), 4);
    let why = refusing.failure_reason().unwrap();
    assert!(why.ends_with("engine.so: dyno_engine_issue returned 42"), "{why}");
}

#[test]
fn a_breach_of_the_interface_names_the_plug_in_and_what_it_did() {
    let Some(compiled) = compile("tests/c/engine.c", &[]) else { return };
    for (options, expected) in [
        ("twice", ", which was complete before"),
        ("late token", ", which was complete before"),
        ("no flag", "it reported a first token, but its flags lack DYNO_STREAMING"),
        ("unknown", "it completed sample 12345, which was never issued"),
        ("never", "4 samples have no completion, and none came for 0.2 s"),
        ("kind", "an answer has the unknown kind 9"),
        ("null answers", "it passed 3 answers at 0x0"),
        ("countless answers", "it passed 18446744073709551615 answers at 0x"),
        ("endless data", "an answer has 18446744073709551615 bytes"),
        ("null data", "an answer has 8 bytes at NULL"),
        ("tokens below 0", "an answer has -5 tokens"),
        ("too many tokens", "an answer has 9223372036854775807 tokens"),
        ("late error", "dyno_engine_issue returned 42, although a sample of the call is complete"),
    ] {
        let (_, system) = play(system(&compiled.path, options, &numbers()), &numbers());
        let why = system.breach().unwrap_or_default();
        let begin = format!("plug-in {}: ", compiled.path.display());
        assert!(why.starts_with(&begin) && why.contains(expected), "{options}: {why}");
    }
}

#[test]
fn a_pause_between_runs_is_no_silence() {
    let Some(compiled) = compile("tests/c/engine.c", &[]) else { return };
    let (_, system) = play(system(&compiled.path, "", &numbers()), &numbers());
    std::thread::park_timeout(Duration::from_millis(500));
    assert_eq!(system.breach(), None);
}

#[test]
fn tokens_are_those_that_the_engine_counts() {
    let Some(compiled) = compile("tests/c/engine.c", &[]) else { return };
    let system = system(&compiled.path, "tokens", &numbers());
    assert!(system.is_streaming());
    let (record, system) = play(system, &numbers());
    assert_eq!((record.responses.len(), system.breach()), (4, None));
}

#[test]
fn a_library_that_is_no_plug_in_is_rejected_with_its_name() {
    let Some(compiled) = compile("tests/c/engine.c", &[]) else { return };
    let error = |path: &std::path::Path, options: &str| {
        let error = Plugin::open(path, options).err().unwrap();
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        error
    };
    let words = |options: &str| error(&compiled.path, options).to_string();
    assert!(words("refuse").ends_with("does not open: there is no model"));
    assert!(words("silent").ends_with("dyno_engine_open returned 5"));
    assert!(words("null").ends_with("returned 0, but no engine"));
    let folder = std::env::current_dir().unwrap();
    assert!(words("chdir refuse").ends_with("dyno_engine_open returned 5"));
    assert_eq!(std::env::current_dir().unwrap(), folder);
    assert!(words("no name").ends_with("its name is NULL"));
    assert!(words("no description").ends_with("dyno_engine_describe returned 9"));
    assert!(words("wrong type").contains("input `x` has the unknown type 77"));
    assert!(words("many inputs").contains("it has 1000 inputs"));
    assert!(words("unknown flags").contains("it has the unknown flags 0x6"));
    let old = compile("tests/c/engine.c", &["-DABI=7"]).unwrap();
    assert!(matches!(error(&old.path, ""), PluginError::Version { found: 7, .. }));
    let part = compile("tests/c/engine.c", &["-DNO_FLUSH"]).unwrap();
    let name = "dyno_engine_flush";
    assert!(
        matches!(error(&part.path, ""), PluginError::Symbol { name: found, .. } if found == name)
    );
    let file = compiled.path.with_extension("txt");
    std::fs::write(&file, "no library").unwrap();
    assert!(matches!(error(&file, ""), PluginError::Load { .. }));
    assert!(error("no.so".as_ref(), "").to_string().ends_with("the file does not exist"));
}

#[test]
fn the_example_answers_every_sample_with_its_sum() {
    let Some(compiled) = compile("../../examples/c/engine.c", &["-Wno-unused-parameter"]) else {
        return;
    };
    let elements = (0..=255_u8).map(f32::from).collect();
    let tensor =
        Tensor { name: "x".into(), sample_shape: vec![64], elements: Elements::F32(elements) };
    let library = Arc::new(TensorLibrary::new("rows", vec![tensor], None).unwrap());
    let (record, _) = play(system(&compiled.path, "", &library), &library);
    let sum = |index: u32| {
        let first = record
            .responses
            .iter()
            .find(|response| record.indices[response.sequence as usize] == index);
        f32::from_le_bytes(first.unwrap().data.try_into().unwrap())
    };
    // The sum of 64 numbers from 64 i on.
    for index in 0..4 {
        assert_eq!(sum(index), 64.0 * (64.0 * index as f32 + 31.5));
    }
    let why = Plugin::open(&compiled.path, "threads=2").err().unwrap().to_string();
    assert!(why.ends_with("expected no options, found `threads=2`"), "{why}");
}
