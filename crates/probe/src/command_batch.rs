//! [`Errand`]: one [`Ask`] carried out, command by command, whatever issues them.
//!
//! A driver asks it what to issue, issues that, and tells what completed; the order of commands,
//! the lanes and the time limit are kept here, so that a real, an emulated and a simulated driver
//! do the same.
//!
//! ```
//! use headtime_probe::{Errand, Probe, Settings, Outcome};
//! use headtime_units::{Instant, Nanos, SectorSize, Sectors};
//!
//! let mut probe = Probe::new(Settings::for_drive(Sectors::new(1 << 30), SectorSize::B512, 1));
//! let mut now = Instant::ORIGIN;
//! while let Some(mut errand) = Errand::of(&probe.ask()) {
//!     while !errand.is_over() {
//!         now = now.max(errand.not_before());
//!         // A device that does one command at a time, in 80 us each.
//!         let Some(command) = errand.next(now) else { break };
//!         errand.completed(command.id, now + Nanos::from_us(80), Outcome::Read);
//!         now += Nanos::from_us(80);
//!     }
//!     probe.completed_all(errand.into_answers());
//! }
//! assert!(probe.finding().profile.is_none());
//! ```

use headtime_units::{Extent, Instant, Nanos};

use crate::ask::{Answer, Ask, Outcome, Rewrite};

/// What one command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads; what the sectors hold is of no interest.
    Read,
    /// Reads, and the driver keeps the bytes until the errand is over.
    ReadAndKeep,
    /// Writes the kept bytes back, to the same sectors.
    WriteBack {
        /// Whether they must be on the media before it completes.
        fua: bool,
    },
}

/// One command to issue now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its number in the errand, for [`Errand::completed`].
    pub id: usize,
    /// What it does.
    pub kind: Kind,
    /// Its sectors.
    pub extent: Extent,
}

/// One ask under way.
#[derive(Clone, Debug)]
pub struct Errand {
    not_before: Instant,
    time_limit: Nanos,
    began: Option<Instant>,
    stopped: bool,
    lanes: Vec<Row>,
    issued: Vec<Issued>,
    answers: Vec<Answer>,
}

/// A lane as far as it has come.
#[derive(Clone, Debug)]
struct Row {
    commands: Vec<(Kind, Extent)>,
    most: usize,
    outstanding: usize,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    lane: usize,
    extent: Extent,
    at: Instant,
    done: bool,
}

impl Errand {
    /// What an ask comes to; none for [`Ask::Done`].
    #[must_use]
    pub fn of(ask: &Ask) -> Option<Self> {
        let row = |commands, most| Row { commands, most, outstanding: 0, next: 0 };
        let (not_before, time_limit, lanes) = match ask {
            Ask::Done => return None,
            Ask::Read { extent, not_before } => {
                (*not_before, Nanos::MAX, vec![row(vec![(Kind::Read, *extent)], 1)])
            }
            Ask::Rewrite(Rewrite { extent, via, fua }) => {
                let via = via.map(|via| (Kind::Read, via));
                let commands = [
                    Some((Kind::ReadAndKeep, *extent)),
                    via,
                    Some((Kind::WriteBack { fua: *fua }, *extent)),
                ];
                (
                    Instant::ORIGIN,
                    Nanos::MAX,
                    vec![row(commands.into_iter().flatten().collect(), 1)],
                )
            }
            Ask::Together(together) => {
                let lanes = together.lanes.iter();
                let lanes = lanes.map(|lane| {
                    row(
                        lane.extents.iter().map(|extent| (Kind::Read, *extent)).collect(),
                        lane.outstanding.max(1) as usize,
                    )
                });
                (Instant::ORIGIN, together.time_limit, lanes.collect())
            }
        };
        Some(Self {
            not_before,
            time_limit,
            began: None,
            stopped: false,
            lanes,
            issued: Vec::new(),
            answers: Vec::new(),
        })
    }

    /// When the first command may be issued at the earliest; the origin is at once.
    #[must_use]
    pub fn not_before(&self) -> Instant {
        self.not_before
    }

    /// A command to issue at `now`, if there is one; call it again until there is none. What it
    /// answers counts as issued at `now`.
    pub fn next(&mut self, now: Instant) -> Option<Issue> {
        if now < self.not_before || self.stopped {
            return None;
        }
        let began = *self.began.get_or_insert(now);
        if now.saturating_since(began) >= self.time_limit && !self.issued.is_empty() {
            self.stopped = true;
            return None;
        }
        let place = self
            .lanes
            .iter()
            .position(|lane| lane.outstanding < lane.most && lane.next < lane.commands.len())?;
        let lane = &mut self.lanes[place];
        let (kind, extent) = lane.commands[lane.next];
        lane.next += 1;
        lane.outstanding += 1;
        self.issued.push(Issued { lane: place, extent, at: now, done: false });
        Some(Issue { id: self.issued.len() - 1, kind, extent })
    }

    /// A command was really handed to the drive at another time than [`Errand::next`] was told.
    ///
    /// # Panics
    /// When no such command was issued.
    pub fn handed_over(&mut self, id: usize, at: Instant) {
        self.issued[id].at = at;
    }

