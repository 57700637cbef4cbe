//! The description of an export: name, size, flags, block sizes, and the extents of its allocation.

use alloc::string::String;
use core::fmt;
use core::ops::BitOr;

/// The 16 transmission flags of an export. Bits: proto.md, "Transmission flags".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ExportFlags(u16);

impl ExportFlags {
    /// Always set on the wire; the server machine sets it.
    pub const HAS_FLAGS: ExportFlags = ExportFlags(1);
    /// Writes fail with EPERM.
    pub const READ_ONLY: ExportFlags = ExportFlags(1 << 1);
    /// FLUSH is supported.
    pub const SEND_FLUSH: ExportFlags = ExportFlags(1 << 2);
    /// The FUA command flag is supported.
    pub const SEND_FUA: ExportFlags = ExportFlags(1 << 3);
    /// The medium rotates.
    pub const ROTATIONAL: ExportFlags = ExportFlags(1 << 4);
    /// TRIM is supported.
    pub const SEND_TRIM: ExportFlags = ExportFlags(1 << 5);
    /// WRITE_ZEROES and NO_HOLE are supported.
    pub const SEND_WRITE_ZEROES: ExportFlags = ExportFlags(1 << 6);
    /// The DF command flag is supported; the server sets it exactly when replies are structured.
    pub const SEND_DF: ExportFlags = ExportFlags(1 << 7);
    /// Several connections see each other's completed writes and flushes.
    pub const CAN_MULTI_CONN: ExportFlags = ExportFlags(1 << 8);
    /// CACHE is supported.
    pub const SEND_CACHE: ExportFlags = ExportFlags(1 << 10);
    /// The FAST_ZERO command flag is supported.
    pub const SEND_FAST_ZERO: ExportFlags = ExportFlags(1 << 11);
    /// No flag.
    pub const NONE: ExportFlags = ExportFlags(0);
    /// The flags of a writable rotating disk: everything except fast zeroing, which a disk cannot
    /// guarantee.
    pub const DISK: ExportFlags = ExportFlags(
        Self::SEND_FLUSH.0
            | Self::SEND_FUA.0
            | Self::ROTATIONAL.0
            | Self::SEND_TRIM.0
            | Self::SEND_WRITE_ZEROES.0
            | Self::CAN_MULTI_CONN.0
            | Self::SEND_CACHE.0,
    );

    const NAMES: &'static [(ExportFlags, &'static str)] = &[
        (Self::HAS_FLAGS, "HAS_FLAGS"),
        (Self::READ_ONLY, "READ_ONLY"),
        (Self::SEND_FLUSH, "SEND_FLUSH"),
        (Self::SEND_FUA, "SEND_FUA"),
        (Self::ROTATIONAL, "ROTATIONAL"),
        (Self::SEND_TRIM, "SEND_TRIM"),
        (Self::SEND_WRITE_ZEROES, "SEND_WRITE_ZEROES"),
        (Self::SEND_DF, "SEND_DF"),
        (Self::CAN_MULTI_CONN, "CAN_MULTI_CONN"),
        (Self::SEND_CACHE, "SEND_CACHE"),
        (Self::SEND_FAST_ZERO, "SEND_FAST_ZERO"),
    ];

    /// The flags with exactly these bits, including unknown ones.
    pub const fn from_bits(bits: u16) -> ExportFlags {
        ExportFlags(bits)
    }

    /// The bits as on the wire.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns true if every flag of `other` is set.
    pub const fn contains(self, other: ExportFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags without those of `other`.
    #[must_use]
    pub const fn without(self, other: ExportFlags) -> ExportFlags {
        ExportFlags(self.0 & !other.0)
    }

    /// The flags to advertise: HAS_FLAGS set, SEND_DF exactly when replies are structured, no
    /// SEND_FAST_ZERO without SEND_WRITE_ZEROES, and nothing that writes on a read-only export.
    #[must_use]
    pub(crate) fn advertised(self, structured: bool) -> ExportFlags {
        let mut flags = self.without(Self::SEND_DF) | Self::HAS_FLAGS;
        if flags.contains(Self::READ_ONLY) {
            flags = flags.without(Self::SEND_TRIM | Self::SEND_WRITE_ZEROES);
        }
        if !flags.contains(Self::SEND_WRITE_ZEROES) {
            flags = flags.without(Self::SEND_FAST_ZERO);
        }
        if structured { flags | Self::SEND_DF } else { flags }
    }
}

