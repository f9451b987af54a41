//! Deviations of servers that a client reads all the same, or adapts to before a run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use dyno_loadgen::clock::SECOND;
use dyno_loadgen::drive::TenantOutcome;
use dyno_loadgen::record::Failure;
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_net::ask::ServerQuery;
use dyno_net::client::{Client, Options};
use dyno_net::coding::Coding;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::{HttpVersion, Method, Request};
use dyno_net::faults::FaultServer;
use dyno_net::grpc;
use dyno_net::ledger::{AcceptedClasses, Class, Oddity};
use dyno_net::oip::messages::{Empty, SERVER_METADATA, ServerMetadataResponse};
use dyno_net::openai::{AdaptedServer, Api, Input, LimitMember, Message, OpenAi, Settings, adapt};
use dyno_net::tls::Trust;
use dyno_net::trouble::Kind;
use dyno_net::workload::{Prompt, Workload};

use super::encrypted::certified;
use super::faults::{Faulty, request};
use super::http2;
use super::played::{client, endpoint, play, settings};

fn workload() -> Arc<Workload> {
    let prompts = vec![Prompt::new(Input::Messages(vec![Message::new("user", "Say")]))];
    Arc::new(Workload { prompts, ..Workload::default() })
}

fn openai() -> Settings {
    Settings {
        model: "m".into(),
        is_streaming: true,
        asks_usage: true,
        max_tokens: Some(4),
        limit_member: LimitMember::default(),
        others: serde_json::Map::new(),
        tokenizer: None,
        accepted: AcceptedClasses::default(),
        ..Settings::default()
    }
}

fn below(server: &FaultServer, mode: &str) -> Endpoint {
    format!("http://{}/{mode}", server.address).parse().unwrap()
}

fn played(endpoint: Endpoint, queries: u64, options: Options) -> (TenantOutcome, Arc<Client>) {
    let (client, library) = client(OpenAi::new(workload(), openai()), &[endpoint], options);
    let settings = TestSettings {
        use_token_latencies: true,
        ..settings(Scenario::SingleStream, queries, 1.0)
    };
    let played = play(&client, &library, &settings);
    (played, client)
}

#[test]
fn deviations_are_read_and_named() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    for (mode, output, oddity) in [
        ("plain_sse", Some(2), Some(Oddity::ContentType)),
        ("json_sse", Some(2), Some(Oddity::ContentType)),
        ("octet_sse", Some(2), Some(Oddity::ContentType)),
        ("noct_sse", Some(2), Some(Oddity::ContentType)),
        ("done_space", Some(1), Some(Oddity::OtherDone)),
        ("azure", Some(1), None),
        ("gzip", Some(1), Some(Oddity::NoStream)),
        ("ok", Some(3), None),
    ] {
        let (played, client) = played(below(&server, mode), 3, Options::default());
        assert!(played.record.failed.is_empty(), "{mode}: {:?}", client.trouble());
        for account in client.ledger(0, 3) {
            let account = account.unwrap();
            assert_eq!((account.class, account.output), (Class::Whole, output), "{mode}");
            let named: Vec<Oddity> = account.oddities.iter().collect();
            assert_eq!(named, oddity.into_iter().collect::<Vec<_>>(), "{mode}");
        }
        let is_streamed = !played.record.first_token_at.is_empty()
            && played.record.first_token_at.iter().all(|at| *at > 0);
        assert_eq!(is_streamed, mode != "gzip", "{mode}: its first token has a time");
        let compressed = if mode == "gzip" { 3 } else { 0 };
        assert_eq!(client.statistics().unrequested_compression, compressed, "{mode}");
    }
}

/// An answer of two tokens after a thought of 200 tokens that is counted and not sent.
fn with_hidden_thought() -> String {
    let part = |delta: &str, end: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{{delta}}}{end}}}]}}\n\n")
    };
    let usage = r#"{"prompt_tokens":5,"completion_tokens":202,
        "completion_tokens_details":{"reasoning_tokens":200}}"#
        .replace('\n', "");
    let body = part("\"content\":\"Hi\"", "")
        + &part("\"content\":\" you\"", "")
        + &part("", ",\"finish_reason\":\"stop\"")
        + &format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
    let fields = format!("content-type: text/event-stream\r\ncontent-length: {}", body.len());
    format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}")
}

