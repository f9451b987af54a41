//! Byte-pair encoding: a text becomes tokens by merging pairs of pieces that stand side by side.
//! GPT-2's rules and CLIP's (`super::clip`) are parameters of one implementation.
//!
//! Source: Sennrich et al., *Neural Machine Translation of Rare Words with Subword Units*,
//! 2016, on bytes. Decoding of tokens is in `dyno-metrics`, whose accuracy needs no encoder.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use unicode_general_category::{GeneralCategory as Category, get_general_category};

use dyno_metrics::DataError;
use dyno_tensors::files;

/// A byte-pair encoder of one vocabulary.
#[derive(Debug)]
pub(crate) struct BytePairEncoder {
    /// Tokens of single bytes: within a word, then at its end.
    bytes: [Vec<Option<u32>>; 2],
    /// Rank and token of each pair that is merged.
    merges: HashMap<(u32, u32), (usize, u32)>,
    /// Texts that are tokens wherever they occur, the longest first.
    special: Vec<(String, u32)>,
    rules: BpeRules,
}

/// Rules in which byte-pair vocabularies differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BpeRules {
    /// Suffix of the last piece of a word in the vocabulary.
    pub end_of_word: &'static str,
    /// Token of bytes that the vocabulary lacks; without it the vocabulary must have all bytes.
    pub unknown: Option<u32>,
    /// Normalizes the text between special tokens.
    pub normalize: fn(&str) -> Cow<'_, str>,
    /// Splits the first word off; `None` if there is no word left.
    pub split_word: fn(&str) -> Option<(&str, &str)>,
}

#[derive(Deserialize)]
struct Document {
    model: BpeModel,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<serde_json::Value>,
    pre_tokenizer: Option<PreTokenizer>,
}

/// The field `model` of `tokenizer.json`.
#[derive(Deserialize)]
pub(crate) struct BpeModel {
    pub vocab: HashMap<String, u32>,
    pub merges: Vec<Merge>,
    /// Whether words that are tokens are not merged from their bytes.
    #[serde(default)]
    ignore_merges: bool,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

impl BpeModel {
    /// Whether words are built by merges alone, with `last` as suffix of their last piece. A
    /// field that the file lacks counts as fitting.
    pub fn is_plain(&self, last: &str) -> bool {
        let is =
            |found: &Option<String>, mark: &str| found.as_deref().is_none_or(|found| found == mark);
        !self.ignore_merges
            && is(&self.continuing_subword_prefix, "")
            && is(&self.end_of_word_suffix, last)
    }
}

/// A pair of pieces, as older (`Line`) and newer (`Pair`) files write it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Merge {
    Line(String),
    Pair(String, String),
}

impl Merge {
    /// The two pieces.
    ///
    /// # Errors
    /// The line, if it is not two pieces with a space between.
    pub fn pair(self) -> Result<(String, String), String> {
        match self {
            Self::Pair(first, second) => Ok((first, second)),
            Self::Line(line) => match line.split_once(' ') {
                Some((first, second)) if !second.contains(' ') => {
                    Ok((first.to_owned(), second.to_owned()))
                }
                _ => Err(line),
            },
        }
    }
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}

#[derive(Deserialize)]
struct PreTokenizer {
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

impl BytePairEncoder {
    /// Builds the encoder of a vocabulary; `merges` come in the order of their ranks.
    ///
    /// # Errors
    /// The first piece that has no token.
    pub fn new(
        vocabulary: &HashMap<String, u32>,
        merges: Vec<(String, String)>,
        mut special: Vec<(String, u32)>,
        rules: BpeRules,
    ) -> Result<Self, String> {
        let id = |piece: &str| vocabulary.get(piece).copied().ok_or_else(|| piece.to_owned());
        let mut bytes = [const { Vec::new() }; 2];
        for (bytes, suffix) in bytes.iter_mut().zip(["", rules.end_of_word]) {
            for byte in 0..=255 {
                let token = id(&format!("{}{suffix}", character(byte)));
                let is_required = rules.unknown.is_none();
                bytes.push(if is_required { Some(token?) } else { token.ok() });
            }
        }
        let mut ranked = HashMap::with_capacity(merges.len());
        for (rank, (first, second)) in merges.into_iter().enumerate() {
            let merged = id(&format!("{first}{second}"))?;
            ranked.entry((id(&first)?, id(&second)?)).or_insert((rank, merged));
        }
        special.retain(|(text, _)| !text.is_empty());
        special.sort_by_key(|(text, _)| Reverse(text.len()));
        Ok(Self { bytes, merges: ranked, special, rules })
    }

