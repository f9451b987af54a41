//! Encrypted connection between a coordinator and a worker: TLS 1.3 with a key pair that the
//! coordinator draws at its start.
//!
//! TLS keeps what is sent secret and unchanged between two ends, but does not show who the other end
//! is: neither side has a certificate. Both sides therefore prove that they know the token for
//! [this connection](Channel::binding) (RFC 9266, `tls-exporter`). A relay in between has a connection
//! to each side, with different bindings, so that neither proof is of use to it.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, Connection, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, version,
};

/// One end of an encrypted connection. Several threads may write; one reads with a [`ChannelReader`].
#[derive(Debug)]
pub struct Channel {
    socket: TcpStream,
    tls: Mutex<Connection>,
    /// Held while a message is encrypted and sent, so that records keep their order. It is not the lock
    /// of `tls`, because a sender that waits for the network must not keep the reader from reading.
    sending: Mutex<()>,
}

/// Reads what the other end sends, decrypted.
#[derive(Debug)]
pub struct ChannelReader {
    channel: Arc<Channel>,
    /// Bytes of the socket that are not decrypted yet.
    raw: Vec<u8>,
    at: usize,
    /// End of the time for reading.
    deadline: Option<(Clock, Nanos)>,
}

/// Label of [`Channel::binding`].
const LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// Bytes that are read from a socket at once.
const PIECE: usize = 16 << 10;

impl Channel {
    /// Connects as a worker, within the time limit.
    ///
    /// # Errors
    /// Errors of the connection, or an other end that does not speak TLS 1.3.
    pub fn connect(socket: TcpStream, limit: Duration) -> io::Result<(Arc<Self>, ChannelReader)> {
        let name = ServerName::try_from("dyno").expect("it is a name");
        let config = client_config().map_err(io::Error::other)?;
        let tls = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::begin(socket, tls.into(), limit)
    }

    /// Accepts a worker, within the time limit. The limit also holds for what is read afterwards, until
    /// [`ChannelReader::wait_for_each`].
    ///
    /// # Errors
    /// Errors of the connection, or an other end that does not speak TLS 1.3.
    pub fn accept(
        socket: TcpStream,
        identity: &Identity,
        limit: Duration,
    ) -> io::Result<(Arc<Self>, ChannelReader)> {
        let tls = rustls::ServerConnection::new(Arc::clone(&identity.0));
        Self::begin(socket, tls.map_err(io::Error::other)?.into(), limit)
    }

    fn begin(
        socket: TcpStream,
        mut tls: Connection,
        limit: Duration,
    ) -> io::Result<(Arc<Self>, ChannelReader)> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(limit))?;
        tls.set_buffer_limit(None);
        let channel = Arc::new(Self { socket, tls: Mutex::new(tls), sending: Mutex::default() });
        let clock = Clock::start();
        let deadline = clock.now().saturating_add(limit.as_nanos() as Nanos);
        let mut reader = ChannelReader {
            channel: Arc::clone(&channel),
            raw: Vec::new(),
            at: 0,
            deadline: Some((clock, deadline)),
        };
        loop {
            channel.flush()?;
            if !channel.lock().is_handshaking() {
                return Ok((channel, reader));
            }
            if !reader.more()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Returns a value that only the two ends of this connection have.
    ///
    /// # Panics
    /// Never: the handshake is complete.
    pub fn binding(&self) -> [u8; 32] {
        let exported = self.lock().export_keying_material([0; 32], LABEL, Some(b""));
        exported.expect("the handshake is complete")
    }

    /// Sends bytes. Callable from any thread; each call is one piece.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        use io::Write as _;
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock().writer().write_all(bytes)?;
        self.send_records()
    }

    /// Returns the socket, for its addresses and time limits.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Ends the connection. The reader of the other end notices.
    pub fn close(&self) {
        // What the other end has not read is still delivered.
        self.lock().send_close_notify();
        let _ = self.flush();
        // An error means that it has already ended.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn flush(&self) -> io::Result<()> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.send_records()
    }

    /// Sends what is encrypted.
    fn send_records(&self) -> io::Result<()> {
        use io::Write as _;
        let mut records = Vec::new();
        let mut tls = self.lock();
        while tls.wants_write() {
            tls.write_tls(&mut records)?;
        }
        drop(tls);
        (&self.socket).write_all(&records)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelReader {
    /// Ends the time limit of the handshake; from now on only each single read has a time limit.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn wait_for_each(&mut self, limit: Duration) -> io::Result<()> {
        self.deadline = None;
        self.channel.socket.set_read_timeout(Some(limit))?;
        self.channel.socket.set_write_timeout(Some(limit))
    }

    /// Decrypts more bytes, and waits for them if there are none. Returns false at their end, and true
    /// without any if a signal interrupts the wait.
    fn more(&mut self) -> io::Result<bool> {
        if self.at == self.raw.len() {
            if let Some((clock, deadline)) = &self.deadline {
                let left = deadline.saturating_sub(clock.now());
                if left == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.channel.socket.set_read_timeout(Some(Duration::from_nanos(left)))?;
            }
            self.raw.resize(PIECE, 0);
            self.at = PIECE;
            let read = match (&self.channel.socket).read(&mut self.raw) {
                // The caller tries again.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
                read => read?,
            };
            self.raw.truncate(read);
            self.at = 0;
            if read == 0 {
                return Ok(false);
            }
        }
        let mut tls = self.channel.lock();
        let mut rest = &self.raw[self.at..];
        tls.read_tls(&mut rest)?;
        self.at = self.raw.len() - rest.len();
        let processed = tls.process_new_packets();
        drop(tls);
        if let Err(error) = processed {
            // The other end learns why.
            let _ = self.channel.flush();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(true)
    }
}

impl Read for ChannelReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.channel.lock().reader().read(to);
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            match self.more() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Key pair of a coordinator.
#[derive(Debug, Clone)]
pub struct Identity(Arc<ServerConfig>);

impl Identity {
    /// Draws a key pair.
    ///
    /// # Errors
    /// The machine has no random numbers.
    pub fn new() -> io::Result<Self> {
        let none = |_| io::Error::other("the machine cannot generate random numbers for a key");
        let random = ring::rand::SystemRandom::new();
        let pair = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).map_err(none)?;
        let pair = PrivatePkcs8KeyDer::from(pair.as_ref());
        let key = rustls::crypto::ring::sign::any_eddsa_type(&pair).map_err(io::Error::other)?;
        let public =
            key.public_key().ok_or_else(|| io::Error::other("the key has no public half"))?;
        let public = CertificateDer::from(public.to_vec());
        let own = Arc::new(CertifiedKey::new(vec![public], key));
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(io::Error::other)?;
        let mut config = config
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn client_config() -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let verifier = Arc::new(AnyKey(Arc::clone(&provider)));
    let config =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13])?;
    let mut config =
        config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Accepts every key whose owner signs the handshake. The proofs of the token decide who it is.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("expected TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
