//! Names of the kinds of failed requests, and advice on each.

use dyno_net::trouble::{Kind, Trouble};

/// Returns the display name of a kind of failure.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Resolve => "no address",
        Kind::Connect => "no connection",
        Kind::Tls => "TLS",
        Kind::Closed => "closed",
        Kind::TimedOut => "timed out",
        Kind::Refused => "refused",
        Kind::Request => "wrong request",
        Kind::Server => "server error",
        Kind::Malformed => "malformed answer",
        Kind::Mismatch => "other answer",
        Kind::Empty => "empty",
        Kind::Cut => "cut",
        Kind::Aborted => "aborted",
        Kind::Filtered => "filtered",
        Kind::InBand => "error in the answer",
        Kind::Short => "short",
        Kind::Cancelled => "cancelled",
        Kind::Memory => "beyond the client's memory",
        _ => "other",
    }
}

/// Returns the name of a kind of failure with the message of the server, and advice.
pub fn explained(kind: Kind, words: &str) -> (&'static str, &'static str) {
    match (kind, Trouble::status_in(words)) {
        (Kind::Request, Some(401 | 403)) => {
            ("not authorized", "Check the token; token-env=NAME selects its environment variable.")
        }
        (Kind::Request, Some(407)) => (
            "not authorized by the proxy",
            "Pass USER:PASSWORD for the proxy in an environment variable (proxy-login-env=NAME).",
        ),
        (Kind::Request, Some(404)) => {
            ("not found", "Check the path of the URL and the name of the model (model=NAME).")
        }
        (Kind::Request, Some(405)) => (
            kind_name(kind),
            "Check the path of the URL. raw: sends GET without a body, and POST with body=@FILE, \
             body=TEXT or method=POST.",
        ),
        // A gateway may send this status when it closes an idle connection.
        (Kind::TimedOut, Some(408)) => (
            kind_name(kind),
            "If the server ends idle connections with this status, keep-alive=false opens a \
             connection for each request. Otherwise lower the load.",
        ),
        (Kind::Request, _) if is_about_context(words) => (
            kind_name(kind),
            "Shorten prompts or answers: input=N and output=N set their tokens, max-tokens=N limits \
             answers.",
        ),
        _ => (kind_name(kind), advice_on(kind)),
    }
}

/// Returns whether a server rejects a request because it is longer than the context of the model, by the
/// words of OpenAI, vLLM, SGLang and llama.cpp.
fn is_about_context(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["context length", "context size", "context window"].iter().any(|said| words.contains(said))
}

fn advice_on(kind: Kind) -> &'static str {
    match kind {
        Kind::Resolve => "Check the host name in the address of the server.",
        Kind::Connect => "Start the server, or check its host and port.",
        Kind::Tls => "Check the certificate of the server; ca=FILE.pem trusts another authority.",
        Kind::Closed => {
            "Check the server's log for the reason of closed connections; retries=N repeats such \
             requests."
        }
        Kind::TimedOut => "Lower the load, or raise timeout=TIME.",
        Kind::Refused => {
            "Lower the load, or raise the limit of the server; retries=N repeats such requests."
        }
        Kind::Request => "Correct the request according to the server's message.",
        Kind::Server => "Check the server's log.",
        Kind::Empty => {
            "Find out why answers have no output (prompt, stop sequences, max-tokens); \
             accept-answers=empty accepts such answers."
        }
        Kind::Cut => "Check the server's log for the reason of early ends of streams.",
        Kind::Aborted => "Check the server's log for the reason of aborted answers.",
        Kind::Filtered => {
            "Use prompts that pass the filter; accept-answers=filtered accepts such answers."
        }
        Kind::Short => {
            "Check the context limit of the model; accept-answers=short accepts such answers."
        }
        Kind::Malformed | Kind::Mismatch => {
            "Check that the server speaks the protocol of the system (dyno info systems)."
        }
        Kind::Memory => {
            "Request shorter answers, lower the load, or run the client with more memory."
        }
        _ => "Check the server's message and its log.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_408_may_come_from_an_idle_connection() {
        let advice = |status: u16| {
            let words = Trouble::of_status(Kind::TimedOut, status, "").words;
            explained(Kind::TimedOut, &words).1
        };
        assert!(advice(408).contains("keep-alive=false"));
        assert!(advice(504).contains("timeout=TIME"));
    }
}
