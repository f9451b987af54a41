//! Time that the client lost, within the section of a test.

use std::fmt::Write as _;

use dyno_results::summary::{Observer, Test};
use dyno_results::units::count;

use super::words::{counted, escaped, span_ns};

/// Appends the time that the client lost; nothing if it lost none and delayed no sample.
pub fn section(html: &mut String, test: &Test, all: &[Observer]) {
    let is_own = |one: &&Observer| one.scenario == test.scenario && one.mode == test.mode;
    let has_lost = |one: &&Observer| !one.lost_ns.is_empty() || one.delayed > 0;
    for observer in all.iter().filter(is_own).filter(has_lost) {
        let of = observer.worker.map(|worker| format!(" of worker {worker}")).unwrap_or_default();
        let _ = write!(html, "<h3>Time lost by the client{of}</h3><dl class=\"pairs\">");
        for (name, value) in rows(observer) {
            let _ =
                write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(&name), escaped(&value));
        }
        html.push_str("</dl>");
        pauses(html, observer);
    }
}

fn rows(observer: &Observer) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> =
        observer.lost_ns.iter().map(|(loss, ns)| (loss.words().into(), span_ns(*ns))).collect();
    rows.push(("length of the run".into(), span_ns(observer.lasted_ns)));
    rows.push(("samples that the client delayed".into(), count(observer.delayed)));
    if observer.delayed > 0 {
        rows.push(("longest delay".into(), span_ns(observer.longest_delay_ns)));
    }
    for figure in observer.figures.iter().filter(|of| of.measured_ns != of.without_client_ns) {
        let (with, without) = (span_ns(figure.measured_ns), span_ns(figure.without_client_ns));
        rows.push((figure.name.clone(), format!("{with}, without the client's delays {without}")));
    }
    let waited = observer.run_delay_ns.iter().filter(|(_, ns)| **ns > 0);
    rows.extend(waited.map(|(thread, ns)| (format!("thread {thread} waited"), span_ns(*ns))));
    rows
}

fn pauses(html: &mut String, observer: &Observer) {
    if observer.longest.is_empty() {
        return;
    }
    let (pauses, listed) = (counted(observer.pauses, "pause", "pauses"), observer.longest.len());
    let which = if observer.pauses > listed as u64 {
        format!(", the longest {listed} of them")
    } else {
        String::new()
    };
    let _ = write!(
        html,
        "<details><summary>{pauses}{which}</summary><div class=\"scroll\" tabindex=\"0\"><table>\
         <thead><tr><th scope=\"col\">at</th><th scope=\"col\">lasted</th>\
         <th scope=\"col\">the client was</th></tr></thead><tbody>"
    );
    for pause in &observer.longest {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&span_ns(pause.at_ns)),
            escaped(&span_ns(pause.lasted_ns)),
            pause.loss.words()
        );
    }
    html.push_str("</tbody></table></div></details>");
}

#[cfg(test)]
mod tests {
    use dyno_results::summary::observer::{Loss, Pause};

    use super::*;

    #[test]
    fn the_table_of_pauses_scrolls_by_itself() {
        let pause = Pause { at_ns: 1_000_000, lasted_ns: 2_000_000, loss: Loss::Processors };
        let observer = Observer { pauses: 1, longest: vec![pause], ..Observer::default() };
        let mut html = String::new();
        pauses(&mut html, &observer);
        assert!(html.contains("<div class=\"scroll\" tabindex=\"0\"><table>"), "{html}");
    }
}
