//! Maintenance of angle samples: new ones, agreeing ones, samples at home, lines found and lost,
//! and the bounds.

use headtime_units::{Angle, Sectors};

use super::{
    AngleSample, MAX_ANGLE_SAMPLES, MAX_RUNS, Moved, NEIGHBOURS, Run, STEADY, Whereabouts,
};
use crate::angles::angle_of_turns;

/// Numbers per saved angle sample.
pub(crate) const ANGLE_SAMPLE_NUMBERS: usize = 6;
/// A saved angle sample.
pub(crate) type AngleSampleNumbers = [u64; ANGLE_SAMPLE_NUMBERS];
/// A saved place: its run, and the likelihoods of its cylinders.
pub(crate) type PlaceNumbers = (u64, Vec<f64>);

impl Moved {
    /// The angle samples and places as numbers, for saving.
    pub(crate) fn numbers(&self) -> (Vec<AngleSampleNumbers>, Vec<PlaceNumbers>) {
        let of_angle_sample = |angle_sample: &AngleSample| {
            let flags = u64::from(angle_sample.at_home)
                | u64::from(angle_sample.linked) << 1
                | u64::from(angle_sample.agreed) << 8;
            [
                angle_sample.first,
                angle_sample.last,
                u64::from(angle_sample.end.as_raw()),
                flags,
                angle_sample.seen,
                u64::from(angle_sample.run),
            ]
        };
        let places = self
            .runs
            .iter()
            .map(|run| (u64::from(run.number), run.whereabouts.numbers().collect()));
        (self.angle_samples.iter().map(of_angle_sample).collect(), places.collect())
    }

    /// Restores the output of [`Moved::numbers`] into an empty `self`, for a drive of this
    /// capacity. Returns `None` if the numbers are invalid.
    pub(crate) fn restored(
        mut self,
        angle_samples: &[AngleSampleNumbers],
        places: &[PlaceNumbers],
        capacity: Sectors,
    ) -> Option<Self> {
        for [first, last, end, flags, seen, run] in angle_samples {
            let in_order = self.angle_samples.last().is_none_or(|before| before.last < *last);
            if !in_order
                || first > last
                || *last >= capacity.get()
                || *flags >= 1 << 16
                || *flags & 0xFC != 0
                || *seen >= 1 << 62
            {
                return None;
            }
            self.angle_samples.push(AngleSample {
                first: *first,
                last: *last,
                end: Angle::from_raw(u32::try_from(*end).ok()?),
                at_home: flags & 1 == 1,
                agreed: (flags >> 8) as u8,
                linked: flags >> 1 & 1 == 1,
                seen: *seen,
                run: u32::try_from(*run).ok().filter(|run| *run < u32::MAX / 2)?,
            });
            (self.taken, self.next_run) = (self.taken.max(*seen), self.next_run.max(*run as u32));
        }
        for (number, likelihoods) in places {
            let number = u32::try_from(*number).ok().filter(|number| {
                self.angle_samples
                    .iter()
                    .any(|angle_sample| !angle_sample.at_home && angle_sample.run == *number)
            })?;
            let is_new = self.runs.iter().all(|run| run.number != number);
            self.runs.push(Run {
                number,
                whereabouts: Whereabouts::restored(self.cylinders, likelihoods)
                    .filter(|_| is_new)?,
            });
        }
        if self.angle_samples.len() > MAX_ANGLE_SAMPLES || self.runs.len() > MAX_RUNS {
            return None;
        }
        self.tidy();
        Some(self)
    }

    /// Observes sectors at the modelled angle of their new place.
    pub(super) fn agree(&mut self, first: u64, last: u64, seen: Angle) {
        let (next, taken) = (self.next(last), self.taken);
        if let Some(here) = self.angle_samples.get_mut(next).filter(|here| here.last == last) {
            return here.again(first, seen, taken);
        }
        let (left, right) = (
            self.confirmed_before(next).map(|found| found.0),
            self.confirmed_from(next).map(|found| found.0),
        );
        let (Some(left), Some(right)) = (left, right) else { return };
        (self.angle_samples[left].seen, self.angle_samples[right].seen) = (taken, taken);
        let narrow =
            self.angle_samples[right].last - self.angle_samples[left].last <= self.reach / 8;
        if narrow || self.angle_samples[right].first <= last {
            // Another sample between two so close adds no information.
            return;
        }
        let run = self.angle_samples[left].run;
        let linked = self.angle_samples[left].linked;
        self.angle_samples.insert(
            next,
            AngleSample {
                first,
                last,
                end: seen,
                at_home: false,
                agreed: 2,
                linked,
                seen: taken,
                run,
            },
        );
        self.bound();
    }

