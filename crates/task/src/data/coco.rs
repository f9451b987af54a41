//! Pictures that an annotation file in COCO's format lists: COCO's own and those of OpenImages that
//! MLPerf chose.
//!
//! Source of the places of files and the order of samples: `coco.py` and `openimages.py` of the
//! reference's vision benchmarks. The order is that of the list of images, with or without those
//! that have no annotation. The reference skips missing files and renumbers the others; here
//! missing files are an error.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dyno_tensors::files;
use serde::Deserialize;

use super::FileError;
use super::pictures::{Pictures, Preparation};

/// A data set in COCO's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CocoFormat {
    /// Validation set of 2017: `annotations/instances_val2017.json`, files in `val2017`.
    Coco,
    /// Part of the validation set of version 6: `annotations/openimages-mlperf.json`; the names of
    /// files include their folder.
    OpenImages,
}

/// Which images are samples, as in the method `coco-map`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFilter {
    /// All images of the list.
    #[default]
    All,
    /// Images with an annotation.
    Annotated,
}

/// Content of the annotations, in messages.
const FORMAT: &str = "images and annotations as COCO has them";

#[derive(Deserialize)]
struct AnnotationFile {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
}

#[derive(Deserialize)]
struct Image {
    id: i64,
    file_name: String,
}

#[derive(Deserialize)]
struct Annotation {
    image_id: i64,
}

impl CocoFormat {
    /// Reads the annotations, by default those in the folder `annotations`, and checks that the
    /// file of every image exists.
    ///
    /// # Errors
    /// [`FileError`] if annotations are malformed or files are missing.
    pub fn open(
        self,
        folder: &Path,
        annotations: Option<&Path>,
        images: ImageFilter,
        preparation: Preparation,
    ) -> Result<Pictures, FileError> {
        let (name, list, within, get) = match self {
            Self::Coco => (
                "coco",
                "annotations/instances_val2017.json",
                "val2017",
                "val2017.zip at cocodataset.org and unpack it in the folder above",
            ),
            Self::OpenImages => (
                "openimages",
                "annotations/openimages-mlperf.json",
                "",
                "them with the script of the reference, openimages_mlperf.sh",
            ),
        };
        let path = annotations.map_or_else(|| folder.join(list), Path::to_owned);
        let files = files(&path, images)?;
        let (folder, files) = locate(folder, within, files);
        Pictures::new(name, &folder, files, get, preparation).map_err(FileError::from_text)
    }
}

/// Returns the folder of the files and their names in it. Users name `val2017` or the folder above
/// it, and lists of OpenImages may have a folder before the names of files.
fn locate(folder: &Path, within: &str, files: Vec<String>) -> (PathBuf, Vec<String>) {
    let inner = folder.join(within);
    let is_above = !within.is_empty() && inner.is_dir();
    let folder = if is_above { inner } else { folder.to_owned() };
    let own = |file: &String| file.rsplit('/').next().unwrap_or_default().to_owned();
    let is_bare = |file: &String| !folder.join(file).is_file() && folder.join(own(file)).is_file();
    let files =
        if files.first().is_some_and(is_bare) { files.iter().map(own).collect() } else { files };
    (folder, files)
}

