//! How often `compare` raises a false alarm, and how often it sees a change.
use dyno_loadgen::compare::{self, *};
mod systems;
use systems::*;

fn options(pairing: Pairing) -> Options {
    let p = |p| Metric::Percentile(Series::Latency, p);
    Options {
        headline: p(0.99),
        further: vec![
            p(0.5),
            p(0.9),
            p(0.999),
            Metric::Mean(Series::Latency),
            Metric::Throughput,
            Metric::Failures,
        ],
        pairing,
        threshold: 0.0,
        risk: 0.05,
    }
}

fn main() {
    let trials = std::env::args().nth(1).map_or(300, |a| a.parse().unwrap());
    for (system, n) in
        [(System::Queue(0.8), 20_000), (System::Queue(0.9), 100_000), (System::Queue(0.8), 100_000)]
    {
        for same in [false, true] {
            if same && matches!(system, System::ClosedLoop) {
                continue;
            }
            for effect in [1.0] {
                let mut alarms = 0;
                let mut by = [0; 7];
                let mut tell = 0;
                let mut worse = 0;
                let mut width = [0.0; 7];
                let mut mid = [0; 7];
                for trial in 0..trials as u64 {
                    let s = trial * 4 + 1;
                    let a = system.run(n, Seeds { arrivals: s, service: s + 1 }, 1.0);
                    let b = system.run(
                        n,
                        Seeds { arrivals: if same { s } else { s + 2 }, service: s + 3 },
                        effect,
                    );
                    let c = compare::compare(
                        &[a],
                        &[b],
                        &options(if same { Pairing::InOrder } else { Pairing::None }),
                    );
                    alarms += u64::from(c.rows.iter().any(|r| r.finding.is_difference()));
                    tell += u64::from(c.verdict == Verdict::CannotTell);
                    worse += u64::from(c.verdict == Verdict::Worse);
                    for (i, r) in c.rows.iter().enumerate() {
                        by[i] += u64::from(r.finding.is_difference());
                        if r.finding == Finding::TooFew {
                            mid[i] += 1
                        } else {
                            width[i] += r.detectable;
                        }
                    }
                }
                let pc = |x: u64| 100.0 * x as f64 / trials as f64;
                println!(
                    "{system:?} n={n} same={same} effect={effect}: any {:.1}% worse {:.1}% cannot {:.1}%  by {:?} width {:?}",
                    pc(alarms),
                    pc(worse),
                    pc(tell),
                    by.map(pc),
                    std::array::from_fn::<_, 7, _>(|i| (1000.0 * width[i]
                        / (trials as f64 - mid[i] as f64))
                        .round()
                        / 10.)
                );
            }
        }
    }
}
