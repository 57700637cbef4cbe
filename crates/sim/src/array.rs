//! [`Raid0`]: several drives striped into one.
//!
//! [`Stripes`] says which sectors a member holds. A command is split into one part for each member
//! that it touches and completes when all parts have. Further parts for a full member wait in order
//! of arrival. Flushes go to every member.
//!
//! The controller may limit the bytes per second of all members together: data pass it one command
//! after the other, and a command completes no earlier than its data have passed. Reads pass when
//! the last part has been read, writes when they are submitted; the members do not wait for it.
//!
//! - Modelled: striping, parts that wait for a full member, flush and abort on all members, a limit
//!   of the controller.
//! - Not modelled: redundancy and rebuild, a controller's cache, its own ordering of commands, its
//!   processing time.
//! - Differs from a controller: writes reach the members at once although their data may still be
//!   on the way; the limit bounds the long-run rate, not the time of a single command.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headtime_mechanics::{DriveProfile, ProfileError, Stripes};
use headtime_sched::{Command, CommandId, Op, Outcome};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::device::{Breakdown, Device, DriveCompletion};
use crate::drive::SimulatedDrive;
use crate::truth::DriveTruth;
use headtime_mechanics::DiskTime;

/// Drives striped into one device.
#[derive(Clone, Debug)]
pub struct Raid0<D = SimulatedDrive> {
    members: Vec<ArrayMember<D>>,
    stripes: Stripes,
    queue_depth: usize,
    /// The time of a sector at the controller in picoseconds; 0 without a limit.
    ps_per_sector: u64,
    controller_free: Instant,
    under_way: BTreeMap<CommandId, ArrayCommand>,
    /// Completions on the way to the host, by time and then in order of completion.
    reports: BTreeMap<(Instant, u64), DriveCompletion>,
    completed: u64,
    now: Instant,
    from_member: Vec<DriveCompletion>,
}

#[derive(Clone, Debug)]
struct ArrayMember<D> {
    drive: D,
    /// Commands with a part at the member.
    sent: BTreeSet<CommandId>,
    /// Parts that wait for room in the member's queue.
    waiting: VecDeque<Command>,
}

#[derive(Clone, Copy, Debug)]
struct ArrayCommand {
    parts_left: usize,
    op: Op,
    sectors: Sectors,
    /// The time at which a write's data have passed the controller.
    passed: Instant,
    outcome: Outcome,
    /// The breakdown of the last part.
    breakdown: Breakdown,
}

/// The properties of an array besides its members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayOptions {
    /// Sectors of a stripe, at least 1.
    pub stripe: Sectors,
    /// Commands that the array holds at once, at least 1.
    pub queue_depth: usize,
    /// The controller's limit in millions of bytes per second; `None` is unlimited.
    pub controller_mb_per_s: Option<f64>,
}

impl ArrayOptions {
    /// The time of a sector of `sector_bytes` at the controller in picoseconds; 0 without a limit.
    ///
    /// # Panics
    /// If the limit is not a rate.
    #[must_use]
    pub fn ps_per_sector(&self, sector_bytes: u32) -> u64 {
        self.controller_mb_per_s.map_or(0, |rate| {
            assert!(rate > 0.0 && rate.is_finite(), "a controller's limit of {rate} MB/s is none");
            libm::round(f64::from(sector_bytes) * 1e6 / rate) as u64
        })
    }
}

impl Raid0<SimulatedDrive> {
    /// An array of `count` drives of one model, made by `draw` (such as [`DriveTruth::draw`]) with
    /// seeds derived from `seed`.
    ///
    /// # Errors
    /// Any error in the profile.
    ///
    /// # Panics
    /// As [`Raid0::new`].
    pub fn of_model(
        profile: &DriveProfile,
        count: usize,
        seed: u64,
        draw: fn(&DriveProfile, u64) -> Result<DriveTruth, ProfileError>,
        options: ArrayOptions,
    ) -> Result<Self, ProfileError> {
        Ok(Self::new(
            Self::drawn(&vec![profile; count], seed, draw)?,
            profile.sector_bytes,
            options,
        ))
    }

