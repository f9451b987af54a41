//! Users to whom the ends of a connection within this machine belong.
//!
//! Every user of a machine can listen on a loopback port and read the identifier of the boot, so
//! neither proves that a coordinator may use what the user of a worker may read.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// The kernel's tables of TCP connections. Only Linux has them.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// State of an end that its process has not closed. Closed ends have no user, and appear as root's.
const ESTABLISHED: &str = "01";

/// Returns whether both ends of a connection within this machine belong to one user. On systems
/// without tables of connections, only the addresses are available, and the result is true.
pub(super) fn are_equal(own: SocketAddr, peer: SocketAddr) -> bool {
    let tables = TABLES.map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().all(String::is_empty) || is_of_one_user(&tables, own, peer)
}

fn is_of_one_user(tables: &[String], own: SocketAddr, peer: SocketAddr) -> bool {
    let user = |local, remote| tables.iter().find_map(|table| user_of(table, local, remote));
    user(own, peer).is_some_and(|owner| user(peer, own) == Some(owner))
}

/// Returns the user of the end `local` of a connection.
fn user_of(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    table.lines().find_map(|row| {
        let mut fields = row.split_whitespace().skip(1);
        let ends = (address(fields.next()?)?, address(fields.next()?)?);
        let is_open = fields.next()? == ESTABLISHED;
        if !is_open || ends != (plain(local), plain(remote)) {
            return None;
        }
        // Queues and timers come before the user.
        fields.nth(3)?.parse().ok()
    })
}

/// Reads an address such as `0100007F:1F90`: words of 32 bits in the byte order of this machine, and
/// the port.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (host, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for word in host.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some((ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const OWN: &str = "127.0.0.1:8080";
    const PEER: &str = "127.0.0.1:4660";

    /// Returns the table of a connection from `OWN` to `PEER`, with the states and users of its ends.
    fn table(own: (&str, u32), peer: (&str, u32)) -> [String; 1] {
        let host = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let row = |index: u32, ports: [&str; 2], (state, user): (&str, u32)| {
            format!(
                "   {index}: {host}:{} {host}:{} {state} 00000000:00000000 00:00000000 00000000 \
                 {user:>5}        0 24680 1 0000000000000000 20 4 30 10 -1\n",
                ports[0], ports[1]
            )
        };
        let heading =
            "  sl  local_address rem_address   st tx_queue tr retrnsmt   uid\n".to_owned();
        [[heading, row(0, ["1F90", "1234"], own), row(1, ["1234", "1F90"], peer)].concat()]
    }

    #[test]
    fn both_ends_belong_to_one_user_only_if_the_kernel_says_so() {
        let (own, peer) = (OWN.parse().unwrap(), PEER.parse().unwrap());
        assert!(is_of_one_user(&table(("01", 1000), ("01", 1000)), own, peer));
        assert!(!is_of_one_user(&table(("01", 0), ("01", 65534)), own, peer), "another user");
        assert!(!is_of_one_user(&table(("01", 0), ("04", 0)), own, peer), "a closed end");
        assert!(!is_of_one_user(&[String::from("no table\n")], own, peer), "unknown ends");
    }

    #[test]
    fn ends_of_this_process_belong_to_one_user() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            // Some machines have no IPv6.
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            let ends = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            assert!(are_equal(ends.0, ends.1) && are_equal(ends.1, ends.0), "{host}");
            drop(accepted);
        }
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let words = |ip: [u8; 16]| -> String {
            let words = ip.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
            words.map(|word| format!("{word:08X}")).collect()
        };
        let mapped = "::ffff:127.0.0.1".parse::<std::net::Ipv6Addr>().unwrap();
        let read = address(&format!("{}:1F90", words(mapped.octets()))).unwrap();
        assert_eq!(read, ("127.0.0.1".parse().unwrap(), 8080));
        let six = std::net::Ipv6Addr::LOCALHOST;
        assert_eq!(address(&format!("{}:0001", words(six.octets()))), Some((six.into(), 1)));
        assert_eq!(address("local_address"), None);
    }
}
