//! One queue of six requests, ordered by hand in every way of this module.
//!
//! A revolution takes 8 ms. Request X lies on cylinder c at angle a (in eighths of a revolution);
//! the arm takes one ms per cylinder, reading an eighth of a revolution one ms more. So from the
//! end of one request to the end of another it takes *the smallest number of ms that is at least |c
//! − c′| + 1 and leaves a′ − a when divided by 8*. The head is on cylinder 5 as after a request at
//! angle 7.
//!
//! ```text
//!          c a │ to A   B   C   D   E   F      deadline
//!    head  5 7 │    9   1   4   7   8   3
//!    A     3 0 │    –   8   3   6   7  10         24
//!    B     5 0 │    8   –   3   6   7   2         10
//!    C     3 3 │    5   5   –   3   4   7         20
//!    D     5 6 │   10   2   5   –   1   4         16
//!    E     5 7 │    9   1   4   7   –   3         32
//!    F     6 2 │    6   6   9   4   5   –         40
//! ```
//! (A to B: two cylinders and the sector make 3, but B passes only after a whole revolution: 8. F
//! to C: 3 + 1 = 4, C is an eighth further: 1 is too early, 9.)

use alloc::string::String;
use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

use super::trial::{every_order, ms};
use super::{Costs, Lookahead, Path, insert_in_order, insert_nearest_first, length, shortest};

const FROM_HEAD: [u64; 6] = [9, 1, 4, 7, 8, 3];
const BETWEEN: [[u64; 6]; 6] = [
    [0, 8, 3, 6, 7, 10],
    [8, 0, 3, 6, 7, 2],
    [5, 5, 0, 3, 4, 7],
    [10, 2, 5, 0, 1, 4],
    [9, 1, 4, 7, 0, 3],
    [6, 6, 9, 4, 5, 0],
];
const PLACES: [(i64, i64); 6] = [(3, 0), (5, 0), (3, 3), (5, 6), (5, 7), (6, 2)];
const HEAD: (i64, i64) = (5, 7);
/// In ms from the start.
const DEADLINES: [u64; 6] = [24, 10, 20, 16, 32, 40];

fn costs() -> impl Costs {
    (|to: usize| ms(FROM_HEAD[to]), |from: usize, to: usize| ms(BETWEEN[from][to]))
}

fn named(order: &[usize]) -> String {
    order.iter().map(|request| char::from(b'A' + *request as u8)).collect()
}

fn checked(path: &Path) -> (String, Nanos) {
    (named(path.order()), path.length(&costs()))
}

/// The table above follows from the places.
#[test]
fn the_table_is_what_the_places_say() {
    let cost = |(c, a): (i64, i64), (to_c, to_a): (i64, i64)| {
        (c.abs_diff(to_c) + 1..).find(|ms| (*ms as i64 - to_a + a).rem_euclid(8) == 0)
    };
    for (to, place) in PLACES.iter().enumerate() {
        assert_eq!(cost(HEAD, *place), Some(FROM_HEAD[to]), "head to {to}");
        for from in (0..6).filter(|from| *from != to) {
            assert_eq!(cost(PLACES[from], *place), Some(BETWEEN[from][to]), "{from} to {to}");
        }
    }
}

/// A: 9 ms. B before A adds 1 + 8 − 9 = 0, after it 8: BA, 9. C between the two adds 3 + 5 − 8 = 0,
/// at the end 3, before B 4 + 5 − 1 = 8: BCA, 9. D at the end adds 6, elsewhere a revolution: BCAD,
/// 15. E at the end adds 1, elsewhere a revolution: BCADE, 16. F at the end adds 3, elsewhere a
///     revolution: BCADEF, 19.
#[test]
fn inserted_in_the_order_of_the_queue() {
    assert_eq!(checked(&insert_in_order(&costs(), 6)), ("BCADEF".into(), ms(19)));
}

