//! Cycles compared with MAESTRO's totals and with hand calculations, and properties of all mappings.

use proptest::prelude::*;

use super::*;
use crate::hardware::Npu;
use crate::workload::Network;

/// Returns the cycles of a network at batch 1 on the array of an NPU of the thesis.
fn total(code: &str, mapping: &str, npu: &str) -> u128 {
    let network = Network::preset(code).unwrap();
    let mapping: Mapping = mapping.parse().unwrap();
    let pes = Npu::preset(npu).unwrap().parameters().pes;
    network.layers.iter().map(|layer| mapping.cycles(layer, 1, pes)).sum()
}

#[test]
fn totals_are_those_of_maestro() {
    // SPEC section 2, MAESTRO's runtimes in ms for the memory-centric NPU: 16384 PEs at 700 MHz.
    let golden = [("RN", 1.696), ("RX", 7.953), ("IC", 2.193), ("BB", 1.003), ("MN", 0.691)];
    for (code, ms) in golden {
        let found = total(code, "kcp+1", "memory-centric") as f64 / 700e3;
        assert!((found / ms - 1.0).abs() < 1e-3, "{code}: {found} ms, MAESTRO has {ms}");
    }
}

#[test]
fn totals_stay_what_they_are_on_both_arrays() {
    // The first column is pinned by MAESTRO above; the second follows from the same closed form.
    let golden = [
        ("RN", 1_187_232, 1_099_296),
        ("RX", 5_566_656, 5_390_912),
        ("IC", 1_534_664, 1_476_950),
        ("BB", 702_024, 259_608),
        ("BL", 2_459_776, 1_181_760),
        ("XL", 2_900_128, 1_425_504),
        ("MN", 483_692, 472_636),
    ];
    for (code, memory, compute) in golden {
        assert_eq!(total(code, "kcp+1", "memory-centric"), memory, "{code}");
        assert_eq!(total(code, "kcp+1", "compute-centric"), compute, "{code}");
    }
}

/// Returns the layer of ResNet-50 with this name.
fn layer(name: &str) -> NetworkLayer {
    let layers = Network::preset("RN").unwrap().layers;
    layers.into_iter().find(|layer| layer.name == name).unwrap()
}

#[test]
fn a_layer_by_hand() {
    let cycles = |mapping: &str, layer: &NetworkLayer, batch| {
        mapping.parse::<Mapping>().unwrap().cycles(layer, batch, 16384)
    };
    // 3136 positions, 64 x 9 inputs, 64 outputs; 256 clusters of 64 PEs, a quarter of them with outputs.
    let conv = layer("conv2_1_3x3");
    assert_eq!(cycles("peak", &conv, 1), 115_605_504_u128.div_ceil(16384));
    assert_eq!(cycles("sys", &conv, 1), 3136 * 576_u128.div_ceil(128));
    assert_eq!(cycles("kcp", &conv, 1), 3136 * 9);
    assert_eq!(cycles("kcp+1", &conv, 1), 3136 * 10);
    assert_eq!(cycles("kcpx", &conv, 1), 3136 / 4 * 9);
    assert_eq!(cycles("kcpx+1:128", &conv, 1), 3136 / 2 * 10);
    assert_eq!(cycles("kcp+1", &conv, 16), 16 * 3136 * 10);
    // One position cannot be split, sixteen can.
    let fc = layer("fc");
    assert_eq!(cycles("kcp+1", &fc, 1), 2 * 32 * 4);
    assert_eq!(cycles("kcpx+1", &NetworkLayer { cout_g: 64, ..fc }, 16), 4 * 2 * 32);
}

/// Compute cycles of SCALE-Sim 3.0.0 for a weight-stationary array of 128 x 128 PEs and memories that never stall
/// it, of layers of ResNet-50 as products of matrices. The formula was compared at 26 layers
/// of ResNet-50 and BERT base.
#[test]
fn layers_of_a_systolic_array_are_those_of_scale_sim() {
    let golden = [
        ("conv1", 25_852),
        ("conv2_1_1x1a", 3_518),
        ("conv2_1_3x3", 17_590),
        ("conv3_1_3x3", 10_494),
        ("conv4_1_down", 18_496),
        ("conv5_1_3x3", 62_064),
        ("fc", 49_024),
    ];
    for (name, cycles) in golden {
        let mapping: Mapping = "sys+fill".parse().unwrap();
        assert_eq!(mapping.cycles(&layer(name), 1, 16_384), cycles, "{name}");
    }
}

