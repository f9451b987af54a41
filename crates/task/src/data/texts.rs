//! Texts as samples of encoders: tokenized by WordPiece, without padding.
//!
//! Without padding a model does no useless work, and an answer is the same alone and in a batch.
//! Texts with the same number of tokens share calls.
//!
//! Tokens are those of the library tokenizers 0.23, except for unassigned Unicode characters: these
//! are dropped, as `BertTokenizer` of transformers drops them.

use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_metrics::squad::features::{BEGIN, END};
use dyno_metrics::squad::wordpiece::WordPieces;
use dyno_sut::tensors::{Elements, SampleTensor, Source};
use dyno_tensors::files;
use serde::Deserialize;
use thiserror::Error;

use super::item;

/// Column of a table that holds the texts.
const COLUMN: &str = "Description";

/// Maximum number of tokens of a text if the tokenizer does not state one: that of BERT.
const LONGEST: usize = 512;

/// Error in a file of texts or of a tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{}{}: expected {expected}, found {found}",
    path.display(), line.map(|line| format!(":{line}")).unwrap_or_default()
)]
pub struct TextsError {
    /// The file.
    pub path: PathBuf,
    /// Line number from 1, if known.
    pub line: Option<u64>,
    /// What was expected.
    pub expected: &'static str,
    /// What was found.
    pub found: String,
}

/// Reads the texts of a file: the column `Description` of a table (`.csv`), or the non-empty lines
/// of any other file.
///
/// # Errors
/// The file cannot be read, is not such a table, or has no texts.
pub fn read(path: &Path) -> Result<Vec<String>, TextsError> {
    let is_table = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let expected = "a table with a column Description, or one text per line, in UTF-8";
    let refused = |line: Option<u64>, found: String| TextsError {
        path: path.to_owned(),
        line,
        expected,
        found,
    };
    let texts = if is_table {
        // MITRE's rows end in a comma, its header does not.
        column(path, csv::ReaderBuilder::new().flexible(true), COLUMN, expected)?
    } else {
        let text = files::read_to_string(path).map_err(|error| refused(None, error.to_string()))?;
        text.lines().map(str::to_owned).collect()
    };
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
    if texts.is_empty() {
        return Err(refused(None, "no text".to_owned()));
    }
    Ok(texts)
}

/// Reads the column of this name; the first row of the table has the names.
///
/// # Errors
/// The file is not such a table; `expected` describes it.
pub(super) fn column(
    path: &Path,
    format: &csv::ReaderBuilder,
    name: &str,
    expected: &'static str,
) -> Result<Vec<String>, TextsError> {
    let refused = |line: Option<u64>, found: String| TextsError {
        path: path.to_owned(),
        line,
        expected,
        found,
    };
    let malformed =
        |error: csv::Error| refused(error.position().map(csv::Position::line), error.to_string());
    let mut table = format.from_path(path).map_err(malformed)?;
    let columns = table.headers().map_err(malformed)?;
    let column = columns.iter().position(|column| column == name);
    let names = || columns.iter().take(8).collect::<Vec<_>>().join(", ");
    let column = column.ok_or_else(|| refused(Some(1), names()))?;
    let text = |row: csv::Result<csv::StringRecord>| {
        let row = row.map_err(malformed)?;
        let line = row.position().map(csv::Position::line);
        let text = row.get(column).map(str::to_owned);
        text.ok_or_else(|| refused(line, format!("a row that has {} columns", row.len())))
    };
    table.records().map(text).collect()
}

/// The tokenizer of an uncased English BERT, as `tokenizer.json` describes it.
#[derive(Debug)]
pub struct Tokenizer {
    pieces: WordPieces,
    /// Tokens before and after a text.
    marks: [u32; 2],
    unknown: u32,
    longest: usize,
}

#[derive(Deserialize)]
struct TokenizerFile {
    truncation: Option<Truncation>,
    normalizer: Normalizer,
    pre_tokenizer: ComponentType,
    model: PieceModel,
}

