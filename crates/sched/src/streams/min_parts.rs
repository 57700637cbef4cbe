//! The minimum part of the disk time that each volume keeps while all requests compete: half of an
//! equal part.
//!
//! Of the requests of several volumes the cheapest is one of the volume with the most, above all
//! where these lie close together. One that is alone elsewhere would go once it is old: a thinking
//! client beside 32 random clients that share a fiftieth of `nearline-20tb` had 1.8 requests/s.
//! With a quarter of the time it has 13.6, and the others have two thirds of their requests.
//!
//! Worked example: two volumes have requests, and one is served for 40 ms. The other then has a
//! credit of 10 ms, and its cheapest request goes. It takes 15 ms, a quarter of which is credit,
//! too: 1.25 ms are missing, which the volume has 5 ms later.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

use super::Streams;
use crate::drive::Outstanding;
use crate::policy::View;
use crate::request::{Op, VolumeId};

/// The reciprocal of the minimum part, in equal parts. Measured on 18 drawn mixtures of random
/// streams on `nearline-20tb`: the harmonic mean of progress grows by a quarter with 2 and by a
/// sixth with 4, the sum falls by 5 and 3 %.
const EQUAL_PARTS: u64 = 2;
/// The maximum credit of a volume, and the maximum below zero, in changes: what was long ago counts
/// no more (guess: the longest turn beside a rest).
const MAX_CREDIT: u64 = 12;

/// A volume lacks much of its part with this credit, in changes. Measured on `nearline-20tb` and
/// `barracuda-2tb` with 4 readers beside 16 clients that write half, whose order would be left to
/// the drive otherwise: with 1 to 4 the readers have a fifth of their rate alone, with 8 a seventh;
/// beside short waits 4 costs the others 1 % less than 2.
const MUCH_CREDIT: u64 = 4;

/// Others wait so many changes for a flush (guess: longer than any drive takes to destage a full
/// cache of random writes). Measured with 1 to 8 random writers beside a client that flushes each
/// write: those that go before the flush is done fill the cache for the next. On `nearline-20tb`,
/// which holds 32 writes, the client has a fifth with 12 of what it has from 32 on, and on
/// `ultrastar-hc570`, which holds 128, a tenth with 32 of what it has from 64 on.
const LONGEST_FLUSH: u64 = 256;

/// The credits of the volumes.
#[derive(Clone, Debug, Default)]
pub(super) struct MinParts {
    /// Those with requests at the last decision for which all requests competed, if several.
    waiting: Vec<VolumeId>,
    /// The minimum part of the time in which each had requests, minus what it used.
    credit_ns: BTreeMap<VolumeId, i64>,
    /// The volume whose requests go.
    underserved: Option<VolumeId>,
}

impl MinParts {
    /// Charges disk time to a volume.
    pub(super) fn charge(&mut self, volume: VolumeId, time: Nanos, change: Nanos) {
        let Self { waiting, credit_ns, .. } = self;
        if waiting.is_empty() {
            return;
        }
        let most = (change * MAX_CREDIT).as_ns() as i64;
        let part = (time / (EQUAL_PARTS * waiting.len() as u64)).as_ns() as i64;
        for waiting in waiting {
            let credit = credit_ns.entry(*waiting).or_default();
            *credit = (*credit + part).min(most);
        }
        let credit = credit_ns.entry(volume).or_default();
        *credit = (*credit - time.as_ns() as i64).max(-most);
    }

    fn credit_ns(&self, volume: VolumeId) -> i64 {
        self.credit_ns.get(&volume).copied().unwrap_or_default()
    }
}

impl Streams {
    /// The volume that has had less than its minimum part of the disk time, if any has, until it
    /// has had a change more. The requests of `view` compete; there is none while a long run is
    /// known, whose turns are fair. It has requests in the queue, or [waits for a
    /// flush](waits_for_flush).
    pub(crate) fn underserved_volume(
        &mut self,
        view: &View<'_>,
        change: Nanos,
    ) -> Option<VolumeId> {
        self.min_parts.waiting.clear();
        if self.rests.len() > 1 && !self.any_long_run() {
            let at_drive = view.outstanding.iter().flat_map(|command| &command.requests);
            let waiting = &mut self.min_parts.waiting;
            waiting.extend(view.queue.volumes());
            waiting.extend(at_drive.map(|queued| queued.request.volume));
            waiting.sort_unstable();
            waiting.dedup();
        }
        let parts = &mut self.min_parts;
        if parts.waiting.len() < 2 {
            parts.waiting.clear();
            parts.underserved = None;
            return None;
        }
        let held = |volume: &VolumeId| {
            view.queue.of_volume(*volume).next().is_some()
                || waits_for_flush(view, *volume, change).is_some()
        };
        let max_used = -(change.as_ns() as i64);
        let goes_on = |volume: &VolumeId| held(volume) && parts.credit_ns(*volume) > max_used;
        let is_underserved = |volume: &VolumeId| held(volume) && parts.credit_ns(*volume) > 0;
        let waiting = parts.waiting.iter().copied().filter(is_underserved);
        let next = waiting.max_by_key(|volume| parts.credit_ns(*volume));
        parts.underserved = parts.underserved.filter(goes_on).or(next);
        parts.underserved
    }

    /// Returns whether a volume lacked much of its minimum part at the last decision.
    pub(crate) fn any_underserved_volume(&self) -> bool {
        let parts = &self.min_parts;
        let missing = parts.underserved.map_or(0, |volume| parts.credit_ns(volume));
        self.change.is_some_and(|change| missing > (change * MUCH_CREDIT).as_ns() as i64)
    }
}

/// The time until which the requests of others wait for a flush of a volume, if one is at the drive
/// and that is to come: it takes longer with each write that they have in the drive's cache.
pub(crate) fn waits_for_flush(view: &View<'_>, volume: VolumeId, change: Nanos) -> Option<Instant> {
    let is_of = |command: &&Outstanding| {
        command.target.op == Op::Flush
            && command.requests.iter().any(|flush| flush.request.volume == volume)
    };
    let flush = view.outstanding.iter().find(is_of)?;
    let until = flush.dispatched + change * LONGEST_FLUSH;
    (view.now < until && view.has_one_arm()).then_some(until)
}
