//! TLS: good certificates, and bad ones.

use std::io::{Read as _, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use dyno_loadgen::clock::SECOND;
use dyno_loadgen::settings::Scenario;
use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::protocol::Protocol;
use dyno_net::tls::{Authorities, Fingerprint, Identity, Trust};
use dyno_net::trouble::Kind;
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::faults::{Faulty, request};
use super::played::{client, play, settings};
use super::protocols::{Fixed, Lines, SMALL};
use super::troubles::check_all_fail;

/// A certificate that vouches for itself, as a server and as a client need it.
pub fn certified(name: &str, until: i32, alpn: &[u8]) -> (Arc<ServerConfig>, Vec<u8>) {
    let (config, certificate) = self_signed(name, until, alpn, IsCa::NoCa, None);
    (config, certificate.pem().into_bytes())
}

/// A server with a certificate that vouches for itself. If `client` has authorities, the server
/// requires a certificate of its clients.
fn self_signed(
    name: &str,
    until: i32,
    alpn: &[u8],
    is_ca: IsCa,
    client: Option<RootCertStore>,
) -> (Arc<ServerConfig>, Certificate) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = is_ca;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match client {
        None => config.with_no_client_auth(),
        Some(roots) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let mut config = config.with_single_cert(chain, private).unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    (Arc::new(config), certificate)
}

/// A server of echoes.
fn server(name: &str, until: i32) -> (Faulty, Vec<u8>) {
    let (config, pem) = certified(name, until, b"http/1.1");
    (echo(config), pem)
}

fn echo(config: Arc<ServerConfig>) -> Faulty {
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
    Faulty::start(script)
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
        let options = trusting(Trust::only(pem.clone()));
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
    check_refused(
        &server,
        Trust { authorities: Authorities::And(pem), ..Trust::default() },
        "renew it",
    );
}

#[test]
fn a_certificate_of_another_name() {
    let (server, pem) = server("elsewhere.example", 2999);
    check_refused(&server, Trust::only(pem), "use a host name of the certificate");
}

#[test]
fn a_certificate_that_nobody_vouches_for() {
    let (server, _) = server("localhost", 2999);
    check_refused(&server, Trust::default(), "the certificate of its authority");
}

fn check_answers(node: Endpoint, trust: Trust) {
    let (client, library) = client(SMALL, &[node], trusting(trust));
    let played = play(&client, &library, &settings(Scenario::Offline, 5, 1.0));
    assert_eq!((played.record.missing(), played.record.failed.len()), (0, 0));
    assert_eq!(client.statistics().answered, 5, "{:?}", client.trouble());
}

/// As `openssl req -x509` makes them: certificates of servers that claim to be authorities.
#[test]
fn a_certificate_that_claims_to_be_an_authority_vouches_for_itself() {
    let ca = || IsCa::Ca(BasicConstraints::Unconstrained);
    let (config, certificate) = self_signed("localhost", 2999, b"http/1.1", ca(), None);
    let server = echo(config);
    let pem = certificate.pem().into_bytes();
    check_answers(node(&server), Trust::only(pem.clone()));
    check_answers(
        node(&server),
        Trust { authorities: Authorities::And(pem.clone()), ..Trust::default() },
    );
    // Its name and dates count all the same.
    let (config, certificate) = self_signed("a.example", 2999, b"http/1.1", ca(), None);
    let other = Trust::only(certificate.pem().into_bytes());
    check_refused(&echo(config), other, "use a host name of the certificate");
    let (config, certificate) = self_signed("localhost", 2001, b"http/1.1", ca(), None);
    check_refused(&echo(config), Trust::only(certificate.pem().into_bytes()), "renew it");
    // And one that was given vouches for no other.
    let (config, _) = certified("localhost", 2999, b"http/1.1");
    check_refused(&echo(config), Trust::only(pem), "the certificate of its authority");
}

#[test]
fn a_fingerprint_accepts_one_certificate_whatever_its_name() {
    let (config, certificate) = self_signed("a.example", 2001, b"http/1.1", IsCa::NoCa, None);
    let hash = ring::digest::digest(&ring::digest::SHA256, certificate.der());
    let pinned = |hash: &[u8]| Trust {
        fingerprints: vec![Fingerprint(hash.try_into().unwrap())],
        ..Trust::default()
    };
    let server = echo(config);
    check_answers(node(&server), pinned(hash.as_ref()));
    let shown = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    check_refused(&server, pinned(&[7; 32]), &format!("sha256:{shown}"));
}

#[test]
fn any_certificate_is_accepted_on_demand() {
    let (server, _) = server("a.example", 2001);
    check_answers(node(&server), Trust { is_unverified: true, ..Trust::default() });
}

#[test]
fn a_server_that_requires_a_certificate_gets_that_of_the_client() {
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["client".to_owned()]).unwrap();
    let own = own.self_signed(&own_key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.der().clone()).unwrap();
    let (config, certificate) =
        self_signed("localhost", 2999, b"http/1.1", IsCa::NoCa, Some(roots));
    let server = echo(config);
    let trust = Trust::only(certificate.pem().into_bytes());
    let certificates = own.pem().into_bytes();
    let identity = Some(Identity { certificates, key: own_key.serialize_pem().into_bytes() });
    check_answers(node(&server), Trust { identity, ..trust.clone() });
    check_refused(&server, trust, "client-cert=FILE.pem");
}

