//! Turns between sequential runs and other requests: the owner that has the drive, for how long,
//! and when its next request is worth waiting for.
//!
//! Each request priced alone, a drive changes to another run with almost every request, and each
//! change costs a seek and half a revolution. Here the owners of requests ([`Owner`]) take turns,
//! as long as the requests of a run are held:
//!
//! *Short runs* have no turn of their own. In the turn of a rest, and while all requests compete,
//! the cheapest request is chosen; if it belongs to a short run, that is *visited*: its further
//! requests go first, and are waited for as in a turn, until it ends or is long. Clients that read
//! a few requests in sequence before they go elsewhere cost one seek for all of them.
//!
//! *Clients that pause* for a quarter of a change or more are not waited for, where the drive reads
//! ahead: the arm stays until that has read for two changes (less with time to spare), or as far as
//! it does, and goes on to others. Their next requests are answered from the drive's cache.
//!
//! *Writes in bulk* ([`Owner::Writes`]) have one turn together, in which the cheapest goes, with
//! those that abut it. It is not waited for.
//!
//! *Flushes* are requests of the run that their client wrote last, or of the rest. In its turn
//! nothing else goes while one is at the drive. While it destages writes of others for longer than
//! a change, nothing goes in any turn but theirs: a request between would cost two seeks.
//!
//! *Runs that cost as much in turn* as in any order have neither turns nor visits: those with few
//! requests in each, which share a change, and on a drive that does not read ahead those whose
//! requests wait for most of a revolution. Of several requests the cheapest costs less. What a
//! request costs directly after another of its run, and how many a turn has, is measured.
//!
//! *Length.* A turn is as long as a change to another owner costs at most a twentieth of it, but
//! all owners together have one turn in a round of 800 ms. It is a twelfth and 400 ms if one of
//! them is a rest, whose clients wait one by one, or if a rest had a request in the last 400 ms and
//! its client thinks. A turn is at least two changes long.
//!
//! A turn goes on while requests of a run are queued whose process or connection has gone
//! elsewhere: they are its last, and would cost a change later.
//!
//! A turn is given up after two changes for a run that has used much less: a whole turn less than a
//! rest, or one and a half turns less than a run. Runs that think, and use little time, do not wait
//! for the backlog of others.
//!
//! *Order.* Start-time fair queueing by disk time (Goyal et al., SIGCOMM 1996): each owner has a
//! virtual time, which grows with the disk time that it uses, divided by its weight; one that
//! comes back is at most a round earlier than the latest. Volumes have the same weight, and their
//! owners parts of it: a rest that of its requests, at most that of all other owners together. Of
//! the owners at most half a turn later than the earliest, the next by ascending address goes, so
//! that a round is one sweep; rests go last. One of them that has waited for a whole round goes
//! before the others.
//!
//! *Waits.* A turn goes on while the owner's next request is worth waiting for (P3, anticipation).
//! A wait saves what a change costs, times the share of pauses of such runs, or of the rest, that
//! ended in time with another request; once the run's process has sent a request elsewhere, of
//! pauses with such a one. It lasts for the mean think time with four mean deviations, at most as
//! long as what it saves; there is none if the mean alone is more than three quarters of that. If
//! its process has ended, the next request is worth waiting for where another process continued the
//! run the last time (cooperation, P3). The time of a wait is charged to the owner. The next write
//! of a run that the drive takes into its cache needs no arm, and is waited for a short time only.
//! Where all requests compete, the next one of a client that was answered just now is worth a wait
//! of half the time that the cheapest of one more costs less.
//!
//! Worked example, a change costs 12 ms: four readers with one request each have turns of 200 ms
//! (800 / 4); 12 of 212 ms are lost, and no reader waits longer than 650 ms.
//!
//! Cost: a decision takes O(held requests of runs), and looks at the 64 oldest of each volume.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::OnceCell;

use headtime_units::{Instant, Nanos};
use smallvec::SmallVec;

use crate::command::{Finished, Waits};
use crate::drive::Outstanding;
use crate::policies::elevator::alike;
use crate::policies::written::{WriteCache, Written, is_cached_write};
use crate::policy::View;
use crate::positioning::mean_positioning;
use crate::queue::{Queued, Ticket};
use crate::request::{Op, Request, RequestId, StreamId, VolumeId};
use crate::shares::Tenant;
use crate::streams::{Account, Came, Owner, RunId, Streams, Think, is_rest, waits_for_flush};

