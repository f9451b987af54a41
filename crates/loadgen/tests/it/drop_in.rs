//! The process-wide interface: one load generator, one test at a time, misuse.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use dyno_loadgen::clock::WallTime;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::drop_in::{LoadGen, NoTestError, StartError};
use dyno_loadgen::log::read::{open_accuracy, read_detail_file};
use dyno_loadgen::log::{LogError, LogSettings};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};
use dyno_loadgen::sut::{AsResponse, QuerySample, ResponseId, SystemUnderTest};

use crate::null::NullLibrary;
use crate::real_time::settings;

/// A process of its own, as far as the drop-in is concerned.
fn process() -> &'static LoadGen {
    Box::leak(Box::default())
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drop_in").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Hands samples to a function, as a harness in C does: it knows no responder.
struct Harness<I, F>(I, F);

impl<I, F> SystemUnderTest for Harness<I, F>
where
    I: Fn(&[QuerySample]) + Send + Sync,
    F: Fn() + Send + Sync,
{
    fn name(&self) -> &str {
        "harness"
    }
    fn issue(&self, samples: &[QuerySample], _responder: &Responder) {
        (self.0)(samples);
    }
    fn flush(&self) {
        (self.1)();
    }
}

fn ids(samples: &[QuerySample]) -> Vec<ResponseId> {
    samples.iter().map(|sample| sample.id).collect()
}

fn start(
    process: &'static LoadGen,
    settings: &TestSettings,
    outdir: &Path,
    issue: impl Fn(&[QuerySample]) + Send + Sync + 'static,
) -> Result<(), StartError> {
    start_flushed(process, settings, outdir, issue, || ())
}

fn start_flushed(
    process: &'static LoadGen,
    settings: &TestSettings,
    outdir: &Path,
    issue: impl Fn(&[QuerySample]) + Send + Sync + 'static,
    flush: impl Fn() + Send + Sync + 'static,
) -> Result<(), StartError> {
    let logs = LogSettings { outdir: outdir.into(), ..LogSettings::default() };
    let library = NullLibrary::new(100, 100);
    let audit = outdir.join("audit.config");
    process.start_test(Arc::new(Harness(issue, flush)), &library, settings, &logs, &audit)
}

