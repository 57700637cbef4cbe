//! [`Keys`]: access to the keys of one block by name, with a record of unused ones.
//!
//! A block whose type is the name of another block inherits the keys of that block.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::error::{ImportError, Note, SourceLocation};
use super::tree::{Block, KeyValue, SourceValue, Tree, ValueContent};

/// Maximum length of an inheritance chain.
const MAX_ANCESTORS: usize = 16;

/// All named blocks of all files, nested ones included.
pub(super) struct NamedBlocks<'t>(BTreeMap<&'t str, &'t Block>);

impl<'t> NamedBlocks<'t> {
    pub(super) fn of(tree: &'t Tree) -> Self {
        let mut names = Self(BTreeMap::new());
        tree.blocks.iter().for_each(|block| names.enter(block));
        names
    }

    fn enter(&mut self, block: &'t Block) {
        if let Some(name) = &block.name {
            // The first block of a name counts.
            self.0.entry(name).or_insert(block);
        }
        for pair in &block.pairs {
            if let ValueContent::Block(inner) = &pair.value.content {
                self.enter(inner);
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'t Block> {
        self.0.get(name).copied()
    }

    /// The inheritance chain of a block, itself first; the last one's type is not a block.
    pub(super) fn line(&self, block: &'t Block) -> Vec<&'t Block> {
        let mut line = alloc::vec![block];
        while let Some(parent) =
            line.last().and_then(|last| self.get(&last.kind)).filter(|_| line.len() < MAX_ANCESTORS)
        {
            if line.iter().any(|known| core::ptr::eq(*known, parent)) {
                break;
            }
            line.push(parent);
        }
        line
    }

    /// A block's type at the end of its inheritance chain.
    pub(super) fn kind(&self, block: &'t Block) -> &'t str {
        self.line(block).last().map_or(&block.kind, |last| &last.kind)
    }
}

/// The keys of one block.
pub(super) struct Keys<'t> {
    title: String,
    pub(super) place: &'t SourceLocation,
    pairs: Vec<(&'t KeyValue, bool)>,
}

impl<'t> Keys<'t> {
    pub(super) fn of(block: &'t Block, names: &NamedBlocks<'t>) -> Self {
        let mut pairs: Vec<(&'t KeyValue, bool)> = Vec::new();
        for ancestor in names.line(block) {
            for pair in &ancestor.pairs {
                if !pairs.iter().any(|(known, _)| known.key == pair.key) {
                    pairs.push((pair, false));
                }
            }
        }
        Self { title: block.title(), place: &block.place, pairs }
    }

    /// The value of a key, marked as used.
    pub(super) fn value(&mut self, key: &str) -> Option<&'t SourceValue> {
        let (pair, used) = self.pairs.iter_mut().find(|(pair, _)| pair.key == key)?;
        *used = true;
        Some(&pair.value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.pairs.iter().any(|(pair, _)| pair.key == key)
    }

    pub(super) fn missing(&self, key: &str, remedy: &str) -> ImportError {
        ImportError::Missing {
            place: self.place.clone(),
            block: self.title.clone(),
            key: key.to_string(),
            remedy: remedy.to_string(),
        }
    }

    /// A number within `range`, or `None` without the key.
    pub(super) fn number(
        &mut self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ImportError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        number_of(key, value, &range).map(Some)
    }

    pub(super) fn required_number(
        &mut self,
        key: &str,
        range: RangeInclusive<f64>,
        remedy: &str,
    ) -> Result<f64, ImportError> {
        self.number(key, range)?.ok_or_else(|| self.missing(key, remedy))
    }

    /// A whole number within `range`, or `None` without the key.
    pub(super) fn whole(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ImportError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        whole_of(key, value, &range).map(Some)
    }

    pub(super) fn required_whole(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
        remedy: &str,
    ) -> Result<u64, ImportError> {
        self.whole(key, range)?.ok_or_else(|| self.missing(key, remedy))
    }

    /// A word, or `None` without the key.
    pub(super) fn word(
        &mut self,
        key: &str,
    ) -> Result<Option<(&'t str, &'t SourceLocation)>, ImportError> {
        match self.value(key) {
            None => Ok(None),
            Some(SourceValue { content: ValueContent::Word(word), place }) => {
                Ok(Some((word, place)))
            }
            Some(other) => Err(refuse(key, other, "a word", "write one word after `=`")),
        }
    }

    /// The items of a list; empty without the key.
    pub(super) fn list(&mut self, key: &str) -> Result<&'t [SourceValue], ImportError> {
        match self.value(key) {
            None => Ok(&[]),
            Some(SourceValue { content: ValueContent::List(items), .. }) => Ok(items),
            Some(other) => Err(refuse(key, other, "a list", "write `[ 1, 2 ]`")),
        }
    }

    /// A list of whole numbers within `range`.
    pub(super) fn wholes(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Vec<u64>, ImportError> {
        self.list(key)?.iter().map(|item| whole_of(key, item, &range)).collect()
    }

    /// A block, inline or by name.
    pub(super) fn block(
        &mut self,
        key: &str,
        names: &NamedBlocks<'t>,
    ) -> Result<Option<&'t Block>, ImportError> {
        match self.value(key) {
            None => Ok(None),
            Some(SourceValue { content: ValueContent::Block(block), .. }) => Ok(Some(block)),
            Some(value) => match &value.content {
                ValueContent::Word(name) if names.get(name).is_some() => Ok(names.get(name)),
                _ => Err(refuse(
                    key,
                    value,
                    "a block, or the name of one",
                    "write `= TYPE { … }`, or `= source FILE` with the file that has it",
                )),
            },
        }
    }

    /// A note of all unused keys that `harmless` does not accept with their values; `None` if there
    /// are none.
    pub(super) fn left_out(&self, harmless: impl Fn(&str, Option<f64>) -> bool) -> Option<Note> {
        let unused = self.pairs.iter().filter(|(_, used)| !used).map(|(pair, _)| *pair);
        let left: Vec<&KeyValue> =
            unused.filter(|pair| !harmless(&pair.key, parse(&pair.value).ok())).collect();
        let first = left.first()?;
        let list: Vec<String> =
            left.iter().map(|pair| format!("{} = {}", pair.key, pair.value.show())).collect();
        let text = format!(
            "left out of {}, as a profile has nothing for it: {}",
            self.title,
            list.join("; ")
        );
        Some(Note::new(&first.place, text))
    }
}

/// The error for a key's value.
pub(super) fn refuse(
    key: &str,
    value: &SourceValue,
    expected: impl Into<String>,
    remedy: impl Into<String>,
) -> ImportError {
    ImportError::value(&value.place, key, value.show(), expected, remedy)
}

/// The value as a number within `range`.
pub(super) fn number_of(
    key: &str,
    value: &SourceValue,
    range: &RangeInclusive<f64>,
) -> Result<f64, ImportError> {
    let expected = || format!("a number from {} to {}", range.start(), range.end());
    let number =
        parse(value).map_err(|()| refuse(key, value, expected(), "write it as 12 or 1.25"))?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(refuse(key, value, expected(), "correct it"))
    }
}

/// The value as a whole number within `range`.
pub(super) fn whole_of(
    key: &str,
    value: &SourceValue,
    range: &RangeInclusive<u64>,
) -> Result<u64, ImportError> {
    let number = parse(value)
        .ok()
        .filter(|number| *number >= 0.0 && libm::trunc(*number) == *number && *number <= 9e15)
        .map(|number| number as u64);
    match number.filter(|number| range.contains(number)) {
        Some(number) => Ok(number),
        None => Err(refuse(
            key,
            value,
            format!("a whole number from {} to {}", range.start(), range.end()),
            "correct it",
        )),
    }
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn parse(value: &SourceValue) -> Result<f64, ()> {
    let ValueContent::Word(word) = &value.content else { return Err(()) };
    let (sign, digits) = word.strip_prefix('-').map_or((1.0, word.as_str()), |rest| (-1.0, rest));
    if let Some(hex) = digits.strip_prefix("0x") {
        return u32::from_str_radix(hex, 16).map(|number| sign * f64::from(number)).map_err(|_| ());
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(());
    }
    digits
        .parse::<f64>()
        .map(|number| sign * number)
        .ok()
        .filter(|number| number.is_finite())
        .ok_or(())
}
