//! The files of a report: `ID.svg`, `ID.csv`, `ID.json` and `ID.html`, each replaced atomically.

mod page;
mod plot;
mod whole_file;

use std::path::{Path, PathBuf};

use crate::chart;
use crate::papers::{Report, WriteError};

pub use page::page;
pub use plot::plot;
pub use whole_file::{check_folder, write as write_whole};

/// A file format of a report.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The extension of the file.
    pub extension: &'static str,
    /// Makes the text.
    pub text: fn(&Report) -> Result<String, WriteError>,
}

/// All formats.
pub const FORMS: &[Form] = &[
    Form { extension: "svg", text: |report| Ok(chart::file(&plot(report))) },
    Form { extension: "csv", text: csv },
    Form { extension: "json", text: json },
    Form { extension: "html", text: |report| Ok(page(report)) },
];

/// Writes a report in every format into `folder`, which is created if it is missing, and returns
/// the paths.
///
/// # Errors
/// When the folder cannot be made, a form cannot be made, or a file cannot be written; files of
/// other forms may be there already, whole.
pub fn write(report: &Report, folder: &Path) -> Result<Vec<PathBuf>, WriteError> {
    // All texts come first: a format that fails leaves no files.
    let texts = FORMS
        .iter()
        .map(|form| Ok((form, (form.text)(report)?)))
        .collect::<Result<Vec<_>, WriteError>>()?;
    check_folder(folder)?;
    texts
        .into_iter()
        .map(|(form, text)| {
            whole_file::write(folder, &format!("{}.{}", report.id, form.extension), &text)
        })
        .collect()
}

/// The rows as CSV with a heading; empty cells where there is nothing.
///
/// # Errors
/// None that is known of: everything is text.
pub fn csv(report: &Report) -> Result<String, WriteError> {
    let fault = |cause: String| WriteError::Form { id: report.id, form: "CSV", cause };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS).map_err(|error| fault(error.to_string()))?;
    for row in &report.rows {
        // Numbers as JSON has them, so that the two agree to the digit.
        let json = serde_json::to_value(row).map_err(|error| fault(error.to_string()))?;
        let cells = COLUMNS[2..].iter().map(|key| match &json[*key] {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let record = [report.id.to_string(), report.seed.to_string()].into_iter().chain(cells);
        writer.write_record(record).map_err(|error| fault(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| fault(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| fault(error.to_string()))
}

/// The columns of [`csv()`]; from the third on the keys of a row.
pub const COLUMNS: [&str; 12] = [
    "id",
    "seed",
    "what",
    "published",
    "measured",
    "low",
    "high",
    "unit",
    "verdict",
    "holds",
    "tolerance",
    "reason",
];

/// The report as indented JSON.
///
/// # Errors
/// None that is known of: every key is a text.
pub fn json(report: &Report) -> Result<String, WriteError> {
    let fault = |error: serde_json::Error| WriteError::Form {
        id: report.id,
        form: "JSON",
        cause: error.to_string(),
    };
    serde_json::to_string_pretty(report).map(|text| text + "\n").map_err(fault)
}
