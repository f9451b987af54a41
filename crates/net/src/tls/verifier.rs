//! Verification of a server's certificate.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::{Fingerprint, Trust};

/// Verifies certificates by authorities, by fingerprints, or not at all. Every server must prove
/// that it has the private key of its certificate.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` if there are no authorities.
    by_authorities: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that vouch for themselves, also if they are not those of authorities, or claim
    /// to be but are those of servers.
    given: Vec<CertificateDer<'static>>,
    fingerprints: Vec<Fingerprint>,
    is_unverified: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(super) fn new(
        roots: RootCertStore,
        given: Vec<CertificateDer<'static>>,
        trust: &Trust,
        provider: &Arc<CryptoProvider>,
    ) -> Self {
        let built =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        Self {
            by_authorities: built.ok(),
            given,
            fingerprints: trust.fingerprints.clone(),
            is_unverified: trust.is_unverified,
            provider: provider.clone(),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.fingerprints.is_empty() {
            let hash = ring::digest::digest(&ring::digest::SHA256, end_entity);
            let found = Fingerprint(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"));
            return if self.fingerprints.contains(&found) {
                Ok(ServerCertVerified::assertion())
            } else {
                let error = Arc::new(OtherFingerprintError(found));
                Err(CertificateError::Other(OtherError(error)).into())
            };
        }
        if self.is_unverified {
            return Ok(ServerCertVerified::assertion());
        }
        let verified = match &self.by_authorities {
            None => Err(CertificateError::UnknownIssuer.into()),
            Some(authorities) => authorities.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
        };
        match verified {
            Err(Error::InvalidCertificate(why))
                if self.given.contains(end_entity) && !is_about_dates_or_names(&why) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns whether a certificate is rejected for its dates or names, which also count for one that
/// vouches for itself.
fn is_about_dates_or_names(why: &CertificateError) -> bool {
    matches!(
        why,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }
    )
}

/// The certificate has another fingerprint than those given.
#[derive(Debug)]
struct OtherFingerprintError(Fingerprint);

impl fmt::Display for OtherFingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its certificate has the fingerprint {}, which differs from the given one",
            self.0
        )
    }
}

impl std::error::Error for OtherFingerprintError {}
