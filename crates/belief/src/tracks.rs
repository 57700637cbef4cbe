//! The tracks of a [`ProfileBelief`]: what lies on one, and at which angle, for whoever looks for something to read on the way.
//!
//! A track is told as one row of addresses that follow each other without a gap, from the place of the first: slipped sectors between them are left out of
//! account, so that what lies behind one on its track comes by a sector later than a row says (a sector is some 2 to 20 us). Angles count what was learned of the
//! region.
//!
//! Worked example, Atlas 10K, cylinder 100, head 2: 334 sectors from LBA 201,067 on, each 2⁶⁴/334 of a turn. Sector 50 of them passes at the row's start plus 50/334 turn.
//!
//! Cost: in zones a look-up by place and one by address, some 60 ns; on measured layouts one allocation more.

use headtime_mechanics::{Direction, HeadPosition, Track};
use headtime_sched::{Place, TrackMap, TrackSpan};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::profile::ProfileBelief;

impl ProfileBelief {
    fn span(&self, track: Track, extent: Extent, angle: Angle) -> TrackSpan {
        let start = Place { cylinder: track.cylinder, head: track.head, angle: angle + self.angles.offset(extent.start) };
        TrackSpan { extent, start, sector: turns_of_a_sector(self.layout().sectors_per_track(track)) }
    }

    /// The row of a track that `wanted` says, of those that lie there.
    fn row_of(&self, track: Track, wanted: impl Fn(Extent) -> u64) -> Option<TrackSpan> {
        let layout = self.layout();
        let row = layout.track_runs(track).max_by_key(|run| wanted(run.extent)).filter(|run| wanted(run.extent) > 0)?;
        Some(self.span(track, row.extent, layout.sector_angle(track.sector(row.first_sector))))
    }
}

impl TrackMap for ProfileBelief {
    fn cylinders(&self) -> u32 {
        self.layout().cylinders()
    }

    fn heads(&self) -> u16 {
        self.layout().heads()
    }

    fn track_at(&self, cylinder: u32, head: u16) -> Option<TrackSpan> {
        let layout = self.layout();
        if cylinder >= layout.cylinders() || head >= layout.heads() {
            return None;
        }
        let track = Track { cylinder, head };
        if !self.measured_layout {
            let extent = layout.track_extent(track);
            let first = (!extent.len.is_zero()).then(|| layout.spot(extent.start)).filter(|first| first.position.track() == track);
            if let Some(first) = first {
                return Some(self.span(track, extent, first.angle));
            }
        }
        self.row_of(track, |extent| extent.len.get())
    }

    fn track_of(&self, lba: Lba) -> TrackSpan {
        let spot = self.layout().spot(lba);
        let track = spot.position.track();
        let contains = |span: &TrackSpan| span.extent.contains(lba);
        let longest = self.track_at(track.cylinder, track.head).filter(contains);
        let span = longest.or_else(|| self.row_of(track, |extent| u64::from(extent.contains(lba))));
        span.unwrap_or_else(|| self.span(track, Extent::new(lba, Sectors::new(1)), spot.angle))
    }

    fn arm_time(&self, from: Place, to: Place) -> Nanos {
        let position = |place: Place| HeadPosition { cylinder: place.cylinder, head: place.head };
        self.arm(position(from), position(to), Direction::Read).0
    }

    fn write_extra(&self) -> Nanos {
        let learned_ns = self.seeks.write_extra_ns() as i64;
        Nanos::from_ns(self.mechanism.write_settle().as_ns().saturating_add_signed(learned_ns))
    }

    fn angle_at(&self, at: Instant) -> Option<Angle> {
        self.phase_known.then(|| self.mechanism.angle_at(at))
    }

    fn time_of(&self, angle: Angle) -> Nanos {
        self.mechanism.period().time_of(angle)
    }

    fn spread(&self) -> Nanos {
        self.arrival.spread()
    }

    fn read_overhead(&self) -> Nanos {
        self.interface.command_overhead(Direction::Read, None)
    }
}

