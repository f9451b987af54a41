//! The samples that a tuning job used, and where they come from.

use std::fmt::Write as _;

use dyno_number::tune::Subset;
use serde_json::Value;

use super::Tuning;
use dyno_report::words::escaped;
use dyno_results::units;

/// Returns the purpose of a set.
fn purpose(set: Subset) -> &'static str {
    match set {
        Subset::Small => "first pass",
        Subset::Full => "second pass: what decides",
        Subset::Confirmation => "confirmation; the search does not see it",
    }
}

/// Appends the sets with their numbers of samples and their hashes.
pub fn section(html: &mut String, tuning: &Tuning<'_>) {
    html.push_str(
        "<section class=\"card\"><h2>Samples</h2><div class=\"scroll\" tabindex=\"0\">\
         <table class=\"stack\"><thead><tr><th scope=\"col\">set</th><th scope=\"col\">for</th>\
         <th scope=\"col\" class=\"n\">samples</th><th scope=\"col\" class=\"n\">FLOAT 32</th>\
         <th scope=\"col\" class=\"n\">must be kept</th><th scope=\"col\" class=\"n\">evaluated</th>\
         </tr></thead><tbody>\n",
    );
    for set in Subset::ALL {
        let at = set as usize;
        let Some(baseline) = tuning.outcome.baselines[at] else { continue };
        let listed = tuning.provenance.map(|provenance| provenance.sets[at].samples.len() as u64);
        let samples = listed.or(tuning.outcome.samples[at]).map_or("not said".into(), units::count);
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{set}</th><td data-label=\"for\">{}</td>\
             <td class=\"n\" data-label=\"samples\">{samples}</td>\
             <td class=\"n\" data-label=\"FLOAT 32\">{}</td>\
             <td class=\"n\" data-label=\"must be kept\">{:.5}</td>\
             <td class=\"n\" data-label=\"evaluated\">{}</td></tr>",
            purpose(set),
            baseline.accuracy,
            baseline.threshold,
            tuning.outcome.evaluations[at]
        );
    }
    html.push_str("</tbody></table></div>");
    hashes(html, tuning);
    html.push_str("</section>\n");
}

fn hashes(html: &mut String, tuning: &Tuning<'_>) {
    let mut rows: Vec<(String, String)> = Vec::new();
    if let Some(provenance) = tuning.provenance {
        for set in &provenance.sets {
            rows.push((format!("{} set, {}", set.name, set.purpose), set.sha256.clone()));
        }
    }
    for file in tuning.about["files"].as_array().into_iter().flatten() {
        let text = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
        rows.push((text("name"), text("sha256")));
    }
    if rows.is_empty() {
        let command = tuning.about["cmd_fullset"].as_str().unwrap_or_default();
        let _ = write!(
            html,
            "<p class=\"note\">The samples are the program's own: <code>{}</code>.</p>",
            escaped(command)
        );
        return;
    }
    html.push_str("<dl class=\"hashes\">");
    for (name, sha256) in rows {
        let (name, sha256) = (escaped(&name), escaped(&sha256));
        let _ = write!(html, "<div><dt>{name}</dt><dd><code>{sha256}</code></dd></div>");
    }
    html.push_str("</dl>");
    if let [Value::Number(share), Value::Number(seed)] =
        &tuning.about["small_set"].as_array().cloned().unwrap_or_default()[..]
    {
        let _ = write!(
            html,
            "<p class=\"note\">The small set is a random part of {share} with the seed {seed}, \
             which is the same wherever the files are the same.</p>"
        );
    }
    if tuning.provenance.is_some() {
        html.push_str(
            "<p class=\"note\">Each is the SHA-256 over the hashes of the set's samples, which are in tune.json \
             one by one.</p>",
        );
    }
}
