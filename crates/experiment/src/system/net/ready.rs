//! Waits before a run until servers are ready (`--ready-timeout`).

use std::net::TcpStream;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_net::endpoint::Endpoint;

use crate::failure::{Failure, FailureKind};

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit of one connection.
const CONNECTING: Duration = Duration::from_secs(2);

/// Waits until each server accepts connections, for at most `limit` ns. What is wrong with a server
/// that does not is found by the first request.
pub fn accept_connections(urls: &[String], limit: Nanos) {
    let clock = Clock::start();
    let has_scheme = |url: &String| url.contains("://");
    for url in urls {
        let url = if has_scheme(url) { url.clone() } else { format!("http://{url}") };
        let Ok(endpoint) = url.parse::<Endpoint>() else { continue };
        let accepts = || {
            let addresses = endpoint.resolve().unwrap_or_default();
            addresses.iter().any(|address| TcpStream::connect_timeout(address, CONNECTING).is_ok())
        };
        while !accepts() && clock.now() < limit {
            pause();
        }
    }
}

/// Tries to reach a server until that succeeds, for at most `limit` ns. A mistake of the user is not
/// tried again.
///
/// # Errors
/// The last failure.
pub fn retry<T>(
    limit: Nanos,
    mut attempt: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let clock = Clock::start();
    loop {
        match attempt() {
            Err(failure) if failure.kind() == FailureKind::SetUp && clock.now() < limit => pause(),
            result => return result,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it waits for a server, before any clock starts")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::SECOND;

    use super::*;

    #[test]
    fn a_server_that_starts_later_is_reached() {
        let mut attempts = 0;
        let reached = retry(60 * SECOND, || {
            attempts += 1;
            if attempts < 3 { Err(Failure::set_up("connection refused")) } else { Ok(attempts) }
        });
        assert_eq!(reached.unwrap(), 3);
    }

    #[test]
    fn mistakes_and_the_end_of_the_time_are_final() {
        let mut attempts = 0;
        let mut fail = |failure: fn(&str) -> Failure, limit| {
            attempts = 0;
            let failed = retry(limit, || -> Result<(), Failure> {
                attempts += 1;
                Err(failure("no"))
            });
            assert!(failed.is_err());
            attempts
        };
        assert_eq!(fail(|words| Failure::usage(words), 60 * SECOND), 1);
        assert_eq!(fail(|words| Failure::set_up(words), 0), 1);
    }
}
