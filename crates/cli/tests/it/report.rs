//! Reports of one run and of several. `cargo xtask peers browser` tests them in a browser;
//! `remains` tests damaged runs.

mod remains;
mod several;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::Folder;

/// Every scenario of a simulated system, and a bound that Server misses.
const RUN: &str = "run -q --system model:exponential=2ms,servers=2,failed=0.01 --duration 2s \
                   --qps 300 --set min_query_count=70 --set server_target_latency_ns=6ms \
                   --workers 2 --batch 4 --out out";

/// A small run with accuracy and performance, of which nothing fails.
const SMALL: &str = "run -q --system model:fixed=1ms --scenario server --mode performance \
                     --duration 3s --qps 200 --set min_query_count=70";

/// Checks that every element is closed in order, that attributes are quoted, and
/// that nothing is fetched; returns the names of the elements.
#[track_caller]
fn well_formed(page: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let (mut names, mut plain) = (Vec::new(), String::new());
    let mut rest = page.strip_prefix("<!doctype html>").expect("a doctype");
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a stray > in {:?}", &rest[..at]);
        plain += &rest[..at];
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        plain += tag;
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
            continue;
        }
        let name = tag.split([' ', '\n', '/']).next().unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of <{tag}>");
        let values: Vec<&str> = tag.split('"').skip(1).step_by(2).collect();
        for fetched in ["src=", "srcset=", "xlink:", "@import", "url(", " on"] {
            assert!(
                !tag.contains(fetched) || values.iter().any(|v| v.contains(fetched)),
                "<{tag}>"
            );
        }
        if let Some((_, link)) = tag.split_once("href=\"") {
            assert!(!link.contains("//") && !link.starts_with("javascript"), "<{tag}>");
        }
        names.push(name.to_string());
        if matches!(name, "script" | "style") {
            let end = rest.find(&format!("</{name}>")).expect("closed");
            // The data of charts is looked at, too; programs are not.
            if tag.contains("application/json") {
                serde_json::from_str::<Value>(&rest[..end]).expect("JSON");
                plain += &rest[..end];
            }
            rest = &rest[end + name.len() + 3..];
        } else if !matches!(name, "meta" | "input" | "br") && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0], "all is closed");
    let level = |name: &String| name.strip_prefix('h')?.parse::<u32>().ok();
    let levels: Vec<u32> = names.iter().filter_map(level).collect();
    let jump = levels.windows(2).find(|pair| pair[1] > pair[0] + 1);
    assert_eq!(jump, None, "a heading skips a level: {levels:?}");
    for wrong in ["NaN", "inf\"", "://", "undefined"] {
        assert!(!plain.contains(wrong), "{wrong} in the page");
    }
    names
}

#[test]
fn a_report_is_well_formed_says_why_and_is_rendered_again_from_its_files() {
    let folder = Folder::new();
    folder.dyno(RUN).exits(1);
    let page = folder.read("out/report.html");
    let names = well_formed(&page);
    let figures = names.iter().filter(|name| *name == "svg").count();
    // SingleStream and MultiStream have six charts each, Server and Offline more.
    assert!(figures >= 4 * 6, "{figures} charts");
    assert!(page.len() < 300_000, "{} bytes", page.len());
    for said in [
        "None of the 8 tests is valid",
        "over the bound on latency",
        "Early Stopping Criterion",
        "Batch sizes",
        "flag --qps",
        "default-src 'none'",
    ] {
        assert!(page.contains(said), "{said:?} is not in the page");
    }
    let ran = folder.dyno("report out --out again.html").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.trim()), ("", "report: again.html"));
    folder.dyno("report out").exits(0);
    assert_eq!(folder.read("out/report.html"), page, "the same from the files");
    assert!(!folder.read("again.html").contains("href=\"summary.json\""), "elsewhere, no links");

    folder.dyno(&RUN.replace("--out out", "--out twin")).exits(1);
    assert_eq!(folder.read("twin/report.html"), page, "the same seed gives the same bytes");
}

/// Runs of others may have a link that leads to a file of the user.
#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_report_is_replaced() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out out")).exits(0);
    let page = folder.0.join("out/report.html");
    fs::remove_file(&page).unwrap();
    folder.write("own.txt", "own");
    std::os::unix::fs::symlink("../own.txt", &page).unwrap();
    folder.dyno("report out").exits(0);
    assert_eq!(folder.read("own.txt"), "own");
    assert!(!page.is_symlink() && folder.read("out/report.html").starts_with("<!doctype html>"));
}

#[test]
fn a_run_of_one_query_has_a_singular_and_no_empty_rate() {
    let folder = Folder::new();
    let run = "run --system model:fixed=1ms --scenario single-stream --mode performance";
    let ran = folder.dyno(&format!("{run} --num-prompts 1 --out out")).exits(1);
    assert!(ran.stdout.contains("1 query is too few for a p90"), "{}", ran.stdout);
    assert!(ran.stdout.contains("1 query answered is too few"), "{}", ran.stdout);
    let page = folder.read("out/report.html");
    well_formed(&page);
    assert!(page.contains("1 query is too few to bound the p90"));
    assert!(!page.contains("rate, client included"), "one query has no such rate");
    let (_, table) = page.split_once("<h3>Percentiles</h3>").expect("a table of percentiles");
    assert!(table.contains("* too few values for this percentile; shown is the largest one"));
    assert!(table.contains("data-label=\"p50\">1.00\u{202f}ms<"), "half of one query is no tail");
    assert!(table.contains("data-label=\"p99\">1.00\u{202f}ms*<"));
}

