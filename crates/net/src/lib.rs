//! Client, server and workers of inference systems over a network: clients load a server, a server
//! answers them, and workers share one load.
//!
//! A [`protocol::Protocol`] defines the request of each sample and the meaning of the bytes of its
//! answer; it uses no socket, clock or thread. [`client`] carries it over HTTP.
//!
//! ```
//! use std::sync::Arc;
//!
//! use dyno_net::ledger::AcceptedClasses;
//! use dyno_net::openai::{Input, LimitMember, OpenAi, Settings};
//! use dyno_net::protocol::Protocol;
//! use dyno_net::workload::{Prompt, Workload};
//!
//! let prompts = vec![Prompt::new(Input::Text("Once upon".into()))];
//! let workload = Arc::new(Workload { prompts, ..Workload::default() });
//! let settings = Settings {
//!     model: "story".into(),
//!     is_streaming: true,
//!     asks_usage: true,
//!     max_tokens: Some(8),
//!     limit_member: LimitMember::default(),
//!     others: serde_json::Map::new(),
//!     tokenizer: None,
//!     accepted: AcceptedClasses::default(),
//!     ..Settings::default()
//! };
//! let protocol = OpenAi::new(workload, settings);
//! assert!(protocol.request(0).path.ends_with("/completions"));
//!
//! let mut fields = http::HeaderMap::new();
//! fields.insert("content-type", http::HeaderValue::from_static("text/event-stream"));
//! let mut reader = protocol.reader();
//! reader.expect(0);
//! reader.begin(200, &fields)?;
//! let event = br#"data: {"choices":[{"index":0,"text":" a","finish_reason":"stop"}]}"#;
//! reader.data(event)?;
//! reader.data(b"\n\ndata: [DONE]\n\n")?;
//! let answer = reader.end(None)?;
//! assert_eq!((answer.data, answer.tokens), (&b" a"[..], 1));
//! # Ok::<(), dyno_net::trouble::Trouble>(())
//! ```
#![forbid(unsafe_code)]

pub mod ask;
mod base64;
pub mod client;
pub mod coding;
mod compressed;
pub mod endpoint;
pub mod exchange;
pub mod exposition;
pub mod faults;
pub mod grpc;
pub mod launch;
pub mod ledger;
pub mod oip;
pub mod openai;
mod percent;
pub mod protocol;
mod proxy;
pub mod raw;
mod reach;
pub mod scrape;
pub mod secrets;
pub mod serve;
pub mod server_metrics;
pub mod signature;
pub mod sink;
pub mod sse;
pub mod tls;
pub mod tokens;
pub mod trouble;
pub mod worker;
pub mod workload;
