//! Tokens to [`Block`]s.
//!
//! ```text
//! file   = { block | "instantiate" list "as" word | "topology" … }
//! block  = type [name] "{" [ pair { "," pair } [","] ] "}"
//! pair   = ( word { word } | list ) "=" value
//! value  = word | list | block
//! list   = "[" [ item { "," item } [","] ] "]"      item = value | word ".." word
//! ```

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::error::{ImportError, SourceLocation};
use super::token::{LocatedToken, Token, syntax_error};

/// Maximum nesting of blocks and lists.
const MAX_DEPTH: usize = 64;
/// Maximum number of names of a range `a1 .. a9`.
const MAX_RANGE: u32 = 65_536;

/// `type NAME { key = value, … }`.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: Option<String>,
    pub(super) place: SourceLocation,
    pub(super) pairs: Vec<KeyValue>,
}

impl Block {
    /// The form in messages.
    pub(super) fn title(&self) -> String {
        self.name.as_ref().map_or_else(|| self.kind.clone(), |name| format!("{} {name}", self.kind))
    }
}

#[derive(Clone, Debug)]
pub(super) struct KeyValue {
    /// The words, separated by single blanks.
    pub(super) key: String,
    pub(super) place: SourceLocation,
    pub(super) value: SourceValue,
}

#[derive(Clone, Debug)]
pub(super) struct SourceValue {
    pub(super) place: SourceLocation,
    pub(super) content: ValueContent,
}

#[derive(Clone, Debug)]
pub(super) enum ValueContent {
    Word(String),
    List(Vec<SourceValue>),
    Block(Block),
}

impl SourceValue {
    /// The form in messages.
    pub(super) fn show(&self) -> String {
        match &self.content {
            ValueContent::Word(text) => text.clone(),
            ValueContent::List(items) => format!("a list of {}", items.len()),
            ValueContent::Block(block) => format!("a block {}", block.kind),
        }
    }
}

/// The contents of the files without topologies.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) blocks: Vec<Block>,
    /// (names, block): `instantiate [ disk0, disk1 ] as NAME`.
    pub(super) instances: Vec<(Vec<String>, String)>,
}

impl Tree {
    /// Adds a file.
    pub(super) fn add(
        &mut self,
        file: &Arc<str>,
        tokens: Vec<LocatedToken>,
    ) -> Result<(), ImportError> {
        let end =
            tokens.last().map_or_else(|| SourceLocation::whole(file), |last| last.place.clone());
        let mut parser = Parser { tokens, at: 0, end };
        while let Some(next) = parser.step() {
            match &next.token {
                Token::Word(word) if word == "topology" => parser.topology()?,
                Token::Word(word) if word == "instantiate" => {
                    self.instances.push(parser.instances()?)
                }
                Token::Word(word) => {
                    let block = parser.block(word.clone(), next.place, 0)?;
                    self.blocks.push(block);
                }
                // An extra semicolon between blocks is allowed.
                Token::Mark(';') => {}
                other => {
                    let expected =
                        "a block such as `dm_disk NAME { … }`, `instantiate` or `topology`";
                    return Err(syntax_error(
                        next.place,
                        &other.show(),
                        expected,
                        "look for a brace or bracket too many before it",
                    ));
                }
            }
        }
        Ok(())
    }
}

struct Parser {
    tokens: Vec<LocatedToken>,
    at: usize,
    /// The last token's position, for errors at the end of the text.
    end: SourceLocation,
}

impl Parser {
    fn step(&mut self) -> Option<LocatedToken> {
        let next = self.tokens.get(self.at).cloned()?;
        self.at += 1;
        Some(next)
    }