    /// Drives of these models, made by `draw` with seeds derived from `seed`.
    pub(crate) fn drawn(
        profiles: &[&DriveProfile],
        seed: u64,
        draw: impl Fn(&DriveProfile, u64) -> Result<DriveTruth, ProfileError>,
    ) -> Result<Vec<SimulatedDrive>, ProfileError> {
        let members = profiles.iter().zip(0..).map(|(profile, number)| {
            let seed = seed.wrapping_mul(SEED_STEP).wrapping_add(number);
            draw(profile, seed).and_then(SimulatedDrive::new)
        });
        members.collect()
    }
}

impl<D: Device> Raid0<D> {
    /// An array of drives with sectors of `sector_bytes`. Each contributes as many whole stripes as
    /// the smallest has.
    ///
    /// # Panics
    /// If there is no member, the stripe is empty or longer than a member, the queue depth is zero,
    /// or the limit is not a rate.
    #[must_use]
    pub fn new(members: Vec<D>, sector_bytes: u32, options: ArrayOptions) -> Self {
        let smallest =
            members.iter().map(|drive| drive.capacity()).min().expect("an array has members");
        assert!(
            (1..=smallest.get()).contains(&options.stripe.get()),
            "stripes of {} on members of {smallest}",
            options.stripe
        );
        assert!(options.queue_depth > 0, "an array that holds no command serves none");
        let stripes = Stripes::new(options.stripe, members.len());
        Self {
            members: members
                .into_iter()
                .map(|drive| ArrayMember { drive, sent: BTreeSet::new(), waiting: VecDeque::new() })
                .collect(),
            stripes,
            queue_depth: options.queue_depth,
            ps_per_sector: options.ps_per_sector(sector_bytes),
            controller_free: Instant::ORIGIN,
            under_way: BTreeMap::new(),
            reports: BTreeMap::new(),
            completed: 0,
            now: Instant::ORIGIN,
            from_member: Vec::new(),
        }
    }

    /// The members in stripe order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &D> {
        self.members.iter().map(|member| &member.drive)
    }

    /// The time of sectors at the controller.
    fn passing(&self, sectors: Sectors) -> Nanos {
        Nanos::from_ns(sectors.get().saturating_mul(self.ps_per_sector).div_ceil(1_000))
    }

    /// Passes data that are available from `at` on; returns the time at which they have passed.
    fn pass(&mut self, at: Instant, sectors: Sectors) -> Instant {
        if self.ps_per_sector == 0 {
            return at;
        }
        // Data pass as they come; only the controller's capacity counts.
        let passing = self.passing(sectors);
        let begin = self.controller_free.max(at.saturating_back(passing));
        self.controller_free = begin + passing;
        self.controller_free.max(at)
    }

    fn run(&mut self, now: Instant, including: bool) {
        assert!(now >= self.now, "time ran back from {} to {now} at the array", self.now);
        loop {
            let next = self
                .members
                .iter()
                .enumerate()
                .filter_map(|(number, member)| member.drive.next_event().map(|at| (at, number)))
                .min();
            let Some((at, number)) = next.filter(|(at, _)| *at < now || *at == now && including)
            else {
                break;
            };
            // A member that was advanced late may name a past time; its events have their own
            // times.
            let at = at.max(self.now);
            self.now = at;
            let mut from_member = std::mem::take(&mut self.from_member);
            self.members[number].drive.advance(at, &mut from_member);
            for completion in from_member.drain(..) {
                // A faulty drive may answer a command that was given up.
                if self.members[number].sent.remove(&completion.command) {
                    self.ended(completion);
                }
            }
            self.from_member = from_member;
            self.send_waiting(number, at);
        }
        self.now = now;
    }

    /// A part has ended.
    fn ended(&mut self, completion: DriveCompletion) {
        let Some(under_way) = self.under_way.get_mut(&completion.command) else { return };
        under_way.parts_left -= 1;
        if completion.outcome != Outcome::Success {
            under_way.outcome = completion.outcome;
        }
        under_way.breakdown = completion.breakdown;
        let done = *under_way;
        if done.parts_left > 0 {
            return;
        }
        self.under_way.remove(&completion.command);
        let finished = match done.op {
            Op::Read => self.pass(completion.finished, done.sectors),
            _ => completion.finished.max(done.passed),
        };
        let report = DriveCompletion {
            command: completion.command,
            finished,
            outcome: done.outcome,
            breakdown: done.breakdown,
        };
        self.reports.insert((finished, self.completed), report);
        self.completed += 1;
    }

    fn send_waiting(&mut self, number: usize, now: Instant) {
        let member = &mut self.members[number];
        while member.sent.len() < member.drive.queue_depth() {
            let Some(part) = member.waiting.pop_front() else { break };
            member.drive.submit(now, &part);
            member.sent.insert(part.id);
        }
    }
}

