//! Cycles of layers in few bits, counted by hand.

use super::*;
use crate::hardware::Npu;
use crate::lowering::{LoweringOptions, lower};
use crate::workload::Network;

/// Returns the cycles of a layer with weights and inputs of these bits that takes 160 cycles in 16 bits.
fn cycles(arithmetic: Arithmetic, kind: LayerType, bits: [u32; 2]) -> u128 {
    let layer = Network::preset("NCF").expect("it is one").layers[1].clone();
    let layer = NetworkLayer { kind, bits: [bits[0], bits[1], 16], ..layer };
    arithmetic.cycles(&layer, 160)
}

#[test]
fn few_bits_take_as_many_cycles_as_the_arithmetic_says() {
    let fc = LayerType::FullyConnected;
    for (bits, expected) in [
        // Weights and inputs; cycles of fixed, packed and bit-serial arithmetic.
        ([16, 16], [160, 160, 160]),
        ([8, 8], [160, 80, 80]),
        ([4, 8], [160, 80, 80]),
        ([8, 5], [160, 80, 50]),
        ([5, 5], [160, 80, 50]),
        ([4, 4], [160, 40, 40]),
        ([3, 1], [160, 40, 10]),
        ([1, 1], [160, 10, 10]),
        ([4, 16], [160, 160, 160]),
        ([32, 8], [160, 320, 80]),
    ] {
        let found = ARITHMETICS.map(|(arithmetic, ..)| cycles(arithmetic, fc, bits));
        assert_eq!(found, expected, "{bits:?}");
    }
    // A product of activations has no weights, whatever their bits.
    assert_eq!(cycles(Arithmetic::Packed, LayerType::Activations, [16, 4]), 40);
    // A part of a cycle is a cycle.
    let layer = Network::preset("NCF").expect("it is one").layers[1].clone();
    let layer = NetworkLayer { bits: [16, 5, 16], ..layer };
    assert_eq!(Arithmetic::BitSerial.cycles(&layer, 1), 1);
}

#[test]
fn a_network_in_eight_bits_computes_in_half_the_time_if_the_npu_packs() {
    let description =
        |arithmetic: &str| format!("base = \"memory-centric\"\narithmetic = \"{arithmetic}\"\n");
    let compute = |arithmetic: &str, bits| {
        let npu = Npu::from_toml(&description(arithmetic)).expect("it is one");
        let network = Network::preset("RN").expect("it is one");
        let network = network.in_bits(Some(bits), Some(bits)).expect("these are bits");
        let mapping = "kcp+1".parse().expect("it is one");
        let lowering = lower(&network, &npu, mapping, &LoweringOptions::default());
        lowering.expect("it fits").profile.compute() as f64
    };
    let whole = compute("fixed", 16);
    assert_eq!((compute("fixed", 8), compute("packed", 16)), (whole, whole));
    for arithmetic in ["packed", "bit-serial"] {
        let half = compute(arithmetic, 8) / whole;
        assert!((half - 0.5).abs() < 1e-3, "{arithmetic}: {half}");
    }
    let wrong = Npu::from_toml(&description("serial")).unwrap_err().to_string();
    assert!(wrong.starts_with("line 2: `arithmetic`: unknown arithmetic `serial`"), "{wrong}");
}
