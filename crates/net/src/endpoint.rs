//! Address of a server: the part of a URL that all requests to it share, and the proxy on the way.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use crate::base64::base64;
use crate::percent::PercentEncoding;
use crate::signature::Signer;
use crate::trouble::{Kind, Trouble};

/// A server: scheme, host, port, the path that all its requests begin with, and their query.
///
/// ```
/// use dyno_net::endpoint::Endpoint;
///
/// let endpoint: Endpoint = "https://localhost:8443/v1/".parse()?;
/// assert!(endpoint.is_tls());
/// assert_eq!((endpoint.host(), endpoint.port(), endpoint.path()), ("localhost", 8443, "/v1"));
/// assert!("localhost:8443".parse::<Endpoint>().is_err());
/// # Ok::<(), dyno_net::endpoint::EndpointError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    is_tls: bool,
    /// Name or address; IPv6 addresses without brackets.
    host: String,
    /// Network of a link-local IPv6 address, such as `eth0`; empty without one.
    zone: String,
    port: u16,
    /// Empty, or starts with a slash and does not end with one.
    path: String,
    /// Query of all requests, without the question mark; may hold secrets.
    query: String,
    /// Proxy that forwards to the server.
    proxy: Option<Box<Endpoint>>,
    /// User and password for this endpoint as a proxy, as the value of `Proxy-Authorization`; a secret.
    login: Option<String>,
    /// Signs all requests to this endpoint.
    signer: Option<Arc<Signer>>,
}

/// Reason why a text is not an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It starts with neither `http://` nor `https://`.
    #[error("{}", unexpected_scheme(.found.as_deref()))]
    Scheme {
        /// Text before `://`.
        found: Option<String>,
    },
    /// The host is missing.
    #[error("expected a host after the scheme, such as localhost")]
    Host,
    /// The zone of an IPv6 address is empty.
    #[error("expected a network behind the % of the address, such as [fe80::1%25eth0]")]
    Zone,
    /// The text after the colon is not a port.
    #[error("expected a port from 1 to 65535, found {found:?}")]
    Port {
        /// That text.
        found: String,
    },
    /// It contains user information, which would end up in logs.
    #[error(
        "expected a host, found a user and a password; pass a token in an environment \
         variable (token-env=NAME)"
    )]
    User,
    /// It has a fragment, which is not sent to servers.
    #[error("expected no fragment, found {found:?}")]
    Fragment {
        /// Text from the `#` on.
        found: String,
    },
    /// It has a character that URLs do not allow.
    #[error("expected a URL, found the character {found:?}; write it as %XX")]
    Character {
        /// The character.
        found: char,
    },
}

fn unexpected_scheme(found: Option<&str>) -> String {
    match found {
        None => "expected http://HOST:PORT or https://HOST:PORT, found no scheme".into(),
        Some(found) => format!("expected the scheme http or https, found {found:?}"),
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(found) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
            return Err(EndpointError::Character { found });
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(EndpointError::Scheme { found: None });
        };
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(EndpointError::Scheme { found: Some(scheme.to_owned()) }),
        };
        if let Some(at) = rest.find('#') {
            return Err(EndpointError::Fragment { found: rest[at..].to_owned() });
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(EndpointError::User);
        }
        if let Some(found) = path.chars().chain(query.chars()).find(|c| !c.is_ascii_graphic()) {
            return Err(EndpointError::Character { found });
        }
        let (host, zone, port) = split_authority(authority)?;
        let port = match port {
            None => default_port(is_tls),
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(EndpointError::Port { found: port.to_owned() }),
            },
        };
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            zone: zone.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
            query: query.to_owned(),
            proxy: None,
            login: None,
            signer: None,
        })
    }
}

