//! Accounts of answers, over both versions of HTTP: one an answer, whatever its class.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use dyno_loadgen::clock::SECOND;
use dyno_loadgen::record::Failure;
use dyno_loadgen::settings::Scenario;
use dyno_net::client::Options;
use dyno_net::exchange::HttpVersion;
use dyno_net::ledger::{AcceptedClasses, Class, Contradiction};
use dyno_net::openai::{Input, LimitMember, OpenAi, Settings};
use dyno_net::protocol::TokenCounter;
use dyno_net::trouble::Kind;
use dyno_net::workload::{Prompt, Workload};

use super::faults::{Faulty, request};
use super::http2::serve;
use super::played::{client, endpoint, play, settings};

/// What the prompts ask for, by name, and what is sent.
const ANSWERS: [(&str, Class, &str); 7] = [
    (
        "whole",
        Class::Whole,
        "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n\
         data: [DONE]\n\n",
    ),
    (
        "lying",
        Class::Whole,
        "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"},\"finish_reason\":\"stop\"}]}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":99}}\n\n\
         data: [DONE]\n\n",
    ),
    ("empty", Class::Empty, "data: [DONE]\n\n"),
    ("cut", Class::Cut, "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\n"),
    (
        "aborted",
        Class::Aborted,
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"abort\"}]}\n\n\
         data: [DONE]\n\n",
    ),
    (
        "error",
        Class::InBand,
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
         data: {\"error\":{\"message\":\"engine died\"}}\n\n",
    ),
    // As older versions of llama.cpp report it.
    (
        "field of error",
        Class::InBand,
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
         error: {\"code\":500,\"message\":\"engine died\",\"type\":\"server_error\"}\n\n\
         data: [DONE]\n\n",
    ),
];

fn answer_to(body: &[u8]) -> &'static str {
    let body = String::from_utf8_lossy(body);
    let asked = ANSWERS.iter().find(|(name, ..)| body.contains(&format!("\"{name}\"")));
    asked.expect("a prompt is the name of an answer").2
}

fn protocol(version: HttpVersion) -> OpenAi {
    let prompt = |(name, ..): (&str, Class, &str)| Prompt::new(Input::Text(name.into()));
    let workload = Workload { prompts: ANSWERS.map(prompt).into(), ..Workload::default() };
    let settings = Settings {
        model: "m".into(),
        is_streaming: true,
        asks_usage: true,
        max_tokens: Some(7),
        limit_member: LimitMember::default(),
        others: serde_json::Map::new(),
        tokenizer: None,
        accepted: AcceptedClasses::default(),
        version,
        ..Settings::default()
    };
    OpenAi::new(Arc::new(workload), settings)
}

fn check(server: SocketAddr, version: HttpVersion) {
    let time_limit = Some(30 * SECOND);
    let options = Options { connections: 2, time_limit, ..Options::default() };
    let (client, library) = client(protocol(version), &[endpoint(server)], options);
    let played = play(&client, &library, &settings(Scenario::Offline, 60, 1.0));
    let record = &played.record;
    assert_eq!((record.missing(), record.misuse.total()), (0, 0), "{:?}", client.trouble());
    let accounts = client.ledger(0, record.completed_at.len());
    assert_eq!(accounts.len(), record.completed_at.len());
    for (sample, account) in accounts.iter().enumerate() {
        let (name, class, _) = ANSWERS[record.indices[sample] as usize];
        let account = account.expect("an answer has an account");
        assert_eq!((account.class, account.demand.most), (class, Some(7)), "{name}");
        assert!(account.ended_at > 0, "{name}");
        let failed = record.failed.iter().find(|(failed, _)| *failed == sample as u64);
        let expected = class.trouble().map(Kind::failure);
        assert_eq!(failed.map(|(_, failure)| *failure), expected, "{name}");
        match name {
            "whole" => {
                let counts = (account.input, account.output, account.counted_by);
                assert_eq!(counts, (Some(5), Some(2), TokenCounter::Server));
            }
            "lying" => {
                assert!(account.contradictions.contains(Contradiction::MoreTokensThanBytes));
                assert_eq!((account.claimed, account.counted_by), (Some(99), TokenCounter::Events));
            }
            _ => {}
        }
    }
    let seen = client.statistics();
    assert_eq!(seen.troubles[&Kind::Empty].1, "the answer has no output");
    assert_eq!(
        seen.troubles[&Kind::InBand].1,
        "the server reports an error in its answer: engine died"
    );
    assert_eq!(Kind::InBand.failure(), Failure::Internal);
    // Another run begins with an empty ledger.
    let again = play(&client, &library, &settings(Scenario::SingleStream, 3, 1.0));
    let accounts = client.ledger(0, 60);
    assert_eq!(accounts.iter().flatten().count(), again.record.completed_at.len());
}

