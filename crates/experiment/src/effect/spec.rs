//! Keys of systems that may have no effect.

use dyno_loadgen::settings::Scenario;

use super::{Facts, UnmetNeed};

/// A key of systems, and its check.
struct Row {
    systems: &'static [&'static str],
    key: &'static str,
    /// Returns the reason and a remedy if the key has no effect.
    unmet: fn(&Spec<'_>) -> Option<[&'static str; 2]>,
}

const HTTP: &[&str] = &["oip", "openai", "raw"];
const SERVERS: &[&str] = &["oip", "oip-grpc", "openai", "raw"];

/// All such keys. Other keys take effect wherever they are accepted.
const ROWS: &[Row] = &[
    Row {
        systems: HTTP,
        key: "streams",
        unmet: |spec| {
            (!spec.is("http2", "true")).then_some([
                "HTTP/1.1 has one request at a time on a connection",
                "add http2=true, or raise connections=N",
            ])
        },
    },
    Row { systems: SERVERS, key: "ca", unmet: without_tls },
    Row { systems: SERVERS, key: "fingerprint", unmet: without_tls },
    Row { systems: SERVERS, key: "insecure", unmet: without_tls },
    Row { systems: SERVERS, key: "client-cert", unmet: without_tls },
    Row { systems: SERVERS, key: "client-key", unmet: without_tls },
    Row {
        systems: SERVERS,
        key: "max-concurrency",
        unmet: |spec| {
            let is_one = |scenario: &Scenario| *scenario == Scenario::SingleStream;
            spec.facts.scenarios.iter().all(is_one).then_some([
                "SingleStream has one request in flight",
                "add a scenario with more requests in flight, or remove it",
            ])
        },
    },
    Row {
        systems: &["openai"],
        key: "max-tokens",
        unmet: |spec| {
            let others = ["output", "max_tokens:", "max_completion_tokens:"];
            others.iter().any(|key| spec.has(key)).then_some([
                "another key of the system limits the tokens of an answer",
                "remove one of the two",
            ])
        },
    },
    Row {
        systems: &["model"],
        key: "sigma",
        unmet: |spec| {
            (!spec.has("lognormal")).then_some([
                "it is the spread of lognormal=TIME",
                "write lognormal=TIME for the service time, or remove it",
            ])
        },
    },
    Row {
        systems: &["model"],
        key: "per-token",
        unmet: |spec| {
            (!spec.has("tokens"))
                .then_some(["answers have no tokens", "add tokens=N-M, or remove it"])
        },
    },
    Row {
        systems: &["openai"],
        key: "usage",
        unmet: |spec| {
            spec.is("stream", "false").then_some([
                "whole answers always come with their usage",
                "remove usage or stream=false",
            ])
        },
    },
    Row {
        systems: &["openai"],
        key: "groups",
        unmet: |spec| {
            (!spec.has("prefix")).then_some([
                "groups share a prefix, but no prefix is given",
                "add prefix=N, or remove it",
            ])
        },
    },
    Row {
        systems: &["openai"],
        key: "speed",
        unmet: |spec| {
            (!spec.facts.scenarios.contains(&Scenario::Server)).then_some([
                "recorded times are those of Server",
                "add --scenario Server, or remove it",
            ])
        },
    },
    Row {
        systems: &["raw"],
        key: "content-type",
        unmet: |spec| {
            (!spec.has("body")).then_some(["requests have no body", "add body=..., or remove it"])
        },
    },
    Row {
        systems: &["raw"],
        key: "compress",
        unmet: |spec| {
            (!spec.has("body")).then_some(["requests have no body", "add body=..., or remove it"])
        },
    },
    Row {
        systems: &["rnn"],
        key: "lengths",
        unmet: |spec| {
            (!spec.facts.run.data.is_empty()).then_some([
                "--data gives the sequences with their lengths",
                "use --data lengths=FILE.npy, or remove it",
            ])
        },
    },
];

fn without_tls(spec: &Spec<'_>) -> Option<[&'static str; 2]> {
    (!spec.text.contains("https://")).then_some([
        "no server is reached through TLS",
        "write the URL with https://, or remove it",
    ])
}

/// Systems whose specification is a list of keys with values.
const WITH_KEYS: &[&str] =
    &["oip", "oip-grpc", "openai", "raw", "model", "npu", "rnn", "digits-lstm", "py"];

/// Keys that may be repeated.
const REPEATED: &[&str] = &["node", "accept-answers", "fingerprint", "without", "metrics"];

/// A specification of a system that is checked.
struct Spec<'a> {
    facts: &'a Facts<'a>,
    text: &'a str,
}

impl<'a> Spec<'a> {
    /// Returns the keys in their order.
    fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.text.split(',').filter_map(|part| part.split_once('=')).map(|(key, _)| key)
    }

    /// Returns the first repeated key of which only one value counts.
    fn repeated(&self, system: &str) -> Option<&'a str> {
        let is_version_of_npu = |key: &str| system == "npu" && key == "version";
        let may_repeat = |key: &str| REPEATED.contains(&key) || is_version_of_npu(key);
        let mut keys = self.keys().enumerate();
        keys.find(|(at, key)| {
            !may_repeat(key) && self.keys().take(*at).any(|before| before == *key)
        })
        .map(|(_, key)| key)
    }

    fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        let pairs = self.text.split(',').filter_map(|part| part.split_once('='));
        pairs.filter(move |(given, _)| *given == key).map(|(_, value)| value)
    }

    fn has(&self, key: &str) -> bool {
        self.values(key).next().is_some()
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.values(key).last() == Some(value)
    }
}

/// Returns the keys of the system, and of systems of tenants, without effect.
pub fn without_effect(facts: &Facts<'_>) -> Vec<(String, UnmetNeed)> {
    let own = (facts.system, facts.argument);
    let tenants = facts.run.tenant_systems.iter().flatten();
    let tenants = tenants.map(|spec| spec.split_once(':').unwrap_or((spec, "")));
    let mut found = Vec::new();
    for (system, text) in std::iter::once(own).chain(tenants) {
        let spec = Spec { facts, text };
        let rows = ROWS.iter().filter(|row| row.systems.contains(&system) && spec.has(row.key));
        if let Some(key) = spec.repeated(system).filter(|_| WITH_KEYS.contains(&system)) {
            let sentence = format!("system `{system}`: {key}= is given twice");
            found.push((sentence, UnmetNeed::new("is given twice", "keep one of the two")));
        }
        for row in rows {
            if let Some([why, fix]) = (row.unmet)(&spec) {
                let sentence = format!("system `{system}`: {}= has no effect: {why}", row.key);
                found.push((sentence, UnmetNeed::new(why, fix)));
            }
        }
    }
    found
}
