//! Signatures of requests to services of Amazon Web Services: AWS Signature Version 4 (SigV4).
//!
//! A signature covers the time, the method, the path, the query, some header fields and the body of a
//! request. A service accepts it for some minutes, so each request is signed when it is sent.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use dyno_loadgen::clock::WallTime;
use ring::{digest, hmac};

use crate::endpoint::Endpoint;
use crate::exchange::Request;
use crate::percent::{PercentEncoding, decoded};

/// Service and region that signatures are for.
///
/// ```
/// use dyno_net::signature::Scope;
///
/// assert!("bedrock/us-east-1".parse::<Scope>().is_ok());
/// assert!("bedrock".parse::<Scope>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    service: String,
    region: String,
}

/// Reason why a text is not a [`Scope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// It has another form.
    #[error("expected SERVICE/REGION, such as bedrock/us-east-1")]
    Form,
    /// Paths are signed in another way for S3.
    #[error("expected a service of inference, such as bedrock/us-east-1; s3 is not supported")]
    Storage,
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let (service, region) = text.split_once('/').ok_or(ScopeError::Form)?;
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !is_name(service) || !is_name(region) {
            return Err(ScopeError::Form);
        }
        if service == "s3" {
            return Err(ScopeError::Storage);
        }
        Ok(Self { service: service.to_owned(), region: region.to_owned() })
    }
}

/// Credentials of a user or a role.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Id of the key, which requests contain.
    pub access_key: String,
    /// The key, which never leaves the client.
    pub secret_key: String,
    /// Token of temporary credentials, which requests contain.
    pub session_token: Option<String>,
}

/// Without values, which are secrets.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Signs requests to one service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Signer {
    scope: Scope,
    credentials: Credentials,
}

/// Name of the algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// End of each scope.
const TERMINATION: &str = "aws4_request";

/// The only service that accepts no hash of a body.
const WITHOUT_HASH: &str = "vpc-lattice-svcs";

/// Header fields that only the signer sets. Names are in lower case.
pub const SIGNER_FIELDS: [&str; 4] =
    ["authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];

impl Signer {
    /// Creates a signer.
    pub fn new(scope: Scope, credentials: Credentials) -> Self {
        Self { scope, credentials }
    }

    /// Returns the text that stands for a body in signatures.
    pub(crate) fn payload_hash(&self, body: &[u8]) -> String {
        match self.scope.service.as_str() {
            WITHOUT_HASH => "UNSIGNED-PAYLOAD".to_owned(),
            _ => sha256(body),
        }
    }

    /// Returns the header fields that sign a request to an endpoint. `fields` are all others, and
    /// `payload` is the [`payload_hash`](Self::payload_hash) of its body.
    pub(crate) fn fields(
        &self,
        to: &Endpoint,
        request: &Request,
        fields: &[(&str, &str)],
        payload: &str,
        at: WallTime,
    ) -> Vec<(&'static str, String)> {
        let time = at.utc();
        let date = format!("{:04}{:02}{:02}", time.year, time.month, time.day);
        let stamp = format!("{date}T{:02}{:02}{:02}Z", time.hour, time.minute, time.second);
        let Self { scope: Scope { service, region }, credentials } = self;
        let mut added = vec![("x-amz-date", stamp.clone())];
        if let Some(token) = &credentials.session_token {
            added.push(("x-amz-security-token", token.clone()));
        }
        if service == WITHOUT_HASH {
            added.push(("x-amz-content-sha256", payload.to_owned()));
        }
        let signed = fields.iter().filter(|(name, _)| is_signed(name)).copied();
        let own = added.iter().map(|(name, value)| (*name, value.as_str()));
        let authority = to.authority();
        let signed = canonical_fields(&authority, signed.chain(own));
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let target = to.target(&request.path);
        let canonical = canonical(request.method.name(), &target, &signed, &names, payload);
        let scope = format!("{date}/{region}/{service}/{TERMINATION}");
        let to_sign = format!("{ALGORITHM}\n{stamp}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let signature = hex(mac(self.key(&date).as_ref(), &to_sign).as_ref());
        let id = &credentials.access_key;
        let value = format!(
            "{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
        );
        added.push(("authorization", value));
        added
    }

    /// Returns the key of a day, such as `20150830`.
    fn key(&self, date: &str) -> hmac::Tag {
        let secret = format!("AWS4{}", self.credentials.secret_key);
        let of_date = mac(secret.as_bytes(), date);
        let of_region = mac(of_date.as_ref(), &self.scope.region);
        let of_service = mac(of_region.as_ref(), &self.scope.service);
        mac(of_service.as_ref(), TERMINATION)
    }
}

/// Returns whether a header field is signed. Proxies may change others.
fn is_signed(name: &str) -> bool {
    name == "content-type" || name.starts_with("x-amz-")
}

/// Returns the signed header fields by name, with their values in canonical form.
fn canonical_fields<'a>(
    authority: &'a str,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<(&'a str, String)> {
    let all = std::iter::once(("host", authority)).chain(fields);
    let trimmed = all.map(|(name, value)| {
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        (name, words.join(" "))
    });
    let mut canonical: Vec<(&str, String)> = trimmed.collect();
    canonical.sort_by_key(|(name, _)| *name);
    canonical.dedup_by(|(name, value), (first, values)| {
        let is_equal = name == first;
        if is_equal {
            values.push(',');
            values.push_str(value);
        }
        is_equal
    });
    canonical
}

/// Returns the canonical form of a request.
fn canonical(
    method: &str,
    target: &str,
    fields: &[(&str, String)],
    names: &str,
    payload: &str,
) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut text = format!("{method}\n{}\n{}\n", canonical_path(path), canonical_query(query));
    for (name, value) in fields {
        let _ = writeln!(text, "{name}:{value}");
    }
    let _ = write!(text, "\n{names}\n{payload}");
    text
}

