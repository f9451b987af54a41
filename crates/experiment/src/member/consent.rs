//! What a remote coordinator may use through a worker: the flag `--allow`.
//!
//! A worker uses files, environment variables, libraries and servers that a coordinator names only
//! if it was started with a grant for them. A coordinator of the same user on the same machine needs no grants,
//! except for environment variables, which may hold secrets, and for servers if the worker names some.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use dyno_net::endpoint::Endpoint;

use crate::options::RunOptions;
use crate::system::{Resources, SystemKind, named_files};

/// The grammar of `--allow`, for help texts.
pub const GRAMMAR: &str = "\x20 --allow files              any file that this process can read
  --allow files:PATH         one file, or the files below a folder; links are resolved first
  --allow env:NAME           the environment variable NAME, such as that of token-env=NAME
  --allow libraries[:PATH]   a program library, such as that of --ort-lib
  --allow hosts              any server
  --allow hosts:HOST[:PORT]  one server; no coordinator may then name others
  --allow all                all of these";

/// One value of `--allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Everything.
    All,
    /// Files; only those below the path, if given.
    Files(Option<PathBuf>),
    /// An environment variable.
    Environment(String),
    /// Shared libraries; only those below the path, if given.
    Libraries(Option<PathBuf>),
    /// Servers; only this host, and only this port, if given.
    Hosts(Option<(String, Option<u16>)>),
}

/// A resource that a coordinator names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    File(PathBuf),
    Environment(String),
    Library(PathBuf),
    Host(String, u16),
}

/// Resources that a worker may use.
#[derive(Debug, Clone, Default)]
pub struct Consent {
    /// The values of `--allow`.
    pub grants: Vec<Grant>,
    /// Whether the coordinator belongs to this user, runs on this machine and is reached over loopback.
    pub is_local: bool,
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        if rest == Some("") {
            return Err(format!("nothing follows the colon of `{text}`"));
        }
        let path = || rest.map(PathBuf::from);
        match (kind, rest) {
            ("all", None) => Ok(Self::All),
            ("files" | "file", _) => Ok(Self::Files(path())),
            ("libraries" | "library", _) => Ok(Self::Libraries(path())),
            ("env", Some(name)) => Ok(Self::Environment(name.into())),
            ("env", None) => Err("name the variable: env:NAME".into()),
            ("hosts" | "host", None) => Ok(Self::Hosts(None)),
            ("hosts" | "host", Some(host)) => Ok(Self::Hosts(Some(host_and_port(host)?))),
            _ => {
                Err("expected files[:PATH], env:NAME, libraries[:PATH], hosts[:HOST[:PORT]] or all"
                    .into())
            }
        }
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let endpoint = url.parse::<Endpoint>().map_err(|error| format!("`{text}`: {error}"))?;
    // IPv6 addresses contain colons.
    let end = text.trim_end_matches('/');
    let has_port = end.ends_with(&format!(":{}", endpoint.port())) && !end.ends_with(']');
    let port = (has_port || text.contains("://")).then(|| endpoint.port());
    Ok((endpoint.host().to_ascii_lowercase(), port))
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "files:{}", path.display()),
            Self::Environment(name) => write!(f, "env:{name}"),
            Self::Library(path) => write!(f, "libraries:{}", path.display()),
            Self::Host(host, port) if host.contains(':') => write!(f, "hosts:[{host}]:{port}"),
            Self::Host(host, port) => write!(f, "hosts:{host}:{port}"),
        }
    }
}

impl Consent {
    /// Rejects a system that needs more than was granted.
    ///
    /// # Errors
    /// The missing grants, with the flags that give them.
    pub fn check(&self, run: &RunOptions) -> Result<(), String> {
        let needs = needs(run);
        let missing: Vec<String> = needs
            .iter()
            .filter(|need| !self.permits(need))
            .map(|need| format!("--allow {}", quoted(&need.to_string())))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "this worker may not use what the coordinator names; start it with {}",
            missing.join(" ")
        ))
    }

    fn permits(&self, need: &Need) -> bool {
        let needs_grant = match need {
            Need::Environment(_) => true,
            // A worker that names its servers loads no others.
            Need::Host(..) => {
                self.grants.iter().any(|grant| matches!(grant, Grant::Hosts(Some(_))))
            }
            Need::File(_) | Need::Library(_) => false,
        };
        (self.is_local && !needs_grant) || self.grants.iter().any(|grant| grant.covers(need))
    }
}

