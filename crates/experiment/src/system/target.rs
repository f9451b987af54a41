//! Reads the argument that names what a command measures: a system, a model file or a server.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use dyno_loadgen::settings::similar;
use dyno_rules::Round;
use dyno_task::card;

use super::kind::{SYSTEMS, SystemKind};
use crate::failure::Failure;

/// What a command measures.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// Specification of a system, such as `onnx:model.onnx`.
    System(String),
    /// URL of a server whose kind is unknown, with its scheme; keys may follow.
    Server(String),
}

impl Target {
    /// Reads an argument such as `onnx:model.onnx`, `model.onnx` or `localhost:8000`. A word without a
    /// scheme, a port or a dot is no host, apart from `localhost`. `commands` are names that are
    /// recognized as those of commands.
    ///
    /// # Errors
    /// A file that no system loads as it is, or a name that does not exist; with what to write
    /// instead.
    pub fn read(argument: &str, commands: &[&str]) -> Result<Self, Failure> {
        let argument = argument.trim();
        if argument.is_empty() {
            return Err(Failure::usage("expected a system, a model file or a server").hint(TARGETS));
        }
        let server = || Ok(Self::Server(format!("http://{argument}")));
        let (name, operand) = argument.split_once(':').unwrap_or((argument, ""));
        if is_url(argument) {
            return Ok(Self::Server(argument.to_owned()));
        }
        if argument.parse::<Ipv6Addr>().is_ok() {
            return Ok(Self::Server(format!("http://[{argument}]")));
        }
        if let Some((scheme @ ("http" | "https"), rest)) = argument.split_once("//") {
            let problem = format!("`{argument}` is not a URL; use {scheme}://{rest}");
            return Err(Failure::usage(problem));
        }
        // An address of IPv6 with a port begins with a bracket.
        if is_port(operand) || argument.starts_with('[') {
            return server();
        }
        if SystemKind::named(name).is_some() {
            return Ok(Self::System(argument.to_owned()));
        }
        let file = file_of(argument);
        if Path::new(file).is_dir() {
            return Err(folder(file));
        }
        if is_like_onnx(file) && !argument.contains(':') {
            if !Path::new(file).exists() {
                return Err(no_file(file));
            }
            if extension(file).as_deref() == Some("onnx") {
                return Ok(Self::System(format!("onnx:{argument}")));
            }
        }
        if let Some(problem) = wrong_file(argument) {
            return Err(problem);
        }
        let is_path = argument.starts_with(['.', '/', '~']) || Path::new(file).is_file();
        if is_path {
            let problem = Failure::usage(format!("{file} is not an ONNX model")).hint(TARGETS);
            return Err(if Path::new(file).exists() { problem } else { no_file(file) });
        }
        if is_host(file) {
            return server();
        }
        if !file.contains(':') {
            return Err(unknown_word(file, commands));
        }
        Err(Failure::usage(unknown_system(argument)).hint(systems()))
    }
}

/// Returns whether a text begins with the scheme of a URL, and not with the name of a system.
pub(super) fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric()) && SystemKind::named(scheme).is_none()
    })
}

/// What an argument may be, as a hint.
const TARGETS: &str = "dyno run MODEL.onnx measures a model, dyno run http://HOST:PORT a server";

/// Programs that serve models, in lower case, each with its default port.
const SERVERS: [(&str, u16); 7] = [
    ("vllm", 8000),
    ("sglang", 30000),
    ("ollama", 11434),
    ("llama-server", 8080),
    ("triton", 8000),
    ("trtllm-serve", 8000),
    ("lmstudio", 1234),
];

/// Returns the default port of a program that serves models, by its name in lower case.
fn default_port(name: &str) -> Option<u16> {
    SERVERS.iter().find(|(known, _)| *known == name).map(|(_, port)| *port)
}

/// Most names of a folder that are compared with a name that does not exist.
const MOST_NAMES: usize = 1_000;

fn no_file(file: &str) -> Failure {
    let failure = Failure::set_up(format!("file {file} does not exist"));
    let path = Path::new(file);
    let parent = path.parent().unwrap_or(Path::new(""));
    let names = names_in(parent);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match similar(name, names.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("the nearest is {}", parent.join(near).display())),
        None => failure.hint(TARGETS),
    }
}

