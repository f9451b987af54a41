//! A run of a search as one line of text.

use dyno_results::search::{Load, Peak, Point, nearest};

/// Returns the line of a run.
pub fn line(point: &Point, load: Load, peak: Option<&Peak>) -> String {
    let verdict = point.verdict();
    let over = nearest(point);
    let known =
        peak.map(|peak| format!("  peak {} to {}", load.number(peak.low), load.number(peak.high)));
    format!(
        "{:3} {:7} {:>18}  {verdict:8}  {}{}",
        point.number,
        point.purpose.name(),
        load.show(point.load),
        over.unwrap_or_default(),
        known.unwrap_or_default(),
    )
}
