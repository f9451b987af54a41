//! `dyno rnn`: what it measures, as documents and pages.

use crate::program::Folder;

#[test]
fn a_study_is_a_document_and_a_page() {
    let folder = Folder::new();
    let ran = folder.dyno("rnn study --quick --json --threads 2 --report study.html").exits(0);
    let told = ran.json();
    assert_eq!(told["schema_version"], 1);
    let parts = told["parts"].as_array().unwrap();
    let techniques = &parts[0];
    assert_eq!(
        (&techniques["name"], &techniques["columns"][4]["unit"]),
        (&"techniques".into(), &"ms".into())
    );
    let row = techniques["rows"][0]["values"].as_array().unwrap();
    assert!(row.iter().all(|ms| ms.as_f64().is_some_and(|ms| ms > 0.0)), "{row:?}");
    let misses = parts.iter().find(|part| part["name"] == "l2_misses").unwrap();
    let note = misses["note"].as_str().unwrap();
    let counted = misses["rows"][0]["values"][0].is_number();
    assert_eq!(note.contains("were not counted: "), !counted, "{note}");
    let page = folder.read("study.html");
    assert!(page.contains("<h2>Speed against batch</h2>"), "{page}");
    assert_eq!(page.matches("<figure class=\"chart\">").count(), 6);
    for (name, rows) in [("bidaf", 7), ("text_similarity", 4)] {
        let part = parts.iter().find(|part| part["name"] == name).unwrap();
        assert_eq!(part["rows"].as_array().unwrap().len(), rows, "{part}");
    }
}

#[test]
fn constants_of_the_model_of_costs_are_told() {
    let folder = Folder::new();
    let told = folder.dyno("rnn hwbench --isa scalar --json").exits(0).json();
    let ns = &told[0]["ns"];
    for name in ["meeting", "first_line", "line", "lstm_16", "tile_row", "tile"] {
        assert!(ns[name].as_f64().is_some_and(|ns| ns >= 0.0), "{name}: {ns}");
    }
    assert!(told[0]["together"].as_f64().is_some_and(|part| part > 0.0 && part <= 1.0));
}
