//! The table of the policy `auto` as a TOML text.
//!
//! ```toml
//! drive = "nearline-20tb"
//! policies = ["headtime", "deadline"]
//!
//! [[load]]
//! name = "4 random readers of 4 KiB"
//! size_sectors = 8
//! sequential = 0.001
//! synchronous = 1
//! reads = 1
//! concurrency = 4
//! deadlines = 0
//! streams = 4
//! scores = [1, 0.954]
//! ```
//!
//! Features are those of [`LoadFeatures`]; scores are in the order of `policies`.

use std::fmt::Write as _;

use headtime_config::{Key, REQUIRED, TextError, TextErrors, Value, ValueErrors};
use headtime_sched::{AutoRow, AutoTable, LoadFeatures};

/// The content of a text before it is checked as a whole.
#[derive(Default)]
struct Read {
    drive: String,
    policies: Vec<String>,
    rows: Vec<AutoRow>,
}

const KEYS: &[Key<Read>] = &[
    Key {
        name: "drive",
        takes: "text",
        summary: "drive or profile that was measured",
        default: REQUIRED,
        set: |read, value| value.text().map(|text| read.drive = text.to_owned()),
    },
    Key {
        name: "policies",
        takes: "list of names",
        summary: "policies, in the order of the scores",
        default: REQUIRED,
        set: |read, value| {
            ValueErrors::join(
                value
                    .list()
                    .iter()
                    .map(|name| name.text().map(|name| read.policies.push(name.to_owned()))),
            )
        },
    },
    Key {
        name: "load",
        takes: "[[load]] with its keys on the lines below",
        summary: "one measured load",
        default: REQUIRED,
        set: |read, value| {
            let tables = value.tables()?;
            ValueErrors::join(tables.iter().map(|table| row(table).map(|row| read.rows.push(row))))
        },
    },
];

/// Reads the text of a file; `name` is its name in errors.
///
/// # Errors
/// All errors of the text, by line and column.
pub fn read_auto_table(name: &str, text: &str) -> Result<AutoTable, TextErrors> {
    let mut read = Read::default();
    headtime_config::read(name, text, &mut read, &[KEYS])?;
    let policies = read.policies.iter().map(String::as_str);
    AutoTable::new(&read.drive, policies, read.rows)
        .map_err(|error| TextError::whole(name, error).into())
}

/// The table as a text that [`read_auto_table`] reads.
#[must_use]
pub fn write_auto_table(table: &AutoTable) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    let names = table.policies().iter().map(|name| format!("\"{name}\"")).collect();
    let mut text = format!("drive = {}\npolicies = [{}]\n", quoted(table.drive()), list(names));
    for row in table.rows() {
        let _ = writeln!(text, "\n[[load]]\nname = {}", quoted(&row.load));
        for (name, value) in LoadFeatures::NAMES.iter().zip(row.features.values()) {
            let _ = writeln!(text, "{name} = {value}");
        }
        let scores = row.scores.iter().map(f64::to_string).collect();
        let _ = writeln!(text, "scores = [{}]", list(scores));
    }
    text
}

fn row(table: &Value<'_>) -> Result<AutoRow, ValueErrors> {
    let known: Vec<&str> = ["name", "scores"].into_iter().chain(LoadFeatures::NAMES).collect();
    table.only_keys("a load", &known)?;
    let mut values = [0.0; LoadFeatures::NAMES.len()];
    for (value, name) in values.iter_mut().zip(LoadFeatures::NAMES) {
        *value = table.required(name, Value::number)?;
    }
    let scores = |value: &Value<'_>| value.list().iter().map(Value::number).collect();
    Ok(AutoRow {
        load: table.required("name", |name| name.text().map(str::to_owned))?,
        features: LoadFeatures::from_values(values),
        scores: table.required("scores", scores)?,
    })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file is what `headtime tune` wrote; the scheduler reads no files.
    #[test]
    fn the_built_in_table_is_the_one_of_the_file_that_ships() {
        let text = include_str!("../auto/nearline-20tb.toml");
        assert_eq!(read_auto_table("nearline-20tb.toml", text), Ok(AutoTable::built_in()));
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_table() {
        let table = AutoTable::built_in();
        let text = write_auto_table(&table);
        assert_eq!(read_auto_table("auto.toml", &text), Ok(table));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let message =
            |text: &str| read_auto_table("auto.toml", text).expect_err("no table").to_string();
        let text = write_auto_table(&AutoTable::built_in());
        let missing = message(&text.replacen("reads = ", "read = ", 1));
        assert!(missing.starts_with("auto.toml:9:1:") && missing.contains("`read`"), "{missing}");
        let score = message(&text.replacen("scores = [", "scores = [2, ", 1));
        assert!(score.contains("scores for"), "{score}");
        let policy = message(&text.replacen("\"headtime\"", "\"elevator\"", 1));
        assert!(policy.contains("there is no policy `elevator`"), "{policy}");
    }
}
