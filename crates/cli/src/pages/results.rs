//! The page of a submission's results: a table for each suite and division, and the statistics
//! of the round.

use std::fmt::Write as _;

use dyno_report::page::{self, Masthead};
use dyno_report::words::{counted, escaped};
use dyno_submission::results::{Key, Line, Matrix, Results, Sheet, SheetKind, Spread, grouped};

/// Returns the page.
pub fn html(results: &Results, name: &str) -> String {
    let mut body = String::new();
    remarks(&mut body, results);
    overview(&mut body, results);
    for sheet in &results.sheets {
        section(&mut body, sheet);
    }
    spreads(&mut body, &results.statistics.spreads);
    let mut submitters: Vec<&str> =
        results.records.iter().map(|record| record.submitter.as_str()).collect();
    submitters.sort_unstable();
    submitters.dedup();
    let masthead = Masthead {
        name,
        verdict: None,
        facts: vec![
            format!("round <b>{}</b>", results.round),
            counted(results.statistics.scenarios.total() as u64, "result", "results"),
            counted(submitters.len() as u64, "submitter", "submitters"),
            counted(results.statistics.frameworks.total() as u64, "system", "systems"),
        ],
    };
    page::document(&format!("{name}: results"), &masthead, &body)
}

/// Appends the results that are missing from the tables or occur twice.
fn remarks(html: &mut String, results: &Results) {
    if results.notices.is_empty() {
        return;
    }
    html.push_str("<section class=\"card problem\" role=\"alert\"><h2>Problems</h2><ul>");
    for sentence in &results.notices {
        let _ = write!(html, "<li>{}</li>", escaped(sentence));
    }
    html.push_str("</ul></section>\n");
}

fn overview(html: &mut String, results: &Results) {
    let statistics = &results.statistics;
    html.push_str(
        "<section class=\"card\"><h2>Results</h2><p class=\"note\">Only valid results of the \
         checked tree. Systems compare within a model and scenario, and there is no summary \
         score: it would need weights of the models, and no weights can be justified.</p><div \
         class=\"charts\">",
    );
    for (title, line, matrix) in [
        ("By model and scenario", "model", &statistics.scenarios),
        ("By division and suite", "division", &statistics.divisions),
        ("Systems by framework and processor", "framework", &statistics.frameworks),
    ] {
        let _ = write!(html, "<div><h3>{title}</h3>");
        counts(html, line, matrix);
        html.push_str("</div>");
    }
    html.push_str("</div></section>\n");
}

fn counts(html: &mut String, line: &str, matrix: &Matrix) {
    let most = matrix.counts.iter().flatten().copied().max().unwrap_or(0).max(1);
    let _ = write!(
        html,
        "<div class=\"{}\" tabindex=\"0\"><table class=\"counts\"><thead><tr>\
         <th scope=\"col\">{line}</th>",
        page::scroll(matrix.lines.len())
    );
    for column in &matrix.columns {
        let _ = write!(html, "<th scope=\"col\" class=\"n\">{}</th>", escaped(column));
    }
    html.push_str("<th scope=\"col\" class=\"n\">all</th></tr></thead><tbody>\n");
    for (name, counts) in matrix.lines.iter().zip(&matrix.counts) {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(name));
        for &count in counts {
            let share = 100.0 * count as f64 / most as f64;
            match count {
                0 => html.push_str("<td class=\"n\">·</td>"),
                _ => {
                    let _ = write!(
                        html,
                        "<td class=\"n\" style=\"--share:{share:.0}%\"><span>{count}</span></td>"
                    );
                }
            }
        }
        let _ = writeln!(html, "<td class=\"n\"><b>{}</b></td></tr>", counts.iter().sum::<usize>());
    }
    html.push_str("</tbody></table></div>");
}

/// Headings of the columns before the values.
const OF_SYSTEM: [&str; 6] = ["ID", "submitter", "system", "processor", "accelerator", "software"];

fn section(html: &mut String, sheet: &Sheet) {
    let power = if sheet.kind == SheetKind::Power { ", with power" } else { "" };
    let division = sheet.division;
    // v0.5 has no suites.
    let suite = if sheet.suite.is_empty() { String::new() } else { format!("{}, ", sheet.suite) };
    let _ = write!(
        html,
        "<section class=\"card\"><h2>{suite}{division} division{power} <small>{}</small></h2>\
         <div class=\"{}\" tabindex=\"0\"><table class=\"filtered sorted results\" \
         data-filter=\"results\"><thead><tr>",
        counted(sheet.lines.len() as u64, "line", "lines"),
        page::scroll(sheet.lines.len()),
    );
    for name in OF_SYSTEM {
        let _ = write!(html, "<th scope=\"col\">{name}</th>");
    }
    if division == "open" {
        html.push_str("<th scope=\"col\">own model</th><th scope=\"col\">accuracy</th>");
    }
    for Key { model, scenario, units } in &sheet.columns {
        let (model, units) = (escaped(model), escaped(units));
        let _ = write!(
            html,
            "<th scope=\"col\" class=\"n\"><b>{model}</b> {} {units}</th>",
            scenario.name()
        );
    }
    html.push_str("</tr></thead><tbody>\n");
    for line in &sheet.lines {
        row(html, sheet, line);
    }
    html.push_str("</tbody></table></div></section>\n");
}

