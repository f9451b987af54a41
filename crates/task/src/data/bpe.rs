//! Tokens of a text by pairs of bytes that are merged: the encoding side of a `tokenizer.json`
//! of GPT-2's kind, as GPT-J has it.
//!
//! Source: Sennrich et al., *Neural Machine Translation of Rare Words with Subword Units*,
//! 2016, on bytes; words are those of GPT-2's pattern. What turns tokens into text is in
//! `dyno-metrics`, whose accuracy needs no more.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use unicode_general_category::{GeneralCategory as Category, get_general_category};

use dyno_metrics::DataError;

/// Turns texts into tokens.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// Tokens of single bytes.
    bytes: [u32; 256],
    /// What two tokens side by side become, and how early.
    merges: HashMap<(u32, u32), (usize, u32)>,
    /// Texts that are tokens wherever they stand, the longest first.
    added: Vec<(String, u32)>,
}

#[derive(Deserialize)]
struct Document {
    model: Model,
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<serde_json::Value>,
    pre_tokenizer: Option<Before>,
}

/// Of `tokenizer.json`, the part that says how pieces become tokens.
#[derive(Deserialize)]
pub(crate) struct Model {
    pub vocab: HashMap<String, u32>,
    pub merges: Vec<Merge>,
    /// Words that are tokens as they stand are not put together.
    #[serde(default)]
    ignore_merges: bool,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

impl Model {
    /// Whether words are put together by their merges alone, the last piece of each marked by
    /// this, as far as the file says.
    pub fn is_plain(&self, last: &str) -> bool {
        let is = |found: &Option<String>, mark: &str| found.as_deref().is_none_or(|of| of == mark);
        !self.ignore_merges
            && is(&self.continuing_subword_prefix, "")
            && is(&self.end_of_word_suffix, last)
    }
}

/// A pair, as older and newer versions write it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Merge {
    Line(String),
    Pair(String, String),
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
}

#[derive(Deserialize)]
struct Before {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    add_prefix_space: bool,
    #[serde(default = "yes")]
    use_regex: bool,
}

fn yes() -> bool {
    true
}

impl Encoder {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// It does not read, or is of another kind.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let json = fs::read(path).map_err(|error| DataError::unreadable(path, &error))?;
        let expected = "tokenizer.json of GPT-2's kind: merges of bytes with the pre-tokenizer \
                        ByteLevel, no normalizer and no space before";
        let refused =
            |line: Option<usize>, found: String| DataError::malformed(path, line, expected, found);
        let document: Document = serde_json::from_slice(&json)
            .map_err(|error| refused(Some(error.line()), error.to_string()))?;
        let Document { model, added_tokens, .. } = &document;
        let Model { vocab, merges, .. } = model;
        match &document.pre_tokenizer {
            Some(Before { kind, add_prefix_space: false, use_regex: true })
                if kind == "ByteLevel" => {}
            _ => return Err(refused(None, "another pre-tokenizer".into())),
        }
        if document.normalizer.is_some() {
            return Err(refused(None, "a normalizer".into()));
        }
        if !model.is_plain("") {
            return Err(refused(None, "ignore_merges, or marks of pieces".into()));
        }
        let id = |text: &str| {
            vocab.get(text).copied().ok_or_else(|| refused(None, format!("no token {text:?}")))
        };
        let mut bytes = [0; 256];
        for byte in 0..=255_u8 {
            bytes[usize::from(byte)] = id(character(byte).encode_utf8(&mut [0; 4]))?;
        }
        let mut pairs = HashMap::with_capacity(merges.len());
        for (rank, merge) in merges.iter().enumerate() {
            let (first, second) = match merge {
                Merge::Line(line) => line
                    .split_once(' ')
                    .ok_or_else(|| refused(None, format!("the merge {line:?}")))?,
                Merge::Pair(first, second) => (first.as_str(), second.as_str()),
            };
            let merged = id(&format!("{first}{second}"))?;
            pairs.entry((id(first)?, id(second)?)).or_insert((rank, merged));
        }
        let added = added_tokens.iter().map(|added| (added.content.clone(), added.id));
        let mut added: Vec<(String, u32)> = added.filter(|(text, _)| !text.is_empty()).collect();
        added.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Ok(Self { bytes, merges: pairs, added })
    }

    /// The first tokens of a text, so many at most.
    pub fn encode(&self, text: &str, most: usize) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while !rest.is_empty() && tokens.len() < most {
            // The earliest, and of those that begin there the longest.
            let found =
                self.added.iter().filter_map(|(text, id)| Some((rest.find(text)?, text, id)));
            let found = found.reduce(|best, next| if next.0 < best.0 { next } else { best });
            let end = found.map_or(rest.len(), |(at, ..)| at);
            for word in words(&rest[..end]) {
                if tokens.len() >= most {
                    break;
                }
                self.word(word, &mut tokens);
            }
            rest = &rest[end..];
            if let Some((_, text, id)) = found {
                tokens.push(*id);
                rest = &rest[text.len()..];
            }
        }
        tokens.truncate(most);
        tokens
    }

    fn word(&self, word: &str, tokens: &mut Vec<u32>) {
        let parts = word.bytes().map(|byte| self.bytes[usize::from(byte)]).collect();
        tokens.extend(merged(parts, |first, second| self.merges.get(&(*first, *second)).copied()));
    }
}

