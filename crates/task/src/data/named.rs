//! Pictures of a folder whose names end in their class, such as `cat_285.jpg`.

use std::fs;
use std::io;
use std::path::Path;

use super::FileError;
use super::pictures::{Pictures, Preparation};

/// Endings of pictures, in lower case.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// The pictures of a folder with their labels.
#[derive(Debug)]
pub struct NamedPictures {
    /// The samples, in the order of their names.
    pub pictures: Pictures,
    /// The class of each.
    pub labels: Vec<i64>,
}

impl NamedPictures {
    /// Lists the pictures of a folder; other files are ignored.
    ///
    /// # Errors
    /// There are no pictures, or one has no class in its name.
    pub fn open(folder: &Path, preparation: Preparation) -> Result<Self, FileError> {
        let unreadable = |error: io::Error| FileError::from_problem(folder, error);
        let unnamed = |path: &Path| {
            let expected = "a name that ends in _ and the class, such as cat_285.jpg";
            FileError::from_problem(path, format!("expected {expected}"))
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let ending = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
            if !ending.is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
                continue;
            }
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(unnamed(&path));
            };
            names.push(name.to_owned());
        }
        if names.is_empty() {
            let expected = format!("pictures ({})", ENDINGS.join(", "));
            return Err(FileError::new(folder, expected, "none"));
        }
        names.sort_unstable();
        let label = |name: &String| class(name).ok_or_else(|| unnamed(&folder.join(name)));
        let labels = names.iter().map(label).collect::<Result<_, _>>()?;
        let get = "the folder again";
        let pictures = Pictures::new("pictures", folder, names, get, preparation);
        Ok(Self { pictures: pictures.map_err(FileError::from_text)?, labels })
    }
}

fn class(name: &str) -> Option<i64> {
    let (stem, _) = name.rsplit_once('.')?;
    let (_, class) = stem.rsplit_once('_')?;
    class.bytes().all(|byte| byte.is_ascii_digit()).then(|| class.parse().ok())?
}

#[cfg(test)]
mod tests {
    use dyno_sut::tensors::Source;

    use super::*;
    use crate::data::pictures::write_gray;
    use crate::image::steps::Layout;

    #[test]
    fn classes_stand_in_the_names_and_samples_in_their_order() {
        let folder = std::env::temp_dir().join(format!("dyno-named-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let preparation = Preparation { input: "x".into(), steps: vec![], layout: Layout::Nhwc };
        let open = || NamedPictures::open(&folder, preparation.clone());
        fs::write(folder.join("readme_1.txt"), "").unwrap();
        assert!(open().unwrap_err().to_string().ends_with("(jpg, jpeg, png), found none"));
        for (name, grey) in [("b_cat_285.png", 2), ("a_7.PNG", 1)] {
            write_gray(&folder.join(name), grey);
        }
        let named = open().unwrap();
        assert_eq!((&named.labels[..], named.pictures.count()), (&[7, 285][..], 2));
        assert_eq!(named.pictures.sample(1).unwrap()[0].elements.to_f64(), [2.0; 3]);
        for other in ["cat.png", "cat_.png", "cat_-1.png"] {
            write_gray(&folder.join(other), 0);
            let error = open().unwrap_err().to_string();
            assert!(error.contains(other) && error.contains("such as cat_285.jpg"), "{error}");
            fs::remove_file(folder.join(other)).unwrap();
        }
        fs::remove_dir_all(&folder).unwrap();
        let error = open().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", folder.display())), "{error}");
        assert!(!error.contains("expected"), "{error}");
    }
}
