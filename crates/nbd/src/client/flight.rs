//! The client's requests in flight and what has arrived of their answers.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::export::StatusExtent;
use crate::limits::EXTENT_BYTES;
use crate::wire;

use super::assembly::Assembly;
use super::{CloseReason, Cookie, RequestError};

/// Requests without a complete answer.
#[derive(Debug, Default)]
pub(super) struct Flight {
    open: BTreeMap<Cookie, Pending>,
    next: u64,
    charged: u64,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub code: u16,
    pub offset: u64,
    pub length: u32,
    pub single: bool,
    pub charge: u64,
    pub assembly: Assembly,
    pub extents: Option<Vec<StatusExtent>>,
    pub error: Option<RequestError>,
}

impl Flight {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    pub(super) fn held_bytes(&self) -> u64 {
        let extents = |pending: &Pending| {
            pending.extents.as_ref().map_or(0, |list| list.len() * EXTENT_BYTES) as u64
        };
        self.open.values().map(|pending| pending.assembly.held_bytes() + extents(pending)).sum()
    }

    /// Gives up the oldest request.
    pub(super) fn lose_one(&mut self) -> Option<Cookie> {
        let (id, pending) = self.open.pop_first()?;
        self.charged -= pending.charge;
        Some(id)
    }

    pub(super) fn enter(&mut self, pending: Pending) -> Cookie {
        let id = Cookie(self.next);
        self.next += 1;
        self.charged += pending.charge;
        self.open.insert(id, pending);
        id
    }

    pub(super) fn get(&mut self, id: Cookie) -> Result<&mut Pending, CloseReason> {
        self.open
            .get_mut(&id)
            .ok_or(CloseReason::Violation("a reply to a request that is not in flight"))
    }

    pub(super) fn close(&mut self, id: Cookie) -> Result<Pending, CloseReason> {
        self.get(id)?;
        let pending = self.open.remove(&id).expect("the request was just found");
        self.charged -= pending.charge;
        Ok(pending)
    }
}

impl Pending {
    /// Checks that a reply without an error is complete.
    pub(super) fn check_complete(&self) -> Result<(), CloseReason> {
        match self.code {
            _ if self.error.is_some() => Ok(()),
            wire::CMD_READ if !self.assembly.is_complete() => {
                Err(CloseReason::Violation("a read was called complete with bytes missing"))
            }
            wire::CMD_BLOCK_STATUS if self.extents.is_none() => {
                Err(CloseReason::Violation("a block status was called complete without extents"))
            }
            _ => Ok(()),
        }
    }

    /// The position of `offset` within the read, if `count` bytes from there lie within it.
    pub(super) fn distance(&self, offset: u64, count: u32) -> Result<u32, CloseReason> {
        let within = offset.checked_sub(self.offset).filter(|start| {
            start.checked_add(u64::from(count)).is_some_and(|end| end <= u64::from(self.length))
        });
        match within {
            // Below the read's length, which is a u32.
            Some(start) => Ok(start as u32),
            None => Err(CloseReason::Violation("a piece of a read that lies outside of it")),
        }
    }
}
