//! The surfaces of a drive that is filled in bands, where the angles do not show them: by the times
//! of the arm from the end of a row of tracks to the next row.

use serde::{Deserialize, Serialize};

use crate::layout::{
    LayoutResult, MIN_DEVIATION, ZoneModel, continues, step_after_band, track_angle,
};
use crate::numbers::{median, trimmed_mean, wrap};
use crate::seek::{FINE_NS, Pair, SURE, min_time};
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The width, or contradiction, of a minimum time that is accepted, ns: unknown spares move a track
/// by some hundred microseconds.
const COARSE_NS: f64 = 500_000.0;
/// The smallest difference between a head switch and a step on the surface, ns.
const SAME_NS: f64 = 60_000.0;
/// The number of minimum times of one experiment, of which up to twice as many are tried, and the
/// most of one row's end.
const TIMES: u64 = 5;
const MAX_TIMES: usize = 20;
/// The error of a time that depends on the tracks, as a share of the standard deviation of one
/// (guess).
const PLACE_SHARE: f64 = 0.2;
/// The most surfaces that are looked for.
const MAX_SURFACES: u64 = 32;

/// Finds the number of surfaces of a drive that is filled in bands, if the angles do not show it.
/// From the last track of a row to the first of the next the arm switches heads. At the end of a
/// band it stays on its surface and moves to the next band. After an odd number of rows it is at
/// the band's far end, one cylinder from the next; after an even number it has come back and has
/// the whole band to cross. Both distances are timed within the first row. The first row's end
/// whose time is nearer to such a distance than to a head switch ends a band. Noise changes each of
/// these times by some hundred microseconds: a row's end is timed until it is nearer to one of the
/// two by [`SURE`] standard errors, and does not count if it stays between them.
///
/// Each run times one row's end some times: an experiment is replayed for each new result, so a
/// long one takes the square of its length.
pub(crate) fn find_surfaces(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    let Some(zone) = layout.zones.first().cloned() else {
        layout.surfaces.searched = true;
        return Ok(());
    };
    let unit = zone.pattern.unit;
    let Some(mut rows) = layout.surfaces.rows.take() else {
        let is_quiet = session.drive.noise_turns() < QUIET_TURNS;
        let enough = if is_quiet { TIMES } else { 2 * TIMES };
        let one = min_times(session, &layout.zones, enough, |number| {
            [(0, unit / 4 + number), (0, unit / 4 + number - 1)]
        })?;
        let inset = |number: u64| number.min(unit / 4);
        let all = min_times(session, &layout.zones, enough, |number| {
            [(0, unit - 1 - inset(number)), (0, inset(number))]
        })?;
        layout.surfaces.rows = Some(RowTimes { is_quiet, one, all, ..RowTimes::default() });
        return Ok(());
    };
    let row = rows.seen + 1;
    let border = row * unit;
    if row > MAX_SURFACES {
        return assume_one_surface(session, layout);
    }
    // After the zone's end a row may lie anywhere.
    if !rows.may_show(row) || !continues(session, &zone, border)? {
        rows.pass(row);
        layout.surfaces.rows = Some(rows);
        return Ok(());
    }
    let angle = track_angle(session, &zone, border)?;
    let times = min_times(session, &layout.zones, TIMES, |_| [(0, border), (0, border - 1)])?;
    let is_timed = !times.is_empty();
    rows.present.extend(times);
    match rows.end_of(row) {
        RowEnd::OfBand => {
            layout.surfaces.searched = true;
            let step = step_after_band(session, layout, &zone, border)?;
            set_surfaces(layout, row);
            if let Some(step) = step {
                let zone = &mut layout.zones[0];
                (zone.steps[2], zone.tied[2]) = (step, (step, 1.0));
                zone.fit();
            }
            return Ok(());
        }
        RowEnd::Unclear if is_timed && rows.present.len() < MAX_TIMES => {}
        end => {
            if end == RowEnd::WithinBand && (row == 1 || !rows.is_quiet) {
                rows.switches.append(&mut rows.present);
            }
            rows.pass(row);
        }
    }
    layout.surfaces.rows = Some(rows);
    // Fit the zone to rows that are predicted well, so that later rows can be timed.
    let zone = &mut layout.zones[0];
    let off = wrap(angle - zone.track_angle(border));
    if off.abs() < MIN_DEVIATION / 2.0 {
        zone.add_angle(border, angle);
    }
    Ok(())
}

/// Assumes one surface, because no row's end is like a step within a row.
fn assume_one_surface(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    layout.surfaces.searched = true;
    set_surfaces(layout, 1);
    session.remark(
        "rows of cylinders follow each other, but their surfaces could not be told apart; they \
            are assumed to lie on one",
    );
    Ok(())
}

/// Sets the number of surfaces of each band.
fn set_surfaces(layout: &mut LayoutResult, surfaces: u64) {
    let zone = &mut layout.zones[0];
    zone.pattern.units = surfaces;
    zone.steps[2] = zone.steps[1];
    zone.fit();
    layout.pattern = Some(zone.pattern);
}

/// The search for the surfaces of a drive in bands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SurfaceSearch {
    /// The search is over.
    pub(crate) searched: bool,
    /// The times so far.
    rows: Option<RowTimes>,
}

