//! The path between host and drive: [`InterfaceTimes`] and the [`Bus`].
//!
//! A read: after the *command overhead* the media access may start; data cross the bus while they
//! are read, the last sector after it was read; the host sees the completion after the *completion
//! overhead*. A write: the data cross the bus after the command overhead; the media access starts
//! so late that it never runs out of data; the completion follows it. With a single command
//! outstanding all parts add up. With two, the second command's overhead and data overlap the first
//! one's media access; only the media and the bus are shared:
//!
//! ```text
//! read A  ├cmd┤├─seek──rotate─┤├media┤
//!                                 ├bus─┤├cpl┤
//! read B       ├cmd┤                  ┆ (waits for the arm)
//!                                    ├─seek──rotate─┤├media┤ …
//! ```
//!
//! The formulas are small pure functions, shared by the simulated drive and the drive models.
//!
//! - Modelled: overheads by direction and previous direction, a serial bus in both directions,
//!   transfer during or after the read, under-run.
//! - Not modelled: disconnects, arbitration, several drives on one bus, link errors. Cache hits
//!   have the overheads of [`CacheTimes`](crate::cache::CacheTimes); here every read is a miss, and
//!   every write reaches the media before it completes.
//! - Differs from a drive: a transfer is one burst at full bus speed; real links interleave frames.

use alloc::collections::VecDeque;

use headtime_units::{Instant, Nanos, Sectors};

use crate::place::Direction;
use crate::profile::{DriveProfile, ProfileError};

/// Overheads and bus speed of one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceTimes {
    command: CommandOverheads,
    completion: Nanos,
    write_completion: Nanos,
    bus_ps_per_sector: u64,
    read_buffered: bool,
}

impl InterfaceTimes {
    /// The profile's interface.
    ///
    /// # Errors
    /// Any error in the profile.
    pub fn from_profile(profile: &DriveProfile) -> Result<Self, ProfileError> {
        profile.validate()?;
        let interface = &profile.interface;
        Ok(Self {
            command: CommandOverheads::from_us(
                (interface.read_command_us, interface.read_after_write_us),
                (interface.write_command_us, interface.write_after_write_us),
            ),
            completion: nanos_of_us(interface.completion_us),
            write_completion: nanos_of_us(
                interface.write_completion_us.unwrap_or(interface.completion_us),
            ),
            read_buffered: interface.read_buffered,
            bus_ps_per_sector: libm::round(
                f64::from(profile.sector_bytes) * 1e6 / interface.bus_mb_per_s,
            ) as u64,
        })
    }

    /// The time from dispatch until the media access (a read) or the data transfer (a write) may
    /// start. `before` is the direction of the previous command, if any.
    #[must_use]
    pub fn command_overhead(&self, op: Direction, before: Option<Direction>) -> Nanos {
        self.command.get(op, before)
    }

    /// The time from the last byte (across the bus for a read, on the media for a write) until the
    /// host sees the completion.
    #[must_use]
    pub fn completion_overhead(&self) -> Nanos {
        self.completion
    }

    /// The bus time of `sectors`, rounded up.
    #[must_use]
    pub fn bus_time(&self, sectors: Sectors) -> Nanos {
        Nanos::from_ns(sectors.get().saturating_mul(self.bus_ps_per_sector).div_ceil(1_000))
    }

    /// The earliest start of a read's burst on a free bus: not before its first sector was read,
    /// nor so early that it would overtake the media; the last sector crosses after `media_end`. A
    /// drive that buffers reads starts after the media access.
    #[must_use]
    pub fn read_burst_start(
        &self,
        first_sector_read: Instant,
        media_end: Instant,
        sectors: Sectors,
    ) -> Instant {
        if self.read_buffered {
            return media_end;
        }
        let but_the_last = self.bus_time(sectors).saturating_sub(self.bus_time(Sectors::new(1)));
        first_sector_read.max(media_end.saturating_back(but_the_last))
    }

    /// The completion of a read whose burst starts at `burst_start`.
    #[must_use]
    pub fn read_completion(&self, burst_start: Instant, sectors: Sectors) -> Instant {
        burst_start + self.bus_time(sectors) + self.completion
    }

