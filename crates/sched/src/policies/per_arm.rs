//! [`PerArm`]: a policy that decides for each arm of a drive with several by itself.
//!
//! Each arm has an instance of the policy, which sees the requests, the commands and the head of
//! its arm alone. Of the arms with room for a command, the one with the fewest is asked first. The
//! drive holds as many commands as the instances together ask for, so that all arms work. Beside a
//! scan the scheduler asks each instance itself, because each arm has gaps of its own.
//!
//! Worked example: two arms, and a policy with two commands outstanding. Arm 0 holds two, arm 1
//! one: arm 1's instance chooses among the requests of arm 1. With three queued requests on arm 0
//! and none on arm 1, nothing is sent until arm 0 completes one.
//!
//! A drive with one arm, and one of which it is not known which arm serves an address, has one
//! instance. So have a drive that is to order all requests itself, policies that use shares whether
//! there are any or not, and striped members while there are runs, whose turns reach all of them.
//! While volumes have shares, so have striped members, and a drive if a volume has a cap in
//! requests or bytes a second. Otherwise a share is one of the time of each arm: half of the drive
//! is half of each arm.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;

use headtime_units::{Instant, Lba, Nanos};
use smallvec::SmallVec;

use crate::arms::Arms;
use crate::command::{Finished, Waits};
use crate::policies::auto::PolicySwitch;
use crate::policy::{Choice, Policy, View};
use crate::positioning::{Positioning, Target};
use crate::queue::Queued;
use crate::request::{Op, Request, RequestId, StreamId};
use crate::shares::{Charge, FlushTurns};
use crate::table::Parameters;

/// A policy with an instance for each arm.
pub(crate) struct PerArm {
    /// Decides for the whole drive.
    whole: Box<dyn Policy>,
    /// Empty where only the whole is decided for.
    by_arm: Vec<Box<dyn Policy>>,
    arms: Arms,
    parameters: Parameters,
    build: fn(&Parameters) -> Box<dyn Policy>,
    /// True if the policy needed all arms at the last decision: a request has kept all of them.
    needs_all: Cell<bool>,
}

impl PerArm {
    pub(crate) fn new(parameters: &Parameters, build: fn(&Parameters) -> Box<dyn Policy>) -> Self {
        Self {
            whole: build(parameters),
            by_arm: Vec::new(),
            arms: Arms::ONE,
            parameters: parameters.clone(),
            build,
            needs_all: Cell::new(false),
        }
    }

    /// The instance that decides for requests at the address of `request`; all for a flush.
    fn instances(&mut self, request: &Request) -> impl Iterator<Item = &mut Box<dyn Policy>> {
        let arm = match request.op {
            Op::Flush => None,
            _ => self.arms.arm_of(request.extent.start),
        };
        let by_arm = self.by_arm.iter_mut().enumerate();
        by_arm.filter(move |(of, _)| arm.is_none_or(|arm| arm == *of)).map(|(_, instance)| instance)
    }

    /// Returns whether the whole is decided for; in the view of one arm there are no arms.
    fn is_whole(&self, view: &View<'_>) -> bool {
        self.by_arm.is_empty()
            || view.arms.is_empty()
            || view.shares.any_terms() && !self.shares_by_arm(view)
            || self.needs_all_arms(view)
            || self.whole.depth(view) == usize::MAX
    }

    fn needs_all_arms(&self, view: &View<'_>) -> bool {
        self.needs_all.set(self.whole.needs_all_arms(view));
        self.needs_all.get()
    }

    /// Returns whether shares are of the time of each arm: on a drive whose arms have a block of
    /// addresses each, but for caps in requests or bytes a second. Of striped members, the requests
    /// of a small share would gather on the one that is not in its turn.
    fn shares_by_arm(&self, view: &View<'_>) -> bool {
        self.arms.in_blocks(view.belief.capacity()) == self.arms.count() && !view.shares.any_caps()
    }

    /// The arms with requests and room for a command, the one with the fewest commands first.
    fn with_room(&self, view: &View<'_>) -> SmallVec<[usize; 16]> {
        let commands = |arm: usize| view.arms[arm].commands.len();
        let waits = |arm: usize| view.arms[arm].shares.waiting(FlushTurns::Count).next().is_some();
        let arms = self.by_arm.iter().enumerate().filter(|(arm, instance)| {
            (!view.arms[*arm].queue.is_empty() || waits(*arm))
                && commands(*arm) < instance.depth(&view.of_arm(*arm))
        });
        let mut open: SmallVec<[usize; 16]> = arms.map(|(arm, _)| arm).collect();
        open.sort_by_key(|arm| (commands(*arm), *arm));
        open
    }
}

