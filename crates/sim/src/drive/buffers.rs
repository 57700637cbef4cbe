//! The drive's use of its buffer memory: read hits and read-ahead; in `writes.rs` cached writes and
//! the way of written data to the media.
//!
//! *Reads.* A read whose sectors are all cached crosses the bus at once and never enters the queue.
//! A read that starts in the read-ahead, while nothing else waits for the arm, continues it: the
//! head stays until the sectors have passed. Any other read enters the queue for its uncached
//! sectors, which are looked up again when it is served.
//!
//! *Read-ahead* starts where a read from the media ends. It ends with the allowance after the last
//! read, the end of the drive, written data in the way, or a command that takes the arm; the sector
//! under the head is then lost. Sequential reads renew the allowance, and restart the read-ahead
//! when half of it has been used and the arm is free. A drive that reads whole tracks keeps the
//! sectors that passed since the head's arrival and continues until the last track of the read has
//! passed once. If it is interrupted earlier, it drops the sectors before the arrival.

mod writes;

use headtime_mechanics::cache::{CacheTimes, RowId, SegmentCache, WrittenRow};
use headtime_mechanics::profile::{Algorithm, Cache};
use headtime_mechanics::{Direction, Mechanism, Variation as _};
use headtime_sched::{CommandId, Op};
use headtime_units::{Extent, Instant, Lba, Sectors};

use super::arm::{ActiveReadAhead, DriveArm, QueuedPart};
use super::landing::{Landing, StorageLayer};
use super::{ArmPart, MediaWork, SimulatedDrive};
use crate::device::Breakdown;
use crate::truth::InstanceVariation;

/// The buffer memory and the commands that wait for it.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    pub(super) segments: SegmentCache,
    times: CacheTimes,
    write_back: bool,
    read_ahead: u64,
    whole_track: bool,
    within_track: bool,
    /// Commands that wait for written rows to reach the media, in order of arrival.
    pub(super) blocked: Vec<BlockedPart>,
    pub(super) flushes: Vec<PendingFlush>,
    /// The number of flushes so far; rows remember it to tell which flushes came after them.
    mark: u64,
}

/// A command, or part of one, that waits for written rows to reach the media.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockedPart {
    pub(super) part: ArmPart,
    submitted: Instant,
    ready_at: Instant,
    not_before: Instant,
    /// True if it goes to the cache afterwards, false if it goes to the queue.
    to_cache: bool,
}

/// A flush that waits for rows to reach the media.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingFlush {
    pub(super) command: CommandId,
    submitted: Instant,
    ready_at: Instant,
    mark: u64,
}

/// The next row to write to the media, and its earliest start.
#[derive(Clone, Copy, Debug)]
struct NextWriteback {
    at: Instant,
    /// True if a command waits for it.
    awaited: bool,
}

impl Buffers {
    pub(super) fn new(cache: &Cache) -> Self {
        Self {
            segments: SegmentCache::new(cache),
            times: CacheTimes::new(cache),
            write_back: cache.write_back,
            read_ahead: u64::from(if cache.read_ahead_within_track {
                cache.read_ahead_sectors
            } else {
                cache.read_ahead_sectors.min(cache.segment_sectors)
            }),
            whole_track: cache.whole_track,
            within_track: cache.read_ahead_within_track,
            blocked: Vec::new(),
            flushes: Vec::new(),
            mark: 0,
        }
    }

    /// The end of a read-ahead from `next` that follows a read up to `end`, in the addresses of an
    /// arm that starts at `base` in the cache.
    fn limit(
        &self,
        mechanism: &Mechanism<InstanceVariation>,
        base: u64,
        next: u64,
        end: u64,
    ) -> u64 {
        let layout = mechanism.layout();
        let track_end = || layout.track_extent(layout.track_of(Lba::new(end - 1))).end().get();
        let end = match (self.whole_track, self.within_track) {
            (true, _) => track_end(),
            (false, true) => (end + self.read_ahead).min(track_end()),
            (false, false) => (end + self.read_ahead).min(layout.capacity().get()),
        };
        end.min(self.next_unsaved(base, next)).max(next)
    }

    /// The first unsaved sector from `from` on, in the addresses of an arm that starts at `base`.
    fn next_unsaved(&self, base: u64, from: u64) -> u64 {
        let unsaved = self.segments.next_unsaved(Lba::new(base + from));
        unsaved.map_or(u64::MAX, |unsaved| unsaved.get() - base)
    }

