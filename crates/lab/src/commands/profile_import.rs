//! `headtime profile import`: makes a profile of another program's description of a drive.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use headtime_console::Failure;
use headtime_console::output::print;
use headtime_io::files::{Existing, write_atomically};
use headtime_mechanics::DriveProfile;
use headtime_mechanics::import::{ImportOptions, Imported, SourceText, import};

/// Arguments of `headtime profile import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub struct ImportArguments {
    /// DiskSim files: .parv, .diskspecs, .model, .layout, .seek, in any order; files that they name
    /// are searched for beside them
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub disksim: Vec<PathBuf>,
    /// Disk to import if the files describe several
    #[arg(long, value_name = "NAME")]
    pub disk: Option<String>,
    /// Name of the profile [default: the disk's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// File for the profile [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file of --out if it exists
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Print no notes about omitted keys
    #[arg(long)]
    pub quiet: bool,
}

const IMPORT_HELP: &str = "\
What the description says and a profile has no key for is named on standard error, with its file \
and line.

Example: headtime profile import --disksim atlas10k.parv --name my-atlas --out my-atlas.toml
         headtime sim --drive my-atlas.toml";

/// Imports the profile.
pub fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    if let Some(out) = arguments.out.as_ref().filter(|out| out.exists() && !arguments.force) {
        return Err(Failure::Usage(anyhow!(
            "{} exists; choose another file, or add --force to replace it",
            out.display()
        )));
    }
    let imported = read(arguments)?;
    if !arguments.quiet {
        for note in &imported.notes {
            headtime_console::note!("headtime: {note}");
        }
    }
    let toml = imported.profile.to_toml();
    // What is handed out is what any later reader will see: read back before it counts as done.
    let again = DriveProfile::from_toml(&imported.profile.name, &toml)
        .context("the imported profile cannot be read back, which is a fault of this program")?;
    if again != imported.profile {
        return Err(Failure::Failed(anyhow!(
            "the imported profile {} changes when read back, which is a fault of this program",
            again.name
        )));
    }
    match &arguments.out {
        None => print(&toml),
        Some(out) => write_whole(out, &toml, arguments.force).map_err(Failure::Failed),
    }
}

fn read(arguments: &ImportArguments) -> Result<Imported, Failure> {
    let files = arguments
        .disksim
        .iter()
        .map(|path| source(path))
        .collect::<anyhow::Result<Vec<SourceText>>>()
        .map_err(Failure::Usage)?;
    let options = ImportOptions { disk: arguments.disk.clone(), name: arguments.name.clone() };
    let mut beside = |from: &str, name: &str| {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        source(&folder.join(name)).map_err(|error| error.root_cause().to_string())
    };
    import(&files, &options, &mut beside).map_err(Failure::usage)
}

/// A file's text. Old descriptions have comments in old encodings: what is no UTF-8 is replaced,
/// and refused where it matters.
fn source(path: &Path) -> anyhow::Result<SourceText> {
    let bytes =
        std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(SourceText {
        name: path.display().to_string(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Writes `text` to `path` atomically.
fn write_whole(path: &Path, text: &str, replace: bool) -> anyhow::Result<()> {
    let existing = if replace { Existing::Replace } else { Existing::Keep };
    write_atomically(path, existing, |mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
