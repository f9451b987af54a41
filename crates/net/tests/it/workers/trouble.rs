//! Workers that die, hang, come late or do not belong: a reason, never a hang.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, SECOND};
use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Scenario, TestMode, TestSettings};
use dyno_net::worker::channel::{Channel, ChannelReader};
use dyno_net::worker::coordinator::{GatherError, ListenSettings, WorkerListener};
use dyno_net::worker::member::{JoinSettings, Member, MemberError};
use dyno_net::worker::wire::{self, Body, Hello, Pair};

use super::rig::{Numbers, SIZE, Time, gathered, join, listen, patience, played, worker};

const PATIENCE: Duration = Duration::from_secs(60);

fn long() -> TestSettings {
    TestSettings {
        scenario: Scenario::Server,
        mode: TestMode::PerformanceOnly,
        server_target_qps: 500.0,
        min_duration_ms: 600_000,
        ..TestSettings::default()
    }
}

#[test]
fn a_worker_that_goes_away_ends_the_run_with_a_reason() {
    let listening = WorkerListener::begin(listen(2)).unwrap();
    let address = listening.address();
    let whole = worker(address, Time::Real);
    // Takes orders until the run begins, and drops the connection then.
    let half = std::thread::spawn(move || {
        let (channel, mut reader) = connect(address);
        let share = handshake(&channel, &mut reader, "open sesame").unwrap();
        loop {
            match wire::read(&mut reader, wire::MOST).unwrap() {
                Body::SetUp(_) => wire::send(&channel, Body::Ready(ready())).unwrap(),
                Body::Begin(_) | Body::Load(_) => {
                    wire::send(&channel, Body::Done(true)).unwrap();
                }
                Body::Play(_) => wire::send(&channel, Body::Armed(true)).unwrap(),
                Body::Ping(asked) => {
                    let pong = wire::Pong { asked, at: 5 };
                    wire::send(&channel, Body::Pong(pong)).unwrap();
                }
                Body::Start(_) => {
                    channel.close();
                    return share;
                }
                _ => {}
            }
        }
    });
    let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
    coordinator.set_up(&[], &|| true).unwrap();
    let clock = Clock::start();
    let log = played(&coordinator, &long());
    let lost_index = half.join().unwrap();
    assert!(clock.now() < 60 * SECOND, "the run would last ten minutes");
    let run = log.runs().next().unwrap();
    assert_eq!(run.ended, EndReason::Lost { worker: lost_index, workers: 2 });
    let reports = dyno_loadgen::log::reports(&log);
    assert!(!reports[0].is_valid());
    let lost = coordinator.lost().unwrap().to_string();
    assert!(lost.contains(&format!("worker {}", lost_index + 1)), "{lost}");
    assert!(lost.contains("a stranger"), "{lost}");
    drop(coordinator);
    whole.join().unwrap().unwrap();
}

#[test]
fn a_worker_that_falls_silent_ends_the_run_with_a_reason() {
    let listening =
        WorkerListener::begin(ListenSettings { silence: SECOND / 2, ..listen(1) }).unwrap();
    let address = listening.address();
    let hung = std::thread::spawn(move || {
        let (channel, mut reader) = connect(address);
        handshake(&channel, &mut reader, "open sesame").unwrap();
        loop {
            // It reads, and says nothing.
            if wire::read(&mut reader, wire::MOST).is_err() {
                return;
            }
        }
    });
    let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
    let lost = coordinator.set_up(&[], &|| true).unwrap_err();
    assert!(lost.to_string().contains("nothing arrived for too long"), "{lost}");
    hung.join().unwrap();
}

/// Reads more than `left` bytes only after the signal.
struct Halting<'a> {
    reader: ChannelReader,
    left: usize,
    signal: &'a Mutex<mpsc::Receiver<()>>,
}

