//! A client of a few lines, which sees every byte.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Came {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| line.strip_prefix(name));
        Some(line?.strip_prefix(':')?.trim())
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A whole request, after which the connection ends.
pub fn request(method: &str, path: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{fields}\
         content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub fn get(address: SocketAddr, path: &str) -> Came {
    send(address, &request("GET", path, "", b""))
}

pub fn post(address: SocketAddr, path: &str, fields: &str, body: &[u8]) -> Came {
    send(address, &request("POST", path, fields, body))
}

pub fn send(address: SocketAddr, bytes: &[u8]) -> Came {
    let mut stream = connect(address);
    // A server that refuses may end before it has read everything.
    let _ = stream.write_all(bytes);
    came(&mut stream)
}

/// Everything until the connection ends.
pub fn came(stream: &mut TcpStream) -> Came {
    let mut bytes = Vec::new();
    // A reset after the answer takes nothing from it.
    let _ = stream.read_to_end(&mut bytes);
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let at = at.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = bytes[at + 4..].to_vec();
    if head.contains("transfer-encoding: chunked") {
        body = dechunked(&body);
    }
    Came { status, head, body }
}

fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("a chunk has a length");
        let length = std::str::from_utf8(&rest[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return out;
        }
        out.extend_from_slice(&rest[end + 2..][..length]);
        rest = &rest[end + 2 + length + 2..];
    }
}
