//! TLS: good certificates, and bad ones.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use dyno_loadgen::clock::SECOND;
use dyno_loadgen::settings::Scenario;
use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::protocol::Protocol;
use dyno_net::tls::Trust;
use dyno_net::trouble::Kind;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::faults::{Faulty, request};
use super::played::{client, play, settings};
use super::protocols::{Fixed, Lines, SMALL};
use super::troubles::check_all_fail;

/// A certificate that vouches for itself, as a server and as a client need it.
pub fn certified(name: &str, until: i32, alpn: &[u8]) -> (Arc<ServerConfig>, Vec<u8>) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    (Arc::new(config), certificate.pem().into_bytes())
}

/// A server of echoes.
fn server(name: &str, until: i32) -> (Faulty, Vec<u8>) {
    let (config, pem) = certified(name, until, b"http/1.1");
    let script = move |stream: TcpStream| {
        let connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        while let Some(body) = request(&mut stream) {
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let sent = stream.write_all(answer.as_bytes());
            if sent.and_then(|()| stream.write_all(&body)).is_err() {
                return;
            }
        }
    };
    (Faulty::start(script), pem)
}

fn node(server: &Faulty) -> Endpoint {
    at_port(server.address.port())
}

fn at_port(port: u16) -> Endpoint {
    format!("https://localhost:{port}").parse().unwrap()
}

fn trusting(trust: Trust) -> Options {
    Options { connections: 3, connect_limit: 5 * SECOND, trust, ..Options::default() }
}

#[test]
fn echoes_come_back_over_tls() {
    let (server, pem) = server("localhost", 2999);
    for len in [8, 3 << 20] {
        let protocol = Fixed { version: HttpVersion::Http1, samples: 4, body: len };
        let options = trusting(Trust::Only(pem.clone()));
        let (client, library) = client(protocol, &[node(&server)], options);
        for scenario in [Scenario::SingleStream, Scenario::Offline] {
            let played = play(&client, &library, &settings(scenario, 12, 1.0));
            assert_eq!(played.record.missing(), 0, "{:?}", client.trouble());
            for response in played.record.responses.iter() {
                let sample = played.record.indices[response.sequence as usize];
                assert_eq!(response.data, super::protocols::body_of(sample, len));
            }
        }
        assert_eq!((client.statistics().answered, client.statistics().connects), (24, 3));
    }
}

fn check_refused(server: &Faulty, trust: Trust, words: &str) {
    let protocol = || Box::new(SMALL) as Box<dyn Protocol>;
    check_all_fail(protocol, &node(server), &trusting(trust), Kind::Tls, words);
}

#[test]
fn a_certificate_that_has_expired() {
    let (server, pem) = server("localhost", 2001);
    check_refused(&server, Trust::And(pem), "renew it");
}

#[test]
fn a_certificate_of_another_name() {
    let (server, pem) = server("elsewhere.example", 2999);
    check_refused(&server, Trust::Only(pem), "use a name that it is of");
}

#[test]
fn a_certificate_that_nobody_vouches_for() {
    let (server, _) = server("localhost", 2999);
    check_refused(&server, Trust::Public, "the certificate of its authority");
}

#[test]
fn a_server_without_tls() {
    let server = Faulty::start(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        super::faults::silence(stream);
    });
    check_refused(&server, Trust::Public, "speaks http there");
}

#[test]
fn streams_over_tls() {
    let (config, pem) = certified("localhost", 2999, b"h2");
    let server = super::http2::serve(Some(config), |_, mut respond| async move {
        let mut sending = respond.send_response(http::Response::new(()), false).unwrap();
        sending.send_data(bytes::Bytes::from_static(b"x\nend\n"), true).unwrap();
    });
    let protocol = Lines(HttpVersion::Http2);
    let (client, library) = client(protocol, &[at_port(server.port())], trusting(Trust::Only(pem)));
    let played = play(&client, &library, &settings(Scenario::Offline, 100, 1.0));
    assert_eq!(played.record.missing(), 0);
    assert_eq!(client.statistics().answered, 100, "{:?}", client.trouble());
}

#[test]
fn bad_certificates_of_servers_of_http2() {
    let protocol = || Box::new(Lines(HttpVersion::Http2)) as Box<dyn Protocol>;
    let (config, pem) = certified("localhost", 2001, b"h2");
    let expired = super::http2::serve(Some(config), |_, _| async {});
    let options = trusting(Trust::Only(pem));
    check_all_fail(protocol, &at_port(expired.port()), &options, Kind::Tls, "renew it");
    // Nothing is wrong with this one, but that it speaks HTTP/1.1 alone.
    let (sound, pem) = server("localhost", 2999);
    let options = trusting(Trust::Only(pem));
    check_all_fail(protocol, &node(&sound), &options, Kind::Tls, "does not offer");
}