impl Read for Halting<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let signal = self.signal.lock().unwrap();
            signal.recv_timeout(PATIENCE).map_err(std::io::Error::other)?;
            self.left = usize::MAX;
        }
        let most = to.len().min(self.left);
        let read = self.reader.read(&mut to[..most])?;
        self.left -= read;
        Ok(read)
    }
}

#[test]
fn a_worker_that_reads_slowly_delays_no_other_one() {
    let listening = WorkerListener::begin(listen(2)).unwrap();
    let address = listening.address();
    let (is_set_up, signal) = mpsc::channel();
    let signal = Mutex::new(signal);
    // The first worker reads the end of the order after the second one has read all of it.
    let follow = || {
        let (channel, mut reader) = connect(address);
        let index = handshake(&channel, &mut reader, "open sesame").unwrap();
        let left = if index == 0 { 1 << 20 } else { usize::MAX };
        let mut halting = Halting { reader, left, signal: &signal };
        loop {
            match wire::read(&mut halting, wire::MOST) {
                Ok(Body::SetUp(_)) => {
                    is_set_up.send(()).unwrap();
                    wire::send(&channel, Body::Ready(ready())).unwrap();
                }
                Ok(Body::Ping(asked)) => {
                    wire::send(&channel, Body::Pong(wire::Pong { asked, at: 5 })).unwrap();
                }
                Ok(Body::Bye(_)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(follow);
        scope.spawn(follow);
        let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
        let option = Pair { name: "data".into(), value: "x".repeat(32 << 20) };
        assert_eq!(coordinator.set_up(&[option], &|| true).unwrap().len(), 2);
    });
}

/// Without an error, the coordinator would wait for an answer to an order that was not sent.
#[test]
fn sets_of_millions_of_samples_are_sent_and_longer_orders_end_the_run() {
    let (coordinator, mut threads) = gathered(1, || Time::Virtual);
    coordinator.set_up(&[], &|| true).unwrap();
    let driver = coordinator.begin(("by index", SIZE), Scenario::Server, vec![long()]);
    let library = coordinator.library(&Numbers);
    // Each sample takes five bytes.
    library.load(&vec![u32::MAX; 2_000_000]);
    assert_eq!(coordinator.lost(), None);
    library.load(&vec![u32::MAX; 13_500_000]);
    let lost = coordinator.lost().unwrap();
    assert!(lost.why.contains("expected at most 67108864: use fewer samples"), "{lost}");
    drop(driver);
    drop(coordinator);
    let ended = threads.pop().unwrap().join().unwrap();
    assert!(matches!(ended, Err(MemberError::Gone(_))), "{ended:?}");
}

#[test]
fn what_was_measured_before_an_abort_is_kept() {
    let (coordinator, threads) = gathered(2, || Time::Real);
    coordinator.set_up(&[], &|| true).unwrap();
    let log = std::thread::scope(|scope| {
        let run = scope.spawn(|| played(&coordinator, &long()));
        let goes_on = patience();
        while coordinator.glance().issued_queries < 50 && goes_on() {
            std::thread::yield_now();
        }
        coordinator.abort();
        run.join().unwrap()
    });
    let run = log.runs().next().unwrap();
    assert_eq!(run.ended, EndReason::Aborted);
    assert!(run.record.query_count() >= 50);
    drop(coordinator);
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn a_coordinator_that_goes_away_ends_its_workers() {
    let listening = WorkerListener::begin(listen(2)).unwrap();
    let alone = worker(listening.address(), Time::Virtual);
    // One has joined; the other never does, and the wait is ended.
    let joined = std::cell::Cell::new(false);
    let ended = listening.gather(&|| !joined.get(), &mut |_| joined.set(true)).unwrap_err();
    assert!(matches!(ended, GatherError::Ended { joined: 1 }));
    let error = alone.join().unwrap().unwrap_err();
    assert!(matches!(error, MemberError::Gone(_)), "{error}");
    assert!(
        !error.to_string().contains("too long"),
        "told, and not given up after a silence: {error}"
    );
}

#[test]
fn strangers_and_other_releases_are_told_why_they_are_refused() {
    let listening = WorkerListener::begin(listen(1)).unwrap();
    let own = join(listening.address());
    let refused = |join: &JoinSettings| Member::join(join).unwrap_err();
    let stranger = JoinSettings { token: "guess".into(), ..own.clone() };
    assert!(matches!(refused(&stranger), MemberError::NotTheCoordinator));
    // One that does not look at the coordinator's proof gets no further.
    let (channel, mut reader) = connect(listening.address());
    assert!(handshake(&channel, &mut reader, "guess").unwrap_err().contains("token"));
    let old = refused(&JoinSettings { release: "0.9.0".into(), ..own.clone() }).to_string();
    assert!(old.contains("1.2.3") && old.contains("0.9.0"), "{old}");
    // Noise does not keep others out.
    use std::io::Write as _;
    TcpStream::connect(listening.address()).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let only = worker(listening.address(), Time::Virtual);
    let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
    let late = refused(&own).to_string();
    assert!(late.contains("all 1 workers"), "{late}");
    drop(coordinator);
    only.join().unwrap().unwrap();
}

#[test]
fn without_a_token_the_machine_is_proved() {
    let machine = |name: &str| Some(name.to_owned());
    let listen = ListenSettings { token: String::new(), machine: machine("here"), ..listen(1) };
    let listening = WorkerListener::begin(listen).unwrap();
    let own = JoinSettings {
        token: String::new(),
        machine: machine("here"),
        ..join(listening.address())
    };
    for machine in [machine("elsewhere"), None] {
        let error = Member::join(&JoinSettings { machine, ..own.clone() }).unwrap_err();
        assert!(matches!(error, MemberError::NoToken), "{error}");
    }
    let with_token = Member::join(&JoinSettings { token: "t".into(), ..own.clone() }).unwrap_err();
    assert!(matches!(with_token, MemberError::NotTheCoordinator), "{with_token}");
    let joining = std::thread::spawn(move || Member::join(&own).map(|member| member.is_local()));
    let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
    assert!(joining.join().unwrap().unwrap());
    drop(coordinator);
}

#[test]
fn a_coordinator_of_another_machine_is_not_taken_for_a_local_one() {
    for (here, there, is_local) in [("a", "a", true), ("a", "b", false)] {
        let listen = ListenSettings { machine: Some(there.into()), ..listen(1) };
        let listening = WorkerListener::begin(listen).unwrap();
        let own = JoinSettings { machine: Some(here.into()), ..join(listening.address()) };
        let joining = std::thread::spawn(move || Member::join(&own));
        let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
        let member = joining.join().unwrap().unwrap();
        assert_eq!(member.is_local(), is_local);
        drop(coordinator);
    }
}

#[test]
fn the_versions_of_both_sides_are_named() {
    let listening = WorkerListener::begin(listen(1)).unwrap();
    let (channel, mut reader) = connect(listening.address());
    let hello = Hello { protocol: 1, release: "1.2.3".into(), ..Hello::default() };
    wire::send(&channel, Body::Hello(hello)).unwrap();
    let Body::Refused(why) = wire::read(&mut reader, 4_096).unwrap() else { panic!() };
    let own = format!("worker protocol {}", wire::PROTOCOL);
    assert!(why.contains(&own) && why.contains("worker protocol 1"), "{why}");
}

#[test]
fn a_worker_that_is_interrupted_says_so() {
    let listening = WorkerListener::begin(listen(1)).unwrap();
    let address = listening.address();
    let goes_on = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let asked = goes_on.clone();
    let worker = std::thread::spawn(move || {
        let goes_on = || asked.load(std::sync::atomic::Ordering::Relaxed);
        Member::join(&join(address))?.serve(&mut super::rig::TestRig(Time::Real), &goes_on)
    });
    let coordinator = listening.gather(&patience(), &mut |_| {}).unwrap();
    coordinator.set_up(&[], &|| true).unwrap();
    let log = std::thread::scope(|scope| {
        let run = scope.spawn(|| played(&coordinator, &long()));
        let is_patient = patience();
        while coordinator.glance().issued_queries < 50 && is_patient() {
            std::thread::yield_now();
        }
        goes_on.store(false, std::sync::atomic::Ordering::Relaxed);
        run.join().unwrap()
    });
    assert_eq!(log.runs().next().unwrap().ended, EndReason::Lost { worker: 0, workers: 1 });
    let lost = coordinator.lost().unwrap().to_string();
    assert_eq!(lost, "worker 1 left: a thread: it was interrupted");
    let ended = worker.join().unwrap().unwrap_err();
    assert!(matches!(ended, MemberError::Interrupted), "{ended}");
}

#[test]
fn a_system_that_a_worker_lacks_is_named_with_the_worker() {
    let (coordinator, threads) = gathered(1, || Time::Virtual);
    let pair = Pair { name: "system".into(), value: "such model".into() };
    let lost = coordinator.set_up(&[pair], &|| true).unwrap_err().to_string();
    assert!(lost.contains("worker 1") && lost.contains("there is no such model"), "{lost}");
    drop(coordinator);
    for thread in threads {
        assert!(thread.join().unwrap().is_err());
    }
}

#[test]
fn a_seat_that_does_not_exist_or_is_taken_is_refused() {
    let listening = WorkerListener::begin(listen(2)).unwrap();
    let address = listening.address();
    let workers = std::thread::spawn(move || {
        let member = |seat| Member::join(&JoinSettings { seat, ..join(address) });
        let refused = member(3).unwrap_err().to_string();
        let second = member(2).unwrap();
        let taken = member(2).unwrap_err().to_string();
        (refused, taken, second, member(1).unwrap())
    });
    let mut said = Vec::new();
    let gathered = listening.gather(&patience(), &mut |line| said.push(line.to_owned()));
    let (refused, taken, second, first) = workers.join().unwrap();
    let why = "seat 3 does not exist: the run has 2 workers";
    assert_eq!(refused, format!("the coordinator refused this worker: {why}"));
    assert_eq!(taken, "the coordinator refused this worker: seat 2 is taken by another worker");
    assert_eq!((first.share().index, second.share().index), (0, 1));
    assert!(said.contains(&format!("a thread did not join: {why}")), "{said:?}");
    drop(gathered.unwrap());
}

fn ready() -> wire::Ready {
    let (system, library) = ("by index".into(), "numbers".into());
    wire::Ready { system, library, total: 50, performance: 40 }
}

/// Connects as a worker would.
fn connect(address: SocketAddr) -> (Arc<Channel>, ChannelReader) {
    Channel::connect(TcpStream::connect(address).unwrap(), PATIENCE).unwrap()
}

/// Joins as a worker would, without looking at the coordinator's proof.
fn handshake(channel: &Channel, reader: &mut ChannelReader, token: &str) -> Result<u32, String> {
    let nonce = vec![7; 32];
    let hello = Hello {
        protocol: wire::PROTOCOL,
        release: "1.2.3".into(),
        nonce: nonce.clone(),
        name: "a stranger".into(),
        seat: 0,
    };
    wire::send(channel, Body::Hello(hello)).unwrap();
    let Body::Challenge(challenge) = wire::read(reader, 4_096).unwrap() else { panic!() };
    let mut said = b"dyno worker".to_vec();
    for part in [&nonce[..], &challenge.nonce, &channel.binding()] {
        said.extend((part.len() as u64).to_le_bytes());
        said.extend(part);
    }
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, token.as_bytes());
    let proof = ring::hmac::sign(&key, &said).as_ref().to_vec();
    wire::send(channel, Body::Proof(proof)).unwrap();
    match wire::read(reader, 4_096).unwrap() {
        Body::Welcome(welcome) => Ok(welcome.index),
        Body::Refused(why) => Err(why),
        other => panic!("{other:?}"),
    }
}
