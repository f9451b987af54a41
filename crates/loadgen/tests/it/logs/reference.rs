//! The logs of the reference LoadGen: read, rebuilt into what Dyno keeps of a
//! test, written by Dyno, and compared with what the reference wrote.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_loadgen::log::read::{
    AccuracyEntry, Detail, TraceReader, disagreements, open_accuracy, read_detail_file,
    read_summary, record_of, samples_of,
};
use dyno_loadgen::log::{LogFiles, LogSettings, Report};
use dyno_loadgen::metrics::{Metrics, Rates};
use dyno_loadgen::run::{Event, TestLog};
use dyno_loadgen::verdict::judge;

use super::rebuild;

/// The project's shelf of reference data, where it is at hand.
fn shelf() -> Option<PathBuf> {
    let shelf = std::env::var_os("DYNO_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    if shelf.is_dir() {
        return Some(shelf);
    }
    println!("skipped: no shelf of reference data at {}", shelf.display());
    None
}

/// Folders of logs: those of the crate, and all of the project's shelf where it
/// is at hand.
fn folders() -> Vec<PathBuf> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut roots = vec![crate_root.join("testdata/reference")];
    roots.extend(shelf().map(|shelf| shelf.join("reference/loadgen")));
    let mut folders = Vec::new();
    for root in roots {
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            if path.join("mlperf_log_detail.txt").is_file() {
                folders.push(path);
            }
        }
    }
    folders.sort();
    assert!(folders.len() >= 8, "the crate's own reference logs are there");
    folders
}

fn detail_of(folder: &Path) -> Detail {
    let (detail, problems) = read_detail_file(&folder.join("mlperf_log_detail.txt")).unwrap();
    assert_eq!(problems, [], "{}", folder.display());
    detail
}

fn summary_text(folder: &Path) -> String {
    fs::read_to_string(folder.join("mlperf_log_summary.txt")).unwrap()
}

