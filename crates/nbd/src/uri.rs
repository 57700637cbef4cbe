//! NBD servers named in text: `nbd://host:port/export` and `nbd+unix:///export?socket=/path`.
//!
//! Percent-encoded on both ends, so every export name survives. The part after the first `/` of the
//! path is the export name as it is: `nbd://host//disk` is the export `/disk`. Source: doc/uri.md
//! of NetworkBlockDevice/nbd and RFC 3986.
//!
//! | text | meaning |
//! |---|---|
//! | `nbd://example.com` | default export, port 10809 |
//! | `nbd://[::1]:10810/vol0` | export `vol0` over IPv6 |
//! | `nbd:///vol0` | export `vol0` on localhost |
//! | `nbd+unix:///vol0%40realtime?socket=/run/h.sock` | export `vol0@realtime` over a unix socket |
//! | `nbds://…`, `nbds+unix://…` | refused: no TLS here |

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::str::FromStr;

/// The port IANA gave to NBD.
pub const DEFAULT_PORT: u16 = 10809;

/// A server and an export on it. Reads with [`str::parse`], prints with `Display`; what it prints
/// it reads back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NbdUri {
    /// The address of the server.
    pub address: Address,
    /// Name of the export, empty for the server's default.
    pub export: String,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP.
    Tcp {
        /// Name or address, IPv6 without brackets, not empty.
        host: String,
        /// Port, not 0.
        port: u16,
    },
    /// A unix socket.
    Unix {
        /// Path, not empty; a leading NUL means Linux's abstract namespace.
        socket: String,
    },
}

/// A text that names no NBD server this crate can reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum UriError {
    /// A scheme that means TLS.
    #[error(
        "{uri}: TLS ({scheme}://) is not supported; use {plain}:// on a trusted network or through \
            a tunnel such as ssh -L"
    )]
    Tls { uri: String, scheme: &'static str, plain: &'static str },
    #[error("{uri}: expected nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH")]
    Scheme { uri: String },
    /// A part that cannot be read.
    #[error("{uri}: {part} \"{found}\": expected {expected}")]
    Part { uri: String, part: &'static str, found: String, expected: &'static str },
    /// A unix scheme without a socket.
    #[error("{uri}: no socket given; append ?socket=PATH")]
    NoSocket { uri: String },
}

/// Unescaped bytes of a path besides alphanumeric ones.
const PATH_PLAIN: &[u8] = b"-._~/:@!$&'()*+,;=";
/// Like it, for a query's value, where `&`, `+` and `;` may have a meaning.
const QUERY_PLAIN: &[u8] = b"-._~/:@!$'()*,";
/// The same in a host.
const HOST_PLAIN: &[u8] = b"-._~:";

impl FromStr for NbdUri {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<NbdUri, UriError> {
        let bad = |part, found: &str, expected| UriError::Part {
            uri: uri.to_owned(),
            part,
            found: found.to_owned(),
            expected,
        };
        let scheme_error = || UriError::Scheme { uri: uri.to_owned() };
        let (scheme, rest) = uri.split_once("://").ok_or_else(scheme_error)?;
        let tls = |scheme, plain| UriError::Tls { uri: uri.to_owned(), scheme, plain };
        let unix = match scheme.to_ascii_lowercase().as_str() {
            "nbd" => false,
            "nbd+unix" => true,
            "nbds" => return Err(tls("nbds", "nbd")),
            "nbds+unix" => return Err(tls("nbds+unix", "nbd+unix")),
            _ => return Err(scheme_error()),
        };
        if let Some((_, fragment)) = rest.split_once('#') {
            return Err(bad("fragment", fragment, "none; write # in a name as %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decode(path)
            .ok_or_else(|| bad("export", path, "UTF-8 without NUL, %XX for special bytes"))?;
        if export.contains('\0') || export.len() > crate::wire::MAX_STRING_BYTES {
            return Err(bad("export", path, "UTF-8 without NUL, at most 4096 bytes"));
        }
        let mut socket = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = decode(value).filter(|text| !text.is_empty());
            match (key, decoded) {
                ("socket", Some(path)) if unix && socket.is_none() => socket = Some(path),
                ("socket", _) if unix => {
                    return Err(bad("parameter", pair, "one socket=PATH, in UTF-8"));
                }
                ("socket", _) => {
                    return Err(bad("parameter", pair, "no socket with nbd://; use nbd+unix://"));
                }
                (
                    "tls-type" | "tls-hostname" | "tls-verify-peer" | "tls-certificates"
                    | "tls-psk-file",
                    _,
                ) => {
                    return Err(bad("parameter", pair, "none about TLS, which is not supported"));
                }
                _ => return Err(bad("parameter", pair, "only socket=PATH")),
            }
        }
        let address = if unix {
            if !authority.is_empty() {
                return Err(bad("host", authority, "none with nbd+unix; write nbd+unix:///EXPORT"));
            }
            Address::Unix {
                socket: socket.ok_or_else(|| UriError::NoSocket { uri: uri.to_owned() })?,
            }
        } else {
            parse_tcp(authority).map_err(|expected| bad("host", authority, expected))?
        };
        Ok(NbdUri { address, export })
    }
}

fn parse_tcp(authority: &str) -> Result<Address, &'static str> {
    if authority.contains('@') {
        return Err("no user name, which only TLS would use");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("a ] after the IPv6 address")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => DEFAULT_PORT,
        Some("") => DEFAULT_PORT,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or("a port from 1 to 65535")?
        }
        _ => return Err("a port from 1 to 65535 after the colon, IPv6 addresses in brackets"),
    };
    let host =
        decode(host).filter(|host| !host.contains(['\0', '/'])).ok_or("a host name or address")?;
    match host.as_str() {
        "" if authority.starts_with('[') => Err("an IPv6 address between the brackets"),
        "" => Ok(Address::Tcp { host: "localhost".to_owned(), port }),
        _ => Ok(Address::Tcp { host, port }),
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port } => {
                f.write_str("nbd://")?;
                let brackets = host.contains(':');
                f.write_str(if brackets { "[" } else { "" })?;
                encode(f, host, HOST_PLAIN)?;
                f.write_str(if brackets { "]" } else { "" })?;
                if *port != DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
                f.write_char('/')?;
                encode(f, &self.export, PATH_PLAIN)
            }
            Address::Unix { socket } => {
                f.write_str("nbd+unix:///")?;
                encode(f, &self.export, PATH_PLAIN)?;
                f.write_str("?socket=")?;
                encode(f, socket, QUERY_PLAIN)
            }
        }
    }
}

