//! Connection attempts.

use std::io;
use std::sync::Arc;

use dyno_loadgen::clock::{Clock, Nanos};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::ClientConnection;

use super::connection::Connection;
use crate::client::Node;
use crate::client::backoff::{lacks_descriptor, not_reached, tls_error};
use crate::client::kernel;
use crate::exchange::HttpVersion;
use crate::proxy::Tunnel;
use crate::trouble::{Kind, Trouble};

/// An address that a connection attempt tries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Index of the node's address.
    pub address: usize,
    /// Number of addresses tried before it.
    pub tried: usize,
    /// When the first of them was tried.
    pub begun: Nanos,
}

/// A connection attempt in progress.
pub(super) struct DialAttempt {
    pub connection: Arc<Connection>,
    pub candidate: Candidate,
    /// When this address was tried.
    pub since: Nanos,
    pub is_connected: bool,
    /// Tunnel through a proxy that is not open yet.
    tunnel: Option<Tunnel>,
}

/// Error of an attempt that could not begin.
pub(super) struct BeginError {
    pub trouble: Trouble,
    /// Whether there is no descriptor left for a socket.
    pub lacks_descriptor: bool,
}

impl From<Trouble> for BeginError {
    fn from(trouble: Trouble) -> Self {
        Self { trouble, lacks_descriptor: false }
    }
}

impl DialAttempt {
    /// Begins a connection to an address.
    pub(super) fn begin(
        node: &Node,
        (number, thread): (usize, usize),
        candidate: Candidate,
        (registry, token): (&Registry, Token),
        clock: Clock,
    ) -> Result<Self, BeginError> {
        let addresses = node.addresses.as_ref().map_err(Clone::clone)?;
        let address = addresses[candidate.address];
        let no_socket = |error: io::Error| not_reached(&node.endpoint, &error);
        let mut stream = TcpStream::connect(address).map_err(|error| BeginError {
            lacks_descriptor: lacks_descriptor(&error),
            trouble: no_socket(error),
        })?;
        // A request is a single write, so there is nothing to wait for.
        stream.set_nodelay(true).map_err(no_socket)?;
        kernel::stamp_arrivals(&stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, token, interest).map_err(no_socket)?;
        let tls = match &node.tls {
            None => None,
            Some((config, name)) => {
                let tls = ClientConnection::new(config.clone(), name.clone());
                let mut tls = tls.map_err(|error| crate::tls::trouble(&node.endpoint, &error))?;
                // A request of any length is encrypted as a whole.
                tls.set_buffer_limit(None);
                Some(tls)
            }
        };
        let connection = Arc::new(Connection::new((number, thread, token.0), stream, tls, clock));
        let tunnel = Tunnel::to(&node.endpoint, HttpVersion::Http1);
        Ok(Self { connection, candidate, since: clock.now(), is_connected: false, tunnel })
    }

    /// Continues the attempt; returns whether the connection is established.
    pub(super) fn go_on(&mut self, node: &Node) -> Result<bool, Trouble> {
        if !self.is_connected {
            match self.connection.connect_error() {
                Ok(()) => self.is_connected = true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(not_reached(&node.endpoint, &error)),
            }
        }
        if let Some(tunnel) = &mut self.tunnel {
            if !tunnel.go_on(self.connection.socket())? {
                return Ok(false);
            }
            self.tunnel = None;
        }
        self.connection.shake_hands().map_err(|error| {
            tls_error(&node.endpoint, &error).unwrap_or_else(|| {
                let words = format!(
                    "{} closed the connection during the TLS handshake: {error}",
                    node.endpoint
                );
                Trouble::new(Kind::Tls, words)
            })
        })
    }
}
