//! Times at which the frames of each stream were read from the socket.
//!
//! The library reads many frames at a time and hands them to tasks that run later. To keep that
//! delay out of the times, this module follows the frames as well: their heads have a fixed form
//! (RFC 9113, section 4.1), and it records when the last byte of each was read.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dyno_loadgen::clock::Nanos;

/// Frame times of a connection. Only the thread of its lane uses it.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<Frames>);

#[derive(Default)]
struct Frames {
    streams: HashMap<u32, Stream, BuildHasherDefault<StreamHasher>>,
    /// Head of the current frame, as far as received.
    head: [u8; HEAD],
    head_len: usize,
    /// Remaining bytes of the frame after its head.
    left: usize,
    /// Bytes of padding in the frame.
    padding: usize,
    /// Payload of the current frame of settings or of a window, as far as received.
    settings: Vec<u8>,
    /// Bytes by which the server has raised the window of the connection.
    raised: u64,
    /// Window of new streams in the settings of the server; `None` if they state none.
    initial_window: Option<u32>,
}

/// Data received for a stream and not taken. Its size matters: there may be a hundred thousand
/// streams, of which few have more than one frame.
#[derive(Default)]
struct Stream {
    /// First data frame: bytes not taken, and the time of its read.
    first: (u32, Nanos),
    /// Frames after the first.
    #[expect(clippy::box_collection, reason = "a pointer for each of very many streams")]
    others: Option<Box<VecDeque<(u32, Nanos)>>>,
    /// Time of the read of the frame that ended the stream; 0 before.
    ended_at: Nanos,
}

impl Stream {
    fn push(&mut self, len: u32, at: Nanos) {
        if self.first.0 == 0 {
            self.first = (len, at);
        } else {
            self.others.get_or_insert_default().push_back((len, at));
        }
    }

    /// Returns the bytes that were not taken.
    fn untaken(&self) -> u64 {
        let others = self.others.iter().flat_map(|others| others.iter());
        others.map(|(bytes, _)| u64::from(*bytes)).sum::<u64>() + u64::from(self.first.0)
    }

    /// Takes this many bytes. Returns when the last of them was read.
    fn take(&mut self, mut bytes: usize) -> Option<Nanos> {
        let mut read_at = None;
        while bytes > 0 && self.first.0 > 0 {
            let (left, at) = self.first;
            read_at = Some(at);
            match usize::try_from(left).unwrap_or(usize::MAX) {
                left if left > bytes => {
                    self.first.0 -= u32::try_from(bytes).expect("less than is left");
                    break;
                }
                left => bytes -= left,
            }
            let next = self.others.as_mut().and_then(|others| others.pop_front());
            self.first = next.unwrap_or_default();
            if next.is_none() {
                self.others = None;
            }
        }
        read_at
    }
}

/// Bytes of a frame's head.
const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
/// Window of a connection that is not raised (RFC 9113, section 6.9.2).
const CONNECTION_WINDOW: u64 = 65_535;
/// Number of the setting of the window of new streams, and bytes of a setting.
const INITIAL_WINDOW_SIZE: u16 = 4;
const SETTING: usize = 6;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;
/// The bits of a number of a stream or of a raise; the first one is reserved.
const STREAM_BITS: u32 = 0x7fff_ffff;

impl Arrivals {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to follow a stream.
    pub(super) fn follow(&self, stream: u32) {
        self.frames().streams.insert(stream, Stream::default());
    }

    /// Stops following a stream.
    pub(super) fn forget(&self, stream: u32) {
        self.frames().streams.remove(&stream);
    }

    /// Processes bytes that were read from the socket at `at`.
    pub(super) fn read(&self, bytes: &[u8], at: Nanos) {
        self.frames().read(bytes, at);
    }

    /// Takes this many data bytes of a stream. Returns when the frame that completed them was read;
    /// `None` if they were not followed.
    pub(super) fn take(&self, stream: u32, bytes: usize) -> Option<Nanos> {
        self.frames().streams.get_mut(&stream)?.take(bytes)
    }

    /// Returns the data bytes of a stream that were read from the socket and not taken.
    pub(super) fn untaken(&self, stream: u32) -> u64 {
        self.frames().streams.get(&stream).map_or(0, Stream::untaken)
    }

    /// Returns whether the settings of the server let no data pass on new streams.
    pub(super) fn has_no_window(&self) -> bool {
        self.frames().initial_window == Some(0)
    }

    /// Returns how many bytes of bodies the server has permitted on the connection so far.
    pub(super) fn permitted_bytes(&self) -> u64 {
        CONNECTION_WINDOW + self.frames().raised
    }