fn accuracy_of(folder: &Path) -> Vec<AccuracyEntry> {
    let reader = open_accuracy(&folder.join("mlperf_log_accuracy.json")).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

/// Writes a test into a fresh folder of its own and returns that folder.
fn write(name: &str, folder: &Path, log: &TestLog, reports: &[Report]) -> PathBuf {
    let outdir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(name)
        .join(folder.parent().unwrap().file_name().unwrap())
        .join(folder.file_name().unwrap());
    fs::create_dir_all(&outdir).unwrap();
    let settings = LogSettings { outdir: outdir.clone(), ..LogSettings::default() };
    let mut files = LogFiles::open(&settings, None, 0).unwrap();
    files.write_reports(log, reports).unwrap();
    outdir
}

#[test]
fn every_file_reads_without_a_problem() {
    for folder in folders() {
        let detail = detail_of(&folder);
        assert!(detail.entries.len() > 60, "{}", folder.display());
        assert_eq!(detail.text("sut_name"), Some("PySUT"));
        let text = summary_text(&folder);
        let (summary, problems) = read_summary(&text);
        assert_eq!(problems, [], "{}", folder.display());
        assert_eq!(summary.errors, Some(detail.errors().count() as u64));
        let accuracy = accuracy_of(&folder);
        let mode = detail.text("effective_test_mode").unwrap();
        let logs_responses = matches!(mode, "AccuracyOnly" | "SubmissionRun");
        assert_eq!(!accuracy.is_empty(), logs_responses, "{}", folder.display());
        let Ok(trace) = fs::read(folder.join("mlperf_log_trace.json")) else { continue };
        for event in TraceReader::new(&trace[..]) {
            event.unwrap_or_else(|problem| panic!("{}: {problem}", folder.display()));
        }
    }
}

#[test]
fn summary_and_detail_agree_and_a_changed_number_is_found() {
    for folder in folders() {
        let detail = detail_of(&folder);
        let text = summary_text(&folder);
        let (summary, _) = read_summary(&text);
        assert_eq!(disagreements(&summary, &detail), [], "{}", folder.display());
        if summary.fields.is_empty() {
            continue;
        }
        let max = summary.value("Max latency (ns)").unwrap();
        let changed = text.replace(max, &format!("{max}0"));
        let (changed, _) = read_summary(&changed);
        let found = disagreements(&changed, &detail);
        assert!(found.iter().any(|d| d.label == "Max latency (ns)"), "{}", folder.display());
    }
}

#[test]
fn the_summary_is_the_references_byte_for_byte() {
    for folder in folders() {
        let detail = detail_of(&folder);
        let text = summary_text(&folder);
        let (summary, _) = read_summary(&text);
        let rebuilt = rebuild::test_log(&detail, &summary, &accuracy_of(&folder));
        let outdir = write("summary", &folder, &rebuilt.log, &rebuilt.reports());
        assert_eq!(summary_text(&outdir), summary_text(&folder), "{}", folder.display());
    }
}

#[test]
fn the_detail_log_has_the_references_keys_and_values_in_its_order() {
    // Lines about the build of the reference, and lines that only Dyno writes.
    let own = |key: &str| key.starts_with("loadgen_") || key.starts_with("dyno_");
    for folder in folders() {
        let detail = detail_of(&folder);
        let text = summary_text(&folder);
        let (summary, _) = read_summary(&text);
        let rebuilt = rebuild::test_log(&detail, &summary, &accuracy_of(&folder));
        let outdir = write("detail", &folder, &rebuilt.log, &rebuilt.reports());
        let written = detail_of(&outdir);
        let mut ours = written.entries.iter().filter(|entry| !own(&entry.key));
        for theirs in detail.entries.iter().filter(|entry| !own(&entry.key)) {
            let ours = ours.next().unwrap_or_else(|| panic!("no line for {}", theirs.key));
            let place = format!("{}, line {}", folder.display(), theirs.line);
            assert_eq!((&ours.key, &ours.value), (&theirs.key, &theirs.value), "{place}");
            assert_eq!(ours.is_error, theirs.is_error, "{place}");
            assert_eq!(ours.is_warning, theirs.is_warning, "{place}");
        }
        assert_eq!(ours.next(), None, "{}", folder.display());
        let versions = |detail: &Detail| -> Vec<String> {
            let first = detail.entries.iter().take(7);
            first.map(|entry| entry.key.clone()).collect()
        };
        assert_eq!(versions(&written), versions(&detail));
    }
}

#[test]
fn the_accuracy_log_is_the_references_byte_for_byte() {
    for folder in folders() {
        let detail = detail_of(&folder);
        let text = summary_text(&folder);
        let (summary, _) = read_summary(&text);
        let rebuilt = rebuild::test_log(&detail, &summary, &accuracy_of(&folder));
        let outdir = write("accuracy", &folder, &rebuilt.log, &rebuilt.reports());
        let file = "mlperf_log_accuracy.json";
        let (ours, theirs) = (fs::read(outdir.join(file)), fs::read(folder.join(file)));
        assert!(ours.unwrap() == theirs.unwrap(), "{}", folder.display());
    }
}

/// The runs whose traces show every sample, rebuilt with all their times.
fn traced() -> Vec<(PathBuf, rebuild::RebuiltTest, Detail)> {
    let mut traced = Vec::new();
    for folder in folders() {
        if !folder.to_string_lossy().ends_with("-PerformanceOnly-trace") {
            continue;
        }
        let detail = detail_of(&folder);
        let text = summary_text(&folder);
        let (summary, _) = read_summary(&text);
        let mut rebuilt = rebuild::test_log(&detail, &summary, &[]);
        let trace = fs::read(folder.join("mlperf_log_trace.json")).unwrap();
        let (samples, problems) = samples_of(TraceReader::new(&trace[..]));
        assert_eq!(problems, []);
        let run = rebuilt.log.events.iter_mut().find_map(|event| match event {
            Event::Run(run) => Some(run),
            _ => None,
        });
        let run = run.expect("there is a run");
        // The first query is due at the start in Server and Offline; elsewhere the
        // start is not in the trace and a little earlier.
        run.started_at = samples[0].scheduled_at;
        let samples_per_query = run.generated_samples_per_query as usize;
        let scheduled = matches!(
            rebuilt.metrics.as_ref().unwrap().rates,
            Rates::Server { .. } | Rates::Offline { .. }
        );
        run.record = record_of(&samples, samples_per_query, run.started_at, scheduled)
            .expect("the trace has whole queries");
        traced.push((folder, rebuilt, detail));
    }
    assert!(traced.len() >= 2);
    traced
}

#[test]
fn metrics_of_a_traced_run_are_those_of_its_detail_log() {
    for (folder, rebuilt, detail) in traced() {
        let Some(Event::Run(run)) = rebuilt.log.events.iter().find(|e| matches!(e, Event::Run(_)))
        else {
            panic!("there is a run");
        };
        let metrics = Metrics::from_record(&run.record, &run.plan);
        let logged = rebuilt.metrics.as_ref().unwrap();
        let place = folder.display();
        assert_eq!(metrics.latency, logged.latency, "{place}");
        assert_eq!(metrics.query_latency, logged.query_latency, "{place}");
        assert_eq!(metrics.query_count, logged.query_count, "{place}");
        assert_eq!(metrics.over.latency, logged.over.latency, "{place}");
        match (metrics.rates, logged.rates) {
            (
                Rates::SingleStream { with_overhead, without_overhead },
                Rates::SingleStream { with_overhead: with, without_overhead: without },
            ) => {
                assert!((without_overhead / without - 1.0).abs() < 1e-5, "{place}");
                // The reference began some microseconds before the first issue.
                assert!(with_overhead >= with && with_overhead < 1.1 * with, "{place}");
            }
            (Rates::MultiStream, Rates::MultiStream) => {}
            (
                Rates::Server { scheduled, completed },
                Rates::Server { scheduled: due, completed: done },
            ) => {
                assert!((scheduled / due - 1.0).abs() < 1e-5, "{place}");
                assert!((completed / done - 1.0).abs() < 1e-5, "{place}");
            }
            (Rates::Offline { samples }, Rates::Offline { samples: logged }) => {
                assert!((samples / logged - 1.0).abs() < 1e-5, "{place}");
            }
            (ours, theirs) => panic!("{place}: {ours:?} and {theirs:?}"),
        }
        let judgement = judge(&metrics, &run.plan, run.ended);
        assert_eq!(
            Some(judgement.early_stopping_met),
            detail.flag("early_stopping_met"),
            "{place}"
        );
        assert_eq!(
            judgement.early_stopping,
            rebuilt.judgement.as_ref().unwrap().early_stopping,
            "{place}"
        );
    }
}

#[test]
fn the_samples_of_the_trace_are_the_references_line_for_line() {
    let samples = |path: PathBuf| -> Vec<String> {
        let text = fs::read_to_string(path.join("mlperf_log_trace.json")).unwrap();
        let of_samples = |line: &&str| line.contains("\"Sample\"") || line.contains("\"Latency\"");
        let mut lines: Vec<String> = text.lines().filter(of_samples).map(without_pid).collect();
        lines.sort();
        lines
    };
    for (folder, rebuilt, _) in traced() {
        let outdir = write("trace", &folder, &rebuilt.log, &rebuilt.reports());
        let (ours, theirs) = (samples(outdir), samples(folder.clone()));
        assert!(ours.len() >= 24, "{}", folder.display());
        assert_eq!(ours, theirs, "{}", folder.display());
    }
}

fn without_pid(line: &str) -> String {
    let (head, tail) = line.split_once("\"pid\":").unwrap();
    format!("{head}{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn logs_of_real_submissions_read_and_agree() {
    let Some(shelf) = shelf() else { return };
    let mut open = vec![shelf.join("reference/submissions/tree")];
    let mut read = 0;
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        open.extend(entries.map(|e| e.unwrap().path()).filter(|path| path.is_dir()));
        let Ok((detail, problems)) = read_detail_file(&folder.join("mlperf_log_detail.txt")) else {
            continue;
        };
        assert_eq!(problems, [], "{}", folder.display());
        let text = summary_text(&folder);
        let (summary, problems) = read_summary(&text);
        assert_eq!(problems, [], "{}", folder.display());
        assert_eq!(disagreements(&summary, &detail), [], "{}", folder.display());
        read += 1;
    }
    assert!(read > 0, "the tree of submissions has logs");
}