#[test]
fn tokens_that_are_not_streamed_have_no_part_in_times() {
    let server = Faulty::start(|mut stream| {
        while request(&mut stream).is_some() {
            let _ = stream.write_all(with_hidden_thought().as_bytes());
        }
    });
    let (played, client) = played(endpoint(server.address), 3, Options::default());
    assert!(played.record.failed.is_empty(), "{:?}", client.trouble());
    assert_eq!(played.record.tokens, [202; 3]);
    assert_eq!(played.record.timed_tokens, [(0, Some(2)), (1, Some(2)), (2, Some(2))]);
}

#[test]
fn a_request_without_an_answer_has_no_account() {
    let server = Faulty::start(|mut stream| {
        if request(&mut stream).is_some() {
            let _ = stream.write_all(with_hidden_thought().as_bytes());
        }
        if request(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-");
        }
    });
    let options = Options { connections: 1, ..Options::default() };
    let (played, client) = played(endpoint(server.address), 6, options);
    let failed: Vec<u64> = played.record.failed.iter().map(|(sample, _)| *sample).collect();
    assert!((1..6).contains(&failed.len()), "{failed:?}");
    for (sample, account) in (0..).zip(client.ledger(0, 6)) {
        assert_eq!(account.is_none(), failed.contains(&sample), "{sample}: {account:?}");
    }
}

#[test]
fn an_error_in_a_stream_keeps_the_connection() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    for mode in ["event_error", "event_error_json", "old_error", "midstream_error"] {
        let options = Options { connections: 1, ..Options::default() };
        let (played, client) = played(below(&server, mode), 5, options);
        assert_eq!(played.record.failed.len(), 5, "{mode}");
        let seen = client.statistics();
        assert_eq!((seen.connects, seen.lost_connections), (1, 0), "{mode}");
    }
}

#[test]
fn a_refused_request_waits_as_long_as_the_server_asks() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    let options = Options { retries: 2, connections: 1, ..Options::default() };
    let (all, client) = played(below(&server, "rateall"), 1, options.clone());
    assert_eq!(all.record.failed.len(), 1);
    assert!(all.record.completed_at[0] >= 2 * SECOND, "both retries wait for a second");
    assert_eq!(client.statistics().retries[&Kind::Refused], 2);
    // Every third request is refused once.
    let (rate, client) = played(below(&server, "rate"), 6, options);
    assert!(rate.record.failed.is_empty(), "{:?}", client.trouble());
    let seen = client.statistics();
    assert!(seen.retries[&Kind::Refused] >= 1 && seen.troubles.is_empty());
    // The wait counts in the latency, and not as lateness of the client.
    let accepted = client.accepted(0, 6);
    for (sample, at) in accepted.iter().enumerate() {
        assert!(*at <= rate.record.completed_at[sample], "sample {sample}");
    }
    let waited = (0..6).filter(|&at| rate.record.completed_at[at] - accepted[at] >= SECOND);
    assert_eq!(waited.count() as u64, seen.retries[&Kind::Refused]);
    // Meanwhile it is not on the wire.
    let times = client.retry_times(0, 6).into_iter();
    let paused = times.filter(|of| of.last_sent.saturating_sub(of.last_failed) >= SECOND);
    assert_eq!(paused.count() as u64, seen.retries[&Kind::Refused]);
}

#[test]
fn a_request_that_waits_for_its_retry_is_cancelled_after_its_time() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    let cancellation = Some("100%@300ms".parse().unwrap());
    let options = Options { retries: 2, connections: 1, cancellation, ..Options::default() };
    let (all, client) = played(below(&server, "rateall"), 1, options);
    // Each attempt is refused at once, and the server asks for a second.
    assert_eq!(all.record.failed, [(0, Failure::Cancelled)]);
    assert!(all.record.completed_at[0] >= 3 * SECOND / 10);
    assert!(client.statistics().retries.is_empty());
}

#[test]
fn a_wait_beyond_the_time_limit_is_a_failure() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    let options = Options { retries: 2, time_limit: Some(SECOND / 2), ..Options::default() };
    let (all, client) = played(below(&server, "rateall"), 1, options);
    assert_eq!(all.record.failed.len(), 1);
    let seen = client.statistics();
    assert!(seen.retries.is_empty());
    let words = &seen.troubles[&Kind::Refused].1;
    assert!(words.contains("not sent again: the server asks for a wait of 1 s"), "{words}");
}

