//! What goes beside the turns: reads that the drive's cache probably answers, and writes that it
//! probably takes.

use super::{Headtime, OLDEST, estimate_of, tenant_of};
use crate::drive::Outstanding;
use crate::policies::sptf_expected::continues;
use crate::policies::written::{WriteCache, is_cached_write};
use crate::policy::{Policy, View};
use crate::queue::Queued;
use crate::request::Op;
use crate::streams::{Owner, is_rest};

/// A read waits for so many changes before it goes beside writes that wait for room, the time after
/// which turns are given up; for so many more with each ten reads in a second, and so many fewer
/// where writers in sequence take turns, in which nothing else brings the arm nearer. Measured on
/// `nearline-20tb` beside 16 writers in short runs: without patience the reader waits half as long,
/// and near saturation writes wait a third longer.
const PATIENT_CHANGES: u64 = 2;
/// The share of the drive's time up to which slow writers take it from others in any turn, when it
/// destages each of their writes by itself. Measured on `nearline-20tb` with 8 random clients: a
/// recorder of 15 writes/s needs 0.18, and nobody loses 1 %.
const FEW_SLOW: f64 = 0.25;
/// The share from which on it is to gather their writes: with less, one command at a time costs
/// less. Measured as above: 4 recorders of 15 writes/s need 0.7.
const MANY_SLOW: f64 = 1.0;

