//! The handshake of the client: greeting, then one option after the other until the goal is
//! reached.
//!
//! Structured replies and metadata contexts are requested first; the connection works without them
//! if the server refuses. EXPORT_NAME replaces GO if the server does not know it. Rules: proto.md,
//! "Handshake phase".

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::export::{BlockSizes, ExportFlags, ExportInfo, ExportSession, ListedExport};
use crate::wire::{self, Reader, be_u16, be_u32, be_u64, option_name};

use super::transmission::Receive;
use super::{ClientEvent, CloseReason, Connection, Goal, Phase, Step};

/// The state of the handshake.
#[derive(Debug, Clone, Copy)]
pub(super) enum Negotiation {
    Greeting,
    /// An option was sent, the header of a reply is awaited.
    Reply {
        option: u32,
        body: Option<u32>,
    },
    /// EXPORT_NAME was sent; its reply has its own form.
    ExportName,
    Padding,
}

impl Negotiation {
    pub(super) fn doing(&self) -> &'static str {
        match self {
            Negotiation::Greeting => "the greeting",
            Negotiation::Reply { option, .. } => option_name(*option),
            Negotiation::ExportName | Negotiation::Padding => {
                "EXPORT_NAME (the server may not know the export)"
            }
        }
    }
}

/// The replies to the current option so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    replies: u32,
    export: Option<(u64, ExportFlags)>,
    name: Option<String>,
    description: String,
    block_sizes: Option<BlockSizes>,
    list: Vec<ListedExport>,
    list_bytes: u64,
}

/// The bytes charged for an entry of a list besides its text.
const LIST_ENTRY_BYTES: u64 = 64;

impl Gathered {
    pub(super) fn held_bytes(&self) -> u64 {
        let text = self.description.len() + self.name.as_ref().map_or(0, String::len);
        self.list_bytes + text as u64
    }
}

impl Connection {
    pub(super) fn step_handshake(&mut self) -> Result<Step, CloseReason> {
        let Phase::Handshake(negotiation) = self.phase else {
            return Ok(Step::Again);
        };
        match negotiation {
            Negotiation::Greeting => self.read_greeting(),
            Negotiation::Reply { option, body: None } => self.read_reply_header(option),
            Negotiation::Reply { option, body: Some(kind) } => match self.inbox.take_body() {
                None => Ok(Step::NeedInput),
                Some(data) => self.receive_reply(option, kind, &data),
            },
            Negotiation::ExportName => self.read_export_name(),
            Negotiation::Padding if self.inbox.skipped() => self.reached(Goal::Open),
            Negotiation::Padding => Ok(Step::NeedInput),
        }
    }

