//! TLS in front of exports: the server's certificate, whose clients' certificates are trusted, and
//! what each client may see.
//!
//! ```toml
//! listen = ["unix:/run/headtime/nbd.sock", "tcp:0.0.0.0:10809,tls=require"]
//!
//! [tls]
//! certificate = "/etc/headtime/server-cert.pem"    # the chain, the server's own first
//! key = "/etc/headtime/server-key.pem"
//! client_ca = "/etc/headtime/ca-cert.pem"          # clients must show a certificate that it signed
//! client_crl = "/etc/headtime/ca-crl.pem"          # and that it has not revoked
//!
//! [[client]]
//! name = "vm1.example.org"                         # a DNS name or the common name in its certificate
//! exports = ["vm1", "vm1@*"]
//! ```
//! Without a `[[client]]` everybody who gets in sees every export. With one, a client sees what the
//! entries of its names list and nothing else, not even by name; `*` stands for whoever there is,
//! and for anything at the end of an export's name. A unix socket without TLS is guarded by its
//! file's permissions, and whoever may open it sees everything.

mod channel;
mod files;

use std::path::PathBuf;

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

pub(crate) use channel::Channel;
pub use channel::TLS_BYTES;
pub use files::{Tls, TlsFiles};

/// Where certificates and keys are; PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The server's chain, its own certificate first.
    pub certificate: Option<PathBuf>,
    /// The server's private key.
    pub key: Option<PathBuf>,
    /// Who signs the certificates of clients; clients need none when there is none.
    pub client_ca: Option<PathBuf>,
    /// Which of those certificates are good no more: revocation lists of everybody who signs; none
    /// are looked at when there is none.
    pub client_crl: Option<PathBuf>,
}

/// What a client may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// A DNS name or the common name in its certificate; `*` for any client.
    pub name: String,
    /// The exports, each by name or with `*` at its end.
    pub exports: Vec<String>,
}

/// Why there is no TLS, or not what the files say by now.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is none of its kind.
    #[error("tls: {what} {}: {error}; it has to be a PEM file that the server can read", path.display())]
    File {
        /// What it should be.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// The parts do not go together.
    #[error(
        "tls: {0}; check that key and certificate belong together and are of a kind in use today \
            (RSA from 2048 bits, ECDSA, Ed25519)"
    )]
    Setup(String),
    /// Nothing can be read again.
    #[error(
        "there is no [tls] in the configuration, and nothing else is read again while serving; \
            restart the server for what was changed"
    )]
    None,
}

/// What clients may see, by the names in their certificates.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    clients: Vec<ClientConfig>,
}

/// What one client may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    All,
    /// What one of these patterns names.
    Some(Vec<String>),
}

impl Permissions {
    pub(crate) fn new(clients: Vec<ClientConfig>) -> Self {
        Self { clients }
    }

    /// What a client with this certificate may see; `None` for one that showed none.
    pub(crate) fn of(&self, certificate: Option<&CertificateDer<'_>>) -> Access {
        if self.clients.is_empty() {
            return Access::All;
        }
        let names = certificate.map(|certificate| names_in(certificate)).unwrap_or_default();
        let meant = |client: &&ClientConfig| {
            client.name == "*" || names.iter().any(|name| name.eq_ignore_ascii_case(&client.name))
        };
        Access::Some(
            self.clients.iter().filter(meant).flat_map(|client| client.exports.clone()).collect(),
        )
    }
}

impl Access {
    /// Whether an export of this name is among it.
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
            "who shows nothing is anybody"
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
