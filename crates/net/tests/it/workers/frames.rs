//! Frames: whatever bytes come, a message or an error.

use std::io::Read;

use dyno_net::worker::wire::{self, Body, Hello, MOST, Pong, WireError};
use proptest::prelude::*;

/// Hands out bytes in pieces of these sizes.
struct Pieces<'a>(&'a [u8], Vec<usize>);

impl Read for Pieces<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.pop().unwrap_or(1).max(1).min(to.len()).min(self.0.len());
        to[..most].copy_from_slice(&self.0[..most]);
        self.0 = &self.0[most..];
        Ok(most)
    }
}

fn hello() -> Body {
    Body::Hello(Hello { protocol: 1, release: "x".into(), name: "n".into(), ..Hello::default() })
}

fn write(to: &mut Vec<u8>, body: Body) {
    to.extend(wire::frame(body).unwrap());
}

/// What was read says the same when it is sent on.
fn goes_on(body: &Body) -> bool {
    let mut bytes = Vec::new();
    write(&mut bytes, body.clone());
    wire::read(&mut &bytes[..], MOST).unwrap() == *body
}

proptest! {
    #[test]
    fn frames_arrive_however_they_are_cut(
        pings in prop::collection::vec(any::<u64>(), 0..20),
        pieces in prop::collection::vec(0_usize..9, 0..200),
    ) {
        let mut bytes = Vec::new();
        for &at in &pings {
            write(&mut bytes, Body::Ping(at));
            write(&mut bytes, Body::Pong(Pong { asked: at, at: !at }));
        }
        let mut from = Pieces(&bytes, pieces);
        for &at in &pings {
            prop_assert_eq!(wire::read(&mut from, MOST).unwrap(), Body::Ping(at));
            let pong = Body::Pong(Pong { asked: at, at: !at });
            prop_assert_eq!(wire::read(&mut from, MOST).unwrap(), pong);
        }
        prop_assert!(matches!(wire::read(&mut from, MOST), Err(WireError::Closed)));
    }

    #[test]
    fn any_bytes_are_messages_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut from = &bytes[..];
        while let Ok(body) = wire::read(&mut from, 100) {
            prop_assert!(goes_on(&body));
        }
    }

    #[test]
    fn a_damaged_frame_is_a_message_or_an_error(at in any::<prop::sample::Index>(), to: u8) {
        let mut bytes = Vec::new();
        write(&mut bytes, hello());
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(body) = wire::read(&mut &bytes[..], MOST) {
            prop_assert!(goes_on(&body));
        }
    }
}

#[test]
fn a_frame_longer_than_may_be_is_not_read() {
    let bytes = [0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    let error = wire::read(&mut &bytes[..], MOST).unwrap_err();
    assert!(matches!(error, WireError::TooLong { bytes: u32::MAX, most: MOST }));
    let mut frame = Vec::new();
    write(&mut frame, hello());
    frame.pop();
    assert!(matches!(wire::read(&mut &frame[..], MOST), Err(WireError::Io(_))));
}
