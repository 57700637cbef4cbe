//! [`SimulatedDrive`]: a rotating drive as a state machine.
//!
//! A submitted command is ready after its command overhead and waits in the drive's own queue. When
//! the arm is free, the firmware chooses a command; the mechanism seeks, waits for rotation and
//! transfers; data cross the bus; the host sees the report after the completion overhead. The whole
//! access is computed when it starts, so the drive has few events: a choice, a completion, a
//! report. With a cache ([`buffers`]) some reads and writes bypass the queue, and the drive writes
//! cached data to the media by itself.
//!
//! Worked example, overhead 0.2 ms, completion 0: a read is submitted at 0 and ready at 0.2 ms; the
//! arm takes 5 ms, the sector arrives 3 ms later and passes in 0.1 ms: media end at 8.3 ms, last
//! sector over the bus at 8.306 ms, reported then. A second read submitted at 1 ms is ready at 1.2
//! ms and starts at 8.3 ms; its overhead is overlapped.
//!
//! With read-ahead and a hit overhead of 0.1 ms, the head continues to read after the first read.
//! The host asks for the following sectors at 8.4 ms. At 8.5 ms the drive has decoded the command
//! and read 0.2 ms of them. They cross the bus as they are read, and the read ends with the last
//! sector: the media never stop.
//!
//! An event that is due before `now` is processed before anything at `now`, so a late
//! [`Device::advance`] changes no time but that of the call.
//!
//! - Modelled: one mechanism, or two arms over one spindle, with the true geometry of the instance;
//!   command, bus and completion overhead, overlapped with the media access of other commands; a
//!   firmware queue of the profile's depth, FCFS or SPTF on true positions, with or without a hold
//!   for sequential runs; writes that wait for their data; writes of partial physical sectors
//!   ([`media`]); read-ahead, write-back and the cost of a flush ([`buffers`]); spindle drift;
//!   sectors remapped at run time; exponentially distributed report jitter that keeps the order of
//!   completions, and reports that a busy host sees late; arm times with a random part and a slow
//!   drift; accesses that lose a revolution; recalibrations; an arm that work of the drive's own
//!   has moved in idle time; rare slow accesses.
//! - Not modelled: retries after errors, the state after power loss (see [`Landing`] for models of
//!   both), spin-down.
//! - Differs from a drive: the command overheads of two commands submitted together overlap, as if
//!   each had its own processor; a discard costs its overhead only; cached writes delay the host's
//!   next read by no grace period unless the profile has a write delay; a command chosen while the
//!   arm moves to the next track of a read-ahead departs from the previous track.

mod arm;
mod buffers;
mod landing;
mod media;
mod reports;

use headtime_mechanics::{
    Bus, Direction, FirmwareCommand, FirmwareQueue, HeadPosition, InterfaceTimes, ProfileError,
};
use headtime_sched::{Command, CommandId, DriveTraits, Op};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::device::{Breakdown, Device, DriveCompletion};
use crate::truth::{DriveTruth, NoiseSource};
use arm::{DriveArm, QueuedPart};
use buffers::Buffers;
use headtime_mechanics::DiskTime;
pub use landing::{Landing, StorageLayer};
use reports::ReportQueue;

/// A rotating drive in virtual time.
#[derive(Clone, Debug)]
pub struct SimulatedDrive {
    truth: DriveTruth,
    interface: InterfaceTimes,
    bus: Bus,
    noise: NoiseSource,
    /// All events before this time have happened.
    now: Instant,
    arms: Vec<DriveArm>,
    /// Sectors under one arm.
    arm_sectors: u64,
    /// Logical sectors in a physical sector.
    physical: u64,
    /// Commands submitted and neither reported nor given up.
    held: usize,
    /// The direction of the last command received; the overhead of the next one depends on it.
    received: Option<Direction>,
    buffers: Option<Box<Buffers>>,
    reports: ReportQueue,
    landings: Option<Vec<Landing>>,
}

