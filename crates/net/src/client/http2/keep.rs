//! A task that maintains one connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use dyno_loadgen::clock::{Nanos, SECOND};
use h2::client::{Connection, SendRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::super::kernel;
use super::Lane;
use super::arrivals::Arrivals;
use super::link::{Departures, Link};
use super::metered::{MeteredSocket, StampedSocket};
use crate::client::backoff::{LONGEST_WAIT, not_reached, tls_error};
use crate::exchange::HttpVersion;
use crate::proxy::Tunnel;
use crate::reach::connect_in_turn;
use crate::trouble::{Kind, Trouble};

/// Flow-control windows of a stream and of a connection: bytes in flight before the client reads.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

type Wire = MeteredSocket<Box<dyn Socket>>;

/// Maintains a connection to a node while the runtime lives.
pub(super) async fn keep(lane: Arc<Lane>, node: usize) {
    let mut is_settled = false;
    loop {
        let may_dial = {
            let mut own = lane.own();
            let may = own.dialed[node].may_dial(lane.shared.clock.now());
            own.dialed[node].under_way += usize::from(may);
            may
        };
        if !may_dial {
            settle(&lane, &mut is_settled);
            tokio::time::sleep(Duration::from_nanos(LONGEST_WAIT)).await;
            continue;
        }
        let limit = Duration::from_nanos(lane.shared.options.connect_limit);
        let dialed = match tokio::time::timeout(limit, dial(&lane, node)).await {
            Ok(dialed) => dialed,
            Err(_) => {
                let route = lane.shared.nodes[node].endpoint.route();
                let seconds = limit.as_secs_f64();
                let words = format!("{route} did not accept the connection within {seconds} s");
                Err(Trouble::new(Kind::Connect, words))
            }
        };
        lane.own().dialed[node].under_way -= 1;
        match dialed {
            Ok((requests, mut connection, notes)) => {
                let link = stands(&lane, node, requests, notes);
                settle(&lane, &mut is_settled);
                let made_at = lane.shared.clock.now();
                let ended = drive(&link, &mut connection).await;
                if ended.is_none() {
                    tokio::spawn(connection);
                }
                ends(&lane, &link, made_at, ended.and_then(Result::err));
            }
            Err(trouble) => failed(&lane, node, &trouble),
        }
        settle(&lane, &mut is_settled);
    }
}

/// Drives a connection until it ends, or until the server announces its end (GOAWAY). Returns how it
/// ended; `None` if its open streams go on, for which new samples need not wait.
async fn drive(link: &Link, connection: &mut Connection<Wire>) -> Option<Result<(), h2::Error>> {
    poll_fn(|cx| match Pin::new(&mut *connection).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if link.is_ending() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Marks this connection as settled, so that the preparation of a run does not wait for it.
fn settle(lane: &Lane, is_settled: &mut bool) {
    if !std::mem::replace(is_settled, true) {
        lane.own().unsettled -= 1;
        lane.settled.notify_all();
    }
}

/// Records of a connection's departing and arriving frames.
type Notes = (Arc<Departures>, Arc<Arrivals>);

async fn dial(
    lane: &Arc<Lane>,
    number: usize,
) -> Result<(SendRequest<Bytes>, Connection<Wire>, Notes), Trouble> {
    let node = &lane.shared.nodes[number];
    let addresses = node.addresses.as_ref().map_err(Clone::clone)?;
    let limit = lane.shared.options.connect_limit;
    let reached = connect_in_turn(addresses, node.reached.load(Relaxed), limit).await;
    let (address, mut reached) = reached.map_err(|error| not_reached(&node.endpoint, &error))?;
    node.reached.store(address, Relaxed);
    if let Some(tunnel) = Tunnel::to(&node.endpoint, HttpVersion::Http2) {
        tunnel.open(&mut reached).await?;
    }
    let read_at = Arc::new(AtomicU64::new(0));
    let departures = Arc::<Departures>::default();
    let stream = StampedSocket {
        stream: reached,
        lane: lane.clone(),
        read_at: read_at.clone(),
        departures: departures.clone(),
    };
    kernel::stamp_arrivals(&stream.stream);
    let io: Box<dyn Socket> = match &node.tls {
        None => Box::new(stream),
        Some((config, name)) => {
            let tls = TlsConnector::from(config.clone()).connect(name.clone(), stream).await;
            let tls = tls.map_err(|error| {
                tls_error(&node.endpoint, &error).unwrap_or_else(|| {
                    let words = format!("{} ended the TLS handshake: {error}", node.endpoint);
                    Trouble::new(Kind::Tls, words)
                })
            })?;
            if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
                let words = format!(
                    "{} does not offer HTTP/2 (ALPN), which http2=true and gRPC need",
                    node.endpoint
                );
                return Err(Trouble::new(Kind::Tls, words));
            }
            Box::new(tls)
        }
    };
    let arrivals = Arc::<Arrivals>::default();
    let wire = MeteredSocket {
        io,
        lane: lane.clone(),
        departures: departures.clone(),
        arrivals: arrivals.clone(),
        read_at,
    };
    let no_answer = |error: &h2::Error| {
        let is_end = error.reason() == Some(h2::Reason::NO_ERROR);
        if is_end || error.is_go_away() && error.is_remote() {
            let words = format!("{} ended the connection before any request", node.endpoint);
            return Trouble::new(Kind::Closed, format!("{words}: {error}"));
        }
        let kind = if error.is_io() { Kind::Closed } else { Kind::Malformed };
        Trouble::new(kind, format!("{} does not speak HTTP/2: {error}", node.endpoint))
    };
    let (requests, mut connection) = handshake(wire).await.map_err(|error| no_answer(&error))?;
    greet(&mut connection).await.map_err(|error| no_answer(&error))?;
    Ok((requests, connection, (departures, arrivals)))
}

/// Begins HTTP/2 on a socket.
async fn handshake(wire: Wire) -> Result<(SendRequest<Bytes>, Connection<Wire>), h2::Error> {
    h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        // These limits end the connection, and with it all of its requests. They are meant for
        // hostile servers, but a server that streams tokens reaches them too: with frames that it
        // sent before it knew of a cancellation, and with many small frames in one read.
        .max_concurrent_reset_streams(usize::MAX)
        .max_local_error_reset_streams(None)
        .data_frame_budget(usize::MAX)
        .handshake(wire)
        .await
}

/// Waits for a round trip, which shows that the server speaks HTTP/2 and how many streams it
/// permits.
async fn greet(connection: &mut Connection<Wire>) -> Result<(), h2::Error> {
    let mut ping = connection.ping_pong().expect("nobody has taken it");
    ping.send_ping(h2::Ping::opaque())?;
    poll_fn(|cx| match ping.poll_pong(cx) {
        Poll::Ready(pong) => Poll::Ready(pong.map(|_| ())),
        Poll::Pending => match Pin::new(&mut *connection).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Err(h2::Reason::NO_ERROR.into())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // It may just have read the answer, which the ping reports.
            Poll::Pending => ping.poll_pong(cx).map(|pong| pong.map(|_| ())),
        },
    })
    .await
}

fn stands(
    lane: &Arc<Lane>,
    node: usize,
    requests: SendRequest<Bytes>,
    (departures, arrivals): Notes,
) -> Arc<Link> {
    let link = Arc::new(Link {
        node,
        requests: Mutex::new(requests),
        departures,
        arrivals,
        streams: AtomicUsize::new(0),
        answers: AtomicU64::new(0),
        body_bytes: AtomicU64::new(0),
        is_asked: AtomicBool::new(false),
        is_closed: AtomicBool::new(false),
        is_listed: AtomicBool::new(false),
    });
    lane.counters().connects.fetch_add(1, Relaxed);
    {
        let mut own = lane.own();
        own.dialed[node].connected();
        own.links.push(link.clone());
        own.open += 1;
        own.outage.end(lane.shared.clock.now());
    }
    lane.list(&link);
    link
}

fn ends(lane: &Lane, link: &Arc<Link>, made_at: Nanos, error: Option<h2::Error>) {
    link.is_closed.store(true, Relaxed);
    lane.counters().lost_connections.fetch_add(1, Relaxed);
    let now = lane.shared.clock.now();
    let is_short = now - made_at < SECOND;
    // Requests that get no answer fail on their own, and prove nothing about the next ones.
    let is_fruitless = is_short && link.answers.load(Relaxed) == 0 && !link.is_asked.load(Relaxed);
    let is_hopeless = {
        let mut own = lane.own();
        own.links.retain(|other| !Arc::ptr_eq(other, link));
        own.open -= 1;
        if own.open == 0 {
            own.outage.begin(now);
        }
        if is_fruitless {
            let is_used = own.links.iter().any(|other| other.node == link.node);
            own.dialed[link.node].was_fruitless(now, is_used);
        }
        own.dialed[link.node].is_hopeless(now)
    };
    if is_fruitless && is_hopeless {
        let endpoint = &lane.shared.nodes[link.node].endpoint;
        let why = error.map_or_else(String::new, |error| format!(": {error}"));
        let words = format!("{endpoint} closes connections without an answer{why}");
        lane.waiting_failed(&Trouble::new(Kind::Closed, words), true);
    }
}

fn failed(lane: &Lane, node: usize, trouble: &Trouble) {
    lane.shared.counts_no_connection(trouble);
    let now = lane.shared.clock.now();
    let is_hopeless = {
        let mut own = lane.own();
        let is_used = own.links.iter().any(|link| link.node == node);
        own.dialed[node].failed(now, is_used);
        own.dialed[node].is_hopeless(now)
    };
    if is_hopeless {
        lane.waiting_failed(trouble, true);
    }
}
