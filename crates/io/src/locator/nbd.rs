//! `nbd+unix:///EXPORT?socket=PATH` and `nbd://HOST[:PORT]/EXPORT`: the usual NBD URI with
//! additional settings.
//!
//! | setting | meaning | default |
//! |---|---|---|
//! | `queue_depth=N` | the maximum commands at the server, 1 to 1024 | 32 |
//! | `reconnect_timeout=TIME` | the wait for a lost drive; `0` fails requests at once | 10s |
//! | `connect_timeout=TIME` | the limit of one attempt to connect, without name lookup | 10s |
//!
//! Example: `nbd+unix:///disk0?socket=/run/nbd.sock&queue_depth=4&reconnect_timeout=0`.

use std::fmt::{self, Write as _};

use headtime_nbd::uri::NbdUri;
use headtime_units::{Nanos, parse_nanos};

use super::LocatorError;

/// The parts of an NBD locator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdLocator {
    /// The server and the export on it.
    pub uri: NbdUri,
    /// The most commands the server holds at once.
    pub queue_depth: usize,
    /// The time for which requests wait for a new connection after a loss. Later requests fail at
    /// once.
    pub reconnect_timeout: Nanos,
    /// The time limit of one attempt to connect, from socket to open export.
    pub connect_timeout: Nanos,
}

impl NbdLocator {
    /// A server with default settings.
    #[must_use]
    pub fn new(uri: NbdUri) -> Self {
        Self {
            uri,
            queue_depth: DEFAULT_QUEUE_DEPTH,
            reconnect_timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, LocatorError> {
        let (server, query) = text.split_once('?').unwrap_or((text, ""));
        let is_ours =
            |pair: &&str| SETTINGS.contains(&pair.split_once('=').map_or(*pair, |(key, _)| key));
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            query.split('&').filter(|pair| !pair.is_empty()).partition(is_ours);
        let uri = if theirs.is_empty() {
            server.to_owned()
        } else {
            format!("{server}?{}", theirs.join("&"))
        };
        let uri =
            uri.parse().map_err(|error| LocatorError::Nbd { text: text.to_owned(), error })?;
        let mut locator = Self::new(uri);
        for (index, pair) in ours.iter().enumerate() {
            let (written, value) = pair.split_once('=').unwrap_or((pair, ""));
            let key = SETTINGS
                .into_iter()
                .find(|key| *key == written)
                .expect("only our own settings were taken out of the query");
            let bad = |expected| LocatorError::BadValue {
                text: text.to_owned(),
                key,
                value: value.to_owned(),
                expected,
            };
            if ours[..index].iter().any(|other| other.split('=').next() == Some(key)) {
                return Err(bad("to be there twice"));
            }
            match key {
                "queue_depth" => {
                    let depth =
                        value.parse().ok().filter(|depth| (1..=MAX_QUEUE_DEPTH).contains(depth));
                    locator.queue_depth =
                        depth.ok_or_else(|| bad("a whole number from 1 to 1024"))?;
                }
                "reconnect_timeout" => {
                    locator.reconnect_timeout =
                        parse_nanos(value).map_err(|_| bad("a time such as 10s, or 0"))?
                }
                _ => {
                    let limit = parse_nanos(value).ok().filter(|limit| !limit.is_zero());
                    locator.connect_timeout = limit.ok_or_else(|| bad("a time such as 10s"))?;
                }
            }
        }
        Ok(locator)
    }
}

impl fmt::Display for NbdLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uri, queue_depth, reconnect_timeout, connect_timeout } = self;
        let uri = uri.to_string();
        let mut mark = if uri.contains('?') { '&' } else { '?' };
        f.write_str(&uri)?;
        let mut setting = |key: &str, value: String| {
            f.write_char(std::mem::replace(&mut mark, '&'))?;
            write!(f, "{key}={value}")
        };
        if *queue_depth != DEFAULT_QUEUE_DEPTH {
            setting("queue_depth", queue_depth.to_string())?;
        }
        for (key, value) in
            [("reconnect_timeout", reconnect_timeout), ("connect_timeout", connect_timeout)]
        {
            if *value != DEFAULT_TIMEOUT {
                setting(key, exact(*value))?;
            }
        }
        Ok(())
    }
}

