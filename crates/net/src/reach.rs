//! Connections to servers whose name has several addresses.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long an address may take before the next one is tried too (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to the address that accepts first. Returns its index. The address `first` is tried first, and
/// the others after it. One that does not answer, such as IPv6 without a route, delays the connection by
/// [`STAGGER`].
///
/// # Errors
/// The error of the address that failed last.
pub(crate) async fn connect(
    addresses: &[SocketAddr],
    first: usize,
) -> io::Result<(usize, TcpStream)> {
    let mut attempts = JoinSet::new();
    let mut untried = (0..addresses.len()).map(|tried| (first + tried) % addresses.len());
    let mut error = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    loop {
        let started = untried.next();
        if let Some(at) = started {
            let address = addresses[at];
            attempts.spawn(async move { (at, TcpStream::connect(address).await) });
        }
        let ended = match started {
            Some(_) => match timeout(STAGGER, attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            },
            None => attempts.join_next().await,
        };
        match ended {
            Some(Ok((at, Ok(stream)))) => {
                stream.set_nodelay(true)?;
                return Ok((at, stream));
            }
            Some(Ok((_, Err(failed)))) => error = failed,
            Some(Err(failed)) => error = failed.into(),
            None => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[test]
    fn an_address_that_does_not_answer_delays_a_connection_and_does_not_prevent_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let full = socket.listen(1).unwrap();
            let silent = full.local_addr().unwrap();
            // Connections that the listener never accepts fill its queue. Further ones get no answer.
            let mut queue = JoinSet::new();
            for _ in 0..8 {
                queue.spawn(TcpStream::connect(silent));
            }
            let mut queued = Vec::new();
            while let Ok(Some(connected)) = timeout(STAGGER, queue.join_next()).await {
                queued.push(connected);
            }
            let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addresses = [silent, live.local_addr().unwrap()];
            let patience = Duration::from_secs(60);
            let reached = timeout(patience, connect(&addresses, 0)).await;
            assert_eq!(reached.expect("the second address accepts").unwrap().0, 1);
            // The address that was reached last is tried first.
            assert_eq!(connect(&addresses, 1).await.unwrap().0, 1);
        });
    }

    #[test]
    fn a_connection_that_no_address_accepts_fails() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
            let error = connect(&[closed, closed], 1).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(connect(&[], 0).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        });
    }
}