/// One sector's part of a turn in units of 2⁻⁶⁴ turn; the whole turn of a track of one sector is a unit too much to be told.
fn turns_of_a_sector(sectors_per_track: u32) -> u64 {
    (u64::MAX / u64::from(sectors_per_track.max(1))).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::{DriveProfile, Layout, Mechanism, catalog, draw};
    use headtime_sched::{Op, Positioning};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The angle at which a row says that its `index`-th sector starts.
    fn angle_in_row(span: &TrackSpan, index: u64) -> Angle {
        let turn = (u64::from(span.start.angle.as_raw()) << 32).wrapping_add(span.sector.wrapping_mul(index));
        Angle::from_raw((turn >> 32) as u32)
    }

    /// Each row of the drive holds what the layout says, at the angle that it says; how many sectors were looked at.
    fn check_rows(profile: &DriveProfile, what: &str, tracks: impl Iterator<Item = Track>) -> u64 {
        let belief = ProfileBelief::new(profile).expect("a valid profile");
        let layout: &Layout = belief.layout();
        let mut seen = 0;
        for track in tracks {
            let runs: Vec<_> = layout.track_runs(track).collect();
            let Some(span) = belief.track_at(track.cylinder, track.head) else {
                assert!(runs.is_empty(), "{what}: {track} holds {runs:?} but is told to be empty");
                continue;
            };
            assert_eq!((span.start.cylinder, span.start.head), (track.cylinder, track.head), "{what}");
            let longest = runs.iter().map(|run| run.extent.len).max().unwrap_or_default();
            assert!(span.extent.len >= longest, "{what}: {track} holds a run of {longest}, told are {}", span.extent);
            let first = layout.lba_to_physical(span.extent.start);
            for index in 0..span.extent.len.get() {
                let lba = Lba::new(span.extent.start.get() + index);
                let address = layout.lba_to_physical(lba);
                assert_eq!(address.track(), track, "{what}: {lba}");
                let slipped = u64::from(address.sector).checked_sub(u64::from(first.sector) + index).expect("a row never overtakes its sectors");
                let told = angle_in_row(&span, index + slipped);
                let off = told.signed_turns_from(layout.spot(lba).angle);
                assert!(off.abs() < 4.0 / 4_294_967_296.0, "{what}: {track}, {lba} told {off} turns off, {slipped} slips before");
                seen += 1;
            }
            let other = belief.track_of(span.extent.last());
            assert!(other.extent.contains(span.extent.last()), "{what}: {other:?}");
        }
        seen
    }

    fn all_tracks(profile: &DriveProfile) -> impl Iterator<Item = Track> + use<> {
        let heads = profile.geometry.heads;
        (0..profile.cylinders()).flat_map(move |cylinder| (0..heads).map(move |head| Track { cylinder, head }))
    }

    #[test]
    fn the_sector_that_a_row_says_passes_at_an_angle_is_the_one_that_the_layout_puts_there() {
        for seed in 0..300 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut profile = draw::random_profile(&mut rng);
            // A row tells the homes of its sectors, remapped ones with the others.
            profile.zones.iter_mut().for_each(|zone| zone.remaps.clear());
            let seen = check_rows(&profile, &format!("drawn drive {seed}"), all_tracks(&profile));
            assert!(seen > 0, "drawn drive {seed} has no sector on its rows");
            if profile.runs.is_empty() {
                let measured = draw::measured(&profile);
                check_rows(&measured, &format!("drawn drive {seed}, measured"), all_tracks(&measured));
            }
        }
        for name in ["atlas10k", "nearline-20tb", "cheetah15k5"] {
            let profile = catalog::load(name).expect("a profile of the catalogue");
            let step = (profile.cylinders() / 40) as usize;
            check_rows(&profile, name, all_tracks(&profile).step_by(step * usize::from(profile.geometry.heads) + 1));
        }
    }

    #[test]
    fn every_address_has_a_row_that_holds_it_at_its_angle() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let profile = draw::random_profile(&mut rng);
            let belief = ProfileBelief::new(&profile).expect("a valid profile");
            for _ in 0..100 {
                let lba = Lba::new(rng.random_range(0..belief.capacity().get()));
                let (span, spot) = (belief.track_of(lba), belief.layout().spot(lba));
                assert!(span.extent.contains(lba), "drawn drive {seed}: {lba} is not in {span:?}");
                assert_eq!((span.start.cylinder, span.start.head), (spot.position.cylinder, spot.position.head), "drawn drive {seed}");
            }
        }
    }

    #[test]
    fn what_is_reckoned_by_tracks_is_what_an_estimate_says() {
        for seed in 0..100 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let profile = draw::random_profile(&mut rng);
            let mut belief = ProfileBelief::new(&profile).expect("a valid profile");
            assert_eq!(belief.angle_at(Instant::ORIGIN), None, "no phase is known at first");
            belief.take_phase(Mechanism::nominal(&profile).expect("a valid profile").period(), Angle::from_raw(rng.random()));
            for _ in 0..50 {
                let at = |rng: &mut ChaCha8Rng| Extent::from_numbers(rng.random_range(0..belief.capacity().get()), 1);
                let (from, to) = (belief.target(Op::Read, at(&mut rng)), belief.target(Op::Read, at(&mut rng)));
                let free_at = Instant::from_ns(rng.random_range(0..1_000_000_000));
                let head = headtime_sched::Head::after(&from, free_at);
                let likely = belief.likely(&head, free_at, &to);
                assert_eq!(likely.depart, free_at + belief.read_overhead(), "drawn drive {seed}");
                let arrival = likely.depart + belief.arm_time(from.end, to.start);
                let wait = belief.time_of(belief.angle_at(arrival).expect("the phase is known").until(to.start.angle));
                assert_eq!(arrival + wait, likely.depart + likely.positioning, "drawn drive {seed}");
                assert!(belief.seek_lower_bound(from.end.cylinder.abs_diff(to.start.cylinder)) <= belief.arm_time(from.end, to.start));
            }
        }
    }
}
