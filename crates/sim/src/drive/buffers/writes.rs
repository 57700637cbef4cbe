//! Cached writes, their way to the media, and flushes.
//!
//! *Writes* of a write-back drive complete when their data have arrived in a segment; without a
//! free segment they wait. Forced writes and writes longer than a segment enter the queue. Written
//! rows go to the media
//! - when the arm has been free since they came for the profile's write delay, and the read-ahead
//!   has ended (background work);
//! - when a flush, a write without a segment, or a command over unsaved sectors waits. Rows and
//!   commands then alternate, urgent rows first, by the queue's algorithm.
//!
//! *A flush* completes when every row that held written data at its arrival is on the media.

use headtime_mechanics::cache::{WriteRefused, WrittenRow};
use headtime_mechanics::profile::Algorithm;
use headtime_mechanics::{Direction, Mechanism};
use headtime_sched::{Command, CommandId, Op};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use super::{BlockedPart, PendingFlush};
use crate::device::Breakdown;
use crate::drive::arm::{DriveArm, QueuedPart, Writeback};
use crate::drive::landing::StorageLayer;
use crate::drive::{ArmPart, SimulatedDrive, direction_of};
use crate::truth::InstanceVariation;

impl SimulatedDrive {
    pub(super) fn submit_write(&mut self, now: Instant, part: ArmPart) {
        let before = self.received.replace(Direction::Write);
        let Some(buffers) = &self.buffers else { return };
        let fits = part.extent.len <= buffers.segments.segment_sectors();
        if buffers.write_back && !part.fua && fits {
            let ready_at = now + buffers.times.hit_overhead(Direction::Write, before);
            let kept = BlockedPart {
                part,
                submitted: now,
                ready_at,
                not_before: Instant::ORIGIN,
                to_cache: true,
            };
            if !self.write_to_cache(now, kept)
                && let Some(buffers) = &mut self.buffers
            {
                buffers.blocked.push(kept);
            }
            return;
        }
        let ready_at = now + self.interface.command_overhead(Direction::Write, before);
        let not_before = self.data_arrive(now, part, ready_at);
        self.wait_in_queue(now, part, ready_at, Sectors::ZERO, not_before);
    }

    /// Writes to the cache; false if the cache does not accept the write.
    fn write_to_cache(&mut self, now: Instant, kept: BlockedPart) -> bool {
        let BlockedPart { part, submitted, ready_at, .. } = kept;
        let cached = self.in_cache(part.arm, part.extent);
        let began = ready_at.max(now);
        let Some(buffers) = &mut self.buffers else { return false };
        let row = match buffers.segments.write(cached, began, buffers.mark) {
            Ok(row) => row,
            Err(WriteRefused::TooLong | WriteRefused::Overlaps | WriteRefused::Full) => {
                return false;
            }
        };
        let arrived = match part.op {
            Op::Write => {
                let time = self.interface.bus_time(part.extent.len);
                self.bus.reserve(now, began, time) + time
            }
            _ => began,
        };
        buffers.segments.arrives(row, arrived);
        self.end_read_ahead_before(now, part);
        let finished = self.interface.write_completed(arrived);
        let waited = began.saturating_since(ready_at);
        let overhead = finished.saturating_since(submitted) - waited;
        self.reports.expect(
            part.command,
            finished,
            Breakdown { overhead, waited, ..Breakdown::default() },
        );
        self.land(Some(part.command), part.op, part.arm, part.extent, now, StorageLayer::Cache);
        true
    }

    /// Ends the read-ahead before written data.
    fn end_read_ahead_before(&mut self, now: Instant, part: ArmPart) {
        let mechanism = self.truth.mechanism_of(part.arm);
        let arm = &mut self.arms[part.arm];
        if let Some(ahead) = &mut arm.ahead
            && (ahead.next..ahead.limit).contains(&part.extent.start.get())
        {
            ahead.plan(mechanism, part.extent.start.get());
            arm.ledger.read_ahead(now, arm.head_free, ahead.until);
        } else if let Some(ahead) = &mut arm.ahead
            && part.extent.overlaps(Extent::from_numbers(ahead.next, ahead.limit - ahead.next))
        {
            ahead.plan(mechanism, ahead.next);
            arm.ledger.read_ahead(now, arm.head_free, ahead.until);
        }
    }

    /// Submits a flush to a drive with a cache.
    pub(in crate::drive) fn submit_flush(
        &mut self,
        now: Instant,
        command: &Command,
        overhead: Nanos,
    ) -> bool {
        let Some(buffers) = &mut self.buffers else { return false };
        if buffers.segments.oldest_mark().is_none() {
            return false;
        }
        buffers.flushes.push(PendingFlush {
            command: command.id,
            submitted: now,
            ready_at: now + overhead,
            mark: buffers.mark,
        });
        buffers.mark += 1;
        buffers.segments.mark_all_urgent();
        true
    }