    /// Reads `tokenizer.json` of GPT-2's kind, as GPT-J has it.
    ///
    /// # Errors
    /// The file cannot be read, or is of another kind.
    pub fn read_gpt2(path: &Path) -> Result<Self, DataError> {
        let json = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
        let expected = "tokenizer.json of GPT-2's kind: merges of bytes with the pre-tokenizer \
                        ByteLevel, no normalizer and no space before";
        let refused =
            |line: Option<usize>, found: String| DataError::malformed(path, line, expected, found);
        let document: Document = serde_json::from_slice(&json)
            .map_err(|error| refused(Some(error.line()), error.to_string()))?;
        match &document.pre_tokenizer {
            Some(PreTokenizer { kind, add_prefix_space: false, use_regex: true })
                if kind == "ByteLevel" => {}
            _ => return Err(refused(None, "another pre-tokenizer".into())),
        }
        if document.normalizer.is_some() {
            return Err(refused(None, "a normalizer".into()));
        }
        if !document.model.is_plain("") {
            return Err(refused(None, "ignore_merges, or marks of pieces".into()));
        }
        let BpeModel { vocab, merges, .. } = document.model;
        let merges = merges.into_iter().map(Merge::pair).collect::<Result<_, _>>();
        let merges = merges.map_err(|line| refused(None, format!("the merge {line:?}")))?;
        let special = document.added_tokens.into_iter().map(|added| (added.content, added.id));
        let rules = BpeRules {
            end_of_word: "",
            unknown: None,
            normalize: |text| text.into(),
            split_word: split_gpt2_word,
        };
        Self::new(&vocab, merges, special.collect(), rules)
            .map_err(|piece| refused(None, format!("no token {piece:?}")))
    }

    /// The first tokens of a text, at most `most`. Text behind them is not read.
    pub fn encode(&self, text: &str, most: usize) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while !rest.is_empty() && tokens.len() < most {
            // The earliest special token, and the longest of those that begin there.
            let found =
                self.special.iter().filter_map(|(text, id)| Some((rest.find(text)?, text, id)));
            let found = found.reduce(|best, next| if next.0 < best.0 { next } else { best });
            let end = found.map_or(rest.len(), |(start, ..)| start);
            let part = (self.rules.normalize)(&rest[..end]);
            let mut words = &part[..];
            while tokens.len() < most
                && let Some((word, behind)) = (self.rules.split_word)(words)
            {
                self.encode_word(word.as_bytes(), &mut tokens);
                words = behind;
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

    /// Appends the tokens of a word: the pair of the lowest rank is merged first, everywhere in
    /// the word.
    fn encode_word(&self, word: &[u8], tokens: &mut Vec<u32>) {
        let [within, last] = &self.bytes;
        let token = |(place, byte): (usize, &u8)| {
            let table = if place + 1 == word.len() { last } else { within };
            table[usize::from(*byte)]
        };
        let mut parts: Vec<Option<u32>> = word.iter().enumerate().map(token).collect();
        let rank = |pair: &[Option<u32>]| self.merges.get(&(pair[0]?, pair[1]?)).copied();
        while let Some((_, merged, pair)) = parts
            .windows(2)
            .filter_map(|pair| rank(pair).map(|(rank, merged)| (rank, merged, [pair[0], pair[1]])))
            .min_by_key(|(rank, ..)| *rank)
        {
            let mut next = Vec::with_capacity(parts.len());
            let mut rest = &parts[..];
            while let Some((first, behind)) = rest.split_first() {
                let is_pair = rest.starts_with(&pair);
                next.push(if is_pair { Some(merged) } else { *first });
                rest = if is_pair { &rest[2..] } else { behind };
            }
            parts = next;
        }
        let unknown = self.rules.unknown.unwrap_or_default();
        tokens.extend(parts.into_iter().map(|part| part.unwrap_or(unknown)));
    }
}

/// The character that stands for a byte in a vocabulary: the byte itself if it is printable,
/// otherwise one from U+0100 on.
fn character(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !is_printable(*byte)).count() as u32;
    char::from_u32(0x100 + before).expect("68 characters from U+0100 on")
}

/// Class of a character in the patterns that split words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CharacterClass {
    Space,
    Letter,
    Number,
    Other,
}

/// The class of a character by its Unicode category.
pub(crate) fn class_of(character: char) -> CharacterClass {
    if character.is_whitespace() {
        return CharacterClass::Space;
    }
    match get_general_category(character) {
        Category::UppercaseLetter
        | Category::LowercaseLetter
        | Category::TitlecaseLetter
        | Category::ModifierLetter
        | Category::OtherLetter => CharacterClass::Letter,
        Category::DecimalNumber | Category::LetterNumber | Category::OtherNumber => {
            CharacterClass::Number
        }
        _ => CharacterClass::Other,
    }
}

/// The English contraction that a text begins with.
pub(crate) fn contraction(text: &str) -> Option<&'static str> {
    ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"].into_iter().find(|part| text.starts_with(part))
}

