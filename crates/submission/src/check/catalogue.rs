//! Catalogue of checks: id, condition, fix, and severity in each program. Differences between
//! the official checkers are data here.

use dyno_rules::Leniency;

use super::Program;
use super::provenance::{Judge, Limit};
use crate::finding::Severity;

/// A check.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    /// Stable id, such as `performance.seeds`.
    pub id: &'static str,
    /// Condition that holds if the check passes.
    pub title: &'static str,
    /// How to fix a failure.
    pub mend: &'static str,
    strict: Effect,
    mono: Effect,
    modular: Effect,
}

/// Effect of a failed check in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The program does not check.
    Off,
    /// Reported as information.
    Note,
    /// Reported as a probable mistake.
    Warning,
    /// The result, or everything below the location, does not count.
    Error,
}

use Effect::{Error as E, Note as N, Off as O, Warning as W};

impl Check {
    /// Returns the severity in a program in the last round, without `--forensic`; `None` if the
    /// program does not check.
    pub fn severity(&self, program: Program) -> Option<Severity> {
        self.severity_by(Judge::by_default(program))
    }

    /// Returns the severity that a judge gives to a failed check; `None` if it does not check.
    pub(super) fn severity_by(&self, judge: Judge) -> Option<Severity> {
        let effect = match judge.program {
            Program::Strict => match judge.limit(self.id) {
                Some(Limit::Off) => Effect::Off,
                Some(Limit::Warning) => self.strict.min(Effect::Warning),
                None => self.strict,
            },
            Program::Mono => self.mono,
            Program::Tag(checker) => match checker.instead(self.id) {
                Some(Leniency::Off) => Effect::Off,
                Some(Leniency::Warning) => self.mono.min(Effect::Warning),
                None => self.mono,
            },
            Program::Modular => self.modular,
        };
        match effect {
            Effect::Off => None,
            Effect::Note => Some(Severity::Note),
            Effect::Warning => Some(Severity::Warning),
            Effect::Error => Some(Severity::Error),
        }
    }
}

/// Defines checks: name, id, effect in strict, mono and modular, title, fix.
macro_rules! checks {
    ($($name:ident $id:literal [$strict:ident $mono:ident $modular:ident] $title:literal, $mend:literal;)+) => {
        $(
            #[doc = $title]
            pub static $name: Check = Check {
                id: $id, title: $title, mend: $mend, strict: $strict, mono: $mono, modular: $modular,
            };
        )+
        /// All checks, in the order in which programs run them.
        pub static ALL: &[&Check] = &[$(&$name),+];
    };
}

