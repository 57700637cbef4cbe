//! Drives striped into one: RAID-0.
//!
//! A command is split into one part for each member that holds sectors of it, and is complete when
//! all parts are. Parts for a member whose queue is full wait in order of arrival. A flush goes to
//! every member. The first part that fails decides the result: the command fails, and its
//! explanation names the member. Commands without a part on that member are not affected.
//!
//! Worked example, three members, stripes of 4 sectors: a read of LBAs 2–13 reads sectors 2–5 of
//! the first member and 0–3 of the two others. If the third is gone, this read fails and names it;
//! a read of LBAs 2–7 does not.
//!
//! *Not done*: redundancy. A member of an NBD server that was disconnected is not used again, since
//! it cannot be recognized by the contents of the array.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use headtime_mechanics::Stripes;
use headtime_sched::{Command, CommandId, Op};
use headtime_units::{ByteSize, Extent, Instant, SectorSize};
use rustix::io::Errno;

use crate::backend::{Backend, BackendCommand, BackendCompletion, EmulationCounts};
use crate::drive_identity::DriveIdentity;
use crate::snapshot::{LinkSnapshot, LinkState};

/// Striped drives.
pub(crate) struct ArrayDrive {
    stripes: Stripes,
    sector_size: SectorSize,
    members: Vec<ArrayMember>,
    /// Only looked up, so its order never matters.
    under_way: HashMap<CommandId, UnderWay>,
    /// Completed commands that were not collected yet.
    done: Vec<BackendCompletion>,
    /// Explanations of the commands that the last `collect` reported.
    explanations: HashMap<CommandId, Arc<str>>,
    from_member: Vec<BackendCompletion>,
}

/// A member of an array.
pub(crate) struct ArrayMember {
    /// Its locator.
    pub(crate) name: String,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) queue_depth: usize,
    at_member: usize,
    /// Its losses after the last `collect`.
    losses: u64,
    /// Parts that wait for room in its queue.
    waiting: VecDeque<BackendCommand>,
}

/// A command of which parts are at the members.
struct UnderWay {
    op: Op,
    extent: Extent,
    /// Members with an unfinished part.
    parts_left: Vec<usize>,
    /// The sectors that a read found, by member.
    found: Vec<(usize, Bytes)>,
    /// The completion time of the last part; `None` once a part had none.
    due: Option<Instant>,
    failed: Option<(i32, Arc<str>)>,
}

impl ArrayMember {
    pub(crate) fn new(name: String, backend: Box<dyn Backend>, queue_depth: usize) -> Self {
        let losses = backend.losses();
        Self { name, backend, queue_depth, at_member: 0, losses, waiting: VecDeque::new() }
    }

    fn send_waiting(&mut self, now: Instant) {
        while self.at_member < self.queue_depth {
            let Some(part) = self.waiting.pop_front() else { return };
            self.at_member += 1;
            self.backend.start(now, part);
        }
    }
}

impl ArrayDrive {
    pub(crate) fn new(
        stripes: Stripes,
        sector_size: SectorSize,
        mut members: Vec<ArrayMember>,
    ) -> Self {
        for member in &mut members {
            member.backend.identify_by(Arc::new(DriveIdentity::from_start(0, |_| {
                Err("a member of an array is not recognized; restart the server".to_owned())
            })));
        }
        Self {
            stripes,
            sector_size,
            members,
            under_way: HashMap::new(),
            done: Vec::new(),
            explanations: HashMap::new(),
            from_member: Vec::new(),
        }
    }

    /// A member has completed its part.
    fn part_ended(&mut self, number: usize, ended: BackendCompletion) {
        let explanation = ended
            .result
            .is_err()
            .then(|| self.members[number].backend.explanation(ended.command))
            .flatten();
        // A part that was given up before it was sent has been reported already.
        let Some(command) = self.under_way.get_mut(&ended.command) else { return };
        command.due = command.due.zip(ended.due).map(|(last, due)| last.max(due));
        match ended.result {
            Ok(found) if command.op == Op::Read => command.found.push((number, found)),
            Ok(_) => {}
            Err(errno) => {
                let cause = explanation
                    .unwrap_or_else(|| std::io::Error::from_raw_os_error(errno).to_string().into());
                let text = named(&self.members, number, &cause);
                command.failed.get_or_insert((errno, text));
            }
        }
        self.part_is_over(number, ended.command);
    }

