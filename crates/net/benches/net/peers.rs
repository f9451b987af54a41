//! Clients of other projects.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::CONCURRENCY;
use crate::processes::{number_of, on, output};

/// A client to compare with ours.
pub enum Peer {
    /// The `oha` crate, in Rust on hyper.
    Oha,
    /// Debian's `wrk`, in C; it keeps a histogram and no record of requests.
    Wrk,
    /// A minimal Python client on asyncio streams.
    Asyncio,
    /// `aiohttp`, on which load generators in Python are built.
    Aiohttp,
    /// `aiperf`, a load generator for text servers, in Python on aiohttp.
    Aiperf,
}

/// Returns all peers, each with the name of its figure.
pub fn all() -> [(&'static str, Peer); 5] {
    [
        ("net.against_oha", Peer::Oha),
        ("net.against_wrk", Peer::Wrk),
        ("net.against_python", Peer::Aiohttp),
        ("net.against_python_streams", Peer::Asyncio),
        ("net.against_aiperf", Peer::Aiperf),
    ]
}

/// A peer that is installed.
pub struct Ready {
    peer: Peer,
    program: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

impl Peer {
    /// Returns whether the peer requests texts instead of a path.
    pub fn asks_for_texts(&self) -> bool {
        matches!(self, Self::Aiperf)
    }

    /// Installs the peer if needed; slow installations are skipped if `is_quick`. Prints a note if
    /// it is unavailable.
    pub fn provide(self, is_quick: bool) -> Option<Ready> {
        let program = match self {
            Self::Oha => oha(is_quick)?,
            Self::Wrk => found("wrk", "install Debian's package wrk")?,
            Self::Asyncio => found("python3", "install Python 3")?,
            Self::Aiohttp => venv("aiohttp", "aiohttp", is_quick)?,
            Self::Aiperf => venv("aiperf", "aiperf==0.13.0", is_quick)?,
        };
        Some(Ready { peer: self, program })
    }
}

fn found(program: &str, hint: &str) -> Option<String> {
    let is_there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    if is_there.is_ok_and(|output| output.status.success()) {
        return Some(program.to_owned());
    }
    eprintln!("skipped: there is no {program}; {hint}");
    None
}

fn oha(is_quick: bool) -> Option<String> {
    let program = folder().join("bin/oha");
    if !program.exists() {
        if is_quick {
            eprintln!("skipped: oha would have to be compiled; run without --quick once");
            return None;
        }
        // oha needs a TLS feature to compile; native-tls compiles fastest. TLS is not measured.
        if !["native-tls", "rustls"].iter().any(|tls| install_oha(tls)) {
            eprintln!("skipped: oha cannot be installed");
            return None;
        }
    }
    Some(program.to_string_lossy().into_owned())
}

fn install_oha(tls: &str) -> bool {
    let mut install = Command::new("cargo");
    install.args(["install", "--locked", "--no-default-features", "--features", tls]);
    install.arg("--root").arg(folder()).arg("oha@1.16.0");
    // Keeps compiled artifacts if the installation fails.
    install.env("CARGO_TARGET_DIR", folder().join("oha-build"));
    install.status().is_ok_and(|status| status.success())
}

fn venv(name: &str, package: &str, is_quick: bool) -> Option<String> {
    let folder = folder().join(name);
    let python = folder.join("bin/python");
    if !python.exists() {
        if is_quick {
            eprintln!("skipped: {name} would have to be installed; run without --quick once");
            return None;
        }
        found("python3", "install Python 3")?;
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status();
        let pip = Command::new(&python).args(["-m", "pip", "install", "--quiet", package]).status();
        if !(made.is_ok_and(|s| s.success()) && pip.is_ok_and(|s| s.success())) {
            eprintln!("skipped: {name} cannot be installed from PyPI");
            let _ = std::fs::remove_dir_all(&folder);
            return None;
        }
    }
    Some(python.to_string_lossy().into_owned())
}

impl Ready {
    /// Returns requests per second. Python clients get a share of the requests, which would take
    /// minutes otherwise.
    pub fn rate(&self, address: &str, requests: u64, cores: &str) -> Option<f64> {
        let url = format!("http://{address}/");
        let concurrency = CONCURRENCY.to_string();
        let script = |name: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/net");
            folder.join(name).to_string_lossy().into_owned()
        };
        let python = |name: &str, share: u64| {
            let (script, requests) = (script(name), (requests / share).to_string());
            number_of(&output(on(cores, &self.program, &[&script, &url, &concurrency, &requests])))
        };
        match self.peer {
            Peer::Oha => {
                let requests = requests.to_string();
                let shape = ["--no-tui", "--output-format", "json", "-c", &concurrency, "-n"];
                let arguments = [&shape[..], &[&requests, &url]].concat();
                let said = output(on(cores, &self.program, &arguments))?;
                let said: serde_json::Value = serde_json::from_str(&said).ok()?;
                said["summary"]["requestsPerSec"].as_f64()
            }
            Peer::Wrk => {
                let seconds = (requests / 100_000).clamp(1, 10);
                let duration = format!("-d{seconds}s");
                let arguments = ["-t1", "-c", &concurrency, &duration, &url];
                let said = output(on(cores, &self.program, &arguments))?;
                let line = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
                line?.trim().parse().ok()
            }
            Peer::Asyncio => python("streams.py", 10),
            Peer::Aiohttp => python("aiohttp_client.py", 10),
            Peer::Aiperf => python("aiperf.py", 200),
        }
    }
}
