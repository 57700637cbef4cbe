//! Import of DiskSim 4.0's drive descriptions as [`DriveProfile`]s.
//!
//! DiskSim describes a drive in files that name each other: a system (`.parv`) with disks
//! (`.diskspecs`), each with a mechanical model and a layout (`.model`, `.layout`) and an extracted
//! seek curve (`.seek`). [`import`] reads their texts; the caller finds the files.
//!
//! ```text
//! texts ─► token ─► tree ─► keys ─┬─► drive   disksim_disk    overheads, bus, cache, queue
//!        (source FILE)            ├─► curve   dm_mech_g1      spindle, arm
//!                                 ├─► zones   dm_layout_g1    zones, spares, slips
//!                                 └─► runs    dm_layout_g4    runs of tracks
//! ```
//!
//! A [`Note`] names each part that a profile cannot express; an invalid value is an error. Not
//! imported: `dm_layout_g2`, DiskSim's simple disks and its devices that do not rotate.
//!
//! Source for the keys: DiskSim 4.0's reference manual, and its source code for the rest.

mod curve;
mod drive;
mod error;
mod keys;
mod runs;
mod token;
mod tree;
mod zones;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::profile::{DriveProfile, Geometry, MeasuredRun, TrackOrder, VariationSpec, Zone};
use drive::Electronics;
pub use error::{ImportError, Note, SourceLocation};
use keys::{Keys, NamedBlocks};
use token::{Library, base_name};
use tree::{Block, Tree};

/// A file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// The path, used in messages and to find files named in the text.
    pub name: String,
    /// The contents.
    pub text: String,
}

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The disk to import if there are several: the name of its block or of an instance of it.
    pub disk: Option<String>,
    /// The profile's name; defaults to the disk's in lower case.
    pub name: Option<String>,
}

/// An imported drive.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The validated profile.
    pub profile: DriveProfile,
    /// Omissions and substitutions, in order of reading.
    pub notes: Vec<Note>,
    /// The names of all files read.
    pub files: Vec<String>,
}

/// Converts DiskSim's files, given in any order, to a profile. For a file that is named in another
/// but not given, `find` gets the naming file and the name, and returns the file or the reason of
/// its absence.
///
/// # Errors
/// See [`ImportError`].
pub fn import(
    files: &[SourceText],
    options: &ImportOptions,
    find: &mut dyn FnMut(&str, &str) -> Result<SourceText, String>,
) -> Result<Imported, ImportError> {
    let mut library = Library::new(files, find);
    let mut tree = Tree::default();
    for (name, tokens) in library.tokens(curve::is_seek_curve)? {
        tree.add(&name, tokens)?;
    }
    let names = NamedBlocks::of(&tree);
    let chosen = choose(&tree, &names, options.disk.as_deref())
        .map_err(|error| error.for_files(&library))?;
    let mut notes = Vec::new();
    let profile = DiskImport { block: chosen, tree: &tree, names: &names }.profile(
        &mut library,
        options,
        &mut notes,
    )?;
    profile.validate().map_err(|error| ImportError::Profile(Box::new(error)))?;
    Ok(Imported { profile, notes, files: library.read.iter().map(ToString::to_string).collect() })
}

impl ImportError {
    fn for_files(self, library: &Library<'_>) -> Self {
        if matches!(self, Self::NoDisk { .. }) {
            Self::NoDisk { files: library.given_names() }
        } else {
            self
        }
    }
}