impl BitOr for ExportFlags {
    type Output = ExportFlags;

    fn bitor(self, other: ExportFlags) -> ExportFlags {
        ExportFlags(self.0 | other.0)
    }
}

impl fmt::Debug for ExportFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        let strange = Self::NAMES.iter().fold(*self, |rest, (flag, _)| rest.without(*flag));
        let mut list = f.debug_set();
        for (_, name) in known {
            list.entry(&format_args!("{name}"));
        }
        if strange.0 != 0 {
            list.entry(&format_args!("{:#06x}", strange.0));
        }
        list.finish()
    }
}

/// Size constraints of an export, in bytes. Rules: proto.md, "Size constraints".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Smallest unit of offset and length: a power of two, 1 to 65,536.
    pub minimum: u32,
    /// Smallest efficient unit: a power of two, at least `minimum` and 512.
    pub preferred: u32,
    /// Longest READ or WRITE, at least `preferred`. A server advertises the smaller of this and
    /// [`crate::ServerLimits::max_request_bytes`].
    pub maximum: u32,
}

impl Default for BlockSizes {
    /// A disk with 512-byte logical and 4,096-byte physical sectors, 32 MiB at most in one request
    /// (the length every peer should accept).
    fn default() -> Self {
        BlockSizes { minimum: 512, preferred: 4096, maximum: 32 << 20 }
    }
}

impl BlockSizes {
    /// Checks the three sizes against the protocol's rules.
    ///
    /// # Errors
    /// [`ExportInfoError::BlockSizes`] naming the three.
    pub fn check(&self) -> Result<(), ExportInfoError> {
        let BlockSizes { minimum, preferred, maximum } = *self;
        let ok = minimum.is_power_of_two()
            && minimum <= 65_536
            && preferred.is_power_of_two()
            && preferred >= minimum.max(512)
            && maximum >= preferred;
        if ok { Ok(()) } else { Err(ExportInfoError::BlockSizes { minimum, preferred, maximum }) }
    }
}

/// The description of an export, as a server sends it to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// Canonical name, at most 4,096 bytes, no NUL; may be empty (the default export).
    pub name: String,
    /// A description for people, at most 4,096 bytes, no NUL; may be empty.
    pub description: String,
    /// Size in bytes, a multiple of `block_sizes.minimum`.
    pub size_bytes: u64,
    /// The capabilities of the export. The server sets HAS_FLAGS and SEND_DF itself.
    pub flags: ExportFlags,
    /// Size constraints.
    pub block_sizes: BlockSizes,
}

impl ExportInfo {
    /// A writable rotating disk of `size_bytes` with default block sizes and no description.
    pub fn disk(name: impl Into<String>, size_bytes: u64) -> ExportInfo {
        ExportInfo {
            name: name.into(),
            description: String::new(),
            size_bytes,
            flags: ExportFlags::DISK,
            block_sizes: BlockSizes::default(),
        }
    }

    /// Checks if this can be sent.
    ///
    /// # Errors
    /// [`ExportInfoError`] with the first rule that is broken.
    pub fn check(&self) -> Result<(), ExportInfoError> {
        self.block_sizes.check()?;
        check_string("name", &self.name)?;
        check_string("description", &self.description)?;
        let minimum = self.block_sizes.minimum;
        if !self.size_bytes.is_multiple_of(u64::from(minimum)) {
            return Err(ExportInfoError::Size {
                name: self.name.clone(),
                size_bytes: self.size_bytes,
                minimum,
            });
        }
        Ok(())
    }
}

pub(crate) fn check_string(field: &'static str, text: &str) -> Result<(), ExportInfoError> {
    if text.len() > crate::wire::MAX_STRING_BYTES {
        return Err(ExportInfoError::TooLong { field, bytes: text.len() });
    }
    if text.contains('\0') {
        return Err(ExportInfoError::Nul { field });
    }
    Ok(())
}

