//! Texts to [`Token`]s; a file named by `source FILE` replaces that statement.
//!
//! A word ends at a blank or one of `; { } , [ ] : ? =`; a `#` at the start of a word starts a
//! comment. A double quote starts a word that ends at the next one. Numbers are words at this
//! stage.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::SourceText;
use super::error::{ImportError, SourceLocation};

/// Maximum nesting of files; stops files that name themselves.
const MAX_DEPTH: usize = 32;
/// Maximum number of files per import.
const MAX_FILES: usize = 256;
/// Maximum number of tokens per import; the longest known description has 100,000.
const MAX_TOKENS: usize = 20_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Mark(char),
    /// `..`
    Range,
}

impl Token {
    /// The form in messages.
    pub(super) fn show(&self) -> String {
        match self {
            Self::Word(text) => format!("`{text}`"),
            Self::Mark(mark) => format!("`{mark}`"),
            Self::Range => "`..`".to_string(),
        }
    }
}

/// Finds a file by the naming file and the name; returns the text or the reason of its absence.
pub(super) type Find<'a> = &'a mut dyn FnMut(&str, &str) -> Result<SourceText, String>;

/// A file's name and its tokens, with included files spliced in.
pub(super) type FileTokens = (Arc<str>, Vec<LocatedToken>);

/// The files of an import: given ones and found ones.
pub(super) struct Library<'a> {
    given: Vec<GivenFile>,
    find: Find<'a>,
    /// Every file read, in order of reading.
    pub(super) read: Vec<Arc<str>>,
}

struct GivenFile {
    name: Arc<str>,
    text: Arc<str>,
    /// True if another file named it.
    named: bool,
}

impl<'a> Library<'a> {
    pub(super) fn new(given: &[SourceText], find: Find<'a>) -> Self {
        let given = given.iter().map(|file| GivenFile {
            name: Arc::from(file.name.as_str()),
            text: Arc::from(file.text.as_str()),
            named: false,
        });
        Self { given: given.collect(), find, read: Vec::new() }
    }

    pub(super) fn given_names(&self) -> String {
        self.given.iter().map(|file| &*file.name).collect::<Vec<&str>>().join(", ")
    }

    /// The given files whose text satisfies `is`.
    pub(super) fn given_files(&self, is: fn(&str) -> bool) -> Vec<(Arc<str>, Arc<str>)> {
        self.given
            .iter()
            .filter(|file| is(&file.text))
            .map(|file| (file.name.clone(), file.text.clone()))
            .collect()
    }

    /// The file called `name` at `place`: a given one with the same base name, else the caller's.
    pub(super) fn open(
        &mut self,
        place: &SourceLocation,
        name: &str,
    ) -> Result<(Arc<str>, Arc<str>), ImportError> {
        let refuse =
            |why: String| ImportError::File { place: place.clone(), name: name.to_owned(), why };
        if self.read.len() >= MAX_FILES {
            return Err(refuse(format!("{MAX_FILES} files are already read")));
        }
        let (name, text) =
            match self.given.iter_mut().find(|file| base_name(&file.name) == base_name(name)) {
                Some(given) => {
                    given.named = true;
                    (given.name.clone(), given.text.clone())
                }
                None => {
                    let found = (self.find)(&place.file, name).map_err(refuse)?;
                    (Arc::from(found.name.as_str()), Arc::from(found.text.as_str()))
                }
            };
        self.note_read(&name);
        Ok((name, text))
    }

    pub(super) fn note_read(&mut self, name: &Arc<str>) {
        if !self.read.contains(name) {
            self.read.push(name.clone());
        }
    }

    /// The tokens of all given files, except those whose text satisfies `skip` and those named by
    /// others.
    pub(super) fn tokens(
        &mut self,
        skip: fn(&str) -> bool,
    ) -> Result<Vec<FileTokens>, ImportError> {
        let mut all = Vec::new();
        for number in 0..self.given.len() {
            let (name, text) = (self.given[number].name.clone(), self.given[number].text.clone());
            if skip(&text) {
                continue;
            }
            self.note_read(&name);
            let mut tokens = Vec::new();
            self.splice(&name, &text, 0, &mut tokens)?;
            all.push((number, name, tokens));
        }
        Ok(all
            .into_iter()
            .filter(|(number, ..)| !self.given[*number].named)
            .map(|(_, name, tokens)| (name, tokens))
            .collect())
    }