/// In the largest unit of which it is a whole number.
fn exact(span: Nanos) -> String {
    let ns = span.as_ns();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    units
        .iter()
        .find(|(per_unit, _)| ns.is_multiple_of(*per_unit))
        .map_or_else(|| format!("{ns}ns"), |(per_unit, unit)| format!("{}{unit}", ns / per_unit))
}

const SETTINGS: [&str; 3] = ["queue_depth", "reconnect_timeout", "connect_timeout"];
/// The default queue depth, as for a SATA drive: it gives a policy enough requests to choose from,
/// and a disk at the server can use no more.
const DEFAULT_QUEUE_DEPTH: usize = 32;
const MAX_QUEUE_DEPTH: usize = 1024;
/// The default timeout (guess). A restarted server is back within a few seconds. Clients above,
/// such as the NBD and SCSI layers of the kernel, give up after 30 s. The same timeout applies to
/// an attempt to connect.
const DEFAULT_TIMEOUT: Nanos = Nanos::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locator::Locator;
    use headtime_nbd::uri::Address;
    use proptest::prelude::*;

    #[test]
    fn settings_stand_anywhere_in_the_query() {
        for text in [
            "nbd+unix:///x?socket=/run/a.sock&queue_depth=4&reconnect_timeout=0",
            "nbd+unix:///x?queue_depth=4&socket=/run/a.sock&reconnect_timeout=0",
        ] {
            let Ok(Locator::Nbd(locator)) = Locator::parse(text) else { panic!("{text}") };
            assert_eq!(
                (locator.queue_depth, locator.reconnect_timeout, locator.connect_timeout),
                (4, Nanos::ZERO, Nanos::from_secs(10))
            );
            assert_eq!(
                locator.to_string(),
                "nbd+unix:///x?socket=/run/a.sock&queue_depth=4&reconnect_timeout=0s"
            );
        }
        let Ok(Locator::Nbd(locator)) = Locator::parse("nbd://h/x?connect_timeout=1500ms") else {
            panic!()
        };
        assert_eq!(locator.to_string(), "nbd://h/x?connect_timeout=1500ms");
    }

    #[test]
    fn refused_locators_say_what_would_be_right() {
        for (text, expected) in [
            ("nbds://h/x", "TLS"),
            ("nbds+unix:///x?socket=s", "TLS"),
            ("nbd:x", "nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH"),
            ("nbd+unix:///x", "append ?socket=PATH"),
            ("nbd://h/x?queue_depth=0", "queue_depth=0 is not a whole number from 1 to 1024"),
            ("nbd://h/x?queue_depth=1&queue_depth=2", "twice"),
            (
                "nbd://h/x?reconnect_timeout=10",
                "reconnect_timeout=10 is not a time such as 10s, or 0",
            ),
            ("nbd://h/x?connect_timeout=0", "a time such as 10s"),
            ("nbd://h/x?color=red", "color=red"),
        ] {
            let message = Locator::parse(text).expect_err(text).to_string();
            assert!(message.contains(expected) && message.contains(text), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            socket in proptest::option::of("[^\\x00]{1,20}"),
            host in "[a-z0-9.-]{1,12}",
            port in 1..=u16::MAX,
            export in "[^\\x00]{0,20}",
            queue_depth in 1..=1024_usize,
            reconnect_ns in 0..=u64::MAX / 2,
            connect_ns in 1..=100_000_000_000_u64,
        ) {
            let address = match socket {
                Some(socket) => Address::Unix { socket },
                None => Address::Tcp { host, port },
            };
            let (reconnect_timeout, connect_timeout) =
                (Nanos::from_ns(reconnect_ns), Nanos::from_ns(connect_ns));
            let locator = Locator::Nbd(NbdLocator {
                uri: NbdUri { address, export },
                queue_depth,
                reconnect_timeout,
                connect_timeout,
            });
            prop_assert_eq!(Locator::parse(&locator.to_string()), Ok(locator));
        }
    }
}