/// The turn of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamTurn {
    /// No run is held: all requests compete.
    Anyone,
    /// No run is held, and this volume has had less than its minimum part of the disk time.
    OfVolume(VolumeId),
    /// This owner's, whose requests alone compete; some are eligible.
    Of(Owner),
    /// That of a short run; some of its requests are eligible.
    Visit(RunId),
    /// That of an owner or short run whose last request is at the drive.
    AtDrive,
    /// That of an owner or short run whose next request is expected by then, or of a volume whose
    /// flush is waited for until then.
    Expected(Instant),
}

/// The state of turns.
#[derive(Default)]
pub(crate) struct StreamTurns {
    streams: Streams,
    /// By tenant, because only the owners of one compete for its time; `None` where no volume has
    /// terms.
    turns: BTreeMap<Option<Tenant>, Turn>,
    /// The short run that is served within a turn, by tenant.
    visits: BTreeMap<Option<Tenant>, Visit>,
    /// The cost of a change to another owner, once it is needed.
    change: OnceCell<Nanos>,
    /// The earliest virtual time of an owner with queued requests at the last decision, by tenant.
    earliest: BTreeMap<Option<Tenant>, u64>,
    /// The volume of the next request that is waited for where all compete, and the begin of that.
    one_more: Option<(VolumeId, Instant)>,
    waits: Waits,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    owner: Owner,
    /// The use of the owner when the turn began.
    used: Nanos,
    length: Nanos,
    /// The begin of the wait that is on.
    waits_since: Option<Instant>,
}

/// A visit to a short run within the turn of a rest: it lasts as long as the run goes on, at most
/// until the run is long.
#[derive(Clone, Copy, Debug)]
struct Visit {
    run: RunId,
    waits_since: Option<Instant>,
}

/// A turn is at most so many changes long: the change to it costs a twentieth of it (the project's
/// target).
pub(crate) const LONGEST_TURN: u64 = 20;
/// The same if requests outside of runs compete, which wait one by one. Measured on `nearline-20tb`
/// beside a backup: the 99th percentile of eight random clients is a fifth shorter than with 20,
/// and the backup loses 1 %. On `exos-2x18` mixtures have 1 % less with it.
const LONGEST_TURN_WITH_REST: u64 = 12;
/// From this idle share of time on there are no turns: they save time that nobody needs, and every
/// request outside of the turn would wait for it (guess: a twentieth, as above).
pub(crate) const IDLE_SHARE: f64 = 1.0 / LONGEST_TURN as f64;
/// The next write of a run that the drive takes into its cache is waited for for this part of a
/// change (guess: others wait for it).
const SPARE: u64 = 8;
/// The drive reads ahead for so many changes at most, and less as it has more time to spare: half
/// as long where it idles for a quarter of the time, and the shortest time from about half on.
/// Measured on `nearline-20tb`: with 1, 16 players of 64 KiB that think 10 ms on average have 1,320
/// requests/s, with 2 1,540.
const LONGEST_AHEAD: f64 = 2.0;
const SHORTEST_AHEAD: f64 = 1.0 / 8.0;
/// The part of what one more request to choose from saves that a wait for it may take (guess: the
/// wait is certain, what it saves an average).
const WORTH_ONE_MORE: f64 = 0.5;
/// A turn is at least this many changes long (guess: a third of the time is lost then).
const SHORTEST_CHANGES: u64 = 2;
/// All owners have a turn within this time, which bounds the time without progress of each.
const ROUND: Nanos = Nanos::from_ms(800);
/// The same if requests outside of runs compete.
const ROUND_WITH_REST: Nanos = Nanos::from_ms(400);
/// The maximum number of requests in one command (guess: what a client keeps outstanding).
pub(crate) const MERGED: usize = 64;
/// Writes that go into the drive's cache are merged as long as their transfer takes this part of a
/// revolution: the drive destages while the next one comes, and waits for the end of a long one.
/// Measured with page caches of 1 to 16 writers on eleven drives: up to a revolution they write
/// half as fast, up to a quarter 5 % slower; of 4 KiB each, unmerged, a third as fast.
const CACHED_REVOLUTION: u64 = 32;
/// Other writes are merged as long as their transfer takes so many revolutions: on most drives each
/// command costs one more. Measured with page caches of 1 to 16 writers on eight drives without
/// write cache: merged up to one revolution, they write up to 40 % less, and on one drive 3 % more.
const UNCACHED_REVOLUTIONS: u64 = 4;

