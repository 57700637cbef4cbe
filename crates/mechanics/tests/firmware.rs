//! The firmware queue: FCFS, SPTF, ageing and the hold for sequential runs.

use headtime_mechanics::profile::{Algorithm, Firmware};
use headtime_mechanics::{
    Direction, FirmwareCommand, FirmwareQueue, HeadPosition, Mechanism, QueueFull, catalog, draw,
};
use headtime_units::{Extent, Instant};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

fn command(id: u64, lba: u64, ready_ns: u64) -> FirmwareCommand {
    FirmwareCommand {
        id,
        op: Direction::Read,
        extent: Extent::from_numbers(lba, 1),
        ready_at: Instant::from_ns(ready_ns),
    }
}

fn queue(algorithm: Algorithm, queue_depth: u32) -> FirmwareQueue {
    FirmwareQueue::new(&Firmware { queue_depth, algorithm, ..Firmware::default() })
}

#[test]
fn a_full_queue_gives_the_command_back() {
    let mut queue = queue(Algorithm::Fcfs, 2);
    assert_eq!((queue.push(command(1, 0, 0)), queue.push(command(2, 8, 0))), (Ok(()), Ok(())));
    let refused = queue.push(command(3, 16, 0)).expect_err("two are as many as it holds");
    assert_eq!(refused, QueueFull { command: command(3, 16, 0), depth: 2 });
    queue.take(0);
    assert_eq!(queue.push(command(3, 16, 0)), Ok(()));
}

#[test]
fn fcfs_waits_for_the_first_even_when_a_later_one_is_ready() {
    let mechanism =
        Mechanism::nominal(&catalog::load("atlas10k").expect("a shipped profile is valid"))
            .expect("it is valid");
    let mut queue = queue(Algorithm::Fcfs, 4);
    queue.push(command(1, 0, 500)).expect("there is room");
    queue.push(command(2, 8, 100)).expect("there is room");
    assert_eq!(queue.choose(Instant::from_ns(499), HeadPosition::PARKED, &mechanism), None);
    assert_eq!(queue.next_ready_at(), Some(Instant::from_ns(500)));
    assert_eq!(queue.choose(Instant::from_ns(500), HeadPosition::PARKED, &mechanism), Some(0));
}

#[test]
fn sptf_takes_the_shortest_positioning_of_the_ready_ones_and_the_first_of_equals() {
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mechanism =
            Mechanism::nominal(&draw::random_profile(&mut rng)).expect("a drawn profile is valid");
        let layout = mechanism.layout();
        let mut queue = queue(Algorithm::Sptf, 64);
        let (mut now, mut head) = (Instant::ORIGIN, HeadPosition::PARKED);
        for step in 0..100 {
            while rng.random_bool(0.7) {
                // Few addresses, so that some commands are equals.
                let lba = rng.random_range(0..layout.capacity().get().min(9));
                let _ =
                    queue.push(command(step, lba, now.as_ns() + rng.random_range(0..30_000_000)));
            }
            let ready: Vec<(usize, _)> = queue
                .waiting()
                .iter()
                .enumerate()
                .filter(|(_, waiting)| waiting.ready_at <= now)
                .collect();
            let time = |waiting: &FirmwareCommand| {
                mechanism.positioning(head, now, waiting.op, waiting.extent.start).total()
            };
            let best = ready.iter().map(|(_, waiting)| time(waiting)).min();
            let expected = ready
                .iter()
                .find(|(_, waiting)| Some(time(waiting)) == best)
                .map(|(place, _)| *place);
            let chosen = queue.choose(now, head, &mechanism);
            assert_eq!(chosen, expected, "seed {seed}, step {step}");
            assert_eq!(
                chosen.is_some(),
                queue.next_ready_at().is_some_and(|at| at <= now),
                "seed {seed}, step {step}"
            );
            if let Some(place) = chosen {
                let taken = queue.take(place);
                let access = mechanism.access(head, now, taken.op, taken.extent, Instant::ORIGIN);
                (head, now) = (access.end, access.finish);
            } else if let Some(at) = queue.next_ready_at() {
                now = at;
            }
        }
    }
}

/// Serves the chosen commands, one access of 1 ms after the other; the stream's next command
/// arrives when the previous one is served.
fn served_with_a_stream(
    algorithm: Algorithm,
    sequential_hold_ms: Option<f64>,
    count: u64,
) -> Vec<u64> {
    served(
        &Firmware { queue_depth: 64, algorithm, sequential_hold_ms, ..Firmware::default() },
        count,
    )
}