    /// The written rows of one arm, and whether a command waits for one of them.
    fn rows(&self, base: u64, sectors: u64) -> (impl Iterator<Item = WrittenRow> + '_, bool) {
        let here = move |row: &WrittenRow| (base..base + sectors).contains(&row.extent.start.get());
        let urgent = self.segments.written_rows().any(|row| here(&row) && row.urgent);
        let awaited = urgent || !self.blocked.is_empty();
        (
            self.segments.written_rows().filter(move |row| here(row) && (row.urgent || !urgent)),
            awaited,
        )
    }

    fn next_row(&self, arm: &DriveArm, base: u64, sectors: u64) -> Option<NextWriteback> {
        if arm.saving.is_some() || self.segments.oldest_mark().is_none() {
            return None;
        }
        let (rows, awaited) = self.rows(base, sectors);
        let arrived = rows.map(|row| row.arrived).min()?;
        if awaited {
            return Some(NextWriteback { at: arrived.max(arm.head_free), awaited });
        }
        if !arm.queue.waiting().is_empty() {
            return None;
        }
        let through = arm.ahead.map_or(arm.head_free, |ahead| ahead.until.max(arm.head_free));
        Some(NextWriteback { at: (arrived + self.times.write_delay).max(through), awaited })
    }
}

/// The cache address of an arm's first sector. A gap of one sector keeps the rows of the two arms
/// apart.
pub(super) fn base(arm: usize, arm_sectors: u64) -> u64 {
    arm as u64 * (arm_sectors + 1)
}

impl SimulatedDrive {
    fn base(&self, arm: usize) -> u64 {
        base(arm, self.arm_sectors)
    }

    fn in_cache(&self, arm: usize, extent: Extent) -> Extent {
        Extent::new(Lba::new(self.base(arm) + extent.start.get()), extent.len)
    }

    /// The arm's next choice, cache included.
    pub(super) fn next_choice_cached(&self, arm: usize) -> Instant {
        let Some(buffers) = &self.buffers else { return Instant::NEVER };
        let row = buffers.next_row(&self.arms[arm], self.base(arm), self.arm_sectors);
        self.arms[arm].next_command_at().min(row.map_or(Instant::NEVER, |row| row.at))
    }

    pub(super) fn submit_cached(&mut self, now: Instant, part: ArmPart) {
        self.update_read_ahead(part.arm, now);
        match part.op {
            Op::Read => self.submit_read(now, part),
            _ => self.submit_write(now, part),
        }
    }

    fn submit_read(&mut self, now: Instant, part: ArmPart) {
        let Some(buffers) = &mut self.buffers else { return };
        let before = self.received.replace(Direction::Read);
        let hit_at = now + buffers.times.hit_overhead(Direction::Read, before);
        let cached = self.in_cache(part.arm, part.extent);
        let Some(buffers) = &mut self.buffers else { return };
        let held = buffers.segments.held(cached);
        if held.sectors == part.extent.len {
            return self.serve_hit(now, part, hit_at, hit_at, now);
        }
        if self.continues_read_ahead(part.arm, part.extent, held.sectors, hit_at, now) {
            return self.serve_from_read_ahead(now, part, held.sectors, hit_at, now);
        }
        let ready_at = now + self.interface.command_overhead(Direction::Read, before);
        self.wait_in_queue(now, part, ready_at, held.sectors, Instant::ORIGIN);
    }

    /// Queues a command for all but its first `held` sectors, or blocks it if written data are in
    /// its way.
    fn wait_in_queue(
        &mut self,
        submitted: Instant,
        part: ArmPart,
        ready_at: Instant,
        held: Sectors,
        not_before: Instant,
    ) {
        let extent =
            Extent::new(Lba::new(part.extent.start.get() + held.get()), part.extent.len - held);
        let missing = self.in_cache(part.arm, extent);
        if let Some(buffers) = &mut self.buffers
            && buffers.segments.overlaps_written(missing)
        {
            buffers.segments.mark_urgent(missing);
            buffers.blocked.push(BlockedPart {
                part,
                submitted,
                ready_at,
                not_before,
                to_cache: false,
            });
            return;
        }
        let waiting =
            QueuedPart { op: part.op, extent: part.extent, submitted, ready_at, not_before };
        self.enqueue(part, extent, waiting);
    }

