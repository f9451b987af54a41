//! SHA-1, only for fingerprints of source files. The build script also compiles this file, so that
//! it uses nothing of the crate.

/// Returns the SHA-1 of `data` in lower-case hexadecimal.
///
/// Source: FIPS 180-4, section 6.1.
pub fn hex(data: &[u8]) -> String {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0_u32];
    let blocks = data.chunks_exact(64);
    let mut tail = blocks.remainder().to_vec();
    for block in blocks {
        compress(&mut state, block);
    }
    tail.push(0x80);
    while tail.len() % 64 != 56 {
        tail.push(0);
    }
    tail.extend_from_slice(&(8 * data.len() as u64).to_be_bytes());
    for block in tail.chunks_exact(64) {
        compress(&mut state, block);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

fn compress(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for i in 16..80 {
        words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (i, word) in words.iter().enumerate() {
        let (mix, constant) = match i {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999_u32),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let next = a
            .rotate_left(5)
            .wrapping_add(mix)
            .wrapping_add(e)
            .wrapping_add(constant)
            .wrapping_add(*word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
}
