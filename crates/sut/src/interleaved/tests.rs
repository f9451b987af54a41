//! Blocks, prefetches and runs. Times are not asserted.

use super::*;

fn stacks() -> Vec<DenseNetwork> {
    let dense = |name: &str, inputs, outputs| DenseLayer { name: name.into(), inputs, outputs };
    vec![
        DenseNetwork {
            name: "many rows".into(),
            rows: 64,
            layers: vec![dense("a", 100, 300), dense("b", 300, 2_000)],
        },
        DenseNetwork { name: "one row".into(), rows: 1, layers: vec![dense("c", 400, 500)] },
    ]
}

#[test]
fn blocks_are_parts_of_layers_and_have_all_of_their_bytes() {
    for workers in [1, 3] {
        let mut cores = InterleavedNetworks::new(Isa::best(), workers, &stacks());
        for stream in 0..2 {
            let profile = cores.profile(stream, 100.0);
            assert_eq!(profile.blocks.len(), cores.pass(stream).len());
            let bytes: u64 = profile.blocks.iter().map(|block| block.bytes).sum();
            assert_eq!(bytes, cores.bytes_per_pass(stream) as u64);
            assert!(profile.blocks.iter().all(|block| block.fetch == block.bytes * 100));
        }
        let labels = cores.profile(0, 1.0).labels;
        assert_eq!(labels[0], "a");
        assert!(labels.len() > 2 && labels[1].starts_with("b 1 of "), "{labels:?}");
    }
}

#[test]
fn an_order_runs_with_and_without_hints() {
    let mut cores = InterleavedNetworks::new(Isa::best(), 2, &stacks());
    let profiles: Vec<NetworkProfile> = (0..2).map(|stream| cores.profile(stream, 50.0)).collect();
    let order = [cores.pass(0), cores.pass(1), cores.pass(1)].concat();
    assert!(cores.run(&order) > 0);
    for capacity in [0, 1_000, 100_000, u64::MAX] {
        assert!(cores.run_with_prefetch(&order, &profiles, 50.0, capacity) > 0);
    }
    assert!(cores.ps_per_byte() > 0.0);
}
