//! Files of an earlier version: every reader still reads them and shows equal figures.
//! `testdata/formats-1/README.md` lists how they were made.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::Folder;

/// A folder with copies of the files, which readers may write to.
fn files() -> Folder {
    let folder = Folder::new();
    copy(&root(), &folder.0);
    folder
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/formats-1")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn json(folder: &Folder, name: &str) -> Value {
    serde_json::from_str(&folder.read(name)).unwrap()
}

/// The first place at which a document lacks something of an earlier one, or has another value.
/// A later version may add keys.
fn difference(earlier: &Value, later: &Value, at: &str) -> Option<String> {
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => {
            earlier.iter().find_map(|(key, value)| {
                let at = format!("{at}/{key}");
                match later.get(key) {
                    Some(found) => difference(value, found, &at),
                    // Absent means null.
                    None if value.is_null() => None,
                    None => Some(format!("{at} is missing")),
                }
            })
        }
        (Value::Array(earlier), Value::Array(later)) if earlier.len() == later.len() => {
            let pairs = earlier.iter().zip(later).enumerate();
            pairs.into_iter().find_map(|(n, (a, b))| difference(a, b, &format!("{at}/{n}")))
        }
        _ if earlier == later => None,
        _ => Some(format!("{at} was {earlier} and is {later}")),
    }
}

const RUNS: [&str; 4] = ["valid", "invalid", "short", "tokens"];

#[test]
fn reports_of_earlier_runs_show_the_same_figures() {
    let folder = files();
    for run in RUNS {
        folder.dyno(&format!("report {run} --out {run}.html")).exits(0);
        let page = folder.read(&format!("{run}.html"));
        let begin = page.find("id=\"summary\">").unwrap() + "id=\"summary\">".len();
        let length = page[begin..].find("</script>").unwrap();
        let shown: Value = serde_json::from_str(&page[begin..begin + length]).unwrap();
        let kept = json(&folder, &format!("{run}/summary.json"));
        assert_eq!(difference(&kept, &shown, ""), None, "{run}");
    }
    let page = folder.read("valid.html");
    assert!(page.contains("<span class=\"number\">308.5</span>"), "the completed rate");
    assert!(page.contains("8.35"), "the p99 in ms");
    assert!(folder.read("invalid.html").contains("13 of 298 samples exceed the bound"));
}

#[test]
fn a_run_is_rebuilt_from_earlier_logs() {
    let folder = files();
    folder.dyno("report logs --out logs.html").exits(0);
    let page = folder.read("logs.html");
    assert!(page.contains("<span class=\"number\">280.8</span>"), "the completed rate");
}

#[test]
fn earlier_records_are_exported_unchanged() {
    let folder = files();
    let csv = folder.dyno("export valid").exits(0).stdout;
    let first = "Server/performance,0,784,0,0,1797121,1797121,0,,,";
    assert_eq!((csv.lines().count(), csv.lines().nth(1)), (930, Some(first)));
    let failed = folder.dyno("export invalid").exits(0).stdout;
    assert_eq!(failed.lines().filter(|line| line.ends_with(",internal")).count(), 13);
    let tokens = folder.dyno("export tokens").exits(0).stdout;
    assert!(tokens.lines().skip(1).all(|line| line.ends_with(",4,")), "{tokens}");
    let text = folder.dyno("export valid --format prometheus").exits(0).stdout;
    let p99 = text.lines().find(|line| {
        line.starts_with("dyno_latency_quantile_seconds") && line.contains("quantile=\"0.99\"")
    });
    assert!(p99.unwrap().ends_with(" 0.008350887"), "{p99:?}");
    let xml = folder.dyno("export invalid --format junit").exits(0).stdout;
    assert!(xml.contains("<failure type=\"INVALID\" message=\"13 of 298 samples"), "{xml}");
}

#[test]
fn earlier_runs_are_compared() {
    let folder = files();
    let told = folder.dyno("compare valid invalid --json");
    let report = told.json();
    let text = report.to_string();
    assert!(text.contains("\"failures\""), "{text}");
    let console = folder.dyno("compare valid invalid").stdout;
    assert!(console.contains("308.7/s") && console.contains("281.3/s"), "{console}");
}

#[test]
fn an_earlier_search_goes_on_to_the_end_it_would_have_had() {
    let folder = files();
    let before = json(&folder, "search/search.json");
    let gone_on = folder.dyno("search --resume search --max-time 48h --json").exits(0).json();
    let points = gone_on["points"].as_array().unwrap();
    let kept = before["points"].as_array().unwrap();
    assert_eq!((kept.len(), points.len()), (16, 29));
    assert_eq!(difference(&before["points"], &Value::from(points[..16].to_vec()), ""), None);
    let load = gone_on["confirmed"]["load"].as_f64().unwrap();
    assert!((load - 391.686_906_289_966_26).abs() < 1e-9, "{load}");
    let peak = gone_on["peak"]["load"].as_f64().unwrap();
    assert!((peak - 412.194_583_205_803_8).abs() < 1e-9, "{peak}");
    assert!(folder.read("search/report.html").contains("412.2"));
}

#[test]
fn an_earlier_sweep_goes_on_with_the_points_that_are_left() {
    let folder = files();
    let before = json(&folder, "sweep/sweep.json");
    folder.dyno("sweep --resume sweep -q").exits(1);
    let after = json(&folder, "sweep/sweep.json");
    let [kept, points] = [&before, &after].map(|sweep| sweep["points"].as_array().unwrap());
    assert_eq!(after["state"], "complete");
    for (kept, point) in kept.iter().zip(points).take(3) {
        assert_eq!(difference(kept, point, ""), None, "a point that was run stays as it is");
    }
    assert_eq!(points[3]["name"], "batch-4-qps-400");
    assert!(points[3]["results"][0]["throughput"].as_f64().unwrap() > 300.0);
    assert!(folder.read("sweep/sweep.csv").contains("190.12094232819248"));
}

#[test]
fn an_earlier_tuning_goes_on_to_the_answer_it_would_have_had() {
    let folder = files();
    let kept = folder.read("tune/journal.jsonl");
    // Paths in the descriptor are relative to it, and the program stands beside it.
    for file in ["net.awk", "toy.toml"] {
        fs::copy(folder.0.join("tune").join(file), folder.0.join(file)).unwrap();
    }
    folder.dyno("tune run toy.toml --out tune --resume -q").exits(0);
    assert!(folder.read("tune/journal.jsonl").starts_with(&kept));
    let answer = folder.read("tune/opt_conf.txt");
    assert!(answer.starts_with("# dyno tune toy: 141,156 bits, accuracy 0.98 on the full set"));
}
