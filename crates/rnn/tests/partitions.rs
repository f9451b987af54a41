//! Partitions compared with brute force, Theorem 5.2 with counting, and plans for known machines.

use std::collections::BTreeSet;

use dyno_kernels::{Precision, Tanh};
use dyno_rnn::cost::{LayerShape, predict};
use dyno_rnn::machine::Machine;
use dyno_rnn::partition::{
    MatrixProduct, PartitionTask, Split, Sweep, least_moved, most, reading, splits,
};
use dyno_rnn::{Cell, Choice};

/// Brute force with three loops.
fn naive(workers: usize, most: Split) -> Vec<Split> {
    let mut all = Vec::new();
    for i in 1..=workers {
        for j in 1..=workers {
            for k in 1..=workers {
                if i * j * k == workers && i <= most.i && j <= most.j && k <= most.k {
                    all.push(Split { i, j, k });
                }
            }
        }
    }
    all
}

#[test]
fn all_splits_are_found() {
    let wide = Split { i: 100, j: 100, k: 100 };
    for workers in 1..=64 {
        for most in [wide, Split { i: 1, ..wide }, Split { i: 3, j: 5, k: 2 }] {
            assert_eq!(splits(workers, most), naive(workers, most), "{workers} workers, {most}");
        }
    }
}

/// Counts numbers that workers fetch, one by one: a worker holds on to its part of B if there is
/// room for it, and to nothing else; sums are fetched and sent back.
fn counted(product: &MatrixProduct, split: Split, private: usize) -> usize {
    let (rows, columns, depth) = (product.i / split.i, product.j / split.j, product.k / split.k);
    let mut moved = 0;
    for worker in 0..split.workers() {
        let (a, b) = (worker % split.i, worker / split.i % split.j);
        let c = worker / split.i / split.j;
        let mut held: BTreeSet<(usize, usize)> = BTreeSet::new();
        for _ in 0..product.steps {
            let (mut fetched_a, mut fetched_c) = (BTreeSet::new(), BTreeSet::new());
            for i in a * rows..(a + 1) * rows {
                for j in b * columns..(b + 1) * columns {
                    fetched_c.insert((i, j));
                    for k in c * depth..(c + 1) * depth {
                        fetched_a.insert((i, k));
                        moved += usize::from(held.insert((k, j)));
                    }
                }
            }
            moved += fetched_a.len() + 2 * fetched_c.len();
            if held.len() > private {
                held.clear();
            }
        }
    }
    moved
}

#[test]
fn the_theorem_counts_what_moves() {
    let product = MatrixProduct { i: 4, j: 12, k: 8, steps: 5 };
    for workers in [1, 2, 4, 6, 8, 12] {
        for split in naive(workers, Split { i: 4, j: 12, k: 8 }) {
            if product.i % split.i + product.j % split.j + product.k % split.k > 0 {
                continue;
            }
            for private in [1, 8, 16, 32, 96] {
                let theorem = product.moved(split, private as f64);
                assert_eq!(
                    theorem,
                    counted(&product, split, private) as f64,
                    "{split}, {private} kept"
                );
            }
        }
    }
}

#[test]
fn reuse_is_the_papers() {
    // 2IJK / (|A| + |B| + 2|C|) for a vector and 256 x 1024 weights: below 2 for any size.
    let vector = MatrixProduct { i: 1, j: 1024, k: 256, steps: 1 };
    assert_eq!(vector.reuse(), 524_288.0 / (256.0 + 262_144.0 + 2048.0));
    let split = Split { i: 1, j: 4, k: 2 };
    assert_eq!(vector.reuse_split(split), 524_288.0 / (4.0 * 256.0 + 262_144.0 + 2.0 * 2048.0));
    let batch = MatrixProduct { i: 20, ..vector };
    assert!(batch.reuse() > 15.0 * vector.reuse());
    for workers in [2, 4, 24] {
        for split in splits(workers, Split { i: 20, j: 64, k: 16 }) {
            assert!(batch.reuse_split(split) < batch.reuse(), "{split}");
        }
    }
}

fn task<'a>(
    machine: &'a Machine,
    precision: Precision,
    units: usize,
    batch: usize,
) -> PartitionTask<'a> {
    let product = MatrixProduct { i: batch, j: 4 * units, k: units, steps: 100 };
    PartitionTask { product, cell: Cell::Lstm, precision, machine, sweep: Sweep::Alternate }
}

#[test]
fn searches_find_what_brute_force_finds() {
    for machine in [Machine::sapphire_rapids(), Machine::paper()] {
        for (units, batch) in [(64, 1), (256, 1), (256, 20), (1024, 1), (1024, 10)] {
            let task = task(&machine, Precision::F32, units, batch);
            let most = most(&task.product, 4, Precision::F32);
            let all = || (1..=machine.cores).flat_map(|workers| naive(workers, most));
            let (split, time) = task.fastest(machine.cores);
            let least = all().map(|split| task.step(split).total()).fold(f64::MAX, f64::min);
            assert_eq!(time.total(), least, "{units} units, {batch} rows: {split}");
            let private = machine.resident_l2() / 4.0;
            let found = least_moved(&task.product, machine.cores, most, private);
            let moved = |split: Split| task.product.moved(split, private);
            let least = all().filter(|split| split.workers() == machine.cores).map(moved);
            assert_eq!(found.map(moved), Some(least.fold(f64::MAX, f64::min)), "{units}, {batch}");
        }
    }
}

