//! The events of a drive in their order, and cutting the power between any two of them:
//! [`History`], [`Cutter`].

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use headtime_sched::{CommandId, Op};
use headtime_units::{Extent, Sectors};
use rand::{Rng, RngExt};

use super::cache::WriteCache;
use super::drive::FailedFlush;
use super::failure::{PowerFailure, exposed_blocks};
use super::platter::Platter;

/// Something that happened at the drive. Reads are no events: a cut does not depend on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The drive was sent a command.
    Sent {
        /// Its name.
        command: CommandId,
        /// The operation: write, zero, discard or flush.
        op: Op,
        /// Its sectors.
        extent: Extent,
        /// True if the command must be durable when it is reported.
        fua: bool,
        /// The data of a write; empty for other commands.
        content: Bytes,
    },
    /// The drive reported a command.
    Reported {
        /// Its name.
        command: CommandId,
        /// Success, or the system's error code.
        result: Result<(), i32>,
        /// True if durability was promised and not kept.
        lied: bool,
        /// The number of the command's sectors that took effect, from its first: all of them,
        /// unless it failed.
        landed: Sectors,
    },
}

/// The events at a drive since it was opened, and the initial contents of its platter.
#[derive(Clone, Debug)]
pub struct History {
    pub(super) before: Platter,
    pub(super) events: Vec<Event>,
    pub(super) physical_sectors: u64,
    pub(super) failed_flush: FailedFlush,
}

/// Cuts the power at one moment of a history, any number of times.
#[derive(Clone, Debug)]
pub struct Cutter<'a> {
    history: &'a History,
    cache: WriteCache,
    at: usize,
}

/// Every platter that may be found at one moment.
#[derive(Clone, Debug)]
pub struct EveryPlatter {
    settled: Platter,
    /// For each sector that may differ from the settled one, what else it may hold.
    choices: Vec<(Extent, Vec<Bytes>)>,
    /// The next choice for each sector, 0 being the settled contents; `None` after the last.
    next: Option<Vec<usize>>,
}

impl History {
    /// The events so far. The moment `n` is after the first `n` of them.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// A cutter at the moment 0.
    pub fn cutter(&self) -> Cutter<'_> {
        Cutter {
            history: self,
            cache: WriteCache::new(self.before.clone(), self.failed_flush),
            at: 0,
        }
    }

    /// Draws `cuts` cuts at random moments, in ascending order, and hands each moment and what is
    /// found then to `check`.
    ///
    /// # Errors
    /// The first that `check` returns.
    pub fn cut_at_random<E>(
        &self,
        cuts: usize,
        failure: PowerFailure,
        rng: &mut impl Rng,
        mut check: impl FnMut(usize, Platter) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut moments: Vec<usize> =
            (0..cuts).map(|_| rng.random_range(0..=self.events.len())).collect();
        moments.sort_unstable();
        let mut cutter = self.cutter();
        moments
            .into_iter()
            .try_for_each(|moment| check(moment, cutter.advance(moment).cut(failure, rng)))
    }

    /// The events up to `moment` that concern the sectors of `extent`, and all flushes, one a line:
    /// the story of a sector that should not hold what it does.
    pub fn story(&self, extent: Extent, moment: usize) -> String {
        let concerned: BTreeSet<CommandId> = self
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Sent { command, op, extent: sent, .. }
                    if *op == Op::Flush || sent.overlaps(extent) =>
                {
                    Some(*command)
                }
                _ => None,
            })
            .collect();
        let mut story = String::new();
        for (number, event) in self.events[..moment].iter().enumerate() {
            let line = match event {
                Event::Sent { command, op, extent, fua, .. } if concerned.contains(command) => {
                    let fua = if *fua { ", force unit access" } else { "" };
                    format!("sent {}: {} of {extent}{fua}", command.0, op.name())
                }
                Event::Reported { command, result, lied, landed }
                    if concerned.contains(command) =>
                {
                    let lied = if *lied { ", a lie" } else { "" };
                    format!("reported {}: {result:?}{lied}, {landed} taken in", command.0)
                }
                _ => continue,
            };
            story.push_str(&format!("{number:>6}  {line}\n"));
        }
        story
    }
}

impl Cutter<'_> {
    /// Goes on to a later moment.
    ///
    /// # Panics
    /// When `moment` is earlier than the cutter's, or after the history's end.
    pub fn advance(&mut self, moment: usize) -> &mut Self {
        assert!(
            moment >= self.at,
            "a cutter only goes forward: it is at {}, and {moment} was asked for; take a new one",
            self.at
        );
        for event in &self.history.events[self.at..moment] {
            self.cache.take(event);
        }
        self.at = moment;
        self
    }

    /// The contents after a power cut at this moment; a new random outcome at each call.
    pub fn cut(&self, failure: PowerFailure, rng: &mut impl Rng) -> Platter {
        failure.strike(&self.cache, self.history.physical_sectors, rng)
    }

    /// Everything that may be found when the power fails at this moment and leaves all sectors
    /// readable: any of its contents for each sector, independently. No platter comes twice. Grows
    /// exponentially: ask [`EveryPlatter::size`] first.
    pub fn every_cut(&self) -> EveryPlatter {
        let settled =
            |lba| self.cache.settled.read(Extent::from_numbers(lba, 1)).unwrap_or_default();
        let mut choices: BTreeMap<u64, Vec<Bytes>> = BTreeMap::new();
        for change in self.cache.unsettled() {
            let mut platter =
                Platter::blank(self.cache.settled.sector_size(), self.cache.settled.capacity());
            for run in change.runs(|_| true) {
                change.put(run.clone(), &mut platter);
                for lba in
                    change.extent().start.get() + run.start..change.extent().start.get() + run.end
                {
                    let content = platter
                        .read(Extent::from_numbers(lba, 1))
                        .expect("nothing of it was spoilt");
                    let known = choices.entry(lba).or_default();
                    if content != settled(lba) && !known.contains(&content) {
                        known.push(content);
                    }
                }
            }
        }
        let choices: Vec<(Extent, Vec<Bytes>)> = choices
            .into_iter()
            .map(|(lba, contents)| (Extent::from_numbers(lba, 1), contents))
            .collect();
        EveryPlatter {
            settled: self.cache.settled.clone(),
            next: Some(vec![0; choices.len()]),
            choices,
        }
    }

    /// The physical blocks with something unsettled in them: each may be the one that the head is
    /// on.
    pub fn exposed(&self) -> Vec<Extent> {
        exposed_blocks(&self.cache, self.history.physical_sectors)
    }
}

impl EveryPlatter {
    /// The number of outcomes; `u64::MAX` also if there are more.
    pub fn size(&self) -> u64 {
        self.choices
            .iter()
            .fold(1, |count: u64, (_, contents)| count.saturating_mul(contents.len() as u64 + 1))
    }
}

impl Iterator for EveryPlatter {
    type Item = Platter;

    fn next(&mut self) -> Option<Platter> {
        let next = self.next.as_mut()?;
        let mut platter = self.settled.clone();
        for ((extent, contents), choice) in self.choices.iter().zip(next.iter()) {
            if let Some(index) = choice.checked_sub(1) {
                platter.write(*extent, &contents[index]);
            }
        }
        // Counts up, the first sector fastest.
        let lowest = next.iter_mut().zip(&self.choices).find_map(|(choice, (_, contents))| {
            *choice = (*choice + 1) % (contents.len() + 1);
            (*choice != 0).then_some(())
        });
        if lowest.is_none() {
            self.next = None;
        }
        Some(platter)
    }
}
