//! Answers of HTTP/1 servers, split at any byte, and compressed bodies.
#![no_main]

use dyno_net::client::{Framing, Part};
use dyno_net::coding::Coding;
use dyno_net::exchange::Fields;
use libfuzzer_sys::fuzz_target;

/// Maximum bytes of a body.
const MOST: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, rest)) = bytes.split_first() else { return };
    let cut = usize::from(*cut) % (rest.len() + 1);
    let whole = parts(&[rest]);
    let (first, second) = rest.split_at(cut);
    // What a connection carries does not depend on how reads cut it.
    assert_eq!(whole, parts(&[first, second]));
    for coding in [Coding::Gzip, Coding::Deflate] {
        match coding.decompressed(rest, MOST) {
            Ok(content) => assert!(content.len() <= MOST),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});

/// Returns status and body of each answer, and whether the connection was rejected.
fn parts(pieces: &[&[u8]]) -> (Vec<(u16, Vec<u8>)>, bool) {
    let (mut framing, mut answers) = (Framing::new(), Vec::new());
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let mut head = None;
            let next = framing.next(&mut rest, |status, fields: &dyn Fields| {
                let _ = fields.field("content-type");
                head = Some(status);
                Ok(())
            });
            answers.extend(head.map(|status| (status, Vec::new())));
            match next {
                Ok(None) => break,
                Ok(Some(Part::Head)) => {}
                Ok(Some(Part::Data(data))) => {
                    answers.last_mut().expect("a head came before").1.extend_from_slice(data);
                }
                Ok(Some(Part::End)) => framing.restart(),
                // What was read of the rejected answer depends on the reads.
                Err(_) => {
                    answers.pop();
                    return (answers, true);
                }
            }
        }
    }
    (answers, false)
}