/// B is nearest to the head. Then F, 2 after B: at the end, 3 ms. C, 3 after B: before F it costs 8
/// (3 + 7 − 2), before B as much, at the end 9; of equals the last: BCF, 11. D, 3 after C: before F
/// it costs 0 (3 + 4 − 7): BCDF, 11. E, 1 after D: before F it costs 0 (1 + 3 − 4): BCDEF, 11. A:
/// at the end it costs 6, elsewhere 8 or 16: BCDEFA, 17.
#[test]
fn inserted_the_nearest_first() {
    assert_eq!(checked(&insert_nearest_first(&costs(), 6)), ("BCDEFA".into(), ms(17)));
}

/// 1 + 2 + 6 + 3 + 3 + 1, and every other of the 720 orders is longer.
#[test]
fn the_shortest() {
    assert_eq!(checked(&shortest(&costs(), 6)), ("BFACDE".into(), ms(16)));
    let others = every_order(6).into_iter().filter(|order| named(order) != "BFACDE");
    assert_eq!(others.map(|order| length(&costs(), &order)).min(), Some(ms(17)));
}

/// The increase as the paper prints it, W(j,i) + W(i,k) − W(j,i), leads elsewhere: A; B by the end
/// (8, before A 8: the last); and so on to a path of 28 ms.
#[test]
fn the_printed_increase_is_another_order() {
    let mut order: Vec<usize> = Vec::new();
    for request in 0..6 {
        let increase = |place: usize| match order.get(place) {
            Some(next) => BETWEEN[request][*next],
            None => order.last().map_or(FROM_HEAD[request], |last| BETWEEN[*last][request]),
        };
        let place = (0..=order.len()).rev().min_by_key(|place| increase(*place)).unwrap();
        order.insert(place, request);
    }
    assert_eq!((named(&order), length(&costs(), &order)), ("AFDEBC".into(), ms(28)));
}

/// By deadline the queue is B D C A E F, due at 10, 16, 20, 24, 32, 40.
///
/// *k = 1* is EDF: B 1, D 7, C 12, A 17, E 24, F 27; none is late.
///
/// *k = 3*: of B, D and C the order BCD takes 1 + 3 + 3 = 7 and none is late: B goes. Of D, C and
/// A: CAD takes 3 + 5 + 6 = 14, CDA 3 + 3 + 10 = 16, DCA 6 + 5 + 5 = 16: C goes, at 4. Of D, A and
/// E: ADE takes 5 + 6 + 1 = 12, DEA 3 + 1 + 9 = 13: A goes, at 9. D, E and F are left: DEF, 6 + 1 +
/// 3 = 10. BCADEF, 19.
///
/// *k = 4*: of B, D, C and A: BCAD takes 15. B goes, then C: of D, C, A and E, CADE takes 15, CDEA
/// 16. Now of D, A, E and F: DEFA takes 3 + 1 + 3 + 6 = 13, with A done at 17, before 24; ADEF
///     takes 15. D goes where k = 3 sent A, then E, F and A: BCDEFA, 17.
#[test]
fn looked_ahead_over_the_earliest_deadlines() {
    let by_deadline = [1, 3, 2, 0, 4, 5];
    let deadlines: Vec<Instant> =
        by_deadline.iter().map(|request| Instant::ORIGIN + ms(DEADLINES[*request])).collect();
    let sorted = (
        |to: usize| ms(FROM_HEAD[by_deadline[to]]),
        |from: usize, to: usize| ms(BETWEEN[by_deadline[from]][by_deadline[to]]),
    );
    for (k, order, takes) in [(1, "BDCAEF", 27), (3, "BCADEF", 19), (4, "BCDEFA", 17)] {
        let path = Lookahead::new(k).unwrap().order_all(&sorted, &deadlines, Instant::ORIGIN);
        let order_of_names: Vec<usize> =
            path.order().iter().map(|rank| by_deadline[*rank]).collect();
        assert_eq!(
            (named(&order_of_names), path.length(&sorted)),
            (order.into(), ms(takes)),
            "k = {k}"
        );
    }
    let outlook =
        Lookahead::new(4).unwrap().best_order(&sorted, &deadlines, Instant::ORIGIN).unwrap();
    assert_eq!((outlook.first, outlook.overtime, outlook.length), (0, Nanos::ZERO, ms(15)));
}
