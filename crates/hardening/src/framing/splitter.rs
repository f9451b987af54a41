//! A splitter of server-sent events that looks at the whole body at once.
//!
//! Source: HTML Living Standard, section 9.2.6. Dyno states two differences (`dyno_net::sse`): a byte
//! order mark may begin any line, and an event without its final empty line counts.

use super::OwnedEvent;

/// Returns the events of a body.
pub fn events_of(body: &[u8]) -> Vec<OwnedEvent> {
    let (mut events, mut name, mut data) = (Vec::new(), Vec::new(), Vec::<Vec<u8>>::new());
    let mut lines = lines_of(body);
    lines.push(Vec::new());
    for line in lines {
        let line = line.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(&line).to_vec();
        if line.is_empty() {
            if !data.is_empty() {
                events.push((name.clone(), data.join(&b'\n')));
            }
            (name, data) = (Vec::new(), Vec::new());
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (field, value) = match colon {
            Some(0) => continue,
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (&line[..], &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => data.push(value.to_vec()),
            b"event" => name = value.to_vec(),
            _ => {}
        }
    }
    events
}

/// Splits at CR LF, LF and CR.
fn lines_of(body: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    let mut at = 0;
    while at < body.len() {
        match body[at] {
            b'\r' if body.get(at + 1) == Some(&b'\n') => {
                at += 1;
                lines.push(Vec::new());
            }
            b'\r' | b'\n' => lines.push(Vec::new()),
            byte => lines.last_mut().expect("there is a line").push(byte),
        }
        at += 1;
    }
    lines
}
