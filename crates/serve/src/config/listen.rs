//! The addresses of the server: `unix:PATH[,mode=0600]` or `tcp:HOST:PORT`, optionally with
//! `,tls=off|allow|require`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use headtime_nbd::server::TlsPolicy;

/// The port that IANA assigned to NBD.
pub const DEFAULT_PORT: u16 = 10_809;
/// The default mode of a unix socket: only its owner may connect.
const DEFAULT_SOCKET_MODE: u32 = 0o600;

/// One address of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A unix socket.
    Unix {
        /// Its file.
        path: PathBuf,
        /// The permissions of the file.
        mode: u32,
        /// The use of TLS; `None` for the default, off.
        tls: Option<TlsPolicy>,
    },
    /// A TCP port.
    Tcp {
        /// Name or number of an address of this host; an IPv6 number without brackets.
        host: String,
        /// The port; 0 lets the system choose a free one.
        port: u16,
        /// The use of TLS; `None` for the default, required if there is a certificate.
        tls: Option<TlsPolicy>,
    },
}

/// The reason why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ListenError {
    /// Neither `unix:` nor `tcp:`.
    #[error(
        "`{text}` is not an address to listen at; write unix:PATH or tcp:HOST:PORT, such as \
            unix:/run/headtime.sock or tcp:127.0.0.1:{DEFAULT_PORT}"
    )]
    Kind { text: String },
    /// An unknown value of `tls=`.
    #[error("`{text}`: tls={word}: expected off, allow or require")]
    Tls { text: String, word: String },
    /// No path, or one longer than a unix socket may have.
    #[error("`{text}`: the path of a unix socket has 1 to 107 bytes; choose a shorter directory")]
    Path { text: String },
    /// Invalid permissions.
    #[error(
        "`{text}`: `{mode}` is not a mode; write three octal digits with an optional leading 0, \
            such as unix:PATH,mode=0660"
    )]
    Mode { text: String, mode: String },
    #[error(
        "`{text}`: expected tcp:HOST or tcp:HOST:PORT with a port from 0 to 65535; write an IPv6 \
            address in brackets, such as tcp:[::1]:{DEFAULT_PORT}"
    )]
    Tcp { text: String },
}

/// The values of `tls=`.
const TLS_WORDS: [(TlsPolicy, &str); 3] =
    [(TlsPolicy::Off, "off"), (TlsPolicy::Allow, "allow"), (TlsPolicy::Require, "require")];

impl Listen {
    /// Reads an address.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn parse(text: &str) -> Result<Self, ListenError> {
        let whole = text;
        let (text, tls) = match text.rsplit_once(",tls=") {
            Some((text, word)) => {
                let known =
                    TLS_WORDS.iter().find(|(_, known)| *known == word).map(|(policy, _)| *policy);
                (
                    text,
                    Some(known.ok_or_else(|| ListenError::Tls {
                        text: whole.to_string(),
                        word: word.to_string(),
                    })?),
                )
            }
            None => (text, None),
        };
        if let Some(rest) = text.strip_prefix("unix:") {
            let (path, mode) = match rest.rsplit_once(",mode=") {
                Some((path, mode)) => (
                    path,
                    parse_mode(mode).ok_or_else(|| ListenError::Mode {
                        text: text.to_string(),
                        mode: mode.to_string(),
                    })?,
                ),
                None => (rest, DEFAULT_SOCKET_MODE),
            };
            let fits = (1..=107).contains(&path.len()) && !path.contains('\0');
            return if fits {
                Ok(Self::Unix { path: PathBuf::from(path), mode, tls })
            } else {
                Err(ListenError::Path { text: text.to_string() })
            };
        }
        let rest = text
            .strip_prefix("tcp:")
            .ok_or_else(|| ListenError::Kind { text: text.to_string() })?;
        let wrong = || ListenError::Tcp { text: text.to_string() };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => rest
                .split_once(']')
                .map(|(host, port)| {
                    (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
                })
                .ok_or_else(wrong)?,
            None => rest.split_once(':').map_or((rest, Some("")), |(host, port)| {
                (host, Some(port).filter(|port| !port.is_empty()))
            }),
        };
        let port = match port.ok_or_else(wrong)? {
            "" => DEFAULT_PORT,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| wrong())?
            }
            _ => return Err(wrong()),
        };
        if host.is_empty() || host.contains(['[', ']', '/', ' ']) {
            return Err(wrong());
        }
        Ok(Self::Tcp { host: host.to_string(), port, tls })
    }

    /// The use of TLS at this address, on a server with or without a certificate.
    #[must_use]
    pub fn tls(&self, has_certificate: bool) -> TlsPolicy {
        match self {
            Self::Unix { tls, .. } => tls.unwrap_or(TlsPolicy::Off),
            Self::Tcp { tls, .. } => {
                tls.unwrap_or(if has_certificate { TlsPolicy::Require } else { TlsPolicy::Off })
            }
        }
    }

    /// Returns true if both addresses are the same socket.
    #[must_use]
    pub fn same_address(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix { path, .. }, Self::Unix { path: other, .. }) => path == other,
            (Self::Tcp { port: 0, .. }, Self::Tcp { .. }) => false,
            (Self::Tcp { host, port, .. }, Self::Tcp { host: other, port: other_port, .. }) => {
                host == other && port == other_port
            }
            _ => false,
        }
    }
}