    /// Serves a read whose sectors are all in the cache, or will be: they cross the bus from `from`
    /// on.
    fn serve_hit(
        &mut self,
        now: Instant,
        part: ArmPart,
        ready_at: Instant,
        from: Instant,
        submitted: Instant,
    ) {
        let cached = self.in_cache(part.arm, part.extent);
        let Some(buffers) = &mut self.buffers else { return };
        let complete = buffers.segments.held(cached).complete;
        let follows = buffers.segments.touch(cached);
        let finished = self.cross_to_host(now, from, from.max(complete), part.extent.len);
        let waited = from.saturating_since(ready_at);
        let overhead = finished.saturating_since(submitted) - waited;
        self.reports.expect(
            part.command,
            finished,
            Breakdown { overhead, waited, ..Breakdown::default() },
        );
        self.land(Some(part.command), Op::Read, part.arm, part.extent, now, StorageLayer::Cache);
        if let Some((row, end)) = follows {
            self.extend_read_ahead(part.arm, now, part.extent.end(), row, end);
        }
    }

    /// The time at which the host sees a read whose sectors arrive in the drive from `from` to
    /// `until`.
    fn cross_to_host(
        &mut self,
        now: Instant,
        from: Instant,
        until: Instant,
        sectors: Sectors,
    ) -> Instant {
        let earliest = self.interface.read_burst_start(from, until, sectors).max(from);
        let burst = self.bus.reserve(now, earliest, self.interface.bus_time(sectors));
        self.interface.read_completion(burst, sectors)
    }

    /// True if continuing the read-ahead serves the uncached sectors of a read.
    fn continues_read_ahead(
        &self,
        arm: usize,
        extent: Extent,
        held: Sectors,
        known_at: Instant,
        now: Instant,
    ) -> bool {
        let (Some(ahead), Some(buffers)) = (self.arms[arm].ahead, &self.buffers) else {
            return false;
        };
        let awaited = buffers
            .next_row(&self.arms[arm], self.base(arm), self.arm_sectors)
            .is_some_and(|row| row.awaited);
        let missing = extent.start.get() + held.get();
        let under_way = ahead.limit_at >= known_at || extent.end().get() <= ahead.limit;
        let within = (ahead.next..=ahead.limit).contains(&missing);
        let unsaved = buffers.next_unsaved(self.base(arm), ahead.next);
        !awaited
            && within
            && under_way
            && self.arms[arm].continues_run(now)
            && unsaved >= extent.end().get()
    }

    /// Serves a read from the read-ahead, which continues as far as the read needs.
    fn serve_from_read_ahead(
        &mut self,
        now: Instant,
        part: ArmPart,
        held: Sectors,
        ready_at: Instant,
        submitted: Instant,
    ) {
        let base = self.base(part.arm);
        let cached = self.in_cache(part.arm, part.extent);
        let end = part.extent.end().get();
        let mechanism = self.truth.mechanism_of(part.arm);
        let (Some(buffers), arm) = (&mut self.buffers, &mut self.arms[part.arm]) else { return };
        let Some(ahead) = &mut arm.ahead else { return };
        buffers.segments.touch(cached);
        buffers.segments.note_read_until(ahead.row, Lba::new(base + end));
        ahead.sequential = true;
        let limit = buffers.limit(mechanism, base, ahead.next, end).max(end).max(ahead.limit);
        if end > ahead.limit {
            // The track under the head is no longer the last one.
            ahead.track = None;
        }
        ahead.plan(mechanism, limit);
        let read = ahead.reaches(mechanism, end);
        arm.head_free = arm.head_free.max(read);
        arm.ledger.read_ahead(now, read, ahead.until);
        let waited_until = arm.queue.next_ready_at().filter(|ready| *ready <= now);
        arm.queue.note_served(part.extent, true, waited_until);

        let began = ready_at.max(now);
        let finished = self.cross_to_host(now, began, read.max(began), part.extent.len);
        let transfer = read.saturating_since(began);
        let waited = began.saturating_since(ready_at);
        let overhead = finished.saturating_since(submitted) - transfer - waited;
        self.reports.expect(
            part.command,
            finished,
            Breakdown { overhead, waited, transfer, ..Breakdown::default() },
        );
        let missing = part.extent.start.get() + held.get();
        if !held.is_zero() {
            self.land(
                Some(part.command),
                Op::Read,
                part.arm,
                Extent::new(part.extent.start, held),
                now,
                StorageLayer::Cache,
            );
        }
        let rest = Extent::from_numbers(missing, end - missing);
        self.land(Some(part.command), Op::Read, part.arm, rest, read, StorageLayer::Media);
    }

