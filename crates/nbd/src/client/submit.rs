//! Requests out: checked against what the server offers, its constraints and the limits, then
//! written.

use crate::command::NbdCommand;
use crate::export::ExportFlags;
use crate::limits::EXTENT_BYTES;
use crate::wire;

use super::assembly::Assembly;
use super::flight::Pending;
use super::{ClientSubmitError, Connection, Cookie, Phase};

impl Connection {
    /// Sends a request. Its completion is [`super::ClientEvent::Completed`] with this id.
    ///
    /// # Errors
    /// [`ClientSubmitError`] when the request breaks the export's constraints or the limits; then
    /// nothing was sent.
    pub fn submit(&mut self, command: NbdCommand) -> Result<Cookie, ClientSubmitError> {
        if self.leaving || !matches!(self.phase, Phase::Transmission(_)) {
            return Err(ClientSubmitError::NotOpen);
        }
        let charge = self.check(&command)?;
        let (offset, length) = command.range();
        let length = u32::try_from(length).expect("check has bounded the length");
        let id = self.flight.enter(Pending {
            code: command.code(),
            offset,
            length,
            single: matches!(command, NbdCommand::BlockStatus { single: true, .. }),
            charge,
            assembly: Assembly::new(length),
            extents: None,
            error: None,
        });
        self.put_request(command.flags(), command.code(), id.0, offset, length);
        if let NbdCommand::Write { payload, .. } = command {
            self.outbox.put_shared(payload);
        }
        Ok(id)
    }

    /// Checks if the request may be sent; returns the bytes it is charged.
    fn check(&self, command: &NbdCommand) -> Result<u64, ClientSubmitError> {
        let session = self.session.as_ref().ok_or(ClientSubmitError::NotOpen)?;
        let (spec, export, flags) = (command.spec(), &session.export, session.export.flags);
        let (offset, length) = command.range();
        let name = spec.name;
        if spec.writes && flags.contains(ExportFlags::READ_ONLY) {
            return Err(ClientSubmitError::ReadOnly { command: name });
        }
        if !flags.contains(spec.requires) {
            return Err(ClientSubmitError::NotOffered { command: name });
        }
        if spec.code == wire::CMD_BLOCK_STATUS && !session.allocation_context {
            return Err(ClientSubmitError::NoContext);
        }
        for (bit, needs, flag) in [
            (wire::CMD_FLAG_FUA, ExportFlags::SEND_FUA, "FUA"),
            (wire::CMD_FLAG_DF, ExportFlags::SEND_DF, "DF"),
            (wire::CMD_FLAG_FAST_ZERO, ExportFlags::SEND_FAST_ZERO, "FAST_ZERO"),
        ] {
            if command.flags() & bit != 0 && !flags.contains(needs) {
                return Err(ClientSubmitError::FlagNotOffered { flag });
            }
        }
        if spec.code != wire::CMD_FLUSH {
            let (size, minimum) = (export.size_bytes, export.block_sizes.minimum);
            if length == 0 {
                return Err(ClientSubmitError::Empty { command: name });
            }
            if command.check_end(size).is_err() {
                return Err(ClientSubmitError::BeyondEnd { command: name, offset, length, size });
            }
            if offset % u64::from(minimum) != 0 || length % u64::from(minimum) != 0 {
                return Err(ClientSubmitError::Unaligned {
                    command: name,
                    offset,
                    length,
                    minimum,
                });
            }
            let max = if spec.payload { self.max_payload_bytes() } else { u32::MAX };
            if length > u64::from(max) {
                return Err(ClientSubmitError::TooLong { command: name, length, max });
            }
        }
        self.check_room(spec.code, length)
    }

    fn check_room(&self, code: u16, length: u64) -> Result<u64, ClientSubmitError> {
        let (count, max) = (self.limits.max_in_flight, self.limits.max_in_flight_bytes);
        let charge = match code {
            wire::CMD_READ | wire::CMD_WRITE => length,
            wire::CMD_BLOCK_STATUS => u64::from(self.limits.max_extents) * EXTENT_BYTES as u64,
            _ => 0,
        };
        let unsent_headers = u64::from(count) * wire::REQUEST_HEADER_BYTES as u64;
        let unsent = self.outbox.len();
        if self.flight.len() >= count as usize {
            return Err(ClientSubmitError::TooMany { max: count });
        }
        // A server may answer a WRITE before it has received the payload, so unsent bytes are
        // counted separately.
        let payload = if code == wire::CMD_WRITE { length } else { 0 };
        if self.flight.charged() + charge > max || unsent + payload > max + unsent_headers {
            let in_flight = self.flight.charged().max(unsent);
            return Err(ClientSubmitError::TooManyBytes { in_flight, additional: charge, max });
        }
        Ok(charge)
    }

    pub(super) fn put_request(
        &mut self,
        flags: u16,
        code: u16,
        cookie: u64,
        offset: u64,
        length: u32,
    ) {
        self.outbox.put(&wire::REQUEST_MAGIC.to_be_bytes());
        self.outbox.put(&flags.to_be_bytes());
        self.outbox.put(&code.to_be_bytes());
        self.outbox.put(&cookie.to_be_bytes());
        self.outbox.put(&offset.to_be_bytes());
        self.outbox.put(&length.to_be_bytes());
    }
}
