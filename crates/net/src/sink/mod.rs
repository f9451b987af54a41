//! Servers that answer at once with prepared content, for measurements of clients.

mod http1;
mod http2;

pub use http1::Http1;
pub use http2::{Http2, StreamedAnswer};
