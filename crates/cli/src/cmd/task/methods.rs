//! `dyno task methods`: lists the scoring methods.

use clap::Args;
use dyno_experiment::Failure;
use dyno_metrics::{METHODS, Method};

use crate::exit::Exit;
use crate::output;
use crate::render::wrap;

/// Columns of a line.
const WIDTH: usize = 80;

/// Nothing to choose.
#[derive(Debug, Args)]
pub struct Methods {}

impl Methods {
    /// Prints the methods.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn execute(self) -> Result<Exit, Failure> {
        let lines = METHODS.iter().flat_map(|method| lines(method));
        let wrapped = lines.flat_map(|line| wrap(&line, WIDTH, 6));
        let text: String = wrapped.map(|line| line + "\n").collect();
        output::print(text).map(|()| Exit::Valid)
    }
}

fn lines(method: &Method) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", method.name, method.title)];
    lines.push(match method.element {
        Some(element) => format!("  answer: {} (default {})", method.answer, element.name()),
        None => format!("  answer: {}", method.answer),
    });
    for choice in method.choices {
        let values = choice.values.join("|");
        lines.push(format!("  --choose {}={values}: {}", choice.name, choice.help));
    }
    for need in method.needs {
        let optional = if need.is_required { "" } else { " (optional)" };
        lines.push(format!("  --with {}=FILE{optional}: {}", need.name, need.help));
    }
    lines
}
