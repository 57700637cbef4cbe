//! [`Session`]: the reads of one experiment, and the clock that they are timed by.
//!
//! An experiment is straight-line code: it reads, computes, and reads again. A probe must not
//! wait, so an experiment is *replayed*. The results of its reads are kept. Whenever one more is
//! there, the experiment runs from its beginning over all of them; the first read without a result
//! interrupts it and becomes the probe's next measurement. Each run works on copies of the state
//! and of the results, which replace the originals when it comes to its end.
//!
//! Experiments are short (some hundred reads), so replaying costs little, and the state to save is
//! plain data. The same results lead to the same requests. A request that differs from the one
//! that was answered is an error.

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use serde::{Deserialize, Serialize};

use crate::cache_model::is_read_ahead;
use crate::clock::Clock;
use crate::measurement::{ConcurrentReads, Measurement, NextRead, Rewrite, TimedCommand};
use crate::numbers::{part, wrap};
use crate::random::Random;

/// The reason why an experiment stops before its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Interruption {
    /// It needs this measurement.
    Measure(Measurement),
    /// It cannot come to a result, for this reason.
    Failed(String),
}

pub(crate) type Attempt<T> = Result<T, Interruption>;

/// The use of the drive during the characterization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriveSharing {
    /// No others use it.
    #[default]
    Exclusive,
    /// The driver also carries out commands of others, and reports their number with each command
    /// ([`TimedCommand::others`]). Experiments that need long undisturbed sequences, several
    /// outstanding reads or writes are left out.
    BesideClients,
}

/// A sector whose angle sets the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReferenceSector {
    pub(crate) lba: u64,
    /// The angle at which it completes, in revolutions after the clock's zero.
    pub(crate) turns: f64,
}

/// The drive's cache, as far as experiments need it to read from the media.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CacheHits {
    /// The response time of a hit; none if no hit was seen.
    pub(crate) hit_ns: Option<f64>,
    /// A read with a response no longer than this may be a hit.
    pub(crate) limit_ns: f64,
    /// The bus time of one more sector in a hit; none if not seen.
    pub(crate) bus_ns: Option<f64>,
    /// The number of reads elsewhere that surely evict a sector; 0 if no hit was seen.
    pub(crate) eviction_reads: u64,
    /// The number of sectors read in sequence after which a segment has dropped its first sector;
    /// none if not seen.
    pub(crate) overrun_sectors: Option<u64>,
    /// The number of overruns of a segment, and of those that dropped the sector.
    pub(crate) overruns: (u32, u32),
    /// Sectors before one that was read are cached too: the drive keeps whole tracks.
    pub(crate) keeps_tracks: bool,
    /// The number of segments, if evictions showed it.
    #[serde(default)]
    pub(crate) segments: Option<u64>,
    /// Evictions have been measured.
    pub(crate) measured: bool,
}

/// The state that reading and timing need from one experiment to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DriveTiming {
    /// Logical sectors of the drive, or of the arm that is measured if it has two.
    pub(crate) capacity: u64,
    /// Number of finished experiments; each draws its own random numbers.
    pub(crate) step: u64,
    /// Completion of the last read of the finished experiments.
    pub(crate) now: Instant,
    pub(crate) clock: Clock,
    /// The sectors that set the clock, read in rotation.
    pub(crate) references: Vec<ReferenceSector>,
    /// The index of the next of them.
    pub(crate) next_reference: usize,
    pub(crate) hits: CacheHits,
    /// The use of the drive.
    #[serde(default)]
    pub(crate) sharing: DriveSharing,
    /// The last commands of the finished experiments: with those that evicted nothing, as many as
    /// include [`CacheHits::eviction_reads`] others.
    pub(crate) recent: Vec<TimedCommand>,
}

