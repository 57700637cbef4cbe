//! What is kept of sights, and what is not: new ones, ones that agree, ones at home, lines that are
//! found and lost, and the bounds.

use headtime_units::{Angle, Sectors};

use super::{MAX_RUNS, MAX_SIGHTS, Moved, NEIGHBOURS, Run, STEADY, Sight, Whereabouts};
use crate::angles::angle_of_turns;

/// Numbers that stand for a sight where it is saved.
pub(crate) const SIGHT_NUMBERS: usize = 6;
/// A sight where it is saved.
pub(crate) type SightNumbers = [u64; SIGHT_NUMBERS];
/// A place where it is saved: its run, and the likelihoods of its cylinders.
pub(crate) type PlaceNumbers = (u64, Vec<f64>);

impl Moved {
    /// Each sight and each place in numbers: for saving.
    pub(crate) fn numbers(&self) -> (Vec<SightNumbers>, Vec<PlaceNumbers>) {
        let of_sight = |sight: &Sight| {
            let flags = u64::from(sight.at_home)
                | u64::from(sight.linked) << 1
                | u64::from(sight.agreed) << 8;
            [
                sight.first,
                sight.last,
                u64::from(sight.end.as_raw()),
                flags,
                sight.seen,
                u64::from(sight.run),
            ]
        };
        let places = self
            .runs
            .iter()
            .map(|run| (u64::from(run.number), run.whereabouts.numbers().collect()));
        (self.sights.iter().map(of_sight).collect(), places.collect())
    }

    /// What [`Moved::numbers`] were of, on a drive with so many sectors; `self` knows nothing yet.
    /// `None` where they cannot be.
    pub(crate) fn restored(
        mut self,
        sights: &[SightNumbers],
        places: &[PlaceNumbers],
        capacity: Sectors,
    ) -> Option<Self> {
        for [first, last, end, flags, seen, run] in sights {
            let in_order = self.sights.last().is_none_or(|before| before.last < *last);
            if !in_order
                || first > last
                || *last >= capacity.get()
                || *flags >= 1 << 16
                || *flags & 0xFC != 0
                || *seen >= 1 << 62
            {
                return None;
            }
            self.sights.push(Sight {
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
                self.sights.iter().any(|sight| !sight.at_home && sight.run == *number)
            })?;
            let is_new = self.runs.iter().all(|run| run.number != number);
            self.runs.push(Run {
                number,
                whereabouts: Whereabouts::restored(self.cylinders, likelihoods)
                    .filter(|_| is_new)?,
            });
        }
        if self.sights.len() > MAX_SIGHTS || self.runs.len() > MAX_RUNS {
            return None;
        }
        self.tidy();
        Some(self)
    }

    /// Sectors passed at the angle at which they are believed to pass elsewhere.
    pub(super) fn agree(&mut self, first: u64, last: u64, seen: Angle) {
        let (next, taken) = (self.next(last), self.taken);
        if let Some(here) = self.sights.get_mut(next).filter(|here| here.last == last) {
            return here.again(first, seen, taken);
        }
        let (left, right) = (
            self.confirmed_before(next).map(|found| found.0),
            self.confirmed_from(next).map(|found| found.0),
        );
        let (Some(left), Some(right)) = (left, right) else { return };
        (self.sights[left].seen, self.sights[right].seen) = (taken, taken);
        let narrow = self.sights[right].last - self.sights[left].last <= self.reach / 8;
        if narrow || self.sights[right].first <= last {
            // Another between two so close would tell nothing new.
            return;
        }
        let run = self.sights[left].run;
        let linked = self.sights[left].linked;
        self.sights.insert(
            next,
            Sight { first, last, end: seen, at_home: false, agreed: 2, linked, seen: taken, run },
        );
        self.bound();
    }

    /// What the belief in where a sector lies stands on is forgotten if all of it `is_home` by now,
    /// because home is believed to be elsewhere since; whether it was.
    pub(super) fn forget_where(&mut self, last: u64, is_home: impl Fn(&Sight) -> bool) -> bool {
        let next = self.next(last);
        let here = self.sights.get(next).is_some_and(|here| {
            here.last == last || here.first <= last && !here.at_home && here.agreed >= 2
        });
        // On a line both its neighbors on it count: one alone may be at the same angle at home by
        // chance.
        let mut stands_on: Vec<usize> = self
            .confirmed_before(next)
            .map(|found| found.0)
            .filter(|left| self.sights[*left].linked)
            .into_iter()
            .collect();
        stands_on.extend(here.then_some(next));
        if !here || self.sights[next].linked {
            stands_on.extend(self.confirmed_from(next + usize::from(here)).map(|found| found.0));
        }
        let all = stands_on.iter().all(|at| is_home(&self.sights[*at]));
        if all {
            for at in stands_on.into_iter().rev() {
                self.unlink_before(at);
                self.sights.remove(at);
            }
            self.tidy();
        }
        all
    }

