//! Secrets in specifications of systems, which are written nowhere.

/// Stands for a value that is written nowhere.
pub const REDACTED: &str = "***";

/// Parts of a request whose values can come from the environment and from files.
pub const SECRET_PLACES: [&str; 3] = ["header", "query", "body"];

/// Names of members of a query whose values are no secrets.
const SHOWN_IN_QUERIES: [&str; 2] = ["api-version", "version"];

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

/// Returns a text with `***` in place of what may be secrets: the values of `header.NAME=` and
/// `query.NAME=`, and users, passwords and queries of URLs.
pub fn without_secrets(text: &str) -> String {
    let shown_url = |part: &str| {
        if part.contains("://") { without_credentials(part) } else { part.to_owned() }
    };
    let mut parts = text.split(',');
    let mut shown = shown_url(parts.next().unwrap_or_default());
    let mut is_value = false;
    for part in parts {
        // A comma within a value begins a part without a key.
        let is_secret = part.starts_with("header.") || part.starts_with("query.");
        is_value = is_secret || is_value && !part.contains('=');
        match part.split_once('=') {
            Some((key, _)) if is_secret => shown += &format!(",{key}={REDACTED}"),
            _ if is_value => {}
            Some((key, url)) if matches!(key, "node" | "proxy") => {
                shown += &format!(",{key}={}", shown_url(url));
            }
            _ => shown.extend([",", part]),
        }
    }
    shown
}

/// Returns the part of a request (`header.NAME` or `query.NAME`) of a specification whose name is that
/// of a secret and whose value is given in place.
pub fn literal_secret(spec: &str) -> Option<String> {
    const NAMES: [&str; 7] =
        ["authorization", "cookie", "key", "password", "secret", "sig", "token"];
    let is_secret =
        |name: &&str| NAMES.iter().any(|secret| name.to_ascii_lowercase().contains(secret));
    for part in spec.split(',') {
        let named = ["header.", "query."].iter().find_map(|place| {
            let (name, _) = part.strip_prefix(place)?.split_once('=')?;
            Some((*place, name))
        });
        let (place, names) = match (named, part.split_once('?')) {
            (Some((place, name)), _) => (place, vec![name]),
            (None, Some((url, query))) if url.contains("://") => {
                let members = query.split('&').filter_map(|member| member.split_once('='));
                ("query.", members.map(|(name, _)| name).collect())
            }
            _ => continue,
        };
        if let Some(name) = names.into_iter().find(is_secret) {
            return Some(format!("{place}{name}"));
        }
    }
    None
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
            ("onnx:m.onnx", "onnx:m.onnx"),
            ("onnx:a@b?c", "onnx:a@b?c"),
        ] {
            assert_eq!(without_secrets(spec), shown);
        }
        for (url, shown) in [
            ("http://me:secret@a:1/v1", "http://***@a:1/v1"),
            ("http://a/v1?key=secret&api-version=2", "http://a/v1?key=***&api-version=2"),
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
    fn secrets_in_place_are_found_by_their_names() {
        for (spec, found) in [
            ("openai:http://a,header.X-Api-Key=1", Some("header.X-Api-Key")),
            ("openai:http://a?code=1,query.sig=2", Some("query.sig")),
            ("openai:http://a?api-version=1&key=2", Some("query.key")),
            ("openai:http://a?api-version=1,header-env.key=K", None),
            ("onnx:a?key=1", None),
        ] {
            assert_eq!(literal_secret(spec).as_deref(), found, "{spec}");
        }
    }
}
