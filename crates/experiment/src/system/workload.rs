//! What the requests to a server contain, as far as options determine it, and which files a run
//! reads, for comparisons.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::tuned;
use crate::options::RunOptions;

/// Keys of servers that determine what requests contain, and when they are sent or cancelled. Members
/// of the request (`KEY:=JSON`) do so, too.
const KEYS: [&str; 34] = [
    "api",
    "body",
    "cancel",
    "documents",
    "every",
    "exact-input",
    "force-output",
    "groups",
    "history",
    "ids",
    "image",
    "input",
    "lengths",
    "max-tokens",
    "models",
    "output",
    "prefix",
    "prompt-column",
    "repeat",
    "row-members",
    "sequences",
    "sessions",
    "speed",
    "split",
    "steps",
    "stream",
    "template",
    "think",
    "tools",
    "tools-delay",
    "tools-result",
    "turns",
    "unique-prefix",
    "without",
];

/// Returns the keys of a server and hashes of its data, such as `input=32, data=1f09ab34`; empty if
/// everything has its default.
pub(super) fn workload(spec: &str, run: &RunOptions) -> String {
    // A part without `=` continues the value before it, which contains a comma.
    let mut keys: Vec<String> = Vec::new();
    for part in spec.split(',').skip(1) {
        match keys.last_mut().filter(|_| !part.contains('=')) {
            Some(before) => *before += &format!(",{part}"),
            None => keys.push(part.to_owned()),
        }
    }
    let is_workload =
        |key: &str| KEYS.contains(&key) || key.ends_with(':') || key.starts_with("body-");
    keys.retain(|pair| pair.split_once('=').is_some_and(|(key, _)| is_workload(key)));
    // Without a rate, the limit is the load itself.
    if let Some(most) = run.max_concurrency
        && (run.qps.is_some() || run.stages.is_some())
    {
        keys.push(format!("max-concurrency={most}"));
    }
    keys.sort();
    for (name, path) in &run.data {
        let name = name.as_deref().unwrap_or("data");
        // The path stands for a folder, and for a file that cannot be read any more.
        let hash = hash(path).unwrap_or_else(|_| path.display().to_string());
        keys.push(format!("{name}={hash}"));
    }
    keys.join(", ")
}

/// Returns hashes of the files of samples, labels and references by their use; empty if there are
/// none, or one is not a file that can be read again.
pub(super) fn files(spec: &str, run: &RunOptions) -> BTreeMap<String, String> {
    let data = run.data.iter().map(|(name, path)| match name {
        Some(name) => (format!("data {name}"), path),
        None => ("data".to_owned(), path),
    });
    let lengths =
        spec.strip_prefix("tuned:").and_then(|operand| tuned::parse(operand).ok()?.lengths);
    let lengths = lengths.iter().map(|path| ("data lengths".to_owned(), path));
    let labels = run.labels.iter().map(|path| ("labels".to_owned(), path));
    let references = run.with.iter().filter(|(name, _)| name == "reference");
    let references = references.map(|(name, path)| (name.clone(), path));
    let hashed = |(name, path): (String, &PathBuf)| {
        let hash = path.is_file().then(|| hash(path).ok()).flatten()?;
        Some((name, hash))
    };
    let all = data.chain(lengths).chain(labels).chain(references);
    all.map(hashed).collect::<Option<_>>().unwrap_or_default()
}

/// Returns the first 32 bits of the SHA-256 of a file.
fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut dyno_tensors::files::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_requests_is_part_of_the_workload() {
        let none = RunOptions::default();
        let workload = |spec| workload(spec, &none);
        let first = "openai:http://a/v1,model=x,output=8,input=32,retries=2";
        let second = "openai:http://b/v1,input=32,model=y,token-env=T,output=8";
        assert_eq!(workload(first), "input=32, output=8");
        assert_eq!(workload(first), workload(second));
        assert_ne!(workload(first), workload("openai:http://a/v1,input=512,output=8"));
        assert_eq!(workload("oip:http://a/m"), "");
        let mix = workload("openai:http://a,lengths=8/4*2,16/8*1,model=x");
        assert_eq!(mix, "lengths=8/4*2,16/8*1");
        assert_eq!(workload("openai:http://a,temperature:=0.9,model=x"), "temperature:=0.9");
    }

    #[test]
    fn a_limit_beside_a_rate_changes_the_load() {
        let limited = RunOptions { max_concurrency: "8".parse().ok(), ..RunOptions::default() };
        let rate = RunOptions { stages: "9s@5".parse().ok(), ..limited.clone() };
        assert_eq!(workload("openai:http://a,output=8", &rate), "max-concurrency=8, output=8");
        assert_eq!(workload("openai:http://a,output=8", &limited), "output=8");
    }

    #[test]
    fn data_are_compared_by_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            RunOptions { data: vec![(None, path)], ..RunOptions::default() }
        };
        let [a, b, other] = [path("a", "x"), path("b", "x"), path("c", "y")];
        let workload = |run| workload("openai:http://a", run);
        assert_eq!(workload(&a), "data=2d711642");
        assert_eq!(workload(&a), workload(&b));
        assert_ne!(workload(&a), workload(&other));
        let named = RunOptions {
            data: vec![(Some("ids".into()), a.data[0].1.clone())],
            labels: Some(other.data[0].1.clone()),
            ..RunOptions::default()
        };
        let found = files("onnx:a.onnx", &named);
        assert_eq!(found["data ids"], "2d711642");
        assert!(found.contains_key("labels") && found.len() == 2, "{found:?}");
        let lengths = format!("tuned:model=a.onnx,lengths={}", b.data[0].1.display());
        assert_eq!(files(&lengths, &a)["data lengths"], "2d711642");
        // A folder has no hash, so that all is identified by name.
        let labels = Some(folder.path().to_owned());
        assert!(files("onnx:a.onnx", &RunOptions { labels, ..a }).is_empty());
    }
}
