//! Configuration files of LoadGen that a run names.

use std::path::Path;

use dyno_loadgen::config::{Conf, ConfType, built_in_models};
use dyno_loadgen::settings::nearest;

use super::Options;
use crate::failure::refuse_device;

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
                let near = nearest(model, built_in_models()).unwrap_or("*");
                problems.push(format!(
                    "--conf-model {model} has no effect: neither the built-in table nor a file of \
                     --conf has rows for it; the nearest name is `{near}`"
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
}

/// Reads a configuration file of LoadGen.
///
/// # Errors
/// Every problem of the file, or that it is a device.
fn load_conf(path: &Path) -> Result<Conf, Vec<String>> {
    refuse_device(path).map_err(|failure| failure.problems().to_vec())?;
    Conf::load(path).map_err(|error| lines(&error.to_string()))
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
