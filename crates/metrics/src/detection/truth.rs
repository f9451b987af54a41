//! Images and their objects, in COCO's annotation format.

use std::collections::HashMap;
use std::path::Path;

use dyno_tensors::files;
use serde::Deserialize;

use super::super::DataError;
use super::Bounds;

/// An object of an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Object {
    /// Id of the annotation.
    pub id: i64,
    /// Position and size of its box.
    pub bounds: Bounds,
    /// Area of the outline, not of the box, in square pixels.
    pub area: f64,
    /// The annotation stands for several objects.
    pub is_crowd: bool,
}

/// Images in the order of the samples, with their objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    images: Vec<Image>,
    /// Ids of the categories, in the order of the file.
    listed: Vec<i64>,
    /// Ids of the categories, sorted. A category's position is its number.
    categories: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Image {
    width: f64,
    height: f64,
    /// Position among all images, sorted by id.
    rank: u32,
    /// Objects by the number of their category, sorted.
    objects: Vec<(usize, Vec<Object>)>,
}

#[derive(Deserialize)]
struct File {
    images: Vec<ImageEntry>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct ImageEntry {
    id: i64,
    width: f64,
    height: f64,
}

#[derive(Deserialize)]
struct Annotation {
    id: i64,
    image_id: i64,
    category_id: i64,
    bbox: Bounds,
    area: f64,
    #[serde(default)]
    iscrowd: u8,
}

#[derive(Deserialize)]
struct Category {
    id: i64,
}

impl Truth {
    /// Reads a file of annotations.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read or is not in COCO's format.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        Self::parse(path, &files::read(path).map_err(|error| DataError::unreadable(path, &error))?)
    }

    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, DataError> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| {
            let expected = "images, annotations and categories of COCO";
            DataError::malformed(path, error.line(), expected, error.to_string())
        })?;
        let listed: Vec<i64> = file.categories.iter().map(|category| category.id).collect();
        let mut categories = listed.clone();
        categories.sort_unstable();
        categories.dedup();
        let mut ids: Vec<i64> = file.images.iter().map(|image| image.id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() != file.images.len() {
            let expected = "an id of its own for each image";
            return Err(DataError::malformed(path, None, expected, "an id twice"));
        }
        let image = |entry: &ImageEntry| Image {
            width: entry.width,
            height: entry.height,
            rank: ids.partition_point(|id| *id < entry.id) as u32,
            objects: Vec::new(),
        };
        let mut images: Vec<Image> = file.images.iter().map(image).collect();
        let places: HashMap<i64, usize> =
            file.images.iter().enumerate().map(|(at, image)| (image.id, at)).collect();
        for annotation in file.annotations {
            // Annotations of unknown images or categories are ignored.
            let place = places.get(&annotation.image_id);
            let category = categories.binary_search(&annotation.category_id);
            if let (Some(&place), Ok(category)) = (place, category) {
                images[place].add(category, &annotation);
            }
        }
        Ok(Self { images, listed, categories })
    }

    /// Removes images without objects. The remaining images are numbered anew.
    pub fn keep_annotated(&mut self) {
        self.images.retain(|image| !image.objects.is_empty());
    }

    /// Returns the number of images.
    pub(super) fn images(&self) -> usize {
        self.images.len()
    }

    /// Returns the number of categories.
    pub(super) fn categories(&self) -> usize {
        self.categories.len()
    }

    /// Returns the width and height of an image, in pixels.
    pub(super) fn size(&self, image: usize) -> (f64, f64) {
        (self.images[image].width, self.images[image].height)
    }

    /// Returns the position of an image among all images, sorted by id.
    pub(super) fn rank(&self, image: usize) -> u32 {
        self.images[image].rank
    }

    /// Returns the number of the category of a class; `None` if there is no such category.
    pub(super) fn category(&self, class: i64, by_position: bool) -> Option<usize> {
        let id = if by_position {
            *self.listed.get(usize::try_from(class.checked_sub(1)?).ok()?)?
        } else {
            class
        };
        self.categories.binary_search(&id).ok()
    }

    /// Returns the objects of an image by the number of their category, sorted.
    pub(super) fn objects(&self, image: usize) -> impl Iterator<Item = (usize, &[Object])> {
        self.images[image].objects.iter().map(|(category, objects)| (*category, objects.as_slice()))
    }
}

impl Image {
    fn add(&mut self, category: usize, annotation: &Annotation) {
        let Annotation { id, bbox: bounds, area, iscrowd, .. } = *annotation;
        let object = Object { id, bounds, area, is_crowd: iscrowd != 0 };
        match self.objects.binary_search_by_key(&category, |(number, _)| *number) {
            Ok(at) => self.objects[at].1.push(object),
            Err(at) => self.objects.insert(at, (category, vec![object])),
        }
    }
}
