//! Reads the workspace's sources as text: files, lines, and what in a line is code, comment, or
//! string. The tests of this crate hold the sources to the rules of the project.

use std::path::{Path, PathBuf};

/// A text file of the workspace.
#[derive(Debug)]
pub struct SourceFile {
    /// The path from the workspace's root.
    pub path: PathBuf,
    /// The contents.
    pub text: String,
}

impl SourceFile {
    /// The crate that the file belongs to (`sched` for `crates/sched/src/queue.rs`), or the top
    /// folder of any other file.
    pub fn crate_name(&self) -> &str {
        let mut parts = self.path.components().map(|part| part.as_os_str().to_str().unwrap_or(""));
        match parts.next() {
            Some("crates") => parts.next().unwrap_or(""),
            other => other.unwrap_or(""),
        }
    }
}

/// The root folder of the workspace.
///
/// # Panics
/// If the crate is not two folders below it.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/tidy is two folders below the root").to_path_buf()
}

/// The files of the workspace whose names end in `.extension`, without build output and dot
/// folders.
///
/// # Panics
/// If a folder or file cannot be read.
pub fn files(extension: &str) -> Vec<SourceFile> {
    let mut found = Vec::new();
    collect(&root(), &root(), extension, &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn collect(root: &Path, folder: &Path, extension: &str, found: &mut Vec<SourceFile>) {
    let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder entry is readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(root, &path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            let text = std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let path = path.strip_prefix(root).expect("the folder is below the root").to_path_buf();
            found.push(SourceFile { path, text });
        }
    }
}

/// The Rust files of the crates' libraries, without their tests.
///
/// # Panics
/// If a folder or file cannot be read.
pub fn library_files() -> Vec<SourceFile> {
    let mut found = files("rs");
    found.retain(|file| {
        let path = file.path.to_string_lossy();
        path.contains("/src/") && !path.contains("/tests/") && !path.ends_with("/tests.rs")
    });
    for file in &mut found {
        if let Some(start) = file.text.find("#[cfg(test)]\nmod tests {") {
            file.text.truncate(start);
        }
    }
    found
}

/// One line of Rust, split by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RustLine {
    /// The code, with each string literal replaced by `""`.
    pub code: String,
    /// The text of its comment, without the slashes.
    pub comment: String,
    /// The contents of its string literals, one space between two.
    pub strings: String,
    /// The comment documents the item that follows (`///`).
    pub is_item_doc: bool,
}

/// Splits Rust source into its lines.
pub fn rust_lines(text: &str) -> Vec<RustLine> {
    let mut state = Lexer::Code;
    text.lines().map(|line| split(line, &mut state)).collect()
}

/// The lexical state at the end of a line.
enum Lexer {
    Code,
    BlockComment,
    /// A string that ends with this delimiter.
    Text(String),
}

fn split(line: &str, state: &mut Lexer) -> RustLine {
    let mut found = RustLine::default();
    let mut rest = line;
    while !rest.is_empty() {
        match state {
            Lexer::BlockComment => match rest.split_once("*/") {
                Some((inside, after)) => {
                    found.comment.push_str(inside);
                    (*state, rest) = (Lexer::Code, after);
                }
                None => {
                    found.comment.push_str(rest);
                    return found;
                }
            },
            Lexer::Text(delimiter) => {
                let end = end_of_string(rest, delimiter);
                found.strings.push_str(&rest[..end.unwrap_or(rest.len())]);
                let Some(end) = end else { return found };
                rest = &rest[end + delimiter.len()..];
                found.strings.push(' ');
                *state = Lexer::Code;
            }
            Lexer::Code => {
                if let Some(comment) = rest.strip_prefix("//") {
                    found.is_item_doc = comment.starts_with('/') && !comment.starts_with("//");
                    found.comment = comment.trim_start_matches(['/', '!']).trim().to_owned();
                    return found;
                }
                if let Some(inside) = rest.strip_prefix("/*") {
                    (*state, rest) = (Lexer::BlockComment, inside);
                } else if let Some((start, delimiter)) = string_start(rest, &found.code) {
                    found.code.push_str("\"\"");
                    (*state, rest) = (Lexer::Text(delimiter), &rest[start..]);
                } else {
                    let length = char_literal(rest)
                        .unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
                    found.code.push_str(if length > 2 { "' '" } else { &rest[..length] });
                    rest = &rest[length..];
                }
            }
        }
    }
    found
}

/// The length of a string's opening and the delimiter that closes it.
fn string_start(rest: &str, before: &str) -> Option<(usize, String)> {
    if rest.starts_with('"') {
        return Some((1, "\"".to_owned()));
    }
    let in_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let opening = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let after_r = opening.strip_prefix('r').filter(|_| !in_word)?;
    let hashes = after_r.len() - after_r.trim_start_matches('#').len();
    let is_string = after_r[hashes..].starts_with('"');
    let length = rest.len() - after_r.len() + hashes + 1;
    is_string.then(|| (length, format!("\"{}", "#".repeat(hashes))))
}

fn end_of_string(rest: &str, delimiter: &str) -> Option<usize> {
    if delimiter.len() > 1 {
        return rest.find(delimiter);
    }
    let mut escaped = false;
    rest.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// The length of a character literal, which may hold a quotation mark.
fn char_literal(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        return inside[2..].find('\'').map(|end| end + 4);
    }
    let c = inside.chars().next()?;
    inside[c.len_utf8()..].starts_with('\'').then_some(c.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_strings_are_told_apart() {
        let lines = rust_lines(
            "/// Doc.\nlet a = \"x // y\"; // z\nlet b = r#\"q\" r\"#;\nlet c = '\"'; /* d */ e",
        );
        assert!(lines[0].is_item_doc && lines[0].comment == "Doc.");
        let [a, b, c] = [&lines[1], &lines[2], &lines[3]];
        assert_eq!((a.code.as_str(), a.comment.as_str()), ("let a = \"\"; ", "z"));
        assert_eq!(a.strings, "x // y ");
        assert_eq!((b.code.as_str(), b.strings.as_str()), ("let b = \"\";", "q\" r "));
        assert_eq!((c.code.as_str(), c.comment.as_str()), ("let c = ' ';  e", " d "));
    }

    #[test]
    fn strings_may_span_lines() {
        let lines = rust_lines("f(\"one \\\n   two \\\" three\", 4)");
        assert_eq!((lines[0].code.as_str(), lines[1].code.as_str()), ("f(\"\"", ", 4)"));
        assert!(lines[1].strings.contains("three"));
    }
}
