//! Requests and header fields, independent of the transport.

use bytes::Bytes;

/// A request that is ready to be sent, created when its sample is loaded, before the clock runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: Method,
    /// Path and query below the endpoint's own path, such as `/v2/models/iris/infer`.
    pub path: String,
    /// Fields of this request; fields of the connection (host, length, authorization) are added by
    /// the client. Names are in lower case.
    pub fields: Vec<(&'static str, String)>,
    /// Body.
    pub body: Bytes,
}

/// HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Metadata and health.
    Get,
    /// Everything else.
    Post,
}

impl Method {
    /// Name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// HTTP version of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// One request at a time on a connection.
    #[default]
    Http1,
    /// Many streams on a connection.
    Http2,
}

/// Fields of a head or of trailers, in the order of their arrival.
pub trait Fields {
    /// Returns the first field of this name, which is in lower case.
    fn field(&self, name: &str) -> Option<&[u8]>;
}

/// Fields from `h2` and `hyper`.
impl Fields for http::HeaderMap {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(http::HeaderValue::as_bytes)
    }
}

/// Fields from `httparse`.
impl Fields for [httparse::Header<'_>] {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }
}
