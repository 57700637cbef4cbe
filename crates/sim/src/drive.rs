//! [`SimulatedDrive`]: a rotating drive as a state machine.
//!
//! A command is submitted; after its overhead it is ready and waits in the drive's own queue; when the arm is free the firmware chooses one; the
//! mechanism seeks, waits for the sector to come round and transfers; data cross the bus; after the completion overhead the host sees the report. The whole
//! course of an access is computed when it begins, so the drive has few events: a choice, a completion, a report.
//!
//! Worked example, overhead 0.2 ms, completion 0: a read is submitted at 0 and ready at 0.2 ms; the arm takes 5 ms, the sector comes round 3 ms
//! later and passes in 0.1 ms: media end at 8.3 ms, last sector over the bus at 8.306 ms, reported then. A second one submitted at 1 ms is ready at 1.2 ms
//! and begins at 8.3 ms, without overhead of its own to be seen.
//!
//! Everything happens at its own time: an event that is due before `now` is worked through before whatever comes at `now`, so a late
//! [`Device::advance`] changes no time but that of the call.
//!
//! - Modelled: one mechanism with the unit's true geometry; command, bus and completion overhead, overlapping other commands' media access; a firmware
//!   queue of the profile's depth, FCFS or SPTF on true positions; writes whose data must arrive; reports that come late by an exponentially distributed
//!   jitter, in the order of the true completions; rare accesses that take much longer.
//! - Not modelled: caches of any kind (a write completes when it is on the media, so a flush has nothing to do and costs its overhead only),
//!   read-ahead, retries after errors (see [`FaultyDrive`](crate::FaultyDrive) for errors), partial writes of 512e sectors, power loss, spin-down.
//! - Differs from a drive: the command overheads of two commands submitted together pass side by side, as if each had a processor of its own; a discard costs
//!   its overhead only.

use std::collections::VecDeque;

use headtime_mechanics::{Bus, Direction, FirmwareCommand, FirmwareQueue, HeadPosition, InterfaceTimes, ProfileError};
use headtime_sched::{Command, CommandId, Op, Outcome};
use headtime_units::{Extent, Instant, Nanos, Sectors};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::device::{Breakdown, Device, DriveCompletion};
use crate::disk_time::{DiskTime, Ledger};
use crate::truth::DriveTruth;

/// A rotating drive in virtual time.
#[derive(Clone, Debug)]
pub struct SimulatedDrive {
    truth: DriveTruth,
    interface: InterfaceTimes,
    bus: Bus,
    noise: ChaCha8Rng,
    /// Everything due before it has happened.
    now: Instant,
    queue: FirmwareQueue,
    /// What the queue does not hold of each waiting command, in the queue's order.
    waiting: Vec<Waiting>,
    next_ready: Option<Instant>,
    /// Commands submitted and neither reported nor given up.
    held: usize,
    head: HeadPosition,
    head_free: Instant,
    /// The direction of the command received last: the next one's overhead depends on it.
    received: Option<Direction>,
    /// True completions to come, in the order of their time.
    endings: VecDeque<DriveCompletion>,
    /// Reports to come, and reports that nobody has fetched yet.
    reports: VecDeque<DriveCompletion>,
    last_report: Instant,
    fetched: VecDeque<DriveCompletion>,
    ledger: Ledger,
    landings: Option<Vec<Landing>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    op: Op,
    submitted: Instant,
    ready_at: Instant,
    /// When the first sector may pass at the earliest: a write's data must have arrived. The origin for reads.
    not_before: Instant,
}

/// A media access that has happened or is certain to happen; for models of what the platters hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Of which command.
    pub command: CommandId,
    /// What it did.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// When its last sector had passed.
    pub at: Instant,
}

impl SimulatedDrive {
    /// A drive at rest at the origin of the clock, its head over the first track.
    ///
    /// # Errors
    /// Whatever is wrong with the truth's profile.
    pub fn new(truth: DriveTruth) -> Result<Self, ProfileError> {
        let interface = InterfaceTimes::from_profile(truth.profile())?;
        let mut noise = ChaCha8Rng::seed_from_u64(truth.seed());
        noise.set_stream(NOISE_STREAM);
        Ok(Self {
            interface,
            bus: Bus::new(),
            noise,
            now: Instant::ORIGIN,
            queue: FirmwareQueue::new(&truth.profile().firmware),
            waiting: Vec::new(),
            next_ready: None,
            held: 0,
            head: HeadPosition::PARKED,
            head_free: Instant::ORIGIN,
            received: None,
            endings: VecDeque::new(),
            reports: VecDeque::new(),
            last_report: Instant::ORIGIN,
            fetched: VecDeque::new(),
            ledger: Ledger::default(),
            landings: None,
            truth,
        })
    }