impl StreamTurns {
    /// The streams, which the caller tells of requests.
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The cost of a change to another owner. No run is long before it is asked for.
    pub(crate) fn change(&self, view: &View<'_>) -> Nanos {
        *self.change.get_or_init(|| mean_positioning(view.belief))
    }

    /// As [`crate::Policy::submitted`].
    pub(crate) fn submitted(&mut self, now: Instant, request: &Request) {
        self.streams.submitted(now, request);
    }

    /// As [`crate::Policy::finished`].
    pub(crate) fn finished(&mut self, finished: &Finished) {
        self.streams.finished(finished, self.change.get().copied());
    }

    /// As [`crate::Policy::cancelled`].
    pub(crate) fn cancelled(&mut self, id: RequestId) {
        self.streams.gone(id);
    }

    /// As [`crate::Policy::stream_ended`].
    pub(crate) fn stream_ended(&mut self, stream: StreamId) {
        self.streams.ended(stream);
    }

    /// As [`crate::Policy::belief_changed`].
    pub(crate) fn belief_changed(&mut self) {
        self.change = OnceCell::new();
    }

    /// The waits so far.
    pub(crate) fn waits(&self) -> Waits {
        self.waits
    }

    /// The next turn among the requests that the view shows, which are those of `tenant`.
    ///
    /// Writes that go into the drive's cache beside the turns have none.
    pub(crate) fn next(
        &mut self,
        view: &View<'_>,
        tenant: Option<Tenant>,
        written: &Written,
    ) -> StreamTurn {
        self.streams.drive_was_idle(view.idle);
        if !has_turns(view) {
            return StreamTurn::Anyone;
        }
        let change = self.change(view);
        if self.has_time_to_spare(view) {
            self.end(tenant, view.now);
            return self.visit(tenant, view, change).unwrap_or(StreamTurn::Anyone);
        }
        let earliest = self.earliest.get(&tenant).copied().unwrap_or_default();
        let passes = |streams: &Streams, run| {
            written.cache(view) == WriteCache::HasRoom
                && !written.take_turns()
                && streams.writes_within(run, change)
                && !needs_turns(streams, run, written, view)
                && !is_ahead(streams, run, earliest)
        };
        self.visits.retain(|_, visit| !passes(&self.streams, visit.run));
        if let Some(visit) = self.visit(tenant, view, change) {
            return visit;
        }
        let owner_passes = |streams: &Streams, owner| match owner {
            Owner::Run(run) => passes(streams, run),
            Owner::Writes(_) | Owner::Rest(_) => false,
        };
        if let Some(Turn { owner: Owner::Run(run), .. }) = self.turns.get(&tenant).copied()
            && !written.take_turns()
            && !self.streams.saves(view, run, change)
        {
            self.streams.demote(run);
            self.end(tenant, view.now);
        }
        let turn = self.turns.get(&tenant).copied();
        let turn = turn.filter(|turn| !owner_passes(&self.streams, turn.owner));
        let of_run = turn.is_some_and(|turn| matches!(turn.owner, Owner::Run(_)));
        if self.streams.no_long_run_is_held() && !of_run {
            self.end(tenant, view.now);
            return self.of_all(view);
        }
        let mut eligible = self.streams.eligible(view);
        let flush = flush_at_drive(view, tenant);
        let flushing = flush.filter(|_| view.has_one_arm());
        let flushing = flushing.into_iter().flat_map(|flush| &flush.requests);
        let owners = eligible.iter().map(|(owner, _)| *owner);
        let owners = owners.chain(flushing.map(|flush| self.streams.owner(&flush.request)));
        let time_of = |owner| self.streams.account(owner).virtual_time;
        let earliest = owners.map(time_of).min().unwrap_or(earliest);
        self.earliest.insert(tenant, earliest);
        for (owner, _) in &eligible {
            let back = earliest.saturating_sub(ROUND_WITH_REST.as_ns());
            self.streams.account_mut(*owner).expect("it has requests").catch_up(back);
        }
        eligible.retain(|(owner, first)| {
            !is_cached_write(&first.request) || !owner_passes(&self.streams, *owner)
        });
        let in_queue = eligible.len();
        self.add_flushing(flush, &mut eligible);
        let (queued, flushing) = eligible.split_at(in_queue);
        let destages = flush.is_some() && self.streams.paid_ahead() >= change;
        let writes = |owner: &Owner| match owner {
            Owner::Writes(_) => true,
            Owner::Run(run) => self.streams.last_was_cached(*run),
            Owner::Rest(_) => false,
        };
        let owners = queued.iter().map(|(owner, _)| *owner).chain(turn.map(|turn| turn.owner));
        let writing: SmallVec<[Owner; 4]> =
            owners.filter(|owner| destages && writes(owner)).collect();
        let waits_for_flush = |owner| {
            destages && !writing.contains(&owner)
                || flushing.iter().any(|(flushing, _)| *flushing == owner)
        };
        if let Some(turn) = turn {
            let account = self.streams.account(turn.owner);
            let alone = eligible.iter().all(|(owner, _)| *owner == turn.owner);
            let used = account.used.saturating_sub(turn.used);
            // Owners that always have requests are at most one and a half turns apart. A rest gains
            // nothing from a long turn: each of its requests costs a seek anyway.
            let halves = if is_rest(turn.owner) { 2 } else { 3 };
            let less = account.virtual_time_of(turn.length / 2 * halves);
            let used_less = |(owner, _): &(Owner, &Queued)| {
                matches!(owner, Owner::Run(_))
                    && self.streams.account(*owner).virtual_time + less <= account.virtual_time
            };
            let yields = used >= change * SHORTEST_CHANGES && eligible.iter().any(used_less);
            // Its last requests would cost a change later.
            let is_left = matches!(turn.owner, Owner::Run(run) if self.streams.is_left(run));
            if alone || is_left || used < turn.length && !yields {
                if waits_for_flush(turn.owner) {
                    return StreamTurn::AtDrive;
                }
                if queued.iter().any(|(owner, _)| *owner == turn.owner) {
                    self.stop_waiting(tenant, view.now, Came::Yes);
                    return StreamTurn::Of(turn.owner);
                }
                if let Some(waits) = self.wait(tenant, view, &account, change) {
                    return waits;
                }
            }
        }
        self.end(tenant, view.now);
        match self.begin(tenant, view, &eligible, turn, change) {
            StreamTurn::Of(owner) if waits_for_flush(owner) => StreamTurn::AtDrive,
            next => next,
        }
    }