    /// Forgets the samples that place a sector elsewhere, if all of them satisfy `is_home`: the
    /// layout has changed since. Returns true if they were forgotten.
    pub(super) fn forget_where(
        &mut self,
        last: u64,
        is_home: impl Fn(&AngleSample) -> bool,
    ) -> bool {
        let next = self.next(last);
        let here = self.angle_samples.get(next).is_some_and(|here| {
            here.last == last || here.first <= last && !here.at_home && here.agreed >= 2
        });
        // On a line both neighbors count: one alone may have the same angle at home by chance.
        let mut stands_on: Vec<usize> = self
            .confirmed_before(next)
            .map(|found| found.0)
            .filter(|left| self.angle_samples[*left].linked)
            .into_iter()
            .collect();
        stands_on.extend(here.then_some(next));
        if !here || self.angle_samples[next].linked {
            stands_on.extend(self.confirmed_from(next + usize::from(here)).map(|found| found.0));
        }
        let all = stands_on.iter().all(|at| is_home(&self.angle_samples[*at]));
        if all {
            for at in stands_on.into_iter().rev() {
                self.unlink_before(at);
                self.angle_samples.remove(at);
            }
            self.tidy();
        }
        all
    }

    /// Observes sectors at the angle of the layout.
    pub(super) fn at_home(&mut self, first: u64, last: u64, seen: Angle) {
        if self.angle_samples.is_empty() {
            return;
        }
        let beside = self.next(first).checked_sub(1);
        if !beside.is_some_and(|before| self.moved_within(before, first))
            && !self.moved_within(self.next(first), last)
        {
            return;
        }
        let (begin, taken) = (self.next(first), self.taken);
        let end = begin
            + self.angle_samples[begin..].partition_point(|angle_sample| angle_sample.last <= last);
        if let Some(before) = self.confirmed_before(begin).map(|found| found.0) {
            self.angle_samples[before].linked = false;
        }
        self.angle_samples.drain(begin..end);
        if let Some(following) = self.angle_samples.get_mut(begin) {
            following.first = following.first.max(last + 1);
        }
        self.angle_samples.insert(
            begin,
            AngleSample {
                first,
                last,
                end: seen,
                at_home: true,
                agreed: 1,
                linked: false,
                seen: taken,
                run: 0,
            },
        );
        for at in [begin + 1, begin, begin.wrapping_sub(1)] {
            if self.angle_samples.get(at).is_some_and(|angle_sample| angle_sample.at_home)
                && self.is_redundant(at)
            {
                self.angle_samples.remove(at);
            }
        }
        self.bound();
    }

    /// Observes sectors at an unpredicted angle.
    pub(super) fn odd(&mut self, first: u64, last: u64, seen: Angle) {
        let (at, taken) = (self.next(last), self.taken);
        let fresh = AngleSample {
            first,
            last,
            end: seen,
            at_home: false,
            agreed: 1,
            linked: false,
            seen: taken,
            run: 0,
        };
        match self.angle_samples.get_mut(at).filter(|here| here.last == last) {
            Some(here) if !here.at_home && here.agrees(seen) => {
                here.again(first, seen, taken);
                self.relink(at);
            }
            Some(here) => {
                let run = if here.at_home { None } else { Some(here.run) };
                *here = fresh;
                self.angle_samples[at].run = run.unwrap_or_else(|| self.run_for(at));
                self.unlink_before(at);
                self.find_line(at);
            }
            None => {
                self.angle_samples.insert(at, fresh);
                self.angle_samples[at].run = self.run_for(at);
                // Samples at home that overlap are outdated: the sectors were moved since.
                let overlaps = |angle_sample: &AngleSample| {
                    angle_sample.at_home && angle_sample.first <= last && angle_sample.last >= first
                };
                if self.angle_samples.get(at + 1).is_some_and(overlaps) {
                    self.angle_samples.remove(at + 1);
                }
                let over = (0..at)
                    .rev()
                    .take_while(|before| overlaps(&self.angle_samples[*before]))
                    .count();
                self.angle_samples.drain(at - over..at);
                self.find_line(at - over);
            }
        }
        self.bound();
    }

