//! Decodes JPEG and PNG files to pictures of 8 bits. PNG equals Pillow and OpenCV; `image::jpeg`
//! describes how JPEG differs.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use dyno_tensors::files;
use thiserror::Error;

use super::{Picture, jpeg, orientation};

/// Maximum number of pixels along an axis: a small file may claim any size.
pub(super) const LONGEST: usize = 1 << 14;

/// Reason why a file cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{}: expected a whole JPEG or PNG file, found {why}; copy it again, or, where other programs \
     read it, let one write it as PNG under the same name",
    path.display()
)]
pub struct DecodeError {
    /// The file.
    pub path: PathBuf,
    /// Message of the decoder.
    pub why: String,
}

/// Decodes a file. As in OpenCV's default, gray becomes three equal channels, transparency is
/// dropped, and the picture is rotated by its metadata.
///
/// # Errors
/// [`DecodeError`] if the file cannot be read, is truncated or broken, or has another format.
pub fn open(path: &Path) -> Result<Picture<u8>, DecodeError> {
    let refused = |why: String| DecodeError { path: path.to_owned(), why };
    let bytes = files::read(path).map_err(|error| refused(error.to_string()))?;
    picture(&bytes).map_err(refused)
}

/// Decodes the bytes of a file.
///
/// # Errors
/// The problem with the bytes.
pub fn picture(bytes: &[u8]) -> Result<Picture<u8>, String> {
    match bytes {
        [0xff, 0xd8, ..] => jpeg::picture(bytes),
        [0x89, b'P', b'N', b'G', ..] => png(bytes),
        [] => Err("an empty file".to_owned()),
        _ => Err("another format".to_owned()),
    }
}

fn png(bytes: &[u8]) -> Result<Picture<u8>, String> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let width = reader.info().width as usize;
    let height = reader.info().height as usize;
    if width > LONGEST || height > LONGEST {
        return Err(format!("{width} x {height} pixels (at most {LONGEST} along an axis)"));
    }
    let mut values = vec![0; reader.output_buffer_size().ok_or("too many pixels")?];
    let info = reader.next_frame(&mut values).map_err(|error| error.to_string())?;
    values.truncate(info.buffer_size());
    let grey = |step: usize| values.iter().step_by(step).flat_map(|grey| [*grey; 3]).collect();
    let values = match info.color_type.samples() {
        1 => grey(1),
        2 => grey(2),
        3 => values,
        _ => values.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    };
    let exif = reader.info().exif_metadata.as_deref();
    assemble(width, height, values, exif.and_then(orientation::stated))
}

pub(super) fn assemble(
    width: usize,
    height: usize,
    values: Vec<u8>,
    way: Option<u16>,
) -> Result<Picture<u8>, String> {
    if width == 0 || height == 0 || values.len() != width * height * 3 {
        return Err(format!("{} values for {width} x {height} pixels", values.len()));
    }
    Ok(orientation::upright(Picture { width, height, values }, way.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_files_name_themselves_and_what_is_expected() {
        let path = std::env::temp_dir().join(format!("dyno-broken-{}.jpg", std::process::id()));
        std::fs::write(&path, b"\xff\xd8\xff\xe0\0\x10JFIF").unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("dyno-broken-") && error.contains("a whole JPEG or PNG"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(picture(b"GIF89a"), Err("another format".to_owned()));
    }

    #[test]
    fn gray_pictures_have_three_equal_channels_and_truncated_ones_are_refused() {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 1);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.write_header().unwrap().write_image_data(&[7, 200]).unwrap();
        let expected = Picture { width: 2, height: 1, values: vec![7, 7, 7, 200, 200, 200] };
        assert_eq!(picture(&file), Ok(expected));
        assert!(picture(&file[..file.len() - 20]).is_err());
    }
}
