//! Everything outside the mechanics: `disksim_disk` blocks, and the buses and controllers beside
//! them, to interface, cache and firmware queue.
//!
//! Overheads add up as in the description: that of each request, that of a hit or miss after a read
//! or write, all scaled. A sector's transfer time is the longest one of disk, buses and
//! controllers.

use alloc::format;
use alloc::vec::Vec;

use super::error::{ImportError, Note};
use super::keys::{Keys, NamedBlocks};
use super::tree::{Block, Tree};
use crate::profile::{Algorithm, Cache, Firmware, Interface};

/// Bytes of a sector in every description.
const SECTOR_BYTES: f64 = 512.0;
/// The rate of a bus without a time of its own, in MB/s: the maximum of profiles.
const FREE_BUS_MB_PER_S: f64 = 1_000_000.0;
/// Maximum time in milliseconds, as in profiles.
const MAX_MS: f64 = 600_000.0;
/// Maximum number of commands, segments and sectors of a segment.
const MAX_COUNT: u64 = i32::MAX as u64;

/// A drive without its mechanics.
pub(super) struct Electronics {
    pub(super) interface: Interface,
    pub(super) firmware: Firmware,
    pub(super) cache: Option<Cache>,
}

impl Electronics {
    /// The defaults if only the mechanics are described.
    pub(super) fn default_values() -> Self {
        let interface = Interface { bus_mb_per_s: FREE_BUS_MB_PER_S, ..Interface::default() };
        Self {
            interface,
            firmware: Firmware { queue_depth: 1, ..Firmware::default() },
            cache: None,
        }
    }

    /// Reads a `disksim_disk` block; `sectors_per_track` are those of the outermost track, on each
    /// of `heads` surfaces.
    pub(super) fn read<'t>(
        keys: &mut Keys<'t>,
        names: &NamedBlocks<'t>,
        tree: &'t Tree,
        (sectors_per_track, heads): (u32, u16),
        notes: &mut Vec<Note>,
    ) -> Result<Self, ImportError> {
        let times = OverheadTimes::read(keys)?;
        let bus_ms = bus_ms(keys, names, tree, notes)?;
        let interface = interface(keys, &times, bus_ms, notes)?;
        let mut firmware = firmware(keys, names, notes)?;
        let mut flag =
            |key: &str| Ok::<bool, ImportError>(keys.whole(key, 0..=2)?.unwrap_or(0) > 0);
        firmware.zero_latency_read = flag("Immediate buffer read")?;
        firmware.zero_latency_write = flag("Immediate buffer write")?;
        let cache = cache(keys, &times, (sectors_per_track, heads), notes)?;
        notes.extend(keys.left_out(is_harmless));
        Ok(Self { interface, firmware, cache })
    }
}

/// True if omitting a disk's key changes nothing that a profile can express.
fn is_harmless(key: &str, value: Option<f64>) -> bool {
    match key {
        // Statistics, parameters of other components, and parameters that DiskSim ignores.
        "Print stats" | "Avg sectors per cylinder" | "Calc sector by sector" => true,
        // With these values a profile's drive behaves the same way.
        "Allow read hits on write data"
        | "Set watermark by reqsize"
        | "Write hit stop prefetch"
        | "Read directly to buffer" => value == Some(1.0),
        // The cost of a second disconnection counts only if the drive makes one.
        _ => value == Some(0.0),
    }
}

/// Scaled overheads of a request in milliseconds.
struct OverheadTimes {
    scale: f64,
    each: f64,
}

impl OverheadTimes {
    fn read(keys: &mut Keys<'_>) -> Result<Self, ImportError> {
        let scale = keys.number("Time scale for overheads", 0.0..=1_000.0)?.unwrap_or(1.0);
        Ok(Self {
            scale,
            each: keys.number("Per-request overhead time", 0.0..=MAX_MS)?.unwrap_or(0.0),
        })
    }

    /// The overhead of a command, in microseconds.
    fn command(&self, keys: &mut Keys<'_>, key: &str) -> Result<f64, ImportError> {
        let ms = keys.number(key, 0.0..=MAX_MS)?.unwrap_or(0.0);
        Ok(us((self.each + ms) * self.scale))
    }

    /// The overhead of a completion, in microseconds.
    fn completion(&self, keys: &mut Keys<'_>, key: &str) -> Result<f64, ImportError> {
        Ok(us(keys.number(key, 0.0..=MAX_MS)?.unwrap_or(0.0) * self.scale))
    }
}