/// Undoes percent-encoding; `None` for a bad escape or bytes that are no UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_first_chunk::<2>()?;
        let digit = |at: usize| (digits[at] as char).to_digit(16);
        // Two hexadecimal digits are at most 255.
        bytes.push((digit(0)? * 16 + digit(1)?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

fn encode(f: &mut fmt::Formatter<'_>, text: &str, plain: &[u8]) -> fmt::Result {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            f.write_char(byte as char)?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn tcp(host: &str, port: u16, export: &str) -> NbdUri {
        NbdUri { address: Address::Tcp { host: host.into(), port }, export: export.into() }
    }

    fn unix(socket: &str, export: &str) -> NbdUri {
        NbdUri { address: Address::Unix { socket: socket.into() }, export: export.into() }
    }

    #[test]
    fn accepted_texts_mean_what_the_document_says() {
        for (text, meaning) in [
            ("nbd://example.com/disk", tcp("example.com", 10809, "disk")),
            ("NBD://example.com", tcp("example.com", 10809, "")),
            ("nbd://example.com/", tcp("example.com", 10809, "")),
            ("nbd://example.com//disk", tcp("example.com", 10809, "/disk")),
            ("nbd://example.com/hello%20world", tcp("example.com", 10809, "hello world")),
            ("nbd://10.0.0.1:10810/a/b", tcp("10.0.0.1", 10810, "a/b")),
            ("nbd://[::1]:1/x", tcp("::1", 1, "x")),
            ("nbd://[::1]", tcp("::1", 10809, "")),
            ("nbd://host:/x", tcp("host", 10809, "x")),
            ("nbd:///x", tcp("localhost", 10809, "x")),
            ("nbd://:7/x", tcp("localhost", 7, "x")),
            ("nbd://h/vol0@realtime", tcp("h", 10809, "vol0@realtime")),
            ("nbd+unix:///disk?socket=sock", unix("sock", "disk")),
            ("nbd+unix://?socket=/run/a%20b.sock", unix("/run/a b.sock", "")),
            ("nbd+unix:///?socket=%00/abstract", unix("\0/abstract", "")),
        ] {
            assert_eq!(text.parse(), Ok(meaning), "{text}");
        }
    }

    #[test]
    fn refused_texts_say_what_was_expected() {
        for (text, message) in [
            (
                "http://h/x",
                "http://h/x: expected nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH",
            ),
            (
                "/dev/sda",
                "/dev/sda: expected nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH",
            ),
            (
                "nbds://h/x",
                "nbds://h/x: TLS (nbds://) is not supported; use nbd:// on a trusted network or \
                    through a tunnel such as ssh -L",
            ),
            ("nbd+unix:///x", "nbd+unix:///x: no socket given; append ?socket=PATH"),
            ("nbd://h:0/x", "nbd://h:0/x: host \"h:0\": expected a port from 1 to 65535"),
            (
                "nbd://h/%4",
                "nbd://h/%4: export \"%4\": expected UTF-8 without NUL, %XX for special bytes",
            ),
        ] {
            assert_eq!(text.parse::<NbdUri>().unwrap_err().to_string(), message);
        }
        for text in [
            "nbds+unix:///x?socket=s",
            "nbd://h:65536/x",
            "nbd://h:1a/x",
            "nbd://h:+1/x",
            "nbd://::1/x",
            "nbd://[::1/x",
            "nbd://[::1]x/x",
            "nbd://[]/x",
            "nbd://me@h/x",
            "nbd://h/%ff",
            "nbd://h/%00",
            "nbd://h/%zz",
            "nbd://h/x#y",
            "nbd://h/x?socket=s",
            "nbd://h/x?tls-type=anon",
            "nbd://h/x?what=1",
            "nbd+unix://h/x?socket=s",
            "nbd+unix:///x?socket=",
            "nbd+unix:///x?socket=a&socket=b",
            "nbd+unix:///x?socket",
        ] {
            assert!(text.parse::<NbdUri>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            socket in proptest::option::of("\\PC{1,20}"),
            host in "[a-zA-Z0-9.-]{1,20}|[0-9a-f:]{0,10}:[0-9a-f]{1,4}",
            port in 1..=u16::MAX,
            export in "[^\\x00]{0,30}",
        ) {
            let address = match socket {
                Some(socket) => Address::Unix { socket },
                None => Address::Tcp { host, port },
            };
            let uri = NbdUri { address, export };
            prop_assert_eq!(uri.to_string().parse(), Ok(uri));
        }

        #[test]
        fn no_text_makes_it_panic(text in "(nbd(s)?(\\+unix)?://)?\\PC{0,40}") {
            if let Ok(uri) = text.parse::<NbdUri>() {
                prop_assert_eq!(uri.to_string().parse(), Ok(uri));
            }
        }
    }
}