    /// The turn where all requests compete: that of a volume that has had less than its minimum
    /// part of the disk time, if any has.
    pub(crate) fn of_all(&mut self, view: &View<'_>) -> StreamTurn {
        let change = self.change(view);
        let Some(volume) = self.streams.underserved_volume(view, change) else {
            return StreamTurn::Anyone;
        };
        match waits_for_flush(view, volume, change) {
            Some(until) if view.queue.of_volume(volume).next().is_none() => {
                StreamTurn::Expected(until)
            }
            _ => StreamTurn::OfVolume(volume),
        }
    }

    /// The next request of a client that was answered just now, where all requests compete: its
    /// volume, and the time until which it is worth a wait, because the cheapest of one more costs
    /// less. The cheapest of those in the queue costs `cost`.
    pub(crate) fn one_more(&self, view: &View<'_>, cost: Nanos) -> Option<(VolumeId, Instant)> {
        if !view.outstanding.is_empty() || !view.has_one_arm() || self.has_time_to_spare(view) {
            return None;
        }
        let competing = view.queue.len() as f64;
        // Service times fall with the number of requests to this power (docs/limits.md, 1).
        let falls = 1.0 - libm::sqrt(libm::sqrt(competing / (competing + 1.0)));
        let saves = cost.as_ns() as f64 * falls;
        self.streams.next_of_a_rest(view.now, Nanos::from_ns((saves * WORTH_ONE_MORE) as u64))
    }