fn interface(
    keys: &mut Keys<'_>,
    times: &OverheadTimes,
    bus_ms: f64,
    notes: &mut Vec<Note>,
) -> Result<Interface, ImportError> {
    let read_command_us = times.command(keys, "Read miss over. after read")?;
    let after_write = times.command(keys, "Read miss over. after write")?;
    let mut write_command_us = times.command(keys, "Write miss over. after read")?;
    let mut write_after_write = times.command(keys, "Write miss over. after write")?;
    if keys.whole("Extra write disconnect", 0..=1)? == Some(1) {
        // This overhead replaces the other two.
        write_command_us = times.command(keys, "Extradisc command overhead")?;
        write_after_write = write_command_us;
        let text = "the drive leaves the bus between a write's command and its data; a profile's \
                    drive only has the overhead of the command";
        notes.push(Note::new(keys.place, text));
    }
    let completion_us = times.completion(keys, "Read completion overhead")?;
    let write_completion = times.completion(keys, "Write completion overhead")?;
    let bus_mb_per_s = if bus_ms > 0.0 {
        (SECTOR_BYTES / (bus_ms * 1e3)).clamp(0.001, FREE_BUS_MB_PER_S)
    } else {
        FREE_BUS_MB_PER_S
    };
    Ok(Interface {
        read_command_us,
        write_command_us,
        read_after_write_us: (after_write != read_command_us).then_some(after_write),
        write_after_write_us: (write_after_write != write_command_us).then_some(write_after_write),
        completion_us,
        write_completion_us: (write_completion != completion_us).then_some(write_completion),
        bus_mb_per_s,
        ..Interface::default()
    })
}

/// The transfer time of a sector on the slowest part of its path.
fn bus_ms<'t>(
    keys: &mut Keys<'t>,
    names: &NamedBlocks<'t>,
    tree: &'t Tree,
    notes: &mut Vec<Note>,
) -> Result<f64, ImportError> {
    let own = keys.number("Bulk sector transfer time", 0.0..=MAX_MS)?.unwrap_or(0.0);
    let mut slowest = own;
    for block in &tree.blocks {
        let times: &[&str] = match names.kind(block) {
            "disksim_bus" => &["Read block transfer time", "Write block transfer time"],
            "disksim_ctlr" => &["Bulk sector transfer time"],
            _ => continue,
        };
        let mut beside = Keys::of(block, names);
        for key in times {
            let ms = beside.number(key, 0.0..=MAX_MS)?.unwrap_or(0.0);
            if ms > slowest {
                slowest = ms;
                let text = format!(
                    "`{key}` of {} takes the place of the disk's own {own} ms a sector",
                    block.title()
                );
                notes.push(Note::new(&block.place, text));
            }
        }
    }
    Ok(slowest)
}

fn firmware<'t>(
    keys: &mut Keys<'t>,
    names: &NamedBlocks<'t>,
    notes: &mut Vec<Note>,
) -> Result<Firmware, ImportError> {
    let queue_depth = keys.whole("Max queue length", 0..=65_536)?.unwrap_or(1).max(1) as u32;
    let mut algorithm = Algorithm::Fcfs;
    if let Some(block) = keys.block("Scheduler", names)? {
        let mut queue = Keys::of(block, names);
        let number = queue.whole("Scheduling policy", 1..=28)?.unwrap_or(1);
        let (nearest, exact) = nearest_algorithm(number);
        algorithm = nearest;
        // A single command leaves no choice.
        if queue_depth > 1 {
            if !exact {
                let name = if nearest == Algorithm::Fcfs {
                    "the order of arrival"
                } else {
                    "the shortest positioning time first"
                };
                let text =
                    format!("scheduling policy {number} becomes its nearest in a profile: {name}");
                notes.push(Note::new(&block.place, text));
            }
            notes.extend(queue.left_out(|key, value| {
                // The drive's knowledge of its layout, and limits of disabled schemes.
                let aside = [
                    "Cylinder mapping strategy",
                    "Maximum concat size",
                    "Sequential stream diff maximum",
                ];
                aside.contains(&key)
                    || key.starts_with("Timeout")
                    || key == "Priority scheduling"
                    || value == Some(0.0)
            }));
        }
    }
    Ok(Firmware { queue_depth, algorithm, ..Firmware::default() })
}

/// The algorithm closest to a DiskSim policy number, and whether it is the same.
fn nearest_algorithm(number: u64) -> (Algorithm, bool) {
    match number {
        1 => (Algorithm::Fcfs, true),
        8 => (Algorithm::Sptf, true),
        // First come, first served in batches.
        28 => (Algorithm::Fcfs, false),
        // Elevators, shortest seeks, and shortest positioning with weights, age or the cache.
        _ => (Algorithm::Sptf, false),
    }
}