    /// The run that an angle sample continues, or a new one. Joins two runs if the sample connects
    /// them.
    fn run_for(&mut self, at: usize) -> u32 {
        let here = self.angle_samples[at];
        let before = at
            .checked_sub(1)
            .map(|before| self.angle_samples[before])
            .filter(|before| self.advance(before, &here))
            .map(|before| before.run);
        let after = self
            .angle_samples
            .get(at + 1)
            .filter(|after| self.advance(&here, after))
            .map(|after| after.run);
        if let (Some(one), Some(other)) = (before, after.filter(|after| before != Some(*after))) {
            self.angle_samples
                .iter_mut()
                .filter(|angle_sample| angle_sample.run == other && !angle_sample.at_home)
                .for_each(|angle_sample| angle_sample.run = one);
            if let Some(place) = self.runs.iter().position(|of| of.number == other) {
                let lost = self.runs.remove(place);
                match self.runs.iter_mut().find(|of| of.number == one) {
                    Some(kept) => kept.whereabouts.join(&lost.whereabouts),
                    None => self.runs.push(Run { number: one, ..lost }),
                }
            }
        }
        before.or(after).unwrap_or_else(|| {
            self.next_run += 1;
            self.next_run
        })
    }

    /// Searches for a line through an angle sample and its neighbors, and confirms the samples on
    /// it.
    pub(super) fn find_line(&mut self, at: usize) {
        if self.angle_samples.get(at).is_none_or(|angle_sample| angle_sample.at_home) {
            return;
        }
        let (begin, end) =
            (at.saturating_sub(NEIGHBOURS), (at + NEIGHBOURS).min(self.angle_samples.len() - 1));
        let mut best: Option<(usize, Vec<usize>)> = None;
        for left in begin..=at {
            for right in at.max(left + 2)..=end {
                let (one, other) = (self.angle_samples[left], self.angle_samples[right]);
                let Some(slope) =
                    (if self.advance(&one, &other) { self.line(&one, &other) } else { None })
                else {
                    continue;
                };
                let (on, off): (Vec<usize>, Vec<usize>) = (left + 1..right)
                    .partition(|between| self.is_on(&one, slope, &self.angle_samples[*between]));
                let at_home = |numbers: &[usize]| {
                    numbers.iter().filter(|between| self.angle_samples[**between].at_home).count()
                };
                // Few samples at home may be on the line by chance.
                let is_elsewhere = at_home(&off) == 0
                    && (on.len() + 2) >= 3 * at_home(&on) + usize::from(at_home(&on) > 0);
                let holds = (at == left || at == right || on.contains(&at))
                    && is_elsewhere
                    && on.len() > off.len();
                if holds && best.as_ref().is_none_or(|(agreeing, _)| on.len() > *agreeing) {
                    let all =
                        core::iter::once(left).chain(on.iter().copied()).chain([right]).collect();
                    best = Some((on.len(), all));
                }
            }
        }
        let Some((_, on)) = best else { return };
        if let Some((before, _)) = self.confirmed_before(on[0]) {
            let leads_here = self.angle_samples[before].linked
                && self.line(&self.angle_samples[before], &self.angle_samples[on[0]]).is_some();
            self.angle_samples[before].linked = leads_here;
        }
        let (run, last_before) = (self.angle_samples[at].run, self.angle_samples[on[on.len() - 1]]);
        for number in &on {
            let angle_sample = &mut self.angle_samples[*number];
            (angle_sample.at_home, angle_sample.agreed, angle_sample.run, angle_sample.linked) =
                (false, angle_sample.agreed.max(2), run, true);
        }
        // The line ends at its last angle sample, unless another line continues there.
        self.angle_samples[on[on.len() - 1]].linked =
            last_before.linked && !last_before.at_home && last_before.agreed >= 2;
        // Samples between that are not on the line are outliers.
        for number in (on[0]..on[on.len() - 1]).rev() {
            if !on.contains(&number) {
                self.angle_samples.remove(number);
            }
        }
    }

