//! Systems under test: adapters from the load generator to engines and to simulated systems.
//!
//! In real time, an [`engine::Engine`] computes answers on the calling thread:
//! [`digits::DigitsPerceptron`] (the embedded default), [`onnx`] (its `tract` variant needs the
//! feature of that name), and [`rnn`], which runs recurrent layers on teams of threads,
//! and `python`, which calls a function of Python in processes of its own.
//! [`engine::InlineSystem`] runs an engine on the issuing thread. [`batch::BatchingPool`] runs it
//! on a pool of workers behind a dynamic batcher. Both implement
//! [`SystemUnderTest`](dyno_loadgen::sut::SystemUnderTest).
//!
//! An [`infer::InferenceModel`] is a model whose samples come with the requests, as in a server.
//!
//! In virtual time, [`model::ServiceModel`] is a queue with servers, [`replay::Replay`] repeats a
//! recorded run, [`cheat::Cheat`] is a system that audits should reject, [`npu::NpuSystem`]
//! simulates accelerators, and [`batch::SimulatedBatcher`] puts the dynamic batcher in front of
//! another simulated system.
//!
//! ```
//! use std::sync::Arc;
//!
//! use dyno_loadgen::drive::real::RealTime;
//! use dyno_loadgen::plan::{Library, Plan};
//! use dyno_loadgen::run::{RecordRetention, Tenant, run};
//! use dyno_loadgen::settings::{TestMode, TestSettings};
//! use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};
//! use dyno_sut::engine::InlineSystem;
//!
//! let settings = TestSettings { mode: TestMode::AccuracyOnly, ..TestSettings::default() };
//! let plan = Plan::resolve(&settings, Library { total: 540, performance: 540 })?;
//! let library = &DigitsLibrary;
//! let tenant = Tenant { settings: settings.into(), plan, library, messages: Vec::new() };
//! let system = InlineSystem::new(DigitsPerceptron::new());
//! let mut driver = RealTime::new(Arc::new(system));
//! let logs = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| ());
//! let record = &logs[0].runs().next().expect("one run").record;
//! let index = |sequence: u64| record.indices[sequence as usize];
//! let score = digits::score(record.responses.iter().map(|r| (index(r.sequence), r.data)));
//! assert_eq!((score.correct, score.total), (519, 540));
//! # Ok::<(), dyno_loadgen::plan::SettingsErrors>(())
//! ```
#![forbid(unsafe_code)]

pub mod batch;
pub mod cheat;
pub mod cores;
pub mod digits;
pub mod engine;
mod idle;
pub mod infer;
pub mod interleaved;
pub mod model;
pub mod npu;
pub mod null;
pub mod onnx;
pub mod process_group;
#[cfg(unix)]
pub mod python;
pub mod replay;
pub mod rnn;
pub mod tensors;
pub mod top1;
