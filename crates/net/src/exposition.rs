//! Parser of the pages on which servers expose their metrics: the text format of Prometheus (version
//! 0.0.4, and 1.0.0 with quoted names) and OpenMetrics 1.0.
//!
//! Sources: the specifications of both formats. Lines that do not belong to them are counted and
//! skipped, because one odd line must not hide the other metrics.

use std::borrow::Cow;

/// The samples of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition<'a> {
    /// In the order of the page.
    pub samples: Vec<Sample<'a>>,
    /// Number of lines that could not be read.
    pub malformed: usize,
    /// The first of them.
    pub first_malformed: Option<MalformedLine>,
}

/// Names and values of labels.
pub type Labels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// One sample of a page. Timestamps and exemplars are read and dropped: the time of a sample is that of
/// its page.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// Name of the series, with suffixes such as `_total`, `_bucket` or `_sum`.
    pub name: Cow<'a, str>,
    /// Labels in their order, without escapes.
    pub labels: Labels<'a>,
    /// Value, which may be infinite or NaN.
    pub value: f64,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct MalformedLine {
    /// Its number, from 1.
    pub line: usize,
    /// What was expected.
    pub why: &'static str,
}

impl Sample<'_> {
    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| &**value)
    }
}

impl<'a> Exposition<'a> {
    /// Reads a page.
    ///
    /// ```
    /// use dyno_net::exposition::Exposition;
    ///
    /// let page = Exposition::parse("# TYPE queue gauge\nqueue{model=\"a\"} 3\n");
    /// assert_eq!((page.samples[0].value, page.samples[0].label("model")), (3.0, Some("a")));
    /// ```
    pub fn parse(text: &'a str) -> Self {
        let mut page = Self::default();
        // Lines end with a line feed; a carriage return before it is a blank.
        for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').split('\n')) {
            let line = line.trim_matches(BLANKS);
            if line.is_empty() {
                continue;
            }
            // Descriptions, types, units, `# EOF` and comments.
            if line.starts_with('#') {
                continue;
            }
            match (Line { rest: line }).sample() {
                Ok(sample) => page.samples.push(sample),
                Err(why) => {
                    page.malformed += 1;
                    page.first_malformed.get_or_insert(MalformedLine { line: number, why });
                }
            }
        }
        page
    }

    /// Returns the samples of a series.
    pub fn series(&self, name: &str) -> impl Iterator<Item = &Sample<'a>> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }
}

const BLANKS: [char; 3] = [' ', '\t', '\r'];

/// The unread part of a line.
struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn sample(mut self) -> Result<Sample<'a>, &'static str> {
        let mut name = Cow::Borrowed(self.take_while(|c| !" \t{".contains(c)));
        if name.contains(['"', '}', ',', '=']) {
            return Err("expected the name of a metric");
        }
        self.skip_blanks();
        let labels = if self.skip('{') { self.labels(&mut name)? } else { Vec::new() };
        if name.is_empty() {
            return Err("expected the name of a metric");
        }
        self.skip_blanks();
        let value = self.take_while(|c| !BLANKS.contains(&c));
        let value = number(value).ok_or("expected a number as the value")?;
        self.skip_blanks();
        // A timestamp, in milliseconds or in seconds.
        if !self.rest.is_empty() && !self.rest.starts_with('#') {
            let timestamp = self.take_while(|c| !BLANKS.contains(&c));
            number(timestamp).ok_or("expected a number as the timestamp")?;
            self.skip_blanks();
        }
        // An exemplar.
        if !self.rest.is_empty() && !self.rest.starts_with('#') {
            return Err("expected nothing after value and timestamp");
        }
        Ok(Sample { name, labels, value })
    }

    /// Reads labels up to the closing brace. A quoted text without a value is the name of the metric.
    fn labels(&mut self, name: &mut Cow<'a, str>) -> Result<Labels<'a>, &'static str> {
        let mut labels = Vec::new();
        loop {
            self.skip_blanks();
            if self.skip('}') {
                return Ok(labels);
            }
            let is_quoted = self.rest.starts_with('"');
            let label = if is_quoted {
                self.quoted()?
            } else {
                Cow::Borrowed(self.take_while(|c| !"=,}\" \t".contains(c)))
            };
            self.skip_blanks();
            if self.skip('=') {
                self.skip_blanks();
                if label.is_empty() {
                    return Err("expected the name of a label");
                }
                labels.push((label, self.quoted()?));
            } else if is_quoted && name.is_empty() && labels.is_empty() {
                *name = label;
            } else {
                return Err("expected = after the name of a label");
            }
            self.skip_blanks();
            if !self.skip(',') && !self.rest.starts_with('}') {
                return Err("expected , or } after a label");
            }
        }
    }

    /// Reads a text in quotes, with the escapes of both formats. Other escapes are kept as they are.
    fn quoted(&mut self) -> Result<Cow<'a, str>, &'static str> {
        if !self.skip('"') {
            return Err("expected a text in quotes");
        }
        let end = self.rest.find(['"', '\\']).ok_or("expected a closing quote")?;
        if self.rest[end..].starts_with('"') {
            let text = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            return Ok(Cow::Borrowed(text));
        }
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Cow::Owned(text));
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, escaped @ ('\\' | '"'))) => text.push(escaped),
                    Some((_, other)) => text.extend(['\\', other]),
                    None => break,
                },
                other => text.push(other),
            }
        }
        Err("expected a closing quote")
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip(&mut self, letter: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(letter) else { return false };
        self.rest = rest;
        true
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(BLANKS);
    }
}