    /// Rechecks the line across a sample that was confirmed by a second read: the line stays only
    /// if the sample is on it.
    fn relink(&mut self, at: usize) {
        let (Some((left, _)), Some((right, _))) =
            (self.confirmed_before(at), self.confirmed_from(at + 1))
        else {
            return;
        };
        let (one, other) = (self.angle_samples[left], self.angle_samples[right]);
        if !one.linked {
            return;
        }
        let on = self
            .line(&one, &other)
            .is_some_and(|slope| self.is_on(&one, slope, &self.angle_samples[at]));
        (self.angle_samples[left].linked, self.angle_samples[at].linked) = (on, on);
    }

    fn unlink_before(&mut self, at: usize) {
        if let Some((left, _)) = self.confirmed_before(at) {
            self.angle_samples[left].linked = false;
        }
    }

    /// Returns true if a sample at home has no moved neighbor.
    pub(super) fn is_redundant(&self, at: usize) -> bool {
        let lba = self.angle_samples[at].last;
        let moved =
            |beside: Option<usize>| beside.is_some_and(|beside| self.moved_within(beside, lba));
        !moved(at.checked_sub(1)) && !moved(Some(at + 1))
    }

    /// Applies the bounds, and updates the values derived from the samples.
    fn bound(&mut self) {
        if self.angle_samples.len() > MAX_ANGLE_SAMPLES {
            self.thin_out();
        }
        while self.angle_samples.len() > MAX_ANGLE_SAMPLES {
            let oldest = (0..self.angle_samples.len()).min_by_key(|at| {
                (self.angle_samples[*at].agreed >= 2, self.angle_samples[*at].seen)
            });
            if let Some(oldest) = oldest {
                self.unlink_before(oldest);
                self.angle_samples.remove(oldest);
            }
        }
        self.tidy();
    }

    /// Removes every other inner sample of each line.
    fn thin_out(&mut self) {
        let mut at = 1;
        while at + 1 < self.angle_samples.len() {
            let (one, here, other) =
                (self.angle_samples[at - 1], self.angle_samples[at], self.angle_samples[at + 1]);
            let inner = [one, here, other]
                .iter()
                .all(|angle_sample| !angle_sample.at_home && angle_sample.agreed >= 2)
                && one.linked
                && here.linked;
            if inner && self.line(&one, &other).is_some_and(|slope| self.is_on(&one, slope, &here))
            {
                self.angle_samples.remove(at);
            }
            at += 1;
        }
    }

    /// Removes places without samples.
    pub(super) fn tidy(&mut self) {
        let moved = self.angle_samples.iter().filter(|angle_sample| !angle_sample.at_home);
        self.any = moved.clone().any(|angle_sample| angle_sample.agreed >= 2) || moved.count() >= 3;
        let angle_samples = &self.angle_samples;
        self.runs.retain(|of| {
            angle_samples
                .iter()
                .any(|angle_sample| angle_sample.run == of.number && !angle_sample.at_home)
        });
        debug_assert!(self.runs.len() <= MAX_RUNS);
    }

    /// Removes a place and all its samples.
    pub(super) fn drop_run(&mut self, run: u32) {
        self.angle_samples.retain(|angle_sample| angle_sample.at_home || angle_sample.run != run);
        self.tidy();
    }
}

impl AngleSample {
    fn agrees(&self, seen: Angle) -> bool {
        self.end.signed_turns_from(seen).abs() < super::ON_LINE
    }

    /// Observes the same sectors again, at about the same angle.
    fn again(&mut self, first: u64, seen: Angle, taken: u64) {
        self.agreed = self.agreed.saturating_add(1);
        let weight = (1.0 / f64::from(self.agreed)).max(STEADY);
        self.end += angle_of_turns(weight * seen.signed_turns_from(self.end));
        (self.first, self.seen) = (self.first.min(first), taken);
    }
}
