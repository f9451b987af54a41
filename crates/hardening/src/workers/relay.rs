//! A relay between a worker and its coordinator, which cuts the connection or goes silent.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a relay does after a number of bytes from the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Closes both connections.
    Cut,
    /// Passes nothing on any more.
    Silent,
}

/// Starts a relay for one connection; returns its address, and a flag that is set when it has ended
/// the connection.
///
/// # Errors
/// A socket cannot be bound.
pub fn start(
    to: SocketAddr,
    after: u64,
    ending: Ending,
) -> std::io::Result<(SocketAddr, Arc<AtomicBool>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = has_ended.clone();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().ok()?;
        let far = TcpStream::connect(to).ok()?;
        let (back, front) = (far.try_clone().ok()?, near.try_clone().ok()?);
        std::thread::spawn(move || pass(back, front, u64::MAX));
        let has_more = pass(near.try_clone().ok()?, far.try_clone().ok()?, after);
        if has_more {
            ended.store(true, Ordering::SeqCst);
        }
        if ending == Ending::Silent && has_more {
            // Bytes are read and dropped until the worker gives up.
            pass_to_nowhere(&near);
        }
        let _ = near.shutdown(Shutdown::Both);
        let _ = far.shutdown(Shutdown::Both);
        Some(())
    });
    Ok((address, has_ended))
}

/// Passes at most `most` bytes on; returns whether more came.
fn pass(mut from: TcpStream, mut to: TcpStream, most: u64) -> bool {
    let mut left = most;
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let passed = (read as u64).min(left);
        if to.write_all(&buffer[..passed as usize]).is_err() {
            break;
        }
        left -= passed;
        if passed < read as u64 {
            return true;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    false
}

fn pass_to_nowhere(mut from: &TcpStream) {
    let mut buffer = [0; 4_096];
    while let Ok(1..) = from.read(&mut buffer) {}
}
