//! Descriptions of accelerators in TOML, and tables of layers and of measured blocks.
#![no_main]

use dyno_npu::hardware::Npu;
use dyno_npu::profile::NetworkProfile;
use dyno_npu::workload::Network;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Npu::from_toml(&text) {
        Ok(npu) => assert!(npu.parameters().pes > 0),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Network::from_csv("layers.csv", &text) {
        Ok(network) => {
            let _ = (network.macs(), network.weight_bytes());
        }
        Err(error) => assert!(error.to_string().contains("layers.csv")),
    }
    match NetworkProfile::from_csv("blocks.csv", &text) {
        Ok(profile) => assert!(!profile.blocks.is_empty()),
        Err(error) => assert!(error.to_string().contains("blocks.csv")),
    }
});
