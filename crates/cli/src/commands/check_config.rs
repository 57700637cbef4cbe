//! `headtime check-config`: whether a configuration file of `headtime serve` makes sense.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use headtime_io::{KernelKnobs, KernelWatch, Locator, block_device_at, plan_knobs};
use headtime_serve::StartError;
use headtime_serve::config::{Config, TextErrors, config_files};
use serde::Serialize;

use headtime_console::Failure;
use headtime_console::output::{print, print_json};

/// Arguments of `headtime check-config`.
#[derive(Debug, Args)]
#[command(
    after_help = "Checks what `headtime serve` checks at its start, and exits as it would. The \
        drive is read, and nothing is bound, claimed or changed; of a drive over NBD and of an \
        array the content is not known. Of a block device it is shown what serving would set in \
        the kernel, and which programs use it now."
)]
pub struct Arguments {
    /// Configuration file
    pub file: PathBuf,
    /// Print one JSON object: ok, errors with line and column, notes, and the settings of a block
    /// device that would change
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer {
    file: String,
    ok: bool,
    errors: Vec<Mistake>,
    notes: Vec<String>,
    device: Option<Device>,
}

/// The block device of the drive and the changes that serving would make to it.
#[derive(Serialize)]
struct Device {
    name: String,
    refusals: Vec<String>,
    notes: Vec<String>,
    knobs: Vec<Knob>,
}

#[derive(Serialize)]
struct Knob {
    name: &'static str,
    #[serde(rename = "wanted")]
    requested: String,
    has_effect: bool,
    text: String,
}

#[derive(Serialize)]
struct Mistake {
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.file.display().to_string();
    let config = read(&arguments.file)?;
    let device = config.as_ref().ok().and_then(device);
    let checked = config.map_err(|errors| vec![StartError::Config(errors)]);
    let (notes, errors) = match checked.and_then(|config| config.check_start()) {
        Ok(notes) => (notes, Vec::new()),
        Err(errors) => (Vec::new(), errors),
    };
    if arguments.json {
        let ok = errors.is_empty();
        let errors = errors.iter().flat_map(mistakes).collect();
        print_json(&Answer { file: name, ok, errors, notes, device })?;
    } else if errors.is_empty() {
        print(&format!(
            "{name}: valid\n{}{}",
            notes.iter().map(|note| format!("note: {note}\n")).collect::<String>(),
            device.as_ref().map_or_else(String::new, device_text)
        ))?;
    }
    if errors.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let text = anyhow::Error::msg(texts.join("\n"));
    let is_usage = errors.iter().any(StartError::is_usage);
    Err(if is_usage { Failure::Usage(text) } else { Failure::Failed(text) })
}

/// An error, or the mistakes in the text.
fn mistakes(error: &StartError) -> Vec<Mistake> {
    let StartError::Config(texts) = error else {
        return vec![Mistake { line: None, column: None, message: error.to_string() }];
    };
    let positions = texts.errors().iter().map(|error| (error.position.unzip(), &error.message));
    positions
        .map(|((line, column), message)| Mistake { line, column, message: message.clone() })
        .collect()
}

/// The block device that the configuration names, if it is one.
fn device(config: &Config) -> Option<Device> {
    let Some(Locator::Path(path)) = &config.drive else { return None };
    let device = block_device_at(path, &config.raw.system).ok()??;
    let knobs = plan_knobs(&device, &config.raw).into_iter();
    let keeps = config.raw.kernel_knobs == KernelKnobs::Keep;
    let hindrances = keeps.then(|| KernelWatch::direct(&device, &config.raw).hindrances());
    Some(Device {
        name: device.name.clone(),
        refusals: device.refusals().iter().map(ToString::to_string).collect(),
        notes: device
            .rejects()
            .iter()
            .map(|reject| format!("{}: {reject}", device.name))
            .chain(hindrances.into_iter().flatten())
            .collect(),
        knobs: knobs
            .map(|knob| Knob {
                name: knob.name,
                has_effect: knob.has_effect(),
                text: knob.to_string(),
                requested: knob.requested,
            })
            .collect(),
    })
}

fn device_text(device: &Device) -> String {
    let refusals = device
        .refusals
        .iter()
        .map(|refusal| format!("{} cannot be the drive now: {refusal}\n", device.name));
    let notes = device.notes.iter().map(|note| format!("{note}\n"));
    let knobs = device.knobs.iter().map(|knob| {
        let would_set = if knob.has_effect { "would set on " } else { "" };
        format!("{would_set}{}: {}\n", device.name, knob.text)
    });
    refusals.chain(notes).chain(knobs).collect()
}

/// Reads a configuration file and those in `conf.d` beside it; the inner result is their content.
pub(crate) fn read(file: &Path) -> Result<Result<Config, TextErrors>, Failure> {
    let unreadable = |path: &Path| format!("configuration {} cannot be read", path.display());
    let files = config_files(file)
        .with_context(|| unreadable(&file.with_file_name("conf.d")))
        .map_err(Failure::Usage)?;
    let mut texts = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)
            .with_context(|| unreadable(&path))
            .map_err(Failure::Usage)?;
        texts.push((path.display().to_string(), text));
    }
    Ok(Config::from_texts(texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))))
}