    fn splice(
        &mut self,
        name: &Arc<str>,
        text: &str,
        depth: usize,
        out: &mut Vec<LocatedToken>,
    ) -> Result<(), ImportError> {
        let mut reader = Lexer { file: name, rest: text.chars().peekable(), line: 1, column: 1 };
        let mut source: Option<SourceLocation> = None;
        while let Some(next) = reader.next()? {
            if out.len() >= MAX_TOKENS {
                return Err(syntax_error(
                    next.place,
                    "yet another word",
                    format!("at most {MAX_TOKENS} in all files"),
                    "import fewer files at once",
                ));
            }
            match (source.take(), next.token) {
                (Some(_), Token::Word(name)) => {
                    if depth >= MAX_DEPTH {
                        let found = format!("`source {name}` inside {MAX_DEPTH} files");
                        return Err(syntax_error(
                            next.place,
                            &found,
                            "files that do not name each other in a circle",
                            "remove the innermost `source`",
                        ));
                    }
                    let (name, text) = self.open(&next.place, &name)?;
                    self.splice(&name, &text, depth + 1, out)?;
                }
                (Some(_), other) => {
                    return Err(syntax_error(
                        next.place,
                        &other.show(),
                        "a file's name after `source`",
                        "write `source FILE`",
                    ));
                }
                (None, Token::Word(word)) if word == "source" => source = Some(next.place),
                (None, token) => out.push(LocatedToken { token, place: next.place }),
            }
        }
        match source {
            Some(place) => Err(syntax_error(
                place,
                "`source` at the end of the file",
                "a file's name after it",
                "write `source FILE`",
            )),
            None => Ok(()),
        }
    }
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(super) struct LocatedToken {
    pub(super) token: Token,
    pub(super) place: SourceLocation,
}

struct Lexer<'t> {
    file: &'t Arc<str>,
    rest: core::iter::Peekable<core::str::Chars<'t>>,
    line: u32,
    column: u32,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Option<LocatedToken>, ImportError> {
        loop {
            let place =
                SourceLocation { file: self.file.clone(), line: self.line, column: self.column };
            let Some(first) = self.step() else { return Ok(None) };
            let token = match first {
                blank if blank.is_whitespace() => continue,
                '#' => {
                    while self.rest.peek().is_some_and(|next| *next != '\n') {
                        self.step();
                    }
                    continue;
                }
                '"' => Token::Word(self.quoted(&place)?),
                mark if is_mark(mark) => Token::Mark(mark),
                first => {
                    let mut word = String::from(first);
                    while let Some(next) = self
                        .rest
                        .peek()
                        .copied()
                        .filter(|next| !next.is_whitespace() && !is_mark(*next))
                    {
                        word.push(next);
                        self.step();
                    }
                    if word == ".." { Token::Range } else { Token::Word(word) }
                }
            };
            return Ok(Some(LocatedToken { token, place }));
        }
    }

    fn quoted(&mut self, opened: &SourceLocation) -> Result<String, ImportError> {
        let mut word = String::new();
        loop {
            match self.step() {
                Some('"') => return Ok(word),
                Some(inside) if inside != '\n' => word.push(inside),
                _ => {
                    return Err(syntax_error(
                        opened.clone(),
                        "a double quote that is not closed on its line",
                        "another one after the text",
                        "close it",
                    ));
                }
            }
        }
    }

    fn step(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(next)
    }
}

fn is_mark(c: char) -> bool {
    matches!(c, ';' | '{' | '}' | ',' | '[' | ']' | ':' | '?' | '=')
}

/// An error in the form of the text.
pub(super) fn syntax_error(
    place: SourceLocation,
    found: &str,
    expected: impl Into<String>,
    remedy: impl Into<String>,
) -> ImportError {
    ImportError::Syntax {
        place,
        found: found.to_string(),
        expected: expected.into(),
        remedy: remedy.into(),
    }
}

/// The last component of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}