    /// Extends the read-ahead after a sequential read has used part of it.
    fn extend_read_ahead(&mut self, arm: usize, now: Instant, end: Lba, row: RowId, row_end: Lba) {
        let base = self.base(arm);
        let mechanism = self.truth.mechanism_of(arm);
        let (Some(buffers), here) = (&self.buffers, &mut self.arms[arm]) else { return };
        if buffers.whole_track {
            return;
        }
        let next = row_end.get() - base;
        let limit = buffers.limit(mechanism, base, next, end.get());
        if let Some(ahead) = &mut here.ahead
            && ahead.row == row
        {
            ahead.sequential = true;
            if ahead.until > now {
                if limit > ahead.limit {
                    ahead.plan(mechanism, limit);
                    here.ledger.read_ahead(now, here.head_free, ahead.until);
                }
                return;
            }
        }
        let idle =
            here.queue.waiting().is_empty() && here.head_free <= now && here.saving.is_none();
        let used_half = (next - end.get().min(next)) * 2 <= buffers.read_ahead;
        let free = here.ahead.is_none_or(|ahead| ahead.until <= now);
        if idle && used_half && free && limit > next {
            self.stop_read_ahead(arm, now);
            self.set_spindle_at(arm, now);
            let here = &mut self.arms[arm];
            let mut ahead = ActiveReadAhead {
                row,
                from: here.head,
                depart: now,
                next,
                limit: next,
                limit_at: now,
                track: None,
                until: now,
                sequential: true,
            };
            ahead.plan(self.truth.mechanism_of(arm), limit);
            here.ledger.read_ahead(now, now, ahead.until);
            here.ahead = Some(ahead);
        }
    }

    /// Adds the sectors read ahead by `now` to the cache.
    pub(super) fn update_read_ahead(&mut self, arm: usize, now: Instant) {
        let base = self.base(arm);
        let mechanism = self.truth.mechanism_of(arm);
        let (Some(buffers), Some(ahead)) = (&mut self.buffers, &mut self.arms[arm].ahead) else {
            return;
        };
        let (from, to) = (ahead.next, ahead.reached(mechanism, now));
        let track = ahead.track.take_if(|(_, at)| *at <= now);
        if to > from {
            ahead.advance_to(mechanism, to);
            let depart = ahead.depart;
            if !buffers.segments.append(
                ahead.row,
                Lba::new(base + from),
                Lba::new(base + to),
                depart,
            ) {
                // The segment holds another row by now.
                (ahead.track, ahead.limit) = (None, to);
                ahead.plan(mechanism, to);
                let head_free = self.arms[arm].head_free;
                self.arms[arm].ledger.read_ahead(now, head_free, now);
                return;
            }
            self.land(
                None,
                Op::Read,
                arm,
                Extent::from_numbers(from, to - from),
                depart,
                StorageLayer::Cache,
            );
            self.set_spindle_at(arm, depart);
        }
        if let (Some((track, at)), Some(buffers), Some(ahead)) =
            (track, &mut self.buffers, &self.arms[arm].ahead)
        {
            let in_cache = Extent::new(Lba::new(base + track.start.get()), track.len);
            if buffers.segments.fill(ahead.row, in_cache, at) {
                self.land(None, Op::Read, arm, track, at, StorageLayer::Cache);
            }
        }
    }

    /// Stops the read-ahead: the sector under the head is lost, and the head is at the last whole
    /// one.
    pub(super) fn stop_read_ahead(&mut self, arm: usize, now: Instant) {
        self.update_read_ahead(arm, now);
        if let Some(ahead) = self.arms[arm].ahead.take() {
            self.arms[arm].head = ahead.from;
            self.arms[arm].ledger.read_ahead(now, now, now);
        }
    }

    /// Starts the next work of a free arm.
    pub(super) fn choose_cached(&mut self, arm: usize, now: Instant) {
        self.update_read_ahead(arm, now);
        let Some(buffers) = &self.buffers else { return };
        let row = buffers
            .next_row(&self.arms[arm], self.base(arm), self.arm_sectors)
            .filter(|row| row.at <= now);
        let command = self.arms[arm].next_command_at() <= now;
        let save = match row {
            Some(row) if command => row.awaited && self.arms[arm].write_next,
            Some(_) => true,
            None => false,
        };
        if !command && row.is_none() {
            // One nanosecond too early: the end of the read-ahead was computed again from a later
            // sector.
            return;
        }
        if save {
            self.arms[arm].write_next = false;
            return self.save(arm, now, row.is_some_and(|row| row.awaited));
        }
        self.arms[arm].write_next = true;
        if let Some(place) = self.continues_from_queue(arm, now) {
            let (part, waiting) = self.take_for_service(arm, now, place);
            let held = self.held_sectors(part);
            return self.serve_from_read_ahead(
                now,
                part,
                held,
                waiting.ready_at,
                waiting.submitted,
            );
        }
        // The choice departs from the current position of the head.
        if self.arms[arm].ahead.is_some() {
            self.stop_read_ahead(arm, now);
        }
        self.set_spindle_at(arm, now);
        let head = self.arms[arm].head;
        let place = self.arms[arm].queue.choose(now, head, self.truth.mechanism_of(arm));
        let place =
            place.expect("a choice is due only when the arm is free and a command is ready");
        let (part, waiting) = self.take_for_service(arm, now, place);
        if part.op == Op::Read {
            self.read_media(now, part, waiting);
        } else {
            self.write_media(now, part, waiting);
        }
    }

