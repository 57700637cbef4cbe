//! The `headtime` program as a library: `main.rs` only parses the command line and turns the
//! outcome into an exit code.
//!
//! Each verb is one file of [`commands`], with its arguments and what it does. What several verbs
//! show stands in [`figures`], what is shown while a drive serves in [`view`], what is left behind
//! by the demo in [`report`].

#[cfg(feature = "characterize")]
pub mod characterize;
pub mod commands;
pub mod hangup;

use clap::{Parser, Subcommand};
use headtime_console::Failure;
#[cfg(feature = "lab")]
use headtime_lab::commands as lab;

/// Everything the command line says.
#[derive(Debug, Parser)]
#[command(name = "headtime", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists the scheduling policies and their parameters
    Policies(commands::policies::Arguments),
    /// Lists the drive profiles that ship, or shows one as TOML
    Profiles(commands::profiles::Arguments),
    /// Imports, checks and shows drive profiles
    Profile(commands::profile::Arguments),
    /// Simulates a drive under a policy and a workload, in virtual time
    #[cfg(feature = "lab")]
    Sim(Box<lab::sim::Arguments>),
    /// Lists the workloads that ship, and shows any as TOML
    #[cfg(feature = "lab")]
    Workload(lab::workload::Arguments),
    /// Compares policies on drives, depths and workloads, in one page and in tables
    #[cfg(feature = "lab")]
    Compare(Box<lab::compare::Arguments>),
    /// Says what a trace is made of, and writes traces in other formats
    #[cfg(feature = "lab")]
    Trace(lab::trace::Arguments),
    /// Replays a recording of a real drive and says how far a profile is off
    #[cfg(feature = "lab")]
    Validate(lab::validate::Arguments),
    /// Learns, shows, checks, keeps and merges latency maps, in files and of a running `serve`
    Map(Box<commands::map::Arguments>),
    /// Reproduces published figures and prints them beside what was published
    #[cfg(feature = "lab")]
    Papers(lab::papers::Arguments),
    /// Lists the block devices of this machine and whether each could be a drive
    Devices(commands::devices::Arguments),
    /// Finds out by timed reads what a drive is, and writes its profile
    #[cfg(feature = "characterize")]
    Characterize(Box<commands::characterize::Arguments>),
    /// Serves volumes of a drive over NBD
    Serve(Box<commands::serve::Arguments>),
    /// Makes, changes, removes and lists the volumes of a running `serve`
    Volume(Box<commands::volume::Arguments>),
    /// Says what of a drive's time to reserve for what applications need
    #[cfg(feature = "lab")]
    Plan(lab::plan::Arguments),
    /// Shows the exports of a running `serve` second by second: disk time promised and given, IOPS,
    /// MB/s, response times
    Top(commands::top::Arguments),
    /// Says where the time of slow and missed requests of a running `serve` went
    Explain(commands::explain::Arguments),
    /// Scrubs, backs up and digests volumes of a running `serve` in the time that clients leave, or
    /// a drive that nobody serves
    Scan(Box<commands::scan::Arguments>),
    /// Says what may be changed of a running `serve`, and how it is
    Get(commands::get::Arguments),
    /// Changes the policy and other tunables of a running `serve`, all at once or nothing
    Set(commands::set::Arguments),
    /// Has a running `serve` read certificates, keys and revocation lists again
    Reload(commands::reload::Arguments),
    /// Says how a running `serve` is doing: drive, belief, tunables, volumes, counters
    Status(commands::status::Arguments),
    /// Checks a configuration file of `serve` without serving
    CheckConfig(commands::check_config::Arguments),
    /// Serves an emulated drive alone over NBD, with nothing in front, to try other software on it
    #[cfg(feature = "emulate")]
    Emulate(commands::emulate::Arguments),
    /// Loads an emulated drive under several policies and writes a report that compares them
    #[cfg(feature = "lab")]
    Demo(lab::demo::Arguments),
}

impl Verb {
    /// Does it.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Policies(arguments) => commands::policies::run(&arguments),
            Self::Profiles(arguments) => commands::profiles::run(&arguments),
            Self::Profile(arguments) => commands::profile::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Sim(arguments) => lab::sim::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Workload(arguments) => lab::workload::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Compare(arguments) => lab::compare::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Trace(arguments) => lab::trace::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Validate(arguments) => lab::validate::run(&arguments),
            Self::Map(arguments) => commands::map::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Papers(arguments) => lab::papers::run(&arguments),
            Self::Devices(arguments) => commands::devices::run(&arguments),
            #[cfg(feature = "characterize")]
            Self::Characterize(arguments) => commands::characterize::run(&arguments),
            Self::Serve(arguments) => commands::serve::run(&arguments),
            Self::Volume(arguments) => commands::volume::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Plan(arguments) => lab::plan::run(&arguments),
            Self::Top(arguments) => commands::top::run(&arguments),
            Self::Explain(arguments) => commands::explain::run(&arguments),
            Self::Scan(arguments) => commands::scan::run(&arguments),
            Self::Get(arguments) => commands::get::run(&arguments),
            Self::Set(arguments) => commands::set::run(&arguments),
            Self::Reload(arguments) => commands::reload::run(&arguments),
            Self::Status(arguments) => commands::status::run(&arguments),
            Self::CheckConfig(arguments) => commands::check_config::run(&arguments),
            #[cfg(feature = "emulate")]
            Self::Emulate(arguments) => commands::emulate::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Demo(arguments) => lab::demo::run(&arguments),
        }
    }
}

const ABOUT: &str = "Schedules the time of a disk's head";

const LONG_ABOUT: &str = "\
Schedules the time of a disk's head.

Headtime stands in front of a rotating drive, knows where its head is, and hands out the head's \
time: it decides which request goes to the drive \
next. The drive may be simulated (virtual time, nothing is stored), emulated (real time, its bytes \
in a sparse file), a file, a block device, or an NBD server.";

const AFTER_HELP: &str = "\
Sizes are written 512, 4KiB, 1.5GiB, 20TB (K, M, G, T mean KiB, MiB, GiB, TiB); times 30us, 100ms, \
2s.
A drive is named the same way everywhere: emulated:PROFILE?backing=FILE, \
nbd+unix:///EXPORT?socket=PATH, or the path of a file or block device.

Exit codes: 0 done; 1 it was tried and went wrong; 2 what was asked for makes no sense, nothing \
was done; 3 it was done, and what was looked for is not there; 130 told to stop in the middle.";