/// Completes each sample at once.
fn inline(process: &'static LoadGen) -> impl Fn(&[QuerySample]) + Send + Sync + 'static {
    move |samples| process.complete(&ids(samples)).unwrap()
}

/// Errors and warnings of the detail log, with their keys.
fn grave(outdir: &Path) -> Vec<(String, String)> {
    let (detail, problems) = read_detail_file(&outdir.join("mlperf_log_detail.txt")).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let grave = detail.entries.iter().filter(|entry| entry.is_error || entry.is_warning);
    grave.map(|entry| (entry.key.clone(), format!("{:?}", entry.value))).collect()
}

fn validity(outdir: &Path) -> Option<String> {
    let (detail, _) = read_detail_file(&outdir.join("mlperf_log_detail.txt")).unwrap();
    detail.text("result_validity").map(str::to_owned)
}

#[test]
fn every_scenario_runs_test_after_test() {
    let process = process();
    for scenario in Scenario::ALL {
        for round in 0..2 {
            let outdir = folder(&format!("{scenario}-{round}"));
            start(process, &settings(*scenario, 700), &outdir, inline(process)).unwrap();
            assert_eq!(validity(&outdir).as_deref(), Some("VALID"), "{scenario}");
            assert_eq!(grave(&outdir), [], "{scenario}");
        }
    }
}

#[test]
fn a_completion_after_the_end_is_told_and_disturbs_no_later_test() {
    let process = process();
    let last = Arc::new(Mutex::new(Vec::new()));
    let outdir = folder("late");
    let issue = {
        let last = last.clone();
        move |samples: &[QuerySample]| {
            *last.lock().unwrap() = ids(samples);
            process.complete(&ids(samples)).unwrap();
        }
    };
    start(process, &settings(Scenario::SingleStream, 70), &outdir, issue).unwrap();
    let late = last.lock().unwrap().clone();
    let told = process.complete(&late).unwrap_err();
    assert_eq!(told.samples, 1);

    // The id of the last test's sample comes again while the next one runs.
    let issue = move |samples: &[QuerySample]| {
        process.complete(&late).unwrap();
        process.complete(&ids(samples)).unwrap();
    };
    start(process, &settings(Scenario::SingleStream, 70), &outdir, issue).unwrap();
    let grave = grave(&outdir);
    assert!(
        grave[0].1.contains("Samples that were completed while no test was running: 1."),
        "{grave:?}"
    );
    let old = grave.iter().filter(|(_, text)| text.contains("old sample")).count();
    assert!(old >= 1 && validity(&outdir).as_deref() == Some("VALID"), "{grave:?}");
}

#[test]
fn a_second_test_at_once_is_refused_and_the_first_goes_on() {
    let process = process();
    let (outdir, other) = (folder("first"), folder("second"));
    let refused = Arc::new(AtomicUsize::new(0));
    let issue = {
        let refused = refused.clone();
        move |samples: &[QuerySample]| {
            let second = start(process, &settings(Scenario::Offline, 1), &other, |_| ());
            if second == Err(StartError::AlreadyRunning) {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            process.complete(&ids(samples)).unwrap();
        }
    };
    start(process, &settings(Scenario::SingleStream, 70), &outdir, issue).unwrap();
    assert_eq!(refused.load(Ordering::Relaxed), 70);
    assert_eq!(validity(&outdir).as_deref(), Some("VALID"));
}

#[test]
fn logs_that_cannot_be_opened_are_an_error_and_nothing_is_issued() {
    let process = process();
    let nowhere = folder("nowhere").join("missing");
    let run = settings(Scenario::Offline, 1);
    let error = start(process, &run, &nowhere, |_| unreachable!("nothing is issued")).unwrap_err();
    assert!(matches!(error, StartError::Log { error: LogError::Open(_), rescued: None }));
    assert!(error.to_string().contains("missing"), "{error}");
    start(process, &run, &folder("nowhere"), inline(process)).unwrap();
}

#[test]
fn a_library_without_samples_is_an_error_that_the_log_tells() {
    let process = process();
    let outdir = folder("empty");
    let logs = LogSettings { outdir: outdir.clone(), ..LogSettings::default() };
    let library = NullLibrary::new(0, 0);
    assert_eq!(library.name(), "null library");
    let system = Arc::new(Harness(|_: &[QuerySample]| unreachable!("nothing is issued"), || ()));
    let run = settings(Scenario::Offline, 1);
    let error = process.start_test(system, &library, &run, &logs, Path::new("none")).unwrap_err();
    assert!(matches!(error, StartError::Settings(_)), "{error:?}");
    assert!(error.to_string().contains("`library.total` is 0"), "{error}");
    assert!(grave(&outdir).iter().any(|(key, _)| key == "error_invalid_test_settings"));
}

#[test]
fn an_abort_from_another_thread_ends_a_silent_test() {
    let process = process();
    assert_eq!(process.abort(), Err(NoTestError));
    let outdir = folder("abort");
    let aborter = Mutex::new(None);
    let issue = move |_: &[QuerySample]| {
        let abort = thread::spawn(move || process.abort());
        *aborter.lock().unwrap() = Some(abort);
    };
    start(process, &settings(Scenario::SingleStream, 10), &outdir, issue).unwrap();
    let grave = grave(&outdir);
    assert!(grave.iter().any(|(_, text)| text.contains("aborted")), "{grave:?}");
    start(process, &settings(Scenario::SingleStream, 70), &outdir, inline(process)).unwrap();
    assert_eq!(validity(&outdir).as_deref(), Some("VALID"));
}

#[test]
fn registered_threads_serve_one_test_and_others_the_next() {
    let process = process();
    let run = TestSettings { server_num_issue_query_threads: 2, ..settings(Scenario::Server, 600) };
    for round in 0..3 {
        let outdir = folder(&format!("threads-{round}"));
        let issued: Arc<Mutex<Vec<thread::ThreadId>>> = Arc::default();
        let register = || thread::spawn(|| process.register_issue_thread());
        let threads = [register(), register()];
        let issue = {
            let issued = issued.clone();
            move |samples: &[QuerySample]| {
                issued.lock().unwrap().push(thread::current().id());
                process.complete(&ids(samples)).unwrap();
            }
        };
        start(process, &run, &outdir, issue).unwrap();
        for registered in &threads {
            let count =
                issued.lock().unwrap().iter().filter(|id| **id == registered.thread().id()).count();
            assert_eq!(count, 300, "round {round}");
        }
        for registered in threads {
            registered.join().unwrap();
        }
        assert_eq!(grave(&outdir), [], "round {round}");
    }
}

#[test]
fn registered_threads_are_released_without_a_test() {
    let process = process();
    let waiting = thread::spawn(|| process.register_issue_thread());
    // Releases nothing until the thread is registered.
    while !waiting.is_finished() {
        process.release_issue_threads();
        thread::yield_now();
    }
    waiting.join().unwrap();
    let outdir = folder("released");
    start(process, &settings(Scenario::SingleStream, 70), &outdir, inline(process)).unwrap();
    assert_eq!(validity(&outdir).as_deref(), Some("VALID"));
}

#[test]
fn threads_that_complete_at_flush_and_exit_leave_a_whole_result() {
    let process = process();
    let held: Arc<Mutex<Vec<ResponseId>>> = Arc::default();
    let outdir = folder("flush");
    let issue = {
        let held = held.clone();
        move |samples: &[QuerySample]| held.lock().unwrap().extend(ids(samples))
    };
    let flush = move || {
        let held = std::mem::take(&mut *held.lock().unwrap());
        for part in held.chunks(held.len().div_ceil(2).max(1)) {
            let part = part.to_vec();
            thread::spawn(move || {
                for batch in part.chunks(7) {
                    process.complete(batch).unwrap();
                }
            });
        }
    };
    for _ in 0..50 {
        let run = TestSettings { server_target_qps: 1e7, ..settings(Scenario::Server, 500) };
        start_flushed(process, &run, &outdir, issue.clone(), flush.clone()).unwrap();
        assert_eq!(validity(&outdir).as_deref(), Some("VALID"));
    }
}

/// A response whose payload is fetched only on request.
struct LazyResponse {
    id: ResponseId,
    payload: Vec<u8>,
}

impl AsResponse for LazyResponse {
    fn id(&self) -> ResponseId {
        self.id
    }
    fn data(&self) -> &[u8] {
        &self.payload
    }
    fn tokens(&self) -> i64 {
        0
    }
}

#[test]
fn payloads_are_fetched_for_logged_responses_only_and_may_complete_others() {
    let process = process();
    let outdir = folder("fetch");
    let fetched = Arc::new(AtomicUsize::new(0));
    let count = fetched.clone();
    let issue = move |samples: &[QuerySample]| {
        let mut lazy: Vec<LazyResponse> =
            ids(samples).into_iter().map(|id| LazyResponse { id, payload: Vec::new() }).collect();
        let completed_inside = AtomicBool::new(false);
        process
            .complete_fetching(&mut lazy, &mut |response| {
                count.fetch_add(1, Ordering::Relaxed);
                response.payload = response.id.sequence().to_le_bytes().to_vec();
                if !completed_inside.swap(true, Ordering::Relaxed) {
                    // An unknown id: neither a deadlock nor another effect.
                    process.complete(&[ResponseId(1)]).unwrap();
                }
            })
            .unwrap();
    };
    let run = TestSettings { accuracy_log_probability: 0.5, ..settings(Scenario::Offline, 1_000) };
    start(process, &run, &outdir, issue.clone()).unwrap();
    let logged: Vec<_> = open_accuracy(&outdir.join("mlperf_log_accuracy.json"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(logged.len(), fetched.load(Ordering::Relaxed));
    assert!((300..700).contains(&logged.len()), "{}", logged.len());
    assert!(logged.iter().all(|entry| entry.data == entry.seq_id.to_le_bytes()));

    fetched.store(0, Ordering::Relaxed);
    let accuracy = TestSettings { mode: TestMode::AccuracyOnly, ..run };
    start(process, &accuracy, &outdir, issue).unwrap();
    assert_eq!(fetched.load(Ordering::Relaxed), 100);
}

/// A response of a program that has one buffer for the payloads of all: the next
/// fetch overwrites it.
struct OneBuffer<'a> {
    id: ResponseId,
    payload: Vec<u8>,
    last_fetched: &'a Cell<ResponseId>,
}

impl AsResponse for OneBuffer<'_> {
    fn id(&self) -> ResponseId {
        self.id
    }
    fn data(&self) -> &[u8] {
        if self.last_fetched.get() == self.id { &self.payload } else { b"overwritten" }
    }
    fn tokens(&self) -> i64 {
        0
    }
}

#[test]
fn each_fetched_payload_is_read_before_the_next_is_fetched() {
    let process = process();
    let outdir = folder("fetch-one-buffer");
    let issue = move |samples: &[QuerySample]| {
        let last_fetched = Cell::new(ResponseId(0));
        let mut responses: Vec<_> = ids(samples)
            .into_iter()
            .map(|id| OneBuffer { id, payload: Vec::new(), last_fetched: &last_fetched })
            .collect();
        process
            .complete_fetching(&mut responses, &mut |response| {
                response.payload = response.id.sequence().to_le_bytes().to_vec();
                // What a program writes over its id counts no more.
                response.id = ResponseId(response.id.0 | 1 << 20);
                last_fetched.set(response.id);
            })
            .unwrap();
    };
    let accuracy = TestSettings { mode: TestMode::AccuracyOnly, ..settings(Scenario::Offline, 1) };
    start(process, &accuracy, &outdir, issue).unwrap();
    let logged: Vec<_> = open_accuracy(&outdir.join("mlperf_log_accuracy.json"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(logged.len(), 100);
    assert!(logged.iter().all(|entry| entry.data == entry.seq_id.to_le_bytes()));
}

#[test]
fn configuration_files_have_the_references_codes_and_messages() {
    let process = process();
    let outdir = folder("config");
    let file = outdir.join("user.conf");
    let mut settings = settings(Scenario::SingleStream, 70);
    let mut call = |text: Option<&str>, conf_type| {
        let _ = fs::remove_file(&file);
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let code = process.from_config(&mut settings, &file, "resnet50", "Server", conf_type);
        (code, settings.performance_sample_count_override, settings.server_target_qps)
    };
    assert_eq!(call(Some("*.Server.target_qps = 5\n"), 2), (0, 0, 5.0));
    assert_eq!(call(None, 1), (-2, 1024, 1.0));
    let bad = "*.Server.target_qps = 7\nfoo bar\n*.x =5\n*.y = abc\n";
    assert_eq!(call(Some(bad), 1), (-22, 1024, 1.0));
    assert_eq!(call(Some("*.*.mode = 9\n"), 2), (0, 1024, 1.0));
    settings.min_duration_ms = 0;
    settings.min_query_count = 70;
    settings.performance_sample_count_override = 0;
    start(process, &settings, &outdir, inline(process)).unwrap();
    let grave: Vec<String> = grave(&outdir).into_iter().map(|(_, text)| text).collect();
    let expected = [
        "can't open file",
        "Multiple conf files are used",
        "expected 'key=value', line=2",
        "expected 'key=value', line=3",
        "value needs to be integer or double, line=4",
        "Invalid value passed to Mode key in config.",
    ];
    assert_eq!(grave.len(), expected.len(), "{grave:?}");
    for (text, expected) in grave.iter().zip(expected) {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn an_audit_file_overrides_settings_and_the_log_says_so() {
    let process = process();
    let outdir = folder("audit");
    fs::write(outdir.join("audit.config"), "*.*.mode = 1\n").unwrap();
    start(process, &settings(Scenario::Offline, 50), &outdir, inline(process)).unwrap();
    let (detail, _) = read_detail_file(&outdir.join("mlperf_log_detail.txt")).unwrap();
    assert_eq!(detail.text("effective_test_mode"), Some("AccuracyOnly"));
    assert!(grave(&outdir)[0].1.contains("Found Audit Config file"), "{:?}", grave(&outdir));
}

/// A library that aborts the test in the call with this name.
struct AbortingLibrary(&'static LoadGen, NullLibrary, &'static str);

impl AbortingLibrary {
    fn called(&self, call: &str) {
        if call == self.2 {
            self.0.abort().unwrap();
        }
    }
}

impl SampleLibrary for AbortingLibrary {
    fn name(&self) -> &str {
        self.1.name()
    }
    fn total_sample_count(&self) -> usize {
        self.called("total_sample_count");
        self.1.total_sample_count()
    }
    fn performance_sample_count(&self) -> usize {
        self.1.performance_sample_count()
    }
    fn load(&self, samples: &[u32]) {
        self.1.load(samples);
    }
    fn unload(&self, samples: &[u32]) {
        self.called("unload");
        self.1.unload(samples);
    }
}

fn start_aborting(
    process: &'static LoadGen,
    settings: &TestSettings,
    outdir: &Path,
    call: &'static str,
) {
    let logs = LogSettings { outdir: outdir.into(), ..LogSettings::default() };
    let library = AbortingLibrary(process, NullLibrary::new(100, 100), call);
    let system = Arc::new(Harness(inline(process), || ()));
    process.start_test(system, &library, settings, &logs, &outdir.join("none")).unwrap();
}

#[test]
fn an_abort_while_the_library_is_asked_its_size_is_an_abort() {
    let outdir = folder("early-abort");
    let settings = settings(Scenario::SingleStream, 700);
    start_aborting(process(), &settings, &outdir, "total_sample_count");
    let grave = grave(&outdir);
    assert!(grave.iter().any(|(_, text)| text.contains("aborted")), "{grave:?}");
}

#[test]
fn a_test_that_is_aborted_after_its_last_sample_is_invalid() {
    let process = process();
    for scenario in Scenario::ALL {
        let settings = settings(*scenario, 700);
        let outdir = folder(&format!("abort-at-unload-{scenario}"));
        start_aborting(process, &settings, &outdir, "unload");
        assert_eq!(validity(&outdir).as_deref(), Some("INVALID"), "{scenario}");
        let grave = grave(&outdir);
        assert!(grave.iter().any(|(_, text)| text.contains("aborted")), "{grave:?}");
    }
    let outdir = folder("abort-at-flush");
    let settings = settings(Scenario::Offline, 700);
    let flush = move || process.abort().unwrap();
    start_flushed(process, &settings, &outdir, inline(process), flush).unwrap();
    assert_eq!(validity(&outdir).as_deref(), Some("INVALID"));
}

#[test]
fn the_detail_log_shows_the_settings_while_the_test_runs() {
    let process = process();
    let outdir = folder("head");
    let detail = outdir.join("mlperf_log_detail.txt");
    let seen: Arc<Mutex<String>> = Arc::default();
    let issue = {
        let (seen, detail) = (seen.clone(), detail.clone());
        move |samples: &[QuerySample]| {
            *seen.lock().unwrap() = fs::read_to_string(&detail).unwrap();
            process.complete(&ids(samples)).unwrap();
        }
    };
    start(process, &settings(Scenario::SingleStream, 70), &outdir, issue).unwrap();
    let (seen, whole) = (seen.lock().unwrap().clone(), fs::read_to_string(&detail).unwrap());
    assert!(seen.contains("\"effective_scenario\"") && seen.ends_with("}}\n"), "{seen}");
    assert!(!seen.contains("\"is_error\": true"), "{seen}");
    // A reader that follows the file gets each line once.
    assert!(whole.starts_with(&seen) && whole.len() > seen.len(), "{whole}");
    assert_eq!(whole.matches("\"effective_scenario\"").count(), 1);
    assert_eq!(validity(&outdir).as_deref(), Some("VALID"));
}

#[test]
fn a_prefix_that_begins_with_a_slash_stays_in_the_folder() {
    for prefix in ["x_", "/x_", "//x_"] {
        let logs =
            LogSettings { outdir: "out".into(), prefix: prefix.into(), ..LogSettings::default() };
        let [summary, ..] = logs.paths(None, WallTime { unix_ns: 0 });
        assert_eq!(summary, Path::new("out/x_summary.txt"), "{prefix}");
    }
}

#[test]
fn a_stream_of_repeated_completions_does_not_keep_an_abort_from_being_noticed() {
    let process = process();
    let outdir = folder("abort-in-noise");
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<ResponseId>>();
    // Completes the first sample again and again, the second one never.
    let noise = thread::spawn(move || {
        let first = receiver.recv().unwrap();
        let _second = receiver.recv().unwrap();
        process.abort().unwrap();
        while process.complete(&first).is_ok() {
            thread::yield_now();
        }
    });
    let sender = Mutex::new(sender);
    let issued = AtomicUsize::new(0);
    let issue = move |samples: &[QuerySample]| {
        if issued.fetch_add(1, Ordering::Relaxed) == 0 {
            process.complete(&ids(samples)).unwrap();
        }
        sender.lock().unwrap().send(ids(samples)).unwrap();
    };
    start(process, &settings(Scenario::SingleStream, 700), &outdir, issue).unwrap();
    noise.join().unwrap();
    let grave = grave(&outdir);
    assert!(grave.iter().any(|(_, text)| text.contains("aborted")), "{grave:?}");
}

#[test]
fn a_client_that_is_far_behind_coalesces_in_calls_of_bounded_size() {
    let process = process();
    let outdir = folder("coalesce");
    let calls: Arc<Mutex<Vec<usize>>> = Arc::default();
    let issue = {
        let calls = calls.clone();
        move |samples: &[QuerySample]| {
            calls.lock().unwrap().push(samples.len());
            process.complete(&ids(samples)).unwrap();
        }
    };
    let run = TestSettings {
        server_coalesce_queries: true,
        server_target_qps: 1e9,
        ..settings(Scenario::Server, 50_000)
    };
    start(process, &run, &outdir, issue).unwrap();
    let calls = calls.lock().unwrap();
    assert_eq!(calls.iter().sum::<usize>(), 50_000);
    assert!(calls.iter().all(|&queries| queries <= 4_096), "{calls:?}");
    assert!(calls.len() < 50_000, "nothing coalesced");
}
