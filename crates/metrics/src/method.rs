//! Which ways to score there are, and what each needs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::payload::Element;
use super::{DataError, DataProblem, Scorer};
use super::{
    classification, detection, embedding, generation, graph, hierarchy, questions, recommendation,
    segmentation, speech, squad, summarization, translation,
};

/// All methods, in the order in which they are listed.
pub const METHODS: &[&Method] = &[
    &classification::TOP1,
    &detection::COCO_MAP,
    &recommendation::ROC_AUC,
    &recommendation::entropy::NORMALIZED_ENTROPY,
    &summarization::ROUGE,
    &questions::mixtral::ROUGE_GSM8K,
    &questions::retrieval::ROUGE_EXACT_MATCH,
    &hierarchy::HIERARCHICAL_F1,
    &translation::BLEU,
    &squad::SQUAD,
    &speech::WORD_ERRORS,
    &speech::whisper::NORMALIZED_WORD_ERRORS,
    &speech::phonemes::PHONEME_ERRORS,
    &graph::NODE_ACCURACY,
    &segmentation::MEAN_DICE,
    &segmentation::brats::BRATS_DICE,
    &segmentation::labels::DICE,
    &generation::FID_CLIP,
    &embedding::EMBEDDING_AGREEMENT,
];

/// A way to score answers: what the accuracy script of a benchmark does. Each
/// stands beside its scorer.
pub struct Method {
    /// As commands name it.
    pub name: &'static str,
    /// What it says, in a line.
    pub title: &'static str,
    /// What the answer to a sample is.
    pub answer: &'static str,
    /// What answers are arrays of unless it is said; none where they are bytes.
    pub element: Option<Element>,
    /// Files that it needs.
    pub needs: &'static [Need],
    /// What may be chosen.
    pub choices: &'static [Choice],
    /// A scorer with its references.
    pub open: fn(&Inputs) -> Result<Box<dyn Scorer>, DataError>,
}

/// A file that a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// As in `--with NAME=FILE`.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Whether there is no score without it.
    pub is_required: bool,
}

/// Something that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// As in `--choose NAME=VALUE`.
    pub name: &'static str,
    /// What there is; the first if nothing is chosen.
    pub values: &'static [&'static str],
    /// What it is about.
    pub help: &'static str,
}

/// What a method is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inputs {
    /// Files, by the name of the need.
    pub files: BTreeMap<String, PathBuf>,
    /// What answers are arrays of; [`Method::element`] if not said.
    pub element: Option<Element>,
    /// What was chosen, by the name of the choice; each a value that it has.
    pub choices: BTreeMap<String, String>,
}

impl Inputs {
    /// What was chosen, or the first.
    #[must_use]
    pub fn choice(&self, choice: &Choice) -> &str {
        self.choices.get(choice.name).map_or(choice.values[0], String::as_str)
    }

    /// The file for a need.
    ///
    /// # Errors
    /// It was not given.
    pub fn file(&self, need: &Need) -> Result<&Path, DataError> {
        let not_given = || DataError {
            path: PathBuf::new(),
            line: None,
            problem: DataProblem::NotGiven { name: need.name, help: need.help },
        };
        self.files.get(need.name).map(PathBuf::as_path).ok_or_else(not_given)
    }
}

impl Method {
    /// The method of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        METHODS.iter().copied().find(|method| method.name == name)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Method").field("name", &self.name).finish_non_exhaustive()
    }
}
