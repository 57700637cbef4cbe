//! The keys of TLS: certificates, and the exports of clients by their certificates.

use headtime_config::{Key, REQUIRED, ValueErrors};

use crate::tls::{ClientConfig, TlsConfig};

/// The keys of `[tls]`.
pub const TLS_KEYS: &[Key<TlsConfig>] = &[
    Key {
        name: "certificate",
        takes: "FILE",
        summary: "the server's certificate and its intermediate certificates, PEM",
        default: "none; without it there is no TLS",
        set: |tls, value| value.text().map(|file| tls.certificate = Some(file.into())),
    },
    Key {
        name: "key",
        takes: "FILE",
        summary: "the server's private key, PEM",
        default: "none; given with certificate",
        set: |tls, value| value.text().map(|file| tls.key = Some(file.into())),
    },
    Key {
        name: "client_ca",
        takes: "FILE",
        summary: "authorities that sign the certificates of clients, PEM; a client must present \
            one",
        default: "none; clients need no certificate",
        set: |tls, value| value.text().map(|file| tls.client_ca = Some(file.into())),
    },
    Key {
        name: "client_crl",
        takes: "FILE",
        summary: "revocation lists of the authorities that sign certificates of clients, PEM",
        default: "none; no certificate counts as revoked",
        set: |tls, value| value.text().map(|file| tls.client_crl = Some(file.into())),
    },
];

/// The keys of a client.
pub const CLIENT_KEYS: &[Key<ClientConfig>] = &[
    Key {
        name: "name",
        takes: "NAME or *",
        summary: "a DNS name or the common name in the client's certificate; * for any client",
        default: REQUIRED,
        set: |client, value| {
            let name = value.text()?;
            if name.is_empty() {
                return Err(value.unexpected("the name in the client's certificate, or *", "\"*\""));
            }
            client.name = name.to_string();
            Ok(())
        },
    },
    Key {
        name: "exports",
        takes: "NAME or PREFIX*; a list",
        summary: "exports that the client can list and open",
        default: "none",
        set: |client, value| {
            ValueErrors::join(
                value.list().iter().map(|value| {
                    value.text().map(|export| client.exports.push(export.to_string()))
                }),
            )
        },
    },
];
