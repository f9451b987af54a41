//! NPU model and schedulers: speed of scheduling, throughput of pairs of streams, and rates at
//! which pairs of networks are served. Prints one JSON line per figure; `bench/npu` runs it.
//! `--quick` runs a small version. Other arguments select the figures whose name contains one of
//! them.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

mod serving;
mod streams;

/// Prints a figure.
pub fn figure(
    name: &str,
    ours: f64,
    peer: Option<f64>,
    ratio: Option<f64>,
    unit: &str,
    more: &str,
) {
    let number =
        |value: Option<f64>| value.map_or("null".to_owned(), |value| format!("{value:.4}"));
    println!(
        "{{\"name\": \"{name}\", \"ours\": {ours:.4}, \"peer\": {}, \"ratio\": {}, \
         \"unit\": \"{unit}\"{more}}}",
        number(peer),
        number(ratio)
    );
}

/// Arguments of the command line.
pub struct Arguments {
    /// Small version for CI.
    pub quick: bool,
    wanted: Vec<String>,
}

impl Arguments {
    /// Returns whether a figure is selected.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part.as_str()))
    }
}

fn main() {
    let mut arguments = Arguments { quick: false, wanted: Vec::new() };
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            // `cargo bench` adds this argument.
            "--bench" => {}
            "--quick" => arguments.quick = true,
            _ => arguments.wanted.push(arg),
        }
    }
    streams::run(&arguments);
    serving::run(&arguments);
}
