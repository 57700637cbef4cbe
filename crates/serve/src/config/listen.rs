//! Where clients are awaited: `unix:PATH[,mode=0600]` or `tcp:HOST:PORT`, with
//! `,tls=off|allow|require` behind it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use headtime_nbd::server::TlsPolicy;

/// The port that IANA gave to NBD.
pub const DEFAULT_PORT: u16 = 10_809;
/// Who may connect to a unix socket unless its mode says otherwise: its owner.
pub const DEFAULT_SOCKET_MODE: u32 = 0o600;

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A unix socket.
    Unix {
        /// Its file.
        path: PathBuf,
        /// The file's permissions.
        mode: u32,
        /// Whether clients go over to TLS; `None` for the usual: they cannot.
        tls: Option<TlsPolicy>,
    },
    /// A TCP port.
    Tcp {
        /// Name or number of the host's own address; an IPv6 number without brackets.
        host: String,
        /// The port; 0 lets the system choose a free one.
        port: u16,
        /// Whether clients go over to TLS; `None` for the usual: they must where there is TLS.
        tls: Option<TlsPolicy>,
    },
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Neither `unix:` nor `tcp:`.
    #[error(
        "`{text}` is no address to listen at; write unix:PATH or tcp:HOST:PORT, such as \
            unix:/run/headtime.sock or tcp:127.0.0.1:{DEFAULT_PORT}"
    )]
    Kind {
        /// The text as given.
        text: String,
    },
    /// A word about TLS that is none.
    #[error("`{text}`: tls={word}: expected off, allow or require")]
    Tls {
        /// The text as given.
        text: String,
        /// What stood behind `tls=`.
        word: String,
    },
    /// No path, or one longer than a unix socket may have.
    #[error("`{text}`: the path of a unix socket has 1 to 107 bytes; choose a shorter directory")]
    Path {
        /// The text as given.
        text: String,
    },
    /// Permissions that are none.
    #[error(
        "`{text}`: `{mode}` is no mode; write three octal digits with an optional leading 0, such \
            as unix:PATH,mode=0660"
    )]
    Mode {
        /// The text as given.
        text: String,
        /// What stood behind `mode=`.
        mode: String,
    },
    /// No host, or no port.
    #[error(
        "`{text}`: expected tcp:HOST or tcp:HOST:PORT with a port from 0 to 65535; write an IPv6 \
            address in brackets, such as tcp:[::1]:{DEFAULT_PORT}"
    )]
    Tcp {
        /// The text as given.
        text: String,
    },
}

/// What the choices of TLS are called.
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

    /// Whether its clients go over to TLS, on a server that has it or not: a unix socket's cannot
    /// and a port's must unless somebody says otherwise.
    #[must_use]
    pub fn tls(&self, there_is: bool) -> TlsPolicy {
        match self {
            Self::Unix { tls, .. } => tls.unwrap_or(TlsPolicy::Off),
            Self::Tcp { tls, .. } => {
                tls.unwrap_or(if there_is { TlsPolicy::Require } else { TlsPolicy::Off })
            }
        }
    }

    /// Whether the two would claim the same socket.
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
    fn accepted_addresses_come_back_as_text() {
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
    fn refused_addresses_say_what_would_be_right() {
        for (text, part) in [
            ("/run/a.sock", "write unix:PATH"),
            ("unix:", "1 to 107 bytes"),
            ("unix:a,mode=9", "`9` is no mode"),
            ("unix:a,mode=+60", "is no mode"),
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
