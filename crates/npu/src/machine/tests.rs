//! The machine compared with hand-made timelines and with a simulation that steps through time.

use proptest::prelude::*;

use super::*;

fn block(compute: Picos, fetch: Picos, bytes: u64) -> Block {
    Block { compute, fetch, bytes }
}

fn limits(capacity: u64, switch: Picos) -> MachineLimits {
    let fetch = FetchStart::Whole;
    MachineLimits { capacity, depth: usize::MAX, switch, ps_per_byte: 1.0, fetch }
}

fn machine(capacity: u64, switch: Picos) -> Machine {
    Machine::new(limits(capacity, switch))
}

#[test]
fn fetching_runs_ahead_of_computing() {
    let mut machine = machine(100, 0);
    let first = machine.place(&block(50, 10, 10), 0, 0);
    let second = machine.place(&block(20, 30, 30), 0, 0);
    assert_eq!((first.compute_start, first.compute_end), (10, 60));
    assert_eq!((second.fetch_start, second.fetch_end), (10, 40), "the memory does not wait");
    assert_eq!((second.compute_start, second.compute_end), (60, 80), "the array was busy until 60");
}

#[test]
fn a_full_buffer_holds_the_memory_until_a_block_is_computed() {
    let mut machine = machine(10, 0);
    machine.place(&block(100, 10, 8), 0, 0);
    assert_eq!(machine.room(), 2);
    let second = machine.place(&block(5, 4, 4), 1, 0);
    assert_eq!(
        second,
        Placement { fetch_start: 110, fetch_end: 114, compute_start: 114, compute_end: 119 }
    );
}

#[test]
fn turning_to_another_stream_costs_the_array_and_may_hide_behind_a_fetch() {
    let mut machine = machine(100, 7);
    machine.place(&block(10, 10, 1), 0, 0);
    assert_eq!(machine.peek(&block(10, 1, 1), 0, 0).compute_start, 20);
    assert_eq!(machine.peek(&block(10, 1, 1), 1, 0).compute_start, 27);
    assert_eq!(machine.peek(&block(10, 30, 1), 1, 0).compute_start, 40);
}

#[test]
fn double_buffering_fetches_one_block_ahead() {
    let mut machine = Machine::new(MachineLimits { depth: 2, ..limits(100, 0) });
    machine.place(&block(100, 10, 1), 0, 0);
    assert_eq!(machine.place(&block(10, 10, 1), 0, 0).fetch_end, 20);
    assert_eq!(
        machine.peek(&block(10, 10, 1), 0, 0).fetch_start,
        110,
        "the first is computed until then"
    );
}

/// Simulates the same machine by brute force: in each picosecond the memory, then the array, advances.
fn stepped(blocks: &[(Block, usize, Picos)], capacity: u64, switch: Picos) -> Vec<Placement> {
    let unset = Placement { fetch_start: 0, fetch_end: 0, compute_start: 0, compute_end: 0 };
    let mut placed = vec![unset; blocks.len()];
    let (mut fetching, mut computing) = (0, 0);
    let (mut fetch_begun, mut compute_begun) = (false, false);
    let (mut used, mut array_free, mut now) = (0, 0, 0);
    while computing < blocks.len() {
        // Everything that ends now ends before anything starts; blocks that take no time need several rounds.
        loop {
            let mut moved = false;
            if compute_begun && placed[computing].compute_end == now {
                used -= blocks[computing].0.bytes;
                (array_free, compute_begun, moved) = (now, false, true);
                computing += 1;
            }
            if fetch_begun && placed[fetching].fetch_end == now {
                (fetch_begun, moved) = (false, true);
                fetching += 1;
            }
            let wanted = blocks.get(fetching).filter(|_| !fetch_begun);
            if let Some((block, _, not_before)) = wanted
                && now >= *not_before
                && used + block.bytes <= capacity
            {
                used += block.bytes;
                (placed[fetching].fetch_start, placed[fetching].fetch_end) =
                    (now, now + block.fetch);
                (fetch_begun, moved) = (true, true);
            }
            if computing < fetching && !compute_begun {
                let turned = computing > 0 && blocks[computing].1 != blocks[computing - 1].1;
                if now >= array_free + if turned { switch } else { 0 } {
                    let end = now + blocks[computing].0.compute;
                    (placed[computing].compute_start, placed[computing].compute_end) = (now, end);
                    (compute_begun, moved) = (true, true);
                }
            }
            if !moved {
                break;
            }
        }
        now += 1;
    }
    placed
}

fn some_blocks() -> impl Strategy<Value = (Vec<(Block, usize, Picos)>, u64, Picos)> {
    let one = (0..20u64, 0..20u64, 1..30u64, 0..3usize, 0..8u64);
    (prop::collection::vec(one, 1..40), 30..90u64, 0..4u64).prop_map(|(raw, capacity, switch)| {
        let mut not_before = 0;
        let next = |(compute, fetch, bytes, stream, later): (u64, u64, u64, usize, u64)| {
            not_before += later;
            (Block { compute, fetch, bytes }, stream, not_before)
        };
        (raw.into_iter().map(next).collect(), capacity, switch)
    })
}