impl Grant {
    fn covers(&self, need: &Need) -> bool {
        match (self, need) {
            (Self::All, _)
            | (Self::Files(None), Need::File(_))
            | (Self::Libraries(None), Need::Library(_))
            | (Self::Hosts(None), Need::Host(..)) => true,
            (Self::Files(Some(of)), Need::File(path))
            | (Self::Libraries(Some(of)), Need::Library(path)) => is_below(path, of),
            (Self::Environment(own), Need::Environment(name)) => own == name,
            (Self::Hosts(Some((own, port))), Need::Host(host, other)) => {
                own == host && port.is_none_or(|port| port == *other)
            }
            _ => false,
        }
    }
}

/// Returns whether a path is below a folder or equal to it, after links are resolved. A file that
/// does not exist is below no folder, so that a rejection does not reveal which files exist.
fn is_below(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => false,
    }
}

/// Quotes a word for a shell if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+[]".contains(c);
    if word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the resources that the options of a coordinator name.
fn needs(run: &RunOptions) -> Vec<Need> {
    let spec = run.system.as_deref().unwrap_or_default();
    let resources = SystemKind::of_spec(spec).map(|(kind, operand)| (kind.resources)(operand));
    let Resources { urls, variables, libraries, .. } = resources.unwrap_or_default();
    let mut needs: Vec<Need> = urls.iter().map(|url| host(url)).collect();
    needs.extend(named_files(run).into_iter().map(Need::File));
    needs.extend(variables.into_iter().map(Need::Environment));
    needs.extend(run.ort_lib.iter().cloned().chain(libraries).map(Need::Library));
    needs
}

