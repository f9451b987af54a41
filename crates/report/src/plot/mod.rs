//! Charts as figures of a page: SVG that stretches with the page, labels of a fixed size, and the
//! numbers for the script that shows tooltips.
//!
//! A chart is complete without the script, for printing and for browsers without scripts.

mod axis;
mod draw;

pub use axis::{Axis, Format};
pub use draw::{HEADING, figure, inert};

/// Chart of one or more series.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Explanation in a sentence or two; may be empty.
    pub note: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Series in drawing order.
    pub series: Vec<Series>,
    /// Lines for bounds and other reference values.
    pub rules: Vec<Rule>,
    /// Named points.
    pub labels: Vec<Label>,
}

/// Series of points.
#[derive(Debug, Clone)]
pub struct Series {
    /// Name in the legend and the tooltip.
    pub name: String,
    /// Color and stroke.
    pub ink: Ink,
    /// Shape that is drawn.
    pub shape: Shape,
    /// Points by ascending x; dots may have any order.
    pub points: Vec<Point>,
}

/// Point of a series. [`Chart::with`] drops points with coordinates that are not finite.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// Value on the x axis.
    pub x: f64,
    /// Value on the y axis.
    pub y: f64,
    /// End of a bar on the x axis, or upper edge of a band on the y axis.
    pub to: f64,
    /// Tooltip of a dot, with lines separated by `\n`; or value of a bar, if that is not its height.
    pub tip: String,
}

impl Point {
    /// Returns a point of a line.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}

/// Shape of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Straight lines between the points.
    Line,
    /// Steps: each value holds up to the next point.
    Steps,
    /// Area between `y` and `to`.
    Band,
    /// Bars from `x` to `to` and from the bottom to `y`.
    Bars,
    /// Separate dots; the tooltip shows the nearest.
    Dots,
}

/// Colors, defined by the style sheet for both themes. Each has a stroke of its own, so that a chart
/// can be read without color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// First series.
    A,
    /// Second series.
    B,
    /// Third series.
    C,
    /// Fourth series.
    D,
    /// Fifth series.
    E,
    /// Sixth series.
    F,
    /// Failures and bounds.
    Bad,
    /// Good values.
    Good,
    /// Background.
    Quiet,
}

impl Ink {
    /// Inks of several series, in order.
    const ROW: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Returns the ink of the series with this index; inks repeat after the sixth.
    pub fn nth(number: usize) -> Self {
        Self::ROW[number % Self::ROW.len()]
    }

    /// Returns the class in the style sheet.
    fn class(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
            Self::Bad => "bad",
            Self::Good => "good",
            Self::Quiet => "quiet",
        }
    }
}

/// Straight line across the chart, with a name.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Axis at one value of which the line lies.
    pub across: RuleAxis,
    /// Value on that axis.
    pub at: f64,
    /// Name, such as `bound 50 ms`; may be empty.
    pub name: String,
    /// Color.
    pub ink: Ink,
}

/// Axis at one value of which a rule lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAxis {
    /// Vertical line at a value of the x axis.
    X,
    /// Horizontal line at a value of the y axis.
    Y,
}

/// Point with a name.
#[derive(Debug, Clone)]
pub struct Label {
    /// Value on the x axis.
    pub x: f64,
    /// Value on the y axis.
    pub y: f64,
    /// Name beside the point.
    pub name: String,
}

impl Chart {
    /// Returns a chart without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            note: String::new(),
            x,
            y,
            series: Vec::new(),
            rules: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Sets the explanation.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Adds a series, unless it has no finite points.
    #[must_use]
    pub fn with(mut self, name: &str, ink: Ink, shape: Shape, points: Vec<Point>) -> Self {
        let points: Vec<Point> =
            points.into_iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        if !points.is_empty() {
            self.series.push(Series { name: name.into(), ink, shape, points });
        }
        self
    }

    /// Adds a rule at a finite value; nothing for `None`.
    #[must_use]
    pub fn rule(mut self, across: RuleAxis, at: Option<f64>, name: &str, ink: Ink) -> Self {
        self.rules.extend(at.filter(|at| at.is_finite()).map(|at| {
            let name = name.to_string();
            Rule { across, at, name, ink }
        }));
        self
    }

    /// Returns whether the chart has no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}
