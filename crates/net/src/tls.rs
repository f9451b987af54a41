//! Trust of a client in servers, and messages about failures.

mod verifier;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, OtherError, RootCertStore};

use crate::endpoint::Endpoint;
use crate::exchange::HttpVersion;
use crate::trouble::{Kind, Trouble};
use verifier::Verifier;

/// How a client verifies servers, and proves who it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Authorities that may vouch for a server.
    pub authorities: Authorities,
    /// Servers have one of the certificates with these fingerprints; authorities, names and dates
    /// do not matter then. Empty for no such rule.
    pub fingerprints: Vec<Fingerprint>,
    /// Whether any certificate is accepted.
    pub is_unverified: bool,
    /// Certificate of the client, for servers that require one.
    pub identity: Option<Identity>,
}

impl Trust {
    /// Returns the trust in servers that only these authorities vouch for.
    pub fn only(pem: Vec<u8>) -> Self {
        Self { authorities: Authorities::Only(pem), ..Self::default() }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("authorities", &self.authorities)
            .field("fingerprints", &self.fingerprints)
            .field("is_unverified", &self.is_unverified)
            .field("has_identity", &self.identity.is_some())
            .finish()
    }
}

/// Authorities that may vouch for a server. A certificate of a server in the PEM text vouches for
/// itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Authorities {
    /// Authorities that browsers know, as of the build date.
    #[default]
    Public,
    /// The public authorities and the certificates in this PEM text.
    And(Vec<u8>),
    /// Only the certificates in this PEM text.
    Only(Vec<u8>),
}

/// Certificate and private key of a client, each as PEM text.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then those of intermediate authorities.
    pub certificates: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

/// SHA-256 of a certificate in DER, as `openssl x509 -fingerprint -sha256` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b':').collect();
        let mut hash = [0; 32];
        if digits.len() != 64 {
            return Err(FingerprintError);
        }
        for (byte, digits) in hash.iter_mut().zip(digits.chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| FingerprintError)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| FingerprintError)?;
        }
        Ok(Self(hash))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected the SHA-256 of a certificate as 64 hexadecimal digits")]
pub struct FingerprintError;

/// Reason why a trust cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The text contains no certificate.
    #[error(
        "expected certificates in PEM, found none: they begin with -----BEGIN CERTIFICATE-----"
    )]
    Empty,
    /// A certificate cannot be read.
    #[error("authority certificate {number} cannot be read: {why}")]
    Certificate {
        /// Its number, from 1.
        number: usize,
        /// The error.
        why: String,
    },
    /// The certificate or the key of the client cannot be used.
    #[error("the client's certificate cannot be used: {0}")]
    Identity(String),
}

/// Returns the certificates of a PEM text.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let each = CertificateDer::pem_slice_iter(pem).zip(1..);
    let read = each.map(|(certificate, number)| {
        certificate.map_err(|error| TrustError::Certificate { number, why: error.to_string() })
    });
    let all: Vec<_> = read.collect::<Result<_, _>>()?;
    if all.is_empty() { Err(TrustError::Empty) } else { Ok(all) }
}

/// Returns the TLS configuration for connections of this HTTP version.
pub(crate) fn config(trust: &Trust, version: HttpVersion) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    if !matches!(trust.authorities, Authorities::Only(_)) {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let mut given = Vec::new();
    if let Authorities::And(pem) | Authorities::Only(pem) = &trust.authorities {
        given = certificates(pem)?;
        for (certificate, number) in given.iter().zip(1..) {
            let added = roots.add(certificate.clone());
            added.map_err(|error| TrustError::Certificate { number, why: error.to_string() })?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(roots, given, trust, &provider);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &trust.identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificates: pem, key }) => {
            let wrong = |error: &dyn fmt::Display| TrustError::Identity(error.to_string());
            let own = certificates(pem).map_err(|error| wrong(&error))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(&error))?;
            config.with_client_auth_cert(own, key).map_err(|error| wrong(&error))?
        }
    };
    config.alpn_protocols = match version {
        HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

/// Returns the name that a certificate must have.
pub(crate) fn server_name(endpoint: &Endpoint) -> Result<ServerName<'static>, Trouble> {
    ServerName::try_from(endpoint.host().to_owned()).map_err(|_| {
        let words = format!("{:?} is not a valid name for a certificate", endpoint.host());
        Trouble::new(Kind::Tls, words)
    })
}

/// Returns the trouble of a TLS error, with a remedy.
pub(crate) fn trouble(endpoint: &Endpoint, error: &rustls::Error) -> Trouble {
    let hint = match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "; renew it, or set this machine's clock"
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "; pass the certificate of its authority, or its own (ca=FILE.pem)"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; use a host name of the certificate"
            }
            _ => "",
        },
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "; it does not offer this version of HTTP"
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "; it requires a certificate of the client (client-cert=FILE.pem)"
        }
        rustls::Error::InvalidMessage(_) => "; the server may use http",
        _ => "",
    };
    let error = match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(own))) => {
            match own.to_string() {
                // As `openssl req -x509` makes them.
                name if name == "CaUsedAsEndEntity" => {
                    "the certificate is that of an authority (CA:TRUE), and not of a server".into()
                }
                other => other,
            }
        }
        error => error.to_string(),
    };
    Trouble::new(Kind::Tls, format!("TLS with {endpoint} failed: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_that_are_none_are_refused() {
        let refused = |pem: &[u8]| {
            config(&Trust::only(pem.to_vec()), HttpVersion::Http1).map_err(|e| e.to_string()).err()
        };
        assert!(refused(b"").is_some_and(|words| words.contains("found none")));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(refused(broken).is_some_and(|words| words.starts_with("authority certificate 1")));
    }

    #[test]
    fn a_certificate_of_an_authority_is_explained() {
        let own = OtherError(Arc::new(std::io::Error::other("CaUsedAsEndEntity")));
        let error = rustls::Error::InvalidCertificate(CertificateError::Other(own));
        let found = trouble(&"https://a".parse().unwrap(), &error);
        assert!(found.words.contains("an authority (CA:TRUE)"), "{found}");
    }

    #[test]
    fn fingerprints_are_read_as_openssl_writes_them() {
        let hash = [0xab; 32];
        let colons = vec!["AB"; 32].join(":");
        for text in [colons.clone(), format!("sha256:{}", "ab".repeat(32)), "aB".repeat(32)] {
            assert_eq!(text.parse(), Ok(Fingerprint(hash)), "{text}");
        }
        assert_eq!(Fingerprint(hash).to_string(), format!("sha256:{}", "ab".repeat(32)));
        for text in ["", "sha1:abab", &colons[1..], &"xy".repeat(32), &"ä".repeat(32)] {
            assert_eq!(text.parse::<Fingerprint>(), Err(FingerprintError), "{text}");
        }
    }
}
