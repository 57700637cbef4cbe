//! The handshake: TLS, export lists, and opening of an export. Requests on an open export go to
//! [`super::requests`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use headtime_nbd::server::{CloseReason, ExportRefusal, ServerEvent};

use super::{ConnectionTask, End, Phase};
use crate::arrivals::Arrival;

impl ConnectionTask {
    /// Processes events, after a read those of the first half of it: the client prepares its next
    /// requests as soon as it has the replies. Returns whether there may be more.
    pub(super) fn take_events(&mut self) -> bool {
        let mut more = false;
        while !self.gone
            && !more
            && let Some(event) = self.machine.poll_event()
        {
            if self.first_half > 0 && self.machine.unparsed_bytes() <= self.first_half {
                self.first_half = 0;
                more = true;
            }
            match event {
                ServerEvent::ListExports => {
                    let list = self.shared.exports.list(|export| self.access.sees(&export.name));
                    self.machine.answer_list(&list).expect(
                        "the client requested a list, and names were checked when the exports were \
                            made",
                    );
                }
                ServerEvent::LookupExport { name, .. } => self.look_up(&name),
                ServerEvent::Opened(_) => {
                    let (export, export_permit) =
                        self.named.take().expect("an export is opened that was looked up");
                    if !self.arrival.take().is_some_and(Arrival::stays) {
                        self.end = Some(End::MadeRoom);
                        self.client_gone();
                        break;
                    }
                    self.export_permit = Some(export_permit);
                    export.stats.opened();
                    self.removal = Some(export.volume.removal());
                    self.releases = Some(export.volume.releases());
                    self.allowance.open(self.shared.pool.join(export.tenant()));
                    self.piece_permits = Some(self.shared.piece_permits.join(export.tenant()));
                    self.export = Some(export);
                }
                ServerEvent::StartTls => self.tls_requested = true,
                ServerEvent::Request { handle, command } => self.begin(handle, command),
                ServerEvent::Closed(reason) => self.closed(reason),
            }
        }
        more
    }

    /// Starts TLS once it is requested and all earlier output is sent, and continues its handshake.
    pub(super) fn continue_tls(&mut self) -> Result<(), End> {
        let wrong = |error: String| End::Tls(error);
        if self.tls_requested && !self.gone && self.machine.output_bytes() == 0 {
            self.tls_requested = false;
            let tls = self
                .shared
                .tls
                .as_ref()
                .ok_or_else(|| wrong("there is no certificate".to_owned()))?;
            self.channel.start_tls(tls.in_force()).map_err(|error| wrong(error.to_string()))?;
        }
        if self.gone
            || !self.channel.is_shaking_hands()
            || !self.channel.shake_hands().map_err(wrong)?
        {
            return Ok(());
        }
        self.access = self.shared.permissions.of(self.channel.client_certificate());
        self.machine
            .tls_started()
            .expect("the client requested TLS, and all earlier output is sent");
        Ok(())
    }

    fn look_up(&mut self, name: &str) {
        let draining = *self.shared.phase.borrow() != Phase::Running;
        let found = if draining {
            Err(ExportRefusal::ShuttingDown)
        } else {
            self.shared.exports.find(name, |export| self.access.sees(&export.name))
        };
        // An export that was named before and not opened loses its permit.
        self.named = None;
        let found = found.and_then(|export| {
            let export_permit =
                self.shared.export_permits.join(export.tenant()).try_take(1).ok_or_else(|| {
                    let refused = &self.shared.exports.refusals.connections;
                    refused.fetch_add(1, Ordering::Relaxed);
                    ExportRefusal::Policy(CROWDED.to_owned())
                })?;
            self.named = Some((Arc::clone(&export), export_permit));
            Ok(export)
        });
        let answer = found.map(|export| export.info());
        self.machine
            .answer_export(answer)
            .expect("the client named an export, and its description was checked when it was made");
    }

    fn closed(&mut self, reason: CloseReason) {
        self.end.get_or_insert(End::Protocol(reason));
        self.cancel_reads();
    }
}

/// The answer to a client if the export has too many connections.
const CROWDED: &str = "the export has its maximum number of connections, because the rest is \
    reserved for other exports; close some, or raise connections";
