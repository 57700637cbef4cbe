//! The sources keep the project's rules of wording: widths, words, names, docs, and parameters.
//!
//! Each rule is a function from text to faults, and each has a test that plants a fault. A message
//! names the file, the line, and what to write instead.

use std::collections::{BTreeMap, BTreeSet};

use headtime_tidy::{RustLine, SourceFile, files, library_files, rust_lines};

/// Code and comments end at this column.
const RUST_COLUMNS: usize = 100;
/// Markdown ends at this column, tables and links excepted.
const MARKDOWN_COLUMNS: usize = 120;

/// Words that have a plainer replacement in comments and names.
const WORDS: &[(&str, &str)] = &[
    ("anew", "again, from scratch"),
    ("behind", "after (in time or order)"),
    ("believed", "modelled"),
    ("comb", "skew terms"),
    ("combing", "fit skews"),
    ("doubted", "rejected, too late"),
    ("errand", "CommandBatch"),
    ("favourite", "cheapest"),
    ("foreseen", "predicted"),
    ("foretell", "predict"),
    ("foretold", "predicted"),
    ("hidden", "overlapped"),
    ("nowhere", "Unknown"),
    ("owed", "entitled, entitlement"),
    ("payer", "tenant"),
    ("payers", "tenants"),
    ("pressing", "urgent"),
    ("reckon", "compute"),
    ("reckoned", "computed"),
    ("stray", "outlier"),
    ("strays", "outliers"),
    ("strip", "segment"),
    ("strips", "segments"),
    ("teeth", "skew terms"),
    ("tooth", "skew term"),
    ("wanted", "requested, pending"),
    ("who", "the client, the volume, the request"),
    ("whoever", "the client, the volume, the request"),
    ("whom", "the client, the volume, the request"),
];

/// Names, whole or as part of a longer one, that have a standard term.
const NAMES: &[(&str, &str)] = &[
    ("asked", "requested, or the options by name"),
    ("bell", "Notifier"),
    ("complaints", "LogLimiter"),
    ("desk", "ControlHandler"),
    ("go_by", "use, depend_on"),
    ("go_on", "step, advance"),
    ("grow", "extend"),
    ("in_vain", "rejected, too_late"),
    ("know_by", "identify_by"),
    ("known_by", "DriveIdentity"),
    ("knowledge", "one result type for each experiment"),
    ("lies", "Location"),
    ("look", "visit"),
    ("looks", "visited"),
    ("press", "urgent"),
    ("sight", "AngleSample"),
    ("sights", "angle_samples"),
    ("stock", "FairSemaphore"),
    ("take_in", "observe, ingest"),
    ("take_up", "resume"),
    ("told", "Command"),
    ("way_under", "Approach"),
    ("wish", "Acquire"),
];

/// Names of the standard library that contain one of the words.
const STANDARD_NAMES: &[&str] = &["strip_prefix", "strip_suffix"];

/// Turns of phrase that have a plainer replacement.
const PHRASES: &[(&str, &str)] = &[
    ("by parts", "by share, by fraction"),
    ("drawn unit", "simulated drive, instance"),
    ("goes by", "depends on, uses"),
    ("gone on with", "continued"),
    ("hangs on", "depends on"),
    ("in vain", "rejected, too late"),
    ("is said", "is logged, is reported"),
    ("left over", "unreserved, slack"),
    ("nobody can know", "unpredictable"),
    ("says so", "is logged, is reported, prints"),
    ("unless given", "[default: …]"),
    ("whose turn", "next in turn"),
];

/// Words with which the doc comment of an item does not begin.
const DOC_STARTS: &[&str] = &["How", "What", "When", "Where", "Whether", "Which", "Who", "Whose"];

/// Crates in which no visible function takes a `bool`.
const WITHOUT_BOOL: &[&str] = &["belief", "io", "probe", "sched"];

/// The crates that offer types of `io` to applications, under the same names and with the same
/// meanings.
const FACADES: &[&str] = &["headtime"];

/// A broken rule: the line, counted from 1, and what is wrong with it.
type Fault = (usize, String);

