//! Servers and clients over real sockets of the loopback.

mod serve;
