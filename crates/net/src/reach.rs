//! Connections to servers whose name has several addresses.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dyno_loadgen::clock::Nanos;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// How long an address may take before the next one is tried too (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Returns how long an address may take to accept a connection: an equal part of what is left of the limit,
/// of which `spent` went to the addresses before it, and which the `others` after it need too.
pub(crate) fn share_of_limit(limit: Nanos, spent: Nanos, others: usize) -> Nanos {
    limit.saturating_sub(spent) / (others as u64 + 1)
}

/// Connects to the address that accepts first, for a single request. One that does not answer, such as IPv6
/// without a route, delays the connection by [`STAGGER`].
///
/// # Errors
/// The error of the address that failed last.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut untried = addresses.iter();
    let mut error = no_address();
    loop {
        let started = untried.next();
        if let Some(&address) = started {
            attempts.spawn(TcpStream::connect(address));
        }
        let ended = match started {
            Some(_) => match timeout(STAGGER, attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            },
            None => attempts.join_next().await,
        };
        match ended {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(failed))) => error = failed,
            Some(Err(failed)) => error = failed.into(),
            None => return Err(error),
        }
    }
}

/// Connects to one of the addresses, for a load, which has no more connections than it was given: the next
/// address is tried after the attempt at the one before has ended. The address `first` is tried first.
/// Returns the index of the address. The last one may take any time, which the caller limits.
///
/// # Errors
/// The error of the address that failed last.
pub(crate) async fn connect_in_turn(
    addresses: &[SocketAddr],
    first: usize,
    limit: Nanos,
) -> io::Result<(usize, TcpStream)> {
    let begun = Instant::now();
    let mut error = no_address();
    for others in (0..addresses.len()).rev() {
        // All have been tried but this one and the others.
        let at = (first + addresses.len() - 1 - others) % addresses.len();
        let spent = begun.elapsed().as_nanos() as Nanos;
        let share = match others {
            0 => Duration::MAX,
            _ => Duration::from_nanos(share_of_limit(limit, spent, others)),
        };
        match timeout(share, TcpStream::connect(addresses[at])).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok((at, stream));
            }
            Ok(Err(failed)) => error = failed,
            Err(_) => error = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(error)
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "it has no address")
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// A listener whose queue is full, so that further connections get no answer.
    struct Silent {
        address: SocketAddr,
        /// Connections that it never accepts.
        _queue: JoinSet<io::Result<TcpStream>>,
        _queued: Vec<TcpStream>,
        _listener: TcpListener,
    }

    impl Silent {
        async fn start() -> Self {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = socket.listen(1).unwrap();
            let address = listener.local_addr().unwrap();
            let (mut queue, mut queued) = (JoinSet::new(), Vec::new());
            // More than any system queues for this length. They are all sent before the first wait ends.
            for _ in 0..8 {
                queue.spawn(TcpStream::connect(address));
            }
            while let Ok(Some(connected)) = timeout(STAGGER, queue.join_next()).await {
                queued.extend(connected.unwrap().ok());
            }
            Self { address, _queue: queue, _queued: queued, _listener: listener }
        }
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn an_address_that_does_not_answer_delays_a_connection_and_does_not_prevent_it() {
        run(async {
            let silent = Silent::start().await;
            let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let accepting = live.local_addr().unwrap();
            let addresses = [silent.address, accepting];
            let reached = connect(&addresses).await.unwrap();
            assert_eq!(reached.peer_addr().unwrap(), accepting);
            let limit = STAGGER.as_nanos() as Nanos;
            assert_eq!(connect_in_turn(&addresses, 0, limit).await.unwrap().0, 1);
            // The address that was reached last is tried first, and the others after it.
            assert_eq!(connect_in_turn(&addresses, 1, Nanos::MAX).await.unwrap().0, 1);
            let addresses = [accepting, silent.address];
            assert_eq!(connect_in_turn(&addresses, 1, limit).await.unwrap().0, 0);
        });
    }

    #[test]
    fn a_connection_that_no_address_accepts_fails() {
        run(async {
            let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
            let error = connect(&[closed, closed]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let error = connect_in_turn(&[closed, closed], 1, Nanos::MAX).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(connect(&[]).await.unwrap_err().kind(), io::ErrorKind::NotFound);
            let error = connect_in_turn(&[], 0, 1).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn an_address_that_is_refused_at_once_leaves_the_others_the_whole_limit() {
        assert_eq!([share_of_limit(90, 0, 2), share_of_limit(90, 30, 1)], [30, 30]);
        assert_eq!([share_of_limit(90, 0, 0), share_of_limit(90, 99, 0)], [90, 0]);
    }
}
