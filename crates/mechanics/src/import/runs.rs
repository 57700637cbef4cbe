//! `dm_layout_g4` blocks to runs.
//!
//! Such a layout is a tree. Its leaves are track patterns (`TP`: lowest and highest sector with an
//! LBN, sectors per revolution), its nodes index blocks (`IDX`, the root is the last one) of
//! entries:
//!
//! ```text
//! first, cylinder, angle,  sectors, cylinders, angle of one repetition,
//! sectors, cylinders of all repetitions,  TRACK pattern head | IDX block
//! ```
//!
//! An entry repeats its child until its sectors are used up; cylinders and angles add up down the
//! tree. If the cylinders of all repetitions are negative, each lies further out than the one
//! before. An entry of kind TRACK is thus a run.
//!
//! The tree numbers every sector that has an angle. `Slips` (`first, count`) removes numbers, so
//! that later sectors have smaller LBAs: runs are split there. `Remaps` (`LBA, count, cylinder,
//! head, sector, sectors per revolution`) moves LBAs elsewhere: they become runs of their own.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::error::{ImportError, Note, SourceLocation};
use super::keys::{Keys, NamedBlocks, number_of, refuse, whole_of};
use super::tree::{Block, SourceValue, ValueContent};
use crate::profile::MeasuredRun;

/// Maximum nesting of index blocks.
const MAX_DEPTH: usize = 16;
/// Maximum number of runs of an import; the longest known layout has 20,000.
const MAX_RUNS: usize = 2_000_000;
/// Maximum of sectors, cylinders and counts.
const MAX_COUNT: u64 = 1 << 52;
/// Maximum absolute angle in revolutions; whole revolutions are subtracted.
const MAX_TURNS: f64 = 1e9;
/// Angles closer than this are equal: descriptions write six places.
const SAME_TURNS: f64 = 1e-6;

/// The runs of a `dm_layout_g4` block on a disk with `heads` surfaces.
pub(super) fn runs<'t>(
    block: &'t Block,
    names: &NamedBlocks<'t>,
    heads: u16,
    notes: &mut Vec<Note>,
) -> Result<Vec<MeasuredRun>, ImportError> {
    let mut keys = Keys::of(block, names);
    let patterns = keys
        .list("TP")?
        .chunks(3)
        .map(TrackPattern::read)
        .collect::<Result<Vec<TrackPattern>, _>>()?;
    let mut tree = Layers { patterns, blocks: Vec::new(), heads, place: &block.place };
    for item in keys.list("IDX")? {
        let ValueContent::List(items) = &item.content else {
            return Err(refuse(
                "IDX",
                item,
                "a list of lists",
                "each index block is a list of entries",
            ));
        };
        tree.blocks.push(tree.entries(items)?);
    }
    let Some(root) = tree.blocks.len().checked_sub(1) else {
        return Err(keys.missing("IDX", "add the index blocks, the root last"));
    };
    let mut numbered = Vec::new();
    let end =
        tree.blocks[root].iter().map(|entry| entry.first + entry.all_sectors).max().unwrap_or(0);
    tree.expand(root, &Origin::default(), end, 0, &mut numbered)?;
    numbered.sort_by_key(|run| run.first_lba);
    contiguous(&numbered, keys.place)?;
    let slips = slips(keys.list("Slips")?)?;
    let remaps =
        keys.list("Remaps")?.chunks(6).map(RunRemap::read).collect::<Result<Vec<RunRemap>, _>>()?;
    notes.extend(keys.left_out(|_, _| false));
    let mut runs = joined(without(&numbered, &slips));
    for remap in remaps {
        match remap.run(&numbered, heads)? {
            Some(run) => runs = joined(with(runs, &run)),
            None => {
                let text = format!(
                    "LBA {} is remapped to a track whose angle is not described; it stays where it \
                        was",
                    remap.first
                );
                notes.push(Note::new(&remap.place, text));
            }
        }
    }
    Ok(runs)
}

struct TrackPattern {
    low: u64,
    high: u64,
    sectors_per_track: u64,
}

impl TrackPattern {
    fn read(items: &[SourceValue]) -> Result<Self, ImportError> {
        let [low, high, spt] = items else {
            return Err(refuse(
                "TP",
                &items[0],
                "groups of three numbers",
                "write lowest sector, highest sector, sectors per revolution",
            ));
        };
        let sectors_per_track = whole_of("TP", spt, &(1..=65_535))?;
        let high = whole_of("TP", high, &(0..=sectors_per_track - 1))?;
        Ok(Self { low: whole_of("TP", low, &(0..=high))?, high, sectors_per_track })
    }
}

