//! The `headtime` program as a library: `main.rs` only parses the command line and turns the result
//! into an exit code.
//!
//! The commands form three groups, each an enum of which clap makes the subcommands and
//! [`command`] the help: [`ServeCommand`], [`CharacterizeCommand`], and in the laboratory
//! `StudyCommand`. Each command is one file with its arguments and its action.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[cfg(feature = "characterize")]
mod characterize;
mod commands;
mod hangup;

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _, Parser, Subcommand};
use headtime_console::Failure;
#[cfg(feature = "lab")]
use headtime_lab::StudyCommand;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "headtime", version = headtime_serve::VERSION)]
#[command(about = ABOUT, long_about = LONG_ABOUT)]
#[command(after_help = format!("{AFTER_HELP}{LEFT_OUT}"), max_term_width = 110)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The commands of the program, by group.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve a drive.
    #[command(flatten)]
    Serve(ServeCommand),
    /// Characterize a drive.
    #[command(flatten)]
    Characterize(CharacterizeCommand),
    /// Study scheduling.
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Study(StudyCommand),
}

/// The commands that serve a drive.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Serve the volumes of a drive over NBD
    Serve(Box<commands::serve::Arguments>),
    /// Check a configuration file of `serve` without serving
    CheckConfig(commands::check_config::Arguments),
    /// Create, change, remove and list the volumes of a running server
    Volume(Box<commands::volume::Arguments>),
    /// Compute the reservations of disk time that applications need
    #[cfg(feature = "lab")]
    Plan(headtime_lab::commands::plan::PlanArguments),
    /// Show the state of a running server
    Status(commands::status::Arguments),
    /// Show the disk time, IOPS and response times of exports every second
    Top(commands::top::Arguments),
    /// Show where the time of slow requests and missed deadlines went
    Explain(commands::explain::Arguments),
    /// Show the tunables of a running server
    Get(commands::get::Arguments),
    /// Change the policy and other tunables of a running server
    Set(commands::set::Arguments),
    /// Scrub, back up or digest volumes in the time that clients leave
    Scan(Box<commands::scan::Arguments>),
    /// Make a running server read its TLS files and its `[[scan]]` sections again
    Reload(commands::reload::Arguments),
    /// List the scheduling policies and their parameters
    Policies(commands::policies::Arguments),
    /// Serve an emulated drive alone over NBD, to test other software
    #[cfg(feature = "simulation")]
    Emulate(commands::emulate::Arguments),
}

/// The commands that characterize a drive.
#[derive(Debug, Subcommand)]
pub enum CharacterizeCommand {
    /// List the block devices of this machine and whether each is usable
    Devices(commands::devices::Arguments),
    /// Measure a drive by timed reads and write its profile
    #[cfg(feature = "characterize")]
    Characterize(Box<commands::characterize::Arguments>),
    /// List the built-in drive profiles, or show one as TOML
    Profiles(commands::profiles::Arguments),
    /// Import, check and show drive profiles
    Profile(commands::profile::Arguments),
    /// Learn, show, check, save and merge latency maps
    Map(Box<commands::map::Arguments>),
}

impl Verb {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(command) => command.run(),
            Self::Characterize(command) => command.run(),
            #[cfg(feature = "lab")]
            Self::Study(command) => command.run(),
        }
    }
}

impl ServeCommand {
    fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(arguments) => commands::serve::run(&arguments),
            Self::CheckConfig(arguments) => commands::check_config::run(&arguments),
            Self::Volume(arguments) => commands::volume::run(&arguments),
            #[cfg(feature = "lab")]
            Self::Plan(arguments) => headtime_lab::commands::plan::run(&arguments),
            Self::Status(arguments) => commands::status::run(&arguments),
            Self::Top(arguments) => commands::top::run(&arguments),
            Self::Explain(arguments) => commands::explain::run(&arguments),
            Self::Get(arguments) => commands::get::run(&arguments),
            Self::Set(arguments) => commands::set::run(&arguments),
            Self::Scan(arguments) => commands::scan::run(&arguments),
            Self::Reload(arguments) => commands::reload::run(&arguments),
            Self::Policies(arguments) => commands::policies::run(&arguments),
            #[cfg(feature = "simulation")]
            Self::Emulate(arguments) => commands::emulate::run(&arguments),
        }
    }
}