    /// Serves a queued write.
    pub(super) fn write_media(&mut self, now: Instant, part: ArmPart, waiting: QueuedPart) {
        let target = self.in_cache(part.arm, part.extent);
        if self.buffers.as_ref().is_some_and(|buffers| buffers.segments.overlaps_written(target)) {
            return self.wait_in_queue(
                waiting.submitted,
                part,
                waiting.ready_at,
                Sectors::ZERO,
                waiting.not_before,
            );
        }
        let media = self.work_at_media(now, part, part.extent, waiting.not_before, false);
        if let Some(buffers) = &mut self.buffers {
            buffers.segments.forget(target);
        }
        self.land(
            Some(part.command),
            part.op,
            part.arm,
            part.extent,
            media.end,
            StorageLayer::Media,
        );
        let finished = self.interface.write_completed(media.end);
        self.end_of_media_work(part.command, &media, &waiting, finished);
    }

    /// Writes a row to the media.
    pub(super) fn save(&mut self, arm: usize, now: Instant, awaited: bool) {
        self.stop_read_ahead(arm, now);
        self.set_spindle_at(arm, now);
        let (base, sectors) = (self.base(arm), self.arm_sectors);
        let mechanism = self.truth.mechanism_of(arm);
        let (Some(buffers), here) = (&mut self.buffers, &self.arms[arm]) else { return };
        let local =
            |row: &WrittenRow| Extent::new(Lba::new(row.extent.start.get() - base), row.extent.len);
        let (rows, _) = buffers.rows(base, sectors);
        let rows = rows.filter(|row| row.arrived <= now);
        let chosen = match here.queue.algorithm() {
            Algorithm::Fcfs => rows.min_by_key(|row| (row.mark, row.arrived)),
            Algorithm::Sptf => {
                rows.min_by_key(|row| positioning(mechanism, here, now, local(row).start))
            }
        };
        let Some(row) = chosen else { return };
        let extent = local(&row);
        buffers.segments.begin_save(row.id);
        let part = ArmPart { command: CommandId(0), op: Op::Write, arm, extent, fua: false };
        let media = self.work_at_media(now, part, extent, Instant::ORIGIN, !awaited);
        self.land(None, Op::Write, arm, extent, media.end, StorageLayer::Media);
        self.arms[arm].saving = Some(Writeback { row: row.id, end: media.end });
    }

    /// A row has reached the media: flushes may complete, and blocked commands may continue.
    pub(in crate::drive) fn saved(&mut self, arm: usize, now: Instant) {
        let (Some(saving), Some(buffers)) = (self.arms[arm].saving.take(), &mut self.buffers)
        else {
            return;
        };
        buffers.segments.end_save(saving.row);
        let oldest = buffers.segments.oldest_mark().unwrap_or(u64::MAX);
        while let Some(place) = buffers.flushes.iter().position(|flush| flush.mark < oldest) {
            let flush = buffers.flushes.remove(place);
            let finished = flush.ready_at.max(now) + self.interface.completion_overhead();
            let waited = now.saturating_since(flush.ready_at);
            let overhead = finished.saturating_since(flush.submitted) - waited;
            self.reports.expect(
                flush.command,
                finished,
                Breakdown { overhead, waited, ..Breakdown::default() },
            );
        }
        for kept in std::mem::take(&mut buffers.blocked) {
            self.update_read_ahead(kept.part.arm, now);
            if kept.to_cache {
                if !self.write_to_cache(now, kept)
                    && let Some(buffers) = &mut self.buffers
                {
                    buffers.blocked.push(kept);
                }
            } else {
                let held = if kept.part.op == Op::Read {
                    self.held_sectors(kept.part)
                } else {
                    Sectors::ZERO
                };
                if held == kept.part.extent.len {
                    self.serve_hit(
                        now,
                        kept.part,
                        kept.ready_at,
                        kept.ready_at.max(now),
                        kept.submitted,
                    );
                } else {
                    self.wait_in_queue(
                        kept.submitted,
                        kept.part,
                        kept.ready_at,
                        held,
                        kept.not_before,
                    );
                }
            }
        }
    }
}

fn positioning(
    mechanism: &Mechanism<InstanceVariation>,
    arm: &DriveArm,
    now: Instant,
    start: Lba,
) -> Nanos {
    mechanism.positioning(arm.head, now, direction_of(Op::Write), start).total()
}
