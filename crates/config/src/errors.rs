//! Errors of a configuration text.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// One error, with the place where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The file or the flag, as the user wrote it.
    pub source: String,
    /// Line and column, counted from 1, the column in characters; `None` for a flag, and for an
    /// error that concerns the whole text.
    pub position: Option<(usize, usize)>,
    /// The thing, its value, what was expected, and the remedy.
    pub message: String,
}

/// All errors that were found in one text, in the order of the text; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextErrors(Vec<TextError>);

impl TextErrors {
    /// Succeeds when there are no errors.
    ///
    /// # Errors
    /// The given ones.
    pub fn check(errors: Vec<TextError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// The errors.
    #[must_use]
    pub fn errors(&self) -> &[TextError] {
        &self.0
    }
}

impl From<TextError> for TextErrors {
    fn from(error: TextError) -> Self {
        Self(Vec::from([error]))
    }
}

impl TextError {
    /// An error that concerns the whole of `source`.
    #[must_use]
    pub fn whole(source: &str, message: impl fmt::Display) -> Self {
        Self { source: source.to_string(), position: None, message: message.to_string() }
    }

    /// An error at the start of a line, counted from 1.
    #[must_use]
    pub fn at_line(source: &str, line: usize, message: impl fmt::Display) -> Self {
        Self { position: Some((line, 1)), ..Self::whole(source, message) }
    }
}

impl fmt::Display for TextErrors {
    /// One error per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, TextError { source, position, message }) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "\n" })?;
            match position {
                Some((line, column)) => write!(f, "{source}:{line}:{column}: {message}")?,
                None => write!(f, "{source}: {message}")?,
            }
        }
        Ok(())
    }
}

impl core::error::Error for TextErrors {}

/// Errors of values whose text has no name yet: byte offset and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueErrors(Vec<(usize, String)>);

impl ValueErrors {
    pub(crate) fn new(offset: usize, message: impl fmt::Display) -> Self {
        Self(Vec::from([(offset, message.to_string())]))
    }

    /// Joins the errors of several steps.
    ///
    /// # Errors
    /// All errors of all steps.
    pub fn join(steps: impl IntoIterator<Item = Result<(), Self>>) -> Result<(), Self> {
        let errors: Vec<_> = steps.into_iter().filter_map(Result::err).flat_map(|e| e.0).collect();
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// The same with `thing: ` before each message that does not name the thing itself.
    #[must_use]
    pub(crate) fn about(mut self, thing: &str) -> Self {
        let kind = thing.split(' ').next().unwrap_or_default();
        for (_, message) in self.0.iter_mut().filter(|(_, message)| !message.starts_with(kind)) {
            message.insert_str(0, ": ");
            message.insert_str(0, thing);
        }
        self
    }

    /// The errors of a file with this text, by line and column.
    #[must_use]
    pub fn in_file(mut self, name: &str, text: &str) -> TextErrors {
        self.0.sort_by_key(|(offset, _)| *offset);
        let located = |(offset, message): (usize, String)| {
            let column = text[..offset.min(text.len())]
                .rsplit('\n')
                .next()
                .unwrap_or_default()
                .chars()
                .count()
                + 1;
            let position = Some((line_of(text, offset), column));
            TextError { source: name.to_string(), position, message }
        };
        TextErrors(self.0.into_iter().map(located).collect())
    }

    /// The errors of a flag, which has one line.
    pub fn in_flag(self, flag: &str) -> impl Iterator<Item = TextError> {
        self.0.into_iter().map(move |(_, message)| TextError::whole(flag, message))
    }
}

impl fmt::Display for ValueErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (_, message)) in self.0.iter().enumerate() {
            write!(f, "{}{message}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// The line of a byte offset, counted from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}
