//! The duration of a media access, including the extra revolution of a write of partial physical
//! sectors.
//!
//! A drive with 4,096-byte physical sectors that shows 512-byte ones (512e) cannot write an eighth
//! of a sector. The model: the first and last physical sector of a write are read first if they are
//! covered in part and not cached, in one access from the first of them to the last. The head then
//! comes round and writes all physical sectors that the write touches.
//!
//! Worked example, 7,200 rpm, a write of LBAs 3–10 with 8 to a physical sector: both physical
//! sectors, 0–7 and 8–15, are covered in part. The head comes to LBA 0, reads 16 sectors, waits
//! until LBA 0 comes round again and writes 16: exactly one revolution more than a write of 0–15,
//! less the write settle, which overlaps the revolution. If only the last physical sector is
//! covered in part, it is read first, and the head comes round to the first.

use headtime_mechanics::{Access, Direction, HeadPosition, Mechanism};
use headtime_units::{Extent, Instant};

use crate::truth::InstanceVariation;

/// Serves `extent` as [`Mechanism::access`] does, in whole physical sectors of `physical` logical
/// ones. `held` tells whether the cache holds an extent.
pub(super) fn access(
    mechanism: &Mechanism<InstanceVariation>,
    (from, depart): (HeadPosition, Instant),
    op: Direction,
    extent: Extent,
    not_before: Instant,
    physical: u64,
    held: impl Fn(Extent) -> bool,
) -> Access {
    if op == Direction::Read || physical <= 1 {
        return mechanism.access(from, depart, op, extent, not_before);
    }
    let capacity = mechanism.layout().capacity().get();
    let (start, end) = (extent.start.get(), extent.end().get());
    let sector_of = |lba: u64| {
        Extent::from_numbers(lba - lba % physical, physical.min(capacity - (lba - lba % physical)))
    };
    let (first, last) = (sector_of(start), sector_of(end - 1));
    let whole = Extent::from_numbers(first.start.get(), last.end().get() - first.start.get());
    let first_in_part = first.start.get() != start || first.end().get() > end;
    let last_in_part = last != first && last.end().get() != end;
    let unread = [(first, first_in_part), (last, last_in_part)]
        .into_iter()
        .filter(|(sector, in_part)| *in_part && !held(*sector));
    let read = unread
        .map(|(sector, _)| sector)
        .reduce(|a, b| Extent::from_numbers(a.start.get(), b.end().get() - a.start.get()));
    let Some(read) = read else { return mechanism.access(from, depart, op, whole, not_before) };
    let read = mechanism.access(from, depart, Direction::Read, read, Instant::ORIGIN);
    let write = mechanism.access(read.end, read.finish, op, whole, not_before);
    Access {
        seek: read.seek + write.seek,
        rotate: read.rotate + write.rotate,
        transfer: read.transfer + write.transfer,
        ..write
    }
}
