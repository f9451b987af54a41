//! Pages of several runs, of a sweep, and of a search.

use std::fs;

use serde_json::{Value, json};

use super::{SMALL, well_formed};
use crate::program::Folder;

#[test]
fn runs_without_a_result_have_a_row_among_several() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out runs/whole")).exits(0);
    let accuracy = SMALL.replace("performance", "accuracy").replace("--duration 3s", "");
    let accuracy = accuracy.replace("--set min_query_count=70", "");
    folder.dyno(&format!("{accuracy} --out runs/accuracy")).exits(0);
    folder.dyno(&format!("{SMALL} --out runs/cut")).exits(0);
    let mut cut: Value = serde_json::from_str(&folder.read("runs/cut/summary.json")).unwrap();
    cut["state"] = "interrupted".into();
    cut["tests"][0]["state"] = "interrupted".into();
    cut["tests"][0]["verdict"] = "INTERRUPTED".into();
    cut["tests"][0]["metrics"] = Value::Null;
    cut["tests"][0]["result"] = Value::Null;
    folder.write("runs/cut/summary.json", &cut.to_string());
    let mut none = cut.clone();
    none["tests"] = json!([]);
    folder.write("runs/none/summary.json", &none.to_string());
    folder.write(
        "runs/none/series.json",
        "{\"schema\": \"dyno.series\", \"schema_version\": 1, \"tests\": []}",
    );
    let ran = folder.dyno("report runs").exits(0);
    let page = folder.read("runs/report.html");
    well_formed(&page);
    let row = |name: &str| -> String {
        let rows = page.split("<tr>").find(|row| row.contains(&format!(">{name}<"))).expect(name);
        rows.split("</tr>").next().unwrap().to_string()
    };
    assert!(row("whole").contains("VALID"));
    for (name, verdict) in [("accuracy", "VALID"), ("cut", "INTERRUPTED")] {
        assert!(row(name).contains("data-value=\"\">–<"), "{}", row(name));
        assert!(row(name).contains(verdict), "{}", row(name));
    }
    assert!(page.contains("none: none of its tests finished"), "{}", ran.stderr);
}
#[test]
fn several_runs_have_a_front_with_a_bend() {
    let folder = Folder::new();
    // Latency goes up steeply near the capacity of 500 queries/s.
    for qps in [50, 150, 250, 350, 420, 460, 480] {
        let run = "run -q --system model:exponential=2ms --scenario server --mode performance";
        let bound = "--duration 20s --set server_target_latency_ns=150ms";
        folder.dyno(&format!("{run} {bound} --qps {qps} --out runs/qps-{qps}"));
    }
    folder.dyno("report runs").exits(0);
    let page = folder.read("runs/report.html");
    well_formed(&page);
    for said in [
        "Latency by throughput",
        "Pareto front",
        "bend of the front: ",
        "bound 150",
        "qps-420/report.html",
    ] {
        assert!(page.contains(said), "{said}");
    }
    // An unreadable run is reported, and the others are shown.
    folder.write("runs/qps-50/summary.json", "{}");
    fs::remove_dir_all(folder.0.join("runs/qps-50/Server")).unwrap();
    let ran = folder.dyno("report runs/qps-50 runs/qps-150 runs/qps-250 --out two.html").exits(0);
    assert!(ran.stderr.contains("qps-50"), "{}", ran.stderr);
    assert!(folder.read("two.html").contains("<h1>2 runs"), "two are left");
}

#[test]
fn a_bound_is_drawn_only_if_all_runs_have_it_and_a_run_counts_once() {
    let folder = Folder::new();
    let bound = "--set server_target_latency_ns=40ms";
    let other = format!("{bound} --seed 2");
    for (name, more) in [("a", bound), ("b", other.as_str()), ("c", "--profile llm")] {
        folder.dyno(&format!("{SMALL} {more} --out {name}")).exits(0);
    }
    let page = |runs: &str| -> String {
        folder.dyno(&format!("report {runs} --out page.html")).exits(0);
        folder.read("page.html")
    };
    assert!(page("a b").contains("bound 40"));
    for mixed in ["a c", "c a"] {
        assert!(!page(mixed).contains("bound 40"), "{mixed}: c has no bound");
    }
    assert!(page("a ./a b").contains("<h1>2 runs"));
    let of_p90 = "--set server_target_latency_percentile=0.9";
    for (name, seed) in [("d", 3), ("e", 4)] {
        let more = format!("{bound} {of_p90} --seed {seed}");
        folder.dyno(&format!("{SMALL} {more} --out {name}"));
    }
    let count = |runs: &str| page(runs).matches("bound 40").count();
    assert!((1..count("a b")).contains(&count("d e")), "a bound on p90 is no bound on p99");
    // Results are sorted by their unit first.
    assert!(page("a b").contains("data-unit=\"queries/s\" data-value=\""));
}

#[test]
fn results_of_different_kinds_share_no_scale() {
    let folder = Folder::new();
    let run = "run -q --system model:fixed=1ms --scenario multi-stream --duration 3s";
    folder.dyno(&format!("{run} --mode performance --out runs/latency"));
    let peak = "--mode peak --set multi_stream_target_qps=20";
    folder.dyno(&format!("{run} {peak} --out runs/streams"));
    folder.dyno("report runs").exits(0);
    let page = folder.read("runs/report.html");
    well_formed(&page);
    for (name, run) in [("p99 query latency", "latency"), ("streams", "streams")] {
        let (_, bars) = page.split_once(&format!("<h3>{name}</h3>")).expect(name);
        let bars = bars.split("<h3>").next().unwrap();
        assert_eq!(bars.matches("class=\"who\"").count(), 1, "{bars}");
        assert!(bars.contains(&format!("<span class=\"who\">{run}</span>")), "{bars}");
    }
}

