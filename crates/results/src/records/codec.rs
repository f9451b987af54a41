//! Integers as LEB128 with zigzag signs, as in protocol buffers: values, or differences to the value
//! before.

/// Appends the values to `bytes`.
pub fn encode(values: &[i64], is_difference: bool, bytes: &mut Vec<u8>) {
    let mut last = 0_i64;
    for &value in values {
        let coded = if is_difference { value.wrapping_sub(last) } else { value };
        last = value;
        let mut rest = ((coded << 1) ^ (coded >> 63)).cast_unsigned();
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
}

/// Decodes `count` values; `None` if the bytes hold fewer or more.
pub fn decode(bytes: &[u8], is_difference: bool, count: usize) -> Option<Vec<i64>> {
    // A value takes at least a byte, which limits the memory that a wrong count allocates.
    let mut values = Vec::with_capacity(count.min(bytes.len()));
    let (mut last, mut at) = (0_i64, 0);
    for _ in 0..count {
        let (mut folded, mut shift) = (0_u64, 0);
        loop {
            let byte = *bytes.get(at)?;
            at += 1;
            folded |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let coded = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
        last = if is_difference { last.wrapping_add(coded) } else { coded };
        values.push(last);
    }
    (at == bytes.len()).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_damage_is_told() {
        let values = [0, 1, -1, 63, 64, -65, 1 << 40, i64::MAX, i64::MIN, 5];
        for is_difference in [false, true] {
            let mut bytes = Vec::new();
            encode(&values, is_difference, &mut bytes);
            assert_eq!(decode(&bytes, is_difference, values.len()).as_deref(), Some(&values[..]));
            assert_eq!(decode(&bytes, is_difference, values.len() - 1), None);
            assert_eq!(decode(&bytes[..bytes.len() - 1], is_difference, values.len()), None);
        }
        assert_eq!(decode(&[0xff; 11], false, 1), None, "no value has so many bytes");
    }
}