/// Splits the first word of GPT-2's pattern off: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|
/// ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
fn split_gpt2_word(text: &str) -> Option<(&str, &str)> {
    (!text.is_empty()).then(|| text.split_at(gpt2_word_length(text)))
}

/// Bytes of the first word of GPT-2's pattern.
fn gpt2_word_length(text: &str) -> usize {
    if let Some(short) = contraction(text) {
        return short.len();
    }
    let run = |text: &str, class: CharacterClass| {
        text.find(|character| class_of(character) != class).unwrap_or(text.len())
    };
    let behind = text.strip_prefix(' ').unwrap_or(text);
    let first = behind.chars().next().map_or(CharacterClass::Space, class_of);
    if first != CharacterClass::Space {
        return text.len() - behind.len() + run(behind, first);
    }
    let spaces = run(text, CharacterClass::Space);
    if spaces == text.len() {
        return spaces;
    }
    // The last space belongs to the word behind it, unless it is the only one.
    let last = text[..spaces].char_indices().next_back().map_or(0, |(start, _)| start);
    if last == 0 { spaces } else { last }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use std::fs;

    use super::*;

    /// Merges of a tokenizer that the Python library `tokenizers` 0.20.3 trained on two sentences:
    /// the vocabulary has one special token, 256 bytes in the order of their characters, then the
    /// merges.
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

    fn read(name: &str, document: &Value) -> Result<BytePairEncoder, DataError> {
        let path = std::env::temp_dir().join(format!("dyno-bpe-{name}-{}", std::process::id()));
        fs::write(&path, document.to_string()).unwrap();
        let read = BytePairEncoder::read_gpt2(&path);
        fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn texts_become_the_tokens_of_the_library() {
        let encoder = read("equal", &document()).unwrap();
        // Tokens are those of the library.
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
        let kind = refusal("kind", &|json| json["pre_tokenizer"] = json!({"type": "Metaspace"}));
        assert!(kind.contains("found another pre-tokenizer"), "{kind}");
        let normal = refusal("normal", &|json| json["normalizer"] = json!({"type": "NFC"}));
        assert!(normal.contains("found a normalizer"), "{normal}");
        for (name, key, value) in [
            ("ignores", "ignore_merges", json!(true)),
            ("marks", "end_of_word_suffix", json!("</w>")),
        ] {
            let other = refusal(name, &|json| json["model"][key] = value.clone());
            assert!(other.contains("found ignore_merges, or marks of pieces"), "{other}");
        }
        let merge = refusal("merge", &|json| json["model"]["merges"][0] = json!("a zz"));
        assert!(merge.contains("no token \"azz\""), "{merge}");
    }
}
