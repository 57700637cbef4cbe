//! A drive's bytes in a file, or in several where one file cannot be as long as the drive (ext4
//! ends at 16 TiB).
//!
//! Everything here blocks, so the engine calls it on worker threads only. Each operation is carried
//! through to the last byte or ends in the system's error code.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use headtime_sched::Op;
use rustix::fs::{FallocateFlags, FileType, SeekFrom, fallocate, fdatasync, fstat, seek};
use rustix::io::{Errno, IoSlice, ReadWriteFlags, pread, pwritev2};

use crate::backend::BackendCommand;
use crate::buffer::{AlignedBuffer, PageCache, join};
use crate::sys::ZERO_CHUNK;

/// Files that together hold a drive's bytes.
#[derive(Debug)]
pub(crate) struct Store {
    /// Each of `segment_bytes`, the last of what remains.
    segments: Vec<OwnedFd>,
    segment_bytes: u64,
    sector_bytes: u64,
    /// Direct I/O needs page-aligned buffers.
    cache: PageCache,
    /// The file is a block device, which has its own discard.
    device: bool,
}

impl Store {
    /// A drive in one file.
    pub(crate) fn single(file: OwnedFd, sector_bytes: u64, cache: PageCache) -> Self {
        Self { segments: vec![file], segment_bytes: u64::MAX, sector_bytes, cache, device: false }
    }

    /// A drive that is a block device.
    pub(crate) fn on_device(device: OwnedFd, sector_bytes: u64, cache: PageCache) -> Self {
        Self { device: true, ..Self::single(device, sector_bytes, cache) }
    }

    /// A drive in files of `segment_bytes` each, the last of which may be shorter.
    pub(crate) fn segmented(files: Vec<OwnedFd>, segment_bytes: u64, sector_bytes: u64) -> Self {
        Self { segments: files, segment_bytes, sector_bytes, cache: PageCache::Use, device: false }
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.cache == PageCache::Bypass
    }

    /// Executes a command.
    ///
    /// # Errors
    /// The system's code for the first part that failed; of a write, parts before and after may
    /// have been written.
    pub(crate) fn carry_out(&self, work: BackendCommand) -> Result<Bytes, i32> {
        let BackendCommand { command, pieces } = work;
        let offset = command.extent.start.get() * self.sector_bytes;
        let len = command.extent.len.get() * self.sector_bytes;
        let outcome = match command.op {
            Op::Read => self.read(offset, len),
            Op::Write => {
                self.write(offset, &join(pieces, self.cache), command.fua).map(|()| Bytes::new())
            }
            Op::Zero => self.zero(offset, len, command.fua).map(|()| Bytes::new()),
            Op::Discard => self.discard(offset, len, command.fua).map(|()| Bytes::new()),
            Op::Flush => self.sync().map(|()| Bytes::new()),
        };
        outcome.map_err(Errno::raw_os_error)
    }

