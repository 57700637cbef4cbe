//! A strict look at markup: every element closed, every attribute quoted, nothing fetched from
//! elsewhere.

/// Elements of HTML that have no end.
const VOID: &[&str] = &["meta", "br", "hr", "img", "input", "link"];

/// Names of the elements in the order they open.
///
/// # Panics
/// When the markup is not well formed, with the place.
pub(crate) fn check_well_formed(text: &str) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let mut seen = Vec::new();
    let mut rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or(text);
    while let Some(start) = rest.find('<') {
        assert_no_bare_ampersand(&rest[..start]);
        let end = rest[start..]
            .find('>')
            .unwrap_or_else(|| panic!("an element is never finished: {}", excerpt(&rest[start..])))
            + start;
        let inside = &rest[start + 1..end];
        if let Some(name) = inside.strip_prefix('/') {
            let last = open.pop().unwrap_or_else(|| panic!("</{name}> closes nothing"));
            assert_eq!(
                last,
                name.trim(),
                "</{name}> closes <{last}> near {}",
                excerpt(&rest[end..])
            );
        } else {
            let closed = inside.ends_with('/');
            let inside = inside.trim_end_matches('/');
            let (name, attributes) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{name}> is no element");
            check_attributes(attributes);
            seen.push(name.to_string());
            if !closed && !VOID.contains(&name) {
                open.push(name.to_string());
            }
        }
        rest = &rest[end + 1..];
        // What a style holds is no markup.
        if open.last().is_some_and(|name| name == "style") {
            rest = &rest[rest.find("</style>").expect("a style ends")..];
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    seen
}

fn check_attributes(text: &str) {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, value) = rest
            .split_once("=\"")
            .unwrap_or_else(|| panic!("attribute without a quoted value: {}", excerpt(rest)));
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || "-:".contains(c)),
            "{name} is no attribute's name"
        );
        let end = value.find('"').unwrap_or_else(|| panic!("attribute {name} is never finished"));
        rest = value[end + 1..].trim_start();
    }
}

fn assert_no_bare_ampersand(text: &str) {
    for (place, _) in text.match_indices('&') {
        let entity = text[place..].split(';').next().unwrap_or("");
        assert!(
            entity.len() <= 8 && text[place..].contains(';'),
            "a bare ampersand: {}",
            excerpt(&text[place..])
        );
    }
}

fn excerpt(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}
