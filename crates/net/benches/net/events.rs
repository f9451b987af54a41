//! Parsing speed of server-sent events, beside a typical parser of clients that splits text into
//! lines and joins them to events.

use dyno_loadgen::clock::Clock;
use dyno_net::sse::Parser;

use crate::{Better, Rounds};

pub const NAME: &str = "net.sse_gb_per_s";

/// Bytes of one read from a socket.
const PIECE: usize = 16 << 10;

/// A stream as servers of large language models send it.
fn stream(bytes: usize) -> Vec<u8> {
    let mut stream = Vec::with_capacity(bytes + 512);
    for token in 0_u64.. {
        if stream.len() >= bytes {
            break;
        }
        // Words are of different lengths.
        let word = &"extraordinarily"[..1 + (token * 7 % 15) as usize];
        stream.extend_from_slice(
            format!(
                "data: {{\"id\":\"chatcmpl-8a1f0c\",\"object\":\"chat.completion.chunk\",\"created\":1795223775,\
                 \"model\":\"some-model-7b\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" {word}\"}},\
                 \"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
            )
            .as_bytes(),
        );
    }
    stream
}

/// Number of events and bytes of data in a stream.
type Sums = (usize, usize);

fn ours(stream: &[u8]) -> Sums {
    let (mut parser, mut sums) = (Parser::default(), (0, 0));
    for piece in stream.chunks(PIECE) {
        let push = parser.push(piece, |event| sums = (sums.0 + 1, sums.1 + event.data.len()));
        push.expect("no event is too long");
    }
    sums
}

fn by_lines(stream: &[u8]) -> Sums {
    let (mut buffer, mut event, mut sums) = (String::new(), String::new(), (0, 0));
    for piece in stream.chunks(PIECE) {
        buffer.push_str(std::str::from_utf8(piece).expect("the stream is ASCII"));
        while let Some(end) = buffer.find('\n') {
            let line: String = buffer.drain(..=end).collect();
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                sums = (sums.0 + 1, sums.1 + event.len());
                event.clear();
            } else if let Some(data) = line.strip_prefix("data:") {
                event.push_str(data.strip_prefix(' ').unwrap_or(data));
            }
        }
    }
    sums
}

pub fn measure(rounds: &Rounds) {
    eprintln!("{NAME} ...");
    let stream = stream(rounds.many(512 << 20) as usize);
    let share = &stream[..stream.len() / 16];
    let gigabytes_per_s = |stream: &[u8], read: fn(&[u8]) -> Sums| {
        let clock = Clock::start();
        let sums = read(stream);
        let spent = clock.now();
        assert!(sums.0 > 0 && sums.1 > 100 * sums.0, "events were read");
        Some(stream.len() as f64 / spent as f64)
    };
    assert_eq!(ours(share), by_lines(share));
    let unit = "GB/s on one core; the peer reads line by line into strings";
    rounds.figure(
        (NAME, unit),
        Better::Higher,
        || gigabytes_per_s(&stream, ours),
        || gigabytes_per_s(share, by_lines),
    );
}
