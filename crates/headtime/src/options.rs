//! [`OpenOptions`]: the settings of a drive, by method or by name.

use std::time::Duration;

use headtime_io::{
    CommandTimeout, DriveOptions, EnginePriority, IoMethod, ProfileSource, WriteMode,
};
use headtime_units::{Nanos, parse_bytes, parse_nanos};

use crate::drive::Drive;
use crate::error::Error;

/// The settings with which a drive is opened.
///
/// ```
/// use headtime::OpenOptions;
///
/// let drive = OpenOptions::new()
///     .policy("cds-scan")?
///     .max_requests(10_000)
///     .set("command_timeout", "5s")?
///     .open("memory:1GiB")?;
/// assert_eq!(drive.capacity(), 1 << 30);
/// # Ok::<(), headtime::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    inner: DriveOptions,
}

/// A setting that has a name: for configuration files and other languages.
pub struct Setting {
    /// The name.
    pub name: &'static str,
    /// The accepted values.
    pub takes: &'static str,
    /// The effect, in a line.
    pub summary: &'static str,
    set: fn(&mut DriveOptions, &str) -> Option<()>,
}

/// Every setting by name. The tunables of `docs/tunables.md` are settings too.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "policy",
        takes: "a name of `headtime policies`, with parameters as NAME:parameter=value,…",
        summary: "the scheduling policy",
        set: |options, value| set(&mut options.policy, value.parse().ok()),
    },
    Setting {
        name: "model",
        takes: "profile, matrix, compact, matrix:FILE or compact:FILE",
        summary: "the drive model to schedule by",
        set: |options, value| set(&mut options.belief.by, value.parse().ok()),
    },
    Setting {
        name: "profile",
        takes: "a name of `headtime profiles`, or a file that `headtime characterize` wrote",
        summary: "the profile of the drive",
        set: |options, value| set(&mut options.profile, Some(Some(ProfileSource::of(value)))),
    },
    Setting {
        name: "outstanding",
        takes: "a whole number from 1",
        summary: "the maximum number of commands at the drive",
        set: |options, value| set(&mut options.outstanding, value.parse().ok().map(Some)),
    },
    Setting {
        name: "max_requests",
        takes: "a whole number from 1",
        summary: "the maximum number of requests, queued and at the drive together",
        set: |options, value| set(&mut options.max_requests, value.parse().ok()),
    },
    Setting {
        name: "max_bytes",
        takes: "a size such as 256MiB",
        summary: "the maximum number of bytes of these requests",
        set: |options, value| set(&mut options.max_bytes, bytes(value)),
    },
    Setting {
        name: "create_bytes",
        takes: "a size such as 10GiB",
        summary: "the size of the file to create if the drive is a file that does not exist",
        set: |options, value| set(&mut options.create_bytes, bytes(value).map(Some)),
    },
    Setting {
        name: "write_mode",
        takes: "as-requested or durable",
        summary: "the time at which writes are reported complete",
        set: |options, value| {
            let modes = [("as-requested", WriteMode::AsRequested), ("durable", WriteMode::Durable)];
            set(&mut options.write_mode, one_of(modes, value))
        },
    },
    Setting {
        name: "io_method",
        takes: "auto, uring or threads",
        summary: "the method of file I/O",
        set: |options, value| {
            let methods = [
                ("auto", IoMethod::Auto),
                ("uring", IoMethod::Uring),
                ("threads", IoMethod::Threads),
            ];
            set(&mut options.io_method, one_of(methods, value))
        },
    },
    Setting {
        name: "direct",
        takes: "yes or no",
        summary: "direct I/O of a file where its file system supports it",
        set: |options, value| {
            set(&mut options.direct, one_of([("yes", true), ("no", false)], value))
        },
    },
    Setting {
        name: "engine_priority",
        takes: "auto, normal or realtime",
        summary: "the scheduling class of the engine's thread",
        set: |options, value| {
            let priorities = [
                ("auto", EnginePriority::Auto),
                ("normal", EnginePriority::Normal),
                ("realtime", EnginePriority::Realtime),
            ];
            set(&mut options.priority, one_of(priorities, value))
        },
    },
    Setting {
        name: "command_timeout",
        takes: "a time such as 30s, or never",
        summary: "the time after which the requests of an unanswered command fail",
        set: |options, value| set(&mut options.command_timeout, value.parse().ok()),
    },
    Setting {
        name: "drain_timeout",
        takes: "a time such as 30s",
        summary: "the maximum time that closing the drive waits for its requests",
        set: |options, value| set(&mut options.drain_timeout, parse_nanos(value).ok()),
    },
];