impl CharacterizeCommand {
    fn run(self) -> Result<(), Failure> {
        match self {
            Self::Devices(arguments) => commands::devices::run(&arguments),
            #[cfg(feature = "characterize")]
            Self::Characterize(arguments) => commands::characterize::run(&arguments),
            Self::Profiles(arguments) => commands::profiles::run(&arguments),
            Self::Profile(arguments) => commands::profile::run(&arguments),
            Self::Map(arguments) => commands::map::run(&arguments),
        }
    }
}

/// The program's command line as clap sees it, with the commands of its help listed by group.
pub fn command() -> Command {
    let command = Cli::command();
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut groups = String::new();
    for (heading, members) in groups_of_commands() {
        let _ = writeln!(groups, "{header}{heading}:{header:#}");
        for member in members {
            let about = member.get_about().map(ToString::to_string).unwrap_or_default();
            let name = member.get_name();
            let _ = writeln!(groups, "  {literal}{name:<13}{literal:#} {about}");
        }
        groups.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n\
         {groups}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// The headings of the help and the commands under each.
fn groups_of_commands() -> Vec<(&'static str, Vec<Command>)> {
    let members = |command: Command| command.get_subcommands().cloned().collect::<Vec<_>>();
    let mut groups = vec![
        ("Serve a drive", members(ServeCommand::augment_subcommands(Command::new("serve")))),
        (
            "Characterize a drive",
            members(CharacterizeCommand::augment_subcommands(Command::new("characterize"))),
        ),
    ];
    #[cfg(feature = "lab")]
    groups.push((
        "Study scheduling",
        members(StudyCommand::augment_subcommands(Command::new("study"))),
    ));
    for (_, members) in &mut groups {
        members.retain(|member| member.get_name() != "help");
    }
    groups
}

const ABOUT: &str = "Schedule the time of a disk's head";

const LONG_ABOUT: &str = "\
Schedule the time of a disk's head.

Headtime is a block server in front of a rotating drive. It predicts where the drive's head is and \
decides which request goes to the drive next. The drive may be simulated (virtual time, nothing is \
stored), emulated (real time, its bytes in a sparse file), a file, a block device, or an NBD \
server.";

const AFTER_HELP: &str = "\
`headtime COMMAND --help` shows the options of a command.

Sizes are written 512, 4KiB, 1.5GiB, 20TB (K, M, G, T mean KiB, MiB, GiB, TiB); times 30us, 100ms, \
2s.
A drive is named the same way everywhere: emulated:PROFILE?backing=FILE, \
nbd+unix:///EXPORT?socket=PATH, or the path of a file or block device.

Exit codes: 0 success; 1 the command failed; 2 the arguments are invalid and nothing was done; \
3 the command succeeded but found nothing; 130 interrupted. With --json an error is one JSON \
object on standard error.";

const LEFT_OUT: &str = if cfg!(feature = "simulation") {
    ""
} else {
    "\n\nThis program was built without simulated and emulated drives (feature `simulation`)."
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command_once_under_its_heading() {
        let help = command().render_help().to_string();
        let mut listed = 0;
        for (heading, members) in groups_of_commands() {
            assert!(help.contains(&format!("{heading}:\n")), "no heading {heading} in\n{help}");
            for member in members {
                let name = member.get_name();
                let lines =
                    help.lines().filter(|line| line.trim_start().starts_with(&format!("{name} ")));
                assert_eq!(lines.count(), 1, "{name} should be listed once in\n{help}");
                listed += 1;
            }
        }
        let all = command().get_subcommands().filter(|member| member.get_name() != "help").count();
        assert_eq!(listed, all, "a command belongs to no group");
    }

    #[test]
    fn help_texts_begin_with_an_imperative() {
        fn check(command: &Command) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let first = about.split(' ').next().unwrap_or_default();
            assert!(
                first.starts_with(char::is_uppercase) && !first.ends_with('s'),
                "{}: `{about}` should begin with an imperative",
                command.get_name()
            );
            command.get_subcommands().for_each(check);
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let first = help.split(' ').next().unwrap_or_default();
                assert!(
                    !THIRD_PERSON.contains(&first),
                    "{} {}: `{help}` should begin with an imperative or a noun",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
        check(&command());
    }

    /// Verbs that begin many help texts, in the form that they should not have.
    const THIRD_PERSON: &[&str] = &[
        "Adds", "Allows", "Checks", "Draws", "Ends", "Keeps", "Leaves", "Lets", "Lists", "Makes",
        "Prints", "Reads", "Replaces", "Runs", "Says", "Shows", "Takes", "Waits", "Writes",
    ];
}
