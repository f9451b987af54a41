//! Costs of the client, beside other clients on the same sink and the same cores. Prints one JSON
//! line per figure; run it as `bench/net [--quick] [PART OF A NAME ...]`.
//!
//! Sinks and clients are this program, run again with an argument, so that each has its own
//! process and its own cores.
#![forbid(unsafe_code)]

mod events;
mod load;
mod peers;
mod processes;

use processes::Child;

/// Scope of a benchmark run.
pub struct Rounds {
    /// Measurements of each side, in turn.
    rounds: usize,
    is_quick: bool,
    /// Only figures whose name contains one of these; all if empty.
    wanted: Vec<String>,
}

impl Rounds {
    /// Returns `full`, or a small share of it in a quick run.
    pub fn many(&self, full: u64) -> u64 {
        if self.is_quick { full / 20 } else { full }
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part))
    }

    /// Prints the medians of both sides as one JSON line and the spread on stderr. Prints nothing
    /// for a peer without a result.
    pub fn figure(
        &self,
        (name, unit): (&str, &str),
        better: Better,
        mut ours: impl FnMut() -> Option<f64>,
        mut peer: impl FnMut() -> Option<f64>,
    ) {
        let (mut all_ours, mut all_peers) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let (Some(ours), Some(peer)) = (ours(), peer()) else {
                return eprintln!("{name}: not measured");
            };
            all_ours.push(ours);
            all_peers.push(peer);
        }
        eprintln!("{name}: ours {all_ours:.1?}, peer {all_peers:.1?}");
        let (ours, peer) = (median(all_ours), median(all_peers));
        let ratio = if better == Better::Lower { peer / ours } else { ours / peer };
        println!(
            "{{\"name\": \"{name}\", \"ours\": {}, \"peer\": {}, \"ratio\": {}, \"unit\": \"{unit}\"}}",
            rounded(ours),
            rounded(peer),
            rounded(ratio)
        );
    }
}

/// Which of two values is the better one.
#[derive(Clone, Copy, PartialEq)]
pub enum Better {
    /// Such as a time.
    Lower,
    /// Such as a rate.
    Higher,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Formats a value with four significant digits and no exponent.
fn rounded(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_string();
    }
    let decimals = (3 - value.abs().log10().floor() as i32).max(0) as usize;
    format!("{value:.decimals$}")
}

/// Concurrent requests of every client.
const CONCURRENCY: usize = 64;

/// Measures requests per second of our client: Offline, every answer recorded.
fn against(rounds: &Rounds) {
    let unit = "requests/s, 64 connections, the same sink and client cores";
    let requests = rounds.many(1_000_000);
    let cores = processes::Cores::shared_out();
    for (name, peer) in peers::all() {
        if !rounds.wants(name) {
            continue;
        }
        eprintln!("{name} ...");
        let (load, sink) = if peer.asks_for_texts() {
            ("--load-texts", "--sink-texts")
        } else {
            ("--load", "--sink-http1")
        };
        let Some(peer) = peer.provide(rounds.is_quick) else { continue };
        let Some(sink) = Child::sink(&[sink], &cores.sink) else { return };
        let ours = || {
            let arguments = [load, sink.address(), &requests.to_string()];
            processes::number_of(&processes::this(&cores.client, &arguments))
        };
        let theirs = || peer.rate(sink.address(), requests, &cores.client);
        rounds.figure((name, unit), Better::Higher, ours, theirs);
    }
}

/// Measures the lateness of a Poisson load while client and sink share both cores.
fn poisson(rounds: &Rounds) {
    const GOAL_US: f64 = 100.0;
    let name = "net.poisson_20k_p99_us";
    if !rounds.wants(name) {
        return;
    }
    eprintln!("{name} ...");
    let everywhere = processes::Cores::all();
    let Some(sink) = Child::sink(&["--sink-http1"], &everywhere.sink) else { return };
    let queries = rounds.many(200_000).to_string();
    let ours = || {
        let arguments = ["--lateness", sink.address(), &queries];
        processes::number_of(&processes::this(&everywhere.client, &arguments))
    };
    let unit = "us, p99 of accepted by the socket minus scheduled at 20,000 queries/s; the peer is the goal";
    rounds.figure((name, unit), Better::Lower, ours, || Some(GOAL_US));
}

