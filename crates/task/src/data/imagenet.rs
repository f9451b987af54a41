//! ImageNet's validation set: a folder of files and `val_map.txt`, a name and a class a
//! line, whose order is that of the samples.

use std::fmt;
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{SampleTensor, Source};

use crate::image::decode;
use crate::image::steps::{Layout, Step, prepare};

/// Missing files that an error names.
const NAMED: usize = 5;

/// The data set; a picture is in memory only while its sample is loaded.
#[derive(Debug)]
pub struct ImageNet {
    folder: PathBuf,
    names: Vec<String>,
    labels: Vec<i64>,
    inputs: Vec<String>,
    steps: Vec<Step>,
    layout: Layout,
}

/// Why a folder is not the data set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageNetError {
    /// The list cannot be read.
    List {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        why: String,
    },
    /// A line of the list is no name and class.
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// The list is empty.
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Files of the list are not in the folder.
    Missing {
        /// The folder.
        folder: PathBuf,
        /// How many.
        missing: usize,
        /// In the list.
        of: usize,
        /// The first few.
        names: Vec<String>,
    },
}

impl fmt::Display for ImageNetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIST: &str = "a name and a class a line";
        match self {
            Self::List { path, why } => write!(
                f,
                "cannot read {}: {why}; it is val_map.txt of the reference's data set, {LIST}",
                path.display()
            ),
            Self::Line { path, line, found } => {
                write!(f, "{}:{line}: expected {LIST}, found '{found}'", path.display())
            }
            Self::Empty { path } => write!(f, "{}: expected {LIST}, found none", path.display()),
            Self::Missing { folder, missing, of, names } => write!(
                f,
                "{}: {missing} of {of} files are missing, first {}; get ILSVRC2012_img_val.tar \
                 at image-net.org and unpack it there",
                folder.display(),
                names.join(", ")
            ),
        }
    }
}

impl std::error::Error for ImageNetError {}

impl ImageNet {
    /// Reads the list, by default `val_map.txt` in the folder, and looks for every file.
    ///
    /// # Errors
    /// [`ImageNetError`] if the list is malformed or files are missing.
    pub fn open(
        folder: &Path,
        list: Option<&Path>,
        input: String,
        steps: Vec<Step>,
        layout: Layout,
    ) -> Result<Self, ImageNetError> {
        let path = list.map_or_else(|| folder.join("val_map.txt"), Path::to_owned);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ImageNetError::List { path: path.clone(), why: error.to_string() })?;
        let (mut names, mut labels) = (Vec::new(), Vec::new());
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let entry = match words[..] {
                [] => continue,
                [name, class] => class.parse().ok().map(|class: i64| (name, class)),
                _ => None,
            };
            let Some((name, class)) = entry else {
                let found = line.to_owned();
                return Err(ImageNetError::Line { path, line: number, found });
            };
            names.push(name.to_owned());
            labels.push(class);
        }
        if names.is_empty() {
            return Err(ImageNetError::Empty { path });
        }
        let gone: Vec<&String> = names.iter().filter(|name| !folder.join(name).is_file()).collect();
        if !gone.is_empty() {
            let first = gone.iter().take(NAMED).map(|name| (*name).clone()).collect();
            let (folder, missing, of) = (folder.to_owned(), gone.len(), names.len());
            return Err(ImageNetError::Missing { folder, missing, of, names: first });
        }
        Ok(Self { folder: folder.to_owned(), names, labels, inputs: vec![input], steps, layout })
    }

    /// The class of each sample.
    #[must_use]
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }
}

impl Source for ImageNet {
    fn name(&self) -> &str {
        "imagenet"
    }

    fn count(&self) -> usize {
        self.names.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let name = usize::try_from(index).ok().and_then(|index| self.names.get(index));
        let name = name.ok_or_else(|| {
            format!("expected a sample below {}, found {index}", self.names.len())
        })?;
        let path = self.folder.join(name);
        let picture = decode::open(&path).map_err(|error| error.to_string())?;
        let sample = prepare(picture, &self.steps, self.layout)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(vec![sample])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_in_the_order_of_the_list_and_missing_files_are_named() {
        let folder = std::env::temp_dir().join(format!("dyno-imagenet-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("val_map.txt"), "b.png 65\na.png 970\n").unwrap();
        let open = || ImageNet::open(&folder, None, "x".to_owned(), vec![], Layout::Nhwc);
        let error = open().unwrap_err().to_string();
        assert!(error.contains("2 of 2 files are missing, first b.png, a.png"), "{error}");
        for (name, grey) in [("a.png", 1), ("b.png", 2)] {
            let file = std::fs::File::create(folder.join(name)).unwrap();
            let mut encoder = png::Encoder::new(file, 1, 1);
            encoder.set_color(png::ColorType::Grayscale);
            encoder.write_header().unwrap().write_image_data(&[grey]).unwrap();
        }
        let set = open().unwrap();
        assert_eq!((set.labels(), set.count()), (&[65, 970][..], 2));
        let sample = set.sample(0).unwrap().remove(0);
        assert_eq!(sample.elements, dyno_sut::tensors::Elements::U8(vec![2; 3].into()));
        assert!(set.sample(2).unwrap_err().contains("below 2"));
        std::fs::write(folder.join("val_map.txt"), "a.png 65\nb.png\n").unwrap();
        let error = open().unwrap_err().to_string();
        assert!(
            error.ends_with("val_map.txt:2: expected a name and a class a line, found 'b.png'")
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
