//! The handshake of the server: greeting, client flags, options until the client enters
//! transmission or leaves.
//!
//! Options are processed one at a time, each after the reply to the last has been sent, so that a
//! client that does not read cannot accumulate replies. Data of unknown, oversized or misplaced
//! options is skipped, never stored. Rules: proto.md, "Handshake phase".

use alloc::format;
use alloc::string::String;

use crate::export::{
    BlockSizes, ExportFlags, ExportInfo, ExportSession, ListedExport, check_string,
};
use crate::limits::MAX_ERROR_TEXT_BYTES;
use crate::outbox::Outbox;
use crate::wire::{self, be_u32, be_u64};

use super::options::{ContextQuery, ExportQuery, InfoRequests};
use super::{
    AnswerError, CloseReason, Connection, ExportRefusal, Phase, Purpose, ServerEvent, Step,
    TlsPolicy,
};

/// The id under which `base:allocation` is known on the wire.
pub(super) const ALLOCATION_CONTEXT_ID: u32 = 1;

/// The state of the handshake.
#[derive(Debug)]
pub(super) enum Negotiation {
    ClientFlags,
    OptionHeader,
    OptionData {
        option: u32,
    },
    Skipping(AfterSkip),
    AwaitList,
    AwaitExport(Question),
    /// The TLS handshake is in progress.
    AwaitTls,
}

/// The state after skipped data.
#[derive(Debug, Clone, Copy)]
pub(super) enum AfterSkip {
    Abort,
    Refuse { option: u32, reply: u32, text: &'static str },
}

/// The purpose of a lookup.
#[derive(Debug)]
pub(super) enum Question {
    Name { name: String },
    Info { option: u32, query: ExportQuery },
    Contexts { option: u32, query: ContextQuery },
}

impl Negotiation {
    pub(super) fn wants_input(&self, outbox: &Outbox) -> bool {
        match self {
            Negotiation::OptionHeader => outbox.is_empty(),
            Negotiation::ClientFlags
            | Negotiation::OptionData { .. }
            | Negotiation::Skipping(_) => true,
            Negotiation::AwaitList | Negotiation::AwaitExport(_) | Negotiation::AwaitTls => false,
        }
    }

    pub(super) fn inside_message(&self) -> bool {
        matches!(self, Negotiation::OptionData { .. } | Negotiation::Skipping(_))
    }
}

impl Connection {
    pub(super) fn greet(&mut self) {
        self.outbox.put(&wire::NBD_MAGIC.to_be_bytes());
        self.outbox.put(&wire::OPTION_MAGIC.to_be_bytes());
        self.outbox.put(&(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES).to_be_bytes());
    }

    pub(super) fn step_handshake(&mut self) -> Result<Step, CloseReason> {
        let Phase::Handshake(negotiation) = &self.phase else {
            return Ok(Step::Again);
        };
        match negotiation {
            Negotiation::ClientFlags => self.read_client_flags(),
            Negotiation::OptionHeader if !self.outbox.is_empty() => Ok(Step::Blocked),
            Negotiation::OptionHeader => self.read_option_header(),
            &Negotiation::OptionData { option } => match self.inbox.take_body() {
                None => Ok(Step::NeedInput),
                Some(data) => self.receive_option(option, &data),
            },
            &Negotiation::Skipping(then) => {
                if !self.inbox.skipped() {
                    return Ok(Step::NeedInput);
                }
                match then {
                    AfterSkip::Abort => {
                        self.option_reply(wire::OPT_ABORT, wire::REP_ACK, &[]);
                        Err(CloseReason::Aborted)
                    }
                    AfterSkip::Refuse { option, reply, text } => {
                        Ok(self.refuse(option, reply, text))
                    }
                }
            }
            Negotiation::AwaitList | Negotiation::AwaitExport(_) | Negotiation::AwaitTls => {
                Ok(Step::Blocked)
            }
        }
    }

    fn read_client_flags(&mut self) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<4>() else {
            return Ok(Step::NeedInput);
        };
        let flags = u32::from_be_bytes(raw);
        if flags & !u32::from(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES) != 0 {
            return Err(CloseReason::ClientFlags(flags));
        }
        self.no_zeroes = flags & u32::from(wire::FLAG_NO_ZEROES) != 0;
        Ok(self.negotiation(Negotiation::OptionHeader))
    }

