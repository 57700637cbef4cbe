use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use headtime_sched::{ClassId, VolumeId};
use proptest::prelude::*;

use super::*;

type Wished = Pin<Box<dyn Future<Output = Permit> + Send>>;

fn tenant(number: u32) -> Tenant {
    Tenant { volume: VolumeId(number), class: ClassId(0) }
}

fn semaphore(total: u32, guaranteed: u32, exports: usize) -> Arc<FairSemaphore> {
    FairSemaphore::new(total, guaranteed, Arc::new(AtomicUsize::new(exports)))
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Acquires one unit at a time until there is none.
fn all_there_is(member: &SemaphoreClient) -> Vec<Permit> {
    std::iter::from_fn(|| member.try_take(1)).collect()
}

#[test]
fn an_export_that_takes_everything_leaves_the_floors_of_others_and_of_a_new_one() {
    // The example of the module, in thousands.
    let semaphore = semaphore(16, 8, 3);
    let (a, b, c) =
        (semaphore.join(tenant(1)), semaphore.join(tenant(2)), semaphore.join(tenant(3)));
    let greedy = all_there_is(&a);
    assert_eq!(greedy.len(), 10);
    let (of_b, of_c) = (all_there_is(&b), all_there_is(&c));
    assert_eq!((of_b.len(), of_c.len()), (2, 2));
    semaphore.exports.store(4, Ordering::Relaxed);
    let d = semaphore.join(tenant(4));
    assert!(!all_there_is(&d).is_empty(), "a part was kept for it");
}

#[test]
fn a_permit_is_divided_and_merged_again() {
    let semaphore = semaphore(4, 0, 1);
    let mut all = semaphore.join(tenant(1)).try_take(3);
    let ones: Vec<Permit> = std::iter::from_fn(|| Permit::take_one(&mut all)).collect();
    assert!(all.is_none() && ones.iter().all(|one| one.units() == 1) && ones.len() == 3);
    assert_eq!(semaphore.used(), 3);
    assert_eq!(ones.into_iter().reduce(Permit::merged).map(|merged| merged.units()), Some(3));
    assert_eq!(semaphore.used(), 0);
}

#[test]
fn one_export_alone_is_given_three_quarters_and_an_idle_one_needs_no_clients_for_its_floor() {
    let alone = semaphore(16, 8, 1);
    let member = alone.join(tenant(1));
    assert_eq!(all_there_is(&member).len(), 12);
    let beside = semaphore(18, 9, 2);
    let member = beside.join(tenant(1));
    assert_eq!(all_there_is(&member).len(), 12, "the other is not open yet");
}

#[test]
fn what_lies_within_a_floor_waits_for_nobody_and_the_rest_goes_by_turns() {
    let semaphore = semaphore(12, 6, 2);
    let (a, b) = (semaphore.join(tenant(1)), semaphore.join(tenant(2)));
    let mut of_a = all_there_is(&a);
    assert_eq!(of_a.len(), 8);
    let mut more_of_a = [pin!(a.take(1)), pin!(a.take(1))];
    let of_b = [b.try_take(1), b.try_take(1)].map(|permit| permit.expect("its floor"));
    let mut more_of_b = pin!(b.take(1));
    assert_eq!(semaphore.waiting(), 3);
    assert!(a.is_contended() && b.is_contended());
    let waits = |future: &mut Pin<&mut _>| poll(Pin::as_mut(future)).is_pending();
    assert!(more_of_a.iter_mut().all(waits));
    assert!(poll(more_of_b.as_mut()).is_pending());
    drop(of_a.pop());
    let first = poll(more_of_a[0].as_mut());
    assert!(first.is_ready() && poll(more_of_a[1].as_mut()).is_pending());
    drop(of_a.pop());
    let second = poll(more_of_b.as_mut());
    assert!(second.is_ready(), "it was b's turn");
    drop((first, second, of_b));
}

#[test]
fn a_large_wish_is_not_starved_by_small_ones_and_holds_up_no_floor() {
    let semaphore = semaphore(20, 8, 3);
    let (a, b, c) =
        (semaphore.join(tenant(1)), semaphore.join(tenant(2)), semaphore.join(tenant(3)));
    let mut of_a = a.try_take(14).expect("all but three floors");
    let mut large = pin!(b.take(10));
    assert!(poll(large.as_mut()).is_pending());
    let of_c = c.try_take(2).expect("its floor");
    of_a.keep(8);
    assert!(c.try_take(1).is_none(), "b came before");
    assert!(poll(large.as_mut()).is_pending());
    of_a.keep(6);
    assert!(poll(large.as_mut()).is_ready());
    drop(of_c);
}

#[test]
fn a_wish_that_is_taken_back_lets_others_pass_and_gives_back_what_nobody_took() {
    let semaphore = semaphore(10, 0, 1);
    let (a, b) = (semaphore.join(tenant(1)), semaphore.join(tenant(2)));
    let of_a = a.try_take(8).expect("there are ten");
    {
        let mut large = pin!(b.take(5));
        assert!(poll(large.as_mut()).is_pending());
        assert!(a.try_take(1).is_none());
    }
    assert_eq!((semaphore.waiting(), a.try_take(1).is_some()), (0, true));
    let unseen = b.take(5);
    drop(of_a);
    assert_eq!(semaphore.used(), 5, "served before it was polled");
    drop(unseen);
    assert_eq!(semaphore.used(), 0);
}

#[test]
fn what_comes_back_after_exports_were_added_fills_their_floors_first() {
    let semaphore = semaphore(12, 6, 1);
    let a = semaphore.join(tenant(1));
    let mut of_a = all_there_is(&a);
    assert_eq!(of_a.len(), 9);
    semaphore.exports.store(5, Ordering::Relaxed);
    let others: Vec<SemaphoreClient> =
        (2..6).map(|number| semaphore.join(tenant(number))).collect();
    let first: Vec<Permit> = others.iter().filter_map(|member| member.try_take(1)).collect();
    assert_eq!(first.len(), 3, "what was kept for one to come");
    let mut last = pin!(others[3].take(1));
    let mut more_of_a = pin!(a.take(1));
    assert!(poll(more_of_a.as_mut()).is_pending() && poll(last.as_mut()).is_pending());
    drop(of_a.pop());
    assert!(poll(last.as_mut()).is_ready() && poll(more_of_a.as_mut()).is_pending());
}

proptest! {
    /// For any sequence of acquisitions and releases: the total is never exceeded, an export below
    /// its floor gets one more, everything is released, and no request waits without end.
    #[test]
    fn floors_hold_whatever_is_asked_for(
        total in 20_u32..200, percent in 0_u32..=100, exports in 1_usize..6,
        steps in proptest::collection::vec((0_usize..6, 1_u32..30, 0_u8..4), 1..200),
    ) {
        let guaranteed = total * percent / 100;
        let floor = guaranteed / (exports as u32 + 1);
        let semaphore = semaphore(total, guaranteed, exports);
        let members: Vec<SemaphoreClient> =
            (0..exports as u32).map(|number| semaphore.join(tenant(number))).collect();
        let mut held: Vec<(usize, Permit)> = Vec::new();
        let mut waiting: Vec<(usize, Wished)> = Vec::new();
        for (client, units, what) in steps {
            let client = client % exports;
            match what {
                0 | 1 => {
                    let units = units.min(semaphore.unreserved().max(1));
                    waiting.push((client, Box::pin(members[client].take(units))))
                }
                2 if !held.is_empty() => drop(held.swap_remove(units as usize % held.len())),
                3 if !waiting.is_empty() => {
                    drop(waiting.swap_remove(units as usize % waiting.len()))
                }
                _ => held.extend(members[client].try_take(units).map(|permit| (client, permit))),
            }
            let mut index = 0;
            while index < waiting.len() {
                match poll(waiting[index].1.as_mut()) {
                    Poll::Ready(permit) => {
                        let (client, _) = waiting.remove(index);
                        held.push((client, permit));
                    }
                    Poll::Pending => index += 1,
                }
            }
            let of = |client: usize| {
                let own = held.iter().filter(|(other, _)| *other == client);
                own.map(|(_, permit)| permit.units()).sum::<u32>()
            };
            let used: u32 = (0..exports).map(of).sum();
            prop_assert!(used <= total && used == semaphore.used());
            prop_assert_eq!(waiting.len(), semaphore.waiting());
            for (client, member) in members.iter().enumerate() {
                let waits = waiting.iter().any(|(other, _)| *other == client);
                prop_assert!(
                    of(client) >= floor || waits || member.try_take(1).is_some(),
                    "{client} has {} of {floor} and finds none",
                    of(client)
                );
            }
        }
        held.clear();
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain_mut(|(_, acquire)| poll(acquire.as_mut()).is_pending());
            prop_assert!(waiting.len() < before, "{before} wait though everything is there");
        }
        prop_assert_eq!((semaphore.used(), semaphore.waiting()), (0, 0));
    }
}
