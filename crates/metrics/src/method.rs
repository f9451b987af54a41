//! Scoring methods and their inputs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::payload::Element;
use super::{DataError, DataProblem, Scorer};
use super::{
    classification, detection, embedding, generation, graph, hierarchy, questions, recommendation,
    segmentation, speech, squad, summarization, translation,
};

/// All methods, in the order of the list that commands print.
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

/// A scoring method: computes what the accuracy script of a benchmark computes. Each method is
/// defined next to its scorer.
pub struct Method {
    /// Name of the method in commands.
    pub name: &'static str,
    /// Description in one line.
    pub title: &'static str,
    /// Content of the answer to a sample.
    pub answer: &'static str,
    /// Default type of an answer's elements; `None` if answers are bytes.
    pub element: Option<Element>,
    /// Files that the method reads.
    pub needs: &'static [Need],
    /// Options of the method.
    pub choices: &'static [Choice],
    /// Reads the references and creates the scorer.
    pub open: fn(&Inputs) -> Result<Box<dyn Scorer>, DataError>,
}

/// A file that a method reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Name, as in `--with NAME=FILE`.
    pub name: &'static str,
    /// Description of the file.
    pub help: &'static str,
    /// The method fails without the file.
    pub is_required: bool,
}

/// An option of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Name, as in `--choose NAME=VALUE`.
    pub name: &'static str,
    /// Possible values; the first is the default.
    pub values: &'static [&'static str],
    /// Description of the option.
    pub help: &'static str,
}

/// Inputs of a method.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inputs {
    /// Files by the name of their [`Need`].
    pub files: BTreeMap<String, PathBuf>,
    /// Type of an answer's elements; `None` means [`Method::element`].
    pub element: Option<Element>,
    /// Values of options by the name of their [`Choice`]. Each is one of [`Choice::values`].
    pub choices: BTreeMap<String, String>,
}

impl Inputs {
    /// Returns the value of an option, or its default.
    pub fn choice(&self, choice: &Choice) -> &str {
        self.choices.get(choice.name).map_or(choice.values[0], String::as_str)
    }

    /// Returns the path of a file.
    ///
    /// # Errors
    /// [`DataProblem::NotGiven`] if the inputs lack the file.
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
    /// Returns the method with this name.
    ///
    /// ```
    /// use dyno_metrics::payload::Element;
    /// use dyno_metrics::{Inputs, Method};
    ///
    /// let method = Method::named("normalized-entropy").unwrap();
    /// assert!(method.needs.is_empty());
    /// let mut scorer = (method.open)(&Inputs::default()).unwrap();
    /// // Time and query; a prediction, a label and a weight; the number of candidates.
    /// let answer = [0.0_f32, 0.0, 0.9, 1.0, 1.0, 1.0].map(f32::to_le_bytes).concat();
    /// scorer.take(0, &answer).unwrap();
    /// assert_eq!(scorer.scores().figure("DLRM_ACC"), Some(1.0));
    ///
    /// // Other methods read references.
    /// let error = (Method::named("top1").unwrap().open)(&Inputs::default()).err().unwrap();
    /// assert!(error.to_string().starts_with("--with labels=FILE is not given"));
    /// ```
    pub fn named(name: &str) -> Option<&'static Self> {
        METHODS.iter().copied().find(|method| method.name == name)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Method").field("name", &self.name).finish_non_exhaustive()
    }
}
