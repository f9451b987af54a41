//! Systems under test: adapters from the load generator to something that
//! computes, or that pretends to.
//!
//! In real time, an [`engine::Engine`] computes answers on the thread that
//! calls it: [`digits::DigitsPerceptron`] (the embedded default), [`onnx`]
//! with its `tract` variant behind the feature of that name, and [`rnn`], recurrent networks
//! on teams of threads. [`engine::Inline`] runs an
//! engine on the issuing thread, [`batch::RealTime`] on a pool of workers
//! behind a dynamic batcher; both are a
//! [`SystemUnderTest`](dyno_loadgen::sut::SystemUnderTest).
//!
//! An [`infer::Infer`] is a model that is asked by value, as servers are.
//!
//! In virtual time, [`model::ServiceModel`] is a queue with servers,
//! [`replay::Replay`] repeats an earlier run, [`cheat::Cheat`] is what audits are
//! for, and [`batch::Simulated`] puts the
//! same batcher in front of either.
#![forbid(unsafe_code)]

pub mod batch;
pub mod cheat;
pub mod cores;
pub mod digits;
pub mod engine;
pub mod infer;
pub mod interleaved;
pub mod model;
pub mod npu;
pub mod null;
pub mod onnx;
pub mod replay;
pub mod rnn;
pub mod tensors;
pub mod top1;
