//! Requests and header fields, independent of the transport.

use std::borrow::Cow;

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

    /// Returns the values of all fields of this name, which is in lower case, as one list (RFC 9110,
    /// section 5.3).
    fn list(&self, name: &str) -> Option<Cow<'_, [u8]>>;
}

/// Returns values as one list.
fn joined<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut list = Cow::Borrowed(values.next()?);
    for value in values {
        let list = list.to_mut();
        list.push(b',');
        list.extend_from_slice(value);
    }
    Some(list)
}

/// Fields from `h2` and `hyper`.
impl Fields for http::HeaderMap {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(http::HeaderValue::as_bytes)
    }

    fn list(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        joined(self.get_all(name).iter().map(http::HeaderValue::as_bytes))
    }
}

/// Fields from `httparse`.
impl Fields for [httparse::Header<'_>] {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }

    fn list(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let named = self.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        joined(named.map(|header| header.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_name_are_one_list() {
        let header = |name, value| httparse::Header { name, value };
        let headers = [header("Vary", &b"a"[..]), header("x", b"d"), header("vary", b"b, c")];
        let mut map = http::HeaderMap::new();
        for header in &headers {
            let value = http::HeaderValue::from_bytes(header.value).unwrap();
            map.append(header.name.parse::<http::HeaderName>().unwrap(), value);
        }
        for (name, expected) in
            [("vary", Some(&b"a,b, c"[..])), ("x", Some(&b"d"[..])), ("y", None)]
        {
            assert_eq!(headers[..].list(name).as_deref(), expected, "{name}");
            assert_eq!(map.list(name).as_deref(), expected, "{name}");
        }
    }
}
