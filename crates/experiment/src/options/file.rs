//! Reader of `dyno.toml`: `version = 1`, `[run]`, `[settings]`, `[scenario.NAME]`, `[[tenants]]`
//! and `[sweep]`. An unknown key is an error with the line and the nearest key.

mod meaning;
mod sweep;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dyno_loadgen::settings::{FIELDS, Origin, Scenario, nearest, similar};
use dyno_results::effective::is_relevant;
use dyno_tensors::files;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::KeyOrigin;
use super::assignment::{Assignment, BadAssignment};
use super::keys::{self, RunOptions};
use crate::failure::reject_special;
pub use meaning::meaning;
pub use sweep::{Annotation, SWEEP_KEYS, SweepTable};

/// The version of the format.
pub const VERSION: &str = "1";

/// Maximum length of the name of a tenant, bytes. Names of files have 255 at most.
const LONGEST_NAME: usize = 200;

const SECTIONS: [&str; 6] = ["version", "run", "settings", "scenario", "tenants", "sweep"];

/// Contents of a configuration file.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    /// `[run]`.
    pub run: RunOptions,
    /// The keys of `[run]` with their lines.
    pub given: Vec<KeyOrigin>,
    /// Shortcuts of `[run]`, `[settings]` and `[scenario.NAME]`.
    pub settings: Vec<Assignment>,
    /// `[[tenants]]`, in order.
    pub tenants: Vec<TenantTable>,
    /// `[sweep]`.
    pub sweep: Option<SweepTable>,
}

/// An entry of `[[tenants]]`.
#[derive(Debug, Clone)]
pub struct TenantTable {
    /// Unique name, shown in logs and reports.
    pub name: String,
    /// Server that it loads, if it differs from that of the run.
    pub system: Option<String>,
    /// Settings of this tenant alone.
    pub settings: Vec<Assignment>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Every problem, as `FILE:LINE: what is wrong`.
    pub fn read(path: &Path) -> Result<Self, Vec<String>> {
        reject_special(path).map_err(|failure| failure.problems().to_vec())?;
        let text = files::read_to_string(path)
            .map_err(|error| vec![format!("cannot read {}: {error}", path.display())])?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Vec<String>> {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut reader = Reader { path, line_ends, problems: Vec::new() };
        let document = match DeTable::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                // An unquoted word is read as the beginning of `nan` or `true`.
                let is_word = ["`nan`", "`inf`", "`true`", "`false`"]
                    .iter()
                    .any(|word| error.message().ends_with(word));
                let quotes = if is_word { "; texts need quotes" } else { "" };
                reader.problem(at, format!("not valid TOML: {}{quotes}", error.message()));
                return Err(reader.problems);
            }
        };
        let file = reader.document(document.get_ref());
        let mut problems = reader.problems;
        if problems.len() > MOST_PROBLEMS {
            problems.truncate(MOST_PROBLEMS);
            problems.push(format!("{}: further problems are not listed", path.display()));
        }
        if problems.is_empty() { Ok(file) } else { Err(problems) }
    }
}

struct Reader<'a> {
    path: &'a Path,
    /// Where each line ends.
    line_ends: Vec<usize>,
    problems: Vec<String>,
}