impl DriveTiming {
    /// True if the driver also carries out commands of others.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing == DriveSharing::BesideClients
    }

    pub(crate) fn is_reference(&self, lba: u64) -> bool {
        self.references.iter().any(|reference| reference.lba == lba)
    }

    /// Keeps the last commands of a finished experiment.
    pub(crate) fn note_recent(&mut self, commands: &[TimedCommand]) {
        let max = self.hits.eviction_reads as usize;
        self.recent.extend_from_slice(commands);
        let recent = &self.recent;
        let evicting = (0..recent.len()).rev().filter(|at| {
            let before = at.checked_sub(1).map(|before| &recent[before]);
            self.evicts(before, &recent[*at])
        });
        let first = match max {
            0 => recent.len(),
            _ => evicting.take(max).last().unwrap_or(0),
        };
        self.recent.drain(..first);
    }

    /// True if a command took another segment of the cache than the one `before` it.
    fn evicts(&self, before: Option<&TimedCommand>, command: &TimedCommand) -> bool {
        !self.may_be_hit(command)
            && before.is_none_or(|before| before.extent.end() != command.extent.start)
    }

    /// The standard deviation of one reading of an angle, in revolutions.
    pub(crate) fn noise_turns(&self) -> f64 {
        self.clock.noise_ns() / self.clock.period_ns().max(1.0)
    }

    /// True if a command may have been served from the cache.
    pub(crate) fn may_be_hit(&self, command: &TimedCommand) -> bool {
        command.response() <= Nanos::from_ns(self.hits.limit_ns as u64)
    }
}

/// One run of one experiment.
pub(crate) struct Session<'a> {
    commands: &'a [TimedCommand],
    next: usize,
    /// The commands of each measurement with several; `commands` has only the last of them.
    batches: &'a [Vec<TimedCommand>],
    next_batch: usize,
    /// The last read was one that the next has to follow.
    is_followed: bool,
    /// Others came between two reads, although the second had to follow.
    disturbed: bool,
    pub(crate) random: Random,
    pub(crate) drive: DriveTiming,
    /// Sentences for the report.
    pub(crate) remarks: Vec<String>,
    /// The angles of hits that were computed from other sectors of their tracks, by the number of
    /// the command, rising.
    computed: Vec<(usize, f64)>,
}

/// The angle at which the read of a sector completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AngleSample {
    /// Revolutions after the start of a revolution of the clock, from 0 up to but not including 1.
    pub(crate) turns: f64,
    pub(crate) command: TimedCommand,
}

/// Reads that only evict sectors stay within this part of the drive, so that seeks are short.
const EVICTION_REACH: u64 = 64;
/// The interval between readings of a reference sector; shorter if a reading scatters by more than
/// a thousandth of a revolution.
const REFERENCE_INTERVAL_NS: f64 = 1.5e9;
const NOISY_REFERENCE_INTERVAL_NS: f64 = 0.3e9;
const NOISY_TURNS: f64 = 0.001;
/// Noise that needs no averaging, in revolutions.
pub(crate) const QUIET_TURNS: f64 = 0.000_5;
/// The most sectors of one command that only overruns a segment (guess: a size that systems pass on
/// in one piece).
const ROW_COMMAND: u64 = 1_024;
/// The longest read-ahead that is considered, sectors.
const MAX_READ_AHEAD: u64 = 1 << 15;
/// The distances before a cached sector at which a read may start so that it goes to the media, and
/// the part of a revolution by which the bus may delay its end.
const BEFORE: [u64; 3] = [4, 16, 64];
const BEFORE_TURNS: f64 = 0.008;
/// The number of overruns after which their success is judged.
const ENOUGH_OVERRUNS: u32 = 3;
/// The share by which a track may be longer than assumed, and the largest deviation of two sectors
/// of one track, in revolutions; a skew is larger.
const TRACK_SLACK: f64 = 1.1;
const SAME_TRACK_TURNS: f64 = 0.01;
/// The number of attempts to read a sector from the media.
const TRIES: u32 = 6;
/// The number of runs of a chain of reads between which others came.
const CHAIN_TRIES: u32 = 8;
/// The factor by which readings of reference sectors are rarer beside clients, where reads are
/// (guess: a spindle drifts by microseconds in some seconds).
const RARER: f64 = 4.0;

