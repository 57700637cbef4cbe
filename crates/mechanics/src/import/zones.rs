//! `dm_layout_g1` blocks to zones.
//!
//! Both formats count sectors from the start of the zone in track order, and add track and cylinder
//! skew to the angle of the zone's first sector. They differ in the position of spares:
//!
//! | sparing | spares of | here |
//! |---|---|---|
//! | 0 | nothing | no spares |
//! | 1 | tracks, at the end of the zone; defects are tracks too | as sectors |
//! | 2 | a cylinder | groups of one cylinder |
//! | 3 | a track | each track's last sectors are slips |
//! | 4 | a cylinder, slips shift to the end of the zone | each cylinder's last sectors are slips |
//! | 5, 6 | a cylinder's front; 6: slips shift | each cylinder's first sectors are slips |
//! | 7 | the end of the disk | none in the zone except those that slips use |
//! | 8 | a range of cylinders | groups |
//! | 9, 10 | the zone; 10: slips do not use them | spares of the zone, for 10 plus one per slip |
//!
//! "Are slips" means that the sectors are listed in [`Zone::slips`]: longer, but exact.
//!
//! In the schemes 2 to 6 a slip also rotates all later cylinders of the zone by one sector. A
//! profile's zone cannot express that, so the zone is split after such a cylinder, and each part
//! states its own angle.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::{ImportError, Note, SourceLocation};
use super::keys::{Keys, NamedBlocks, refuse, whole_of};
use super::tree::{Block, ValueContent};
use crate::profile::{TrackOrder, Zone};

/// Maximum number of slips listed for a zone.
const MAX_SLIPS: u64 = 4_000_000;
/// Maximum of cylinders and sectors without another bound.
const MAX_COUNT: u64 = i32::MAX as u64;
/// Maximum absolute skew in revolutions or sectors; whole revolutions are subtracted.
const MAX_SKEW: f64 = 1e9;

/// A layout in zones.
pub(super) struct Zones {
    pub(super) order: TrackOrder,
    pub(super) zones: Vec<Zone>,
}

/// The properties shared by all zones of a disk.
struct Scheme {
    sparing: u64,
    /// 0: all cylinders upwards; 1: alternately upwards and downwards in each zone; 2: the same, by
    /// the absolute cylinder number.
    mapping: u64,
    range_cylinders: u64,
    in_turns: bool,
    heads: u64,
}

/// The zones of a `dm_layout_g1` block.
pub(super) fn zones<'t>(
    block: &'t Block,
    names: &NamedBlocks<'t>,
    heads: u16,
    notes: &mut Vec<Note>,
) -> Result<Zones, ImportError> {
    let mut keys = Keys::of(block, names);
    let mapping = keys.required_whole(
        "LBN-to-PBN mapping scheme",
        0..=2,
        "0 fills all cylinders upwards, 1 and 2 alternately upwards and downwards",
    )?;
    let sparing = keys.required_whole(
        "Sparing scheme used",
        0..=10,
        "0 is no sparing, 9 is spares at the end of each zone",
    )?;
    let range_cylinders = keys.whole("Rangesize for sparing", 1..=MAX_COUNT)?.unwrap_or(1);
    let in_turns = in_turns(&mut keys)?.unwrap_or(false);
    let scheme = Scheme { sparing, mapping, range_cylinders, in_turns, heads: u64::from(heads) };
    let mut zones = Vec::new();
    let mut next_cylinder = 0;
    let items = keys.list("Zones")?;
    for (number, item) in items.iter().enumerate() {
        let ValueContent::Block(zone) = &item.content else {
            return Err(refuse(
                "Zones",
                item,
                "a block dm_layout_g1_zone",
                "write `dm_layout_g1_zone { … }`",
            ));
        };
        let described = Described::read(zone, names, &scheme, number, notes)?;
        if described.first < next_cylinder {
            return Err(ImportError::value(
                &zone.place,
                "First cylinder number",
                described.first,
                format!("at least {next_cylinder}, where the zone before ends"),
                "correct the cylinders, or sort the zones from the outer edge inwards",
            ));
        }
        if mapping == 2 && described.first % 2 == 1 && heads > 1 {
            let text = format!(
                "zone {number} starts downwards, at odd cylinder {}; its heads are numbered the \
                    other way round here",
                described.first
            );
            notes.push(Note::new(&zone.place, text));
        }
        let skipped = described.first - next_cylinder;
        next_cylinder = described.last + 1;
        let from = zones.len();
        described.parts(&scheme, number, notes, &mut zones)?;
        zones[from].skipped_cylinders = skipped as u32;
    }
    if zones.is_empty() {
        return Err(keys.missing("Zones", "add at least one dm_layout_g1_zone"));
    }
    notes.extend(keys.left_out(|_, _| false));
    let order = if mapping == 0 { TrackOrder::Cylinder } else { TrackOrder::Serpentine };
    Ok(Zones { order, zones })
}