    /// Makes all written data durable. Fails for a removed file, whose data ends with this process.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        for segment in &self.segments {
            still_there(segment.as_fd())?;
            fdatasync(segment)?;
        }
        Ok(())
    }

    fn read(&self, offset: u64, len: u64) -> Result<Bytes, Errno> {
        if !self.is_direct() && len <= NOTHING.len() as u64 && self.is_hole(offset, len)? {
            return Ok(Bytes::from_static(&NOTHING[..len as usize]));
        }
        let mut buffer = AlignedBuffer::zeroed(len as usize);
        let mut rest = buffer.as_mut_slice();
        self.each_segment(offset, len, |file, offset, len| {
            let (mut part, later) = std::mem::take(&mut rest).split_at_mut(len as usize);
            rest = later;
            let mut at = offset;
            while !part.is_empty() {
                let got = retry(|| pread(file, &mut *part, at))?;
                if got == 0 {
                    // The file ends before the drive does: it was cut off after it had been opened.
                    return Err(Errno::IO);
                }
                at += got as u64;
                part = &mut part[got..];
            }
            Ok(())
        })?;
        Ok(buffer.into_bytes())
    }

    /// Returns true if the range was never written, like most of an emulated drive. A read of a
    /// hole allocates page cache, which on a virtual machine may take tens of milliseconds for a
    /// mebibyte.
    fn is_hole(&self, offset: u64, len: u64) -> Result<bool, Errno> {
        let mut hole = true;
        self.each_segment(offset, len, |file, offset, len| {
            hole &= match seek(file, SeekFrom::Data(offset)) {
                Ok(data) => data >= offset + len,
                // No data from there to the end, or the end lies before: then reading says what is
                // wrong.
                Err(Errno::NXIO) => {
                    u64::try_from(fstat(file)?.st_size).is_ok_and(|size| offset + len <= size)
                }
                Err(_) => false,
            };
            Ok(())
        })?;
        Ok(hole)
    }

    fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), Errno> {
        let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let mut rest = data;
        self.each_segment(offset, data.len() as u64, |file, offset, len| {
            reaches(file, offset + len)?;
            let (mut part, later) = rest.split_at(len as usize);
            rest = later;
            let mut at = offset;
            while !part.is_empty() {
                let done = retry(|| pwritev2(file, &[IoSlice::new(part)], at, flags))?;
                if done == 0 {
                    return Err(Errno::IO);
                }
                at += done as u64;
                part = &part[done..];
            }
            Ok(())
        })
    }

    fn zero(&self, offset: u64, len: u64, durable: bool) -> Result<(), Errno> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match self.each_segment(offset, len, |file, offset, len| {
            retry(|| fallocate(file, hole, offset, len))
        }) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let zeroes = AlignedBuffer::zeroed(len.min(ZERO_CHUNK) as usize);
                let mut done = 0;
                while done < len {
                    let chunk = &zeroes.as_slice()[..(len - done).min(ZERO_CHUNK) as usize];
                    self.write(offset + done, chunk, durable)?;
                    done += chunk.len() as u64;
                }
                return Ok(());
            }
            outcome => outcome?,
        }
        if durable { self.sync() } else { Ok(()) }
    }

    fn discard(&self, offset: u64, len: u64, durable: bool) -> Result<(), Errno> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let forget = |file: BorrowedFd<'_>, offset, len| {
            retry(|| {
                if self.device {
                    crate::sys::discard(file, offset, len)
                } else {
                    fallocate(file, hole, offset, len)
                }
            })
        };
        match self.each_segment(offset, len, forget) {
            // The content of discarded sectors is undefined, so a file system without holes may
            // keep them.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            outcome => outcome,
        }?;
        if durable { self.sync() } else { Ok(()) }
    }

    /// Calls `part` with file, offset in it and length for each file that the range touches.
    fn each_segment(
        &self,
        offset: u64,
        len: u64,
        mut part: impl FnMut(BorrowedFd<'_>, u64, u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (mut offset, mut left) = (offset, len);
        while left > 0 {
            let segment = usize::try_from(offset / self.segment_bytes)
                .ok()
                .and_then(|index| self.segments.get(index));
            let segment =
                segment.expect("requests are checked against the capacity, which the files cover");
            let within = offset % self.segment_bytes;
            let here = left.min(self.segment_bytes - within);
            part(segment.as_fd(), within, here)?;
            offset += here;
            left -= here;
        }
        Ok(())
    }
}

/// Fails when the file has no name any more. The bytes of a block device do not lie in its node,
/// which may go before the device does.
pub(crate) fn still_there(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let status = fstat(file)?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if is_file && status.st_nlink == 0 { Err(Errno::NOENT) } else { Ok(()) }
}

/// Fails when the file ends before `end`: it was cut off while in use, and a write would extend it
/// again, with zeroes in place of the lost bytes.
pub(crate) fn reaches(file: BorrowedFd<'_>, end: u64) -> Result<(), Errno> {
    let status = fstat(file)?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if is_file && (status.st_size as u64) < end { Err(Errno::IO) } else { Ok(()) }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// The content of a hole; the longest piece that a server makes of a request.
pub(crate) static NOTHING: [u8; 1 << 20] = [0; 1 << 20];
