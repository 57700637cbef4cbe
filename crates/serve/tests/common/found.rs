//! The content of a drive after a power cut, as a drive that completes at once and writes through.

use std::sync::Mutex;

use bytes::Bytes;
use headtime_io::{Io, IoDone, IoError, SubmitError};
use headtime_sched::{Op, RequestId};
use headtime_serve::volumes::DriveShape;
use headtime_serve::{Disk, OnDone};
use headtime_testkit::power_cut::Platter;

/// A platter without an engine, for reading and repairing a table of volumes.
pub(crate) struct Found(pub Mutex<Platter>);

impl Found {
    pub(crate) fn new(platter: Platter) -> Self {
        Self(Mutex::new(platter))
    }
}

impl Disk for Found {
    fn shape(&self) -> DriveShape {
        let platter = self.0.lock().expect("nobody panics with it");
        DriveShape { sector: platter.sector_size(), capacity: platter.capacity() }
    }

    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        let mut platter = self.0.lock().expect("nobody panics with it");
        let result = match io.op {
            Op::Read => platter.read(io.extent).map_err(|_| IoError::Os {
                op: io.op,
                extent: io.extent,
                errno: 5,
            }),
            Op::Write => {
                platter.write(io.extent, &io.data);
                Ok(Bytes::new())
            }
            Op::Flush => Ok(Bytes::new()),
            other => panic!("a table needs no {other:?}"),
        };
        drop(platter);
        on_done(IoDone { finished: None, result });
        Ok(RequestId(0))
    }

    fn cancel(&self, _id: RequestId) {}
}
