//! The options for opening a drive.

use std::fmt;
use std::str::FromStr;

use headtime_belief::ArrayModel;
use headtime_sched::{
    Belief, DEFAULT_POLICY, Parameters, Policy, PolicyEntry, PolicyError, Tunables,
};
use headtime_units::{Nanos, ParseUnitError, parse_nanos};

use crate::kernel_settings::RawOptions;
use crate::locator::ProfileSource;
use crate::model::ModelChoice;
use crate::sys::FileUse;

/// A policy and its parameters, known to be usable on a drive that runs in real time.
#[derive(Clone)]
pub struct PolicyChoice {
    entry: &'static PolicyEntry,
    parameters: Parameters,
}

/// The reason why a text names no policy for a drive that runs in real time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyChoiceError {
    /// The table of policies does not have it.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It needs the truth of a simulated drive.
    #[error(
        "policy {name} must know the truth of a simulated drive, so that it exists in `headtime \
            sim` only; choose one without `oracle` in its name"
    )]
    Oracle {
        /// The policy.
        name: &'static str,
    },
}

/// The time at which a write is reported complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// As each request asks: at once, or durable with force unit access; flushes make the rest
    /// durable.
    #[default]
    AsRequested,
    /// Every write is made durable before it is reported, as if each requested force unit access.
    Durable,
}

/// The use of a file or block device as a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriveAccess {
    /// Requests may read and write.
    #[default]
    ReadWrite,
    /// Requests may only read; the file or device may be write-protected.
    ReadOnly,
}

impl DriveAccess {
    pub(crate) fn flags(self) -> rustix::fs::OFlags {
        match self {
            Self::ReadWrite => rustix::fs::OFlags::RDWR,
            Self::ReadOnly => rustix::fs::OFlags::RDONLY,
        }
    }

    pub(crate) fn file_use(self) -> FileUse {
        match self {
            Self::ReadWrite => FileUse::ReadWrite,
            Self::ReadOnly => FileUse::Read,
        }
    }
}

/// The method of file I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMethod {
    /// io_uring where the system allows it, threads otherwise.
    #[default]
    Auto,
    /// io_uring, or an error that says why not.
    Uring,
    /// A pool of threads that read and write.
    Threads,
}

/// The scheduling class of the engine's thread.
///
/// An emulated drive that is woken late is a slower drive than its model. Measured on a
/// two-processor machine that compiled with thirteen runnable threads: the 99th percentile of
/// lateness was 4.8 ms at normal priority, 4.8 ms at nice −10 and 0.10 to 0.18 ms in the kernel's
/// first-in-first-out class. The engine sleeps nearly all the time: it polls the clock for at most
/// 100 us before each event and decides in microseconds, and the kernel keeps a share of each
/// second for ordinary threads whatever happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnginePriority {
    /// In the first-in-first-out class for an emulated drive where the system permits it, otherwise
    /// as any thread.
    #[default]
    Auto,
    /// As any thread.
    Normal,
    /// In the first-in-first-out class, with a warning in the log where the system does not permit
    /// it.
    Realtime,
}

/// The time after which the requests of an unanswered command fail. A flush or discard has twice
/// this time.
///
/// Parsed from `30s` or `never`. The requests are answered with
/// [`IoError::TimedOut`](crate::IoError::TimedOut). The command keeps its slot in the drive's queue
/// until the drive completes it, because the drive may still execute it. For an NBD drive, the
/// connection is closed and opened again, which ends the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTimeout(Option<Nanos>);

/// The reason why a text is not a valid time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandTimeoutError {
    /// It leaves no time.
    #[error("a limit of 0 leaves no time for any command; write a time such as 30s, or never")]
    Zero,
    /// It is no time.
    #[error("{0}; or write never")]
    NoTime(#[from] ParseUnitError),
}

/// The options for opening a drive.
#[derive(Clone, Debug)]
pub struct DriveOptions {
    /// The policy.
    pub policy: PolicyChoice,
    /// The initial values of the tunables.
    pub tunables: Tunables,
    /// The maximum number of commands at the drive, regardless of the policy. `None` leaves it to
    /// the policy.
    pub outstanding: Option<usize>,
    /// The size in bytes of the file to create if the locator is a path and no file exists there;
    /// it is rounded up to whole sectors. The new file is sparse. An emulated drive always creates
    /// its backing files with the size from its profile.
    pub create_bytes: Option<u64>,
    /// The maximum number of requests, queued and at the drive together.
    pub max_requests: usize,
    /// The maximum number of bytes of these requests, read or written.
    pub max_bytes: u64,
    /// The use of a file or block device. Other drives ignore it.
    pub access: DriveAccess,
    /// The time at which writes are reported complete.
    pub write_mode: WriteMode,
    /// The method of file I/O; an emulated drive always uses threads.
    pub io_method: IoMethod,
    /// Permits direct I/O of a file drive where the file system supports it.
    pub direct: bool,
    /// The maximum time that closing the drive waits for its requests.
    pub drain_timeout: Nanos,
    /// The time limit of a command.
    pub command_timeout: CommandTimeout,
    /// The scheduling class of the engine's thread.
    pub priority: EnginePriority,
    /// The kernel and drive settings of a block device.
    pub raw: RawOptions,
    /// The profile to schedule by, such as the result of a characterization. It replaces a profile
    /// that the drive reports. `None` uses the profile of an emulated drive, and only the size of
    /// any other drive.
    pub profile: Option<ProfileSource>,
    /// The choice of a latency map instead, and its initial contents.
    pub belief: ModelChoice,
}

