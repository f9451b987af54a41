//! Products of up to 32 rows with adjacent vectors of a panel, in bfloat16 or bytes.
//!
//! A panel's words are the rows of a weight tile as they are: sixteen words for each of sixteen
//! outputs. Up to sixteen rows are one tile, which meets each vector of weights once; more rows are
//! two tiles, which share each pair of vectors.

use super::{Amx, Config, ROW, ROWS, TILE_WORDS};
use crate::panels::Precision;

/// Maximum rows of a block.
pub(crate) const MAX_ROWS: usize = 2 * ROWS;

/// Operands of a block. Strides are bytes from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Words of the first row.
    pub rows: *const u8,
    pub row_stride: isize,
    /// Words of a row.
    pub words: usize,
    /// Weights of the first vector of outputs.
    pub weights: *const u8,
    /// Bytes from one word of weights to the next.
    pub word_stride: usize,
    /// Initial values of the sums of the first row; all rows share them if the stride is 0.
    pub start: *const u8,
    pub start_stride: isize,
    /// Destination of the sums of the first row.
    pub sums: *mut u8,
    pub sum_stride: isize,
}

/// Configurations of whole tiles for 1 to [`MAX_ROWS`] rows.
static CONFIGS: [Config; MAX_ROWS] = {
    let mut configs = [const { config(1, TILE_WORDS) }; MAX_ROWS];
    let mut rows = 1;
    while rows < MAX_ROWS {
        configs[rows] = config(rows + 1, TILE_WORDS);
        rows += 1;
    }
    configs
};