proptest! {
    #[test]
    fn it_equals_a_simulation_that_steps_through_time((blocks, capacity, switch) in some_blocks()) {
        let mut machine = machine(capacity, switch);
        let placed: Vec<_> = blocks
            .iter()
            .map(|(block, stream, not_before)| {
                let observed = machine.peek(block, *stream, *not_before);
                let placed = machine.place(block, *stream, *not_before);
                assert_eq!(observed, placed, "what is peeked is what is placed");
                placed
            })
            .collect();
        prop_assert_eq!(&placed, &stepped(&blocks, capacity, switch));
    }

    #[test]
    fn the_buffer_never_holds_more_than_it_has_and_both_orders_are_kept((blocks, capacity, switch) in some_blocks()) {
        let mut machine = machine(capacity, switch);
        let placed: Vec<_> =
            blocks.iter().map(|(block, stream, not_before)| machine.place(block, *stream, *not_before)).collect();
        for (at, now) in placed.iter().enumerate() {
            let holds = |(other, (block, ..)): (&Placement, &(Block, usize, Picos))| {
                let inside = other.fetch_start <= now.fetch_start && now.fetch_start < other.compute_end;
                if inside { block.bytes } else { 0 }
            };
            // Blocks that take no time come and go at one instant and use no room.
            let used: u64 = placed[..at].iter().zip(&blocks).map(holds).sum();
            prop_assert!(used + blocks[at].0.bytes <= capacity);
            prop_assert!(now.fetch_end <= now.compute_start);
        }
        for pair in placed.windows(2) {
            prop_assert!(pair[0].fetch_end <= pair[1].fetch_start);
            prop_assert!(pair[0].compute_end <= pair[1].compute_start);
        }
        let end = machine.compute_free();
        prop_assert!(end >= machine.compute_busy().max(machine.memory_busy()));
    }
}

#[test]
fn a_partial_fetch_uses_the_room_there_is_and_pauses() {
    let partial = MachineLimits { fetch: FetchStart::Partial, ..limits(10, 0) };
    let mut machine = Machine::new(partial);
    machine.place(&block(100, 8, 8), 0, 0);
    // Two of four bytes fit while the first block is computed, until 108; the other two follow.
    let second = machine.place(&block(5, 4, 4), 0, 0);
    let expected =
        Placement { fetch_start: 8, fetch_end: 110, compute_start: 110, compute_end: 115 };
    assert_eq!(second, expected);
    assert_eq!((machine.room(), machine.memory_busy()), (6, 12));
}

/// Simulates a machine with partial fetches by brute force: the memory transfers byte after byte, each in `rate` ps, and
/// a byte needs room when its transfer starts.
fn transferred(blocks: &[(u64, u64, u64)], capacity: u64) -> Vec<(Picos, Picos)> {
    let mut ends = vec![(0, 0); blocks.len()];
    let (mut used, mut memory_free, mut array_free) = (0, 0, 0);
    // Bytes and release times of computed blocks, in order.
    let mut held: VecDeque<(Picos, u64)> = VecDeque::new();
    for (at, &(compute, rate, bytes)) in blocks.iter().enumerate() {
        let mut now: Picos = memory_free;
        for _ in 0..bytes {
            while let Some(&(until, size)) = held.front()
                && (until <= now || used == capacity)
            {
                now = now.max(until);
                used -= size;
                held.pop_front();
            }
            used += 1;
            now += rate;
        }
        memory_free = now;
        array_free = now.max(array_free) + compute;
        held.push_back((array_free, bytes));
        ends[at] = (now, array_free);
    }
    ends
}

proptest! {
    #[test]
    fn partial_fetches_equal_a_transfer_byte_by_byte(
        blocks in prop::collection::vec((0..40u64, 1..4u64, 1..30u64), 1..40),
        capacity in 30..60u64,
    ) {
        let partial = MachineLimits { fetch: FetchStart::Partial, ..limits(capacity, 0) };
        let mut machine = Machine::new(partial);
        let placed: Vec<_> = blocks
            .iter()
            .map(|&(compute, rate, bytes)| {
                let block = block(compute, rate * bytes, bytes);
                let observed = machine.peek(&block, 0, 0);
                let placed = machine.place(&block, 0, 0);
                assert_eq!(observed, placed, "what is peeked is what is placed");
                (placed.fetch_end, placed.compute_end)
            })
            .collect();
        prop_assert_eq!(placed, transferred(&blocks, capacity));
    }

    #[test]
    fn partial_fetches_end_no_later_than_whole_ones((blocks, capacity, _) in some_blocks()) {
        let mut whole = machine(capacity, 0);
        let mut partial =
            Machine::new(MachineLimits { fetch: FetchStart::Partial, ..limits(capacity, 0) });
        for (block, stream, not_before) in &blocks {
            let later = whole.place(block, *stream, *not_before);
            let sooner = partial.place(block, *stream, *not_before);
            prop_assert!(sooner.fetch_end <= later.fetch_end);
            prop_assert!(sooner.compute_end <= later.compute_end);
        }
    }
}
