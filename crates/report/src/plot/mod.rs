//! Charts as figures of a page: SVG that stretches with the page, labels as text
//! that does not, and the numbers for the script that shows them.
//!
//! A chart is complete without the script: it prints, and it reads in browsers
//! that run none.

mod axis;
mod draw;

pub use axis::{Axis, Format};
pub use draw::{figure, inert};

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What it shows, in a few words.
    pub title: String,
    /// How to read it, in a sentence or two; may be empty.
    pub note: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// In the order in which they are drawn.
    pub series: Vec<Series>,
    /// Bounds and other values that everything is compared with.
    pub rules: Vec<Rule>,
    /// Named points.
    pub labels: Vec<Label>,
}

/// One row of points.
#[derive(Debug, Clone)]
pub struct Series {
    /// In the legend and the tooltip.
    pub name: String,
    /// Colour and stroke.
    pub ink: Ink,
    /// What is drawn.
    pub shape: Shape,
    /// With ascending x, unless they are dots.
    pub points: Vec<Point>,
}

/// A value with its place. What is not finite is left out.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// On the x axis.
    pub x: f64,
    /// On the y axis.
    pub y: f64,
    /// Of a bar: where it ends on the x axis. Of a band: its upper edge on the y axis.
    pub to: f64,
    /// Of a dot: what the tooltip says; lines are separated by `\n`. Of a bar: its
    /// value, unless that is its height.
    pub tip: String,
}

impl Point {
    /// A point of a line.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}

/// What is drawn of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// From point to point.
    Line,
    /// Holds each value up to the next point.
    Steps,
    /// Between `y` and `to`.
    Band,
    /// From `x` to `to`, and from the bottom to `y`.
    Bars,
    /// Alone; hovering finds the nearest.
    Dots,
}

/// Colours that the style sheet gives in both themes. Each has a stroke of its
/// own, too, so that a chart reads without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// The first.
    A,
    /// The second.
    B,
    /// The third.
    C,
    /// The fourth.
    D,
    /// The fifth.
    E,
    /// The sixth.
    F,
    /// Of what failed.
    Bad,
    /// Of what is fine.
    Good,
    /// Of what stands behind.
    Quiet,
}

impl Ink {
    /// Those that several runs have, one after the other.
    const ROW: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// The one of the `number`-th of several runs.
    pub fn nth(number: usize) -> Self {
        Self::ROW[number % Self::ROW.len()]
    }

    /// Its class in the style sheet.
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

/// A straight line across the chart, with its name.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Axis at one value of which the line lies.
    pub across: RuleAxis,
    /// Where.
    pub at: f64,
    /// Such as `bound 50 ms`.
    pub name: String,
    /// Colour.
    pub ink: Ink,
}

/// How a rule lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAxis {
    /// At one value of the x axis, upright.
    X,
    /// At one value of the y axis, level.
    Y,
}

/// A named point.
#[derive(Debug, Clone)]
pub struct Label {
    /// On the x axis.
    pub x: f64,
    /// On the y axis.
    pub y: f64,
    /// What stands beside it.
    pub name: String,
}

impl Chart {
    /// A chart without series.
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

    /// Says how to read it.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Adds a series; one without points is left out.
    #[must_use]
    pub fn with(mut self, name: &str, ink: Ink, shape: Shape, points: Vec<Point>) -> Self {
        let points: Vec<Point> =
            points.into_iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        if !points.is_empty() {
            self.series.push(Series { name: name.into(), ink, shape, points });
        }
        self
    }

    /// Adds a rule, if there is one.
    #[must_use]
    pub fn rule(mut self, across: RuleAxis, at: Option<f64>, name: &str, ink: Ink) -> Self {
        self.rules.extend(at.filter(|at| at.is_finite()).map(|at| {
            let name = name.to_string();
            Rule { across, at, name, ink }
        }));
        self
    }

    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}