    fn read_greeting(&mut self) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<{ wire::GREETING_BYTES }>() else {
            return Ok(Step::NeedInput);
        };
        match (be_u64(&raw, 0), be_u64(&raw, 8)) {
            (wire::NBD_MAGIC, wire::OPTION_MAGIC) => {}
            (wire::NBD_MAGIC, wire::OLDSTYLE_MAGIC) => return Err(CloseReason::Oldstyle),
            (wire::NBD_MAGIC, other) | (other, _) => return Err(CloseReason::NotNbd(other)),
        }
        let offered = be_u16(&raw, 16);
        let flags = offered & (wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES);
        self.fixed_newstyle = flags & wire::FLAG_FIXED_NEWSTYLE != 0;
        self.no_zeroes = flags & wire::FLAG_NO_ZEROES != 0;
        self.outbox.put(&u32::from(flags).to_be_bytes());
        match self.config.goal {
            Goal::Open if !self.fixed_newstyle => Ok(self.send_export_name()),
            _ if !self.fixed_newstyle => Err(CloseReason::NoOptions),
            Goal::List => Ok(self.send_option(wire::OPT_LIST, &[])),
            _ if self.config.structured_replies => {
                Ok(self.send_option(wire::OPT_STRUCTURED_REPLY, &[]))
            }
            _ => Ok(self.send_query()),
        }
    }

    fn read_reply_header(&mut self, option: u32) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<{ wire::OPTION_REPLY_HEADER_BYTES }>() else {
            return Ok(Step::NeedInput);
        };
        let (magic, of, kind, length) =
            (be_u64(&raw, 0), be_u32(&raw, 8), be_u32(&raw, 12), be_u32(&raw, 16));
        if magic != wire::OPTION_REPLY_MAGIC {
            return Err(CloseReason::Magic(magic));
        }
        if of != option {
            return Err(CloseReason::Violation("a reply to an option that was not sent"));
        }
        let allowed = self.limits.max_option_reply_bytes;
        if length > allowed {
            let (bytes, allowed) = (u64::from(length), u64::from(allowed));
            return Err(CloseReason::TooMuch {
                what: "an option reply",
                bytes,
                limit: "max_option_reply_bytes",
                allowed,
            });
        }
        self.inbox.start_body(length as usize);
        Ok(self.negotiation(Negotiation::Reply { option, body: Some(kind) }))
    }

    fn receive_reply(&mut self, option: u32, kind: u32, data: &[u8]) -> Result<Step, CloseReason> {
        self.phase = Phase::Handshake(Negotiation::Reply { option, body: None });
        if kind & wire::REP_ERROR_BIT != 0 {
            return self.receive_error(option, kind, data);
        }
        match (kind, option) {
            (wire::REP_ACK, _) => return self.receive_ack(option),
            (wire::REP_SERVER, wire::OPT_LIST) => return self.receive_listed(data),
            (wire::REP_INFO, wire::OPT_INFO | wire::OPT_GO) => self.receive_info(data)?,
            (wire::REP_META_CONTEXT, wire::OPT_SET_META_CONTEXT) => {
                let id = data.first_chunk().map(|id| u32::from_be_bytes(*id));
                let id = id.ok_or(CloseReason::Violation("a metadata context without an id"))?;
                if &data[4..] == wire::BASE_ALLOCATION.as_bytes() {
                    self.context_id = Some(id);
                }
            }
            _ => return Err(CloseReason::Violation("a reply that does not belong to its option")),
        }
        self.gathered.replies += 1;
        let allowed = self.limits.max_option_replies;
        if self.gathered.replies > allowed {
            let (bytes, allowed) = (u64::from(self.gathered.replies), u64::from(allowed));
            return Err(CloseReason::TooMuch {
                what: "option replies",
                bytes,
                limit: "max_option_replies",
                allowed,
            });
        }
        Ok(Step::Again)
    }

    fn receive_ack(&mut self, option: u32) -> Result<Step, CloseReason> {
        match option {
            wire::OPT_STRUCTURED_REPLY => {
                self.structured = true;
                if !self.config.allocation_context {
                    return Ok(self.send_query());
                }
                let (name, query) = (self.config.export.clone(), wire::BASE_ALLOCATION);
                let lengths = [name.len() as u32, 1, query.len() as u32].map(u32::to_be_bytes);
                let parts =
                    [&lengths[0][..], name.as_bytes(), &lengths[1], &lengths[2], query.as_bytes()];
                Ok(self.send_option(wire::OPT_SET_META_CONTEXT, &parts))
            }
            wire::OPT_SET_META_CONTEXT => Ok(self.send_query()),
            wire::OPT_LIST => {
                let list = core::mem::take(&mut self.gathered.list);
                self.send_option(wire::OPT_ABORT, &[]);
                Ok(Step::Event(ClientEvent::Listed(list)))
            }
            wire::OPT_INFO => self.reached(Goal::Describe),
            wire::OPT_GO => self.reached(Goal::Open),
            _ => Err(CloseReason::Finished),
        }
    }

    fn receive_error(&mut self, option: u32, error: u32, data: &[u8]) -> Result<Step, CloseReason> {
        let fatal = matches!(error, wire::REP_ERR_TLS_REQD | wire::REP_ERR_SHUTDOWN);
        match option {
            wire::OPT_ABORT => return Err(CloseReason::Finished),
            wire::OPT_STRUCTURED_REPLY | wire::OPT_SET_META_CONTEXT if !fatal => {
                self.context_id = None;
                return Ok(self.send_query());
            }
            wire::OPT_GO if error == wire::REP_ERR_UNSUP => return Ok(self.send_export_name()),
            _ => {}
        }
        // The final option; its reply is not awaited.
        self.send_option(wire::OPT_ABORT, &[]);
        let text = String::from_utf8_lossy(data);
        let text = wire::truncate(&text, wire::MAX_STRING_BYTES).to_string();
        Err(CloseReason::Refused { option: option_name(option), error, text })
    }

    fn receive_listed(&mut self, data: &[u8]) -> Result<Step, CloseReason> {
        let malformed = CloseReason::Violation("a listed export whose name does not fit its reply");
        let mut reader = Reader(data);
        let name =
            reader.u32().and_then(|length| reader.string(length as usize)).ok_or(malformed)?;
        let description = String::from_utf8_lossy(reader.0).to_string();
        let gathered = &mut self.gathered;
        gathered.list_bytes += LIST_ENTRY_BYTES + (name.len() + description.len()) as u64;
        let (bytes, allowed) = (gathered.list_bytes, self.limits.max_list_bytes);
        if bytes > allowed {
            return Err(CloseReason::TooMuch {
                what: "a list of exports",
                bytes,
                limit: "max_list_bytes",
                allowed,
            });
        }
        gathered.list.push(ListedExport { name: name.to_string(), description });
        Ok(Step::Again)
    }

    fn receive_info(&mut self, data: &[u8]) -> Result<(), CloseReason> {
        let malformed = || CloseReason::Violation("information about an export in the wrong form");
        let mut reader = Reader(data);
        let gathered = &mut self.gathered;
        match reader.u16().ok_or_else(malformed)? {
            wire::INFO_EXPORT => {
                let size = reader.u64().ok_or_else(malformed)?;
                let flags = reader.u16().ok_or_else(malformed)?;
                gathered.export = Some((size, ExportFlags::from_bits(flags)));
            }
            wire::INFO_BLOCK_SIZE => {
                let mut next = || reader.u32().ok_or_else(malformed);
                let sizes = BlockSizes { minimum: next()?, preferred: next()?, maximum: next()? };
                sizes
                    .check()
                    .map_err(|_| CloseReason::Violation("block sizes that break its rules"))?;
                gathered.block_sizes = Some(sizes);
            }
            wire::INFO_NAME => {
                gathered.name =
                    Some(reader.string(reader.0.len()).ok_or_else(malformed)?.to_string());
                return Ok(());
            }
            wire::INFO_DESCRIPTION => {
                gathered.description =
                    reader.string(reader.0.len()).ok_or_else(malformed)?.to_string();
                return Ok(());
            }
            _ => return Ok(()),
        }
        if reader.is_empty() { Ok(()) } else { Err(malformed()) }
    }

    fn read_export_name(&mut self) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<10>() else {
            return Ok(Step::NeedInput);
        };
        self.gathered.export = Some((be_u64(&raw, 0), ExportFlags::from_bits(be_u16(&raw, 8))));
        if !self.no_zeroes {
            self.inbox.start_skip(wire::EXPORT_NAME_PADDING_BYTES as u64);
        }
        Ok(self.negotiation(Negotiation::Padding))
    }

    /// The server has accepted, and sent all its information.
    fn reached(&mut self, goal: Goal) -> Result<Step, CloseReason> {
        let Gathered { export, name, description, block_sizes, .. } =
            core::mem::take(&mut self.gathered);
        let Some((size_bytes, flags)) = export else {
            return Err(CloseReason::Violation(
                "an export was accepted without its size and flags",
            ));
        };
        let cautious = BlockSizes {
            minimum: if size_bytes % 512 == 0 { 512 } else { 1 },
            ..BlockSizes::default()
        };
        let export = ExportInfo {
            name: name.unwrap_or_else(|| self.config.export.clone()),
            description,
            size_bytes,
            flags,
            block_sizes: block_sizes.unwrap_or(cautious),
        };
        let session = ExportSession {
            export,
            structured_replies: self.structured,
            allocation_context: self.context_id.is_some(),
            block_sizes_stated: block_sizes.is_some(),
        };
        if goal == Goal::Describe {
            self.send_option(wire::OPT_ABORT, &[]);
            return Ok(Step::Event(ClientEvent::Described(session)));
        }
        self.session = Some(session.clone());
        self.phase = Phase::Transmission(Receive::Header);
        Ok(Step::Event(ClientEvent::Opened(session)))
    }

    /// INFO or GO with all information requests.
    fn send_query(&mut self) -> Step {
        let option = if self.config.goal == Goal::Describe { wire::OPT_INFO } else { wire::OPT_GO };
        let name = self.config.export.clone();
        let length = (name.len() as u32).to_be_bytes();
        let requests = [3, wire::INFO_NAME, wire::INFO_DESCRIPTION, wire::INFO_BLOCK_SIZE]
            .map(u16::to_be_bytes);
        self.send_option(option, &[&length, name.as_bytes(), requests.as_flattened()])
    }

    fn send_export_name(&mut self) -> Step {
        let name = self.config.export.clone();
        self.send_option(wire::OPT_EXPORT_NAME, &[name.as_bytes()]);
        // Structured replies stay agreed: only GO was unknown.
        if self.leaving { Step::Again } else { self.negotiation(Negotiation::ExportName) }
    }

    /// Queues an option, or ABORT after `disconnect`.
    fn send_option(&mut self, option: u32, parts: &[&[u8]]) -> Step {
        let (option, parts) =
            if self.leaving { (wire::OPT_ABORT, &[][..]) } else { (option, parts) };
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.outbox.put(&wire::OPTION_MAGIC.to_be_bytes());
        self.outbox.put(&option.to_be_bytes());
        self.outbox.put(&(length as u32).to_be_bytes());
        parts.iter().for_each(|part| self.outbox.put(part));
        self.gathered = Gathered::default();
        self.negotiation(Negotiation::Reply { option, body: None })
    }

    fn negotiation(&mut self, negotiation: Negotiation) -> Step {
        self.phase = Phase::Handshake(negotiation);
        Step::Again
    }
}