/// Returns the failure of a folder, with what to do with its contents.
fn folder(folder: &str) -> Failure {
    let names = names_in(Path::new(folder));
    let path = |name: &str| Path::new(folder).join(name).display().to_string();
    let model = names.iter().find(|name| extension(name).as_deref() == Some("onnx"));
    let has = |name: &str| names.iter().any(|found| found == name);
    let hint = match model {
        Some(model) => format!("measure the model in it: dyno run {}", path(model)),
        None if has("summary.json") => {
            format!("it holds the results of a run: dyno report {folder}")
        }
        None if has("config.json") => format!(
            "start a server of the model in it, such as vllm serve {folder}, then dyno run \
             http://127.0.0.1:8000"
        ),
        None => TARGETS.to_owned(),
    };
    Failure::usage(format!("{folder} is a folder, not a system, a model file or a server"))
        .hint(hint)
}

/// Returns the names of the files in a folder, sorted; the working directory has an empty path.
fn names_in(folder: &Path) -> Vec<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_NAMES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Returns the failure of a word that names neither a system, a file nor a server, with the most
/// similar name of a system, task, model file, benchmark or command.
fn unknown_word(word: &str, commands: &[&str]) -> Failure {
    let lower = word.to_ascii_lowercase();
    let names = known_names(&lower, commands);
    let near = similar(&lower, names.iter().map(|(name, _)| name.as_str()));
    let advice = names.iter().find(|(name, _)| Some(name.as_str()) == near);
    let failure = Failure::usage(format!("`{word}` is not a system, a model file or a server"));
    let failure = match (default_port(&lower), advice) {
        (Some(port), _) => failure.hint(format!(
            "start a server with {word}, then dyno run http://127.0.0.1:{port}, or use its HOST:PORT"
        )),
        (None, Some((_, advice))) => failure.hint(advice),
        (None, None) => failure.hint(TARGETS).hint(format!(
            "if it is the name of a model, start a server of it, such as vllm serve {word}, then \
             dyno run http://127.0.0.1:8000"
        )),
    };
    failure.hint(format!("if it is a host, use dyno run http://{word}"))
}

/// Returns known names in lower case, each with what to write for it. A benchmark is among them if it is the word:
/// names of models resemble each other.
fn known_names(word: &str, commands: &[&str]) -> Vec<(String, String)> {
    let systems = SYSTEMS.into_iter();
    let mut names: Vec<(String, String)> = systems
        .map(|kind| (kind.name.to_owned(), format!("use the system {}", kind.grammar())))
        .collect();
    let tasks = card::cards().iter().map(|card| &card.name);
    names.extend(tasks.map(|task| (task.clone(), format!("use the task: dyno run task:{task}"))));
    let files = names_in(Path::new(""));
    let models = files.iter().filter(|name| extension(name).as_deref() == Some("onnx"));
    names.extend(models.filter_map(|file| {
        let stem = Path::new(file).file_stem()?.to_str()?.to_ascii_lowercase();
        Some((stem, format!("use the model file: dyno run {file}")))
    }));
    let rounds = Round::names();
    if let Some(name) = rounds.last()
        && let Ok(round) = Round::named(name)
    {
        let same = round.benchmarks.iter().filter(|one| one.name.eq_ignore_ascii_case(word));
        names.extend(same.map(|benchmark| {
            let advice = format!(
                "it is a benchmark of MLPerf; add the system: dyno run SYSTEM --round {name} \
                 --benchmark {}",
                benchmark.name
            );
            (benchmark.name.to_ascii_lowercase(), advice)
        }));
    }
    names.extend(commands.iter().map(|name| ((*name).to_owned(), format!("use dyno {name}"))));
    names
}

/// Returns the names of all systems, as a hint.
pub(super) fn systems() -> String {
    let names: Vec<&str> = SYSTEMS.into_iter().map(|kind| kind.name).collect();
    format!("expected one of {}; see dyno info systems", names.join(", "))
}

