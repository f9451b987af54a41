//! Searches for the highest load that keeps several limits at once, by many short runs and a
//! full run that confirms the result. [`dyno_loadgen::search`] has the algorithm; this module
//! plays the runs and writes the state.
//!
//! ```
//! use dyno_experiment::options::CommandLine;
//! use dyno_experiment::quiet;
//! use dyno_experiment::search::{Job, SearchRequest, prepare};
//!
//! let mut line = CommandLine::default();
//! line.give("system", "model:fixed=1ms");
//! let request = SearchRequest {
//!     limits: vec!["p99<=5ms".into()],
//!     goodput: Vec::new(),
//!     load: None,
//!     from: Some(100.0), // queries/s
//!     to: None,
//!     tolerance: 0.05,
//!     short: None,
//!     max_time: None,
//!     confirm: true,
//!     repeats: 3,
//! };
//! let prepared = prepare(&line, &request, &quiet())?;
//! let job = Job::new(prepared, &request, None)?.expect("no probe that could be interrupted");
//! assert!(job.is_virtual());
//! assert_eq!(job.rules().from, 100.0);
//! # Ok::<(), dyno_experiment::Failure>(())
//! ```

mod disturbed;
mod job;
mod line;
mod request;

pub use job::{Job, prepare};
pub use request::SearchRequest;