    /// Counts the wait for one more request that begins, goes on or ends.
    pub(crate) fn waits_for_one_more(&mut self, now: Instant, next: Option<(VolumeId, Instant)>) {
        match (next, self.one_more.take()) {
            (Some((volume, _)), since) => {
                self.waits.begun += u64::from(since.is_none());
                self.one_more = since.or(Some((volume, now)));
            }
            (None, Some((volume, since))) => {
                let came = match self.streams.account(Owner::Rest(volume)).think.has_gone_on() {
                    true => Came::Yes,
                    false => Came::No,
                };
                self.count_wait(now.saturating_since(since), came);
            }
            (None, None) => {}
        }
    }

    /// Adds the owners that wait for a flush and have no request in the queue.
    fn add_flushing<'a>(
        &self,
        flush: Option<&'a Outstanding>,
        eligible: &mut Vec<(Owner, &'a Queued)>,
    ) {
        for request in flush.into_iter().flat_map(|flush| &flush.requests) {
            let owner = self.streams.owner(&request.request);
            if eligible.iter().all(|(known, _)| *known != owner) {
                eligible.push((owner, request));
            }
        }
    }

    /// Returns whether the drive is idle often enough that nobody needs the time that turns save.
    /// While it destages writes it is not idle.
    pub(crate) fn has_time_to_spare(&self, view: &View<'_>) -> bool {
        let destages = self.change.get().is_some_and(|change| self.streams.paid_ahead() >= *change);
        view.idle_share >= IDLE_SHARE && !destages
    }

    /// The owner of the turn that is on.
    pub(crate) fn turn_of(&self, tenant: Option<Tenant>) -> Option<Owner> {
        self.turns.get(&tenant).map(|turn| turn.owner)
    }

    /// Returns whether the turn of another owner is on that has used more time than the owner of
    /// this request will have, if it costs a change. The random writes of a rest do not count in
    /// the turn of a run: they would cost it as many changes.
    pub(crate) fn has_used_less_than_turn(&self, tenant: Option<Tenant>, queued: &Queued) -> bool {
        let Some((turn, change)) = self.turns.get(&tenant).zip(self.change.get().copied()) else {
            return false;
        };
        let owner = self.streams.owner(&queued.request);
        if owner == turn.owner || is_rest(owner) && !is_rest(turn.owner) {
            return false;
        }
        let [account, other] = [owner, turn.owner].map(|owner| self.streams.account(owner));
        let cost = account.virtual_time_of(change + queued.target.transfer);
        account.virtual_time + cost <= other.virtual_time
    }

    /// Returns whether the owner of a request has used at most half a round more than the one that
    /// has used the least.
    pub(crate) fn has_used_little(&self, tenant: Option<Tenant>, queued: &Queued) -> bool {
        let used = self.streams.account(self.streams.owner(&queued.request)).virtual_time;
        let earliest = self.earliest.get(&tenant);
        earliest.is_some_and(|earliest| used <= earliest + ROUND_WITH_REST.as_ns() / 2)
    }

    /// Returns whether a write belongs to a run whose client waits for each, and sends the next
    /// within the time of a change: the drive destages many such writes together. Not if the run
    /// has used more than its part of the time, or needs turns.
    pub(crate) fn destages_with_others(
        &self,
        view: &View<'_>,
        tenant: Option<Tenant>,
        write: &Queued,
        written: &Written,
    ) -> bool {
        let earliest = self.earliest.get(&tenant).copied().unwrap_or_default();
        let run = self.streams.run_of(write.request.id);
        run.zip(self.change.get().copied()).is_some_and(|(run, change)| {
            self.streams.sends_within(run, change)
                && !needs_turns(&self.streams, run, written, view)
                && !is_ahead(&self.streams, run, earliest)
        })
    }

    /// Begins a visit to the short run of a request that was chosen among others; the run.
    pub(crate) fn begin_visit(
        &mut self,
        view: &View<'_>,
        tenant: Option<Tenant>,
        ticket: Ticket,
    ) -> Option<RunId> {
        let request = view.queue.get(ticket)?.request;
        let run = self.streams.run_of(request.id).filter(|_| has_turns(view))?;
        self.visits.insert(tenant, Visit { run, waits_since: None });
        self.streams.turn_begins(run);
        Some(run)
    }

