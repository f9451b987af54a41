//! Resolves the settings of the scenario: rate, percentile, arrivals, bounds and the search for the
//! peak.

use super::problem::ReferenceBehavior;
use super::resolve::{INVALID_SETTINGS, Resolution};
use super::{Load, PeakSettings, Server, Tokens};
use crate::clock::SECOND;
use crate::printf::general;
use crate::rng::GAMMA_SHAPES;
use crate::search::Unit;
use crate::settings::{Arrivals, EarlyStopping, Scenario, TestMode, TestSettings};

/// Maximum decimals of the peak rate: more are not distinct at rates that systems reach.
const PEAK_DECIMALS_MAX: i32 = 9;

/// Maximum number of issue threads: the limit of the reference's logger.
const ISSUE_THREADS_MAX: u64 = 1_024;

impl Resolution<'_> {
    /// Returns the rate of the trace, queries/s. The reference uses 1 for a negative rate of Server
    /// and Offline; 1 also replaces every other value without a period.
    pub(super) fn target_qps(&mut self) -> f64 {
        let s = self.settings;
        if self.has_interval() {
            return self.interval_qps();
        }
        let one = || ReferenceBehavior::Replaced { by: "1 query/s".into() };
        let latency = |ns: f64| SECOND as f64 / ns;
        let (field, given, rate) = match s.scenario {
            Scenario::SingleStream => {
                let ns = s.single_stream_expected_latency_ns;
                ("single_stream_expected_latency_ns", ns, latency(ns))
            }
            Scenario::MultiStream => {
                let ns = s.multi_stream_expected_latency_ns;
                ("multi_stream_expected_latency_ns", ns, latency(ns))
            }
            Scenario::Server => ("server_target_qps", s.server_target_qps, s.server_target_qps),
            Scenario::Offline => {
                ("offline_expected_qps", s.offline_expected_qps, s.offline_expected_qps)
            }
        };
        if given.is_finite() && given > 0.0 {
            return rate;
        }
        let (expected, change) = match s.scenario {
            Scenario::SingleStream | Scenario::MultiStream => {
                ("a latency above 0 ns", "set it to how long one query takes")
            }
            Scenario::Server => ("a rate above 0 queries/s", "set it to the mean arrival rate"),
            Scenario::Offline => {
                ("a rate above 0 samples/s", "set it to the throughput that the system may reach")
            }
        };
        // 0 and infinity are kept if the reference survives them: a latency of 0 ns is a trace
        // without gaps, and a throughput of 0 leaves the query at its minimum. An endless trace is
        // detected later as too long.
        let survives = rate >= 0.0 && !(s.scenario == Scenario::Server && rate == 0.0);
        let in_reference = if survives { ReferenceBehavior::Runs } else { one() };
        self.problem(&[field], expected, change, in_reference);
        let has_rate = matches!(s.scenario, Scenario::Server | Scenario::Offline);
        if has_rate && given < 0.0 {
            let given = general(given);
            self.set_reference_text(format!(
                "Invalid value for {field} requested. requested: {given} using: 1"
            ));
        }
        if survives { rate } else { 1.0 }
    }

    /// Returns the token metrics.
    pub(super) fn tokens(&mut self) -> Option<Tokens> {
        let s = self.settings;
        let inferring = matches!(s.scenario, Scenario::Server | Scenario::Offline);
        if s.use_token_latencies && s.infer_token_latencies {
            self.problem(
                &["use_token_latencies", "infer_token_latencies"],
                "at most one of them",
                "tokens are either measured or inferred",
                ReferenceBehavior::Runs,
            );
        } else if s.infer_token_latencies && inferring && s.token_latency_scaling_factor == 0 {
            self.problem(
                &["infer_token_latencies", "token_latency_scaling_factor"],
                "a factor of at least 1 token/sample",
                "set the factor to the mean number of output tokens of a sample",
                ReferenceBehavior::Runs,
            );
        }
        let bounds = s.server_ttft_latency.min(s.server_tpot_latency);
        if s.use_token_latencies && s.scenario == Scenario::Server && bounds == 0 {
            self.problem(
                &["server_ttft_latency", "server_tpot_latency"],
                "bounds above 0 ns",
                "no system meets a bound of 0 ns",
                ReferenceBehavior::Runs,
            );
        }
        if s.use_token_latencies {
            Some(Tokens::Measured { ttft: s.server_ttft_latency, tpot: s.server_tpot_latency })
        } else if s.infer_token_latencies {
            Some(Tokens::Inferred { scaling_factor: s.token_latency_scaling_factor })
        } else {
            None
        }
    }

    /// Returns the settings of the chosen scenario.
    pub(super) fn load(&mut self, has_tokens: bool) -> Load {
        let s = self.settings;
        let defaults = TestSettings::default();
        let has_peak = s.scenario == Scenario::Server || self.has_interval();
        if s.mode == TestMode::FindPeakPerformance && !has_peak {
            self.problem(
                &["mode", "scenario"],
                "scenario Server, or MultiStream with multi_stream_target_qps",
                "only Server has a rate to search for, and only a fixed interval a number of streams",
                ReferenceBehavior::Stops { key: "error_invalid_config" },
            );
        }
        match s.scenario {
            Scenario::SingleStream => Load::SingleStream {
                percentile: self.percentile(
                    "single_stream_target_latency_percentile",
                    s.single_stream_target_latency_percentile,
                    defaults.single_stream_target_latency_percentile,
                ),
            },
            Scenario::MultiStream => Load::MultiStream {
                percentile: self.percentile(
                    "multi_stream_target_latency_percentile",
                    s.multi_stream_target_latency_percentile,
                    defaults.multi_stream_target_latency_percentile,
                ),
                pacing: self.stream_pacing(),
            },
            Scenario::Server => Load::Server(self.server(has_tokens)),
            Scenario::Offline => Load::Offline,
        }
    }

    fn percentile(&mut self, field: &'static str, given: f64, default: f64) -> f64 {
        if given > 0.0 && given < 1.0 {
            return given;
        }
        let change = if (1.0..1.5).contains(&given) {
            "a share of 1 leaves out no query; use one such as 0.999".into()
        } else if (1.5..100.0).contains(&given) {
            format!("the 99th percentile is 0.99; did you mean {}?", given / 100.0)
        } else {
            format!("the default is {default}")
        };
        let by = ReferenceBehavior::Replaced { by: format!("the default {default}") };
        self.problem(&[field], "a fraction above 0 and below 1", change, by);
        default
    }

    fn server(&mut self, has_tokens: bool) -> Server {
        let s = self.settings;
        if s.server_target_latency_ns == 0 && !has_tokens {
            self.problem(
                &["server_target_latency_ns"],
                "a bound above 0 ns",
                "no system meets a bound of 0 ns; target_latency of a user.conf is in whole ms, so that \
                 0.5 is 0",
                ReferenceBehavior::Runs,
            );
        }
        let default_percentile = TestSettings::default().server_target_latency_percentile;
        let arrivals = self.arrivals();
        let mut issue_threads = s.server_num_issue_query_threads;
        if issue_threads > 0 && arrivals != Arrivals::Poisson {
            self.problem(
                &["server_num_issue_query_threads", "server_arrivals"],
                "issue threads with Poisson arrivals only",
                "set the threads to 0",
                ReferenceBehavior::Replaced { by: "the calling thread".into() },
            );
            issue_threads = 0;
        }
        if issue_threads > 0 && s.early_stopping == EarlyStopping::Extend {
            self.problem(
                &["server_num_issue_query_threads", "early_stopping"],
                "issue threads with early stopping judged after the run",
                "set the threads to 0, or early_stopping to after-run",
                ReferenceBehavior::Replaced { by: "the calling thread".into() },
            );
            issue_threads = 0;
        }
        if issue_threads > ISSUE_THREADS_MAX {
            self.problem(
                &["server_num_issue_query_threads"],
                format!("at most {ISSUE_THREADS_MAX} threads"),
                "no machine issues faster from more",
                ReferenceBehavior::Replaced { by: format!("{ISSUE_THREADS_MAX} threads") },
            );
            issue_threads = ISSUE_THREADS_MAX;
        }
        Server {
            percentile: self.percentile(
                "server_target_latency_percentile",
                s.server_target_latency_percentile,
                default_percentile,
            ),
            target_latency: s.server_target_latency_ns,
            peak: self.peak(&arrivals),
            arrivals,
            coalesce: s.server_coalesce_queries,
            issue_threads,
        }
    }

    fn arrivals(&mut self) -> Arrivals {
        let s = self.settings;
        let bound = s.server_max_async_queries;
        let group = match &s.server_arrivals {
            Arrivals::Burst(group) | Arrivals::Concurrency(group) => u64::from(*group),
            _ => 0,
        };
        let complaint = match &s.server_arrivals {
            Arrivals::Gamma(shape) if !GAMMA_SHAPES.contains(shape) => {
                Some("a gamma shape from 0.001 to 1000000")
            }
            Arrivals::Burst(0) => Some("a burst of at least 1 query"),
            Arrivals::Concurrency(0) => Some("at least 1 query in flight"),
            Arrivals::Replay(times) if times.is_empty() => Some("at least one arrival time"),
            Arrivals::Replay(times) if !times.is_sorted() => {
                Some("arrival times that ascend (equal times are a burst)")
            }
            _ => None,
        };
        if let Some(expected) = complaint {
            let by = ReferenceBehavior::Replaced { by: "Poisson arrivals".into() };
            let change = match &s.server_arrivals {
                Arrivals::Replay(times) if times.is_empty() => {
                    "add one; stages need higher rates, longer times or another seed"
                }
                _ => "correct the arrival process",
            };
            self.problem(&["server_arrivals"], expected, change, by);
            return Arrivals::Poisson;
        }
        if bound > 0 && group > bound {
            self.problem(
                &["server_arrivals", "server_max_async_queries"],
                "no more queries at once than may be outstanding",
                "raise the limit, or set it to 0 for none",
                ReferenceBehavior::Runs,
            );
        }
        s.server_arrivals.clone()
    }

    fn peak(&mut self, arrivals: &Arrivals) -> PeakSettings {
        let s = self.settings;
        let problems_before = self.problems.len();
        let default_step = TestSettings::default().server_find_peak_qps_boundary_step_size;
        let mut step_size = s.server_find_peak_qps_boundary_step_size;
        if !(step_size.is_finite() && step_size > 0.0) {
            self.problem(
                &["server_find_peak_qps_boundary_step_size"],
                "a factor above 0",
                "1 doubles the rate at each step",
                ReferenceBehavior::Replaced { by: format!("the default {default_step}") },
            );
            step_size = default_step;
        }
        let asked = s.server_find_peak_qps_decimals_of_precision;
        let decimals = asked.clamp(0, PEAK_DECIMALS_MAX);
        if decimals != asked {
            self.problem(
                &["server_find_peak_qps_decimals_of_precision"],
                format!("0 to {PEAK_DECIMALS_MAX} decimals"),
                "finer rates cannot be distinguished by a measurement",
                ReferenceBehavior::Replaced { by: format!("{decimals} decimals") },
            );
        }
        if matches!(arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_)) {
            self.problem(
                &["mode", "server_arrivals"],
                "arrivals that have a rate",
                "choose poisson, constant, gamma or burst",
                ReferenceBehavior::Stops { key: INVALID_SETTINGS },
            );
        }
        // Without a search its settings cannot be wrong.
        if s.mode != TestMode::FindPeakPerformance {
            self.problems.truncate(problems_before);
        }
        PeakSettings {
            unit: Unit::Rate,
            decimals: u8::try_from(decimals).expect("clamped to 0..=9"),
            step_size,
        }
    }
}
