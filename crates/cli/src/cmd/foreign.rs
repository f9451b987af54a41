//! Flags of other load generators, with what Dyno has instead: those of vLLM bench, aiperf,
//! guidellm, wrk, oha and k6.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands that measure a server.
const COMMANDS: [&str; 5] = ["run", "probe", "search", "sweep", "compare"];

const URL: &str = "pass the URL without a flag: dyno run http://HOST:PORT";
const RATE: &str = "use --request-rate RATE";
const ARRIVALS: &str = "use --request-rate RATE for random arrivals, --max-concurrency N for a \
                        fixed number in flight, or --sweep for several loads";
const CONCURRENCY: &str = "use --max-concurrency N";
const REQUESTS: &str = "use --num-prompts N";
const DURATION: &str = "use --duration TIME, such as --duration 60s";
const WARM_UP: &str = "use --warm-up N";
const RAMP: &str = "use --ramp TIME";
const INPUT: &str = "add input=N to the URL: dyno run http://HOST:PORT,input=N";
const OUTPUT: &str = "add output=N to the URL: dyno run http://HOST:PORT,output=N; with \
                      force-output=true answers have exactly this length";
const LIMIT: &str = "add max-tokens=N to the URL: dyno run http://HOST:PORT,max-tokens=N";
const PREFIX: &str = "add prefix=N to the URL: dyno run http://HOST:PORT,prefix=N";
const DATA: &str = "use --data FILE; without it, prompts are random words";
const TOKEN: &str = "add token-env=NAME to the URL: dyno run http://HOST:PORT,token-env=NAME, \
                     where NAME is the environment variable with the token";
const HEADER: &str = "add header.NAME=TEXT to the URL: dyno run http://HOST:PORT,header.NAME=TEXT";
const MEMBER: &str = "add KEY:=JSON to the URL: dyno run 'http://HOST:PORT,temperature:=0'";
const INTERFACE: &str = "Dyno identifies the server; api=NAME selects another interface: \
                         dyno run http://HOST:PORT,api=chat";
const STREAMING: &str = "Dyno streams by default; stream=false disables it: \
                         dyno run http://HOST:PORT,stream=false";
const TOKENIZER: &str =
    "add tokenizer=FILE.json to the URL: dyno run http://HOST:PORT,tokenizer=FILE.json";
const TIMEOUT: &str = "add timeout=TIME to the URL: dyno run http://HOST:PORT,timeout=30s";
const SESSIONS: &str =
    "add sessions=live to the URL: dyno run http://HOST:PORT,sessions=live,turns=N";
const OUT: &str = "use --out DIR; each run writes summary.json and report.html";

/// Flags, each with the advice. Their names differ from those of Dyno.
const FLAGS: &[(&str, &str)] = &[
    ("--api-key", TOKEN),
    ("--arrival-pattern", ARRIVALS),
    ("--artifact-dir", OUT),
    ("--auth-token", TOKEN),
    ("--backend", INTERFACE),
    ("--base-url", URL),
    ("--benchmark-duration", DURATION),
    ("--concurrency", CONCURRENCY),
    ("--connections", CONCURRENCY),
    ("--conversation-num", SESSIONS),
    ("--conversation-turn-mean", SESSIONS),
    ("--custom-output-len", OUTPUT),
    ("--dataset", DATA),
    ("--dataset-name", DATA),
    ("--dataset-path", DATA),
    (
        "--disable-keepalive",
        "add keep-alive=false to the URL: dyno run http://HOST:PORT,keep-alive=false",
    ),
    ("--disable-tqdm", "use --no-progress"),
    ("--endpoint", URL),
    ("--endpoint-type", INTERFACE),
    ("--extra-body", MEMBER),
    ("--extra-inputs", MEMBER),
    ("--header", HEADER),
    ("--host", URL),
    (
        "--ignore-eos",
        "add force-output=true to the URL: dyno run http://HOST:PORT,force-output=true",
    ),
    ("--input-file", DATA),
    ("--input-len", INPUT),
    ("--isl", INPUT),
    ("--iterations", REQUESTS),
    ("--latency-correction", "remove it: latency always counts from the scheduled time"),
    ("--max-requests", REQUESTS),
    ("--max-seconds", DURATION),
    ("--max-tokens", LIMIT),
    ("--no-tui", "use --no-progress"),
    ("--num-requests", REQUESTS),
    ("--num-warmups", WARM_UP),
    ("--osl", OUTPUT),
    ("--output-artifact-dir", OUT),
    ("--output-dir", OUT),
    ("--output-len", OUTPUT),
    ("--output-path", OUT),
    ("--output-tokens-mean", OUTPUT),
    ("--port", URL),
    ("--prefix-prompt-length", PREFIX),
    ("--processor", TOKENIZER),
    ("--query-per-second", RATE),
    ("--ramp-up-strategy", RAMP),
    ("--rampup", RAMP),
    ("--random-input-len", INPUT),
    ("--random-output-len", OUTPUT),
    ("--random-prefix-len", PREFIX),
    ("--random-seed", "use --seed N"),
    ("--rate", RATE),
    ("--rate-type", ARRIVALS),
    ("--ready-check-timeout-sec", "use --ready-timeout TIME"),
    ("--request-count", REQUESTS),
    ("--request-rate-mode", ARRIVALS),
    ("--request-timeout-seconds", TIMEOUT),
    ("--requests", REQUESTS),
    ("--result-dir", OUT),
    ("--rps", RATE),
    ("--save-result", OUT),
    ("--streaming", STREAMING),
    ("--synthetic-input-tokens-mean", INPUT),
    ("--target", URL),
    ("--temperature", MEMBER),
    ("--timeout", TIMEOUT),
    ("--tokenizer", TOKENIZER),
    ("--url", URL),
    ("--vus", CONCURRENCY),
    ("--warmup", WARM_UP),
    ("--warmup-request-count", WARM_UP),
    ("-H", HEADER),
    ("-c", CONCURRENCY),
];