/// A command, or its part on one arm, in that arm's addresses.
#[derive(Clone, Copy, Debug)]
struct ArmPart {
    command: CommandId,
    op: Op,
    arm: usize,
    extent: Extent,
    fua: bool,
}

/// One access to the media.
#[derive(Clone, Copy, Debug)]
struct MediaWork {
    began: Instant,
    seek: Nanos,
    /// Includes the time lost to an outlier.
    rotate: Nanos,
    transfer: Nanos,
    first_sector: Instant,
    end: Instant,
}

impl SimulatedDrive {
    /// A drive at rest at the origin of the clock, with its heads over the first track.
    ///
    /// # Errors
    /// Any error in the truth's profile.
    pub fn new(truth: DriveTruth) -> Result<Self, ProfileError> {
        let profile = truth.profile();
        let interface = InterfaceTimes::from_profile(profile)?;
        let noise = truth.noise_source();
        let queue = FirmwareQueue::new(&profile.firmware);
        Ok(Self {
            interface,
            bus: Bus::new(),
            noise,
            now: Instant::ORIGIN,
            arms: (0..truth.arms()).map(|_| DriveArm::new(queue.clone())).collect(),
            arm_sectors: truth.mechanism().layout().capacity().get(),
            physical: u64::from(
                profile.physical_sector_bytes.unwrap_or(profile.sector_bytes)
                    / profile.sector_bytes,
            ),
            held: 0,
            received: None,
            buffers: profile.cache.as_ref().map(|cache| Box::new(Buffers::new(cache))),
            reports: ReportQueue::new(),
            landings: None,
            truth,
        })
    }

    /// The properties that a scheduler needs. The drive honors force unit access: a forced write
    /// bypasses the write-back cache.
    #[must_use]
    pub fn traits(&self) -> DriveTraits {
        DriveTraits { queue_depth: self.queue_depth(), fua: true }
    }

    /// Starts to record landings for [`SimulatedDrive::take_landings`].
    pub fn record_landings(&mut self) {
        self.landings = Some(Vec::new());
    }

