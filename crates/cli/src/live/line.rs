//! The current run in one line as wide as the terminal.

use dyno_experiment::goals::EndCondition;
use dyno_results::units;

use super::Live;

/// Columns of the bar; the rest of the line is more important.
const BAR: std::ops::RangeInclusive<usize> = 6..=20;

/// Returns the line: the most important parts that fit.
pub fn line(live: &Live, columns: usize) -> String {
    let mut parts = parts(live);
    // Leave the last column free, because some terminals wrap when it is filled.
    let room = columns.saturating_sub(1);
    let width = |parts: &[Part]| {
        let text: usize = parts.iter().map(|part| part.text.chars().count()).sum();
        text + 2 * parts.len().saturating_sub(1)
    };
    while parts.len() > 2 && width(&parts) > room {
        let least = parts.iter().enumerate().max_by_key(|(_, part)| part.rank);
        let (at, _) = least.expect("there are two at least");
        parts.remove(at);
    }
    if let [title, figure] = &mut parts[..] {
        // Progress is more important than the title.
        let left = room.saturating_sub(figure.text.chars().count() + 2);
        title.text = units::shortened(&title.text, left).into_owned();
        if left == 0 {
            parts.remove(0);
        }
    }
    let left = room.saturating_sub(width(&parts) + 2);
    if let Some(fraction) = live.seen.fraction(&live.goals).filter(|_| left >= *BAR.start()) {
        let text = bar(fraction, left.min(*BAR.end()));
        parts.insert(1, Part { rank: 0, text });
    }
    let texts: Vec<String> = parts.into_iter().map(|part| part.text).collect();
    texts.join("  ").chars().take(room).collect()
}

/// A part of the line; parts of the highest rank are dropped first if it is too long.
struct Part {
    rank: u8,
    text: String,
}

/// Returns the parts in the order of display.
fn parts(live: &Live) -> Vec<Part> {
    let (seen, goals) = (&live.seen, &live.goals);
    let ns = |time: u64| units::duration(i64::try_from(time).unwrap_or(i64::MAX));
    let mut parts = vec![Part { rank: 0, text: live.title.clone() }];
    let mut add = |rank, text: String| parts.push(Part { rank, text });
    if !live.remark.is_empty() {
        add(3, live.remark.clone());
    }
    if seen.last.now == 0 {
        return parts;
    }
    let seconds = seen.last.now as f64 / 1e9;
    let so_far = match goals.until {
        EndCondition::Samples(samples) => {
            let (done, total) = (seen.last.completed_samples, units::count(samples));
            format!("{}/{total} samples", units::count(done))
        }
        // The time is over, but not the queries.
        EndCondition::Least { duration, queries }
            if seen.last.now < duration
                || (duration > 0 && seen.last.issued_queries >= queries) =>
        {
            let total = duration as f64 / 1e9;
            let decimals = usize::from(total < 10.0);
            format!("{seconds:.decimals$}/{total:.decimals$} s")
        }
        EndCondition::Least { queries, .. } => {
            let issued = units::count(seen.last.issued_queries);
            format!("{issued}/{} queries", units::count(queries))
        }
        EndCondition::Unknown => format!("{seconds:.1} s"),
    };
    let time = if goals.is_virtual { " virtual" } else { "" };
    add(1, format!("{so_far}{time}"));
    if let Some(left) = seen.time_left(goals).filter(|&left| left > 0 && !goals.is_virtual) {
        add(8, format!("{} left", in_seconds(left)));
    }
    if let Some(rate) = seen.rate(goals) {
        add(2, format!("{}/s", units::rate(rate)));
    }
    if seen.last.failed_samples > 0 {
        add(3, format!("{} failed", units::count(seen.last.failed_samples)));
    }
    if let (Some(p50), Some(p99)) = (seen.latency.quantile(0.5), seen.latency.quantile(0.99)) {
        add(5, format!("p50 {}", ns(p50)));
        add(4, format!("p99 {}", ns(p99)));
    }
    add(6, format!("{} in flight", units::count(seen.last.in_flight())));
    if !live.servers.is_empty() {
        add(6, format!("server {}", live.servers));
    }
    if let Some(lag) = seen.client_lag.quantile(0.99) {
        // Show the lag if the client is close to its limit.
        let is_high = goals.max_client_lag.is_some_and(|most| lag > most / 2);
        add(if is_high { 3 } else { 7 }, format!("lag p99 {}", ns(lag)));
    }
    parts
}

