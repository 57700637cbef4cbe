//! [`Addresses`]: the addresses of a scan on the drive.

use headtime_units::Extent;

use crate::volumes::Extents;

/// The sectors of a target as its scan counts them: one extent that begins at the first sector of
/// the target on the drive and goes on, over the ends of the target's extents, to the last. A
/// target of one extent has the addresses of the drive.
///
/// Extents of volumes begin on mebibytes and have whole ones, so that grains lie within one.
#[derive(Clone, Debug)]
pub(super) struct Addresses(Extents);

impl Addresses {
    pub(super) fn new(extents: Extents) -> Self {
        Self(extents)
    }

    /// The sectors of the scan.
    pub(super) fn extent(&self) -> Extent {
        Extent::new(self.0.start(), self.0.sectors())
    }

    /// The extents on the drive.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.0.as_slice().iter().copied()
    }

    /// The sectors of the drive that are these of the scan, in order.
    pub(super) fn on_drive(&self, of_scan: Extent) -> impl Iterator<Item = Extent> + '_ {
        let mut rest = of_scan;
        std::iter::from_fn(move || {
            let extent = self.0.from_offset(rest.start - self.0.start());
            let part = Extent::new(extent.start, extent.len.min(rest.len));
            rest = Extent::new(rest.start + part.len, rest.len - part.len);
            (!part.len.is_zero()).then_some(part)
        })
    }

    /// The parts of an extent of the drive that the scan has, with their addresses in it.
    pub(super) fn in_scan(&self, on_drive: Extent) -> impl Iterator<Item = (Extent, Extent)> + '_ {
        let mut at = self.0.start();
        self.extents().filter_map(move |extent| {
            let start = at;
            at = at + extent.len;
            let part = extent.intersection(on_drive)?;
            Some((Extent::new(start + (part.start - extent.start), part.len), part))
        })
    }

    /// The extents as text, by which the state of a scan knows them; empty for one.
    pub(super) fn note(&self) -> String {
        let further = self.extents().skip(1);
        let texts = further.map(|extent| format!("{}+{}", extent.start.get(), extent.len.get()));
        texts.collect::<Vec<_>>().join(" ")
    }
}

/// The note of a scan's state that has [`Addresses::note`].
pub(super) const EXTENTS: &str = "extents";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_scan_and_drive_correspond() {
        let extents = [(4096, 2048), (2048, 2048), (8192, 100)];
        let extents = extents.map(|(start, len)| Extent::from_numbers(start, len));
        let addresses = Addresses::new(Extents::new(extents.to_vec()));
        assert_eq!(addresses.extent(), Extent::from_numbers(4096, 4196));
        let across = Extent::from_numbers(6100, 2100);
        let on_drive: Vec<Extent> = addresses.on_drive(across).collect();
        let parts = [(6100, 44), (2048, 2048), (8192, 8)];
        assert_eq!(on_drive, parts.map(|(start, len)| Extent::from_numbers(start, len)));
        let back = on_drive.iter().flat_map(|part| addresses.in_scan(*part));
        let mut next = across.start;
        for ((of_scan, part), on_drive) in back.zip(&on_drive) {
            assert_eq!((of_scan, part), (Extent::new(next, on_drive.len), *on_drive));
            next = of_scan.end();
        }
        // Two extents that lie side by side on the drive, in the other order; what is outside is
        // left out.
        let all: Vec<(Extent, Extent)> = addresses.in_scan(Extent::from_numbers(0, 8200)).collect();
        let extent = Extent::from_numbers;
        assert_eq!(
            all,
            [
                (extent(4096, 2048), extent(4096, 2048)),
                (extent(6144, 2048), extent(2048, 2048)),
                (extent(8192, 8), extent(8192, 8)),
            ]
        );
        assert_eq!(addresses.note(), "2048+2048 8192+100");
    }
}
