//! `headtime check-config`: whether a configuration file of `headtime serve` makes sense.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use headtime_serve::config::{Config, ConfigErrors, Place};
use serde::Serialize;

use crate::Failure;
use crate::output::{print, print_json};

/// Arguments of `headtime check-config`.
#[derive(Debug, Args)]
#[command(after_help = "Nothing is opened or changed: whether the drive exists is seen when serving starts.")]
pub struct Arguments {
    /// The file
    pub file: PathBuf,
    /// Prints one JSON object: ok, and errors with line and column
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer {
    file: String,
    ok: bool,
    errors: Vec<Mistake>,
}

#[derive(Serialize)]
struct Mistake {
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

/// Checks it.
///
/// # Errors
/// When the file cannot be read or has mistakes.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.file.display().to_string();
    let checked = read(&arguments.file)?.and_then(|config| config.check());
    if arguments.json {
        let errors = checked.as_ref().err().map_or(&[][..], ConfigErrors::errors).iter().map(|error| {
            let (line, column) = match error.place {
                Place::File { line, column, .. } => (Some(line), Some(column)),
                Place::Flag(_) | Place::Whole => (None, None),
            };
            Mistake { line, column, message: error.message.clone() }
        });
        print_json(&Answer { file: name, ok: checked.is_ok(), errors: errors.collect() })?;
    } else if checked.is_ok() {
        print(&format!("{name}: fine"))?;
    }
    checked.map_err(Failure::asked)
}

/// Reads a configuration file; the inner result is what stands in it.
///
/// # Errors
/// When the file cannot be read at all.
pub fn read(file: &Path) -> Result<Result<Config, ConfigErrors>, Failure> {
    let text = std::fs::read_to_string(file).with_context(|| format!("configuration {} cannot be read", file.display())).map_err(Failure::Asked)?;
    Ok(Config::from_toml(&file.display().to_string(), &text))
}
