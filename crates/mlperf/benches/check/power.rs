//! Measured power beside a run: the files of the power client, server and PTDaemon, as
//! long as those of a run of ten minutes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};

const SOURCES: &str = include_str!("../../rules/power.toml");
const LOGS: [&str; 2] = ["mlperf_log_detail.txt", "mlperf_log_summary.txt"];
/// Runs that are played begin with 1970.
const PLAYED: &str = "01-01-1970";
const DAY: f64 = 86_400.0;

/// Lines in which nothing happens, of about as many bytes as are common.
const DAEMON_LINES: usize = 3_000;
const SERVER_LINES: usize = 1_000;

/// What a description of a system says besides.
pub const DESCRIPTION: &str = r#"
power_management = "balanced"
filesystem = "ext4"
boot_firmware_version = "1.0"
management_firmware_version = "1.0"
other_hardware = "none"
number_of_type_nics_installed = "1"
nics_enabled_firmware = "1"
nics_enabled_os = "1"
nics_enabled_connected = "1"
network_speed_mbit = "10000"
power_supply_quantity_and_rating_watts = "2x 1600 W"
power_supply_details = "Some supply"
disk_drives = "1x NVMe SSD"
disk_controllers = "none"
system_power_only = true
"#;

/// Makes a run one whose power was measured: ranging the day before.
pub fn measure(run: &Path) {
    for folder in ["power", "ranging"] {
        fs::create_dir(run.join(folder)).unwrap();
    }
    let write = |file: &str, text: &str| fs::write(run.join(file), text).unwrap();
    for log in LOGS {
        let played = fs::read_to_string(run.join(log)).unwrap();
        write(&format!("ranging/{log}"), &played.replace(PLAYED, "01-02-1970"));
        write(log, &played.replace(PLAYED, "01-03-1970"));
    }
    write("ranging/spl.txt", &readings("01-02-1970", 300, "ranging"));
    write("spl.txt", &readings("01-03-1970", 600, "testing"));
    write("analyzer_table.md", "The analyzer and how it was connected.\n");
    write("power_settings.md", "How the system was set.\n");
    write("power/client.log", &"the client waits for the server to answer\n".repeat(200));
    let line = "the server reads from PTDaemon, and writes what it says to its own log\n";
    write("power/server.log", &line.repeat(SERVER_LINES));
    write("power/ptd_logs.txt", &daemon_log());
    let (client, server) = session(run);
    write("power/client.json", &client.to_string());
    write("power/server.json", &server.to_string());
}

/// A reading a second.
fn readings(date: &str, seconds: u32, phase: &str) -> String {
    let mut text = String::new();
    for at in 0..seconds {
        let (minute, second) = (at / 60, at % 60);
        let watts = 40.0 + f64::from(at % 10) / 10.0;
        writeln!(
            text,
            "Time,{date} 00:{minute:02}:{second:02}.500,Watts,{watts:.6},Volts,230.010000,Amps,\
             0.208900,PF,0.927900,Mark,made_{phase}"
        )
        .unwrap();
    }
    text
}

fn daemon_log() -> String {
    let mut text = "PTDaemon\n\
         01-01-1970 23:00:01.000: Uncertainty checking for YokogawaWT310 is activated\n\
         01-01-1970 23:59:00.000: Go with mark 'made_ranging'\n\
         01-02-1970 00:10:30.000: Completed test\n"
        .to_owned();
    for at in 0..DAEMON_LINES {
        let (minute, second) = (at / 60, at % 60);
        writeln!(text, "01-03-1970 00:{minute:02}:{second:02}.000: Watts,40.5,Volts,230.0")
            .unwrap();
    }
    text
}

/// What client and server say.
fn session(run: &Path) -> (Value, Value) {
    let beside = ["power/client.log", "power/server.log", "power/ptd_logs.txt"].map(str::to_owned);
    let ranging = [LOGS[0], LOGS[1], "spl.txt"].map(|log| format!("ranging/{log}"));
    let sum = |file: &str| {
        let bytes = fs::read(run.join(file)).unwrap();
        json!(Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    let mut results = Map::new();
    for file in beside.into_iter().chain(ranging) {
        let sum = sum(&file);
        results.insert(file, sum);
    }
    for file in [LOGS[0], LOGS[1], "spl.txt"] {
        // It lies in a folder of its own in the submission.
        results.insert(format!("run_1/{file}"), sum(file));
    }
    let sources: toml::Table = SOURCES.parse().unwrap();
    let phase = |day: f64| {
        let at = day * DAY;
        json!([[at - 90.0, 0.0], [at - 60.0, 30.0], [at + 40_000.0, 0.0], [at + 40_010.0, 0.0]])
    };
    let mut client = json!({
        "version": "1.0", "timezone": 0, "modules": {},
        "sources": serde_json::to_value(&sources["sources"][0]).unwrap(),
        "messages": [
            {"cmd": "mlcommons/power client v3", "reply": "mlcommons/power server v3"},
            {"cmd": "time", "reply": "0"},
        ],
        "uuid": {
            "client": "12c6b14d-4772-44d9-8b97-05f467c34732",
            "server": "94fa156b-c8c4-4629-8ecd-3a3aaa6ad3d2",
        },
        "session_name": "made", "results": results,
        "phases": {"ranging": phase(1.0), "testing": phase(2.0)},
    });
    let mut server = client.clone();
    client["modules"] = json!({"made": "here"});
    server["ptd_messages"] = talk();
    server["ptd_config"] = json!([{"device_type": 49, "command": [], "channel": null}]);
    (client, server)
}

/// With PTDaemon.
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
