//! `headtime devices`: the block devices of the machine, and whether each could be a drive; putting
//! back kernel settings that a killed run has left.

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headtime_io::{BlockDevice, DeviceRefusal, KnobRestored, SystemPaths, Zoned, restore_knobs};
use headtime_units::ByteSize;
use serde::Serialize;

use headtime_console::Failure;
use headtime_console::output::{print, print_json};

/// Arguments of `headtime devices`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Action other than listing
    #[command(subcommand)]
    pub action: Option<DeviceAction>,
    /// Print a JSON array instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

/// The actions other than listing.
#[derive(Debug, Subcommand)]
pub enum DeviceAction {
    /// Restore the kernel settings that a killed `serve` left changed; the next start on the same
    /// device does so too
    Restore,
}

#[derive(Serialize)]
struct Device {
    name: String,
    path: String,
    by_id: Vec<String>,
    disk: Option<String>,
    model: Option<String>,
    serial: Option<String>,
    bytes: u64,
    logical_sector_bytes: u32,
    physical_sector_bytes: u32,
    rotational: bool,
    zoned: &'static str,
    read_only: bool,
    scheduler: Option<String>,
    queue_depth: Option<u32>,
    write_cache: Option<String>,
    fua: bool,
    discard: bool,
    content: Option<String>,
    users: Vec<String>,
    usable: bool,
    refusals: Vec<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Restored {
    knob: String,
    file: String,
    before: String,
    now: Option<String>,
    restored: bool,
}

/// Lists them, or puts settings back.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let system = SystemPaths::default();
    match arguments.action {
        Some(DeviceAction::Restore) => restore(&system, arguments.json),
        None => list(&system, arguments.json),
    }
}

fn list(system: &SystemPaths, json: bool) -> Result<(), Failure> {
    let devices = BlockDevice::list(system);
    let devices = devices.with_context(|| {
        format!("{} does not show the block devices of this machine", system.sys.display())
    })?;
    if json {
        return print_json(&devices.iter().map(described).collect::<Vec<_>>());
    }
    if devices.is_empty() {
        return print("no block devices");
    }
    print(&devices.iter().map(paragraph).collect::<Vec<_>>().join("\n"))
}

fn restore(system: &SystemPaths, json: bool) -> Result<(), Failure> {
    let (restored, errors) = restore_knobs(system);
    if json {
        print_json(&restored.iter().map(line_of).collect::<Vec<_>>())?;
    } else if restored.is_empty() && errors.is_empty() {
        print(
            "no kernel settings to restore: no run was killed with changed settings, or they are \
                restored already",
        )?;
    } else {
        print(&restored.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(anyhow!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )))
}

fn line_of(knob: &KnobRestored) -> Restored {
    Restored {
        knob: knob.name.clone(),
        file: knob.file.display().to_string(),
        before: knob.before.clone(),
        now: knob.now.clone(),
        restored: knob.left.is_none(),
    }
}

fn described(device: &BlockDevice) -> Device {
    let refusals: Vec<String> = device.refusals().iter().map(DeviceRefusal::to_string).collect();
    Device {
        name: device.name.clone(),
        path: device.node.display().to_string(),
        by_id: device.by_id.iter().map(|path| path.display().to_string()).collect(),
        disk: device.disk.clone(),
        model: device.model.clone(),
        serial: device.serial.clone(),
        bytes: device.bytes,
        logical_sector_bytes: device.logical_sector,
        physical_sector_bytes: device.physical_sector,
        rotational: device.rotational,
        zoned: match device.zoned {
            Zoned::No => "none",
            Zoned::HostAware => "host-aware",
            Zoned::HostManaged => "host-managed",
        },
        read_only: device.read_only,
        scheduler: device.scheduler.clone(),
        queue_depth: device.queue_depth,
        write_cache: device.write_cache.clone(),
        fua: device.fua,
        discard: device.discard,
        content: device.content.clone(),
        users: device.users.iter().map(ToString::to_string).collect(),
        usable: refusals.is_empty(),
        refusals,
        notes: device.rejects().iter().map(ToString::to_string).collect(),
    }
}

/// A device in a few lines: what it is, then what there is to know about it.
fn paragraph(device: &BlockDevice) -> String {
    let known = |what: &Option<String>| what.clone().unwrap_or_else(|| "unknown".to_string());
    let kind = match (&device.disk, device.rotational) {
        (Some(disk), _) => format!("part of {disk}"),
        (None, true) => "rotating".to_string(),
        (None, false) => "not rotating".to_string(),
    };
    let sectors =
        format!("sectors of {} ({} physical) bytes", device.logical_sector, device.physical_sector);
    let mut text =
        format!("{}  {}, {sectors}, {kind}\n", device.node.display(), ByteSize::new(device.bytes));
    let mut line = |what: &str, value: &str| text.push_str(&format!("  {what:<8} {value}\n"));
    if device.model.is_some() || device.serial.is_some() {
        line("model", &format!("{}, serial {}", known(&device.model), known(&device.serial)));
    }
    if let Some(path) = device.by_id.first() {
        line("name it", &path.display().to_string());
    }
    if device.disk.is_none() {
        let depth =
            device.queue_depth.map_or_else(|| "unknown".to_string(), |depth| depth.to_string());
        line(
            "kernel",
            &format!(
                "scheduler {}, queue depth {depth}, write cache {}",
                known(&device.scheduler),
                known(&device.write_cache)
            ),
        );
    }
    let refusals: Vec<String> = device.refusals().iter().map(DeviceRefusal::to_string).collect();
    line(
        "usable",
        &if refusals.is_empty() {
            match &device.content {
                None => "yes".to_string(),
                Some(content) => format!("with --existing, for the {content} on it"),
            }
        } else {
            format!("no: {}", refusals.join("; "))
        },
    );
    for reject in device.rejects() {
        line("note", &reject.to_string());
    }
    text
}

const AFTER_HELP: &str = "\
The list changes nothing. The content of a device is what udev has found. Users of a device are
listed as far as this user may see them; root sees every process.
Name a drive by the path after `name it`: it stays with the disk, /dev/sdX does not.";
