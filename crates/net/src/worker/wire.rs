//! The messages between a coordinator and its workers, and how they are framed.
//!
//! A frame is a length (4 bytes, little-endian) and so many bytes of one [`Message`].

use std::fmt;
use std::io::{self, Read, Write};

use prost::Message as _;

/// Both sides must speak the same version. Their releases must be equal as well:
/// a plan is what the code that resolves it makes of the settings.
pub const PROTOCOL: u32 = 2;

/// Most bytes of a frame once a worker has proved that it knows the token.
pub const MOST: u32 = 8 << 20;

/// Most bytes of a frame before that.
pub const MOST_OF_STRANGERS: u32 = 4 << 10;

/// Bytes of a column in one frame.
pub const CHUNK: usize = 1 << 20;

/// One message, in either direction.
#[derive(Clone, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "the names of its messages say it")]
pub struct Message {
    #[prost(
        oneof = "Body",
        tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21"
    )]
    pub body: Option<Body>,
}

/// What a message says.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    /// Worker: the first message.
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// Coordinator: proves that it knows the token, and asks for the same.
    #[prost(message, tag = "2")]
    Challenge(Challenge),
    /// Worker: HMAC-SHA256 of both nonces under the token.
    #[prost(bytes, tag = "3")]
    Proof(Vec<u8>),
    /// Coordinator: the worker is in.
    #[prost(message, tag = "4")]
    Welcome(Welcome),
    /// Either: why it will not go on.
    #[prost(string, tag = "5")]
    Refused(String),
    /// Coordinator: what time is it? Also says that it is alive.
    #[prost(uint64, tag = "6")]
    Ping(u64),
    /// Worker: its time.
    #[prost(message, tag = "7")]
    Pong(Pong),
    /// Worker: how far its run is. Also says that it is alive.
    #[prost(message, tag = "8")]
    Beat(Beat),
    /// Coordinator: the system to be measured, as options with their values.
    #[prost(message, tag = "9")]
    SetUp(SetUp),
    /// Worker: it is there.
    #[prost(message, tag = "10")]
    Ready(Ready),
    /// Coordinator: a test begins; start the system for it.
    #[prost(message, tag = "11")]
    Begin(Begin),
    /// Coordinator: load these samples.
    #[prost(message, tag = "12")]
    Load(Samples),
    /// Coordinator: unload them.
    #[prost(message, tag = "13")]
    Unload(Samples),
    /// Worker: the order was carried out.
    #[prost(bool, tag = "14")]
    Done(bool),
    /// Coordinator: a run.
    #[prost(message, tag = "15")]
    Play(Play),
    /// Worker: the trace is drawn and memory is there.
    #[prost(bool, tag = "16")]
    Armed(bool),
    /// Coordinator: the run begins at this time of the worker's clock, ns.
    #[prost(uint64, tag = "17")]
    Start(u64),
    /// Coordinator: end the run.
    #[prost(bool, tag = "18")]
    Abort(bool),
    /// Worker: a piece of the record.
    #[prost(message, tag = "19")]
    Chunk(Chunk),
    /// Worker: the record is complete.
    #[prost(message, tag = "20")]
    Played(Played),
    /// Coordinator: there is nothing more to do.
    #[prost(bool, tag = "21")]
    Bye(bool),
}

/// Who joins.
#[derive(Clone, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Hello {
    #[prost(uint32, tag = "1")]
    pub protocol: u32,
    #[prost(string, tag = "2")]
    pub release: String,
    #[prost(bytes = "vec", tag = "3")]
    pub nonce: Vec<u8>,
    /// For people, such as `host-3, process 77`.
    #[prost(string, tag = "4")]
    pub name: String,
    /// Which of the workers it is, from 1, where whoever placed it says so; 0 if not.
    #[prost(uint32, tag = "5")]
    pub seat: u32,
}

