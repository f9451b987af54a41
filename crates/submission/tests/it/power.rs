//! Power checks, on a generated and on a published measurement.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use dyno_loadgen::settings::Scenario;
use dyno_rules::{OneFileChecker, Round, RuleScenario, Version};
use dyno_submission::finding::Severity;
use dyno_submission::power::nameplate::{NameplateError, design_watts, official_watts};
use dyno_submission::power::{Measurement, Power, PowerChecker, PowerUnit, check};
use serde_json::{Value, json};

use crate::made::folder::Folder;
use crate::made::played::{SAMPLES, STEADY};
use crate::made::power::{PowerFiles, TESTING_BEGAN, WATTS, daemon_log, phase};
use crate::shared;

/// Energy per query: 40.5 W for 50 ms.
const MILLIJOULES: f64 = 40.5 * 50.0;
/// Rounding error of sums of 600 readings.
const ROUNDING: f64 = 1e-9;

/// Performance folder of a measurement that passes.
struct MeasuredFolder(Folder);

impl MeasuredFolder {
    fn new(name: &str) -> Self {
        let made = Self(Folder::new(name));
        let settings = STEADY.settings(Round::named("v5.1").unwrap(), Scenario::SingleStream);
        STEADY.play(&settings, SAMPLES, &made.0.path().join("run_1"));
        made.files().make();
        made
    }

    fn files(&self) -> PowerFiles<'_> {
        PowerFiles { folder: self.0.path(), run: "run_1", round: "v5.1" }
    }

    fn check(&self, program: PowerChecker) -> Power {
        measured(self.0.path(), RuleScenario::SingleStream, program)
    }
}

fn measured(folder: &Path, scenario: RuleScenario, program: PowerChecker) -> Power {
    let shown = Path::new("performance");
    check(&Measurement { folder, shown, round: Version::new(5, 1), scenario, log: None }, program)
}

fn errors(power: &Power) -> BTreeSet<&str> {
    power.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.check).collect()
}

#[test]
fn a_good_measurement_counts_and_leaves_out_what_was_not_read() {
    let made = MeasuredFolder::new("good");
    for program in [PowerChecker::Rules, PowerChecker::Official] {
        let power = made.check(program);
        assert_eq!(power.findings, [], "{program:?}");
        assert!(power.is_valid());
        let energy = power.energy.unwrap();
        // Sequential queries of 50 ms for 600 s; readings below 0 failed.
        assert_eq!((energy.watts, energy.seconds), (40.5, 600.05));
        assert_eq!(energy.unit, PowerUnit::Millijoules);
        assert!((energy.value - MILLIJOULES).abs() < ROUNDING, "{energy:?}");
        assert_eq!(energy.efficiency(f64::NAN), 1000.0 / energy.value);
    }
    let offline =
        measured(made.0.path(), RuleScenario::Offline, PowerChecker::Rules).energy.unwrap();
    assert_eq!((offline.unit, offline.value), (PowerUnit::Watts, 40.5));
    assert_eq!(offline.efficiency(81.0), 2.0);
    let multi =
        measured(made.0.path(), RuleScenario::MultiStream, PowerChecker::Rules).energy.unwrap();
    assert!((multi.value - 8.0 * MILLIJOULES).abs() < ROUNDING, "{multi:?}");
}

#[test]
fn each_check_finds_the_fault_made_for_it() {
    type Change = fn(&mut Value, &mut Value);
    let faults: [(&str, Change); 19] = [
        ("power.sources", |client, _| client["sources"]["client.py"] = json!("0")),
        ("power.sources", |_, server| server["sources"]["new.py"] = json!("0")),
        ("power.daemon", |_, server| server["ptd_messages"][1]["reply"] = json!("")),
        ("power.daemon", |_, server| {
            server["ptd_messages"][1]["reply"] = json!("YokogawaWT310,version=1.10.0-1,");
        }),
        ("power.daemon", |_, server| server["ptd_messages"][5]["reply"] = json!("no")),
        ("power.daemon", |_, server| server["ptd_messages"][12]["cmd"] = json!("SR,A,0.4")),
        ("power.uuid", |_, server| server["uuid"]["server"] = json!("0")),
        ("power.session_name", |client, _| client["session_name"] = json!("other")),
        ("power.phases", |client, _| client["phases"]["testing"] = phase(TESTING_BEGAN + 3.0)),
        ("power.phases", |client, _| client["phases"]["ranging"] = json!([["x"], null])),
        ("power.messages", |client, _| client["messages"][0]["cmd"] = json!("hello")),
        ("power.messages", |client, _| client["messages"] = json!([])),
        ("power.checksums", |client, _| client["results"]["power/client.log"] = json!("0")),
        ("power.checksums", |client, _| client["results"] = json!(7)),
        ("power.devices", |_, server| server["ptd_config"][0]["device_type"] = json!(9)),
        ("power.devices", |_, server| {
            server["ptd_config"] =
                json!({"device_type": 77, "command": ["-c", "1"], "channel": [1]});
        }),
        ("power.daemon_log", |_, server| server["timezone"] = json!("CET")),
        ("power.debug", |_, server| server["debug"] = json!(true)),
        ("power.session", |_, server| *server = json!([])),
    ];
    let made = MeasuredFolder::new("faults");
    for (number, (id, change)) in faults.into_iter().enumerate() {
        made.files().describe(change);
        let power = made.check(PowerChecker::Official);
        assert!(errors(&power).contains(id), "{number} {id}: {:?}", power.findings);
        assert!(!power.is_valid());
    }
}