/// Measures the latency that our parser adds: one client parses a large answer, another takes it
/// unparsed, in turn.
fn stamp_bias(rounds: &Rounds) {
    const GOAL: f64 = 1.05;
    let name = "net.stamp_bias";
    if !rounds.wants(name) {
        return;
    }
    eprintln!("{name} ...");
    let everywhere = processes::Cores::all();
    let Some(sink) = Child::sink(&["--sink-large"], &everywhere.sink) else { return };
    let pairs = if rounds.is_quick { "6" } else { "30" };
    let ours = || {
        let arguments = ["--stamp-bias", sink.address(), pairs];
        processes::number_of(&processes::this(&everywhere.client, &arguments))
    };
    let unit = format!(
        "p50 latency of an answer of 4.4 MB through openai: / through raw:, {pairs} interleaved \
         pairs; the peer is the goal"
    );
    let once = Rounds { rounds: 1, is_quick: rounds.is_quick, wanted: Vec::new() };
    once.figure((name, &unit), Better::Lower, ours, || Some(GOAL));
}

/// Measures the memory of a client with all streams open at once.
fn streams(rounds: &Rounds) {
    const GOAL_GB: f64 = 2.0;
    let name = "net.streams_100k_gigabytes";
    if !rounds.wants(name) {
        return;
    }
    eprintln!("{name} ...");
    let (streams, connections) = if rounds.is_quick { (5_000, 50) } else { (100_000, 1_000) };
    let (streams, connections) = (streams.to_string(), connections.to_string());
    let everywhere = processes::Cores::all();
    let ours = || {
        let sink = Child::sink(&["--sink-http2", &streams], &everywhere.sink)?;
        let arguments = ["--streams", sink.address(), &streams, &connections];
        processes::number_of(&processes::this(&everywhere.client, &arguments))
    };
    let unit = format!(
        "GB resident of a client with {streams} streams of 128 tokens open at once over \
         {connections} connections; the peer is the goal"
    );
    let once = Rounds { rounds: 1, is_quick: rounds.is_quick, wanted: Vec::new() };
    once.figure((name, &unit), Better::Lower, ours, || Some(GOAL_GB));
}

/// Measures the memory of a client with many sessions in progress, whose histories it keeps.
fn sessions(rounds: &Rounds) {
    const GOAL_MB: f64 = 256.0;
    let name = "net.sessions_10k_memory_mb";
    if !rounds.wants(name) {
        return;
    }
    eprintln!("{name} ...");
    let sessions = rounds.many(10_000).to_string();
    let everywhere = processes::Cores::all();
    let ours = || {
        let sink = Child::sink(&["--sink-chat"], &everywhere.sink)?;
        let arguments = ["--sessions", sink.address(), &sessions];
        processes::number_of(&processes::this(&everywhere.client, &arguments))
    };
    let unit = format!(
        "MB resident of a client with {sessions} sessions of three turns in progress, each of about 600 \
         tokens; the peer is the goal"
    );
    let once = Rounds { rounds: 1, is_quick: rounds.is_quick, wanted: Vec::new() };
    once.figure((name, &unit), Better::Lower, ours, || Some(GOAL_MB));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match given[..] {
        ["--sink-http1", ..] => return load::sink_http1(load::BYTES),
        ["--sink-texts", ..] => return load::sink_http1(load::COMPLETION),
        ["--sink-chat", ..] => return load::sink_http1(load::MESSAGE),
        ["--sessions", address, sessions, ..] => return load::sessions(address, sessions),
        ["--sink-large", ..] => return load::sink_large(),
        ["--stamp-bias", address, pairs, ..] => return load::stamp_bias(address, pairs),
        ["--sink-http2", streams, ..] => return load::sink_http2(streams),
        ["--load", address, requests, ..] => return load::rate(load::paths(), address, requests),
        ["--load-texts", address, requests, ..] => {
            return load::rate(load::texts(), address, requests);
        }
        ["--lateness", address, queries, ..] => return load::lateness(address, queries),
        ["--streams", address, streams, connections, ..] => {
            return load::streams(address, streams, connections);
        }
        _ => {}
    }
    let is_quick = given.iter().any(|a| *a == "--quick" || *a == "--test");
    let wanted = arguments.iter().filter(|a| !a.starts_with("--")).cloned().collect();
    let rounds = Rounds { rounds: if is_quick { 1 } else { 3 }, is_quick, wanted };
    against(&rounds);
    poisson(&rounds);
    stamp_bias(&rounds);
    streams(&rounds);
    sessions(&rounds);
    if rounds.wants(events::NAME) {
        events::measure(&rounds);
    }
}
