//! Answers of the interface that generates and edits images, and requests to edit some.
//!
//! Source: the API reference of OpenAI ("Create image", "Create image edit", "Image Streaming").

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answer::{AnswerSink as _, in_band, no_answer, states_error};
use super::builder::AnswerBuilder;
use super::message::{Message, inline_image};
use super::multipart::{self, FormFile};
use super::vectors::{count_input, item_error, items};
use crate::base64::{decode, decoded_length};
use crate::percent::decoded;
use crate::trouble::{Kind, Trouble, in_short};

/// An image, or where it is.
#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
    b64_json: Option<Cow<'a, str>>,
}

impl Image<'_> {
    /// Returns the URL, or the size of the image; `None` if there is neither.
    ///
    /// # Errors
    /// Not Base64, or not a URL.
    fn summary(&self) -> Result<Option<String>, Trouble> {
        let wrong = |what: &str, found: &str| {
            let words = format!("expected an image as {what}, found: {}", in_short(found));
            Trouble::new(Kind::Malformed, words)
        };
        let shown = |length: Option<usize>, text: &str| match length {
            None => Err(wrong("Base64", text)),
            Some(0) => Ok(None),
            Some(bytes) => Ok(Some(format!("an image of {bytes} bytes"))),
        };
        let base64 = self.b64_json.as_deref().unwrap_or_default();
        if !base64.is_empty() {
            // Some servers write a data URL here.
            let data = data_of(base64);
            return shown(data.map_or_else(|| decoded_length(base64), data_length), base64);
        }
        let url = self.url.as_deref().unwrap_or_default();
        match data_of(url) {
            Some(data) => shown(data_length(data), url),
            None if url.is_empty() => Ok(None),
            None if has_scheme(url) => Ok(Some(url.to_owned())),
            None => Err(wrong("a URL", url)),
        }
    }
}

/// Returns what follows the scheme of a data URL (RFC 2397).
fn data_of(url: &str) -> Option<&str> {
    let (scheme, data) = url.split_once(':')?;
    scheme.eq_ignore_ascii_case("data").then_some(data)
}

/// Returns the number of bytes that a data URL holds; `None` if they cannot be decoded.
fn data_length(data: &str) -> Option<usize> {
    let (kind, data) = data.split_once(',')?;
    let is_base64 = kind.rsplit(';').next().is_some_and(|last| last.eq_ignore_ascii_case("base64"));
    if is_base64 && !data.contains('%') {
        return decoded_length(data);
    }
    let bytes = decoded(data.as_bytes());
    if is_base64 { decoded_length(std::str::from_utf8(&bytes).ok()?) } else { Some(bytes.len()) }
}

/// Returns whether a text begins with the scheme of a URL, such as `https:` or `s3:` (RFC 3986, section
/// 3.1).
fn has_scheme(url: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    url.split_once(':').is_some_and(|(scheme, rest)| {
        let begins = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
        begins && scheme.bytes().all(is_name) && !rest.is_empty()
    })
}

/// Reads images, of which each is a choice of the answer. Only their sizes or their URLs are kept.
///
/// # Errors
/// Not an answer of the interface, an image that cannot be decoded, or the server's message if it
/// reports an error.
pub(super) fn whole(
    json: &[u8],
    expected: usize,
    take: &mut AnswerBuilder,
) -> Result<bool, Trouble> {
    let wire = items(json, take)?;
    let Some(images) = &wire.data else { return Ok(false) };
    for (at, item) in images.iter().enumerate() {
        let image: Image<'_> = serde_json::from_str(item.get()).map_err(|_| no_answer(json))?;
        take.choice(at);
        if let Some(summary) = image.summary()? {
            take.output(if at > 0 { "\n" } else { "" }, false);
            take.output(&summary, false);
        } else if let Some(trouble) = item_error(item, take) {
            return Err(trouble);
        }
        take.finish("stop");
    }
    count_input(wire.usage, take);
    if images.len() != expected {
        take.items = Some((images.len(), expected));
    }
    Ok(true)
}

/// An event of a stream.
#[derive(Deserialize)]
struct EventWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Reads an event of a stream, whose type is `name` where its data have none. A preliminary image is checked
/// and is no output. The stream ends with the last of the `expected` images.
///
/// # Errors
/// Not an event of the interface, an image that cannot be decoded, or the server's message if it reports an
/// error.
pub(super) fn event(
    json: &[u8],
    name: &[u8],
    expected: usize,
    take: &mut AnswerBuilder,
) -> Result<bool, Trouble> {
    let wire: EventWire<'_> = serde_json::from_slice(json).map_err(|_| no_answer(json))?;
    let image: Image<'_> = serde_json::from_slice(json).map_err(|_| no_answer(json))?;
    let kind = wire.kind.unwrap_or_else(|| String::from_utf8_lossy(name));
    if kind == "error" || states_error(wire.error, !kind.is_empty(), take) {
        return Err(in_band(json));
    }
    let (summary, before) = (image.summary()?, take.finished_choices());
    if kind.ends_with(".partial_image") {
        take.choice(before);
        return Ok(true);
    }
    if let Some(summary) = &summary {
        take.choice(before);
        take.output(if before > 0 { "\n" } else { "" }, false);
        take.output(summary, false);
        take.finish("stop");
    }
    count_input(wire.usage, take);
    let images = take.finished_choices();
    take.items = (images != expected).then_some((images, expected));
    // Some servers end with an event that has no image.
    take.is_done |= kind.ends_with(".completed") && (images >= expected || summary.is_none());
    Ok(!kind.is_empty())
}

/// Path of requests to edit images.
pub const EDITS: &str = "/images/edits";

/// Returns the parts of messages that are no text.
fn parts(messages: &[Message]) -> impl Iterator<Item = &Value> {
    let parts = messages.iter().filter_map(|message| message.content.as_array()).flatten();
    parts.filter(|part| part["type"] != "text")
}

/// Returns whether a part is an image with its data, whose media type can be a header field.
fn is_image(part: &Value) -> bool {
    let is_kind = |kind: &str| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_graphic());
    let is_sent = |(kind, data): (&str, &str)| is_kind(kind) && decoded_length(data).is_some();
    inline_image(part).is_some_and(is_sent)
}

/// Returns whether messages have images, all of them with their data, so that these can be edited.
pub(crate) fn takes(messages: &[Message]) -> bool {
    let mut parts = parts(messages).peekable();
    parts.peek().is_some() && parts.all(is_image)
}

/// Returns the content type and the body of a request to edit the images of messages.
pub(super) fn edit_form(members: &Map<String, Value>, messages: &[Message]) -> (String, Vec<u8>) {
    let images = parts(messages).filter_map(inline_image);
    let images: Vec<(&str, Vec<u8>)> =
        images.filter_map(|(kind, data)| Some((kind, decode(data)?))).collect();
    // Several images are a list.
    let field = if images.len() > 1 { "image[]" } else { "image" };
    let files = (1..).zip(&images).map(|(number, (media_type, bytes))| {
        let ending = media_type.rsplit('/').next().unwrap_or_default();
        FormFile { field, name: format!("image-{number}.{ending}"), media_type, bytes }
    });
    let files: Vec<FormFile<'_>> = files.collect();
    multipart::form(members, &files)
}
