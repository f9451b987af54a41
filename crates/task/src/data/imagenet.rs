//! ImageNet's validation set: a folder of files and `val_map.txt`, which has a name and a class per
//! line in the order of the samples.

use std::collections::HashSet;
use std::path::Path;

use dyno_tensors::files;

use super::FileError;
use super::pictures::{Pictures, Preparation};

/// Number of classes of ImageNet 2012.
const CLASSES: i64 = 1000;

/// The pictures with their labels.
#[derive(Debug)]
pub struct ImageNet {
    /// The samples.
    pub pictures: Pictures,
    /// The class of each.
    pub labels: Vec<i64>,
}

/// Content of the list, in messages.
const LIST: &str = "one name and one class from 0 to 999 per line";

impl ImageNet {
    /// Reads the list, by default `val_map.txt` in the folder, and checks that every file exists.
    ///
    /// # Errors
    /// [`FileError`] if the list is malformed or files are missing.
    pub fn open(
        folder: &Path,
        list: Option<&Path>,
        preparation: Preparation,
    ) -> Result<Self, FileError> {
        let path = list.map_or_else(|| folder.join("val_map.txt"), Path::to_owned);
        let text = files::read_to_string(&path).map_err(|error| {
            FileError::from_text(format!(
                "cannot read {}: {error}; it is val_map.txt of the reference's data set, {LIST}",
                path.display()
            ))
        })?;
        let malformed = |line: usize, found: &str| {
            FileError::from_line(&path, line, format!("expected {LIST}, found '{found}'"))
        };
        let mut names = Vec::new();
        let mut labels = Vec::new();
        let mut seen = HashSet::new();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let entry = match words[..] {
                [] => continue,
                [name, class] => {
                    let class = class.parse().ok().filter(|class| (0..CLASSES).contains(class));
                    class.map(|class: i64| (name, class))
                }
                _ => None,
            };
            let Some((name, class)) = entry else {
                return Err(malformed(number, line));
            };
            if !seen.insert(name) {
                return Err(malformed(number, &format!("{name} for the second time")));
            }
            names.push(name.to_owned());
            labels.push(class);
        }
        if names.is_empty() {
            return Err(FileError::new(&path, LIST, "none"));
        }
        let get = "ILSVRC2012_img_val.tar at image-net.org and unpack it there";
        let pictures = Pictures::new("imagenet", folder, names, get, preparation)
            .map_err(FileError::from_text)?;
        Ok(Self { pictures, labels })
    }
}

#[cfg(test)]
mod tests {
    use dyno_sut::tensors::{Elements, Source};

    use super::*;
    use crate::data::pictures::write_gray;
    use crate::image::steps::Layout;

    #[test]
    fn samples_are_in_the_order_of_the_list_and_missing_files_are_named() {
        let folder = std::env::temp_dir().join(format!("dyno-imagenet-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("val_map.txt"), "b.png 65\na.png 970\n").unwrap();
        let preparation =
            Preparation { input: "x".to_owned(), steps: vec![], layout: Layout::Nhwc };
        let open = || ImageNet::open(&folder, None, preparation.clone());
        let error = open().unwrap_err().to_string();
        assert!(error.contains("2 of 2 files are missing, first b.png, a.png"), "{error}");
        for (name, grey) in [("a.png", 1), ("b.png", 2)] {
            write_gray(&folder.join(name), grey);
        }
        let set = open().unwrap();
        assert_eq!((&set.labels[..], set.pictures.count()), (&[65, 970][..], 2));
        let sample = set.pictures.sample(0).unwrap().remove(0);
        assert_eq!(sample.elements, Elements::U8(vec![2; 3].into()));
        assert!(set.pictures.sample(2).unwrap_err().contains("below 2"));
        std::fs::write(folder.join("val_map.txt"), "a.png 65\nb.png\n").unwrap();
        let error = open().unwrap_err().to_string();
        assert!(
            error.ends_with(
                "val_map.txt:2: expected one name and one class from 0 to 999 per line, found \
                 'b.png'"
            ),
            "{error}"
        );
        std::fs::write(folder.join("val_map.txt"), "a.png 1\nb.png 2\na.png 3\n").unwrap();
        let error = open().unwrap_err().to_string();
        assert!(
            error.contains("val_map.txt:3: ") && error.ends_with("'a.png for the second time'"),
            "{error}"
        );
        std::fs::write(folder.join("val_map.txt"), "a.png 1000\nb.png 0\n").unwrap();
        let error = open().unwrap_err().to_string();
        assert!(
            error.ends_with(
                "val_map.txt:1: expected one name and one class from 0 to 999 per \
             line, found 'a.png 1000'"
            ),
            "{error}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
