//! What the requests to all servers of a specification share: the query, the proxy and the signature.

use std::sync::Arc;

use dyno_net::endpoint::Endpoint;
use dyno_net::signature::{Credentials, SIGNER_FIELDS, Scope, Signer};

use super::super::secrets::{REDACTED, is_secret_member, without_credentials};
use super::{SpecKeys, check_redacted, is_printable_ascii};
use crate::failure::Failure;

/// What the requests to all servers of a specification share.
pub struct Route {
    query: Vec<(String, String)>,
    proxy: Option<Endpoint>,
    signer: Option<Arc<Signer>>,
}

impl Route {
    /// Returns whether requests are signed.
    pub fn is_signed(&self) -> bool {
        self.signer.is_some()
    }

    /// Returns the server of a URL.
    ///
    /// # Errors
    /// The text is not a URL.
    pub fn to(&self, url: &str) -> Result<Endpoint, String> {
        if url.contains(REDACTED) {
            return Err(format!("{REDACTED} replaces a secret value of `{url}`"));
        }
        let parsed = url.parse::<Endpoint>();
        let parsed =
            parsed.map_err(|error| format!("{error}, in `{}`", without_credentials(url)))?;
        let with = |to: Endpoint, (name, value): &(String, String)| to.with_query(name, value);
        let mut endpoint = self.query.iter().fold(parsed, with);
        if let Some(proxy) = &self.proxy {
            endpoint = endpoint.through(proxy.clone());
        }
        if let Some(signer) = &self.signer {
            endpoint = endpoint.signed_by(signer.clone());
        }
        Ok(endpoint)
    }
}

impl SpecKeys {
    /// Takes what all URLs share: the query of `query.NAME=`, the proxy and the signer.
    ///
    /// # Errors
    /// An invalid proxy or service, or a missing file or variable.
    pub fn route(&mut self) -> Result<Route, Failure> {
        let mut query = self.beginning("query.");
        check_redacted("query", &query)?;
        let secret = query.iter().filter(|(name, _)| is_secret_member(name));
        self.secrets.extend(secret.map(|(_, value)| value.clone()));
        query.extend(self.secrets_of("query")?);
        let proxy = self.text("proxy");
        let proxy = proxy.map(|text| match text.parse::<Endpoint>() {
            Ok(proxy) if proxy.is_tls() || !proxy.target("").is_empty() => {
                Err(self.wrong("proxy", format!("expected http://HOST:PORT, found `{proxy}`")))
            }
            read => read.map_err(|error| {
                self.wrong("proxy", format!("{error}, in `{}`", without_credentials(&text)))
            }),
        });
        let proxy = proxy.transpose()?;
        if proxy.is_none() && self.has("proxy-login-env") {
            return Err(self.wrong("proxy-login-env", "expected it together with proxy="));
        }
        let proxy = match (proxy, self.proxy_login()?) {
            (Some(proxy), Some(login)) => Some(proxy.with_login(&login)),
            (proxy, _) => proxy,
        };
        Ok(Route { query, proxy, signer: self.signer()? })
    }

    /// Takes the user and the password for the proxy, which are written nowhere.
    ///
    /// # Errors
    /// The environment variable is not set, or has another form.
    fn proxy_login(&mut self) -> Result<Option<String>, Failure> {
        let Some(variable) = self.text("proxy-login-env") else { return Ok(None) };
        let login = std::env::var(&variable).unwrap_or_default().trim().to_owned();
        if !login.contains(':') || login.contains(char::is_control) {
            let problem = format!(
                "proxy-login-env: the environment variable {variable} has no USER:PASSWORD"
            );
            let hint =
                format!("export {variable}=USER:PASSWORD; Dyno sends it and never writes it");
            return Err(Failure::set_up(problem).hint(hint));
        }
        self.secrets.push(login.clone());
        self.secrets.extend(login.split_once(':').map(|(_, password)| password.to_owned()));
        Ok(Some(login))
    }

    /// Takes the service that requests are signed for (`sigv4=SERVICE/REGION`), with credentials from the
    /// environment, which are written nowhere.
    ///
    /// # Errors
    /// An invalid service or region, or a variable that is not set.
    fn signer(&mut self) -> Result<Option<Arc<Signer>>, Failure> {
        if !self.has(SIGNED_FOR) && self.has(PREFIX) {
            return Err(self.wrong(PREFIX, "expected it together with sigv4="));
        }
        let Some(scope) = self.read_as::<Scope>(SIGNED_FOR)? else { return Ok(None) };
        let prefix = self.text(PREFIX);
        let [access, secret, session] = variables(prefix.as_deref().unwrap_or(USUAL));
        let read = |variable: &str| std::env::var(variable).unwrap_or_default().trim().to_owned();
        let required = |variable: &str| match read(variable) {
            value if is_usable(&value) && !value.is_empty() => Ok(value),
            _ => Err(unusable(variable)),
        };
        let (access_key, secret_key) = (required(&access)?, required(&secret)?);
        let session_token = Some(read(&session)).filter(|token| !token.is_empty());
        if session_token.as_deref().is_some_and(|token| !is_usable(token)) {
            return Err(unusable(&session));
        }
        self.secrets.extend([access_key.clone(), secret_key.clone()]);
        self.secrets.extend(session_token.clone());
        self.is_signed = true;
        let credentials = Credentials { access_key, secret_key, session_token };
        Ok(Some(Arc::new(Signer::new(scope, credentials))))
    }

    /// Rejects header fields that the signer of requests sets.
    pub(super) fn check_signed(&self, fields: &[(String, String)]) -> Result<(), Failure> {
        let twice = fields.iter().find(|(name, _)| SIGNER_FIELDS.contains(&name.as_str()));
        match twice {
            Some((name, _)) if self.is_signed => {
                let why =
                    format!("the signature sets the header field {name}; remove one of the two");
                Err(self.wrong(SIGNED_FOR, why))
            }
            _ => Ok(()),
        }
    }
}

/// Key of the service that requests are signed for.
const SIGNED_FOR: &str = "sigv4";

/// Key of the beginning of the names of the variables with the credentials.
const PREFIX: &str = "sigv4-env";

/// The beginning that the tools of AWS use.
const USUAL: &str = "AWS";

/// Returns the variables of the id of the key, of the key, and of the token of the session.
fn variables(prefix: &str) -> [String; 3] {
    ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"].map(|end| format!("{prefix}_{end}"))
}

/// Takes the keys of signatures, and returns the variables with their credentials.
pub(super) fn signing_variables(given: &mut SpecKeys) -> Vec<String> {
    let (service, prefix) = (given.text(SIGNED_FOR), given.text(PREFIX));
    match service {
        Some(_) => variables(prefix.as_deref().unwrap_or(USUAL)).to_vec(),
        None => Vec::new(),
    }
}

/// Returns whether header fields can hold a credential.
fn is_usable(value: &str) -> bool {
    is_printable_ascii(value) && !value.contains([' ', ','])
}

fn unusable(variable: &str) -> Failure {
    let problem = format!(
        "sigv4: the environment variable {variable} has no credential of one line of ASCII"
    );
    Failure::set_up(problem)
        .hint(format!("export {variable}=...; Dyno signs with it and never writes it"))
}
