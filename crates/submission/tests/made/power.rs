//! Power measurement of a run: the files of the power client, server and PTDaemon, as long as
//! those of a run of ten minutes.
//!
//! A run in virtual time begins in 1970. Its ranging is dated one day later, and the run that
//! counts two days later.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};

const SOURCES: &str = include_str!("../../src/power/power.toml");
const DETAIL: &str = "mlperf_log_detail.txt";
const SUMMARY: &str = "mlperf_log_summary.txt";
const SPL: &str = "spl.txt";

const PLAYED: &str = "01-01-1970";
const RANGING: &str = "01-02-1970";
const TESTING: &str = "01-03-1970";
/// Start times of ranging and of the run that counts, in seconds since 1970.
pub const RANGING_BEGAN: f64 = 86_400.0;
pub const TESTING_BEGAN: f64 = 2.0 * RANGING_BEGAN;

/// Value of each reading, except for every twentieth, which failed.
pub const WATTS: &str = "40.500000";

/// Number of lines without events, so that files have a typical size.
const DAEMON_LINES: u32 = 3_000;
const SERVER_LINES: usize = 1_000;

/// Additional fields of a system description.
pub const FIELDS: [(&str, &str); 15] = [
    ("power_management", "balanced"),
    ("filesystem", "ext4"),
    ("boot_firmware_version", "1.0"),
    ("management_firmware_version", "1.0"),
    ("other_hardware", "none"),
    ("number_of_type_nics_installed", "1"),
    ("nics_enabled_firmware", "1"),
    ("nics_enabled_os", "1"),
    ("nics_enabled_connected", "1"),
    ("network_speed_mbit", "10000"),
    ("power_supply_quantity_and_rating_watts", "2x 1600 W"),
    ("power_supply_details", "Some supply"),
    ("disk_drives", "1x NVMe SSD"),
    ("disk_controllers", "none"),
    ("system_power_only", "true"),
];

/// Files of a power measurement.
pub struct PowerFiles<'a> {
    /// Folder of `power` and `ranging`.
    pub folder: &'a Path,
    /// Subfolder with the logs of the run: `run_1` in a submission, empty in a run directory.
    pub run: &'a str,
    /// Round whose power sources are recorded, such as `v5.1`.
    pub round: &'a str,
}

