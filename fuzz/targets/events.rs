//! Server-sent events, cut anywhere: the same events as in one piece.
#![no_main]

use dyno_net::sse::{Event, Parser};
use libfuzzer_sys::fuzz_target;

fn events<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut parser, mut found) = (Parser::default(), Vec::new());
    let mut take = |event: Event<'_>| found.push((event.name.to_vec(), event.data.to_vec()));
    for piece in pieces {
        parser.push(piece, &mut take).expect("it is short");
    }
    parser.finish(&mut take).expect("it is short");
    found
}

fuzz_target!(|bytes: &[u8]| {
    let (cut, stream) = bytes.split_first().unwrap_or((&1, bytes));
    let whole = events(std::iter::once(stream));
    assert_eq!(events(stream.chunks(usize::from(*cut).max(1))), whole);
    assert_eq!(events(stream.chunks(1)), whole);
});