/// The times of the ends of rows, for the number of surfaces, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RowTimes {
    /// Times are not noisy: a few show what a row ends.
    is_quiet: bool,
    /// From track to track within a row.
    one: Vec<f64>,
    /// From a row's end to its beginning.
    all: Vec<f64>,
    /// The ends of rows within a band, which are head switches; the first row's among them.
    switches: Vec<f64>,
    /// The present row's end.
    present: Vec<f64>,
    /// The number of rows timed.
    seen: u64,
}

/// The end of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowEnd {
    WithinBand,
    OfBand,
    /// Both explain its times.
    Unclear,
}

impl RowTimes {
    /// The times that the end of a row would have if it ended a band.
    fn of_band(&self, row: u64) -> &[f64] {
        if row.is_multiple_of(2) { &self.all } else { &self.one }
    }

    fn middle(&self, times: &[f64]) -> f64 {
        if self.is_quiet { median(times) } else { trimmed_mean(times).0 }
    }

    /// The standard deviation of a time.
    fn noise_ns(&self) -> f64 {
        let lists = [&self.one, &self.all, &self.switches, &self.present];
        let off = |list: &Vec<f64>| {
            let middle = median(list);
            list.iter().map(|time| time - middle).collect::<Vec<f64>>()
        };
        let off: Vec<f64> = lists.into_iter().flat_map(off).collect();
        let (_, error) = trimmed_mean(&off);
        error.map_or(0.0, |error| error * libm::sqrt(off.len() as f64)).max(FINE_NS / 2.0)
    }

    /// The standard error of the middle between a head switch and the end of a band, against so
    /// many times of a row's end.
    fn error_ns(&self, row: u64, times: usize) -> f64 {
        if self.is_quiet {
            return 0.0;
        }
        let share = |count: usize| 1.0 / count.max(1) as f64;
        let middle = (share(self.switches.len()) + share(self.of_band(row).len())) / 4.0;
        self.noise_ns() * libm::sqrt(share(times) + middle + PLACE_SHARE * PLACE_SHARE)
    }

    /// False if no number of times would tell what a row ends.
    fn may_show(&self, row: u64) -> bool {
        let (of_band, switch) = (self.middle(self.of_band(row)), self.middle(&self.switches));
        let apart = (of_band - switch).abs();
        let is_clear = apart >= SAME_NS.max(2.0 * SURE * self.error_ns(row, MAX_TIMES));
        row == 1 || !self.of_band(row).is_empty() && is_clear
    }

    /// The end of a row, by the nearer of the two times. The end of the first row is that of a
    /// surface.
    fn end_of(&self, row: u64) -> RowEnd {
        if row == 1 {
            let is_enough = self.present.len() >= 2 * TIMES as usize;
            return if is_enough || self.is_quiet { RowEnd::WithinBand } else { RowEnd::Unclear };
        }
        let [present, of_band, switch] =
            [&self.present, self.of_band(row), &self.switches].map(|times| trimmed_mean(times).0);
        let nearer_to_band = (present - switch).abs() - (present - of_band).abs();
        if nearer_to_band.abs() < 2.0 * SURE * self.error_ns(row, self.present.len()) {
            RowEnd::Unclear
        } else if nearer_to_band > 0.0 {
            RowEnd::OfBand
        } else {
            RowEnd::WithinBand
        }
    }

    /// Goes on to the row after one.
    fn pass(&mut self, row: u64) {
        self.present.clear();
        self.seen = row;
    }
}

/// Some minimum times between the pairs of tracks given by number, as many as could be timed.
fn min_times(
    session: &mut Session,
    zones: &[ZoneModel],
    most: u64,
    pair: impl Fn(u64) -> Pair,
) -> Attempt<Vec<f64>> {
    let mut times = Vec::new();
    for number in 1..=2 * most {
        if (times.len() as u64) < most
            && let Some(time) = min_time(session, zones, pair(number), 1.5e6, COARSE_NS)?
        {
            times.push(time);
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The row that is taken for the end of the first band, if every fourth ends one, and where it
    /// takes so much longer than a head switch.
    fn found(longer_ns: f64, seed: u64) -> Option<u64> {
        let mut random = Random::new(seed, 0);
        let mut times = |count: u64, ns: f64| -> Vec<f64> {
            // A standard deviation of 115 us.
            (0..count).map(|_| ns + 400_000.0 * (random.part() - 0.5)).collect()
        };
        let mut rows = RowTimes {
            one: times(2 * TIMES, 400_000.0),
            all: times(2 * TIMES, 760_000.0 + longer_ns),
            ..RowTimes::default()
        };
        for row in 1..=16_u64 {
            let ns = if row.is_multiple_of(4) { 760_000.0 + longer_ns } else { 760_000.0 };
            while rows.may_show(row) && rows.present.len() < MAX_TIMES {
                rows.present.extend(times(TIMES, ns));
                match rows.end_of(row) {
                    RowEnd::OfBand => return Some(row),
                    RowEnd::WithinBand => {
                        rows.switches.append(&mut rows.present);
                        break;
                    }
                    RowEnd::Unclear => {}
                }
            }
            rows.pass(row);
        }
        None
    }

    #[test]
    fn a_row_ends_a_band_only_if_its_times_tell_it_from_a_head_switch() {
        for seed in 1..=100 {
            for longer_ns in [-40_000.0, 40_000.0, 100_000.0] {
                let found = found(longer_ns, seed);
                assert!([None, Some(4)].contains(&found), "seed {seed}, {longer_ns} ns: {found:?}");
            }
        }
        let right = (1..=100).filter(|seed| found(400_000.0, *seed) == Some(4)).count();
        assert!(right >= 97, "{right} of 100 drives");
    }
}
