//! How connections are made, and how long nobody tries where none can be.

use std::io;
use std::sync::Arc;

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::ClientConnection;

use super::connection::Connection;
use crate::client::Node;
use crate::endpoint::Endpoint;
use crate::trouble::{Kind, Trouble};

/// Waits between attempts grow from the first to the last of these.
const FIRST_WAIT: Nanos = 10 * MILLISECOND;
const LONGEST_WAIT: Nanos = 100 * MILLISECOND;
/// Samples wait this long for a server that cannot be reached, which may be starting again.
pub(super) const PATIENCE: Nanos = 500 * MILLISECOND;

/// A node as one event loop dials it.
#[derive(Debug, Default)]
pub(super) struct Dialed {
    /// The address that was reached last; the others are tried after it.
    pub first_address: usize,
    /// Attempts in a row that made no connection.
    failures: u32,
    /// Connections in a row that ended without an answer.
    fruitless: u32,
    failing_since: Option<Nanos>,
    next_at: Nanos,
    /// Connections that are being made.
    pub under_way: usize,
}

impl Dialed {
    /// Whether a connection may be tried now: of a node that fails, one after the other.
    pub(super) fn may_dial(&self, now: Nanos) -> bool {
        !self.is_failing() || (self.under_way == 0 && now >= self.next_at)
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing_since.is_some()
    }

    /// Whether it has failed for so long that nobody need wait for it.
    pub(super) fn is_hopeless(&self, now: Nanos) -> bool {
        self.failing_since.is_some_and(|since| now - since >= PATIENCE)
    }

    pub(super) fn failed(&mut self, now: Nanos) {
        self.failures += 1;
        self.wait(now);
    }

    pub(super) fn was_fruitless(&mut self, now: Nanos) {
        self.fruitless += 1;
        self.wait(now);
    }

    fn wait(&mut self, now: Nanos) {
        self.failing_since.get_or_insert(now);
        let doublings = (self.failures + self.fruitless - 1).min(10);
        self.next_at = now + (FIRST_WAIT << doublings).min(LONGEST_WAIT);
    }

    pub(super) fn connected(&mut self) {
        self.failures = 0;
        self.recover();
    }

    pub(super) fn answered(&mut self) {
        if self.fruitless > 0 {
            self.fruitless = 0;
            self.recover();
        }
    }

    fn recover(&mut self) {
        if self.failures + self.fruitless == 0 {
            self.failing_since = None;
        }
    }
}

/// A connection that is being made.
pub(super) struct Dialing {
    pub connection: Arc<Connection>,
    pub since: Nanos,
    /// Which address of the node.
    pub address: usize,
    /// How many addresses were tried.
    pub tried: usize,
    pub is_connected: bool,
}

impl Dialing {
    /// Begins a connection to the address that comes `tried` places after the preferred one.
    pub(super) fn begin(
        node: &Node,
        (number, thread): (usize, usize),
        (first, tried): (usize, usize),
        (registry, token): (&Registry, Token),
        now: Nanos,
    ) -> Result<Self, Trouble> {
        let addresses = node.addresses.as_ref().map_err(Clone::clone)?;
        let address = (first + tried) % addresses.len();
        let no_socket = |error: io::Error| not_reached(&node.endpoint, &error);
        let mut stream = TcpStream::connect(addresses[address]).map_err(no_socket)?;
        // A request is one write, and the last one: there is nothing to wait for.
        stream.set_nodelay(true).map_err(no_socket)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, token, interest).map_err(no_socket)?;
        let tls = match &node.tls {
            None => None,
            Some((config, name)) => {
                let tls = ClientConnection::new(config.clone(), name.clone());
                let mut tls = tls.map_err(|error| crate::tls::trouble(&node.endpoint, &error))?;
                // A request is encrypted as a whole, however long it is.
                tls.set_buffer_limit(None);
                Some(tls)
            }
        };
        let connection = Arc::new(Connection::new(number, thread, stream, tls));
        Ok(Self { connection, since: now, address, tried, is_connected: false })
    }

    /// Goes on; whether the connection stands.
    pub(super) fn go_on(&mut self, node: &Node) -> Result<bool, Trouble> {
        if !self.is_connected {
            match self.connection.connect_error() {
                Ok(()) => self.is_connected = true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(not_reached(&node.endpoint, &error)),
            }
        }
        self.connection.shake_hands().map_err(|error| {
            tls_error(&node.endpoint, &error).unwrap_or_else(|| {
                let words = format!("{} hung up during the TLS handshake: {error}", node.endpoint);
                Trouble::new(Kind::Tls, words)
            })
        })
    }
}

fn not_reached(endpoint: &Endpoint, error: &io::Error) -> Trouble {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "; is the server running there?",
        _ => "",
    };
    Trouble::new(Kind::Connect, format!("{endpoint} cannot be reached: {error}{hint}"))
}

/// What of an error is of TLS, where it is.
pub(super) fn tls_error(endpoint: &Endpoint, error: &io::Error) -> Option<Trouble> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(crate::tls::trouble(endpoint, inner))
}