    fn part_is_over(&mut self, number: usize, id: CommandId) {
        let Some(command) = self.under_way.get_mut(&id) else { return };
        command.parts_left.retain(|left| *left != number);
        if !command.parts_left.is_empty() {
            return;
        }
        let Some(mut command) = self.under_way.remove(&id) else { return };
        let result = match command.failed.take() {
            None => Ok(self.joined(&mut command)),
            Some((errno, explanation)) => {
                self.explanations.insert(id, explanation);
                Err(errno)
            }
        };
        self.done.push(BackendCompletion { command: id, due: command.due, result });
    }

    /// A member may have lost unflushed writes: commands with a finished part there fail, because
    /// the engine takes what completes from now on for unharmed.
    fn fail_lost_parts(&mut self, number: usize) {
        let text = named(&self.members, number, "unflushed writes were lost");
        for command in self.under_way.values_mut() {
            let is_there = !self.stripes.part(command.extent, number).len.is_zero();
            if command.op.changes_sectors() && is_there && !command.parts_left.contains(&number) {
                let errno = Errno::IO.raw_os_error();
                command.failed.get_or_insert_with(|| (errno, Arc::clone(&text)));
            }
        }
    }

    /// The sectors of a read in the order of the array.
    fn joined(&self, command: &mut UnderWay) -> Bytes {
        if command.found.len() <= 1 {
            return command.found.pop().map(|(_, found)| found).unwrap_or_default();
        }
        let mut all =
            BytesMut::with_capacity(self.sector_size.bytes_of(command.extent.len) as usize);
        for (number, run) in self.stripes.runs(command.extent) {
            let len = self.sector_size.bytes_of(run.len) as usize;
            let found = command.found.iter_mut().find(|(member, _)| *member == number);
            let (_, found) = found.expect("a member that holds sectors of a read has read them");
            all.extend_from_slice(&found.split_to(len));
        }
        all.freeze()
    }

    /// The data of a write, by member.
    fn divided(&self, extent: Extent, pieces: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        let mut by_member = vec![Vec::new(); self.members.len()];
        let mut pieces = VecDeque::from(pieces);
        for (number, run) in self.stripes.runs(extent) {
            let mut left = self.sector_size.bytes_of(run.len) as usize;
            while left > 0 {
                let first = pieces.front_mut().expect("a write has data for all of its sectors");
                let piece = first.split_to(left.min(first.len()));
                left -= piece.len();
                if first.is_empty() {
                    pieces.pop_front();
                }
                by_member[number].push(piece);
            }
        }
        by_member
    }
}

/// The name of a member for people.
fn name_of(members: &[ArrayMember], number: usize) -> String {
    format!("member {} of {}, {}", number + 1, members.len(), members[number].name)
}

/// An explanation that names the member.
fn named(members: &[ArrayMember], number: usize, cause: &str) -> Arc<str> {
    format!("{}: {cause}", name_of(members, number)).into()
}

impl Backend for ArrayDrive {
    fn is_rotating_drive(&self) -> bool {
        self.members.iter().all(|member| member.backend.is_rotating_drive())
    }

    fn members(&self) -> Vec<String> {
        (0..self.members.len()).map(|number| name_of(&self.members, number)).collect()
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.members.iter().map(|member| &*member.name).collect();
        format!(
            "array of {}, stripes of {}: {}",
            names.len(),
            ByteSize::new(self.sector_size.bytes_of(self.stripes.stripe())),
            names.join(", ")
        )
    }