/// Splits host, zone and port; IPv6 addresses are in brackets (RFC 3986, section 3.2.2), with their zone
/// (RFC 6874), whose percent sign many tools write unescaped.
fn split_authority(authority: &str) -> Result<(&str, &str, Option<&str>), EndpointError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(EndpointError::Host)?;
        let (host, zone) = match host.split_once('%') {
            Some((host, zone)) => (host, Some(zone.strip_prefix("25").unwrap_or(zone))),
            None => (host, None),
        };
        host.parse::<Ipv6Addr>().map_err(|_| EndpointError::Host)?;
        if zone == Some("") {
            return Err(EndpointError::Zone);
        }
        let zone = zone.unwrap_or_default();
        if let Some(found) = zone.chars().find(|c| !is_of_name(*c)) {
            return Err(EndpointError::Character { found });
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, zone, Some(port))),
            None if after.is_empty() => Ok((host, zone, None)),
            None => Err(EndpointError::Port { found: after.to_owned() }),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if let Some(found) = host.chars().find(|c| !is_of_name(*c) && *c != '%') {
        return Err(EndpointError::Character { found });
    }
    if host.is_empty() { Err(EndpointError::Host) } else { Ok((host, "", port)) }
}

/// Returns whether a name in a URL may have a character unescaped.
fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~".contains(character)
}

fn default_port(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

impl Endpoint {
    /// Returns whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the name or address; IPv6 addresses without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path prefix of all requests: empty, or starts with a slash and does not end with
    /// one.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the endpoint without this end of its path, if it has it.
    #[must_use]
    pub fn above(&self, end: &str) -> Self {
        let path = self.path.strip_suffix(end).unwrap_or(&self.path).to_owned();
        Self { path, ..self.clone() }
    }

    /// Returns the endpoint with a further member in the query of all requests.
    #[must_use]
    pub fn with_query(mut self, name: &str, value: &str) -> Self {
        let separator = if self.query.is_empty() { "" } else { "&" };
        let encoded = |text: &str| PercentEncoding(text.as_bytes()).to_string();
        let _ = write!(self.query, "{separator}{}={}", encoded(name), encoded(value));
        self
    }

    /// Returns the query of all requests, without the question mark. It may hold secrets.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Returns the endpoint as reached through a proxy.
    #[must_use]
    pub fn through(self, proxy: Self) -> Self {
        Self { proxy: Some(Box::new(proxy)), ..self }
    }

    /// Returns the endpoint as a proxy that demands a login, which is `USER:PASSWORD` (RFC 7617).
    #[must_use]
    pub fn with_login(self, login: &str) -> Self {
        Self { login: Some(format!("Basic {}", base64(login.as_bytes()))), ..self }
    }

    /// Returns the endpoint with signed requests.
    #[must_use]
    pub fn signed_by(self, signer: Arc<Signer>) -> Self {
        Self { signer: Some(signer), ..self }
    }

    /// Returns the signer of all requests to this endpoint, if they are signed.
    pub fn signer(&self) -> Option<&Arc<Signer>> {
        self.signer.as_ref()
    }

    /// Returns the value of `Proxy-Authorization` for the proxy on the way, if that demands a login.
    pub(crate) fn proxy_login(&self) -> Option<&str> {
        self.proxy()?.login.as_deref()
    }

    /// Returns the name of the server for messages about connections, with that of the proxy on the way
    /// to it.
    pub(crate) fn route(&self) -> String {
        match self.proxy() {
            Some(proxy) => format!("{self} (through the proxy {proxy})"),
            None => self.to_string(),
        }
    }

    /// Returns the proxy on the way, if there is one.
    pub fn proxy(&self) -> Option<&Self> {
        self.proxy.as_deref()
    }

    /// Returns the target of a request of `path` below this endpoint, with its query.
    pub fn target(&self, path: &str) -> String {
        let separator = match (self.query.as_str(), path.contains('?')) {
            ("", _) => "",
            (_, true) => "&",
            (_, false) => "?",
        };
        format!("{}{path}{separator}{}", self.path, self.query)
    }

    /// Returns the value of the field `host`: the port only if it is not the scheme's default.
    pub fn authority(&self) -> String {
        self.authority_in_zone("")
    }

    /// Returns host and port. The zone of an address is local to this machine, and is not sent to servers.
    fn authority_in_zone(&self, zone: &str) -> String {
        let host = match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) if zone.is_empty() => format!("[{address}]"),
            Ok(IpAddr::V6(address)) => format!("[{address}%25{zone}]"),
            _ => self.host.clone(),
        };
        if self.port == default_port(self.is_tls) { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns the server without the path; its query and proxy remain.
    #[must_use]
    pub fn origin(&self) -> Self {
        Self { path: String::new(), ..self.clone() }
    }

    /// Returns whether scheme, host and port are equal, so that both may receive the same
    /// credentials.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        (self.is_tls, self.port) == (other.is_tls, other.port)
            && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Returns the endpoint to which the request of `path` below this one was redirected; `None` if
    /// the target is not a URL or does not end with that path.
    pub fn redirected(&self, location: &str, path: &str) -> Option<Self> {
        let own_query = location.strip_suffix(&self.query).and_then(|rest| rest.strip_suffix('?'));
        let location = own_query.filter(|_| !self.query.is_empty()).unwrap_or(location);
        // A target that differs in its query or in a slash at the end could not be asked for.
        let base = location.strip_suffix(path)?;
        if base.is_empty() || base.starts_with('/') && !base.starts_with("//") {
            return Some(Self { path: base.trim_end_matches('/').to_owned(), ..self.clone() });
        }
        let target: Self = base.parse().ok()?;
        let Self { query, proxy, signer, .. } = self.clone();
        Some(Self { query, proxy, signer, ..target })
    }

    /// Returns the addresses of the host, or of the proxy on the way, in the order of the system's
    /// resolver. It blocks as long as the resolver does.
    ///
    /// # Errors
    /// [`Kind::Resolve`], if the host has no address.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Trouble> {
        if let Some(proxy) = &self.proxy {
            return proxy.resolve();
        }
        let no_address = |why: String| {
            let words = format!("the name {:?} has no address: {why}", self.host);
            Err(Trouble::new(Kind::Resolve, words))
        };
        let name = match self.zone.as_str() {
            "" => self.host.clone(),
            zone => format!("{}%{zone}", self.host),
        };
        match (name.as_str(), self.port).to_socket_addrs() {
            Err(error) => no_address(error.to_string()),
            Ok(addresses) => {
                let addresses: Vec<_> = addresses.collect();
                if addresses.is_empty() {
                    no_address("none is known".into())
                } else {
                    Ok(addresses)
                }
            }
        }
    }
}

