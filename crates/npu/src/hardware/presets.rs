//! NPU presets: those of the thesis and well-known products.

use thiserror::Error;

use super::{Npu, NpuParameters};
use crate::arithmetic::Arithmetic;
use crate::nearest::alternatives;

/// A named NPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NpuPreset {
    /// Name on the command line.
    pub name: &'static str,
    /// Description with the source of the figures.
    pub title: &'static str,
    /// Parameters of the NPU.
    pub parameters: NpuParameters,
}

const MEGA: u64 = 1_000_000;
const GIGA: u64 = 1_000_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Parameters with no switching cost and no energy figures: no published figures fit this model.
const fn parameters(
    pes: u64,
    hertz: u64,
    bytes_per_second: u64,
    weight_buffer: u64,
    activation_buffer: Option<u64>,
) -> NpuParameters {
    NpuParameters {
        pes,
        hertz,
        bytes_per_second,
        weight_buffer,
        activation_buffer,
        switch: 0,
        energy: None,
        arithmetic: Arithmetic::Fixed,
    }
}

/// All presets. MB and GB are powers of ten, MiB are powers of two.
///
/// The activation buffers of the two NPUs of the thesis' Table IV.1 are exchanged here. The table gives 2.3 + 1.5 MB to
/// the compute-centric NPU and 36 + 24 MB to the memory-centric NPU. The former are the largest activations of
/// MobileNet v2 and ResNet-50 at batch 1, which the memory-centric NPU runs; the latter are 16 times as large, which
/// matches batch 16 on the compute-centric NPU (SPEC section 1).
///
/// The compute-centric NPU has the cores, the bandwidth and the buffers of Intel's NNP-I at a higher clock.
///
/// The thesis does not name the five NPUs of Figure II.7. The last five presets stand in for them: their vendors
/// published the figures, and they span the same range of balance points.
pub const PRESETS: &[NpuPreset] = &[
    NpuPreset {
        name: "compute-centric",
        title: "Table IV.1: 92 TOP/s, 68 GB/s; the PEs are 12 cores of 4096, from 92 TOP/s at 927 MHz",
        parameters: parameters(12 * 4096, 927 * MEGA, 68 * GIGA, 48 * MEGA, Some(60 * MEGA)),
    },
    NpuPreset {
        name: "memory-centric",
        title: "Table IV.1: 22.5 TOP/s, 225 GB/s; 128x128 PEs at 700 MHz; buffers of 2.30 + 1.53 MiB",
        parameters: parameters(
            128 * 128,
            700 * MEGA,
            225 * GIGA,
            48 * MEGA,
            Some(2_408_448 + 1_605_632),
        ),
    },
    NpuPreset {
        name: "chapter-v",
        title: "chapter V: 128 TOP/s, 100 GB/s, 50 MB; 65536 PEs are our assumption, which gives \
                976.5625 MHz",
        parameters: parameters(65536, 976_562_500, 100 * GIGA, 50 * MEGA, None),
    },
    NpuPreset {
        name: "tpu-v1",
        title: "TPU v1: 92 TOP/s, 34 GB/s, 256x256 PEs at 700 MHz; a FIFO of four tiles of weights, 24 MiB \
                of activations (Jouppi et al., ISCA 2017)",
        parameters: parameters(65536, 700 * MEGA, 34 * GIGA, 256 * KIB, Some(24 * MIB)),
    },
    NpuPreset {
        name: "tpu-v2",
        title: "TPU v2: 46 TFLOP/s, 700 GB/s, two arrays of 128x128 PEs at 700 MHz, 32 MiB on the \
                chip, half for weights and half for activations (Jouppi et al., CACM 7/2020)",
        parameters: parameters(2 * 16384, 700 * MEGA, 700 * GIGA, 16 * MIB, Some(16 * MIB)),
    },
    NpuPreset {
        name: "tpu-v3",
        title: "TPU v3: 123 TFLOP/s, 900 GB/s, four arrays of 128x128 PEs at 940 MHz, 32 MiB on \
                the chip, half for weights and half for activations (Jouppi et al., CACM 7/2020)",
        parameters: parameters(4 * 16384, 940 * MEGA, 900 * GIGA, 16 * MIB, Some(16 * MIB)),
    },
    NpuPreset {
        name: "tpu-v4i",
        title: "TPU v4i: 138 TFLOP/s, 614 GB/s, four arrays of 128x128 PEs at 1050 MHz, 128 MiB of common \
                memory for weights, 16 MiB of vector memory (Jouppi et al., ISCA 2021)",
        parameters: parameters(4 * 16384, 1050 * MEGA, 614 * GIGA, 128 * MIB, Some(16 * MIB)),
    },
    NpuPreset {
        name: "nnp-i",
        title: "NNP-I 1100: 50 TOP/s, 68 GB/s, 12 cores of 4096 PEs, 48 MiB of SRAM in the cores \
                and 24 MiB of cache (Hot Chips 2019, product brief); its clock varies; the one \
                here corresponds to 50 TOP/s",
        parameters: parameters(12 * 4096, 508_626_302, 68 * GIGA, 48 * MIB, Some(24 * MIB)),
    },
];

/// Error: no NPU preset has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown NPU `{name}`{}", alternatives(name, PRESETS.iter().map(|preset| preset.name)))]
pub struct UnknownNpu {
    /// The requested name.
    pub name: String,
}

impl Npu {
    /// Returns a preset of [`PRESETS`].
    ///
    /// # Errors
    /// Fails if no preset has this name.
    pub fn preset(name: &str) -> Result<Self, UnknownNpu> {
        let found = PRESETS.iter().find(|preset| preset.name == name);
        let Some(preset) = found else {
            return Err(UnknownNpu { name: name.to_owned() });
        };
        Ok(Self { name: preset.name.to_owned(), parameters: preset.parameters })
    }
}
