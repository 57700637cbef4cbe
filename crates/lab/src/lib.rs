//! The laboratory of the `headtime` program: the commands that study scheduling in simulation, and
//! their parts.
//!
//! Each command is one file of [`commands`]. A build of the program without the feature `lab` has
//! neither this crate nor its dependencies.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod beliefs;
mod chart;
pub mod commands;
pub mod compare;
pub mod demo;
pub mod drives;
pub mod load;
pub mod papers;
pub mod profile_page;
pub mod report;
pub mod traces;
mod tune;
pub mod workloads;

use clap::Subcommand;
use headtime_console::Failure;

/// The commands that study scheduling.
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// Simulate a drive under a policy and a workload in virtual time
    Sim(Box<commands::sim::SimArguments>),
    /// Compare policies on drives, queue depths and workloads
    Compare(Box<commands::compare::CompareArguments>),
    /// Measure the table by which the policy `auto` chooses
    Tune(commands::tune::TuneArguments),
    /// List the built-in workloads, and show any workload as TOML
    Workload(commands::workload::WorkloadArguments),
    /// Show the composition of a trace, and convert traces
    Trace(commands::trace::TraceCommandArguments),
    /// Replay a recording of a real drive and measure a profile's error
    Validate(commands::validate::ValidateArguments),
    /// Reproduce published figures and compare them with the papers
    Papers(commands::papers::PapersArguments),
    /// Load an emulated drive under several policies and write a report
    Demo(commands::demo::DemoArguments),
}

impl StudyCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Sim(arguments) => commands::sim::run(&arguments),
            Self::Compare(arguments) => commands::compare::run(&arguments),
            Self::Tune(arguments) => commands::tune::run(&arguments),
            Self::Workload(arguments) => commands::workload::run(&arguments),
            Self::Trace(arguments) => commands::trace::run(&arguments),
            Self::Validate(arguments) => commands::validate::run(&arguments),
            Self::Papers(arguments) => commands::papers::run(&arguments),
            Self::Demo(arguments) => commands::demo::run(&arguments),
        }
    }
}
