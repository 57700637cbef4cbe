//! What owners are charged: the disk time of their requests, waits for these, and flushes.

use headtime_units::Nanos;

use super::account::{Parts, parts_of};
use super::habits::FORGETS_FOLLOWED;
use super::runs::PER_TURN;
use super::think::Came;
use super::{Owner, Run, RunId, Streams, is_rest, sector_ns};
use crate::command::Finished;
use crate::policies::written::{DESTAGED, is_cached_write};
use crate::queue::Queued;
use crate::request::{Op, VolumeId};

/// A run is long, and an owner, once it has used the time of so many changes to another owner
/// (guess: a shorter one costs others less than turns do).
const LONG_CHANGES: u64 = 2;
/// A client that thinks for so many changes or more gains nothing from turns, each of which would
/// be for one read (guess: its run needs a fifth of the drive at most). Measured on 72 drawn
/// mixtures at equal load: the 99th percentile is 8 % shorter than with turns for such runs.
const RARE_CHANGES: u64 = 4;

impl Streams {
    /// Charges a wait to an owner.
    pub(crate) fn waited_for(&mut self, owner: Owner, waited: Nanos, came: Came) {
        if let Some(account) = self.account_mut(owner) {
            account.charge(waited);
            account.think.waited(came);
        }
    }

    /// Charges a wait for a short run to the rest of its volume.
    pub(crate) fn waited_for_short(&mut self, id: RunId, waited: Nanos, came: Came) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.account.used += waited;
        run.account.think.waited(came);
        self.rests.entry(run.volume).or_default().charge(waited);
    }

    /// Charges a request that has finished to its owner. A run is long that has used the time of
    /// two changes to another owner; as an owner it begins at the virtual time of its volume's
    /// other requests, which have paid so far, or of the run that its process came from: a process
    /// owes the same after it has gone elsewhere. `change` is the cost of a change, if it is known.
    pub(crate) fn finished(&mut self, finished: &Finished, change: Option<Nanos>) {
        self.destaging.served(finished.finished);
        self.change = change;
        match finished.request.op {
            Op::Discard => return,
            Op::Flush => return self.flushed(finished, change),
            Op::Read | Op::Write | Op::Zero => {}
        }
        let owner = self.owner(&finished.request);
        let run = self.run_of(finished.request.id);
        let sectors = finished.request.extent.len.get() as f64;
        let transfer_ns = sectors * self.account(owner).sector_ns;
        let (took, transfer) = (finished.disk_time, Nanos::from_ns(transfer_ns as u64));
        let cached = is_cached_write(&finished.request) && !finished.forced;
        let time = match change {
            _ if cached => {
                let positioning = change.filter(|_| is_rest(owner)).unwrap_or_default();
                self.destaging.wrote(owner, took, transfer, positioning)
            }
            Some(change) => {
                let most = change + transfer;
                self.destaging.waited(took, most).max(finished.arm_time().min(most))
            }
            None => took,
        };
        self.gone(finished.request.id);
        if let Some(change) = change {
            self.min_parts.charge(finished.request.volume, time, change);
        }
        let at_once = cached && took < DESTAGED;
        if let Some(account) = self.account_mut(owner) {
            account.charge(time);
            let beside = time.saturating_sub(transfer);
            account.beside += if at_once { account.virtual_time_of(beside) } else { 0 };
            account.think.finished(finished);
        }
        self.note_arm(finished, run, change);
        let before = core::mem::replace(&mut self.last, run);
        let follows = run.is_some() && before == run;
        let Some(id) = run else { return };
        self.pauses(id, finished, change);
        let Some((run, change)) = self.runs.get_mut(&id).zip(change) else { return };
        run.any_finished = true;
        run.last_was_cached = cached && finished.arm_time() <= DESTAGED;
        if cached && !run.last_was_cached {
            run.waited_for_room = Some(finished.finished);
        }
        if run.last_was_cached && transfer_ns > 0.0 {
            let each_ns = (run.account.think.mean() + finished.service()).as_ns() as f64;
            run.media_share += (transfer_ns / each_ns.max(1.0) - run.media_share) / 16.0;
        }
        if let Some(habits) = self.habits.get_mut(&run.kind) {
            if !follows {
                habits.follows_another();
                run.per_turn += (PER_TURN - run.per_turn) * (1.0 - FORGETS_FOLLOWED);
            } else if run.account.sector_ns > 0.0 {
                let transfer_ns = sectors * run.account.sector_ns;
                habits.follows((finished.arm_time().as_ns() as f64 - transfer_ns).max(0.0));
            }
        }
        if owner != Owner::Run(id) {
            run.account.used += time;
        }
        let habits = self.habits.get(&run.kind);
        let saves = habits.is_none_or(|habits| habits.save(run.per_turn, change.as_ns() as f64));
        if run.op == Op::Read && run.account.think.mean() >= change * RARE_CHANGES {
            self.demote(id);
            return;
        }
        if run.account.used >= change * LONG_CHANGES && !run.is_long && saves {
            run.is_long = true;
            self.held_of_long += run.held.len();
            let (volume, stream) = (run.volume, run.stream);
            let rest = self.rests.get(&volume).map_or(0, |rest| rest.virtual_time);
            let came_from = |(other, run): &(&RunId, &Run)| {
                let same = (run.volume, run.stream) == (volume, stream);
                same && run.is_long && run.held.is_empty() && **other != id
            };
            let before = self.runs.iter().filter(came_from);
            let latest = before.map(|(_, run)| run.account.virtual_time).fold(rest, u64::max);
            self.account_mut(Owner::Run(id)).expect("it is known").virtual_time = latest;
        }
    }

    /// Charges a flush to the owners of the writes that it waited for.
    pub(super) fn flushed(&mut self, finished: &Finished, change: Option<Nanos>) {
        self.gone(finished.request.id);
        self.flushed.insert(finished.request.volume, finished.finished);
        let flusher = self.owner(&finished.request);
        if is_rest(flusher) {
            self.flushes.add(finished.finished);
        }
        if let Owner::Run(run) = flusher {
            self.pauses(run, finished, change);
        } else if let Some(account) = self.account_mut(flusher) {
            account.think.finished(finished);
        }
        let (sent, took) = (finished.dispatched, finished.disk_time);
        for (owner, time) in self.destaging.flushed(flusher, sent, took) {
            if let Some((volume, change)) = self.volume_of(owner).zip(change) {
                self.min_parts.charge(volume, time, change);
            }
            if let Some(account) = self.account_mut(owner) {
                account.charge(time);
            }
        }
    }

    fn volume_of(&self, owner: Owner) -> Option<VolumeId> {
        match owner {
            Owner::Writes(volume) | Owner::Rest(volume) => Some(volume),
            Owner::Run(run) => self.runs.get(&run).map(|run| run.volume),
        }
    }

    /// Gives each volume the same weight, and each owner its part of that; their mean is 1.
    pub(super) fn weigh(&mut self, owners: &[(Owner, &Queued)], parts: &mut [Parts]) {
        let mean = parts.iter().map(Parts::all).sum::<f64>() / parts.len() as f64;
        for (owner, first) in owners {
            let part = parts_of(parts, first.request.volume);
            let own = if is_rest(*owner) { part.of_rest() } else { 1 };
            if let Some(account) = self.account_mut(*owner) {
                account.sector_ns = sector_ns(first);
                account.weight = mean * f64::from(own) / part.all();
            }
        }
    }
}
