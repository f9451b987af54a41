//! A server that does to each connection what a test wants.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A listener whose connections are handed to a script, each on a thread of its own.
pub struct Faulty {
    pub address: SocketAddr,
    is_closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Faulty {
    pub fn start(script: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), script)
    }

    pub fn on(address: SocketAddr, script: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let is_closing = Arc::new(AtomicBool::new(false));
        let (closing, script) = (is_closing.clone(), Arc::new(script));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if closing.load(Ordering::SeqCst) {
                    return;
                }
                let script = script.clone();
                std::thread::spawn(move || script(stream.unwrap()));
            }
        });
        Self { address, is_closing, thread: Some(thread) }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// An address where nobody listens.
pub fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Reads a request; `None` where the connection ends before one does.
pub fn request(stream: &mut impl Read) -> Option<Vec<u8>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some(bytes.split_off(end + 4));
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

/// Answers every request on a connection with these bytes.
pub fn always(answer: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |mut stream| {
        while request(&mut stream).is_some() && stream.write_all(answer).is_ok() {}
    }
}

/// Answers one request on each connection with these bytes, and ends the connection.
pub fn once(answer: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |mut stream| {
        if request(&mut stream).is_some() {
            let _ = stream.write_all(answer);
        }
    }
}

/// Reads what comes and says nothing more.
pub fn silence(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
}
