//! NPU model and schedulers: speed of scheduling, throughput of pairs of streams, and rates that pairs of networks are
//! served at. Prints one JSON line a figure; `bench/npu` runs it. `--quick` is small; other arguments choose figures
//! whose name contains one of them.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

mod serving;
mod streams;

/// One figure, printed.
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
        "{{\"name\": \"{name}\", \"ours\": {ours:.4}, \"peer\": {}, \"ratio\": {}, \"unit\": \"{unit}\"{more}}}",
        number(peer),
        number(ratio)
    );
}

/// What is asked for.
pub struct Asked {
    /// Small, for CI.
    pub quick: bool,
    wanted: Vec<String>,
}

impl Asked {
    /// Whether a figure is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part.as_str()))
    }
}

fn main() {
    let mut asked = Asked { quick: false, wanted: Vec::new() };
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            // `cargo bench` adds it.
            "--bench" => {}
            "--quick" => asked.quick = true,
            _ => asked.wanted.push(arg),
        }
    }
    streams::run(&asked);
    serving::run(&asked);
}