fn in_seconds(nanos: u64) -> String {
    match nanos.div_ceil(1_000_000_000) {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

/// Returns a bar of this many columns, filled to a fraction in [0, 1].
pub fn bar(fraction: f64, columns: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let inner = columns.saturating_sub(2);
    let eighths = (fraction.clamp(0.0, 1.0) * (inner * 8) as f64).round() as usize;
    let mut filled: String = "█".repeat(eighths / 8);
    if eighths / 8 < inner {
        filled.push(EIGHTHS[eighths % 8]);
    }
    let empty = inner - filled.chars().count();
    format!("[{filled}{}]", " ".repeat(empty))
}

#[cfg(test)]
mod tests {
    use super::super::{Goals, examples};
    use super::*;

    #[test]
    fn the_most_important_parts_stay_when_it_is_narrow() {
        let live = examples::server();
        let shown = [130, 80, 60, 40, 20, 12, 9].map(|columns| line(&live, columns));
        assert_eq!(
            shown,
            [
                "2/3 Server performance  [█████████▋        ]  32/60 s  28 s left  1,000/s  \
                 p50 1.74 ms  p99 3.08 ms  3 in flight  lag p99 3.01 us",
                "2/3 Server performance  32/60 s  1,000/s  p50 1.74 ms  p99 3.08 ms  3 in flight",
                "2/3 Server performance  32/60 s  1,000/s  p99 3.08 ms",
                "2/3 Server performance  [██▏ ]  32/60 s",
                "2/3 Serve…  32/60 s",
                "2…  32/60 s",
                "32/60 s",
            ]
        );
        assert!(shown.iter().zip([130, 80, 60, 40, 20, 12, 9]).all(|(l, w)| l.chars().count() < w));
    }

    #[test]
    fn samples_and_virtual_time_are_told_as_such() {
        let mut live = examples::server();
        live.goals = Goals { until: EndCondition::Samples(64_000), ..live.goals };
        assert!(line(&live, 90).contains("32,000/64,000 samples"), "{}", line(&live, 90));
        live.goals = Goals { is_virtual: true, ..live.goals };
        assert!(line(&live, 90).contains("32,000/64,000 samples virtual"), "{}", line(&live, 90));
        let least = EndCondition::Least { duration: 30_000_000_000, queries: 40_000 };
        live.goals = Goals { until: least, is_virtual: false, ..live.goals };
        let shown = line(&live, 90);
        assert!(shown.contains("/40,000 queries") && !shown.contains("30 s"), "{shown}");
        live.goals = Goals { until: EndCondition::Unknown, is_virtual: true, ..live.goals };
        live.seen.last.failed_samples = 7;
        live.remark = "run 3 at 400/s".into();
        let shown = line(&live, 90);
        assert!(shown.contains("run 3 at 400/s  32.0 s virtual"), "{shown}");
        assert!(shown.contains("7 failed") && !shown.contains('['), "{shown}");
    }

    #[test]
    fn what_the_server_tells_is_shown_where_there_is_room() {
        let mut live = examples::server();
        live.servers = "8 running, 3 waiting".into();
        assert!(line(&live, 120).contains("in flight  server 8 running, 3 waiting"));
        assert!(!line(&live, 60).contains("waiting"));
    }

    #[test]
    fn a_bar_is_filled_by_eighths() {
        assert_eq!(bar(0.0, 6), "[    ]");
        assert_eq!(bar(0.28125, 6), "[█▏  ]");
        assert_eq!(bar(1.0, 6), "[████]");
        assert_eq!(bar(7.0, 3), "[█]");
    }
}
