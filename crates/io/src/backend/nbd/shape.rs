//! The properties of an NBD export as a drive: size, sectors, and the server's features.

use headtime_nbd::{ExportFlags, ExportSession};
use headtime_units::{ByteSize, SectorSize, Sectors};

use crate::nbd_error::{Difference, NbdError};

/// An export as a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) capacity: Sectors,
    pub(crate) sector: SectorSize,
    /// The server's preferred block size in bytes.
    pub(crate) preferred: u32,
    /// The longest read or write, bytes; whole sectors.
    pub(crate) longest: u32,
    pub(crate) read_only: bool,
    pub(crate) flush: bool,
    pub(crate) fua: bool,
    pub(crate) trim: bool,
    pub(crate) write_zeroes: bool,
}

impl Shape {
    /// Reads an opened export.
    ///
    /// # Errors
    /// [`NbdError`] when it makes no drive.
    pub(crate) fn of(uri: &str, session: &ExportSession) -> Result<Self, NbdError> {
        let export = &session.export;
        let sizes = export.block_sizes;
        let sector = match sizes.minimum {
            ..=512 => SectorSize::B512,
            513..=4096 => SectorSize::B4096,
            minimum => return Err(NbdError::Blocks { uri: uri.to_owned(), minimum }),
        };
        let sector_bytes = sector.bytes();
        let bytes = export.size_bytes;
        let capacity =
            sector.sectors_of(bytes).filter(|capacity| !capacity.is_zero() && bytes <= MAX_BYTES);
        let capacity =
            capacity.ok_or_else(|| NbdError::Size { uri: uri.to_owned(), bytes, sector_bytes })?;
        let has = |flag| export.flags.contains(flag);
        Ok(Self {
            read_only: has(ExportFlags::READ_ONLY),
            capacity,
            sector,
            preferred: sizes.preferred.clamp(sector_bytes, MAX_PREFERRED),
            longest: (sizes.maximum.min(MAX_LONGEST) / sector_bytes * sector_bytes)
                .max(sector_bytes),
            flush: has(ExportFlags::SEND_FLUSH),
            fua: has(ExportFlags::SEND_FUA),
            trim: has(ExportFlags::SEND_TRIM),
            write_zeroes: has(ExportFlags::SEND_WRITE_ZEROES),
        })
    }

    /// The same, if it may be written to.
    ///
    /// # Errors
    /// [`NbdError::ReadOnly`].
    pub(crate) fn writable(self, uri: &str) -> Result<Self, NbdError> {
        if self.read_only { Err(NbdError::ReadOnly { uri: uri.to_owned() }) } else { Ok(self) }
    }

    /// The difference because of which `now` cannot replace this drive while it is in use. The
    /// server's preferences may differ.
    pub(crate) fn difference(&self, now: &Self) -> Option<Difference> {
        let bytes = |shape: &Self| ByteSize::new(shape.sector.bytes_of(shape.capacity));
        if bytes(self) != bytes(now) {
            return Some(Difference::Size { before: bytes(self), now: bytes(now) });
        }
        if now.sector.bytes() > self.sector.bytes() {
            return Some(Difference::Sector {
                before: self.sector.bytes(),
                now: now.sector.bytes(),
            });
        }
        let gone = [("FLUSH", self.flush, now.flush), ("FUA", self.fua, now.fua)]
            .into_iter()
            .find(|(_, before, now)| *before && !now);
        gone.map(|(command, ..)| Difference::Durability { command })
    }
}

/// File offsets are signed 64-bit numbers on every server.
const MAX_BYTES: u64 = i64::MAX as u64;
/// The maximum preferred block that is passed on. Larger ones would only make small requests look
/// wrong.
const MAX_PREFERRED: u32 = 64 << 10;
/// A length that every server should accept (proto.md, "Size constraints"), and that fits twice
/// into the bytes in flight.
const MAX_LONGEST: u32 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_nbd::{BlockSizes, ExportInfo};

    fn session(
        size_bytes: u64,
        minimum: u32,
        preferred: u32,
        maximum: u32,
        flags: ExportFlags,
    ) -> ExportSession {
        let block_sizes = BlockSizes { minimum, preferred, maximum };
        let export = ExportInfo { flags, block_sizes, ..ExportInfo::disk("d", size_bytes) };
        ExportSession {
            export,
            structured_replies: true,
            allocation_context: false,
            block_sizes_stated: true,
        }
    }

    #[test]
    fn sectors_and_longest_requests_follow_the_servers_blocks() {
        let shape = |minimum, preferred, maximum| {
            Shape::of("u", &session(1 << 20, minimum, preferred, maximum, ExportFlags::DISK))
                .unwrap()
        };
        assert_eq!(
            (shape(1, 512, 1000).sector, shape(1, 512, 1000).longest),
            (SectorSize::B512, 512)
        );
        assert_eq!(
            (shape(512, 4096, u32::MAX).sector, shape(512, 4096, u32::MAX).longest),
            (SectorSize::B512, 32 << 20)
        );
        assert_eq!(
            (shape(1024, 4096, 8191).sector, shape(1024, 4096, 8191).longest),
            (SectorSize::B4096, 4096)
        );
        assert_eq!(
            (shape(4096, 1 << 20, 1 << 20).preferred, shape(4096, 4096, 1 << 20).preferred),
            (64 << 10, 4096)
        );
    }

    #[test]
    fn what_makes_no_drive_is_refused() {
        let shape =
            |size, minimum, flags| Shape::of("u", &session(size, minimum, 65_536, 1 << 20, flags));
        let refused = |size, minimum, flags| {
            shape(size, minimum, flags)
                .and_then(|shape| shape.writable("u"))
                .unwrap_err()
                .to_string()
        };
        for size in [0, 1000, 1 << 63] {
            assert!(
                refused(size, 1, ExportFlags::DISK)
                    .contains(&format!("the export has {size} bytes; expected whole sectors")),
                "{size}"
            );
        }
        assert!(
            refused(1 << 20, 8192, ExportFlags::DISK)
                .contains("block size of the export is 8192 bytes")
        );
        assert!(
            refused(1 << 20, 512, ExportFlags::DISK | ExportFlags::READ_ONLY).contains("read-only")
        );
    }

    #[test]
    fn another_drive_at_the_same_address_is_recognized_by_size_sectors_and_durability() {
        let shape = |size, minimum, flags| {
            Shape::of("u", &session(size, minimum, 4096, 1 << 20, flags)).unwrap()
        };
        let opened = shape(1 << 20, 512, ExportFlags::DISK);
        let said = |now| opened.difference(&now).map(|difference| difference.to_string());
        assert_eq!(said(shape(1 << 20, 1, ExportFlags::DISK | ExportFlags::SEND_FAST_ZERO)), None);
        assert_eq!(
            said(shape(1 << 20, 512, ExportFlags::DISK.without(ExportFlags::SEND_TRIM))),
            None
        );
        assert_eq!(
            said(shape(2 << 20, 512, ExportFlags::DISK)).unwrap(),
            "it has 2 MiB (2097152 bytes) and had 1 MiB (1048576 bytes)"
        );
        assert!(said(shape(1 << 20, 4096, ExportFlags::DISK)).unwrap().contains("4096"));
        assert!(
            said(shape(1 << 20, 512, ExportFlags::DISK.without(ExportFlags::SEND_FLUSH)))
                .unwrap()
                .contains("FLUSH")
        );
    }
}
