//! [`TrialDisk`]: a drive as a start would find it. Writes stay in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use headtime_io::{Io, IoDone, IoError, SubmitError};
use headtime_sched::{Op, RequestId};
use parking_lot::Mutex;

use crate::disk::{Disk, OnDone};
use crate::volumes::DriveShape;

/// The content of a drive that is not opened, with what was written to it for a trial.
pub(super) struct TrialDisk {
    pub(super) shape: DriveShape,
    /// The drive, whose bytes are those of the file; `None` for one without content.
    content: Option<File>,
    /// The written sectors.
    written: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl TrialDisk {
    pub(super) fn new(shape: DriveShape, content: Option<File>) -> Self {
        Self { shape, content, written: Mutex::default() }
    }

    fn read(&self, first: u64, sectors: u64) -> io::Result<Vec<u8>> {
        let sector = self.shape.sector.bytes() as usize;
        let mut bytes = vec![0; sectors as usize * sector];
        if let Some(file) = &self.content {
            let start = first * sector as u64;
            let mut done = 0;
            // A sparse file may be shorter than its drive.
            while done < bytes.len() {
                match file.read_at(&mut bytes[done..], start + done as u64)? {
                    0 => break,
                    read => done += read,
                }
            }
        }
        let written = self.written.lock();
        for (number, content) in written.range(first..first + sectors) {
            let from = (number - first) as usize * sector;
            bytes[from..from + sector].copy_from_slice(content);
        }
        Ok(bytes)
    }

    fn write(&self, first: u64, bytes: &[u8]) {
        let sectors = bytes.chunks(self.shape.sector.bytes() as usize);
        let mut written = self.written.lock();
        written.extend((first..).zip(sectors.map(<[u8]>::to_vec)));
    }
}

impl Disk for TrialDisk {
    fn shape(&self) -> DriveShape {
        self.shape
    }

    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        let (op, extent) = (io.op, io.extent);
        let first = extent.start.get();
        let result = match op {
            Op::Read => self.read(first, extent.len.get()).map(Into::into).map_err(|error| {
                let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
                IoError::Os { op, extent, errno }
            }),
            Op::Write => {
                self.write(first, &io.data);
                Ok(Default::default())
            }
            _ => Ok(Default::default()),
        };
        on_done(IoDone { finished: None, result });
        Ok(RequestId(0))
    }

    fn cancel(&self, _id: RequestId) {}
}
