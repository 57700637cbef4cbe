//! The shell of every HTML page that the laboratory writes: one file that carries its style and
//! plots and fetches nothing. The library `maud` escapes every text.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A page with this title, style sheet and content.
pub(crate) fn page(title: &str, style: &str, content: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body { main { (content) } }
        }
    }
    .into_string()
}

/// `text` as markup.
pub(crate) fn escape(text: &str) -> String {
    html! { (text) }.into_string()
}

/// A plot as a part of a page: without a namespace, which HTML does not need, and without a fixed
/// size, so that it fits its column.
pub(crate) fn embedded(svg: &str) -> Markup {
    let attributes = svg.split_once('>').map_or("", |(opening, _)| opening);
    let size = |name: &str| {
        let start = attributes.find(&format!("{name}=\""))? + name.len() + 2;
        let rest = attributes.get(start..)?;
        Some(format!("{name}=\"{}\" ", &rest[..rest.find('"')?]))
    };
    let fixed: String = ["width", "height"].into_iter().filter_map(size).collect();
    let namespace = " xmlns=\"http://www.w3.org/2000/svg\"";
    PreEscaped(svg.replacen(&fixed, "role=\"img\" ", 1).replacen(namespace, "", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_become_markup() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        let page = page("a < b", "p { margin: 0 }", &html! { p { "x & y" } });
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<title>a &lt; b</title>"));
        assert!(page.contains("<style>p { margin: 0 }</style>") && page.contains("x &amp; y"));
    }

    #[test]
    fn a_plot_inside_a_page_has_neither_a_link_nor_a_fixed_size() {
        let svg = "<svg width=\"10\" height=\"20\" viewBox=\"0 0 10 20\" \
            xmlns=\"http://www.w3.org/2000/svg\">\n<rect width=\"3\"/></svg>";
        assert_eq!(
            embedded(svg).into_string(),
            "<svg role=\"img\" viewBox=\"0 0 10 20\">\n<rect width=\"3\"/></svg>"
        );
    }
}