/// Puts the parts of a word together, the pair of the least rank first, everywhere in the
/// word; `rank` says of a pair its rank and what it becomes.
pub(crate) fn merged<T: PartialEq + Clone>(
    mut parts: Vec<T>,
    rank: impl Fn(&T, &T) -> Option<(usize, T)>,
) -> Vec<T> {
    loop {
        let ranked = parts.windows(2).enumerate();
        let ranked = ranked.filter_map(|(at, two)| Some((rank(&two[0], &two[1])?, at)));
        let least = ranked.min_by_key(|((rank, _), _)| *rank);
        let Some(((_, whole), at)) = least else { return parts };
        let pair = [parts[at].clone(), parts[at + 1].clone()];
        let mut next = Vec::with_capacity(parts.len());
        let mut rest = &parts[..];
        while let Some((first, behind)) = rest.split_first() {
            let is_pair = rest.starts_with(&pair);
            next.push(if is_pair { whole.clone() } else { first.clone() });
            rest = if is_pair { &rest[2..] } else { behind };
        }
        parts = next;
    }
}

/// The character that stands for a byte: itself where it can be seen, else one from U+0100 on.
pub(crate) fn character(byte: u8) -> char {
    let is_seen = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if is_seen(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !is_seen(*byte)).count() as u32;
    char::from_u32(0x100 + before).expect("68 characters from U+0100 on")
}

/// What a character is to the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Space,
    Letter,
    Number,
    Other,
}

pub(crate) fn kind(letter: char) -> Kind {
    if letter.is_whitespace() {
        return Kind::Space;
    }
    match get_general_category(letter) {
        Category::UppercaseLetter
        | Category::LowercaseLetter
        | Category::TitlecaseLetter
        | Category::ModifierLetter
        | Category::OtherLetter => Kind::Letter,
        Category::DecimalNumber | Category::LetterNumber | Category::OtherNumber => Kind::Number,
        _ => Kind::Other,
    }
}

/// The words of GPT-2's pattern: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|
/// ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (word, after) = rest.split_at(length(rest));
        rest = after;
        Some(word)
    })
}

