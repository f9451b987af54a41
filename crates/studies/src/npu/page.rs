//! Page of the book with generated tables: the study replaces the text between marks and keeps the prose.

use std::path::{Path, PathBuf};

use dyno_experiment::Failure;
use dyno_results::write::replace;

use super::part::Part;

/// Returns the lines before and after the tables of a part.
pub fn marks(name: &str) -> (String, String) {
    (format!("<!-- dyno npu study {name} -->\n"), format!("<!-- end of {name} -->\n"))
}

/// A page that is being written.
pub struct Page {
    path: PathBuf,
    text: String,
    /// Parts to write, next one last.
    pending: Vec<&'static str>,
}

impl Page {
    /// Reads a page. `parts` are the parts that will be written, in this order.
    ///
    /// # Errors
    /// Fails before any simulation if the page cannot be read or a part has no place in it.
    pub fn read(path: &Path, parts: impl Iterator<Item = &'static str>) -> Result<Self, Failure> {
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
        let mut pending: Vec<_> = parts.collect();
        pending.reverse();
        let page = Self { path: path.to_owned(), text, pending };
        page.pending.iter().try_for_each(|name| page.place(name).map(drop))?;
        Ok(page)
    }

    /// Returns the range of a part's tables.
    fn place(&self, name: &str) -> Result<std::ops::Range<usize>, Failure> {
        let (begin, end) = marks(name);
        let from = self.text.find(&begin).map(|at| at + begin.len());
        let place = from.and_then(|from| Some(from..from + self.text[from..].find(&end)?));
        place.ok_or_else(|| {
            let (begin, end) = (begin.trim_end(), end.trim_end());
            Failure::usage(format!("{} has no place for `{name}`", self.path.display()))
                .hint(format!("put the lines `{begin}` and `{end}` where its tables shall stand"))
        })
    }

    /// Replaces the tables of the next part.
    ///
    /// # Errors
    /// Fails if the part has no place.
    pub fn put(&mut self, part: &Part) -> Result<(), Failure> {
        if let Some(name) = self.pending.pop() {
            let place = self.place(name)?;
            self.text.replace_range(place, &format!("\n{part}"));
        }
        Ok(())
    }

    /// Writes the page.
    ///
    /// # Errors
    /// Fails if the page cannot be written.
    pub fn write(self) -> Result<(), Failure> {
        replace(&self.path, &self.text).map_err(|error| Failure::unwritable(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npu::part::Table;

    #[test]
    fn tables_stand_between_marks_and_prose_stays() {
        let (begin, end) = marks("ii7");
        let text = format!("before\n\n{begin}old\n{end}\nafter\n");
        let mut page = Page { path: PathBuf::new(), text, pending: vec!["ii7"] };
        page.put(&Part { tables: vec![Table::new("T", ["a"])] }).unwrap();
        let expected = format!("before\n\n{begin}\n**T**\n\n| a |\n| --- |\n\n{end}\nafter\n");
        assert_eq!(page.text, expected);
        assert!(page.place("ii8").is_err());
    }
}