/// Returns the names of files in the order of the samples.
fn files(path: &Path, images: ImageFilter) -> Result<Vec<String>, FileError> {
    let bytes = files::read(path).map_err(|error| {
        let path = path.display();
        FileError::from_text(format!("cannot read {path}: {error}; it has {FORMAT}"))
    })?;
    let file: AnnotationFile = serde_json::from_slice(&bytes).map_err(|error| {
        let problem = format!("expected {FORMAT}, found {error}");
        FileError::from_line(path, error.line(), problem)
    })?;
    let mut seen = HashSet::new();
    if let Some(twice) = file.images.iter().find(|image| !seen.insert(image.id)) {
        let found = format!("{} twice", twice.id);
        return Err(FileError::new(path, "an id for each image", found));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = file.images.iter().find(|image| !seen.insert(&image.file_name)) {
        let found = format!("{} twice", twice.file_name);
        return Err(FileError::new(path, "a file for each image", found));
    }
    let mut listed = file.images;
    if images == ImageFilter::Annotated {
        let annotated: HashSet<i64> =
            file.annotations.iter().map(|annotation| annotation.image_id).collect();
        listed.retain(|image| annotated.contains(&image.id));
    }
    if listed.is_empty() {
        return Err(FileError::new(path, FORMAT, "none"));
    }
    Ok(listed.into_iter().map(|image| image.file_name).collect())
}

#[cfg(test)]
mod tests {
    use dyno_sut::tensors::{Elements, Source};

    use super::*;
    use crate::data::pictures::write_gray;
    use crate::image::steps::Layout;

    const LIST: &str = r#"{
        "images": [{ "id": 9, "file_name": "b.png", "height": 1, "width": 1 },
            { "id": 3, "file_name": "a.png" }, { "id": 5, "file_name": "c.png" }],
        "annotations": [{ "image_id": 5, "bbox": [0, 0, 1, 1] }, { "image_id": 9 },
            { "image_id": 9 }, { "image_id": 77 }],
        "categories": [{ "id": 1 }]
    }"#;

    fn folder(name: &str, list: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("dyno-coco-{}-{name}", std::process::id()));
        for within in ["annotations", "val2017"] {
            std::fs::create_dir_all(folder.join(within)).unwrap();
        }
        std::fs::write(folder.join("annotations/instances_val2017.json"), list).unwrap();
        folder
    }

    fn open(set: CocoFormat, folder: &Path, images: ImageFilter) -> Result<Pictures, FileError> {
        let preparation =
            Preparation { input: "image".to_owned(), steps: vec![], layout: Layout::Nhwc };
        let list = folder.join("annotations/instances_val2017.json");
        set.open(folder, (set == CocoFormat::OpenImages).then_some(&*list), images, preparation)
    }

    fn grays(pictures: &Pictures) -> Vec<u8> {
        let grey = |index: usize| match pictures
            .sample(index.try_into().unwrap())
            .unwrap()
            .remove(0)
            .elements
        {
            Elements::U8(values) => values[0],
            other => panic!("{other:?}"),
        };
        (0..pictures.count()).map(grey).collect()
    }

    #[test]
    fn samples_are_in_the_order_of_the_images_with_or_without_annotation() {
        let folder = folder("order", LIST);
        for (name, grey) in [("a.png", 1), ("b.png", 2), ("c.png", 3)] {
            write_gray(&folder.join("val2017").join(name), grey);
            write_gray(&folder.join(name), grey + 10);
        }
        assert_eq!(grays(&open(CocoFormat::Coco, &folder, ImageFilter::All).unwrap()), [2, 1, 3]);
        assert_eq!(
            grays(&open(CocoFormat::Coco, &folder, ImageFilter::Annotated).unwrap()),
            [2, 3]
        );
        let found = open(CocoFormat::OpenImages, &folder, ImageFilter::All).unwrap();
        assert_eq!((found.name(), grays(&found)), ("openimages", vec![12, 11, 13]));
        // The folder of the pictures itself, whatever precedes their names.
        let list = folder.join("annotations/instances_val2017.json");
        std::fs::write(&list, LIST.replace("\"b.png\"", "\"validation/data/b.png\"")).unwrap();
        let preparation =
            Preparation { input: "image".to_owned(), steps: vec![], layout: Layout::Nhwc };
        for set in [CocoFormat::Coco, CocoFormat::OpenImages] {
            let inner = folder.join("val2017");
            let found =
                set.open(&inner, Some(&list), ImageFilter::All, preparation.clone()).unwrap();
            assert_eq!(grays(&found), [2, 1, 3]);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_missing_or_malformed_is_named() {
        let error =
            |folder: &Path| open(CocoFormat::Coco, folder, ImageFilter::Annotated).unwrap_err();
        let folder = folder("missing", LIST);
        write_gray(&folder.join("val2017/c.png"), 1);
        let found = error(&folder).to_string();
        assert!(found.contains("val2017: 1 of 2 files are missing, first b.png; get"), "{found}");
        let list = folder.join("annotations/instances_val2017.json");
        let cases = [
            ("{\n\"images\": 3}", "instances_val2017.json:2: expected images and annotations"),
            (r#"{"images": [], "annotations": []}"#, "as COCO has them, found none"),
            (&LIST.replace("\"id\": 5", "\"id\": 9"), "an id for each image, found 9 twice"),
            (&LIST.replace("a.png", "b.png"), "a file for each image, found b.png twice"),
        ];
        for (text, expected) in cases {
            std::fs::write(&list, text).unwrap();
            let found = error(&folder).to_string();
            assert!(found.contains(expected), "{found}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(error(&folder).to_string().starts_with("cannot read "));
    }
}
