//! Minimal logs that audits can read.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use dyno_loadgen::settings::Scenario;
use dyno_submission::audit::{AuditPlan, RunFolder};

/// A temporary folder, removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("dyno-submission-audit-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns a run below the folder.
    pub fn run(&self, name: &str) -> RunFolder {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        RunFolder::new(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sample, answer, first tokens, token count.
pub type Row = (u64, Vec<u8>, Option<Vec<u8>>, Option<i64>);

/// Writes an accuracy log with these samples and answers.
pub fn write_answers(run: &RunFolder, entries: &[(u64, Vec<u8>)]) {
    let rows: Vec<Row> =
        entries.iter().map(|(index, data)| (*index, data.clone(), None, None)).collect();
    write_tokens(run, &rows);
}

/// Writes an accuracy log with first tokens and token counts.
pub fn write_tokens(run: &RunFolder, entries: &[Row]) {
    let hex = |data: &[u8]| data.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let rows: Vec<String> = entries
        .iter()
        .enumerate()
        .map(|(at, (index, data, first, count))| {
            let mut row = format!(
                "{{ \"seq_id\" : {at}, \"qsl_idx\" : {index}, \"data\" : \"{}\"",
                hex(data)
            );
            if let Some(first) = first {
                write!(row, ", \"token_data\" : \"{}\"", hex(first)).unwrap();
            }
            if let Some(count) = count {
                write!(row, ", \"token_count\" : {count}").unwrap();
            }
            row + " }"
        })
        .collect();
    fs::write(run.accuracy_path(), format!("[\n{}\n]\n", rows.join(",\n"))).unwrap();
}

/// A performance run.
#[derive(Clone)]
pub struct Performance {
    pub scenario: Scenario,
    pub score: f64,
    pub validity: &'static str,
    pub target_latency: u64,
    pub seeds: u64,
    pub errors: usize,
    pub mean_latency: u64,
    /// Additional lines of the detail log, which override the others.
    pub settings: Vec<(String, String)>,
}

impl Performance {
    pub fn new(scenario: Scenario, score: f64) -> Self {
        Self {
            scenario,
            score,
            validity: "VALID",
            target_latency: 0,
            seeds: 7,
            errors: 0,
            mean_latency: 1_000,
            settings: Vec::new(),
        }
    }

    /// Applies the settings of a planned run.
    pub fn planned(mut self, plan: &AuditPlan, run: usize) -> Self {
        for (field, value) in &plan.runs[run].settings {
            let key = match *field {
                "mode" => "effective_test_mode".to_string(),
                "min_query_count" if self.scenario == Scenario::Offline => {
                    "effective_min_sample_count".to_string()
                }
                other => format!("effective_{other}"),
            };
            self.settings.push((key, value.clone()));
        }
        self
    }

    /// Returns the settings that select logged answers, and the counts of a run that logged all of
    /// its answers if it has an accuracy log.
    fn issued(&self, run: &RunFolder) -> Vec<(String, String)> {
        let mut rows = vec![
            ("effective_target_qps", 1),
            ("effective_min_duration_ms", 0),
            ("effective_min_query_count", 1),
            ("effective_min_sample_count", 1),
            ("effective_samples_per_query", 1),
            ("effective_accuracy_log_rng_seed", 0),
            ("effective_accuracy_log_probability", 0),
            ("effective_accuracy_log_sampling_target", 0),
        ];
        if let Ok(answers) = fs::read_to_string(run.accuracy_path()) {
            let logged = answers.matches("\"seq_id\"").count();
            let is_offline = self.scenario == Scenario::Offline;
            let (queries, each) = if is_offline { (1, logged) } else { (logged, 1) };
            rows.push(("generated_query_count", queries));
            rows.push(("generated_samples_per_query", each));
            rows.push(("result_query_count", queries));
        }
        rows.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect()
    }

    pub fn write(&self, run: &RunFolder) {
        let (key, label) = match self.scenario {
            Scenario::SingleStream => ("early_stopping_latency_ss", None),
            Scenario::MultiStream => ("early_stopping_latency_ms", None),
            Scenario::Server => {
                ("result_completed_samples_per_sec", Some("Completed samples per second"))
            }
            Scenario::Offline => ("result_samples_per_second", Some("Samples per second")),
        };
        let text = |value: &str| format!("\"{value}\"");
        let mut rows = vec![
            ("effective_scenario".to_string(), text(self.scenario.name())),
            ("effective_target_latency_ns".into(), self.target_latency.to_string()),
            ("result_validity".into(), text(self.validity)),
            ("result_mean_latency_ns".into(), self.mean_latency.to_string()),
            (key.into(), self.score.to_string()),
        ];
        for seed in ["qsl", "sample_index", "schedule"] {
            rows.push((format!("effective_{seed}_rng_seed"), self.seeds.to_string()));
        }
        rows.extend(self.issued(run));
        // A setting that is given twice was changed; results keep both lines.
        let is_changed = |key: &String, later: &[(String, String)]| {
            key.starts_with("effective_") && later.iter().any(|(other, _)| other == key)
        };
        rows.retain(|(key, _)| !is_changed(key, &self.settings));
        for (at, (key, value)) in self.settings.iter().enumerate() {
            if is_changed(key, &self.settings[at + 1..]) {
                continue;
            }
            let is_plain = value.parse::<f64>().is_ok() || value == "true" || value == "false";
            rows.push((key.clone(), if is_plain { value.clone() } else { text(value) }));
        }
        let line = |key: &str, value: &str, is_error: bool| {
            format!(
                ":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"time_ms\": 1.000000, \
                 \"namespace\": \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \
                 \"metadata\": {{\"is_error\": {is_error}, \"is_warning\": false, \"file\": \
                 \"a.cc\", \"line_no\": 1, \"pid\": 1, \"tid\": 1}}}}\n"
            )
        };
        let mut detail: String = rows.iter().map(|(key, value)| line(key, value, false)).collect();
        for _ in 0..self.errors {
            detail += &line("error_runtime", "\"a bad response\"", true);
        }
        fs::write(run.detail_path(), detail).unwrap();
        let mut summary = format!("Scenario : {}\n", self.scenario.name());
        if let Some(label) = label {
            writeln!(summary, "{label}: {}", self.score).unwrap();
        }
        writeln!(summary, "Result is : {}", self.validity).unwrap();
        if label.is_none() {
            let percentile =
                if self.scenario == Scenario::SingleStream { "90.0th" } else { "99.0th" };
            let estimate = format!("Early stopping {percentile} percentile estimate");
            writeln!(summary, "Early Stopping Result:\n * {estimate}: {}", self.score).unwrap();
        }
        writeln!(summary, "\ntarget_latency (ns): {}", self.target_latency).unwrap();
        summary += "No warnings encountered during test.\n\nNo errors encountered during test.\n";
        fs::write(run.summary_path(), summary).unwrap();
    }
}
