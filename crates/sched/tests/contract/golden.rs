//! One scenario, computed by hand, and the order in which each policy sends it.
//!
//! Request 0 reads LBA 72 (cylinder 3, head 0, sector 0) and is sent when the others arrive, all at
//! time 0:
//!
//! | id | LBA | cylinder | head | sector | due |
//! |---|---|---|---|---|---|
//! | 1 | 146 | 6 | 0 | 2 | – |
//! | 2 | 24 | 1 | 0 | 0 | 60 ms |
//! | 3 | 75 | 3 | 0 | 3 | – |
//! | 4 | 25 | 1 | 0 | 1 | 20 ms |
//! | 5 | 95 | 3 | 2 | 7 | 20 ms |
//! | 6 | 0 | 0 | 0 | 0 | – |
//!
//! Times below are at the medium; a revolution is 8 ms, sector s passes at s ms + n × 8 ms, a seek
//! of d is 0.8 + 0.2 d ms. Request 0: overhead until 0.2, seek of 3 until 1.6, sector 0 at 8.0,
//! done at 9.0; reported at 9.1.

use headtime_sched::POLICIES;

use crate::session::{Setup, due, read};

fn order_of(policy: &str) -> Vec<u64> {
    let mut session = Setup::of(policy).start();
    session.accept(read(0, 72, 1));
    session.pump();
    for request in [
        read(1, 146, 1),
        due(read(2, 24, 1), 60),
        read(3, 75, 1),
        due(read(4, 25, 1), 20),
        due(read(5, 95, 1), 20),
        read(6, 0, 1),
    ] {
        session.accept(request);
    }
    session.run_to_end();
    session.served()
}

#[test]
fn fcfs_keeps_the_order_of_arrival() {
    assert_eq!(order_of("fcfs"), [0, 1, 2, 3, 4, 5, 6]);
}