/// The coordinator's proof, which the worker answers with its own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Challenge {
    /// Fresh for each connection.
    #[prost(bytes = "vec", tag = "1")]
    pub nonce: Vec<u8>,
    /// That the coordinator knows the token.
    #[prost(bytes = "vec", tag = "2")]
    pub proof: Vec<u8>,
    /// That the coordinator runs on the worker's machine; empty if it cannot prove that.
    #[prost(bytes = "vec", tag = "3")]
    pub machine: Vec<u8>,
}

/// A worker's place.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Welcome {
    /// From 0.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Workers in all.
    #[prost(uint32, tag = "2")]
    pub of: u32,
    /// A peer that sends nothing for this long is lost, ns.
    #[prost(uint64, tag = "3")]
    pub silence: u64,
}

/// A worker's clock.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Pong {
    /// The coordinator's time in the ping.
    #[prost(uint64, tag = "1")]
    pub asked: u64,
    /// The worker's time.
    #[prost(uint64, tag = "2")]
    pub at: u64,
}

/// How far a worker's run is.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "named as those of a glance")]
pub struct Beat {
    #[prost(uint64, tag = "1")]
    pub now: u64,
    #[prost(uint64, tag = "2")]
    pub issued: u64,
    #[prost(uint64, tag = "3")]
    pub completed: u64,
}

/// An option or a setting, in the spelling that reads back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Pair {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// The system to be measured.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetUp {
    /// What it is made of.
    #[prost(message, repeated, tag = "1")]
    pub options: Vec<Pair>,
}

/// The system that a worker has set up.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Ready {
    #[prost(string, tag = "1")]
    pub system: String,
    #[prost(string, tag = "2")]
    pub library: String,
    #[prost(uint64, tag = "3")]
    pub total: u64,
    #[prost(uint64, tag = "4")]
    pub performance: u64,
}

/// A test.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Begin {
    /// By its name.
    #[prost(string, tag = "1")]
    pub scenario: String,
}

/// Samples, in load order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[expect(missing_docs, reason = "the name says it")]
pub struct Samples {
    #[prost(uint32, repeated, tag = "1")]
    pub samples: Vec<u32>,
}

/// A run.
#[derive(Clone, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "named as those of a job")]
pub struct Play {
    #[prost(message, repeated, tag = "1")]
    pub tenants: Vec<PlayTenant>,
    #[prost(bool, tag = "2")]
    pub accuracy: bool,
    #[prost(uint32, tag = "3")]
    pub epoch: u32,
}

/// One tenant of a run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PlayTenant {
    /// Every setting.
    #[prost(message, repeated, tag = "1")]
    pub settings: Vec<Pair>,
    /// The load that a search or a repetition is at, if it is another.
    #[prost(double, optional, tag = "2")]
    pub load: Option<f64>,
    /// What the plan must come to.
    #[prost(bytes = "vec", tag = "3")]
    pub plan_hash: Vec<u8>,
    /// The set that is loaded.
    #[prost(uint32, repeated, tag = "4")]
    pub set: Vec<u32>,
    /// Its length without padding.
    #[prost(uint64, tag = "5")]
    pub set_end: u64,
    /// Samples generated before.
    #[prost(uint64, tag = "6")]
    pub samples_before: u64,
}

/// A piece of one column of a record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Chunk {
    #[prost(uint32, tag = "1")]
    pub tenant: u32,
    #[prost(enumeration = "Column", tag = "2")]
    pub column: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub bytes: Vec<u8>,
}

/// The columns of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[expect(missing_docs, reason = "named as those of a record")]
pub enum Column {
    ScheduledAt = 0,
    IssuedAt = 1,
    ClientLag = 2,
    Indices = 3,
    CompletedAt = 4,
    FirstTokenAt = 5,
    Tokens = 6,
    Failed = 7,
    Responses = 8,
    /// No column: what the rig reports besides, in one piece.
    Report = 9,
}

/// What a worker says of its run once all columns are sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Played {
    /// Of each tenant.
    #[prost(message, repeated, tag = "1")]
    pub tenants: Vec<PlayedTenant>,
    /// What the driver could not do as asked.
    #[prost(string, optional, tag = "2")]
    pub error: Option<String>,
    /// How much later than asked the run began, ns.
    #[prost(uint64, tag = "3")]
    pub late: u64,
    /// How long it took, ns.
    #[prost(uint64, tag = "4")]
    pub lasted: u64,
    /// The failures that ended it before its time.
    #[prost(message, optional, tag = "20")]
    pub failing: Option<Failing>,
}

