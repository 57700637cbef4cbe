//! The parts that several commands of the `headtime` program share: printed text and tables, the
//! figures of a run, the live view, signals, and the failure that ends a command.

pub mod arguments;
pub mod drive_model;
pub mod figures;
pub mod logs;
pub mod map;
pub mod monitor;
pub mod output;
pub mod scans;
pub mod stop;
pub mod view;

/// Why the program ends without having done what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for makes no sense: an unknown name, a value out of range, a configuration
    /// with a fault. Exit code 2.
    Asked(anyhow::Error),
    /// It made sense and went wrong: a file, a socket, a drive. Exit code 1.
    Failed(anyhow::Error),
    /// It was carried out, and what was looked for is not there. Exit code 3.
    Nothing(anyhow::Error),
    /// It was told to stop before its end; the message says how to go on. Exit code 130.
    Interrupted(anyhow::Error),
}

impl Failure {
    /// A failure of what was asked for.
    pub fn asked(error: impl Into<anyhow::Error>) -> Self {
        Self::Asked(error.into())
    }

    /// The code the program exits with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Asked(_) => 2,
            Self::Nothing(_) => 3,
            Self::Interrupted(_) => 130,
        }
    }

    /// The message, one line: what went wrong and, behind each colon, why.
    #[must_use]
    pub fn message(&self) -> String {
        let (Self::Asked(error)
        | Self::Failed(error)
        | Self::Nothing(error)
        | Self::Interrupted(error)) = self;
        format!("{error:#}")
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}