impl Policy for PerArm {
    fn name(&self) -> &'static str {
        self.whole.name()
    }

    /// Of the first arm.
    fn active(&self) -> &'static str {
        self.by_arm.first().unwrap_or(&self.whole).active()
    }

    fn switches(&self) -> &[PolicySwitch] {
        self.by_arm.first().unwrap_or(&self.whole).switches()
    }

    fn depth(&self, view: &View<'_>) -> usize {
        if self.is_whole(view) {
            return self.whole.depth(view);
        }
        let held = view.outstanding.len();
        if self.with_room(view).is_empty() { held.max(1) } else { held + 1 }
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        if self.is_whole(view) {
            return self.whole.choose(view);
        }
        let mut latest = Choice::Nothing;
        for arm in self.with_room(view) {
            latest = match (self.by_arm[arm].choose(&view.of_arm(arm)), latest) {
                (chosen @ (Choice::Send(_) | Choice::Flush), _) => return chosen,
                (Choice::Nothing, before) => before,
                (Choice::Hold { until, .. }, before @ Choice::Hold { until: earlier, .. })
                    if earlier <= until =>
                {
                    before
                }
                (hold, _) => hold,
            };
        }
        latest
    }

    fn forces(&self, view: &View<'_>, write: &Request) -> bool {
        let by_arm = |arm: usize| {
            let instance = self.by_arm.get(arm).filter(|_| !self.is_whole(view));
            instance.is_some_and(|instance| instance.forces(&view.of_arm(arm), write))
        };
        self.whole.forces(view, write) || self.arms.arm_of(write.extent.start).is_some_and(by_arm)
    }

    fn uses_shares(&self) -> bool {
        self.whole.uses_shares()
    }

    fn enforces_limits(&self) -> bool {
        self.whole.enforces_limits()
    }

    fn charge(&mut self, view: &View<'_>, queued: &Queued) -> Charge {
        match self.arms.arm_of(queued.request.extent.start).filter(|_| !self.is_whole(view)) {
            Some(arm) => self.by_arm[arm].charge(&view.of_arm(arm), queued),
            None => self.whole.charge(view, queued),
        }
    }

    fn worst_service(
        &self,
        belief: &dyn Positioning,
        now: Instant,
        target: &Target,
    ) -> Option<Nanos> {
        self.whole.worst_service(belief, now, target)
    }

    fn decides_by_arm(&self, view: &View<'_>) -> bool {
        !self.is_whole(view)
    }

    fn of_arm(&mut self, arm: usize) -> Option<&mut Box<dyn Policy>> {
        self.by_arm.get_mut(arm)
    }

    fn belief_changed(&mut self) {
        self.whole.belief_changed();
        self.by_arm.iter_mut().for_each(|instance| instance.belief_changed());
    }

    fn arms(&mut self, arms: Arms) {
        self.arms = arms;
        let several = arms.arm_of(Lba::new(0)).is_some() && !self.whole.uses_shares();
        let count = if several { arms.count() } else { 0 };
        self.by_arm = (0..count).map(|_| (self.build)(&self.parameters)).collect();
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        self.whole.submitted(now, request);
        self.instances(request).for_each(|instance| instance.submitted(now, request));
    }

    fn cancelled(&mut self, id: RequestId) {
        self.whole.cancelled(id);
        self.by_arm.iter_mut().for_each(|instance| instance.cancelled(id));
    }

    /// Of the instances for arms, of which those waits are; the whole waits only for shares.
    fn waits(&self) -> Waits {
        self.by_arm.iter().fold(self.whole.waits(), |sum, instance| sum + instance.waits())
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.whole.stream_ended(now, stream);
        self.by_arm.iter_mut().for_each(|instance| instance.stream_ended(now, stream));
    }

    fn finished(&mut self, finished: &Finished) {
        let other_arms = if self.needs_all.get() { Nanos::ZERO } else { finished.other_arms };
        self.whole.finished(&Finished { other_arms, ..*finished });
        let disk_time = finished.disk_time + finished.other_arms;
        let of_arm = Finished { disk_time, other_arms: Nanos::ZERO, ..*finished };
        self.instances(&finished.request).for_each(|instance| instance.finished(&of_arm));
    }
}

#[cfg(test)]
mod tests {
    use headtime_units::{Extent, Sectors};

    use super::*;
    use crate::command::Outcome;
    use crate::request::{ClassId, VolumeId};
    use crate::table::PolicyEntry;

    /// Reports as waits the disk time of all requests that have finished.
    struct Recording(Waits);

    impl Policy for Recording {
        fn name(&self) -> &'static str {
            "recording"
        }

        fn depth(&self, _view: &View<'_>) -> usize {
            1
        }

        fn choose(&mut self, _view: &View<'_>) -> Choice {
            Choice::Nothing
        }

        fn finished(&mut self, finished: &Finished) {
            self.0.time += finished.disk_time;
        }

        fn waits(&self) -> Waits {
            self.0
        }
    }

    #[test]
    fn an_instance_gets_the_time_of_its_arm_and_the_whole_that_of_the_drive() {
        let (_, parameters) = PolicyEntry::parse("fcfs").expect("it is in the table");
        let mut per_arm = PerArm::new(&parameters, |_| Box::new(Recording(Waits::default())));
        per_arm.arms(Arms::in_turn(2, Sectors::new(100)));
        per_arm.finished(&Finished {
            request: Request {
                id: RequestId(0),
                volume: VolumeId(0),
                class: ClassId(0),
                stream: StreamId(0),
                op: Op::Write,
                extent: Extent::from_numbers(100, 8),
                fua: false,
                deadline: None,
            },
            submitted: Instant::ORIGIN,
            dispatched: Instant::ORIGIN,
            finished: Instant::ORIGIN + Nanos::from_ms(16),
            disk_time: Nanos::from_ms(1),
            other_arms: Nanos::from_ms(15),
            overlapped: Nanos::ZERO,
            forced: false,
            outcome: Outcome::Success,
        });
        let time_of = |policy: &dyn Policy| policy.waits().time;
        let by_arm = per_arm.by_arm.iter().map(|instance| time_of(&**instance));
        assert_eq!(by_arm.collect::<Vec<_>>(), [Nanos::ZERO, Nanos::from_ms(16)]);
        assert_eq!(time_of(&*per_arm.whole), Nanos::from_ms(1));
    }
}
