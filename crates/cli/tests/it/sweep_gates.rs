//! Requirements and bounds of sweeps: those of one scenario are judged at its points, a gate that a point does not
//! judge is rejected before the first one runs, and a resumed sweep keeps its bound.

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

#[test]
fn the_highest_rate_below_a_latency_is_that_of_the_theory() {
    let folder = Folder::new();
    // M/M/1 with 1000/s: the p99 of the sojourn time is 4.6 ms / (1 - load), so
    // 5.8, 9.2, 15 and 46 ms.
    let ran = folder
        .dyno(
            "sweep --system model:exponential=1ms --scenario server --mode performance \
             --duration 400s --set server_target_latency_ns=200ms --p99-below 11ms \
             --over qps=200,500,700,900 --out out",
        )
        .exits(0);
    let expected = "Server, highest throughput with p99 below 11.0 ms: qps-500 (";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    // Each rate has more throughput and a higher p99 than the one before.
    assert_eq!(ran.stdout.matches("│ *   qps-").count(), 4, "{}", ran.stdout);
    let again = folder.dyno("sweep --resume out").exits(0).stdout;
    assert!(again.contains(expected), "the bound is kept: {again}");
    for flag in [" --p99-below 3ms", ""] {
        let none = folder.dyno(&format!("sweep --resume out{flag}")).exits(1).stdout;
        assert!(none.contains("with p99 below 3.00 ms: no valid point"), "{none}");
    }
}

/// An undecided requirement is listed before the missed one that makes the point INVALID.
#[test]
fn the_message_of_a_point_is_a_reason_of_its_verdict() {
    let folder = Folder::new();
    folder
        .dyno(
            "sweep --system model:exponential=1ms --scenario server --mode performance \
             --duration 10s --require p99<=9.2ms --require p90<=2ms --over qps=500 --out out",
        )
        .exits(1);
    let sweep: Value = serde_json::from_str(&folder.read("out/sweep.json")).unwrap();
    let point = &sweep["points"][0];
    assert_eq!(point["state"], "invalid", "{point}");
    let message = point["message"].as_str().unwrap();
    assert!(message.contains("latency p90 <= 2.00 ms is missed"), "{message}");
    let xml = folder.dyno("export out/points/0001-qps-500 --format junit").exits(0).stdout;
    let expected =
        "<failure type=\"INVALID\" message=\"The requirement latency p90 &lt;= 2.00 ms is missed";
    assert!(xml.contains(expected), "{xml}");
}
