//! Mistakes in a workload's text: where, what, and the remedy, as many at once as can be found.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// All mistakes that were found in one text; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileErrors {
    /// The file, or the flag, as the user called it.
    pub name: String,
    /// The mistakes, in the order of the text.
    pub mistakes: Vec<Mistake>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line and column, counted from 1, columns in characters; `None` where there is one line only,
    /// or the mistake is of the whole.
    pub at: Option<(usize, usize)>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for FileErrors {
    /// One mistake a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            match mistake.at {
                Some((line, column)) => {
                    write!(f, "{end}{}:{line}:{column}: {}", self.name, mistake.message)?
                }
                None => write!(f, "{end}{}: {}", self.name, mistake.message)?,
            }
        }
        Ok(())
    }
}

impl core::error::Error for FileErrors {}
