//! Printing: text and JSON on standard output, and tables that line up.

use std::fmt;
use std::io::{self, Write as _};

use anyhow::Context as _;
use serde::Serialize;

use crate::Failure;

/// Prints `text` and ends its line. A reader that went away (`headtime … | head`) is no error.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn print(text: &str) -> Result<(), Failure> {
    print_while_read(text).map(drop)
}

/// The same; returns `false` if the reader went away, so that nothing more need be printed.
///
/// # Errors
/// As [`print()`].
pub fn print_while_read(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    let ending = if text.ends_with('\n') { "" } else { "\n" };
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(ending.as_bytes()))
        .and_then(|()| out.flush())
    {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Failed(
            anyhow::Error::new(error).context("cannot write to standard output"),
        )),
    }
}

/// Prints a line on standard error. A reader that went away is no error.
pub fn note(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints the beginning of a line on standard error. A reader that went away is no error.
pub fn prompt(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Formats a line and prints it on standard error; unlike `eprintln!` it does not panic when
/// nothing reads that any more.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        $crate::output::note(::core::format_args!($($text)*))
    };
}

/// Prints `value` as one JSON object or array, indented.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&json(value)?)
}

/// `value` as [`print_json`] prints it.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    Ok(text.context("the answer cannot be written as JSON")?)
}

/// Lines up `rows` in columns two blanks apart; the columns marked `true` in `right` end, the
/// others begin, at the same place.
///
/// # Panics
/// When a row has another number of cells than `right`.
pub fn columns(rows: &[Vec<String>], right: &[bool]) -> String {
    assert!(
        rows.iter().all(|row| row.len() == right.len()),
        "every row has a cell for every column"
    );
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..right.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(&widths).zip(right) {
            let gap = " ".repeat(width - cell.chars().count());
            let (before, after) = if *right { (gap.as_str(), "") } else { ("", gap.as_str()) };
            line.push_str(&format!("{before}{cell}{after}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// [`columns`] without as many of the columns `dispensable`, the first of them first, as do not
/// fit `width`.
///
/// # Panics
/// As [`columns`].
pub fn columns_within(
    rows: &[Vec<String>],
    right: &[bool],
    dispensable: &[usize],
    width: usize,
) -> String {
    let without = |dropped: &[usize]| {
        let kept = |column: &usize| !dropped.contains(column);
        let of = |row: &Vec<String>| -> Vec<String> {
            (0..right.len()).filter(kept).map(|column| row[column].clone()).collect()
        };
        let right: Vec<bool> = (0..right.len()).filter(kept).map(|column| right[column]).collect();
        columns(&rows.iter().map(of).collect::<Vec<_>>(), &right)
    };
    let fits = |text: &String| text.lines().all(|line| line.chars().count() <= width);
    (0..=dispensable.len())
        .map(|count| without(&dispensable[..count]))
        .find(fits)
        .unwrap_or_else(|| without(dispensable))
}

/// The columns and lines of the terminal at standard output, if it is one.
pub fn terminal_size() -> Option<(usize, usize)> {
    if !io::IsTerminal::is_terminal(&io::stdout()) {
        return None;
    }
    let (columns, lines) = crossterm::terminal::size().ok()?;
    Some((usize::from(columns), usize::from(lines)))
}

/// The indices of the `count` items that use most, in the order of the items.
pub fn busiest(uses: &[f64], count: usize) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..uses.len()).collect();
    indices.sort_by(|a, b| uses[*b].total_cmp(&uses[*a]));
    indices.truncate(count);
    indices.sort_unstable();
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_on_their_side() {
        let rows = [vec!["fcfs".into(), "1".into()], vec!["é".into(), "100".into()]];
        assert_eq!(columns(&rows, &[false, true]), "fcfs    1\né     100\n");
    }

    #[test]
    fn the_busiest_items_keep_their_order() {
        assert_eq!(busiest(&[0.0, 3.0, 0.0, 1.0, 2.0], 3), [1, 3, 4]);
        assert_eq!(busiest(&[0.0, 0.0, 1.0], 2), [0, 2]);
        assert_eq!(busiest(&[1.0], 5), [0]);
    }
}