    /// A command completed. One that was a write back without its read having succeeded does not
    /// come: the errand is over before.
    ///
    /// # Panics
    /// When no such command is outstanding, or it completed before it was issued.
    pub fn completed(&mut self, id: usize, at: Instant, outcome: Outcome) {
        let issued = &mut self.issued[id];
        assert!(
            !issued.done && at >= issued.at,
            "command {id}, issued at {}, completed at {at}, done before: {}",
            issued.at,
            issued.done
        );
        issued.done = true;
        self.answers.push(Answer {
            extent: issued.extent,
            issued: issued.at,
            completed: at,
            outcome,
        });
        let (place, lane) = (issued.lane, &mut self.lanes[issued.lane]);
        lane.outstanding -= 1;
        let lane_over = lane.outstanding == 0 && lane.next == lane.commands.len();
        let keeps = lane.commands.iter().any(|(kind, _)| *kind == Kind::ReadAndKeep);
        self.stopped |= (place == 0 && lane_over) || (keeps && outcome == Outcome::Failed);
    }

    /// Whether nothing is outstanding and nothing more will be issued; with a time limit, by `next`
    /// having been called after it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let outstanding = self.lanes.iter().any(|lane| lane.outstanding > 0);
        !outstanding
            && (self.stopped || self.lanes.iter().all(|lane| lane.next == lane.commands.len()))
    }

    /// The answers in the order of completion, for
    /// [`Probe::completed_all`](crate::Probe::completed_all).
    #[must_use]
    pub fn into_answers(self) -> Vec<Answer> {
        self.answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::{Lane, Together};

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_us(us)
    }

    fn extents(from: u64, count: u64) -> Vec<Extent> {
        (from..from + count).map(|lba| Extent::from_numbers(lba, 1)).collect()
    }

    #[test]
    fn a_read_waits_for_its_time() {
        let extent = Extent::from_numbers(7, 1);
        let mut errand = Errand::of(&Ask::Read { extent, not_before: at(10) }).unwrap();
        assert_eq!(errand.next(at(9)), None);
        assert_eq!(errand.next(at(11)), Some(Issue { id: 0, kind: Kind::Read, extent }));
        assert!(errand.next(at(11)).is_none() && !errand.is_over());
        errand.completed(0, at(20), Outcome::Read);
        assert!(errand.is_over());
        assert_eq!(
            errand.into_answers(),
            [Answer { extent, issued: at(11), completed: at(20), outcome: Outcome::Read }]
        );
        assert!(Errand::of(&Ask::Done).is_none());
    }

    #[test]
    fn a_rewrite_writes_last_and_nothing_where_a_read_failed() {
        let (extent, via) = (Extent::from_numbers(7, 8), Extent::from_numbers(900, 1));
        let ask = Ask::Rewrite(Rewrite { extent, via: Some(via), fua: true });
        let mut errand = Errand::of(&ask).unwrap();
        for (id, (kind, of)) in [
            (Kind::ReadAndKeep, extent),
            (Kind::Read, via),
            (Kind::WriteBack { fua: true }, extent),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(errand.next(at(id as u64)), Some(Issue { id, kind, extent: of }));
            assert_eq!(errand.next(at(id as u64)), None, "one at a time");
            errand.completed(id, at(id as u64), Outcome::Read);
        }
        assert!(errand.is_over());
        for failing in 0..2 {
            let mut errand = Errand::of(&ask).unwrap();
            for id in 0..=failing {
                assert_eq!(errand.next(at(0)).map(|issue| issue.id), Some(id));
                errand.completed(
                    id,
                    at(1),
                    if id == failing { Outcome::Failed } else { Outcome::Read },
                );
            }
            assert!(errand.is_over() && errand.next(at(2)).is_none(), "failing {failing}");
        }
    }

    #[test]
    fn lanes_keep_their_number_outstanding_until_the_first_is_through() {
        let lanes = vec![
            Lane { extents: extents(100, 2), outstanding: 1 },
            Lane { extents: extents(0, 50), outstanding: 3 },
        ];
        let mut errand =
            Errand::of(&Ask::Together(Together { lanes, time_limit: Nanos::from_secs(1) }))
                .unwrap();
        let begun: Vec<u64> = core::iter::from_fn(|| errand.next(at(0)))
            .map(|issue| issue.extent.start.get())
            .collect();
        assert_eq!(begun, [100, 0, 1, 2]);
        errand.completed(1, at(1), Outcome::Read);
        assert_eq!(errand.next(at(1)).map(|issue| issue.extent.start.get()), Some(3));
        errand.completed(0, at(2), Outcome::Read);
        let second = errand.next(at(2)).unwrap();
        assert_eq!(second.extent.start.get(), 101);
        errand.completed(second.id, at(3), Outcome::Read);
        // The first lane is through: what is outstanding is awaited, nothing more is issued.
        assert!(errand.next(at(3)).is_none() && !errand.is_over());
        for id in [2, 3, 4] {
            errand.completed(id, at(9), Outcome::Read);
        }
        assert!(errand.is_over());
        assert_eq!(errand.into_answers().len(), 6);
    }

    #[test]
    fn nothing_is_issued_after_the_time_limit() {
        let lanes = vec![Lane { extents: extents(0, 50), outstanding: 2 }];
        let mut errand =
            Errand::of(&Ask::Together(Together { lanes, time_limit: Nanos::from_us(10) })).unwrap();
        (0..2).for_each(|id| assert_eq!(errand.next(at(0)).map(|issue| issue.id), Some(id)));
        errand.completed(0, at(10), Outcome::Read);
        assert!(errand.next(at(10)).is_none());
        errand.completed(1, at(11), Outcome::Failed);
        assert!(errand.is_over());
    }
}
