//! The live web page: one self-contained document at `/`, fed by server-sent events at `/events`.
//!
//! The page loads nothing from elsewhere, and its security policy forbids it to. While a page is
//! open, the server takes one snapshot per second and sends it to all pages as JSON
//! ([`event::WebEvent`]); while none is, it does nothing. The snapshot is that of the verb
//! `status`, so that the figures are equal.
//!
//! At most [`feed::MAX_PAGES`] pages are open at once. A page that does not read its events is
//! disconnected ([`feed`]).
//!
//! A page of another site must not read the figures through the user's browser. Browsers keep it
//! from reading other origins; a site whose name suddenly resolves to this machine is recognized by
//! that name ([`Hosts`]).

mod event;
mod feed;
mod platter;
mod waits;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};

pub(crate) use event::WebSource;
pub(crate) use feed::Feed;

use crate::http::{EventBody, HttpBody, HttpConnection, plain};

/// The names under which browsers may address the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Numbers of addresses and `localhost`.
    Local,
    /// Any name.
    Any,
}

impl Hosts {
    pub(crate) fn of(public: bool) -> Self {
        if public { Self::Any } else { Self::Local }
    }

    /// Returns true if a request with this `Host` is answered. Programs that are no browsers may
    /// leave it out.
    fn allow(self, host: Option<&HeaderValue>) -> bool {
        let (Self::Local, Some(host)) = (self, host) else { return true };
        let Ok(host) = host.to_str() else { return false };
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => host.split(':').next(),
        };
        name.is_some_and(|name| name == "localhost" || name.parse::<IpAddr>().is_ok())
    }
}

/// Answers one request.
pub(crate) fn answer(
    request: &Request<Incoming>,
    connection: &Arc<HttpConnection>,
    feed: &Feed,
    hosts: Hosts,
) -> Response<HttpBody> {
    let mut answer = if hosts.allow(request.headers().get(HOST)) {
        match request.uri().path() {
            "/" => page(),
            "/events" => events(connection, feed),
            _ => plain(StatusCode::NOT_FOUND, "there are / and /events\n".to_owned()),
        }
    } else {
        plain(
            StatusCode::FORBIDDEN,
            "this page is served as localhost and by the number of an address; for other names, \
                set web_public = true\n"
                .to_owned(),
        )
    };
    for (name, value) in [
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}

/// The document with its style and its script, which alone may run in it.
fn page() -> Response<HttpBody> {
    let Some(nonce) = nonce() else {
        let message = "the system gives no random numbers, so that the page cannot be protected\n";
        return plain(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned());
    };
    let text = include_str!("page.html")
        .replace("/* style */", include_str!("page.css"))
        .replace("/* script */", include_str!("page.js"))
        .replace("NONCE", &nonce);
    let policy = format!(
        "default-src 'none'; connect-src 'self'; img-src data:; script-src 'nonce-{nonce}'; \
            style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut page = Response::new(Either::Left(Full::new(Bytes::from(text))));
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let policy = HeaderValue::from_str(&policy).expect("it is plain ASCII");
    headers.insert("content-security-policy", policy);
    page
}

/// A number for one page, which no other script can know.
fn nonce() -> Option<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    Some(crate::state_file::hex(bytes))
}

fn events(connection: &Arc<HttpConnection>, feed: &Feed) -> Response<HttpBody> {
    let Some(events) = feed.subscribe(connection) else {
        let message = format!("{} pages are open already; close one of them\n", feed::MAX_PAGES);
        return plain(StatusCode::SERVICE_UNAVAILABLE, message);
    };
    connection.keep_streaming();
    let mut answer = Response::new(Either::Right(EventBody(events)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_another_site_could_have_are_refused() {
        for (host, allowed) in [
            ("localhost:9465", true),
            ("localhost", true),
            ("127.0.0.1:9465", true),
            ("[::1]:9465", true),
            ("192.0.2.7:80", true),
            ("example.com:9465", false),
            ("127.0.0.1.example.com", false),
            ("localhost.example.com:9465", false),
            ("[example]", false),
            ("", false),
        ] {
            let host = HeaderValue::from_static(host);
            assert_eq!(Hosts::Local.allow(Some(&host)), allowed, "{host:?}");
            assert!(Hosts::Any.allow(Some(&host)));
        }
        assert!(Hosts::Local.allow(None));
    }

    #[test]
    fn the_page_is_whole_and_names_no_other_resource() {
        let (html, style, script) =
            (include_str!("page.html"), include_str!("page.css"), include_str!("page.js"));
        for mark in ["/* style */", "/* script */"] {
            assert_eq!(html.matches(mark).count(), 1, "{mark}");
        }
        for text in [html, style, script] {
            for elsewhere in ["http:", "https:", "//www", "@import", "url(", "src="] {
                assert!(!text.contains(elsewhere), "{elsewhere}");
            }
            assert!(!text.contains("style=") && !text.contains("innerHTML"));
        }
    }
}