/// Returns the server of a URL. A text that is not a URL becomes a host that only a grant for all
/// servers covers.
fn host(url: &str) -> Need {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match format!("{scheme}://{authority}").parse::<Endpoint>() {
        Ok(endpoint) => Need::Host(endpoint.host().to_ascii_lowercase(), endpoint.port()),
        Err(_) => Need::Host(url.to_owned(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(system: &str) -> RunOptions {
        RunOptions { system: Some(system.into()), ..RunOptions::default() }
    }

    fn consent(grants: &[&str]) -> Consent {
        let grants = grants.iter().map(|grant| grant.parse().unwrap()).collect();
        Consent { grants, is_local: false }
    }

    #[test]
    fn every_kind_of_thing_is_found_and_named() {
        let needs =
            |run: &RunOptions| needs(run).iter().map(ToString::to_string).collect::<Vec<_>>();
        let raw = "raw:http://10.0.0.1/x?y=1,body=@/etc/shadow,ca=/c.pem,token-env=KEY,node=https://b,\
                   header.x=/not/a/file";
        assert_eq!(
            needs(&run(raw)),
            ["hosts:10.0.0.1:80", "hosts:b:443", "files:/c.pem", "files:/etc/shadow", "env:KEY"]
        );
        assert_eq!(needs(&run("raw:http://h:1,body=text")), ["hosts:h:1"]);
        assert_eq!(
            needs(&run("openai:http://[::1]:8000/v1,tokenizer=t.json,model=m,ignore_eos:=true")),
            ["hosts:[::1]:8000", "files:t.json"]
        );
        assert_eq!(
            needs(&run("openai:http://h:1,model=m,sessions=live,tools=./absent/tool --fast")),
            ["hosts:h:1", "libraries:./absent/tool"]
        );
        assert_eq!(needs(&run("oip-grpc:h:8001/m")), ["hosts:h:8001"]);
        assert_eq!(needs(&run("oip-grpc://h:8001/m")), ["hosts:h:8001"]);
        // Workers read no metrics pages: see `gather::server::unread`.
        let metrics = "openai:http://h:1,model=m,metrics=http://other:9/metrics";
        assert_eq!(needs(&run(metrics)), ["hosts:h:1"]);
        assert_eq!(needs(&run("onnx:/m.onnx")), ["files:/m.onnx"]);
        assert_eq!(needs(&run("tuned:model=a,formats=b")), ["files:a", "files:b"]);
        assert_eq!(needs(&run("rnn:/a.onnx#x@0+lstm:4x8")), ["files:/a.onnx"]);
        assert_eq!(needs(&run("digits")), [""; 0]);
        let all = RunOptions {
            model: Some("m".into()),
            data: vec![(Some("x".into()), "d".into())],
            labels: Some("l".into()),
            with: vec![("reference".into(), "w".into())],
            ort_lib: Some("lib.so".into()),
            ..run("onnx")
        };
        let expected = ["files:m", "files:d", "files:l", "files:w", "libraries:lib.so"];
        assert_eq!(needs(&all), expected);
    }

    #[test]
    fn a_refusal_names_the_flags_that_are_missing() {
        let spec = "raw:http://a:80/,body=@/etc/hostname,token-env=AWS_SECRET";
        let why = consent(&["hosts:a", "env:OTHER"]).check(&run(spec)).unwrap_err();
        assert!(why.ends_with("--allow files:/etc/hostname --allow env:AWS_SECRET"), "{why}");
        assert!(consent(&["hosts:A:80", "files", "env:AWS_SECRET"]).check(&run(spec)).is_ok());
        assert!(consent(&["all"]).check(&run(spec)).is_ok());
        assert!(consent(&["hosts:a:81"]).check(&run("raw:http://a:80/")).is_err());
        let local = Consent { is_local: true, ..Consent::default() };
        assert!(local.check(&run("raw:http://a:80/,body=@/etc/hostname")).is_ok());
        assert!(local.check(&run(spec)).unwrap_err().ends_with("with --allow env:AWS_SECRET"));
        // A worker that names its servers loads no others, also for a coordinator of its machine.
        let pinned = Consent { is_local: true, ..consent(&["hosts:a:80"]) };
        assert!(pinned.check(&run("raw:http://a/x,body=@/etc/hostname")).is_ok());
        let why = pinned.check(&run("raw:http://b/x")).unwrap_err();
        assert!(why.ends_with("--allow hosts:b:80"), "{why}");
    }

    #[test]
    #[cfg(unix)]
    fn links_do_not_lead_out_of_a_folder() {
        let folder = std::env::temp_dir().join(format!("dyno-consent-{}", std::process::id()));
        let inside = folder.join("inside");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("model.onnx"), b"x").unwrap();
        std::fs::write(folder.join("secret"), b"x").unwrap();
        std::os::unix::fs::symlink(folder.join("secret"), inside.join("link")).unwrap();
        let consent = consent(&[&format!("files:{}", inside.display())]);
        let is_allowed = |name: &str| {
            consent.check(&run(&format!("onnx:{}", inside.join(name).display()))).is_ok()
        };
        assert!(is_allowed("model.onnx"));
        for outside in ["link", "../secret", "../inside/../secret", "missing", "/etc/hostname"] {
            assert!(!is_allowed(outside), "{outside}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn grants_read_as_documented() {
        let read = |text: &str| text.parse::<Grant>();
        assert_eq!(read("file:/m"), Ok(Grant::Files(Some("/m".into()))));
        assert_eq!(read("hosts:[::1]"), Ok(Grant::Hosts(Some(("::1".into(), None)))));
        assert_eq!(read("hosts:[::1]:80"), Ok(Grant::Hosts(Some(("::1".into(), Some(80))))));
        assert_eq!(read("hosts:h:443"), Ok(Grant::Hosts(Some(("h".into(), Some(443))))));
        assert_eq!(read("host:h"), Ok(Grant::Hosts(Some(("h".into(), None)))));
        for wrong in ["env", "files:", "hosts:", "every", "all:x", "hosts:h:x", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