/// A zone of the description, skews in sectors of the zone.
struct Described<'t> {
    place: &'t SourceLocation,
    first: u64,
    last: u64,
    sectors_per_track: u64,
    first_angle_turns: f64,
    dead: u64,
    track_skew: f64,
    cylinder_skew: f64,
    spares: u64,
    /// Ascending, sectors or tracks of the zone.
    slips: Vec<u64>,
    defects: Vec<(u64, u64)>,
}

impl<'t> Described<'t> {
    fn read(
        block: &'t Block,
        names: &NamedBlocks<'t>,
        scheme: &Scheme,
        number: usize,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ImportError> {
        let mut keys = Keys::of(block, names);
        let first = keys.required_whole(
            "First cylinder number",
            0..=MAX_COUNT,
            "cylinders are counted from 0",
        )?;
        let last = keys.required_whole(
            "Last cylinder number",
            first..=MAX_COUNT,
            "it belongs to the zone",
        )?;
        let sectors_per_track = keys.required_whole(
            "Blocks per track",
            1..=65_535,
            "it is the zone's sectors per track",
        )?;
        let spt = sectors_per_track as f64;
        let in_turns = in_turns(&mut keys)?.unwrap_or(scheme.in_turns);
        let mut turned = |key: &str, unit: f64| -> Result<f64, ImportError> {
            let value = keys.number(key, -MAX_SKEW..=MAX_SKEW)?.unwrap_or(0.0);
            Ok(within(if in_turns { value * spt } else { value }, spt) / unit)
        };
        let first_angle_turns = turned("Offset of first block", spt)?;
        let (track_skew, cylinder_skew) =
            (turned("Skew for track switch", 1.0)?, turned("Skew for cylinder switch", 1.0)?);
        let dead = keys.whole("Empty space at zone front", 0..=MAX_COUNT)?.unwrap_or(0);
        let spares = keys.whole("Number of spares", 0..=MAX_COUNT)?.unwrap_or(0);
        let units = (last - first + 1)
            * scheme.heads
            * if scheme.sparing == 1 { 1 } else { sectors_per_track };
        let mut slips = keys.wholes("slips", 0..=units - 1)?;
        let given = slips.len();
        slips.sort_unstable();
        slips.dedup();
        if slips.len() < given {
            let text = format!(
                "zone {number} lists {} of its slips twice; they count once",
                given - slips.len()
            );
            notes.push(Note::new(&block.place, text));
        }
        let mut described = Self {
            place: &block.place,
            first,
            last,
            sectors_per_track,
            first_angle_turns,
            dead,
            track_skew,
            cylinder_skew,
            spares,
            slips,
            defects: defects(&mut keys, units)?,
        };
        notes.extend(keys.left_out(|_, _| false));
        described.clear_unused(scheme, number, notes);
        Ok(described)
    }

    /// Clears the values that the scheme does not use, with a note.
    fn clear_unused(&mut self, scheme: &Scheme, number: usize, notes: &mut Vec<Note>) {
        let mut note = |text: String| notes.push(Note::new(self.place, text));
        if scheme.sparing == 0 && !(self.slips.is_empty() && self.defects.is_empty()) {
            note(format!(
                "zone {number} has slips or defects but sparing scheme 0, which makes no use of \
                    them; they are left out"
            ));
            self.slips.clear();
            self.defects.clear();
        }
        if matches!(scheme.sparing, 0 | 7) && self.spares > 0 {
            let scheme = scheme.sparing;
            note(format!(
                "zone {number} has {} spares but sparing scheme {scheme}, which keeps none within \
                    a zone; they are left out",
                self.spares
            ));
            self.spares = 0;
        }
    }

    fn cylinders(&self) -> u64 {
        self.last - self.first + 1
    }

    fn sectors(&self, scheme: &Scheme) -> u64 {
        self.cylinders() * scheme.heads * self.sectors_per_track
    }

    /// Adds the zone, split where slips rotate later cylinders.
    fn parts(
        &self,
        scheme: &Scheme,
        number: usize,
        notes: &mut Vec<Note>,
        out: &mut Vec<Zone>,
    ) -> Result<(), ImportError> {
        let whole = self.whole(scheme, number, notes)?;
        let cuts = self.cuts(scheme, &whole, number, notes);
        if cuts.is_empty() {
            out.push(whole);
            return Ok(());
        }
        let by_cylinder = scheme.heads * self.sectors_per_track;
        let (spt, steps) = (self.sectors_per_track as f64, (scheme.heads - 1) as f64);
        let mut parted = 0;
        let bounds: Vec<(u64, u64)> =
            core::iter::once((0, 0)).chain(cuts).chain([(self.cylinders(), 0)]).collect();
        for pair in bounds.windows(2) {
            let ((cylinder, turned), (until, _)) = (pair[0], pair[1]);
            let inside = cylinder * by_cylinder..until * by_cylinder;
            let skew =
                cylinder as f64 * (steps * self.track_skew + self.cylinder_skew) + turned as f64;
            let slips: Vec<u64> = whole
                .slips
                .iter()
                .filter(|slip| inside.contains(slip))
                .map(|slip| slip - inside.start)
                .collect();
            let both = whole
                .remaps
                .iter()
                .filter(|(home, spare)| inside.contains(home) && inside.contains(spare));
            let remaps: Vec<(u64, u64)> =
                both.map(|(home, spare)| (home - inside.start, spare - inside.start)).collect();
            parted += remaps.len();
            out.push(Zone {
                first_cylinder: whole.first_cylinder + cylinder as u32,
                cylinders: (until - cylinder) as u32,
                skipped_cylinders: 0,
                first_angle_turns: Some(within(self.first_angle_turns + skew / spt, 1.0)),
                reserved: if cylinder == 0 { whole.reserved } else { 0 },
                spares: if whole.spare_cylinders.is_some() {
                    whole.spares
                } else {
                    slips.len() as u64
                },
                slips,
                remaps,
                ..whole.clone()
            });
        }
        if parted < whole.remaps.len() {
            let text = format!(
                "zone {number} is cut where slips turn it, and {} of its defects are remapped \
                    across a cut; they are left out",
                whole.remaps.len() - parted
            );
            notes.push(Note::new(self.place, text));
        }
        Ok(())
    }

    /// The cylinders, counted from the zone's first, after which the zone is split, with the
    /// rotation by slips in sectors.
    fn cuts(
        &self,
        scheme: &Scheme,
        whole: &Zone,
        number: usize,
        notes: &mut Vec<Note>,
    ) -> Vec<(u64, u64)> {
        if !matches!(scheme.sparing, 2..=6) {
            return Vec::new();
        }
        let by_cylinder = scheme.heads * self.sectors_per_track;
        // In an alternating layout only every other cylinder starts on head 0.
        let step = if scheme.mapping == 0 || scheme.heads == 1 { 1 } else { 2 };
        let mut cuts: Vec<(u64, u64)> = Vec::new();
        let mut late = 0;
        for (slips, slip) in (1_u64..).zip(&self.slips) {
            let next_cylinder = slip / by_cylinder + 1;
            let cut = next_cylinder.div_ceil(step) * step;
            late += u64::from(
                cut > next_cylinder
                    || (scheme.sparing == 3 && self.slips_turn_within(*slip, scheme)),
            );
            if cut * by_cylinder <= whole.reserved || cut >= self.cylinders() {
                late += u64::from(cut < self.cylinders());
                continue;
            }
            match cuts.last_mut().filter(|last| last.0 == cut) {
                Some(last) => last.1 = slips,
                None => cuts.push((cut, slips)),
            }
        }
        if late > 0 {
            let text = format!(
                "zone {number}: {late} of its slips turn what follows them by a sector each, a few \
                    tracks later here than described"
            );
            notes.push(Note::new(self.place, text));
        }
        cuts
    }

    /// True if further tracks of a slip's own cylinder follow it.
    fn slips_turn_within(&self, slip: u64, scheme: &Scheme) -> bool {
        slip / self.sectors_per_track % scheme.heads != scheme.heads - 1
    }

    fn whole(
        &self,
        scheme: &Scheme,
        number: usize,
        notes: &mut Vec<Note>,
    ) -> Result<Zone, ImportError> {
        let zone = Zone {
            first_cylinder: self.first as u32,
            cylinders: self.cylinders() as u32,
            sectors_per_track: self.sectors_per_track as u32,
            track_skew: self.track_skew,
            cylinder_skew: self.cylinder_skew,
            first_angle_turns: Some(self.first_angle_turns),
            ..Zone::default()
        };
        let slipped = self.slips.len() as u64;
        let by_cylinder = scheme.heads * self.sectors_per_track;
        let zone = match scheme.sparing {
            1 => {
                self.check_count(
                    (slipped + self.defects.len() as u64).saturating_mul(self.sectors_per_track),
                    number,
                )?;
                let slips = self
                    .slips
                    .iter()
                    .flat_map(|track| {
                        track * self.sectors_per_track..(track + 1) * self.sectors_per_track
                    })
                    .collect();
                self.spares_at_end(zone, self.spares * self.sectors_per_track, slips, number)?
            }
            0 | 9 => self.spares_at_end(zone, self.spares, self.slips.clone(), number)?,
            7 | 10 => {
                self.spares_at_end(zone, self.spares + slipped, self.slips.clone(), number)?
            }
            2 | 8 => {
                let cylinders = if scheme.sparing == 2 { 1 } else { scheme.range_cylinders };
                if self.dead == 0 && self.cylinders().is_multiple_of(cylinders) {
                    let spare_cylinders = u32::try_from(cylinders).ok().filter(|_| self.spares > 0);
                    Zone { spares: self.spares, spare_cylinders, slips: self.slips.clone(), ..zone }
                } else {
                    // A shorter last range has no spares; sectors without LBAs at the front are
                    // counted in mapped sectors.
                    let sectors = cylinders * by_cylinder;
                    let region =
                        SpareRegion { sectors, front: false, slips_use: true, only_full: true };
                    self.listed(zone, scheme, region, number)?
                }
            }
            per_track_or_cylinder => {
                let region = SpareRegion {
                    sectors: if per_track_or_cylinder == 3 {
                        self.sectors_per_track
                    } else {
                        by_cylinder
                    },
                    front: matches!(per_track_or_cylinder, 5 | 6),
                    slips_use: matches!(per_track_or_cylinder, 3 | 5),
                    only_full: false,
                };
                self.listed(zone, scheme, region, number)?
            }
        };
        let zone = Zone { remaps: self.remaps(scheme), ..zone };
        if zone.reserved + zone.spares >= self.sectors(scheme) {
            notes.push(Note::new(self.place, format!("zone {number} holds no LBA")));
        }
        Ok(zone)
    }

    /// Adds spares at the end of the zone, used up by `slips`.
    fn spares_at_end(
        &self,
        zone: Zone,
        spares: u64,
        slips: Vec<u64>,
        number: usize,
    ) -> Result<Zone, ImportError> {
        if slips.len() as u64 > spares {
            return Err(self.too_few_spares(spares, slips.len() as u64, &format!("zone {number}")));
        }
        // The front is counted in sectors that could hold an LBA: slips within it lengthen it and
        // use spares.
        let (reserved, within) = front(self.dead, &slips);
        Ok(Zone {
            reserved,
            spares: spares - within as u64,
            slips: slips[within..].to_vec(),
            ..zone
        })
    }

    /// Lists the spares of each region of the zone as slips.
    fn listed(
        &self,
        zone: Zone,
        scheme: &Scheme,
        region: SpareRegion,
        number: usize,
    ) -> Result<Zone, ImportError> {
        let sectors = self.sectors(scheme);
        let slipped = self.slips.len() as u64;
        if self.spares == 0 && (slipped == 0 || !region.slips_use) {
            return self.spares_at_end(zone, slipped, self.slips.clone(), number);
        }
        let regions = sectors.div_ceil(region.sectors);
        self.check_count(regions.saturating_mul(self.spares.max(1)), number)?;
        let mut unmapped: BTreeSet<u64> = self.slips.iter().copied().collect();
        for start in (0..regions).map(|number| number * region.sectors) {
            let end = (start + region.sectors).min(sectors);
            if region.only_full && end - start < region.sectors {
                continue;
            }
            let before = |sector: u64| self.slips.partition_point(|slip| *slip < sector) as u64;
            let slips = if region.slips_use { before(end) - before(start) } else { 0 };
            let Some(mut free) = self
                .spares
                .checked_sub(slips)
                .filter(|free| free + before(end) - before(start) < end - start)
            else {
                return Err(self.too_few_spares(
                    self.spares,
                    slips,
                    &format!("zone {number}, sectors {start} to {}", end - 1),
                ));
            };
            // From the region's front or end, one sector for each unused spare.
            let mut steps = 0;
            while free > 0 {
                free -= u64::from(unmapped.insert(if region.front {
                    start + steps
                } else {
                    end - 1 - steps
                }));
                steps += 1;
            }
        }
        let listed: Vec<u64> = unmapped.into_iter().collect();
        let (reserved, within) = front(self.dead, &listed);
        let slips = listed[within..].to_vec();
        Ok(Zone { reserved, spares: slips.len() as u64, slips, ..zone })
    }

    /// Refuses lists that would exhaust memory.
    fn check_count(&self, count: u64, number: usize) -> Result<(), ImportError> {
        if count <= MAX_SLIPS {
            return Ok(());
        }
        Err(ImportError::Unsupported {
            place: self.place.clone(),
            what: format!("zone {number} has {count} spares, slips or defects"),
            remedy: format!(
                "at most {MAX_SLIPS} of a zone are listed one by one; choose a sparing scheme by \
                    zone"
            ),
        })
    }

    fn remaps(&self, scheme: &Scheme) -> Vec<(u64, u64)> {
        // A defect that replaces itself is none.
        let pairs = self.defects.iter().filter(|(defect, spare)| defect != spare);
        if scheme.sparing != 1 {
            return pairs.copied().collect();
        }
        let spt = self.sectors_per_track;
        pairs
            .flat_map(|(defect, spare)| {
                (0..spt).map(move |sector| (defect * spt + sector, spare * spt + sector))
            })
            .collect()
    }

    fn too_few_spares(&self, spares: u64, slips: u64, whence: &str) -> ImportError {
        ImportError::value(
            self.place,
            "Number of spares",
            spares,
            format!("at least the {slips} sectors slipped in {whence}, and fewer than there are"),
            "correct the number of spares, or remove slips",
        )
    }
}

/// The position of the spares in each region of a zone.
struct SpareRegion {
    sectors: u64,
    /// True: at its front; false: at its end.
    front: bool,
    /// True if a slip uses one of its region's spares.
    slips_use: bool,
    /// True if a shorter last region has none.
    only_full: bool,
}

/// The physical sectors before the `dead`-th sector that is not `listed`, and the number of listed
/// ones among them.
fn front(dead: u64, listed: &[u64]) -> (u64, usize) {
    let mut end = dead;
    let mut within = 0;
    // Without a front, nothing is before the first sector, even if it is listed.
    while dead > 0 && listed.get(within).is_some_and(|sector| *sector <= end) {
        end += 1;
        within += 1;
    }
    (end, within)
}

/// `value` without whole revolutions.
fn within(value: f64, turn: f64) -> f64 {
    let rest = value - libm::floor(value / turn) * turn;
    // Keeps decimal fractions to 10⁻⁹ of a unit.
    let rest = libm::round(rest * 1e9) / 1e9;
    if rest >= turn { 0.0 } else { rest }
}

fn in_turns(keys: &mut Keys<'_>) -> Result<Option<bool>, ImportError> {
    match keys.word("Skew units")? {
        None => Ok(None),
        Some(("revolutions", _)) => Ok(Some(true)),
        Some(("sectors", _)) => Ok(Some(false)),
        Some((other, place)) => {
            let expected = "sectors or revolutions";
            Err(ImportError::value(place, "Skew units", other, expected, "correct it"))
        }
    }
}

fn defects(keys: &mut Keys<'_>, units: u64) -> Result<Vec<(u64, u64)>, ImportError> {
    let items = keys.list("defects")?;
    if let Some(last) = items.chunks_exact(2).remainder().first() {
        return Err(refuse(
            "defects",
            last,
            "pairs of a defect and its replacement",
            "add the replacement, or remove the last number",
        ));
    }
    items
        .chunks_exact(2)
        .map(|pair| {
            Ok((
                whole_of("defects", &pair[0], &(0..=units - 1))?,
                whole_of("defects", &pair[1], &(0..=units - 1))?,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn the_front_grows_by_the_slips_within_it() {
        for (dead, listed, expected) in [
            (0, vec![0, 5], (0, 0)),
            (3, vec![], (3, 0)),
            (3, vec![5], (3, 0)),
            // Sectors 0, 2 and 4 could hold an LBA before sector 5.
            (3, vec![1, 3], (5, 2)),
            (3, vec![3, 4], (5, 2)),
            (3, vec![0, 1, 2, 9], (6, 3)),
        ] {
            assert_eq!(front(dead, &listed), expected, "{dead} sectors, slips {listed:?}");
        }
    }

    #[test]
    fn whole_turns_are_taken_off_either_way() {
        for (value, turn, rest) in [
            (5.0, 100.0, 5.0),
            (100.0, 100.0, 0.0),
            (-1.0, 100.0, 99.0),
            (250.5, 100.0, 50.5),
            (1.25, 1.0, 0.25),
            (-1e-12, 1.0, 0.0),
        ] {
            assert_eq!(within(value, turn), rest, "{value} of {turn}");
        }
    }
}
