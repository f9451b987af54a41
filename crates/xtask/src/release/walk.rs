//! The steps of a new user: from a wheel or a clone to a first report, in a clean environment.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dyno_peers::venv::{ONNX_RUNTIME, Venv};
use dyno_peers::{cargo, folder, shell};

/// Name of the distribution of `dyno`.
pub const PACKAGE: &str = "dyno-bench";

/// Time from the wheel to a report. Goals are only printed, because a busy machine misses them.
const WHEEL_GOAL: Duration = Duration::from_secs(60);
/// Time from a clone to a report.
const CLONE_GOAL: Duration = Duration::from_secs(360);
/// Time to a report on a server.
const SERVER_GOAL: Duration = Duration::from_secs(120);

/// An environment with the program, installed from a wheel.
pub struct Walk {
    start: Instant,
    folder: PathBuf,
    /// An ONNX file of the user.
    model: PathBuf,
    venv: Venv,
}

impl Walk {
    /// Installs the wheel of the folder `wheels` below `folder`. The inner error names what this
    /// machine lacks.
    pub fn install(root: &Path, folder: &Path, wheels: &Path) -> Result<Result<Self, String>> {
        folder::recreate(folder)?;
        let model = folder.join("model.onnx");
        let mut export = cargo::command(root);
        export.args(["run", "--quiet", "--package", "dyno-sut", "--example"]);
        shell::run(export.args(["export_digits_onnx", "--"]).arg(&model))?;
        let start = now();
        let venv = Venv::with_wheel(folder, wheels, PACKAGE);
        Ok(venv.map(|venv| Self { start, folder: folder.to_path_buf(), model, venv }))
    }

    fn dyno(&self) -> Command {
        let mut command = Command::new(self.venv.interpreter().with_file_name("dyno"));
        // Like a user who did not activate the environment.
        command.env_remove("ORT_DYLIB_PATH").env_remove("VIRTUAL_ENV").current_dir(&self.folder);
        command
    }

    /// Runs the built-in system.
    pub fn built_in(&self) -> Result<()> {
        let version = shell::output(self.dyno().arg("--version"))?;
        ensure!(version.starts_with("dyno "), "it calls itself {version}");
        self.report("built-in", &[])
    }

    /// Runs the model in ONNX Runtime. The inner error names what this machine lacks.
    pub fn own_model(&self) -> Result<Result<(), String>> {
        if let Err(missing) = self.venv.install(ONNX_RUNTIME) {
            return Ok(Err(missing));
        }
        self.report("own-model", &["--system", &self.system("onnx")])?;
        eprintln!(
            "from the wheel to a report on an ONNX file: {}",
            duration(self.start, WHEEL_GOAL)
        );
        Ok(Ok(()))
    }

    /// Runs the model in the built-in engine.
    pub fn built_in_engine(&self) -> Result<()> {
        self.report("built-in-engine", &["--system", &self.system("tract")])
    }

    /// Measures a server of language models, which `dyno serve` stands in for.
    pub fn server(&self) -> Result<()> {
        let start = now();
        let mut serve = self.dyno();
        serve.args(["serve", "--system", "tokens:first=20ms,each=5ms", "--http", "127.0.0.1:0"]);
        let server = serve.stdout(Stdio::piped()).spawn().context("cannot run dyno serve")?;
        let mut server = ServerProcess(server);
        let output = server.0.stdout.take().context("its output is not piped")?;
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let url = lines.filter_map(|line| Some(line.strip_prefix("http ")?.to_owned())).next();
        let url = url.context("dyno serve ended before it was ready")?;
        self.report("llm", &[&url, "--num-prompts", "50", "--ready-timeout", "60s"])?;
        eprintln!("to a report on a server of language models: {}", duration(start, SERVER_GOAL));
        Ok(())
    }

    /// Misses a limit, as in a CI job that has to fail.
    pub fn gate(&self) -> Result<()> {
        let mut run = self.dyno();
        run.args(["run", "--system", "model:exponential=2ms,servers=4", "--scenario", "server"]);
        run.args(["--mode", "performance", "--qps", "1900", "--require", "p99<=10ms"]);
        let output = run.args(["--out", "gate"]).output().context("cannot run dyno")?;
        ensure!(output.status.code() == Some(1), "the exit code is {}, not 1", output.status);
        let words = String::from_utf8_lossy(&output.stdout);
        ensure!(words.contains("p99 <= 10.0 ms: missed"), "it does not name the limit:\n{words}");
        Ok(())
    }

    fn system(&self, engine: &str) -> String {
        format!("{engine}:{}", self.model.display())
    }

    /// Runs dyno and checks that it writes a report. On a busy machine the verdict may be INVALID.
    fn report(&self, out: &str, arguments: &[&str]) -> Result<()> {
        let mut run = self.dyno();
        run.args(["run", "--out", out]).args(arguments);
        // A number of requests is a length, too.
        if !arguments.contains(&"--num-prompts") {
            run.args(["--duration", "200ms"]);
        }
        let output = run.output().context("cannot run dyno")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}: {}",
            output.status,
            stderr.trim()
        );
        for name in ["report.html", "summary.json"] {
            let file = self.folder.join(out).join(name);
            ensure!(file.is_file(), "dyno run {} left no {name}", arguments.join(" "));
        }
        Ok(())
    }
}

/// A server that ends with its last user.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the README's command that installs nothing in a fresh clone. Packages in cargo's cache are
/// not downloaded again.
pub fn from_clone(root: &Path, folder: &Path) -> Result<()> {
    folder::remove(folder)?;
    let start = now();
    shell::run(Command::new("git").args(["clone", "--quiet"]).arg(root).arg(folder))?;
    let mut run = cargo::command(folder);
    // Like in a shell, without the variables of this build.
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| is_build_variable(&name.to_string_lossy()))
    {
        run.env_remove(name);
    }
    let output = run.args(["run", "--quiet", "--release", "--", "run"]).output();
    let output = output.context("cannot run cargo")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{}: {}", output.status, stderr.trim());
    let mut runs = fs::read_dir(folder.join("runs")).context("it left no folder runs")?.flatten();
    let has_report = runs.any(|run| run.path().join("report.html").is_file());
    ensure!(has_report, "it left no report.html");
    eprintln!("from a clone to a first report: {}", duration(start, CLONE_GOAL));
    folder::remove(folder)
}

fn is_build_variable(variable: &str) -> bool {
    let is_user = ["CARGO", "CARGO_HOME"].contains(&variable);
    variable == "RUSTFLAGS" || variable.starts_with("CARGO") && !is_user
}

#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
fn now() -> Instant {
    Instant::now()
}

fn duration(since: Instant, goal: Duration) -> String {
    format!("{:.0} s; the goal is {} s", since.elapsed().as_secs_f64(), goal.as_secs())
}