    /// The visit that is on, as long as its run is short and goes on.
    fn visit(
        &mut self,
        tenant: Option<Tenant>,
        view: &View<'_>,
        change: Nanos,
    ) -> Option<StreamTurn> {
        let visit = *self.visits.get(&tenant)?;
        let run = visit.run;
        let is_queued = self.streams.of_run(run, view).next().is_some();
        let saves = self.streams.saves(view, run, change);
        let think = match self.has_time_to_spare(view) {
            true => self.streams.pauses_of(run, view, change),
            false => self.streams.think_of_short(run),
        };
        let next = think.filter(|_| saves).and_then(|think| {
            if is_queued {
                return Some(StreamTurn::Visit(run));
            }
            let own = |queued: &Queued| self.streams.run_of(queued.request.id) == Some(run);
            let longest = self.streams.longest_wait(run, change);
            let at_drive = any_at_drive(view, own);
            let waits = expected(view, &think, longest, at_drive);
            self.until_read_ahead(view, run, change, waits, at_drive)
        });
        let waits_since = match (next, visit.waits_since) {
            (Some(StreamTurn::Expected(_)), None) => {
                self.waits.begun += 1;
                Some(view.now)
            }
            (Some(StreamTurn::Expected(_)), since) => since,
            (_, None) => None,
            (_, Some(since)) => {
                let waited = view.now.saturating_since(since);
                let came = if is_queued { Came::Yes } else { Came::No };
                self.count_wait(waited, came);
                self.streams.waited_for_short(run, waited, came);
                None
            }
        };
        match next {
            Some(_) => self.visits.insert(tenant, Visit { run, waits_since }),
            None => self.visits.remove(&tenant),
        };
        next
    }

    /// The requests of a run that go as one command, from its first by address on: no more than a
    /// quarter of those held, because the drive needs the next while one command is served, unless
    /// it takes one at a time.
    pub(crate) fn merged(&self, view: &View<'_>, run: RunId) -> SmallVec<[Ticket; 1]> {
        let parts = if view.max_outstanding == 1 { 1 } else { 4 };
        abutting(view, self.streams.of_run(run, view), self.streams.held(run).div_ceil(parts))
    }

    /// The owner that is next in turn: of those at most half a turn later than the earliest, the
    /// next run by ascending address from the head, the one before last, a rest after all runs.
    fn begin(
        &mut self,
        tenant: Option<Tenant>,
        view: &View<'_>,
        eligible: &[(Owner, &Queued)],
        before: Option<Turn>,
        change: Nanos,
    ) -> StreamTurn {
        let thinking = self.streams.thinking_rests(view.now, ROUND_WITH_REST);
        let any_rest = thinking > 0 || eligible.iter().any(|(owner, _)| is_rest(*owner));
        let (round, longest) = match any_rest {
            true => (ROUND_WITH_REST, LONGEST_TURN_WITH_REST),
            false => (ROUND, LONGEST_TURN),
        };
        let waits_for_another =
            before.is_some_and(|before| eligible.iter().all(|(owner, _)| *owner != before.owner));
        let owners = (eligible.len() + usize::from(waits_for_another).max(thinking)).max(1) as u64;
        let length = (change * longest).min(round / owners).max(change * SHORTEST_CHANGES);
        let time_of = |owner| self.streams.account(owner).virtual_time;
        let latest = eligible.iter().map(|(owner, _)| time_of(*owner)).max().unwrap_or_default();
        let back = latest.saturating_sub(round.as_ns());
        for (owner, _) in eligible {
            self.streams.account_mut(*owner).expect("it has requests").catch_up(back);
        }
        let time_of = |owner| self.streams.account(owner).virtual_time;
        let earliest = eligible.iter().map(|(owner, _)| time_of(*owner)).min().unwrap_or_default();
        let head = view.next_lba();
        let overdue = |(owner, queued): &(Owner, &Queued)| {
            !matches!(owner, Owner::Writes(_)) && queued.submitted + round <= view.now
        };
        let first = eligible
            .iter()
            .filter(|next| time_of(next.0) <= earliest + length.as_ns() / 2)
            .min_by_key(|next @ (owner, queued)| {
                let start = queued.request.extent.start;
                let again = before.is_some_and(|before| before.owner == *owner);
                let rest = is_rest(*owner);
                (!overdue(next), rest, again, start < head, start, *owner)
            });
        let Some((owner, _)) = first.copied() else { return StreamTurn::Anyone };
        let used = self.streams.account(owner).used;
        self.turns.insert(tenant, Turn { owner, used, length, waits_since: None });
        if let Owner::Run(run) = owner {
            self.streams.turn_begins(run);
        }
        StreamTurn::Of(owner)
    }

