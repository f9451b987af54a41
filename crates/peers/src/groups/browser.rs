//! Reports in the system's Chromium, driven by Playwright: pages open, charts are drawn, nothing
//! overflows, and hovering, filtering, sorting, the theme, the keyboard and printing work. axe-core
//! finds no barriers for people with screen readers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{cargo, folder};

const WHEEL: &str = "playwright==1.65.2";
/// The package of axe-core for npm.
const AXE: &str = "axe-core@4.14.1";
const SCRIPT: &str = "crates/peers/scripts/browser.py";
/// Small pictures with which pages are compared.
const PICTURES: &str = "crates/cli/testdata/screenshots";
/// Larger pictures for the documentation.
const IMAGES: &str = "docs/images";
const REPORTS: &str = "reports in Chromium";
const ACCESSIBILITY: &str = "accessibility of reports by axe-core";

/// Names of the browser's program.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Runs in virtual time, which give the same bytes on every machine: name and arguments.
const RUNS: [(&str, &str); 4] = [
    (
        "valid",
        "--system model:exponential=2ms,servers=4 --qps 1500 --duration 5s --workers 4 \
         --batch 2 --set server_target_latency_ns=40ms",
    ),
    (
        "invalid",
        "--system model:exponential=2ms,servers=2,failed=0.01 --duration 2s --qps 300 \
         --set min_query_count=70 --set server_target_latency_ns=6ms",
    ),
    (
        "tokens",
        "--system model:lognormal=20ms,sigma=0.4,servers=24,tokens=20-200,per-token=2ms \
         --scenario server --mode performance --qps 60 --duration 60s \
         --set use_token_latencies=true --set server_ttft_latency=100000000 \
         --set server_tpot_latency=20000000",
    ),
    ("tenants", "--config tenants.toml"),
];

/// A run whose client lags, mostly by almost 0.
const LAGGING: &str = "--system null --scenario server --mode performance --qps 500 --duration 1s \
                       --set min_query_count=100 --set max_client_lag_ns=50ms";

/// Arrival rates of several runs of a queue that serves 1,000 queries/s.
const RATES: [u32; 8] = [100, 300, 500, 650, 750, 850, 900, 950];

/// Arguments of a search; the documentation of `dyno search` has the same queue.
const SEARCH: &str = "--system model:exponential=8ms,servers=4 --limit p99<=50ms \
                      --limit errors<=0.1% --from 20";
/// Arguments of a sweep over batch sizes and rates.
const SWEEP: &str = "--system model:fixed=4ms,per-sample=200us --workers 1 --scenario server \
                     --mode performance --duration 20s --set server_target_latency_ns=50ms \
                     --over batch=1,4,16 --over qps=200..800:x2";

const TENANTS: &str = r#"version = 1
[run]
system = "model:exponential=2ms,servers=2,seed=3"
scenario = "Server"
mode = "performance"
duration = "5s"
[settings]
server_target_latency_ns = "40ms"
server_target_latency_percentile = 0.9
[[tenants]]
name = "interactive"
settings = { server_target_qps = 300 }
[[tenants]]
name = "batch jobs"
settings = { server_target_qps = 200, server_arrivals = "burst:8" }
"#;

/// A simulated network in awk, as in docs/tasks/tune.md.
const NETWORK: &str = r#"
BEGIN { need["conv1.weight"] = 3; need["conv2.weight"] = 5; need["conv1.input"] = 4; need["conv2.input"] = 4 }
/^#/ || $2 == "FLOAT" { next }
$3 < need[$1] { lost += 0.02 * (need[$1] - $3) }
$2 == "EXP" || $4 > 1 { lost += 0.05 }
END { printf "accuracy = %.5f\n", 0.98 - lost }
"#;
/// Descriptor of [`NETWORK`].
const TOY: &str = r#"
name = "toy"
layer_name = ["conv1", "conv2"]
wgt_size = [500, 25_000]
act_size = [784, 2_880]
wgt_max_abs = [0.9, 0.9]
act_max_abs = [0.9, 3.9]
macs = [288_000, 1_600_000]
err_margin = 0.01
cmd_smallset = "awk -f net.awk {config}"
cmd_fullset = "awk -f net.awk {config}"
get_result_regex = 'accuracy = ([0-9.]+)'
"#;

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let browser = match Browser::new(bench.root, &bench.folder)? {
        Ok(browser) => browser,
        Err(missing) => {
            let skipped = || Outcome::Skipped(missing.clone());
            return Ok(vec![(REPORTS, skipped()), (ACCESSIBILITY, skipped())]);
        }
    };
    let reports = browser.run_script("check", PICTURES.as_ref())?;
    let accessible =
        Outcome::unless_missing(axe(&bench.folder), |script| browser.run_script("axe", &script))?;
    Ok(vec![(REPORTS, reports), (ACCESSIBILITY, accessible)])
}

/// Writes the pictures with which pages are compared, and those of the documentation.
///
/// # Errors
/// A browser or a package is missing.
pub fn pictures(root: &Path) -> Result<()> {
    let folder = cargo::target_folder(root)?.join("peers/browser");
    folder::create(&folder)?;
    let browser = Browser::new(root, &folder)?.map_err(anyhow::Error::msg)?;
    for (mode, place) in [("update", PICTURES), ("show", IMAGES)] {
        match browser.run_script(mode, place.as_ref())? {
            Outcome::Passed => println!("{place} is written"),
            other => bail!("{other}"),
        }
    }
    Ok(())
}

