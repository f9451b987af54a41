//! Configuration files of LoadGen that a run names.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use dyno_loadgen::config::{Conf, ConfType, built_in_models};
use dyno_loadgen::settings::known_names;

use super::Options;
use crate::failure::reject_special;

impl Options {
    /// Reads the files of `--conf` and `--audit`.
    pub(super) fn read_conf(&mut self, problems: &mut Vec<String>) {
        let model = self.run.conf_model.as_deref();
        for path in &self.run.conf {
            let refused =
                |conf: &Conf| conf.refuse_ignored().map_err(|error| lines(&error.to_string()));
            match load_conf(path).and_then(|conf| refused(&conf).map(|()| conf)) {
                Ok(conf) => {
                    self.warnings.extend(conf.lint(ConfType::User, model));
                    self.conf.push(conf);
                }
                Err(found) => problems.extend(found),
            }
        }
        if let Some(model) = model.filter(|_| self.is_given("conf-model")) {
            let is_known = model == "*" || built_in_models().any(|known| known == model);
            if !is_known && !self.conf.iter().any(|conf| conf.has_rows_of(model)) {
                let known = known_names(model, "name", built_in_models());
                problems.push(format!(
                    "--conf-model {model} has no effect: neither the built-in table nor a file of \
                     --conf has rows for it; {known}"
                ));
            }
        }
        match self.run.audit.as_deref().map(load_conf).transpose() {
            Ok(audit) => {
                let lint = audit.iter().flat_map(|conf| conf.lint(ConfType::Audit, None));
                self.warnings.extend(lint);
                self.audit = audit;
            }
            Err(found) => problems.extend(found),
        }
    }

    /// Adds the files of `--conf` of which no row applies. The model must be known.
    pub(super) fn check_conf(&self, problems: &mut Vec<String>) {
        // A file that cannot be read is a problem already.
        if self.run.conf.len() == self.conf.len() {
            let model = self.run.conf_model.as_deref();
            let files = self.conf.iter().zip(&self.run.conf);
            problems.extend(files.filter_map(|(conf, path)| without_effect(conf, path, model)));
        }
    }
}

/// Returns why no row of a file applies to a run of this model.
fn without_effect(conf: &Conf, path: &Path, model: Option<&str>) -> Option<String> {
    let mut models = conf.models();
    let applies = |of: &&str| *of == "*" || Some(*of) == model;
    if models.iter().any(applies) {
        return None;
    }
    models.truncate(MOST_NAMES);
    let file = path.display();
    Some(match (&models[..], model) {
        ([], _) => format!("{file} has no setting; remove --conf"),
        (names, Some(model)) => {
            format!(
                "no row of {file} applies to the model {model}: it has rows of {}",
                names.join(", ")
            )
        }
        (names, None) => format!(
            "no row of {file} applies without a model: it has rows of {}; add --conf-model {}",
            names.join(", "),
            names[0]
        ),
    })
}

/// Maximum number of models that a message names.
const MOST_NAMES: usize = 10;

/// Reads a configuration file of LoadGen.
///
/// # Errors
/// Every problem of the file, or that it is a device, a socket or a pipe.
fn load_conf(path: &Path) -> Result<Conf, Vec<String>> {
    reject_special(path).map_err(|failure| failure.problems().to_vec())?;
    if begins_with_mark(path) {
        return Err(vec![format!(
            "{} begins with a byte order mark, which LoadGen reads as a part of the first key; save it \
             as UTF-8 without the mark",
            path.display()
        )]);
    }
    Conf::load(path).map_err(|error| lines(&error.to_string()))
}

/// Returns whether a file begins with the byte order mark of UTF-8.
fn begins_with_mark(path: &Path) -> bool {
    let mut first = [0; 3];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *b"\xef\xbb\xbf"
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
