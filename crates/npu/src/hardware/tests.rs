//! Valid NPUs, and the errors for invalid ones.

use proptest::prelude::*;

use super::*;

#[test]
fn presets_have_the_figures_of_the_thesis() {
    // TOP/s, GB/s, and operations per byte at which both resources are busy.
    for (name, tops, bandwidth, balance) in [
        ("compute-centric", 91.1, 68, 1340.0),
        ("memory-centric", 22.9, 225, 101.9),
        ("chapter-v", 128.0, 100, 1280.0),
        ("tpu-v1", 91.8, 34, 2698.5),
        ("tpu-v2", 45.9, 700, 65.5),
        ("tpu-v3", 123.2, 900, 136.9),
        ("tpu-v4i", 137.6, 614, 224.1),
        ("nnp-i", 50.0, 68, 735.3),
    ] {
        let npu = Npu::preset(name).unwrap();
        assert!((npu.peak() / 1e12 - tops).abs() < 0.06, "{name}: {}", npu.peak());
        assert_eq!(npu.parameters().bytes_per_second, bandwidth * 1_000_000_000, "{name}");
        assert!((npu.balance() - balance).abs() < 0.6, "{name}: {}", npu.balance());
        assert_eq!(Npu::new(name, *npu.parameters()), Ok(npu));
    }
    assert_eq!(PRESETS.len(), 8);
}

#[test]
fn a_buffer_of_weights_fills_in_213_us() {
    let npu = Npu::preset("memory-centric").unwrap();
    assert_eq!(npu.bytes(npu.parameters().weight_buffer.into()), Some(213_333_334));
    assert_eq!(npu.cycles(7), Some(10_000));
    assert_eq!(npu.cycles(1), Some(1429));
    assert_eq!((npu.cycles(0), npu.cycles(u128::MAX)), (Some(0), None));
}

#[test]
fn invalid_hardware_is_an_error() {
    let npu = Npu::preset("memory-centric").unwrap();
    let error =
        |change: fn(&mut NpuParameters)| npu.with_parameters(change).unwrap_err().to_string();
    assert_eq!(
        error(|parts| parts.pes = 0),
        "NPU `memory-centric`: the number of PEs is 0; expected at least 1, such as \
         128 x 128 = 16384"
    );
    assert!(error(|parts| parts.hertz = 0).contains("the frequency is 0"));
    assert!(error(|parts| parts.bytes_per_second = 0).contains("the memory bandwidth is 0"));
    assert!(error(|parts| parts.weight_buffer = 0).contains("the weight buffer is 0"));
    assert!(error(|parts| parts.activation_buffer = Some(0)).contains("or remove it"));
    assert_eq!(
        error(|parts| parts.pes = u64::MAX),
        "NPU `memory-centric`: the number of PEs is 18446744073709551615; expected at most 1000000000000000"
    );
    let slow = error(|parts| parts.switch = u64::MAX);
    assert!(slow.contains("the cost of a switch in ps is 18446744073709551615"), "{slow}");
    let energy = |mac_pj| Some(Energy { mac_pj, memory_byte_pj: 1.0, static_watts: 0.0 });
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        let error =
            npu.with_parameters(|parts| parts.energy = energy(wrong)).unwrap_err().to_string();
        assert!(error.contains("the energy of a multiply-accumulate is"), "{error}");
    }
    assert_eq!(
        Npu::preset("tpu").unwrap_err().to_string(),
        "unknown NPU `tpu`; the nearest is `tpu-v1`; expected one of compute-centric, memory-centric, chapter-v, \
         tpu-v1, tpu-v2, tpu-v3, tpu-v4i, nnp-i"
    );
}

#[test]
fn descriptions_read() {
    let npu = Npu::from_toml(
        "name = \"ours\"\npes = 4_096\nfrequency_mhz = 1.5\nmemory_gb_per_s = 12.5\nweight_buffer_mb = 2\n\
         switch_us = 3\nmac_pj = 0.5\n",
    );
    let energy = Some(Energy { mac_pj: 0.5, memory_byte_pj: 0.0, static_watts: 0.0 });
    let parts = NpuParameters {
        pes: 4096,
        hertz: 1_500_000,
        bytes_per_second: 12_500_000_000,
        weight_buffer: 2_000_000,
        activation_buffer: None,
        switch: 3_000_000,
        energy,
        arithmetic: crate::arithmetic::Arithmetic::Fixed,
    };
    assert_eq!(npu, Ok(Npu::new("ours", parts).unwrap()));
    let half = Npu::from_toml("base = \"memory-centric\"\nmemory_gb_per_s = 112.5\n").unwrap();
    let base = Npu::preset("memory-centric").unwrap();
    assert_eq!(Ok(half), base.with_parameters(|parts| parts.bytes_per_second /= 2));
}

#[test]
fn problems_of_a_description_are_reported() {
    let error = |text: &str| Npu::from_toml(text).unwrap_err().to_string();
    assert_eq!(
        error(
            "base = \"tpu-v1\"\n\nfrequency_mzh = 3\npes = \"many\"\nweight_buffer_mb = -1\nname = 3\n"
        ),
        "line 3: `frequency_mzh`: unknown key; the nearest is `frequency_mhz`\n\
         line 4: `pes`: expected a number of 0 to 1e12, found the string \"many\"\n\
         line 5: `weight_buffer_mb`: expected a number of 0 to 1e12, found -1\n\
         line 6: `name`: expected a string"
    );
    assert!(
        error("pes = 3\n").contains("line 1: `frequency_mhz`: is missing; add it, or a `base`")
    );
    assert!(error("base = \"tpu\"").starts_with("line 1: `base`: unknown NPU `tpu`"));
    assert!(error("pes = ").starts_with("line 1: not valid TOML"));
    assert!(error("base = \"tpu-v1\"\npes = 0").contains("the number of PEs is 0"));
    assert!(error("base = \"tpu-v1\"\npes = nan").contains("`pes`: expected a number"));
}

proptest! {
    #[test]
    fn any_description_is_read_or_rejected(text in "[a-z_=0-9.\"\n -]{0,200}", value in "[-0-9a-fx_.e]{1,12}") {
        for text in [text, format!("base = \"tpu-v1\"\npes = {value}")] {
            if let Err(error) = Npu::from_toml(&text) {
                prop_assert!(!error.problems.is_empty());
            }
        }
    }
}