/// SPEC section 2: 2, 2.5 and 3 MiB of weights on a core whose L2 cache has 2 MiB.
#[test]
fn the_edge_of_a_cache_is_as_soft_as_measured() {
    let machine = Machine::sapphire_rapids();
    let rate = |mebibytes: f64, sweep| {
        let bytes = mebibytes * f64::from(1 << 20);
        bytes / reading(&machine, bytes, 1, bytes, sweep).ns
    };
    for (mebibytes, least, most) in [
        (0.03, 241.0, 242.0),
        (1.0, 121.0, 122.0),
        (2.0, 66.0, 121.0),
        (2.5, 32.0, 48.0),
        (3.0, 26.0, 29.0),
    ] {
        let found = rate(mebibytes, Sweep::Forward);
        assert!((least..=most).contains(&found), "{mebibytes} MiB at {found} GB/s");
        assert!(rate(mebibytes, Sweep::Alternate) >= found, "{mebibytes} MiB");
    }
}

/// SPEC section 5, weight-centric plans for two cores.
#[test]
fn two_cores_share_as_the_reference_says() {
    let machine = Machine::sapphire_rapids();
    let split_of = |precision, units, batch| task(&machine, precision, units, batch).fastest(2).0;
    let (units, rows) = (Split { i: 1, j: 2, k: 1 }, Split { i: 2, j: 1, k: 1 });
    for precision in [Precision::F32, Precision::Bf16] {
        // Weights exceed the L1 cache, one row: workers divide the units.
        assert_eq!(split_of(precision, 256, 1), units, "{precision:?}");
        assert_eq!(split_of(precision, 1024, 1), units, "{precision:?}");
    }
    // Weights fit in one L2 cache, and with many rows multiplication takes longer than reading:
    // workers divide the rows and need no barrier. With fewer operations each core reads half.
    assert_eq!(split_of(Precision::F32, 256, 10), rows);
    assert_eq!(split_of(Precision::F32, 256, 20), rows);
    assert_eq!(split_of(Precision::F32, 256, 2), units);
    // A step of about half a microsecond is too short for an exchange.
    assert_eq!(split_of(Precision::Bf16, 64, 1), Split::ONE);
    assert_eq!(split_of(Precision::Int8, 64, 1), Split::ONE);
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        for units in [64, 256, 1024] {
            for batch in [1, 2, 10, 20] {
                assert_eq!(split_of(precision, units, batch).k, 1, "sums in parts never win");
            }
        }
    }
}

/// The paper's 24 cores have 256 KiB each: weights of 16 MiB exceed one cache and all together.
#[test]
fn the_papers_cores_share_as_its_caches_allow() {
    let machine = Machine::paper();
    let fastest = |units, batch| task(&machine, Precision::F32, units, batch).fastest(24);
    // Weights of 64 KiB: a few cores at most, since barriers cost more than they save.
    let (small, _) = fastest(64, 1);
    assert!(small.workers() <= 4, "{small}");
    // Weights of 1 MiB: enough cores that each part fits; one row is not divided.
    let (middle, time) = fastest(256, 1);
    assert!(middle.j >= 6 && middle.i == 1, "{middle}");
    assert!(time.total() < task(&machine, Precision::F32, 256, 1).step(Split::ONE).total() / 2.0);
    // Weights of 16 MiB: all cores divide the units, none the rows.
    let (large, _) = fastest(1024, 1);
    assert!(large.workers() >= 20 && large.i == 1, "{large}");
}

#[test]
fn predictions_know_what_directions_and_rows_save() {
    let machine = Machine::sapphire_rapids();
    let choice = |chunk, sides, rows, units| Choice {
        precision: Precision::F32,
        tanh: Tanh::Fitted98,
        chunk,
        sides,
        rows,
        units,
    };
    let shape = LayerShape {
        cell: Cell::Lstm,
        inputs: 256,
        units: 256,
        width: 256,
        phases: 1,
        directions: 2,
        batch: 1,
        steps: 100,
    };
    let ns = |shape: &LayerShape, choice: Choice| predict(shape, &choice, &machine).ns();
    // One direction per core: no barrier at each step (SPEC, decision 9).
    assert!(ns(&shape, choice(16, 2, 1, 1)) < ns(&shape, choice(16, 1, 1, 2)));
    assert_eq!(predict(&shape, &choice(16, 2, 1, 1), &machine).barriers, 0.0);
    let batch = LayerShape { directions: 1, batch: 10, ..shape };
    assert!(ns(&batch, choice(16, 1, 2, 1)) < ns(&batch, choice(16, 1, 1, 1)) / 1.8);
    // Input weights are read once per chunk instead of at each step.
    let large = LayerShape { units: 1024, width: 1024, inputs: 1024, directions: 1, ..shape };
    assert!(ns(&large, choice(16, 1, 1, 1)) < 0.7 * ns(&large, choice(1, 1, 1, 1)));
    // A step of two phases has two barriers.
    let two = LayerShape { phases: 2, ..large };
    let met = |shape: &LayerShape| predict(shape, &choice(1, 1, 1, 2), &machine).barriers;
    assert_eq!(met(&two), 2.0 * met(&large));
    // The sums of a whole long sequence exceed the private cache.
    let long = LayerShape { batch: 20, ..large };
    let far = |chunk| predict(&long, &choice(chunk, 1, 1, 2), &machine).far_bytes;
    assert!(far(128) > 0.0 && far(128) / far(8) < 1.0);
}
