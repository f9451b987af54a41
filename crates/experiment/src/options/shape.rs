//! Shapes of inputs: the grammar of `--shape`.

/// A given shape of an input of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeOption {
    /// Name of the input; `None` is the model's only input.
    pub input: Option<String>,
    /// All dimensions, the batch first (each at least 1).
    pub dimensions: Vec<usize>,
}

impl ShapeOption {
    /// Parses `1x128`, `input_ids=1x128`, or several separated by commas.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected".
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(|part| Self::parse(part.trim())).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let expected =
            || format!("expected INPUT=DIMENSIONS such as input_ids=1x128, found `{text}`");
        // Names of inputs may contain `=`, dimensions never do.
        let (input, dimensions) = match text.rsplit_once('=') {
            Some(("", _)) => return Err(expected()),
            Some((input, dimensions)) => (Some(input.trim().to_string()), dimensions),
            None => (None, text),
        };
        let one = |number: &str| number.trim().parse().ok().filter(|&n: &usize| n > 0);
        let dimensions: Option<Vec<usize>> =
            dimensions.to_ascii_lowercase().split('x').map(one).collect();
        Ok(Self { input, dimensions: dimensions.ok_or_else(expected)? })
    }

    /// Returns the text that parses to this shape.
    pub fn written(&self) -> String {
        match &self.input {
            Some(input) => format!("{input}={}", self.text()),
            None => self.text(),
        }
    }

    /// Returns the dimensions as text, such as `1x128`.
    pub fn text(&self) -> String {
        self.dimensions.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_name_an_input_or_are_of_the_only_one() {
        let read = |text: &str| -> Vec<(Option<String>, String)> {
            let all = ShapeOption::parse_all(text).unwrap();
            all.into_iter().map(|of| (of.input.clone(), of.text())).collect()
        };
        assert_eq!(read("1x128"), [(None, "1x128".into())]);
        let both = read("input_ids=1x128, mask=1X128");
        let names = ["input_ids", "mask"].map(|name| (Some(name.into()), "1x128".into()));
        assert_eq!(both, names);
        for text in ["", "ids=", "=1x2", "1x0", "ids=1xn", "1x", "1 2"] {
            let error = ShapeOption::parse_all(text).unwrap_err();
            assert!(error.starts_with("expected INPUT=DIMENSIONS"), "{text}: {error}");
        }
    }
}