    /// A ready read that continues the read-ahead: it costs no positioning, so SPTF takes it; FCFS
    /// takes it only from the front of the queue.
    fn continues_from_queue(&self, arm: usize, now: Instant) -> Option<usize> {
        let here = &self.arms[arm];
        let ahead = here.ahead.filter(|ahead| ahead.limit_at >= now)?;
        let buffers = self.buffers.as_ref()?;
        let unsaved = buffers.next_unsaved(self.base(arm), ahead.next);
        let others_turn = (here.queue.hold_is_over(now) || here.queue.overdue(now).is_some())
            && here
                .queue
                .waiting()
                .iter()
                .filter(|command| command.ready_at <= now)
                .nth(1)
                .is_some();
        if others_turn {
            return None;
        }
        here.queue.waiting().iter().zip(&here.waiting).enumerate().find_map(
            |(place, (command, waiting))| {
                let turn = here.queue.algorithm() == Algorithm::Sptf
                    || place == 0
                    || here.queue.sequential_hold().is_some();
                let (start, end) = (waiting.extent.start.get(), waiting.extent.end().get());
                // All sectors before the head are cached, or the read starts at the head.
                let reached = start == ahead.next
                    || start < ahead.next && end > ahead.next && {
                        let before = Extent::from_numbers(start, ahead.next - start);
                        buffers.segments.holds(self.in_cache(arm, before))
                    };
                (turn
                    && waiting.op == Op::Read
                    && command.ready_at <= now
                    && reached
                    && end <= unsaved)
                    .then_some(place)
            },
        )
    }

    fn take_for_service(
        &mut self,
        arm: usize,
        now: Instant,
        place: usize,
    ) -> (ArmPart, QueuedPart) {
        let here = &mut self.arms[arm];
        let command = here.queue.serve(now, place);
        let waiting = here.waiting.remove(place);
        (
            ArmPart {
                command: CommandId(command.id),
                op: waiting.op,
                arm,
                extent: waiting.extent,
                fua: false,
            },
            waiting,
        )
    }

    fn held_sectors(&self, part: ArmPart) -> Sectors {
        let cached = self.in_cache(part.arm, part.extent);
        self.buffers.as_ref().map_or(Sectors::ZERO, |buffers| buffers.segments.held(cached).sectors)
    }

    /// Serves a queued read with the sectors that the cache does not hold by now.
    fn read_media(&mut self, now: Instant, part: ArmPart, waiting: QueuedPart) {
        let held = self.held_sectors(part);
        if held == part.extent.len {
            return self.serve_hit(now, part, waiting.ready_at, now, waiting.submitted);
        }
        let missing =
            Extent::new(Lba::new(part.extent.start.get() + held.get()), part.extent.len - held);
        let (cached, target) =
            (self.in_cache(part.arm, part.extent), self.in_cache(part.arm, missing));
        let Some(buffers) = &mut self.buffers else { return };
        if buffers.segments.overlaps_written(target) {
            return self.wait_in_queue(
                waiting.submitted,
                part,
                waiting.ready_at,
                held,
                Instant::ORIGIN,
            );
        }
        let follows = !held.is_zero()
            || buffers
                .segments
                .held(Extent::from_numbers(target.start.get().saturating_sub(1), 1))
                .sectors
                == Sectors::new(1);
        buffers.segments.touch(cached);
        let row = buffers.segments.begin_read(target.start);
        if !held.is_zero() {
            self.land(
                Some(part.command),
                Op::Read,
                part.arm,
                Extent::new(part.extent.start, held),
                now,
                StorageLayer::Cache,
            );
        }
        let media = self.work_at_media(now, part, missing, Instant::ORIGIN, false);
        self.land(Some(part.command), Op::Read, part.arm, missing, media.end, StorageLayer::Media);
        // Cached sectors are available from the start.
        let from = if held.is_zero() { media.first_sector } else { now.max(waiting.ready_at) };
        let finished = self.cross_to_host(now, from, media.end, part.extent.len);
        self.end_of_media_work(part.command, &media, &waiting, finished);
        if let Some(row) = row {
            self.start_read_ahead(part.arm, row, missing, &media, follows);
        }
    }