/// Failures that ended the run of a worker before its time.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Failing {
    /// Whose samples failed.
    #[prost(uint32, tag = "1")]
    pub tenant: u32,
    /// Whether the last answers were looked at, not the first.
    #[prost(bool, tag = "2")]
    pub is_last: bool,
    /// Answers that failed.
    #[prost(uint64, tag = "3")]
    pub failed: u64,
    /// Answers that were looked at.
    #[prost(uint64, tag = "4")]
    pub answers: u64,
    /// What the system said.
    #[prost(string, optional, tag = "5")]
    pub words: Option<String>,
}

/// What a worker says of one tenant.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlayedTenant {
    /// Which [end](dyno_loadgen::session::EndReason), in their order, and its numbers.
    #[prost(uint64, repeated, tag = "1")]
    pub ended: Vec<u64>,
    /// Queries, samples in each, duration.
    #[prost(uint64, repeated, tag = "2")]
    pub generated: Vec<u64>,
    /// Samples in each query of the share.
    #[prost(uint64, tag = "3")]
    pub samples_per_query: u64,
    /// The counts of misuse, in the order of their fields.
    #[prost(uint64, repeated, tag = "4")]
    pub misuse: Vec<u64>,
}

/// Why nothing more can be read from a peer.
#[derive(Debug)]
#[non_exhaustive]
pub enum WireError {
    /// It has ended the connection, between two frames.
    Closed,
    /// It has sent nothing for as long as the socket waits.
    Silent,
    /// The operating system's, the end of the connection within a frame included.
    Io(io::Error),
    /// A frame is longer than may be.
    TooLong {
        /// Bytes.
        bytes: u32,
        /// Bytes at most.
        most: u32,
    },
    /// A frame holds no message.
    Malformed,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Silent => f.write_str("nothing came for too long"),
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::TooLong { bytes, most } => {
                write!(f, "a message of {bytes} bytes came, and {most} are the most")
            }
            Self::Malformed => f.write_str("what came is no message of Dyno's workers"),
        }
    }
}

impl std::error::Error for WireError {}

/// Most characters of a peer's words that are shown.
const MOST_WORDS: usize = 1_000;

/// Returns the words of a peer without control characters, which a terminal would obey.
#[must_use]
pub fn plain(words: &str) -> String {
    words.chars().filter(|letter| !letter.is_control()).take(MOST_WORDS).collect()
}

/// Reads one message of at most `most` bytes.
///
/// # Errors
/// [`WireError`]; nothing more can be read then.
pub fn read(from: &mut impl Read, most: u32) -> Result<Body, WireError> {
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => WireError::Silent,
        _ => WireError::Io(error),
    };
    let mut length = [0; 4];
    let mut got = 0;
    while got < length.len() {
        match from.read(&mut length[got..]) {
            Ok(0) if got == 0 => return Err(WireError::Closed),
            Ok(0) => return Err(WireError::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
    let bytes = u32::from_le_bytes(length);
    if bytes > most {
        return Err(WireError::TooLong { bytes, most });
    }
    let mut frame = vec![0; bytes as usize];
    from.read_exact(&mut frame).map_err(broken)?;
    let message = Message::decode(&frame[..]).map_err(|_| WireError::Malformed)?;
    message.body.ok_or(WireError::Malformed)
}

/// Writes one message.
///
/// # Errors
/// The operating system's; a message that is longer than [`MOST`].
pub fn write(to: &mut impl Write, body: Body) -> io::Result<()> {
    let message = Message { body: Some(body) };
    let length = u32::try_from(message.encoded_len()).ok().filter(|&bytes| bytes <= MOST);
    let Some(length) = length else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    };
    let mut frame = Vec::with_capacity(4 + length as usize);
    frame.extend(length.to_le_bytes());
    message.encode(&mut frame).expect("a vector has room");
    to.write_all(&frame)
}
