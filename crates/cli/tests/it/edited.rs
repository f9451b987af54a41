//! State files of searches and sweeps that were edited: `confirmed` and results are those of the runs on disk.

use serde_json::{Value, json};

use crate::program::Folder;

/// Changes a JSON file.
fn edit(folder: &Folder, name: &str, change: impl FnOnce(&mut Value)) {
    let mut file: Value = serde_json::from_str(&folder.read(name)).unwrap();
    change(&mut file);
    folder.write(name, &file.to_string());
}

#[test]
fn a_confirmed_load_is_that_of_the_full_run() {
    let folder = Folder::new();
    let search = "search --system model:exponential=2ms,servers=8 --limit p99<=20ms --duration 3s \
                  --tolerance 5% --no-progress --out s";
    folder.dyno(search).exits(0);
    folder.dyno("search --resume s").exits(0);
    let honest = folder.read("s/search.json");

    // Only the load of `confirmed`; then that of its run, too, but not the run on disk.
    edit(&folder, "s/search.json", |state| state["confirmed"]["load"] = json!(99_999.0));
    let ran = folder.dyno("search --resume s").exits(3);
    assert!(ran.stderr.contains("no full run with this load and folder passed"), "{}", ran.stderr);
    edit(&folder, "s/search.json", |state| {
        let points = state["points"].as_array_mut().unwrap();
        points.last_mut().unwrap()["load"] = json!(99_999.0);
    });
    let ran = folder.dyno("search --resume s").exits(3);
    assert!(ran.stderr.contains("is no VALID run with this load"), "{}", ran.stderr);
    let ran = folder.dyno("report s --out page.html").exits(0);
    assert!(ran.stderr.contains("is no VALID run with this load"), "{}", ran.stderr);
    assert!(!folder.read("page.html").contains("99,999 queries/s keep"));

    // The folder of the run may be gone.
    folder.write("s/search.json", &honest);
    std::fs::remove_dir_all(folder.0.join("s/confirm")).unwrap();
    folder.dyno("search --resume s").exits(0);
}

#[test]
fn results_of_a_sweep_are_those_of_its_points() {
    let folder = Folder::new();
    let sweep = "sweep --system model:exponential=2ms --scenario server --mode performance --duration 1s \
                 --over qps=100,200 --quiet --out out";
    let ran = folder.dyno(sweep);
    let again = folder.dyno("sweep --resume out --quiet");
    assert_eq!(again.code, ran.code, "{}", again.stderr);
    let honest = folder.read("out/sweep.json");
    for (key, value) in [("p99_ns", json!(1_000)), ("verdict", json!("ABORTED"))] {
        edit(&folder, "out/sweep.json", |sweep| sweep["points"][1]["results"][0][key] = value);
        let edited = folder.dyno("sweep --resume out --quiet").exits(3);
        assert!(
            edited.stderr.contains("the results of point 2 are not those of"),
            "{}",
            edited.stderr
        );
        folder.write("out/sweep.json", &honest);
    }
}
