use alloc::vec::Vec;

use headtime_units::Extent;
use proptest::prelude::*;

use super::*;
use crate::positioning::{Head, Target};
use crate::request::{ClassId, RequestId, StreamId};
use crate::tunables::IoPriority;

const TENANT: Tenant = Tenant::of(VolumeId(3));

/// A flush, as one that is sent and has no place.
fn flush(ticket: u64) -> Queued {
    let extent = Extent::default();
    let request = crate::request::Request {
        id: RequestId(ticket),
        volume: TENANT.volume,
        class: ClassId(0),
        stream: StreamId(0),
        op: Op::Flush,
        extent,
        fua: false,
        deadline: None,
    };
    let Head { place, .. } = Head::UNKNOWN;
    let target = Target { op: Op::Flush, extent, start: place, end: place, transfer: Nanos::ZERO };
    Queued {
        ticket: Ticket(ticket),
        request,
        submitted: Instant::ORIGIN,
        target,
        deadline: None,
        priority: IoPriority::DEFAULT,
        promise: None,
        worst: Nanos::ZERO,
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Pass { us: u64 },
    Send { estimate_us: u64, fixed: bool },
    Done { which: usize, took_us: u64 },
    Set { reserve: u32, limit: u32, burst_ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0_u64..400_000).prop_map(|us| Event::Pass { us }),
        (0_u64..60_000, proptest::bool::weighted(0.2))
            .prop_map(|(estimate_us, fixed)| Event::Send { estimate_us, fixed }),
        (0_usize..8, 0_u64..90_000).prop_map(|(which, took_us)| Event::Done { which, took_us }),
        (0_u32..=100, 1_u32..=100, 10_u64..3_000).prop_map(|(reserve, limit, burst_ms)| {
            Event::Set { reserve, limit: limit.max(reserve), burst_ms }
        }),
    ]
}

proptest! {
    /// Compared with separate sums: what came in at the rates that were set, and the charges, which
    /// are the measured times, or the estimate while a request is at the drive or if that is fixed.
    /// The bucket of the reservation has the difference, less the effect of its bounds; so has that
    /// of the limit.
    #[test]
    fn what_is_charged_is_what_was_taken_and_the_buckets_hold_the_rest(
        events in proptest::collection::vec(event(), 0..80),
    ) {
        let (mut shares, mut now, mut ticket) = (Shares::new(), Instant::ORIGIN, 0);
        shares.keep(now, core::iter::empty(), &[]);
        shares.flush_waits(now, TENANT);
        shares.flush_leaves(now, TENANT);
        let mut at_drive: Vec<Charge> = Vec::new();
        let (mut settled_ns, mut disk_ns) = (0_i64, 0_u64);
        // Grains since terms were first set, and the charges before.
        let (mut filled, mut limit_filled, mut before_ns) = (0_i128, 0_i128, 0_i64);
        let mut terms: Option<Terms> = None;
        for event in events {
            match event {
                Event::Pass { us } => {
                    now += Nanos::from_us(us);
                    let passed =
                        |share: Share| i128::from(share.as_billionths()) * i128::from(us) * 1_000;
                    filled += terms.map_or(0, |terms| passed(terms.reserve));
                    limit_filled += terms.map_or(0, |terms| passed(terms.limit));
                }
                Event::Send { estimate_us, fixed } => {
                    let charge = Charge {
                        estimate: Nanos::from_us(estimate_us),
                        fixed,
                        ..Charge::default()
                    };
                    shares.sent(now, &flush(ticket), charge, Op::Flush);
                    at_drive.push(charge);
                    ticket += 1;
                }
                Event::Done { which, took_us } if !at_drive.is_empty() => {
                    let charge = at_drive.swap_remove(which % at_drive.len());
                    let disk_time = Nanos::from_us(took_us);
                    shares.done(
                        now,
                        &flush(ticket),
                        Took {
                            op: Op::Flush,
                            cached: false,
                            disk_time,
                            transfer: Nanos::ZERO,
                            sent: now,
                            finished: now,
                            idle: Nanos::ZERO,
                        },
                        Some(charge),
                        || Nanos::ZERO,
                    );
                    settled_ns +=
                        if charge.fixed { charge.estimate.as_ns() } else { disk_time.as_ns() }
                            as i64;
                    disk_ns += disk_time.as_ns();
                }
                Event::Done { .. } => (),
                Event::Set { reserve, limit, burst_ms } => {
                    let share = |percent: u32| {
                        Share::from_billionths(percent * 10_000_000)
                            .expect("no more than the whole")
                    };
                    // A limit that is none has no bucket to be held against.
                    let limit = if limit == 100 { 99 } else { limit };
                    let new = Terms {
                        limit: share(limit.max(reserve.min(99))),
                        burst: Nanos::from_ms(burst_ms),
                        ..Terms::reserving(share(reserve.min(99)))
                    };
                    shares.change(now, &[ShareChange::Set(TENANT, new)]);
                    if terms.is_none() {
                        before_ns = settled_ns
                            + at_drive
                                .iter()
                                .map(|charge| charge.estimate.as_ns() as i64)
                                .sum::<i64>();
                    }
                    terms = Some(new);
                }
            }
            let state = shares.tenant(TENANT).expect("it has asked for something");
            let charged_ns = settled_ns
                + at_drive.iter().map(|charge| charge.estimate.as_ns() as i64).sum::<i64>();
            prop_assert_eq!(state.charged().1, charged_ns);
            prop_assert_eq!((state.disk_time.as_ns(), state.at_drive()), (disk_ns, at_drive.len()));
            if let Some(Terms { reserve, burst, .. }) = terms {
                // Updates the levels.
                let (mut bucket, mut limit) = (state.reserve, state.limit);
                bucket.take(now, 0);
                limit.take(now, 0);
                let most = i128::from(reserve.as_billionths()) * i128::from(burst.as_ns());
                let level = bucket.level(now);
                prop_assert!(-most <= level && level <= most);
                let since_ns = i128::from(charged_ns - before_ns) * GRAINS;
                // Charges before terms were set were taken from a bucket without room, and
                // forgiven.
                let before = i128::from(before_ns) * GRAINS;
                prop_assert_eq!(
                    level,
                    filled - before - since_ns + bucket.let_off(),
                    "of the reservation"
                );
                prop_assert_eq!(
                    limit.level(now),
                    Some(limit_filled - since_ns + limit.let_off()),
                    "of the limit"
                );
            }
        }
    }
}