fn cache(
    keys: &mut Keys<'_>,
    times: &OverheadTimes,
    (spt, heads): (u32, u16),
    notes: &mut Vec<Note>,
) -> Result<Option<Cache>, ImportError> {
    let segments = keys.whole("Number of buffer segments", 0..=MAX_COUNT)?.unwrap_or(0) as u32;
    let segment_sectors = keys.whole("Segment size (in blks)", 0..=MAX_COUNT)?.unwrap_or(0) as u32;
    let write_segments = keys
        .whole("Maximum number of write segments", 0..=MAX_COUNT)?
        .map(|count| (count as u32).clamp(1, segments.max(1)));
    let dedicated = keys.whole("Use separate write segment", 0..=1)? == Some(1);
    let enabled = keys.whole("Enable caching in buffer", 0..=2)?.unwrap_or(0) > 0;
    let fast_write = keys.whole("Fast write level", 0..=2)?.unwrap_or(0);
    let ahead = keys.whole("Buffer continuous read", 0..=4)?.unwrap_or(0);
    let before = keys.whole("Read any free blocks", 0..=1)? == Some(1);
    let max_ahead = keys.whole("Maximum read-ahead (blks)", 0..=MAX_COUNT)?.unwrap_or(0) as u32;
    let read_hit_us = times.command(keys, "Read hit over. after read")?;
    let read_after_write = times.command(keys, "Read hit over. after write")?;
    let write_hit_us = times.command(keys, "Write hit over. after read")?;
    let write_after_write = times.command(keys, "Write hit over. after write")?;
    let mut note = |text: &str| notes.push(Note::new(keys.place, text));
    if !enabled || segments == 0 || segment_sectors == 0 {
        if fast_write > 0 || ahead > 0 {
            note(
                "read-ahead and early completion of writes are left out, as the buffer does not \
                    cache",
            );
        }
        return Ok(None);
    }
    if fast_write == 1 {
        note(
            "the drive completes a write early only where it goes on from the one before; a \
                profile's cache does so with every write",
        );
    }
    if dedicated {
        note("one segment is kept for writes alone; a profile's cache takes any one");
    }
    let whole = if max_ahead > 0 { max_ahead.min(segment_sectors) } else { segment_sectors };
    // Up to the end of a track, with the sectors before the requested ones, is the whole track.
    let whole_track = before && matches!(ahead, 1 | 4);
    let read_ahead_within_track = !whole_track && matches!(ahead, 1 | 4);
    let (read_ahead_sectors, ends) = match ahead {
        _ if whole_track => (0, None),
        0 => (0, None),
        2 => (whole.min(spt.saturating_mul(u32::from(heads))), Some("the end of the cylinder")),
        1 | 3 => (whole, None),
        _ => (
            spt,
            Some(
                "the end of the next track behind reads that go on from each other, else of the \
                    track",
            ),
        ),
    };
    if let Some(ends) = ends {
        let within = if read_ahead_within_track { " within the track" } else { "" };
        note(&format!(
            "the drive reads ahead to {ends}; a profile's cache reads {read_ahead_sectors} sectors \
                ahead{within}"
        ));
    }
    if before && !whole_track {
        note(
            "the drive keeps sectors that come by before those asked for (Read any free blocks); a \
                profile's cache does so with whole_track alone",
        );
    }
    Ok(Some(Cache {
        segments,
        segment_sectors,
        write_segments: if dedicated { Some(1) } else { write_segments },
        read_ahead_sectors,
        write_back: fast_write > 0,
        read_hit_us,
        read_hit_after_write_us: (read_after_write != read_hit_us).then_some(read_after_write),
        write_hit_us,
        write_hit_after_write_us: (write_after_write != write_hit_us).then_some(write_after_write),
        write_delay_ms: None,
        whole_track,
        read_ahead_within_track,
    }))
}

/// Milliseconds as microseconds, rounded to nanoseconds.
fn us(ms: f64) -> f64 {
    libm::round(ms * 1e6) / 1e3
}

/// The disks in a tree: `dm_disk` blocks only if there is no `disksim_disk`.
pub(super) fn disks<'t>(tree: &'t Tree, names: &NamedBlocks<'t>) -> Vec<&'t Block> {
    let of = |kind: &str| -> Vec<&'t Block> {
        tree.blocks.iter().filter(|block| names.kind(block) == kind).collect()
    };
    let disks = of("disksim_disk");
    if disks.is_empty() { of("dm_disk") } else { disks }
}
