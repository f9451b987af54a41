//! Table of answers that are sent as a whole.

use std::borrow::Cow;
use std::io::Write as _;

/// One answer with a known length.
#[derive(Debug, Clone, Copy)]
pub(super) struct WholeAnswer {
    /// Delay before the answer, in ms.
    pub pause_ms: u64,
    /// Such as `200 OK`.
    pub status: &'static str,
    pub content_type: &'static str,
    /// Further fields, each with its line end.
    pub fields: &'static str,
    pub body: Body,
    /// Whether the connection is closed after it.
    pub is_last: bool,
}

/// The body of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Text(&'static str),
    /// This many letters between these two texts.
    Letters(&'static str, usize, &'static str),
    /// Compressed by gzip.
    Gzip(&'static str),
}

impl WholeAnswer {
    /// Returns the answer as bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let body: Cow<'_, [u8]> = match self.body {
            Body::Text(text) => text.as_bytes().into(),
            Body::Letters(before, count, after) => {
                format!("{before}{}{after}", "a".repeat(count)).into_bytes().into()
            }
            Body::Gzip(text) => compressed(text).into(),
        };
        let Self { status, content_type, fields, .. } = self;
        let length = body.len();
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             {fields}\r\n"
        )
        .into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    }
}

fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).expect("a vector has room");
    encoder.finish().expect("a vector has room")
}

/// Returns the answer of a mode; `None` if the mode is not a single whole answer.
pub(super) fn whole(mode: &str) -> Option<&'static WholeAnswer> {
    WHOLE.iter().find(|(name, _)| *name == mode).map(|(_, whole)| whole)
}

const OK: &str = "200 OK";
const JSON: &str = "application/json";
const PLAIN: &str = "text/plain";
const WAIT: &str = "Retry-After: 1\r\n";

const fn json(status: &'static str, body: &'static str) -> WholeAnswer {
    typed(JSON, status, body)
}

const fn typed(
    content_type: &'static str,
    status: &'static str,
    body: &'static str,
) -> WholeAnswer {
    let (fields, body) = ("", Body::Text(body));
    WholeAnswer { pause_ms: 0, status, content_type, fields, body, is_last: false }
}

/// Internal answers: refusals that rules select.
pub(super) const NO_KEY: &str = "auth, refused";
pub(super) const NO_MAX: &str = "nomax, refused";
pub(super) const NO_OPTIONS: &str = "noopts, refused";
pub(super) const SLOW_DOWN: &str = "bucket, refused";
pub(super) const UNAVAILABLE: &str = "e503half, refused";

/// The answers by mode.
pub(super) const WHOLE: &[(&str, WholeAnswer)] = &[
    (
        "hugebody",
        WholeAnswer {
            body: Body::Letters(
                r#"{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": ""#,
                8_000_000,
                r#""}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 10}}"#,
            ),
            ..json(OK, "")
        },
    ),
    (
        "ignores_stream",
        WholeAnswer {
            pause_ms: 50,
            ..json(
                OK,
                r#"{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "a b"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}"#,
            )
        },
    ),
    (
        "conc",
        WholeAnswer {
            pause_ms: 50,
            ..json(
                OK,
                r#"{"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}"#,
            )
        },
    ),
    (
        "stall",
        json(
            OK,
            r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}"#,
        ),
    ),
    (
        "gzip",
        WholeAnswer {
            fields: "Content-Encoding: gzip\r\n",
            body: Body::Gzip(
                r#"{"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}"#,
            ),
            ..json(OK, "")
        },
    ),
    ("html", typed("text/html", OK, "<!DOCTYPE html><html><body>Please log in</body></html>")),
    (
        "allnull",
        json(
            OK,
            r#"{"id": "", "object": "", "created": 0, "model": "", "choices": null, "usage": null}"#,
        ),
    ),
    ("err200", json(OK, r#"{"error": {"message": "model overloaded", "code": "503"}}"#)),
    ("errstr200", json(OK, r#"{"error": "model overloaded"}"#)),
    (
        "errdetail",
        json(
            "422 Unprocessable Entity",
            r#"{"detail": [{"loc": ["body", "max_tokens"], "msg": "value is not allowed", "type": "value_error"}]}"#,
        ),
    ),
    (
        "old_error_full",
        json(
            "400 Bad Request",
            r#"{"object": "error", "message": "input is longer than the context of 40960", "type": "BadRequestError", "param": null, "code": 400}"#,
        ),
    ),
    (
        "rateall",
        WholeAnswer {
            fields: WAIT,
            ..json(
                "429 Too Many Requests",
                r#"{"error":{"message":"rate limit, retry after 1 s","type":"rate_limit_error"}}"#,
            )
        },
    ),
    (
        "notfound",
        json(
            "404 Not Found",
            r#"{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","param":null,"code":404}"#,
        ),
    ),
    ("e500", typed(PLAIN, "500 Internal Server Error", "Internal Server Error")),
    (
        "early",
        WholeAnswer {
            fields: "Connection: close\r\n",
            is_last: true,
            ..json("413 Payload Too Large", r#"{"error":{"message":"too large"}}"#)
        },
    ),
    ("reset_counts", json(OK, "{}")),
    (
        NO_KEY,
        json(
            "401 Unauthorized",
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        ),
    ),
    (
        NO_MAX,
        json(
            "400 Bad Request",
            r#"{"error":{"message":"Unsupported parameter: max_tokens is not supported with this model. Use max_completion_tokens instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}"#,
        ),
    ),
    (
        NO_OPTIONS,
        json(
            "400 Bad Request",
            r#"{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error"}}"#,
        ),
    ),
    (
        SLOW_DOWN,
        WholeAnswer {
            fields: WAIT,
            ..json("429 Too Many Requests", r#"{"error":{"message":"slow down"}}"#)
        },
    ),
    (UNAVAILABLE, typed(PLAIN, "503 Service Unavailable", "no healthy upstream")),
];

/// The answer to a path without a mode.
pub(super) const NO_SUCH_MODE: WholeAnswer = typed(PLAIN, "404 Not Found", "no such mode");
