//! Servers that answer at once, with what was prepared: what is measured with one is the
//! client.

mod http1;
mod http2;

pub use http1::Http1;
pub use http2::{Http2, Streamed};
