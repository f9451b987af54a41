//! The load generator: generates the traffic of a scenario, records it, and judges whether the
//! run is valid.
//!
//! This crate knows no model, no data format, no quality metric and no rule book. Start reading
//! at [`session::Session`], the state machine that decides when which query is issued. [`drive`]
//! has the two drivers of a session: one in real time and one in virtual time.
//!
//! The example runs a Server test against a simulated system that answers each query after
//! 1 ms:
//!
//! ```
//! use dyno_loadgen::clock::{MILLISECOND, Nanos, WallTime};
//! use dyno_loadgen::drive::sim::VirtualTime;
//! use dyno_loadgen::log::reports;
//! use dyno_loadgen::plan::{Library, Plan};
//! use dyno_loadgen::qsl::SampleLibrary;
//! use dyno_loadgen::record::Outcome;
//! use dyno_loadgen::run::{RecordRetention, Tenant, run};
//! use dyno_loadgen::settings::{Scenario, Settings, TestSettings};
//! use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
//!
//! /// Ids of outstanding samples and when they are complete.
//! struct OneMillisecond(std::collections::VecDeque<(Nanos, ResponseId)>);
//!
//! impl SimulatedSystem for OneMillisecond {
//!     fn name(&self) -> &str {
//!         "one millisecond"
//!     }
//!     fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
//!         self.0.push_back((now + MILLISECOND, query.first));
//!     }
//!     fn next_event(&self) -> Option<Nanos> {
//!         self.0.front().map(|(done, _)| *done)
//!     }
//!     fn advance(&mut self, _now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
//!         let id = self.0.pop_front().expect("an event is due").1;
//!         let outcome = Outcome::Ok { tokens: 0 };
//!         completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
//!     }
//! }
//!
//! struct Numbers;
//!
//! impl SampleLibrary for Numbers {
//!     fn name(&self) -> &str {
//!         "numbers"
//!     }
//!     fn total_sample_count(&self) -> usize {
//!         100
//!     }
//! }
//!
//! let settings = TestSettings {
//!     scenario: Scenario::Server,
//!     server_target_qps: 1_000.0,
//!     min_duration_ms: 1_000,
//!     ..TestSettings::default()
//! };
//! let plan = Plan::resolve(&settings, Library { total: 100, performance: 100 }).unwrap();
//! let tenant =
//!     Tenant { settings: Settings::from(settings), plan, library: &Numbers, messages: vec![] };
//! let mut system = OneMillisecond(Default::default());
//! let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
//! let logs = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {});
//! let report = &reports(&logs[0])[0];
//! assert_eq!(report.metrics.latency.max, 1_000_000);
//! assert!(report.is_valid());
//! ```
#![forbid(unsafe_code)]

pub mod backlog;
pub mod clock;
pub mod compare;
pub mod config;
pub mod drive;
pub mod drop_in;
pub mod early_stopping;
pub mod log;
pub mod message;
pub mod metrics;
mod named_enum;
pub mod peak;
pub mod plan;
mod printf;
pub mod qsl;
pub mod record;
pub mod rng;
pub mod run;
pub mod saturation;
pub mod search;
pub mod session;
pub mod settings;
pub mod share;
pub mod sut;
mod sync;
pub mod trace;
pub mod verdict;
