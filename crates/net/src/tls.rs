//! Trust of a client in servers, and messages about failures.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::endpoint::Endpoint;
use crate::exchange::HttpVersion;
use crate::trouble::{Kind, Trouble};

/// Authorities that may vouch for a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Authorities that browsers know, as of the build date.
    #[default]
    Public,
    /// The public authorities and the certificates in this PEM text.
    And(Vec<u8>),
    /// Only the certificates in this PEM text.
    Only(Vec<u8>),
}

/// Reason why authorities cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The text contains no certificate.
    #[error(
        "expected certificates in PEM, found none: they begin with -----BEGIN CERTIFICATE-----"
    )]
    Empty,
    /// A certificate cannot be read.
    #[error("certificate {number} of the authorities cannot be read: {why}")]
    Certificate {
        /// Its number, from 1.
        number: usize,
        /// The error.
        why: String,
    },
}

/// Returns the TLS configuration for connections of this HTTP version.
pub(crate) fn config(trust: &Trust, version: HttpVersion) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    if !matches!(trust, Trust::Only(_)) {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Trust::And(pem) | Trust::Only(pem) = trust {
        let mut number = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            number += 1;
            let unreadable = |why: String| TrustError::Certificate { number, why };
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
        if number == 0 {
            return Err(TrustError::Empty);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of both versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = match version {
        HttpVersion::Http1 => vec![b"http/1.1".to_vec()],
        HttpVersion::Http2 => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

/// Returns the name that a certificate must have.
pub(crate) fn server_name(endpoint: &Endpoint) -> Result<ServerName<'static>, Trouble> {
    ServerName::try_from(endpoint.host().to_owned()).map_err(|_| {
        let words = format!("no certificate can be of the name {:?}", endpoint.host());
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
            CertificateError::UnknownIssuer => "; give the certificate of its authority",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; use a name that it is of"
            }
            _ => "",
        },
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "; it does not offer this version of HTTP"
        }
        rustls::Error::InvalidMessage(_) => "; perhaps the server speaks http there",
        _ => "",
    };
    Trouble::new(Kind::Tls, format!("TLS with {endpoint} failed: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_that_are_none_are_refused() {
        let refused = |pem: &[u8]| {
            config(&Trust::Only(pem.to_vec()), HttpVersion::Http1).map_err(|e| e.to_string()).err()
        };
        assert!(refused(b"").is_some_and(|words| words.contains("found none")));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(refused(broken).is_some_and(|words| words.starts_with("certificate 1")));
    }
}
