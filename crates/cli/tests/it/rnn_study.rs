//! `dyno rnn`: what it measures, as documents and pages.

use crate::program::Folder;

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