    /// From now on keeps a list of media accesses for [`SimulatedDrive::take_landings`].
    pub fn record_landings(&mut self) {
        self.landings = Some(Vec::new());
    }

    /// The media accesses begun since the last call, in the order of their times. Empty unless they are recorded.
    pub fn take_landings(&mut self) -> Vec<Landing> {
        self.landings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Commands held: submitted and neither reported nor given up.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Lets everything happen that is due before `now` (and at `now`, if `including`).
    fn run(&mut self, now: Instant, including: bool) {
        assert!(now >= self.now, "time ran back from {} to {now} at the simulated drive", self.now);
        loop {
            let (at, event) = self.next_internal();
            if at > now || (at == now && !including) || at == Instant::NEVER {
                break;
            }
            match event {
                Event::Ending => self.end(),
                Event::Report => self.report(),
                Event::Choice => self.choose(at),
            }
        }
        self.now = now;
    }

    /// The next event, at [`Instant::NEVER`] when there is none; of those at one time, endings come before reports and both before choices.
    fn next_internal(&self) -> (Instant, Event) {
        let ending = self.endings.front().map_or(Instant::NEVER, |ending| ending.finished);
        let report = self.reports.front().map_or(Instant::NEVER, |report| report.finished);
        let choice = self.next_ready.map_or(Instant::NEVER, |ready| ready.max(self.head_free));
        if ending <= report.min(choice) {
            (ending, Event::Ending)
        } else if report <= choice {
            (report, Event::Report)
        } else {
            (choice, Event::Choice)
        }
    }

    /// The firmware chooses, and the chosen access runs its course.
    fn choose(&mut self, now: Instant) {
        let place = self.queue.choose(now, self.head, self.truth.mechanism());
        let place = place.expect("a choice is due only when the arm is free and a command is ready");
        let command = self.queue.take(place);
        let Waiting { op, submitted, ready_at, not_before } = self.waiting.remove(place);
        self.next_ready = self.queue.next_ready_at();

        let access = self.truth.mechanism().access(self.head, now, command.op, command.extent, not_before);
        let lost = self.outlier();
        let media_end = access.finish + lost;
        let sectors = command.extent.len;
        let finished = match command.op {
            Direction::Read => {
                let earliest = self.interface.read_burst_start(access.first_sector, media_end, sectors);
                let burst = self.bus.reserve(now, earliest, self.interface.bus_time(sectors));
                self.interface.read_completion(burst, sectors)
            }
            Direction::Write => self.interface.write_completed(media_end),
        };
        let rotate = access.rotate + lost;
        self.ledger.begin(now, access.seek, rotate, access.transfer);
        self.head = access.end;
        self.head_free = media_end;

        let id = CommandId(command.id);
        let waited = now.saturating_since(ready_at);
        let overhead = ready_at.saturating_since(submitted) + finished.saturating_since(media_end);
        let breakdown = Breakdown { overhead, waited, seek: access.seek, rotate, transfer: access.transfer };
        self.expect_ending(DriveCompletion { command: id, finished, outcome: Outcome::Success, breakdown });
        if let Some(landings) = &mut self.landings {
            landings.push(Landing { command: id, op, extent: command.extent, at: media_end });
        }
    }

    fn expect_ending(&mut self, ending: DriveCompletion) {
        let place = self.endings.iter().rposition(|other| other.finished <= ending.finished).map_or(0, |last| last + 1);
        self.endings.insert(place, ending);
    }

    /// A command truly completes; the host sees it a little later, and in this order.
    fn end(&mut self) {
        let Some(mut ending) = self.endings.pop_front() else { return };
        let at = ending.finished;
        ending.finished = (ending.finished + self.jitter()).max(self.last_report);
        let at_once = self.reports.is_empty() && ending.finished <= at;
        self.last_report = ending.finished;
        self.reports.push_back(ending);
        if at_once {
            self.report();
        }
    }

    fn report(&mut self) {
        let Some(report) = self.reports.pop_front() else { return };
        self.held -= 1;
        self.ledger.leave(report.finished);
        self.fetched.push_back(report);
    }

    fn jitter(&mut self) -> Nanos {
        let mean = self.truth.noise().jitter_ns;
        if mean == 0.0 {
            return Nanos::ZERO;
        }
        // 53 bits, never 0.
        let even = ((self.noise.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        Nanos::from_ns((-libm::log(even) * mean) as u64)
    }

    fn outlier(&mut self) -> Nanos {
        let noise = self.truth.noise();
        let hit = noise.outlier_share > 0.0 && f64::from(self.noise.next_u32()) < noise.outlier_share * 4_294_967_296.0;
        if hit { noise.outlier } else { Nanos::ZERO }
    }

    /// Puts a command that moves the head into the firmware's queue.
    fn enqueue(&mut self, now: Instant, command: &Command, direction: Direction) {
        let ready_at = now + self.interface.command_overhead(direction, self.received);
        self.received = Some(direction);
        let sectors = command.extent.len;
        let not_before = if command.op == Op::Write {
            let burst = self.bus.reserve(now, ready_at, self.interface.bus_time(sectors));
            let mechanism = self.truth.mechanism();
            let sector_time = mechanism.sector_time(mechanism.layout().track_of(command.extent.start).cylinder);
            self.interface.write_media_start(burst, sectors, sector_time)
        } else {
            Instant::ORIGIN
        };
        let queued = self.queue.push(FirmwareCommand { id: command.id.0, op: direction, extent: command.extent, ready_at });
        queued.expect("no more commands wait than the drive holds");
        self.waiting.push(Waiting { op: command.op, submitted: now, ready_at, not_before });
        self.next_ready = self.queue.next_ready_at();
    }
}

impl Device for SimulatedDrive {
    fn queue_depth(&self) -> usize {
        self.truth.profile().firmware.queue_depth as usize
    }

    fn capacity(&self) -> Sectors {
        self.truth.mechanism().layout().capacity()
    }

    fn submit(&mut self, now: Instant, command: &Command) {
        // What is due at `now` itself waits, so that commands submitted at one time are all there when the firmware chooses.
        self.run(now, false);
        assert!(self.held < self.queue_depth(), "command {} is one more than the drive holds, {}", command.id.0, self.held);
        self.held += 1;
        self.ledger.enter(now);
        match command.op {
            Op::Read => self.enqueue(now, command, Direction::Read),
            Op::Write | Op::Zero => self.enqueue(now, command, Direction::Write),
            Op::Flush | Op::Discard => {
                let overhead = self.interface.command_overhead(Direction::Read, None) + self.interface.completion_overhead();
                let breakdown = Breakdown { overhead, ..Breakdown::default() };
                self.expect_ending(DriveCompletion { command: command.id, finished: now + overhead, outcome: Outcome::Success, breakdown });
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        if !self.fetched.is_empty() {
            return Some(self.now);
        }
        let (at, _) = self.next_internal();
        (at != Instant::NEVER).then_some(at)
    }

    fn advance(&mut self, now: Instant, completions: &mut Vec<DriveCompletion>) {
        self.run(now, true);
        completions.extend(self.fetched.drain(..));
    }

    fn abort(&mut self, now: Instant, command: CommandId) {
        self.run(now, true);
        let waiting = self.queue.waiting().iter().position(|waiting| waiting.id == command.0);
        let ending = self.endings.iter().position(|ending| ending.command == command);
        let report = self.reports.iter().position(|report| report.command == command);
        if let Some(place) = waiting {
            self.queue.take(place);
            self.waiting.remove(place);
            self.next_ready = self.queue.next_ready_at();
        } else if let Some(place) = ending {
            self.endings.remove(place);
        } else if let Some(place) = report {
            self.reports.remove(place);
        } else {
            return;
        }
        self.held -= 1;
        self.ledger.leave(now);
    }

    fn disk_time(&self, now: Instant) -> DiskTime {
        // What is due but has not been let happen may yet say that the time after it was no rest.
        let (due, _) = self.next_internal();
        self.ledger.at(now.min(due))
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ending,
    Report,
    Choice,
}

/// Keeps the noise apart from what the truth draws from the same seed.
const NOISE_STREAM: u64 = 1;