#[test]
fn files_must_be_as_they_were_written() {
    let made = MeasuredFolder::new("files");
    let summary = "run_1/mlperf_log_summary.txt";
    made.0.write(summary, "summary\r\n");
    let power = made.check(PowerChecker::Rules);
    assert_eq!(errors(&power), ["power.checksums"].into());
    assert_eq!(power.findings[0].path, Path::new("performance").join(summary));
    fs::remove_file(made.0.path().join(summary)).unwrap();
    assert_eq!(errors(&made.check(PowerChecker::Rules)), ["power.files"].into());
    // An empty folder also returns findings.
    fs::remove_dir_all(made.0.path()).unwrap();
    let power = made.check(PowerChecker::Rules);
    assert_eq!(power.findings.len(), 11);
    assert_eq!(power.energy, None);
}

#[test]
fn trouble_while_the_run_counts_is_seen_by_the_rules_only_after_a_warning() {
    let made = MeasuredFolder::new("daemon");
    let uncommon = "01-02-1970 00:01:30.000: ERROR: Bad watts reading 9e37 from Yokogawa\n";
    let error = "01-03-1970 00:05:00.000: ERROR: Current exceeds peak value\n";
    let warning = "01-03-1970 00:05:00.000: WARNING: Uncertainty 1.60%, which is above 1.00% limit for the last sample!\n";
    for (lines, by_rules, officially) in [
        (error.to_owned(), false, false),
        (format!("{uncommon}{error}"), false, true),
        (warning.to_owned(), false, true),
        ("01-03-1970 00:05:00.000: ERROR: USB.\n".to_owned(), true, true),
        ("ERROR: when?\n".to_owned(), false, false),
    ] {
        made.0.write("power/ptd_logs.txt", daemon_log(&lines));
        made.files().describe(|_, _| ());
        assert_eq!(made.check(PowerChecker::Rules).is_valid(), by_rules, "{lines}");
        assert_eq!(made.check(PowerChecker::Official).is_valid(), officially, "{lines}");
    }
}

#[test]
fn power_lower_than_in_ranging_does_not_count() {
    let made = MeasuredFolder::new("lower");
    let spl = fs::read_to_string(made.0.path().join("run_1/spl.txt")).unwrap();
    for (watts, valid) in [("38.6", true), ("38.4", false), ("0.0", false)] {
        made.0.write("run_1/spl.txt", spl.replace(WATTS, watts));
        made.files().describe(|_, _| ());
        assert_eq!(made.check(PowerChecker::Rules).is_valid(), valid, "{watts}");
    }
    made.0.write("run_1/spl.txt", format!("Time,soon,Watts,1\nTime\n{spl}"));
    made.files().describe(|_, _| ());
    let power = made.check(PowerChecker::Rules);
    assert_eq!(power.findings[0].check, "power.samples");
    assert_eq!(power.findings[0].line, Some(1));
}

/// The official programs end the check of power with an exception at such a line.
#[test]
fn a_reading_that_cannot_be_parsed_leaves_no_metric() {
    let made = MeasuredFolder::new("damaged");
    let spl = fs::read_to_string(made.0.path().join("run_1/spl.txt")).unwrap();
    let reading = spl.lines().nth(307).unwrap();
    assert!(reading.contains(WATTS));
    let damaged = spl.replace(reading, &reading.replace(WATTS, "4o.5"));
    let early = PowerChecker::Early(OneFileChecker::new(Version::new(3, 0)));
    let programs = [PowerChecker::Rules, PowerChecker::Official, early];
    for (text, has_metric) in [
        (spl.clone(), [true; 3]),
        (damaged, [false; 3]),
        (format!("{spl}Time,soon,Watts,1\n"), [false; 3]),
        (format!("{spl}Time,01-09-1970 00:00:00.000,Watts,x\n"), [true; 3]),
        (format!("{spl}hello\n"), [false, true, false]),
        (format!("{spl}\n"), [true, true, false]),
    ] {
        made.0.write("run_1/spl.txt", &text);
        let found = programs.map(|program| made.check(program).energy.is_some());
        assert_eq!(found, has_metric, "{}", text.lines().last().unwrap());
    }
}

