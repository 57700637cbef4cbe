//! The stream of a backup: records with their offsets, in the order in which the sectors came, and
//! an index.
//!
//! Every record begins with 32 bytes, little-endian:
//!
//! ```text
//! kind     4  "HTBH" header, "HTBD" data, "HTBZ" zeroes, "HTBU" unreadable,
//!             "HTBI" index, "HTBE" end
//! crc32c   4  over the rest of these 32 bytes and the payload
//! offset   8  byte of the volume (header: bytes of the volume; index and end: place of the
//!             previous index in the stream, 0 for none)
//! length   8  bytes there (header: bytes of a sector; index: entries; end: all records,
//!             without indexes and this one)
//! payload  8  bytes that follow
//! ```
//! The payload is the volume's name for a header, the bytes for data, and nothing for zeroes,
//! unreadable sectors and the end. After every 4,096 records, and before the end, comes an index:
//! 24 bytes for each record (offset, length, and its place in the stream). The end refers to the
//! last index, and each index to its predecessor, so that single sectors can be found without
//! reading a seekable stream completely. Unreadable sectors are also part of a data record, as
//! zeroes.
//!
//! A stream without its end is incomplete, and the data restored from it is no image of the volume.

use headtime_units::ByteSize;

/// Makes the records of a stream.
#[derive(Debug)]
pub struct RecordWriter {
    target: String,
    bytes: u64,
    sector_bytes: u32,
    /// Bytes of the stream so far.
    position: u64,
    records: u64,
    last_index: u64,
    /// Offset, length and place in the stream of the records since the last index.
    entries: Vec<[u64; 3]>,
}

/// A record that a reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupRecord {
    /// The first record.
    Header {
        /// The volume's name.
        target: String,
        /// Its size in bytes.
        bytes: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// Data of the volume at an offset.
    Data {
        /// The offset.
        offset: u64,
        /// The data.
        bytes: Vec<u8>,
    },
    /// Zeroes.
    Zeroes {
        /// The offset.
        offset: u64,
        /// The number of bytes.
        len: u64,
    },
    /// Bytes that could not be read when the backup was made.
    Unreadable {
        /// The offset.
        offset: u64,
        /// The number of bytes.
        len: u64,
    },
    /// An index, for random access.
    Index,
    /// The last record: the stream is complete.
    End,
}

/// The reason why a stream is no complete backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum RecordError {
    /// It is something else, or it begins in the middle.
    #[error(
        "byte {position} of the stream is the beginning of no record; it is no stream of a backup, \
            or bytes of it are lost"
    )]
    NoRecord { position: u64 },
    /// Something was changed in transit.
    #[error(
        "the record at byte {position} of the stream is damaged: {what}; take another copy of the \
            stream"
    )]
    Damaged { position: u64, what: &'static str },
    /// There is data after the end.
    #[error(
        "there are bytes behind the end of the backup, from byte {position} of the stream on; cut \
            them off if they do not belong to it"
    )]
    AfterEnd { position: u64 },
}

/// Reads a stream, in any pieces.
#[derive(Debug, Default)]
pub struct RecordReader {
    /// Bytes of an incomplete record, and what came with its last byte.
    held: Vec<u8>,
    position: u64,
    /// The volume's size in bytes, after the header.
    bytes: Option<u64>,
    records: u64,
    ended: bool,
}

impl RecordWriter {
    /// The stream of a volume of `bytes` bytes.
    #[must_use]
    pub fn new(target: &str, bytes: u64, sector_bytes: u32) -> Self {
        Self {
            target: target.to_owned(),
            bytes,
            sector_bytes,
            position: 0,
            records: 0,
            last_index: 0,
            entries: Vec::new(),
        }
    }

    /// The header.
    pub fn begin(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let target = self.target.clone();
        self.put(&mut out, HEADER, self.bytes, u64::from(self.sector_bytes), target.as_bytes());
        out
    }

