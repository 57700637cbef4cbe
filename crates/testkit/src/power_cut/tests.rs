//! The rules, one by one, on histories written by hand; and all of them on random histories against
//! the definition.

use std::collections::BTreeSet;

use bytes::Bytes;
use headtime_sched::{CommandId, Op};
use headtime_units::{Extent, SectorSize, Sectors};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::history::{Event, History};
use super::{Casualty, FailedFlush, Platter, PowerFailure, Tear};

const SECTORS: u64 = 32;

/// A history of a drive of 32 sectors with blocks of 8.
struct Script(History);

impl Script {
    fn new() -> Self {
        let before = Platter::blank(SectorSize::B512, Sectors::new(SECTORS));
        Self(History {
            before,
            events: Vec::new(),
            physical_sectors: 8,
            failed_flush: FailedFlush::Retries,
        })
    }

    fn send(&mut self, command: u64, op: Op, start: u64, len: u64, fua: bool) -> &mut Self {
        // The content of a write is its command's number, everywhere.
        let content = if op == Op::Write {
            Bytes::from(vec![command as u8; 512 * len as usize])
        } else {
            Bytes::new()
        };
        self.0.events.push(Event::Sent {
            command: CommandId(command),
            op,
            extent: Extent::from_numbers(start, len),
            fua,
            content,
        });
        self
    }

    fn report(&mut self, command: u64, len: u64) -> &mut Self {
        self.end(command, Ok(()), false, len)
    }

    fn end(&mut self, command: u64, result: Result<(), i32>, lied: bool, landed: u64) -> &mut Self {
        self.0.events.push(Event::Reported {
            command: CommandId(command),
            result,
            lied,
            landed: Sectors::new(landed),
        });
        self
    }

    fn write(&mut self, command: u64, start: u64, len: u64) -> &mut Self {
        self.send(command, Op::Write, start, len, false).report(command, len)
    }

    fn flush(&mut self, command: u64) -> &mut Self {
        self.send(command, Op::Flush, 0, 0, false).report(command, 0)
    }

    /// The possible outcomes at the end, as the first bytes of the sectors.
    fn every_end(&self) -> BTreeSet<Vec<u8>> {
        let mut cutter = self.0.cutter();
        let every = cutter.advance(self.0.events.len()).every_cut();
        let size = every.size();
        let all: Vec<Vec<u8>> = every.map(|platter| contents(&platter)).collect();
        assert_eq!(all.len() as u64, size);
        all.into_iter().collect()
    }

    /// The possible contents of sector 0 at the end.
    fn ends_of_sector_0(&self) -> Vec<u8> {
        let ends: BTreeSet<u8> = self.every_end().into_iter().map(|contents| contents[0]).collect();
        ends.into_iter().collect()
    }
}

fn contents(platter: &Platter) -> Vec<u8> {
    let bytes = platter.read(Extent::from_numbers(0, SECTORS)).unwrap();
    bytes
        .chunks(512)
        .map(|sector| sector.iter().all(|byte| *byte == sector[0]).then_some(sector[0]).unwrap())
        .collect()
}

#[test]
fn the_example_in_the_header_of_the_cache_is_true() {
    let mut script = Script::new();
    script
        .write(1, 0, 1)
        .write(2, 0, 1)
        .send(9, Op::Flush, 0, 0, false)
        .write(3, 0, 1)
        .report(9, 0)
        .send(4, Op::Write, 0, 1, false);
    assert_eq!(script.ends_of_sector_0(), [2, 3, 4]);
}

#[test]
fn a_flush_covers_what_was_reported_before_it_was_sent_and_nothing_else() {
    let mut script = Script::new();
    script
        .write(1, 0, 1)
        .send(2, Op::Write, 0, 1, false)
        .send(9, Op::Flush, 0, 0, false)
        .report(2, 1);
    assert_eq!(
        script.ends_of_sector_0(),
        [0, 1, 2],
        "a flush that is not reported promises nothing"
    );
    script.report(9, 0);
    assert_eq!(script.ends_of_sector_0(), [1, 2]);
    assert_eq!(script.flush(10).ends_of_sector_0(), [2]);
}

