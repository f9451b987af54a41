//! Captions as samples of Stable Diffusion XL: the tokens of its two tokenizers, and the noise that
//! every image starts from.
//!
//! Source: `coco.py` of the reference's benchmark text_to_image. The samples are in the order of
//! the table.

use std::path::Path;

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{Elements, SampleTensor, Source};
use dyno_tensors::Element;
use dyno_tensors::files;
use dyno_tensors::npy::Npy;
use dyno_tensors::pickle::{self, Value};

use super::clip::ClipTokenizer;
use super::texts::{TextsError, column};
use super::{SampleSet, inputs, item, library};
use crate::features::FeatureNetworks;
use crate::files::{Files, OpenError};

/// The column of the table that holds captions.
const COLUMN: &str = "caption";

/// Reads the captions of `captions.tsv`.
///
/// # Errors
/// The file cannot be read or has no captions.
pub fn read(path: &Path) -> Result<Vec<String>, TextsError> {
    let expected = "a table with tabs between its columns, one of them `caption`";
    let captions = column(path, csv::ReaderBuilder::new().delimiter(b'\t'), COLUMN, expected)?;
    if captions.is_empty() {
        let path = path.to_owned();
        let found = "no caption".to_owned();
        return Err(TextsError { path, line: None, expected, found });
    }
    Ok(captions)
}

/// Captions with the noise that each image starts from.
#[derive(Debug)]
pub struct Captions {
    inputs: [String; 3],
    /// Tokens by the first and by the second tokenizer.
    tokens: Vec<[Vec<i64>; 2]>,
    shape: Vec<usize>,
    latents: &'static [f32],
}

/// Opens the files `captions` and `latents`, and the tokenizers in the folder `model`, the first of
/// which is CLIP's own.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let card = files.card();
    let model = files.path("model")?;
    let clips = ["tokenizer", "tokenizer_2"].map(|name| ClipTokenizer::open(&model.join(name)));
    let [first, second] = clips.map(|clip| clip.map_err(OpenError::content));
    let first = first?;
    let second = second?;
    let [one, other, latents] = &card.data.inputs[..] else {
        panic!("{} feeds tokens of two tokenizers, and latents", card.name);
    };
    let captions = read(&files.path("captions")?).map_err(OpenError::content)?;
    let tokens = captions.iter().map(|caption| {
        [first.tokens(caption, one.shape[0]), second.tokens(caption, other.shape[0])]
    });
    let tokens: Vec<[Vec<i64>; 2]> = tokens.collect();
    let of_clip = || tokens.iter().map(|[first, _]| first.clone()).collect();
    let networks = FeatureNetworks::from_files(files, of_clip)?;
    let noise = noise(&files.path("latents")?, &latents.shape).map_err(OpenError::content)?;
    let source = Captions {
        inputs: inputs(card),
        tokens,
        shape: latents.shape.clone(),
        // All samples share the noise, as in the reference; 5,000 copies would take 1.3 GB.
        latents: noise.leak(),
    };
    Ok(SampleSet { networks, ..SampleSet::new(library(card, source)?) })
}

