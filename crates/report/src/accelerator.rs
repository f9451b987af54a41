//! Sections of simulated NPUs: a timeline of both resources, their utilization, and the distance
//! from the bounds.

use std::fmt::Write as _;

use dyno_results::series;
use dyno_results::summary::accelerator::{Accelerator, Network};
use dyno_results::units::count;

use super::words::{self, escaped};

use super::timeline::{Bar, Timeline};

/// Appends a section for each entry of `accelerators`, with the timeline of the same position
/// where it has blocks.
pub fn sections(html: &mut String, accelerators: &[Accelerator], timelines: &[series::Timeline]) {
    for (at, accelerator) in accelerators.iter().enumerate() {
        let of = match accelerators.len() {
            1 => String::new(),
            _ => format!(", {} {}", accelerator.scenario, accelerator.mode),
        };
        let _ = write!(html, "<section class=\"card\"><h2>Accelerator{}</h2>", escaped(&of));
        busy(html, accelerator);
        bounds(html, accelerator);
        networks(html, accelerator);
        if let Some(timeline) = timelines.get(at).filter(|timeline| !timeline.blocks.is_empty()) {
            picture(html, timeline, accelerator.npus);
        }
        html.push_str("</section>\n");
    }
}

fn pairs(html: &mut String, title: &str, rows: &[(&str, String)]) {
    let _ = write!(html, "<h3>{title}</h3><dl class=\"pairs\">");
    for (name, value) in rows {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    html.push_str("</dl>");
}

fn percent(share: f64) -> String {
    format!("{:.1}\u{202f}%", 100.0 * share)
}

fn busy(html: &mut String, of: &Accelerator) {
    let rows = [
        ("NPUs", count(of.npus)),
        ("PEs busy", percent(of.pe_busy)),
        ("memory busy", percent(of.memory_busy)),
        ("system throughput (STP)", format!("{:.3}", of.stp)),
        (
            "upper bound with the networks as they are",
            format!(
                "{:.3} <small>({} of it)</small>",
                of.stp_bound,
                percent(of.stp / of.stp_bound)
            ),
        ),
    ];
    pairs(html, "Both resources", &rows);
}

fn bounds(html: &mut String, of: &Accelerator) {
    let over =
        of.over_bound.map_or_else(|| "–".into(), |over| format!("{over:.2} times the longer"));
    let rows = [
        ("minimum computing time", words::span_ns(of.compute_bound_ns)),
        ("minimum fetching time", words::span_ns(of.memory_bound_ns)),
        ("it took", words::span_ns(of.lasted_ns)),
        ("distance", over),
    ];
    pairs(html, "Requested work", &rows);
}

fn networks(html: &mut String, of: &Accelerator) {
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"stack\"><thead><tr><th \
         scope=\"col\">network</th><th scope=\"col\" class=\"n\">requests</th><th scope=\"col\" \
         class=\"n\">share of its rate alone</th><th scope=\"col\" class=\"n\">over the \
         bound</th><th scope=\"col\" class=\"n\">accuracy</th><th \
         scope=\"col\">versions</th></tr></thead><tbody>\n",
    );
    for network in &of.networks {
        let over = network.violations.zip(network.violation_share());
        let over = over.map_or_else(
            || "–".into(),
            |(violations, share)| {
                format!("{} <small>({:.2}\u{202f}%)</small>", count(violations), 100.0 * share)
            },
        );
        let accuracy = network.accuracy.map_or_else(|| "–".into(), |value| format!("{value:.2}"));
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"n\" data-label=\"requests\">{}</td><td \
             class=\"n\" data-label=\"share of its rate alone\">{:.3}</td><td class=\"n\" \
             data-label=\"over the bound\"><span>{over}</span></td><td class=\"n\" \
             data-label=\"accuracy\">{accuracy}</td><td data-label=\"versions\">{}</td></tr>",
            escaped(&network.name),
            count(network.requests),
            network.share,
            versions(network),
        );
    }
    html.push_str("</tbody></table></div>");
}

/// Returns the share of requests of each version, such as `16 bits 62.0 %, 8 bits 38.0 %`.
fn versions(network: &Network) -> String {
    let all: u64 = network.versions.iter().map(|version| version.requests).sum();
    let each = network.versions.iter().map(|version| {
        let share = version.requests as f64 / all.max(1) as f64;
        format!("{} {}", escaped(&version.name), percent(share))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { "–".into() } else { each.join(", ") }
}

fn picture(html: &mut String, timeline: &series::Timeline, npus: u64) {
    let parts = timeline.blocks.iter().filter_map(|block| block.part).max().map(|part| part + 1);
    let bar = |block: &series::Block| Bar {
        stream: block.network,
        label: block.layer.clone(),
        part: block.part.zip(parts),
        fetch: block.fetch_ns.map(|at| at.saturating_mul(1_000)),
        compute: block.compute_ns.map(|at| at.saturating_mul(1_000)),
    };
    // A damaged file may have blocks of unknown networks or spans that end before they begin.
    let is_drawn = |block: &&series::Block| {
        let ([a, b], [c, d]) = (block.fetch_ns, block.compute_ns);
        block.network < timeline.networks.len() && a <= b && c <= d
    };
    let bars: Vec<Bar> = timeline.blocks.iter().filter(is_drawn).map(bar).collect();
    let drawn = Timeline { names: &timeline.networks, bars: &bars };
    let whose = if npus > 1 { "the first NPU" } else { "both resources" };
    let _ = write!(
        html,
        "<h3>The first {} blocks of {whose}</h3><div class=\"scroll\" tabindex=\"0\">{}</div><p \
         class=\"note\">Time counts from the first query. Hover over a bar for details.</p>",
        bars.len(),
        drawn.inline()
    );
}