/// The disk to import: the requested one, else the only instantiated one, else the only one.
fn choose<'t>(
    tree: &'t Tree,
    names: &NamedBlocks<'t>,
    requested: Option<&str>,
) -> Result<&'t Block, ImportError> {
    let all = drive::disks(tree, names);
    let name =
        |block: &Block| block.name.clone().unwrap_or_else(|| format!("(unnamed, {})", block.place));
    let listed = |disks: &[&Block]| {
        disks.iter().map(|block| name(block)).collect::<Vec<String>>().join(", ")
    };
    if all.is_empty() {
        return Err(ImportError::NoDisk { files: String::new() });
    }
    if let Some(requested) = requested {
        let instance = tree
            .instances
            .iter()
            .find(|(instances, _)| instances.iter().any(|instance| instance == requested))
            .map(|(_, block)| block.as_str());
        let found =
            all.iter().find(|block| [Some(requested), instance].contains(&block.name.as_deref()));
        return found.copied().ok_or_else(|| ImportError::UnknownDisk {
            name: requested.to_string(),
            names: listed(&all),
        });
    }
    let used =
        |block: &&&Block| tree.instances.iter().any(|(_, name)| Some(name) == block.name.as_ref());
    let instantiated: Vec<&Block> = all.iter().filter(used).copied().collect();
    match (instantiated.as_slice(), all.as_slice()) {
        ([only], _) | ([], [only]) => Ok(only),
        ([], several) | (several, _) => Err(ImportError::SeveralDisks { names: listed(several) }),
    }
}

struct DiskImport<'t, 'n> {
    block: &'t Block,
    tree: &'t Tree,
    names: &'n NamedBlocks<'t>,
}

impl<'t> DiskImport<'t, '_> {
    fn profile(
        &self,
        library: &mut Library<'_>,
        options: &ImportOptions,
        notes: &mut Vec<Note>,
    ) -> Result<DriveProfile, ImportError> {
        let mut keys = Keys::of(self.block, self.names);
        let bare = self.names.kind(self.block) == "dm_disk";
        let model = if bare {
            self.block
        } else {
            let model = keys.block("Model", self.names)?.or_else(|| self.alone("dm_disk"));
            model.ok_or_else(|| keys.missing("Model", "add `Model = source FILE.model`"))?
        };
        let mut model_keys = Keys::of(model, self.names);
        let heads = model_keys.required_whole(
            "Number of data surfaces",
            1..=1_024,
            "count the surfaces that hold data",
        )? as u16;
        let cylinders = model_keys.whole("Number of cylinders", 1..=i32::MAX as u64)?;
        let declared = model_keys.whole("Block count", 0..=1 << 52)?.filter(|count| *count > 0);
        let Some(mechanical) =
            model_keys.block("Mechanical Model", self.names)?.or_else(|| self.alone("dm_mech_g1"))
        else {
            return Err(model_keys.missing("Mechanical Model", "add the dm_mech_g1 block"));
        };
        let layout = model_keys
            .block("Layout Model", self.names)?
            .or_else(|| self.alone("dm_layout_g4"))
            .or_else(|| self.alone("dm_layout_g1"));
        let Some(layout) = layout else {
            return Err(model_keys
                .missing("Layout Model", "add the layout's block, or give the file with it too"));
        };
        let places = self.places(layout, heads, notes)?;
        let reached = places.cylinders();
        let around = if bare {
            let text = "no disksim_disk block is described: no overheads, a bus without delay, one \
                        command at a time and no cache are taken";
            notes.push(Note::new(&model.place, text));
            Electronics::default_values()
        } else {
            Electronics::read(
                &mut keys,
                self.names,
                self.tree,
                (places.outermost_sectors(), heads),
                notes,
            )?
        };
        let all_cylinders = cylinders.map_or(reached, |declared| reached.max(declared as u32));
        let mechanics = curve::mechanics(mechanical, self.names, all_cylinders, library, notes)?;
        notes.extend(model_keys.left_out(|_, _| false));
        let name = self
            .block
            .name
            .clone()
            .or_else(|| model.name.clone())
            .unwrap_or_else(|| "imported".to_string());
        let (order, zones, runs) = places.into_parts();
        let mut profile = DriveProfile {
            name: options.name.clone().unwrap_or_else(|| plain_name(&name)),
            model: name.clone(),
            description: describe(&name, library),
            sector_bytes: 512,
            physical_sector_bytes: None,
            capacity_sectors: None,
            rotation: mechanics.rotation,
            geometry: Geometry { heads, layout: order, band_cylinders: None, actuators: None },
            zones,
            runs,
            seek: mechanics.seek,
            interface: around.interface,
            firmware: around.firmware,
            cache: around.cache,
            variation: VariationSpec {
                spindle_ppm: mechanics.spindle_ppm,
                ..VariationSpec::default()
            },
            accuracy: None,
            second_actuator: None,
            setup: alloc::collections::BTreeMap::new(),
        };
        let mapped = profile.mapped().get();
        match declared {
            Some(declared) if declared < mapped => {
                let text = format!(
                    "the disk declares {declared} sectors and its layout holds {mapped}; the \
                        profile declares the former"
                );
                notes.push(Note::new(&model.place, text));
                profile.capacity_sectors = Some(declared);
            }
            Some(declared) if declared > mapped => {
                let text = format!(
                    "the disk declares {declared} sectors, but its layout holds only {mapped}; \
                        these count"
                );
                notes.push(Note::new(&model.place, text));
            }
            _ => {}
        }
        Ok(profile)
    }

    fn places(
        &self,
        layout: &'t Block,
        heads: u16,
        notes: &mut Vec<Note>,
    ) -> Result<LayoutParts, ImportError> {
        match self.names.kind(layout) {
            "dm_layout_g1" => {
                zones::zones(layout, self.names, heads, notes).map(LayoutParts::Zones)
            }
            "dm_layout_g4" => runs::runs(layout, self.names, heads, notes).map(LayoutParts::Runs),
            other => Err(ImportError::Unsupported {
                place: layout.place.clone(),
                what: format!("the layout is a {other}"),
                remedy: "only dm_layout_g1 and dm_layout_g4 are imported".to_string(),
            }),
        }
    }

    /// The only block of a kind at the top level of a file.
    fn alone(&self, kind: &str) -> Option<&'t Block> {
        let mut of_kind = self.tree.blocks.iter().filter(|block| self.names.kind(block) == kind);
        of_kind.next().filter(|_| of_kind.next().is_none())
    }
}

