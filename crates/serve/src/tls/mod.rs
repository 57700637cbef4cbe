//! TLS for exports: the server's certificate, the authorities for clients' certificates, and the
//! permissions of clients.
//!
//! ```toml
//! listen = ["unix:/run/headtime/nbd.sock", "tcp:0.0.0.0:10809,tls=require"]
//!
//! [tls]
//! certificate = "/etc/headtime/server-cert.pem"  # the chain, the server's own first
//! key = "/etc/headtime/server-key.pem"
//! client_ca = "/etc/headtime/ca-cert.pem"        # clients need a certificate that it signed
//! client_crl = "/etc/headtime/ca-crl.pem"        # and that it has not revoked
//!
//! [[client]]
//! name = "vm1.example.org"                       # a DNS name or common name in its certificate
//! exports = ["vm1", "vm1@*"]
//! ```
//! Without a `[[client]]` every client sees every export. With one, a client sees only the exports
//! in the entries for its names, and cannot even list others. The name `*` matches any client; a
//! `*` at the end of an export matches any suffix. A unix socket without TLS is protected by its
//! file permissions, and its clients see everything.

mod channel;
mod files;

use std::path::PathBuf;

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

pub(crate) use channel::Channel;
pub use channel::TLS_BYTES;
pub use files::{Tls, TlsFiles};

/// The PEM files with certificates and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The server's chain, its own certificate first.
    pub certificate: Option<PathBuf>,
    /// The server's private key.
    pub key: Option<PathBuf>,
    /// The authorities for clients' certificates; without them clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// The revocation lists of all these authorities; without them revocation is not checked.
    pub client_crl: Option<PathBuf>,
}

/// The exports that a client may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// A DNS name or the common name in its certificate; `*` for any client.
    pub name: String,
    /// The exports, each by name or with `*` at its end.
    pub exports: Vec<String>,
}

/// The fault of a certificate without extensions, and its remedy.
const OLD_VERSION: &str = "it is X.509 version 1, which TLS rejects; issue it with extensions, \
    such as subjectAltName, for version 3 (`openssl x509 -req -extfile FILE`)";

/// The reason why TLS cannot be set up or reloaded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum TlsError {
    /// A file cannot be read or parsed.
    #[error(
        "tls: {what} {}: {error}; expected a PEM file that the server can read",
        path.display()
    )]
    File { what: &'static str, path: PathBuf, error: String },
    /// The files do not match.
    #[error(
        "tls: {0}; check that key and certificate belong together and are of a kind in use today \
            (RSA from 2048 bits, ECDSA, Ed25519)"
    )]
    Setup(String),
    /// Key and certificate are not a pair.
    #[error(
        "tls: the key {} does not belong to the certificate {}; expected the private key that the \
            first certificate in the file was made for",
        key.display(), certificate.display()
    )]
    KeyMismatch { key: PathBuf, certificate: PathBuf },
    #[error("tls: certificate {}: {OLD_VERSION}", path.display())]
    OldVersion { path: PathBuf },
    #[error(
        "the server has no [tls] and was started without --config, so that there is nothing to \
            reload; restart it for other changes"
    )]
    None,
}

/// The permissions of clients, by the names in their certificates.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    clients: Vec<ClientConfig>,
}

/// The permissions of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    All,
    /// The exports that match one of these patterns.
    Some(Vec<String>),
}

impl Permissions {
    pub(crate) fn new(clients: Vec<ClientConfig>) -> Self {
        Self { clients }
    }

    /// The permissions of a client with this certificate, or without one.
    pub(crate) fn of(&self, certificate: Option<&CertificateDer<'_>>) -> Access {
        if self.clients.is_empty() {
            return Access::All;
        }
        let names = certificate.map(|certificate| names_in(certificate)).unwrap_or_default();
        let selected = |client: &&ClientConfig| {
            client.name == "*" || names.iter().any(|name| name.eq_ignore_ascii_case(&client.name))
        };
        Access::Some(
            self.clients
                .iter()
                .filter(selected)
                .flat_map(|client| client.exports.clone())
                .collect(),
        )
    }
}

impl Access {
    /// Returns whether a client may see this export.
    pub(crate) fn sees(&self, export: &str) -> bool {
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => export.starts_with(start),
            None => export == pattern,
        };
        match self {
            Self::All => true,
            Self::Some(patterns) => patterns.iter().any(matches),
        }
    }
}

/// The DNS names of a certificate and its common names.
fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let alternative = parsed.subject_alternative_name().ok().flatten();
    let dns =
        alternative.iter().flat_map(|names| &names.value.general_names).filter_map(
            |name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            },
        );
    let common = parsed
        .subject()
        .iter_common_name()
        .filter_map(|name| name.as_str().ok().map(str::to_owned));
    dns.chain(common).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, exports: &[&str]) -> ClientConfig {
        ClientConfig {
            name: name.to_owned(),
            exports: exports.iter().map(|export| (*export).to_owned()).collect(),
        }
    }

    #[test]
    fn a_client_sees_what_its_names_list_and_nothing_else() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["VM1.example.org".to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "backup host");
        let certificate = parameters.self_signed(&key).unwrap();
        assert_eq!(names_in(certificate.der()), ["VM1.example.org", "backup host"]);
        let permissions = Permissions::new(vec![
            client("vm1.example.org", &["vm1", "vm1@*"]),
            client("Backup Host", &["*"]),
            client("vm2", &["vm2"]),
            client("*", &["public"]),
        ]);
        let Access::Some(mut seen) = permissions.of(Some(certificate.der())) else {
            panic!("there are entries")
        };
        seen.sort();
        assert_eq!(seen, ["*", "public", "vm1", "vm1@*"]);
        assert_eq!(
            permissions.of(None),
            Access::Some(vec!["public".to_owned()]),
            "a client without a certificate matches only `*`"
        );
        assert_eq!(Permissions::default().of(None), Access::All);
        let some = Access::Some(vec!["vm1".to_owned(), "vm1@*".to_owned()]);
        for (export, sees) in
            [("vm1", true), ("vm1@bulk", true), ("vm10", false), ("vm", false), ("", false)]
        {
            assert_eq!(some.sees(export), sees, "{export}");
        }
    }
}