    /// The completion of a read with the bus free from `bus_free` on: max(media end + one sector,
    /// first sector read + all sectors, bus free + all sectors) + completion overhead.
    #[must_use]
    pub fn read_completed(
        &self,
        first_sector_read: Instant,
        media_end: Instant,
        sectors: Sectors,
        bus_free: Instant,
    ) -> Instant {
        self.read_completion(
            self.read_burst_start(first_sector_read, media_end, sectors).max(bus_free),
            sectors,
        )
    }

    /// The earliest start of a write's media access if its burst starts at `burst_start`: the first
    /// sector has arrived, and on a bus slower than the media (`sector_time` for one sector) so
    /// many more that the media never wait.
    #[must_use]
    pub fn write_media_start(
        &self,
        burst_start: Instant,
        sectors: Sectors,
        sector_time: Nanos,
    ) -> Instant {
        let media = sector_time.saturating_mul(sectors.get().saturating_sub(1));
        burst_start
            + self.bus_time(Sectors::new(1)).max(self.bus_time(sectors).saturating_sub(media))
    }

    /// The completion of a write whose last sector is on the media at `media_end`.
    #[must_use]
    pub fn write_completed(&self, media_end: Instant) -> Instant {
        media_end + self.write_completion
    }

    /// The media end of a command over `sectors` that completed at `completed`, with the bus free
    /// and no slower than the media: the inverse of [`InterfaceTimes::read_completed`] and
    /// [`InterfaceTimes::write_completed`].
    #[must_use]
    pub fn media_end(&self, op: Direction, sectors: Sectors, completed: Instant) -> Instant {
        completed.saturating_back(self.media_overhead(op, sectors))
    }

    /// The time from a command's media end to its completion, under the same conditions.
    #[must_use]
    pub fn media_overhead(&self, op: Direction, sectors: Sectors) -> Nanos {
        match op {
            Direction::Read => {
                self.bus_time(if self.read_buffered { sectors } else { Sectors::new(1) })
                    + self.completion
            }
            Direction::Write => self.write_completion,
        }
    }
}

/// Overheads of commands by their direction and that of the previous command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandOverheads {
    read: Nanos,
    read_after_write: Nanos,
    write: Nanos,
    write_after_write: Nanos,
}

impl CommandOverheads {
    /// From the profile's times in microseconds: (in general, after a write), for each direction.
    pub(crate) fn from_us(read: (f64, Option<f64>), write: (f64, Option<f64>)) -> Self {
        Self {
            read: nanos_of_us(read.0),
            read_after_write: nanos_of_us(read.1.unwrap_or(read.0)),
            write: nanos_of_us(write.0),
            write_after_write: nanos_of_us(write.1.unwrap_or(write.0)),
        }
    }

    pub(crate) fn get(&self, op: Direction, before: Option<Direction>) -> Nanos {
        match (op, before) {
            (Direction::Read, Some(Direction::Write)) => self.read_after_write,
            (Direction::Read, _) => self.read,
            (Direction::Write, Some(Direction::Write)) => self.write_after_write,
            (Direction::Write, _) => self.write,
        }
    }
}

/// A validated time, which is finite and not negative, so that the conversion cannot fail.
pub(crate) fn nanos_of_us(us: f64) -> Nanos {
    Nanos::from_ms_f64(us / 1e3).unwrap_or(Nanos::ZERO)
}

/// The bus as a serial resource: current and future bursts that do not overlap.
///
/// A read's burst is reserved when its media access is planned, so it may leave a gap before it; a
/// later write uses that gap if it fits.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    bursts: VecDeque<(Instant, Instant)>,
}

impl Bus {
    /// An idle bus.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reserves the bus for `duration` at the first free time not before `earliest`, and returns
    /// that time. `now` never decreases; bursts that ended before it are dropped.
    pub fn reserve(&mut self, now: Instant, earliest: Instant, duration: Nanos) -> Instant {
        while self.bursts.front().is_some_and(|(_, end)| *end <= now) {
            self.bursts.pop_front();
        }
        let mut start = earliest.max(now);
        let mut place = 0;
        for (burst_start, burst_end) in &self.bursts {
            if start + duration <= *burst_start {
                break;
            }
            start = start.max(*burst_end);
            place += 1;
        }
        self.bursts.insert(place, (start, start + duration));
        start
    }
}