    /// Waits for the owner of the turn, if that pays.
    fn wait(
        &mut self,
        tenant: Option<Tenant>,
        view: &View<'_>,
        account: &Account,
        change: Nanos,
    ) -> Option<StreamTurn> {
        let owner = self.turns.get(&tenant)?.owner;
        let own = |queued: &Queued| self.streams.owner(&queued.request) == owner;
        let at_drive = any_at_drive(view, own);
        let longest = match owner {
            Owner::Run(run) if self.streams.last_was_cached(run) => change / SPARE,
            Owner::Run(run) => self.streams.longest_wait(run, change),
            Owner::Writes(_) => return None,
            Owner::Rest(_) if at_drive => change,
            Owner::Rest(rest) => self.streams.longest_wait_for_rest(view.now, rest, change),
        };
        let waits = expected(view, &account.think, longest, at_drive);
        let waits = match owner {
            Owner::Run(run) => self.until_read_ahead(view, run, change, waits, at_drive),
            Owner::Writes(_) | Owner::Rest(_) => waits,
        }?;
        let turn = self.turns.get_mut(&tenant)?;
        if matches!(waits, StreamTurn::Expected(_)) && turn.waits_since.is_none() {
            turn.waits_since = Some(view.now);
            self.waits.begun += 1;
        }
        Some(waits)
    }

    /// The wait for the next request of a run, if one pays (`waits`). For a client that pauses it
    /// is only until the drive has read ahead enough, also if the request itself is not worth a
    /// wait; with time to spare there is no other.
    fn until_read_ahead(
        &self,
        view: &View<'_>,
        run: RunId,
        change: Nanos,
        waits: Option<StreamTurn>,
        at_drive: bool,
    ) -> Option<StreamTurn> {
        if at_drive {
            let pauses = self.streams.pauses_of(run, view, change).is_some();
            return waits.or(pauses.then_some(StreamTurn::AtDrive));
        }
        let spare = self.has_time_to_spare(view);
        let changes = (LONGEST_AHEAD * (1.0 - 2.0 * view.idle_share)).max(SHORTEST_AHEAD);
        let longest = Nanos::from_ns((change.as_ns() as f64 * changes) as u64);
        match (self.streams.read_ahead_by(run, view, change, longest), waits) {
            (Some(ahead), _) if ahead <= view.now => None,
            (Some(ahead), Some(StreamTurn::Expected(until))) => {
                Some(StreamTurn::Expected(until.min(ahead)))
            }
            (Some(ahead), _) => Some(StreamTurn::Expected(ahead)),
            (None, waits) => waits.filter(|_| !spare),
        }
    }

    fn count_wait(&mut self, waited: Nanos, came: Came) {
        self.waits.time += waited;
        self.waits.came += u64::from(came == Came::Yes);
    }

    /// Charges a wait to the owner of the turn and counts its outcome.
    fn stop_waiting(&mut self, tenant: Option<Tenant>, now: Instant, came: Came) {
        let Some(turn) = self.turns.get_mut(&tenant) else { return };
        let Some(since) = turn.waits_since.take() else { return };
        let (waited, owner) = (now.saturating_since(since), turn.owner);
        self.count_wait(waited, came);
        self.streams.waited_for(owner, waited, came);
    }

    fn end(&mut self, tenant: Option<Tenant>, now: Instant) {
        self.stop_waiting(tenant, now, Came::No);
        self.turns.remove(&tenant);
    }
}

/// A write in bulk of a volume and [those that abut it](with_abutting): no more than half of those
/// held, because the turn ends when none is left.
pub(crate) fn merged_in_bulk(
    view: &View<'_>,
    volume: VolumeId,
    chosen: Ticket,
) -> SmallVec<[Ticket; 1]> {
    let held = view.queue.of_volume(volume).take(2 * MERGED).count();
    with_abutting(view, chosen, held.div_ceil(2))
}

