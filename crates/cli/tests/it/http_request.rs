//! Reader of HTTP/1.1 requests for the servers of tests, independent of Dyno's own parser.

use std::io::BufRead;

/// Reads a request; returns its head and its body, or `None` at the end of the connection.
pub fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return None;
        }
        let line = head[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Returns the target of a request, with its query.
pub fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}