fn served(firmware: &Firmware, count: u64) -> Vec<u64> {
    let mechanism =
        Mechanism::nominal(&catalog::load("atlas10k").expect("a shipped profile is valid"))
            .expect("it is valid");
    let mut queue = FirmwareQueue::new(firmware);
    let stream = |number: u64| FirmwareCommand {
        extent: Extent::from_numbers(number * 8, 8),
        ..command(number, 0, 0)
    };
    queue.push(stream(0)).expect("there is room");
    for other in 0..20 {
        queue.push(command(1_000 + other, 9_000_000 + other * 1_000, 0)).expect("there is room");
    }
    let mut served = Vec::new();
    let mut head = HeadPosition::PARKED;
    for ms in 0..count {
        let now = Instant::from_ns(ms * 1_000_000);
        let place = queue.choose(now, head, &mechanism).expect("all are ready");
        let taken = queue.serve(now, place);
        head = mechanism.end_spot(taken.extent).position;
        served.push(taken.id);
        if taken.id < 1_000 {
            queue
                .push(FirmwareCommand { ready_at: now, ..stream(taken.id + 1) })
                .expect("there is room");
        }
    }
    served
}

#[test]
fn a_hold_lets_a_sequential_run_go_before_others_until_it_has_kept_them_waiting_for_so_long() {
    // FCFS without a hold: the stream's next command comes after the twenty others.
    let fair = served_with_a_stream(Algorithm::Fcfs, None, 40);
    assert_eq!(fair[..3], [0, 1_000, 1_001]);
    assert_eq!(fair[21], 1);
    for algorithm in [Algorithm::Fcfs, Algorithm::Sptf] {
        // Others wait from the first continuation at 1 ms on; at 11 ms for 10 ms.
        let held = served_with_a_stream(algorithm, Some(10.0), 40);
        let first_other = held.iter().position(|id| *id >= 1_000).expect("somebody else goes");
        assert!(algorithm == Algorithm::Sptf || first_other == 11, "{algorithm:?}: {held:?}");
    }
    // A hold of zero lets another command go after the first continuation.
    let alternating = served_with_a_stream(Algorithm::Fcfs, Some(0.0), 6);
    assert_eq!(alternating[..3], [0, 1, 1_000]);
}

#[test]
fn ageing_bounds_the_wait_beside_a_stream_that_sptf_prefers_without_limit() {
    let sptf = |max_wait_ms| Firmware {
        queue_depth: 64,
        algorithm: Algorithm::Sptf,
        max_wait_ms,
        ..Firmware::default()
    };
    let others =
        |order: &[u64]| order.iter().copied().filter(|id| *id >= 1_000).collect::<Vec<_>>();
    assert!(others(&served(&sptf(None), 200)).is_empty(), "the stream starves all others");
    let aged = served(&sptf(Some(50.0)), 200);
    assert!(others(&aged[..50]).is_empty(), "{aged:?}");
    // All came at the origin, so at 50 ms all go, in order of arrival; then the stream goes on.
    assert_eq!(others(&aged[50..70]), (1_000..1_020).collect::<Vec<_>>());
    assert_eq!(aged[70], 50);
}

#[test]
fn a_run_that_keeps_nobody_waiting_is_never_over() {
    let mechanism =
        Mechanism::nominal(&catalog::load("atlas10k").expect("a shipped profile is valid"))
            .expect("it is valid");
    let mut queue = FirmwareQueue::new(&Firmware {
        queue_depth: 4,
        sequential_hold_ms: Some(1.0),
        ..Firmware::default()
    });
    for number in 0..10_u64 {
        let now = Instant::from_ns(number * 5_000_000);
        queue
            .push(FirmwareCommand {
                ready_at: now,
                extent: Extent::from_numbers(number, 1),
                ..command(number, 0, 0)
            })
            .expect("there is room");
        assert_eq!(queue.choose(now, HeadPosition::PARKED, &mechanism), Some(0));
        queue.serve(now, 0);
        assert_eq!(queue.held_since(), None);
        assert!(!queue.hold_is_over(now));
    }
}

#[test]
fn places_are_looked_up_again_when_the_layout_changed() {
    let profile = catalog::load("atlas10k").expect("a shipped profile is valid");
    let mechanism = Mechanism::nominal(&profile).expect("it is valid");
    let mut queue = queue(Algorithm::Sptf, 4);
    queue.push(command(1, 17_000_000, 0)).expect("there is room");
    queue.push(command(2, 12_000_000, 0)).expect("there is room");
    assert_eq!(queue.choose(Instant::ORIGIN, HeadPosition::PARKED, &mechanism), Some(1));
    queue.forget_places();
    assert_eq!(queue.choose(Instant::ORIGIN, HeadPosition::PARKED, &mechanism), Some(1));
    queue.take(1);
    assert_eq!(queue.choose(Instant::ORIGIN, HeadPosition::PARKED, &mechanism), Some(0));
}