#[derive(Deserialize)]
struct Truncation {
    max_length: usize,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(flatten)]
    kind: ComponentType,
    clean_text: bool,
    handle_chinese_chars: bool,
    /// Defaults to `lowercase`.
    strip_accents: Option<bool>,
    lowercase: bool,
}

#[derive(Deserialize)]
struct ComponentType {
    r#type: String,
}

#[derive(Deserialize)]
struct PieceModel {
    #[serde(flatten)]
    kind: ComponentType,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: std::collections::BTreeMap<String, u32>,
}

impl Tokenizer {
    /// Parses `tokenizer.json`; `path` is for errors.
    ///
    /// # Errors
    /// The text is not such JSON, or describes another tokenizer.
    pub fn read(json: &[u8], path: &Path) -> Result<Self, TextsError> {
        let refused = |line: Option<usize>, found: String| TextsError {
            path: path.to_owned(),
            line: line.map(|line| line as u64),
            expected: "tokenizer.json of an uncased BERT: BertNormalizer without upper case and \
                       accents, BertPreTokenizer, and WordPiece with [UNK], [CLS] and [SEP]",
            found,
        };
        let file: TokenizerFile = serde_json::from_slice(json)
            .map_err(|error| refused(Some(error.line()), error.to_string()))?;
        let TokenizerFile { truncation, normalizer, pre_tokenizer, model } = file;
        let is_plain = normalizer.kind.r#type == "BertNormalizer"
            && normalizer.clean_text
            && normalizer.handle_chinese_chars
            && normalizer.strip_accents.unwrap_or(normalizer.lowercase)
            && normalizer.lowercase;
        let cuts = pre_tokenizer.r#type == "BertPreTokenizer"
            && model.kind.r#type == "WordPiece"
            && model.unk_token == "[UNK]"
            && model.continuing_subword_prefix == "##"
            && model.max_input_chars_per_word == 100;
        if !is_plain || !cuts {
            let normal = &normalizer.kind.r#type;
            let cut = &model.kind.r#type;
            let found = format!("{normal}, {} and {cut} that cut otherwise", pre_tokenizer.r#type);
            return Err(refused(None, found));
        }
        let pieces = WordPieces::with_ids(model.vocab.into_iter());
        let longest = truncation.map_or(LONGEST, |truncation| truncation.max_length).min(LONGEST);
        match [BEGIN, END, "[UNK]"].map(|piece| pieces.id(piece)) {
            [Some(begin), Some(end), Some(unknown)] if longest > 2 => {
                Ok(Self { pieces, marks: [begin, end], unknown, longest })
            }
            marks => Err(refused(None, format!("{marks:?} and texts of {longest} tokens"))),
        }
    }

    /// Returns the tokens of a text between those of begin and end, cut off at the maximum length.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        let [begin, end] = self.marks;
        let pieces = self.pieces.split(text);
        let ids = pieces.iter().map(|piece| self.pieces.id_of(*piece).unwrap_or(self.unknown));
        [begin].into_iter().chain(ids.take(self.longest - 2)).chain([end]).collect()
    }
}

/// Texts as inputs of a model: tokens, mask (all 1) and segments (all 0).
#[derive(Debug)]
pub struct Texts {
    inputs: [String; 3],
    texts: Vec<Vec<u32>>,
}

impl Texts {
    /// Creates the samples from the names of the inputs and the tokens of each text.
    pub fn new(inputs: [String; 3], texts: Vec<Vec<u32>>) -> Self {
        Self { inputs, texts }
    }
}

impl Source for Texts {
    fn name(&self) -> &str {
        "texts"
    }