    /// The reads and writes of sectors since the last call, in the order in which they take effect.
    /// Empty unless recorded.
    pub fn take_landings(&mut self) -> Vec<Landing> {
        self.landings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Commands held: submitted and neither reported nor given up.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Processes all events before `now` (and at `now`, if `including`).
    fn run(&mut self, now: Instant, including: bool) {
        assert!(now >= self.now, "time ran back from {} to {now} at the simulated drive", self.now);
        loop {
            let (at, event) = self.next_internal();
            if at > now || (at == now && !including) || at == Instant::NEVER {
                break;
            }
            match event {
                DriveEvent::Ending => {
                    let jitter = self.noise.late();
                    if self.reports.end(jitter) {
                        self.report();
                    }
                }
                DriveEvent::Report => self.report(),
                DriveEvent::Saved(arm) => {
                    self.saved(arm, at);
                    self.plan(at);
                }
                DriveEvent::Choice(arm) => {
                    self.choose(arm, at);
                    self.plan(at);
                }
            }
        }
        self.now = now;
    }

    /// The next event, at [`Instant::NEVER`] if there is none. Of simultaneous events, completions
    /// come before reports, then write-backs, then choices.
    fn next_internal(&self) -> (Instant, DriveEvent) {
        let (mut at, mut event) = (self.reports.next_ending(), DriveEvent::Ending);
        let mut consider = |candidate: Instant, is: DriveEvent| {
            if candidate < at {
                (at, event) = (candidate, is);
            }
        };
        consider(self.reports.next_report(), DriveEvent::Report);
        if self.buffers.is_some() {
            for (number, arm) in self.arms.iter().enumerate() {
                consider(
                    arm.saving.map_or(Instant::NEVER, |saving| saving.end),
                    DriveEvent::Saved(number),
                );
            }
        }
        for (number, arm) in self.arms.iter().enumerate() {
            consider(arm.next_choice, DriveEvent::Choice(number));
        }
        (at, event)
    }

    /// Updates the next choice of each arm; a change at `now` takes effect no earlier than `now`.
    fn plan(&mut self, now: Instant) {
        for arm in 0..self.arms.len() {
            self.arms[arm].next_choice = if self.buffers.is_some() {
                self.next_choice_cached(arm).max(now)
            } else {
                let arm = &self.arms[arm];
                arm.queue.next_ready_at().map_or(Instant::NEVER, |ready| ready.max(arm.head_free))
            };
        }
    }

    /// Starts the next access of a free arm.
    fn choose(&mut self, arm: usize, now: Instant) {
        if self.truth.grow_defects(now) {
            self.arms.iter_mut().for_each(|arm| arm.queue.forget_places());
        }
        if self.buffers.is_some() {
            return self.choose_cached(arm, now);
        }
        self.set_spindle_at(arm, now);
        let here = &mut self.arms[arm];
        // A single command leaves no choice.
        let place = if here.waiting.len() == 1 {
            Some(0)
        } else {
            here.queue.choose(now, here.head, self.truth.mechanism_of(arm))
        };
        let place =
            place.expect("a choice is due only when the arm is free and a command is ready");
        let command = here.queue.serve(now, place);
        let waiting = here.waiting.remove(place);
        let part = ArmPart {
            command: CommandId(command.id),
            op: waiting.op,
            arm,
            extent: waiting.extent,
            fua: false,
        };
        let media = self.work_at_media(now, part, part.extent, waiting.not_before, false);
        let sectors = part.extent.len;
        let finished = match direction_of(part.op) {
            Direction::Read => {
                let earliest =
                    self.interface.read_burst_start(media.first_sector, media.end, sectors);
                let burst = self.bus.reserve(now, earliest, self.interface.bus_time(sectors));
                self.interface.read_completion(burst, sectors)
            }
            Direction::Write => self.interface.write_completed(media.end),
        };
        self.end_of_media_work(part.command, &media, &waiting, finished);
        self.land(Some(part.command), part.op, arm, part.extent, media.end, StorageLayer::Media);
    }

    /// Starts an access by the arm; `unsolicited` if no command waits for it.
    fn work_at_media(
        &mut self,
        now: Instant,
        part: ArmPart,
        extent: Extent,
        not_before: Instant,
        unsolicited: bool,
    ) -> MediaWork {
        self.idle_work(now, part.arm);
        let recalibration = self.truth.recalibrate(now);
        let from = self.arms[part.arm].head;
        let arm_error = self.arm_error(now, part, from, extent);
        let revolution = self.truth.mechanism_of(part.arm).period().time_of_turns(1, 1);
        let lost = self.noise.lost(revolution);
        let mechanism = self.truth.mechanism_of(part.arm);
        // An arm that is early or late by a time arrives as if it had departed so much earlier or
        // later.
        let depart = (now + recalibration).offset_by_ns(arm_error);
        let base = buffers::base(part.arm, self.arm_sectors);
        let held = |sector: Extent| {
            let in_cache = Extent::new(Lba::new(base + sector.start.get()), sector.len);
            self.buffers.as_ref().is_some_and(|buffers| buffers.segments.holds(in_cache))
        };
        let access = media::access(
            mechanism,
            (from, depart),
            direction_of(part.op),
            extent,
            not_before,
            self.physical,
            held,
        );
        let work = MediaWork {
            began: now,
            seek: Nanos::from_ns(access.seek.as_ns().saturating_add_signed(arm_error)),
            rotate: access.rotate + recalibration + lost,
            transfer: access.transfer,
            first_sector: access.first_sector,
            end: access.finish + lost,
        };
        let here = &mut self.arms[part.arm];
        here.ledger.begin(now, work.seek, work.rotate, work.transfer, unsolicited);
        here.head = access.end;
        here.head_free = work.end;
        work
    }

    /// Schedules the completion of a command whose media access has started.
    fn end_of_media_work(
        &mut self,
        command: CommandId,
        media: &MediaWork,
        waiting: &QueuedPart,
        finished: Instant,
    ) {
        let waited = media.began.saturating_since(waiting.ready_at);
        let overhead = waiting.ready_at.saturating_since(waiting.submitted)
            + finished.saturating_since(media.end);
        let MediaWork { seek, rotate, transfer, .. } = *media;
        self.reports.expect(
            command,
            finished,
            Breakdown { overhead, waited, seek, rotate, transfer },
        );
    }

    fn report(&mut self) {
        if let Some(at) = self.reports.report() {
            self.leave(at);
        }
    }

    /// Releases the slot of a command.
    fn leave(&mut self, at: Instant) {
        self.held -= 1;
        self.arms.iter_mut().for_each(|arm| arm.ledger.leave(at));
    }

    /// The deviation of the arm time to `extent`, in nanoseconds: at most half of it.
    fn arm_error(
        &mut self,
        now: Instant,
        part: ArmPart,
        from: HeadPosition,
        extent: Extent,
    ) -> i64 {
        let mechanism = self.truth.mechanism_of(part.arm);
        self.noise.arm_error_ns(now, || {
            let to = mechanism.layout().track_of(extent.start);
            mechanism.arm_time(from, to.into(), direction_of(part.op))
        })
    }

    /// Moves the arm if work of the drive's own has done so in the idle time before `now`.
    fn idle_work(&mut self, now: Instant, arm: usize) {
        let here = &mut self.arms[arm];
        let busy_until = here.ahead.map_or(here.head_free, |ahead| here.head_free.max(ahead.until));
        let cylinders = self.truth.mechanism_of(arm).layout().cylinders();
        if let Some(cylinder) = self.noise.moved_to(busy_until, now, cylinders) {
            here.head.cylinder = cylinder;
        }
    }

    /// Sets the arm's spindle to its state at `at`.
    fn set_spindle_at(&mut self, arm: usize, at: Instant) {
        self.truth.set_spindle_at(arm, at);
    }

    /// The earliest time for a write's first sector, with its data on the bus from `ready_at` on.
    fn data_arrive(&mut self, now: Instant, part: ArmPart, ready_at: Instant) -> Instant {
        if part.op != Op::Write {
            return Instant::ORIGIN;
        }
        let sectors = part.extent.len;
        let burst = self.bus.reserve(now, ready_at, self.interface.bus_time(sectors));
        let mechanism = self.truth.mechanism_of(part.arm);
        let sector_time =
            mechanism.sector_time(mechanism.layout().track_of(part.extent.start).cylinder);
        self.interface.write_media_start(burst, sectors, sector_time)
    }

    /// Submits a command to a drive without a cache.
    fn submit_uncached(&mut self, now: Instant, part: ArmPart) {
        let direction = direction_of(part.op);
        let ready_at =
            now + self.interface.command_overhead(direction, self.received.replace(direction));
        let not_before = self.data_arrive(now, part, ready_at);
        self.enqueue(
            part,
            part.extent,
            QueuedPart { op: part.op, extent: part.extent, submitted: now, ready_at, not_before },
        );
    }

    /// Adds a command to its arm's queue, for `extent` of its sectors.
    fn enqueue(&mut self, part: ArmPart, extent: Extent, waiting: QueuedPart) {
        let command = FirmwareCommand {
            id: part.command.0,
            op: direction_of(part.op),
            extent,
            ready_at: waiting.ready_at,
        };
        let arm = &mut self.arms[part.arm];
        arm.queue.push(command).expect("no more commands wait than the drive holds");
        arm.waiting.push(waiting);
    }

    /// The command by arm: two parts if it lies on both.
    fn parts(&self, command: &Command) -> (ArmPart, Option<ArmPart>) {
        let (start, end, sectors) =
            (command.extent.start.get(), command.extent.end().get(), self.arm_sectors);
        let part = |arm: u64, start: u64, end: u64| {
            let extent = Extent::from_numbers(start - arm * sectors, end - start);
            ArmPart {
                command: command.id,
                op: command.op,
                arm: arm as usize,
                extent,
                fua: command.fua,
            }
        };
        if self.arms.len() == 1 {
            return (part(0, start, end), None);
        }
        let (first, last) = (start / sectors, (end - 1) / sectors);
        if first == last {
            (part(first, start, end), None)
        } else {
            (part(first, start, last * sectors), Some(part(last, last * sectors, end)))
        }
    }
}

impl Device for SimulatedDrive {
    fn queue_depth(&self) -> usize {
        self.truth.profile().firmware.queue_depth as usize
    }