/// Returns why a specification names no system, with the specification that was probably meant.
pub(super) fn unknown_system(spec: &str) -> String {
    let (name, operand) = spec.split_once(':').unwrap_or((spec, ""));
    if matches!(name, "http" | "https") && !operand.starts_with("//") {
        let host = operand.trim_start_matches('/');
        let host = if host.is_empty() { "HOST:PORT" } else { host };
        return format!("`{spec}` is not a URL; use {name}://{host}");
    }
    if matches!(name, "http" | "https") {
        return format!(
            "`{spec}` is a URL, not a system; use openai:{spec} for a server of language models, \
             or dyno run {spec}, which identifies the server"
        );
    }
    if is_drive(name) && operand.starts_with(['\\', '/']) {
        let (drive, path) = (name.to_ascii_lowercase(), operand.replace('\\', "/"));
        return format!(
            "`{spec}` is a path of Windows; use the path on this machine, such as \
             /mnt/{drive}{path}"
        );
    }
    if extension(name).as_deref() == Some("py") {
        return format!("`{spec}` is not a system; use py:{spec}");
    }
    if name == "tokens" {
        return "`tokens` is a system of dyno serve only; start dyno serve --system tokens:, then \
                dyno run http://127.0.0.1:8000"
            .into();
    }
    if extension(file_of(spec)).as_deref() == Some("onnx") && operand.is_empty() {
        return format!("`{spec}` is a file, not a system; use onnx:{spec}");
    }
    let lower = name.to_ascii_lowercase();
    if let Some(port) = default_port(&lower) {
        let url = if is_url(operand) { operand.to_owned() } else { format!("http://HOST:{port}") };
        return format!(
            "`{name}` is not a system; use dyno run {url}, which identifies the server"
        );
    }
    let near = similar(&lower, SYSTEMS.into_iter().map(|kind| kind.name));
    let near = near.filter(|near| near.chars().next() == lower.chars().next());
    match near {
        Some(near) if operand.is_empty() => {
            format!("unknown system `{name}`; the nearest is `{near}`")
        }
        Some(near) => format!("unknown system `{name}`; use {near}:{operand}"),
        None if is_url(operand) => {
            format!("unknown system `{name}`; use dyno run {operand}, which identifies the server")
        }
        None => format!("unknown system `{name}`"),
    }
}

