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
}
