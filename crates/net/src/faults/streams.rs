//! Table of streamed answers.

use super::script::Piece::{self, Bytes, Done, Event, Joined, Letters, Pause, Repeat, Torn, Usage};
use super::script::{
    End, Framing, Spelling, Stream, content, content_with, delta, finish, finish_with,
    last_content, text,
};

/// The head of a usual stream.
const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";
/// Head without a content type.
const NO_TYPE: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
const PLAIN: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n";
const JSON: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
const OCTETS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n";
const LINES: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n";
const LAST: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\
                    Transfer-Encoding: chunked\r\n";
const OLD: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n";

/// Milliseconds before the first piece of most answers.
const THINK: Piece = Pause(10);
/// The first event of many servers: a role and no text.
const ROLE: Piece = delta(r#""role": "assistant", "content": """#);
const A: Piece = content("a");
const B: Piece = content("b");
const STOP: Piece = finish("stop");
/// Two letters, 10 ms apart.
const A_B: Piece = Repeat(1, &[THINK, A, Pause(10), B]);
/// The usual end of an answer of two tokens.
const END: Piece = Repeat(1, &[STOP, Usage(5, 2), Done]);
/// Ten events of four words, 20 ms apart.
const WORDS: Piece = Repeat(10, &[content("aa bb cc dd "), Pause(20)]);
/// Bytes of the event of `utf8split` up to the middle of its last letter.
const IN_LETTER: usize = 156;

/// An event of one choice of several: its number, its text, and its reason to end as JSON.
macro_rules! choice {
    ($index:literal, $text:literal, $finish:literal) => {
        concat!(
            r#"{"id": "x", "choices": [{"index": "#,
            $index,
            r#", "delta": {"content": ""#,
            $text,
            r#""}, "finish_reason": "#,
            $finish,
            "}]}"
        )
    };
}

/// A usual stream: server-sent events in chunks, with a regular end.
const fn usual(pieces: &'static [Piece]) -> Stream {
    headed(EVENTS, pieces)
}

/// A stream with another head.
const fn headed(head: &'static str, pieces: &'static [Piece]) -> Stream {
    let (framing, spelling) = (Framing::Chunked, Spelling::Usual);
    Stream { head, framing, spelling, pieces, end: End::Whole }
}

/// A stream with another spelling of events.
const fn spelled(spelling: Spelling, pieces: &'static [Piece]) -> Stream {
    Stream { spelling, ..usual(pieces) }
}

/// Returns the stream of a mode; `None` if the mode is not a single stream.
pub(super) fn stream(mode: &str) -> Option<&'static Stream> {
    STREAMS.iter().find(|(name, _)| *name == mode).map(|(_, stream)| stream)
}