impl<'a> Session<'a> {
    pub(crate) fn new(
        commands: &'a [TimedCommand],
        batches: &'a [Vec<TimedCommand>],
        drive: DriveTiming,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed, drive.step);
        Self {
            commands,
            next: 0,
            batches,
            next_batch: 0,
            is_followed: false,
            disturbed: false,
            random,
            drive,
            remarks: Vec::new(),
            computed: Vec::new(),
        }
    }

    /// The number of results that the run did not use; they belong to another experiment.
    pub(crate) fn unused(&self) -> usize {
        self.commands.len() - self.next
    }

    pub(crate) fn remark(&mut self, sentence: impl Into<String>) {
        self.remarks.push(sentence.into());
    }

    pub(crate) fn read(&mut self, extent: Extent, not_before: Instant) -> Attempt<TimedCommand> {
        self.read_before(NextRead::Independent, extent, not_before)
    }

    fn read_before(
        &mut self,
        next: NextRead,
        extent: Extent,
        not_before: Instant,
    ) -> Attempt<TimedCommand> {
        let capacity = self.drive.capacity;
        if extent.start.get() >= capacity || extent.len.get() > capacity - extent.start.get() {
            return Err(Interruption::Failed(format!(
                "the measurements lead to sector {}, but the drive has {capacity}",
                extent.start
            )));
        }
        match self.commands.get(self.next) {
            Some(command) if command.extent == extent => {
                self.next += 1;
                self.disturbed |= self.is_followed && command.others > 0;
                self.is_followed = next == NextRead::Follows;
                Ok(*command)
            }
            Some(command) => Err(Interruption::Failed(format!(
                "result {} is of a read of {}, expected {extent}; start afresh",
                self.next, command.extent
            ))),
            None => Err(Interruption::Measure(Measurement::Read { extent, not_before, next })),
        }
    }

    /// Reads with several outstanding; the results are in order of completion.
    pub(crate) fn read_concurrently(
        &mut self,
        reads: ConcurrentReads,
    ) -> Attempt<Vec<TimedCommand>> {
        self.batch(Measurement::Concurrent(reads))
    }

    /// Reads, reads elsewhere and writes back; the results are in the order of the commands.
    pub(crate) fn rewrite(&mut self, rewrite: Rewrite) -> Attempt<Vec<TimedCommand>> {
        self.batch(Measurement::Rewrite(rewrite))
    }

    fn batch(&mut self, measurement: Measurement) -> Attempt<Vec<TimedCommand>> {
        if self.commands.get(self.next).is_none() {
            return Err(Interruption::Measure(measurement));
        }
        let Some(batch) = self.batches.get(self.next_batch) else {
            return Err(Interruption::Failed(format!(
                "result {} is of a single read, expected several commands; start afresh",
                self.next
            )));
        };
        (self.next, self.next_batch) = (self.next + 1, self.next_batch + 1);
        Ok(batch.clone())
    }

    pub(crate) fn read_at_once(&mut self, lba: u64, sectors: u64) -> Attempt<TimedCommand> {
        self.read(Extent::new(Lba::new(lba), Sectors::new(sectors)), Instant::ORIGIN)
    }

    /// Like [`Session::read_at_once`]; the next read starts from the state of the drive after it.
    pub(crate) fn read_followed(&mut self, lba: u64, sectors: u64) -> Attempt<TimedCommand> {
        let extent = Extent::new(Lba::new(lba), Sectors::new(sectors));
        self.read_before(NextRead::Follows, extent, Instant::ORIGIN)
    }

    /// Runs a chain of reads, of which those by [`Session::read_followed`] have to be followed by
    /// the next one, again until commands of others no longer come between. None if they always
    /// do.
    pub(crate) fn undisturbed<T>(
        &mut self,
        mut chain: impl FnMut(&mut Self) -> Attempt<T>,
    ) -> Attempt<Option<T>> {
        for _ in 0..CHAIN_TRIES {
            self.disturbed = false;
            let result = chain(self)?;
            if !self.disturbed {
                return Ok(Some(result));
            }
        }
        Ok(None)
    }

    /// True if others came between two reads of the present chain, so that it may end.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    /// Like [`Session::undisturbed`]; an error if others always come between.
    pub(crate) fn until_undisturbed<T>(
        &mut self,
        chain: impl FnMut(&mut Self) -> Attempt<T>,
    ) -> Attempt<T> {
        self.undisturbed(chain)?.ok_or_else(|| {
            Interruption::Failed(format!(
                "commands of clients came between reads that belong together, {CHAIN_TRIES} times \
                    in a row"
            ))
        })
    }

    /// Reads random sectors of the whole drive; returns the last result.
    pub(crate) fn read_random(&mut self, reads: u64) -> Attempt<Option<TimedCommand>> {
        let mut last = None;
        for _ in 0..reads {
            let lba = self.random.below(self.drive.capacity);
            last = Some(self.read_at_once(lba, 1)?);
        }
        Ok(last)
    }

    pub(crate) fn may_be_hit(&self, command: &TimedCommand) -> bool {
        self.drive.may_be_hit(command)
    }

    /// True if a command succeeded and was not served from the cache.
    pub(crate) fn is_from_media(&self, command: &TimedCommand) -> bool {
        command.succeeded() && !self.may_be_hit(command)
    }

    pub(crate) fn sample(&self, command: TimedCommand) -> AngleSample {
        AngleSample { turns: self.drive.clock.turns_at(command.completed), command }
    }

    /// The angle of a sector, read from the media. If the cache holds the sector, this is its last
    /// reading if that is recent; otherwise the sector is evicted and read again.
    pub(crate) fn angle(&mut self, lba: u64) -> Attempt<AngleSample> {
        let (mut overran, mut evicted) = (false, false);
        for _ in 1..=TRIES {
            let sample = self.try_angle(lba)?;
            if overran {
                let (tried, dropped) = self.drive.hits.overruns;
                self.drive.hits.overruns = (tried + 1, dropped + u32::from(sample.is_some()));
            }
            if let Some(sample) = sample {
                return Ok(sample);
            }
            if let Some((_, sample)) = self.recent_angle(lba, lba + 1) {
                return Ok(sample);
            }
            if let Some(sample) = self.angle_from_before(lba)? {
                return Ok(sample);
            }
            // Two segments may hold the sector. If it is still there after an overrun, segments do
            // not overrun as expected.
            overran = !overran && self.may_overrun() && self.overrun(lba)?;
            if !overran {
                // If one eviction was not enough, the reads were too close together, or the cache
                // has more segments than were seen.
                self.evict()?;
                if evicted {
                    self.evict_by_reads(3 * self.drive.hits.eviction_reads.max(1))?;
                }
                evicted = true;
            }
        }
        Err(Interruption::Failed(format!(
            "sector {lba} could not be read from the media in {TRIES} tries; it may be defective"
        )))
    }

    /// Like [`Session::angle`], of a sector on a track of `density` sectors per revolution. If the
    /// drive keeps whole tracks and holds the sector, its angle is computed from a recent reading
    /// of the same track, which costs no eviction.
    pub(crate) fn angle_of_track(&mut self, lba: u64, density: f64) -> Attempt<AngleSample> {
        if self.drive.hits.keeps_tracks
            && let Some(seen) = self.try_angle_of_track(lba, density)?
        {
            return Ok(seen);
        }
        self.angle(lba)
    }

    /// Like [`Session::angle_of_track`]; none if an eviction would be needed.
    pub(crate) fn try_angle_of_track(
        &mut self,
        lba: u64,
        density: f64,
    ) -> Attempt<Option<AngleSample>> {
        if let Some(seen) = self.try_angle(lba)? {
            return Ok(Some(seen));
        }
        let hit = self.last().filter(|_| self.drive.hits.keeps_tracks);
        let hit = hit.filter(TimedCommand::succeeded);
        let Some((command, turns)) = hit.zip(self.turns_by_track(lba, density)) else {
            return Ok(None);
        };
        self.computed.push((self.next - 1, turns));
        Ok(Some(AngleSample { turns, command }))
    }

    /// The angle of a sector that the last command found in the cache of a drive that keeps whole
    /// tracks; none if it may lie on either of two tracks that are cached.
    ///
    /// Since its track was last read, fewer than [`CacheHits::eviction_reads`] commands have taken
    /// another segment. Tracks rise with their addresses, so it is the track of the next lower one
    /// of the sectors read since, or of the next higher one.
    fn turns_by_track(&self, lba: u64, density: f64) -> Option<f64> {
        let here = self.next.checked_sub(1)?;
        let mut evicting = self.drive.hits.eviction_reads;
        let reach = (density * TRACK_SLACK) as u64 + 1;
        let recent = &self.drive.recent;
        let at = |place: usize| {
            recent.get(place).unwrap_or_else(|| &self.commands[place - recent.len()])
        };
        let (mut below, mut above): (Option<(u64, Option<f64>)>, _) = (None, None);
        let closer = |found: Option<(u64, Option<f64>)>, here: u64| {
            found.is_none_or(|(there, turns)| {
                here.abs_diff(lba) < there.abs_diff(lba) || here == there && turns.is_none()
            })
        };
        for place in (0..recent.len() + here).rev() {
            let (command, number) = (at(place), place.checked_sub(recent.len()));
            let (first, end) = (command.extent.start.get(), command.extent.end().get());
            if self.drive.evicts(place.checked_sub(1).map(at), command) {
                if evicting == 0 {
                    break;
                }
                evicting -= 1;
            }
            // Those of others take segments too.
            evicting = evicting.saturating_sub(u64::from(command.others));
            if !command.succeeded() || end + reach <= lba || lba + reach <= first {
                continue;
            }
            let computed =
                || self.computed.iter().find(|(hit, _)| Some(*hit) == number).map(|hit| hit.1);
            let turns = match end - first {
                1 if !self.may_be_hit(command) => Some(self.sample(*command).turns),
                1 => computed(),
                // It may cover the end of a track.
                _ => None,
            };
            if end <= lba + 1 && closer(below, end - 1) {
                below = Some((end - 1, turns));
            } else if first > lba && closer(above, first) {
                above = Some((first, turns));
            } else if first < lba && lba + 1 < end {
                return None;
            }
        }
        let to = |(from, turns): (u64, f64)| part(turns + (lba as f64 - from as f64) / density);
        let known = |(place, turns): (u64, Option<f64>)| turns.map(|turns| (place, turns));
        match (below.map(known), above.map(known)) {
            (Some(one), None) | (None, Some(one)) => one.map(to),
            (Some(Some(below)), Some(Some(above))) => {
                // The same track, if the angles are as far apart as the sectors.
                let apart = (above.0 - below.0) as f64 / density;
                (apart < 1.0 && wrap(above.1 - below.1 - apart).abs() < SAME_TRACK_TURNS)
                    .then(|| to(below))
            }
            _ => None,
        }
    }

    /// True if at least half of the overruns have dropped their sector. The drive may put the
    /// sectors read in sequence into another segment.
    fn may_overrun(&self) -> bool {
        let (tried, dropped) = self.drive.hits.overruns;
        tried < ENOUGH_OVERRUNS || 2 * dropped >= tried
    }

    /// The angle of a sector, if one read gets it from the media. If the read-ahead after the last
    /// command may reach the sector, the head is moved away first.
    pub(crate) fn try_angle(&mut self, lba: u64) -> Attempt<Option<AngleSample>> {
        self.keep_clock()?;
        self.leave_read_ahead(lba)?;
        let command = self.read_at_once(lba, 1)?;
        Ok(self.is_from_media(&command).then(|| self.sample(command)))
    }

    /// The angle of a cached sector, by a read that starts shortly before the cached sectors. Such
    /// a read goes to the media and ends with the sector, or with the last one before the cached
    /// ones. None if those sectors are cached too, or if the bus would delay the end too much.
    fn angle_from_before(&mut self, lba: u64) -> Attempt<Option<AngleSample>> {
        let hits = &self.drive.hits;
        let Some(bus_ns) = hits.bus_ns.filter(|_| !hits.keeps_tracks) else {
            return Ok(None);
        };
        let max = (BEFORE_TURNS * self.drive.clock.period_ns() / bus_ns.max(1.0)) as u64;
        for before in BEFORE.into_iter().filter(|before| *before <= max.min(lba)) {
            self.keep_clock()?;
            self.leave_read_ahead(lba - before)?;
            let command = self.read_at_once(lba - before, before + 1)?;
            // A hit of more sectors takes the bus longer.
            let limit_ns = self.drive.hits.limit_ns + before as f64 * bus_ns;
            if command.succeeded() && command.response().as_ns() as f64 > limit_ns {
                return Ok(Some(self.sample(command)));
            }
        }
        Ok(None)
    }

    /// The last recent reading from the media of any sector in a range, with its address.
    pub(crate) fn recent_angle(&self, from: u64, end: u64) -> Option<(u64, AngleSample)> {
        let within = |command: &&TimedCommand| {
            command.extent.len.get() == 1
                && (from..end).contains(&command.extent.start.get())
                && self.is_from_media(command)
        };
        let here = self.commands[..self.next].iter().rfind(within);
        let command = *here.or_else(|| self.drive.recent.iter().rfind(within))?;
        Some((command.extent.start.get(), self.sample(command)))
    }

    /// Reads in sequence after a cached sector until its segment, which keeps the newest sectors,
    /// has dropped it. This takes a revolution or two; as many reads elsewhere as there are
    /// segments would take a hundred. False if segments do not drop sectors so, or the drive ends
    /// before; then nothing is read.
    fn overrun(&mut self, lba: u64) -> Attempt<bool> {
        let Some(sectors) = self.drive.hits.overrun_sectors else { return Ok(false) };
        let end = lba + sectors;
        if end > self.drive.capacity {
            return Ok(false);
        }
        self.read_row(lba, end)?;
        Ok(true)
    }

    /// Reads all sectors of a range in sequence, in commands of at most [`ROW_COMMAND`].
    pub(crate) fn read_row(&mut self, from: u64, end: u64) -> Attempt<()> {
        let mut next = from;
        while next < end {
            let sectors = ROW_COMMAND.min(end - next);
            self.read_at_once(next, sectors)?;
            next += sectors;
        }
        Ok(())
    }

    /// Evicts the cache if times are noisy, so that the next reading of a sector is a fresh one and
    /// not the recorded one again. True if it did. Without a cache each reading is fresh.
    pub(crate) fn evict_if_noisy(&mut self) -> Attempt<bool> {
        let is_worth_it =
            self.drive.hits.eviction_reads > 0 && self.drive.noise_turns() >= QUIET_TURNS;
        if is_worth_it {
            self.evict()?;
        }
        Ok(is_worth_it)
    }

    /// Reads nearby sectors until the cache has dropped everything read before. Commands of others
    /// evict as well.
    pub(crate) fn evict(&mut self) -> Attempt<()> {
        let mut left = self.drive.hits.eviction_reads.max(1);
        while left > 0 {
            left = left.saturating_sub(1 + u64::from(self.read_nearby()?.others));
        }
        Ok(())
    }

    /// The same by so many reads, whatever commands of others evict.
    fn evict_by_reads(&mut self, reads: u64) -> Attempt<()> {
        (0..reads).try_for_each(|_| self.read_nearby().map(drop))
    }

    /// Reads a random sector near the last one, so that the seek is short.
    fn read_nearby(&mut self) -> Attempt<TimedCommand> {
        let capacity = self.drive.capacity;
        let reach = (capacity / EVICTION_REACH).max(1);
        let here =
            self.next.checked_sub(1).map_or(0, |last| self.commands[last].extent.start.get());
        let from = here.saturating_sub(reach / 2).min(capacity - reach);
        let lba = from + self.random.below(reach);
        self.read_at_once(lba, 1)
    }

    /// Reads elsewhere if the read-ahead after the last command would reach a sector.
    pub(crate) fn leave_read_ahead(&mut self, lba: u64) -> Attempt<()> {
        let reached = self.drive.hits.eviction_reads > 0
            && self.last().is_some_and(|last| is_read_ahead(&last, lba, self.max_read_ahead()));
        if reached {
            self.read_nearby()?;
        }
        Ok(())
    }

    /// An upper bound of the read-ahead, sectors.
    pub(crate) fn max_read_ahead(&self) -> u64 {
        self.drive.hits.overrun_sectors.unwrap_or(MAX_READ_AHEAD)
    }

    fn last(&self) -> Option<TimedCommand> {
        self.next
            .checked_sub(1)
            .map(|last| self.commands[last])
            .or_else(|| self.drive.recent.last().copied())
    }

    /// The last commands, as many as the cache may hold, each with the time at which the next one
    /// was issued.
    pub(crate) fn recent(&self) -> impl Iterator<Item = (TimedCommand, Option<Instant>)> + '_ {
        let max = self.drive.hits.eviction_reads as usize;
        let here = &self.commands[..self.next];
        let of_before = max.saturating_sub(here.len()).min(self.drive.recent.len());
        let before = &self.drive.recent[self.drive.recent.len() - of_before..];
        let here = &here[here.len().saturating_sub(max)..];
        let all = || before.iter().chain(here);
        let issues = all().skip(1).map(|command| Some(command.issued)).chain([None]);
        all().copied().zip(issues)
    }

    /// Reads the next reference sector if the last reading of one is too old.
    pub(crate) fn keep_clock(&mut self) -> Attempt<()> {
        let now = match self.next.checked_sub(1) {
            Some(last) => self.commands[last].completed,
            None => self.drive.now,
        };
        let interval_ns = if self.drive.noise_turns() < NOISY_TURNS {
            REFERENCE_INTERVAL_NS
        } else {
            NOISY_REFERENCE_INTERVAL_NS
        } * if self.drive.is_shared() { RARER } else { 1.0 };
        if self.drive.clock.age_ns(now) < interval_ns { Ok(()) } else { self.read_clock() }
    }

    /// Reads the next reference sector.
    pub(crate) fn read_clock(&mut self) -> Attempt<()> {
        for _ in 0..TRIES {
            let Some(reference) = self.next_reference() else { break };
            let command = self.read_at_once(reference.lba, 1)?;
            if self.is_from_media(&command) {
                self.drive.clock.observe(command.completed, reference.turns);
                return Ok(());
            }
            if self.drive.references.len() == 1 {
                self.evict()?;
            }
        }
        Err(Interruption::Failed(format!(
            "no reference sector of the clock could be read from the media in {TRIES} tries"
        )))
    }

    /// The reference sectors in rotation.
    pub(crate) fn next_reference(&mut self) -> Option<ReferenceSector> {
        let reference = *self.drive.references.get(self.drive.next_reference)?;
        self.drive.next_reference = (self.drive.next_reference + 1) % self.drive.references.len();
        Some(reference)
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::{Bench, plain};
    use crate::clock::Clock;
    use crate::numbers::wrap;
    use headtime_sim::DriveTruth;

    #[test]
    fn a_drive_that_keeps_whole_tracks_shows_their_ends_with_few_evictions() {
        let mut profile = plain("atlas10k@p2");
        if let Some(cache) = &mut profile.cache {
            cache.segments = 20;
        }
        let mut bench = Bench::new(DriveTruth::nominal(&profile, 5).expect("a drive"));
        let hits = &mut bench.drive.hits;
        (hits.eviction_reads, hits.limit_ns, hits.keeps_tracks) = (27, 500_000.0, true);
        let zone = bench.results.layout.zones[0].clone();
        let before = bench.drive.now;
        for track in [5, 40, 41] {
            let (start, end) = (zone.track_start(track), zone.track_start(track + 1));
            bench.run(5, |session, _| {
                // The second of the two tracks is read first, so that both are cached.
                for lba in [end, start + 9, end - 3, end - 1, end + 2, end, start, end - 2] {
                    let seen = session.angle_of_track(lba, zone.sectors_per_track as f64)?;
                    let off = wrap(seen.turns - zone.angle(lba));
                    assert!(off.abs() < 0.004, "sector {lba} of track {track} is off by {off}");
                }
                Ok(())
            });
        }
        // An eviction takes some 0.14 s. Two tracks were read together, and once their common
        // border had to be evicted.
        let ms = bench.drive.now.saturating_since(before).as_ns() / 1_000_000;
        assert!(ms < 1_500, "{ms} ms");
    }

    #[test]
    fn with_noisy_times_a_cached_sector_is_evicted_and_read_again() {
        let profile = plain("cheetah10k7");
        for (truth, is_noisy, keeps_tracks) in [
            (DriveTruth::draw(&profile, 5), true, false),
            (DriveTruth::draw(&profile, 5), true, true),
            (DriveTruth::nominal(&profile, 5), false, false),
        ] {
            let mut bench = Bench::new(truth.expect("a drive"));
            (bench.drive.hits.eviction_reads, bench.drive.hits.limit_ns) = (40, 500_000.0);
            bench.drive.hits.keeps_tracks = keeps_tracks;
            if !is_noisy {
                bench.drive.clock = Clock::new(bench.drive.clock.period_ns(), 0.0, bench.drive.now);
            }
            let [first, again, third] = bench.run(5, |session, _| {
                let lba = session.drive.capacity / 2;
                let (first, again) = (session.angle(lba)?, session.angle(lba)?);
                session.evict_if_noisy()?;
                Ok([first, again, session.angle(lba)?])
            });
            assert_eq!(first.command, again.command, "a cached sector keeps its recorded reading");
            assert_eq!(third.command.completed > first.command.completed, is_noisy);
            assert!(
                crate::numbers::wrap(third.turns - first.turns).abs() < 0.05,
                "{first:?} and {third:?}"
            );
        }
    }
}
