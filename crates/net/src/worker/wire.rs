//! Messages between a coordinator and its workers, and their framing.
//!
//! A frame is a length (4 bytes, little-endian) and this many bytes of one [`Message`].

use std::io::{self, Read};

use dyno_loadgen::message::is_control;
use prost::Message as _;

use super::channel::Channel;

/// Version of the protocol, equal on both sides. Their releases must be equal as well, because a
/// plan depends on the code that resolves it.
pub const PROTOCOL: u32 = 4;

/// Maximum bytes of a frame once a worker has proved that it knows the token. A set of 13 million
/// samples fits, because a sample takes at most 5 bytes.
pub const MOST: u32 = 64 << 20;

/// Maximum bytes of a frame before that.
pub(crate) const MOST_OF_STRANGERS: u32 = 4 << 10;

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

/// Content of a message.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    /// Worker: the first message.
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// Coordinator: proves that it knows the token, and requests the worker's proof.
    #[prost(message, tag = "2")]
    Challenge(Challenge),
    /// Worker: HMAC-SHA256 of both nonces and the connection's binding under the token.
    #[prost(bytes, tag = "3")]
    Proof(Vec<u8>),
    /// Coordinator: the worker has joined.
    #[prost(message, tag = "4")]
    Welcome(Welcome),
    /// Either side: why it leaves.
    #[prost(string, tag = "5")]
    Refused(String),
    /// Coordinator: requests the time. Also a heartbeat.
    #[prost(uint64, tag = "6")]
    Ping(u64),
    /// Worker: its time.
    #[prost(message, tag = "7")]
    Pong(Pong),
    /// Worker: progress of its run. Also a heartbeat.
    #[prost(message, tag = "8")]
    Beat(Beat),
    /// Coordinator: the system to measure, as options with their values.
    #[prost(message, tag = "9")]
    SetUp(SetUp),
    /// Worker: the system is set up.
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
    /// Worker: the order was executed.
    #[prost(bool, tag = "14")]
    Done(bool),
    /// Coordinator: execute a run.
    #[prost(message, tag = "15")]
    Play(Play),
    /// Worker: the trace is drawn and memory is allocated.
    #[prost(bool, tag = "16")]
    Armed(bool),
    /// Coordinator: the run begins at this time of the worker's clock, in ns.
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
    Played(PlayReport),
    /// Coordinator: there are no more orders.
    #[prost(bool, tag = "21")]
    Bye(bool),
}

/// Identity of a joining worker.
#[derive(Clone, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Hello {
    #[prost(uint32, tag = "1")]
    pub protocol: u32,
    #[prost(string, tag = "2")]
    pub release: String,
    #[prost(bytes = "vec", tag = "3")]
    pub nonce: Vec<u8>,
    /// Display name, such as `host-3, process 77`.
    #[prost(string, tag = "4")]
    pub name: String,
    /// Requested seat, from 1, if the placing engine sets it; otherwise 0.
    #[prost(uint32, tag = "5")]
    pub seat: u32,
}

/// Proof of the coordinator, which the worker answers with its own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Challenge {
    /// Fresh for each connection.
    #[prost(bytes = "vec", tag = "1")]
    pub nonce: Vec<u8>,
    /// Proof that the coordinator knows the token.
    #[prost(bytes = "vec", tag = "2")]
    pub proof: Vec<u8>,
    /// Proof that the coordinator runs on the worker's machine; empty if it has none.
    #[prost(bytes = "vec", tag = "3")]
    pub machine: Vec<u8>,
}

/// Seat of a worker.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Welcome {
    /// Index, from 0.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Number of workers.
    #[prost(uint32, tag = "2")]
    pub of: u32,
    /// Time without a message after which a peer is lost, in ns.
    #[prost(uint64, tag = "3")]
    pub silence: u64,
}

/// Time of a worker's clock.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Pong {
    /// Time of the coordinator in the ping.
    #[prost(uint64, tag = "1")]
    pub asked: u64,
    /// Time of the worker.
    #[prost(uint64, tag = "2")]
    pub at: u64,
}

/// Progress of a worker's run.
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

/// An option or a setting, in a spelling that can be parsed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Pair {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// The system to measure.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetUp {
    /// Its options.
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

/// Start of a test.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Begin {
    /// Name of the scenario.
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

