//! Parsing of the data of a client's options. Layouts: proto.md, "Option types".

use alloc::string::{String, ToString};

use crate::wire::{self, Reader};

/// Data of INFO and GO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportQuery {
    pub name: String,
    pub info: InfoRequests,
}

/// The information requested besides INFO_EXPORT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InfoRequests {
    pub name: bool,
    pub description: bool,
    pub block_size: bool,
}

impl ExportQuery {
    /// `None` when the data is malformed.
    pub(super) fn parse(data: &[u8]) -> Option<ExportQuery> {
        let mut reader = Reader(data);
        let length = reader.u32()?;
        let name = reader.string(length as usize)?.to_string();
        let mut info = InfoRequests::default();
        for _ in 0..reader.u16()? {
            match reader.u16()? {
                wire::INFO_NAME => info.name = true,
                wire::INFO_DESCRIPTION => info.description = true,
                wire::INFO_BLOCK_SIZE => info.block_size = true,
                _ => {}
            }
        }
        reader.is_empty().then_some(ExportQuery { name, info })
    }
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContextQuery {
    pub name: String,
    /// No query at all.
    pub empty: bool,
    /// `base:allocation` was requested by name.
    pub exact: bool,
    /// `base:` was requested.
    pub wildcard: bool,
}

impl ContextQuery {
    /// `None` when the data is malformed. Queries in namespaces not known here are ignored, as the
    /// protocol demands.
    pub(super) fn parse(data: &[u8]) -> Option<ContextQuery> {
        let mut reader = Reader(data);
        let length = reader.u32()?;
        let name = reader.string(length as usize)?.to_string();
        let count = reader.u32()?;
        let mut query = ContextQuery { name, empty: count == 0, exact: false, wildcard: false };
        for _ in 0..count {
            let length = reader.u32()?;
            match reader.string(length as usize)? {
                wire::BASE_ALLOCATION => query.exact = true,
                wire::BASE_NAMESPACE => query.wildcard = true,
                _ => {}
            }
        }
        reader.is_empty().then_some(query)
    }

    /// Returns true if the reply to LIST_META_CONTEXT has to contain `base:allocation`.
    pub(super) fn lists_allocation(&self) -> bool {
        self.empty || self.exact || self.wildcard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn go(name: &[u8], count: u16, infos: &[u16]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        data.extend_from_slice(&count.to_be_bytes());
        infos.iter().for_each(|info| data.extend_from_slice(&info.to_be_bytes()));
        data
    }

    #[test]
    fn information_requests_are_found_among_strangers() {
        let query = ExportQuery::parse(&go(b"vol0", 3, &[3, 77, 1])).unwrap();
        assert_eq!(query.name, "vol0");
        assert_eq!(query.info, InfoRequests { name: true, description: false, block_size: true });
    }

    #[test]
    fn every_truncation_and_every_surplus_of_an_export_query_is_refused() {
        let whole = go(b"vol0", 2, &[1, 2]);
        for end in 0..whole.len() {
            assert_eq!(ExportQuery::parse(&whole[..end]), None, "{end}");
        }
        let mut surplus = whole;
        surplus.push(0);
        assert_eq!(ExportQuery::parse(&surplus), None);
        assert_eq!(ExportQuery::parse(&go(b"\xff", 0, &[])), None);
        assert_eq!(ExportQuery::parse(&u32::MAX.to_be_bytes()), None);
    }

    fn contexts(queries: &[&str]) -> Vec<u8> {
        let mut data = Vec::from([0, 0, 0, 1, b'v']);
        data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
        for query in queries {
            data.extend_from_slice(&(query.len() as u32).to_be_bytes());
            data.extend_from_slice(query.as_bytes());
        }
        data
    }

    #[test]
    fn context_queries_match_by_name_by_wildcard_and_by_absence() {
        let listed = |queries: &[&str]| ContextQuery::parse(&contexts(queries)).unwrap();
        assert!(listed(&[]).lists_allocation());
        assert!(listed(&["base:"]).lists_allocation());
        assert!(listed(&["qemu:dirty-bitmap:x", "base:allocation"]).exact);
        assert!(!listed(&["base:alloc", "qemu:", "nonsense"]).lists_allocation());
        assert!(!listed(&["base:"]).exact);
    }

    #[test]
    fn every_truncation_and_every_surplus_of_a_context_query_is_refused() {
        let whole = contexts(&["base:allocation", "x:y"]);
        for end in 0..whole.len() {
            assert_eq!(ContextQuery::parse(&whole[..end]), None, "{end}");
        }
        let mut surplus = whole.clone();
        surplus.push(0);
        assert_eq!(ContextQuery::parse(&surplus), None);
        let mut claims_many = contexts(&[]);
        claims_many[5..9].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(ContextQuery::parse(&claims_many), None);
    }
}
