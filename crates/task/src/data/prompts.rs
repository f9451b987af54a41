//! Prompts as tokens, for models that generate text.
//!
//! Source: `dataset.py` of the reference's benchmarks GPT-J, Llama 2 70B, Llama 3.1 405B and
//! Mixtral 8x7B. A table is converted once: into a file of tokens and into the references of the
//! methods.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{Elements, SampleTensor, Source};
use dyno_tensors::files;
use serde_json::json;

use super::bpe::BytePairEncoder;
use super::table::{Cell, Table};
use super::{SampleSet, item, library};
use crate::files::{CacheKey, Files, OpenError};
use crate::system::PromptTable;

/// Maximum number of tokens in a prompt of GPT-J.
const MOST: usize = 1919;

/// Revision of the derived files: increases when they change for the same table.
const REVISION: u32 = 1;

/// Prompts of a data set.
#[derive(Debug)]
struct Prompts {
    name: String,
    inputs: Vec<String>,
    /// Range of each prompt in `tokens`.
    places: Vec<Range<usize>>,
    tokens: Vec<i32>,
    /// For each prompt, whether the answer is a program; the card may feed that.
    programs: Vec<bool>,
}

impl PromptTable {
    /// Returns the name of the table's file in the card.
    fn file(self) -> &'static str {
        match self {
            Self::CnnDailymail => "cnn_eval",
            Self::OpenOrca => "open_orca",
            Self::LongContext | Self::Mixture => "dataset",
        }
    }

    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::CnnDailymail => &["instruction", "input", "output"],
            Self::OpenOrca => &["tok_input", "output"],
            Self::LongContext => &["tok_input", "metric", "gt_output"],
            Self::Mixture => &["tok_input", "dataset", "gt_output"],
        }
    }
}

/// Opens the prompts of the user's table and derives the references.
pub(crate) fn read(files: &Files<'_>, form: PromptTable) -> Result<SampleSet, OpenError> {
    let file = form.file();
    let columns = form.columns();
    let path = files.path(file)?;
    let mut table = None;
    let mut inputs = vec![file];
    if form == PromptTable::CnnDailymail {
        inputs.push("tokenizer");
    }
    let tokens = files.derive("tokens", REVISION, CacheKey::Files(&inputs), |to| {
        files.report_progress("reads prompts, once");
        let table = table.insert(Table::read(&path, columns)?);
        let encoder = match form {
            PromptTable::CnnDailymail => {
                let path = files.path("tokenizer")?;
                Some(BytePairEncoder::read_gpt2(&path).map_err(OpenError::content)?)
            }
            _ => None,
        };
        let prompts = (0..table.rows()).map(|row| prompt(table, row, encoder.as_ref()));
        let prompts = prompts.collect::<Result<Vec<Vec<i32>>, OpenError>>()?;
        let programs: Vec<bool> =
            (0..table.rows()).map(|row| is_program(table, row, form)).collect();
        write(&prompts, &programs, to).map_err(OpenError::content)
    })?;
    let references = files.derive("references", REVISION, CacheKey::Files(&inputs), |to| {
        let table = match table.take() {
            Some(table) => table,
            None => Table::read(&path, columns)?,
        };
        let all = (0..table.rows()).map(|row| reference(&table, row, form));
        let all = all.collect::<Result<Vec<serde_json::Value>, OpenError>>()?;
        serde_json::to_writer(to, &all).map_err(OpenError::content)
    })?;
    let prompts = Prompts::open(&tokens, files)?;
    let references = BTreeMap::from([("reference".to_owned(), references)]);
    Ok(SampleSet { references, ..SampleSet::new(library(files.card(), prompts)?) })
}

/// Returns the tokens of a row: those of the table, or those of the prompt template with the row's
/// texts.
fn prompt(
    table: &Table,
    row: usize,
    encoder: Option<&BytePairEncoder>,
) -> Result<Vec<i32>, OpenError> {
    let Some(encoder) = encoder else { return Ok(table.tokens(row, "tok_input")?.to_vec()) };
    let instruction = table.text(row, "instruction")?;
    let input = table.text(row, "input")?;
    let text = format!(
        "Below is an instruction that describes a task, paired with an input that provides \
         further context. Write a response that appropriately completes the request.\n\n\
         ### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
    );
    let tokens = encoder.encode(&text, MOST).into_iter().map(i32::try_from);
    tokens.collect::<Result<_, _>>().map_err(OpenError::content)
}