    fn count(&self) -> usize {
        self.texts.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let text = item(&self.texts, index)?;
        let tokens = text.iter().map(|&token| i64::from(token)).collect();
        let [counted, segment] = [1, 0].map(|value| vec![value; text.len()]);
        let input = |values: Vec<i64>| SampleTensor {
            shape: vec![values.len()],
            elements: Elements::I64(values.into()),
        };
        Ok([tokens, counted, segment].map(input).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(normalizer: &str, truncation: &str) -> String {
        format!(
            r###"{{"truncation": {truncation}, "normalizer": {{"type": "BertNormalizer",
            "clean_text": true, "handle_chinese_chars": true, {normalizer}}},
            "pre_tokenizer": {{"type": "BertPreTokenizer"}}, "model": {{"type": "WordPiece",
            "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {{"[UNK]": 100, "[CLS]": 101, "[SEP]": 102,
            "fluß": 7, "the": 3, "##se": 4, "cafe": 5, "!": 6}}}}}}"###
        )
    }

    fn tokenizer(normalizer: &str, truncation: &str) -> Result<Tokenizer, TextsError> {
        Tokenizer::read(json(normalizer, truncation).as_bytes(), Path::new("a.zip"))
    }

    const UNCASED: &str = r#""strip_accents": null, "lowercase": true"#;

    #[test]
    fn texts_are_tokens_between_marks_and_no_longer_than_the_tokenizer_says() {
        let long = tokenizer(UNCASED, "null").unwrap();
        let tokens = long.tokens("These CAFÉ! xyz Fluß");
        assert_eq!(tokens, [101, 3, 4, 5, 6, 100, 7, 102]);
        assert_eq!(long.tokens(""), [101, 102]);
        assert_eq!(long.tokens(&"the ".repeat(1000)).len(), 512);
        let short = tokenizer(UNCASED, r#"{"max_length": 4, "stride": 0}"#).unwrap();
        assert_eq!(short.tokens("the the cafe"), [101, 3, 3, 102]);
        let source = Texts::new(["a", "b", "c"].map(str::to_owned), vec![vec![101, 3, 102]]);
        let sample = source.sample(0).unwrap();
        let values: Vec<Vec<f64>> = sample.iter().map(|input| input.elements.to_f64()).collect();
        assert_eq!(values, [vec![101.0, 3.0, 102.0], vec![1.0; 3], vec![0.0; 3]]);
        assert!(source.sample(1).unwrap_err().contains("below 1"));
    }

    #[test]
    fn tokenizers_that_cut_otherwise_are_refused() {
        let cased = tokenizer(r#""strip_accents": null, "lowercase": false"#, "null").unwrap_err();
        assert!(cased.to_string().starts_with("a.zip: expected tokenizer.json of an uncased BERT"));
        assert!(tokenizer(r#""strip_accents": false, "lowercase": true"#, "null").is_err());
        let none = tokenizer(UNCASED, r#"{"max_length": 2}"#).unwrap_err();
        assert!(none.to_string().ends_with("texts of 2 tokens"), "{none}");
        let error = Tokenizer::read(b"{\n]", Path::new("a.zip")).unwrap_err();
        assert_eq!((error.line, error.found.contains("line 2")), (Some(2), true));
    }

    #[test]
    fn texts_are_lines_or_a_column_and_files_without_texts_are_named() {
        let folder = std::env::temp_dir().join(format!("dyno-texts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let written = |name: &str, text: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            read(&path)
        };
        let table = b"CWE-ID,Description\n5,\"two\nlines, \"\"quoted\"\"\",\n6,,\n7,b\n";
        let found = written("table.csv", table).unwrap();
        assert_eq!(found, ["two\nlines, \"quoted\"", "b"]);
        assert_eq!(written("list.txt", b"one\n\n two \n").unwrap(), ["one", " two "]);
        let other = written("other.csv", b"id,name\n1,x\n").unwrap_err().to_string();
        assert!(
            other.contains("other.csv:1: expected a table with a column Description"),
            "{other}"
        );
        let ragged = written("ragged.csv", b"a,Description\n1,x\n2\n").unwrap_err().to_string();
        assert!(ragged.contains("ragged.csv:3: ") && ragged.ends_with("has 1 columns"), "{ragged}");
        assert!(written("empty.txt", b"\n").unwrap_err().to_string().ends_with("found no text"));
        assert!(written("bytes.txt", b"\xff").is_err());
        assert!(read(&folder.join("none.csv")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
