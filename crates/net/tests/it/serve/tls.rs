//! TLS, with a certificate of the test's own.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_net::serve::{Limits, Listener, Server, Settings, TlsError, tls};
use dyno_sut::digits::DigitsPerceptron;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

/// Files that are removed at the end of a test.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn requests_come_through_tls_in_the_version_that_is_agreed_on() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = Files(folder);
    let (cert, key) = (files.0.join("cert.pem"), files.0.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();

    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = Listener { socket, tls: Some(tls(&cert, &key, None).unwrap()) };
    let model = Arc::new(DigitsPerceptron::new().by_value(32));
    let models = vec![super::tensors("digits", model, 1, 8)];
    let settings = Settings {
        node: "Network SUT tls".into(),
        limits: Limits::default(),
        compresses: false,
        token: None,
    };
    let server = Server::start(settings, models, vec![listener]).unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    for (offered, agreed) in [(vec![], None), (vec![b"h2".to_vec()], Some(&b"h2"[..]))] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots.clone());
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = offered;
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = super::wire::connect(server.addresses()[0]);
        let mut stream = Stream::new(&mut client, &mut socket);
        if agreed.is_none() {
            let get = "GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(get.as_bytes()).unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert!(answer.contains("Network SUT tls"), "{answer}");
        } else {
            stream.flush().unwrap();
        }
        assert_eq!(client.alpn_protocol(), agreed);
    }
    assert_eq!(
        super::wire::connect(server.addresses()[0]).write(b"GET / HTTP/1.1\r\n").unwrap(),
        16
    );

    let missing = files.0.join("none.pem");
    let found = tls(&missing, &key, None).unwrap_err();
    assert!(matches!(&found, TlsError::File { path, .. } if *path == missing), "{found}");
    let found = tls(&key, &key, None).unwrap_err().to_string();
    assert!(found.ends_with("expected a certificate in PEM, found none"), "{found}");
}

/// Returns whether a client that trusts `root` gets an answer, with a certificate of its own if any.
fn is_answered(
    server: &Server,
    root: &rcgen::Certificate,
    own: Option<(&rcgen::Certificate, &rcgen::KeyPair)>,
) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            config.with_client_auth_cert(vec![cert.der().clone()], key).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = super::wire::connect(server.addresses()[0]);
    let mut stream = Stream::new(&mut client, &mut socket);
    let get = "GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut answer = String::new();
    let _ = stream.write_all(get.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    answer.contains("Network SUT tls")
}

#[test]
fn only_clients_with_a_certificate_of_the_authority_are_answered() {
    let [own, authority, other] = [false, true, true].map(|is_authority| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut about = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        if is_authority {
            about.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        (about.self_signed(&key).unwrap(), about, key)
    });
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let cert = file("cert.pem", own.0.pem());
    let key = file("key.pem", own.2.serialize_pem());
    let ca = file("ca.pem", authority.0.pem());
    let config = tls(&cert, &key, Some(&ca)).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Settings {
        node: "Network SUT tls".into(),
        limits: Limits::default(),
        compresses: false,
        token: None,
    };
    let listener = Listener { socket, tls: Some(config) };
    let server = Server::start(settings, Vec::new(), vec![listener]).unwrap();

    let client_of = |(_, about, key): &(_, rcgen::CertificateParams, rcgen::KeyPair)| {
        let own = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::Issuer::from_params(about, key);
        let client = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
        (client.signed_by(&own, &issuer).unwrap(), own)
    };
    let (known, stranger) = (client_of(&authority), client_of(&other));
    assert!(is_answered(&server, &own.0, Some((&known.0, &known.1))));
    assert!(!is_answered(&server, &own.0, Some((&stranger.0, &stranger.1))));
    assert!(!is_answered(&server, &own.0, None));
}
