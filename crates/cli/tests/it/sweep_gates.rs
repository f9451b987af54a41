//! Requirements of sweeps: those of one scenario are judged at its points, and a gate that a point does not judge
//! is rejected before the first one runs.

use serde_json::Value;

use crate::program::Folder;

const SWEEP: &str = "sweep --system model:fixed=2ms,servers=4 --mode performance --duration 10s --qps 100 \
                     --over scenario=server,offline --quiet --out out";

#[test]
fn a_requirement_of_a_scenario_is_judged_at_its_points() {
    let folder = Folder::new();
    folder.dyno(&format!("{SWEEP} --require server:p99<=50ms")).exits(0);
    let sweep: Value = serde_json::from_str(&folder.read("out/sweep.json")).unwrap();
    let required = |at: usize| {
        let name = sweep["points"][at]["folder"].as_str().unwrap();
        let summary = folder.read(&format!("out/{name}/summary.json"));
        let summary: Value = serde_json::from_str(&summary).unwrap();
        summary["tests"][0]["requirements"].as_array().map_or(0, Vec::len)
    };
    assert_eq!([required(0), required(1)], [1, 0]);
}

#[test]
fn a_gate_that_a_point_does_not_judge_is_rejected_before_the_first_one_runs() {
    let folder = Folder::new();
    for (requirement, problem) in [
        ("p99<=50ms", "--require p99<=50ms cannot be decided in Offline"),
        ("multistream:p99<=50ms", "no point of the sweep has its scenario"),
    ] {
        let ran = folder.dyno(&format!("{SWEEP} --require {requirement}")).exits(2);
        assert!(ran.stderr.contains(problem), "{}", ran.stderr);
        assert!(!folder.0.join("out").exists());
    }
}