/// Returns a path without relative and empty segments, percent-encoded once more than in the request.
fn canonical_path(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(PercentEncoding(segment.as_bytes()).to_string()),
        }
    }
    let is_folder = matches!(path.rsplit('/').next(), Some("" | "." | ".."));
    let end = if is_folder && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// Returns the members of a query by name, percent-encoded.
fn canonical_query(query: &str) -> String {
    let members = query.split('&').filter(|member| !member.is_empty());
    let mut members: Vec<(String, String)> = members
        .map(|member| {
            let (name, value) = member.split_once('=').unwrap_or((member, ""));
            let encoded = |part: &str| PercentEncoding(&decoded(part.as_bytes())).to_string();
            (encoded(name), encoded(value))
        })
        .collect();
    members.sort();
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}={value}")).collect();
    members.join("&")
}

/// Returns the authentication code of a text (HMAC with SHA-256).
fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// Returns the hash of bytes in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dyno_loadgen::clock::SECOND;

    use super::*;
    use crate::exchange::Method;

    /// 2015-08-30 12:36:00 UTC, the time of AWS's examples.
    const TIME: WallTime = WallTime { unix_ns: 1_440_938_160 * SECOND };

    /// Returns a signer with the credentials of AWS's examples.
    fn signer(scope: &str) -> Signer {
        let credentials = Credentials {
            access_key: "AKIDEXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: None,
        };
        Signer::new(scope.parse().unwrap(), credentials)
    }

    fn signed(
        signer: &Signer,
        url: &str,
        method: Method,
        content_type: Option<&str>,
        body: &'static str,
    ) -> Vec<(&'static str, String)> {
        let body = Bytes::from_static(body.as_bytes());
        let request = Request { method, path: String::new(), fields: Vec::new(), body };
        let kind = content_type.map(|value| ("content-type", value));
        let fields: Vec<(&str, &str)> = kind.into_iter().chain([("accept", "*/*")]).collect();
        let payload = signer.payload_hash(&request.body);
        signer.fields(&url.parse().unwrap(), &request, &fields, &payload, TIME)
    }

    fn authorization(fields: &[(&'static str, String)]) -> String {
        fields.iter().find(|(name, _)| *name == "authorization").unwrap().1.clone()
    }

    #[test]
    fn the_key_of_a_day_is_that_of_the_documentation() {
        // AWS General Reference, "Examples of how to derive a signing key for Signature Version 4".
        let key = signer("iam/us-east-1").key("20150830");
        let expected = "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9";
        assert_eq!(hex(key.as_ref()), expected);
    }

    #[test]
    fn signatures_are_those_of_the_published_examples() {
        // The test suite of AWS Signature Version 4: get-vanilla, get-vanilla-query-order-key-case,
        // post-vanilla, post-x-www-form-urlencoded; and ListUsers of the AWS General Reference.
        let form = "application/x-www-form-urlencoded";
        let utf8 = "application/x-www-form-urlencoded; charset=utf-8";
        let host = "https://example.amazonaws.com";
        let ordered = "https://example.amazonaws.com/?Param2=value2&Param1=value1";
        let users = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08";
        let (get, post) = (Method::Get, Method::Post);
        for (scope, url, method, kind, body, names, expected) in [
            (
                "service/us-east-1",
                host,
                get,
                None,
                "",
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "service/us-east-1",
                ordered,
                get,
                None,
                "",
                "host;x-amz-date",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "service/us-east-1",
                host,
                post,
                None,
                "",
                "host;x-amz-date",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "service/us-east-1",
                host,
                post,
                Some(form),
                "Param1=value1",
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "iam/us-east-1",
                users,
                get,
                Some(utf8),
                "",
                "content-type;host;x-amz-date",
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
        ] {
            let fields = signed(&signer(scope), url, method, kind, body);
            let (service, region) = scope.split_once('/').unwrap();
            let value = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/{region}/{service}/aws4_request, \
                 SignedHeaders={names}, Signature={expected}"
            );
            assert_eq!(authorization(&fields), value, "{url}");
            assert_eq!(fields[0], ("x-amz-date", "20150830T123600Z".to_owned()));
        }
    }

    #[test]
    fn temporary_credentials_and_services_without_hashes_have_signed_fields() {
        let mut signer = signer("vpc-lattice-svcs/us-east-1");
        signer.credentials.session_token = Some("temporary".into());
        let fields = signed(&signer, "https://a", Method::Post, None, "{}");
        assert_eq!(fields[1], ("x-amz-security-token", "temporary".to_owned()));
        assert_eq!(fields[2], ("x-amz-content-sha256", "UNSIGNED-PAYLOAD".to_owned()));
        let names = "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,";
        assert!(authorization(&fields).contains(names), "{fields:?}");
        assert!(!format!("{signer:?}").contains("temporary"));
    }

    #[test]
    fn paths_and_queries_have_one_form() {
        for (path, expected) in [
            ("", "/"),
            ("/", "/"),
            ("//a/./b/../c//", "/a/c/"),
            ("/..", "/"),
            // Paths are encoded twice, as AWS's documentation states for all services but S3.
            ("/model/a.b-v1%3A0/invoke", "/model/a.b-v1%253A0/invoke"),
            ("/model/a:0", "/model/a%3A0"),
        ] {
            assert_eq!(canonical_path(path), expected, "{path}");
        }
        for (query, expected) in [
            ("", ""),
            ("b=2&a=2&a=1", "a=1&a=2&b=2"),
            ("flag&x=a:b%2fc%", "flag=&x=a%3Ab%2Fc%25"),
            ("k=%7e+", "k=~%2B"),
        ] {
            assert_eq!(canonical_query(query), expected, "{query}");
        }
    }

    #[test]
    fn values_of_equal_fields_are_joined_and_trimmed() {
        let fields = [("x-amz-b", " 2 "), ("x-amz-a", "a  b"), ("x-amz-b", "1")];
        let found = canonical_fields("h", fields.into_iter());
        let expected = [("host", "h"), ("x-amz-a", "a b"), ("x-amz-b", "2,1")];
        assert_eq!(found, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn scopes_are_a_service_and_a_region() {
        for text in ["bedrock", "/us-east-1", "bedrock/", "a/b/c", "a b/c"] {
            assert_eq!(text.parse::<Scope>(), Err(ScopeError::Form), "{text}");
        }
        assert_eq!("s3/us-east-1".parse::<Scope>(), Err(ScopeError::Storage));
    }
}