/// The layout of the LBAs.
enum LayoutParts {
    Zones(zones::Zones),
    Runs(Vec<MeasuredRun>),
}

impl LayoutParts {
    /// Cylinders up to the last one with data.
    fn cylinders(&self) -> u32 {
        match self {
            Self::Zones(zones) => {
                zones.zones.last().map_or(0, |zone| zone.first_cylinder + zone.cylinders)
            }
            Self::Runs(runs) => {
                runs.iter().map(|run| run.cylinder.max(last_cylinder(run)) + 1).max().unwrap_or(0)
            }
        }
    }

    fn outermost_sectors(&self) -> u32 {
        match self {
            Self::Zones(zones) => zones.zones.first().map_or(1, |zone| zone.sectors_per_track),
            Self::Runs(runs) => runs.first().map_or(1, |run| run.sectors_per_track),
        }
    }

    fn into_parts(self) -> (TrackOrder, Vec<Zone>, Vec<MeasuredRun>) {
        match self {
            Self::Zones(zones) => (zones.order, zones.zones, Vec::new()),
            // Runs define their own order.
            Self::Runs(runs) => (TrackOrder::Cylinder, Vec::new(), runs),
        }
    }
}

fn last_cylinder(run: &MeasuredRun) -> u32 {
    (i64::from(run.cylinder)
        + i64::from(run.tracks.saturating_sub(1)) * i64::from(run.cylinder_step))
    .max(0) as u32
}

/// The name in the form that profiles require.
fn plain_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(plain).collect()
}

fn describe(name: &str, library: &Library<'_>) -> String {
    let files: Vec<&str> = library.read.iter().map(|file| base_name(file)).collect();
    format!("Imported from DiskSim's description of {name}: {}", files.join(", "))
}