#[test]
fn a_published_measurement_has_the_official_metric() {
    let Some(tree) = shared::find("reference/submissions/tree/open/GATEOverflow/results") else {
        return;
    };
    let system =
        "TRIGKEY_Mini_PC_Ryzen_5_5560-ctuning_cpp_tflite-cpu-tflite_vmaster-default_config";
    let model = tree.join(system).join("mobilenet-v1-precision_float-1.0-128");
    for (scenario, value) in [
        (RuleScenario::SingleStream, 155.142_347_586_284_98),
        (RuleScenario::MultiStream, 1_241.138_780_690_279_9),
        (RuleScenario::Offline, 34.176_483_126_110_08),
    ] {
        let folder = model.join(scenario.name().to_lowercase()).join("performance");
        let power = measured(&folder, scenario, PowerChecker::Official);
        assert!(power.is_valid(), "{:?}", power.findings);
        assert_eq!(power.energy.unwrap().value, value, "{scenario:?}");
        // The analyzer's range was exceeded during the run. The official program misses it
        // because a warning in ranging ends its check.
        let power = measured(&folder, scenario, PowerChecker::Rules);
        assert_eq!(errors(&power), ["power.daemon_log"].into(), "{:?}", power.findings);
    }
}

/// The sums are those of `_sum_power_capacity_watts` in checks/system_check.py b66003e1, which was run
/// on these files.
#[test]
fn the_official_program_adds_what_it_finds() {
    for (text, watts) in [
        ("- {Min PSUs Needed: 1, PSUs: [{PowerCapacityWatts: 1150}]}", Some("1150")),
        // Python adds a float to a float.
        ("- {Min PSUs Needed: 1, PSUs: [{PowerCapacityWatts: 1150.0}]}", Some("1150.0")),
        ("- {Min PSUs Needed: 1, PSUs: [{PowerCapacityWatts: 1150.5}]}", Some("1150.5")),
        // The float is not taken.
        (
            "- {Min PSUs Needed: 1, PSUs: [{PowerCapacityWatts: 9.5}, {PowerCapacityWatts: 10}]}",
            Some("10"),
        ),
        ("- {Min PSUs Needed: 3, PSUs: [{PowerCapacityWatts: 5}, {other: 1}]}", Some("5")),
        (
            "- {min psus needed: -1, psus: [{PowerCapacityWatts: 5}, {PowerCapacityWatts: 7}]}",
            Some("7"),
        ),
        ("- {Min PSUs Needed: null, PSUs: [{PowerCapacityWatts: 5}]}", Some("5")),
        ("- {Min PSUs Needed: true, PSUs: [{PowerCapacityWatts: 5}]}", Some("5")),
        // It does not find a node without both fields.
        ("- {PSUs: [{PowerCapacityWatts: 1150}]}", Some("0")),
        ("- a node", Some("0")),
        ("", None),
        ("- {1: 2}", None),
        ("- {Min PSUs Needed: 1.0, PSUs: [{PowerCapacityWatts: 5}]}", None),
        ("- {Min PSUs Needed: 1, PSUs: [{PowerCapacityWatts: 1 kW}]}", None),
        ("- {Min PSUs Needed: 1, PSUs: {PowerCapacityWatts: 5}}", None),
    ] {
        assert_eq!(official_watts(text).as_deref(), watts, "{text}");
    }
}

#[test]
fn design_power_is_of_the_largest_supplies_that_a_node_needs() {
    let text = "
- - Min PSUs Needed: 2
    PSUs: [{PowerCapacityWatts: 800}, {PowerCapacityWatts: 1200}, {PowerCapacityWatts: 1000}]
  - Min PSUs Needed: 1
    PSUs:
    - PowerCapacityWatts: 550.5
";
    assert_eq!(design_watts(text), Ok(2750.5));
    // The official template (submission_structure.md) writes the name of the field in two ways.
    let template = "
My System:
- My Rack 1:
  - My Server 1:
    - Description: 'Optional Description'
      Min PSUs Needed: 1
      PSUs:
      - Name: PSU 1
        PowerCapacityWatts: 1200
      - Name: PSU 2
        PowerCapacityWatts: 1200
  - My Switch 1:
    - Description: 'Optional Description'
      Min PSUs needed: 1
      PSUs:
      - Name: PSU 1
        PowerCapacityWatts: 1100
";
    assert_eq!(design_watts(template), Ok(2300.0));
    assert_eq!(design_watts("[]"), Err(NameplateError::NoNode));
    let bad = design_watts("- Min PSUs Needed: 2\n  PSUs: [{PowerCapacityWatts: 1}]");
    assert_eq!(bad, Err(NameplateError::BadNode { node: 1, field: "PSUs" }));
    let bad = design_watts("- Min PSUs Needed: 1\n  PSUs: [{PowerCapacityWatts: 1 kW}]");
    assert_eq!(bad, Err(NameplateError::BadNode { node: 1, field: "PowerCapacityWatts" }));
    for text in ["[".repeat(100_000), "&a [*a, *a]".to_owned(), "\u{0}".to_owned()] {
        assert!(design_watts(&text).is_err());
    }
}
