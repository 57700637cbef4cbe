//! Mistakes in a configuration: where, what, and the remedy, as many at once as can be found.

use std::fmt;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where it stands.
    pub place: Place,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Where a mistake stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file; line and column count from 1, columns in characters.
    File {
        /// The file as the user called it.
        name: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// In a flag; its text as the user wrote it.
    Flag(String),
    /// Nowhere in particular: something is missing, or two things contradict.
    Whole,
}

/// All mistakes that were found; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The mistakes, in the order of the text.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }

    pub(super) fn unless_empty(errors: Vec<ConfigError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Flag(text) => f.write_str(text),
            Self::Whole => f.write_str("configuration"),
        }
    }
}

impl fmt::Display for ConfigErrors {
    /// One mistake a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{}: {}", error.place, error.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
