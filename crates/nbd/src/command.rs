//! The commands of the transmission phase, and a table of the requirements of each.

use bytes::Bytes;

use crate::errno::Errno;
use crate::export::ExportFlags;
use crate::wire;

/// One request of the transmission phase, without its cookie. Offsets and lengths are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NbdCommand {
    /// Read `length` bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Answer in one piece (DF).
        unfragmented: bool,
    },
    /// Write the payload.
    Write {
        /// First byte.
        offset: u64,
        /// The data to write; its length is the request's.
        payload: Bytes,
        /// Durable before the reply (FUA).
        fua: bool,
    },
    /// Make every write that was answered before durable.
    Flush,
    /// The range is no longer needed; its content is undefined until written again.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes; may be larger than the maximum payload.
        length: u32,
        /// Durable before the reply (FUA).
        fua: bool,
    },
    /// Make the range read as zeroes.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes; may be larger than the maximum payload.
        length: u32,
        /// Durable before the reply (FUA).
        fua: bool,
        /// Keep the range provisioned (NO_HOLE).
        no_hole: bool,
        /// Fail with [`Errno::NotSupported`] if it would take as long as a write (FAST_ZERO).
        fast: bool,
    },
    /// The range will be read soon.
    Cache {
        /// First byte.
        offset: u64,
        /// Number of bytes; may be larger than the maximum payload.
        length: u32,
    },
    /// Allocation of the range.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Number of bytes, a hint.
        length: u32,
        /// One extent only (REQ_ONE).
        single: bool,
    },
}

impl NbdCommand {
    /// Code on the wire.
    pub fn code(&self) -> u16 {
        match self {
            NbdCommand::Read { .. } => wire::CMD_READ,
            NbdCommand::Write { .. } => wire::CMD_WRITE,
            NbdCommand::Flush => wire::CMD_FLUSH,
            NbdCommand::Trim { .. } => wire::CMD_TRIM,
            NbdCommand::WriteZeroes { .. } => wire::CMD_WRITE_ZEROES,
            NbdCommand::Cache { .. } => wire::CMD_CACHE,
            NbdCommand::BlockStatus { .. } => wire::CMD_BLOCK_STATUS,
        }
    }

    /// Row of [`COMMANDS`].
    pub fn spec(&self) -> &'static CommandSpec {
        CommandSpec::of(self.code()).expect("every command has a row in COMMANDS")
    }

    /// First byte and number of bytes; (0, 0) for FLUSH.
    pub fn range(&self) -> (u64, u64) {
        match self {
            NbdCommand::Write { offset, payload, .. } => (*offset, payload.len() as u64),
            NbdCommand::Flush => (0, 0),
            NbdCommand::Read { offset, length, .. }
            | NbdCommand::Trim { offset, length, .. }
            | NbdCommand::WriteZeroes { offset, length, .. }
            | NbdCommand::Cache { offset, length }
            | NbdCommand::BlockStatus { offset, length, .. } => (*offset, u64::from(*length)),
        }
    }

    /// Checks that the range lies within the `size_bytes` that the export has now.
    ///
    /// # Errors
    /// The protocol's error for a range past the end: ENOSPC for WRITE and WRITE_ZEROES, else
    /// EINVAL.
    pub fn check_end(&self, size_bytes: u64) -> Result<(), Errno> {
        let (offset, length) = self.range();
        let fits = offset.checked_add(length).is_some_and(|end| end <= size_bytes);
        if fits { Ok(()) } else { Err(self.spec().beyond_end) }
    }

    /// Command flags on the wire.
    pub fn flags(&self) -> u16 {
        let bit = |set: bool, flag: u16| if set { flag } else { 0 };
        match self {
            NbdCommand::Read { unfragmented, .. } => bit(*unfragmented, wire::CMD_FLAG_DF),
            NbdCommand::Write { fua, .. } | NbdCommand::Trim { fua, .. } => {
                bit(*fua, wire::CMD_FLAG_FUA)
            }
            NbdCommand::WriteZeroes { fua, no_hole, fast, .. } => {
                bit(*fua, wire::CMD_FLAG_FUA)
                    | bit(*no_hole, wire::CMD_FLAG_NO_HOLE)
                    | bit(*fast, wire::CMD_FLAG_FAST_ZERO)
            }
            NbdCommand::BlockStatus { single, .. } => bit(*single, wire::CMD_FLAG_REQ_ONE),
            NbdCommand::Flush | NbdCommand::Cache { .. } => 0,
        }
    }
}