/// A request and those that abut it, at most `most`, which go as one command: each alone would cost
/// the overhead of a command, and without a write cache a revolution. Those before it that came
/// earlier go first: they would cost another seek later.
pub(crate) fn with_abutting(view: &View<'_>, chosen: Ticket, most: usize) -> SmallVec<[Ticket; 1]> {
    let Some(mut first) = view.queue.get(chosen) else { return SmallVec::new() };
    for before in view.queue.below_lba(first.request.extent.start).take(MERGED) {
        let abuts = before.request.extent.end() == first.request.extent.start;
        if !abuts || !alike(before, first) || before.submitted > first.submitted {
            break;
        }
        first = before;
    }
    let after = view.queue.from_lba(first.request.extent.end());
    abutting(view, core::iter::once(first).chain(after), most)
}

/// The first of the requests and those that abut, at most `most`, as long as their transfer takes
/// no longer than a revolution; for writes less if the drive's cache takes them, more if not.
fn abutting<'a>(
    view: &View<'_>,
    requests: impl Iterator<Item = &'a Queued>,
    most: usize,
) -> SmallVec<[Ticket; 1]> {
    let mut tickets = SmallVec::new();
    let takes_into_cache = view.belief.takes_into_cache(Op::Write);
    let mut left = view.belief.revolution();
    let mut last: Option<&Queued> = None;
    for queued in requests.take(most.min(MERGED)) {
        if last.is_none() && queued.request.op == Op::Write {
            left = match takes_into_cache && is_cached_write(&queued.request) {
                true => left / CACHED_REVOLUTION,
                false => left * UNCACHED_REVOLUTIONS,
            };
        }
        let follows = last.is_none_or(|last| {
            last.request.extent.end() == queued.request.extent.start
                && alike(last, queued)
                && queued.target.transfer <= left
        });
        if !follows {
            break;
        }
        left = left.saturating_sub(queued.target.transfer);
        last = Some(queued);
        tickets.push(queued.ticket);
    }
    tickets
}

/// The wait for the next request, at most `longest` after the last: for a command at the drive or,
/// if none of its own is, for the time by which the request is expected; `None` if it does not pay.
fn expected(view: &View<'_>, think: &Think, longest: Nanos, at_drive: bool) -> Option<StreamTurn> {
    think.worth(longest)?;
    if at_drive {
        return Some(StreamTurn::AtDrive);
    }
    let until = think.awaited_until(longest).filter(|until| *until > view.now)?;
    Some(StreamTurn::Expected(until))
}

/// Returns whether owners have turns in this view. Of several arms with addresses of their own,
/// turns would keep one busy, and all requests compete; a run reaches all of striped ones.
fn has_turns(view: &View<'_>) -> bool {
    view.arm_count() == 1 || view.is_striped()
}

/// The flush at the drive that a request of `tenant` waits for.
fn flush_at_drive<'a>(view: &View<'a>, tenant: Option<Tenant>) -> Option<&'a Outstanding> {
    let own = |queued: &Queued| tenant.is_none_or(|tenant| queued.request.tenant() == tenant);
    let mut outstanding = view.outstanding.iter();
    outstanding.find(|command| command.target.op == Op::Flush && command.requests.iter().any(own))
}

/// Returns whether a run has used so much more time than the owner that has used the least, that
/// its writes have turns like all others.
fn is_ahead(streams: &Streams, run: RunId, earliest: u64) -> bool {
    streams.account(Owner::Run(run)).is_ahead_of(earliest, ROUND_WITH_REST)
}

/// Returns whether the writes of a run have turns although its client waits for each: the drive
/// cannot destage all of them beside many reads, and each time its cache is full costs these two
/// seeks; or flushes of others would wait for them, unless they are light and these are shared.
fn needs_turns(streams: &Streams, run: RunId, written: &Written, view: &View<'_>) -> bool {
    streams.has_waited_for_room(run, view.now) && written.are_beside_many_reads(view.now)
        || view.has_one_arm()
            && streams.any_flushed(view.now)
            && !(streams.flushes_are_shared() && streams.is_light(run))
}

/// Returns whether a request at the drive is one of `own`.
fn any_at_drive(view: &View<'_>, own: impl Fn(&Queued) -> bool) -> bool {
    view.outstanding.iter().flat_map(|command| &command.requests).any(own)
}