    /// Data of the volume at `offset`.
    pub fn piece(&mut self, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + bytes.len());
        let zero = bytes.iter().all(|byte| *byte == 0);
        let (kind, payload) = if zero { (ZEROES, &[][..]) } else { (DATA, bytes) };
        self.counted(&mut out, kind, offset, bytes.len() as u64, payload);
        out
    }

    /// Bytes that could not be read; they are also part of a piece, as zeroes.
    pub fn unreadable(&mut self, offset: u64, len: u64) -> Vec<u8> {
        let mut out = Vec::new();
        self.counted(&mut out, UNREADABLE, offset, len, &[]);
        out
    }

    /// The last index and the end.
    pub fn end(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.entries.is_empty() {
            self.put_index(&mut out);
        }
        let (index, records) = (self.last_index, self.records);
        self.put(&mut out, END, index, records, &[]);
        out
    }

    fn counted(&mut self, out: &mut Vec<u8>, kind: [u8; 4], offset: u64, len: u64, payload: &[u8]) {
        self.entries.push([offset, len, self.position]);
        self.records += 1;
        self.put(out, kind, offset, len, payload);
        if self.entries.len() == INDEX_ENTRIES {
            self.put_index(out);
        }
    }

    fn put_index(&mut self, out: &mut Vec<u8>) {
        let entries = std::mem::take(&mut self.entries);
        let payload: Vec<u8> =
            entries.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        let at = self.position;
        let before = self.last_index;
        self.put(out, INDEX, before, entries.len() as u64, &payload);
        self.last_index = at;
    }

    fn put(&mut self, out: &mut Vec<u8>, kind: [u8; 4], offset: u64, len: u64, payload: &[u8]) {
        let mut numbers = [0; HEAD - 8];
        for (place, number) in numbers.chunks_exact_mut(8).zip([offset, len, payload.len() as u64])
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&numbers), payload);
        out.extend_from_slice(&kind);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&numbers);
        out.extend_from_slice(payload);
        self.position += (HEAD + payload.len()) as u64;
    }
}

impl RecordReader {
    /// Adds the next bytes of the stream; [`RecordReader::next`] returns their records.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next complete record; `None` until more bytes come.
    ///
    /// # Errors
    /// See [`RecordError`]; the rest of the stream cannot be read.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator that ends and goes on when it is fed would surprise"
    )]
    pub fn next(&mut self) -> Result<Option<BackupRecord>, RecordError> {
        let position = self.position;
        if self.ended && !self.held.is_empty() {
            return Err(RecordError::AfterEnd { position });
        }
        let Some((head, rest)) = self.held.split_first_chunk::<HEAD>() else { return Ok(None) };
        let number =
            |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().expect("eight bytes"));
        let (kind, offset, len, payload_len) =
            ([head[0], head[1], head[2], head[3]], number(8), number(16), number(24));
        let damaged = |what| RecordError::Damaged { position, what };
        if ![HEADER, DATA, ZEROES, UNREADABLE, INDEX, END].contains(&kind)
            || (kind == HEADER) != (position == 0)
        {
            return Err(RecordError::NoRecord { position });
        }
        if payload_len > MAX_PAYLOAD {
            return Err(damaged("it is longer than any record can be"));
        }
        let Some(payload) = rest.get(..payload_len as usize) else { return Ok(None) };
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head[8..]), payload);
        if crc.to_le_bytes() != head[4..8] {
            return Err(damaged("its checksum does not fit its content"));
        }
        let of_volume = || {
            let inside = offset.checked_add(len).is_some_and(|end| Some(end) <= self.bytes);
            if inside { Ok(()) } else { Err(damaged("it does not lie within the volume")) }
        };
        let record = match kind {
            HEADER => {
                let target = std::str::from_utf8(payload)
                    .map_err(|_| damaged("its name is not UTF-8"))?
                    .to_owned();
                let sector_bytes =
                    u32::try_from(len).map_err(|_| damaged("its sectors are too large"))?;
                self.bytes = Some(offset);
                BackupRecord::Header { target, bytes: offset, sector_bytes }
            }
            DATA if payload_len == len => {
                of_volume().map(|()| BackupRecord::Data { offset, bytes: payload.to_vec() })?
            }
            DATA => return Err(damaged("it has more or fewer bytes than it says")),
            ZEROES => of_volume().map(|()| BackupRecord::Zeroes { offset, len })?,
            UNREADABLE => of_volume().map(|()| BackupRecord::Unreadable { offset, len })?,
            INDEX => BackupRecord::Index,
            _ if len != self.records => return Err(damaged("records are missing before it")),
            _ => BackupRecord::End,
        };
        self.records += u64::from([DATA, ZEROES, UNREADABLE].contains(&kind));
        self.ended = record == BackupRecord::End;
        let used = HEAD + payload_len as usize;
        self.position += used as u64;
        self.held.drain(..used);
        Ok(Some(record))
    }

    /// True if the end was reached.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended && self.held.is_empty()
    }

    /// The length of the stream that has been read completely.
    #[must_use]
    pub fn position(&self) -> ByteSize {
        ByteSize::new(self.position)
    }
}

