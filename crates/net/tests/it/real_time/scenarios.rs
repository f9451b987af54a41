//! The scenarios, each against a sink.

use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_net::client::Options;
use dyno_net::sink;

use super::played::{client, endpoint, play, settings};
use super::protocols::SMALL;

const LOOPBACK: &str = "127.0.0.1:0";

#[test]
fn each_scenario_is_played_to_its_end() {
    let sink = sink::Http1::start(LOOPBACK.parse().unwrap(), "text/plain", b"yes").unwrap();
    let options = Options { connections: 4, ..Options::default() };
    let (client, library) = client(SMALL, &[endpoint(sink.address())], options);
    let mut sent = 0;
    for (scenario, queries, samples) in [
        (Scenario::SingleStream, 200, 200),
        (Scenario::MultiStream, 50, 400),
        (Scenario::Server, 300, 300),
        (Scenario::Offline, 2_000, 2_000),
    ] {
        let played = play(&client, &library, &settings(scenario, queries, 5_000.0));
        let record = &played.record;
        assert_eq!((record.completed_at.len(), record.missing()), (samples, 0), "{scenario:?}");
        assert_eq!((record.failed.len(), record.misuse.total()), (0, 0), "{scenario:?}");
        let bodies = record.responses.iter().map(|response| response.data.to_vec());
        assert!(bodies.eq(std::iter::repeat_n(b"yes".to_vec(), samples)));
        let accepted = client.accepted(0, samples);
        for (sample, (&at, &done)) in accepted.iter().zip(&record.completed_at).enumerate() {
            let query = sample / record.samples_per_query;
            assert!(at >= record.scheduled(query) && done > 0, "{scenario:?}: sample {sample}");
        }
        sent += samples as u64;
    }
    let seen = client.statistics();
    assert_eq!((seen.sent, seen.answered, seen.connects), (sent, sent, 4));
    assert_eq!((seen.failed(), seen.lost_connections, sink.requests()), (0, 0, sent));
    assert!(seen.connection_waits > 0 && seen.longest_wait_ns <= seen.waited_ns);
    assert_eq!(client.trouble(), None);
}

#[test]
fn several_threads_issue_through_one_client() {
    let sink = sink::Http1::start(LOOPBACK.parse().unwrap(), "text/plain", b"yes").unwrap();
    // Fewer connections than queries under way: threads and event loops hand them over.
    let threads = std::num::NonZero::new(2);
    let options = Options { connections: 3, threads, ..Options::default() };
    let (client, library) = client(SMALL, &[endpoint(sink.address())], options);
    let settings = TestSettings {
        server_num_issue_query_threads: 3,
        ..settings(Scenario::Server, 6_000, 30_000.0)
    };
    let played = play(&client, &library, &settings);
    let record = &played.record;
    assert_eq!((record.missing(), record.failed.len(), record.misuse.total()), (0, 0, 0));
    assert_eq!(record.completed_at.len() as u64, client.statistics().answered);
    assert!(client.accepted(0, record.completed_at.len()).iter().all(|&at| at > 0));
}
