//! `dyno task methods`: the ways to score.

use std::fmt::Write as _;

use clap::Args;
use dyno_mlperf::accuracy::METHODS;

use crate::exit::{Exit, Failure};
use crate::output;

/// Nothing to choose.
#[derive(Debug, Args)]
pub struct Methods {}

impl Methods {
    /// Prints them.
    ///
    /// # Errors
    /// Stdout takes nothing.
    pub fn execute(self) -> Result<Exit, Failure> {
        let mut text = String::new();
        for method in METHODS {
            let _ = writeln!(text, "{}: {}", method.name, method.title);
            let element = method.element.map_or("bytes", |element| element.name());
            let _ = writeln!(text, "  answer: {} ({element} unless said)", method.answer);
            for choice in method.choices {
                let values = choice.values.join("|");
                let _ = writeln!(text, "  --choose {}={values}: {}", choice.name, choice.what);
            }
            for need in method.needs {
                let optional = if need.is_required { "" } else { " (optional)" };
                let _ = writeln!(text, "  --with {}=FILE{optional}: {}", need.name, need.what);
            }
        }
        output::print(text).map(|()| Exit::Valid)
    }
}