/// Reads a number as Go does: `1e3`, `+Inf`, `NaN`.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn only(text: &str) -> Sample<'_> {
        let page = Exposition::parse(text);
        assert_eq!(page.first_malformed, None, "{text}");
        assert_eq!(page.samples.len(), 1, "{text}");
        page.samples[0].clone()
    }

    /// The example of the documentation of the format, with each of its oddities.
    const EXAMPLE: &str = "# HELP http_requests_total The total number of HTTP requests.\r\n\
        # TYPE http_requests_total counter\r\n\
        http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\r\n\
        http_requests_total{method=\"post\",code=\"400\"}    3 1395066363000\r\n\r\n\
        # Escaping in label values:\n\
        msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9\n\
        metric_without_timestamp_and_labels 12.47\n\
        something_weird{problem=\"division by zero\"} +Inf -3982045\n\
        http_request_duration_seconds_bucket{le=\"+Inf\"} 144320\n\
        rpc_duration_seconds{quantile=\"0.99\"} NaN\n";

    #[test]
    fn the_example_of_the_format_is_read() {
        let page = Exposition::parse(EXAMPLE);
        assert_eq!((page.samples.len(), page.malformed), (7, 0), "{:?}", page.first_malformed);
        assert_eq!(page.samples[0].label("code"), Some("200"));
        assert_eq!((page.samples[0].value, page.samples[1].value), (1_027.0, 3.0));
        let file = &page.samples[2];
        assert_eq!(file.label("path"), Some("C:\\DIR\\FILE.TXT"));
        assert_eq!(file.label("error"), Some("Cannot find file:\n\"FILE.TXT\""));
        assert_eq!(file.value, 1.458_255_915e9);
        assert_eq!(page.samples[4].value, f64::INFINITY);
        assert!(page.samples[6].value.is_nan());
        assert_eq!(page.series("http_requests_total").count(), 2);
    }

    #[test]
    fn suffixes_exemplars_and_quoted_names_of_later_formats_are_read() {
        let exemplar = only("a_bucket{le=\"8\"} 7 1520879607.789 # {trace_id=\"K y\"} 9.8 1.5");
        assert_eq!((exemplar.value, exemplar.label("le")), (7.0, Some("8")));
        assert_eq!(only("a_total 1 # {} 0.5").value, 1.0);
        assert_eq!(only("a_created 1e9\n# EOF\n").name, "a_created");
        let quoted = only("{\"my.noncompliant.metric\", \"l.1\"=\"v\",} 4");
        assert_eq!((&*quoted.name, quoted.label("l.1")), ("my.noncompliant.metric", Some("v")));
        let spaced = only("  a { b = \"c,}d\" , } -2.5e-3");
        assert_eq!((spaced.value, spaced.label("b")), (-2.5e-3, Some("c,}d")));
        assert_eq!(only("\u{feff}a 1").name, "a");
    }

    /// Pages of one registry by `prometheus_client` 0.26 for Python, in both formats.
    const PAGES: [&str; 2] = [
        include_str!("../testdata/exposition.txt"),
        include_str!("../testdata/exposition.openmetrics.txt"),
    ];

    #[test]
    fn pages_of_the_client_library_for_python_are_read() {
        for text in PAGES {
            let page = Exposition::parse(text);
            assert_eq!((page.samples.len(), page.first_malformed.clone()), (20, None));
            let of = |name: &str| -> Vec<f64> {
                let is_named = |sample: &&Sample<'_>| sample.name.replace(':', "_") == name;
                page.samples.iter().filter(is_named).map(|sample| sample.value).collect()
            };
            assert_eq!(of("vllm_num_requests_waiting"), [3.0, f64::INFINITY]);
            assert_eq!(of("vllm_kv_cache_usage_perc"), [0.123_456_789]);
            assert_eq!(of("vllm_generation_tokens_total"), [12_345_678.0, 0.5]);
            assert_eq!(of("vllm_time_to_first_token_seconds_bucket"), [1.0, 1.0, 2.0]);
            assert_eq!(of("vllm_time_to_first_token_seconds_sum"), [2.55]);
            assert!(of("odd")[0].is_nan());
            let labels: Vec<&str> =
                page.samples[..2].iter().filter_map(|of| of.label("model_name")).collect();
            assert_eq!(labels, ["a \"b\" \\ c\nd, {e}=\"f\"", "größe"]);
        }
    }

    #[test]
    fn one_odd_line_does_not_hide_the_others() {
        let page = Exposition::parse(
            "a 1\nb\nc{d=\"e} 2\nc{d} 2\nf 1 2 3\n<html>\ng one\n{h=\"i\"} 1\nj{k=\"l\"m=\"n\"} 1\nz 9",
        );
        let names: Vec<&str> = page.samples.iter().map(|sample| &*sample.name).collect();
        assert_eq!((names, page.malformed), (vec!["a", "z"], 8));
        let first = page.first_malformed.unwrap().to_string();
        assert_eq!(first, "line 2: expected a number as the value");
        assert_eq!(Exposition::parse("").samples, []);
    }

    fn written(sample: &(String, Vec<(String, String)>, f64)) -> String {
        let escaped =
            |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels = sample.1.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels: Vec<String> = labels.collect();
        format!("{}{{{}}} {:?}\n", sample.0, labels.join(","), sample.2)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            samples in prop::collection::vec(
                (
                    "[a-zA-Z_:][a-zA-Z0-9_:]{0,12}",
                    prop::collection::vec(("[a-z_][a-z0-9_]{0,6}", "\\PC{0,12}[\\\\\"\n,}]?"), 0..4),
                    any::<f64>().prop_filter("a number", |value| !value.is_nan()),
                ),
                0..8,
            )
        ) {
            let text: String = samples.iter().map(written).collect();
            let page = Exposition::parse(&text);
            prop_assert_eq!(page.malformed, 0);
            let owned = |(a, b): &(Cow<'_, str>, Cow<'_, str>)| (a.to_string(), b.to_string());
            let read = page.samples.iter().map(|sample| {
                let labels = sample.labels.iter().map(owned).collect::<Vec<_>>();
                (sample.name.to_string(), labels, sample.value)
            });
            let read: Vec<_> = read.collect();
            prop_assert_eq!(read, samples);
        }

        #[test]
        fn any_text_ends(text in "[a{}\"\\\\=, \t\r\n#0-9.eE+-]{0,80}") {
            let page = Exposition::parse(&text);
            prop_assert!(page.samples.len() + page.malformed <= text.split('\n').count());
        }
    }
}
