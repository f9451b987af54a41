//! Checks of measured power, on a measurement made here and on a published one.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use dyno_mlperf::finding::Severity;
use dyno_mlperf::power::nameplate::{NameplateError, design_watts};
use dyno_mlperf::power::{Measurement, Power, PowerUnit, Program, check};
use dyno_mlperf::round::{Scenario, Version};
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use crate::shared;

const SOURCES: &str = include_str!("../../rules/power.toml");

/// A performance folder of a measurement that passes, made up here.
struct Made {
    folder: PathBuf,
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Made {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("dyno-power-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for part in ["power", "ranging", "run_1"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let made = Self { folder };
        // 10:00:00 UTC on 2 January 2026 is 1767348000 s; ranging, then testing.
        for (part, minute) in [("ranging", 1), ("run_1", 21)] {
            let mut spl = String::new();
            for second in 0..60 {
                let watts = if second % 20 == 19 { "-1.0" } else { "40.5" };
                let at = format!("01-02-2026 10:{minute:02}:{second:02}.500");
                writeln!(spl, "Time,{at},Watts,{watts},Volts,230.0,Amps,0.2,PF,0.9,Mark,x")
                    .unwrap();
            }
            spl.push('\n');
            made.write(&format!("{part}/spl.txt"), &spl);
            made.write(&format!("{part}/mlperf_log_detail.txt"), &detail(minute));
            made.write(&format!("{part}/mlperf_log_summary.txt"), "summary\n");
        }
        made.write("power/client.log", "client\n");
        made.write("power/server.log", "server\n");
        made.write("power/ptd_logs.txt", &daemon_log(""));
        made.describe(|_, _| ());
        made
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }

    /// Writes client.json and server.json with the sums of the files as they are.
    fn describe(&self, change: impl FnOnce(&mut Value, &mut Value)) {
        let sum = |file: &str| {
            let bytes = fs::read(self.folder.join(file)).unwrap_or_default();
            Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let side = |files: &[&str], late: f64| {
            let results: Value = files
                .iter()
                .map(|file| ((*file).to_owned(), json!(sum(file))))
                .collect::<serde_json::Map<_, _>>()
                .into();
            json!({
                "version": "1.0", "timezone": 0, "modules": {}, "sources": sources(),
                "messages": [
                    {"cmd": "mlcommons/power client v3", "reply": "mlcommons/power server v3"},
                    {"cmd": "time", "reply": format!("{late}")},
                ],
                "uuid": {
                    "client": "12c6b14d-4772-44d9-8b97-05f467c34732",
                    "server": "94fa156b-c8c4-4629-8ecd-3a3aaa6ad3d2",
                },
                "session_name": "made", "results": results,
                "phases": {
                    "ranging": phase(1_767_348_000.0 + late), "testing": phase(1_767_349_200.0 + late),
                },
            })
        };
        let mut client = side(
            &[
                "power/client.log",
                "ranging/mlperf_log_detail.txt",
                "ranging/mlperf_log_summary.txt",
                "run_1/mlperf_log_detail.txt",
                "run_1/mlperf_log_summary.txt",
            ],
            0.0,
        );
        let mut server = side(
            &["power/server.log", "power/ptd_logs.txt", "ranging/spl.txt", "run_1/spl.txt"],
            0.2,
        );
        server["ptd_messages"] = talk();
        server["ptd_config"] = json!([{"device_type": 49, "command": [], "channel": null}]);
        change(&mut client, &mut server);
        self.write("power/client.json", &client.to_string());
        self.write("power/server.json", &server.to_string());
    }

    fn check(&self, program: Program) -> Power {
        measured(&self.folder, Scenario::SingleStream, program)
    }
}

fn measured(folder: &Path, scenario: Scenario, program: Program) -> Power {
    let shown = Path::new("performance");
    check(&Measurement { folder, shown, round: Version::new(5, 1), scenario, log: None }, program)
}

fn sources() -> Value {
    let file: toml::Table = SOURCES.parse().unwrap();
    serde_json::to_value(&file["sources"][0]).unwrap()
}

fn phase(from: f64) -> Value {
    json!([[from, 0.0], [from + 10.0, 10.0], [from + 200.0, 200.0], [from + 220.0, 220.0]])
}

fn detail(minute: u32) -> String {
    let line = |key: &str, value: Value| {
        format!(
            ":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"time_ms\": 1.0, \"namespace\": \
             \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": {{\"is_error\": \
             false, \"is_warning\": false, \"file\": \"a\", \"line_no\": 1, \"pid\": 7, \"tid\": 8}}}}\n"
        )
    };
    line("power_begin", json!(format!("01-02-2026 10:{minute:02}:00.000")))
        + &line("power_end", json!(format!("01-02-2026 10:{minute:02}:40.000")))
        + &line("result_query_count", json!(1000))
        + &line("effective_scenario", json!("SingleStream"))
}

fn daemon_log(within: &str) -> String {
    format!(
        "PTDaemon\n\
         01-02-2026 10:00:01.000: Uncertainty checking for YokogawaWT310 is activated\n\
         01-02-2026 10:00:10.000: Go with mark 'made_ranging'\n\
         01-02-2026 10:01:00.000: ERROR: Bad watts reading nan from Yokogawa\n\
         01-02-2026 10:03:30.000: Completed test\n{within}"
    )
}

fn talk() -> Value {
    let go = "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples";
    let pairs = [
        ("Hello", "Hello, PTDaemon here!"),
        ("Identify", "YokogawaWT310,1000,version=1.11.1-462c978e-20240907,OS=Linux"),
        ("RR", "Ranges,0,0.5,1,300.0"),
        ("SR,V,Auto", "Range V changed"),
        ("SR,A,Auto", "Range A changed"),
        ("Go,1000,0,made_ranging", go),
        ("Stop", "Stopping untimed measurement"),
        ("SR,V,246.0", "Range V changed"),
        ("SR,A,0.3", "Range A changed"),
        ("Go,1000,0,made_testing", go),
        ("Stop", "Stopping untimed measurement"),
        ("SR,V,Auto", "Range V changed"),
        ("SR,A,0.5", "Range A changed"),
    ];
    pairs.iter().map(|(cmd, reply)| json!({"cmd": cmd, "reply": reply})).collect()
}

fn errors(power: &Power) -> BTreeSet<&str> {
    power.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.check).collect()
}

#[test]
fn a_good_measurement_counts_and_leaves_out_what_was_not_read() {
    let made = Made::new("good");
    for program in [Program::Rules, Program::Official] {
        let power = made.check(program);
        assert_eq!(power.findings, [], "{program:?}");
        assert!(power.is_valid());
        let energy = power.energy.unwrap();
        // Readings at 0.5 s to 39.5 s, of which two are negative and none at the ends.
        assert_eq!((energy.watts, energy.seconds), (40.5, 40.0));
        assert_eq!(
            (energy.unit, energy.value),
            (PowerUnit::Millijoules, 40.5 * 40.0 * 1000.0 / 1000.0)
        );
        assert_eq!(energy.efficiency(f64::NAN), 1000.0 / energy.value);
    }
    let offline = measured(&made.folder, Scenario::Offline, Program::Rules).energy.unwrap();
    assert_eq!((offline.unit, offline.value), (PowerUnit::Watts, 40.5));
    assert_eq!(offline.efficiency(81.0), 2.0);
    let multi = measured(&made.folder, Scenario::MultiStream, Program::Rules).energy.unwrap();
    assert_eq!(multi.value, 8.0 * 40.5 * 40.0 * 1000.0 / 1000.0);
}

#[test]
fn each_check_finds_the_fault_made_for_it() {
    type Change = fn(&mut Value, &mut Value);
    let faults: [(&str, Change); 18] = [
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
        ("power.phases", |client, _| client["phases"]["testing"] = phase(1_767_349_203.0)),
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
        ("power.debug", |_, server| server["debug"] = json!(true)),
        ("power.session", |_, server| *server = json!([])),
    ];
    let made = Made::new("faults");
    for (number, (id, change)) in faults.into_iter().enumerate() {
        made.describe(change);
        let power = made.check(Program::Official);
        assert!(errors(&power).contains(id), "{number} {id}: {:?}", power.findings);
        assert!(!power.is_valid());
    }
}

#[test]
fn files_must_be_as_they_were_written() {
    let made = Made::new("files");
    let summary = "run_1/mlperf_log_summary.txt";
    made.write(summary, "summary\r\n");
    let power = made.check(Program::Rules);
    assert_eq!(errors(&power), ["power.checksums"].into());
    assert_eq!(power.findings[0].path, Path::new("performance").join(summary));
    fs::remove_file(made.folder.join(summary)).unwrap();
    assert_eq!(errors(&made.check(Program::Rules)), ["power.files"].into());
    // Nothing at all is a list of findings, too.
    fs::remove_dir_all(&made.folder).unwrap();
    let power = made.check(Program::Rules);
    assert_eq!(power.findings.len(), 11);
    assert_eq!(power.energy, None);
}

#[test]
fn trouble_while_the_run_counts_is_seen_by_the_rules_only_after_a_warning() {
    let made = Made::new("daemon");
    let uncommon = "01-02-2026 10:01:30.000: ERROR: Bad watts reading 9e37 from Yokogawa\n";
    let error = "01-02-2026 10:21:20.000: ERROR: Current exceeds peak value\n";
    let warning = "01-02-2026 10:21:20.000: WARNING: Uncertainty 1.60%, which is above 1.00% limit for the last sample!\n";
    for (lines, by_rules, officially) in [
        (error.to_owned(), false, false),
        (format!("{uncommon}{error}"), false, true),
        (warning.to_owned(), false, true),
        ("01-02-2026 10:21:20.000: ERROR: USB.\n".to_owned(), true, true),
        ("ERROR: when?\n".to_owned(), false, false),
    ] {
        made.write("power/ptd_logs.txt", &daemon_log(&lines));
        made.describe(|_, _| ());
        assert_eq!(made.check(Program::Rules).is_valid(), by_rules, "{lines}");
        assert_eq!(made.check(Program::Official).is_valid(), officially, "{lines}");
    }
}

#[test]
fn power_lower_than_in_ranging_does_not_count() {
    let made = Made::new("lower");
    let spl = fs::read_to_string(made.folder.join("run_1/spl.txt")).unwrap();
    for (watts, valid) in [("38.6", true), ("38.4", false), ("0.0", false)] {
        made.write("run_1/spl.txt", &spl.replace("40.5", watts));
        made.describe(|_, _| ());
        assert_eq!(made.check(Program::Rules).is_valid(), valid, "{watts}");
    }
    made.write("run_1/spl.txt", &format!("Time,soon,Watts,1\nTime\n{spl}"));
    made.describe(|_, _| ());
    let power = made.check(Program::Rules);
    assert_eq!(power.findings[0].check, "power.samples");
    assert_eq!(power.findings[0].line, Some(1));
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
        (Scenario::SingleStream, 155.142_347_586_284_98),
        (Scenario::MultiStream, 1_241.138_780_690_279_9),
        (Scenario::Offline, 34.176_483_126_110_08),
    ] {
        let folder = model.join(scenario.name().to_lowercase()).join("performance");
        let power = measured(&folder, scenario, Program::Official);
        assert!(power.is_valid(), "{:?}", power.findings);
        assert_eq!(power.energy.unwrap().value, value, "{scenario:?}");
        // The analyzer's range was exceeded while the run counted, which the official
        // program does not see because a warning of ranging ends its check.
        let power = measured(&folder, scenario, Program::Rules);
        assert_eq!(errors(&power), ["power.daemon_log"].into(), "{:?}", power.findings);
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
    assert_eq!(design_watts("[]"), Err(NameplateError::NoNode));
    let bad = design_watts("- Min PSUs Needed: 2\n  PSUs: [{PowerCapacityWatts: 1}]");
    assert_eq!(bad, Err(NameplateError::BadNode { node: 1, field: "PSUs" }));
    let bad = design_watts("- Min PSUs Needed: 1\n  PSUs: [{PowerCapacityWatts: 1 kW}]");
    assert_eq!(bad, Err(NameplateError::BadNode { node: 1, field: "PowerCapacityWatts" }));
    for text in ["[".repeat(100_000), "&a [*a, *a]".to_owned(), "\u{0}".to_owned()] {
        assert!(design_watts(&text).is_err());
    }
}
