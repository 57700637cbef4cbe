//! [`Tls`]: the TLS configuration from files, which can be reloaded.
//!
//! A reload is atomic: inconsistent files change nothing. Open connections stay; new ones use the
//! new files, including resumed sessions. Session tickets belong to a [`ServerConfig`] and
//! disappear with it, so a revoked certificate cannot resume a session.

use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate, X509Version};

use super::{TlsConfig, TlsError};

/// The TLS configuration of a server. Any thread that may block can reload it.
#[derive(Debug)]
pub struct Tls {
    files: TlsConfig,
    in_force: RwLock<Arc<ServerConfig>>,
    /// Serializes reloads, so that an older read never replaces a newer one.
    reading: Mutex<()>,
}

/// The facts about the loaded files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The end of the validity of the server's certificate.
    pub certificate_until: String,
    /// The number of certificates in the revocation lists; `None` without such a file.
    pub revoked_certificates: Option<u64>,
    /// Reasons why clients will be rejected, with remedies.
    pub notes: Vec<String>,
}

impl Tls {
    /// Loads certificates, key and lists.
    pub(crate) fn open(config: &TlsConfig) -> Result<(Self, TlsFiles), TlsError> {
        let (in_force, files) = read(config)?;
        Ok((
            Self {
                files: config.clone(),
                in_force: RwLock::new(in_force),
                reading: Mutex::default(),
            },
            files,
        ))
    }

    /// Reloads all files under their names from the start. New connections use the new files; open
    /// ones stay.
    ///
    /// # Errors
    /// [`TlsError`]; the old files stay in use.
    pub fn reload(&self) -> Result<TlsFiles, TlsError> {
        let _one_at_a_time = self.reading.lock();
        let (read, files) = read(&self.files)?;
        *self.in_force.write() = read;
        Ok(files)
    }

    /// The configuration for a new client.
    pub(crate) fn in_force(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_force.read())
    }
}

fn read(config: &TlsConfig) -> Result<(Arc<ServerConfig>, TlsFiles), TlsError> {
    let missing = |what: &str| TlsError::Setup(format!("{what} is not given"));
    let certificate = config.certificate.as_deref().ok_or_else(|| missing("certificate"))?;
    let key_file = config.key.as_deref().ok_or_else(|| missing("key"))?;
    let chain = certificates("certificate", certificate)?;
    let mut files = TlsFiles::default();
    files.tell_of(certificate, &chain[0])?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| file("key", key_file, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let setup = |error: rustls::Error| TlsError::Setup(error.to_string());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(setup)?;
    let builder = match &config.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(
            path,
            config.client_crl.as_deref(),
            provider,
            &mut files,
        )?),
    };
    let mismatch = |error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::KeyMismatch { key: key_file.to_owned(), certificate: certificate.to_owned() }
        }
        other => setup(other),
    };
    Ok((Arc::new(builder.with_single_cert(chain, key).map_err(mismatch)?), files))
}

/// The verifier of client certificates: one of the authorities must have signed a certificate, and
/// no list may revoke it. A certificate without a current revocation list is rejected.
fn verifier(
    authorities: &Path,
    lists: Option<&Path>,
    provider: Arc<rustls::crypto::CryptoProvider>,
    files: &mut TlsFiles,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let trusted = certificates("client_ca", authorities)?;
    for root in &trusted {
        roots
            .add(root.clone())
            .map_err(|error| file("client_ca", authorities, error.to_string()))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if let Some(path) = lists {
        let read = CertificateRevocationListDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let lists = read.map_err(|error| file("client_crl", path, error.to_string()))?;
        if lists.is_empty() {
            return Err(file("client_crl", path, "no revocation list in it".to_owned()));
        }
        files.tell_of_lists(path, &lists, &trusted)?;
        builder = builder.with_crls(lists).enforce_revocation_expiration();
    }
    builder.build().map_err(|error| TlsError::Setup(error.to_string()))
}

impl TlsFiles {
    fn tell_of(&mut self, path: &Path, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| file("certificate", path, error.to_string()))?;
        if parsed.version() != X509Version::V3 {
            return Err(TlsError::OldVersion { path: path.to_owned() });
        }
        self.certificate_until = parsed.validity().not_after.to_string();
        if !parsed.validity().is_valid() {
            let note = format!(
                "{}: the certificate is valid from {} to {}, so clients reject it now; renew it",
                path.display(),
                parsed.validity().not_before,
                self.certificate_until
            );
            self.notes.push(note);
        }
        Ok(())
    }

    fn tell_of_lists(
        &mut self,
        path: &Path,
        lists: &[CertificateRevocationListDer<'_>],
        trusted: &[CertificateDer<'_>],
    ) -> Result<(), TlsError> {
        let wrong = |error: String| file("client_crl", path, error);
        let now = x509_parser::time::ASN1Time::now();
        let (mut revoked, mut issuers) = (0, Vec::new());
        for list in lists {
            let (_, parsed) = CertificateRevocationList::from_der(list)
                .map_err(|error| wrong(error.to_string()))?;
            revoked += parsed.iter_revoked_certificates().count() as u64;
            if let Some(due) = parsed.next_update().filter(|due| *due < now) {
                let note = format!(
                    "{}: the list of {} expired at {due}, so clients whose \
                        certificates it signed are refused; fetch its next list",
                    path.display(),
                    parsed.issuer()
                );
                self.notes.push(note);
            }
            issuers.push(parsed.issuer().as_raw().to_vec());
        }
        for root in trusted {
            let (_, parsed) =
                X509Certificate::from_der(root).map_err(|error| wrong(error.to_string()))?;
            if issuers.iter().all(|issuer| issuer != parsed.subject().as_raw()) {
                let note = format!(
                    "{}: there is no list of {}, so clients whose certificates it signed are \
                        refused; add its list, even an empty one",
                    path.display(),
                    parsed.subject()
                );
                self.notes.push(note);
            }
        }
        self.revoked_certificates = Some(revoked);
        Ok(())
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(file(what, path, "no certificate in it".to_owned()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(file(what, path, error.to_string())),
    }
}

fn file(what: &'static str, path: &Path, error: String) -> TlsError {
    TlsError::File { what, path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_none_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cert.pem");
        std::fs::write(&path, "nothing").unwrap();
        let config =
            TlsConfig { certificate: Some(path.clone()), key: Some(path), ..TlsConfig::default() };
        let error = Tls::open(&config).unwrap_err().to_string();
        assert!(error.contains("cert.pem: no certificate in it"), "{error}");
        let missing = TlsConfig { certificate: Some(directory.path().join("no.pem")), ..config };
        assert!(Tls::open(&missing).unwrap_err().to_string().contains("no.pem"));
        assert!(
            Tls::open(&TlsConfig::default())
                .unwrap_err()
                .to_string()
                .contains("certificate is not given")
        );
    }
}