#[test]
fn a_sweep_has_its_accuracy_against_throughput_and_operations() {
    let folder = Folder::new();
    let mut points = Vec::new();
    for (number, workers) in (1..).zip([1, 2]) {
        let out = format!("sweep/points/{number}");
        let run = "run -q --system digits --scenario offline --mode both --duration 50ms";
        folder.dyno(&format!("{run} --set min_query_count=1 --workers {workers} --out {out}"));
        points.push(json!({
            "number": number, "repeat": 1, "name": format!("workers-{workers}"),
            "assignments": {"workers": workers.to_string()}, "operations": 1e6 * f64::from(number),
            "state": "done", "folder": format!("points/{number}"), "message": null,
            "exit_code": 0, "took_ns": 1, "results": [],
        }));
    }
    let mut pending = points[0].clone();
    pending["state"] = "pending".into();
    let mut outside = points[0].clone();
    outside["folder"] = "../../elsewhere".into();
    points.extend([pending, outside]);
    let sweep = json!({
        "schema": "dyno.sweep", "schema_version": 1, "state": "interrupted", "name": "two workers",
        "official": false, "disclaimer": "", "started_at": "", "command": [],
        "working_directory": ".", "dyno_version": "",
        "definition": {"fixed": [], "axes": [{"key": "workers", "values": ["1", "2"]}],
            "combine": "product", "exclude": [], "repeat": 1, "order": "given", "order_seed": 0,
            "environment": {}, "files": []},
        "points": points,
    });
    folder.write("sweep/sweep.json", &sweep.to_string());
    let ran = folder.dyno("report sweep").exits(0);
    assert!(ran.stderr.contains("1 of 4 points are not run yet"), "{}", ran.stderr);
    assert!(ran.stderr.contains("../../elsewhere is outside this directory"), "{}", ran.stderr);
    let page = folder.read("sweep/report.html");
    well_formed(&page);
    for said in
        ["Sweep two workers", "workers-2", "Accuracy by throughput", "Accuracy by operations"]
    {
        assert!(page.contains(said), "{said}");
    }
    // A sweep and its runs count once, and the runs keep their axes.
    folder.dyno("report sweep/points/1 sweep sweep/../sweep --out again.html").exits(0);
    let again = folder.read("again.html");
    assert!(again.contains("<h1>Sweep two workers<"), "the sweep counts once");
    assert!(again.contains(">workers-1<") && again.contains("Accuracy by operations"));
    assert_eq!(again.matches("<tr><th scope=\"row\">").count(), 2, "two runs");
}

#[test]
fn a_search_has_its_runs_its_peak_and_the_run_that_counts() {
    let folder = Folder::new();
    let search = "search --system model:exponential=2ms --limit p99<=50ms --limit p50<=20ms \
                  --from 100 --tolerance 5% --out found";
    folder.dyno(search).exits(0);
    // The sweep wrote its page itself, and writing it again gives an equal page.
    let page = folder.read("found/report.html");
    let names = well_formed(&page);
    let state: Value = serde_json::from_str(&folder.read("found/search.json")).unwrap();
    let binding = page.matches("At the peak, the expected share is the allowed one.").count();
    assert_eq!(binding, 1, "one of two limits binds");
    let runs = state["points"].as_array().unwrap().len();
    assert!(names.iter().filter(|name| *name == "tr").count() > runs, "a row a run");
    for text in [
        "Search of model:exponential=2ms",
        "CONFIRMED",
        "keep every limit in a full run",
        "latency p99 ≤ 50.0 ms, by load",
        "latency p50 ≤ 20.0 ms, by load",
        "Throughput by load",
        "<a href=\"confirm/report.html\">",
    ] {
        assert!(page.contains(text), "{text}");
    }
    folder.dyno("report found").exits(0);
    assert_eq!(folder.read("found/report.html"), page);
    folder.dyno("report found ./found --out twice.html").exits(0);
    assert!(folder.read("twice.html").contains("<h1>Search of model:exponential=2ms"));

    // Before a run that counts there are its runs; with a damaged state, the run that counts.
    let mut early = state.clone();
    early["points"] = json!([state["points"][0], state["points"][1]]);
    early["state"] = json!("interrupted");
    early["peak"] = Value::Null;
    early["confirmed"] = Value::Null;
    folder.write("early/search.json", &early.to_string());
    folder.dyno("report early").exits(0);
    let page = folder.read("early/report.html");
    well_formed(&page);
    assert!(page.contains("INTERRUPTED") && page.contains("dyno search --resume early"));

    folder.write("found/search.json", "{\"schema\": \"dyno.search\"");
    let ran = folder.dyno("report found --out rest.html").exits(0);
    assert!(ran.stderr.contains("found/search.json"), "{}", ran.stderr);
    assert!(folder.read("rest.html").contains("search.json"));
}

#[test]
fn a_search_that_names_a_folder_elsewhere_leads_nowhere() {
    let folder = Folder::new();
    folder
        .dyno(
            "search --system model:fixed=1ms --limit errors<=1% --from 100 --to 200 \
                 --short 100ms --no-confirm --out found",
        )
        .exits(1);
    let mut state: Value = serde_json::from_str(&folder.read("found/search.json")).unwrap();
    state["points"][0]["folder"] = json!("../elsewhere");
    state["points"][0]["load"] = json!(-1.0);
    state["points"][1]["p99_ns"] = json!(i64::MIN);
    folder.write("found/search.json", &state.to_string());
    folder.dyno(&format!("{SMALL} --out elsewhere")).exits(0);
    folder.dyno("report found").exits(0);
    let page = folder.read("found/report.html");
    well_formed(&page);
    assert!(!page.contains("elsewhere"));
}