#[test]
fn a_connection_that_was_reset_before_an_answer_is_retried_after_streams() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    let options = Options { retries: 2, connections: 1, ..Options::default() };
    let (played, client) = played(below(&server, "reset"), 11, options);
    assert!(played.record.failed.is_empty(), "{:?}", client.trouble());
    assert!(client.statistics().retries[&Kind::Closed] >= 2);
}

fn adapted(
    server: &FaultServer,
    mode: &str,
    fields: &[(String, String)],
) -> Result<AdaptedServer, String> {
    let query = ServerQuery {
        endpoint: &below(server, mode),
        version: dyno_net::exchange::HttpVersion::Http1,
        fields,
        trust: &Trust::default(),
        secrets: &[],
        limit: Duration::from_secs(20),
    };
    adapt(&query, &workload(), openai()).map_err(|trouble| trouble.to_string())
}

fn question<'a>(endpoint: &'a Endpoint, version: HttpVersion, trust: &'a Trust) -> ServerQuery<'a> {
    let limit = Duration::from_secs(20);
    ServerQuery { endpoint, version, fields: &[], trust, secrets: &[], limit }
}

const DONE: &str = "data: [DONE]";

/// The begin of an answer whose end is that of the connection.
const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\": []}\n\n";

#[test]
fn a_stream_before_a_run_ends_although_its_body_does_not() {
    // The connection stays open until the client closes it, and in the second case the server goes on.
    let silent = Faulty::start(|mut stream| {
        if request(&mut stream).is_some() {
            let _ = stream.write_all(format!("{STREAM}{DONE}\n\n").as_bytes());
            let _ = request(&mut stream);
        }
    });
    let pinging = Faulty::start(|mut stream| {
        if request(&mut stream).is_some() {
            let _ = stream.write_all(format!("{STREAM}data: [DO").as_bytes());
            let _ = stream.write_all(b"NE]\n\n: ping\n\n");
            let pause = Some(Duration::from_millis(50));
            stream.set_read_timeout(pause).unwrap();
            // Nothing to read is the end of the client's side.
            let is_over =
                |stream: &mut TcpStream| stream.read(&mut [0]).is_ok_and(|read| read == 0);
            while !is_over(&mut stream) && stream.write_all(b": ping\n\n").is_ok() {}
        }
    });
    let trust = Trust::default();
    let request = Request {
        method: Method::Post,
        path: "/v1/chat/completions".into(),
        fields: Vec::new(),
        body: "{}".into(),
    };
    for server in [silent, pinging] {
        let endpoint = endpoint(server.address);
        let answer = question(&endpoint, HttpVersion::Http1, &trust).exchange(&request).unwrap();
        let body = String::from_utf8_lossy(answer.body());
        assert!(body.contains(&format!("{DONE}\n\n")), "{body}");
    }
}

/// An addition to a chat and the end of the stream in Brotli, flushed, as Python's package brotli writes them.
const BROTLI: &[u8] =
    b"\x03\x23\x00\x00\x04\xfe\x73\xe7\x5f\xa8\x3d\x0e\xe2\xcf\xa5\x35\xbf\x1d\x24\x7c\
      \x3b\xd8\x80\x03\x87\x88\xa7\xc0\x36\xda\x60\xd8\x18\x3b\x53\x3c\x35\x23\x86\x2c\
      \xf1\x28\x9a\x27\x8e\x42\x22\x5e\x93\x88\x0f\x2e\x8e\xdf\x8e\xf9\x74\x67\x4b\x70\
      \xc5\x7e\xf7\xa4\x64\x00";