/// Chromium with Playwright, and the reports that it opens.
struct Browser<'a> {
    root: &'a Path,
    chromium: PathBuf,
    venv: Venv,
    pages: PathBuf,
}

impl<'a> Browser<'a> {
    /// Installs Playwright and writes the reports. The inner error names what this machine lacks.
    fn new(root: &'a Path, folder: &Path) -> Result<Result<Self, String>> {
        let Some(chromium) = chromium() else {
            return Ok(Err("there is no Chromium (apt-get install chromium)".into()));
        };
        let venv = match Venv::with_packages(folder, WHEEL) {
            Ok(venv) => venv,
            Err(missing) => return Ok(Err(missing)),
        };
        let pages = pages(root, folder)?;
        Ok(Ok(Self { root, chromium, venv, pages }))
    }

    /// Runs the script in a mode; `place` is its last argument.
    fn run_script(&self, mode: &str, place: &Path) -> Result<Outcome> {
        let mut command = self.venv.python();
        command.arg(SCRIPT).arg(mode).args([&self.chromium, &self.pages]).arg(place);
        let status = command.current_dir(self.root).status();
        let status = status.context("cannot start the interpreter")?;
        Ok(Outcome::from_status(status, || format!("{SCRIPT} {mode}: {status}")))
    }
}

/// Installs axe-core with npm and returns its script.
///
/// # Errors
/// The message names what this machine lacks: npm, or the package.
fn axe(folder: &Path) -> Result<PathBuf, String> {
    let prefix = folder.join(AXE);
    let script = prefix.join("node_modules/axe-core/axe.min.js");
    if script.is_file() {
        return Ok(script);
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(&prefix).arg(AXE);
    match npm.status() {
        Ok(status) if status.success() => Ok(script),
        Ok(status) => Err(format!("npm cannot install {AXE}: {status}")),
        Err(_) => Err("there is no npm (apt-get install npm)".into()),
    }
}

fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let places =
        BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|path| path.is_file())
}

/// Writes the reports and returns their folder.
fn pages(root: &Path, folder: &Path) -> Result<PathBuf> {
    let program = cargo::debug_dyno(root)?;
    let [runs, pages] = ["runs", "pages"].map(|name| folder.join(name));
    folder::recreate(&runs)?;
    folder::recreate(&pages)?;
    fs::write(runs.join("tenants.toml"), TENANTS)?;
    let dyno = |arguments: &str| -> Result<()> {
        let mut command = Command::new(&program);
        let status = command.args(arguments.split_whitespace()).current_dir(&runs).status()?;
        // 1: some of the runs are INVALID on purpose.
        match status.code() {
            Some(0 | 1) => Ok(()),
            _ => bail!("dyno {arguments}: {status}"),
        }
    };
    for (name, arguments) in RUNS {
        dyno(&format!("run -q {arguments} --name {name} --out {name}"))?;
        fs::copy(runs.join(name).join("report.html"), pages.join(format!("{name}.html")))?;
    }
    for rate in RATES {
        let system =
            "--system model:exponential=4ms,servers=4 --scenario server --mode performance";
        let bound = "--duration 60s --set server_target_latency_ns=50ms";
        dyno(&format!("run -q {system} {bound} --qps {rate} --out several/qps-{rate:03}"))?;
    }
    dyno("report several --out ../pages/several.html")?;
    dyno(&format!("search -q {SEARCH} --out search"))?;
    dyno(&format!("sweep -q {SWEEP} --out sweep"))?;
    for several in ["search", "sweep"] {
        fs::copy(runs.join(several).join("report.html"), pages.join(format!("{several}.html")))?;
    }
    fs::write(runs.join("net.awk"), NETWORK)?;
    fs::write(runs.join("toy.toml"), TOY)?;
    dyno("tune run toy.toml -q --out tune")?;
    fs::copy(runs.join("tune/report.html"), pages.join("tune.html"))?;
    dyno("tune plot toy.toml --formats tune/opt_conf.txt --out ../pages/widths.html")?;
    // The state of a run that was killed after its last test.
    for file in ["summary.json", "series.json"] {
        fs::remove_file(runs.join("invalid").join(file))?;
    }
    fs::rename(runs.join("invalid"), runs.join(".invalid.partial"))?;
    dyno("report invalid --out ../pages/interrupted.html")?;
    // In real time, because a client never lags in virtual time.
    folder::create(&pages.join("real"))?;
    dyno(&format!("run -q {LAGGING} --out lag"))?;
    fs::copy(runs.join("lag/report.html"), pages.join("real/lag.html"))?;
    // The data of the charts, with which the script compares what is drawn.
    for (page, run) in [("valid", "valid"), ("tokens", "tokens"), ("tenants", "tenants")] {
        let plots = runs.join(run).join("series.json");
        fs::copy(plots, pages.join(format!("{page}.series.json")))?;
    }
    fs::copy(runs.join("lag/series.json"), pages.join("real/lag.series.json"))?;
    Ok(pages)
}
