//! Figures of the thesis (SPEC section 1), checked against the model.

use super::*;
use crate::hardware::Energy;
use crate::lowering::LoweringOptions;

fn npu(name: &str) -> Npu {
    Npu::preset(name).unwrap()
}

fn pass(network: &Network, npu: &Npu, mapping: &str, batch: u64) -> PassTotals {
    let options = LoweringOptions { batch, ..LoweringOptions::default() };
    let lowering = lower(network, npu, mapping.parse().unwrap(), &options).unwrap();
    PassTotals::new(network, npu, &options, &lowering)
}

#[test]
fn intensities_are_those_of_the_tables() {
    // Operations per byte of weights at batch 1, computed by hand from products and bytes.
    for (code, expected) in [
        ("IC", 240.06),
        ("MN", 86.68),
        ("RN", 160.34),
        ("RX", 169.49),
        ("BB", 64.41),
        ("XL", 69.92),
    ] {
        let found = intensity(&Network::preset(code).unwrap(), 1);
        assert!((found - expected).abs() < 0.01, "{code}: {found}");
    }
}

#[test]
fn a_length_decides_what_bounds_bert() {
    let bert = Network::preset("BB").unwrap();
    let memory = npu("memory-centric");
    // About one operation per byte and token: memory-bound below a hundred tokens at batch 1.
    let bound = |seq_len, batch| {
        let network = bert.at_sequence(seq_len).unwrap();
        let at_peak = points(&network, batch);
        at_peak.iter().find(|point| point.npu == "memory-centric").unwrap().bottleneck()
    };
    assert_eq!((bound(64, 1), bound(384, 1)), (Bottleneck::Memory, Bottleneck::Compute));
    assert_eq!((bound(6, 16), bound(16, 16)), (Bottleneck::Memory, Bottleneck::Compute));
    let turns = turning_batch(&bert, &memory).unwrap();
    assert!(intensity(&bert, turns) >= memory.balance());
    assert!(intensity(&bert, turns - 1) < memory.balance());
}

#[test]
fn mobilenet_is_bound_by_memory_at_peak_and_by_compute_as_it_is_mapped() {
    let network = Network::preset("MN").unwrap();
    let memory = npu("memory-centric");
    let peak = pass(&network, &memory, "peak", 1);
    // 0.026 and 0.031 ms.
    assert_eq!((peak.compute / 1_000_000, peak.fetch / 1_000_000), (26, 30));
    assert_eq!(peak.bottleneck(), Bottleneck::Memory);
    assert!((peak.utilization(&memory) - 1.0).abs() < 5e-3);
    let mapped = pass(&network, &memory, "kcp+1", 1);
    assert_eq!((mapped.bottleneck(), mapped.interval()), (Bottleneck::Compute, mapped.compute));
    assert!(mapped.utilization(&memory) < 0.05);
    for code in ["IC", "MN", "RN", "RX"] {
        let network = Network::preset(code).unwrap();
        assert_eq!(
            pass(&network, &npu("chapter-v"), "peak", 1).bottleneck(),
            Bottleneck::Memory,
            "{code}"
        );
    }
}

#[test]
fn keys_and_values_keep_a_token_bound_by_memory_at_any_batch() {
    use crate::workload::language::{Decoder, DecoderPhase};
    let decoder = Decoder::preset("llama2-7b").unwrap();
    let token = decoder.network(DecoderPhase::Decode(4096)).unwrap();
    assert_eq!(turning_batch(&token, &npu("memory-centric")), None);
    let prompt = decoder.network(DecoderPhase::Prefill(512)).unwrap();
    assert_eq!(turning_batch(&prompt, &npu("memory-centric")), Some(1));
}

#[test]
fn energy_is_counted_where_there_are_figures() {
    let network = Network::preset("RN").unwrap();
    let plain = npu("memory-centric");
    assert_eq!(pass(&network, &plain, "kcp+1", 1).joules, None);
    let energy = Energy { mac_pj: 1.0, memory_byte_pj: 100.0, static_watts: 10.0 };
    let known = plain.with_parameters(|parts| parts.energy = Some(energy)).unwrap();
    let pass = pass(&network, &known, "kcp+1", 1);
    let expected = 4_089_184_256e-12 + 51_005_824e-10 + 10.0 * pass.interval() as f64 / 1e12;
    assert!((pass.joules.unwrap() - expected).abs() < 1e-8, "{:?} of {expected}", pass.joules);
}

#[test]
fn a_sweep_has_each_length_and_batch() {
    let network = Network::preset("BB").unwrap();
    let (memory, options) = (npu("memory-centric"), LoweringOptions::default());
    let sweep_of = |code: &str, lengths: &[u64]| {
        let network = Network::preset(code).unwrap();
        sweep(&network, &memory, Mapping::Peak, &options, &[1, 16], lengths)
    };
    let sweep = sweep_of("BB", &[16, 64]).unwrap();
    let points: Vec<_> = sweep.iter().map(|point| (point.seq_len, point.batch)).collect();
    assert_eq!(points, [(Some(16), 1), (Some(16), 16), (Some(64), 1), (Some(64), 16)]);
    assert_eq!(sweep[2].pass, pass(&network, &memory, "peak", 1));
    assert_eq!(sweep_of("RN", &[16, 64]).unwrap().len(), 2);
    let error = sweep_of("BB", &[0]).unwrap_err().to_string();
    assert_eq!(error, "sequence of 0 tokens: expected a length of at least 1");
}

#[test]
fn layers_have_times_of_their_own() {
    let network = Network::preset("BB").unwrap();
    let memory = npu("memory-centric");
    let mapping: Mapping = "kcp+1".parse().unwrap();
    let all: Option<Vec<LayerTimes>> =
        network.layers.iter().map(|layer| times(layer, &memory, mapping, 4)).collect();
    let all = all.unwrap();
    let pass = pass(&network, &memory, "kcp+1", 4);
    let sums =
        (all.iter().map(|t| t.compute).sum::<u64>(), all.iter().map(|t| t.fetch).sum::<u64>());
    assert!(sums.0 - pass.compute <= 99 && sums.1 - pass.fetch <= 99);
}

/// A pass of table lookups alone computes nothing.
#[test]
fn a_pass_without_products_uses_no_pe() {
    let totals =
        PassTotals { compute: 0, fetch: 10, macs: 0, compute_bound: 0, blocks: 1, joules: None };
    assert_eq!(totals.utilization(&npu("memory-centric")), 0.0);
}
