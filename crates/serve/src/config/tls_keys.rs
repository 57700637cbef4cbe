//! The tables of keys of TLS: certificates, and what clients see by theirs.

use super::value::Key;
use crate::tls::{ClientConfig, TlsConfig};

/// Keys of `[tls]`.
pub const TLS_KEYS: &[Key<TlsConfig>] = &[
    Key {
        name: "certificate",
        takes: "FILE",
        summary: "the server's certificate and those between it and who signed it, PEM",
        default: "none; there is no TLS then",
        set: |tls, value| {
            tls.certificate = Some(value.text()?.into());
            Ok(())
        },
    },
    Key {
        name: "key",
        takes: "FILE",
        summary: "the server's private key, PEM",
        default: "none; given with certificate",
        set: |tls, value| {
            tls.key = Some(value.text()?.into());
            Ok(())
        },
    },
    Key {
        name: "client_ca",
        takes: "FILE",
        summary: "who signs the certificates of clients, PEM; a client must show one of them",
        default: "none; clients need no certificate",
        set: |tls, value| {
            tls.client_ca = Some(value.text()?.into());
            Ok(())
        },
    },
    Key {
        name: "client_crl",
        takes: "FILE",
        summary: "revocation lists of everybody who signs certificates of clients, PEM",
        default: "none; no certificate counts as revoked",
        set: |tls, value| {
            tls.client_crl = Some(value.text()?.into());
            Ok(())
        },
    },
];

/// Keys of a client.
pub const CLIENT_KEYS: &[Key<ClientConfig>] = &[
    Key {
        name: "name",
        takes: "NAME or *",
        summary: "a DNS name or the common name in the client's certificate; * for whoever there \
            is",
        default: "none; must be given",
        set: |client, value| {
            let name = value.text()?;
            if name.is_empty() {
                return Err(
                    "name is empty; write the name in the client's certificate, or *".to_string()
                );
            }
            client.name = name.to_string();
            Ok(())
        },
    },
    Key {
        name: "exports",
        takes: "NAME or PREFIX*; a list",
        summary: "the exports that the client sees",
        default: "none",
        set: |client, value| {
            client.exports.push(value.text()?.to_string());
            Ok(())
        },
    },
];