#[test]
fn each_answer_has_an_account_over_http_1() {
    let server = Faulty::start(|mut stream| {
        while let Some(body) = request(&mut stream) {
            let answer = answer_to(&body);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
                return;
            }
        }
    });
    check(server.address, HttpVersion::Http1);
}

#[test]
fn each_answer_has_an_account_over_http_2() {
    let server = serve(None, |request, mut respond| async move {
        let (mut body, mut bytes) = (request.into_body(), Vec::new());
        while let Some(Ok(data)) = body.data().await {
            let _ = body.flow_control().release_capacity(data.len());
            bytes.extend_from_slice(&data);
        }
        let head = http::Response::builder().header("content-type", "text/event-stream");
        let Ok(mut sending) = respond.send_response(head.body(()).unwrap(), false) else { return };
        let _ = sending.send_data(Bytes::from_static(answer_to(&bytes).as_bytes()), true);
    });
    check(server, HttpVersion::Http2);
}

/// Returns content in the coding gzip, without the last bytes of its checksum.
fn gzip_without_end(content: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(content.as_bytes()).unwrap();
    let mut packed = packed.finish().unwrap();
    packed.truncate(packed.len() - 4);
    packed
}

#[test]
fn a_status_counts_although_its_body_cannot_be_decompressed() {
    for (coding, body, words) in [
        ("gzip", &b""[..], "HTTP status 429"),
        ("gzip", &b"no gzip at all"[..], "HTTP status 429: compressed content cannot be read"),
        ("zstd", &b"\x28\xb5"[..], "HTTP status 429: the answer is compressed with 'zstd'"),
    ] {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-encoding: {coding}\r\n\
             content-length: {length}\r\n\r\n"
        );
        let answer = [head.as_bytes(), body].concat();
        let server = Faulty::start(move |mut stream| {
            while request(&mut stream).is_some() && stream.write_all(&answer).is_ok() {}
        });
        let time_limit = Some(30 * SECOND);
        let options = Options { connections: 1, time_limit, ..Options::default() };
        let (client, library) =
            client(protocol(HttpVersion::Http1), &[endpoint(server.address)], options);
        let played = play(&client, &library, &settings(Scenario::SingleStream, 3, 1.0));
        let failed: Vec<_> = played.record.failed.iter().map(|(_, why)| *why).collect();
        assert_eq!(failed, [Failure::Rejected; 3], "{coding}: {:?}", client.trouble());
        let (count, first) = &client.statistics().troubles[&Kind::Refused];
        assert_eq!(*count, 3);
        assert!(first.contains(words), "{first}");
    }
}

#[test]
fn an_answer_that_the_end_of_the_connection_ends_too_early_is_cut() {
    const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"},\
                         \"finish_reason\":\"stop\"}]}\n\n";
    for (fields, body) in [
        ("content-type: text/event-stream\r\n", format!("{EVENT}data: {{\"choi").into_bytes()),
        ("content-type: application/json\r\n", b"{\"choices\":[{\"text\":\"a".to_vec()),
        ("content-encoding: gzip\r\n", gzip_without_end(EVENT)),
        ("content-encoding: identity\r\ncontent-encoding: gzip\r\n", gzip_without_end(EVENT)),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
        let answer = [head, body].concat();
        let server = Faulty::start(move |mut stream| {
            if request(&mut stream).is_some() {
                let _ = stream.write_all(&answer);
            }
        });
        let time_limit = Some(30 * SECOND);
        let options = Options { connections: 1, time_limit, ..Options::default() };
        let (client, library) =
            client(protocol(HttpVersion::Http1), &[endpoint(server.address)], options);
        let played = play(&client, &library, &settings(Scenario::SingleStream, 3, 1.0));
        let failed: Vec<_> = played.record.failed.iter().map(|(_, why)| *why).collect();
        assert_eq!(failed, [Failure::Cut; 3], "{fields}: {:?}", client.trouble());
    }
}