/// Maximum number of problems that are listed.
const MOST_PROBLEMS: usize = 20;

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.line_ends.partition_point(|end| *end < at) + 1
    }

    fn origin(&self, at: usize) -> Origin {
        Origin::File { path: self.path.to_path_buf(), line: self.line(at) }
    }

    /// Returns whether further problems need not be looked for.
    fn has_enough(&self) -> bool {
        self.problems.len() > MOST_PROBLEMS
    }

    fn problem(&mut self, at: usize, problem: String) {
        self.problems.push(BadAssignment { origin: self.origin(at), problem }.to_string());
    }

    fn document(&mut self, document: &DeTable<'_>) -> ConfigFile {
        let mut file = ConfigFile::default();
        match document.get("version") {
            None => self.problem(0, format!("the file must have `version = {VERSION}`")),
            Some(version) if toml_text(version.get_ref()).as_deref() != Some(VERSION) => {
                let problem = format!("this program reads version {VERSION} of the format");
                self.problem(version.span().start, problem);
            }
            Some(_) => {}
        }
        let mut shortcuts = Vec::new();
        for (name, value) in document {
            if self.has_enough() {
                break;
            }
            let at = name.span().start;
            match &**name.get_ref() {
                "version" => {}
                "run" => {
                    let before = file.settings.len();
                    self.run(value, &mut file);
                    shortcuts = file.settings[before..].to_vec();
                }
                "settings" => file.settings.extend(self.settings(value, None, "settings")),
                "scenario" if value.get_ref().as_table().is_some() => {
                    self.scenarios(value, &mut file);
                }
                "tenants" => self.tenants(value, &mut file),
                "sweep" => file.sweep = self.sweep(value),
                other => self.problem(at, unknown_section(other)),
            }
        }
        self.problems.extend(super::flags::contradictions_in_file(&shortcuts, &file.settings));
        file
    }

    fn table<'t>(
        &mut self,
        value: &'t Spanned<DeValue<'t>>,
        name: &str,
    ) -> Option<&'t DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.problem(value.span().start, format!("`{name}` must be a table, [{name}]"));
        }
        table
    }

    fn run(&mut self, value: &Spanned<DeValue<'_>>, file: &mut ConfigFile) {
        let Some(table) = self.table(value, "run") else { return };
        let base = self.path.parent().map(PathBuf::from).unwrap_or_default();
        let mut shortcuts = RunOptions::default();
        for (name, value) in table {
            if self.has_enough() {
                break;
            }
            let at = name.span().start;
            let name = &**name.get_ref();
            let key = match keys::find(name) {
                Ok(key) => key,
                Err(near) => {
                    let place = place_of(name, &near, "settings");
                    self.problem(at, format!("unknown key `{name}` in [run]; {place}"));
                    continue;
                }
            };
            file.given.push(KeyOrigin { key: key.name, origin: self.origin(at) });
            for text in self.texts(value, name) {
                if let Err(expected) = (key.set)(&mut file.run, &text, &base) {
                    self.problem(at, format!("`{name}`: {expected}"));
                } else if (key.set)(&mut shortcuts, &text, &base).is_ok() {
                    let origin = self.origin(at);
                    file.settings.extend(super::flags::shortcuts(&shortcuts, &origin));
                    shortcuts = RunOptions::default();
                }
            }
        }
    }

    /// Returns a value as text, or each value of an array.
    fn texts(&mut self, value: &Spanned<DeValue<'_>>, name: &str) -> Vec<String> {
        let values = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|v| toml_text(v.get_ref())).collect(),
            single => vec![toml_text(single)],
        };
        let texts: Option<Vec<String>> = values.into_iter().collect();
        texts.unwrap_or_else(|| {
            self.problem(value.span().start, format!("`{name}` must be a plain value"));
            Vec::new()
        })
    }

    fn settings(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        scenario: Option<Scenario>,
        section: &str,
    ) -> Vec<Assignment> {
        let mut assignments = Vec::new();
        let Some(table) = self.table(value, section) else { return assignments };
        for (name, value) in table {
            if self.has_enough() {
                break;
            }
            let at = name.span().start;
            if section == "settings"
                && value.get_ref().as_table().is_some()
                && let Ok(owner) = keys::scenario(name.get_ref())
            {
                let (name, owner) = (name.get_ref(), owner.name());
                self.problem(at, format!("[settings.{name}]: use [scenario.{owner}]"));
                continue;
            }
            let texts = self.texts(value, name.get_ref());
            if texts.is_empty() {
                continue;
            }
            // The list of recorded arrival times is the only setting with several values.
            let text = texts.join(",");
            match Assignment::new(scenario, name.get_ref(), &text, &self.origin(at)) {
                Ok(Assignment { key, .. }) if other_owner(key, scenario).is_some() => {
                    let owner = other_owner(key, scenario).map_or("", Scenario::name);
                    let problem = format!(
                        "`{key}` has no effect in [{section}]; remove it, or move it to \
                         [scenario.{owner}]"
                    );
                    self.problem(at, problem);
                }
                Ok(assignment) => assignments.push(assignment),
                Err(_) if is_of_run(name.get_ref()) => {
                    let place = place_of(name.get_ref(), "", section);
                    let name = name.get_ref();
                    self.problem(at, format!("unknown key `{name}` in [{section}]; {place}"));
                }
                Err(bad) => self.problems.push(bad.to_string()),
            }
        }
        assignments
    }

    fn scenarios(&mut self, value: &Spanned<DeValue<'_>>, file: &mut ConfigFile) {
        let Some(table) = self.table(value, "scenario") else { return };
        for (name, value) in table {
            if self.has_enough() {
                break;
            }
            match keys::scenario(name.get_ref()) {
                Ok(scenario) => {
                    let section = format!("scenario.{}", scenario.name());
                    file.settings.extend(self.settings(value, Some(scenario), &section));
                }
                Err(expected) => self.problem(name.span().start, expected),
            }
        }
    }

    fn tenants(&mut self, value: &Spanned<DeValue<'_>>, file: &mut ConfigFile) {
        let Some(tables) = value.get_ref().as_array() else {
            self.problem(value.span().start, "`tenants` must be tables, [[tenants]]".into());
            return;
        };
        let mut names = HashSet::new();
        for table in tables {
            if self.has_enough() {
                break;
            }
            let at = table.span().start;
            let Some(keys) = self.table(table, "[tenants]") else { continue };
            let mut tenant =
                TenantTable { name: String::new(), system: None, settings: Vec::new() };
            for (key, value) in keys {
                match &**key.get_ref() {
                    "name" => tenant.name = toml_text(value.get_ref()).unwrap_or_default(),
                    "system" => tenant.system = toml_text(value.get_ref()),
                    "settings" => {
                        tenant.settings.extend(self.settings(value, None, "tenants.settings"));
                    }
                    other => {
                        let near = nearest(other, ["name", "system", "settings"].into_iter());
                        let near = near.unwrap_or("settings");
                        let place = place_of(other, near, "tenants.settings");
                        let problem = format!("unknown key `{other}` in [[tenants]]; {place}");
                        self.problem(key.span().start, problem);
                    }
                }
            }
            let is_taken = !names.insert(tenant.name.clone());
            if tenant.name.is_empty() || is_taken {
                self.problem(at, "each of [[tenants]] needs a unique `name`".into());
            }
            let length = tenant.name.len();
            if length > LONGEST_NAME {
                let problem = format!(
                    "the `name` of a tenant, which names the folder of its results, has at most \
                     {LONGEST_NAME} bytes, found {length}"
                );
                self.problem(at, problem);
            }
            file.tenants.push(tenant);
        }
    }
}