/// The reason why an [`ExportInfo`] cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ExportInfoError {
    /// The block sizes break the protocol's rules.
    #[error(
        "block sizes {minimum}/{preferred}/{maximum} (minimum/preferred/maximum bytes): expected \
            powers of two with \
         minimum <= 65536, preferred >= minimum and >= 512, and maximum >= preferred"
    )]
    BlockSizes { minimum: u32, preferred: u32, maximum: u32 },
    /// The tail of the export could never be reached.
    #[error(
        "export \"{name}\": {size_bytes} bytes is not a multiple of the minimum block of \
            {minimum}; round the size down"
    )]
    Size { name: String, size_bytes: u64, minimum: u32 },
    #[error("export {field} has {bytes} bytes, the protocol allows 4096; shorten it")]
    TooLong { field: &'static str, bytes: usize },
    #[error("export {field} contains a NUL character, which the protocol forbids; remove it")]
    Nul { field: &'static str },
}

/// The result of the negotiation, at the beginning of the transmission phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSession {
    /// The export, with flags and block sizes as they went over the wire.
    pub export: ExportInfo,
    /// Replies are structured; otherwise simple.
    pub structured_replies: bool,
    /// BLOCK_STATUS may be sent and answers `base:allocation`.
    pub allocation_context: bool,
    /// The server sent the block sizes and the client requested them. On a client, block sizes that
    /// were not sent are the cautious defaults of proto.md ("Size constraints").
    pub block_sizes_stated: bool,
}

/// One line of a server's list of exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedExport {
    /// Name to open it by.
    pub name: String,
    /// A description for people; may be empty.
    pub description: String,
}

/// A run of bytes with one allocation state (`base:allocation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusExtent {
    /// Length in bytes, not zero.
    pub length: u32,
    /// Bits of `base:allocation`: 1 = not allocated, 2 = reads as zeroes; 0 = allocated data.
    pub state: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn advertised_flags_never_contradict_each_other() {
        for bits in 0..=u16::MAX {
            for structured in [false, true] {
                let flags = ExportFlags::from_bits(bits).advertised(structured);
                assert!(flags.contains(ExportFlags::HAS_FLAGS));
                assert_eq!(flags.contains(ExportFlags::SEND_DF), structured);
                let zeroes = flags.contains(ExportFlags::SEND_WRITE_ZEROES);
                assert!(zeroes || !flags.contains(ExportFlags::SEND_FAST_ZERO), "{flags:?}");
                assert!(!(zeroes && flags.contains(ExportFlags::READ_ONLY)), "{flags:?}");
            }
        }
    }

    #[test]
    fn flags_print_by_name_and_unknown_ones_as_a_number() {
        let flags = ExportFlags::from_bits(1 | 1 << 9);
        assert_eq!(format!("{flags:?}"), "{HAS_FLAGS, 0x0200}");
    }

    #[test]
    fn block_sizes_follow_the_rules_of_the_document() {
        let sizes = |minimum, preferred, maximum| BlockSizes { minimum, preferred, maximum };
        for good in [sizes(1, 512, 512), sizes(512, 4096, 1 << 25), sizes(65536, 65536, u32::MAX)] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for bad in [
            sizes(0, 512, 512),
            sizes(3, 512, 512),
            sizes(131_072, 131_072, 1 << 25),
            sizes(1, 256, 512),
            sizes(4096, 512, 4096),
            sizes(512, 4096, 1024),
            sizes(1, 1000, 4096),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_export_names_the_rule_it_breaks() {
        let mut export = ExportInfo::disk("vol0", 1000);
        assert_eq!(
            format!("{}", export.check().unwrap_err()),
            "export \"vol0\": 1000 bytes is not a multiple of the minimum block of 512; round the \
                size down"
        );
        export.size_bytes = 1024;
        export.check().unwrap();
        export.description = "x".repeat(4097);
        assert_eq!(
            export.check(),
            Err(ExportInfoError::TooLong { field: "description", bytes: 4097 })
        );
        export.description = "a\0".into();
        assert_eq!(export.check(), Err(ExportInfoError::Nul { field: "description" }));
    }
}