    fn next(&mut self, expected: &str) -> Result<LocatedToken, ImportError> {
        self.step().ok_or_else(|| {
            syntax_error(
                self.end.clone(),
                "the end of the file after this",
                expected,
                "the file may be cut off",
            )
        })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|next| &next.token)
    }

    fn word(
        &mut self,
        expected: &str,
        remedy: &str,
    ) -> Result<(String, SourceLocation), ImportError> {
        let next = self.next(expected)?;
        match next.token {
            Token::Word(word) => Ok((word, next.place)),
            other => Err(syntax_error(next.place, &other.show(), expected, remedy)),
        }
    }

    fn mark(
        &mut self,
        mark: char,
        expected: &str,
        remedy: &str,
    ) -> Result<SourceLocation, ImportError> {
        let next = self.next(expected)?;
        if next.token == Token::Mark(mark) {
            Ok(next.place)
        } else {
            Err(syntax_error(next.place, &next.token.show(), expected, remedy))
        }
    }

    /// The rest of a block after its type: `[NAME] { … }`.
    fn block(
        &mut self,
        kind: String,
        place: SourceLocation,
        depth: usize,
    ) -> Result<Block, ImportError> {
        if depth > MAX_DEPTH {
            return Err(syntax_error(
                place,
                "a block",
                format!("at most {MAX_DEPTH} blocks within each other"),
                "look for a missing closing brace",
            ));
        }
        let name = match self.peek() {
            Some(Token::Word(_)) => Some(self.word("the block's name", "")?.0),
            _ => None,
        };
        self.mark(
            '{',
            &format!("`{{` after `{kind}`"),
            "a block is written `type NAME { key = value, … }`",
        )?;
        let mut pairs = Vec::new();
        loop {
            if self.peek() == Some(&Token::Mark('}')) {
                self.next("`}`")?;
                return Ok(Block { kind, name, place, pairs });
            }
            self.pair(&mut pairs, depth)?;
            let next = self.next("`,` or `}` after a value")?;
            match next.token {
                Token::Mark(',') => {}
                Token::Mark('}') => return Ok(Block { kind, name, place, pairs }),
                other => {
                    return Err(syntax_error(
                        next.place,
                        &other.show(),
                        "`,` or `}` after a value",
                        "put a comma between two keys",
                    ));
                }
            }
        }
    }

    fn pair(&mut self, pairs: &mut Vec<KeyValue>, depth: usize) -> Result<(), ImportError> {
        let first = self.next("a key")?;
        let keys: Vec<(String, SourceLocation)> = match first.token {
            Token::Word(mut key) => {
                while let Some(Token::Word(_)) = self.peek() {
                    key.push(' ');
                    key.push_str(&self.word("a key", "")?.0);
                }
                alloc::vec![(key, first.place)]
            }
            Token::Mark('[') => {
                self.list(depth)?.into_iter().map(|item| (item.show(), item.place)).collect()
            }
            other => {
                return Err(syntax_error(
                    first.place,
                    &other.show(),
                    "a key or `}`",
                    "write `key = value`; two commas may follow each other here",
                ));
            }
        };
        self.mark(
            '=',
            "`=` after a key",
            "write `key = value`, with a comma after the previous value",
        )?;
        let value = self.value(depth + 1)?;
        for (key, place) in keys {
            if let Some(before) = pairs.iter().find(|pair| pair.key == key) {
                let remedy = format!("it stands at line {} already; remove one", before.place.line);
                return Err(syntax_error(
                    place,
                    &format!("the key `{key}` again"),
                    "each key once in a block",
                    remedy,
                ));
            }
            pairs.push(KeyValue { key, place, value: value.clone() });
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<SourceValue, ImportError> {
        let first = self.next("a value")?;
        let content = match first.token {
            Token::Mark('[') => ValueContent::List(self.list(depth)?),
            Token::Word(word) => match self.peek() {
                Some(Token::Mark('{')) => {
                    ValueContent::Block(self.block(word, first.place.clone(), depth)?)
                }
                Some(Token::Word(_)) if self.names_a_block() => {
                    ValueContent::Block(self.block(word, first.place.clone(), depth)?)
                }
                _ => ValueContent::Word(word),
            },
            other => {
                return Err(syntax_error(
                    first.place,
                    &other.show(),
                    "a number, a word, a list or a block",
                    "write `key = value`",
                ));
            }
        };
        Ok(SourceValue { place: first.place, content })
    }

    /// True if the next word is followed by `{`: it is a block's name, not the next key after a
    /// missing comma.
    fn names_a_block(&self) -> bool {
        self.tokens.get(self.at + 1).is_some_and(|next| next.token == Token::Mark('{'))
    }

    /// The rest of a list after `[`.
    fn list(&mut self, depth: usize) -> Result<Vec<SourceValue>, ImportError> {
        if depth > MAX_DEPTH {
            return Err(syntax_error(
                self.end.clone(),
                "a list",
                format!("at most {MAX_DEPTH} lists within each other"),
                "look for a missing `]`",
            ));
        }
        let mut items = Vec::new();
        loop {
            if self.peek() == Some(&Token::Mark(']')) {
                self.next("`]`")?;
                return Ok(items);
            }
            let item = self.value(depth + 1)?;
            if self.peek() == Some(&Token::Range) {
                self.range(item, &mut items)?;
            } else {
                items.push(item);
            }
            let next = self.next("`,` or `]` in a list")?;
            match next.token {
                Token::Mark(',') => {}
                Token::Mark(']') => return Ok(items),
                other => {
                    return Err(syntax_error(
                        next.place,
                        &other.show(),
                        "`,` or `]` in a list",
                        "put commas between the items",
                    ));
                }
            }
        }
    }

    fn range(
        &mut self,
        from: SourceValue,
        items: &mut Vec<SourceValue>,
    ) -> Result<(), ImportError> {
        let remedy = "write `disk0 .. disk7`";
        let place = self.next("`..`")?.place;
        let (to, _) = self.word("a name that ends in a number after `..`", remedy)?;
        let first = from.show();
        let ends = split_number(&first)
            .zip(split_number(&to))
            .filter(|((stem, low), (same, high))| stem == same && low <= high);
        let Some(((stem, low), (_, high))) =
            ends.filter(|((_, low), (_, high))| high - low < MAX_RANGE)
        else {
            return Err(syntax_error(
                place,
                &format!("`{first} .. {to}`"),
                "the same name with a number that rises",
                remedy,
            ));
        };
        items.extend((low..=high).map(|number| SourceValue {
            place: from.place.clone(),
            content: ValueContent::Word(format!("{stem}{number}")),
        }));
        Ok(())
    }

    fn instances(&mut self) -> Result<(Vec<String>, String), ImportError> {
        let remedy = "write `instantiate [ disk0 ] as NAME`";
        self.mark('[', "`[` after `instantiate`", remedy)?;
        let names = self.list(0)?.iter().map(SourceValue::show).collect();
        let (keyword, place) = self.word("`as` after the names", remedy)?;
        if keyword != "as" {
            return Err(syntax_error(
                place,
                &format!("`{keyword}`"),
                "`as` after the names",
                remedy,
            ));
        }
        Ok((names, self.word("a block's name after `as`", remedy)?.0))
    }

    /// The connections of components, which one drive does not need.
    fn topology(&mut self) -> Result<(), ImportError> {
        let remedy = "write `topology TYPE NAME [ … ]`";
        self.word("a type after `topology`", remedy)?;
        self.word("a name after the type", remedy)?;
        self.mark('[', "`[` after the name", remedy)?;
        let mut open = 1_usize;
        while open > 0 {
            match self.next("`]`, as many as `[`")?.token {
                Token::Mark('[') => open += 1,
                Token::Mark(']') => open -= 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// `disk12` as (`disk`, 12).
fn split_number(text: &str) -> Option<(String, u32)> {
    let stem = text.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((stem.to_owned(), text[stem.len()..].parse().ok()?))
}