/// Bytes of the first word.
fn length(text: &str) -> usize {
    let short = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    if let Some(short) = short.iter().find(|short| text.starts_with(**short)) {
        return short.len();
    }
    let run = |text: &str, of: Kind| {
        text.char_indices().find(|(_, letter)| kind(*letter) != of).map_or(text.len(), |(at, _)| at)
    };
    let behind = text.strip_prefix(' ').unwrap_or(text);
    let first = behind.chars().next().map_or(Kind::Space, kind);
    if first != Kind::Space {
        return text.len() - behind.len() + run(behind, first);
    }
    let spaces = run(text, Kind::Space);
    if spaces == text.len() {
        return spaces;
    }
    // The last one goes with the word behind, unless it is the only one.
    let last = text[..spaces].char_indices().next_back().map_or(0, |(at, _)| at);
    if last == 0 { spaces } else { last }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Of a tokenizer that the Python library `tokenizers` 0.20.3 trained on two sentences:
    /// 256 bytes in the order of their characters behind one special token, then the merges.
    const MERGES: &str = "a t|h e|t he|Ġ a|Ġ the|c at|l l|Ġ s|Ġ cat|' s|a i|h at|m at|n d|Ġ i|\
                          Ġ mat|Ġa nd|' d|' v|' ll|0 2|2 02|S he|a ll|e e|e w|g o|h all|n ew|o n|\
                          r ai|t hat|w e|Ġ '|Ġ hat|Ġ 202|Ġ She|Ġ go|Ġ new|Ġ on";

    fn document() -> Value {
        let mut characters: Vec<char> = (0..=255).map(character).collect();
        characters.sort_unstable();
        let merges: Vec<&str> = MERGES.split('|').collect();
        let merged = merges.iter().map(|merge| merge.replace(' ', ""));
        let tokens = characters.iter().map(char::to_string).chain(merged);
        let mut vocab: serde_json::Map<String, Value> =
            (1..).zip(tokens).map(|(id, token)| (token, json!(id))).collect();
        vocab.insert("<|endoftext|>".into(), json!(0));
        json!({
            "added_tokens": [{"id": 0, "content": "<|endoftext|>", "special": true}],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
            "model": {"type": "BPE", "vocab": vocab, "merges": merges},
        })
    }

    fn read(name: &str, document: &Value) -> Result<Encoder, DataError> {
        let path = std::env::temp_dir().join(format!("dyno-bpe-{name}-{}", std::process::id()));
        fs::write(&path, document.to_string()).unwrap();
        let read = Encoder::read(&path);
        fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn texts_become_the_tokens_of_the_library() {
        let encoder = read("equal", &document()).unwrap();
        // Tokens that the library gave.
        let cases: [(&str, &[u32]); 7] = [
            ("the cats' mat", &[259, 265, 83, 7, 272]),
            ("She's in  the\n\n hall!", &[279, 266, 271, 78, 221, 261, 199, 199, 221, 284, 1]),
            (
                "na\u{ef}ve caf\u{e9} \u{2013} 12\u{bd} x\u{b2}\u{a0}\u{3000}end \n",
                &[
                    78, 65, 128, 108, 86, 69, 221, 67, 65, 70, 128, 103, 221, 159, 223, 242, 221,
                    17, 18, 127, 122, 221, 88, 127, 111, 127, 255, 160, 223, 223, 69, 270, 221,
                    199,
                ],
            ),
            (
                "they'll've'd 're'S <|endoftext|>the<|endoftext|>",
                &[259, 89, 276, 275, 69, 274, 290, 82, 69, 7, 51, 221, 0, 259, 0],
            ),
            (
                "\u{65e5}\u{672c}\u{8a9e} text\ttab  ",
                &[
                    163, 246, 99, 163, 251, 106, 165, 104, 253, 221, 84, 69, 88, 84, 198, 84, 65,
                    66, 221, 221,
                ],
            ),
            (
                "\u{661}\u{662} \u{200b}zero\u{2028}ab",
                &[150, 95, 150, 96, 221, 159, 223, 234, 90, 69, 82, 79, 159, 223, 102, 65, 66],
            ),
            ("", &[]),
        ];
        for (text, tokens) in cases {
            assert_eq!(encoder.encode(text, 99), tokens, "{text:?}");
            assert_eq!(encoder.encode(text, 3), tokens[..tokens.len().min(3)], "{text:?}");
        }
    }

    #[test]
    fn tokenizers_of_another_kind_are_refused() {
        let refusal = |name: &str, change: &dyn Fn(&mut Value)| {
            let mut document = document();
            change(&mut document);
            read(name, &document).unwrap_err().to_string()
        };
        let kind = refusal("kind", &|of| of["pre_tokenizer"] = json!({"type": "Metaspace"}));
        assert!(kind.contains("found another pre-tokenizer"), "{kind}");
        let normal = refusal("normal", &|of| of["normalizer"] = json!({"type": "NFC"}));
        assert!(normal.contains("found a normalizer"), "{normal}");
        for (name, key, value) in [
            ("ignores", "ignore_merges", json!(true)),
            ("marks", "end_of_word_suffix", json!("</w>")),
        ] {
            let other = refusal(name, &|of| of["model"][key] = value.clone());
            assert!(other.contains("found ignore_merges, or marks of pieces"), "{other}");
        }
        let merge = refusal("merge", &|of| of["model"]["merges"][0] = json!("a zz"));
        assert!(merge.contains("no token \"azz\""), "{merge}");
    }
}
