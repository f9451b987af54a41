//! Tensors of a file: what they hold, or how it is made.

use std::path::PathBuf;

/// Type of a tensor's elements. Numbers are those of `TensorProto.DataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Element {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    Bool = 9,
    F16 = 10,
    F64 = 11,
    U32 = 12,
    U64 = 13,
    BF16 = 16,
    F8E4M3 = 17,
    F8E4M3Fnuz = 18,
    F8E5M2 = 19,
    F8E5M2Fnuz = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
}

impl Element {
    const ALL: [Self; 23] = [
        Self::F32,
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::Bool,
        Self::F16,
        Self::F64,
        Self::U32,
        Self::U64,
        Self::BF16,
        Self::F8E4M3,
        Self::F8E4M3Fnuz,
        Self::F8E5M2,
        Self::F8E5M2Fnuz,
        Self::U4,
        Self::I4,
        Self::F4E2M1,
        Self::F8E8M0,
        Self::U2,
        Self::I2,
    ];

    /// As NumPy names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::Bool => "bool",
            Self::F16 => "float16",
            Self::F64 => "float64",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::BF16 => "bfloat16",
            Self::F8E4M3 => "float8_e4m3fn",
            Self::F8E4M3Fnuz => "float8_e4m3fnuz",
            Self::F8E5M2 => "float8_e5m2",
            Self::F8E5M2Fnuz => "float8_e5m2fnuz",
            Self::U4 => "uint4",
            Self::I4 => "int4",
            Self::F4E2M1 => "float4_e2m1fn",
            Self::F8E8M0 => "float8_e8m0fnu",
            Self::U2 => "uint2",
            Self::I2 => "int2",
        }
    }

    /// By its number in files; `None` for strings and complex numbers.
    #[must_use]
    pub fn of(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|&element| element as i32 == code)
    }

    /// Size of one by itself; in tensors, two of 4 bits or four of 2 share a byte.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::U8
            | Self::I8
            | Self::Bool
            | Self::U4
            | Self::I4
            | Self::U2
            | Self::I2
            | Self::F8E4M3
            | Self::F8E4M3Fnuz
            | Self::F8E5M2
            | Self::F8E5M2Fnuz
            | Self::F8E8M0
            | Self::F4E2M1 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::I64 | Self::F64 | Self::U64 => 8,
        }
    }

    /// Size of so many in a tensor; saturates.
    #[must_use]
    pub fn bytes_of(self, elements: u64) -> u64 {
        match self {
            // The first has the lowest bits of its byte.
            Self::U4 | Self::I4 | Self::F4E2M1 => elements.div_ceil(2),
            Self::U2 | Self::I2 => elements.div_ceil(4),
            whole => elements.saturating_mul(whole.bytes() as u64),
        }
    }
}

/// A tensor that a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// What nodes call it.
    pub name: String,
    /// Of its elements.
    pub element: Element,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its elements.
    pub values: Values,
}

/// Elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Little-endian, in row-major order.
    Bytes(Vec<u8>),
    /// Of float32, made while the file is written.
    Filled(Fill, u64),
    /// In another file, which has not been looked at.
    External {
        /// The file.
        path: PathBuf,
        /// Of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// How seeded weights are distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fill {
    /// All the same.
    Constant(f32),
    /// Evenly between minus and plus this.
    Uniform(f32),
}

impl Fill {
    /// Keeps the variance of activations through a layer with so many inputs to
    /// each output, followed by a ReLU (He et al. 2015).
    #[must_use]
    pub fn he(inputs: usize) -> Self {
        Self::Uniform((6.0 / inputs.max(1) as f32).sqrt())
    }

    /// Keeps the variance through a layer that no ReLU follows.
    #[must_use]
    pub fn even(inputs: usize) -> Self {
        Self::Uniform((3.0 / inputs.max(1) as f32).sqrt())
    }
}

impl Tensor {
    /// Of whole numbers, such as a shape.
    #[must_use]
    pub fn of_i64(name: impl Into<String>, shape: &[usize], values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, shape) = (name.into(), shape.to_vec());
        Self { name, element: Element::I64, shape, values: Values::Bytes(bytes) }
    }

    /// Of floating-point numbers.
    #[must_use]
    pub fn of_f32(name: impl Into<String>, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, shape) = (name.into(), shape.to_vec());
        Self { name, element: Element::F32, shape, values: Values::Bytes(bytes) }
    }

    /// Number of elements; saturates.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1_u64, |product, &n| product.saturating_mul(n as u64))
    }

    /// Size of all elements.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.element.bytes_of(self.elements())
    }

    /// The elements, if they are few whole numbers and here.
    #[must_use]
    pub fn integers(&self) -> Option<Vec<i64>> {
        const FEW: u64 = 4096;
        let Values::Bytes(bytes) = &self.values else { return None };
        if self.elements() > FEW || bytes.len() as u64 != self.bytes() {
            return None;
        }
        let four = |part: &[u8]| part.try_into().map(i32::from_le_bytes).ok().map(i64::from);
        let eight = |part: &[u8]| part.try_into().map(i64::from_le_bytes).ok();
        match self.element {
            Element::I64 => bytes.chunks_exact(8).map(eight).collect(),
            Element::I32 => bytes.chunks_exact(4).map(four).collect(),
            // Factors of a resize are such numbers.
            Element::F32 => {
                let whole = |value: f32| (value.fract() == 0.0).then_some(value as i64);
                self.floats()?.into_iter().map(whole).collect()
            }
            Element::Bool | Element::U8 => Some(bytes.iter().map(|&byte| byte.into()).collect()),
            _ => None,
        }
    }

    /// The elements, if they are float32 and here.
    #[must_use]
    pub fn floats(&self) -> Option<Vec<f32>> {
        let Values::Bytes(bytes) = &self.values else { return None };
        let float = |part: &[u8]| part.try_into().map(f32::from_le_bytes).ok();
        (self.element == Element::F32).then(|| bytes.chunks_exact(4).map(float).collect())?
    }
}

/// Where the random numbers of one tensor begin: its name and the seed of all.
pub fn seed_of(name: &str, seed: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, mix)
}

/// Elements of a filled tensor from a state on, two of each random number.
pub fn fill(fill: Fill, state: &mut u64, bytes: &mut [u8]) {
    let Fill::Uniform(bound) = fill else {
        let Fill::Constant(value) = fill else { return };
        bytes.chunks_exact_mut(4).for_each(|to| to.copy_from_slice(&value.to_le_bytes()));
        return;
    };
    for pair in bytes.chunks_mut(8) {
        let random = next(state);
        for (to, bits) in pair.chunks_exact_mut(4).zip([random as u32, (random >> 32) as u32]) {
            // 24 bits are what a float32 holds exactly.
            let unit = (bits >> 8) as f32 / (1 << 23) as f32 - 1.0;
            to.copy_from_slice(&(unit * bound).to_le_bytes());
        }
    }
}

/// SplitMix64 of Steele, Lea and Flood.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