/// The requirements of a command. DISC has no row: it has no reply.
#[derive(Debug, Clone, Copy)]
pub struct CommandSpec {
    /// Code on the wire.
    pub code: u16,
    /// Name in the protocol document.
    pub name: &'static str,
    /// Command flags it may carry besides FUA, which every command may.
    pub flags: u16,
    /// Export flag it needs; NONE for READ, WRITE and BLOCK_STATUS (which needs a metadata context
    /// instead).
    pub requires: ExportFlags,
    /// Changes the export, so EPERM on a read-only one.
    pub writes: bool,
    /// Carries data in one direction, so bound by the maximum payload.
    pub payload: bool,
    /// Error for a range past the end of the export.
    pub beyond_end: Errno,
}

/// The commands. Flags, needs and errors: proto.md, "Request types" and "Error values".
pub const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        code: wire::CMD_READ,
        name: "READ",
        flags: wire::CMD_FLAG_DF,
        requires: ExportFlags::NONE,
        writes: false,
        payload: true,
        beyond_end: Errno::Invalid,
    },
    CommandSpec {
        code: wire::CMD_WRITE,
        name: "WRITE",
        flags: 0,
        requires: ExportFlags::NONE,
        writes: true,
        payload: true,
        beyond_end: Errno::NoSpace,
    },
    CommandSpec {
        code: wire::CMD_FLUSH,
        name: "FLUSH",
        flags: 0,
        requires: ExportFlags::SEND_FLUSH,
        writes: false,
        payload: false,
        beyond_end: Errno::Invalid,
    },
    CommandSpec {
        code: wire::CMD_TRIM,
        name: "TRIM",
        flags: 0,
        requires: ExportFlags::SEND_TRIM,
        writes: true,
        payload: false,
        beyond_end: Errno::Invalid,
    },
    CommandSpec {
        code: wire::CMD_CACHE,
        name: "CACHE",
        flags: 0,
        requires: ExportFlags::SEND_CACHE,
        writes: false,
        payload: false,
        beyond_end: Errno::Invalid,
    },
    CommandSpec {
        code: wire::CMD_WRITE_ZEROES,
        name: "WRITE_ZEROES",
        flags: wire::CMD_FLAG_NO_HOLE | wire::CMD_FLAG_FAST_ZERO,
        requires: ExportFlags::SEND_WRITE_ZEROES,
        writes: true,
        payload: false,
        beyond_end: Errno::NoSpace,
    },
    CommandSpec {
        code: wire::CMD_BLOCK_STATUS,
        name: "BLOCK_STATUS",
        flags: wire::CMD_FLAG_REQ_ONE,
        requires: ExportFlags::NONE,
        writes: false,
        payload: false,
        beyond_end: Errno::Invalid,
    },
];

impl CommandSpec {
    /// The row of a code on the wire; `None` for DISC and unknown codes.
    pub fn of(code: u16) -> Option<&'static CommandSpec> {
        COMMANDS.iter().find(|spec| spec.code == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_row() {
        for code in 0..=u16::MAX {
            let rows = COMMANDS.iter().filter(|spec| spec.code == code).count();
            assert_eq!(rows, usize::from(code <= 7 && code != wire::CMD_DISC), "code {code}");
        }
    }

    #[test]
    fn a_command_says_its_flags_and_range() {
        let zeroes = NbdCommand::WriteZeroes {
            offset: 512,
            length: 1024,
            fua: true,
            no_hole: true,
            fast: true,
        };
        assert_eq!(zeroes.flags(), 0b10011);
        assert_eq!(zeroes.range(), (512, 1024));
        assert_eq!(zeroes.spec().name, "WRITE_ZEROES");
        let write =
            NbdCommand::Write { offset: 7, payload: Bytes::from_static(b"abc"), fua: false };
        assert_eq!((write.flags(), write.range()), (0, (7, 3)));
        assert_eq!(NbdCommand::Flush.range(), (0, 0));
    }
}
