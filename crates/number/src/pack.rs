//! Packs codes into bytes without gaps.

/// Returns the number of bytes of `count` packed codes of `bits` bits each.
pub fn packed_bytes(count: usize, bits: u32) -> usize {
    let eighths = (count as u128) * u128::from(bits);
    usize::try_from(eighths.div_ceil(8)).unwrap_or(usize::MAX)
}

/// Packs codes of 1 to 32 bits. The first code is in the lowest bits of the first byte, as in the
/// 4-bit types of ONNX. Unused bits of the last byte are 0. Bits of a code above `bits` are
/// dropped.
///
/// ```
/// use dyno_number::{pack, unpack};
/// let codes = [0x1, 0x2, 0xf];
/// assert_eq!(pack(&codes, 4), [0x21, 0x0f]);
/// assert_eq!(unpack(&[0x21, 0x0f], 4, 3), Some(codes.to_vec()));
/// assert_eq!(unpack(&[0x21, 0x0f], 4, 5), None, "there are four");
/// ```
///
/// # Panics
/// `bits` is 0 or more than 32.
pub fn pack(codes: &[u32], bits: u32) -> Vec<u8> {
    assert!((1..=32).contains(&bits), "codes of {bits} bits");
    if bits == 8 {
        return codes.iter().map(|code| *code as u8).collect();
    }
    let mut bytes = Vec::with_capacity(packed_bytes(codes.len(), bits) + 8);
    let mut word = 0_u64;
    let mut filled = 0;
    let mask = u32::MAX >> (32 - bits);
    for code in codes {
        word |= u64::from(code & mask) << filled;
        filled += bits;
        if filled >= 32 {
            bytes.extend_from_slice(&(word as u32).to_le_bytes());
            word >>= 32;
            filled -= 32;
        }
    }
    bytes.extend_from_slice(&(word as u32).to_le_bytes());
    bytes.truncate(packed_bytes(codes.len(), bits));
    bytes
}

/// Unpacks the first `count` codes that [`pack`] wrote; `None` if there are fewer.
///
/// # Panics
/// `bits` is 0 or more than 32.
pub fn unpack(bytes: &[u8], bits: u32, count: usize) -> Option<Vec<u32>> {
    assert!((1..=32).contains(&bits), "codes of {bits} bits");
    let bytes = bytes.get(..packed_bytes(count, bits))?;
    if bits == 8 {
        return Some(bytes.iter().map(|byte| u32::from(*byte)).collect());
    }
    let mask = u32::MAX >> (32 - bits);
    let mut codes = Vec::with_capacity(count);
    let mut word = 0_u64;
    let mut filled = 0;
    let mut bytes = bytes.iter();
    while codes.len() < count {
        while filled < bits {
            let byte = bytes.next().expect("there are bytes for all codes");
            word |= u64::from(*byte) << filled;
            filled += 8;
        }
        codes.push(word as u32 & mask);
        word >>= bits;
        filled -= bits;
    }
    Some(codes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(bits in 1_u32..=32, codes in prop::collection::vec(any::<u32>(), 0..40)) {
            let bytes = pack(&codes, bits);
            prop_assert_eq!(bytes.len(), packed_bytes(codes.len(), bits));
            let kept: Vec<u32> = codes.iter().map(|code| code & (u32::MAX >> (32 - bits))).collect();
            prop_assert_eq!(unpack(&bytes, bits, codes.len()), Some(kept.clone()));
            // Bit by bit, starting at the lowest bit of the first byte.
            for (at, code) in kept.iter().enumerate() {
                for digit in 0..bits as usize {
                    let place = at * bits as usize + digit;
                    prop_assert_eq!(bytes[place / 8] >> (place % 8) & 1, (code >> digit & 1) as u8);
                }
            }
        }
    }

    #[test]
    fn a_count_that_cannot_be_is_none() {
        assert_eq!(unpack(&[1, 2, 3], 8, usize::MAX), None);
        assert_eq!(unpack(&[], 3, 1), None);
        assert_eq!(unpack(&[], 3, 0), Some(vec![]));
    }
}