/// Returns whether a text is a letter, as the name of a drive of Windows.
fn is_drive(name: &str) -> bool {
    name.len() == 1 && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns the failure for a file of a format that no system loads as it is.
fn wrong_file(argument: &str) -> Option<Failure> {
    let file = file_of(argument);
    let hint = match extension(file)?.as_str() {
        "toml" => format!("dyno run --config {file} runs a configuration"),
        "pt" | "pth" | "ckpt" | "bin" | "safetensors" => {
            "convert it to ONNX with torch.onnx.export, then dyno run MODEL.onnx".into()
        }
        "gguf" => format!("start llama-server --model {file}, then dyno run http://127.0.0.1:8080"),
        "tflite" | "pb" | "h5" | "keras" => {
            "convert it to ONNX with tf2onnx, then dyno run MODEL.onnx".into()
        }
        "engine" | "plan" => {
            "serve it with Triton Inference Server, then dyno run http://HOST:8000".into()
        }
        "jsonl" | "json" | "csv" | "npy" | "npz" => {
            format!("pass samples of a system with --data: dyno run MODEL.onnx --data {file}")
        }
        "py" => format!("dyno run py:{file}:FUNCTION measures a function of Python"),
        "so" => format!("dyno run plugin:{file} measures an engine behind the C interface"),
        "pkl" | "pickle" | "joblib" => {
            "convert a model of scikit-learn to ONNX with skl2onnx, then dyno run MODEL.onnx".into()
        }
        "mlmodel" | "ort" => {
            "export the original model as ONNX instead, then dyno run MODEL.onnx".into()
        }
        "js" | "mjs" | "lua" | "jmx" => {
            "pass the URL of its server: dyno run http://HOST:PORT, or dyno run \
             raw:http://HOST:PORT/PATH for any request"
                .into()
        }
        "yaml" | "yml" => {
            "dyno init writes a configuration, and dyno run --config dyno.toml runs it".into()
        }
        "gz" | "tgz" | "tar" | "zip" | "xz" | "zst" => {
            "unpack it, then measure the model in it: dyno run MODEL.onnx".into()
        }
        "xml" => "convert it to ONNX, or serve it and use dyno run http://HOST:8000".into(),
        _ => return None,
    };
    Some(Failure::usage(format!("{file} is not a system that Dyno measures")).hint(hint))
}

/// Returns the file of a specification without a name, before keys such as `,threads=1`.
fn file_of(argument: &str) -> &str {
    argument.split(',').next().unwrap_or(argument)
}

fn extension(file: &str) -> Option<String> {
    let extension = Path::new(file).extension()?.to_str()?;
    Some(extension.to_ascii_lowercase())
}

/// Returns whether a name has the extension of ONNX files, perhaps misspelled.
fn is_like_onnx(file: &str) -> bool {
    extension(file).is_some_and(|given| similar(&given, ["onnx"].into_iter()).is_some())
}

/// Returns whether a text without a scheme and a port begins with a host: `localhost`, an address of
/// IPv4, or a domain, the last label of which has two letters or more.
fn is_host(text: &str) -> bool {
    let host = text.split(['/', '?']).next().unwrap_or(text);
    if host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    host.rsplit_once('.').is_some_and(|(labels, last)| {
        labels.split('.').all(is_label)
            && last.len() > 1
            && last.chars().all(|c| c.is_ascii_alphabetic())
    })
}

/// Returns whether what follows the first colon is a port, and perhaps a path or keys.
fn is_port(operand: &str) -> bool {
    let digits = operand.bytes().take_while(u8::is_ascii_digit).count();
    let (port, rest) = operand.split_at(digits);
    port.parse::<u16>().is_ok() && (rest.is_empty() || rest.starts_with(['/', ',', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: [&str; 2] = ["probe", "help"];

    fn read(argument: &str) -> Target {
        Target::read(argument, &COMMANDS).unwrap()
    }

    fn problem(argument: &str) -> String {
        let failure = Target::read(argument, &COMMANDS).unwrap_err();
        format!("{} {}", failure.problems().join(" "), failure.hints().join(" "))
    }

    #[test]
    fn systems_and_servers_are_told_apart() {
        for server in ["http://localhost:8000", "https://a/v1,model=m"] {
            assert_eq!(read(server), Target::Server(server.into()), "{server}");
        }
        for server in [
            "localhost",
            "localhost:8000",
            "localhost:8000,proxy=http://p:1",
            "model:8000",
            "task:80/v1,model=m",
            "10.0.0.1:8000",
            "[::1]:9",
            "gpu-3:80",
            "LOCALHOST/v1,model=m",
            "10.0.0.1",
            "gpu-3.example.org",
            "api.example.com/v1,model=a/b",
        ] {
            assert_eq!(read(server), Target::Server(format!("http://{server}")), "{server}");
        }
        for system in [
            "digits",
            "null",
            "onnx:a.onnx,threads=1",
            "model:exponential=2ms",
            "rnn:a.onnx",
            "openai:http://h:1/v1,model=m",
        ] {
            assert_eq!(read(system), Target::System(system.into()), "{system}");
        }
    }

    #[test]
    fn spaces_around_a_target_are_ignored() {
        assert_eq!(read(" http://h:1 "), Target::Server("http://h:1".into()));
        assert_eq!(read("digits "), Target::System("digits".into()));
        assert!(problem(" ").contains("expected a system, a model file or a server"));
    }

    #[test]
    fn an_address_without_brackets_is_a_server() {
        assert_eq!(read("::1"), Target::Server("http://[::1]".into()));
    }

    #[test]
    fn a_word_is_no_host_and_is_answered_with_the_nearest_name() {
        for (argument, expected) in [
            ("digitz", "use the system digits"),
            ("Digits", "use the system digits"),
            ("onnnx", "use the system onnx:"),
            ("g2p", "dyno run task:g2p"),
            ("resnet50-shap", "dyno run task:resnet50-shape"),
            ("help", "use dyno help"),
            ("prob", "use dyno probe"),
            ("bert-base-uncased", "vllm serve bert-base-uncased"),
            ("meta-llama/Llama-3.1-8B", "vllm serve meta-llama/Llama-3.1-8B"),
            ("gpu-server-3", "use dyno run http://gpu-server-3"),
            ("Qwen2.5-7B", "vllm serve Qwen2.5-7B"),
            ("v1.", "is not a system"),
        ] {
            let problem = problem(argument);
            assert!(problem.contains(expected), "{argument}: {problem}");
            assert!(problem.contains("is not a system, a model file or a server"), "{problem}");
        }
    }

    #[test]
    fn a_benchmark_is_answered_with_its_flags() {
        let newest = Round::named(Round::names().last().unwrap()).unwrap();
        let is_other =
            |name: &str| card::named(name).is_none() && SystemKind::named(name).is_none();
        let mut names = newest.benchmarks.iter().map(|benchmark| &benchmark.name);
        let name = names.find(|name| is_other(name)).unwrap();
        let problem = problem(name);
        assert!(problem.contains(&format!("--benchmark {name}")), "{problem}");
    }

    #[test]
    fn a_folder_is_answered_with_what_it_holds() {
        let folder =
            std::env::temp_dir().join(format!("dyno-target-folder-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.display().to_string();
        let check = |expected: &str| {
            let problem = problem(&path);
            assert!(problem.contains("is a folder") && problem.contains(expected), "{problem}");
        };
        check("dyno run MODEL.onnx");
        for (name, expected) in [
            ("config.json", "vllm serve"),
            ("summary.json", "dyno report"),
            ("lenet.onnx", "lenet.onnx"),
        ] {
            std::fs::write(folder.join(name), "").unwrap();
            check(expected);
        }
        let near = problem(&folder.join("lenett.onx").display().to_string());
        let model = folder.join("lenet.onnx").display().to_string();
        assert!(near.contains("does not exist") && near.contains(&model), "{near}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_onnx_file_is_a_system() {
        let file = std::env::temp_dir().join(format!("dyno-target-{}.ONNX", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let path = file.display().to_string();
        assert_eq!(read(&path), Target::System(format!("onnx:{path}")));
        let keyed = format!("{path},ep=cpu");
        assert_eq!(read(&keyed), Target::System(format!("onnx:{keyed}")));
        std::fs::remove_file(file).unwrap();
        assert!(problem(&path).contains("does not exist"), "{}", problem(&path));
    }

    #[test]
    fn mistakes_name_what_was_meant() {
        for (argument, expected) in [
            ("onx:a.onnx", "use onnx:a.onnx"),
            ("opneai:https//x", "use openai:"),
            ("opneai:https://x", "use openai:https://x"),
            ("http:/localhost:8000", "use http://localhost:8000"),
            ("https:h:1", "use https://h:1"),
            ("http:", "use http://HOST:PORT"),
            ("m.onx", "does not exist"),
            ("x.npy", "dyno run MODEL.onnx --data x.npy"),
            ("system.py", "dyno run py:system.py:FUNCTION"),
            ("model.py:predict", "use py:model.py:predict"),
            ("ONNX:a.onnx", "use onnx:a.onnx"),
            ("C:\\models\\a.onnx", "a path of Windows"),
            ("d:/a.onnx", "a path of Windows"),
            ("http//localhost:8000", "use http://localhost:8000"),
            ("https//localhost/v1", "use https://localhost/v1"),
            ("m.gguf", "llama-server"),
            ("m.pt", "torch.onnx.export"),
            ("m.pkl", "skl2onnx"),
            ("script.js", "dyno run raw:http://HOST:PORT/PATH"),
            ("plan.jmx", "dyno run raw:http://HOST:PORT/PATH"),
            ("forest.joblib", "skl2onnx"),
            ("m.mlmodel", "export the original model as ONNX"),
            ("run.yaml", "dyno init"),
            ("m.onnx.gz", "unpack it"),
            ("vllm", "dyno run http://127.0.0.1:8000"),
            ("Ollama", "dyno run http://127.0.0.1:11434"),
            ("vllm:http://h:1", "use dyno run http://h:1, which identifies the server"),
            ("triton:http://h:1", "use dyno run http://h:1, which identifies the server"),
            ("server:http://h:1", "use dyno run http://h:1, which identifies the server"),
            ("dyno.toml", "--config dyno.toml"),
            ("tokens:first=1ms", "dyno serve --system tokens:"),
        ] {
            let problem = problem(argument);
            assert!(problem.contains(expected), "{argument}: {problem}");
        }
        assert_eq!(
            unknown_system("conv.onnx"),
            "`conv.onnx` is a file, not a system; use onnx:conv.onnx"
        );
        assert_eq!(unknown_system("llama"), "unknown system `llama`");
        assert_eq!(
            unknown_system("sglang"),
            "`sglang` is not a system; use dyno run http://HOST:30000, which identifies the server"
        );
    }
}