#[test]
fn force_unit_access_settles_its_own_sectors_and_no_others() {
    let mut script = Script::new();
    script.write(1, 0, 2).send(2, Op::Write, 0, 1, true);
    assert_eq!(script.ends_of_sector_0(), [0, 1, 2]);
    script.report(2, 1);
    assert_eq!(script.ends_of_sector_0(), [2]);
    assert_eq!(
        script.every_end().into_iter().map(|contents| contents[1]).collect::<BTreeSet<_>>(),
        BTreeSet::from([0, 1])
    );
}

#[test]
fn lies_and_failures_settle_nothing() {
    let mut script = Script::new();
    script.write(1, 0, 1).send(9, Op::Flush, 0, 0, false).end(9, Ok(()), true, 0);
    assert_eq!(script.ends_of_sector_0(), [0, 1]);
    script.send(10, Op::Flush, 0, 0, false).end(10, Err(5), false, 0);
    assert_eq!(script.ends_of_sector_0(), [0, 1]);
    script.send(2, Op::Write, 0, 1, true).end(2, Ok(()), true, 1);
    assert_eq!(script.ends_of_sector_0(), [0, 1, 2]);
    script.send(3, Op::Write, 0, 1, true).end(3, Err(5), false, 1);
    assert_eq!(script.ends_of_sector_0(), [0, 1, 2, 3]);
    assert_eq!(
        script.flush(11).ends_of_sector_0(),
        [3],
        "a later flush covers what the failed ones did not"
    );
}

#[test]
fn a_drive_that_forgets_what_a_failed_flush_should_have_covered_never_settles_it() {
    let mut script = Script::new();
    script.0.failed_flush = FailedFlush::Forgets;
    script.write(1, 0, 1).send(9, Op::Flush, 0, 0, false).end(9, Err(5), false, 0).flush(10);
    assert_eq!(script.ends_of_sector_0(), [0, 1]);
    assert_eq!(
        script.write(2, 0, 1).flush(11).ends_of_sector_0(),
        [2],
        "until it is written again"
    );
}

#[test]
fn a_write_that_failed_is_taken_in_up_to_some_sector() {
    let mut script = Script::new();
    script.send(1, Op::Write, 0, 4, false).end(1, Err(5), false, 1).flush(9);
    let only = script.every_end();
    assert_eq!(only.len(), 1);
    assert!(only.iter().all(|contents| contents[..4] == [1, 0, 0, 0]));
}

#[test]
fn zeroes_and_discards_are_writes_of_zeroes() {
    for op in [Op::Zero, Op::Discard] {
        let mut script = Script::new();
        script.write(1, 0, 1).flush(9).send(2, op, 0, 1, false).report(2, 1);
        assert_eq!(script.ends_of_sector_0(), [0, 1], "{op:?}");
        assert_eq!(script.flush(10).ends_of_sector_0(), [0], "{op:?}");
    }
}

#[test]
fn random_cuts_find_everything_that_may_be_found_and_nothing_else() {
    let mut script = Script::new();
    script.write(1, 0, 3).flush(9).write(2, 0, 2).write(3, 1, 3).send(4, Op::Zero, 2, 2, false);
    let (every, mut found) = (script.every_end(), BTreeSet::new());
    assert_eq!(
        every.len(),
        2 * 3 * 3 * 2,
        "sector 0 holds 1 or 2; sector 1 also 3; sector 2: 1, 3, zero; sector 3: 3, zero"
    );
    let mut cutter = script.0.cutter();
    let cutter = cutter.advance(script.0.events.len());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..20_000 {
        found.insert(contents(&cutter.cut(PowerFailure::default(), &mut rng)));
    }
    assert_eq!(found, every);
}

#[test]
fn where_a_command_may_be_torn_is_a_choice() {
    let mut script = Script::new();
    script.write(1, 6, 12);
    let mut cutter = script.0.cutter();
    let cutter = cutter.advance(2);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut found = |tear| -> BTreeSet<Vec<u8>> {
        let failure = PowerFailure { tear, casualty: Casualty::None };
        (0..500).map(|_| contents(&cutter.cut(failure, &mut rng))).collect()
    };
    assert_eq!(found(Tear::Never).len(), 2);
    let by_block = found(Tear::PhysicalBlocks);
    assert_eq!(by_block.len(), 8, "sectors 6 and 7, 8 to 15, 16 and 17: each there or not");
    assert!(
        by_block.iter().all(|contents| contents[6] == contents[7] && contents[16] == contents[17])
    );
    assert!(found(Tear::Sectors).len() > 30);
}