#[test]
fn each_interface_ends_its_answer_before_a_run_although_the_body_does_not_end() {
    let events = |data: &str| format!("data: {data}\n\n").into_bytes();
    let chat = r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#;
    let whole_chat = [events(chat), events("[DONE]")].concat();
    let (stream, lines) = ("text/event-stream", "application/x-ndjson");
    for (api, kind, body) in [
        (Api::Chat, stream, events(r#"{"error":{"message":"no","code":500}}"#)),
        (
            Api::Chat,
            "text/event-stream\r\ncontent-encoding: gzip",
            Coding::Gzip.compressed(&whole_chat).to_vec(),
        ),
        (Api::Chat, "text/event-stream\r\ncontent-encoding: br", BROTLI.to_vec()),
        (Api::Messages, stream, events(r#"{"type":"message_stop"}"#)),
        (Api::Responses, stream, events(r#"{"type":"response.completed","response":{}}"#)),
        (
            Api::Responses,
            stream,
            events(r#"{"type":"response.failed","response":{"error":{"message":"no"}}}"#),
        ),
        (Api::Ollama, lines, "{\"message\":{\"content\":\"a\"},\"done\":true}\n".into()),
        (Api::Tgi, stream, events(r#"{"token":{"text":"a"},"generated_text":"a"}"#)),
        (Api::Images, stream, events(r#"{"type":"image_generation.completed","b64_json":"AAAA"}"#)),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n");
        let answer = [head.into_bytes(), body].concat();
        let server = Faulty::start(move |mut stream| {
            if request(&mut stream).is_some() {
                let _ = stream.write_all(&answer);
                let _ = request(&mut stream);
            }
        });
        let input = match api {
            Api::Tgi | Api::Images => Input::Text("Say".into()),
            _ => Input::Messages(vec![Message::new("user", "Say")]),
        };
        let workload = Workload { prompts: vec![Prompt::new(input)], ..Workload::default() };
        let settings = Settings { api: Some(api), ..openai() };
        let (endpoint, trust) = (endpoint(server.address), Trust::default());
        let query = question(&endpoint, HttpVersion::Http1, &trust);
        let found = adapt(&query, &Arc::new(workload), settings).unwrap();
        assert_eq!((found.requests, found.silence), (1, None), "{api:?}");
    }
}

#[test]
fn an_unsupported_coding_is_named_before_a_run() {
    let server = |status: u16| {
        Faulty::start(move |mut stream| {
            while request(&mut stream).is_some() {
                let fields = "content-encoding: zstd\r\ncontent-length: 4";
                let head = format!("HTTP/1.1 {status} X\r\n{fields}\r\n\r\n");
                if stream.write_all(&[head.as_bytes(), &b"\x28\xb5\x2f\xfd"[..]].concat()).is_err()
                {
                    return;
                }
            }
        })
    };
    let asked = Request {
        method: Method::Get,
        path: "/v1/models".into(),
        fields: Vec::new(),
        body: Default::default(),
    };
    let named = "the answer is compressed with 'zstd'; expected gzip, deflate, br or none";
    let (answers, refuses, trust) = (server(200), server(400), Trust::default());
    let answered = endpoint(answers.address);
    let trouble = question(&answered, HttpVersion::Http1, &trust).exchange(&asked).unwrap_err();
    assert_eq!((trouble.kind, &*trouble.words), (Kind::Malformed, named));
    let refused = endpoint(refuses.address);
    let answer = question(&refused, HttpVersion::Http1, &trust).exchange(&asked).unwrap();
    assert_eq!((answer.status, &*answer.words()), (400, named));
}

#[test]
fn an_answer_before_a_run_may_be_compressed_unasked() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    let (trust, compressed) = (Trust::default(), below(&server, "gzip"));
    let request = Request {
        method: Method::Post,
        path: "/v1/chat/completions".into(),
        fields: Vec::new(),
        body: "{}".into(),
    };
    let answer = question(&compressed, HttpVersion::Http1, &trust).exchange(&request).unwrap();
    assert!(answer.body().starts_with(b"{\"choices\""), "{answer:?}");
    let address = http2::serve(None, |_, mut respond| async move {
        let about = ServerMetadataResponse { name: "s".into(), ..Default::default() };
        let body = grpc::message_compressed(&grpc::framed(&about), Coding::Gzip);
        let head = http::Response::builder()
            .header("content-type", grpc::CONTENT_TYPE)
            .header(grpc::ENCODING, "gzip");
        let mut sending = respond.send_response(head.body(()).unwrap(), false).unwrap();
        sending.send_data(body, false).unwrap();
        let status = (grpc::STATUS.parse().unwrap(), "0".parse().unwrap());
        sending.send_trailers([status].into_iter().collect()).unwrap();
    });
    let endpoint = endpoint(address);
    let question = question(&endpoint, HttpVersion::Http2, &trust);
    let about = question.call::<ServerMetadataResponse>(SERVER_METADATA, &Empty {}).unwrap();
    assert_eq!(about.name, "s");
}

#[test]
fn a_server_with_tls_at_an_endpoint_without_it_is_an_error() {
    let (config, _) = certified("localhost", 2999, b"http/1.1");
    let secure = Faulty::start(move |stream| {
        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
        let _ = request(&mut rustls::StreamOwned::new(connection, stream));
    });
    let plain = Faulty::start(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    for (server, is_secure) in [(&secure, true), (&plain, false)] {
        let endpoint = format!("http://localhost:{}", server.address.port());
        let query = ServerQuery {
            endpoint: &endpoint.parse().unwrap(),
            version: dyno_net::exchange::HttpVersion::Http1,
            fields: &[],
            trust: &Trust::default(),
            secrets: &[],
            limit: Duration::from_secs(20),
        };
        assert_eq!(query.speaks_tls(), is_secure);
        if is_secure {
            let trouble = adapt(&query, &workload(), openai()).map(drop).unwrap_err();
            assert_eq!(trouble.kind, Kind::Tls, "{trouble}");
            assert!(trouble.words.contains("use https://"), "{trouble}");
        }
    }
}

#[test]
fn what_a_server_rejects_is_replaced_before_a_run() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    let found = adapted(&server, "ok", &[]).unwrap();
    assert_eq!((found.requests, found.remarks.len()), (1, 0));
    let found = adapted(&server, "nomax", &[]).unwrap();
    assert_eq!(found.settings.limit_member, LimitMember::MaxCompletionTokens);
    assert_eq!((found.requests, found.remarks.len()), (2, 1));
    let found = adapted(&server, "noopts", &[]).unwrap();
    assert!(!found.settings.asks_usage && found.remarks[0].contains("stream_options"));
    // Neither changes anything that helps. A request that is wrong stays wrong.
    for mode in ["auth", "e500", "notfound", "html"] {
        let found = adapted(&server, mode, &[]).unwrap();
        assert_eq!((found.requests, found.remarks.len()), (1, 0), "{mode}");
        assert_eq!(found.rejection.is_some(), matches!(mode, "auth" | "notfound"), "{mode}");
    }
}

/// A whole answer of a chat.
const WHOLE_ANSWER: &str = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;

/// Reports an error with a status of success to requests with this member, and answers others with `other`.
fn reporting(member: &'static str, other: &'static str, is_event: bool) -> Faulty {
    Faulty::start(move |mut stream| {
        while let Some(body) = request(&mut stream) {
            let has_member = String::from_utf8_lossy(&body).contains(&format!("\"{member}\""));
            let error = format!(r#"{{"error":{{"message":"unknown member {member}"}}}}"#);
            let answer = if has_member { error } else { other.to_owned() };
            let answer = if is_event { format!("data: {answer}\n\n") } else { answer };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_rejected_member_may_be_named_beside_the_message() {
    for error in [
        r#"{"error":{"message":"Invalid parameter.","param":"stream_options","code":"unknown"}}"#,
        r#"{"detail":"1 validation error for Request\nstream_options\n  extra fields not permitted"}"#,
    ] {
        let server = Faulty::start(move |mut stream| {
            while let Some(body) = request(&mut stream) {
                let is_rejected = String::from_utf8_lossy(&body).contains("\"stream_options\"");
                let (status, answer) = if is_rejected { (400, error) } else { (200, WHOLE_ANSWER) };
                let length = answer.len();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
                if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
                    return;
                }
            }
        });
        let (endpoint, trust) = (endpoint(server.address), Trust::default());
        let query = question(&endpoint, HttpVersion::Http1, &trust);
        let found = adapt(&query, &workload(), openai()).unwrap();
        assert!(!found.settings.asks_usage && found.remarks[0].contains("stream_options"));
        assert_eq!((found.requests, found.rejection.is_some()), (2, false));
    }
}

#[test]
fn a_limit_that_is_too_low_is_replaced_by_that_of_the_run() {
    let adapted = |least: u64| {
        let server = Faulty::start(move |mut stream| {
            while let Some(body) = request(&mut stream) {
                let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
                let is_low = json["max_tokens"].as_u64().is_none_or(|limit| limit < least);
                let error = r#"{"error":{"message":"Please try again with higher max_tokens."}}"#;
                let (status, answer) = if is_low { (400, error) } else { (200, WHOLE_ANSWER) };
                let length = answer.len();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
                if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
                    return;
                }
            }
        });
        let (endpoint, trust) = (endpoint(server.address), Trust::default());
        adapt(&question(&endpoint, HttpVersion::Http1, &trust), &workload(), openai()).unwrap()
    };
    let found = adapted(2);
    assert_eq!(found.settings.limit_member, LimitMember::MaxTokens);
    assert_eq!((found.requests, found.rejection), (2, None));
    assert!(found.remarks[0].contains("rejects a very low limit"), "{:?}", found.remarks);
    // The limit of the run is too low as well.
    let found = adapted(5);
    assert_eq!((found.requests, found.remarks.len()), (3, 0));
    assert!(found.rejection.is_some_and(|trouble| trouble.words.contains("higher max_tokens")));
}

#[test]
fn an_error_with_a_status_of_success_is_a_rejection() {
    let adapted = |server: &Faulty| {
        let (endpoint, trust) = (endpoint(server.address), Trust::default());
        let query = question(&endpoint, HttpVersion::Http1, &trust);
        adapt(&query, &workload(), openai()).unwrap()
    };
    for is_event in [false, true] {
        let found = adapted(&reporting("max_tokens", WHOLE_ANSWER, is_event));
        assert_eq!(found.settings.limit_member, LimitMember::MaxCompletionTokens);
        assert_eq!((found.requests, found.remarks.len()), (2, 1));
        let found = adapted(&reporting("stream_options", WHOLE_ANSWER, is_event));
        assert!(!found.settings.asks_usage && found.remarks[0].contains("stream_options"));
        // What does not help is not kept.
        let unknown = r#"{"error":{"message":"unknown member"}}"#;
        let found = adapted(&reporting("max_tokens", unknown, is_event));
        assert_eq!(found.settings.limit_member, LimitMember::MaxTokens);
        assert_eq!((found.requests, found.remarks.len()), (2, 0));
        // A busy server does not show that it did not help.
        let busy = r#"{"error":{"message":"busy","code":503}}"#;
        let found = adapted(&reporting("stream_options", busy, is_event));
        assert!(!found.settings.asks_usage && found.remarks[0].contains("stream_options"));
        assert_eq!((found.requests, found.remarks.len()), (2, 1));
    }
}

#[test]
fn a_redirection_within_the_origin_is_followed_once() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    let secret = [("authorization".to_owned(), "Bearer sesame".to_owned())];
    let found = adapted(&server, "redirect", &secret).unwrap();
    assert_eq!(found.endpoint, below(&server, "ok"));
    assert_eq!((found.requests, found.remarks.len()), (2, 1));
    let (played, client) = played(found.endpoint, 2, Options::default());
    assert!(played.record.failed.is_empty(), "{:?}", client.trouble());
}

/// Answers requests whose body holds none of these texts, and rejects the others.
fn rejecting(texts: &'static [&str]) -> Faulty {
    Faulty::start(move |mut stream| {
        while let Some(body) = request(&mut stream) {
            let body = String::from_utf8_lossy(&body);
            let (status, answer) = if texts.iter().any(|text| body.contains(text)) {
                (400, r#"{"error":{"message":"the context has 8 tokens"}}"#)
            } else {
                (200, r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#)
            };
            let length = answer.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
            if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_prompt_that_is_rejected_alone_is_no_rejection_of_all() {
    let prompt = |text: &str| Prompt::new(Input::Messages(vec![Message::new("user", text)]));
    let adapted = |server: &Faulty, texts: &[&str]| {
        let prompts = texts.iter().map(|text| prompt(text)).collect();
        let workload = Arc::new(Workload { prompts, ..Workload::default() });
        let query = ServerQuery {
            endpoint: &endpoint(server.address),
            version: dyno_net::exchange::HttpVersion::Http1,
            fields: &[],
            trust: &Trust::default(),
            secrets: &[],
            limit: Duration::from_secs(20),
        };
        adapt(&query, &workload, openai()).unwrap()
    };
    let server = rejecting(&["first"]);
    let found = adapted(&server, &["first", "first", "another one", "third"]);
    assert!(found.rejection.is_none() && found.refusal.is_none());
    assert_eq!((found.requests, found.remarks.len()), (2, 1));
    let words = "The server rejects the first prompt (HTTP status 400: the context has 8 tokens)";
    assert!(found.remarks[0].starts_with(words), "{}", found.remarks[0]);
    // All prompts, and a prompt without another one.
    for prompts in [&["first", "first"][..], &["first"]] {
        let found = adapted(&server, prompts);
        assert_eq!((found.requests, found.remarks.len()), (1, 0));
        assert!(found.rejection.is_some());
    }
    let found = adapted(&rejecting(&["user"]), &["first", "second", "third"]);
    assert_eq!((found.requests, found.remarks.len()), (2, 0));
    let words = found.rejection.unwrap().words;
    assert_eq!(words, "HTTP status 400: the context has 8 tokens");
    let found = adapted(&server, &["second", "first"]);
    assert_eq!((found.requests, found.remarks.len()), (1, 0));
}
