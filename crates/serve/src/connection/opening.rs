//! The way to an open export: what the machine reports until then, TLS, and which export a client
//! may have. What it reports afterwards is handed on to [`super::requests`].

use std::sync::Arc;

use headtime_nbd::server::{CloseReason, ExportRefusal, ServerEvent};

use super::{ConnectionTask, End, Phase};
use crate::arrivals::Arrival;

impl ConnectionTask {
    pub(super) fn take_events(&mut self) {
        if self.gone {
            return;
        }
        while let Some(event) = self.machine.poll_event() {
            match event {
                ServerEvent::ListExports => {
                    let list = self.hub.exports.list(|export| self.access.sees(&export.name));
                    self.machine.answer_list(&list).expect(
                        "a list was asked for, and names were checked when the exports were made",
                    );
                }
                ServerEvent::LookupExport { name, .. } => self.look_up(&name),
                ServerEvent::Opened(_) => {
                    let (export, door) =
                        self.named.take().expect("an export is opened that was looked up");
                    if !self.arrival.take().is_some_and(Arrival::stays) {
                        self.end = Some(End::MadeRoom);
                        return self.client_gone();
                    }
                    self.door = Some(door);
                    export.stats.opened();
                    self.removal = Some(export.volume.removal());
                    self.allowance.open(self.hub.pool.join(export.tenant()));
                    self.places = Some(self.hub.places.join(export.tenant()));
                    self.export = Some(export);
                }
                ServerEvent::StartTls => self.tls_wanted = true,
                ServerEvent::Request(request) => self.begin(request.handle, request.command),
                ServerEvent::Closed(reason) => self.closed(reason),
            }
        }
    }

    /// Begins TLS when it was asked for and everything before it has left, and goes on with its
    /// handshake.
    pub(super) fn go_over_to_tls(&mut self) -> Result<(), End> {
        let wrong = |error: String| End::Tls(error);
        if self.tls_wanted && !self.gone && self.machine.output_bytes() == 0 {
            self.tls_wanted = false;
            let tls =
                self.hub.tls.as_ref().ok_or_else(|| wrong("there is no certificate".to_owned()))?;
            self.channel.start_tls(tls.in_force()).map_err(|error| wrong(error.to_string()))?;
        }
        if self.gone
            || !self.channel.is_shaking_hands()
            || !self.channel.shake_hands().map_err(wrong)?
        {
            return Ok(());
        }
        self.access = self.hub.permissions.of(self.channel.client_certificate());
        self.machine.tls_started().expect("TLS was asked for, and everything before it has left");
        Ok(())
    }

    fn look_up(&mut self, name: &str) {
        let draining = *self.hub.phase.borrow() != Phase::Running;
        let found = if draining {
            Err(ExportRefusal::ShuttingDown)
        } else {
            self.hub.exports.find(name, |export| self.access.sees(&export.name))
        };
        // What was named before and not opened has its place no more.
        self.named = None;
        let found = found.and_then(|export| {
            let door = self
                .hub
                .doors
                .join(export.tenant())
                .try_take(1)
                .ok_or_else(|| ExportRefusal::Policy(CROWDED.to_owned()))?;
            self.named = Some((Arc::clone(&export), door));
            Ok(export)
        });
        let answer = found.map(|export| export.info());
        self.machine
            .answer_export(answer)
            .expect("an export was asked for, and its description was checked when it was made");
    }

    fn closed(&mut self, reason: CloseReason) {
        self.end.get_or_insert(End::Protocol(reason));
        self.cancel_reads();
    }
}

/// What the client hears that finds no place among an export's clients.
const CROWDED: &str = "the export has as many connections as may be open beside what is kept for \
    other exports; close some, or raise connections";
