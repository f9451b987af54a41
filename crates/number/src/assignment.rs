//! Assigns formats to the objects of a network.

use std::fmt;
use std::sync::Arc;

use crate::config::Dictionary;
use crate::format::Format;

/// A format for each slot of a network, and so for each of its objects.
///
/// ```
/// use dyno_number::{Assignment, Format};
/// let objects = vec![vec!["conv1.weight".to_owned()], vec!["conv1.input".to_owned()]];
/// let assignment = Assignment::new(objects, vec![Format::fixed(3, -2)?, Format::F16]);
/// assert_eq!(assignment.format("conv1.input"), Format::F16);
/// assert_eq!(assignment.to_string(), "I3(-2) / F16");
/// # Ok::<(), dyno_number::FormatError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Assignment {
    objects: Arc<[Vec<String>]>,
    formats: Vec<Format>,
}

impl Assignment {
    /// Creates an assignment from the names and the format of each slot.
    ///
    /// # Panics
    /// If `objects` and `formats` have different lengths.
    pub fn new(objects: Vec<Vec<String>>, formats: Vec<Format>) -> Self {
        assert_eq!(objects.len(), formats.len(), "one format a slot");
        Self { objects: objects.into(), formats }
    }

    /// Returns an assignment of other formats to the same objects.
    ///
    /// # Panics
    /// If the number of formats differs from the number of slots.
    #[must_use]
    pub fn with_formats(&self, formats: Vec<Format>) -> Self {
        assert_eq!(self.formats.len(), formats.len(), "one format a slot");
        Self { objects: Arc::clone(&self.objects), formats }
    }

    /// Returns the formats, slot by slot.
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// Returns the format of an object; FLOAT(32) if it is not assigned.
    pub fn format(&self, object: &str) -> Format {
        self.iter().find(|(name, _)| *name == object).map_or(Format::F32, |(_, format)| format)
    }

    /// Iterates over objects and their formats, slot by slot.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Format)> {
        let slots = self.objects.iter().zip(&self.formats);
        slots.flat_map(|(names, format)| names.iter().map(|name| (name.as_str(), *format)))
    }

    /// Returns the formats as a Number configuration file.
    pub fn dictionary(&self) -> Dictionary {
        let mut dictionary = Dictionary::new();
        for (name, format) in self.iter() {
            dictionary.set(name, format).expect("names of descriptors are words");
        }
        dictionary
    }
}

/// Writes formats as the thesis prints them: weights, then activations.
impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |formats: &[Format]| {
            let texts: Vec<String> = formats.iter().map(ToString::to_string).collect();
            texts.join("-")
        };
        // Slots are the weights of all layers, followed by their activations.
        let (weights, activations) = self.formats.split_at(self.formats.len() / 2);
        write!(f, "{} / {}", side(weights), side(activations))
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_layer_share_their_format() {
        let objects =
            vec![vec!["a.weight".to_owned(), "b.weight".to_owned()], vec!["a.input".into()]];
        let i3 = Format::fixed(3, -2).unwrap();
        let assignment = Assignment::new(objects, vec![i3, Format::F16]);
        assert_eq!(assignment.format("b.weight"), i3);
        assert_eq!(assignment.format("c.weight"), Format::F32, "not tuned");
        assert_eq!(assignment.to_string(), "I3(-2) / F16");
        let file = "a.weight FIXED 3 -2\nb.weight FIXED 3 -2\na.input FLOAT 16 15\n";
        assert_eq!(assignment.dictionary().to_string(), file);
        let other = assignment.with_formats(vec![Format::F32; 2]);
        assert_eq!(other.format("a.weight"), Format::F32);
    }
}