    fn capacity(&self) -> Sectors {
        Sectors::new(self.arm_sectors * self.arms.len() as u64)
    }

    fn arms(&self) -> usize {
        self.arms.len()
    }

    fn submit(&mut self, now: Instant, command: &Command) {
        // Events at `now` itself wait, so that the firmware chooses among all commands submitted at
        // one time.
        self.run(now, false);
        assert!(
            self.held < self.queue_depth(),
            "command {} is one more than the drive holds, {}",
            command.id.0,
            self.held
        );
        assert!(
            command.extent.end().get() <= self.capacity().get(),
            "command {} to {} lies past {}",
            command.id.0,
            command.extent,
            self.capacity()
        );
        self.held += 1;
        self.arms.iter_mut().for_each(|arm| arm.ledger.enter(now));
        match command.op {
            Op::Flush | Op::Discard => {
                let command_overhead = self.interface.command_overhead(Direction::Read, None);
                if command.op == Op::Discard || !self.submit_flush(now, command, command_overhead) {
                    let overhead = command_overhead + self.interface.completion_overhead();
                    self.reports.expect(
                        command.id,
                        now + overhead,
                        Breakdown { overhead, ..Breakdown::default() },
                    );
                }
            }
            Op::Read | Op::Write | Op::Zero => {
                let (part, other) = self.parts(command);
                if other.is_some() {
                    self.reports.part(command.id, 2);
                }
                for part in [Some(part), other].into_iter().flatten() {
                    if self.buffers.is_some() {
                        self.submit_cached(now, part);
                    } else {
                        self.submit_uncached(now, part);
                    }
                }
            }
        }
        self.plan(now);
    }