    fn read_option_header(&mut self) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<{ wire::OPTION_HEADER_BYTES }>() else {
            return Ok(Step::NeedInput);
        };
        let (magic, option, length) = (be_u64(&raw, 0), be_u32(&raw, 8), be_u32(&raw, 12));
        if magic != wire::OPTION_MAGIC {
            return Err(CloseReason::OptionMagic(magic));
        }
        self.options_seen += 1;
        if self.options_seen > self.limits.max_options {
            return Err(CloseReason::TooManyOptions { limit: self.limits.max_options });
        }
        if option == wire::OPT_SET_META_CONTEXT {
            // Whatever becomes of this option, it ends what an earlier one selected.
            self.context_of = None;
        }
        let too_long = length > self.limits.max_option_bytes;
        let refuse = |reply, text| AfterSkip::Refuse { option, reply, text };
        let plain = self.tls == TlsPolicy::Require && !self.secured && option != wire::OPT_STARTTLS;
        let after = match option {
            wire::OPT_ABORT => AfterSkip::Abort,
            wire::OPT_EXPORT_NAME if plain => return Err(CloseReason::TlsRequired),
            _ if plain => {
                refuse(wire::REP_ERR_TLS_REQD, "this server answers about exports inside TLS only")
            }
            wire::OPT_EXPORT_NAME if length as usize > wire::MAX_STRING_BYTES => {
                return Err(CloseReason::ExportName { bytes: length });
            }
            wire::OPT_EXPORT_NAME => return Ok(self.collect(option, length)),
            _ if self.shutting_down => {
                refuse(wire::REP_ERR_SHUTDOWN, "the server is shutting down")
            }
            wire::OPT_INFO
            | wire::OPT_GO
            | wire::OPT_LIST_META_CONTEXT
            | wire::OPT_SET_META_CONTEXT
                if too_long =>
            {
                refuse(wire::REP_ERR_TOO_BIG, "more option data than this server accepts")
            }
            wire::OPT_INFO
            | wire::OPT_GO
            | wire::OPT_LIST_META_CONTEXT
            | wire::OPT_SET_META_CONTEXT => {
                return Ok(self.collect(option, length));
            }
            wire::OPT_LIST | wire::OPT_STRUCTURED_REPLY | wire::OPT_STARTTLS if length > 0 => {
                refuse(wire::REP_ERR_INVALID, "this option takes no data")
            }
            wire::OPT_LIST | wire::OPT_STRUCTURED_REPLY | wire::OPT_STARTTLS => {
                return self.receive_option(option, &[]);
            }
            _ => refuse(wire::REP_ERR_UNSUP, "unknown option"),
        };
        self.inbox.start_skip(u64::from(length));
        Ok(self.negotiation(Negotiation::Skipping(after)))
    }

    fn collect(&mut self, option: u32, length: u32) -> Step {
        self.inbox.start_body(length as usize);
        self.negotiation(Negotiation::OptionData { option })
    }

    /// Acts on an option whose data is complete. Leaves the phase set for what follows.
    fn receive_option(&mut self, option: u32, data: &[u8]) -> Result<Step, CloseReason> {
        match option {
            wire::OPT_EXPORT_NAME => {
                let bytes = data.len() as u32;
                let name = wire::Reader(data)
                    .string(data.len())
                    .ok_or(CloseReason::ExportName { bytes })?;
                if self.shutting_down {
                    let refusal = ExportRefusal::ShuttingDown;
                    return Err(CloseReason::ExportRefused { name: name.into(), refusal });
                }
                Ok(self.ask(Question::Name { name: name.into() }))
            }
            wire::OPT_INFO | wire::OPT_GO => Ok(match ExportQuery::parse(data) {
                Some(query) => self.ask(Question::Info { option, query }),
                None => self.refuse(
                    option,
                    wire::REP_ERR_INVALID,
                    "name and information requests do not fit the data",
                ),
            }),
            wire::OPT_LIST_META_CONTEXT | wire::OPT_SET_META_CONTEXT => {
                Ok(match ContextQuery::parse(data) {
                    None => self.refuse(
                        option,
                        wire::REP_ERR_INVALID,
                        "name and queries do not fit the data",
                    ),
                    Some(_) if !self.structured => self.refuse(
                        option,
                        wire::REP_ERR_INVALID,
                        "negotiate structured replies first",
                    ),
                    Some(query) => self.ask(Question::Contexts { option, query }),
                })
            }
            wire::OPT_LIST => {
                self.phase = Phase::Handshake(Negotiation::AwaitList);
                Ok(Step::Event(ServerEvent::ListExports))
            }
            wire::OPT_STRUCTURED_REPLY => {
                self.structured = true;
                self.option_reply(option, wire::REP_ACK, &[]);
                Ok(self.negotiation(Negotiation::OptionHeader))
            }
            _ if self.tls == TlsPolicy::Off => Ok(self.refuse(
                option,
                wire::REP_ERR_POLICY,
                "TLS is not available; connect without it",
            )),
            _ if self.secured => {
                Ok(self.refuse(option, wire::REP_ERR_INVALID, "TLS has begun already"))
            }
            _ => self.start_tls(),
        }
    }

    /// Acknowledges STARTTLS and discards what was negotiated before: an attacker between the two
    /// could have sent it.
    ///
    /// For the same reason, no plaintext after STARTTLS may count as sent inside TLS. A correct
    /// client waits for the acknowledgement before it sends anything (proto.md, "STARTTLS"), so
    /// there is none.
    fn start_tls(&mut self) -> Result<Step, CloseReason> {
        if !self.inbox.is_empty() {
            return Err(CloseReason::AfterStartTls);
        }
        self.structured = false;
        self.context_of = None;
        self.option_reply(wire::OPT_STARTTLS, wire::REP_ACK, &[]);
        self.phase = Phase::Handshake(Negotiation::AwaitTls);
        Ok(Step::Event(ServerEvent::StartTls))
    }

    /// Reports the end of the TLS handshake that [`ServerEvent::StartTls`] requested. All later
    /// input came through TLS. No effect on a closed connection.
    ///
    /// # Errors
    /// [`AnswerError::NotAsked`] when no TLS was requested, or output before it has not been sent.
    pub fn tls_started(&mut self) -> Result<(), AnswerError> {
        match &self.phase {
            Phase::Closed => return Ok(()),
            Phase::Handshake(Negotiation::AwaitTls) if self.outbox.is_empty() => {}
            _ => return Err(AnswerError::NotAsked("TLS")),
        }
        self.secured = true;
        self.phase = Phase::Handshake(Negotiation::OptionHeader);
        Ok(())
    }

    fn ask(&mut self, question: Question) -> Step {
        let (name, purpose) = match &question {
            Question::Name { name } => (name.clone(), Purpose::Open),
            Question::Info { option: wire::OPT_GO, query } => (query.name.clone(), Purpose::Open),
            Question::Info { query, .. } => (query.name.clone(), Purpose::Describe),
            Question::Contexts { query, .. } => (query.name.clone(), Purpose::Describe),
        };
        self.phase = Phase::Handshake(Negotiation::AwaitExport(question));
        Step::Event(ServerEvent::LookupExport { name, purpose })
    }

    /// Answers [`ServerEvent::ListExports`]. Nothing happens on a closed connection.
    ///
    /// # Errors
    /// [`AnswerError::NotAsked`] when no list is awaited; [`AnswerError::Export`] when a name or
    /// description cannot be sent; the lookup is still open then.
    pub fn answer_list(&mut self, exports: &[ListedExport]) -> Result<(), AnswerError> {
        match &self.phase {
            Phase::Closed => return Ok(()),
            Phase::Handshake(Negotiation::AwaitList) => {}
            _ => return Err(AnswerError::NotAsked("list of exports")),
        }
        for export in exports {
            check_string("name", &export.name)?;
            check_string("description", &export.description)?;
        }
        for ListedExport { name, description } in exports {
            let length = (name.len() as u32).to_be_bytes();
            let parts = [&length[..], name.as_bytes(), description.as_bytes()];
            self.option_reply(wire::OPT_LIST, wire::REP_SERVER, &parts);
        }
        self.option_reply(wire::OPT_LIST, wire::REP_ACK, &[]);
        self.phase = Phase::Handshake(Negotiation::OptionHeader);
        Ok(())
    }

    /// Answers [`ServerEvent::LookupExport`] with the export or the reason for refusing it. The
    /// client gets at most [`crate::ServerLimits::max_request_bytes`] as the maximum block size. No
    /// effect on a closed connection.
    ///
    /// # Errors
    /// [`AnswerError::NotAsked`] when no export is awaited; [`AnswerError::Export`] when the export
    /// breaks a rule of the protocol; the lookup is still open then, and can be answered with an
    /// [`ExportRefusal`].
    pub fn answer_export(
        &mut self,
        answer: Result<ExportInfo, ExportRefusal>,
    ) -> Result<(), AnswerError> {
        match &self.phase {
            Phase::Closed => return Ok(()),
            Phase::Handshake(Negotiation::AwaitExport(_)) => {}
            _ => return Err(AnswerError::NotAsked("export")),
        }
        if let Ok(export) = &answer {
            export.check()?;
        }
        let next = Phase::Handshake(Negotiation::OptionHeader);
        let Phase::Handshake(Negotiation::AwaitExport(question)) =
            core::mem::replace(&mut self.phase, next)
        else {
            return Ok(());
        };
        match (question, answer) {
            (Question::Name { name }, answer) => self.answer_export_name(name, answer),
            (Question::Info { option, .. } | Question::Contexts { option, .. }, Err(refusal)) => {
                let reply = match refusal {
                    ExportRefusal::Unknown => wire::REP_ERR_UNKNOWN,
                    ExportRefusal::Policy(_) => wire::REP_ERR_POLICY,
                    ExportRefusal::ShuttingDown => wire::REP_ERR_SHUTDOWN,
                };
                self.refuse(option, reply, &format!("{refusal}"));
            }
            (Question::Info { option, query }, Ok(export)) => {
                self.answer_info(option, query, export)
            }
            (Question::Contexts { option, query }, Ok(_)) => self.answer_contexts(option, query),
        }
        Ok(())
    }

    fn answer_export_name(&mut self, name: String, answer: Result<ExportInfo, ExportRefusal>) {
        match answer {
            Err(refusal) => self.phase = Phase::Refused { name, refusal },
            Ok(export) => {
                let session = self.agree(&name, export, false);
                self.outbox.put(&session.export.size_bytes.to_be_bytes());
                self.outbox.put(&session.export.flags.bits().to_be_bytes());
                if !self.no_zeroes {
                    self.outbox.put(&[0; wire::EXPORT_NAME_PADDING_BYTES]);
                }
                self.session = Some(session);
                self.phase = Phase::Opening;
            }
        }
    }

    fn answer_info(&mut self, option: u32, query: ExportQuery, export: ExportInfo) {
        let InfoRequests { name, description, block_size } = query.info;
        let session = self.agree(&query.name, export, block_size);
        let export = &session.export;
        let (size, flags) = (export.size_bytes.to_be_bytes(), export.flags.bits().to_be_bytes());
        self.info_reply(option, wire::INFO_EXPORT, &[&size, &flags]);
        if name {
            self.info_reply(option, wire::INFO_NAME, &[export.name.as_bytes()]);
        }
        if description && !export.description.is_empty() {
            self.info_reply(option, wire::INFO_DESCRIPTION, &[export.description.as_bytes()]);
        }
        if block_size {
            let BlockSizes { minimum, preferred, maximum } = export.block_sizes;
            let sizes = [minimum.to_be_bytes(), preferred.to_be_bytes(), maximum.to_be_bytes()];
            self.info_reply(option, wire::INFO_BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]]);
        }
        self.option_reply(option, wire::REP_ACK, &[]);
        if option == wire::OPT_GO {
            self.session = Some(session);
            self.phase = Phase::Opening;
        }
    }

    fn answer_contexts(&mut self, option: u32, query: ContextQuery) {
        let listing = option == wire::OPT_LIST_META_CONTEXT;
        if if listing { query.lists_allocation() } else { query.exact } {
            let id = if listing { 0 } else { ALLOCATION_CONTEXT_ID };
            let parts = [&id.to_be_bytes()[..], wire::BASE_ALLOCATION.as_bytes()];
            self.option_reply(option, wire::REP_META_CONTEXT, &parts);
            if !listing {
                self.context_of = Some(query.name);
            }
        }
        self.option_reply(option, wire::REP_ACK, &[]);
    }

    /// The export as sent, requested as `name`.
    fn agree(&self, name: &str, mut export: ExportInfo, block_sizes_stated: bool) -> ExportSession {
        let sizes = &mut export.block_sizes;
        sizes.maximum = sizes.maximum.min(self.limits.max_request_bytes);
        // max_request_bytes is at least 65,536, so this stays at or above the minimum block.
        sizes.preferred = sizes.preferred.min(1 << sizes.maximum.ilog2());
        export.flags = ExportFlags::advertised(export.flags, self.structured);
        let allocation_context = self.structured && self.context_of.as_deref() == Some(name);
        ExportSession {
            export,
            structured_replies: self.structured,
            allocation_context,
            block_sizes_stated,
        }
    }

    fn negotiation(&mut self, negotiation: Negotiation) -> Step {
        self.phase = Phase::Handshake(negotiation);
        Step::Again
    }

    fn refuse(&mut self, option: u32, reply: u32, text: &str) -> Step {
        let text = wire::truncate(text, MAX_ERROR_TEXT_BYTES);
        self.option_reply(option, reply, &[text.as_bytes()]);
        self.negotiation(Negotiation::OptionHeader)
    }

    fn info_reply(&mut self, option: u32, info: u16, parts: &[&[u8]]) {
        let info = info.to_be_bytes();
        let mut all: [&[u8]; 4] = [&info, &[], &[], &[]];
        all[1..=parts.len()].copy_from_slice(parts);
        self.option_reply(option, wire::REP_INFO, &all);
    }

    fn option_reply(&mut self, option: u32, reply: u32, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.outbox.put(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
        self.outbox.put(&option.to_be_bytes());
        self.outbox.put(&reply.to_be_bytes());
        self.outbox.put(&(length as u32).to_be_bytes());
        parts.iter().for_each(|part| self.outbox.put(part));
    }
}
