//! Shapes of inputs, as `--shape` has them.

/// A shape that is given for an input of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeOf {
    /// Name of the input; `None` is the only one.
    pub input: Option<String>,
    /// All dimensions, the batch's first (each at least 1).
    pub dimensions: Vec<usize>,
}

impl ShapeOf {
    /// Reads `1x128`, `input_ids=1x128`, or several with commas.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected".
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(|part| Self::parse(part.trim())).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let expected =
            || format!("expected INPUT=DIMENSIONS such as input_ids=1x128, found `{text}`");
        // Names of inputs may hold `=` in theory, dimensions never.
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

    /// The input and its dimensions, as they are read.
    pub fn written(&self) -> String {
        match &self.input {
            Some(input) => format!("{input}={}", self.text()),
            None => self.text(),
        }
    }

    /// The dimensions, as they are read.
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
            let all = ShapeOf::parse_all(text).unwrap();
            all.into_iter().map(|of| (of.input.clone(), of.text())).collect()
        };
        assert_eq!(read("1x128"), [(None, "1x128".into())]);
        let both = read("input_ids=1x128, mask=1X128");
        let names = ["input_ids", "mask"].map(|name| (Some(name.into()), "1x128".into()));
        assert_eq!(both, names);
        for text in ["", "ids=", "=1x2", "1x0", "ids=1xn", "1x", "1 2"] {
            let error = ShapeOf::parse_all(text).unwrap_err();
            assert!(error.starts_with("expected INPUT=DIMENSIONS"), "{text}: {error}");
        }
    }
}
