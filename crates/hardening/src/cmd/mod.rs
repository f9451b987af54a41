//! The commands, one file each.

pub mod driver;
pub mod files;
pub mod framing;
pub mod kills;
pub mod simulate;

/// Prints a figure as a JSON line in the form of the scripts below `bench`. There is no peer.
pub fn print_figure(name: &str, ours: f64, unit: &str) {
    println!(
        r#"{{"name": "{name}", "ours": {ours}, "peer": null, "ratio": null, "unit": "{unit}"}}"#
    );
}

/// Returns the seconds that `work` takes, and its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let clock = dyno_loadgen::clock::Clock::start();
    let result = work();
    (clock.now() as f64 / 1e9, result)
}
