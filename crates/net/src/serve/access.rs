//! Who may ask a server.

use std::fmt;

use http::{HeaderMap, HeaderValue, header};
use ring::{digest, hmac};

use super::refusal::{Refusal, RefusalKind};

/// A token that clients must send. It holds only a hash.
#[derive(Clone)]
pub struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
}

/// Key of the hash, which is compared in constant time; not a secret.
const KEY: &[u8] = b"dyno serve token";

impl Token {
    /// Takes the token itself.
    pub fn new(token: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
        let tag = hmac::sign(&key, digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        Self { key, tag }
    }

    /// Checks the token of a request.
    ///
    /// # Errors
    /// It is missing or wrong.
    pub(super) fn check(&self, fields: &HeaderMap) -> Result<(), Refusal> {
        let given = fields.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let token = given.and_then(|given| {
            let (scheme, token) = given.split_at_checked(SCHEME.len())?;
            scheme.eq_ignore_ascii_case(SCHEME).then_some(token.trim_ascii())
        });
        let is_right = token.is_some_and(|token| {
            let hash = digest::digest(&digest::SHA256, token);
            hmac::verify(&self.key, hash.as_ref(), self.tag.as_ref()).is_ok()
        });
        if is_right {
            return Ok(());
        }
        let what = if given.is_some() { "wrong token" } else { "missing token" };
        Err(RefusalKind::Unauthorized
            .because(format!("{what}; this server expects `authorization: Bearer TOKEN`")))
    }
}

const SCHEME: &[u8] = b"bearer ";

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_accepted() {
        let token = Token::new("secret");
        for (value, is_accepted) in [
            (Some("Bearer secret"), true),
            (Some("bearer  secret"), true),
            (Some("Bearer secre"), false),
            (Some("Bearer secrets"), false),
            (Some("Bearer "), false),
            (Some("Basic secret"), false),
            (Some("secret"), false),
            (Some(""), false),
            (None, false),
        ] {
            let mut fields = HeaderMap::new();
            if let Some(value) = value {
                fields.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            assert_eq!(token.check(&fields).is_ok(), is_accepted, "{value:?}");
        }
        assert!(!format!("{token:?}").contains("secret"));
    }
}