/// Whether the answer to a row is a program.
fn is_program(table: &Table, row: usize, form: PromptTable) -> bool {
    form == PromptTable::Mixture && table.text(row, "dataset").is_ok_and(|name| name == "MBXP")
}

/// Returns the reference of a row in the form that the method takes.
fn reference(table: &Table, row: usize, form: PromptTable) -> Result<serde_json::Value, OpenError> {
    Ok(match form {
        PromptTable::CnnDailymail | PromptTable::OpenOrca => {
            json!({"output": table.text(row, "output")?})
        }
        PromptTable::Mixture => {
            let name = table.one_of(row, "dataset", &["OpenOrca", "GSM8K", "MBXP"])?;
            let output = table.cell(row, "gt_output");
            let fits = match name {
                "OpenOrca" => matches!(output, Cell::Text(_)),
                "GSM8K" => matches!(output, Cell::Text(_) | Cell::Whole(_) | Cell::Number(_)),
                _ => true,
            };
            if !fits {
                let expected = "a text, or a number of GSM8K";
                return Err(table.error(Some(row), "gt_output", expected, output.describe()));
            }
            json!({"dataset": name, "gt_output": output})
        }
        PromptTable::LongContext => {
            let metric = table.one_of(row, "metric", &["rouge", "niah_em", "qa_em"])?;
            json!({"gt_output": table.text(row, "gt_output")?, "metric": metric})
        }
    })
}

/// Writes the number of prompts, the length of each (negative if the answer is a program), and all
/// tokens, each as `i32`.
fn write(
    prompts: &[Vec<i32>],
    programs: &[bool],
    to: &mut BufWriter<fs::File>,
) -> std::io::Result<()> {
    to.write_all(&(prompts.len() as i32).to_le_bytes())?;
    for (prompt, is_program) in prompts.iter().zip(programs) {
        let length = prompt.len() as i32;
        to.write_all(&(if *is_program { -length } else { length }).to_le_bytes())?;
    }
    for token in prompts.iter().flatten() {
        to.write_all(&token.to_le_bytes())?;
    }
    Ok(())
}

impl Prompts {
    fn open(path: &Path, files: &Files<'_>) -> Result<Self, OpenError> {
        let bytes = files::read(path).map_err(OpenError::io_at(path))?;
        let all: Vec<i32> =
            bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
        let card = files.card();
        let inputs = card.data.inputs.iter().map(|input| input.name.clone()).collect();
        Self::parse(&all, card.name.clone(), inputs).ok_or_else(|| OpenError::content(broken(path)))
    }

    fn parse(all: &[i32], name: String, inputs: Vec<String>) -> Option<Self> {
        let (count, rest) = all.split_first()?;
        let (lengths, tokens) = rest.split_at_checked(usize::try_from(*count).ok()?)?;
        let programs = lengths.iter().map(|length| *length < 0).collect();
        let mut end = 0;
        let places = lengths.iter().map(|length| {
            let start = end;
            end += length.unsigned_abs() as usize;
            start..end
        });
        let places: Vec<Range<usize>> = places.collect();
        (end == tokens.len()).then(|| Self {
            name,
            inputs,
            places,
            tokens: tokens.to_vec(),
            programs,
        })
    }
}

fn broken(path: &Path) -> String {
    let path: PathBuf = path.to_owned();
    format!("{}: expected a file written by Dyno; delete it", path.display())
}

impl Source for Prompts {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self) -> usize {
        self.places.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let Range { start, end } = *item(&self.places, index)?;
        let is_program = *item(&self.programs, index)?;
        let all = [&self.tokens[start..end], &[i32::from(is_program)]];
        let input = |tokens: &[i32]| SampleTensor {
            shape: vec![tokens.len()],
            elements: Elements::I64(tokens.iter().map(|token| i64::from(*token)).collect()),
        };
        Ok(all.into_iter().take(self.inputs.len()).map(input).collect())
    }
}
