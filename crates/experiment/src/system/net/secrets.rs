//! Secrets in specifications of systems, which are written nowhere.

use dyno_net::secrets::is_secret_field;
use serde_json::Value;

use super::spec_keys::is_cut_off;

/// Stands for a value that is written nowhere.
pub const REDACTED: &str = "***";

/// Parts of a request whose values can come from the environment and from files.
pub const SECRET_PLACES: [&str; 3] = ["header", "query", "body"];

/// Names of members of a query whose values are no secrets.
const SHOWN_IN_QUERIES: [&str; 3] = ["alt", "api-version", "version"];

/// Parts of names of members of a request whose values may be secrets.
const SECRET_WORDS: [&str; 5] = ["authorization", "credential", "passwd", "password", "secret"];

/// Names of members of a request that end like those of secrets and are none.
const PUBLIC_MEMBERS: [&str; 5] =
    ["bos_token", "eos_token", "pad_token", "prompt_cache_key", "stop_token"];

/// Returns a URL without user and password, and with `***` in place of the values of its query.
pub fn without_credentials(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let path = rest.find('/').unwrap_or(rest.len());
    let host = rest[..path].rfind('@').map_or(0, |at| at + 1);
    let user = if host > 0 { "***@" } else { "" };
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    let members = query.iter().flat_map(|query| query.split('&')).map(|member| {
        match member.split_once('=') {
            // Templates of `raw:` name fields of samples in braces.
            Some((name, value))
                if SHOWN_IN_QUERIES.contains(&name)
                    || value.is_empty()
                    || value.starts_with('{') =>
            {
                member.to_owned()
            }
            Some((name, _)) => format!("{name}={REDACTED}"),
            None => REDACTED.to_owned(),
        }
    });
    let mark = if query.is_some() { "?" } else { "" };
    let members = members.collect::<Vec<_>>().join("&");
    format!("{scheme}{user}{}{mark}{members}", &rest[host..])
}

/// Returns the values in the query of a URL that may be secrets.
pub fn query_secrets(url: &str) -> impl Iterator<Item = &str> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let values = query.split('&').filter_map(|member| match member.split_once('=') {
        Some((name, _)) if !is_secret_member(name) => None,
        Some((_, value)) => Some(value),
        None => Some(member),
    });
    values.filter(|value| !value.is_empty())
}

/// Returns whether the value of this member of a query may be a secret.
pub fn is_secret_member(name: &str) -> bool {
    !SHOWN_IN_QUERIES.contains(&name)
}

/// Returns whether the name of a member of a request is like that of a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has_word = SECRET_WORDS.iter().any(|word| name.contains(word));
    let ends_so = name.ends_with("key") || name.ends_with("token");
    has_word || ends_so && !PUBLIC_MEMBERS.contains(&name.as_str())
}

