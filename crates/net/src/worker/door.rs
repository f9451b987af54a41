//! Admission of workers: both sides prove that they know one token, without sending it.
//!
//! Each side sends a nonce; a proof is the HMAC-SHA256 (RFC 2104) of both nonces, the side's role and
//! the [binding](super::channel::Channel::binding) of the encrypted connection under the token. A relay
//! therefore cannot pass proofs on. Without a token the key is the secret of the machine, so only
//! processes of one machine can connect, and a tunnel from another machine fails. They must also
//! [belong to one user](super::owners).

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use dyno_loadgen::clock::WallTime;
use ring::rand::SecureRandom as _;
use ring::{digest, hmac};

use super::owners;

/// A side of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Coordinator,
    Worker,
}

impl Role {
    fn word(self) -> &'static [u8] {
        match self {
            Self::Coordinator => b"dyno coordinator",
            Self::Worker => b"dyno worker",
        }
    }
}

/// Returns a value that was not used before, from the time, the process and a count. It need not be
/// secret or unpredictable.
pub(super) fn nonce() -> Vec<u8> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(&WallTime::now().unix_ns.to_le_bytes());
    hash.update(&std::process::id().to_le_bytes());
    hash.update(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    hash.finish().as_ref().to_vec()
}

/// Returns an unpredictable token; `None` if the machine has no random numbers for it.
pub fn new_token() -> Option<String> {
    let mut bytes = [0_u8; 32];
    ring::rand::SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What both sides of a connection know: the nonces of the worker and of the coordinator, and the binding
/// of the connection.
pub(super) type Session<'a> = [&'a [u8]; 3];

fn signed_bytes(role: Role, session: Session<'_>) -> Vec<u8> {
    let mut said = role.word().to_vec();
    for nonce in session {
        said.extend((nonce.len() as u64).to_le_bytes());
        said.extend(nonce);
    }
    said
}

/// Returns the key of the proofs of both sides.
pub(super) fn key(token: &str, machine: Option<&str>) -> String {
    match (token, machine) {
        ("", Some(machine)) => machine_key(machine),
        (token, _) => token.to_owned(),
    }
}

/// Returns the key of the proof that a process runs on this machine. It differs from every token
/// that a person would choose.
pub(super) fn machine_key(machine: &str) -> String {
    format!("dyno machine {machine}")
}

/// Returns whether both ends of a connection have loopback addresses and belong to one user.
pub(super) fn is_local(stream: &TcpStream) -> bool {
    let (Ok(own), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let is_loopback = [own, peer].iter().all(|end| end.ip().to_canonical().is_loopback());
    is_loopback && owners::are_equal(own, peer)
}

/// Returns the proof that `role` knows the key.
pub(super) fn proof(key: &str, role: Role, session: Session<'_>) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hmac::sign(&key, &signed_bytes(role, session)).as_ref().to_vec()
}

/// Returns whether `proof` proves that `role` knows the key. Takes equal time for every wrong
/// proof.
pub(super) fn is_proof(key: &str, role: Role, session: Session<'_>, proof: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hmac::verify(&key, &signed_bytes(role, session), proof).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_token_one_role_both_nonces_and_one_connection() {
        let (w, c, at) = (nonce(), nonce(), nonce());
        assert_ne!(w, c);
        let given = proof("secret", Role::Worker, [&w, &c, &at]);
        assert!(is_proof("secret", Role::Worker, [&w, &c, &at], &given));
        assert!(!is_proof("other", Role::Worker, [&w, &c, &at], &given));
        assert!(!is_proof("secret", Role::Coordinator, [&w, &c, &at], &given));
        assert!(!is_proof("secret", Role::Worker, [&c, &w, &at], &given));
        assert!(!is_proof("secret", Role::Worker, [&w, &c, &w], &given));
        assert!(!is_proof("secret", Role::Worker, [&w, &c, &at], &[]));
    }

    #[test]
    fn without_a_token_the_machine_is_the_key() {
        assert_eq!(key("secret", Some("m")), "secret");
        assert_ne!(key("", Some("m")), key("", Some("n")));
        assert_eq!(key("", None), "");
    }

    #[test]
    fn a_connection_of_one_process_over_loopback_is_local() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(is_local(&stream) && is_local(&accepted));
    }
}
