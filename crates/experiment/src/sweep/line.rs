//! A point of a sweep as one line of text.

use std::fmt::Write as _;

use dyno_results::sweep::{Point, PointState};

/// Returns the result of a point as one line.
pub fn line(point: &Point) -> String {
    let mut line = format!("{}  {}", point.name, point.state.name());
    for result in &point.results {
        let _ = write!(line, "  {}", result.scenario);
        if let Some(headline) = &result.headline {
            let _ = write!(line, " {}", headline.text());
        }
        if let Some(accuracy) = result.accuracy {
            let _ = write!(line, ", accuracy {:.2} %", accuracy * 100.0);
        }
    }
    if let (PointState::Failed, Some(message)) = (point.state, &point.message) {
        let _ = write!(line, ": {message}");
    }
    line
}