    /// Returns when the frame that ended a stream was read.
    pub(super) fn ended_at(&self, stream: u32) -> Option<Nanos> {
        Some(self.frames().streams.get(&stream)?.ended_at).filter(|&at| at > 0)
    }
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8], at: Nanos) {
        while !bytes.is_empty() {
            if self.head_len < HEAD {
                let n = bytes.len().min(HEAD - self.head_len);
                self.head[self.head_len..self.head_len + n].copy_from_slice(&bytes[..n]);
                self.head_len += n;
                bytes = &bytes[n..];
                if self.head_len < HEAD {
                    return;
                }
                self.left = self.len();
                self.padding = 0;
            } else {
                if self.is_padded() && self.left == self.len() {
                    // The first byte is the length of the padding after the data.
                    self.padding = 1 + usize::from(bytes[0]);
                }
                let n = bytes.len().min(self.left);
                if matches!(self.head[3], SETTINGS | WINDOW_UPDATE) {
                    self.settings.extend_from_slice(&bytes[..n]);
                }
                self.left -= n;
                bytes = &bytes[n..];
            }
            if self.left == 0 {
                self.note(at);
                self.head_len = 0;
            }
        }
    }

    fn len(&self) -> usize {
        let [a, b, c, ..] = self.head;
        u32::from_be_bytes([0, a, b, c]) as usize
    }

    fn is_padded(&self) -> bool {
        self.head[3] == DATA && self.head[4] & PADDED != 0
    }

    /// Records that the last byte of a frame was read.
    fn note(&mut self, at: Nanos) {
        let [_, _, _, kind, flags, id @ ..] = self.head;
        if kind == SETTINGS {
            for setting in self.settings.chunks_exact(SETTING) {
                let [a, b, value @ ..] = setting else { continue };
                if u16::from_be_bytes([*a, *b]) == INITIAL_WINDOW_SIZE {
                    let value = value.try_into().expect("a setting has four bytes of value");
                    self.initial_window = Some(u32::from_be_bytes(value));
                }
            }
        }
        if kind == WINDOW_UPDATE
            && u32::from_be_bytes(id) & STREAM_BITS == 0
            && let Ok(raise) = <[u8; 4]>::try_from(&self.settings[..])
        {
            self.raised += u64::from(u32::from_be_bytes(raise) & STREAM_BITS);
        }
        self.settings.clear();
        if kind != DATA && kind != HEADERS {
            return;
        }
        let len = u32::try_from(self.len().saturating_sub(self.padding)).unwrap_or(u32::MAX);
        let Some(stream) = self.streams.get_mut(&(u32::from_be_bytes(id) & STREAM_BITS)) else {
            return;
        };
        if kind == DATA && len > 0 {
            stream.push(len, at);
        }
        if flags & END_STREAM != 0 {
            stream.ended_at = at;
        }
    }
}

/// Hash of stream numbers, which are small and odd: a product with a large odd number.
#[derive(Default)]
struct StreamHasher(u64);

impl Hasher for StreamHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend((stream | 0x8000_0000).to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn wire() -> Vec<u8> {
        [
            frame(4, 0, 0, &[0; 12]),
            frame(HEADERS, 4, 1, b"head"),
            frame(DATA, 0, 1, b"abc"),
            frame(DATA, PADDED, 3, b"\x02de--"),
            frame(DATA, 0, 5, b"of a stream that is not followed"),
            frame(DATA, END_STREAM, 3, b"fgh"),
            frame(DATA, 0, 1, b""),
            frame(HEADERS, END_STREAM | 4, 1, b"trailers"),
        ]
        .concat()
    }

    #[test]
    fn settings_without_a_window_are_noticed_wherever_reads_end() {
        let setting = |id: u8, value: u32| [&[0, id][..], &value.to_be_bytes()].concat();
        for (payload, has_none) in [
            (Vec::new(), false),
            ([setting(3, 0), setting(4, 0)].concat(), true),
            ([setting(4, 65_535), setting(5, 0)].concat(), false),
        ] {
            for piece in [1, 4, 50] {
                let arrivals = Arrivals::default();
                frame(SETTINGS, 0, 0, &payload).chunks(piece).for_each(|b| arrivals.read(b, 1));
                frame(SETTINGS, 1, 0, &[]).chunks(piece).for_each(|b| arrivals.read(b, 1));
                assert_eq!(arrivals.has_no_window(), has_none, "{payload:?}");
            }
        }
    }

    #[test]
    fn raises_of_the_connection_are_added_up_wherever_reads_end() {
        let raise = |stream: u32, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
        let wire = [raise(0, 1_000), raise(1, 70_000), raise(0, 0x8000_0005), wire()].concat();
        for piece in [1, 4, 7, 500] {
            let arrivals = Arrivals::default();
            assert_eq!(arrivals.permitted_bytes(), 65_535);
            wire.chunks(piece).for_each(|bytes| arrivals.read(bytes, 1));
            assert_eq!(arrivals.permitted_bytes(), 65_535 + 1_005);
        }
    }

    #[test]
    fn data_has_the_time_of_the_read_that_completed_its_frame_wherever_reads_end() {
        let wire = wire();
        // By hand: the end of each frame in the wire.
        let ends = [21, 34, 46, 60, 101, 113, 122, 139];
        assert_eq!(wire.len(), ends[7]);
        for piece in [1, 2, 3, 5, 7, 11, 13, 50, 139] {
            let arrivals = Arrivals::default();
            [1, 3, 7].into_iter().for_each(|stream| arrivals.follow(stream));
            for (number, bytes) in wire.chunks(piece).enumerate() {
                arrivals.read(bytes, 1 + number as u64);
            }
            // The number of the piece that holds the last byte of a frame.
            let at = |frame: usize| Some(1 + (ends[frame] as u64 - 1) / piece as u64);
            assert_eq!((arrivals.untaken(1), arrivals.untaken(3)), (3, 5));
            assert_eq!((arrivals.take(1, 2), arrivals.untaken(1)), (at(2), 1));
            assert_eq!((arrivals.take(1, 1), arrivals.untaken(1)), (at(2), 0));
            assert_eq!((arrivals.take(3, 5), arrivals.take(3, 1)), (at(5), None));
            assert_eq!((arrivals.ended_at(3), arrivals.ended_at(1)), (at(5), at(7)));
            assert_eq!((arrivals.take(5, 1), arrivals.ended_at(7)), (None, None));
            arrivals.forget(1);
            assert_eq!(arrivals.ended_at(1), None);
        }
    }
}