/// Without the query, which may hold secrets.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority_in_zone(&self.zone), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match text.parse::<Endpoint>() {
            Ok(e) => format!("{} {} {} {:?} {e}", e.is_tls(), e.host(), e.port(), e.path()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn urls_are_taken_apart_and_put_together() {
        let cases = [
            ("http://localhost:8000", "false localhost 8000 \"\" http://localhost:8000"),
            ("http://a.b/", "false a.b 80 \"\" http://a.b"),
            ("HTTPS://a.b/x/y/", "true a.b 443 \"/x/y\" https://a.b/x/y"),
            ("http://[::1]:9/v1", "false ::1 9 \"/v1\" http://[::1]:9/v1"),
            ("https://[::1]", "true ::1 443 \"\" https://[::1]"),
            ("http://[fe80::1%25e-0]:9", "false fe80::1 9 \"\" http://[fe80::1%25e-0]:9"),
            ("http://[fe80::1%e-0]", "false fe80::1 80 \"\" http://[fe80::1%25e-0]"),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text), expected, "{text}");
        }
        let local: Endpoint = "http://[fe80::1%25e-0]:9".parse().unwrap();
        assert_eq!(local.authority(), "[fe80::1]:9", "servers do not know the zone");
    }

    #[test]
    fn all_requests_have_the_query() {
        let gateway: Endpoint = "https://a/x/?api-version=1".parse().unwrap();
        assert_eq!(gateway.target("/chat"), "/x/chat?api-version=1");
        assert_eq!(gateway.target("/chat?b"), "/x/chat?b&api-version=1");
        assert_eq!(gateway.to_string(), "https://a/x");
        let more = gateway.clone().with_query("key", "a b&c/ä");
        assert_eq!(more.target(""), "/x?api-version=1&key=a%20b%26c%2F%C3%A4");
        let moved = gateway.redirected("https://b/y/chat?api-version=1", "/chat").unwrap();
        assert_eq!((moved.to_string(), moved.query()), ("https://b/y".into(), "api-version=1"));
        assert!(gateway.redirected("https://b/y/chat?api-version=2", "/chat").is_none());
        assert_eq!("http://a".parse::<Endpoint>().unwrap().target("/b"), "/b");
    }

    #[test]
    fn a_redirection_leads_to_the_base_of_the_same_path() {
        let from: Endpoint = "http://a:8000/v1".parse().unwrap();
        for (location, target) in [
            ("/x/v2/chat/completions", Some("http://a:8000/x/v2")),
            ("/chat/completions?a=b", None),
            ("https://b/v1/chat/completions/", None),
            ("https://b/v1/chat/completions", Some("https://b/v1")),
            ("https://b/login", None),
            ("//b/v1/chat/completions", None),
            ("chat", None),
            ("", None),
        ] {
            let found = from.redirected(location, "/chat/completions");
            assert_eq!(found.map(|found| found.to_string()).as_deref(), target, "{location}");
        }
        let origin = |url: &str| from.is_same_origin(&url.parse().unwrap());
        assert!(origin("http://A:8000/x"));
        assert!(!origin("https://a:8000") && !origin("http://a:8001") && !origin("http://b:8000"));
    }

    #[test]
    fn what_names_no_server_is_refused_with_what_to_do() {
        let cases = [
            ("localhost:8000", "found no scheme"),
            ("ftp://a", "found \"ftp\""),
            ("http://", "expected a host"),
            ("http://:80", "expected a host"),
            ("http://[::1", "expected a host"),
            ("http://[%25e0]", "expected a host"),
            ("http://[fe80::1%25e/0]", "expected a host"),
            ("http://[fe80::1%25e:0]", "found the character ':'"),
            ("http://[fe80::1%25]:80", "expected a network"),
            ("http://[fe80::1%]", "expected a network"),
            ("http://a:0", "found \"0\""),
            ("http://a:70000", "found \"70000\""),
            ("http://[::1]x", "found \"x\""),
            ("http://me:secret@a", "in an environment variable"),
            ("http://a/x#y", "found \"#y\""),
            ("http://a/x?y=ä", "found the character 'ä'"),
            ("http://a b", "found the character ' '"),
            ("http://a\r\nx: y", "found the character '\\r'"),
            ("http://a/ä", "found the character 'ä'"),
        ];
        for (text, words) in cases {
            let found = text.parse::<Endpoint>().map(|e| e.to_string()).map_err(|e| e.to_string());
            assert!(found.as_ref().is_err_and(|error| error.contains(words)), "{text}: {found:?}");
        }
    }

    #[test]
    fn an_address_resolves_to_itself_and_an_invalid_name_to_trouble() {
        let found = "http://[::1]:7".parse::<Endpoint>().unwrap().resolve();
        assert_eq!(found, Ok(vec!["[::1]:7".parse().unwrap()]));
        // The network interface with this number.
        let found = "http://[fe80::1%251]:7".parse::<Endpoint>().unwrap().resolve();
        assert_eq!(found, Ok(vec!["[fe80::1%1]:7".parse().unwrap()]));
        // RFC 2606 reserves the top-level domain for names that never resolve.
        let found = "http://nobody.invalid".parse::<Endpoint>().unwrap().resolve();
        assert_eq!(found.map_err(|trouble| trouble.kind), Err(Kind::Resolve));
    }
}