/// A proxy that connects to the server that it is asked for, and counts its connections.
fn proxy(connections: &'static AtomicUsize) -> Faulty {
    Faulty::start(move |mut stream| {
        let mut head = Vec::new();
        let mut byte = [0; 1];
        while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let server = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap();
        connections.fetch_add(1, SeqCst);
        let to = TcpStream::connect(server).unwrap();
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let (mut from, mut back) = (stream.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut { to }));
        let _ = std::io::copy(&mut back, &mut stream);
    })
}

#[test]
fn tls_goes_through_a_tunnel_of_a_proxy() {
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    let (server, pem) = server("localhost", 2999);
    let proxy = proxy(&CONNECTIONS);
    let way = super::played::endpoint(proxy.address);
    check_answers(node(&server).through(way), Trust::only(pem));
    assert!(CONNECTIONS.load(SeqCst) > 0);
}

#[test]
fn a_server_without_tls() {
    let server = Faulty::start(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        super::faults::silence(stream);
    });
    check_refused(&server, Trust::default(), "may use http");
}

#[test]
fn streams_over_tls() {
    let (config, pem) = certified("localhost", 2999, b"h2");
    let server = super::http2::serve(Some(config), |_, mut respond| async move {
        let mut sending = respond.send_response(http::Response::new(()), false).unwrap();
        sending.send_data(bytes::Bytes::from_static(b"x\nend\n"), true).unwrap();
    });
    let protocol = Lines(HttpVersion::Http2);
    let (client, library) = client(protocol, &[at_port(server.port())], trusting(Trust::only(pem)));
    let played = play(&client, &library, &settings(Scenario::Offline, 100, 1.0));
    assert_eq!(played.record.missing(), 0);
    assert_eq!(client.statistics().answered, 100, "{:?}", client.trouble());
}

#[test]
fn bad_certificates_of_servers_of_http2() {
    let protocol = || Box::new(Lines(HttpVersion::Http2)) as Box<dyn Protocol>;
    let (config, pem) = certified("localhost", 2001, b"h2");
    let expired = super::http2::serve(Some(config), |_, _| async {});
    let options = trusting(Trust::only(pem));
    check_all_fail(protocol, &at_port(expired.port()), &options, Kind::Tls, "renew it");
    // Nothing is wrong with this one, but that it speaks HTTP/1.1 alone.
    let (sound, pem) = server("localhost", 2999);
    let options = trusting(Trust::only(pem));
    check_all_fail(protocol, &node(&sound), &options, Kind::Tls, "does not offer");
}