fn row(html: &mut String, sheet: &Sheet, line: &Line) {
    let value_of = |name: &str| {
        let at = sheet.index.iter().position(|known| *known == name);
        escaped(at.map_or("", |at| line.index[at].as_str()))
    };
    let times = |count: String, model: String| match (count.as_str(), model.as_str()) {
        ("", _) | (_, "" | "N/A") => String::from("–"),
        ("1", _) => model,
        _ => format!("{count} × {model}"),
    };
    let nodes = match value_of("Nodes").as_str() {
        "" | "1" => String::new(),
        nodes => format!(" <small>{nodes} nodes</small>"),
    };
    let _ = write!(
        html,
        "<tr><th scope=\"row\">{}</th><td>{} <small>{}</small></td><td title=\"{}\">{}{nodes}</td>\
         <td>{}</td><td>{}</td><td>{}</td>",
        value_of("ID"),
        value_of("Submitter"),
        value_of("Availability"),
        value_of("Notes"),
        value_of("System"),
        times(value_of("p#"), value_of("Processor")),
        times(value_of("a#"), value_of("Accelerator")),
        value_of("Software"),
    );
    if sheet.division == "open" {
        let _ = write!(html, "<td>{}</td><td>{}</td>", value_of("UsedModel"), value_of("Accuracy"));
    }
    for value in &line.values {
        let number = value.map_or(String::new(), |value| value.to_string());
        let text = value.map_or(String::new(), grouped);
        let _ = write!(html, "<td class=\"n\" data-value=\"{number}\">{text}</td>");
    }
    html.push_str("</tr>\n");
}

/// Appends box plots of the speedup of each system over the slowest one.
fn spreads(html: &mut String, spreads: &[Spread]) {
    if spreads.is_empty() {
        return;
    }
    let most = spreads.iter().map(Spread::ratio).fold(10.0, f64::max);
    let at = |times: f64| 100.0 * times.max(1.0).ln() / most.ln();
    html.push_str(
        "<section class=\"card\"><h2>How far apart the systems are</h2><p class=\"note\">Closed \
         division. Speed over that of the slowest system with the same model and scenario, on a \
         logarithmic scale: the line goes from the slowest to the fastest, the box has the middle \
         half, the bar is the median. Of latencies the speed is one over the latency.</p>\
         <div class=\"spreads\"><div class=\"head\" aria-hidden=\"true\"><span></span>\
         <span class=\"spread\">",
    );
    let ticks = ticks(most);
    for tick in &ticks {
        let _ = write!(html, "<em style=\"left:{:.2}%\">{tick}×</em>", at(*tick));
    }
    html.push_str("</span><span></span></div>\n");
    for spread in spreads {
        let speeds = spread.speeds;
        let _ = write!(
            html,
            "<div><span class=\"who\">{} {} <small>{}{}{}</small></span>\
             <span class=\"spread\" aria-hidden=\"true\">",
            escaped(&spread.model),
            spread.scenario.name(),
            spread.suite,
            if spread.suite.is_empty() { "" } else { ", " },
            counted(spread.results as u64, "result", "results"),
        );
        for tick in &ticks {
            let _ = write!(html, "<s style=\"left:{:.2}%\"></s>", at(*tick));
        }
        let (first, third) = (at(speeds.first), at(speeds.third));
        let _ = writeln!(
            html,
            "<i style=\"left:0;width:{:.2}%\"></i><b style=\"left:{first:.2}%;width:{:.2}%\"></b>\
             <u style=\"left:{:.2}%\"></u></span><span class=\"much\">{} \
             <small>median {}; {} {} to {}; best: {}</small></span></div>",
            at(speeds.greatest),
            third - first,
            at(speeds.median),
            times(speeds.greatest),
            times(speeds.median),
            escaped(&spread.units),
            grouped(spread.slowest),
            grouped(spread.fastest),
            escaped(&spread.leader),
        );
    }
    html.push_str("</div></section>\n");
}

/// Returns ticks of a logarithmic axis from 1: 1, 2, 5 and so on, or only powers of ten if there
/// are many.
fn ticks(most: f64) -> Vec<f64> {
    const FEW: f64 = 200.0;
    let steps: &[f64] = if most > FEW { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let decades = std::iter::successors(Some(1.0), |decade| Some(decade * 10.0));
    let all = decades.flat_map(|decade| steps.iter().map(move |step| decade * step));
    all.take_while(|tick| *tick <= most).collect()
}

/// Formats a ratio with about three digits.
fn times(ratio: f64) -> String {
    match ratio {
        _ if ratio < 10.0 => format!("{ratio:.2}×"),
        _ if ratio < 100.0 => format!("{ratio:.1}×"),
        _ => format!("{}×", grouped(ratio.round()).trim_end_matches(".000")),
    }
}
