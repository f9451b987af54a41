//! AMX: products of tiles, sixteen rows by sixteen outputs.
//!
//! Stable Rust has neither its intrinsics nor its detection, so both are written here. Tiles are
//! configured, used and released within one assembly block: no data stays in them, and context
//! switches of other threads need not save them.

mod block;
#[cfg(test)]
mod tests;

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use super::Avx512Bf16;

pub(crate) use block::{Block, MAX_ROWS, multiply_block};

/// Rows of a tile.
pub(crate) const ROWS: usize = 16;
/// Bytes in a row of a tile.
pub(crate) const ROW: usize = 64;
/// Words of k in a tile.
pub(crate) const TILE_WORDS: usize = ROW / size_of::<u32>();

/// Token that exists only if the processor has AMX with products of bytes and of bfloat16, the
/// system lets this process use it, and the vector instructions for all other work are available.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amx(Avx512Bf16);

impl Amx {
    pub(crate) fn detect() -> Option<Self> {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        let vectors = Avx512Bf16::detect()?;
        IS_THERE.get_or_init(|| has_tiles() && is_permitted()).then_some(Self(vectors))
    }

    pub(crate) fn vectors(self) -> Avx512Bf16 {
        self.0
    }
}

/// Whether `cpuid` reports tiles and their products of bytes and of bfloat16.
fn has_tiles() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    // A missing leaf reads as zeros, or as an older feature list; both lack these bits.
    let found = __cpuid_count(7, 0).edx;
    found & (BF16 | TILE | INT8) == BF16 | TILE | INT8
}

/// Requests permission for tiles from Linux, once for all threads; Linux then provides the memory
/// for saving them.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the call changes only this permission, and `syscall` overwrites `rcx` and `r11`.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight tiles with maximum size.
static WHOLE: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [
        ROW as u16, ROW as u16, ROW as u16, ROW as u16, ROW as u16, ROW as u16, ROW as u16,
        ROW as u16, 0, 0, 0, 0, 0, 0, 0, 0,
    ],
    rows: [
        ROWS as u8, ROWS as u8, ROWS as u8, ROWS as u8, ROWS as u8, ROWS as u8, ROWS as u8,
        ROWS as u8, 0, 0, 0, 0, 0, 0, 0, 0,
    ],
};

/// Two blocks of sixteen rows: start of their left operands, and destination of their sums.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub rows: [*const u8; 2],
    pub sums: [*mut i32; 2],
}

/// Parameters that are equal for all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strip {
    /// Bytes from one row to the next.
    pub row_stride: usize,
    /// Tiles of k: 64 bytes of a row each.
    pub tiles: usize,
    /// Weights of the first vector of outputs: words of four bytes, one for each of 16 outputs.
    pub weights: *const u32,
    /// Bytes from one word of weights to the next.
    pub word_stride: usize,
    /// Bytes from the sums of one row to those of the next.
    pub sum_stride: usize,
}

/// Computes sums of products of `u8` rows with `i8` weights for all rows of all pairs, of one
/// vector of 16 outputs, or of two adjacent vectors if `is_wide`. Exact in 32 bits.
///
/// # Safety
/// `pairs` is not empty and `strip.tiles` is not 0. From each of `rows` on, 16 rows are valid for
/// reads of `tiles` x 64 bytes; `weights` is valid for reads of `tiles` x 16 words; and in each of
/// `sums`, 16 rows are valid for writes of 16 numbers per vector.
#[inline(always)]
pub(crate) unsafe fn multiply(_: Amx, pairs: &[Pair], strip: Strip, is_wide: bool) {
    // SAFETY: the caller guarantees the conditions of `strips`, and the token proves that tiles may
    // be used.
    unsafe {
        if is_wide {
            strips::<64>(pairs, strip);
        } else {
            strips::<0>(pairs, strip);
        }
    }
}

/// Computes sums of two vectors that are `BESIDE` bytes apart, in weights and in sums.
///
/// # Safety
/// Under the conditions of [`multiply`], on a processor with tiles.
unsafe fn strips<const BESIDE: i32>(pairs: &[Pair], strip: Strip) {
    // SAFETY: the caller guarantees that all memory read and written is valid. Tiles are declared
    // as clobbered.
    unsafe {
        asm!(
            "ldtilecfg [{k}]",
            "2:",
            "mov {a}, [{pair}]",
            "mov {c}, [{pair} + 8]",
            "mov {b}, {weights}",
            "mov {k}, {tiles}",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "tileloadd tmm4, [{a} + {row_stride}*1]",
            "tileloadd tmm6, [{b} + {word_stride}*1]",
            "tileloadd tmm7, [{b} + {word_stride}*1 + {beside}]",
            "tileloadd tmm5, [{c} + {row_stride}*1]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tdpbusd tmm1, tmm4, tmm7",
            "tdpbusd tmm2, tmm5, tmm6",
            "tdpbusd tmm3, tmm5, tmm7",
            "add {a}, 64",
            "add {c}, 64",
            // 16 words on.
            "lea {b}, [{b} + {word_stride}*8]",
            "lea {b}, [{b} + {word_stride}*8]",
            "dec {k}",
            "jnz 3b",
            "mov {a}, [{pair} + 16]",
            "mov {c}, [{pair} + 24]",
            "tilestored [{a} + {sum_stride}*1], tmm0",
            "tilestored [{a} + {sum_stride}*1 + {beside}], tmm1",
            "tilestored [{c} + {sum_stride}*1], tmm2",
            "tilestored [{c} + {sum_stride}*1 + {beside}], tmm3",
            "add {pair}, 32",
            "dec {count}",
            "jnz 2b",
            "tilerelease",
            pair = inout(reg) pairs.as_ptr() => _,
            count = inout(reg) pairs.len() => _,
            k = inout(reg) &raw const WHOLE => _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            weights = in(reg) strip.weights,
            tiles = in(reg) strip.tiles,
            row_stride = in(reg) strip.row_stride,
            word_stride = in(reg) strip.word_stride,
            sum_stride = in(reg) strip.sum_stride,
            beside = const BESIDE,
            out("tmm0") _,
            out("tmm1") _,
            out("tmm2") _,
            out("tmm3") _,
            out("tmm4") _,
            out("tmm5") _,
            out("tmm6") _,
            out("tmm7") _,
            options(nostack),
        );
    }
}