#[test]
fn batches_are_counted_by_their_size() {
    let folder = Folder::new();
    let run = RUN.replace("--duration 2s", "--duration 1s --scenario offline --mode performance");
    // What belongs to Server alone is an error here.
    let run = run.replace("--qps 300", "").replace("--set server_target_latency_ns=6ms", "");
    folder.dyno(&run);
    let series: Value = serde_json::from_str(&folder.read("out/series.json")).unwrap();
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let sizes: Vec<(u64, u64)> =
        serde_json::from_value(series["tests"][0]["batch_sizes"].clone()).unwrap();
    let metrics = &summary["tests"][0]["metrics"];
    let failed = metrics["failed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap());
    let all = metrics["sample_count"].as_u64().unwrap() + failed.sum::<u64>();
    assert_eq!(sizes.iter().map(|(size, count)| size * count).sum::<u64>(), all);
    // All samples wait from the start: every batch but the last is full.
    assert_eq!(sizes.last().unwrap().0, 4);
    assert!(sizes.iter().filter(|(size, _)| *size < 4).all(|(_, count)| *count <= 1), "{sizes:?}");
}

#[test]
fn hostile_names_stay_text() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out out")).exits(0);
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{0}";
    let mut summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    for key in ["name", "system", "profile", "started_at", "verdict", "time"] {
        summary[key] = hostile.into();
    }
    summary["remarks"] = json!([hostile]);
    summary["command"] = json!([hostile]);
    summary["environment"]["processor"] = hostile.into();
    let test = &mut summary["tests"][0];
    for key in ["scenario", "mode", "tenant", "verdict"] {
        test[key] = hostile.into();
    }
    test["reasons"] = json!([hostile]);
    test["notes"] = json!([hostile]);
    test["result"]["name"] = hostile.into();
    test["result"]["unit"] = hostile.into();
    test["metrics"]["ended"] = hostile.into();
    test["metrics"]["early_stopping"][0]["of"] = hostile.into();
    test["data"]["name"] = hostile.into();
    test["plan"]["arrivals"] = hostile.into();
    test["settings"] = json!({hostile: {"value": hostile, "unit": hostile, "origin": hostile}});
    folder.write("out/summary.json", &summary.to_string());
    folder.dyno("report out").exits(0);
    fs::rename(folder.0.join("out"), folder.0.join("a<b>&\"c")).unwrap();
    folder.dyno(&format!("{SMALL} --out b")).exits(0);
    for page in [folder.read("a<b>&\"c/report.html"), {
        folder.dyno("report . --out all.html").exits(0);
        folder.read("all.html")
    }] {
        let scripts = well_formed(&page).iter().filter(|name| *name == "script").count();
        let ours = page.matches("<script type=\"application/json\"").count() + 1;
        assert_eq!(scripts, ours, "only scripts of ours");
        assert!(!page.contains("<img"), "no element of theirs");
    }
}

#[test]
fn tenants_and_folders_of_any_name_have_links_of_their_own() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out out")).exits(0);
    let mut summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let tests = summary["tests"].as_array_mut().unwrap();
    tests.push(tests[0].clone());
    for (test, name) in tests.iter_mut().zip(["ä", "ö"]) {
        test["tenant"] = name.into();
    }
    folder.write("out/summary.json", &summary.to_string());
    folder.dyno("report out").exits(0);
    let page = folder.read("out/report.html");
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).map(|s| s.split('"').next().unwrap()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "{ids:?}");
    for link in page.split("href=\"#").skip(1).map(|s| s.split('"').next().unwrap()) {
        assert!(ids.contains(&link), "{link} of {ids:?}");
    }

    for hostile in [
        "\\\\evil.example\\x",
        "//evil.example/x",
        "https://evil.example",
        "%2e%2e/x",
        "x?y#z",
        "../x",
        "javascript:alert(1)",
    ] {
        summary["tests"][0]["folder"] = hostile.into();
        summary["tests"][1]["folder"] = hostile.into();
        let at = Path::new("out").join(hostile.trim_start_matches('/'));
        for log in [
            "mlperf_log_summary.txt",
            "mlperf_log_detail.txt",
            "mlperf_log_accuracy.json",
            "records.bin",
        ] {
            folder.write(at.join(log).to_str().unwrap(), "");
        }
        folder.write("out/summary.json", &summary.to_string());
        folder.dyno("report out").exits(0);
        let page = folder.read("out/report.html");
        for link in page.split("href=\"").skip(1).map(|s| s.split('"').next().unwrap()) {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.=+,%/".contains(c);
            let rest = link.strip_prefix('#').unwrap_or(link);
            assert!(rest.chars().all(is_plain) && !rest.starts_with('/'), "{hostile}: {link}");
            assert!(!rest.contains("..") && !rest.contains("%2e"), "{hostile}: {link}");
        }
    }
}

#[test]
fn seeds_of_an_audit_are_shown_only_in_its_runs() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out plain"));
    folder.dyno(&format!("{SMALL} --set test05=true --out audited"));
    let has = |run: &str| {
        folder.read(&format!("{run}/report.html")).contains("<code>test05_qsl_rng_seed</code>")
    };
    assert!(!has("plain") && has("audited"));
}