impl<D: Device> Device for Raid0<D> {
    fn queue_depth(&self) -> usize {
        self.queue_depth
    }

    fn capacity(&self) -> Sectors {
        let smallest = self.members.iter().map(|member| member.drive.capacity()).min();
        self.stripes.capacity(smallest.unwrap_or_default())
    }

    fn arms(&self) -> usize {
        self.members.iter().map(|member| member.drive.arms()).sum()
    }

    fn submit(&mut self, now: Instant, command: &Command) {
        self.run(now, false);
        let held = self.under_way.len() + self.reports.range((now, u64::MAX)..).count();
        assert!(
            held < self.queue_depth,
            "command {} is one more than the array holds, {held}",
            command.id.0
        );
        assert!(
            command.extent.end().get() <= self.capacity().get(),
            "command {} to {} lies past {}",
            command.id.0,
            command.extent,
            self.capacity()
        );
        let mut parts_left = 0;
        for number in 0..self.members.len() {
            let extent = if command.op == Op::Flush {
                Extent::new(Lba::new(0), Sectors::ZERO)
            } else {
                self.stripes.part(command.extent, number)
            };
            if command.op == Op::Flush || !extent.len.is_zero() {
                let part = Command {
                    id: command.id,
                    op: command.op,
                    extent,
                    fua: command.fua,
                    background: None,
                    requests: Default::default(),
                };
                self.members[number].waiting.push_back(part);
                parts_left += 1;
            }
        }
        let sectors = command.extent.len;
        let passed = if command.op == Op::Write {
            self.pass(now + self.passing(sectors), sectors)
        } else {
            now
        };
        let under_way = ArrayCommand {
            parts_left,
            op: command.op,
            sectors,
            passed,
            outcome: Outcome::Success,
            breakdown: Breakdown::default(),
        };
        self.under_way.insert(command.id, under_way);
        for number in 0..self.members.len() {
            self.send_waiting(number, now);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let report = self.reports.first_key_value().map(|((at, _), _)| *at);
        self.members
            .iter()
            .filter_map(|member| member.drive.next_event())
            .chain(report)
            .min()
            .map(|at| at.max(self.now))
    }

    fn advance(&mut self, now: Instant, completions: &mut Vec<DriveCompletion>) {
        self.run(now, true);
        while let Some(entry) = self.reports.first_entry().filter(|entry| entry.key().0 <= now) {
            completions.push(entry.remove());
        }
    }

    fn abort(&mut self, now: Instant, command: CommandId) {
        self.run(now, true);
        self.reports.retain(|_, report| report.command != command);
        if self.under_way.remove(&command).is_none() {
            return;
        }
        for number in 0..self.members.len() {
            let member = &mut self.members[number];
            member.waiting.retain(|part| part.id != command);
            if member.sent.remove(&command) {
                member.drive.abort(now, command);
            }
            self.send_waiting(number, now);
        }
    }

    fn disk_time(&self, now: Instant) -> DiskTime {
        self.members
            .iter()
            .map(|member| member.drive.disk_time(now))
            .fold(DiskTime::default(), |sum, member| sum.plus(&member))
    }
}

/// Separates the seeds of one array's members from those of the next seed's array.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;
