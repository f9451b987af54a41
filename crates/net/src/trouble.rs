//! Why a request has no answer.

use std::fmt;

use dyno_loadgen::record::Failure;
use serde::{Deserialize, Serialize};

/// Why a request has no answer: a kind that is counted, and the words of the first of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is counted.
    pub kind: Kind,
    /// What happened, with what the server or the system said.
    pub words: String,
}

/// Kinds of trouble, each counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// The name has no address.
    Resolve,
    /// Nobody listens, or not in time.
    Connect,
    /// The certificate has expired, is of another name or unknown, or the handshake failed.
    Tls,
    /// The connection ended before the answer did.
    Closed,
    /// The answer took longer than the time limit of a request.
    TimedOut,
    /// The server is full: 429, 503, `RESOURCE_EXHAUSTED`, `UNAVAILABLE`.
    Refused,
    /// The server says that the request is wrong: another 4xx, `INVALID_ARGUMENT`.
    Request,
    /// The server failed: another 5xx, `INTERNAL`.
    Server,
    /// The bytes are no answer of the protocol.
    Malformed,
    /// It is one, but of other names, types or shapes than were asked for.
    Mismatch,
    /// The answer holds no output.
    Empty,
    /// The answer ended before it was finished.
    Cut,
    /// The server gave up on the answer.
    Aborted,
    /// A filter of the server withheld the answer or a part of it.
    Filtered,
    /// The server reports an error within an answer whose status is one of success.
    InBand,
    /// The answer has fewer tokens than the request demanded.
    Short,
}

impl Kind {
    /// What a run's record makes of it.
    #[must_use]
    pub fn failure(self) -> Failure {
        match self {
            Self::Refused | Self::Request => Failure::Rejected,
            Self::TimedOut => Failure::TimedOut,
            Self::Resolve | Self::Connect | Self::Tls | Self::Closed => Failure::Disconnected,
            Self::Server | Self::Malformed | Self::Mismatch | Self::InBand => Failure::Internal,
            Self::Empty => Failure::Empty,
            Self::Cut => Failure::Cut,
            Self::Aborted => Failure::Aborted,
            Self::Filtered => Failure::Filtered,
            Self::Short => Failure::Short,
        }
    }
}

impl Kind {
    /// What a status of HTTP means; `None` for those of success.
    #[must_use]
    pub fn of_status(status: u16) -> Option<Self> {
        match status {
            200..300 => None,
            429 | 503 => Some(Self::Refused),
            408 | 504 => Some(Self::TimedOut),
            400..500 => Some(Self::Request),
            500.. => Some(Self::Server),
            // A redirection leads to another server than the one that is measured.
            ..200 | 300..400 => Some(Self::Malformed),
        }
    }
}

impl Trouble {
    /// A status of HTTP with what the body says.
    #[must_use]
    pub fn of_status(kind: Kind, status: u16, said: &str) -> Self {
        match said {
            "" => Self::new(kind, format!("HTTP status {status}")),
            said => Self::new(kind, format!("HTTP status {status}: {said}")),
        }
    }

    /// Returns the status of HTTP in words that [`Trouble::of_status`] made.
    #[must_use]
    pub fn status_in(words: &str) -> Option<u16> {
        let digits = words.strip_prefix("HTTP status ")?;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// Of a kind, in words.
    pub fn new(kind: Kind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Trouble {}

/// Characters of what others say that are kept.
const IN_SHORT: usize = 200;

/// The first line of what a server says, without control characters, and not all of it where
/// it is long.
#[must_use]
pub fn in_short(words: &str) -> String {
    let line = words.trim().lines().next().unwrap_or_default();
    let mut characters = line.chars().filter(|character| !character.is_control());
    let mut short: String = characters.by_ref().take(IN_SHORT).collect();
    if characters.next().is_some() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_found_in_the_words_of_a_trouble() {
        for said in ["", "no such model"] {
            let trouble = Trouble::of_status(Kind::Request, 404, said);
            assert_eq!(Trouble::status_in(&trouble.words), Some(404));
        }
        assert_eq!(Trouble::status_in("the connection broke off"), None);
    }
}