struct IndexEntry<'t> {
    place: &'t SourceLocation,
    first: u64,
    cylinder: i64,
    turns: f64,
    sectors: u64,
    cylinders: i64,
    step_turns: f64,
    all_sectors: u64,
    outwards: bool,
    child: Child,
}

enum Child {
    Track { pattern: usize, head: u16 },
    Index(usize),
}

struct Layers<'t> {
    patterns: Vec<TrackPattern>,
    blocks: Vec<Vec<IndexEntry<'t>>>,
    heads: u16,
    place: &'t SourceLocation,
}

/// The start of an index block.
#[derive(Clone, Copy, Default)]
struct Origin {
    sector: u64,
    cylinder: i64,
    turns: f64,
}

impl<'t> Layers<'t> {
    fn entries(&self, items: &'t [SourceValue]) -> Result<Vec<IndexEntry<'t>>, ImportError> {
        let mut entries = Vec::new();
        let mut rest = items;
        while let Some(start) = rest.first() {
            let shape = || {
                refuse(
                    "IDX",
                    start,
                    "eight numbers and `TRACK pattern head` or `IDX block`",
                    "an entry that starts here is cut off",
                )
            };
            let kind = rest.get(8).map(SourceValue::show);
            let length = match kind.as_deref() {
                Some("TRACK") => 11,
                Some("IDX") => 10,
                _ => return Err(shape()),
            };
            let (fields, after) = rest.split_at_checked(length).ok_or_else(shape)?;
            rest = after;
            entries.push(self.entry(fields)?);
        }
        Ok(entries)
    }

    fn entry(&self, fields: &'t [SourceValue]) -> Result<IndexEntry<'t>, ImportError> {
        let whole =
            |number: usize, min: u64, max: u64| whole_of("IDX", &fields[number], &(min..=max));
        let cylinder = |number: usize| -> Result<i64, ImportError> {
            let value =
                number_of("IDX", &fields[number], &(-f64::from(i32::MAX)..=f64::from(i32::MAX)))?;
            if libm::trunc(value) == value {
                Ok(value as i64)
            } else {
                Err(refuse("IDX", &fields[number], "whole cylinders", "correct it"))
            }
        };
        let turns = |number: usize| number_of("IDX", &fields[number], &(-MAX_TURNS..=MAX_TURNS));
        // A child is a pattern or an earlier block, so no block contains itself.
        let child = if fields.len() == 11 {
            let pattern = whole(9, 0, (self.patterns.len() as u64).saturating_sub(1))? as usize;
            Child::Track { pattern, head: whole(10, 0, u64::from(self.heads) - 1)? as u16 }
        } else {
            if self.blocks.is_empty() {
                return Err(refuse(
                    "IDX",
                    &fields[9],
                    "an index block before this one",
                    "there is none yet; blocks come before those that name them",
                ));
            }
            Child::Index(whole(9, 0, self.blocks.len() as u64 - 1)? as usize)
        };
        let entry = IndexEntry {
            place: &fields[0].place,
            first: whole(0, 0, MAX_COUNT)?,
            cylinder: cylinder(1)?,
            turns: turns(2)?,
            sectors: whole(3, 1, MAX_COUNT)?,
            cylinders: cylinder(4)?,
            step_turns: turns(5)?,
            all_sectors: whole(6, 1, MAX_COUNT)?,
            outwards: cylinder(7)? < 0,
            child,
        };
        if let Child::Track { pattern, .. } = entry.child {
            let room =
                self.patterns.get(pattern).map_or(0, |pattern| pattern.high - pattern.low + 1);
            if entry.sectors > room {
                let expected = format!("at most the {room} sectors of pattern {pattern}");
                return Err(refuse(
                    "IDX",
                    &fields[3],
                    expected,
                    "correct the entry's sectors, or its pattern",
                ));
            }
        }
        Ok(entry)
    }

    /// Adds the runs of the first `sectors` sectors of a block.
    fn expand(
        &self,
        block: usize,
        origin: &Origin,
        sectors: u64,
        depth: usize,
        out: &mut Vec<MeasuredRun>,
    ) -> Result<(), ImportError> {
        let unsupported = |what: &str| ImportError::Unsupported {
            place: self.place.clone(),
            what: what.to_string(),
            remedy: "describe the drive with fewer, longer repetitions".to_string(),
        };
        if depth > MAX_DEPTH {
            return Err(unsupported(&format!(
                "index blocks lie more than {MAX_DEPTH} deep in each other"
            )));
        }
        for entry in self.blocks[block].iter().filter(|entry| entry.first < sectors) {
            let all = entry.all_sectors.min(sectors - entry.first);
            let at = Origin {
                sector: origin.sector + entry.first,
                cylinder: origin.cylinder + entry.cylinder,
                turns: origin.turns + entry.turns,
            };
            match entry.child {
                Child::Track { pattern, head } => {
                    self.tracks(entry, pattern, head, &at, all, out)?
                }
                Child::Index(child) => {
                    for (number, done) in (0_i64..).zip((0..all).step_by(entry.sectors as usize)) {
                        let at = at.further(entry, number, done);
                        let before = out.len();
                        self.expand(child, &at, entry.sectors.min(all - done), depth + 1, out)?;
                        // Otherwise empty repetitions could continue forever.
                        if out.len() == before {
                            return Err(refuse_empty(entry));
                        }
                        if out.len() > MAX_RUNS {
                            break;
                        }
                    }
                }
            }
            if out.len() > MAX_RUNS {
                return Err(unsupported(&format!(
                    "the index blocks make more than {MAX_RUNS} runs"
                )));
            }
        }
        Ok(())
    }

    fn tracks(
        &self,
        entry: &IndexEntry<'_>,
        pattern: usize,
        head: u16,
        at: &Origin,
        all: u64,
        out: &mut Vec<MeasuredRun>,
    ) -> Result<(), ImportError> {
        let pattern = &self.patterns[pattern];
        let (full, rest) = (all / entry.sectors, all % entry.sectors);
        let step = if entry.outwards { -entry.cylinders } else { entry.cylinders };
        let mut push = |number: u64, tracks: u64, lbas: u64| -> Result<(), ImportError> {
            let at = at.further(entry, number as i64, number * entry.sectors);
            let last = at.cylinder.saturating_add(step.saturating_mul(tracks as i64 - 1));
            if tracks > u64::from(u32::MAX)
                || !(0..i64::from(i32::MAX)).contains(&at.cylinder)
                || !(0..i64::from(i32::MAX)).contains(&last)
            {
                return Err(ImportError::value(
                    entry.place,
                    "IDX",
                    format!(
                        "an entry with {tracks} tracks from cylinder {} to {last}",
                        at.cylinder
                    ),
                    format!("cylinders from 0 to {}", i32::MAX - 1),
                    "correct the cylinders of the entry, or of those above it",
                ));
            }
            out.push(MeasuredRun {
                first_lba: at.sector,
                tracks: tracks as u32,
                lbas: lbas as u32,
                sectors_per_track: pattern.sectors_per_track as u32,
                first_sector: pattern.low as u32,
                cylinder: at.cylinder as u32,
                cylinder_step: if step < 0 { -1 } else { 1 },
                head,
                angle_turns: wrap_turns(at.turns),
                angle_step_turns: if tracks > 1 { wrap_turns(entry.step_turns) } else { 0.0 },
            });
            Ok(())
        };
        if step.abs() == 1 || full <= 1 {
            if full > 0 {
                push(0, full, entry.sectors)?;
            }
        } else {
            // Tracks that are not neighbors need a run each; the caller refuses too many.
            for number in 0..full.min(MAX_RUNS as u64 + 1) {
                push(number, 1, entry.sectors)?;
            }
        }
        if rest > 0 { push(full, 1, rest) } else { Ok(()) }
    }
}

impl Origin {
    /// The start of a repetition.
    fn further(&self, entry: &IndexEntry<'_>, number: i64, sectors: u64) -> Self {
        let cylinders =
            number.saturating_mul(if entry.outwards { -entry.cylinders } else { entry.cylinders });
        Self {
            sector: self.sector + sectors,
            cylinder: self.cylinder.saturating_add(cylinders),
            turns: self.turns + number as f64 * entry.step_turns,
        }
    }
}

fn refuse_empty(entry: &IndexEntry<'_>) -> ImportError {
    ImportError::value(
        entry.place,
        "IDX",
        "a repetition without a track",
        "an index block whose first entry starts at 0",
        "correct the entries of the block that is repeated here",
    )
}

fn contiguous(runs: &[MeasuredRun], place: &SourceLocation) -> Result<(), ImportError> {
    let mut end = 0;
    for run in runs {
        if run.first_lba != end {
            return Err(ImportError::value(
                place,
                "IDX",
                format!("sectors up to {end}, then from {}", run.first_lba),
                "each sector once, without gap, from 0",
                "correct the entry that ends or begins there",
            ));
        }
        end += sectors(run);
    }
    Ok(())
}

/// The numbers without an LBA as (first, count), ascending.
fn slips(items: &[SourceValue]) -> Result<Vec<(u64, u64)>, ImportError> {
    let mut slips: Vec<(u64, u64)> = Vec::new();
    for pair in items.chunks(2) {
        let [first, count] = pair else {
            return Err(refuse(
                "Slips",
                &pair[0],
                "pairs of a sector and a count",
                "add the count",
            ));
        };
        let (first_sector, count) = (
            whole_of("Slips", first, &(0..=MAX_COUNT))?,
            whole_of("Slips", count, &(1..=MAX_COUNT))?,
        );
        if slips.last().is_some_and(|(before, count)| before + count > first_sector) {
            return Err(refuse(
                "Slips",
                first,
                "sectors that rise and do not overlap",
                "sort the pairs",
            ));
        }
        slips.push((first_sector, count));
    }
    Ok(slips)
}

/// Removes the slips from the runs and renumbers the LBAs.
fn without(runs: &[MeasuredRun], slips: &[(u64, u64)]) -> Vec<MeasuredRun> {
    let mut out = Vec::with_capacity(runs.len());
    let mut lba = 0;
    let mut next = slips.iter().copied().peekable();
    for run in runs {
        let end = run.first_lba + sectors(run);
        let mut from = run.first_lba;
        while from < end {
            while next.next_if(|(first, count)| first + count <= from).is_some() {}
            let (hole, after) = next.peek().map_or((end, end), |(first, count)| {
                ((*first).clamp(from, end), (first + count).clamp(from, end))
            });
            for part in parts(run, from, hole) {
                let count = sectors(&part);
                out.push(MeasuredRun { first_lba: lba, ..part });
                lba += count;
            }
            from = after.max(hole);
        }
    }
    out
}

/// Removes the LBAs of `moved` from their runs and inserts `moved`.
fn with(runs: Vec<MeasuredRun>, moved: &MeasuredRun) -> Vec<MeasuredRun> {
    let (start, after) = (moved.first_lba, moved.first_lba + sectors(moved));
    let mut out = Vec::with_capacity(runs.len() + 3);
    let mut end = 0;
    for run in &runs {
        let (from, to) = (run.first_lba, run.first_lba + sectors(run));
        out.extend(parts(run, from, start.clamp(from, to)));
        if (from..to).contains(&start) {
            out.push(moved.clone());
        }
        out.extend(parts(run, after.clamp(from, to), to));
        end = to;
    }
    if after > end {
        // LBAs past the last one do not exist, nor does their new position.
        return runs;
    }
    out
}

/// The part of a run from one number up to but not including another, as one to three runs.
fn parts(run: &MeasuredRun, from: u64, to: u64) -> Vec<MeasuredRun> {
    let lbas = u64::from(run.lbas);
    let mut out = Vec::new();
    let mut at = from;
    while at < to {
        let (track, within) = ((at - run.first_lba) / lbas, (at - run.first_lba) % lbas);
        let whole = if within == 0 { (to - at) / lbas } else { 0 };
        let (tracks, count) =
            if whole > 0 { (whole, lbas) } else { (1, (lbas - within).min(to - at)) };
        let turns = run.angle_turns
            + track as f64 * run.angle_step_turns
            + within as f64 / f64::from(run.sectors_per_track);
        out.push(MeasuredRun {
            first_lba: at,
            tracks: tracks as u32,
            lbas: count as u32,
            first_sector: run.first_sector + within as u32,
            cylinder: (i64::from(run.cylinder) + track as i64 * i64::from(run.cylinder_step))
                as u32,
            angle_turns: wrap_turns(turns),
            angle_step_turns: if tracks > 1 { run.angle_step_turns } else { 0.0 },
            ..run.clone()
        });
        at += tracks * count;
    }
    out
}

/// Joins runs that continue each other.
fn joined(runs: Vec<MeasuredRun>) -> Vec<MeasuredRun> {
    let mut out: Vec<MeasuredRun> = Vec::with_capacity(runs.len());
    for mut run in runs {
        match out.last_mut().and_then(|last| steps(last, &run).map(|steps| (last, steps))) {
            Some((last, (cylinder_step, angle_step_turns))) => {
                last.tracks += run.tracks;
                (last.cylinder_step, last.angle_step_turns) = (cylinder_step, angle_step_turns);
            }
            None => {
                if run.tracks == 1 {
                    (run.cylinder_step, run.angle_step_turns) = (1, 0.0);
                }
                out.push(run);
            }
        }
    }
    out
}

/// The cylinder and angle steps with which `next` continues `run`.
fn steps(run: &MeasuredRun, next: &MeasuredRun) -> Option<(i32, f64)> {
    let alike = |run: &MeasuredRun| (run.head, run.lbas, run.first_sector, run.sectors_per_track);
    if alike(run) != alike(next) || run.tracks.checked_add(next.tracks).is_none() {
        return None;
    }
    let before = u64::from(run.tracks - 1);
    let last = i64::from(run.cylinder) + before as i64 * i64::from(run.cylinder_step);
    let cylinder_step =
        i32::try_from(i64::from(next.cylinder) - last).ok().filter(|step| step.abs() == 1)?;
    let turns =
        wrap_turns(next.angle_turns - run.angle_turns - before as f64 * run.angle_step_turns);
    let continues = |run: &MeasuredRun| {
        run.tracks == 1
            || (run.cylinder_step == cylinder_step && same_turns(run.angle_step_turns, turns))
    };
    let longer = if run.tracks > 1 { run } else { next };
    (continues(run) && continues(next))
        .then_some((cylinder_step, if longer.tracks > 1 { longer.angle_step_turns } else { turns }))
}

fn same_turns(one: f64, other: f64) -> bool {
    let apart = wrap_turns(one - other);
    apart.min(1.0 - apart) <= SAME_TURNS
}

/// LBAs that were moved elsewhere.
struct RunRemap {
    place: SourceLocation,
    first: u64,
    count: u64,
    cylinder: u64,
    head: u64,
    sector: u64,
    sectors_per_track: u64,
}

impl RunRemap {
    fn read(items: &[SourceValue]) -> Result<Self, ImportError> {
        let [first, count, cylinder, head, sector, spt] = items else {
            return Err(refuse(
                "Remaps",
                &items[0],
                "groups of six numbers",
                "write LBA, count, cylinder, head, sector, sectors per revolution",
            ));
        };
        let sectors_per_track = whole_of("Remaps", spt, &(1..=65_535))?;
        let sector_number = whole_of("Remaps", sector, &(0..=sectors_per_track - 1))?;
        Ok(Self {
            place: first.place.clone(),
            first: whole_of("Remaps", first, &(0..=MAX_COUNT))?,
            count: whole_of("Remaps", count, &(1..=sectors_per_track - sector_number))?,
            cylinder: whole_of("Remaps", cylinder, &(0..=i32::MAX as u64 - 1))?,
            head: whole_of("Remaps", head, &(0..=u64::from(u16::MAX)))?,
            sector: sector_number,
            sectors_per_track,
        })
    }

    /// The run at the new position; `None` if no run of the layout gives the angles of that track.
    fn run(&self, layout: &[MeasuredRun], heads: u16) -> Result<Option<MeasuredRun>, ImportError> {
        if self.head >= u64::from(heads) {
            let expected = format!("less than the disk's {heads} surfaces");
            let remedy = "correct the head";
            return Err(ImportError::value(&self.place, "Remaps", self.head, expected, remedy));
        }
        let on_track =
            layout.iter().filter(|run| u64::from(run.head) == self.head).find_map(|run| {
                let step =
                    (self.cylinder as i64 - i64::from(run.cylinder)) * i64::from(run.cylinder_step);
                (0..i64::from(run.tracks)).contains(&step).then_some((run, step))
            });
        let Some((run, step)) = on_track else { return Ok(None) };
        let sector_turns = 1.0 / f64::from(run.sectors_per_track);
        let from_first = self.sector as f64 - f64::from(run.first_sector);
        let turns =
            run.angle_turns + step as f64 * run.angle_step_turns + from_first * sector_turns;
        Ok(Some(MeasuredRun {
            first_lba: self.first,
            tracks: 1,
            lbas: self.count as u32,
            sectors_per_track: self.sectors_per_track as u32,
            first_sector: self.sector as u32,
            cylinder: self.cylinder as u32,
            cylinder_step: 1,
            head: self.head as u16,
            angle_turns: wrap_turns(turns),
            angle_step_turns: 0.0,
        }))
    }
}

fn sectors(run: &MeasuredRun) -> u64 {
    u64::from(run.tracks) * u64::from(run.lbas)
}

/// The angle in revolutions from 0 up to but not including 1, rounded to 10⁻⁹.
fn wrap_turns(turns: f64) -> f64 {
    let rest = libm::round((turns - libm::floor(turns)) * 1e9) / 1e9;
    if rest >= 1.0 { 0.0 } else { rest }
}
