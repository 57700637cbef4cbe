//! The tracks of an [`Actuator`]: the addresses on each and their angles, for the search of reads
//! that fit into a gap.
//!
//! A track is one row of consecutive addresses, from the location of the first. Slipped sectors
//! between them are ignored: a sector after a slip passes one sector time (some 2 to 20 us) later
//! than the row predicts. Angles include the learned offset of the region. A map's shifts move the
//! addresses of a row. Where a shift changes within a row, the longest stretch between two changes
//! is the row.
//!
//! Worked example, Atlas 10K, cylinder 100, head 2: 334 sectors from LBA 201,067 on, each 2⁶⁴/334
//! of a turn. Sector 50 of them passes at the row's start plus 50/334 turn. With a shift of 8 the
//! same row holds LBA 201,059 to 201,392.
//!
//! A map without a profile shows no tracks. Its segments give the angle of a sector, but neither
//! the ends of a track, nor its surface and cylinder, nor the time of a head switch.
//!
//! Cost: that of [`Layout::row_at`](headtime_mechanics::Layout::row_at), some 60 ns.

use headtime_mechanics::{Track, TrackRow};
use headtime_sched::{Op, Position, TrackMap, TrackSpan};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos};

use super::actuator::Actuator;
use crate::compact::{ArmTimes, LayoutLocations, Locations};

impl Actuator {
    /// Returns true if the tracks are known, and their angles as exact as predictions.
    pub(crate) fn knows_tracks(&self) -> bool {
        matches!(self.map.locations, Locations::Layout(_)) && self.trusts_angles()
    }

    fn layout(&self) -> &LayoutLocations {
        let Locations::Layout(layout) = &self.map.locations else {
            unreachable!("a model without a layout shows no tracks")
        };
        layout
    }

    /// An address of the drive in those of the arm.
    fn local(&self, lba: Lba) -> Lba {
        Lba::new(lba.get() - self.first.get())
    }

    /// The addresses of a row that follow each other, those around `lba` of the arm or the longest
    /// stretch; `None` where the arm has none of them.
    fn span(&self, row: TrackRow, around: Option<Lba>) -> Option<TrackSpan> {
        let layout = self.layout();
        let (extent, passed) =
            layout.shifts().addresses(row.extent, around, self.map.capacity())?;
        let sector = row.sector_turn();
        let turned = (sector.wrapping_mul(passed) >> 32) as u32;
        let angle = row.angle + Angle::from_raw(turned) + self.map.angles.offset(extent.start);
        let start = Position { cylinder: row.track.cylinder, head: row.track.head, angle };
        let extent = Extent::new(self.first + (extent.start - Lba::new(0)), extent.len);
        Some(TrackSpan { extent, start, sector })
    }
}

impl TrackMap for Actuator {
    fn addresses(&self) -> Extent {
        Extent::new(self.first, self.map.capacity())
    }

    fn cylinders(&self) -> u32 {
        self.layout().layout().cylinders()
    }

    fn heads(&self) -> u16 {
        self.layout().layout().heads()
    }

    fn track_at(&self, cylinder: u32, head: u16) -> Option<TrackSpan> {
        let row = self.layout().layout().row_at(Track { cylinder, head })?;
        self.span(row, None)
    }

    fn track_of(&self, lba: Lba) -> TrackSpan {
        let (layout, local) = (self.layout(), self.local(lba));
        let row = layout.layout().row_of(layout.shifted(local));
        self.span(row, Some(local)).unwrap_or_else(|| TrackSpan {
            extent: Extent::from_numbers(lba.get(), 1),
            start: self.map.locate(Op::Read, Extent::from_numbers(local.get(), 1)).0,
            sector: row.sector_turn(),
        })
    }

    fn arm_time(&self, from: Position, to: Position) -> Nanos {
        self.map.arm_time(from, to, Op::Read).0
    }

    fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        self.map.arm_lower_bound(cylinders)
    }

    fn write_extra(&self) -> Nanos {
        let learned_ns = match &self.map.arm {
            ArmTimes::Curve(seeks) => seeks.write_extra_ns() as i64,
            ArmTimes::Votes(_) => 0,
        };
        let nominal = self.layout().mechanism.write_settle();
        Nanos::from_ns(nominal.as_ns().saturating_add_signed(learned_ns))
    }

    fn angle_at(&self, at: Instant) -> Option<Angle> {
        self.phase.map(|phase| self.period.angle_at(at, phase))
    }

    fn time_of(&self, angle: Angle) -> Nanos {
        self.period.time_of(angle)
    }

    fn spread(&self) -> Nanos {
        self.map.arrival.spread()
    }

    /// Each slipped sector unknown to the layout shifts the following ones by a sector, which shows
    /// as an angle.
    fn displaced(&self, track: &TrackSpan) -> u64 {
        let start = self.local(track.extent.start);
        let off = self.map.angles.offset(start).signed_turns_from(Angle::ZERO).abs();
        libm::round(off / (track.sector as f64 / TURN)) as u64
    }

    fn may_destage(&self) -> bool {
        self.cache.to_be_written
    }

    fn read_overhead(&self) -> Nanos {
        let read = headtime_mechanics::Direction::Read;
        self.layout().interface.command_overhead(read, None)
    }
}