/// The drive serves in the order it is given here; what the policy decides is only that everything
/// goes at once, in the order of arrival.
#[test]
fn firmware_hands_over_in_the_order_of_arrival() {
    assert_eq!(order_of("firmware"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(order_of("firmware:depth=2"), [0, 1, 2, 3, 4, 5, 6]);
}

/// Cylinders from 3: 3 and 5 are there (3 is older), then 2 and 4 are 2 away (2 is older) and 1 and
/// 6 are 3 away: 3, 5, 2. On cylinder 1: 4. Then 6 is 1 away and 1 is 5.
#[test]
fn sstf_goes_to_the_nearest_cylinder() {
    assert_eq!(order_of("sstf"), [0, 3, 5, 2, 4, 6, 1]);
}

/// From LBA 73 up: 75, 95, 146; then from the lowest: 0, 24, 25.
#[test]
fn clook_sweeps_up_and_starts_again_from_the_lowest_address() {
    assert_eq!(order_of("clook"), [0, 3, 5, 1, 6, 2, 4]);
}

/// Due at 20 ms are 4 and 5; from LBA 73 the sweep meets 5 (LBA 95), then 4 (LBA 25). Then 2.
/// Without deadline, from LBA 25: 3 (75), 1 (146), 6 (0).
#[test]
fn edf_goes_by_deadline_and_sweeps_among_equals() {
    assert_eq!(order_of("edf"), [0, 5, 4, 2, 3, 1, 6]);
}

/// From cylinder 3 at 9.0 (phase 1): 1 arrives 10.4, just missed, 18; 2 at 16; 3 at 11; 4 at 17; 5
/// at 15; 6 at 16. So 3, done at 12.0 (phase 4). Then 1 at 18, 2 at 16, 4 at 17, 5 at 15 (switch
/// until 12.5), 6 at 16. So 5, done at 16.0 (phase 0). Then 1 arrives 17.4, at 18; 2 arrives 17.2,
/// at 24; 4 at 25 (17 is just missed); 6 at 24. So 1, done at 19.0 on cylinder 6. Then 2 arrives
/// 20.8, at 24; 4 at 25; 6 arrives 21.0, at 24. 2 and 6 cost the same, 2 is older. Done at 25.0 on
/// cylinder 1: 4 begins right there. Then 6.
#[test]
fn sptf_goes_to_whom_the_head_reaches_first() {
    assert_eq!(order_of("sptf"), [0, 3, 5, 1, 2, 4, 6]);
    assert_eq!(order_of("sptf-oracle"), [0, 3, 5, 1, 2, 4, 6]);
}

/// As `sptf` here: from 9.0, 3 costs 2 ms and nobody else at most 3.2. From 12.0, 5 costs 3 on this
/// cylinder; 2 and 6 at 4 ms are within 60 %, but further off. From 16.0, 1 costs 2 and all others
/// 8 or more. From 19.0 on cylinder 6, 2 costs 5, 4 costs 6 and 6 costs 5: 2 and 4 are nearest, and
/// 2 is reached first. 4 begins there.
#[test]
fn sptf_sw_takes_the_nearest_of_those_that_are_reached_in_nearly_the_shortest_time() {
    assert_eq!(order_of("sptf-sw"), [0, 3, 5, 1, 2, 4, 6]);
}

/// Request 1 reads LBA 99 (cylinder 4, sector 3), request 2 LBA 76 (cylinder 3, sector 4). From
/// cylinder 3 at 9.0: 1 passes at 11, after a seek until 10.0; 2 at 12. 3 ms are within 60 % of 2
/// ms, but not within 40 %, and 2 needs no seek.
#[test]
fn sptf_sw_lets_a_short_seek_win_by_so_many_per_cent() {
    let order = |policy: &str| {
        let mut session = Setup::of(policy).start();
        session.accept(read(0, 72, 1));
        session.pump();
        for request in [read(1, 99, 1), read(2, 76, 1)] {
            session.accept(request);
        }
        session.run_to_end();
        session.served()
    };
    assert_eq!((order("sptf"), order("sptf-sw")), (vec![0, 1, 2], vec![0, 2, 1]));
    assert_eq!(order("sptf-sw:within_percent=40"), [0, 1, 2]);
}

/// With two outstanding as `sptf`, all being of one age. With one (seven are held, two need nine)
/// each departs 0.3 ms after the end of the one before, and the choices stay: 3 at 11, 5 at 15, 1
/// arrives 17.7, at 18, 2 at 24. 4 begins right where 2 ends, so it is sent behind it at once;
/// after 2 was reported it would be just missed. Without 4 being its neighbor, 6 would have come
/// next.
#[test]
fn sptf_expected_sends_what_continues_before_the_overhead_costs_a_revolution() {
    assert_eq!(order_of("sptf-expected:two_from_requests=1"), [0, 3, 5, 1, 2, 4, 6]);
    assert_eq!(order_of("sptf-expected"), [0, 3, 5, 1, 2, 4, 6]);
}

/// One outstanding, each command departing 0.2 ms after it is sent; a deadline must have two
/// revolutions to spare. At 9.1 the cheapest, 3, is done at 12.0, and 4 and 5 could not follow in
/// time; nor does any of the urgent leave the others in time. Of them 5 is done first (16.0; 2 at
/// 17.0, 4 at 18.0). At 16.1 the same: 2 is done at 25.0, 4 at 26.0, so 2. 4 begins right where 2
/// ends and is due: it is sent behind it at once, and done at 26.0. Then by cost: 6 at 32, 3 at 35,
/// 1.
#[test]
fn headtime_turns_to_the_deadlines_when_they_press() {
    assert_eq!(order_of("headtime"), [0, 5, 2, 4, 6, 3, 1]);
}

/// All six fit into one plan. None of their 720 orders ends before 33.0, where `sptf` ends too (6
/// at 32). One other, 3 2 4 5 1 6, ends there with the same sum of ends (131 ms): 3 at 12, 2 at 17,
/// 4 at 18, 5 at 24, 1 at 27, 6 at 33. Of equals the one found first is kept, and 5 ends before 2.
#[test]
fn beam_oracle_ends_no_later_than_any_order() {
    assert_eq!(order_of("beam-oracle"), [0, 3, 5, 1, 2, 4, 6]);
}

/// Request 1 reads LBA 74 (cylinder 3, sector 2), request 2 LBA 99 (cylinder 4, sector 3). From
/// cylinder 3 at 9.0: 1 passes at 10, 2 at 11 after a seek until 10.0. After 1, at 11.0, the seek
/// ends at 12.0 and 2 is just missed: 19, done at 20. After 2, at 12.0, 1 passes at 18: done at 19.
#[test]
fn beam_oracle_takes_the_second_best_when_the_best_costs_more_afterwards() {
    let order = |policy: &str| {
        let mut session = Setup::of(policy).start();
        session.accept(read(0, 72, 1));
        session.pump();
        for request in [read(1, 74, 1), read(2, 99, 1)] {
            session.accept(request);
        }
        session.run_to_end();
        session.served()
    };
    assert_eq!((order("sptf-oracle"), order("beam-oracle")), (vec![0, 1, 2], vec![0, 2, 1]));
    assert_eq!(
        order("beam-oracle:depth=1"),
        [0, 1, 2],
        "a plan of one command is the shortest positioning time"
    );
    assert_eq!(order("beam-oracle:width=1"), [0, 1, 2], "and so is a beam of one plan");
}

/// From LBA 73: 3 is 2 away, from 76: 5 is 19 away, from 96: 1 is 50 away, from 147: 4 is 122 away,
/// from 26: 2 is 2 away, and 6 is left.
#[test]
fn satf_lbn_goes_to_the_nearest_address() {
    assert_eq!(order_of("satf-lbn"), [0, 3, 5, 1, 4, 2, 6]);
    assert_eq!(
        order_of("fsatf-lbn"),
        [0, 3, 5, 1, 4, 2, 6],
        "nobody comes while the six are served"
    );
}

/// One outstanding: each departs 0.3 ms after the end of the one before. From end to end, in ms:
///
/// ```text
///          │ to 1   2   3   4   5   6
///     0    │   10   8   3   9   7   8
///     1    │    –   6   9   7   5   6
///     2    │   10   –   3   9   7   8
///     3    │    7   5   –   6   4   5
///     4    │    9   7  10   –   6   7
///     5    │    3   9   4  10   –   9
///     6    │   10   8   3   9   7   –
/// ```
/// (0 to 1: three cylinders and the overhead are 1.7 ms, sector 2 begins one ms behind 0's end, so
/// a turn later: 9 and the sector. 2 to 4: sector 1 begins where 2 ends, but the overhead is not
/// hidden: 9.)
///
/// 1: 10. 2 at the end adds 6, before 1 it adds 8: 1 2. 3 before 1 adds 3 + 7 − 10 = 0, between the
/// two 8, at the end 3: 3 1 2. 4 before 3 adds 16, behind it 6 + 9 − 7 = 8, behind 1 7 + 7 − 6 = 8,
/// at the end 9: of equals the last: 3 1 4 2. 5 behind 3 adds 4 + 3 − 7 = 0, elsewhere 4 or more: 3
/// 5 1 4 2. 6 adds 8 at the end, 9 to 13 elsewhere, or 8 before 3 (8 + 3 − 3); of equals the last.
#[test]
fn satf_map_inserts_each_where_it_lengthens_the_path_least() {
    assert_eq!(order_of("satf-map"), [0, 3, 5, 1, 4, 2, 6]);
    assert_eq!(order_of("fsatf-map"), [0, 3, 5, 1, 4, 2, 6]);
}

/// 3 is nearest to the head (3), then 1 and 5 are … 5 behind 3 (4), 1 behind 5 (3), each at the
/// end. Nearest to those is 2 behind 3 (5): at the end it adds 6, elsewhere more. So are 6 behind 3
/// (5) and 8 at the end; and 4 behind 3 (6): between 2 and 6 it adds 9 + 7 − 8 = 8, as much as
/// behind 5 or 1; at the end 9: 3 5 1 2 4 6.
#[test]
fn satf_map_can_insert_the_nearest_first() {
    assert_eq!(order_of("satf-map:nearest_first=1"), [0, 3, 5, 1, 2, 4, 6]);
    assert_eq!(order_of("fsatf-map:nearest_first=1"), [0, 3, 5, 1, 2, 4, 6]);
}

/// No order of the six is shorter than the 32 ms that insertion finds: 24 of the 720 are as short.
/// The first of them, as a row of numbers: 2 (8), 3 (3), 4 (6), 5 (6), 1 (3), 6 (6).
#[test]
fn fsatf_map_exact_takes_the_first_of_the_shortest() {
    assert_eq!(order_of("fsatf-map-exact"), [0, 2, 3, 4, 5, 1, 6]);
    assert_eq!(
        order_of("fsatf-map-exact:exact_most=5"),
        [0, 3, 5, 1, 4, 2, 6],
        "six are too many: by insertion"
    );
}

/// By deadline 4 and 5 (20 ms), 2 (60), then 1, 3, 6. From 9.0, of 4, 5, 2 and 1: 4 5 ends at 18
/// and 24, 4 late; 5 4 at 16 and 26, 6 late; no order is less late than 4 5, and 4 5 1 2 (24 ms) is
/// its shortest end. 4 goes. From 18, of 5, 2, 1 and 3: 5 first, else it is later; 5 1 2 3 takes 6
/// + 3 + 6 + 3 = 18. From 24, of 2, 1, 3 and 6 nobody is late: 1 2 3 6 takes 3 + 6 + 3 + 5 = 17.
/// From 27: 2 3 6 takes 14, and so does 6 3 2, which is further from the order of deadlines. From
/// 33: 3 6 takes 8, 6 3 11.
#[test]
fn g_matrix_looks_ahead_over_four_deadlines() {
    assert_eq!(order_of("g-matrix"), [0, 4, 5, 1, 2, 3, 6]);
    assert_eq!(
        order_of("g-matrix:lookahead_k=1"),
        [0, 4, 5, 2, 1, 3, 6],
        "one at a time it is the order of deadlines"
    );
}

/// All are reads and nobody waits for 500 ms: a sweep from 0's address up, which starts again at
/// the lowest.
#[test]
fn deadline_sweeps_as_long_as_nobody_has_waited_too_long() {
    assert_eq!(order_of("deadline"), [0, 3, 5, 1, 6, 2, 4]);
}

/// At 9.1 all have waited for 5 ms: each goes in the order of arrival, but 4 begins where 2 ends
/// and belongs to its batch.
#[test]
fn deadline_is_first_come_first_served_when_all_have_waited_too_long() {
    assert_eq!(order_of("deadline:read_expire_ms=5"), [0, 1, 2, 4, 3, 5, 6]);
}

/// All are of one process. Ahead of 73: 3 (2 away), then 5 (19), then 1 (50; 4 is 71 behind, which
/// counts twice). From 147: 4 is 122 behind, 2 is 123. From 26: 2. Then 6. Where nothing behind
/// counts, the sweep starts again at the lowest address.
#[test]
fn cfq_goes_on_ahead_and_a_little_back() {
    assert_eq!(order_of("cfq"), [0, 3, 5, 1, 4, 2, 6]);
    assert_eq!(order_of("cfq:back_max_sectors=0"), [0, 3, 5, 1, 6, 2, 4]);
}

/// All are of one tenant, to whom nothing is reserved; with others see `shares`.
#[test]
fn utilization_and_throughput_keep_the_order_of_arrival_within_a_payer() {
    assert_eq!(order_of("utilization"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(order_of("throughput"), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn every_policy_has_its_golden_order_here() {
    let first = [
        "fcfs",
        "sstf",
        "clook",
        "edf",
        "sptf",
        "sptf-oracle",
        "sptf-expected",
        "firmware",
        "headtime",
        "beam-oracle",
        "sptf-sw",
    ];
    let second = [
        "satf-lbn",
        "fsatf-lbn",
        "satf-map",
        "fsatf-map",
        "fsatf-map-exact",
        "g-matrix",
        "deadline",
        "cfq",
        "utilization",
        "throughput",
    ];
    let written = [&first[..], &second[..]].concat();
    assert_eq!(
        POLICIES.iter().map(|entry| entry.name).collect::<Vec<_>>(),
        written,
        "a new policy needs an order computed by hand"
    );
}
