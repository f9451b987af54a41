//! Images of prompts: from rows, from files, or made up.

use std::fmt;
use std::io::Write as _;
use std::str::FromStr;

use dyno_loadgen::rng::Mt19937;
use flate2::Crc;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};

use super::read::Row;
use super::rows::take;
use crate::base64::base64;
use crate::openai::Message;

/// Columns of images.
pub const COLUMNS: [&str; 2] = ["image", "images"];

/// Takes the URLs of the images of a row.
pub(super) fn urls(row: &mut Row) -> Result<Vec<String>, String> {
    let mut urls = Vec::new();
    for column in COLUMNS {
        let Some((name, value)) = take(row, &[column]) else { continue };
        let all = match value {
            Value::Array(all) => all,
            one => vec![one],
        };
        for image in all {
            let url = image.get("url").unwrap_or(&image).as_str();
            match url.filter(|url| is_url(url)) {
                Some(url) => urls.push(url.to_owned()),
                None => {
                    let shown = crate::trouble::in_short(&image.to_string());
                    return Err(format!("`{name}` is neither a URL nor an image: {shown}"));
                }
            }
        }
    }
    Ok(urls)
}

/// Returns whether a text is a URL that a server reads by itself, or that holds the image.
pub fn is_url(text: &str) -> bool {
    ["http://", "https://", "data:"].iter().any(|scheme| text.starts_with(scheme))
}

/// Puts images into a conversation: in place of parts `{"type": "image"}`, or else behind the text
/// of the first message of the user.
pub(super) fn place(urls: Vec<String>, all: &mut [Message]) -> Result<(), String> {
    let mut urls =
        urls.into_iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}}));
    for message in all.iter_mut() {
        for part in message.content.as_array_mut().into_iter().flatten() {
            if part["type"] == "image" && part.get("image_url").is_none() {
                let missing = || "more image placeholders than images".to_owned();
                *part = urls.next().ok_or_else(missing)?;
            }
        }
    }
    let user = all.iter_mut().find(|message| message.role == "user");
    let user = user.ok_or("no user message for the images")?;
    urls.for_each(|part| user.push_part(part));
    Ok(())
}

/// Returns an image file as a data URI.
///
/// # Errors
/// The bytes are not those of an image that servers commonly read.
pub fn data_uri(bytes: &[u8]) -> Result<String, String> {
    let kind = match bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err("expected a PNG, JPEG, GIF or WebP image".into()),
    };
    Ok(format!("data:{kind};base64,{}", base64(bytes)))
}

/// Images that are made up for each prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeImages {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Images of a prompt.
    pub count: u32,
}

impl MadeImages {
    /// Syntax, for help texts.
    pub const KIND: &'static str = "WIDTHxHEIGHT or WIDTHxHEIGHT*COUNT";

    /// Side of the squares of one color, in pixels: with single pixels a file would be as large as
    /// its pixels, which no photograph is.
    const SQUARE: u32 = 8;

    /// Returns a size in bytes that the images of one prompt have at least: no compression makes the
    /// random colors of their squares smaller.
    pub(super) fn least_bytes(self) -> u64 {
        let squares = |pixels: u32| u64::from(pixels.div_ceil(Self::SQUARE));
        squares(self.width) * squares(self.height) * 3 * u64::from(self.count)
    }

    /// Returns the data URIs of the images of one prompt. Equal seeds give equal images, and
    /// different ones different images.
    pub(super) fn urls(self, rng: &mut Mt19937) -> impl Iterator<Item = String> {
        (0..self.count).map(move |_| format!("data:image/png;base64,{}", base64(&self.png(rng))))
    }

    /// Returns a PNG file (RFC 2083) of random squares.
    fn png(self, rng: &mut Mt19937) -> Vec<u8> {
        let Self { width, height, .. } = self;
        let mut pixels = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut row = Vec::with_capacity(width as usize * 3 + 1);
        for y in 0..height {
            if y % Self::SQUARE == 0 {
                // Each row of pixels begins with the number of its filter: 0 for no filter.
                row.clear();
                row.push(0);
                for x in 0..width {
                    if x % Self::SQUARE == 0 {
                        let color: [u8; 3] =
                            std::array::from_fn(|_| (rng.canonical() * 256.0) as u8);
                        row.extend(color);
                    } else {
                        row.extend_from_within(row.len() - 3..);
                    }
                }
            }
            pixels.write_all(&row).expect("memory takes any bytes");
        }
        let pixels = pixels.finish().expect("memory takes any bytes");
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        let sizes = [width.to_be_bytes(), height.to_be_bytes()].concat();
        // 8 bits for each of three colors.
        chunk(*b"IHDR", &[&sizes[..], &[8, 2, 0, 0, 0]].concat(), &mut png);
        chunk(*b"IDAT", &pixels, &mut png);
        chunk(*b"IEND", &[], &mut png);
        png
    }
}

/// Appends a chunk of a PNG file.
fn chunk(kind: [u8; 4], data: &[u8], png: &mut Vec<u8>) {
    let length = u32::try_from(data.len()).expect("an image below 4 GiB");
    png.extend(length.to_be_bytes());
    let mut crc = Crc::new();
    crc.update(&kind);
    crc.update(data);
    png.extend(kind);
    png.extend_from_slice(data);
    png.extend(crc.sum().to_be_bytes());
}

impl FromStr for MadeImages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (size, count) = text.split_once('*').unwrap_or((text, "1"));
        let number = |text: &str, most: u32| {
            text.parse::<u32>().ok().filter(|number| (1..=most).contains(number))
        };
        let read = size.split_once('x').and_then(|(width, height)| {
            let (width, height) = (number(width, 16_384)?, number(height, 16_384)?);
            Some(Self { width, height, count: number(count, 256)? })
        });
        read.ok_or_else(|| format!("expected {}, found `{text}`", Self::KIND))
    }
}

impl fmt::Display for MadeImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}*{}", self.width, self.height, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_differ_by_seed_and_have_a_sane_size() {
        let shape: MadeImages = "64x32*2".parse().unwrap();
        let of = |seed| shape.urls(&mut Mt19937::new(seed)).collect::<Vec<_>>();
        assert_eq!((of(1), of(1).len()), (of(1), 2));
        assert!(of(1)[0] != of(1)[1] && of(1)[0] != of(2)[0]);
        let large = MadeImages { width: 512, height: 512, count: 1 };
        let bytes = large.png(&mut Mt19937::new(3)).len();
        assert!((12_000..200_000).contains(&bytes), "{bytes}");
        for odd in ["64", "0x3", "3x3*0", "3x-1", "x"] {
            assert!(odd.parse::<MadeImages>().is_err(), "{odd}");
        }
    }

    #[test]
    fn images_go_where_a_conversation_has_room_for_them() {
        let mut all = vec![Message::new("system", "s"), Message::new("user", "what?")];
        place(vec!["data:1".into()], &mut all).unwrap();
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        assert_eq!(all[1].content, json!([{"type": "text", "text": "what?"}, image("data:1")]));
        let parts =
            json!({"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "?"}]});
        let mut all = vec![Message::from_json(parts).unwrap()];
        place(vec!["data:1".into()], &mut all).unwrap();
        assert_eq!(all[0].content[0], image("data:1"));
        assert!(place(vec!["data:1".into()], &mut [Message::new("system", "s")]).is_err());
    }
}
