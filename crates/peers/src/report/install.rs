//! Size of an installation and time of `--help`, beside the tools that users would install instead.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Bench, Installation, milliseconds, print};
use crate::figure::median;
use crate::folder;
use crate::venv::Venv;

pub const SIZE: &str = "release.install_size_ratio";
pub const HELP: &str = "release.help_time_ratio";

/// A peer on PyPI.
struct Peer {
    name: &'static str,
    requirement: &'static str,
}

/// The goal for the size is relative to the first.
const PEERS: [Peer; 2] = [
    Peer { name: "guidellm", requirement: "guidellm==0.8.1" },
    Peer { name: "aiperf", requirement: "aiperf==0.13.0" },
];

/// The tool of MLPerf Endpoints is in no registry: the variable with the environment into which its
/// repository was installed (BENCHMARKS.md), and its program.
const ENDPOINTS: (&str, &str) = ("DYNO_ENDPOINTS_VENV", "inference-endpoint");

/// Rounds of `--help`, after one that fills the caches.
const ROUNDS: usize = 5;

/// Runs per round, of which the fastest counts, because other load disturbs times of two
/// milliseconds.
const RUNS: usize = 3;

/// Prints the wanted figures.
pub fn figures(bench: &Bench, ours: &Installation) -> Result<()> {
    let peers = if bench.quick {
        bench.skip("peers", "--quick measures ours alone; they are gigabytes");
        Vec::new()
    } else {
        peers(bench)?
    };
    if bench.wants(SIZE) {
        sizes(bench, ours, &peers)?;
    }
    if bench.wants(HELP) {
        help(ours, &peers)?;
    }
    Ok(())
}

fn peers(bench: &Bench) -> Result<Vec<Installation>> {
    let mut found = Vec::new();
    for peer in PEERS {
        let folder = bench.folder.join(peer.name);
        folder::create(&folder)?;
        let venv = bench.or_skip(peer.name, Venv::with_packages(&folder, peer.requirement));
        found.extend(venv.map(|venv| Installation { venv: venv.folder().into(), name: peer.name }));
    }
    let (variable, name) = ENDPOINTS;
    match std::env::var_os(variable) {
        Some(venv) => found.push(Installation { venv: venv.into(), name }),
        None => {
            bench.skip(name, &format!("it is in no registry; {variable} names its environment"));
        }
    }
    // Without programs that do not start on this machine.
    found.retain(|peer| match milliseconds(Command::new(peer.program()).arg("--help")) {
        Ok(_) => true,
        Err(why) => {
            bench.skip(peer.name, &format!("{why:#}"));
            false
        }
    });
    Ok(found)
}

/// Prints sizes in megabytes, without that of an empty environment.
fn sizes(bench: &Bench, ours: &Installation, peers: &[Installation]) -> Result<()> {
    let empty = Venv::empty(&bench.folder).map_err(anyhow::Error::msg)?;
    let empty = bytes(empty.folder())?;
    let weight = |installation: &Installation| -> Result<f64> {
        Ok(bytes(&installation.venv)?.saturating_sub(empty) as f64 / 1e6)
    };
    let size = weight(ours)?;
    if peers.is_empty() {
        let kind = if bench.quick { ", of a quick build: neither stripped nor whole" } else { "" };
        print(SIZE, size, None, None, &format!("MB in a fresh environment{kind}"));
    }
    for peer in peers {
        let theirs = weight(peer)?;
        let unit = format!("MB in a fresh environment; the peer is {}", peer.name);
        let name = if peer.name == PEERS[0].name {
            SIZE.to_owned()
        } else {
            format!("{SIZE}.{}", peer.name)
        };
        print(&name, size, Some(theirs), Some(theirs / size), &unit);
    }
    Ok(())
}

/// Returns the size of all files below a folder, without links.
fn bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let entry = entry.context("cannot read a folder")?;
        let kind = entry.file_type().context("cannot read a folder")?;
        if kind.is_dir() {
            sum += bytes(&entry.path())?;
        } else if kind.is_file() {
            sum += entry.metadata().context("cannot read a file")?.len();
        }
    }
    Ok(sum)
}

/// Measures `--help` of all programs in turn and prints the medians.
fn help(ours: &Installation, peers: &[Installation]) -> Result<()> {
    let all: Vec<&Installation> = std::iter::once(ours).chain(peers).collect();
    let mut times = vec![Vec::new(); all.len()];
    for round in 0..=ROUNDS {
        for (installation, times) in all.iter().zip(&mut times) {
            let mut fastest = f64::INFINITY;
            for _ in 0..RUNS {
                let help = &mut Command::new(installation.program());
                fastest = fastest.min(milliseconds(help.arg("--help"))?);
            }
            if round > 0 {
                times.push(fastest);
            }
        }
    }
    let mut medians = times.iter().map(|times| median(times));
    let ours = medians.next().context("ours is the first")?;
    let theirs: Vec<(f64, &str)> = medians.zip(peers.iter().map(|peer| peer.name)).collect();
    let Some((fastest, name)) = theirs.iter().min_by(|a, b| a.0.total_cmp(&b.0)).copied() else {
        print(HELP, ours, None, None, "ms");
        return Ok(());
    };
    let unit = format!("ms; the peer is {name}, the fastest");
    print(HELP, ours, Some(fastest), Some(fastest / ours), &unit);
    for (theirs, name) in theirs.into_iter().filter(|(_, other)| *other != name) {
        let unit = format!("ms; the peer is {name}");
        print(&format!("{HELP}.{name}"), ours, Some(theirs), Some(theirs / ours), &unit);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_folder_is_that_of_its_files() {
        let folder = std::env::temp_dir().join(format!("dyno-weight-{}", std::process::id()));
        fs::create_dir_all(folder.join("b")).unwrap();
        fs::write(folder.join("a"), [0; 3]).unwrap();
        fs::write(folder.join("b/c"), [0; 4]).unwrap();
        assert_eq!(bytes(&folder).unwrap(), 7);
        fs::remove_dir_all(&folder).unwrap();
        assert!(bytes(&folder).is_err());
    }
}
