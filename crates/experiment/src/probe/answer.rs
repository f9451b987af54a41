//! Answers of a probe, as far as they can be decoded.

use dyno_net::trouble::in_short;
use dyno_sut::engine::Port;
use dyno_sut::tensors::Elements;
use dyno_sut::top1;
use serde::Serialize;

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// its size
    pub bytes: usize,
    /// the class, if there are labels; null if it is not a class
    #[cfg_attr(
        feature = "schema",
        schemars(description = "predicted class, if the data set has labels; null if the answer \
             is not a class")
    )]
    pub class: Option<i64>,
    /// label of the sample in the data set
    #[cfg_attr(feature = "schema", schemars(description = "label in the data set"))]
    pub label: Option<i64>,
    /// null without a label
    pub is_correct: Option<bool>,
    /// position of the greatest value
    pub greatest: Option<usize>,
    /// the first few values of the model's first output; empty where they cannot be read
    pub first: Vec<f64>,
    /// number of values
    pub values: usize,
    /// null if it is not the text of a server
    #[cfg_attr(
        feature = "schema",
        schemars(
            description = "beginning of the text of a server's answer; null if it is no text"
        )
    )]
    pub text: Option<String>,
}

/// Maximum number of shown values.
const SHOWN: usize = 10;

impl Answer {
    /// Decodes an answer: a class if there are labels, else the elements of the model's first
    /// output.
    pub fn read(data: &[u8], label: Option<i64>, output: Option<&Port>) -> Self {
        let class = label.and_then(|_| top1::decode(data));
        let element = output.filter(|_| label.is_none()).map(|output| output.element.as_str());
        let values = values(data, element.unwrap_or_default());
        let greatest = (0..values.len()).max_by(|&a, &b| {
            // The first of equal values is the greatest; NaN never is.
            values[a].partial_cmp(&values[b]).unwrap_or(std::cmp::Ordering::Less).then(b.cmp(&a))
        });
        Self {
            bytes: data.len(),
            class,
            label,
            is_correct: label.map(|label| class == Some(label)),
            greatest,
            values: values.len(),
            first: values.into_iter().take(SHOWN).collect(),
            text: None,
        }
    }

    /// Adds the text of a server's answer, if `data` is one and has no values. `hide` removes secrets.
    #[must_use]
    pub fn with_text(self, data: &[u8], hide: impl FnOnce(&str) -> String) -> Self {
        let text = str::from_utf8(data).ok().filter(|text| {
            let is_binary = text.chars().any(|c| c.is_control() && !c.is_whitespace());
            self.values == 0 && self.class.is_none() && !text.trim().is_empty() && !is_binary
        });
        let line = |text: &str| hide(text).split_whitespace().collect::<Vec<_>>().join(" ");
        Self { text: text.map(|text| in_short(&line(text))), ..self }
    }
}

fn values(data: &[u8], element: &str) -> Vec<f64> {
    let element = Elements::type_from_name(element);
    let elements = element.and_then(|element| Elements::read(element, data));
    elements.map_or_else(Vec::new, |elements| elements.to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(element: &str) -> Port {
        Port { name: "y".into(), element: element.into(), shape: vec![None, Some(3)] }
    }

    #[test]
    fn answers_are_read_as_classes_or_as_elements() {
        let right = Answer::read(&top1::encode(7), Some(7), Some(&output("float32")));
        assert_eq!((right.class, right.is_correct), (Some(7), Some(true)));
        let short = Answer::read(&[1, 2], Some(7), None);
        assert_eq!((short.class, short.is_correct), (None, Some(false)));
        let bytes: Vec<u8> = [1.5_f32, 9.0, 9.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let scores = Answer::read(&bytes, None, Some(&output("float32")));
        assert_eq!((scores.first, scores.greatest), (vec![1.5, 9.0, 9.0], Some(1)));
        let opaque = Answer::read(&bytes, None, None);
        assert_eq!((opaque.bytes, opaque.values), (12, 0));
        let shown = |answer: Answer, data: &[u8]| {
            answer.with_text(data, |text| text.replace("sesame", "***")).text
        };
        let json = b"{\n  \"key\": \"sesame\"\n}";
        let text = Answer::read(json, None, None);
        assert_eq!(shown(text, json), Some("{ \"key\": \"***\" }".into()));
        assert_eq!(shown(opaque, &bytes), None);
        let numbers = Answer::read(&bytes, None, Some(&output("float32")));
        assert_eq!(shown(numbers, b"text"), None);
    }
}
