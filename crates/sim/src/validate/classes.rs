//! [`AccessClass`]: where predictions fail. Accesses are told apart by direction and by who answered, and
//! within those by one further thing at a time.

use std::collections::BTreeMap;

use headtime_units::{RotationPeriod, Sectors};
use headtime_workload::Operation;

use super::{ErrorFigures, ReplayedAccess, Served};

/// What the accesses of a class have in common besides direction and who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slice {
    /// Nothing more.
    Whole,
    /// They start in this tenth of the drive's addresses, 0 to 9.
    Region(u8),
    /// They start so many cylinders from where the one before ended: none (`Some(0)`), or at least
    /// this power of ten and less than ten times as many. `None` where the layout does not say.
    Cylinders(Option<u32>),
    /// They move at most so many sectors, a power of two of at least 8, and more than half as many
    /// (8: any number up to it).
    Sectors(u64),
    /// The drive had rested for less than a millisecond before (0), or for at least this power of
    /// ten of milliseconds and less than ten times as long.
    Rested(u64),
}

/// Accesses that have something in common, and how well they were predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessClass {
    /// Whether they read or write.
    pub operation: Operation,
    /// Who answered, as the model sees it.
    pub served: Served,
    /// What else they share.
    pub slice: Slice,
    /// How well they were predicted.
    pub figures: ErrorFigures,
}

impl Slice {
    /// In words.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Whole => "all".to_string(),
            Self::Region(tenth) => {
                format!("addresses {} to {} %", u32::from(tenth) * 10, (u32::from(tenth) + 1) * 10)
            }
            Self::Cylinders(None) => "distance unknown".to_string(),
            Self::Cylinders(Some(0)) => "same cylinder".to_string(),
            Self::Cylinders(Some(1)) => "1 to 9 cylinders".to_string(),
            Self::Cylinders(Some(least)) => {
                format!("{least} to {} cylinders", u64::from(least) * 10 - 1)
            }
            Self::Sectors(8) => "up to 8 sectors".to_string(),
            Self::Sectors(most) => format!("{} to {most} sectors", most / 2 + 1),
            Self::Rested(0) => "after less than 1 ms of rest".to_string(),
            Self::Rested(least) => {
                format!("after {least} to {} ms of rest", least.saturating_mul(10))
            }
        }
    }
}

pub(super) fn classes(
    accesses: &[ReplayedAccess],
    capacity: Sectors,
    period: RotationPeriod,
    least: usize,
) -> Vec<AccessClass> {
    let mut members: BTreeMap<(Operation, Served, Slice), Vec<&ReplayedAccess>> = BTreeMap::new();
    for access in accesses {
        for slice in slices(access, capacity) {
            members
                .entry((access.recorded.operation, access.predicted.served, slice))
                .or_default()
                .push(access);
        }
    }
    let mut classes: Vec<AccessClass> = members
        .into_iter()
        .filter(|(_, members)| members.len() >= least)
        .map(|((operation, served, slice), members)| AccessClass {
            operation,
            served,
            slice,
            figures: ErrorFigures::of(members.iter().copied(), period),
        })
        .collect();
    // The sort is stable, so that equals stay in the order of their keys.
    classes.sort_by(|a, b| {
        a.figures
            .within_0_2_ms
            .total_cmp(&b.figures.within_0_2_ms)
            .then(b.figures.median_abs_ms.total_cmp(&a.figures.median_abs_ms))
    });
    classes
}

fn slices(access: &ReplayedAccess, capacity: Sectors) -> [Slice; 5] {
    let tenth =
        u128::from(access.recorded.extent.start.get()) * 10 / u128::from(capacity.get().max(1));
    let cylinders = access
        .predicted
        .cylinders
        .map(|cylinders| cylinders.checked_ilog10().map_or(0, |power| 10_u32.pow(power)));
    let sectors =
        access.recorded.extent.len.get().checked_next_power_of_two().unwrap_or(u64::MAX).max(8);
    let rested =
        (access.rested.as_ns() / 1_000_000).checked_ilog10().map_or(0, |power| 10_u64.pow(power));
    [
        Slice::Whole,
        Slice::Region(tenth.min(9) as u8),
        Slice::Cylinders(cylinders),
        Slice::Sectors(sectors),
        Slice::Rested(rested),
    ]
}
