//! Converts numbers from stdin to stdout, both in little endian with 4 bytes each.
//!
//! `convert FORMAT decode`: codes to `f32`;
//! `convert FORMAT encode [truncate] [saturate|infinite]`: `f32` to codes; `0xffff_ffff` for NaN if
//! the format has none;
//! `convert FORMAT affine SCALE ZERO_POINT`: `f32` to codes of integers with a scale.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Read, Write};

use dyno_number::{Affine, Conversion, Format, NanError, Overflow, Rounding};

/// Code for NaN in formats without NaN.
const NO_NUMBER: u32 = u32::MAX;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [format, operation, rest @ ..] = args.as_slice() else {
        return Err("usage: convert FORMAT decode|encode|affine ...".into());
    };
    let format: Format = format.parse()?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let numbers = words.clone().map(f32::from_bits);
    let words: Vec<u32> = match *operation {
        "decode" => {
            let codes: Vec<u32> = words.collect();
            format.decode_slice(&codes).into_iter().map(f32::to_bits).collect()
        }
        "encode" => encode(format, conversion(rest)?, &numbers.collect::<Vec<f32>>())?,
        "affine" => {
            let [scale, zero_point] = rest else {
                return Err("expected a scale and a zero point".into());
            };
            let affine = Affine::new(format, scale.parse()?, zero_point.parse()?)?;
            numbers.map(|x| affine.encode(x).unwrap_or(NO_NUMBER)).collect()
        }
        other => return Err(format!("expected decode, encode or affine, found {other}").into()),
    };
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    Ok(std::io::stdout().write_all(&bytes)?)
}

fn conversion(words: &[&str]) -> Result<Conversion, String> {
    let mut how = Conversion::default();
    for word in words {
        match *word {
            "truncate" => how.rounding = Rounding::TowardZero,
            "saturate" => how.overflow = Overflow::Saturate,
            "infinite" => how.overflow = Overflow::Infinite,
            other => return Err(format!("expected truncate, saturate or infinite, found {other}")),
        }
    }
    Ok(how)
}

/// Encodes slices with vector instructions; NaN separately if the format has none.
fn encode(format: Format, how: Conversion, numbers: &[f32]) -> Result<Vec<u32>, NanError> {
    let is_nan = |x: &f32| x.is_nan() && !format.has_nan();
    let zeroed: Vec<f32> = numbers.iter().map(|x| if is_nan(x) { 0.0 } else { *x }).collect();
    let codes = format.encode_slice(&zeroed, how)?;
    let told = |(code, x): (u32, &f32)| if is_nan(x) { NO_NUMBER } else { code };
    Ok(codes.into_iter().zip(numbers).map(told).collect())
}