/// Returns the configuration for `rows` rows and tiles of `words` words of k. Tiles 0 to 3 are
/// sums, 4 rows, 6 and 7 weights. Tile 5 has weights, or the rows beyond the sixteenth, whose sums
/// are tiles 2 and 3.
const fn config(rows: usize, words: usize) -> Config {
    let (whole, part) = (ROW as u16, (words * size_of::<u32>()) as u16);
    let first = if rows > ROWS { ROWS } else { rows } as u8;
    let second = if rows > ROWS { rows - ROWS } else { rows } as u8;
    let words = words as u8;
    let (fifth_bytes, fifth) = if rows > ROWS { (part, second) } else { (whole, words) };
    Config {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [
            whole,
            whole,
            whole,
            whole,
            part,
            fifth_bytes,
            whole,
            whole,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
        rows: [first, first, second, second, first, fifth, words, words, 0, 0, 0, 0, 0, 0, 0, 0],
    }
}

/// Adds products of `rows` rows with `vectors` vectors to the initial values of their sums.
///
/// Sums of bytes are exact. In bfloat16, each sixteen words of k have one sum of the products of
/// even values and one of odd values, whose sum is added to that of the words before; each addition
/// rounds to nearest, and denormal numbers are zeros.
///
/// # Safety
/// `rows` is 1 to [`MAX_ROWS`], `vectors` 1 to 4, `block.words` is not 0, and `precision` is not
/// `f32`. For each row, `block.rows` is valid for reads of `words` words, `start` for reads and
/// `sums` for writes of `vectors` x 64 bytes. `weights` is valid for reads of `vectors` x 64 bytes
/// for each word.
pub(crate) unsafe fn multiply_block(
    _: Amx,
    precision: Precision,
    rows: usize,
    vectors: usize,
    block: Block,
) {
    let (tiles, rest) = (block.words / TILE_WORDS, block.words % TILE_WORDS);
    let mut last = block;
    if tiles > 0 {
        // SAFETY: the caller guarantees that the block is valid for these rows and vectors. It has
        // as many words as the tiles, or more.
        unsafe { multiply_tiles(precision, rows, vectors, &CONFIGS[rows - 1], tiles, block) };
        last.rows = block.rows.wrapping_add(tiles * ROW);
        last.weights = block.weights.wrapping_add(tiles * TILE_WORDS * block.word_stride);
        (last.start, last.start_stride) = (block.sums, block.sum_stride);
    }
    if rest > 0 {
        // SAFETY: the remaining words follow those before in each row, and so do their weights. The
        // configuration limits tiles to them. Sums have been written, and may be read.
        unsafe { multiply_tiles(precision, rows, vectors, &config(rows, rest), 1, last) };
    }
}

/// Adds products of `tiles` tiles of k, at least one, whose sizes the configuration has.
///
/// # Safety
/// Under the conditions of [`multiply_block`] for the words of these tiles, on a processor with
/// tiles.
unsafe fn multiply_tiles(
    precision: Precision,
    rows: usize,
    vectors: usize,
    config: &Config,
    tiles: usize,
    block: Block,
) {
    let is_bytes = precision == Precision::Int8;
    if rows <= ROWS {
        // SAFETY: the caller guarantees that the block is valid for these rows and vectors.
        unsafe {
            match (is_bytes, vectors) {
                (false, 1) => bf16::one(config, tiles, block),
                (false, 2) => bf16::two(config, tiles, block),
                (false, 3) => bf16::three(config, tiles, block),
                (false, _) => bf16::four(config, tiles, block),
                (true, 1) => bytes::one(config, tiles, block),
                (true, 2) => bytes::two(config, tiles, block),
                (true, 3) => bytes::three(config, tiles, block),
                (true, _) => bytes::four(config, tiles, block),
            }
        }
        return;
    }
    for vector in (0..vectors).step_by(2) {
        let at = vector * ROW;
        let part = Block {
            weights: block.weights.wrapping_add(at),
            start: block.start.wrapping_add(at),
            sums: block.sums.wrapping_add(at),
            ..block
        };
        // SAFETY: as above; `part` has the remaining vectors.
        unsafe {
            match (is_bytes, vectors - vector) {
                (false, 1) => bf16::high(config, tiles, part),
                (false, _) => bf16::square(config, tiles, part),
                (true, 1) => bytes::high(config, tiles, part),
                (true, _) => bytes::square(config, tiles, part),
            }
        }
    }
}

/// Defines a block of one tile of rows with some vectors.
macro_rules! wide {
    ($name:ident, $dot:literal, $($sums:literal $weights:literal $at:literal),*) => {
        /// # Safety
        /// Under the conditions of [`super::multiply_tiles`] for up to sixteen rows.
        pub(super) unsafe fn $name(config: &Config, tiles: usize, block: Block) {
            // SAFETY: the caller guarantees that all memory read and written is valid. The
            // configuration limits tiles to the block's rows. Tiles are declared as clobbered.
            unsafe {
                asm!(
                    "ldtilecfg [{config}]",
                    $(concat!(
                        "tileloadd ", $sums, ", [{start} + {start_stride}*1 + ", $at, "]"
                    ),)*
                    "2:",
                    "tileloadd tmm4, [{rows} + {row_stride}*1]",
                    $(
                        concat!(
                            "tileloadd ", $weights, ", [{weights} + {word_stride}*1 + ", $at, "]"
                        ),
                        concat!($dot, " ", $sums, ", tmm4, ", $weights),
                    )*
                    "add {rows}, 64",
                    // 16 words on.
                    "lea {weights}, [{weights} + {word_stride}*8]",
                    "lea {weights}, [{weights} + {word_stride}*8]",
                    "dec {tiles}",
                    "jnz 2b",
                    $(concat!(
                        "tilestored [{sums} + {sum_stride}*1 + ", $at, "], ", $sums
                    ),)*
                    "tilerelease",
                    config = in(reg) &raw const *config,
                    rows = inout(reg) block.rows => _,
                    row_stride = in(reg) block.row_stride,
                    tiles = inout(reg) tiles => _,
                    weights = inout(reg) block.weights => _,
                    word_stride = in(reg) block.word_stride,
                    start = in(reg) block.start,
                    start_stride = in(reg) block.start_stride,
                    sums = in(reg) block.sums,
                    sum_stride = in(reg) block.sum_stride,
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
    };
}

/// Defines a block of two tiles of rows with one or two vectors.
macro_rules! high {
    ($name:ident, $dot:literal, $($first:literal $second:literal $weights:literal $at:literal),*) => {
        /// # Safety
        /// Under the conditions of [`super::multiply_tiles`] for more than sixteen rows.
        pub(super) unsafe fn $name(config: &Config, tiles: usize, block: Block) {
            // SAFETY: the caller guarantees that all memory read and written is valid. The
            // configuration limits tiles to the block's rows. Tiles are declared as clobbered.
            unsafe {
                asm!(
                    "ldtilecfg [{next}]",
                    $(concat!(
                        "tileloadd ", $first, ", [{start} + {start_stride}*1 + ", $at, "]"
                    ),)*
                    // 16 rows on.
                    "lea {next}, [{start} + {start_stride}*8]",
                    "lea {next}, [{next} + {start_stride}*8]",
                    $(concat!(
                        "tileloadd ", $second, ", [{next} + {start_stride}*1 + ", $at, "]"
                    ),)*
                    "lea {next}, [{rows} + {row_stride}*8]",
                    "lea {next}, [{next} + {row_stride}*8]",
                    "2:",
                    "tileloadd tmm4, [{rows} + {row_stride}*1]",
                    "tileloadd tmm5, [{next} + {row_stride}*1]",
                    $(
                        concat!(
                            "tileloadd ", $weights, ", [{weights} + {word_stride}*1 + ", $at, "]"
                        ),
                        concat!($dot, " ", $first, ", tmm4, ", $weights),
                        concat!($dot, " ", $second, ", tmm5, ", $weights),
                    )*
                    "add {rows}, 64",
                    "add {next}, 64",
                    // 16 words on.
                    "lea {weights}, [{weights} + {word_stride}*8]",
                    "lea {weights}, [{weights} + {word_stride}*8]",
                    "dec {tiles}",
                    "jnz 2b",
                    $(concat!(
                        "tilestored [{sums} + {sum_stride}*1 + ", $at, "], ", $first
                    ),)*
                    // 16 rows on.
                    "lea {next}, [{sums} + {sum_stride}*8]",
                    "lea {next}, [{next} + {sum_stride}*8]",
                    $(concat!(
                        "tilestored [{next} + {sum_stride}*1 + ", $at, "], ", $second
                    ),)*
                    "tilerelease",
                    next = inout(reg) &raw const *config => _,
                    rows = inout(reg) block.rows => _,
                    row_stride = in(reg) block.row_stride,
                    tiles = inout(reg) tiles => _,
                    weights = inout(reg) block.weights => _,
                    word_stride = in(reg) block.word_stride,
                    start = in(reg) block.start,
                    start_stride = in(reg) block.start_stride,
                    sums = in(reg) block.sums,
                    sum_stride = in(reg) block.sum_stride,
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
    };
}

/// Defines all blocks of one product.
macro_rules! blocks {
    ($module:ident, $dot:literal) => {
        mod $module {
            use std::arch::asm;

            use super::{Block, Config};

            wide!(one, $dot, "tmm0" "tmm5" "0");
            wide!(two, $dot, "tmm0" "tmm5" "0", "tmm1" "tmm6" "64");
            wide!(three, $dot, "tmm0" "tmm5" "0", "tmm1" "tmm6" "64", "tmm2" "tmm7" "128");
            wide!(
                four, $dot,
                "tmm0" "tmm5" "0", "tmm1" "tmm6" "64", "tmm2" "tmm7" "128", "tmm3" "tmm5" "192"
            );
            high!(high, $dot, "tmm0" "tmm2" "tmm6" "0");
            high!(square, $dot, "tmm0" "tmm2" "tmm6" "0", "tmm1" "tmm3" "tmm7" "64");
        }
    };
}

blocks!(bf16, "tdpbf16ps");
blocks!(bytes, "tdpbusd");