#[test]
fn lines_are_short_enough_to_read() {
    let rust = |file: &SourceFile| too_wide(&file.text, RUST_COLUMNS, |_| false);
    let mut faults = report(&files("rs"), rust);
    faults.extend(report(&files("md"), |file| too_wide_markdown(&file.text)));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn comments_names_and_texts_use_the_standard_words() {
    let faults = report(&files("rs"), |file| {
        // The rules themselves name the words.
        if file.crate_name() == "tidy" { Vec::new() } else { odd_words(&rust_lines(&file.text)) }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn item_docs_begin_with_a_noun_phrase_or_a_verb() {
    let faults = report(&files("rs"), |file| odd_docs(&rust_lines(&file.text)));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_public_type_name_stands_in_one_crate_only() {
    let faults = repeated_types(&library_files());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn visible_functions_of_the_core_take_no_bool() {
    let faults = report(&library_files(), |file| {
        if WITHOUT_BOOL.contains(&file.crate_name()) { bool_parameters(file) } else { Vec::new() }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_rule_finds_a_planted_fault() {
    let wide = "x".repeat(RUST_COLUMNS + 1);
    assert_eq!(too_wide(&wide, RUST_COLUMNS, |_| false).len(), 1);
    assert!(too_wide(&wide[1..], RUST_COLUMNS, |_| false).is_empty());
    let wide = "x".repeat(MARKDOWN_COLUMNS + 1);
    let page = format!("{wide}\n| {wide} |\nhttps://{wide}\n```\n{wide}\n```\n{}\n", &wide[1..]);
    assert_eq!(too_wide_markdown(&page).iter().map(|fault| fault.0).collect::<Vec<_>>(), [1]);
    let words = |text: &str| odd_words(&rust_lines(text));
    assert!(words("// The order that was foretold.")[0].1.contains("predicted"));
    assert!(words("let payer_count = 1;")[0].1.contains("tenant"));
    assert!(words("const MOST_TRIES: u8 = 1;")[0].1.contains("MAX_TRIES"));
    assert!(words("fn go_on() {}")[0].1.contains("step"));
    assert!(words("bail!(\"nothing was left over\")")[0].1.contains("unreserved"));
    assert!(words("// The `payer` column; lookup = 1").is_empty(), "code in comments is exempt");
    let docs = |text: &str| odd_docs(&rust_lines(text));
    assert_eq!(docs("/// Whether it fits.\nfn fits() {}").len(), 1);
    assert!(docs("/// The size.\n/// What follows is prose.\nfn size() {}").is_empty());
    let file = |krate: &str, text: &str| SourceFile {
        path: format!("crates/{krate}/src/lib.rs").into(),
        text: text.to_owned(),
    };
    let twice = [file("io", "pub struct Line;"), file("serve", "    pub enum Line {}")];
    assert_eq!(repeated_types(&twice).len(), 1);
    assert!(
        repeated_types(&[file("io", "pub struct Line;"), file("io", "struct Line;")]).is_empty()
    );
    let takes_bool = file("io", "impl A {\n    pub(crate) fn set(\n        on: bool,\n    ) {}\n}");
    assert_eq!(
        bool_parameters(&takes_bool),
        [(
            2,
            "`fn set` takes a bool: write a two-valued \
        enum, or two functions"
                .to_owned()
        )]
    );
    assert!(bool_parameters(&file("io", "pub fn is_on(&self) -> bool { true }")).is_empty());
}

/// Every fault as `path:line: message`.
fn report(files: &[SourceFile], rule: impl Fn(&SourceFile) -> Vec<Fault>) -> Vec<String> {
    files
        .iter()
        .flat_map(|file| {
            rule(file)
                .into_iter()
                .map(|(line, message)| format!("{}:{line}: {message}", file.path.display()))
        })
        .collect()
}

fn too_wide_markdown(text: &str) -> Vec<Fault> {
    let is_exempt = |line: &str| line.trim_start().starts_with('|') || line.contains("http");
    too_wide(text, MARKDOWN_COLUMNS, is_exempt)
}

fn too_wide(text: &str, columns: usize, is_exempt: impl Fn(&str) -> bool) -> Vec<Fault> {
    let mut in_table_or_code = false;
    text.lines()
        .enumerate()
        .filter(|(_, line)| {
            in_table_or_code ^= columns == MARKDOWN_COLUMNS && line.starts_with("```");
            line.chars().count() > columns && !is_exempt(line) && !in_table_or_code
        })
        .map(|(index, line)| {
            let width = line.chars().count();
            (index + 1, format!("{width} columns, at most {columns}: break the line"))
        })
        .collect()
}

fn odd_words(lines: &[RustLine]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut add = |word: &str, instead: &str| {
            faults.push((index + 1, format!("`{word}`: write {instead}")));
        };
        let comment = without_code(&line.comment);
        for word in words(&comment) {
            if let Some(instead) = replacement(WORDS, &word.to_lowercase()) {
                add(word, instead);
            }
        }
        let prose = format!("{comment}\n{}", line.strings).to_lowercase();
        for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| has_phrase(&prose, phrase)) {
            add(phrase, instead);
        }
        let is_name = |word: &&str| {
            !word.starts_with(|c: char| c.is_numeric()) && !STANDARD_NAMES.contains(word)
        };
        for name in words(&line.code).filter(is_name) {
            let parts = parts_of_name(name);
            let limit = [("least", "min"), ("most", "max")]
                .into_iter()
                .find(|(word, _)| parts.len() > 1 && parts[0] == *word);
            if let Some((word, instead)) = limit {
                let rest = &name[word.len()..];
                let upper = name.starts_with(|c: char| c.is_uppercase());
                let instead = if upper { instead.to_uppercase() } else { instead.to_owned() };
                add(name, &format!("{instead}{rest}"));
            }
            let whole = parts.join("_");
            for (word, instead) in WORDS.iter().filter(|(word, _)| parts.iter().any(|p| p == word))
            {
                add(name, &format!("another word for `{word}`: {instead}"));
            }
            let in_name = |word: &str| whole == word || word.contains('_') && whole.contains(word);
            for (word, instead) in NAMES.iter().filter(|(word, _)| in_name(word)) {
                add(name, &format!("another word for `{word}`: {instead}"));
            }
        }
    }
    faults
}

/// True if the text has the phrase as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    text.match_indices(phrase).any(|(at, _)| {
        let after = &text[at + phrase.len()..];
        !is_letter(text[..at].chars().next_back()) && !is_letter(after.chars().next())
    })
}

fn replacement<'t>(table: &[(&str, &'t str)], word: &str) -> Option<&'t str> {
    table.iter().find(|(listed, _)| *listed == word).map(|(_, instead)| *instead)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// A comment without what it quotes as code.
fn without_code(comment: &str) -> String {
    comment.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The words of a name: `go_on`, `GoOn` and `GO_ON` have the same two.
fn parts_of_name(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in name.split('_').filter(|piece| !piece.is_empty()) {
        let mut before_is_lower = false;
        parts.push(String::new());
        for c in piece.chars() {
            if c.is_uppercase() && before_is_lower {
                parts.push(String::new());
            }
            before_is_lower = !c.is_uppercase();
            parts.last_mut().expect("one was pushed").extend(c.to_lowercase());
        }
    }
    parts
}

fn odd_docs(lines: &[RustLine]) -> Vec<Fault> {
    let starts = |index: usize| index == 0 || !lines[index - 1].is_item_doc;
    let first_word = |line: &RustLine| words(&line.comment).next().unwrap_or("").to_owned();
    lines
        .iter()
        .enumerate()
        .filter(|(index, line)| line.is_item_doc && starts(*index))
        .filter(|(_, line)| DOC_STARTS.contains(&first_word(line).as_str()))
        .map(|(index, line)| {
            let message = format!(
                "a doc comment begins with \"{}\": begin with a noun phrase or a verb in the \
                 third person",
                first_word(line)
            );
            (index + 1, message)
        })
        .collect()
}

fn repeated_types(files: &[SourceFile]) -> Vec<String> {
    let mut crates_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| !FACADES.contains(&file.crate_name())) {
        for line in file.text.lines() {
            let mut words = line.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_type = words.next() == Some("pub")
                && matches!(words.next(), Some("struct" | "enum" | "trait" | "union" | "type"));
            if let Some(name) = words.next().filter(|_| is_type) {
                crates_of.entry(name).or_default().insert(file.crate_name());
            }
        }
    }
    crates_of
        .into_iter()
        .filter(|(_, crates)| crates.len() > 1)
        .map(|(name, crates)| {
            format!("`{name}` is a public type in {crates:?}: give each meaning a name of its own")
        })
        .collect()
}

fn bool_parameters(file: &SourceFile) -> Vec<Fault> {
    let code: Vec<String> = rust_lines(&file.text).into_iter().map(|line| line.code).collect();
    let text = code.join("\n");
    let mut faults = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        if !text[line_start..at].trim_start().starts_with("pub") {
            continue;
        }
        let signature = &text[at..];
        let end = signature.find(['{', ';']).unwrap_or(signature.len());
        let parameters = signature[..end].rsplit_once("->").map_or(&signature[..end], |(p, _)| p);
        let takes_bool = parameters.split(',').any(|parameter| {
            parameter.split_once(':').is_some_and(|(_, kind)| {
                kind.trim().trim_end_matches(')').trim().trim_end_matches(',') == "bool"
            })
        });
        if takes_bool {
            let name = words(&signature[3..]).next().unwrap_or("");
            let line = text[..at].matches('\n').count() + 1;
            let message =
                format!("`fn {name}` takes a bool: write a two-valued enum, or two functions");
            faults.push((line, message));
        }
    }
    faults
}