impl PowerFiles<'_> {
    /// Adds the files of a measurement to a run.
    pub fn make(&self) {
        for folder in ["power", "ranging"] {
            fs::create_dir_all(self.folder.join(folder)).unwrap();
        }
        for log in [DETAIL, SUMMARY] {
            let played = fs::read_to_string(self.folder.join(self.run).join(log)).unwrap();
            self.write(&format!("ranging/{log}"), &played.replace(PLAYED, RANGING));
            self.write_of_run(log, &played.replace(PLAYED, TESTING));
        }
        self.write(&format!("ranging/{SPL}"), &readings(RANGING, 300));
        self.write_of_run(SPL, &readings(TESTING, 600));
        self.write("power/client.log", &"the client waits for the server to answer\n".repeat(200));
        let line = "the server reads from PTDaemon, and writes what it says to its own log\n";
        self.write("power/server.log", &line.repeat(SERVER_LINES));
        self.write("power/ptd_logs.txt", &daemon_log(""));
        self.write("analyzer_table.md", "The analyzer and how it was connected.\n");
        self.write("power_settings.md", "How the system was set.\n");
        self.describe(|_, _| ());
    }

    /// Writes the files of client and server with the current checksums, after applying a
    /// change.
    pub fn describe(&self, change: impl FnOnce(&mut Value, &mut Value)) {
        let of_client = ["power/client.log", "ranging/mlperf_log_detail.txt"];
        let of_server = ["power/server.log", "power/ptd_logs.txt", "ranging/spl.txt"];
        let mut client = self.side(&of_client, &[DETAIL, SUMMARY]);
        let mut server = self.side(&of_server, &[SPL]);
        let summary = "ranging/mlperf_log_summary.txt";
        client["results"][summary] = json!(self.sum(summary));
        server["ptd_messages"] = talk();
        server["ptd_config"] = json!([{"device_type": 49, "command": [], "channel": null}]);
        change(&mut client, &mut server);
        self.write("power/client.json", &client.to_string());
        self.write("power/server.json", &server.to_string());
    }

    /// Writes a file.
    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }

    fn write_of_run(&self, file: &str, text: &str) {
        fs::write(self.folder.join(self.run).join(file), text).unwrap();
    }

    fn sum(&self, file: &str) -> String {
        let bytes = fs::read(self.folder.join(file)).unwrap_or_default();
        Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the fields of both sides, with checksums of these files and of these files of the
    /// run.
    fn side(&self, files: &[&str], of_run: &[&str]) -> Value {
        let mut results = Map::new();
        for file in files {
            results.insert((*file).to_owned(), json!(self.sum(file)));
        }
        for file in of_run {
            // In the submission, the file is in that folder.
            let there = Path::new(self.run).join(file);
            results.insert(format!("run_1/{file}"), json!(self.sum(there.to_str().unwrap())));
        }
        let sources: toml::Table = SOURCES.parse().unwrap();
        let releases = sources["sources"].as_array().unwrap();
        let is_current = |release: &&toml::Value| {
            release["rounds"].as_array().unwrap().contains(&self.round.into())
        };
        let release = releases.iter().find(is_current).unwrap();
        json!({
            "version": "1.0", "timezone": 0, "modules": {"made": "here"},
            "sources": serde_json::to_value(&release["files"]).unwrap(),
            "messages": [
                {"cmd": "mlcommons/power client v3", "reply": "mlcommons/power server v3"},
                {"cmd": "time", "reply": "0"},
            ],
            "uuid": {
                "client": "12c6b14d-4772-44d9-8b97-05f467c34732",
                "server": "94fa156b-c8c4-4629-8ecd-3a3aaa6ad3d2",
            },
            "session_name": "made", "results": results,
            "phases": {"ranging": phase(RANGING_BEGAN), "testing": phase(TESTING_BEGAN)},
        })
    }
}

/// Returns the times of a phase around a run that began at this time.
pub fn phase(began: f64) -> Value {
    json!([
        [began - 90.0, 0.0],
        [began - 60.0, 30.0],
        [began + 40_000.0, 0.0],
        [began + 40_010.0, 0.0]
    ])
}

/// Returns one reading per second.
fn readings(date: &str, seconds: u32) -> String {
    let mut text = String::new();
    for at in 0..seconds {
        let (minute, second) = (at / 60, at % 60);
        let watts = if at % 20 == 19 { "-1.000000" } else { WATTS };
        writeln!(
            text,
            "Time,{date} 00:{minute:02}:{second:02}.500,Watts,{watts},Volts,230.010000,\
             Amps,0.208900,PF,0.927900,Mark,made"
        )
        .unwrap();
    }
    text
}

/// Returns the log of PTDaemon, with these lines after ranging.
pub fn daemon_log(within: &str) -> String {
    let mut text = format!(
        "PTDaemon\n\
         {PLAYED} 23:00:01.000: Uncertainty checking for YokogawaWT310 is activated\n\
         {PLAYED} 23:59:00.000: Go with mark 'made_ranging'\n\
         {RANGING} 00:01:00.000: ERROR: Bad watts reading nan from Yokogawa\n\
         {RANGING} 00:10:30.000: Completed test\n{within}"
    );
    for at in 0..DAEMON_LINES {
        let (minute, second) = (at / 60, at % 60);
        writeln!(text, "{TESTING} 00:{minute:02}:{second:02}.000: Watts,40.5,Volts,230.0").unwrap();
    }
    text
}

/// Returns the messages with PTDaemon.
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