checks! {
    NO_RESULTS "tree.results" [E W W] "the submission has at least one result",
        "pass the folder that holds closed/, open/ or network/, and check the names of these folders";
    UNLISTED "tree.listed" [E W W] "every folder can be listed", "grant read permission for the folder, and replace links to folders with folders";
    FOREIGN_FOLDER "tree.divisions" [E W O] "the root has only the folders closed, open and network",
        "rename or remove the folder";
    ROOT_FILES "tree.root_files" [E E O] "the root has only *.md and *.pdf files", "remove the files";
    DIVISION_FILES "tree.division_files" [E E O] "a division has no files outside the submitters' folders", "move the files into the submitter's folder";
    BROKEN_LINKS "submitter.links" [E E O] "symbolic links point to existing files", "replace the link with the file or folder that it should point to";
    LARGE_FILES "submitter.file_size" [E E O] "no file is larger than 50 MiB", "cut the accuracy logs with `dyno package`, or remove the file";
    HIDDEN_NAMES "submitter.hidden_names" [E E O] "no name begins with a dot", "rename or remove the file";
    BLANK_NAMES "submitter.blanks" [E E O] "no name has a blank", "rename the file";
    PYCACHE "submitter.pycache" [E E O] "there are no __pycache__ folders", "remove the folder";
    EMPTY_FOLDERS "submitter.empty_folders" [E E O] "no folder is empty", "remove the folder";
    NOT_REPORTED "submitter.unused" [W E O] "every described or measured system has results", "add the results, or remove the system";
    CALIBRATION "submitter.calibration" [E E O] "calibration.md exists", "write calibration.md or documentation/calibration.md, and describe how quantized weights were calibrated";
    TO_FILL "submission.to_fill" [W O O] "no FILL IN placeholder is left", "replace FILL IN with the value, here or in the file of `dyno package --describe`";
    NO_RESULTS_FOLDER "submitter.results" [E O E] "a submitter has a results folder", "add the results, or remove the submitter's folder";
    MODEL_NAMES "submitter.model_names" [E E E] "model_mapping.json is a JSON object", "write {\"own name\": \"official name\"}";
    SYSTEM_MISSING "system.description" [E E E] "every system has a description", "write systems/NAME.json";
    SYSTEM_JSON "system.json" [E E E] "the description is a JSON object", "correct the file";
    SYSTEM_STATUS "system.status" [E E E] "the status is available, preview or rdi", "set `status`";
    SYSTEM_TYPE "system.type" [E E E] "the type is datacenter, edge or both", "set `system_type`";
    SYSTEM_NETWORK "system.network" [E E E] "is_network is \"true\" in the network division and not in the closed division", "set `is_network`, or move the system to the other division";
    SYSTEM_FIELD "system.fields" [E E E] "the description has all fields of the round", "add the field";
    SYSTEM_FIELD_EMPTY "system.empty_fields" [E E E] "required fields are not empty", "fill in the field; the number 0 counts as empty, the text \"0\" does not";
    SYSTEM_FIELD_UNKNOWN "system.unknown_fields" [W W O] "the description has no unknown fields", "check the spelling of the field";
    SYSTEM_SUBMITTER "system.submitter" [E E E] "the submitter matches the folder", "set `submitter` to the name of the folder";
    SYSTEM_DIVISION "system.division" [E E E] "the division matches the folder", "set `division` to the name of the folder";
    SYSTEM_DIVISION_CASE "system.division_case" [E E O] "the division has the same case as the folder", "write `division` in lower case";
    MODEL_UNKNOWN "model.known" [E E E] "the model is a benchmark of the round", "give the folder the official name, or map it in model_mapping.json (open division)";
    MODEL_SUITE "model.suite" [E E E] "the model has scenarios for this type of system", "check `system_type` of the system";
    SCENARIOS_MISSING "model.scenarios" [E E E] "all required scenarios are present and valid", "add the scenario, or submit to the open division";
    SCENARIO_UNKNOWN "scenario.known" [E E E] "the scenario is required or optional for the model", "rename the folder or remove it";
    ENDPOINT "result.endpoint" [E O E] "a result without LoadGen logs is of a model that the round permits on an endpoint", "measure with LoadGen, or add its logs";
    ENDPOINT_FILES "endpoint.files" [E O W] "the files of the endpoint client exist and can be read", "add config.yaml, performance/result_summary.json and accuracy/accuracy_results.json unchanged, as the client wrote them";
    ENDPOINT_SCORE "endpoint.score" [W O O] "endpoint scores can be compared with their targets", "compare the scores with their targets by hand: the client reports them in another form";
    MEASUREMENT_FOLDER "measurement.folder" [E E E] "the measurement is described", "add the folder with user.conf, README.md and the JSON file";
    MEASUREMENT_FILES "measurement.files" [E E E] "the measurement has all its files", "add the file";
    MEASUREMENT_EMPTY "measurement.empty_files" [E E E] "the files of a measurement are not empty", "fill in the file";
    MEASUREMENT_JSON_MISSING "measurement.description" [E E E] "a JSON file with the name of the system exists", "write the file: data types, weights, and changes to the weights";
    MEASUREMENT_JSON "measurement.json" [E E E] "the JSON file is an object", "correct the file";
    MEASUREMENT_FIELD "measurement.fields" [E E E] "the JSON file has its five fields", "add the field";
    MEASUREMENT_FIELD_EMPTY "measurement.empty_fields" [E E E] "the five fields are not empty", "fill in the field";
    CODE_MISSING "measurement.code" [E E O] "the code of the model exists", "add the folder, or a file of that name that contains the path of the folder";
    CODE_ALL_MISSING "measurement.all_code" [E O E] "the submitter has a code folder", "add the folder";
    POWER_DESCRIPTION "measurement.power_files" [E E O] "power runs have analyzer_table.* and power_settings.*", "add the file to the measurement's folder or one of its three parent folders";
    ACCURACY_TEXT_MISSING "accuracy.text" [E E E] "accuracy.txt exists", "write the output of the accuracy script to accuracy/accuracy.txt";
    ACCURACY_FILES "accuracy.files" [E E O] "the accuracy folder has exactly its four files", "add missing files, and remove extra files";
    ACCURACY_UNREADABLE "accuracy.readable" [E E E] "accuracy.txt and the detail log can be parsed", "write the files again: UTF-8, one JSON object per line, numbers with one decimal point";
    ACCURACY_METRIC_MISSING "accuracy.metric" [E E E] "accuracy.txt has every metric of the benchmark", "run the official accuracy script of the benchmark";
    ACCURACY_LOW "accuracy.target" [E E E] "every metric reaches its target", "use weights that reach the target; the open division may miss it";
    ACCURACY_HIGH "accuracy.limit" [E E E] "no metric exceeds its limit", "check the lengths of the outputs";
    ACCURACY_HASH "accuracy.hash" [E E E] "accuracy.txt ends with the hash of the accuracy log", "truncate the log with `dyno package`, which writes the hash";
    ACCURACY_LOG_MISSING "accuracy.log" [E E E] "the accuracy log exists", "add mlperf_log_accuracy.json";
    ACCURACY_LOG_LARGE "accuracy.log_size" [E E E] "the accuracy log is truncated to 10240 bytes", "truncate it with `dyno package`";
    ACCURACY_ERRORS "accuracy.errors" [E E E] "the accuracy run had no errors", "repeat the run";
    ACCURACY_SAMPLES "accuracy.samples" [E W E] "the accuracy run covers the data set", "repeat the run with the whole data set";
    ACCURACY_OUTPUTS "accuracy.outputs" [E E E] "the required output files exist", "add the files to the accuracy folder";
    RUN_FOLDER "performance.folder" [E E O] "the result has a performance run", "add performance/run_1";
    RUN_FILES "performance.files" [E E O] "the run has exactly its files", "add missing files, and remove extra files";
    RUN_UNREADABLE "performance.readable" [E E E] "the detail log can be parsed", "write the log again: UTF-8, one JSON object per line";
    RUN_KEY "performance.keys" [E E E] "the detail log has the required keys", "repeat the run with the LoadGen of this round, or with Dyno";
    RUN_INVALID "performance.result" [E E O] "the run is VALID", "read the reason in the summary, correct its cause and repeat the run";
    RUN_TOKENS_OFF "performance.token_latencies" [E E E] "token latencies are measured for language models", "set use_token_latencies, and report first tokens";
    RUN_TOKEN_LATENCY "performance.token_limits" [E E E] "the p99 time to first token and time per output token are below their limits", "lower the load";
    RUN_EQUAL_ISSUE "performance.equal_issue" [E E O] "models with samples of different sizes issue each sample equally often", "set sample_concatenate_permutation = 1";
    RUN_ERRORS "performance.errors" [E E E] "the run had no errors", "correct the cause of the errors and repeat the run";
    RUN_SAMPLES "performance.samples" [E E E] "the performance set has enough samples", "set performance_sample_count_override to the value of the round";
    RUN_SEEDS "performance.seeds" [E E E] "the seeds match the round", "run with the mlperf.conf of the round";
    RUN_EARLY_STOPPING "performance.early_stopping" [E W E] "early stopping is met", "run longer, or at a lower load";
    RUN_TARGET_LATENCY "performance.target_latency" [E E E] "the target latency does not exceed that of the round", "set target_latency";
    RUN_LATENCY "performance.latency" [E W E] "the p99 latency is within the bound", "lower the load";
    RUN_MIN_QUERIES "performance.queries" [E E E] "min_query_count is at least that of the round", "set min_query_count";
    RUN_OFFLINE_SAMPLES "performance.offline_samples" [E E E] "an Offline query has enough samples", "set min_query_count; in Offline, LoadGen counts samples with it";
    RUN_DURATION "performance.duration" [E E E] "min_duration is at least that of the round", "set min_duration";
    RUN_ZERO "performance.zero" [E E E] "the result is a number greater than 0", "repeat the run; a result of 0 does not count";
    RUN_NETWORK_NAME "performance.sut_name" [E E E] "the name of a system behind a network contains `Network SUT`", "name the system under test `Network SUT ...`";
    RUN_INFERRED "performance.inferred" [E E E] "a result is inferred only on edge systems, and from a permitted scenario", "run the scenario itself";
    RUN_NO_ESTIMATE "performance.estimate" [E E E] "early stopping has an estimate that a result can be inferred from", "run longer";
    POWER_FILES "power.file_list" [E E E] "the folders of a power measurement have exactly their files", "add missing files, and remove extra files";
    POWER_METRIC "power.metric" [E E E] "the power metric can be computed", "repeat the power measurement";
    AUDIT_FOLDER "audit.folder" [E E E] "the model has its audits", "run the audits: `dyno audit`";
    AUDIT_TEST_MISSING "audit.test" [E E E] "every required audit exists", "run the audit: `dyno audit`";
    AUDIT_TEXT_MISSING "audit.text" [E E E] "the audit has its text files", "write the output of the verification script to the file";
    AUDIT_RUN_MISSING "audit.run" [E E E] "the audit has its performance run", "add performance/run_1";
    AUDIT_RUN_FILES "audit.run_files" [E E E] "the run of the audit has exactly its files", "add missing files, and remove extra files";
    AUDIT_PERFORMANCE "audit.performance" [E E E] "the performance verification passes", "read the difference in the text file, and repeat the audit";
    AUDIT_ACCURACY_FOLDER "audit.accuracy_folder" [E E W] "TEST01 has its accuracy folder", "add the folder";
    AUDIT_ACCURACY_FILES "audit.accuracy_files" [E E E] "the accuracy folder of TEST01 has exactly its files", "add missing files, and remove extra files";
    AUDIT_ACCURACY "audit.accuracy" [E E E] "the accuracy verification passes", "read the difference in the text file; for a nondeterministic system add baseline and compliance accuracy";
    AUDIT_OUTPUT_LENGTH "audit.output_length" [E O E] "the outputs are as long as those of the reference", "check the limits of the outputs";
    LOG_FIRST_LINE "log.first_line" [E O O] "a detail log begins with a line of the load generator", "submit the log unchanged, as the load generator wrote it";
    LOG_REPEATED "log.repeated_keys" [E O O] "no key of a detail log has two values", "submit the unchanged log of one run";
    LOG_MARKS "log.error_marks" [E O E] "every line of a detail log has the field is_error", "submit the log unchanged, as the load generator wrote it";
    LOG_ERRORS "log.error_count" [E O O] "the error counts of a log match its errors", "submit the log unchanged, as the load generator wrote it";
    LOG_MODE "log.mode" [E O O] "performance logs are of performance runs, and accuracy logs of accuracy runs", "move each log to the folder of its mode";
    LOG_SEEDS "log.seeds" [E O O] "the requested seeds, the effective seeds and the seeds of the round are equal", "run with the settings of the round: `dyno run --round`";
    LOG_SETTINGS "log.settings" [E O O] "the runs of a result use the round's sample selection, not that of an audit", "run with the settings of the round: `dyno run --round`";
    LOG_SCENARIO "log.scenario" [E O O] "the accuracy log is of the scenario of its folder", "replace it with the log of this scenario";
    ACCURACY_KEY "accuracy.keys" [E O O] "the detail log of the accuracy run has the keys that every run writes", "submit the log unchanged, as the load generator wrote it";
    LOG_KEY "log.keys" [E O O] "the detail log of a performance run has the keys that every LoadGen of its version writes", "submit the log unchanged, as the load generator wrote it";
    LOG_KEY_UNKNOWN "log.keys_unknown" [W O O] "a log has the keys that LoadGen of its version may have written", "no action if the log is unchanged";
    LOG_SIMULATED "log.simulated" [W O O] "the run measured a system, not a simulation in virtual time", "measure the system in real time: `dyno run` without `--virtual`, of a real system";
    LOG_SYSTEM "log.system" [E O O] "the runs of a result and of its audits are of one system and one sample library", "repeat the run on the system of the result";
    LOG_RELEASE "log.release" [W O O] "the runs of a result and of its audits are of one release of LoadGen", "repeat the run with the LoadGen of the result";
    LOG_RELEASE_OLD "log.old_release" [W O O] "LoadGen is not older than that of the round before", "repeat the run with the LoadGen of the round";
    MEASUREMENT_SETTINGS "measurement.settings" [W O O] "user.conf has the settings of the run", "submit the user.conf of the run; no action if the program set the value after it read the file";
    RUN_SUMMARY "performance.summary" [E O O] "summary and detail log agree", "submit both logs of the same run unchanged, as the load generator wrote them";
    RUN_SUMMARY_EMPTY "performance.summary_empty" [E O O] "the summary is not empty", "submit mlperf_log_summary.txt unchanged, as the load generator wrote it";
    RUN_CONSISTENT "performance.consistent" [E O O] "percentiles, rates and conditions of a run are consistent", "submit the log unchanged, as the load generator wrote it";
    RUN_CLOCK "performance.clock" [W O O] "the clock is not set during a run", "synchronize clocks before the run, and repeat the run";
    RUN_STOPPING "performance.stopping_derived" [E O O] "the early-stopping result follows from the counts of the run", "submit the unchanged log of a run with the early-stopping settings of the round";
    RUN_COPY "performance.inferred_copy" [E O O] "an inferred result is a copy of its source", "copy the folder of the source without changes";
    RUN_LOWER "performance.lower_target" [N O O] "the result for the lower target is not a copy of the result for the higher target", "no action: a result that reaches the higher target may be submitted for both";
    RUN_TWICE "performance.run_twice" [E O O] "a result has as many distinct runs as the round requires", "submit every run with its own logs, unchanged";
    RESULT_TWICE "result.twice" [E O O] "every result is distinct in the table of results; an error in the network division only", "remove one of the two results, or rename one of the systems";
    RESULT_COPIED "result.copied" [W O O] "no log belongs to two systems or to two benchmarks", "measure every result, or remove the copy";
    SERVER_METRIC "performance.server_metric" [N O O] "the round determines which rate of Server counts", "no action: both rates are shown";
    ACCURACY_HASH_FORMAT "accuracy.hash_format" [E O O] "the hash is a SHA-256", "truncate the log with `dyno package`, which writes the hash";
    ACCURACY_HASH_DIFFERS "accuracy.hash_differs" [E O O] "the hash matches the accuracy log", "run the accuracy script on this log, then truncate the log with `dyno package`";
    ACCURACY_LOG_EMPTY "accuracy.log_empty" [E O O] "the accuracy log has samples, and one answer to each", "submit the log of the accuracy run";
    ACCURACY_COUNTS "accuracy.counts" [E O O] "an accuracy has one value, and matches the counts beside it", "submit accuracy.txt unchanged, as the script wrote it";
    ACCURACY_UNIT "accuracy.unit" [E O O] "quality reaches its target in the unit of the target", "use weights that reach the target, or submit to the open division";
    ACCURACY_PLACEHOLDER "accuracy.placeholder" [N O O] "the bounds of the round are known", "no action: the official table has a placeholder";
    AUDIT_OTHER "audit.others" [W O O] "audits that the result does not need also pass", "repeat the audit, or remove it";
    AUDIT_RATIO "audit.ratio" [E O O] "the performance ratio of an audit, from the two detail logs, is within its bounds", "repeat the audit: `dyno audit`";
    AUDIT_SETTINGS "audit.settings" [E O O] "an audit was run with its settings", "run the audit: `dyno audit`";
    AUDIT_TEXT_CONTRADICTS "audit.text_derived" [E O O] "the verdict in the text of an audit follows from its numbers", "submit the output of the verification script unchanged";
    SYSTEM_ECC "system.ecc" [E O O] "memory of a datacenter system has ECC", "use memory with ECC, or submit as an edge system";
    SYSTEM_ECC_UNSAID "system.ecc_unsaid" [W O O] "the description of a datacenter system states that memory has ECC", "state it in the memory configuration";
    SYSTEM_BANDWIDTH "system.bandwidth" [W O O] "the network of a datacenter system has the bandwidth that its result needs", "describe all NICs in `host_networking` and `host_network_card_count`, with evidence of their rate; no action if an I/O device provides the bandwidth";
    SYSTEM_BANDWIDTH_UNKNOWN "system.bandwidth_unknown" [W O O] "the rate of every network of a datacenter system can be read", "state the rate of each NIC in `host_networking`, such as 100GbE or 400 Gbps";
    SYSTEM_NAMEPLATE "system.nameplate" [E O E] "the description of the power supplies suffices to compute design power", "write systems/NAME_power.yaml: lists of nodes with `Min PSUs Needed` and `PSUs`, each with `PowerCapacityWatts`";
    NETWORK_FABRIC "network.fabric" [E O O] "a system of the network division is reached over a network, not over a bus", "measure over Ethernet or InfiniBand";
    NETWORK_FABRIC_UNKNOWN "network.fabric_unknown" [W O O] "the network type is known", "check `network_type`";
    NETWORK_NODES "network.node_names" [E O O] "names of nodes are unique", "rename one of the nodes";
    NETWORK_DIAGRAM "network.diagram" [E O O] "a system measured over a network has a diagram", "add an image to systems/ or documentation/";
    PROGRAM_CRASH "program.crash" [W E E] "the official program does not crash", "correct the cause; the official program stops with a traceback here";
}
