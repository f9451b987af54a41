//! Starting servers, waiting until they are ready, and ending them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Time limit until a server is ready; other load can slow the machine down.
const READY_LIMIT: Duration = Duration::from_secs(240);
/// Time limit for ending after a request.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Interval between two checks of either.
const INTERVAL: Duration = Duration::from_millis(200);

/// A running server; dropping the value ends it.
pub(super) struct Server(Child);

impl Server {
    /// Starts a server and waits until `GET path` at this address returns status 200.
    ///
    /// # Errors
    /// The server does not start, ends, or is not ready in time.
    pub fn start(command: &mut Command, address: &str, path: &str) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let stderr = Stdio::from(std::io::stderr());
        let child = command.stdin(Stdio::piped()).stdout(stderr).spawn();
        let mut server = Self(child.with_context(|| format!("cannot start {name}"))?);
        let address: SocketAddr = address.parse().context("an address of a server")?;
        for _ in 0..READY_LIMIT.as_millis() / INTERVAL.as_millis() {
            if is_ready(address, path) {
                return Ok(server);
            }
            if let Some(status) = server.0.try_wait().context("cannot look after a server")? {
                bail!("{name} ended before it was ready: {status}");
            }
            std::thread::park_timeout(INTERVAL);
        }
        bail!("{name} is not ready at {address}{path} after {READY_LIMIT:?}")
    }

    /// Requests the end of the server and waits for it; kills the server after a time limit.
    fn end(&mut self) {
        drop(self.0.stdin.take());
        // For servers that do not watch their standard input.
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        for _ in 0..END_LIMIT.as_millis() / INTERVAL.as_millis() {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::park_timeout(INTERVAL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_ready(address: SocketAddr, path: &str) -> bool {
    let status = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, INTERVAL)?;
        stream.set_read_timeout(Some(10 * INTERVAL))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(String::from_utf8_lossy(&head).into_owned())
    };
    status().is_ok_and(|head| head.ends_with(" 200"))
}

/// Returns free ports. Another program may take one before it is used; then the server reports it.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut sockets = Vec::new();
    for port in &mut ports {
        let socket = TcpListener::bind("127.0.0.1:0").context("no free port")?;
        *port = socket.local_addr().context("no free port")?.port();
        sockets.push(socket);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_before_it_is_ready_is_an_error() {
        let [port] = free_ports().unwrap();
        let address = format!("127.0.0.1:{port}");
        let error = Server::start(Command::new("cargo").arg("--version"), &address, "/");
        let error = error.map(drop).unwrap_err().to_string();
        assert!(error.starts_with("cargo ended before it was ready"), "{error}");
    }
}
