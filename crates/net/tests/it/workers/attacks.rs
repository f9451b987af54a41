//! Attacks on the port of a coordinator and on the way to it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dyno_net::worker::channel::{Channel, ChannelReader, Identity};
use dyno_net::worker::coordinator::WorkerListener;
use dyno_net::worker::member::{Member, MemberError};
use dyno_net::worker::wire::{self, Pair};

use super::rig::{Time, join, listen, patience, worker};

const PATIENCE: Duration = Duration::from_secs(60);

/// Passes bytes on between a client and `to`, and keeps a copy of all.
fn tapped(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let tape: Arc<Mutex<Vec<u8>>> = Arc::default();
    let copy = tape.clone();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        for (mut from, mut to) in
            [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
        {
            let tape = copy.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4_096];
                while let Ok(read @ 1..) = from.read(&mut buffer) {
                    tape.lock().unwrap().extend(&buffer[..read]);
                    if to.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    (address, tape)
}

#[test]
fn nothing_that_is_sent_can_be_read_on_the_way() {
    let listening = WorkerListener::begin(listen(1)).unwrap();
    let (address, tape) = tapped(listening.address());
    let only = worker(address, Time::Virtual);
    let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
    let secret = Pair { name: "system".into(), value: "a secret model".into() };
    // The rig refuses it, and its message comes back.
    let lost = coordinator.set_up(&[secret], &|| true).unwrap_err().to_string();
    assert!(lost.contains("a secret model"), "{lost}");
    drop(coordinator);
    assert!(only.join().unwrap().is_err());
    let tape = tape.lock().unwrap();
    for word in ["a secret model", "a thread", "1.2.3", "open sesame"] {
        let found = tape.windows(word.len()).any(|bytes| bytes == word.as_bytes());
        assert!(!found, "`{word}` is in {} bytes", tape.len());
    }
    assert!(tape.len() > 500, "{} bytes", tape.len());
}

/// Passes messages on in both directions, until one side ends.
fn pass_on(mut from: ChannelReader, to: &Channel) {
    while let Ok(body) = wire::read(&mut from, wire::MOST) {
        if wire::send(to, body).is_err() {
            break;
        }
    }
    to.close();
}

#[test]
fn a_relay_that_decrypts_is_not_joined_even_if_both_sides_know_the_token() {
    let listening = WorkerListener::begin(listen(1)).unwrap();
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, to) = (relay.local_addr().unwrap(), listening.address());
    std::thread::spawn(move || {
        let (near, _) = relay.accept().unwrap();
        let identity = Identity::new().unwrap();
        let (near, from_near) = Channel::accept(near, &identity, PATIENCE).unwrap();
        let far = TcpStream::connect(to).unwrap();
        let (far, from_far) = Channel::connect(far, PATIENCE).unwrap();
        std::thread::spawn(move || pass_on(from_near, &far));
        pass_on(from_far, &near);
    });
    let error = Member::join(&join(address)).unwrap_err();
    assert!(matches!(error, MemberError::NotTheCoordinator), "{error}");
    // The honest way still works.
    let only = worker(listening.address(), Time::Virtual);
    drop(listening.gather(&patience(), &mut |_| {}).unwrap());
    only.join().unwrap().unwrap();
}

#[test]
fn a_server_of_plain_text_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = Member::join(&join(address)).unwrap_err();
    assert!(matches!(error, MemberError::NotEncrypted(_)), "{error}");
    assert!(error.to_string().contains("not a coordinator of this release"), "{error}");
}

/// As a port forwarder does before the coordinator behind it listens. The program tries such an
/// address again.
#[test]
fn a_listener_that_closes_the_connection_is_a_coordinator_out_of_reach() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let forwarder = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        // What arrives is read, or else the connection is reset.
        let _ = (&stream).read(&mut [0; 4_096]);
    });
    let error = Member::join(&join(address)).unwrap_err();
    assert!(matches!(error, MemberError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("the listener closed the connection"), "{error}");
    forwarder.join().unwrap();
}

#[test]
fn slow_strangers_keep_no_worker_out() {
    let listening = WorkerListener::begin(listen(1)).unwrap();
    let address = listening.address();
    // More than there are places, each of which sends the beginning of a handshake.
    let strangers: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[0x16]).unwrap();
            stream
        })
        .collect();
    let only = worker(address, Time::Virtual);
    let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
    assert_eq!(coordinator.workers(), 1);
    drop(coordinator);
    only.join().unwrap().unwrap();
    drop(strangers);
}

#[test]
fn a_handshake_has_one_time_limit_however_often_a_byte_comes() {
    let listening = WorkerListener::begin(listen(1)).unwrap();
    let stream = TcpStream::connect(listening.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut slow = stream.try_clone().unwrap();
    // A TLS record of 16 KiB, byte by byte.
    let bytes = [0x16, 3, 1, 0x40, 0].into_iter().chain(std::iter::repeat(0));
    let sender = std::thread::spawn(move || {
        for byte in bytes {
            if slow.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
    });
    let ended = (&stream).read_to_end(&mut Vec::new());
    let is_timeout = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!ended.is_err_and(|error| is_timeout(&error)), "it is still connected");
    let _ = stream.shutdown(Shutdown::Both);
    sender.join().unwrap();
}
