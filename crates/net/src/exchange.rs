//! What goes over the wire for one sample, whatever carries it.

use bytes::Bytes;

/// A request that is ready to be sent: made when its sample is loaded, before the clock runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: Method,
    /// Path and query below the endpoint's own path, such as `/v2/models/iris/infer`.
    pub path: String,
    /// Fields of this request; those of the connection (host, length, authorisation) are the
    /// client's. Names are in lower case.
    pub fields: Vec<(&'static str, String)>,
    /// What follows the head.
    pub body: Bytes,
}

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Metadata and health.
    Get,
    /// Everything else.
    Post,
}

impl Method {
    /// As it stands on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// What carries requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// One request at a time on a connection.
    Http1,
    /// Many streams on a connection.
    Http2,
}

/// Fields of a head, or of trailers, in the order of their arrival.
pub trait Fields {
    /// The first field of this name, which is in lower case.
    fn field(&self, name: &str) -> Option<&[u8]>;
}

/// As they come of `h2` and `hyper`.
impl Fields for http::HeaderMap {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(http::HeaderValue::as_bytes)
    }
}

/// As they come of `httparse`.
impl Fields for [httparse::Header<'_>] {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }
}