impl FromStr for Listen {
    type Err = ListenError;
    fn from_str(text: &str) -> Result<Self, ListenError> {
        Self::parse(text)
    }
}

impl fmt::Display for Listen {
    /// The text that [`Listen::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { path, mode, .. } if *mode == DEFAULT_SOCKET_MODE => {
                write!(f, "unix:{}", path.display())?
            }
            Self::Unix { path, mode, .. } => write!(f, "unix:{},mode={mode:04o}", path.display())?,
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "tcp:[{host}]:{port}")?,
            Self::Tcp { host, port, .. } => write!(f, "tcp:{host}:{port}")?,
        }
        let (Self::Unix { tls, .. } | Self::Tcp { tls, .. }) = self;
        let word = tls.and_then(|tls| TLS_WORDS.iter().find(|(known, _)| *known == tls));
        word.map_or(Ok(()), |(_, word)| write!(f, ",tls={word}"))
    }
}

fn parse_mode(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(text);
    let ok = digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    ok.then(|| u32::from_str_radix(digits, 8).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_addresses_are_printed_and_read_back() {
        for (text, again) in [
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            ("unix:a,b,mode=660", "unix:a,b,mode=0660"),
            ("unix:a,mode=0600", "unix:a"),
            ("tcp:localhost", "tcp:localhost:10809"),
            ("tcp:127.0.0.1:0", "tcp:127.0.0.1:0"),
            ("tcp:[::1]:99", "tcp:[::1]:99"),
            ("tcp:[::]", "tcp:[::]:10809"),
            ("tcp:[::],tls=require", "tcp:[::]:10809,tls=require"),
            ("unix:/a,mode=0660,tls=allow", "unix:/a,mode=0660,tls=allow"),
        ] {
            let listen = Listen::parse(text).unwrap();
            assert_eq!(listen.to_string(), again);
            assert_eq!(Listen::parse(again), Ok(listen));
        }
    }

    #[test]
    fn refused_addresses_are_reported_with_the_expected_form() {
        for (text, part) in [
            ("/run/a.sock", "write unix:PATH"),
            ("unix:", "1 to 107 bytes"),
            ("unix:a,mode=9", "`9` is not a mode"),
            ("unix:a,mode=+60", "is not a mode"),
            ("tcp:", "expected tcp:HOST"),
            ("tcp::1", "expected tcp:HOST"),
            ("tcp:h:", "expected tcp:HOST"),
            ("tcp:h:65536", "port from 0 to 65535"),
            ("tcp:::1", "brackets"),
            ("tcp:[::1", "brackets"),
            ("tcp:[::1]9", "brackets"),
            ("tcp:h:+1", "port from 0"),
            ("tcp:h:1,tls=yes", "expected off, allow or require"),
        ] {
            let message = Listen::parse(text).expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert!(Listen::parse(&format!("unix:/{}", "x".repeat(107))).is_err());
    }
}