/// Replaces the suggestion for an unknown flag of `command` if other load generators have this
/// flag: names that look alike often mean something else.
pub fn with_advice(mut error: Error, command: &str) -> Error {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && COMMANDS.contains(&command);
    let Some(ContextValue::String(flag)) =
        error.get(ContextKind::InvalidArg).filter(|_| is_unknown)
    else {
        return error;
    };
    let Some((_, advice)) = FLAGS.iter().find(|(name, _)| name == flag) else { return error };
    error.remove(ContextKind::SuggestedArg);
    // The usage shows the flag that was suggested.
    error.remove(ContextKind::Usage);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*advice).into()]));
    error
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cmd::{Dyno, command_line};

    /// Returns the message for a flag of `dyno run`.
    fn message(flag: &str) -> String {
        let arguments = ["dyno", "run", "http://h:1", flag, "8"];
        Dyno::read(arguments.iter().map(OsString::from).collect()).unwrap_err().to_string()
    }

    #[test]
    fn flags_of_other_tools_are_answered_with_those_of_dyno() {
        for (flag, expected) in [
            ("--rate", "use --request-rate RATE"),
            ("--input-len", "http://HOST:PORT,input=N"),
            ("--max-tokens", "http://HOST:PORT,max-tokens=N"),
            ("--api-key", "http://HOST:PORT,token-env=NAME"),
            ("--dataset-name", "use --data FILE"),
            ("-c", "use --max-concurrency N"),
        ] {
            let message = message(flag);
            assert!(message.contains(&format!("unexpected argument '{flag}'")), "{message}");
            assert!(message.contains(expected) && !message.contains("Usage"), "{message}");
            assert!(!message.contains("similar") && !message.contains("'-- "), "{message}");
        }
        let own = message("--max-concurency");
        assert!(own.contains("a similar argument exists: '--max-concurrency'"), "{own}");
    }

    #[test]
    fn advice_is_for_foreign_flags_and_names_our_own() {
        let dyno = command_line();
        let run = dyno.find_subcommand("run").unwrap();
        let is_ours = |flag: &str| {
            run.get_arguments().any(|arg| {
                let aliases = arg.get_visible_aliases().unwrap_or_default();
                let mut names = arg.get_long().into_iter().chain(aliases);
                names.any(|name| flag == format!("--{name}"))
                    || arg.get_short().is_some_and(|name| flag == format!("-{name}"))
            })
        };
        assert!(is_ours("--request-rate") && is_ours("-q"));
        for &(flag, advice) in FLAGS {
            assert!(!is_ours(flag), "{flag}");
            let named = advice.split([' ', ',', ';']).filter(|word| word.starts_with("--"));
            named.for_each(|named| assert!(is_ours(named), "{flag}: {named}"));
        }
    }
}
