//! Decodes JPEG files.
//!
//! The decoder is `zune-jpeg`, whose inverse transform and chroma interpolation differ from
//! libjpeg's: on 24 files of three qualities and samplings, values differ from Pillow's by at most
//! 4 of 255, and by at most 0.17 on average. With chroma subsampling 4:2:0, as in most photographs,
//! the differences have a sign, because libjpeg rounds up and down in turn: over four photographs
//! the mean of a channel changes by up to 0.3 of 255 (red and blue up, green down), over a picture
//! of smooth colors by 0.43.
//!
//! Values of 338 files of cjpeg 2.1.5 (4:1:1, 4:4:0, 4:1:0 and mixed factors, odd sizes, gray, RGB,
//! with restarts, progressive or not) and of Pillow's CMYK differ from OpenCV's by at most 6.
//! Arithmetic coding, lossless and hierarchical files, twelve bits, factors of three, and chroma
//! with more samples than luma are rejected, because the decoder would return a wrong picture.

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::decode::{LONGEST, assemble};
use super::{Picture, orientation};

/// Decodes the bytes of a file.
pub(super) fn picture(bytes: &[u8]) -> Result<Picture<u8>, String> {
    if let Some(why) = unread(bytes) {
        return Err(why);
    }
    // A non-strict decoder would fill missing data with gray.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(LONGEST)
        .set_max_height(LONGEST)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let values = decoder.decode().map_err(|error| format!("{error:?}"))?;
    let (width, height) = decoder.dimensions().ok_or("no dimensions")?;
    let way = decoder.exif().and_then(|exif| orientation::stated(exif));
    assemble(width, height, values, way)
}

/// Returns the reason why a complete file is rejected, by its frame header.
fn unread(bytes: &[u8]) -> Option<String> {
    let (kind, frame) = frame(bytes)?;
    match kind {
        0xc9 | 0xca | 0xcb | 0xcd..=0xcf => return Some("arithmetic coding".to_owned()),
        0xc0..=0xc2 => {}
        _ => return Some("a lossless or hierarchical JPEG".to_owned()),
    }
    let [bits, _, _, _, _, count, parts @ ..] = frame else { return None };
    if *bits != 8 {
        return Some(format!("a JPEG of {bits} bits a value"));
    }
    // Each component has its number, both factors in a byte, and the number of a table.
    let factors = parts.chunks_exact(3).take(usize::from(*count)).map(|part| part[1]);
    let factors: Vec<[u8; 2]> = factors.map(|both| [both >> 4, both & 15]).collect();
    let [first, others @ ..] = &factors[..] else { return None };
    let is_finer = |other: &[u8; 2]| other[0] > first[0] || other[1] > first[1];
    if !factors.as_flattened().contains(&3) && !others.iter().any(is_finer) {
        return None;
    }
    let told: Vec<String> = factors.iter().map(|[x, y]| format!("{x}x{y}")).collect();
    Some(format!("a JPEG with the sampling {}", told.join(",")))
}

/// Returns the marker of the frame and the bytes after its length.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let mut rest = bytes.get(2..)?;
    loop {
        // A marker is a byte after any number of 0xff.
        let mark = rest.iter().position(|byte| *byte != 0xff).filter(|at| *at > 0)?;
        let kind = rest[mark];
        let length = usize::from(u16::from_be_bytes(*rest.get(mark + 1..)?.first_chunk()?));
        let segment = rest.get(mark + 1..)?.get(2..length)?;
        // Three markers in the range are of tables; the data of a scan follow a frame.
        if (0xc0..=0xcf).contains(&kind) && ![0xc4, 0xc8, 0xcc].contains(&kind) {
            return Some((kind, segment));
        }
        if kind == 0xda {
            return None;
        }
        rest = rest.get(mark + 1 + length..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixels as OpenCV 5.0 decodes them.
    fn check(bytes: &[u8], pixels: [[u8; 3]; 3]) {
        let found = picture(bytes).unwrap();
        assert_eq!((found.width, found.height), (12, 5));
        for ((x, y), expected) in [(0, 0), (11, 4), (6, 2)].into_iter().zip(pixels) {
            let pixel = &found.values[(y * 12 + x) * 3..][..3];
            let is_near = pixel.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 6);
            assert!(is_near, "{x}, {y}: {pixel:?}, not {expected:?}");
        }
    }

    #[test]
    fn rare_samplings_and_color_spaces_are_read_as_in_opencv() {
        check(
            include_bytes!("../../testdata/jpeg/4-1-1.jpg"),
            [[26, 188, 69], [196, 95, 139], [110, 147, 106]],
        );
        check(
            include_bytes!("../../testdata/jpeg/4-4-0-progressive.jpg"),
            [[19, 190, 75], [202, 93, 135], [118, 143, 104]],
        );
        check(
            include_bytes!("../../testdata/jpeg/cmyk.jpg"),
            [[1, 202, 61], [217, 85, 148], [123, 141, 109]],
        );
    }

    #[test]
    fn unsupported_files_are_rejected_by_their_header() {
        let head = |kind: u8, bits: u8, factors: &[u8]| -> Result<(), String> {
            let length = 8 + 3 * factors.len() as u8;
            let parts = factors.iter().zip(1..).flat_map(|(both, number)| [number, *both, 0]);
            let start = [0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, kind, 0, length];
            let size = [bits, 0, 16, 0, 16, factors.len() as u8];
            let bytes: Vec<u8> = start.into_iter().chain(size).chain(parts).collect();
            picture(&bytes).map(drop)
        };
        let told = |kind, bits, factors: &[u8]| head(kind, bits, factors).unwrap_err();
        assert_eq!(told(0xc9, 8, &[0x11]), "arithmetic coding");
        assert_eq!(told(0xc3, 8, &[0x11]), "a lossless or hierarchical JPEG");
        assert_eq!(told(0xc1, 12, &[0x11]), "a JPEG of 12 bits a value");
        let found = told(0xc0, 8, &[0x11, 0x22, 0x22]);
        assert_eq!(found, "a JPEG with the sampling 1x1,2x2,2x2");
        assert_eq!(told(0xc2, 8, &[0x31, 0x11]), "a JPEG with the sampling 3x1,1x1");
        // Files end after the frame header.
        for whole in [&[0x22, 0x11, 0x11, 0x22][..], &[0x41, 0x11, 0x11], &[0x12]] {
            assert!(!told(0xc0, 8, whole).contains("sampling"), "{whole:?}");
        }
    }
}
