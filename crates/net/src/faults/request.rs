//! Parser of HTTP/1.1 requests, independent of the client's parsers.

use std::io::{self, Read as _};
use std::net::TcpStream;

/// A request with its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Such as `POST`.
    pub method: String,
    /// As it was sent.
    pub path: String,
    /// Names in lower case, with their values.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the value of the first field of this name, which is in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether the body contains this text.
    pub fn holds(&self, text: &str) -> bool {
        memchr::memmem::find(&self.body, text.as_bytes()).is_some()
    }

    /// Returns the first segment of the path.
    pub(super) fn first_segment(&self) -> &str {
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        path.split(['/', '?']).next().unwrap_or_default()
    }

    /// Parses the head without its empty line; `None` if it is invalid.
    fn of_head(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        Some(Self { method, path, fields: lines.filter_map(field).collect(), body: Vec::new() })
    }
}

/// Maximum bytes of a head.
const MOST_OF_HEAD: usize = 1 << 20;

/// Reader of the requests of a connection.
pub(super) struct Incoming<'a> {
    pub(super) stream: &'a TcpStream,
    buffer: Vec<u8>,
    /// Returns whether to continue after a read timeout of the socket.
    goes_on: &'a dyn Fn() -> bool,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(stream: &'a TcpStream, goes_on: &'a dyn Fn() -> bool) -> Self {
        Self { stream, buffer: Vec::new(), goes_on }
    }

    /// Returns the next request; `None` at the end of the connection or for invalid data.
    pub(super) fn next(&mut self) -> Option<Request> {
        let end = loop {
            match memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                Some(end) => break end,
                None if self.buffer.len() > MOST_OF_HEAD => return None,
                None => self.more()?,
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        let mut request = Request::of_head(&head)?;
        let length = request.field("content-length").map_or(Ok(0), str::parse).ok()?;
        while self.buffer.len() < length {
            self.more()?;
        }
        request.body = self.buffer.drain(..length).collect();
        Some(request)
    }

    /// Reads available bytes; `None` at the end of the connection.
    fn more(&mut self) -> Option<()> {
        let mut bytes = [0; 16 << 10];
        loop {
            match (&mut &*self.stream).read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => {
                    self.buffer.extend_from_slice(&bytes[..count]);
                    return Some(());
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if (self.goes_on)() => {}
                    _ => return None,
                },
            }
        }
    }
}
