//! NPUs by name: those of the thesis, and well-known ones.

use std::fmt;

use super::{Npu, NpuParameters};
use crate::nearest::nearest;

/// An NPU with a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NpuPreset {
    /// What commands call it.
    pub name: &'static str,
    /// What it is, and where its figures are from.
    pub title: &'static str,
    /// What it is lowering of.
    pub parameters: NpuParameters,
}

const MEGA: u64 = 1_000_000;
const GIGA: u64 = 1_000_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// NpuParameters without a cost of switching or figures of energy: nobody published any that models of this kind need.
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
    }
}

/// All of them. MB and GB are powers of ten, MiB are powers of two.
///
/// The two of the thesis' Table IV.1 have their activation buffers exchanged: the table gives 2.3 + 1.5 MB to the
/// compute-centric and 36 + 24 MB to the memory-centric one, but the former are the largest activations of
/// MobileNet v2 and ResNet-50 at batch 1, which is what the memory-centric NPU runs, and the latter are sixteen
/// times as much, its batch on the compute-centric one (SPEC section 1).
///
/// The compute-centric one has the cores, the bandwidth and the buffers of Intel's NNP-I at a higher clock.
///
/// Which five NPUs Figure II.7 compares is not known to us. The last five are five whose figures their makers
/// published; they span the same range of balance points and stand in for the figure's.
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
        title: "chapter V: 128 TOP/s, 100 GB/s, 50 MB; 65536 PEs are our reading, which gives 976.5625 MHz",
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
        title: "TPU v2: 46 TFLOP/s, 700 GB/s, two arrays of 128x128 PEs at 700 MHz, 32 MiB on the chip, of \
                which we give each use a half (Jouppi et al., CACM 7/2020)",
        parameters: parameters(2 * 16384, 700 * MEGA, 700 * GIGA, 16 * MIB, Some(16 * MIB)),
    },
    NpuPreset {
        name: "tpu-v3",
        title: "TPU v3: 123 TFLOP/s, 900 GB/s, four arrays of 128x128 PEs at 940 MHz, 32 MiB on the chip, of \
                which we give each use a half (Jouppi et al., CACM 7/2020)",
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
        title: "NNP-I 1100: 50 TOP/s, 68 GB/s, 12 cores of 4096 PEs, 48 MiB of SRAM in them and 24 MiB of \
                cache (Hot Chips 2019, product brief); its clock varies, the one given is that of 50 TOP/s",
        parameters: parameters(12 * 4096, 508_626_302, 68 * GIGA, 48 * MIB, Some(24 * MIB)),
    },
];

/// There is no NPU of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNpu {
    /// What was asked for.
    pub name: String,
}

impl fmt::Display for UnknownNpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = PRESETS.iter().map(|preset| preset.name);
        let all: Vec<&str> = names.clone().collect();
        let near = nearest(&self.name, names);
        write!(f, "there is no NPU `{}`{near}; there are {}", self.name, all.join(", "))
    }
}

impl std::error::Error for UnknownNpu {}

impl Npu {
    /// One of [`PRESETS`].
    ///
    /// # Errors
    /// The name is none of them.
    pub fn preset(name: &str) -> Result<Self, UnknownNpu> {
        let found = PRESETS.iter().find(|preset| preset.name == name);
        let Some(preset) = found else {
            return Err(UnknownNpu { name: name.to_owned() });
        };
        Ok(Self { name: preset.name.to_owned(), parameters: preset.parameters })
    }
}
