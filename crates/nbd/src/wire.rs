//! The protocol's numbers, and reading them from bytes.
//!
//! Every constant is as in `doc/proto.md` (NetworkBlockDevice/nbd), without the prefix `NBD_`. All
//! integers on the wire are unsigned and big-endian. The tables give text for messages only.

/// First eight bytes of every server: ASCII `NBDMAGIC`.
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle server and start of every option: ASCII `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Second eight bytes of an oldstyle server, which is not supported.
pub const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Start of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of every request in the transmission phase.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a server's greeting: two magics, handshake flags.
pub const GREETING_BYTES: usize = 18;
/// Bytes of an option's header: magic, option, length.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of an option reply's header: magic, option, type, length.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Bytes of a request's header: magic, flags, type, cookie, offset, length.
pub const REQUEST_HEADER_BYTES: usize = 28;
/// Bytes of a simple reply's header: magic, error, cookie.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a structured reply chunk's header: magic, flags, type, cookie, length.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Zero bytes after the answer to EXPORT_NAME unless both sides agreed to leave them out.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;
/// Longest string the protocol allows (names, messages), in bytes.
pub const MAX_STRING_BYTES: usize = 4096;

/// Handshake flag (server, 16 bits) and client flag (32 bits): fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// Handshake flag (server, 16 bits) and client flag (32 bits): no padding after EXPORT_NAME.
pub const FLAG_NO_ZEROES: u16 = 2;

/// Option: choose an export, end of haggling, no error reply possible.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: name the exports.
pub const OPT_LIST: u32 = 3;
/// Option: go over to TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and enter transmission.
pub const OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: name the metadata contexts of an export.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Option: 64-bit headers (not supported).
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Option reply: accepted, or end of a list.
pub const REP_ACK: u32 = 1;
/// Option reply: one export of a list.
pub const REP_SERVER: u32 = 2;
/// Option reply: one piece of information about an export.
pub const REP_INFO: u32 = 3;
/// Option reply: one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Bit that marks an option reply as an error.
pub const REP_ERROR_BIT: u32 = 1 << 31;
/// Option reply: the option is not known.
pub const REP_ERR_UNSUP: u32 = REP_ERROR_BIT | 1;
/// Option reply: known, but forbidden by the server's policy.
pub const REP_ERR_POLICY: u32 = REP_ERROR_BIT | 2;
/// Option reply: malformed or out of place.
pub const REP_ERR_INVALID: u32 = REP_ERROR_BIT | 3;
/// Option reply: not on this platform.
pub const REP_ERR_PLATFORM: u32 = REP_ERROR_BIT | 4;
/// Option reply: only after STARTTLS.
pub const REP_ERR_TLS_REQD: u32 = REP_ERROR_BIT | 5;
/// Option reply: no such export.
pub const REP_ERR_UNKNOWN: u32 = REP_ERROR_BIT | 6;
/// Option reply: the server is going down.
pub const REP_ERR_SHUTDOWN: u32 = REP_ERROR_BIT | 7;
/// Option reply: the client has to ask for block sizes first.
pub const REP_ERR_BLOCK_SIZE_REQD: u32 = REP_ERROR_BIT | 8;
/// Option reply: request or reply too large.
pub const REP_ERR_TOO_BIG: u32 = REP_ERROR_BIT | 9;

/// Information type: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Information type: the canonical name.
pub const INFO_NAME: u16 = 1;
/// Information type: a description for people.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information type: minimum, preferred block, maximum payload.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write; the only one followed by a payload.
pub const CMD_WRITE: u16 = 1;
/// Command: end of the session, no reply.
pub const CMD_DISC: u16 = 2;
/// Command: make completed writes durable.
pub const CMD_FLUSH: u16 = 3;
/// Command: the range is no longer needed.
pub const CMD_TRIM: u16 = 4;
/// Command: the range will be read soon.
pub const CMD_CACHE: u16 = 5;
/// Command: write zeroes without a payload.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command: extents of the selected metadata contexts.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// Command flag: durable before the reply.
pub const CMD_FLAG_FUA: u16 = 1;
/// Command flag of WRITE_ZEROES: provision, do not punch a hole.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of READ: one content chunk at most.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag of BLOCK_STATUS: one extent.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag of WRITE_ZEROES: fail with ENOTSUP rather than be slow.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// Chunk flag: last of its reply.
pub const REPLY_FLAG_DONE: u16 = 1;
/// Chunk type: no content.
pub const REPLY_TYPE_NONE: u16 = 0;
/// Chunk type: offset and data.
pub const REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Chunk type: offset and length of zeroes.
pub const REPLY_TYPE_OFFSET_HOLE: u16 = 2;
/// Chunk type: context id and extents.
pub const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Bit that marks a chunk type as an error.
pub const REPLY_TYPE_ERROR_BIT: u16 = 1 << 15;
/// Chunk type: error and message.
pub const REPLY_TYPE_ERROR: u16 = REPLY_TYPE_ERROR_BIT | 1;
/// Chunk type: error, message and the offset it happened at.
pub const REPLY_TYPE_ERROR_OFFSET: u16 = REPLY_TYPE_ERROR_BIT | 2;

/// The namespace this crate knows, as a wildcard query.
pub const BASE_NAMESPACE: &str = "base:";
/// The one metadata context this crate knows.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// Option codes and their names in the protocol document.
pub const OPTIONS: &[(u32, &str)] = &[
    (OPT_EXPORT_NAME, "EXPORT_NAME"),
    (OPT_ABORT, "ABORT"),
    (OPT_LIST, "LIST"),
    (OPT_STARTTLS, "STARTTLS"),
    (OPT_INFO, "INFO"),
    (OPT_GO, "GO"),
    (OPT_STRUCTURED_REPLY, "STRUCTURED_REPLY"),
    (OPT_LIST_META_CONTEXT, "LIST_META_CONTEXT"),
    (OPT_SET_META_CONTEXT, "SET_META_CONTEXT"),
    (OPT_EXTENDED_HEADERS, "EXTENDED_HEADERS"),
];

/// Error replies to options and what they mean.
const OPTION_ERRORS: &[(u32, &str)] = &[
    (REP_ERR_UNSUP, "not supported"),
    (REP_ERR_POLICY, "forbidden by the server's policy"),
    (REP_ERR_INVALID, "invalid"),
    (REP_ERR_PLATFORM, "not available on the server's platform"),
    (REP_ERR_TLS_REQD, "only allowed over TLS"),
    (REP_ERR_UNKNOWN, "no such export"),
    (REP_ERR_SHUTDOWN, "the server is shutting down"),
    (REP_ERR_BLOCK_SIZE_REQD, "block sizes must be asked for first"),
    (REP_ERR_TOO_BIG, "too big"),
];

/// The name of option `code`, or `"unknown option"`.
pub fn option_name(code: u32) -> &'static str {
    text_of(OPTIONS, code, "unknown option")
}

/// The meaning of the error reply `code` to an option, or `"unknown error"`.
pub fn option_error_text(code: u32) -> &'static str {
    text_of(OPTION_ERRORS, code, "unknown error")
}

fn text_of(table: &[(u32, &'static str)], code: u32, otherwise: &'static str) -> &'static str {
    table.iter().find(|(known, _)| *known == code).map_or(otherwise, |(_, text)| text)
}

/// Takes big-endian integers and byte strings off the front of a slice; every method is `None` past
/// the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string of `count` bytes as the protocol means it: UTF-8, no NUL, at most
    /// [`MAX_STRING_BYTES`].
    pub(crate) fn string(&mut self, count: usize) -> Option<&'a str> {
        if count > MAX_STRING_BYTES {
            return None;
        }
        let text = core::str::from_utf8(self.bytes(count)?).ok()?;
        (!text.contains('\0')).then_some(text)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The longest start of `text` that fits in `limit` bytes without cutting a character.
pub(crate) fn truncate(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Fixed-size headers, read by position. Panics when `raw` is shorter than the header, which the
/// caller has checked by its type.
pub(crate) fn be_u16(raw: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([raw[at], raw[at + 1]])
}

pub(crate) fn be_u32(raw: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

pub(crate) fn be_u64(raw: &[u8], at: usize) -> u64 {
    (u64::from(be_u32(raw, at)) << 32) | u64::from(be_u32(raw, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_magics_spell_what_they_should() {
        assert_eq!(&NBD_MAGIC.to_be_bytes(), b"NBDMAGIC");
        assert_eq!(&OPTION_MAGIC.to_be_bytes(), b"IHAVEOPT");
    }

    #[test]
    fn a_reader_stops_at_the_end_and_refuses_what_is_no_string() {
        let mut reader = Reader(&[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(reader.u16(), Some(1));
        assert_eq!(reader.u32(), Some(0x0203_0405));
        assert_eq!(reader.u16(), None);
        assert_eq!(reader.bytes(1), Some(&[6_u8][..]));
        assert!(reader.is_empty());
        assert_eq!(Reader(b"a\0b").string(3), None);
        assert_eq!(Reader(&[0xff, 0xfe]).string(2), None);
        assert_eq!(Reader(&[b'x'; 5000]).string(4097), None);
        assert_eq!(Reader(&[b'x'; 5000]).string(4096).map(str::len), Some(4096));
    }

    #[test]
    fn positional_reads_are_big_endian() {
        let raw = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(be_u16(&raw, 1), 0x0203);
        assert_eq!(be_u32(&raw, 1), 0x0203_0405);
        assert_eq!(be_u64(&raw, 1), 0x0203_0405_0607_0809);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(truncate("aéb", 2), "a");
        assert_eq!(truncate("aéb", 3), "aé");
        assert_eq!(truncate("aéb", 99), "aéb");
    }

    #[test]
    fn unknown_codes_have_a_text() {
        assert_eq!(option_name(7), "GO");
        assert_eq!(option_name(4), "unknown option");
        assert_eq!(option_error_text(REP_ERR_UNKNOWN), "no such export");
        assert_eq!(option_error_text(7), "unknown error");
    }
}