    fn start(&mut self, now: Instant, work: BackendCommand) {
        let BackendCommand { command, pieces } = work;
        let mut by_member = if command.op == Op::Write {
            self.divided(command.extent, pieces)
        } else {
            vec![Vec::new(); self.members.len()]
        };
        let mut parts_left = Vec::new();
        for (number, member) in self.members.iter_mut().enumerate() {
            let extent = self.stripes.part(command.extent, number);
            if command.op == Op::Flush || !extent.len.is_zero() {
                let pieces = std::mem::take(&mut by_member[number]);
                let part = Command { extent, requests: Default::default(), ..command.clone() };
                member.waiting.push_back(BackendCommand { command: part, pieces });
                parts_left.push(number);
            }
        }
        let under_way = UnderWay {
            op: command.op,
            extent: command.extent,
            parts_left,
            found: Vec::new(),
            due: Some(Instant::ORIGIN),
            failed: None,
        };
        self.under_way.insert(command.id, under_way);
        self.members.iter_mut().for_each(|member| member.send_waiting(now));
    }

    fn collect(&mut self, now: Instant, completed: &mut Vec<BackendCompletion>) {
        self.explanations.clear();
        for number in 0..self.members.len() {
            let mut from_member = std::mem::take(&mut self.from_member);
            let backend = &mut self.members[number].backend;
            backend.collect(now, &mut from_member);
            let losses = backend.losses();
            if std::mem::replace(&mut self.members[number].losses, losses) != losses {
                self.fail_lost_parts(number);
            }
            for ended in from_member.drain(..) {
                self.members[number].at_member -= 1;
                self.part_ended(number, ended);
            }
            self.from_member = from_member;
            self.members[number].send_waiting(now);
        }
        for over in self.done.drain(..) {
            completed.push(over);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let own = (!self.done.is_empty()).then_some(Instant::ORIGIN);
        self.members.iter().filter_map(|member| member.backend.next_event()).chain(own).min()
    }

    fn is_prompt(&self) -> bool {
        self.members.iter().all(|member| member.backend.is_prompt())
    }

    fn emulation(&self, now: Instant) -> Option<EmulationCounts> {
        let members = self.members.iter().filter_map(|member| member.backend.emulation(now));
        members.reduce(|sum, member| EmulationCounts {
            bytes_late: sum.bytes_late + member.bytes_late,
            bytes_late_max: sum.bytes_late_max.max(member.bytes_late_max),
            disk_time: sum.disk_time.plus(&member.disk_time),
        })
    }

    /// Parts that wait for room are not sent any more.
    fn give_up(&mut self, now: Instant, command: CommandId) {
        let Some(under_way) = self.under_way.get(&command) else { return };
        for number in under_way.parts_left.clone() {
            let member = &mut self.members[number];
            let Some(place) = member.waiting.iter().position(|part| part.command.id == command)
            else {
                member.backend.give_up(now, command);
                continue;
            };
            member.waiting.remove(place);
            let errno = Errno::TIMEDOUT.raw_os_error();
            let text = named(&self.members, number, "its queue is full");
            if let Some(command) = self.under_way.get_mut(&command) {
                command.failed.get_or_insert((errno, text));
            }
            self.part_is_over(number, command);
        }
    }

    fn explanation(&mut self, command: CommandId) -> Option<Arc<str>> {
        self.explanations.remove(&command)
    }

    fn losses(&self) -> u64 {
        self.members.iter().map(|member| member.backend.losses()).sum()
    }

    /// The connection of the first member that is away, else of any.
    fn link(&self) -> Option<LinkSnapshot> {
        let links = || self.members.iter().filter_map(|member| member.backend.link());
        let state = links().map(|link| link.state).max_by_key(|state| match state {
            LinkState::Connected => 0,
            LinkState::Away { .. } => 1,
        })?;
        let sum = |count: fn(&LinkSnapshot) -> u64| links().map(|link| count(&link)).sum();
        Some(LinkSnapshot {
            state,
            losses: sum(|link| link.losses),
            attempts: sum(|link| link.attempts),
        })
    }

    fn abandon(self: Box<Self>) {
        self.members.into_iter().for_each(|member| member.backend.abandon());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use headtime_units::Sectors;

    use super::*;

    /// The behavior of a member that a test decides.
    #[derive(Default)]
    struct Script {
        at_member: Vec<CommandId>,
        completes: usize,
        losses: u64,
    }

    struct Scripted(Arc<Mutex<Script>>);

    impl Backend for Scripted {
        fn describe(&self) -> String {
            "scripted".to_owned()
        }

        fn start(&mut self, _now: Instant, work: BackendCommand) {
            self.0.lock().expect("no test panics").at_member.push(work.command.id);
        }

        fn collect(&mut self, _now: Instant, completed: &mut Vec<BackendCompletion>) {
            let mut script = self.0.lock().expect("no test panics");
            let count = std::mem::take(&mut script.completes);
            completed.extend(script.at_member.drain(..count).map(|command| BackendCompletion {
                command,
                due: None,
                result: Ok(Bytes::new()),
            }));
        }

        fn next_event(&self) -> Option<Instant> {
            None
        }

        fn losses(&self) -> u64 {
            self.0.lock().expect("no test panics").losses
        }

        fn abandon(self: Box<Self>) {}
    }

    /// Two members with room for one command each, stripes of 4 sectors.
    fn array() -> (ArrayDrive, [Arc<Mutex<Script>>; 2]) {
        let scripts: [Arc<Mutex<Script>>; 2] = Default::default();
        let member = |number: usize| {
            let backend = Box::new(Scripted(Arc::clone(&scripts[number])));
            ArrayMember::new(format!("drive{number}"), backend, 1)
        };
        let stripes = Stripes::new(Sectors::new(4), 2);
        (ArrayDrive::new(stripes, SectorSize::B512, vec![member(0), member(1)]), scripts)
    }

    fn start(array: &mut ArrayDrive, id: u64, op: Op, start: u64, len: u64) {
        let extent = Extent::from_numbers(start, len);
        let command = Command {
            id: CommandId(id),
            op,
            extent,
            fua: false,
            background: None,
            requests: Default::default(),
        };
        let data =
            if op == Op::Write { vec![Bytes::from(vec![0; len as usize * 512])] } else { vec![] };
        array.start(Instant::ORIGIN, BackendCommand { command, pieces: data });
    }

    fn collect(array: &mut ArrayDrive) -> Vec<BackendCompletion> {
        let mut completed = Vec::new();
        array.collect(Instant::ORIGIN, &mut completed);
        completed
    }

    #[test]
    fn a_write_fails_if_a_member_loses_the_part_that_it_had_finished() {
        let (mut array, [first, second]) = array();
        start(&mut array, 1, Op::Write, 0, 8);
        first.lock().expect("no test panics").completes = 1;
        assert!(collect(&mut array).is_empty());
        first.lock().expect("no test panics").losses = 1;
        second.lock().expect("no test panics").completes = 1;
        let completed = collect(&mut array);
        assert_eq!(completed[0].result, Err(Errno::IO.raw_os_error()));
        let explanation = array.explanation(CommandId(1)).expect("an explanation");
        assert!(explanation.contains("member 1 of 2, drive0: unflushed writes"), "{explanation}");
    }

    #[test]
    fn parts_wait_for_room_in_order_of_arrival_and_leave_when_given_up() {
        let (mut array, [first, second]) = array();
        for (id, at, len) in [(1, 0, 4), (2, 0, 8), (3, 8, 4)] {
            start(&mut array, id, Op::Read, at, len);
        }
        let held =
            |script: &Arc<Mutex<Script>>| script.lock().expect("no test panics").at_member.clone();
        assert_eq!((held(&first), held(&second)), (vec![CommandId(1)], vec![CommandId(2)]));
        array.give_up(Instant::ORIGIN, CommandId(2));
        first.lock().expect("no test panics").completes = 1;
        let ended: Vec<CommandId> = collect(&mut array).iter().map(|over| over.command).collect();
        assert_eq!((ended, held(&first)), (vec![CommandId(1)], vec![CommandId(3)]));
        second.lock().expect("no test panics").completes = 1;
        let completed = collect(&mut array);
        assert_eq!(completed[0].result, Err(Errno::TIMEDOUT.raw_os_error()));
        assert!(array.explanation(CommandId(2)).expect("one").contains("member 1 of 2, drive0"));
    }
}