/// Returns the texts in a member of a request that may be secrets, by its name and by the names of the
/// members within it. Templates of `raw:` name fields of samples in braces.
pub fn member_secrets<'v>(name: &str, value: &'v Value) -> Vec<&'v str> {
    match value {
        Value::String(text) => {
            let is_secret = is_secret_name(name) && !text.is_empty() && !text.starts_with('{');
            if is_secret { vec![text.as_str()] } else { Vec::new() }
        }
        Value::Array(items) => items.iter().flat_map(|item| member_secrets(name, item)).collect(),
        Value::Object(members) => {
            members.iter().flat_map(|(name, value)| member_secrets(name, value)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Returns whether the JSON of a member of a request may hold a secret; that of a whole body has no name.
fn holds_secret(name: &str, json: &str) -> bool {
    let has_text = |value: Value| !member_secrets(name, &value).is_empty();
    !json.is_empty() && (is_secret_name(name) || serde_json::from_str(json).is_ok_and(has_text))
}

/// Returns the name of the member (`body.NAME`) or of the body that a part of a specification sets, if its
/// value may be a secret.
fn secret_of_body(part: &str) -> Option<String> {
    let (key, json) = part.split_once('=')?;
    match key.strip_suffix(':') {
        Some(name) => holds_secret(name, json).then(|| format!("body.{name}")),
        None => (key == "body" && holds_secret("", json)).then(|| key.to_owned()),
    }
}

/// Returns the parts of a specification. A comma within the JSON of a member separates none.
fn parts(spec: &str) -> Vec<String> {
    let is_open = |part: &String| {
        let member = part.split_once('=').filter(|(key, _)| key.ends_with(':'));
        member.is_some_and(|(_, json)| is_cut_off(json))
    };
    let mut parts: Vec<String> = Vec::new();
    for part in spec.split(',') {
        match parts.last_mut().filter(|last| is_open(last)) {
            Some(last) => last.extend([",", part]),
            None => parts.push(part.to_owned()),
        }
    }
    // What is no JSON hides no other part.
    let is_broken = |part: &String| {
        let json = part.split_once('=').map_or("", |(_, json)| json);
        part.contains(',') && serde_json::from_str::<Value>(json).is_err()
    };
    if parts.iter().any(is_broken) { spec.split(',').map(str::to_owned).collect() } else { parts }
}

/// Returns a text with `***` in place of what may be secrets: the values of `header.NAME=` and
/// `query.NAME=`, members of bodies with the name of a secret, and users, passwords and queries of URLs.
pub fn without_secrets(text: &str) -> String {
    let shown_url = |part: &str| {
        if part.contains("://") { without_credentials(part) } else { part.to_owned() }
    };
    let parts = parts(text);
    let (first, others) = parts.split_first().expect("a text has a first part");
    let mut shown = shown_url(first);
    let mut is_value = false;
    for part in others {
        // A comma within a value begins a part without a key.
        let is_of_body = secret_of_body(part).is_some();
        let is_secret = is_of_body || part.starts_with("header.") || part.starts_with("query.");
        is_value = is_secret || is_value && !part.contains('=');
        match part.split_once('=') {
            Some((key, _)) if is_secret => shown += &format!(",{key}={REDACTED}"),
            _ if is_value => {}
            Some((key, url)) if matches!(key, "node" | "proxy") => {
                shown += &format!(",{key}={}", shown_url(url));
            }
            _ => shown.extend([",", part.as_str()]),
        }
    }
    shown
}

/// Returns the part of a request (`header.NAME`, `query.NAME`, `body.NAME` or `body`) of a specification
/// whose value is given in place and may be a secret.
pub fn literal_secret(spec: &str) -> Option<String> {
    parts(spec).iter().find_map(|part| {
        if let Some(found) = secret_of_body(part) {
            return Some(found);
        }
        if let Some((name, value)) = part.strip_prefix("header.").and_then(|it| it.split_once('='))
        {
            return (is_secret_field(name) && !value.is_empty()).then(|| format!("header.{name}"));
        }
        if let Some(member) = part.strip_prefix("query.") {
            return secret_member(member);
        }
        let (_, query) = part.split_once('?').filter(|(url, _)| url.contains("://"))?;
        query.split('&').find_map(secret_member)
    })
}

/// Returns the name of a member of a query whose value may be a secret. Templates of `raw:` name fields
/// of samples in braces.
fn secret_member(member: &str) -> Option<String> {
    match member.split_once('=') {
        Some((name, value)) => {
            let is_secret = is_secret_member(name) && !value.is_empty() && !value.starts_with('{');
            is_secret.then(|| format!("query.{name}"))
        }
        // A member without a name may be a secret itself.
        None => (!member.is_empty()).then(|| "query.NAME".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_may_be_secrets_are_not_shown() {
        for (spec, shown) in [
            ("openai:http://a,model=m", "openai:http://a,model=m"),
            ("openai:http://a,header.x=secret,model=m", "openai:http://a,header.x=***,model=m"),
            ("raw:http://a,header.x=b,c,d,retries=1", "raw:http://a,header.x=***,retries=1"),
            ("openai:http://a?key=b,query.x=c,d", "openai:http://a?key=***,query.x=***"),
            ("openai:http://me:pw@a,node=http://b?k=v", "openai:http://***@a,node=http://b?k=***"),
            ("openai:http://a,api_key:=\"b,c=d\",model=m", "openai:http://a,api_key:=***,model=m"),
            ("openai:http://a,x:={\"token\":\"b\",\"c\":[1,2]}", "openai:http://a,x:=***"),
            ("openai:http://a,Password:=1234,seed:=5", "openai:http://a,Password:=***,seed:=5"),
            ("raw:http://a,body={\"apiKey\":\"b\"}", "raw:http://a,body=***"),
            ("openai:http://a,x:=[1,header.x=b", "openai:http://a,x:=[1,header.x=***"),
            ("onnx:m.onnx", "onnx:m.onnx"),
            ("onnx:a@b?c", "onnx:a@b?c"),
        ] {
            assert_eq!(without_secrets(spec), shown);
        }
        for shown in [
            "openai:http://a,max_tokens:=5,stop:=[\"x\",\"a=b\"],prompt_cache_key:=\"a\",key:=",
            "openai:http://a,tools:=[{\"properties\":{\"key\":{\"type\":\"string\"}}}]",
            "raw:http://a,body={\"key\":\"{id}\"}",
        ] {
            assert_eq!(without_secrets(shown), shown);
        }
        for (url, shown) in [
            ("http://me:secret@a:1/v1", "http://***@a:1/v1"),
            ("http://a/v1?key=secret&api-version=2", "http://a/v1?key=***&api-version=2"),
            ("http://a/v1beta/models/m:g?alt=sse", "http://a/v1beta/models/m:g?alt=sse"),
            ("http://a/v1?secret", "http://a/v1?***"),
            ("http://a/v1?q={question}", "http://a/v1?q={question}"),
            ("http://a/x@y", "http://a/x@y"),
            ("a:1", "a:1"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn a_query_without_values_has_no_secrets() {
        let found = |url| query_secrets(url).collect::<Vec<_>>();
        for url in ["http://a", "http://a?", "http://a?&", "http://a?k=", "http://a?api-version=1"]
        {
            assert_eq!(found(url), [""; 0], "{url}");
        }
        assert_eq!(found("http://a?api-version=1&k=v&w"), ["v", "w"]);
    }

    #[test]
    fn values_in_place_that_may_be_secrets_are_found() {
        for (spec, found) in [
            ("openai:http://a,header.X-Api-Key=1", Some("header.X-Api-Key")),
            ("openai:http://a?code=1,query.sig=2", Some("query.code")),
            ("openai:http://a,header.helicone-auth=1", Some("header.helicone-auth")),
            ("openai:http://a,header.X-Tenant=1", Some("header.X-Tenant")),
            ("openai:http://a,header.user-agent=b,header.Anthropic-Version=1", None),
            ("openai:http://a?4711", Some("query.NAME")),
            ("openai:http://a,metrics=http://b?s=1", Some("query.s")),
            ("raw:http://a?q={question},model=b?c", None),
            ("openai:http://a?api-version=1&key=2", Some("query.key")),
            ("openai:http://a?api-version=1,header-env.key=K", None),
            ("openai:http://a?alt=sse", None),
            ("onnx:a?key=1", None),
            ("openai:http://a,stop:=[\"x\",\"y\"],my_key:=\"b\"", Some("body.my_key")),
            ("openai:http://a,max_tokens:=5,my_key:=", None),
            ("raw:http://a,body={\"secret\":\"b\"}", Some("body")),
        ] {
            assert_eq!(literal_secret(spec).as_deref(), found, "{spec}");
        }
    }
}