const HEADER: [u8; 4] = *b"HTBH";
const DATA: [u8; 4] = *b"HTBD";
const ZEROES: [u8; 4] = *b"HTBZ";
const UNREADABLE: [u8; 4] = *b"HTBU";
const INDEX: [u8; 4] = *b"HTBI";
const END: [u8; 4] = *b"HTBE";
/// Bytes before the payload.
const HEAD: usize = 32;
/// The number of records between two indexes: an index is 96 KiB, and the writer's memory is
/// bounded.
const INDEX_ENTRIES: usize = 4096;
/// The longest payload. Pieces are limited by the commands of the drive, which are far shorter.
const MAX_PAYLOAD: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A small stream and its records.
    fn stream() -> Vec<u8> {
        let mut writer = RecordWriter::new("vol0", 1 << 20, 512);
        let mut stream = writer.begin();
        stream.extend(writer.piece(4096, &[7; 1024]));
        stream.extend(writer.piece(0, &[0; 4096]));
        stream.extend(writer.unreadable(512, 512));
        stream.extend(writer.end());
        stream
    }

    fn read(stream: &[u8], step: usize) -> Result<Vec<BackupRecord>, RecordError> {
        let mut reader = RecordReader::default();
        let mut records = Vec::new();
        for piece in stream.chunks(step) {
            reader.feed(piece);
            while let Some(record) = reader.next()? {
                records.push(record);
            }
        }
        assert_eq!(reader.is_complete(), records.last() == Some(&BackupRecord::End));
        Ok(records)
    }

    #[test]
    fn what_was_written_is_read_back_in_whatever_pieces_it_comes() {
        let expected = vec![
            BackupRecord::Header { target: "vol0".into(), bytes: 1 << 20, sector_bytes: 512 },
            BackupRecord::Data { offset: 4096, bytes: vec![7; 1024] },
            BackupRecord::Zeroes { offset: 0, len: 4096 },
            BackupRecord::Unreadable { offset: 512, len: 512 },
            BackupRecord::Index,
            BackupRecord::End,
        ];
        for step in [1, 7, 100, 1 << 20] {
            assert_eq!(read(&stream(), step), Ok(expected.clone()));
        }
    }

    #[test]
    fn any_changed_byte_and_any_lost_record_is_noticed() {
        let whole = stream();
        for place in 0..whole.len() {
            let mut broken = whole.clone();
            broken[place] ^= 1;
            assert!(
                read(&broken, whole.len()).is_err()
                    || !matches!(
                        read(&broken, whole.len()),
                        Ok(records) if records.last() == Some(&BackupRecord::End)
                    ),
                "{place}"
            );
        }
        let second = HEAD + 4;
        let without_data: Vec<u8> = [&whole[..second], &whole[second + HEAD + 1024..]].concat();
        assert!(matches!(
            read(&without_data, 64),
            Err(RecordError::Damaged { what: "records are missing before it", .. })
        ));
        let cut = read(&whole[..whole.len() - 1], 64).expect("whole records");
        assert_ne!(cut.last(), Some(&BackupRecord::End));
    }

    #[test]
    fn indexes_are_chained_and_point_at_the_records() {
        let mut writer = RecordWriter::new("v", 1 << 30, 512);
        let mut stream = writer.begin();
        for piece in 0..10_000_u64 {
            stream.extend(writer.piece(piece * 512, &[1; 512]));
        }
        stream.extend(writer.end());
        let number =
            |at: usize| u64::from_le_bytes(stream[at..at + 8].try_into().expect("eight bytes"));
        let mut index = number(stream.len() - HEAD + 8) as usize;
        let mut found = 0;
        while index != 0 {
            assert_eq!(&stream[index..index + 4], b"HTBI");
            for entry in 0..number(index + 16) as usize {
                let at = index + HEAD + entry * 24;
                let record = number(at + 16) as usize;
                assert_eq!(
                    (&stream[record..record + 4], number(record + 8)),
                    (&b"HTBD"[..], number(at))
                );
                found += 1;
            }
            index = number(index + 8) as usize;
        }
        assert_eq!(found, 10_000);
    }
}