/// A run to execute.
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
    /// All settings.
    #[prost(message, repeated, tag = "1")]
    pub settings: Vec<Pair>,
    /// Load of a search or a repetition, if it differs from the settings.
    #[prost(double, optional, tag = "2")]
    pub load: Option<f64>,
    /// Hash that the plan must have.
    #[prost(bytes = "vec", tag = "3")]
    pub plan_hash: Vec<u8>,
    /// The loaded set.
    #[prost(uint32, repeated, tag = "4")]
    pub set: Vec<u32>,
    /// Its length without padding.
    #[prost(uint64, tag = "5")]
    pub set_end: u64,
    /// Number of samples generated before.
    #[prost(uint64, tag = "6")]
    pub samples_before: u64,
    /// Length of the ramp, ns; 0 without one.
    #[prost(uint64, tag = "7")]
    pub ramp: u64,
    /// Whether the plan plays the sessions of the system.
    #[prost(bool, tag = "8")]
    pub has_sessions: bool,
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
    /// Not a column: the report of the rig, in one piece.
    Report = 9,
    /// Session, number and turns of each query that is a turn, and whether its task goes on.
    Turns = 10,
    /// When each query that is a turn could be issued at the earliest.
    ReadyAt = 11,
    /// Samples whose times hold not all of their tokens, with the number of these.
    TimedTokens = 12,
}

/// Report of a worker about its run, sent after all columns.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PlayReport {
    /// Reports by tenant.
    #[prost(message, repeated, tag = "1")]
    pub tenants: Vec<TenantReport>,
    /// Error of the driver.
    #[prost(string, optional, tag = "2")]
    pub error: Option<String>,
    /// Delay of the start of the run, in ns.
    #[prost(uint64, tag = "3")]
    pub late: u64,
    /// Duration of the run, in ns.
    #[prost(uint64, tag = "4")]
    pub lasted: u64,
    /// Failures that ended the run early.
    #[prost(message, optional, tag = "20")]
    pub failing: Option<FailingWindow>,
}

/// Failures that ended the run of a worker early.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FailingWindow {
    /// Tenant of the failed samples.
    #[prost(uint32, tag = "1")]
    pub tenant: u32,
    /// Whether the last answers were examined instead of the first.
    #[prost(bool, tag = "2")]
    pub is_last: bool,
    /// Number of failed answers.
    #[prost(uint64, tag = "3")]
    pub failed: u64,
    /// Number of examined answers.
    #[prost(uint64, tag = "4")]
    pub answers: u64,
    /// Message of the system.
    #[prost(string, optional, tag = "5")]
    pub words: Option<String>,
}

/// Report of a worker about one tenant.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TenantReport {
    /// Index of the [end](dyno_loadgen::session::EndReason) in declaration order, and its numbers.
    #[prost(uint64, repeated, tag = "1")]
    pub ended: Vec<u64>,
    /// Queries, samples in each, duration.
    #[prost(uint64, repeated, tag = "2")]
    pub generated: Vec<u64>,
    /// Samples in each query of the share.
    #[prost(uint64, tag = "3")]
    pub samples_per_query: u64,
    /// Counts of misuse, in the order of their fields.
    #[prost(uint64, repeated, tag = "4")]
    pub misuse: Vec<u64>,
    /// Numbers of the sessions besides their columns, in the order of their fields; empty without
    /// sessions.
    #[prost(uint64, repeated, tag = "5")]
    pub sessions: Vec<u64>,
}

/// Reason why no more messages can be read from a peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The peer closed the connection between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The peer sent nothing within the read timeout of the socket.
    #[error("nothing arrived for too long")]
    Silent,
    /// Error of the operating system, or the end of the connection within a frame.
    #[error("the connection was lost: {0}")]
    Io(io::Error),
    /// A frame exceeds the limit.
    #[error("a message of {bytes} bytes; expected at most {most}")]
    TooLong {
        /// Bytes of the frame.
        bytes: u32,
        /// Maximum bytes.
        most: u32,
    },
    /// A frame does not contain a valid message.
    #[error("the data is not a message of Dyno's workers")]
    Malformed,
}

/// Maximum characters of a peer's message that are shown.
const MOST_WORDS: usize = 1_000;

/// Returns a peer's message without control characters, which a terminal would interpret.
pub fn plain(words: &str) -> String {
    words.chars().filter(|&letter| !is_control(letter)).take(MOST_WORDS).collect()
}

/// Reads one message of at most `most` bytes.
///
/// # Errors
/// [`WireError`], after which no more messages can be read.
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

/// Returns the frame of one message.
///
/// # Errors
/// The message is longer than [`MOST`].
pub fn frame(body: Body) -> io::Result<Vec<u8>> {
    let message = Message { body: Some(body) };
    let bytes = message.encoded_len();
    let Some(length) = u32::try_from(bytes).ok().filter(|&bytes| bytes <= MOST) else {
        let problem = format!(
            "a message of {bytes} bytes; expected at most {MOST}: use fewer samples, or replay fewer \
             arrivals"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    };
    let mut frame = Vec::with_capacity(4 + length as usize);
    frame.extend(length.to_le_bytes());
    message.encode(&mut frame).expect("a vector has room");
    Ok(frame)
}

/// Sends one message.
///
/// # Errors
/// Errors of the connection, or a message that is longer than [`MOST`].
pub fn send(to: &Channel, body: Body) -> io::Result<()> {
    to.write(&frame(body)?)
}
