//! Tests of the program from outside: exit codes, messages, files.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod agents;
mod audit;
mod book;
mod bounds;
mod check;
mod client_loads;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod clocks;
mod compare;
mod compare_conditions;
mod compare_folders;
mod compare_with;
mod connections;
mod daemons;
mod disks;
mod edited;
mod engines;
mod export;
mod failing;
mod files;
mod foreign;
mod formats;
mod gates;
mod http_request;
mod images;
mod launch;
mod launch_tune;
mod lengths;
mod loads;
mod messages;
mod npu;
mod npu_fleet;
mod npu_sweep;
#[cfg(unix)]
mod observer;
mod output;
mod package;
mod probe;
mod program;
mod prometheus;
mod prompts;
#[cfg(target_os = "linux")]
mod pty;
mod python_server;
mod rates;
mod report;
mod rnn;
mod rnn_study;
mod rnn_whole;
mod rounds;
mod saturation;
mod schema;
mod score;
mod search;
mod search_client;
mod serve;
mod server_metrics;
mod servers;
mod sessions;
mod shell;
mod signals;
mod streams;
mod sweep;
mod task;
mod tenants;
#[cfg(target_os = "linux")]
mod terminal;
mod texts;
mod threads;
mod transcriptions;
mod tune;
mod tune_cpp;
mod tuned;
mod tuned_compare;
mod tuned_endings;
mod tuned_export;
mod tuned_files;
mod tuned_graph;
mod tuned_nan;
mod tuned_scenario;
mod tuned_verdict;
mod updated;
mod verdicts;
mod workers;
