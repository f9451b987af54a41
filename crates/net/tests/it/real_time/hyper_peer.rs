//! Against a server that others wrote: `hyper` frames what this client reads.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use dyno_loadgen::settings::Scenario;
use dyno_net::client::Options;
use dyno_net::exchange::HttpVersion;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;

use super::played::{client, endpoint, play, settings};
use super::protocols::{Fixed, body_of};

/// Echoes bodies; in pieces of `piece` bytes, which hyper sends in chunks, if it is not 0.
fn echo(piece: usize, keeps_alive: bool) -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service_fn(move |request: Request<Incoming>| async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    Ok::<_, Infallible>(Response::new(answer(&body, piece)))
                });
                let mut http = hyper::server::conn::http1::Builder::new();
                http.keep_alive(keeps_alive);
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
    });
    receiver.recv().unwrap()
}

fn answer(body: &Bytes, piece: usize) -> http_body_util::combinators::BoxBody<Bytes, Infallible> {
    if piece == 0 {
        return Full::new(body.clone()).boxed();
    }
    let pieces: Vec<_> =
        body.chunks(piece).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    Pieces(pieces.into_iter()).boxed()
}

/// Pieces that are there already, and whose length nobody tells.
struct Pieces(std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn what_is_posted_comes_back(
        len in prop_oneof![1_usize..200, 60_000_usize..600_000],
        piece in prop_oneof![Just(0_usize), 1_usize..40, 1_000_usize..70_000],
        keeps_alive in any::<bool>(),
    ) {
        let server = echo(piece.max(len / 2_000 * usize::from(piece > 0)), keeps_alive);
        let protocol = Fixed { version: HttpVersion::Http1, samples: 4, body: len };
        let options = Options { connections: 3, ..Options::default() };
        let (client, library) = client(protocol, &[endpoint(server)], options);
        for scenario in [Scenario::Offline, Scenario::SingleStream] {
            let played = play(&client, &library, &settings(scenario, 20, 1.0));
            prop_assert_eq!(played.record.missing(), 0);
            prop_assert_eq!(client.trouble(), None);
            for response in played.record.responses.iter() {
                let sample = played.record.indices[response.sequence as usize];
                prop_assert_eq!(response.data, &body_of(sample, len)[..]);
            }
        }
        let connects = client.statistics().connects;
        // Those of each run that stand ready at its end carried nothing: three, then one.
        let expected = if keeps_alive { 3..=3 } else { 40..=44 };
        prop_assert!(expected.contains(&connects), "{} connections", connects);
    }
}