    /// Starts the read-ahead after a read from the media.
    fn start_read_ahead(
        &mut self,
        arm: usize,
        row: RowId,
        read: Extent,
        media: &MediaWork,
        sequential: bool,
    ) {
        let base = self.base(arm);
        let mechanism = self.truth.mechanism_of(arm);
        let (Some(buffers), here) = (&mut self.buffers, &mut self.arms[arm]) else { return };
        let (next, read_at) = (read.end().get(), media.end);
        let mut first = read.start.get();
        let mut limit = buffers.limit(mechanism, base, next, next);
        let mut track = None;
        if buffers.whole_track
            && let Some((of_track, arrived_at, all_at)) = track_coming_by(mechanism, read, media)
        {
            let start = of_track.start.get();
            // The sectors that passed before the read started, on the same row.
            let earlier = if arrived_at <= first { arrived_at } else { start };
            let before = Extent::from_numbers(base + earlier, first - earlier);
            if !sequential && !buffers.segments.overlaps_written(before) {
                first = earlier;
            }
            if arrived_at >= next {
                // The head saw the rest of the track on its way to the read.
                limit = limit.min(arrived_at);
            } else if arrived_at > read.start.get() {
                limit = next;
            }
            track = Some((of_track, all_at.max(read_at)));
        }
        buffers.segments.append(row, Lba::new(base + first), Lba::new(base + next), read_at);
        buffers.segments.note_read_until(row, Lba::new(base + next));
        let mut ahead = ActiveReadAhead {
            row,
            from: here.head,
            depart: read_at,
            next,
            limit: next,
            limit_at: read_at,
            track,
            until: read_at,
            sequential,
        };
        ahead.plan(mechanism, limit);
        here.ledger.read_ahead(media.began, read_at, ahead.until);
        here.ahead = Some(ahead);
        self.land(
            None,
            Op::Read,
            arm,
            Extent::from_numbers(first, next - first),
            read_at,
            StorageLayer::Cache,
        );
    }

    /// Removes a command that waits for the cache; returns whether there was one.
    pub(super) fn forget_waiting(&mut self, command: CommandId) -> bool {
        let Some(buffers) = &mut self.buffers else { return false };
        let before = buffers.flushes.len() + buffers.blocked.len();
        buffers.flushes.retain(|flush| flush.command != command);
        buffers.blocked.retain(|kept| kept.part.command != command);
        buffers.flushes.len() + buffers.blocked.len() < before
    }

    pub(super) fn land(
        &mut self,
        command: Option<CommandId>,
        op: Op,
        arm: usize,
        extent: Extent,
        at: Instant,
        layer: StorageLayer,
    ) {
        let first = arm as u64 * self.arm_sectors;
        if let Some(landings) = &mut self.landings {
            let extent = Extent::new(Lba::new(first + extent.start.get()), extent.len);
            landings.push(Landing { command, op, extent, at, layer });
        }
    }
}

/// For a read that lies on one track: the track's sectors, the first one that started to pass after
/// the head's arrival, and the time at which all have passed.
fn track_coming_by(
    mechanism: &Mechanism<InstanceVariation>,
    read: Extent,
    media: &MediaWork,
) -> Option<(Extent, u64, Instant)> {
    let layout = mechanism.layout();
    let track = layout.track_of(read.last());
    let sectors = layout.track_extent(track);
    if sectors.intersection(read) != Some(read) {
        return None;
    }
    let arrival = media.began + media.seek;
    let (angle, shift) = (mechanism.angle_at(arrival), mechanism.variation().track_angle(track));
    let first = track.sector(layout.first_sector_from(track, angle - shift));
    let began =
        arrival + mechanism.period().time_of(angle.until(layout.sector_angle(first) + shift));
    // A sector without an address is treated as the start of the read.
    let lba =
        layout.physical_to_lba(first).filter(|lba| sectors.contains(*lba)).unwrap_or(read.start);
    Some((sectors, lba.get(), began + mechanism.period().as_nanos()))
}
