//! Servers that are started, waited for, and ended.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How long a server may take until it is ready: others use this machine, too.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long it may take to end when it is asked.
const GRACE: Duration = Duration::from_secs(20);
/// Between two looks at either.
const GLANCE: Duration = Duration::from_millis(200);

/// A server that runs until this is dropped.
pub(super) struct Server(Child);

impl Server {
    /// Starts it, and returns when `GET path` at this address has success.
    ///
    /// # Errors
    /// It does not start, ends, or is not ready in time.
    pub fn start(command: &mut Command, address: &str, path: &str) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        // What it says goes to stderr, as the talk of groups does.
        let talk = Stdio::from(std::io::stderr());
        let child = command.stdin(Stdio::piped()).stdout(talk).spawn();
        let mut server = Self(child.with_context(|| format!("cannot start {name}"))?);
        let address: SocketAddr = address.parse().context("an address of a server")?;
        for _ in 0..PATIENCE.as_millis() / GLANCE.as_millis() {
            if is_ready(address, path) {
                return Ok(server);
            }
            if let Some(status) = server.0.try_wait().context("cannot look after a server")? {
                bail!("{name} ended before it was ready: {status}");
            }
            std::thread::park_timeout(GLANCE);
        }
        bail!("{name} is not ready at {address}{path} after {PATIENCE:?}")
    }

    /// Asks it to end, and waits for that.
    fn end(&mut self) {
        drop(self.0.stdin.take());
        // Those that do not look at their standard input know this.
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        for _ in 0..GRACE.as_millis() / GLANCE.as_millis() {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::park_timeout(GLANCE);
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
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, GLANCE)?;
        stream.set_read_timeout(Some(10 * GLANCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(String::from_utf8_lossy(&head).into_owned())
    };
    ask().is_ok_and(|head| head.ends_with(" 200"))
}

/// Ports that nobody listens at. Somebody else may take one before it is used; then the
/// server says so.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let socket = TcpListener::bind("127.0.0.1:0").context("no free port")?;
        *port = socket.local_addr().context("no free port")?.port();
        held.push(socket);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_is_not_waited_for() {
        let [port] = free_ports().unwrap();
        let at = format!("127.0.0.1:{port}");
        let error = Server::start(Command::new("cargo").arg("--version"), &at, "/");
        let error = error.map(drop).unwrap_err().to_string();
        assert!(error.starts_with("cargo ended before it was ready"), "{error}");
    }
}
