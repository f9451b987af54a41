//! Reasons why a request has no answer, and texts of servers as messages show them.

use std::borrow::Cow;

use dyno_loadgen::message::is_control;
use dyno_loadgen::record::Failure;
use serde::{Deserialize, Serialize};

/// Reason why a request has no answer: a kind, which is counted, and a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Trouble {
    /// Kind, which is counted.
    pub kind: Kind,
    /// Message, with details from the server or the system.
    pub words: String,
}

/// Kinds of trouble, counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// The name has no address.
    Resolve,
    /// No server listens, or it does not accept in time.
    Connect,
    /// The certificate has expired, has another name or an unknown issuer, or the handshake failed.
    Tls,
    /// The connection ended before the answer did.
    Closed,
    /// The answer took longer than the time limit of a request.
    TimedOut,
    /// The server is full: 429, 503, 529, `RESOURCE_EXHAUSTED`, `UNAVAILABLE`.
    Refused,
    /// The server reports that the request is wrong: another 4xx, `INVALID_ARGUMENT`.
    Request,
    /// The server failed: another 5xx, `INTERNAL`.
    Server,
    /// The bytes are not an answer of the protocol.
    Malformed,
    /// The answer has other names, types or shapes than requested.
    Mismatch,
    /// The answer holds no output.
    Empty,
    /// The answer ended before it was finished.
    Cut,
    /// The server gave up on the answer.
    Aborted,
    /// A filter of the server withheld the answer or a part of it.
    Filtered,
    /// The server reports an error within an answer whose status is success.
    InBand,
    /// The answer has fewer tokens than the request demanded.
    Short,
    /// The client gave the request up on purpose.
    Cancelled,
    /// The client has no memory for the answer.
    Memory,
}

impl Kind {
    /// Returns whether a server that is still starting causes this trouble.
    pub fn is_of_start_up(self) -> bool {
        matches!(
            self,
            Self::Resolve
                | Self::Connect
                | Self::Closed
                | Self::TimedOut
                | Self::Refused
                | Self::Server
        )
    }

    /// Returns whether another attempt may bring an answer.
    pub(crate) fn may_pass(self) -> bool {
        match self {
            Self::Connect
            | Self::Closed
            | Self::TimedOut
            | Self::Refused
            | Self::Server
            | Self::Cut
            | Self::Aborted
            | Self::InBand => true,
            // Several of these are complete answers: another attempt may be no better.
            Self::Resolve
            | Self::Tls
            | Self::Request
            | Self::Malformed
            | Self::Mismatch
            | Self::Empty
            | Self::Filtered
            | Self::Short
            | Self::Cancelled
            | Self::Memory => false,
        }
    }

    /// Returns the failure in the record of a run.
    pub fn failure(self) -> Failure {
        match self {
            Self::Refused | Self::Request => Failure::Rejected,
            Self::TimedOut => Failure::TimedOut,
            Self::Resolve | Self::Connect | Self::Tls | Self::Closed => Failure::Disconnected,
            Self::Server | Self::Malformed | Self::Mismatch | Self::InBand | Self::Memory => {
                Failure::Internal
            }
            Self::Empty => Failure::Empty,
            Self::Cut => Failure::Cut,
            Self::Aborted => Failure::Aborted,
            Self::Filtered => Failure::Filtered,
            Self::Short => Failure::Short,
            Self::Cancelled => Failure::Cancelled,
        }
    }
}

impl Kind {
    /// Returns the kind of an HTTP status; `None` for success.
    pub fn of_status(status: u16) -> Option<Self> {
        match status {
            200..300 => None,
            // Anthropic sends 529.
            429 | 503 | 529 => Some(Self::Refused),
            // Cloudflare sends 522 and 524.
            408 | 504 | 522 | 524 => Some(Self::TimedOut),
            400..500 => Some(Self::Request),
            500.. => Some(Self::Server),
            // A redirection leads to another server than the measured one.
            ..200 | 300..400 => Some(Self::Malformed),
        }
    }

    /// Returns the kind of an answer that is not valid JSON: cut off if more bytes could complete it. Blanks
    /// alone are no beginning of an answer.
    pub(crate) fn of_invalid_json(json: &[u8], error: &serde_json::Error) -> Self {
        if error.is_eof() && !json.trim_ascii().is_empty() { Self::Cut } else { Self::Malformed }
    }
}

impl Trouble {
    /// Creates trouble from an HTTP status and the message of the body.
    pub fn of_status(kind: Kind, status: u16, message: &str) -> Self {
        match message {
            "" => Self::new(kind, format!("HTTP status {status}")),
            message => Self::new(kind, format!("HTTP status {status}: {message}")),
        }
    }

    /// Returns the HTTP status in a message of [`Trouble::of_status`].
    pub fn status_in(words: &str) -> Option<u16> {
        let digits = words.strip_prefix("HTTP status ")?;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// Creates trouble of a kind, with a message, which may hold texts of a server.
    pub fn new(kind: Kind, words: impl Into<String>) -> Self {
        let words: String = words.into();
        let is_printable = !words.contains(is_control);
        Self { kind, words: if is_printable { words } else { printable(&words).into_owned() } }
    }
}

/// Returns a text with U+FFFD in place of each character that a terminal obeys, line ends included. A
/// text of a server cannot control the terminal then.
///
/// ```
/// use dyno_net::trouble::printable;
///
/// assert_eq!(printable("a\u{1b}[2J"), "a\u{fffd}[2J");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_control) {
        Cow::Owned(text.replace(is_control, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Maximum characters kept of a foreign message.
const IN_SHORT: usize = 200;

/// Returns the first line of a server's message, without control characters and shortened if it is
/// long.
pub fn in_short(words: &str) -> String {
    let line = words.trim().lines().next().unwrap_or_default();
    let mut characters = line.chars().filter(|&character| !is_control(character));
    let mut short: String = characters.by_ref().take(IN_SHORT).collect();
    if characters.next().is_some() {
        short.push_str(crate::secrets::CUT);
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
        assert_eq!(Trouble::status_in("the connection was lost"), None);
    }

    #[test]
    fn statuses_of_gateways_have_the_kinds_of_their_causes() {
        for (status, kind) in [
            (200, None),
            (302, Some(Kind::Malformed)),
            (413, Some(Kind::Request)),
            (429, Some(Kind::Refused)),
            (504, Some(Kind::TimedOut)),
            (520, Some(Kind::Server)),
            (522, Some(Kind::TimedOut)),
            (524, Some(Kind::TimedOut)),
            (529, Some(Kind::Refused)),
        ] {
            assert_eq!(Kind::of_status(status), kind, "{status}");
        }
    }

    #[test]
    fn no_message_controls_a_terminal() {
        let odd = "a\u{1b}]0;b\u{7}\r\n\u{9b}31m\u{202e}c";
        let shown = "a\u{fffd}]0;b\u{fffd}\u{fffd}\u{fffd}\u{fffd}31m\u{fffd}c";
        assert_eq!(printable(odd), shown);
        assert_eq!(Trouble::new(Kind::Request, odd).words, shown);
        assert_eq!(in_short("a\u{1b}[2J\u{202e}b\nc"), "a[2Jb");
        assert!(matches!(printable("modèle 7B"), Cow::Borrowed(_)));
    }
}
