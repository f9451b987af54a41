//! Waits before a run until servers are ready (`--ready-timeout`).

use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos};

use crate::failure::{Failure, FailureKind};

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// Tries to use a server until it is ready, for at most `limit` ns. Other failures are final.
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
            Err(failure) if failure.kind() == FailureKind::NotReady && clock.now() < limit => {
                pause();
            }
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
    use dyno_net::trouble::Kind;

    use super::*;

    #[test]
    fn a_server_that_starts_later_is_reached() {
        let mut attempts = 0;
        let reached = retry(60 * SECOND, || {
            attempts += 1;
            if attempts < 3 { Err(Failure::server(Kind::Connect, "refused")) } else { Ok(attempts) }
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
        assert_eq!(fail(|words| Failure::set_up(words), 60 * SECOND), 1);
        assert_eq!(fail(|words| Failure::server(Kind::Tls, words), 60 * SECOND), 1);
        assert_eq!(fail(|words| Failure::server(Kind::Connect, words), 0), 1);
    }
}
