//! HTML page of a study of the recurrent engine: a table per part, and a chart if the part has an axis.

use std::fmt::Write as _;

use dyno_report::page::{self, Masthead};
use dyno_report::plot::{self, Axis, Chart, Format, Ink, Point, Shape};
use dyno_report::words::escaped;

use super::part::{BarScale, Part, Scale, digits};

/// Returns the page. `about` names the machine and the settings of the run.
pub fn html(about: &[String], parts: &[Part]) -> String {
    let mut body = String::new();
    for part in parts {
        section(&mut body, part);
    }
    let facts = about.iter().map(|fact| escaped(fact)).collect();
    let masthead = Masthead { name: "Techniques of recurrent layers", verdict: None, facts };
    page::document("Techniques of recurrent layers", &masthead, &body)
}

fn section(html: &mut String, part: &Part) {
    let _ = write!(html, "<section class=\"card\"><h2>{}</h2>", escaped(&part.title));
    if !part.note.is_empty() {
        let _ = write!(html, "<p class=\"note\">{}</p>", escaped(&part.note));
    }
    if let Some((axis, scale)) = part.axis {
        html.push_str(&plot::figure(&chart(part, axis, scale)));
    }
    if !part.rows.is_empty() {
        table(html, part);
    }
    html.push_str("</section>\n");
}

fn chart(part: &Part, axis: &str, scale: Scale) -> Chart {
    let xs = part.rows.iter().filter_map(|row| row.x);
    let x = match scale {
        Scale::Linear => Axis::linear(axis, Format::Count, xs),
        Scale::Log => Axis::log(axis, Format::Count, xs),
    };
    let ys = part.rows.iter().flat_map(|row| row.values.iter().copied().flatten());
    let unit = part.columns.first().map_or("", |column| column.unit);
    let title = format!("{unit} against {axis}");
    let mut chart = Chart::new(&title, x, Axis::linear(unit, Format::Rate, ys));
    for (at, column) in part.columns.iter().enumerate() {
        let points = part.rows.iter().filter_map(|row| Some(Point::new(row.x?, row.values[at]?)));
        chart = chart.with(column.name, Ink::nth(at), Shape::Line, points.collect());
    }
    chart
}

/// Writes a table. The bar behind a number shows its ratio to the largest number of its row or column.
fn table(html: &mut String, part: &Part) {
    let head = part.axis.map_or("layer", |(axis, _)| axis);
    let _ = write!(
        html,
        "<div class=\"{}\" tabindex=\"0\"><table class=\"counts\"><thead><tr><th scope=\"col\">{}</th>",
        page::scroll(part.rows.len()),
        escaped(head),
    );
    for column in &part.columns {
        let (name, unit) = (escaped(column.name), escaped(column.unit));
        let _ = write!(html, "<th scope=\"col\" class=\"n\">{name} <small>{unit}</small></th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    let largest =
        |values: &mut dyn Iterator<Item = Option<f64>>| values.flatten().fold(0.0, f64::max);
    for row in &part.rows {
        let row_max = largest(&mut row.values.iter().copied());
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(&row.label));
        for (at, value) in row.values.iter().enumerate() {
            let text = digits(*value);
            let max = match part.bars {
                BarScale::Row => row_max,
                BarScale::Column => largest(&mut part.rows.iter().map(|row| row.values[at])),
            };
            let _ = match value.filter(|_| max > 0.0) {
                Some(value) => write!(
                    html,
                    "<td class=\"n\" style=\"--share:{:.0}%\"><span>{text}</span></td>",
                    100.0 * value / max
                ),
                None => write!(html, "<td class=\"n\">{text}</td>"),
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>");
}