impl Headtime {
    /// The read that the drive's cache probably answers, or the write that it probably takes. Even
    /// as a seek it causes no miss, in case it is none. Beside writes that wait for room or take
    /// turns it is a read that has waited for two changes or more, though it needs the arm.
    pub(super) fn hit<'a>(&self, view: &View<'a>) -> Option<&'a Queued> {
        let in_time =
            |hit: &&Queued| self.allows(view, view.now, Some((&[hit.ticket], &hit.target)));
        let oldest = || view.queue.by_arrival().take(OLDEST);
        let goes = |queued: &&Queued| self.goes_into_cache(view, queued);
        let write = || oldest().find(goes).map(|oldest| self.next_of_run(view, oldest));
        let beside_writes = || {
            let written = self.best.written();
            let times = written.times_few_reads(view.now) - u64::from(written.take_turns());
            let changes = PATIENT_CHANGES * times;
            let patience = self.streams.change(view) * changes;
            let streams = self.streams.streams();
            let goes = |queued: &&Queued| {
                queued.request.op == Op::Read
                    && queued.submitted + patience <= view.now
                    && queued.deadline.is_none()
                    && is_rest(streams.owner(&queued.request))
            };
            oldest().find(goes)
        };
        view.probable_hit()
            .or_else(write)
            .or_else(|| self.writes_wait(view).then(beside_writes).flatten())
            .filter(in_time)
    }

    /// A write in sequence of a volume with a reservation whose client pauses, so that it has no
    /// run, if the drive takes it into its cache: it costs the run of another little.
    pub(super) fn write_between_runs<'a>(&self, view: &View<'a>) -> Option<&'a Queued> {
        let written = self.best.written();
        let goes = |queued: &&Queued| {
            is_cached_write(&queued.request)
                && !self.forces(view, &queued.request)
                && self.allows(view, view.now, Some((&[queued.ticket], &queued.target)))
        };
        let mut pausing = self.turns.pausing(view, |queued| estimate_of(written, view, queued));
        pausing.find_map(|state| state.queue().oldest().filter(goes))
    }

    /// The write that continues the last command, if it goes into the drive's cache and came no
    /// later than a change after the oldest that does: of the files that a page cache writes
    /// at once, one by one costs the drive fewer seeks.
    fn next_of_run<'a>(&self, view: &View<'a>, oldest: &'a Queued) -> &'a Queued {
        let latest = oldest.submitted + self.streams.change(view);
        let in_time = |next: &&Queued| next.submitted <= latest && self.goes_into_cache(view, next);
        continues(view).filter(in_time).unwrap_or(oldest)
    }

    /// Returns whether writers in sequence take turns, or a write at the drive waits for room in
    /// its cache, and reads are not many: each would wait for all that the drive destages until
    /// then.
    fn writes_wait(&self, view: &View<'_>) -> bool {
        let written = self.best.written();
        let waits = |command: &Outstanding| {
            command.requests.first().is_some_and(|first| is_cached_write(&first.request))
        };
        written.take_turns()
            || written.may_take_turns(view.now)
                && view.belief.takes_into_cache(Op::Write)
                && written.cache(view) == WriteCache::FullOrNone
                && view.outstanding.iter().any(waits)
    }

    /// Returns whether a request goes into the drive's cache beside the turns. With time to spare,
    /// and if it is of a slow or light writer, it does so also where the cache is full, if it
    /// extends what that holds.
    fn goes_into_cache(&self, view: &View<'_>, queued: &Queued) -> bool {
        let has_room = || self.best.written().cache(view) == WriteCache::HasRoom;
        let extends = || {
            self.streams.streams().extends_cached(&queued.request)
                && (self.streams.has_time_to_spare(view)
                    || self.passes_slow_write(queued)
                    || self.is_of_light_run(queued) && self.destages_with_others(view, queued))
        };
        view.belief.takes_into_cache(Op::Write)
            && self.passes(view, queued)
            && (has_room() || extends())
    }

    /// As [`StreamTurns::destages_with_others`](crate::policies::stream_turns::StreamTurns).
    fn destages_with_others(&self, view: &View<'_>, queued: &Queued) -> bool {
        let (tenant, written) = (tenant_of(view, queued), self.best.written());
        self.streams.destages_with_others(view, tenant, queued, written)
    }

    /// Returns whether a request belongs to the run of a light writer.
    fn is_of_light_run(&self, queued: &Queued) -> bool {
        let streams = self.streams.streams();
        streams.run_of(queued.request.id).is_some_and(|run| streams.is_light(run))
    }

    /// Returns whether a command at the drive needs no arm.
    pub(super) fn is_beside_arm(&self, view: &View<'_>, command: &Outstanding) -> bool {
        let goes = |first: &Queued| self.goes_into_cache(view, first);
        command.probably_cached || command.requests.first().is_some_and(goes)
    }

    /// Returns whether a request goes into the drive's cache beside the turns, if that has room.
    /// Without time to spare that is a write which the drive destages with others, or one of an
    /// owner that has used less than that of the turn; any other would take the time of reads.
    fn passes(&self, view: &View<'_>, queued: &Queued) -> bool {
        is_cached_write(&queued.request)
            && !self.best.written().take_turns()
            && (self.streams.has_time_to_spare(view)
                || self.destages_with_others(view, queued)
                || self.streams.has_used_less_than_turn(tenant_of(view, queued), queued)
                || self.passes_slow_write(queued)
                || self.is_of_only_run(view, queued))
    }

    /// Returns whether a write of a slow writer goes into the drive's cache beside the turns: the
    /// drive gathers such writes, or destages so few that they cost others little.
    fn passes_slow_write(&self, queued: &Queued) -> bool {
        let streams = self.streams.streams();
        streams.is_of_slow_writer(&queued.request)
            && (streams.slow_writers().is_some_and(|time| time <= FEW_SLOW)
                || self.gathers_slow_writes())
    }

    /// Returns whether a write of a slow writer goes into the drive's cache in the turn of another
    /// run.
    pub(super) fn passes_turn_of_run(&self, view: &View<'_>, queued: &Queued) -> bool {
        self.passes_slow_write(queued)
            && self.turn_of_another(view, queued).is_some_and(|owner| !is_rest(owner))
    }

    /// Returns whether a write into the cache is the next command of a drive that takes one at a
    /// time, where it cannot be sent beside another: if its owner has used little more time than
    /// the others, and otherwise once it has waited for a change. In the turn of writes in bulk,
    /// all of which wait, the cheapest goes.
    pub(super) fn goes_as_single_command(&self, view: &View<'_>, queued: &Queued) -> bool {
        let has_waited = || queued.submitted + self.streams.change(view) <= view.now;
        let is_in_bulk =
            || matches!(self.streams.streams().owner(&queued.request), Owner::Writes(_));
        view.max_outstanding == 1
            && !self.best.written().take_turns()
            && (self.streams.has_used_little(tenant_of(view, queued), queued) || has_waited())
            && (self.turn_of_another(view, queued).is_some() || !is_in_bulk())
    }

    /// Returns whether the drive is to gather the writes of slow writers in its cache: between two
    /// commands it destages them, unless it has another command already.
    pub(super) fn gathers_slow_writes(&self) -> bool {
        let time = self.streams.streams().slow_writers();
        time.is_some_and(|time| time >= MANY_SLOW || self.best.written().are_forced())
    }

    /// Returns whether all requests held are of the run of this one, and no other has its turn:
    /// the next request of that may be expected.
    pub(super) fn is_of_only_run(&self, view: &View<'_>, queued: &Queued) -> bool {
        if self.turn_of_another(view, queued).is_some() {
            return false;
        }
        let streams = self.streams.streams();
        let at_drive = view.outstanding.iter().map(|command| command.requests.len());
        let all = view.queue.len() + at_drive.sum::<usize>();
        streams.run_of(queued.request.id).is_some_and(|run| streams.held(run) == all)
    }

    /// The owner of the turn that is on, if it is another than that of this request.
    fn turn_of_another(&self, view: &View<'_>, queued: &Queued) -> Option<Owner> {
        let own = self.streams.streams().owner(&queued.request);
        self.streams.turn_of(tenant_of(view, queued)).filter(|owner| *owner != own)
    }
}
