//! The parts that several commands of the `headtime` program share: printed text and tables, the
//! figures of a run, the live view, signals, and the failure that ends a command.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod arguments;
pub mod characterization;
pub mod drive_model;
pub mod figures;
pub mod logs;
pub mod map;
pub mod monitor;
pub mod output;
pub mod progress;
pub mod scans;
pub mod stop;
pub mod view;

/// The reason why the program ends without the requested result.
#[derive(Debug)]
pub enum Failure {
    /// The arguments are invalid: an unknown name, a value out of range, a faulty configuration.
    /// Exit code 2.
    Usage(anyhow::Error),
    /// It made sense and went wrong: a file, a socket, a drive. Exit code 1.
    Failed(anyhow::Error),
    /// It was carried out, and what was looked for is not there. Exit code 3.
    NotFound(anyhow::Error),
    /// The command was interrupted; the message tells how to continue. Exit code 130.
    Interrupted(anyhow::Error),
    /// A program that the command ran on behalf of the user failed; its exit code is passed on.
    Program(anyhow::Error, u8),
}

impl Failure {
    /// A failure because of invalid arguments.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    /// The code the program exits with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::Interrupted(_) => 130,
            Self::Program(_, code) => *code,
        }
    }

    /// The message in one line: the failure, and after each colon its cause.
    pub fn message(&self) -> String {
        let (Self::Usage(error)
        | Self::Failed(error)
        | Self::NotFound(error)
        | Self::Interrupted(error)
        | Self::Program(error, _)) = self;
        format!("{error:#}")
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}
