//! Tunnels through HTTP proxies (RFC 9110, section 9.3.6).

use std::io::{self, Read, Write};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::endpoint::Endpoint;
use crate::exchange::HttpVersion;
use crate::trouble::{Kind, Trouble, in_short};

/// Maximum bytes of a proxy's answer.
const LONGEST_ANSWER: usize = 64 << 10;

/// Field with the login for a proxy (RFC 9110, section 11.7.2).
pub(crate) const LOGIN: &str = "proxy-authorization";

/// A tunnel that is being opened on a connection to a proxy.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// Names of proxy and server, for messages.
    way: String,
    /// Rest of the request.
    unsent: Vec<u8>,
    answer: Vec<u8>,
}

impl Tunnel {
    /// Returns the tunnel that connections to this endpoint need; `None` without a proxy, and for
    /// plain HTTP/1.1, which a proxy forwards request by request.
    pub(crate) fn to(endpoint: &Endpoint, version: HttpVersion) -> Option<Self> {
        let proxy = endpoint.proxy()?;
        if !endpoint.is_tls() && version == HttpVersion::Http1 {
            return None;
        }
        let host = match endpoint.host() {
            v6 if v6.contains(':') => format!("[{v6}]"),
            host => host.to_owned(),
        };
        let server = format!("{host}:{}", endpoint.port());
        let login = endpoint.proxy_login().map(|login| format!("{LOGIN}: {login}\r\n"));
        let login = login.unwrap_or_default();
        let unsent =
            format!("CONNECT {server} HTTP/1.1\r\nhost: {server}\r\n{login}\r\n").into_bytes();
        Some(Self { way: format!("{proxy} to {server}"), unsent, answer: Vec::new() })
    }

    /// Continues on a socket that does not block; returns whether the tunnel is open.
    pub(crate) fn go_on(&mut self, mut socket: impl Read + Write) -> Result<bool, Trouble> {
        match self.exchange(&mut socket) {
            Ok(()) => self.is_open(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_open(),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn exchange(&mut self, socket: &mut (impl Read + Write)) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let sent = socket.write(&self.unsent)?;
            self.unsent.drain(..sent);
        }
        let mut byte = [0; 1];
        // One by one: what follows the answer belongs to the server.
        while !self.has_answer() {
            match socket.read(&mut byte) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.answer.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Opens the tunnel on a connection.
    pub(crate) async fn open(mut self, socket: &mut tokio::net::TcpStream) -> Result<(), Trouble> {
        let sent = socket.write_all(&self.unsent).await;
        sent.map_err(|error| self.broken(&error))?;
        while !self.has_answer() {
            match socket.read_u8().await {
                Ok(byte) => self.answer.push(byte),
                Err(error) => return Err(self.broken(&error)),
            }
        }
        self.is_open().map(|_| ())
    }

    fn has_answer(&self) -> bool {
        self.answer.ends_with(b"\r\n\r\n") || self.answer.len() >= LONGEST_ANSWER
    }

    /// Returns whether the proxy has agreed; `false` if its answer is not complete.
    fn is_open(&self) -> Result<bool, Trouble> {
        if !self.has_answer() {
            return Ok(false);
        }
        let line = self.answer.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let status = line.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        if line.starts_with("HTTP/") && status.is_some_and(|status| (200..300).contains(&status)) {
            return Ok(true);
        }
        let words = format!("the proxy {} refused the connection: {}", self.way, in_short(&line));
        Err(Trouble::new(Kind::Connect, words))
    }

    fn broken(&self, error: &io::Error) -> Trouble {
        let words = format!("the proxy {} closed the connection: {error}", self.way);
        Trouble::new(Kind::Connect, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy that answers with these pieces, and blocks between them.
    struct Socket {
        sent: Vec<u8>,
        pieces: Vec<&'static [u8]>,
    }

    impl Write for &mut Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(7);
            self.sent.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for &mut Socket {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.pieces.first_mut() {
                None => Ok(0),
                Some([]) => {
                    self.pieces.remove(0);
                    Err(io::ErrorKind::WouldBlock.into())
                }
                Some(piece) => {
                    buffer[0] = piece[0];
                    *piece = &piece[1..];
                    Ok(1)
                }
            }
        }
    }

    fn tunnel() -> Tunnel {
        let server: Endpoint = "https://a:8443/v1".parse().unwrap();
        let server = server.through("http://proxy:3128".parse().unwrap());
        Tunnel::to(&server, HttpVersion::Http1).unwrap()
    }

    #[test]
    fn a_tunnel_opens_after_the_whole_answer_and_takes_nothing_behind_it() {
        let pieces = vec![&b"HTTP/1.1 200 Con"[..], b"nected\r\nvia: x\r\n\r\nTLS"];
        let mut socket = Socket { sent: Vec::new(), pieces };
        let mut tunnel = tunnel();
        assert_eq!(tunnel.go_on(&mut socket), Ok(false));
        assert_eq!(tunnel.go_on(&mut socket), Ok(true));
        assert_eq!(socket.pieces, [b"TLS"]);
        assert_eq!(socket.sent, b"CONNECT a:8443 HTTP/1.1\r\nhost: a:8443\r\n\r\n");
    }

    #[test]
    fn a_login_is_sent_to_the_proxy() {
        let proxy: Endpoint = "http://proxy:3128".parse().unwrap();
        let server: Endpoint = "https://a".parse().unwrap();
        let server = server.through(proxy.with_login("guest:open sesame"));
        let mut socket = Socket { sent: Vec::new(), pieces: vec![b"HTTP/1.1 200 OK\r\n\r\n"] };
        let mut tunnel = Tunnel::to(&server, HttpVersion::Http1).unwrap();
        assert_eq!(tunnel.go_on(&mut socket), Ok(true));
        let sent = String::from_utf8(socket.sent).unwrap();
        // By the program base64.
        let field = "proxy-authorization: Basic Z3Vlc3Q6b3BlbiBzZXNhbWU=\r\n";
        assert_eq!(sent, format!("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n{field}\r\n"));
    }

    #[test]
    fn a_refusal_is_quoted() {
        for (answer, words) in [
            (&b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..], "407 Proxy"),
            (b"SSH-2.0-x\r\n\r\n", "refused the connection: SSH-2.0-x"),
            (b"HTTP/1.1 200", "closed the connection"),
        ] {
            let mut socket = Socket { sent: Vec::new(), pieces: vec![answer] };
            let mut tunnel = tunnel();
            let first = tunnel.go_on(&mut socket);
            let trouble = first.and_then(|_| tunnel.go_on(&mut socket)).unwrap_err();
            assert!(trouble.words.contains(words), "{trouble:?}");
            assert!(trouble.words.contains("http://proxy:3128 to a:8443"), "{trouble:?}");
        }
    }

    #[test]
    fn plain_http_needs_no_tunnel() {
        let server: Endpoint = "http://a".parse().unwrap();
        assert!(Tunnel::to(&server, HttpVersion::Http2).is_none());
        let server = server.through("http://proxy".parse().unwrap());
        assert!(Tunnel::to(&server, HttpVersion::Http1).is_none());
        assert!(Tunnel::to(&server, HttpVersion::Http2).is_some());
    }
}
