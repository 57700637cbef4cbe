//! The arms of a drive: [`Arms`] says which one serves an address, and [`ArmState`] is what the
//! scheduler holds for each of several.
//!
//! Worked example, two arms over 100 sectors, the first for LBAs 0–49: the unit is 50, and LBA 60
//! is served by arm 60 / 50 mod 2 = 1. An array of three members with stripes of 4 has a unit of 4:
//! LBA 14 is on member 14 / 4 mod 3 = 0.

use alloc::vec::Vec;

use headtime_units::{Instant, Lba, Sectors};

use crate::positioning::{Head, Target};
use crate::queue::{Queue, Queued};

/// The arms of a drive, or of the members of an array, that work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arms {
    count: usize,
    /// The sectors after which the next arm serves; `None` where that is not known.
    unit: Option<Sectors>,
}

impl Arms {
    /// One arm.
    pub const ONE: Self = Self { count: 1, unit: None };

    /// Arms that serve `unit` sectors in turn.
    ///
    /// # Panics
    /// Without an arm, or when `unit` is empty.
    #[must_use]
    pub fn in_turn(count: usize, unit: Sectors) -> Self {
        assert!(count > 0 && !unit.is_zero(), "{count} arms in turn of {unit}");
        Self { count, unit: (count > 1).then_some(unit) }
    }

    /// Arms of which it is not known which one serves an address.
    #[must_use]
    pub fn unknown(count: usize) -> Self {
        Self { count: count.max(1), unit: None }
    }

    /// The number of arms, at least 1.
    #[must_use]
    pub const fn count(self) -> usize {
        self.count
    }

    /// The arm that serves an address; `None` for a single arm, and where it is not known.
    #[must_use]
    pub fn arm_of(self, lba: Lba) -> Option<usize> {
        self.unit.map(|unit| (lba.get() / unit.get() % self.count as u64) as usize)
    }
}

/// The requests and the head of one of several arms.
pub(crate) struct ArmState {
    pub(crate) queue: Queue,
    /// The head after its last completion.
    pub(crate) head: Head,
}

/// The states of several arms that are known by address; empty for one arm.
pub(crate) struct ArmStates {
    arms: Arms,
    states: Vec<ArmState>,
}

impl ArmStates {
    pub(crate) fn of(arms: Arms) -> Self {
        let count = if arms.unit.is_some() { arms.count } else { 0 };
        let state = |_| ArmState { queue: Queue::default(), head: Head::UNKNOWN };
        Self { arms, states: (0..count).map(state).collect() }
    }

    pub(crate) fn all(&self) -> &[ArmState] {
        &self.states
    }

    fn serving(&mut self, queued: &Queued) -> Option<&mut ArmState> {
        let arm = self.arms.arm_of(queued.request.extent.start)?;
        self.states.get_mut(arm)
    }

    pub(crate) fn enter(&mut self, queued: Queued) {
        if let Some(state) = self.serving(&queued) {
            state.queue.insert(queued);
        }
    }

    pub(crate) fn leave(&mut self, queued: &Queued) {
        if let Some(state) = self.serving(queued) {
            state.queue.remove(queued.ticket);
        }
    }

    pub(crate) fn set_deadline(&mut self, queued: &Queued, deadline: Option<Instant>) {
        if let Some(state) = self.serving(queued) {
            state.queue.set_deadline(queued.ticket, deadline);
        }
    }

    /// The arm that has served `target` was at `head` then.
    pub(crate) fn moved(&mut self, target: &Target, head: Head) {
        let arm = self.arms.arm_of(target.extent.start);
        if let Some(state) = arm.and_then(|arm| self.states.get_mut(arm))
            && state.head.free_at <= head.free_at
        {
            state.head = head;
        }
    }

    /// Checks that each request of `queue` is in the queue of its arm, and no other is.
    ///
    /// # Panics
    /// When it is not so: a fault of the scheduler.
    pub(crate) fn self_check(&self, queue: &Queue) {
        if self.states.is_empty() {
            return;
        }
        for queued in queue.by_arrival() {
            let arm = self.arms.arm_of(queued.request.extent.start).unwrap_or_default();
            let same = self.states[arm].queue.get(queued.ticket);
            assert_eq!(same, Some(queued), "arm {arm} does not hold a request of its own");
        }
        self.states.iter().for_each(|state| state.queue.self_check());
        let held: usize = self.states.iter().map(|state| state.queue.len()).sum();
        assert_eq!(held, queue.len(), "an arm holds a request that is gone");
    }

    pub(crate) fn forget_orders(&mut self) {
        self.states.iter_mut().for_each(|state| state.queue.forget_orders());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_examples_are_served_as_they_say() {
        let two = Arms::in_turn(2, Sectors::new(50));
        assert_eq!((two.arm_of(Lba::new(49)), two.arm_of(Lba::new(60))), (Some(0), Some(1)));
        assert_eq!(Arms::in_turn(3, Sectors::new(4)).arm_of(Lba::new(14)), Some(0));
        assert_eq!(Arms::in_turn(1, Sectors::new(4)).arm_of(Lba::new(14)), None);
        assert_eq!((Arms::unknown(3).count(), Arms::unknown(3).arm_of(Lba::new(9))), (3, None));
    }
}
