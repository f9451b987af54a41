//! Text in either form that servers use: a string, or a list of typed parts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Text of a member. Other content of the member is ignored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// No text: null, a number, or another object.
    Nothing,
    /// A string; borrowed if nothing is escaped.
    Text(Cow<'a, str>),
    /// Parts of a list, in order: whether each is a thought, and its text.
    Parts(Vec<(bool, String)>),
}

impl Content<'_> {
    /// Returns whether there is any text.
    pub(super) fn has_text(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Text(text) => !text.is_empty(),
            Self::Parts(parts) => parts.iter().any(|(_, text)| !text.is_empty()),
        }
    }

    /// Passes on each text that is no thought.
    pub(super) fn each_text(&self, mut take: impl FnMut(&str)) {
        match self {
            Self::Nothing => {}
            Self::Text(text) => take(text),
            Self::Parts(parts) => {
                parts.iter().filter(|(is_thought, _)| !is_thought).for_each(|(_, text)| take(text));
            }
        }
    }

    fn append_to(self, is_thought: bool, parts: &mut Vec<(bool, String)>) {
        match self {
            Self::Nothing => {}
            Self::Text(text) => parts.push((is_thought, text.into_owned())),
            Self::Parts(inner) => {
                parts
                    .extend(inner.into_iter().map(|(thought, text)| (thought || is_thought, text)));
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::Nothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Content::Nothing)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Content::Nothing)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Content::Nothing)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Content::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(content) = list.next_element::<Content<'de>>()? {
            content.append_to(false, &mut parts);
        }
        Ok(Content::Parts(parts))
    }

    /// A typed part has its text under a name that depends on its type.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match &*name {
                "text" | "content" | "refusal" | "transcript" => {
                    map.next_value::<Content<'de>>()?.append_to(false, &mut parts);
                }
                "thinking" | "reasoning" | "reasoning_content" => {
                    map.next_value::<Content<'de>>()?.append_to(true, &mut parts);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Content::Parts(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(json: &str) -> Vec<(bool, String)> {
        match serde_json::from_str(json).unwrap() {
            Content::Nothing => Vec::new(),
            Content::Text(text) => vec![(false, text.into_owned())],
            Content::Parts(parts) => parts,
        }
    }

    #[test]
    fn the_text_of_parts_is_found_whatever_else_they_hold() {
        let text = |text: &str| vec![(false, text.to_owned())];
        assert_eq!(parts("\"a\\n\""), text("a\n"));
        assert_eq!(parts(r#"[{"type":"text","text":"y"}]"#), text("y"));
        assert_eq!(parts(r#"["y"]"#), text("y"));
        let thought = r#"[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},
            {"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"u"}}]"#;
        assert_eq!(parts(thought), [(true, "hm".into()), (false, "x".into())]);
        assert_eq!(parts(r#"{"id":"a","data":"AAAA","transcript":"y"}"#), text("y"));
        for nothing in ["null", "1", "-1", "1.5", "true", "[]", "{}", "[null]"] {
            assert_eq!(parts(nothing), [], "{nothing}");
        }
    }
}