#[test]
fn at_most_one_block_becomes_unreadable_and_only_one_that_is_being_written() {
    let mut script = Script::new();
    script.write(1, 0, 32).flush(9).write(2, 7, 2);
    let mut cutter = script.0.cutter();
    let cutter = cutter.advance(script.0.events.len());
    assert_eq!(cutter.exposed(), [Extent::from_numbers(0, 8), Extent::from_numbers(8, 8)]);
    let failure = PowerFailure { casualty: Casualty::OneBlock, ..PowerFailure::default() };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let platter = cutter.cut(failure, &mut rng);
        let readable = |block: u64| platter.read(Extent::from_numbers(8 * block, 8)).is_ok();
        let bad: Vec<u64> = (0..4).filter(|block| !readable(*block)).collect();
        assert!(bad.len() <= 1);
        seen.extend(bad);
    }
    assert_eq!(seen, BTreeSet::from([0, 1]));
}

/// The next step of one of 6 commands on 8 sectors.
#[derive(Clone, Debug)]
enum Step {
    Send { op: Op, start: u64, len: u64, fua: bool },
    Report { which: usize, fails: bool, landed: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![3 => Just(Op::Write), 1 => Just(Op::Zero), 2 => Just(Op::Flush)];
    let send = (op, 0_u64..8, 1_u64..4, any::<bool>())
        .prop_map(|(op, start, len, fua)| Step::Send { op, start, len: len.min(8 - start), fua });
    let report = (any::<usize>(), proptest::bool::weighted(0.1), 0_u64..4)
        .prop_map(|(which, fails, landed)| Step::Report { which, fails, landed });
    proptest::collection::vec(prop_oneof![send, report], 1..14)
}

proptest! {
    /// The oracle keeps, for each sector, every write in its order with whether it is settled, and
    /// looks at the definition.
    #[test]
    fn what_may_be_found_is_the_last_settled_write_and_whatever_came_after_it(steps in steps()) {
        let mut script = Script::new();
        // In order of effect: command, first, end, settled; those under way are appended.
        let mut reported: Vec<(u64, u64, u64, bool)> = Vec::new();
        let mut under_way: Vec<(u64, Op, u64, u64, bool, usize)> = Vec::new();
        for (number, step) in (1..).zip(steps) {
            match step {
                Step::Send { op, start, len, fua } => {
                    let (start, len) = if op == Op::Flush { (0, 0) } else { (start, len) };
                    script.send(number, op, start, len, fua && op == Op::Write);
                    under_way.push((
                        number,
                        op,
                        start,
                        len,
                        fua && op == Op::Write,
                        reported.len(),
                    ));
                }
                Step::Report { .. } if under_way.is_empty() => {}
                Step::Report { which, fails, landed } => {
                    let (command, op, start, len, fua, before) =
                        under_way.remove(which % under_way.len());
                    let landed = if fails { landed.min(len) } else { len };
                    script.end(command, if fails { Err(5) } else { Ok(()) }, false, landed);
                    match op {
                        Op::Flush if !fails => {
                            reported[..before].iter_mut().for_each(|write| write.3 = true)
                        }
                        Op::Flush => {}
                        op => {
                            let content = if op == Op::Write { command } else { 0 };
                            reported.push((content, start, start + landed, fua && !fails));
                        }
                    }
                }
            }
        }
        let moving = under_way.iter().filter(|(_, op, ..)| *op != Op::Flush);
        let moving = moving.map(|(command, op, start, len, ..)| {
            (if *op == Op::Write { *command } else { 0 }, *start, start + len, false)
        });
        let order: Vec<_> = reported.iter().copied().chain(moving).collect();
        let every = script.every_end();
        for sector in 0..8_u64 {
            let here: Vec<_> = order
                .iter()
                .filter(|(_, first, end, _)| (*first..*end).contains(&sector))
                .collect();
            let from = here.iter().rposition(|(_, _, _, settled)| *settled);
            let mut legal: BTreeSet<u8> =
                here[from.unwrap_or(0)..].iter().map(|(content, ..)| *content as u8).collect();
            if from.is_none() {
                legal.insert(0);
            }
            let found: BTreeSet<u8> =
                every.iter().map(|contents| contents[sector as usize]).collect();
            prop_assert_eq!(&found, &legal, "sector {}", sector);
        }
    }
}
