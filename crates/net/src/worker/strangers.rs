//! Connections to a coordinator that have not proved anything yet.

use std::net::{IpAddr, Shutdown, TcpStream};

/// Maximum number of concurrent handshakes. A worker's takes a few milliseconds.
const MOST_STRANGERS: usize = 64;

/// Connections whose handshake is not complete, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    next: u64,
    all: Vec<Stranger>,
}

#[derive(Debug)]
struct Stranger {
    number: u64,
    from: IpAddr,
    socket: TcpStream,
}

impl Strangers {
    /// Adds a connection and returns its number. If there are too many, ends the oldest connection from
    /// the address that has most: a client that is slow on purpose must not keep others out.
    pub(super) fn add(&mut self, from: IpAddr, socket: TcpStream) -> u64 {
        if self.all.len() >= MOST_STRANGERS {
            let count = |from: IpAddr| self.all.iter().filter(|other| other.from == from).count();
            let most = self.all.iter().map(|stranger| count(stranger.from)).max();
            if let Some(at) =
                self.all.iter().position(|stranger| Some(count(stranger.from)) == most)
            {
                let oldest = self.all.remove(at);
                // An error means that it has already ended.
                let _ = oldest.socket.shutdown(Shutdown::Both);
            }
        }
        self.next += 1;
        self.all.push(Stranger { number: self.next, from, socket });
        self.next
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.all.retain(|stranger| stranger.number != number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_oldest_of_the_busiest_address_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.set_nonblocking(true).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let is_open = |client: &mut TcpStream| client.read(&mut [0]).is_err();
        let [busy, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let mut strangers = Strangers::default();
        let mut clients = Vec::new();
        let mut add = |from, clients: &mut Vec<TcpStream>| {
            let (client, socket) = connect();
            clients.push(client);
            strangers.add(from, socket)
        };
        add(other, &mut clients);
        for _ in 1..MOST_STRANGERS {
            add(busy, &mut clients);
        }
        assert!(clients.iter_mut().all(is_open));
        let last = add(other, &mut clients);
        let closed: Vec<usize> =
            (0..clients.len()).filter(|&at| !is_open(&mut clients[at])).collect();
        assert_eq!(closed, [1], "the oldest of the busy address");
        strangers.remove(last);
        assert_eq!(strangers.all.len(), MOST_STRANGERS - 1);
    }
}
