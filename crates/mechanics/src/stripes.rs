//! [`Stripes`]: the division of an array's sectors over its members.
//!
//! Stripe `s` of the array is stripe `s / n` of member `s mod n`, so that a run of sectors of the
//! array is one run on each member that it touches.
//!
//! Worked example, 3 members, stripes of 4 sectors: a read of LBAs 2–13 is 2–3 and 12–13 in stripes
//! 0 and 3 of member 0, so its sectors 2–5 (stripe 3 is its second); sectors 0–3 of member 1 (LBAs
//! 4–7), and 0–3 of member 2 (LBAs 8–11).

use core::cmp::Ordering;

use headtime_units::{Extent, Sectors};

/// Stripes of one length over a number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    len: Sectors,
    members: u64,
}

impl Stripes {
    /// Stripes of `len` over `members`.
    ///
    /// # Panics
    /// When a stripe is empty or there is no member.
    #[must_use]
    pub fn new(len: Sectors, members: usize) -> Self {
        assert!(!len.is_zero() && members > 0, "stripes of {len} over {members} members");
        Self { len, members: members as u64 }
    }

    /// The size of an array whose smallest member has `smallest` sectors: each member contributes
    /// as many whole stripes.
    #[must_use]
    pub fn capacity(&self, smallest: Sectors) -> Sectors {
        let len = self.len.get();
        Sectors::new(smallest.get() / len * len * self.members)
    }

    /// The sectors of a stripe.
    #[must_use]
    pub fn stripe(&self) -> Sectors {
        self.len
    }

    /// The members and the sectors of the array that each holds, in the order of `extent`: one run
    /// for each stripe.
    pub fn runs(self, extent: Extent) -> impl Iterator<Item = (usize, Extent)> {
        let member = move |run: Extent| run.start.get() / self.len.get() % self.members;
        extent.divided_at(self.len).map(move |run| (member(run) as usize, run))
    }

    /// The sectors of a member that hold sectors of `extent`, or an empty extent.
    #[must_use]
    pub fn part(&self, extent: Extent, member: usize) -> Extent {
        let (len, member) = (self.len.get(), member as u64);
        // The member's sectors before sector `end` of the array.
        let before = |end: u64| {
            let (stripes, within) = (end / len, end % len);
            let (rounds, turn) = (stripes / self.members, stripes % self.members);
            rounds * len
                + match turn.cmp(&member) {
                    Ordering::Less => 0,
                    Ordering::Equal => within,
                    Ordering::Greater => len,
                }
        };
        let start = before(extent.start.get());
        Extent::from_numbers(start, before(extent.end().get()) - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example_is_split_as_it_says() {
        let stripes = Stripes::new(Sectors::new(4), 3);
        let parts: Vec<Extent> =
            (0..3).map(|member| stripes.part(Extent::from_numbers(2, 12), member)).collect();
        assert_eq!(
            parts,
            [Extent::from_numbers(2, 4), Extent::from_numbers(0, 4), Extent::from_numbers(0, 4)]
        );
        assert_eq!(stripes.capacity(Sectors::new(11)), Sectors::new(24));
    }

    proptest! {
        #[test]
        fn parts_hold_each_sector_once_where_striping_puts_it(
            count in 1_usize..6,
            len in 1_u64..9,
            start in 0_u64..200,
            sectors in 1_u64..60,
        ) {
            let stripes = Stripes::new(Sectors::new(len), count);
            let extent = Extent::from_numbers(start, sectors);
            let mut expected = vec![Vec::new(); count];
            for lba in start..start + sectors {
                let number = lba / len;
                let sector = number / count as u64 * len + lba % len;
                expected[(number % count as u64) as usize].push(sector);
            }
            for (member, expected) in expected.iter().enumerate() {
                let part = stripes.part(extent, member);
                let sectors: Vec<u64> = (part.start.get()..part.end().get()).collect();
                prop_assert_eq!(&sectors, expected);
            }
            let runs: Vec<(usize, Extent)> = stripes.runs(extent).collect();
            let mut next = extent.start;
            for (member, run) in &runs {
                prop_assert_eq!(run.start, next);
                prop_assert!(run.len <= Sectors::new(len) && !run.len.is_zero());
                prop_assert_eq!(run.start.get() / len % count as u64, *member as u64);
                next = run.end();
            }
            prop_assert_eq!(next, extent.end());
        }
    }
}
