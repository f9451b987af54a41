//! Benchmark tasks: a problem with a model, data, the preparation of samples, the conversion of
//! outputs to answers, and a figure of quality with its target.
//!
//! A [`card`] describes a task. [`files::Files`] finds and verifies its files, and
//! [`open::open`] turns both into a model, a sample library and a judge.
//!
//! | modules | content |
//! | --- | --- |
//! | [`card`], [`system`] | descriptions of tasks |
//! | [`package`], [`cache`], [`files`], [`archive`] | files of tasks |
//! | [`data`], [`image`], [`subgraph`] | samples |
//! | [`graphs`], [`weights`], [`trained`], [`shape`] | models |
//! | [`answers`], [`pipelines`] | answers |
//! | [`judge`], [`features`], [`encoder`] | references and quality |
//! | [`fit`], [`open`] | set-up of a task |
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use dyno_task::cache::Cache;
//! use dyno_task::files::{Files, OpenError};
//! use dyno_task::{card, open};
//!
//! let card = card::named("mnist").expect("a task of Dyno");
//! assert_eq!(card.problem, "image classification");
//! // Nothing has been fetched into this folder.
//! let cache = Cache::at("no/such/folder");
//! let files = Files::new(card, &cache, BTreeMap::new()).unwrap();
//! let error = open::open(&files).unwrap_err();
//! assert!(matches!(error, OpenError::Several(_) | OpenError::Fetch { .. }));
//! ```
#![forbid(unsafe_code)]

pub mod answers;
pub mod archive;
pub mod cache;
pub mod card;
pub mod data;
pub mod encoder;
pub mod features;
pub mod files;
pub mod fit;
pub mod graphs;
pub mod image;
pub mod judge;
mod networks;
pub mod open;
pub mod package;
pub mod pipelines;
mod sentences;
pub mod shape;
pub mod subgraph;
pub mod system;
pub mod trained;
pub mod weights;