    fn next_event(&self) -> Option<Instant> {
        if self.reports.any_to_fetch() {
            return Some(self.now);
        }
        let (at, _) = self.next_internal();
        (at != Instant::NEVER).then_some(at)
    }

    fn advance(&mut self, now: Instant, completions: &mut Vec<DriveCompletion>) {
        self.run(now, true);
        self.reports.fetch(completions);
    }

    fn abort(&mut self, now: Instant, command: CommandId) {
        self.run(now, true);
        let mut held = self.forget_waiting(command);
        for arm in &mut self.arms {
            if let Some(place) =
                arm.queue.waiting().iter().position(|waiting| waiting.id == command.0)
            {
                arm.queue.take(place);
                arm.waiting.remove(place);
                held = true;
            }
        }
        held |= self.reports.forget(command);
        if held {
            self.leave(now);
            self.plan(now);
        }
    }

    fn disk_time(&self, now: Instant) -> DiskTime {
        // A due but unprocessed event may show that the time after it was not idle.
        let (due, _) = self.next_internal();
        self.arms
            .iter()
            .map(|arm| arm.ledger.at(now.min(due)))
            .fold(DiskTime::default(), |sum, arm| sum.plus(&arm))
    }
}

#[derive(Clone, Copy, Debug)]
enum DriveEvent {
    Ending,
    Report,
    Saved(usize),
    Choice(usize),
}

/// The head's direction of transfer for an operation.
pub(crate) fn direction_of(op: Op) -> Direction {
    match op {
        Op::Read | Op::Flush | Op::Discard => Direction::Read,
        Op::Write | Op::Zero => Direction::Write,
    }
}