/// Reads the noise of one image from `latents.npy` or `latents.pt`.
///
/// # Errors
/// The file cannot be read, or has another shape or type.
fn noise(path: &Path, shape: &[usize]) -> Result<Vec<f32>, TextsError> {
    let refused = |found: String| TextsError {
        path: path.to_owned(),
        line: None,
        expected: "latents.npy or latents.pt: the noise of one image",
        found,
    };
    let bytes = files::read(path).map_err(|error| refused(error.to_string()))?;
    let (found, values) = if bytes.starts_with(b"\x93NUMPY") {
        let Npy { shape, elements } =
            Npy::parse(&bytes).map_err(|problem| refused(problem.to_string()))?;
        (shape, elements.to_f32().into_owned())
    } else {
        let value = pickle::weights(&bytes).map_err(|error| refused(error.to_string()))?;
        let Value::Array(array) = value else { return Err(refused("no tensor".to_owned())) };
        let of_two = |read: fn([u8; 2]) -> f32| {
            array.bytes.as_chunks().0.iter().map(|bytes| read(*bytes)).collect()
        };
        let values: Vec<f32> = match array.element {
            Element::F32 => {
                array.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
            Element::F16 => of_two(|bytes| half::f16::from_le_bytes(bytes).to_f32()),
            other => return Err(refused(format!("a tensor of {}", other.name()))),
        };
        (array.shape.clone(), values)
    };
    let of_one = found.strip_prefix(&[1]).unwrap_or(&found);
    if of_one != shape {
        return Err(refused(format!("{found:?} where an image has {shape:?}")));
    }
    Ok(values)
}

impl Source for Captions {
    fn name(&self) -> &str {
        "coco-captions"
    }

    fn count(&self) -> usize {
        self.tokens.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let [first, second] = item(&self.tokens, index)?;
        let tokens = |tokens: &Vec<i64>| SampleTensor {
            shape: vec![tokens.len()],
            elements: Elements::I64(tokens.clone().into()),
        };
        let latents = SampleTensor {
            shape: self.shape.clone(),
            elements: Elements::F32(self.latents.into()),
        };
        Ok(vec![tokens(first), tokens(second), latents])
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use dyno_tensors::npy;

    fn written(name: &str, bytes: &[u8]) -> PathBuf {
        let name = format!("dyno-captions-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn captions(name: &str, table: &str) -> Result<Vec<String>, String> {
        let path = written(name, table.as_bytes());
        let found = read(&path).map_err(|error| error.to_string());
        std::fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn captions_are_a_column_in_the_order_of_the_table() {
        let table = "id\timage_id\tcaption\theight\n70\t2\tA city at night.\t640\n\
                     9\t1\t\"\"\"Stop\"\" it says\"\t480\n";
        assert_eq!(captions("two", table).unwrap(), ["A city at night.", "\"Stop\" it says"]);
        let other = captions("other", "id,caption\n1,x\n").unwrap_err();
        assert!(other.contains(":1: expected a table with tabs"), "{other}");
        let none = captions("none", "id\tcaption\n").unwrap_err();
        assert!(none.ends_with("found no caption"), "{none}");
        let ragged = captions("ragged", "id\tcaption\n1\tx\n2\n").unwrap_err();
        assert!(ragged.contains(":3: "), "{ragged}");
    }

    /// `torch.save(torch.tensor([[[1.5], [-2.0]]]), file)` of PyTorch before 1.6, its pickle
    /// of the tensor: of 2 numbers, 1 by 2 by 1.
    const TENSOR: &[u8] = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage\
        ctorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02NtQK\0K\x01K\x02K\x01\x87K\x02K\x01K\x01\x87\
        \x89ccollections\nOrderedDict\n)RtR.";

    #[test]
    fn noise_is_an_array_or_a_tensor_of_one_image() {
        let read = |name: &str, bytes: &[u8], shape: &[usize]| {
            let path = written(name, bytes);
            let found = noise(&path, shape).map_err(|error| error.to_string());
            std::fs::remove_file(&path).unwrap();
            found
        };
        let values = [1.5_f32, -2.0];
        let mut array = Vec::new();
        npy::write(&mut array, &[1, 2, 1], &values).unwrap();
        assert_eq!(read("a", &array, &[2, 1]).unwrap(), values);
        let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.";
        let keys = b"\x80\x02}.";
        let storage = b"\x80\x02]X\x01\0\0\x000a.";
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = [&magic[..], keys, TENSOR, storage, &2_u64.to_le_bytes(), &bytes].concat();
        assert_eq!(read("t", &tensor, &[2, 1]).unwrap(), values);
        let error = read("s", &array, &[4, 1]).unwrap_err();
        assert!(error.ends_with("found [1, 2, 1] where an image has [4, 1]"), "{error}");
        assert!(read("n", b"no pickle", &[2, 1]).is_err());
    }
}
