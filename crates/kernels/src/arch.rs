//! Implementations of sixteen lanes, one file per instruction set.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

pub(crate) use scalar::{Scalar, narrowed};
#[cfg(target_arch = "x86_64")]
pub(crate) use {
    amx::Amx,
    avx2::Avx2,
    avx512::{Avx512, Avx512Bf16, Avx512Vnni},
};