/// The streams by mode.
pub(super) const STREAMS: &[(&str, Stream)] = &[
    // Whole answers of many spellings.
    ("ok", usual(&[THINK, ROLE, A, Pause(5), B, Pause(5), content("c"), STOP, Usage(5, 3), Done])),
    (
        "reasoning",
        usual(&[THINK, ROLE, delta(r#""reasoning": "t""#), Pause(100), content("x"), END]),
    ),
    (
        "reasoning_only",
        usual(&[
            THINK,
            delta(r#""reasoning_content": "t""#),
            Pause(20),
            delta(r#""reasoning_content": "u", "content": null"#),
            finish_with(r#""content": null"#, "length", ""),
            Usage(5, 2),
            Done,
        ]),
    ),
    ("rolefirst", usual(&[ROLE, Pause(100), content("x"), Pause(10), content("y"), END])),
    (
        "content_list",
        usual(&[
            THINK,
            delta(
                r#""role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]"#,
            ),
            Pause(10),
            content("x"),
            delta(r#""content": [{"type": "text", "text": "y"}]"#),
            STOP,
            Usage(5, 3),
            Done,
        ]),
    ),
    (
        "keepalive",
        usual(&[
            Bytes(b":\n\n"),
            THINK,
            Bytes(b": ping\n\n"),
            A,
            Bytes(b":\n\n"),
            Pause(10),
            B,
            Bytes(b": OPENROUTER PROCESSING\n\n"),
            END,
        ]),
    ),
    ("hugeline", usual(&[THINK, Letters(2_000_000), B, STOP, Usage(5, 500_000), Done])),
    ("huge70", usual(&[THINK, Letters(70_000_000), B, STOP, Usage(5, 500_000), Done])),
    ("nodone", usual(&[A_B, STOP])),
    ("u2028", usual(&[THINK, content("a\u{2028}b"), content("\u{2029}\u{85}c"), END])),
    ("utf8split", usual(&[THINK, Torn(&[content("h\u{e9}\u{1f600}")], IN_LETTER), END])),
    (
        "half_event",
        usual(&[
            THINK,
            Torn(&[A, B, content("c")], 37),
            Pause(10),
            Joined(&[STOP, Usage(5, 3), Done]),
        ]),
    ),
    ("crlf", spelled(Spelling::CrLf, &[A_B, END])),
    ("nospace", spelled(Spelling::NoSpace, &[A_B, END])),
    ("done_space", usual(&[THINK, A, STOP, Event("[DONE] ")])),
    ("plain_sse", headed(PLAIN, &[A_B, END])),
    ("json_sse", headed(JSON, &[A_B, END])),
    ("octet_sse", headed(OCTETS, &[A_B, END])),
    ("noct_sse", headed(NO_TYPE, &[A, END])),
    ("ndjson", Stream { head: LINES, ..spelled(Spelling::Lines, &[A_B, STOP, Usage(5, 2)]) }),
    ("single", usual(&[THINK, last_content("a", "length"), Usage(5, 1), Done])),
    ("spec", usual(&[THINK, WORDS, STOP, Usage(5, 40), Done])),
    ("spec_nousage", usual(&[THINK, WORDS, STOP, Done])),
    (
        "toolcall",
        usual(&[
            THINK,
            delta(
                r#""role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]"#,
            ),
            Pause(20),
            delta(r#""tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":1}"}}]"#),
            finish("tool_calls"),
            Usage(5, 8),
            Done,
        ]),
    ),
    (
        "azure",
        usual(&[
            Event(
                r#"{"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": [{"prompt_index": 0}]}"#,
            ),
            Pause(50),
            A,
            STOP,
            Usage(5, 1),
            Done,
        ]),
    ),
    ("late_usage", usual(&[A_B, STOP, Done, Usage(5, 2)])),
    ("slow_done", usual(&[A_B, STOP, Usage(5, 2), Pause(300), Done])),
    (
        "tgi",
        usual(&[
            THINK,
            text("a", "", ""),
            Pause(10),
            text("b", "", ""),
            text("", "length", r#"{"prompt_tokens": 5, "completion_tokens": 2}"#),
            Done,
        ]),
    ),
    (
        "n2",
        usual(&[
            THINK,
            Event(choice!(0, "a", "null")),
            Event(choice!(1, "A", "null")),
            Pause(10),
            Event(choice!(0, "b", "null")),
            Event(choice!(1, "B", "null")),
            Event(choice!(0, "", "\"stop\"")),
            Event(choice!(1, "", "\"stop\"")),
            Usage(5, 4),
            Done,
        ]),
    ),
    (
        "http10",
        Stream {
            framing: Framing::Close,
            end: End::Closed,
            ..headed(OLD, &[A, Pause(10), STOP, Usage(5, 1), Done])
        },
    ),
    ("conn_close", Stream { end: End::Closed, ..headed(LAST, &[A, STOP, Usage(5, 1), Done]) }),
    // Counts that differ from the usual ones, or are false.
    (
        "usage_null",
        usual(&[
            THINK,
            content_with("a", "null"),
            content_with("b", "null"),
            finish_with("", "stop", "null"),
            Usage(5, 2),
            Done,
        ]),
    ),
    (
        "usage_each",
        usual(&[
            THINK,
            content_with("a", r#"{"prompt_tokens": 5, "completion_tokens": 1}"#),
            Pause(10),
            content_with("b", r#"{"prompt_tokens": 5, "completion_tokens": 2}"#),
            finish_with("", "stop", r#"{"prompt_tokens": 5, "completion_tokens": 2}"#),
            Done,
        ]),
    ),
    (
        "usage_zero_last",
        usual(&[
            THINK,
            content_with("a", r#"{"prompt_tokens": 5, "completion_tokens": 1}"#),
            Pause(10),
            content_with("b", r#"{"prompt_tokens": 5, "completion_tokens": 2}"#),
            finish_with("", "stop", "{}"),
            Done,
        ]),
    ),
    (
        "usage_partial",
        usual(&[
            A_B,
            finish_with(
                "",
                "stop",
                r#"{"prompt_tokens": null, "completion_tokens": 2, "total_tokens": null}"#,
            ),
            Done,
        ]),
    ),
    (
        "usage_float",
        usual(&[
            A_B,
            finish_with("", "stop", r#"{"prompt_tokens": 5.0, "completion_tokens": 2.0}"#),
            Done,
        ]),
    ),
    (
        "usage_neg",
        usual(&[
            A_B,
            finish_with("", "stop", r#"{"prompt_tokens": -1, "completion_tokens": 2}"#),
            Done,
        ]),
    ),
    (
        "usage_lies",
        usual(&[
            A_B,
            finish_with("", "stop", r#"{"prompt_tokens": 5, "completion_tokens": 1000}"#),
            Done,
        ]),
    ),
    // Incomplete answers.
    ("empty", usual(&[THINK, ROLE, STOP, Usage(5, 0), Done])),
    ("empty_nousage", usual(&[THINK, ROLE, STOP, Done])),
    ("nothing", usual(&[THINK, Done])),
    ("abort", usual(&[THINK, A, finish("abort"), Usage(5, 1), Done])),
    ("finish_error", usual(&[THINK, A, finish("error"), Usage(5, 1), Done])),
    ("cut", Stream { end: End::Broken, ..usual(&[THINK, A, B]) }),
    ("cut_clean", usual(&[THINK, A, B])),
    (
        "n2cut",
        usual(&[
            THINK,
            Event(choice!(0, "a", "null")),
            Event(choice!(1, "A", "null")),
            Pause(10),
            Event(choice!(0, "b", "\"stop\"")),
            Event(choice!(1, "B", "null")),
        ]),
    ),
    // Errors within a stream.
    (
        "midstream_error",
        usual(&[
            THINK,
            A,
            Event(
                r#"{"error": {"message": "engine died", "type": "InternalServerError", "param": null, "code": 500}}"#,
            ),
            Done,
        ]),
    ),
    (
        "old_error",
        usual(&[
            THINK,
            Event(
                r#"{"object": "error", "message": "input of 128038 tokens is longer than the context of 40960", "type": "BadRequestError", "param": null, "code": 400}"#,
            ),
            Done,
        ]),
    ),
    ("event_error", usual(&[THINK, A, Bytes(b"event: error\ndata: \"overloaded\"\n\n")])),
    (
        "event_error_json",
        usual(&[
            THINK,
            A,
            Bytes(b"event: error\ndata: {\"message\":\"overloaded\",\"status\":503}\n\n"),
        ]),
    ),
    // Used by `cut_half` for every other request.
    (WITHOUT_PAUSE, usual(&[THINK, A, B, END])),
];

/// Internal stream: the other half of `cut_half`.
pub(super) const WITHOUT_PAUSE: &str = "cut_half, whole";
