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
    let listener = Listener { socket, tls: Some(tls(&cert, &key).unwrap()) };
    let model = Arc::new(DigitsPerceptron::new().by_value(32));
    let models = vec![super::tensors("digits", model, 1, 8)];
    let settings =
        Settings { node: "Network SUT tls".into(), limits: Limits::default(), compresses: false };
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
    let found = tls(&missing, &key).unwrap_err();
    assert!(matches!(&found, TlsError::File { path, .. } if *path == missing), "{found}");
    let found = tls(&key, &key).unwrap_err().to_string();
    assert!(found.ends_with("expected a certificate in PEM, found none"), "{found}");
}