/// One turn in the units of [`TrackSpan::sector`].
const TURN: f64 = 18_446_744_073_709_551_616.0;

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::{DriveProfile, Layout, Mechanism, catalog, draw};
    use headtime_sched::Op;
    use headtime_units::Extent;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The angle at which the `index`-th sector of a row starts, by the row.
    fn angle_in_row(span: &TrackSpan, index: u64) -> Angle {
        let turn = (u64::from(span.start.angle.as_raw()) << 32)
            .wrapping_add(span.sector.wrapping_mul(index));
        Angle::from_raw((turn >> 32) as u32)
    }

    /// Compares each row of the drive with the layout, sector by sector. Returns the number of
    /// sectors compared.
    fn check_rows(profile: &DriveProfile, what: &str, tracks: impl Iterator<Item = Track>) -> u64 {
        let belief = Actuator::of_profile(profile).expect("a valid profile");
        let layout: &Layout = belief.layout().layout();
        let mut seen = 0;
        for track in tracks {
            let runs: Vec<_> = layout.track_runs(track).collect();
            let Some(span) = belief.track_at(track.cylinder, track.head) else {
                assert!(runs.is_empty(), "{what}: {track} holds {runs:?} but is reported empty");
                continue;
            };
            assert_eq!(
                (span.start.cylinder, span.start.head),
                (track.cylinder, track.head),
                "{what}"
            );
            let longest = runs.iter().map(|run| run.extent.len).max().unwrap_or_default();
            assert!(
                span.extent.len >= longest,
                "{what}: {track} holds a run of {longest}, reported are {}",
                span.extent
            );
            let first = layout.lba_to_physical(span.extent.start);
            for index in 0..span.extent.len.get() {
                let lba = Lba::new(span.extent.start.get() + index);
                let address = layout.lba_to_physical(lba);
                assert_eq!(address.track(), track, "{what}: {lba}");
                let slipped = u64::from(address.sector)
                    .checked_sub(u64::from(first.sector) + index)
                    .expect("a row never overtakes its sectors");
                let predicted = angle_in_row(&span, index + slipped);
                let off = predicted.signed_turns_from(layout.spot(lba).angle);
                assert!(
                    off.abs() < 4.0 / 4_294_967_296.0,
                    "{what}: {track}, {lba} predicted {off} turns off, {slipped} slips before"
                );
                seen += 1;
            }
            let other = belief.track_of(span.extent.last());
            assert!(other.extent.contains(span.extent.last()), "{what}: {other:?}");
        }
        seen
    }

    fn all_tracks(profile: &DriveProfile) -> impl Iterator<Item = Track> + use<> {
        let heads = profile.geometry.heads;
        (0..profile.cylinders())
            .flat_map(move |cylinder| (0..heads).map(move |head| Track { cylinder, head }))
    }

    #[test]
    fn each_sector_of_a_row_passes_at_the_angle_of_the_layout() {
        for seed in 0..300 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut profile = draw::random_profile(&mut rng);
            // A row has the original locations of its sectors, also of remapped ones.
            profile.zones.iter_mut().for_each(|zone| zone.remaps.clear());
            let seen = check_rows(&profile, &format!("drawn drive {seed}"), all_tracks(&profile));
            assert!(seen > 0, "drawn drive {seed} has no sector on its rows");
            if profile.runs.is_empty() {
                let measured = draw::measured(&profile);
                check_rows(
                    &measured,
                    &format!("drawn drive {seed}, measured"),
                    all_tracks(&measured),
                );
            }
        }
        for name in ["atlas10k", "nearline-20tb", "cheetah15k5"] {
            let profile = catalog::load(name).expect("a profile of the catalog");
            let step = (profile.cylinders() / 40) as usize;
            check_rows(
                &profile,
                name,
                all_tracks(&profile).step_by(step * usize::from(profile.geometry.heads) + 1),
            );
        }
    }

    #[test]
    fn learned_angles_give_the_displacement_of_a_track_in_sectors() {
        let profile = catalog::load("atlas10k").expect("a profile of the catalog");
        for slips in [-3_i32, -1, 0, 1, 2] {
            let mut belief = Actuator::of_profile(&profile).expect("a valid profile");
            let track = belief.track_at(3_000, 2).expect("it holds data");
            assert_eq!(belief.displaced(&track), 0, "nothing was seen so far");
            let seen = f64::from(slips) * track.sector as f64 / TURN;
            for _ in 0..2_000 {
                let modelled =
                    belief.map.angles.offset(track.extent.start).signed_turns_from(Angle::ZERO);
                belief.map.angles.observe(track.extent.start, seen - modelled);
            }
            assert_eq!(
                belief.displaced(&track),
                u64::from(slips.unsigned_abs()),
                "{slips} slipped sectors"
            );
        }
    }

    #[test]
    fn every_address_has_a_row_that_holds_it_at_its_angle() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let profile = draw::random_profile(&mut rng);
            let belief = Actuator::of_profile(&profile).expect("a valid profile");
            for _ in 0..100 {
                let lba = Lba::new(rng.random_range(0..belief.capacity().get()));
                let (span, spot) = (belief.track_of(lba), belief.layout().layout().spot(lba));
                assert!(span.extent.contains(lba), "drawn drive {seed}: {lba} is not in {span:?}");
                assert_eq!(
                    (span.start.cylinder, span.start.head),
                    (spot.position.cylinder, spot.position.head),
                    "drawn drive {seed}"
                );
            }
        }
    }

    #[test]
    fn computations_by_tracks_agree_with_estimates() {
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let profile = draw::random_profile(&mut rng);
            let mut belief = Actuator::of_profile(&profile).expect("a valid profile");
            assert_eq!(belief.angle_at(Instant::ORIGIN), None, "no phase is known at first");
            belief.set_rotation(
                Mechanism::nominal(&profile).expect("a valid profile").period(),
                Angle::from_raw(rng.random()),
            );
            for _ in 0..50 {
                let at = |rng: &mut ChaCha8Rng| {
                    Extent::from_numbers(rng.random_range(0..belief.capacity().get()), 1)
                };
                let (from, to) =
                    (belief.target(Op::Read, at(&mut rng)), belief.target(Op::Read, at(&mut rng)));
                let free_at = Instant::from_ns(rng.random_range(0..1_000_000_000));
                let head = headtime_sched::Head::after(&from, free_at);
                let likely = belief.likely(&head, free_at, &to);
                assert_eq!(likely.depart, free_at + belief.read_overhead(), "drawn drive {seed}");
                let arrival = likely.depart + belief.arm_time(from.end, to.start);
                let wait = belief.time_of(
                    belief.angle_at(arrival).expect("the phase is known").until(to.start.angle),
                );
                assert_eq!(
                    arrival + wait,
                    likely.depart + likely.positioning,
                    "drawn drive {seed}"
                );
                assert!(
                    belief.map.arm_lower_bound(from.end.cylinder.abs_diff(to.start.cylinder))
                        <= belief.arm_time(from.end, to.start)
                );
            }
        }
    }
}