impl OpenOptions {
    /// The defaults: the policy `headtime`, 4,096 requests of 256 MiB, 30 s for a command.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a setting by its name: one of [`SETTINGS`], or a tunable.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with the accepted names or values.
    pub fn set(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
            return match self.inner.tunables.set(name, value) {
                Ok(()) => Ok(self),
                Err(error) => {
                    let expected = format!("{error}; other settings are {}", names.join(", "));
                    Err(Error::setting(name, value, expected))
                }
            };
        };
        if name == "policy" {
            // The error of the table of policies is the more helpful one.
            return self.policy(value);
        }
        match (setting.set)(&mut self.inner, value) {
            Some(()) => Ok(self),
            None => Err(Error::setting(name, value, format!("expected {}", setting.takes))),
        }
    }

    /// Sets the scheduling policy: a name of `headtime policies`, with parameters as
    /// `NAME:parameter=value,…`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    pub fn policy(mut self, text: &str) -> Result<Self, Error> {
        self.inner.policy = text.parse().map_err(|error| Error::setting("policy", text, error))?;
        Ok(self)
    }

    /// Sets the maximum number of commands at the drive, regardless of the policy.
    #[must_use]
    pub fn outstanding(mut self, commands: usize) -> Self {
        self.inner.outstanding = Some(commands);
        self
    }

    /// Sets the maximum number of requests, queued and at the drive together.
    #[must_use]
    pub fn max_requests(mut self, requests: usize) -> Self {
        self.inner.max_requests = requests;
        self
    }

    /// Sets the maximum number of bytes of these requests.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.inner.max_bytes = bytes;
        self
    }

    /// Creates a sparse file of this size if the drive is the path of a file that does not exist.
    #[must_use]
    pub fn create_bytes(mut self, bytes: u64) -> Self {
        self.inner.create_bytes = Some(bytes);
        self
    }

    /// Sets the time after which the requests of an unanswered command fail.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a limit of zero.
    pub fn command_timeout(mut self, limit: Duration) -> Result<Self, Error> {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return self.set("command_timeout", "0");
        }
        self.inner.command_timeout = CommandTimeout::after(Nanos::from_ns(nanos));
        Ok(self)
    }

    /// Opens a drive with these settings. See [`Drive::open`].
    ///
    /// # Errors
    /// As [`Drive::open`].
    pub fn open(self, drive: &str) -> Result<Drive, Error> {
        Drive::open_with(drive, self.inner)
    }
}

fn set<T>(into: &mut T, value: Option<T>) -> Option<()> {
    value.map(|value| *into = value)
}

fn bytes(text: &str) -> Option<u64> {
    parse_bytes(text).ok().map(headtime_units::ByteSize::get)
}

fn one_of<T: Copy, const N: usize>(words: [(&str, T); N], text: &str) -> Option<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_value_that_it_takes_and_one_that_it_refuses() {
        let good = [
            ("policy", "cds-scan:max_out=4"),
            ("model", "compact"),
            ("profile", "atlas10k"),
            ("outstanding", "4"),
            ("max_requests", "10000"),
            ("max_bytes", "1GiB"),
            ("create_bytes", "10MiB"),
            ("write_mode", "durable"),
            ("io_method", "threads"),
            ("direct", "no"),
            ("engine_priority", "normal"),
            ("command_timeout", "never"),
            ("drain_timeout", "5s"),
        ];
        assert_eq!(good.len(), SETTINGS.len(), "a setting has no case here");
        for (name, value) in good {
            assert!(OpenOptions::new().set(name, value).is_ok(), "{name}={value}");
            if name != "profile" {
                let message = OpenOptions::new().set(name, "?").expect_err(name).to_string();
                assert!(message.starts_with(&format!("{name}=?: ")), "{message}");
            }
        }
    }

    #[test]
    fn an_unknown_setting_is_answered_with_the_names() {
        let message = OpenOptions::new().set("speed", "9").expect_err("unknown").to_string();
        assert!(message.contains("deadlines") && message.contains("max_requests"), "{message}");
    }
}