/// Returns the problem of a key that is no section: where it belongs, or the nearest section.
fn unknown_section(name: &str) -> String {
    if keys::find(name).is_ok() {
        return format!("`{name}` belongs below [run]");
    }
    if FIELDS.iter().any(|field| field.name == name) {
        return format!("`{name}` belongs below [settings]");
    }
    match similar(name, SECTIONS.into_iter()) {
        Some(near) => format!("unknown key `{name}`; the nearest key is `{near}`"),
        None => format!("unknown key `{name}`; expected one of {}", SECTIONS.join(", ")),
    }
}

/// Returns the scenario to which a setting belongs, if it is set for another one.
fn other_owner(key: &str, scenario: Option<Scenario>) -> Option<Scenario> {
    scenario.filter(|scenario| !is_relevant(key, *scenario))?;
    Scenario::ALL.iter().copied().find(|owner| is_relevant(key, *owner))
}

/// Returns a value of TOML as the text that a flag or a setting has; `None` for dates, arrays and
/// tables.
pub fn toml_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            let value = i128::from_str_radix(&digits, number.radix()).ok()?;
            Some(value.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Returns whether a key belongs to `[run]` and is no setting.
fn is_of_run(name: &str) -> bool {
    keys::find(name).is_ok() && FIELDS.iter().all(|field| field.name != name)
}

/// Returns where an unknown key belongs: in another section, or it is meant to be the nearest key.
fn place_of(name: &str, near: &str, settings: &str) -> String {
    if is_of_run(name) {
        "it belongs to [run]".into()
    } else if FIELDS.iter().any(|field| field.name == name) {
        format!("it belongs to [{settings}]")
    } else if near.is_empty() {
        "dyno init --all lists the keys".into()
    } else {
        format!("the nearest key is `{near}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let problems = ConfigFile::parse(text, Path::new("dyno.toml")).err().unwrap_or_default();
        assert_eq!(problems, expected);
    }

    #[test]
    fn only_the_first_of_many_problems_are_listed() {
        let keys: String = (0..100_000).map(|n| format!("key_{n} = 1\n")).collect();
        let found = ConfigFile::parse(&format!("version = 1\n[settings]\n{keys}"), Path::new("f"));
        let found = found.unwrap_err();
        assert!(found[0].starts_with("f:3: unknown key `key_0`"), "{}", found[0]);
        assert_eq!((found.len(), found[20].as_str()), (21, "f: further problems are not listed"));
        let tenants = "[[tenants]]\n".repeat(100_000);
        let found = ConfigFile::parse(&format!("version = 1\n{tenants}"), Path::new("f"));
        let found = found.unwrap_err();
        assert_eq!((found.len(), found[20].as_str()), (21, "f: further problems are not listed"));
    }

    #[test]
    fn a_setting_of_another_scenario_has_no_effect_in_a_section() {
        check(
            "version = 1\n[scenario.Offline]\nmin_duration_ms = 5\nserver_target_qps = 7\n",
            &[
                "dyno.toml:4: `server_target_qps` has no effect in [scenario.Offline]; remove it, or \
               move it to [scenario.Server]",
            ],
        );
        check("version = 1\n[scenario.Server]\nserver_target_qps = 7\n", &[]);
        check("version = 1\n[settings]\nserver_target_qps = 7\n", &[]);
    }

    #[test]
    fn a_key_of_a_run_and_a_setting_with_another_value_contradict_each_other() {
        let text = "version = 1\n[run]\nqps = 100\nduration = \"2s\"\nburstiness = 2\nseed = 5\n\
                    [settings]\nserver_target_qps = 300\nmin_duration_ms = 1000\n\
                    server_arrivals = \"poisson\"\nschedule_rng_seed = 7\n";
        let mut problems = ConfigFile::parse(text, Path::new("f")).unwrap_err();
        problems.sort();
        assert_eq!(
            problems,
            [
                "f:10: server_arrivals is poisson here and gamma:2 by f:5; keep one",
                "f:8: server_target_qps is 300 here and 100 by f:3; keep one",
                "f:9: min_duration_ms is 1000 here and 2000 by f:4; keep one",
            ]
        );
        check("version = 1\n[run]\nqps = 100\n[settings]\nserver_target_qps = 100.0\n", &[]);
        // A section of one scenario departs from what holds for all.
        check(
            "version = 1\n[run]\nduration = \"2s\"\n[scenario.Server]\nmin_duration_ms = 1000\n",
            &[],
        );
    }

    /// What the fuzz targets do for other files: this crate is too large for their build.
    #[test]
    fn a_damaged_file_has_problems_with_lines() {
        let whole = "version = 1\n[run]\nsystem = \"null\"\nscenario = [\"Server\", \"Offline\"]\n\
                     duration = \"2s\"\n[settings]\nserver_target_qps = 5.5\n\
                     [scenario.Server]\nmin_duration_ms = \"1s\"\n\
                     [[tenants]]\nname = \"a\"\nsettings = { server_target_qps = 3 }\n\
                     [sweep]\npause = \"1s\"\n[sweep.over]\nbatch = [1, 2]\n\
                     [[sweep.points]]\nbatch = 4\nname = \"b\"\n";
        assert!(ConfigFile::parse(whole, Path::new("f")).is_ok());
        let pieces =
            ["[", "]", "{", "}", "=", "\"", "\n", ".", "-1", "1e999", "nan", "é", "[[run]]"];
        // A linear congruential generator: the cases are the same on every machine.
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..5_000 {
            let mut text = whole.to_owned();
            for _ in 0..=draw(4) {
                let (from, length) = (draw(text.len()), draw(6));
                let to = (from + length).min(text.len());
                if text.is_char_boundary(from) && text.is_char_boundary(to) {
                    text.replace_range(from..to, pieces[draw(pieces.len())]);
                }
            }
            if let Err(problems) = ConfigFile::parse(&text, Path::new("f")) {
                assert!(problems.iter().all(|problem| problem.starts_with("f:")), "{problems:?}");
                assert!(!problems.is_empty(), "{text}");
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_is_not_read() {
        let problems = ConfigFile::read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(problems, ["`/dev/zero` is a device; expected a file"]);
    }

    #[test]
    fn unquoted_texts_and_unlike_keys_are_answered_with_what_to_write() {
        check(
            "version = 1\n[run]\nsystem = null\n",
            &["dyno.toml:3: not valid TOML: invalid float, expected `nan`; texts need quotes"],
        );
        check(
            "version = 1\n[run]\nsystem = tract:a.onnx\n",
            &["dyno.toml:3: not valid TOML: invalid boolean, expected `true`; texts need quotes"],
        );
        check(
            "version = 1\n[run]\nurl = \"http://h:1\"\n[limits]\np99 = \"1s\"\n",
            &[
                "dyno.toml:4: unknown key `limits`; expected one of version, run, settings, \
                 scenario, tenants, sweep",
                "dyno.toml:3: unknown key `url` in [run]; dyno init --all lists the keys",
            ],
        );
    }

    #[test]
    fn problems_name_line_key_and_nearest_key() {
        check("version = 1\n[run]\nsystem = \"null\"\n", &[]);
        check("[run]\n", &["dyno.toml:1: the file must have `version = 1`"]);
        check(
            "version = 1\n\n[settings]\nserver_target_qsp = 5\n[run]\nsytem = \"null\"\n",
            &[
                "dyno.toml:6: unknown key `sytem` in [run]; the nearest key is `system`",
                "dyno.toml:4: unknown key `server_target_qsp`; the nearest key is \
                 `server_target_qps`",
            ],
        );
        check(
            "version = 1\nsystem = \"null\"\nmin_query_count = 1\nrnu = 1\n\
             [run]\nrequest_rate = 4\n",
            &[
                "dyno.toml:3: `min_query_count` belongs below [settings]",
                "dyno.toml:4: unknown key `rnu`; the nearest key is `run`",
                "dyno.toml:6: unknown key `request_rate` in [run]; the nearest key is `qps`",
                "dyno.toml:2: `system` belongs below [run]",
            ],
        );
        check(
            "version = 1\n[run]\nout = \"\"\n",
            &["dyno.toml:3: `out`: expected a folder, found an empty text"],
        );
        check(
            "version = 1\nscenario = \"Server\"\n",
            &["dyno.toml:2: `scenario` belongs below [run]"],
        );
        check(
            "version = 1\n[settings.server]\nmin_query_count = 1\n",
            &["dyno.toml:2: [settings.server]: use [scenario.Server]"],
        );
        check(
            "version = 1\nrequire = \"p99<=1s\"\n[run]\nserver_ttft_latency = \"1s\"\n\
             [settings]\nrequire = \"p99<=1s\"\n",
            &[
                "dyno.toml:2: `require` belongs below [run]",
                "dyno.toml:4: unknown key `server_ttft_latency` in [run]; it belongs to [settings]",
                "dyno.toml:6: unknown key `require` in [settings]; it belongs to [run]",
            ],
        );
        check(
            "version = 1\n[[tenants]]\nname = \"a\"\nserver_target_qps = 5\n",
            &["dyno.toml:4: unknown key `server_target_qps` in [[tenants]]; it belongs to \
               [tenants.settings]"],
        );
        check(
            "version = 1\n[scenario.Server]\nmin_query_count = \"many\"\n",
            &["dyno.toml:3: `min_query_count`: cannot read `many`, expected a whole number"],
        );
        check(
            "version = 1\n[[tenants]]\nname = \"a\"\n[[tenants]]\nname = \"a\"\n",
            &["dyno.toml:4: each of [[tenants]] needs a unique `name`"],
        );
        check(
            &format!("version = 1\n[[tenants]]\nname = \"{}\"\n", "n".repeat(201)),
            &[
                "dyno.toml:2: the `name` of a tenant, which names the folder of its results, has at \
               most 200 bytes, found 201",
            ],
        );
    }

    #[test]
    fn a_later_section_is_for_one_scenario() {
        let text = "version = 1\n[settings]\nmin_duration_ms = \"10s\"\n\
                    [scenario.Server]\nserver_target_qps = 1_000.5\n";
        let file = ConfigFile::parse(text, Path::new("x")).unwrap();
        let of = |a: &Assignment| (a.scenario, a.key, a.value.clone());
        let got: Vec<_> = file.settings.iter().map(of).collect();
        assert!(got.contains(&(None, "min_duration_ms", "10000".into())), "{got:?}");
        let server = (Some(Scenario::Server), "server_target_qps", "1000.5".into());
        assert!(got.contains(&server), "{got:?}");
    }
}