impl Default for DriveOptions {
    /// The default policy, 4,096 requests, 256 MiB, 30 s to drain, 30 s for a command.
    fn default() -> Self {
        Self {
            policy: PolicyChoice::default(),
            tunables: Tunables::default(),
            outstanding: None,
            create_bytes: None,
            max_requests: 4096,
            max_bytes: 256 << 20,
            access: DriveAccess::default(),
            write_mode: WriteMode::default(),
            io_method: IoMethod::default(),
            direct: true,
            drain_timeout: Nanos::from_secs(30),
            command_timeout: CommandTimeout::default(),
            priority: EnginePriority::default(),
            raw: RawOptions::default(),
            profile: None,
            belief: ModelChoice::default(),
        }
    }
}

impl CommandTimeout {
    /// Commands are never given up. Slow ones are still logged.
    pub const NEVER: Self = Self(None);

    /// Commands are given up after `limit`.
    ///
    /// # Panics
    /// When `limit` is zero.
    #[must_use]
    pub fn after(limit: Nanos) -> Self {
        assert!(
            !limit.is_zero(),
            "a command needs some time; write CommandTimeout::NEVER when it may take any"
        );
        Self(Some(limit))
    }

    /// The limit; `None` for never.
    #[must_use]
    pub fn limit(self) -> Option<Nanos> {
        self.0
    }
}

impl Default for CommandTimeout {
    /// 30 s, as Linux gives a SCSI or NBD command: longer than a disk fights for a bad sector, and
    /// no shorter than what clients are used to.
    fn default() -> Self {
        Self::after(Nanos::from_secs(30))
    }
}

impl FromStr for CommandTimeout {
    type Err = CommandTimeoutError;
    fn from_str(text: &str) -> Result<Self, CommandTimeoutError> {
        match text {
            "never" => Ok(Self::NEVER),
            _ => match parse_nanos(text)? {
                limit if limit.is_zero() => Err(CommandTimeoutError::Zero),
                limit => Ok(Self::after(limit)),
            },
        }
    }
}

impl PolicyChoice {
    /// A line of the policy table with parameters that [`PolicyEntry::parse`] made for it.
    ///
    /// # Errors
    /// [`PolicyChoiceError::Oracle`] for a policy that must know the truth.
    pub fn new(
        entry: &'static PolicyEntry,
        parameters: Parameters,
    ) -> Result<Self, PolicyChoiceError> {
        if entry.oracle {
            Err(PolicyChoiceError::Oracle { name: entry.name })
        } else {
            Ok(Self { entry, parameters })
        }
    }

    /// A policy from text: `NAME`, or `NAME:parameter=value,parameter=value`.
    ///
    /// # Errors
    /// See [`PolicyChoiceError`].
    pub fn parse(text: &str) -> Result<Self, PolicyChoiceError> {
        let (entry, parameters) = PolicyEntry::parse(text)?;
        Self::new(entry, parameters)
    }

    /// The policy's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// The policy's line in the table.
    #[must_use]
    pub fn entry(&self) -> &'static PolicyEntry {
        self.entry
    }

    /// Returns whether the policy honors the reservations and limits of tenants.
    #[must_use]
    pub fn enforces_shares(&self) -> bool {
        (self.entry.build)(&self.parameters).enforces_limits()
    }

    /// Makes the policy for a drive of this model: for an array, to decide for each member by
    /// itself where the model knows the members.
    pub(crate) fn build(&self, belief: &dyn Belief) -> Box<dyn Policy> {
        match belief.as_any().is::<ArrayModel>() {
            true => self.entry.by_member(&self.parameters),
            false => (self.entry.build)(&self.parameters),
        }
    }
}

impl Default for PolicyChoice {
    fn default() -> Self {
        Self::parse(DEFAULT_POLICY)
            .expect("the default policy stands in the table and is no oracle")
    }
}

impl FromStr for PolicyChoice {
    type Err = PolicyChoiceError;
    fn from_str(text: &str) -> Result<Self, PolicyChoiceError> {
        Self::parse(text)
    }
}

impl fmt::Display for PolicyChoice {
    /// As it is read: the name, and the parameters that are not at their default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.entry.text(&self.parameters))
    }
}

impl fmt::Debug for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyChoice({})", self.entry.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::POLICIES;

    #[test]
    fn a_command_timeout_is_a_time_or_never() {
        assert_eq!("30s".parse(), Ok(CommandTimeout::default()));
        assert_eq!("never".parse(), Ok(CommandTimeout::NEVER));
        for wrong in ["0", "", "30", "always"] {
            let message = wrong.parse::<CommandTimeout>().expect_err(wrong).to_string();
            assert!(message.contains("never"), "{message}");
        }
    }

    #[test]
    fn every_policy_of_the_table_is_accepted_unless_it_is_an_oracle() {
        for entry in POLICIES {
            assert_eq!(PolicyChoice::parse(entry.name).is_err(), entry.oracle, "{}", entry.name);
        }
        let message = PolicyChoice::parse("sptf-oracle").expect_err("an oracle").to_string();
        assert!(message.contains("headtime sim"), "{message}");
    }
}
