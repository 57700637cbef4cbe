//! [`AccessClass`]: the classes of accesses with the largest errors. Accesses are classified by
//! direction and by cache or media, then by one further property at a time.

use std::collections::BTreeMap;

use headtime_units::{RotationPeriod, Sectors};
use headtime_workload::Operation;

use super::{ErrorFigures, ReplayedAccess, Served};

/// The further property of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slice {
    /// None.
    Whole,
    /// The tenth of the drive's addresses in which they start, 0 to 9.
    Region(u8),
    /// The distance in cylinders from the end of the previous access: 0, or this power of ten up to
    /// ten times as many. `None` if the layout does not tell.
    Cylinders(Option<u32>),
    /// The maximum number of sectors, a power of two from 8; the minimum is more than half of it
    /// (8: any number up to it).
    Sectors(u64),
    /// The idle time before, in milliseconds: less than one (0), or this power of ten up to ten
    /// times as much.
    Rested(u64),
}

/// A class of accesses and its prediction errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessClass {
    /// Read or write.
    pub operation: Operation,
    /// Cache or media, according to the model.
    pub served: Served,
    /// The further property.
    pub slice: Slice,
    /// The errors.
    pub figures: ErrorFigures,
}

impl Slice {
    /// A description for people.
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
            Self::Cylinders(Some(min)) => {
                format!("{min} to {} cylinders", u64::from(min) * 10 - 1)
            }
            Self::Sectors(8) => "up to 8 sectors".to_string(),
            Self::Sectors(max) => format!("{} to {max} sectors", max / 2 + 1),
            Self::Rested(0) => "after less than 1 ms of rest".to_string(),
            Self::Rested(min) => {
                format!("after {min} to {} ms of rest", min.saturating_mul(10))
            }
        }
    }
}

pub(super) fn classes(
    accesses: &[ReplayedAccess],
    capacity: Sectors,
    period: RotationPeriod,
    min: usize,
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
        .filter(|(_, members)| members.len() >= min)
        .map(|((operation, served, slice), members)| AccessClass {
            operation,
            served,
            slice,
            figures: ErrorFigures::of(members.iter().copied(), period),
        })
        .collect();
    // The sort is stable: equal classes stay in key order.
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
