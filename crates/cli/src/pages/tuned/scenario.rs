//! The networks that share an NPU with the tuned one.

use std::fmt::Write as _;

use dyno_experiment::tune::{ScenarioReport, ScenarioRow};
use dyno_report::page;
use dyno_report::words::{self, escaped};
use dyno_results::units;

/// Appends the configurations in the scenario of the objective.
pub fn section(html: &mut String, report: &ScenarioReport) {
    let ScenarioReport { networks, npu, mapping, scheduler, rows, sentence } = report;
    let has_requests = rows.iter().any(|row| !row.late.is_empty());
    let _ = write!(
        html,
        "<section class=\"card\"><h2>The networks on the NPU</h2><p class=\"meaning\">{} on {} ({}), {}: {}.</p>\
         <div class=\"{}\" tabindex=\"0\"><table class=\"counts stack\"><thead><tr><th scope=\"col\">configuration</th>",
        escaped(&networks.join(" + ")),
        escaped(npu),
        escaped(mapping),
        escaped(scheduler),
        escaped(sentence),
        page::scroll(rows.len())
    );
    for head in heads(networks, has_requests) {
        let _ = write!(html, "<th scope=\"col\" class=\"n\">{}</th>", escaped(&head));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(&row.configuration));
        for (cell, head) in cells(row).iter().zip(heads(networks, has_requests)) {
            let _ = write!(html, "<td class=\"n\" data-label=\"{}\">{cell}</td>", escaped(&head));
        }
        html.push_str("</tr>\n");
    }
    html.push_str(
        "</tbody></table></div><p class=\"note\">STP is the sum of the rates of all networks. Each rate is relative \
         to that alone in the bits of the network\u{2019}s table.</p></section>\n",
    );
}

fn heads(networks: &[String], has_requests: bool) -> Vec<String> {
    let mut heads = vec!["bits".to_owned(), "STP".to_owned()];
    heads.extend(networks.iter().map(|name| format!("rate of {name}")));
    heads.extend(["PEs busy", "memory busy"].map(str::to_owned));
    if has_requests {
        heads.extend(networks.iter().map(|name| format!("late of {name}")));
        heads.extend(networks.iter().map(|name| format!("p99 of {name}, of its limit")));
    }
    heads.extend(["accuracy", "95 % interval", "margin"].map(str::to_owned));
    heads
}

fn cells(row: &ScenarioRow) -> Vec<String> {
    let none = || "\u{2013}".to_owned();
    let mut cells = vec![
        row.bits.map_or_else(none, |bits| units::count(bits.max(0.0).round() as u64)),
        format!("{:.3}", row.stp),
    ];
    cells.extend(row.rates.iter().map(|rate| format!("{rate:.3}")));
    let shares = [row.pe_busy, row.memory_busy].into_iter().chain(row.late.iter().copied());
    cells.extend(shares.chain(row.p99.iter().copied()).map(words::share));
    cells.push(row.accuracy.map_or_else(none, |accuracy| format!("{accuracy:.4}")));
    cells.push(row.interval.map_or_else(none, |[low, high]| format!("{low:.4} to {high:.4}")));
    cells.push(row.verdict.map_or_else(none, str::to_owned));
    cells
}