    /// Sectors were seen where they should be.
    pub(super) fn at_home(&mut self, first: u64, last: u64, seen: Angle) {
        if self.sights.is_empty() {
            return;
        }
        let beside = self.next(first).checked_sub(1);
        if !beside.is_some_and(|before| self.moved_within(before, first))
            && !self.moved_within(self.next(first), last)
        {
            return;
        }
        let (begin, taken) = (self.next(first), self.taken);
        let end = begin + self.sights[begin..].partition_point(|sight| sight.last <= last);
        if let Some(before) = self.confirmed_before(begin).map(|found| found.0) {
            self.sights[before].linked = false;
        }
        self.sights.drain(begin..end);
        if let Some(behind) = self.sights.get_mut(begin) {
            behind.first = behind.first.max(last + 1);
        }
        self.sights.insert(
            begin,
            Sight {
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
            if self.sights.get(at).is_some_and(|sight| sight.at_home) && self.is_redundant(at) {
                self.sights.remove(at);
            }
        }
        self.bound();
    }

    /// Sectors passed at an angle that nobody foresaw.
    pub(super) fn odd(&mut self, first: u64, last: u64, seen: Angle) {
        let (at, taken) = (self.next(last), self.taken);
        let fresh = Sight {
            first,
            last,
            end: seen,
            at_home: false,
            agreed: 1,
            linked: false,
            seen: taken,
            run: 0,
        };
        match self.sights.get_mut(at).filter(|here| here.last == last) {
            Some(here) if !here.at_home && here.agrees(seen) => {
                here.again(first, seen, taken);
                self.relink(at);
            }
            Some(here) => {
                let run = if here.at_home { None } else { Some(here.run) };
                *here = fresh;
                self.sights[at].run = run.unwrap_or_else(|| self.run_for(at));
                self.unlink_before(at);
                self.find_line(at);
            }
            None => {
                self.sights.insert(at, fresh);
                self.sights[at].run = self.run_for(at);
                // What was read at home there has been moved since.
                let overlaps =
                    |sight: &Sight| sight.at_home && sight.first <= last && sight.last >= first;
                if self.sights.get(at + 1).is_some_and(overlaps) {
                    self.sights.remove(at + 1);
                }
                let over =
                    (0..at).rev().take_while(|before| overlaps(&self.sights[*before])).count();
                self.sights.drain(at - over..at);
                self.find_line(at - over);
            }
        }
        self.bound();
    }

    /// The number of the run that a sight goes on, or a new one; where it joins two, they are one
    /// from now on.
    fn run_for(&mut self, at: usize) -> u32 {
        let here = self.sights[at];
        let before = at
            .checked_sub(1)
            .map(|before| self.sights[before])
            .filter(|before| self.go_on(before, &here))
            .map(|before| before.run);
        let behind = self
            .sights
            .get(at + 1)
            .filter(|behind| self.go_on(&here, behind))
            .map(|behind| behind.run);
        if let (Some(one), Some(other)) = (before, behind.filter(|behind| before != Some(*behind)))
        {
            self.sights
                .iter_mut()
                .filter(|sight| sight.run == other && !sight.at_home)
                .for_each(|sight| sight.run = one);
            if let Some(place) = self.runs.iter().position(|of| of.number == other) {
                let lost = self.runs.remove(place);
                match self.runs.iter_mut().find(|of| of.number == one) {
                    Some(kept) => kept.whereabouts.join(&lost.whereabouts),
                    None => self.runs.push(Run { number: one, ..lost }),
                }
            }
        }
        before.or(behind).unwrap_or_else(|| {
            self.next_run += 1;
            self.next_run
        })
    }

    /// Looks for a line through a sight and others near it, and takes what is on it for confirmed.
    pub(super) fn find_line(&mut self, at: usize) {
        if self.sights.get(at).is_none_or(|sight| sight.at_home) {
            return;
        }
        let (begin, end) =
            (at.saturating_sub(NEIGHBOURS), (at + NEIGHBOURS).min(self.sights.len() - 1));
        let mut best: Option<(usize, Vec<usize>)> = None;
        for left in begin..=at {
            for right in at.max(left + 2)..=end {
                let (one, other) = (self.sights[left], self.sights[right]);
                let Some(slope) =
                    (if self.go_on(&one, &other) { self.line(&one, &other) } else { None })
                else {
                    continue;
                };
                let (on, off): (Vec<usize>, Vec<usize>) = (left + 1..right)
                    .partition(|between| self.is_on(&one, slope, &self.sights[*between]));
                let at_home = |numbers: &[usize]| {
                    numbers.iter().filter(|between| self.sights[**between].at_home).count()
                };
                // Sectors at home are on the line by chance at best: few of those that are.
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
            let leads_here = self.sights[before].linked
                && self.line(&self.sights[before], &self.sights[on[0]]).is_some();
            self.sights[before].linked = leads_here;
        }
        let (run, last_before) = (self.sights[at].run, self.sights[on[on.len() - 1]]);
        for number in &on {
            let sight = &mut self.sights[*number];
            (sight.at_home, sight.agreed, sight.run, sight.linked) =
                (false, sight.agreed.max(2), run, true);
        }
        // The line ends at its last sight, unless another goes on from there.
        self.sights[on[on.len() - 1]].linked =
            last_before.linked && !last_before.at_home && last_before.agreed >= 2;
        // Those between that are not on it were something else.
        for number in (on[0]..on[on.len() - 1]).rev() {
            if !on.contains(&number) {
                self.sights.remove(number);
            }
        }
    }

    /// A sight was confirmed by being seen again: what was believed to be linked across it is so
    /// only if it lies there too.
    fn relink(&mut self, at: usize) {
        let (Some((left, _)), Some((right, _))) =
            (self.confirmed_before(at), self.confirmed_from(at + 1))
        else {
            return;
        };
        let (one, other) = (self.sights[left], self.sights[right]);
        if !one.linked {
            return;
        }
        let on =
            self.line(&one, &other).is_some_and(|slope| self.is_on(&one, slope, &self.sights[at]));
        (self.sights[left].linked, self.sights[at].linked) = (on, on);
    }

    fn unlink_before(&mut self, at: usize) {
        if let Some((left, _)) = self.confirmed_before(at) {
            self.sights[left].linked = false;
        }
    }

    /// Whether a sight at home stands next to no moved one.
    pub(super) fn is_redundant(&self, at: usize) -> bool {
        let lba = self.sights[at].last;
        let moved =
            |beside: Option<usize>| beside.is_some_and(|beside| self.moved_within(beside, lba));
        !moved(at.checked_sub(1)) && !moved(Some(at + 1))
    }

    /// Keeps to the bounds, and to what depends on what is kept.
    fn bound(&mut self) {
        if self.sights.len() > MAX_SIGHTS {
            self.thin_out();
        }
        while self.sights.len() > MAX_SIGHTS {
            let oldest = (0..self.sights.len())
                .min_by_key(|at| (self.sights[*at].agreed >= 2, self.sights[*at].seen));
            if let Some(oldest) = oldest {
                self.unlink_before(oldest);
                self.sights.remove(oldest);
            }
        }
        self.tidy();
    }

    /// Of those on one line every other one goes.
    fn thin_out(&mut self) {
        let mut at = 1;
        while at + 1 < self.sights.len() {
            let (one, here, other) = (self.sights[at - 1], self.sights[at], self.sights[at + 1]);
            let inner = [one, here, other].iter().all(|sight| !sight.at_home && sight.agreed >= 2)
                && one.linked
                && here.linked;
            if inner && self.line(&one, &other).is_some_and(|slope| self.is_on(&one, slope, &here))
            {
                self.sights.remove(at);
            }
            at += 1;
        }
    }

    /// Places of which nothing is left are forgotten.
    pub(super) fn tidy(&mut self) {
        let moved = self.sights.iter().filter(|sight| !sight.at_home);
        self.any = moved.clone().any(|sight| sight.agreed >= 2) || moved.count() >= 3;
        let sights = &self.sights;
        self.runs.retain(|of| sights.iter().any(|sight| sight.run == of.number && !sight.at_home));
        debug_assert!(self.runs.len() <= MAX_RUNS);
    }

    /// Forgets a place and all that lies there.
    pub(super) fn drop_run(&mut self, run: u32) {
        self.sights.retain(|sight| sight.at_home || sight.run != run);
        self.tidy();
    }
}

impl Sight {
    fn agrees(&self, seen: Angle) -> bool {
        self.end.signed_turns_from(seen).abs() < super::ON_LINE
    }

    /// Seen again, at about the same angle.
    fn again(&mut self, first: u64, seen: Angle, taken: u64) {
        self.agreed = self.agreed.saturating_add(1);
        let weight = (1.0 / f64::from(self.agreed)).max(STEADY);
        self.end += angle_of_turns(weight * seen.signed_turns_from(self.end));
        (self.first, self.seen) = (self.first.min(first), taken);
    }
}
