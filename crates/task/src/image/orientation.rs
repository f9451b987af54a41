//! Orientation of a picture by the metadata of its file, applied as in OpenCV's `imread`. Source:
//! the Exif standard (TIFF's directories, tag 274).

use super::Picture;

/// Exif tag of the orientation.
const TAG: u16 = 274;

/// Returns the orientation of Exif metadata; `None` if they are malformed or have none.
///
/// ```
/// use dyno_task::image::Picture;
/// use dyno_task::image::orientation::{stated, upright};
///
/// assert_eq!(stated(b"no metadata"), None);
/// let picture = Picture { width: 1, height: 2, values: vec![1, 1, 1, 2, 2, 2] };
/// let turned = upright(picture, 6);
/// assert_eq!((turned.width, turned.values), (2, vec![2, 2, 2, 1, 1, 1]));
/// ```
pub fn stated(exif: &[u8]) -> Option<u16> {
    // Some writers put JPEG's marker before the metadata in other formats, too.
    let exif = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    let is_little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = *exif.get(at..)?.first_chunk()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let start = *exif.get(4..)?.first_chunk()?;
    let start = if is_little { u32::from_le_bytes(start) } else { u32::from_be_bytes(start) };
    let start = usize::try_from(start).ok()?;
    let entries = usize::from(exif.get(start..).and(short(start))?);
    let mut entries = (0..entries).map(|entry| start + 2 + 12 * entry);
    let entry = entries.find(|entry| short(*entry) == Some(TAG))?;
    short(entry + 8)
}

/// Rotates and mirrors a picture so that its first row is at the top and its first column at the
/// left. Unknown orientations change nothing.
pub fn upright(picture: Picture<u8>, orientation: u16) -> Picture<u8> {
    // Whether the picture is transposed, and along which axes it is mirrored.
    let (turned, left_right, top_bottom) = match orientation {
        2 => (false, true, false),
        3 => (false, true, true),
        4 => (false, false, true),
        5 => (true, false, false),
        6 => (true, true, false),
        7 => (true, true, true),
        8 => (true, false, true),
        _ => return picture,
    };
    let (width, height) =
        if turned { (picture.height, picture.width) } else { (picture.width, picture.height) };
    let mut values = Vec::with_capacity(picture.values.len());
    for y in 0..height {
        for x in 0..width {
            let x = if left_right { width - 1 - x } else { x };
            let y = if top_bottom { height - 1 - y } else { y };
            let at = if turned { x * picture.width + y } else { y * picture.width + x };
            values.extend_from_slice(&picture.values[at * 3..][..3]);
        }
    }
    Picture { width, height, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with another tag before that of the orientation.
    fn exif(orientation: u8) -> Vec<u8> {
        let mut bytes = b"MM\0*\0\0\0\x08\0\x02".to_vec();
        bytes.extend([1, 0, 0, 3, 0, 0, 0, 1, 0, 7, 0, 0]);
        bytes.extend([1, 18, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0]);
        bytes
    }

    #[test]
    fn orientation_is_read_and_broken_metadata_are_ignored() {
        let whole = exif(6);
        assert_eq!(stated(&whole), Some(6));
        assert_eq!(stated(&[b"Exif\0\0", &whole[..]].concat()), Some(6));
        let little = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x08\0\0\0";
        assert_eq!(stated(little), Some(8));
        assert!((0..whole.len() - 2).all(|end| stated(&whole[..end]).is_none()));
        assert_eq!(stated(b"II*\0\xff\xff\xff\xff\x01\0"), None);
    }

    #[test]
    fn pictures_are_turned_and_mirrored() {
        // a b c
        // d e f
        let picture = || Picture {
            width: 3,
            height: 2,
            values: b"abcdef".iter().flat_map(|value| [*value; 3]).collect(),
        };
        let rows = [
            (1, "abc def"),
            (2, "cba fed"),
            (3, "fed cba"),
            (4, "def abc"),
            (5, "ad be cf"),
            (6, "da eb fc"),
            (7, "fc eb da"),
            (8, "cf be ad"),
            (9, "abc def"),
        ];
        for (orientation, expected) in rows {
            let found = upright(picture(), orientation);
            let text: Vec<u8> = found.values.iter().step_by(3).copied().collect();
            let text: Vec<&[u8]> = text.chunks(found.width).collect();
            assert_eq!(text.join(&b' '), expected.as_bytes(), "{orientation}");
        }
    }
}