#[test]
fn names_read_as_they_are_written() {
    for (name, shown) in [
        ("peak", "peak"),
        ("sys", "sys:128"),
        ("sys:256", "sys:256"),
        ("sys+fill", "sys+fill:128"),
        ("kcp", "kcp:64"),
        ("kcp+1:128", "kcp+1:128"),
        ("kcpx", "kcpx:64"),
        ("kcpx+1:128", "kcpx+1:128"),
    ] {
        let mapping: Mapping = name.parse().unwrap();
        assert_eq!(mapping.to_string(), shown);
        assert_eq!(shown.parse(), Ok(mapping));
    }
}

#[test]
fn invalid_mappings_are_errors() {
    let error = |name: &str| name.parse::<Mapping>().unwrap_err().to_string();
    assert_eq!(
        error("kcpy"),
        "unknown mapping `kcpy`; the nearest is `kcp`; expected one of peak, sys, sys+fill, kcp, kcp+1, kcpx, kcpx+1"
    );
    for name in ["sys:0", "kcp:", "kcp:-1", "kcp:99999999999999999999"] {
        assert!(error(name).contains("expected a width of at least 1"), "{name}: {}", error(name));
    }
    assert!(error("peak:2").starts_with("unknown mapping `peak:2`"));
    let wide: Mapping = "sys:256".parse().unwrap();
    assert_eq!(
        wide.fits(100).unwrap_err().to_string(),
        "mapping `sys:256` needs 256 PEs, but the NPU has 100; use a smaller width, such as sys:100"
    );
    assert_eq!(wide.fits(256), Ok(()));
}

fn layers() -> impl Strategy<Value = NetworkLayer> {
    let kinds = prop::sample::select(LayerType::ALL.to_vec());
    let sizes = (1_u64..100, 1_u64..5000, 1_u64..3000, 1_u64..50, 1_u64..3000);
    let fc = layer("fc");
    (kinds, sizes).prop_map(move |(kind, (groups, m, cin_g, rs, cout_g))| {
        let (cin_g, cout_g) = match kind {
            LayerType::Gather => (0, 0),
            LayerType::Depthwise => (1, 1),
            _ => (cin_g, cout_g),
        };
        NetworkLayer { kind, groups, m, cin_g, rs, cout_g, ..fc.clone() }
    })
}

proptest! {
    #[test]
    fn no_mapping_beats_the_peak(layer in layers(), batch in 1_u64..20, pes in 128_u64..70_000) {
        let peak = Mapping::Peak.cycles(&layer, batch, pes);
        for name in ["sys", "sys+fill", "kcp", "kcp+1", "kcpx", "kcpx+1", "kcpx+1:128", "sys:7"] {
            let cycles = name.parse::<Mapping>().unwrap().cycles(&layer, batch, pes);
            prop_assert!(cycles >= peak, "{name}: {cycles} of at least {peak}");
        }
    }

    #[test]
    fn splitting_idle_clusters_never_takes_longer(
        layer in layers(), batch in 1_u64..20, pes in 128_u64..70_000,
    ) {
        for (plain, split) in [("kcp", "kcpx"), ("kcp+1", "kcpx+1"), ("kcp:128", "kcpx:128")] {
            let cycles = |name: &str| name.parse::<Mapping>().unwrap().cycles(&layer, batch, pes);
            prop_assert!(cycles(split) <= cycles(plain));
        }
    }

    #[test]
    fn a_batch_takes_at_most_as_long_as_its_samples(layer in layers(), batch in 1_u64..20) {
        for name in NAMES {
            let cycles = |batch| name.parse::<Mapping>().unwrap().cycles(&layer, batch, 16384);
            prop_assert!(cycles(batch) <= u128::from(batch) * cycles(1));
            prop_assert!(cycles(batch + 1) >= cycles(batch));
        }
    }
}
